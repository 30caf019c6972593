//! A NIC as a device of QEMU's own, which runs in this process by QEMU's virtual clock.
//!
//! The machine is the laboratory's ([`Board`]): bus, device, link and peer. Its CPU is the guest's.
//! QEMU calls [`Nic::read`] and [`Nic::write`] for each access of it, at the exact virtual time,
//! and [`Nic::fired`] when the machine has an event. Behind each, interrupts are passed to the
//! guest and the timer is set to the next event. The time that the CPU waits for the answer to a
//! read is added to QEMU's clock ([`clock`]).
//!
//! All of it happens under QEMU's lock. Sources: QEMU 11.1, include/hw/pci,
//! include/system/memory.h, include/qom/object.h, include/qemu/timer.h.

mod class;
mod clock;
mod exports;
mod memory;
mod words;

use crate::say;
use clock::Clock;
use doorbell_guest_machine::{Board, Card, Plan};
use doorbell_hal::{Reg, Time};
use exports::{Exports, Object, Ops};
use std::cell::RefCell;
use std::ffi::{CStr, c_uint, c_void};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use words::Words;

/// MSI-X vectors of the mlx5.
const VECTORS: u16 = 64;

/// The plug-in's arguments for the device, and QEMU's functions.
pub(crate) struct Host {
    plan: Plan,
    words: PathBuf,
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

/// The device.
struct Nic {
    board: Box<dyn Board>,
    object: Object,
    vectors: u16,
    /// The first byte of its configuration space.
    config: *const u8,
    clock: Clock,
    /// The level of its interrupt line.
    high: bool,
    /// The device may use memory.
    master: bool,
    words: Words,
}

impl Nic {
    /// Does something with the machine at the guest's time, and passes on what comes of it.
    fn at_now<R>(&mut self, host: &Host, act: impl FnOnce(&mut Nic) -> R) -> R {
        let began = self.clock.now(host);
        // SAFETY: the space has at least 256 bytes and lives as long as the object. Offset 4 is the
        // command register, and bit 2 of it the bus master's.
        let master = unsafe { self.config.add(4).read_volatile() } & 4 != 0;
        if master != self.master {
            self.board.allow_dma(master);
            self.master = master;
        }
        self.board.run(began);
        let result = act(self);
        self.settle(host, began);
        result
    }

    fn read(&mut self, host: &Host, r: Reg, size: u8) -> u64 {
        self.at_now(host, |nic| nic.board.read(r, size))
    }

    fn write(&mut self, host: &Host, r: Reg, size: u8, value: u64) {
        self.at_now(host, |nic| nic.board.write(r, size, value));
    }

    /// Handles the timer.
    fn fired(&mut self, host: &Host) {
        self.clock.fired();
        self.at_now(host, |_| ());
    }

    /// Resets device and line.
    fn reset(&mut self, host: &Host) {
        self.at_now(host, |nic| nic.board.reset());
    }

    /// Passes interrupts on, moves the clock by what the CPU waited since `began`, and sets the
    /// timer to the next event.
    fn settle(&mut self, host: &Host, began: Time) {
        self.clock.wait(host, self.board.now().since(began));
        for vector in 0..self.vectors {
            if self.board.take_message(vector) {
                (host.exports.msix_notify)(self.object.0, vector.into());
            }
        }
        let high = self.board.line();
        if high != self.high {
            self.high = high;
            (host.exports.pci_set_irq)(self.object.0, high.into());
        }
        self.clock.set(host, self.board.next_event());
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

/// Takes a character of a word.
extern "C" fn said(_: *mut c_void, offset: u64, value: u64, _: c_uint) {
    let Some(host) = HOST.get() else { return };
    with(host, |nic, host| {
        let Some(line) = nic.words.take(offset as usize, value as u8) else { return };
        let answered = nic.at_now(host, |nic| nic.words.answer(&line, nic.board.as_mut()));
        if let Err(e) = answered {
            refuse(&format!("{}: {e}", host.words.display()));
        }
    });
}

/// Says what has become of frames and requests.
extern "C" fn heard(_: *mut c_void, offset: u64, _: c_uint) -> u64 {
    let Some(host) = HOST.get().filter(|_| offset == 0) else { return u64::MAX };
    let state =
        |nic: &mut Nic, host: &Host| nic.at_now(host, |nic| nic.words.state(nic.board.as_ref()));
    with(host, state).map_or(u64::MAX, u64::from)
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

/// Makes the device behind a PCI function.
fn make(host: &Host, object: Object) -> Result<Nic, String> {
    clock::check(host)?;
    let identity = class::Identity::of(&host.plan.card);
    let config = class::configuration(object, identity.ids())?;
    let exports = &host.exports;
    let vectors = match host.plan.card {
        Card::E1000(_) => {
            // SAFETY: the space has at least 256 bytes. Offset 0x3d is the interrupt pin: INTA.
            unsafe { config.add(0x3d).write(1) };
            exports.bar(object, 0, exports::MEMORY_32, 128 << 10, &REGISTERS);
            exports.bar(object, 2, exports::IO, 64, &REGISTERS);
            0
        }
        Card::Mlx5(_) => {
            let bar = exports.bar(object, 0, exports::MEMORY_64, 32 << 20, &REGISTERS);
            exports.express(object, bar, VECTORS)?;
            VECTORS
        }
    };
    exports.port(object, words::PORT, words::LONGEST as u64, &WORDS);
    let board = host.plan.board(memory::of_guest()?).map_err(|e| e.to_string())?;
    let words = Words::create(&host.words).map_err(|e| format!("{}: {e}", host.words.display()))?;
    let clock = Clock::new(host, fired);
    // The bit is looked at with the first access.
    Ok(Nic { board, object, vectors, config, clock, high: false, master: true, words })
}

/// Registers the device type of a plan's text. Words go to files in the directory `words`.
pub(crate) fn register_type(target: &CStr, plan: &Path, words: &Path) -> Result<(), String> {
    if target != c"x86_64" {
        let target = target.to_string_lossy();
        return Err(format!("machine=PATH is for qemu-system-x86_64, and this is {target}"));
    }
    let named = |e: &dyn std::fmt::Display| format!("{}: {e}", plan.display());
    let text = std::fs::read_to_string(plan).map_err(|e| named(&e))?;
    let parsed = Plan::parse(&text).map_err(|e| named(&e))?;
    let missing =
        |name| format!("this QEMU does not export `{name}`; QEMU 11.1 as Debian builds it does");
    let exports = Exports::find().map_err(missing)?;
    let host = HOST.get_or_init(|| Host { plan: parsed, words: words.to_owned(), exports });
    class::register(host);
    Ok(())
}
