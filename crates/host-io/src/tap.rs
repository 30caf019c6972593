//! A TAP device: Ethernet frames to and from the kernel's network stack.
//!
//! Source: linux/if_tun.h, drivers/net/tun.c, and for the header before each frame the VIRTIO
//! specification 1.2, 5.1.6 (`struct virtio_net_hdr`). With the header, frames cross with deferred
//! checksums and segmentation. [`offload`] says which of these the kernel may defer in frames
//! *read* here; those *written* may defer any.
//!
//! The header is little-endian, by `TUNSETVNETLE`, and 10 bytes long, the oldest form. Opening a
//! device needs CAP_NET_ADMIN, and creates it in the network namespace of the calling thread; it
//! is gone when the [`Tap`] is dropped.

use crate::check;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::{ffi::CString, fs::File};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, little_endian::U16};

/// Offloads that the kernel may defer in frames read from it (`TUN_F_…`).
pub mod offload {
    /// Checksums; needed for each of the others.
    pub const CSUM: u32 = libc::TUN_F_CSUM;
    /// Segmentation of TCP over IPv4.
    pub const TSO4: u32 = libc::TUN_F_TSO4;
    /// Segmentation of TCP over IPv6.
    pub const TSO6: u32 = libc::TUN_F_TSO6;
    /// Segmentation of TCP with CWR set.
    pub const TSO_ECN: u32 = libc::TUN_F_TSO_ECN;
    /// Segmentation of UDP (`UDP_SEGMENT`) over IPv4; Linux 6.2.
    pub const USO4: u32 = libc::TUN_F_USO4;
    /// Segmentation of UDP over IPv6; Linux 6.2.
    pub const USO6: u32 = libc::TUN_F_USO6;
}

/// `struct virtio_net_hdr`: the deferred offloads of the frame after it.
#[derive(
    Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(C)]
pub struct VnetHeader {
    /// [`VnetHeader::NEEDS_CSUM`], [`VnetHeader::DATA_VALID`].
    pub flags: u8,
    /// One of the `GSO_…`, and [`VnetHeader::GSO_ECN`].
    pub gso_type: u8,
    /// Length of all headers in bytes.
    pub hdr_len: U16,
    /// Payload bytes a segment.
    pub gso_size: U16,
    /// Offset in the frame of the first byte to sum.
    pub csum_start: U16,
    /// Offset of the checksum field from there.
    pub csum_offset: U16,
}

const _: () = assert!(size_of::<VnetHeader>() == VnetHeader::LEN);

impl VnetHeader {
    /// Its length in bytes.
    pub const LEN: usize = 10;
    /// The checksum is to be completed.
    pub const NEEDS_CSUM: u8 = 1;
    /// The checksum has been verified.
    pub const DATA_VALID: u8 = 2;
    /// No segmentation.
    pub const GSO_NONE: u8 = 0;
    /// TCP over IPv4.
    pub const GSO_TCPV4: u8 = 1;
    /// TCP over IPv6.
    pub const GSO_TCPV6: u8 = 4;
    /// UDP, each segment a datagram.
    pub const GSO_UDP_L4: u8 = 5;
    /// Flag beside a TCP type: only the first segment keeps CWR.
    pub const GSO_ECN: u8 = 0x80;
}

/// The longest frame in bytes that is copied behind its header: for the kernel, a second piece of a
/// write is more work.
const SHORT: usize = 256;

/// A TAP device.
#[derive(Debug)]
pub struct Tap {
    file: File,
    name: String,
}

impl Tap {
    /// Creates the device `name` (at most 15 bytes; `%d` in it becomes the first free number), or
    /// opens a persistent one. `offloads` are bits of [`offload`].
    pub fn open(name: &str, offloads: u32) -> io::Result<Tap> {
        let file = File::options().read(true).write(true).open("/dev/net/tun")?;
        let mut request = interface_request(name)?;
        request.ifr_ifru.ifru_flags =
            (libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR) as libc::c_short;
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, which lives past the call.
        check(unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &raw mut request) })?;
        let name =
            request.ifr_name.iter().take_while(|c| **c != 0).map(|c| *c as u8 as char).collect();
        let (len, little): (libc::c_int, libc::c_int) = (VnetHeader::LEN as _, 1);
        // SAFETY: both calls read one int, which lives past the call.
        unsafe {
            check(libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETHDRSZ, &raw const len))?;
            check(libc::ioctl(file.as_raw_fd(), libc::TUNSETVNETLE, &raw const little))?;
        }
        // SAFETY: TUNSETOFFLOAD takes its argument by value.
        check(unsafe {
            libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads))
        })?;
        Ok(Tap { file, name })
    }

    /// Returns the interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes [`Tap::receive`] return `WouldBlock` when there is nothing to read, or wait.
    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.file, on)?)
    }

    /// Passes one frame to the kernel, as if it had come from the wire. The kernel refuses a header
    /// that does not match the frame (`InvalidInput`), and any frame while the interface is down
    /// (EIO).
    pub fn send(&self, header: &VnetHeader, frame: &[u8]) -> io::Result<()> {
        let header = header.as_bytes();
        let n = if frame.len() <= SHORT {
            let mut whole = [0; VnetHeader::LEN + SHORT];
            let (before, rest) = whole.split_at_mut(VnetHeader::LEN);
            before.copy_from_slice(header);
            rest[..frame.len()].copy_from_slice(frame);
            (&self.file).write(&whole[..VnetHeader::LEN + frame.len()])?
        } else {
            (&self.file).write_vectored(&[IoSlice::new(header), IoSlice::new(frame)])?
        };
        if n == VnetHeader::LEN + frame.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    /// Reads one frame that the kernel sends. Returns its header and its length in bytes; a longer
    /// frame than `frame` is truncated (65550 bytes hold any without BIG TCP).
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<(VnetHeader, usize)> {
        let mut header = VnetHeader::default();
        let n = (&self.file)
            .read_vectored(&mut [IoSliceMut::new(header.as_mut_bytes()), IoSliceMut::new(frame)])?;
        let len = n.checked_sub(VnetHeader::LEN).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((header, len))
    }
}

impl AsFd for Tap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn interface_request(name: &str) -> io::Result<libc::ifreq> {
    let c = CString::new(name)?;
    // SAFETY: all zeros is a valid `ifreq`: an empty name and no flags.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let bytes = c.as_bytes_with_nul();
    if bytes.len() > request.ifr_name.len() {
        let why =
            format!("interface name `{name}` is longer than {} bytes", request.ifr_name.len() - 1);
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(request)
}

#[cfg(test)]
mod tests;
