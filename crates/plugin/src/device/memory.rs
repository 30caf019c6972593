//! The guest's memory, which QEMU keeps in a shared memfd.

use memmap2::MmapMut;
use std::fs::File;

/// The most memory of a guest: what is more lies in another place, behind the hole for PCI.
const MOST: usize = 2 << 30;

/// Maps the guest's memory for as long as the process lives.
pub(super) fn of_guest() -> Result<MmapMut, String> {
    let io = |e: std::io::Error| format!("the guest's memory: {e}");
    for entry in std::fs::read_dir("/proc/self/fd").map_err(io)? {
        let path = entry.map_err(io)?.path();
        let to = std::fs::read_link(&path).unwrap_or_default();
        if to.as_os_str().to_string_lossy().contains("memory-backend-memfd") {
            let file = File::options().read(true).write(true).open(&path).map_err(io)?;
            return map(&file).map_err(io);
        }
    }
    Err("the guest's memory is no shared memfd: -object \
         memory-backend-memfd,id=ram,size=...,share=on -machine memory-backend=ram"
        .to_owned())
}

fn map(file: &File) -> std::io::Result<MmapMut> {
    if file.metadata()?.len() as usize > MOST {
        return Err(std::io::Error::other("more than 2 GiB are not supported"));
    }
    // SAFETY: QEMU does not shrink its guest's memory. The guest's CPU, which writes there too,
    // stands still while the machine runs: there is one, and it waits for its access or for QEMU's
    // lock.
    unsafe { MmapMut::map_mut(file) }
}
