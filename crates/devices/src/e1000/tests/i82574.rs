//! The 82574: descriptors, interrupts and registers that it alone has.

use super::super::{Config, config::Slot};
use super::{BUFFERS, Bench, RX_RING, frame, ns};
use alloc::vec::Vec;
use doorbell_hal::{EventSource, Span};
use doorbell_layout::e1000::*;

/// A card with extended receive descriptors.
fn up() -> Bench {
    let mut b = Bench::up(Config::I82574L);
    b.write(reg::RFCTL, RFCTL_EXTEN);
    b
}

/// Returns receive descriptor `i` as it was written back.
fn written(b: &Bench, i: usize) -> RxExtended {
    let at = RX_RING as usize + i * 16;
    RxExtended::of(b.p.memory[at..at + 16].try_into().unwrap())
}

/// An IPv4 frame of 60 bytes with this identification, and a wrong checksum in its header.
fn ip_frame(identification: u16) -> Vec<u8> {
    let mut f = frame(60);
    f[12..34].fill(0);
    f[12..15].copy_from_slice(&[8, 0, 0x45]);
    f[17] = 46;
    f[18..20].copy_from_slice(&identification.to_be_bytes());
    f[23] = 253;
    f
}

#[test]
fn an_extended_descriptor_has_its_length_in_the_upper_half() {
    let mut b = up();
    b.post(8);
    b.receive(&frame(300));
    b.settle();
    let d = written(&b, 0);
    assert_eq!((d.length.get(), d.special.get()), (300, 0));
    assert_eq!(d.status.get(), u32::from(Rx::DD | Rx::EOP | Rx::IXSM));
    assert_eq!(d.queue.get(), 0, "the address is written over");
    assert_eq!(b.p.memory[BUFFERS as usize..][..300], frame(300));
    assert_eq!(b.p.writes.last().map(|w| (w.1, w.2)), Some((RX_RING, 16)), "in one write");
}

#[test]
fn the_lower_half_has_identification_and_sum_unless_pcsd() {
    for (rxcsum, lower, status) in [(14, 0x1234, RxExtended::IPIDV), (14 | RXCSUM_PCSD, 0, 0)] {
        let mut b = up();
        b.write(reg::RXCSUM, rxcsum | RXCSUM_IPOFL);
        b.post(8);
        b.receive(&ip_frame(0x1234));
        b.settle();
        let d = written(&b, 0);
        assert_eq!(d.hash.get() & 0xffff, lower);
        assert_eq!(d.hash.get() >> 16 != 0, lower != 0, "the packet checksum");
        let found = RxExtended::IPIDV | u32::from(Rx::IPE) << RxExtended::ERRORS_SHIFT;
        let error = u32::from(Rx::IPE) << RxExtended::ERRORS_SHIFT;
        assert_eq!(d.status.get() & found, status | error);
    }
}

#[test]
fn a_part_of_a_frame_has_nothing_in_the_lower_half() {
    let mut b = up();
    b.write(reg::RCTL, RCTL_EN | RCTL_BAM | RCTL_SECRC | 3 << RCTL_SZ_SHIFT);
    b.post(8);
    b.receive(&frame(300));
    b.settle();
    let (first, last) = (written(&b, 0), written(&b, 1));
    assert_eq!((first.length.get(), first.status.get()), (256, Rx::DD.into()));
    assert_eq!((first.queue.get(), first.hash.get()), (0, 0));
    assert_eq!((last.length.get(), last.status.get() & 3), (44, 3));
}

#[test]
fn reading_icr_does_nothing_while_no_enabled_cause_is_set() {
    let mut b = up();
    b.write(reg::IMS, INT_LSC);
    b.write(reg::ICS, INT_RXT0);
    assert_eq!([b.read(reg::ICR), b.read(reg::ICR)], [INT_RXT0; 2]);
    b.write(reg::ICS, INT_LSC);
    let all = INT_RXT0 | INT_LSC | INT_OTHER;
    assert_eq!([b.read(reg::ICR), b.read(reg::ICR)], [INT_ASSERTED | all, 0]);
    assert_eq!(b.read(reg::IMS), INT_LSC, "IAM is for those who ask for it");
    b.write(reg::ICS, INT_LSC);
    b.write(reg::CTRL_EXT, CTRL_EXT_IAME);
    b.write(reg::IAM, !0);
    b.read(reg::ICR);
    assert_eq!(b.read(reg::IMS), 0);
    b.write(reg::ICS, INT_RXT0);
    assert_eq!([b.read(reg::ICR), b.read(reg::ICR)], [INT_RXT0, 0], "all causes are disabled");
}

#[test]
fn a_slot_with_msi_has_a_message_for_each_rise() {
    let mut b = Bench::up(Config { slot: Slot::Express { msi: true }, ..Config::I82574L });
    b.write(reg::IMS, INT_RXT0);
    for t in [ns(100), ns(200)] {
        b.at(t);
        b.write(reg::ICS, INT_RXT0);
        b.write(reg::ICS, INT_RXT0);
        b.read(reg::ICR);
    }
    assert_eq!(b.p.messages, [(ns(100), 0), (ns(200), 0)]);
    assert!(b.p.lines.is_empty());
}

/// A card whose queue causes and others have vectors 0 to 2.
fn with_vectors() -> Bench {
    let mut b = up();
    let entry = |vector, at: u32| (IVAR_VALID | vector) << at;
    b.write(reg::IVAR, entry(0, IVAR_RXQ0) | entry(1, IVAR_TXQ0) | entry(2, IVAR_OTHER));
    b.write(reg::IMS, INT_RXQ0 | INT_TXQ0 | INT_OTHER);
    b
}

#[test]
fn ivar_gives_each_cause_its_vector() {
    let mut b = with_vectors();
    b.post(8);
    b.receive(&frame(60));
    b.settle();
    b.send(0x8000, &frame(60), 1 << 27);
    b.kick();
    b.settle();
    b.write(reg::ICS, INT_LSC);
    let vectors: Vec<u16> = b.p.messages.iter().map(|m| m.1).collect();
    assert_eq!(vectors, [0, 1, 2]);
    assert!(b.p.lines.is_empty());
    assert_eq!(b.read(reg::stat::IAC), 3);
}

#[test]
fn eiac_clears_what_a_message_has_told() {
    let mut b = with_vectors();
    b.write(reg::ICS, INT_RXQ0);
    b.write(reg::ICS, INT_RXQ0);
    assert_eq!(b.p.messages.len(), 1, "the cause stays set");
    b.write(reg::ICR, INT_RXQ0);
    b.write(reg::EIAC, INT_RXQ0);
    b.write(reg::ICS, INT_RXQ0);
    b.write(reg::ICS, INT_RXQ0);
    assert_eq!(b.p.messages.len(), 3);
    assert_eq!(b.read(reg::ICS), 0);
}

#[test]
fn eiame_disables_what_a_message_has_told() {
    let mut b = with_vectors();
    b.write(reg::CTRL_EXT, CTRL_EXT_EIAME);
    b.write(reg::IAM, INT_OTHER);
    b.write(reg::ICS, INT_LSC | INT_RXQ0);
    assert_eq!(b.p.messages.len(), 2);
    assert_eq!(b.read(reg::IMS), INT_RXQ0 | INT_TXQ0);
}

#[test]
fn each_vector_is_throttled_by_itself() {
    let mut b = with_vectors();
    b.write(reg::EIAC, INT_RXQ0 | INT_TXQ0);
    b.write(reg::EITR, 100);
    for _ in 0..2 {
        b.write(reg::ICS, INT_RXQ0 | INT_TXQ0);
    }
    assert_eq!(b.p.messages, [(ns(0), 0), (ns(0), 1), (ns(0), 1)]);
    assert_eq!(b.d.next_due(), Some(ns(25_600)));
    b.settle();
    assert_eq!(b.p.messages.last(), Some(&(ns(25_600), 0)));
    b.write(reg::ICS, INT_RXQ0);
    b.write(reg::EITR, 1);
    assert_eq!(b.d.next_due(), Some(ns(25_856)), "a new interval counts from the same rise");
}

#[test]
fn write_backs_interrupt_without_delay_if_ivar_says_so() {
    for (ivar, delayed) in [(0, true), (IVAR_EVERY_WB, false)] {
        let mut b = up();
        b.write(reg::IVAR, ivar);
        b.write(reg::TIDV, 100);
        b.send(0x8000, &frame(60), 1 << 27 | 1 << 31);
        b.kick();
        let until = b.now + Span::from_us(10);
        b.at(until);
        assert_eq!(b.read(reg::ICR) & INT_TXDW == 0, delayed);
    }
}

#[test]
fn eerd_and_eewr_have_their_own_fields() {
    let mut b = up();
    b.write(reg::EERD, 1 << EERD_ADDR_SHIFT_82574 | EERD_START);
    let mac = Config::I82574L.mac;
    let word = u32::from(u16::from_le_bytes([mac[2], mac[3]]));
    assert_eq!(b.read(reg::EERD), word << 16 | 1 << 2 | EERD_DONE_82574);
    b.write(reg::EEWR, 0x1234 << 16 | 5 << EERD_ADDR_SHIFT_82574 | EERD_START);
    assert_ne!(b.read(reg::EEWR) & EERD_DONE_82574, 0);
    b.write(reg::EERD, 5 << EERD_ADDR_SHIFT_82574 | EERD_START);
    assert_eq!(b.read(reg::EERD) >> 16, 0x1234);
    b.write(reg::EEWR, 0x1234 << 16 | 0x3fff << EERD_ADDR_SHIFT_82574 | EERD_START);
}

#[test]
fn semaphores_are_taken_and_given_back() {
    let mut b = up();
    assert_eq!([b.read(reg::SWSM), b.read(reg::SWSM)], [0, SWSM_SMBI]);
    b.write(reg::SWSM, 0);
    assert_eq!(b.read(reg::SWSM), 0);
    b.write(reg::EXTCNF_CTRL, EXTCNF_SW_OWNER);
    assert_eq!(b.read(reg::EXTCNF_CTRL), EXTCNF_SW_OWNER);
    b.write(reg::CTRL, CTRL_RST);
    assert_eq!(b.read(reg::EXTCNF_CTRL), 0, "the firmware has them after a reset");
}

#[test]
fn the_older_parts_have_none_of_it() {
    let mut b = Bench::up(Config::I82540EM);
    for r in [reg::RFCTL, reg::IVAR, reg::IAM, reg::EIAC, reg::EITR, reg::EEWR, reg::EXTCNF_CTRL] {
        let ignored = b.d.counters.ignored_writes;
        b.write(r, !0);
        assert_eq!((b.read(r), b.d.counters.ignored_writes), (0, ignored + 1), "{r:#x}");
    }
    let mut b = Bench::up(Config::I82574L);
    b.write(reg::PBA, 32);
    assert_eq!(b.read(reg::PBA), 32 | 8 << 16, "40 KiB, where the others have 64");
}
