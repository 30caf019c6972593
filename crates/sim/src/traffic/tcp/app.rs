//! Applications: a source or drain of bytes (iperf3's two ends), a client or server of transactions
//! (netperf's TCP_RR). One [`App::step`] is one system call. It costs CPU time on the machine, none
//! on a peer.

use super::socket::Socket;
use crate::histogram::Histogram;
use doorbell_hal::{Span, Time};

/// An application on one connection.
#[derive(Clone, Debug)]
pub enum App {
    /// Writes up to `write` bytes a call, and closes once `left` bytes are written.
    Source {
        /// Bytes to go. `u64::MAX` means no end.
        left: u64,
        /// Bytes in one call.
        write: u32,
        /// Rate limit in bits a second.
        rate: Option<u64>,
        /// Time of the next write, at first `Time::ZERO`.
        next: Time,
    },
    /// Reads up to `read` bytes a call, and closes after the other end has.
    Drain {
        /// Bytes in one call.
        read: u32,
        /// Rate limit in bits a second.
        rate: Option<u64>,
        /// Time of the next read, at first `Time::ZERO`.
        next: Time,
    },
    /// Sends a request, waits for the response, pauses, and repeats.
    Client(Box<Client>),
    /// Answers each request.
    Server {
        /// Bytes of a request.
        request: u32,
        /// Bytes of a response.
        response: u32,
        /// Bytes of the current request read so far.
        read: u32,
        /// Bytes of the response to write.
        owed: u32,
    },
}

/// The client of transactions.
#[derive(Clone, Debug)]
pub struct Client {
    /// Bytes of a request.
    pub request: u32,
    /// Bytes of a response.
    pub response: u32,
    /// Pause between a response and the next request.
    pub think: Span,
    /// Transactions to go. `u64::MAX` means no end.
    pub left: u64,
    /// Time of the next request. `None` while it waits for a response.
    pub next: Option<Time>,
    /// Time of the last request.
    pub asked: Time,
    /// Bytes of the current response read so far.
    pub read: u32,
    /// Transactions made.
    pub done: u64,
    /// Time from the write of a request to the read of its response, of those since it was taken.
    pub latency: Histogram,
}

/// The bytes of one system call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// Bytes read.
    pub read: u32,
    /// Bytes written.
    pub written: u32,
}

impl App {
    /// Creates a source of `bytes` bytes that writes 128 KiB a call, as iperf3.
    pub fn source(bytes: u64) -> App {
        App::Source { left: bytes, write: 128 << 10, rate: None, next: Time::ZERO }
    }

    /// Creates a drain that reads 128 KiB a call, as iperf3.
    pub fn drain() -> App {
        App::Drain { read: 128 << 10, rate: None, next: Time::ZERO }
    }

    /// Creates a client that makes `transactions` transactions, the first at `first`.
    pub fn client(request: u32, response: u32, think: Span, transactions: u64, first: Time) -> App {
        let (asked, latency) = (first, Histogram::default());
        App::Client(Box::new(Client {
            request: request.max(1),
            response: response.max(1),
            think,
            left: transactions,
            next: Some(first),
            asked,
            read: 0,
            done: 0,
            latency,
        }))
    }

    /// Creates a server of transactions.
    pub fn server(request: u32, response: u32) -> App {
        App::Server { request: request.max(1), response: response.max(1), read: 0, owed: 0 }
    }

    /// Ends the application: a source writes one more byte and closes, a client makes one more
    /// transaction.
    pub fn finish(&mut self) {
        match self {
            App::Source { left, .. } => *left = (*left).min(1),
            App::Client(c) => c.left = c.left.min(1),
            App::Drain { .. } | App::Server { .. } => {}
        }
    }

    /// Returns whether a step would make progress now. A writer that sleeps in a call (`asleep`) is
    /// woken only once there is much room.
    pub fn is_ready(&self, s: &Socket, now: Time, asleep: bool) -> bool {
        match self {
            App::Source { left: 0, .. } => false,
            App::Source { next, .. } if *next > now => false,
            App::Source { .. } if asleep => s.is_writable(),
            App::Source { .. } => s.room() > 0,
            App::Drain { next, .. } => *next <= now && s.readable() > 0 || closes(s),
            App::Client(c) => {
                s.readable() > 0
                    || (c.left > 0 && s.room() >= c.request && c.next.is_some_and(|t| t <= now))
            }
            App::Server { owed, .. } => {
                s.readable() > 0 || (*owed > 0 && s.room() > 0) || closes(s)
            }
        }
    }

    /// Returns whether a call that has copied `copied` bytes goes on with bytes that arrive.
    pub fn reads_on(&self, copied: u32) -> bool {
        matches!(self, App::Drain { read, .. } if copied > 0 && copied < *read)
    }

    /// Returns the time at which the application becomes ready without an event.
    pub fn deadline(&self, s: &Socket) -> Option<Time> {
        match self {
            App::Source { left: 1.., rate: Some(_), next, .. } => s.is_writable().then_some(*next),
            App::Drain { next, .. } => (s.readable() > 0).then_some(*next),
            App::Client(c) if c.left > 0 && s.room() >= c.request => c.next,
            _ => None,
        }
    }

    /// Makes one system call.
    pub fn step(&mut self, s: &mut Socket, now: Time) -> Step {
        let mut step = Step { read: 0, written: 0 };
        match self {
            App::Source { left, write, rate, next } => {
                step.written = write_some(s, u64::from(*write).min(*left) as u32);
                if let Some(rate) = rate {
                    *next = (*next).max(now) + takes(step.written, *rate);
                }
                if *left != u64::MAX {
                    *left -= u64::from(step.written);
                }
                if *left == 0 {
                    s.close();
                }
            }
            App::Drain { read, rate, next } => {
                step.read = read_some(s, *read);
                if let Some(rate) = rate {
                    *next = (*next).max(now) + takes(step.read, *rate);
                }
                if closes(s) {
                    s.close();
                }
            }
            App::Client(c) => {
                if s.readable() > 0 {
                    step.read = read_some(s, c.response - c.read);
                    c.read += step.read;
                    if c.read == c.response {
                        (c.read, c.done) = (0, c.done + 1);
                        c.latency.record(now.since(c.asked));
                        c.next = Some(now + c.think);
                        if c.left == 0 {
                            s.close();
                        }
                    }
                } else if c.left > 0 && c.next.is_some_and(|t| t <= now) {
                    step.written = write_some(s, c.request);
                    c.asked = now;
                    c.next = None;
                    c.left -= u64::from(c.left != u64::MAX);
                }
            }
            App::Server { request, response, read, owed } => {
                if *owed > 0 {
                    step.written = write_some(s, *owed);
                    *owed -= step.written;
                } else if s.readable() > 0 {
                    step.read = read_some(s, *request - *read);
                    *read += step.read;
                    if *read == *request {
                        *read = 0;
                        *owed = *response;
                    }
                } else if closes(s) {
                    s.close();
                }
            }
        }
        step
    }
}

/// Returns the time that `bytes` take at `rate` bits a second.
fn takes(bytes: u32, rate: u64) -> Span {
    Span::from_ps((u128::from(bytes) * 8_000_000_000_000 / u128::from(rate.max(1))) as u64)
}

/// Returns whether the other end has closed and this one has not.
fn closes(s: &Socket) -> bool {
    s.at_end() && !s.is_closing()
}

fn write_some(s: &mut Socket, n: u32) -> u32 {
    let n = n.min(s.room());
    s.write(n);
    n
}

fn read_some(s: &mut Socket, n: u32) -> u32 {
    let n = n.min(s.readable());
    s.read(n);
    n
}
