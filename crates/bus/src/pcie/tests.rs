mod model;

use super::*;

fn error(change: impl FnOnce(&mut Settings)) -> String {
    let mut settings = Settings::link(3, 16);
    change(&mut settings);
    Rules::new(settings).unwrap_err().to_string()
}

#[test]
fn a_wrong_setting_is_named_with_what_is_allowed() {
    insta::assert_snapshot!(
        error(|s| s.generation = 6),
        @"generation = 6 is not a PCI Express setting; allowed: 1 to 5 (6 and 7 send flits)"
    );
    insta::assert_snapshot!(
        error(|s| s.generation = 0),
        @"generation = 0 is not a PCI Express setting; allowed: 1 to 5 (6 and 7 send flits)"
    );
    insta::assert_snapshot!(
        error(|s| s.lanes = 0),
        @"lanes = 0 is not a PCI Express setting; allowed: 1, 2, 4, 8, 16, 32"
    );
    insta::assert_snapshot!(
        error(|s| s.lanes = 12),
        @"lanes = 12 is not a PCI Express setting; allowed: 1, 2, 4, 8, 16, 32"
    );
    insta::assert_snapshot!(
        error(|s| s.mps = 64),
        @"mps = 64 is not a PCI Express setting; allowed: 128, 256, 512, 1024, 2048, 4096"
    );
    insta::assert_snapshot!(
        error(|s| s.mrrs = 8192),
        @"mrrs = 8192 is not a PCI Express setting; allowed: 128, 256, 512, 1024, 2048, 4096"
    );
    insta::assert_snapshot!(
        error(|s| s.completions = Completions::Rcb(256)),
        @"completions = 256 is not a PCI Express setting; allowed: Rcb(64), Rcb(128), Merged"
    );
    insta::assert_snapshot!(
        error(|s| s.tags = 0),
        @"tags = 0 is not a PCI Express setting; allowed: 1 to 4096"
    );
    insta::assert_snapshot!(
        error(|s| s.speed_ppm = 0),
        @"speed_ppm = 0 is not a PCI Express setting; allowed: 10000 to 10000000 parts per million"
    );
}
