use super::*;
use proptest::prelude::*;

fn taken(kind: u8, bytes: &[u8]) -> Inputs {
    inputs(&[&[kind], bytes].concat())
}

#[test]
fn each_input_reaches_its_subject() {
    // A large send of 3,000 bytes: checksum at 34 + 16, segments of 1,448.
    let mut large = vec![1, 1, 54, 0, 168, 5, 34, 0, 16, 0];
    let mut frame = vec![0; 3054];
    frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&3040_u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 6]);
    (frame[46], frame[47]) = (0x50, 0x10);
    large.extend(frame);
    assert_eq!(taken(0, &large).frames, (3, 1));
    assert_eq!(taken(0, &[&[0; 10][..], &[7; 60]].concat()).frames, (1, 1));
    let stream = [&[1, 2, 3, 4, 5, 6, 7, 8][..], &[0, 0, 0, 3, 1, 2, 3], &[0, 0, 0, 0], &[1; 9]];
    assert_eq!(taken(1, &stream.concat()).streamed, 2);
    assert_eq!(taken(2, &[&b"failover\n\x1b\n"[..], &[b'x'; 300], b"\nlink"].concat()).lines, 2);
    assert_eq!(taken(3, b"64..1500:64").values, 23);
    assert_eq!(taken(3, b"1us..64us:x4").values, 4);
    let budget = "device = \"e1000\"\n[budget]\n\"per_packet.mmio_reads\" = 0.8\n";
    assert_eq!(taken(4, budget.as_bytes()).budgets, (1, 0));
    let budget = budget.replace("0.8", "much");
    assert_eq!(taken(4, budget.as_bytes()).budgets, (0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_are_taken_for_others(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        inputs(&bytes);
    }

    #[test]
    fn no_range_is_taken_for_another(
        text in "\x03[0-9.]{1,6}[a-z]{0,2}\\.\\.[0-9.]{1,9}[a-z]{0,2}(:x?[0-9.]{1,5})?"
    ) {
        inputs(text.as_bytes());
    }
}
