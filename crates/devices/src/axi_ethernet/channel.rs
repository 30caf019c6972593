//! A channel of the DMA engine; transmit and receive have one each.
//!
//! The engine fetches descriptors from CURDESC along the chain, one at a time for both channels, up
//! to four ahead and never past TAILDESC. A descriptor counts as done when the write of its status
//! is in memory; then CURDESC moves on and the interrupt follows. Idle: the one at TAILDESC is
//! done.
//!
//! Source: PG021, "Descriptor Management", DMACR, DMASR, CURDESC, TAILDESC; PG034;
//! axi_sg_ftch_pntr.vhd of AXI SG 4.1.

use super::{coalesce::Coalescer, config::Config};
use alloc::collections::VecDeque;
use doorbell_hal::{DmaFault, DmaFaultKind, Iova, Port, Span, Time};
use doorbell_layout::axienet::{Descriptor, cr, sr};
use zerocopy::{IntoBytes, little_endian::U32};

/// Descriptors fetched ahead, or being updated (axi_dma.vhd, SG_FTCH_DESC2QUEUE and
/// SG_UPDT_DESC2QUEUE).
const DEPTH: usize = 4;
/// Bytes of a descriptor that transmission reads (axi_dma.vhd, SG_CH1_WORDS_TO_FETCH).
pub(super) const TX_FETCH: usize = 52;
/// Bytes that reception reads: it makes the application words itself (SG_CH2_WORDS_TO_FETCH).
pub(super) const RX_FETCH: usize = 32;
/// PG021, "Latency": clocks from a tail write to the fetch.
const TAIL_TO_FETCH: u64 = 10;
/// Clocks from a descriptor's arrival to its data's address. PG021 has 28 from its address on, of
/// which 13 are the beats of a descriptor at 32 bits, and some are the answer's.
const FETCHED_TO_DATA: u64 = 10;
/// CR after a reset: threshold 1.
const CR_RESET: u32 = 1 << cr::THRESHOLD_SHIFT;
/// CR: reads as one (PG021).
const CR_ONE: u32 = 1 << 1;
/// CR: what can be written.
const CR_WRITABLE: u32 =
    cr::RS | cr::KEYHOLE | cr::CYCLIC | cr::IRQ_ALL | cr::THRESHOLD | cr::DELAY;
/// Descriptors are 16 words apart.
const ALIGN: u64 = !63;

/// The place of a descriptor in the chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) place: u64,
    next: u64,
}

/// A fetched descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fetched {
    pub(super) link: Link,
    /// Time at which work on it can begin.
    pub(super) at: Time,
    /// Address of its data.
    pub(super) buffer: u64,
    pub(super) control: u32,
    /// The application words that transmission uses.
    pub(super) app: [u32; 3],
    /// It was done before it was fetched.
    done: bool,
    /// It may be one that no frame can use: done before, empty, or at a bad address.
    pub(super) suspect: bool,
}

/// A descriptor whose status is being written.
#[derive(Clone, Copy, Debug)]
struct Update {
    at: Time,
    next: u64,
    /// It ends a packet.
    eof: bool,
}

/// Status to be written to a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report<'a> {
    pub(super) status: u32,
    /// Application words to go with it.
    pub(super) app: Option<&'a [u32; 5]>,
    /// The descriptor is the last of its packet.
    pub(super) eof: bool,
}

/// An error has halted the channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Halted;

#[derive(Debug)]
pub(super) struct Channel {
    cfg: Config,
    /// Bytes of a descriptor that are read.
    reads: usize,
    pub(super) control: u32,
    status: u32,
    current: u64,
    tail: u64,
    /// Time at which fetching may go on.
    told: Time,
    /// Next to fetch, what was fetched last, and when that is there.
    next: u64,
    last: u64,
    arrived: Time,
    /// Fetching has reached the tail, or was never started.
    paused: bool,
    /// Time from which it fetches if the engine is free; `NEVER` if it does not.
    pub(super) fetches: Time,
    /// TAILDESC was written since RS was set.
    started: bool,
    pub(super) queue: VecDeque<Fetched>,
    /// One of those may be suspect.
    pub(super) suspects: bool,
    updates: VecDeque<Update>,
    pub(super) coalescer: Coalescer,
}

/// Descriptor and status bits of data that could not be reached.
pub(super) const fn data_error(fault: DmaFault) -> (u32, u32) {
    match fault.kind {
        DmaFaultKind::Unmapped => (Descriptor::DEC_ERR, sr::DMA_DEC_ERR),
        DmaFaultKind::Direction | DmaFaultKind::Injected => (Descriptor::SLV_ERR, sr::DMA_SLV_ERR),
    }
}

/// Status bits of a descriptor that could not be reached.
const fn descriptor_error(fault: DmaFault) -> u32 {
    match fault.kind {
        DmaFaultKind::Unmapped => sr::SG_DEC_ERR,
        DmaFaultKind::Direction | DmaFaultKind::Injected => sr::SG_SLV_ERR,
    }
}

impl Channel {
    pub(super) fn new(cfg: &Config, reads: usize) -> Channel {
        Channel {
            cfg: *cfg,
            reads,
            control: CR_RESET,
            status: sr::HALTED,
            current: 0,
            tail: 0,
            told: Time::ZERO,
            next: 0,
            last: 0,
            arrived: Time::ZERO,
            paused: true,
            fetches: Time::NEVER,
            started: false,
            queue: VecDeque::with_capacity(DEPTH),
            suspects: false,
            updates: VecDeque::with_capacity(2 * DEPTH),
            coalescer: Coalescer::new(cfg, CR_RESET),
        }
    }

    // ---- registers ----

    pub(super) fn read_control(&self) -> u32 {
        self.control | CR_ONE
    }

    /// Control, status, current and tail descriptor.
    pub(super) fn facts(&self, at: Time) -> [u64; 4] {
        [self.control.into(), self.read_status(at).into(), self.current, self.tail]
    }

    /// Returns the packets to an interrupt, and the delay behind the last of fewer.
    pub(super) fn moderation(&self) -> (u32, Span) {
        self.coalescer.setting(self.control)
    }

    pub(super) fn read_status(&self, at: Time) -> u32 {
        self.status | sr::SG_INCLUDED | self.coalescer.status(at, self.control)
    }

    pub(super) fn current(&self) -> u64 {
        self.current
    }

    pub(super) fn tail(&self) -> u64 {
        self.tail
    }

    pub(super) fn runs(&self) -> bool {
        self.control & cr::RS != 0
    }

    /// Returns true if its line is high.
    pub(super) fn interrupts(&self) -> bool {
        self.status & self.control & sr::IRQ_ALL != 0
    }

    /// CR is written. `working`: the front of the queue is in work. `failed`: either channel is in
    /// error, and nothing but a reset starts it again.
    pub(super) fn write_control(&mut self, at: Time, v: u32, working: bool, failed: bool) {
        let mut v = v & CR_WRITABLE;
        if v & cr::THRESHOLD == 0 {
            v |= 1 << cr::THRESHOLD_SHIFT;
        }
        if failed {
            v &= !cr::RS;
        }
        let old = core::mem::replace(&mut self.control, v);
        self.coalescer.written(at, old, v);
        match (old & cr::RS != 0, self.runs()) {
            (false, true) => {
                if self.status & sr::HALTED != 0 {
                    self.next = self.current;
                }
                self.status &= !(sr::HALTED | sr::IDLE);
                self.started = false;
            }
            (true, false) => self.stop(at, working),
            _ => {}
        }
        self.update_fetches();
    }

    /// RS goes: what was fetched and not begun is forgotten.
    pub(super) fn stop(&mut self, at: Time, working: bool) {
        let old = self.control;
        self.control &= !cr::RS;
        self.coalescer.written(at, old, self.control);
        let keep = usize::from(working);
        self.next = self.queue.get(keep).map_or(self.next, |f| f.link.place);
        self.queue.truncate(keep);
        self.paused = true;
        self.update_fetches();
    }

    /// Returns true if it is in error.
    pub(super) fn has_failed(&self) -> bool {
        self.status & sr::ERRORS != 0
    }

    /// SR is written: ones clear interrupts.
    pub(super) fn write_status(&mut self, v: u32) {
        self.status &= !(v & sr::IRQ_ALL);
    }

    /// Half of CURDESC; only while halted.
    pub(super) fn write_current(&mut self, v: u64) {
        if self.status & sr::HALTED != 0 && !self.runs() {
            self.current = v & ALIGN;
        }
    }

    /// TAILDESC without its effect.
    pub(super) fn write_tail(&mut self, v: u64) {
        self.tail = v & ALIGN;
    }

    /// Applies a write of TAILDESC. Returns false from a halted channel, which ignores it.
    pub(super) fn start(&mut self, at: Time) -> bool {
        if !self.runs() {
            return false;
        }
        let was_paused = self.paused;
        // The tail is compared as a descriptor arrives, never with one that is there.
        let will_arrive_at_it = at < self.arrived && self.last == self.tail;
        let halts = self.queue.back().is_some_and(|f| self.is_stale(f));
        self.paused = self.started && (will_arrive_at_it || halts);
        if was_paused && !self.paused {
            self.told = at + self.cfg.clocks(TAIL_TO_FETCH);
        }
        self.started = true;
        self.status &= !sr::IDLE;
        self.update_fetches();
        true
    }

    // ---- fetch ----

    /// Finds anew whether it fetches, which is asked far more often than it changes.
    fn update_fetches(&mut self) {
        let wants = !self.paused && self.runs() && self.queue.len() < DEPTH;
        self.fetches = if wants { self.told } else { Time::NEVER };
    }

    /// Takes the next descriptor off the queue.
    pub(super) fn take(&mut self) {
        self.queue.pop_front();
        self.update_fetches();
    }

    /// Fetches a descriptor: when it is there. An error halts the channel.
    pub(super) fn fetch<P: Port>(&mut self, p: &mut P, t: Time) -> Result<Time, Halted> {
        let mut d = Descriptor::default();
        let place = self.next;
        let arrived = match p.read(t, Iova(place), &mut d.as_mut_bytes()[..self.reads]) {
            Ok(arrived) => arrived.max(t),
            Err(fault) => {
                self.fail(t, place, descriptor_error(fault));
                return Err(Halted);
            }
        };
        let (buffer, control) =
            (self.cfg.address(d.buffer.get(), d.buffer_msb.get()), d.control.get());
        let unaligned = !self.cfg.realign && !buffer.is_multiple_of(4);
        let empty = control & Descriptor::LENGTH == 0;
        let done = d.status.get() & Descriptor::CMPLT != 0;
        let next = self.cfg.address(d.next.get(), d.next_msb.get()) & ALIGN;
        let fetched = Fetched {
            link: Link { place, next },
            at: arrived + self.cfg.clocks(FETCHED_TO_DATA),
            buffer,
            control,
            app: [d.app[0].get(), d.app[1].get(), d.app[2].get()],
            done,
            suspect: unaligned || empty || done,
        };
        self.suspects = fetched.suspect || self.suspects && !self.queue.is_empty();
        self.queue.push_back(fetched);
        (self.last, self.next, self.arrived) = (place, next, arrived);
        // It is not read past a descriptor that will halt the channel.
        self.paused = place == self.tail || self.is_stale(&fetched);
        self.update_fetches();
        Ok(arrived)
    }

    /// Returns true if the descriptor was done before it was fetched, and that is an error.
    pub(super) fn is_stale(&self, f: &Fetched) -> bool {
        f.done && self.control & cr::CYCLIC == 0
    }

    // ---- update ----

    /// Returns true if another update can be made.
    pub(super) fn has_room(&self) -> bool {
        self.updates.len() < DEPTH
    }

    /// Writes a descriptor's status, and the application words if there are any. An error halts the
    /// channel, and so does a report that is to be of a failure: whether this one was.
    pub(super) fn update<P: Port>(
        &mut self,
        p: &mut P,
        t: Time,
        Link { place, next }: Link,
        r: Report<'_>,
    ) -> Result<bool, Halted> {
        let poisoned = p.begin_completion(t);
        let status = r.status | if poisoned { Descriptor::SLV_ERR } else { 0 };
        let [a, b, c, d, e] = r.app.copied().unwrap_or_default();
        let words = [status, a, b, c, d, e].map(U32::new);
        let words = &words[..if r.app.is_some() { words.len() } else { 1 }];
        match p.write(t, Iova(place) + u64::from(Descriptor::STATUS_AT), words.as_bytes()) {
            Ok(landed) => {
                let at = self.updates.back().map_or(t, |u| u.at).max(landed);
                self.updates.push_back(Update { at, next, eof: r.eof });
                let halts = poisoned && !self.has_failed();
                if halts {
                    self.fail(t, place, sr::DMA_SLV_ERR);
                }
                Ok(halts)
            }
            Err(fault) => {
                self.fail(t, place, descriptor_error(fault));
                Err(Halted)
            }
        }
    }

    pub(super) fn update_due(&self) -> Time {
        self.updates.front().map_or(Time::NEVER, |u| u.at)
    }

    /// Returns the time at which every status that was written is in memory.
    pub(super) fn reported(&self) -> Time {
        self.updates.back().map_or(Time::ZERO, |u| u.at)
    }

    /// A status is in memory: whether a packet is done.
    pub(super) fn updated(&mut self, t: Time) -> bool {
        let Some(u) = self.updates.pop_front() else { return false };
        if !self.has_failed() {
            self.current = u.next;
        }
        if u.eof {
            self.status |= self.coalescer.packet_ends(t, self.control, self.status);
        }
        u.eof
    }

    /// An error at the descriptor at `place`.
    pub(super) fn fail(&mut self, at: Time, place: u64, errors: u32) {
        self.status |= errors | sr::ERR_IRQ;
        self.current = place;
        self.stop(at, false);
    }

    /// Halted and Idle follow what is left to do. `busy`: data are on their way.
    pub(super) fn settle(&mut self, busy: bool) {
        if busy || !self.queue.is_empty() || !self.updates.is_empty() {
            return;
        }
        if !self.runs() {
            self.status = self.status & !sr::IDLE | sr::HALTED;
        } else if self.started && self.paused {
            self.status |= sr::IDLE;
        }
    }

    // ---- delay ----

    pub(super) fn delay_due(&self) -> Time {
        self.coalescer.due(self.control)
    }

    pub(super) fn delay_over(&mut self) {
        self.status |= self.coalescer.expire(self.control);
    }
}
