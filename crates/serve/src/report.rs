//! The counts of a server at one moment, for people and for programs.

use doorbell_bus::Ledger;
use doorbell_console::render::{Document, Format, NUMBER, count, each, flat, numbers};
use doorbell_hal::EventSource;
use indexmap::IndexMap;
use schemars::JsonSchema;

/// All counts of a server.
#[derive(Debug)]
pub struct Report {
    /// The device.
    pub device: &'static str,
    /// The bus by whose rules it is counted.
    pub bus: &'static str,
    /// A client is connected.
    pub connected: bool,
    /// Clients so far.
    pub clients: u64,
    /// Name, description and count.
    pub ledger: Vec<(&'static str, &'static str, u64)>,
    /// Counters of the device itself.
    pub counters: Vec<(&'static str, u64)>,
}

/// The counts of a server, for programs.
#[derive(Debug, serde::Serialize, JsonSchema)]
pub struct Served {
    device: &'static str,
    /// The rules by which it is counted.
    bus: &'static str,
    /// Connections so far.
    clients: u64,
    /// Frames in both directions.
    frames: u64,
    ledger: IndexMap<&'static str, u64>,
    /// The ledger by frame; empty without frames.
    per_packet: IndexMap<&'static str, f64>,
    /// Counters of the device itself.
    device_counters: IndexMap<&'static str, u64>,
}

impl Report {
    /// Returns the frames in both directions, the divisor of counts per frame.
    fn frames(&self) -> u64 {
        let frames = |name: &str| matches!(name, "wire_frames" | "arrived_frames");
        self.ledger.iter().filter(|c| frames(c.0)).map(|c| c.2).sum()
    }

    /// Returns the frames that left by an offload with a wrong checksum.
    pub fn wrong_on_the_wire(&self) -> u64 {
        self.counters.iter().filter(|c| c.0 == "wire_bad_checksums").map(|c| c.1).sum()
    }

    /// Renders it.
    pub fn show(&self, format: Format) -> String {
        let frames = self.frames() as f64;
        let per_packet = self.ledger.iter().filter(|_| frames > 0.0);
        let data = Served {
            device: self.device,
            bus: self.bus,
            clients: self.clients,
            frames: self.frames(),
            ledger: self.ledger.iter().map(|&(name, _, v)| (name, v)).collect(),
            per_packet: per_packet.map(|&(n, _, v)| (n, v as f64 / frames)).collect(),
            device_counters: self.counters.iter().copied().collect(),
        };
        let plural = if self.clients == 1 { "" } else { "s" };
        let mut doc = Document::titled(format!(
            "{}: {} frames, {} client{plural}",
            self.device,
            count(self.frames()),
            self.clients
        ));
        doc.line(self.bus);
        let mut table = numbers("ledger", &["all", "per frame"], NUMBER);
        for (name, about, v) in self.ledger.iter().filter(|c| c.2 != 0) {
            table.noted([*name, &count(*v), &each(*v as f64, frames)], about);
        }
        doc.table(table);
        let mut table = numbers("counted by the device", &["all"], NUMBER);
        for (name, v) in self.counters.iter().filter(|c| c.1 != 0) {
            table.row([*name, &count(*v)]);
        }
        doc.table(table);
        let mut all = flat([&data]).remove(0);
        all.extend(data.per_packet.iter().map(|(name, v)| ((*name).to_owned(), (*v).into())));
        doc.with(vec![all]).show(format, "serve", &data)
    }
}

/// Returns the counters of a device by name.
pub(crate) fn counters(device: &impl EventSource) -> Vec<(&'static str, u64)> {
    let mut all = Vec::new();
    device.counters(&mut |name, n| all.push((name, n)));
    all
}

/// Returns all counts of a ledger with their descriptions.
pub(crate) fn entries(ledger: &Ledger) -> Vec<(&'static str, &'static str, u64)> {
    ledger.counters().map(|(c, v)| (c.name, c.about, v)).collect()
}
