//! Offloads done by the driver, on packets in host memory: the counterparts of `skb_linearize`,
//! `skb_checksum_help`, `skb_gso_segment` and `__vlan_hwaccel_push_inside`.
//!
//! The work is done and declared: [`CpuWork::Copy`] and [`CpuWork::Sum`] in bytes. A host lends one
//! buffer at a time, so bytes are copied through a block on the stack; declared is the one copy
//! that a CPU with access to both buffers would make.

use crate::checksum::{OutOfFrame, Running, Sum};
use crate::segment::{SegmentError, SegmentPlan};
use crate::{CsumPartial, Fragment, OffloadRequest, Packet, vlan};
use doorbell_hal::{Alignment, Buf, CpuWork, Host, OutOfMemory, fail_if};

/// Bytes of the block; even, so that sums of blocks add up.
const BLOCK: usize = 2048;

/// The longest headers [`Packet::segment`] takes, in bytes: 14 of Ethernet, two tags, 60 of IPv4,
/// 60 of TCP, and for IPv6 some extension headers, twice in a tunnel, with GENEVE's options.
pub const MAX_HEADER: usize = 512;

/// A packet, unchanged, for which there was no buffer.
#[derive(PartialEq, Eq, Debug)]
pub struct NoBuffer(pub Packet);

/// A large send that was not segmented, or not completely.
#[derive(PartialEq, Eq, Debug)]
pub struct Unsegmented {
    /// The packet, unchanged.
    pub packet: Packet,
    /// The reason.
    pub why: WhyUnsegmented,
    /// Number of segments passed out before.
    pub given: u32,
}

/// Why a large send was not segmented.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WhyUnsegmented {
    /// It has no segmentation request.
    #[error("not a large send")]
    NotLarge,
    /// Its headers are not all in the head, or are longer than [`MAX_HEADER`].
    #[error("unsupported headers")]
    Unsupported,
    /// Its headers or sizes do not match the request.
    #[error(transparent)]
    Invalid(#[from] SegmentError),
    /// There was no buffer for a segment.
    #[error("out of memory")]
    OutOfMemory,
}

impl Packet {
    /// Returns all fragments, head first, in the order of their bytes.
    pub fn pieces(&self) -> impl Iterator<Item = &Fragment> {
        core::iter::once(&self.head)
            .chain(self.more.iter().flat_map(|m| m.frags.iter().chain(&m.list)))
    }

    /// Copies the packet to one new buffer at `place`, and releases the old ones. A linear packet
    /// is returned unchanged, at no cost.
    pub fn linearise<H: Host>(self, h: &mut H, place: Alignment) -> Result<Packet, NoBuffer> {
        if self.is_linear() { Ok(self) } else { self.moved(h, place, 0) }
    }

    /// Copies the packet to a new buffer, `room` bytes from its start.
    fn moved<H: Host>(self, h: &mut H, place: Alignment, room: u32) -> Result<Packet, NoBuffer> {
        let len = self.len();
        let Ok(buf) = h.buffer(len + room, place) else {
            return Err(NoBuffer(self));
        };
        copy(h, &self, 0, len, |h, at, block| {
            h.bytes_mut(&buf, room + at..room + at + block.len() as u32, |to| {
                to.copy_from_slice(block);
            });
        });
        h.charge(CpuWork::Copy(len));
        let (todo, cookie) = (self.todo, self.cookie);
        self.release(h);
        Ok(Packet { head: Fragment { buf, start: room, len }, todo, more: None, cookie })
    }

    /// Completes the checksum, if that was requested. On an error the request stays.
    pub fn complete_checksum<H: Host>(&mut self, h: &mut H) -> Result<(), OutOfFrame> {
        let Some(partial) = self.todo.checksum else {
            return Ok(());
        };
        fail_if((self.head.len as usize) < partial.field() + 2, OutOfFrame)?;
        let mut run = Running::default();
        let mut skip = u32::from(partial.start);
        for p in self.pieces() {
            let from = skip.min(p.len);
            skip -= from;
            h.bytes(&p.buf, p.start + from..p.start + p.len, |b| run.add(b));
        }
        write_checksum(h, &self.head, partial, run.sum());
        h.charge(CpuWork::Sum(run.len() as u32));
        self.todo.checksum = None;
        Ok(())
    }

    /// Inserts the tag, if that was requested, and moves the offsets of the other requests. With
    /// room in front of the head twelve bytes move; without, the packet is copied to a new buffer
    /// at `place`.
    ///
    /// # Panics
    /// Panics if the head is shorter than two Ethernet addresses.
    pub fn insert_tag<H: Host>(mut self, h: &mut H, place: Alignment) -> Result<Packet, NoBuffer> {
        const ROOM: u32 = vlan::TAG as u32;
        let Some(tci) = self.todo.vlan else {
            return Ok(self);
        };
        if self.head.start < ROOM {
            self = self.moved(h, place, ROOM)?;
        }
        self.head.start -= ROOM;
        self.head.len += ROOM;
        let Fragment { buf, start, .. } = &self.head;
        h.bytes_mut(buf, *start..*start + ROOM + 12, |b| vlan::insert(b, tci));
        h.charge(CpuWork::Copy(12 + ROOM));
        self.todo.vlan = None;
        if let Some(c) = &mut self.todo.checksum {
            c.start = c.start.saturating_add(ROOM as u16);
        }
        if let Some(g) = &mut self.todo.gso {
            g.header = g.header.saturating_add(ROOM as u16);
        }
        if self.todo.inner_network > 0 {
            self.todo.inner_network = self.todo.inner_network.saturating_add(ROOM as u16);
        }
        Ok(self)
    }

    /// Segments a large send. Each segment, complete and linear in a buffer at `place`, is passed
    /// to `each` with the sender's mark and tag; then the buffers of the large send are released.
    /// Returns the number of segments.
    pub fn segment<H: Host>(
        self,
        h: &mut H,
        place: Alignment,
        mut each: impl FnMut(&mut H, Packet),
    ) -> Result<u32, Unsegmented> {
        let mut header = [0; MAX_HEADER];
        let (mut given, mut why) = (0, None);
        match self.plan(h, &mut header) {
            Err(e) => why = Some(e),
            Ok(mut cut) => {
                while given < cut.count() {
                    let Ok(piece) = self.next_segment(h, &mut cut, place) else {
                        why = Some(WhyUnsegmented::OutOfMemory);
                        break;
                    };
                    each(h, self.segment_of(piece));
                    given += 1;
                }
            }
        }
        match why {
            Some(why) => Err(Unsegmented { packet: self, why, given }),
            None => {
                self.release(h);
                Ok(given)
            }
        }
    }

    /// Copies the headers to `header`, and plans the segmentation.
    fn plan<'a, H: Host>(
        &self,
        h: &mut H,
        header: &'a mut [u8; MAX_HEADER],
    ) -> Result<SegmentPlan<'a>, WhyUnsegmented> {
        let gso = self.todo.gso.ok_or(WhyUnsegmented::NotLarge)?;
        let len = u32::from(gso.header);
        let header = match header.get_mut(..gso.header as usize) {
            Some(header) if len <= self.head.len => header,
            _ => return Err(WhyUnsegmented::Unsupported),
        };
        let start = self.head.start;
        h.bytes(&self.head.buf, start..start + len, |b| header.copy_from_slice(b));
        SegmentPlan::of(header, self.len() - len, &self.todo).map_err(WhyUnsegmented::Invalid)
    }

    /// Returns a segment of the packet in `head`.
    const fn segment_of(&self, head: Fragment) -> Packet {
        let todo = OffloadRequest { vlan: self.todo.vlan, ..OffloadRequest::NONE };
        Packet { head, todo, more: None, cookie: self.cookie }
    }

    fn next_segment<H: Host>(
        &self,
        h: &mut H,
        cut: &mut SegmentPlan<'_>,
        place: Alignment,
    ) -> Result<Fragment, OutOfMemory> {
        let mut header = [0; MAX_HEADER];
        let len = cut.header().len();
        let payload = cut.next_payload();
        let buf: Buf = h.buffer(len as u32 + payload.end - payload.start, place)?;
        let segment = cut.next_header(&mut header).expect("a segment that was counted");
        let mut run = Running::default();
        copy(h, self, len as u32 + payload.start, payload.end - payload.start, |h, at, block| {
            let at = len as u32 + at;
            let sum = h.bytes_mut(&buf, at..at + block.len() as u32, |to| Sum::copy(to, block));
            run.add_sum(sum, block.len());
        });
        segment.finish(&mut header, run.sum());
        h.bytes_mut(&buf, 0..len as u32, |to| to.copy_from_slice(&header[..len]));
        h.charge(CpuWork::Copy(buf.len()));
        h.charge(CpuWork::Sum(buf.len() - u32::from(segment.partial.start)));
        if let Some((outer, _)) = segment.outer {
            // The payload's sum is there already.
            h.charge(CpuWork::Sum(len as u32 - u32::from(outer.start)));
        }
        Ok(Fragment::whole(buf))
    }
}

/// A large send that is segmented as its receiver has room for segments.
#[derive(PartialEq, Eq, Debug)]
pub struct Segmentation {
    packet: Packet,
    given: u32,
    count: u32,
}

impl Segmentation {
    /// Begins the segmentation of `packet`.
    pub fn new<H: Host>(h: &mut H, packet: Packet) -> Result<Segmentation, Unsegmented> {
        match packet.plan(h, &mut [0; MAX_HEADER]).map(|plan| plan.count()) {
            Ok(count) => Ok(Segmentation { packet, given: 0, count }),
            Err(why) => Err(Unsegmented { packet, why, given: 0 }),
        }
    }

    /// Returns the number of segments that are left.
    pub const fn left(&self) -> u32 {
        self.count - self.given
    }

    /// Returns the next segment, complete and linear in a buffer at `place`, with the sender's mark
    /// and tag; `None` after the last.
    pub fn next<H: Host>(
        &mut self,
        h: &mut H,
        place: Alignment,
    ) -> Result<Option<Packet>, OutOfMemory> {
        let mut header = [0; MAX_HEADER];
        let Some(mut cut) =
            self.packet.plan(h, &mut header).ok().filter(|_| self.given < self.count)
        else {
            return Ok(None);
        };
        cut.skip(self.given);
        let head = self.packet.next_segment(h, &mut cut, place)?;
        self.given += 1;
        Ok(Some(self.packet.segment_of(head)))
    }

    /// Returns the large send, unchanged.
    pub fn into_packet(self) -> Packet {
        self.packet
    }
}

/// Stores the finished checksum in the head.
fn write_checksum<H: Host>(h: &mut H, head: &Fragment, partial: CsumPartial, sum: Sum) {
    let check = partial.finish(sum).to_be_bytes();
    let at = head.start + partial.field() as u32;
    h.bytes_mut(&head.buf, at..at + 2, |b| b.copy_from_slice(&check));
}

/// Passes `len` bytes of the packet, from `at` on, to `f` block by block, each with its offset from
/// `at`.
fn copy<H: Host>(h: &mut H, p: &Packet, at: u32, len: u32, mut f: impl FnMut(&mut H, u32, &[u8])) {
    let mut block = [0; BLOCK];
    let (mut skip, mut done) = (at, 0);
    for piece in p.pieces() {
        let mut at = skip.min(piece.len);
        skip -= at;
        while at < piece.len && done < len {
            let n = (piece.len - at).min(BLOCK as u32).min(len - done);
            let (block, start) = (&mut block[..n as usize], piece.start + at);
            h.bytes(&piece.buf, start..start + n, |b| block.copy_from_slice(b));
            f(h, done, block);
            at += n;
            done += n;
        }
    }
}

#[cfg(test)]
mod tests;
