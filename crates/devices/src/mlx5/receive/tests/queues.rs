//! Queues: fetching, doorbell records, moderation, several of them.

use super::super::super::rss::{Dispatch, HashFn, TirContext};
use super::super::super::steering::{Fields, tests::any_frame};
use super::super::super::tests::frames::{Frame, tcp, udp};
use super::*;
use doorbell_hal::DropReason;
use doorbell_layout::mlx5::CmdStatus;
use doorbell_layout::mlx5::receive::hash_field;
use doorbell_layout::mlx5::steering::{PARAM, criteria};
use proptest::prelude::*;

/// Reads of WQEs and of the doorbell record.
fn reads(b: &Bench) -> (Vec<usize>, usize) {
    let end = b.rq.ring + (1 << (b.rq.log_size + b.rq.log_stride));
    let wqes = b.p.reads.iter().filter(|r| (b.rq.ring..end).contains(&r.1)).map(|r| r.2).collect();
    (wqes, b.p.reads.iter().filter(|r| r.1 == b.rq.dbr).count())
}

#[test]
fn wqes_are_fetched_in_chunks_and_ahead() {
    let cfg = Config { rx_fetch_chunk: 64, ..Config::CONNECTX };
    let mut b = Bench::new(cfg, PLAIN);
    b.post(16);
    let f = Frame::v4(udp(10));
    b.receive(&f);
    assert_eq!(reads(&b), (vec![64], 1), "four WQEs; the record was read once");
    b.receive(&f);
    assert_eq!(reads(&b), (vec![64, 64], 1), "half of them are left: four more");
    for _ in 2..14 {
        b.receive(&f);
    }
    assert_eq!(reads(&b).0, [64; 4]);
    assert_eq!(b.d.received().fetched_bytes, 256);
    for _ in 14..16 {
        assert_eq!(b.receive(&f), RxVerdict::Yes);
    }
    b.settle();
    for i in 0..16 {
        assert_eq!(b.poll().unwrap().wqe_counter.get(), i);
    }
}

#[test]
fn a_fetch_ends_at_the_rings_end() {
    let mut b = Bench::new(Config { rx_fetch_chunk: 128, ..Config::CONNECTX }, PLAIN);
    let f = Frame::v4(udp(10));
    b.post(5);
    for _ in 0..5 {
        b.receive(&f);
    }
    b.post(16);
    for _ in 0..16 {
        assert_eq!(b.receive(&f), RxVerdict::Yes);
    }
    assert!(b.p.reads.iter().all(|r| r.1 + r.2 as u64 <= RQ + 256));
    b.settle();
    for i in 0..21 {
        assert_eq!(b.poll().unwrap().wqe_counter.get(), i);
    }
}

#[test]
fn a_fetch_ends_where_the_rings_piece_ends() {
    let cfg = Config { rx_fetch_chunk: 8192, ..Config::CONNECTX };
    let mut b = Bench::new(cfg, RqContext { log_size: 9, ..PLAIN });
    let second = RQ + 0x2000;
    let pages = [RQ, second].map(u64::to_be_bytes).concat();
    let rq = Rq::new(b.rq, Ring::new(&pages, 12, 0x2000).unwrap(), &Rqc::ZERO, 8192);
    b.rqn = b.d.rx.rqs.insert(rq, LIMIT).unwrap();
    b.d.modify_rq(b.now, b.rqn, RqState::Reset, RqState::Ready).unwrap();
    b.d.modify_tir(0x2000, TirContext::direct(b.rqn)).unwrap();
    for n in [100, 200] {
        let first = b.post(n).posted - n;
        let beyond = b.memory(RQ + 0x1000, 0x1000).to_vec();
        b.put(second, &beyond);
        b.put(RQ + 0x1000, &[0; 0x1000]);
        for i in first..first + n {
            assert_eq!(b.receive(&Frame::v4(udp(10))), RxVerdict::Yes);
            b.settle();
            assert_eq!(b.poll().unwrap().wqe_counter.get(), i);
        }
    }
    let wqes: Vec<_> = b.p.reads.iter().filter(|r| r.1 >= RQ).map(|r| (r.1, r.2)).collect();
    assert_eq!(wqes, [(RQ, 100 * 16), (RQ + 100 * 16, 156 * 16), (second, 44 * 16)]);
}

#[test]
fn a_frame_waits_for_its_wqe() {
    let mut b = Bench::plain();
    b.p.read_time = Span::from_ns(700);
    b.post(4);
    b.receive(&Frame::v4(udp(10)));
    b.settle();
    assert_eq!(b.p.writes[0].0, ns(1400), "the record, then the WQE");
    b.at(ns(5000)).receive(&Frame::v4(udp(10)));
    b.settle();
    let second = b.p.writes.iter().find(|w| w.1 == BUFFERS + BUFFER).unwrap().0;
    assert_eq!(second, ns(5000) + Config::CONNECTX.pipeline_delay, "it was on chip");
}

#[test]
fn without_a_wqe_a_frame_is_lost_and_counted_in_the_queues_set() {
    let mut b = Bench::plain();
    assert_eq!(b.receive(&Frame::v4(udp(1))), RxVerdict::Dropped(DropReason::NoBuffer));
    b.post(1);
    assert_eq!(b.receive(&Frame::v4(udp(1))), RxVerdict::Yes);
    assert_eq!(b.receive(&Frame::v4(udp(1))), RxVerdict::Dropped(DropReason::NoBuffer));
    assert_eq!(b.d.received().out_of_buffer, 2);
    assert_eq!(b.d.rx.out_of_buffer(4, true), 0);
    assert_eq!(b.d.rx.out_of_buffer(3, true), 2);
    assert_eq!(b.d.rx.out_of_buffer(3, false), 0);
}

#[test]
fn the_drop_queue_of_one_wqe_never_takes_a_frame() {
    let mut b = Bench::new(Config::CONNECTX, RqContext { log_size: 0, ..PLAIN });
    for _ in 0..3 {
        assert_eq!(b.receive(&Frame::v4(udp(1))), RxVerdict::Dropped(DropReason::NoBuffer));
    }
    b.settle();
    assert_eq!(b.p.writes, []);
}

#[test]
fn a_record_that_runs_ahead_of_the_ring_is_a_full_ring() {
    let mut b = Bench::plain();
    b.post(16);
    b.posted = 4000;
    b.record();
    for _ in 0..16 {
        assert_eq!(b.receive(&Frame::v4(udp(1))), RxVerdict::Yes);
    }
    b.settle();
    assert!(b.p.reads.iter().all(|r| r.2 <= 256));
}

#[test]
fn events_are_moderated_like_those_of_sends() {
    let mut b = Bench::plain();
    let eqn =
        b.d.create_eq(&EqContext { log_size: 4, ring: 0x3000, vector: 6, uar: b.uar, events: 0 })
            .unwrap();
    let c = CqContext {
        log_size: 6,
        ring: CQ + 0x1000,
        dbr: CQ_DBR + 8,
        eqn,
        uar: b.uar,
        period_us: 10,
        max_count: 3,
        compression: None,
    };
    let cqn = b.d.create_cq(&c).unwrap();
    let rqn = b.d.create_rq(&RqContext { cqn, ..b.rq }).unwrap();
    b.d.modify_rq(b.now, rqn, RqState::Reset, RqState::Ready).unwrap();
    b.d.modify_tir(0x2000, TirContext::direct(rqn)).unwrap();
    b.cqn = cqn;
    b.arm(0);
    b.post(8);
    let f = Frame::v4(udp(1));
    b.receive(&f);
    b.at(ns(9_000));
    assert_eq!(b.p.messages, []);
    b.settle();
    let first = Config::CONNECTX.pipeline_delay;
    assert_eq!(
        b.p.messages,
        [(Time::ZERO + first + Span::from_us(10), 6)],
        "10 us after the entry"
    );
    b.p.messages.clear();
    b.arm(1);
    b.d.mmio_write(
        &mut b.p,
        b.now,
        Reg::at(b.uar * uar::PAGE + uar::EQ_ARM),
        4,
        u64::from((eqn << 24 | 1).swap_bytes()),
    );
    let now = b.now;
    for _ in 0..3 {
        b.receive(&f);
    }
    b.settle();
    assert_eq!(b.p.messages.len(), 1);
    assert!(b.p.messages[0].0 < now + Span::from_us(1), "the third entry ends the wait");
}

/// Makes the bench's TIR spread flows over queues by Toeplitz. Returns its RQT.
fn spread(b: &mut Bench, rqns: &[u32]) -> u32 {
    let rqt = b.d.create_rqt((0..128).map(|i| rqns[i % rqns.len()]).collect()).unwrap();
    let fields =
        hash_field::SRC_IP | hash_field::DST_IP | hash_field::L4_SPORT | hash_field::L4_DPORT;
    let c = TirContext {
        dispatch: Dispatch::Indirect(rqt),
        function: HashFn::Toeplitz,
        fields,
        symmetric: true,
        key: core::array::from_fn(|i| (i * 29 + 3) as u8),
        ..TirContext::direct(0)
    };
    b.d.modify_tir(0x2000, c).unwrap();
    rqt
}

proptest! {
    /// More flows than paths are known, of frames of every kind, through a table that compares a
    /// byte of theirs.
    #[test]
    fn a_known_path_is_that_of_a_walk(
        frames in prop::collection::vec(any_frame(), 1..40),
        flows in prop::collection::vec((any::<u8>(), any::<u8>(), any::<bool>()), 1..800),
        byte in 0usize..64,
    ) {
        let mut b = Bench::plain();
        let rqns = [b.rqn, 0x4fff];
        spread(&mut b, &rqns);
        let flows = flows.into_iter().map(|(source, flow, is_tcp)| {
            let transport = if is_tcp { tcp(4) } else { udp(4) };
            let mut f = Frame::ip(&[10, 0, 0, flow], &[10, 0, 1, 1], transport);
            f.smac[5] = source;
            f.build()
        });
        let all: Vec<Vec<u8>> = frames.into_iter().chain(flows).collect();
        compare(&mut b, byte, &Fields::of(&all[0]));
        for f in &all {
            let fields = Fields::of(f);
            let path = b.d.rx.paths.find(&fields);
            let known = (path.verdict, path.queues);
            prop_assert_eq!(known, b.d.rx.paths.walk(&fields));
        }
    }
}

/// Puts a table before the bench's that drops frames with this byte of theirs.
fn compare(b: &mut Bench, byte: usize, like: &Fields) {
    let mut mask = [0; PARAM];
    mask[if (24..27).contains(&byte) { 0 } else { byte }] = 0xff;
    let criteria = Criteria::new(criteria::OUTER, &mask).unwrap();
    let s = &mut b.d.rx.paths.change().steering;
    let miss = Miss::Table(0x8000);
    let table = s.create_table(Table { kind: NIC_RX, level: 59, log_size: 0, miss }).unwrap();
    let group = s.create_group(table, Group { start: 0, end: 0, criteria }).unwrap();
    let (value, action) = (Match::of_fields(like), flow_action::DROP);
    let e = Entry { group, flow_tag: 0, action, value, destinations: vec![] };
    s.set_entry(table, 0, e).unwrap();
}

#[test]
fn rss_spreads_flows_over_queues_and_keeps_each_in_one() {
    let mut b = Bench::plain();
    let mut rqns = vec![];
    for i in 0..4u64 {
        let c = RqContext {
            ring: 0x1_0000 + i * 0x1000,
            dbr: RQ_DBR + 0x100 + i * 8,
            log_size: 6,
            ..b.rq
        };
        let rqn = b.d.create_rq(&c).unwrap();
        b.d.modify_rq(b.now, rqn, RqState::Reset, RqState::Ready).unwrap();
        b.rq = c;
        b.posted = 0;
        b.post(64);
        rqns.push(rqn);
    }
    let rqt = spread(&mut b, &rqns);
    let mut queues = vec![];
    for flow in 0..24u8 {
        let f = Frame::ip(&[10, 0, 0, flow], &[10, 0, 1, 1], tcp(4));
        let mut of_flow = vec![];
        for _ in 0..2 {
            assert_eq!(b.receive(&f), RxVerdict::Yes);
            b.settle();
            of_flow.push(b.poll().unwrap().flags_rqpn.get());
        }
        assert_eq!(of_flow[0], of_flow[1]);
        queues.push(of_flow[0]);
    }
    assert!(rqns.iter().all(|n| queues.contains(n)), "{queues:x?}");
    b.d.modify_rqt(rqt, vec![rqns[2]]).unwrap();
    for flow in 0..24u8 {
        b.receive(&Frame::ip(&[10, 0, 0, flow], &[10, 0, 1, 1], tcp(4)));
        b.settle();
        assert_eq!(b.poll().unwrap().flags_rqpn.get(), rqns[2]);
    }
}

#[test]
fn a_frame_that_two_tirs_want_is_received_twice() {
    let mut b = Bench::plain();
    b.post(3);
    let e = Entry {
        group: 1,
        flow_tag: 0,
        action: flow_action::FORWARD,
        value: Match::EMPTY,
        destinations: vec![
            Destination::Tir(0x2fff),
            Destination::Tir(0x2000),
            Destination::Tir(0x2000),
        ],
    };
    b.d.rx.paths.change().steering.set_entry(0x8000, 0, e).unwrap();
    assert_eq!(b.receive(&Frame::v4(udp(9))), RxVerdict::Yes);
    b.settle();
    assert_eq!(b.poll().unwrap().wqe_counter.get(), 0);
    assert_eq!(b.poll().unwrap().wqe_counter.get(), 1);
    assert_eq!((b.d.received().not_ready, b.d.received().packets), (1, 2));
}

#[test]
fn a_slow_bus_fills_the_fifo() {
    let cfg = Config { rx_fifo: 4000, writes_outstanding: 1, ..Config::CONNECTX };
    let mut b = Bench::new(cfg, PLAIN);
    b.p.write_time = Span::from_us(1);
    b.post(16);
    let fates: Vec<RxVerdict> = (0..6).map(|_| b.receive(&Frame::v4(udp(958)))).collect();
    assert_eq!(fates[..4], [RxVerdict::Yes; 4]);
    assert_eq!(fates[4], RxVerdict::Dropped(DropReason::Fifo));
    assert_eq!(b.d.received().fifo_full, 2);
    b.at(ns(1500));
    assert_eq!(b.receive(&Frame::v4(udp(958))), RxVerdict::Yes, "some have left");
    b.settle();
    let data: Vec<Time> = b.p.writes.iter().filter(|w| w.2 == 1000).map(|w| w.0).collect();
    assert!(data.windows(2).all(|w| w[1] >= w[0] + Span::from_us(1)), "one at a time: {data:?}");
    let order: Vec<u16> = core::iter::from_fn(|| b.poll()).map(|c| c.wqe_counter.get()).collect();
    assert_eq!(order, [0, 1, 2, 3, 4]);
}

#[test]
fn a_frame_finds_done_what_was_due_before_it() {
    let mut b = Bench::new(Config { rx_fifo: 1500, ..Config::CONNECTX }, PLAIN);
    b.post(16);
    let f = Frame::v4(udp(958)).build();
    for us in 1..5 {
        let at = Time::ZERO + Span::from_us(us);
        assert_eq!(b.d.receive(&mut b.p, at, &f), RxVerdict::Yes, "nobody called advance");
    }
}

#[test]
fn statuses_are_the_firmwares() {
    use CmdStatus::{BadParam, BadResource, BadResourceState};
    let mut b = Bench::plain();
    let rq = b.rq;
    for bad in [
        RqContext { log_size: 16, ..rq },
        RqContext { log_stride: 3, ..rq },
        RqContext { log_stride: 11, ..rq },
        RqContext { ring: 0x8010, ..rq },
        RqContext { dbr: 2, ..rq },
    ] {
        assert_eq!(b.d.create_rq(&bad), Err(BadParam), "{bad:?}");
    }
    assert_eq!(b.d.create_rq(&RqContext { cqn: 1, ..rq }), Err(BadResource));
    assert_eq!(b.d.destroy_cq(b.cqn), Err(BadResourceState), "the queue completes to it");
    assert_eq!(b.d.modify_rq(b.now, b.rqn, RqState::Reset, RqState::Ready), Err(BadResourceState));
    b.d.modify_rq(b.now, b.rqn, RqState::Ready, RqState::Error).unwrap();
    assert_eq!(b.d.modify_rq(b.now, b.rqn, RqState::Error, RqState::Ready), Err(BadResourceState));
    assert_eq!(b.d.create_rqt(vec![]), Err(BadParam));
    assert_eq!(b.d.create_rqt(vec![0; 2049]), Err(BadParam));
    let rqt = b.d.create_rqt(vec![b.rqn]).unwrap();
    let indirect = TirContext { dispatch: Dispatch::Indirect(rqt), ..TirContext::direct(0) };
    let tir = b.d.create_tir(indirect).unwrap();
    assert_eq!(b.d.rx.paths.tirs.find(tir).map(|t| t.ctx), Ok(indirect));
    assert_eq!(b.d.destroy_rqt(rqt), Err(BadResourceState));
    assert_eq!(b.d.create_tir(TirContext::direct(1)), Err(BadResource));
    b.d.destroy_tir(tir).unwrap();
    b.d.destroy_rqt(rqt).unwrap();
    assert_eq!(b.d.destroy_rq(b.rqn), Err(BadResourceState), "a TIR sends frames to it");
    assert_eq!(b.d.destroy_tir(0x2000), Err(BadResourceState), "an entry sends frames to it");
    b.d.rx.paths.change().steering.delete_entry((0x8000, 0)).unwrap();
    b.d.destroy_tir(0x2000).unwrap();
    b.d.destroy_rq(b.rqn).unwrap();
    assert_eq!(b.d.query_rq(b.rqn), Err(BadResource));
    b.d.destroy_cq(b.cqn).unwrap();
}
