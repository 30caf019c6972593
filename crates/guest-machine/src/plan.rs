//! The numbers of a machine, and their text.

use crate::fields::{Number, Pass};
use doorbell_bus::{pci, pcie};
use doorbell_devices::{e1000, mlx5};
use doorbell_hal::Span;
use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;

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
}

/// A device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Card {
    /// An 8254x.
    E1000(e1000::Config),
    /// A ConnectX.
    Mlx5(mlx5::Config),
}

/// The slot of a card.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Slot {
    /// Conventional PCI or PCI-X.
    Parallel(pci::Settings, pci::Latencies),
    /// PCI Express.
    Express(pcie::Settings, pcie::Latencies),
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

/// The device's kind, and the slot's, which say which numbers follow.
const KINDS: [&str; 2] = ["mlx5", "express"];

impl Plan {
    /// Returns the text.
    pub fn text(&self) -> String {
        let mut lines = Lines(String::new());
        let mut kinds =
            [matches!(self.card, Card::Mlx5(_)), matches!(self.slot, Slot::Express(..))];
        KINDS.into_iter().zip(&mut kinds).for_each(|(name, kind)| lines.field(name, kind));
        self.clone().pass(&mut lines);
        lines.0
    }

    /// Parses a text of [`Plan::text`].
    ///
    /// # Errors
    /// A number is missing, is not allowed, or has no name here.
    pub fn parse(text: &str) -> Result<Plan, PlanError> {
        let mut numbers = Numbers { left: BTreeMap::new(), wrong: None };
        for line in text.lines() {
            let wrong = || PlanError(format!("`{line}`: expected a name and a number"));
            let (name, n) = line.split_once(' ').ok_or_else(wrong)?;
            numbers.left.insert(name, n.parse().map_err(|_| wrong())?);
        }
        let mut kinds = [false; 2];
        KINDS.into_iter().zip(&mut kinds).for_each(|(name, kind)| numbers.field(name, kind));
        let none = Span::ZERO;
        let mut plan = Plan {
            card: match kinds[0] {
                true => Card::Mlx5(mlx5::Config::CONNECTX),
                false => Card::E1000(e1000::Config::I82540EM),
            },
            slot: match kinds[1] {
                true => Slot::Express(
                    pcie::Settings::link(1, 1),
                    pcie::Latencies { link: none, memory: none },
                ),
                false => Slot::Parallel(
                    pci::Settings::POWER4,
                    pci::Latencies { cpu: none, memory: none, register: none },
                ),
            },
            rate: 0,
            delay: none,
            addresses: [Ipv4Addr::UNSPECIFIED; 2],
        };
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
        match &mut self.card {
            Card::E1000(nic) => e1000_numbers(nic, to),
            Card::Mlx5(nic) => mlx5_numbers(nic, to),
        }
        match &mut self.slot {
            Slot::Parallel(settings, latencies) => parallel(settings, latencies, to),
            Slot::Express(settings, latencies) => express(settings, latencies, to),
        }
    }
}

/// Handles fields by their names.
macro_rules! fields {
    ($to:ident, $prefix:literal, $from:ident: $($field:ident)*) => {
        $($to.field(concat!($prefix, stringify!($field)), &mut $from.$field);)*
    };
}

fn e1000_numbers(nic: &mut e1000::Config, to: &mut impl Pass) {
    fields!(to, "nic.", nic: variant mac slot speed cache_line max_read read_across negotiation);
    fields!(to, "nic.", nic: errata int_asserted);
}

fn mlx5_numbers(nic: &mut mlx5::Config, to: &mut impl Pass) {
    let caps = &mut nic.caps;
    fields!(to, "nic.", caps: enhanced_mpw max_wqe_sz_sq min_inline log_max_lso csum vlan swp);
    fields!(to, "nic.", nic: mac fetch_chunk fetch_ahead refetch packet_time pipeline_delay);
    fields!(to, "nic.", nic: wire_byte_1024th_ps max_frame rx_fetch_chunk rx_fifo);
    fields!(to, "nic.", nic: writes_outstanding checksum_full command_time boot_pages init_pages);
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
