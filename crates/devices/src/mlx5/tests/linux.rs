//! The commands of an unmodified driver.

use super::*;

/// The commands of Linux 6.12 from probe to the first packet and back, in their order
/// and with their sizes: none is refused.
#[test]
fn the_sequence_of_an_unmodified_driver_is_accepted() {
    let mut c = CommandHarness::running(NIC);
    let n = |c: &mut CommandHarness, opcode| c.alloc(opcode);
    let uar = n(&mut c, op::ALLOC_UAR);
    let cmd_eq =
        c.eq(uar, 8, 0, 1 << event::CMD, &[page(40), page(41), page(42), page(43)]).number();
    let many: Vec<u64> = (44..44 + 128).map(page).collect();
    c.port.memory.resize(0x40_0000, 0);
    let async_eq = c.eq(uar, 13, 0, 0x1f_02be, &many).number();
    let pages_eq = c.eq(uar, 8, 0, 1 << event::PAGE_REQUEST, &many[..4]).number();
    let anchor = flow_table(&mut c, 10, 0).number();
    let (pd, td) = (n(&mut c, op::ALLOC_PD), n(&mut c, op::ALLOC_TRANSPORT_DOMAIN));
    let mkey = c.ok(op::CREATE_MKEY, 0, &CommandHarness::mkey_message(pd), &[]).number();
    let tis: Vec<u32> = (0..8).map(|_| c.tis(td).number()).collect();
    let (set, drop_set) = (n(&mut c, op::ALLOC_Q_COUNTER), n(&mut c, op::ALLOC_Q_COUNTER));
    let eq = c.eq(uar, 11, 1, 0, &many[..32]).number();
    let mut o = Common { uar, pd, td, mkey, tis: tis[0], eq, cq: 0 };
    // The drop queue: one entry, no domain.
    let drop_cq = c.cq(&o, 0, DBR, &[page(1)]).number();
    let mut m = CommandHarness::rq_message(&Common { cq: drop_cq, pd: 0, uar: 0, ..o }, 0, 4, DBR);
    m.part_mut(CreateRqIn::RQC).set(Rqc::COUNTER_SET, drop_set);
    let drop_rq = c.ok(op::CREATE_RQ, 0, &m, &pas(&[page(2)])).number();
    assert_eq!(c.modify_rq(drop_rq, 0, 1), None);
    let rqts: Vec<u32> = [vec![drop_rq; 256], vec![drop_rq], vec![drop_rq]]
        .iter()
        .map(|q| c.rqt(q).number())
        .collect();
    let mut tirs: Vec<u32> = (0..10).map(|_| c.tir(&o, rqts[0], true).number()).collect();
    tirs.extend([c.tir(&o, rqts[1], true).number(), c.tir(&o, rqts[2], true).number()]);
    let tables: Vec<u32> = [(12, 7), (11, 16), (10, 16)]
        .iter()
        .map(|&(l, s)| flow_table(&mut c, l, s).number())
        .collect();
    let ttc = flow_group(&mut c, tables[0], 0, 15, 0).number();
    assert_eq!(set_entry(&mut c, tables[0], ttc, 0, &[(destination::TIR, tirs[0])]), None);
    let l2 = flow_group(&mut c, tables[1], 0, 32767, 1).number();
    let (m, list) = fte(tables[1], l2, 0, NIC.mac, &[(destination::TABLE, tables[0])]);
    c.ok(op::SET_FLOW_TABLE_ENTRY, 0, &m, &list);
    let vlan = flow_group(&mut c, tables[2], 0, 4095, 0).number();
    assert_eq!(set_entry(&mut c, tables[2], vlan, 0, &[(destination::TABLE, tables[1])]), None);
    // Open.
    let mut cqs = Vec::new();
    for log in [6, 6, 10, 10, 10] {
        cqs.push(c.cq(&o, log, DBR, &many[..1 << (log - 6)]).number());
    }
    let mut sqs = Vec::new();
    for (i, (log, with_tis)) in
        [(6, false), (6, false), (10, true), (10, true)].into_iter().enumerate()
    {
        o.cq = cqs[i];
        let mut m = CommandHarness::sq_message(&o, log, DBR);
        m.part_mut(CreateSqIn::SQC)
            .set(Sqc::TIS_LIST_SIZE, u32::from(with_tis))
            .set(Sqc::FLUSH_IN_ERROR, 1);
        let sq = c.ok(op::CREATE_SQ, 0, &m, &pas(&many[..1 << (log - 6)])).number();
        assert_eq!(c.modify_sq(sq, 0, 1), None);
        sqs.push(sq);
    }
    o.cq = cqs[4];
    let mut m = CommandHarness::rq_message(&o, 10, 4, DBR);
    m.part_mut(CreateRqIn::RQC)
        .set(Rqc::COUNTER_SET, set)
        .part_mut(Rqc::WQ)
        .set(Wq::END_PADDING, 1);
    let rq = c.ok(op::CREATE_RQ, 0, &m, &pas(&many[..4])).number();
    assert_eq!(c.modify_rq(rq, 0, 1), None);
    let point = |c: &mut CommandHarness, rqt: u32, rqns: &[u32]| {
        let mut m = RqtIn::ZERO;
        m.set(RqtIn::RQTN, rqt)
            .set_quad(RqtIn::FIELDS, 1)
            .set(RqtIn::ACTUAL_SIZE, rqns.len() as u32);
        let list: Vec<u8> = rqns.iter().flat_map(|n| n.to_be_bytes()).collect();
        c.ok(op::MODIFY_RQT, 0, &m, &list);
    };
    for &rqt in &rqts {
        point(&mut c, rqt, &[rq]);
    }
    assert_eq!(c.about(op::DESTROY_RQ, rq), IN_USE);
    // And all of it back.
    for &rqt in &rqts {
        point(&mut c, rqt, &[drop_rq]);
    }
    let gone = |c: &mut CommandHarness, opcode: u16, all: &[u32]| {
        for &n in all {
            assert_eq!(c.about(opcode, n), None, "{opcode:#x} {n:#x}");
        }
    };
    gone(&mut c, op::DESTROY_SQ, &sqs);
    gone(&mut c, op::DESTROY_RQ, &[rq]);
    gone(&mut c, op::DESTROY_CQ, &cqs);
    for (table, group) in [(tables[2], vlan), (tables[1], l2), (tables[0], ttc)] {
        assert_eq!(delete_entry(&mut c, table, 0), None);
        assert_eq!(destroy_group(&mut c, table, group), None);
        assert_eq!(destroy_table(&mut c, table), None);
    }
    gone(&mut c, op::DESTROY_TIR, &tirs);
    gone(&mut c, op::DESTROY_RQT, &rqts);
    gone(&mut c, op::DESTROY_RQ, &[drop_rq]);
    gone(&mut c, op::DESTROY_CQ, &[drop_cq]);
    gone(&mut c, op::DEALLOC_Q_COUNTER, &[set, drop_set]);
    gone(&mut c, op::DESTROY_TIS, &tis);
    gone(&mut c, op::DESTROY_MKEY, &[mkey]);
    gone(&mut c, op::DEALLOC_TRANSPORT_DOMAIN, &[td]);
    gone(&mut c, op::DEALLOC_PD, &[pd]);
    assert_eq!(destroy_table(&mut c, anchor), None);
    gone(&mut c, op::DESTROY_EQ, &[eq, pages_eq, async_eq, cmd_eq]);
    gone(&mut c, op::DEALLOC_UAR, &[uar]);
    c.ok(op::TEARDOWN_HCA, 0, &Numbered::ZERO, &[]);
    assert_eq!(take(&mut c, 768).len(), 48);
    c.ok(op::DISABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    assert_eq!(c.device.unknown_commands(), []);
}
