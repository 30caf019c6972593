//! The pools of receive buffers.
//!
//! Source: ibmveth.c `ibmveth_replenish_buffer_pool`, `ibmveth_replenish_task`,
//! `ibmveth_remove_buffer_from_pool`.
//!
//! A pool has as many places as buffers. A place is lent, or on the pool's list of free
//! ones, where it may have kept its buffer, still mapped: one whose frame was copied
//! out. The correlator in it is its place's, so it can be lent again as it is.

use super::call;
use super::config::Pool;
use super::stats::Stats;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use doorbell_hal::{Alignment, CpuWork, Direction, Hypervisor, Mapped};
use doorbell_layout::ibmveth::{ADD_BUFFERS, CORRELATOR, Descriptor, status};
use zerocopy::IntoBytes;
use zerocopy::big_endian::U64;

/// Pools.
pub(super) const POOLS: usize = 5;

#[derive(Debug)]
struct Slot {
    buffer: Option<Mapped>,
    lent: bool,
}

#[derive(Debug)]
struct Places {
    slots: Box<[Slot]>,
    free: VecDeque<u32>,
    size: u32,
    active: bool,
}

/// All pools of an open adapter.
#[derive(Debug)]
pub(super) struct Pools {
    pools: [Places; POOLS],
    /// Buffers a call lends at most.
    per_call: usize,
    /// In the last walk there was no memory.
    pub(super) starved: bool,
}

/// A buffer's place, as its correlator has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pool: u32,
    index: u32,
}

impl At {
    const fn correlator(self) -> u64 {
        (self.pool as u64) << 32 | self.index as u64
    }
}

impl Pools {
    pub(super) fn new(config: &[Pool; POOLS], multi: bool) -> Pools {
        let places = |p: &Pool| {
            // What is not active has no buffers, and needs no places.
            let count = if p.active { p.count } else { 0 };
            Places {
                slots: (0..count).map(|_| Slot { buffer: None, lent: false }).collect(),
                free: (0..count).collect(),
                size: p.size,
                active: p.active,
            }
        };
        Pools {
            pools: config.each_ref().map(places),
            per_call: if multi { ADD_BUFFERS } else { 1 },
            starved: false,
        }
    }

    /// Buffers lent by each pool.
    pub(super) fn lent(&self) -> [u32; POOLS] {
        self.pools.each_ref().map(|p| (p.slots.len() - p.free.len()) as u32)
    }

    /// Lends buffers, the largest first, from each pool that has fewer than seven
    /// eighths out: small frames can use a large buffer, but not the reverse.
    pub(super) fn replenish<H: Hypervisor>(&mut self, h: &mut H, unit: u32, s: &mut Stats) {
        s.replenish_task_cycles += 1;
        self.starved = false;
        for i in (0..POOLS).rev() {
            let p = &self.pools[i];
            let lent = p.slots.len() - p.free.len();
            if p.active && lent < p.slots.len() * 7 / 8 {
                self.replenish_pool(h, unit, s, i);
            }
        }
    }

    fn replenish_pool<H: Hypervisor>(&mut self, h: &mut H, unit: u32, s: &mut Stats, pool: usize) {
        loop {
            let mut descriptors = [Descriptor::default(); ADD_BUFFERS];
            let mut taken = [0; ADD_BUFFERS];
            let mut n = 0;
            while n < self.per_call {
                let Some((index, d)) = self.pools[pool].fill(h, pool as u32) else { break };
                (taken[n], descriptors[n]) = (index, d);
                n += 1;
            }
            let asked = self.per_call;
            if n == 0 {
                self.no_memory(s, pool);
                return;
            }
            let answer = if n > 1 {
                s.replenish_multi_calls += 1;
                call::add_many(h, unit, &descriptors)
            } else {
                call::add(h, unit, descriptors[0])
            };
            let p = &mut self.pools[pool];
            if answer == status::H_SUCCESS {
                for index in &taken[..n] {
                    p.slots[*index as usize].lent = true;
                    h.charge(CpuWork::RxPost);
                }
                s.replenish_add_buff_success += n as u64;
                if n < asked {
                    self.no_memory(s, pool);
                    return;
                }
                continue;
            }
            // In the order they had.
            for index in taken[..n].iter().rev() {
                p.free.push_front(*index);
            }
            if answer == status::H_FUNCTION && n > 1 {
                // Firmware that says it can and cannot. One at a time from now on; the
                // buffers keep their places.
                self.per_call = 1;
                continue;
            }
            s.replenish_add_buff_failure += n as u64;
            for index in &taken[..n] {
                p.drop_buffer(h, *index);
            }
            return;
        }
    }

    /// A pool's walk has ended: with places left, for want of memory.
    fn no_memory(&mut self, s: &mut Stats, pool: usize) {
        if !self.pools[pool].free.is_empty() {
            s.replenish_no_mem += 1;
            self.starved = true;
        }
    }

    /// The lent buffer that `correlator` names.
    pub(super) fn find(&self, correlator: u64) -> Option<(At, &Mapped)> {
        let at = At { pool: (correlator >> 32) as u32, index: correlator as u32 };
        let slot = self.pools.get(at.pool as usize)?.slots.get(at.index as usize)?;
        slot.buffer.as_ref().filter(|_| slot.lent).map(|m| (at, m))
    }

    /// Takes the buffer for good; its place is free.
    pub(super) fn harvest(&mut self, at: At) -> Option<Mapped> {
        let p = &mut self.pools[at.pool as usize];
        let slot = &mut p.slots[at.index as usize];
        slot.lent = false;
        p.free.push_back(at.index);
        slot.buffer.take()
    }

    /// The buffer stays at its place, to be lent again.
    pub(super) fn recycle(&mut self, at: At) {
        let p = &mut self.pools[at.pool as usize];
        p.slots[at.index as usize].lent = false;
        p.free.push_back(at.index);
    }

    /// Gives all back; the adapter is closed.
    pub(super) fn release<H: Hypervisor>(mut self, h: &mut H) {
        for p in &mut self.pools {
            for i in 0..p.slots.len() {
                p.drop_buffer(h, i as u32);
            }
        }
    }
}

impl Places {
    /// The next free place, with a buffer; where that is. Without memory the place stays
    /// free.
    fn fill<H: Hypervisor>(&mut self, h: &mut H, pool: u32) -> Option<(u32, Descriptor)> {
        let index = self.free.pop_front()?;
        let slot = &mut self.slots[index as usize];
        if slot.buffer.is_none() {
            slot.buffer = buffer(h, self.size, At { pool, index });
        }
        match &slot.buffer {
            Some(m) => Some((index, Descriptor::new(0, self.size, m.iova().0 as u32))),
            None => {
                self.free.push_front(index);
                None
            }
        }
    }

    fn drop_buffer<H: Hypervisor>(&mut self, h: &mut H, index: u32) {
        if let Some(m) = self.slots[index as usize].buffer.take() {
            let b = h.unmap(m);
            h.release(b);
        }
    }
}

/// A mapped buffer with the correlator of its place in its first bytes.
fn buffer<H: Hypervisor>(h: &mut H, size: u32, at: At) -> Option<Mapped> {
    let buf = h.buffer(size, Alignment::ANY).ok()?;
    let correlator = U64::new(at.correlator());
    h.bytes_mut(&buf, 0..CORRELATOR, |b| b.copy_from_slice(correlator.as_bytes()));
    h.charge(CpuWork::Map);
    match h.map(buf, 0..size, Direction::FromDevice) {
        Ok(m) if reachable(m.iova().0, size) => Some(m),
        Ok(m) => {
            let b = h.unmap(m);
            h.release(b);
            None
        }
        Err(e) => {
            h.release(e.buf);
            None
        }
    }
}

/// Whether an ioba can name `len` bytes at `at`.
pub(super) const fn reachable(at: u64, len: u32) -> bool {
    match at.checked_add(len as u64) {
        Some(end) => end <= 1 << 32,
        None => false,
    }
}
