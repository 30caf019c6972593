//! The book's pages: each is in its table of contents, and what they point at is there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn pages() -> BTreeSet<String> {
    let names =
        std::fs::read_dir(docs()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    names.filter(|n| n.ends_with(".md")).collect()
}

/// The targets of `[text](target)`, of `[label]: target`, and of `{{#include target}}`.
fn targets(text: &str) -> Vec<&str> {
    let links =
        text.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let includes = text
        .split("{{#include ")
        .skip(1)
        .filter_map(|rest| rest.split_once("}}").map(|(target, _)| target));
    let labels = text.lines().filter(|l| l.starts_with('[')).filter_map(|l| l.split_once("]: "));
    links.chain(includes).chain(labels.map(|(_, target)| target)).collect()
}

#[test]
fn the_table_of_contents_has_every_page_once() {
    let summary = std::fs::read_to_string(docs().join("SUMMARY.md")).unwrap();
    let mut listed = targets(&summary);
    listed.sort_unstable();
    let mut all = pages();
    all.remove("SUMMARY.md");
    assert_eq!(listed, all.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn what_pages_point_at_is_there() {
    let files =
        pages().into_iter().map(|name| docs().join(name)).chain([docs().join("../README.md")]);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        for target in targets(&text) {
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || target.contains("://") {
                continue;
            }
            let there = file.parent().unwrap().join(path);
            assert!(there.exists(), "{}: {target}", file.display());
        }
    }
}

/// The rows of its tables name functions as `crate/file.rs`: `function`, `function`.
#[test]
fn architecture_names_functions_that_exist() {
    let root = docs().join("..");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut found = 0;
    for (before, after) in text.match_indices(".rs`: `").map(|(i, _)| text.split_at(i)) {
        let (krate, file) = before[before.rfind('`').unwrap() + 1..].split_once('/').unwrap();
        let file = root.join(format!("crates/{krate}/src/{file}.rs"));
        let source =
            std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let list = after[".rs`: `".len()..].split("` ").next().unwrap();
        for name in list.split("`, `").map(|n| n.split('`').next().unwrap()) {
            found += 1;
            let is = |end| source.contains(&format!("fn {name}{end}"));
            assert!(is('(') || is('<'), "{}: no function {name}", file.display());
        }
    }
    assert!(found > 50, "{found} functions");
}
