//! The hosts on the other end of the link. Their CPUs cost nothing.
//!
//! A peer verifies both checksums and the payload's pattern of each frame. Bad frames are counted
//! and dropped. With [`Hosts::gro`], a peer has interrupt moderation and GRO: consecutive segments
//! are merged for that time or until another frame arrives, and acknowledged as one. Without, each
//! frame is acknowledged as it arrives.

use super::app::App;
use super::frame::{self, Header, SocketAddress};
use super::socket::Socket;
use super::timers::Timers;
use crate::link::{Peer, Wire};
use doorbell_hal::{EventSource, Span, Time};
use doorbell_packet::{checksum::Sum, ethernet::pause_quanta};
use std::collections::VecDeque;

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct End {
    /// The connection.
    pub socket: Socket,
    /// The application.
    pub app: App,
    /// Its address. The pair of ports identifies the connection.
    pub here: SocketAddress,
    /// Address of the other end.
    pub there: SocketAddress,
    asleep: bool,
    id: u16,
    /// Frames merged so far, and the time at which they are passed to TCP.
    run: Option<(Run, Time)>,
}

/// Merged frames: the first header with the last window and all flags, payload bytes, number.
type Run = (Header, u32, u32);

/// Largest payload of merged frames.
const MERGED: u32 = 64_000;

impl End {
    /// Creates an end.
    pub fn new(socket: Socket, app: App, here: SocketAddress, there: SocketAddress) -> End {
        End { socket, app, here, there, asleep: false, id: 0, run: None }
    }
}

/// The hosts on the other end.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// Their connections.
    pub ends: Vec<End>,
    timers: Timers,
    /// Time for which frames with data are merged. `None` means never.
    pub gro: Option<Span>,
    /// Times at which runs are passed to TCP, in order. Entries of runs that went earlier stay.
    runs: VecDeque<(Time, usize)>,
    /// Frames for no connection.
    pub unknown: u64,
    /// Frames with a bad IP or TCP checksum.
    pub bad_checksums: u64,
    /// Frames with wrong payload.
    pub bad_payloads: u64,
    /// Set when they neither send nor answer any more.
    halted: bool,
}

impl Hosts {
    /// Creates hosts with these connections. They are silent until they are started.
    pub fn new(ends: Vec<End>) -> Hosts {
        Hosts { ends, ..Hosts::default() }
    }

    /// Starts all connections at `at`, once the machine's NIC is open.
    pub fn start(&mut self, at: Time) {
        for (i, end) in self.ends.iter_mut().enumerate() {
            if let App::Client(c) = &mut end.app {
                c.next = c.next.map(|first| at + first.since(Time::ZERO));
            }
            self.timers.set(i, Some(at));
        }
    }

    /// Makes them silent for good, with their connections as they are.
    pub fn halt(&mut self) {
        self.halted = true;
    }

    /// Returns whether all connections are closed.
    pub fn all_closed(&self) -> bool {
        self.ends.iter().all(|e| e.socket.is_closed())
    }

    /// Passes the merged frames of connection `i` to TCP.
    fn hand_up(&mut self, i: usize, now: Time) {
        if let Some(((header, len, count), _)) = self.ends[i].run.take() {
            self.ends[i].socket.segment(now, &header, len, count);
        }
    }

    /// Keeps a frame with data if it may be merged with later ones. Returns whether it was kept.
    fn merge(&mut self, i: usize, at: Time, header: &Header, len: u32) -> bool {
        let Some(wait) = self.gro else { return false };
        let plain = len > 0 && header.is_plain();
        if let Some(((first, so_far, count), _)) = &mut self.ends[i].run
            && plain
            && header.seq == first.seq.wrapping_add(*so_far)
            && header.ack == first.ack
            && *so_far + len <= MERGED
        {
            (first.flags, first.window) = (first.flags | header.flags, header.window);
            (*so_far, *count) = (*so_far + len, *count + 1);
            return true;
        }
        self.hand_up(i, at);
        if plain {
            self.ends[i].run = Some(((*header, len, 1), at + wait));
            self.runs.push_back((at + wait, i));
        }
        plain
    }

    fn serve(&mut self, i: usize, now: Time, wire: &mut Wire) {
        let end = &mut self.ends[i];
        end.socket.tick(now);
        while end.app.is_ready(&end.socket, now, end.asleep) {
            end.asleep = false;
            end.app.step(&mut end.socket, now);
        }
        end.asleep = true;
        while let Some(s) = end.socket.output(now) {
            // A peer has no offloads: each segment is one frame.
            let mut frame = wire.buffer();
            frame.resize(s.header.length(), 0);
            s.header.write(&end.here, &end.there, end.id, s.len, &mut frame);
            end.id = end.id.wrapping_add(1);
            let payload = frame::payload_sum(s.offset, s.len as usize);
            let sum = Sum::of(&frame[frame::TCP..]).plus(payload).checksum();
            frame[frame::TCP + 16..frame::TCP + 18].copy_from_slice(&sum.to_be_bytes());
            frame::payload(s.offset, s.len as usize).for_each(|b| frame.extend_from_slice(b));
            wire.send_owned(now, frame);
        }
        let end = &self.ends[i];
        let app = end.app.deadline(&end.socket).map(|t| t.max(now));
        self.timers.set(i, end.socket.deadline().into_iter().chain(app).min());
    }
}

impl EventSource for Hosts {
    fn next_due(&self) -> Option<Time> {
        let runs = self.runs.front().map_or(Time::NEVER, |r| r.0);
        Some(self.timers.next().min(runs)).filter(|t| *t < Time::NEVER && !self.halted)
    }
}

impl Peer for Hosts {
    fn receive(&mut self, at: Time, bytes: &[u8], wire: &mut Wire) {
        // A station without flow control.
        if pause_quanta(bytes).is_some() || self.halted {
            return;
        }
        let found = frame::read(bytes).and_then(|r| {
            let wanted =
                |e: &End| (e.here.port, e.there.port) == (r.destination_port, r.source_port);
            // Connections are usually numbered by their ports.
            let guess = usize::from(r.destination_port.wrapping_sub(self.ends.first()?.here.port));
            let i = match self.ends.get(guess) {
                Some(e) if wanted(e) => guess,
                _ => self.ends.iter().position(wanted)?,
            };
            Some((i, r))
        });
        let Some((i, r)) = found else {
            self.unknown += 1;
            return;
        };
        let place = self.ends[i].socket.place(&r.header);
        let payload = bytes.get(r.payload.clone()).map(|p| (p, frame::is_payload(place, p)));
        let good = payload.filter(|&(p, is_stream)| {
            let known = || frame::payload_sum(place, p.len());
            r.is_intact(bytes, if is_stream { known() } else { Sum::of(p) })
        });
        let Some((payload, is_stream)) = good else {
            self.bad_checksums += 1;
            return;
        };
        if !is_stream {
            self.bad_payloads += 1;
            return;
        }
        let len = payload.len() as u32;
        if !self.merge(i, at, &r.header, len) {
            self.ends[i].socket.segment(at, &r.header, len, 1);
        }
        self.serve(i, at, wire);
    }

    fn advance(&mut self, until: Time, wire: &mut Wire) {
        while let Some(i) = self.timers.due(until) {
            self.serve(i, until, wire);
        }
        while let Some((due, i)) = self.runs.pop_front_if(|r| r.0 <= until) {
            if self.ends[i].run.is_some_and(|r| r.1 == due) {
                self.hand_up(i, until);
                self.serve(i, until, wire);
            }
        }
    }
}
