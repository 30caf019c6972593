//! The PHY behind MDIC: Marvell 88E1000 (82544), 88E1011 (82540, 82545) or BM (82574).
//!
//! It has identifiers, autonegotiation, link and loopback. The link is the best mode that both ends
//! have, or the forced mode if the partner, which has all modes up to its speed, has it. Writes
//! take effect with the next reset or restart. An access is done when its register write arrives.
//!
//! Source: IEEE 802.3 clause 22 for registers 0 to 15; e1000_hw.h for the vendor's 16 to 31.

use super::config::{Speed, Variant};
use crate::common::{LinkStatus, mii, partner_ability};
use doorbell_layout::e1000::phy as reg;

const EXPANSION: u8 = 6;
const M88_INTERRUPT_STATUS: u8 = 19;
const M88_ERRORS: u8 = 21;

/// A speed and whether it is full duplex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) speed: Speed,
    pub(super) full: bool,
}

/// Modes from best to worst, and their bits: in AUTONEG_ADV, in CTRL_1000T. Gigabit at half duplex
/// is in no part of the family.
const MODES: [(Mode, u16, u16); 5] = [
    (Mode { speed: Speed::M1000, full: true }, 0, reg::ADV_1000_FD),
    (Mode { speed: Speed::M100, full: true }, 1 << 8, 0),
    (Mode { speed: Speed::M100, full: false }, 1 << 7, 0),
    (Mode { speed: Speed::M10, full: true }, 1 << 6, 0),
    (Mode { speed: Speed::M10, full: false }, 1 << 5, 0),
];

/// CTRL: full duplex, and the two bits of the speed.
const CTRL_FULL: u16 = 1 << 8;
const CTRL_SPEED_HIGH: u16 = 1 << 6;
const CTRL_SPEED_LOW: u16 = 1 << 13;

#[derive(Clone, Debug)]
pub(super) struct Phy {
    variant: Variant,
    regs: [u16; 32],
    /// Mode that was agreed on last.
    mode: Option<Mode>,
    link: LinkStatus,
}

impl Phy {
    pub(super) fn new(variant: Variant, partner: Speed, link: bool) -> Phy {
        let mut p = Phy { variant, regs: [0; 32], mode: None, link: LinkStatus::new(link) };
        p.reset();
        p.agree(partner);
        p
    }

    fn negotiates(&self) -> bool {
        self.regs[usize::from(reg::CTRL)] & reg::CTRL_AUTONEG != 0
    }

    /// Returns the mode that CTRL forces.
    fn forced(&self) -> Mode {
        let ctrl = self.regs[usize::from(reg::CTRL)];
        let speed = match (ctrl & CTRL_SPEED_HIGH != 0, ctrl & CTRL_SPEED_LOW != 0) {
            (true, _) => Speed::M1000,
            (false, true) => Speed::M100,
            (false, false) => Speed::M10,
        };
        Mode { speed, full: ctrl & CTRL_FULL != 0 }
    }

    /// Agrees with a partner of that speed on a mode, by the registers as they are now.
    pub(super) fn agree(&mut self, partner: Speed) {
        let (adv, adv_1000) =
            (self.regs[usize::from(reg::AUTONEG_ADV)], self.regs[usize::from(reg::CTRL_1000T)]);
        self.mode = if self.negotiates() {
            let ours = MODES.iter().filter(|(_, a, b)| adv & a != 0 || adv_1000 & b != 0);
            ours.map(|(mode, ..)| *mode).find(|m| m.speed <= partner)
        } else {
            Some(self.forced()).filter(|m| m.speed <= partner)
        };
    }

    /// Returns the mode agreed on; in loopback, the forced one.
    pub(super) fn mode(&self) -> Option<Mode> {
        if self.loops() { Some(self.forced()) } else { self.mode }
    }

    pub(super) fn reset(&mut self) {
        self.regs = [0; 32];
        self.regs[usize::from(reg::CTRL)] = mii::CTRL;
        self.regs[usize::from(reg::AUTONEG_ADV)] = mii::AUTONEG_ADV;
        self.regs[usize::from(reg::CTRL_1000T)] = mii::CTRL_1000T;
        self.regs[usize::from(reg::M88_CTRL)] = 0x0068;
        self.regs[usize::from(reg::M88_EXT_CTRL)] = 0x0d60;
    }

    /// Frames come back instead of leaving.
    pub(super) fn loops(&self) -> bool {
        self.regs[usize::from(reg::CTRL)] & reg::CTRL_LOOPBACK != 0
    }

    pub(super) fn set_link(&mut self, up: bool) {
        self.link.set(up);
    }

    /// Register `r`, with a partner of that speed.
    pub(super) fn read(&mut self, r: u8, speed: Speed) -> u16 {
        // The partner has told its abilities.
        let told = self.link.up && self.negotiates();
        match r {
            _ if self.is_paged_out(r) => 0,
            reg::STATUS => self.link.read(told),
            reg::ID1 => self.variant.phy_id()[0],
            reg::ID2 => self.variant.phy_id()[1],
            reg::LP_ABILITY if told => partner_ability(speed),
            EXPANSION if told => mii::EXPANSION,
            reg::STATUS_1000T if told && speed == Speed::M1000 => mii::STATUS_1000T,
            reg::EXT_STATUS => mii::EXT_STATUS,
            // Speed, duplex, resolved, link.
            reg::M88_STATUS if self.link.up => {
                self.mode().map_or(0, |m| (m.speed as u16) << 14 | u16::from(m.full) << 13 | 0x0c08)
            }
            reg::LP_ABILITY | EXPANSION | reg::STATUS_1000T | reg::M88_STATUS => 0,
            M88_INTERRUPT_STATUS | M88_ERRORS => 0,
            _ => self.regs[usize::from(r & 31)],
        }
    }

    /// Returns true if register `r` is another's while the page is not 0. Of the other pages of a
    /// BM nothing is known here: they read as zeros.
    fn is_paged_out(&self, r: u8) -> bool {
        let page = self.regs[usize::from(reg::BM_PAGE)];
        self.variant.is_82574() && r >= reg::M88_CTRL && r != reg::BM_PAGE && page != 0
    }

    /// Writes a register. Returns whether the link negotiates anew.
    pub(super) fn write(&mut self, r: u8, v: u16) -> bool {
        match r {
            _ if self.is_paged_out(r) => false,
            reg::CTRL if v & reg::CTRL_RESET != 0 => {
                // Software reset: the settings stay, the link negotiates anew.
                self.regs[usize::from(reg::CTRL)] = v & !(reg::CTRL_RESET | reg::CTRL_RESTART);
                true
            }
            reg::CTRL => {
                self.regs[usize::from(reg::CTRL)] = v & !reg::CTRL_RESTART;
                v & reg::CTRL_RESTART != 0
            }
            reg::STATUS | reg::ID1 | reg::ID2 => false,
            _ => {
                self.regs[usize::from(r & 31)] = v;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
