//! Conventional PCI and PCI-X: the commands that a transfer becomes, and the bus clocks of each.
//!
//! [`Rules`] is a plain value; [`Pci`] books by it. A transfer becomes [`Transaction`]s by
//! [`Rules::reads`], [`Rules::writes`] or, for people, [`transactions`]; [`Rules::clocks`] weighs
//! one. docs/buses.md has the rules. Sources: Intel 8254x manual 4.2 to 4.3; Pericom PI7C8150,
//! Intel 21555 and 41210 bridge manuals; Motorola MPC106 manual chapter 7; Dierks, linux-kernel, 13
//! June 2003 (traces).

mod bus;
mod cut;

pub use crate::pcie::Operation;
pub use bus::{Latencies, Pci};
pub use cut::{Command, Pieces, Transaction, Transactions, transactions};

use crate::Price;
use crate::rules::{RulesError, checker};
use doorbell_hal::Span;

/// Conventional PCI or PCI-X, with what only the one has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// PCI 2.x.
    Conventional {
        /// A bridge answers reads with Retry until it has the data, and so frees the bus
        /// meanwhile; else the target holds it.
        delayed: bool,
    },
    /// PCI-X 1.0: reads are split.
    X {
        /// Maximum memory read byte count: 512, 1024, 2048, 4096.
        mmrbc: u32,
        /// Split reads under way at a time: 1, 2, 3, 4, 8, 12, 16, 32.
        outstanding: u32,
    },
}

/// The time at which a target claims a transaction by DEVSEL#.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Devsel {
    /// The earliest.
    Fast,
    /// One clock later: most devices.
    Medium,
    /// Two.
    Slow,
    /// Nobody else did.
    Subtractive,
}

/// The settings of a bus segment, as a profile states them; [`Rules::new`] checks them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The protocol.
    pub protocol: Protocol,
    /// 33 or 66; on PCI-X 66, 100 or 133.
    pub mhz: u32,
    /// Bits of data in a clock: 32 or 64.
    pub bits: u32,
    /// Cache line in bytes, 16 to 256, a power of two. A device that does not support the register
    /// counts in lines of 32.
    pub line: u32,
    /// The bridge ends a burst at multiples of this many bytes: from a line, on PCI-X from 128, to
    /// 4096, a power of two. How far it reads ahead.
    pub boundary: u32,
    /// The target's decode time.
    pub devsel: Devsel,
    /// Clocks of a tenure when others want the bus, 16 to 255; `None`: nobody does.
    pub latency_timer: Option<u32>,
    /// The PCI command register allows Memory Write and Invalidate.
    pub mwi: bool,
    /// The price of a read beside its clocks: each command until its first data, and each byte.
    pub read: Price,
    /// The same of a write.
    pub write: Price,
}

impl Settings {
    /// 64 bits at 66 MHz behind the bridges of a POWER4 I/O drawer with the right firmware: lines
    /// of 128 bytes, 512 read ahead, MWI. The note does not say the clock, and only the costs of
    /// bytes depend on it; those, and what commands cost, are left to the profile.
    pub const POWER4: Settings = Settings {
        protocol: Protocol::Conventional { delayed: true },
        mhz: 66,
        bits: 64,
        line: 128,
        boundary: 512,
        devsel: Devsel::Medium,
        latency_timer: None,
        mwi: true,
        read: Price { each: Span::ZERO, per_unit: Span::ZERO },
        write: Price { each: Span::ZERO, per_unit: Span::ZERO },
    };
}

/// The checked rules of one bus segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    settings: Settings,
    period: Span,
    line_shift: u32,
    /// log2 of the bytes in a data phase.
    width_shift: u32,
    decode: u32,
    /// The most data phases of a tenure.
    phases: u32,
}

impl Rules {
    /// Checks the settings.
    ///
    /// # Errors
    /// The first setting that is not allowed, with what is.
    pub fn new(settings: Settings) -> Result<Rules, RulesError> {
        let check = checker("a PCI");
        let Settings { mhz, bits, line, boundary, latency_timer, .. } = settings;
        let fits = |bytes: u32, least: u32, most: u32| {
            bytes.is_power_of_two() && (least..=most).contains(&bytes)
        };
        check(fits(line, 16, 256), "line", line, "16, 32, 64, 128, 256")?;
        match settings.protocol {
            Protocol::Conventional { .. } => {
                check([33, 66].contains(&mhz), "mhz", mhz, "33, 66 (66, 100, 133 on PCI-X)")?;
                check(
                    fits(boundary, line, 4096),
                    "boundary",
                    boundary,
                    "a power of two from a cache line to 4096",
                )?;
            }
            Protocol::X { mmrbc, outstanding } => {
                check(
                    [66, 100, 133].contains(&mhz),
                    "mhz",
                    mhz,
                    "66, 100, 133 (33, 66 on conventional PCI)",
                )?;
                check(fits(mmrbc, 512, 4096), "mmrbc", mmrbc, "512, 1024, 2048, 4096")?;
                let counts = [1, 2, 3, 4, 8, 12, 16, 32];
                check(
                    counts.contains(&outstanding),
                    "outstanding",
                    outstanding,
                    "1, 2, 3, 4, 8, 12, 16, 32",
                )?;
                check(
                    fits(boundary, 128, 4096),
                    "boundary",
                    boundary,
                    "128, 256, 512, 1024, 2048, 4096",
                )?;
            }
        }
        check(bits == 32 || bits == 64, "bits", bits, "32, 64")?;
        let timer = latency_timer.unwrap_or(u32::MAX);
        check(
            latency_timer.is_none() || (16..=255).contains(&timer),
            "latency_timer",
            timer,
            "16 to 255 clocks",
        )?;
        let decode = settings.devsel as u32;
        // It runs from the address phase; the phase under way when it ends is finished.
        let phases = timer - (2 + decode) + 1;
        let ps = match mhz {
            33 => 30_000,
            66 => 15_000,
            100 => 10_000,
            _ => 7_500,
        };
        Ok(Rules {
            settings,
            period: Span::from_ps(ps),
            line_shift: line.trailing_zeros(),
            width_shift: (bits / 8).trailing_zeros(),
            decode,
            phases,
        })
    }

    /// Returns the settings that the rules were made from.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns true if the bridge answers a read with Retry until it has the data.
    pub const fn delays_reads(&self) -> bool {
        matches!(self.settings.protocol, Protocol::Conventional { delayed: true })
    }

    /// A bus clock.
    pub const fn period(&self) -> Span {
        self.period
    }

    /// The whole clocks that hold `span`.
    #[inline]
    pub const fn clocks_in(&self, span: Span) -> u64 {
        span.ps().div_ceil(self.period.ps())
    }

    /// Data phases of `bytes` at `addr`: an unaligned start counts.
    #[inline]
    const fn data(&self, addr: u64, bytes: u32) -> u64 {
        let mask = (1 << self.width_shift) - 1;
        ((addr & mask) + bytes as u64 + mask) >> self.width_shift
    }

    /// Clocks before the data: address, attributes, turnaround, decode.
    #[inline]
    const fn head(&self, command: Command, addr: u64) -> u64 {
        let dual = (addr >> 32 != 0) as u64;
        let decode = self.decode as u64;
        match (self.settings.protocol, command) {
            (Protocol::Conventional { .. }, Command::Mr | Command::Mrl | Command::Mrm) => {
                1 + dual + 1 + decode
            }
            (Protocol::Conventional { .. }, _) => 1 + dual + decode,
            // A completion goes to a bus, device and tag: it has no address above 4 GiB.
            (Protocol::X { .. }, Command::SplitCompletion) => 3 + decode,
            (Protocol::X { .. }, _) => 1 + dual + 2 + decode,
        }
    }

    /// Clocks of one transaction, from its address phase to the idle one, if nobody puts waits in.
    /// A PCI-X read request is the request alone.
    #[inline]
    pub const fn clocks(&self, t: &Transaction) -> u64 {
        let data = match t.command {
            Command::MrDword | Command::MrBlock => 1,
            _ => self.data(t.addr, t.bytes),
        };
        self.head(t.command, t.addr) + data + 1
    }

    /// Clocks of an attempt that the bridge answers with Retry.
    #[inline]
    pub const fn retry_clocks(&self, t: &Transaction) -> u64 {
        self.head(t.command, t.addr) + 2
    }
}

#[cfg(test)]
mod tests;
