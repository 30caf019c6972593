//! A PCI or PCI-X segment between a device and its host bridge, in time.
//!
//! Reads, writes, split completions and register accesses share one line of reservations, half
//! duplex, one transaction at a time, in whole bus clocks. docs/buses.md says where the platform's
//! own prices are spent. A write is over for the device when the bridge has taken it, and arrives
//! in memory later. A register read pushes the device's writes before it. INTx lines are wires
//! beside the bus.

use super::{Command, Protocol, Rules, Transaction};
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
    /// The plan of the last conventional read. Reads of equal packets have the same.
    plan: ReadPlan,
}

/// The commands of a conventional read, and what they come to.
#[derive(Debug, Default)]
struct ReadPlan {
    /// The reads that it holds for. `None`: for one that crosses a multiple of 4 GiB alone, because
    /// addresses above take a clock more.
    key: Option<ReadKey>,
    commands: Vec<PlannedRead>,
    /// The clocks and the attempts answered with Retry, of all commands.
    clocks: u64,
    retries: u64,
    /// The times from the start for which the commands hold a free bus, and until the data is there.
    held: Vec<Interval>,
    takes: Span,
}

/// All that the commands of a read depend on: its address within the bridge's window, whether that
/// is above 4 GiB, and its length.
type ReadKey = (u64, bool, usize);

/// A command of a read, and the time for which it holds the bus.
#[derive(Clone, Copy, Debug)]
struct PlannedRead {
    /// Its address is an offset from that of the read.
    transaction: Transaction,
    /// The time of the attempt that is answered with Retry; none unless reads are delayed.
    retry: Span,
    takes: Span,
}

impl ReadPlan {
    /// Makes the plan of a read, unless it is the same already.
    #[inline]
    fn follow(&mut self, rules: &Rules, from: u64, len: usize) {
        let boundary = u64::from(rules.settings().boundary);
        let end = from.wrapping_add((len as u64).saturating_sub(1));
        let key = (from & (boundary - 1), from >> 32 != 0, len);
        if from >> 32 != end >> 32 || self.key != Some(key) {
            self.make(rules, from, len);
            self.key = (from >> 32 == end >> 32).then_some(key);
        }
    }

    #[cold]
    fn make(&mut self, rules: &Rules, from: u64, len: usize) {
        let price = rules.settings().read;
        (self.clocks, self.retries) = (0, 0);
        self.commands.clear();
        for t in rules.reads(from, len as u32) {
            let data = price.per_unit * t.bytes.into();
            let (retry, wait) = match rules.delays_reads() {
                true => (rules.retry_clocks(&t), data),
                false => (0, data + price.each),
            };
            let clocks = rules.clocks(&t) + rules.clocks_in(wait);
            self.clocks += retry + clocks;
            self.retries += u64::from(retry > 0);
            self.commands.push(PlannedRead {
                transaction: Transaction { addr: t.addr.wrapping_sub(from), ..t },
                retry: rules.period() * retry,
                takes: rules.period() * clocks,
            });
        }
        let mut line = Reservations::new();
        self.takes = self.book(&mut line, Time::ZERO, price.each, |_, _, _| {}).since(Time::ZERO);
        self.held = line.intervals().collect();
    }

    /// Books the commands on `line`, one after the other from `at` on. The data comes `answer`
    /// after a Retry. Tells `note` the command and the interval of each booking. Returns when the
    /// last data is there.
    fn book(
        &self,
        line: &mut Reservations,
        at: Time,
        answer: Span,
        mut note: impl FnMut(&'static str, &Transaction, Interval),
    ) -> Time {
        let mut done = at;
        for PlannedRead { transaction: t, retry, takes } in &self.commands {
            let mut hold = |name, at, duration| {
                let start = line.book(at, duration);
                note(name, t, Interval { start, end: start + duration });
                start + duration
            };
            if *retry > Span::ZERO {
                done = hold("retry", done, *retry) + answer;
            }
            done = hold(t.command.name(), done, *takes);
        }
        done
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
            plan: ReadPlan::default(),
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

    /// Books the commands of a conventional read, of which one is under way at a time. Returns when
    /// its data is there.
    #[inline]
    fn conventional_read(&mut self, at: Time, from: u64, len: usize) -> Time {
        self.plan.follow(&self.rules, from, len);
        if self.plan.commands.is_empty() {
            return at;
        }
        let (plan, platform) = (&self.plan, &mut self.platform);
        plan.commands.iter().for_each(|c| platform.ledger.count_command(c.transaction.command));
        platform.ledger.pci_retries += plan.retries;
        platform.ledger.pci_clocks += plan.clocks;
        let wanted = self.reads.free(at);
        let at_once = match platform.is_recording() {
            true => None,
            false => self.line.append(wanted, &plan.held),
        };
        let done = match at_once {
            Some(start) => start + plan.takes,
            None => self.book_read(wanted, from),
        };
        self.reads.take(done);
        done
    }

    /// Books the commands of the planned read into the gaps of the bus.
    #[cold]
    #[inline(never)]
    fn book_read(&mut self, at: Time, from: u64) -> Time {
        let answer = self.rules.settings().read.each;
        self.plan.book(&mut self.line, at, answer, |name, t, Interval { start, end }| {
            let at = Iova(t.addr.wrapping_add(from));
            let crossing = Transfer { name, at, bytes: t.bytes.into(), count: 1 };
            self.platform.note(start, end, || EventKind::Bus(Link::Pci, crossing));
        })
    }

    /// Books a PCI-X read request and its completions. Returns when the last data is there.
    fn split_read(&mut self, at: Time, t: Transaction) -> Time {
        let price = self.rules.settings().read;
        self.platform.ledger.count_command(t.command);
        let asked = self.book(self.reads.free(at), self.rules.clocks(&t), &t, t.command.name());
        let mut ready = (asked + price.each).max(self.fetched);
        let mut done = ready;
        for c in self.rules.completions(t.addr, t.bytes) {
            self.platform.ledger.count_command(c.command);
            ready += price.per_unit * c.bytes.into();
            done = self.book(ready.max(done), self.rules.clocks(&c), &c, c.command.name());
        }
        self.fetched = ready;
        self.reads.take(done);
        done
    }

    /// Books posted bytes toward the host. Returns when the last is in memory.
    fn send_write(&mut self, at: Time, to: Iova, len: u32) -> Time {
        let price = self.rules.settings().write;
        let line = self.rules.settings().line;
        let mut done = at;
        for t in self.rules.writes(to.0, len) {
            self.platform.ledger.count_pci_write(&t, line);
            let wait = price.each + price.per_unit * t.bytes.into();
            done = self.book(
                done,
                self.rules.clocks(&t) + self.rules.clocks_in(wait),
                &t,
                t.command.name(),
            );
        }
        self.posted = self.posted.max(done + self.latencies.memory);
        self.posted
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
            Protocol::Conventional { .. } => self.conventional_read(at, from.0, into.len()),
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
        let arrival = self.send_write(at, to, from.len() as u32);
        Ok(self.platform.post_write_since(at, arrival, place, from))
    }

    port_of_platform!();

    fn raise_msi(&mut self, at: Time, vector: u16) {
        let t = Transaction { addr: MESSAGE_ADDRESS.0, command: self.write_command(), bytes: 4 };
        self.platform.ledger.count_command(t.command);
        let taken = self.book(at, self.rules.clocks(&t), &t, t.command.name());
        self.posted = self.posted.max(taken + self.latencies.memory);
        self.platform.post_message(self.posted, vector);
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

    /// Returns a register read, its clocks from the address phase until the decode, and all
    /// of them.
    fn register_read_clocks(&self, size: u8) -> (Transaction, u64, u64) {
        // On PCI-X the device answers at once, as the 8254x does with nearly all of its registers.
        let t = match self.rules.settings().protocol {
            Protocol::Conventional { .. } => self.access(Command::Mr, size),
            Protocol::X { .. } => self.access(Command::MrDword, size),
        };
        let all = self.rules.clocks(&t);
        // Data and idle come after.
        (t, all - 2, all + self.rules.clocks_in(self.latencies.register))
    }
}

impl<S: FrameSink> Bus for Pci<S> {
    type Sink = S;
    type With<T: FrameSink + Clone> = Pci<T>;

    fn with_sink<T: FrameSink + Clone>(self, sink: T) -> Pci<T> {
        let Pci { platform, rules, latencies, bar, line, reads, fetched, posted, plan, .. } = self;
        Pci { platform, rules, latencies, bar, line, reads, fetched, posted, plan, sink }
    }

    bus_of_platform!();

    fn register_write(&mut self, at: Time, size: u8) -> Time {
        let t = self.access(self.write_command(), size);
        self.book(at + self.latencies.cpu, self.rules.clocks(&t), &t, t.command.name())
    }

    /// Books the whole access, because the bus is held until the device has answered.
    fn register_read(&mut self, at: Time, size: u8) -> Time {
        let (t, asking, all) = self.register_read_clocks(size);
        let free = self.book(at + self.latencies.cpu, all, &t, t.command.name());
        let after = self.rules.period() * (all - asking);
        Time::from_ps(free.ps() - after.ps())
    }

    fn register_answer(&mut self, at: Time, size: u8) -> Time {
        let (_, asking, all) = self.register_read_clocks(size);
        let free = at + self.rules.period() * (all - asking);
        self.platform.answer_behind_posted((free + self.latencies.cpu).max(self.posted))
    }

    fn retire_before(&mut self, floor: Time) {
        self.line.retire_before(floor);
    }
}
