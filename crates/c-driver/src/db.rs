//! The machine and its memory as C sees them: `db` and `db_mem`.
//!
//! A handle is the number of a slot, from 1, and in its upper bits how often the slot was used, so
//! that one of released memory is found. What a call does wrong is refused and counted. The first
//! is kept by name.

use crate::machine::Machine;
use crate::trap::{self, PAGE, Traps};
use doorbell_drivers::Sink;
use doorbell_hal::{Alignment, Buf, Coherent, CpuWork, Direction, Fence, Mapped, Reg};
use doorbell_packet::checksum::Sum;
use doorbell_packet::{Fragment, OffloadRequest, Packet};
use std::any::Any;
use std::ops::Range;
use std::ptr::NonNull;

/// The call succeeded.
pub(crate) const OK: i32 = 0;
/// No such handle, or not in this state; out of range.
pub(crate) const INVALID: i32 = -1;
/// There is no memory, or there are no translation entries left.
pub(crate) const NO_MEMORY: i32 = -2;

/// Bits of a handle that number the slot.
const SLOT_BITS: u32 = 20;

/// Memory behind a handle. A packet's buffer has the packet's cookie.
#[derive(Debug)]
pub(crate) enum Memory {
    Coherent(Coherent),
    Buffer(Buf, Option<u32>),
    Mapped(Mapped, Option<u32>),
}

#[derive(Debug, Default)]
struct Slot {
    uses: u32,
    memory: Option<Memory>,
}

/// A value of a register.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Word {
    Half(u32),
    Whole(u64),
}

/// A frame that the next poll hands up.
#[derive(Debug)]
pub(crate) enum Up {
    Sent(Buf, u32),
    Received(Packet, bool),
}

/// Calls that were refused, and the name of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) calls: u64,
    pub(crate) first: &'static str,
}

/// The machine, for one driver.
#[derive(Default)]
pub struct Db {
    /// The host, during a call of the driver.
    host: Option<NonNull<dyn Machine>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    up: Vec<Up>,
    pub(crate) refused: Refused,
    /// The driver knows only pointers: they are the device's addresses.
    pub(crate) pointers: bool,
    pub(crate) traps: Traps,
    /// The panic of a call of the machine, to go on where no C is in between.
    pub(crate) panicked: Option<Box<dyn Any + Send>>,
}

impl Db {
    /// Makes one for a driver that may know only pointers.
    pub(crate) fn new(pointers: bool) -> Db {
        Db { pointers, ..Db::default() }
    }

    /// Lends the machine to the driver's calls until [`Db::leave`].
    pub(crate) fn enter(&mut self, host: &mut dyn Machine) {
        let host: NonNull<dyn Machine + '_> = NonNull::from(host);
        // SAFETY: The types differ in the lifetime alone. `leave` takes the pointer away before the
        // borrow ends, and nothing else of the caller uses the host meanwhile.
        self.host = Some(unsafe {
            std::mem::transmute::<NonNull<dyn Machine + '_>, NonNull<dyn Machine>>(host)
        });
    }

    pub(crate) fn leave(&mut self) {
        self.host = None;
    }

    /// Returns the machine and the slots, or `None` outside of a call.
    fn parts(&mut self) -> Option<(&mut dyn Machine, &mut Vec<Slot>)> {
        // SAFETY: `enter` was given a unique borrow that lasts until `leave`. The result borrows
        // `self`, so there is one reference at a time.
        let host = unsafe { self.host?.as_mut() };
        Some((host, &mut self.slots))
    }

    /// Returns the machine, or `None` outside of a call.
    pub(crate) fn machine(&mut self) -> Option<&mut dyn Machine> {
        Some(self.parts()?.0)
    }

    /// Counts a call that is refused.
    pub(crate) fn refuse(&mut self, name: &'static str) {
        if self.refused.calls == 0 {
            self.refused.first = name;
        }
        self.refused.calls += 1;
    }

    /// Keeps memory. Returns its handle, 0 if there are too many.
    pub(crate) fn keep(&mut self, memory: Memory) -> Result<u32, Memory> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < (1 << SLOT_BITS) - 1 => {
                self.slots.push(Slot::default());
                self.slots.len() as u32 - 1
            }
            None => return Err(memory),
        };
        let s = &mut self.slots[slot as usize];
        s.memory = Some(memory);
        Ok(s.uses << SLOT_BITS | (slot + 1))
    }

    /// Takes the memory of a handle.
    pub(crate) fn take(&mut self, handle: u32) -> Option<Memory> {
        let slot = (handle & ((1 << SLOT_BITS) - 1)).checked_sub(1)?;
        let s = self.slots.get_mut(slot as usize)?;
        if handle >> SLOT_BITS != s.uses {
            return None;
        }
        let memory = s.memory.take()?;
        s.uses = (s.uses + 1) % (1 << (32 - SLOT_BITS));
        self.free.push(slot);
        Some(memory)
    }

    /// Returns the place of the memory of a handle.
    fn place(slots: &mut [Slot], handle: u32) -> Option<&mut Option<Memory>> {
        let slot = (handle & ((1 << SLOT_BITS) - 1)).checked_sub(1)?;
        let s = slots.get_mut(slot as usize)?;
        (handle >> SLOT_BITS == s.uses && s.memory.is_some()).then_some(&mut s.memory)
    }

    /// Returns the machine, and the memory of a handle.
    pub(crate) fn at(&mut self, handle: u32) -> Option<(&mut dyn Machine, &mut Memory)> {
        let (host, slots) = self.parts()?;
        Some((host, Self::place(slots, handle)?.as_mut()?))
    }

    /// Returns the machine, and the coherent area of a handle.
    pub(crate) fn area(&mut self, handle: u32) -> Option<(&mut dyn Machine, &Coherent)> {
        match self.at(handle)? {
            (host, Memory::Coherent(area)) => Some((host, area)),
            _ => None,
        }
    }

    /// Allocates a coherent area or a buffer. Returns 0 without memory, `None` for wrong arguments.
    pub(crate) fn allocate(&mut self, coherent: bool, len: u32, align: u32) -> Option<u32> {
        if len == 0 || len > 1 << 30 || !align.is_power_of_two() || align > 1 << 20 {
            return None;
        }
        // What is trapped has pages of its own.
        let (len, align) = match coherent && self.pointers {
            true => (len.next_multiple_of(PAGE as u32), align.max(PAGE as u32)),
            false => (len, align),
        };
        let host = self.machine()?;
        let made = match coherent {
            true => host.coherent(len, align).map(Memory::Coherent),
            false => {
                let place = Alignment { align, offset: 0 };
                host.buffer(len, place).map(|b| Memory::Buffer(b, None))
            }
        };
        let Ok(memory) = made else { return Some(0) };
        let trapped = match &memory {
            Memory::Coherent(area) if self.pointers => Some(area.addr() as usize),
            _ => None,
        };
        match self.keep(memory) {
            Ok(handle) => {
                if let Some(at) = trapped {
                    self.traps.add(at..at + len as usize, handle);
                }
                Some(handle)
            }
            Err(memory) => {
                self.free_memory(memory);
                Some(0)
            }
        }
    }

    fn free_memory(&mut self, memory: Memory) -> Option<()> {
        let host = self.machine()?;
        match memory {
            Memory::Coherent(area) => host.release_coherent(area),
            Memory::Buffer(buf, _) => host.release(buf),
            Memory::Mapped(mapped, _) => {
                let buf = host.unmap(mapped);
                host.release(buf);
            }
        }
        Some(())
    }

    /// Releases memory that the device does not have.
    pub(crate) fn release(&mut self, handle: u32) -> Option<()> {
        if matches!(self.at(handle)?.1, Memory::Mapped(..)) {
            return None;
        }
        self.traps.remove(handle);
        let memory = self.take(handle)?;
        self.free_memory(memory)
    }

    /// Maps a buffer. Returns false without memory for the translation.
    pub(crate) fn map(&mut self, handle: u32, range: Range<u32>, dir: Direction) -> Option<bool> {
        let (host, slots) = self.parts()?;
        let place = Self::place(slots, handle)?;
        let (buf, cookie) = match place.take()? {
            Memory::Buffer(buf, cookie) if !range.is_empty() && range.end <= buf.len() => {
                (buf, cookie)
            }
            other => {
                *place = Some(other);
                return None;
            }
        };
        let mapped = host.map(buf, range, dir);
        let done = mapped.is_ok();
        *place = Some(match mapped {
            Ok(mapped) => Memory::Mapped(mapped, cookie),
            Err(e) => Memory::Buffer(e.buf, cookie),
        });
        Some(done)
    }

    /// Ends a mapping.
    pub(crate) fn unmap(&mut self, handle: u32) -> Option<()> {
        let (host, slots) = self.parts()?;
        let place = Self::place(slots, handle)?;
        let (after, done) = match place.take()? {
            Memory::Mapped(mapped, cookie) => {
                (Memory::Buffer(host.unmap(mapped), cookie), Some(()))
            }
            other => (other, None),
        };
        *place = Some(after);
        done
    }

    /// Returns the device's address of memory that it can reach.
    pub(crate) fn iova(&mut self, handle: u32) -> Option<u64> {
        match self.at(handle)?.1 {
            Memory::Coherent(area) => Some(area.iova().0),
            Memory::Mapped(mapped, _) => Some(mapped.iova().0),
            Memory::Buffer(..) => None,
        }
    }

    /// Returns the pointer to memory: the device's address of it, while it has one.
    pub(crate) fn pointer(&mut self, handle: u32) -> Option<u64> {
        if !self.pointers {
            return None;
        }
        Some(match self.at(handle)?.1 {
            Memory::Coherent(area) => area.addr(),
            Memory::Buffer(buf, _) => buf.addr(),
            Memory::Mapped(mapped, _) => mapped.buf().addr(),
        })
    }

    /// Returns the pointer to the registers.
    pub(crate) fn window(&mut self) -> Option<usize> {
        if self.pointers { self.traps.window() } else { None }
    }

    // ---- accesses ----

    /// Loads from coherent memory.
    pub(crate) fn load<const N: usize>(&mut self, handle: u32, at: u32) -> Option<[u8; N]> {
        self.area(handle)?;
        let mut bytes = [0; N];
        self.look(trap::Place::Area(handle, at), &mut bytes);
        Some(bytes)
    }

    /// Stores to coherent memory.
    pub(crate) fn store<const N: usize>(
        &mut self,
        handle: u32,
        at: u32,
        bytes: [u8; N],
    ) -> Option<()> {
        let (host, area) = self.area(handle)?;
        put(host, area, at, &bytes);
        Some(())
    }

    /// Orders accesses.
    pub(crate) fn fence(&mut self, f: Fence) -> Option<()> {
        self.machine().map(|m| m.fence(f))
    }

    /// Writes a register.
    pub(crate) fn write(&mut self, reg: u32, value: Word) -> Option<()> {
        let host = self.machine()?;
        match value {
            Word::Half(v) => host.write32(Reg::at(reg), v),
            Word::Whole(v) => host.write64(Reg::at(reg), v),
        }
        Some(())
    }

    /// Reads for an instruction: registers by words of 32 bits, memory as the CPU sees it.
    pub(crate) fn look(&mut self, place: trap::Place, to: &mut [u8]) {
        let (area, at) = match place {
            trap::Place::Register(at) => {
                let mut word = (u32::MAX, [0; 4]);
                for (at, b) in (at..).zip(to) {
                    if word.0 != at & !3 {
                        let read = self.machine().map_or(0, |m| m.read32(Reg::at(at & !3)));
                        word = (at & !3, read.to_le_bytes());
                    }
                    *b = word.1[at as usize % 4];
                }
                return;
            }
            trap::Place::Area(area, at) => (area, at),
        };
        let Some((host, of)) = self.area(area) else { return };
        match to.len() {
            1 => to[0] = host.load8(of, at),
            2 => to.copy_from_slice(&host.load16(of, at).to_le_bytes()),
            4 => to.copy_from_slice(&host.load32(of, at).to_le_bytes()),
            8 => to.copy_from_slice(&host.load64(of, at).to_le_bytes()),
            _ => (at..).zip(to.iter_mut()).for_each(|(at, b)| *b = host.load8(of, at)),
        }
    }

    /// Writes for an instruction.
    pub(crate) fn stored(&mut self, place: trap::Place, from: &[u8]) {
        match place {
            trap::Place::Register(at) => {
                let word = match *from {
                    [a, b, c, d] => Some(Word::Half(u32::from_le_bytes([a, b, c, d]))),
                    _ => <[u8; 8]>::try_from(from).ok().map(u64::from_le_bytes).map(Word::Whole),
                };
                // The machine has no register writes of other lengths.
                match word.filter(|_| at.is_multiple_of(4)) {
                    Some(word) => _ = self.write(at, word),
                    None => self.refuse("db_window"),
                }
            }
            trap::Place::Area(area, mut at) => {
                let Some((host, area)) = self.area(area) else { return };
                let mut left = from;
                while !left.is_empty() {
                    let (piece, rest) = left.split_at(left.len().min(8 - at as usize % 8));
                    put(host, area, at, piece);
                    (at, left) = (at + piece.len() as u32, rest);
                }
            }
        }
    }

    /// Copies out of memory.
    pub(crate) fn get(&mut self, handle: u32, at: u32, to: &mut [u8]) -> Option<()> {
        let (host, memory) = self.at(handle)?;
        let range = at..at.checked_add(to.len() as u32)?;
        match memory {
            Memory::Coherent(area) if range.end <= area.len() => {
                let (mut at, mut left) = (range.start, to);
                while let Some(n) = step(at, left.len()) {
                    let (now, then) = left.split_at_mut(n);
                    match <&mut [u8; 8]>::try_from(&mut *now) {
                        Ok(word) => *word = host.load64(area, at).to_le_bytes(),
                        Err(_) => now[0] = host.load8(area, at),
                    }
                    (at, left) = (at + n as u32, then);
                }
            }
            Memory::Buffer(buf, _) if range.end <= buf.len() => host.get(buf, range, to),
            Memory::Mapped(mapped, _)
                if mapped.direction() == Direction::FromDevice
                    && mapped.range().start <= range.start
                    && range.end <= mapped.range().end =>
            {
                host.peek(mapped, range, to);
            }
            _ => return None,
        }
        Some(())
    }

    /// Copies into memory that the device does not have, or shares.
    pub(crate) fn put(&mut self, handle: u32, at: u32, from: &[u8]) -> Option<()> {
        let (host, memory) = self.at(handle)?;
        let range = at..at.checked_add(from.len() as u32)?;
        match memory {
            Memory::Coherent(area) if range.end <= area.len() => {
                let (mut at, mut left) = (range.start, from);
                while let Some(n) = step(at, left.len()) {
                    let (now, then) = left.split_at(n);
                    match <[u8; 8]>::try_from(now) {
                        Ok(word) => host.store64(area, at, u64::from_le_bytes(word)),
                        Err(_) => host.store8(area, at, now[0]),
                    }
                    (at, left) = (at + n as u32, then);
                }
            }
            Memory::Buffer(buf, _) if range.end <= buf.len() => host.put(buf, range, from),
            _ => return None,
        }
        Some(())
    }

    /// Gives a packet's buffer back.
    pub(crate) fn sent(&mut self, handle: u32) -> Option<()> {
        let Memory::Buffer(_, Some(_)) = self.at(handle)?.1 else { return None };
        let Memory::Buffer(buf, Some(cookie)) = self.take(handle)? else { return None };
        self.up.push(Up::Sent(buf, cookie));
        Some(())
    }

    /// Passes a buffer of the driver's own up, with a frame in it.
    pub(crate) fn received(
        &mut self,
        handle: u32,
        start: u32,
        len: u32,
        verified: bool,
    ) -> Option<()> {
        let Memory::Buffer(buf, None) = self.at(handle)?.1 else { return None };
        if len == 0 || start.checked_add(len)? > buf.len() {
            return None;
        }
        let Memory::Buffer(buf, None) = self.take(handle)? else { return None };
        self.up.push(Up::Received(Packet::linear(Fragment { buf, start, len }), verified));
        Some(())
    }

    /// Completes the checksum of a frame in a buffer, and declares the work.
    pub(crate) fn checksum(
        &mut self,
        handle: u32,
        range: Range<u32>,
        sum: (u16, u16),
    ) -> Option<()> {
        let (host, memory) = self.at(handle)?;
        let Memory::Buffer(buf, _) = memory else { return None };
        let (start, field) = (u32::from(sum.0), u32::from(sum.0) + u32::from(sum.1));
        let len = range.end.checked_sub(range.start)?;
        if range.end > buf.len() || start >= len || field + 2 > len {
            return None;
        }
        let mut bytes = vec![0; (len - start) as usize];
        host.charge(CpuWork::Sum(len - start));
        host.get(buf, range.start + start..range.end, &mut bytes);
        let sum = Sum::of(&bytes).udp_checksum();
        host.put(buf, range.start + field..range.start + field + 2, &sum.to_be_bytes());
        Some(())
    }

    /// Hands up what has gathered.
    pub(crate) fn hand_up<S: Sink>(&mut self, up: &mut S) {
        for what in self.up.drain(..) {
            match what {
                Up::Sent(buf, cookie) => up.sent(buf, cookie, true),
                Up::Received(packet, verified) => up.received(packet, verified),
            }
        }
    }

    /// Takes back the buffer of a packet that was not queued, and what was asked for it.
    pub(crate) fn untaken(
        &mut self,
        handle: u32,
        of: Place,
        todo: OffloadRequest,
    ) -> Option<Packet> {
        if matches!(self.at(handle)?.1, Memory::Mapped(..)) {
            self.refuse("send");
            self.unmap(handle)?;
        }
        let Memory::Buffer(buf, Some(cookie)) = self.take(handle)? else { return None };
        let head = Fragment { buf, start: of.start, len: of.len };
        Some(Packet { head, todo, more: None, cookie })
    }
}

/// Stores bytes at once if they are as many as a word has.
fn put(host: &mut dyn Machine, area: &Coherent, at: u32, bytes: &[u8]) {
    match *bytes {
        [a] => host.store8(area, at, a),
        [a, b] => host.store16(area, at, u16::from_le_bytes([a, b])),
        [a, b, c, d] => host.store32(area, at, u32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => {
            host.store64(area, at, u64::from_le_bytes([a, b, c, d, e, f, g, h]));
        }
        _ => (at..).zip(bytes).for_each(|(at, b)| host.store8(area, at, *b)),
    }
}

/// Returns the bytes of the next access to coherent memory at `at`: an aligned word, or one byte.
fn step(at: u32, left: usize) -> Option<usize> {
    match left {
        0 => None,
        8.. if at.is_multiple_of(8) => Some(8),
        _ => Some(1),
    }
}

/// The place of a frame in its buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) start: u32,
    pub(crate) len: u32,
}
