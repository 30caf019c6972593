use super::*;
use crate::DOORBELL;

const HEAD: &str = "name = \"x\"\nabout = \"x\"\nsystem = \"mlx5\"\nprofile = \"mlx5-gen2\"\n";

fn refused(rest: &str) -> String {
    DOORBELL
        .parse_scenario("s/x.toml", &format!("{HEAD}{rest}"))
        .and_then(|s| s.plan(&DOORBELL))
        .unwrap_err()
        .to_string()
}

#[test]
fn built_in_scenarios_have_profiles_and_are_named_as_their_files() {
    for (name, _) in DOORBELL.scenarios {
        let s = DOORBELL.scenario(name).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(&s.name, name);
        s.plan(&DOORBELL).unwrap_or_else(|e| panic!("{e}"));
    }
}

#[test]
fn later_layers_win() {
    let s = DOORBELL
        .parse_scenario("x", &format!("{HEAD}[pcie]\nmps = \"512 B\"\ntags = 64\n"))
        .unwrap();
    let mut plan = s.plan(&DOORBELL).unwrap();
    assert_eq!(plan.values.number("pcie.mps"), 512.0);
    assert_eq!(plan.values.number("pcie.mrrs"), 512.0, "the profile's");
    plan.set("pcie.mps=128").unwrap();
    plan.set("pcie.mps=1KiB").unwrap();
    assert_eq!(plan.values.number("pcie.mps"), 1024.0);
}

#[test]
fn faults_are_told_with_their_line() {
    insta::assert_snapshot!(
        refused("[traffic]\nsise = \"64 B\""),
        @"s/x.toml:6: no key is called `traffic.sise`; the nearest is `traffic.size`"
    );
    insta::assert_snapshot!(
        refused("[traffic]\n\nsize = 64"),
        @"s/x.toml:7: `traffic.size` needs a unit, such as \"64 B\""
    );
    insta::assert_snapshot!(
        refused("[traffic]\nsize = \"64 ns\""),
        @"s/x.toml:6: `traffic.size` cannot be in `ns`; allowed units: B, KiB, MiB"
    );
    insta::assert_snapshot!(
        refused("[traffic]\nkind = true"),
        @"s/x.toml:6: `traffic.kind` cannot be of type boolean; allowed: pktgen, pcap, arrivals, \
          send, receive, transactions"
    );
    insta::assert_snapshot!(
        refused("color = 3"),
        @"s/x.toml:5: `color` is not allowed here; allowed: name, about, system, profile, and \
          tables"
    );
    let lost = HEAD.replace("mlx5-gen2", "mlx5-gen9");
    insta::assert_snapshot!(
        DOORBELL.parse_scenario("s/x.toml", &lost).unwrap().plan(&DOORBELL).unwrap_err(),
        @"s/x.toml:4: no profile is called `mlx5-gen9`; the nearest is `mlx5-gen2`; `doorbell \
          list` has all; a path that ends in .toml is read as a file"
    );
}

#[test]
fn a_setting_without_effect_is_refused() {
    let e = refused("[traffic]\nkind = \"pcap\"\nsize = \"64 B\"");
    insta::assert_snapshot!(
        e,
        @"s/x.toml:7: `traffic.size` has no effect on this run: it has an effect where \
          `traffic.kind` is pktgen, and here `traffic.kind` is pcap"
    );
    let layer = |sets: &[&str]| {
        let sets: Vec<Setting> = sets.iter().map(|s| Setting::given("--over", s)).collect();
        DOORBELL
            .scenario("mlx5-full-rate")
            .unwrap()
            .plan(&DOORBELL)
            .unwrap()
            .layer(&sets)
            .map_err(|e| e.to_string())
    };
    insta::assert_snapshot!(
        layer(&["traffic.packets=8", "traffic.kind=pcap"]).unwrap_err(),
        @"--over traffic.packets=8: `traffic.packets` has no effect on this run: it has an effect \
          where `traffic.kind` is pktgen, and here `traffic.kind` is pcap"
    );
    // What a file said of generated packets is replaced with them.
    assert_eq!(layer(&["traffic.kind=pcap"]), Ok(()));
}

#[test]
fn settings_are_checked_like_files() {
    let mut plan = DOORBELL.plan("mlx5-pktgen-64").unwrap();
    let mut e = |s| plan.set(s).unwrap_err().to_string();
    insta::assert_snapshot!(
        e("pcie.mps"),
        @"--set pcie.mps: expected key=value, such as pcie.memory_latency=300ns"
    );
    insta::assert_snapshot!(
        e("pcie.mpss=3"),
        @"--set pcie.mpss=3: no key is called `pcie.mpss`; the nearest is `pcie.mps`"
    );
    insta::assert_snapshot!(
        e("traffic.rate=3 ns"),
        @"--set traffic.rate=3 ns: `traffic.rate` cannot be in `ns`; allowed units: pps, kpps, Mpps"
    );
}
