//! Integration tests, one program.

mod custom;
mod own_command;

#[path = "../../../../examples/own_command.rs"]
#[allow(dead_code, reason = "its own program has the entry")]
mod command;
#[path = "../../../../examples/own_device.rs"]
mod own_device;

#[test]
fn no_file_is_forgotten() {
    assert_eq!(doorbell_testkit::forgotten(env!("CARGO_MANIFEST_DIR")), [""; 0]);
}
