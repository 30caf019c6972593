//! Flow steering: what a flow group and a flow table entry compare (mlx5_ifc.h `fte_match_param`).
//!
//! A match parameter is 512 bytes in sets of 64: outer headers, miscellaneous,
//! inner headers, and further ones. A group gives a mask, an entry a value; a frame
//! matches when its own fields agree with the value in every masked bit.

use zerocopy::byteorder::big_endian::{U16, U32};

layout! {
    const usize {
        SET = 64, "Bytes of one set.";
        PARAM = 512, "Bytes of a whole match parameter.";
        OUTER = 0, "Offset of the outer headers' set in it.";
        MISC = SET, "Offset of the miscellaneous set.";
    }

    /// `match_criteria_enable` bits: which sets a group's mask speaks of.
    mod criteria: u8 {
        OUTER = 1 << 0, "Outer headers.";
        MISC = 1 << 1, "Miscellaneous.";
        INNER = 1 << 2, "Inner headers.";
    }

    /// Layers 2 to 4 (`fte_match_set_lyr_2_4`).
    struct Layers[SET] {
        smac: [u8; 6], "Source address.";
        ethertype: U16, "The type behind the last tag.";
        dmac: [u8; 6], "Destination address.";
        first_tci: U16, "TCI of the first tag: priority, CFI, VLAN.";
        ip_protocol: u8, "IP protocol; of IPv6, what follows the extension headers.";
        /// \[7:2\] DSCP, \[1:0\] ECN.
        dscp_ecn: u8;
        /// [`CVLAN`], [`SVLAN`], [`FRAGMENT`], \[12:9\] IP version, \[8:0\] TCP flags.
        tags_version_flags: U16;
        tcp_sport: U16, "TCP source port.";
        tcp_dport: U16, "TCP destination port.";
        rsvd24: [u8; 3], "Reserved.";
        ttl: u8, "TTL or hop limit.";
        udp_sport: U16, "UDP source port.";
        udp_dport: U16, "UDP destination port.";
        src_ip: [u8; 16], "Source address; IPv4 in the last four bytes.";
        dst_ip: [u8; 16], "Destination address, likewise.";
    }
}

layout! {
    const u16 {
        CVLAN = 1 << 15, "`tags_version_flags`: the first tag is a C-tag (0x8100).";
        SVLAN = 1 << 14, "`tags_version_flags`: the first tag is an S-tag (0x88a8).";
        FRAGMENT = 1 << 13, "`tags_version_flags`: an IP fragment.";
        IP_VERSION_SHIFT = 9, "Lowest bit of the IP version in `tags_version_flags`.";
        TCP_FLAGS = 0x1ff, "TCP flags, NS included.";
    }

    /// Fields of no layer (`fte_match_set_misc`), as far as they are matched.
    struct Misc[SET] {
        /// Source SQ, source port of the embedded switch: zero for what came by wire.
        source: [u8; 8];
        outer_second_tci: U16, "TCI of the second tag.";
        inner_second_tci: U16, "TCI of the inner packet's second tag.";
        second_tags: U16, "[`SECOND_CVLAN`], [`SECOND_SVLAN`].";
        tunnels: [u8; 14], "GRE and tunnel identifiers.";
        outer_ipv6_flow_label: U32, "IPv6 flow label, 20 bits.";
        rest: [u8; 32], "Further tunnel fields.";
    }
}

layout! {
    const u16 {
        SECOND_CVLAN = 1 << 15, "`second_tags`: the second tag is a C-tag.";
        SECOND_SVLAN = 1 << 13, "`second_tags`: the second tag is an S-tag.";

        NIC_RX: u8 = 0, "Type of the tables that incoming frames walk (`NIC_RX`).";
    }
}
