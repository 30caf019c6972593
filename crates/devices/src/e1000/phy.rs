//! The PHY behind MDIC: Marvell 88E1000 (82544) or 88E1011 (82540, 82545), as far
//! as a driver looks at it: identifiers, autonegotiation, link, PHY loopback.
//!
//! **The link** is what both can: the best mode that we advertise and the partner has, or
//! without autonegotiation the mode that is forced, if the partner has that speed. No such
//! mode, no link. What is written takes effect with the next reset or restart, as on the
//! Marvell parts. The partner has all modes up to its own speed.
//!
//! Source: IEEE 802.3 clause 22 for registers 0 to 15; the driver's e1000_hw.h
//! for the vendor's 16 to 31. MDIO is slow in life (some 25 us an access); here an
//! access is done when its register write has arrived.

use super::config::{Speed, Variant};
use doorbell_layout::e1000::phy as reg;

const EXPANSION: u8 = 6;
const M88_INTERRUPT_STATUS: u8 = 19;
const M88_ERRORS: u8 = 21;
/// Autonegotiate, full duplex, 1000 Mbit/s.
const CONTROL_DEFAULT: u16 = 0x1140;
/// All 10 and 100 modes, extended status, preamble suppression, can negotiate,
/// has extended registers.
const STATUS_ABLE: u16 = 0x7949;

/// What a write did besides changing the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    /// Nothing.
    Nothing,
    /// The link negotiates anew.
    Negotiate,
}

/// A speed and whether it is full duplex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mode {
    pub(super) speed: Speed,
    pub(super) full: bool,
}

/// Modes from best to worst, and their bits: in AUTONEG_ADV, in CTRL_1000T. Gigabit at half duplex
/// is in no part of the family.
const MODES: [(Mode, u16, u16); 5] = [
    (Mode { speed: Speed::G1, full: true }, 0, reg::ADV_1000_FD),
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
    /// What was agreed on last.
    mode: Option<Mode>,
    /// The link is up.
    link: bool,
    /// It was down since STATUS was read last: the bit latches low.
    was_down: bool,
}

impl Phy {
    pub(super) fn new(variant: Variant, partner: Speed, link: bool) -> Phy {
        let mut p = Phy { variant, regs: [0; 32], mode: None, link, was_down: !link };
        p.reset();
        p.agree(partner);
        p
    }

    fn negotiates(&self) -> bool {
        self.regs[usize::from(reg::CTRL)] & reg::CTRL_AUTONEG != 0
    }

    /// What CTRL forces.
    fn forced(&self) -> Mode {
        let ctrl = self.regs[usize::from(reg::CTRL)];
        let speed = match (ctrl & CTRL_SPEED_HIGH != 0, ctrl & CTRL_SPEED_LOW != 0) {
            (true, _) => Speed::G1,
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
            ours.map(|(mode, ..)| *mode).find(|m| m.speed.code() <= partner.code())
        } else {
            Some(self.forced()).filter(|m| m.speed.code() <= partner.code())
        };
    }

    /// What was agreed on; in loopback, what is forced.
    pub(super) fn mode(&self) -> Option<Mode> {
        if self.loops() { Some(self.forced()) } else { self.mode }
    }

    pub(super) fn reset(&mut self) {
        self.regs = [0; 32];
        self.regs[usize::from(reg::CTRL)] = CONTROL_DEFAULT;
        // All modes, symmetric and asymmetric pause; gigabit in full duplex.
        self.regs[usize::from(reg::AUTONEG_ADV)] = 0x0de1;
        self.regs[usize::from(reg::CTRL_1000T)] = 0x0300;
        self.regs[usize::from(reg::M88_CTRL)] = 0x0068;
        self.regs[usize::from(reg::M88_EXT_CTRL)] = 0x0d60;
    }

    /// Frames come back instead of leaving.
    pub(super) fn loops(&self) -> bool {
        self.regs[usize::from(reg::CTRL)] & reg::CTRL_LOOPBACK != 0
    }

    pub(super) fn set_link(&mut self, up: bool) {
        self.link = up;
        self.was_down |= !up;
    }

    /// Register `r`, with a partner of that speed.
    pub(super) fn read(&mut self, r: u8, speed: Speed) -> u16 {
        let gigabit = speed == Speed::G1;
        // The partner has told its abilities.
        let told = self.link && self.negotiates();
        match r {
            reg::STATUS => {
                let up = self.link && !core::mem::take(&mut self.was_down);
                let negotiated = if told { reg::STATUS_AUTONEG } else { 0 };
                STATUS_ABLE | negotiated | if up { reg::STATUS_LINK } else { 0 }
            }
            reg::ID1 => self.variant.phy_id()[0],
            reg::ID2 => self.variant.phy_id()[1],
            // Acknowledge, pause in both directions, and modes up to its own speed.
            reg::LP_ABILITY if told => {
                if speed == Speed::M10 {
                    0x4c61
                } else {
                    0x4de1
                }
            }
            EXPANSION if told => 0x000f,
            // Partner does gigabit full and half duplex; both receivers are well.
            reg::STATUS_1000T if told && gigabit => 0x7c00,
            reg::EXT_STATUS => 0x3000,
            // Speed, duplex, resolved, link.
            reg::M88_STATUS if self.link => self
                .mode()
                .map_or(0, |m| (m.speed.code() as u16) << 14 | u16::from(m.full) << 13 | 0x0c08),
            reg::LP_ABILITY | EXPANSION | reg::STATUS_1000T | reg::M88_STATUS => 0,
            M88_INTERRUPT_STATUS | M88_ERRORS => 0,
            _ => self.regs[usize::from(r & 31)],
        }
    }

    pub(super) fn write(&mut self, r: u8, v: u16) -> Did {
        match r {
            reg::CTRL if v & reg::CTRL_RESET != 0 => {
                // Software reset: the settings stay, the link negotiates anew.
                self.regs[usize::from(reg::CTRL)] = v & !(reg::CTRL_RESET | reg::CTRL_RESTART);
                Did::Negotiate
            }
            reg::CTRL => {
                self.regs[usize::from(reg::CTRL)] = v & !reg::CTRL_RESTART;
                if v & reg::CTRL_RESTART != 0 { Did::Negotiate } else { Did::Nothing }
            }
            reg::STATUS | reg::ID1 | reg::ID2 => Did::Nothing,
            _ => {
                self.regs[usize::from(r & 31)] = v;
                Did::Nothing
            }
        }
    }
}

#[cfg(test)]
mod tests;
