//! Errors that halt a channel, and the recovery by a reset.

use super::*;

const QUICK: Config = Config { phy_reset: Span::ZERO, ..Config::ZYNQMP };

/// It has halted with this error, told where, and takes no more work until a reset.
fn halted(mut b: Bench, ch: u32, error: u32, at: u64) {
    b.settle();
    assert_eq!(b.status(ch) & !sr::IOC_IRQ, error | sr::HALTED | sr::ERR_IRQ);
    assert_eq!(b.get(ch + dma::CR) & cr::RS, 0);
    assert_eq!(b.get(ch + dma::CURDESC), at as u32, "the descriptor in error");
    assert!(b.d.line(if ch == MM2S { line::TX } else { line::RX }));
    assert_eq!(b.d.counters.dma_errors, 1);
    let other = MM2S + S2MM - ch;
    assert_eq!(
        b.status(other) & !sr::IOC_IRQ,
        sr::HALTED,
        "the other halts too, with no error of its own"
    );
    b.put(other + dma::CR, run(1, 0));
    assert_eq!(b.get(other + dma::CR) & cr::RS, 0, "and cannot be started");
    b.p.trap = None;
    b.put(ch + dma::SR, !0);
    b.put(ch + dma::CR, run(1, 0));
    b.tail(ch, at + 64);
    b.settle();
    assert_eq!(
        b.status(ch) & (sr::HALTED | sr::ERRORS),
        error | sr::HALTED,
        "errors are cleared by a reset alone"
    );
    b.put(ch + dma::CR, cr::RESET);
    b.after(Span::from_us(1));
    b.bring_up(run(1, 0), run(1, 0));
    b.post(0, 2, 1600);
    let sent = b.sent().len();
    b.send(&frame(99));
    b.receive(&frame(77));
    b.settle();
    assert_eq!(b.sent()[sent..], [frame(99)]);
    assert_eq!(b.received(0, 77), frame(77));
}

#[test]
fn a_descriptor_that_is_done_already() {
    let mut b = Bench::up(QUICK);
    b.send(&frame(60));
    b.settle();
    let at = b.queue_frame(0x8000, &frame(61), [0; 3]);
    let mut d = b.desc(at);
    d.status.set(Descriptor::CMPLT);
    b.set(at, d);
    b.kick();
    halted(b, MM2S, sr::SG_INT_ERR, Bench::tx(1));

    let mut b = Bench::up(QUICK);
    let mut d = b.desc(Bench::rx(0));
    d.status.set(Descriptor::CMPLT);
    b.set(Bench::rx(0), d);
    b.tail(S2MM, Bench::rx(4));
    b.settle();
    assert_eq!(b.p.reads.len(), 1, "what is behind it is not fetched");
    halted(b, S2MM, sr::SG_INT_ERR, Bench::rx(0));
}

#[test]
fn a_length_of_zero() {
    let mut b = Bench::up(QUICK);
    let at = b.piece(0x8000, 0, Descriptor::SOF | Descriptor::EOF);
    b.kick();
    b.settle();
    assert_eq!(b.status_of(at), Descriptor::CMPLT | Descriptor::INT_ERR);
    halted(b, MM2S, sr::DMA_INT_ERR, at);

    let mut b = Bench::up(QUICK);
    b.post(0, 2, 0);
    b.settle();
    assert_eq!(b.status_of(Bench::rx(0)), Descriptor::CMPLT | Descriptor::INT_ERR);
    halted(b, S2MM, sr::DMA_INT_ERR, Bench::rx(0));
}

#[test]
fn data_that_cannot_be_reached() {
    let kinds = [
        (DmaFaultKind::Unmapped, sr::DMA_DEC_ERR, Descriptor::DEC_ERR),
        (DmaFaultKind::Direction, sr::DMA_SLV_ERR, Descriptor::SLV_ERR),
        (DmaFaultKind::Injected, sr::DMA_SLV_ERR, Descriptor::SLV_ERR),
    ];
    for (kind, error, told) in kinds {
        let mut b = Bench::up(QUICK);
        b.p.trap = Some((0x8010, kind));
        let at = b.send(&frame(60));
        b.settle();
        assert_eq!(b.status_of(at), Descriptor::CMPLT | told);
        halted(b, MM2S, error, at);

        let mut b = Bench::up(QUICK);
        b.p.trap = Some((BUFFERS + 10, kind));
        b.post(0, 2, 1600);
        b.receive(&frame(60));
        b.settle();
        assert_eq!(b.status_of(Bench::rx(0)), Descriptor::CMPLT | told);
        halted(b, S2MM, error, Bench::rx(0));
    }
}

#[test]
fn descriptors_that_cannot_be_read() {
    for (kind, error) in
        [(DmaFaultKind::Unmapped, sr::SG_DEC_ERR), (DmaFaultKind::Injected, sr::SG_SLV_ERR)]
    {
        let mut b = Bench::up(QUICK);
        b.p.trap = Some((Bench::tx(0), kind));
        b.send(&frame(60));
        halted(b, MM2S, error, Bench::tx(0));

        let mut b = Bench::up(QUICK);
        b.p.trap = Some((Bench::rx(0), kind));
        b.post(0, 2, 1600);
        halted(b, S2MM, error, Bench::rx(0));
    }
}

#[test]
fn descriptors_that_cannot_be_written() {
    let mut b = Bench::up(QUICK);
    b.p.read_time = Span::from_us(1);
    let at = b.send(&frame(60));
    b.at(ns(1900));
    b.p.trap = Some((at + 0x1c, DmaFaultKind::Injected));
    halted(b, MM2S, sr::SG_SLV_ERR, at);

    let mut b = Bench::up(QUICK);
    b.post(0, 1, 1600);
    b.settle();
    b.p.trap = Some((Bench::rx(0) + 0x1c, DmaFaultKind::Unmapped));
    b.receive(&frame(60));
    halted(b, S2MM, sr::SG_DEC_ERR, Bench::rx(0));
}

#[test]
fn an_unaligned_buffer_without_realignment() {
    let aligned_only = Config { realign: false, ..QUICK };
    let mut b = Bench::up(aligned_only);
    b.queue_frame(0x8004, &frame(60), [0; 3]);
    b.kick();
    b.settle();
    assert_eq!(b.sent().len(), 1, "words are enough");
    let at = b.queue_frame(0x8002, &frame(60), [0; 3]);
    b.kick();
    halted(b, MM2S, sr::DMA_INT_ERR, at);
    let mut b = Bench::up(QUICK);
    b.queue_frame(0x8003, &frame(60), [0; 3]);
    b.kick();
    b.settle();
    assert_eq!(b.sent().len(), 1);
}

#[test]
fn what_was_done_before_an_error_stays_done() {
    let mut b = Bench::up(QUICK);
    b.p.write_time = Span::from_us(5);
    b.queue_frame(0x8000, &frame(60), [0; 3]);
    let bad = b.piece(0x9000, 0, Descriptor::SOF | Descriptor::EOF);
    b.kick();
    b.after(Span::from_us(2));
    assert_eq!(
        b.status(MM2S) & (sr::HALTED | sr::ERRORS),
        sr::DMA_INT_ERR,
        "its update is under way"
    );
    b.settle();
    assert_eq!(b.status(MM2S), sr::DMA_INT_ERR | sr::HALTED | sr::ERR_IRQ | sr::IOC_IRQ);
    assert_eq!((b.status_of(Bench::tx(0)), b.sent().len()), (Descriptor::CMPLT | 60, 1));
    assert_eq!(b.get(MM2S + dma::CURDESC), bad as u32);
}

#[test]
fn an_error_interrupts_only_when_it_may() {
    let mut b = Bench::new(QUICK);
    b.bring_up(run(1, 0) & !cr::ERR_IRQ_EN, run(1, 0));
    b.piece(0x8000, 0, Descriptor::SOF | Descriptor::EOF);
    b.kick();
    b.settle();
    assert!(!b.d.line(line::TX));
    b.put(MM2S + dma::CR, cr::ERR_IRQ_EN);
    assert!(b.d.line(line::TX));
}
