//! Instructions inside calls of watched functions: their own, and those of all that they call.
//!
//! A call begins at the function's first instruction. It ends where a block begins at its return
//! address with the stack pointer that the return leaves. While a call is open, each block that
//! begins closes the one before it: what that one has executed is the difference of its
//! instructions' own counters, so that it is as exact as they are.
//!
//! An interrupt within a call is none of its work. It ends as a call does: a block begins at the
//! interrupted address with the interrupted stack pointer. No driver's function is called again
//! within itself: a call that is open then has ended unseen, on another stack or never, and is
//! counted as lost. A kernel whose transmit can be preempted has those.

use crate::qemu::{self, ByteArray, PerCpu};
use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::ptr::null_mut;
use std::{cell::Cell, ffi::c_void};

/// Kinds of watched functions, by their names.
pub(crate) const KINDS: [&str; 2] = ["transmit", "poll"];

/// A translated block: its first address, and the counters of its instructions.
#[derive(PartialEq, Eq, Hash)]
pub(super) struct Code {
    pub(super) start: u64,
    pub(super) counters: Vec<usize>,
}

/// A watched instruction in a block.
pub(super) struct Entry {
    pub(super) kind: usize,
    pub(super) code: &'static Code,
}

/// An open call or interrupt: where it ends, and the stack pointer there.
struct Open {
    /// None for an interrupt.
    kind: Option<usize>,
    back: u64,
    stack: u64,
}

/// A CPU.
#[derive(Default)]
struct Cpu {
    open: Vec<Open>,
    /// The block that runs, with the counters at its begin.
    runs: Option<(&'static Code, Vec<u64>)>,
}

/// The watched functions, and what was counted inside them.
pub(super) struct Inside {
    target: Target,
    watched: HashMap<u64, usize>,
    blocks: HashSet<&'static Code>,
    cpus: Vec<Cpu>,
    calls: [u64; KINDS.len()],
    /// Calls that ended unseen.
    lost: [u64; KINDS.len()],
    /// By number of the counter.
    counts: Vec<[u64; KINDS.len()]>,
}

impl Inside {
    pub(super) fn new(target: &CStr) -> Inside {
        Inside {
            target: Target::of(target.to_bytes()),
            watched: HashMap::new(),
            blocks: HashSet::new(),
            cpus: Vec::new(),
            calls: [0; KINDS.len()],
            lost: [0; KINDS.len()],
            counts: Vec::new(),
        }
    }

    /// Watches the function that begins at an address. It must not have been executed yet.
    pub(super) fn watch(&mut self, kind: usize, address: u64) {
        self.watched.insert(address, kind);
    }

    /// Returns the kind of a watched address.
    pub(super) fn kind(&self, address: u64) -> Option<usize> {
        self.watched.get(&address).copied()
    }

    /// Keeps a block. Translated code has its address.
    pub(super) fn block(&mut self, code: Code) -> &'static Code {
        match self.blocks.get(&code) {
            Some(known) => known,
            None => {
                let new: &'static Code = Box::leak(Box::new(code));
                self.blocks.insert(new);
                new
            }
        }
    }

    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let n = cpu as usize;
        if self.cpus.len() <= n {
            self.cpus.resize_with(n + 1, Cpu::default);
        }
        &mut self.cpus[n]
    }

    /// Handles a CPU at the first instruction of a watched function.
    pub(super) fn entered(&mut self, cpu: u32, entry: &Entry, count: impl Fn(usize) -> u64) {
        self.close(cpu, &count);
        let Some((back, stack)) = self.target.returns() else { return };
        self.calls[entry.kind] += 1;
        if let Some(at) = self.cpu(cpu).open.iter().position(|o| o.kind == Some(entry.kind)) {
            self.lost[entry.kind] += 1;
            self.cpu(cpu).open.truncate(at);
        }
        let state = self.cpu(cpu);
        state.open.push(Open { kind: Some(entry.kind), back, stack });
        state.begin(entry.code, count);
    }

    /// Handles a block that begins within a call. Returns true if a call is still open.
    pub(super) fn begun(
        &mut self,
        cpu: u32,
        code: &'static Code,
        count: impl Fn(usize) -> u64,
    ) -> bool {
        self.close(cpu, &count);
        let target = &self.target;
        let state = &mut self.cpus[cpu as usize];
        if state.open.iter().any(|open| open.back == code.start) {
            let stack = target.stack();
            let ends = |open: &Open| open.back == code.start && Some(open.stack) == stack;
            if let Some(at) = state.open.iter().rposition(ends) {
                state.open.truncate(at);
            }
        }
        if state.open.is_empty() {
            return false;
        }
        state.begin(code, count);
        true
    }

    /// Handles an interrupt of the instruction at `from`.
    pub(super) fn interrupted(&mut self, cpu: u32, from: u64, count: impl Fn(usize) -> u64) {
        if self.cpu(cpu).open.is_empty() {
            return;
        }
        self.close(cpu, count);
        let stack = self.target.interrupted().unwrap_or(0);
        self.cpu(cpu).open.push(Open { kind: None, back: from, stack });
    }

    /// Adds what the block that runs has executed.
    fn close(&mut self, cpu: u32, count: impl Fn(usize) -> u64) {
        let state = self.cpu(cpu);
        let Some((code, before)) = state.runs.take() else { return };
        let mut kinds = [false; KINDS.len()];
        let of_call = state.open.iter().rev().map_while(|open| open.kind);
        of_call.for_each(|kind| kinds[kind] = true);
        for (&n, before) in code.counters.iter().zip(before) {
            // An exception takes its instruction off again, which may be one of an earlier block.
            let more = count(n).saturating_sub(before);
            if self.counts.len() <= n {
                self.counts.resize(n + 1, [0; KINDS.len()]);
            }
            for (sum, _) in self.counts[n].iter_mut().zip(kinds).filter(|(_, within)| *within) {
                *sum += more;
            }
        }
    }

    /// Returns the part of the answer to a reader, for counters of these addresses: for each kind
    /// calls, lost calls, number of addresses, and address and count of each in ascending order.
    pub(super) fn words(&self, addresses: &[u64]) -> Vec<u64> {
        let mut words = Vec::new();
        for (kind, calls) in self.calls.iter().enumerate() {
            let all = addresses.iter().zip(&self.counts).map(|(at, counts)| [*at, counts[kind]]);
            let mut some: Vec<_> = all.filter(|[_, n]| *n != 0).collect();
            some.sort_unstable();
            words.extend([*calls, self.lost[kind], some.len() as u64]);
            words.extend(some.as_flattened());
        }
        words
    }
}

impl Cpu {
    fn begin(&mut self, code: &'static Code, count: impl Fn(usize) -> u64) {
        // In an interrupt nothing is looked at but its end.
        let within = self.open.last().is_some_and(|open| open.kind.is_some());
        self.runs = within.then(|| (code, code.counters.iter().map(|n| count(*n)).collect()));
    }
}

/// The way back from a call, by architecture.
enum Target {
    /// The return address is on the stack, and taken off by the return.
    X86,
    /// It is in the register of this name beside the stack pointer's.
    Link { link: &'static CStr, stack: &'static CStr },
}

impl Target {
    fn of(target: &[u8]) -> Target {
        match target {
            b"aarch64" => Target::Link { link: c"x30", stack: c"sp" },
            b"ppc64" => Target::Link { link: c"lr", stack: c"r1" },
            _ => Target::X86,
        }
    }

    /// Returns the stack pointer.
    fn stack(&self) -> Option<u64> {
        register(match self {
            Target::X86 => c"rsp",
            Target::Link { stack, .. } => stack,
        })
    }

    /// Returns the return address at a function's first instruction, and the stack pointer there.
    fn returns(&self) -> Option<(u64, u64)> {
        let stack = self.stack()?;
        match self {
            Target::X86 => Some((memory(stack)?, stack + 8)),
            Target::Link { link, .. } => Some((register(link)?, stack)),
        }
    }

    /// Returns the stack pointer of the code that was interrupted just now. x86 leaves it on the
    /// stack, behind address, code segment and flags.
    fn interrupted(&self) -> Option<u64> {
        let stack = self.stack()?;
        match self {
            Target::X86 => memory(stack + 24),
            Target::Link { .. } => Some(stack),
        }
    }
}

/// A thread's access to registers and memory of its CPU.
struct Access {
    buffer: Cell<*mut ByteArray>,
    /// Name and handle of those that were asked for.
    known: Cell<[(*const i8, *mut c_void); 2]>,
}

thread_local! {
    static ACCESS: Access = const {
        Access { buffer: Cell::new(null_mut()), known: Cell::new([(null_mut(), null_mut()); 2]) }
    };
}

impl Access {
    /// Returns the array for values, empty.
    fn buffer(&self) -> *mut ByteArray {
        // SAFETY: GLib's array, which is this thread's.
        unsafe {
            if self.buffer.get().is_null() {
                self.buffer.set(qemu::g_byte_array_new());
            }
            qemu::g_byte_array_set_size(self.buffer.get(), 0)
        }
    }

    /// Returns the handle of a register.
    fn handle(&self, name: &'static CStr) -> Option<*mut c_void> {
        let mut known = self.known.get();
        if let Some((_, handle)) = known.iter().find(|(n, _)| *n == name.as_ptr()) {
            return Some(*handle);
        }
        // SAFETY: this runs in a CPU's callback, where QEMU allows it; the array is ours and is
        // freed.
        let handle = unsafe {
            let all = qemu::qemu_plugin_get_registers();
            let mut registers = (0..(*all).len as usize).map(|i| &*(*all).data.add(i));
            // ppc64 has a second, which is the same register as a special one and holds nothing.
            let handle = registers.find(|r| CStr::from_ptr(r.name) == name);
            let handle = handle.map(|r| r.handle);
            qemu::g_array_free(all, 1);
            handle?
        };
        known.rotate_right(1);
        known[0] = (name.as_ptr(), handle);
        self.known.set(known);
        Some(handle)
    }
}

/// Returns the value that QEMU has put into the array.
///
/// # Safety
/// The array must be GLib's.
unsafe fn value(buffer: *const ByteArray) -> Option<u64> {
    // SAFETY: as the caller has it; it has eight bytes then.
    unsafe {
        let whole = (*buffer).len >= 8;
        whole.then(|| u64::from_le_bytes((*buffer).data.cast::<[u8; 8]>().read_unaligned()))
    }
}

/// Returns a register. All kernels here are little-endian.
fn register(name: &'static CStr) -> Option<u64> {
    ACCESS.with(|access| {
        let (handle, buffer) = (access.handle(name)?, access.buffer());
        // SAFETY: the buffer is this thread's; QEMU appends the register's bytes to it.
        unsafe {
            let read = qemu::qemu_plugin_read_register(handle, buffer);
            read.then(|| value(buffer)).flatten()
        }
    })
}

/// Returns a word of memory.
fn memory(address: u64) -> Option<u64> {
    ACCESS.with(|access| {
        let buffer = access.buffer();
        // SAFETY: the buffer is this thread's; QEMU puts the bytes into it.
        unsafe {
            let read = qemu::qemu_plugin_read_memory_vaddr(address, buffer, 8);
            read.then(|| value(buffer)).flatten()
        }
    })
}

/// Sets the number that says whether a CPU is within a call.
pub(super) fn say(number: PerCpu, cpu: u32, within: bool) {
    // SAFETY: the number is in its scoreboard, and this is the CPU's thread.
    unsafe { qemu::qemu_plugin_u64_set(number, cpu, within.into()) };
}
