//! Crates that `doorbell new` writes: they build outside of this workspace, and pass.

use crate::common::doorbell_in;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Writes a crate into a directory of `dir`.
fn written(dir: &Path, args: &[&str]) {
    let root = root();
    let made = doorbell_in(dir, &[args, &["--doorbell", root.to_str().unwrap()]].concat());
    assert_eq!((made.code, made.err.as_str()), (0, ""), "{args:?}");
}

/// Returns all files below `dir`.
fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
    entries.flat_map(|p| if p.is_dir() { files(&p) } else { vec![p] }).collect()
}

/// The dependencies of new crates are there, with their features. Their sources are those of
/// `examples`, whose tests run with the crate `doorbell`.
#[test]
fn new_crates_find_what_they_depend_on() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), &["new", "driver", "fast-nic", "--for", "e1000"]);
    written(dir.path(), &["new", "device", "nic2"]);
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    for name in ["fast-nic", "nic2"] {
        let mut told = Command::new(&cargo);
        told.args(["metadata", "--offline", "--quiet", "--format-version", "1"]);
        let out = told.current_dir(dir.path().join(name)).output().unwrap();
        let [told, text] = [out.stderr, out.stdout].map(|b| String::from_utf8(b).unwrap());
        assert!(out.status.success(), "{name}: {told}");
        assert!(text.contains(&format!("\"name\":\"{name}\"")), "{text}");
    }
}

/// Builds in the directory of this build, whose libraries it shares.
#[test]
#[ignore = "builds two crates with all that they need: tools/soak.sh"]
fn new_crates_pass_their_tests_and_run() {
    let dir = tempfile::tempdir().unwrap();
    written(dir.path(), &["new", "driver", "fast-nic", "--for", "e1000"]);
    written(dir.path(), &["new", "device", "nic2"]);
    let program = std::env::current_exe().unwrap();
    let target = program.ancestors().nth(3).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    for name in ["fast-nic", "nic2"] {
        for args in [
            "test --offline --quiet".to_owned(),
            format!("run --offline --quiet -- run {name}-tcp"),
            "run --offline --quiet -- check budget.toml".to_owned(),
        ] {
            let mut run = Command::new(&cargo);
            run.args(args.split(' ')).current_dir(dir.path().join(name));
            let out = run.env("CARGO_TARGET_DIR", target).output().unwrap();
            let [told, text] = [out.stderr, out.stdout].map(|b| String::from_utf8(b).unwrap());
            assert!(out.status.success(), "{name}: {args}: {text}{told}");
            if args.contains("-- run") {
                assert!(text.contains(&format!(" {name}-tcp: audit ok")), "{text}");
            }
        }
    }
}

#[test]
fn a_new_crate_has_its_name_and_its_card() {
    let dir = tempfile::tempdir().unwrap();
    for (card, model) in [
        ("82540em", "Config::I82540EM"),
        ("82544gc", "Config::I82544GC"),
        ("82545em", "Config::I82545EM"),
    ] {
        let name = format!("for-{card}");
        written(dir.path(), &["new", "driver", &name, "--for", card]);
        let of = dir.path().join(&name);
        let text = std::fs::read_to_string(of.join("src/main.rs")).unwrap();
        assert!(text.contains(model) && text.matches("Config::I").count() == 1, "{text}");
        let all = files(&of);
        assert_eq!(all.len(), 14, "{all:?}");
        for file in all {
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(!text.contains("mynic"), "{}: {text}", file.display());
        }
    }
}

#[test]
fn a_crate_is_not_written_over_or_into_the_wrong_place() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("there")).unwrap();
    let root = root();
    let root = root.to_str().unwrap();
    for (args, why) in [
        (vec!["there", "--doorbell", root], "there: it exists already, and is left as it is"),
        (vec!["My_NIC", "--doorbell", root], "allowed are small letters, digits and dashes"),
        (vec!["doorbell", "--doorbell", root], "neither `doorbell` nor `test`"),
        (vec!["mine", "--doorbell", "there"], "--doorbell there: there is no crates/doorbell/"),
        (vec!["mine", "--doorbell", root, "--for", "82599"], "82540em, 82544gc, 82545em"),
        (vec!["no/where", "--doorbell", root], "no/where: No such file or directory"),
    ] {
        let r = doorbell_in(dir.path(), &[&["new", "driver"][..], &args].concat());
        assert!(r.code == 2 && r.err.contains(why), "{args:?}: {}", r.err);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left");
}
