//! A PCI or PCI-X segment between a device and its host bridge, in time.
//!
//! Reads, writes, split completions and register accesses share one line of reservations, half
//! duplex, one transaction at a time, in whole bus clocks. docs/buses.md says where the platform's
//! own prices are spent. A write is over for the device when the bridge has taken it, and arrives
//! in memory later. A register read pushes the device's writes before it, and a delayed or split
//! read is fetched behind them. INTx lines are wires beside the bus.

use super::{Command, Operation, Protocol, Rules, Settings, Transaction};
use crate::machine::{bus_of_platform, port_of_platform};
use crate::outstanding::OutstandingRequests;
use crate::reservations::{Interval, Reservations};
use crate::trace::{EventKind, Link, Transfer};
use crate::{Bus, Capture, FrameSink, Platform};
use doorbell_hal::{Direction, DmaFault, Iova, Port, Span, Time};

/// Latencies and addresses beside the commands of [`Rules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latencies {
    /// The time of a register access between CPU and bus, one way.
    pub cpu: Span,
    /// The time from a write's last data on the bus to memory.
    pub memory: Span,
    /// The time from the device's decode of a register read to its data; the bus is held.
    pub register: Span,
}

/// A bus segment with a platform behind its bridge; the device's [`Port`].
#[derive(Debug)]
pub struct Pci<S = Capture> {
    platform: Platform,
    sink: S,
    rules: Rules,
    latencies: Latencies,
    bar: u64,
    line: Reservations,
    reads: OutstandingRequests,
    /// The time at which the bridge has fetched the last byte of the split reads before.
    fetched: Time,
    /// The arrival of the last write in memory.
    posted: Time,
    /// The time from the device's decode of a register read until the bus is free again.
    answering: Span,
    /// The plans of the last conventional reads and of the last writes, by length: transfers of
    /// equal packets have the same, and descriptors have others than data.
    plans: [[Plan; 4]; 2],
}

/// The commands of a transfer, and what they come to.
#[derive(Debug, Default)]
struct Plan {
    /// The transfers that it holds for. `None`: for one alone that reaches a multiple of 4 GiB,
    /// because addresses above take a clock more.
    key: Option<Key>,
    /// The kinds of commands in order, and how often each comes.
    commands: Vec<(Command, u64)>,
    tenures: Vec<Tenure>,
    retries: u64,
    clocks: u64,
    /// The lines that are written in part.
    partial_lines: u64,
    /// The times from the start for which the tenures hold a free bus, and until the data is there.
    held: Vec<Interval>,
    takes: Span,
}

/// All that the commands of a transfer depend on: its address within the bridge's window (inside a
/// line, within a data phase), whether that is above 4 GiB, and its length.
type Key = (u64, bool, usize);

/// A tenure of the bus: a transaction, or an attempt at it that is answered with Retry.
#[derive(Clone, Copy, Debug)]
struct Tenure {
    name: &'static str,
    /// Its address is an offset from that of the transfer.
    transaction: Transaction,
    takes: Span,
    /// The time from its end until the next may begin.
    pause: Span,
}

impl Plan {
    /// Makes the plan of a transfer, unless it is the same already.
    #[inline]
    fn follow(&mut self, rules: &Rules, operation: Operation, addr: u64, len: usize) {
        let Settings { bits, line, boundary, .. } = *rules.settings();
        // No command ends inside a line, nor inside 128 bytes of one.
        let block = line.min(128) as usize;
        let inside = len < block && (addr as usize & (block - 1)) + len <= block;
        let unit = if inside { bits / 8 } else { boundary };
        let key = (addr & u64::from(unit - 1), addr >> 32 != 0, len);
        let crosses = !inside && addr >> 32 != addr.wrapping_add(len as u64) >> 32;
        if crosses || self.key != Some(key) {
            self.make(rules, operation, addr, len);
            self.key = (!crosses).then_some(key);
        }
    }

    #[cold]
    fn make(&mut self, rules: &Rules, operation: Operation, addr: u64, len: usize) {
        let settings = rules.settings();
        let (price, pieces, delayed) = match operation {
            Operation::Read => (settings.read, rules.reads(addr, len as u32), rules.delays_reads()),
            Operation::Write => (settings.write, rules.writes(addr, len as u32), false),
        };
        *self = Plan::default();
        let mut add = |name, t: Transaction, clocks, pause| {
            let transaction = Transaction { addr: t.addr.wrapping_sub(addr), ..t };
            self.clocks += clocks;
            self.tenures.push(Tenure { name, transaction, takes: rules.period() * clocks, pause });
        };
        for t in pieces {
            let mut wait = price.per_unit * t.bytes.into();
            if delayed {
                self.retries += 1;
                add("retry", t, rules.retry_clocks(&t), price.each);
            } else {
                wait += price.each;
            }
            add(t.command.name(), t, rules.clocks(&t) + rules.clocks_in(wait), Span::ZERO);
            match self.commands.last_mut() {
                Some((command, n)) if *command == t.command => *n += 1,
                _ => self.commands.push((t.command, 1)),
            }
            self.partial_lines += u64::from(t.partial_lines(settings.line));
        }
        let mut line = Reservations::new();
        self.takes = self.book(&mut line, Time::ZERO, |_, _| {}).since(Time::ZERO);
        self.held = line.intervals().collect();
    }

    /// Books the tenures on `line`, one after the other from `at` on. Tells `note` the interval of
    /// each. Returns when the last data is there.
    #[cold]
    fn book(
        &self,
        line: &mut Reservations,
        at: Time,
        mut note: impl FnMut(&Tenure, Interval),
    ) -> Time {
        self.tenures.iter().fold(at, |at, tenure| {
            let start = line.book(at, tenure.takes);
            let end = start + tenure.takes;
            note(tenure, Interval { start, end });
            end + tenure.pause
        })
    }
}

impl Pci {
    /// Creates a bus with these rules and the device's registers at bus address `bar`.
    pub fn new(platform: Platform, rules: Rules, latencies: Latencies, bar: u64) -> Pci {
        let outstanding = match rules.settings().protocol {
            Protocol::Conventional { .. } => 1,
            Protocol::X { outstanding, .. } => outstanding,
        };
        Pci {
            platform,
            sink: Capture::default(),
            rules,
            latencies,
            bar,
            line: Reservations::new(),
            reads: OutstandingRequests::new(outstanding),
            fetched: Time::ZERO,
            posted: Time::ZERO,
            // Data and idle come after the wait.
            answering: rules.period() * (2 + rules.clocks_in(latencies.register)),
            plans: Default::default(),
        }
    }
}

impl<S: FrameSink> Pci<S> {
    /// Returns the bus's rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the whole bus clocks in `span`.
    pub fn capacity(&self, span: Span) -> u64 {
        span.ps() / self.rules.period().ps()
    }

    /// Returns the time for which the bus was booked.
    pub fn busy(&self) -> Span {
        self.line.busy()
    }

    /// Returns the end of the last transaction booked.
    pub fn booked_until(&self) -> Time {
        self.line.horizon()
    }

    /// Takes the bus for `clocks` at or after `at`, for `t` as `name`. Returns when it is free
    /// again.
    #[inline]
    fn book(&mut self, at: Time, clocks: u64, t: &Transaction, name: &'static str) -> Time {
        self.platform.ledger.pci_clocks += clocks;
        let duration = self.rules.period() * clocks;
        let start = self.line.book(at, duration);
        let crossing = || Transfer { name, at: Iova(t.addr), bytes: t.bytes.into(), count: 1 };
        self.platform.note(start, start + duration, || EventKind::Bus(Link::Pci, crossing()));
        start + duration
    }

    /// Books the commands of a transfer, of which one is under way at a time. Returns when its last
    /// data is over.
    #[inline(always)]
    fn transfer(&mut self, operation: Operation, at: Time, addr: u64, len: usize) -> Time {
        let plans = &mut self.plans[operation as usize];
        let plan = &mut plans[len % plans.len()];
        plan.follow(&self.rules, operation, addr, len);
        if plan.commands.is_empty() {
            return at;
        }
        let ledger = &mut self.platform.ledger;
        plan.commands.iter().for_each(|(c, n)| ledger.count_commands(*c, *n));
        ledger.pci_retries += plan.retries;
        ledger.pci_clocks += plan.clocks;
        if operation == Operation::Write {
            ledger.count_pci_payload(len as u64, plan.partial_lines);
        }
        if !self.platform.is_recording()
            && let held = plan.held.iter().copied()
            && let Some(start) = self.line.append(at, held, self.rules.period() * plan.clocks)
        {
            return start + plan.takes;
        }
        plan.book(&mut self.line, at, |Tenure { name, transaction: t, .. }, held| {
            let at = Iova(t.addr.wrapping_add(addr));
            let crossing = Transfer { name, at, bytes: t.bytes.into(), count: 1 };
            self.platform.note(held.start, held.end, || EventKind::Bus(Link::Pci, crossing));
        })
    }

    /// Books a PCI-X read request and its completions. Returns when the last data is there.
    fn split_read(&mut self, at: Time, t: Transaction) -> Time {
        let price = self.rules.settings().read;
        self.platform.ledger.count_commands(t.command, 1);
        let asked = self.book(self.reads.free(at), self.rules.clocks(&t), &t, t.command.name());
        let mut ready = (asked.max(self.posted) + price.each).max(self.fetched);
        let mut done = ready;
        for c in self.rules.completions(t.addr, t.bytes) {
            self.platform.ledger.count_commands(c.command, 1);
            ready += price.per_unit * c.bytes.into();
            done = self.book(ready.max(done), self.rules.clocks(&c), &c, c.command.name());
        }
        self.fetched = ready;
        self.reads.take(done);
        done
    }

    /// Returns the transaction of a register access.
    fn access(&self, command: Command, size: u8) -> Transaction {
        Transaction { addr: self.bar, command, bytes: size.into() }
    }
}

/// The address of messages: the interrupt controller's page, below 4 GiB.
const MESSAGE_ADDRESS: Iova = Iova(0xfee0_0000);

impl<S: FrameSink> Port for Pci<S> {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        self.platform.fetch(from, into)?;
        let done = match self.rules.settings().protocol {
            Protocol::Conventional { .. } if into.is_empty() => at,
            Protocol::Conventional { .. } => {
                let mut wanted = self.reads.free(at);
                if self.rules.delays_reads() {
                    // The bridge has it from its first attempt on.
                    let first = Transaction { addr: from.0, command: Command::Mr, bytes: 4 };
                    let attempt = self.rules.period() * self.rules.retry_clocks(&first);
                    let before = self.posted.ps().saturating_sub(attempt.ps());
                    wanted = wanted.max(Time::from_ps(before));
                }
                let done = self.transfer(Operation::Read, wanted, from.0, into.len());
                self.reads.take(done);
                done
            }
            // All requests may leave at once; how many do, the limit says.
            Protocol::X { .. } => self
                .rules
                .reads(from.0, into.len() as u32)
                .fold(at, |done, t| self.split_read(at, t).max(done)),
        };
        self.platform.ledger.pci_read_bytes += into.len() as u64;
        self.platform.note_transfer(at, done, from, into, Direction::ToDevice);
        Ok(done)
    }

    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let place = self.platform.check_dma_write(to, from.len())?;
        let taken = self.transfer(Operation::Write, at, to.0, from.len());
        let arrival = self.posted.max(taken + self.latencies.memory);
        self.posted = self.platform.post_write_since(at, arrival, place, from);
        Ok(self.posted)
    }

    port_of_platform!();

    fn raise_msi(&mut self, at: Time, vector: u16) {
        let t = Transaction { addr: MESSAGE_ADDRESS.0, command: self.write_command(), bytes: 4 };
        self.platform.ledger.count_commands(t.command, 1);
        // To an interrupt controller, which has no lines.
        self.platform.ledger.count_pci_payload(t.bytes.into(), 0);
        let taken = self.book(at, self.rules.clocks(&t), &t, t.command.name());
        self.posted = self.posted.max(taken + self.latencies.memory);
        self.platform.post_message(at, self.posted, vector);
    }
}

impl<S: FrameSink> Pci<S> {
    /// Returns the command of a short write.
    fn write_command(&self) -> Command {
        match self.rules.settings().protocol {
            Protocol::Conventional { .. } => Command::Mw,
            Protocol::X { .. } => Command::MwBlock,
        }
    }

    /// Returns the command of a register read.
    fn read_command(&self) -> Command {
        // On PCI-X the device answers at once, as the 8254x does with nearly all of its registers.
        match self.rules.settings().protocol {
            Protocol::Conventional { .. } => Command::Mr,
            Protocol::X { .. } => Command::MrDword,
        }
    }
}

impl<S: FrameSink> Bus for Pci<S> {
    type Sink = S;
    type With<T: FrameSink + Clone> = Pci<T>;

    fn with_sink<T: FrameSink + Clone>(self, sink: T) -> Pci<T> {
        let Pci { platform, rules, latencies, bar, line, reads, .. } = self;
        let Pci { fetched, posted, answering, plans, .. } = self;
        Pci {
            platform,
            sink,
            rules,
            latencies,
            bar,
            line,
            reads,
            fetched,
            posted,
            answering,
            plans,
        }
    }

    bus_of_platform!();

    fn register_write(&mut self, at: Time, size: u8) -> Time {
        let t = self.access(self.write_command(), size);
        self.book(at + self.latencies.cpu, self.rules.clocks(&t), &t, t.command.name())
    }

    /// Books the whole access, because the bus is held until the device has answered.
    fn register_read(&mut self, at: Time, size: u8) -> Time {
        let t = self.access(self.read_command(), size);
        let clocks = self.rules.clocks(&t) + self.rules.clocks_in(self.latencies.register);
        let free = self.book(at + self.latencies.cpu, clocks, &t, t.command.name());
        Time::from_ps(free.ps() - self.answering.ps())
    }

    fn register_answer(&mut self, at: Time, _size: u8) -> Time {
        let free = at + self.answering;
        (free + self.latencies.cpu).max(self.posted)
    }

    fn retire_before(&mut self, floor: Time) {
        self.line.retire_before(floor);
    }

    fn booked_after(&self, at: Time) -> [Span; 2] {
        [self.line.busy_after(at); 2]
    }
}
