use super::*;

const BROADCAST: [u8; 6] = [0xff; 6];

fn frame(to: [u8; 6]) -> [u8; 60] {
    let mut f = [0; 60];
    f[..6].copy_from_slice(&to);
    f[6] = 2;
    f
}

#[test]
fn exact_addresses_need_their_valid_bit() {
    let mut f = Filter::new();
    let mac = [2, 1, 2, 3, 4, 5];
    assert_eq!(f.pass(0, &frame(mac), None), Pass::No);
    f.set_address(mac);
    assert_eq!(f.station(), mac);
    assert_eq!(f.pass(0, &frame(mac), None), Pass::Exact);
    assert_eq!(f.pass(0, &frame([2, 1, 2, 3, 4, 6]), None), Pass::No);
    f.addresses[0][1] &= !RAH_AV;
    assert_eq!(f.pass(0, &frame(mac), None), Pass::No);
    assert_eq!(f.pass(RCTL_UPE, &frame(mac), None), Pass::Inexact);
}

#[test]
fn broadcast_is_its_own_switch_and_a_multicast() {
    let f = Filter::new();
    assert_eq!(f.pass(RCTL_UPE, &frame(BROADCAST), None), Pass::No);
    assert_eq!(f.pass(RCTL_BAM, &frame(BROADCAST), None), Pass::Exact);
    assert_eq!(f.pass(RCTL_MPE, &frame(BROADCAST), None), Pass::Inexact);
    assert_eq!(f.pass(RCTL_BAM, &frame([1, 0, 0x5e, 0, 0, 1]), None), Pass::No);
}

#[test]
fn the_multicast_offset_chooses_the_bits_as_the_driver_computes_them() {
    let mac = [0x01, 0x00, 0x5e, 0x12, 0xa7, 0x3c];
    // e1000_hash_mc_addr.
    let (a, b) = (u32::from(mac[4]), u32::from(mac[5]));
    let hashes = [a >> 4 | b << 4, a >> 3 | b << 5, a >> 2 | b << 6, a | b << 8];
    for (mo, hash) in hashes.into_iter().enumerate() {
        let mut f = Filter::new();
        let rctl = (mo as u32) << RCTL_MO_SHIFT;
        assert_eq!(f.pass(rctl, &frame(mac), None), Pass::No);
        f.mta[(hash >> 5 & 0x7f) as usize] = 1 << (hash & 31);
        assert_eq!(f.pass(rctl, &frame(mac), None), Pass::Inexact, "MO {mo}");
    }
}

#[test]
fn the_vlan_filter_holds_in_promiscuous_mode_too() {
    let mut f = Filter::new();
    let rctl = RCTL_UPE | RCTL_VFE;
    assert_eq!(f.pass(rctl, &frame([2; 6]), None), Pass::Inexact, "untagged passes");
    assert_eq!(f.pass(rctl, &frame([2; 6]), Some(0x2005)), Pass::No);
    f.vfta[0] = 1 << 5;
    assert_eq!(f.pass(rctl, &frame([2; 6]), Some(0x2005)), Pass::Inexact);
    assert_eq!(f.pass(rctl, &frame([2; 6]), Some(0x2006)), Pass::No);
    assert_eq!(f.pass(rctl | RCTL_CFIEN, &frame([2; 6]), Some(0x3005)), Pass::No);
    assert_eq!(f.pass(rctl | RCTL_CFIEN | RCTL_CFI, &frame([2; 6]), Some(0x3005)), Pass::Inexact);
}

#[test]
fn the_packet_checksum_starts_at_pcss() {
    let mut f = [0; 60];
    f[20..24].copy_from_slice(&[1, 2, 3, 4]);
    assert_eq!(checksums(&f, 14), (Rx::IXSM, 0, 0x0406));
    assert_eq!(checksums(&f, 22), (Rx::IXSM, 0, 0x0304));
    assert_eq!(checksums(&f, 255).2, 0);
}
