//! The qtest protocol: one line a command, one line an answer.
//!
//! An answer starts with `OK`, `FAIL` or `ERR`. In between QEMU reports changes of the intercepted
//! interrupt lines (`IRQ raise 11`); those caused by a command come before its answer.

use super::Error;
use super::process::Process;
use doorbell_hal::{Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::fmt::{Arguments, Write as _};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// A QEMU under qtest. Dropping it ends the process.
///
/// Addresses are physical. Every method fails if QEMU refuses, has ended, or does not answer in
/// time.
#[derive(Debug)]
pub struct Qemu {
    stream: UnixStream,
    process: Option<Process>,
    patience: Duration,
    command: String,
    received: Vec<u8>,
    levels: BTreeMap<u32, bool>,
    events: VecDeque<IrqEvent>,
}

/// A change of an intercepted interrupt line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IrqEvent {
    /// Input of the intercepted controller.
    pub line: u32,
    /// The new level.
    pub high: bool,
}

/// The most line changes that are queued; older ones are dropped. A PC's timer has a line too,
/// which a test may ignore.
const EVENTS: usize = 4096;

impl Qemu {
    pub(super) fn over(
        stream: UnixStream,
        process: Option<Process>,
        patience: Duration,
    ) -> Result<Qemu, Error> {
        stream.set_read_timeout(Some(patience)).map_err(Error::system("setting a timeout"))?;
        stream.set_write_timeout(Some(patience)).map_err(Error::system("setting a timeout"))?;
        Ok(Qemu {
            stream,
            process,
            patience,
            command: String::new(),
            received: Vec::new(),
            levels: BTreeMap::new(),
            events: VecDeque::new(),
        })
    }

    /// Reads 32 bits of memory or of a device.
    pub fn read32(&mut self, address: u64) -> Result<u32, Error> {
        let answer = self.ask(format_args!("readl {address:#x}"))?;
        self.number(&answer).map(|v| v as u32)
    }

    /// Writes 32 bits.
    pub fn write32(&mut self, address: u64, v: u32) -> Result<(), Error> {
        self.ask(format_args!("writel {address:#x} {v:#x}")).map(drop)
    }

    /// Writes 64 bits.
    pub fn write64(&mut self, address: u64, v: u64) -> Result<(), Error> {
        self.ask(format_args!("writeq {address:#x} {v:#x}")).map(drop)
    }

    /// Reads 32 bits of an x86 I/O port.
    pub fn in32(&mut self, port: u16) -> Result<u32, Error> {
        let answer = self.ask(format_args!("inl {port:#x}"))?;
        self.number(&answer).map(|v| v as u32)
    }

    /// Writes 32 bits to an x86 I/O port.
    pub fn out32(&mut self, port: u16, v: u32) -> Result<(), Error> {
        self.ask(format_args!("outl {port:#x} {v:#x}")).map(drop)
    }

    /// Copies memory out.
    pub fn read(&mut self, address: u64, into: &mut [u8]) -> Result<(), Error> {
        if into.is_empty() {
            return Ok(());
        }
        let answer = self.ask(format_args!("read {address:#x} {:#x}", into.len()))?;
        let digits = answer.strip_prefix("0x").filter(|d| d.len() == 2 * into.len());
        let ok = digits.is_some_and(|digits| {
            digits.as_bytes().chunks_exact(2).zip(into.iter_mut()).all(|(pair, byte)| {
                let value = str::from_utf8(pair).ok().and_then(|p| u8::from_str_radix(p, 16).ok());
                *byte = value.unwrap_or_default();
                value.is_some()
            })
        });
        if ok { Ok(()) } else { Err(self.nonsense(&answer)) }
    }

    /// Copies memory in.
    pub fn write(&mut self, address: u64, from: &[u8]) -> Result<(), Error> {
        if from.is_empty() {
            return Ok(());
        }
        let mut digits = String::with_capacity(2 * from.len());
        for byte in from {
            // Writing to a String does not fail.
            let _ = write!(digits, "{byte:02x}");
        }
        self.ask(format_args!("write {address:#x} {:#x} 0x{digits}", from.len())).map(drop)
    }

    /// Advances virtual time by whole nanoseconds (rounded up), and runs due timers. Returns the
    /// new time.
    pub fn step(&mut self, by: Span) -> Result<Time, Error> {
        let answer = self.ask(format_args!("clock_step {}", by.ps().div_ceil(1_000)))?;
        self.number(&answer).map(|ns| Time::from_ps(ns * 1_000))
    }

    /// Advances virtual time to the next timer. Returns the new time.
    pub fn step_to_timer(&mut self) -> Result<Time, Error> {
        let answer = self.ask(format_args!("clock_step"))?;
        self.number(&answer).map(|ns| Time::from_ps(ns * 1_000))
    }

    /// Makes two exchanges without effect. QEMU's main loop polls every socket between two
    /// commands, so earlier frames have been offered to the device after them.
    pub fn settle(&mut self) -> Result<(), Error> {
        for _ in 0..2 {
            self.ask(format_args!("endianness"))?;
        }
        Ok(())
    }

    /// Intercepts the inputs of the interrupt controller at `path` in QEMU's object model
    /// (`ioapic`): they are reported here and not to the controller. One controller per QEMU.
    pub fn intercept(&mut self, path: &str) -> Result<(), Error> {
        self.ask(format_args!("irq_intercept_in {path}")).map(drop)
    }

    /// Returns the last reported level of an intercepted line.
    pub fn level(&self, line: u32) -> bool {
        self.levels.get(&line).copied().unwrap_or(false)
    }

    /// Takes the oldest queued change of an intercepted line.
    pub fn take_event(&mut self) -> Option<IrqEvent> {
        self.events.pop_front()
    }

    /// Ends the process. Later commands return errors.
    pub fn kill(&mut self) {
        if let Some(process) = &mut self.process {
            process.kill();
        }
    }

    /// Sends one command. Returns its answer without the `OK`.
    pub fn ask(&mut self, command: Arguments<'_>) -> Result<String, Error> {
        self.command.clear();
        // Writing to a String does not fail.
        let _ = self.command.write_fmt(command);
        self.command.push('\n');
        if let Err(e) = self.stream.write_all(self.command.as_bytes()) {
            return Err(self.broken(e));
        }
        let asked_at = Instant::now();
        loop {
            let line = self.line(asked_at)?;
            if let Some(change) = line.strip_prefix("IRQ ") {
                self.note(change).ok_or_else(|| self.nonsense(&line))?;
            } else if let Some(answer) = line.strip_prefix("OK") {
                return Ok(answer.trim_start().to_owned());
            } else {
                return Err(self.nonsense(&line));
            }
        }
    }

    fn line(&mut self, asked_at: Instant) -> Result<String, Error> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.received[searched..].iter().position(|b| *b == b'\n') {
                let line =
                    String::from_utf8_lossy(&self.received[..searched + end]).trim_end().to_owned();
                self.received.drain(..=searched + end);
                return Ok(line);
            }
            searched = self.received.len();
            if asked_at.elapsed() > self.patience {
                return Err(self.silent());
            }
            let mut piece = [0; 16384];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(self.ended()),
                Ok(n) => self.received.extend_from_slice(&piece[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(self.broken(e)),
            }
        }
    }

    /// Queues a change: `raise 11` or `lower 11`.
    fn note(&mut self, change: &str) -> Option<()> {
        let (what, line) = change.split_once(' ')?;
        let event = IrqEvent { line: line.parse().ok()?, high: what == "raise" };
        self.levels.insert(event.line, event.high);
        if self.events.len() == EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
        Some(())
    }

    fn number(&self, answer: &str) -> Result<u64, Error> {
        let value = match answer.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => answer.parse(),
        };
        value.map_err(|_| self.nonsense(answer))
    }

    /// Returns the first 80 characters of the command, for an error.
    fn asked(&self) -> String {
        self.command.trim_end().chars().take(80).collect()
    }

    fn nonsense(&self, answer: &str) -> Error {
        Error::Answer { asked: self.asked(), answer: answer.chars().take(200).collect() }
    }

    fn silent(&self) -> Error {
        Error::Silent { asked: self.asked(), waited: self.patience }
    }

    fn ended(&mut self) -> Error {
        match &mut self.process {
            Some(process) => process.obituary(),
            None => Error::Exited { status: None, said: String::new() },
        }
    }

    fn broken(&mut self, e: std::io::Error) -> Error {
        match e.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => self.silent(),
            ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => self.ended(),
            _ => Error::System { doing: "talking to QEMU".into(), why: e },
        }
    }
}

#[cfg(test)]
mod tests;
