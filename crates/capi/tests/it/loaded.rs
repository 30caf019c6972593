//! A driver in a shared object, which this process loads as the command does.

use crate::command::same_counts;
use crate::rust::REGISTRY;
use crate::shared;
use doorbell::DOORBELL;
use serde_json::Value;
use std::sync::Arc;

/// Makes a call of the command, and returns its exit code and result.
fn call(registry: &'static doorbell::Registry, line: &str) -> (u8, Value) {
    let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
    let (code, text) = doorbell::call(registry, &args, &Arc::default()).unwrap();
    (code, serde_json::from_str(&text).unwrap())
}

/// A process has one driver, so this is one test.
#[test]
fn a_loaded_driver_counts_as_in_rust() {
    let dir = tempfile::tempdir().unwrap();
    let object = shared(dir.path(), "../../examples/c/mynic.c", &[]);
    let own = format!("--driver {} --card 82540em", object.display());
    let rest = "--set traffic.packets=500 --no-limits --format json";
    // Without a scenario it is the first, and on the other card.
    let (code, loaded) = call(&DOORBELL, &format!("run {own} {rest}"));
    assert_eq!((code, &loaded["system"]), (0, &"mynic".into()));
    let (code, of_rust) = call(&REGISTRY, &format!("run mynic-send {rest}"));
    assert_eq!(code, 0);
    same_counts(&loaded, &of_rust, rest);
    // A second driver is refused: the cards differ.
    let other = format!("run --driver {} --card 82544gc", object.display());
    let args: Vec<String> = other.split(' ').map(str::to_owned).collect();
    let refused = doorbell::call(&DOORBELL, &args, &Arc::default()).unwrap_err();
    assert!(refused.what.ends_with("a process has one driver"), "{}", refused.what);
    assert_eq!(refused.code, 2);
}
