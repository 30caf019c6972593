//! The CPU: cores with their own time, and the prices of drivers' work.
//!
//! A [`Machine`] is a platform with one device and one or more cores. [`Machine::enter`] selects
//! the core of the next driver call. Each core's time moves by the work of its driver. The device
//! catches up before the entered core could see one of its effects: before a register access, and
//! before a load from device-writable memory.

use crate::order::Written;
use crate::platform::Stray;
use crate::trace::{CpuStep, DriverCall, EventKind, MappedRange};
use crate::{FrameSink, Ledger, Memory, Platform};
use core::ops::Range;
use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Device, Direction, Fence, Host, MapError, MapFault, Mapped,
    OutOfMemory, Port, Reg, Span, Time, WorkKind,
};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A bus between CPU, memory and device.
pub trait Bus: Port {
    /// The receiver of the frames that the device sends.
    type Sink: FrameSink;
    /// The same bus with another receiver.
    type With<T: FrameSink + Clone>: Bus<Sink = T>;

    /// Sends the frames of every port to `sink` from now on.
    fn with_sink<T: FrameSink + Clone>(self, sink: T) -> Self::With<T>;
    /// Returns the receiver of the frames.
    fn sink_mut(&mut self) -> &mut Self::Sink;
    /// Returns the platform: memory, interrupts, ledger.
    fn platform(&self) -> &Platform;
    /// Returns the platform.
    fn platform_mut(&mut self) -> &mut Platform;
    /// Writes `size` bytes to a register at `at`. Returns their arrival at the device.
    fn register_write(&mut self, at: Time, size: u8) -> Time;
    /// Requests a register at `at`. Returns the request's arrival at the device.
    fn register_read(&mut self, at: Time, size: u8) -> Time;
    /// Answers a register read at `at`. Returns the answer's arrival at the CPU.
    fn register_answer(&mut self, at: Time, size: u8) -> Time;
    /// Retires the time before `floor`, where nothing will be booked any more.
    fn retire_before(&mut self, floor: Time);
    /// Returns the time booked after `at`: toward the device and toward the host, of reads and of
    /// writes, or twice that of a bus that has one direction.
    fn booked_after(&self, _at: Time) -> [Span; 2] {
        [Span::ZERO; 2]
    }
    /// Gives the next accesses to core `n`.
    #[inline(always)]
    fn enter(&mut self, _n: usize) {}
    /// Returns the platform that core `n` sees: its memory and its interrupts.
    #[inline(always)]
    fn platform_of(&self, _n: usize) -> &Platform {
        self.platform()
    }
    /// Returns the sum of [`Platform::interrupt_changes`] of all platforms.
    #[inline(always)]
    fn interrupt_changes(&self) -> u64 {
        self.platform().interrupt_changes()
    }
    /// Returns all platforms.
    fn platforms(&mut self) -> impl Iterator<Item = &mut Platform> {
        core::iter::once(self.platform_mut())
    }
    /// Returns the sum of the counts of all platforms.
    fn ledger(&self) -> Ledger {
        self.platform().ledger
    }
    /// Returns whether the CPU's stores to coherent memory wait in a buffer ([`crate::order`]). The
    /// next calls are for buses where they do.
    #[inline(always)]
    fn holds_stores(&self) -> bool {
        false
    }
    /// Takes a store of the CPU.
    fn hold(&mut self, _to: &Coherent, _offset: u32, _bytes: &[u8], _now: Time) {}
    /// Puts what waits over the bytes of memory at `start`, as the CPU sees them.
    fn forward(&self, _start: u64, _bytes: &mut [u8]) {}
    /// Lets stores reach memory that may wait no longer, and, if it `draws`, some of the others.
    fn stores_due(&mut self, _now: Time, _draws: bool) {}
    /// Lets stores reach memory that come before a register write.
    fn before_register_write(&mut self, _write: Written) {}
    /// Orders stores.
    fn fence(&mut self, _f: Fence) {}
    /// Lets all stores reach memory.
    fn drain_stores(&mut self) {}
    /// Returns the time of the next arrival; [`Time::NEVER`] if nothing is in flight.
    #[inline(always)]
    fn next_arrival(&self) -> Time {
        self.platform().next_arrival()
    }
    /// Delivers everything that arrives up to `until`.
    #[inline(always)]
    fn deliver(&mut self, until: Time) {
        self.platform_mut().deliver(until);
    }
}

/// Declares the functions of a [`Port`] that a bus passes to its `platform` and its `sink`.
macro_rules! port_of_platform {
    () => {
        #[inline(always)]
        fn begin_completion(&mut self, at: Time) -> bool {
            self.platform.begin_completion(at)
        }

        fn set_irq_line(&mut self, at: Time, n: u16, high: bool) {
            self.platform.set_irq_line(at, n, high);
        }

        #[inline]
        fn emit(&mut self, at: Time, frame: &[u8]) {
            self.platform.count_frame(at, frame);
            self.sink.emit(at, frame);
        }

        #[inline]
        fn emit_buffer(&mut self, at: Time, frame: &mut Vec<u8>) {
            self.platform.count_frame(at, frame);
            self.sink.emit_buffer(at, frame);
        }
    };
}

/// Declares the functions of a [`Bus`] that return its `platform` and its `sink`.
macro_rules! bus_of_platform {
    () => {
        #[inline(always)]
        fn platform(&self) -> &Platform {
            &self.platform
        }

        #[inline(always)]
        fn platform_mut(&mut self) -> &mut Platform {
            &mut self.platform
        }

        #[inline(always)]
        fn sink_mut(&mut self) -> &mut S {
            &mut self.sink
        }
    };
}

pub(crate) use {bus_of_platform, port_of_platform};

/// The price of one kind of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Price {
    /// Each occurrence.
    pub each: Span,
    /// Each unit of it.
    pub per_unit: Span,
}

/// The prices of a platform's CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Prices by [`WorkKind`].
    pub work: [Price; WorkKind::ALL.len()],
    /// A register write, for the core that makes it.
    pub mmio_write: Span,
    /// The least time between two register writes of one core: uncached stores serialise.
    pub mmio_write_spacing: Span,
    /// A fence.
    pub fence: Span,
    /// One turn of a polling loop.
    pub relax: Span,
}

impl Costs {
    /// All work is free, but a polling turn takes 100 ns so that time moves.
    pub const FREE: Costs = Costs {
        work: [Price { each: Span::ZERO, per_unit: Span::ZERO }; WorkKind::ALL.len()],
        mmio_write: Span::ZERO,
        mmio_write_spacing: Span::ZERO,
        fence: Span::ZERO,
        relax: Span::from_ns(100),
    };
}

/// The work of one kind that was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Occurrences.
    pub times: u64,
    /// Units.
    pub units: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Core {
    now: Time,
    last_mmio_write: Option<Time>,
}

/// A platform with one device; a [`Host`] for the core that was entered last.
#[derive(Debug)]
pub struct Machine<B, D> {
    /// The bus with its platform.
    pub bus: B,
    /// The device.
    pub device: D,
    costs: Costs,
    cores: Vec<Core>,
    entered: usize,
    core: Core,
    floor: Time,
    due: Time,
    ahead: bool,
    done: [Done; WorkKind::ALL.len()],
    stalled: Span,
    missed: Span,
}

impl<B: Bus, D: Device<B>> Machine<B, D> {
    /// Creates a machine with `cores` cores, all at time zero. Core 0 is entered.
    pub fn new(bus: B, device: D, costs: Costs, cores: usize) -> Machine<B, D> {
        let mut m = Machine {
            bus,
            device,
            costs,
            cores: vec![Core::default(); cores.max(1)],
            entered: 0,
            core: Core::default(),
            floor: Time::ZERO,
            due: Time::NEVER,
            ahead: false,
            done: [Done::default(); WorkKind::ALL.len()],
            stalled: Span::ZERO,
            missed: Span::ZERO,
        };
        m.bus.enter(0);
        m.look_ahead();
        m
    }

    /// Gives the next calls core `n`'s view.
    #[inline]
    pub fn enter(&mut self, n: usize) {
        self.cores[self.entered] = self.core;
        self.entered = n;
        self.core = self.cores[n];
        self.bus.enter(n);
    }

    /// Moves the entered core's time forward to `t`, until which it is idle.
    #[inline]
    pub fn idle_until(&mut self, t: Time) {
        self.core.now = self.core.now.max(t);
    }

    /// Moves the entered core's time to `t`, for a CPU whose clock is another's. It may go back to
    /// where that clock is, if an access took longer than the clock was moved by.
    pub fn set_now(&mut self, t: Time) {
        self.core.now = t;
    }

    /// Lets the device catch up with the entered core, and delivers its writes up to then.
    #[inline]
    pub fn catch_up(&mut self) {
        if self.due <= self.core.now {
            self.catch_up_due();
        }
    }

    /// Does the work of [`Machine::catch_up`], out of the way of loads: most find nothing due.
    #[inline(never)]
    fn catch_up_due(&mut self) {
        self.advance(self.core.now);
    }

    /// Runs `f`, whose delays do not take the device along: another core, whose time is behind, has
    /// not yet seen what the device does in them.
    pub fn ahead<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        self.ahead = true;
        let r = f(self);
        self.ahead = false;
        r
    }

    fn advance(&mut self, until: Time) {
        self.device.advance(&mut self.bus, until);
        self.bus.deliver(until);
        if self.bus.holds_stores() {
            self.bus.stores_due(until, false);
        }
        self.look_ahead();
    }

    /// Updates the time of the device's next visible effect.
    #[inline(always)]
    fn look_ahead(&mut self) {
        let device = self.device.next_due().unwrap_or(Time::NEVER);
        self.due = device.min(self.bus.next_arrival());
    }

    /// Runs the device up to `until`, whatever the cores' times are. For a scheduler whose cores
    /// are all idle until then.
    pub fn run_device(&mut self, until: Time) {
        if self.due <= until {
            self.advance(until);
        }
    }

    /// Runs the device as [`Machine::run_device`], but no further than to the first change of an
    /// interrupt.
    pub fn run_to_interrupt(&mut self, until: Time) {
        let changes = self.bus.interrupt_changes();
        while self.bus.interrupt_changes() == changes {
            let device = self.device.next_due().unwrap_or(Time::NEVER);
            let arrival = self.bus.next_arrival();
            if arrival.min(device) > until {
                break;
            } else if arrival < device {
                self.bus.deliver(arrival);
            } else {
                let effect = self.device.advance_to_effect(&mut self.bus, until);
                self.bus.deliver(effect.unwrap_or(until));
            }
        }
        self.look_ahead();
    }

    /// Returns the time of the next event of the device, or the next arrival.
    pub fn next_event(&self) -> Time {
        self.due
    }

    /// Declares that no core will book anything before `floor` any more.
    #[inline]
    pub fn retire_before(&mut self, floor: Time) {
        self.floor = floor;
        self.bus.retire_before(floor);
    }

    /// Gives access to device and bus from outside the CPU (objects made by a
    /// direct call, a frame from the wire), at the entered core's time.
    pub fn outside<R>(&mut self, f: impl FnOnce(&mut D, &mut B, Time) -> R) -> R {
        self.catch_up();
        let r = f(&mut self.device, &mut self.bus, self.core.now);
        self.look_ahead();
        r
    }

    /// Delivers all writes of the device, as before the answer to a firmware command.
    pub fn flush_posted(&mut self) {
        self.bus.deliver(Time::NEVER);
        self.look_ahead();
    }

    /// Returns the time of all cores so far, added up. A core that waits is at the last floor
    /// ([`Machine::retire_before`]).
    pub fn time_of_cores(&self) -> Span {
        let all = self.cores.iter().enumerate();
        let now = all.map(|(i, c)| if i == self.entered { self.core.now } else { c.now });
        now.fold(Span::ZERO, |sum, now| sum + now.max(self.floor).since(Time::ZERO))
    }

    /// Returns the counts of the entered core's platform.
    pub fn ledger(&self) -> &Ledger {
        &self.bus.platform().ledger
    }

    /// Returns the work of a kind that drivers did.
    pub fn done(&self, kind: WorkKind) -> Done {
        self.done[kind as usize]
    }

    /// Returns the CPU time spent on a kind of work.
    pub fn spent(&self, kind: WorkKind) -> Span {
        let (Done { times, units }, Price { each, per_unit }) =
            (self.done[kind as usize], self.costs.work[kind as usize]);
        each * times + per_unit * units
    }

    /// Returns the CPU time spent on register accesses, fences and the platform's mapping calls.
    pub fn stalled(&self) -> Span {
        self.stalled
    }

    /// Returns the CPU time spent on waiting for lines that were not in the last-level cache.
    pub fn missed(&self) -> Span {
        self.missed
    }

    /// Returns the CPU time of all cores: work, register accesses and lines that were not there.
    pub fn worked(&self) -> Span {
        WorkKind::ALL.iter().fold(self.stalled + self.missed, |sum, kind| sum + self.spent(*kind))
    }

    /// Records in the trace a call of the entered core that began at `from` and ends now.
    #[inline(always)]
    pub fn mark(&mut self, from: Time, call: DriverCall) {
        self.note(from, || CpuStep::Call(call));
    }

    /// Records in the trace a step of the entered core since `from`.
    #[inline(always)]
    pub(crate) fn note(&mut self, from: Time, step: impl FnOnce() -> CpuStep) {
        let (core, until) = (self.entered as u16, self.core.now);
        self.bus.platform_mut().note(from, until, || EventKind::Core(core, step()));
    }

    /// Advances the entered core's time by a wait.
    #[inline(always)]
    fn stall(&mut self, took: Span) {
        self.stalled += took;
        self.core.now += took;
    }

    /// Waits for the lines of a load that are not in the last-level cache, if there is one.
    #[inline(always)]
    fn loads(&mut self, addr: u64, len: usize) {
        if self.bus.platform().is_new_to_cache(addr, len) {
            self.loads_lines(addr, len);
        }
    }

    #[inline(never)]
    fn loads_lines(&mut self, addr: u64, len: usize) {
        let took = self.bus.platform_mut().core_uses(addr, len);
        if took > Span::ZERO {
            self.missed += took;
            self.core.now += took;
        }
    }

    /// Copies within memory.
    #[inline(always)]
    fn copies(&mut self, (from, to): (u64, u64), len: usize) {
        self.loads(from, len);
        self.stores(to, len);
        self.memory().cpu_copy(from, to, len);
    }

    /// Has the last-level cache, if there is one, take the lines of a store. The core does not wait
    /// for them.
    #[inline(always)]
    fn stores(&mut self, addr: u64, len: usize) {
        if self.bus.platform().is_new_to_cache(addr, len) {
            self.stores_lines(addr, len);
        }
    }

    #[inline(never)]
    fn stores_lines(&mut self, addr: u64, len: usize) {
        self.bus.platform_mut().core_uses(addr, len);
    }

    /// Maps by hypervisor calls. Apart, so that machines without them stay small.
    #[inline(never)]
    fn map_translated(
        &mut self,
        b: Buf,
        range: Range<u32>,
        dir: Direction,
    ) -> Result<Mapped, MapError> {
        let began = self.core.now;
        match self.bus.platform_mut().map(
            b.addr() + u64::from(range.start),
            range.end - range.start,
            dir,
        ) {
            Ok((iova, took)) => {
                self.stall(took);
                self.note(began, || {
                    CpuStep::Map(MappedRange { at: iova, len: range.end - range.start, dir })
                });
                Ok(Mapped::new(b, range, iova, dir))
            }
            Err(why) => Err(MapError { buf: b, why }),
        }
    }

    /// Loads what is in memory, under what the CPU has stored and the device does not see yet.
    fn load_forwarded<T: FromBytes>(&mut self, at: u64) -> T {
        self.bus.stores_due(self.core.now, true);
        let mut bytes = self.memory().cpu(at, size_of::<T>()).to_vec();
        self.bus.forward(at, &mut bytes);
        match T::read_from_bytes(&bytes) {
            Ok(v) => v,
            Err(_) => unreachable!("the bytes are as many as T has"),
        }
    }

    /// Counts an access of the driver beyond its own area.
    #[cold]
    #[inline(never)]
    fn stray(&mut self, store: bool, at: &Coherent, offset: u32, bytes: usize) {
        self.bus.platform_mut().stray(Stray { store, offset, bytes, area: at.len() });
    }

    fn memory(&mut self) -> &mut Memory {
        &mut self.bus.platform_mut().memory
    }

    fn write_register(&mut self, r: Reg, size: u8, v: u64) {
        let began = self.core.now;
        if let Some(last) = self.core.last_mmio_write {
            let earliest = last + self.costs.mmio_write_spacing;
            self.stalled += earliest.since(self.core.now);
            self.core.now = self.core.now.max(earliest);
        }
        self.core.last_mmio_write = Some(self.core.now);
        self.catch_up();
        if self.bus.holds_stores() {
            let (name, at) = (self.device.register_name(r), self.core.now);
            self.bus.before_register_write(Written { reg: r, name, value: v, at });
        }
        self.bus.platform_mut().ledger.mmio_writes += 1;
        let arrival = self.bus.register_write(self.core.now, size);
        self.device.mmio_write(&mut self.bus, arrival, r, size, v);
        self.stalled += self.costs.mmio_write;
        self.core.now += self.costs.mmio_write;
        self.note(began, || CpuStep::Write(r, size, v));
        self.look_ahead();
    }
}

/// Returns true if so many bytes at `offset` are inside the area.
#[inline(always)]
fn holds(at: &Coherent, offset: u32, bytes: usize) -> bool {
    u64::from(offset) + bytes as u64 <= u64::from(at.len())
}

/// Returns the length of a range of `b`.
///
/// # Panics
/// Panics if it is not inside the buffer, or there is not as much of the area from `offset` on.
fn common_bytes(b: &Buf, range: &Range<u32>, area: &Coherent, offset: u32) -> u32 {
    let len = range.end.checked_sub(range.start).filter(|_| range.end <= b.len());
    let fits = |n: &u32| offset.checked_add(*n).is_some_and(|end| end <= area.len());
    len.filter(fits).unwrap_or_else(|| {
        let (buffer, area) = (b.len(), area.len());
        panic!("{range:?} of a buffer of {buffer} bytes and {offset} of an area of {area}")
    })
}

impl<B: Bus, D: Device<B>> Host for Machine<B, D> {
    fn read32(&mut self, r: Reg) -> u32 {
        let began = self.core.now;
        if self.bus.holds_stores() {
            self.bus.stores_due(began, true);
        }
        self.bus.platform_mut().ledger.mmio_reads += 1;
        let arrival = self.bus.register_read(self.core.now, 4);
        self.advance(arrival);
        let v = self.device.mmio_read(&mut self.bus, arrival, r, 4);
        let answered = self.bus.register_answer(arrival, 4);
        self.stalled += answered.since(self.core.now);
        self.core.now = self.core.now.max(answered);
        self.note(began, || CpuStep::Read(r, 4, v & 0xffff_ffff));
        // The answer pushed the device's earlier writes before it.
        self.bus.deliver(self.core.now);
        self.look_ahead();
        v as u32
    }

    fn write32(&mut self, r: Reg, v: u32) {
        self.write_register(r, 4, u64::from(v));
    }

    fn write64(&mut self, r: Reg, v: u64) {
        self.write_register(r, 8, v);
    }

    fn buffer(&mut self, len: u32, place: Alignment) -> Result<Buf, OutOfMemory> {
        let b = self.memory().buffer(len, place)?;
        self.bus.platform_mut().ledger.buffers_taken += 1;
        Ok(b)
    }

    fn release(&mut self, b: Buf) {
        self.bus.platform_mut().ledger.buffers_released += 1;
        self.memory().release(b);
    }

    #[inline]
    fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        self.bytes_mut(b, range, |bytes| f(bytes))
    }

    #[inline]
    fn bytes_mut<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(
            range.start <= range.end && range.end <= b.len(),
            "{range:?} of a buffer of {} bytes",
            b.len()
        );
        f(self.memory().cpu(b.addr() + u64::from(range.start), (range.end - range.start) as usize))
    }

    fn copy(&mut self, from: &Buf, range: Range<u32>, to: &Coherent, offset: u32) {
        let len = common_bytes(from, &range, to, offset);
        let at = (from.addr() + u64::from(range.start), to.addr() + u64::from(offset));
        if self.bus.holds_stores() {
            let bytes = self.memory().cpu(at.0, len as usize).to_vec();
            self.bus.hold(to, offset, &bytes, self.core.now);
        } else {
            self.copies(at, len as usize);
        }
        self.note(self.core.now, || CpuStep::Copy(to.iova() + u64::from(offset), len));
    }

    fn copy_out(&mut self, from: &Coherent, offset: u32, to: &Buf, range: Range<u32>) {
        let len = common_bytes(to, &range, from, offset);
        self.catch_up();
        let at = (from.addr() + u64::from(offset), to.addr() + u64::from(range.start));
        self.copies(at, len as usize);
        if self.bus.holds_stores() {
            let mut bytes = self.memory().cpu(at.1, len as usize).to_vec();
            self.bus.forward(at.0, &mut bytes);
            self.memory().cpu(at.1, len as usize).copy_from_slice(&bytes);
        }
        self.note(self.core.now, || CpuStep::CopyOut(from.iova() + u64::from(offset), len));
    }

    #[inline(always)]
    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError> {
        if range.start > range.end || range.end > b.len() {
            return Err(MapError { buf: b, why: MapFault::Range });
        }
        let addr = b.addr() + u64::from(range.start);
        let p = self.bus.platform_mut();
        if !p.is_identity() {
            return self.map_translated(b, range, dir);
        }
        let (at, len) =
            (p.map_physical(addr, range.end - range.start, dir), range.end - range.start);
        self.note(self.core.now, || CpuStep::Map(MappedRange { at, len, dir }));
        Ok(Mapped::new(b, range, at, dir))
    }

    #[inline(always)]
    fn unmap(&mut self, m: Mapped) -> Buf {
        let addr = m.buf().addr() + u64::from(m.range().start);
        let p = self.bus.platform_mut();
        let took = p.unmap(addr, m.iova(), m.len(), m.direction());
        let began = self.core.now;
        if !p.is_identity() {
            self.stall(took);
        }
        self.note(began, || {
            CpuStep::Unmap(MappedRange { at: m.iova(), len: m.len(), dir: m.direction() })
        });
        m.into_buf()
    }

    fn peek<R>(&mut self, m: &Mapped, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        self.note(self.core.now, || {
            CpuStep::Look(MappedRange { at: m.iova(), len: m.len(), dir: m.direction() })
        });
        self.look(m.buf(), range.clone());
        self.bytes(m.buf(), range, f)
    }

    #[inline(always)]
    fn look(&mut self, b: &Buf, range: Range<u32>) {
        self.loads(b.addr() + u64::from(range.start), range.len());
    }

    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, OutOfMemory> {
        let (c, took) = self.bus.platform_mut().coherent(len, align)?;
        self.stall(took);
        Ok(c)
    }

    fn release_coherent(&mut self, c: Coherent) {
        // Its memory may soon be somebody else's.
        self.bus.drain_stores();
        let took = self.bus.platform_mut().release_coherent(c);
        self.stall(took);
    }

    #[inline(always)]
    fn load<T: FromBytes>(&mut self, at: &Coherent, offset: u32) -> T {
        self.catch_up();
        if !holds(at, offset, size_of::<T>()) {
            self.stray(false, at, offset, size_of::<T>());
            return T::new_zeroed();
        }
        self.loads(at.addr() + u64::from(offset), size_of::<T>());
        if self.bus.holds_stores() {
            return self.load_forwarded(at.addr() + u64::from(offset));
        }
        let bytes = self.memory().cpu(at.addr() + u64::from(offset), size_of::<T>());
        match T::read_from_bytes(bytes) {
            Ok(v) => v,
            Err(_) => unreachable!("the slice has the size of T"),
        }
    }

    #[inline]
    fn store<T: IntoBytes + Immutable>(&mut self, at: &Coherent, offset: u32, v: T) {
        if !holds(at, offset, size_of::<T>()) {
            return self.stray(true, at, offset, size_of::<T>());
        }
        self.stores(at.addr() + u64::from(offset), size_of::<T>());
        if self.bus.holds_stores() {
            return self.bus.hold(at, offset, v.as_bytes(), self.core.now);
        }
        self.memory()
            .cpu(at.addr() + u64::from(offset), size_of::<T>())
            .copy_from_slice(v.as_bytes());
    }

    #[inline]
    fn fence(&mut self, f: Fence) {
        self.bus.fence(f);
        self.bus.platform_mut().ledger.fences += 1;
        let began = self.core.now;
        self.stall(self.costs.fence);
        self.note(began, || CpuStep::Fence);
    }

    #[inline(always)]
    fn charge(&mut self, w: CpuWork) {
        let kind = w.kind() as usize;
        let n = u64::from(w.amount());
        self.done[kind].times += 1;
        self.done[kind].units += n;
        let Price { each, per_unit } = self.costs.work[kind];
        let began = self.core.now;
        self.core.now += each + per_unit * n;
        self.note(began, || CpuStep::CpuWork(w));
        match w {
            CpuWork::Copy(_) => self.bus.platform_mut().ledger.copied_bytes += n,
            CpuWork::Sum(_) => self.bus.platform_mut().ledger.summed_bytes += n,
            _ => {}
        }
    }

    fn relax(&mut self) {
        self.core.now += self.costs.relax;
        self.catch_up();
        if self.bus.holds_stores() {
            self.bus.stores_due(self.core.now, true);
        }
    }

    fn delay(&mut self, d: Span) {
        self.core.now += d;
        if !self.ahead {
            self.catch_up();
        }
        if self.bus.holds_stores() {
            self.bus.stores_due(self.core.now, true);
        }
    }

    fn now(&self) -> Time {
        self.core.now
    }
}
