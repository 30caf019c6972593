use super::super::{bill::Bill, uplink::Uplink};
use super::*;
use doorbell_bus::Meter;
use std::{cell::RefCell, rc::Rc};

#[test]
fn a_command_is_a_verb_and_a_partition() {
    let mut d = VnicServer::new(vnic::Config::POWERVM, 2);
    let mut said = |line| Backend::command(&mut d, 2, Time::ZERO, line);
    for line in ["failover", "failover 1", " migrate  0 ", "error 1", "link up", "link down 1"] {
        assert_eq!(said(line), Ok(()), "{line}");
    }
    for line in [
        "",
        "failover 2",
        "failover 0 1",
        "failover x",
        "link",
        "link 1",
        "link sideways",
        "fail",
        "migrate up",
    ] {
        let why = said(line).expect_err(line).to_string();
        assert!(why.starts_with(&format!("`{line}` is not a command; there are failover, ")));
    }
}

#[test]
fn an_address_of_the_lan_belongs_to_the_guest_that_took_it() {
    let setup = Setup { partitions: 2, ..Setup::default() };
    let uplink = Uplink::open("none").expect("no uplink");
    let bill: SharedBill = Rc::new(RefCell::new(Bill::new(Meter::Hypervisor, uplink, None, None)));
    let mut ports: Vec<Port> = (0..2).map(|_| Port::new(bill.clone())).collect();
    let unit = 0x3000_0002;
    let change = |d: &mut Veth, ports: &mut [Port], partition, mac| {
        let a = [unit.into(), mac, 0, 0, 0, 0, 0, 0, 0];
        let call = Hcall(ibmveth::H_CHANGE_LOGICAL_LAN_MAC);
        d.hcall(ports, partition, Time::ZERO, call, &a).0.status
    };
    let mut d = lan_device(unit, &setup);
    assert_eq!(change(&mut d, &mut ports, 0, 0x0200_0000_0001), status::SUCCESS);
    assert_ne!(change(&mut d, &mut ports, 1, 0x0200_0000_0001), status::SUCCESS, "another's");
    assert_ne!(change(&mut d, &mut ports, 0, 0x0200_0000_0002), status::SUCCESS, "a second one");
    Backend::let_go(&mut d, &mut ports, 0, Time::ZERO, unit);
    assert_eq!(change(&mut d, &mut ports, 1, 0x0200_0000_0001), status::SUCCESS);
}
