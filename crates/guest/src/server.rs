//! The device: `doorbell serve` as a child, and its counts.

use crate::Error;
use crate::device::{Device, Reached};
use crate::log::{CHUNK, Kept};
use crate::net::{MAC, text};
use doorbell_host_io::child::ChildGuard;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// The port of the next server's page with counts, in a network namespace that nobody else is in.
static NEXT_PORT: AtomicU16 = AtomicU16::new(9101);
/// Time after which a server that does not start or end hangs.
const PATIENCE: Duration = Duration::from_secs(300);
/// The longest page with counts.
const LONGEST: usize = 1 << 20;
/// The name of the server in its logs.
const SERVER: &str = "the server";
/// The counts rest when they are the same so many times, that far apart.
const REST: (usize, Duration) = (3, Duration::from_millis(50));
/// The same between frames: a driver that takes longer has them in its ring.
const LULL: (usize, Duration) = (2, Duration::from_millis(5));

/// The counts of a server by name.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// The ledger: all that crossed between guest and device.
    pub ledger: BTreeMap<String, u64>,
    /// The device's own counters.
    pub device: BTreeMap<String, u64>,
}

impl Counts {
    /// Parses the server's page (Prometheus' text format).
    fn parse(page: &str) -> Counts {
        let mut all = Counts::default();
        for (name, value) in page.lines().filter_map(count) {
            match name.strip_prefix("device_") {
                Some(name) => all.device.insert(name.to_owned(), value),
                None => all.ledger.insert(name.to_owned(), value),
            };
        }
        // Of the server, not of the bus.
        all.ledger.remove("clients");
        all
    }

    /// Returns the frames on the wire, in both directions. A large send is cut where it is counted.
    pub(crate) fn frames(&self) -> u64 {
        ["wire_frames", "arrived_frames"].iter().filter_map(|name| self.ledger.get(*name)).sum()
    }

    /// Returns what was added since `earlier`.
    pub(crate) fn since(&self, earlier: &Counts) -> Counts {
        let added = |now: &BTreeMap<String, u64>, then: &BTreeMap<String, u64>| {
            let before = |k: &String| then.get(k).copied().unwrap_or(0);
            now.iter().map(|(k, v)| (k.clone(), v.saturating_sub(before(k)))).collect()
        };
        Counts {
            ledger: added(&self.ledger, &earlier.ledger),
            device: added(&self.device, &earlier.device),
        }
    }
}

/// A served device: `doorbell serve` in the background. It is killed when it is dropped.
pub struct Server {
    child: ChildGuard,
    log: Kept,
    report: Kept,
    page: (&'static str, u16),
    socket: PathBuf,
}

impl Server {
    /// Starts `doorbell serve` and waits for its socket. `doorbell` is the program with what comes
    /// first of its arguments, `arguments` are further ones. `directory` is for socket, log and
    /// report.
    ///
    /// # Panics
    /// Panics if `doorbell` is empty.
    pub fn start(
        doorbell: &[OsString],
        device: &Device,
        arguments: &[String],
        directory: &Path,
    ) -> Result<Server, Error> {
        let [socket, log, report] =
            ["socket", "server.log", "report.json"].map(|name| directory.join(name));
        let (words, printed) = (Kept::create(&log)?, Kept::create(&report)?);
        let page = ("127.0.0.1", NEXT_PORT.fetch_add(1, Ordering::Relaxed));
        let mut command = Command::new(&doorbell[0]);
        command.args(&doorbell[1..]).args(["serve", device.name]);
        match device.reached {
            Reached::Calls { .. } => command.arg("--plugin-socket"),
            // The device tree has its address.
            Reached::DeviceTree => command.arg("--socket"),
            Reached::VfioUser { .. } | Reached::Qemu { .. } | Reached::Socket { .. } => {
                command.args(["--mac", &text(MAC), "--socket"])
            }
        };
        command.arg(&socket).args(["--metrics", &format!("{}:{}", page.0, page.1)]);
        command.args(["--quiet", "--format", "json"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            ChildGuard::spawn("doorbell serve", &mut command).map_err(Error::io("serve"))?;
        let (Some(stdout), Some(stderr)) = (child.take_stdout(), child.take_stderr()) else {
            unreachable!("both are pipes");
        };
        let log = Kept::follow(stderr, words, log, SERVER);
        let report = Kept::follow(stdout, printed, report, SERVER);
        let mut server = Server { child, log, report, page, socket };
        let until = Instant::now() + PATIENCE;
        while !server.socket.exists() {
            server.alive()?;
            if Instant::now() > until {
                return Err(Error::Server("it has no socket".to_owned()));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Fails if it has ended.
    pub(crate) fn alive(&mut self) -> Result<(), Error> {
        self.child.alive().map_err(|e| {
            let said = self.log.last_words();
            Error::Server(format!("{e}\n{said}"))
        })
    }

    /// Returns its socket for guests.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Pulls the cable of the device out, or puts it in again.
    pub fn pull_or_put_cable(&mut self) -> Result<(), Error> {
        self.child.signal(Signal::USR2).map_err(Error::io("serve"))
    }

    /// Ends it. Returns its report in JSON.
    pub fn end(&mut self) -> Result<String, Error> {
        self.alive()?;
        self.child.signal(Signal::TERM).map_err(Error::io("serve"))?;
        let status = self.child.wait(PATIENCE).map_err(Error::io("serve"))?;
        if !status.success() {
            let said = self.log.last_words();
            return Err(Error::Server(format!("{status}\n{said}")));
        }
        self.report.text().map_err(Error::io("the server's report"))
    }

    /// Returns the page with its counts, in Prometheus' text format.
    pub fn page(&mut self) -> Result<String, Error> {
        self.alive()?;
        let until = Instant::now() + PATIENCE;
        TcpStream::connect(self.page)
            .and_then(|mut page_of| {
                page_of.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
                read_all(page_of, until, LONGEST)
            })
            .map_err(Error::io("the server's counts"))
    }

    /// Returns its counts now.
    pub(crate) fn counts(&mut self) -> Result<Counts, Error> {
        Ok(Counts::parse(&self.page()?))
    }

    /// Returns its counts when nothing moves any more.
    pub(crate) fn at_rest(&mut self) -> Result<Counts, Error> {
        settled(|| self.counts(), REST, PATIENCE)
    }

    /// Waits until the driver has probably read what has come.
    pub(crate) fn lull(&mut self) -> Result<(), Error> {
        settled(|| self.counts(), LULL, PATIENCE).map(drop)
    }
}

/// Returns counts when they are the same `times`, `apart` from each other. Fails if they move for
/// `patience`.
fn settled(
    mut counts: impl FnMut() -> Result<Counts, Error>,
    (times, apart): (usize, Duration),
    patience: Duration,
) -> Result<Counts, Error> {
    let until = Instant::now() + patience;
    let mut last = counts()?;
    let mut same = 0;
    while same < times {
        if Instant::now() > until {
            return Err(Error::Server("its counts do not come to rest".to_owned()));
        }
        std::thread::sleep(apart);
        let now = counts()?;
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
    Ok(last)
}

/// Reads a stream to its end: at most so many bytes, and not after `until`.
fn read_all(mut from: TcpStream, until: Instant, longest: usize) -> io::Result<String> {
    let (mut all, mut chunk) = (Vec::new(), [0; CHUNK]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        from.set_read_timeout(Some(left))?;
        match from.read(&mut chunk) {
            Ok(0) => return Ok(String::from_utf8_lossy(&all).into_owned()),
            Ok(n) => all.extend_from_slice(&chunk[..n]),
            // Of the time, too: the loop tells.
            Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(e) => return Err(e),
        }
        if all.len() > longest {
            return Err(ErrorKind::FileTooLarge.into());
        }
    }
}

/// Parses `doorbell_NAME_total{device="…"} COUNT`.
fn count(line: &str) -> Option<(&str, u64)> {
    let (name, rest) = line.strip_prefix("doorbell_")?.split_once("_total{")?;
    let (_, value) = rest.split_once("} ")?;
    Some((name, value.parse().ok()?))
}

#[cfg(test)]
mod tests;
