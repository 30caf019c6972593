use super::*;
use alloc::vec::Vec;
use proptest::prelude::*;

fn pieces(e: Errata, at: u64, len: u32, c: Split) -> Vec<(u64, u32)> {
    let (mut at, mut left, mut c) = (at, len, c);
    let mut out = Vec::new();
    while left > 0 {
        let n = e.next(at, left, c);
        assert!(n > 0 && n <= left);
        out.push((at, n));
        (at, left) = (at + u64::from(n), left - n);
        (c.first, c.after_tso) = (false, false);
    }
    out
}
const PLAIN: Split = Split { max: MAX_LENGTH, sentinel: false, first: true, after_tso: false };

#[test]
fn linear_large_send_ends_in_a_sentinel_of_4_bytes() {
    let e = Errata::of(Part::I82540, Bus::Pci);
    let c = Split { sentinel: true, ..PLAIN };
    assert_eq!(pieces(e, 0x1000, 3000, c), [(0x1000, 2996), (0x1000 + 2996, 4)]);
    assert_eq!(pieces(e, 0x1000, 8, c), [(0x1000, 8)], "too short to be cut");
}

#[test]
fn packet_after_a_large_send_loses_4_bytes_to_a_second_descriptor_except_on_82544() {
    let c = Split { after_tso: true, ..PLAIN };
    assert_eq!(
        pieces(Errata::of(Part::I82540, Bus::Pci), 0x1000, 60, c),
        [(0x1000, 56), (0x1038, 4)]
    );
    assert_eq!(pieces(Errata::of(Part::I82544, Bus::Pci), 0x1000, 60, c), [(0x1000, 60)]);
}

#[test]
fn first_descriptor_on_pcix_is_2015_bytes_at_most() {
    assert_eq!(
        pieces(Errata::of(Part::I82540, Bus::PciX), 0x1000, 4096, PLAIN),
        [(0x1000, 2015), (0x17df, 2081)]
    );
    assert_eq!(pieces(Errata::of(Part::I82540, Bus::Pci), 0x1000, 4096, PLAIN), [(0x1000, 4096)]);
}

#[test]
fn the_82544_rule_looks_at_bit_2_of_the_last_bytes_address() {
    let e = Errata { even_dword: true, ..Errata::NONE };
    // The last byte at ..3: bit 2 clear. At ..7: set.
    assert_eq!(pieces(e, 0x1000, 60, PLAIN), [(0x1000, 56), (0x1038, 4)]);
    assert_eq!(pieces(e, 0x1000, 64, PLAIN), [(0x1000, 64)]);
    assert_eq!(pieces(e, 0x1004, 60, PLAIN), [(0x1004, 60)]);
}

#[test]
fn nothing_crosses_64_kib_on_82545_revision_0() {
    let e = Errata::of(Part::I82545, Bus::Pci);
    assert_eq!(pieces(e, 0x1_ff00, 1000, PLAIN), [(0x1_ff00, 256), (0x2_0000, 744)]);
    assert!(!e.allows(0x1_ff00, 257) && e.allows(0x1_ff00, 256));
}

proptest! {
    #[test]
    fn pieces_cover_the_buffer_once_and_each_rule_holds(
        (even_dword, short_first, tso_sentinel, after, bound_64k) in
            any::<(bool, bool, bool, bool, bool)>(),
        at in 0u64..0x4_0000,
        len in 1u32..70_000,
        max in prop::sample::select(alloc::vec![4096u32, 2048, 400, 2144]),
        (sentinel, follows) in any::<(bool, bool)>(),
    ) {
        let e = Errata { even_dword, short_first, tso_sentinel, after_tso: after, bound_64k };
        let c = Split { max, sentinel, first: true, after_tso: follows };
        let p = pieces(e, at, len, c);
        let mut next = at;
        for (i, &(a, n)) in p.iter().enumerate() {
            prop_assert_eq!(a, next);
            next += u64::from(n);
            prop_assert!(n <= max);
            prop_assert!(!even_dword || n <= 4 || (a + u64::from(n) - 1) & 4 != 0);
            prop_assert!(!short_first || i > 0 || n <= MAX_FIRST);
            prop_assert!(!bound_64k || a >> 16 == (a + u64::from(n) - 1) >> 16);
        }
        prop_assert_eq!(next, at + u64::from(len));
        prop_assert!(!(tso_sentinel && sentinel) || p.last().unwrap().1 <= 8);
        prop_assert!(p.len() as u32 <= e.most(len, max), "{} > {}", p.len(), e.most(len, max));
    }
}
