//! Causes, mask, throttling, and the timers that delay a cause.
//!
//! The line is high while an unmasked cause is set. ITR holds back its rise to so many times 256 ns
//! after the rise before. A delay is a pair of timers in units of 1.024 us: one that each packet
//! restarts (RDTR, TIDV), and one from the first packet that caps the wait (RADV, TADV). The first
//! to end stops both. A running timer keeps the value that it was started with.
//!
//! On an 82574 whose IVAR has a valid entry, each vector of MSI-X is like the line: it is high
//! while an unmasked cause of its own is set, EITR holds it back, and its rise is a message.
//!
//! Source: SDM 3.2.7 and 13.4.17 to 13.4.33; 82574 7.4 and 10.2.4.

use super::config::Variant;
use alloc::boxed::Box;
use doorbell_hal::{Span, Time};
use doorbell_layout::e1000::{
    INT_LSC, INT_MDAC, INT_OTHER, INT_RXO, INT_RXQ0, INT_SRPD, INT_TXQ0, IVAR_EVERY_WB, IVAR_OTHER,
    IVAR_RXQ0, IVAR_TXQ0, IVAR_VALID, TIMER_FPD, reg,
};

const ITR_UNIT: Span = Span::from_ns(256);
/// Unit of the delay timers.
const DELAY_UNIT: Span = Span::from_ns(1024);
/// Bits of a timer register that are the time.
pub(super) const TIMER: u32 = !TIMER_FPD & 0xffff;

/// Causes that exist: of the 8254x, and of the 82574.
const CAUSES: u32 = 0x0001_ffff;
const CAUSES_82574: u32 = 0x01f7_ffff;
/// Causes that [`INT_OTHER`] tells of.
const OTHERS: u32 = INT_LSC | INT_RXO | INT_MDAC | INT_SRPD | 3 << 17;

/// The line, or a vector: its level, and the throttling of its rises.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) itr: u32,
    pub(super) high: bool,
    /// Time of its last rise.
    rose: Option<Time>,
    /// Time from which it should be high, but for throttling.
    wanted: Time,
    /// Time at which it is to rise.
    due: Time,
}

impl Level {
    const LOW: Level =
        Level { itr: 0, high: false, rose: None, wanted: Time::NEVER, due: Time::NEVER };

    /// Lets it rise at `at`, or when ITR allows it.
    fn want(&mut self, at: Time) {
        self.wanted = at;
        self.due = self.rose.map_or(at, |rose| at.max(rose + ITR_UNIT * u64::from(self.itr)));
    }

    /// Follows its causes. Returns true if it falls at once.
    fn follow(&mut self, at: Time, asserted: bool) -> bool {
        if !asserted {
            self.want(Time::NEVER);
            return core::mem::take(&mut self.high);
        }
        if !self.high && self.wanted == Time::NEVER {
            self.want(at);
        }
        false
    }

    fn rise(&mut self, at: Time) {
        self.high = true;
        self.rose = Some(at);
        self.want(Time::NEVER);
    }
}

/// MSI-X of the 82574.
#[derive(Clone, Debug)]
struct Messages {
    ivar: u32,
    /// Causes that a message clears, and causes that it disables.
    eiac: u32,
    iam: u32,
    /// Causes of each vector, by IVAR.
    causes: [u32; VECTORS],
    levels: [Level; VECTORS],
}

const VECTORS: usize = reg::VECTORS as usize;
/// Entries of IVAR, and their causes.
const ENTRIES: [(u32, u32); 5] = [
    (IVAR_RXQ0, INT_RXQ0),
    (IVAR_RXQ0 + 4, INT_RXQ0 << 1),
    (IVAR_TXQ0, INT_TXQ0),
    (IVAR_TXQ0 + 4, INT_TXQ0 << 1),
    (IVAR_OTHER, INT_OTHER),
];

impl Messages {
    fn set_ivar(&mut self, ivar: u32) {
        self.ivar = ivar & 0x800f_ffff;
        self.causes = [0; VECTORS];
        for (shift, cause) in ENTRIES {
            let entry = ivar >> shift & 0xf;
            let vector = self.causes.get_mut((entry & !IVAR_VALID) as usize);
            if let Some(causes) = vector.filter(|_| entry & IVAR_VALID != 0) {
                *causes |= cause;
            }
        }
    }

    fn due(&self) -> Time {
        self.levels.iter().fold(Time::NEVER, |due, l| due.min(l.due))
    }
}

/// Cause and mask registers, and the line or the vectors that follow from them.
#[derive(Clone, Debug)]
pub(super) struct Interrupts {
    pub(super) causes: u32,
    pub(super) mask: u32,
    pub(super) line: Level,
    messages: Option<Box<Messages>>,
    /// Causes that exist.
    exist: u32,
    /// IVAR has a valid entry.
    is_msix: bool,
    /// Time of the next rise.
    due: Time,
}

impl Interrupts {
    pub(super) fn new(variant: Variant) -> Interrupts {
        let (causes, levels) = ([0; VECTORS], [Level::LOW; VECTORS]);
        let messages = Messages { ivar: 0, eiac: 0, iam: 0, causes, levels };
        Interrupts {
            causes: 0,
            mask: 0,
            line: Level::LOW,
            messages: variant.is_82574().then(|| Box::new(messages)),
            exist: if variant.is_82574() { CAUSES_82574 } else { CAUSES },
            is_msix: false,
            due: Time::NEVER,
        }
    }

    /// Returns the time of the next rise.
    pub(super) fn due(&self) -> Time {
        self.due
    }

    /// Returns true if an unmasked cause is set.
    pub(super) fn is_asserted(&self) -> bool {
        self.causes & self.mask != 0
    }

    /// Returns true if each write-back of transmit descriptors interrupts, without delay.
    pub(super) fn every_write_back(&self) -> bool {
        self.messages.as_ref().is_some_and(|m| m.ivar & IVAR_EVERY_WB != 0)
    }

    #[inline]
    pub(super) fn raise(&mut self, at: Time, causes: u32) {
        let other = if causes & OTHERS != 0 { INT_OTHER } else { 0 };
        self.causes |= (causes | other) & self.exist;
        self.consider(at);
    }

    /// Enables causes.
    pub(super) fn enable(&mut self, causes: u32) {
        self.mask |= causes & self.exist;
    }

    /// Follows changed causes or mask. Returns true if the line falls at once.
    #[inline]
    pub(super) fn consider(&mut self, at: Time) -> bool {
        if self.is_msix {
            self.consider_vectors(at);
            return false;
        }
        let falls = self.line.follow(at, self.is_asserted());
        self.due = self.line.due;
        falls
    }

    #[inline(never)]
    fn consider_vectors(&mut self, at: Time) {
        let Some(m) = &mut self.messages else { return };
        for (level, causes) in m.levels.iter_mut().zip(m.causes) {
            level.follow(at, self.causes & self.mask & causes != 0);
        }
        self.due = m.due();
    }

    /// Returns the least time between two interrupts.
    pub(super) fn throttling(&self) -> Span {
        let vectors = self.messages.iter().flat_map(|m| &m.levels).map(|level| level.itr);
        ITR_UNIT * vectors.fold(self.line.itr, u32::max).into()
    }

    /// ITR has been written.
    pub(super) fn set_itr(&mut self, itr: u32) {
        self.line.itr = itr;
        self.line.want(self.line.wanted);
        if !self.is_msix {
            self.due = self.line.due;
        }
    }

    /// The line rises.
    pub(super) fn rise(&mut self, at: Time) {
        self.line.rise(at);
        self.due = Time::NEVER;
    }

    /// Returns true if the rises are those of vectors.
    pub(super) fn is_msix(&self) -> bool {
        self.is_msix
    }

    /// Lets the next vector of those that are due at `at` rise. Returns its number. Its causes that
    /// are in EIAC are cleared, and with `eiame` those in IAM disabled (82574 10.2.4).
    pub(super) fn message(&mut self, at: Time, eiame: bool) -> Option<u16> {
        let m = self.messages.as_mut()?;
        let vector = m.levels.iter().position(|l| l.due <= at)?;
        m.levels[vector].rise(at);
        let causes = m.causes[vector] & self.causes & self.mask;
        self.causes &= !(m.eiac & causes);
        if eiame {
            self.mask &= !(m.iam & causes);
        }
        self.consider_vectors(at);
        Some(vector as u16)
    }

    /// Returns a register that only the 82574 has.
    pub(super) fn read(&self, offset: u32) -> Option<u32> {
        let m = self.messages.as_ref()?;
        Some(match offset {
            reg::EIAC => m.eiac,
            reg::IAM => m.iam,
            reg::IVAR => m.ivar,
            _ => m.levels[eitr(offset)?].itr,
        })
    }

    /// Writes a register that only the 82574 has. Returns false if there is none.
    pub(super) fn write(&mut self, at: Time, offset: u32, v: u32) -> bool {
        let Some(m) = &mut self.messages else { return false };
        match offset {
            reg::EIAC => m.eiac = v & 0x01f0_0000,
            reg::IAM => m.iam = v,
            reg::IVAR => {
                m.set_ivar(v);
                self.is_msix = m.causes != [0; VECTORS];
                self.consider(at);
            }
            _ => {
                let Some(i) = eitr(offset) else { return false };
                let level = &mut m.levels[i];
                level.itr = v & 0xffff;
                level.want(level.wanted);
                if self.is_msix {
                    self.due = m.due();
                }
            }
        }
        true
    }

    /// Disables the causes in IAM, as reading ICR does with CTRL_EXT.IAME.
    pub(super) fn auto_mask(&mut self) {
        self.mask &= !self.messages.as_ref().map_or(0, |m| m.iam);
    }
}

/// Returns the vector of an EITR.
fn eitr(offset: u32) -> Option<usize> {
    let i = offset.wrapping_sub(reg::EITR) as usize;
    (i.is_multiple_of(4) && i / 4 < VECTORS).then_some(i / 4)
}

/// A pair of delay timers, of all queues.
#[derive(Clone, Debug)]
pub(super) struct Delay {
    packet: Time,
    absolute: Time,
    /// Queues whose packets started it: bits.
    queues: u32,
}

impl Default for Delay {
    fn default() -> Delay {
        Delay { packet: Time::NEVER, absolute: Time::NEVER, queues: 0 }
    }
}

impl Delay {
    /// Returns the end of the first of them.
    pub(super) fn due(&self) -> Time {
        self.packet.min(self.absolute)
    }

    /// A packet of a queue: `packet` units from now, at most `absolute` (0: no limit) from the
    /// first.
    pub(super) fn start(&mut self, at: Time, queue: usize, packet: u32, absolute: u32) {
        self.queues |= 1 << queue;
        self.packet = at + DELAY_UNIT * u64::from(packet);
        if absolute != 0 && self.absolute == Time::NEVER {
            self.absolute = at + DELAY_UNIT * u64::from(absolute);
        }
    }

    /// Both end now, if either is running or there is something to flush.
    pub(super) fn expire(&mut self, at: Time, anything: bool) {
        if anything || self.due() < Time::NEVER {
            self.packet = at;
        }
    }

    /// Takes a queue out, and stops if there is no other.
    pub(super) fn stop(&mut self, queue: usize) {
        self.queues &= !(1 << queue);
        if self.queues == 0 {
            *self = Delay::default();
        }
    }

    /// Ends. Returns the bits of its queues; without a packet, that of the first.
    pub(super) fn end(&mut self) -> u32 {
        core::mem::take(self).queues.max(1)
    }
}

#[cfg(test)]
mod tests;
