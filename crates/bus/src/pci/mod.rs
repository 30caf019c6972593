//! Conventional PCI and PCI-X: which commands a transfer becomes, and how many
//! bus clocks each takes.
//!
//! [`Rules`] is a plain value, as [`pcie::Rules`](crate::pcie::Rules) is; nothing
//! here books time. A transfer becomes [`Transaction`]s by [`Rules::reads`],
//! [`Rules::writes`] or, for people, [`transactions`]; [`Rules::clocks`] weighs one.
//!
//! # Conventional PCI
//!
//! The command is a hint about cache lines. An 8254x counts the lines that the
//! rest of a read touches (Intel 8254x manual, table 4-8): three or more are
//! Memory Read Multiple, two are Memory Read Line, one is Memory Read Line if it
//! is whole and Memory Read if not. The bridge, which has read ahead, ends MRM at
//! its next boundary and MRL at the end of the line; then the choice is made
//! again. The manual leaves 146 bytes over one line boundary open; with this rule
//! both transmit traces of the POWER4 note come out (Dierks, linux-kernel, 13 June
//! 2003): 512, 512, 490 from a 512-byte boundary, 344, 512, 512, 128, 18 from 0x420A8.
//!
//! A write that starts on a line and holds a whole one is Memory Write and
//! Invalidate, cut at the bridge's boundary, and its tail is Memory Write. Any
//! other write is Memory Write to its end, cut at the boundary: the choice is
//! **not** made again when the bridge disconnects it. That is what the trace
//! shows from 0x2012 (494, 512, 508), although the note calls all three MWI, which
//! they cannot be: two are not made of whole lines.
//!
//! A line written in part costs the memory controller a read, a merge and a
//! write ([`Transaction::partial_lines`]).
//!
//! # PCI-X
//!
//! The byte count travels in an attribute phase, so nothing has to be guessed: a
//! read is a request of up to MMRBC bytes, counted from its start as PCIe
//! requests are, and is split: the bridge answers later by Split Completions. They,
//! and writes, end at the bridge's boundary, a multiple of 128 (the allowable
//! disconnect boundary) here, as the Intel 41210 does in 512-byte chunks. A
//! target puts no waits between data.
//!
//! # Clocks
//!
//! Address (two phases above 4 GiB: dual address cycle), attributes on PCI-X,
//! turnaround before read data, the target's decode, data, one idle clock. To that
//! the platform adds what it was measured to add: [`Settings::read`] and
//! [`Settings::write`], per command and per byte. Where each is spent says
//! [`Pci`](crate::Pci), the bus in time.
//!
//! # The latency timer
//!
//! When it runs out, the master stops *if it has lost the grant*. A platform that
//! gives [`Settings::latency_timer`] says that somebody always wants the bus;
//! `None` says that nobody does, as in the traces, which show whole 512-byte bursts.
//! MWI finishes its line.
//!
//! Sources: Intel 8254x manual 4.2 to 4.3; Pericom PI7C8150 and Intel 21555, 41210
//! bridge manuals; Motorola MPC106 manual chapter 7 (phases); the PCI-X phases are
//! from general knowledge of the specification.

mod bus;
mod cut;

pub use crate::pcie::Operation;
pub use bus::{Latencies, Pci};
pub use cut::{Command, Transaction, Transactions, transactions};

use crate::Price;
use core::fmt;
use doorbell_hal::Span;

/// Conventional PCI or PCI-X, with what only the one has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protocol {
    /// PCI 2.x.
    Conventional {
        /// Whether a bridge answers reads with Retry until it has the data, and so frees the bus
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

/// How soon a target claims a transaction by DEVSEL#.
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
    /// Which protocol.
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
    /// How soon the target decodes.
    pub devsel: Devsel,
    /// Clocks of a tenure when others want the bus, 16 to 255; `None`: nobody does.
    pub latency_timer: Option<u32>,
    /// Whether the PCI command register allows Memory Write and Invalidate.
    pub mwi: bool,
    /// What a read costs beside its clocks: each command until its first data, and each byte.
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

/// A setting outside what PCI, or these rules, allow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RulesError {
    /// The setting, by its field name in [`Settings`] or [`Protocol`].
    pub setting: &'static str,
    /// What was given.
    pub given: u32,
    /// What may be given.
    pub allowed: &'static str,
}

impl fmt::Display for RulesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} = {} is not a PCI setting; allowed: {}",
            self.setting, self.given, self.allowed
        )
    }
}

impl std::error::Error for RulesError {}

fn check(
    holds: bool,
    setting: &'static str,
    given: u32,
    allowed: &'static str,
) -> Result<(), RulesError> {
    if holds { Ok(()) } else { Err(RulesError { setting, given, allowed }) }
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

    /// What the rules were made from.
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
