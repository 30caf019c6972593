use super::*;
use doorbell_packet::segment::prepare_gso;

fn large(payload: usize) -> Vec<u8> {
    let mut f = vec![0; 54 + payload];
    f[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    f[16..18].copy_from_slice(&((40 + payload) as u16).to_be_bytes());
    f[22..24].copy_from_slice(&[64, 6]);
    f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    (f[46], f[47]) = (0x50, 0x10);
    f
}

#[test]
fn a_large_send_is_told_both_ways_alike() {
    let mut f = large(10_000);
    let todo = prepare_gso(&mut f, 1448).unwrap();
    let h = header(&todo, &f);
    assert_eq!(super::todo(&h, &f), Some(todo));
    // A sender's hint of the headers' length is not believed.
    assert_eq!(super::todo(&VnetHeader { hdr_len: 3.into(), ..h }, &f), Some(todo));
    f[47] |= CWR;
    assert_eq!(header(&todo, &f).gso_type, VnetHeader::GSO_TCPV4 | VnetHeader::GSO_ECN);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut f = large(10_000);
    let h = header(&prepare_gso(&mut f, 1448).unwrap(), &f);
    for wrong in [
        VnetHeader { flags: 0, ..h },
        VnetHeader { gso_size: 0.into(), ..h },
        VnetHeader { gso_type: VnetHeader::GSO_UDP_L4, ..h },
    ] {
        assert_eq!(todo(&wrong, &f), None, "{wrong:?}");
    }
    assert_eq!(todo(&h, &f[..20]), None);
    assert_eq!(todo(&h, &f[..1502]).unwrap().gso, None, "one segment");
    assert_eq!(todo(&VnetHeader::default(), &f), Some(OffloadRequest::NONE));
}
