use super::*;
use crate::GsoKind;
use crate::headers::{Check, verify};
use crate::tests::{Frame, any_frame};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn cut(f: &Frame, size: u16) -> Vec<Vec<u8>> {
    let mut frame = f.build();
    let gso = prepare_gso(&mut frame, size).unwrap().gso.unwrap();
    let mut segments = Segments::new(&frame, gso).unwrap();
    let mut out = vec![0; segments.plan().longest()];
    let mut all = Vec::new();
    while let Some(n) = segments.next_into(&mut out) {
        all.push(out[..n].to_vec());
    }
    assert_eq!(all.len() as u32, segments.plan().count());
    all
}

#[test]
fn fin_and_psh_stay_on_the_last_and_cwr_on_the_first() {
    let s = cut(&Frame { flags: 0xd9, ..Frame::tcp4(250) }, 100);
    let flags: Vec<u8> = s.iter().map(|s| s[34 + 13]).collect();
    assert_eq!(flags, [0xd0, 0x50, 0x59]);
}

#[test]
fn ids_and_sequence_numbers_count_on_and_wrap() {
    let s = cut(&Frame::tcp4(350), 100);
    let ids: Vec<u16> = s.iter().map(|s| be16(s, 18)).collect();
    let seqs: Vec<u32> = s.iter().map(|s| be32(s, 38)).collect();
    assert_eq!(ids, [0xfffe, 0xffff, 0, 1]);
    assert_eq!(seqs, [0xffff_ff00, 0xffff_ff64, 0xffff_ffc8, 0x2c]);
}

#[test]
fn lengths_count_extension_headers_and_the_last_segment_is_short() {
    let s = cut(&Frame { extensions: 2, ..Frame::udp6(250) }, 100);
    let ip: Vec<u16> = s.iter().map(|s| be16(s, 18)).collect();
    let udp: Vec<u16> = s.iter().map(|s| be16(s, 14 + 40 + 16 + 4)).collect();
    assert_eq!(ip, [124, 124, 74]);
    assert_eq!(udp, [108, 108, 58]);
}

#[test]
fn a_udp_segment_that_sums_to_zero_carries_all_ones() {
    // The first two bytes of each datagram of 4 make its checksum come out as 0.
    let mut f = Frame::udp4(8);
    f.payload.fill(0);
    for s in cut(&f, 4) {
        let short = Frame { payload: vec![0; 4], ..f.clone() }.build();
        assert_eq!(be16(&s, 40), be16(&short, 40));
    }
    let check = be16(&Frame { payload: vec![0; 4], ..f.clone() }.build(), 40);
    f.payload = [check.to_be_bytes(), [0; 2], check.to_be_bytes(), [0; 2]].concat();
    for s in cut(&f, 4) {
        assert_eq!(be16(&s, 40), 0xffff);
        assert_eq!(verify(&s).transport, Check::Good);
    }
}

#[test]
fn what_the_sender_left_in_the_checksum_field_does_not_matter() {
    let mut frame = Frame::tcp6(300).build();
    let gso = prepare_gso(&mut frame, 100).unwrap().gso.unwrap();
    let mut other = frame.clone();
    put16(&mut other, 14 + 40 + 16, 0x1234);
    let (mut a, mut b) = ([0; 200], [0; 200]);
    let (mut of_a, mut of_b) =
        (Segments::new(&frame, gso).unwrap(), Segments::new(&other, gso).unwrap());
    while let Some(n) = of_a.next_into(&mut a) {
        assert_eq!(of_b.next_into(&mut b), Some(n));
        assert_eq!(a[..n], b[..n]);
    }
}

#[test]
fn what_is_not_what_it_says_is_refused() {
    let f = Frame::tcp4(100).build();
    let gso = Gso { kind: GsoKind::Tcp4, size: 50, header: 54 };
    let why = |frame: &[u8], gso| Segments::new(frame, gso).err();
    assert_eq!(why(&f, gso), None);
    assert_eq!(why(&f, Gso { kind: GsoKind::Tcp6, ..gso }), Some(SegmentError::Headers));
    assert_eq!(why(&f, Gso { header: 53, ..gso }), Some(SegmentError::Headers));
    assert_eq!(why(&f, Gso { header: 200, ..gso }), Some(SegmentError::Headers));
    assert_eq!(why(&f, Gso { size: 0, ..gso }), Some(SegmentError::Size));
    assert_eq!(why(&f[..54], gso), Some(SegmentError::NoPayload));
    let mut big = f.clone();
    big.resize(54 + 70_000, 0);
    assert_eq!(why(&big, Gso { size: 65_500, ..gso }), Some(SegmentError::Size));
    assert_eq!(why(&big, Gso { size: 65_495, ..gso }), None);
}

#[test]
fn a_send_of_one_segment_is_not_large() {
    let large = |frame: &[u8], size| prepare_gso(&mut frame.to_vec(), size).unwrap().gso.is_some();
    let f = Frame::tcp4(100).build();
    assert!(large(&f, 99));
    assert!(!large(&f, 100));
    assert!(!large(&f, 0));
    // Padding is no payload, and no segment could carry it.
    assert!(!large(&[&f[..], &[0]].concat(), 99));
    assert!(!large(&[&f[..], &[0]].concat(), 0));
}

proptest! {
    #[test]
    fn segments_cover_the_payload_once_and_verify(f in any_frame(2..900), size in any::<u16>()) {
        let size = 1 + size % (f.payload.len() as u16 - 1);
        let end = Layers::of(&f.build()).unwrap().end as usize;
        let segments = cut(&f, size);
        let payload: Vec<u8> = segments.iter().flat_map(|s| s[end..].to_vec()).collect();
        prop_assert_eq!(&payload, &f.payload);
        for (i, s) in segments.iter().enumerate() {
            let v = verify(s);
            prop_assert_eq!(v.transport, Check::Good);
            prop_assert_eq!(v.ip, if f.v6 { Check::NotApplicable } else { Check::Good });
            prop_assert_eq!(Layers::of(s).unwrap().datagram(s).unwrap().end, s.len());
            prop_assert!(i + 1 == segments.len() || s.len() == end + size as usize);
        }
    }

    #[test]
    fn any_header_is_cut_or_refused(
        frame in any_frame(1..200),
        flips in prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..6),
        size in 0u16..300,
        header in 0u16..120,
    ) {
        let mut f = frame.build();
        let l = Layers::of(&f).unwrap();
        for (i, v) in flips {
            let i = i.index(f.len());
            f[i] = v;
        }
        let header = if header < 60 { l.end } else { header };
        let mut out = vec![0; f.len() + 1];
        if let Ok(mut s) = Segments::new(&f, Gso { kind: l.gso_kind().unwrap(), size, header }) {
            while s.next_into(&mut out).is_some() {}
        }
    }
}
