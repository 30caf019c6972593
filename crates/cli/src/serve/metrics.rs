//! The counts as a page for Prometheus (text format 0.0.4), over plain HTTP on any path.
//! Connections are served between other work: a request that is incomplete after some time, or is
//! longer than 4 KiB, is dropped.

use super::report::Report;
use crate::{Error, args::ClientLimits, error::plain, input};
use doorbell_hal::{Span, Time};
use std::fmt::Write as _;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};

const LONGEST: usize = 4096;
/// Time after a failed accept during which there is no other.
const REST: Span = Span::from_ms(100);
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
                    Connection: close\r\n";

/// The server of the page.
pub(super) struct Metrics {
    listener: TcpListener,
    waiting: Vec<(TcpStream, Vec<u8>, Time)>,
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
        let (listens_from, most) = (Time::ZERO, limits.metrics_clients.into());
        let patience = Span::from_ms(1000 * u64::from(limits.metrics_timeout));
        Ok(Metrics { listener, waiting: Vec::new(), listens_from, most, patience })
    }

    /// Returns the descriptors to wait for.
    pub(super) fn fds(&self, now: Time) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listens = self.waiting.len() < self.most && now >= self.listens_from;
        let listener = listens.then(|| self.listener.as_fd());
        self.waiting.iter().map(|(s, ..)| s.as_fd()).chain(listener)
    }

    /// Serves the connections that are `ready`, given in the order of [`Metrics::fds`].
    pub(super) fn serve(&mut self, now: Time, ready: &[bool], report: impl Fn() -> Report) {
        let mut ready = ready.iter().copied();
        self.waiting.retain_mut(|(stream, asked, since)| {
            if !ready.next().unwrap_or(false) {
                return now.since(*since) < self.patience;
            }
            let mut chunk = [0; 1024];
            match stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(n) => asked.extend_from_slice(&chunk[..n]),
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return false,
            }
            if asked.windows(4).any(|w| w == b"\r\n\r\n") {
                let page = page(&report());
                let answer = format!("{HEAD}Content-Length: {}\r\n\r\n{page}", page.len());
                // It fits the socket's buffer; a reader that has gone is no error.
                let _ = stream.write_all(answer.as_bytes());
                return false;
            }
            asked.len() < LONGEST && now.since(*since) < self.patience
        });
        if !ready.next().unwrap_or(false) {
            return;
        }
        match self.listener.accept() {
            Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                self.waiting.push((stream, Vec::new(), now));
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

#[cfg(test)]
mod tests;
