//! Flow steering: what a flow group and a flow table entry compare
//! (mlx5_ifc.h `fte_match_param`).
//!
//! A match parameter is 512 bytes in sets of 64: outer headers, miscellaneous,
//! inner headers, and further ones. A group gives a mask, an entry a value; a frame
//! matches when its own fields agree with the value in every masked bit.

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Bytes of one set.
pub const SET: usize = 64;
/// Bytes of a whole match parameter.
pub const PARAM: usize = 512;
/// Offset of the outer headers' set in it.
pub const OUTER: usize = 0;
/// Offset of the miscellaneous set.
pub const MISC: usize = SET;

/// `match_criteria_enable` bits: which sets a group's mask speaks of.
pub mod criteria {
    /// Outer headers.
    pub const OUTER: u8 = 1 << 0;
    /// Miscellaneous.
    pub const MISC: u8 = 1 << 1;
    /// Inner headers.
    pub const INNER: u8 = 1 << 2;
}

/// Layers 2 to 4 (`fte_match_set_lyr_2_4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Layers {
    /// Source address.
    pub smac: [u8; 6],
    /// The type behind the last tag.
    pub ethertype: U16,
    /// Destination address.
    pub dmac: [u8; 6],
    /// TCI of the first tag: priority, CFI, VLAN.
    pub first_tci: U16,
    /// IP protocol; of IPv6, what follows the extension headers.
    pub ip_protocol: u8,
    /// \[7:2\] DSCP, \[1:0\] ECN.
    pub dscp_ecn: u8,
    /// [`CVLAN`], [`SVLAN`], [`FRAGMENT`], \[12:9\] IP version, \[8:0\] TCP flags.
    pub tags_version_flags: U16,
    /// TCP source port.
    pub tcp_sport: U16,
    /// TCP destination port.
    pub tcp_dport: U16,
    /// Reserved.
    pub rsvd24: [u8; 3],
    /// TTL or hop limit.
    pub ttl: u8,
    /// UDP source port.
    pub udp_sport: U16,
    /// UDP destination port.
    pub udp_dport: U16,
    /// Source address; IPv4 in the last four bytes.
    pub src_ip: [u8; 16],
    /// Destination address, likewise.
    pub dst_ip: [u8; 16],
}
const _: () = assert!(size_of::<Layers>() == SET);

impl Default for Layers {
    fn default() -> Layers {
        Layers::new_zeroed()
    }
}

/// `tags_version_flags`: the first tag is a C-tag (0x8100).
pub const CVLAN: u16 = 1 << 15;
/// `tags_version_flags`: the first tag is an S-tag (0x88a8).
pub const SVLAN: u16 = 1 << 14;
/// `tags_version_flags`: an IP fragment.
pub const FRAGMENT: u16 = 1 << 13;
/// Where the IP version begins in `tags_version_flags`.
pub const IP_VERSION_SHIFT: u16 = 9;
/// TCP flags, NS included.
pub const TCP_FLAGS: u16 = 0x1ff;

/// What belongs to no layer (`fte_match_set_misc`); the fields that are matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Misc {
    /// Source SQ, source port of the embedded switch: zero for what came by wire.
    pub source: [u8; 8],
    /// TCI of the second tag.
    pub outer_second_tci: U16,
    /// TCI of the inner packet's second tag.
    pub inner_second_tci: U16,
    /// [`SECOND_CVLAN`], [`SECOND_SVLAN`].
    pub second_tags: U16,
    /// GRE and tunnel identifiers.
    pub tunnels: [u8; 14],
    /// IPv6 flow label, 20 bits.
    pub outer_ipv6_flow_label: U32,
    /// Further tunnel fields.
    pub rest: [u8; 32],
}
const _: () = assert!(size_of::<Misc>() == SET);

impl Default for Misc {
    fn default() -> Misc {
        Misc::new_zeroed()
    }
}

/// `second_tags`: the second tag is a C-tag.
pub const SECOND_CVLAN: u16 = 1 << 15;
/// `second_tags`: the second tag is an S-tag.
pub const SECOND_SVLAN: u16 = 1 << 13;

/// Type of the tables that incoming frames walk (`NIC_RX`).
pub const NIC_RX: u8 = 0;
