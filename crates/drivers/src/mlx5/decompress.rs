//! Compressed completions: blocks become entries again.
//!
//! Source: en_rx.c `mlx5e_decompress_cqes_start`, `mlx5e_decompress_cqes_cont`,
//! `mlx5e_decompress_enhanced_cqe`, `mlx5e_cqes_update_owner`. In the basic layout the places of a
//! block that the device did not write get this lap's owner, else they would be taken for entries
//! of the next one.

use super::cq::Cq;
use super::settings::Stats;
use doorbell_hal::{CpuWork, Host};
use doorbell_layout::mlx5::receive::{
    COMPRESSED, CQE_RECEIVED, MINIS, MiniArray, MiniCqe, RxCqe, mini_format,
};
use doorbell_layout::mlx5::{Compression, CompressionLayout};
use zerocopy::FromZeros;

/// The lap in an entry that the device never wrote.
pub(super) const NO_LAP: u8 = 0xff;

/// The block that is being taken.
#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) compression: Compression,
    title: RxCqe,
    /// Frames of it that are left, the place of the next in the array, and its WQE or stride.
    left: u32,
    at: usize,
    next: u16,
    array: [MiniCqe; MINIS as usize],
    /// The block was counted.
    counted: bool,
}

impl Blocks {
    pub(super) fn new(compression: Compression) -> Blocks {
        let (title, array) = (RxCqe::new_zeroed(), [MiniCqe::new_zeroed(); MINIS as usize]);
        Blocks { compression, title, left: 0, at: 0, next: 0, array, counted: false }
    }

    pub(super) fn restart(&mut self) {
        self.left = 0;
    }

    #[inline(always)]
    pub(super) fn enhanced(&self) -> bool {
        self.compression.layout == CompressionLayout::Enhanced
    }

    /// Makes the entry of the next frame.
    fn unpack(&mut self) -> RxCqe {
        let (mini, mut cqe) = (self.array[self.at], self.title);
        (self.at, self.left) = (self.at + 1, self.left - 1);
        cqe.op_own = CQE_RECEIVED << 4;
        cqe.check_sum = mini.check_sum;
        cqe.byte_cnt = mini.byte_cnt;
        match self.compression.format {
            mini_format::STRIDE => cqe.wqe_counter = mini.stride,
            _ => cqe.wqe_counter.set(self.next),
        }
        self.follow(&cqe);
        cqe
    }

    fn follow(&mut self, cqe: &RxCqe) {
        self.next = cqe.wqe_counter.get().wrapping_add(cqe.strides().max(1));
    }
}

impl Cq {
    /// Takes the entry of the next frame, out of a block if it is in one.
    #[inline(always)]
    pub(super) fn frame<H: Host>(&mut self, h: &mut H, s: &mut Stats) -> Option<RxCqe> {
        match self.blocks.is_some() {
            false => self.next(h).map(|_| {
                h.charge(CpuWork::Completion);
                self.entry(h)
            }),
            true => self.frame_of_block(h, s),
        }
    }

    fn frame_of_block<H: Host>(&mut self, h: &mut H, s: &mut Stats) -> Option<RxCqe> {
        let mut blocks = self.blocks.take()?;
        let entry = self.take_frame(h, &mut blocks, s);
        self.blocks = Some(blocks);
        entry
    }

    fn take_frame<H: Host>(&mut self, h: &mut H, b: &mut Blocks, s: &mut Stats) -> Option<RxCqe> {
        if b.left > 0 {
            h.charge(CpuWork::Completion);
            if b.enhanced() {
                self.pass();
            } else {
                if b.at == MINIS as usize {
                    (b.array, b.at) = (self.array(h), 0);
                }
                self.skip(h);
            }
            return Some(b.unpack());
        }
        let tail = self.next(h)?.op_own;
        h.charge(CpuWork::Completion);
        let entry: RxCqe = self.entry(h);
        if tail & COMPRESSED != COMPRESSED {
            b.title = entry;
            b.counted = false;
            b.follow(&entry);
            return Some(entry);
        }
        b.at = 0;
        if b.enhanced() {
            let array = MiniArray::of(entry.bytes());
            b.left = u32::from(tail >> 4) + 1;
            b.array[..array.frames.len()].copy_from_slice(&array.frames);
            // More than an array holds is a mistake.
            b.left = b.left.min(array.frames.len() as u32);
            s.rx_cqe_compress_blks += u64::from(!b.counted);
            b.counted = true;
        } else {
            b.title = entry;
            // More than the queue holds is a mistake, and so is none.
            b.left = entry.byte_cnt.get().clamp(1, 1 << self.log_size);
            b.next = entry.wqe_counter.get();
            b.array = self.array(h);
            s.rx_cqe_compress_blks += 1;
        }
        s.rx_cqe_compress_pkts += u64::from(b.left);
        Some(b.unpack())
    }

    fn array<H: Host>(&self, h: &mut H) -> [MiniCqe; MINIS as usize] {
        let bytes: [[u8; 8]; MINIS as usize] = self.ahead(h);
        bytes.map(MiniCqe::of)
    }
}
