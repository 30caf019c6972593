use super::*;
use crate::key::Key;
use doorbell_bus::{Costs, HypervisorDevice};
use doorbell_devices::veth::{Adapter, Config, Uplink, Veth};
use doorbell_drivers::ibmveth::{Config as Settings, Ibmveth};
use doorbell_drivers::{Driver, Tx};
use doorbell_hal::{Alignment, EventSource, Host, Hypervisor, Time};
use doorbell_layout::ibmveth::{CALLS, H_SEND_LOGICAL_LAN, H_VIO_SIGNAL};
use doorbell_packet::{Fragment, Packet};
use doorbell_sim::link::Peer;

static PRICES: [Key; 2] = [Key::ns("hcall.send", ""), Key::ns("hcall.send_serial", "")];

#[derive(Debug, Default)]
struct Far(Vec<(Time, usize)>);
impl EventSource for Far {
    fn next_due(&self) -> Option<Time> {
        None
    }
}
impl Peer for Far {
    fn receive(&mut self, at: Time, frame: &[u8], _: &mut doorbell_sim::link::Wire) {
        self.0.push((at, frame.len()));
    }
    fn advance(&mut self, _: Time, _: &mut doorbell_sim::link::Wire) {}
}

/// Two partitions, each with a core, on one LAN with a wire of 1 Gbit/s.
fn hosted(sets: &[&str]) -> (Hosted<HypervisorDevice<Veth>, Far>, [Adapter; 2]) {
    let keys: Vec<&'static Key> = Keys::KEYS.iter().chain(&PRICES).collect();
    let mut v = Values::defaults(&keys);
    sets.iter().for_each(|s| v.set(s).unwrap());
    let mut p = Papr::of(&v, &CALLS);
    p.price_mut(H_SEND_LOGICAL_LAN).unwrap().serial = span(&v, "hcall.send_serial");
    let adapters = [Adapter::new(0, 0), Adapter::new(1, 1)];
    let lan =
        Config { uplink: Some(Uplink { port: 0, pvid: 1 }), ..Config::new(adapters.to_vec()) };
    let partitions = p.partitions(&[48 << 20; 2], vec![0, 1], ProtectionGranularity::Byte).unwrap();
    let link = (1_000_000_000, Span::from_us(5));
    let (partitions, device) =
        Wired::new(partitions, HypervisorDevice(Veth::new(lan)), Far::default(), link);
    (Machine::new(partitions, device, Costs::FREE, 2), adapters)
}

#[test]
fn a_call_costs_what_its_kind_does_and_frames_reach_the_wire() {
    let sets = [
        "hypervisor.call=100",
        "hcall.send=400",
        "hypervisor.copy=1024",
        "tce.put=50",
        "tce.stuff=60",
    ];
    let (mut m, [a, _]) = hosted(&sets);
    let mut driver = Ibmveth::open(&mut m, &Settings::new(a.unit as u32, a.mac)).unwrap();
    let b = m.buffer(1000, Alignment::ANY).unwrap();
    let to = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
    m.bytes_mut(&b, 0..12, |f| f.copy_from_slice(&to));
    let before = m.now();
    assert_eq!(driver.transmit(&mut m, Packet::linear(Fragment::whole(b)), false), Tx::Ok);
    // The call, what a send does, and the gathering of 1000 bytes at 0.5 ns each.
    assert_eq!(m.now().since(before), Span::from_ns(100 + 400 + 500));
    assert_eq!(made(&m.bus, &CALLS)[0], ("hcall_send", 1));
    driver.close(&mut m);
    while m.next_event() < Time::NEVER {
        m.run_device(m.next_event());
    }
    assert_eq!(m.device.peer.0.iter().map(|f| f.1).collect::<Vec<_>>(), [1000]);
    assert_eq!(audit(&m.bus, None).wrong, Vec::<String>::new());
    assert!(m.bus.ledger().tce_hcalls > 0);
}

#[test]
fn calls_of_two_partitions_wait_for_each_other_where_they_are_serial() {
    let (mut m, [a, b]) = hosted(&["hypervisor.call=100", "hcall.send_serial=1000"]);
    let call = |m: &mut Hosted<HypervisorDevice<Veth>, Far>, core: usize, unit: u64, n: u64| {
        m.enter(core);
        m.hcall(Hcall(n), &[unit]);
        m.now().since(Time::ZERO).ps() / 1000
    };
    assert_eq!(call(&mut m, 0, a.unit, H_SEND_LOGICAL_LAN), 1100);
    assert_eq!(call(&mut m, 1, b.unit, H_SEND_LOGICAL_LAN), 2100, "after the other's");
    assert_eq!(
        call(&mut m, 1, b.unit, H_VIO_SIGNAL),
        2200,
        "one that is not serial waits for nobody"
    );
    assert_eq!(m.bus.held(), Span::from_ns(2000));
}
