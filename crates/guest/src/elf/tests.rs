use super::*;

#[test]
fn a_program_names_its_libraries_in_order_and_a_text_is_refused() {
    let own = std::fs::read("/proc/self/exe").unwrap();
    let libraries = libraries(&own).unwrap();
    assert!(libraries.iter().any(|l| l == "libc.so.6"), "{libraries:?}");
    assert!(super::libraries(b"#!/bin/sh\n").is_err());
    assert!(modinfo(&own, "depends").unwrap().is_empty());
}

#[test]
fn a_file_that_ends_early_is_no_panic() {
    let own = std::fs::read("/proc/self/exe").unwrap();
    for n in (0..4096).step_by(7) {
        let _ = libraries(&own[..n]);
        let _ = modinfo(&own[..n], "depends");
    }
}
