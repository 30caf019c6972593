//! Diagnosis of a machine that stands still.
//!
//! A run is stuck when its cores wait and no event is due. [`Cause`] collects the evidence:
//! refused DMA, accesses of the driver outside its coherent memory, ring indices, interrupt masks.

use doorbell_bus::log::{Dma, RegisterAccess, moment};
use doorbell_bus::{Bus, Ledger, Log, Machine, Platform, Refused};
use doorbell_hal::{Device, EventSource, Fact, Reg, Time, WorkKind};
use std::fmt;

/// The evidence of a standstill, one line for each fact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cause(Vec<String>);

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| write!(f, "\n  {line}"))
    }
}

impl Cause {
    /// Returns the lines of the evidence.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Collects the evidence from a machine that stands still. `back` is the number of packets
    /// whose buffers came back, if known.
    pub fn of<B: Bus, D: Device<B>>(m: &mut Machine<B, D>, back: Option<u64>) -> Cause {
        let mut lines = Vec::new();
        let l = m.bus.ledger();
        let (handed, back_of_them) = (m.done(WorkKind::Stack).times, back);
        let back = back.map_or(String::new(), |n| format!(", {n} came back"));
        lines.push(format!(
            "packets: {handed} handed to the driver{back}, {} left on the wire",
            l.wire_frames
        ));
        lines.push(lent(&l));
        let kept = packets_kept(handed, back_of_them, l.maps.saturating_sub(l.unmaps));
        lines.extend(kept.map(|n| {
            format!("{n} of the packets are with the driver, neither mapped nor given back")
        }));
        lines.push(format!(
            "registers: {} writes, {} reads; hypervisor calls: {}; \
            interrupts: {} messages, {} rises of a line",
            l.mmio_writes, l.mmio_reads, l.hcalls, l.messages, l.line_interrupts
        ));
        let mut facts = Vec::new();
        m.device.diagnose(&mut |name, fact| {
            facts.push(match fact {
                Fact::Number(n) => format!("{name} {n}"),
                Fact::Bits(b) => format!("{name} {b:#x}"),
                Fact::State(s) => format!("{name}: {}", if s { "yes" } else { "no" }),
            });
        });
        if !facts.is_empty() {
            lines.push(format!("device: {}", facts.join(", ")));
        }
        if let Some(log) = m.bus.platform().log() {
            lines.extend(pending(m.bus.platform()));
            lines.extend(last(log, &m.device));
        }
        for p in m.bus.platforms() {
            if let Some(last) = p.refused() {
                lines.push(failed(p.ledger.dma_faults, &last));
            }
            lines.extend(strays(p));
            lines.extend(unordered(p));
        }
        Cause(lines)
    }
}

/// Formats the interrupts that wait for the CPU, if there are any.
fn pending(p: &Platform) -> Option<String> {
    let since = |what, n, at: Time| format!("{what} {n} since {}", moment(at));
    let vectors = 0..=u8::MAX;
    let of = |n: u8| {
        let line = p.line(n.into()).map(|at| since("line", n, at));
        [line, p.message_pending(n.into()).map(|at| since("message", n, at))]
    };
    let all: Vec<String> = vectors.flat_map(of).flatten().collect();
    (!all.is_empty()).then(|| format!("interrupts that wait for the CPU: {}", all.join(", ")))
}

/// Formats the last events of a log, those before the first DMA fault if there was one. `names`
/// knows the registers.
fn last(log: &Log, names: &impl EventSource) -> Vec<String> {
    let access = |a: &RegisterAccess| {
        let name = names.register_name(a.reg).map_or_else(|| place(a.reg), str::to_owned);
        let way = if a.write { "write" } else { "read" };
        format!("register: {way} {name} {:#x} at {}", a.value, moment(a.at))
    };
    let dma = |d: &Dma| {
        let way = if d.dir.is_written() { "write" } else { "read" };
        format!("DMA: {way} of {} B at {:#x} at {}", d.len, d.place.0, moment(d.at))
    };
    log.last().map(access).chain(log.dma().map(dma)).collect()
}

/// Formats the place of a register that has no name.
pub fn place(r: Reg) -> String {
    match r.region {
        0 => format!("{:#x}", r.offset),
        region => format!("{region}:{:#x}", r.offset),
    }
}

/// Returns the number of packets that the driver has and the device cannot reach, if above zero.
/// A packet has at least one mapping.
fn packets_kept(handed: u64, back: Option<u64>, mapped: u64) -> Option<u64> {
    let there = handed.checked_sub(back?)?;
    there.checked_sub(mapped).filter(|n| *n > 0)
}

/// Formats the memory that the driver has mapped for the device.
fn lent(l: &Ledger) -> String {
    let live = |taken: u64, given: u64| taken.saturating_sub(given);
    let (maps, buffers) = (live(l.maps, l.unmaps), live(l.buffers_taken, l.buffers_released));
    format!("memory: {maps} buffers are mapped for the device, of {buffers} in use")
}

/// Formats the failed accesses of the device.
pub fn failed(times: u64, last: &Refused) -> String {
    format!("DMA: accesses that failed: {times}, the last {last}")
}

/// Formats the driver's accesses outside its coherent areas, if any.
pub fn strays(p: &Platform) -> Option<String> {
    let s = p.strays();
    let first = s.first?;
    Some(format!(
        "coherent memory: accesses of the driver outside of it: {}, the first {first}",
        s.times
    ))
}

/// Formats the stores that the device missed for want of a barrier, if any.
fn unordered(p: &Platform) -> Option<String> {
    let (times, first) = p.unordered();
    Some(format!("order: a write barrier is missing, {times} times, first after {}", first?))
}

/// Formats the faults of a platform's coherent memory at the end of a run: areas not released,
/// accesses outside of them, and barriers that are missing.
pub fn of_coherent(p: &Platform) -> impl Iterator<Item = String> {
    let areas = p.areas();
    let bytes: u64 = areas.iter().map(|a| u64::from(a.1)).sum();
    let first = areas.first().map(|(at, len)| {
        let n = areas.len();
        format!(
            "coherent memory: {bytes} bytes in {n} areas not released, \
            the first at {:#x} of {len} bytes",
            at.0
        )
    });
    first.into_iter().chain(strays(p)).chain(unordered(p))
}
