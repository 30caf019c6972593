//! Pages that the guest writes without a trap: see [`PolledPages`].

use super::pci::{PAGE, PolledPages};
use doorbell_hal::Reg;
use doorbell_host_io::shared::{Window, memfd};
use std::os::fd::{AsFd, BorrowedFd};
use std::{fs::File, io};

/// A function's polled pages.
///
/// A client maps them at their offset in the BAR, so the file begins at the BAR's start. It is
/// sparse: only the pages take memory.
#[derive(Debug)]
pub(super) struct Pages {
    place: PolledPages,
    file: File,
    memory: Window,
}

impl Pages {
    pub(super) fn new(place: PolledPages) -> io::Result<Pages> {
        let (offset, len) =
            (u64::from(place.first.offset), u64::from(place.pages) * u64::from(PAGE));
        let file = memfd(c"doorbells", offset + len)?;
        let memory = Window::map(&file, offset, len as usize, true)?;
        Ok(Pages { place, file, memory })
    }

    pub(super) fn is_in(&self, region: u32) -> bool {
        u32::from(self.place.first.bar) == region
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns their offset in the BAR and their length, in bytes.
    pub(super) fn area(&self) -> (u64, u64) {
        (self.place.first.offset.into(), u64::from(self.place.pages) * u64::from(PAGE))
    }

    /// Takes every non-zero word and passes it to `ring`, as long as that returns true. Returns
    /// true if there was one.
    pub(super) fn take(&mut self, mut ring: impl FnMut(Reg, u64) -> bool) -> bool {
        let first = self.place.first;
        let mut rung = false;
        for page in 0..u32::from(self.place.pages) {
            for &word in self.place.words {
                let offset = page * PAGE + u32::from(word);
                let v = self.memory.take_u64(offset as usize);
                if v != 0 {
                    rung = true;
                    if !ring(Reg { region: first.bar, offset: first.offset + offset }, v) {
                        return true;
                    }
                }
            }
        }
        rung
    }

    /// Discards all doorbells.
    pub(super) fn clear(&mut self) {
        self.take(|_, _| true);
    }
}
