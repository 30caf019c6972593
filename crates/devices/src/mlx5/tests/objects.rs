//! Objects: made, used, in use, gone.

use super::*;

#[test]
fn domains_and_pages_are_allocated_and_gone() {
    let pairs = [
        (op::ALLOC_UAR, op::DEALLOC_UAR),
        (op::ALLOC_PD, op::DEALLOC_PD),
        (op::ALLOC_TRANSPORT_DOMAIN, op::DEALLOC_TRANSPORT_DOMAIN),
        (op::ALLOC_Q_COUNTER, op::DEALLOC_Q_COUNTER),
    ];
    let mut c = CommandHarness::running(NIC);
    for (alloc, dealloc) in pairs {
        let (a, b) = (c.alloc(alloc), c.alloc(alloc));
        assert_ne!(a, b);
        assert_ne!(a, 0, "0 is none");
        assert_eq!(
            (c.about(dealloc, a), c.about(dealloc, a), c.about(dealloc, b)),
            (None, BAD_RES, None)
        );
    }
}

#[test]
fn doorbell_pages_begin_behind_the_registers_and_msix_tables() {
    let mut c = CommandHarness::running(NIC);
    let first = c.alloc(op::ALLOC_UAR);
    assert!(first >= 4, "pages 2 and 3 are the MSI-X table's");
    assert_eq!(first, Mlx5::FIRST_UAR);
    c.about(op::DEALLOC_UAR, first);
    let before = c.device.counters.bad_doorbells;
    c.device.mmio_write(&mut c.port, c.now, Reg::at(first * uar::PAGE + uar::EQ_ARM), 4, 0);
    assert_eq!(c.device.counters.bad_doorbells, before + 1, "the page is nobody's again");
}

#[test]
fn an_object_in_use_stays() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let sq = c.sq(&o, 6, DBR, &[page(2)]);
    let set = c.alloc(op::ALLOC_Q_COUNTER);
    let mut m = CommandHarness::rq_message(&o, 4, 4, DBR);
    m.part_mut(CreateRqIn::RQC).set(Rqc::COUNTER_SET, set);
    let rq = c.ok(op::CREATE_RQ, 0, &m, &pas(&[page(3)])).number();
    let rqt = c.rqt(&[rq]).number();
    let tir = c.tir(&o, rqt, true).number();
    let direct = c.tir(&o, rq, false).number();
    let table = flow_table(&mut c, 0, 4).number();
    let next = flow_table(&mut c, 1, 4).number();
    let group = flow_group(&mut c, table, 0, 3, 0).number();
    assert_eq!(
        set_entry(&mut c, table, group, 0, &[(destination::TIR, tir), (destination::TABLE, next)]),
        None
    );
    let all = [
        (op::DEALLOC_UAR, o.uar),
        (op::DEALLOC_PD, o.pd),
        (op::DEALLOC_TRANSPORT_DOMAIN, o.td),
        (op::DESTROY_TIS, o.tis),
        (op::DESTROY_EQ, o.eq),
        (op::DESTROY_CQ, o.cq),
        (op::DESTROY_RQ, rq),
        (op::DESTROY_RQT, rqt),
        (op::DESTROY_TIR, tir),
        (op::DEALLOC_Q_COUNTER, set),
    ];
    for (opcode, n) in all {
        assert_eq!(c.about(opcode, n), IN_USE, "{opcode:#x}");
        assert_eq!(c.about(opcode, 0xff_fff0), BAD_RES, "{opcode:#x}");
    }
    assert_eq!(destroy_table(&mut c, next), IN_USE, "an entry leads there");
    assert_eq!(destroy_table(&mut c, table), IN_USE, "it has groups");
    assert_eq!(destroy_group(&mut c, table, group), IN_USE, "it has entries");
    // In the order of the driver it all goes.
    assert_eq!(delete_entry(&mut c, table, 0), None);
    assert_eq!(destroy_group(&mut c, table, group), None);
    assert_eq!((destroy_table(&mut c, table), destroy_table(&mut c, next)), (None, None));
    let order = [
        (op::DESTROY_SQ, sq.number()),
        (op::DESTROY_TIR, tir),
        (op::DESTROY_TIR, direct),
        (op::DESTROY_RQT, rqt),
        (op::DESTROY_RQ, rq),
        (op::DEALLOC_Q_COUNTER, set),
        (op::DESTROY_CQ, o.cq),
        (op::DESTROY_TIS, o.tis),
        (op::DESTROY_MKEY, o.mkey),
        (op::DEALLOC_TRANSPORT_DOMAIN, o.td),
        (op::DEALLOC_PD, o.pd),
        (op::DESTROY_EQ, o.eq),
        (op::DEALLOC_UAR, o.uar),
    ];
    for (opcode, n) in order {
        assert_eq!(c.about(opcode, n), None, "{opcode:#x}");
        assert_eq!(c.about(opcode, n), BAD_RES, "{opcode:#x}");
    }
}

/// The number of no object.
const NOWHERE: u32 = 0xff_0000;

/// The input of CREATE_CQ with a ring in one page.
fn cq(o: &Common, log: u32, dbr: u64, change: impl FnOnce(&mut Cqc)) -> Vec<u8> {
    let mut m = CommandHarness::cq_message(o, log, dbr);
    change(m.part_mut(CreateCqIn::CQC));
    CommandHarness::input(op::CREATE_CQ, 0, &m, &pas(&[page(4)]))
}

/// The input of CREATE_SQ with a ring in one page.
fn sq(o: &Common, log: u32, dbr: u64, change: impl FnOnce(&mut Sqc)) -> Vec<u8> {
    let mut m = CommandHarness::sq_message(o, log, dbr);
    change(m.part_mut(CreateSqIn::SQC));
    CommandHarness::input(op::CREATE_SQ, 0, &m, &pas(&[page(4)]))
}

/// The input of CREATE_RQ with a ring in one page.
fn rq(o: &Common, log: u32, log_stride: u32, change: impl FnOnce(&mut Rqc)) -> Vec<u8> {
    let mut m = CommandHarness::rq_message(o, log, log_stride, DBR);
    change(m.part_mut(CreateRqIn::RQC));
    CommandHarness::input(op::CREATE_RQ, 0, &m, &pas(&[page(4)]))
}

fn same<T>(_: &mut T) {}

#[test]
fn objects_need_what_they_name() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let (uar, pd) = (Common { uar: NOWHERE, ..o }, Common { pd: NOWHERE, ..o });
    let (no_cq, tis) = (Common { cq: NOWHERE, ..o }, Common { tis: NOWHERE, ..o });
    let rows = [
        ("a CQ", cq(&o, 4, 0x40, same), None),
        ("a CQ without UAR", cq(&uar, 6, DBR, same), BAD_RES),
        ("a CQ without EQ", cq(&Common { eq: 99, ..o }, 6, DBR, same), BAD_RES),
        ("a CQ of EQ 200", cq(&Common { eq: 200, ..o }, 4, 0x40, same), BAD_RES),
        ("an SQ", sq(&o, 6, 0x40, same), None),
        ("an SQ without UAR", sq(&uar, 6, DBR, same), BAD_RES),
        ("an SQ without PD", sq(&pd, 6, DBR, same), BAD_RES),
        ("an SQ without TIS", sq(&tis, 6, DBR, same), BAD_RES),
        ("an SQ without CQ", sq(&no_cq, 6, DBR, same), BAD_RES),
        ("an SQ that names an EQ", sq(&Common { cq: o.eq, ..o }, 6, 0x40, same), BAD_RES),
        ("an RQ without PD", rq(&pd, 4, 4, same), BAD_RES),
        ("an RQ without CQ", rq(&no_cq, 4, 4, same), BAD_RES),
    ];
    answers(&mut c, rows);
    let key = CommandHarness::mkey_message(NOWHERE);
    let rows = [
        ("an EQ without UAR", c.eq(NOWHERE, 6, 0, 0, &[page(4)]).status),
        ("a TIS without domain", c.tis(NOWHERE).status),
        ("an RQT without RQ", c.rqt(&[NOWHERE]).status),
        ("a TIR without RQT", c.tir(&o, NOWHERE, true).status),
        ("a TIR without domain", c.tir(&Common { td: NOWHERE, ..o }, NOWHERE, false).status),
        ("a key without PD", c.run(op::CREATE_MKEY, 0, &key, &[]).status),
        ("a key's end", c.about(op::DESTROY_MKEY, 77)),
    ];
    for (name, status) in rows {
        assert_eq!(status, BAD_RES, "{name}");
    }
}

#[test]
fn contexts_that_make_no_sense_are_refused() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let no_vector = CommandHarness::eq_message(o.uar, 0, 64, 0);
    let no_vector = CommandHarness::input(op::CREATE_EQ, 0, &no_vector, &pas(&[page(4)]));
    let linked = |s: &mut Sqc| _ = s.part_mut(Sqc::WQ).set(Wq::TYPE, 0);
    let striding = |r: &mut Rqc| _ = r.part_mut(Rqc::WQ).set(Wq::TYPE, 2);
    let rows = [
        ("CQ of 2^19", cq(&o, 6, DBR, |c| _ = c.set(Cqc::LOG_SIZE, 19)), PARAM),
        ("CQ of 2^23", cq(&o, 23, 0x40, same), PARAM),
        ("CQE of 128 bytes", cq(&o, 6, DBR, |c| _ = c.set(Cqc::CQE_SIZE, 1)), PARAM),
        ("compressed CQEs", cq(&o, 6, DBR, |c| _ = c.set(Cqc::COMPRESSION, 1)), PARAM),
        ("CQ record at 4", cq(&o, 6, DBR, |c| _ = c.set_quad(Cqc::DBR, 4)), PARAM),
        ("short CQ, record at 4", cq(&o, 4, 4, same), PARAM),
        ("linked SQ", sq(&o, 6, DBR, linked), PARAM),
        ("SQ that is ready", sq(&o, 6, DBR, |s| _ = s.set(Sqc::STATE, 1)), PARAM),
        ("SQ of 2^16", sq(&o, 16, DBR, same), PARAM),
        ("SQ of 2^16, record at 0x40", sq(&o, 16, 0x40, same), PARAM),
        ("SQ record at 4", sq(&o, 6, 4, same), PARAM),
        ("SQ of two pages in one", sq(&o, 7, DBR, same), Some(CmdStatus::BadInputLength)),
        ("striding RQ", rq(&o, 4, 5, striding), PARAM),
        ("RQ of 8 bytes an entry", rq(&o, 4, 3, same), PARAM),
        ("RQ of 2^16", rq(&o, 16, 4, same), PARAM),
        ("EQ of vector 64", no_vector, PARAM),
    ];
    answers(&mut c, rows);
}

/// Every command whose input has a fixed part, with less than that.
#[test]
fn an_input_too_short_is_refused() {
    let mut c = CommandHarness::running(NIC);
    c.common();
    let mut short = |opcode, op_mod, n: usize| {
        let a = c.send(&CommandHarness::input(opcode, op_mod, &[0u8; 0x400], &[])[..n], 0x110);
        assert_eq!(a.status, Some(CmdStatus::BadInputLength), "{opcode:#x}");
    };
    let fixed = [
        (op::CREATE_MKEY, 0x10f),
        (op::CREATE_EQ, 0x10f),
        (op::CREATE_CQ, 0x10f),
        (op::MODIFY_CQ, 0x4f),
        (op::CREATE_SQ, 0x10f),
        (op::MODIFY_SQ, 0x10f),
        (op::CREATE_RQ, 0x10f),
        (op::MODIFY_RQ, 0x10f),
        (op::CREATE_TIS, 0x4f),
        (op::MODIFY_TIS, 0x4f),
        (op::CREATE_TIR, 0x7f),
        (op::MODIFY_TIR, 0x7f),
        (op::CREATE_RQT, 0x10f),
        (op::MODIFY_RQT, 0x10f),
        (op::CREATE_FLOW_TABLE, 0x3f),
        (op::DESTROY_FLOW_TABLE, 0x17),
        (op::CREATE_FLOW_GROUP, 0x23f),
        (op::DESTROY_FLOW_GROUP, 0x1b),
        (op::SET_FLOW_TABLE_ENTRY, 0x33f),
        (op::DELETE_FLOW_TABLE_ENTRY, 0x23),
        (op::QUERY_FLOW_TABLE_ENTRY, 0x23),
        (op::SET_FLOW_TABLE_ROOT, 0x17),
        (op::MODIFY_FLOW_TABLE, 0x3f),
        (op::QUERY_Q_COUNTER, 0x1f),
        (op::ACCESS_REG, 0xf),
        (op::SET_ISSI, 0xb),
        (op::ENABLE_HCA, 0xb),
        (op::QUERY_NIC_VPORT_CONTEXT, 0xf),
        (op::MODIFY_NIC_VPORT_CONTEXT, 0x1ff),
        (op::MODIFY_VPORT_STATE, 0xf),
    ];
    for (opcode, n) in fixed {
        short(opcode, 0, n);
    }
    short(op::MANAGE_PAGES, pages::GIVE, 0xf);
    let by_number = [
        op::DEALLOC_UAR,
        op::DEALLOC_PD,
        op::DEALLOC_TRANSPORT_DOMAIN,
        op::QUERY_MKEY,
        op::DESTROY_MKEY,
        op::QUERY_TIS,
        op::DESTROY_TIS,
        op::DEALLOC_Q_COUNTER,
        op::QUERY_EQ,
        op::DESTROY_EQ,
        op::QUERY_CQ,
        op::DESTROY_CQ,
        op::QUERY_SQ,
        op::DESTROY_SQ,
        op::QUERY_RQ,
        op::DESTROY_RQ,
        op::DESTROY_RQT,
        op::QUERY_TIR,
        op::DESTROY_TIR,
    ];
    for opcode in by_number {
        short(opcode, 0, 8);
    }
}

#[test]
fn queries_say_what_was_created_and_the_state() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let sq = c.sq(&o, 6, DBR, &[page(2)]).number();
    assert_eq!(c.modify_sq(sq, 0, 1), None);
    let q: QuerySqOut = c.query(op::QUERY_SQ, sq);
    let q = q.part(QuerySqOut::SQC);
    assert_eq!((q.get(Sqc::STATE), q.get(Sqc::CQN), q.get(Sqc::TIS)), (1, o.cq, o.tis));
    assert_eq!(q.part(Sqc::WQ).get(Wq::LOG_SIZE), 6);
    let q: QueryCqOut = c.query(op::QUERY_CQ, o.cq);
    let q = q.part(QueryCqOut::CQC);
    assert_eq!((q.get(Cqc::EQN), q.get(Cqc::LOG_SIZE)), (o.eq, 6));
    let q: QueryEqOut = c.query(op::QUERY_EQ, o.eq);
    let q = q.part(QueryEqOut::EQC);
    assert_eq!((q.get(Eqc::INTR), q.get(Eqc::LOG_SIZE)), (3, 6));
    let q: QueryMkeyOut = c.query(op::QUERY_MKEY, o.mkey);
    let q = q.part(QueryMkeyOut::MKC);
    assert_eq!((q.get(Mkc::PD), q.get(Mkc::LENGTH64)), (o.pd, 1));
    let mut m = TisIn::ZERO;
    m.set(TisIn::TISN, o.tis).part_mut(TisIn::TISC).set(Tisc::PRIO, 6);
    c.ok(op::MODIFY_TIS, 0, &m, &[]);
    let q: QueryTisOut = c.query(op::QUERY_TIS, o.tis);
    let q = q.part(QueryTisOut::TISC);
    assert_eq!((q.get(Tisc::TRANSPORT_DOMAIN), q.get(Tisc::PRIO)), (o.td, 6));
    let rq = c.rq(&o, 4, DBR, &[page(3)]).number();
    assert_eq!(c.modify_rq(rq, 0, 1), None);
    let q: QueryRqOut = c.query(op::QUERY_RQ, rq);
    let q = q.part(QueryRqOut::RQC);
    assert_eq!((q.get(Rqc::STATE), q.get(Rqc::CQN)), (1, o.cq));
    assert_eq!(q.part(Rqc::WQ).get(Wq::LOG_STRIDE), 4);
    let rqt = c.rqt(&[rq, rq]).number();
    let tir = c.tir(&o, rqt, true).number();
    let mut m = ModifyTirIn::ZERO;
    m.set(ModifyTirIn::TIRN, tir).set_quad(ModifyTirIn::FIELDS, modify_tir::HASH);
    let tirc = m.part_mut(ModifyTirIn::TIRC);
    tirc.set(Tirc::HASH_FN, 2).set(Tirc::FIELDS, 3).set(Tirc::INLINE_RQN, 9);
    c.ok(op::MODIFY_TIR, 0, &m, &[]);
    let q: QueryTirOut = c.query(op::QUERY_TIR, tir);
    let q = q.part(QueryTirOut::TIRC);
    assert_eq!((q.get(Tirc::DISPATCH), q.get(Tirc::RQTN)), (1, rqt));
    assert_eq!((q.get(Tirc::HASH_FN), q.get(Tirc::FIELDS)), (2, 3));
    assert_eq!(q.get(Tirc::TRANSPORT_DOMAIN), o.td);
}

#[test]
fn a_queue_changes_state_only_from_the_state_it_is_in() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let sq = c.sq(&o, 6, DBR, &[page(2)]).number();
    let rq = c.rq(&o, 4, DBR, &[page(3)]).number();
    for (from, to, status) in [
        (1, 3, IN_USE),
        (0, 1, None),
        (0, 1, IN_USE),
        (1, 3, None),
        (3, 1, IN_USE),
        (3, 0, None),
        (0, 2, PARAM),
        (2, 0, PARAM),
    ] {
        assert_eq!(c.modify_sq(sq, from, to), status, "SQ {from} -> {to}");
        assert_eq!(c.modify_rq(rq, from, to), status, "RQ {from} -> {to}");
    }
    assert_eq!((c.modify_sq(0xff_0000, 0, 1), c.modify_rq(0xff_0000, 0, 1)), (BAD_RES, BAD_RES));
}

#[test]
fn moderation_can_be_changed_while_the_queue_lives() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let mut m = ModifyCqIn::ZERO;
    m.set(ModifyCqIn::CQN, o.cq)
        .set(ModifyCqIn::FIELDS, modify_cq::PERIOD | modify_cq::MAX_COUNT | modify_cq::PERIOD_MODE);
    m.part_mut(ModifyCqIn::CQC).set(Cqc::PERIOD, 8).set(Cqc::MAX_COUNT, 128);
    c.ok(op::MODIFY_CQ, 0, &m, &[]);
    let q: QueryCqOut = c.query(op::QUERY_CQ, o.cq);
    let q = q.part(QueryCqOut::CQC);
    assert_eq!((q.get(Cqc::PERIOD), q.get(Cqc::MAX_COUNT)), (8, 128));
    m.set(ModifyCqIn::FIELDS, 1 << 7);
    assert_eq!(c.run(op::MODIFY_CQ, 0, &m, &[]).status, PARAM);
}

#[test]
fn every_eq_can_be_armed_and_pages_end_with_the_bar() {
    let mut c = CommandHarness::running(NIC);
    let uar = c.alloc(op::ALLOC_UAR);
    let eqs: Vec<u32> = core::iter::from_fn(|| {
        let a = c.eq(uar, 0, 0, 0, &[page(4)]);
        a.status.is_none().then(|| a.number())
    })
    .collect();
    assert!(eqs.len() >= 64);
    assert!(eqs.iter().all(|&n| n < 256), "an arm has eight bits for the number");
    let pages = core::iter::from_fn(|| {
        let a = c.run(op::ALLOC_UAR, 0, &Numbered::ZERO, &[]);
        a.status.is_none().then(|| a.number())
    });
    assert!(pages.take(1 << 14).last().unwrap() < 8192, "the BAR has 32 MiB");
}

/// A TIS names a port that there is. Others are refused, and the capabilities say how many there
/// are.
#[test]
fn a_tis_names_a_port_of_the_card() {
    let two = Config { caps: Caps { second_port: true, ..NIC.caps }, ..NIC };
    for (nic, ports) in [(NIC, 0), (two, SECOND_PORT)] {
        let mut c = CommandHarness::running(nic);
        let td = c.alloc(op::ALLOC_TRANSPORT_DOMAIN);
        for port in 0..16 {
            let expected = if port <= ports { None } else { Some(CmdStatus::BadParam) };
            assert_eq!(c.tis_at(td, port).status, expected, "port {port} of {ports}");
        }
        let mut general = GeneralCaps::ZERO;
        general.0.copy_from_slice(&c.caps(cap_type::GENERAL, CURRENT)[..CAP_LEN]);
        let affinity = general.get(GeneralCaps::LAG_TX_PORT_AFFINITY) == 1;
        assert_eq!((affinity, general.get(GeneralCaps::NUM_LAG_PORTS)), (ports > 0, ports));
    }
}
