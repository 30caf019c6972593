//! Single large sends from the I/O server to the client: the cost to sender and receiver, by size
//! and number of pieces.
//!
//! A large send is one header and payload in pieces of equal size. [`Form`] sets up the driver. The
//! sender's time is that of the call of the driver; the receiver's lasts from its interrupt until
//! its poll is empty. Both cores rest between two sends.

use super::lan::{CLIENT, SERVER};
use super::server::{Lpars, PartitionDriver};
use super::{
    BridgeCounters, PortStats, RunStats, Setup, Totals, audit, close, device_counters, machine,
    memory,
};
use crate::audit::{ANY, CrossCheck};
use crate::run::{self, Looks};
use crate::window::{MOST, Marks, Window};
use crate::{Counts, Result, RunError, papr};
use doorbell_bus::{Bus, trace::DriverCall};
use doorbell_drivers::ibmveth::{Ibmveth, Transmit};
use doorbell_drivers::{Driver, Poll, Sink, Tx};
use doorbell_hal::{Alignment, Buf, Host, OutOfMemory, Span, Time, fail_if};
use doorbell_layout::ibmveth::CALLS;
use doorbell_packet::{CsumPartial, Fragment, Gso, GsoKind, NonLinear, OffloadRequest, Packet};
use doorbell_sim::traffic::tcp::frame::{ACK, Header, SocketAddress, TCP};
use doorbell_sim::{Watch, histogram::Histogram, traffic::tcp::Hosts};

/// The form in which a large send leaves its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Page fragments, each mapped with its own descriptor: up to five, more are linearised.
    Scatter,
    /// A fragment list, copied to a buffer that is mapped for the send.
    Linearise,
    /// A fragment list, cut into segments, each of which is copied, summed, mapped and sent.
    Segment,
    /// A fragment list, copied to a permanently mapped buffer.
    Copy,
}

/// The traffic of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Payload bytes.
    pub size: u32,
    /// Number of pieces.
    pub pieces: u32,
    /// The form.
    pub form: Form,
    /// Payload of a segment.
    pub mss: u16,
    /// Number of large sends.
    pub packets: u64,
}

/// Headers of TCP without options.
const HEADERS: u32 = TCP as u32 + 20;
/// Pause between two large sends, long enough for all effects of the last one.
const REST: Span = Span::from_ms(1);

/// Keeps received packets.
#[derive(Default)]
struct Up {
    packets: Vec<Packet>,
    sent: Vec<Buf>,
}

impl Sink for Up {
    fn sent(&mut self, b: Buf, _: u32, _: bool) {
        self.sent.push(b);
    }
    fn received(&mut self, p: Packet, _: bool) {
        self.packets.push(p);
    }
}

/// Makes a large send for the client.
fn packet(m: &mut Lpars, load: &Load, to: [u8; 6], seq: u32) -> Result<Packet, OutOfMemory> {
    let here = SocketAddress { mac: [2, 0xdb, 0, 1, 0, 1], ip: [198, 19, 0, 1], port: 20_000 };
    let there = SocketAddress { mac: to, ip: [198, 18, 0, 1], port: 5201 };
    let head = m.buffer(HEADERS, Alignment::ANY)?;
    let header = Header { seq, ack: 1, flags: ACK, window: 1000, ..Header::default() };
    m.bytes_mut(&head, 0..HEADERS, |b| header.write(&here, &there, 1, load.size, b));
    let mut pieces = Vec::with_capacity(load.pieces as usize);
    let mut left = load.size;
    for i in (1..=load.pieces).rev() {
        let len = left / i;
        left -= len;
        pieces.push(Fragment::whole(m.buffer(len, Alignment { align: 4096, offset: 0 })?));
    }
    let (frags, list) = match load.form {
        Form::Scatter => (pieces, Vec::new()),
        _ => (Vec::new(), pieces),
    };
    let large = load.size > u32::from(load.mss);
    let gso = large.then_some(Gso { kind: GsoKind::Tcp4, size: load.mss, header: HEADERS as u16 });
    Ok(Packet {
        head: Fragment::whole(head),
        todo: OffloadRequest {
            checksum: Some(CsumPartial { start: TCP as u16, offset: 16 }),
            gso,
            ..OffloadRequest::NONE
        },
        more: Some(Box::new(NonLinear { frags, list })),
        cookie: 0,
    })
}

/// The work of both partitions so far, without the rests between packets.
#[derive(Default)]
struct Tally {
    busy: [Span; 2],
    polls: u64,
    interrupts: u64,
    payload: u64,
}

impl Tally {
    /// Returns the time that the packets take one behind the other: that of the slower partition.
    fn time(&self) -> Span {
        self.busy[SERVER].max(self.busy[CLIENT])
    }

    /// Returns `counts` with this work in it, after so many packets.
    fn of(&self, packets: u64, counts: Counts) -> Counts {
        Counts {
            packets,
            elapsed: self.time(),
            core_time: self.time() * self.busy.len() as u64,
            payload: self.payload,
            wire: (0, 0),
            busy: self.busy.into(),
            interrupts: vec![self.interrupts, 0, 0],
            polls: self.polls,
            ..counts
        }
    }
}

/// Lets the client receive. Returns the busy time of its core, and the number of polls.
fn receive(m: &mut Lpars, client: &mut Ibmveth, setup: &Setup, up: &mut Up) -> (Span, u64) {
    let (begin, mut polls) = (m.now(), 0);
    let vector = setup.drivers[CLIENT].vector;
    while m.bus.platform_mut().take_message(vector).is_some() {
        let from = m.now();
        client.interrupt(m, vector);
        m.mark(from, DriverCall::Interrupt(vector));
        loop {
            polls += 1;
            let from = m.now();
            let more = client.poll(m, 16, up) == Poll::Again;
            m.mark(from, DriverCall::Poll);
            if !more {
                break;
            }
        }
    }
    (m.now().since(begin), polls)
}

pub(super) fn run(setup: &Setup, load: &Load, watch: &mut dyn Watch) -> Result<RunStats> {
    let mut setup = setup.clone();
    let sender = &mut setup.drivers[SERVER];
    sender.fraglist = load.form != Form::Segment;
    sender.transmit = match (load.form, sender.transmit) {
        (Form::Copy, _) => Transmit::Copy,
        (_, Transmit::Copy) => Transmit::Map { copybreak: 0 },
        (_, map) => map,
    };
    let setup = &setup;
    let (mut m, [mut client, mut server]) =
        machine(setup, Hosts::default(), memory(setup, None), false)?;
    let look = |client: &PartitionDriver, server: &PartitionDriver, m: &Lpars| {
        let drivers = client.veth.stats().entries().chain(server.veth.stats().entries());
        let others = PortStats::default().entries().chain(BridgeCounters::default().entries());
        [drivers.chain(others).collect(), device_counters(m), papr::made(&m.bus, &CALLS)]
    };
    let look_at = |client: &PartitionDriver, server: &PartitionDriver, m: &Lpars| Counts {
        counters: look(client, server, m),
        ..Counts::of(m)
    };
    let before = look_at(&client, &server, &m);
    let mut looks = Looks::default();
    doorbell_sim::watch::begin(&mut m, watch);
    let mut tally = Tally::default();
    // Each send is measured by itself, so the marks carry the slower partition's time.
    let mut marks: Marks = vec![(Time::ZERO, 0)];
    let mut at = m.now();
    let each = load.packets.div_ceil(MOST as u64).max(1);
    for i in 0..load.packets {
        if (load.packets - i).is_multiple_of(each) {
            let so_far = look_at(&client, &server, &m);
            looks.push(tally.of(i, so_far), Histogram::default());
        }
        m.enter(SERVER);
        m.idle_until(at);
        let p =
            packet(&mut m, load, setup.drivers[CLIENT].mac, (i as u32).wrapping_mul(load.size))?;
        let begin = m.now();
        let sent = server.veth.transmit(&mut m, p, false);
        m.mark(begin, DriverCall::Transmit);
        match sent {
            Tx::Ok => {}
            Tx::Busy(p) | Tx::Dropped(p) => p.release(&mut m),
        }
        tally.busy[SERVER] += m.now().since(begin);
        let mut up = Up::default();
        server.veth.reclaim(&mut m, &mut up);
        up.sent.into_iter().for_each(|b| m.release(b));
        let sent = m.now();
        at = sent + REST;
        m.run_device(at);
        m.enter(CLIENT);
        m.idle_until(at);
        let mut up = Up::default();
        let (took, polled) = receive(&mut m, &mut client.veth, setup, &mut up);
        tally.busy[CLIENT] += took;
        tally.polls += polled;
        tally.interrupts += u64::from(polled > 0);
        for p in up.packets {
            tally.payload += u64::from(p.len() - HEADERS);
            p.release(&mut m);
        }
        marks.push((Time::ZERO + tally.time(), i + 1));
        at = m.now() + REST;
        fail_if(!watch.progress(i + 1, load.packets), RunError::Stopped)?;
    }
    doorbell_sim::watch::end(&mut m, watch);
    let after = look_at(&client, &server, &m);
    let counts = tally.of(load.packets, after.since(&before));
    looks.push(tally.of(load.packets, after), Histogram::default());
    let mut totals = Totals::of(&m);
    close(&mut m, client, &mut totals);
    close(&mut m, server, &mut totals);
    m.flush_posted();
    let window = Window::given(Time::ZERO, &marks, true);
    let mut o = run::RunStats::new(window, counts.clone(), counts).with(totals);
    o.batches = looks.batches();
    let mut b = CrossCheck::new(None);
    let missing = load.packets * u64::from(load.size) - tally.payload;
    let is_lossy = o.totals.adapters[CLIENT].rx_no_buffer > 0;
    b.at_most("payload: bytes missing {}", missing, [if is_lossy { ANY } else { 0 }; 2]);
    o.verdict.take(b);
    o.verdict.take(audit::audit(setup, &o, &m));
    o.verdict.take(papr::audit(&m.bus, None));
    Ok(o)
}
