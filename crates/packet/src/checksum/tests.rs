use super::*;
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

/// RFC 1071, 1, word for word.
fn by_the_rfc(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for w in bytes.chunks(2) {
        sum += u32::from(w[0]) << 8 | w.get(1).map_or(0, |b| u32::from(*b));
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

#[test]
fn the_example_of_rfc_1071() {
    let s = Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
    assert_eq!(s.value(), 0xddf2);
    assert_eq!(s.checksum(), 0x220d);
}

#[test]
fn all_ones_never_wrap_to_zero() {
    for len in [2, 64, 66, 128, 4096, 65536] {
        assert_eq!(Sum::of(&vec![0xff; len]).value(), 0xffff, "{len}");
        assert_eq!(Sum::of(&vec![0; len]).value(), 0, "{len}");
    }
}

#[test]
fn udp_sends_all_ones_for_a_checksum_of_zero_and_tcp_does_not() {
    // 0x1234 + 0xedcb = 0xffff, whose complement is 0.
    let mut udp = [0x12, 0x34, 0xed, 0xcb, 0, 0, 0, 0];
    let mut tcp = [0; 18];
    tcp[..4].copy_from_slice(&udp[..4]);
    assert_eq!(CsumPartial { start: 0, offset: 6 }.complete(&mut udp), Ok(8));
    assert_eq!(CsumPartial { start: 0, offset: 16 }.complete(&mut tcp), Ok(18));
    assert_eq!(&udp[6..], [0xff, 0xff]);
    assert_eq!(&tcp[16..], [0, 0]);
}

#[test]
fn a_partial_outside_the_frame_writes_nothing() {
    let mut frame = [7; 40];
    assert_eq!(CsumPartial { start: 30, offset: 9 }.complete(&mut frame), Err(OutOfFrame));
    assert_eq!(
        CsumPartial { start: u16::MAX, offset: u16::MAX }.complete(&mut frame),
        Err(OutOfFrame)
    );
    assert_eq!(frame, [7; 40]);
}

#[test]
fn the_last_carry_is_folded_in() {
    // As the CPU loads them, 0xffffffff_00010000: three folds leave 0x10000.
    let mut bytes = 0xffff_ffff_0001_0000u64.to_le_bytes();
    assert_eq!(Sum::of(&bytes).value(), by_the_rfc(&bytes));
    bytes.reverse();
    assert_eq!(Sum::of(&bytes).value(), by_the_rfc(&bytes));
}

/// Completes the checksum of a frame in several pieces, as a driver does. Returns the bytes summed.
fn complete_pieces(p: CsumPartial, head: &mut [u8], rest: &[&[u8]]) -> usize {
    let mut run = Running::default();
    run.add(&head[p.start as usize..]);
    rest.iter().for_each(|piece| run.add(piece));
    head[p.field()..p.field() + 2].copy_from_slice(&p.finish(run.sum()).to_be_bytes());
    run.len()
}

#[test]
fn a_checksum_field_may_end_the_head() {
    let p = CsumPartial { start: 0, offset: 6 };
    let (mut head, rest) = ([1, 2, 3, 4, 5, 6, 0, 0], [7, 8]);
    assert_eq!(complete_pieces(p, &mut head, &[&rest]), 10);
    assert!(Sum::of(&[&head[..], &rest].concat()).is_intact());
}

#[test]
fn a_running_sum_of_no_bytes_is_empty() {
    let mut run = Running::default();
    assert!(run.is_empty());
    run.add(&[0]);
    assert!(!run.is_empty());
}

proptest! {
    #[test]
    fn the_fast_sum_is_the_rfc_s(bytes in prop::collection::vec(any::<u8>(), 0..700)) {
        prop_assert_eq!(Sum::of(&bytes).value(), by_the_rfc(&bytes));
    }

    #[test]
    fn pieces_sum_to_the_whole_at_any_split(
        bytes in prop::collection::vec(any::<u8>(), 1..400),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut at: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len())).collect();
        at.sort_unstable();
        at.push(bytes.len());
        let (mut run, mut from) = (Running::default(), 0);
        for to in at {
            run.add(&bytes[from..to]);
            from = to;
        }
        prop_assert_eq!(run.len(), bytes.len());
        prop_assert_eq!(run.sum().value(), Sum::of(&bytes).value());
    }

    #[test]
    fn copying_sums_and_copies(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut to = vec![0xa5; bytes.len()];
        let sum = Sum::copy(&mut to, &bytes);
        prop_assert_eq!(sum.value(), by_the_rfc(&bytes));
        prop_assert_eq!(to, bytes);
    }

    #[test]
    fn a_completed_frame_is_intact_linear_or_in_pieces(
        bytes in prop::collection::vec(any::<u8>(), 60..300),
        start in 0u16..30,
        offset in prop::sample::select(vec![6u16, 16]),
        cut in any::<prop::sample::Index>(),
        cut2 in any::<prop::sample::Index>(),
    ) {
        let p = CsumPartial { start, offset };
        let mut linear = bytes.clone();
        // The field holds a pseudo-header's sum; here the part that makes the whole right is zero.
        linear[p.field()..p.field() + 2].fill(0);
        let mut pieces = linear.clone();
        p.complete(&mut linear).unwrap();
        // An even field offset from `start` is needed for the check to be a plain sum.
        prop_assert!(Sum::of(&linear[start as usize..]).is_intact());
        let head_len = 48 + cut.index(pieces.len() - 48);
        let (head, rest) = pieces.split_at_mut(head_len);
        let (b, c) = rest.split_at(cut2.index(rest.len().max(1)).min(rest.len()));
        complete_pieces(p, head, &[b, c]);
        prop_assert_eq!(pieces, linear);
    }

    #[test]
    fn the_pseudo_header_sums_what_the_rfc_lays_out(
        src in any::<[u8; 16]>(),
        dst in any::<[u8; 16]>(),
        proto in any::<u8>(),
        len in any::<u32>(),
    ) {
        let mut v6 = Vec::new();
        v6.extend(src);
        v6.extend(dst);
        v6.extend(len.to_be_bytes());
        v6.extend([0, 0, 0, proto]);
        prop_assert_eq!(Sum::pseudo_v6(src, dst, proto, len).value(), by_the_rfc(&v6));
        let (s4, d4) = (*src.first_chunk::<4>().unwrap(), *dst.first_chunk::<4>().unwrap());
        let mut v4 = Vec::new();
        v4.extend(s4);
        v4.extend(d4);
        v4.extend([0, proto]);
        v4.extend((len as u16).to_be_bytes());
        prop_assert_eq!(Sum::pseudo_v4(s4, d4, proto, len & 0xffff).value(), by_the_rfc(&v4));
    }
}
