//! Counts executed instructions by address, and on request loads and stores of device memory.
//!
//! # Exactness
//! Each translated instruction adds 1 to a counter of its address and CPU before it is executed.
//! Counting whole blocks is not exact: QEMU leaves a block at an access to a device, executes the
//! instruction again alone, and translates the rest as another block.
//! An instruction that faults is taken off again: each block leaves its addresses at its start, so
//! that an exception tells whether its instruction had begun. A `rep` instruction of x86 counts
//! each time that QEMU enters it, which may be more than once.
//! The CPUs go on while the counters are read: counts of a guest at work are of no single instant.
//!
//! # Protocol
//! The reader listens on a Unix socket. The plug-in connects when QEMU loads it, and answers each
//! line `read` with a table. A line `inside KIND ADDRESS`, in hexadecimal digits, has the calls of
//! a function followed ([`inside`]), and is not answered. All numbers have 64 bits, little-endian:
//!
//! | number | meaning |
//! |---|---|
//! | length | bytes that follow |
//! | version | [`VERSION`] |
//! | unlisted | instructions at addresses for which the table had no room |
//! | n | number of addresses |
//! | n × (address, count) | instructions executed at the address, in ascending order |
//! | m | number of addresses with device accesses, or [`NOT_COUNTED`] |
//! | m × (address, loads, stores) | accesses by the instruction there, in ascending order |
//! | kinds | number of kinds of watched functions, or 0 if none are watched ([`inside`]) |
//! | calls | of the kind: calls of its functions |
//! | lost | of the kind: calls whose end was not seen |
//! | k | of the kind: number of addresses |
//! | k × (address, count) | instructions executed there inside its calls, in ascending order |
//!
//! Accesses by unlisted instructions are at address [`NOT_COUNTED`].

use crate::inside::{self, Code, Entry, Inside, KINDS};
use crate::qemu::{self, PerCpu};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, c_int, c_void};
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Version of the protocol, with a mark: "dbcount" and 2.
const VERSION: u64 = u64::from_be_bytes(*b"dbcount\x02");
/// Number of addresses if device accesses are not counted.
const NOT_COUNTED: u64 = u64::MAX;

/// Counters of a scoreboard. QEMU has at least 16 CPUs in each, and clears it at once.
const BOARD: usize = 4096;
/// Addresses that are listed at most, 1 GiB of scoreboards. A booted kernel has a tenth.
const LIMIT: usize = 1 << 23;
/// The lowest address of kernel code.
const KERNEL: u64 = 1 << 63;

/// Accesses of an instruction to device memory.
#[derive(Default)]
struct Accesses {
    loads: AtomicU64,
    stores: AtomicU64,
}

/// Addresses at which a block's instructions fault, if they raise an exception.
#[derive(PartialEq, Eq, Hash)]
struct Block {
    start: u64,
    end: u64,
}

/// The table. It is locked while QEMU translates, at exceptions, and while a copy is taken; the
/// execution of an instruction takes no lock.
#[derive(Default)]
struct Table {
    /// Number of the counter, by address.
    numbers: HashMap<u64, usize>,
    /// Address, by number of the counter.
    addresses: Vec<u64>,
    /// The scoreboards, [`BOARD`] counters each.
    boards: Vec<Board>,
    /// By number of the counter, if they are counted.
    accesses: Vec<&'static Accesses>,
    blocks: HashSet<&'static Block>,
    /// Calls of watched functions, if any are watched.
    inside: Option<Inside>,
    /// Addresses whose instructions cost another time than all others, and by how many picoseconds.
    prices: Vec<(Range<u64>, i64)>,
}

/// A scoreboard.
#[derive(Clone, Copy)]
struct Board(*mut c_void);
// SAFETY: a handle, which QEMU's functions take on any thread.
unsafe impl Send for Board {}

/// The counters.
pub(crate) struct Count {
    table: Mutex<Table>,
    /// Four numbers: the count of unlisted instructions, the [`Block`] that a CPU began last, 1
    /// while it is within a call of a watched function, and the picoseconds that its instructions
    /// cost more than the same number of others.
    common: Board,
    exceptions: Exceptions,
    /// Accesses of unlisted instructions, if they are counted.
    unlisted_accesses: Option<&'static Accesses>,
}
// SAFETY: as for `Board`, its only member that is not `Sync` by itself.
unsafe impl Sync for Count {}

/// Facts of an architecture that tell which exceptions undo their instruction.
struct Exceptions {
    /// Returns whether an instruction with these bytes is complete when it raises one, which then
    /// has the instruction's own address.
    is_call: fn(&[u8]) -> bool,
    /// Returns whether QEMU's exception to that address is an interrupt.
    is_interrupt: fn(u64) -> bool,
}

impl Exceptions {
    /// Returns the facts of one of QEMU's targets.
    fn of(target: &[u8]) -> Exceptions {
        match target {
            b"x86_64" | b"i386" => Exceptions {
                // int3, int, into, int1. `syscall` is no exception.
                is_call: |b| matches!(b, [0xcc | 0xcd | 0xce | 0xf1, ..]),
                is_interrupt: |_| false,
            },
            b"ppc64" | b"ppc" => Exceptions {
                // sc, scv
                is_call: |b| {
                    let is_sc = |word: u32| word & 0xffff_f01c == 0x4400_0000;
                    let word = b.first_chunk().copied().unwrap_or_default();
                    is_sc(u32::from_le_bytes(word)) || is_sc(u32::from_be_bytes(word))
                },
                // Reset, external, decrementers, doorbells, maintenance, virtualization, monitor.
                is_interrupt: |to| {
                    let vectors = [0x100, 0x500, 0x900, 0x980, 0xa00, 0xe60, 0xe80, 0xea0, 0xf00];
                    vectors.contains(&(to & 0xfff))
                },
            },
            // Calls of arm64 have the address behind them.
            _ => Exceptions { is_call: |_| false, is_interrupt: |_| false },
        }
    }
}

static COUNT: OnceLock<Count> = OnceLock::new();

/// The parts that are counted beside instructions.
#[derive(Clone, Copy)]
pub(crate) struct More {
    /// Accesses to device memory.
    pub(crate) mmio: bool,
    /// Instructions inside calls of watched functions.
    pub(crate) inside: bool,
}

/// Begins to count, and answers the reader at `path` on a thread of its own, if there is one.
pub(crate) fn start(id: u64, target: &CStr, path: Option<&str>, more: More) -> io::Result<()> {
    let socket = path.map(UnixStream::connect).transpose()?;
    let More { mmio, inside } = more;
    let inside = inside.then(|| Inside::new(target));
    let kinds = qemu::EXCEPTIONS | if inside.is_some() { qemu::INTERRUPTS } else { 0 };
    let count = COUNT.get_or_init(|| Count {
        table: Mutex::new(Table { inside, ..Table::default() }),
        common: new_board(4),
        exceptions: Exceptions::of(target.to_bytes()),
        unlisted_accesses: mmio.then(new_accesses),
    });
    // SAFETY: the callback is of the type that the interface has, and lives as long as the process.
    unsafe {
        let none = std::ptr::null_mut();
        qemu::qemu_plugin_register_vcpu_discon_cb(id, kinds, discontinued, none);
    };
    if let Some(socket) = socket {
        std::thread::spawn(move || {
            // The reader may go away at any time; the guest continues.
            _ = count.answer(&socket);
        });
    }
    Ok(())
}

/// Returns the counters, if instructions are counted.
pub(crate) fn active() -> Option<&'static Count> {
    COUNT.get()
}

fn new_board(counters: usize) -> Board {
    // SAFETY: QEMU allows it at any time after loading.
    Board(unsafe { qemu::qemu_plugin_scoreboard_new(counters * size_of::<u64>()) })
}

fn new_accesses() -> &'static Accesses {
    // Translated code has its address for as long as QEMU runs.
    Box::leak(Box::default())
}

impl Board {
    fn counter(self, n: usize) -> PerCpu {
        PerCpu { board: self.0, offset: n * size_of::<u64>() }
    }
}

/// Returns the sum of a counter over the CPUs.
fn sum(counter: PerCpu) -> u64 {
    // SAFETY: the counter is in its scoreboard.
    unsafe { qemu::qemu_plugin_u64_sum(counter) }
}

impl Table {
    /// Returns the number of the counter of an address, or `None` if the table is full.
    fn number(&mut self, address: u64, accesses: bool) -> Option<usize> {
        if let Some(&n) = self.numbers.get(&address) {
            return Some(n);
        }
        let n = self.addresses.len();
        if n == LIMIT {
            return None;
        }
        if n.is_multiple_of(BOARD) {
            self.boards.push(new_board(BOARD));
        }
        self.numbers.insert(address, n);
        self.addresses.push(address);
        if accesses {
            self.accesses.push(new_accesses());
        }
        Some(n)
    }

    /// Returns the picoseconds that an instruction costs more than others.
    fn more(&self, address: u64) -> Option<i64> {
        let found = self.prices.iter().rfind(|(range, _)| range.contains(&address));
        found.map(|(_, more)| *more).filter(|more| *more != 0)
    }

    /// Returns the kind of the watched function that begins at an address.
    fn kind(&self, address: u64) -> Option<usize> {
        self.inside.as_ref()?.kind(address)
    }

    /// Returns the block of these addresses. Translated code has its address.
    fn block(&mut self, block: Block) -> &'static Block {
        match self.blocks.get(&block) {
            Some(known) => known,
            None => {
                let new: &'static Block = Box::leak(Box::new(block));
                self.blocks.insert(new);
                new
            }
        }
    }
}

impl Count {
    fn unlisted(&self) -> PerCpu {
        self.common.counter(0)
    }

    fn begun(&self) -> PerCpu {
        self.common.counter(1)
    }

    fn within(&self) -> PerCpu {
        self.common.counter(2)
    }

    fn dearer(&self) -> PerCpu {
        self.common.counter(3)
    }

    /// Returns the picoseconds that the CPU's instructions cost more than as many others.
    pub(crate) fn more(&self) -> i64 {
        // Before the CPU is there, it is the sum of none.
        sum(self.dearer()).cast_signed()
    }

    /// Has the instructions of a range cost so many picoseconds more than others, in blocks that
    /// are translated from now on.
    pub(crate) fn price(&self, range: Range<u64>, more: i64) {
        self.table().prices.push((range, more));
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has each instruction of a translated block counted.
    ///
    /// # Safety
    /// The block must be QEMU's, in its translation callback.
    pub(crate) unsafe fn translated(&self, block: *mut c_void) {
        let mut table = self.table();
        // SAFETY: as the caller has it.
        let code = unsafe { self.watched(&mut table, block) };
        let mut faults = Block { start: 0, end: 0 };
        let Exceptions { is_call, .. } = self.exceptions;
        // SAFETY: the block is as the caller has it, and `i` one of its instructions.
        unsafe {
            for i in 0..qemu::qemu_plugin_tb_n_insns(block) {
                let insn = qemu::qemu_plugin_tb_get_insn(block, i);
                let address = qemu::qemu_plugin_insn_vaddr(insn);
                let mut bytes = [0; 4];
                let size = qemu::qemu_plugin_insn_data(insn, bytes.as_mut_ptr().cast(), 4);
                if i == 0 {
                    faults.start = address;
                }
                if let Some((code, kind)) = code.and_then(|c| Some((c, table.kind(address)?))) {
                    let entry = Box::leak(Box::new(Entry { kind, code }));
                    let data = std::ptr::from_ref(entry).cast_mut().cast();
                    let flags = qemu::CB_R_REGS;
                    qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, entered, flags, data);
                }
                // A call ends its block.
                faults.end = address + u64::from(!is_call(&bytes[..size.min(4)]));
                let listed = table.number(address, self.unlisted_accesses.is_some());
                let counter = match listed {
                    Some(n) => table.boards[n / BOARD].counter(n % BOARD),
                    None => self.unlisted(),
                };
                let add = qemu::INLINE_ADD;
                qemu::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, add, counter, 1);
                if let Some(more) = table.more(address) {
                    let (sum, more) = (self.dearer(), more.cast_unsigned());
                    qemu::qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, add, sum, more);
                }
                if let Some(unlisted) = self.unlisted_accesses {
                    let of = listed.map_or(unlisted, |n| table.accesses[n]);
                    let data = std::ptr::from_ref(of).cast_mut().cast();
                    let (flags, kinds) = (qemu::CB_NO_REGS, qemu::MEM_RW);
                    qemu::qemu_plugin_register_vcpu_mem_cb(insn, accessed, flags, kinds, data);
                }
            }
            let (store, begun) = (qemu::INLINE_STORE, self.begun());
            let address = std::ptr::from_ref(table.block(faults)).expose_provenance() as u64;
            qemu::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(block, store, begun, address);
        }
    }

    /// Has a block looked at while a CPU is within a call of a watched function. Returns the block,
    /// if there are such functions.
    ///
    /// # Safety
    /// The block must be QEMU's, in its translation callback.
    unsafe fn watched(&self, table: &mut Table, block: *mut c_void) -> Option<&'static Code> {
        table.inside.as_ref()?;
        // SAFETY: the block is as the caller has it, and `i` one of its instructions.
        let addresses: Vec<u64> = unsafe {
            let insn = |i| qemu::qemu_plugin_insn_vaddr(qemu::qemu_plugin_tb_get_insn(block, i));
            (0..qemu::qemu_plugin_tb_n_insns(block)).map(insn).collect()
        };
        let start = addresses.first().copied().filter(|start| *start >= KERNEL)?;
        let accesses = self.unlisted_accesses.is_some();
        let counters = addresses.iter().filter_map(|at| table.number(*at, accesses)).collect();
        let code = table.inside.as_mut()?.block(Code { start, counters });
        let data = std::ptr::from_ref(code).cast_mut().cast();
        // SAFETY: the block is as the caller has it; the callback is of the type that the interface
        // has.
        unsafe {
            let (flags, condition, number) = (qemu::CB_R_REGS, qemu::NOT_EQUAL, self.within());
            let f = begun;
            qemu::qemu_plugin_register_vcpu_tb_exec_cond_cb(
                block, f, flags, condition, number, 0, data,
            );
        }
        Some(code)
    }

    /// Watches a function of one of [`KINDS`] that begins at an address. Returns false if there is
    /// no such kind, or nothing is watched.
    pub(crate) fn watch(&self, kind: &str, address: u64) -> bool {
        let kind = KINDS.iter().position(|k| *k == kind);
        let mut table = self.table();
        let both = kind.zip(table.inside.as_mut());
        both.map(|(kind, inside)| inside.watch(kind, address)).is_some()
    }

    /// Does something with the calls of watched functions. It gets the counter of an address on
    /// this CPU by its number.
    fn look<R>(
        &self,
        cpu: u32,
        act: impl FnOnce(&mut Inside, &dyn Fn(usize) -> u64) -> R,
    ) -> Option<R> {
        let table = &mut *self.table();
        let boards = &table.boards;
        // SAFETY: the counter is in its scoreboard, and this is the CPU's thread.
        let count = |n: usize| unsafe {
            qemu::qemu_plugin_u64_get(boards[n / BOARD].counter(n % BOARD), cpu)
        };
        table.inside.as_mut().map(|inside| act(inside, &count))
    }

    /// Takes an instruction off again, if it had begun when it raised an exception.
    fn excepted(&self, cpu: u32, address: u64) {
        // SAFETY: QEMU's, for a CPU that runs.
        let block = unsafe { qemu::qemu_plugin_u64_get(self.begun(), cpu) };
        let block = std::ptr::with_exposed_provenance::<Block>(block as usize);
        // SAFETY: it is null, or a block that `translated` has leaked.
        let Some(block) = (unsafe { block.as_ref() }) else { return };
        if (block.start..block.end).contains(&address) {
            let table = self.table();
            let counter = match table.numbers.get(&address) {
                Some(n) => table.boards[n / BOARD].counter(n % BOARD),
                None => self.unlisted(),
            };
            // SAFETY: the counter is in its scoreboard, and this is the CPU's thread. It wraps.
            unsafe { qemu::qemu_plugin_u64_add(counter, cpu, u64::MAX) };
            if let Some(more) = table.more(address) {
                // SAFETY: as above.
                unsafe { qemu::qemu_plugin_u64_add(self.dearer(), cpu, (-more).cast_unsigned()) };
            }
        }
    }

    /// Answers the reader until it goes away.
    fn answer(&self, mut socket: &UnixStream) -> io::Result<()> {
        for line in BufReader::new(socket).lines() {
            match line?.split(' ').collect::<Vec<_>>()[..] {
                ["read"] => socket.write_all(&self.message())?,
                ["inside", kind, address] => {
                    let address = u64::from_str_radix(address, 16).ok();
                    if !address.is_some_and(|address| self.watch(kind, address)) {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok(())
    }

    /// Returns the answer, as the protocol has it.
    pub(crate) fn message(&self) -> Vec<u8> {
        let (addresses, boards, accesses, inside) = {
            let table = self.table();
            let inside = table.inside.as_ref().map(|inside| inside.words(&table.addresses));
            (table.addresses.clone(), table.boards.clone(), table.accesses.clone(), inside)
        };
        let mut counted: Vec<[u64; 2]> = Vec::new();
        for (n, &address) in addresses.iter().enumerate() {
            let executed = sum(boards[n / BOARD].counter(n % BOARD));
            if executed != 0 {
                counted.push([address, executed]);
            }
        }
        counted.sort_unstable();
        let mut words = vec![0, VERSION, sum(self.unlisted()), counted.len() as u64];
        words.extend(counted.as_flattened());
        match self.unlisted_accesses {
            None => words.push(NOT_COUNTED),
            Some(unlisted) => {
                let all = addresses.iter().zip(accesses).chain([(&NOT_COUNTED, unlisted)]);
                let all = all.map(|(at, a)| [*at, a.loads.load(Relaxed), a.stores.load(Relaxed)]);
                let mut some: Vec<_> = all.filter(|a| a[1] != 0 || a[2] != 0).collect();
                some.sort_unstable();
                words.push(some.len() as u64);
                words.extend(some.as_flattened());
            }
        }
        words.push(if inside.is_some() { KINDS.len() as u64 } else { 0 });
        words.extend(inside.unwrap_or_default());
        words[0] = (words.len() as u64 - 1) * size_of::<u64>() as u64;
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }
}

/// Handles a CPU at the first instruction of a watched function.
extern "C" fn entered(cpu: u32, data: *mut c_void) {
    let Some(count) = active() else { return };
    // SAFETY: the data are an entry that `translated` has leaked.
    let entry = unsafe { &*data.cast::<Entry>() };
    count.look(cpu, |inside, counter| inside.entered(cpu, entry, counter));
    inside::say(count.within(), cpu, true);
}

/// Handles a block that a CPU begins within a call of a watched function.
extern "C" fn begun(cpu: u32, data: *mut c_void) {
    let Some(count) = active() else { return };
    // SAFETY: the data are a block that `watched` has kept.
    let code = unsafe { &*data.cast::<Code>() };
    if count.look(cpu, |inside, counter| inside.begun(cpu, code, counter)) == Some(false) {
        inside::say(count.within(), cpu, false);
    }
}

/// Handles an interrupt, or an exception of the instruction at `from`.
extern "C" fn discontinued(cpu: u32, kind: c_int, from: u64, to: u64, _: *mut c_void) {
    if kind == qemu::INTERRUPTS {
        let Some(count) = active() else { return };
        count.look(cpu, |inside, counter| inside.interrupted(cpu, from, counter));
        return;
    }
    if let Some(count) = active().filter(|c| !(c.exceptions.is_interrupt)(to)) {
        count.excepted(cpu, from);
    }
}

/// Counts an access if it is one to device memory.
extern "C" fn accessed(_: u32, info: u32, address: u64, data: *mut c_void) {
    // SAFETY: the data are the instruction's counts, which are never freed; the address is of the
    // access that QEMU calls this for.
    unsafe {
        let at = qemu::qemu_plugin_get_hwaddr(info, address);
        if at.is_null() || !qemu::qemu_plugin_hwaddr_is_io(at) {
            return;
        }
        let counts = &*data.cast::<Accesses>();
        let store = qemu::qemu_plugin_mem_is_store(info);
        let which = if store { &counts.stores } else { &counts.loads };
        which.fetch_add(1, Relaxed);
    }
}
