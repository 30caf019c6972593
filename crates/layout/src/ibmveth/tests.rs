use super::*;

#[test]
fn a_descriptor_is_one_register() {
    let d = Descriptor::new(Descriptor::LRG_SND | Descriptor::NO_CSUM, 0x12_3456, 0x89ab_cdef);
    assert_eq!(d.0, 0x8612_3456_89ab_cdef);
    assert_eq!((d.is_valid(), d.len(), d.ioba()), (true, 0x12_3456, 0x89ab_cdef));
    assert!(!Descriptor::default().is_valid());
}

#[test]
fn an_entry_is_big_endian() {
    let e = Entry {
        flags: U32::new(Entry::TOGGLE | Entry::VALID | 8),
        length: U32::new(60),
        correlator: U64::new(1),
    };
    assert_eq!(e.bytes(), [0xc0, 0, 0, 8, 0, 0, 0, 60, 0, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_mac_is_the_low_48_bits() {
    let a = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
    assert_eq!(mac(a), 0x5254_0012_3456);
    assert_eq!(mac_bytes(mac(a)), a);
}

#[test]
fn a_page_holds_509_buffers_and_the_drop_counter() {
    assert_eq!((buffer_list::RX_NO_BUFFER, buffer_list::MAX), (4088, 509));
}
