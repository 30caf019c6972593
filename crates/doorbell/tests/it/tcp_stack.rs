//! smoltcp on the drivers of the e1000 and of mlx5: two machines exchange TCP, with and without
//! losses.
//!
//! Each machine has a core, a card and its driver. A wire with a delay takes the frames across, and
//! loses some. What a driver hands up goes to smoltcp, and what smoltcp sends to the driver.

use doorbell::bus::random::splitmix;
use doorbell::bus::{Bus as _, Machine, Pcie};
use doorbell::devices::{e1000 as card, mlx5 as hca};
use doorbell::drivers::e1000::{Bus, Config, E1000, Part};
use doorbell::drivers::mlx5::{self, Channel, Cqs, Hca, Recycling, RqConfig};
use doorbell::hal::{Alignment, Buf};
use doorbell::packet::Fragment;
use doorbell::{custom, prelude::*};
use smoltcp::iface::{Config as Stack, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Delay of the wire, and the step in which both machines go on.
const STEP: Span = Span::from_us(20);
/// Bytes that each side sends.
const BYTES: usize = 200_000;
const PORT: u16 = 7;

/// A machine, as smoltcp sees it.
struct Nic<D: Device<Pcie>, Dr> {
    m: Machine<Pcie, D>,
    driver: Dr,
    line: Interrupt,
    received: VecDeque<Vec<u8>>,
}

/// Takes what a poll hands up.
#[derive(Default)]
struct Up {
    sent: Vec<Buf>,
    received: Vec<Packet>,
}

impl Sink for Up {
    fn sent(&mut self, b: Buf, _: u32, _: bool) {
        self.sent.push(b);
    }
    fn received(&mut self, p: Packet, _: bool) {
        self.received.push(p);
    }
}

impl<D: Device<Pcie>, Dr: Driver<Machine<Pcie, D>>> Nic<D, Dr> {
    /// Takes the interrupt if it is pending.
    fn interrupted(&mut self) -> Option<u16> {
        let now = self.m.now();
        let p = self.m.bus.platform_mut();
        match self.line {
            Interrupt::Line(n) => p.line(n).filter(|since| *since <= now).map(|_| n),
            Interrupt::Message(n) => {
                p.message_pending(n).filter(|at| *at <= now)?;
                p.take_message(n);
                Some(n)
            }
        }
    }

    /// Goes on to `t`, and serves interrupts.
    fn go_on(&mut self, t: Time) {
        self.m.idle_until(t);
        self.m.catch_up();
        while let Some(n) = self.interrupted() {
            if self.driver.interrupt(&mut self.m, n) == Irq::Poll {
                while self.poll() == Poll::Again {}
            }
            self.m.catch_up();
        }
    }

    fn poll(&mut self) -> Poll {
        let mut up = Up::default();
        let polled = self.driver.poll(&mut self.m, 64, &mut up);
        up.sent.into_iter().for_each(|b| self.m.release(b));
        for p in up.received {
            let Fragment { buf, start, len } = &p.head;
            let frame = self.m.bytes(buf, *start..*start + *len, <[u8]>::to_vec);
            self.received.push_back(frame);
            p.release(&mut self.m);
        }
        if polled == Poll::Work {
            self.driver.work(&mut self.m);
        }
        polled
    }
}

struct Frame(Vec<u8>);

impl phy::RxToken for Frame {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Room<'a, D: Device<Pcie>, Dr>(&'a mut Nic<D, Dr>);

impl<D: Device<Pcie>, Dr: Driver<Machine<Pcie, D>>> phy::TxToken for Room<'_, D, Dr> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let m = &mut self.0.m;
        let buf = m.buffer(len.max(60) as u32, Alignment::ANY).expect("there is memory");
        let result = m.bytes_mut(&buf, 0..len.max(60) as u32, |bytes| {
            bytes.fill(0);
            f(&mut bytes[..len])
        });
        // What the driver does not take is lost, as on a full queue.
        match self.0.driver.transmit(m, Packet::linear(Fragment::whole(buf)), false) {
            Tx::Ok => {}
            Tx::Busy(p) | Tx::Dropped(p) => p.release(m),
        }
        result
    }
}

impl<D: Device<Pcie>, Dr: Driver<Machine<Pcie, D>>> phy::Device for Nic<D, Dr> {
    type RxToken<'a>
        = Frame
    where
        Self: 'a;
    type TxToken<'a>
        = Room<'a, D, Dr>
    where
        Self: 'a;

    fn receive(&mut self, _: Instant) -> Option<(Frame, Room<'_, D, Dr>)> {
        // An answer may have to go out.
        if self.driver.stopped() {
            return None;
        }
        Some((Frame(self.received.pop_front()?), Room(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Room<'_, D, Dr>> {
        (!self.driver.stopped()).then_some(Room(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut can = DeviceCapabilities::default();
        can.medium = Medium::Ethernet;
        can.max_transmission_unit = 1514;
        can
    }
}

/// A machine with its stack and one socket.
struct Station<D: Device<Pcie>, Dr> {
    nic: Nic<D, Dr>,
    stack: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    sent: usize,
    got: Vec<u8>,
}

/// Returns byte `i` of what a host sends.
fn byte(of: u8, i: usize) -> u8 {
    (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ of
}

impl<D: Device<Pcie>, Dr: Driver<Machine<Pcie, D>>> Station<D, Dr> {
    fn new(mut nic: Nic<D, Dr>, mac: [u8; 6], own: u8) -> Station<D, Dr> {
        nic.m.bus.sink_mut().start();
        let config = Stack::new(EthernetAddress(mac).into());
        let mut stack = Interface::new(config, &mut nic, Instant::ZERO);
        stack.update_ip_addrs(|all| {
            all.push(IpCidr::new(IpAddress::v4(192, 168, 1, own), 24)).unwrap();
        });
        let buffer = || SocketBuffer::new(vec![0; 32 << 10]);
        let mut sockets = SocketSet::new(Vec::new());
        let socket = sockets.add(Socket::new(buffer(), buffer()));
        Station { nic, stack, sockets, socket, sent: 0, got: Vec::new() }
    }

    /// Lets stack and application do what they can.
    fn work(&mut self, now: Time, own: u8) {
        let now = Instant::from_micros((now.ps() / 1_000_000) as i64);
        self.stack.poll(now, &mut self.nic, &mut self.sockets);
        let socket = self.sockets.get_mut::<Socket<'_>>(self.socket);
        if socket.can_recv() {
            let got = &mut self.got;
            socket.recv(|bytes| (bytes.len(), got.extend_from_slice(bytes))).unwrap();
        }
        while socket.can_send() && self.sent < BYTES {
            let piece: Vec<u8> =
                (self.sent..BYTES.min(self.sent + 4096)).map(|i| byte(own, i)).collect();
            match socket.send_slice(&piece).unwrap() {
                0 => break,
                n => self.sent += n,
            }
        }
        self.stack.poll(now, &mut self.nic, &mut self.sockets);
    }

    /// Returns the frames that have left.
    fn left(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let drained = self.nic.m.bus.sink_mut().drain(|_, frame| {
            all.push(frame.to_vec());
            Ok::<(), std::convert::Infallible>(())
        });
        let Ok(()) = drained;
        all
    }
}

/// Exchanges the bytes. The wire loses one frame in `lost`. Returns the time that it took, and the
/// frames that were lost.
fn exchanged<D: Device<Pcie>, Dr: Driver<Machine<Pcie, D>>>(
    mut hosts: [Station<D, Dr>; 2],
    lost: Option<u64>,
) -> (Span, u64, [Station<D, Dr>; 2]) {
    let [server, client] = &mut hosts;
    server.sockets.get_mut::<Socket<'_>>(server.socket).listen(PORT).unwrap();
    let to = (IpAddress::v4(192, 168, 1, 1), PORT);
    let socket = client.sockets.get_mut::<Socket<'_>>(client.socket);
    socket.connect(client.stack.context(), to, 50_000).unwrap();
    let start = hosts.iter().map(|h| h.nic.m.now()).max().unwrap();
    let (mut now, mut state, mut losses) = (start, 1, 0);
    while hosts.iter().any(|h| h.got.len() < BYTES) {
        assert!(
            now.since(start) < Span::from_ms(60_000),
            "{:?}",
            hosts.each_ref().map(|h| h.got.len())
        );
        now += STEP;
        for (i, host) in hosts.iter_mut().enumerate() {
            host.nic.go_on(now);
            host.work(now, i as u8 + 1);
        }
        for i in 0..2 {
            for frame in hosts[i].left() {
                if lost.is_some_and(|one_in| splitmix(&mut state).is_multiple_of(one_in)) {
                    losses += 1;
                } else {
                    let m = &mut hosts[1 - i].nic.m;
                    m.outside(|d, bus, at| _ = d.receive(bus, at, &frame));
                }
            }
        }
    }
    for (host, of) in hosts.iter().zip([2, 1]) {
        let wrong = host.got.iter().enumerate().find(|(i, b)| **b != byte(of, *i));
        assert_eq!((host.got.len(), wrong), (BYTES, None));
    }
    (now.since(start), losses, hosts)
}

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

/// Looks for what a driver has not given back.
fn is_clean<D: Device<Pcie>>(m: &mut Machine<Pcie, D>) {
    m.flush_posted();
    let l = m.ledger();
    assert_eq!((l.maps, l.buffers_taken), (l.unmaps, l.buffers_released));
    assert_eq!((l.dma_faults, m.bus.platform().areas()), (0, Vec::new()));
}

fn over_e1000(lost: Option<u64>) -> (Span, u64) {
    let hosts = MACS.map(|mac| {
        let config = card::Config { mac, ..card::Config::I82545EM };
        let mut m = custom::on_pcie(1, 4, card::E1000::new(config)).unwrap();
        let driver = E1000::open(&mut m, &Config::new(Part::I82545, Bus::PciX)).unwrap();
        let nic = Nic { m, driver, line: Interrupt::Line(0), received: VecDeque::new() };
        Station::new(nic, mac, mac[5])
    });
    let (took, losses, hosts) = exchanged(hosts, lost);
    for Station { nic: Nic { mut m, driver, .. }, .. } in hosts {
        driver.close(&mut m);
        is_clean(&mut m);
    }
    (took, losses)
}

#[test]
fn two_machines_exchange_tcp_over_e1000() {
    let (took, losses) = over_e1000(None);
    assert_eq!(losses, 0);
    // Both ways at once, at 1 Gbit/s less its headers and the steps of the stacks.
    assert!(took > Span::from_us(1_600) && took < Span::from_ms(60), "{took}");
    assert_eq!(over_e1000(None), (took, 0));
}

#[test]
fn losses_are_made_good() {
    let (took, losses) = over_e1000(Some(50));
    assert!(losses > 3 && took > over_e1000(None).0, "{took} {losses}");
}

/// A channel as Linux has it, with a receive queue.
const CHANNEL: mlx5::Config = mlx5::Config {
    cqs: Cqs::Three,
    rq: Some(RqConfig {
        log_size: 10,
        buffer: 1536,
        align: 2048,
        headroom: 64,
        bulk: 64,
        padding: false,
        log_stride: None,
        recycling: Recycling::Pool,
        compression: false,
        xdp: false,
        adaptive: false,
        cq_period_us: 16,
        cq_max_count: 32,
    }),
    bql: false,
    ..mlx5::Config::DEFAULT
};

fn over_mlx5(lost: Option<u64>) -> (Span, u64) {
    let functions = MACS.map(|mac| {
        let config = hca::Config { mac, ..hca::Config::CONNECTX };
        let mut m = custom::on_pcie(3, 8, hca::Mlx5::new(config)).unwrap();
        let function = Rc::new(RefCell::new(Hca::open(&mut m).unwrap()));
        let driver = Channel::open(&mut m, Rc::clone(&function), &CHANNEL).unwrap();
        let nic = Nic { m, driver, line: Interrupt::Message(0), received: VecDeque::new() };
        (function, Station::new(nic, mac, mac[5]))
    });
    let [(one, a), (two, b)] = functions;
    let (took, losses, hosts) = exchanged([a, b], lost);
    for (Station { nic: Nic { mut m, driver, .. }, .. }, function) in
        hosts.into_iter().zip([one, two])
    {
        driver.close(&mut m);
        Rc::into_inner(function).unwrap().into_inner().close(&mut m);
        is_clean(&mut m);
    }
    (took, losses)
}

#[test]
fn two_machines_exchange_tcp_over_mlx5() {
    let (took, losses) = over_mlx5(None);
    assert_eq!(losses, 0);
    // The wire is a hundred times as fast, so the steps of the stacks are all of it.
    assert!(took > STEP * 10 && took < over_e1000(None).0, "{took}");
    assert_eq!(over_mlx5(None), (took, 0));
}

#[test]
fn losses_over_mlx5_are_made_good() {
    let (took, losses) = over_mlx5(Some(50));
    assert!(losses > 3 && took > over_mlx5(None).0, "{took} {losses}");
}
