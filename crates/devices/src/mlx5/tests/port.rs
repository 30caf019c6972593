//! The port and its registers, and the virtual port.

use super::*;

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
    let uar = c.alloc(op::ALLOC_UAR);
    let ring = page(3);
    c.eq(uar, 4, 0, 1 << event::PORT_CHANGE, &[ring]).number();
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
    let mut s = Sender::new(6, &[page(2)]);
    receiver(&mut s, false);
    let now = s.c.now;
    s.c.device.set_carrier(&mut s.c.port, now, false);
    assert_eq!(s.send(DATA, 60), Vec::<Vec<u8>>::new());
    assert_eq!(s.cqe(0), (0, 0), "the WQE is done all the same");
    assert!(matches!(s.c.receive(&[0xff; 100]), RxVerdict::Dropped(_)));
    s.c.device.set_carrier(&mut s.c.port, now, true);
    assert_eq!(s.send(DATA, 60).len(), 1);
    assert_eq!(s.c.receive(&[0xff; 100]), RxVerdict::Yes);
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
    let mut s = Sender::new(6, &[page(2)]);
    receiver(&mut s, false);
    let set = s.c.alloc(op::ALLOC_Q_COUNTER);
    for (first, n) in [(0xff, 1), (0x01, 2), (0x02, 3)] {
        s.c.port.memory[DATA as usize..][..6].fill(first);
        for _ in 0..n {
            assert_eq!(s.send(DATA, 100).len(), 1);
            assert_eq!(s.c.receive(&[first; 200]), RxVerdict::Yes);
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
