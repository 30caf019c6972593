//! The receive buffers that a partition has lent: one pool for each size, the smallest
//! first, each used in the order of its posting.
//!
//! PAPR lets a buffer list have 254 pools and chains the buffers of each through
//! their own memory. Here the hypervisor keeps them, and so has a limit.

use alloc::{collections::VecDeque, vec::Vec};

/// Descriptors of pools that fit the architected buffer list.
const MAX_POOLS: usize = 254;

#[derive(Debug)]
struct Pool {
    size: u32,
    buffers: VecDeque<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Buffer {
    pub(super) ioba: u32,
    pub(super) size: u32,
}

#[derive(Debug, Default)]
pub(super) struct Pools {
    pools: Vec<Pool>,
    count: u32,
}

impl Pools {
    /// Adds one; whether there was room among `max`.
    pub(super) fn add(&mut self, b: Buffer, max: u32) -> bool {
        if self.count >= max {
            return false;
        }
        let i = match self.pools.binary_search_by_key(&b.size, |p| p.size) {
            Ok(i) => i,
            Err(_) => {
                if self.pools.len() == MAX_POOLS {
                    self.pools.retain(|p| !p.buffers.is_empty());
                }
                if self.pools.len() == MAX_POOLS {
                    return false;
                }
                let i = self.pools.partition_point(|p| p.size < b.size);
                self.pools.insert(i, Pool { size: b.size, buffers: VecDeque::new() });
                i
            }
        };
        self.pools[i].buffers.push_back(b.ioba);
        self.count += 1;
        true
    }

    /// Takes back the one added last to the pool of `size`.
    pub(super) fn undo(&mut self, size: u32) {
        if let Some(p) = self.pools.iter_mut().find(|p| p.size == size)
            && p.buffers.pop_back().is_some()
        {
            self.count -= 1;
        }
    }

    /// The oldest of the smallest that hold `need` bytes.
    pub(super) fn take(&mut self, need: u64) -> Option<Buffer> {
        let from = self.pools.partition_point(|p| u64::from(p.size) < need);
        let p = self.pools[from..].iter_mut().find(|p| !p.buffers.is_empty())?;
        let ioba = p.buffers.pop_front()?;
        self.count -= 1;
        Some(Buffer { ioba, size: p.size })
    }

    /// The oldest of exactly that size.
    pub(super) fn take_of(&mut self, size: u64) -> Option<Buffer> {
        let p = self.pools.iter_mut().find(|p| u64::from(p.size) == size)?;
        let ioba = p.buffers.pop_front()?;
        self.count -= 1;
        Some(Buffer { ioba, size: p.size })
    }

    /// Forgets `n` at the most; whether none are left.
    pub(super) fn release(&mut self, mut n: u32) -> bool {
        while let Some(p) = self.pools.last_mut() {
            let here = n.min(p.buffers.len() as u32);
            p.buffers.drain(..here as usize);
            (n, self.count) = (n - here, self.count - here);
            if !p.buffers.is_empty() {
                return false;
            }
            self.pools.pop();
        }
        true
    }
}

#[cfg(test)]
mod tests;
