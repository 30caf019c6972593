//! What the counts are at a moment, for people and for programs.

use crate::args::Format;
use crate::text::{Table, amount, count, heading};
use serde::ser::{Serialize, SerializeMap, Serializer};

/// All counts of a server.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) device: &'static str,
    /// By which bus's rules.
    pub(super) bus: &'static str,
    pub(super) connected: bool,
    pub(super) clients: u64,
    /// Name, what it is, how many.
    pub(super) ledger: Vec<(&'static str, &'static str, u64)>,
    /// Of the device itself.
    pub(super) counters: Vec<(&'static str, u64)>,
}

/// Numbers by name, as an object.
struct Named<T>(Vec<(&'static str, T)>);

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, v) in &self.0 {
            map.serialize_entry(name, v)?;
        }
        map.end()
    }
}

#[derive(serde::Serialize)]
struct Json {
    device: &'static str,
    bus: &'static str,
    clients: u64,
    frames: u64,
    ledger: Named<u64>,
    /// Of the ledger, divided by the frames; none without frames.
    per_packet: Named<f64>,
    device_counters: Named<u64>,
}

impl Report {
    /// Frames in both directions: what a count is divided by.
    fn frames(&self) -> u64 {
        self.ledger
            .iter()
            .filter(|(name, ..)| matches!(*name, "wire_frames" | "arrived_frames"))
            .map(|c| c.2)
            .sum()
    }

    pub(super) fn show(&self, format: Format) -> String {
        let frames = self.frames();
        if format == Format::Json {
            let json = Json {
                device: self.device,
                bus: self.bus,
                clients: self.clients,
                frames,
                ledger: Named(self.ledger.iter().map(|&(name, _, v)| (name, v)).collect()),
                per_packet: Named(match frames {
                    0 => vec![],
                    n => self
                        .ledger
                        .iter()
                        .map(|&(name, _, v)| (name, v as f64 / n as f64))
                        .collect(),
                }),
                device_counters: Named(self.counters.clone()),
            };
            return serde_json::to_string_pretty(&json)
                .unwrap_or_else(|e| unreachable!("plain counts serialise: {e}"))
                + "\n";
        }
        let plural = if self.clients == 1 { "" } else { "s" };
        let mut text = heading(&format!(
            "{}: {} frames, {} client{plural}",
            self.device,
            count(frames),
            self.clients
        ));
        text += &format!(" {}\n", self.bus);
        let mut table = Table::new("ledger", &["all", "per frame"], &[]);
        for (name, about, v) in self.ledger.iter().filter(|c| c.2 != 0) {
            let each = if frames > 0 { amount(*v as f64 / frames as f64) } else { "-".to_owned() };
            table.row(name, &[count(*v), each], about);
        }
        text += &table.finish();
        let mut table = Table::new("counted by the device", &["all"], &[]);
        for (name, v) in self.counters.iter().filter(|c| c.1 != 0) {
            table.row(name, &[count(*v)], "");
        }
        text + &table.finish()
    }
}
