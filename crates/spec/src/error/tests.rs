use super::nearest;

#[test]
fn only_what_is_near_is_proposed() {
    let of = |wanted| {
        nearest(
            wanted,
            ["cpu.poll", "pcie.mps", "pcie.mrrs", "cpu_busy_share", "pci_mr", "max"].into_iter(),
        )
    };
    assert_eq!(of("pcie.mpss"), Some("pcie.mps"));
    assert_eq!(of("cpu_busy"), Some("cpu_busy_share"), "a part of it");
    assert_eq!(of("mxa"), Some("max"));
    assert_eq!(of("cpu.pl"), Some("cpu.poll"), "much is missing, and the beginning is right");
    assert_eq!([of("profile"), of(""), of("/tmp/dir"), of("x")], [None; 4]);
}
