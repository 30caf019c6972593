//! Chrome's trace event format (JSON), as far as Perfetto needs it (Chromium, catapult project,
//! "Trace Event Format").
//!
//! Process and thread of an event are a group of lanes and a lane. Times are microseconds with
//! three decimals, since Perfetto keeps whole nanoseconds. Flows are bound to slices (`bind_id`),
//! because flow events bind to the wrong slice if two begin together. The closing bracket is
//! optional, so that the trace of a killed server is readable.

use std::fmt::Arguments;
use std::io::{self, Write};

/// The end of a trace, which readers do without.
pub const END: &[u8] = b"\n]\n";

/// A trace being written.
pub struct Writer<W> {
    out: W,
    begun: bool,
}

/// A lane: its group, and a number that is unique over all groups. Neither is 0, which is the idle
/// task of Perfetto.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lane {
    /// Its group.
    pub group: usize,
    /// Its number.
    pub number: usize,
}

/// The flow of a slice, and its connections to a previous and to a next slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Its number.
    pub id: usize,
    /// It comes from an earlier slice.
    pub comes: bool,
    /// It goes on to a later slice.
    pub goes: bool,
}

/// Nanoseconds, shown as microseconds.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    pub fn begin(mut out: W) -> io::Result<Writer<W>> {
        out.write_all(b"[")?;
        Ok(Writer { out, begun: false })
    }

    fn event(&mut self, fields: Arguments<'_>) -> io::Result<()> {
        let comma = if std::mem::replace(&mut self.begun, true) { "," } else { "" };
        write!(self.out, "{comma}\n{{{fields}}}")
    }

    /// Names a group of lanes. Groups are sorted by number.
    pub fn group(&mut self, group: usize, name: &str) -> io::Result<()> {
        self.named("process", format_args!("\"pid\":{group}"), group, name)
    }

    fn named(&mut self, what: &str, at: Arguments<'_>, n: usize, name: &str) -> io::Result<()> {
        let mut meta = |key: &str, args: Arguments<'_>| {
            let name = format_args!("\"name\":\"{what}_{key}\",\"ph\":\"M\"");
            self.event(format_args!("{name},{at},\"args\":{{{args}}}"))
        };
        meta("name", format_args!("\"name\":\"{name}\""))?;
        meta("sort_index", format_args!("\"sort_index\":{n}"))
    }

    /// Names a lane. Lanes are sorted by number.
    pub fn lane(&mut self, Lane { group, number }: Lane, name: &str) -> io::Result<()> {
        self.named("thread", format_args!("\"pid\":{group},\"tid\":{number}"), number, name)
    }

    /// Writes an instant event. `args` are the inside of a JSON object.
    pub fn instant(
        &mut self,
        on: Lane,
        ns: u64,
        name: &str,
        args: Arguments<'_>,
    ) -> io::Result<()> {
        let (Lane { group, number }, at) = (on, Micros(ns));
        self.event(format_args!(
            "\"name\":\"{name}\",\"ph\":\"i\",\"s\":\"t\",\"pid\":{group},\"tid\":{number},\
             \"ts\":{at},\"args\":{{{args}}}"
        ))
    }

    /// Writes an event with begin and end in `ns`. Overlapping slices of a lane must nest, the
    /// outer one first.
    pub fn slice(
        &mut self,
        on: Lane,
        ns: (u64, u64),
        name: &str,
        flow: Option<Flow>,
        args: Arguments<'_>,
    ) -> io::Result<()> {
        let Lane { group, number } = on;
        let (at, lasts) = (Micros(ns.0), Micros(ns.1 - ns.0));
        let bound = flow.map_or(String::new(), |Flow { id, comes, goes }| {
            let ends = [(comes, ",\"flow_in\":true"), (goes, ",\"flow_out\":true")];
            let ends: String = ends.into_iter().filter(|e| e.0).map(|e| e.1).collect();
            format!(",\"bind_id\":\"{id}\"{ends}")
        });
        self.event(format_args!(
            "\"name\":\"{name}\",\"ph\":\"X\",\"pid\":{group},\"tid\":{number},\"ts\":{at},\
             \"dur\":{lasts}{bound},\"args\":{{{args}}}"
        ))
    }

    /// Returns the file.
    pub const fn file(&mut self) -> &mut W {
        &mut self.out
    }

    /// Ends the trace.
    pub fn end(&mut self) -> io::Result<()> {
        self.out.write_all(END)?;
        self.out.flush()
    }
}
