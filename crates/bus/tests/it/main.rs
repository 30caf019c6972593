//! Integration tests, one program.

mod axi_bus;
mod hypercalls;
mod interrupts;
mod naive;
mod pci;
mod pci_bus;
mod pcie;
mod polling;
mod tce;
mod timeline;

#[test]
fn no_file_is_forgotten() {
    assert_eq!(doorbell_testkit::forgotten(env!("CARGO_MANIFEST_DIR")), [""; 0]);
}
