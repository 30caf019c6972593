//! A raw socket on an interface, with virtio-net headers.
//!
//! Sources: packet(7), linux/if_packet.h, net/packet/af_packet.c.
//!
//! Where a switch holds the program's end of a TAP device, the device is a kernel interface and
//! this socket takes the place of its stack: the switch reads what is sent here and writes what is
//! received here, header included. Sends go out in batches (sendmmsg(2)), past the qdisc. The
//! header has the machine's byte order, which must be little-endian ([`VnetHeader`]). VLAN tags
//! that the kernel takes out are not restored. [`Oversize`] counts frames over a length limit.

use crate::{check, tap::VnetHeader};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, set_socket_send_buffer_size,
    set_socket_send_buffer_size_force,
};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, ReturnFlags, SocketFlags, SocketType,
    netdevice::name_to_index, recvmsg, socket_with,
};
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use zerocopy::IntoBytes;

/// Frames in one system call.
const BATCH: usize = 64;

/// A raw, non-blocking socket on one interface.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
}

impl PacketSocket {
    /// Bytes of frames that the socket queues; the kernel drops the rest.
    const QUEUE: usize = 32 << 20;

    /// Attaches to `interface` in the calling thread's namespace. Does not receive the frames that
    /// it sends. Needs CAP_NET_RAW and CAP_NET_ADMIN.
    pub fn open(interface: &str) -> io::Result<PacketSocket> {
        if cfg!(target_endian = "big") {
            let why = "the header is in the machine's byte order";
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        }
        let socket = raw_socket(Self::QUEUE)?;
        match set_socket_send_buffer_size_force(&socket, Self::QUEUE) {
            Err(Errno::PERM) => set_socket_send_buffer_size(&socket, Self::QUEUE)?,
            other => other?,
        }
        for option in
            [libc::PACKET_VNET_HDR, libc::PACKET_QDISC_BYPASS, libc::PACKET_IGNORE_OUTGOING]
        {
            enable(&socket, option)?;
        }
        bind(&socket, interface)?;
        Ok(PacketSocket { socket })
    }

    /// Sends frames, each with its deferred offloads. Returns the number that the kernel refused:
    /// its queue was full, or the header does not match the frame.
    ///
    /// # Errors
    /// If the interface is down or gone.
    pub fn send<'a>(
        &self,
        frames: impl IntoIterator<Item = (VnetHeader, &'a [u8])>,
    ) -> io::Result<u64> {
        let mut frames = frames.into_iter();
        let mut refused = 0;
        loop {
            let mut headers = [VnetHeader::default(); BATCH];
            let mut pieces: [[libc::iovec; 2]; BATCH] =
                [[libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 2]; BATCH];
            // SAFETY: all zeros is a valid `mmsghdr`: no name, no pieces, no control data.
            let mut messages: [libc::mmsghdr; BATCH] = unsafe { std::mem::zeroed() };
            let mut n = 0;
            for (header, frame) in frames.by_ref().take(BATCH) {
                headers[n] = header;
                pieces[n] = [
                    libc::iovec {
                        iov_base: headers[n].as_mut_bytes().as_mut_ptr().cast(),
                        iov_len: VnetHeader::LEN,
                    },
                    libc::iovec {
                        iov_base: frame.as_ptr().cast_mut().cast(),
                        iov_len: frame.len(),
                    },
                ];
                messages[n].msg_hdr.msg_iov = pieces[n].as_mut_ptr();
                messages[n].msg_hdr.msg_iovlen = 2;
                n += 1;
            }
            let mut done = 0;
            while done < n {
                let left = &mut messages[done..n];
                // SAFETY: sendmmsg reads the messages, their pieces, headers and frames, which all
                // live past the call, and writes the messages' lengths.
                let sent = unsafe {
                    libc::sendmmsg(
                        self.socket.as_raw_fd(),
                        left.as_mut_ptr(),
                        left.len() as libc::c_uint,
                        libc::MSG_DONTWAIT,
                    )
                };
                if sent > 0 {
                    done += sent as usize;
                    continue;
                }
                let e = io::Error::last_os_error();
                match e.raw_os_error() {
                    Some(libc::EINTR) => {}
                    Some(libc::ENOBUFS | libc::EAGAIN | libc::EINVAL | libc::EMSGSIZE) => {
                        (done, refused) = (done + 1, refused + 1);
                    }
                    _ => return Err(e),
                }
            }
            if n < BATCH {
                return Ok(refused);
            }
        }
    }

    /// Reads one frame. Returns its deferred offloads and its length in bytes.
    ///
    /// # Errors
    /// `WouldBlock` if there is none, `InvalidData` for one that does not fit `frame`; it is lost.
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<(VnetHeader, usize)> {
        let mut header = VnetHeader::default();
        let mut pieces = [IoSliceMut::new(header.as_mut_bytes()), IoSliceMut::new(frame)];
        let mut control = RecvAncillaryBuffer::default();
        let got = recvmsg(&self.socket, &mut pieces, &mut control, RecvFlags::DONTWAIT)?;
        if got.flags.contains(ReturnFlags::TRUNC) {
            return Err(truncated());
        }
        let len = got.bytes.checked_sub(VnetHeader::LEN).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((header, len))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Counts the frames longer than a limit that leave an interface.
///
/// A kernel filter sees each frame after segmentation, as the interface's driver gets it. Only the
/// first 64 bytes of a counted frame are copied.
#[derive(Debug)]
pub struct Oversize {
    socket: OwnedFd,
    count: u64,
}

impl Oversize {
    /// Counts frames of more than `limit` bytes, without FCS, that leave `interface` in the calling
    /// thread's namespace. Needs CAP_NET_RAW.
    pub fn open(interface: &str, limit: u32) -> io::Result<Oversize> {
        const NEXT: u8 = 0;
        const REFUSE: u32 = 0;
        const HEAD: u32 = 64;
        let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let outgoing = libc::PACKET_OUTGOING.into();
        let direction = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
        let mut program = [
            step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, direction),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, NEXT, 2, outgoing),
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 1, NEXT, limit),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, REFUSE),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, HEAD),
        ];
        let socket = raw_socket(0)?;
        attach(&socket, &mut program)?;
        bind(&socket, interface)?;
        Ok(Oversize { socket, count: 0 })
    }

    /// Returns the number of such frames so far.
    pub fn count(&mut self) -> io::Result<u64> {
        self.count += u64::from(statistics(&self.socket)?.0);
        Ok(self.count)
    }
}

/// Opens a packet socket that queues up to `queue` bytes and receives nothing before [`bind`].
pub(crate) fn raw_socket(queue: usize) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    if queue > 0 {
        match set_socket_recv_buffer_size_force(&socket, queue) {
            // The root of a user namespace is held to the machine's limit (socket(7)).
            Err(Errno::PERM) => set_socket_recv_buffer_size(&socket, queue)?,
            other => other?,
        }
    }
    Ok(socket)
}

pub(crate) fn bind(socket: &OwnedFd, interface: &str) -> io::Result<()> {
    let index = name_to_index(socket, interface).map_err(|e| {
        let e = io::Error::from(e);
        io::Error::new(e.kind(), format!("interface `{interface}`: {e}"))
    })?;
    // SAFETY: all zeros is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as libc::c_int;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: bind reads one `sockaddr_ll` of the length given.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })
}

pub(crate) fn enable(socket: &OwnedFd, option: libc::c_int) -> io::Result<()> {
    static ON: libc::c_int = 1;
    let (fd, len) = (socket.as_raw_fd(), size_of::<libc::c_int>() as libc::socklen_t);
    // SAFETY: setsockopt reads one int, which lives past the call.
    check(unsafe { libc::setsockopt(fd, libc::SOL_PACKET, option, (&raw const ON).cast(), len) })
}

/// Attaches a filter, which decides how much of each frame is queued.
pub(crate) fn attach(socket: &OwnedFd, program: &mut [libc::sock_filter]) -> io::Result<()> {
    let filter =
        libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    let (fd, len) = (socket.as_raw_fd(), size_of::<libc::sock_fprog>() as libc::socklen_t);
    let (level, option) = (libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    // SAFETY: setsockopt reads one `sock_fprog` and the program it points to; both live past the
    // call.
    check(unsafe { libc::setsockopt(fd, level, option, (&raw const filter).cast(), len) })
}

/// Returns the packets since the last call: those that the filter passed, and those of them that
/// the full queue dropped.
pub(crate) fn statistics(socket: &OwnedFd) -> io::Result<(u32, u32)> {
    // `struct tpacket_stats`. Reading clears both.
    let mut counts = [0u32; 2];
    let mut len = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: getsockopt writes at most `len` bytes to `counts`, and the length; both live past the
    // call.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            counts.as_mut_ptr().cast(),
            &raw mut len,
        )
    })?;
    Ok((counts[0], counts[1]))
}

/// Returns the error for a frame that does not fit its buffer.
pub(crate) fn truncated() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a frame longer than the buffer")
}
