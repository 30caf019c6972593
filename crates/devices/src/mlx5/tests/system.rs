//! The function comes up and goes down: pages, capabilities, ISSI.

use super::*;

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

#[test]
fn pages_are_asked_for_given_and_come_back() {
    let mut c = CommandHarness::new(NIC);
    c.ok(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    assert_eq!(c.wanted(pages::BOOT), 16);
    c.give(0, 16);
    assert_eq!((c.wanted(pages::BOOT), c.wanted(pages::INIT)), (0, 32));
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
    let mut two = ManagePagesIn::ZERO;
    two.set(ManagePagesIn::ENTRIES, 2);
    let give =
        |list: &[u64]| CommandHarness::input(op::MANAGE_PAGES, pages::GIVE, &two, &pas(list));
    let no_such = CommandHarness::input(op::MANAGE_PAGES, 7, &two, &[]);
    let rows = [
        ("a list too short", give(&[0x1000]), Some(CmdStatus::BadInputLength)),
        ("a page at 0", give(&[0x1000, 0]), PARAM),
        ("a page that is not aligned", give(&[0x1000, 0x2004]), PARAM),
        ("an unknown modifier", no_such, Some(CmdStatus::BadOp)),
    ];
    answers(&mut c, rows);
    assert_eq!(c.device.pages_held(), 0);
}

#[test]
fn page_requests_are_events_both_ways() {
    let mut c = CommandHarness::running(NIC);
    let uar = c.alloc(op::ALLOC_UAR);
    let ring = page(3);
    c.eq(uar, 4, 0, 1 << event::PAGE_REQUEST, &[ring]).number();
    for (i, n) in [8i16, -8].into_iter().enumerate() {
        let now = c.now;
        c.device.request_pages(&mut c.port, now, n);
        let e = c.eqe(ring, i);
        assert_eq!(
            (e.event_type, e.data[0].get(), e.data[1].get() as i32),
            (event::PAGE_REQUEST, 0, i32::from(n))
        );
        if n > 0 {
            assert_eq!(c.wanted(pages::REGULAR), 8);
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
        let caps = Caps { min_inline, ..NIC.caps };
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
