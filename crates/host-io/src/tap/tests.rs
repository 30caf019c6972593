use super::*;

#[test]
fn the_header_is_laid_out_as_virtio_says() {
    let h = VnetHeader {
        flags: VnetHeader::NEEDS_CSUM,
        gso_type: VnetHeader::GSO_TCPV6 | VnetHeader::GSO_ECN,
        hdr_len: 0x0102.into(),
        gso_size: 0x0304.into(),
        csum_start: 0x0506.into(),
        csum_offset: 0x0708.into(),
    };
    assert_eq!(h.as_bytes(), [1, 0x84, 2, 1, 4, 3, 6, 5, 8, 7]);
}

#[test]
fn a_name_that_is_too_long_or_has_a_nul_is_refused() {
    assert!(interface_request("fifteen-bytes-1").is_ok());
    for name in ["sixteen-bytes-12", "a\0b"] {
        assert_eq!(
            interface_request(name).err().map(|e| e.kind()),
            Some(io::ErrorKind::InvalidInput),
            "{name}"
        );
    }
}
