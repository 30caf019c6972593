//! The adapters, and the times and limits of the hypervisor.

use crate::Addresses;
use alloc::vec::Vec;
use doorbell_hal::Span;
use doorbell_layout::ibmveth::attribute;

/// An adapter, as the device tree of its partition has it, and its port of the switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Adapter {
    /// Its partition: an index of the ports.
    pub partition: usize,
    /// Unit address (`reg`).
    pub unit: u64,
    /// `local-mac-address`; the driver gives one when it registers.
    pub mac: [u8; 6],
    /// The hypervisor has given it this address. No guest of another adapter takes it, and its own
    /// takes another only with [`Addresses::Exclusive`]. Without one it is the first that it
    /// registers.
    pub given: Option<[u8; 6]>,
    /// Its interrupt, in its partition.
    pub vector: u16,
    /// The VLAN of frames without a tag (PVID).
    pub pvid: u16,
    /// VLANs that it may use with tags. Empty: a frame with a tag is refused.
    pub tagged: Vec<u16>,
    /// Priority as a trunk adapter, 1 (first) to 15; 0: it is none.
    pub trunk: u8,
    /// Attributes that H_ILLAN_ATTRIBUTES offers: the support bits, and the switches that may be
    /// set; `None`: firmware without the call.
    pub options: Option<u64>,
    /// Entries of its multicast filter (`ibm,mac-address-filters`).
    pub filters: u8,
}

impl Adapter {
    /// Everything that a recent firmware offers.
    pub const ALL: u64 = attribute::RX_MULTI_BUFF
        | attribute::LRG_SND_SUPPORT
        | attribute::PADDED_PKT_CSUM
        | attribute::IPV4_TCP_CSUM
        | attribute::IPV6_TCP_CSUM;

    /// A plain adapter of `partition`, the `n`th of the LAN, on VLAN 1, with all that firmware
    /// offers.
    pub fn new(partition: usize, n: u8) -> Adapter {
        Adapter {
            partition,
            unit: 0x3000_0002 + 0x1000 * u64::from(n),
            mac: [0x52, 0x54, 0, 0, 0, n],
            given: None,
            vector: u16::from(n),
            pvid: 1,
            tagged: Vec::new(),
            trunk: 0,
            options: Some(Adapter::ALL),
            filters: 255,
        }
    }
}

/// A physical network right behind the switch, for systems without a trunk's
/// partition: it gets what has no owner, with all offloads done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uplink {
    /// The port whose wire it is.
    pub port: usize,
    /// Its VLAN of frames without a tag; all others leave tagged.
    pub pvid: u16,
}

/// Configuration of the hypervisor's LAN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The adapters.
    pub adapters: Vec<Adapter>,
    /// A network without a partition in between, for VLANs without an active trunk.
    pub uplink: Option<Uplink>,
    /// Rights to addresses. A guest takes its address when it registers the adapter.
    pub addresses: Addresses,
    /// An adapter also gets the frames for addresses from which it has sent, as a bridge needs it.
    pub learns: bool,
    /// Smallest MSS that the adapter behind the uplink cuts; 0: any. A large send with a smaller
    /// one freezes it: nothing leaves any more (linux cc427d24ac64).
    pub min_lso_mss: u16,
    /// Receive buffers that an adapter may lend.
    pub max_buffers: u32,
    /// Bytes of the largest frame; at most 64 KiB.
    pub max_frame: u32,
    /// Bytes that one H_SEND_LOGICAL_LAN copies, give or take a frame, before it answers
    /// H_BUSY; at least 1024.
    pub slice: u32,
    /// Buffers that one H_FREE_LOGICAL_LAN clears before it answers H_BUSY.
    pub release: u32,
    /// Time to sum 1 KiB, for a receiver that did not agree to do without.
    pub sum_per_kib: Span,
    /// From the end of a copy to the interrupt.
    pub interrupt: Span,
}

impl Config {
    /// A LAN of these adapters, without H_BUSY and without further costs.
    pub fn new(adapters: Vec<Adapter>) -> Config {
        Config {
            adapters,
            uplink: None,
            addresses: Addresses::Any,
            learns: true,
            min_lso_mss: 0,
            max_buffers: 4096,
            max_frame: 65536,
            slice: u32::MAX,
            release: u32::MAX,
            sum_per_kib: Span::ZERO,
            interrupt: Span::ZERO,
        }
    }

    /// The same with every value in its range.
    pub(super) fn clamped(mut self) -> Config {
        self.max_frame = self.max_frame.clamp(64, 65536);
        self.slice = self.slice.max(1024);
        self.release = self.release.max(1);
        for a in &mut self.adapters {
            a.trunk &= 15;
            a.pvid &= 0xfff;
            a.tagged.sort_unstable();
            a.tagged.dedup();
        }
        self
    }
}
