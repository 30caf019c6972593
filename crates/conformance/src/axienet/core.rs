//! The cores without their rings: MDIO, filter, counters, reset, errors.

use super::harness::Harness;
use super::{Backend, Capability};
use crate::frames::{PEER, plain};
use doorbell_drivers::axienet::{Config, MdioError};
use doorbell_drivers::{Driver, Filter, Irq, Poll, Tx};
use doorbell_hal::{Fence, Host, Reg, Span};
use doorbell_layout::axienet::{
    DESCRIPTOR, DMA, Descriptor, MAC, MM2S, S2MM, cr, dma, line, mac, rcw1, sr,
};
use doorbell_packet::{OffloadRequest, Packet};

/// The PHY `c.phy`, with identifier `id`, whose link is up.
pub fn mdio<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config, id: u32) {
    let mut b = Harness::open(h, a, c);
    let phy = c.phy.unwrap();
    let read = |b: &mut Harness<'_, H, A>, r| b.nic.mdio_read(b.h, phy, r).unwrap();
    assert_eq!(u32::from(read(&mut b, 2)) << 16 | u32::from(read(&mut b, 3)), id);
    assert_eq!(b.nic.mdio_read(b.h, (phy + 1) % 32, 2), Ok(0xffff), "nobody drives the line");
    assert_eq!(b.nic.mdio_read(b.h, 32, 2), Err(MdioError::Address));
    let advertised = read(&mut b, 4);
    b.nic.mdio_write(b.h, phy, 4, 0x0101).unwrap();
    assert_eq!(read(&mut b, 4), 0x0101);
    b.nic.mdio_write(b.h, phy, 4, advertised).unwrap();
    b.a.wait(b.h, Span::from_ms(2500));
    b.nic.work(b.h);
    b.a.wait(b.h, Span::from_ms(1001));
    b.nic.work(b.h);
    let link = b.nic.link().expect("the link is up");
    assert!(link.full_duplex && link.speed.mbits() >= 100, "{link:?}");
    b.close();
}

/// Unicast, broadcast, groups, all groups, everything.
pub fn filter<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, c);
    let mac = b.nic.mac();
    let groups: Vec<[u8; 6]> = (1..=5).map(|n| [0x01, 0, 0x5e, 0, n * 37, n]).collect();
    let other = [0x02, 0, 0, 0, 0, 0x55];
    let stranger = [0x01, 0, 0x5e, 0x7f, 0x11, 0xfb];
    let to = [mac, [0xff; 6], other, groups[0], groups[3], stranger];
    let check = |b: &mut Harness<'_, H, A>, f: &Filter, expected: [bool; 6]| {
        b.nic.set_filter(b.h, f);
        assert_eq!(to.map(|to| !b.receive(&plain(to, 100)).is_empty()), expected, "{f:?}");
    };
    let own = [true, true, false, false, false, false];
    check(&mut b, &Filter::default(), own);
    check(
        &mut b,
        &Filter { multicast: groups[..4].to_vec(), ..Filter::default() },
        [true, true, false, true, true, false],
    );
    check(&mut b, &Filter { promiscuous: true, ..Filter::default() }, [true; 6]);
    if b.a.has("filter", Capability::FilterMask) {
        let all = [true, true, false, true, true, true];
        check(&mut b, &Filter { multicast: groups.clone(), ..Filter::default() }, all);
        check(&mut b, &Filter { all_multicast: true, ..Filter::default() }, all);
        check(
            &mut b,
            &Filter { multicast: groups[..1].to_vec(), ..Filter::default() },
            [true, true, false, true, false, false],
        );
        check(&mut b, &Filter::default(), own);
    }
    b.close();
}

/// The MAC counts sent and received frames, and resets keep the counts.
pub fn statistics<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, &Config { statistics: Some(true), ..*c });
    let mac = b.nic.mac();
    for len in [60, 100, 1514] {
        b.send(&plain(PEER, len), &[], OffloadRequest::NONE);
    }
    assert_eq!(b.wire().len(), 3);
    b.sent();
    for to in [mac, mac, [0xff; 6]] {
        assert_eq!(b.receive(&plain(to, 200)).len(), 1);
    }
    let s = b.nic.hardware(b.h);
    assert_eq!((s.rx_good, s.rx_broadcast), (3, 1));
    // Models differ in whether the FCS counts.
    assert!([600, 612].contains(&s.rx_bytes) && [1674, 1686].contains(&s.tx_bytes), "{s:?}");
    if b.a.has("statistics", Capability::TxStatistics) {
        assert_eq!(s.tx_good, 3);
    }
    assert_eq!(b.nic.hardware(b.h), s);
    if b.a.has("statistics", Capability::ResetOfAll) {
        b.nic.restart(b.h).unwrap();
        assert_eq!(b.nic.hardware(b.h), s);
        assert_eq!(b.receive(&plain(mac, 200)).len(), 1);
        assert_eq!(b.nic.hardware(b.h).rx_good, 4);
    }
    b.close();
}

/// Reset in the middle, of both channels; close, and open again.
pub fn reset<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    for channel in [MM2S, S2MM] {
        let mut b = Harness::open(h, a, c);
        let f = plain(PEER, 400);
        b.send(&f, &[], OffloadRequest::NONE);
        assert_eq!(b.wire(), std::slice::from_ref(&f));
        b.sent();
        for at in [MM2S, S2MM] {
            assert_eq!(b.dma(at, dma::SR) & sr::HALTED, 0);
        }
        b.set_dma(channel, dma::CR, cr::RESET);
        b.a.wait(b.h, Span::from_ms(1));
        let all = b.a.has("reset", Capability::ResetOfAll);
        for at in [MM2S, S2MM] {
            if at == channel || all {
                // One packet, no delay, nothing enabled. (Bit 1 says that there are tail pointers.)
                assert_eq!(b.dma(at, dma::CR) & !2, 1 << cr::THRESHOLD_SHIFT);
                assert_eq!(b.dma(at, dma::SR) & (sr::HALTED | sr::IDLE | sr::IRQ_ALL), sr::HALTED);
            }
        }
        if all {
            let v = b.h.read32(Reg { region: MAC, offset: mac::IE });
            assert_eq!(v, 0, "the MAC as well");
        }
        // Announced to a channel that does not run it is dropped, and sent by one that does.
        let sent = channel == S2MM && !all;
        b.send(&f, &[], OffloadRequest::NONE);
        b.nic.restart(b.h).unwrap();
        assert!(b.nic.is_drained());
        assert_eq!(b.a.collect(b.h).is_some(), sent, "a channel that is reset sends nothing");
        b.send(&plain(PEER, 300), &[14], OffloadRequest::NONE);
        assert_eq!(b.wire(), [plain(PEER, 300)], "only what was sent after it");
        b.sent();
        let own = b.nic.mac();
        for _ in 0..3 {
            assert_eq!(b.receive(&plain(own, 90)).len(), 1);
        }
        let v = b.h.read32(Reg { region: MAC, offset: mac::RCW1 });
        assert_eq!(v & (rcw1::RX | rcw1::FCS), rcw1::RX);
        let s = b.close();
        assert_eq!((s.recoveries, s.tx_dropped), (1, u64::from(!sent)));
    }
}

/// Has a channel fetch a descriptor at `at`, which is not of its ring.
fn misdirect<H: Host, A: Backend<H>>(b: &mut Harness<'_, H, A>, at: u64) {
    if b.a.has("misdirect", Capability::CurrentLatches) {
        // CURDESC cannot be moved under a running channel.
        b.set_dma(MM2S, dma::CURDESC, at as u32);
        b.send(&plain(PEER, 100), &[], OffloadRequest::NONE);
        assert_eq!(b.wire(), [plain(PEER, 100)]);
        b.sent();
    }
    let word = b.dma(MM2S, dma::CR);
    b.set_dma(MM2S, dma::CR, word & !cr::RS);
    b.a.wait(b.h, Span::from_us(10));
    if b.a.has("misdirect", Capability::StopHalts) {
        assert_ne!(b.dma(MM2S, dma::SR) & sr::HALTED, 0);
    }
    let wide = b.nic.config().address_bits > 32;
    b.set_dma(MM2S, dma::CURDESC, at as u32);
    if wide {
        b.set_dma(MM2S, dma::CURDESC_MSB, (at >> 32) as u32);
    }
    b.set_dma(MM2S, dma::CR, word);
    if wide {
        b.h.write64(Reg { region: DMA, offset: MM2S + dma::TAILDESC }, at);
    } else {
        b.set_dma(MM2S, dma::TAILDESC, at as u32);
    }
    b.a.wait(b.h, Span::from_us(10));
}

/// The channel has halted with `error` in SR; the driver hears of it, resets all, and goes on.
fn recovers<H: Host, A: Backend<H>>(mut b: Harness<'_, H, A>, error: u32) {
    let expected = sr::HALTED | sr::ERR_IRQ | error;
    assert_eq!(b.dma(MM2S, dma::SR) & (sr::HALTED | sr::ERR_IRQ | sr::ERRORS), expected);
    assert!(b.line(line::TX));
    assert_eq!(b.nic.interrupt(b.h, line::TX), Irq::Poll);
    assert!(Driver::<H>::stopped(&b.nic));
    let p = Packet { cookie: 0, ..b.packet(&plain(PEER, 60), &[], OffloadRequest::NONE) };
    match b.nic.transmit(b.h, p, false) {
        Tx::Busy(p) => p.release(b.h),
        other => panic!("{other:?}"),
    }
    assert_eq!(b.nic.poll(b.h, 64, &mut b.up), Poll::Work);
    b.nic.work(b.h);
    assert!(!Driver::<H>::stopped(&b.nic));
    goes_on(&mut b);
    let s = b.close();
    assert_eq!((s.dma_errors, s.recoveries), (1, 1));
}

fn goes_on<H: Host, A: Backend<H>>(b: &mut Harness<'_, H, A>) {
    let own = b.nic.mac();
    for len in [60, 1514] {
        assert_eq!(b.receive(&plain(own, len)).len(), 1);
        b.send(&plain(PEER, len), &[20], OffloadRequest::NONE);
        assert_eq!(b.wire(), [plain(PEER, len)]);
        b.sent();
    }
}

/// A descriptor that is done already halts its channel, and nothing is sent.
pub fn done_descriptor<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, c);
    let own = b.h.coherent(DESCRIPTOR, DESCRIPTOR).unwrap();
    let at = own.iova().0;
    let (low, high) = ((at as u32).into(), ((at >> 32) as u32).into());
    let done = Descriptor {
        next: low,
        next_msb: high,
        buffer: low,
        buffer_msb: high,
        control: (60 | Descriptor::SOF | Descriptor::EOF).into(),
        status: Descriptor::CMPLT.into(),
        ..Descriptor::default()
    };
    b.h.store(&own, 0, done);
    b.h.fence(Fence::Write);
    misdirect(&mut b, at);
    assert_ne!(b.dma(MM2S, dma::SR) & sr::HALTED, 0);
    assert_eq!(b.a.collect(b.h), None);
    assert_eq!(b.h.load::<Descriptor>(&own, 0), done);
    b.h.release_coherent(own);
    if b.a.has("done_descriptor", Capability::DoneIsError) {
        recovers(b, sr::SG_INT_ERR);
    } else {
        b.nic.restart(b.h).unwrap();
        goes_on(&mut b);
        b.close();
    }
}

/// A descriptor where no memory is halts its channel.
pub fn bus_error<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    if !a.has("bus_error", Capability::BusErrors) {
        return;
    }
    let mut b = Harness::open(h, a, c);
    misdirect(&mut b, 0xffff_ff00);
    recovers(b, sr::SG_DEC_ERR);
}
