use super::*;

const OWN: [u8; 6] = [0x02, 0x11, 0x22, 0x33, 0x44, 0x55];
const GROUP: [u8; 6] = [0x01, 0x00, 0x5e, 0x12, 0xa7, 0x3c];

fn frame(to: [u8; 6]) -> [u8; 60] {
    let mut f = [0; 60];
    f[..6].copy_from_slice(&to);
    f
}

fn set(f: &mut Filter, low: u32, a: [u8; 6]) {
    assert!(f.write(low, u32::from_le_bytes([a[0], a[1], a[2], a[3]])));
    assert!(f.write(low + 4, u32::from_le_bytes([a[4], a[5], 0, 0])));
}

#[test]
fn the_station_address_is_bytes_little_endian() {
    let mut f = Filter::new();
    assert!(!f.pass(0, &frame(OWN)));
    set(&mut f, mac::UAW0, OWN);
    assert!(f.pass(0, &frame(OWN)));
    assert!(!f.pass(0, &frame([0x02, 0x11, 0x22, 0x33, 0x44, 0x56])));
    f.write(mac::UAW1, 0xabcd_0000 | 0x5544);
    assert!(f.pass(0, &frame(OWN)), "the upper half of UAW1 is not the address's");
}

#[test]
fn broadcast_and_multicast_are_rejected_apart() {
    let mut f = Filter::new();
    assert!(f.pass(0, &frame([0xff; 6])));
    assert!(!f.pass(raf::BCAST_REJECT, &frame([0xff; 6])));
    assert!(f.pass(raf::MCAST_REJECT, &frame([0xff; 6])));
    assert!(!f.pass(0, &frame(GROUP)), "no entry, no table");
    f.write(mac::FMI, fmi::PROMISCUOUS);
    for a in [OWN, GROUP, [0xff; 6]] {
        assert!(f.pass(raf::BCAST_REJECT | raf::MCAST_REJECT, &frame(a)));
    }
}

#[test]
fn an_entry_matches_when_it_is_on() {
    let mut f = Filter::new();
    f.write(mac::FMI, 3);
    set(&mut f, mac::AF0, GROUP);
    assert!(!f.pass(0, &frame(GROUP)));
    f.write(mac::FFE, 1);
    assert!(f.pass(0, &frame(GROUP)));
    f.write(mac::FMI, 2);
    assert_eq!(f.read(mac::FFE), Some(0), "an entry of its own");
    f.write(mac::FMI, 200);
    assert!(f.write(mac::FFE, 1), "there is none");
    assert_eq!(f.read(mac::FFE), Some(0));
}

#[test]
fn a_mask_of_the_group_bit_takes_all_multicast() {
    let mut f = Filter::new();
    for (r, v) in [(mac::AF0, 1), (mac::AF1, 0), (mac::AM0, 1), (mac::AM1, 0), (mac::FFE, 1)] {
        f.write(r, v);
    }
    assert!(f.pass(0, &frame(GROUP)) && !f.pass(0, &frame(OWN)));
}

#[test]
fn the_table_has_a_word_for_each_of_15_bits() {
    let mut f = Filter::new();
    let at = (0xa73c & 0x7fff) * 4;
    f.write_table(at, 1);
    assert_eq!(f.read_table(at), 1);
    assert!(!f.pass(0, &frame(GROUP)), "not without EMULTIFLTRENBL");
    assert!(f.pass(raf::EXTENDED_MCAST, &frame(GROUP)));
    assert!(!f.pass(raf::EXTENDED_MCAST | raf::MCAST_REJECT, &frame(GROUP)));
    f.write_table(at, 0);
    assert!(!f.pass(raf::EXTENDED_MCAST, &frame(GROUP)));
}
