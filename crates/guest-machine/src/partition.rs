//! A partition of a POWER machine: the hypervisor's prices, and the machine whose CPU makes the
//! calls.
//!
//! Calls for translation entries are the guest's own, and are made here. All others are the
//! device's. What a call costs is the laboratory's: its price, and what the device does meanwhile.

use crate::board::{Board, Counted, NO_SLOT};
use crate::fields::{Pass, fields};
use crate::peer::OtherEnd;
use crate::plan::{Card, Plan, PlanError, Slot};
use doorbell_bus::tce::{Prices, Table, Window, Written};
use doorbell_bus::{
    Bus, CallPrice, Costs, Each, HypervisorDevice, HypervisorPort, Machine, Mapping, Memory,
    Partitions, Platform, ProtectionGranularity,
};
use doorbell_devices::veth::{self, Veth};
use doorbell_devices::vnic::{self, VnicServer};
use doorbell_hal::{Hcall, HcallDevice, HcallReturn, Host, Hypervisor as _, Iova, Span, Time};
use doorbell_layout::ibmvnic::status::{PARAMETER, SUCCESS};
use doorbell_layout::ibmvnic::{MAX_INDIRECT, hcall};
use doorbell_layout::{Call, ibmveth, ibmvnic};
use doorbell_sim::link::{SharedWire, Wired};
use memmap2::MmapMut;

/// Calls for translation entries (PAPR 14.5.4.2).
const H_GET_TCE: u64 = 0x1c;
const H_PUT_TCE: u64 = 0x20;
const H_STUFF_TCE: u64 = 0x138;
const H_PUT_TCE_INDIRECT: u64 = 0x13c;
/// Bytes of a page, and the most entries of a call, a page of them.
const PAGE: u64 = 4096;
const LIST: u64 = 512;
/// The most sub-CRQs of a virtual NIC.
const SUB_CRQS: u16 = 64;
/// The argument of an array of descriptors that counts them.
const COUNT: usize = 3;

/// The hypervisor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hypervisor {
    /// Price of a call that has none of its own.
    pub call: Span,
    /// Prices of the adapter's calls, in the order of its layout.
    pub calls: Vec<(Hcall, CallPrice)>,
    /// Price of a KiB copied between partitions.
    pub copy: Span,
    /// The translation window.
    pub window: Window,
}

impl Hypervisor {
    /// Creates one that works for nothing.
    pub(crate) fn free(calls: &[Call]) -> Hypervisor {
        let price = |c: &Call| {
            let mut price = CallPrice::default();
            if c.number == hcall::SEND_SUB_CRQ_INDIRECT {
                price.each = Each { argument: COUNT, most: MAX_INDIRECT, price: Span::ZERO };
            }
            (Hcall(c.number), price)
        };
        Hypervisor {
            call: Span::ZERO,
            calls: calls.iter().map(price).collect(),
            copy: Span::ZERO,
            window: Window { base: 0, pages: 0, multi: true, prices: Prices::default() },
        }
    }

    /// Handles every number.
    pub(crate) fn pass(&mut self, calls: &[Call], to: &mut impl Pass) {
        to.field("hypervisor.call", &mut self.call);
        to.field("hypervisor.copy", &mut self.copy);
        for (c, (_, price)) in calls.iter().zip(&mut self.calls) {
            to.field(c.price, &mut price.fixed);
            match c.number {
                hcall::SEND_SUB_CRQ_INDIRECT => {
                    to.field("hcall.indirect_descriptor", &mut price.each.price);
                }
                ibmveth::H_SEND_LOGICAL_LAN => to.field("hcall.send_serial", &mut price.serial),
                _ => {}
            }
        }
        let Window { pages, prices, .. } = &mut self.window;
        to.field("tce.pages", pages);
        to.field("tce.put", &mut prices.put);
        to.field("tce.put_indirect", &mut prices.put_indirect);
        to.field("tce.stuff", &mut prices.stuff);
        to.field("tce.entry", &mut prices.entry);
    }
}

/// An adapter behind hypervisor calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Adapter {
    /// A virtual NIC, with the same server twice.
    Vnic(vnic::Config),
    /// The only adapter of a logical LAN with a network behind its switch.
    Veth(veth::Config),
}

impl Adapter {
    /// Returns its calls.
    pub fn calls(&self) -> &'static [Call] {
        match self {
            Adapter::Vnic(_) => &ibmvnic::CALLS,
            Adapter::Veth(_) => &ibmveth::CALLS,
        }
    }

    /// Returns its unit address.
    pub fn unit(&self) -> u64 {
        match self {
            Adapter::Vnic(nic) => nic.unit_address,
            Adapter::Veth(lan) => lan.adapters[0].unit,
        }
    }

    /// Returns its interrupts: its own, and those of a virtual NIC's sub-CRQs.
    pub fn interrupts(&self) -> Vec<u16> {
        match self {
            Adapter::Vnic(nic) => {
                let first = nic.first_vector;
                let sub_crqs = first..first.saturating_add(SUB_CRQS);
                [nic.crq_vector].into_iter().chain(sub_crqs).collect()
            }
            Adapter::Veth(lan) => vec![lan.adapters[0].vector],
        }
    }

    /// Returns true if it answers a call whose first argument is its unit.
    pub fn answers(&self, call: u64) -> bool {
        // The end of an interrupt is told to the interrupt controller, which is not the adapter's.
        is_translation(call) || call != hcall::EOI && self.calls().iter().any(|c| c.number == call)
    }

    /// Handles every number.
    pub(crate) fn pass(&mut self, to: &mut impl Pass) {
        match self {
            Adapter::Vnic(nic) => vnic_numbers(nic, to),
            Adapter::Veth(lan) => veth_numbers(lan, to),
        }
    }
}

/// Returns a logical LAN with one adapter, and a network right behind the switch.
pub(crate) fn alone() -> veth::Config {
    let uplink = Some(veth::Uplink { port: 0, pvid: 1 });
    veth::Config { uplink, ..veth::Config::new(vec![veth::Adapter::new(0, 0)]) }
}

fn vnic_numbers(nic: &mut vnic::Config, to: &mut impl Pass) {
    fields!(to, "nic.", nic: unit_address mac crq_vector first_vector command completion_wait);
    fields!(to, "nic.", nic: wire_byte);
    let [server, other] = &mut nic.servers;
    fields!(to, "nic.", server: desc_req backing_needs_headers);
    *other = *server;
    let serial = &mut nic.serial;
    fields!(to, "serial.", serial: direct indirect descriptor header_byte receive);
}

fn veth_numbers(lan: &mut veth::Config, to: &mut impl Pass) {
    fields!(to, "hypervisor.", lan: slice sum_per_kib interrupt);
    let adapter = &mut lan.adapters[0];
    fields!(to, "nic.", adapter: unit mac vector options);
}

/// Returns true for a call that reads or writes translation entries.
fn is_translation(call: u64) -> bool {
    matches!(call, H_GET_TCE | H_PUT_TCE | H_STUFF_TCE | H_PUT_TCE_INDIRECT)
}

impl<B: Bus> Counted<Partitions<B>> for HypervisorDevice<VnicServer> {
    fn calls(bus: &Partitions<B>) -> Vec<(&'static str, u64)> {
        made(bus, &ibmvnic::CALLS)
    }

    fn plug(&mut self, _: &mut Partitions<B>, now: Time, plugged: bool) {
        self.0.set_link(0, now, plugged);
    }
}

impl<B: Bus> Counted<Partitions<B>> for HypervisorDevice<Veth> {
    fn calls(bus: &Partitions<B>) -> Vec<(&'static str, u64)> {
        made(bus, &ibmveth::CALLS)
    }
}

/// Returns how often each of `calls` was made.
fn made<B: Bus>(bus: &Partitions<B>, calls: &[Call]) -> Vec<(&'static str, u64)> {
    let times =
        |number| bus.calls().iter().find(|c| c.call == Hcall(number)).map_or(0, |c| c.times);
    calls.iter().map(|c| (c.name, times(c.number))).collect()
}

/// A machine whose CPU makes hypervisor calls.
pub trait Partition: Board {
    /// Makes a call of the adapter's unit, which the adapter answers ([`Adapter::answers`]).
    fn call(&mut self, call: u64, a: &[u64; 9]) -> HcallReturn;
}

type Port = HypervisorPort<SharedWire>;

impl<D> Partition for Machine<Partitions<Port>, Wired<HypervisorDevice<D>, OtherEnd>>
where
    D: HcallDevice<Port>,
    HypervisorDevice<D>: Counted<Partitions<Port>>,
{
    fn call(&mut self, call: u64, a: &[u64; 9]) -> HcallReturn {
        if !is_translation(call) {
            return self.hcall(Hcall(call), a);
        }
        let platform = self.bus.platform_mut();
        let (answer, took) = translate(platform, call, a);
        self.delay(took);
        answer
    }
}

/// Reads or writes translation entries. Returns the answer, and the time that it takes.
fn translate(platform: &mut Platform, call: u64, a: &[u64; 9]) -> (HcallReturn, Span) {
    let refused = (HcallReturn::status(PARAMETER), Span::ZERO);
    let (at, value, count) = (a[1], a[2], a[3]);
    let (entries, by) = match call {
        H_GET_TCE => {
            let Some(entry) = platform.translation_entry(at) else { return refused };
            let mut answer = HcallReturn::status(SUCCESS);
            answer.ret[0] = entry;
            return (answer, Span::ZERO);
        }
        H_PUT_TCE => (vec![value], Written::Put),
        _ if count > LIST => return refused,
        H_STUFF_TCE => (vec![value; count as usize], Written::Stuffed),
        _ => {
            let mut list = [[0; 8]; LIST as usize];
            let read = platform.memory.hypervisor_read(Iova(value), list.as_flattened_mut());
            if !value.is_multiple_of(PAGE) || read.is_err() {
                return refused;
            }
            let list = list[..count as usize].iter();
            (list.map(|word| u64::from_be_bytes(*word)).collect(), Written::List)
        }
    };
    match platform.write_entries(at, &entries, by) {
        Some(took) => (HcallReturn::status(SUCCESS), took),
        None => refused,
    }
}

impl Plan {
    /// Builds the machine of an adapter over a guest's memory, which begins at address 0.
    ///
    /// # Errors
    /// The plan has no adapter behind a hypervisor.
    pub fn partition(&self, memory: MmapMut) -> Result<Box<dyn Partition>, PlanError> {
        let (Card::Adapter(adapter), Slot::Hypervisor(hypervisor)) = (&self.card, &self.slot)
        else {
            return Err(PlanError::of(NO_SLOT));
        };
        let table = Mapping::Tce(Box::new(Table::new(hypervisor.window)));
        let vectors = adapter.interrupts().into_iter().max().unwrap_or(0).saturating_add(1);
        let platform = Platform::new(0, 0, ProtectionGranularity::Page);
        let mut platform = platform.with_mapping(table).with_vectors(vectors);
        platform.memory = Memory::of_guest(0, memory);
        // A copy is a read and a write.
        let port = HypervisorPort::new(platform, Span::from_ps(hypervisor.copy.ps() / 2));
        let mut bus = Partitions::new(vec![port], vec![0], hypervisor.call);
        hypervisor.calls.iter().for_each(|(call, price)| bus.price(*call, *price));
        Ok(match adapter {
            Adapter::Vnic(nic) => self.hosted(bus, VnicServer::new(*nic, 1), nic.mac),
            Adapter::Veth(lan) => self.hosted(bus, Veth::new(lan.clone()), lan.adapters[0].mac),
        })
    }

    fn hosted<D>(
        &self,
        bus: Partitions<HypervisorPort>,
        device: D,
        mac: [u8; 6],
    ) -> Box<dyn Partition>
    where
        D: HcallDevice<Port> + 'static,
        HypervisorDevice<D>: Counted<Partitions<Port>>,
    {
        let peer = OtherEnd::new(mac, self);
        let device = HypervisorDevice(device);
        let (bus, device) = Wired::new(bus, device, peer, (self.rate, self.delay));
        Box::new(Machine::new(bus, device, Costs::FREE, 1))
    }
}

#[cfg(test)]
mod tests;
