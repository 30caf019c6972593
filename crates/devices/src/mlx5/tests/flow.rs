//! Flow tables, groups and entries.

use super::*;

pub(super) fn flow_table(c: &mut CommandHarness, level: u32, log_size: u32) -> Answer {
    let mut m = CreateFlowTableIn::ZERO;
    m.part_mut(CreateFlowTableIn::CONTEXT)
        .set(FlowTableContext::LEVEL, level)
        .set(FlowTableContext::LOG_SIZE, log_size);
    c.run(op::CREATE_FLOW_TABLE, 0, &m, &[])
}

/// A group that compares the destination address, or nothing.
pub(super) fn flow_group(
    c: &mut CommandHarness,
    table: u32,
    start: u32,
    end: u32,
    criteria: u32,
) -> Answer {
    let mut m = CreateFlowGroupIn::ZERO;
    m.set(CreateFlowGroupIn::TABLE, table)
        .set(CreateFlowGroupIn::START, start)
        .set(CreateFlowGroupIn::END, end);
    m.set(CreateFlowGroupIn::CRITERIA, criteria);
    let mut mask = [0; 0x200];
    if criteria == 1 {
        mask[8..14].fill(0xff);
    }
    c.run(op::CREATE_FLOW_GROUP, 0, &m, &mask)
}

pub(super) fn fte(
    table: u32,
    group: u32,
    index: u32,
    address: [u8; 6],
    to: &[(u32, u32)],
) -> (SetFteIn, Vec<u8>) {
    let mut m = SetFteIn::ZERO;
    m.set(SetFteIn::TABLE, table).set(SetFteIn::INDEX, index);
    let x = m.part_mut(SetFteIn::CONTEXT);
    x.set(FlowContext::GROUP, group)
        .set(FlowContext::TAG, 0x1234)
        .set(FlowContext::DESTINATIONS, to.len() as u32);
    x.set(
        FlowContext::ACTION,
        if to.is_empty() { flow_action::DROP } else { flow_action::FORWARD },
    );
    x.0[FlowContext::MATCH + 8..][..6].copy_from_slice(&address);
    (
        m,
        to.iter()
            .flat_map(|(kind, n)| u64::from(kind << 24 | n).rotate_left(32).to_be_bytes())
            .collect(),
    )
}

pub(super) fn set_entry(
    c: &mut CommandHarness,
    table: u32,
    group: u32,
    index: u32,
    to: &[(u32, u32)],
) -> Option<CmdStatus> {
    let (m, list) = fte(table, group, index, [0; 6], to);
    c.run(op::SET_FLOW_TABLE_ENTRY, 0, &m, &list).status
}

pub(super) fn delete_entry(c: &mut CommandHarness, table: u32, index: u32) -> Option<CmdStatus> {
    let mut m = FteIn::ZERO;
    m.set(FteIn::TABLE, table).set(FteIn::INDEX, index);
    c.run(op::DELETE_FLOW_TABLE_ENTRY, 0, &m, &[]).status
}

pub(super) fn destroy_group(c: &mut CommandHarness, table: u32, group: u32) -> Option<CmdStatus> {
    let mut m = FlowGroupIn::ZERO;
    m.set(FlowGroupIn::TABLE, table).set(FlowGroupIn::GROUP, group);
    c.run(op::DESTROY_FLOW_GROUP, 0, &m, &[]).status
}

pub(super) fn destroy_table(c: &mut CommandHarness, table: u32) -> Option<CmdStatus> {
    let mut m = FlowTableIn::ZERO;
    m.set(FlowTableIn::TABLE, table);
    c.run(op::DESTROY_FLOW_TABLE, 0, &m, &[]).status
}

#[test]
fn entries_steer_by_address_and_are_said_again() {
    let mut s = Sender::new(6, &[page(2)]);
    let rqn = s.c.rq(&s.o, 4, DBR + 128, &[page(6)]).number();
    let tir = s.c.tir(&s.o, rqn, false).number();
    let (first, second) =
        (flow_table(&mut s.c, 0, 2).number(), flow_table(&mut s.c, 1, 0).number());
    let by_address = flow_group(&mut s.c, first, 0, 2, 1).number();
    let all = flow_group(&mut s.c, second, 0, 0, 0).number();
    let (m, list) = fte(first, by_address, 2, [2, 0, 0, 0, 0, 9], &[(destination::TABLE, second)]);
    s.c.ok(op::SET_FLOW_TABLE_ENTRY, 0, &m, &list);
    assert_eq!(set_entry(&mut s.c, second, all, 0, &[(destination::TIR, tir)]), None);
    let d =
        DataSeg { byte_count: U32::new(2048), lkey: U32::new(s.o.mkey << 8), addr: U64::new(DATA) };
    s.c.port.memory[page(6) as usize..][..16].copy_from_slice(d.as_bytes());
    s.c.port.memory[DBR as usize + 131] = 1;
    assert_eq!(s.c.modify_rq(rqn, 0, 1), None);
    let mut frame = [[2, 0, 0, 0, 0, 8].as_slice(), &[7; 60]].concat();
    assert!(matches!(s.c.receive(&frame), RxVerdict::Dropped(DropReason::Filter)));
    frame[5] = 9;
    assert_eq!(s.c.receive(&frame), RxVerdict::Yes);
    s.c.settle();
    assert_eq!(s.data(0, frame.len()), frame);
    assert_eq!(s.cqe(0).0, 2, "a receive completion");
    let mut q = FteIn::ZERO;
    q.set(FteIn::TABLE, first).set(FteIn::INDEX, 2);
    let a = s.c.ok(op::QUERY_FLOW_TABLE_ENTRY, 0, &q, &[]);
    let e = a.out_as::<QueryFteOut>();
    let e = e.part(QueryFteOut::CONTEXT);
    assert_eq!(
        (e.get(FlowContext::TAG), e.get(FlowContext::DESTINATIONS), e.get(FlowContext::ACTION)),
        (0x1234, 1, 4)
    );
    assert_eq!(a.out[0x340..0x344], (destination::TABLE << 24 | second).to_be_bytes());
    q.set(FteIn::INDEX, 1);
    assert_eq!(s.c.run(op::QUERY_FLOW_TABLE_ENTRY, 0, &q, &[]).status, BAD_RES);
}

#[test]
fn flow_objects_that_make_no_sense_are_refused() {
    let mut c = CommandHarness::running(NIC);
    let table = flow_table(&mut c, 0, 4).number();
    let group = flow_group(&mut c, table, 0, 7, 0).number();
    let mut eswitch = CreateFlowTableIn::ZERO;
    eswitch.set(CreateFlowTableIn::TYPE, 4);
    let (mut two, one) = fte(table, group, 0, [0; 6], &[(destination::TABLE, table)]);
    two.part_mut(SetFteIn::CONTEXT).set(FlowContext::DESTINATIONS, 2);
    let nowhere = [(destination::TIR, 0x77_7777)];
    let short = Some(CmdStatus::BadInputLength);
    let c = &mut c;
    let rows = [
        ("a level too high", flow_table(c, 64, 4).status, PARAM),
        ("no eswitch", c.run(op::CREATE_FLOW_TABLE, 0, &eswitch, &[]).status, PARAM),
        ("a group that overlaps", flow_group(c, table, 7, 9, 0).status, PARAM),
        ("a group beyond the table", flow_group(c, table, 8, 16, 0).status, PARAM),
        ("a group in no table", flow_group(c, 0xff_0000, 0, 1, 0).status, BAD_RES),
        ("an entry outside its group", set_entry(c, table, group, 8, &[]), PARAM),
        ("an entry in no group", set_entry(c, table, group + 1, 0, &[]), BAD_RES),
        ("an entry to no TIR", set_entry(c, table, group, 0, &nowhere), BAD_RES),
        ("an entry to no kind", set_entry(c, table, group, 0, &[(9, 0)]), PARAM),
        ("a list too short", c.run(op::SET_FLOW_TABLE_ENTRY, 0, &two, &one).status, short),
        ("no entry's end", delete_entry(c, table, 3), BAD_RES),
    ];
    for (name, status, expected) in rows {
        assert_eq!(status, expected, "{name}");
    }
}
