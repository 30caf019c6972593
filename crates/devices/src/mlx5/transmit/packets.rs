//! Packets of a WQE: sessions, and one by one.

use super::super::offload;
use super::{Arrival, Execution, Outcome, segment};
use crate::common::bad;
use core::hint::cold_path;
use doorbell_hal::{Iova, Port, Time, fail_if};
use doorbell_layout::mlx5::{
    DS, DataSeg, ETH_WQE_INSERT_VLAN, ETH_WQE_SVLAN, EthSeg, INLINE_LEN, INLINE_SEG, MTT_READ,
    cs_flags, syndrome,
};
use doorbell_packet::ethernet::MIN_FRAME;
use doorbell_packet::{headers::verify, tunnel::verify_inner};

impl<P: Port> Execution<'_, P> {
    pub(super) fn data(&self, at: usize, ds: u32) -> Option<DataSeg> {
        segment(&self.sq.wqes[at..], ds)
    }

    /// Reads `n` bytes from `offset` of a data segment into the frame at `to`; when
    /// the last is there. The bytes of the frame before `seen` are looked at here.
    #[inline(always)]
    pub(super) fn read_data(
        &mut self,
        t: Time,
        d: &DataSeg,
        offset: u64,
        (to, seen): (usize, usize),
        n: usize,
    ) -> Arrival {
        let lkey = d.lkey.get();
        let key = self.mkeys.get(lkey >> 8).filter(|k| k.admits(self.sq.pd, lkey) && k.readable);
        let Some(key) = key else {
            cold_path();
            return Err(syndrome::LOCAL_PROT);
        };
        let addr = d.addr.get().wrapping_add(offset);
        if key.everything {
            return self.pipe.read(self.p, t, Iova(addr), (to, seen), n);
        }
        self.read_pieces(t, lkey, addr, to, n)
    }

    /// The same through a key that has an end, or pages.
    #[cold]
    fn read_pieces(&mut self, t: Time, lkey: u32, addr: u64, to: usize, n: usize) -> Arrival {
        let (mut done, mut whole_at) = (0, t);
        while done < n {
            let left = (n - done) as u64;
            let piece = self
                .mkeys
                .get(lkey >> 8)
                .and_then(|k| k.find(addr.wrapping_add(done as u64), left, MTT_READ));
            let (from, len) = piece.ok_or(syndrome::LOCAL_PROT)?;
            whole_at = whole_at.max(self.pipe.read(
                self.p,
                t,
                from,
                (to + done, usize::MAX),
                len as usize,
            )?);
            done += len as usize;
        }
        Ok(whole_at)
    }

    /// Enhanced MPWQE: each data segment is a packet; all share the Ethernet segment.
    #[inline]
    pub(super) fn multi_packet(&mut self, until: Time, at: usize, ds: u32) -> Outcome {
        let Some(eth) = segment::<EthSeg>(&self.sq.wqes[at..], 1).filter(|_| ds > 2) else {
            return Outcome::Failed(syndrome::LOCAL_QP_OP, 1);
        };
        if self.sq.segment == 0 {
            if self.sq.ctx.min_inline > 0 {
                // Data segments have no header to inline.
                return self.session_failed(syndrome::LOCAL_QP_OP, at, ds);
            }
            self.sq.segment = 2;
            self.counters.mpwqes += 1;
        }
        let mut done = Time::ZERO;
        let seen = self.pipe.seen(&eth);
        while self.sq.segment < ds {
            let t = self.chunk.at.max(self.pipe.ready());
            if t > until {
                return Outcome::Later;
            }
            let Some(d) = self.data(at, self.sq.segment) else {
                return self.session_failed(syndrome::LOCAL_QP_OP, at, ds);
            };
            let count = d.byte_count.get();
            let (len, whole_at, used) = if count & INLINE_SEG == 0 {
                let len = count as usize;
                if len == 0 || len > self.pipe.max_frame {
                    return self.session_failed(syndrome::LOCAL_LENGTH, at, ds);
                }
                match self.read_data(t, &d, 0, (0, seen), len) {
                    Ok(whole_at) => (len, whole_at, 1),
                    Err(why) => return self.session_failed(why, at, ds),
                }
            } else {
                let len = (count & INLINE_LEN) as usize;
                let used = (4 + len).div_ceil(DS as usize) as u32;
                let from = at + (self.sq.segment * DS) as usize + 4;
                if len == 0 || len > self.pipe.max_frame || self.sq.segment + used > ds {
                    return self.session_failed(syndrome::LOCAL_LENGTH, at, ds);
                }
                self.pipe.frame[..len].copy_from_slice(&self.sq.wqes[from..from + len]);
                (len, t, used)
            };
            self.pipe.start(t);
            if eth.cs_flags != 0 {
                self.insert_checksums(&eth, len);
            }
            done = self.sent(whole_at, len);
            self.counters.mpwqe_packets += 1;
            self.sq.segment += used;
        }
        Outcome::Done(done)
    }

    /// Inserts the checksums that the WQE asks for, and audits them.
    fn insert_checksums(&mut self, eth: &EthSeg, len: usize) {
        let frame = &mut self.pipe.frame[..len];
        offload::insert_checksums(frame, eth, self.sq.swp);
        let inner = eth.cs_flags & (cs_flags::L3_INNER | cs_flags::L4_INNER) != 0;
        let verdict = if inner { verify_inner(frame) } else { verify(frame) };
        self.counters.wire_bad_checksums += bad(verdict);
    }

    /// Counts a frame and puts it on the wire of its queue's port.
    #[inline(always)]
    pub(super) fn sent(&mut self, whole_at: Time, len: usize) -> Time {
        if self.sq.ctx.second_port {
            cold_path();
            return self.sent_at_second_port(whole_at, len);
        }
        self.sent_at_port(whole_at, len)
    }

    #[inline(never)]
    fn sent_at_second_port(&mut self, whole_at: Time, len: usize) -> Time {
        self.pipe.change_port();
        let last_bit = self.sent_at_port(whole_at, len);
        self.pipe.change_port();
        last_bit
    }

    #[inline(always)]
    fn sent_at_port(&mut self, whole_at: Time, len: usize) -> Time {
        if !self.pipe.link_up {
            cold_path();
            self.counters.discarded += 1;
            return whole_at;
        }
        self.counters.packets += 1;
        self.counters.bytes += len as u64;
        if self.pipe.frame[0] & 1 != 0 {
            self.pipe.casts.count(&self.pipe.frame[..len.max(MIN_FRAME)]);
        }
        self.pipe.send(self.p, self.received, whole_at, len)
    }

    /// The inline header of a WQE: how many bytes, and at which DS the data begins.
    pub(super) fn inline_header(&self, eth: &EthSeg) -> (usize, u32) {
        let size = eth.inline_hdr_sz.get();
        if size == 0 || size & ETH_WQE_INSERT_VLAN != 0 {
            (0, 2)
        } else {
            let n = u32::from(size);
            (n as usize, 2 + n.saturating_sub(2).div_ceil(DS))
        }
    }

    pub(super) fn copy_inline(&mut self, at: usize, eth: &EthSeg, len: usize) {
        // The first two bytes are in the Ethernet segment, the rest right behind it.
        let from = at + 2 * DS as usize;
        self.pipe.frame[..2].copy_from_slice(&eth.inline_hdr_start);
        let rest = len.saturating_sub(2);
        self.pipe.frame[2..2 + rest].copy_from_slice(&self.sq.wqes[from..from + rest]);
    }

    #[inline]
    pub(super) fn send(&mut self, t: Time, at: usize, ds: u32) -> Outcome {
        match self.try_send(t, at, ds) {
            Ok(done) => Outcome::Done(done),
            Err(why) => Outcome::Failed(why, 1),
        }
    }

    #[inline(always)]
    fn try_send(&mut self, t: Time, at: usize, ds: u32) -> Arrival {
        let eth = segment::<EthSeg>(&self.sq.wqes[at..], 1)
            .filter(|_| ds > 1)
            .ok_or(syndrome::LOCAL_QP_OP)?;
        let (inline, first) = self.inline_header(&eth);
        fail_if(first > ds || (self.sq.ctx.min_inline > 0 && inline < 14), syndrome::LOCAL_QP_OP)?;
        let mut len = inline;
        fail_if(inline > self.pipe.max_frame, syndrome::LOCAL_LENGTH)?;
        if inline > 0 {
            self.copy_inline(at, &eth, inline);
        }
        let seen = self.pipe.seen(&eth);
        let mut whole_at = t;
        let mut seg = first;
        while seg < ds {
            let d = self.data(at, seg).ok_or(syndrome::LOCAL_QP_OP)?;
            let count = d.byte_count.get();
            if count & INLINE_SEG != 0 {
                let n = (count & INLINE_LEN) as usize;
                let used = (4 + n).div_ceil(DS as usize) as u32;
                fail_if(seg + used > ds || len + n > self.pipe.max_frame, syndrome::LOCAL_LENGTH)?;
                let from = at + (seg * DS) as usize + 4;
                self.pipe.frame[len..len + n].copy_from_slice(&self.sq.wqes[from..from + n]);
                len += n;
                seg += used;
                continue;
            }
            let n = count as usize;
            fail_if(n == 0 || len + n > self.pipe.max_frame, syndrome::LOCAL_LENGTH)?;
            whole_at = whole_at.max(self.read_data(t, &d, 0, (len, seen), n)?);
            len += n;
            seg += 1;
        }
        fail_if(len == 0, syndrome::LOCAL_LENGTH)?;
        self.pipe.start(t);
        // Before a tag moves the headers that the WQE may speak of.
        if eth.cs_flags != 0 {
            self.insert_checksums(&eth, len);
        }
        let insert = eth.inline_hdr_sz.get();
        if insert & ETH_WQE_INSERT_VLAN != 0 {
            let tpid = if insert & ETH_WQE_SVLAN != 0 { offload::S_TAG } else { offload::C_TAG };
            len = offload::insert_vlan(&mut self.pipe.frame, len, tpid, eth.inline_hdr_start);
        }
        Ok(self.sent(whole_at, len))
    }
}
