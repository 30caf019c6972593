//! Event, completion and send queues.

use super::super::queues::{Cq, Eq, Sq};
use super::super::{Answer, LIMIT, LOG_MAX_CQ_SZ, LOG_MAX_EQ_SZ, LOG_MAX_WQ, MAX_CQS, MAX_EQS};
use super::{super::device::Mlx5, answer, check, input, ring};
use doorbell_hal::fail_if;
use doorbell_layout::mlx5::command::{
    Cqc, CreateCqIn, CreateEqIn, CreateSqIn, Eqc, ModifyCqIn, ModifySqIn, QueryCqOut, QueryEqOut,
    QuerySqOut, SECOND_PORT, Sqc, Tisc, Wq, modify_cq, wq_type,
};
use doorbell_layout::mlx5::receive::mini_format;
use doorbell_layout::mlx5::{
    CmdStatus, Compression, CompressionLayout, CqContext, EqContext, SqContext, SqState, WQEBB,
};

/// Bytes of a CQE and of an EQE.
const ENTRY: u64 = 64;
/// Blocks of all send queues together: each has its place on the device (128 MiB).
const MAX_BLOCKS: u32 = 1 << 21;
/// Contexts' `state` and `status` of a queue that is armed, fired, or broken.
const FIRED: u32 = 0xa;
const ARMED: u32 = 0x9;
const OVERFLOW: u32 = 0x9;

impl Mlx5 {
    fn uar_exists(&self, n: u32) -> Answer {
        self.uars.find(n).copied()
    }

    pub(super) fn on_create_eq(&mut self, bytes: &[u8]) -> Answer<u32> {
        let m = input::<CreateEqIn>(bytes)?;
        let c = m.part(CreateEqIn::EQC);
        let log_size = c.get(Eqc::LOG_SIZE);
        check(log_size <= LOG_MAX_EQ_SZ && c.get(Eqc::PAGE_OFFSET) == 0)?;
        check(c.get(Eqc::INTR) < self.cfg.vectors.into())?;
        self.uar_exists(c.get(Eqc::UAR))?;
        let ring = ring(bytes, c.get(Eqc::LOG_PAGE_SIZE), ENTRY << log_size)?;
        let ctx = EqContext {
            log_size: log_size as u8,
            ring: ring.at(0).0,
            vector: c.get(Eqc::INTR) as u16,
            uar: c.get(Eqc::UAR),
            events: m.quad(CreateEqIn::EVENTS),
        };
        self.eqs.insert(Eq::new(ctx, ring), MAX_EQS)
    }

    pub(super) fn on_query_eq(&self, n: u32, out: &mut [u8]) -> Answer {
        let eq = self.eqs.find(n)?;
        let mut m = QueryEqOut::ZERO;
        let c = m.part_mut(QueryEqOut::EQC);
        c.set(Eqc::STATE, if eq.armed.is_some() { ARMED } else { FIRED });
        c.set(Eqc::LOG_SIZE, eq.ctx.log_size.into());
        c.set(Eqc::UAR, eq.ctx.uar).set(Eqc::INTR, eq.ctx.vector.into());
        c.set(Eqc::CONSUMER, eq.ci & 0xff_ffff).set(Eqc::PRODUCER, eq.pi & 0xff_ffff);
        answer(out, &m)
    }

    pub(super) fn destroy_eq(&mut self, eqn: u32) -> Answer {
        self.eqs.destroy(eqn, self.cqs.any(|cq| cq.ctx.eqn == eqn))
    }

    pub(super) fn on_create_cq(&mut self, bytes: &[u8]) -> Answer<u32> {
        let c = input::<CreateCqIn>(bytes)?.part(CreateCqIn::CQC);
        let (log_size, dbr) = (c.get(Cqc::LOG_SIZE), c.quad(Cqc::DBR));
        // Entries of 64 bytes.
        check(log_size <= LOG_MAX_CQ_SZ && c.get(Cqc::PAGE_OFFSET) == 0 && dbr.is_multiple_of(8))?;
        check(c.get(Cqc::CQE_SIZE) == 0)?;
        let compression = match c.get(Cqc::COMPRESSION) {
            0 => None,
            _ => Some(self.compression(c)?),
        };
        self.uar_exists(c.get(Cqc::UAR))?;
        self.eqs.find(c.get(Cqc::EQN))?;
        let ring = ring(bytes, c.get(Cqc::LOG_PAGE_SIZE), ENTRY << log_size)?;
        let ctx = CqContext {
            log_size: log_size as u8,
            ring: ring.at(0).0,
            dbr,
            eqn: c.get(Cqc::EQN),
            uar: c.get(Cqc::UAR),
            period_us: c.get(Cqc::PERIOD) as u16,
            max_count: c.get(Cqc::MAX_COUNT) as u16,
            compression,
        };
        self.cqs.insert(Cq::new(ctx, ring, self.cfg.polled_doorbells), MAX_CQS)
    }

    /// Returns the compression that a context asks for.
    fn compression(&self, c: &Cqc) -> Answer<Compression> {
        let can = self.cfg.caps.compression.ok_or(CmdStatus::BadParam)?;
        let layout = match c.get(Cqc::COMPRESSION_LAYOUT) {
            0 => CompressionLayout::Basic,
            1 => CompressionLayout::Enhanced,
            _ => return Err(CmdStatus::BadParam),
        };
        check(layout == CompressionLayout::Basic || can == layout)?;
        let format = c.get(Cqc::MINI_FORMAT);
        check(format != mini_format::STRIDE || self.cfg.caps.striding)?;
        check([mini_format::HASH, mini_format::CHECKSUM, mini_format::STRIDE].contains(&format))?;
        Ok(Compression { layout, format })
    }

    /// Moderation only: the period starts with the entry whatever `cq_period_mode` says.
    pub(super) fn on_modify_cq(&mut self, bytes: &[u8]) -> Answer {
        let m = input::<ModifyCqIn>(bytes)?;
        let fields = m.get(ModifyCqIn::FIELDS);
        let cq = self.cqs.find_mut(m.get(ModifyCqIn::CQN))?;
        check(fields & !(modify_cq::PERIOD | modify_cq::MAX_COUNT | modify_cq::PERIOD_MODE) == 0)?;
        let c = m.part(ModifyCqIn::CQC);
        cq.moderate(
            (fields & modify_cq::PERIOD != 0).then(|| c.get(Cqc::PERIOD) as u16),
            (fields & modify_cq::MAX_COUNT != 0).then(|| c.get(Cqc::MAX_COUNT) as u16),
        );
        self.find_events();
        Ok(())
    }

    pub(super) fn on_query_cq(&self, n: u32, out: &mut [u8]) -> Answer {
        let cq = self.cqs.find(n)?;
        let mut m = QueryCqOut::ZERO;
        let c = m.part_mut(QueryCqOut::CQC);
        c.set(Cqc::STATUS, if cq.dead { OVERFLOW } else { 0 });
        c.set(Cqc::STATE, if cq.armed.is_some() { ARMED } else { FIRED });
        c.set(Cqc::LOG_SIZE, cq.ctx.log_size.into());
        c.set(Cqc::UAR, cq.ctx.uar).set(Cqc::EQN, cq.ctx.eqn).set_quad(Cqc::DBR, cq.ctx.dbr);
        c.set(Cqc::PERIOD, cq.ctx.period_us.into()).set(Cqc::MAX_COUNT, cq.ctx.max_count.into());
        c.set(Cqc::CONSUMER, cq.ci & 0xff_ffff).set(Cqc::PRODUCER, cq.pi & 0xff_ffff);
        answer(out, &m)
    }

    /// Work in flight for it is dropped.
    pub(in super::super) fn destroy_cq(&mut self, cqn: u32) -> Answer {
        let used = self.rx.uses_cq(cqn) || self.sqs.any(|sq| sq.ctx.cqn == cqn);
        self.cqs.destroy(cqn, used)?;
        self.purge_cq(cqn);
        self.rx.forget_session(cqn);
        Ok(())
    }

    /// In state RST.
    pub(super) fn on_create_sq(&mut self, bytes: &[u8]) -> Answer<u32> {
        let context = *input::<CreateSqIn>(bytes)?.part(CreateSqIn::SQC);
        let wq = context.part(Sqc::WQ);
        let (log_size, dbr) = (wq.get(Wq::LOG_SIZE), wq.quad(Wq::DBR));
        check(wq.get(Wq::TYPE) == wq_type::CYCLIC && wq.get(Wq::LOG_STRIDE) == WQEBB.ilog2())?;
        check(log_size <= LOG_MAX_WQ && wq.get(Wq::PAGE_OFFSET) == 0 && dbr.is_multiple_of(8))?;
        check(context.get(Sqc::MIN_INLINE) <= 3)?;
        check(context.get(Sqc::STATE) == SqState::Reset as u32)?;
        self.uar_exists(wq.get(Wq::UAR))?;
        self.pds.find(wq.get(Wq::PD))?;
        self.cqs.find(context.get(Sqc::CQN))?;
        // Without a TIS it is a queue for internal operations.
        let tis = match context.get(Sqc::TIS_LIST_SIZE) {
            0 => None,
            1 => Some(context.get(Sqc::TIS)),
            _ => return Err(CmdStatus::BadParam),
        };
        let port = match tis {
            Some(n) => self.tis.find(n)?.get(Tisc::LAG_TX_PORT_AFFINITY),
            None => 0,
        };
        let ring = ring(bytes, wq.get(Wq::LOG_PAGE_SIZE), u64::from(WQEBB) << log_size)?;
        let on_chip: u32 = self.sqs.iter().map(|(_, sq)| 1 << sq.ctx.log_size).sum();
        fail_if(on_chip + (1 << log_size) > MAX_BLOCKS, CmdStatus::NoResources)?;
        // Where the port needs layer 2 inline, every queue does.
        let least = if self.cfg.caps.min_inline == 1 { 1 } else { 0 };
        let ctx = SqContext {
            log_size: log_size as u8,
            ring: ring.at(0).0,
            dbr,
            cqn: context.get(Sqc::CQN),
            uar: wq.get(Wq::UAR),
            min_inline: (context.get(Sqc::MIN_INLINE) as u8).max(least),
            internal: context.get(Sqc::REG_UMR) == 1,
            second_port: port == SECOND_PORT,
        };
        let pd = wq.get(Wq::PD);
        self.sqs.insert(Sq::new(ctx, ring, pd, tis, &context), LIMIT)
    }

    /// RST to RDY, RDY to ERR, and any to RST.
    pub(super) fn on_modify_sq(&mut self, bytes: &[u8]) -> Answer {
        let m = input::<ModifySqIn>(bytes)?;
        let n = m.get(ModifySqIn::NUMBER);
        let state = |bits| SqState::from_bits(bits).ok_or(CmdStatus::BadParam);
        let from = state(m.get(ModifySqIn::FROM))?;
        self.modify_sq(n, from, state(m.part(ModifySqIn::SQC).get(Sqc::STATE))?)
    }

    pub(in super::super) fn modify_sq(&mut self, sqn: u32, from: SqState, to: SqState) -> Answer {
        let sq = self.sqs.find_mut(sqn)?;
        if sq.state != from || (from == SqState::Error && to == SqState::Ready) {
            return Err(CmdStatus::BadResourceState);
        }
        sq.state = to;
        if to == SqState::Reset {
            sq.reset();
            self.purge(sqn);
        }
        Ok(())
    }

    /// Work in flight for it is dropped.
    pub(in super::super) fn destroy_sq(&mut self, sqn: u32) -> Answer {
        self.sqs.destroy(sqn, false)?;
        self.purge(sqn);
        Ok(())
    }

    pub(super) fn on_query_sq(&self, n: u32, out: &mut [u8]) -> Answer {
        let sq = self.sqs.find(n)?;
        let mut m = QuerySqOut::ZERO;
        let c = m.part_mut(QuerySqOut::SQC);
        *c = *sq.context;
        c.set(Sqc::STATE, sq.state as u32);
        let wq = c.part_mut(Sqc::WQ);
        wq.set(Wq::HW_COUNTER, sq.executed.into()).set(Wq::SW_COUNTER, sq.fetched.into());
        answer(out, &m)
    }
}
