//! The pools of receive buffers.
//!
//! Source: ibmveth.c `ibmveth_replenish_buffer_pool`, `ibmveth_replenish_task`,
//! `ibmveth_remove_buffer_from_pool`.
//!
//! A pool has an entry per buffer. An entry is lent, or on the pool's free list, where it may keep
//! its buffer, still mapped, after a frame was copied out. The correlator in a buffer names its
//! entry, so the buffer can be lent again unchanged.

use super::config::{POOLS, Pool, reachable};
use super::{call, stats::Stats};
use crate::common::{discard, map_rx};
use alloc::{boxed::Box, collections::VecDeque};
use doorbell_hal::{Alignment, CpuWork, Direction, Hypervisor, Mapped};
use doorbell_layout::ibmveth::{ADD_BUFFERS, CORRELATOR, Descriptor, status};
use zerocopy::{IntoBytes, big_endian::U64};

#[derive(Debug, Default)]
struct PoolEntry {
    buffer: Option<Mapped>,
    lent: bool,
}

#[derive(Debug)]
struct BufferPool {
    entries: Box<[PoolEntry]>,
    free: VecDeque<u32>,
    size: u32,
    active: bool,
}

/// All pools of an open adapter.
#[derive(Debug)]
pub(super) struct Pools {
    pools: [BufferPool; POOLS],
    /// Most buffers that one call lends.
    per_call: usize,
    /// Memory ran out in the last replenishment.
    pub(super) starved: bool,
}

/// The pool entry that a buffer's correlator names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Correlator {
    pool: u32,
    index: u32,
}

impl Pools {
    pub(super) fn new(config: &[Pool; POOLS], multi: bool) -> Pools {
        let pool = |p: &Pool| {
            let count = if p.active { p.count } else { 0 };
            BufferPool {
                entries: (0..count).map(|_| PoolEntry::default()).collect(),
                free: (0..count).collect(),
                size: p.size,
                active: p.active,
            }
        };
        let per_call = if multi { ADD_BUFFERS } else { 1 };
        Pools { pools: config.each_ref().map(pool), per_call, starved: false }
    }

    /// Returns the number of buffers lent by each pool.
    pub(super) fn lent(&self) -> [u32; POOLS] {
        self.pools.each_ref().map(|p| p.lent() as u32)
    }

    /// Lends buffers from each pool that has fewer than seven eighths out, the largest pool first:
    /// small frames can use a large buffer, but not the reverse.
    pub(super) fn replenish<H: Hypervisor>(&mut self, h: &mut H, unit: u32, s: &mut Stats) {
        s.replenish_task_cycles += 1;
        self.starved = false;
        for i in (0..POOLS).rev() {
            let p = &self.pools[i];
            if p.active && p.lent() < p.entries.len() * 7 / 8 {
                self.replenish_pool(h, unit, s, i);
            }
        }
    }

    fn replenish_pool<H: Hypervisor>(&mut self, h: &mut H, unit: u32, s: &mut Stats, pool: usize) {
        loop {
            let mut descriptors = [Descriptor::default(); ADD_BUFFERS];
            let mut taken = [0; ADD_BUFFERS];
            let (mut n, asked) = (0, self.per_call);
            while n < asked {
                let Some((index, d)) = self.pools[pool].take_free(h, pool as u32) else { break };
                (taken[n], descriptors[n]) = (index, d);
                n += 1;
            }
            let taken = &taken[..n];
            let answer = match n {
                0 => return self.note_starved(s, pool),
                1 => call::add(h, unit, descriptors[0]),
                _ => {
                    s.replenish_multi_calls += 1;
                    call::add_many(h, unit, &descriptors)
                }
            };
            let p = &mut self.pools[pool];
            if answer == status::H_SUCCESS {
                for index in taken {
                    p.entries[*index as usize].lent = true;
                    h.charge(CpuWork::RxPost);
                }
                s.replenish_add_buff_success += n as u64;
                if n < asked {
                    return self.note_starved(s, pool);
                }
                continue;
            }
            // Back in their former order.
            for index in taken.iter().rev() {
                p.free.push_front(*index);
            }
            if answer == status::H_FUNCTION && n > 1 {
                // The firmware announced the call and does not have it: one at a time from now on.
                self.per_call = 1;
                continue;
            }
            s.replenish_add_buff_failure += n as u64;
            for index in taken {
                if let Some(m) = p.entries[*index as usize].buffer.take() {
                    discard(h, m);
                }
            }
            return;
        }
    }

    /// Notes that memory ran out, if a pool has free entries left.
    fn note_starved(&mut self, s: &mut Stats, pool: usize) {
        if !self.pools[pool].free.is_empty() {
            s.replenish_no_mem += 1;
            self.starved = true;
        }
    }

    /// Returns the lent buffer that `correlator` names.
    pub(super) fn find(&self, correlator: u64) -> Option<(Correlator, &Mapped)> {
        let c = Correlator { pool: (correlator >> 32) as u32, index: correlator as u32 };
        let entry = self.pools.get(c.pool as usize)?.entries.get(c.index as usize)?;
        entry.buffer.as_ref().filter(|_| entry.lent).map(|m| (c, m))
    }

    /// Frees an entry. A buffer that is not taken from what is returned is lent again.
    pub(super) fn free(&mut self, c: Correlator) -> &mut Option<Mapped> {
        let p = &mut self.pools[c.pool as usize];
        p.free.push_back(c.index);
        let entry = &mut p.entries[c.index as usize];
        entry.lent = false;
        &mut entry.buffer
    }

    /// Releases all buffers; the adapter is closed.
    pub(super) fn release<H: Hypervisor>(self, h: &mut H) {
        let entries = self.pools.into_iter().flat_map(|p| p.entries);
        entries.filter_map(|e| e.buffer).for_each(|m| discard(h, m));
    }
}

impl BufferPool {
    fn lent(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Takes the next free entry, with a buffer. Without memory the entry stays free.
    fn take_free<H: Hypervisor>(&mut self, h: &mut H, pool: u32) -> Option<(u32, Descriptor)> {
        let index = *self.free.front()?;
        let entry = &mut self.entries[index as usize];
        if entry.buffer.is_none() {
            entry.buffer = new_buffer(h, self.size, Correlator { pool, index });
        }
        let m = entry.buffer.as_ref()?;
        self.free.pop_front();
        Some((index, Descriptor::new(0, self.size, m.iova().0 as u32)))
    }
}

/// Allocates and maps a buffer with its correlator in the first bytes.
fn new_buffer<H: Hypervisor>(h: &mut H, size: u32, c: Correlator) -> Option<Mapped> {
    let buf = h.buffer(size, Alignment::ANY).ok()?;
    let correlator = U64::new(u64::from(c.pool) << 32 | u64::from(c.index));
    h.bytes_mut(&buf, 0..CORRELATOR, |b| b.copy_from_slice(correlator.as_bytes()));
    map_rx(h, buf, Direction::FromDevice, reachable)
}
