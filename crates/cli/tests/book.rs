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
