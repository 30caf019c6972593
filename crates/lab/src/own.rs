//! A driver or a device of one's own, metered.
//!
//! The systems of the command line are machines with a profile, many keys and an audit of
//! their own. Somebody who writes a driver wants less: this driver, on this device, so
//! many packets, what did each of them cost at each crossing. [`meter`] is that: packets of the
//! generator through a driver on a machine that one puts together out of `doorbell_bus`. It
//! counts with the same ledger, and it looks for the same leaks.
//!
//! `examples/own_driver.rs` is a driver written for it, `examples/own_device.rs` a device with its driver.

use crate::clock::{Core, Interrupt};
use crate::open::{self, Load};
use crate::result::{Cost, Count, Failure, HANDED, Measured, work_of};
use crate::watch::Watch;
use doorbell_bus::{Bus, Machine};
use doorbell_drivers::Driver;
use doorbell_seam::{Device, Host};

/// Sends `load` through `driver`, whose interrupt is `line` and whose ring has room for `in_flight` packets, on core 0.
/// `close` takes the driver down afterwards; what it leaves behind is in the audit.
///
/// The work is priced by the machine's [`Costs`](doorbell_bus::Costs), and shown in cycles of a clock of `ghz`.
///
/// # Errors
/// When the memory is too small, or the run gets stuck: the driver waits for an interrupt that cannot come.
pub fn meter<B, D, Dr>(
    m: &mut Machine<B, D>,
    driver: Dr,
    close: impl Fn(Dr, &mut Machine<B, D>),
    (line, in_flight): (Interrupt, u32),
    load: &Load,
    ghz: f64,
    watch: &mut dyn Watch,
) -> Result<Measured, Failure>
where
    B: Bus,
    D: Device<B>,
    Dr: Driver<Machine<B, D>>,
{
    if watch.wants_frames() {
        m.bus.platform_mut().capture();
    }
    let mut cores = Vec::with_capacity(1);
    let no_memory = |_| Failure::Input("the machine's memory does not hold the traffic's buffers".to_owned());
    if let Some(source) = load.source(m, 1, 0, in_flight).map_err(no_memory)? {
        cores.push(Core::new(driver, source, line, in_flight as usize));
    }
    let (before, begin) = (m.ledger().clone(), m.now());
    let end = open::drive(m, &mut cores, load.packets(1), None, watch)?;
    let ledger = m.ledger().since(&before);
    let costs = Cost::of(&work_of(m), (ledger.mmio_writes + ledger.mmio_reads + ledger.fences, m.stalled()), ghz);
    let mut audit = Vec::new();
    let mut latency = Default::default();
    for core in cores {
        latency = core.latency.clone();
        close(core.driver, m);
        let skipped = core.traffic.release(m);
        if skipped > 0 {
            audit.push(format!("{skipped} frames were skipped for want of memory or form"));
        }
    }
    m.flush_posted();
    audit.extend(leaks(m, load.packets(1)));
    Ok(Measured {
        packets: ledger.wire_frames,
        elapsed: end.since(begin),
        rates: Vec::new(),
        counts: Count::of_ledger(&ledger),
        costs,
        series: Vec::new(),
        latency_of: HANDED,
        latency,
        audit,
    })
}

/// What was taken and not given back, and packets that did not leave.
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
    unlike("accesses outside of what is mapped, and none", l.dma_faults, 0);
    all
}
