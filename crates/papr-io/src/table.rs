//! Translation entries (TCEs) of an adapter, written by the guest's calls.
//!
//! An entry is for a page of 4 KiB: its address in the guest's memory, bit 0 for reads by the
//! device, bit 1 for writes. An entry with neither maps nothing. The guest writes entries while the
//! server reads others; each is one atomic word. Source: PAPR, H_PUT_TCE, H_STUFF_TCE,
//! H_PUT_TCE_INDIRECT and H_GET_TCE.

use super::words::open_sealed;
use doorbell_hal::{DmaFault, DmaFaultKind, Iova, fail_if};
use doorbell_host_io::shared::{Window, memfd};
use doorbell_layout::ibmvnic::status::{PARAMETER, SUCCESS};
use std::{fs::File, io, ops::Range};

/// Entries of an adapter's window: 256 MiB, as for QEMU's logical LAN.
pub(super) const ENTRIES: u64 = 65_536;
const READ: u64 = 1;
const WRITE: u64 = 2;
pub(super) const PAGE: u64 = 4096;
/// The most entries of one H_PUT_TCE_INDIRECT, a page.
const LIST: u64 = 512;

/// The shared table of an adapter's entries.
#[derive(Debug)]
pub(super) struct Table(Window);

impl Table {
    /// Creates an empty table. Returns it and the file to share.
    pub(super) fn create() -> io::Result<(Table, File)> {
        let file = memfd(c"tces", ENTRIES * 8)?;
        Ok((Table::open(&file)?, file))
    }

    /// Maps the table of another process.
    pub(super) fn open(file: &File) -> io::Result<Table> {
        Ok(Table(open_sealed(file, (ENTRIES * 8) as usize)?))
    }

    /// Returns true once an access has found a page without memory.
    pub(super) fn lost(&self) -> bool {
        self.0.lost()
    }

    fn get(&self, n: u64) -> u64 {
        let mut b = [0; 8];
        self.0.read((n * 8) as usize, &mut b);
        u64::from_ne_bytes(b)
    }

    fn set(&self, n: u64, v: u64) {
        self.0.write((n * 8) as usize, &v.to_ne_bytes());
    }

    /// Returns the index of the first of `count` entries, if all exist.
    pub(super) fn inside(ioba: u64, count: u64) -> Option<u64> {
        let first = ioba / PAGE;
        first.checked_add(count).is_some_and(|end| end <= ENTRIES).then_some(first)
    }

    /// Sets `count` entries to one value (H_PUT_TCE, H_STUFF_TCE). Returns the status.
    pub(super) fn put(&self, ioba: u64, v: u64, count: u64) -> i64 {
        let Some(first) = Table::inside(ioba, count) else { return PARAMETER };
        (first..first + count).for_each(|n| self.set(n, v));
        SUCCESS
    }

    /// Sets entries to big-endian values from a page of the guest's memory (H_PUT_TCE_INDIRECT).
    /// Returns the status.
    pub(super) fn put_list(&self, memory: &Window, ioba: u64, list: u64, count: u64) -> i64 {
        let there = list.is_multiple_of(PAGE)
            && list.checked_add(PAGE).is_some_and(|end| end <= memory.len() as u64);
        let Some(first) = Table::inside(ioba, count).filter(|_| there && count <= LIST) else {
            return PARAMETER;
        };
        for i in 0..count {
            let mut b = [0; 8];
            memory.read((list + i * 8) as usize, &mut b);
            self.set(first + i, u64::from_be_bytes(b));
        }
        SUCCESS
    }

    /// Returns an entry (H_GET_TCE).
    pub(super) fn entry(&self, ioba: u64) -> Option<u64> {
        Table::inside(ioba, 1).map(|n| self.get(n))
    }

    /// Returns the guest address of an access to `ioba`, and the bytes left on that page. A
    /// writable page is readable too: the hypervisor reads a receive buffer's correlator.
    fn translate(&self, ioba: u64, write: bool) -> Option<(u64, u64)> {
        let entry = self.entry(ioba)?;
        let wanted = if write { WRITE } else { READ | WRITE };
        let offset = ioba % PAGE;
        (entry & wanted != 0).then_some(((entry & !(PAGE - 1)) + offset, PAGE - offset))
    }

    /// Calls `f` for each part of an access: memory, offset in it, range of the access. `f` returns
    /// false if it fails. The fault is that of the first address out of reach.
    pub(super) fn walk(
        &self,
        memory: Option<&Window>,
        at: Iova,
        len: usize,
        write: bool,
        mut f: impl FnMut(&Window, usize, Range<usize>) -> bool,
    ) -> Result<(), DmaFault> {
        let mut done = 0;
        while done < len {
            let here = at.0.checked_add(done as u64);
            let fault = |kind| DmaFault { at: Iova(at.0.wrapping_add(done as u64)), kind };
            let found = here.and_then(|ioba| self.translate(ioba, write));
            let Some((to, on_page)) = found else {
                let readable = here.and_then(|ioba| self.translate(ioba, false)).is_some();
                let why = if readable { DmaFaultKind::Direction } else { DmaFaultKind::Unmapped };
                return Err(fault(why));
            };
            let n = on_page.min((len - done) as u64) as usize;
            let memory = memory
                .filter(|m| to.checked_add(n as u64).is_some_and(|end| end <= m.len() as u64));
            let reached = memory.is_some_and(|m| f(m, to as usize, done..done + n));
            fail_if(!reached, fault(DmaFaultKind::Unmapped))?;
            done += n;
        }
        Ok(())
    }

    /// Reads guest memory with the device's rights.
    pub(super) fn read(&self, memory: &Window, at: Iova, into: &mut [u8]) -> Result<(), DmaFault> {
        self.walk(Some(memory), at, into.len(), false, |m, offset, bytes| {
            m.read(offset, &mut into[bytes])
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
