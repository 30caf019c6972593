//! QEMU's `pseries` machine: a POWER partition with a logical LAN adapter
//! (`spapr-vlan`), reached by hypervisor calls.
//!
//! Source: hw/net/spapr_llan.c, hw/ppc/spapr_vio.c, hw/ppc/spapr_iommu.c and
//! hw/intc/xics_spapr.c in QEMU; PAPR for the calls.
//!
//! Calls are made by a guest that runs ([`mailbox`](super::mailbox)), so QEMU is
//! under its own accelerator here and not under qtest's: the socket is there,
//! virtual time cannot be stepped. Time is counted: [`Host::delay`], [`Host::relax`]
//! and a microsecond a call.
//!
//! Mappings are real: the adapter reaches memory through its translation table, into
//! which [`Host::map`] puts an entry a page, and QEMU refuses what is not in it.

use super::heap::Heap;
use super::process::option_path;
use super::{Balance, Error, Launch, Qemu, Ram, Wire, mailbox};
use doorbell_seam::{
    Buf, Coherent, Direction, Exhausted, Fence, Hcall, HcallReturn, Host, Hypervisor, Iova, MapError, MapFault, Mapped,
    Place, Reg, Span, Time, Work,
};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// What to start.
#[derive(Clone, Copy, Debug)]
pub struct Pseries<'a> {
    /// The adapter's own address, as QEMU writes it: `52:54:00:12:34:56`.
    pub mac: &'a str,
    /// Its cable.
    pub wire: &'a Wire,
}

/// The machine has memory in multiples of this.
const MEMORY_MIB: u64 = 256;
/// Interrupt numbers of virtual devices begin here; the unit address's low byte is added.
const VIO_INTERRUPTS: u64 = 0x1100;
const PAGE: u64 = 4096;

const H_PUT_TCE: u64 = 0x20;
const H_EOI: u64 = 0x64;
const H_CPPR: u64 = 0x68;
const H_XIRR: u64 = 0x74;
/// QEMU's own: the argument is the address of an RTAS call's arguments.
const H_RTAS: u64 = 0xf000;
/// QEMU's token of ibm,set-xive.
const SET_XIVE: u32 = 0x200a;

impl Pseries<'_> {
    /// The adapter's unit address.
    pub const UNIT: u32 = 0x7100_0002;

    /// Starts the machine, and lets the adapter's interrupt through to the CPU.
    ///
    /// # Errors
    /// When QEMU does not start, or its guest does not answer.
    pub fn start(self) -> Result<PseriesHost, Error> {
        let mut launch = Launch::with_guest("ppc64")?;
        let (file, firmware) = (launch.dir().join("ram"), launch.dir().join("firmware"));
        fs::write(&firmware, mailbox::firmware()).map_err(Error::system("writing the guest's firmware"))?;
        let backend = format!("memory-backend-file,id=ram,size={MEMORY_MIB}M,share=on,mem-path={}", option_path(&file));
        // Without KVM the mitigations for speculation cannot be had, and QEMU says so.
        let machine = "pseries,ic-mode=xics,memory-backend=ram,cap-cfpc=broken,cap-sbbc=broken,cap-ibs=broken,\
                       cap-ccf-assist=off";
        launch.args(["-object", &backend, "-machine", machine, "-m", &MEMORY_MIB.to_string(), "-smp", "1"]);
        launch.args(["-netdev", &self.wire.netdev("wire")]);
        launch.args(["-device", &format!("spapr-vlan,netdev=wire,mac={},reg={:#x}", self.mac, Self::UNIT)]);
        launch.args(["-bios"]).args([&firmware]);
        let qemu = launch.start()?;
        let ram = Ram::mapped(&file, (MEMORY_MIB << 20) as usize)?;
        let mut h = PseriesHost {
            qemu,
            ram,
            heap: Heap::new(mailbox::FREE_FROM..MEMORY_MIB << 20),
            entries: BTreeMap::new(),
            now: Time::ZERO,
            balance: Balance::default(),
            calls: 0,
            scratch: Vec::new(),
            failed: None,
        };
        h.enable_interrupt()?;
        Ok(h)
    }
}

/// A [`Host`] with hypervisor calls, whose memory and adapter are in QEMU.
#[derive(Debug)]
pub struct PseriesHost {
    qemu: Qemu,
    ram: Ram,
    heap: Heap,
    /// Users of each page in the translation table: those that let the adapter read only,
    /// and those that let it write.
    entries: BTreeMap<u64, [u32; 2]>,
    now: Time,
    balance: Balance,
    calls: u64,
    scratch: Vec<u8>,
    failed: Option<Error>,
}

impl PseriesHost {
    /// Lets QEMU take what is on the wire.
    pub fn settle(&mut self) {
        self.attempt((), |qemu, _| qemu.settle());
    }

    /// Whether the adapter has interrupted since this was last asked, frames on the wire
    /// considered: as an operating system, takes the interrupt and ends it.
    pub fn take_interrupt(&mut self) -> bool {
        self.settle();
        let mut ours = false;
        for _ in 0..8 {
            let xirr = self.raw(H_XIRR, &[]).ret[0];
            let source = xirr & 0xff_ffff;
            if source == 0 {
                break;
            }
            ours |= source == interrupt();
            self.raw(H_EOI, &[xirr]);
        }
        ours
    }

    /// What has been taken and given back so far.
    pub const fn balance(&self) -> Balance {
        self.balance
    }

    /// Calls that a driver has made.
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    /// Ends QEMU.
    ///
    /// # Errors
    /// The first thing that went wrong with it.
    pub fn finish(self) -> Result<Balance, Error> {
        self.failed.map_or(Ok(self.balance), Err)
    }

    fn attempt<T>(&mut self, otherwise: T, f: impl FnOnce(&mut Qemu, &Ram) -> Result<T, Error>) -> T {
        if self.failed.is_some() {
            return otherwise;
        }
        match f(&mut self.qemu, &self.ram) {
            Ok(v) => v,
            Err(e) => {
                self.failed = Some(e);
                otherwise
            }
        }
    }

    /// A call of the machine's own.
    fn raw(&mut self, number: u64, a: &[u64]) -> HcallReturn {
        // To a driver a QEMU that failed is hardware that did (H_HARDWARE).
        self.attempt(HcallReturn::status(-1), |qemu, ram| {
            let (status, results) = mailbox::call(qemu, ram, number, a, Duration::from_secs(20))?;
            let mut ret = [0; 9];
            ret[..results.len()].copy_from_slice(&results);
            Ok(HcallReturn { status, ret })
        })
    }

    /// What an operating system does at boot: the interrupt goes to CPU 0 with a priority,
    /// and the CPU takes all priorities.
    fn enable_interrupt(&mut self) -> Result<(), Error> {
        let at = self.heap.take(64, 64, 0).unwrap_or_default();
        // Token, three arguments, one result.
        let words = [SET_XIVE, 3, 1, interrupt() as u32, 0, 5, !0];
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
        self.copy_in(at, &bytes);
        let answer = self.raw(H_RTAS, &[at]).status;
        let result = self.copy_out(at + 24, 4);
        self.heap.give(at, 64);
        self.raw(H_CPPR, &[0xff]);
        if let Some(e) = self.failed.take() {
            return Err(e);
        }
        if answer != 0 || result != [0; 4] {
            return Err(Error::Device(format!("ibm,set-xive of {:#x} answered {answer}, {result:?}", interrupt())));
        }
        Ok(())
    }

    fn copy_out(&mut self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = std::mem::take(&mut self.scratch);
        bytes.clear();
        bytes.resize(len, 0);
        self.attempt((), |qemu, ram| ram.read(qemu, at, &mut bytes));
        bytes
    }

    fn copy_in(&mut self, at: u64, from: &[u8]) {
        self.attempt((), |qemu, ram| ram.write(qemu, at, from));
    }

    /// Changes who uses the pages of a range, and their entries where that matters.
    fn translate(&mut self, at: u64, len: u64, writes: bool, enter: bool) {
        let mut page = at & !(PAGE - 1);
        while page < at + len.max(1) {
            let users = self.entries.entry(page).or_default();
            let rights = |users: &[u32; 2]| match users {
                [0, 0] => 0,
                [_, 0] => 1,
                _ => 3,
            };
            let before = rights(users);
            let n = &mut users[usize::from(writes)];
            *n = if enter { *n + 1 } else { n.saturating_sub(1) };
            let after = rights(users);
            if after != before {
                let entry = if after == 0 { 0 } else { page | after };
                if self.raw(H_PUT_TCE, &[Pseries::UNIT.into(), page, entry]).status != 0 && self.failed.is_none() {
                    self.failed = Some(Error::Device(format!("H_PUT_TCE of {page:#x} was refused")));
                }
            }
            page += PAGE;
        }
    }
}

const fn interrupt() -> u64 {
    VIO_INTERRUPTS + (Pseries::UNIT & 0xff) as u64
}

impl Hypervisor for PseriesHost {
    fn hcall(&mut self, call: Hcall, a: &[u64]) -> HcallReturn {
        assert!(a.len() <= 9, "{} arguments", a.len());
        self.calls += 1;
        self.now += Span::from_us(1);
        self.raw(call.0, a)
    }
}

/// No registers: reads are ones, writes are lost.
impl Host for PseriesHost {
    fn read32(&mut self, _: Reg) -> u32 {
        !0
    }
    fn write32(&mut self, _: Reg, _: u32) {}
    fn write64(&mut self, _: Reg, _: u64) {}

    fn buffer(&mut self, len: u32, place: Place) -> Result<Buf, Exhausted> {
        let at = self.heap.take(len.max(1).into(), place.align.into(), place.offset.into()).ok_or(Exhausted)?;
        self.balance.buffers += 1;
        Ok(Buf::from_parts(at, len, 0))
    }

    fn release(&mut self, b: Buf) {
        self.heap.give(b.addr(), b.len().max(1).into());
        self.balance.released += 1;
    }

    fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        assert!(range.start <= range.end && range.end <= b.len(), "{range:?} of a buffer of {} bytes", b.len());
        let bytes = self.copy_out(b.addr() + u64::from(range.start), range.len());
        let result = f(&bytes);
        self.scratch = bytes;
        result
    }

    fn bytes_mut<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        assert!(range.start <= range.end && range.end <= b.len(), "{range:?} of a buffer of {} bytes", b.len());
        let at = b.addr() + u64::from(range.start);
        let mut bytes = self.copy_out(at, range.len());
        let result = f(&mut bytes);
        self.copy_in(at, &bytes);
        self.scratch = bytes;
        result
    }

    fn copy(&mut self, from: &Buf, range: Range<u32>, to: &Coherent, offset: u32) {
        assert!(range.start <= range.end && range.end <= from.len(), "{range:?} of a buffer of {} bytes", from.len());
        assert!(u64::from(offset) + range.len() as u64 <= to.len().into(), "{range:?} to {offset} of {}", to.len());
        let bytes = self.copy_out(from.addr() + u64::from(range.start), range.len());
        self.copy_in(to.addr() + u64::from(offset), &bytes);
        self.scratch = bytes;
    }

    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError> {
        if range.start > range.end || range.end > b.len() {
            return Err(MapError { buf: b, why: MapFault::Range });
        }
        self.balance.maps += 1;
        let at = b.addr() + u64::from(range.start);
        self.translate(at, range.len() as u64, dir == Direction::FromDevice, true);
        Ok(Mapped::new(b, range, Iova(at), dir))
    }

    fn unmap(&mut self, m: Mapped) -> Buf {
        self.balance.unmaps += 1;
        self.translate(m.iova().0, m.len().into(), m.direction() == Direction::FromDevice, false);
        m.into_buf()
    }

    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, Exhausted> {
        let at = self.heap.take(len.max(1).into(), align.into(), 0).ok_or(Exhausted)?;
        self.copy_in(at, &vec![0; len as usize]);
        self.translate(at, len.into(), true, true);
        self.balance.coherent += 1;
        Ok(Coherent::from_parts(at, Iova(at), len, 0))
    }

    fn release_coherent(&mut self, c: Coherent) {
        self.translate(c.addr(), c.len().into(), true, false);
        self.heap.give(c.addr(), c.len().max(1).into());
        self.balance.coherent_released += 1;
    }

    fn load<T: FromBytes>(&mut self, at: &Coherent, offset: u32) -> T {
        let size = size_of::<T>();
        assert!(offset as usize + size <= at.len() as usize, "load at {offset} of {} bytes", at.len());
        let bytes = self.copy_out(at.addr() + u64::from(offset), size);
        let v = T::read_from_bytes(&bytes).unwrap_or_else(|_| unreachable!("as many bytes as T has"));
        self.scratch = bytes;
        v
    }

    fn store<T: IntoBytes + Immutable>(&mut self, at: &Coherent, offset: u32, v: T) {
        let bytes = v.as_bytes();
        assert!(offset as usize + bytes.len() <= at.len() as usize, "store at {offset} of {} bytes", at.len());
        self.copy_in(at.addr() + u64::from(offset), bytes);
    }

    fn fence(&mut self, _: Fence) {
        // QEMU works in another thread of another process.
        fence(Ordering::SeqCst);
    }

    fn spend(&mut self, _: Work) {}

    fn relax(&mut self) {
        self.now += Span::from_us(1);
    }

    fn delay(&mut self, d: Span) {
        self.now += d;
    }

    fn now(&self) -> Time {
        self.now
    }
}
