//! The device alone: a port that records, and WQEs written by hand.

use doorbell_devices::mlx5::{Config, Mlx5};
use doorbell_layout::mlx5::{
    CQ_UPDATE, CQE_INITIAL, CqContext, Cqe, CtrlSeg, DataSeg, EQE_CQN, EQE_ERROR_CQN, EqContext, Eqe, EthSeg,
    SqContext, SqState, event, uar,
};
use doorbell_seam::{Device, DmaFault, DmaFaultKind, Iova, Port, Reg, Time, Timed};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// What a device did, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It read so many bytes at an address.
    Read(Time, u64, usize),
    /// It wrote.
    Write(Time, u64, usize),
    /// It raised a vector.
    Message(Time, u16),
    /// A frame left.
    Frame(Time, Vec<u8>),
}

/// Memory that records every access, and fails the test on one when it is forbidden.
#[derive(Debug)]
pub struct Recorder {
    /// Memory from address 0.
    pub memory: Vec<u8>,
    /// Addresses in these ranges are not there.
    pub holes: Vec<std::ops::Range<u64>>,
    /// What happened, in the order of the calls.
    pub log: Vec<Access>,
    /// Any access fails the test.
    pub forbidden: bool,
}

impl Recorder {
    /// `size` bytes of zeroes.
    pub fn new(size: usize) -> Recorder {
        Recorder { memory: vec![0; size], holes: Vec::new(), log: Vec::new(), forbidden: false }
    }
    fn check(&self, at: Iova, len: usize) -> Result<usize, DmaFault> {
        assert!(!self.forbidden, "the device touched {len} bytes at {:#x}", at.0);
        let end = at.0.checked_add(len as u64).filter(|&end| end <= self.memory.len() as u64);
        let there = end.is_some_and(|end| self.holes.iter().all(|h| end <= h.start || h.end <= at.0));
        if there { Ok(at.0 as usize) } else { Err(DmaFault { at, kind: DmaFaultKind::Unmapped }) }
    }
}

impl Port for Recorder {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        let start = self.check(from, into.len())?;
        into.copy_from_slice(&self.memory[start..start + into.len()]);
        self.log.push(Access::Read(at, from.0, into.len()));
        Ok(at)
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let start = self.check(to, from.len())?;
        self.memory[start..start + from.len()].copy_from_slice(from);
        self.log.push(Access::Write(at, to.0, from.len()));
        Ok(at)
    }
    fn set_line(&mut self, _at: Time, n: u16, _high: bool) {
        panic!("an mlx5 has no interrupt line, not even {n}");
    }
    fn message(&mut self, at: Time, vector: u16) {
        assert!(!self.forbidden, "the device raised vector {vector}");
        self.log.push(Access::Message(at, vector));
    }
    fn emit(&mut self, at: Time, frame: &[u8]) {
        assert!(!self.forbidden, "a frame of {} bytes left", frame.len());
        self.log.push(Access::Frame(at, frame.to_vec()));
    }
}

/// A device with one EQ, one CQ and one ready SQ, and what a test needs to drive it.
#[derive(Debug)]
pub struct Bench {
    /// The device.
    pub device: Mlx5,
    /// Its way out.
    pub port: Recorder,
    /// Numbers of the objects.
    pub sqn: u32,
    /// CQ number.
    pub cqn: u32,
    /// EQ number.
    pub eqn: u32,
    /// Memory key.
    pub lkey: u32,
    /// Time.
    pub now: Time,
    /// Counter of the next block to be written.
    pub pc: u16,
    log_sq: u8,
    log_cq: u8,
    cq_seen: u32,
    eq_seen: u32,
    last: [u8; 8],
}

impl Bench {
    /// Where the SQ's ring is.
    pub const SQ: u64 = 0x10_0000;
    /// The CQ's.
    pub const CQ: u64 = 0x8_0000;
    /// The EQ's.
    pub const EQ: u64 = 0x7_0000;
    /// Doorbell records: the SQ's, and 64 bytes further the CQ's.
    pub const DBR: u64 = 0x6_0000;
    /// Where packets are.
    pub const DATA: u64 = 0x20_0000;
    /// The vector.
    pub const VECTOR: u16 = 9;

    /// A device without moderation, with a ring of 64 blocks and 16 CQEs.
    pub fn new(config: Config) -> Bench {
        Bench::sized(config, 6, 4, 0, 0, 0)
    }

    /// A device with rings of these sizes (log2), CQ moderation and minimum inline mode.
    pub fn sized(config: Config, log_sq: u8, log_cq: u8, period_us: u16, max_count: u16, min_inline: u8) -> Bench {
        let mut device = Mlx5::new(config);
        let mut port = Recorder::new(0x22_0000);
        for (i, b) in port.memory[Bench::DATA as usize..].iter_mut().enumerate() {
            *b = (i % 251) as u8;
        }
        for i in 0..1usize << log_cq {
            port.memory[Bench::CQ as usize + i * 64 + 63] = CQE_INITIAL;
        }
        for i in 0..128 {
            port.memory[Bench::EQ as usize + i * 64 + 63] = 1;
        }
        let ok = "the firmware agrees";
        let uar = device.alloc_uar().expect(ok);
        let lkey = device.create_mkey().expect(ok);
        let events = 1 << event::CQ_ERROR | 1 << event::WQ_CATAS;
        let eqc = EqContext { log_size: 7, ring: Bench::EQ, vector: Bench::VECTOR, uar, events };
        let eqn = device.create_eq(&eqc).expect(ok);
        let cqc = CqContext { log_size: log_cq, ring: Bench::CQ, dbr: Bench::DBR + 64, eqn, uar, period_us, max_count };
        let cqn = device.create_cq(&cqc).expect(ok);
        let sqc = SqContext { log_size: log_sq, ring: Bench::SQ, dbr: Bench::DBR, cqn, uar, min_inline };
        let sqn = device.create_sq(&sqc).expect(ok);
        device.modify_sq(sqn, SqState::Reset, SqState::Ready).expect(ok);
        Bench {
            device,
            port,
            sqn,
            cqn,
            eqn,
            lkey,
            now: Time::ZERO,
            pc: 0,
            log_sq,
            log_cq,
            cq_seen: 0,
            eq_seen: 0,
            last: [0; 8],
        }
    }

    /// A control segment for the next WQE, which asks for a CQE.
    pub fn ctrl(&self, opcode: u8, ds: u32) -> CtrlSeg {
        let mut c = CtrlSeg::new(self.pc, opcode, self.sqn, ds);
        c.fm_ce_se = CQ_UPDATE;
        c
    }

    /// A data segment over `len` bytes at `offset` of the packets' memory.
    pub fn data(&self, offset: u64, len: u32) -> DataSeg {
        DataSeg { byte_count: U32::new(len), lkey: U32::new(self.lkey), addr: U64::new(Bench::DATA + offset) }
    }

    /// The bytes that such a segment means.
    pub fn payload(&self, offset: u64, len: usize) -> &[u8] {
        &self.port.memory[(Bench::DATA + offset) as usize..][..len]
    }

    /// Writes a WQE, wherever the ring's end cuts it, and steps over its blocks.
    pub fn put(&mut self, ctrl: &CtrlSeg, rest: &[u8]) {
        let mut bytes = ctrl.as_bytes().to_vec();
        bytes.extend_from_slice(rest);
        let ring = 64usize << self.log_sq;
        let at = usize::from(self.pc) * 64 % ring;
        for (i, b) in bytes.iter().enumerate() {
            self.port.memory[Bench::SQ as usize + (at + i) % ring] = *b;
        }
        self.last.copy_from_slice(&bytes[..8]);
        self.pc = self.pc.wrapping_add(ctrl.ds().div_ceil(4).max(1) as u16);
    }

    /// Writes a SEND of one packet.
    pub fn put_send(&mut self, offset: u64, len: u32, ask: bool) {
        let mut ctrl = self.ctrl(0x0a, 3);
        if !ask {
            ctrl.fm_ce_se = 0;
        }
        let rest = [EthSeg::default().as_bytes(), self.data(offset, len).as_bytes()].concat();
        self.put(&ctrl, &rest);
    }

    /// Writes a session of packets of 60 bytes.
    pub fn put_session(&mut self, packets: u32, ask: bool) {
        let mut ctrl = self.ctrl(0x29, 2 + packets);
        if !ask {
            ctrl.fm_ce_se = 0;
        }
        let mut rest = EthSeg::default().as_bytes().to_vec();
        for i in 0..packets {
            rest.extend_from_slice(self.data(u64::from(i) * 64, 60).as_bytes());
        }
        self.put(&ctrl, &rest);
    }

    /// Rings with the first 8 bytes of the last WQE.
    pub fn ring(&mut self) {
        self.write(uar::SEND, 8, u64::from_le_bytes(self.last));
    }

    /// Writes to the doorbell page.
    pub fn write(&mut self, offset: u32, size: u8, v: u64) {
        let r = Reg::at(Mlx5::FIRST_UAR * uar::PAGE + offset);
        self.device.mmio_write(&mut self.port, self.now, r, size, v);
    }

    /// Arms the CQ: it has been read up to `ci`.
    pub fn arm_cq(&mut self, ci: u32) {
        let v = u64::from(ci) << 32 | u64::from(self.cqn);
        self.write(uar::CQ_ARM, 8, v.swap_bytes());
    }

    /// Tells the EQ's consumer counter, and arms it.
    pub fn arm_eq(&mut self, ci: u32) {
        self.write(uar::EQ_ARM, 4, u64::from((self.eqn << 24 | ci).swap_bytes()));
    }

    /// Lets time pass up to `t`.
    pub fn until(&mut self, t: Time) {
        self.now = self.now.max(t);
        self.device.advance(&mut self.port, self.now);
    }

    /// Lets everything come to its end.
    pub fn settle(&mut self) {
        while let Some(due) = self.device.next_due() {
            self.until(due);
        }
    }

    /// Rings and settles.
    pub fn go(&mut self) {
        self.ring();
        self.settle();
    }

    /// The CQEs written since the last call.
    pub fn cqes(&mut self) -> Vec<Cqe> {
        let mut all = Vec::new();
        loop {
            let index = self.cq_seen & ((1 << self.log_cq) - 1);
            let at = Bench::CQ as usize + index as usize * 64;
            let cqe = Cqe::read_from_bytes(&self.port.memory[at..at + 64]).expect("64 bytes");
            if u32::from(cqe.op_own & 1) != self.cq_seen >> self.log_cq & 1 || cqe.opcode() == 15 {
                return all;
            }
            self.cq_seen += 1;
            all.push(cqe);
        }
    }

    /// The events written since the last call: type, and the number they speak of.
    pub fn events(&mut self) -> Vec<(u8, u32)> {
        let mut all = Vec::new();
        loop {
            let at = Bench::EQ as usize + (self.eq_seen & 127) as usize * 64;
            let eqe = Eqe::read_from_bytes(&self.port.memory[at..at + 64]).expect("64 bytes");
            if u32::from(eqe.owner & 1) != self.eq_seen >> 7 & 1 {
                return all;
            }
            self.eq_seen += 1;
            let number = if eqe.event_type == event::CQ_ERROR { EQE_ERROR_CQN } else { EQE_CQN };
            all.push((eqe.event_type, eqe.data[number].get()));
        }
    }

    /// The frames that left since the log was last cleared.
    pub fn frames(&self) -> Vec<&[u8]> {
        let frame = |a: &'_ Access| matches!(a, Access::Frame(..));
        self.port
            .log
            .iter()
            .filter(|a| frame(a))
            .map(|a| if let Access::Frame(_, f) = a { &f[..] } else { &[] })
            .collect()
    }

    /// When interrupts were raised since the log was last cleared.
    pub fn messages(&self) -> Vec<Time> {
        self.port.log.iter().filter_map(|a| if let Access::Message(t, _) = a { Some(*t) } else { None }).collect()
    }

    /// When the device wrote to the EQ.
    pub fn event_times(&self) -> Vec<Time> {
        self.writes(Bench::EQ..Bench::EQ + 128 * 64)
    }

    /// When it wrote to the CQ.
    pub fn cqe_times(&self) -> Vec<Time> {
        self.writes(Bench::CQ..Bench::CQ + (64 << self.log_cq))
    }

    fn writes(&self, to: std::ops::Range<u64>) -> Vec<Time> {
        let inside = |a: &Access| match a {
            Access::Write(t, at, _) if to.contains(at) => Some(*t),
            _ => None,
        };
        self.port.log.iter().filter_map(inside).collect()
    }

    /// Lengths of the reads of WQEs since the log was last cleared.
    pub fn fetches(&self) -> Vec<usize> {
        let ring = Bench::SQ..Bench::SQ + (64 << self.log_sq);
        let inside = |a: &Access| match a {
            Access::Read(_, at, n) if ring.contains(at) => Some(*n),
            _ => None,
        };
        self.port.log.iter().filter_map(inside).collect()
    }
}
