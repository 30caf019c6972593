//! Words of the guest, which are answered while its CPU waits.
//!
//! The guest writes a line of text to I/O ports, or to memory where the machine has none: its first
//! character to [`PORT`] or [`MEMORY`], the next to the place behind it, and so on. A newline ends
//! it. Words are `begin`, `end` with or without a number,
//! `frames COUNT SIZE BURST GAP` with the gap in microseconds,
//! `arrivals PATTERN COUNT SIZE INTERVAL BURST FLOWS` with the interval in nanoseconds, `on_off`
//! with microseconds of load and of silence in the burst's place and `60:7,590:4` as a size,
//! `ask icmp|tcp COUNT SIZE`, `inside transmit|poll ADDRESS`, in hexadecimal digits, whose
//! function has its calls followed, and `price START END PICOSECONDS`, whose instructions cost that
//! from now on. Others are only noted. A read of the first place says what has
//! become of frames and requests: `0` they are done, `1` some are left, `2` a request was not
//! answered, `3` the last word of either was not understood.
//!
//! For each word a file is written, `0`, `1` and so on: the line itself, then a count a line, as
//! name and number. Beside it is a file with the counts of instructions in the protocol of
//! [`crate::count`], if they are counted, and behind an `end` one with the numbers over time since
//! `begin`: a line each, as name, milliseconds and value.
//!
//! The places behind the first give the guest the next line of a host that talks to it
//! ([`Talk`]).

use super::exports::Place;
use super::talk::Talk;
use super::{Host, price};
use crate::count;
use doorbell_guest_machine::{Board, Frames, Pattern, Recorder, Requests, Sizes, State};
use doorbell_hal::{Span, Time};
use doorbell_spec::number::Series;
use std::fmt::Write as _;
use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

/// The first place, of a PC and of other machines. No device has these, and no memory: a guest has
/// less than 3 GiB.
pub(super) const PORT: Place = Place::Port(0xe00);
pub(super) const MEMORY: Place = Place::Memory(4 << 30);
/// Ports, and the longest word with its newline.
pub(super) const LONGEST: usize = 64;

/// Time from a word of traffic to its begin, in which the guest's shell comes to rest.
pub(super) const START: Span = Span::from_ms(10);

/// The word under way, and those before it.
pub(super) struct Words {
    directory: PathBuf,
    line: [u8; LONGEST],
    answered: usize,
    /// The last word of traffic was understood.
    understood: bool,
    /// Numbers over time since `begin`.
    recorder: Option<Recorder>,
    /// A host that talks to the guest.
    talk: Option<Talk>,
}

impl Words {
    pub(super) fn create(directory: &Path, talk: Option<&Path>) -> io::Result<Words> {
        std::fs::create_dir_all(directory)?;
        Ok(Words {
            directory: directory.to_owned(),
            line: [0; LONGEST],
            answered: 0,
            understood: true,
            recorder: None,
            talk: talk.map(|socket| Talk::to(socket, directory)).transpose()?,
        })
    }

    /// Returns the character of a place behind the first: of a line of the host.
    pub(super) fn hear(&mut self, place: usize, board: &mut dyn Board) -> io::Result<u8> {
        match &mut self.talk {
            Some(talk) => talk.hear(place, board),
            None => Ok(u8::MAX),
        }
    }

    /// Notes that the guest's time is `now`.
    pub(super) fn pass(&mut self, now: Time, board: &dyn Board) {
        if let Some(recorder) = &mut self.recorder {
            recorder.pass(now, board);
        }
    }

    /// Takes a character. Returns the line that it ends.
    pub(super) fn take(&mut self, place: usize, character: u8) -> Option<String> {
        *self.line.get_mut(place)? = character;
        (character == b'\n').then(|| String::from_utf8_lossy(&self.line[..place]).into_owned())
    }

    /// Answers a line, and writes its file.
    pub(super) fn answer(
        &mut self,
        line: &str,
        board: &mut dyn Board,
        host: &Host,
    ) -> io::Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let file = self.directory.join(self.answered.to_string());
        self.answered += 1;
        std::fs::write(&file, text(line, board))?;
        if let (Some(count), ["begin" | "end", ..]) = (count::active(), &words[..]) {
            std::fs::write(file.with_extension("counts"), count.message())?;
        }
        match &words[..] {
            ["begin"] => {
                board.mark();
                self.recorder = Some(Recorder::begin(board));
            }
            ["end", ..] => {
                let recorder = self.recorder.take();
                let series = recorder.map(|recorder| recorder.end(board)).unwrap_or_default();
                std::fs::write(file.with_extension("series"), lines(&series))?;
            }
            ["inside", kind, address] => {
                let address = u64::from_str_radix(address, 16).ok();
                let watched = count::active().zip(address).map(|(c, at)| c.watch(kind, at));
                self.understood = watched == Some(true);
            }
            ["price", numbers @ ..] => {
                self.understood = price::set(host, numbers).is_some();
            }
            ["frames" | "arrivals", ..] => {
                let frames = frames(&words).filter(|f| board.can_send(f));
                self.understood = frames.is_some();
                frames.into_iter().for_each(|frames| board.send(START, frames));
            }
            ["ask", numbers @ ..] => {
                let requests = requests(numbers);
                self.understood = requests.is_some();
                requests.into_iter().for_each(|requests| board.ask(START, requests));
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the character that says what has become of frames and requests.
    pub(super) fn state(&self, board: &dyn Board) -> u8 {
        match board.state() {
            _ if !self.understood => b'3',
            State::Idle => b'0',
            State::Busy => b'1',
            State::Unanswered => b'2',
        }
    }
}

/// The most frames or requests, bytes of one, and units of an interval.
const MOST: u64 = 100_000_000;
const LARGEST: u64 = 1 << 14;
/// Bytes of the shortest frame.
const LEAST: u32 = 60;
const LATEST: u64 = 1_000_000_000;

/// Reads a number of this range.
fn number(word: &str, range: RangeInclusive<u64>) -> Option<u64> {
    word.parse().ok().filter(|n| range.contains(n))
}

fn frames(words: &[&str]) -> Option<Frames> {
    let burst = |word: &str| number(word, 0..=MOST).map(|n| n as u32);
    let mut hold = None;
    let (pattern, count, size, flows) = match words {
        ["frames", count, size, frames, gap] => {
            let gap = Span::from_us(number(gap, 0..=LATEST)?);
            (Pattern::Bursts(burst(frames)?, gap), count, size, 0)
        }
        ["arrivals", pattern, count, size, interval, frames, flows] => {
            let interval = Span::from_ns(number(interval, 1..=LATEST)?);
            let pattern = match *pattern {
                "even" => Pattern::Even(interval),
                "poisson" => Pattern::Random(interval),
                "bursts" => Pattern::Bursts(burst(frames)?, interval),
                "on_off" => {
                    hold = Some(Span::from_us(number(frames, 1..=LATEST)?));
                    Pattern::Random(interval)
                }
                "capture" => Pattern::Captured,
                _ => return None,
            };
            (pattern, count, size, number(flows, 0..=u64::from(u16::MAX))? as u16)
        }
        _ => return None,
    };
    let (count, sizes) = (number(count, 0..=MOST)?, sizes(size)?);
    Some(Frames { count, sizes, pattern, hold, flows: (0..flows).collect() })
}

/// Reads a size, or sizes with their weights, as `60:7,590:4`.
fn sizes(word: &str) -> Option<Sizes> {
    let size = |word: &str| Some((number(word, 0..=LARGEST)? as u32).max(LEAST));
    if let Some(size) = size(word) {
        return Some(Sizes::one(size));
    }
    let each = word.split(',').map(|part| {
        let (bytes, weight) = part.split_once(':')?;
        Some((size(bytes)?, number(weight, 1..=MOST)? as f64))
    });
    Some(Sizes::mix(each.collect::<Option<Vec<_>>>()?))
}

fn requests(words: &[&str]) -> Option<Requests> {
    let [over @ ("icmp" | "tcp"), count, size] = words else { return None };
    let (count, size) = (number(count, 0..=MOST)?, number(size, 1..=LARGEST)? as usize);
    Some(Requests { tcp: *over == "tcp", count, size })
}

/// Returns series as text, a point a line.
fn lines(all: &[Series]) -> String {
    let mut text = String::new();
    for series in all {
        for (ms, value) in &series.points {
            // Writing to a string does not fail.
            _ = writeln!(text, "{} {ms} {value}", series.name);
        }
    }
    text
}

/// Returns what the file of a word holds.
pub(super) fn text(line: &str, board: &dyn Board) -> String {
    let counts = board.counts();
    let mut text = format!("{line}\ntime_ps {}\n", board.now().ps());
    let mut put = |group: &str, name: &str, n: u64| {
        // Writing to a string does not fail.
        _ = writeln!(text, "{group}{name} {n}");
    };
    counts.ledger.counters().for_each(|(c, n)| put("ledger.", c.name, n));
    counts.calls.iter().for_each(|(name, n)| put("ledger.", name, *n));
    counts.device.iter().for_each(|(name, n)| put("device.", name, *n));
    put("", "dropped", counts.dropped);
    put("", "sent_again", counts.sent_again);
    for (group, seen) in [("sent.", counts.sent), ("offered.", counts.offered)] {
        put(group, "frames", seen.frames);
        if let Some((first, last)) = seen.span {
            put(group, "first_ps", first.ps());
            put(group, "last_ps", last.ps());
        }
    }
    put("", "answers", counts.answers.count());
    let [least, most] = [counts.answers.min(), counts.answers.max()];
    if let (Some(least), Some(most)) = (least, most) {
        put("latency_ps.", "min", least.ps());
        for (name, per_mille) in [("p50", 500), ("p90", 900), ("p99", 990)] {
            // The histogram knows a span to 0.2 %.
            let about = counts.answers.quantile(per_mille).map_or(0, Span::ps);
            put("latency_ps.", name, about.clamp(least.ps(), most.ps()));
        }
        put("latency_ps.", "max", most.ps());
    }
    text
}
