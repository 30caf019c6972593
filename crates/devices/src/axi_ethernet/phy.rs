//! The PHY behind MDIO: a TI DP83867, as on AMD's UltraScale+ boards, as far as a
//! driver looks at it: identifiers, reset, autonegotiation, link.
//!
//! Source: IEEE 802.3 clause 22 for registers 0 to 15; PHYIDR1 and 2 of the data sheet.

use super::config::Speed;

/// Registers.
pub(super) mod reg {
    pub(crate) const CONTROL: u8 = 0;
    pub(crate) const STATUS: u8 = 1;
    pub(crate) const ID1: u8 = 2;
    pub(crate) const ID2: u8 = 3;
    pub(crate) const ADVERTISE: u8 = 4;
    pub(crate) const PARTNER: u8 = 5;
    pub(crate) const EXPANSION: u8 = 6;
    pub(crate) const CONTROL_1000: u8 = 9;
    pub(crate) const STATUS_1000: u8 = 10;
    pub(crate) const EXTENDED: u8 = 15;
}

const RESET: u16 = 0x8000;
const RESTART: u16 = 0x0200;
const AUTONEG: u16 = 0x1000;
const POWER_DOWN: u16 = 0x0800;
/// Autonegotiate, full duplex, 1000 Mbit/s.
const CONTROL_DEFAULT: u16 = 0x1140;
/// All 10 and 100 modes, extended status, preamble suppression, can negotiate, has extended
/// registers.
const STATUS_ABLE: u16 = 0x7949;
const STATUS_DONE: u16 = 0x0020;
const STATUS_LINK: u16 = 0x0004;

/// What a write did besides changing the register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Did {
    Nothing,
    /// The link negotiates anew, or has gone with the power.
    Negotiate,
}

#[derive(Clone, Debug)]
pub(super) struct Phy {
    regs: [u16; 32],
    link: bool,
    /// The link was down since STATUS was read last: the bit latches low.
    was_down: bool,
}

impl Phy {
    pub(super) fn new(link: bool) -> Phy {
        let mut regs = [0; 32];
        regs[usize::from(reg::CONTROL)] = CONTROL_DEFAULT;
        // All modes, symmetric and asymmetric pause; gigabit in full duplex.
        regs[usize::from(reg::ADVERTISE)] = 0x0de1;
        regs[usize::from(reg::CONTROL_1000)] = 0x0300;
        Phy { regs, link, was_down: !link }
    }

    pub(super) fn is_powered(&self) -> bool {
        self.regs[usize::from(reg::CONTROL)] & POWER_DOWN == 0
    }

    pub(super) fn set_link(&mut self, up: bool) {
        self.link = up;
        self.was_down |= !up;
    }

    pub(super) fn read(&mut self, r: u8, speed: Speed) -> u16 {
        let autoneg = self.regs[usize::from(reg::CONTROL)] & AUTONEG != 0;
        match r {
            reg::STATUS => {
                let up = self.link && !core::mem::take(&mut self.was_down);
                let done = if self.link && autoneg { STATUS_DONE } else { 0 };
                STATUS_ABLE | done | if up { STATUS_LINK } else { 0 }
            }
            reg::ID1 => 0x2000,
            reg::ID2 => 0xa231,
            // Acknowledge, pause in both directions, and modes up to its own speed.
            reg::PARTNER if self.link => match speed {
                Speed::M10 => 0x4c61,
                Speed::M100 | Speed::G1 => 0x4de1,
            },
            reg::EXPANSION if self.link => 0x000f,
            // The partner does gigabit, full and half duplex; both receivers are well.
            reg::STATUS_1000 if self.link && speed == Speed::G1 => 0x7c00,
            reg::EXTENDED => 0x3000,
            reg::PARTNER | reg::EXPANSION | reg::STATUS_1000 => 0,
            _ => self.regs[usize::from(r & 31)],
        }
    }

    pub(super) fn write(&mut self, r: u8, v: u16) -> Did {
        match r {
            reg::CONTROL if v & RESET != 0 => {
                *self = Phy { was_down: true, ..Phy::new(self.link) };
                Did::Negotiate
            }
            reg::CONTROL => {
                let before = core::mem::replace(&mut self.regs[0], v & !RESTART);
                let power = (before ^ v) & POWER_DOWN != 0;
                if v & RESTART != 0 || power { Did::Negotiate } else { Did::Nothing }
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
