//! The part of a machine that all buses share: memory, mappings, interrupts, counts.
//!
//! A device's write is posted: it leaves now and arrives later, in order. The platform keeps it in
//! flight until then, so that a polling driver cannot see a completion before it is there, and a
//! message cannot overtake the data that it announces. A device's address is translated when the
//! device uses it ([`Mapping`]), so writes in flight have physical addresses.

use crate::cache::{self, Cache};
use crate::departures::Departures;
use crate::fault::{FaultCounts, Faults};
use crate::iotlb::{self, Iotlb};
use crate::log::{Dma, Log};
use crate::memory::COPY;
use crate::order::Unordered;
use crate::tce::{Table, Written};
use crate::trace::{EventKind, Trace};
use crate::{Ledger, Memory, ProtectionGranularity};
use doorbell_hal::{
    Coherent, Direction, DmaFault, DmaFaultKind, Iova, MapFault, OutOfMemory, Span, Time,
};
use std::{collections::VecDeque, fmt};

/// The device's addresses of mapped buffers.
#[derive(Debug)]
pub enum Mapping {
    /// The physical address. Mapping costs only the driver's own work.
    Identity,
    /// An address in a POWER translation table. Mapping costs hypervisor calls.
    Tce(Box<Table>),
}

impl Mapping {
    /// Calls `f` with the physical address of each part of `len` bytes at `at` that lies in one
    /// piece, of up to `most` bytes, and the part's place among them. A fault in `f` is one at the
    /// device's address.
    fn runs(
        &self,
        at: Iova,
        (len, most): (usize, usize),
        dir: Direction,
        mut f: impl FnMut(Iova, core::ops::Range<usize>) -> Result<(), DmaFault>,
    ) -> Result<(), DmaFault> {
        let mut done = 0;
        while done < len {
            let here = at + done as u64;
            let (physical, run) = self.run(here, most.min(len - done), dir)?;
            f(physical, done..done + run).map_err(seen_at(here, physical))?;
            done += run;
        }
        Ok(())
    }

    /// Returns the physical address of `at`, and how many of `len` bytes lie in one piece.
    fn run(&self, at: Iova, len: usize, dir: Direction) -> Result<(Iova, usize), DmaFault> {
        match self {
            Mapping::Identity => Ok((at, len)),
            Mapping::Tce(table) => {
                table.translate_run(at, len, dir).map(|(physical, run)| (Iova(physical), run))
            }
        }
    }
}

/// Memory, interrupts, wire and ledger of one machine.
#[derive(Debug)]
pub struct Platform {
    /// Host memory.
    pub memory: Memory,
    /// The counters.
    pub ledger: Ledger,
    mapping: Mapping,
    in_flight: VecDeque<Posted>,
    /// The first one's arrival; `NEVER` if nothing is in flight.
    next_arrival: Time,
    /// Buffers of writes that arrived.
    spare: Vec<Vec<u8>>,
    /// Vectors that were raised and not yet taken, with the time of arrival of the first.
    messages: Vec<Option<Time>>,
    /// Messages that became pending, and rising and falling edges of lines.
    interrupt_changes: u64,
    /// Lines that are high, with the time since when.
    lines: Vec<Option<Time>>,
    departures: Departures,
    /// The recorders, if there is one.
    records: Option<Box<Records>>,
    /// The faults to inject, if any.
    faults: Option<Box<Faults>>,
    /// Coherent areas, by the device's addresses: rings, for the trace and the audit.
    shared: Vec<(Iova, u32)>,
    /// The device's last access that was refused.
    refused: Option<Refused>,
    /// The CPU's accesses outside coherent areas.
    strays: Strays,
    /// Stores that the device missed for want of a barrier, and the first.
    unordered: (u64, Option<Unordered>),
    /// The last-level cache, if it is modelled.
    cache: Option<Box<Cache>>,
    /// The I/O MMU's cache of translations, if there is one.
    iotlb: Option<Box<Iotlb>>,
}

/// A place that the device may write, as [`Platform::check_dma_write`] found. Writes are posted
/// there before a mapping changes.
#[derive(Clone, Copy, Debug)]
pub struct Admitted {
    at: Iova,
    /// The physical address, of a range that lies in one page or needs no translation.
    physical: Option<Iova>,
}

/// An access of the device that was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Its first byte.
    pub at: Iova,
    /// Its length in bytes.
    pub len: usize,
    /// The direction.
    pub dir: Direction,
    /// The reason.
    pub fault: DmaFault,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.dir.is_written() { "a write" } else { "a read" };
        write!(f, "{what} of {} B at {:#x}: ", self.len, self.at.0)?;
        match self.fault.kind {
            DmaFaultKind::Unmapped => write!(f, "nothing is mapped at {:#x}", self.fault.at.0),
            DmaFaultKind::Direction => {
                write!(f, "{:#x} is mapped for the other direction only", self.fault.at.0)
            }
            DmaFaultKind::Injected => f.write_str("a fault that was asked for"),
        }
    }
}

/// An access of the CPU outside a coherent area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stray {
    /// A store, or a load.
    pub store: bool,
    /// Bytes from the area's start.
    pub offset: u32,
    /// Its length.
    pub bytes: usize,
    /// Bytes of the area.
    pub area: u32,
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.store { "a store" } else { "a load" };
        write!(
            f,
            "{what} of {} B at offset {} of an area of {} B",
            self.bytes, self.offset, self.area
        )
    }
}

/// Accesses of the CPU outside coherent areas. Nothing was read or written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Strays {
    /// Their number.
    pub times: u64,
    /// The first.
    pub first: Option<Stray>,
}

/// A write, or a message.
#[derive(Debug)]
struct Posted {
    /// The time at which the device made it.
    issued: Time,
    arrival: Time,
    to: Iova,
    /// Those of a message are none.
    bytes: Vec<u8>,
    /// The vector of a message.
    message: Option<u16>,
}

impl Posted {
    /// Copies what it writes of the bytes at `at` to `into`.
    fn forward(&self, at: Iova, into: &mut [u8]) {
        let end = |start: u64, len: usize| start.wrapping_add(len as u64);
        let from = self.to.0.max(at.0);
        let until = end(self.to.0, self.bytes.len()).min(end(at.0, into.len()));
        if from < until {
            let part = |start: u64| (from - start) as usize..(until - start) as usize;
            into[part(at.0)].copy_from_slice(&self.bytes[part(self.to.0)]);
        }
    }
}

/// Interrupt vectors and lines a platform has.
const VECTORS: usize = 256;

impl Platform {
    /// A platform with `size` bytes of memory at physical address `base`.
    ///
    /// # Panics
    /// Panics if the system refuses the memory. [`Platform::try_new`] does not.
    pub fn new(base: u64, size: usize, guard: ProtectionGranularity) -> Platform {
        Platform::try_new(base, size, guard).expect("the system refuses the memory of a platform")
    }

    /// A platform as [`Platform::new`] makes it.
    ///
    /// # Errors
    /// The system refuses the memory.
    pub fn try_new(
        base: u64,
        size: usize,
        guard: ProtectionGranularity,
    ) -> Result<Platform, OutOfMemory> {
        Ok(Platform {
            memory: Memory::new(base, size, guard)?,
            ledger: Ledger::default(),
            mapping: Mapping::Identity,
            in_flight: VecDeque::with_capacity(256),
            next_arrival: Time::NEVER,
            spare: Vec::new(),
            messages: vec![None; VECTORS],
            interrupt_changes: 0,
            lines: vec![None; VECTORS],
            departures: Departures::none(),
            records: None,
            faults: None,
            shared: Vec::new(),
            refused: None,
            strays: Strays::default(),
            unordered: (0, None),
            cache: None,
            iotlb: None,
        })
    }

    /// Replaces the mapping.
    ///
    /// # Panics
    /// Panics if something was allocated already.
    pub fn with_mapping(mut self, mapping: Mapping) -> Platform {
        assert!(self.memory.is_fresh(), "the mapping is chosen before anything is mapped");
        self.mapping = mapping;
        self
    }

    /// Has so many vectors of messages in place of 256.
    pub fn with_vectors(mut self, n: u16) -> Platform {
        self.messages.resize(n.into(), None);
        self
    }

    /// Puts a last-level cache in front of memory, which is empty.
    ///
    /// # Errors
    /// The host has no room for what is known of each line.
    pub fn with_cache(
        mut self,
        geometry: Option<cache::Geometry>,
    ) -> Result<Platform, OutOfMemory> {
        let (base, bytes) = self.memory.extent();
        self.cache = geometry.map(|g| Cache::new(g, base, bytes).map(Box::new)).transpose()?;
        Ok(self)
    }

    /// Has an I/O MMU translate the device's accesses. Its cache is empty.
    pub fn with_iotlb(mut self, geometry: Option<iotlb::Geometry>) -> Platform {
        self.iotlb = geometry.map(|g| Box::new(Iotlb::new(g)));
        self
    }

    /// Returns the I/O MMU's cache of translations, if there is one.
    pub fn iotlb(&self) -> Option<&Iotlb> {
        self.iotlb.as_deref()
    }

    /// Returns the time at which an access of the device, which came at `at`, is translated.
    #[inline(always)]
    pub(crate) fn translated(&mut self, at: Time, addr: Iova, len: usize) -> Time {
        match &mut self.iotlb {
            None => at,
            Some(iotlb) => iotlb.translate(at, addr.0, len),
        }
    }

    /// Returns the last-level cache, if there is one.
    #[inline(always)]
    pub fn cache(&self) -> Option<&Cache> {
        self.cache.as_deref()
    }

    /// Returns true if the last-level cache is to know of a core's use of `len` bytes at `addr`.
    #[inline(always)]
    pub(crate) fn is_new_to_cache(&self, addr: u64, len: usize) -> bool {
        self.cache().is_some_and(|cache| !cache.was_last(addr, len))
    }

    /// Returns the time that a core waits for memory when it uses `len` bytes at `addr`. Lines of
    /// one access are on their way together.
    #[inline(always)]
    pub(crate) fn core_uses(&mut self, addr: u64, len: usize) -> Span {
        let Some(cache) = &mut self.cache else { return Span::ZERO };
        if cache.core_uses(addr, len) { Span::ZERO } else { cache.latency() }
    }

    /// Returns the time that a device's read of `len` bytes at `from` takes longer than one from
    /// the last-level cache.
    #[inline(always)]
    pub(crate) fn device_reads(&mut self, from: Iova, len: usize) -> Span {
        if self.cache.is_some() { self.device_reads_lines(from, len) } else { Span::ZERO }
    }

    #[inline(never)]
    fn device_reads_lines(&mut self, from: Iova, len: usize) -> Span {
        // A read that faults was refused before.
        let whole = self.in_one_page(from, len, Direction::ToDevice).ok().flatten();
        let Some(cache) = &mut self.cache else { return Span::ZERO };
        let mut missed = false;
        if let Some(place) = whole {
            missed = !cache.device_reads(place.0, len);
        } else {
            let _ = self.mapping.runs(from, (len, len), Direction::ToDevice, |at, range| {
                missed |= !cache.device_reads(at.0, range.len());
                Ok(())
            });
        }
        if missed { cache.latency() } else { Span::ZERO }
    }

    // ---- mapping ----

    /// Returns true if the device uses physical addresses. Asked first on the packet path,
    /// so that the code for translation stays out of it.
    #[inline(always)]
    pub fn is_identity(&self) -> bool {
        matches!(self.mapping, Mapping::Identity)
    }

    /// Maps `len` bytes at physical address `addr`. Returns the device's address, and how
    /// long that took the caller.
    ///
    /// # Errors
    /// [`MapFault::NoEntries`].
    #[inline(always)]
    pub fn map(&mut self, addr: u64, len: u32, dir: Direction) -> Result<(Iova, Span), MapFault> {
        let (at, took) = self.enter(addr, len, dir)?;
        self.map_physical(addr, len, dir);
        Ok((at, took))
    }

    /// Ends a mapping of [`Platform::map`] at `at`. Returns how long that took.
    #[inline(always)]
    pub fn unmap(&mut self, addr: u64, at: Iova, len: u32, dir: Direction) -> Span {
        self.ledger.unmaps += 1;
        self.memory.unmap(Iova(addr), len, dir);
        if self.is_identity() { Span::ZERO } else { self.clear(at, len) }
    }

    /// The guard's part of [`Platform::map`], which is all of it where [`Platform::is_identity`].
    #[inline(always)]
    pub(crate) fn map_physical(&mut self, addr: u64, len: u32, dir: Direction) -> Iova {
        self.ledger.maps += 1;
        self.memory.map(Iova(addr), len, dir);
        Iova(addr)
    }

    /// Returns zeroed memory that the device may use until it is released, and the time to map it.
    ///
    /// # Errors
    /// No memory, or no entries for it.
    pub fn coherent(&mut self, len: u32, align: u32) -> Result<(Coherent, Span), OutOfMemory> {
        let c = self.memory.coherent(len, align)?;
        match self.enter(c.addr(), len, Direction::Both) {
            Ok((at, took)) => {
                self.shared.push((at, len));
                Ok((Coherent::from_parts(c.addr(), at, len, c.token()), took))
            }
            Err(_) => {
                self.memory.release_coherent(c);
                Err(OutOfMemory)
            }
        }
    }

    /// Takes coherent memory back. Returns how long that took.
    pub fn release_coherent(&mut self, c: Coherent) -> Span {
        self.shared.retain(|s| s.0 != c.iova());
        let took = self.clear(c.iova(), c.len());
        self.memory.release_coherent(c);
        took
    }

    #[inline(always)]
    fn enter(&mut self, addr: u64, len: u32, allows: Direction) -> Result<(Iova, Span), MapFault> {
        let Mapping::Tce(table) = &mut self.mapping else { return Ok((Iova(addr), Span::ZERO)) };
        let (at, cost) =
            table.map(addr, len, allows).inspect_err(|_| self.ledger.tce_refused += 1)?;
        Ok((at, self.ledger.count_tce(cost)))
    }

    #[inline(never)]
    fn clear(&mut self, at: Iova, len: u32) -> Span {
        let Mapping::Tce(table) = &mut self.mapping else { return Span::ZERO };
        let cost = table.unmap(at, len);
        self.ledger.count_tce(cost)
    }

    /// Writes translation entries as a guest's own call asks for ([`Table::write`]). Returns the
    /// time of the call; `None` if there is no place for them.
    pub fn write_entries(&mut self, at: u64, entries: &[u64], by: Written) -> Option<Span> {
        let Mapping::Tce(table) = &mut self.mapping else { return None };
        table.write(at, entries, by).map(|cost| self.ledger.count_tce(cost))
    }

    /// Returns a translation entry, if there is a place for one.
    pub fn translation_entry(&self, at: u64) -> Option<u64> {
        match &self.mapping {
            Mapping::Identity => None,
            Mapping::Tce(table) => table.entry(at),
        }
    }

    /// Returns the entries of the translation table in use.
    pub fn live_entries(&self) -> u32 {
        match &self.mapping {
            Mapping::Identity => 0,
            Mapping::Tce(table) => table.live(),
        }
    }

    /// Checks that the device may write `len` bytes at `to`.
    #[inline(always)]
    fn device_may_write(&self, to: Iova, len: usize) -> Result<Admitted, DmaFault> {
        let physical = self.in_one_page(to, len, Direction::FromDevice)?;
        match physical {
            Some(place) => self.memory.device_may_write(place, len).map_err(seen_at(to, place))?,
            None => self.mapping.runs(to, (len, len), Direction::FromDevice, |at, range| {
                self.memory.device_may_write(at, range.len())
            })?,
        }
        Ok(Admitted { at: to, physical })
    }

    /// Returns the physical address of a range if it lies in one page or needs no translation.
    #[inline]
    fn in_one_page(&self, at: Iova, len: usize, dir: Direction) -> Result<Option<Iova>, DmaFault> {
        match &self.mapping {
            Mapping::Identity => Ok(Some(at)),
            Mapping::Tce(_) if len == 0 => Ok(None),
            Mapping::Tce(table) => {
                let (physical, in_page) = table.translate(at, dir)?;
                Ok((len <= in_page).then_some(Iova(physical)))
            }
        }
    }

    /// Checks a write of the device before it is posted. Counts a fault, and injects those that
    /// were asked for.
    #[inline(always)]
    pub fn check_dma_write(&mut self, to: Iova, len: usize) -> Result<Admitted, DmaFault> {
        let admitted = self.struck_at(to).and_then(|()| self.device_may_write(to, len));
        admitted.inspect_err(|fault| self.refuse(to, len, Direction::FromDevice, *fault))
    }

    /// Counts an access of the device that is refused.
    #[cold]
    #[inline(never)]
    fn refuse(&mut self, at: Iova, len: usize, dir: Direction, fault: DmaFault) {
        if let (Some(f), Direction::FromDevice) = (&mut self.faults, dir) {
            f.withdraw_completion();
        }
        self.ledger.dma_faults += 1;
        self.refused = Some(Refused { at, len, dir, fault });
        // What led to the first is what a person wants to know, unless it was asked for.
        if fault.kind != DmaFaultKind::Injected {
            self.log_mut().into_iter().for_each(Log::freeze);
        }
    }

    /// Counts a store that the device missed for want of a barrier.
    pub(crate) fn missed(&mut self, store: Unordered) {
        self.unordered.0 += 1;
        self.unordered.1.get_or_insert(store);
    }

    /// Returns how often the device missed a store for want of a barrier, and the first
    /// ([`crate::order`]).
    pub fn unordered(&self) -> (u64, Option<Unordered>) {
        self.unordered
    }

    /// Returns the device's last access that was refused, if any.
    pub fn refused(&self) -> Option<Refused> {
        self.refused
    }

    /// Counts an access of the CPU beyond a coherent area.
    #[cold]
    #[inline(never)]
    pub(crate) fn stray(&mut self, stray: Stray) {
        self.strays.times += 1;
        self.strays.first.get_or_insert(stray);
    }

    /// Returns the CPU's accesses outside coherent areas.
    pub fn strays(&self) -> Strays {
        self.strays
    }

    // ---- posted writes and messages ----

    /// Returns the time of the next arrival; [`Time::NEVER`] if nothing is in flight.
    #[inline(always)]
    pub fn next_arrival(&self) -> Time {
        self.next_arrival
    }

    /// Returns a time not before all arrivals in flight, so that order is kept.
    pub(crate) fn in_order(&self, arrival: Time) -> Time {
        self.in_flight.back().map_or(arrival, |p| p.arrival.max(arrival))
    }

    /// Posts a write that the device made at `at` to where it may write. It arrives at `arrival`,
    /// or after everything posted before it. Returns the time of arrival.
    ///
    /// # Panics
    /// Panics if a page that the write needs has no translation: the write was not checked.
    #[inline(always)]
    pub fn post_write(&mut self, at: Time, arrival: Time, to: Admitted, from: &[u8]) -> Time {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(from);
        self.post((at, arrival), to, bytes)
    }

    /// Posts a write as [`Platform::post_write`]. Keeps the buffer and leaves another with any
    /// bytes.
    #[inline]
    pub(crate) fn post_buffer(
        &mut self,
        at: Time,
        arrival: Time,
        to: Admitted,
        from: &mut Vec<u8>,
    ) -> Time {
        let other = self.spare.pop().unwrap_or_default();
        self.post((at, arrival), to, std::mem::replace(from, other))
    }

    /// Returns the place of a write that may be posted in place of several to parts of it:
    /// nothing is recorded or struck one by one, and the device may write all of it.
    pub(crate) fn may_join_writes(&self, to: Iova, len: usize) -> Option<Admitted> {
        let plain = self.records.is_none() && self.faults.is_none();
        if plain { self.device_may_write(to, len).ok() } else { None }
    }

    #[inline(always)]
    fn post(&mut self, (at, arrival): (Time, Time), to: Admitted, bytes: Vec<u8>) -> Time {
        let arrival = match &mut self.faults {
            None => arrival,
            Some(f) => f.delay(arrival),
        };
        let arrival = self.in_order(arrival);
        match to.physical {
            Some(to) => self.post_piece((at, arrival), to, bytes),
            None => self.post_by_run((at, arrival), to.at, bytes),
        }
        arrival
    }

    #[inline(always)]
    fn post_piece(&mut self, (issued, arrival): (Time, Time), to: Iova, bytes: Vec<u8>) {
        self.memory.post(to, bytes.len());
        self.launch(Posted { issued, arrival, to, bytes, message: None });
    }

    #[cold]
    #[inline(never)]
    fn post_by_run(&mut self, times: (Time, Time), to: Iova, bytes: Vec<u8>) {
        let mut done = 0;
        while done < bytes.len() {
            let (at, left) = (to + done as u64, bytes.len() - done);
            let Ok((place, run)) = self.mapping.run(at, left, Direction::FromDevice) else {
                panic!("a posted write was checked before");
            };
            // The pages of a buffer follow each other. Only those of several do not.
            if run == bytes.len() {
                return self.post_piece(times, place, bytes);
            }
            self.post_piece(times, place, bytes[done..done + run].to_vec());
            done += run;
        }
    }

    /// Posts a message-signalled interrupt that the device raised at `at`.
    pub fn post_message(&mut self, at: Time, arrival: Time, vector: u16) {
        self.ledger.messages += 1;
        if let Some(f) = &mut self.faults
            && f.loses_message()
        {
            return;
        }
        let arrival = self.in_order(arrival);
        let (to, bytes, message) = (Iova(0), Vec::new(), Some(vector));
        self.launch(Posted { issued: at, arrival, to, bytes, message });
    }

    #[inline(always)]
    fn launch(&mut self, posted: Posted) {
        self.next_arrival = self.next_arrival.min(posted.arrival);
        self.in_flight.push_back(posted);
    }

    /// Delivers everything that arrives up to `until`.
    #[inline(always)]
    pub fn deliver(&mut self, until: Time) {
        // Mostly nothing has arrived.
        if self.next_arrival() <= until {
            self.deliver_arrived(until);
        }
    }

    fn deliver_arrived(&mut self, until: Time) {
        while let Some(Posted { arrival, to, bytes, message, .. }) =
            self.in_flight.pop_front_if(|p| p.arrival <= until)
        {
            let Some(v) = message else {
                self.memory.arrive(to, &bytes);
                if let Some(cache) = &mut self.cache {
                    cache.device_writes(to.0, bytes.len());
                }
                self.spare.push(bytes);
                continue;
            };
            self.note(arrival, arrival, || EventKind::Message(v));
            if let Some(m) = self.messages.get_mut(usize::from(v)).filter(|m| m.is_none()) {
                *m = Some(arrival);
                self.interrupt_changes += 1;
            }
        }
        self.next_arrival = self.in_flight.front().map_or(Time::NEVER, |p| p.arrival);
    }

    /// Returns when something that the device sent at `issued`, and that would arrive at `at`, does
    /// if it may not pass the writes and messages posted by then.
    #[inline]
    pub(crate) fn behind_posted(&self, issued: Time, at: Time) -> Time {
        // They arrive in order, so the last of them decides. Most often that is the last of all.
        // An iterator over both halves of the queue takes far longer to begin.
        let mut n = self.in_flight.len();
        while let Some(p) = n.checked_sub(1).and_then(|last| self.in_flight.get(last)) {
            if p.issued <= issued {
                return at.max(p.arrival);
            }
            n -= 1;
        }
        at
    }

    /// Reads memory for the device. Bytes of its own writes in flight are as it wrote them. A fault
    /// is counted.
    #[inline(always)]
    pub fn fetch(&mut self, from: Iova, into: &mut [u8]) -> Result<(), DmaFault> {
        self.fetch_passing(from, into, usize::MAX)
    }

    /// Reads memory as [`Platform::fetch`] for a device that looks at the first `seen` bytes.
    /// Others may stay as they are in `into`.
    #[inline(always)]
    pub(crate) fn fetch_passing(
        &mut self,
        from: Iova,
        into: &mut [u8],
        seen: usize,
    ) -> Result<(), DmaFault> {
        // Where it takes several pieces, so many bytes of each are.
        let read = |m: &Memory, at, into: &mut [u8]| m.device_read(at, into, seen);
        let fetched = self.struck_at(from).and_then(|()| self.read_by(read, from, into));
        fetched.inspect_err(|fault| self.refuse(from, into.len(), Direction::ToDevice, *fault))
    }

    /// Reads for the hypervisor what is mapped, in either direction
    /// ([`Memory::hypervisor_read`]). A fault is counted.
    pub(crate) fn hypervisor_read(&mut self, from: Iova, into: &mut [u8]) -> Result<(), DmaFault> {
        let read = Memory::hypervisor_read;
        let fetched = self.struck_at(from).and_then(|()| self.read_by(read, from, into));
        fetched.inspect_err(|fault| self.refuse(from, into.len(), Direction::ToDevice, *fault))
    }

    /// Reads memory by `read`, as it is after the writes in flight, which arrive no earlier for it.
    #[inline(always)]
    fn read_by(
        &self,
        read: impl Fn(&Memory, Iova, &mut [u8]) -> Result<(), DmaFault>,
        from: Iova,
        into: &mut [u8],
    ) -> Result<(), DmaFault> {
        let Some(place) = self.in_one_page(from, into.len(), Direction::ToDevice)? else {
            return self.read_by_run(read, from, into);
        };
        read(&self.memory, place, into).map_err(seen_at(from, place))?;
        self.forward(place, into);
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn read_by_run(
        &self,
        read: impl Fn(&Memory, Iova, &mut [u8]) -> Result<(), DmaFault>,
        from: Iova,
        into: &mut [u8],
    ) -> Result<(), DmaFault> {
        self.mapping.runs(from, (into.len(), COPY), Direction::ToDevice, |at, range| {
            let part = &mut into[range];
            read(&self.memory, at, part)?;
            self.forward(at, part);
            Ok(())
        })
    }

    /// Checks that the hypervisor could read or write there.
    pub(crate) fn hypervisor_reaches(
        &self,
        at: Iova,
        len: usize,
        dir: Direction,
    ) -> Result<(), DmaFault> {
        self.mapping.runs(at, (len, len), dir, |at, range| {
            if dir.is_written() {
                self.memory.device_may_write(at, range.len())
            } else {
                self.memory.check_mapped(at, range.len()).map(|_| ())
            }
        })
    }

    /// Copies what writes in flight will have written of the bytes at `at` to `into`.
    #[inline(always)]
    fn forward(&self, at: Iova, into: &mut [u8]) {
        if !self.in_flight.is_empty() && self.memory.may_be_posted(at, into.len()) {
            self.forward_posted(at, into);
        }
    }

    #[cold]
    #[inline(never)]
    fn forward_posted(&self, at: Iova, into: &mut [u8]) {
        // Newest first, until all writes to the lines of these bytes were seen: a device reads
        // beside what it has just written, and much may be in flight before that.
        let mut unseen = self.memory.posted_to_lines(at, into.len());
        let mut first = self.in_flight.len();
        while unseen > 0 && first > 0 {
            first -= 1;
            let p = &self.in_flight[first];
            let common = self.memory.lines_in_common((at, into.len()), (p.to, p.bytes.len()));
            unseen = unseen.saturating_sub(common);
        }
        self.in_flight.range(first..).for_each(|p| p.forward(at, into));
    }

    // ---- interrupts ----

    /// Returns the time since which `vector` is raised and not yet taken, if it is.
    #[inline]
    pub fn message_pending(&self, vector: u16) -> Option<Time> {
        self.messages.get(usize::from(vector)).copied().flatten()
    }

    /// Takes `vector`, if it was raised.
    pub fn take_message(&mut self, vector: u16) -> Option<Time> {
        self.messages.get_mut(usize::from(vector)).and_then(Option::take)
    }

    /// Returns the number of changes of messages and lines so far. While it stays the same, the
    /// pending interrupts are the same, but for messages taken.
    #[inline(always)]
    pub fn interrupt_changes(&self) -> u64 {
        self.interrupt_changes
    }

    /// Returns the time since which interrupt line `n` is high, if it is. It may be later than the
    /// time of a core.
    pub fn line(&self, n: u16) -> Option<Time> {
        self.lines.get(usize::from(n)).copied().flatten()
    }

    /// Sets the level of an interrupt line at `at`.
    pub fn set_irq_line(&mut self, at: Time, n: u16, high: bool) {
        if let Some(f) = &mut self.faults {
            if !high {
                f.line_is_low(n);
            } else if self.lines.get(usize::from(n)).is_some_and(Option::is_none)
                && f.misses_line(n)
            {
                return;
            }
        }
        let Some(l) = self.lines.get_mut(usize::from(n)) else { return };
        let was = *l;
        self.ledger.line_interrupts += u64::from(high && was.is_none());
        self.interrupt_changes += u64::from(high == was.is_none());
        *l = if high { was.or(Some(at)) } else { None };
        if let (Some(since), false) = (was, high) {
            self.note(since, at, || EventKind::Line(n));
        }
    }

    // ---- the wire ----

    /// Starts to record the departure of every `stride`-th frame, and of fewer in a long run.
    pub fn mark_departures(&mut self, stride: u64) {
        self.departures = Departures::every(stride, self.ledger.wire_frames);
    }

    /// Returns the recorded times of departure in order, each with the frames that had left since
    /// [`Platform::mark_departures`].
    pub fn departures(&self) -> Vec<(Time, u64)> {
        self.departures.marks()
    }

    /// Counts a frame that leaves.
    #[inline]
    pub fn count_frame(&mut self, at: Time, frame: &[u8]) {
        self.ledger.wire_frames += 1;
        self.ledger.wire_bytes += frame.len() as u64;
        if self.ledger.wire_frames == self.departures.next {
            self.departures.mark(at);
        }
        if let Some(t) = self.records.as_mut().and_then(|r| r.trace.as_mut()) {
            t.frame(at, frame);
        }
    }
}

/// Injection of faults.
impl Platform {
    /// Injects these faults from now on.
    pub fn inject(&mut self, faults: Faults) {
        self.faults = Some(Box::new(faults));
    }

    /// Returns the coherent areas, by the device's addresses.
    pub fn areas(&self) -> Vec<(Iova, u32)> {
        self.shared.clone()
    }

    /// Stops the injection. Returns the counts of faults that occurred.
    pub fn end_faults(&mut self) -> FaultCounts {
        self.faults.take().map_or(FaultCounts::default(), |f| f.struck)
    }

    /// Returns the faults that occurred so far.
    pub fn struck(&self) -> FaultCounts {
        self.faults.as_ref().map_or(FaultCounts::default(), |f| f.struck)
    }

    /// Injects a fault into an access by the device, or for it.
    #[inline(always)]
    pub(crate) fn struck_at(&mut self, at: Iova) -> Result<(), DmaFault> {
        match &mut self.faults {
            None => Ok(()),
            Some(f) => f.access(at),
        }
    }

    /// Announces that the device's next write, at `at`, is a completion. Returns true if it must
    /// report a failure.
    #[inline(always)]
    pub fn begin_completion(&mut self, at: Time) -> bool {
        self.faults.is_some() && self.completes_with_faults(at)
    }

    #[cold]
    #[inline(never)]
    fn completes_with_faults(&mut self, at: Time) -> bool {
        let Some(f) = &mut self.faults else { return false };
        let (missed, spoiled) = f.begin_completion();
        for n in missed {
            if let Some(l) = self.lines.get_mut(usize::from(n)) {
                self.ledger.line_interrupts += 1;
                self.interrupt_changes += 1;
                *l = Some(at);
            }
        }
        spoiled
    }
}

/// The recorders of a platform. One test on the packet path is for both.
#[derive(Debug, Default)]
struct Records {
    trace: Option<Trace>,
    log: Option<Log>,
}

impl Records {
    #[cold]
    #[inline(never)]
    fn add(&mut self, from: Time, until: Time, what: EventKind) {
        self.log.iter_mut().for_each(|log| log.add(from, until, &what));
        if let Some(t) = &mut self.trace {
            t.add(from, until, what);
        }
    }
}

/// Recording of a trace, and of a log.
impl Platform {
    /// Starts to record the events of `packets` packets.
    pub fn record(&mut self, packets: u32) {
        self.records.get_or_insert_default().trace = Some(Trace::new(packets));
    }

    /// Logs register accesses from now on, if it does not yet.
    pub fn keep_log(&mut self) {
        self.records.get_or_insert_default().log.get_or_insert_default();
    }

    /// Returns the log, if there is one.
    pub fn log(&self) -> Option<&Log> {
        self.records.as_ref()?.log.as_ref()
    }

    /// Returns the log, if there is one.
    pub fn log_mut(&mut self) -> Option<&mut Log> {
        self.records.as_mut()?.log.as_mut()
    }

    /// Returns true if events are recorded.
    #[inline(always)]
    pub(crate) fn is_recording(&self) -> bool {
        self.records.is_some()
    }

    /// Returns the record, if there is one. A line that is still high is no event.
    pub fn take_trace(&mut self) -> Option<Trace> {
        self.records.as_mut()?.trace.take()
    }

    /// Records an event. A closure makes it, so that it costs nothing without a recording.
    #[inline(always)]
    pub fn note(&mut self, from: Time, until: Time, what: impl FnOnce() -> EventKind) {
        if let Some(r) = &mut self.records {
            r.add(from, until, what());
        }
    }

    /// Records a transfer that the device began at `at` and that ended at `until`.
    #[inline(always)]
    pub(crate) fn note_transfer(
        &mut self,
        at: Time,
        until: Time,
        place: Iova,
        bytes: &[u8],
        dir: Direction,
    ) {
        if let Some(r) = &mut self.records {
            let shared = |(s, len): &(Iova, u32)| (s.0..s.0 + u64::from(*len)).contains(&place.0);
            let len = bytes.len();
            r.log.iter_mut().for_each(|log| log.transfer(Dma { at, place, len, dir }));
            if let Some(t) = &mut r.trace {
                t.transfer((at, until), place, bytes, dir, self.shared.iter().any(shared));
            }
        }
    }

    /// Posts a write ([`Platform::post_write`]) that the device began at `at`.
    #[inline]
    pub(crate) fn post_write_since(
        &mut self,
        at: Time,
        arrival: Time,
        to: Admitted,
        from: &[u8],
    ) -> Time {
        let arrival = self.post_write(at, arrival, to, from);
        self.note_transfer(at, arrival, to.at, from, Direction::FromDevice);
        arrival
    }
}

/// Turns a fault in a range at `physical` into the device's, which sees the range at `at`.
fn seen_at(at: Iova, physical: Iova) -> impl Fn(DmaFault) -> DmaFault {
    move |fault| DmaFault { at: at + fault.at.0.wrapping_sub(physical.0), kind: fault.kind }
}

#[cfg(test)]
mod tests;
