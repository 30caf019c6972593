//! Receive queues, RQ tables and TIRs as the commands make and change them. Checks and statuses
//! are the firmware's.

use super::super::command::{answer, check, input, ring, tail};
use super::super::rss::{Dispatch, HashFn, LOG_MAX_RQT, Rqt, Tir, TirContext};
use super::super::{Answer, LIMIT, device::Mlx5, steering::Destination};
use super::{Rq, RxError};
use alloc::vec::Vec;
use doorbell_hal::Time;
use doorbell_layout::mlx5::CmdStatus;
use doorbell_layout::mlx5::command::{
    CreateRqIn, CreateTirIn, ModifyRqIn, ModifyTirIn, PAS_LIST, QueryRqOut, QueryTirOut, Rqc,
    RqtIn, Tirc, Wq, dispatch, modify_rq, modify_rqt, modify_tir, wq_type,
};
use doorbell_layout::mlx5::receive::{
    LOG_STRIDE_BASE, LOG_STRIDES_BASE, RqContext, RqState, Strides,
};
use doorbell_packet::toeplitz::KEY;

/// log2 of the longest receive queue in WQEs, and of the longest WQE in bytes.
pub(super) const LOG_MAX_RQ: u32 = 15;
pub(super) const LOG_MAX_STRIDE: u32 = 10;
/// log2 of the fewest strides of a WQE (`ext_stride_num_range`).
const LOG_MIN_STRIDES: i32 = 3;

impl Mlx5 {
    /// `CREATE_RQ`, in state RST.
    pub(in super::super) fn on_create_rq(&mut self, bytes: &[u8]) -> Answer<u32> {
        let context = *input::<CreateRqIn>(bytes)?.part(CreateRqIn::RQC);
        let wq = context.part(Rqc::WQ);
        let (log_size, log_stride) = (wq.get(Wq::LOG_SIZE), wq.get(Wq::LOG_STRIDE));
        let dbr = wq.quad(Wq::DBR);
        // No shared receive memory (RMP), no lists without strides.
        check(context.get(Rqc::MEMORY_TYPE) == 0)?;
        let strides = match wq.get(Wq::TYPE) {
            wq_type::CYCLIC => None,
            wq_type::STRIDING if self.cfg.caps.striding => Some(strides(wq)?),
            _ => return Err(CmdStatus::BadParam),
        };
        // A link and a data segment.
        check(strides.is_none() || log_stride >= 5)?;
        check(log_size <= LOG_MAX_RQ && (4..=LOG_MAX_STRIDE).contains(&log_stride))?;
        check(wq.get(Wq::PAGE_OFFSET) == 0 && dbr.is_multiple_of(4))?;
        check(context.get(Rqc::STATE) == RqState::Reset as u32)?;
        let (pd, set) = (wq.get(Wq::PD), context.get(Rqc::COUNTER_SET));
        // A queue that nothing is ever posted to has no domain.
        if pd != 0 {
            self.pds.find(pd)?;
        }
        if set != 0 {
            self.counter_sets.find(set)?;
        }
        self.cqs.find(context.get(Rqc::CQN))?;
        let ring = ring(bytes, wq.get(Wq::LOG_PAGE_SIZE), 1 << (log_size + log_stride))?;
        let ctx = RqContext {
            log_size: log_size as u8,
            log_stride: log_stride as u8,
            ring: ring.at(0).0,
            dbr,
            cqn: context.get(Rqc::CQN),
            counter_set: set as u8,
            keep_vlan: context.get(Rqc::NO_VLAN_STRIP) == 1,
            flush_in_error: context.get(Rqc::FLUSH_IN_ERROR) == 1,
            end_padding: wq.get(Wq::END_PADDING) == 1,
            strides,
        };
        self.rx.rqs.insert(Rq::new(ctx, ring, &context, self.cfg.rx_fetch_chunk), LIMIT)
    }

    pub(in super::super) fn on_modify_rq(&mut self, at: Time, bytes: &[u8]) -> Answer {
        let m = input::<ModifyRqIn>(bytes)?;
        let (n, c, fields) =
            (m.get(ModifyRqIn::NUMBER), m.part(ModifyRqIn::RQC), m.quad(ModifyRqIn::FIELDS));
        let from = RqState::from_bits(m.get(ModifyRqIn::FROM)).ok_or(CmdStatus::BadParam)?;
        let to = RqState::from_bits(c.get(Rqc::STATE)).ok_or(CmdStatus::BadParam)?;
        let set = c.get(Rqc::COUNTER_SET);
        if fields & modify_rq::COUNTER_SET != 0 && set != 0 {
            self.counter_sets.find(set)?;
        }
        self.modify_rq(at, n, from, to)?;
        let rq = self.rx.rqs.find_mut(n)?;
        if fields & modify_rq::VSD != 0 {
            rq.ctx.keep_vlan = c.get(Rqc::NO_VLAN_STRIP) == 1;
        }
        if fields & modify_rq::COUNTER_SET != 0 {
            rq.ctx.counter_set = set as u8;
        }
        Ok(())
    }

    /// RST to RDY, anything to ERR or RST.
    pub(super) fn modify_rq(&mut self, at: Time, rqn: u32, from: RqState, to: RqState) -> Answer {
        let rq = self.rx.rqs.find_mut(rqn)?;
        if rq.state != from || (from == RqState::Error && to == RqState::Ready) {
            return Err(CmdStatus::BadResourceState);
        }
        rq.state = to;
        match to {
            RqState::Reset => {
                rq.reset();
                let cqn = rq.ctx.cqn;
                self.rx.purge(rqn);
                self.drop_session(cqn, rqn);
            }
            RqState::Error if from == RqState::Ready && rq.ctx.flush_in_error => {
                self.rx.pending_errors.push_back((at, rqn, RxError::Flush));
            }
            _ => {}
        }
        self.update_next_event();
        Ok(())
    }

    pub(in super::super) fn on_query_rq(&self, n: u32, out: &mut [u8]) -> Answer {
        let rq = self.rx.rqs.find(n)?;
        let mut m = QueryRqOut::ZERO;
        let c = m.part_mut(QueryRqOut::RQC);
        *c = *rq.context;
        c.set(Rqc::STATE, rq.state as u32).set(Rqc::NO_VLAN_STRIP, rq.ctx.keep_vlan.into());
        c.set(Rqc::COUNTER_SET, rq.ctx.counter_set.into());
        answer(out, &m)
    }

    /// `DESTROY_RQ`; no TIR or RQT may name it. Work in flight for it is dropped.
    pub(in super::super) fn destroy_rq(&mut self, rqn: u32) -> Answer {
        let direct = self.rx.paths.tirs.any(|t| t.ctx.dispatch == Dispatch::Direct(rqn));
        let named = self.rx.rqs.get(rqn).is_some_and(|rq| rq.named > 0);
        let cqn = self.rx.rqs.get(rqn).map(|rq| rq.ctx.cqn);
        self.rx.rqs.destroy(rqn, direct || named)?;
        self.rx.purge(rqn);
        cqn.into_iter().for_each(|cqn| self.drop_session(cqn, rqn));
        self.update_next_event();
        Ok(())
    }

    /// The queues of a list; all of them have to be there.
    fn rqns(&self, bytes: &[u8], n: u32) -> Answer<Vec<u32>> {
        let list = tail(bytes, PAS_LIST).get(..n as usize * 4).ok_or(CmdStatus::BadInputLength)?;
        let word = |b: &[u8]| u32::from_be_bytes(core::array::from_fn(|i| b[i])) & 0xff_ffff;
        let rqns: Vec<u32> = list.chunks_exact(4).map(word).collect();
        if rqns.iter().all(|&n| self.rx.rqs.get(n).is_some()) {
            Ok(rqns)
        } else {
            Err(CmdStatus::BadResource)
        }
    }

    /// `CREATE_RQT`: an indirection table of receive queues.
    pub(in super::super) fn on_create_rqt(&mut self, bytes: &[u8]) -> Answer<u32> {
        let m = input::<RqtIn>(bytes)?;
        let (size, max) = (m.get(RqtIn::ACTUAL_SIZE), m.get(RqtIn::MAX_SIZE));
        check(size <= max)?;
        let rqns = self.rqns(bytes, size)?;
        self.create_rqt(rqns)
    }

    pub(super) fn create_rqt(&mut self, rqns: Vec<u32>) -> Answer<u32> {
        check(is_table(&rqns))?;
        let new = rqns.clone();
        let n = self.rx.paths.change().rqts.insert(Rqt { rqns }, LIMIT)?;
        self.name(&new, 1);
        Ok(n)
    }

    /// An RQT names these queues, or with -1 does so no more.
    fn name(&mut self, rqns: &[u32], more: i32) {
        for n in rqns {
            if let Some(rq) = self.rx.rqs.get_mut(*n) {
                rq.named = rq.named.saturating_add_signed(more);
            }
        }
    }

    /// `MODIFY_RQT`: other queues.
    pub(in super::super) fn on_modify_rqt(&mut self, bytes: &[u8]) -> Answer {
        let m = input::<RqtIn>(bytes)?;
        if m.quad(RqtIn::FIELDS) & modify_rqt::LIST == 0 {
            return self.rx.paths.rqts.find(m.get(RqtIn::RQTN)).map(|_| ());
        }
        let rqns = self.rqns(bytes, m.get(RqtIn::ACTUAL_SIZE))?;
        self.modify_rqt(m.get(RqtIn::RQTN), rqns)
    }

    pub(super) fn modify_rqt(&mut self, rqtn: u32, rqns: Vec<u32>) -> Answer {
        check(is_table(&rqns))?;
        let new = rqns.clone();
        let old = core::mem::replace(&mut self.rx.paths.change().rqts.find_mut(rqtn)?.rqns, rqns);
        self.name(&old, -1);
        self.name(&new, 1);
        Ok(())
    }

    /// `DESTROY_RQT`; no TIR may use it.
    pub(in super::super) fn destroy_rqt(&mut self, rqtn: u32) -> Answer {
        let used = self.rx.paths.tirs.any(|t| t.ctx.dispatch == Dispatch::Indirect(rqtn));
        let old = self.rx.paths.rqts.get(rqtn).map_or_else(Vec::new, |t| t.rqns.clone());
        self.rx.paths.change().rqts.destroy(rqtn, used)?;
        self.name(&old, -1);
        Ok(())
    }

    fn hashing(c: &Tirc, into: &mut TirContext) -> Answer {
        into.function = match c.get(Tirc::HASH_FN) {
            0 => HashFn::None,
            1 => HashFn::InvertedXor8,
            2 => HashFn::Toeplitz,
            _ => return Err(CmdStatus::BadParam),
        };
        into.symmetric = c.get(Tirc::SYMMETRIC) == 1;
        into.fields = c.get(Tirc::FIELDS);
        into.key.copy_from_slice(&c.0[Tirc::KEY..Tirc::KEY + KEY]);
        Ok(())
    }

    pub(in super::super) fn on_create_tir(&mut self, bytes: &[u8]) -> Answer<u32> {
        let c = input::<CreateTirIn>(bytes)?.part(CreateTirIn::TIRC);
        let mut ctx = TirContext::direct(c.get(Tirc::INLINE_RQN));
        ctx.transport_domain = c.get(Tirc::TRANSPORT_DOMAIN);
        self.tds.find(ctx.transport_domain)?;
        // No LRO.
        check(c.get(Tirc::PACKET_MERGE) == 0)?;
        ctx.self_lb_block = c.get(Tirc::SELF_LB_BLOCK) as u8;
        match c.get(Tirc::DISPATCH) {
            dispatch::DIRECT => {}
            dispatch::INDIRECT => {
                ctx.dispatch = Dispatch::Indirect(c.get(Tirc::RQTN));
                Mlx5::hashing(c, &mut ctx)?;
            }
            _ => return Err(CmdStatus::BadParam),
        }
        self.create_tir(ctx)
    }

    pub(super) fn create_tir(&mut self, c: TirContext) -> Answer<u32> {
        self.has_target(&c)?;
        let n = self.rx.paths.change().tirs.insert(Tir::new(c), LIMIT)?;
        self.find_own_addresses();
        Ok(n)
    }

    /// `MODIFY_TIR`: hash and loopback.
    pub(in super::super) fn on_modify_tir(&mut self, bytes: &[u8]) -> Answer {
        let m = input::<ModifyTirIn>(bytes)?;
        let (n, c, fields) =
            (m.get(ModifyTirIn::TIRN), m.part(ModifyTirIn::TIRC), m.quad(ModifyTirIn::FIELDS));
        check(fields & !(modify_tir::HASH | modify_tir::SELF_LB | modify_tir::PACKET_MERGE) == 0)?;
        check(fields & modify_tir::PACKET_MERGE == 0 || c.get(Tirc::PACKET_MERGE) == 0)?;
        let mut ctx = self.rx.paths.tirs.find(n)?.ctx;
        if fields & modify_tir::HASH != 0 {
            Mlx5::hashing(c, &mut ctx)?;
        }
        if fields & modify_tir::SELF_LB != 0 {
            ctx.self_lb_block = c.get(Tirc::SELF_LB_BLOCK) as u8;
        }
        self.modify_tir(n, ctx)
    }

    pub(super) fn modify_tir(&mut self, tirn: u32, c: TirContext) -> Answer {
        self.has_target(&c)?;
        *self.rx.paths.change().tirs.find_mut(tirn)? = Tir::new(c);
        self.find_own_addresses();
        Ok(())
    }

    pub(in super::super) fn on_query_tir(&self, n: u32, out: &mut [u8]) -> Answer {
        let ctx = &self.rx.paths.tirs.find(n)?.ctx;
        let mut m = QueryTirOut::ZERO;
        let c = m.part_mut(QueryTirOut::TIRC);
        let (kind, place, to) = match ctx.dispatch {
            Dispatch::Direct(rqn) => (dispatch::DIRECT, Tirc::INLINE_RQN, rqn),
            Dispatch::Indirect(rqtn) => (dispatch::INDIRECT, Tirc::RQTN, rqtn),
        };
        c.set(Tirc::DISPATCH, kind).set(place, to);
        c.set(Tirc::HASH_FN, ctx.function as u32).set(Tirc::SYMMETRIC, ctx.symmetric.into());
        c.set(Tirc::FIELDS, ctx.fields).set(Tirc::SELF_LB_BLOCK, u32::from(ctx.self_lb_block) & 3);
        c.set(Tirc::TRANSPORT_DOMAIN, ctx.transport_domain);
        c.0[Tirc::KEY..Tirc::KEY + KEY].copy_from_slice(&ctx.key);
        answer(out, &m)
    }

    /// `DESTROY_TIR`; no entry may name it.
    pub(in super::super) fn destroy_tir(&mut self, tirn: u32) -> Answer {
        let named = self.rx.paths.steering.names(Destination::Tir(tirn));
        self.rx.paths.change().tirs.destroy(tirn, named)?;
        self.find_own_addresses();
        Ok(())
    }

    fn has_target(&self, c: &TirContext) -> Answer {
        match c.dispatch {
            Dispatch::Direct(rqn) => self.rx.rqs.find(rqn).map(|_| ()),
            Dispatch::Indirect(rqtn) => self.rx.paths.rqts.find(rqtn).map(|_| ()),
        }
    }
}

/// Returns the strides of a queue's WQEs. Their count is a number of four bits with a sign.
fn strides(wq: &Wq) -> Answer<Strides> {
    let count = (wq.get(Wq::LOG_STRIDES) as i32) << 28 >> 28;
    let log_count = count + LOG_STRIDES_BASE as i32;
    check(log_count >= LOG_MIN_STRIDES && wq.get(Wq::SHIFT) == 0)?;
    let log_size = wq.get(Wq::LOG_STRIDE_SIZE) + LOG_STRIDE_BASE;
    Ok(Strides { log_count: log_count as u8, log_size: log_size as u8 })
}

/// Returns true if an RQT may be so. The queues need not exist: Linux fills a table with the drop
/// queue's number first.
fn is_table(rqns: &[u32]) -> bool {
    !rqns.is_empty() && rqns.len() <= 1 << LOG_MAX_RQT
}
