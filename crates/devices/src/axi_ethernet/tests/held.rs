//! Registers that hold what is written to them, and those of the PHY.

use super::registers::{PHY, access};
use super::*;
use doorbell_layout::axienet::{mdio, raf};

const PATTERNS: [u32; 4] = [0x5a5a_5a5a, 0xa5a5_a5a5, 0, !0];

#[test]
fn registers_of_the_mac_hold_their_bits() {
    let mut b = Bench::new(Config::ZYNQMP);
    // IE has the interrupts that there are: bits 0 to 8.
    for (r, mask) in [
        (mac::RAF, !raf::STATS_RESET),
        (mac::TPF, 0xffff),
        (mac::IFGP, 0x7f),
        (mac::IE, 0x1ff),
        (mac::RCW0, !0),
        (mac::RCW1, !rcw1::RESET),
        (mac::TC, !tc::RESET),
        (mac::FCC, !0),
        (mac::EMMC, !0),
        (mac::MDIO_MC, mdio::ENABLE | mdio::DIVISOR),
        (mac::MDIO_MWD, 0xffff),
        (mac::UAW0, !0),
        (mac::UAW1, !0),
        (mac::FFE, 1),
        (mac::AF0, !0),
        (mac::AF1, !0),
        (mac::AM0, !0),
        (mac::AM1, !0),
        (mac::FMI, fmi::PROMISCUOUS | fmi::INDEX),
    ] {
        for pattern in PATTERNS {
            b.put_mac(r, pattern);
            assert_eq!(b.get_mac(r), pattern & mask, "{r:#x}");
        }
    }
}

#[test]
fn each_entry_of_the_filter_has_registers_of_its_own() {
    let mut b = Bench::new(Config::ZYNQMP);
    let all = [mac::AF0, mac::AF1, mac::AM0, mac::AM1];
    for i in 0..mac::FILTERS {
        b.put_mac(mac::FMI, i);
        all.into_iter().for_each(|r| b.put_mac(r, r << 8 | i));
    }
    for i in 0..mac::FILTERS {
        b.put_mac(mac::FMI, i);
        assert_eq!(all.map(|r| b.get_mac(r)), all.map(|r| r << 8 | i));
    }
}

#[test]
fn ring_addresses_have_two_halves() {
    let mut b = Bench::new(Config::ZYNQMP);
    for ch in [MM2S, S2MM] {
        for (low, high) in [(dma::CURDESC, dma::CURDESC_MSB), (dma::TAILDESC, dma::TAILDESC_MSB)] {
            b.put(ch + low, 0x1234_567f);
            b.put(ch + high, 0x89ab_cdef);
            assert_eq!((b.get(ch + low), b.get(ch + high)), (0x1234_5640, 0x89ab_cdef));
            b.put(ch + low, 0x40);
            assert_eq!((b.get(ch + low), b.get(ch + high)), (0x40, 0x89ab_cdef));
        }
    }
}

#[test]
fn addresses_of_32_bits_have_no_upper_half() {
    let mut b = Bench::new(Config { address_bits: 32, ..Config::ZYNQMP });
    for (i, r) in [dma::CURDESC_MSB, dma::TAILDESC_MSB].into_iter().enumerate() {
        b.put(MM2S + r, 5);
        assert_eq!((b.get(MM2S + r), b.d.counters.ignored_writes), (0, i as u64 + 1));
    }
}

#[test]
fn sg_ctl_is_the_transmit_channel_s() {
    let mut b = Bench::new(Config::ZYNQMP);
    b.put(MM2S + dma::SG_CTL, 0xf0f);
    b.put(S2MM + dma::SG_CTL, 0x30f);
    assert_eq!((b.get(MM2S + dma::SG_CTL), b.get(S2MM + dma::SG_CTL)), (0xf0f, 0));
    assert_eq!(b.d.counters.ignored_writes, 1);
}

#[test]
fn a_reset_of_the_statistics_leaves_the_filter() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.put_mac(mac::RAF, raf::BCAST_REJECT);
    b.receive(&frame(60));
    b.put_mac(mac::RAF, raf::BCAST_REJECT | raf::MCAST_REJECT);
    assert_eq!(b.get_mac(stat::RX_GOOD), 1);
    b.put_mac(mac::RAF, raf::BCAST_REJECT | raf::STATS_RESET);
    assert_eq!((b.get_mac(stat::RX_GOOD), b.get_mac(mac::RAF)), (0, raf::BCAST_REJECT));
}

#[test]
fn the_phy_tells_the_partner_s_abilities_while_the_link_is_up() {
    // PARTNER, EXPANSION, STATUS_1000, EXTENDED.
    let registers = |b: &mut Bench| [5, 6, 10, 15].map(|r| access(b, PHY, r, None).0);
    for (speed, told) in [
        (Speed::M1000, [0x4de1, 0x000f, 0x7c00, 0x3000]),
        (Speed::M100, [0x4de1, 0x000f, 0, 0x3000]),
        (Speed::M10, [0x4c61, 0x000f, 0, 0x3000]),
    ] {
        let mut b = Bench::up(Config { speed, ..Config::ZYNQMP });
        assert_eq!(registers(&mut b), told);
        b.d.set_cable(b.now, false);
        assert_eq!(registers(&mut b), [0, 0, 0, 0x3000]);
    }
}

#[test]
fn the_phy_s_identity_and_status_are_read_only() {
    let mut b = Bench::up(Config::ZYNQMP);
    let status = access(&mut b, PHY, 1, None).0;
    for r in [1, 2, 3] {
        access(&mut b, PHY, r, Some(0x5a5a));
    }
    assert_eq!([1, 2, 3].map(|r| access(&mut b, PHY, r, None).0), [status, 0x2000, 0xa231]);
    access(&mut b, PHY, 16, Some(0x5a5a));
    assert_eq!(access(&mut b, PHY, 16, None).0, 0x5a5a);
}

#[test]
fn a_phy_without_power_has_no_link_until_it_has() {
    let mut b = Bench::up(Config::ZYNQMP);
    access(&mut b, PHY, 0, Some(0x1140));
    assert_eq!(b.receive(&frame(60)), RxVerdict::Yes);
    access(&mut b, PHY, 0, Some(0x1940));
    assert!(matches!(b.receive(&frame(60)), RxVerdict::Dropped(_)));
    // A write without a change of the power negotiates nothing.
    access(&mut b, PHY, 0, Some(0x1940));
    access(&mut b, PHY, 0, Some(0x1140));
    b.settle();
    assert_eq!(b.receive(&frame(60)), RxVerdict::Yes);
}

#[test]
fn a_write_to_another_phy_changes_nothing() {
    let mut b = Bench::up(Config { negotiation: Span::from_ms(2), ..Config::ZYNQMP });
    access(&mut b, PHY + 1, 0, Some(0x9140));
    assert_eq!(b.receive(&frame(60)), RxVerdict::Yes);
}
