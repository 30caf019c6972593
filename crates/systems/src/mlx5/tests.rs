use super::*;
use crate::DOORBELL;
use doorbell_bus::{Platform, ProtectionGranularity};
use doorbell_drivers::Driver;
use doorbell_hal::{Alignment, Host, Time};
use doorbell_packet::{Fragment, Packet};

/// A channel closed with a completion in flight leaves nothing in flight.
#[test]
fn nothing_arrives_after_destroy() {
    let setup = settings::setup(&DOORBELL.profile("mlx5-gen2").unwrap().all_values()).unwrap();
    let platform = Platform::new(setup.memory_base, 4 << 20, ProtectionGranularity::Byte);
    let pcie = Pcie::new(platform, Rules::new(setup.pcie).unwrap(), setup.latencies, setup.bar);
    let mut m = Machine::new(pcie, Mlx5::new(setup.nic), setup.host.costs, 1);
    let hca = Rc::new(RefCell::new(Hca::open(&mut m).unwrap()));
    let mut channel = Channel::open(&mut m, Rc::clone(&hca), &setup.driver).unwrap();
    let before = m.ledger().pcie_mwr_up;
    let p = m.buffer(64, Alignment::ANY).unwrap();
    assert!(matches!(
        channel.transmit(&mut m, Packet::linear(Fragment::whole(p)), false),
        doorbell_drivers::Tx::Ok
    ));
    // The device has written the CQE; it has not arrived.
    while m.ledger().pcie_mwr_up == before {
        m.relax();
    }
    assert!(m.bus.platform().next_arrival() < Time::NEVER);
    channel.close(&mut m);
    assert_eq!(m.bus.platform().next_arrival(), Time::NEVER);
    Rc::into_inner(hca).unwrap().into_inner().close(&mut m);
    assert_eq!(m.bus.platform().memory.mapped(), (0, 0));
}
