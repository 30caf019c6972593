//! Send, completion and event queues as the device keeps them.

use super::receive::Session;
use super::{Answer, ring::Ring};
use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use doorbell_hal::{Iova, Span, Time, fail_if};
use doorbell_layout::mlx5::{
    CmdStatus, CompressionLayout, CqContext, EqContext, MAX_WQEBBS, SqContext, SqState, WQEBB,
    command::Sqc,
};

#[derive(Debug)]
pub(super) struct Sq {
    pub(super) ctx: SqContext,
    pub(super) ring: Ring,
    pub(super) pd: u32,
    /// Without one it sends nothing.
    pub(super) tis: Option<u32>,
    /// Its WQEs may say where the headers are (`allow_swp`).
    pub(super) swp: bool,
    /// The context it was created with.
    pub(super) context: Box<Sqc>,
    pub(super) state: SqState,
    /// Doorbells rung and not yet fetched up to: when, and the counter after the
    /// last announced WQE.
    pub(super) announced: VecDeque<(Time, u16)>,
    /// Counter up to which WQEs are on chip.
    pub(super) fetched: u16,
    /// Counter of the WQE being executed.
    pub(super) executed: u16,
    /// Data segment of it that comes next; 0: none yet. Of a large send, the segments sent.
    pub(super) segment: u32,
    /// WQEs on chip, at their offsets in the ring. The ring's start follows once more behind its
    /// end, so that a WQE that wraps is in one piece.
    pub(super) wqes: Box<[u8]>,
    /// It stands in the fetch arbiter's round.
    pub(super) in_round: bool,
    /// Its doorbell record as last looked at. A reset leaves it: the record is left over, too.
    pub(super) seen: u16,
}

/// Bytes of the longest WQE.
const LONGEST: usize = (MAX_WQEBBS * WQEBB) as usize;

impl Sq {
    pub(super) fn new(ctx: SqContext, ring: Ring, pd: u32, tis: Option<u32>, context: &Sqc) -> Sq {
        Sq {
            ctx,
            ring,
            pd,
            tis,
            swp: context.get(Sqc::ALLOW_SWP) == 1,
            context: Box::new(*context),
            state: SqState::Reset,
            announced: VecDeque::with_capacity(16),
            fetched: 0,
            executed: 0,
            segment: 0,
            wqes: alloc::vec![0; (64 << ctx.log_size) + LONGEST].into_boxed_slice(),
            in_round: false,
            seen: 0,
        }
    }

    pub(super) fn reset(&mut self) {
        self.announced.clear();
        self.fetched = 0;
        self.executed = 0;
        self.segment = 0;
        self.in_round = false;
    }

    pub(super) fn mask(&self) -> u16 {
        ((1u32 << self.ctx.log_size) - 1) as u16
    }

    /// `len` bytes were fetched to offset `at`: keeps the copy behind the end.
    #[inline(always)]
    pub(super) fn mirror(&mut self, at: usize, len: usize) {
        if at < LONGEST {
            let ring = 64usize << self.ctx.log_size;
            self.wqes.copy_within(at..LONGEST.min(at + len), ring + at);
        }
    }

    /// Byte offset of a block in the ring.
    #[inline(always)]
    pub(super) fn offset(&self, pc: u16) -> usize {
        usize::from(pc & self.mask()) * 64
    }
}

#[derive(Debug)]
pub(super) struct Cq {
    pub(super) ctx: CqContext,
    pub(super) ring: Ring,
    /// Entries written, free running.
    pub(super) pi: u32,
    /// The consumer counter last seen.
    pub(super) ci: u32,
    /// Armed: an event is owed when there is an entry beyond this one; since when.
    pub(super) armed: Option<(u32, Time)>,
    /// By when an event has to speak of the entries beyond the last event; `None`
    /// when there are none.
    pub(super) report_by: Option<Time>,
    /// Time at which the last entry was written.
    last_written: Time,
    /// See [`Cq::event_due`]. Follows from the fields above and the moderation.
    event_due: Time,
    /// It overran; nothing is written any more.
    pub(super) dead: bool,
    /// The arm in its doorbell record as last looked at.
    pub(super) seen: u32,
    /// Entries that wait for others, if they may be compressed.
    pub(super) session: Option<Box<Session>>,
}

impl Cq {
    /// Armed from its creation: see `polled`.
    pub(super) fn new(ctx: CqContext, ring: Ring, armed: bool) -> Cq {
        let armed = armed.then_some((0, Time::ZERO));
        Cq {
            ctx,
            ring,
            pi: 0,
            ci: 0,
            armed,
            report_by: None,
            last_written: Time::ZERO,
            event_due: Time::NEVER,
            dead: false,
            seen: 0,
            session: ctx.compression.map(|c| Box::new(Session::new(c))),
        }
    }

    /// So many entries were written.
    pub(super) fn written(&mut self, at: Time, entries: u32) {
        self.pi = self.pi.wrapping_add(entries);
        self.last_written = at;
        self.report_by.get_or_insert(at + Span::from_us(u64::from(self.ctx.period_us)));
        self.update_event();
    }

    /// Returns true if there is room for `n` entries more, by the consumer counter last seen.
    #[inline(always)]
    pub(super) fn fits(&self, n: u32) -> bool {
        (self.pi.wrapping_sub(self.ci) & 0xff_ffff) + n <= 1 << self.ctx.log_size
    }

    /// Returns the address of the `n`th place from the next entry on.
    #[inline(always)]
    pub(super) fn slot(&self, n: u32) -> Iova {
        let place = self.pi.wrapping_add(n) & ((1 << self.ctx.log_size) - 1);
        self.ring.at(u64::from(place) * 64)
    }

    /// Returns the lap, whose lowest bit is the owner bit.
    #[inline(always)]
    pub(super) fn lap(&self) -> u8 {
        (self.pi >> self.ctx.log_size) as u8
    }

    /// Returns true if its entries tell the lap.
    pub(super) fn enhanced(&self) -> bool {
        self.ctx.compression.is_some_and(|c| c.layout == CompressionLayout::Enhanced)
    }

    /// Its event was written.
    pub(super) fn reported(&mut self) {
        self.armed = None;
        self.report_by = None;
        self.update_event();
    }

    pub(super) fn moderate(&mut self, period_us: Option<u16>, max_count: Option<u16>) {
        self.ctx.period_us = period_us.unwrap_or(self.ctx.period_us);
        self.ctx.max_count = max_count.unwrap_or(self.ctx.max_count);
        self.update_event();
    }

    /// It has been read up to `ci`; one event is wanted for what is beyond.
    pub(super) fn arm(&mut self, at: Time, ci: u32) {
        self.armed = Some((ci, at));
        self.ci = ci;
        if ci == self.pi & 0xff_ffff {
            self.report_by = None;
        } else {
            // An entry that was reported and is still not read is reported at
            // once; one that no event spoke of yet has its moderation.
            self.report_by.get_or_insert(at);
        }
        self.update_event();
    }

    /// Returns the time of its next event by moderation: with the entry that makes `max_count` of
    /// those beyond the armed counter, or `period_us` after the first unreported one.
    #[inline(always)]
    pub(super) fn event_due(&self) -> Time {
        self.event_due
    }

    fn update_event(&mut self) {
        self.event_due = match (self.armed, self.report_by) {
            (Some((armed, since)), Some(report_by)) => {
                let waiting = self.pi.wrapping_sub(armed) & 0xff_ffff;
                if waiting == 0 {
                    Time::NEVER
                } else if waiting >= u32::from(self.ctx.max_count) {
                    since.max(self.last_written)
                } else {
                    since.max(report_by)
                }
            }
            _ => Time::NEVER,
        };
    }
}

#[derive(Debug)]
pub(super) struct Eq {
    pub(super) ctx: EqContext,
    pub(super) ring: Ring,
    pub(super) pi: u32,
    /// The consumer counter last told.
    pub(super) ci: u32,
    /// An interrupt is owed with the next entry; since when.
    pub(super) armed: Option<Time>,
}

impl Eq {
    /// EQs are created armed.
    pub(super) fn new(ctx: EqContext, ring: Ring) -> Eq {
        Eq { ctx, ring, pi: 0, ci: 0, armed: Some(Time::ZERO) }
    }
}

/// A memory key.
#[derive(Debug)]
pub(super) struct Mkey {
    pub(super) pd: u32,
    /// The low byte of its number in a WQE.
    pub(super) key: u8,
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) log_page: u32,
    pub(super) readable: bool,
    pub(super) writable: bool,
    /// All of memory, at bus addresses.
    pub(super) everything: bool,
    /// It waits for a UMR that fills it in.
    pub(super) free: bool,
    pub(super) pages: Pages,
}

/// Translations of a memory key.
#[derive(Debug)]
pub(super) enum Pages {
    /// Its addresses are bus addresses.
    None,
    /// Pages that stay.
    List(Ring),
    /// Pages that UMRs change, with their rights in the low bits.
    Table(Box<[u64]>),
}

impl Mkey {
    /// Returns true if a queue of domain `pd` may use it, under the number `lkey`.
    #[inline(always)]
    pub(super) fn admits(&self, pd: u32, lkey: u32) -> bool {
        self.key == lkey as u8 && self.pd == pd && !self.free
    }

    /// Returns the bus address of `addr`, and how many of `len` bytes are contiguous there; `None`
    /// when they are not all inside, or their page lacks this right.
    pub(super) fn find(&self, addr: u64, len: u64, right: u64) -> Option<(Iova, u64)> {
        let offset = addr.checked_sub(self.start)?;
        if len > self.length.checked_sub(offset)? {
            return None;
        }
        match &self.pages {
            Pages::None => Some((Iova(addr), len)),
            Pages::List(r) => {
                let at = (self.start & ((1 << self.log_page) - 1)) + offset;
                Some((r.at(at), r.piece(at).min(len)))
            }
            Pages::Table(t) => {
                let page = 1 << self.log_page;
                let at = (self.start & (page - 1)) + offset;
                let entry = *t.get(usize::try_from(at >> self.log_page).ok()?)?;
                let inside = at & (page - 1);
                let first = entry & !(page - 1);
                (entry & right != 0).then(|| (Iova(first + inside), (page - inside).min(len)))
            }
        }
    }
}

/// Objects of one kind, by their number.
#[derive(Debug)]
pub(super) struct Table<T> {
    base: u32,
    slots: alloc::vec::Vec<Option<T>>,
    /// Slots without an object.
    free: BTreeSet<usize>,
}

impl<T> Table<T> {
    /// Numbers start at `base`: a wrong kind of number then finds nothing.
    pub(super) const fn new(base: u32) -> Table<T> {
        Table { base, slots: alloc::vec::Vec::new(), free: BTreeSet::new() }
    }
    /// Adds an object. Returns its number, or `NoResources` when there are `limit`.
    pub(super) fn insert(&mut self, t: T, limit: usize) -> Answer<u32> {
        let i = match self.free.pop_first() {
            Some(i) => i,
            None if self.slots.len() < limit => {
                self.slots.push(None);
                self.slots.len() - 1
            }
            None => return Err(CmdStatus::NoResources),
        };
        self.slots[i] = Some(t);
        Ok(self.base + i as u32)
    }
    /// Returns an object that a command names; `BadResource` when it does not exist, as for
    /// [`Table::find_mut`] and [`Table::destroy`].
    pub(super) fn find(&self, n: u32) -> Answer<&T> {
        self.get(n).ok_or(CmdStatus::BadResource)
    }
    /// Returns an object that a command changes.
    pub(super) fn find_mut(&mut self, n: u32) -> Answer<&mut T> {
        self.get_mut(n).ok_or(CmdStatus::BadResource)
    }
    /// Removes an object. One that others refer to stays: `BadResourceState`.
    pub(super) fn destroy(&mut self, n: u32, referred: bool) -> Answer {
        let slot = self.slots.get_mut(n.wrapping_sub(self.base) as usize);
        let slot = slot.filter(|slot| slot.is_some()).ok_or(CmdStatus::BadResource)?;
        fail_if(referred, CmdStatus::BadResourceState)?;
        *slot = None;
        self.free.insert((n - self.base) as usize);
        Ok(())
    }
    /// Returns true if an object is such.
    pub(super) fn any(&self, is: impl Fn(&T) -> bool) -> bool {
        self.slots.iter().flatten().any(is)
    }
    #[inline(always)]
    pub(super) fn get(&self, n: u32) -> Option<&T> {
        self.slots.get(n.wrapping_sub(self.base) as usize)?.as_ref()
    }
    #[inline(always)]
    pub(super) fn get_mut(&mut self, n: u32) -> Option<&mut T> {
        self.slots.get_mut(n.wrapping_sub(self.base) as usize)?.as_mut()
    }
    /// Returns all objects.
    pub(super) fn into_objects(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().flatten()
    }
    /// Returns the count of objects.
    pub(super) fn live(&self) -> usize {
        self.slots.len() - self.free.len()
    }
    /// Returns the count of numbers given out.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }
    /// The object of the `i`th of them.
    pub(super) fn nth_mut(&mut self, i: usize) -> Option<(u32, &mut T)> {
        Some((self.base + i as u32, self.slots.get_mut(i)?.as_mut()?))
    }
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let numbered = (self.base..).zip(&mut self.slots);
        numbered.filter_map(|(n, t)| Some((n, t.as_mut()?)))
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (self.base..).zip(&self.slots).filter_map(|(n, t)| Some((n, t.as_ref()?)))
    }
}

#[cfg(test)]
mod tests;
