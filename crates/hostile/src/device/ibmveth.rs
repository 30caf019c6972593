//! The ibmveth driver under a hypervisor that lies: both ways to send, buffers behind one page or
//! in pools.

use super::{Desk, Seen, Subject};
use crate::fuzz::Seed;
use doorbell_bus::{Costs, HypervisorDevice, HypervisorPort, Machine, Partitions};
use doorbell_devices::veth::{self as device, Adapter, Uplink, Veth};
use doorbell_drivers::ibmveth::{Config, Ibmveth, LargeSend, Transmit};
use doorbell_drivers::{Alarm, Driver, Filter, OpenError};
use doorbell_hal::Span;
use doorbell_testkit::Hostile;

type System = Machine<Partitions<HypervisorPort>, HypervisorDevice<Veth>>;

fn config(shape: u8) -> Config {
    let adapter = Adapter::new(0, 0);
    let mut c = Config {
        vector: adapter.vector,
        transmit: if shape & 1 == 0 { Transmit::Copy } else { Transmit::Map { copybreak: 128 } },
        large_send: [LargeSend::Firmware, LargeSend::Old, LargeSend::Off]
            [usize::from(shape >> 1 & 3) % 3],
        rx_copybreak: if shape & 8 == 0 { 128 } else { 0 },
        ..Config::new(adapter.unit as u32, adapter.mac)
    };
    // Few and short buffers: each byte that is mapped costs time, three times an input at least.
    let pools = [(512, 8), (2 << 10, 8), (10 << 10, 4), (12 << 10, 4), (16 << 10, 4)];
    for (p, (size, count)) in c.pools.iter_mut().zip(pools) {
        (p.size, p.count) = (size, count);
    }
    c
}

impl Subject<System> for Ibmveth {
    fn machine(shape: u8) -> System {
        let cfg = device::Config {
            uplink: Some(Uplink { port: 0, pvid: 1 }),
            max_buffers: if shape & 0x10 == 0 { 509 } else { 4096 },
            slice: if shape & 0x20 == 0 { u32::MAX } else { 1024 },
            ..device::Config::new(vec![Adapter::new(0, 0)])
        };
        let ports = vec![doorbell_conformance::partition(1 << 20)];
        let partitions = Partitions::new(ports, vec![0], Span::from_ns(600));
        let device = HypervisorDevice(Veth::new(cfg));
        let mut h = Machine::new(partitions, device, Costs::FREE, 1);
        doorbell_bus::Bus::sink_mut(&mut h.bus).start();
        h
    }
    fn open_on(h: &mut Hostile<System>, shape: u8) -> Result<Ibmveth, OpenError> {
        Ibmveth::open(h, &config(shape))
    }
    fn shut(self, h: &mut Hostile<System>) {
        self.close(h);
    }
    fn reset(&mut self, h: &mut Hostile<System>) -> Result<(), OpenError> {
        self.alarm(h, Alarm::IoError);
        self.set_mac(h, config(0).mac)?;
        self.set_filter(h, &Filter::default())
    }
    fn change(&mut self, h: &mut Hostile<System>, what: u8) {
        // A hypervisor may refuse any of it.
        _ = match what % 5 {
            0 => self.set_filter(h, &Filter { all_multicast: true, ..Filter::default() }),
            1 => self.set_filter(h, &super::groups(what)),
            2 => self.set_mtu(h, if what & 8 == 0 { 1500 } else { 9000 }),
            3 => self.set_offloads(h, what & 8 != 0, LargeSend::Firmware).map(drop),
            _ => self.set_mac(h, [2, 0, 0, 0, 0, what]),
        };
    }
    fn reclaim(&mut self, h: &mut Hostile<System>, up: &mut Desk) {
        Ibmveth::reclaim(self, h, up);
    }
    fn station(&self) -> Option<[u8; 6]> {
        Some(self.config().mac)
    }
    fn check(&self, seen: &Seen) {
        let s = self.stats();
        assert_eq!((s.rx_packets, s.rx_bytes), (seen.received, seen.received_bytes));
        assert!(s.tx_loopback <= seen.taken + seen.refused);
        assert_eq!(seen.returned, seen.taken, "each send ends in its call");
    }
    fn settling() -> Span {
        Span::from_us(10)
    }
}

/// Attacks the driver as `bytes` say.
pub fn attack(bytes: &[u8]) -> Seen {
    super::attack::<System, Ibmveth>(bytes)
}

/// Checks that its filter outlives its own resets.
pub fn keeps_its_filter() {
    super::keeps_its_filter::<System, Ibmveth>();
}

/// Returns its seeds.
pub fn seeds() -> Vec<Seed> {
    super::seeds([0, 0x3b])
}
