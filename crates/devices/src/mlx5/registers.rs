//! BAR0: the initialization segment, and what a write to it or to a doorbell page means.
//!
//! Every register is big-endian, so a value is swapped on its way in and out. What
//! does not exist reads as zero; a write to it is counted.

use super::device::Mlx5;
use doorbell_hal::{Port, Time};
use doorbell_layout::mlx5::{command::init_segment as seg, uar};

/// The device's clock, as capability `device_frequency_khz` says.
pub(super) const CLOCK_KHZ: u32 = 156_250;
/// Picoseconds of one tick of it.
pub(super) const TICK_PS: u64 = 1_000_000_000 / CLOCK_KHZ as u64;
/// log2 of the command queue's entries, and of their distance.
const LOG_SLOTS: u32 = 5;
const LOG_STRIDE: u32 = 6;
/// The health counter moves this often.
const HEARTBEAT_PS: u64 = 10_000_000_000;

impl Mlx5 {
    /// Reads `size` bytes at `offset`: each double word as it stands there.
    pub(super) fn read_segment(&mut self, at: Time, offset: u32, size: u8) -> u64 {
        let mut v = 0;
        for i in 0..u32::from(size.min(8)) {
            let at_byte = offset.wrapping_add(i);
            let word = self.segment_word(at, at_byte & !3).to_be_bytes();
            v |= u64::from(word[(at_byte & 3) as usize]) << (8 * i);
        }
        if offset & !3 == seg::HEALTH_COUNTER {
            self.firmware.beats = self.firmware.beats.wrapping_add(1);
        }
        v
    }

    fn segment_word(&self, at: Time, offset: u32) -> u32 {
        let fw = self.cfg.firmware;
        let health = fw_word(fw.0, fw.1);
        let ticks = at.ps() / TICK_PS;
        match offset {
            seg::FW_REV => health,
            seg::CMDIF_REV => seg::CMDIF << 16 | u32::from(fw.2),
            seg::CMDQ_HI => (self.firmware.cmdq >> 32) as u32,
            seg::CMDQ_LO => self.firmware.cmdq as u32 & !0xfff | LOG_SLOTS << 4 | LOG_STRIDE,
            // The health buffer's copy of the firmware revision; everything else of it says "no
            // error".
            0x224 => health,
            seg::TIMER_HI => (ticks >> 32) as u32,
            seg::TIMER_LO => ticks as u32,
            // It moves with time, and when it is looked at: an owner of the device
            // whose clock stands still sees it live, too.
            seg::HEALTH_COUNTER => {
                ((at.ps() / HEARTBEAT_PS) as u32).wrapping_add(self.firmware.beats) << 8
            }
            _ => 0,
        }
    }

    /// A write to the initialization segment; whether it meant anything.
    pub(super) fn write_segment(&mut self, at: Time, offset: u32, size: u8, v: u64) -> bool {
        let word = (v as u32).swap_bytes();
        match (offset, size) {
            (seg::CMDQ_HI, 4) => self.firmware.cmdq_hi = word,
            (seg::CMDQ_LO, 4) => {
                self.firmware.cmdq =
                    u64::from(self.firmware.cmdq_hi) << 32 | u64::from(word & !0xfff);
            }
            (seg::DOORBELL, 4) => return self.ring_commands(at, word),
            // The driver's wish for another kind of interface: there is only the full one.
            (seg::INITIALIZING, 4) => {}
            _ => return false,
        }
        true
    }

    /// A write to a doorbell page; whether it meant anything.
    pub(super) fn write_uar<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        offset: u32,
        size: u8,
        v: u64,
    ) -> bool {
        match (offset, size) {
            (0x800 | 0x900 | 0xa00 | 0xb00, 8) => self.send_doorbell(at, v),
            (uar::CQ_ARM, 8) => self.arm_cq(at, v),
            (uar::EQ_ARM, 4) => self.arm_eq(p, at, v as u32, true),
            (uar::EQ_UPDATE, 4) => self.arm_eq(p, at, v as u32, false),
            _ => return false,
        }
        true
    }
}

fn fw_word(major: u16, minor: u16) -> u32 {
    u32::from(minor) << 16 | u32::from(major)
}
