//! Lets the program export the functions of doorbell.h, for drivers that it loads.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-Wl,--export-dynamic-symbol=db_*");
}
