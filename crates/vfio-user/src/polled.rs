//! Pages that the guest writes without a trap: see [`Polled`].

use super::pci::{PAGE, Polled};
use doorbell_hal::Reg;
use doorbell_host_io::shared::{Window, memfd};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// A function's polled pages.
///
/// The file is as long as the offset of the pages in their BAR says, since that is the
/// offset at which a client maps them; it is sparse, and only the pages take memory.
#[derive(Debug)]
pub(super) struct Pages {
    what: Polled,
    file: File,
    memory: Window,
}

impl Pages {
    pub(super) fn new(what: Polled) -> io::Result<Pages> {
        let (offset, len) = (u64::from(what.first.offset), u64::from(what.pages) * u64::from(PAGE));
        let file = memfd(c"doorbells", offset + len)?;
        let memory = Window::map(&file, offset, len as usize, true)?;
        Ok(Pages { what, file, memory })
    }

    pub(super) fn is_in(&self, region: u32) -> bool {
        u32::from(self.what.first.bar) == region
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Offset in the BAR, and length.
    pub(super) fn area(&self) -> (u64, u64) {
        (self.what.first.offset.into(), u64::from(self.what.pages) * u64::from(PAGE))
    }

    /// Takes every word that is not zero. Whether there was one.
    pub(super) fn take(&mut self, mut ring: impl FnMut(Reg, u64)) -> bool {
        let mut rung = false;
        for page in 0..u32::from(self.what.pages) {
            for &word in self.what.words {
                let offset = page * PAGE + u32::from(word);
                let v = self.memory.take_u64(offset as usize);
                if v != 0 {
                    rung = true;
                    ring(
                        Reg {
                            region: self.what.first.bar,
                            offset: self.what.first.offset + offset,
                        },
                        v,
                    );
                }
            }
        }
        rung
    }

    /// Nothing has been rung.
    pub(super) fn clear(&mut self) {
        self.take(|_, _| {});
    }
}
