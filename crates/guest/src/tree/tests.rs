use super::*;
use proptest::prelude::*;

fn machine() -> Vec<u8> {
    let pcie = Node::default()
        .with("compatible", string("pci-host-ecam-generic"))
        .with("phandle", cells(&[7]));
    write(&Node::default().with("model", string("x")).below("pcie@10000000", pcie))
}

#[test]
fn the_device_is_below_the_pci_bus_with_handles_of_its_own() {
    let blob = with_axi_ethernet(&machine(), [2, 0, 0, 0, 0, 9], 8).unwrap();
    let mut root = read(&blob).unwrap();
    assert_eq!(root.last_handle(), 7 + 4);
    let nic = root.find("pci1de4,1").unwrap();
    assert_eq!(nic.property("reg").unwrap()[..4], cells(&[8 << 11])[..]);
    let ethernet = nic.find("xlnx,axi-ethernet-1.00.a").unwrap();
    assert_eq!(ethernet.property("local-mac-address"), Some(&[2, 0, 0, 0, 0, 9][..]));
    let dma = ethernet.property("axistream-connected").unwrap().to_vec();
    assert_eq!(root.find("xlnx,eth-dma").unwrap().property("phandle"), Some(&dma[..]));
}

#[test]
fn a_blob_comes_back_as_it_was_and_its_size_is_in_its_head() {
    let blob = machine();
    assert_eq!(write(&read(&blob).unwrap()), blob);
    assert_eq!(blob[4..8], (blob.len() as u32).to_be_bytes());
}

proptest! {
    #[test]
    fn a_damaged_blob_is_no_panic(at in 0usize..200, byte in any::<u8>(), cut in 0usize..300) {
        let mut blob = machine();
        blob.truncate(cut.max(1));
        let at = at % blob.len();
        blob[at] = byte;
        let _ = with_axi_ethernet(&blob, [0; 6], 8);
    }
}
