//! Registers that hold what is written to them, and windows to others.

use super::super::{Config, Speed};
use super::{Bench, frame};
use doorbell_hal::{Device, Reg};
use doorbell_layout::e1000::*;

const PATTERNS: [u32; 4] = [0x5a5a_5a5a, 0xa5a5_a5a5, 0, !0];

#[test]
fn registers_without_effect_hold_their_bits() {
    let mut b = Bench::new(Config::I82540EM);
    for (r, mask) in [
        (reg::CTRL_EXT, !CTRL_EXT_EE_RST),
        (reg::AIT, 0xffff),
        (reg::LEDCTL, !0),
        (reg::FCRTL, 0x8000_fff8),
        (reg::TSPMT, !0),
        (reg::RXCSUM, 0x3fff),
        (reg::WUC, !0),
        (reg::MANC, !0),
        (reg::ITR, 0xffff),
        (reg::RADV, 0xffff),
        (reg::TADV, 0xffff),
        (reg::RSRPD, 0xffff),
        (reg::RXDCTL, !0),
        (reg::TXDCTL, !0),
    ] {
        for pattern in PATTERNS {
            b.write(r, pattern);
            assert_eq!(b.read(r), pattern & mask, "{r:#x}");
        }
    }
}

#[test]
fn the_82544_has_no_moderation_registers() {
    let mut b = Bench::new(Config::I82544GC);
    for r in [reg::ITR, reg::RADV, reg::TADV, reg::RSRPD] {
        b.write(r, !0);
        assert_eq!(b.read(r), 0, "{r:#x}");
    }
}

#[test]
fn both_addresses_of_ctrl_are_one_register() {
    let mut b = Bench::new(Config::I82540EM);
    b.write(reg::CTRL_DUP, CTRL_SLU | CTRL_VME);
    assert_eq!(b.read(reg::CTRL), CTRL_SLU | CTRL_VME);
    b.write(reg::CTRL, CTRL_SLU);
    assert_eq!(b.read(reg::CTRL_DUP), CTRL_SLU);
}

#[test]
fn pba_gives_transmit_the_rest_of_64_kib() {
    let mut b = Bench::new(Config::I82540EM);
    assert_eq!(b.read(reg::PBA), 16 << 16 | 48);
    b.write(reg::PBA, 0xabcd_0028);
    assert_eq!(b.read(reg::PBA), 24 << 16 | 40);
}

#[test]
fn the_io_window_reaches_every_register() {
    let mut b = Bench::new(Config::I82540EM);
    let now = b.now;
    let window = |offset| Reg { region: 1, offset };
    b.d.mmio_write(&mut b.p, now, window(io::IOADDR), 4, (reg::FCAL + 2).into());
    b.d.mmio_write(&mut b.p, now, window(io::IODATA), 4, 0x1234_5678);
    assert_eq!(b.d.mmio_read(&mut b.p, now, window(io::IOADDR), 4), (reg::FCAL + 2).into());
    assert_eq!(b.d.mmio_read(&mut b.p, now, window(io::IODATA), 4), 0x1234_5678);
    assert_eq!(b.d.mmio_read(&mut b.p, now, window(8), 4), 0);
    assert_eq!(b.read(reg::FCAL), 0x1234_5678);
}

#[test]
fn eerd_reads_the_word_asked_for_when_started() {
    let mut b = Bench::new(Config::I82540EM);
    // Words 0 to 2 are the station's address, little endian.
    let address = b.d.config().mac;
    b.write(reg::EERD, !EERD_START);
    assert_eq!(b.read(reg::EERD), 0xff00);
    for word in 0..3 {
        b.write(reg::EERD, (word as u32) << EERD_ADDR_SHIFT | EERD_START);
        let [low, high] = [address[2 * word], address[2 * word + 1]].map(u32::from);
        let expected = (high << 8 | low) << EERD_DATA_SHIFT | (word as u32) << 8 | EERD_DONE;
        assert_eq!(b.read(reg::EERD), expected);
    }
}

#[test]
fn ee_rst_restores_the_station_address() {
    let mut b = Bench::new(Config::I82540EM);
    let before = b.read(reg::RAL0);
    b.write(reg::RAL0, !before);
    b.write(reg::CTRL_EXT, !CTRL_EXT_EE_RST);
    assert_eq!(b.read(reg::RAL0), !before);
    b.write(reg::CTRL_EXT, CTRL_EXT_EE_RST);
    assert_eq!(b.read(reg::RAL0), before);
}

#[test]
fn mdic_answers_for_its_own_phy_alone() {
    let at = |address: u32, r: u8| address << MDIC_PHY_SHIFT | u32::from(r) << MDIC_REG_SHIFT;
    let mut b = Bench::new(Config::I82540EM);
    assert_eq!(b.read(reg::MDIC), MDIC_READY);
    let write = at(1, phy::AUTONEG_ADV) | MDIC_OP_WRITE | 0x0061;
    b.write(reg::MDIC, write | MDIC_ERROR);
    assert_eq!(b.read(reg::MDIC), write | MDIC_READY);
    let read = at(1, phy::AUTONEG_ADV) | MDIC_OP_READ;
    b.write(reg::MDIC, read | 0xffff);
    assert_eq!(b.read(reg::MDIC), read | MDIC_READY | 0x0061);
    for refused in [at(2, phy::AUTONEG_ADV) | MDIC_OP_READ, at(1, phy::AUTONEG_ADV)] {
        b.write(reg::MDIC, refused);
        assert_eq!(b.read(reg::MDIC), refused | MDIC_READY | MDIC_ERROR);
    }
    assert_eq!(b.read(reg::ICR) & INT_MDAC, 0);
    b.write(reg::MDIC, read | MDIC_INT_EN);
    assert_eq!(b.read(reg::ICR) & INT_MDAC, INT_MDAC);
}

#[test]
fn fpd_of_tidv_writes_back_at_once() {
    let mut b = Bench::up(Config::I82540EM);
    b.write(reg::TIDV, 100);
    b.write(reg::TXDCTL, DCTL_GRAN | 8 << DCTL_WTHRESH_SHIFT);
    b.send(0x8000, &frame(60), tx_word::RS | tx_word::IDE);
    b.kick();
    b.at(super::ns(20_000));
    assert!(!b.tx_done(0), "it waits for TIDV");
    b.write(reg::TIDV, 101);
    b.at(super::ns(20_000));
    assert!(!b.tx_done(0), "a new value alone does not end the wait");
    b.write(reg::TIDV, TIMER_FPD | 101);
    b.at(super::ns(20_000));
    assert!(b.tx_done(0));
    assert_eq!(b.read(reg::TIDV), 101);
}

#[test]
fn the_phy_tells_the_partner_s_abilities_while_the_link_is_up() {
    // LP_ABILITY, EXPANSION, STATUS_1000T, EXT_STATUS, M88_STATUS, M88_INTERRUPT_STATUS.
    let registers = |b: &mut Bench| [5, 6, 10, 15, 17, 19].map(|r| phy_read(b, r));
    for (speed, told) in [
        (Speed::M1000, [0x4de1, 0x000f, 0x7c00, 0x3000, 0xac08, 0]),
        (Speed::M100, [0x4de1, 0x000f, 0, 0x3000, 0x6c08, 0]),
        (Speed::M10, [0x4c61, 0x000f, 0, 0x3000, 0x2c08, 0]),
    ] {
        let mut b = Bench::up(Config { speed, ..Config::I82540EM });
        assert_eq!(registers(&mut b), told, "{speed:?}");
        b.d.set_cable(b.now, false);
        assert_eq!(registers(&mut b), [0, 0, 0, 0x3000, 0, 0]);
    }
}

#[test]
fn the_phy_s_identity_and_status_are_read_only() {
    let mut b = Bench::up(Config::I82540EM);
    let before = [1, 2, 3].map(|r| phy_read(&mut b, r));
    for r in [1, 2, 3] {
        b.write(reg::MDIC, MDIC_OP_WRITE | 1 << MDIC_PHY_SHIFT | r << MDIC_REG_SHIFT | 0x5a5a);
    }
    assert_eq!([1, 2, 3].map(|r| phy_read(&mut b, r)), before);
}

/// Reads register `r` of the PHY.
fn phy_read(b: &mut Bench, r: u32) -> u32 {
    b.write(reg::MDIC, MDIC_OP_READ | 1 << MDIC_PHY_SHIFT | r << MDIC_REG_SHIFT);
    b.read(reg::MDIC) & MDIC_DATA
}
