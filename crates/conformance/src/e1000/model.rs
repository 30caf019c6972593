//! The backend of our own 82540EM, 82544GC and 82545EM, on conventional PCI and on PCI-X, and of
//! our 82574L on PCI Express.
//!
//! Time is the machine's: a frame takes its time on the wire, and the interrupt line has the time
//! of its rise, so cases judge the device's own times.

use super::{Backend, Capability, MAC, Unsupported};
use doorbell_bus::pci::{Protocol, Rules, Settings};
use doorbell_bus::{
    Bus as _, Capture, Costs, Machine, Pci, Pcie, Platform, ProtectionGranularity, pci::Latencies,
    pcie,
};
use doorbell_devices::e1000::{self as device, Slot, Speed};
use doorbell_drivers::e1000::{Bus, Config, Part};
use doorbell_hal::{Device, Fence, Host, RxVerdict, Span, Time, WorkKind};
use doorbell_testkit::reorder::{Order, Reorder};

/// A machine with the device, and one on PCI Express.
pub type System = Machine<Pci, device::E1000>;
/// A machine with the device on PCI Express.
pub type Express = Machine<Pcie, device::E1000>;

const WIDE: Slot = Slot::Pci { mhz66: true, wide: true };
const NARROW: Slot = Slot::Pci { mhz66: true, wide: false };
const PCIX: Slot = Slot::PciX { clock: 2 };

/// Each part in each kind of slot that it fits. The last one's driver and device are those of PCI
/// Express, whose [`Express`] bus is another type.
const CARDS: [(device::Config, Part, Slot); 6] = [
    (device::Config::I82540EM, Part::I82540, NARROW),
    (device::Config::I82544GC, Part::I82544, WIDE),
    (device::Config::I82545EM, Part::I82545, WIDE),
    (device::Config::I82544GC, Part::I82544, PCIX),
    (device::Config::I82545EM, Part::I82545, PCIX),
    EXPRESS,
];
const EXPRESS: (device::Config, Part, Slot) =
    (device::Config::I82574L, Part::I82574, Slot::Express { msi: false });

/// Returns the slot's settings for bus and driver. Both follow from the mode that the card is told,
/// since a card in PCI-X mode has PCI-X's errata.
fn bus(slot: Slot) -> (Settings, Bus) {
    match slot {
        Slot::Pci { wide, .. } => {
            (Settings { bits: if wide { 64 } else { 32 }, ..Settings::POWER4 }, Bus::Pci)
        }
        Slot::PciX { .. } => {
            let protocol = Protocol::X { mmrbc: 2048, outstanding: 1 };
            (Settings { protocol, mhz: 133, ..Settings::POWER4 }, Bus::PciX)
        }
        Slot::Express { .. } => (bus(PCIX).0, Bus::Express),
    }
}

/// The machine's own wire.
#[derive(Debug, Default)]
pub struct Model {
    sent: Vec<Vec<u8>>,
}

/// A machine, or one with something around it.
pub trait Around: Host {
    /// Its bus.
    type Bus: doorbell_bus::Bus<Sink = Capture>;
    /// The machine itself.
    fn system(&mut self) -> &mut Machine<Self::Bus, device::E1000>;
}

impl<B: doorbell_bus::Bus<Sink = Capture>> Around for Machine<B, device::E1000> {
    type Bus = B;
    fn system(&mut self) -> &mut Machine<B, device::E1000> {
        self
    }
}

impl<B: doorbell_bus::Bus<Sink = Capture>> Around for Reorder<Machine<B, device::E1000>> {
    type Bus = B;
    fn system(&mut self) -> &mut Machine<B, device::E1000> {
        &mut self.inner
    }
}

impl<H: Around> Backend<H> for Model {
    fn inject(&mut self, h: &mut H, frame: &[u8]) {
        // Preamble, delimiter, FCS and the gap between frames; the frame is there when it has
        // ended.
        h.delay(Speed::M1000.byte() * (frame.len().max(60) as u64 + 24));
        let taken = h.system().outside(|d, bus, at| d.receive(bus, at, frame));
        assert_ne!(taken, RxVerdict::Hold, "an Ethernet controller cannot hold back the wire");
    }
    fn collect(&mut self, h: &mut H) -> Option<Vec<u8>> {
        for _ in 0..100 {
            let sent = &mut self.sent;
            let drained = h.system().bus.sink_mut().drain(|_, f| {
                sent.push(f.to_vec());
                Ok::<(), ()>(())
            });
            assert_eq!(drained, Ok(()));
            if !self.sent.is_empty() {
                return Some(self.sent.remove(0));
            }
            if h.system().next_event() == Time::NEVER {
                break;
            }
            h.delay(Span::from_us(10));
        }
        None
    }
    fn wait(&mut self, h: &mut H, span: Span) {
        h.delay(span);
    }
    fn rose(&mut self, h: &mut H) -> Option<Time> {
        let now = h.now();
        let m = h.system();
        m.catch_up();
        m.bus.platform().line(0).filter(|since| *since <= now)
    }
    fn slack(&self) -> Span {
        Span::ZERO
    }
    fn settling(&self) -> Span {
        // Autonegotiation takes some two seconds.
        Span::from_ms(2500)
    }
    fn unsupported(&self) -> Unsupported<Capability> {
        &[]
    }
}

/// Returns one of the cards, with so much memory, and the driver's configuration for it.
pub fn numbered(n: usize, copy_align: bool, memory: usize) -> (System, Config) {
    card(CARDS[n % CARDS.len()], copy_align, Costs::FREE, memory)
}

fn card(
    (card, part, slot): (device::Config, Part, Slot),
    copy_align: bool,
    costs: Costs,
    memory: usize,
) -> (System, Config) {
    let platform = Platform::new(64 << 20, memory, ProtectionGranularity::Byte);
    let latencies = Latencies {
        cpu: Span::from_ns(50),
        memory: Span::from_ns(100),
        register: Span::from_ns(100),
    };
    let (settings, bus) = bus(slot);
    let rules = Rules::new(settings).unwrap();
    let nic = device::Config { mac: MAC, slot, ..card };
    let mut pci = Pci::new(platform, rules, latencies, 0xfebc_0000);
    pci.sink_mut().start();
    let h = Machine::new(pci, device::E1000::new(nic), costs, 1);
    (h, Config { copy_align, io: None, ..Config::new(part, bus) })
}

/// Runs `f` on the 82574L on PCI Express, with the copy of small frames and without.
pub fn on_express(f: impl Fn(&mut Express, &mut Model, &Config)) {
    for copy_align in [false, true] {
        let platform = Platform::new(64 << 20, 64 << 20, ProtectionGranularity::Byte);
        let latencies = pcie::Latencies { link: Span::from_ns(150), memory: Span::from_ns(250) };
        let rules = pcie::Rules::new(pcie::Settings::link(1, 1)).unwrap();
        let nic = device::Config { mac: MAC, ..EXPRESS.0 };
        let mut pcie = Pcie::new(platform, rules, latencies, 0xfebc_0000);
        pcie.sink_mut().start();
        let mut h = Machine::new(pcie, device::E1000::new(nic), Costs::FREE, 1);
        let c = Config { copy_align, ..Config::new(EXPRESS.1, Bus::Express) };
        f(&mut h, &mut Model::default(), &c);
        is_even(&mut h, &format!("82574L on PCI Express, copy_align {copy_align}"));
    }
}

/// All that was lent and taken has come back, and the card is well.
fn is_even<B: doorbell_bus::Bus>(h: &mut Machine<B, device::E1000>, what: &str) {
    h.flush_posted();
    let l = h.ledger();
    assert_eq!((l.maps, l.buffers_taken), (l.unmaps, l.buffers_released), "{what}");
    assert_eq!((l.dma_faults, h.device.counters.hangs), (0, 0), "{what}");
    assert_eq!(h.bus.platform().memory.mapped(), (0, 0), "{what}");
}

/// Runs `f` on each card, with the copy of small frames and without.
pub fn on_each(f: impl Fn(&mut System, &mut Model, &Config)) {
    for nic in CARDS {
        for copy_align in [false, true] {
            let what = format!("{:?} in {:?}, copy_align {copy_align}", nic.1, nic.2);
            println!("{what}");
            let (mut h, c) = card(nic, copy_align, Costs::FREE, 64 << 20);
            f(&mut h, &mut Model::default(), &c);
            is_even(&mut h, &what);
        }
    }
}

/// Runs `f` on the first card, on a CPU that reorders stores; how many passed an older one. A fence
/// that is `ignored` does nothing.
pub fn on_reordered(
    order: Order,
    ignored: Option<Fence>,
    copy_align: bool,
    f: impl Fn(&mut Reorder<System>, &mut Model, &Config),
) -> u64 {
    // While a packet is handed up, others land.
    let mut costs = Costs::FREE;
    costs.work[WorkKind::RxPacket as usize].each = Span::from_us(1);
    let (h, c) = card(CARDS[0], copy_align, costs, 64 << 20);
    let mut h = Reorder::new(h, order);
    h.ignored = ignored;
    f(&mut h, &mut Model::default(), &c);
    let passed = h.passed();
    is_even(&mut h.into_inner(), &format!("{order:?}"));
    passed
}
