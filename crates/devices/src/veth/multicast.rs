//! The multicast filter of an adapter. Broadcast always passes.
//!
//! Off at first. On, all of it comes; with filtering, what is in the table. PAPR,
//! "H_MULTICAST_CTRL".

use alloc::vec::Vec;
use doorbell_layout::ibmveth::multicast::*;

/// The state of one adapter.
#[derive(Debug, Default)]
pub(super) struct Multicast {
    receive: bool,
    filter: bool,
    table: Vec<[u8; 6]>,
}

/// Result of a change of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Done,
    Full,
    Missing,
}

impl Multicast {
    /// Does `command`; its bits have been checked. `max` entries fit the table.
    pub(super) fn control(&mut self, command: u64, mac: [u8; 6], max: u8) -> Change {
        if command & RECEIVE_MODIFY != 0 {
            self.receive = command & RECEIVE_ENABLE != 0;
        }
        if command & FILTER_MODIFY != 0 {
            self.filter = command & FILTER_ENABLE != 0;
        }
        let found = self.table.iter().position(|m| *m == mac);
        match (command & TABLE, found) {
            (ADD, None) if self.table.len() >= usize::from(max) => return Change::Full,
            (ADD, None) => self.table.push(mac),
            (REMOVE, Some(i)) => {
                self.table.swap_remove(i);
            }
            (REMOVE, None) => return Change::Missing,
            (CLEAR, _) => self.table.clear(),
            _ => {}
        }
        Change::Done
    }

    /// The enables, in their command bits, and the number of entries in the low 16.
    pub(super) fn state(&self) -> u64 {
        let bit = |on: bool, b: u64| if on { b } else { 0 };
        bit(self.receive, RECEIVE_ENABLE)
            | bit(self.filter, FILTER_ENABLE)
            | self.table.len() as u64
    }

    pub(super) fn admits(&self, mac: [u8; 6]) -> bool {
        self.receive && (!self.filter || self.table.contains(&mac))
    }

    /// The entries, as the filter list shows them.
    pub(super) fn table(&self) -> &[[u8; 6]] {
        &self.table
    }
}
