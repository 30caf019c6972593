//! The ibmveth driver on our own logical LAN: the cases of QEMU's model and those that need
//! more, and drivers of several partitions on one switch.

use doorbell_bus::{Bus, Costs, HypervisorDevice, HypervisorPort, Machine, Partitions};
use doorbell_conformance::ibmveth::{self as cases, Backend, Capability};
use doorbell_conformance::packets::TestSink;
use doorbell_conformance::{Unsupported, partition};
use doorbell_devices::veth::{self as device, Adapter, Uplink, Veth};
use doorbell_drivers::ibmveth::{Config, Ibmveth};
use doorbell_drivers::{Driver, Poll, Tx};
use doorbell_hal::{Alignment, HcallDevice, Host, RxVerdict, Span, Time};
use doorbell_packet::headers::{Check, verify};
use doorbell_packet::segment::prepare_gso;
use doorbell_packet::{Fragment, OffloadRequest, Packet};

type System = Machine<Partitions<HypervisorPort>, HypervisorDevice<Veth>>;

const MEMORY: usize = 48 << 20;

/// A core for each partition.
fn system(cfg: device::Config) -> System {
    let n = cfg.adapters.iter().map(|a| a.partition).max().unwrap_or(0) + 1;
    let ports = (0..n).map(|_| partition(MEMORY)).collect();
    let partitions = Partitions::new(ports, (0..n).collect(), Span::from_ns(600));
    Machine::new(partitions, HypervisorDevice(Veth::new(cfg)), Costs::FREE, n)
}

/// All that was mapped has been unmapped.
fn is_clean(m: &mut System) {
    for p in &mut m.bus.ports {
        let p = p.platform_mut();
        assert_eq!((p.memory.mapped(), p.live_entries(), p.ledger.dma_faults), ((0, 0), 0, 0));
    }
}

/// The network behind the switch.
struct Model {
    sent: Vec<Vec<u8>>,
    vector: u16,
    lacks: Unsupported<Capability>,
}

impl Backend<System> for Model {
    fn inject(&mut self, h: &mut System, frame: &[u8]) {
        let taken = h.outside(|d, bus, at| d.0.receive(&mut bus.ports, at, frame));
        assert_eq!(taken, RxVerdict::Yes);
        h.delay(Span::from_us(50));
    }
    fn collect(&mut self, h: &mut System) -> Option<Vec<u8>> {
        let sent = &mut self.sent;
        let drained = h.bus.sink_mut().drain(|_, f| {
            sent.push(f.to_vec());
            Ok::<(), ()>(())
        });
        assert_eq!(drained, Ok(()));
        if sent.is_empty() { None } else { Some(sent.remove(0)) }
    }
    fn interrupt(&mut self, h: &mut System) -> bool {
        h.bus.platform_mut().take_message(self.vector).is_some()
    }
    fn unsupported(&self) -> Unsupported<Capability> {
        self.lacks
    }
}

/// Runs a body on an adapter with the network behind it, on a page for 509 buffers and on
/// pools without end; at leisure, and with the hypervisor busy after each kilobyte.
fn on(f: impl Fn(&mut System, &mut Model, &Config)) {
    const ALONE: (Capability, &str) =
        (Capability::Trunk, "a trunk needs another partition: see the neighbours below");
    const LEISURE: Unsupported<Capability> = &[ALONE, (Capability::Busy, "here it copies at once")];
    const POOLS: Unsupported<Capability> = &[
        ALONE,
        (Capability::BufferListEnds, "here the hypervisor keeps buffers in pools of its own"),
    ];
    for (max_buffers, lacks, slice) in [(509, LEISURE, u32::MAX), (4096, POOLS, 1024)] {
        let adapter = Adapter::new(0, 0);
        let c = Config { vector: adapter.vector, ..Config::new(adapter.unit as u32, adapter.mac) };
        let cfg = device::Config {
            uplink: Some(Uplink { port: 0, pvid: 1 }),
            max_buffers,
            slice,
            ..device::Config::new(vec![adapter])
        };
        let mut h = system(cfg);
        h.bus.sink_mut().start();
        f(&mut h, &mut Model { sent: vec![], vector: c.vector, lacks }, &c);
        let p = h.bus.platform_mut();
        assert_eq!(
            (p.memory.mapped(), p.live_entries()),
            ((0, 0), 0),
            "all that was taken comes back"
        );
    }
}

macro_rules! cases {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            on(cases::$name);
        })*
    };
}

cases! {
    transmit scatter bounce too_long loopback
    negotiation software_offloads
    receive toggle pools_by_size copybreak no_buffer default_pools interrupts mtu reopen
    mac_and_filter codes left_open translation
    busy trunk
}

/// A partition beside the adapter's, with a driver that agrees to nothing: what it sends arrives,
/// and what it gets left.
struct Neighbour {
    nic: Ibmveth,
    vector: u16,
    lacks: Unsupported<Capability>,
    got: Vec<Vec<u8>>,
}

impl Neighbour {
    /// In the neighbour's partition, as late as it is here.
    fn there<R>(&mut self, h: &mut System, f: impl FnOnce(&mut Ibmveth, &mut System) -> R) -> R {
        let now = h.now();
        h.enter(1);
        h.idle_until(now);
        let r = f(&mut self.nic, h);
        let now = h.now();
        h.enter(0);
        h.idle_until(now);
        r
    }
}

impl Backend<System> for Neighbour {
    fn inject(&mut self, h: &mut System, frame: &[u8]) {
        self.there(h, |nic, h| {
            let p = packet(h, frame, OffloadRequest::NONE);
            assert_eq!(nic.transmit(h, p, false), Tx::Ok);
            let mut up = TestSink::default();
            nic.reclaim(h, &mut up);
            up.release_sent(h);
        });
        h.delay(Span::from_us(50));
    }
    fn collect(&mut self, h: &mut System) -> Option<Vec<u8>> {
        let came = self.there(h, |nic, h| {
            let mut up = TestSink::default();
            while nic.poll(h, 64, &mut up) == Poll::Again {}
            up.take_received(h)
        });
        self.got.extend(came.into_iter().map(|f| f.bytes));
        if self.got.is_empty() { None } else { Some(self.got.remove(0)) }
    }
    fn interrupt(&mut self, h: &mut System) -> bool {
        h.bus.platform_mut().take_message(self.vector).is_some()
    }
    fn unsupported(&self) -> Unsupported<Capability> {
        self.lacks
    }
}

/// The trunk's body, at leisure and with the hypervisor busy after each kilobyte.
#[test]
fn a_trunk_among_neighbours() {
    use doorbell_drivers::ibmveth::LargeSend;
    for slice in [u32::MAX, 1024] {
        let adapters = vec![Adapter { trunk: 1, ..Adapter::new(0, 0) }, Adapter::new(1, 1)];
        let config = |a: &Adapter| Config { vector: a.vector, ..Config::new(a.unit as u32, a.mac) };
        let (c, other) = (config(&adapters[0]), config(&adapters[1]));
        let mut h = system(device::Config { slice, ..device::Config::new(adapters) });
        let mut small = Config { checksum: false, large_send: LargeSend::Off, ..other };
        small.pools.iter_mut().for_each(|p| p.count = 64);
        h.enter(1);
        let nic = Ibmveth::open(&mut h, &small).unwrap();
        let opened = h.now();
        h.enter(0);
        h.idle_until(opened);
        let mut arm = Neighbour { nic, vector: c.vector, lacks: &[], got: vec![] };
        cases::trunk(&mut h, &mut arm, &c);
        h.enter(1);
        arm.nic.close(&mut h);
        is_clean(&mut h);
    }
}

fn tcp(to: [u8; 6], from: [u8; 6], payload: usize) -> Vec<u8> {
    let mut f = [&to[..], &from, &[8, 0, 0x45, 0]].concat();
    f.extend((40 + payload as u16).to_be_bytes());
    f.extend([0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let check = doorbell_packet::checksum::Sum::of(&f[14..34]).checksum();
    f[24..26].copy_from_slice(&check.to_be_bytes());
    f.extend([0x30, 0x39, 0x16, 0x2e, 1, 2, 3, 4, 0, 0, 0, 1, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0]);
    f.extend((0..payload).map(|i| (i * 13 + i / 256) as u8));
    doorbell_packet::headers::prepare_partial(&mut f).unwrap().complete(&mut f).unwrap();
    f
}

fn packet(m: &mut System, bytes: &[u8], todo: OffloadRequest) -> Packet {
    let buf = m.buffer(bytes.len() as u32, Alignment::ANY).unwrap();
    m.bytes_mut(&buf, 0..bytes.len() as u32, |b| b.copy_from_slice(bytes));
    Packet { todo, ..Packet::linear(Fragment::whole(buf)) }
}

/// A driver in each partition, the second a trunk if asked for; 20,000 bytes from the first to
/// somebody.
fn large_send(
    receiver: impl Fn(&Config) -> Config,
    trunk: bool,
    to: [u8; 6],
) -> (Vec<Vec<u8>>, Vec<OffloadRequest>, u64) {
    let adapters = vec![Adapter::new(0, 0), Adapter { trunk: trunk.into(), ..Adapter::new(1, 1) }];
    let config = |a: &Adapter| {
        let c = Config::new(a.unit as u32, a.mac);
        Config {
            vector: a.vector,
            pools: c.pools.map(|p| doorbell_drivers::ibmveth::Pool { count: 32, ..p }),
            ..c
        }
    };
    let configs = [config(&adapters[0]), receiver(&config(&adapters[1]))];
    let from = adapters[0].mac;
    let mut m = system(device::Config::new(adapters));
    m.enter(1);
    let mut b = Ibmveth::open(&mut m, &configs[1]).unwrap();
    let opened = m.now();
    m.enter(0);
    m.idle_until(opened);
    let mut a = Ibmveth::open(&mut m, &configs[0]).unwrap();
    let whole = tcp(to, from, 20_000);
    let mut frame = whole.clone();
    let todo = prepare_gso(&mut frame, 1448).unwrap();
    let p = packet(&mut m, &frame, todo);
    assert_eq!(a.transmit(&mut m, p, false), Tx::Ok);
    let sent: Time = m.now();
    let calls = m.bus.calls().iter().find(|c| c.call.0 == 0x120).map_or(0, |c| c.times);
    m.enter(1);
    m.idle_until(sent);
    let mut up = TestSink::default();
    while b.poll(&mut m, 64, &mut up) == Poll::Again {}
    let came = up.take_received(&mut m).into_iter().map(|f| (f.bytes, f.todo));
    let (frames, todos): (Vec<Vec<u8>>, Vec<OffloadRequest>) = came.unzip();
    let payload: Vec<u8> = frames.iter().flat_map(|f| f[54..].iter().copied()).collect();
    assert_eq!(payload, whole[54..]);
    b.close(&mut m);
    let closed = m.now();
    m.enter(0);
    m.idle_until(closed);
    a.reclaim(&mut m, &mut up);
    up.release_sent(&mut m);
    a.close(&mut m);
    is_clean(&mut m);
    (frames, todos, calls)
}

const B: [u8; 6] = [0x52, 0x54, 0, 0, 0, 1];

#[test]
fn a_large_send_crosses_whole_between_partitions_that_agreed() {
    let (frames, todos, calls) = large_send(|c| *c, false, B);
    assert_eq!((frames.len(), calls), (1, 1));
    assert_eq!(todos[0].gso.unwrap().size, 1448);
    assert!(todos[0].checksum.is_some(), "left out, and to be made if it goes on");
}

#[test]
fn the_hypervisor_cuts_it_for_a_partition_that_did_not() {
    use doorbell_drivers::ibmveth::LargeSend;
    let plain = |c: &Config| Config { checksum: false, large_send: LargeSend::Off, ..*c };
    let (frames, todos, calls) = large_send(plain, false, B);
    assert_eq!((frames.len(), calls), (14, 1));
    assert!(todos.iter().all(|t| *t == OffloadRequest::NONE));
    assert!(
        frames.iter().all(|f| verify(f).ip == Check::Good && verify(f).transport == Check::Good)
    );
}

#[test]
fn a_trunk_receives_large_what_goes_to_the_network() {
    let (frames, todos, _) = large_send(|c| *c, true, [0x02, 0, 0, 0, 0, 0x99]);
    assert_eq!((frames.len(), todos[0].gso.map(|g| g.size)), (1, Some(1448)));
}
