//! Chrome's trace event format (JSON), as far as Perfetto wants it.
//!
//! Sources: "Trace Event Format" (Chromium's catapult project). An event belongs to a process and a
//! thread; here these are a group of lanes and a lane. Times are microseconds with three decimals,
//! so whole nanoseconds: that is what Perfetto keeps. Flows are tied to slices themselves
//! (`bind_id`, "flow events v2"); the older flow events bind to whatever slice is open at their
//! time, which is the wrong one where two begin together.
//!
//! The array's closing bracket is optional there, so what a killed server leaves can be read.

use std::fmt::Arguments;
use std::io::{self, Write};

/// A trace being written.
#[derive(Debug)]
pub(crate) struct Writer<W> {
    out: W,
    begun: bool,
}

/// A lane: its group and its own number, unique over all groups. Neither is 0, which is Perfetto's
/// idle task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Lane {
    pub(crate) group: usize,
    pub(crate) number: usize,
}

/// What flow a slice is on, and whether it comes from, and goes on to, another slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub(crate) id: usize,
    pub(crate) comes: bool,
    pub(crate) goes: bool,
}

/// Nanoseconds, as the format has them.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl<W: Write> Writer<W> {
    pub(crate) fn begin(mut out: W) -> io::Result<Writer<W>> {
        out.write_all(b"[")?;
        Ok(Writer { out, begun: false })
    }

    fn event(&mut self, fields: Arguments<'_>) -> io::Result<()> {
        let comma = if std::mem::replace(&mut self.begun, true) { "," } else { "" };
        write!(self.out, "{comma}\n{{{fields}}}")
    }

    /// Names a group of lanes. Groups stand in the order of their numbers.
    pub(crate) fn group(&mut self, group: usize, name: &str) -> io::Result<()> {
        self.event(format_args!(
            "\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{group},\"args\":{{\"name\":\"{name}\"}}"
        ))?;
        self.event(format_args!(
            "\"name\":\"process_sort_index\",\"ph\":\"M\",\"pid\":{group},\"args\":{{\"sort_index\":{group}}}"
        ))
    }

    /// Names a lane. Lanes stand in the order of their numbers.
    pub(crate) fn lane(&mut self, Lane { group, number }: Lane, name: &str) -> io::Result<()> {
        let at = format_args!("\"ph\":\"M\",\"pid\":{group},\"tid\":{number}").to_string();
        self.event(format_args!("\"name\":\"thread_name\",{at},\"args\":{{\"name\":\"{name}\"}}"))?;
        self.event(format_args!(
            "\"name\":\"thread_sort_index\",{at},\"args\":{{\"sort_index\":{number}}}"
        ))
    }

    /// Something at an instant. `args` are the inside of a JSON object.
    pub(crate) fn instant(
        &mut self,
        on: Lane,
        ns: u64,
        name: &str,
        args: Arguments<'_>,
    ) -> io::Result<()> {
        let (Lane { group, number }, at) = (on, Micros(ns));
        self.event(format_args!(
            "\"name\":\"{name}\",\"ph\":\"i\",\"s\":\"t\",\"pid\":{group},\"tid\":{number},\"ts\":{at},\"args\":{{{args}}}"
        ))
    }

    /// Something that takes time, `ns` from and until. Slices of a lane that overlap must nest, the
    /// outer one first.
    pub(crate) fn slice(
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
            "\"name\":\"{name}\",\"ph\":\"X\",\"pid\":{group},\"tid\":{number},\"ts\":{at},\"dur\":{lasts}{bound},\"args\":{{{args}}}"
        ))
    }

    /// The end.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.out.write_all(b"\n]\n")?;
        self.out.flush()
    }
}
