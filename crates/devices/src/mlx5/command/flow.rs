//! Flow tables, groups and entries: from messages to what steering walks.

use super::super::steering::{Criteria, Destination, Entry, Group, Match, Miss, Table};
use super::{super::device::Mlx5, Answer, CmdStatus, answer_prefix, check, input, tail};
use alloc::vec::Vec;
use doorbell_layout::mlx5::command::{
    CRITERIA_LIST, CreateFlowGroupIn, CreateFlowTableIn, DESTINATION_LIST, FlowContext,
    FlowGroupIn, FlowTableContext, FlowTableIn, FteIn, MATCH_LEN, ModifyFlowTableIn, QueryFteOut,
    SetFteIn, destination, miss_action, modify_flow_table,
};
use doorbell_layout::mlx5::steering::NIC_RX;

/// Destinations and counters of an entry at the most, as many as any list could be
/// that is looked at.
const LONGEST: usize = 64;

fn param(bytes: &[u8]) -> Answer<&[u8; MATCH_LEN]> {
    bytes.first_chunk().ok_or(CmdStatus::BadInputLength)
}

/// There are tables for what is received, and no others.
fn receive_table(kind: u32) -> Answer<u8> {
    check(kind == u32::from(NIC_RX))?;
    Ok(NIC_RX)
}

fn miss(c: &FlowTableContext) -> Answer<Miss> {
    match c.get(FlowTableContext::MISS_ACTION) {
        miss_action::DEFAULT => Ok(Miss::Default),
        miss_action::TABLE => Ok(Miss::Table(c.get(FlowTableContext::MISS_TABLE))),
        _ => Err(CmdStatus::BadParam),
    }
}

/// The number of the table that a command is for.
pub(super) fn table(bytes: &[u8]) -> Answer<u32> {
    let m = input::<FlowTableIn>(bytes)?;
    receive_table(m.get(FlowTableIn::TYPE))?;
    Ok(m.get(FlowTableIn::TABLE))
}

/// The table and the index of the entry that a command is for.
fn place(bytes: &[u8]) -> Answer<(u32, u32)> {
    let m = input::<FteIn>(bytes)?;
    receive_table(m.get(FteIn::TYPE))?;
    Ok((m.get(FteIn::TABLE), m.get(FteIn::INDEX)))
}

impl Mlx5 {
    pub(super) fn create_flow_table(&mut self, bytes: &[u8]) -> Answer<u32> {
        let m = input::<CreateFlowTableIn>(bytes)?;
        check(m.get(CreateFlowTableIn::OTHER_VPORT) == 0)?;
        let c = m.part(CreateFlowTableIn::CONTEXT);
        self.rx.paths.change().steering.create_table(Table {
            kind: receive_table(m.get(CreateFlowTableIn::TYPE))?,
            level: c.get(FlowTableContext::LEVEL) as u8,
            log_size: c.get(FlowTableContext::LOG_SIZE) as u8,
            miss: miss(c)?,
        })
    }

    pub(super) fn modify_flow_table(&mut self, bytes: &[u8]) -> Answer {
        let m = input::<ModifyFlowTableIn>(bytes)?;
        receive_table(m.get(ModifyFlowTableIn::TYPE))?;
        check(m.get(ModifyFlowTableIn::FIELDS) == modify_flow_table::MISS)?;
        let miss = miss(m.part(ModifyFlowTableIn::CONTEXT))?;
        self.rx.paths.change().steering.modify_table(m.get(ModifyFlowTableIn::TABLE), miss)
    }

    pub(super) fn create_flow_group(&mut self, bytes: &[u8]) -> Answer<u32> {
        let m = input::<CreateFlowGroupIn>(bytes)?;
        receive_table(m.get(CreateFlowGroupIn::TYPE))?;
        let enable = m.get(CreateFlowGroupIn::CRITERIA) as u8;
        let criteria = Criteria::new(enable, param(tail(bytes, CRITERIA_LIST))?)?;
        let (start, end) = (m.get(CreateFlowGroupIn::START), m.get(CreateFlowGroupIn::END));
        let table = m.get(CreateFlowGroupIn::TABLE);
        self.rx.paths.change().steering.create_group(table, Group { start, end, criteria })
    }

    pub(super) fn destroy_flow_group(&mut self, bytes: &[u8]) -> Answer {
        let m = input::<FlowGroupIn>(bytes)?;
        receive_table(m.get(FlowGroupIn::TYPE))?;
        self.rx
            .paths
            .change()
            .steering
            .destroy_group(m.get(FlowGroupIn::TABLE), m.get(FlowGroupIn::GROUP))
    }

    /// Parses a list of destinations, all of which must exist.
    fn destinations(&self, c: &FlowContext, bytes: &[u8]) -> Answer<Vec<Destination>> {
        check(c.get(FlowContext::EXTENDED_DESTINATION) == 0)?;
        let n = c.get(FlowContext::DESTINATIONS) as usize;
        let counters = c.get(FlowContext::COUNTERS) as usize;
        check(n <= LONGEST && counters <= LONGEST)?;
        let list = tail(bytes, DESTINATION_LIST).get(..(n + counters) * 8);
        let list = list.ok_or(CmdStatus::BadInputLength)?;
        let mut all = Vec::with_capacity(n + counters);
        for (i, b) in list.chunks_exact(8).enumerate() {
            let (kind, id) = (u32::from(b[0]), u32::from_be_bytes([0, b[1], b[2], b[3]]));
            all.push(match kind {
                // Counters follow the destinations; theirs is the whole double word.
                _ if i >= n => Destination::Counter(u32::from_be_bytes([b[0], b[1], b[2], b[3]])),
                destination::TIR if self.rx.paths.tirs.get(id).is_some() => Destination::Tir(id),
                destination::TABLE if self.rx.paths.steering.has_table(id) => {
                    Destination::Table(id)
                }
                destination::TIR | destination::TABLE => return Err(CmdStatus::BadResource),
                _ => return Err(CmdStatus::BadParam),
            });
        }
        Ok(all)
    }

    /// A new entry, or with `op_mod` 1 another way to treat what an entry matches.
    pub(super) fn set_fte(&mut self, op_mod: u32, bytes: &[u8]) -> Answer {
        let m = input::<SetFteIn>(bytes)?;
        receive_table(m.get(SetFteIn::TYPE))?;
        let (table, index, c) =
            (m.get(SetFteIn::TABLE), m.get(SetFteIn::INDEX), m.part(SetFteIn::CONTEXT));
        let entry = Entry {
            group: c.get(FlowContext::GROUP),
            flow_tag: c.get(FlowContext::TAG),
            action: c.get(FlowContext::ACTION),
            value: Match::from_param(param(&c.0[FlowContext::MATCH..])?),
            destinations: self.destinations(c, bytes)?,
        };
        match op_mod {
            0 => self.rx.paths.change().steering.set_entry(table, index, entry),
            1 => self.rx.paths.change().steering.modify_entry(
                table,
                index,
                m.get(SetFteIn::MODIFY),
                entry,
            ),
            _ => Err(CmdStatus::BadOp),
        }
    }

    pub(super) fn delete_fte(&mut self, bytes: &[u8]) -> Answer {
        self.rx.paths.change().steering.delete_entry(place(bytes)?)
    }

    /// Group, tag, action and destinations; the match value is the driver's to know.
    pub(super) fn query_fte(&self, bytes: &[u8], out: &mut [u8]) -> Answer {
        let (table, index) = place(bytes)?;
        let e = self.rx.paths.steering.entry(table, index)?;
        let mut m = QueryFteOut::ZERO;
        let counters = e.destinations.iter().filter(|d| d.is_counter()).count();
        let c = m.part_mut(QueryFteOut::CONTEXT);
        c.set(FlowContext::GROUP, e.group).set(FlowContext::TAG, e.flow_tag);
        c.set(FlowContext::ACTION, e.action);
        c.set(FlowContext::DESTINATIONS, (e.destinations.len() - counters) as u32);
        c.set(FlowContext::COUNTERS, counters as u32);
        super::answer(out, &m)?;
        let list = e.destinations.iter().flat_map(|d| {
            let word = match *d {
                Destination::Table(n) => destination::TABLE << 24 | n,
                Destination::Tir(n) => destination::TIR << 24 | n,
                Destination::Counter(n) => n,
            };
            (u64::from(word) << 32).to_be_bytes()
        });
        answer_prefix(out, DESTINATION_LIST, &list.collect::<Vec<u8>>());
        Ok(())
    }
}
