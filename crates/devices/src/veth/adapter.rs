//! One adapter: what its partition has registered, and what was counted.

use super::attributes;
use super::config;
use super::multicast::Multicast;
use super::pools::Pools;
use super::send::Job;
use crate::counters::counters;
use alloc::collections::VecDeque;
use doorbell_hal::Time;
use doorbell_layout::ibmveth::attribute;

counters! {
    /// What the hypervisor counted for one adapter.
    struct;
    /// Frames sent: accepted, whatever became of them. A large send is one.
    tx_packets,
    /// Bytes of those, as they were in memory.
    tx_bytes,
    /// Large sends among them.
    tx_large,
    /// Descriptors of those.
    tx_descriptors,
    /// Sends answered H_BUSY.
    tx_busy,
    /// Sends refused for their arguments (H_PARAMETER, H_RESOURCE).
    tx_refused,
    /// Frames that not every receiver got (H_DROPPED): the sum of what follows, and of
    /// receivers' losses, a flooded frame counted once.
    tx_dropped,
    /// Dropped: sent while the adapter was closed.
    drop_closed,
    /// Dropped: nobody has the address, and there is no trunk.
    drop_unowned,
    /// Dropped: the receiver, found when the frame came, was gone when it was to be copied.
    drop_gone,
    /// Dropped: no checksum, and another's source address.
    drop_source,
    /// Dropped: a large send that cannot be cut for its receiver.
    drop_uncut,
    /// Frames put into the partition's memory; each segment of a large send that was cut is one.
    rx_packets,
    /// Bytes of those.
    rx_bytes,
    /// Large packets among them, with the mark.
    rx_large,
    /// Frames lost for want of a buffer that fits; as the buffer list's last word, since the adapter was made.
    rx_no_buffer,
    /// Buffers returned without a frame: not reachable when they were to be filled.
    rx_bad_buffer,
    /// Entries lost: the receive queue was not reachable.
    rx_lost_entry,
    /// Multicast that the adapter did not ask for.
    rx_filtered,
    /// Checksums made for this receiver.
    rx_checksums,
    /// Segments cut for this receiver.
    rx_segments,
    /// Buffers lent.
    buffers_added,
    /// Buffers given back on request.
    buffers_returned,
    /// Interrupts.
    interrupts,
    /// Other calls refused for their arguments or the state.
    refused,
}

/// Where registration stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Closed,
    Open,
    /// H_FREE_LOGICAL_LAN has begun and was busy.
    Closing,
}

/// The receive queue.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    pub(super) ioba: u32,
    pub(super) len: u32,
    /// Offset of the next entry.
    pub(super) at: u32,
    /// The toggle of the second lap, the fourth, and so on.
    pub(super) toggle: bool,
}

/// The state of an adapter.
#[derive(Debug)]
pub(super) struct Adapter {
    pub(super) cfg: config::Adapter,
    pub(super) mac: [u8; 6],
    pub(super) attributes: u64,
    pub(super) state: State,
    /// Enqueue interrupts are enabled.
    pub(super) signal: bool,
    /// An interrupt to come.
    pub(super) notify: Option<Time>,
    /// When entries will be there that no interrupt speaks of yet: they were made while interrupts
    /// were off, or come after the one that another is on its way for. If interrupts are on by
    /// then, there is one: who turned them on has looked at the queue before.
    pub(super) late: VecDeque<Time>,
    /// The buffer list page.
    pub(super) list: u32,
    /// The filter list page.
    pub(super) filter: u32,
    pub(super) queue: Queue,
    /// The count in the buffer list's last word: since registration.
    pub(super) no_buffer: u64,
    pub(super) pools: Pools,
    pub(super) multicast: Multicast,
    /// A send that was busy.
    pub(super) suspended: Option<Job>,
    pub(super) counters: Counters,
}

impl Adapter {
    pub(super) fn new(cfg: config::Adapter, active: bool) -> Adapter {
        Adapter {
            mac: cfg.mac,
            attributes: attributes::initial(cfg.options.unwrap_or(0), cfg.trunk, active),
            cfg,
            state: State::Closed,
            signal: false,
            notify: None,
            late: VecDeque::new(),
            list: 0,
            filter: 0,
            queue: Queue::default(),
            no_buffer: 0,
            pools: Pools::default(),
            multicast: Multicast::default(),
            suspended: None,
            counters: Counters::default(),
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.state == State::Open
    }

    pub(super) fn has(&self, attribute: u64) -> bool {
        self.attributes & attribute != 0
    }

    pub(super) fn is_trunk(&self) -> bool {
        self.cfg.trunk != 0
    }

    pub(super) fn is_active_trunk(&self) -> bool {
        self.has(attribute::ACTIVE_TRUNK)
    }

    /// Whether its port is on that VLAN.
    pub(super) fn is_on(&self, vlan: u16) -> bool {
        self.cfg.pvid == vlan || self.cfg.tagged.binary_search(&vlan).is_ok()
    }

    /// Whether two ports have a VLAN in common.
    pub(super) fn meets(&self, other: &Adapter) -> bool {
        self.is_on(other.cfg.pvid) || other.cfg.tagged.iter().any(|v| self.is_on(*v))
    }
}
