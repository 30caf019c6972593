//! State from one handshake to the next: versions, capabilities, the login with its queues,
//! long-term buffers, the filter. All of it goes at once when the session ends, as VIOS unmaps the
//! memory of its client.

use super::Server;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use doorbell_hal::Iova;
use doorbell_layout::ibmvnic::{RxAdd, cap};

/// A long-term buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Map {
    pub(super) ioba: u64,
    pub(super) len: u32,
}

impl Map {
    /// Pages that it touches.
    pub(super) fn pages(self) -> u32 {
        (((self.ioba & 4095) + u64::from(self.len)).div_ceil(4096)) as u32
    }
    /// The address, if all of `len` bytes there are in it.
    pub(super) fn range(self, ioba: u64, len: u64) -> Option<Iova> {
        let end = ioba.checked_sub(self.ioba)?.checked_add(len)?;
        (end <= u64::from(self.len)).then_some(Iova(ioba))
    }
}

#[derive(Debug)]
pub(super) struct TxQueue {
    /// Number of the sub-CRQ for completions.
    pub(super) ring: usize,
    /// Descriptors taken and not done.
    pub(super) outstanding: u64,
    /// To be reported: correlator, return code.
    pub(super) done: Vec<(u32, u16)>,
}

#[derive(Debug)]
pub(super) struct RxQueue {
    pub(super) ring: usize,
    pub(super) posted: VecDeque<RxAdd>,
}

#[derive(Debug)]
pub(super) struct Queues {
    pub(super) tx: Vec<TxQueue>,
    pub(super) rx: Vec<RxQueue>,
}

/// Capabilities requested and granted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Granted {
    pub(super) tx_queues: u64,
    pub(super) rx_queues: u64,
    pub(super) rx_add_queues: u64,
    pub(super) tx_entries: u64,
    pub(super) rx_entries: u64,
    pub(super) mtu: u64,
    pub(super) promisc: u64,
    pub(super) rx_sg: u64,
}

impl Granted {
    /// The value that capability `id` requests.
    pub(super) fn of(&mut self, id: u16) -> Option<&mut u64> {
        Some(match id {
            cap::REQ_TX_QUEUES => &mut self.tx_queues,
            cap::REQ_RX_QUEUES => &mut self.rx_queues,
            cap::REQ_RX_ADD_QUEUES => &mut self.rx_add_queues,
            cap::REQ_TX_ENTRIES => &mut self.tx_entries,
            cap::REQ_RX_ADD_ENTRIES => &mut self.rx_entries,
            cap::REQ_MTU => &mut self.mtu,
            cap::PROMISC_REQUESTED => &mut self.promisc,
            cap::RX_SG_REQUESTED => &mut self.rx_sg,
            _ => return None,
        })
    }
}

#[derive(Debug, Default)]
pub(super) struct Session {
    /// Never used twice.
    pub(super) number: u64,
    /// Both sides have said that they are there.
    pub(super) initialised: bool,
    pub(super) versioned: bool,
    /// A fatal error was reported.
    pub(super) failed: bool,
    pub(super) granted: Granted,
    /// CONTROL_IP_OFFLOAD: the first eight offloads.
    pub(super) offloads: [bool; 8],
    pub(super) queues: Option<Queues>,
    pub(super) maps: BTreeMap<u8, Map>,
    pub(super) mapped_pages: u32,
    pub(super) link_up: bool,
    pub(super) multicast: Vec<[u8; 6]>,
    pub(super) all_multicast: bool,
}

impl Session {
    pub(super) fn new(number: u64, s: &Server) -> Session {
        let granted = Granted {
            tx_queues: 1,
            rx_queues: 1,
            rx_add_queues: 1,
            tx_entries: s.entries.0,
            rx_entries: s.entries.0,
            mtu: s.mtu.1.min(1514),
            ..Granted::default()
        };
        Session { number, granted, ..Session::default() }
    }

    /// Handle of transmit queue `i`. It has more than 32 bits and follows from no other, so that
    /// who makes anything of it is found out.
    pub(super) fn tx_handle(&self, i: usize) -> u64 {
        self.number << 32 | 0x7_0000 | scattered(i)
    }
    /// Handle of the buffer queue of receive queue `i`.
    pub(super) fn rx_handle(&self, i: usize) -> u64 {
        self.number << 32 | 0x8_0000 | scattered(i)
    }
    /// Returns the queue of a handle: `Ok` a transmit queue, `Err` a receive queue.
    pub(super) fn handle(&self, handle: u64) -> Option<Result<usize, usize>> {
        let q = self.queues.as_ref()?;
        let i = (handle & 0xff) as usize;
        if i < q.tx.len() && handle == self.tx_handle(i) {
            Some(Ok(i))
        } else if i < q.rx.len() && handle == self.rx_handle(i) {
            Some(Err(i))
        } else {
            None
        }
    }

    /// Bytes of a receive buffer that hold any frame.
    pub(super) fn buffer_size(&self, s: &Server) -> u64 {
        (self.granted.mtu + 4 + u64::from(s.rx_offset)).next_multiple_of(128)
    }
}

/// A queue's number in the lowest byte, and something that does not go up by one above it.
fn scattered(i: usize) -> u64 {
    let i = i as u64;
    ((i * 0x1d) & 0xff) << 8 | i
}
