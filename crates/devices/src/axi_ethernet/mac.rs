//! The MAC's registers that are not the filter's or the statistics', and its access to the
//! PHY.
//!
//! An MDIO access takes 64 clocks of the management clock, which is the register port's
//! divided; MCR says Ready when it is over, and HardAcsCmplt is set. With MC.Enable off none
//! begins, and one under way never ends. Another one begun meanwhile is lost.
//!
//! Source: PG138, "MDIO" and register descriptions; IEEE 802.3, 22.2.4.5 (64 bits a frame).

use super::config::{Config, Speed};
use doorbell_hal::{Span, Time};
use doorbell_layout::axienet::{emmc, int, mdio, rcw1, tc};

/// Clocks of an MDIO frame, preamble included.
const MDIO_FRAME: u64 = 64;
/// IS after power-on, when the PHY has been reset long ago.
const READY: u32 = int::MGT_READY | int::PHY_RESET_COMPLETE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) phy: u8,
    pub(super) reg: u8,
    /// Value to write; `None`: a read.
    pub(super) write: Option<u16>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Mac {
    pub(super) raf: u32,
    pub(super) tpf: u32,
    pub(super) ifgp: u32,
    pub(super) is: u32,
    pub(super) ie: u32,
    pub(super) rcw0: u32,
    pub(super) rcw1: u32,
    pub(super) tc: u32,
    pub(super) fcc: u32,
    pub(super) emmc: u32,
    pub(super) mdio_mc: u32,
    pub(super) mdio_mcr: u32,
    pub(super) mdio_mwd: u32,
    pub(super) mdio_mrd: u32,
    /// End of the access to the PHY under way, if any.
    mdio_over: Option<Time>,
}

impl Mac {
    pub(super) fn new() -> Mac {
        Mac {
            is: READY,
            // Both on, the link at 1 Gbit/s.
            rcw1: rcw1::RX,
            tc: tc::TX,
            emmc: emmc::SPEED_1000,
            ..Mac::default()
        }
    }

    /// Returns the state after a reset by the DMA engine, while the PHY is in its own.
    pub(super) fn in_reset() -> Mac {
        Mac { is: 0, ..Mac::new() }
    }

    /// The PHY's reset is over.
    pub(super) fn phy_is_ready(&mut self) {
        self.is |= READY;
    }

    pub(super) fn speed(&self) -> Option<Speed> {
        match self.emmc & emmc::SPEED {
            emmc::SPEED_10 => Some(Speed::M10),
            emmc::SPEED_100 => Some(Speed::M100),
            emmc::SPEED_1000 => Some(Speed::M1000),
            _ => None,
        }
    }

    /// Returns true if its line is high.
    pub(super) fn interrupts(&self) -> bool {
        self.is & self.ie != 0
    }

    // ---- MDIO ----

    /// MCR is written: an access, if one begins.
    pub(super) fn command(&mut self, at: Time, v: u32, cfg: &Config) -> Option<Access> {
        self.mdio_mcr = v & !mdio::READY;
        if v & mdio::INITIATE == 0 || self.mdio_mc & mdio::ENABLE == 0 || self.mdio_over.is_some() {
            return None;
        }
        let divisor = u64::from(self.mdio_mc & mdio::DIVISOR) + 1;
        let clocks = MDIO_FRAME * 2 * divisor;
        self.mdio_over =
            Some(at + Span::from_ps((clocks * 1_000_000).div_ceil(cfg.lite_mhz.into())));
        let field = |shift| (v >> shift & 31) as u8;
        let write = match v & (mdio::READ | mdio::WRITE) {
            mdio::READ => None,
            mdio::WRITE => Some(self.mdio_mwd as u16),
            // Clause 45, or nothing.
            _ => return None,
        };
        Some(Access { phy: field(mdio::PHY_SHIFT), reg: field(mdio::REG_SHIFT), write })
    }

    pub(super) fn mdio_due(&self) -> Time {
        match self.mdio_over {
            Some(over) if self.mdio_mc & mdio::ENABLE != 0 => over,
            _ => Time::NEVER,
        }
    }

    pub(super) fn mdio_done(&mut self) {
        self.mdio_over = None;
        self.is |= int::HARD_ACCESS;
    }

    pub(super) fn read_command(&self) -> u32 {
        self.mdio_mcr & !mdio::INITIATE | if self.mdio_over.is_none() { mdio::READY } else { 0 }
    }
}

/// Returns true if the frame has a VLAN tag.
pub(super) fn is_tagged(frame: &[u8]) -> bool {
    frame.get(12..14) == Some(&[0x81, 0x00])
}
