//! Parts that several models share: the PHY's link status, frame buffers, the audit of offloads.

use alloc::vec::Vec;
use doorbell_packet::ethernet::Speed;
use doorbell_packet::headers::{Check, Verdict};

/// Units of [`Port::charge`](doorbell_hal::Port::charge) of a step of a device: what is due next.
pub(crate) const STEP: u64 = 8;
/// Units of a device's reset, beside what it has to give up.
pub(crate) const RESET: u64 = 512;
/// Transfers that a frame to be sent is charged as: its bytes, and its checksum and report.
pub(crate) const FRAME: u64 = 2;

/// Returns 1 for a frame with a wrong checksum, 0 for others: models count what an offload made
/// wrong. They ask a parser of their own ([`doorbell_packet`]'s), not the one that made it.
pub(crate) fn bad(v: Verdict) -> u64 {
    u64::from(v.ip == Check::Bad || v.transport == Check::Bad)
}

/// Rights of guests to addresses on a network that they share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Addresses {
    /// Guests trust each other: each has any address, also another's.
    #[default]
    Any,
    /// An address belongs to the guest that has taken it, which may take another.
    Exclusive,
    /// An address belongs to the guest that has taken it, which keeps it until it has gone.
    Fixed,
}

/// Returns a PHY's LPA of a partner with all modes up to this speed: acknowledge, pause in both
/// directions.
pub(crate) const fn partner_ability(speed: Speed) -> u16 {
    match speed {
        Speed::M10 => 0x4c61,
        Speed::M100 | Speed::M1000 => 0x4de1,
    }
}

/// Registers of a PHY at power-on, and bits of STATUS (IEEE 802.3, clause 22).
pub(crate) mod mii {
    /// CTRL: autonegotiate, full duplex, 1000 Mbit/s.
    pub(crate) const CTRL: u16 = 0x1140;
    /// AUTONEG_ADV: all modes, symmetric and asymmetric pause.
    pub(crate) const AUTONEG_ADV: u16 = 0x0de1;
    /// CTRL_1000T: full duplex.
    pub(crate) const CTRL_1000T: u16 = 0x0300;
    /// EXPANSION, with a partner that negotiates.
    pub(crate) const EXPANSION: u16 = 0x000f;
    /// STATUS_1000T, with a partner of full and half duplex and both receivers well.
    pub(crate) const STATUS_1000T: u16 = 0x7c00;
    /// EXT_STATUS: 1000BASE-T, full and half duplex.
    pub(crate) const EXT_STATUS: u16 = 0x3000;
}

/// The link as STATUS of a PHY shows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkStatus {
    pub(crate) up: bool,
    /// The link was down since STATUS was read last: the bit latches low.
    was_down: bool,
}

impl LinkStatus {
    pub(crate) const fn new(up: bool) -> LinkStatus {
        LinkStatus { up, was_down: !up }
    }

    /// Returns the same link after a reset of the PHY.
    pub(crate) const fn after_reset(self) -> LinkStatus {
        LinkStatus { was_down: true, ..self }
    }

    pub(crate) fn set(&mut self, up: bool) {
        self.up = up;
        self.was_down |= !up;
    }

    /// Reads STATUS: all 10 and 100 modes, extended status, preamble suppression, can negotiate.
    pub(crate) fn read(&mut self, negotiated: bool) -> u16 {
        let up = self.up && !core::mem::take(&mut self.was_down);
        0x7949 | u16::from(negotiated) << 5 | u16::from(up) << 2
    }
}

/// Returns a hash in `0..n` of some bytes: FNV-1a, so that neighbours spread.
pub(crate) fn spread(bytes: impl IntoIterator<Item = u8>, n: usize) -> usize {
    let mix = |h: u32, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193);
    let hash = bytes.into_iter().fold(0x811c_9dc5, mix);
    (hash ^ hash >> 16) as usize % n
}

/// Memory of frames, to be used again; so many are kept.
#[derive(Debug)]
pub(crate) struct SpareFrames(Vec<Vec<u8>>);
const SPARE_FRAMES: usize = 256;

impl SpareFrames {
    pub(crate) const fn new() -> SpareFrames {
        SpareFrames(Vec::new())
    }

    /// Returns an empty frame.
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let mut v = self.reuse();
        v.clear();
        v
    }

    /// Returns a frame with the bytes that it held before, for one that writes all of it.
    #[inline]
    pub(crate) fn reuse(&mut self) -> Vec<u8> {
        self.0.pop().unwrap_or_default()
    }

    /// Returns `frame`, and leaves other memory in its place.
    pub(crate) fn exchange(&mut self, frame: &mut Vec<u8>) -> Vec<u8> {
        core::mem::replace(frame, self.reuse())
    }

    pub(crate) fn copy(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut v = self.take();
        v.extend_from_slice(frame);
        v
    }

    /// Keeps the memory of a frame.
    pub(crate) fn push(&mut self, frame: Vec<u8>) {
        if frame.capacity() > 0 && self.0.len() < SPARE_FRAMES {
            self.0.push(frame);
        }
    }
}

/// Returns the size class, 0 to 5, of a frame of `len` bytes with its FCS: up to 64, 127, 255, 511,
/// 1023 bytes, or more.
pub(crate) const fn size_class(len: usize) -> u32 {
    match len {
        ..65 => 0,
        65..128 => 1,
        128..256 => 2,
        256..512 => 3,
        512..1024 => 4,
        _ => 5,
    }
}

#[cfg(test)]
mod tests;
