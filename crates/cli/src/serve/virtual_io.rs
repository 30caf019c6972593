//! What can be served behind hypervisor calls: one entry a kind of adapter.
//!
//! Each guest is a partition with one adapter. All adapters are on one hypervisor, which is this
//! process, and their network is the uplink: the wire of the vNICs' servers, or what is behind the
//! logical LAN's switch.

use super::bill::Bill;
use super::calls::{Around, Port, run};
use crate::Error;
use doorbell_devices::veth::{self, Veth};
use doorbell_devices::vnic::{self, VnicServer};
use doorbell_hal::{Hcall, HcallDevice, Span, Time};
use doorbell_layout::{ibmveth, ibmvnic::cause, ibmvnic::hcall, ibmvnic::status};
use doorbell_papr_io::{Knows, PostQueue, Unit, VETH, VNIC, sub_crq_interrupts, unit_interrupt};

/// A device model that can be served so.
pub(super) trait Behind: HcallDevice<Port> + Sized {
    /// What it lets a plug-in know.
    const KNOWS: Knows<Self>;
    /// What it counted itself, of so many partitions together, by name.
    fn counters(&self, partitions: usize) -> Vec<(&'static str, u64)>;
    /// The cable is pulled, or put in.
    fn set_cable(&mut self, partitions: usize, at: Time, plugged: bool);
    /// A partition's guest has gone: what it had registered is taken back, as a hypervisor does.
    fn let_go(&mut self, ports: &mut [Port], partition: usize, at: Time, unit: u32);
    /// A line of `--control`.
    ///
    /// # Errors
    /// What is wrong with it, and what is allowed.
    fn command(&mut self, partitions: usize, at: Time, line: &str) -> Result<(), String>;
}

/// A count's name, and what it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name(pub(super) &'static str, pub(super) &'static str);

/// A kind of adapter.
#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) bits_per_second: u64,
    /// The adapter of each partition, unless another unit address is asked for. Each partition has
    /// its own device tree, so that all may have the same.
    pub(super) unit: Unit,
    /// Its calls, as they are counted.
    pub(super) calls: &'static [(u64, Name)],
    pub(super) serve: fn(&Kind, Setup, Bill, Around) -> Result<(), Error>,
}

/// What is on the hypervisor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    /// Guests, each with an adapter.
    pub(super) partitions: usize,
    /// The first has the logical LAN's trunk.
    pub(super) trunk: bool,
    /// Their adapters' unit address.
    pub(super) unit: Unit,
}

/// All of them.
pub(super) static KINDS: [Kind; 2] = [
    Kind {
        name: "vnic",
        bits_per_second: 100_000_000_000,
        unit: Unit { address: 0x3000_0003, kind: VNIC },
        calls: &VNIC_CALLS,
        serve: |kind, setup, bill, around| {
            let device = VnicServer::new(adapters(setup), setup.partitions);
            run(kind, setup.unit, device, setup.partitions, bill, around)
        },
    },
    Kind {
        name: "veth",
        bits_per_second: 10_000_000_000,
        unit: Unit { address: 0x3000_0002, kind: VETH },
        calls: &VETH_CALLS,
        serve: |kind, setup, bill, around| {
            run(kind, setup.unit, Veth::new(lan(setup)), setup.partitions, bill, around)
        },
    },
];

// ---- vnic ----

fn adapters(setup: Setup) -> vnic::Config {
    let unit = setup.unit.address;
    vnic::Config {
        unit_address: unit.into(),
        crq_vector: unit_interrupt(unit),
        first_vector: sub_crq_interrupts(unit),
        // A failover takes seconds in life; a client gives up after some more.
        failover: Span::from_ms(100),
        ..vnic::Config::POWERVM
    }
}

const VNIC_CALLS: [(u64, Name); 11] = [
    (hcall::REG_CRQ, Name("hcall_reg_crq", "H_REG_CRQ.")),
    (hcall::FREE_CRQ, Name("hcall_free_crq", "H_FREE_CRQ.")),
    (hcall::ENABLE_CRQ, Name("hcall_enable_crq", "H_ENABLE_CRQ.")),
    (hcall::SEND_CRQ, Name("hcall_send_crq", "H_SEND_CRQ.")),
    (hcall::VIO_SIGNAL, Name("hcall_vio_signal", "H_VIO_SIGNAL.")),
    (hcall::VIOCTL, Name("hcall_vioctl", "H_VIOCTL.")),
    (hcall::REG_SUB_CRQ, Name("hcall_reg_sub_crq", "H_REG_SUB_CRQ.")),
    (hcall::FREE_SUB_CRQ, Name("hcall_free_sub_crq", "H_FREE_SUB_CRQ.")),
    (hcall::SEND_SUB_CRQ, Name("hcall_send_sub_crq", "H_SEND_SUB_CRQ: the direct path.")),
    (hcall::SEND_SUB_CRQ_INDIRECT, Name("hcall_send_sub_crq_indirect", "H_SEND_SUB_CRQ_INDIRECT.")),
    (hcall::EOI, Name("hcall_eoi", "H_EOI.")),
];

/// Calls of a hypervisor's own until one is not busy.
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

impl Behind for VnicServer {
    const KNOWS: Knows<VnicServer> = Knows {
        queues: |d, client, each| {
            d.open_queues(client).for_each(|q| {
                each(PostQueue { handle: q.handle, buffers: q.buffers, room: q.room });
            });
        },
        waits: VnicServer::has_waiting,
    };

    fn counters(&self, _: usize) -> Vec<(&'static str, u64)> {
        self.counters.entries().collect()
    }

    fn set_cable(&mut self, partitions: usize, at: Time, plugged: bool) {
        for client in 0..partitions {
            self.set_link(client, at, plugged);
        }
    }

    fn let_go(&mut self, ports: &mut [Port], partition: usize, at: Time, unit: u32) {
        insist(self, ports, partition, at, hcall::FREE_CRQ, unit);
    }

    fn command(&mut self, partitions: usize, at: Time, line: &str) -> Result<(), String> {
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
                return Err(format!(
                    "`{line}` is no command; there are failover, migrate, error, link up and link down, each with a \
                     partition's number behind it if it is not 0, up to {}",
                    partitions - 1
                ));
            }
        }
        Ok(())
    }
}

// ---- veth ----

const VETH_CALLS: [(u64, Name); 10] = [
    (ibmveth::H_REGISTER_LOGICAL_LAN, Name("hcall_register", "H_REGISTER_LOGICAL_LAN.")),
    (ibmveth::H_FREE_LOGICAL_LAN, Name("hcall_free", "H_FREE_LOGICAL_LAN.")),
    (ibmveth::H_ADD_LOGICAL_LAN_BUFFER, Name("hcall_add_buffer", "H_ADD_LOGICAL_LAN_BUFFER.")),
    (ibmveth::H_ADD_LOGICAL_LAN_BUFFERS, Name("hcall_add_buffers", "H_ADD_LOGICAL_LAN_BUFFERS.")),
    (ibmveth::H_FREE_LOGICAL_LAN_BUFFER, Name("hcall_free_buffer", "H_FREE_LOGICAL_LAN_BUFFER.")),
    (ibmveth::H_SEND_LOGICAL_LAN, Name("hcall_send", "H_SEND_LOGICAL_LAN.")),
    (ibmveth::H_MULTICAST_CTRL, Name("hcall_multicast", "H_MULTICAST_CTRL.")),
    (ibmveth::H_CHANGE_LOGICAL_LAN_MAC, Name("hcall_change_mac", "H_CHANGE_LOGICAL_LAN_MAC.")),
    (ibmveth::H_ILLAN_ATTRIBUTES, Name("hcall_attributes", "H_ILLAN_ATTRIBUTES.")),
    (ibmveth::H_VIO_SIGNAL, Name("hcall_vio_signal", "H_VIO_SIGNAL.")),
];

/// An adapter for each partition, on one VLAN; the way out is the uplink behind the switch, or a
/// partition's trunk.
fn lan(setup: Setup) -> veth::Config {
    let adapter = |i: usize| veth::Adapter {
        unit: setup.unit.address.into(),
        vector: unit_interrupt(setup.unit.address),
        trunk: u8::from(setup.trunk && i == 0),
        ..veth::Adapter::new(i, i as u8)
    };
    let mut config = veth::Config::new((0..setup.partitions).map(adapter).collect());
    config.uplink = (!setup.trunk).then_some(veth::Uplink { port: 0, pvid: 1 });
    config
}

impl Behind for Veth {
    /// Nothing: what becomes of a frame is known when it has been switched.
    const KNOWS: Knows<Veth> = Knows { queues: |_, _, _| (), waits: |_, _| false };

    fn counters(&self, partitions: usize) -> Vec<(&'static str, u64)> {
        let mut all: Vec<(&'static str, u64)> = Veth::counters(self, 0).entries().collect();
        for i in 1..partitions {
            for (sum, (_, v)) in all.iter_mut().zip(Veth::counters(self, i).entries()) {
                sum.1 += v;
            }
        }
        // The mask is not the device's here, and it cannot know which of them were sent: the
        // ledger's `messages` are.
        all.retain(|(name, _)| *name != "interrupts");
        all.push(("strangers", self.strangers()));
        all
    }

    /// A logical LAN has no link.
    fn set_cable(&mut self, _: usize, _: Time, _: bool) {}

    fn let_go(&mut self, ports: &mut [Port], partition: usize, at: Time, unit: u32) {
        insist(self, ports, partition, at, ibmveth::H_FREE_LOGICAL_LAN, unit);
    }

    fn command(&mut self, _: usize, _: Time, line: &str) -> Result<(), String> {
        Err(format!("`{line}`: a logical LAN has no commands"))
    }
}

#[cfg(test)]
mod tests;
