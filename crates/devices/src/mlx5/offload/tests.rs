use super::*;
use alloc::vec::Vec;

mod limits;
mod tunnels;
mod wqes;

fn insert(frame: &mut [u8], cs_flags: u8) {
    insert_checksums(frame, &EthSeg { cs_flags, ..EthSeg::default() }, true);
}

/// An Ethernet, IPv4, UDP frame with wrong checksums.
fn udp() -> Vec<u8> {
    let mut f = alloc::vec![0u8; 12];
    f.extend([
        0x08, 0x00, 0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0xaa, 0xaa, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    f.extend([0, 9, 0, 9, 0, 12, 0xbb, 0xbb, 1, 2, 3, 4]);
    f
}

#[test]
fn both_checksums_come_out_whatever_stood_there() {
    let mut f = udp();
    insert(&mut f, cs_flags::L3 | cs_flags::L4);
    assert!(Sum::of(&f[14..34]).is_intact());
    let all = Sum::of(&f[26..34]).plus_be16(17).plus_be16(12).plus(Sum::of(&f[34..]));
    assert!(all.is_intact());
}

#[test]
fn ethernet_padding_is_not_summed() {
    let mut bare = udp();
    insert(&mut bare, cs_flags::L4);
    let mut padded = udp();
    padded.resize(60, 0x55);
    insert(&mut padded, cs_flags::L4);
    assert_eq!(bare[..], padded[..bare.len()]);
}

#[test]
fn only_what_is_asked_for_is_touched() {
    let mut f = udp();
    insert(&mut f, cs_flags::L3);
    assert_eq!(f[40..42], [0xbb, 0xbb]);
    let mut f = udp();
    insert(&mut f, 0);
    assert_eq!(f, udp());
}

#[test]
fn the_inner_packet_of_a_vxlan_tunnel_is_found() {
    let inner = udp();
    let mut f = alloc::vec![0u8; 12];
    let len = (20 + 8 + 8 + inner.len()) as u8;
    f.extend([0x08, 0x00, 0x45, 0, 0, len, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 3, 10, 0, 0, 4]);
    f.extend([0x99, 0x99, 0x12, 0xb5, 0, len - 20, 0, 0, 8, 0, 0, 0, 0, 0, 1, 0]);
    f.extend(&inner);
    insert(&mut f, cs_flags::L3 | cs_flags::L3_INNER | cs_flags::L4_INNER);
    let mut expected = inner;
    insert(&mut expected, cs_flags::L3 | cs_flags::L4);
    assert_eq!(f[50..], expected[..]);
    assert!(Sum::of(&f[14..34]).is_intact());
    assert_eq!(f[40..42], [0, 0], "the outer UDP checksum was not asked for");
}

/// [`udp`] in GENEVE: outer IPv4 at 14, UDP at 34, eight bytes of options, inner Ethernet at 58.
fn geneve() -> Vec<u8> {
    let inner = udp();
    let mut f = alloc::vec![0u8; 12];
    let len = (20 + 8 + 16 + inner.len()) as u8;
    f.extend([0x08, 0x00, 0x45, 0, 0, len, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 3, 10, 0, 0, 4]);
    f.extend([0x99, 0x99, 0x17, 0xc1, 0, len - 20, 0, 0, 2, 0, 0x65, 0x58, 0, 0, 1, 0]);
    f.extend([0; 8]);
    f.extend(&inner);
    f
}

const ASKED: EthSeg = EthSeg {
    swp_offsets: [34 / 2, 14 / 2, 92 / 2, 72 / 2],
    cs_flags: cs_flags::L3 | cs_flags::L3_INNER | cs_flags::L4_INNER,
    swp_flags: swp_flags::OUTER_L4_UDP | swp_flags::INNER_L4_UDP,
    mss: zerocopy::byteorder::big_endian::U16::ZERO,
    flow_table_metadata: zerocopy::byteorder::big_endian::U32::ZERO,
    inline_hdr_sz: zerocopy::byteorder::big_endian::U16::ZERO,
    inline_hdr_start: [0; 2],
};

#[test]
fn headers_are_where_the_wqe_says() {
    let mut f = geneve();
    insert_checksums(&mut f, &ASKED, true);
    let mut expected = udp();
    insert(&mut expected, cs_flags::L3 | cs_flags::L4);
    assert_eq!(f[58..], expected[..]);
    assert!(Sum::of(&f[14..34]).is_intact());
}

#[test]
fn a_queue_that_does_not_allow_it_is_told_nothing() {
    let mut f = geneve();
    insert_checksums(&mut f, &ASKED, false);
    assert_eq!(f[58..], udp()[..], "the pipe does not know GENEVE");
}

#[test]
fn offsets_beyond_the_frame_are_left_alone() {
    for word in 0..=255 {
        for at in 0..4 {
            for flags in 0..=0x33 {
                let mut eth = EthSeg { swp_flags: flags, cs_flags: 0xf0, ..ASKED };
                eth.swp_offsets[at] = word;
                insert_checksums(&mut geneve(), &eth, true);
            }
        }
    }
}

#[test]
fn frames_cut_anywhere_are_left_alone() {
    let f = udp();
    for n in 0..f.len() {
        let mut cut = f[..n].to_vec();
        insert(&mut cut, 0xf0);
    }
}

#[test]
fn a_tag_goes_behind_the_addresses() {
    let mut f: Vec<u8> = (0..20).collect();
    assert_eq!(insert_vlan(&mut f, 16, C_TAG, [0x20, 0x05]), 20);
    assert_eq!(f[10..18], [10, 11, 0x81, 0, 0x20, 5, 12, 13]);
}
