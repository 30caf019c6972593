//! Integration tests, one program.

mod custom;
mod guest;
mod guide;
mod one_page;
mod own_command;
mod own_dma_engine;
mod tcp_stack;
mod trial;
mod zoo;

/// The device that `doorbell new device` writes, with its tests.
#[path = "../../../../examples/device/src/main.rs"]
#[allow(dead_code, reason = "its own program has the entry")]
mod new_device;
/// The driver that `doorbell new driver` writes, with its tests.
#[path = "../../../../examples/driver/src/main.rs"]
#[allow(dead_code, reason = "its own program has the entry")]
mod new_driver;
#[path = "../../../../examples/own_device.rs"]
mod own_device;
/// A DMA engine for a guest.
#[path = "../../../../examples/dma/main.rs"]
#[allow(dead_code, reason = "its own program has the entry")]
mod own_dma;

#[test]
fn no_file_is_forgotten() {
    assert_eq!(doorbell_testkit::forgotten(env!("CARGO_MANIFEST_DIR")), [""; 0]);
}
