//! The seam between a stack's requests and a device's offloads: what the device cannot do is done
//! here, as in Linux's `validate_xmit_skb`.

use crate::Tx;
use doorbell_hal::{Alignment, Host};
use doorbell_layout::offload::{Offload, Request};
use doorbell_packet::tunnel::Headers;
use doorbell_packet::{MAX_HEADER, Packet, Segmentation};

/// The way of a packet's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Nothing is left to the device: there was no request, or the checksum has been completed.
    Plain {
        /// The CPU has completed a checksum.
        summed: bool,
    },
    /// The device does all of it.
    Device(Option<Headers>),
    /// The large send has to be segmented.
    Segment,
    /// The checksum field is not in the head.
    Invalid,
}

/// Decides by the device's `can` what becomes of the requests of `p`, and completes a checksum that
/// the device cannot. Headers and the checksum field have to be in the head.
#[inline]
pub(crate) fn plan<H: Host>(
    h: &mut H,
    p: &mut Packet,
    can: impl FnOnce(&Request<'_>) -> Offload,
) -> Plan {
    if p.todo.checksum.is_none() && p.todo.gso.is_none() {
        return Plan::Plain { summed: false };
    }
    if p.todo.checksum.is_some_and(|c| c.field() + 2 > p.head.len as usize) {
        return Plan::Invalid;
    }
    let (start, len) = (p.head.start, p.head.len.min(MAX_HEADER as u32));
    let todo = p.todo;
    let headers = h.bytes(&p.head.buf, start..start + len, |b| Headers::of(b, &todo).ok());
    decide(h, p, headers, can)
}

/// Decides as [`plan`] does, by the first bytes of the packet, of whatever pieces. The device finds
/// a checksum field that is not in the head.
pub(crate) fn plan_of<H: Host>(
    h: &mut H,
    p: &mut Packet,
    bytes: &[u8],
    can: impl FnOnce(&Request<'_>) -> Offload,
) -> Plan {
    if p.todo.checksum.is_none() && p.todo.gso.is_none() {
        return Plan::Plain { summed: false };
    }
    let headers = Headers::of(bytes, &p.todo).ok();
    decide(h, p, headers, can)
}

fn decide<H: Host>(
    h: &mut H,
    p: &mut Packet,
    headers: Option<Headers>,
    can: impl FnOnce(&Request<'_>) -> Offload,
) -> Plan {
    let offload = can(&Request { headers, todo: &p.todo, len: p.len() });
    match (offload, p.todo.gso) {
        (Offload::All, _) | (Offload::ChecksumOnly, None) => Plan::Device(headers),
        (_, Some(_)) => Plan::Segment,
        (Offload::None, None) if p.complete_checksum(h).is_ok() => Plan::Plain { summed: true },
        (Offload::None, None) => Plan::Invalid,
    }
}

/// The large send whose segments wait for room in a ring.
///
/// A driver is stopped while there is one, so there is never a second. The buffer of the last
/// segment stands for the packet; those of the others are released when they are sent.
#[derive(Debug, Default)]
pub(crate) struct SegmentQueue(Option<Segmentation>);

/// A segment to be sent.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The segment, linear and complete.
    pub(crate) packet: Packet,
    /// It is its packet's last.
    pub(crate) last: bool,
}

impl SegmentQueue {
    #[inline(always)]
    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Takes a large send. Returns it if its headers do not match the request, or if a segment with
    /// its headers would be longer than `longest` bytes.
    #[cold]
    pub(crate) fn begin<H: Host>(
        &mut self,
        h: &mut H,
        p: Packet,
        longest: u32,
    ) -> Result<(), Packet> {
        if let Some(g) = p.todo.gso
            && let header = u32::from(g.header)
            && header + p.len().saturating_sub(header).min(g.size.into()) > longest
        {
            return Err(p);
        }
        self.0 = Some(Segmentation::new(h, p).map_err(|e| e.packet)?);
        Ok(())
    }

    /// Returns the next segment, in a buffer of its own; `None` when there is none. After the last
    /// the large send's buffers are released. Without memory for it the large send comes back, and
    /// the rest of it is not sent.
    #[cold]
    fn next<H: Host>(&mut self, h: &mut H) -> Result<Option<Segment>, Packet> {
        let Some(segmentation) = &mut self.0 else { return Ok(None) };
        match segmentation.next(h, Alignment::ANY) {
            Ok(Some(packet)) => {
                let last = segmentation.left() == 0;
                if last {
                    self.take().into_iter().for_each(|whole| whole.release(h));
                }
                Ok(Some(Segment { packet, last }))
            }
            Ok(None) | Err(_) => self.take().map_or(Ok(None), Err),
        }
    }

    /// Takes back the large send.
    pub(crate) fn take(&mut self) -> Option<Packet> {
        self.0.take().map(|s| s.into_packet())
    }
}

/// The place for another segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// There is some.
    Left,
    /// There is none until others are done. The queue is stopped, and the device knows what it has.
    Full,
    /// There will be none: the device is gone.
    Gone,
}

/// A queue that sends the segments of large sends, in a context of the driver's.
pub(crate) trait SendSegments<H: Host, C = ()> {
    /// Returns the large send that waits.
    fn segments(&mut self) -> &mut SegmentQueue;

    /// Returns whether another segment has room.
    fn room(&mut self, h: &mut H, c: &mut C) -> Room;

    /// Sends a segment, and counts it.
    fn send_segment(&mut self, h: &mut H, c: &mut C, segment: Segment, more: bool) -> Tx;

    /// Counts a large send of which the rest is not sent, and tells the device what it has.
    fn drop_rest(&mut self, h: &mut H, c: &mut C);

    /// Sends segments as far as there is room. Returns what stands for the large send if its last
    /// segment is not sent.
    #[cold]
    fn send_segments(&mut self, h: &mut H, c: &mut C, more: bool) -> Option<Packet> {
        while !self.segments().is_empty() {
            let next = match self.room(h, c) {
                Room::Left => self.segments().next(h),
                Room::Full => return None,
                Room::Gone => self.segments().take().map_or(Ok(None), Err),
            };
            match next {
                Ok(Some(segment)) => {
                    let last = segment.last;
                    match self.send_segment(h, c, segment, more || !last) {
                        Tx::Ok => {}
                        Tx::Busy(p) | Tx::Dropped(p) if last => return Some(p),
                        Tx::Busy(p) | Tx::Dropped(p) => p.release(h),
                    }
                }
                Ok(None) => {}
                Err(rest) => {
                    self.drop_rest(h, c);
                    return Some(rest);
                }
            }
        }
        None
    }
}
