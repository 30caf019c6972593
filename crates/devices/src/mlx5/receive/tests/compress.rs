//! Blocks of compressed entries, read as Linux reads them.

use super::super::super::Compress;
use super::super::super::tests::frames::{tcp, udp};
use super::*;
use doorbell_layout::mlx5::receive::{MiniArray, MiniCqe, mini_format};

const CAPS: Config = Config::CONNECTX;

fn bench(layout: CompressionLayout, policy: Compress) -> Bench {
    let cfg = Config { compress: policy, ..CAPS };
    let compression = Compression { layout, format: mini_format::CHECKSUM };
    let rq = RqContext { log_size: 6, ..PLAIN };
    let mut b = Bench::compressing(cfg, rq, Some(compression));
    for entry in 0..64 {
        b.p.memory[CQ as usize + entry * 64 + 62] = 0xff;
    }
    b
}

fn policy(most: u16) -> Compress {
    Compress { pressure: 0, wait: Span::from_us(10), most }
}

/// One after another, 100 ns apart.
fn receive(b: &mut Bench, lens: &[usize]) {
    for len in lens {
        b.now += Span::from_ns(100);
        b.receive(&Frame::v4(udp(*len)));
    }
}

fn slot(n: usize) -> usize {
    CQ as usize + n % 64 * 64
}

fn minis(b: &Bench, n: usize) -> [MiniCqe; 8] {
    let bytes = &b.p.memory[slot(n)..slot(n) + 64];
    core::array::from_fn(|i| MiniCqe::read_from_bytes(&bytes[8 * i..8 * i + 8]).unwrap())
}

/// Lengths of the frames of the CQ from entry `cc` on, in the basic layout; the owner bits go back
/// as Linux gives them back.
fn basic(b: &mut Bench, cc: &mut usize) -> Vec<u32> {
    let mut lens = vec![];
    loop {
        let own = b.p.memory[slot(*cc) + 63];
        if own >> 4 == 15 || usize::from(own & 1) != *cc / 64 % 2 {
            return lens;
        }
        let cqe = RxCqe::read_from_bytes(&b.p.memory[slot(*cc)..slot(*cc) + 64]).unwrap();
        let count = cqe.byte_cnt.get() as usize;
        if own >> 2 & 3 == 3 {
            let mut array = minis(b, *cc + 1);
            for i in 0..count {
                if i > 0 && i % 8 == 0 {
                    array = minis(b, *cc + i);
                }
                lens.push(array[i % 8].byte_cnt.get());
            }
            for n in *cc..*cc + count {
                b.p.memory[slot(n) + 63] = (n / 64 % 2) as u8;
            }
            *cc += count;
        } else {
            lens.push(cqe.byte_cnt.get());
            *cc += 1;
        }
        b.put(CQ_DBR, &(*cc as u32).to_be_bytes());
    }
}

#[test]
fn a_block_has_a_title_and_arrays_at_1_8_16() {
    let mut b = bench(CompressionLayout::Basic, policy(20));
    b.post(64);
    let lens: Vec<usize> = (0..20).map(|i| 20 + i).collect();
    receive(&mut b, &lens);
    b.settle();
    let cqes: Vec<_> = b.p.writes.iter().filter(|w| (CQ..RQ).contains(&w.1)).collect();
    let places: Vec<_> = cqes.iter().map(|w| ((w.1 - CQ) / 64, w.2)).collect();
    assert_eq!(places, [(1, 64), (8, 64), (16, 64), (0, 64)], "the title last");
    let seen: Vec<u32> = lens.iter().map(|n| *n as u32 + 42).collect();
    assert_eq!(basic(&mut b, &mut 0), seen);
    assert_eq!((b.d.received().blocks, b.d.received().block_packets), (1, 20));
}

#[test]
fn a_block_ends_after_its_time() {
    let mut b = bench(CompressionLayout::Basic, policy(64));
    b.post(16);
    receive(&mut b, &[20, 30]);
    let begun = ns(100) + CAPS.pipeline_delay;
    b.settle();
    let title = b.p.writes.iter().rfind(|w| (CQ..RQ).contains(&w.1)).unwrap();
    assert_eq!((title.0, title.1), (begun + Span::from_us(10), CQ));
    assert_eq!(basic(&mut b, &mut 0), [62, 72]);
}

#[test]
fn an_entry_that_differs_ends_a_block() {
    let mut b = bench(CompressionLayout::Basic, policy(64));
    b.post(16);
    receive(&mut b, &[20, 20]);
    b.now += Span::from_ns(100);
    b.receive(&Frame::v4(tcp(20)));
    b.settle();
    assert_eq!(basic(&mut b, &mut 0), [62, 62, 74]);
    assert_eq!(b.d.received().block_packets, 2, "one alone is a whole entry");
}

#[test]
fn without_pressure_entries_are_whole() {
    let mut b = bench(CompressionLayout::Basic, Compress { pressure: 8, ..policy(64) });
    b.post(16);
    receive(&mut b, &[20; 10]);
    b.settle();
    assert_eq!(b.d.received().blocks, 0);
    assert_eq!(b.d.counters.cqes, 10);
    assert_eq!(basic(&mut b, &mut 0).len(), 10);
}

#[test]
fn pressure_is_the_writes_on_their_way() {
    let mut b = bench(CompressionLayout::Basic, Compress { pressure: 8, ..policy(64) });
    b.p.write_time = Span::from_ns(750);
    b.post(16);
    receive(&mut b, &[20; 8]);
    b.now += Span::from_us(20);
    receive(&mut b, &[20; 8]);
    b.settle();
    assert_eq!(b.d.received().blocks, 0, "at 100 ns a frame, eight of 750 ns are never on the way");
    b.p.write_time = Span::from_ns(751);
    b.post(16);
    receive(&mut b, &[20; 16]);
    b.settle();
    assert_eq!(b.d.received().blocks, 1);
    assert_eq!(b.d.received().block_packets, 9, "the eighth frame is the first under pressure");
}

#[test]
fn blocks_go_on_over_the_end_of_the_queue() {
    for most in [2, 3, 6, 7, 8, 9, 63, 64] {
        let mut b = bench(CompressionLayout::Basic, policy(most));
        let (mut cc, mut lens) = (0, vec![]);
        for i in 0..300usize {
            b.post(1);
            receive(&mut b, &[20 + i % 50]);
            if i % 7 == 0 {
                b.settle();
                lens.extend(basic(&mut b, &mut cc));
            }
        }
        b.settle();
        lens.extend(basic(&mut b, &mut cc));
        let sent: Vec<u32> = (0..300).map(|i| 62 + i % 50).collect();
        assert_eq!(lens, sent, "blocks of up to {most}");
    }
}

/// The same of the enhanced layout, where entries tell their lap.
fn enhanced(b: &mut Bench, cc: &mut usize) -> Vec<u32> {
    let mut lens = vec![];
    while usize::from(b.p.memory[slot(*cc) + 62]) == (*cc / 64) & 0xff {
        let bytes = &b.p.memory[slot(*cc)..slot(*cc) + 64];
        let array = MiniArray::read_from_bytes(bytes).unwrap();
        if array.op_own >> 2 & 3 == 3 {
            let count = usize::from(array.op_own >> 4) + 1;
            lens.extend(array.frames[..count].iter().map(|f| f.byte_cnt.get()));
            // Linux's `mlx5e_decompress_enhanced_cqe` goes on by as many places.
            *cc += count;
        } else {
            lens.push(RxCqe::read_from_bytes(bytes).unwrap().byte_cnt.get());
            *cc += 1;
        }
        b.put(CQ_DBR, &(*cc as u32).to_be_bytes());
    }
    lens
}

#[test]
fn the_enhanced_layout_has_arrays_of_seven() {
    let mut b = bench(CompressionLayout::Enhanced, policy(64));
    b.post(64);
    receive(&mut b, &[20; 20]);
    b.settle();
    // The title, 7, 7 and 5.
    assert_eq!(b.d.counters.cqes, 4);
    assert_eq!(enhanced(&mut b, &mut 0), [62; 20]);
    assert_eq!((b.d.received().blocks, b.d.received().block_packets), (1, 20));
    let (mut cc, mut seen) = (20, 0);
    for i in 0..2000usize {
        b.post(1);
        receive(&mut b, &[20 + i % 3]);
        if i % 5 == 0 {
            b.settle();
            seen += enhanced(&mut b, &mut cc).len();
        }
    }
    b.settle();
    assert_eq!(seen + enhanced(&mut b, &mut cc).len(), 2000, "over many laps");
}

/// Blocks of eight have the same places in each lap, and six of them are never written. Then blocks
/// are cut short, beyond the laps that a byte tells.
#[test]
fn a_place_that_was_skipped_is_no_entry_of_a_later_lap() {
    for cut in 0..6 {
        let mut b = bench(CompressionLayout::Enhanced, policy(8));
        let (mut cc, mut seen, mut sent) = (0, 0, 0usize);
        while cc < 64 * 520 {
            let n = if (64 * 250..64 * 260).contains(&cc) { 1 + cut } else { 48 };
            b.post(n as u16);
            receive(&mut b, &vec![20; n]);
            b.settle();
            (seen, sent) = (seen + enhanced(&mut b, &mut cc).len(), sent + n);
            assert_eq!(seen, sent, "at {cc}, {cut} more than one");
        }
    }
}

#[test]
fn a_block_without_room_overruns_the_queue() {
    let mut b = bench(CompressionLayout::Basic, policy(64));
    b.post(64);
    receive(&mut b, &[20; 40]);
    b.settle();
    b.post(40);
    // Nobody reads.
    receive(&mut b, &[20; 40]);
    b.settle();
    assert_eq!(b.event(1).event_type, event::CQ_ERROR);
    assert_eq!(b.d.counters.lost_entries, 40);
}

#[test]
fn a_reset_forgets_what_waits() {
    let mut b = bench(CompressionLayout::Basic, policy(64));
    b.post(16);
    receive(&mut b, &[20; 3]);
    b.at(b.now + Span::from_us(1));
    b.d.modify_rq(b.now, b.rqn, RqState::Ready, RqState::Reset).unwrap();
    let before = b.p.writes.len();
    b.settle();
    assert_eq!(b.p.writes.len(), before);
    assert!(b.d.next_due().is_none());
}
