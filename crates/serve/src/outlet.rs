//! Descriptors whose readers are others: stderr, stdout and a trace, each written by a thread of
//! its own, so that a reader that stops stops nobody else.
//!
//! The loop puts bytes into a queue, and never waits for it unless the file is its own. What finds
//! the queue full is lost and counted.

use doorbell_console::render::count;
use doorbell_hal::{Span, Time};
use std::fmt::{Arguments, Write as _};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::Builder;
use std::time::Duration;

/// A writer of whole pieces.
type Put = Box<dyn FnMut(&[u8]) -> io::Result<()> + Send>;

/// A queue of bytes, and the thread that writes them.
pub(super) struct Outlet {
    queue: Option<SyncSender<Vec<u8>>>,
    /// The writer with its end of the queue, until it has a thread.
    begun: Option<Writer>,
    /// The result, once the thread has ended.
    ended: Receiver<io::Result<()>>,
}

struct Writer {
    name: &'static str,
    pieces: Receiver<Vec<u8>>,
    put: Put,
    end: SyncSender<io::Result<()>>,
}

impl Writer {
    fn work(mut self) {
        let written = self.pieces.iter().try_for_each(|piece| (self.put)(&piece));
        // Nobody waits for it any more, perhaps.
        let _ = self.end.send(written);
    }
}

/// A piece that was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Lost {
    /// The queue is full.
    Full,
    /// The writer has ended with an error.
    Ended,
}

impl Outlet {
    /// Makes a queue of `room` pieces for a writer.
    pub(super) fn new(name: &'static str, room: usize, put: Put) -> Outlet {
        let ((queue, pieces), (end, ended)) = (sync_channel(room), sync_channel(1));
        let begun = Some(Writer { name, pieces, put, end });
        Outlet { queue: Some(queue), begun, ended }
    }

    /// Makes a queue for a descriptor, which stays open.
    pub(super) fn of(name: &'static str, room: usize, to: impl AsFd) -> io::Result<Outlet> {
        let mut file = File::from(to.as_fd().try_clone_to_owned()?);
        Ok(Outlet::new(name, room, Box::new(move |piece| file.write_all(piece))))
    }

    /// Starts the thread. What was queued before is written then.
    pub(super) fn start(&mut self) -> io::Result<()> {
        match self.begun.take() {
            Some(writer) => {
                Builder::new().name(writer.name.into()).spawn(|| writer.work()).map(drop)
            }
            None => Ok(()),
        }
    }

    /// Queues a piece. With `wait` it waits for room.
    pub(super) fn put(&self, piece: Vec<u8>, wait: bool) -> Result<(), Lost> {
        let queue = self.queue.as_ref().ok_or(Lost::Ended)?;
        if wait && self.begun.is_none() {
            return queue.send(piece).map_err(|_| Lost::Ended);
        }
        queue.try_send(piece).map_err(|e| match e {
            TrySendError::Full(_) => Lost::Full,
            TrySendError::Disconnected(_) => Lost::Ended,
        })
    }

    /// Ends the queue, and waits until everything is written or `patience` has run out. A writer
    /// without a thread writes here. Once it has ended, nothing is left to do.
    pub(super) fn finish(&mut self, patience: Option<Duration>) -> io::Result<()> {
        if self.queue.take().is_none() {
            return Ok(());
        }
        if let Some(writer) = self.begun.take() {
            writer.work();
        }
        let ended = match patience {
            Some(patience) => self.ended.recv_timeout(patience).ok(),
            None => self.ended.recv().ok(),
        };
        ended.unwrap_or_else(|| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Subjects of notices, each with a bound of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Refused,
    Guest,
    Driver,
    Control,
    Uplink,
    Server,
}

impl Kind {
    const ALL: [Kind; 6] =
        [Kind::Refused, Kind::Guest, Kind::Driver, Kind::Control, Kind::Uplink, Kind::Server];

    const fn name(self) -> &'static str {
        match self {
            Kind::Refused => "rejected connections",
            Kind::Guest => "guests that came or went",
            Kind::Driver => "notices of drivers",
            Kind::Control => "lines of --control",
            Kind::Uplink => "changes of the uplink",
            Kind::Server => "notices of the server",
        }
    }
}

/// The most notices of a kind in so much time; the others are counted.
const MOST: u32 = 10;
const WITHIN: Span = Span::from_ms(10_000);
/// Notices that wait for the reader of stderr.
pub(super) const LINES: usize = 256;
/// The time that the reader of stderr has at the end.
const LAST: Duration = Duration::from_millis(500);

/// The notices of a kind since the first that was not long ago.
#[derive(Clone, Copy, Default)]
struct Said {
    since: Option<Time>,
    lines: u32,
    more: u64,
}

/// Notices on stderr, bounded by kind.
pub(super) struct Notices {
    out: Outlet,
    now: Time,
    said: [Said; Kind::ALL.len()],
    /// The time before which nothing that was left out is due.
    due: Time,
    /// Lines that found the queue full, since one did not.
    lost: u64,
}

impl Notices {
    pub(super) fn new(out: Outlet) -> Notices {
        let said = [Said::default(); Kind::ALL.len()];
        Notices { out, now: Time::ZERO, said, due: Time::NEVER, lost: 0 }
    }

    pub(super) fn start(&mut self) -> io::Result<()> {
        self.out.start()
    }

    /// Says something of a kind, unless enough of it was said already.
    pub(super) fn say(&mut self, kind: Kind, what: Arguments<'_>) {
        let said = &mut self.said[kind as usize];
        let since = *said.since.get_or_insert(self.now);
        self.due = self.due.min(since + WITHIN);
        if said.lines == MOST {
            said.more += 1;
            return;
        }
        said.lines += 1;
        self.put(what);
    }

    /// Says something, however much was said.
    pub(super) fn put(&mut self, what: Arguments<'_>) {
        let mut text = String::new();
        if self.lost > 0 {
            let lost = count(self.lost);
            let _ = writeln!(text, "doorbell: {lost} notices are lost: nobody read them");
        }
        text += &doorbell_console::output::notice(what);
        match self.out.put(text.into(), false) {
            Ok(()) => self.lost = 0,
            Err(_) => self.lost += 1,
        }
    }

    /// Lets time pass: says how many notices were left out.
    pub(super) fn at(&mut self, now: Time) {
        self.now = now;
        if now >= self.due {
            self.end_intervals();
        }
    }

    #[cold]
    fn end_intervals(&mut self) {
        self.due = Time::NEVER;
        for kind in Kind::ALL {
            let Said { since: Some(since), more, .. } = self.said[kind as usize] else { continue };
            if since + WITHIN <= self.now {
                self.said[kind as usize] = Said::default();
                self.left_out(kind, more);
            } else {
                self.due = self.due.min(since + WITHIN);
            }
        }
    }

    fn left_out(&mut self, kind: Kind, more: u64) {
        if more > 0 {
            self.put(format_args!("and {} more {}", count(more), kind.name()));
        }
    }

    /// Says what was left out, and gives the reader a last chance.
    pub(super) fn finish(&mut self) {
        for kind in Kind::ALL {
            let Said { more, .. } = std::mem::take(&mut self.said[kind as usize]);
            self.left_out(kind, more);
        }
        // A reader that does not read does not hold up the end; a closed stderr is no error.
        let _ = self.out.finish(Some(LAST));
    }
}

/// A server that an error ends, be it before it has threads, says what it had to say.
impl Drop for Notices {
    fn drop(&mut self) {
        self.finish();
    }
}

#[cfg(test)]
mod tests;
