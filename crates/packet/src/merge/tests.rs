use super::*;
use crate::segment::{Segments, prepare_gso};
use crate::tests::{Frame, any_frame};
use alloc::vec;
use proptest::prelude::*;

/// The second of two segments must not join the first after `change`.
fn stays_apart(change: impl Fn(&mut Frame)) {
    let first = Frame::tcp4(100);
    let mut second = Frame { id: first.id + 1, seq: first.seq.wrapping_add(100), ..first.clone() };
    let mut out = [0; 400];
    assert!(
        Merge::start(&mut out, &first.build()).unwrap().add(&second.build()),
        "without the change it joins"
    );
    change(&mut second);
    assert!(!Merge::start(&mut out, &first.build()).unwrap().add(&second.build()));
}

#[test]
fn a_segment_that_does_not_follow_on_stays_apart() {
    stays_apart(|f| f.seq ^= 1);
    stays_apart(|f| f.id ^= 1);
    stays_apart(|f| f.flags |= CWR);
    stays_apart(|f| f.flags |= SYN);
    stays_apart(|f| f.flags = 0x50);
    stays_apart(|f| f.tcp_options = 4);
    stays_apart(|f| f.ip_options = 4);
    stays_apart(|f| f.tags = 1);
    stays_apart(|f| f.payload.push(0));
    stays_apart(|f| f.payload.clear());
}

#[test]
fn a_segment_with_a_wrong_checksum_stays_apart() {
    let first = Frame::tcp4(100);
    let mut second =
        Frame { id: first.id + 1, seq: first.seq.wrapping_add(100), ..first.clone() }.build();
    second[80] ^= 1;
    let mut out = [0; 400];
    assert!(!Merge::start(&mut out, &first.build()).unwrap().add(&second));
}

#[test]
fn nothing_follows_psh_or_a_short_segment() {
    let first = Frame::tcp4(100);
    let next = |f: &Frame| Frame {
        id: f.id.wrapping_add(1),
        seq: f.seq.wrapping_add(f.payload.len() as u32),
        ..first.clone()
    };
    let mut out = [0; 600];
    let psh = Frame { flags: 0x18, ..first.clone() };
    assert!(!Merge::start(&mut out, &psh.build()).unwrap().add(&next(&psh).build()));
    let mut short = next(&first);
    short.payload.truncate(40);
    let mut m = Merge::start(&mut out, &first.build()).unwrap();
    assert!(m.add(&short.build()));
    assert!(!m.add(&next(&short).build()));
    assert_eq!(m.segments(), 2);
}

proptest! {
    #[test]
    fn merging_what_was_cut_gives_the_large_send_back(
        f in any_frame(2..900),
        size in any::<u16>(),
    ) {
        let size = 1 + size % (f.payload.len() as u16 - 1);
        let mut whole = f.build();
        let todo = prepare_gso(&mut whole, size).unwrap();
        let mut segments = Segments::new(&whole, todo.gso.unwrap()).unwrap();
        let (mut out, mut merged) = (vec![0; segments.plan().longest()], vec![0; whole.len()]);
        let n = segments.next_into(&mut out).unwrap();
        let mut merge = Merge::start(&mut merged, &out[..n]).unwrap();
        while let Some(n) = segments.next_into(&mut out) {
            prop_assert!(merge.add(&out[..n]));
        }
        prop_assert_eq!(merge.finish(), (whole.len(), todo));
        prop_assert_eq!(merged, whole);
    }
}
