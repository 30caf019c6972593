//! The device: `doorbell serve` as a child, and its counts.

use crate::Error;
use doorbell_host_io::child::ChildGuard;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Place of the page with counts, in a network namespace that nobody else is in.
const PAGE: &str = "127.0.0.1:9101";
/// Time in which a server that does not start has ended.
const START: Duration = Duration::from_secs(30);
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

/// A served device.
pub(crate) struct Server {
    child: ChildGuard,
    log: PathBuf,
    /// The socket for the guest.
    pub(crate) socket: PathBuf,
}

impl Server {
    /// Starts `doorbell serve` and waits for its socket. `arguments` are further ones.
    pub(crate) fn start(
        doorbell: &Path,
        device: &str,
        socket_option: &str,
        arguments: &[String],
        directory: &Path,
    ) -> Result<Server, Error> {
        let (socket, log) = (directory.join("socket"), directory.join("server.log"));
        let err = File::create(&log).map_err(Error::io(log.display()))?;
        let mut command = Command::new(doorbell);
        command.args(["serve", device, socket_option]).arg(&socket);
        command.args(["--metrics", PAGE, "--quiet"]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(err);
        let child =
            ChildGuard::spawn("doorbell serve", &mut command).map_err(Error::io("serve"))?;
        let mut server = Server { child, log, socket };
        let until = Instant::now() + START;
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
            let said = std::fs::read_to_string(&self.log).unwrap_or_default();
            Error::Server(format!("{e}\n{}", said.trim()))
        })
    }

    fn page(&mut self) -> Result<String, Error> {
        self.alive()?;
        let mut page = String::new();
        TcpStream::connect(PAGE)
            .and_then(|mut page_of| {
                page_of.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
                page_of.read_to_string(&mut page)
            })
            .map_err(Error::io("the server's counts"))?;
        Ok(page)
    }

    /// Returns its counts now.
    pub(crate) fn counts(&mut self) -> Result<Counts, Error> {
        Ok(Counts::parse(&self.page()?))
    }

    /// Returns its counts when nothing moves any more.
    pub(crate) fn at_rest(&mut self) -> Result<Counts, Error> {
        self.same(REST)
    }

    /// Waits until the driver has probably read what has come.
    pub(crate) fn lull(&mut self) -> Result<(), Error> {
        self.same(LULL).map(drop)
    }

    /// Returns its counts when they are the same `times`, `apart` from each other.
    fn same(&mut self, (times, apart): (usize, Duration)) -> Result<Counts, Error> {
        let mut last = self.counts()?;
        let mut same = 0;
        while same < times {
            std::thread::sleep(apart);
            let now = self.counts()?;
            same = if now == last { same + 1 } else { 0 };
            last = now;
        }
        Ok(last)
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
