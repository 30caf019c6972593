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
    c.about(op::DEALLOC_UAR, first);
    let before = c.device.counters.bad_doorbells;
    c.device.mmio_write(&mut c.port, c.now, Reg::at(first * uar::PAGE + uar::EQ_ARM), 4, 0);
    assert_eq!(c.device.counters.bad_doorbells, before + 1, "the page is nobody's again");
}

#[test]
fn an_object_in_use_stays() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let sq = c.ok(
        op::CREATE_SQ,
        0,
        &CommandHarness::sq_message(&o, 6, CommandHarness::DBR),
        &CommandHarness::pas(&[CommandHarness::page(2)]),
    );
    let set = c.alloc(op::ALLOC_Q_COUNTER);
    let mut m = CommandHarness::rq_message(&o, 4, 4, CommandHarness::DBR);
    m.part_mut(CreateRqIn::RQC).set(Rqc::COUNTER_SET, set);
    let rq = c.ok(op::CREATE_RQ, 0, &m, &CommandHarness::pas(&[CommandHarness::page(3)])).number();
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

#[test]
fn queues_need_what_they_name() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let list = CommandHarness::pas(&[CommandHarness::page(4)]);
    let nowhere = 0xff_0000;
    for bad in [
        Common { uar: nowhere, ..o },
        Common { pd: nowhere, ..o },
        Common { tis: nowhere, ..o },
        Common { cq: nowhere, ..o },
    ] {
        assert_eq!(
            c.run(
                op::CREATE_SQ,
                0,
                &CommandHarness::sq_message(&bad, 6, CommandHarness::DBR),
                &list
            )
            .status,
            BAD_RES
        );
    }
    for bad in [Common { pd: nowhere, ..o }, Common { cq: nowhere, ..o }] {
        assert_eq!(
            c.run(
                op::CREATE_RQ,
                0,
                &CommandHarness::rq_message(&bad, 4, 4, CommandHarness::DBR),
                &list
            )
            .status,
            BAD_RES
        );
    }
    for bad in [Common { uar: nowhere, ..o }, Common { eq: 99, ..o }] {
        assert_eq!(
            c.run(
                op::CREATE_CQ,
                0,
                &CommandHarness::cq_message(&bad, 6, CommandHarness::DBR),
                &list
            )
            .status,
            BAD_RES
        );
    }
    assert_eq!(c.eq(nowhere, 6, 0, 0, &[CommandHarness::page(4)]).status, BAD_RES);
    assert_eq!(c.tis(nowhere).status, BAD_RES);
    assert_eq!(c.rqt(&[nowhere]).status, BAD_RES);
    assert_eq!(c.tir(&o, nowhere, true).status, BAD_RES);
    assert_eq!(c.tir(&Common { td: nowhere, ..o }, nowhere, false).status, BAD_RES);
    assert_eq!(
        c.run(op::CREATE_MKEY, 0, &CommandHarness::mkey_message(nowhere), &[]).status,
        BAD_RES
    );
}

#[test]
fn contexts_that_make_no_sense_are_refused() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let list = CommandHarness::pas(&[CommandHarness::page(4)]);
    let cq = |f: &dyn Fn(&mut Cqc)| {
        let mut m = CommandHarness::cq_message(&o, 6, CommandHarness::DBR);
        f(m.part_mut(CreateCqIn::CQC));
        m
    };
    let bad_cqs = [
        cq(&|c| _ = c.set(Cqc::LOG_SIZE, 19)),
        cq(&|c| _ = c.set(Cqc::CQE_SIZE, 1)),
        cq(&|c| _ = c.set(Cqc::COMPRESSION, 1)),
        cq(&|c| _ = c.set_quad(Cqc::DBR, 4)),
    ];
    for m in bad_cqs {
        assert_eq!(c.run(op::CREATE_CQ, 0, &m, &list).status, PARAM);
    }
    let mut linked = CommandHarness::sq_message(&o, 6, CommandHarness::DBR);
    linked.part_mut(CreateSqIn::SQC).part_mut(Sqc::WQ).set(Wq::TYPE, 0);
    let mut ready = CommandHarness::sq_message(&o, 6, CommandHarness::DBR);
    ready.part_mut(CreateSqIn::SQC).set(Sqc::STATE, 1);
    for m in [
        linked,
        ready,
        CommandHarness::sq_message(&o, 16, CommandHarness::DBR),
        CommandHarness::sq_message(&o, 6, 4),
    ] {
        assert_eq!(c.run(op::CREATE_SQ, 0, &m, &list).status, PARAM);
    }
    let mut striding = CommandHarness::rq_message(&o, 4, 5, CommandHarness::DBR);
    striding.part_mut(CreateRqIn::RQC).part_mut(Rqc::WQ).set(Wq::TYPE, 2);
    for m in [
        striding,
        CommandHarness::rq_message(&o, 4, 3, CommandHarness::DBR),
        CommandHarness::rq_message(&o, 16, 4, CommandHarness::DBR),
    ] {
        assert_eq!(c.run(op::CREATE_RQ, 0, &m, &list).status, PARAM);
    }
    let mut m = CreateEqIn::ZERO;
    m.part_mut(CreateEqIn::EQC).set(Eqc::UAR, o.uar).set(Eqc::INTR, 64);
    assert_eq!(c.run(op::CREATE_EQ, 0, &m, &list).status, PARAM, "no such vector");
    assert_eq!(
        c.run(op::CREATE_SQ, 0, &CommandHarness::sq_message(&o, 7, CommandHarness::DBR), &list)
            .status,
        Some(CmdStatus::BadInputLength),
        "two pages"
    );
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
    let sq = c
        .ok(
            op::CREATE_SQ,
            0,
            &CommandHarness::sq_message(&o, 6, CommandHarness::DBR),
            &CommandHarness::pas(&[CommandHarness::page(2)]),
        )
        .number();
    let about = |n| {
        let mut m = Numbered::ZERO;
        m.set(Numbered::NUMBER, n);
        m
    };
    assert_eq!(c.modify_sq(sq, 0, 1), None);
    let q: QuerySqOut = c.ok(op::QUERY_SQ, 0, &about(sq), &[]).out_as();
    let q = q.part(QuerySqOut::SQC);
    assert_eq!(
        (q.get(Sqc::STATE), q.get(Sqc::CQN), q.get(Sqc::TIS), q.part(Sqc::WQ).get(Wq::LOG_SIZE)),
        (1, o.cq, o.tis, 6)
    );
    let q: QueryCqOut = c.ok(op::QUERY_CQ, 0, &about(o.cq), &[]).out_as();
    assert_eq!(
        (q.part(QueryCqOut::CQC).get(Cqc::EQN), q.part(QueryCqOut::CQC).get(Cqc::LOG_SIZE)),
        (o.eq, 6)
    );
    let q: QueryEqOut = c.ok(op::QUERY_EQ, 0, &about(o.eq), &[]).out_as();
    assert_eq!(
        (q.part(QueryEqOut::EQC).get(Eqc::INTR), q.part(QueryEqOut::EQC).get(Eqc::LOG_SIZE)),
        (3, 6)
    );
    let q: QueryMkeyOut = c.ok(op::QUERY_MKEY, 0, &about(o.mkey), &[]).out_as();
    assert_eq!(
        (q.part(QueryMkeyOut::MKC).get(Mkc::PD), q.part(QueryMkeyOut::MKC).get(Mkc::LENGTH64)),
        (o.pd, 1)
    );
    let mut m = TisIn::ZERO;
    m.set(TisIn::TISN, o.tis).part_mut(TisIn::TISC).set(Tisc::PRIO, 6);
    c.ok(op::MODIFY_TIS, 0, &m, &[]);
    let q: QueryTisOut = c.ok(op::QUERY_TIS, 0, &about(o.tis), &[]).out_as();
    let t = q.part(QueryTisOut::TISC);
    assert_eq!((t.get(Tisc::TRANSPORT_DOMAIN), t.get(Tisc::PRIO)), (o.td, 6));
    let rq = c
        .ok(
            op::CREATE_RQ,
            0,
            &CommandHarness::rq_message(&o, 4, 4, CommandHarness::DBR),
            &CommandHarness::pas(&[CommandHarness::page(3)]),
        )
        .number();
    assert_eq!(c.modify_rq(rq, 0, 1), None);
    let q: QueryRqOut = c.ok(op::QUERY_RQ, 0, &about(rq), &[]).out_as();
    let q = q.part(QueryRqOut::RQC);
    assert_eq!(
        (q.get(Rqc::STATE), q.get(Rqc::CQN), q.part(Rqc::WQ).get(Wq::LOG_STRIDE)),
        (1, o.cq, 4)
    );
    let rqt = c.rqt(&[rq, rq]).number();
    let tir = c.tir(&o, rqt, true).number();
    let mut m = ModifyTirIn::ZERO;
    m.set(ModifyTirIn::TIRN, tir).set_quad(ModifyTirIn::FIELDS, modify_tir::HASH);
    m.part_mut(ModifyTirIn::TIRC)
        .set(Tirc::HASH_FN, 2)
        .set(Tirc::FIELDS, 3)
        .set(Tirc::INLINE_RQN, 9);
    c.ok(op::MODIFY_TIR, 0, &m, &[]);
    let q: QueryTirOut = c.ok(op::QUERY_TIR, 0, &about(tir), &[]).out_as();
    let t = q.part(QueryTirOut::TIRC);
    assert_eq!(
        (t.get(Tirc::DISPATCH), t.get(Tirc::RQTN), t.get(Tirc::HASH_FN), t.get(Tirc::FIELDS)),
        (1, rqt, 2, 3)
    );
    assert_eq!(t.get(Tirc::TRANSPORT_DOMAIN), o.td);
}

#[test]
fn a_queue_changes_state_only_from_the_state_it_is_in() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let sq = c
        .ok(
            op::CREATE_SQ,
            0,
            &CommandHarness::sq_message(&o, 6, CommandHarness::DBR),
            &CommandHarness::pas(&[CommandHarness::page(2)]),
        )
        .number();
    let rq = c
        .ok(
            op::CREATE_RQ,
            0,
            &CommandHarness::rq_message(&o, 4, 4, CommandHarness::DBR),
            &CommandHarness::pas(&[CommandHarness::page(3)]),
        )
        .number();
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
    let mut about = Numbered::ZERO;
    about.set(Numbered::NUMBER, o.cq);
    let q: QueryCqOut = c.ok(op::QUERY_CQ, 0, &about, &[]).out_as();
    let q = q.part(QueryCqOut::CQC);
    assert_eq!((q.get(Cqc::PERIOD), q.get(Cqc::MAX_COUNT)), (8, 128));
    m.set(ModifyCqIn::FIELDS, 1 << 7);
    assert_eq!(c.run(op::MODIFY_CQ, 0, &m, &[]).status, PARAM);
}

#[test]
fn objects_need_what_they_name() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let page = CommandHarness::pas(&[CommandHarness::page(4)]);
    let cq = |c: &mut CommandHarness, o: &Common, log, dbr, list: &[u8]| {
        c.run(op::CREATE_CQ, 0, &CommandHarness::cq_message(o, log, dbr), list).status
    };
    let sq = |c: &mut CommandHarness, o: &Common, log, dbr, list: &[u8]| {
        c.run(op::CREATE_SQ, 0, &CommandHarness::sq_message(o, log, dbr), list).status
    };
    let (resource, wrong) = (Some(CmdStatus::BadResource), Some(CmdStatus::BadParam));
    assert_eq!((cq(&mut c, &o, 4, 0x40, &page), sq(&mut c, &o, 6, 0x40, &page)), (None, None));
    assert_eq!(cq(&mut c, &Common { eq: 200, ..o }, 4, 0x40, &page), resource);
    assert_eq!(sq(&mut c, &Common { cq: o.eq, ..o }, 6, 0x40, &page), resource);
    for (log_cq, log_sq, dbr) in [(4, 6, 4), (23, 16, 0x40)] {
        assert_eq!(
            (cq(&mut c, &o, log_cq, dbr, &page), sq(&mut c, &o, log_sq, dbr, &page)),
            (wrong, wrong)
        );
    }
    assert_eq!(c.about(op::DESTROY_MKEY, 77), resource);
}

#[test]
fn every_eq_can_be_armed_and_pages_end_with_the_bar() {
    let mut c = CommandHarness::running(NIC);
    let uar = c.alloc(op::ALLOC_UAR);
    let eqs: Vec<u32> = core::iter::from_fn(|| {
        let a = c.eq(uar, 0, 0, 0, &[CommandHarness::page(4)]);
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
