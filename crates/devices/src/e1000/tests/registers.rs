use super::super::{Config, Slot, Speed};
use super::{Bench, frame, ns};
use doorbell_hal::{Device, Reg, Span, Time};
use doorbell_layout::e1000::*;

const ALL: [Config; 3] = [Config::I82540EM, Config::I82544GC, Config::I82545EM];

#[test]
fn a_write_keeps_the_bits_that_exist() {
    // What ethtool's register test expects.
    let pairs = (0..16).map(|i| (reg::RAH0 + 8 * i, 0x8003_ffff));
    let table = (0..128).map(|i| (reg::MTA + 4 * i, !0));
    let masks = [
        (reg::FCAL, !0),
        (reg::FCAH, 0xffff),
        (reg::FCT, 0xffff),
        (reg::VET, 0xffff),
        (reg::RDTR, 0xffff),
        (reg::RDBAH, !0),
        (reg::RDLEN, 0x000f_ff80),
        (reg::RDH, 0xffff),
        (reg::RDT, 0xffff),
        (reg::FCRTH, 0xfff8),
        (reg::FCTTV, 0xffff),
        (reg::TIPG, 0x3fff_ffff),
        (reg::TDBAH, !0),
        (reg::TDLEN, 0x000f_ff80),
        (reg::RDBAL, 0xffff_fff0),
        (reg::TXCW, 0xc000_ffff),
        (reg::TDBAL, 0xffff_fff0),
        (reg::TIDV, 0xffff),
    ];
    let mut b = Bench::new(Config::I82540EM);
    for (r, mask) in masks.into_iter().chain(pairs).chain(table) {
        for pattern in [0x5a5a_5a5a, 0xa5a5_a5a5, 0, !0] {
            b.write(r, pattern);
            assert_eq!(b.read(r), pattern & mask, "{r:#x}");
        }
    }
    for (r, mask) in [(reg::RCTL, 0x06c3_b33e), (reg::TCTL, !0)] {
        b.write(r, mask);
        assert_eq!(b.read(r) & mask, mask);
        b.write(r, 0);
        assert_eq!(b.read(r), 0);
    }
    let before = b.read(reg::STATUS);
    b.write(reg::STATUS, 0xffff_f833);
    assert_eq!(b.read(reg::STATUS), before);
}

#[test]
fn a_ring_is_as_long_as_the_multiple_of_128_bytes_in_its_length() {
    for (length, descriptors) in [(128, 8), (128 + 127, 8), (127, 0), (0xfff0_0000 | 256, 16)] {
        let mut b = Bench::up(Config::I82540EM);
        b.write(reg::TDLEN, length);
        b.write(reg::TDBAL, super::TX_RING as u32 | 15);
        for i in 0..8 {
            b.send(super::BUFFERS + i * 2048, &frame(60), 0);
        }
        b.write(reg::TDT, 7);
        b.settle();
        // The tail is 7: inside a ring of 8, and nowhere in none.
        let expected = if descriptors == 0 { 0 } else { 7 };
        assert_eq!(
            (b.p.frames.len(), b.read(reg::TDH)),
            (expected, expected as u32),
            "{length:#x}"
        );
        b.write(reg::TDT, 8);
        b.settle();
        assert_eq!(
            b.p.frames.len(),
            if descriptors == 16 { 8 } else { expected },
            "{length:#x}: 8 is inside of 16"
        );
    }
}

#[test]
fn narrow_writes_do_nothing_and_narrow_reads_give_their_part() {
    let mut b = Bench::new(Config::I82540EM);
    b.write(reg::FCAL, 0x4433_2211);
    for (size, offset) in [(1, 0), (2, 0), (1, 3), (4, 2)] {
        b.d.mmio_write(&mut b.p, Time::ZERO, Reg::at(reg::FCAL + offset), size, 0xffff_ffff);
    }
    assert_eq!(b.d.counters.ignored_writes, 4);
    let read = |b: &mut Bench, offset, size| {
        b.d.mmio_read(&mut b.p, Time::ZERO, Reg::at(reg::FCAL + offset), size)
    };
    assert_eq!(read(&mut b, 0, 4), 0x4433_2211);
    assert_eq!(read(&mut b, 1, 1), 0x22);
    assert_eq!(read(&mut b, 2, 2), 0x4433);
    b.d.mmio_write(&mut b.p, Time::ZERO, Reg::at(reg::FCAL), 8, 0x0000_8877_6655_4433);
    assert_eq!(read(&mut b, 0, 8), 0x0000_8877_6655_4433);
}

#[test]
fn status_tells_the_slot_and_the_link() {
    let s = |cfg| Bench::up(cfg).read(reg::STATUS);
    assert_eq!(s(Config::I82540EM), STATUS_FD | STATUS_LU | STATUS_SPEED_1000 | STATUS_PCI66);
    assert_eq!(s(Config::I82544GC) & STATUS_BUS64, STATUS_BUS64);
    let x = s(Config::I82545EM);
    assert_eq!(x & (STATUS_PCIX_MODE | STATUS_PCIX_SPEED), STATUS_PCIX_MODE | 2 << 14);
    let slow = Config {
        speed: Speed::M100,
        slot: Slot::Pci { mhz66: false, wide: false },
        ..Config::I82540EM
    };
    assert_eq!(s(slow), STATUS_FD | STATUS_LU | 1 << 6);
    assert_eq!(
        Bench::new(Config::I82540EM).read(reg::STATUS) & STATUS_LU,
        0,
        "not before CTRL.SLU"
    );
}

/// `ethtool -s speed 100 duplex full autoneg off`, and `advertise` of less than all: Linux then
/// shows what STATUS says, and the wire is as slow as that.
#[test]
fn a_forced_or_advertised_speed_is_the_macs_and_the_wires() {
    let mdic =
        |r: u8, v: u32| MDIC_OP_WRITE | 1 << MDIC_PHY_SHIFT | u32::from(r) << MDIC_REG_SHIFT | v;
    let sending = |b: &mut Bench| {
        b.send(0x8000, &frame(1000), 0);
        b.send(0x9000, &frame(1000), 0);
        b.kick();
        b.settle();
        let [.., a, z] = &b.p.frames[..] else { panic!("two frames") };
        z.0.since(a.0)
    };
    let mut b = Bench::up(Config::I82540EM);
    assert_eq!(sending(&mut b), Speed::M1000.byte() * 1024);
    // Forced, as the driver does it: the MAC follows the PHY's speed by hand.
    b.write(reg::CTRL, CTRL_SLU | CTRL_FRCSPD | CTRL_FRCDPX | CTRL_FD | 1 << 8);
    b.write(reg::MDIC, mdic(phy::CTRL, 0xa100));
    assert_eq!(b.read(reg::STATUS) & 0xc3, STATUS_FD | STATUS_LU | 1 << 6);
    assert_eq!(sending(&mut b), Speed::M100.byte() * 1024);
    // Negotiated, with 10 Mbit/s at half duplex alone: the MAC detects it.
    b.write(reg::CTRL, CTRL_SLU);
    b.write(reg::MDIC, mdic(phy::AUTONEG_ADV, 0x0021));
    b.write(reg::MDIC, mdic(phy::CTRL_1000T, 0));
    b.write(reg::MDIC, mdic(phy::CTRL, 0x9200));
    assert_eq!(b.read(reg::STATUS) & 0xc3, STATUS_LU);
    assert_eq!(sending(&mut b), Speed::M10.byte() * 1024);
    // And nothing that the partner has: no link.
    b.write(reg::MDIC, mdic(phy::AUTONEG_ADV, 0x0001));
    b.write(reg::MDIC, mdic(phy::CTRL, 0x1200));
    assert_eq!(b.read(reg::STATUS) & STATUS_LU, 0);
}

#[test]
fn reset_clears_itself_and_everything_but_the_eeprom() {
    for cfg in ALL {
        let mut b = Bench::up(cfg);
        b.write(reg::IMS, !0);
        b.write(reg::MTA, 7);
        b.write(reg::RAL0, 7);
        b.send(0x8000, &frame(60), 0);
        b.kick();
        b.settle();
        b.write(reg::CTRL, CTRL_RST);
        assert_eq!(b.read(reg::CTRL) & CTRL_RST, 0);
        for r in [
            reg::IMS,
            reg::ICR,
            reg::RCTL,
            reg::TCTL,
            reg::TDH,
            reg::TDT,
            reg::TDLEN,
            reg::MTA,
            reg::stat::GPTC,
        ] {
            assert_eq!(b.read(r), 0, "{r:#x}");
        }
        let mac = cfg.mac;
        assert_eq!(b.read(reg::RAL0), u32::from_le_bytes([mac[0], mac[1], mac[2], mac[3]]));
        assert_eq!(b.read(reg::RAH0), u32::from(mac[4]) | u32::from(mac[5]) << 8 | RAH_AV);
        assert_eq!(b.p.lines.last().map(|l| l.2), Some(false), "the line is low");
        b.bring_up();
        b.send(0x8000, &frame(60), 0);
        b.kick();
        b.settle();
        assert_eq!(b.d.counters.tx_packets, 2);
    }
}

#[test]
fn the_io_window_and_the_shadow_register_reset_too() {
    let mut b = Bench::up(Config::I82545EM);
    let window = |offset| Reg { region: 2, offset };
    b.d.mmio_write(&mut b.p, Time::ZERO, window(io::IOADDR), 4, reg::STATUS.into());
    assert_eq!(
        b.d.mmio_read(&mut b.p, Time::ZERO, window(io::IODATA), 4) as u32 & STATUS_LU,
        STATUS_LU
    );
    b.d.mmio_write(&mut b.p, Time::ZERO, window(io::IOADDR), 4, reg::CTRL.into());
    b.d.mmio_write(&mut b.p, Time::ZERO, window(io::IODATA), 4, CTRL_RST.into());
    assert_eq!(b.read(reg::STATUS) & STATUS_LU, 0);
    b.bring_up();
    b.write(reg::CTRL_DUP, CTRL_RST);
    assert_eq!(b.read(reg::STATUS) & STATUS_LU, 0);
    assert_eq!(b.d.counters.resets, 2);
}

#[test]
fn eerd_reads_what_sums_to_baba() {
    let mut b = Bench::new(Config::I82540EM);
    let sum = (0..64u32).fold(0u16, |sum, word| {
        b.write(reg::EERD, EERD_START | word << EERD_ADDR_SHIFT);
        let v = b.read(reg::EERD);
        assert_eq!(v & EERD_DONE, EERD_DONE);
        sum.wrapping_add((v >> EERD_DATA_SHIFT) as u16)
    });
    assert_eq!(sum, eeprom::SUM);
}

#[test]
fn eecd_grants_on_request_and_shifts_words_out() {
    let mut b = Bench::new(Config::I82540EM);
    assert_eq!(b.read(reg::EECD) & (EECD_PRES | EECD_GNT | EECD_SIZE), EECD_PRES);
    b.write(reg::EECD, EECD_REQ);
    assert_eq!(b.read(reg::EECD) & EECD_GNT, EECD_GNT);
    let bit = |b: &mut Bench, di: u32| {
        for sk in [0, EECD_SK, 0] {
            b.write(reg::EECD, EECD_REQ | EECD_CS | sk | di);
        }
    };
    // Read word 1.
    for i in (0..9).rev() {
        bit(&mut b, if 0b1_1000_0001 >> i & 1 == 1 { EECD_DI } else { 0 });
    }
    let mut word = 0u16;
    for _ in 0..16 {
        b.write(reg::EECD, EECD_REQ | EECD_CS | EECD_SK);
        word = word << 1 | u16::from(b.read(reg::EECD) & EECD_DO != 0);
        b.write(reg::EECD, EECD_REQ | EECD_CS);
    }
    let mac = Config::I82540EM.mac;
    assert_eq!(word.to_le_bytes(), [mac[2], mac[3]]);
}

fn mdic(b: &mut Bench, v: u32) -> u32 {
    b.write(reg::MDIC, v);
    b.read(reg::MDIC)
}

#[test]
fn mdic_reads_the_phy_at_address_1_alone() {
    let mut b = Bench::new(Config::I82540EM);
    let read =
        |r: u8, at: u32| MDIC_OP_READ | at << MDIC_PHY_SHIFT | u32::from(r) << MDIC_REG_SHIFT;
    let v = mdic(&mut b, read(phy::ID1, 1));
    assert_eq!(v & (MDIC_READY | MDIC_ERROR | MDIC_DATA), MDIC_READY | 0x0141);
    let v = mdic(&mut b, read(phy::STATUS, 1)) as u16;
    assert_eq!(
        v & (phy::STATUS_LINK | phy::STATUS_AUTONEG),
        phy::STATUS_LINK | phy::STATUS_AUTONEG
    );
    let v = mdic(&mut b, read(phy::ID1, 2));
    assert_eq!(v & (MDIC_READY | MDIC_ERROR), MDIC_READY | MDIC_ERROR);
}

#[test]
fn mdic_interrupts_when_asked_to() {
    let mut b = Bench::new(Config::I82540EM);
    mdic(&mut b, MDIC_OP_READ | 1 << MDIC_PHY_SHIFT);
    assert_eq!(b.read(reg::ICR) & INT_MDAC, 0);
    mdic(&mut b, MDIC_OP_READ | 1 << MDIC_PHY_SHIFT | MDIC_INT_EN);
    assert_eq!(b.read(reg::ICR) & INT_MDAC, INT_MDAC);
}

#[test]
fn negotiation_takes_its_time_and_raises_lsc_twice() {
    let mut b = Bench::up(Config { negotiation: Span::from_ms(2), ..Config::I82540EM });
    let restart = phy::CTRL_RESTART | phy::CTRL_AUTONEG;
    mdic(&mut b, MDIC_OP_WRITE | 1 << MDIC_PHY_SHIFT | u32::from(restart));
    assert_eq!((b.read(reg::STATUS) & STATUS_LU, b.read(reg::ICR)), (0, INT_LSC));
    b.at(Time::ZERO + Span::from_us(1999));
    assert_eq!(b.read(reg::STATUS) & STATUS_LU, 0);
    b.at(Time::ZERO + Span::from_ms(2));
    assert_eq!((b.read(reg::STATUS) & STATUS_LU, b.read(reg::ICR)), (STATUS_LU, INT_LSC));
}

#[test]
fn a_pulled_cable_stops_frames_and_raises_lsc() {
    let mut b = Bench::up(Config::I82540EM);
    b.d.set_cable(ns(10), false);
    b.at(ns(10));
    assert_eq!((b.read(reg::STATUS) & STATUS_LU, b.read(reg::ICR)), (0, INT_LSC));
    b.send(0x8000, &frame(60), 0);
    b.kick();
    b.settle();
    assert!(b.p.frames.is_empty());
    b.d.set_cable(ns(20), true);
    b.settle();
    assert_eq!(b.p.frames.len(), 1);
}

#[test]
fn pba_divides_64_kib() {
    let mut b = Bench::new(Config::I82540EM);
    assert_eq!(b.read(reg::PBA), 48 | 16 << 16);
    b.write(reg::PBA, 40);
    assert_eq!(b.read(reg::PBA), 40 | 24 << 16);
}

#[test]
fn statistics_count_with_the_fcs_and_reading_clears() {
    let mut b = Bench::up(Config::I82540EM);
    b.post(8);
    b.send(0x8000, &frame(100), 0);
    b.kick();
    b.receive(&frame(60));
    b.settle();
    for (r, v) in [
        (reg::stat::GPTC, 1),
        (reg::stat::GOTCL, 104),
        (reg::stat::TOTL, 104),
        (reg::stat::PTC127, 1),
        (reg::stat::BPTC, 1),
        (reg::stat::GPRC, 1),
        (reg::stat::TPR, 1),
        (reg::stat::PRC64, 1),
        (reg::stat::BPRC, 1),
    ] {
        assert_eq!(b.read(r), v, "{r:#x}");
    }
    assert_eq!(b.read(reg::stat::GPTC), 0);
    assert_eq!(
        [b.read(reg::stat::GORCL), b.read(reg::stat::GORCH), b.read(reg::stat::GORCL)],
        [64, 0, 0]
    );
}

#[test]
fn every_counter_has_a_name() {
    let b = Bench::new(Config::I82540EM);
    assert!(b.d.counters.entries().any(|(n, v)| n == "tx_packets" && v == 0));
}
