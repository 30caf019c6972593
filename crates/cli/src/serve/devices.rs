//! What can be served: one entry a device.
//!
//! An entry says what the device looks like on its bus ([`Identity`]), by which rules its
//! transactions are counted, and how fast its wire is. A new device is one more entry, and
//! an implementation of [`Served`] for its model. One on PCI Express with doorbell pages
//! says so in its identity: [`Capability::Express`] and [`Capability::MsiX`], a
//! [`Bar::Memory64`], and a [`Polled`](doorbell_vfio_user::Polled) for the pages.

use super::axi::axi_ethernet;
use super::bill::Bill;
use super::turns::{Around, run};
use crate::{Error, input};
use doorbell_bus::{Meter, axi, pci, pcie};
use doorbell_devices::e1000::{Config, E1000, Variant};
use doorbell_devices::mlx5::Mlx5;
use doorbell_hal::{Device, Reg, Time};
use doorbell_layout::mlx5::uar;
use doorbell_vfio_user::{Bar, Capability, Function, GuestPort, Identity, InBar, Polled, Watch};

/// A model that can be served.
pub(super) trait Served: Device<GuestPort<Bill>> {
    /// What it counted itself, by name.
    fn counters(&self) -> Vec<(&'static str, u64)>;
    /// The cable is pulled, or put in.
    fn set_cable(&mut self, port: &mut GuestPort<Bill>, at: Time, plugged: bool);
    /// The `n`th thing that it was asked and does not know, each once.
    fn unknown(&self, _n: usize) -> Option<String> {
        None
    }
}

/// A device that can be served.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: &'static str,
    /// One of [`PLATFORMS`], by name: what such a card sat on.
    pub(super) bus: &'static str,
    /// Of its wire.
    pub(super) bits_per_second: u64,
    pub(super) serve: Serve,
}

/// Serves until told to stop; a station address may be given.
type Serve = fn(&Entry, Option<[u8; 6]>, Bill, Around) -> Result<(), Error>;

/// The bus that the device is counted on.
#[derive(Debug)]
pub(super) struct Platform {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    rules: fn() -> Meter,
}

/// Those of PCs, whose bridges read 512 bytes ahead and whose cache lines have 64; and that of
/// cores on a chip.
pub(super) static PLATFORMS: [Platform; 6] = [
    Platform {
        name: "pci32",
        about: "PCI, 32 bits at 66 MHz, lines of 64 B, a bridge that reads 512 B ahead",
        rules: || pci(pci::Settings::POWER4.protocol, 66, 32),
    },
    Platform {
        name: "pci64",
        about: "PCI, 64 bits at 66 MHz, lines of 64 B, a bridge that reads 512 B ahead",
        rules: || pci(pci::Settings::POWER4.protocol, 66, 64),
    },
    Platform {
        name: "pcix",
        about: "PCI-X, 64 bits at 133 MHz, requests of up to 2048 B, blocks to 512 B",
        rules: || pci(pci::Protocol::X { mmrbc: 2048, outstanding: 1 }, 133, 64),
    },
    Platform {
        name: "pcie2x8",
        about: "PCI Express 2.0 x8, MPS 256, MRRS 512, an Ack and an UpdateFC per request",
        rules: || pcie(2, 8),
    },
    Platform {
        name: "pcie3x16",
        about: "PCI Express 3.0 x16, MPS 256, MRRS 512, an Ack and an UpdateFC per request",
        rules: || pcie(3, 16),
    },
    Platform {
        name: "axi",
        about: "AXI4, 64 bits, bursts of up to 16 beats",
        rules: || Meter::Axi(axi::Rules::new(axi::Settings::ZYNQMP).expect(WRITTEN_HERE)),
    },
];

const WRITTEN_HERE: &str = "settings that are written down here";

fn pci(protocol: pci::Protocol, mhz: u32, bits: u32) -> Meter {
    let settings = pci::Settings { protocol, mhz, bits, line: 64, ..pci::Settings::POWER4 };
    Meter::Pci(pci::Rules::new(settings).expect(WRITTEN_HERE))
}

fn pcie(generation: u32, lanes: u32) -> Meter {
    let rules = pcie::Rules::new(pcie::Settings::link(generation, lanes)).expect(WRITTEN_HERE);
    Meter::Pcie(rules, Box::new(pcie::DllpState::new(&rules)))
}

impl Platform {
    /// The one called `name`.
    pub(super) fn find(name: &str) -> Option<&'static Platform> {
        PLATFORMS.iter().find(|p| p.name == name)
    }

    pub(super) fn rules(&self) -> Meter {
        (self.rules)()
    }
}

/// All of them.
pub(super) static DEVICES: [Entry; 5] = [
    Entry {
        name: "e1000",
        bus: "pci32",
        bits_per_second: 1_000_000_000,
        serve: |e, mac, bill, around| e1000(e, Config::I82540EM, mac, bill, around),
    },
    Entry {
        name: "e1000-82544gc",
        bus: "pci64",
        bits_per_second: 1_000_000_000,
        serve: |e, mac, bill, around| e1000(e, Config::I82544GC, mac, bill, around),
    },
    Entry {
        name: "e1000-82545em",
        bus: "pcix",
        bits_per_second: 1_000_000_000,
        serve: |e, mac, bill, around| e1000(e, Config::I82545EM, mac, bill, around),
    },
    Entry { name: "mlx5", bus: "pcie3x16", bits_per_second: 100_000_000_000, serve: mlx5 },
    Entry { name: "axi-ethernet", bus: "axi", bits_per_second: 1_000_000_000, serve: axi_ethernet },
];

// ---- mlx5 ----

/// The first doorbell page that is handed out.
const MLX5_DOORBELLS: u32 = uar::PAGE * Mlx5::FIRST_UAR;
/// Arms of CQs, of EQs, EQ updates, and the four places of a send doorbell.
const MLX5_WORDS: [u16; 7] = [0x20, 0x40, 0x48, 0x800, 0x900, 0xa00, 0xb00];

/// A word of a doorbell page that is memory. Its value counts for event queues alone; the others'
/// is in doorbell records, for all queues that share the word.
fn mlx5_rung(d: &mut Mlx5, port: &mut GuestPort<Bill>, at: Time, r: Reg, v: u64) {
    if matches!(r.offset % uar::PAGE, uar::EQ_ARM | uar::EQ_UPDATE) {
        port.watch.register_write(at, r, 4, v, false);
        d.mmio_write(port, at, r, 4, v);
        return;
    }
    let found = d.look_again(at, |record| {
        let mut word = [0; 4];
        port.peek(record, &mut word).then_some(word)
    });
    for _ in 0..found {
        port.watch.register_write(at, r, 8, v, false);
    }
}

fn mlx5(entry: &Entry, mac: Option<[u8; 6]>, bill: Bill, around: Around) -> Result<(), Error> {
    use doorbell_devices::mlx5::Config;
    let polled = !around.trap_doorbells;
    let (mac, fail_every) = (mac.unwrap_or(Config::CONNECTX.mac), around.fail_every);
    let cfg = Config { mac, polled_doorbells: polled, fail_every, ..Config::CONNECTX };
    let at = |offset| InBar { bar: 0, offset };
    let identity = Identity {
        vendor: 0x15b3,
        device: 0x1017,
        subsystem: (0x15b3, 0x0008),
        revision: 0,
        class: 0x02_0000,
        bars: [Bar::Memory64(32 << 20), Bar::None, Bar::None, Bar::None, Bar::None, Bar::None],
        line: false,
        capabilities: vec![
            Capability::Power { resets: false },
            Capability::Express { speed: 3, width: 16 },
            Capability::MsiX { vectors: 64, table: at(0x2000), pending: at(0x3000) },
        ],
        polled: polled.then_some(Polled {
            first: at(MLX5_DOORBELLS),
            pages: 4,
            words: &MLX5_WORDS,
        }),
    };
    let function = Function::new(identity, Mlx5::new(cfg), bill)
        .map_err(|e| input!("{e}"))?
        .with_ring(mlx5_rung);
    run(entry, function, around)
}

impl Served for Mlx5 {
    fn counters(&self) -> Vec<(&'static str, u64)> {
        let mut all: Vec<_> = self.counters.entries().collect();
        all.extend(self.received().entries());
        let c = self.command_counters();
        all.extend([
            ("commands", c.commands),
            ("refused_commands", c.refused),
            ("unknown_commands", c.unknown),
            ("undelivered_commands", c.undelivered),
            ("lost_commands", c.lost),
        ]);
        all
    }

    fn unknown(&self, n: usize) -> Option<String> {
        let u = self.unknown_commands().get(n)?;
        Some(format!("command {:#x}, modifier {:#x}", u.opcode, u.modifier))
    }

    fn set_cable(&mut self, port: &mut GuestPort<Bill>, at: Time, plugged: bool) {
        Device::advance(self, port, at);
        self.set_carrier(port, at, plugged);
    }
}

// ---- e1000 ----

/// Registers, and the I/O window.
const E1000_MEMORY: u32 = 128 << 10;
const E1000_IO: u32 = 64;

fn e1000(
    entry: &Entry,
    cfg: Config,
    mac: Option<[u8; 6]>,
    bill: Bill,
    around: Around,
) -> Result<(), Error> {
    let cfg = Config { mac: mac.unwrap_or(cfg.mac), cache_line: 64, ..cfg };
    let mut capabilities = vec![Capability::Power { resets: true }];
    if cfg.variant != Variant::I82540Em {
        capabilities.push(Capability::PciX);
    }
    let identity = Identity {
        vendor: 0x8086,
        device: cfg.variant.device_id(),
        // Intel's own desktop adapter.
        subsystem: (0x8086, 0x001e),
        revision: 2,
        class: 0x02_0000,
        // BAR 1 would be the flash.
        bars: [
            Bar::Memory(E1000_MEMORY),
            Bar::None,
            Bar::Io(E1000_IO),
            Bar::None,
            Bar::None,
            Bar::None,
        ],
        line: true,
        capabilities,
        polled: None,
    };
    let function = Function::new(identity, E1000::new(cfg), bill).map_err(|e| input!("{e}"))?;
    run(entry, function, around)
}

impl Served for E1000 {
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.counters.entries().collect()
    }

    fn set_cable(&mut self, port: &mut GuestPort<Bill>, at: Time, plugged: bool) {
        E1000::set_cable(self, at, plugged);
        Device::advance(self, port, at);
    }
}
