//! Registers of the MAC, MDIO and the PHY, the link.

use super::*;
use doorbell_layout::axienet::{ability, emmc, mdio};

pub(super) const PHY: u32 = 1;

/// An access as Linux makes it; answers what was read, and how long it took.
pub(super) fn access(b: &mut Bench, phy: u32, reg: u32, write: Option<u16>) -> (u16, Span) {
    b.put_mac(mac::MDIO_MC, mdio::ENABLE | 24);
    let to = phy << mdio::PHY_SHIFT | reg << mdio::REG_SHIFT | mdio::INITIATE;
    match write {
        Some(v) => {
            b.put_mac(mac::MDIO_MWD, v.into());
            b.put_mac(mac::MDIO_MCR, to | mdio::WRITE);
        }
        None => b.put_mac(mac::MDIO_MCR, to | mdio::READ),
    }
    let start = b.now;
    while b.get_mac(mac::MDIO_MCR) & mdio::READY == 0 {
        b.after(Span::from_ns(100));
        assert!(b.now < start + Span::from_ms(20), "never ready");
    }
    let took = b.now.since(start);
    b.put_mac(mac::MDIO_MC, 24);
    (b.get_mac(mac::MDIO_MRD) as u16, took)
}

#[test]
fn the_core_says_what_it_is() {
    let mut b = Bench::new(Config::ZYNQMP);
    assert!(b.get_mac(mac::ID) >> 24 >= 9, "64 bits of address are known from version 9 on");
    let abilities =
        ability::M10 | ability::M100 | ability::M1000 | ability::STATISTICS | ability::FRAME_FILTER;
    assert_eq!(b.get_mac(mac::ABILITY), abilities);
    assert_eq!((b.get_mac(mac::RCW1), b.get_mac(mac::TC)), (rcw1::RX, tc::TX));
    assert_eq!(b.get_mac(mac::EMMC), emmc::SPEED_1000);
}

#[test]
fn an_mdio_access_takes_64_clocks_of_its_own() {
    let mut b = Bench::new(Config::ZYNQMP);
    let (id, took) = access(&mut b, PHY, 2, None);
    assert_eq!(id, 0x2000);
    // 125 MHz by 50 is 2.5 MHz.
    assert_eq!(took, Span::from_ns(64 * 400));
    assert_eq!(access(&mut b, PHY, 3, None).0 & 0xfff0, 0xa230);
    assert_eq!(access(&mut b, 7, 2, None).0, 0xffff, "nobody there");
    assert_ne!(b.get_mac(mac::IS) & int::HARD_ACCESS, 0);
}

#[test]
fn mdio_that_is_off_does_nothing() {
    let mut b = Bench::new(Config::ZYNQMP);
    let read = PHY << mdio::PHY_SHIFT | 2 << mdio::REG_SHIFT | mdio::INITIATE | mdio::READ;
    b.put_mac(mac::MDIO_MCR, read);
    assert_eq!(b.get_mac(mac::MDIO_MCR) & mdio::READY, mdio::READY);
    assert_eq!(b.get_mac(mac::MDIO_MRD), 0);
    b.put_mac(mac::MDIO_MC, mdio::ENABLE | 24);
    b.put_mac(mac::MDIO_MCR, read);
    b.put_mac(mac::MDIO_MC, 24);
    b.after(Span::from_ms(20));
    assert_eq!(
        b.get_mac(mac::MDIO_MCR) & mdio::READY,
        0,
        "one under way never ends without its clock"
    );
}

#[test]
fn a_phy_reset_negotiates_again() {
    let mut b = Bench::up(Config { negotiation: Span::from_ms(2), ..Config::ZYNQMP });
    b.put_mac(mac::IS, !0);
    b.put_mac(mac::IE, int::AUTONEG);
    b.post(0, 4, 1600);
    access(&mut b, PHY, 1, None);
    assert_eq!(access(&mut b, PHY, 1, None).0 & 0x24, 0x24);
    access(&mut b, PHY, 0, Some(0x9140));
    assert_eq!(access(&mut b, PHY, 0, None).0, 0x1140, "clears itself");
    assert_eq!(access(&mut b, PHY, 1, None).0 & 0x24, 0);
    assert!(matches!(b.receive(&frame(60)), RxVerdict::Dropped(_)));
    b.send(&frame(60));
    b.after(Span::from_ms(3));
    assert_eq!(b.rises(line::MAC).len(), 1, "AutoNeg");
    access(&mut b, PHY, 1, None);
    assert_eq!(access(&mut b, PHY, 1, None).0 & 0x24, 0x24);
    assert_eq!(access(&mut b, PHY, 10, None).0, 0x7c00, "gigabit");
    assert_eq!((b.receive(&frame(60)), b.sent().len()), (RxVerdict::Yes, 1));
}

#[test]
fn the_cable() {
    let mut b = Bench::up(Config { negotiation: Span::from_ms(2), ..Config::ZYNQMP });
    b.post(0, 4, 1600);
    b.d.set_cable(b.now, false);
    b.after(Span::from_ms(5));
    assert!(matches!(b.receive(&frame(60)), RxVerdict::Dropped(_)));
    assert_eq!(access(&mut b, PHY, 1, None).0 & 0x24, 0);
    let now = b.now;
    b.d.set_cable(now, true);
    b.after(Span::from_ms(1));
    assert!(matches!(b.receive(&frame(60)), RxVerdict::Dropped(_)));
    b.after(Span::from_ms(1));
    assert_eq!(b.receive(&frame(60)), RxVerdict::Yes);
}

#[test]
fn a_fixed_link_needs_no_phy() {
    let mut b = Bench::up(Config { phy: None, ..Config::ZYNQMP });
    b.post(0, 4, 1600);
    assert_eq!(access(&mut b, PHY, 2, None).0, 0xffff);
    assert_eq!(b.receive(&frame(60)), RxVerdict::Yes);
    b.put(MM2S + dma::CR, cr::RESET);
    b.after(Span::from_us(1));
    b.bring_up(run(1, 0), run(1, 0));
    assert_eq!(b.receive(&frame(60)), RxVerdict::Yes, "while the PHY that is not there is reset");
}

#[test]
fn the_phy_is_reset_with_the_core() {
    let mut b = Bench::up(Config::ZYNQMP);
    access(&mut b, PHY, 4, Some(0x0061));
    b.put(MM2S + dma::CR, cr::RESET);
    b.after(Span::from_us(1));
    assert_eq!(access(&mut b, PHY, 4, None).0, 0xffff, "in reset");
    b.after(Span::from_ms(5));
    assert_eq!(access(&mut b, PHY, 4, None).0, 0x0de1);
}

#[test]
fn interrupts_of_the_mac_are_written_one_to_clear() {
    let mut b = Bench::up(Config::ZYNQMP);
    b.put_mac(mac::IE, int::RX_COMPLETE | int::RX_REJECT);
    b.receive(&frame(60));
    b.receive(&frame(5000));
    b.settle();
    assert_eq!(b.get_mac(mac::IP), int::RX_COMPLETE | int::RX_REJECT);
    b.put_mac(mac::IS, int::RX_COMPLETE);
    assert_eq!((b.get_mac(mac::IP), b.d.line(line::MAC)), (int::RX_REJECT, true));
    b.put_mac(mac::IE, 0);
    assert_eq!((b.get_mac(mac::IP), b.d.line(line::MAC)), (0, false));
    assert_eq!(b.get_mac(mac::IS) & int::RX_REJECT, int::RX_REJECT);
}

#[test]
fn narrow_writes_do_nothing_and_wide_accesses_are_two() {
    let mut b = Bench::new(Config::ZYNQMP);
    let at = |offset| Reg { region: MAC, offset };
    b.d.mmio_write(&mut b.p, b.now, at(mac::UAW0), 2, 0x1234);
    b.d.mmio_write(&mut b.p, b.now, at(mac::UAW0 + 2), 4, 0x1234);
    assert_eq!((b.get_mac(mac::UAW0), b.d.counters.ignored_writes), (0, 2));
    b.d.mmio_write(&mut b.p, b.now, at(mac::UAW0), 8, 0x5555_6677_1122_3344);
    assert_eq!((b.get_mac(mac::UAW0), b.get_mac(mac::UAW1)), (0x1122_3344, 0x5555_6677));
    assert_eq!(b.d.mmio_read(&mut b.p, b.now, at(mac::UAW0), 8), 0x5555_6677_1122_3344);
    assert_eq!(b.d.mmio_read(&mut b.p, b.now, at(mac::UAW0 + 1), 1), 0x33);
    b.put_mac(mac::ID, !0);
    b.put(0x800, 1);
    assert_eq!((b.get(0x800), b.get_mac(mac::ID)), (0, 0x0a00_0000));
    assert_eq!(b.d.mmio_read(&mut b.p, b.now, Reg { region: 7, offset: 0 }, 4), 0);
}

#[test]
fn the_multicast_table_is_there_if_it_was_built() {
    let mut b = Bench::new(Config { extended_multicast: true, ..Config::ZYNQMP });
    b.put_mac(mac::MULTICAST + 4 * 77, 1);
    assert_eq!([76, 77].map(|i| b.get_mac(mac::MULTICAST + 4 * i)), [0, 1]);
    let mut b = Bench::new(Config::ZYNQMP);
    b.put_mac(mac::MULTICAST, 1);
    assert_eq!(b.get_mac(mac::MULTICAST), 0);
}

#[test]
fn settings_out_of_range_are_rounded_into_it() {
    let wild = Config {
        tx_memory: 0,
        address_bits: 99,
        clock_mhz: 0,
        lite_mhz: 0,
        delay_clocks: 0,
        ..Config::ZYNQMP
    };
    let d = AxiEthernet::new(wild);
    let c = d.config();
    assert_eq!((c.tx_memory, c.address_bits, c.clock_mhz, c.delay_clocks), (2048, 64, 1, 1));
    assert_eq!(c.speed, Speed::M1000);
}
