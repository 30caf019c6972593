//! Access to the core's registers.

use doorbell_hal::{Host, Reg};
use doorbell_layout::axienet::{DMA, MAC};

/// Reads a register of the MAC.
pub(super) fn get<H: Host>(h: &mut H, offset: u32) -> u32 {
    h.read32(Reg { region: MAC, offset })
}
/// Writes a register of the MAC.
pub(super) fn put<H: Host>(h: &mut H, offset: u32, v: u32) {
    h.write32(Reg { region: MAC, offset }, v);
}
/// Reads register `r` of a DMA channel.
pub(super) fn dma_get<H: Host>(h: &mut H, channel: u32, r: u32) -> u32 {
    h.read32(Reg { region: DMA, offset: channel + r })
}
/// Writes register `r` of a DMA channel.
pub(super) fn dma_put<H: Host>(h: &mut H, channel: u32, r: u32, v: u32) {
    h.write32(Reg { region: DMA, offset: channel + r }, v);
}

/// Returns whether `v` is what a core that is not there reads as.
pub(super) const fn is_absent(v: u32) -> bool {
    v == !0
}
