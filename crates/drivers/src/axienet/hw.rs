//! The core without its rings: reset, options, filter, speed.
//!
//! Source: xilinx_axienet_main.c `__axienet_device_reset`, `axienet_setoptions`,
//! `axienet_set_mac_address`, `axienet_set_multicast_list`, `axienet_dma_stop`.
//! Every loop has a limit in the host's time.

use super::config::Config;
use super::mdio::{self, Speed};
use super::regs::{dma_get, dma_put, get, put};
use crate::{Filter, OpenError, Opened, common};
use doorbell_hal::{Host, Reg, Span};
use doorbell_layout::axienet::{DMA, MM2S, S2MM, cr, dma, emmc, fcc, fmi, int, mac, rcw1, sr, tc};

/// Sets the channel's first descriptor. It latches only while the channel is halted.
pub(super) fn current<H: Host>(h: &mut H, c: &Config, channel: u32, at: u64) {
    dma_put(h, channel, dma::CURDESC, at as u32);
    if c.address_bits > 32 {
        dma_put(h, channel, dma::CURDESC_MSB, (at >> 32) as u32);
    }
}

/// Writes TAILDESC, which starts the channel. Both halves go in one access, because the lower one
/// starts the engine.
#[inline(always)]
pub(super) fn write_tail<H: Host>(h: &mut H, c: &Config, channel: u32, at: u64) {
    if c.address_bits > 32 {
        h.write64(Reg { region: DMA, offset: channel + dma::TAILDESC }, at);
    } else {
        dma_put(h, channel, dma::TAILDESC, at as u32);
    }
}

/// Linux's limit for each step of a reset.
const RESET: Span = Span::from_ms(50);

fn wait<H: Host>(h: &mut H, what: &'static str, done: impl FnMut(&mut H) -> bool) -> Opened {
    let done = common::wait(h, RESET, |h| h.delay(Span::from_ms(1)), done);
    if done { Ok(()) } else { Err(OpenError::Timeout(what)) }
}

/// Resets both channels and the MAC. The reset bit of either channel resets all.
pub(super) fn reset<H: Host>(h: &mut H) -> Opened {
    mdio::off(h);
    dma_put(h, MM2S, dma::CR, cr::RESET);
    wait(h, "DMA reset", |h| dma_get(h, MM2S, dma::CR) & cr::RESET == 0)?;
    wait(h, "PHY reset", |h| get(h, mac::IS) & int::PHY_RESET_COMPLETE != 0)
}

/// Stops both channels, waits up to 100 ms for each to halt, then resets all.
pub(super) fn stop<H: Host>(h: &mut H) -> Opened {
    for channel in [S2MM, MM2S] {
        let word = dma_get(h, channel, dma::CR);
        dma_put(h, channel, dma::CR, word & !(cr::RS | cr::IRQ_ALL));
        for _ in 0..5 {
            if dma_get(h, channel, dma::SR) & sr::HALTED != 0 {
                break;
            }
            h.delay(Span::from_ms(20));
        }
    }
    reset(h)
}

/// Sets the MAC up after a reset, receiver and transmitter still off.
pub(super) fn init<H: Host>(h: &mut H, c: &Config, speed: Speed, filter: &Filter) {
    let word = get(h, mac::RCW1);
    put(h, mac::RCW1, word & !rcw1::RX);
    if get(h, mac::IP) & int::RX_REJECT != 0 {
        put(h, mac::IS, int::RX_REJECT);
    }
    put(h, mac::IE, int::RX_REJECT | int::RX_FIFO_OVERFLOW);
    put(h, mac::FCC, if c.flow_control { fcc::RX | fcc::TX } else { 0 });
    set_speed(h, speed);
    options(h, c, false);
    set_address(h, c.mac);
    set_filter(h, filter);
}

/// Switches receiver and transmitter, and sets which frames they take. The MAC makes and strips the
/// FCS.
pub(super) fn options<H: Host>(h: &mut H, c: &Config, on: bool) {
    let choose = |bit, yes| if yes { bit } else { 0 };
    let clear = tc::TX | tc::VLAN | tc::JUMBO | tc::FCS;
    let word = get(h, mac::TC) & !clear;
    put(h, mac::TC, word | tc::VLAN | choose(tc::JUMBO, c.is_jumbo()) | choose(tc::TX, on));
    let clear = rcw1::RX | rcw1::VLAN | rcw1::JUMBO | rcw1::FCS | rcw1::LENGTH_TYPE_DISABLE;
    let word = get(h, mac::RCW1) & !clear;
    put(h, mac::RCW1, word | rcw1::VLAN | choose(rcw1::JUMBO, c.is_jumbo()) | choose(rcw1::RX, on));
}
pub(super) fn set_speed<H: Host>(h: &mut H, speed: Speed) {
    let bits = match speed {
        Speed::M10 => emmc::SPEED_10,
        Speed::M100 => emmc::SPEED_100,
        Speed::M1000 => emmc::SPEED_1000,
    };
    let word = get(h, mac::EMMC) & !emmc::SPEED;
    put(h, mac::EMMC, word | bits);
}

/// Returns an address as two little-endian words.
fn words(mac: [u8; 6]) -> (u32, u32) {
    let [a, b, c, d, e, f] = mac;
    (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, 0, 0]))
}

fn set_address<H: Host>(h: &mut H, address: [u8; 6]) {
    let (low, high) = words(address);
    put(h, mac::UAW0, low);
    // The upper half holds other fields.
    let word = get(h, mac::UAW1) & !0xffff;
    put(h, mac::UAW1, word | high);
}

/// Sets the frame filter. More groups than its four entries imply all multicast.
pub(super) fn set_filter<H: Host>(h: &mut H, f: &Filter) {
    let mut index = get(h, mac::FMI) & !(fmi::PROMISCUOUS | fmi::INDEX);
    if f.promiscuous {
        index |= fmi::PROMISCUOUS;
    }
    let mut used = 0;
    let mut entry = |h: &mut H, pattern: (u32, u32), mask: (u32, u32)| {
        put(h, mac::FMI, index | used);
        put(h, mac::AF0, pattern.0);
        put(h, mac::AF1, pattern.1);
        put(h, mac::AM0, mask.0);
        put(h, mac::AM1, mask.1);
        put(h, mac::FFE, 1);
        used += 1;
    };
    if f.all_multicast || f.multicast.len() > mac::FILTERS as usize {
        // Matches the group bit alone.
        entry(h, (1, 0), (1, 0));
    } else {
        for group in &f.multicast {
            entry(h, words(*group), (!0, 0xffff));
        }
    }
    for i in used..mac::FILTERS {
        put(h, mac::FMI, index | i);
        put(h, mac::FFE, 0);
    }
}
