//! The slow path of transmit: WQEs with an inline header, a tag, segmentation or fragments.

use super::{CtrlSeg, DmaEntry, HEAD, Head, Sq};
use crate::Tx;
use crate::common::{map, vacant};
use crate::mlx5::session::{EsegKey, contiguous};
use doorbell_hal::{Alignment, CpuWork, Host};
use doorbell_layout::mlx5::{CQ_UPDATE, DS, DS_PER_WQEBB, ETH_WQE_INSERT_VLAN, opcode};
use doorbell_packet::ethernet::{HEADER, MIN_FRAME};
use doorbell_packet::{Fragment, Gso, MAX_FRAGS, Packet, vlan};
use zerocopy::byteorder::big_endian::U16;

const TAG: u32 = vlan::TAG as u32;
/// The longest headers inlined without a large send: Ethernet, two tags, IP and TCP with options.
const MIN_INLINE_MAX: u32 = 14 + 8 + 60 + 60;

impl Sq {
    /// Sends SEND or LSO with all that a WQE can have: inline header, VLAN, fragments.
    #[inline(never)]
    pub(super) fn send_any<H: Host>(
        &mut self,
        h: &mut H,
        mut p: Packet,
        key: EsegKey,
        more: bool,
    ) -> Tx {
        if !self.is_acceptable(&p) {
            return self.drop_packet(h, p, more);
        }
        if p.todo.gso.is_none() && !self.fits_in_a_wqe(&p) {
            // The stack linearises; firmware with shorter WQEs takes fewer fragments.
            p = match p.linearise(h, Alignment::ANY) {
                Ok(p) => p,
                Err(e) => return self.drop_packet(h, e.0, more),
            };
        }
        let mut eth = key.eseg();
        // Bytes of the head that are inlined.
        let taken = match (p.todo.gso, self.min_inline) {
            (Some(g), _) => {
                eth.mss = U16::new(g.size);
                u32::from(g.header)
            }
            (None, 0) => 0,
            (None, mode) => min_inline(h, &p.head, mode),
        };
        // A tag goes into the inline header if there is one (en_tx.c mlx5e_insert_vlan); otherwise
        // the device inserts it.
        let tag = p.todo.vlan.filter(|_| taken >= 12);
        if let Some(tci) = p.todo.vlan {
            self.stats.added_vlan_packets += 1;
            if tag.is_some() {
                key.shift_by_tag(&mut eth);
            } else {
                eth.inline_hdr_sz = U16::new(ETH_WQE_INSERT_VLAN);
                eth.inline_hdr_start = tci.to_be_bytes();
            }
        }
        let inline = taken + if tag.is_some() { TAG } else { 0 };
        let inline_ds = inline.saturating_sub(2).div_ceil(DS);
        let frags = p.more.as_ref().map_or(0, |m| m.frags.len());
        let ds = 2 + inline_ds + u32::from(p.head.len > taken) + frags as u32;
        let wqebbs = ds.div_ceil(DS_PER_WQEBB);
        if wqebbs > self.max_wqebbs || ds > 0x3f {
            return self.drop_packet(h, p, more);
        }
        let room = contiguous(self.pc, self.mask);
        if room < wqebbs {
            self.pad(h, room);
        }
        let at = self.offset(self.pc);
        if inline > 0 {
            eth.inline_hdr_sz = U16::new(inline as u16);
            eth.inline_hdr_start = self.write_inline(h, &p.head, taken, tag, at + HEAD);
        }
        let (segments, bytes) = on_the_wire(&p);
        let (gso, len) = (p.todo.gso, p.len());
        let pieces = match self.map_packet(h, p, taken, at + HEAD + inline_ds * DS) {
            Ok(pieces) => pieces,
            Err(p) => return self.drop_packet(h, p, more),
        };
        h.charge(CpuWork::TxDescriptor(pieces));
        self.stats.tso_packets += u64::from(gso.is_some());
        self.stats.packets += segments;
        self.stats.bytes += bytes;
        self.bql.queue(limited_bytes(len, gso, segments));
        let notify = !more || !self.has_room_after(wqebbs);
        let op = if gso.is_some() { opcode::LSO } else { opcode::SEND };
        let mut ctrl = CtrlSeg::new(self.pc, op, self.sqn, ds);
        if notify {
            ctrl.fm_ce_se = CQ_UPDATE;
        }
        h.store(&self.ring, at, Head { ctrl, eth });
        self.post(wqebbs, pieces);
        self.finish(h, &ctrl, notify);
        Tx::Ok
    }

    /// Returns whether a WQE can hold a packet: no fragment list (the stack linearises), no more
    /// fragments than a stack makes, and the headers that are inlined in the head. No fragment may
    /// be empty: the device would stop the queue because of a malformed WQE.
    pub(super) fn is_acceptable(&self, p: &Packet) -> bool {
        if let Some(m) = &p.more
            && (!m.list.is_empty()
                || m.frags.len() > MAX_FRAGS
                || m.frags.iter().any(|f| f.len == 0))
        {
            return false;
        }
        let has_headers = match p.todo.gso {
            Some(g) => {
                let header = u32::from(g.header);
                let in_head = (HEADER as u32..=p.head.len).contains(&header);
                in_head && g.size > 0 && p.len() != header
            }
            None => {
                let needed = self.min_inline > 0 || p.todo.vlan.is_some();
                p.head.len >= HEADER as u32 || !needed
            }
        };
        !p.is_empty() && has_headers
    }

    /// Returns whether a WQE has room for all pieces of a packet and for its inline header: of a
    /// large send, or else at most [`MIN_INLINE_MAX`] bytes.
    pub(super) fn fits_in_a_wqe(&self, p: &Packet) -> bool {
        let inline = match (p.todo.gso, self.min_inline) {
            (Some(g), _) => u32::from(g.header) + TAG,
            (None, 0) => 0,
            (None, _) => MIN_INLINE_MAX.min(p.head.len) + TAG,
        };
        let pieces = 1 + p.more.as_ref().map_or(0, |m| m.frags.len() as u32);
        let ds = 2 + inline.saturating_sub(2).div_ceil(DS) + pieces;
        ds <= 0x3f && ds.div_ceil(DS_PER_WQEBB) <= self.max_wqebbs
    }

    /// Writes the first `taken` bytes of the head inline, behind the two that are in the Ethernet
    /// segment, with a tag if there is one. Returns these two.
    fn write_inline<H: Host>(
        &mut self,
        h: &mut H,
        head: &Fragment,
        taken: u32,
        tag: Option<u16>,
        at: u32,
    ) -> [u8; 2] {
        let mut bytes = [0u8; 1024];
        let mut len = taken;
        h.bytes(&head.buf, head.start..head.start + taken, |b| match tag {
            None => bytes[..b.len()].copy_from_slice(b),
            Some(tci) => {
                bytes[..12].copy_from_slice(&b[..12]);
                bytes[12..14].copy_from_slice(&[0x81, 0x00]);
                bytes[14..16].copy_from_slice(&tci.to_be_bytes());
                bytes[16..b.len() + 4].copy_from_slice(&b[12..]);
                len += TAG;
            }
        });
        h.charge(CpuWork::Copy(taken));
        let (first, rest) = bytes.split_first_chunk().expect("two bytes of 1024");
        let (chunks, _) = rest.as_chunks::<{ DS as usize }>();
        for (i, ds) in chunks[..len.saturating_sub(2).div_ceil(DS) as usize].iter().enumerate() {
            h.store(&self.ring, at + i as u32 * DS, *ds);
        }
        *first
    }

    /// Maps the head, less its first `taken` bytes, and all fragments, and writes a data segment
    /// for each from `at` on. Returns the number of DMA entries, or the unchanged packet if a
    /// mapping fails.
    fn map_packet<H: Host>(
        &mut self,
        h: &mut H,
        p: Packet,
        taken: u32,
        mut at: u32,
    ) -> Result<u32, Packet> {
        let Packet { head, todo, mut more, cookie } = p;
        let frags = more.as_ref().map_or(0, |m| m.frags.len());
        let (start, len) = (head.start, head.len);
        if len > taken {
            let rest = Fragment { start: start + taken, len: len - taken, ..head };
            if let Err(f) = self.map_fragment(h, rest, at, cookie, frags == 0) {
                return Err(Packet { head: Fragment { start, len, ..f }, todo, more, cookie });
            }
            at += DS;
        } else {
            self.push(DmaEntry::Inlined(head.buf, cookie, frags == 0));
        }
        for i in 0..frags {
            let Some(m) = more.as_mut() else { break };
            let f = core::mem::replace(&mut m.frags[i], vacant());
            if let Err(f) = self.map_fragment(h, f, at, cookie, i + 1 == frags) {
                m.frags[i] = f;
                m.frags[..i].iter_mut().rev().for_each(|f| *f = self.unpush(h));
                let head = Fragment { start, len, ..self.unpush(h) };
                return Err(Packet { head, todo, more, cookie });
            }
            at += DS;
        }
        Ok(1 + frags as u32)
    }

    #[inline(always)]
    fn map_fragment<H: Host>(
        &mut self,
        h: &mut H,
        f: Fragment,
        at: u32,
        cookie: u32,
        last: bool,
    ) -> Result<(), Fragment> {
        let m = map(h, f)?;
        h.charge(CpuWork::Map);
        h.store(&self.ring, at, self.data_seg(&m));
        self.push(DmaEntry::Mapped(m, cookie, last));
        Ok(())
    }
}

/// Returns the bytes to inline where the device requires some: through L2 (at least 18), L3 or L4
/// (en_tx.c `mlx5e_calc_min_inline`).
fn min_inline<H: Host>(h: &mut H, head: &Fragment, mode: u8) -> u32 {
    let want = h.bytes(&head.buf, head.start..head.start + head.len, |b| {
        let mut l3 = 14;
        while b.len() >= l3 + 4 && matches!((b[l3 - 2], b[l3 - 1]), (0x81, 0x00) | (0x88, 0xa8)) {
            l3 += 4;
        }
        let l2 = l3.max(18);
        if mode == 1 || b.len() < l3 + 20 {
            return l2;
        }
        let (l4, proto) = match (b[l3 - 2], b[l3 - 1]) {
            (0x08, 0x00) => (l3 + usize::from(b[l3] & 0xf) * 4, b[l3 + 9]),
            (0x86, 0xdd) => (l3 + 40, b[l3 + 6]),
            _ => return l2,
        };
        match proto {
            _ if mode == 2 => l4,
            6 if b.len() > l4 + 12 => l4 + usize::from(b[l4 + 12] >> 4) * 4,
            17 => l4 + 8,
            _ => l4,
        }
    });
    (want as u32).min(head.len)
}

/// Returns the bytes that count against the byte limit: with the headers of all segments, and at
/// least those of the shortest frame (en_tx.c `mlx5e_sq_prepare_wqe`).
fn limited_bytes(len: u32, gso: Option<Gso>, segments: u64) -> u32 {
    match gso {
        Some(g) => len + (segments as u32 - 1) * u32::from(g.header),
        None => len.max(MIN_FRAME as u32),
    }
}

fn on_the_wire(p: &Packet) -> (u64, u64) {
    let len = u64::from(p.len());
    let (segments, header) = match p.todo.gso {
        Some(g) => {
            let header = u64::from(g.header);
            ((len - header).div_ceil(u64::from(g.size.max(1))).max(1), header)
        }
        None => (1, 0),
    };
    let tag = if p.todo.vlan.is_some() { 4 } else { 0 };
    (segments, len + (segments - 1) * header + segments * tag)
}
