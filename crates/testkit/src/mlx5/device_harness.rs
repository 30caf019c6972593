//! The device alone: a recording port, and WQEs written by tests. Commands ([`CommandHarness`]),
//! which take no time here, create, modify and destroy its objects.

use super::command_harness::{CommandHarness, Common};
use super::port::{Access, RecordingPort};
use doorbell_hal::{Device, Reg, Time};
use doorbell_layout::mlx5::command::{Cqc, CreateCqIn, CreateSqIn, Numbered, QuerySqOut, Sqc, op};
use doorbell_layout::mlx5::{
    CQ_UPDATE, CQE_INITIAL, CmdStatus, Cqe, CtrlSeg, DataSeg, EQE_CQN, EQE_ERROR_CQN, Eqe, EthSeg,
    SqState, event, uar,
};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// The pages of a ring of `1 << log` entries of 64 bytes.
fn pages(at: u64, log: u8) -> Vec<u64> {
    (0..(64u64 << log).div_ceil(4096)).map(|n| at + n * 4096).collect()
}

/// A device with one EQ, one CQ and one ready SQ, and what a test needs to drive it.
#[derive(Debug)]
pub struct DeviceHarness<D> {
    /// The device, its way out, and time.
    pub c: CommandHarness<D>,
    /// Numbers of the objects.
    pub sqn: u32,
    /// CQ number.
    pub cqn: u32,
    /// EQ number.
    pub eqn: u32,
    /// Memory key.
    pub lkey: u32,
    /// Counter of the next block to be written.
    pub pc: u16,
    uar: u32,
    log_sq: u8,
    log_cq: u8,
    cq_seen: u32,
    eq_seen: u32,
    last: [u8; 8],
}

impl<D: Device<RecordingPort>> DeviceHarness<D> {
    /// Address of the SQ's ring.
    pub const SQ: u64 = 0x10_0000;
    /// The CQ's.
    pub const CQ: u64 = 0xe_0000;
    /// The EQ's.
    pub const EQ: u64 = 0xd_0000;
    /// Doorbell records: the SQ's, and 64 bytes further the CQ's.
    pub const DBR: u64 = 0xc_0000;
    /// Address of packets.
    pub const DATA: u64 = 0x20_0000;
    /// The vector.
    pub const VECTOR: u16 = 9;

    /// A device without moderation, with a ring of 64 blocks and 16 CQEs.
    pub fn new(device: impl Into<D>) -> Self {
        Self::sized(device, 6, 4, 0, 0, 0)
    }

    /// A device with rings of these sizes (log2), CQ moderation and minimum inline mode.
    pub fn sized(
        device: impl Into<D>,
        log_sq: u8,
        log_cq: u8,
        period_us: u16,
        max_count: u16,
        min_inline: u8,
    ) -> Self {
        let mut c = CommandHarness::in_memory(device, 0x22_0000);
        for (i, b) in c.port.memory[Self::DATA as usize..].iter_mut().enumerate() {
            *b = (i % 251) as u8;
        }
        c.bring_up();
        let (uar, pd, td) =
            (c.alloc(op::ALLOC_UAR), c.alloc(op::ALLOC_PD), c.alloc(op::ALLOC_TRANSPORT_DOMAIN));
        let mkey = c.ok(op::CREATE_MKEY, 0, &CommandHarness::<D>::mkey_message(pd), &[]).number();
        let tis = c.tis(td).number();
        let events = 1 << event::CQ_ERROR | 1 << event::WQ_CATAS;
        let eqn = c.eq(uar, 7, u32::from(Self::VECTOR), events, &pages(Self::EQ, 7)).number();
        let mut of = Common { uar, pd, td, mkey, tis, eq: eqn, cq: 0 };
        for page in pages(Self::CQ, log_cq) {
            for e in 0..64 {
                c.port.memory[page as usize + e * 64 + 63] = CQE_INITIAL;
            }
        }
        let mut m = CommandHarness::<D>::cq_message(&of, log_cq.into(), Self::DBR + 64);
        m.part_mut(CreateCqIn::CQC)
            .set(Cqc::PERIOD, period_us.into())
            .set(Cqc::MAX_COUNT, max_count.into());
        of.cq = c
            .ok(op::CREATE_CQ, 0, &m, &CommandHarness::<D>::pas(&pages(Self::CQ, log_cq)))
            .number();
        let mut m = CommandHarness::<D>::sq_message(&of, log_sq.into(), Self::DBR);
        m.part_mut(CreateSqIn::SQC).set(Sqc::MIN_INLINE, min_inline.into());
        let sqn = c
            .ok(op::CREATE_SQ, 0, &m, &CommandHarness::<D>::pas(&pages(Self::SQ, log_sq)))
            .number();
        assert_eq!(c.modify_sq(sqn, 0, 1), None);
        assert_eq!(c.now, Time::ZERO, "commands take no time");
        c.port.log.clear();
        DeviceHarness {
            c,
            sqn,
            cqn: of.cq,
            eqn,
            lkey: mkey << 8,
            pc: 0,
            uar,
            log_sq,
            log_cq,
            cq_seen: 0,
            eq_seen: 0,
            last: [0; 8],
        }
    }

    /// Has a command done at once. What it itself does to memory is not in the log.
    pub fn command<R>(&mut self, f: impl FnOnce(&mut CommandHarness<D>) -> R) -> R {
        let c = &mut self.c;
        let (forbidden, before) = (std::mem::take(&mut c.port.forbidden), c.port.log.len());
        let now = c.now;
        let done = f(c);
        assert_eq!(c.now, now, "a command takes no time");
        let mut n = 0;
        c.port.log.retain(|a| {
            n += 1;
            let (Access::Read(_, at, _) | Access::Write(_, at, _)) = a else { return true };
            n <= before || !CommandHarness::<D>::is_command(*at)
        });
        assert!(!forbidden || c.port.log.len() == before, "{:?}", &c.port.log[before..]);
        c.port.forbidden = forbidden;
        done
    }

    /// `MODIFY_SQ`.
    pub fn modify_sq(&mut self, from: SqState, to: SqState) -> Result<(), CmdStatus> {
        let sqn = self.sqn;
        self.command(|c| c.modify_sq(sqn, from as u32, to as u32)).map_or(Ok(()), Err)
    }

    /// `QUERY_SQ`: its state.
    pub fn query_sq(&mut self) -> Result<SqState, CmdStatus> {
        let sqn = self.sqn;
        let mut m = Numbered::ZERO;
        m.set(Numbered::NUMBER, sqn);
        let a = self.command(|c| c.run(op::QUERY_SQ, 0, &m, &[]));
        match a.status {
            Some(why) => Err(why),
            None => Ok(SqState::from_bits(
                a.out_as::<QuerySqOut>().part(QuerySqOut::SQC).get(Sqc::STATE),
            )
            .expect("a state")),
        }
    }

    /// A command about an object, such as `DESTROY_SQ`.
    pub fn about(&mut self, opcode: u16, n: u32) -> Result<(), CmdStatus> {
        self.command(|c| c.about(opcode, n)).map_or(Ok(()), Err)
    }

    /// A control segment for the next WQE, which asks for a CQE.
    pub fn ctrl(&self, opcode: u8, ds: u32) -> CtrlSeg {
        let mut c = CtrlSeg::new(self.pc, opcode, self.sqn, ds);
        c.fm_ce_se = CQ_UPDATE;
        c
    }

    /// A data segment over `len` bytes at `offset` of the packets' memory.
    pub fn data(&self, offset: u64, len: u32) -> DataSeg {
        DataSeg {
            byte_count: U32::new(len),
            lkey: U32::new(self.lkey),
            addr: U64::new(Self::DATA + offset),
        }
    }

    /// The bytes that such a segment means.
    pub fn payload(&self, offset: u64, len: usize) -> &[u8] {
        &self.c.port.memory[(Self::DATA + offset) as usize..][..len]
    }

    /// Writes a WQE, wherever the ring's end cuts it, and steps over its blocks.
    pub fn put(&mut self, ctrl: &CtrlSeg, rest: &[u8]) {
        let mut bytes = ctrl.as_bytes().to_vec();
        bytes.extend_from_slice(rest);
        let ring = 64usize << self.log_sq;
        let at = usize::from(self.pc) * 64 % ring;
        for (i, b) in bytes.iter().enumerate() {
            self.c.port.memory[Self::SQ as usize + (at + i) % ring] = *b;
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
        let r = Reg::at(self.uar * uar::PAGE + offset);
        self.c.device.mmio_write(&mut self.c.port, self.c.now, r, size, v);
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
        self.c.now = self.c.now.max(t);
        self.c.device.advance(&mut self.c.port, self.c.now);
    }

    /// Lets everything come to its end.
    pub fn settle(&mut self) {
        self.c.settle();
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
            let at = Self::CQ as usize + index as usize * 64;
            let cqe = Cqe::read_from_bytes(&self.c.port.memory[at..at + 64]).expect("64 bytes");
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
            let at = Self::EQ as usize + (self.eq_seen & 127) as usize * 64;
            let eqe = Eqe::read_from_bytes(&self.c.port.memory[at..at + 64]).expect("64 bytes");
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
        self.c
            .port
            .log
            .iter()
            .filter(|a| frame(a))
            .map(|a| if let Access::Frame(_, f) = a { &f[..] } else { &[] })
            .collect()
    }

    /// Returns the times of interrupts since the log was last cleared.
    pub fn messages(&self) -> Vec<Time> {
        self.c
            .port
            .log
            .iter()
            .filter_map(|a| if let Access::Message(t, _) = a { Some(*t) } else { None })
            .collect()
    }

    /// Returns the times of writes to the EQ.
    pub fn event_times(&self) -> Vec<Time> {
        self.writes(Self::EQ..Self::EQ + 128 * 64)
    }

    /// Returns the times of writes to the CQ.
    pub fn cqe_times(&self) -> Vec<Time> {
        self.writes(Self::CQ..Self::CQ + (64 << self.log_cq))
    }

    fn writes(&self, to: std::ops::Range<u64>) -> Vec<Time> {
        let inside = |a: &Access| match a {
            Access::Write(t, at, _) if to.contains(at) => Some(*t),
            _ => None,
        };
        self.c.port.log.iter().filter_map(inside).collect()
    }

    /// Lengths of the reads of WQEs since the log was last cleared.
    pub fn fetches(&self) -> Vec<usize> {
        let ring = Self::SQ..Self::SQ + (64 << self.log_sq);
        let inside = |a: &Access| match a {
            Access::Read(_, at, n) if ring.contains(at) => Some(*n),
            _ => None,
        };
        self.c.port.log.iter().filter_map(inside).collect()
    }
}
