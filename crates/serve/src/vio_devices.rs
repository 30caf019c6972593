//! The devices that can be served behind hypervisor calls. Each guest is a partition with one
//! adapter. All adapters are on one hypervisor, which is this process. Their network is the uplink:
//! the wire of the vNIC servers, or the network behind the switch of the logical LAN.

use super::context::{ServeContext, SharedBill};
use super::event_loop::CommandError;
use super::hcall::{Adapter, Backend, Port, serve};
use doorbell_console::Error;
use doorbell_devices::Addresses;
use doorbell_devices::veth::{self, Veth};
use doorbell_devices::vnic::{self, VnicServer};
use doorbell_hal::{Hcall, HcallDevice, Span, Time};
use doorbell_layout::{ibmveth, ibmvnic::cause, ibmvnic::hcall, ibmvnic::status};
use doorbell_papr_io::{
    DeviceCallbacks, SendQueue, Unit, VETH, VNIC, sub_crq_interrupts, unit_interrupt,
};

pub(super) struct Kind {
    /// Its description. Each partition has its own device tree, so that all adapters may have the
    /// same unit address.
    pub(super) adapter: Adapter,
    /// Serves it until a signal stops it.
    pub(super) serve: fn(Adapter, Setup, SharedBill, ServeContext) -> Result<u8, Error>,
}

/// The partitions of the hypervisor.
#[derive(Clone, Default, Debug)]
pub(super) struct Setup {
    /// Guests, each with an adapter.
    pub(super) partitions: usize,
    /// The first has the trunk of the logical LAN.
    pub(super) trunk: bool,
    /// The smallest MSS that an adapter cuts; 0: any.
    pub(super) min_lso_mss: u16,
    /// The addresses of the partitions in order; none: a guest chooses.
    pub(super) given: Vec<[u8; 6]>,
    /// A guest may change its address, to one that no other has.
    pub(super) mac_change: bool,
    /// A guest may get the frames for other addresses than its own.
    pub(super) promiscuous: bool,
}

impl Setup {
    const fn addresses(&self) -> Addresses {
        if self.mac_change { Addresses::Exclusive } else { Addresses::Fixed }
    }
}

pub(super) static KINDS: [Kind; 2] = [
    Kind {
        adapter: Adapter {
            name: "vnic",
            bits_per_second: 100_000_000_000,
            unit: Unit { address: 0x3000_0003, kind: VNIC },
            calls: &doorbell_layout::ibmvnic::CALLS,
        },
        serve: |adapter, setup, bill, c| {
            let device = vnic_device(adapter.unit.address, &setup);
            serve(adapter, device, setup.partitions, bill, c)
        },
    },
    Kind {
        adapter: Adapter {
            name: "veth",
            bits_per_second: 10_000_000_000,
            unit: Unit { address: 0x3000_0002, kind: VETH },
            calls: &ibmveth::CALLS,
        },
        serve: |adapter, setup, bill, c| {
            let device = lan_device(adapter.unit.address, &setup);
            serve(adapter, device, setup.partitions, bill, c)
        },
    },
];

// ---- vnic ----

/// Returns the servers of all partitions' adapters.
pub(super) fn vnic_device(unit: u32, setup: &Setup) -> VnicServer {
    let mut config = vnic::Config {
        unit_address: unit.into(),
        crq_vector: unit_interrupt(unit),
        first_vector: sub_crq_interrupts(unit),
        // A real failover takes seconds; clients give up after some more.
        failover: Span::from_ms(100),
        addresses: setup.addresses(),
        ..vnic::Config::POWERVM
    };
    for server in &mut config.servers {
        (server.min_lso_mss, server.promisc) = (setup.min_lso_mss, setup.promiscuous);
    }
    let mut device = VnicServer::new(config, setup.partitions);
    setup.given.iter().enumerate().for_each(|(i, mac)| device.give_address(i, *mac));
    device
}

/// Repeats a call on behalf of the hypervisor until it is not busy.
fn insist<D: HcallDevice<Port>>(
    d: &mut D,
    ports: &mut [Port],
    partition: usize,
    at: Time,
    call: u64,
    unit: u32,
) {
    let mut a = [0; 9];
    a[0] = unit.into();
    // Busy calls are bounded by the devices' settings.
    for _ in 0..10_000 {
        if d.hcall(ports, partition, at, Hcall(call), &a).0.status != status::BUSY {
            return;
        }
    }
}

impl Backend for VnicServer {
    const CALLBACKS: DeviceCallbacks<VnicServer> = DeviceCallbacks {
        queues: |d, client, each| {
            d.open_queues(client).for_each(|q| {
                each(SendQueue { handle: q.handle, buffers: q.buffers, room: q.room });
            });
        },
        has_waiting: VnicServer::has_waiting,
    };

    fn set_cable(&mut self, partitions: usize, at: Time, plugged: bool) -> bool {
        for client in 0..partitions {
            self.set_link(client, at, plugged);
        }
        true
    }

    fn let_go(&mut self, ports: &mut [Port], partition: usize, at: Time, unit: u32) {
        insist(self, ports, partition, at, hcall::FREE_CRQ, unit);
        self.release_address(partition);
    }

    fn command(&mut self, partitions: usize, at: Time, line: &str) -> Result<(), CommandError> {
        let mut words = line.split_whitespace();
        let (verb, mut rest) = (words.next().unwrap_or(""), words.collect::<Vec<_>>());
        let up = if verb == "link" { (!rest.is_empty()).then(|| rest.remove(0)) } else { None };
        let client = match rest[..] {
            [] => Some(0),
            [n] => n.parse().ok().filter(|n| *n < partitions),
            _ => None,
        };
        match (verb, up, client) {
            ("failover", None, Some(n)) => self.fail_over(n, at),
            ("migrate", None, Some(n)) => self.migrate(n, at),
            ("error", None, Some(n)) => self.report_error(n, at, cause::ADAPTER, true),
            ("link", Some("up"), Some(n)) => self.set_link(n, at, true),
            ("link", Some("down"), Some(n)) => self.set_link(n, at, false),
            _ => {
                return Err(CommandError::Unknown { line: line.to_owned(), last: partitions - 1 });
            }
        }
        Ok(())
    }
}

// ---- veth ----

/// Returns a LAN with an adapter for each partition on one VLAN. The way out is the uplink behind
/// the switch, or the trunk of a partition.
pub(super) fn lan_device(unit: u32, setup: &Setup) -> Veth {
    let adapter = |i: usize| veth::Adapter {
        unit: unit.into(),
        vector: unit_interrupt(unit),
        trunk: u8::from(setup.trunk && i == 0),
        given: setup.given.get(i).copied(),
        ..veth::Adapter::new(i, i as u8)
    };
    let mut config = veth::Config::new((0..setup.partitions).map(adapter).collect());
    config.min_lso_mss = setup.min_lso_mss;
    (config.addresses, config.learns) = (setup.addresses(), setup.promiscuous);
    config.uplink = (!setup.trunk).then_some(veth::Uplink { port: 0, pvid: 1 });
    Veth::new(config)
}

impl Backend for Veth {
    /// Nothing: the fate of a frame is known after switching only.
    const CALLBACKS: DeviceCallbacks<Veth> =
        DeviceCallbacks { queues: |_, _, _| (), has_waiting: |_, _| false };
    /// The plug-in holds the mask of interrupts; the ledger's `messages` has those that were sent.
    const UNCOUNTED: Option<&'static str> = Some("interrupts");

    /// A logical LAN has no link.
    fn set_cable(&mut self, _: usize, _: Time, _: bool) -> bool {
        false
    }

    fn let_go(&mut self, ports: &mut [Port], partition: usize, at: Time, unit: u32) {
        insist(self, ports, partition, at, ibmveth::H_FREE_LOGICAL_LAN, unit);
        self.release_addresses(partition);
    }

    fn command(&mut self, _: usize, _: Time, line: &str) -> Result<(), CommandError> {
        Err(CommandError::NoCommands { line: line.to_owned() })
    }
}

#[cfg(test)]
mod tests;
