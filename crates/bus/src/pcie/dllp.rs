//! Data link layer packets: the acknowledgements and credits that answer TLPs.
//!
//! An answer is known when a TLP is told, not when a timer runs out: the TLP that opens a window
//! announces the DLLP at the window's end, and the others in it add nothing. TLPs may be told out
//! of order, so there is one window that only moves forward and one for stragglers: every TLP has
//! an Ack within its limit, and in order there are as few as can be. Sources: base specification
//! 2.6.1.2 and 3.5.3.1; pcie-model for [`DllpRule::Flat`].

use super::{LinkDirection, Rules};
use doorbell_hal::{Span, Time};

/// Bytes of a DLLP on the wire: 6 and two framing symbols, or 6 and a 2-byte token.
pub const DLLP_BYTES: u32 = 8;

/// The DLLPs that are booked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DllpRule {
    /// None: TLPs only.
    None,
    /// An Ack for each TLP and an UpdateFC for each request, at once.
    PerRequest,
    /// One Ack for all TLPs within an Ack limit, one UpdateFC for all requests of a credit type
    /// within an UpdateFC limit, each when its limit runs out.
    Timer,
    /// None, but the link is slower by pcie-model's share for Acks, UpdateFCs and SKP sets.
    Flat,
}

/// The flow-control class of a TLP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Memory writes and messages.
    Posted,
    /// Memory reads.
    NonPosted,
    /// Completions.
    Completion,
}

/// The specification's Ack limit in symbol times (base specification 5.0, tables 3-7 to 3-9),
/// which is its UpdateFC guide value too (2-46 to 2-48), by formula.
pub const fn ack_limit(generation: u32, lanes: u32, mps: u32) -> u32 {
    let factor_tenths = match (lanes, mps) {
        (0..=4, ..512) => 14,
        (8, ..512) => 25,
        (16.., ..512) => 30,
        (16.., _) => 20,
        _ => 10,
    };
    let delay = match generation {
        1 => 19,
        2 => 70,
        _ => 115,
    };
    (mps + 28) * factor_tenths / (10 * lanes) + delay
}

/// pcie-model's share of the link that is left for TLPs, as (whole, left):
/// 1 - 8/ack - 8/fc - 4/1538. Not zero for limits of 32 and above.
pub(super) const fn flat_share(ack: u32, fc: u32) -> (u64, u64) {
    let (ack, fc) = (ack as u64, fc as u64);
    let whole = ack * fc * 769;
    (whole, whole - 8 * 769 * (ack + fc) - 2 * ack * fc)
}

/// The DLLPs that TLPs have caused, to be booked against the TLPs' direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dllps {
    /// Ack packets.
    pub acks: u32,
    /// The time at which they are sent; meaningless if there are none.
    pub acks_at: Time,
    /// UpdateFC packets.
    pub updates: u32,
    /// The time at which they are sent; meaningless if there are none.
    pub updates_at: Time,
}

impl Dllps {
    /// Bytes of all of them on the wire.
    #[inline]
    pub const fn bytes(self) -> u32 {
        (self.acks + self.updates) * DLLP_BYTES
    }
}

/// A span of time, `first` up to `end`, in whose last picosecond one DLLP answers all TLPs that
/// arrived in it.
#[derive(Clone, Copy, Debug)]
struct Window {
    first: Time,
    end: Time,
}

impl Window {
    const EMPTY: Window = Window { first: Time::ZERO, end: Time::ZERO };

    #[inline]
    fn holds(&self, at: Time) -> bool {
        self.first <= at && at < self.end
    }
}

/// One kind of DLLP, coalesced.
#[derive(Clone, Copy, Debug)]
struct Coalesced {
    latest: Window,
    stragglers: Window,
}

impl Coalesced {
    const NEW: Coalesced = Coalesced { latest: Window::EMPTY, stragglers: Window::EMPTY };

    /// Counts a TLP at `at`. Returns when to send a DLLP for it, unless an announced one will do.
    #[inline]
    fn tell(&mut self, at: Time, limit: Span) -> Option<Time> {
        if self.latest.holds(at) {
            return None;
        }
        let window = if at >= self.latest.end { &mut self.latest } else { &mut self.stragglers };
        if window.holds(at) {
            return None;
        }
        let due = at + limit;
        *window = Window { first: at, end: due + Span::from_ps(1) };
        Some(due)
    }
}

/// The DLLPs owed for the TLPs of one direction.
#[derive(Clone, Copy, Debug)]
struct Owed {
    ack: Coalesced,
    posted: Coalesced,
    non_posted: Coalesced,
}

/// The link layer's bookkeeping of one link, both directions.
#[derive(Clone, Debug)]
pub struct DllpState {
    rule: DllpRule,
    ack_limit: Span,
    fc_limit: Span,
    /// The debts by direction of the TLPs: upstream, downstream.
    owed: [Owed; 2],
}

impl DllpState {
    /// A link on which nothing has been sent.
    pub const fn new(rules: &Rules) -> DllpState {
        let symbol_ps = match rules.settings.generation {
            1 => 4000,
            2 => 2000,
            3 => 1000,
            4 => 500,
            _ => 250,
        };
        let owed = Owed { ack: Coalesced::NEW, posted: Coalesced::NEW, non_posted: Coalesced::NEW };
        DllpState {
            rule: rules.settings.dllp,
            ack_limit: Span::from_ps(rules.ack_limit as u64 * symbol_ps),
            fc_limit: Span::from_ps(rules.fc_limit as u64 * symbol_ps),
            owed: [owed; 2],
        }
    }

    /// `count` TLPs of one class have arrived, the last of them at `at`. The answer travels
    /// [`LinkDirection::opposite`] to them.
    #[inline]
    pub fn tlps(&mut self, toward: LinkDirection, class: Class, count: u32, at: Time) -> Dllps {
        let mut dllps = Dllps { acks: 0, acks_at: at, updates: 0, updates_at: at };
        match self.rule {
            DllpRule::None | DllpRule::Flat => {}
            DllpRule::PerRequest => {
                dllps.acks = count;
                dllps.updates = if class == Class::Completion { 0 } else { count };
            }
            DllpRule::Timer if count == 0 => {}
            DllpRule::Timer => {
                let owed = &mut self.owed[toward as usize];
                if let Some(due) = owed.ack.tell(at, self.ack_limit) {
                    (dllps.acks, dllps.acks_at) = (1, due);
                }
                let credits = match class {
                    Class::Posted => &mut owed.posted,
                    Class::NonPosted => &mut owed.non_posted,
                    Class::Completion => return dllps,
                };
                if let Some(due) = credits.tell(at, self.fc_limit) {
                    (dllps.updates, dllps.updates_at) = (1, due);
                }
            }
        }
        dllps
    }
}

#[cfg(test)]
mod tests;
