//! AXI: the bursts that a transfer becomes, and the data beats of each.
//!
//! [`Rules`] is a plain value; [`Axi`] books by it. docs/buses.md has the rules.
//! Sources: ARM IHI 0022; AMD PG021, PG022; UG1085.

mod bus;
mod cut;

pub use bus::{Axi, Latencies};
pub(crate) use cut::Run;
pub use cut::{Burst, Bursts};

use crate::rules::{RulesError, checker};
use doorbell_hal::Span;

/// A burst does not cross a multiple of this.
pub const PAGE: u32 = 4096;

/// The version of AXI. They differ in the longest burst.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// Up to 16 beats: Zynq-7000's ports.
    Axi3,
    /// Up to 256 beats.
    Axi4,
}

impl Protocol {
    /// Returns the longest burst in beats.
    pub const fn most_beats(self) -> u32 {
        match self {
            Protocol::Axi3 => 16,
            Protocol::Axi4 => 256,
        }
    }
}

/// The settings of a bus, as a profile states them; [`Rules::new`] checks them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The protocol.
    pub protocol: Protocol,
    /// The bus clock in MHz, 1 to 1000.
    pub mhz: u32,
    /// Bits of data in a beat: 32 to 1024, a power of two.
    pub bits: u32,
    /// Beats of the longest burst that the master makes: 2 to 256, a power of two.
    pub beats: u32,
    /// Read bursts under way at a time, 1 to 32.
    pub reads: u32,
    /// Write bursts under way at a time, 1 to 32.
    pub writes: u32,
    /// Clocks of a register access at the AXI4-Lite slave, 1 to 255.
    pub lite_clocks: u32,
}

impl Settings {
    /// The AXI DMA of an AXI Ethernet in the programmable logic of a Zynq UltraScale+ (4
    /// Cortex-A53), on a high-performance port to DDR memory.
    pub const ZYNQMP: Settings = Settings {
        // UG1085, "AXI FIFO Interface": the PL's side of a port is AXI4.
        protocol: Protocol::Axi4,
        // Of the AXI Ethernet's 1 Gbit/s designs, and what Linux assumes when the device tree has
        // no clock (axienet: 125 MHz).
        mhz: 125,
        // UG1085, "AXI FIFO Interface": a port is 32, 64 or 128 bits wide. 64 carry 8 Gbit/s in
        // either direction; the DMA's default of 32 would do as well.
        bits: 64,
        // PG021 and PG022: "Max Burst Size", 16 unless somebody changes it.
        beats: 16,
        // UG1085, "AXI Interface Programming": command acceptance capability of eight, of either
        // kind.
        reads: 8,
        writes: 8,
        // Estimate: address, decode, register, response; no document says.
        lite_clocks: 4,
    };
}

/// The checked rules of one bus.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    settings: Settings,
    /// log2 of the bytes in a beat.
    beat_shift: u32,
    /// A burst ends at the latest at a multiple of this.
    boundary: u32,
    /// The time of a burst of `boundary` bytes, which is most of them.
    full: Span,
}

impl Rules {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first setting that is out of range.
    pub fn new(settings: Settings) -> Result<Rules, RulesError> {
        let Settings { protocol, mhz, bits, beats, reads, writes, lite_clocks } = settings;
        let check = checker("an AXI");
        let power = |v: u32, least, most| v.is_power_of_two() && (least..=most).contains(&v);
        check((1..=1000).contains(&mhz), "mhz", mhz, "1 to 1000")?;
        check(power(bits, 32, 1024), "bits", bits, "32, 64, 128, 256, 512, 1024")?;
        let allowed = match protocol {
            Protocol::Axi3 => "2, 4, 8, 16",
            Protocol::Axi4 => "2, 4, 8, 16, 32, 64, 128, 256",
        };
        check(power(beats, 2, protocol.most_beats()), "beats", beats, allowed)?;
        check((1..=32).contains(&reads), "reads", reads, "1 to 32")?;
        check((1..=32).contains(&writes), "writes", writes, "1 to 32")?;
        check((1..=255).contains(&lite_clocks), "lite_clocks", lite_clocks, "1 to 255")?;
        let boundary = (bits / 8 * beats).min(PAGE);
        let beat_shift = (bits / 8).trailing_zeros();
        let mut rules = Rules { settings, beat_shift, boundary, full: Span::ZERO };
        rules.full = rules.clocks(u64::from(boundary >> beat_shift));
        Ok(rules)
    }

    /// Returns the settings that the rules were made from.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the time of `n` clocks, rounded up to a picosecond.
    #[inline]
    pub const fn clocks(&self, n: u64) -> Span {
        Span::from_ps((n * 1_000_000).div_ceil(self.settings.mhz as u64))
    }

    /// Returns the time of a burst's data.
    #[inline]
    pub const fn burst_time(&self, burst: &Burst) -> Span {
        if burst.bytes == self.boundary { self.full } else { self.clocks(burst.beats as u64) }
    }

    /// Returns the beats of `bytes` at `addr`: the words of the bus that they touch.
    #[inline]
    pub const fn beats(&self, addr: u64, bytes: u32) -> u64 {
        if bytes == 0 {
            return 0;
        }
        let mask = (1u64 << self.beat_shift) - 1;
        ((addr & mask) + bytes as u64 + mask) >> self.beat_shift
    }

    /// Returns the number of AXI4-Lite accesses for a register access of `size` bytes.
    #[inline]
    pub const fn lite_accesses(size: u8) -> u64 {
        (size as u64).div_ceil(4)
    }
}

#[cfg(test)]
mod tests;
