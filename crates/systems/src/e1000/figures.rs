//! The published figures of the copy to aligned buffers, measured on the models.
//!
//! All rows come from the profile `e1000-power4`. Transactions follow the bus rules; a test
//! compares them with those of a run. Three constants are fitted: the price of a byte beside the
//! bus clocks, read and written, on the time of its trace; and a packet's price in the controller
//! beside its reads, on the rate of unaligned frames. The other rates are predicted. A command's
//! price is above the source's own "at least 700 nanosec", to match the published large send.

use super::E1000;
use crate::card::{self, BAR, MEMORY_BASE};
use crate::key::Values;
use crate::published::{Curve, Headline, MeasureError, Measuring, ModelChoice, SystemFigures};
use crate::slot::{Slot, pci};
use doorbell_bus::pci::{Command, Rules, Settings, Transaction, transactions};
use doorbell_bus::{Machine, Mapping, Pci, Platform, ProtectionGranularity};
use doorbell_bus::{pcie::Operation, tce::Table};
use doorbell_devices::e1000::E1000 as Device;
use doorbell_drivers::e1000::E1000 as Driver;
use doorbell_hal::{Alignment, Direction, Iova, Port, Time};

/// A full frame without FCS.
const FRAME: u32 = 1514;

/// A trace: address, command unless the published one cannot be right, bytes.
type Trace = &'static [(u64, Option<Command>, u32)];
const TX_ALIGNED: Trace = &[
    (0x4800, Some(Command::Mrm), 512),
    (0x4a00, Some(Command::Mrm), 512),
    (0x4c00, Some(Command::Mrm), 490),
];
const TX_UNALIGNED: Trace = &[
    (0x420a8, Some(Command::Mrm), 344),
    (0x42200, Some(Command::Mrm), 512),
    (0x42400, Some(Command::Mrm), 512),
    (0x42600, Some(Command::Mrl), 128),
    (0x42680, Some(Command::Mr), 18),
];
const RX_ALIGNED: Trace = &[
    (0xee800, Some(Command::Mwi), 512),
    (0xeea00, Some(Command::Mwi), 512),
    (0xeec00, Some(Command::Mwi), 384),
    (0xeed80, Some(Command::Mw), 106),
];
const RX_UNALIGNED: Trace = &[(0x2012, None, 494), (0x2200, None, 512), (0x2400, None, 508)];

/// Returns the transactions by the bus rules for a frame at the trace's address.
fn made(s: Settings, what: Operation, trace: Trace) -> Result<Vec<Transaction>, MeasureError> {
    let rules = Rules::new(s)?;
    Ok(transactions(&rules, what, trace[0].0, FRAME).collect())
}

/// Returns the number of these transactions that equal the trace's.
fn as_traced(settings: Settings, what: Operation, trace: Trace) -> Result<f64, MeasureError> {
    let made = made(settings, what, trace)?;
    let same = |(t, m): &(&(u64, Option<Command>, u32), &Transaction)| {
        (t.0, t.2) == (m.addr, m.bytes) && t.1.is_none_or(|c| c == m.command)
    };
    Ok(trace.iter().zip(&made).filter(same).count() as f64)
}

fn partial_lines(settings: Settings, trace: Trace) -> Result<f64, MeasureError> {
    let made = made(settings, Operation::Write, trace)?;
    Ok(made.iter().map(|t| f64::from(t.partial_lines(settings.line))).sum())
}

/// Returns the time in us from the first attempt to the last byte, on an idle bus.
fn bus_time(values: &Values, what: Operation, at: u64) -> Result<f64, MeasureError> {
    let setup = card::setup::<E1000>(values)?;
    let Slot::Parallel(settings, mut latencies) = setup.slot else {
        return Err(MeasureError::new("the traces are of a PCI bus"));
    };
    // An analyser on the bus does not see the memory behind it.
    latencies.memory = doorbell_hal::Span::ZERO;
    let rules = Rules::new(settings)?;
    let mut platform = Platform::new(MEMORY_BASE, 1 << 20, ProtectionGranularity::Page);
    let none = |_| MeasureError::new("no memory");
    let b = platform.memory.buffer(4096, Alignment { align: 4096, offset: 0 }).map_err(none)?;
    for dir in [Direction::ToDevice, Direction::FromDevice] {
        platform.map(b.addr(), 4096, dir).map_err(|_| MeasureError::new("not mapped"))?;
    }
    let at = Iova(b.addr() + at % 2048);
    let mut bus = Pci::new(platform, rules, latencies, BAR);
    let mut frame = [0; FRAME as usize];
    let done = match what {
        Operation::Read => bus.read(Time::ZERO, at, &mut frame),
        Operation::Write => bus.write(Time::ZERO, at, &frame),
    };
    done.map(|t| t.since(Time::ZERO).as_ns_f64() * 1e-3)
        .map_err(|_| MeasureError::new("a DMA fault"))
}

/// Returns the translation entries that opening the driver writes, and the ring's length.
fn entries_at_open(values: &Values, copy: bool) -> Result<(u64, u32), MeasureError> {
    let mut values = values.clone();
    values.set(&format!("driver.copy_align={}", if copy { "on" } else { "off" }))?;
    let setup = card::setup::<E1000>(&values)?;
    let (Slot::Parallel(settings, latencies), Some(window)) = (setup.slot, setup.tce) else {
        return Err(MeasureError::new("the slots are counted on PCI with translation"));
    };
    let rules = Rules::new(settings)?;
    let platform = Platform::new(MEMORY_BASE, 16 << 20, ProtectionGranularity::Page);
    let platform = platform.with_mapping(Mapping::Tce(Box::new(Table::new(window))));
    let bus = Pci::new(platform, rules, latencies, BAR);
    let mut m = Machine::new(bus, Device::new(setup.card.nic), setup.host.costs, 1);
    let driver = Driver::open(&mut m, &setup.card.driver)
        .map_err(|e| MeasureError::new(format!("the driver did not open: {e:?}")))?;
    let puts = m.ledger().tce_puts;
    driver.close(&mut m);
    Ok((puts, setup.card.driver.tx_ring))
}

const LARGE_SEND: &[&str] = &["e1000.rate_large_send"];

pub(super) static FIGURES: SystemFigures = SystemFigures {
    name: "e1000",
    profile: "e1000-power4",
    rows: include_str!("../../published/e1000.toml"),
    headline: Some(
        Headline::of("e1000-send", "driver.copy_align=off", "driver.copy_align=on")
            .over(Curve {
                title: "TCP payload, Gbit/s",
                scenario: "e1000-send",
                key: "traffic.mss",
                values: &[
                    64.0, 128.0, 192.0, 256.0, 320.0, 384.0, 448.0, 512.0, 576.0, 640.0, 704.0,
                    768.0, 832.0, 896.0, 960.0, 1024.0, 1088.0, 1152.0, 1216.0, 1280.0, 1344.0,
                    1408.0, 1460.0,
                ],
                show: "payload_bits_per_s",
            })
            .waiting("e1000-transactions"),
    ),
    // Constants of other buses have no effect here. Those in steps lead to another experiment:
    // there is no PCI at 100 MHz, and a link of 100 Mbit/s is slower than any bus.
    left_out: &["pcie.", "pci.mmrbc", "pci.outstanding", "pci.clock", "link.rate"],
    constants: &[],
    // The choices that bring a large send to the published rate. The source gives at least 700 ns
    // for a read command: 427 is that less the clocks counted beside it, and 700 has them on top.
    choices: &[
        ModelChoice::of_profile("nic.read_across", &["no", "yes"], LARGE_SEND),
        ModelChoice::of_profile("pci.read_command", &["427", "500", "700"], LARGE_SEND),
        ModelChoice::of_profile("pci.clock", &["33", "66"], &["e1000.bus_time_rx"]),
    ],
    measure,
};

fn measure(f: &dyn Measuring, figure: &str) -> Result<f64, MeasureError> {
    let values = f.values();
    let s = pci(&values);
    let count = |what, trace| made(s, what, trace).map(|t| t.len() as f64);
    match figure {
        "tx_aligned_commands" => count(Operation::Read, TX_ALIGNED),
        "tx_unaligned_commands" => count(Operation::Read, TX_UNALIGNED),
        "tx_aligned_as_traced" => as_traced(s, Operation::Read, TX_ALIGNED),
        "tx_unaligned_as_traced" => as_traced(s, Operation::Read, TX_UNALIGNED),
        "rx_aligned_as_traced" => as_traced(s, Operation::Write, RX_ALIGNED),
        "rx_unaligned_as_traced" => as_traced(s, Operation::Write, RX_UNALIGNED),
        "rx_aligned_partial_lines" => partial_lines(s, RX_ALIGNED),
        "rx_unaligned_partial_lines" => partial_lines(s, RX_UNALIGNED),
        "old_firmware_commands" => {
            let made = made(Settings { boundary: 256, ..s }, Operation::Read, TX_ALIGNED);
            made.map(|t| t.len() as f64)
        }
        "copy_entries" => {
            let (with, ring) = entries_at_open(&values, true)?;
            let (without, _) = entries_at_open(&values, false)?;
            // Two slots fill a page: one entry for two slots means that no slot crosses a page.
            Ok((with - without) as f64 / f64::from(ring) * 2.0)
        }
        "bus_time_tx" => bus_time(&values, Operation::Read, TX_UNALIGNED[0].0),
        "bus_time_rx" => bus_time(&values, Operation::Write, RX_UNALIGNED[0].0),
        "firmware_gain" => {
            let mbits = |run| Ok(f.number(run, "payload_bits_per_s")? * 1e-6);
            let new: f64 = mbits("aligned")?;
            mbits("old_firmware").map(|old: f64| new - old)
        }
        "line_rate" => Ok(values.number("link.rate") * 1460.0 / 1538.0),
        _ => Err(MeasureError::unknown_figure(figure)),
    }
}
