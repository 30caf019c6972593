use super::*;
use crate::tests::Frame;
use proptest::prelude::*;

#[test]
fn a_flow_is_addresses_and_ports() {
    let key = Toeplitz::new(&MICROSOFT);
    let f = Frame::tcp4(100).build();
    let l = Layers::of(&f).unwrap();
    let (l3, l4) = (usize::from(l.l3), usize::from(l.l4));
    let input = [&f[l3 + 12..l3 + 20], &f[l4..l4 + 4]].concat();
    assert_eq!(key.flow(&f), key.hash(&input));
    let f = Frame { tags: 1, extensions: 2, ..Frame::udp6(5) }.build();
    let l = Layers::of(&f).unwrap();
    let (l3, l4) = (usize::from(l.l3), usize::from(l.l4));
    let input = [&f[l3 + 8..l3 + 40], &f[l4..l4 + 4]].concat();
    assert_eq!(key.flow(&f), key.hash(&input));
}

#[test]
fn a_fragment_is_hashed_without_ports_and_others_have_no_hash() {
    let key = Toeplitz::new(&MICROSOFT);
    let mut f = Frame::udp4(64).build();
    f[14 + 6] |= 0x20;
    assert_eq!(key.flow(&f), key.hash(&f[26..34]));
    f[12..14].copy_from_slice(&[0x08, 0x06]);
    assert_eq!(key.flow(&f), 0);
    assert_eq!(key.flow(&[]), 0);
}

/// Microsoft's definition, word for word.
fn bit_by_bit(key: &[u8; KEY], input: &[u8]) -> u32 {
    let mut key_bits = key.iter().flat_map(|b| (0..8).map(move |i| u32::from(b >> (7 - i) & 1)));
    let mut left = key_bits.by_ref().take(32).fold(0, |a, b| a << 1 | b);
    let mut result = 0;
    for byte in input {
        for i in 0..8 {
            if byte >> (7 - i) & 1 == 1 {
                result ^= left;
            }
            left = left << 1 | key_bits.next().unwrap_or(0);
        }
    }
    result
}

proptest! {
    #[test]
    fn the_tables_are_the_definition(
        key in prop::array::uniform32(any::<u8>()),
        tail in prop::array::uniform8(any::<u8>()),
        input in prop::collection::vec(any::<u8>(), 0..INPUT + 1),
    ) {
        let key: [u8; KEY] = core::array::from_fn(|i| if i < 32 { key[i] } else { tail[i - 32] });
        prop_assert_eq!(Toeplitz::new(&key).hash(&input), bit_by_bit(&key, &input));
    }
}
