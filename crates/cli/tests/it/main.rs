//! Integration tests, one program.

mod advise;
mod archive;
mod book;
mod c_driver;
mod captures;
mod check;
mod commands;
mod common;
mod faults;
mod files;
mod fit;
mod guest;
mod help;
mod hostile;
mod input;
mod live;
mod packages;
mod points;
mod rank;
mod readme;
mod report;
mod results;
mod serve;
mod signals;
mod soak;
mod trace;

#[test]
fn no_file_is_forgotten() {
    assert_eq!(doorbell_testkit::forgotten(env!("CARGO_MANIFEST_DIR")), [""; 0]);
}
