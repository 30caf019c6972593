//! Firmware commands of the guest: about objects that there are, or of any kind.

use super::action::{PAGES, SHORT};
use super::guest::{Guest, SQ_PAGES};
use crate::mlx5::CommandHarness;
use doorbell_layout::mlx5::command::{
    AccessReg, Cqc, CreateFlowGroupIn, CreateFlowTableIn, CreateMkeyIn, FlowContext, FlowGroupIn,
    FlowTableContext, FlowTableIn, FteIn, Mkc, ModifyCqIn, ModifyFlowTableIn, ModifyRqIn,
    ModifySqIn, ModifyTirIn, Numbered, QueryQCounterIn, Rqc, RqtIn, SetFteIn, Sqc, Tirc,
    VportState, access, access_mode, destination, flow_action, miss_action, modify_cq,
    modify_flow_table, modify_rqt, modify_tir, op, register,
};
use doorbell_testkit::mlx5::Common;
use zerocopy::IntoBytes;

/// Every opcode that there is, and some that there are not.
const OPCODES: [std::ops::RangeInclusive<u16>; 8] = [
    0x100..=0x10d,
    0x200..=0x203,
    0x301..=0x303,
    0x400..=0x403,
    0x750..=0x755,
    0x770..=0x773,
    0x800..=0x817,
    0x900..=0x93c,
];

pub(super) fn opcode(n: u16) -> u16 {
    let all: usize = OPCODES.iter().map(ExactSizeIterator::len).sum();
    OPCODES.iter().cloned().flatten().nth(usize::from(n) % all).unwrap_or(0)
}

/// The input of a command that makes sense, about objects that there are.
pub(super) fn sensible(which: u8, o: &Common, n: u32) -> (u16, Vec<u8>) {
    let pages = CommandHarness::pas(&SQ_PAGES.map(CommandHarness::page));
    let log = n & 7;
    match which % 10 {
        0 => (
            op::CREATE_SQ,
            [CommandHarness::sq_message(o, log, CommandHarness::DBR).as_bytes(), &pages].concat(),
        ),
        1 => (
            op::CREATE_RQ,
            [CommandHarness::rq_message(o, log, 4, CommandHarness::DBR).as_bytes(), &pages]
                .concat(),
        ),
        2 => (
            op::CREATE_CQ,
            [CommandHarness::cq_message(o, log, CommandHarness::DBR).as_bytes(), &pages].concat(),
        ),
        3 => {
            let mut m = RqtIn::ZERO;
            m.set(RqtIn::MAX_SIZE, 2).set(RqtIn::ACTUAL_SIZE, 2).set(RqtIn::RQTN, 0x3000 + (n & 3));
            let rqns = [0x4000 + (n >> 2 & 3), 0x4000 + (n >> 4 & 3)];
            (
                op::CREATE_RQT + (n >> 6 & 1) as u16,
                [m.as_bytes(), &rqns.map(u32::to_be_bytes).concat()].concat(),
            )
        }
        4 => (op::CREATE_FLOW_TABLE, CreateFlowTableIn::ZERO.as_bytes().to_vec()),
        5 => {
            let mut m = CreateFlowGroupIn::ZERO;
            m.set(CreateFlowGroupIn::TABLE, 0x8000 + (n & 3));
            (op::CREATE_FLOW_GROUP, [m.as_bytes(), &[0; 0x200]].concat())
        }
        6 => {
            let mut m = SetFteIn::ZERO;
            m.set(SetFteIn::TABLE, 0x8000 + (n & 3));
            m.0[0x47] = 1 + (n >> 2 & 3) as u8;
            m.0[0x4f] = 4;
            m.0[0x53] = 1;
            let to = if n >> 4 & 1 == 0 { 2 << 24 | 0x2000 } else { 1 << 24 | 0x8000 };
            (
                op::SET_FLOW_TABLE_ENTRY,
                [m.as_bytes(), &(to | n >> 5 & 3).to_be_bytes(), &[0; 4]].concat(),
            )
        }
        7 => {
            let mut m = CommandHarness::mkey_message(o.pd);
            m.set(CreateMkeyIn::OCTWORDS, 2);
            let c = m.part_mut(CreateMkeyIn::MKC);
            c.set(Mkc::ACCESS_MODE, n & 1)
                .set(Mkc::LENGTH64, 1 - (n & 1))
                .set(Mkc::LOG_PAGE_SIZE, 12);
            c.set_quad(Mkc::LENGTH, u64::from(n & 0x3fff));
            (op::CREATE_MKEY, [m.as_bytes(), &pages].concat())
        }
        _ => {
            let mut m = Numbered::ZERO;
            m.set(Numbered::NUMBER, n & 0xffff);
            (opcode((n >> 16) as u16), m.as_bytes().to_vec())
        }
    }
}

/// Objects of the guest.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Device,
    Uar,
    Pd,
    Td,
    Key,
    Tis,
    Eq,
    Cq,
    Sq,
    Rq,
    Rqt,
    Tir,
    Set,
}

/// Commands of [`Action::Object`](super::Action::Object) that need no more than a number. Those
/// behind them are in [`Guest::about`].
pub(super) const NUMBERED: [(u16, Kind); 33] = [
    (op::QUERY_MKEY, Kind::Key),
    (op::QUERY_TIS, Kind::Tis),
    (op::QUERY_EQ, Kind::Eq),
    (op::QUERY_CQ, Kind::Cq),
    (op::QUERY_SQ, Kind::Sq),
    (op::QUERY_RQ, Kind::Rq),
    (op::QUERY_TIR, Kind::Tir),
    (op::ALLOC_Q_COUNTER, Kind::Device),
    (op::QUERY_ADAPTER, Kind::Device),
    (op::QUERY_ISSI, Kind::Device),
    (op::QUERY_VPORT_STATE, Kind::Device),
    (op::QUERY_VPORT_COUNTER, Kind::Device),
    (op::QUERY_NIC_VPORT_CONTEXT, Kind::Device),
    (op::DEALLOC_Q_COUNTER, Kind::Set),
    (op::DESTROY_TIR, Kind::Tir),
    (op::DESTROY_RQT, Kind::Rqt),
    (op::DESTROY_RQ, Kind::Rq),
    (op::DESTROY_SQ, Kind::Sq),
    (op::DESTROY_CQ, Kind::Cq),
    (op::DESTROY_EQ, Kind::Eq),
    (op::DESTROY_TIS, Kind::Tis),
    (op::DESTROY_MKEY, Kind::Key),
    (op::DEALLOC_TRANSPORT_DOMAIN, Kind::Td),
    (op::DEALLOC_PD, Kind::Pd),
    (op::DEALLOC_UAR, Kind::Uar),
    (op::ALLOC_UAR, Kind::Device),
    (op::ALLOC_PD, Kind::Device),
    (op::ALLOC_TRANSPORT_DOMAIN, Kind::Device),
    (op::TEARDOWN_HCA, Kind::Device),
    (op::DISABLE_HCA, Kind::Device),
    (op::ENABLE_HCA, Kind::Device),
    (op::INIT_HCA, Kind::Device),
    (op::MODIFY_RQT, Kind::Rqt),
];
/// All of them.
const ABOUT: u8 = NUMBERED.len() as u8 + 11;

/// Registers of the port, and one that there is not.
const REGISTERS: [u16; 8] = [
    register::PMLP,
    register::PMTU,
    register::PTYS,
    register::PAOS,
    register::PPCNT,
    register::PFCC,
    register::PCAM,
    0x1234,
];

/// Returns a number of those that there are.
pub(super) fn some(of: &[u32], n: u8) -> Option<u32> {
    of.get(usize::from(n) % of.len().max(1)).copied()
}

/// Removes the number that [`some`] returns.
fn forget(of: &mut Vec<u32>, n: u8) {
    let gone = some(of, n);
    of.retain(|o| Some(*o) != gone);
}

impl Guest {
    fn number(&self, kind: Kind, n: u8) -> Option<u32> {
        let rqns: Vec<u32> = self.rqs.iter().map(|q| q.0).collect();
        match kind {
            Kind::Device => Some(0),
            Kind::Uar => Some(self.o.uar),
            Kind::Pd => Some(self.o.pd),
            Kind::Td => Some(self.o.td),
            Kind::Key => Some(self.o.mkey),
            Kind::Tis => Some(self.o.tis),
            Kind::Eq => Some(self.o.eq + u32::from(n & 1)),
            Kind::Cq => Some(self.o.cq),
            Kind::Sq => Some(self.sqn),
            Kind::Rq => some(&rqns, n),
            Kind::Rqt => some(&self.rqts, n),
            Kind::Tir => some(&self.tirs, n),
            Kind::Set => Some(u32::from(n & 3)),
        }
    }

    /// Returns a command about object `n`: opcode, modifier and input.
    fn about(&self, which: u8, n: u8) -> Option<(u16, u32, Vec<u8>)> {
        let which = which % ABOUT;
        if let Some(&(opcode, kind)) = NUMBERED.get(usize::from(which)) {
            let mut m = Numbered::ZERO;
            m.set(Numbered::NUMBER, self.number(kind, n)?);
            return Some((opcode, 0, m.as_bytes().to_vec()));
        }
        let index = usize::from(n) % self.rules.len().max(1);
        let (table, group) = self.rules.get(index).copied().unwrap_or_default();
        let mut entry = FteIn::ZERO;
        entry.set(FteIn::TABLE, table).set(FteIn::INDEX, index as u32);
        let entry = entry.as_bytes().to_vec();
        Some(match which - NUMBERED.len() as u8 {
            0 => (op::QUERY_FLOW_TABLE_ENTRY, 0, entry),
            1 => (op::DELETE_FLOW_TABLE_ENTRY, 0, entry),
            2 => {
                let mut m = FlowGroupIn::ZERO;
                m.set(FlowGroupIn::TABLE, table).set(FlowGroupIn::GROUP, group);
                (op::DESTROY_FLOW_GROUP, 0, m.as_bytes().to_vec())
            }
            3 => {
                let mut m = FlowTableIn::ZERO;
                m.set(FlowTableIn::TABLE, some(&self.tables, n)?);
                (op::DESTROY_FLOW_TABLE, 0, m.as_bytes().to_vec())
            }
            4 => {
                let mut m = VportState::ZERO;
                m.set(VportState::ADMIN, u32::from(n & 3));
                (op::MODIFY_VPORT_STATE, 0, m.as_bytes().to_vec())
            }
            5 => {
                let mut m = QueryQCounterIn::ZERO;
                m.set(QueryQCounterIn::SET, u32::from(n & 3))
                    .set(QueryQCounterIn::CLEAR, u32::from(n >> 2 & 1));
                (op::QUERY_Q_COUNTER, 0, m.as_bytes().to_vec())
            }
            6 => {
                let mut m = ModifyTirIn::ZERO;
                m.set(ModifyTirIn::TIRN, some(&self.tirs, n)?)
                    .set_quad(ModifyTirIn::FIELDS, modify_tir::HASH | modify_tir::SELF_LB);
                let c = m.part_mut(ModifyTirIn::TIRC);
                c.set(Tirc::HASH_FN, u32::from(n >> 4 & 3)).set(Tirc::FIELDS, n.into());
                (op::MODIFY_TIR, 0, m.as_bytes().to_vec())
            }
            8 => {
                let mut m = ModifyFlowTableIn::ZERO;
                m.set(ModifyFlowTableIn::TABLE, some(&self.tables, n)?)
                    .set(ModifyFlowTableIn::FIELDS, modify_flow_table::MISS);
                if n & 0x80 != 0 {
                    m.part_mut(ModifyFlowTableIn::CONTEXT)
                        .set(FlowTableContext::MISS_ACTION, miss_action::TABLE)
                        .set(FlowTableContext::MISS_TABLE, *self.tables.last()?);
                }
                (op::MODIFY_FLOW_TABLE, 0, m.as_bytes().to_vec())
            }
            // To the last TIR, and with another action and tag.
            9 => {
                let mut m = SetFteIn::ZERO;
                m.set(SetFteIn::TABLE, table)
                    .set(SetFteIn::INDEX, index as u32)
                    .set(SetFteIn::MODIFY, u32::from(n >> 4));
                m.part_mut(SetFteIn::CONTEXT)
                    .set(FlowContext::GROUP, group)
                    .set(FlowContext::TAG, n.into())
                    .set(FlowContext::ACTION, flow_action::FORWARD)
                    .set(FlowContext::DESTINATIONS, 1);
                let to = destination::TIR << 24 | self.tirs.last()?;
                let m = [m.as_bytes(), &(u64::from(to) << 32).to_be_bytes()].concat();
                (op::SET_FLOW_TABLE_ENTRY, 1, m)
            }
            10 => {
                let fields = modify_cq::PERIOD | modify_cq::MAX_COUNT;
                let mut m = ModifyCqIn::ZERO;
                m.set(ModifyCqIn::CQN, self.o.cq).set(ModifyCqIn::FIELDS, fields);
                m.part_mut(ModifyCqIn::CQC)
                    .set(Cqc::PERIOD, u32::from(n & 15))
                    .set(Cqc::MAX_COUNT, u32::from(n >> 4));
                (op::MODIFY_CQ, 0, m.as_bytes().to_vec())
            }
            // Capabilities, of each group.
            _ => (op::QUERY_HCA_CAP, u32::from(n & 0x3f), Numbered::ZERO.as_bytes().to_vec()),
        })
    }

    /// Gives a command about object `n`. What was destroyed is not named again.
    pub(super) fn object(&mut self, which: u8, n: u8) {
        let Some((opcode, op_mod, mut m)) = self.about(which, n) else { return };
        if opcode == op::MODIFY_RQT {
            // The first queue alone.
            let (Some(rqtn), Some(rqn)) = (some(&self.rqts, n), self.number(Kind::Rq, n)) else {
                return;
            };
            let mut t = RqtIn::ZERO;
            t.set(RqtIn::RQTN, rqtn).set(RqtIn::ACTUAL_SIZE, 1);
            t.set_quad(RqtIn::FIELDS, modify_rqt::LIST);
            m = [t.as_bytes(), &rqn.to_be_bytes()].concat();
        }
        if self.run((opcode, op_mod), &m[..], &[], 0x1010).is_none() {
            return;
        }
        match opcode {
            op::DESTROY_RQ => {
                let gone = self.number(Kind::Rq, n);
                self.rqs.retain(|q| Some(q.0) != gone);
            }
            op::DESTROY_RQT => forget(&mut self.rqts, n),
            op::DESTROY_TIR => forget(&mut self.tirs, n),
            op::DESTROY_FLOW_TABLE => forget(&mut self.tables, n),
            _ => {}
        }
    }

    pub(super) fn state(&mut self, queue: u8, from: u8, to: u8) {
        // Reset, ready, error.
        let [from, to] = [from, to].map(|n| [0, 1, 3][usize::from(n) % 3]);
        let Some(i) = (usize::from(queue) % (self.rqs.len() + 1)).checked_sub(1) else {
            let mut m = ModifySqIn::ZERO;
            m.set(ModifySqIn::NUMBER, self.sqn).set(ModifySqIn::FROM, from);
            m.part_mut(ModifySqIn::SQC).set(Sqc::STATE, to);
            if self.command(op::MODIFY_SQ, &m, &[]).is_some() && to == 0 {
                self.pc = 0;
            }
            return;
        };
        let mut m = ModifyRqIn::ZERO;
        m.set(ModifyRqIn::NUMBER, self.rqs[i].0).set(ModifyRqIn::FROM, from);
        m.part_mut(ModifyRqIn::RQC).set(Rqc::STATE, to);
        if self.command(op::MODIFY_RQ, &m, &[]).is_some() && to == 0 {
            self.rqs[i].1 = 0;
        }
    }

    pub(super) fn register(&mut self, which: u8, write: bool, at: u8, value: u32) {
        let register = REGISTERS[usize::from(which) % REGISTERS.len()];
        let mut m = AccessReg::ZERO;
        m.set(AccessReg::REGISTER, u32::from(register));
        let mut contents = [0; 0x100];
        contents[usize::from(at & 63) * 4..][..4].copy_from_slice(&value.to_be_bytes());
        let op_mod = if write { access::WRITE } else { access::READ };
        if self.run((op::ACCESS_REG, op_mod), &m, &contents, 0x110).is_some() {
            self.done.insert((op::ACCESS_REG, register));
        }
    }

    /// Makes a key over memory as it is, or over half of it, whose pages are in any order.
    pub(super) fn key(&mut self, how: u8, order: u8) {
        const LOG_PAGE: u32 = 16;
        let bytes = self.c.port.memory.len() as u64;
        let pages = bytes >> LOG_PAGE;
        let mut m = CommandHarness::mkey_message(self.o.pd);
        m.set(CreateMkeyIn::OCTWORDS, pages as u32 / 2);
        let c = m.part_mut(CreateMkeyIn::MKC);
        let mode = if how & PAGES != 0 { access_mode::MTT } else { access_mode::PA };
        c.set(Mkc::LENGTH64, 0).set(Mkc::ACCESS_MODE, mode).set(Mkc::LOG_PAGE_SIZE, LOG_PAGE);
        c.set_quad(Mkc::LENGTH, if how & SHORT != 0 { bytes / 2 } else { bytes });
        c.set(Mkc::LOCAL_READ, u32::from(how & 4 == 0));
        c.set(Mkc::LOCAL_WRITE, u32::from(how & 8 == 0));
        let list: Vec<u64> =
            (0..pages).map(|n| (n ^ (u64::from(order) % pages)) << LOG_PAGE).collect();
        if let Some(made) = self.command(op::CREATE_MKEY, &m, &CommandHarness::pas(&list)) {
            self.o.mkey = made;
        }
    }
}
