//! Frames that the function sends to itself.
//!
//! A frame to an address of the vport's unicast list does not leave when a TIR takes it: the switch
//! inside gives it back at the time at which it would have left. `ethtool -t` relies on that
//! (en_selftest.c `mlx5e_test_loopback`). A bit of `self_lb_block` that is set, against its name,
//! lets such frames in (`mlx5e_refresh_tirs`, and DPDK with `lpbk_mode`). Without a TIR that takes
//! them, they leave like all others. Multicast is not given back.

use super::device::Mlx5;
use alloc::{collections::VecDeque, vec::Vec};
use doorbell_hal::Time;
use doorbell_layout::mlx5::receive::self_lb_block;

/// Bytes of an entry in a vport's address list; the address is at its end.
const ENTRY: usize = 8;

/// Frames on their way back.
#[derive(Debug, Default)]
pub(super) struct Loopback {
    /// Addresses in order, 128 at the most; none while no TIR takes such frames.
    own: Vec<[u8; 6]>,
    frames: VecDeque<(Time, Vec<u8>)>,
    held: usize,
}

impl Loopback {
    /// Returns true if a frame to be sent comes back.
    #[inline(always)]
    pub(super) fn takes(&self, frame: &[u8]) -> bool {
        self.is_on() && self.is_own(frame)
    }

    /// Returns true if any frame may come back.
    #[inline(always)]
    pub(super) fn is_on(&self) -> bool {
        !self.own.is_empty()
    }

    /// Compares a few addresses of the guest's list, and never all: no share is charged for them.
    fn is_own(&self, frame: &[u8]) -> bool {
        frame.first_chunk().is_some_and(|to| self.own.binary_search(to).is_ok())
    }

    /// Takes a frame that is back at `at`. Returns false if `limit` bytes are under way already.
    #[cold]
    pub(super) fn push(&mut self, at: Time, frame: &[u8], limit: usize) -> bool {
        if self.held + frame.len() > limit {
            return false;
        }
        self.held += frame.len();
        self.frames.push_back((at, frame.to_vec()));
        true
    }

    /// Returns the time at which the next one is back.
    #[inline(always)]
    pub(super) fn due(&self) -> Time {
        self.frames.front().map_or(Time::NEVER, |f| f.0)
    }

    pub(super) fn pop(&mut self) -> Option<(Time, Vec<u8>)> {
        let f = self.frames.pop_front()?;
        self.held -= f.1.len();
        Some(f)
    }
}

impl Mlx5 {
    /// The TIRs or the vport's addresses have changed.
    pub(super) fn find_own_addresses(&mut self) {
        let own = &mut self.pipe.loopback.own;
        own.clear();
        if self.rx.paths.tirs.iter().any(|(_, t)| t.ctx.self_lb_block & self_lb_block::UNICAST != 0)
        {
            let list = self.firmware.vport.unicast();
            own.extend(list.as_chunks::<ENTRY>().0.iter().filter_map(|e| e.last_chunk()));
            own.sort_unstable();
        }
    }
}

#[cfg(test)]
mod tests;
