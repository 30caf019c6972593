//! One slice of traffic by iperf3: a TCP stream of whole seconds between a host and the network's.
//! The rate is iperf3's own, at the receiver. Meanwhile the counters of the network host give the
//! progress, and every daemon is watched, so that a run ends at once if its switch dies.

use super::testbed::{Arm, SERVER, Testbed};
use super::{State, Watcher, priority};
use doorbell_hal::fail_if;
use doorbell_host_io::child::ChildGuard;
use serde_json::Value;
use std::io::{self, Read, Seek};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Time that a slice may take beyond its length.
const GRACE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(40);
/// Retries while the server is busy.
const BUSY: u32 = 25;
const SHOW: Duration = Duration::from_millis(200);

/// The length, the direction and the host of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount {
    pub(super) seconds: u32,
    /// The network sends.
    pub(super) reverse: bool,
    pub(super) arm: Arm,
    /// For the progress.
    pub(super) state: State,
}

/// The result of a slice, by iperf3.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Slice {
    pub(super) bits: f64,
    pub(super) seconds: f64,
    pub(super) retransmits: u64,
}

impl Slice {
    /// Returns the received bits a second.
    pub(super) fn rate(&self) -> f64 {
        self.bits / self.seconds.max(f64::MIN_POSITIVE)
    }
}

/// Runs a slice. Fails with `Interrupted` after a signal, or with the message of iperf3 or of a
/// daemon.
pub(super) fn slice(bed: &mut Testbed, amount: Amount, watch: &Watcher<'_>) -> io::Result<Slice> {
    // The server may still wait for the end of the previous slice.
    for _ in 0..BUSY {
        match attempt(bed, amount, watch) {
            Err(e) if e.to_string().contains("the server is busy") => std::thread::sleep(SHOW),
            other => return other,
        }
    }
    attempt(bed, amount, watch)
}

fn attempt(bed: &mut Testbed, amount: Amount, watch: &Watcher<'_>) -> io::Result<Slice> {
    let mut command = bed.iperf3(amount.arm);
    command.args(["-c", SERVER, "-J", "-i", "0", "--connect-timeout", "10000"]);
    command.args(["-t", &amount.seconds.to_string()]);
    if amount.reverse {
        command.arg("-R");
    }
    let limit = Duration::from_secs(amount.seconds.into());
    let mut out = tempfile::tempfile()?;
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(Stdio::null());
    let began = Instant::now();
    let mut client = ChildGuard::spawn("iperf3", &mut command)?;
    if watch.urgent {
        priority::raise(client.id());
    }
    let direction = usize::from(amount.reverse);
    let mut seen = (Instant::now(), bed.bytes()?[direction]);
    let status = loop {
        if let Some(status) = client.ended()? {
            break status;
        }
        fail_if(watch.interrupted(), io::ErrorKind::Interrupted)?;
        bed.alive()?;
        if began.elapsed() > limit + GRACE {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "iperf3 does not end"));
        }
        if watch.shows() && seen.0.elapsed() >= SHOW {
            let now = (Instant::now(), bed.bytes()?[direction]);
            let bits = now.1.saturating_sub(seen.1) as f64 * 8.0;
            watch.rate(amount.state, amount.arm, bits / now.0.duration_since(seen.0).as_secs_f64());
            seen = now;
        }
        std::thread::sleep(LOOK);
    };
    let mut text = String::new();
    out.rewind()?;
    out.read_to_string(&mut text)?;
    if text.is_empty() {
        return Err(io::Error::other(format!("iperf3 has ended: {status}")));
    }
    parse(&text)
}

fn parse(text: &str) -> io::Result<Slice> {
    let unclear =
        |e: &dyn std::fmt::Display| io::Error::other(format!("unexpected output of iperf3: {e}"));
    let v: Value = serde_json::from_str(text).map_err(|e| unclear(&e))?;
    if let Some(e) = v["error"].as_str() {
        return Err(io::Error::other(format!("iperf3: {e}")));
    }
    let received = &v["end"]["sum_received"];
    let number =
        |of: &Value, name: &str| of[name].as_f64().ok_or_else(|| unclear(&format!("no {name}")));
    Ok(Slice {
        bits: number(received, "bytes")? * 8.0,
        seconds: number(received, "seconds")?,
        retransmits: v["end"]["sum_sent"]["retransmits"].as_u64().unwrap_or(0),
    })
}

#[cfg(test)]
mod tests;
