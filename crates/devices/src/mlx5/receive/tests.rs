//! The receive side against a port that records what it does, and when.

mod compress;
mod data;
mod faults;
mod hostile;
mod limits;
mod loopback;
mod polled;
mod queues;
mod striding;

use super::super::command::check;
use super::super::device::Mlx5;
use super::super::ring::Ring;
use super::super::rss::TirContext;
use super::super::steering::{Criteria, Destination, Entry, Group, Match, Miss, Table};
use super::super::tests::frames::Frame;
use super::super::{Answer, Config, LIMIT};
use super::Rq;
use super::commands::{LOG_MAX_RQ, LOG_MAX_STRIDE};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::{
    Device, DmaFault, DmaFaultKind, EventSource, Iova, Port, Reg, RxVerdict, Span, Time,
    transfer_units,
};
use doorbell_layout::mlx5::command::{Rqc, flow_action};
use doorbell_layout::mlx5::receive::{RqContext, RqState, RxCqe};
use doorbell_layout::mlx5::steering::NIC_RX;
use doorbell_layout::mlx5::{
    CQ_UPDATE, CQE_INITIAL, Compression, CompressionLayout, CqContext, CtrlSeg, EqContext, Eqe,
    SqContext, SqState, event, uar,
};
use zerocopy::{FromBytes, IntoBytes};

const MEMORY: usize = 1 << 20;
const EQ: u64 = 0x1000;
const RQ_DBR: u64 = 0x2000;
const CQ_DBR: u64 = 0x2040;
const CQ: u64 = 0x4000;
const RQ: u64 = 0x8000;
const SQ: u64 = 0x1_8000;
/// Whatever is at or above this address and below [`END`] is a buffer.
pub(in super::super) const BUFFERS: u64 = 0x2_0000;
const END: u64 = 0xf_0000;
const BUFFER: u64 = 2048;

/// Memory with a price for each read and write.
pub(in super::super) struct Record {
    memory: Vec<u8>,
    read_time: Span,
    write_time: Span,
    reads: Vec<(Time, u64, usize)>,
    writes: Vec<(Time, u64, usize)>,
    messages: Vec<(Time, u16)>,
    /// Frames that left.
    pub(in super::super) frames: Vec<(Time, Vec<u8>)>,
    /// The frames after which a turn ends.
    pub(in super::super) most_frames: usize,
    /// Work that was charged, and that after which a turn ends.
    work: u64,
    most_work: u64,
    /// No access to these addresses.
    hole: core::ops::Range<u64>,
    /// Ranges that the device may write; `None`: all.
    writable: Option<Vec<core::ops::Range<u64>>>,
    latest: Time,
}

impl Record {
    fn check(&self, a: Iova, len: usize) -> Result<usize, DmaFault> {
        let end = a.0.checked_add(len as u64).filter(|end| *end <= MEMORY as u64);
        match end {
            Some(end) if end <= self.hole.start || a.0 >= self.hole.end => Ok(a.0 as usize),
            _ => Err(DmaFault { at: a, kind: DmaFaultKind::Unmapped }),
        }
    }
}

impl Port for Record {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        let start = self.check(from, into.len())?;
        into.copy_from_slice(&self.memory[start..start + into.len()]);
        self.work += transfer_units(into.len());
        self.reads.push((at, from.0, into.len()));
        Ok(at + self.read_time)
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        assert!(at >= self.latest, "an effect before the last one");
        self.latest = at;
        let start = self.check(to, from.len())?;
        if let Some(allowed) = &self.writable {
            let end = to.0 + from.len() as u64;
            assert!(
                allowed.iter().any(|r| r.start <= to.0 && end <= r.end),
                "a write to {:#x}..{end:#x}",
                to.0
            );
        }
        self.memory[start..start + from.len()].copy_from_slice(from);
        self.writes.push((at, to.0, from.len()));
        Ok(at + self.write_time)
    }
    fn set_irq_line(&mut self, _: Time, _: u16, _: bool) {
        panic!("it has no interrupt line");
    }
    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.messages.push((at, vector));
    }
    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.frames.push((at, frame.to_vec()));
    }
    fn charge(&mut self, units: u64) {
        self.work += units;
    }
    fn is_spent(&self) -> bool {
        self.frames.len() >= self.most_frames || self.work >= self.most_work
    }
}

pub(in super::super) struct Bench {
    pub(in super::super) d: Mlx5,
    pub(in super::super) p: Record,
    now: Time,
    rq: RqContext,
    rqn: u32,
    cqn: u32,
    uar: u32,
    pub(in super::super) lkey: u32,
    posted: u16,
    seen: u32,
    /// A send queue, and the counter of its next block.
    sq: Option<(u32, u16)>,
}

const CQ_LOG: u8 = 6;
/// A queue of 16 WQEs with one data segment.
const PLAIN: RqContext = RqContext {
    log_size: 4,
    log_stride: 4,
    ring: RQ,
    dbr: RQ_DBR,
    cqn: 0,
    counter_set: 3,
    keep_vlan: false,
    flush_in_error: false,
    end_padding: false,
    strides: None,
};

fn ns(n: u64) -> Time {
    Time::ZERO + Span::from_ns(n)
}

impl Mlx5 {
    /// A receive queue without a command, in state RST, with its ring in one piece.
    fn create_rq(&mut self, c: &RqContext) -> Answer<u32> {
        let (log_size, log_stride) = (u32::from(c.log_size), u32::from(c.log_stride));
        check(log_size <= LOG_MAX_RQ && (4..=LOG_MAX_STRIDE).contains(&log_stride))?;
        check(c.ring.is_multiple_of(4096) && c.dbr.is_multiple_of(4))?;
        self.cqs.find(c.cqn)?;
        let rq = Rq::new(*c, Ring::at_address(c.ring), &Rqc::ZERO, self.cfg.rx_fetch_chunk);
        self.rx.rqs.insert(rq, LIMIT)
    }

    fn query_rq(&self, rqn: u32) -> Answer<RqState> {
        Ok(self.rx.rqs.find(rqn)?.state)
    }
}

impl Bench {
    /// An armed CQ without moderation, a ready queue, and everything steered to it.
    fn new(cfg: Config, rq: RqContext) -> Bench {
        Bench::compressing(cfg, rq, None)
    }

    /// The same with a CQ that may compress.
    fn compressing(cfg: Config, rq: RqContext, compression: Option<Compression>) -> Bench {
        let mut p = Record {
            memory: vec![0; MEMORY],
            read_time: Span::ZERO,
            write_time: Span::ZERO,
            reads: vec![],
            writes: vec![],
            messages: vec![],
            frames: vec![],
            most_frames: usize::MAX,
            work: 0,
            most_work: u64::MAX,
            hole: 0..0,
            writable: None,
            latest: Time::ZERO,
        };
        let mut d = Mlx5::new(cfg);
        let uar = d.alloc_uar().unwrap();
        let lkey = d.create_mkey().unwrap();
        let eqn = d
            .create_eq(&EqContext {
                log_size: 4,
                ring: EQ,
                vector: 5,
                uar,
                events: 1 << event::CQ_ERROR | 1 << event::WQ_CATAS,
            })
            .unwrap();
        let c = CqContext {
            log_size: CQ_LOG,
            ring: CQ,
            dbr: CQ_DBR,
            eqn,
            uar,
            period_us: 0,
            max_count: 0,
            compression,
        };
        let cqn = d.create_cq(&c).unwrap();
        for entry in 0..1 << CQ_LOG {
            p.memory[CQ as usize + entry * 64 + 63] = CQE_INITIAL;
        }
        let rq = RqContext { cqn, ..rq };
        let rqn = d.create_rq(&rq).unwrap();
        d.modify_rq(Time::ZERO, rqn, RqState::Reset, RqState::Ready).unwrap();
        let tirn = d.create_tir(TirContext::direct(rqn)).unwrap();
        steer_all(&mut d, tirn, 0xabc);
        let mut b =
            Bench { d, p, now: Time::ZERO, rq, rqn, cqn, uar, lkey, posted: 0, seen: 0, sq: None };
        b.arm(0);
        b
    }

    pub(in super::super) fn plain() -> Bench {
        Bench::new(Config::CONNECTX, PLAIN)
    }

    /// Points the TIR at a queue that is never ready, and destroys ours.
    fn destroy_queue(&mut self) {
        let drop = self.d.create_rq(&RqContext { log_size: 0, ..self.rq }).unwrap();
        self.d.modify_tir(0x2000, TirContext::direct(drop)).unwrap();
        self.d.destroy_rq(self.rqn).unwrap();
    }

    fn arm(&mut self, ci: u32) {
        let v = u64::from_be_bytes({
            let mut b = [0; 8];
            b[..4].copy_from_slice(&ci.to_be_bytes());
            b[4..].copy_from_slice(&self.cqn.to_be_bytes());
            b
        });
        let r = Reg::at(self.uar * uar::PAGE + uar::CQ_ARM);
        self.d.mmio_write(&mut self.p, self.now, r, 8, v.swap_bytes());
    }

    pub(in super::super) fn put(&mut self, at: u64, bytes: &[u8]) {
        self.p.memory[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    /// Returns the address of the buffer of WQE `n`.
    fn buffer(&self, n: u16) -> u64 {
        BUFFERS + u64::from(n & ((1 << self.rq.log_size) - 1)) * BUFFER
    }

    /// Writes data segments into a WQE.
    fn wqe(&mut self, n: u16, segments: &[(u32, u32, u64)]) {
        let slot = u64::from(n & ((1 << self.rq.log_size) - 1));
        for (i, (count, lkey, addr)) in segments.iter().enumerate() {
            let at = self.rq.ring + (slot << self.rq.log_stride) + i as u64 * 16;
            self.put(at, &count.to_be_bytes());
            self.put(at + 4, &lkey.to_be_bytes());
            self.put(at + 8, &addr.to_be_bytes());
        }
    }

    fn record(&mut self) {
        let posted = u32::from(self.posted).to_be_bytes();
        self.put(self.rq.dbr, &posted);
    }

    /// Posts `n` WQEs of one 1522-byte buffer each.
    fn post(&mut self, n: u16) -> &mut Bench {
        for _ in 0..n {
            let (to, lkey) = (self.buffer(self.posted), self.lkey);
            self.wqe(self.posted, &[(0x8000_0000 | 1522, lkey, to)]);
            self.posted = self.posted.wrapping_add(1);
        }
        self.record();
        self
    }

    fn receive(&mut self, f: &Frame) -> RxVerdict {
        self.receive_bytes(&f.build())
    }

    fn receive_bytes(&mut self, f: &[u8]) -> RxVerdict {
        self.d.advance(&mut self.p, self.now);
        self.d.receive(&mut self.p, self.now, f)
    }

    /// Does what is due first, for a share of a turn.
    fn settle_turn(&mut self) {
        if let Some(due) = self.d.next_due() {
            self.now = self.now.max(due);
            self.d.advance(&mut self.p, self.now);
        }
    }

    /// Everything that is due, as long as it takes.
    pub(in super::super) fn settle(&mut self) -> &mut Bench {
        let mut steps = 0;
        while let Some(due) = self.d.next_due() {
            self.now = self.now.max(due);
            self.d.advance(&mut self.p, self.now);
            steps += 1;
            assert!(steps < 1_000_000, "it goes on for ever");
        }
        self
    }

    /// Writes a WQE that asks for a CQE into the send queue, and rings.
    pub(in super::super) fn send(&mut self, opcode: u8, rest: &[u8]) {
        let (sqn, pc) = self.sq.unwrap_or_else(|| {
            let (cqn, dbr) = (self.cqn, RQ_DBR + 0x200);
            let sqn = self
                .d
                .create_sq(&SqContext {
                    log_size: 6,
                    ring: SQ,
                    dbr,
                    cqn,
                    uar: self.uar,
                    min_inline: 0,
                    internal: false,
                    second_port: false,
                })
                .unwrap();
            self.d.modify_sq(sqn, SqState::Reset, SqState::Ready).unwrap();
            (sqn, 0)
        });
        let ds = 1 + rest.len() as u32 / 16;
        let mut ctrl = CtrlSeg::new(pc, opcode, sqn, ds);
        ctrl.fm_ce_se = CQ_UPDATE;
        let wqe = [ctrl.as_bytes(), rest].concat();
        for (i, b) in wqe.iter().enumerate() {
            self.p.memory[SQ as usize + (usize::from(pc) * 64 + i) % 4096] = *b;
        }
        self.sq = Some((sqn, pc.wrapping_add(ds.div_ceil(4) as u16)));
        let v = u64::from_le_bytes(*wqe.first_chunk().unwrap());
        self.d.mmio_write(&mut self.p, self.now, Reg::at(self.uar * uar::PAGE + uar::SEND), 8, v);
    }

    /// A data segment.
    pub(in super::super) fn data(&self, addr: u64, len: usize) -> [u8; 16] {
        let mut d = [0; 16];
        d[..4].copy_from_slice(&(len as u32).to_be_bytes());
        d[4..8].copy_from_slice(&self.lkey.to_be_bytes());
        d[8..].copy_from_slice(&addr.to_be_bytes());
        d
    }

    fn at(&mut self, t: Time) -> &mut Bench {
        self.now = t;
        self.d.advance(&mut self.p, t);
        self
    }

    /// The next CQE, if it is there.
    pub(in super::super) fn poll(&mut self) -> Option<RxCqe> {
        let at = CQ as usize + (self.seen as usize & ((1 << CQ_LOG) - 1)) * 64;
        let cqe = RxCqe::read_from_bytes(&self.p.memory[at..at + 64]).unwrap();
        let owner = (self.seen >> CQ_LOG & 1) as u8;
        if cqe.op_own & 1 != owner || cqe.op_own >> 4 == 15 {
            return None;
        }
        self.seen += 1;
        let ci = self.seen.to_be_bytes();
        self.put(CQ_DBR, &ci);
        Some(cqe)
    }

    fn event(&self, n: usize) -> Eqe {
        Eqe::read_from_bytes(&self.p.memory[EQ as usize + n * 64..][..64]).unwrap()
    }

    fn memory(&self, at: u64, len: usize) -> &[u8] {
        &self.p.memory[at as usize..at as usize + len]
    }
}

/// One table whose only entry sends everything to a TIR.
fn steer_all(d: &mut Mlx5, tirn: u32, flow_tag: u32) -> (u32, u32) {
    let s = &mut d.rx.paths.change().steering;
    let table = s
        .create_table(Table { kind: NIC_RX, level: 60, log_size: 0, miss: Miss::Default })
        .unwrap();
    let group = s.create_group(table, Group { start: 0, end: 0, criteria: Criteria::ANY }).unwrap();
    let destinations = vec![Destination::Tir(tirn)];
    let e =
        Entry { group, flow_tag, action: flow_action::FORWARD, value: Match::EMPTY, destinations };
    s.set_entry(table, 0, e).unwrap();
    (table, group)
}
