//! The inputs of each packed corpus, which the fuzzer found, run through the body of their target.

use doorbell_hostile::fuzz::{TARGETS, files};
use std::thread;

/// Targets whose bodies are in `crates/serve`, whose tests replay their corpora.
const ELSEWHERE: [&str; 2] = ["inputs", "serve_clients"];

#[test]
fn corpora_run_through_their_bodies() {
    let names: Vec<_> =
        files::corpora().into_iter().filter(|n| !ELSEWHERE.contains(&n.as_str())).collect();
    assert!(!names.is_empty(), "the tree has corpora");
    thread::scope(|all| {
        for name in &names {
            let target = TARGETS.iter().find(|t| t.name == name);
            let target = target.unwrap_or_else(|| panic!("{name}: a corpus without a body"));
            all.spawn(move || {
                let n = files::replay(target.name, target.attack);
                println!("{name}: {n} inputs");
                assert!(n > 0, "{name}: no input");
            });
        }
    });
}
