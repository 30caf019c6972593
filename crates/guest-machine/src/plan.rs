//! The numbers of a machine, and their text.

use crate::fields::{Number, Pass, fields};
use crate::partition::{self, Adapter, Hypervisor};
use doorbell_bus::{axi, pci, pcie};
use doorbell_devices::{axi_ethernet, e1000, mlx5, vnic};
use doorbell_hal::Span;
use doorbell_layout::Call;
use doorbell_sim::traffic::Frames as Captured;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// A machine of the laboratory without CPU and memory, which are the guest's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The device.
    pub card: Card,
    /// Its slot.
    pub slot: Slot,
    /// Rate of the link in bits a second.
    pub rate: u64,
    /// Delay of the link, one way.
    pub delay: Span,
    /// IP addresses of the guest and of the host at the other end.
    pub addresses: [Ipv4Addr; 2],
    /// The frames of a capture, which a workload may ask for.
    pub captured: Arc<Captured>,
}

/// A device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Card {
    /// An 8254x.
    E1000(e1000::Config),
    /// A ConnectX.
    Mlx5(mlx5::Config),
    /// An AXI Ethernet behind RP1's bridge, and the address that its guest gives it.
    Axi(axi_ethernet::Config, [u8; 6]),
    /// An adapter behind hypervisor calls, which is no card.
    Adapter(Adapter),
}

/// The slot of a card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Conventional PCI or PCI-X.
    Parallel(pci::Settings, pci::Latencies),
    /// PCI Express.
    Express(pcie::Settings, pcie::Latencies),
    /// An AXI bus.
    Axi(axi::Settings, axi::Latencies),
    /// None: the hypervisor has the adapter.
    Hypervisor(Hypervisor),
}

/// A text that is not of a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlanError(String);

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PlanError {}

impl PlanError {
    pub(crate) fn of(why: impl fmt::Display) -> PlanError {
        PlanError(why.to_string())
    }
}

/// The word in front of a captured frame: picoseconds after the first, and its bytes.
const FRAME: &str = "frame";

/// Reads a captured frame.
fn frame_of(text: &str) -> Option<(Span, Vec<u8>)> {
    let (after, bytes) = text.trim().split_once(' ')?;
    let (pairs, rest) = bytes.as_bytes().as_chunks::<2>();
    let digit = |c: u8| (c as char).to_digit(16);
    let byte = |pair: &[u8; 2]| Some((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    let bytes = pairs.iter().map(byte).collect::<Option<_>>().filter(|_| rest.is_empty())?;
    Some((Span::from_ps(after.parse().ok()?), bytes))
}

impl Card {
    /// Returns its number, which says what numbers follow.
    fn kind(&self) -> u8 {
        match self {
            Card::E1000(_) => 0,
            Card::Mlx5(_) => 1,
            Card::Adapter(Adapter::Vnic(_)) => 2,
            Card::Adapter(Adapter::Veth(_)) => 3,
            Card::Axi(..) => 4,
        }
    }

    fn of_kind(kind: u8) -> Option<Card> {
        Some(match kind {
            0 => Card::E1000(e1000::Config::I82540EM),
            1 => Card::Mlx5(mlx5::Config::CONNECTX),
            2 => Card::Adapter(Adapter::Vnic(vnic::Config::POWERVM)),
            3 => Card::Adapter(Adapter::Veth(partition::alone())),
            4 => Card::Axi(axi_ethernet::Config::ZYNQMP, [0; 6]),
            _ => return None,
        })
    }

    /// Returns its hypervisor calls.
    fn calls(&self) -> &'static [Call] {
        match self {
            Card::Adapter(adapter) => adapter.calls(),
            _ => &[],
        }
    }
}

impl Slot {
    /// Returns its number, which says what numbers follow.
    fn kind(&self) -> u8 {
        match self {
            Slot::Parallel(..) => 0,
            Slot::Express(..) => 1,
            Slot::Hypervisor(_) => 2,
            Slot::Axi(..) => 3,
        }
    }

    fn of_kind(kind: u8, calls: &[Call]) -> Option<Slot> {
        let none = Span::ZERO;
        Some(match kind {
            0 => Slot::Parallel(
                pci::Settings::POWER4,
                pci::Latencies { cpu: none, memory: none, register: none },
            ),
            1 => Slot::Express(
                pcie::Settings::link(1, 1),
                pcie::Latencies { link: none, memory: none },
            ),
            2 => Slot::Hypervisor(Hypervisor::free(calls)),
            3 => Slot::Axi(axi::Settings::ZYNQMP, axi::Latencies::NONE),
            _ => return None,
        })
    }
}

impl Plan {
    /// Returns the text.
    pub fn text(&self) -> String {
        let mut lines = Lines(String::new());
        lines.field("card", &mut self.card.kind());
        lines.field("slot", &mut self.slot.kind());
        self.clone().pass(&mut lines);
        for (after, frame) in self.captured.iter() {
            lines.0 += &format!("{FRAME} {} ", after.ps());
            // Writing to a string does not fail.
            frame.iter().for_each(|byte| _ = write!(lines.0, "{byte:02x}"));
            lines.0.push('\n');
        }
        lines.0
    }

    /// Parses a text of [`Plan::text`].
    ///
    /// # Errors
    /// A number is missing, is not allowed, or has no name here.
    pub fn parse(text: &str) -> Result<Plan, PlanError> {
        let mut numbers = Numbers { left: BTreeMap::new(), wrong: None };
        let mut captured = Captured::default();
        for line in text.lines() {
            let wrong = || PlanError(format!("`{line}`: expected a name and a number"));
            if let Some(frame) = line.strip_prefix(FRAME) {
                let (after, bytes) = frame_of(frame).ok_or_else(wrong)?;
                captured.push(after, &bytes);
                continue;
            }
            let (name, n) = line.split_once(' ').ok_or_else(wrong)?;
            numbers.left.insert(name, n.parse().map_err(|_| wrong())?);
        }
        let (mut card, mut slot) = (0, 0);
        numbers.field("card", &mut card);
        numbers.field("slot", &mut slot);
        let unknown = || PlanError(format!("card {card} in slot {slot} is not known"));
        let card = Card::of_kind(card).ok_or_else(unknown)?;
        let slot = Slot::of_kind(slot, card.calls()).ok_or_else(unknown)?;
        let addresses = [Ipv4Addr::UNSPECIFIED; 2];
        let captured = Arc::new(captured);
        let mut plan = Plan { card, slot, rate: 0, delay: Span::ZERO, addresses, captured };
        plan.pass(&mut numbers);
        if let Some(name) = numbers.left.keys().next().filter(|_| numbers.wrong.is_none()) {
            return Err(PlanError(format!("`{name}` is not a number of this machine")));
        }
        match numbers.wrong {
            Some(wrong) => Err(PlanError(wrong)),
            None if plan.rate == 0 => Err(PlanError("the link has no rate".to_owned())),
            None => Ok(plan),
        }
    }

    /// Handles every number. This is the declaration of the text.
    fn pass(&mut self, to: &mut impl Pass) {
        to.field("link.rate", &mut self.rate);
        to.field("link.delay", &mut self.delay);
        for (name, ip) in ["ip.guest", "ip.host"].into_iter().zip(&mut self.addresses) {
            to.field(name, ip);
        }
        let calls = self.card.calls();
        match &mut self.card {
            Card::E1000(nic) => e1000_numbers(nic, to),
            Card::Mlx5(nic) => mlx5_numbers(nic, to),
            Card::Axi(nic, mac) => {
                axi_numbers(nic, to);
                to.field("nic.mac", mac);
            }
            Card::Adapter(adapter) => adapter.pass(to),
        }
        match &mut self.slot {
            Slot::Parallel(settings, latencies) => parallel(settings, latencies, to),
            Slot::Express(settings, latencies) => express(settings, latencies, to),
            Slot::Axi(settings, latencies) => axi(settings, latencies, to),
            Slot::Hypervisor(hypervisor) => hypervisor.pass(calls, to),
        }
    }
}

fn e1000_numbers(nic: &mut e1000::Config, to: &mut impl Pass) {
    fields!(to, "nic.", nic: variant mac slot speed cache_line max_read read_across negotiation);
    fields!(to, "nic.", nic: errata int_asserted);
}

fn mlx5_numbers(nic: &mut mlx5::Config, to: &mut impl Pass) {
    let caps = &mut nic.caps;
    fields!(to, "nic.", caps: enhanced_mpw max_wqe_sz_sq min_inline log_max_lso csum vlan swp);
    fields!(to, "nic.", caps: striding compression);
    let compress = &mut nic.compress;
    fields!(to, "nic.compress.", compress: pressure wait most);
    fields!(to, "nic.", nic: mac fetch_chunk fetch_ahead refetch packet_time pipeline_delay);
    fields!(to, "nic.", nic: wire_byte_1024th_ps max_frame rx_fetch_chunk rx_fifo);
    fields!(to, "nic.", nic: writes_outstanding checksum_full command_time boot_pages init_pages);
}

fn axi_numbers(nic: &mut axi_ethernet::Config, to: &mut impl Pass) {
    fields!(to, "nic.", nic: tx_memory rx_memory tx_checksum rx_checksum zero_checksum clock_mhz);
    fields!(to, "nic.", nic: delay_clocks speed);
}

fn axi(s: &mut axi::Settings, l: &mut axi::Latencies, to: &mut impl Pass) {
    fields!(to, "axi.", s: protocol mhz bits beats reads writes lite_clocks);
    fields!(to, "latency.", l: read write cpu);
}

fn parallel(s: &mut pci::Settings, l: &mut pci::Latencies, to: &mut impl Pass) {
    fields!(to, "pci.", s: protocol mhz bits line boundary devsel latency_timer mwi);
    for (name, price) in [
        (["pci.read.each", "pci.read.per_unit"], &mut s.read),
        (["pci.write.each", "pci.write.per_unit"], &mut s.write),
    ] {
        to.field(name[0], &mut price.each);
        to.field(name[1], &mut price.per_unit);
    }
    fields!(to, "latency.", l: cpu memory register);
}

fn express(s: &mut pcie::Settings, l: &mut pcie::Latencies, to: &mut impl Pass) {
    fields!(to, "pcie.", s: generation lanes mps mrrs completions ecrc gap tags speed_ppm);
    fields!(to, "latency.", l: link memory);
}

/// Writes the text.
struct Lines(String);

impl Pass for Lines {
    fn field(&mut self, name: &'static str, value: &mut dyn Number) {
        self.0 += &format!("{name} {}\n", value.number());
    }
}

/// Takes the numbers of a text.
struct Numbers<'a> {
    left: BTreeMap<&'a str, u64>,
    wrong: Option<String>,
}

impl Pass for Numbers<'_> {
    fn field(&mut self, name: &'static str, value: &mut dyn Number) {
        let wrong = match self.left.remove(name) {
            None => format!("`{name}` is missing"),
            Some(n) if value.take(n).is_none() => format!("`{name}` cannot be {n}"),
            Some(_) => return,
        };
        self.wrong.get_or_insert(wrong);
    }
}

#[cfg(test)]
mod tests;
