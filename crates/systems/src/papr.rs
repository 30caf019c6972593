//! POWER partitions under one hypervisor, as profiles describe them.
//!
//! Shared by systems with a device in the hypervisor: prices of its calls, partitions with
//! translation tables, and the checks at the end of a run. The machine is a `Hosted` one:
//! partitions, their shared device, and a link with a peer.
//!
//! The caller pays for each call: entry and exit (`hypervisor.call`), the call's own work
//! ([`Call::price`], [`CallPrice::each`]), its turn among all partitions' calls
//! ([`CallPrice::serial`]), each KiB copied (`hypervisor.copy`) and each translation entry
//! (`tce.*`). Work that the caller does not wait for is the device's own.

use crate::audit::CrossCheck;
use crate::host::span;
use crate::key::Values;
use crate::run::platform;
use crate::settings::settings;
use crate::{Entries, Result};
use doorbell_bus::tce::{Prices, Table, Window};
use doorbell_bus::{
    Bus, CallPrice, HypervisorPort, Machine, Mapping, Partitions, ProtectionGranularity,
};
use doorbell_hal::{Hcall, Span};
use doorbell_layout::Call;
use doorbell_sim::fault::Report;
use doorbell_sim::link::{SharedWire, Wired};

/// A machine of partitions. `D` is the device that they share, `Pr` the other end of the link.
pub(crate) type Hosted<D, Pr> = Machine<Partitions<HypervisorPort<SharedWire>>, Wired<D, Pr>>;

settings! {
    /// The hypervisor and translation, as a profile describes them.
    pub struct Keys {
        /// entry and exit of any hypervisor call
        call: Span = "hypervisor.call", ns();
        /// copy from one partition to another, in the caller's time
        copy: Span = "hypervisor.copy", number("ns/KiB", 0.0, 1e5);
        /// time from the end of a copy to the interrupt in the other partition
        interrupt: Span = "hypervisor.interrupt", ns();
        /// H_PUT_TCE: one translation entry, the call included
        put: Span = "tce.put", ns();
        /// H_PUT_TCE_INDIRECT: up to 512 entries, the call included
        put_indirect: Span = "tce.put_indirect", ns();
        /// H_STUFF_TCE: entries cleared, the call included
        stuff: Span = "tce.stuff", ns();
        /// each entry of H_PUT_TCE_INDIRECT and H_STUFF_TCE
        entry: Span = "tce.entry", number("ns", 0.0, 1e5);
        /// the hypervisor accepts several entries in one call
        multi: bool = "tce.multi", choice(&["on", "off"]).default("on");
        /// size of the window of a partition's adapter
        pages: u32 = "tce.pages", whole("pages", 1024.0, 262_144.0).default("65536");
    }
}

/// The hypervisor.
#[derive(Clone, Debug, PartialEq)]
pub struct Papr {
    /// Price of any call.
    pub call: Span,
    /// Calls with prices of their own.
    pub calls: Vec<(Hcall, CallPrice)>,
    /// Price of a KiB copied between partitions.
    pub copy: Span,
    /// Time from the end of a copy to an interrupt.
    pub interrupt: Span,
    /// The translation window of a partition.
    pub window: Window,
}

/// Start of each partition's memory and window. Partitions have separate address spaces.
const MEMORY_BASE: u64 = 1 << 32;
const WINDOW_BASE: u64 = 1 << 28;

impl Papr {
    /// Reads the hypervisor from `v`, for a system that makes `calls`. One without a key of its own
    /// costs what any call does.
    pub(crate) fn of(v: &Values, calls: &[Call]) -> Papr {
        let k = Keys::of(v);
        let prices =
            Prices { put: k.put, put_indirect: k.put_indirect, stuff: k.stuff, entry: k.entry };
        let price =
            |c: &Call| CallPrice { fixed: k.call + span(v, c.price), ..CallPrice::default() };
        Papr {
            call: k.call,
            calls: calls.iter().map(|c| (Hcall(c.number), price(c))).collect(),
            copy: k.copy,
            interrupt: k.interrupt,
            window: Window { base: WINDOW_BASE, pages: k.pages, multi: k.multi, prices },
        }
    }

    /// Returns the price of a call among those of the system, to add what only this one has.
    pub(crate) fn price_mut(&mut self, number: u64) -> Option<&mut CallPrice> {
        self.calls.iter_mut().find(|c| c.0 == Hcall(number)).map(|c| &mut c.1)
    }

    /// Builds partitions with `memory` bytes each. Core `i` belongs to partition `of_core[i]`.
    ///
    /// # Errors
    /// This system refuses the memory.
    pub(crate) fn partitions(
        &self,
        memory: &[usize],
        of_core: Vec<usize>,
        guard: ProtectionGranularity,
    ) -> Result<Partitions<HypervisorPort>> {
        // A copy is a read and a write.
        let half = Span::from_ps(self.copy.ps() / 2);
        let ports = memory.iter().map(|bytes| {
            let table = Mapping::Tce(Box::new(Table::new(self.window)));
            let platform = platform(MEMORY_BASE, *bytes, guard)?.with_mapping(table);
            Ok(HypervisorPort::new(platform, half))
        });
        let ports = ports.collect::<Result<Vec<_>>>()?;
        let mut all = Partitions::new(ports, of_core, self.call);
        self.calls.iter().for_each(|(call, price)| all.price(*call, *price));
        Ok(all)
    }
}

/// Returns the number of times that each of `calls` was made so far, under its name.
pub(crate) fn made<B: Bus>(p: &Partitions<B>, calls: &[Call]) -> Entries {
    let times = |number| p.calls().iter().find(|c| c.call == Hcall(number)).map_or(0, |c| c.times);
    calls.iter().map(|c| (c.name, times(c.number))).collect()
}

/// Returns the callers' time in a call so far.
pub(crate) fn spent<B: Bus>(p: &Partitions<B>, number: u64) -> Span {
    p.calls().iter().find(|c| c.call == Hcall(number)).map_or(Span::ZERO, |c| c.spent)
}

/// Checks the partitions after everything has been closed and released.
/// Injected access faults are those of the first partition.
pub(crate) fn audit<B: Bus>(p: &Partitions<B>, faults: Option<&Report>) -> CrossCheck {
    let mut all = CrossCheck::new(faults);
    for (i, port) in p.ports.iter().enumerate() {
        let struck = faults.filter(|_| i == 0).map_or(0, |f| f.struck.dma);
        all.place = format!("partition {i}: ");
        all.platform(port.platform(), struck);
    }
    all
}

#[cfg(test)]
mod tests;
