//! The mlx5 device's firmware commands: what each does, refuses and ends.

use doorbell_conformance::mlx5::{Access, CommandHarness, Common};
use doorbell_devices::mlx5::{Config, Mlx5};
use doorbell_hal::{Device, EventSource, Reg, RxVerdict, Span};
use doorbell_layout::mlx5::command::{
    AccessReg, CAP_LEN, CURRENT, Cqc, CreateCqIn, CreateEqIn, CreateFlowGroupIn, CreateFlowTableIn,
    CreateMkeyIn, CreateRqIn, CreateSqIn, CreateTirIn, Eqc, EthCaps, FlowContext, FlowGroupIn,
    FlowTableCaps, FlowTableContext, FlowTableIn, FteIn, FunctionIn, GeneralCaps, ManagePagesIn,
    ManagePagesOut, Mkc, ModifyCqIn, ModifyNicVportIn, ModifyTirIn, NicVport, Numbered, Paos, Pmlp,
    Pmtu, Ppcnt, Ptys, QueryAdapterOut, QueryCqOut, QueryEqOut, QueryFteOut, QueryIssiOut,
    QueryMkeyOut, QueryNicVportIn, QueryNicVportOut, QueryPagesOut, QueryQCounterIn,
    QueryQCounterOut, QueryRqOut, QuerySqOut, QueryTirOut, QueryTisOut, Rqc, RqtIn, SetFteIn,
    SetIssiIn, Sqc, Tirc, TisIn, Tisc, VportCounters, VportState, Wq, access, access_mode,
    cap_type, destination, flow_action, init_segment, list_type, modify_cq, modify_tir, op, pages,
    paos, ppcnt, ptys, register, vport_field,
};
use doorbell_layout::mlx5::{CmdStatus, CtrlSeg, DataSeg, EthSeg, event, port_change, uar};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{Immutable, IntoBytes};

const NIC: Config = Config::CONNECTX;
const BAD_RES: Option<CmdStatus> = Some(CmdStatus::BadResource);
const IN_USE: Option<CmdStatus> = Some(CmdStatus::BadResourceState);
const PARAM: Option<CmdStatus> = Some(CmdStatus::BadParam);
const OUTSIDE: Option<CmdStatus> = Some(CmdStatus::BadSystemState);

// ---- up and down ----

#[test]
fn nothing_is_done_before_the_function_is_enabled() {
    let mut c = CommandHarness::new(NIC);
    for opcode in
        [op::QUERY_ISSI, op::QUERY_PAGES, op::QUERY_HCA_CAP, op::INIT_HCA, op::ALLOC_PD, 0x829]
    {
        assert_eq!(c.run(opcode, 0, &Numbered::ZERO, &[]).status, OUTSIDE, "{opcode:#x}");
    }
}

#[test]
fn objects_exist_only_while_it_runs() {
    let mut c = CommandHarness::new(NIC);
    c.ok(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    assert_eq!(c.run(op::ALLOC_PD, 0, &Numbered::ZERO, &[]).status, OUTSIDE);
    assert_eq!(c.run(op::INIT_HCA, 0, &Numbered::ZERO, &[]).status, OUTSIDE, "pages are missing");
    c.give(0, 48);
    c.ok(op::INIT_HCA, 0, &Numbered::ZERO, &[]);
    let pd = c.alloc(op::ALLOC_PD);
    c.ok(op::TEARDOWN_HCA, 0, &Numbered::ZERO, &[]);
    assert_eq!(c.about(op::DEALLOC_PD, pd), OUTSIDE);
    c.ok(op::INIT_HCA, 0, &Numbered::ZERO, &[]);
    assert_eq!(c.about(op::DEALLOC_PD, pd), BAD_RES);
    assert_eq!(c.run(op::INIT_HCA, 0, &Numbered::ZERO, &[]).status, OUTSIDE, "it runs already");
}

#[test]
fn issi_one_is_offered_and_no_other() {
    let mut c = CommandHarness::new(NIC);
    c.ok(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    let mut m = SetIssiIn::ZERO;
    m.set(SetIssiIn::CURRENT, 1);
    c.ok(op::SET_ISSI, 0, &m, &[]);
    let out: QueryIssiOut = c.ok(op::QUERY_ISSI, 0, &Numbered::ZERO, &[]).out_as();
    assert_eq!((out.get(QueryIssiOut::CURRENT), out.get(QueryIssiOut::SUPPORTED)), (1, 2));
    m.set(SetIssiIn::CURRENT, 2);
    assert_eq!(c.run(op::SET_ISSI, 0, &m, &[]).status, PARAM);
}

fn wanted(c: &mut CommandHarness, which: u32) -> i32 {
    let out: QueryPagesOut = c.ok(op::QUERY_PAGES, which, &Numbered::ZERO, &[]).out_as();
    out.get(QueryPagesOut::PAGES) as i32
}

fn take(c: &mut CommandHarness, n: u32) -> Vec<u64> {
    let mut m = ManagePagesIn::ZERO;
    m.set(ManagePagesIn::ENTRIES, n);
    let a = c.ok(op::MANAGE_PAGES, pages::TAKE, &m, &[]);
    let n = a.out_as::<ManagePagesOut>().get(ManagePagesOut::ENTRIES) as usize;
    a.out[16..16 + 8 * n].chunks(8).map(|b| u64::from_be_bytes(b.try_into().unwrap())).collect()
}

#[test]
fn pages_are_asked_for_given_and_come_back() {
    let mut c = CommandHarness::new(NIC);
    c.ok(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    assert_eq!(wanted(&mut c, pages::BOOT), 16);
    c.give(0, 16);
    assert_eq!((wanted(&mut c, pages::BOOT), wanted(&mut c, pages::INIT)), (0, 32));
    c.give(16, 32);
    c.ok(op::INIT_HCA, 0, &Numbered::ZERO, &[]);
    assert_eq!(take(&mut c, 768), [0_u64; 0], "it needs all of them to run");
    c.ok(op::TEARDOWN_HCA, 0, &Numbered::ZERO, &[]);
    let mut back = [take(&mut c, 40), take(&mut c, 768)].concat();
    assert_eq!(take(&mut c, 768), [0_u64; 0]);
    back.sort_unstable();
    assert_eq!(back, (0..48).map(|i| CommandHarness::PAGES + i * 4096).collect::<Vec<_>>());
}

#[test]
fn pages_that_cannot_be_are_refused() {
    let mut c = CommandHarness::new(NIC);
    c.ok(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    let mut m = ManagePagesIn::ZERO;
    m.set(ManagePagesIn::ENTRIES, 2);
    let mut give =
        |list: &[u64]| c.run(op::MANAGE_PAGES, pages::GIVE, &m, &CommandHarness::pas(list)).status;
    assert_eq!(give(&[0x1000]), Some(CmdStatus::BadInputLength));
    assert_eq!(give(&[0x1000, 0]), PARAM);
    assert_eq!(give(&[0x1000, 0x2004]), PARAM);
    assert_eq!(c.run(op::MANAGE_PAGES, 7, &m, &[]).status, Some(CmdStatus::BadOp));
    assert_eq!(c.device.pages_held(), 0);
}

#[test]
fn page_requests_are_events_both_ways() {
    let mut c = CommandHarness::running(NIC);
    let page = c.alloc(op::ALLOC_UAR);
    let ring = CommandHarness::page(3);
    c.eq(page, 4, 0, 1 << event::PAGE_REQUEST, &[ring]).number();
    for (i, n) in [8i16, -8].into_iter().enumerate() {
        let now = c.now;
        c.device.request_pages(&mut c.port, now, n);
        let e = c.eqe(ring, i);
        assert_eq!(
            (e.event_type, e.data[0].get(), e.data[1].get() as i32),
            (event::PAGE_REQUEST, 0, i32::from(n))
        );
        if n > 0 {
            assert_eq!(wanted(&mut c, pages::REGULAR), 8);
            c.give(48, 8);
        } else {
            assert_eq!(take(&mut c, 8).len(), 8);
        }
    }
    assert_eq!(c.device.pages_held(), 48);
}

#[test]
fn the_capabilities_that_an_unmodified_driver_needs_are_there() {
    let mut c = CommandHarness::running(NIC);
    let mut g = GeneralCaps::ZERO;
    g.0.copy_from_slice(&c.caps(cap_type::GENERAL, CURRENT));
    for f in [GeneralCaps::NIC_FLOW_TABLE, GeneralCaps::PORT_TYPE, GeneralCaps::ETH_NET_OFFLOADS] {
        assert_eq!(g.get(f), 1);
    }
    assert!(g.get(GeneralCaps::MAX_WQE_SZ_SQ) >= 1024 && g.get(GeneralCaps::MAX_NUM_EQS) > 8);
    let mut e = EthCaps::ZERO;
    e.0.copy_from_slice(&c.caps(cap_type::ETH, CURRENT));
    for f in [EthCaps::CSUM, EthCaps::VLAN, EthCaps::ENHANCED_MPW, EthCaps::SELF_LB_MODIFIABLE] {
        assert_eq!(e.get(f), 1);
    }
    assert_eq!((e.get(EthCaps::MAX_LSO), e.get(EthCaps::INLINE_MODE)), (18, 2));
    assert!(e.get(EthCaps::RSS_IND_TBL) > 0);
    let mut f = FlowTableCaps::ZERO;
    f.0.copy_from_slice(&c.caps(cap_type::FLOW_TABLE, CURRENT));
    assert_eq!(f.get(FlowTableCaps::RX_SUPPORT), 1);
    assert!(
        f.get(FlowTableCaps::RX_MAX_LEVEL) >= 58 && f.get(FlowTableCaps::RX_LOG_MAX_SIZE) >= 16
    );
    assert_eq!(
        c.run(op::QUERY_HCA_CAP, 0x20 << 1, &Numbered::ZERO, &[]).status,
        PARAM,
        "no such group"
    );
    assert_eq!(
        c.run(op::SET_HCA_CAP, 0, &Numbered::ZERO, &[0; CAP_LEN]).status,
        OUTSIDE,
        "it runs"
    );
}

#[test]
fn the_inline_mode_follows_what_the_port_needs() {
    for (min_inline, mode, vport) in [(0, 2, 0), (1, 0, 0), (2, 1, 2), (3, 1, 3)] {
        let caps = doorbell_layout::mlx5::Caps { min_inline, ..NIC.caps };
        let mut c = CommandHarness::running(Config { caps, ..NIC });
        let mut e = EthCaps::ZERO;
        e.0.copy_from_slice(&c.caps(cap_type::ETH, CURRENT));
        assert_eq!(e.get(EthCaps::INLINE_MODE), mode);
        assert_eq!(nic_vport(&mut c).get(NicVport::MIN_INLINE), vport);
    }
}

#[test]
fn the_board_has_a_name() {
    let mut c = CommandHarness::running(NIC);
    let out: QueryAdapterOut = c.ok(op::QUERY_ADAPTER, 0, &Numbered::ZERO, &[]).out_as();
    assert_eq!(out.0[QueryAdapterOut::PSID..], NIC.psid);
}

// ---- objects: made, used, in use, gone ----

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

// ---- queues at work, as they were created ----

/// A ready SQ in the given pages, and where its next WQE goes.
struct Sender {
    c: CommandHarness,
    o: Common,
    sqn: u32,
    pages: Vec<u64>,
    pc: u16,
    lkey: u32,
}

impl Sender {
    fn new(log: u32, pages: &[u64]) -> Sender {
        let mut c = CommandHarness::running(NIC);
        let o = c.common();
        let message = CommandHarness::sq_message(&o, log, CommandHarness::DBR + 64);
        let sqn = c.ok(op::CREATE_SQ, 0, &message, &CommandHarness::pas(pages)).number();
        assert_eq!(c.modify_sq(sqn, 0, 1), None);
        for i in 0..0x4000 {
            c.port.memory[CommandHarness::DATA as usize + i] = (i % 251) as u8;
        }
        Sender { c, o, sqn, pages: pages.to_vec(), pc: 0, lkey: o.mkey << 8 }
    }
    fn put(&mut self, addr: u64, len: u32) {
        let mut ctrl = CtrlSeg::new(self.pc, 0x0a, self.sqn, 3);
        ctrl.fm_ce_se = 8;
        let data =
            DataSeg { byte_count: U32::new(len), lkey: U32::new(self.lkey), addr: U64::new(addr) };
        let wqe = [ctrl.as_bytes(), EthSeg::default().as_bytes(), data.as_bytes()].concat();
        let at = usize::from(self.pc) * 64 % (self.pages.len() * 4096);
        let at = self.pages[at / 4096] as usize + at % 4096;
        self.c.port.memory[at..at + 48].copy_from_slice(&wqe);
        self.pc += 1;
    }
    fn ring(&mut self) {
        let ctrl = CtrlSeg::new(self.pc - 1, 0x0a, self.sqn, 3);
        let v = u64::from_le_bytes(ctrl.as_bytes()[..8].try_into().unwrap());
        self.c.device.mmio_write(
            &mut self.c.port,
            self.c.now,
            Reg::at(self.o.uar * uar::PAGE + uar::SEND),
            8,
            v,
        );
    }
    /// 40 packets, announced and not yet sent.
    fn announce(&mut self) {
        for _ in 0..40 {
            self.put(CommandHarness::DATA, 60);
        }
        self.c.port.log.clear();
        self.ring();
    }
    fn frames(&self) -> Vec<Vec<u8>> {
        self.c
            .port
            .log
            .iter()
            .filter_map(|a| if let Access::Frame(_, f) = a { Some(f.clone()) } else { None })
            .collect()
    }
    fn send(&mut self, addr: u64, len: u32) -> Vec<Vec<u8>> {
        self.c.port.log.clear();
        self.put(addr, len);
        self.ring();
        self.c.settle();
        self.frames()
    }
    /// Opcode and syndrome of CQE `i`.
    fn cqe(&self, i: usize) -> (u8, u8) {
        let at = CommandHarness::page(1) as usize + i * 64;
        (self.c.port.memory[at + 63] >> 4, self.c.port.memory[at + 0x37])
    }
    fn data(&self, offset: usize, n: usize) -> Vec<u8> {
        self.c.port.memory[CommandHarness::DATA as usize + offset..][..n].to_vec()
    }
}

#[test]
fn a_send_queue_in_scattered_pages_is_read_where_it_is() {
    let pages = [
        CommandHarness::page(9),
        CommandHarness::page(5),
        CommandHarness::page(7),
        CommandHarness::page(20),
    ];
    let mut s = Sender::new(8, &pages);
    for round in 0..3 {
        s.c.port.log.clear();
        for i in 0..256 {
            s.put(CommandHarness::DATA + i * 8, 60);
        }
        s.ring();
        // The CQ overruns on the way; what is sent is not its business.
        s.c.settle();
        let expected: Vec<Vec<u8>> = (0..256).map(|i| s.data(i * 8, 60)).collect();
        assert!(s.frames() == expected, "round {round}: {} frames", s.frames().len());
    }
}

#[test]
fn completions_and_events_go_to_scattered_pages() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let (cq_pages, eq_pages) = (
        [CommandHarness::page(12), CommandHarness::page(10)],
        [CommandHarness::page(16), CommandHarness::page(14)],
    );
    let eqn = c.eq(o.uar, 7, 5, 1 << event::PAGE_REQUEST, &eq_pages).number();
    let o = Common { eq: eqn, ..o };
    let cqn = c.cq(&o, 7, CommandHarness::DBR, &cq_pages).number();
    let message = CommandHarness::sq_message(&Common { cq: cqn, ..o }, 6, CommandHarness::DBR + 64);
    let sqn =
        c.ok(op::CREATE_SQ, 0, &message, &CommandHarness::pas(&[CommandHarness::page(2)])).number();
    assert_eq!(c.modify_sq(sqn, 0, 1), None);
    let mut s =
        Sender { c, o, sqn, pages: vec![CommandHarness::page(2)], pc: 0, lkey: o.mkey << 8 };
    for i in 0..128 {
        s.c.port.log.clear();
        s.put(CommandHarness::DATA, 60);
        s.ring();
        s.c.settle();
        let at = cq_pages[i / 64] + (i % 64) as u64 * 64;
        assert!(
            s.c.port.log.iter().any(|a| matches!(a, Access::Write(_, w, 64) if *w == at)),
            "CQE {i}"
        );
        s.c.port.log.clear();
        let now = s.c.now;
        s.c.device.request_pages(&mut s.c.port, now, 0);
        let at = eq_pages[i / 64] + (i % 64) as u64 * 64;
        assert!(
            s.c.port.log.iter().any(|a| matches!(a, Access::Write(_, w, 64) if *w == at)),
            "EQE {i}"
        );
    }
}

#[test]
fn a_queue_without_tis_executes_nops_and_sends_nothing() {
    let mut s = Sender::new(6, &[CommandHarness::page(2)]);
    let mut m = CommandHarness::sq_message(&s.o, 6, CommandHarness::DBR + 64);
    m.part_mut(CreateSqIn::SQC).set(Sqc::TIS_LIST_SIZE, 0).set(Sqc::TIS, 0);
    s.sqn = s.c.ok(op::CREATE_SQ, 0, &m, &CommandHarness::pas(&[CommandHarness::page(2)])).number();
    assert_eq!(s.c.modify_sq(s.sqn, 0, 1), None);
    assert_eq!(s.send(CommandHarness::DATA, 60), Vec::<Vec<u8>>::new());
    assert_eq!(s.cqe(0), (13, 2));
}

fn mtt_key(
    c: &mut CommandHarness,
    o: &Common,
    start: u64,
    length: u64,
    pages: &[u64],
) -> CreateMkeyIn {
    let mut m = CommandHarness::mkey_message(o.pd);
    m.set(CreateMkeyIn::OCTWORDS, pages.len().div_ceil(2) as u32);
    let mkc = m.part_mut(CreateMkeyIn::MKC);
    mkc.set(Mkc::ACCESS_MODE, access_mode::MTT)
        .set(Mkc::LENGTH64, 0)
        .set(Mkc::KEY, 0x5a)
        .set(Mkc::LOG_PAGE_SIZE, 12);
    mkc.set_quad(Mkc::START, start).set_quad(Mkc::LENGTH, length);
    assert!(c.device.next_due().is_none());
    m
}

#[test]
fn a_key_with_pages_translates_and_ends() {
    let mut s = Sender::new(6, &[CommandHarness::page(2)]);
    // Bus pages in another order, and an address space of the key's own.
    let pages = [CommandHarness::DATA + 0x2000, CommandHarness::DATA];
    let start = 0x7000_0000_0800;
    let m = mtt_key(&mut s.c, &s.o, start, 0x1000, &pages);
    let n = s.c.ok(op::CREATE_MKEY, 0, &m, &CommandHarness::pas(&pages)).number();
    s.lkey = n << 8 | 0x5a;
    assert_eq!(s.send(start, 100), [s.data(0x2800, 100)]);
    let across = [s.data(0x2fc0, 64), s.data(0, 36)].concat();
    assert_eq!(s.send(start + 0x7c0, 100), [across], "over the end of a page");
    assert_eq!(s.send(start + 0x1000 - 60, 60), [s.data(0x7c4, 60)], "up to its end");
    assert_eq!(s.send(start + 0x1000 - 59, 60), Vec::<Vec<u8>>::new(), "and not beyond");
    assert_eq!(s.cqe(3), (13, 4), "LOCAL_PROT");
    let mut s = Sender::new(6, &[CommandHarness::page(2)]);
    let m = mtt_key(&mut s.c, &s.o, start, 0x900, &pages);
    s.lkey = s.c.ok(op::CREATE_MKEY, 0, &m, &CommandHarness::pas(&pages)).number() << 8 | 0x5a;
    let across = [s.data(0x2fc0, 64), s.data(0, 256)].concat();
    assert_eq!(s.send(start + 0x7c0, 320), [across], "over the end of a page, up to its end");
}

#[test]
fn a_key_with_too_few_pages_is_refused() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let pages = [CommandHarness::DATA, CommandHarness::DATA + 0x1000];
    let short = Some(CmdStatus::BadInputLength);
    for (length, octwords, status) in [(0x2000, 1, None), (0x2001, 1, short), (0x2000, 0, short)] {
        let mut m = mtt_key(&mut c, &o, 0, length, &pages);
        m.set(CreateMkeyIn::OCTWORDS, octwords);
        let a = c.run(op::CREATE_MKEY, 0, &m, &CommandHarness::pas(&pages));
        assert_eq!(a.status, status);
    }
    let mut free = CommandHarness::mkey_message(o.pd);
    free.part_mut(CreateMkeyIn::MKC).set(Mkc::FREE, 1);
    assert_eq!(c.run(op::CREATE_MKEY, 0, &free, &[]).status, PARAM, "no UMR to fill it in");
}

#[test]
fn a_key_of_another_domain_or_low_byte_or_without_reading_is_a_protection_error() {
    type Spoil = fn(&mut Sender);
    let spoil: [(&str, Spoil); 4] = [
        ("domain", |s| {
            let pd = s.c.alloc(op::ALLOC_PD);
            s.lkey =
                s.c.ok(op::CREATE_MKEY, 0, &CommandHarness::mkey_message(pd), &[]).number() << 8;
        }),
        ("low byte", |s| s.lkey |= 1),
        ("reading", |s| {
            let mut m = CommandHarness::mkey_message(s.o.pd);
            m.part_mut(CreateMkeyIn::MKC).set(Mkc::LOCAL_READ, 0);
            s.lkey = s.c.ok(op::CREATE_MKEY, 0, &m, &[]).number() << 8;
        }),
        ("destroyed", |s| assert_eq!(s.c.about(op::DESTROY_MKEY, s.lkey >> 8), None)),
    ];
    for (what, spoil) in spoil {
        let mut s = Sender::new(6, &[CommandHarness::page(2)]);
        spoil(&mut s);
        assert_eq!(s.send(CommandHarness::DATA, 60), Vec::<Vec<u8>>::new(), "{what}");
        assert_eq!(s.cqe(0), (13, 4), "{what}");
    }
}

// ---- no DMA afterwards ----

/// A sender with work announced.
fn sending() -> Sender {
    let mut s = Sender::new(6, &[CommandHarness::page(2)]);
    s.announce();
    s
}

/// The same, and a frame on its way in.
fn busy() -> (Sender, u32) {
    let mut s = Sender::new(6, &[CommandHarness::page(2)]);
    let (rqn, _) = receiver(&mut s, false);
    s.announce();
    let now = s.c.now;
    assert_eq!(s.c.device.receive(&mut s.c.port, now, &[0xff; 100]), RxVerdict::Yes);
    (s, rqn)
}

/// A ready RQ in page 6, 16 buffers posted, everything steered to it; with `table`
/// through an RQT. Their numbers.
fn receiver(s: &mut Sender, table: bool) -> (u32, u32) {
    let message = CommandHarness::rq_message(&s.o, 4, 4, CommandHarness::DBR + 128);
    let rqn =
        s.c.ok(op::CREATE_RQ, 0, &message, &CommandHarness::pas(&[CommandHarness::page(6)]))
            .number();
    let rqt = if table { s.c.rqt(&[rqn]).number() } else { 0 };
    let tir = s.c.tir(&s.o, if table { rqt } else { rqn }, table).number();
    let table = flow_table(&mut s.c, 0, 0).number();
    let group = flow_group(&mut s.c, table, 0, 0, 0).number();
    assert_eq!(set_entry(&mut s.c, table, group, 0, &[(destination::TIR, tir)]), None);
    for i in 0..16u64 {
        let d = DataSeg {
            byte_count: U32::new(256),
            lkey: U32::new(s.o.mkey << 8),
            addr: U64::new(CommandHarness::DATA + 0x8000 + i * 256),
        };
        let at = (CommandHarness::page(6) + i * 16) as usize;
        s.c.port.memory[at..at + 16].copy_from_slice(d.as_bytes());
    }
    let record = CommandHarness::DBR as usize + 128;
    s.c.port.memory[record..record + 4].copy_from_slice(&16u32.to_be_bytes());
    assert_eq!(s.c.modify_rq(rqn, 0, 1), None);
    (rqn, rqt)
}

/// Accesses beyond those of delivering commands.
fn touched(c: &mut CommandHarness) -> Vec<Access> {
    let commands = |a: &Access| match a {
        Access::Read(_, at, _) | Access::Write(_, at, _) => {
            (CommandHarness::CMDQ..CommandHarness::CMDQ + 0x800).contains(at)
                || (CommandHarness::INPUTS..CommandHarness::PAGES).contains(at)
        }
        _ => false,
    };
    c.port.log.drain(..).filter(|a| !commands(a)).collect()
}

/// Settles; nothing but commands touches anything.
fn quiet(c: &mut CommandHarness) {
    let queue = CommandHarness::CMDQ..CommandHarness::CMDQ + 0x800;
    let log = c.port.log.iter();
    let last = { log }.rposition(|a| matches!(a, Access::Write(_, at, 4) if queue.contains(at)));
    // Accesses before the answer belong to the command.
    c.port.log.drain(..=last.expect("an answer"));
    c.settle();
    assert_eq!(touched(c), []);
}

#[test]
fn a_busy_device_would_touch_memory() {
    let (mut s, _) = busy();
    s.c.settle();
    let all = touched(&mut s.c);
    assert!(
        all.iter().any(|a| matches!(a, Access::Frame(..)))
            && all.iter().any(|a| matches!(a, Access::Write(..)))
    );
}

#[test]
fn no_dma_after_destroy_sq() {
    let mut s = sending();
    assert_eq!(s.c.about(op::DESTROY_SQ, s.sqn), None);
    quiet(&mut s.c);
    s.ring();
    s.c.settle();
    assert_eq!(touched(&mut s.c), []);
}

#[test]
fn no_dma_after_a_send_queue_is_reset() {
    let mut s = sending();
    assert_eq!(s.c.modify_sq(s.sqn, 1, 0), None);
    quiet(&mut s.c);
}

#[test]
fn what_is_due_after_a_command_does_not_happen_before_it() {
    let mut s = sending();
    let mut m = Numbered::ZERO;
    m.set(Numbered::NUMBER, s.sqn);
    let w = s.c.compose(&CommandHarness::input(op::DESTROY_SQ, 0, &m, &[]), 16);
    s.c.put(0, &w);
    s.c.now += Span::from_ns(50);
    s.c.register(init_segment::DOORBELL, 1);
    // One long step, in which the commands are in the middle.
    s.c.now += Span::from_ms(1);
    let now = s.c.now;
    s.c.device.advance(&mut s.c.port, now);
    assert_eq!(s.c.entry(0).output[0], 0);
    let sent = s.frames().len();
    assert!((1..40).contains(&sent), "{sent} frames: some before, none after");
    quiet(&mut s.c);
}

#[test]
fn no_dma_after_destroy_rq() {
    // Linux points its RQT elsewhere first, so that frames may still be on their way.
    let mut s = Sender::new(6, &[CommandHarness::page(2)]);
    let (rqn, rqt) = receiver(&mut s, true);
    let other = s.c.ok(
        op::CREATE_RQ,
        0,
        &CommandHarness::rq_message(&s.o, 4, 4, CommandHarness::DBR + 128),
        &CommandHarness::pas(&[CommandHarness::page(6)]),
    );
    let mut m = RqtIn::ZERO;
    m.set(RqtIn::RQTN, rqt).set_quad(RqtIn::FIELDS, 1).set(RqtIn::ACTUAL_SIZE, 1);
    let now = s.c.now;
    assert_eq!(s.c.device.receive(&mut s.c.port, now, &[0xff; 100]), RxVerdict::Yes);
    assert_eq!(s.c.about(op::DESTROY_RQ, rqn), IN_USE, "something leads there");
    s.c.ok(op::MODIFY_RQT, 0, &m, &other.number().to_be_bytes());
    assert_eq!(s.c.about(op::DESTROY_RQ, rqn), None);
    // Its number is used again at once: what was on its way is not the new one's.
    let message = CommandHarness::rq_message(&s.o, 4, 4, CommandHarness::DBR + 128);
    let again =
        s.c.ok(op::CREATE_RQ, 0, &message, &CommandHarness::pas(&[CommandHarness::page(6)]))
            .number();
    assert_eq!((again, s.c.modify_rq(again, 0, 1)), (rqn, None));
    quiet(&mut s.c);
    let now = s.c.now;
    assert_ne!(s.c.device.receive(&mut s.c.port, now, &[0xff; 100]), RxVerdict::Yes);
    s.c.settle();
    assert_eq!(touched(&mut s.c), []);
}

#[test]
fn no_dma_after_a_receive_queue_is_reset() {
    let (mut s, rqn) = busy();
    assert_eq!(s.c.about(op::DESTROY_SQ, s.sqn), None);
    assert_eq!(s.c.modify_rq(rqn, 1, 0), None);
    quiet(&mut s.c);
}

#[test]
fn no_dma_after_destroy_cq_and_eq() {
    let mut s = sending();
    for (opcode, n) in [(op::DESTROY_SQ, s.sqn), (op::DESTROY_CQ, s.o.cq), (op::DESTROY_EQ, s.o.eq)]
    {
        assert_eq!(s.c.about(opcode, n), None);
        quiet(&mut s.c);
    }
    let page = s.o.uar * uar::PAGE;
    for (offset, size, v) in
        [(uar::CQ_ARM, 8, u64::from(s.o.cq)), (uar::EQ_ARM, 4, u64::from(s.o.eq) << 24)]
    {
        let v = if size == 8 { v.swap_bytes() } else { u64::from((v as u32).swap_bytes()) };
        s.c.device.mmio_write(&mut s.c.port, s.c.now, Reg::at(page + offset), size, v);
    }
    s.c.settle();
    assert_eq!(touched(&mut s.c), []);
}

#[test]
fn no_dma_through_a_destroyed_key() {
    let (mut s, _) = busy();
    s.c.settle();
    assert_eq!(s.c.about(op::DESTROY_MKEY, s.o.mkey), None);
    s.c.port.log.clear();
    assert_eq!(s.send(CommandHarness::DATA, 60), Vec::<Vec<u8>>::new());
    s.c.device.receive(&mut s.c.port, s.c.now, &[0xff; 100]);
    s.c.settle();
    let data = CommandHarness::DATA..CommandHarness::DATA + 0x1_0000;
    let through = |a: &Access| match a {
        Access::Read(_, at, _) | Access::Write(_, at, _) => data.contains(at),
        _ => false,
    };
    assert!(!s.c.port.log.iter().any(through));
}

#[test]
fn no_dma_after_teardown() {
    let (mut s, _) = busy();
    s.c.ok(op::TEARDOWN_HCA, 0, &Numbered::ZERO, &[]);
    quiet(&mut s.c);
    s.ring();
    s.c.device.receive(&mut s.c.port, s.c.now, &[0xff; 100]);
    s.c.settle();
    assert_eq!(touched(&mut s.c), []);
}

#[test]
fn no_dma_after_disable() {
    let (mut s, _) = busy();
    s.c.ok(op::DISABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    quiet(&mut s.c);
    assert_eq!(s.c.device.pages_held(), 0);
}

#[test]
fn no_dma_after_a_function_reset() {
    let (mut s, _) = busy();
    // A command rung for is forgotten, too.
    let w = s.c.compose(&CommandHarness::input(op::ALLOC_PD, 0, &Numbered::ZERO, &[]), 16);
    s.c.put(0, &w);
    s.c.register(init_segment::DOORBELL, 1);
    let now = s.c.now;
    s.c.device.reset(&mut s.c.port, now);
    s.c.port.forbidden = true;
    s.c.settle();
    s.ring();
    s.c.register(init_segment::DOORBELL, 1);
    s.c.device.receive(&mut s.c.port, now, &[0xff; 100]);
    s.c.settle();
    s.c.port.forbidden = false;
    // And it comes up again as after power-on.
    s.c.register(init_segment::CMDQ_LO, CommandHarness::CMDQ as u32);
    s.c.bring_up();
    s.c.common();
}

// ---- the port ----

fn access<T: IntoBytes + Immutable + zerocopy::FromBytes>(
    c: &mut CommandHarness,
    r: u16,
    op_mod: u32,
    content: &T,
) -> Result<T, CmdStatus> {
    let mut m = AccessReg::ZERO;
    m.set(AccessReg::REGISTER, u32::from(r));
    let a = c.run(op::ACCESS_REG, op_mod, &m, content.as_bytes());
    match a.status {
        None => Ok(T::read_from_bytes(&a.out[16..16 + size_of::<T>()]).expect("a register")),
        Some(s) => Err(s),
    }
}

#[test]
fn the_port_goes_down_and_up_by_its_driver_and_by_its_carrier() {
    let mut c = CommandHarness::running(NIC);
    let page = c.alloc(op::ALLOC_UAR);
    let ring = CommandHarness::page(3);
    c.eq(page, 4, 0, 1 << event::PORT_CHANGE, &[ring]).number();
    let mut seen = 0;
    let mut set = |c: &mut CommandHarness, admin| {
        let mut m = Paos::ZERO;
        m.set(Paos::PORT, 1).set(Paos::ADMIN, admin);
        let m = access(c, register::PAOS, access::WRITE, &m).unwrap();
        let p: Ptys = access(c, register::PTYS, access::READ, &Ptys::ZERO).unwrap();
        let v: VportState = c.ok(op::QUERY_VPORT_STATE, 0, &Numbered::ZERO, &[]).out_as();
        let up = m.get(Paos::OPER) == paos::UP;
        assert_eq!(
            (p.get(Ptys::ETH_OPER) == ptys::CR4_100G, v.get(VportState::STATE) == 1),
            (up, up)
        );
        assert_eq!(c.device.link_is_up(), up);
        let e = c.eqe(ring, seen);
        let event = (e.owner == 0).then(|| (e.event_type, e.sub_type, e.data[2].get() >> 28));
        seen += usize::from(event.is_some());
        (up, event)
    };
    let change = |sub| Some((event::PORT_CHANGE, sub, 1));
    assert_eq!(set(&mut c, paos::UP), (true, None), "it was up");
    assert_eq!(set(&mut c, paos::DOWN), (false, change(port_change::DOWN)));
    let now = c.now;
    c.device.set_carrier(&mut c.port, now, false);
    assert_eq!(set(&mut c, paos::UP), (false, None), "nobody is there");
    c.device.set_carrier(&mut c.port, now, true);
    assert_eq!(set(&mut c, paos::UP), (true, change(port_change::ACTIVE)));
    let mut m = Paos::ZERO;
    m.set(Paos::ADMIN, 9);
    assert_eq!(access(&mut c, register::PAOS, access::WRITE, &m).unwrap_err(), CmdStatus::BadParam);
}

#[test]
fn a_port_that_is_down_sends_and_takes_nothing() {
    let mut s = Sender::new(6, &[CommandHarness::page(2)]);
    receiver(&mut s, false);
    let now = s.c.now;
    s.c.device.set_carrier(&mut s.c.port, now, false);
    assert_eq!(s.send(CommandHarness::DATA, 60), Vec::<Vec<u8>>::new());
    assert_eq!(s.cqe(0), (0, 0), "the WQE is done all the same");
    assert!(matches!(s.c.device.receive(&mut s.c.port, now, &[0xff; 100]), RxVerdict::Dropped(_)));
    s.c.device.set_carrier(&mut s.c.port, now, true);
    assert_eq!(s.send(CommandHarness::DATA, 60).len(), 1);
    assert_eq!(s.c.device.receive(&mut s.c.port, now, &[0xff; 100]), RxVerdict::Yes);
}

#[test]
fn the_mtu_is_read_back_as_it_was_written() {
    let mut c = CommandHarness::running(NIC);
    let m: Pmtu = access(&mut c, register::PMTU, access::READ, &Pmtu::ZERO).unwrap();
    assert_eq!(m.get(Pmtu::MAX), 9978);
    let mut m = Pmtu::ZERO;
    m.set(Pmtu::PORT, 1).set(Pmtu::ADMIN, 1522);
    access(&mut c, register::PMTU, access::WRITE, &m).unwrap();
    let m: Pmtu = access(&mut c, register::PMTU, access::READ, &Pmtu::ZERO).unwrap();
    assert_eq!((m.get(Pmtu::ADMIN), m.get(Pmtu::OPER)), (1522, 1522));
    let mut m = Pmtu::ZERO;
    m.set(Pmtu::ADMIN, 9979);
    assert_eq!(access(&mut c, register::PMTU, access::WRITE, &m).unwrap_err(), CmdStatus::BadParam);
}

#[test]
fn registers_that_say_nothing_echo_and_unknown_ones_are_refused() {
    let mut c = CommandHarness::running(NIC);
    let m: Pmlp = access(&mut c, register::PMLP, access::READ, &Pmlp::ZERO).unwrap();
    assert_eq!(m.get(Pmlp::WIDTH), 4);
    for r in
        [register::HOST_ENDIANNESS, register::PFCC, register::PCAM, register::MCAM, register::PPLM]
    {
        assert_eq!(access(&mut c, r, access::READ, &[7u8; 16]), Ok([7; 16]), "{r:#x}");
    }
    assert_eq!(access(&mut c, 0x4321, access::READ, &[7u8; 16]), Err(CmdStatus::BadParam));
    assert_eq!(c.device.unknown_commands()[0].modifier, 0x4321);
    assert_eq!(access(&mut c, register::PFCC, 2, &[7u8; 16]), Err(CmdStatus::BadOp));
}

fn nic_vport(c: &mut CommandHarness) -> NicVport {
    let q: QueryNicVportOut =
        c.ok(op::QUERY_NIC_VPORT_CONTEXT, 0, &QueryNicVportIn::ZERO, &[]).out_as();
    *q.part(QueryNicVportOut::CONTEXT)
}

#[test]
fn the_virtual_port_keeps_address_mtu_lists_and_modes() {
    let mut c = CommandHarness::running(NIC);
    let v = nic_vport(&mut c);
    assert_eq!((&v.0[NicVport::ADDRESS..][..6], v.get(NicVport::MTU)), (&NIC.mac[..], 1522));
    let mut m = ModifyNicVportIn::ZERO;
    m.set(
        ModifyNicVportIn::FIELDS,
        vport_field::MTU | vport_field::PROMISC | vport_field::ADDRESSES,
    );
    let x = m.part_mut(ModifyNicVportIn::CONTEXT);
    x.set(NicVport::MTU, 9022)
        .set(NicVport::PROMISC_ALL, 1)
        .set(NicVport::LIST_TYPE, list_type::MULTICAST)
        .set(NicVport::LIST_SIZE, 2);
    let list = [[0, 0, 1, 0, 0x5e, 0, 0, 1], [0, 0, 0x33, 0x33, 0, 0, 0, 1]].concat();
    c.ok(op::MODIFY_NIC_VPORT_CONTEXT, 0, &m, &list);
    let v = nic_vport(&mut c);
    assert_eq!(
        (v.get(NicVport::MTU), v.get(NicVport::PROMISC_ALL), v.get(NicVport::LIST_SIZE)),
        (9022, 1, 0)
    );
    let mut q = QueryNicVportIn::ZERO;
    q.set(QueryNicVportIn::LIST_TYPE, list_type::MULTICAST);
    let a = c.ok(op::QUERY_NIC_VPORT_CONTEXT, 0, &q, &[]);
    assert_eq!(
        a.out_as::<QueryNicVportOut>().part(QueryNicVportOut::CONTEXT).get(NicVport::LIST_SIZE),
        2
    );
    assert_eq!(a.out[0x110..0x120], list);
    m.part_mut(ModifyNicVportIn::CONTEXT).set(NicVport::LIST_SIZE, 3);
    assert_eq!(
        c.run(op::MODIFY_NIC_VPORT_CONTEXT, 0, &m, &list).status,
        Some(CmdStatus::BadInputLength)
    );
    m.part_mut(ModifyNicVportIn::CONTEXT).set(NicVport::LIST_SIZE, 0xfff);
    assert_eq!(
        c.run(op::MODIFY_NIC_VPORT_CONTEXT, 0, &m, &list).status,
        Some(CmdStatus::ExceedLimit)
    );
    m.set(ModifyNicVportIn::OTHER, 1);
    assert_eq!(
        c.run(op::MODIFY_NIC_VPORT_CONTEXT, 0, &m, &list).status,
        PARAM,
        "there is no other port"
    );
}

#[test]
fn counters_agree_with_what_went_over_the_wire() {
    let mut s = Sender::new(6, &[CommandHarness::page(2)]);
    receiver(&mut s, false);
    let set = s.c.alloc(op::ALLOC_Q_COUNTER);
    for (first, n) in [(0xff, 1), (0x01, 2), (0x02, 3)] {
        s.c.port.memory[CommandHarness::DATA as usize..][..6].fill(first);
        for _ in 0..n {
            assert_eq!(s.send(CommandHarness::DATA, 100).len(), 1);
            let now = s.c.now;
            assert_eq!(s.c.device.receive(&mut s.c.port, now, &[first; 200]), RxVerdict::Yes);
        }
    }
    s.c.settle();
    let v: VportCounters = s.c.ok(op::QUERY_VPORT_COUNTER, 0, &Numbered::ZERO, &[]).out_as();
    let tx = [VportCounters::TX_BROADCAST, VportCounters::TX_MULTICAST, VportCounters::TX_UNICAST];
    let rx = [VportCounters::RX_BROADCAST, VportCounters::RX_MULTICAST, VportCounters::RX_UNICAST];
    assert_eq!(tx.map(|f| v.quad(f)), [1, 2, 3]);
    assert_eq!(rx.map(|f| v.quad(f)), [1, 2, 3]);
    let mut m = Ppcnt::ZERO;
    m.set(Ppcnt::PORT, 1).set(Ppcnt::GROUP, ppcnt::IEEE_802_3);
    let m: Ppcnt = access(&mut s.c, register::PPCNT, access::READ, &m).unwrap();
    let counter = |i: usize| u64::from_be_bytes(m.0[8 + 8 * i..16 + 8 * i].try_into().unwrap());
    assert_eq!([counter(0), counter(1)], [6, 6], "frames sent and received");
    assert_eq!([counter(4), counter(5)], [624, 1224], "octets, FCS included");
    let octets = u64::from_be_bytes(v.0[0xa8..0xb0].try_into().unwrap());
    assert_eq!(octets, 300, "the virtual port counts without FCS");
    let mut q = QueryQCounterIn::ZERO;
    q.set(QueryQCounterIn::SET, set);
    let q: QueryQCounterOut = s.c.ok(op::QUERY_Q_COUNTER, 0, &q, &[]).out_as();
    assert_eq!(q.get(QueryQCounterOut::OUT_OF_BUFFER), 0);
}

// ---- flow tables ----

fn flow_table(
    c: &mut CommandHarness,
    level: u32,
    log_size: u32,
) -> doorbell_conformance::mlx5::Answer {
    let mut m = CreateFlowTableIn::ZERO;
    m.part_mut(CreateFlowTableIn::CONTEXT)
        .set(FlowTableContext::LEVEL, level)
        .set(FlowTableContext::LOG_SIZE, log_size);
    c.run(op::CREATE_FLOW_TABLE, 0, &m, &[])
}

/// A group that compares the destination address, or nothing.
fn flow_group(
    c: &mut CommandHarness,
    table: u32,
    start: u32,
    end: u32,
    criteria: u32,
) -> doorbell_conformance::mlx5::Answer {
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

fn fte(
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

fn set_entry(
    c: &mut CommandHarness,
    table: u32,
    group: u32,
    index: u32,
    to: &[(u32, u32)],
) -> Option<CmdStatus> {
    let (m, list) = fte(table, group, index, [0; 6], to);
    c.run(op::SET_FLOW_TABLE_ENTRY, 0, &m, &list).status
}

fn delete_entry(c: &mut CommandHarness, table: u32, index: u32) -> Option<CmdStatus> {
    let mut m = FteIn::ZERO;
    m.set(FteIn::TABLE, table).set(FteIn::INDEX, index);
    c.run(op::DELETE_FLOW_TABLE_ENTRY, 0, &m, &[]).status
}

fn destroy_group(c: &mut CommandHarness, table: u32, group: u32) -> Option<CmdStatus> {
    let mut m = FlowGroupIn::ZERO;
    m.set(FlowGroupIn::TABLE, table).set(FlowGroupIn::GROUP, group);
    c.run(op::DESTROY_FLOW_GROUP, 0, &m, &[]).status
}

fn destroy_table(c: &mut CommandHarness, table: u32) -> Option<CmdStatus> {
    let mut m = FlowTableIn::ZERO;
    m.set(FlowTableIn::TABLE, table);
    c.run(op::DESTROY_FLOW_TABLE, 0, &m, &[]).status
}

#[test]
fn entries_steer_by_address_and_are_said_again() {
    let mut s = Sender::new(6, &[CommandHarness::page(2)]);
    let message = CommandHarness::rq_message(&s.o, 4, 4, CommandHarness::DBR + 128);
    let rqn =
        s.c.ok(op::CREATE_RQ, 0, &message, &CommandHarness::pas(&[CommandHarness::page(6)]))
            .number();
    let tir = s.c.tir(&s.o, rqn, false).number();
    let (first, second) =
        (flow_table(&mut s.c, 0, 2).number(), flow_table(&mut s.c, 1, 0).number());
    let by_address = flow_group(&mut s.c, first, 0, 2, 1).number();
    let all = flow_group(&mut s.c, second, 0, 0, 0).number();
    let (m, list) = fte(first, by_address, 2, [2, 0, 0, 0, 0, 9], &[(destination::TABLE, second)]);
    s.c.ok(op::SET_FLOW_TABLE_ENTRY, 0, &m, &list);
    assert_eq!(set_entry(&mut s.c, second, all, 0, &[(destination::TIR, tir)]), None);
    let d = DataSeg {
        byte_count: U32::new(2048),
        lkey: U32::new(s.o.mkey << 8),
        addr: U64::new(CommandHarness::DATA),
    };
    s.c.port.memory[CommandHarness::page(6) as usize..][..16].copy_from_slice(d.as_bytes());
    s.c.port.memory[CommandHarness::DBR as usize + 131] = 1;
    assert_eq!(s.c.modify_rq(rqn, 0, 1), None);
    let mut frame = [[2, 0, 0, 0, 0, 8].as_slice(), &[7; 60]].concat();
    let now = s.c.now;
    assert!(matches!(
        s.c.device.receive(&mut s.c.port, now, &frame),
        RxVerdict::Dropped(doorbell_hal::DropReason::Filter)
    ));
    frame[5] = 9;
    assert_eq!(s.c.device.receive(&mut s.c.port, now, &frame), RxVerdict::Yes);
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
    assert_eq!(flow_table(&mut c, 64, 4).status, PARAM);
    let mut m = CreateFlowTableIn::ZERO;
    m.set(CreateFlowTableIn::TYPE, 4);
    assert_eq!(c.run(op::CREATE_FLOW_TABLE, 0, &m, &[]).status, PARAM, "no eswitch");
    assert_eq!(flow_group(&mut c, table, 7, 9, 0).status, PARAM, "it overlaps");
    assert_eq!(flow_group(&mut c, table, 8, 16, 0).status, PARAM, "it is longer than the table");
    assert_eq!(flow_group(&mut c, 0xff_0000, 0, 1, 0).status, BAD_RES);
    assert_eq!(set_entry(&mut c, table, group, 8, &[]), PARAM, "outside the group");
    assert_eq!(set_entry(&mut c, table, group + 1, 0, &[]), BAD_RES);
    assert_eq!(set_entry(&mut c, table, group, 0, &[(destination::TIR, 0x77_7777)]), BAD_RES);
    assert_eq!(set_entry(&mut c, table, group, 0, &[(9, 0)]), PARAM);
    let (mut m, list) = fte(table, group, 0, [0; 6], &[(destination::TABLE, table)]);
    m.part_mut(SetFteIn::CONTEXT).set(FlowContext::DESTINATIONS, 2);
    assert_eq!(
        c.run(op::SET_FLOW_TABLE_ENTRY, 0, &m, &list).status,
        Some(CmdStatus::BadInputLength)
    );
    assert_eq!(delete_entry(&mut c, table, 3), BAD_RES);
}

// ---- what an unmodified driver does ----

/// The commands of Linux 6.12 from probe to the first packet and back, in their order
/// and with their sizes: none is refused.
#[test]
fn the_sequence_of_an_unmodified_driver_is_accepted() {
    let mut c = CommandHarness::running(NIC);
    let n = |c: &mut CommandHarness, opcode| c.alloc(opcode);
    let uar = n(&mut c, op::ALLOC_UAR);
    let page = CommandHarness::page;
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
    let drop_cq = c
        .ok(
            op::CREATE_CQ,
            0,
            &CommandHarness::cq_message(&o, 0, CommandHarness::DBR),
            &CommandHarness::pas(&[page(1)]),
        )
        .number();
    let mut m = CommandHarness::rq_message(
        &Common { cq: drop_cq, pd: 0, uar: 0, ..o },
        0,
        4,
        CommandHarness::DBR,
    );
    m.part_mut(CreateRqIn::RQC).set(Rqc::COUNTER_SET, drop_set);
    let drop_rq = c.ok(op::CREATE_RQ, 0, &m, &CommandHarness::pas(&[page(2)])).number();
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
        let list: Vec<u64> = many[..1 << (log - 6)].to_vec();
        cqs.push(
            c.ok(
                op::CREATE_CQ,
                0,
                &CommandHarness::cq_message(&o, log, CommandHarness::DBR),
                &CommandHarness::pas(&list),
            )
            .number(),
        );
    }
    let mut sqs = Vec::new();
    for (i, (log, with_tis)) in
        [(6, false), (6, false), (10, true), (10, true)].into_iter().enumerate()
    {
        o.cq = cqs[i];
        let mut m = CommandHarness::sq_message(&o, log, CommandHarness::DBR);
        m.part_mut(CreateSqIn::SQC)
            .set(Sqc::TIS_LIST_SIZE, u32::from(with_tis))
            .set(Sqc::FLUSH_IN_ERROR, 1);
        let sq = c.ok(op::CREATE_SQ, 0, &m, &CommandHarness::pas(&many[..1 << (log - 6)])).number();
        assert_eq!(c.modify_sq(sq, 0, 1), None);
        sqs.push(sq);
    }
    o.cq = cqs[4];
    let mut m = CommandHarness::rq_message(&o, 10, 4, CommandHarness::DBR);
    m.part_mut(CreateRqIn::RQC)
        .set(Rqc::COUNTER_SET, set)
        .part_mut(Rqc::WQ)
        .set(Wq::END_PADDING, 1);
    let rq = c.ok(op::CREATE_RQ, 0, &m, &CommandHarness::pas(&many[..4])).number();
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

const _: () = assert!(size_of::<CreateTirIn>() == 0x80 && Mlx5::FIRST_UAR >= 4);
