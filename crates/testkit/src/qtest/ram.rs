//! The guest's memory, reached in one of two ways.

use super::{Error, Qemu};
use doorbell_host_io::shared::Window;
use std::fs::File;
use std::path::Path;

/// Access to guest memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// A file that QEMU and we both map: an access is a copy. Most boards can
    /// (`memory-backend-file` with `share=on`).
    Mapped,
    /// Through the qtest socket, some tens of microseconds an access. For boards
    /// that insist on memory of their own (petalogix-ml605).
    Socket,
}

/// Guest memory.
#[derive(Debug)]
pub struct Ram(Option<Window>);

impl Ram {
    /// Memory that is reached through the qtest socket.
    pub const SOCKET: Ram = Ram(None);

    /// Memory in the file that QEMU has mapped; physical address 0 is its start.
    ///
    /// # Errors
    /// When the file cannot be mapped, or is smaller than `len`.
    pub fn mapped(file: &Path, len: usize) -> Result<Ram, Error> {
        let doing = || format!("mapping guest memory {}", file.display());
        let file =
            File::options().read(true).write(true).open(file).map_err(Error::system(doing()))?;
        Ok(Ram(Some(Window::map(&file, 0, len, true).map_err(Error::system(doing()))?)))
    }

    /// Copies out.
    pub(super) fn read(&self, qemu: &mut Qemu, address: u64, into: &mut [u8]) -> Result<(), Error> {
        match &self.0 {
            // The file is ours, and not truncated.
            Some(window) => _ = window.read(address as usize, into),
            None => qemu.read(address, into)?,
        }
        Ok(())
    }

    /// Copies in.
    pub(super) fn write(&self, qemu: &mut Qemu, address: u64, from: &[u8]) -> Result<(), Error> {
        match &self.0 {
            Some(window) => _ = window.write(address as usize, from),
            None => qemu.write(address, from)?,
        }
        Ok(())
    }
}
