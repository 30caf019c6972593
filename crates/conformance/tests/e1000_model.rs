//! The e1000 driver on our own 82540EM, 82544GC and 82545EM, on a conventional PCI
//! bus: bodies that QEMU's models judge too. Large sends and the times of interrupts
//! are not among them yet: there the two do not agree on this bus.

use doorbell_bus::pci::{Rules, Settings};
use doorbell_bus::{Bus, Costs, Guard, Machine, Pci, Platform, parallel::Latencies};
use doorbell_conformance::e1000::{self as body, Arm, Lacks};
use doorbell_devices::e1000 as device;
use doorbell_drivers::e1000::{Bus as Slot, Config, Eeprom, Part};
use doorbell_seam::{Device, Host, Span, Taken, Time};

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
const NICS: [(device::Config, Part); 3] = [
    (device::Config::I82540EM, Part::I82540),
    (device::Config::I82544GC, Part::I82544),
    (device::Config::I82545EM, Part::I82545),
];

type System = Machine<Pci, device::E1000>;

/// The machine's own wire.
#[derive(Default)]
struct Model {
    sent: Vec<Vec<u8>>,
}

impl Arm<System> for Model {
    fn inject(&mut self, h: &mut System, frame: &[u8]) {
        // Back-pressure: the frame is offered again a little later.
        for _ in 0..1000 {
            if h.outside(|d, bus, at| d.receive(bus, at, frame)) != Taken::Hold {
                break;
            }
            h.delay(Span::from_us(1));
        }
        h.delay(Span::from_us(20));
    }
    fn collect(&mut self, h: &mut System) -> Option<Vec<u8>> {
        for _ in 0..100 {
            let sent = &mut self.sent;
            let drained = h.bus.platform_mut().drain_capture(|_, f| {
                sent.push(f.to_vec());
                Ok::<(), ()>(())
            });
            assert_eq!(drained, Ok(()));
            if !self.sent.is_empty() {
                return Some(self.sent.remove(0));
            }
            if h.next_event() == Time::NEVER {
                break;
            }
            h.delay(Span::from_us(10));
        }
        None
    }
    fn wait(&mut self, h: &mut System, span: Span) {
        h.delay(span);
    }
    fn interrupt(&mut self, h: &mut System) -> bool {
        h.catch_up();
        h.bus.platform().line(0).is_some_and(|since| since <= h.now())
    }
    fn settling(&self) -> Span {
        // Autonegotiation takes some two seconds.
        Span::from_ms(2500)
    }
    fn lacks(&self) -> Lacks {
        &[]
    }
}

/// Runs `f` on each part, with the copy of small frames and without; all that was lent and taken comes back.
fn on_each(f: impl Fn(&mut System, &mut Model, &Config)) {
    for (nic, part) in NICS {
        for copy_align in [false, true] {
            let mut platform = Platform::new(64 << 20, 64 << 20, Guard::Byte);
            platform.capture();
            let latencies =
                Latencies { cpu: Span::from_ns(50), memory: Span::from_ns(100), register: Span::from_ns(100) };
            let bus = Pci::new(platform, Rules::new(Settings::POWER4).unwrap(), latencies, 0xfebc_0000);
            let nic = device::Config { mac: MAC, ..nic };
            let mut h = Machine::new(bus, device::E1000::new(nic), Costs::FREE, 1);
            let c = Config { copy_align, io: None, ..Config::new(part, Slot::Pci) };
            f(&mut h, &mut Model::default(), &c);
            h.flush_posted();
            let l = h.ledger();
            assert_eq!((l.maps, l.buffers_taken), (l.unmaps, l.buffers_released), "{part:?}, copy_align {copy_align}");
            assert_eq!(l.dma_faults, 0, "{part:?}, copy_align {copy_align}");
            assert_eq!(h.bus.platform().memory.lent(), (0, 0), "{part:?}, copy_align {copy_align}");
        }
    }
}

#[test]
fn eeprom_and_phy() {
    on_each(|h, a, c| {
        for eeprom in [Eeprom::Microwire, Eeprom::Eerd] {
            body::eeprom_and_phy(h, a, &Config { eeprom, ..*c }, MAC);
        }
    });
}
#[test]
fn transmit() {
    on_each(body::transmit);
}
#[test]
fn scatter() {
    on_each(body::scatter);
}
#[test]
fn checksum_offload() {
    on_each(body::checksum_offload);
}
#[test]
fn vlan() {
    on_each(body::vlan);
}
#[test]
fn vlan_in_software() {
    on_each(|h, a, c| body::vlan(h, a, &Config { vlan: false, ..*c }));
}
#[test]
fn receive() {
    on_each(|h, a, c| {
        for rx_align in [0, 2] {
            body::receive(h, a, &Config { rx_align, ..*c });
        }
    });
}
#[test]
fn receive_several_buffers() {
    on_each(body::receive_several_buffers);
}
#[test]
fn filter() {
    on_each(body::filter);
}
#[test]
fn ring_wrap_and_stop() {
    on_each(body::ring_wrap_and_stop);
}
#[test]
fn statistics() {
    on_each(body::statistics);
}
#[test]
fn reset_and_reopen() {
    on_each(body::reset_and_reopen);
}
