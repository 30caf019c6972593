//! The long way through transmit: a WQE with everything that one can have, an
//! inline header, a tag, a cut into segments, fragments.

use super::{CtrlSeg, HEAD, Head, Slot, Sq};
use crate::Tx;
use crate::mlx5::session::{EsegKey, contiguous};
use alloc::boxed::Box;
use alloc::vec::Vec;
use doorbell_hal::{CpuWork, Direction, Host};
use doorbell_layout::mlx5::{CQ_UPDATE, DS, DS_PER_WQEBB, ETH_WQE_INSERT_VLAN, MAX_WQEBBS, opcode};
use doorbell_packet::ethernet::{HEADER, MIN_FRAME};
use doorbell_packet::{Fragment, Gso, MAX_FRAGS, NonLinear, Packet};
use zerocopy::byteorder::big_endian::U16;

impl Sq {
    /// SEND or LSO with everything a WQE can have: inline header, VLAN, fragments.
    #[inline(never)]
    pub(super) fn send_any<H: Host>(
        &mut self,
        h: &mut H,
        p: Packet,
        key: EsegKey,
        more: bool,
    ) -> Tx {
        let frags = p.more.as_ref().map_or(0, |m| m.frags.len());
        let listed = p.more.as_ref().is_some_and(|m| !m.list.is_empty());
        // No fragment lists (the stack linearises for us), no more fragments than
        // a stack makes, none without bytes: the device would take the WQE for
        // malformed and stop the queue.
        let empty =
            p.is_empty() || p.more.as_ref().is_some_and(|m| m.frags.iter().any(|f| f.len == 0));
        // Headers in the head, as far as they are needed there.
        let headless = match p.todo.gso {
            Some(g) => {
                u32::from(g.header) > p.head.len
                    || g.header < HEADER as u16
                    || g.size == 0
                    || p.len() == u32::from(g.header)
            }
            None => p.head.len < HEADER as u32 && (self.min_inline > 0 || p.todo.vlan.is_some()),
        };
        if listed || frags > MAX_FRAGS || empty || headless {
            return self.drop_packet(h, p, more);
        }

        let mut eth = key.eseg();
        let mut inline = match (p.todo.gso, self.min_inline) {
            (Some(g), _) => {
                eth.mss = U16::new(g.size);
                u32::from(g.header)
            }
            (None, 0) => 0,
            (None, mode) => min_inline(h, &p.head, mode),
        };
        // A tag goes into the inlined header where there is one (en_tx.c
        // mlx5e_insert_vlan); else the device inserts it.
        let mut tag = None;
        if let Some(tci) = p.todo.vlan {
            self.stats.added_vlan_packets += 1;
            if inline >= 12 {
                tag = Some(tci);
                inline += 4;
                key.shift_by_tag(&mut eth);
            } else {
                eth.inline_hdr_sz = U16::new(ETH_WQE_INSERT_VLAN);
                eth.inline_hdr_start = tci.to_be_bytes();
            }
        }
        let taken = if tag.is_some() { inline - 4 } else { inline };
        let inline_ds = inline.saturating_sub(2).div_ceil(DS);
        let head_left = p.head.len - taken;
        let ds = 2 + inline_ds + u32::from(head_left > 0) + frags as u32;
        let wqebbs = ds.div_ceil(DS_PER_WQEBB);
        if wqebbs > MAX_WQEBBS || ds > 0x3f {
            return self.drop_packet(h, p, more);
        }
        let room = contiguous(self.pc, self.mask);
        if room < wqebbs {
            self.pad(h, room);
        }

        let (segments, bytes) = on_the_wire(&p);
        let at = self.offset(self.pc);
        if inline > 0 {
            let mut bytes = [0u8; 1024];
            let span = p.head.start..p.head.start + taken;
            h.bytes(&p.head.buf, span, |b| match tag {
                None => bytes[..b.len()].copy_from_slice(b),
                Some(tci) => {
                    bytes[..12].copy_from_slice(&b[..12]);
                    bytes[12..14].copy_from_slice(&[0x81, 0x00]);
                    bytes[14..16].copy_from_slice(&tci.to_be_bytes());
                    bytes[16..b.len() + 4].copy_from_slice(&b[12..]);
                }
            });
            h.charge(CpuWork::Copy(taken));
            eth.inline_hdr_sz = U16::new(inline as u16);
            eth.inline_hdr_start = [bytes[0], bytes[1]];
            for (i, ds) in bytes[2..].chunks_exact(DS as usize).take(inline_ds as usize).enumerate()
            {
                let ds: [u8; DS as usize] = ds.try_into().unwrap_or([0; DS as usize]);
                h.store(&self.ring, at + HEAD + i as u32 * DS, ds);
            }
        }
        let (gso, len) = (p.todo.gso, p.len());
        let pieces = match self.map_pieces(h, p, taken, at + HEAD + inline_ds * DS) {
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

    /// Maps the head, less its first `taken` bytes, and all fragments; writes a
    /// data segment for each at `at` onward. The number of buffers now in the
    /// FIFO, or, if one could not be mapped, the packet as it was.
    pub(super) fn map_pieces<H: Host>(
        &mut self,
        h: &mut H,
        p: Packet,
        taken: u32,
        mut at: u32,
    ) -> Result<u32, Packet> {
        let Packet { head, todo, more, cookie } = p;
        let frags = more.map_or_else(Vec::new, |m| m.frags);
        let count = frags.len() as u32;
        let (start, len) = (head.start, head.len);
        let mut done = 0;
        if len > taken {
            match h.map(head.buf, start + taken..start + len, Direction::ToDevice) {
                Ok(m) => {
                    h.charge(CpuWork::Map);
                    h.store(&self.ring, at, self.data_seg(&m));
                    at += DS;
                    self.push(Slot::Mapped(m, cookie, count == 0));
                }
                Err(e) => {
                    let head = Fragment { buf: e.buf, start, len };
                    let more = (count > 0).then(|| Box::new(NonLinear { frags, list: Vec::new() }));
                    return Err(Packet { head, todo, more, cookie });
                }
            }
        } else {
            self.push(Slot::Inlined(head.buf, cookie, count == 0));
        }
        let mut rest = frags.into_iter();
        while let Some(f) = rest.next() {
            done += 1;
            match h.map(f.buf, f.start..f.start + f.len, Direction::ToDevice) {
                Ok(m) => {
                    h.charge(CpuWork::Map);
                    h.store(&self.ring, at, self.data_seg(&m));
                    at += DS;
                    self.push(Slot::Mapped(m, cookie, done == count));
                }
                Err(e) => {
                    // Take back what was done, last first.
                    let mut frags: Vec<Fragment> = Vec::new();
                    for _ in 1..done {
                        frags.extend(self.unpush(h));
                    }
                    frags.reverse();
                    frags.push(Fragment { buf: e.buf, start: f.start, len: f.len });
                    frags.extend(rest);
                    let Some(h0) = self.unpush(h) else {
                        unreachable!("the head was pushed above")
                    };
                    let head = Fragment { buf: h0.buf, start, len };
                    return Err(Packet {
                        head,
                        todo,
                        more: Some(Box::new(NonLinear { frags, list: Vec::new() })),
                        cookie,
                    });
                }
            }
        }
        Ok(1 + count)
    }
}

/// Bytes to inline where the device wants some: through L2 (at least 18), L3 or
/// L4 of what is in the head (en_tx.c `mlx5e_calc_min_inline`).
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

/// Bytes that count against the byte limit: of a large send the headers of all segments, else no
/// fewer than a frame has (en_tx.c `mlx5e_sq_prepare_wqe`).
fn limited_bytes(len: u32, gso: Option<Gso>, segments: u64) -> u32 {
    match gso {
        Some(g) => len + (segments as u32 - 1) * u32::from(g.header),
        None => len.max(MIN_FRAME as u32),
    }
}

/// Packets and bytes that the wire will see of `p`.
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
