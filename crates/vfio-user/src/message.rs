//! Messages: requests of a client, checked, and the layout of replies.
//!
//! A message is a header of 16 bytes and a body, in the host's byte order, without alignment. A
//! body may be longer than its command needs (a later minor version may append fields), never
//! shorter. [`parse`] checks every length and count against the body; its caller checks indices and
//! addresses.
//!
//! Source: QEMU, docs/interop/vfio-user.rst (protocol 0.1), and linux/vfio.h.

use doorbell_hal::fail_if;
use zerocopy::native_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Major and minor version of the protocol.
pub(super) const VERSION: (u16, u16) = (0, 1);
/// The most data bytes in one message, announced to the client.
pub(super) const MAX_DATA: u32 = 1 << 20;
/// The most file descriptors in one message, announced to the client; QEMU refuses servers that
/// accept more.
pub(super) const MAX_FDS: usize = 16;
/// The longest message: [`MAX_DATA`] behind the headers of a region write.
pub(super) const MAX_MESSAGE: usize = HEADER + size_of::<Access>() + MAX_DATA as usize;
/// The most bytes of a BAR that one message may access. A guest's instruction accesses 64 at most.
pub(super) const MAX_BAR_ACCESS: u32 = 4096;
pub(super) const HEADER: usize = size_of::<Header>();

pub(super) mod command {
    pub(crate) const VERSION: u16 = 1;
    pub(crate) const DMA_MAP: u16 = 2;
    pub(crate) const DMA_UNMAP: u16 = 3;
    pub(crate) const DEVICE_GET_INFO: u16 = 4;
    pub(crate) const DEVICE_GET_REGION_INFO: u16 = 5;
    pub(crate) const DEVICE_GET_REGION_IO_FDS: u16 = 6;
    pub(crate) const DEVICE_GET_IRQ_INFO: u16 = 7;
    pub(crate) const DEVICE_SET_IRQS: u16 = 8;
    pub(crate) const REGION_READ: u16 = 9;
    pub(crate) const REGION_WRITE: u16 = 10;
    pub(crate) const DMA_READ: u16 = 11;
    pub(crate) const DMA_WRITE: u16 = 12;
    pub(crate) const DEVICE_RESET: u16 = 13;
    pub(crate) const REGION_WRITE_MULTI: u16 = 15;
}

pub(super) mod flag {
    /// Mask of the message type: request (0) or reply (1).
    pub(crate) const TYPE: u32 = 0xf;
    pub(crate) const REPLY: u32 = 1;
    pub(crate) const NO_REPLY: u32 = 0x10;
    pub(crate) const ERROR: u32 = 0x20;
}

/// Flags of an interrupt request: kind of data, and action.
pub(super) mod irq_set {
    pub(crate) const DATA_NONE: u32 = 1;
    pub(crate) const DATA_BOOL: u32 = 2;
    pub(crate) const DATA_EVENTFD: u32 = 4;
    pub(crate) const MASK: u32 = 8;
    pub(crate) const UNMASK: u32 = 16;
    pub(crate) const TRIGGER: u32 = 32;
}

#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    pub(crate) id: U16,
    pub(crate) command: U16,
    /// Bytes of the whole message.
    pub(crate) size: U32,
    pub(crate) flags: U32,
    pub(crate) error: U32,
}

macro_rules! body {
    ($($(#[doc = $doc:literal])+ $name:ident { $($field:ident: $t:ty,)* })*) => {$(
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        pub(super) struct $name { $(pub(super) $field: $t,)* }
    )*};
}

body! {
    /// Version request and reply; JSON follows.
    Version { major: U16, minor: U16, }
    /// Map request.
    Map { argsz: U32, flags: U32, offset: U64, address: U64, size: U64, }
    /// Unmap request and reply.
    Unmap { argsz: U32, flags: U32, address: U64, size: U64, }
    /// `struct vfio_device_info`, the part that vfio-user has.
    DeviceInfo { argsz: U32, flags: U32, regions: U32, irqs: U32, }
    /// `struct vfio_region_info`.
    RegionInfo { argsz: U32, flags: U32, index: U32, cap_offset: U32, size: U64, offset: U64, }
    /// A sparse mmap capability with one area.
    Sparse { id: U16, version: U16, next: U32, areas: U32, reserved: U32, offset: U64, size: U64, }
    /// `struct vfio_irq_info`; the request for I/O descriptors has the same fields.
    IrqInfo { argsz: U32, flags: U32, index: U32, count: U32, }
    /// `struct vfio_irq_set`; data follow.
    SetIrqs { argsz: U32, flags: U32, index: U32, start: U32, count: U32, }
    /// Region access, request and reply; data follow.
    Access { offset: U64, region: U32, count: U32, }
    /// One of several region writes.
    ShortWrite { offset: U64, region: U32, count: U32, data: [u8; 8], }
    /// DMA by message, request and reply; data follow.
    Dma { address: U64, count: U64, }
}

impl IrqInfo {
    pub(super) fn new(index: u32, flags: u32, count: u32) -> IrqInfo {
        let argsz = (size_of::<IrqInfo>() as u32).into();
        IrqInfo { argsz, flags: flags.into(), index: index.into(), count: count.into() }
    }
}

impl Dma {
    /// Of `count` bytes, `offset` bytes behind `at`.
    pub(super) fn new(at: u64, offset: usize, count: usize) -> Dma {
        let address = at.wrapping_add(offset as u64);
        Dma { address: address.into(), count: (count as u64).into() }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Request<'a> {
    /// The client's version and its capabilities in JSON.
    Version(Version, &'a [u8]),
    Map(Map),
    Unmap(Unmap),
    DeviceInfo,
    /// Bytes of reply that the client has room for, and the region's index.
    RegionInfo(u32, u32),
    /// The region's index.
    RegionIoFds(u32),
    /// The index of the kind.
    IrqInfo(u32),
    /// With the bytes of its bool array, if the flags announce one.
    SetIrqs(SetIrqs, &'a [u8]),
    Read(Access),
    /// With its data, as long as its count.
    Write(Access, &'a [u8]),
    /// Each of at most 8 bytes.
    WriteMulti(&'a [ShortWrite]),
    Reset,
}

pub(super) type Errno = i32;

fn fixed<T: FromBytes + KnownLayout>(body: &[u8]) -> Result<(T, &[u8]), Errno> {
    T::read_from_prefix(body).map_err(|_| libc::EINVAL)
}

/// Decodes the request of a message. EINVAL if the body is too short or contradicts itself, E2BIG
/// if the reply would exceed a message, ENOTSUP for a command that a client may not send.
pub(super) fn parse(command: u16, body: &[u8]) -> Result<Request<'_>, Errno> {
    Ok(match command {
        command::VERSION => {
            let (version, json) = fixed(body)?;
            Request::Version(version, json)
        }
        command::DMA_MAP => Request::Map(fixed(body)?.0),
        command::DMA_UNMAP => Request::Unmap(fixed(body)?.0),
        command::DEVICE_GET_INFO => {
            fixed::<DeviceInfo>(body)?;
            Request::DeviceInfo
        }
        command::DEVICE_GET_REGION_INFO => {
            let (r, _) = fixed::<RegionInfo>(body)?;
            Request::RegionInfo(r.argsz.get(), r.index.get())
        }
        command::DEVICE_GET_REGION_IO_FDS => {
            Request::RegionIoFds(fixed::<IrqInfo>(body)?.0.index.get())
        }
        command::DEVICE_GET_IRQ_INFO => Request::IrqInfo(fixed::<IrqInfo>(body)?.0.index.get()),
        command::DEVICE_SET_IRQS => {
            let (set, data) = fixed::<SetIrqs>(body)?;
            let bools = set.flags.get() & irq_set::DATA_BOOL != 0;
            let data =
                if bools { data.get(..set.count.get() as usize).ok_or(libc::EINVAL)? } else { &[] };
            Request::SetIrqs(set, data)
        }
        command::REGION_READ => {
            let (access, _) = fixed::<Access>(body)?;
            fail_if(access.count.get() > MAX_DATA, libc::E2BIG)?;
            Request::Read(access)
        }
        command::REGION_WRITE => {
            let (access, data) = fixed::<Access>(body)?;
            Request::Write(access, data.get(..access.count.get() as usize).ok_or(libc::EINVAL)?)
        }
        command::REGION_WRITE_MULTI => {
            let (n, data) = fixed::<U64>(body)?;
            let n = usize::try_from(n.get()).map_err(|_| libc::EINVAL)?;
            let (writes, _) =
                <[ShortWrite]>::ref_from_prefix_with_elems(data, n).map_err(|_| libc::EINVAL)?;
            fail_if(writes.iter().any(|w| w.count.get() > 8), libc::EINVAL)?;
            Request::WriteMulti(writes)
        }
        command::DEVICE_RESET => Request::Reset,
        _ => return Err(libc::ENOTSUP),
    })
}

/// Writes a message to `out`, which it clears first. `body` is in parts.
pub(super) fn write(
    out: &mut Vec<u8>,
    id: u16,
    command: u16,
    flags: u32,
    error: Errno,
    body: &[&[u8]],
) {
    let size = HEADER + body.iter().map(|b| b.len()).sum::<usize>();
    let header = Header {
        id: id.into(),
        command: command.into(),
        size: (size as u32).into(),
        flags: flags.into(),
        error: (error as u32).into(),
    };
    out.clear();
    out.extend_from_slice(header.as_bytes());
    for part in body {
        out.extend_from_slice(part);
    }
}

#[cfg(kani)]
mod proofs;
#[cfg(test)]
mod tests;
