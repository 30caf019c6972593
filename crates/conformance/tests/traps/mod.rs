//! Tables of what is easily got wrong about a device, each with the tests that hold it: on the
//! driver's side, on the device's, or with both together. A test that is renamed or lost is missed
//! here.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// A trap, and its tests.
pub(crate) type Trap = (&'static str, &'static [&'static str]);

/// The tests below `at`: functions with `#[test]` above them, and bodies that a list or a test
/// makes tests of.
#[derive(Default)]
struct Found {
    tests: BTreeSet<String>,
    bodies: BTreeSet<String>,
    /// What stands in the lists of bodies.
    listed: BTreeSet<String>,
}

fn word(l: &str) -> String {
    l.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

impl Found {
    fn read(&mut self, at: &Path) {
        if at.is_dir() {
            for entry in fs::read_dir(at).unwrap() {
                self.read(&entry.unwrap().path());
            }
            return;
        }
        let text = fs::read_to_string(at).unwrap_or_else(|e| panic!("{}: {e}", at.display()));
        let mut is_list = at.ends_with("list.rs");
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            if is_list {
                self.listed
                    .extend(line.split(|c: char| !c.is_alphanumeric() && c != '_').map(word));
            }
            is_list = at.ends_with("list.rs") || line == "bodies! {" || is_list && line != "}";
            let generic = |l: &&str| l.contains("A: Arm<H>>(") || l.contains("<M: Model>");
            if let Some(l) = line.strip_prefix("pub fn ").filter(generic) {
                self.bodies.insert(word(l));
            } else if let Some(l) = line.strip_prefix("fn ").filter(|_| is_test) {
                self.tests.insert(word(l));
            }
            is_test = line == "#[test]" || is_test && line.starts_with("#[");
        }
    }

    /// Whether it is run: as a test, or as a body that is in a list.
    fn has(&self, name: &str) -> bool {
        self.tests.contains(name) || self.bodies.contains(name) && self.listed.contains(name)
    }
}

/// Fails if a trap has no test, or one that is not to be found in `sources` (below `crates`); or if
/// it is there twice.
pub(crate) fn hold(traps: &[Trap], sources: &[&str]) {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Found::default();
    for source in sources {
        found.read(&crates.join(source));
    }
    let mut seen = BTreeMap::new();
    for (trap, tests) in traps {
        assert!(!tests.is_empty(), "{trap}: no test");
        assert!(seen.insert(trap, tests).is_none(), "{trap}: twice");
        for t in *tests {
            assert!(found.has(t), "{trap}: there is no test {t}");
        }
    }
}
