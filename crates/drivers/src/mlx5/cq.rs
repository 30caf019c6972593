//! Completion and event queues: rings whose owner bit flips each lap.

use super::decompress::{Blocks, NO_LAP};
use crate::common::both;
use alloc::boxed::Box;
use doorbell_hal::{Coherent, CpuWork, Fence, Host, OutOfMemory, Reg};
use doorbell_layout::mlx5::{
    CQE_INITIAL, CQE_TAIL, Compression, CompressionLayout, Cqe, CqeTail, EQE_CQN, Eqe, cqe_opcode,
    dbr, event, uar,
};
use zerocopy::FromBytes;
use zerocopy::byteorder::big_endian::U32;

/// A completion queue.
#[derive(Debug)]
pub(super) struct Cq {
    pub(super) ring: Coherent,
    pub(super) dbr: Coherent,
    pub(super) cqn: u32,
    pub(super) log_size: u8,
    ci: u32,
    /// Event count; two bits of it in each arm request let the device ignore a stale request (cq.h
    /// `mlx5_cq_arm`).
    arm_sn: u32,
    /// Its entries tell their lap.
    laps: bool,
    /// Its entries may be compressed.
    pub(super) blocks: Option<Box<Blocks>>,
}

const ENTRY: u32 = size_of::<Cqe>() as u32;

/// Allocates a ring of `bytes` and its doorbell record.
pub(super) fn ring_and_record<H: Host>(
    h: &mut H,
    bytes: u32,
) -> Result<(Coherent, Coherent), OutOfMemory> {
    let ring = h.coherent(bytes, 4096)?;
    let record = h.coherent(dbr::SIZE, 64);
    both(ring, record, |ring| h.release_coherent(ring))
}

impl Cq {
    pub(super) fn allocate<H: Host>(h: &mut H, log_size: u8) -> Result<Cq, OutOfMemory> {
        let (ring, dbr) = ring_and_record(h, ENTRY << log_size)?;
        let mut cq =
            Cq { ring, dbr, cqn: 0, log_size, ci: 0, arm_sn: 0, laps: false, blocks: None };
        cq.restart(h);
        Ok(cq)
    }

    /// Has entries compressed, before the queue is created.
    pub(super) fn compress<H: Host>(&mut self, h: &mut H, compression: Compression) {
        self.laps = compression.layout == CompressionLayout::Enhanced;
        self.blocks = Some(Box::new(Blocks::new(compression)));
        self.restart(h);
    }

    /// Empties the queue before it is created.
    pub(super) fn restart<H: Host>(&mut self, h: &mut H) {
        for i in 0..1u32 << self.log_size {
            h.store(&self.ring, i * ENTRY + ENTRY - 1, CQE_INITIAL);
            if self.blocks.is_some() {
                h.store(&self.ring, i * ENTRY + ENTRY - 2, NO_LAP);
            }
        }
        self.blocks.iter_mut().for_each(|blocks| blocks.restart());
        h.store(&self.dbr, dbr::CQ_CI, U32::ZERO);
        h.store(&self.dbr, dbr::CQ_ARM, U32::ZERO);
        (self.ci, self.arm_sn) = (0, 0);
    }

    /// Takes the next completion, if there is one.
    #[inline(always)]
    pub(super) fn next<H: Host>(&mut self, h: &mut H) -> Option<CqeTail> {
        let index = self.ci & ((1 << self.log_size) - 1);
        let tail: CqeTail = h.load(&self.ring, index * ENTRY + CQE_TAIL);
        let lap = self.ci >> self.log_size;
        let ours = u32::from(tail.op_own & 1) == lap & 1;
        let there = match self.laps {
            true => tail.signature == lap as u8,
            false => ours && tail.op_own >> 4 != cqe_opcode::INVALID,
        };
        if !there {
            return None;
        }
        h.fence(Fence::DmaRead);
        self.ci = self.ci.wrapping_add(1);
        Some(tail)
    }

    /// Returns the whole entry that [`Cq::next`] took last.
    pub(super) fn entry<H: Host, T: FromBytes + Copy>(&self, h: &mut H) -> T {
        let index = self.ci.wrapping_sub(1) & ((1 << self.log_size) - 1);
        h.load(&self.ring, index * ENTRY)
    }

    /// Returns the entry at the consumer index.
    pub(super) fn ahead<H: Host, T: FromBytes + Copy>(&self, h: &mut H) -> T {
        let index = self.ci & ((1 << self.log_size) - 1);
        h.load(&self.ring, index * ENTRY)
    }

    /// Passes a place that the device did not write.
    pub(super) fn pass(&mut self) {
        self.ci = self.ci.wrapping_add(1);
    }

    /// Skips an entry that the device did not write, and gives it this lap's owner.
    pub(super) fn skip<H: Host>(&mut self, h: &mut H) {
        let index = self.ci & ((1 << self.log_size) - 1);
        let owner = (self.ci >> self.log_size & 1) as u8;
        h.charge(CpuWork::Unwritten);
        h.store(&self.ring, index * ENTRY + ENTRY - 1, owner);
        self.pass();
    }

    /// Publishes the consumer index in the doorbell record.
    #[inline(always)]
    pub(super) fn publish_ci<H: Host>(&self, h: &mut H) {
        h.store(&self.dbr, dbr::CQ_CI, U32::new(self.ci & 0xff_ffff));
        h.fence(Fence::Write);
    }

    /// Notes an event of this queue.
    pub(super) fn event(&mut self) {
        self.arm_sn = self.arm_sn.wrapping_add(1);
    }

    /// Returns the count of events so far.
    pub(super) fn events(&self) -> u32 {
        self.arm_sn
    }

    /// Requests one event at the next entry beyond those read.
    pub(super) fn arm<H: Host>(&mut self, h: &mut H, page: u32) {
        let request = (self.arm_sn & 3) << 28 | self.ci & 0xff_ffff;
        h.store(&self.dbr, dbr::CQ_ARM, U32::new(request));
        h.fence(Fence::Write);
        let mut v = [0; 8];
        v[..4].copy_from_slice(&request.to_be_bytes());
        v[4..].copy_from_slice(&self.cqn.to_be_bytes());
        h.write64(Reg::at(page + uar::CQ_ARM), u64::from_le_bytes(v));
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        h.release_coherent(self.ring);
        h.release_coherent(self.dbr);
    }
}

/// An event queue.
#[derive(Debug)]
pub(super) struct Eq {
    pub(super) ring: Coherent,
    pub(super) eqn: u32,
    log_size: u8,
    ci: u32,
}

impl Eq {
    pub(super) fn allocate<H: Host>(h: &mut H, log_size: u8) -> Result<Eq, OutOfMemory> {
        let ring = h.coherent(ENTRY << log_size, 4096)?;
        let mut eq = Eq { ring, eqn: 0, log_size, ci: 0 };
        eq.restart(h);
        Ok(eq)
    }

    /// Empties the queue before it is created.
    pub(super) fn restart<H: Host>(&mut self, h: &mut H) {
        for i in 0..1u32 << self.log_size {
            h.store(&self.ring, i * ENTRY + ENTRY - 1, 1u8);
        }
        self.ci = 0;
    }

    /// Takes all events, and passes the CQ of each completion event to `completed`. Returns the
    /// number of events.
    pub(super) fn drain<H: Host>(&mut self, h: &mut H, mut completed: impl FnMut(u32)) -> u32 {
        let mut events = 0;
        // At most one lap: the device may go on writing.
        while events < 1 << self.log_size {
            let index = self.ci & ((1 << self.log_size) - 1);
            let owner: u8 = h.load(&self.ring, index * ENTRY + ENTRY - 1);
            if u32::from(owner & 1) != self.ci >> self.log_size & 1 {
                break;
            }
            h.fence(Fence::DmaRead);
            let eqe: Eqe = h.load(&self.ring, index * ENTRY);
            if eqe.event_type == event::COMPLETION {
                completed(eqe.data[EQE_CQN].get() & 0xff_ffff);
            }
            self.ci = self.ci.wrapping_add(1);
            events += 1;
        }
        events
    }

    /// Writes the consumer index, and requests an interrupt at the next event.
    pub(super) fn arm<H: Host>(&self, h: &mut H, page: u32) {
        let v = self.eqn << 24 | self.ci & 0xff_ffff;
        h.write32(Reg::at(page + uar::EQ_ARM), v.swap_bytes());
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        h.release_coherent(self.ring);
    }
}
