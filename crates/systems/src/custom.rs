//! Measures a driver or a device of one's own.
//!
//! [`meter`] sends packets of the generator through one driver on one device and reports the cost
//! of each packet at each crossing. It needs no profile, keys or audit of a system. The machine is
//! put together out of `doorbell_bus`, or by [`on_pcie`]. Ledger and leak checks are those of the
//! built-in systems. [`bill`] prints the counts; [`TxRing`] and [`RxRing`] keep the rings of such a
//! driver.
//!
//! Examples: `examples/own_driver.rs`, `examples/own_device.rs`.

mod ring;

pub use ring::{RxRing, TxRing};

use crate::metrics::PACKETS;
use crate::open_loop::{self, Load};
use crate::result::{CountsOf, Measured, SENT};
use crate::{Counts, Result, RunError};
use doorbell_bus::{
    Bus, Capture, Costs, Latencies, Machine, Pcie, Platform, ProtectionGranularity, RulesError,
    pcie,
};
use doorbell_drivers::Driver;
use doorbell_hal::{Device, Span};
use doorbell_sim::{Unwatched, Watch, scheduler::Interrupt, standstill, watch::Asking};
use std::fmt::Write;

/// The names that the file of a driver needs: traits, their types, and [`meter`].
pub mod prelude {
    pub use super::{RxRing, TxRing};
    pub use crate::Unwatched;
    pub use crate::open_loop::Load;
    pub use doorbell_drivers::{Driver, Irq, Poll, Sink, Tx};
    pub use doorbell_hal::{Coherent, CpuWork, Direction, Fence, Host, Mapped, Reg, Span};
    pub use doorbell_packet::Packet;
    pub use doorbell_sim::scheduler::Interrupt;
}

/// Builds a machine with one core and `device` on a PCI Express link. It has 64 MiB of memory,
/// checks each access to the byte, and takes 150 ns each way over the link and 250 ns to memory.
/// The CPU's work is counted and costs nothing.
///
/// # Errors
/// There is no such PCIe generation or number of lanes.
pub fn on_pcie<D: Device<Pcie>>(
    generation: u32,
    lanes: u32,
    device: D,
) -> Result<Machine<Pcie, D>, RulesError> {
    let rules = pcie::Rules::new(pcie::Settings::link(generation, lanes))?;
    let latencies = Latencies { link: Span::from_ns(150), memory: Span::from_ns(250) };
    let bus = Pcie::new(
        Platform::new(1 << 26, 64 << 20, ProtectionGranularity::Byte),
        rules,
        latencies,
        0xfeb0_0000,
    );
    Ok(Machine::new(bus, device, Costs::FREE, 1))
}

/// Sends `load` on core 0 through the driver that `open` makes. `line` is its interrupt, and its
/// ring has room for `in_flight` packets. `close` takes the driver down afterwards; the audit lists
/// what it leaves behind. The cost of `open` is not counted, and a pace starts when it has
/// returned.
///
/// The machine's [`Costs`] price the work. It is shown in cycles of a 1 GHz clock, that is in ns.
///
/// # Errors
/// The memory is too small, or the run is stuck because the driver waits for an interrupt that
/// cannot come. The error then names the cause as far as it is known
/// ([`doorbell_sim::standstill`]).
pub fn meter<B: Bus<Sink = Capture>, D: Device<B>, Dr: Driver<Machine<B, D>>>(
    m: &mut Machine<B, D>,
    open: impl FnOnce(&mut Machine<B, D>) -> Dr,
    close: impl Fn(Dr, &mut Machine<B, D>),
    on: (Interrupt, u32),
    load: &Load,
) -> Result<Measured> {
    meter_watched(m, open, close, on, load, 1.0, &mut Unwatched)
}

/// Does the same as [`meter`], with a clock of `ghz` and a watcher of frames or progress.
///
/// # Errors
/// As for [`meter`].
pub fn meter_watched<B: Bus<Sink = Capture>, D: Device<B>, Dr: Driver<Machine<B, D>>>(
    m: &mut Machine<B, D>,
    open: impl FnOnce(&mut Machine<B, D>) -> Dr,
    close: impl Fn(Dr, &mut Machine<B, D>),
    on: (Interrupt, u32),
    load: &Load,
    ghz: f64,
    watch: &mut dyn Watch,
) -> Result<Measured> {
    let driver = open(m);
    let close = |m: &mut _, driver| close(driver, m);
    let watch = &mut Asking::log(watch);
    let mut o = open_loop::run_alone(m, driver, on, load, |_| None, close, watch)?;
    o.verdict.audit.extend(leaks(m, load.packets(1)));
    let rates = |_: &Counts, rate| vec![PACKETS.is(rate).about("packets sent")];
    Ok(o.measured(rates, CountsOf::Run, SENT, ghz))
}

/// Returns the counts of a packet that are not zero, a line each, then the registers that were
/// accessed, the longest waited for first.
///
/// # Errors
/// A check of the audit failed, so the counts are no bill.
pub fn bill(m: &Measured) -> Result<String> {
    if !m.is_sound() {
        return Err(RunError::Audit(m.verdict.audit.join("\n")));
    }
    let mut text = format!("{} packets in {}\n", m.packets, m.elapsed);
    for (name, each) in m.per_packet().into_iter().filter(|(_, each)| *each > 0.0) {
        let _ = writeln!(text, "{name:24}{each:10.3}");
    }
    for r in &m.registers {
        let [reads, writes] = [r.reads, r.writes].map(|n| n as f64 / m.packets.max(1) as f64);
        let _ = writeln!(text, "{:24}{reads:10.3} reads {writes:10.3} writes", r.name);
    }
    Ok(text)
}

/// Returns resources that were not given back, packets that did not leave, and accesses outside of
/// the allowed memory.
fn leaks<B: Bus, D: Device<B>>(m: &Machine<B, D>, packets: u64) -> Vec<String> {
    let l = m.ledger();
    let mut all = Vec::new();
    let mut unlike = |what: &str, a: u64, b: u64| {
        if a != b {
            all.push(format!("{what}: {a} and {b}"));
        }
    };
    unlike("maps and unmaps", l.maps, l.unmaps);
    unlike("buffers taken and released", l.buffers_taken, l.buffers_released);
    unlike("packets handed over and frames on the wire", packets, l.wire_frames);
    let p = m.bus.platform();
    all.extend(p.refused().map(|last| standstill::failed(l.dma_faults, &last)));
    all.extend(standstill::of_coherent(p));
    all
}
