use super::splitmix;

/// The first numbers of the reference implementation (Vigna, splitmix64.c) from this seed.
#[test]
fn the_sequence_is_that_of_the_reference() {
    let mut state = 1_234_567;
    let first: [u64; 3] = std::array::from_fn(|_| splitmix(&mut state));
    let want = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
    assert_eq!(first, want);
}
