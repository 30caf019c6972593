//! Every register that opening a controller sets, and the filters.

use super::*;
use crate::{Alarm, Filter};
use doorbell_layout::e1000::reg::stat;

/// Returns the values last written to registers.
fn last<const N: usize>(h: &Host, registers: [u32; N]) -> [u32; N] {
    registers.map(|r| h.device.last(r).unwrap_or_else(|| panic!("{r:#x} was not written")))
}

#[test]
fn transmission_is_set_up_as_linux_does() {
    let (h, _) = open();
    let registers = [reg::TIPG, reg::TIDV, reg::TADV, reg::TXDCTL, reg::TCTL];
    // IPGT 8, IPGR1 8, IPGR2 6; WTHRESH 1 in descriptors; EN, PSP, CT 15, COLD 63, RTLC.
    assert_eq!(last(&h, registers), [0x0060_2008, 8, 32, 0x0101_0000, 0x0103_f0fa]);
}

#[test]
fn addresses_and_pause_frames_are_set_up() {
    let (h, _) = open();
    assert_eq!(last(&h, [reg::RAL0, reg::RAH0]), [0x3322_1100, 0x8000_5544]);
    for i in 1..reg::RAR_LEN {
        assert_eq!(last(&h, [reg::RAL0 + 8 * i, reg::RAH0 + 8 * i]), [0, 0]);
    }
    assert_eq!(last(&h, [reg::FCT, reg::FCAH, reg::FCAL]), [0x8808, 0x0100, 0x00c2_8001]);
    // Nine tenths of 48 KiB, in units of 8 bytes; XON 8 bytes below.
    let registers = [reg::PBA, reg::FCTTV, reg::FCRTH, reg::FCRTL];
    assert_eq!(last(&h, registers), [48, 0xffff, 0xacc8, 0x8000_acc0]);
    let (h, _) = open_with(Part::I82540, Bus::Pci, |c| c.flow_control = false);
    assert_eq!(last(&h, [reg::FCRTH, reg::FCRTL]), [0, 0]);
    // A frame of 16110 bytes with its FCS must still fit above the mark.
    let (h, _) = open_with(Part::I82540, Bus::Pci, |c| {
        (c.max_frame, c.rx_buffer) = (16_110, 16_384);
    });
    let high = (32 * 1024 - 16_114) & 0xfff8;
    assert_eq!(last(&h, [reg::PBA, reg::FCRTH]), [32, high]);
}

#[test]
fn ctrl_keeps_duplex_and_loses_what_was_forced() {
    let inherited = l::CTRL_FD | l::CTRL_FRCSPD | l::CTRL_FRCDPX | l::CTRL_LRST;
    let offloads = l::CTRL_VME | l::CTRL_RFCE | l::CTRL_TFCE;
    for (on, expected) in [(true, offloads), (false, 0)] {
        let mut board = Board::new();
        board.regs[(reg::CTRL / 4) as usize] = inherited | offloads;
        let mut h = DirectHost::new(16 << 20, board);
        let mut c = Config { eeprom: Eeprom::Eerd, ..Config::new(Part::I82540, Bus::Pci) };
        (c.vlan, c.flow_control) = (on, on);
        E1000::open(&mut h, &c).unwrap();
        let set = l::CTRL_FD | l::CTRL_SLU | l::CTRL_ASDE;
        assert_eq!(last(&h, [reg::CTRL]), [set | expected]);
    }
}

#[test]
fn the_packet_memory_leaves_room_for_two_frames_to_send() {
    for (part, max_frame, kib) in [
        (Part::I82540, 1514, 48),
        (Part::I82540, 1515, 48),
        (Part::I82540, 8176, 48),
        (Part::I82540, 8177, 47),
        (Part::I82540, 9014, 46),
        (Part::I82545, 9014, 40),
        (Part::I82540, 16_110, 32),
    ] {
        let c = Config { max_frame, ..Config::new(part, Bus::Pci) };
        assert_eq!(super::super::hw::packet_memory(&c), kib, "{max_frame} bytes");
    }
}

#[test]
fn receive_buffers_have_their_size_in_rctl() {
    let fixed = l::RCTL_EN | l::RCTL_BAM | 2 << l::RCTL_RDMTS_SHIFT;
    let sizes = [2048, 1024, 512, 256].into_iter().zip(0u32..);
    let large = [16_384, 8192, 4096].into_iter().zip(1..);
    for (bytes, size, extended) in
        sizes.map(|(b, s)| (b, s, 0)).chain(large.map(|(b, s)| (b, s, l::RCTL_BSEX)))
    {
        let (h, _) = open_with(Part::I82540, Bus::Pci, |c| (c.rx_buffer, c.rx_low) = (bytes, 2));
        let expected = fixed | extended | size << l::RCTL_SZ_SHIFT;
        assert_eq!(last(&h, [reg::RCTL]), [expected], "{bytes}");
    }
    let (h, _) = open_with(Part::I82540, Bus::Pci, |c| {
        (c.max_frame, c.rx_low, c.rx_checksum) = (9014, 0, false);
    });
    let long = l::RCTL_EN | l::RCTL_BAM | l::RCTL_LPE;
    assert_eq!(last(&h, [reg::RCTL, reg::RXCSUM]), [long, 0]);
    let (h, _) = open();
    assert_eq!(last(&h, [reg::RXCSUM, reg::RDTR, reg::RADV]), [l::RXCSUM_TUOFL, 0, 8]);
}

#[test]
fn the_phy_is_told_to_negotiate_everything() {
    let (h, _) = open();
    let written: Vec<u32> = (h.device.writes.iter())
        .filter(|w| w.0 == reg::MDIC && w.1 & l::MDIC_OP_WRITE != 0)
        .map(|w| w.1 & !l::MDIC_OP_WRITE)
        .collect();
    // PHY 1, registers 4, 9 and 0: 10 and 100 Mbit/s with symmetric pause, 1000 full duplex,
    // negotiate and restart.
    assert_eq!(written, [0x0024_05e1, 0x0029_0200, 0x0020_1200]);
}

#[test]
fn an_82544_reloads_its_eeprom_and_others_stop_arp() {
    for (part, older) in [(Part::I82544, true), (Part::I82540, false)] {
        let mut board = Board::new();
        board.regs[(reg::MANC / 4) as usize] = !0;
        let mut h = DirectHost::new(16 << 20, board);
        let c = Config { eeprom: Eeprom::Eerd, ..Config::new(part, Bus::Pci) };
        E1000::open(&mut h, &c).unwrap();
        let reload = older.then_some(l::CTRL_EXT_EE_RST);
        assert_eq!(h.device.last(reg::CTRL_EXT), reload);
        let manc = (!older).then_some(!l::MANC_ARP_EN);
        assert_eq!(h.device.last(reg::MANC), manc);
        for r in [reg::TADV, reg::RADV, reg::ITR] {
            assert_eq!(h.device.last(r).is_none(), older, "{r:#x}");
        }
    }
}

#[test]
fn the_filter_takes_fifteen_groups_exactly_and_hashes_the_rest() {
    let (mut h, mut nic) = open();
    let kept = last(&h, [reg::RCTL])[0];
    let groups: Vec<[u8; 6]> = (0..17).map(|i| [1, 0, 0x5e, i, 0xa7, 0x3c]).collect();
    nic.set_filter(&mut h, &Filter { multicast: groups.to_vec(), ..Filter::default() });
    assert_eq!(last(&h, [reg::RCTL]), [kept]);
    for i in 1..reg::RAR_LEN {
        let low = u32::from_le_bytes([1, 0, 0x5e, i as u8 - 1]);
        assert_eq!(last(&h, [reg::RAL0 + 8 * i, reg::RAH0 + 8 * i]), [low, 0x8000_3ca7]);
    }
    // Bits 36 to 47 of the address, 0x3ca: word 30, bit 10.
    for i in 0..reg::MTA_LEN {
        assert_eq!(last(&h, [reg::MTA + 4 * i]), [u32::from(i == 30) << 10], "word {i}");
    }
    let every = Filter { promiscuous: true, ..Filter::default() };
    nic.set_filter(&mut h, &every);
    assert_eq!(last(&h, [reg::RCTL]), [kept | l::RCTL_UPE | l::RCTL_MPE]);
    nic.set_filter(&mut h, &Filter { all_multicast: true, ..Filter::default() });
    assert_eq!(last(&h, [reg::RCTL]), [kept | l::RCTL_MPE]);
    nic.set_filter(&mut h, &Filter::default());
    assert_eq!(last(&h, [reg::RCTL, reg::RAL0 + 8, reg::MTA + 120]), [kept, 0, 0]);
}

#[test]
fn vlans_are_bits_of_the_table() {
    let (mut h, mut nic) = open();
    let kept = last(&h, [reg::RCTL])[0];
    h.device.regs[(reg::RCTL / 4) as usize] |= l::RCTL_CFIEN;
    nic.set_vlans(&mut h, Some(&[5, 7, 0x123, 0xfff]));
    for i in 0..reg::VFTA_LEN {
        let bits = match i {
            0 => 1 << 5 | 1 << 7,
            9 => 1 << 3,
            127 => 1 << 31,
            _ => 0,
        };
        assert_eq!(last(&h, [reg::VFTA + 4 * i]), [bits], "word {i}");
    }
    assert_eq!(last(&h, [reg::RCTL]), [kept | l::RCTL_VFE]);
    nic.set_vlans(&mut h, None);
    assert_eq!(last(&h, [reg::RCTL, reg::VFTA]), [kept, 0]);
}

#[test]
fn filter_and_vlans_outlive_the_drivers_own_resets() {
    let (mut h, mut nic) = open();
    nic.work(&mut h);
    let multicast = (0..17).map(|i| [1, 0, 0x5e, i, 0xa7, 0x3c]).collect();
    nic.set_filter(&mut h, &Filter { promiscuous: true, multicast, ..Filter::default() });
    nic.set_vlans(&mut h, Some(&[5]));
    let registers = [reg::RCTL, reg::RAL0 + 8, reg::RAH0 + 8, reg::MTA + 120, reg::VFTA];
    let set = last(&h, registers);
    for why in [Alarm::TxTimeout, Alarm::IoError] {
        h.device.writes.clear();
        nic.work(&mut h);
        assert_eq!(nic.alarm(&mut h, why), Irq::Poll);
        assert_eq!(last(&h, registers), set, "{why:?}");
    }
    // A change of one leaves the other.
    nic.set_filter(&mut h, &Filter::default());
    assert_eq!(last(&h, [reg::RCTL]), [set[0] & !(l::RCTL_UPE | l::RCTL_MPE)]);
    assert_ne!(last(&h, [reg::RCTL])[0] & l::RCTL_VFE, 0);
}

#[test]
fn the_controller_s_counts_add_up() {
    let (mut h, mut nic) = open();
    for (r, v) in [
        (stat::GPRC, 7),
        (stat::GPTC, 9),
        (stat::GORCL, 0x8000_0001),
        (stat::GORCH, 2),
        (stat::GOTCL, 3),
        (stat::GOTCH, 1),
    ] {
        h.device.regs[(r / 4) as usize] = v;
    }
    // These registers do not clear themselves, so the second reading adds the same again.
    for n in 1..=2 {
        let c = nic.hardware(&mut h);
        assert_eq!((c.rx_packets, c.tx_packets), (7 * n, 9 * n));
        assert_eq!((c.rx_bytes, c.tx_bytes), (0x2_8000_0001 * n, 0x1_0000_0003 * n));
    }
}
