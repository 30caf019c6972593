mod addresses;

use super::super::tests::frames::{ALL, Frame, ME, PEER, Transport, tcp, udp};
use super::*;
use alloc::vec;
use doorbell_layout::mlx5::command::modify_fte;
use doorbell_layout::mlx5::steering::{
    CVLAN, FRAGMENT, IP_VERSION_SHIFT, Layers, Misc, NIC_RX, SECOND_CVLAN, SVLAN,
};
use proptest::prelude::*;
use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::U16;

const MULTICAST: [u8; 6] = [0x01, 0x00, 0x5e, 0, 0, 1];

/// A whole match parameter from its two sets.
fn param(outer: Layers, misc: Misc) -> [u8; PARAM] {
    let mut p = [0; PARAM];
    p[OUTER..OUTER + SET].copy_from_slice(outer.as_bytes());
    p[MISC..MISC + SET].copy_from_slice(misc.as_bytes());
    p
}

impl Criteria {
    /// No field: every frame matches.
    pub(in super::super) const ANY: Criteria = Criteria(Match::EMPTY);
}

fn criteria(outer: Layers) -> Criteria {
    Criteria::new(criteria::OUTER, &param(outer, Misc::default())).unwrap()
}

fn value(outer: Layers) -> Match {
    Match::from_param(&param(outer, Misc::default()))
}

fn dmac(dmac: [u8; 6]) -> Layers {
    Layers { dmac, ..Layers::default() }
}

fn version(v: u16, protocol: u8) -> Layers {
    Layers {
        ip_protocol: protocol,
        tags_version_flags: U16::new(v << IP_VERSION_SHIFT),
        ..Layers::default()
    }
}

fn cvlan(vid: u16) -> Layers {
    Layers { tags_version_flags: U16::new(CVLAN), first_tci: U16::new(vid), ..Layers::default() }
}

fn forward(group: u32, value: Match, to: Destination) -> Entry {
    Entry { group, flow_tag: 0, action: flow_action::FORWARD, value, destinations: vec![to] }
}

/// TIRs that a frame comes to.
fn tirs(s: &mut Steering, f: &Frame) -> Vec<u32> {
    let f = f.build();
    s.classify(&Fields::of(&f)).tirs().iter().map(|t| t.0).collect()
}

const TCP4: u32 = 40;
const UDP4: u32 = 41;
const TCP6: u32 = 42;
const IP4: u32 = 43;
const ANY: u32 = 49;

/// The tables that Linux makes (en_fs.c): VLAN before L2 before TTC.
struct Linux {
    s: Steering,
    vlan: u32,
    /// Groups: any tag of that VLAN, untagged.
    vlan_groups: [u32; 3],
    l2: u32,
    /// Groups: whole addresses, all multicast, everything.
    l2_groups: [u32; 3],
}

impl Linux {
    fn new() -> Linux {
        let mut s = Steering::new();
        let table = |level, log_size| Table { kind: NIC_RX, level, log_size, miss: Miss::Default };
        let ttc = s.create_table(table(57, 7)).unwrap();
        let l2 = s.create_table(table(56, 4)).unwrap();
        let vlan = s.create_table(table(55, 13)).unwrap();
        let group = |s: &mut Steering, table, start, end, mask: Layers| {
            s.create_group(table, Group { start, end, criteria: criteria(mask) }).unwrap()
        };
        let l4 = group(&mut s, ttc, 0, 63, version(0xf, 0xff));
        let l3 = group(&mut s, ttc, 64, 95, version(0xf, 0));
        let any = group(&mut s, ttc, 96, 127, Layers::default());
        let rules =
            [(l4, 0, 4, 6, TCP4), (l4, 1, 4, 17, UDP4), (l4, 2, 6, 6, TCP6), (l3, 64, 4, 0, IP4)];
        for (g, index, v, protocol, tir) in rules {
            let e = forward(g, value(version(v, protocol)), Destination::Tir(tir));
            s.set_entry(ttc, index, e).unwrap();
        }
        s.set_entry(ttc, 96, forward(any, Match::EMPTY, Destination::Tir(ANY))).unwrap();
        let l2_groups = [
            group(&mut s, l2, 0, 11, dmac([0xff; 6])),
            group(&mut s, l2, 12, 12, dmac([1, 0, 0, 0, 0, 0])),
            group(&mut s, l2, 13, 13, Layers::default()),
        ];
        for (i, address) in [ME, ALL].into_iter().enumerate() {
            s.set_entry(
                l2,
                i as u32,
                forward(l2_groups[0], value(dmac(address)), Destination::Table(ttc)),
            )
            .unwrap();
        }
        let vlan_groups = [
            group(&mut s, vlan, 0, 4095, cvlan(0xfff)),
            group(
                &mut s,
                vlan,
                4096,
                4096,
                Layers { tags_version_flags: U16::new(CVLAN), ..Layers::default() },
            ),
            group(
                &mut s,
                vlan,
                4097,
                4097,
                Layers { tags_version_flags: U16::new(CVLAN | SVLAN), ..Layers::default() },
            ),
        ];
        let untagged = forward(vlan_groups[2], Match::EMPTY, Destination::Table(l2));
        s.set_entry(vlan, 4097, untagged).unwrap();
        Linux { s, vlan, vlan_groups, l2, l2_groups }
    }
}

#[test]
fn a_tcp_frame_to_our_address_walks_vlan_l2_and_ttc() {
    let mut l = Linux::new();
    assert_eq!(tirs(&mut l.s, &Frame::v4(tcp(1))), [TCP4]);
    assert_eq!(tirs(&mut l.s, &Frame::v4(udp(1))), [UDP4]);
    assert_eq!(tirs(&mut l.s, &Frame::v6(tcp(1))), [TCP6]);
    assert_eq!(tirs(&mut l.s, &Frame::v4(Transport::Other(1, vec![8, 0, 0, 0]))), [IP4]);
    assert_eq!(
        tirs(&mut l.s, &Frame::v6(udp(1))),
        [ANY],
        "of what no rule speaks, the last one does"
    );
    assert_eq!(tirs(&mut l.s, &Frame::raw(0x0806, 46).to(ALL)), [ANY]);
}

#[test]
fn a_strangers_address_is_dropped_until_promiscuous() {
    let mut l = Linux::new();
    let stranger = Frame::v4(tcp(1)).to(PEER);
    assert_eq!(tirs(&mut l.s, &stranger), []);
    let ttc = Destination::Table(0x8000);
    l.s.set_entry(l.l2, 13, forward(l.l2_groups[2], Match::EMPTY, ttc)).unwrap();
    assert_eq!(tirs(&mut l.s, &stranger), [TCP4]);
    l.s.delete_entry((l.l2, 13)).unwrap();
    assert_eq!(tirs(&mut l.s, &stranger), []);
}

#[test]
fn all_multicast_is_one_masked_bit_and_takes_no_unicast() {
    let mut l = Linux::new();
    let multicast = Frame::v4(udp(1)).to(MULTICAST);
    assert_eq!(tirs(&mut l.s, &multicast), []);
    let e = forward(l.l2_groups[1], value(dmac([1, 0, 0, 0, 0, 0])), Destination::Table(0x8000));
    l.s.set_entry(l.l2, 12, e).unwrap();
    assert_eq!(tirs(&mut l.s, &multicast), [UDP4]);
    assert_eq!(tirs(&mut l.s, &Frame::v4(udp(1)).to(PEER)), []);
}

#[test]
fn a_tagged_frame_needs_a_rule_for_its_vlan() {
    let mut l = Linux::new();
    let tagged = |vid: u16| Frame::v4(tcp(1)).tagged(0x8100, 0x6000 | vid);
    assert_eq!(tirs(&mut l.s, &tagged(5)), []);
    l.s.set_entry(l.vlan, 5, forward(l.vlan_groups[0], value(cvlan(5)), Destination::Table(l.l2)))
        .unwrap();
    assert_eq!(tirs(&mut l.s, &tagged(5)), [TCP4], "the priority is not compared");
    assert_eq!(tirs(&mut l.s, &tagged(6)), []);
    assert_eq!(tirs(&mut l.s, &Frame::v4(tcp(1)).tagged(0x88a8, 5)), [], "an S-tag is not a C-tag");
    let any = Layers { tags_version_flags: U16::new(CVLAN), ..Layers::default() };
    l.s.set_entry(l.vlan, 4096, forward(l.vlan_groups[1], value(any), Destination::Table(l.l2)))
        .unwrap();
    assert_eq!(tirs(&mut l.s, &tagged(6)), [TCP4], "any VLAN");
}

#[test]
fn a_vlan_table_may_be_full() {
    let mut l = Linux::new();
    for vid in 0..4096 {
        l.s.set_entry(
            l.vlan,
            vid,
            forward(l.vlan_groups[0], value(cvlan(vid as u16)), Destination::Tir(vid)),
        )
        .unwrap();
    }
    for vid in [0, 1, 2047, 4095] {
        assert_eq!(tirs(&mut l.s, &Frame::v4(tcp(1)).tagged(0x8100, vid)), [u32::from(vid)]);
    }
}

#[test]
fn the_lowest_index_decides() {
    let mut s = Steering::new();
    let t =
        s.create_table(Table { kind: NIC_RX, level: 0, log_size: 3, miss: Miss::Default }).unwrap();
    let late =
        s.create_group(t, Group { start: 4, end: 7, criteria: criteria(dmac(ALL)) }).unwrap();
    let early = s.create_group(t, Group { start: 0, end: 3, criteria: Criteria::ANY }).unwrap();
    s.set_entry(t, 4, forward(late, value(dmac(ME)), Destination::Tir(4))).unwrap();
    assert_eq!(tirs(&mut s, &Frame::v4(tcp(0))), [4]);
    s.set_entry(t, 3, forward(early, Match::EMPTY, Destination::Tir(3))).unwrap();
    s.set_entry(t, 1, forward(early, Match::EMPTY, Destination::Tir(1))).unwrap();
    assert_eq!(tirs(&mut s, &Frame::v4(tcp(0))), [1]);
}

#[test]
fn a_miss_goes_on_where_the_table_says() {
    let mut s = Steering::new();
    let last =
        s.create_table(Table { kind: NIC_RX, level: 9, log_size: 0, miss: Miss::Default }).unwrap();
    let g = s.create_group(last, Group { start: 0, end: 0, criteria: Criteria::ANY }).unwrap();
    s.set_entry(last, 0, forward(g, Match::EMPTY, Destination::Tir(7))).unwrap();
    let first =
        s.create_table(Table { kind: NIC_RX, level: 1, log_size: 0, miss: Miss::Default }).unwrap();
    assert_eq!(tirs(&mut s, &Frame::v4(tcp(0))), []);
    s.modify_table(first, Miss::Table(last)).unwrap();
    assert_eq!(tirs(&mut s, &Frame::v4(tcp(0))), [7]);
    let g = s.create_group(first, Group { start: 0, end: 0, criteria: Criteria::ANY }).unwrap();
    let e = Entry {
        action: flow_action::ALLOW,
        destinations: vec![],
        ..forward(g, Match::EMPTY, Destination::Tir(0))
    };
    s.set_entry(first, 0, e.clone()).unwrap();
    assert_eq!(tirs(&mut s, &Frame::v4(tcp(0))), [7], "let pass, it goes the way of a miss");
    s.set_entry(first, 0, Entry { action: flow_action::DROP, ..e }).unwrap();
    assert_eq!(tirs(&mut s, &Frame::v4(tcp(0))), []);
}

#[test]
fn the_walk_begins_at_the_root_or_at_the_lowest_level() {
    let mut s = Steering::new();
    let make = |s: &mut Steering, kind, level, tir| {
        let t = s.create_table(Table { kind, level, log_size: 0, miss: Miss::Default }).unwrap();
        let g = s.create_group(t, Group { start: 0, end: 0, criteria: Criteria::ANY }).unwrap();
        s.set_entry(t, 0, forward(g, Match::EMPTY, Destination::Tir(tir))).unwrap();
        (t, g)
    };
    let f = Frame::v4(tcp(0));
    assert_eq!(tirs(&mut s, &f), [], "no table");
    make(&mut s, NIC_RX, 50, 50);
    let (low, group) = make(&mut s, NIC_RX, 40, 40);
    let (high, _) = make(&mut s, NIC_RX, 60, 60);
    make(&mut s, 1, 0, 1);
    assert_eq!(tirs(&mut s, &f), [40], "tables for what is sent have no part");
    s.set_root(high).unwrap();
    assert_eq!(tirs(&mut s, &f), [60]);
    s.set_root(low).unwrap();
    s.delete_entry((low, 0)).unwrap();
    s.destroy_group(low, group).unwrap();
    s.destroy_table(low).unwrap();
    assert_eq!(tirs(&mut s, &f), [50], "the root is gone");
}

#[test]
fn one_entry_may_deliver_and_go_on() {
    let mut l = Linux::new();
    let e = Entry {
        flow_tag: 0xbeef,
        action: flow_action::FORWARD | flow_action::COUNT,
        destinations: vec![Destination::Counter(1), Destination::Tir(1), Destination::Table(l.l2)],
        ..forward(l.vlan_groups[2], Match::EMPTY, Destination::Tir(0))
    };
    l.s.set_entry(l.vlan, 4097, e).unwrap();
    let f = Frame::v4(tcp(100)).build();
    let v = l.s.classify(&Fields::of(&f));
    assert_eq!(v.tirs(), [(1, 0xbeef), (TCP4, 0)], "each with the tag of the entry that named it");
}

#[test]
fn every_field_is_compared_by_itself() {
    let tcp4 = Frame::v4(tcp(10)).tagged(0x8100, 0xa123).tagged(0x8100, 0x4567).build();
    let mut udp6 = Frame::v6(udp(10)).tagged(0x88a8, 7).build();
    // Traffic class 0xb9, flow label 0x54321.
    udp6[18..22].copy_from_slice(&[0x6b, 0x95, 0x43, 0x21]);
    for frame in [tcp4, udp6] {
        let f = Fields::of(&frame);
        for (set, bytes, allowed) in [
            (criteria::OUTER, f.outer_bytes(), fields::OUTER_FIELDS),
            (criteria::MISC, f.misc_bytes(), fields::MISC_FIELDS),
        ] {
            for bit in (0..SET * 8).filter(|bit| allowed[bit / 8] >> (7 - bit % 8) & 1 == 1) {
                let mut mask = [0; PARAM];
                let at = if set == criteria::OUTER { OUTER } else { MISC };
                mask[at + bit / 8] = 0x80 >> (bit % 8);
                let mut s = Steering::new();
                let t = s
                    .create_table(Table {
                        kind: NIC_RX,
                        level: 0,
                        log_size: 0,
                        miss: Miss::Default,
                    })
                    .unwrap();
                let criteria = Criteria::new(set, &mask).unwrap();
                let g = s.create_group(t, Group { start: 0, end: 0, criteria }).unwrap();
                let mut right = mask;
                right[at + bit / 8] &= bytes[bit / 8];
                let mut wrong = mask;
                wrong[at + bit / 8] &= !bytes[bit / 8];
                s.set_entry(t, 0, forward(g, Match::from_param(&right), Destination::Tir(1)))
                    .unwrap();
                assert_eq!(s.classify(&f).tirs().len(), 1, "set {set} bit {bit}");
                s.set_entry(t, 0, forward(g, Match::from_param(&wrong), Destination::Tir(1)))
                    .unwrap();
                assert_eq!(s.classify(&f).tirs().len(), 0, "set {set} bit {bit}");
            }
        }
    }
}

#[test]
fn the_fields_are_where_mlx5_ifc_has_them() {
    let mut f = Frame::v4(tcp(10)).tagged(0x8100, 0xa123).tagged(0x88a8, 0x4567).build();
    (f[23], f[30]) = (0xb9, 63);
    let fields = Fields::of(&f);
    let mut expected = [0u8; SET];
    expected[0..6].copy_from_slice(&PEER);
    expected[6..8].copy_from_slice(&[0x08, 0x00]);
    expected[8..14].copy_from_slice(&ME);
    expected[14..16].copy_from_slice(&[0xa1, 0x23]);
    expected[16..18].copy_from_slice(&[6, 0xb9]);
    // C-tag, IP version 4, ACK.
    expected[18..20].copy_from_slice(&[0x88, 0x10]);
    expected[20..24].copy_from_slice(&[0x0a, 0xea, 0x06, 0xe6]);
    expected[27] = 63;
    expected[44..48].copy_from_slice(&[66, 9, 149, 187]);
    expected[60..64].copy_from_slice(&[161, 142, 100, 80]);
    assert_eq!(fields.outer_bytes(), &expected);
    let mut expected = [0u8; SET];
    expected[8..10].copy_from_slice(&[0x45, 0x67]);
    expected[12] = 0x20;
    assert_eq!(fields.misc_bytes(), &expected);
}

#[test]
fn udp_ports_are_not_tcp_ports_and_a_fragment_has_none() {
    let mut f = Frame::v4(udp(64)).build();
    let o = Fields::of(&f).outer;
    assert_eq!(
        (o.udp_sport.get(), o.udp_dport.get(), o.tcp_sport.get(), o.tcp_dport.get()),
        (2794, 1766, 0, 0)
    );
    f[20] |= 0x20;
    let o = Fields::of(&f).outer;
    assert_eq!((o.udp_sport.get(), o.udp_dport.get(), o.ip_protocol), (0, 0, 17));
    assert_eq!(o.tags_version_flags.get(), FRAGMENT | 4 << IP_VERSION_SHIFT);
}

#[test]
fn a_broken_ip_header_leaves_the_type_alone() {
    let mut f = Frame::v4(tcp(4)).build();
    f[14] = 0x42;
    let o = Fields::of(&f).outer;
    assert_eq!((o.ethertype.get(), o.tags_version_flags.get(), o.ip_protocol), (0x0800, 0, 0));
    assert_eq!(Fields::of(&f[..13]).outer.dmac, ME);
    assert_eq!(Fields::of(&f[..5]).outer, Layers::default());
}

#[test]
fn masks_that_cannot_be_compared_are_refused() {
    let asks = |at: usize, enable| {
        let mut mask = [0; PARAM];
        mask[at] = 1;
        Criteria::new(enable, &mask)
    };
    assert_eq!(asks(2 * SET + 8, criteria::INNER), Err(CmdStatus::BadParam));
    assert_eq!(asks(MISC + 20, criteria::MISC), Err(CmdStatus::BadParam), "a tunnel's identifier");
    assert_eq!(asks(OUTER + 25, criteria::OUTER), Err(CmdStatus::BadParam), "reserved");
    assert_eq!(
        asks(MISC + 20, criteria::OUTER),
        Ok(Criteria::ANY),
        "a set that is not enabled is nothing"
    );
    assert_eq!(Criteria::new(0xff, &[0; PARAM]), Ok(Criteria::ANY));
    let second = Misc { second_tags: U16::new(SECOND_CVLAN), ..Misc::default() };
    assert!(Criteria::new(criteria::MISC, &param(Layers::default(), second)).is_ok());
}

#[test]
fn statuses_are_the_firmwares() {
    use CmdStatus::{BadParam, BadResource, BadResourceState};
    let mut s = Steering::new();
    let table = Table { kind: NIC_RX, level: 3, log_size: 2, miss: Miss::Default };
    assert_eq!(s.create_table(Table { log_size: 25, ..table }), Err(BadParam));
    assert_eq!(s.create_table(Table { level: 64, ..table }), Err(BadParam));
    let t = s.create_table(table).unwrap();
    let group = |start, end| Group { start, end, criteria: Criteria::ANY };
    assert_eq!(s.create_group(t, group(0, 4)), Err(BadParam), "beyond the table");
    assert_eq!(s.create_group(t, group(2, 1)), Err(BadParam));
    assert_eq!(s.create_group(9, group(0, 1)), Err(BadResource));
    let g = s.create_group(t, group(1, 2)).unwrap();
    for (start, end) in [(0, 1), (2, 3), (0, 3), (1, 1)] {
        assert_eq!(s.create_group(t, group(start, end)), Err(BadParam), "overlaps");
    }
    s.create_group(t, group(3, 3)).unwrap();
    let e = forward(g, Match::EMPTY, Destination::Tir(1));
    assert_eq!(s.set_entry(t, 0, e.clone()), Err(BadParam), "outside its group");
    assert_eq!(s.set_entry(t, 1, Entry { group: 77, ..e.clone() }), Err(BadResource));
    for action in [
        0,
        1 << 4,
        flow_action::DROP | flow_action::FORWARD,
        flow_action::COUNT | flow_action::FORWARD,
    ] {
        assert_eq!(
            s.set_entry(t, 1, Entry { action, ..e.clone() }),
            Err(BadParam),
            "action {action:#x}"
        );
    }
    let many = vec![Destination::Tir(1); COPIES + 1];
    assert_eq!(s.set_entry(t, 1, Entry { destinations: many, ..e.clone() }), Err(BadParam));
    assert_eq!(s.set_entry(t, 1, Entry { destinations: vec![], ..e.clone() }), Err(BadParam));
    s.set_entry(t, 1, e).unwrap();
    assert_eq!(s.destroy_group(t, g), Err(BadResourceState));
    assert_eq!(s.destroy_table(t), Err(BadResourceState));
    assert_eq!(s.delete_entry((t, 2)), Err(BadResource));
    s.delete_entry((t, 1)).unwrap();
    s.destroy_group(t, g).unwrap();
    assert_eq!(s.destroy_group(t, g), Err(BadResource));
}

#[test]
fn a_modification_changes_what_it_names() {
    let mut l = Linux::new();
    let all = Entry {
        flow_tag: 5,
        action: flow_action::FORWARD | flow_action::COUNT,
        destinations: vec![Destination::Tir(9), Destination::Counter(1)],
        ..forward(0, Match::EMPTY, Destination::Tir(0))
    };
    let f = Frame::v4(tcp(0)).build();
    let verdict = |s: &mut Steering| s.classify(&Fields::of(&f)).tirs().to_vec();
    l.s.modify_entry(l.vlan, 4097, modify_fte::TAG, all.clone()).unwrap();
    assert_eq!(verdict(&mut l.s), [(TCP4, 0)]);
    l.s.modify_entry(l.vlan, 4097, modify_fte::DESTINATIONS, all.clone()).unwrap();
    assert_eq!(verdict(&mut l.s), [(9, 5)]);
    assert_eq!(
        l.s.modify_entry(l.vlan, 4097, modify_fte::ACTION, all.clone()),
        Err(CmdStatus::BadParam),
        "no counter"
    );
    l.s.modify_entry(l.vlan, 4097, modify_fte::ACTION | modify_fte::COUNTERS, all.clone()).unwrap();
    assert_eq!(l.s.modify_entry(l.vlan, 17, modify_fte::ACTION, all), Err(CmdStatus::BadResource));
}

/// A table of this level for any frames, with an entry that leads there. Returns its number.
fn leads(s: &mut Steering, level: u8, to: Vec<Destination>) -> Result<u32, CmdStatus> {
    let t = s.create_table(Table { kind: NIC_RX, level, log_size: 8, miss: Miss::Default })?;
    let g = s.create_group(t, Group { start: 0, end: 0, criteria: Criteria::ANY })?;
    let e = forward(g, Match::EMPTY, Destination::Tir(0));
    s.set_entry(t, 0, Entry { destinations: to, ..e })?;
    Ok(t)
}

#[test]
fn a_table_leads_to_higher_levels_only() {
    use CmdStatus::{BadParam, BadResource};
    let mut s = Steering::new();
    let high = leads(&mut s, 9, vec![Destination::Tir(1)]).unwrap();
    for (level, answer) in [(8, None), (9, Some(BadParam)), (10, Some(BadParam))] {
        assert_eq!(leads(&mut s, level, vec![Destination::Table(high)]).err(), answer, "{level}");
        let table = |miss| Table { kind: NIC_RX, level, log_size: 0, miss };
        let led = s.create_table(table(Miss::Table(high)));
        assert_eq!(led.err(), answer, "{level}");
        let t = s.create_table(table(Miss::Default)).unwrap();
        assert_eq!(s.modify_table(t, Miss::Table(high)).err(), answer, "{level}");
    }
    assert_eq!(s.modify_table(high, Miss::Table(high)), Err(BadParam), "to itself");
    assert_eq!(s.modify_table(high, Miss::Table(1)), Err(BadResource), "to no table");
    let all = Entry {
        destinations: vec![Destination::Table(high)],
        ..forward(0, Match::EMPTY, Destination::Tir(0))
    };
    let modified = s.modify_entry(high, 0, modify_fte::DESTINATIONS, all);
    assert_eq!(modified, Err(BadParam), "an entry that is there");
    assert_eq!(tirs(&mut s, &Frame::v4(tcp(0))), [1], "what is refused changes nothing");
}

#[test]
fn a_walk_that_branches_is_cut_short() {
    let mut s = Steering::new();
    let mut next = leads(&mut s, 20, vec![Destination::Tir(1)]).unwrap();
    for level in (0..20).rev() {
        next = leads(&mut s, level, vec![Destination::Table(next); 4]).unwrap();
    }
    let f = Frame::v4(tcp(0)).build();
    let v = s.classify(&Fields::of(&f));
    assert!(v.endless);
    assert_eq!((v.tirs(), v.compares), (&[][..], STEPS as u32));
}

/// Fills a table with groups of one index each, of different masks, up to a limit. Returns how many
/// there are.
fn fill_with_masks(s: &mut Steering, t: u32) -> u32 {
    (0u32..)
        .find(|i| {
            let mut mask = [0; PARAM];
            // Bits of an address, which no frame here has.
            mask[OUTER + 44..OUTER + 48].copy_from_slice(&(i | 1 << 16).to_be_bytes());
            let criteria = Criteria::new(criteria::OUTER, &mask).unwrap();
            s.create_group(t, Group { start: *i, end: *i, criteria }).is_err()
        })
        .unwrap()
}

#[test]
fn a_walk_compares_a_bounded_number_of_masks() {
    let mut s = Steering::new();
    let mut miss = Miss::Default;
    for level in (0..6).rev() {
        let t = s.create_table(Table { kind: NIC_RX, level, log_size: 16, miss }).unwrap();
        assert_eq!(fill_with_masks(&mut s, t), COMPARES);
        miss = Miss::Table(t);
    }
    let f = Frame::v4(tcp(0)).build();
    let v = s.classify(&Fields::of(&f));
    assert_eq!((v.compares, v.endless), (COMPARES, true));
}

#[test]
fn groups_of_one_mask_are_compared_once() {
    let mut s = Steering::new();
    let table = Table { kind: NIC_RX, level: 0, log_size: 14, miss: Miss::Default };
    let t = s.create_table(table).unwrap();
    let mut groups = Vec::new();
    for i in 0..1 << 14 {
        let criteria = criteria(dmac([0xff; 6]));
        groups.push(s.create_group(t, Group { start: i, end: i, criteria }).unwrap());
    }
    let e = |i: u32| forward(groups[i as usize], value(dmac(ME)), Destination::Tir(i));
    s.set_entry(t, 9000, e(9000)).unwrap();
    s.set_entry(t, 8000, e(8000)).unwrap();
    let f = Frame::v4(tcp(0)).build();
    let v = s.classify(&Fields::of(&f));
    assert_eq!((v.tirs(), v.compares), (&[(8000, 0)][..], 1));
    s.delete_entry((t, 8000)).unwrap();
    assert_eq!(tirs(&mut s, &Frame::v4(tcp(0))), [9000]);
}

pub(in super::super) fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let cooked =
        (0..4, 0..3u16, any::<u16>(), 0usize..40).prop_map(|(kind, tags, tci, payload)| {
            let mut f = match kind {
                0 => Frame::v4(tcp(payload)),
                1 => Frame::v4(udp(payload)),
                2 => Frame::v6(tcp(payload)),
                _ => Frame::raw(0x0806, payload),
            };
            for i in 0..tags {
                f = f.tagged(if i == 0 { 0x88a8 } else { 0x8100 }, tci);
            }
            f.build()
        });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..200), cooked]
}

/// Tables of a random walk: for each its miss and its entries.
type Tables = Vec<(Option<u8>, Vec<(usize, bool, Vec<(bool, u8)>)>)>;

proptest! {
    #[test]
    fn any_tables_and_any_frame_come_to_an_end(
        tables in prop::collection::vec((
            prop::option::of(0u8..8),
            prop::collection::vec(
                (0usize..60, any::<bool>(), prop::collection::vec((any::<bool>(), 0u8..8), 1..4)),
                0..4,
            ),
        ), 1..8),
        frames in prop::collection::vec(any_frame(), 1..4),
    ) {
        let tables: Tables = tables;
        let mut s = Steering::new();
        for level in 0..tables.len() {
            let level = level as u8;
            let table = Table { kind: NIC_RX, level, log_size: 2, miss: Miss::Default };
            s.create_table(table).unwrap();
        }
        let higher = |i: usize, n: u8| (i + 1..tables.len()).contains(&usize::from(n));
        for (i, (miss, entries)) in tables.iter().enumerate() {
            let t = 0x8000 + i as u32;
            if let Some(m) = miss {
                let led = s.modify_table(t, Miss::Table(0x8000 + u32::from(*m)));
                prop_assert_eq!(led.is_ok(), higher(i, *m));
            }
            for (index, (byte, of_frame, destinations)) in entries.iter().enumerate() {
                let mut mask = [0; PARAM];
                mask[if (24..27).contains(byte) { 0 } else { *byte }] = 0xff;
                let criteria = Criteria::new(criteria::OUTER, &mask).unwrap();
                let index = index as u32;
                let group = Group { start: index, end: index, criteria };
                let group = s.create_group(t, group).unwrap();
                let like = Fields::of(&frames[0]);
                let v = if *of_frame {
                    Match::of(like.outer_bytes(), like.misc_bytes())
                } else {
                    Match::EMPTY
                };
                let destinations = destinations.iter().map(|(table, n)| match table {
                    true if higher(i, *n) => Destination::Table(0x8000 + u32::from(*n)),
                    _ => Destination::Tir(u32::from(*n)),
                }).collect();
                let action = flow_action::FORWARD;
                let e = Entry { group, flow_tag: 0, action, value: v, destinations };
                s.set_entry(t, index, e).unwrap();
            }
        }
        for f in &frames {
            let v = s.classify(&Fields::of(f));
            prop_assert!(v.tirs().len() <= COPIES);
            prop_assert_eq!(v, s.classify(&Fields::of(f)), "the same again");
        }
    }

    #[test]
    fn one_group_is_found_as_by_a_search(
        values in prop::collection::vec((0u16..32, 0u32..64), 0..40), vid in 0u16..32,
    ) {
        let mut s = Steering::new();
        let table = Table { kind: NIC_RX, level: 0, log_size: 6, miss: Miss::Default };
        let t = s.create_table(table).unwrap();
        let group = Group { start: 0, end: 63, criteria: criteria(cvlan(0xf)) };
        let group = s.create_group(t, group).unwrap();
        let mut model = [None; 64];
        for (v, index) in values {
            let entry = forward(group, value(cvlan(v)), Destination::Tir(index));
            s.set_entry(t, index, entry).unwrap();
            model[index as usize] = Some(v & 0xf);
        }
        let first = (0..64).find(|i| model[*i as usize] == Some(vid & 0xf));
        let expected: Vec<u32> = first.into_iter().collect();
        prop_assert_eq!(tirs(&mut s, &Frame::v4(tcp(0)).tagged(0x8100, vid)), expected);
    }

    #[test]
    fn trees_find_what_a_search_finds(
        masks in prop::collection::vec(0u16..8, 16),
        values in prop::collection::vec((0u16..8, 0u32..64, any::<bool>()), 0..60),
        vid in 0u16..8,
    ) {
        let mut s = Steering::new();
        let table = Table { kind: NIC_RX, level: 0, log_size: 6, miss: Miss::Default };
        let t = s.create_table(table).unwrap();
        // Four indices a group; many groups have the same mask.
        let groups: Vec<u32> = (0..16).map(|i| {
            let criteria = criteria(cvlan(masks[i as usize]));
            s.create_group(t, Group { start: 4 * i, end: 4 * i + 3, criteria }).unwrap()
        }).collect();
        let mut model = [None; 64];
        for (v, index, there) in values {
            let at = index as usize;
            if there {
                let e = forward(groups[at / 4], value(cvlan(v)), Destination::Tir(index));
                s.set_entry(t, index, e).unwrap();
                model[at] = Some(v & masks[at / 4]);
            } else {
                prop_assert_eq!(s.delete_entry((t, index)).is_ok(), model[at].take().is_some());
            }
            // What is named is what an entry leads to.
            for (i, there) in model.iter().enumerate() {
                prop_assert_eq!(s.names(Destination::Tir(i as u32)), there.is_some());
                prop_assert_eq!(s.entry(t, i as u32).is_ok(), there.is_some());
            }
        }
        let first = (0..64).find(|i| model[*i as usize] == Some(vid & masks[*i as usize / 4]));
        let expected: Vec<u32> = first.into_iter().collect();
        prop_assert_eq!(tirs(&mut s, &Frame::v4(tcp(0)).tagged(0x8100, vid)), &expected[..]);
        // A group without entries can be destroyed, whatever others have its mask.
        for (i, g) in groups.iter().enumerate() {
            let empty = model[4 * i..4 * i + 4].iter().all(Option::is_none);
            prop_assert_eq!(s.destroy_group(t, *g).is_ok(), empty);
        }
        prop_assert_eq!(tirs(&mut s, &Frame::v4(tcp(0)).tagged(0x8100, vid)), &expected[..]);
    }
}
