//! The surroundings of a served device: sockets, output, clock, and the bill that all parts share.

use super::{bill::Bill, control::Control, metrics::Metrics};
use crate::args::ClientLimits;
use crate::output::tell;
use crate::progress::Interrupt;
use crate::render::Format;
use doorbell_hal::{Span, Time};
use doorbell_host_io::sandbox::Sandbox;
use doorbell_vfio_user::Listener;
#[cfg(any(test, fuzzing))]
use std::cell::Cell;
use std::time::{Duration, Instant};
use std::{cell::RefCell, fmt::Arguments, rc::Rc};

/// Everything around a served device except its wire.
pub(super) struct ServeContext {
    /// Watched before anything is made that has to be removed.
    pub(super) stop: Interrupt,
    pub(super) socket: Listener,
    pub(super) metrics: Option<Metrics>,
    pub(super) control: Option<Control>,
    pub(super) format: Format,
    pub(super) quiet: bool,
    /// Guests' memory is allocated when it is handed over.
    pub(super) populate: bool,
    pub(super) limits: ClientLimits,
    /// Wrong checksums on the wire are a failure.
    pub(super) check_wire: bool,
    /// The confinement of the server when it is ready, if it is wanted.
    pub(super) sandbox: Option<Sandbox>,
}

impl ServeContext {
    pub(super) fn notice(&self, what: Arguments<'_>) {
        if !self.quiet {
            self.error(what);
        }
    }

    /// Says even with `--quiet` what went wrong.
    pub(super) fn error(&self, what: Arguments<'_>) {
        tell(what);
    }
}

/// The time since the server began.
#[derive(Debug)]
pub(super) enum Clock {
    /// By this machine's clock, from then on.
    Since(Instant),
    /// By whoever drives the server.
    #[cfg(any(test, fuzzing))]
    Driven(Cell<Time>),
}

impl Clock {
    pub(super) fn now(&self) -> Time {
        match self {
            Clock::Since(began) => Time::ZERO + span(began.elapsed()),
            #[cfg(any(test, fuzzing))]
            Clock::Driven(now) => now.get(),
        }
    }
}

/// Returns the span of a duration.
pub(super) fn span(d: Duration) -> Span {
    Span::from_ns(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX / 1000))
}

/// The bill, shared by the loop and the ports of all guests.
pub(super) type SharedBill = Rc<RefCell<Bill>>;
