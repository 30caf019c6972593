//! POWER partitions under one hypervisor, as profiles describe them.
//!
//! What systems with a device in the hypervisor have in common: what its calls cost, by kind; the
//! partitions with their translation tables; and what must be true of them at the end of a run. The
//! machine is a [`Hosted`] one: partitions beneath, a device of theirs, a link with a peer.
//!
//! | what a call costs | key | who pays |
//! |---|---|---|
//! | getting in and out of the hypervisor | `hypervisor.call` | the caller |
//! | what a kind of call does besides | [`Call::key`] | the caller |
//! | what it does for each thing that it is told to take | [`Call::each`] | the caller |
//! | what all partitions' calls do one after another | [`Call::serial`] | the caller, who also waits for its turn |
//! | each KiB copied between partitions | `hypervisor.copy` | the caller |
//! | a translation entry written | `tce.*` | the caller |
//!
//! A time line that the caller does not wait for (a server behind the call) is the device's own.

use crate::config::host::span;
use crate::config::key::{Values, settings};
use crate::experiment::Entries;
use crate::experiment::audit::CrossCheck;
use crate::sim::fault::Report;
use crate::sim::link::{SharedWire, Wired};
use doorbell_bus::tce::{Prices, Table, Window};
use doorbell_bus::{
    Bus, Each, HypervisorPort, Machine, Mapping, Partitions, Platform, ProtectionGranularity,
};
use doorbell_hal::{Hcall, Span};

/// A machine of partitions: `D` is the device that they share, `Pr` what is on the other end of the
/// link.
pub type Hosted<D, Pr> = Machine<Partitions<HypervisorPort<SharedWire>>, Wired<D, Pr>>;

/// A hypervisor call that a system's drivers make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub number: u64,
    /// What it is counted as: `hcall_send`.
    pub name: &'static str,
    /// The key of what it costs beside `hypervisor.call`; empty: nothing.
    pub key: &'static str,
    /// The key of what it does one after another with all partitions' calls; empty: nothing.
    pub serial: &'static str,
    /// What it does for each thing that an argument counts: the argument, the most that the call
    /// takes, the key.
    pub each: Option<(usize, u64, &'static str)>,
}

/// A call's prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priced {
    /// Which call.
    pub call: Hcall,
    /// All that the caller pays, whatever the arguments.
    pub price: Span,
    /// What the caller pays by an argument.
    pub each: Each,
    /// The serial part beside these.
    pub serial: Span,
}

settings! {
    /// The hypervisor and translation, as a profile describes them.
    pub struct Keys {
        /// getting in and out of the hypervisor, whatever the call
        call: Span = "hypervisor.call", ns();
        /// copying from one partition to another, in the caller's time
        copy: Span = "hypervisor.copy", number("ns/KiB", 0.0, 1e5);
        /// from the end of a copy to the other partition's interrupt
        interrupt: Span = "hypervisor.interrupt", ns();
        /// H_PUT_TCE: one translation entry, the call included
        put: Span = "tce.put", ns();
        /// H_PUT_TCE_INDIRECT: up to 512 entries, the call included
        put_indirect: Span = "tce.put_indirect", ns();
        /// H_STUFF_TCE: entries cleared, the call included
        stuff: Span = "tce.stuff", ns();
        /// each entry of the latter two
        entry: Span = "tce.entry", number("ns", 0.0, 1e5);
        /// whether the hypervisor takes several entries in a call
        multi: bool = "tce.multi", choice(&["on", "off"]).default("on");
        /// the window of a partition's adapter
        pages: u32 = "tce.pages", whole("pages", 1024.0, 262_144.0).default("65536");
    }
}

/// The hypervisor of these values.
#[derive(Clone, Debug, PartialEq)]
pub struct Papr {
    /// Any call.
    pub call: Span,
    /// Calls with prices of their own.
    pub calls: Vec<Priced>,
    /// A KiB copied between partitions.
    pub copy: Span,
    /// From the end of a copy to an interrupt.
    pub interrupt: Span,
    /// A partition's translation window.
    pub window: Window,
}

/// Where each partition's memory and window begin: the same in all, for they are different places.
const MEMORY_BASE: u64 = 1 << 32;
const WINDOW_BASE: u64 = 1 << 28;

impl Papr {
    /// The hypervisor of these values, for a system that makes `calls`.
    pub fn of(v: &Values, calls: &[Call]) -> Papr {
        let k = Keys::of(v);
        let prices =
            Prices { put: k.put, put_indirect: k.put_indirect, stuff: k.stuff, entry: k.entry };
        Papr {
            call: k.call,
            calls: calls
                .iter()
                .map(|c| Priced {
                    call: Hcall(c.number),
                    price: k.call + span(v, c.key),
                    each: c.each.map_or(Each::NOTHING, |(argument, most, key)| Each {
                        argument,
                        most,
                        price: span(v, key),
                    }),
                    serial: span(v, c.serial),
                })
                .collect(),
            copy: k.copy,
            interrupt: k.interrupt,
            window: Window { base: WINDOW_BASE, pages: k.pages, multi: k.multi, prices },
        }
    }

    /// Partitions with so many bytes of memory each; core `i` belongs to partition `of_core[i]`.
    pub fn partitions(
        &self,
        memory: &[usize],
        of_core: Vec<usize>,
        guard: ProtectionGranularity,
    ) -> Partitions<HypervisorPort> {
        // A copy is a read and a write.
        let half = Span::from_ps(self.copy.ps() / 2);
        let ports = memory.iter().map(|bytes| {
            let table = Mapping::Tce(Box::new(Table::new(self.window)));
            let platform = Platform::new(MEMORY_BASE, *bytes, guard).with_mapping(table);
            HypervisorPort::new(platform, half)
        });
        let mut all = Partitions::new(ports.collect(), of_core, self.call);
        for c in &self.calls {
            all.price(c.call, c.price);
            all.price_each(c.call, c.each);
            all.serialise(c.call, c.serial);
        }
        all
    }
}

/// How often each of `calls` was made so far, under its name.
pub fn made<B: Bus>(p: &Partitions<B>, calls: &[Call]) -> Entries {
    let times = |number| p.calls().iter().find(|c| c.call == Hcall(number)).map_or(0, |c| c.times);
    calls.iter().map(|c| (c.name, times(c.number))).collect()
}

/// The callers' time in a call so far.
pub fn spent<B: Bus>(p: &Partitions<B>, call: &Call) -> Span {
    p.calls().iter().find(|c| c.call == Hcall(call.number)).map_or(Span::ZERO, |c| c.spent)
}

/// Returns what does not add up in the partitions, when everything has been closed and released.
/// Accesses that were made to fail did so in the first.
pub fn audit<B: Bus>(p: &Partitions<B>, faults: Option<&Report>) -> Vec<String> {
    let mut all = CrossCheck::new(faults);
    for (i, port) in p.ports.iter().enumerate() {
        let struck = faults.filter(|_| i == 0).map_or(0, |f| f.struck.dma);
        all.platform(&format!("partition {i}: "), port.platform(), struck);
    }
    all.wrong
}

#[cfg(test)]
mod tests;
