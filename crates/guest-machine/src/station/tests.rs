use super::{Addresses, Requests, Station, connection, introduction};
use doorbell_hal::{Span, Time};
use doorbell_sim::histogram::Histogram;
use doorbell_sim::link::Wire;
use serde_json::{Value, json};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr};
use std::net::Ipv4Addr;

const GUEST: Addresses = ([2, 0, 0, 0, 0, 1], Ipv4Addr::new(10, 0, 0, 1));
const OWN: Addresses = ([2, 0, 0, 0, 0, 2], Ipv4Addr::new(10, 0, 0, 2));
const RATE: u64 = 1_000_000_000;
const DELAY: Span = Span::from_us(5);

/// The station, and a guest that answers at once, with a wire each way.
struct Pair {
    station: Station,
    answers: Histogram,
    to_guest: Wire,
    to_station: Wire,
    guest: Interface,
    nic: super::Nic,
    sockets: SocketSet<'static>,
    now: Time,
    /// Frames in both directions.
    frames: u64,
    /// Frames to the guest, from now on, that come before one that is lost.
    lost_behind: Option<u64>,
}

impl Pair {
    fn new() -> Pair {
        let mut nic = super::Nic::default();
        let config = Config::new(EthernetAddress(GUEST.0).into());
        let mut guest = Interface::new(config, &mut nic, Instant::ZERO);
        guest.update_ip_addrs(|all| all.push(IpCidr::new(GUEST.1.into(), 24)).unwrap());
        let mut pair = Pair {
            station: Station::new([GUEST, OWN]),
            answers: Histogram::default(),
            to_guest: Wire::new(RATE, DELAY),
            to_station: Wire::new(RATE, DELAY),
            guest,
            nic,
            sockets: SocketSet::new(Vec::new()),
            now: Time::ZERO,
            frames: 0,
            lost_behind: None,
        };
        pair.guest(Some(introduction(OWN, GUEST)));
        pair
    }

    /// Has the guest handle a frame and its sockets.
    fn guest(&mut self, frame: Option<Vec<u8>>) {
        self.nic.came = frame;
        self.nic.idle = self.to_station.free() <= self.now;
        let now = Instant::from_micros((self.now.ps() / 1_000_000) as i64);
        self.guest.poll(now, &mut self.nic, &mut self.sockets);
        for frame in self.nic.leaving.drain(..) {
            self.to_station.send(self.now, &frame);
            self.frames += 1;
        }
    }

    /// Moves on to the next event before `until`, or a microsecond on for the guest's own timers.
    fn step(&mut self, until: Time) -> bool {
        let arrivals = self.to_guest.next_arrival().min(self.to_station.next_arrival());
        let own = self.now + Span::from_us(1);
        self.now = arrivals.min(self.station.next()).min(own);
        if self.station.next() <= self.now {
            self.station.advance(self.now, &mut self.to_guest, &mut self.answers);
        }
        if let Some(frame) = self.to_station.land_by(self.now) {
            self.station.receive(self.now, &frame, &mut self.to_guest, &mut self.answers);
        }
        let mut came = self.to_guest.land_by(self.now);
        self.frames += u64::from(came.is_some());
        if came.is_some()
            && let Some(before) = self.lost_behind.take()
        {
            match before.checked_sub(1) {
                Some(left) => self.lost_behind = Some(left),
                None => came = None,
            }
        }
        self.guest(came);
        self.now < until
    }

    fn ask(&mut self, requests: Requests) {
        self.answers.clear();
        self.station.ask(self.now, requests);
        let until = self.now + Span::from_ms(10_000);
        while self.station.is_asking() && self.step(until) {}
        assert!(!self.station.is_asking());
    }

    /// Adds a guest's server of a port, or its connection to one of the station.
    fn socket(&mut self, connect: Option<(u16, u16)>) -> SocketHandle {
        let mut socket = connection();
        match connect {
            None => socket.listen(7).unwrap(),
            Some((to, from)) => {
                socket.connect(self.guest.context(), (OWN.1, to), from).unwrap();
            }
        }
        self.sockets.add(socket)
    }

    fn tcp(&mut self, of: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(of)
    }

    /// Waits for bytes of a connection.
    fn receive(&mut self, of: SocketHandle, bytes: usize) -> Vec<u8> {
        let until = self.now + Span::from_ms(5_000);
        while self.tcp(of).recv_queue() < bytes && self.step(until) {}
        let mut all = vec![0; bytes];
        assert_eq!(self.tcp(of).recv_slice(&mut all), Ok(bytes), "at {:?}", self.now);
        all
    }
}

/// Time of a frame on the wire, and of the cable.
fn crosses(frame: u64) -> Span {
    Span::from_ps((8 + frame + 4) * 8_000) + DELAY
}

#[test]
fn an_echo_takes_the_wire_both_ways() {
    let mut pair = Pair::new();
    pair.ask(Requests { tcp: false, count: 3, size: 98 });
    assert!(pair.station.answered);
    assert_eq!(pair.answers.count(), 3);
    // The guest of this test answers at once, and nobody asks for an address.
    let both = Some(crosses(98) + crosses(98));
    assert_eq!((pair.answers.min(), pair.answers.max()), (both, both));
    assert_eq!(pair.frames, 6);
}

/// Has the station ask four times over TCP, and a server of the guest answer.
fn echo(pair: &mut Pair) {
    let server = pair.socket(None);
    pair.station.ask(pair.now, Requests { tcp: true, count: 4, size: 64 });
    let until = pair.now + Span::from_ms(2_000);
    while pair.station.is_asking() && pair.step(until) {
        let socket = pair.tcp(server);
        if socket.can_recv() {
            let data = socket.recv(|data| (data.len(), data.to_vec())).unwrap();
            assert_eq!(data, [0x5a; 64]);
            socket.send_slice(&data).unwrap();
            pair.guest(None);
        }
    }
}

#[test]
fn requests_over_tcp_are_answered_or_missed() {
    let mut pair = Pair::new();
    // Nobody listens: the guest's stack refuses.
    pair.ask(Requests { tcp: true, count: 2, size: 64 });
    assert!(!pair.station.answered);
    echo(&mut pair);
    assert!(pair.station.answered);
    // 54 bytes of headers each way.
    let both = crosses(118) + crosses(118);
    assert_eq!((pair.answers.count(), pair.answers.min()), (4, Some(both)));
}

#[test]
fn a_guest_that_does_not_answer_is_given_up() {
    let mut pair = Pair::new();
    pair.guest.update_ip_addrs(|all| all.clear());
    pair.ask(Requests { tcp: false, count: 3, size: 98 });
    assert!(!pair.station.answered);
    assert_eq!(pair.answers.count(), 0);
    assert!(pair.now.since(Time::ZERO) < Span::from_ms(1100));
}

/// Runs a test of iperf3 as its client does. Returns the server's results.
fn iperf3(pair: &mut Pair, reverse: bool, bytes: usize, port: u16) -> Value {
    let cookie = [b'c'; 37];
    let control = pair.socket(Some((5201, port)));
    let until = pair.now + Span::from_ms(100);
    while !pair.tcp(control).may_send() && pair.step(until) {}
    pair.tcp(control).send_slice(&cookie).unwrap();
    assert_eq!(pair.receive(control, 1), [9]);
    let mut parameters = json!({"tcp": true, "num": bytes, "parallel": 1});
    if reverse {
        parameters["reverse"] = true.into();
    }
    let say = |pair: &mut Pair, text: &str| {
        let length = (text.len() as u32).to_be_bytes();
        pair.tcp(control).send_slice(&[&length, text.as_bytes()].concat()).unwrap();
    };
    say(pair, &parameters.to_string());
    assert_eq!(pair.receive(control, 1), [10]);
    let stream = pair.socket(Some((5201, port + 1)));
    while !pair.tcp(stream).may_send() && pair.step(until) {}
    pair.tcp(stream).send_slice(&cookie).unwrap();
    assert_eq!(pair.receive(control, 2), [1, 2]);
    let mut left = bytes;
    let until = pair.now + Span::from_ms(1000);
    while left > 0 && pair.step(until) {
        let socket = pair.tcp(stream);
        left -= match reverse {
            true => socket.recv(|d| (d.len(), d.len())).unwrap().min(left),
            false => socket.send_slice(&vec![0; left.min(9000)]).unwrap(),
        };
    }
    assert_eq!(left, 0);
    while pair.tcp(stream).send_queue() > 0 && pair.step(until) {}
    pair.tcp(control).send_slice(&[4]).unwrap();
    assert_eq!(pair.receive(control, 1), [13]);
    say(pair, &json!({"streams": [{"id": 7}]}).to_string());
    let length = pair.receive(control, 4).try_into().unwrap();
    let results = pair.receive(control, u32::from_be_bytes(length) as usize);
    assert_eq!(pair.receive(control, 1), [14]);
    pair.tcp(control).send_slice(&[16]).unwrap();
    while pair.tcp(control).may_recv() && pair.step(until) {}
    for of in [control, stream] {
        pair.tcp(of).close();
    }
    let until = pair.now + Span::from_ms(1);
    while pair.step(until) {}
    serde_json::from_slice(&results).unwrap()
}

#[test]
fn iperf3_sends_and_receives() {
    let mut pair = Pair::new();
    let began = pair.now;
    let sent = iperf3(&mut pair, false, 1 << 20, 50_000);
    let stream = &sent["streams"][0];
    assert_eq!((stream["id"].as_u64(), stream["bytes"].as_u64()), (Some(7), Some(1 << 20)));
    // 1 MiB takes 8.4 ms of a gigabit a second.
    assert!(pair.now.since(began) > Span::from_us(8_400));
    // The next client is served too, with a stream the other way.
    let received = iperf3(&mut pair, true, 1 << 20, 50_002);
    assert_eq!(received["streams"][0]["bytes"], 1 << 20);
    assert!(pair.frames > 2 * (1 << 20) / 8960);
}

#[test]
fn segments_that_are_sent_again_are_counted() {
    let mut pair = Pair::new();
    echo(&mut pair);
    iperf3(&mut pair, true, 1 << 20, 50_000);
    assert_eq!(pair.station.sent_again(), 0);
    // The first request, behind SYN and ACK. TCP waits for a second before it sends again, which is
    // as long as the station waits for an answer.
    pair.lost_behind = Some(2);
    echo(&mut pair);
    assert!(pair.lost_behind.is_none() && !pair.station.answered);
    let until = pair.now + Span::from_ms(100);
    while pair.step(until) {}
    assert_eq!(pair.station.sent_again(), 1);
}

#[test]
fn nonsense_ends_a_client_and_not_the_server() {
    let mut pair = Pair::new();
    for (n, said) in
        [&b"\0\0\0\x02no"[..], &[0xff; 8], b"\0\0\0\x0d{\"udp\": true}"].iter().enumerate()
    {
        let control = pair.socket(Some((5201, 40_000 + n as u16)));
        let until = pair.now + Span::from_ms(100);
        while !pair.tcp(control).may_send() && pair.step(until) {}
        pair.tcp(control).send_slice(&[&[b'x'; 37], *said].concat()).unwrap();
        while pair.tcp(control).may_recv() && pair.step(until) {
            // What the server said before it closed.
            let _ = pair.tcp(control).recv(|said| (said.len(), ()));
        }
        assert!(!pair.tcp(control).may_recv(), "{n}");
        pair.tcp(control).abort();
        pair.guest(None);
    }
    let served = iperf3(&mut pair, false, 1000, 50_000);
    assert_eq!(served["streams"][0]["bytes"], 1000);
}

#[test]
fn connections_without_a_cookie_have_a_bound() {
    let mut pair = Pair::new();
    for n in 0..300 {
        let connection = pair.socket(Some((5201, 30_000 + n)));
        let until = pair.now + Span::from_ms(100);
        while !pair.tcp(connection).may_send() && pair.step(until) {}
        assert!(pair.tcp(connection).may_send(), "{n}");
        pair.sockets.remove(connection);
    }
    assert!(pair.station.sockets.iter().count() < 2 * 128 + 3);
    let served = iperf3(&mut pair, false, 1000, 50_000);
    assert_eq!(served["streams"][0]["bytes"], 1000);
}
