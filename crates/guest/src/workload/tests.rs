use super::*;
use crate::Arch;

#[test]
fn every_workload_that_is_built_in_describes_itself_and_its_variables() {
    for w in Workload::built_in() {
        assert!(!w.about.is_empty() && !w.variables.is_empty(), "{}", w.name);
        assert!(w.variables.iter().all(|v| !v.about.is_empty()), "{}", w.name);
        // A variable that no line uses cannot have an effect.
        let lines: String = w.script.lines().filter(|l| !l.starts_with('#')).collect();
        for v in &w.variables {
            assert!(lines.contains(&v.name), "{} {}", w.name, v.name);
        }
    }
}

#[test]
fn settings_stand_in_front_of_the_script_and_the_last_one_wins() {
    let w = Workload::find("pktgen").unwrap();
    let set = |v: &str| ("size".to_owned(), v.to_owned());
    let script = w.with(&[set("1"), set("it's 9")]);
    assert!(script.starts_with("size='it'\\''s 9'\nburst='32'\n"), "{script}");
    assert!(script.ends_with(&w.script));
}

#[test]
fn a_script_of_ones_own_needs_both_marks_and_variables_in_their_form() {
    let parse = |text: &str| Workload::parse("own", text);
    let declared = "#: n=3  Times\n#: modules a b\n#: package p f g\n";
    let w = parse(&format!("#!/bin/sh\n# Does nothing\n{declared}begin\nend \"$n\"\n")).unwrap();
    assert_eq!((&*w.about, &*w.variables[0].default), ("Does nothing", "3"));
    assert_eq!(w.modules, ["a", "b"]);
    assert!(!w.replaces_driver && Workload::find("testpmd").unwrap().replaces_driver);
    assert_eq!(w.packages, [("p".to_owned(), vec!["f".to_owned(), "g".to_owned()])]);
    assert!(parse("begin\n").unwrap_err().contains("no line `end`"));
    assert!(parse("#: N=3\nbegin\nend\n").unwrap_err().starts_with("line 1: `#: N=3`"));
    assert!(parse("#: n 3\nbegin\nend\n").unwrap_err().contains("NAME=DEFAULT"));
}

#[test]
fn a_workload_that_is_not_there_names_those_that_are() {
    let wrong = Workload::find("no-such").unwrap_err().to_string();
    assert!(wrong.contains("pktgen") && wrong.contains("iperf-receive"), "{wrong}");
}

#[test]
fn each_architecture_has_a_name_of_debian() {
    assert_eq!(Arch::ALL.map(Arch::debian), ["amd64", "arm64", "ppc64el"]);
}
