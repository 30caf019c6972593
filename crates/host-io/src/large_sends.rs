//! Counts the segments of large sends that cross an interface.
//!
//! The kernel's counters of an interface take a large send for one packet. A packet socket sees its
//! headers, and the size of its segments in the virtio-net header before them. A filter passes the
//! frames that can be large sends alone, and of those the headers, so that the queue of an ordinary
//! user holds many of them.
//!
//! Sources: packet(7), net/packet/af_packet.c, include/linux/virtio_net.h.

use crate::packet_socket::{attach, bind, enable, raw_socket, statistics};
use crate::tap::VnetHeader;
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use zerocopy::FromBytes;

/// Bytes of a frame that are looked at: all headers.
const HEAD: usize = 192;
/// Bytes that are queued, where the system allows so many.
const QUEUE: usize = 32 << 20;
/// The longest frame that is taken for no large send: a whole one at an MTU of 576, the least of
/// IPv4. A large send has more than one segment of the MTU.
const SHORT: u32 = 14 + 576;

/// A counter of the segments in large sends, in both directions.
#[derive(Debug)]
pub struct LargeSends {
    socket: OwnedFd,
    further: u64,
}

impl LargeSends {
    /// Counts on `interface` in the calling thread's namespace. Needs CAP_NET_RAW.
    pub fn open(interface: &str) -> io::Result<LargeSends> {
        let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
        let mut program = [
            step(libc::BPF_LD | libc::BPF_W | libc::BPF_LEN, 0, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 1, 0, SHORT),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
            step(libc::BPF_RET | libc::BPF_K, 0, 0, HEAD as u32),
        ];
        let socket = raw_socket(QUEUE)?;
        enable(&socket, libc::PACKET_VNET_HDR)?;
        attach(&socket, &mut program)?;
        bind(&socket, interface)?;
        Ok(LargeSends { socket, further: 0 })
    }

    /// Reads what is queued. Each read makes room.
    pub fn take(&mut self) -> io::Result<()> {
        let mut bytes = [0; VnetHeader::LEN + HEAD];
        loop {
            match recv(&self.socket, &mut bytes, RecvFlags::DONTWAIT) {
                Ok((n, _)) => self.further += further(&bytes[..n]),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Returns the segments so far, without the first of each large send: what the interface's
    /// packets lack to be frames.
    ///
    /// # Errors
    /// The kernel had no room for some of them.
    pub fn further(&mut self) -> io::Result<u64> {
        self.take()?;
        match statistics(&self.socket)?.1 {
            0 => Ok(self.further),
            lost => Err(io::Error::other(format!("{lost} large frames came too fast to count"))),
        }
    }
}

impl AsFd for LargeSends {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Returns the segments behind the first of a large send, of which these are the headers with the
/// virtio-net header in front. Other frames have none.
fn further(bytes: &[u8]) -> u64 {
    let Ok((vnet, frame)) = VnetHeader::read_from_prefix(bytes) else { return 0 };
    let size = u64::from(vnet.gso_size.get());
    if vnet.gso_type == VnetHeader::GSO_NONE || size == 0 {
        return 0;
    }
    payload(frame).map_or(0, |n| n.div_ceil(size).saturating_sub(1))
}

/// Returns the bytes behind the headers, as the IP header says.
fn payload(frame: &[u8]) -> Option<u64> {
    let at = |n: usize| frame.get(n).copied();
    let word = |n: usize| Some(u64::from(u16::from_be_bytes([at(n)?, at(n + 1)?])));
    let mut ip = 12;
    while matches!(word(ip)?, 0x8100 | 0x88a8) {
        ip += 4;
    }
    ip += 2;
    let (transport, protocol, packet) = match at(ip)? >> 4 {
        4 => (ip + usize::from(at(ip)? & 15) * 4, at(ip + 9)?, word(ip + 2)?),
        6 => (ip + 40, at(ip + 6)?, 40 + word(ip + 4)?),
        _ => return None,
    };
    let header = match protocol {
        6 => usize::from(at(transport + 12)? >> 4) * 4,
        17 => 8,
        _ => return None,
    };
    packet.checked_sub((transport + header - ip) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    /// The headers of a large send over IPv4 of `data` bytes behind 32 bytes of TCP header.
    fn tcp4(gso_type: u8, gso_size: u16, data: u16) -> Vec<u8> {
        let vnet = VnetHeader { gso_type, gso_size: gso_size.into(), ..Default::default() };
        let mut bytes = vnet.as_bytes().to_vec();
        bytes.extend([0; 12]);
        bytes.extend([0x08, 0x00, 0x45, 0]);
        bytes.extend((20 + 32 + data).to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, 6]);
        bytes.extend([0; 10]);
        bytes.extend([0; 12]);
        bytes.push(0x80);
        bytes.extend([0; 19]);
        bytes
    }

    #[test]
    fn the_last_segment_may_be_short() {
        let of = |data| further(&tcp4(VnetHeader::GSO_TCPV4, 1448, data));
        assert_eq!([of(1448), of(1449), of(2896), of(2897)], [0, 1, 1, 2]);
    }

    #[test]
    fn a_long_frame_is_no_large_send() {
        assert_eq!(further(&tcp4(VnetHeader::GSO_NONE, 0, 8948)), 0);
    }

    #[test]
    fn congestion_marks_are_no_other_kind() {
        assert_eq!(further(&tcp4(VnetHeader::GSO_TCPV4 | VnetHeader::GSO_ECN, 1000, 5000)), 4);
    }

    #[test]
    fn bytes_that_are_cut_off_count_nothing() {
        let whole = tcp4(VnetHeader::GSO_TCPV4, 1448, 9000);
        for n in 0..VnetHeader::LEN + 14 + 20 + 13 {
            assert_eq!(further(&whole[..n]), 0, "{n}");
        }
    }
}
