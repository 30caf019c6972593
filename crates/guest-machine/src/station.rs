//! The host at the other end of the link, as far as workloads need one. It answers ARP and echo
//! requests, asks the guest, and is a server of [`iperf3`]. TCP/IP is smoltcp's.
//!
//! The host's CPU costs nothing: what a frame causes leaves at once, and waits for the wire alone.

mod iperf3;

use doorbell_hal::{Span, Time};
use doorbell_sim::histogram::Histogram;
use doorbell_sim::link::Wire;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::socket::{icmp, tcp};
use smoltcp::time::Instant;
use smoltcp::wire::{ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame};
use smoltcp::wire::{EthernetProtocol, EthernetRepr, Icmpv4Packet, Icmpv4Repr, IpCidr};
use smoltcp::wire::{IpProtocol, Ipv4Packet, TcpPacket, TcpSeqNumber};
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// An Ethernet address and an IP address.
pub(crate) type Addresses = ([u8; 6], Ipv4Addr);
/// Bits of the network's address.
const PREFIX: u8 = 24;

/// The host's longest IP packet. The guest's own may be shorter, and TCP takes the shorter of both.
const MTU: usize = 9000;
/// Bytes of a connection's buffers, which are its largest windows.
const WINDOW: usize = 1 << 20;
/// Time in which an answer comes.
const ANSWER: Span = Span::from_ms(1000);
/// Pause behind an answer, in which the guest ends its interrupt.
const PAUSE: Span = Span::from_us(2000);
/// Half of the time after which smoltcp forgets the guest's address.
const KNOWN: Span = Span::from_ms(30_000);
/// The guest's port of an echo server.
const ECHO_PORT: u16 = 7;
/// Bytes in front of the data of an echo request: Ethernet, IP, ICMP.
const ECHO_HEADERS: usize = 14 + 20 + 8;
const ECHO_IDENTITY: u16 = 0xdb0b;

/// Requests of the host, each after the answer to the last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requests {
    /// Over TCP to an echo server, or else ICMP echo requests.
    pub tcp: bool,
    /// Their number.
    pub count: u64,
    /// Bytes: of a frame without FCS for ICMP, of data for TCP.
    pub size: usize,
}

/// The host's card: the frame that came, and those that leave.
#[derive(Default)]
struct Nic {
    came: Option<Vec<u8>>,
    leaving: Vec<Vec<u8>>,
    /// The wire is idle, so that TCP may send a frame. More wait in TCP.
    idle: bool,
}

impl phy::Device for Nic {
    type RxToken<'a> = Came;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Came, Leaving<'_>)> {
        let frame = self.came.take()?;
        Some((Came(frame), Leaving(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Leaving<'_>> {
        (self.idle && self.leaving.is_empty()).then_some(Leaving(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut all = DeviceCapabilities::default();
        all.medium = Medium::Ethernet;
        all.max_transmission_unit = EthernetFrame::<&[u8]>::buffer_len(MTU);
        all
    }
}

struct Came(Vec<u8>);

impl phy::RxToken for Came {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct Leaving<'a>(&'a mut Nic);

impl phy::TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut frame = vec![0; len];
        let result = f(&mut frame);
        self.0.leaving.push(frame);
        result
    }
}

/// The host's TCP segments: how far each connection has got, and those that were sent again.
#[derive(Default)]
struct Segments {
    /// The sequence number behind the last byte of a connection, by its ports.
    ends: HashMap<[u16; 2], TcpSeqNumber>,
    again: u64,
}

impl Segments {
    /// Notes a frame of the host.
    fn note(&mut self, frame: &[u8]) {
        let Some((ports, begin, len, is_new)) = segment(frame).filter(|s| s.2 > 0) else { return };
        let end = begin + len;
        match self.ends.get_mut(&ports).filter(|_| !is_new) {
            Some(last) if begin < *last => {
                self.again += 1;
                *last = end.max(*last);
            }
            _ => _ = self.ends.insert(ports, end),
        }
    }
}

/// Returns of a TCP segment its ports, its first sequence number, how many it takes, and whether it
/// is a connection's first.
fn segment(frame: &[u8]) -> Option<([u16; 2], TcpSeqNumber, usize, bool)> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
    let is_tcp =
        frame.ethertype() == EthernetProtocol::Ipv4 && packet.next_header() == IpProtocol::Tcp;
    let tcp = TcpPacket::new_checked(packet.payload()).ok().filter(|_| is_tcp)?;
    Some(([tcp.src_port(), tcp.dst_port()], tcp.seq_number(), tcp.segment_len(), tcp.syn()))
}

/// Returns a new connection's end.
fn connection() -> tcp::Socket<'static> {
    let buffer = || tcp::SocketBuffer::new(vec![0; WINDOW]);
    let mut socket = tcp::Socket::new(buffer(), buffer());
    socket.set_congestion_control(tcp::CongestionControl::Cubic);
    socket.set_nagle_enabled(false);
    socket
}

/// Requests under way.
struct Asking {
    guest: Ipv4Addr,
    over: SocketHandle,
    requests: Requests,
    /// The sequence number of the next one.
    number: u16,
    /// The time at which the last request was sent, until its answer is there.
    asked: Option<Time>,
    /// Time of the next request.
    next: Time,
}

/// Progress of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// They wait for an answer, or for the next one's time.
    Waits,
    /// A request was sent, or an answer came.
    Goes,
    /// All were answered.
    Done,
    /// An answer is missing.
    Failed,
}

impl Asking {
    /// Sends a request. Returns true if there is a connection to do so.
    fn ask(&mut self, sockets: &mut SocketSet<'_>) -> bool {
        if self.requests.tcp {
            let socket = sockets.get_mut::<tcp::Socket<'_>>(self.over);
            return socket.may_send()
                && socket.send_slice(&vec![0x5a; self.requests.size]) == Ok(self.requests.size);
        }
        let data = vec![0; self.requests.size.saturating_sub(ECHO_HEADERS)];
        let (ident, seq_no) = (ECHO_IDENTITY, self.number);
        let request = Icmpv4Repr::EchoRequest { ident, seq_no, data: &data };
        let socket = sockets.get_mut::<icmp::Socket<'_>>(self.over);
        let Ok(buffer) = socket.send(request.buffer_len(), self.guest.into()) else { return false };
        let mut packet = Icmpv4Packet::new_unchecked(buffer);
        request.emit(&mut packet, &ChecksumCapabilities::default());
        true
    }

    /// Returns true if the answer to the last request is there.
    fn answered(&self, sockets: &mut SocketSet<'_>) -> bool {
        if self.requests.tcp {
            let socket = sockets.get_mut::<tcp::Socket<'_>>(self.over);
            let size = self.requests.size;
            return socket.recv_queue() >= size
                && socket.recv_slice(&mut vec![0; size]) == Ok(size);
        }
        let Ok((bytes, _)) = sockets.get_mut::<icmp::Socket<'_>>(self.over).recv() else {
            return false;
        };
        let Ok(packet) = Icmpv4Packet::new_checked(bytes) else { return false };
        let parsed = Icmpv4Repr::parse(&packet, &ChecksumCapabilities::default());
        matches!(parsed, Ok(Icmpv4Repr::EchoReply { seq_no, .. }) if seq_no == self.number)
    }

    fn step(&mut self, at: Time, sockets: &mut SocketSet<'_>, answers: &mut Histogram) -> Step {
        let closed = self.requests.tcp && !sockets.get::<tcp::Socket<'_>>(self.over).is_open();
        if self.requests.count == 0 {
            return Step::Done;
        }
        if closed || at >= self.asked.unwrap_or(self.next) + ANSWER {
            return Step::Failed;
        }
        match self.asked {
            Some(asked) if self.answered(sockets) => {
                answers.record(at.since(asked));
                self.requests.count -= 1;
                self.number = self.number.wrapping_add(1);
                (self.asked, self.next) = (None, at + PAUSE);
            }
            None if at >= self.next => {
                if !self.ask(sockets) {
                    return Step::Waits;
                }
                self.asked = Some(at);
            }
            _ => return Step::Waits,
        }
        Step::Goes
    }

    /// Returns the time at which it has something to do by itself.
    fn due(&self, at: Time) -> Time {
        match self.asked {
            None if self.next > at => self.next,
            asked => asked.unwrap_or(self.next) + ANSWER,
        }
    }
}

/// The host.
pub(crate) struct Station {
    guest: Addresses,
    own: Addresses,
    interface: Interface,
    nic: Nic,
    sockets: SocketSet<'static>,
    /// Connections that were closed, until the other end has closed them too.
    closing: Vec<SocketHandle>,
    iperf3: iperf3::Server,
    asking: Option<Asking>,
    segments: Segments,
    /// The last requests were answered.
    pub(crate) answered: bool,
    /// The local port of the next connection.
    port: u16,
    /// Time until which the guest's address is known.
    known: Time,
    next: Time,
}

impl Station {
    /// Creates the host by the guest's addresses and its own.
    pub(crate) fn new([guest, own]: [Addresses; 2]) -> Station {
        let mut nic = Nic::default();
        let config = Config::new(EthernetAddress(own.0).into());
        let mut interface = Interface::new(config, &mut nic, Instant::ZERO);
        interface.update_ip_addrs(|all| {
            // A list with room for more than one.
            let _ = all.push(IpCidr::new(own.1.into(), PREFIX));
        });
        let mut sockets = SocketSet::new(Vec::new());
        let iperf3 = iperf3::Server::new(&mut sockets);
        Station {
            guest,
            own,
            interface,
            nic,
            sockets,
            closing: Vec::new(),
            iperf3,
            asking: None,
            segments: Segments::default(),
            answered: true,
            port: 49152,
            known: Time::ZERO,
            next: Time::NEVER,
        }
    }

    /// Begins requests, in place of those under way.
    pub(crate) fn ask(&mut self, at: Time, requests: Requests) {
        if let Some(before) = self.asking.take() {
            self.end(&before);
        }
        let over = if requests.tcp {
            let mut socket = connection();
            self.port = self.port.checked_add(1).unwrap_or(49152);
            // Refused for a port or an address of 0 alone.
            let _ = socket.connect(self.interface.context(), (self.guest.1, ECHO_PORT), self.port);
            self.sockets.add(socket)
        } else {
            let buffer = || {
                let meta = vec![icmp::PacketMetadata::EMPTY; 4];
                icmp::PacketBuffer::new(meta, vec![0; 4 * MTU])
            };
            let mut socket = icmp::Socket::new(buffer(), buffer());
            // Refused for a socket that is bound already.
            let _ = socket.bind(icmp::Endpoint::Ident(ECHO_IDENTITY));
            self.sockets.add(socket)
        };
        let guest = self.guest.1;
        self.asking = Some(Asking { guest, over, requests, number: 0, asked: None, next: at });
        self.next = at;
    }

    /// Returns how many TCP segments the host has sent again.
    pub(crate) fn sent_again(&self) -> u64 {
        self.segments.again
    }

    /// Returns true while requests are under way.
    pub(crate) fn is_asking(&self) -> bool {
        self.asking.is_some()
    }

    /// Ends requests.
    fn end(&mut self, asking: &Asking) {
        if asking.requests.tcp {
            self.sockets.get_mut::<tcp::Socket<'_>>(asking.over).close();
            self.closing.push(asking.over);
        } else {
            self.sockets.remove(asking.over);
        }
    }

    /// Takes a frame for the host.
    pub(crate) fn receive(
        &mut self,
        at: Time,
        frame: &[u8],
        wire: &mut Wire,
        answers: &mut Histogram,
    ) {
        self.nic.came = Some(frame.to_vec());
        self.advance(at, wire, answers);
    }

    /// Returns the time of its next event.
    pub(crate) fn next(&self) -> Time {
        self.next
    }

    /// Does all that there is to do.
    pub(crate) fn advance(&mut self, at: Time, wire: &mut Wire, answers: &mut Histogram) {
        let now = Instant::from_micros((at.ps() / 1_000_000) as i64);
        if at >= self.known {
            self.know(now);
            self.known = at + KNOWN;
        }
        loop {
            self.nic.idle = wire.free() <= at;
            self.interface.poll(now, &mut self.nic, &mut self.sockets);
            let mut went = !self.nic.leaving.is_empty();
            for frame in self.nic.leaving.drain(..) {
                self.segments.note(&frame);
                wire.send(at, &frame);
            }
            went |= self.iperf3.step(&mut self.sockets, &mut self.closing);
            went |= self.requests(at, answers);
            if !went {
                break;
            }
        }
        // The other end may never close them.
        let oldest = self.closing.len().saturating_sub(iperf3::MOST);
        let mut place = 0..;
        self.closing.retain(|closed| {
            let state = self.sockets.get::<tcp::Socket<'_>>(*closed).state();
            let gone = matches!(state, tcp::State::Closed | tcp::State::TimeWait)
                || place.next().is_some_and(|n| n < oldest);
            if gone {
                self.sockets.remove(*closed);
            }
            !gone
        });
        let own = self.asking.as_ref().map_or(Time::NEVER, |asking| asking.due(at));
        let tcp = match self.interface.poll_at(now, &self.sockets) {
            None => Time::NEVER,
            Some(due) if due > now => Time::from_ps(due.total_micros() as u64 * 1_000_000),
            // It waits for the wire, or else for what no event tells of.
            Some(_) if wire.free() > at => wire.free(),
            Some(_) => at + Span::from_us(1),
        };
        self.next = own.min(tcp);
    }

    /// Goes on with requests. Returns true if something happened.
    fn requests(&mut self, at: Time, answers: &mut Histogram) -> bool {
        let Some(asking) = &mut self.asking else { return false };
        match asking.step(at, &mut self.sockets, answers) {
            Step::Waits => false,
            Step::Goes => true,
            end @ (Step::Done | Step::Failed) => {
                self.answered = end == Step::Done;
                if let Some(asking) = self.asking.take() {
                    self.end(&asking);
                }
                true
            }
        }
    }

    /// Tells the interface the guest's address, so that nobody has to ask for it.
    fn know(&mut self, now: Instant) {
        let came = self.nic.came.replace(introduction(self.guest, self.own));
        self.nic.idle = false;
        self.interface.poll(now, &mut self.nic, &mut self.sockets);
        self.nic.came = came;
    }
}

/// Returns an ARP reply by which `to` knows `from`.
fn introduction(from: Addresses, to: Addresses) -> Vec<u8> {
    let [source_hardware_addr, target_hardware_addr] =
        [from, to].map(|(mac, _)| EthernetAddress(mac));
    let reply = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr,
        source_protocol_addr: from.1,
        target_hardware_addr,
        target_protocol_addr: to.1,
    };
    let header = EthernetRepr {
        src_addr: source_hardware_addr,
        dst_addr: target_hardware_addr,
        ethertype: EthernetProtocol::Arp,
    };
    let mut bytes = vec![0; EthernetFrame::<&[u8]>::buffer_len(reply.buffer_len())];
    let mut frame = EthernetFrame::new_unchecked(&mut bytes);
    header.emit(&mut frame);
    reply.emit(&mut ArpPacket::new_unchecked(frame.payload_mut()));
    bytes
}

#[cfg(test)]
mod tests;
