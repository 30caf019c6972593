//! Compression of CQEs: frames of a queue whose entries differ only in length, sum and place share
//! a block.
//!
//! Sources: en_rx.c `mlx5e_decompress_cqes_start`, `mlx5e_rx_cq_process_enhanced_cqe_comp`. When
//! the device compresses is not public: [`Compress`](super::super::Compress) is an assumption. A
//! block begins when so many writes of received data are on their way (DPDK 99c12dcca65d: "when PCI
//! back pressure is detected"), takes what comes within a time, and ends early before an entry that
//! differs.
//!
//! Basic: the title waits for the others. It is written last, because it has the owner bit.
//! Enhanced: the title is written at once, and arrays follow it. In both layouts a frame of a block
//! takes a place of the queue; an array lies in its first frame's. The places behind it keep what
//! they had, and a lap is told by one byte: so the enhanced layout has laps without blocks.

use super::super::{device::Mlx5, queues::Cq};
use alloc::vec::Vec;
use doorbell_hal::{Port, Time};
use doorbell_layout::mlx5::receive::{
    COMPRESSED, CQE_RECEIVED, ENHANCED_MINIS, MINIS, MiniArray, MiniCqe, RxCqe, mini_format,
};
use doorbell_layout::mlx5::{Compression, CompressionLayout};
use zerocopy::{FromZeros, IntoBytes, transmute};

/// Lap of each 128, and those after it, in which the enhanced layout has no blocks: all places of
/// the last one are written, so that none has the byte of a lap that is to come. What cards do is
/// not public.
const WHOLE: u8 = 126;

/// Frames of a CQ whose entries wait to be written.
#[derive(Debug)]
pub(in super::super) struct Session {
    compression: Compression,
    /// The entry that those that wait are like: their first, or with the enhanced layout the last
    /// one that was written whole.
    title: Option<RxCqe>,
    /// Frames of the block, those that are written included.
    block: u16,
    /// WQE or stride that the next frame has.
    next: u16,
    frames: Vec<MiniCqe>,
}

impl Session {
    pub(in super::super) fn new(compression: Compression) -> Session {
        let frames = Vec::with_capacity(64);
        Session { compression, title: None, block: 0, next: 0, frames }
    }

    /// Returns true if an entry can go into the block.
    fn takes(&self, cqe: &RxCqe, most: u16) -> bool {
        let Some(title) = &self.title else { return false };
        let follows =
            self.compression.format == mini_format::STRIDE || cqe.wqe_counter.get() == self.next;
        let same = title.wqe_id == cqe.wqe_id
            && title.flags_rqpn == cqe.flags_rqpn
            && title.hds_ip_ext == cqe.hds_ip_ext
            && title.l4_l3_hdr_type == cqe.l4_l3_hdr_type
            && title.vlan_info == cqe.vlan_info
            && title.sop_drop_qpn == cqe.sop_drop_qpn;
        follows && same && self.block < most
    }

    /// Begins a block with this entry.
    fn begin(&mut self, cqe: &RxCqe) {
        self.title = Some(*cqe);
        self.block = 1;
        self.follow(cqe);
    }

    fn push(&mut self, cqe: &RxCqe) {
        let mut mini = MiniCqe::new_zeroed();
        mini.check_sum = cqe.check_sum;
        mini.byte_cnt = cqe.byte_cnt;
        match self.compression.format {
            mini_format::STRIDE => mini.stride = cqe.wqe_counter,
            mini_format::HASH => {
                let hash = cqe.rss_hash_result.get();
                mini.check_sum.set((hash >> 16) as u16);
                mini.stride.set(hash as u16);
            }
            _ => {}
        }
        self.frames.push(mini);
        self.follow(cqe);
    }

    fn follow(&mut self, cqe: &RxCqe) {
        self.next = cqe.wqe_counter.get().wrapping_add(cqe.strides().max(1));
    }

    /// A whole entry was written that no frame's may be like.
    pub(in super::super) fn interrupted(&mut self) {
        self.title = None;
    }
}

impl Mlx5 {
    /// Writes the entry of a frame, or keeps it for a block.
    pub(super) fn complete_frame<P: Port>(&mut self, p: &mut P, t: Time, cqn: u32, cqe: RxCqe) {
        let policy = self.cfg.compress;
        let Some(cq) = self.cqs.get_mut(cqn) else { return };
        let whole = cq.lap() & 0x7f >= WHOLE;
        let Some(s) = &mut cq.session else { return self.put_cqe(p, t, cqn, transmute!(cqe)) };
        let pressed = self.rx.on_their_way(t) >= usize::from(policy.pressure);
        let layout = s.compression.layout;
        let waits = !s.frames.is_empty();
        let joins = match layout {
            CompressionLayout::Basic => waits,
            CompressionLayout::Enhanced => waits || pressed && !whole,
        };
        if joins && s.takes(&cqe, policy.most) {
            s.push(&cqe);
            s.block += 1;
            let full = (ENHANCED_MINIS as usize).min(1 << cq.ctx.log_size.min(6));
            let array = layout == CompressionLayout::Enhanced && s.frames.len() >= full;
            if array || s.block == policy.most.min(1 << cq.ctx.log_size.min(6)) {
                self.end_session(p, t, cqn);
            } else if !waits {
                self.rx.sessions.push_back((t + policy.wait, cqn));
            }
            return;
        }
        if layout == CompressionLayout::Basic && pressed && cq.ctx.log_size > 0 {
            self.end_session(p, t, cqn);
            let Some(s) = self.cqs.get_mut(cqn).and_then(|cq| cq.session.as_mut()) else { return };
            s.begin(&cqe);
            s.push(&cqe);
            self.rx.sessions.push_back((t + policy.wait, cqn));
            return;
        }
        self.put_cqe(p, t, cqn, transmute!(cqe));
        if let Some(s) = self.cqs.get_mut(cqn).and_then(|cq| cq.session.as_mut()) {
            s.begin(&cqe);
        }
    }

    /// Writes the entries of a CQ that wait.
    pub(in super::super) fn end_session<P: Port>(&mut self, p: &mut P, at: Time, cqn: u32) {
        let Some(s) = self.cqs.get_mut(cqn).and_then(|cq| cq.session.as_mut()) else { return };
        let Some(title) = s.title.filter(|_| !s.frames.is_empty()) else { return };
        let mut frames = core::mem::take(&mut s.frames);
        self.rx.forget_session(cqn);
        match s.compression.layout {
            CompressionLayout::Enhanced => {
                let first = s.block as usize == 1 + frames.len();
                self.rx.counters.blocks += u64::from(first);
                self.rx.counters.block_packets += frames.len() as u64 + u64::from(first);
                self.write_array(p, at, cqn, &frames);
            }
            CompressionLayout::Basic if frames.len() == 1 => {
                s.interrupted();
                self.put_cqe(p, at, cqn, transmute!(title));
            }
            CompressionLayout::Basic => {
                s.interrupted();
                self.rx.counters.blocks += 1;
                self.rx.counters.block_packets += frames.len() as u64;
                self.write_block(p, at, cqn, (title, &frames));
            }
        }
        frames.clear();
        if let Some(s) = self.cqs.get_mut(cqn).and_then(|cq| cq.session.as_mut()) {
            s.frames = frames;
        }
    }

    /// Writes a block of the basic layout: arrays, then the title.
    fn write_block<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        cqn: u32,
        (mut title, frames): (RxCqe, &[MiniCqe]),
    ) {
        if !self.has_room(p, at, cqn, frames.len() as u32) {
            return;
        }
        let Some(cq) = self.cqs.get_mut(cqn) else { return };
        title.byte_cnt.set(frames.len() as u32);
        title.op_own = CQE_RECEIVED << 4 | COMPRESSED | owner(cq);
        let mut written = true;
        for (i, some) in frames.chunks(MINIS as usize).enumerate() {
            let mut array = [0; 64];
            array[..size_of_val(some)].copy_from_slice(some.as_bytes());
            let to = cq.slot((i as u32 * MINIS).max(1));
            written &= p.write(at, to, &array).is_ok();
        }
        written &= p.write(at, cq.slot(0), title.as_bytes()).is_ok();
        let entries = 1 + frames.len().div_ceil(MINIS as usize) as u64;
        self.wrote(p, at, cqn, written.then_some((frames.len() as u32, entries)));
    }

    /// Writes an array of the enhanced layout.
    fn write_array<P: Port>(&mut self, p: &mut P, at: Time, cqn: u32, frames: &[MiniCqe]) {
        if !self.has_room(p, at, cqn, frames.len() as u32) {
            return;
        }
        let Some(cq) = self.cqs.get_mut(cqn) else { return };
        let mut array = MiniArray::new_zeroed();
        for (to, from) in array.frames.iter_mut().zip(frames) {
            *to = *from;
        }
        array.signature = cq.lap();
        array.op_own = (frames.len() as u8 - 1) << 4 | COMPRESSED | owner(cq);
        let written = p.write(at, cq.slot(0), array.as_bytes()).is_ok();
        self.wrote(p, at, cqn, written.then_some((frames.len() as u32, 1)));
    }

    /// Gives up the entries of a queue that wait.
    pub(super) fn drop_session(&mut self, cqn: u32, rqn: u32) {
        let Some(s) = self.cqs.get_mut(cqn).and_then(|cq| cq.session.as_mut()) else { return };
        if s.title.is_some_and(|title| title.flags_rqpn.get() == rqn) {
            s.interrupted();
            s.frames.clear();
            self.rx.forget_session(cqn);
        }
    }
}

fn owner(cq: &Cq) -> u8 {
    cq.lap() & 1
}
