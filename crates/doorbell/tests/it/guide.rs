//! Each command of the chapters "A driver in an hour" and "A device in an afternoon" does what it
//! is shown for.

use crate::{new_device, new_driver};
use doorbell::Registry;
use std::path::Path;
use std::sync::Arc;

/// Returns the commands of a chapter's `sh` blocks on the crate that it writes, by their arguments.
fn commands(chapter: &str, name: &str) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let text = std::fs::read_to_string(root.join(chapter)).unwrap();
    let blocks = text.split("```sh\n").skip(1).map(|b| b.split("```").next().unwrap());
    let lines = blocks.flat_map(str::lines).flat_map(|l| l.split(" && "));
    let own = |line: &str| {
        let line = line.split("  #").next().unwrap().trim();
        let args =
            ["mynic ", "cargo run --release -- "].iter().find_map(|p| line.strip_prefix(p))?;
        Some(args.replace(name, "mynic"))
    };
    lines.filter_map(own).collect()
}

/// Runs the commands, one after another, with their files in one directory.
fn runs(chapter: &str, name: &str, registry: &'static Registry, example: &str, least: usize) {
    let dir = tempfile::tempdir().unwrap();
    let budget = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(example);
    std::fs::copy(budget.join("budget.toml"), dir.path().join("budget.toml")).unwrap();
    let all = commands(chapter, name);
    assert!(all.len() >= least, "{all:?}");
    for line in all {
        // `new` writes no file over another.
        if line.starts_with("new ") {
            std::fs::remove_file(dir.path().join("budget.toml")).unwrap();
        }
        let is_file = |word: &str| [".toml", ".pcapng", ".json"].iter().any(|e| word.ends_with(e));
        let placed = |word: &str| match is_file(word) {
            true => dir.path().join(word).to_str().unwrap().to_owned(),
            false => word.to_owned(),
        };
        let args: Vec<String> = line.split_whitespace().map(placed).collect();
        let (code, text) =
            doorbell::call(registry, &args, &Arc::default()).unwrap_or_else(|e| (e.code, e.what));
        assert_eq!(code, 0, "{line}: {text}");
    }
}

#[test]
fn the_hour_of_a_driver_runs() {
    runs("writing-a-driver.md", "fast-nic", &new_driver::REGISTRY, "driver", 9);
}

#[test]
fn the_afternoon_of_a_device_runs() {
    runs("writing-a-device.md", "fast-nic", &new_device::REGISTRY, "device", 5);
}
