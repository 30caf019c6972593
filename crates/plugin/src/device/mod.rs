//! A NIC as a device of QEMU's own, which runs in this process by QEMU's virtual clock.
//!
//! The machine is the laboratory's ([`Board`]): bus, device, link and peer. Its CPU is the guest's.
//! QEMU calls [`Nic::read`] and [`Nic::write`] for each access of it, or [`adapter`] for each
//! hypervisor call, at the exact virtual time, and [`Nic::fired`] when the machine has an event.
//! Behind each, interrupts are passed to the guest and the timer is set to the next event. The time
//! that the CPU waits for the answer to a read or a call is added to QEMU's clock ([`clock`]).
//!
//! All of it happens under QEMU's lock. Sources: QEMU 11.1, include/hw/pci,
//! include/system/memory.h, include/qom/object.h, include/qemu/timer.h.

mod accelerator;
mod adapter;
mod class;
mod clock;
mod exports;
mod function;
mod host_time;
mod memory;
mod price;
mod talk;
mod words;

pub(crate) use adapter::{CARRIER, is_called, is_here};
pub(crate) use price::PRICES;

use crate::say;
use adapter::Adapter;
use clock::Clock;
use doorbell_guest_machine::{Board, Card, Partition, Plan};
use doorbell_hal::{Reg, Time};
use exports::{Exports, Object, Ops};
use function::Function;
use std::cell::RefCell;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use words::Words;

/// The plug-in's arguments for the device, and QEMU's functions.
pub(crate) struct Host {
    plan: Plan,
    words: PathBuf,
    /// The socket of a host that talks to the guest.
    talk: Option<PathBuf>,
    /// Picoseconds of an instruction, unless QEMU's own clock has them.
    instruction: Option<u64>,
    exports: Exports,
}

/// Set once, when QEMU loads the plug-in.
static HOST: OnceLock<Host> = OnceLock::new();

/// Data that only callers with QEMU's lock touch.
struct Locked<T>(RefCell<T>);
// SAFETY: [`with`] is the only access, and asserts that its thread has QEMU's lock.
unsafe impl<T> Sync for Locked<T> {}

static NIC: Locked<Option<Nic>> = Locked(RefCell::new(None));

/// Ends QEMU with a sentence. There is nothing to lose in a guest that has not begun.
fn refuse(why: &str) -> ! {
    say!("{why}");
    // SAFETY: it ends the process and returns to nobody. `exit` would run QEMU's own clean-up,
    // which waits for the lock that this thread has.
    unsafe { libc::_exit(1) }
}

/// Calls `f` with the device, if there is one.
fn with<R>(host: &Host, f: impl FnOnce(&mut Nic, &Host) -> R) -> Option<R> {
    if !(host.exports.bql_locked)() {
        refuse("QEMU calls the device without its lock");
    }
    // A call within a call is refused, and not undefined.
    let Ok(mut nic) = NIC.0.try_borrow_mut() else { refuse("QEMU calls the device within a call") };
    nic.as_mut().map(|nic| f(nic, host))
}

/// The machine around the device, and the way of its interrupts to the guest.
enum Machine {
    Card(Box<dyn Board>, Function),
    Partition(Box<dyn Partition>, Adapter),
}

impl Machine {
    fn board(&mut self) -> &mut dyn Board {
        match self {
            Machine::Card(board, _) => board.as_mut(),
            Machine::Partition(board, _) => board.as_mut(),
        }
    }

    /// Passes interrupts on.
    fn interrupt(&mut self, host: &Host) {
        match self {
            Machine::Card(board, function) => function.interrupt(host, board.as_mut()),
            Machine::Partition(board, adapter) => adapter.interrupt(board.as_mut()),
        }
    }
}

/// The device.
struct Nic {
    machine: Machine,
    clock: Clock,
    words: Words,
}

impl Nic {
    /// Does something with the machine at the guest's time, and passes on what comes of it.
    fn at_now<R>(&mut self, host: &Host, act: impl FnOnce(&mut Nic) -> R) -> R {
        let began = self.clock.now(host);
        if let Machine::Card(board, function) = &mut self.machine {
            function.allow(board.as_mut());
        }
        // Each event before was handled at its own time.
        self.words.pass(began, self.machine.board());
        self.machine.board().run(began);
        let result = act(self);
        self.settle(host, began);
        result
    }

    /// Returns whether the device's registers are off.
    fn is_asleep(&self) -> bool {
        matches!(&self.machine, Machine::Card(_, function) if function.is_asleep())
    }

    /// Takes a write to the configuration space. Returns whether the function is one of PCI
    /// Express, and whether it is reset by its power state.
    fn configured(&mut self, host: &Host, at: u32, value: u32, bytes: u32) -> (bool, bool) {
        let Machine::Card(_, function) = &mut self.machine else { return (false, false) };
        let told = (function.is_express(), function.configured(at, value, bytes));
        // DMA goes on or ends with it.
        self.at_now(host, |_| ());
        told
    }

    fn read(&mut self, host: &Host, r: Reg, size: u8) -> u64 {
        if self.is_asleep() {
            return u64::MAX;
        }
        self.at_now(host, |nic| nic.machine.board().read(r, size))
    }

    fn write(&mut self, host: &Host, r: Reg, size: u8, value: u64) {
        if self.is_asleep() {
            return;
        }
        self.at_now(host, |nic| nic.machine.board().write(r, size, value));
    }

    /// Handles the timer.
    fn fired(&mut self, host: &Host) {
        self.clock.fired();
        self.at_now(host, |_| ());
    }

    /// Resets device and line.
    fn reset(&mut self, host: &Host) {
        if let Machine::Card(_, function) = &mut self.machine {
            function.reset();
        }
        self.at_now(host, |nic| nic.machine.board().reset());
    }

    /// Passes interrupts on, moves the clock by what the CPU waited since `began`, and sets the
    /// timer to the next event.
    fn settle(&mut self, host: &Host, began: Time) {
        self.clock.wait(host, self.machine.board().now().since(began));
        self.machine.interrupt(host);
        self.clock.set(host, self.machine.board().next_event());
    }
}

/// Returns the register of an access; the region's data is the number of its BAR.
fn register(region: *mut c_void, offset: u64) -> Reg {
    Reg { region: region.addr() as u8, offset: offset as u32 }
}

extern "C" fn read(region: *mut c_void, offset: u64, size: c_uint) -> u64 {
    let Some(host) = HOST.get() else { return 0 };
    with(host, |nic, host| nic.read(host, register(region, offset), size as u8)).unwrap_or(0)
}

extern "C" fn write(region: *mut c_void, offset: u64, value: u64, size: c_uint) {
    let Some(host) = HOST.get() else { return };
    with(host, |nic, host| nic.write(host, register(region, offset), size as u8, value));
}

extern "C" fn fired(_: *mut c_void) {
    let Some(host) = HOST.get() else { return };
    with(host, Nic::fired);
}

extern "C" fn reset(_: *mut c_void) {
    let Some(host) = HOST.get() else { return };
    with(host, Nic::reset);
}

/// Handles a write of the CPU to the configuration space: QEMU's own part first.
extern "C" fn configured(device: *mut c_void, at: u32, value: u32, bytes: c_int) {
    let Some(host) = HOST.get() else { return };
    let exports = &host.exports;
    (exports.pci_default_write_config)(device, at, value, bytes);
    let write = |nic: &mut Nic, host: &Host| nic.configured(host, at, value, bytes as u32);
    let (is_express, is_reset) = with(host, write).unwrap_or_default();
    // Each comes back to `reset`.
    if is_express {
        (exports.pcie_cap_flr_write_config)(device, at, value, bytes);
    }
    if is_reset {
        (exports.pci_device_reset)(device);
    }
}

/// Takes a character of a word.
extern "C" fn said(_: *mut c_void, offset: u64, value: u64, _: c_uint) {
    let Some(host) = HOST.get() else { return };
    with(host, |nic, host| {
        let Some(line) = nic.words.take(offset as usize, value as u8) else { return };
        let answered = nic.at_now(host, |nic| nic.words.answer(&line, nic.machine.board(), host));
        if let Err(e) = answered {
            refuse(&format!("{}: {e}", host.words.display()));
        }
    });
}

/// Says what has become of frames and requests, or gives a character of the host's line.
extern "C" fn heard(_: *mut c_void, offset: u64, _: c_uint) -> u64 {
    let Some(host) = HOST.get() else { return u64::MAX };
    let answer = |nic: &mut Nic, host: &Host| {
        nic.at_now(host, |nic| match offset {
            0 => Ok(nic.words.state(nic.machine.board())),
            _ => nic.words.hear(offset as usize, nic.machine.board()),
        })
    };
    match with(host, answer) {
        Some(Ok(character)) => character.into(),
        Some(Err(e)) => refuse(&format!("the host of the guest: {e}")),
        None => u64::MAX,
    }
}

static REGISTERS: Ops = Ops::new(read, write, 4);
static WORDS: Ops = Ops::new(heard, said, 1);

/// Makes the device. QEMU calls it under its lock, once for each `-device`.
extern "C" fn realize(object: *mut c_void, _: *mut c_void) {
    let Some(host) = HOST.get() else { return };
    if !(host.exports.bql_locked)() {
        refuse("QEMU makes the device without its lock");
    }
    let Ok(mut place) = NIC.0.try_borrow_mut() else { refuse("QEMU makes two devices at once") };
    if place.is_some() {
        refuse("one device of this kind is allowed");
    }
    match make(host, Object(object)) {
        Ok(nic) => *place = Some(nic),
        Err(e) => refuse(&e),
    }
}

/// Makes the device and the machine around it.
fn make(host: &Host, object: Object) -> Result<Nic, String> {
    class::check_version(host)?;
    clock::check(host)?;
    accelerator::take_over(host)?;
    let machine = match &host.plan.card {
        Card::Adapter(adapter) => {
            let board = host.plan.partition(memory::of_guest()?).map_err(|e| e.to_string())?;
            Machine::Partition(board, Adapter::of(adapter)?)
        }
        card => {
            let function = Function::of(host, card, object)?;
            let board = host.plan.board(memory::of_guest()?).map_err(|e| e.to_string())?;
            Machine::Card(board, function)
        }
    };
    let place = match host.plan.card {
        Card::E1000(_) | Card::Mlx5(_) => words::PORT,
        Card::Axi(..) | Card::Adapter(_) => words::MEMORY,
    };
    host.exports.words(object, place, words::LONGEST as u64, &WORDS);
    let words = Words::create(&host.words, host.talk.as_deref());
    let words = words.map_err(|e| format!("{}: {e}", host.words.display()))?;
    Ok(Nic { machine, clock: Clock::new(host, fired), words })
}

/// Registers the device type of a plan's text. Words go to files in the directory `words`, and a
/// host that talks to the guest listens at `talk`. An instruction costs so many picoseconds, if it
/// is not QEMU's clock that says so.
pub(crate) fn register_type(
    target: &CStr,
    plan: &Path,
    words: &Path,
    talk: Option<&Path>,
    instruction: Option<u64>,
) -> Result<(), String> {
    let named = |e: &dyn std::fmt::Display| format!("{}: {e}", plan.display());
    let text = std::fs::read_to_string(plan).map_err(|e| named(&e))?;
    let plan = Plan::parse(&text).map_err(|e| named(&e))?;
    let wanted = match plan.card {
        Card::Adapter(_) => c"ppc64",
        Card::Axi(..) => c"aarch64",
        Card::E1000(_) | Card::Mlx5(_) => c"x86_64",
    };
    if target != wanted {
        let [wanted, target] = [wanted, target].map(CStr::to_string_lossy);
        return Err(format!(
            "the machine of the plan is for qemu-system-{wanted}, and this is {target}"
        ));
    }
    host_time::check()?;
    let exports = Exports::find().map_err(missing)?;
    let (words, talk) = (words.to_owned(), talk.map(Path::to_owned));
    let host = HOST.get_or_init(|| Host { plan, words, talk, instruction, exports });
    match &host.plan.card {
        Card::Adapter(_) => adapter::register(),
        _ => class::register(host),
    }
    Ok(())
}

/// Returns the error of a function that is missing.
fn missing(name: &str) -> String {
    format!("this QEMU does not export `{name}`; QEMU 11.1 as Debian builds it does")
}
