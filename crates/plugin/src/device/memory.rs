//! The guest's memory, which QEMU keeps in a shared memfd.

use std::fs::File;
use std::os::fd::AsRawFd;

/// The most memory of a guest: what is more lies in another place, behind the hole for PCI.
const MOST: usize = 2 << 30;

/// Maps the guest's memory for as long as the process lives.
pub(super) fn of_guest() -> Result<Vec<u8>, String> {
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

fn map(file: &File) -> std::io::Result<Vec<u8>> {
    let size = file.metadata()?.len() as usize;
    if size > MOST {
        return Err(std::io::Error::other("more than 2 GiB are not supported"));
    }
    let (flags, protection) = (libc::MAP_SHARED, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping of a file of this size, at a place of the kernel's choice.
    let at =
        unsafe { libc::mmap(std::ptr::null_mut(), size, protection, flags, file.as_raw_fd(), 0) };
    if at == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the machine that gets the vector is never dropped, nor does the vector grow, so that
    // the allocator never sees it. The guest's CPU, which writes there too, stands still while the
    // machine runs: there is one, it waits for its access or for QEMU's lock.
    Ok(unsafe { Vec::from_raw_parts(at.cast(), size, size) })
}
