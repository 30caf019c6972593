//! Receive queues, RQ tables, TIRs: from messages to what the receive side keeps.

use super::super::device::Mlx5;
use super::super::receive::{LOG_MAX_RQ, LOG_MAX_STRIDE};
use super::super::rss::{Dispatch, HashFn, KEY, TirContext};
use super::{Answer, CmdStatus, answer, check, input, ring, tail};
use alloc::vec::Vec;
use doorbell_layout::mlx5::command::{
    CreateRqIn, CreateTirIn, ModifyRqIn, ModifyTirIn, PAS_LIST, QueryRqOut, QueryTirOut, Rqc,
    RqtIn, Tirc, Wq, dispatch, modify_rq, modify_rqt, modify_tir, wq_type,
};
use doorbell_layout::mlx5::receive::{RqContext, RqState};

impl Mlx5 {
    /// In state RST.
    pub(super) fn on_create_rq(&mut self, bytes: &[u8]) -> Result<u32, CmdStatus> {
        let context = *input::<CreateRqIn>(bytes)?.part(CreateRqIn::RQC);
        let wq = context.part(Rqc::WQ);
        let (log_size, log_stride, dbr) =
            (wq.get(Wq::LOG_SIZE), wq.get(Wq::LOG_STRIDE), wq.quad(Wq::DBR));
        // No shared receive memory (RMP), no striding, no linked lists.
        check(context.get(Rqc::MEMORY_TYPE) == 0 && wq.get(Wq::TYPE) == wq_type::CYCLIC)?;
        check(
            log_size <= u32::from(LOG_MAX_RQ)
                && (4..=u32::from(LOG_MAX_STRIDE)).contains(&log_stride),
        )?;
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
        };
        self.install_rq(&ctx, ring, &context)
    }

    pub(super) fn on_modify_rq(&mut self, bytes: &[u8]) -> Answer {
        let m = input::<ModifyRqIn>(bytes)?;
        let (n, c, fields) =
            (m.get(ModifyRqIn::NUMBER), m.part(ModifyRqIn::RQC), m.quad(ModifyRqIn::FIELDS));
        let from = RqState::from_bits(m.get(ModifyRqIn::FROM)).ok_or(CmdStatus::BadParam)?;
        let to = RqState::from_bits(c.get(Rqc::STATE)).ok_or(CmdStatus::BadParam)?;
        let set = c.get(Rqc::COUNTER_SET);
        if fields & modify_rq::COUNTER_SET != 0 && set != 0 {
            self.counter_sets.find(set)?;
        }
        self.modify_rq(n, from, to)?;
        let rq = self.rx.rqs.find_mut(n)?;
        if fields & modify_rq::VSD != 0 {
            rq.ctx.keep_vlan = c.get(Rqc::NO_VLAN_STRIP) == 1;
        }
        if fields & modify_rq::COUNTER_SET != 0 {
            rq.ctx.counter_set = set as u8;
        }
        Ok(())
    }

    pub(super) fn on_query_rq(&self, n: u32, out: &mut [u8]) -> Answer {
        let rq = self.rx.rqs.find(n)?;
        let mut m = QueryRqOut::ZERO;
        let c = m.part_mut(QueryRqOut::RQC);
        *c = *rq.context;
        c.set(Rqc::STATE, rq.state as u32).set(Rqc::NO_VLAN_STRIP, u32::from(rq.ctx.keep_vlan));
        c.set(Rqc::COUNTER_SET, u32::from(rq.ctx.counter_set));
        answer(out, &m)
    }

    /// The queues of a list; all of them have to be there.
    fn rqns(&self, bytes: &[u8], n: u32) -> Result<Vec<u32>, CmdStatus> {
        let list = tail(bytes, PAS_LIST).get(..n as usize * 4).ok_or(CmdStatus::BadInputLength)?;
        let word = |b: &[u8]| u32::from_be_bytes(core::array::from_fn(|i| b[i])) & 0xff_ffff;
        let rqns: Vec<u32> = list.chunks_exact(4).map(word).collect();
        if rqns.iter().all(|&n| self.rx.rqs.get(n).is_some()) {
            Ok(rqns)
        } else {
            Err(CmdStatus::BadResource)
        }
    }

    pub(super) fn on_create_rqt(&mut self, bytes: &[u8]) -> Result<u32, CmdStatus> {
        let m = input::<RqtIn>(bytes)?;
        let (size, max) = (m.get(RqtIn::ACTUAL_SIZE), m.get(RqtIn::MAX_SIZE));
        check(size <= max)?;
        let rqns = self.rqns(bytes, size)?;
        self.create_rqt(rqns)
    }

    pub(super) fn on_modify_rqt(&mut self, bytes: &[u8]) -> Answer {
        let m = input::<RqtIn>(bytes)?;
        if m.quad(RqtIn::FIELDS) & modify_rqt::LIST == 0 {
            return self.rx.rqts.find(m.get(RqtIn::RQTN)).map(|_| ());
        }
        let rqns = self.rqns(bytes, m.get(RqtIn::ACTUAL_SIZE))?;
        self.modify_rqt(m.get(RqtIn::RQTN), rqns)
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

    pub(super) fn on_create_tir(&mut self, bytes: &[u8]) -> Result<u32, CmdStatus> {
        let c = input::<CreateTirIn>(bytes)?.part(CreateTirIn::TIRC);
        let td = c.get(Tirc::TRANSPORT_DOMAIN);
        self.tds.find(td)?;
        // No LRO.
        check(c.get(Tirc::PACKET_MERGE) == 0)?;
        let mut ctx = TirContext::direct(c.get(Tirc::INLINE_RQN));
        ctx.self_lb_block = c.get(Tirc::SELF_LB_BLOCK) as u8;
        match c.get(Tirc::DISPATCH) {
            dispatch::DIRECT => {}
            dispatch::INDIRECT => {
                ctx.dispatch = Dispatch::Indirect(c.get(Tirc::RQTN));
                Mlx5::hashing(c, &mut ctx)?;
            }
            _ => return Err(CmdStatus::BadParam),
        }
        let n = self.create_tir(&ctx)?;
        if let Some(t) = self.rx.tirs.get_mut(n) {
            t.transport_domain = td;
        }
        Ok(n)
    }

    pub(super) fn on_modify_tir(&mut self, bytes: &[u8]) -> Answer {
        let m = input::<ModifyTirIn>(bytes)?;
        let (n, c, fields) =
            (m.get(ModifyTirIn::TIRN), m.part(ModifyTirIn::TIRC), m.quad(ModifyTirIn::FIELDS));
        check(fields & !(modify_tir::HASH | modify_tir::SELF_LB | modify_tir::PACKET_MERGE) == 0)?;
        check(fields & modify_tir::PACKET_MERGE == 0 || c.get(Tirc::PACKET_MERGE) == 0)?;
        let mut ctx = self.query_tir(n)?;
        if fields & modify_tir::HASH != 0 {
            Mlx5::hashing(c, &mut ctx)?;
        }
        if fields & modify_tir::SELF_LB != 0 {
            ctx.self_lb_block = c.get(Tirc::SELF_LB_BLOCK) as u8;
        }
        let td = self.rx.tirs.get(n).map_or(0, |t| t.transport_domain);
        self.modify_tir(n, &ctx)?;
        if let Some(t) = self.rx.tirs.get_mut(n) {
            t.transport_domain = td;
        }
        Ok(())
    }

    pub(super) fn on_query_tir(&self, n: u32, out: &mut [u8]) -> Answer {
        let t = self.rx.tirs.find(n)?;
        let ctx = &t.ctx;
        let mut m = QueryTirOut::ZERO;
        let c = m.part_mut(QueryTirOut::TIRC);
        match ctx.dispatch {
            Dispatch::Direct(rqn) => {
                c.set(Tirc::DISPATCH, dispatch::DIRECT).set(Tirc::INLINE_RQN, rqn)
            }
            Dispatch::Indirect(rqtn) => {
                c.set(Tirc::DISPATCH, dispatch::INDIRECT).set(Tirc::RQTN, rqtn)
            }
        };
        c.set(Tirc::HASH_FN, ctx.function as u32).set(Tirc::SYMMETRIC, u32::from(ctx.symmetric));
        c.set(Tirc::FIELDS, ctx.fields).set(Tirc::SELF_LB_BLOCK, u32::from(ctx.self_lb_block) & 3);
        c.set(Tirc::TRANSPORT_DOMAIN, t.transport_domain);
        c.0[Tirc::KEY..Tirc::KEY + KEY].copy_from_slice(&ctx.key);
        answer(out, &m)
    }
}
