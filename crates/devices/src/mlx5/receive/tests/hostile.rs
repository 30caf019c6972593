//! Whatever a driver posts: no panic, no write outside what it named, bounded work.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Act {
    /// Bytes anywhere in the ring.
    Wqe(u16, [u8; 16]),
    /// A segment that makes sense: length, address, whose key.
    Segment(u16, u32, u64, bool),
    Record(u16),
    Frame(u16, u8),
    Junk(Vec<u8>),
    Time(u32),
    State(u8, u8),
    Arm(u32),
    Consume,
    Hole(u64, u64),
    Repair,
    Rebuild(u8, u8, bool),
    /// A sane driver's recovery from an error.
    Recover,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        1 => (any::<u16>(), any::<[u8; 16]>()).prop_map(|(i, b)| Act::Wqe(i, b)),
        4 => (any::<u16>(), 0u32..3000, BUFFERS..END, prop::bool::weighted(0.95))
            .prop_map(|(i, n, a, good)| Act::Segment(i, n, a, good)),
        4 => prop_oneof![1 => any::<u16>(), 9 => 0u16..40].prop_map(Act::Record),
        20 => (prop_oneof![1 => 0u16..9900, 9 => 0u16..900], any::<u8>())
            .prop_map(|(n, kind)| Act::Frame(n, kind)),
        2 => prop::collection::vec(any::<u8>(), 0..120).prop_map(Act::Junk),
        4 => (0u32..3000).prop_map(Act::Time),
        1 => (0u8..4, 0u8..4).prop_map(|(a, b)| Act::State(a, b)),
        1 => any::<u32>().prop_map(Act::Arm),
        4 => Just(Act::Consume),
        1 => (RQ..END, 0u64..0x3000).prop_map(|(a, n)| Act::Hole(a, n)),
        2 => Just(Act::Repair),
        4 => Just(Act::Recover),
        1 => (0u8..12, 4u8..8, any::<bool>())
            .prop_map(|(size, stride, flush)| Act::Rebuild(size, stride, flush)),
    ]
}

const STATES: [RqState; 4] = [RqState::Reset, RqState::Ready, RqState::Error, RqState::Ready];

/// Every WQE of the ring becomes one good buffer; all of them are posted.
fn fill(b: &mut Bench) {
    let lkey = b.lkey;
    for n in 0..1 << b.rq.log_size {
        let to = BUFFERS + u64::from(n) * 1522 % (END - BUFFERS);
        b.wqe(n, &[(1522, lkey, to)]);
    }
    b.posted = 1 << b.rq.log_size;
    b.record();
}

fn play(acts: &[Act], chunk: u32) {
    let (rx_fifo, writes_outstanding) = (40_000, 4);
    let nic = Config { rx_fetch_chunk: chunk, rx_fifo, writes_outstanding, ..Config::CONNECTX };
    let mut b = Bench::new(nic, PLAIN);
    // Rings that are completed to, and buffers: nothing else is the device's to write.
    b.p.writable = Some(vec![CQ..CQ + (64 << CQ_LOG), EQ..EQ + 64 * 16, BUFFERS..MEMORY as u64]);
    b.p.read_time = Span::from_ns(300);
    fill(&mut b);
    for a in acts {
        match a {
            Act::Wqe(i, bytes) => {
                let at = RQ + u64::from(*i) * 16 % (1 << (b.rq.log_size + b.rq.log_stride));
                b.put(at, bytes);
                // An address that a driver may not name is not this test's matter.
                let whole = b.p.memory[at as usize + 8..at as usize + 16].try_into().unwrap();
                if (0..BUFFERS).contains(&u64::from_be_bytes(whole)) {
                    b.put(at + 8, &[0xff; 8]);
                }
            }
            Act::Segment(i, n, addr, good) => {
                let at = RQ + u64::from(*i) * 16 % (1 << (b.rq.log_size + b.rq.log_stride));
                let lkey = if *good { b.lkey } else { 0x5500 };
                b.put(at, &n.to_be_bytes());
                b.put(at + 4, &lkey.to_be_bytes());
                b.put(at + 8, &addr.to_be_bytes());
            }
            Act::Record(n) => {
                b.posted = *n;
                b.record();
            }
            Act::Frame(n, kind) => {
                let mut f = match kind % 3 {
                    0 => Frame::v4(super::super::super::tests::frames::udp(usize::from(*n))),
                    1 => Frame::v6(super::super::super::tests::frames::tcp(usize::from(*n))),
                    _ => Frame::raw(0x0800, usize::from(*n)),
                };
                if kind & 0x40 != 0 {
                    f = f.tagged(0x8100, 77);
                }
                b.receive(&f);
            }
            Act::Junk(bytes) => {
                b.receive_bytes(bytes);
            }
            Act::Time(n) => {
                let t = b.now + Span::from_ns(u64::from(*n));
                b.at(t);
            }
            Act::State(from, to) => {
                let [from, to] = [from, to].map(|n| STATES[usize::from(*n)]);
                let _ = b.d.modify_rq(b.now, b.rqn, from, to);
            }
            Act::Arm(ci) => b.arm(*ci),
            Act::Consume => while b.poll().is_some() {},
            Act::Hole(at, n) => b.p.hole = *at..*at + *n,
            Act::Repair => b.p.hole = 0..0,
            Act::Recover => {
                let state = b.d.query_rq(b.rqn).unwrap();
                b.d.modify_rq(b.now, b.rqn, state, RqState::Reset).unwrap();
                fill(&mut b);
                b.d.modify_rq(b.now, b.rqn, RqState::Reset, RqState::Ready).unwrap();
            }
            Act::Rebuild(log_size, log_stride, flush_in_error) => {
                let old = b.rqn;
                let c = RqContext {
                    log_size: *log_size,
                    log_stride: *log_stride,
                    flush_in_error: *flush_in_error,
                    ..b.rq
                };
                // Rings of this size lie within the lower memory.
                let c = RqContext { log_size: c.log_size.min(14 - c.log_stride), ..c };
                b.rqn = b.d.create_rq(&c).unwrap();
                b.d.modify_tir(0x2000, TirContext::direct(b.rqn)).unwrap();
                b.d.destroy_rq(old).unwrap();
                b.rq = c;
                fill(&mut b);
                b.d.modify_rq(b.now, b.rqn, RqState::Reset, RqState::Ready).unwrap();
            }
        }
    }
    b.settle();
    assert!(b.d.rx.held == 0, "the FIFO is empty");
    let c = *b.d.received();
    let fates = c.packets
        + c.port_down
        + c.bad_length
        + c.not_steered
        + c.not_ready
        + c.out_of_buffer
        + c.fifo_full;
    assert!(
        c.arrived <= fates + c.discarded + c.errors && fates <= c.arrived,
        "every frame has a fate: {c:?}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn whatever_is_posted_the_device_stays_inside_the_maps(
        acts in prop::collection::vec(act(), 1..120), chunk in 0u32..4,
    ) {
        play(&acts, 64 << chunk);
    }
}
