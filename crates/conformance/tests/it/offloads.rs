//! Frames that leave a device equal those of the software path, for five systems, every checksum
//! and offload mode, and packets of every kind.
//!
//! A driver asks `layout` what its device can do; a device does what it does. Neither knows the
//! other's rules, so a packet that the one leaves to the other wrongly is found here.
//! `DOORBELL_OFFLOADS` is the number of packets a system, 2000 without it, and
//! `DOORBELL_OFFLOADS_SEED` the seed.

mod packets;

use doorbell_bus::{Bus, Capture, Costs, HypervisorDevice, Machine, Partitions};
use doorbell_conformance::packets::TestSink;
use doorbell_conformance::{axienet, e1000, ibmvnic, mlx5, partition};
use doorbell_devices::{axi_ethernet, mlx5 as connectx, veth, vnic};
use doorbell_drivers::{Driver, Poll, Tx};
use doorbell_drivers::{axienet as axienet_driver, ibmveth, ibmvnic as ibmvnic_driver};
use doorbell_drivers::{e1000 as e1000_driver, mlx5 as mlx5_driver};
use doorbell_hal::{Alignment, Host, Span};
use doorbell_layout::axienet::Checksum;
use doorbell_layout::mlx5::Caps;
use doorbell_packet::checksum::Sum;
use doorbell_packet::{Fragment, NonLinear, OffloadRequest, Packet, vlan};
use packets::{Case, Random, any, software};

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
const VID: u16 = 5;

fn from_environment(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(n) => n.parse().unwrap_or_else(|_| panic!("{name}={n}: not a number")),
        Err(_) => default,
    }
}

/// A driver on its device.
trait System {
    /// Sends a packet. Returns false if it was dropped.
    fn send(&mut self, case: &Case, r: &mut Random) -> bool;
    /// Returns the frames that have left, when all is done.
    fn left(&mut self) -> Vec<Vec<u8>>;
}

/// Puts the packet into the host's memory, in one to four pieces, the headers in the first.
fn packet<H: Host>(h: &mut H, case: &Case, r: &mut Random, listed: bool) -> Packet {
    let frame = &case.frame;
    let todo: OffloadRequest = case.todo;
    let head = todo.gso.map_or(frame.len().min(400), |g| usize::from(g.header) + r.below(2));
    let head = head.min(frame.len());
    let mut cuts: Vec<usize> = Vec::new();
    for _ in 0..r.below(4) {
        cuts.push(head + r.below(frame.len() - head + 1));
    }
    cuts.push(frame.len());
    cuts.sort_unstable();
    cuts.dedup();
    let (mut from, mut pieces) = (0, Vec::new());
    for to in cuts {
        let len = (to - from) as u32;
        let buf = h.buffer(len + 8, Alignment::ANY).unwrap();
        h.bytes_mut(&buf, 8..8 + len, |b| b.copy_from_slice(&frame[from..to]));
        pieces.push(Fragment { buf, start: 8, len });
        from = to;
    }
    let mut pieces = pieces.into_iter();
    let head = pieces.next().unwrap();
    let mut more = NonLinear { frags: pieces.collect(), list: Vec::new() };
    if listed && more.frags.len() > 1 {
        more.list.extend(more.frags.pop());
    }
    let more = (!more.frags.is_empty()).then(|| Box::new(more));
    Packet { head, todo, more, cookie: 7 }
}

/// Hands a packet to a driver.
fn offer<H: Host, D: Driver<H>>(d: &mut D, h: &mut H, p: Packet) -> bool {
    match d.transmit(h, p, false) {
        Tx::Ok => true,
        Tx::Dropped(p) => {
            p.release(h);
            false
        }
        Tx::Busy(_) => panic!("there is room"),
    }
}

/// Polls until the packet has come back.
fn finish<H: Host, D: Driver<H>>(
    d: &mut D,
    h: &mut H,
    up: &mut TestSink,
    mut pass: impl FnMut(&mut H),
) {
    for _ in 0..200_000 {
        pass(h);
        if d.poll(h, 64, up) == Poll::Work {
            d.work(h);
        }
        if !up.packets().is_empty() {
            assert_eq!(up.packets(), [7], "it comes back once");
            up.release_sent(h);
            assert!(!Driver::<H>::stopped(d), "the queue goes on");
            return;
        }
        up.release_sent(h);
    }
    panic!("the packet does not come back");
}

/// A machine with a driver, whose frames go to a sink.
struct Local<B: Bus, V, D> {
    h: Machine<B, V>,
    driver: D,
    up: TestSink,
    step: Span,
    listed: bool,
    sent: bool,
    frames: Vec<Vec<u8>>,
}

impl<B: Bus, V, D> Local<B, V, D>
where
    Machine<B, V>: Host,
    D: Driver<Machine<B, V>>,
{
    fn new(h: Machine<B, V>, driver: D, step: Span) -> Self {
        let (up, frames) = (TestSink::default(), Vec::new());
        Local { h, driver, up, step, listed: false, sent: false, frames }
    }
}

impl<B: Bus<Sink = Capture>, V, D> System for Local<B, V, D>
where
    Machine<B, V>: Host,
    D: Driver<Machine<B, V>>,
{
    fn send(&mut self, case: &Case, r: &mut Random) -> bool {
        let listed = self.listed && r.once_in(4);
        let p = packet(&mut self.h, case, r, listed);
        self.sent = offer(&mut self.driver, &mut self.h, p);
        self.sent
    }
    fn left(&mut self) -> Vec<Vec<u8>> {
        if self.sent {
            let (step, frames) = (self.step, &mut self.frames);
            finish(&mut self.driver, &mut self.h, &mut self.up, |h| {
                h.delay(step);
                drain(h, frames);
            });
        }
        self.h.delay(Span::from_ms(1));
        drain(&mut self.h, &mut self.frames);
        std::mem::take(&mut self.frames)
    }
}

fn drain<B: Bus<Sink = Capture>, V>(h: &mut Machine<B, V>, frames: &mut Vec<Vec<u8>>)
where
    Machine<B, V>: Host,
{
    let drained = h.bus.sink_mut().drain(|_, f| {
        frames.push(f.to_vec());
        Ok::<(), ()>(())
    });
    assert_eq!(drained, Ok(()));
}

struct Connectx(mlx5::cases::Running<doorbell_testkit::DirectHost<connectx::Mlx5>>, bool);

impl System for Connectx {
    fn send(&mut self, case: &Case, r: &mut Random) -> bool {
        let p = packet(&mut self.0.host, case, r, false);
        self.1 = offer(&mut self.0.channel, &mut self.0.host, p);
        self.1
    }
    fn left(&mut self) -> Vec<Vec<u8>> {
        use mlx5::Backend;
        let mlx5::cases::Running { host, channel, returned, .. } = &mut self.0;
        let mut frames = Vec::new();
        if self.1 {
            finish(channel, host, returned, |h| {
                h.settle();
                frames.extend(h.frames());
            });
        }
        let s = channel.stats();
        assert_eq!((s.cqe_err, s.recover, s.timeouts), (0, 0, 0), "no error of the queue");
        frames
    }
}

/// Checks that `got` is `expected`, both frames of any length. A short frame may be padded before a
/// tag or behind it, and a TCP checksum of 0 be 0xffff, which is the same number.
fn is_same(got: &[u8], expected: &[u8], todo: &OffloadRequest) -> bool {
    let padded = got.len() == expected.len() || got.len() == 60 || got.len() == 64;
    if !padded || got.len() < expected.len() || got[expected.len()..].iter().any(|b| *b != 0) {
        return false;
    }
    let tag = if todo.vlan.is_some() { vlan::TAG } else { 0 };
    let tcp = todo.checksum.filter(|c| c.offset == 16).map(|c| c.field() + tag);
    let is_zero = |at: usize| got[at..at + 2] == [0xff; 2] && expected[at..at + 2] == [0; 2];
    (0..expected.len())
        .filter(|i| got[*i] != expected[*i])
        .all(|i| tcp.is_some_and(|at| (at..at + 2).contains(&i) && is_zero(at)))
}

/// Opens a system.
type Open = Box<dyn Fn() -> Box<dyn System>>;

/// Packets after which the systems are opened anew, so that their memory lasts.
const FRESH: u64 = 1000;

/// Sends packets through a system in each mode, and compares.
fn check(name: &str, mac: [u8; 6], modes: Vec<(&str, Open)>) {
    let count = from_environment("DOORBELL_OFFLOADS", 2000);
    let seed = from_environment("DOORBELL_OFFLOADS_SEED", 1);
    let mut r = Random(seed.wrapping_mul(0x1234_5678_9abc_def1));
    let mut systems: Vec<_> = modes.iter().map(|(_, open)| open()).collect();
    for n in 0..count {
        let index = (n % modes.len() as u64) as usize;
        if n % FRESH == FRESH - 1 {
            systems = modes.iter().map(|(_, open)| open()).collect();
        }
        let (mode, system) = (modes[index].0, &mut systems[index]);
        let case = any(&mut r, mac, VID);
        let expected = software(&case);
        let taken = system.send(&case, &mut r);
        let got = system.left();
        let place = format!("{name} {mode}, packet {n} of seed {seed}: {}", case.what);
        assert_eq!(taken, !expected.is_empty(), "{place}: taken");
        assert_eq!(got.len(), expected.len(), "{place}: frames, {:?}", case.todo);
        for (i, (g, e)) in got.iter().zip(&expected).enumerate() {
            let sums = |f: &[u8]| Sum::of(&f[14.min(f.len())..]).value();
            let head = |f: &[u8]| format!("{:02x?}", &f[..f.len().min(200)]);
            assert!(
                is_same(g, e, &case.todo),
                "{place}: frame {i}, {:?}\n got {} {:04x} {}\nnot {} {:04x} {}",
                case.todo,
                g.len(),
                sums(g),
                head(g),
                e.len(),
                sums(e),
                head(e),
            );
        }
    }
}

#[test]
fn mlx5_sends_what_software_makes() {
    let open = |caps: Caps, config: mlx5_driver::Config| -> Open {
        Box::new(move || {
            let nic = connectx::Config { caps, ..connectx::Config::CONNECTX };
            Box::new(Connectx(mlx5::cases::Running::open(mlx5::direct(nic), config), false))
        })
    };
    let (all, default) = (connectx::Config::CONNECTX.caps, mlx5_driver::Config::DEFAULT);
    let alone = mlx5_driver::Config { mpwqe: false, ..default };
    check(
        "mlx5",
        MAC,
        vec![
            ("as it is", open(all, default)),
            ("without sessions", open(all, alone)),
            (
                "no parser, short large sends",
                open(Caps { swp: false, log_max_lso: 12, ..all }, default),
            ),
            ("inline L2", open(Caps { min_inline: 1, ..all }, default)),
            ("inline L4", open(Caps { min_inline: 3, ..all }, alone)),
            ("short WQEs", open(Caps { max_wqe_sz_sq: 256, ..all }, default)),
        ],
    );
}

#[test]
fn e1000_sends_what_software_makes() {
    let open = |card: usize, vlan: bool| -> Open {
        Box::new(move || {
            let (mut h, c) = e1000::model::numbered(card, card % 2 == 1, 16 << 20);
            let c = e1000_driver::Config { vlan, ..c };
            let nic = e1000_driver::E1000::open(&mut h, &c).unwrap();
            h.delay(Span::from_ms(2500));
            let mut system = Local::new(h, nic, Span::from_us(20));
            let _ = system.driver.poll(&mut system.h, 64, &mut system.up);
            Driver::work(&mut system.driver, &mut system.h);
            Box::new(system)
        })
    };
    check(
        "e1000",
        e1000::MAC,
        vec![
            ("82540", open(0, true)),
            ("82544", open(1, false)),
            ("82545", open(2, true)),
            ("82544 on PCI-X", open(3, true)),
            ("82545 on PCI-X", open(4, false)),
        ],
    );
}

#[test]
fn axienet_sends_what_software_makes() {
    let open = |checksum: Checksum| -> Open {
        Box::new(move || {
            let core = axi_ethernet::Config {
                tx_checksum: checksum,
                phy: None,
                ..axi_ethernet::Config::ZYNQMP
            };
            let mut h = axienet::model::system(64, core, 16 << 20);
            let mut c = axienet_driver::Config::new(MAC);
            (c.address_bits, c.tx_checksum) = (64, checksum);
            c.coalesce.tx_frames = 1;
            let nic = axienet_driver::Axienet::open(&mut h, &c, c.net_dim()).unwrap();
            Box::new(Local::new(h, nic, Span::from_us(20)))
        })
    };
    check(
        "axienet",
        MAC,
        vec![
            ("none", open(Checksum::None)),
            ("partial", open(Checksum::CsumPartial)),
            ("full", open(Checksum::Full)),
        ],
    );
}

#[test]
fn ibmveth_sends_what_software_makes() {
    let adapter = veth::Adapter { tagged: vec![VID], ..veth::Adapter::new(0, 0) };
    let mac = adapter.mac;
    let open = |checksum: bool, large: bool, fraglist: bool| -> Open {
        let adapter = adapter.clone();
        Box::new(move || {
            let cfg = veth::Config {
                uplink: Some(veth::Uplink { port: 0, pvid: 1 }),
                min_lso_mss: 224,
                ..veth::Config::new(vec![adapter.clone()])
            };
            let partitions =
                Partitions::new(vec![partition(48 << 20)], vec![0], Span::from_ns(600));
            let device = HypervisorDevice(veth::Veth::new(cfg));
            let mut h = Machine::new(partitions, device, Costs::FREE, 1);
            h.bus.sink_mut().start();
            let large_send =
                if large { ibmveth::LargeSend::Firmware } else { ibmveth::LargeSend::Off };
            let mut c = ibmveth::Config::new(adapter.unit as u32, mac);
            (c.checksum, c.large_send, c.fraglist, c.vector) = (checksum, large_send, fraglist, 0);
            c.pools.iter_mut().for_each(|p| p.count = p.count.min(16));
            let nic = ibmveth::Ibmveth::open(&mut h, &c).unwrap();
            Box::new(Local { listed: true, ..Local::new(h, nic, Span::from_us(1)) })
        })
    };
    check(
        "ibmveth",
        mac,
        vec![
            ("all", open(true, true, true)),
            ("checksums", open(true, false, false)),
            ("none", open(false, false, false)),
        ],
    );
}

#[test]
fn ibmvnic_sends_what_software_makes() {
    let server = vnic::Config::POWERVM;
    let open = |checksum: bool, large: bool, insert: bool| -> Open {
        Box::new(move || {
            let mut cfg = server;
            for s in &mut cfg.servers {
                (s.vlan_insert, s.min_lso_mss) = (insert, 224);
            }
            let mut h = ibmvnic::system(cfg);
            let mut c = ibmvnic_driver::Config::new(server.unit_address, server.mac);
            (c.checksum, c.large_send, c.tx_entries, c.rx_entries) = (checksum, large, 64, 64);
            (c.tso_buffers, c.crq_vector) = (4, server.crq_vector);
            let nic = ibmvnic_driver::Ibmvnic::open(&mut h, &c).unwrap();
            let mut system = Local::new(h, nic, Span::from_us(20));
            system.h.delay(Span::from_ms(1));
            let _ = system.driver.poll(&mut system.h, 64, &mut system.up);
            assert!(system.driver.is_running());
            Box::new(system)
        })
    };
    check(
        "ibmvnic",
        server.mac,
        vec![
            ("all", open(true, true, true)),
            ("checksums", open(true, false, false)),
            ("large sends and tags by the driver", open(true, true, false)),
            ("none", open(false, false, true)),
        ],
    );
}
