//! A driver in C as a [`Card`]: the functions that it gave, and the model of the card it named.

use crate::db::{Db, Memory, Place, Refused};
use crate::region::Region;
use crate::trap;
use doorbell_bus::{Memory as Bytes, Order, Platform, ProtectionGranularity};
use doorbell_devices::e1000::{Config, Counters, E1000};
use doorbell_drivers::{Alarm, Driver, Irq, OpenError, Poll, Sink, Tx};
use doorbell_hal::{
    Alignment, Buf, Counter, CounterSet, Host, OutOfMemory, Port, Rule, Time, Unit,
};
use doorbell_packet::{Fragment, NoBuffer, OffloadRequest, Packet};
use doorbell_spec::{SettingError, key::Values};
use doorbell_systems::card::{self, Card, CrossCheck, RunStats};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::io::Write;
use std::ptr;
use std::sync::OnceLock;

/// The functions of a driver: `struct db_driver`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "doorbell.h has them")]
pub struct DbDriver {
    pub size: usize,
    pub version: u32,
    pub name: *const c_char,
    pub card: *const c_char,
    pub in_flight: u32,
    pub flags: u32,
    pub open: Option<unsafe extern "C" fn(*mut Db) -> *mut c_void>,
    pub close: Option<unsafe extern "C" fn(*mut c_void, *mut Db)>,
    pub send: Option<unsafe extern "C" fn(*mut c_void, *mut Db, *const DbFrame, c_int) -> c_int>,
    pub poll: Option<unsafe extern "C" fn(*mut c_void, *mut Db, u32) -> c_int>,
    pub irq: Option<unsafe extern "C" fn(*mut c_void, *mut Db, u32) -> c_int>,
    pub stopped: Option<unsafe extern "C" fn(*const c_void) -> c_int>,
    pub alarm: Option<unsafe extern "C" fn(*mut c_void, *mut Db, c_int) -> c_int>,
}

/// A frame to be sent: `struct db_frame`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "doorbell.h has them")]
pub struct DbFrame {
    pub mem: u32,
    pub start: u32,
    pub len: u32,
    pub flags: u32,
    pub checksum_start: u16,
    pub checksum_offset: u16,
}

/// The driver knows only pointers.
pub(crate) const POINTERS: u32 = 1;

/// The sender left the transport checksum undone.
pub(crate) const CHECKSUM: u32 = 1;

/// The driver of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given {
    pub(crate) device: Config,
    pub(crate) in_flight: u32,
    pub(crate) pointers: bool,
    pub(crate) open: unsafe extern "C" fn(*mut Db) -> *mut c_void,
    pub(crate) close: unsafe extern "C" fn(*mut c_void, *mut Db),
    pub(crate) send: unsafe extern "C" fn(*mut c_void, *mut Db, *const DbFrame, c_int) -> c_int,
    pub(crate) poll: unsafe extern "C" fn(*mut c_void, *mut Db, u32) -> c_int,
    pub(crate) irq: unsafe extern "C" fn(*mut c_void, *mut Db, u32) -> c_int,
    pub(crate) stopped: unsafe extern "C" fn(*const c_void) -> c_int,
    pub(crate) alarm: Option<unsafe extern "C" fn(*mut c_void, *mut Db, c_int) -> c_int>,
}

pub(crate) static DRIVER: OnceLock<Given> = OnceLock::new();

/// The counts of the interface.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stats {
    refused: Refused,
}

impl CounterSet for Stats {
    const DECLARED: &'static [Counter] = &[Counter {
        name: "refused_calls",
        unit: Unit::Count,
        about: "Calls of the driver with a handle, a range or a moment that is none",
    }];
    fn each(&self, of: &mut dyn FnMut(&'static str, u64)) {
        of("refused_calls", self.refused.calls);
    }
    fn add(&mut self, other: &Stats) {
        self.refused.calls += other.refused.calls;
        if self.refused.first.is_empty() {
            self.refused.first = other.refused.first;
        }
    }
}

/// Releases what a driver hands up when it is closed.
struct Released<'a, H>(&'a mut H);

impl<H: Host> Sink for Released<'_, H> {
    fn sent(&mut self, b: Buf, _: u32, _: bool) {
        self.0.release(b);
    }
    fn received(&mut self, p: Packet, _: bool) {
        p.release(self.0);
    }
}

/// An open driver.
#[derive(Debug)]
pub(crate) struct Foreign {
    given: Given,
    own: *mut c_void,
    /// C has its address.
    db: *mut Db,
    closed: bool,
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: It is the box of `open`, and this was its only user.
        let db = unsafe { Box::from_raw(self.db) };
        let Refused { calls, first } = db.refused;
        // A run that is stuck has no audit to say so.
        if !self.closed && calls > 0 {
            let text = format!("{calls} calls of the driver were refused, the first of {first}");
            let _ = writeln!(std::io::stderr(), "doorbell: {text}");
        }
    }
}

impl Foreign {
    /// Returns the interface between calls.
    fn db(&self) -> &Db {
        // SAFETY: `db` is alive until `close` consumes the driver, and C uses it inside of calls
        // only, during which nobody has this reference.
        unsafe { &*self.db }
    }

    /// Makes a call of the driver on `h`. Afterwards the machine is out of its reach, and a panic
    /// of the machine goes on.
    fn call<H: Host, R>(db: *mut Db, h: &mut H, f: impl FnOnce(*mut Db) -> R) -> R {
        // SAFETY: `db` is alive, as in `Foreign::db`. The reference ends before C is called.
        unsafe { (*db).enter(h) };
        trap::activate(db);
        let r = f(db);
        trap::activate(ptr::null_mut());
        // SAFETY: As above; C has returned.
        let db = unsafe { &mut *db };
        db.leave();
        if let Some(panic) = db.panicked.take() {
            std::panic::resume_unwind(panic);
        }
        r
    }

    /// Counts a result that the header does not list.
    fn wrong(&mut self, name: &'static str) {
        // SAFETY: As in `Foreign::db`; `self` is borrowed for writing.
        unsafe { (*self.db).refuse(name) };
    }

    fn irq_of(&mut self, result: c_int, name: &'static str) -> Irq {
        match result {
            0 => Irq::None,
            1 => Irq::Handled,
            2 => Irq::Poll,
            _ => {
                self.wrong(name);
                Irq::Handled
            }
        }
    }
}

impl<H: Host> Driver<H> for Foreign {
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        let checksum = p.todo.checksum;
        if p.todo != (OffloadRequest { checksum, ..OffloadRequest::NONE }) {
            return Tx::Dropped(p);
        }
        let p = match p.linearise(h, Alignment::ANY) {
            Ok(p) => p,
            Err(NoBuffer(p)) => return Tx::Dropped(p),
        };
        let Packet { head: Fragment { buf, start, len }, todo, cookie, .. } = p;
        // SAFETY: As in `Foreign::db`; `self` is borrowed for writing.
        let kept = unsafe { (*self.db).keep(Memory::Buffer(buf, Some(cookie))) };
        let mem = match kept {
            Ok(mem) => mem,
            Err(Memory::Buffer(buf, _)) => {
                let head = Fragment { buf, start, len };
                return Tx::Busy(Packet { head, todo, more: None, cookie });
            }
            Err(_) => unreachable!("it is the buffer"),
        };
        let frame = DbFrame {
            mem,
            start,
            len,
            flags: checksum.map_or(0, |_| CHECKSUM),
            checksum_start: checksum.map_or(0, |c| c.start),
            checksum_offset: checksum.map_or(0, |c| c.offset),
        };
        let (own, send) = (self.own, self.given.send);
        let (result, back) = Self::call(self.db, h, |db| {
            // SAFETY: The function and what `open` returned are the driver's. It may use `db` and
            // the frame until it returns.
            let result = unsafe { send(own, db, &raw const frame, c_int::from(more)) };
            if result == 0 {
                return (result, None);
            }
            // SAFETY: C has returned, so this reference is the only one.
            let db = unsafe { &mut *db };
            (result, db.untaken(mem, Place { start, len }, todo))
        });
        match (result, back) {
            (0, _) => Tx::Ok,
            (1, Some(p)) => Tx::Busy(p),
            (2, Some(p)) => Tx::Dropped(p),
            (_, back) => {
                self.wrong("send");
                // Without its buffer, which the driver has given back, the packet is done.
                back.map_or(Tx::Ok, Tx::Dropped)
            }
        }
    }

    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        let (own, poll) = (self.own, self.given.poll);
        let result = Self::call(self.db, h, |db| {
            // SAFETY: As in `transmit`.
            unsafe { poll(own, db, budget) }
        });
        // SAFETY: As in `Foreign::db`; `self` is borrowed for writing.
        unsafe { (*self.db).hand_up(up) };
        match result {
            0 => Poll::Idle,
            1 => Poll::Again,
            _ => {
                self.wrong("poll");
                Poll::Idle
            }
        }
    }

    fn interrupt(&mut self, h: &mut H, vector: u16) -> Irq {
        let (own, irq) = (self.own, self.given.irq);
        let result = Self::call(self.db, h, |db| {
            // SAFETY: As in `transmit`.
            unsafe { irq(own, db, vector.into()) }
        });
        self.irq_of(result, "irq")
    }

    fn stopped(&self) -> bool {
        // SAFETY: The function and what `open` returned are the driver's.
        unsafe { (self.given.stopped)(self.own) != 0 }
    }

    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        let Some(alarm) = self.given.alarm else { return Irq::None };
        let why = match why {
            Alarm::Tick => 0,
            Alarm::TxTimeout => 1,
            Alarm::IoError => 2,
        };
        let own = self.own;
        let result = Self::call(self.db, h, |db| {
            // SAFETY: As in `transmit`.
            unsafe { alarm(own, db, why) }
        });
        self.irq_of(result, "alarm")
    }
}

/// The card that the driver named, and the driver.
pub(crate) struct CCard;

/// A driver in one machine, and that one's memory if both have to have the same addresses.
#[derive(Debug)]
pub(crate) struct Set {
    given: Given,
    region: RefCell<Option<Region>>,
}

impl Card for CCard {
    type Config = Set;
    type Device<P: Port> = E1000;
    type Driver<H: Host> = Foreign;
    type Stats = Stats;
    type Counters = Counters;

    fn config(v: &Values) -> Result<Set, SettingError> {
        if v.word("bus.kind") == "axi" {
            return Err(SettingError("`bus.kind`: this card has no AXI".to_owned()));
        }
        match (v.number("link.rate"), DRIVER.get()) {
            (1.0, Some(given)) => Ok(Set { given: *given, region: RefCell::default() }),
            (_, None) => Err(SettingError("there is no driver".to_owned())),
            _ => Err(SettingError("`link.rate`: this card has 1 Gbit/s".to_owned())),
        }
    }

    fn mac(c: &Set) -> [u8; 6] {
        c.given.device.mac
    }

    fn in_flight(c: &Set) -> u32 {
        c.given.in_flight
    }

    fn own_memory(
        c: &Set,
        size: usize,
        guard: ProtectionGranularity,
    ) -> Result<Option<Bytes>, OutOfMemory> {
        if !c.given.pointers {
            return Ok(None);
        }
        let (region, memory) = Region::new(size, guard)?;
        c.region.replace(Some(region));
        Ok(Some(memory))
    }

    fn order(c: &Set) -> Option<Order> {
        c.given.pointers.then_some(Order::Late)
    }

    fn device<P: Port>(c: &Set) -> E1000 {
        E1000::new(c.given.device)
    }

    fn open<H: Host>(h: &mut H, c: &Set) -> Result<Foreign, OpenError> {
        let c = &c.given;
        let db = Box::into_raw(Box::new(Db::new(c.pointers)));
        let own = Foreign::call(db, h, |db| {
            // SAFETY: The function is the driver's. It may use `db` until `close` returns.
            unsafe { (c.open)(db) }
        });
        if own.is_null() {
            // SAFETY: It is the box of above, and there is no driver to use it.
            drop(unsafe { Box::from_raw(db) });
            return Err(OpenError::Device("the driver's open returned NULL"));
        }
        Ok(Foreign { given: *c, own, db, closed: false })
    }

    fn close<H: Host>(mut driver: Foreign, h: &mut H) -> Stats {
        let (own, close) = (driver.own, driver.given.close);
        Foreign::call(driver.db, h, |db| {
            // SAFETY: As in `transmit`.
            unsafe { close(own, db) };
        });
        // SAFETY: As in `Foreign::db`; `driver` is owned.
        unsafe { (*driver.db).hand_up(&mut Released(h)) };
        driver.closed = true;
        Self::stats::<H>(&driver)
    }

    fn stats<H: Host>(driver: &Foreign) -> Stats {
        Stats { refused: driver.db().refused }
    }

    fn rules<P: Port>(device: &E1000) -> impl IntoIterator<Item = Rule> {
        device.rules()
    }

    fn cable<P: Port>(device: &mut E1000, at: Time, up: bool) {
        device.set_cable(at, up);
    }

    fn audit(
        o: &RunStats<Self>,
        p: &Platform,
        handed: Option<u64>,
        wire: (u64, u64),
    ) -> CrossCheck {
        let mut b = card::audit::<Self>(o, p, handed, wire);
        let Stats { refused: Refused { calls, first } } = o.totals.driver;
        b.never(&format!("calls that were refused: {{}}, the first of {first}"), calls);
        b
    }
}
