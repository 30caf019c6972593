//! Pages whose accesses are the machine's: the card's registers, and rings.
//!
//! Nothing can be accessed there, so each access of the driver faults. The handler decodes the
//! instruction. What it reads it gets from the machine first, into the page, which is opened for
//! the time of this one instruction (the trap flag); what it has written then goes to the machine.
//! So any instruction is right, and none is emulated.
//!
//! Stores of the CPU into a ring wait in the machine's store buffer ([`doorbell_bus::order`]), so a
//! card does not see a descriptor whose barrier is missing. Source: Intel SDM volume 3 (single
//! stepping, page faults).

use crate::db::Db;
use crate::region::Region;
use std::ops::Range;

/// Bytes of the card's registers: BAR 0 of the 8254x.
pub(crate) const REGISTERS: usize = 128 << 10;
/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// A place in trapped memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The offset of a register.
    Register(u32),
    /// The handle of a coherent area, and the offset in it.
    Area(u32, u32),
}

/// The trapped memory of a driver.
#[derive(Debug, Default)]
pub(crate) struct Traps {
    window: Option<Region>,
    /// Coherent areas by their addresses.
    areas: Vec<(Range<usize>, u32)>,
    /// The instruction that runs now.
    step: Vec<Operand>,
}

/// The access of an instruction to trapped memory.
#[derive(Debug)]
pub(crate) struct Operand {
    address: usize,
    len: usize,
    place: Place,
    reads: bool,
    writes: bool,
    /// The page's bytes before the instruction.
    before: [u8; MOST],
}

/// The most bytes of one operand.
const MOST: usize = 64;

impl Traps {
    /// Returns the first address of the registers.
    pub(crate) fn window(&mut self) -> Option<usize> {
        if self.window.is_none() {
            self.window = Region::reserved(REGISTERS);
        }
        self.window.as_ref().map(Region::start)
    }

    /// Traps the pages of a coherent area.
    pub(crate) fn add(&mut self, at: Range<usize>, handle: u32) {
        access(&at, false);
        self.areas.push((at, handle));
    }

    /// Ends the trap of an area, whose memory others may get.
    pub(crate) fn remove(&mut self, handle: u32) {
        if let Some(i) = self.areas.iter().position(|(_, h)| *h == handle) {
            access(&self.areas.swap_remove(i).0, true);
        }
    }

    /// Returns the trapped range of an address, and the place of its first byte.
    fn find(&self, address: usize) -> Option<(Range<usize>, Place)> {
        if let Some(start) = self.window.as_ref().map(Region::start) {
            let range = start..start + REGISTERS;
            if range.contains(&address) {
                return Some((range, Place::Register(0)));
            }
        }
        let area = self.areas.iter().find(|(range, _)| range.contains(&address));
        area.map(|(range, handle)| (range.clone(), Place::Area(*handle, 0)))
    }

    /// Returns the trapped part of an operand.
    fn operand(&self, address: usize, len: usize, reads: bool, writes: bool) -> Option<Operand> {
        let (range, place) = self.find(address)?;
        let at = (address - range.start) as u32;
        let place = match place {
            Place::Register(_) => Place::Register(at),
            Place::Area(handle, _) => Place::Area(handle, at),
        };
        let len = len.min(range.end - address).min(MOST);
        Some(Operand { address, len, place, reads, writes, before: [0; MOST] })
    }
}

impl Drop for Traps {
    fn drop(&mut self) {
        for (range, _) in &self.areas {
            access(range, true);
        }
    }
}

/// Opens or closes the pages of a range.
fn access(at: &Range<usize>, open: bool) {
    let (start, end) = (at.start / PAGE * PAGE, at.end.next_multiple_of(PAGE));
    let access = if open { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
    let start_at = std::ptr::with_exposed_provenance_mut(start);
    // SAFETY: The pages are of a region of this driver, into which Rust has no reference.
    let done = unsafe { libc::mprotect(start_at, end - start, access) };
    assert_eq!(done, 0, "the pages of a region can be opened and closed");
}

impl Operand {
    fn range(&self) -> Range<usize> {
        self.address..self.address + self.len
    }

    /// Returns the bytes in the page, which is open.
    fn bytes(&self) -> [u8; MOST] {
        let mut bytes = [0; MOST];
        let from: *const u8 = std::ptr::with_exposed_provenance(self.address);
        // SAFETY: The page is open, and C, whose memory it is, is stopped.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), self.len) };
        bytes
    }

    /// Puts bytes into the page, which is open.
    fn put(&self, bytes: &[u8; MOST]) {
        let to: *mut u8 = std::ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: As in `bytes`.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, self.len) };
    }
}

impl Db {
    /// Lets one instruction run on these operands.
    fn begin(&mut self, mut operands: Vec<Operand>) {
        for o in &mut operands {
            // `before` has what the CPU sees, until the pages are open.
            if o.reads || matches!(o.place, Place::Area(..)) {
                self.look(o.place, &mut o.before[..o.len]);
            }
        }
        for o in &mut operands {
            access(&o.range(), true);
            let seen = o.before;
            o.before = o.bytes();
            o.put(&seen);
        }
        self.traps.step = operands;
    }

    /// Takes what the instruction has written. Returns false if none was under way.
    fn end(&mut self) -> bool {
        let operands = std::mem::take(&mut self.traps.step);
        let written: Vec<_> = operands.iter().map(Operand::bytes).collect();
        for o in operands.iter().rev() {
            o.put(&o.before);
        }
        operands.iter().for_each(|o| access(&o.range(), false));
        for (o, bytes) in operands.iter().zip(&written).filter(|(o, _)| o.writes) {
            self.stored(o.place, &bytes[..o.len]);
        }
        !operands.is_empty()
    }
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod fault {
    use super::Operand;
    use crate::db::Db;
    use iced_x86::{Decoder, DecoderOptions, InstructionInfoFactory, OpAccess, Register};
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::OnceLock;

    thread_local! {
        /// The machine of the driver whose call this thread is in.
        static ACTIVE: Cell<*mut Db> = const { Cell::new(std::ptr::null_mut()) };
    }

    /// The handlers before this one, of both signals.
    static OTHERS: OnceLock<[libc::sigaction; 2]> = OnceLock::new();
    const SIGNALS: [i32; 2] = [libc::SIGSEGV, libc::SIGTRAP];
    /// The trap flag of the processor.
    const STEP: i64 = 1 << 8;
    /// The longest instruction, in bytes.
    const LONGEST: usize = 15;

    /// Gives the faults of this thread to a machine, or to nobody.
    pub(crate) fn activate(db: *mut Db) {
        ACTIVE.set(db);
    }

    /// Returns the machine of the driver whose call this thread is in, or a null pointer.
    pub(crate) fn active() -> *mut Db {
        ACTIVE.get()
    }

    /// Takes the faults of this process.
    pub(crate) fn install() -> bool {
        OTHERS.get_or_init(|| {
            SIGNALS.map(|signal| {
                // SAFETY: Zeroes are an action with no handler, and a valid one to be written over.
                let (mut own, mut other): (libc::sigaction, libc::sigaction) =
                    unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
                let handler: extern "C" fn(_, _, _) = handle;
                own.sa_sigaction = handler as usize;
                // On the driver's own stack: a model needs more than that of signals has.
                own.sa_flags = libc::SA_SIGINFO;
                // SAFETY: Both are valid, and the handler has the type that SA_SIGINFO asks for.
                unsafe { libc::sigaction(signal, &raw const own, &raw mut other) };
                other
            })
        });
        true
    }

    /// Gives a signal that is not ours to the handler before this one: the instruction faults
    /// again.
    fn pass(signal: i32) {
        let i = SIGNALS.iter().position(|s| *s == signal);
        let (Some(i), Some(others)) = (i, OTHERS.get()) else { return };
        // SAFETY: It is what `sigaction` returned.
        unsafe { libc::sigaction(signal, &raw const others[i], std::ptr::null_mut()) };
        if signal == libc::SIGTRAP {
            // SAFETY: It has no condition. The signal comes once this handler has returned.
            unsafe { libc::raise(signal) };
        }
    }

    extern "C" fn handle(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: The kernel passes valid ones with SA_SIGINFO.
        let (address, context) =
            unsafe { ((*info).si_addr() as usize, &mut *context.cast::<libc::ucontext_t>()) };
        let regs = &mut context.uc_mcontext.gregs;
        // SAFETY: It is alive in the driver's call, which is stopped, and no reference to it is in
        // use while the driver runs.
        let Some(db) = (unsafe { ACTIVE.get().as_mut() }) else { return pass(signal) };
        let flags = libc::REG_EFL as usize;
        if signal == libc::SIGTRAP {
            let own = caught(db, Db::end).unwrap_or(true);
            return if own { regs[flags] &= !STEP } else { pass(signal) };
        }
        // An access that belongs to the driver is one in its trapped memory.
        let operands = match db.traps.find(address) {
            Some(_) => operands(db, regs),
            None => Vec::new(),
        };
        if operands.is_empty() {
            return pass(signal);
        }
        caught(db, |db| db.begin(operands));
        regs[flags] |= STEP;
    }

    /// Makes `f`, whose panic is kept for the end of the driver's call.
    fn caught<R>(db: &mut Db, f: impl FnOnce(&mut Db) -> R) -> Option<R> {
        match catch_unwind(AssertUnwindSafe(|| f(db))) {
            Ok(r) => Some(r),
            Err(panic) => {
                db.panicked = Some(panic);
                None
            }
        }
    }

    /// Returns the accesses of the instruction to trapped memory.
    fn operands(db: &Db, regs: &[libc::greg_t]) -> Vec<Operand> {
        let at = regs[libc::REG_RIP as usize] as usize;
        let page_end = (at + 1).next_multiple_of(super::PAGE);
        // An instruction may end in the next page, which is then there.
        let lengths = [LONGEST.min(page_end - at), LONGEST];
        let decoded = lengths.into_iter().find_map(|len| {
            let start: *const u8 = std::ptr::with_exposed_provenance(at);
            // SAFETY: The processor has read the instruction there, and it is as long at least as
            // what decodes, or goes on in the second page.
            let code = unsafe { std::slice::from_raw_parts(start, len) };
            let i = Decoder::with_ip(64, code, at as u64, DecoderOptions::NONE).decode();
            (!i.is_invalid()).then_some(i)
        });
        let Some(instruction) = decoded else { return Vec::new() };
        let mut factory = InstructionInfoFactory::new();
        let value = |r: Register, _: usize, _: usize| register(regs, r);
        let info = factory.info(&instruction);
        let all = info.used_memory().iter().filter_map(|m| {
            use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
            let access = m.access();
            let reads = matches!(access, Read | CondRead | ReadWrite | ReadCondWrite);
            let writes = matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite);
            let address = m.virtual_address(0, value)? as usize;
            // A repeated one goes on to its next element, where it faults again.
            let len = match m.memory_size().size() {
                0 => instruction.memory_size().size(),
                size => size,
            };
            db.traps.operand(address, len, reads, writes).filter(|o| o.len > 0 && (reads | writes))
        });
        all.collect()
    }

    /// Returns the value of a register. Segments begin at zero, but those of threads.
    fn register(regs: &[libc::greg_t], r: Register) -> Option<u64> {
        use Register::{CS, DS, ES, R8, R9, R10, R11, R12, R13, R14, R15, SS};
        use Register::{RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP};
        let n = match r.full_register() {
            CS | DS | ES | SS => return Some(0),
            RAX => libc::REG_RAX,
            RBX => libc::REG_RBX,
            RCX => libc::REG_RCX,
            RDX => libc::REG_RDX,
            RSI => libc::REG_RSI,
            RDI => libc::REG_RDI,
            RBP => libc::REG_RBP,
            RSP => libc::REG_RSP,
            R8 => libc::REG_R8,
            R9 => libc::REG_R9,
            R10 => libc::REG_R10,
            R11 => libc::REG_R11,
            R12 => libc::REG_R12,
            R13 => libc::REG_R13,
            R14 => libc::REG_R14,
            R15 => libc::REG_R15,
            _ => return None,
        };
        let value = regs[n as usize] as u64;
        // Addresses of 32 bits are of the lower half.
        Some(if r.size() == 4 { value & 0xffff_ffff } else { value })
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod fault {
    use crate::db::Db;
    use std::cell::Cell;

    thread_local! {
        static ACTIVE: Cell<*mut Db> = const { Cell::new(std::ptr::null_mut()) };
    }

    /// Notes the machine of the driver whose call this thread is in.
    pub(crate) fn activate(db: *mut Db) {
        ACTIVE.set(db);
    }

    /// Returns the machine of the driver whose call this thread is in, or a null pointer.
    pub(crate) fn active() -> *mut Db {
        ACTIVE.get()
    }

    /// Takes no faults: the instructions of this processor are not decoded.
    pub(crate) fn install() -> bool {
        false
    }
}

pub(crate) use fault::{activate, active, install};
