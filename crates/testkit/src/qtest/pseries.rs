//! QEMU's `pseries` machine: a POWER partition with a logical LAN adapter (`spapr-vlan`).
//!
//! A guest makes the hypervisor calls ([`mailbox`](super::mailbox)), so QEMU runs under TCG and
//! virtual time cannot be stepped: [`Host::delay`], [`Host::relax`] and 1 us a call are counted.
//! Mappings are real: [`Host::map`] writes a translation entry a page, and QEMU refuses others.
//!
//! Source: hw/net/spapr_llan.c, hw/ppc/spapr_vio.c, hw/ppc/spapr_iommu.c and
//! hw/intc/xics_spapr.c in QEMU; PAPR for the calls.

use super::process::option_path;
use super::remote::{Remote, remote_memory};
use super::{Balance, Error, Launch, Ram, Wire, mailbox};
use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Direction, Fence, Hcall, HcallReturn, Host, Hypervisor,
    MapError, Mapped, OutOfMemory, Reg, Span, Time,
};
use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// The configuration of the machine.
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
        fs::write(&firmware, mailbox::firmware())
            .map_err(Error::system("writing the guest's firmware"))?;
        let backend = format!(
            "memory-backend-file,id=ram,size={MEMORY_MIB}M,share=on,mem-path={}",
            option_path(&file)
        );
        // Without KVM the mitigations for speculation cannot be had, and QEMU says so.
        let machine = "pseries,ic-mode=xics,memory-backend=ram,cap-cfpc=broken,\
                       cap-sbbc=broken,cap-ibs=broken,cap-ccf-assist=off";
        launch.args([
            "-object",
            &backend,
            "-machine",
            machine,
            "-m",
            &MEMORY_MIB.to_string(),
            "-smp",
            "1",
        ]);
        launch.args(["-netdev", &self.wire.netdev("wire")]);
        launch.args([
            "-device",
            &format!("spapr-vlan,netdev=wire,mac={},reg={:#x}", self.mac, Self::UNIT),
        ]);
        launch.args(["-bios"]).args([&firmware]);
        let qemu = launch.start()?;
        let ram = Ram::mapped(&file, (MEMORY_MIB << 20) as usize)?;
        let mut h = PseriesHost {
            remote: Remote::new(qemu, ram, mailbox::FREE_FROM..MEMORY_MIB << 20),
            entries: BTreeMap::new(),
            now: Time::ZERO,
            calls: 0,
        };
        h.enable_interrupt()?;
        Ok(h)
    }
}

/// A [`Host`] with hypervisor calls, whose memory and adapter are in QEMU.
#[derive(Debug)]
pub struct PseriesHost {
    remote: Remote,
    /// Users of each page in the translation table: those that let the adapter read only,
    /// and those that let it write.
    entries: BTreeMap<u64, [u32; 2]>,
    now: Time,
    calls: u64,
}

impl PseriesHost {
    /// Lets QEMU take what is on the wire.
    pub fn settle(&mut self) {
        self.remote.attempt((), |qemu, _| qemu.settle());
    }

    /// Takes and ends the adapter's interrupt, as an operating system does, after QEMU has received
    /// all frames. Returns true if there was one.
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

    /// Returns the counts so far.
    pub const fn balance(&self) -> Balance {
        self.remote.balance
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
        self.remote.finish()
    }

    /// A call of the machine's own.
    fn raw(&mut self, number: u64, a: &[u64]) -> HcallReturn {
        // To a driver a QEMU that failed is hardware that did (H_HARDWARE).
        self.remote.attempt(HcallReturn::status(-1), |qemu, ram| {
            let (status, results) = mailbox::call(qemu, ram, number, a, Duration::from_secs(20))?;
            let mut ret = [0; 9];
            ret[..results.len()].copy_from_slice(&results);
            Ok(HcallReturn { status, ret })
        })
    }

    /// Routes the interrupt to CPU 0 with a priority and accepts all priorities, as an operating
    /// system does at boot.
    fn enable_interrupt(&mut self) -> Result<(), Error> {
        let at = self.remote.heap.take(64, 64, 0).unwrap_or_default();
        // Token, three arguments, one result.
        let words = [SET_XIVE, 3, 1, interrupt() as u32, 0, 5, !0];
        let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_be_bytes).collect();
        self.remote.copy_in(at, &bytes);
        let answer = self.raw(H_RTAS, &[at]).status;
        let result = self.remote.copy_out(at + 24, 4);
        self.remote.heap.give(at, 64);
        self.raw(H_CPPR, &[0xff]);
        if let Some(e) = self.remote.failed.take() {
            return Err(e);
        }
        if answer != 0 || result != [0; 4] {
            return Err(Error::Device(format!(
                "ibm,set-xive of {:#x} answered {answer}, {result:?}",
                interrupt()
            )));
        }
        Ok(())
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
                if self.raw(H_PUT_TCE, &[Pseries::UNIT.into(), page, entry]).status != 0
                    && self.remote.failed.is_none()
                {
                    self.remote.failed =
                        Some(Error::Device(format!("H_PUT_TCE of {page:#x} was refused")));
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

    fn map(&mut self, b: Buf, range: Range<u32>, dir: Direction) -> Result<Mapped, MapError> {
        let m = self.remote.map(b, range, dir)?;
        self.translate(m.iova().0, m.len().into(), dir.is_written(), true);
        Ok(m)
    }

    fn unmap(&mut self, m: Mapped) -> Buf {
        self.translate(m.iova().0, m.len().into(), m.direction().is_written(), false);
        self.remote.unmap(m)
    }

    fn coherent(&mut self, len: u32, align: u32) -> Result<Coherent, OutOfMemory> {
        let c = self.remote.coherent(len, align)?;
        self.translate(c.addr(), len.into(), true, true);
        Ok(c)
    }

    fn release_coherent(&mut self, c: Coherent) {
        self.translate(c.addr(), c.len().into(), true, false);
        self.remote.release_coherent(c);
    }

    fn relax(&mut self) {
        self.now += Span::from_us(1);
    }

    fn delay(&mut self, d: Span) {
        self.now += d;
    }

    remote_memory!();
}
