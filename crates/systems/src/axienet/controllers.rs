//! Controllers of interrupt coalescing, any of which a run may have.

use super::settings::{DriverKeys, NicKeys};
use doorbell_drivers::axienet::Adaptive;
use doorbell_moderation::{
    Controller, Direction, Fixed, ItrClasses, ItrMode, Limits, Link, NetDim, Period, Sample,
    Setting, Trains, profiles,
};
use doorbell_packet::ethernet::HEADER;
use doorbell_sim::link::on_wire;

/// Any of the controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Any {
    /// The driver's fixed values, as by `ethtool -C`.
    Fixed(Fixed),
    /// Linux's net_dim, over a table.
    NetDim(NetDim),
    /// e1000's classes, each a rate.
    Classes(Classes),
    /// This project's controller.
    Trains(Trains),
}

impl Any {
    /// Makes the controller of these settings. Also returns the values that it may change.
    pub(super) fn of(d: &DriverKeys, n: &NicKeys) -> (Any, Adaptive) {
        let (usec, frames) = (d.rx_usecs as u16, d.rx_frames as u16);
        let dim = |table| Any::NetDim(NetDim::new(table, Direction::Rx));
        match d.controller {
            "dim" => (dim(profiles::axienet(usec)), Adaptive::Count),
            "dim_cqe" => {
                // The register has 8 bits.
                let table = profiles::linux(Direction::Rx, Period::Completion);
                let table = table.map(|s| Setting { packets: s.packets.min(255), ..s });
                (dim(table), Adaptive::CountAndDelay)
            }
            "dim_link" => {
                let link = Link { mbit_s: n.rate, mtu: d.mtu };
                (dim(link.profiles(Period::Completion, Limits::AXIENET)), Adaptive::CountAndDelay)
            }
            "classes" => {
                let longest = u64::from(d.mtu) + HEADER as u64;
                let packet_ns = 8_000 * on_wire((1, longest)) / u64::from(n.rate);
                (Any::Classes(Classes::new(packet_ns, n.rate)), Adaptive::CountAndDelay)
            }
            "trains" => {
                let link = Link { mbit_s: n.rate, mtu: d.mtu };
                // The length in ns that the driver assumes for a unit.
                let unit_ns = 125_000 / n.clock;
                let trains =
                    Trains::new(Direction::Rx, link, Period::Completion, unit_ns, Limits::AXIENET);
                (Any::Trains(trains), Adaptive::CountAndDelay)
            }
            _ => {
                (Any::Fixed(Fixed(Setting::usecs(usec, frames, Period::Completion))), Adaptive::Off)
            }
        }
    }
}

impl Controller for Any {
    fn sample(&mut self, s: &Sample) -> Option<Setting> {
        match self {
            Any::Fixed(c) => c.sample(s),
            Any::NetDim(c) => c.sample(s),
            Any::Classes(c) => c.sample(s),
            Any::Trains(c) => c.sample(s),
        }
    }
    fn applied(&mut self) {
        match self {
            Any::Fixed(c) => c.applied(),
            Any::NetDim(c) => c.applied(),
            Any::Classes(c) => c.inner.applied(),
            Any::Trains(c) => c.applied(),
        }
    }
    fn setting(&self) -> Setting {
        match self {
            Any::Fixed(c) => c.setting(),
            Any::NetDim(c) => c.setting(),
            Any::Classes(c) => c.mapped(c.inner.setting()),
            Any::Trains(c) => c.setting(),
        }
    }
}

/// e1000's classes for a device without an interval between interrupts. A class sets the number of
/// full packets that fit into the interval, or a silence of one and a quarter of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    inner: ItrClasses,
    packet_ns: u64,
}

impl Classes {
    fn new(packet_ns: u64, mbit_s: u32) -> Classes {
        let inner = ItrClasses::new(ItrMode::Dynamic, mbit_s, &Sample::default());
        Classes { inner, packet_ns: packet_ns.max(1) }
    }
    fn mapped(&self, s: Setting) -> Setting {
        let packets = (u64::from(s.delay_ns) / self.packet_ns).clamp(1, 255) as u16;
        if packets == 1 {
            return Setting { period: Period::Completion, ..Setting::IMMEDIATE };
        }
        let delay_ns = (self.packet_ns * 5 / 4).min(u64::from(u32::MAX)) as u32;
        Setting { packets, delay_ns, period: Period::Completion }
    }
    fn sample(&mut self, s: &Sample) -> Option<Setting> {
        self.inner.sample(s).map(|s| self.mapped(s))
    }
}

#[cfg(test)]
mod tests;
