//! The device: doorbells in, time passing, completions out.

use super::command::{CastCounters, Firmware, Phase};
use super::queues::{Cq, Eq, Mkey, Sq, Table};
use super::transmit::{Chunk, Pipe};
use super::{Config, receive::Receiver};
use crate::common::{RESET, STEP};
use alloc::format;
use alloc::string::String;
use alloc::{collections::VecDeque, vec::Vec};
use doorbell_hal::{Device, DropReason, EventSource, Fact, Iova, Port, Reg, RxVerdict, Time};
use doorbell_layout::mlx5::command::{Tisc, init_segment};
use doorbell_layout::mlx5::{
    Cqe, EQE_CQN, EQE_ERROR_CQN, Eqe, FRAGMENT, SqState, WQEBB, cqe_opcode, event, register_name,
    syndrome, uar,
};
use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromZeros, IntoBytes};

counters! {
    /// Counters of the device.
    struct Counters;
    packets: "Frames sent.",
    bytes in Bytes: "Bytes of those, without FCS and padding.",
    wqes: "WQEs executed, NOPs and flushed ones included.",
    nops: "NOPs among them.",
    mpwqes: "Multi-packet WQEs among them.",
    mpwqe_packets: "Packets that came in those.",
    umrs: "UMRs among them.",
    lso: "Large sends.",
    wire_bad_checksums: "Frames that left by an offload with a wrong checksum.",
    discarded: "Packets that were announced and not sent, because of an error.",
    errors: "WQEs that failed.",
    doorbells: "Doorbells that announced something.",
    bad_doorbells: "Doorbells that made no sense: no such queue, not ready, out of range.",
    fetches: "Reads of WQEs.",
    fetched_bytes in Bytes: "Bytes of those.",
    cqes: "CQEs written.",
    eqes: "EQEs written.",
    lost_entries: "CQEs or EQEs that could not be written.",
}

/// Type and subtype of an event, and some double words of its data by their places.
pub(super) type Event<'a> = (u8, u8, &'a [(usize, u32)]);

/// Events of CQs that are kept in order for a unit of work ([`Port::charge`]).
const EVENTS: u64 = 16;
/// Units of an object that is given up.
pub(super) const OBJECT: u64 = 16;

/// Something that becomes visible at a time of its own.
#[derive(Debug)]
pub(super) struct PendingCompletion {
    pub(super) at: Time,
    pub(super) cqn: u32,
    pub(super) sqn: u32,
    pub(super) wqe_counter: u16,
    pub(super) opcode: u8,
    /// 0: no error.
    pub(super) syndrome: u8,
}

/// The model.
#[derive(Debug)]
pub struct Mlx5 {
    pub(super) cfg: Config,
    /// Counters since it was made.
    pub counters: Counters,
    pub(super) sqs: Table<Sq>,
    pub(super) cqs: Table<Cq>,
    pub(super) eqs: Table<Eq>,
    pub(super) mkeys: Table<Mkey>,
    pub(super) uars: Table<()>,
    pub(super) pds: Table<()>,
    pub(super) tds: Table<()>,
    /// Transport interfaces of send queues.
    pub(super) tis: Table<Tisc>,
    pub(super) counter_sets: Table<()>,
    /// The command interface.
    pub(super) firmware: Firmware,
    /// SQs with something to fetch, in the order they are served.
    pub(super) round_robin: VecDeque<u32>,
    /// WQEs on chip, in the order they are executed.
    pub(super) chunks: VecDeque<Chunk>,
    pub(super) on_chip: u32,
    pub(super) fetch_free: Time,
    pub(super) pipe: Pipe,
    pub(super) rx: Receiver,
    /// Frames from the wire that were taken.
    pub(super) rx_casts: CastCounters,
    /// Frames from the wire, those for nobody here included.
    pub(super) rx_wire: CastCounters,
    /// CQEs to be written, in order of time.
    pub(super) completions: VecDeque<PendingCompletion>,
    /// Next events of the CQs that have one ([`Cq::event_due`]), in order, with the CQs' numbers.
    pub(super) events: Vec<(Time, u32)>,
    /// Time of the next event.
    pub(super) due: Time,
}

impl Mlx5 {
    /// The first doorbell page handed out; those below hold registers and MSI-X tables.
    pub const FIRST_UAR: u32 = 0x10;

    /// A device as after power-on. Values out of range are rounded into it.
    pub fn new(cfg: Config) -> Mlx5 {
        let cfg = cfg.clamped();
        Mlx5 {
            cfg,
            counters: Counters::default(),
            sqs: Table::new(0x100),
            cqs: Table::new(0x400),
            eqs: Table::new(4),
            mkeys: Table::new(0x1000),
            uars: Table::new(Mlx5::FIRST_UAR),
            pds: Table::new(1),
            tds: Table::new(1),
            tis: Table::new(1),
            counter_sets: Table::new(1),
            firmware: Firmware::new(&cfg),
            round_robin: VecDeque::with_capacity(64),
            chunks: VecDeque::with_capacity(256),
            on_chip: 0,
            fetch_free: Time::ZERO,
            pipe: Pipe::new(&cfg),
            rx: Receiver::new(&cfg),
            rx_casts: CastCounters::default(),
            rx_wire: CastCounters::default(),
            completions: VecDeque::with_capacity(256),
            events: Vec::with_capacity(64),
            due: Time::NEVER,
        }
    }

    /// Returns its configuration.
    pub fn config(&self) -> &Config {
        &self.cfg
    }

    /// Returns the time at which the last bit of the last frame leaves.
    pub fn wire_free(&self) -> Time {
        self.pipe.last_bit()
    }

    /// Drops what is in flight for a queue that was reset or destroyed.
    pub(super) fn purge(&mut self, sqn: u32) {
        self.round_robin.retain(|&n| n != sqn);
        self.completions.retain(|e| e.sqn != sqn);
        let on_chip = &mut self.on_chip;
        self.chunks.retain(|c| {
            let keep = c.sqn != sqn;
            if !keep {
                *on_chip -= c.bytes;
            }
            keep
        });
    }

    /// The same for a CQ.
    pub(super) fn purge_cq(&mut self, cqn: u32) {
        self.completions.retain(|e| e.cqn != cqn);
        self.find_events();
        self.update_next_event();
    }

    pub(super) fn send_doorbell(&mut self, at: Time, v: u64) {
        let b = v.to_le_bytes();
        let idx = u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        let qpn_ds = u32::from_be_bytes([b[4], b[5], b[6], b[7]]);
        let (pc, sqn, ds) = ((idx >> 8) as u16, qpn_ds >> 8, qpn_ds & 0x3f);
        self.announce(at, sqn, pc.wrapping_add(ds.div_ceil(4).max(1) as u16));
    }

    /// WQEs up to `end` are to be executed.
    pub(super) fn announce(&mut self, at: Time, sqn: u32, end: u16) {
        let Some(sq) = self.sqs.get_mut(sqn) else {
            self.counters.bad_doorbells += 1;
            return;
        };
        let last = sq.announced.back().map_or(sq.fetched, |&(_, end)| end);
        let (new, ring) = (end.wrapping_sub(last), u32::from(sq.mask()) + 1);
        let outstanding = end.wrapping_sub(sq.executed);
        let lost = u32::from(outstanding) > ring || outstanding < new;
        if sq.state == SqState::Reset || new == 0 || lost {
            self.counters.bad_doorbells += 1;
            return;
        }
        self.counters.doorbells += 1;
        sq.announced.push_back((at, end));
        if !sq.in_round {
            sq.in_round = true;
            self.round_robin.push_back(sqn);
        }
    }

    pub(super) fn arm_cq(&mut self, at: Time, v: u64) {
        let b = v.to_le_bytes();
        let request = u32::from_be_bytes([b[0], b[1], b[2], b[3]]);
        let cqn = u32::from_be_bytes([b[4], b[5], b[6], b[7]]) & 0xff_ffff;
        let Some(cq) = self.cqs.get_mut(cqn) else {
            self.counters.bad_doorbells += 1;
            return;
        };
        let before = cq.event_due();
        cq.arm(at, request & 0xff_ffff);
        let now = cq.event_due();
        self.event_moved(cqn, before, now);
    }

    pub(super) fn arm_eq<P: Port>(&mut self, p: &mut P, at: Time, v: u32, arm: bool) {
        let v = v.swap_bytes();
        let Some(eq) = self.eqs.get_mut(v >> 24) else {
            self.counters.bad_doorbells += 1;
            return;
        };
        eq.ci = v & 0xff_ffff;
        if !arm || self.cfg.polled_doorbells {
            return;
        }
        if v & 0xff_ffff == eq.pi & 0xff_ffff {
            eq.armed = Some(at);
        } else {
            // Events came in between: the interrupt is owed at once.
            eq.armed = None;
            p.raise_msi(at, eq.ctx.vector);
        }
    }

    /// The next event of a CQ is due at another time.
    fn event_moved(&mut self, cqn: u32, before: Time, now: Time) {
        if before == now {
            return;
        }
        self.events.retain(|e| e.1 != cqn);
        if now < Time::NEVER {
            let place = self.events.partition_point(|e| *e < (now, cqn));
            self.events.insert(place, (now, cqn));
        }
    }

    pub(super) fn find_events(&mut self) {
        let due = self.cqs.iter().map(|(cqn, cq)| (cq.event_due(), cqn));
        self.events.clear();
        self.events.extend(due.filter(|e| e.0 < Time::NEVER));
        self.events.sort_unstable();
    }

    fn events_due(&self) -> Time {
        self.events.first().map_or(Time::NEVER, |e| e.0)
    }

    /// Writes the completions and the events that are due, in the order of their times; a
    /// completion before the event that it causes. What was paid for when it was sent or came, and
    /// is only to be written, is written whatever is left of the share.
    fn write_back<P: Port>(&mut self, p: &mut P, until: Time) {
        loop {
            let completion = self.completions.front().map_or(Time::NEVER, |e| e.at);
            let event = self.events_due();
            let frame = self.receive_due();
            if completion.min(event).min(frame) > until {
                return;
            }
            let frame_next = frame < completion && frame <= event;
            if frame_next && self.works_at(frame) && p.is_spent() {
                return;
            }
            p.charge(STEP);
            if event < completion.min(frame) {
                self.report(p);
            } else if frame < completion {
                self.receive_step(p);
            } else if let Some(e) = self.completions.pop_front() {
                self.write_cqe(p, &e);
            }
        }
    }

    fn write_cqe<P: Port>(&mut self, p: &mut P, e: &PendingCompletion) {
        let mut cqe = Cqe::new_zeroed();
        cqe.sop_drop_qpn = U32::new(u32::from(e.opcode) << 24 | e.sqn);
        cqe.wqe_counter = U16::new(e.wqe_counter);
        let mut syndrome = e.syndrome;
        if p.begin_completion(e.at) && syndrome == 0 {
            syndrome = self.poison(e.sqn);
        }
        let opcode = if syndrome == 0 {
            cqe.timestamp = (e.at.ps() / 1000).to_be_bytes();
            cqe_opcode::REQ
        } else {
            cqe.timestamp[7] = syndrome;
            cqe_opcode::REQ_ERR
        };
        cqe.op_own = opcode << 4;
        self.put_cqe(p, e.at, e.cqn, cqe);
    }

    /// A WQE that was executed is reported as failed: its queue is in error. With which syndrome.
    #[cold]
    fn poison(&mut self, sqn: u32) -> u8 {
        if let Some(sq) = self.sqs.get_mut(sqn).filter(|sq| sq.state == SqState::Ready) {
            sq.state = SqState::Error;
        }
        self.counters.errors += 1;
        syndrome::LOCAL_QP_OP
    }

    /// Writes a CQE that says all but who owns it.
    pub(super) fn put_cqe<P: Port>(&mut self, p: &mut P, at: Time, cqn: u32, mut cqe: Cqe) {
        self.end_session(p, at, cqn);
        if !self.has_room(p, at, cqn, 1) {
            return;
        }
        let Some(cq) = self.cqs.get_mut(cqn) else { return };
        if let Some(session) = &mut cq.session {
            session.interrupted();
            cqe.signature = if cq.enhanced() { cq.lap() } else { 0 };
        }
        cqe.op_own |= cq.lap() & 1;
        let written = p.write(at, cq.slot(0), cqe.as_bytes()).is_ok();
        self.wrote(p, at, cqn, written.then_some((1, 1)));
    }

    /// Returns true if a CQ has room for `n` entries. One that has not overruns, and takes none any
    /// more.
    pub(super) fn has_room<P: Port>(&mut self, p: &mut P, at: Time, cqn: u32, n: u32) -> bool {
        let Some(cq) = self.cqs.get_mut(cqn) else { return false };
        if cq.dead {
            self.counters.lost_entries += u64::from(n);
            return false;
        }
        // The consumer counter in memory is read only when the last one known
        // says that there is no room.
        if !cq.fits(n) {
            let mut ci = [0; 4];
            if p.read(at, Iova(cq.ctx.dbr), &mut ci).is_ok() {
                cq.ci = u32::from_be_bytes(ci) & 0xff_ffff;
            }
        }
        let fits = cq.fits(n);
        if !fits {
            self.cq_failed(p, at, cqn, (1, n));
        }
        fits
    }

    /// So many places of a CQ were written, in so many entries; or they could not be.
    pub(super) fn wrote<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        cqn: u32,
        written: Option<(u32, u64)>,
    ) {
        let Some((places, entries)) = written else { return self.cq_failed(p, at, cqn, (2, 1)) };
        let Some(cq) = self.cqs.get_mut(cqn) else { return };
        let before = cq.event_due();
        cq.written(at, places);
        let now = cq.event_due();
        self.counters.cqes += entries;
        p.charge(self.events.len() as u64 / EVENTS);
        self.event_moved(cqn, before, now);
    }

    /// A CQ fails, for which reason and with so many entries lost.
    #[cold]
    fn cq_failed<P: Port>(&mut self, p: &mut P, at: Time, cqn: u32, (why, lost): (u32, u32)) {
        if let Some(cq) = self.cqs.get_mut(cqn) {
            cq.dead = true;
        }
        self.counters.lost_entries += u64::from(lost);
        let cq = [(EQE_ERROR_CQN, cqn), (EQE_ERROR_CQN + 2, why)];
        self.asynchronous_event(p, at, (event::CQ_ERROR, 0, &cq));
    }

    /// Writes the event that is due next.
    fn report<P: Port>(&mut self, p: &mut P) {
        let Some(&(at, cqn)) = self.events.first() else { return };
        let Some(cq) = self.cqs.get_mut(cqn) else { return };
        cq.reported();
        let (eqn, now) = (cq.ctx.eqn, cq.event_due());
        self.event_moved(cqn, at, now);
        self.write_eqe(p, at, eqn, (event::COMPLETION, 0, &[(EQE_CQN, cqn)]));
    }

    /// The event queue that takes events of this type other than completions.
    pub(super) fn eqs_for(&self, event_type: u8) -> Option<u32> {
        self.eqs.iter().find(|(_, eq)| eq.ctx.events >> event_type & 1 == 1).map(|(eqn, _)| eqn)
    }

    /// An event that is no completion; lost when no queue takes its type.
    #[cold]
    pub(super) fn asynchronous_event<P: Port>(&mut self, p: &mut P, at: Time, e: Event<'_>) {
        if let Some(eqn) = self.eqs_for(e.0) {
            self.write_eqe(p, at, eqn, e);
        }
    }

    pub(super) fn write_eqe<P: Port>(&mut self, p: &mut P, at: Time, eqn: u32, e: Event<'_>) {
        let Some(eq) = self.eqs.get_mut(eqn) else { return };
        let mut eqe = Eqe::new_zeroed();
        (eqe.event_type, eqe.sub_type) = (e.0, e.1);
        for &(i, v) in e.2 {
            eqe.data[i] = U32::new(v);
        }
        eqe.owner = (eq.pi >> eq.ctx.log_size & 1) as u8;
        let to = eq.ring.at(u64::from(eq.pi & ((1 << eq.ctx.log_size) - 1)) * 64);
        if p.write(at, to, eqe.as_bytes()).is_err() {
            self.counters.lost_entries += 1;
            return;
        }
        eq.pi = eq.pi.wrapping_add(1);
        self.counters.eqes += 1;
        let armed = if self.cfg.polled_doorbells { eq.armed } else { eq.armed.take() };
        if let Some(since) = armed {
            p.raise_msi(at.max(since), eq.ctx.vector);
        }
    }

    /// Returns the count of all objects, and of what is in flight.
    pub(super) fn size(&self) -> u64 {
        let queues = self.sqs.live() + self.cqs.live() + self.eqs.live() + self.mkeys.live();
        let others = self.uars.live() + self.pds.live() + self.tds.live() + self.tis.live();
        (queues + others + self.completions.len() + self.rx.size()) as u64
    }

    /// Ends all objects and what is in flight; the command interface stays, in `phase`.
    #[cold]
    pub(super) fn power_down(&mut self, phase: Phase) {
        let mut old = core::mem::replace(self, Mlx5::new(self.cfg));
        self.counters = old.counters;
        (self.rx_casts, self.rx_wire) = (old.rx_casts, old.rx_wire);
        self.rx.inherit(&mut old.rx);
        self.pipe.inherit(&old.pipe);
        core::mem::swap(&mut self.firmware, &mut old.firmware);
        self.firmware.phase = phase;
        self.apply_port();
    }

    /// Finds the time of the next event of any kind.
    #[inline]
    pub(super) fn update_next_event(&mut self) {
        let completion = self.completions.front().map_or(Time::NEVER, |e| e.at);
        let completion = completion.min(self.command_due());
        self.due = completion
            .min(self.events_due())
            .min(self.receive_due())
            .min(self.fetch_due())
            .min(self.execute_due());
    }
}

const _: () = assert!(FRAGMENT.is_multiple_of(WQEBB));

impl EventSource for Mlx5 {
    #[inline]
    fn next_due(&self) -> Option<Time> {
        (self.due < Time::NEVER).then_some(self.due)
    }

    fn diagnose(&self, tell: &mut dyn FnMut(&'static str, Fact)) {
        let failed = self.sqs.iter().filter(|(_, sq)| sq.state != SqState::Ready).count();
        tell("SQs", Fact::Number(self.sqs.iter().count() as u64));
        tell("SQs not in state RDY", Fact::Number(failed as u64));
        tell("doorbells", Fact::Number(self.counters.doorbells));
        tell("doorbells refused", Fact::Number(self.counters.bad_doorbells));
        // Of queues that are many: the first with something left to do, or the first.
        let busy = |sq: &Sq| {
            sq.state != SqState::Ready || !sq.announced.is_empty() || sq.fetched != sq.executed
        };
        let Some((number, sq)) =
            self.sqs.iter().find(|(_, sq)| busy(sq)).or_else(|| self.sqs.iter().next())
        else {
            return;
        };
        let told = sq.announced.back().map_or(sq.fetched, |a| a.1);
        tell("SQ", Fact::Number(number.into()));
        tell("its WQEs announced up to", Fact::Number(told.into()));
        tell("fetched up to", Fact::Number(sq.fetched.into()));
        tell("executed up to", Fact::Number(sq.executed.into()));
        let Some(cq) = self.cqs.get(sq.ctx.cqn) else { return };
        tell("its CQEs written", Fact::Number(cq.pi.into()));
        tell("CQEs consumed", Fact::Number(cq.ci.into()));
        tell("CQ armed", Fact::State(cq.armed.is_some()));
        let Some(eq) = self.eqs.get(cq.ctx.eqn) else { return };
        tell("its EQEs written", Fact::Number(eq.pi.into()));
        tell("EQEs consumed", Fact::Number(eq.ci.into()));
        tell("EQ armed", Fact::State(eq.armed.is_some()));
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        let c = self.command_counters();
        let commands = [
            ("commands", c.commands),
            ("refused_commands", c.refused),
            ("unknown_commands", c.unknown),
            ("undelivered_commands", c.undelivered),
            ("lost_commands", c.lost),
        ];
        let all = self.counters.entries().chain(self.received().entries()).chain(commands);
        all.for_each(|(name, n)| tell(name, n));
    }

    fn unknown(&self, n: usize) -> Option<String> {
        let u = self.unknown_commands().get(n)?;
        Some(format!("command {:#x}, modifier {:#x}", u.opcode, u.modifier))
    }

    fn register_name(&self, r: Reg) -> Option<&'static str> {
        if r.region == 0 { register_name(r.offset) } else { None }
    }
}

impl<P: Port> Device<P> for Mlx5 {
    fn mmio_read(&mut self, _p: &mut P, at: Time, r: Reg, size: u8) -> u64 {
        // Doorbell pages are write-only.
        if r.region == 0 && r.offset < init_segment::LEN {
            self.read_segment(at, r.offset, size)
        } else {
            0
        }
    }

    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, size: u8, v: u64) {
        let (page, offset) = (r.offset / uar::PAGE, r.offset % uar::PAGE);
        let sensible = if r.region != 0 {
            false
        } else if r.offset < init_segment::LEN {
            self.write_segment(at, r.offset, size, v)
        } else {
            self.uars.get(page).is_some() && self.write_uar(p, at, offset, size, v)
        };
        if !sensible {
            self.counters.bad_doorbells += 1;
        }
        self.update_next_event();
    }

    fn receive(&mut self, p: &mut P, at: Time, frame: &[u8]) -> RxVerdict {
        // What is due before makes room for it.
        if self.due <= at {
            self.advance(p, at);
        }
        let taken = self.arrive(p, at, frame);
        if taken == RxVerdict::Yes {
            self.rx_casts.count(frame);
        }
        if !matches!(taken, RxVerdict::Hold | RxVerdict::Dropped(DropReason::Off)) {
            self.rx_wire.count(frame);
        }
        taken
    }

    fn advance(&mut self, p: &mut P, until: Time) {
        // `NEVER` is not a time at which anything is due.
        let until = until.min(Time::from_ps(Time::NEVER.ps() - 1));
        while self.due <= until && !p.is_spent() {
            // What happens before a command happens before it.
            let command = self.command_due();
            self.transmit(p, until.min(command));
            self.write_back(p, until.min(command));
            if command <= until && !p.is_spent() {
                self.command_step(p, command);
            }
            self.update_next_event();
        }
    }

    fn cable(&mut self, p: &mut P, at: Time, plugged: bool) {
        self.advance(p, at);
        self.set_carrier(p, at, plugged);
    }

    fn reset(&mut self, p: &mut P, _at: Time) {
        p.charge(RESET + self.size() * OBJECT);
        let mut old = core::mem::replace(self, Mlx5::new(self.cfg));
        self.counters = old.counters;
        (self.rx_casts, self.rx_wire) = (old.rx_casts, old.rx_wire);
        self.rx.inherit(&mut old.rx);
        self.pipe.inherit(&old.pipe);
        self.firmware.inherit(&mut old.firmware);
        self.apply_port();
    }
}
