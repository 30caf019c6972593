//! Lets the test program load drivers from shared objects, as the command does.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-tests=-Wl,--export-dynamic-symbol=db_*");
}
