//! A TAP device with large sends in both directions.
//!
//! The guest's device has single frames, as on a wire. One system call per frame would dominate the
//! run time, so frames are merged by the rules of GRO ([`Merge`]) before they go to the kernel, and
//! large sends of the kernel are segmented here. Frames with wrong checksums pass unchanged.

use doorbell_host_io::offload::header;
use doorbell_host_io::tap::{Tap, VnetHeader, offload};
use doorbell_packet::{
    CsumPartial, Gso, GsoKind, headers::Layers, merge::Merge, segment::Segments,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
#[cfg(any(test, fuzzing))]
use zerocopy::FromBytes;

/// The most bytes of frames that are kept before they go to the kernel.
const BATCH: usize = 256 << 10;
/// The longest large send without BIG TCP.
const LARGEST: usize = 65_550;

/// The most segments that are cut at a time: a large send of the kernel may have 65,000 of them.
const SEGMENTS: usize = 64;

/// A TAP device, with frames under way in both directions.
#[derive(Debug)]
pub(super) struct Kernel {
    tap: Tap,
    out: Frames,
    into: Frames,
    /// The last frame or large send of the kernel, and the rest that is to be cut of it.
    received: Box<[u8]>,
    large: Option<Large>,
    /// Frames that are merged.
    whole: Box<[u8]>,
}

/// A large send of the kernel.
#[derive(Clone, Copy, Debug)]
struct Large {
    gso: Gso,
    len: usize,
    /// Segments that have been cut.
    cut: u32,
}

impl Large {
    /// Takes a large send. Returns `None` if the header contradicts the bytes.
    fn new(header: &VnetHeader, whole: &[u8]) -> Option<Large> {
        let kind = match header.gso_type & !VnetHeader::GSO_ECN {
            VnetHeader::GSO_TCPV4 => GsoKind::Tcp4,
            VnetHeader::GSO_TCPV6 => GsoKind::Tcp6,
            _ => return None,
        };
        let gso = Gso { kind, size: header.gso_size.get(), header: Layers::of(whole).ok()?.end };
        Segments::new(whole, gso).ok()?;
        Some(Large { gso, len: whole.len(), cut: 0 })
    }

    /// Appends the next segments. Returns true if more are left.
    fn cut(&mut self, received: &[u8], into: &mut Frames) -> bool {
        let Ok(mut segments) = Segments::new(&received[..self.len], self.gso) else { return false };
        segments.skip(self.cut);
        let mut one = vec![0; segments.plan().longest()];
        for _ in 0..SEGMENTS {
            let Some(n) = segments.next_into(&mut one) else { return false };
            into.push(&one[..n]);
            self.cut += 1;
        }
        self.cut < segments.plan().count()
    }
}

#[derive(Debug, Default)]
struct Frames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
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
        let [received, whole] = [(); 2].map(|()| vec![0; LARGEST].into());
        let (out, into) = (Frames::default(), Frames::default());
        Ok(Kernel { tap, out, into, received, large: None, whole })
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.tap.as_fd()
    }

    /// Drops up to `most` received frames.
    pub(super) fn forget(&mut self, most: usize) {
        self.into.clear();
        self.large = None;
        for _ in 0..most {
            if self.tap.receive(&mut self.whole).is_err() {
                break;
            }
        }
    }

    /// Queues a frame for the kernel. Returns the number of frames that the kernel refused.
    pub(super) fn send(&mut self, frame: &[u8]) -> u64 {
        self.out.push(frame);
        if self.out.bytes.len() < BATCH { 0 } else { self.flush() }
    }

    /// Passes the queued frames to the kernel. Returns the number that it refused.
    pub(super) fn flush(&mut self) -> u64 {
        let mut lost = 0;
        merged(&self.out, &mut self.whole, |header, frame, count| {
            lost += if self.tap.send(header, frame).is_ok() { 0 } else { count as u64 };
        });
        self.out.clear();
        lost
    }

    /// Returns true if a frame is queued here.
    pub(super) fn has_more(&self) -> bool {
        self.into.taken < self.into.ends.len() || self.large.is_some()
    }

    /// Copies the next frame from the kernel into `frame`. Returns its length. Fails with
    /// `InvalidData` if a large send cannot be segmented.
    pub(super) fn receive(&mut self, frame: &mut [u8]) -> io::Result<usize> {
        if self.into.taken == self.into.ends.len() {
            self.into.clear();
            if self.large.is_none() {
                let (header, len) = self.tap.receive(&mut self.received)?;
                let taken = take(&header, &mut self.received[..len], &mut self.into);
                self.large = taken.ok_or(io::ErrorKind::InvalidData)?;
            }
            let (received, into) = (&self.received, &mut self.into);
            self.large.take_if(|large| !large.cut(received, into));
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

/// Returns true for TCP. Not every kernel takes large sends of UDP from a TAP device.
fn is_tcp(frame: &[u8]) -> bool {
    match frame {
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x08, 0x00, ip @ ..] => ip.get(9) == Some(&6),
        [_, _, _, _, _, _, _, _, _, _, _, _, 0x86, 0xdd, ip @ ..] => ip.get(6) == Some(&6),
        _ => false,
    }
}

/// Passes frames to `send`, those that GRO would merge as one, each with the number of frames that
/// it is made of.
fn merged(all: &Frames, whole: &mut [u8], mut send: impl FnMut(&VnetHeader, &[u8], usize)) {
    let mut n = 0;
    while let Some(first) = all.get(n) {
        let mut merge = if is_tcp(first) { Merge::start(whole, first) } else { None };
        let mut count = 1;
        if let Some(m) = &mut merge {
            while all.get(n + count).is_some_and(|next| m.add(next)) {
                count += 1;
            }
        }
        match merge {
            Some(m) if count > 1 => {
                // CWR is set on the first frame at most: only such a frame is merged.
                let (len, todo) = m.finish();
                send(&header(&todo, &whole[..len]), &whole[..len], count);
            }
            _ => send(&VnetHeader::default(), first, 1),
        }
        n += count;
    }
}

/// Takes what the kernel sends: returns a large send, or appends a frame with its checksum. Returns
/// `None` if the header contradicts the bytes.
fn take(header: &VnetHeader, bytes: &mut [u8], into: &mut Frames) -> Option<Option<Large>> {
    if header.gso_type != VnetHeader::GSO_NONE {
        return Large::new(header, bytes).map(Some);
    }
    if header.flags & VnetHeader::NEEDS_CSUM != 0 {
        let (start, offset) = (header.csum_start.get(), header.csum_offset.get());
        CsumPartial { start, offset }.complete(bytes).ok()?;
    }
    into.push(bytes);
    Some(None)
}

/// Appends all frames of what the kernel sends. Returns `None` if the header contradicts the bytes.
#[cfg(any(test, fuzzing))]
fn frames(header: &VnetHeader, bytes: &mut [u8], into: &mut Frames) -> Option<()> {
    if let Some(mut large) = take(header, bytes, into)? {
        while large.cut(bytes, into) {}
    }
    Some(())
}

/// Cuts `bytes` as a frame of the kernel behind a header, merges the frames again, and cuts once
/// more. Returns the numbers of frames, and of sends that they became.
///
/// # Panics
/// Panics if a byte is lost or added on the way.
#[cfg(any(test, fuzzing))]
pub(crate) fn there_and_back(bytes: &[u8]) -> (usize, usize) {
    let Some((head, rest)) = bytes.split_first_chunk::<{ VnetHeader::LEN }>() else {
        return (0, 0);
    };
    let header = VnetHeader::read_from_bytes(head).expect("as many bytes");
    let mut first = Frames::default();
    if rest.is_empty() || frames(&header, &mut rest.to_vec(), &mut first).is_none() {
        return (0, 0);
    }
    let lengths = |f: &Frames| (0..).map_while(|n| f.get(n).map(<[u8]>::len)).collect::<Vec<_>>();
    let (mut again, mut sends) = (Frames::default(), 0);
    merged(&first, &mut vec![0; LARGEST], |header, frame, count| {
        let before = again.ends.len();
        let there = frames(header, &mut frame.to_vec(), &mut again);
        assert!(there.is_some() && again.ends.len() - before == count, "{header:?} of {count}");
        sends += 1;
    });
    assert_eq!(lengths(&again), lengths(&first));
    (first.ends.len(), sends)
}

#[cfg(test)]
mod tests;
