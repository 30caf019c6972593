//! The reader of the plug-in's counts.

use super::{Event, Profile, Symbols, Work};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Version of the protocol, as in the plug-in's `count`.
const VERSION: u64 = u64::from_be_bytes(*b"dbcount\x02");
/// Number of addresses if device accesses are not counted.
pub(super) const NOT_COUNTED: u64 = u64::MAX;
/// Longest answer. A full table of the plug-in has 320 MiB.
const LONGEST: u64 = 1 << 30;
/// Time for an answer, unless it is set. A busy host starts QEMU in seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const WORD: usize = size_of::<u64>();

/// A socket at which QEMU's plug-in reports counts.
#[derive(Debug)]
pub struct Counter {
    path: PathBuf,
    mmio: bool,
    inside: bool,
    patience: Duration,
    peer: Peer,
}

#[derive(Debug)]
enum Peer {
    /// QEMU has not connected, or it has and nothing was read yet.
    Awaited(UnixListener),
    Connected(UnixStream),
    /// An answer failed, and the rest of it may still come.
    Lost,
}

/// Counts since the guest's start, by address of the instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    work: BTreeMap<u64, Work>,
    unlisted: Work,
    mmio: bool,
    inside: Vec<Inside>,
}

/// Calls of the functions of an event, and the instructions inside them by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Inside {
    pub(super) calls: u64,
    /// Calls whose end was not seen.
    pub(super) lost: u64,
    pub(super) executed: BTreeMap<u64, u64>,
}

impl Inside {
    fn since(&self, earlier: &Inside) -> Inside {
        let difference = |(address, now): (&u64, &u64)| {
            let before = earlier.executed.get(address).copied().unwrap_or(0);
            now.checked_sub(before).filter(|n| *n > 0).map(|n| (*address, n))
        };
        Inside {
            calls: self.calls.saturating_sub(earlier.calls),
            lost: self.lost.saturating_sub(earlier.lost),
            executed: self.executed.iter().filter_map(difference).collect(),
        }
    }
}

/// Instructions that the guest executed between two snapshots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed {
    pub(super) work: BTreeMap<u64, Work>,
    pub(super) unlisted: Work,
    pub(super) mmio: bool,
    /// By event, in the order of [`Event::ALL`], if they were followed.
    pub(super) inside: Vec<Inside>,
}

impl Counter {
    /// Listens at `path`, for a plug-in that counts instructions.
    pub fn bind(path: impl Into<PathBuf>) -> io::Result<Counter> {
        let path = path.into();
        let listener = UnixListener::bind(&path)?;
        Ok(Counter {
            path,
            mmio: false,
            inside: false,
            patience: PATIENCE,
            peer: Peer::Awaited(listener),
        })
    }

    /// Has loads and stores of device memory counted too. The guest gets slow.
    #[must_use]
    pub fn with_mmio(mut self) -> Counter {
        self.mmio = true;
        self
    }

    /// Has calls of functions followed, which [`Counter::follow`] names.
    #[must_use]
    pub fn with_inside(mut self) -> Counter {
        self.inside = true;
        self
    }

    /// Sets the time for one answer, the wait for QEMU's connection included.
    #[must_use]
    pub fn with_patience(mut self, patience: Duration) -> Counter {
        self.patience = patience;
        self
    }

    /// Returns the plug-in's arguments for QEMU: `-plugin file=FILE,` and this.
    pub fn argument(&self) -> String {
        // QEMU reads a doubled comma as one that belongs to the value.
        let path = self.path.to_string_lossy().replace(',', ",,");
        let mmio = if self.mmio { ",mmio=on" } else { "" };
        format!("count={path}{mmio}{}", if self.inside { ",inside=on" } else { "" })
    }

    /// Has the calls of a function followed that begins at an address, in hexadecimal digits. It
    /// must not have been executed yet.
    pub fn follow(&mut self, event: Event, address: &str) -> io::Result<()> {
        let deadline = Instant::now() + self.patience;
        let stream = self.connected(deadline)?;
        stream.write_all(format!("inside {} {address}\n", event.name()).as_bytes())?;
        // When this is answered, the function is known.
        self.read().map(drop)
    }

    /// Reads the counts. The first call waits for QEMU's connection.
    ///
    /// The guest goes on meanwhile: for exact differences, read while it waits for input.
    pub fn read(&mut self) -> io::Result<Snapshot> {
        let deadline = Instant::now() + self.patience;
        let snapshot = self.connected(deadline).and_then(|stream| ask(stream, deadline));
        if snapshot.is_err() && matches!(self.peer, Peer::Connected(_)) {
            self.peer = Peer::Lost;
        }
        snapshot
    }

    fn connected(&mut self, deadline: Instant) -> io::Result<&mut UnixStream> {
        if let Peer::Awaited(listener) = &self.peer {
            let ready = &mut [PollFd::new(listener, PollFlags::IN)];
            let left = Timespec::try_from(left(deadline)?).map_err(io::Error::other)?;
            if poll(ready, Some(&left))? == 0 {
                return Err(late("QEMU's plug-in did not connect"));
            }
            self.peer = Peer::Connected(listener.accept()?.0);
        }
        match &mut self.peer {
            Peer::Connected(stream) => Ok(stream),
            _ => Err(io::Error::new(ErrorKind::NotConnected, "an earlier answer failed")),
        }
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        // It may be removed already, with its directory.
        _ = std::fs::remove_file(&self.path);
    }
}

fn late(what: &str) -> io::Error {
    io::Error::new(ErrorKind::TimedOut, what)
}

/// Returns the time to the deadline.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(late("the plug-in did not answer in time")) } else { Ok(left) }
}

/// Asks for the counts once.
fn ask(stream: &mut UnixStream, deadline: Instant) -> io::Result<Snapshot> {
    stream.set_write_timeout(Some(left(deadline)?))?;
    stream.write_all(b"read\n")?;
    let mut length = [0; WORD];
    fill(stream, &mut length, deadline)?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST || !length.is_multiple_of(WORD as u64) {
        return Err(malformed("its length is not possible"));
    }
    let mut answer = vec![0; length as usize];
    fill(stream, &mut answer, deadline)?;
    Snapshot::decode(&answer)
}

/// Reads into all of `buffer`.
fn fill(stream: &mut UnixStream, mut buffer: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !buffer.is_empty() {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(buffer) {
            Ok(0) => return Err(io::Error::new(ErrorKind::UnexpectedEof, "QEMU ended")),
            Ok(n) => buffer = &mut buffer[n..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn malformed(why: &str) -> io::Error {
    let text =
        format!("the plug-in's answer is malformed: {why}; build plug-in and reader together");
    io::Error::new(ErrorKind::InvalidData, text)
}

impl Snapshot {
    /// Reads an answer of the plug-in, without its length.
    pub(super) fn decode(answer: &[u8]) -> io::Result<Snapshot> {
        let (words, rest) = answer.as_chunks::<WORD>();
        let mut words = words.iter().map(|w| u64::from_le_bytes(*w));
        let mut next = || words.next().ok_or_else(|| malformed("it is too short"));
        if next()? != VERSION {
            return Err(malformed("its version is another"));
        }
        let mut snapshot = Snapshot::default();
        snapshot.unlisted.instructions = next()?;
        for _ in 0..next()? {
            let address = next()?;
            snapshot.work.entry(address).or_default().instructions = next()?;
        }
        let accesses = next()?;
        snapshot.mmio = accesses != NOT_COUNTED;
        for _ in 0..if snapshot.mmio { accesses } else { 0 } {
            let address = next()?;
            let work = match address {
                NOT_COUNTED => &mut snapshot.unlisted,
                _ => snapshot.work.entry(address).or_default(),
            };
            (work.loads, work.stores) = (next()?, next()?);
        }
        let kinds = next()?;
        if kinds > Event::ALL.len() as u64 {
            return Err(malformed("it has too many kinds"));
        }
        for _ in 0..kinds {
            let mut inside = Inside { calls: next()?, lost: next()?, executed: BTreeMap::new() };
            for _ in 0..next()? {
                let address = next()?;
                inside.executed.insert(address, next()?);
            }
            snapshot.inside.push(inside);
        }
        if words.next().is_some() || !rest.is_empty() {
            return Err(malformed("it is too long"));
        }
        Ok(snapshot)
    }

    /// Reads an answer of the plug-in with its length in front, as it is in a file.
    pub(crate) fn of_message(message: &[u8]) -> io::Result<Snapshot> {
        Snapshot::decode(message.get(WORD..).unwrap_or_default())
    }

    /// Returns what the guest executed after `earlier`, which is a snapshot of the same guest.
    pub fn since(&self, earlier: &Snapshot) -> Executed {
        let difference = |(address, now): (&u64, &Work)| {
            let before = earlier.work.get(address).copied().unwrap_or_default();
            let work = now.since(before);
            (!work.is_nothing()).then_some((*address, work))
        };
        Executed {
            work: self.work.iter().filter_map(difference).collect(),
            unlisted: self.unlisted.since(earlier.unlisted),
            mmio: self.mmio,
            inside: self.inside_since(earlier),
        }
    }

    /// Returns all instructions that the guest has executed.
    pub fn instructions(&self) -> u64 {
        self.work.values().chain([&self.unlisted]).map(|work| work.instructions).sum()
    }

    fn inside_since(&self, earlier: &Snapshot) -> Vec<Inside> {
        let none = Inside::default();
        let before = |n: usize| earlier.inside.get(n).unwrap_or(&none);
        self.inside.iter().enumerate().map(|(n, now)| now.since(before(n))).collect()
    }
}

impl Executed {
    /// Returns execution that consists of these instructions: addresses and counts.
    pub fn from_counts(counts: impl IntoIterator<Item = (u64, u64)>) -> Executed {
        let mut executed = Executed::default();
        for (address, instructions) in counts {
            executed.work.entry(address).or_default().add(Work { instructions, ..Work::default() });
        }
        executed
    }

    /// Returns all work.
    pub fn total(&self) -> Work {
        self.work.values().copied().chain([self.unlisted]).sum()
    }

    /// Returns the work of instructions at these addresses. Unlisted work has no address.
    pub fn within(&self, addresses: Range<u64>) -> Work {
        if addresses.is_empty() {
            return Work::default();
        }
        self.work.range(addresses).map(|(_, work)| *work).sum()
    }

    /// Returns addresses and their work, in ascending order.
    pub fn by_address(&self) -> impl Iterator<Item = (u64, Work)> {
        self.work.iter().map(|(address, work)| (*address, *work))
    }

    /// Returns the work at addresses for which the plug-in's table had no room.
    pub fn unlisted(&self) -> Work {
        self.unlisted
    }

    /// Returns whether loads and stores of device memory were counted.
    pub fn has_mmio(&self) -> bool {
        self.mmio
    }

    /// Returns the work by function.
    pub fn profile(&self, symbols: &Symbols) -> Profile {
        Profile::of(self, symbols)
    }
}
