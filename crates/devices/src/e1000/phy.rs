//! The PHY behind MDIC: Marvell 88E1000 (82544) or 88E1011 (82540, 82545), as far
//! as a driver looks at it: identifiers, autonegotiation, link, PHY loopback.
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

#[derive(Clone, Debug)]
pub(super) struct Phy {
    variant: Variant,
    regs: [u16; 32],
    /// The link is up.
    link: bool,
    /// It was down since STATUS was read last: the bit latches low.
    was_down: bool,
}

impl Phy {
    pub(super) fn new(variant: Variant, link: bool) -> Phy {
        let mut p = Phy { variant, regs: [0; 32], link, was_down: !link };
        p.reset();
        p
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

    pub(super) fn read(&mut self, r: u8, speed: Speed) -> u16 {
        let gigabit = speed == Speed::G1;
        match r {
            reg::STATUS => {
                let up = self.link && !core::mem::take(&mut self.was_down);
                let negotiated = if self.link { reg::STATUS_AUTONEG } else { 0 };
                STATUS_ABLE | negotiated | if up { reg::STATUS_LINK } else { 0 }
            }
            reg::ID1 => self.variant.phy_id()[0],
            reg::ID2 => self.variant.phy_id()[1],
            // Acknowledge, pause in both directions, and modes up to its own speed.
            reg::LP_ABILITY if self.link => {
                if speed == Speed::M10 {
                    0x4c61
                } else {
                    0x4de1
                }
            }
            EXPANSION if self.link => 0x000f,
            // Partner does gigabit full and half duplex; both receivers are well.
            reg::STATUS_1000T if self.link && gigabit => 0x7c00,
            reg::EXT_STATUS => 0x3000,
            // Speed, full duplex, resolved, link.
            reg::M88_STATUS if self.link => (speed.code() as u16) << 14 | 0x2c08,
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
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_those_that_the_driver_expects_of_each_chip() {
        for (v, id) in
            [(Variant::I82544Gc, 0x0141_0c30), (Variant::I82540Em, 0x0141_0c20), (Variant::I82545Em, 0x0141_0c20)]
        {
            let mut p = Phy::new(v, true);
            let read = u32::from(p.read(2, Speed::G1)) << 16 | u32::from(p.read(3, Speed::G1) & 0xfff0);
            assert_eq!(read, id);
        }
    }

    #[test]
    fn link_status_latches_low() {
        let mut p = Phy::new(Variant::I82540Em, true);
        assert_eq!(p.read(1, Speed::G1) & 0x24, 0x24);
        p.set_link(false);
        p.set_link(true);
        assert_eq!(p.read(1, Speed::G1) & 4, 0, "it was down in between");
        assert_eq!(p.read(1, Speed::G1) & 4, 4);
    }

    #[test]
    fn reset_and_restart_clear_themselves() {
        let mut p = Phy::new(Variant::I82540Em, true);
        assert_eq!(p.write(0, 0x9140), Did::Negotiate);
        assert_eq!(p.read(0, Speed::G1), 0x1140);
        assert_eq!(p.write(0, 0x1340), Did::Negotiate);
        assert_eq!(p.read(0, Speed::G1), 0x1140);
        assert_eq!(p.write(0, 0x4140), Did::Nothing);
        assert!(p.loops());
    }
}
