//! The counts as a page for Prometheus (text format 0.0.4), over plain HTTP on any path.
//! Connections are served between other work: a request that is incomplete after some time, or is
//! longer than 4 KiB, is dropped.

use super::report::Report;
use crate::args::ClientLimits;
use doorbell_console::{Error, input, plain};
use doorbell_hal::{Span, Time};
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes of a request at the most.
const LONGEST: usize = 4096;
/// The answer to a request for another host than this one, such as a page in a browser makes whose
/// name was given this address.
const ANOTHER: &str =
    "HTTP/1.1 421 Misdirected Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
/// The end of a request's head.
const END: &[u8] = b"\r\n\r\n";
/// Time after a failed accept during which there is no other.
const REST: Span = Span::from_ms(100);
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
                    Connection: close\r\n";

/// The state of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    /// More of it has to come.
    Waiting,
    /// Its head is there.
    Whole,
    /// It is longer than allowed.
    Endless,
}

/// A request, as far as it has come.
#[derive(Debug, Default)]
struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// Adds bytes, up to the most that a request may have. Returns what it is now.
    fn add(&mut self, bytes: &[u8]) -> Progress {
        // The end may lie on both sides of the cut.
        let from = self.bytes.len().saturating_sub(END.len() - 1);
        self.bytes.extend(bytes.iter().take(LONGEST - self.bytes.len()));
        if self.bytes[from..].windows(END.len()).any(|w| w == END) {
            Progress::Whole
        } else if self.bytes.len() == LONGEST {
            Progress::Endless
        } else {
            Progress::Waiting
        }
    }
}

/// Returns the host in the head of a request, without its port, if it names one.
fn host_of(head: &[u8]) -> Option<&str> {
    let lines = head.split(|b| *b == b'\n').skip(1);
    let mut fields = lines.filter_map(|line| std::str::from_utf8(line).ok()?.split_once(':'));
    let (_, value) = fields.find(|(name, _)| name.eq_ignore_ascii_case("host"))?;
    Some(without_port(value.trim()))
}

/// Returns an address without its port, and without the brackets of IPv6.
fn without_port(address: &str) -> &str {
    match address.strip_prefix('[').and_then(|v6| v6.split_once(']')) {
        Some((v6, _)) => v6,
        None => address.rsplit_once(':').map_or(address, |(host, _)| host),
    }
}

/// The server of the page.
pub(super) struct Metrics {
    listener: TcpListener,
    /// Address that it listens on; the system has chosen port 0's number.
    pub(super) address: SocketAddr,
    /// The host of `--metrics`.
    named: String,
    waiting: Vec<(TcpStream, Request, Time)>,
    listens_from: Time,
    /// The most connections.
    most: usize,
    /// The longest time for a request.
    patience: Span,
}

impl Metrics {
    pub(super) fn listen(address: &str, limits: &ClientLimits) -> Result<Metrics, Error> {
        let wrong = |e: std::io::Error| {
            let e = plain(&e);
            input!("--metrics {address}: {e}; allowed is a local address, such as 127.0.0.1:9100")
        };
        let listener = TcpListener::bind(address).map_err(wrong)?;
        listener.set_nonblocking(true).map_err(wrong)?;
        let bound = listener.local_addr().map_err(wrong)?;
        let (listens_from, most) = (Time::ZERO, limits.metrics_clients.into());
        let patience = Span::from_ms(1000 * u64::from(limits.metrics_timeout));
        let (waiting, named) = (Vec::new(), without_port(address).to_owned());
        Ok(Metrics { named, listener, address: bound, waiting, listens_from, most, patience })
    }

    /// Returns the descriptors to wait for.
    pub(super) fn fds(&self, now: Time) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listens = self.waiting.len() < self.most && now >= self.listens_from;
        let listener = listens.then(|| self.listener.as_fd());
        self.waiting.iter().map(|(s, ..)| s.as_fd()).chain(listener)
    }

    /// Returns true for this server's host: the one of `--metrics`, an IP address on which it
    /// listens, or `localhost`. A request without any is not a browser's.
    fn is_own(named: &str, listens: IpAddr, head: &[u8]) -> bool {
        let Some(host) = host_of(head) else { return true };
        let listens_at = |ip: IpAddr| ip == listens || listens.is_unspecified();
        host.eq_ignore_ascii_case(named)
            || host.parse().is_ok_and(listens_at)
            || (host.eq_ignore_ascii_case("localhost")
                && (listens.is_loopback() || listens.is_unspecified()))
    }

    /// Serves the connections that are `ready`, given in the order of [`Metrics::fds`].
    pub(super) fn serve(&mut self, now: Time, ready: &[bool], report: impl Fn() -> Report) {
        let mut ready = ready.iter().copied();
        let (named, listens) = (&self.named, self.address.ip());
        self.waiting.retain_mut(|(stream, asked, since)| {
            if !ready.next().unwrap_or(false) {
                return now.since(*since) < self.patience;
            }
            let mut chunk = [0; 1024];
            let progress = match stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(n) => asked.add(&chunk[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    Progress::Waiting
                }
                Err(_) => return false,
            };
            if progress == Progress::Whole {
                let answer = if Metrics::is_own(named, listens, &asked.bytes) {
                    let page = page(&report());
                    format!("{HEAD}Content-Length: {}\r\n\r\n{page}", page.len())
                } else {
                    ANOTHER.to_owned()
                };
                // It fits the socket's buffer; a reader that has gone is no error.
                let _ = stream.write_all(answer.as_bytes());
            }
            progress == Progress::Waiting && now.since(*since) < self.patience
        });
        if !ready.next().unwrap_or(false) {
            return;
        }
        match self.listener.accept() {
            Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                self.waiting.push((stream, Request::default(), now));
            }
            // No descriptor is left, perhaps; the connection stays where it is.
            _ => self.listens_from = now + REST,
        }
    }
}

/// Renders the counts for Prometheus.
pub(super) fn page(r: &Report) -> String {
    let mut text = String::new();
    let mut put = |kind: &str, name: &str, about: &str, v: u64| {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "# HELP doorbell_{name} {about}\n# TYPE doorbell_{name} {kind}\n\
             doorbell_{name}{{device=\"{}\"}} {v}\n",
            r.device
        );
    };
    put("gauge", "client_connected", "Whether a client is connected.", u64::from(r.connected));
    put("counter", "clients_total", "Clients so far.", r.clients);
    for (name, about, v) in &r.ledger {
        put("counter", &format!("{name}_total"), about, *v);
    }
    for (name, v) in &r.counters {
        put("counter", &format!("device_{name}_total"), "Counted by the device itself.", *v);
    }
    text
}

/// Reads a request whose bytes come in parts, of lengths that the first bytes give. Returns true if
/// it is answered.
///
/// # Panics
/// Panics if it is not what its bytes as a whole are, or is kept beyond the limit.
#[cfg(any(test, fuzzing))]
pub(crate) fn request_in_parts(bytes: &[u8]) -> bool {
    let (cuts, whole) = bytes.split_at(bytes.len().min(8));
    let (mut request, mut progress, mut rest) = (Request::default(), Progress::Waiting, whole);
    for cut in cuts.iter().map(|c| usize::from(*c) * 4 + 1).cycle().take(LONGEST) {
        if progress != Progress::Waiting || rest.is_empty() {
            break;
        }
        let part;
        (part, rest) = rest.split_at(cut.min(rest.len()));
        progress = request.add(part);
        assert!(request.bytes.len() <= LONGEST, "{} bytes are kept", request.bytes.len());
    }
    let read = &whole[..whole.len().min(LONGEST)];
    let expected = match read.windows(END.len()).any(|w| w == END) {
        true => Progress::Whole,
        false if read.len() == LONGEST => Progress::Endless,
        false => Progress::Waiting,
    };
    assert_eq!(progress, expected, "{} bytes", whole.len());
    progress == Progress::Whole
}

#[cfg(test)]
mod tests;
