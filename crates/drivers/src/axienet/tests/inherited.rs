//! Registers as an earlier driver left them, and links of every kind.

use super::*;
use doorbell_hal::Span;
use doorbell_layout::axienet::{rcw1, tc};

fn open_on(board: Board) -> (Host, Axienet) {
    let mut h = DirectHost::new(16 << 20, board);
    let nic = Axienet::open(&mut h, &config(), config().net_dim()).unwrap();
    (h, nic)
}

#[test]
fn options_of_an_earlier_driver_are_cleared() {
    let mut board = Board::new();
    (*board.mac(mac::TC), *board.mac(mac::RCW1)) = (!0, !0);
    let (mut h, _) = open_on(board);
    let kept = !(tc::TX | tc::VLAN | tc::JUMBO | tc::FCS);
    assert_eq!(*h.device.mac(mac::TC), kept | tc::TX | tc::VLAN);
    let taken = rcw1::RX | rcw1::VLAN | rcw1::JUMBO | rcw1::FCS | rcw1::LENGTH_TYPE_DISABLE;
    assert_eq!(*h.device.mac(mac::RCW1), !taken | rcw1::RX | rcw1::VLAN);
}

#[test]
fn the_upper_half_of_uaw1_stays() {
    let mut board = Board::new();
    *board.mac(mac::UAW1) = 0xabcd_ffff;
    let (mut h, _) = open_on(board);
    assert_eq!(*h.device.mac(mac::UAW0), 0x3322_1102);
    assert_eq!(*h.device.mac(mac::UAW1), 0xabcd_5544);
}

#[test]
fn a_reject_of_before_is_acknowledged_and_both_causes_enabled() {
    for pending in [false, true] {
        let mut board = Board::new();
        *board.mac(mac::IE) = int::RX_REJECT | int::RX_COMPLETE;
        *board.mac(mac::IS) = int::RX_COMPLETE | if pending { int::RX_REJECT } else { 0 };
        let (h, _) = open_on(board);
        let acknowledged = h.device.written(l::MAC, mac::IS);
        assert_eq!(acknowledged.contains(&int::RX_REJECT.into()), pending);
        let enabled = h.device.written(l::MAC, mac::IE);
        assert_eq!(enabled.last(), Some(&(int::RX_REJECT | int::RX_FIFO_OVERFLOW).into()));
    }
}

#[test]
fn a_channel_that_does_not_halt_is_waited_for_100_ms() {
    for (channels, ms) in [(&[][..], 0), (&[S2MM], 100), (&[MM2S, S2MM], 200)] {
        let (mut h, nic) = open();
        for channel in [MM2S, S2MM] {
            *h.device.dma(channel, dma::SR) |= sr::HALTED;
        }
        for channel in channels {
            *h.device.dma(*channel, dma::SR) &= !sr::HALTED;
        }
        let before = h.now();
        nic.close(&mut h);
        assert_eq!(h.now().since(before), Span::from_ms(ms));
    }
}

#[test]
fn the_fastest_common_mode_is_the_link_s() {
    // Registers 4, 5, 9 and 10 of the PHY.
    let link = |speed, full_duplex| Link { speed, full_duplex };
    for (registers, expected) in [
        ([0x01e1, 0x01e1, 0x0300, 0x0c00], link(Speed::M1000, true)),
        ([0x01e1, 0x01e1, 0x0100, 0x0c00], link(Speed::M1000, false)),
        ([0x01e1, 0x01e1, 0x0300, 0x0400], link(Speed::M1000, false)),
        ([0x01e1, 0x01e1, 0x0200, 0x0400], link(Speed::M100, true)),
        ([0x00e1, 0x01e1, 0, 0x0c00], link(Speed::M100, false)),
        ([0x0061, 0x01e1, 0, 0], link(Speed::M10, true)),
        ([0x0021, 0x01e1, 0, 0], link(Speed::M10, false)),
    ] {
        let (mut h, mut nic) = open_with(|c| c.phy = Some(1));
        for (r, v) in [4, 5, 9, 10].into_iter().zip(registers) {
            h.device.phy[r] = v;
        }
        nic.work(&mut h);
        assert_eq!(nic.link(), Some(expected), "{registers:x?}");
    }
}
