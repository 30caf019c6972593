//! One adapter: what its partition has registered, and what was counted.

use super::{attributes, config, multicast::Multicast, pools::Pools, send::SendRequest};
use alloc::collections::VecDeque;
use doorbell_hal::Time;
use doorbell_layout::ibmveth::attribute;

counters! {
    /// Counters of one adapter.
    struct Counters;
    tx_packets: "Frames sent: accepted, whatever became of them. A large send is one.",
    tx_bytes in Bytes: "Bytes of those, as they were in memory.",
    tx_large: "Large sends among them.",
    tx_descriptors: "Descriptors of those.",
    tx_busy: "Sends answered H_BUSY.",
    /// Large sends that froze the adapter behind the uplink ([`Config`](super::Config)'s
    /// `min_lso_mss`).
    lso_freezes,
    /// Frames to this receiver whose checksum the hypervisor made wrong.
    wire_bad_checksums,
    tx_refused: "Sends refused for their arguments (H_PARAMETER, H_RESOURCE).",
    /// Frames that not every receiver got (H_DROPPED): the sum of what follows, and of receivers'
    /// losses, a flooded frame counted once.
    tx_dropped,
    drop_closed: "Dropped: sent while the adapter was closed.",
    drop_unowned: "Dropped: nobody has the address, and there is no trunk.",
    /// Dropped: the receiver, found when the frame came, was gone when it was to be copied.
    drop_gone,
    drop_source: "Dropped: no checksum, and another's source address.",
    drop_uncut: "Dropped: a large send that cannot be cut for its receiver.",
    /// Frames put into the partition's memory; each segment of a large send that was cut is one.
    rx_packets,
    rx_bytes in Bytes: "Bytes of those.",
    rx_large: "Large packets among them, with the mark.",
    /// Frames lost for want of a buffer that fits; as the buffer list's last word, since the
    /// adapter was made.
    rx_no_buffer,
    rx_bad_buffer: "Buffers returned without a frame: not reachable when they were to be filled.",
    rx_lost_entry: "Entries lost: the receive queue was not reachable.",
    rx_filtered: "Multicast that the adapter did not ask for.",
    rx_checksums: "Checksums made for this receiver.",
    rx_segments: "Segments cut for this receiver.",
    buffers_added: "Buffers lent.",
    buffers_returned: "Buffers given back on request.",
    interrupts: "Interrupts.",
    refused: "Other calls refused for their arguments or the state.",
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    #[default]
    Closed,
    Open,
    /// H_FREE_LOGICAL_LAN has begun and was busy.
    Closing,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Queue {
    pub(super) ioba: u32,
    pub(super) len: u32,
    /// Offset of the next entry.
    pub(super) at: u32,
    /// The toggle of the second lap, the fourth, and so on.
    pub(super) toggle: bool,
}

#[derive(Debug, Default)]
pub(super) struct Adapter {
    pub(super) cfg: config::Adapter,
    pub(super) mac: [u8; 6],
    /// The address that its guest has taken.
    pub(super) own: Option<[u8; 6]>,
    pub(super) attributes: u64,
    pub(super) state: State,
    /// Enqueue interrupts are enabled.
    pub(super) signal: bool,
    /// An interrupt to come.
    pub(super) notify: Option<Time>,
    /// Arrival times of entries without an interrupt: they were made while interrupts were off, or
    /// follow one whose interrupt is on its way. If interrupts are on by then, one is raised: the
    /// driver looked at the queue before it turned them on.
    pub(super) late: VecDeque<Time>,
    /// The buffer list page.
    pub(super) list: u32,
    /// The filter list page.
    pub(super) filter: u32,
    pub(super) queue: Queue,
    /// The arrival of the last write into the partition's memory.
    pub(super) written: Time,
    /// The count in the buffer list's last word: since registration.
    pub(super) no_buffer: u64,
    pub(super) pools: Pools,
    pub(super) multicast: Multicast,
    /// A send that was busy.
    pub(super) suspended: Option<SendRequest>,
    pub(super) counters: Counters,
}

impl Adapter {
    pub(super) fn new(cfg: config::Adapter, active: bool) -> Adapter {
        Adapter {
            mac: cfg.mac,
            own: cfg.given,
            attributes: attributes::initial(cfg.options.unwrap_or(0), cfg.trunk, active),
            cfg,
            ..Adapter::default()
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

    pub(super) fn is_on(&self, vlan: u16) -> bool {
        self.cfg.pvid == vlan || self.cfg.tagged.binary_search(&vlan).is_ok()
    }

    /// Returns true if its guest has taken the address, or was given it.
    pub(super) fn has_right_to(&self, mac: [u8; 6]) -> bool {
        [self.own, self.cfg.given].contains(&Some(mac))
    }

    /// Returns true if the two ports have a VLAN in common.
    pub(super) fn meets(&self, other: &Adapter) -> bool {
        self.is_on(other.cfg.pvid) || other.cfg.tagged.iter().any(|v| self.is_on(*v))
    }
}
