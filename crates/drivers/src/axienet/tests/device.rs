//! Bring-up, interrupts, errors, PHY, filter, counters.

use super::*;
use crate::{Filter, OpenError};
use doorbell_hal::Span;
use doorbell_layout::axienet::{emmc, fmi, rcw1, stat, tc};

fn channel(b: &Board, at: u32) -> Vec<(u32, u64)> {
    let own = |o: u32| (at..at + 0x30).contains(&o);
    b.writes.iter().filter(|w| w.0 == l::DMA && own(w.1)).map(|w| (w.1 - at, w.2)).collect()
}

#[test]
fn reception_starts_with_all_descriptors_and_transmission_with_none() {
    let (h, _) = open();
    // net_dim begins with 4 packets; 16 us are 16 units at 125 MHz. The first
    // descriptor latches before the channel runs.
    let (rx, tx) = (ring(&h, S2MM), ring(&h, MM2S));
    assert_eq!(
        channel(&h.device, S2MM),
        [
            (dma::CR, 0x1004_7000),
            (dma::CURDESC, rx),
            (dma::CR, 0x1004_7001),
            (dma::TAILDESC, rx + 7 * 64),
        ]
    );
    // 24 packets or 50 us. The reset goes to this channel, and is for both.
    assert_eq!(
        channel(&h.device, MM2S),
        [
            (dma::CR, cr::RESET.into()),
            (dma::CR, 0x3218_7000),
            (dma::CURDESC, tx),
            (dma::CR, 0x3218_7001)
        ]
    );
}

#[test]
fn descriptors_are_on_64_bytes_and_the_last_names_the_first() {
    let (mut h, _) = open();
    for (channel, count) in [(MM2S, 128), (S2MM, 8)] {
        let at = ring(&h, channel);
        assert_eq!(at % 64, 0);
        for i in 0..count {
            let next = u64::from(word(&mut h, channel, i, Descriptor::NEXT_AT));
            assert_eq!(next, at + u64::from((i + 1) % count * 64));
        }
    }
}

#[test]
fn an_address_of_64_bits_is_a_low_and_a_high_half_and_the_tail_a_single_access() {
    let (mut h, mut nic) = open_with(|c| c.address_bits = 40);
    let rx = ring(&h, S2MM);
    let order: Vec<u32> = channel(&h.device, S2MM).iter().map(|w| w.0).collect();
    assert_eq!(order, [dma::CR, dma::CURDESC, dma::CURDESC_MSB, dma::CR, dma::TAILDESC]);
    assert_eq!(channel(&h.device, S2MM)[4], (dma::TAILDESC, rx + 7 * 64));
    let p = packet(&mut h, &[1; 60]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert!(h.device.written(l::DMA, dma::TAILDESC_MSB).is_empty());
}

#[test]
fn an_address_beyond_the_cores_bits_is_not_reachable() {
    let c = Config::new(MAC);
    assert!(
        c.reachable(0xffff_ffc0, 64) && !c.reachable(0xffff_ffc0, 65) && !c.reachable(1 << 32, 1)
    );
    let c = Config { address_bits: 40, ..c };
    assert!(c.reachable(1 << 32, 1) && !c.reachable(1 << 40, 1));
    let c = Config { address_bits: 64, ..c };
    assert!(c.reachable(u64::MAX - 64, 64) && !c.reachable(u64::MAX, 64));
}

#[test]
fn settings_out_of_range_are_refused_with_what_is_allowed() {
    let c = Config::new(MAC);
    let bad = [
        Config { tx_ring: 17, ..c },
        Config { tx_ring: 4097, ..c },
        Config { rx_ring: 0, ..c },
        Config { rx_ring: 4097, ..c },
        Config { mtu: 63, ..c },
        Config { mtu: 9001, ..c },
        // 4096 bytes of memory hold 4074 and 22 of header and FCS.
        Config { mtu: 4075, rx_memory: 4096, ..c },
        Config { address_bits: 31, ..c },
        Config { clock_hz: 0, ..c },
        Config { phy: Some(32), ..c },
        Config { phy: Some(1), mdio_clock_hz: 400_000_000, ..c },
        Config { coalesce: Coalesce { tx_frames: 0, ..Coalesce::LINUX }, ..c },
    ];
    for c in bad {
        let mut h = DirectHost::new(16 << 20, Board::new());
        assert!(
            matches!(Axienet::open(&mut h, &c, c.net_dim()), Err(OpenError::Setting(_))),
            "{c:?}"
        );
        assert!(h.device.writes.is_empty());
    }
    assert_eq!(Config { mtu: 4074, rx_memory: 4096, ..c }.check(), Ok(()));
}

#[test]
fn mdio_is_off_while_the_core_is_reset() {
    let mut h = DirectHost::new(16 << 20, Board::new());
    // As a boot loader may leave it.
    *h.device.mac(mac::MDIO_MC) = mdio::ENABLE | 29;
    let c = config();
    let mut nic = Axienet::open(&mut h, &c, c.net_dim()).unwrap();
    let _ = nic.mdio_read(&mut h, 1, 2);
    nic.restart(&mut h).unwrap();
    assert!(!h.device.mdio_in_reset);
    assert_eq!(
        h.device
            .written(l::DMA, MM2S + dma::CR)
            .iter()
            .filter(|v| **v == u64::from(cr::RESET))
            .count(),
        2
    );
}

#[test]
fn a_core_that_does_not_answer_is_an_error_and_not_a_hang() {
    let c = config();
    for (what, dead) in [
        ("DMA reset", (|b| b.gone = true) as fn(&mut Board)),
        ("DMA reset", |b| b.reset_hangs = true),
        ("PHY reset", |b| b.phy_reset_hangs = true),
    ] {
        let mut h = DirectHost::new(16 << 20, Board::new());
        dead(&mut h.device);
        let start = h.now();
        assert_eq!(Axienet::open(&mut h, &c, c.net_dim()).err(), Some(OpenError::Timeout(what)));
        let took = h.now().since(start);
        assert!(took >= Span::from_ms(50) && took < Span::from_ms(52), "{took}");
    }
}

#[test]
fn options_follow_the_mtu_and_the_mac_makes_and_strips_the_fcs() {
    for (mtu, jumbo) in [(1500, 0), (1501, rcw1::JUMBO)] {
        let mut h = DirectHost::new(16 << 20, Board::new());
        // What a model has after reset.
        *h.device.mac(mac::RCW1) = rcw1::FCS | rcw1::RX | 0x5544;
        *h.device.mac(mac::TC) = tc::FCS;
        let c = Config { mtu, ..config() };
        Axienet::open(&mut h, &c, c.net_dim()).unwrap();
        assert_eq!(*h.device.mac(mac::RCW1), rcw1::RX | rcw1::VLAN | jumbo | 0x5544);
        assert_eq!(*h.device.mac(mac::TC), tc::TX | tc::VLAN | jumbo);
        assert_eq!((*h.device.mac(mac::UAW0), *h.device.mac(mac::UAW1)), (0x3322_1102, 0x5544));
        assert_eq!(*h.device.mac(mac::EMMC), emmc::SPEED_1000);
        assert_eq!(*h.device.mac(mac::IE), int::RX_REJECT | int::RX_FIFO_OVERFLOW);
    }
}

// ---- interrupts ----

#[test]
fn the_handler_writes_status_back_and_takes_two_enables_away() {
    let (mut h, mut nic) = open();
    let before = h.device.writes.len();
    *h.device.dma(S2MM, dma::SR) = 0x0a03_0000;
    assert_eq!(interrupt(&mut h, &mut nic, S2MM, sr::IOC_IRQ | sr::DLY_IRQ), Irq::Poll);
    // All of SR as it was read; threshold, delay and the error interrupt stay in CR.
    assert_eq!(
        h.device.writes[before..],
        [(l::DMA, S2MM + dma::SR, 0x0a03_3000), (l::DMA, S2MM + dma::CR, 0x1004_4001)]
    );
    assert_eq!(nic.poll(&mut h, 64, &mut Up::default()), Poll::Idle);
    assert_eq!(
        h.device.writes.last(),
        Some(&(l::DMA, S2MM + dma::CR, 0x1004_7001)),
        "and the poll gives them back"
    );
    let n = h.device.writes.len();
    assert_eq!(nic.poll(&mut h, 64, &mut Up::default()), Poll::Idle);
    assert_eq!(h.device.writes.len(), n, "to none that has them");
}

#[test]
fn a_channel_without_cause_is_not_ours_and_nothing_is_written() {
    let (mut h, mut nic) = open();
    let before = h.device.writes.len();
    for vector in [line::TX, line::RX, line::MAC, 7] {
        assert_eq!(nic.interrupt(&mut h, vector), Irq::None);
    }
    h.device.gone = true;
    for vector in [line::TX, line::RX, line::MAC] {
        assert_eq!(nic.interrupt(&mut h, vector), Irq::None);
    }
    assert_eq!((h.device.writes.len(), nic.stats().stray_irqs), (before, 6));
}

#[test]
fn a_poll_serves_the_channels_that_interrupted_each_with_its_budget() {
    let (mut h, mut nic) = open();
    let p = packet(&mut h, &[1; 60]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    sent(&mut h, 0);
    (0..3).for_each(|i| arrive(&mut h, i, &[1; 60], 0, 0));
    let mut up = Up::default();
    assert_eq!(interrupt(&mut h, &mut nic, S2MM, sr::IOC_IRQ), Irq::Poll);
    assert_eq!(nic.poll(&mut h, 2, &mut up), Poll::Again);
    assert_eq!((up.sent.len(), up.received.len()), (0, 2));
    assert_eq!(interrupt(&mut h, &mut nic, MM2S, sr::IOC_IRQ), Irq::Poll);
    assert_eq!(
        interrupt(&mut h, &mut nic, MM2S, sr::DLY_IRQ),
        Irq::Handled,
        "a poll is on its way"
    );
    assert_eq!(nic.poll(&mut h, 2, &mut up), Poll::Idle);
    assert_eq!((up.sent.len(), up.received.len()), (1, 3));
    assert_eq!((nic.stats().tx_irqs, nic.stats().rx_irqs), (2, 1));
}

#[test]
fn the_budget_leaves_the_interrupts_off() {
    let (mut h, mut nic) = open();
    (0..2).for_each(|i| arrive(&mut h, i, &[1; 60], 0, 0));
    interrupt(&mut h, &mut nic, S2MM, sr::IOC_IRQ);
    let enables = |h: &mut Host| *h.device.dma(S2MM, dma::CR) & cr::IRQ_ALL;
    assert_eq!(nic.poll(&mut h, 2, &mut Up::default()), Poll::Again);
    assert_eq!(enables(&mut h), cr::ERR_IRQ_EN);
    assert_eq!(nic.poll(&mut h, 2, &mut Up::default()), Poll::Idle);
    assert_eq!(enables(&mut h), cr::IRQ_ALL);
}

#[test]
fn the_macs_interrupts_are_counted_and_cleared() {
    let (mut h, mut nic) = open();
    *h.device.mac(mac::IS) = int::RX_FIFO_OVERFLOW | int::RX_REJECT | int::RX_COMPLETE;
    assert_eq!(nic.interrupt(&mut h, line::MAC), Irq::Handled);
    assert_eq!((nic.stats().rx_missed_errors, nic.stats().rx_rejected), (1, 1));
    assert_eq!(*h.device.mac(mac::IS), int::RX_COMPLETE, "what is not enabled stays");
    assert_eq!(nic.interrupt(&mut h, line::MAC), Irq::None);
}

/// CURDESC of a channel that runs is nothing to count on: Cmplt alone says how far it is.
#[test]
fn where_the_device_is_is_never_read_from_a_register() {
    let (mut h, mut nic) = open();
    for n in 0..300u32 {
        let p = pieces(&mut h, 1 + n as usize % 3);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        let last = tail(&h, MM2S).unwrap() as u32;
        (0..1 + n % 3).for_each(|i| sent(&mut h, (last + 128 - i) % 128));
        arrive(&mut h, n % 8, &[1; 60], 0, 0);
        for channel in [MM2S, S2MM] {
            assert_eq!(interrupt(&mut h, &mut nic, channel, sr::IOC_IRQ), Irq::Poll);
        }
        let mut up = Up::default();
        assert_eq!(nic.poll(&mut h, 64, &mut up), Poll::Idle);
        assert_eq!(up.received.len(), 1);
        up.received.into_iter().for_each(|(p, _)| p.release(&mut h));
        up.sent.into_iter().for_each(|(b, ..)| h.release(b));
    }
    nic.restart(&mut h).unwrap();
    nic.close(&mut h);
    let asked = |r: u32| h.device.reads.iter().any(|at| at.0 == l::DMA && at.1 % S2MM == r);
    assert!(asked(dma::SR) && asked(dma::CR));
    assert!(
        ![dma::CURDESC, dma::CURDESC_MSB, dma::TAILDESC, dma::TAILDESC_MSB].into_iter().any(asked)
    );
}

// ---- errors ----

#[test]
fn an_error_resets_the_core_drops_what_was_queued_and_starts_both_rings_anew() {
    let (mut h, mut nic) = open();
    let groups = [[1, 0, 0x5e, 0, 0, 1]];
    nic.set_filter(
        &mut h,
        &Filter { multicast: groups.to_vec(), promiscuous: true, ..Filter::default() },
    );
    for _ in 0..3 {
        let p = pieces(&mut h, 2);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    }
    arrive(&mut h, 0, &[1; 60], 0, 0);
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    arrive(&mut h, 1, &[2; 60], 0, 0);
    let buffers: Vec<u32> = (0..8).map(|i| word(&mut h, S2MM, i, Descriptor::BUFFER_AT)).collect();
    assert_eq!(
        interrupt(&mut h, &mut nic, MM2S, sr::ERR_IRQ | sr::DMA_SLV_ERR | sr::HALTED),
        Irq::Poll
    );
    assert!(Driver::<Host>::stopped(&nic));
    let p = packet(&mut h, &[1; 60]);
    assert!(matches!(nic.transmit(&mut h, p, false), Tx::Busy(_)));
    assert_eq!(nic.poll(&mut h, 64, &mut Up::default()), Poll::Work);
    // The reset clears the MAC.
    for r in [mac::FMI, mac::RCW1, mac::TC, mac::UAW0, mac::IE, mac::EMMC, mac::FCC] {
        *h.device.mac(r) = 0;
    }
    let before = h.device.writes.len();
    nic.work(&mut h);
    assert!(!Driver::<Host>::stopped(&nic) && nic.is_drained());
    assert_eq!((nic.stats().tx_dropped, nic.stats().recoveries, nic.stats().dma_errors), (3, 1, 1));
    h.device.writes.drain(..before);
    assert_eq!(
        h.device.written(l::DMA, MM2S + dma::CR)[1],
        cr::RESET.into(),
        "stopped first, then reset"
    );
    assert_eq!((tail(&h, S2MM), tail(&h, MM2S)), (Some(7), None));
    for i in 0..8 {
        assert_eq!(
            word(&mut h, S2MM, i, Descriptor::BUFFER_AT),
            buffers[i as usize],
            "buffers stay"
        );
        assert_eq!(word(&mut h, S2MM, i, Descriptor::STATUS_AT), 0);
        assert_eq!(word(&mut h, S2MM, i, Descriptor::APP_AT + 16), 0);
    }
    for i in 0..128 {
        assert_eq!(
            [Descriptor::CONTROL_AT, Descriptor::STATUS_AT].map(|w| word(&mut h, MM2S, i, w)),
            [0, 0]
        );
    }
    assert_eq!(*h.device.mac(mac::RCW1), rcw1::RX | rcw1::VLAN);
    assert_eq!(
        (*h.device.mac(mac::UAW0), *h.device.mac(mac::EMMC)),
        (0x3322_1102, emmc::SPEED_1000)
    );
    assert_eq!(*h.device.mac(mac::IE), 0x18);
    assert_eq!(
        *h.device.mac(mac::FMI) & fmi::PROMISCUOUS,
        fmi::PROMISCUOUS,
        "the filter is set again"
    );
    assert_eq!(h.device.written(l::MAC, mac::AF0), [0x005e_0001]);
    let p = packet(&mut h, &[1; 60]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(tail(&h, MM2S), Some(0));
}

#[test]
fn a_reset_that_fails_is_tried_again() {
    let (mut h, mut nic) = open();
    interrupt(&mut h, &mut nic, S2MM, sr::ERR_IRQ);
    h.device.reset_hangs = true;
    nic.work(&mut h);
    assert!(Driver::<Host>::stopped(&nic));
    assert_eq!(nic.poll(&mut h, 64, &mut Up::default()), Poll::Work);
    h.device.reset_hangs = false;
    nic.work(&mut h);
    assert!(!Driver::<Host>::stopped(&nic));
    assert_eq!(nic.stats().recoveries, 1);
}

#[test]
fn a_restart_latches_the_first_descriptors_while_the_channels_are_halted() {
    let (mut h, mut nic) = open();
    let before = h.device.writes.len();
    nic.restart(&mut h).unwrap();
    h.device.writes.drain(..before);
    let (rx, tx) = (ring(&h, S2MM), ring(&h, MM2S));
    // Stopped, then from the beginning.
    let stop = |word: u64| (dma::CR, word & !u64::from(cr::RS | cr::IRQ_ALL));
    assert_eq!(
        channel(&h.device, S2MM),
        [
            stop(0x1004_7001),
            (dma::CR, 0x1004_7000),
            (dma::CURDESC, rx),
            (dma::CR, 0x1004_7001),
            (dma::TAILDESC, rx + 7 * 64),
        ]
    );
    assert_eq!(
        channel(&h.device, MM2S),
        [
            stop(0x3218_7001),
            (dma::CR, cr::RESET.into()),
            (dma::CR, 0x3218_7000),
            (dma::CURDESC, tx),
            (dma::CR, 0x3218_7001),
        ]
    );
}

#[test]
fn recovery_waits_for_the_receive_buffer_that_could_not_be_had() {
    let (mut h, mut nic) = open();
    let mut hoard = Vec::new();
    while let Ok(b) = h.buffer(1522, Alignment { align: 64, offset: 2 }) {
        hoard.push(b);
    }
    arrive(&mut h, 0, &[1; 60], 0, 0);
    assert_eq!(nic.poll(&mut h, 64, &mut Up::default()), Poll::Work);
    interrupt(&mut h, &mut nic, S2MM, sr::ERR_IRQ);
    nic.work(&mut h);
    assert!(Driver::<Host>::stopped(&nic));
    hoard.into_iter().for_each(|b| h.release(b));
    nic.work(&mut h);
    assert!(!Driver::<Host>::stopped(&nic));
    assert_eq!(tail(&h, S2MM), Some(7));
}

#[test]
fn everything_is_given_back_at_the_end() {
    let (mut h, mut nic) = open();
    let p = pieces(&mut h, 5);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    nic.close(&mut h);
    // All of memory can be had again, in the pieces it was in.
    let b: Vec<Buf> =
        (0..8).map(|_| h.buffer(1522, Alignment { align: 64, offset: 2 }).unwrap()).collect();
    assert!(b.iter().all(|b| b.addr() < 64 << 10), "from the pieces given back");
    assert_eq!(*h.device.mac(mac::RCW1) & rcw1::RX, 0);
}

// ---- PHY and link ----

#[test]
fn mdio_waits_20_ms_and_no_longer() {
    let (mut h, mut nic) = open();
    assert_eq!(nic.mdio_read(&mut h, 1, 2), Ok(0x0141));
    nic.mdio_write(&mut h, 1, 4, 0x0de1).unwrap();
    assert_eq!(nic.mdio_read(&mut h, 1, 4), Ok(0x0de1));
    assert_eq!(nic.mdio_read(&mut h, 32, 2), Err(MdioError::Address));
    // The clock of at most 2.5 MHz runs for the access alone.
    assert_eq!(h.device.written(l::MAC, mac::MDIO_MC)[1..3], [u64::from(mdio::ENABLE | 29), 29]);
    h.device.mdio_dead = true;
    *h.device.mac(mac::MDIO_MCR) = 0;
    let start = h.now();
    assert_eq!(nic.mdio_read(&mut h, 1, 2), Err(MdioError::Timeout));
    let took = h.now().since(start);
    assert!(took >= Span::from_ms(20) && took < Span::from_ms(21), "{took}");
    assert_eq!(*h.device.mac(mac::MDIO_MC) & mdio::ENABLE, 0);
}

#[test]
fn the_link_is_what_both_ends_can_and_is_looked_at_once_a_second() {
    for (registers, link) in [
        ([(9, 0x200), (10, 0x800)], Some((Speed::M1000, true))),
        ([(9, 0x200), (10, 0x400)], Some((Speed::M100, true))),
        ([(5, 0x0081), (10, 0)], Some((Speed::M100, false))),
        ([(5, 0x0041), (10, 0)], Some((Speed::M10, true))),
        ([(1, 0), (10, 0)], None),
    ] {
        let (mut h, mut nic) = open_with(|c| c.phy = Some(1));
        assert_eq!(nic.link(), None);
        registers.into_iter().for_each(|(r, v)| h.device.phy[r] = v);
        nic.work(&mut h);
        assert_eq!(nic.link().map(|l| (l.speed, l.full_duplex)), link);
        let bits = [(10, emmc::SPEED_10), (100, emmc::SPEED_100), (1000, emmc::SPEED_1000)];
        let expected =
            link.map_or(emmc::SPEED_1000, |l| bits.iter().find(|b| b.0 == l.0.mbits()).unwrap().1);
        assert_eq!(*h.device.mac(mac::EMMC), expected);
        let n = h.device.writes.len();
        h.delay(Span::from_ms(999));
        nic.work(&mut h);
        assert_eq!(h.device.writes.len(), n);
        h.delay(Span::from_ms(1));
        nic.work(&mut h);
        assert!(h.device.writes.len() > n);
    }
}

// ---- filter and counters ----

/// The filter: (index, pattern, mask) of entries that are on, and the indexes of those that are
/// off.
type Entries = (Vec<(u32, u64, u64)>, Vec<u32>);

fn filtered(f: &Filter) -> (u32, Entries) {
    let (mut h, mut nic) = open();
    let before = h.device.writes.len();
    nic.set_filter(&mut h, f);
    let (mut on, mut off) = (Vec::new(), Vec::new());
    let mut now = [0u64; 5];
    for (_, r, v) in &h.device.writes[before..] {
        match *r {
            mac::FMI => now[0] = *v,
            mac::AF0 => now[1] = *v,
            mac::AF1 => now[1] |= v << 32,
            mac::AM0 => now[2] = *v,
            mac::AM1 => now[2] |= v << 32,
            mac::FFE if *v == 1 => on.push((now[0] as u32 & 0xff, now[1], now[2])),
            mac::FFE => off.push(now[0] as u32 & 0xff),
            r => panic!("{r:#x}"),
        }
    }
    (now[0] as u32 & fmi::PROMISCUOUS, (on, off))
}

#[test]
fn four_groups_are_filtered_exactly_and_five_are_all_multicast() {
    let group = |n| [0x01, 0, 0x5e, 0, 0, n];
    let groups: Vec<[u8; 6]> = (1..=5).map(group).collect();
    let exact = |n: u64| 0x0000_005e_0001 | n << 40;
    let (promiscuous, entries) =
        filtered(&Filter { multicast: groups[..2].to_vec(), ..Filter::default() });
    assert_eq!(promiscuous, 0);
    let all = 0xffff_ffff_ffff;
    assert_eq!(entries, (alloc::vec![(0, exact(1), all), (1, exact(2), all)], alloc::vec![2, 3]));
    let (_, entries) = filtered(&Filter { multicast: groups[..4].to_vec(), ..Filter::default() });
    assert_eq!((entries.0.len(), entries.1.len()), (4, 0));
    // The group bit of the first byte, for any address.
    let many = (alloc::vec![(0, 1, 1)], alloc::vec![1, 2, 3]);
    assert_eq!(
        filtered(&Filter { multicast: groups.clone(), ..Filter::default() }),
        (0, many.clone())
    );
    assert_eq!(filtered(&Filter { all_multicast: true, ..Filter::default() }), (0, many));
    let none = (Vec::new(), alloc::vec![0, 1, 2, 3]);
    assert_eq!(
        filtered(&Filter { promiscuous: true, ..Filter::default() }),
        (fmi::PROMISCUOUS, none)
    );
}

#[test]
fn counters_go_on_over_a_wrap_of_32_bits_and_over_a_reset() {
    let mut h = DirectHost::new(16 << 20, Board::new());
    *h.device.mac(stat::RX_BYTES) = 0xffff_fff0;
    h.device.phy_reset_hangs = false;
    let c = config();
    let mut nic = Axienet::open(&mut h, &c, c.net_dim()).unwrap();
    *h.device.mac(stat::RX_BYTES) = 0xffff_fff0;
    assert_eq!(nic.hardware(&mut h).rx_bytes, 0xffff_fff0);
    *h.device.mac(stat::RX_BYTES) = 0x10;
    assert_eq!(nic.hardware(&mut h).rx_bytes, 0x1_0000_0010);
    *h.device.mac(stat::RX_BYTES) = 0x20;
    nic.restart(&mut h).unwrap();
    assert_eq!(*h.device.mac(stat::RX_BYTES), 0);
    *h.device.mac(stat::RX_BYTES) = 5;
    assert_eq!(nic.hardware(&mut h).rx_bytes, 0x1_0000_0025);
    // A core that does not count says so in ABILITY.
    *h.device.mac(mac::ABILITY) = 0;
    let mut nic = Axienet::open(&mut h, &c, c.net_dim()).unwrap();
    *h.device.mac(stat::RX_BYTES) = 9;
    assert_eq!(nic.hardware(&mut h), Hardware::default());
}
