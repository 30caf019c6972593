//! An adapter's translation entries (TCEs), as the guest has them written.
//!
//! An entry is for a page of 4 KiB: its address in the guest's memory, bit 0 that the device may
//! read, bit 1 that it may write. An entry with neither maps nothing. The guest's calls write
//! entries while the server looks at others; each is one atomic word. Source: PAPR, H_PUT_TCE,
//! H_STUFF_TCE, H_PUT_TCE_INDIRECT and H_GET_TCE.

use doorbell_hal::{DmaFault, DmaFaultKind, Iova};
use doorbell_host_io::shared::{Window, memfd};
use std::fs::File;
use std::io;
use std::ops::Range;

/// Entries of an adapter's window: 256 MiB, what QEMU gives a logical LAN.
pub const ENTRIES: u64 = 65_536;
const READ: u64 = 1;
const WRITE: u64 = 2;
const PAGE: u64 = 4096;
/// Entries that one H_PUT_TCE_INDIRECT may bring: a page of them.
const LIST: u64 = 512;

/// H_SUCCESS and H_PARAMETER.
const SUCCESS: i64 = 0;
const PARAMETER: i64 = -4;

/// The entries, shared.
#[derive(Debug)]
pub struct Table(Window);

impl Table {
    /// An empty one, and the file to share.
    ///
    /// # Errors
    /// When the system has no more memory or descriptors.
    pub fn create() -> io::Result<(Table, File)> {
        let file = memfd(c"tces", ENTRIES * 8)?;
        Ok((Table::open(&file)?, file))
    }

    /// Somebody else's.
    ///
    /// # Errors
    /// When it is too short, or cannot be mapped.
    pub fn open(file: &File) -> io::Result<Table> {
        Ok(Table(Window::map(file, 0, (ENTRIES * 8) as usize, true)?))
    }

    fn get(&self, n: u64) -> u64 {
        let mut b = [0; 8];
        self.0.read((n * 8) as usize, &mut b);
        u64::from_ne_bytes(b)
    }

    fn set(&self, n: u64, v: u64) {
        self.0.write((n * 8) as usize, &v.to_ne_bytes());
    }

    /// The first entry of `count` that are all there.
    fn inside(ioba: u64, count: u64) -> Option<u64> {
        let first = ioba / PAGE;
        first.checked_add(count).is_some_and(|end| end <= ENTRIES).then_some(first)
    }

    /// H_PUT_TCE, and with a count H_STUFF_TCE: so many entries get this value.
    pub fn put(&self, ioba: u64, v: u64, count: u64) -> i64 {
        let Some(first) = Table::inside(ioba, count) else { return PARAMETER };
        (first..first + count).for_each(|n| self.set(n, v));
        SUCCESS
    }

    /// H_PUT_TCE_INDIRECT: values from a page of the guest's memory, big-endian.
    pub fn put_list(&self, memory: &Window, ioba: u64, list: u64, count: u64) -> i64 {
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

    /// H_GET_TCE.
    pub fn entry(&self, ioba: u64) -> Option<u64> {
        Table::inside(ioba, 1).map(|n| self.get(n))
    }

    /// Where in the guest's memory an access to `ioba` goes, and how far it stays on that page.
    /// What may be written may be read too: a hypervisor reads a lent buffer's correlator.
    fn translate(&self, ioba: u64, write: bool) -> Option<(u64, u64)> {
        let entry = self.entry(ioba)?;
        let wanted = if write { WRITE } else { READ | WRITE };
        let offset = ioba % PAGE;
        (entry & wanted != 0).then_some(((entry & !(PAGE - 1)) + offset, PAGE - offset))
    }

    /// The pieces of the guest's memory that an access goes to, where they are in it and in the
    /// access.
    ///
    /// # Errors
    /// The first address that cannot be reached.
    pub(super) fn walk(
        &self,
        memory: Option<&Window>,
        at: Iova,
        len: usize,
        write: bool,
        mut f: impl FnMut(&Window, usize, Range<usize>),
    ) -> Result<(), DmaFault> {
        let mut done = 0;
        while done < len {
            let here = at.0.checked_add(done as u64);
            let fault = |kind| DmaFault { at: Iova(at.0.wrapping_add(done as u64)), kind };
            let found = here.and_then(|ioba| self.translate(ioba, write));
            let Some((to, on_page)) = found else {
                let readable = here.and_then(|ioba| self.translate(ioba, false)).is_some();
                return Err(fault(if readable {
                    DmaFaultKind::Direction
                } else {
                    DmaFaultKind::Unmapped
                }));
            };
            let n = on_page.min((len - done) as u64) as usize;
            let memory = memory
                .filter(|m| to.checked_add(n as u64).is_some_and(|end| end <= m.len() as u64));
            let Some(memory) = memory else { return Err(fault(DmaFaultKind::Unmapped)) };
            f(memory, to as usize, done..done + n);
            done += n;
        }
        Ok(())
    }

    /// Reads as the device may.
    ///
    /// # Errors
    /// As [`Table::walk`].
    pub(super) fn read(&self, memory: &Window, at: Iova, into: &mut [u8]) -> Result<(), DmaFault> {
        self.walk(Some(memory), at, into.len(), false, |m, offset, bytes| {
            m.read(offset, &mut into[bytes]);
        })
    }
}

#[cfg(test)]
mod tests;
