//! A raw socket on an interface, with virtio-net headers: what a program attaches with to an
//! interface whose other end somebody else holds.
//!
//! Sources: packet(7), linux/if_packet.h, net/packet/af_packet.c.
//!
//! [`Tap`](crate::tap::Tap) holds the program's end of a TAP device. Where a switch holds that end,
//! the device is an interface of the kernel, and this socket is its stack: what is sent here the
//! switch reads, header and all, and what the switch writes is received here. Frames go out
//! many in one system call (sendmmsg(2)), past the interface's qdisc, into the device's own queue.
//!
//! The header is in the machine's byte order, which [`VnetHeader`] has to agree with: little. A
//! VLAN tag that the kernel takes out of a frame is not put back.
//!
//! [`Oversize`] counts the frames that leave an interface and are longer than they may be, in
//! the kernel, so that it can look at all of them.

use crate::tap::VnetHeader;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use zerocopy::IntoBytes;

/// Not in the libc crate for every target; linux/if_packet.h.
const PACKET_STATISTICS: libc::c_int = 6;
const PACKET_VNET_HDR: libc::c_int = 15;
const PACKET_QDISC_BYPASS: libc::c_int = 20;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
/// A frame's direction, as a filter sees it.
const PACKET_OUTGOING: u32 = 4;

/// Frames in one system call.
const BATCH: usize = 64;

/// A raw socket on one interface; it never waits.
#[derive(Debug)]
pub struct PacketSocket {
    socket: OwnedFd,
}

impl PacketSocket {
    /// Bytes of frames that the socket holds for us; the kernel drops what is more.
    const QUEUE: libc::c_int = 32 << 20;

    /// Attaches to `interface`, in the calling thread's namespace. Frames sent here are not
    /// received again. Needs CAP_NET_RAW and CAP_NET_ADMIN.
    pub fn open(interface: &str) -> io::Result<PacketSocket> {
        if cfg!(target_endian = "big") {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the header is in the machine's byte order",
            ));
        }
        let socket = raw_socket()?;
        set(&socket, libc::SOL_PACKET, PACKET_VNET_HDR, 1)?;
        set(&socket, libc::SOL_PACKET, PACKET_QDISC_BYPASS, 1)?;
        set(&socket, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, Self::QUEUE)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, Self::QUEUE)?;
        bind(&socket, interface)?;
        Ok(PacketSocket { socket })
    }

    /// Sends frames, each with what is left to do to it. Says how many the kernel did not take: its
    /// queue was full, or header and frame do not agree.
    ///
    /// # Errors
    /// When the interface is down or gone.
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
                // SAFETY: sendmmsg reads the messages, their pieces and what these point to
                // (headers and frames, which all live past the call), and writes
                // the messages' lengths.
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

    /// Reads one frame, and what is left to do to it. Returns its length.
    ///
    /// # Errors
    /// `WouldBlock` when there is none; `InvalidData` for one that does not fit `frame`, which is
    /// lost.
    pub fn receive(&self, frame: &mut [u8]) -> io::Result<(VnetHeader, usize)> {
        let mut header = VnetHeader::default();
        let mut pieces = [
            libc::iovec {
                iov_base: header.as_mut_bytes().as_mut_ptr().cast(),
                iov_len: VnetHeader::LEN,
            },
            libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() },
        ];
        // SAFETY: all zeros is a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = pieces.as_mut_ptr();
        message.msg_iovlen = 2;
        // SAFETY: recvmsg writes to `header` and `frame` within the lengths given; both live past
        // the call.
        let n =
            unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        if message.msg_flags & libc::MSG_TRUNC != 0 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a frame longer than the buffer",
            ));
        }
        let len = (n as usize).checked_sub(VnetHeader::LEN).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((header, len))
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Counts frames that leave an interface and are longer than a limit.
///
/// The kernel's own filter looks at each after segmentation, as the interface's driver gets it, and
/// keeps a count; nothing is copied here but the first bytes of what is too long.
#[derive(Debug)]
pub struct Oversize {
    socket: OwnedFd,
    count: u64,
}

impl Oversize {
    /// Looks at what leaves `interface`, in the calling thread's namespace, in frames of more than
    /// `limit` bytes, without FCS. Needs CAP_NET_RAW.
    pub fn open(interface: &str, limit: u32) -> io::Result<Oversize> {
        const NEXT: u8 = 0;
        const REFUSE: u32 = 0;
        const HEAD: u32 = 64;
        let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let direction = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE) as u32;
        let mut program = [
            step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, direction),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, NEXT, 2, PACKET_OUTGOING),
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 1, NEXT, limit),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, REFUSE),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, HEAD),
        ];
        let socket = raw_socket()?;
        let filter =
            libc::sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
        // SAFETY: setsockopt reads one `sock_fprog` and the program it points to; both live past
        // the call.
        check(unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_ATTACH_FILTER,
                (&raw const filter).cast(),
                size_of::<libc::sock_fprog>() as libc::socklen_t,
            )
        })?;
        bind(&socket, interface)?;
        Ok(Oversize { socket, count: 0 })
    }

    /// How many there were, so far.
    pub fn count(&mut self) -> io::Result<u64> {
        // `struct tpacket_stats`: packets that the filter let pass, and those of them that the
        // queue had no room for; the first has both. Reading them clears them.
        let mut counts = [0u32; 2];
        let mut len = size_of_val(&counts) as libc::socklen_t;
        // SAFETY: getsockopt writes at most `len` bytes to `counts`, and the length; both live past
        // the call.
        check(unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                PACKET_STATISTICS,
                counts.as_mut_ptr().cast(),
                &raw mut len,
            )
        })?;
        self.count += u64::from(counts[0]);
        Ok(self.count)
    }
}

/// A packet socket that receives nothing before it is bound.
fn raw_socket() -> io::Result<OwnedFd> {
    // SAFETY: socket takes plain values; the descriptor it returns is ours alone.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        check(fd)?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// All protocols, on one interface.
fn bind(socket: &OwnedFd, interface: &str) -> io::Result<()> {
    let name = CString::new(interface)?;
    // SAFETY: the name is a C string that lives past the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    if index == 0 {
        let e = io::Error::last_os_error();
        return Err(io::Error::new(e.kind(), format!("interface `{interface}`: {e}")));
    }
    // SAFETY: all zeros is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as libc::c_int;
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: bind reads one `sockaddr_ll` of the length given.
    check(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) })
}

fn set(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: setsockopt reads one int, which lives past the call.
    check(unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), len)
    })
}

fn check(status: libc::c_int) -> io::Result<()> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
