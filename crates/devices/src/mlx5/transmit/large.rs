//! Large sends: cut into segments, each read, finished and sent before the next.
//!
//! No lower bound of the MSS is documented, so one WQE may be 2^18 frames. When the port has had
//! its turn, the send goes on in the next one.

use super::{Arrival, Execution, Failed, Outcome, segment};
use crate::common::bad;
use doorbell_hal::{Port, Time, fail_if};
use doorbell_layout::mlx5::{EthSeg, INLINE_SEG, syndrome};
use doorbell_packet::headers::{Layers, verify};
use doorbell_packet::{Gso, checksum::Sum, segment::SegmentPlan};

/// A place in the data segments of a WQE, while payload is being gathered.
#[derive(Clone, Copy)]
struct Gather {
    segment: u32,
    offset: u32,
}

impl<P: Port> Execution<'_, P> {
    /// Header length, first data segment and payload length of a large send.
    fn large(&self, at: usize, ds: u32) -> Result<(EthSeg, usize, u32, u64), Failed> {
        let eth = segment::<EthSeg>(&self.sq.wqes[at..], 1)
            .filter(|_| ds > 1)
            .ok_or(syndrome::LOCAL_QP_OP)?;
        let (header, first) = self.inline_header(&eth);
        fail_if(first > ds, syndrome::LOCAL_QP_OP)?;
        let mut payload = 0u64;
        for seg in first..ds {
            let d = self.data(at, seg).ok_or(syndrome::LOCAL_QP_OP)?;
            let n = d.byte_count.get();
            fail_if(n == 0 || n & INLINE_SEG != 0, syndrome::LOCAL_LENGTH)?;
            payload += u64::from(n);
        }
        Ok((eth, header, first, payload))
    }

    /// Returns the segments of a large send that were not executed yet.
    #[cold]
    pub(super) fn segments_left(&self, at: usize, ds: u32) -> u64 {
        let all = match self.large(at, ds) {
            Ok((eth, _, _, payload)) if eth.mss.get() > 0 => {
                payload.div_ceil(u64::from(eth.mss.get())).max(1)
            }
            _ => 1,
        };
        all.saturating_sub(self.sq.segment.into())
    }

    pub(super) fn large_send(&mut self, t: Time, at: usize, ds: u32) -> Outcome {
        self.try_large_send(t, at, ds)
            .unwrap_or_else(|why| Outcome::Failed(why, self.segments_left(at, ds)))
    }

    /// Reads, finishes and sends one segment after another; each starts when the
    /// pipe can take it.
    fn try_large_send(&mut self, t: Time, at: usize, ds: u32) -> Result<Outcome, Failed> {
        let (eth, header, first, payload) = self.large(at, ds)?;
        let mss = eth.mss.get();
        if payload > 1 << self.cfg.caps.log_max_lso
            || header + usize::from(mss) > self.pipe.max_frame
        {
            return Err(syndrome::LOCAL_LENGTH);
        }
        self.copy_inline(at, &eth, header);
        let mut copy = [0u8; 1024];
        let headers = copy.get_mut(..header).ok_or(syndrome::LOCAL_LENGTH)?;
        headers.copy_from_slice(&self.pipe.frame[..header]);
        // What kind it is the parser says; a send that it cannot cut fails.
        let kind =
            Layers::of(headers).ok().and_then(|l| l.gso_kind()).ok_or(syndrome::LOCAL_QP_OP)?;
        let gso = Gso { kind, size: mss, header: header as u16 };
        let mut cut =
            SegmentPlan::new(headers, payload as u32, gso).map_err(|_| syndrome::LOCAL_LENGTH)?;
        cut.skip(self.sq.segment);
        let mut from = self.place(at, first, cut.next_payload().start);
        let mut start = t;
        let mut done = t;
        while let Some(piece) = cut.next_header(&mut self.pipe.frame) {
            start = start.max(self.pipe.ready());
            self.pipe.start(start);
            let len = (piece.payload.end - piece.payload.start) as usize;
            let whole_at = self.gather(start, at, &mut from, header, len)?;
            let (head, rest) = self.pipe.frame.split_at_mut(header);
            piece.finish(head, Sum::of(&rest[..len]));
            self.counters.wire_bad_checksums += bad(verify(&self.pipe.frame[..header + len]));
            done = self.sent(whole_at, header + len);
            self.sq.segment += 1;
            if self.p.is_spent() && !cut.next_payload().is_empty() {
                return Ok(Outcome::Later);
            }
        }
        self.counters.lso += 1;
        Ok(Outcome::Done(done))
    }

    /// Returns the place `n` bytes into the payload.
    fn place(&self, at: usize, first: u32, mut n: u32) -> Gather {
        let mut segment = first;
        while let Some(len) = self.data(at, segment).map(|d| d.byte_count.get())
            && n >= len
        {
            n -= len;
            segment += 1;
        }
        Gather { segment, offset: n }
    }

    /// Reads the next `len` bytes of payload into the frame at `to`; when the last is there.
    fn gather(&mut self, t: Time, at: usize, from: &mut Gather, to: usize, len: usize) -> Arrival {
        let (mut to, end) = (to, to + len);
        let mut whole_at = t;
        while to < end {
            let d = self.data(at, from.segment).ok_or(syndrome::LOCAL_LENGTH)?;
            let left = d.byte_count.get() - from.offset;
            let n = left.min((end - to) as u32);
            whole_at = whole_at.max(self.read_data(
                t,
                &d,
                u64::from(from.offset),
                (to, usize::MAX),
                n as usize,
            )?);
            to += n as usize;
            from.offset += n;
            if n == left {
                *from = Gather { segment: from.segment + 1, offset: 0 };
            }
        }
        Ok(whole_at)
    }
}

#[cfg(test)]
mod tests;
