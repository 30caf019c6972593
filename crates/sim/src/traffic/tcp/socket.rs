//! One end of a TCP connection as a pure state machine: no memory, no frames, no CPU. Stream
//! offsets are 64 bits: the SYN is 0, data begins at 1, the FIN follows it.
//!
//! Modelled: handshake, slow start and congestion avoidance (RFC 5681, in bytes; like Linux only
//! while limited by cwnd), fast retransmit and NewReno (RFC 6582), the retransmission timer (RFC
//! 6298, at least 200 ms) with go-back-N, zero-window probes, Nagle's algorithm in Minshall's
//! variant (`tcp_nagle_check`), Linux's delayed and "quick" acknowledgments, window updates,
//! `tcp_tso_autosize` and `tcp_tso_should_defer`.
//!
//! Not modelled: SACK, RACK and tail-loss probes, pacing, ECN, CUBIC and HyStart, automatic
//! corking, buffer autotuning, TIME-WAIT, urgent data, resets.

use super::frame::{ACK, FIN, Header, PSH, SCALE, SYN};
use doorbell_hal::{Span, Time};
use std::collections::VecDeque;

/// The size of large sends (TSO).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LargeSend {
    /// One segment.
    Off,
    /// At most this many bytes.
    Fixed(u32),
    /// A millisecond at Linux's pacing rate, more on short paths (5.18 and later): at least two
    /// segments, and at most this many bytes.
    Auto(u32),
}

/// Options of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Payload bytes of a full segment, without timestamps.
    pub mss: u32,
    /// Sends timestamps.
    pub timestamps: bool,
    /// Receive buffer in bytes: the largest window.
    pub receive_buffer: u32,
    /// Send buffer in bytes.
    pub send_buffer: u32,
    /// Size of large sends.
    pub large_send: LargeSend,
    /// Sends small segments at once (`TCP_NODELAY`).
    pub no_delay: bool,
}

impl Config {
    /// MTU 1500 with timestamps, 4 MiB of buffers.
    pub const LINUX: Config = Config {
        mss: 1448,
        timestamps: true,
        receive_buffer: 4 << 20,
        send_buffer: 4 << 20,
        large_send: LargeSend::Off,
        no_delay: false,
    };
}

impl Default for Config {
    fn default() -> Config {
        Config::LINUX
    }
}

/// Linux's initial window, in segments.
const INITIAL: u32 = 10;
/// Number of acknowledgments that are not delayed (`TCP_MAX_QUICKACKS`).
const QUICK: u32 = 16;
/// Delay of an acknowledgment of at most one full segment in order.
const DELAYED_ACK: Span = Span::from_ms(40);
const LEAST_RTO: Span = Span::from_ms(200);
const FIRST_RTO: Span = Span::from_ms(1000);
/// Largest payload of an IPv4 packet with the longest headers.
const LARGEST: u32 = 0xffff - 80;
/// The most bytes of a connection in qdisc and driver (`tcp_limit_output_bytes`).
pub const QUEUE_LIMIT: u64 = 1 << 20;
const LONGEST_RTO: Span = Span::from_ms(120_000);

/// A segment or large send to put into a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Its header.
    pub header: Header,
    /// Offset of its first byte in the stream's data, from 0.
    pub offset: u64,
    /// Payload bytes.
    pub len: u32,
}

/// Counters of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Segments or large sends with data.
    pub data_sent: u64,
    /// Segments without data.
    pub acks_sent: u64,
    /// Data segments received, before merging.
    pub data_received: u64,
    /// Segments without data received.
    pub acks_received: u64,
    /// Retransmissions by timer or duplicate acknowledgments.
    pub retransmitted: u64,
    /// Timeouts.
    pub timeouts: u64,
    /// Fast retransmits.
    pub recoveries: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum State {
    #[default]
    Listen,
    Opening,
    Answering,
    Open,
}

/// One end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Socket {
    config: Config,
    state: State,
    // Sending.
    initial: u32,
    una: u64,
    next: u64,
    max: u64,
    /// End of the last segment that was not full (`snd_sml`).
    small: u64,
    written: u64,
    closing: bool,
    edge: u64,
    cwnd: u64,
    threshold: u64,
    duplicates: u32,
    recover: Option<u64>,
    resend: bool,
    probe: bool,
    /// End, time, and whether it counts for the round-trip time.
    sent: VecDeque<(u64, Time, bool)>,
    last_sent: Time,
    srtt: Option<(Span, Span)>,
    least_rtt: Span,
    rto: Span,
    timer: Option<Time>,
    // Receiving.
    theirs: u32,
    got: u64,
    read: u64,
    /// Right edge of the announced window.
    announced: u64,
    /// The window as last announced (`rcv_wnd`).
    offered: u64,
    acked: u64,
    pieces: Vec<(u64, u64)>,
    fin: Option<u64>,
    /// Acknowledgments as they were decided, one segment at a time, still to be sent.
    due: VecDeque<Segment>,
    /// The next segment out is to acknowledge, whatever it carries.
    ack_now: bool,
    delayed: Option<Time>,
    quick: u32,
    interactive: bool,
    echo: u32,
    /// Counters.
    pub counters: Counters,
}

fn milliseconds(t: Time) -> u32 {
    (t.ps() / 1_000_000_000) as u32
}

impl Socket {
    fn new(config: Config, initial: u32, state: State) -> Socket {
        Socket {
            config,
            state,
            initial,
            written: 1,
            edge: 1,
            cwnd: u64::from(INITIAL * config.mss),
            threshold: u64::MAX,
            least_rtt: Span::from_ms(1_000_000),
            rto: FIRST_RTO,
            read: 1,
            quick: (config.receive_buffer / (2 * config.mss)).clamp(2, QUICK),
            ..Socket::default()
        }
    }

    /// Creates a socket that opens the connection. `initial` is the first sequence number.
    pub fn connect(config: Config, initial: u32) -> Socket {
        Socket::new(config, initial, State::Opening)
    }

    /// Creates a socket that waits for the other end to open the connection.
    pub fn listen(config: Config, initial: u32) -> Socket {
        Socket::new(config, initial, State::Listen)
    }

    // ---- the application's side ----

    /// Returns whether the handshake is complete.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Returns the bytes that can be written now.
    pub fn room(&self) -> u32 {
        let used = self.written - self.una.max(1);
        if self.is_open() && !self.closing {
            u64::from(self.config.send_buffer).saturating_sub(used) as u32
        } else {
            0
        }
    }

    /// Returns whether a sleeping writer is woken: a third is free (`sk_stream_is_writeable`).
    pub fn is_writable(&self) -> bool {
        self.room() >= self.config.send_buffer / 3
    }

    /// Writes `n` bytes, at most [`Socket::room`].
    pub fn write(&mut self, n: u32) {
        self.written += u64::from(n.min(self.room()));
    }

    /// Closes this end for writing.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Returns whether this end has closed.
    pub fn is_closing(&self) -> bool {
        self.closing
    }

    /// Returns the bytes that can be read.
    pub fn readable(&self) -> u32 {
        (self.got.min(self.fin.unwrap_or(u64::MAX)).max(1) - self.read) as u32
    }

    /// Returns whether the other end has closed and all bytes are read.
    pub fn at_end(&self) -> bool {
        self.fin.is_some_and(|f| self.got > f && self.read == f)
    }

    /// Reads `n` bytes, at most [`Socket::readable`]. Acknowledges more than a full segment that
    /// still waits for it, and sends a window update once reading has doubled the window that was
    /// left (`tcp_cleanup_rbuf`).
    pub fn read(&mut self, n: u32) {
        self.read += u64::from(n.min(self.readable()));
        self.ack_now |= self.delayed.is_some() && self.waiting() > u64::from(self.config.mss);
        let left = self.announced.saturating_sub(self.got);
        let new = self.free();
        if 2 * left <= u64::from(self.config.receive_buffer) && new >= 2 * left {
            self.ack_now = true;
        }
    }

    /// Returns whether both ends have closed and acknowledged it.
    pub fn is_closed(&self) -> bool {
        self.closing && self.una > self.written && self.fin.is_some_and(|f| self.got > f)
    }

    /// Returns the bytes that the other end has acknowledged.
    pub fn delivered(&self) -> u64 {
        self.una.clamp(1, self.written) - 1
    }

    /// Returns the bytes received in order.
    pub fn received(&self) -> u64 {
        self.got.min(self.fin.unwrap_or(u64::MAX)).max(1) - 1
    }

    /// Returns the bytes read.
    pub fn consumed(&self) -> u64 {
        self.read - 1
    }

    /// Returns the payload bytes of a full segment, as negotiated.
    pub fn segment_size(&self) -> u32 {
        self.config.mss
    }

    /// Returns the congestion window in bytes.
    pub fn cwnd(&self) -> u64 {
        self.cwnd
    }

    /// Returns the limit of bytes in qdisc and driver (TCP small queues): about a millisecond's, at
    /// least two large sends, at most 1 MiB.
    pub fn queue_limit(&self) -> u64 {
        self.millisecond().max(2 * u64::from(self.burst())).min(QUEUE_LIMIT)
    }

    // ---- a segment came ----

    /// Returns the offset of a segment's payload in the stream's data, from 0.
    pub fn place(&self, h: &Header) -> u64 {
        let ahead = h.seq.wrapping_sub(self.theirs.wrapping_add(self.got as u32)).cast_signed();
        self.got.saturating_add_signed(i64::from(ahead)).saturating_sub(1)
    }

    /// Handles a segment with `len` bytes of payload, merged from `count` segments.
    pub fn segment(&mut self, now: Time, h: &Header, len: u32, count: u32) {
        if len > 0 {
            self.counters.data_received += u64::from(count);
        } else {
            self.counters.acks_received += 1;
        }
        match self.state {
            State::Listen if h.flags & SYN == 0 => return,
            State::Listen => self.state = State::Answering,
            State::Opening if h.flags & (SYN | ACK) != SYN | ACK => return,
            State::Opening => self.state = State::Open,
            State::Answering | State::Open => {}
        }
        if h.flags & SYN != 0 {
            if self.got == 0 {
                self.theirs = h.seq;
                self.got = 1;
                self.echo = h.timestamps.map_or(0, |t| t.0);
                self.config.mss = self.config.mss.min(u32::from(h.mss.unwrap_or(u16::MAX)));
                self.config.timestamps &= h.timestamps.is_some();
            }
            self.ack_now = true;
        }
        if h.flags & ACK != 0 {
            self.acknowledged(now, h, len);
        }
        if h.flags & SYN == 0 {
            self.data(now, h, len);
        }
    }

    fn acknowledged(&mut self, now: Time, h: &Header, len: u32) {
        let ahead = h.ack.wrapping_sub(self.initial.wrapping_add(self.una as u32)).cast_signed();
        let ack = self.una.saturating_add_signed(i64::from(ahead));
        if ack > self.max || ahead < 0 {
            return;
        }
        let scale = if h.flags & SYN != 0 { 0 } else { SCALE };
        let edge = ack + (u64::from(h.window) << scale);
        let moved = edge > self.edge;
        self.edge = self.edge.max(edge);
        if self.state == State::Answering && ack >= 1 {
            self.state = State::Open;
        }
        if ahead == 0 {
            let outstanding = self.max > self.una;
            if len == 0 && !moved && outstanding && h.flags & (SYN | FIN) == 0 {
                self.duplicate();
            }
            return;
        }
        let mss = u64::from(self.config.mss);
        let flight = self.max - self.una;
        let acked = ack - self.una;
        self.una = ack;
        self.next = self.next.max(ack);
        self.duplicates = 0;
        let mut measured = None;
        while let Some((_, at, counts)) = self.sent.pop_front_if(|s| s.0 <= ack) {
            measured = counts.then_some(now.since(at));
        }
        if let Some(m) = measured {
            self.round_trip_was(m);
        }
        match self.recover {
            Some(point) if ack >= point => {
                self.cwnd = self.threshold;
                self.recover = None;
            }
            Some(_) => {
                // A partial acknowledgment: retransmit at the next hole.
                self.cwnd = self.cwnd.saturating_sub(acked).max(mss) + mss;
                self.resend = true;
            }
            None if self.cwnd < self.threshold => {
                if self.cwnd < 2 * flight {
                    self.cwnd += acked;
                }
            }
            None => {
                let slack = u64::from(self.burst()).max(3 * mss);
                if flight + slack >= self.cwnd {
                    self.cwnd += (mss * acked / self.cwnd).max(1);
                }
            }
        }
        self.timer = (self.max > self.una).then(|| now + self.rto);
    }

    fn duplicate(&mut self) {
        let mss = u64::from(self.config.mss);
        self.duplicates += 1;
        if self.recover.is_some() {
            self.cwnd += mss;
        } else if self.duplicates == 3 {
            self.threshold = ((self.max - self.una) / 2).max(2 * mss);
            self.cwnd = self.threshold + 3 * mss;
            self.recover = Some(self.max);
            self.resend = true;
            self.counters.recoveries += 1;
        }
    }

    fn round_trip_was(&mut self, m: Span) {
        self.least_rtt = self.least_rtt.min(m);
        let (srtt, var) = match self.srtt {
            None => (m, Span::from_ps(m.ps() / 2)),
            Some((s, v)) => {
                let off = s.ps().abs_diff(m.ps());
                (Span::from_ps((s.ps() * 7 + m.ps()) / 8), Span::from_ps((v.ps() * 3 + off) / 4))
            }
        };
        self.srtt = Some((srtt, var));
        self.rto = (srtt + (var * 4).max(LEAST_RTO)).min(LONGEST_RTO);
    }

    /// Returns the bytes received in order and not acknowledged.
    fn waiting(&self) -> u64 {
        self.got - self.acked.max(1)
    }

    /// Returns the free bytes of the receive buffer.
    fn free(&self) -> u64 {
        (self.read + u64::from(self.config.receive_buffer)).saturating_sub(self.got.max(1))
    }

    /// Returns the bytes that may be sent now, as far as the windows go.
    fn allowed(&self) -> u64 {
        self.edge.min(self.una + self.cwnd).saturating_sub(self.next)
    }

    /// Acknowledges a segment that came, at once and for itself, as `tcp_rcv_established` does.
    /// Data that can be sent goes first and carries it (`tcp_data_snd_check`).
    fn acknowledge(&mut self, now: Time) {
        if self.written > self.next.max(1) && self.allowed() > 0 {
            self.ack_now = true;
        } else {
            let s = self.segment_out(now, self.next.max(1), 0, ACK);
            self.due.push_back(s);
        }
    }

    fn data(&mut self, now: Time, h: &Header, len: u32) {
        let ahead = h.seq.wrapping_sub(self.theirs.wrapping_add(self.got as u32)).cast_signed();
        let start = self.got.saturating_add_signed(i64::from(ahead));
        let fin = h.flags & FIN != 0;
        let end = start + u64::from(len) + u64::from(fin);
        if len == 0 && !fin {
            // A zero-window probe wants an answer.
            if ahead < 0 {
                self.acknowledge(now);
            }
            return;
        }
        let limit = self.read + u64::from(self.config.receive_buffer) + 1;
        if end <= self.got || end > limit {
            self.acknowledge(now);
            return;
        }
        if let Some((value, _)) = h.timestamps.filter(|_| start <= self.acked.max(1)) {
            self.echo = value;
        }
        if fin {
            self.fin = Some(end - 1);
        }
        if start > self.got {
            let at = self.pieces.partition_point(|p| p.0 < start);
            self.pieces.insert(at, (start, end));
            self.acknowledge(now);
            return;
        }
        self.got = end;
        let holes = !self.pieces.is_empty();
        while let Some(&(_, to)) = self.pieces.first().filter(|p| p.0 <= self.got) {
            self.got = self.got.max(to);
            self.pieces.remove(0);
        }
        let quick = self.quick > 0 && !self.interactive;
        // A window that would not keep up waits for the reader (`__tcp_ack_snd_check`).
        let keeps = self.free() >> SCALE << SCALE >= self.offered || self.readable() == 0;
        if quick || holes || fin || self.waiting() > u64::from(self.config.mss) && keeps {
            self.quick = self.quick.saturating_sub(1);
            self.acknowledge(now);
        } else {
            self.delayed.get_or_insert(now + DELAYED_ACK);
        }
    }

    // ---- time ----

    /// Returns the expiry of the next timer ([`Socket::tick`]).
    pub fn deadline(&self) -> Option<Time> {
        self.timer.into_iter().chain(self.delayed).min()
    }

    /// Handles expired timers.
    pub fn tick(&mut self, now: Time) {
        if self.delayed.is_some_and(|t| t <= now) {
            self.delayed = None;
            self.ack_now = true;
        }
        if self.timer.is_some_and(|t| t <= now) {
            self.timer = None;
            self.rto = (self.rto * 2).min(LONGEST_RTO);
            if self.max == self.una {
                self.probe = true;
            } else {
                let mss = u64::from(self.config.mss);
                self.threshold = ((self.max - self.una) / 2).max(2 * mss);
                self.cwnd = mss;
                self.recover = None;
                self.duplicates = 0;
                self.next = self.una;
                self.sent.clear();
                self.counters.timeouts += 1;
            }
        }
    }

    // ---- transmission ----

    /// Returns the bytes of 1/1024 s at Linux's pacing rate.
    fn millisecond(&self) -> u64 {
        let Some((srtt, _)) = self.srtt else { return 0 };
        let percent = if self.cwnd < self.threshold / 2 { 200 } else { 120 };
        let bytes = u128::from(self.cwnd) * percent * 1_000_000_000_000
            / 100
            / 1024
            / u128::from(srtt.ps().max(1));
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Returns the current size of a large send in bytes, a multiple of the segment size.
    pub fn burst(&self) -> u32 {
        let mss = self.config.mss;
        let bytes = match self.config.large_send {
            LargeSend::Off => return mss,
            LargeSend::Fixed(bytes) => bytes,
            LargeSend::Auto(most) => {
                let r = (self.least_rtt.ps() / 1_000_000) >> 9;
                let short = if r < 32 { u64::from(most) >> r } else { 0 };
                (self.millisecond() + short)
                    .clamp(2 * u64::from(mss), u64::from(most).max(2 * u64::from(mss)))
                    as u32
            }
        };
        (bytes.min(LARGEST) / mss).max(1) * mss
    }

    /// Returns whether it is better to wait for the next acknowledgment (`tcp_tso_should_defer`).
    fn defers(&self, now: Time, allowed: u64, burst: u64) -> bool {
        if self.config.large_send == LargeSend::Off || self.recover.is_some() || allowed >= burst {
            return false;
        }
        let window = (self.edge - self.una).min(self.cwnd);
        if allowed >= window / 3 || now.since(self.last_sent) > Span::from_ms(1) {
            return false;
        }
        // It will come soon if the oldest flight is at least half a round trip old.
        match (self.sent.front(), self.srtt) {
            (Some(&(_, at, _)), Some((srtt, _))) => now.since(at) * 2 >= srtt,
            _ => false,
        }
    }

    /// Returns the next segment to send now, if any.
    pub fn output(&mut self, now: Time) -> Option<Segment> {
        if let Some(s) = self.due.pop_front() {
            return Some(s);
        }
        match self.state {
            State::Listen => return None,
            State::Opening | State::Answering if self.next == 0 => {
                let ack = if self.state == State::Answering { ACK } else { 0 };
                return Some(self.segment_out(now, 0, 0, SYN | ack));
            }
            State::Opening => return None,
            State::Answering | State::Open => {}
        }
        let mss = u64::from(self.config.mss);
        if self.next == 0 {
            // The SYN counts as sent once the handshake is complete.
            self.next = 1;
        }
        if core::mem::take(&mut self.resend) && self.una < self.max {
            self.counters.retransmitted += 1;
            let len = mss.min(self.max.min(self.written) - self.una.min(self.written));
            let fin =
                if self.una + len == self.written && self.max > self.written { FIN } else { 0 };
            return Some(self.segment_out(now, self.una, len as u32, ACK | fin));
        }
        let waiting = self.written.saturating_sub(self.next);
        let allowed = self.allowed();
        if waiting > 0 && self.state == State::Open {
            let burst = u64::from(self.burst());
            let mut len = waiting.min(allowed).min(burst);
            let whole = len == waiting;
            // A small segment waits for an earlier small one alone.
            let nagle = !self.config.no_delay
                && !self.closing
                && (self.una + 1..=self.next).contains(&self.small);
            if !whole || (len > mss && nagle) {
                len -= len % mss;
            }
            let idle = self.max == self.una;
            if len == 0 && idle && allowed > 0 {
                // The window is smaller than a segment and nothing else will open it.
                len = allowed.min(waiting);
            }
            let held = len == 0 || len < mss && nagle;
            if !held && (whole || !self.defers(now, waiting.min(allowed), burst)) {
                if !len.is_multiple_of(mss) {
                    self.small = self.next + len;
                }
                let last = self.next + len == self.written;
                let fin = last && self.closing;
                let flags = ACK | if last { PSH } else { 0 } | if fin { FIN } else { 0 };
                self.counters.retransmitted += u64::from(self.next < self.max);
                return Some(self.segment_out(now, self.next, len as u32, flags));
            }
            if idle && self.timer.is_none() {
                self.timer = Some(now + self.rto);
            }
        } else if self.closing && self.next == self.written {
            return Some(self.segment_out(now, self.next, 0, ACK | FIN));
        }
        if core::mem::take(&mut self.probe) {
            let mut s = self.segment_out(now, self.next, 0, ACK);
            s.header.seq = s.header.seq.wrapping_sub(1);
            self.timer = Some(now + self.rto);
            return Some(s);
        }
        core::mem::take(&mut self.ack_now).then(|| self.segment_out(now, self.next, 0, ACK))
    }

    fn segment_out(&mut self, now: Time, at: u64, len: u32, flags: u8) -> Segment {
        let end = at + u64::from(len) + u64::from(flags & (SYN | FIN) != 0);
        if end > at {
            if at >= self.next {
                self.sent.push_back((end, now, at >= self.max));
            } else if let Some(oldest) = self.sent.front_mut() {
                oldest.2 = false;
            }
            self.timer.get_or_insert(now + self.rto);
            self.last_sent = now;
            // Data in the other direction will carry acknowledgments: no need to be quick.
            self.interactive |= len > 0 && self.delayed.is_some();
        }
        self.next = self.next.max(end);
        self.max = self.max.max(end);
        if len > 0 {
            self.counters.data_sent += 1;
        } else {
            self.counters.acks_sent += 1;
        }
        let syn = flags & SYN != 0;
        let scale = if syn { 0 } else { SCALE };
        // Rounded down to the field's unit. The right edge never moves back.
        let window = (self.free() >> scale)
            .min(0xffff)
            .max(self.announced.saturating_sub(self.got) >> scale);
        if flags & ACK != 0 {
            self.acked = self.got;
            self.offered = window << scale;
            self.announced = self.announced.max(self.got + (window << scale));
            self.ack_now = false;
            self.delayed = None;
        }
        let header = Header {
            seq: self.initial.wrapping_add(at as u32),
            ack: if flags & ACK != 0 { self.theirs.wrapping_add(self.got as u32) } else { 0 },
            flags,
            window: window as u16,
            mss: syn
                .then_some((self.config.mss + if self.config.timestamps { 12 } else { 0 }) as u16),
            timestamps: self.config.timestamps.then(|| (milliseconds(now), self.echo)),
        };
        Segment { header, offset: at.saturating_sub(1), len }
    }
}

#[cfg(test)]
mod tests;
