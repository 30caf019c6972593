//! The devices that can be served over vfio-user.
//!
//! A [`PciDevice`] has the identity of a device on its bus, the rules by which its transactions are
//! counted, and the rate of its wire. PCI Express with doorbell pages takes
//! [`Capability::Express`], [`Capability::MsiX`], a [`Bar::Memory64`] and a [`PolledPages`] in the
//! identity.

use super::axi::axi_ethernet;
use super::context::{ServeContext, SharedBill};
use super::vfio::{Card, bars, serve};
use doorbell_bus::{Meter, axi, pci, pcie};
use doorbell_console::Error;
use doorbell_devices::e1000::{Config, E1000, Variant};
use doorbell_devices::mlx5::Mlx5;
use doorbell_hal::{Device, Port, Reg, Time};
use doorbell_layout::mlx5::uar;
use doorbell_vfio_user::{
    Bar, BarOffset, Capability, Crossing, Function, GuestPort, Identity, Observer, PolledPages,
};
use std::io;

/// A device that can be served.
pub struct PciDevice {
    pub(super) name: &'static str,
    /// The bus of such a card, one of [`PLATFORMS`] by name.
    pub(super) bus: &'static str,
    /// The rate of its wire.
    pub(super) bits_per_second: u64,
    /// Serves it until a signal stops it.
    pub(super) serve: fn(Card, SharedBill, ServeContext) -> Result<u8, Error>,
}

impl std::fmt::Debug for PciDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PciDevice").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A model of a PCI device of a program's own.
pub trait Model {
    /// Its name, for `serve` and `guest`.
    const NAME: &'static str;
    /// The bus by whose rules it is counted unless `--bus` names another: pci32, pci64, pcix,
    /// pcie1x1, pcie2x16 or pcie3x16.
    const BUS: &'static str;
    /// The rate of its wire.
    const BITS_PER_SECOND: u64;
    /// The device.
    type Device<P: Port>: Device<P>;

    /// Returns what a guest finds on its bus.
    fn identity() -> Identity;
    /// Makes a device, with this address if one was given.
    fn device<P: Port>(mac: Option<[u8; 6]>) -> Self::Device<P>;
}

impl PciDevice {
    /// Returns the device of a model.
    pub const fn of<M: Model>() -> PciDevice {
        PciDevice {
            name: M::NAME,
            bus: M::BUS,
            bits_per_second: M::BITS_PER_SECOND,
            serve: |card, bill, c| {
                let device = M::device::<GuestPort<SharedBill>>(card.mac);
                serve(card, Function::new(M::identity(), device, bill.clone()), bill, c)
            },
        }
    }
}

/// A bus by whose rules a device is counted.
pub(super) struct Platform {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    rules: fn() -> Meter,
}

/// The buses of PCs, with bridges that read 512 bytes ahead and cache lines of 64 bytes, and the
/// bus of cores on a chip.
pub(super) static PLATFORMS: [Platform; 7] = [
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
        name: "pcie1x1",
        about: "PCI Express 1.1 x1, MPS 256, MRRS 512",
        rules: || pcie(1, 1),
    },
    Platform {
        name: "pcie2x16",
        about: "PCI Express 2.0 x16, MPS 256, MRRS 512",
        rules: || pcie(2, 16),
    },
    Platform {
        name: "pcie3x16",
        about: "PCI Express 3.0 x16, MPS 256, MRRS 512",
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
    Meter::Pcie(rules)
}

impl Platform {
    pub(super) fn find(name: &str) -> Option<&'static Platform> {
        PLATFORMS.iter().find(|p| p.name == name)
    }

    pub(super) fn rules(&self) -> Meter {
        (self.rules)()
    }
}

pub(super) static DEVICES: [PciDevice; 6] = [
    PciDevice {
        name: "e1000",
        bus: "pci32",
        bits_per_second: 1_000_000_000,
        serve: |card, bill, c| e1000(Config::I82540EM, card, bill, c),
    },
    PciDevice {
        name: "e1000-82544gc",
        bus: "pci64",
        bits_per_second: 1_000_000_000,
        serve: |card, bill, c| e1000(Config::I82544GC, card, bill, c),
    },
    PciDevice {
        name: "e1000-82545em",
        bus: "pcix",
        bits_per_second: 1_000_000_000,
        serve: |card, bill, c| e1000(Config::I82545EM, card, bill, c),
    },
    PciDevice {
        name: "e1000-82574l",
        bus: "pcie1x1",
        bits_per_second: 1_000_000_000,
        serve: |card, bill, c| e1000(Config::I82574L, card, bill, c),
    },
    PciDevice { name: "mlx5", bus: "pcie3x16", bits_per_second: 100_000_000_000, serve: mlx5 },
    PciDevice {
        name: "axi-ethernet",
        bus: "axi",
        bits_per_second: 1_000_000_000,
        serve: axi_ethernet,
    },
];

// ---- mlx5 ----

/// The first doorbell page for drivers.
const MLX5_DOORBELLS: u32 = uar::PAGE * Mlx5::FIRST_UAR;
/// Offsets of CQ arms, EQ arms, EQ updates, and the four places of a send doorbell.
const MLX5_WORDS: [u16; 7] = [0x20, 0x40, 0x48, 0x800, 0x900, 0xa00, 0xb00];

/// Handles a word of a polled doorbell page. Its value is used for event queues only; other queues
/// have their values in doorbell records, and may share the word.
fn mlx5_rung(d: &mut Mlx5, port: &mut GuestPort<SharedBill>, at: Time, r: Reg, v: u64) {
    if matches!(r.offset % uar::PAGE, uar::EQ_ARM | uar::EQ_UPDATE) {
        port.observer.crossed(at, Crossing::RegisterWrite(r, 4, v, false));
        d.mmio_write(port, at, r, 4, v);
        return;
    }
    let found = d.look_again(at, |record| {
        let mut word = [0; 4];
        port.peek(record, &mut word).then_some(word)
    });
    for _ in 0..found {
        port.observer.crossed(at, Crossing::RegisterWrite(r, 8, v, false));
    }
}

fn mlx5(card: Card, bill: SharedBill, c: ServeContext) -> Result<u8, Error> {
    serve(card, mlx5_function(card, &bill), bill, c)
}

/// Returns an mlx5 card.
pub(super) fn mlx5_function(
    card: Card,
    bill: &SharedBill,
) -> io::Result<Function<Mlx5, SharedBill>> {
    use doorbell_devices::mlx5::Config;
    let polled = !card.trap_doorbells;
    let (mac, fail_every) = (card.mac.unwrap_or(Config::CONNECTX.mac), card.fail_every);
    let cfg = Config { mac, polled_doorbells: polled, fail_every, ..Config::CONNECTX };
    let at = |offset| BarOffset { bar: 0, offset };
    let pages = PolledPages { first: at(MLX5_DOORBELLS), pages: 4, words: &MLX5_WORDS };
    let identity = Identity {
        vendor: 0x15b3,
        device: 0x1017,
        subsystem: (0x15b3, 0x0008),
        revision: 0,
        class: 0x02_0000,
        bars: bars([Bar::Memory64(32 << 20)]),
        line: false,
        capabilities: vec![
            Capability::Power { resets: false },
            Capability::Express { speed: 3, width: 16 },
            Capability::MsiX { vectors: 64, table: at(0x2000), pending: at(0x3000) },
        ],
        polled: polled.then_some(pages),
    };
    let function = Function::new(identity, Mlx5::new(cfg), bill.clone())?;
    Ok(function.with_doorbell_handler(mlx5_rung))
}

// ---- e1000 ----

/// Sizes of the registers and of the I/O window.
const E1000_MEMORY: u32 = 128 << 10;
const E1000_IO: u32 = 64;

fn e1000(cfg: Config, card: Card, bill: SharedBill, c: ServeContext) -> Result<u8, Error> {
    serve(card, e1000_function(cfg, card, &bill), bill, c)
}

/// Returns a card of the e1000 family.
pub(super) fn e1000_function(
    cfg: Config,
    card: Card,
    bill: &SharedBill,
) -> io::Result<Function<E1000, SharedBill>> {
    let cfg = Config { mac: card.mac.unwrap_or(cfg.mac), cache_line: 64, ..cfg };
    let express = cfg.variant == Variant::I82574L;
    let at = |offset| BarOffset { bar: 3, offset };
    let capabilities = match cfg.variant {
        Variant::I82540Em => vec![Capability::Power { resets: true }],
        Variant::I82544Gc | Variant::I82545Em => {
            vec![Capability::Power { resets: true }, Capability::PciX]
        }
        Variant::I82574L => vec![
            Capability::Power { resets: false },
            Capability::Msi(1),
            Capability::Express { speed: 1, width: 1 },
            Capability::MsiX { vectors: 5, table: at(0), pending: at(0x2000) },
        ],
    };
    let identity = Identity {
        vendor: 0x8086,
        device: cfg.variant.device_id(),
        // Intel's desktop adapters.
        subsystem: (0x8086, if express { 0xa01f } else { 0x001e }),
        revision: 2,
        class: 0x02_0000,
        // BAR 1 would be the flash.
        bars: match express {
            false => bars([Bar::Memory(E1000_MEMORY), Bar::None, Bar::Io(E1000_IO)]),
            true => bars([
                Bar::Memory(E1000_MEMORY),
                Bar::None,
                Bar::Io(E1000_IO / 2),
                Bar::Memory(16 << 10),
            ]),
        },
        line: true,
        capabilities,
        polled: None,
    };
    Function::new(identity, E1000::new(cfg), bill.clone())
}
