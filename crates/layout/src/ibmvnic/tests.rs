use super::*;
use core::mem::offset_of;

#[test]
fn query_and_control_of_ip_offload_have_address_and_length_the_other_way_round() {
    assert_eq!((offset_of!(LengthAddress, len), offset_of!(LengthAddress, ioba)), (4, 8));
    assert_eq!((offset_of!(AddressLength, ioba), offset_of!(AddressLength, len)), (4, 8));
}

#[test]
fn return_codes_are_at_offset_12() {
    let at = [
        offset_of!(Message, rc),
        offset_of!(Capability, rc),
        offset_of!(PhysParms, rc),
        offset_of!(ChangeMac, rc),
        offset_of!(MulticastCtrl, rc),
        offset_of!(QueryMap, rc),
        offset_of!(RequestMap, rc),
    ];
    assert_eq!(at, [12; 7]);
    assert_eq!((offset_of!(Login, ioba), offset_of!(Login, len)), (8, 12));
    assert_eq!(offset_of!(ErrorIndication, error_cause), 12);
}

#[test]
fn descriptors_lie_as_linux_has_them() {
    assert_eq!(
        (offset_of!(Tx, mss), offset_of!(Tx, correlator), offset_of!(Tx, vlan_id)),
        (6, 12, 16)
    );
    assert_eq!(
        (offset_of!(Tx, dma_reg), offset_of!(Tx, sge_len), offset_of!(Tx, ioba)),
        (18, 20, 24)
    );
    assert_eq!((offset_of!(Hdr, l3_len), offset_of!(Hdr, flag), offset_of!(Hdr, data)), (4, 7, 8));
    assert_eq!((offset_of!(TxComp, rcs), offset_of!(TxComp, correlators)), (2, 12));
    assert_eq!(
        (offset_of!(RxComp, correlator), offset_of!(RxComp, vlan_tci), offset_of!(RxComp, rc)),
        (8, 16, 18)
    );
    assert_eq!(
        (offset_of!(RxAdd, correlator), offset_of!(RxAdd, ioba), offset_of!(RxAdd, map_id)),
        (8, 16, 20)
    );
}

#[test]
fn offload_buffers_lie_as_linux_has_them() {
    assert_eq!(
        (offset_of!(QueryIpOffload, can), offset_of!(QueryIpOffload, max_ipv4_header_size)),
        (8, 32)
    );
    let large = (
        offset_of!(QueryIpOffload, max_large_tx_size),
        offset_of!(QueryIpOffload, max_large_rx_size),
    );
    assert_eq!(large, (40, 44));
    assert_eq!(
        (offset_of!(ControlIpOffload, bad_packet_rx), offset_of!(ControlIpOffload, large_rx)),
        (16, 17)
    );
}

#[test]
fn all_numbers_are_big_endian() {
    let query = Capability {
        capability: U16::new(0x0102),
        number: U64::new(0x0304_0506_0708_090a),
        ..Capability::default()
    };
    assert_eq!(query.bytes(), [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 0, 0]);
    let login =
        Login { ioba: U32::new(0x0102_0304), len: U32::new(0x0506_0708), ..Login::default() };
    assert_eq!(login.bytes()[8..], [1, 2, 3, 4, 5, 6, 7, 8]);
    let size =
        VpdSize { len: U64::new(0x0102_0304_0506_0708), rc: Rc::new(9), ..VpdSize::default() };
    assert_eq!(size.bytes(), [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 0, 0]);
    let sent = Tx {
        first: 1,
        kind: 2,
        n_crq_elem: 3,
        n_sge: 4,
        flags1: 5,
        flags2: 6,
        mss: U16::new(0x0708),
        reserved: [0; 4],
        correlator: U32::new(0x0d0e_0f10),
        vlan_id: U16::new(0x1112),
        dma_reg: U16::new(0x1314),
        sge_len: U32::new(0x1516_1718),
        ioba: U64::new(0x191a_1b1c_1d1e_1f20),
    };
    let mut counting: [u8; 32] = core::array::from_fn(|i| i as u8 + 1);
    counting[8..12].fill(0);
    assert_eq!(sent.bytes(), counting);
    let mut done = TxComp { num_comps: 5, ..TxComp::default() };
    done.rcs[1] = U16::new(0x0102);
    done.correlators[4] = U32::new(0x8000_0003);
    assert_eq!((&done.bytes()[4..6], &done.bytes()[28..]), (&[1, 2][..], &[0x80, 0, 0, 3][..]));
    let came = RxComp {
        off_frame_data: U16::new(0x0102),
        len: U32::new(0x0304_0506),
        correlator: U64::new(7),
        vlan_tci: U16::new(0x0809),
        rc: U16::new(0x0a0b),
        ..RxComp::default()
    };
    let first = [0, 0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 7, 8, 9, 10, 11];
    assert_eq!(came.bytes()[..20], first);
    let l3 = Hdr { l3_len: U16::new(0x0102), ..Hdr::default() };
    assert_eq!(l3.bytes()[4..6], [1, 2]);
}

#[test]
fn a_buffers_length_has_24_bits_and_a_correlator_all_of_its_own() {
    let d = RxAdd::new(0x8000_0000_0000_0001, 7, 0x20, 0x12_3456);
    assert_eq!(d.len(), 0x12_3456);
    assert_eq!(d.bytes()[8..24], [0x80, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0x20, 7, 0x12, 0x34, 0x56]);
    assert_eq!(RxAdd::of(d.bytes()), d);
}
