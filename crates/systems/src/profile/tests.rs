use super::*;
use crate::DOORBELL;
use proptest::prelude::*;

/// Returns the text of the Gen2 profile.
fn gen2() -> &'static str {
    open("mlx5-gen2", "profile", DOORBELL.profiles).unwrap().1.leak()
}

/// Parses the Gen2 profile with the entry that starts with `key` replaced; an entry goes on with
/// indented lines.
fn with(key: &str, line: &str) -> String {
    let text = gen2();
    assert!(text.lines().any(|l| l.starts_with(key)), "{key}");
    let mut inside = false;
    let text: Vec<&str> = text
        .lines()
        .filter_map(|l| {
            inside = l.starts_with(key) || inside && l.starts_with(' ');
            if l.starts_with(key) { Some(line) } else { (!inside).then_some(l) }
        })
        .collect();
    // Line numbers move with every edit of the profile; the test is about the rest.
    match DOORBELL.parse_profile("x.toml", &text.join("\n")) {
        Ok(_) => "accepted".to_owned(),
        Err(e) => {
            let place = e.place.split(':').next().unwrap_or("").to_owned();
            let numbered = e.place.contains(':');
            format!("{place}{}: {}", if numbered { ":N" } else { "" }, e.what)
        }
    }
}

#[test]
fn built_in_profiles_are_whole_and_named_as_their_files() {
    for (name, _) in DOORBELL.profiles {
        let p = DOORBELL.profile(name).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(&p.name, name);
    }
}

#[test]
fn faults_are_told_with_their_line() {
    let text = "name = \"x\"\nsystem = \"mlx5\"\nabout = \"x\"\n\n[pcie]\n\
                mps = { value = 300, unit = \"B\", source = \"s\" }\n";
    insta::assert_snapshot!(
        DOORBELL.parse_profile("p/x.toml", text).unwrap_err(),
        @"p/x.toml:6: `pcie.mps` cannot be 300 B; allowed: 128, 256, 512, 1024, 2048, 4096 B"
    );
    insta::assert_snapshot!(
        DOORBELL.parse_profile("p/x.toml", "name = \n").unwrap_err(),
        @"p/x.toml:1: string values must be quoted, expected literal string"
    );
    insta::assert_snapshot!(
        DOORBELL.parse_profile("p/x.toml", "name = \"x\"\nsystem = \"mlx4\"").unwrap_err(),
        @"p/x.toml:2: no system is called `mlx4`; the nearest is `mlx5`; there are: mlx5, e1000, \
          axienet, ibmveth, ibmvnic"
    );
}

#[test]
fn wrong_entries_are_refused_with_what_is_allowed() {
    insta::assert_snapshot!(
        with("mps", "mpx = { value = 256, unit = \"B\", source = \"s\" }"),
        @"x.toml:N: no key is called `pcie.mpx`; the nearest is `pcie.mps`"
    );
    insta::assert_snapshot!(with("mps", ""), @"x.toml: a key is missing: pcie.mps");
    insta::assert_snapshot!(
        with("memory_latency", "memory_latency = 250"),
        @"x.toml:N: `pcie.memory_latency` needs a source: { value = …, unit = \"ns\", source = \
          \"…\" }"
    );
    insta::assert_snapshot!(
        with("memory_latency", "memory_latency = { value = 250, source = \"s\" }"),
        @"x.toml:N: `pcie.memory_latency` needs a unit; allowed units: ps, ns, us, ms, s"
    );
    insta::assert_snapshot!(
        with("memory_latency", "memory_latency = { value = 250, unit = \"GHz\", source = \"s\" }"),
        @"x.toml:N: `pcie.memory_latency` cannot be in `GHz`; allowed units: ps, ns, us, ms, s"
    );
    insta::assert_snapshot!(
        with("memory_latency", "memory_latency = { value = 250, unit = \"ns\" }"),
        @"x.toml:N: `pcie.memory_latency` has no source; allowed: a URL or data sheet with its \
          figure, `assumed: why`, `fit:ROW`"
    );
    insta::assert_snapshot!(
        with(
            "memory_latency",
            "memory_latency = { value = 250, unit = \"ns\", source = \"assumed:\" }"
        ),
        @"x.toml:N: the source of `pcie.memory_latency` says nothing"
    );
    insta::assert_snapshot!(
        with("completions", "completions = { value = \"odd\", source = \"s\" }"),
        @"x.toml:N: `pcie.completions` cannot be `odd`; allowed: merged, rcb64, rcb128"
    );
    insta::assert_snapshot!(
        with("ecrc", "ecrc = { value = \"off\", sauce = \"s\" }"),
        @"x.toml:N: `pcie.ecrc` has no `sauce`; the nearest is `source`; allowed: value, \
          unit, source, range"
    );
}

proptest! {
    /// Replaces some characters. The result is accepted, or the error has a place.
    #[test]
    fn a_damaged_profile_is_refused_and_nothing_worse(
        at in 0usize..6000,
        gone in 0usize..40,
        put in "[\\[\\]{}=\"'a0.\n#-]{0,4}",
    ) {
        let text = gen2();
        let floor = |i: usize| text.floor_char_boundary(i);
        let damaged = format!("{}{put}{}", &text[..floor(at)], &text[floor(at + gone)..]);
        if let Err(e) = DOORBELL.parse_profile("x.toml", &damaged) {
            prop_assert!(e.place.starts_with("x.toml"), "{e}");
        }
    }
}

#[test]
fn a_fit_becomes_a_fitted_constant_with_its_range() {
    let fit = "memory_latency = { value = 90, unit = \"ns\", range = [50, 200], \
               source = \"fit:mlx5.rate_gen3_off\" }";
    let text = gen2().lines().map(|l| if l.starts_with("memory_latency") { fit } else { l });
    let p = DOORBELL.parse_profile("x.toml", &text.collect::<Vec<_>>().join("\n")).unwrap();
    let source = Source::Fit { row: "mlx5.rate_gen3_off".to_owned(), range: (50.0, 200.0) };
    assert_eq!(p.source("pcie.memory_latency"), Some(&source));
    let fits = p.values.keys().into_iter().filter_map(|k| p.source(k.name));
    assert_eq!(fits.filter(|s| matches!(s, Source::Fit { .. })).count(), 1);
}
