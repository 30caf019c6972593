//! Access to the PHY's registers through the MAC (xilinx_axienet_mdio.c).
//!
//! The management clock runs only during an access. It is off while the core is reset, because a
//! reset during an access leaves that access incomplete.

use super::regs::{get, is_absent, put};
use crate::common::wait;
use doorbell_hal::{Host, Span};
use doorbell_layout::axienet::{mac, mdio};
pub use doorbell_packet::ethernet::Speed;
use thiserror::Error;

/// Why an access to a PHY register failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MdioError {
    /// MCR was not ready within 20 ms.
    #[error("MDIO is not ready")]
    Timeout,
    /// There is no such PHY or register, or no clock that is slow enough.
    #[error("no such PHY or register, or no MDIO clock")]
    Address,
}

pub(super) type Answer<T = ()> = Result<T, MdioError>;

/// Linux's limit for an access, which takes about 26 us.
const LIMIT: Span = Span::from_ms(20);

/// Returns the divisor for an MDIO clock of at most 2.5 MHz from the register port's clock, or
/// `None` when six bits do not hold it.
pub(super) const fn divisor(clock_hz: u32) -> Option<u32> {
    if clock_hz == 0 {
        return None;
    }
    // The clock is clock_hz / (2 * (divisor + 1)).
    let n = clock_hz.div_ceil(2 * mdio::MAX_HZ) - 1;
    if n > mdio::DIVISOR { None } else { Some(n) }
}

/// Turns the management clock off.
pub(super) fn off<H: Host>(h: &mut H) {
    let mc = get(h, mac::MDIO_MC);
    put(h, mac::MDIO_MC, mc & !mdio::ENABLE);
}

fn ready<H: Host>(h: &mut H) -> Answer {
    let done = wait(h, LIMIT, H::relax, |h| {
        let mcr = get(h, mac::MDIO_MCR);
        mcr & mdio::READY != 0 && !is_absent(mcr)
    });
    if done { Ok(()) } else { Err(MdioError::Timeout) }
}

/// Reads register `reg` of PHY `phy`, or writes `v` to it and returns 0.
pub(super) fn access<H: Host>(h: &mut H, hz: u32, phy: u8, reg: u8, v: Option<u16>) -> Answer<u16> {
    let divisor = divisor(hz).filter(|_| phy < 32 && reg < 32).ok_or(MdioError::Address)?;
    put(h, mac::MDIO_MC, divisor | mdio::ENABLE);
    let done = access_clocked(h, phy, reg, v);
    put(h, mac::MDIO_MC, divisor);
    done
}

fn access_clocked<H: Host>(h: &mut H, phy: u8, reg: u8, v: Option<u16>) -> Answer<u16> {
    ready(h)?;
    let to = u32::from(phy) << mdio::PHY_SHIFT | u32::from(reg) << mdio::REG_SHIFT | mdio::INITIATE;
    match v {
        Some(v) => {
            put(h, mac::MDIO_MWD, v.into());
            put(h, mac::MDIO_MCR, to | mdio::WRITE);
        }
        None => put(h, mac::MDIO_MCR, to | mdio::READ),
    }
    ready(h)?;
    match v {
        Some(_) => Ok(0),
        None => Ok(get(h, mac::MDIO_MRD) as u16),
    }
}

/// The state of a link that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its speed.
    pub speed: Speed,
    /// Full duplex.
    pub full_duplex: bool,
}

/// Returns what both ends negotiated (IEEE 802.3, clause 28); `None` when the link is down.
pub(super) fn negotiated<H: Host>(h: &mut H, clock_hz: u32, phy: u8) -> Answer<Option<Link>> {
    const UP: u16 = 1 << 2;
    let mut read = |reg| access(h, clock_hz, phy, reg, None);
    // Latched low: the first read may report a past loss of link.
    read(1)?;
    if read(1)? & UP == 0 {
        return Ok(None);
    }
    // 1000BASE-T control and status: the partner's abilities are two bits higher.
    let gigabit = read(9)? & read(10)? >> 2;
    let common = read(4)? & read(5)?;
    let link = |speed, full_duplex| Some(Link { speed, full_duplex });
    Ok(match (gigabit, common) {
        (g, _) if g & 0x200 != 0 => link(Speed::M1000, true),
        (g, _) if g & 0x100 != 0 => link(Speed::M1000, false),
        (_, c) if c & 0x100 != 0 => link(Speed::M100, true),
        (_, c) if c & 0x80 != 0 => link(Speed::M100, false),
        (_, c) => link(Speed::M10, c & 0x40 != 0),
    })
}

#[cfg(test)]
mod tests;
