//! The axienet driver on our own AXI Ethernet and AXI DMA, on an AXI bus: the bodies that
//! QEMU's models judge too, and full checksum offload, which QEMU's lack.
//!
//! Each runs on a core with addresses of 32 bits and on one with 64 and memory above
//! 4 GiB, with receive buffers on a line and two bytes behind it.

use doorbell_bus::axi::{Latencies, Rules, Settings};
use doorbell_bus::{Axi, Bus, Costs, Guard, Machine, Platform};
use doorbell_conformance::axienet::{self as body, Arm, Fact, Lacks};
use doorbell_devices::axi_ethernet as device;
use doorbell_drivers::axienet::{Axienet, Checksum, Coalesce, Config};
use doorbell_drivers::{Driver, Poll, Sink, Tx};
use doorbell_layout::axienet::line;
use doorbell_packet::headers::{Check, prepare_partial, verify};
use doorbell_packet::{Packet, Piece, Todo};
use doorbell_seam::{Buf, Device, Host, Place, Span, Taken, Time};

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
const PHY: u8 = 5;
/// A TI DP83867.
const PHY_ID: u32 = 0x2000_a231;

type System = Machine<Axi, device::AxiEthernet>;

/// The machine's own wire.
#[derive(Default)]
struct Model {
    sent: Vec<Vec<u8>>,
}

impl Arm<System> for Model {
    fn inject(&mut self, h: &mut System, frame: &[u8]) {
        let taken = h.outside(|d, bus, at| d.receive(bus, at, frame));
        assert_ne!(taken, Taken::Hold, "it has no back-pressure but its memory");
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
    fn interrupt(&mut self, h: &mut System, n: u16) -> bool {
        h.catch_up();
        h.bus.platform().line(n).is_some_and(|since| since <= h.now())
    }
    fn delay_unit(&self) -> Span {
        // 125 clocks at 125 MHz.
        Span::from_us(1)
    }
    fn lacks(&self) -> Lacks {
        &[(Fact::FullChecksum, "this core is built with partial checksums")]
    }
}

/// The machine, with a core of so many address bits.
fn system(address_bits: u32, checksum: device::Checksum) -> System {
    let base = if address_bits > 32 { 5 << 30 } else { 64 << 20 };
    let mut platform = Platform::new(base, 64 << 20, Guard::Byte);
    platform.capture();
    let bus = Axi::new(platform, Rules::new(Settings::ZYNQMP).unwrap(), Latencies::ZYNQMP);
    let core = device::Config {
        address_bits,
        tx_checksum: checksum,
        rx_checksum: checksum,
        phy: Some(PHY),
        ..device::Config::ZYNQMP
    };
    Machine::new(bus, device::AxiEthernet::new(core), Costs::FREE, 1)
}

fn config(address_bits: u32, offset: u32) -> Config {
    Config {
        rx_ring: 32,
        rx_place: Place { align: 64, offset },
        address_bits: address_bits as u8,
        mdio_clock_hz: 125_000_000,
        phy: Some(PHY),
        ..Config::new(MAC)
    }
}

/// All that was lent and taken came back, and the device and the ledger tell the same.
fn audit(h: &mut System, faults: u64) {
    h.flush_posted();
    let (l, c) = (h.ledger(), h.device.counters);
    assert_eq!((l.maps, l.buffers_taken, l.dma_faults), (l.unmaps, l.buffers_released, faults));
    assert_eq!(h.bus.platform().memory.lent(), (0, 0));
    assert_eq!((l.wire_frames, l.wire_bytes), (c.tx_packets, c.tx_bytes));
    // Descriptors are 52 bytes read, and 4 or 24 written.
    assert_eq!(l.axi_read_bytes, c.data_read_bytes + 52 * c.fetches);
    assert!(l.axi_write_bytes >= c.data_write_bytes + 4 * (c.tx_descriptors + c.rx_descriptors) - 4);
    assert_eq!(l.line_interrupts, c.tx_interrupts + c.rx_interrupts + c.mac_interrupts);
    assert!(l.axi_lite_writes >= l.mmio_writes && l.axi_lite_reads == l.mmio_reads);
}

fn on(widths: &[u32], faults: u64, f: impl Fn(&mut System, &mut Model, &Config)) {
    for &bits in widths {
        for offset in [0, 2] {
            let mut h = system(bits, device::Checksum::Partial);
            f(&mut h, &mut Model::default(), &config(bits, offset));
            audit(&mut h, faults);
        }
    }
}

fn on_both(f: impl Fn(&mut System, &mut Model, &Config)) {
    on(&[32, 64], 0, f);
}

#[test]
fn mdio() {
    on_both(|h, a, c| body::mdio(h, a, c, PHY_ID));
}
#[test]
fn transmit() {
    on_both(body::transmit);
}
#[test]
fn scatter() {
    on_both(body::scatter);
}
#[test]
fn checksum_offload() {
    on_both(body::checksum_offload);
}
#[test]
fn receive() {
    on_both(body::receive);
}
#[test]
fn receive_checksum() {
    on_both(body::receive_checksum);
}
#[test]
fn jumbo() {
    on_both(body::jumbo);
}
#[test]
fn ring_wrap_and_stop() {
    on_both(body::ring_wrap_and_stop);
}
#[test]
fn rx_exhaustion() {
    on_both(body::rx_exhaustion);
}
#[test]
fn threshold() {
    on_both(body::threshold);
}
#[test]
fn threshold_counts_packets() {
    on_both(body::threshold_counts_packets);
}
#[test]
fn delay() {
    on_both(body::delay);
}
#[test]
fn interrupt_levels() {
    on_both(body::interrupt_levels);
}
#[test]
fn adaptive() {
    on_both(body::adaptive);
}
#[test]
fn filter() {
    on_both(body::filter);
}
#[test]
fn statistics() {
    on_both(body::statistics);
}
#[test]
fn reset() {
    on_both(body::reset);
}
/// It writes the lower half of TAILDESC alone, which starts a core of 32 bits only.
#[test]
fn recovery() {
    on(&[32], 1, body::recovery);
}
