//! A TAP device whose kernel takes and gives large sends.
//!
//! Between the guest's device and here there are frames, as on a wire, and each is in the
//! ledger. Between here and the kernel one system call for each would take longer than all
//! the rest. So what a kernel's receive path would merge ([`Merge`], the rules of GRO) is merged
//! before it is handed over, and a large send of the kernel's is cut here instead of there.
//! Frames whose checksums do not hold are handed over as they are.

use crate::vnet::header;
use doorbell_host_io::tap::{Tap, VnetHeader, offload};
use doorbell_packet::headers::Layers;
use doorbell_packet::merge::Merge;
use doorbell_packet::segment::Segments;
use doorbell_packet::{CsumPartial, Gso, GsoKind};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes of frames that are kept before they are handed over, whatever comes.
const BATCH: usize = 256 << 10;
/// Anything without BIG TCP.
const LARGEST: usize = 65_550;

/// A TAP device, with frames on their way in either direction.
#[derive(Debug)]
pub(super) struct Kernel {
    tap: Tap,
    out: Frames,
    into: Frames,
    whole: Box<[u8]>,
}

/// Frames, one behind another.
#[derive(Debug, Default)]
struct Frames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// How many have been taken out.
    taken: usize,
}

impl Frames {
    fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
    }

    fn get(&self, n: usize) -> Option<&[u8]> {
        let end = *self.ends.get(n)?;
        let start = n.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.taken = 0;
    }
}

impl Kernel {
    pub(super) fn open(name: &str) -> io::Result<Kernel> {
        let tap =
            Tap::open(name, offload::CSUM | offload::TSO4 | offload::TSO6 | offload::TSO_ECN)?;
        tap.set_nonblocking(true)?;
        Ok(Kernel {
            tap,
            out: Frames::default(),
            into: Frames::default(),
            whole: vec![0; LARGEST].into(),
        })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }

    /// Throws away what has come.
    pub(super) fn forget(&mut self, most: usize) {
        self.into.clear();
        for _ in 0..most {
            if self.tap.receive(&mut self.whole).is_err() {
                break;
            }
        }
    }

    /// Takes a frame for the kernel; how many frames could not be handed over, of this and earlier
    /// ones.
    pub(super) fn send(&mut self, frame: &[u8]) -> u64 {
        self.out.push(frame);
        if self.out.bytes.len() < BATCH { 0 } else { self.flush() }
    }

    /// Hands over what has been taken; how many frames the kernel did not want.
    pub(super) fn flush(&mut self) -> u64 {
        let Kernel { tap, out, whole, .. } = self;
        let (mut lost, mut n) = (0, 0);
        while let Some(first) = out.get(n) {
            let mut merge = if is_tcp(first) { Merge::start(whole, first) } else { None };
            let mut count = 1;
            if let Some(m) = &mut merge {
                while out.get(n + count).is_some_and(|next| m.add(next)) {
                    count += 1;
                }
            }
            let sent = match merge {
                Some(m) if count > 1 => {
                    // What CWR was set on is the first: only that one takes others with it.
                    let (len, todo) = m.finish();
                    tap.send(&header(&todo, &whole[..len]), &whole[..len])
                }
                _ => tap.send(&VnetHeader::default(), first),
            };
            lost += if sent.is_ok() { 0 } else { count as u64 };
            n += count;
        }
        out.clear();
        lost
    }

    /// Whether a frame is there without asking the kernel.
    pub(super) fn has_more(&self) -> bool {
        self.into.taken < self.into.ends.len()
    }

    /// The next frame from the kernel into `frame`, complete; its length.
    ///
    /// # Errors
    /// Those of reading; a large send that cannot be cut is `InvalidData`.
    pub(super) fn receive(&mut self, frame: &mut [u8]) -> io::Result<usize> {
        if !self.has_more() {
            let (header, len) = self.tap.receive(&mut self.whole)?;
            self.into.clear();
            let bytes = &mut self.whole[..len];
            let uncut = || io::Error::from(io::ErrorKind::InvalidData);
            if header.gso_type != VnetHeader::GSO_NONE {
                cut(&header, bytes, &mut self.into).ok_or_else(uncut)?;
            } else {
                if header.flags & VnetHeader::NEEDS_CSUM != 0 {
                    let partial = CsumPartial {
                        start: header.csum_start.get(),
                        offset: header.csum_offset.get(),
                    };
                    partial.complete(bytes).map_err(|_| uncut())?;
                }
                self.into.push(bytes);
            }
        }
        let Some(next) = self.into.get(self.into.taken) else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let n = next.len().min(frame.len());
        frame[..n].copy_from_slice(&next[..n]);
        self.into.taken += 1;
        Ok(n)
    }
}

/// Datagrams are left alone: not every kernel takes large sends of those from a TAP device.
fn is_tcp(frame: &[u8]) -> bool {
    match frame {
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, ip @ ..] => ip.get(9) == Some(&6),
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, ip @ ..] => ip.get(6) == Some(&6),
        _ => false,
    }
}

/// Cuts a large send of the kernel's.
fn cut(header: &VnetHeader, whole: &[u8], into: &mut Frames) -> Option<()> {
    let kind = match header.gso_type & !VnetHeader::GSO_ECN {
        VnetHeader::GSO_TCPV4 => GsoKind::Tcp4,
        VnetHeader::GSO_TCPV6 => GsoKind::Tcp6,
        _ => return None,
    };
    let gso = Gso { kind, size: header.gso_size.get(), header: Layers::of(whole).ok()?.end };
    let mut segments = Segments::new(whole, gso).ok()?;
    let mut one = vec![0; segments.plan().longest()];
    while let Some(n) = segments.next_into(&mut one) {
        into.push(&one[..n]);
    }
    Some(())
}

#[cfg(test)]
mod tests;
