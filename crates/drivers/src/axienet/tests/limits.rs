//! Packets and frames that stand exactly on a limit, and one beyond it.

use super::*;
use crate::axienet::rx::partial_checksum;
use doorbell_bus::{Bus as _, Costs, Machine, Platform, ProtectionGranularity};
use doorbell_hal::{Span, WorkKind};
use doorbell_packet::checksum::Sum;
use doorbell_testkit::ConstantLatencyBus;

const TCP: CsumPartial = CsumPartial { start: 34, offset: 16 };

#[test]
fn a_checksum_field_ends_where_the_head_ends() {
    for (len, queued) in [(52, true), (51, false)] {
        let (mut h, mut nic) = open();
        let mut p = pieces(&mut h, 3);
        p.head.len = len;
        p.todo.checksum = Some(TCP);
        assert_eq!(nic.transmit(&mut h, p, false) == Tx::Ok, queued, "a head of {len}");
    }
}

#[test]
fn a_packet_out_of_reach_is_given_back_as_it_was() {
    // Memory begins within reach of 32 bits and ends beyond.
    let from = (1u64 << 32) - (64 << 20);
    let platform = Platform::new(from, 80 << 20, ProtectionGranularity::Byte);
    let mut h =
        Machine::new(ConstantLatencyBus::new(platform, Span::ZERO), Board::new(), Costs::FREE, 1);
    let c = config();
    let mut nic = Axienet::open(&mut h, &c, c.net_dim()).unwrap();
    let mut hoard = Vec::new();
    let far = loop {
        let b = h.buffer(1 << 20, Alignment::ANY).unwrap();
        if b.addr() >> 32 != 0 {
            break b;
        }
        hoard.push(b);
    };
    let frags = alloc::vec![Fragment { buf: far, start: 0, len: 100 }];
    let head = Fragment { buf: hoard.pop().unwrap(), start: 0, len: 100 };
    let mut p = Packet { cookie: 3, ..Packet::linear(head) };
    p.more = Some(Box::new(NonLinear { frags, list: Vec::new() }));
    p.todo.checksum = Some(TCP);
    let Tx::Dropped(back) = nic.transmit(&mut h, p, false) else { panic!("sent") };
    assert_eq!((back.len(), back.cookie), (200, 3));
    assert_eq!(back.todo, OffloadRequest { checksum: Some(TCP), ..OffloadRequest::NONE });
    back.release(&mut h);
    hoard.into_iter().for_each(|b| h.release(b));
    nic.close(&mut h);
    let l = &h.ledger();
    assert_eq!((l.maps, l.buffers_taken), (l.unmaps, l.buffers_released));
}

#[test]
fn a_stopped_queue_counts_each_call_and_wakes_once() {
    let (mut h, mut nic) = open_with(|c| c.bql = false);
    // 128 descriptors. It stops when 18 and one to spare are not free.
    let mut n = 0u64;
    while !Driver::<Host>::stopped(&nic) {
        let p = packet(&mut h, &[1; 60]);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        n += 1;
    }
    assert_eq!(n, 110);
    for _ in 0..3 {
        let p = packet(&mut h, &[1; 60]);
        assert!(matches!(nic.transmit(&mut h, p, false), Tx::Busy(_)));
    }
    let s = nic.stats();
    assert_eq!((s.tx_queued, s.tx_busy, s.tx_stopped, s.tx_restart_queue), (n, 3, 1, 0));
    sent(&mut h, 0);
    let mut up = Up::default();
    let _ = nic.poll(&mut h, 64, &mut up);
    assert_eq!((up.sent.len(), nic.stats().tx_restart_queue), (1, 1), "19 are free");
}

#[test]
fn a_dropped_packet_ends_a_batch_as_any_other() {
    for (more, tails) in [(true, 0), (false, 1)] {
        let (mut h, mut nic) = open_with(|c| c.batch = true);
        let p = packet(&mut h, &[7; 100]);
        assert_eq!(nic.transmit(&mut h, p, true), Tx::Ok);
        let p = packet(&mut h, &[7; 13]);
        assert!(matches!(nic.transmit(&mut h, p, more), Tx::Dropped(_)));
        assert_eq!(rings(&h, MM2S), tails);
    }
}

#[test]
fn an_alarm_asks_for_a_poll_if_a_reset_has_dropped_packets() {
    for (packets, answer) in [(0, Irq::None), (2, Irq::Poll)] {
        let (mut h, mut nic) = open();
        for _ in 0..packets {
            let p = packet(&mut h, &[7; 100]);
            assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        }
        assert_eq!(nic.alarm(&mut h, crate::Alarm::TxTimeout), Irq::Poll);
        assert_eq!(nic.alarm(&mut h, crate::Alarm::Tick), answer, "{packets} were queued");
        let mut up = Up::default();
        let _ = nic.poll(&mut h, 64, &mut up);
        assert_eq!((up.sent.len(), nic.stats().tx_dropped), (packets, packets as u64));
    }
}

#[test]
fn only_whole_reports_count_as_frames_lost() {
    let (mut h, nic) = open();
    arrive(&mut h, 0, &[1; 60], 0, 0);
    // Not reported, whatever else is there; and reported without an end.
    set_word(&mut h, S2MM, 1, Descriptor::STATUS_AT, Descriptor::EOF | 60);
    set_word(&mut h, S2MM, 2, Descriptor::STATUS_AT, Descriptor::CMPLT | Descriptor::SOF | 60);
    set_word(&mut h, S2MM, 3, Descriptor::STATUS_AT, Descriptor::CMPLT | Descriptor::EOF);
    assert_eq!(nic.close(&mut h).rx_lost, 2);
}

/// Takes all memory that receive buffers could have.
fn hoard(h: &mut Host) -> Vec<Buf> {
    let place = Alignment { align: 64, offset: 2 };
    core::iter::from_fn(|| h.buffer(1522, place).ok()).collect()
}

#[test]
fn a_frame_that_came_up_is_not_lost() {
    let (mut h, mut nic) = open();
    hoard(&mut h);
    (0..3).for_each(|i| arrive(&mut h, i, &[1; 60], 0, 0));
    let mut up = Up::default();
    for _ in 0..3 {
        assert_eq!((nic.poll(&mut h, 64, &mut up), up.received.len()), (Poll::Work, 1));
    }
    assert_eq!(nic.close(&mut h).rx_lost, 2, "those behind it");
}

#[test]
fn a_lost_frame_is_counted_once_however_late_memory_comes() {
    let (mut h, mut nic) = open();
    let hoard = hoard(&mut h);
    (0..3).for_each(|i| arrive(&mut h, i, &[1; 60], 0, 0));
    assert_eq!(nic.poll(&mut h, 64, &mut Up::default()), Poll::Work);
    interrupt(&mut h, &mut nic, S2MM, sr::ERR_IRQ);
    for _ in 0..3 {
        nic.work(&mut h);
        assert_eq!((nic.stats().rx_lost, nic.stats().recoveries), (2, 0));
    }
    hoard.into_iter().for_each(|b| h.release(b));
    nic.work(&mut h);
    assert_eq!((nic.stats().rx_lost, nic.stats().recoveries), (2, 1));
    assert_eq!(nic.close(&mut h).rx_lost, 2);
}

/// A TCP frame with right checksums, and `padding` bytes behind its datagram.
fn tcp(padding: usize) -> Vec<u8> {
    let mut f = alloc::vec![0u8; 54];
    f[12..14].copy_from_slice(&[8, 0]);
    f[14..24].copy_from_slice(&[0x45, 0, 0, 40, 0x12, 0x34, 0x40, 0, 64, 6]);
    f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    f[46] = 0x50;
    let check = Sum::of(&f[14..34]).checksum();
    f[24..26].copy_from_slice(&check.to_be_bytes());
    let layers = doorbell_packet::headers::prepare_partial(&mut f).unwrap();
    layers.complete(&mut f).unwrap();
    f.extend((0..padding).map(|i| i as u8 + 1));
    f
}

#[test]
fn the_cpu_sums_the_header_before_the_transport_and_the_padding() {
    for padding in [0, 1, 6] {
        let f = tcp(padding);
        let verdict = partial_checksum(Sum::of(&f[14..]).value(), &f);
        assert_eq!(verdict, (Some(true), 20 + padding as u32));
    }
    assert_eq!(partial_checksum(0, &[0; 60]), (None, 0), "no IP");
}

#[test]
fn summing_and_completing_are_charged_if_they_were_done() {
    let platform = Platform::new(64 << 20, 16 << 20, ProtectionGranularity::Byte);
    let mut h =
        Machine::new(ConstantLatencyBus::new(platform, Span::ZERO), Board::new(), Costs::FREE, 1);
    let c = Config { rx_checksum: Checksum::CsumPartial, ..config() };
    let mut nic = Axienet::open(&mut h, &c, c.net_dim()).unwrap();
    let ring = |h: &Machine<ConstantLatencyBus, Board>, channel: u32| {
        *h.device.written(l::DMA, channel + dma::CURDESC).last().unwrap()
    };
    // A frame without IP, and one with a verdict.
    let rx = ring(&h, S2MM);
    let memory = &mut h.bus.platform_mut().memory;
    for (i, f) in [alloc::vec![0; 60], tcp(6)].into_iter().enumerate() {
        let d = rx + i as u64 * 64;
        let buffer: [u8; 4] =
            memory.cpu(d + u64::from(Descriptor::BUFFER_AT), 4).try_into().unwrap();
        memory.cpu(u32::from_le_bytes(buffer).into(), f.len()).copy_from_slice(&f);
        let sum = u32::from(Sum::of(&f[14..]).value());
        let app = d + u64::from(Descriptor::APP_AT);
        memory.cpu(app + 12, 4).copy_from_slice(&sum.to_le_bytes());
        memory.cpu(app + 16, 4).copy_from_slice(&(f.len() as u32).to_le_bytes());
        let status = Descriptor::CMPLT | Descriptor::SOF | Descriptor::EOF | f.len() as u32;
        let at = d + u64::from(Descriptor::STATUS_AT);
        memory.cpu(at, 4).copy_from_slice(&status.to_le_bytes());
    }
    let mut up = Up::default();
    for _ in 0..3 {
        let _ = nic.poll(&mut h, 64, &mut up);
    }
    assert_eq!(up.received.iter().map(|r| r.1).collect::<Vec<_>>(), [false, true]);
    let (sums, done) = (h.done(WorkKind::Sum), h.done(WorkKind::TxDone));
    assert_eq!((sums.times, sums.units), (1, 26), "20 bytes of header, 6 of padding");
    assert_eq!((done.times, done.units), (0, 0));
    let s = nic.stats();
    assert_eq!((s.rx_packets, s.rx_bytes, s.rx_csum_good, s.rx_csum_bad), (2, 120, 1, 0));
    up.received.into_iter().for_each(|(p, _)| p.release(&mut h));
    nic.close(&mut h);
}
