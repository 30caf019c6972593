//! The axienet driver on our own AXI Ethernet and AXI DMA, on an AXI bus: the cases of
//! QEMU's models and those that need more, and the costs of packets at the bus.
//!
//! Each runs on a core with addresses of 32 bits and on one with 64 and memory above
//! 4 GiB, with receive buffers on a line and two bytes behind it.

use doorbell_bus::Bus;
use doorbell_conformance::Unsupported;
use doorbell_conformance::axienet::model::{System, system};
use doorbell_conformance::axienet::{self as cases, Backend, Capability};
use doorbell_conformance::axienet_cases;
use doorbell_conformance::packets::TestSink;
use doorbell_devices::axi_ethernet as device;
use doorbell_drivers::axienet::{Adaptive, Axienet, Coalesce, Config};
use doorbell_drivers::{Driver, Irq, Poll, Tx};
use doorbell_hal::{Alignment, Device, Host, RxVerdict, Span, Time};
use doorbell_layout::axienet::line;
use doorbell_packet::{Fragment, NonLinear, Packet};
use doorbell_testkit::reorder::{Order, Reorder};

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
const PHY: u8 = 5;
/// A TI DP83867.
const PHY_ID: u32 = 0x2000_a231;

/// The machine's own wire.
#[derive(Default)]
struct Model {
    sent: Vec<Vec<u8>>,
    /// The core knows TCP and UDP.
    full: bool,
}

impl Backend<System> for Model {
    fn inject(&mut self, h: &mut System, frame: &[u8]) {
        let taken = h.outside(|d, bus, at| d.receive(bus, at, frame));
        assert_ne!(taken, RxVerdict::Hold, "it has no back-pressure but its memory");
        h.delay(Span::from_us(20));
    }
    fn collect(&mut self, h: &mut System) -> Option<Vec<u8>> {
        for _ in 0..100 {
            let sent = &mut self.sent;
            let drained = h.bus.sink_mut().drain(|_, f| {
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
        // Register writes are posted: the last one is still on its way.
        h.delay(Span::from_us(1));
        h.bus.platform().line(n).is_some_and(|since| since <= h.now())
    }
    fn delay_unit(&self) -> Span {
        // 125 clocks at 125 MHz.
        Span::from_us(1)
    }
    fn unsupported(&self) -> Unsupported<Capability> {
        match self.full {
            true => &[(Capability::PartialChecksum, "this core is built with full checksums")],
            false => &[(Capability::FullChecksum, "this core is built with partial checksums")],
        }
    }
}

/// The same machine behind a CPU that reorders stores.
impl Backend<Reorder<System>> for Model {
    fn inject(&mut self, h: &mut Reorder<System>, frame: &[u8]) {
        self.inject(&mut h.inner, frame);
    }
    fn collect(&mut self, h: &mut Reorder<System>) -> Option<Vec<u8>> {
        self.collect(&mut h.inner)
    }
    fn wait(&mut self, h: &mut Reorder<System>, span: Span) {
        h.delay(span);
    }
    fn interrupt(&mut self, h: &mut Reorder<System>, n: u16) -> bool {
        self.interrupt(&mut h.inner, n)
    }
    fn delay_unit(&self) -> Span {
        Backend::<System>::delay_unit(self)
    }
    fn unsupported(&self) -> Unsupported<Capability> {
        Backend::<System>::unsupported(self)
    }
}

/// Partial checksums.
const CORE: device::Config = device::Config { phy: Some(PHY), ..device::Config::ZYNQMP };
/// Full ones.
const FULL: device::Config = device::Config {
    tx_checksum: device::Checksum::Full,
    rx_checksum: device::Checksum::Full,
    ..CORE
};

fn config(address_bits: u32, offset: u32) -> Config {
    Config {
        rx_ring: 32,
        rx_place: Alignment { align: 64, offset },
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
    assert_eq!(h.bus.platform().memory.mapped(), (0, 0));
    assert_eq!((l.wire_frames, l.wire_bytes), (c.tx_packets, c.tx_bytes));
    // Descriptors are 52 or 32 bytes read, and 4 or 24 written.
    assert_eq!(l.axi_read_bytes, c.data_read_bytes + 52 * c.tx_fetches + 32 * c.rx_fetches);
    let status = l.axi_write_bytes - c.data_write_bytes;
    assert!(
        status >= 4 * (c.tx_descriptors + c.rx_descriptors)
            && status <= 24 * (c.tx_descriptors + c.rx_descriptors)
    );
    assert_eq!(l.line_interrupts, c.tx_interrupts + c.rx_interrupts + c.mac_interrupts);
    assert!(l.axi_lite_writes >= l.mmio_writes && l.axi_lite_reads == l.mmio_reads);
}

fn on(
    widths: &[u32],
    core: device::Config,
    faults: u64,
    f: impl Fn(&mut System, &mut Model, &Config),
) {
    for &bits in widths {
        for offset in [0, 2] {
            let mut h = system(bits, core, 64 << 20);
            let mut a =
                Model { full: core.tx_checksum == device::Checksum::Full, ..Model::default() };
            f(&mut h, &mut a, &config(bits, offset));
            audit(&mut h, faults);
        }
    }
}

fn on_both(f: impl Fn(&mut System, &mut Model, &Config)) {
    on(&[32, 64], CORE, 0, f);
}

/// Runs `f` on a CPU that keeps stores as long as fences allow, lets others pass, or both
/// at random.
fn reordered(f: impl Fn(&mut Reorder<System>, &mut Model, &Config)) {
    for order in [Order::Late, Order::Overtaken, Order::Random(1), Order::Random(2)] {
        println!("{order:?}");
        let mut h = Reorder::new(system(64, CORE, 64 << 20), order);
        f(&mut h, &mut Model::default(), &config(64, 2));
        audit(&mut h.inner, 0);
    }
}

axienet_cases!(on_both, reordered);

#[test]
fn mdio() {
    on_both(|h, a, c| cases::mdio(h, a, c, PHY_ID));
}
/// The body has it that the same setting again is a new count, as in QEMU's model. The core's own
/// source does not, and nor does ours unless it is told to.
#[test]
fn threshold() {
    let core = device::Config { reload_on_any_write: true, ..CORE };
    on(&[32, 64], core, 0, cases::threshold);
}
/// At 0xffff_ff00, where neither machine has memory.
#[test]
fn bus_error() {
    on(&[32, 64], CORE, 1, cases::bus_error);
}
#[test]
fn full_checksums() {
    on(&[32, 64], FULL, 0, cases::checksum_offload);
    on(&[32, 64], FULL, 0, cases::receive_checksum);
}

// ---- what a crossing costs ----

fn release(up: &mut TestSink, h: &mut System) {
    up.take_received(h);
    up.release_sent(h);
}

fn frame(len: usize) -> Vec<u8> {
    let mut f = [&MAC[..], &[2, 0, 0, 0, 0, 9, 0x88, 0xb5]].concat();
    f.resize(len, 7);
    f
}

/// A packet of n pieces is n descriptors read, n pieces read, n words written back, and one
/// doorbell; a received frame is a descriptor read, its data, and a status with application words.
#[test]
fn crossings_of_a_packet() {
    let mut h = system(32, CORE, 64 << 20);
    let mut a = Model::default();
    let coalesce = Coalesce {
        rx_frames: 255,
        rx_usecs: 255,
        tx_frames: 255,
        tx_usecs: 255,
        adaptive_rx: Adaptive::Off,
    };
    let c = Config { coalesce, ..config(32, 0) };
    let mut nic = Axienet::open(&mut h, &c, c.net_dim()).unwrap();
    let mut up = TestSink::default();
    a.wait(&mut h, Span::from_us(50));
    let before = *h.ledger();
    // Three pieces of 500 bytes, each on a line: 4 bursts of 128 bytes at most.
    let pieces = [0; 3].map(|_| {
        let buf = h.buffer(500, Alignment { align: 128, offset: 0 }).unwrap();
        h.bytes_mut(&buf, 0..500, |b| b.fill(0xff));
        Fragment::whole(buf)
    });
    let [head, x, y] = pieces;
    let more = Some(Box::new(NonLinear { frags: vec![x, y], list: vec![] }));
    assert_eq!(nic.transmit(&mut h, Packet { more, ..Packet::linear(head) }, false), Tx::Ok);
    assert!(a.collect(&mut h).is_some());
    let l = h.ledger().since(&before);
    assert_eq!((l.axi_reads, l.axi_read_bytes), (3 + 3 * 4, 3 * 52 + 1500));
    // 52 bytes are 7 beats of 8, 500 are 63.
    assert_eq!(l.axi_read_beats, 3 * 7 + 3 * 63);
    assert_eq!((l.axi_writes, l.axi_write_beats, l.axi_write_bytes), (3, 3, 12));
    assert_eq!((l.axi_lite_writes, l.axi_lite_reads, l.line_interrupts), (1, 0, 0));
    let before = *h.ledger();
    a.inject(&mut h, &frame(1514));
    let l = h.ledger().since(&before);
    // Of the fetches ahead, one is made up for.
    assert_eq!((l.axi_reads, l.axi_read_bytes), (1, 32));
    // 1514 bytes on a line are 12 bursts; status and five words, 24 bytes from 0x1c on, 4 beats.
    assert_eq!((l.axi_writes, l.axi_write_bytes, l.axi_write_beats), (12 + 1, 1514 + 24, 190 + 4));
    a.wait(&mut h, Span::from_ms(1));
    assert_eq!(h.device.counters.rx_interrupts, 1, "the delay");
    while nic.poll(&mut h, 64, &mut up) == Poll::Again {}
    release(&mut up, &mut h);
    nic.close(&mut h);
    audit(&mut h, 0);
}

/// With what the bus takes, frames of any length leave one right after another.
#[test]
fn transmission_keeps_the_link_busy() {
    for len in [60, 300, 1514] {
        let mut h = system(64, CORE, 64 << 20);
        let c = config(64, 0);
        let mut nic = Axienet::open(&mut h, &c, c.net_dim()).unwrap();
        let mut up = TestSink::default();
        for i in 0..100 {
            let buf = h.buffer(len, Alignment { align: 64, offset: i % 64 }).unwrap();
            h.bytes_mut(&buf, 0..len, |b| b.copy_from_slice(&frame(len as usize)));
            assert_eq!(nic.transmit(&mut h, Packet::linear(Fragment::whole(buf)), i < 99), Tx::Ok);
        }
        h.delay(Span::from_ms(2));
        let mut left = vec![];
        let drained = h.bus.sink_mut().drain(|at, _| {
            left.push(at);
            Ok::<(), ()>(())
        });
        assert_eq!((drained, left.len()), (Ok(()), 100));
        let gap = Span::from_ns(8 * (u64::from(len) + 24));
        assert!(left.windows(2).all(|w| w[1].since(w[0]) == gap), "{len}: {left:?}");
        while nic.poll(&mut h, 64, &mut up) == Poll::Again {}
        release(&mut up, &mut h);
        nic.close(&mut h);
        audit(&mut h, 0);
    }
}

/// 255 packets or 16 us, as net_dim has it at its highest profile: on a saturated link of
/// 1 Gbit/s an interrupt for each 255 packets, since 12.3 us pass between two.
#[test]
fn a_saturated_link_interrupts_every_255_packets() {
    let mut h = system(64, CORE, 64 << 20);
    let mut a = Model::default();
    let coalesce = Coalesce {
        rx_frames: 255,
        rx_usecs: 16,
        tx_frames: 1,
        tx_usecs: 0,
        adaptive_rx: Adaptive::Off,
    };
    let c = Config { rx_ring: 1024, coalesce, ..config(64, 2) };
    let mut nic = Axienet::open(&mut h, &c, c.net_dim()).unwrap();
    let mut up = TestSink::default();
    let f = frame(1514);
    let before = h.device.counters;
    for _ in 0..2040 {
        h.delay(Span::from_ns(1538 * 8));
        h.outside(|d, bus, at| d.receive(bus, at, &f));
        if h.bus.platform().line(line::RX).is_some_and(|since| since <= h.now()) {
            assert_eq!(nic.interrupt(&mut h, line::RX), Irq::Poll);
            while nic.poll(&mut h, 64, &mut up) == Poll::Again {}
            release(&mut up, &mut h);
        }
    }
    let interrupts = h.device.counters.rx_interrupts - before.rx_interrupts;
    assert!((7..=8).contains(&interrupts), "{interrupts}");
    a.wait(&mut h, Span::from_us(100));
    while nic.poll(&mut h, 64, &mut up) == Poll::Again {}
    release(&mut up, &mut h);
    assert_eq!((nic.stats().rx_packets, h.device.counters.rx_missed), (2040, 0));
    nic.close(&mut h);
    audit(&mut h, 0);
}
