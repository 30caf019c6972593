//! Send, completion and event queues as the device keeps them.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use doorbell_layout::mlx5::{CqContext, EqContext, SqContext, SqState};
use doorbell_seam::{Span, Time};

/// A send queue.
#[derive(Debug)]
pub(super) struct Sq {
    pub(super) ctx: SqContext,
    pub(super) state: SqState,
    /// Doorbells rung and not yet fetched up to: when, and the counter after the
    /// last announced WQE.
    pub(super) announced: VecDeque<(Time, u16)>,
    /// Counter up to which WQEs are on chip.
    pub(super) fetched: u16,
    /// Counter of the WQE being executed.
    pub(super) executed: u16,
    /// Data segment of it that comes next; 0: none yet.
    pub(super) segment: u32,
    /// WQEs on chip, at the offsets they have in the ring.
    pub(super) wqes: Box<[u8]>,
    /// It stands in the fetch arbiter's round.
    pub(super) in_round: bool,
}

impl Sq {
    pub(super) fn new(ctx: SqContext) -> Sq {
        Sq {
            ctx,
            state: SqState::Reset,
            announced: VecDeque::with_capacity(16),
            fetched: 0,
            executed: 0,
            segment: 0,
            wqes: alloc::vec![0; 64 << ctx.log_size].into_boxed_slice(),
            in_round: false,
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

    /// Byte offset of a block in the ring.
    #[inline(always)]
    pub(super) fn offset(&self, pc: u16) -> usize {
        usize::from(pc & self.mask()) * 64
    }
}

/// A completion queue.
#[derive(Debug)]
pub(super) struct Cq {
    pub(super) ctx: CqContext,
    /// Entries written, free running.
    pub(super) pi: u32,
    /// The consumer counter last seen.
    pub(super) ci: u32,
    /// Armed: an event is owed when there is an entry beyond this one; since when.
    pub(super) armed: Option<(u32, Time)>,
    /// When the first entry was written that no event spoke of yet.
    pub(super) first_unreported: Option<Time>,
    /// It overran; nothing is written any more.
    pub(super) dead: bool,
}

impl Cq {
    pub(super) fn new(ctx: CqContext) -> Cq {
        Cq { ctx, pi: 0, ci: 0, armed: None, first_unreported: None, dead: false }
    }

    /// When its next event is due, by moderation: at `max_count` unreported
    /// entries, or `period_us` after the first of them.
    pub(super) fn event_due(&self) -> Time {
        let (Some((armed, since)), Some(first)) = (self.armed, self.first_unreported) else { return Time::NEVER };
        let waiting = self.pi.wrapping_sub(armed) & 0xff_ffff;
        if waiting == 0 {
            Time::NEVER
        } else if waiting >= u32::from(self.ctx.max_count) {
            first.max(since)
        } else {
            since.max(first + Span::from_us(u64::from(self.ctx.period_us)))
        }
    }
}

/// An event queue.
#[derive(Debug)]
pub(super) struct Eq {
    pub(super) ctx: EqContext,
    pub(super) pi: u32,
    pub(super) armed: bool,
}

impl Eq {
    /// EQs are created armed.
    pub(super) fn new(ctx: EqContext) -> Eq {
        Eq { ctx, pi: 0, armed: true }
    }
}

/// Objects of one kind, by their number.
#[derive(Debug)]
pub(super) struct Table<T> {
    base: u32,
    slots: alloc::vec::Vec<Option<T>>,
}

impl<T> Table<T> {
    /// Numbers start at `base`: a wrong kind of number then finds nothing.
    pub(super) const fn new(base: u32) -> Table<T> {
        Table { base, slots: alloc::vec::Vec::new() }
    }
    /// The number of a new object, if there are fewer than `limit`.
    pub(super) fn insert(&mut self, t: T, limit: usize) -> Option<u32> {
        let i = match self.slots.iter().position(Option::is_none) {
            Some(i) => i,
            None if self.slots.len() < limit => {
                self.slots.push(None);
                self.slots.len() - 1
            }
            None => return None,
        };
        self.slots[i] = Some(t);
        Some(self.base + i as u32)
    }
    #[inline(always)]
    pub(super) fn get(&self, n: u32) -> Option<&T> {
        self.slots.get(n.wrapping_sub(self.base) as usize)?.as_ref()
    }
    #[inline(always)]
    pub(super) fn get_mut(&mut self, n: u32) -> Option<&mut T> {
        self.slots.get_mut(n.wrapping_sub(self.base) as usize)?.as_mut()
    }
    pub(super) fn remove(&mut self, n: u32) -> Option<T> {
        self.slots.get_mut(n.wrapping_sub(self.base) as usize)?.take()
    }
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut T)> {
        let base = self.base;
        self.slots.iter_mut().enumerate().filter_map(move |(i, t)| Some((base + i as u32, t.as_mut()?)))
    }
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let base = self.base;
        self.slots.iter().enumerate().filter_map(move |(i, t)| Some((base + i as u32, t.as_ref()?)))
    }
}
