//! The PHY behind MDIO: a TI DP83867, as on AMD's UltraScale+ boards, as far as a
//! driver looks at it: identifiers, reset, autonegotiation, link.
//!
//! Source: IEEE 802.3 clause 22 for registers 0 to 15; PHYIDR1 and 2 of the data sheet.

use super::config::Speed;
use crate::common::{LinkStatus, mii, partner_ability};

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

#[derive(Clone, Debug)]
pub(super) struct Phy {
    regs: [u16; 32],
    link: LinkStatus,
}

impl Phy {
    pub(super) fn new(link: bool) -> Phy {
        let mut regs = [0; 32];
        regs[usize::from(reg::CONTROL)] = mii::CTRL;
        regs[usize::from(reg::ADVERTISE)] = mii::AUTONEG_ADV;
        regs[usize::from(reg::CONTROL_1000)] = mii::CTRL_1000T;
        Phy { regs, link: LinkStatus::new(link) }
    }

    pub(super) fn is_powered(&self) -> bool {
        self.regs[usize::from(reg::CONTROL)] & POWER_DOWN == 0
    }

    pub(super) fn set_link(&mut self, up: bool) {
        self.link.set(up);
    }

    pub(super) fn read(&mut self, r: u8, speed: Speed) -> u16 {
        let autoneg = self.regs[usize::from(reg::CONTROL)] & AUTONEG != 0;
        let link = self.link.up;
        match r {
            reg::STATUS => self.link.read(link && autoneg),
            reg::ID1 => 0x2000,
            reg::ID2 => 0xa231,
            reg::PARTNER if link => partner_ability(speed),
            reg::EXPANSION if link => mii::EXPANSION,
            reg::STATUS_1000 if link && speed == Speed::M1000 => mii::STATUS_1000T,
            reg::EXTENDED => mii::EXT_STATUS,
            reg::PARTNER | reg::EXPANSION | reg::STATUS_1000 => 0,
            _ => self.regs[usize::from(r & 31)],
        }
    }

    /// Writes a register. Returns whether the link negotiates anew, or has gone with the power.
    pub(super) fn write(&mut self, r: u8, v: u16) -> bool {
        match r {
            reg::CONTROL if v & RESET != 0 => {
                let link = self.link.after_reset();
                *self = Phy { link, ..Phy::new(link.up) };
                true
            }
            reg::CONTROL => {
                let before = core::mem::replace(&mut self.regs[0], v & !RESTART);
                v & RESTART != 0 || (before ^ v) & POWER_DOWN != 0
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
