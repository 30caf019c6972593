//! The surroundings of a served device: sockets, output, clock, and the bill that all parts share.

use super::outlet::{Kind, Lost, Notices, Outlet};
use super::{bill::Bill, control::Control, metrics::Metrics};
use crate::args::ClientLimits;
use doorbell_console::Error;
use doorbell_console::output::print;
use doorbell_console::progress::Interrupt;
use doorbell_console::render::Format;
use doorbell_hal::{Span, Time};
use doorbell_host_io::sandbox::Sandbox;
use doorbell_vfio_user::Listener;
#[cfg(any(test, fuzzing))]
use std::cell::Cell;
use std::time::{Duration, Instant};
use std::{cell::RefCell, fmt::Arguments, io, rc::Rc};

/// Everything around a served device except its wire.
pub(super) struct ServeContext {
    /// Watched before anything is made that has to be removed.
    pub(super) stop: Interrupt,
    pub(super) socket: Listener,
    pub(super) metrics: Option<Metrics>,
    pub(super) control: Option<Control>,
    pub(super) format: Format,
    pub(super) quiet: bool,
    pub(super) notices: RefCell<Notices>,
    /// Stdout, unless another program collects it.
    pub(super) reports: Option<Outlet>,
    /// Guests' memory is allocated when it is handed over.
    pub(super) populate: bool,
    pub(super) limits: ClientLimits,
    /// Wrong checksums on the wire are a failure.
    pub(super) check_wire: bool,
    /// The confinement of the server when it is ready, if it is wanted.
    pub(super) sandbox: Option<Sandbox>,
}

impl ServeContext {
    /// Starts the threads that write.
    pub(super) fn start(&mut self) -> io::Result<()> {
        self.notices.get_mut().start()?;
        self.reports.as_mut().map_or(Ok(()), Outlet::start)
    }

    pub(super) fn notice(&self, kind: Kind, what: Arguments<'_>) {
        if !self.quiet {
            self.notices.borrow_mut().say(kind, what);
        }
    }

    /// Says even with `--quiet` what went wrong.
    pub(super) fn error(&self, what: Arguments<'_>) {
        self.notices.borrow_mut().put(what);
    }

    /// Shows a report while guests are served: it is lost if nobody read the ones before it.
    pub(super) fn show(&self, report: String) {
        let shown = match &self.reports {
            Some(stdout) => stdout.put(report.into(), false).map_err(|e| match e {
                Lost::Full => "a report is lost: nobody read the ones before it",
                Lost::Ended => "a report is lost: stdout is gone",
            }),
            None => print(&report).map_err(|_| "a report is lost: stdout is gone"),
        };
        if let Err(why) = shown {
            self.error(format_args!("{why}"));
        }
    }

    /// Shows the last report, and waits for its reader. A closed pipe is no error.
    pub(super) fn show_last(&mut self, report: String) -> Result<(), Error> {
        let Some(mut stdout) = self.reports.take() else { return print(&report) };
        // If the thread has ended, `finish` tells why.
        let _ = stdout.put(report.into(), true);
        match stdout.finish(None) {
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            shown => shown.map_err(Error::at("stdout")),
        }
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
