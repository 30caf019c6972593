//! Open-loop reception.
//!
//! [`Arrivals`] is a [`Peer`] that sends the frames of its [`Phase`]s whatever the machine does. A
//! frame waits while the wire is busy. Frames are UDP, of a list of flows in turn, or of a type
//! that nobody answers, or those of a capture. In the place of its source address each carries the
//! time at which its first bit left, from which the machine's end, a [`Meter`], computes its
//! latency. Random numbers depend on the seed alone ([`splitmix`]).

use crate::histogram::Histogram;
use crate::link::{Peer, Wire, takes};
use crate::napi::Endpoint;
use crate::traffic::Frames;
use crate::traffic::pktgen::{HEADERS, Sizes, udp_headers};
use crate::traffic::tcp::Prices;
use doorbell_bus::random::splitmix;
use doorbell_drivers::{Sink, Verdict};
use doorbell_hal::{Buf, EventSource, Host, Mapped, Span, Time};
use doorbell_packet::Packet;
use doorbell_packet::ethernet::LOCAL_TYPE;
use std::ops::Range;
use std::sync::Arc;

/// The distribution of a phase's frames in time.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Pattern {
    /// No frames.
    Silence,
    /// One frame in each interval.
    Even(Span),
    /// Poisson arrivals with this mean interval.
    Random(Span),
    /// A number of frames back to back in each interval.
    Bursts(u32, Span),
    /// The frames of a capture at their own times, from the first again after the last.
    Captured,
}

/// A period with one pattern.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Phase {
    /// Duration.
    pub lasts: Span,
    /// Distribution of the frames.
    pub pattern: Pattern,
    /// Bytes of a frame without FCS.
    pub size: u32,
}

/// A random number generator by [`splitmix`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator from a seed.
    pub const fn new(seed: u64) -> Rng {
        Rng(seed)
    }
    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        splitmix(&mut self.0)
    }
    /// Returns a number from 0 to below 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// Returns a number from `low` to `high`, uniform on a logarithmic scale.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low * libm::pow(high / low, self.unit())
    }
    /// Returns a span of an exponential distribution.
    pub fn exponential(&mut self, mean: Span) -> Span {
        Span::from_ps((-libm::log(1.0 - self.unit()) * mean.ps() as f64) as u64)
    }
    /// Returns a number below `n`.
    pub fn one_of(&mut self, n: u64) -> u64 {
        self.bits() % n.max(1)
    }
}

/// Place of the source address, which holds the time of a frame's first bit: 46 bits of
/// picoseconds, 70 s, around the two that make the address a local one of a single station. No
/// checksum and no hash is over it.
const STAMP: Range<u32> = 6..12;
const TIMES: u64 = 1 << 46;

fn stamp(first_bit: Time) -> [u8; 6] {
    let [_, _, high, low @ ..] = (first_bit.ps() % TIMES).to_be_bytes();
    let mut address = [0; 6];
    address[0] = high << 2 | 2;
    address[1..].copy_from_slice(&low);
    address
}

/// Returns the time in a frame's address, if it holds one: the one nearest to `now`.
pub fn stamped(address: [u8; 6], now: Time) -> Option<Time> {
    let mut bytes = [0; 8];
    bytes[2] = address[0] >> 2;
    bytes[3..].copy_from_slice(&address[1..]);
    let ago = now.ps().wrapping_sub(u64::from_be_bytes(bytes)) % TIMES;
    // A core may see a frame before its own time is there (`napi`).
    let first_bit = match TIMES - ago {
        ahead if ahead < ago => now.ps().saturating_add(ahead),
        _ => now.ps().saturating_sub(ago),
    };
    (address[0] & 3 == 2).then(|| Time::from_ps(first_bit))
}

/// Returns the time in the frame that begins at `start` of a buffer, if it holds one.
fn first_bit<H: Host>(h: &mut H, buf: &Buf, start: u32) -> Option<Time> {
    let now = h.now();
    h.bytes(buf, start + STAMP.start..start + STAMP.end, |b| stamped(b.try_into().ok()?, now))
}

/// The peer that sends the frames of its phases.
#[derive(Clone, Debug)]
pub struct Arrivals {
    phases: Vec<Phase>,
    draw: Rng,
    mac: [u8; 6],
    /// The headers of each flow's frames, of this size.
    headers: Vec<[u8; HEADERS as usize]>,
    of_size: usize,
    flows: Vec<u16>,
    /// Sizes in the place of the phases' own.
    sizes: Option<Sizes>,
    /// The first phase follows the last.
    repeats: bool,
    /// A capture, the index of its next frame, and the time of its first one in this round.
    captured: Arc<Frames>,
    place: usize,
    round: Time,
    /// Index and end of the current phase.
    phase: usize,
    ends: Time,
    /// Remaining frames of the burst.
    left: u32,
    next: Time,
    /// Frames after which it is silent.
    most: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames received from the machine.
    pub came: u64,
}

impl Arrivals {
    /// Creates a peer of the machine with address `mac`, whose frames are of these flows in turn;
    /// without one, of a type that nobody answers. It is silent until it is started.
    pub fn new(mac: [u8; 6], phases: Vec<Phase>, seed: u64, flows: Vec<u16>) -> Arrivals {
        Arrivals {
            phases,
            draw: Rng::new(seed),
            mac,
            headers: Vec::new(),
            of_size: 0,
            flows,
            sizes: None,
            repeats: false,
            captured: Arc::default(),
            place: 0,
            round: Time::ZERO,
            phase: 0,
            ends: Time::NEVER,
            left: 0,
            next: Time::NEVER,
            most: u64::MAX,
            sent: 0,
            came: 0,
        }
    }

    /// Returns it with the frames of [`Pattern::Captured`].
    pub fn of_capture(self, captured: Arc<Frames>) -> Arrivals {
        Arrivals { captured, ..self }
    }

    /// Returns it with generated frames of these sizes, whatever the phases say.
    pub fn of_sizes(self, sizes: Sizes) -> Arrivals {
        Arrivals { sizes: Some(sizes), ..self }
    }

    /// Returns it with phases that begin anew when the last has ended.
    pub fn repeated(self) -> Arrivals {
        Arrivals { repeats: true, ..self }
    }

    /// Returns it with the number of frames after which it is silent.
    pub fn at_most(self, most: u64) -> Arrivals {
        Arrivals { most, ..self }
    }

    /// Ends the traffic behind the frame that is due next.
    pub fn finish(&mut self) {
        self.most = self.most.min(self.sent + 1);
    }

    /// Returns the index of the current phase, at the end that of the last one.
    pub fn phase(&self) -> usize {
        self.phase.min(self.phases.len().saturating_sub(1))
    }

    /// Starts the first phase.
    pub fn start(&mut self, at: Time) {
        self.phase = 0;
        self.begin(at);
        self.over(at);
    }

    fn begin(&mut self, at: Time) {
        let Some(p) = self.phases.get(self.phase) else {
            self.next = Time::NEVER;
            return;
        };
        self.ends = at + p.lasts;
        self.left = 0;
        self.next = match p.pattern {
            Pattern::Silence => self.ends,
            Pattern::Captured if self.captured.is_empty() => self.ends,
            Pattern::Even(_) | Pattern::Bursts(..) | Pattern::Captured => at,
            Pattern::Random(mean) => at + self.draw.exponential(mean),
        };
    }

    /// Begins the next phase with a frame, if the next frame would come after the end of this one.
    fn over(&mut self, mut at: Time) {
        while self.phase < self.phases.len() && self.next >= self.ends && self.left == 0 {
            at = self.ends.max(at);
            self.phase += 1;
            if self.repeats {
                self.phase %= self.phases.len();
            }
            self.begin(at);
        }
    }

    /// Makes the next generated frame, of `size` bytes.
    fn generate(&mut self, size: usize, frame: &mut Vec<u8>) {
        let len = size.max(HEADERS as usize);
        if self.of_size != len {
            self.of_size = len;
            let (mac, flows) = (self.mac, self.flows.iter());
            self.headers = flows.map(|flow| udp_headers(mac, [0; 6], len, *flow)).collect();
        }
        frame.resize(len, 0);
        match self.headers.get(self.sent as usize % self.headers.len().max(1)) {
            Some(headers) => frame[..HEADERS as usize].copy_from_slice(headers),
            None => {
                frame[..self.mac.len()].copy_from_slice(&self.mac);
                frame[STAMP.end as usize..][..2].copy_from_slice(&LOCAL_TYPE);
            }
        }
    }

    /// Takes the next frame of the capture. Returns the time at which the one after it is due.
    fn take_captured(&mut self, at: Time, frame: &mut Vec<u8>) -> Time {
        let Some((after, bytes)) = self.captured.get(self.place) else { return Time::NEVER };
        frame.extend_from_slice(bytes);
        if let Some(to) = frame.first_chunk_mut() {
            *to = self.mac;
        }
        if self.place == 0 {
            self.round = at;
        }
        self.place += 1;
        if let Some((next, _)) = self.captured.get(self.place) {
            return self.round + next;
        }
        // Rounds are as far apart as frames are in the mean.
        self.place = 0;
        self.round + after + Span::from_ps(after.ps() / (self.captured.len() as u64 - 1).max(1))
    }

    /// Sends a frame and sets the time of the next one.
    fn send(&mut self, at: Time, wire: &mut Wire) {
        let Some(&Phase { pattern, size, .. }) = self.phases.get(self.phase) else { return };
        let mut frame = wire.buffer();
        let after = match pattern {
            Pattern::Captured => self.take_captured(at, &mut frame),
            _ => {
                // A single size draws no number, so that the times are those of a phase's own size.
                let size = match &self.sizes {
                    None => size,
                    Some(sizes) if sizes.are_one() => sizes.largest(),
                    Some(sizes) => sizes.draw(&mut self.draw),
                };
                self.generate(size as usize, &mut frame);
                Time::NEVER
            }
        };
        if let Some(from) = frame.get_mut(STAMP.start as usize..STAMP.end as usize) {
            from.copy_from_slice(&stamp(wire.free().max(at)));
        }
        wire.send_owned(at, frame);
        self.sent += 1;
        if self.sent == self.most {
            (self.phase, self.next) = (self.phases.len(), Time::NEVER);
            return;
        }
        self.next = match pattern {
            Pattern::Silence => self.ends,
            Pattern::Even(gap) => at + gap,
            Pattern::Random(mean) => at + self.draw.exponential(mean),
            // A frame that is due waits for the wire.
            Pattern::Captured => after.max(wire.free()),
            Pattern::Bursts(n, every) => {
                if self.left == 0 {
                    self.left = n.max(1);
                }
                self.left -= 1;
                // The rest of a burst waits for the wire. The next burst comes when it is due.
                if self.left > 0 { wire.free() } else { at.max(self.due_burst(every)) }
            }
        };
        self.over(at);
    }

    /// Returns the time of the next burst, a multiple of `every` after the start of the phase.
    fn due_burst(&self, every: Span) -> Time {
        let Some(p) = self.phases.get(self.phase) else { return self.next };
        let begin = Time::from_ps(self.ends.since(Time::ZERO).ps() - p.lasts.ps());
        let since = self.next.since(begin).ps();
        begin + Span::from_ps((since / every.ps().max(1) + 1) * every.ps().max(1))
    }
}

impl EventSource for Arrivals {
    fn next_due(&self) -> Option<Time> {
        (self.next < Time::NEVER).then_some(self.next)
    }
}

impl Peer for Arrivals {
    fn receive(&mut self, _at: Time, _frame: &[u8], _wire: &mut Wire) {
        self.came += 1;
    }
    fn advance(&mut self, until: Time, wire: &mut Wire) {
        while self.next <= until && self.phase < self.phases.len() {
            let at = self.next;
            if matches!(self.phases[self.phase].pattern, Pattern::Silence) {
                self.over(at);
            } else {
                self.send(at, wire);
            }
        }
    }
}

/// A program at the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// Drops each frame without a look at it.
    Drop,
    /// Reads the addresses of each frame, and drops it.
    Read,
    /// Exchanges the addresses of each frame, and sends it back.
    Send,
    /// The same, but has it leave at another port.
    Redirect,
}

/// The addresses of a frame.
const ADDRESSES: u32 = 12;

/// The machine's end: measures the latency of frames and drops them, or has a program do so.
#[derive(Debug, Default)]
pub struct Meter {
    prices: Prices,
    bits_per_second: u64,
    delay: Span,
    /// An application reads what is received; else it is dropped where the driver hands it up.
    reads: bool,
    /// A program takes all frames before the driver hands them up.
    program: Option<Program>,
    waiting: Vec<Packet>,
    spare: Vec<Buf>,
    /// Bytes not yet read by the application.
    unread: u64,
    /// Time from the arrival of a frame's last bit until softirq handles it, of all frames.
    pub latency: Histogram,
    /// The same since this histogram was last taken.
    pub lately: Histogram,
    /// Frames received.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Frames not sent by [`Arrivals`].
    pub unknown: u64,
}

impl Meter {
    /// Creates the end of a link with this rate and delay.
    pub fn new(prices: Prices, bits_per_second: u64, delay: Span) -> Meter {
        Meter { prices, bits_per_second, delay, reads: true, ..Meter::default() }
    }

    /// Creates an end that drops each frame where the driver hands it up, as `XDP_DROP` does.
    pub fn that_drops(bits_per_second: u64, delay: Span) -> Meter {
        Meter { bits_per_second, delay, ..Meter::default() }
    }

    /// Returns it with a program at the driver.
    pub fn with_program(self, program: Option<Program>) -> Meter {
        Meter { program, ..self }
    }

    /// Releases all buffers after the driver was closed.
    pub fn release<H: Host>(self, h: &mut H) {
        self.waiting.into_iter().for_each(|p| p.release(h));
        self.spare.into_iter().for_each(|b| h.release(b));
    }

    /// Records a frame of `len` bytes whose first bit left at `first_bit`, if it is known.
    fn record(&mut self, now: Time, first_bit: Option<Time>, len: u32) {
        let Some(first_bit) = first_bit else {
            self.unknown += 1;
            return;
        };
        let arrived = first_bit + takes(self.bits_per_second, len as usize) + self.delay;
        let took = now.since(arrived);
        self.latency.record(took);
        self.lately.record(took);
        self.frames += 1;
        self.bytes += u64::from(len);
    }
}

impl Sink for Meter {
    fn sent(&mut self, b: Buf, _cookie: u32, _last: bool) {
        self.spare.push(b);
    }
    fn received(&mut self, p: Packet, _verified: bool) {
        self.waiting.push(p);
    }

    #[inline]
    fn program<H: Host>(&mut self, h: &mut H, page: &Mapped, frame: Range<u32>) -> Verdict {
        let Some(program) = self.program else { return Verdict::Pass };
        let start = frame.start;
        let first_bit = first_bit(h, page.buf(), start);
        self.record(h.now(), first_bit, frame.end - start);
        if program != Program::Drop {
            h.look(page.buf(), start..start + ADDRESSES);
        }
        let verdict = match program {
            Program::Drop | Program::Read => return Verdict::Drop,
            Program::Send => Verdict::Send,
            Program::Redirect => Verdict::Redirect,
        };
        h.bytes_mut(page.buf(), start..start + ADDRESSES, |b| {
            let (to, from) = b.split_at_mut(ADDRESSES as usize / 2);
            to.swap_with_slice(from);
        });
        verdict
    }
}

impl<H: Host> Endpoint<H> for Meter {
    fn softirq(&mut self, h: &mut H) {
        self.spare.drain(..).for_each(|b| h.release(b));
        let mut waiting = std::mem::take(&mut self.waiting);
        for p in waiting.drain(..) {
            h.delay(self.prices.gro + self.prices.receive);
            let (start, len) = (p.head.start, p.len());
            // The stack looks at the headers.
            h.look(&p.head.buf, start..start + p.head.len.min(HEADERS));
            let holds = p.head.len >= STAMP.end;
            let first_bit = holds.then(|| first_bit(h, &p.head.buf, start)).flatten();
            self.record(h.now(), first_bit, len);
            if first_bit.is_some() {
                if self.unread == 0 {
                    h.delay(self.prices.wake);
                }
                self.unread += u64::from(len);
            }
            p.release(h);
        }
        self.waiting = waiting;
    }
    fn dropped(&mut self, h: &mut H, p: Packet) {
        p.release(h);
    }
    fn is_ready(&self) -> bool {
        self.reads && self.unread > 0
    }
    fn run(&mut self, h: &mut H) {
        let bytes = std::mem::take(&mut self.unread);
        // The application sleeps whenever it has read all bytes.
        let Prices { sleep, call, .. } = self.prices;
        h.delay(sleep * 2 + call.each + call.per_unit * bytes);
    }
}

#[cfg(test)]
mod tests;
