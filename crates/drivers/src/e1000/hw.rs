//! The controller without its rings: reset, EEPROM, PHY, filters, bring-up.
//!
//! Source: e1000_hw.c `e1000_reset_hw`, `e1000_init_hw`, `e1000_read_eeprom`, `e1000_read_phy_reg`;
//! developer's manual 5.6 (EEPROM), 13.4. Every loop has a limit in the host's time.

use super::config::{Config, Eeprom};
use super::part::{Bus, Part};
use crate::{Filter, OpenError, Opened, common};
use doorbell_hal::{Host, Reg, Span, fail_if};
use doorbell_layout::e1000::{self as l, eeprom, phy, reg};
use doorbell_packet::ethernet::{FCS, MAX_FRAME};
use doorbell_packet::toeplitz;

pub(super) fn get<H: Host>(h: &mut H, r: u32) -> u32 {
    h.read32(Reg::at(r))
}
pub(super) fn put<H: Host>(h: &mut H, r: u32, v: u32) {
    h.write32(Reg::at(r), v);
}
/// Flushes posted writes by a read.
pub(super) fn flush<H: Host>(h: &mut H) {
    get(h, reg::STATUS);
}

/// Polls until `done`, for at most `limit` of the host's time.
fn wait<H: Host>(
    h: &mut H,
    step: &'static str,
    limit: Span,
    done: impl FnMut(&mut H) -> bool,
) -> Opened {
    if common::wait(h, limit, H::relax, done) { Ok(()) } else { Err(OpenError::Timeout(step)) }
}

/// Takes the PHY and the NVM from the firmware (e1000_82571 `e1000_get_hw_semaphore_82574`).
fn own<H: Host>(h: &mut H, c: &Config) -> Opened {
    if !c.part.is_82574() {
        return Ok(());
    }
    wait(h, "EXTCNF_CTRL", Span::from_ms(40), |h| {
        let v = get(h, reg::EXTCNF_CTRL);
        put(h, reg::EXTCNF_CTRL, v | l::EXTCNF_SW_OWNER);
        get(h, reg::EXTCNF_CTRL) & l::EXTCNF_SW_OWNER != 0
    })
}

/// Gives them back.
fn disown<H: Host>(h: &mut H, c: &Config) {
    if c.part.is_82574() {
        let v = get(h, reg::EXTCNF_CTRL);
        put(h, reg::EXTCNF_CTRL, v & !l::EXTCNF_SW_OWNER);
    }
}

/// Has the chip end its requests on PCI Express. A chip that does not is reset all the same.
fn end_requests<H: Host>(h: &mut H) {
    let ctrl = get(h, reg::CTRL);
    put(h, reg::CTRL, ctrl | l::CTRL_GIO_DISABLE);
    let ended = |h: &mut H| get(h, reg::STATUS) & l::STATUS_GIO_ENABLED == 0;
    common::wait(h, Span::from_ms(80), H::relax, ended);
}

/// Resets the controller, all interrupts masked.
pub(super) fn reset<H: Host>(h: &mut H, c: &Config) -> Opened {
    if c.part.is_82574() {
        end_requests(h);
    }
    put(h, reg::IMC, !0);
    put(h, reg::RCTL, 0);
    put(h, reg::TCTL, l::TCTL_PSP);
    flush(h);
    h.delay(Span::from_ms(10));
    own(h, c)?;
    let ctrl = get(h, reg::CTRL) | l::CTRL_RST;
    match c.io {
        // These parts cannot acknowledge the 64-bit write that resets them.
        Some(region) => {
            h.write32(Reg { region, offset: l::io::IOADDR }, reg::CTRL);
            h.write32(Reg { region, offset: l::io::IODATA }, ctrl);
        }
        None => put(h, reg::CTRL, ctrl),
    }
    disown(h, c);
    if c.part.is_82574() {
        wait(h, "EEPROM", Span::from_ms(10), |h| get(h, reg::EECD) & l::EECD_AUTO_RD != 0)?;
        h.delay(Span::from_ms(25));
    } else if c.part == Part::I82544 {
        h.delay(Span::from_us(10));
        let ext = get(h, reg::CTRL_EXT);
        put(h, reg::CTRL_EXT, ext | l::CTRL_EXT_EE_RST);
        flush(h);
        h.delay(Span::from_ms(2));
    } else {
        // The part reads its EEPROM by itself.
        h.delay(Span::from_ms(5));
    }
    wait(h, "reset", Span::from_ms(10), |h| get(h, reg::CTRL) & l::CTRL_RST == 0)?;
    if c.part.is_82540_or_later() && !c.part.is_82574() {
        let manc = get(h, reg::MANC);
        put(h, reg::MANC, manc & !l::MANC_ARP_EN);
    }
    put(h, reg::IMC, !0);
    get(h, reg::ICR);
    Ok(())
}

/// Sets up addresses, tables and flow control, and starts the PHY's negotiation.
pub(super) fn init<H: Host>(
    h: &mut H,
    c: &Config,
    mac: [u8; 6],
    groups: &[[u8; 6]],
    vlans: &[u16],
) -> Opened {
    if c.part.is_82574() {
        set_bits(h);
    }
    put(h, reg::VET, 0);
    set_vlan_table(h, vlans);
    set_address(h, 0, Some(mac));
    set_groups(h, groups);
    flow_control(h, c);
    let ctrl = get(h, reg::CTRL) & !(l::CTRL_FRCSPD | l::CTRL_FRCDPX | l::CTRL_LRST);
    let vlan = if c.vlan { l::CTRL_VME } else { 0 };
    let pause = if c.flow_control { l::CTRL_RFCE | l::CTRL_TFCE } else { 0 };
    let clear = l::CTRL_VME | l::CTRL_RFCE | l::CTRL_TFCE;
    put(h, reg::CTRL, (ctrl & !clear) | l::CTRL_SLU | l::CTRL_ASDE | vlan | pause);
    negotiate(h, c)
}

/// Sets bits that the 82574 needs (`e1000_initialize_hw_bits_82571`), and has reading ICR disable
/// all causes.
fn set_bits<H: Host>(h: &mut H) {
    let mut set = |r, clear: u32, bits: u32| {
        let v = get(h, r);
        put(h, r, v & !clear | bits);
    };
    set(reg::TARC0, 15 << 27, 1 << 26);
    set(reg::CTRL_EXT, 1 << 23, 1 << 22 | l::CTRL_EXT_IAME);
    set(reg::GCR, 0, 1 << 22);
    set(reg::GCR2, 0, 1);
    put(h, reg::IAM, !0);
}

/// Returns the causes of so many queues, received frames and those sent.
pub(super) const fn queue_causes(queues: u16) -> u32 {
    (l::INT_RXQ0 | l::INT_TXQ0) * ((1 << queues) - 1)
}

/// Gives each queue's received frames, each queue's sent ones and other causes a vector of their
/// own, in this order; the queues' clear their causes (`e1000_configure_msix`). Interrupts are
/// `interval` apart.
pub(super) fn set_vectors<H: Host>(h: &mut H, interval: u32, queues: u16) {
    let other = 2 * u32::from(queues);
    for vector in 0..=other {
        put(h, reg::EITR + 4 * vector, interval.max(1));
    }
    let entry = |vector, at: u32| (l::IVAR_VALID | vector) << at;
    let mut ivar = entry(other, l::IVAR_OTHER) | l::IVAR_EVERY_WB;
    for queue in 0..queues.into() {
        ivar |= entry(queue, l::IVAR_RXQ0 + 4 * queue);
        ivar |= entry(other / 2 + queue, l::IVAR_TXQ0 + 4 * queue);
    }
    put(h, reg::IVAR, ivar);
    // The message of other causes disables them, and reading ICR all but the queues'.
    put(h, reg::IAM, !(31 * l::INT_RXQ0) | l::INT_OTHER);
    let ext = get(h, reg::CTRL_EXT);
    put(h, reg::CTRL_EXT, ext | l::CTRL_EXT_PBA_CLR | l::CTRL_EXT_EIAME);
    put(h, reg::EIAC, queue_causes(queues));
    flush(h);
}

/// Spreads received frames over two queues, by the hash of addresses, and of the ports of TCP. The
/// chip has it instead of the packet checksum (RXCSUM.PCSD), and knows none of UDP's ports.
pub(super) fn spread<H: Host>(h: &mut H) {
    for (r, word) in (reg::RSSRK..).step_by(4).zip(toeplitz::MICROSOFT.as_chunks().0) {
        put(h, r, u32::from_le_bytes(*word));
    }
    for i in 0..reg::RETA_LEN {
        put(h, reg::RETA + 4 * i, l::RETA_QUEUE << 8 | l::RETA_QUEUE << 24);
    }
    let v4 = l::MRQC_TCP_IPV4 | l::MRQC_IPV4;
    let v6 = l::MRQC_TCP_IPV6 | l::MRQC_IPV6_EX | l::MRQC_IPV6;
    put(h, reg::MRQC, l::MRQC_RSS | v4 | v6);
}

/// Sets receive address `i`, or clears it.
pub(super) fn set_address<H: Host>(h: &mut H, i: u32, mac: Option<[u8; 6]>) {
    let (low, high) = match mac {
        Some([a, b, c, d, e, f]) => {
            (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, 0, 0]) | l::RAH_AV)
        }
        None => (0, 0),
    };
    put(h, reg::RAL0 + 8 * i, low);
    flush(h);
    put(h, reg::RAH0 + 8 * i, high);
    flush(h);
}

/// Returns the KiB of packet memory for receive, of 64 or of the 82574's 40 (e1000_main.c
/// `e1000_reset`, netdev.c `e1000e_reset`).
pub(super) const fn packet_memory(c: &Config) -> u32 {
    let (rx, all) = if c.part.is_82574() { (32, 40) } else { (48, 64) };
    let longest = c.max_frame + FCS as u32;
    if c.max_frame <= MAX_FRAME as u32 {
        return rx;
    }
    // Two frames with a descriptor each must fit on the transmit side.
    let tx_least = ((c.max_frame + 16) * 2).next_multiple_of(1024) >> 10;
    let rx_least = longest.next_multiple_of(1024) >> 10;
    let tx = all - rx;
    let mut left = if tx < tx_least { rx - (tx_least - tx) } else { rx };
    if matches!(c.part, Part::I82545) {
        left &= !7;
    }
    if left < rx_least { rx_least } else { left }
}

fn flow_control<H: Host>(h: &mut H, c: &Config) {
    let pba = packet_memory(c);
    put(h, reg::PBA, pba);
    let bytes = pba << 10;
    let high = (bytes * 9 / 10).min(bytes - (c.max_frame + 4)) & 0xfff8;
    // The address and type of pause frames.
    put(h, reg::FCT, 0x8808);
    put(h, reg::FCAH, 0x0100);
    put(h, reg::FCAL, 0x00c2_8001);
    put(h, reg::FCTTV, 0xffff);
    let (low, high) = if c.flow_control { ((high - 8) | 1 << 31, high) } else { (0, 0) };
    put(h, reg::FCRTL, low);
    put(h, reg::FCRTH, high);
}

// ---- PHY ----

fn mdi<H: Host>(h: &mut H, word: u32) -> Opened<u16> {
    put(h, reg::MDIC, word);
    let mut read = 0;
    wait(h, "MDIC", Span::from_us(3200), |h| {
        read = get(h, reg::MDIC);
        read & l::MDIC_READY != 0
    })?;
    fail_if(read & l::MDIC_ERROR != 0, OpenError::Timeout("PHY: no answer"))?;
    Ok(read as u16)
}
/// Reads a register of the PHY, which it takes for that.
pub(super) fn own_phy_read<H: Host>(h: &mut H, c: &Config, r: u8) -> Opened<u16> {
    own(h, c)?;
    let read = phy_read(h, r);
    disown(h, c);
    read
}
fn phy_read<H: Host>(h: &mut H, r: u8) -> Opened<u16> {
    mdi(h, u32::from(r) << l::MDIC_REG_SHIFT | phy::ADDRESS << l::MDIC_PHY_SHIFT | l::MDIC_OP_READ)
}
fn phy_write<H: Host>(h: &mut H, r: u8, v: u16) -> Opened {
    let to = u32::from(r) << l::MDIC_REG_SHIFT | phy::ADDRESS << l::MDIC_PHY_SHIFT;
    mdi(h, u32::from(v) | to | l::MDIC_OP_WRITE).map(drop)
}

fn negotiate<H: Host>(h: &mut H, c: &Config) -> Opened {
    own(h, c)?;
    let begun = begin_negotiation(h, c);
    disown(h, c);
    begun
}

fn begin_negotiation<H: Host>(h: &mut H, c: &Config) -> Opened {
    let id = u32::from(phy_read(h, phy::ID1)?) << 16 | u32::from(phy_read(h, phy::ID2)?);
    let known = match id & phy::ID_MASK {
        phy::ID_M88E1000 | phy::ID_M88E1000_INSIDE | phy::ID_M88E1011 => !c.part.is_82574(),
        phy::ID_BM => c.part.is_82574(),
        _ => false,
    };
    fail_if(!known, OpenError::Phy(id))?;
    let pause = if c.flow_control { phy::ADV_PAUSE } else { 0 };
    phy_write(h, phy::AUTONEG_ADV, phy::ADV_ALL | pause)?;
    phy_write(h, phy::CTRL_1000T, phy::ADV_1000_FD)?;
    let ctrl = phy_read(h, phy::CTRL)?;
    phy_write(h, phy::CTRL, ctrl | phy::CTRL_AUTONEG | phy::CTRL_RESTART)
}

// ---- EEPROM ----

/// Reads and checks the EEPROM. Returns the MAC address.
pub(super) fn read_mac<H: Host>(h: &mut H, c: &Config) -> Opened<[u8; 6]> {
    let (mut sum, mut mac) = (0u16, [0; 6]);
    for i in 0..eeprom::WORDS {
        let word = eeprom_word(h, c, c.eeprom, i)?;
        sum = sum.wrapping_add(word);
        if i < 3 {
            let at = usize::from(i) * 2;
            mac[at..at + 2].copy_from_slice(&word.to_le_bytes());
        }
    }
    if sum == eeprom::SUM { Ok(mac) } else { Err(OpenError::Checksum(sum)) }
}
pub(super) fn eeprom_word<H: Host>(h: &mut H, c: &Config, how: Eeprom, word: u8) -> Opened<u16> {
    match how {
        Eeprom::Eerd => {
            let (shift, done) = match c.part.is_82574() {
                true => (l::EERD_ADDR_SHIFT_82574, l::EERD_DONE_82574),
                false => (l::EERD_ADDR_SHIFT, l::EERD_DONE),
            };
            put(h, reg::EERD, u32::from(word) << shift | l::EERD_START);
            let mut read = 0;
            wait(h, "EERD", Span::from_ms(5), |h| {
                read = get(h, reg::EERD);
                read & done != 0
            })?;
            Ok((read >> l::EERD_DATA_SHIFT) as u16)
        }
        Eeprom::Microwire => {
            let eecd = get(h, reg::EECD) | l::EECD_REQ;
            put(h, reg::EECD, eecd);
            wait(h, "EECD grant", Span::from_ms(5), |h| get(h, reg::EECD) & l::EECD_GNT != 0)?;
            let mut pins =
                Pins { eecd: get(h, reg::EECD) & !(l::EECD_DI | l::EECD_SK | l::EECD_CS) };
            pins.set(h, l::EECD_CS, true);
            let address = if eecd & l::EECD_SIZE != 0 {
                eeprom::LARGE_ADDRESS_BITS
            } else {
                eeprom::SMALL_ADDRESS_BITS
            };
            pins.out(h, eeprom::READ, eeprom::OPCODE_BITS);
            pins.out(h, word.into(), address);
            let mut value = 0;
            for _ in 0..16 {
                pins.set(h, l::EECD_SK, true);
                let bit = get(h, reg::EECD) & l::EECD_DO != 0;
                value = value << 1 | u16::from(bit);
                pins.set(h, l::EECD_SK, false);
            }
            pins.set(h, l::EECD_CS | l::EECD_DI, false);
            pins.set(h, l::EECD_REQ, false);
            Ok(value)
        }
    }
}

/// The pins of the Microwire bus.
struct Pins {
    eecd: u32,
}

impl Pins {
    fn set<H: Host>(&mut self, h: &mut H, pin: u32, high: bool) {
        self.eecd = if high { self.eecd | pin } else { self.eecd & !pin };
        put(h, reg::EECD, self.eecd);
        flush(h);
        // Half a period of the clock.
        h.delay(Span::from_us(50));
    }
    fn out<H: Host>(&mut self, h: &mut H, bits: u16, n: u32) {
        for i in (0..n).rev() {
            self.set(h, l::EECD_DI, bits >> i & 1 != 0);
            self.set(h, l::EECD_SK, true);
            self.set(h, l::EECD_SK, false);
        }
        self.set(h, l::EECD_DI, false);
    }
}

// ---- filters ----

/// Returns the index of a multicast address in the table, with multicast offset 0: its bits 47 to
/// 36.
pub const fn hash(mac: [u8; 6]) -> u32 {
    (mac[4] as u32 >> 4 | (mac[5] as u32) << 4) & 0xfff
}

/// Returns RCTL's bits of a filter and of the filter of VLANs.
pub(super) const fn filter_bits(f: &Filter, vlans: bool) -> u32 {
    let vlans = if vlans { l::RCTL_VFE } else { 0 };
    match f {
        Filter { promiscuous: true, .. } => vlans | l::RCTL_UPE | l::RCTL_MPE,
        Filter { all_multicast: true, .. } => vlans | l::RCTL_MPE,
        _ => vlans,
    }
}

/// Sets the receive addresses and the multicast table.
pub(super) fn set_groups<H: Host>(h: &mut H, groups: &[[u8; 6]]) {
    // Exact matches first; the rest is hashed.
    let exact = groups.len().min(reg::RAR_LEN as usize - 1);
    for i in 1..reg::RAR_LEN {
        set_address(h, i, groups[..exact].get(i as usize - 1).copied());
    }
    let mut table = [0u32; reg::MTA_LEN as usize];
    for mac in &groups[exact..] {
        let at = hash(*mac);
        table[(at >> 5) as usize & 0x7f] |= 1 << (at & 0x1f);
    }
    for (i, word) in (0..reg::MTA_LEN).zip(table).rev() {
        put(h, reg::MTA + 4 * i, word);
        // A bridge must not merge the writes.
        flush(h);
    }
}

/// Sets the table of VLANs.
pub(super) fn set_vlan_table<H: Host>(h: &mut H, vlans: &[u16]) {
    for i in 0..reg::VFTA_LEN {
        let bits = vlans
            .iter()
            .filter(|v| u32::from(**v & 0xfff) >> 5 == i)
            .fold(0, |b, v| b | 1 << (v & 31));
        put(h, reg::VFTA + 4 * i, bits);
        flush(h);
    }
}

/// Returns whether the part can put these addresses on its bus: on conventional PCI it hangs on
/// dual address cycles.
#[inline(always)]
pub(super) const fn on_bus(c: &Config, address: u64, len: u32) -> bool {
    !matches!(c.bus, Bus::Pci) || common::within(32, address, len)
}

/// Returns whether a ring or receive buffer may be at this address.
pub(super) const fn reachable(c: &Config, address: u64, len: u32) -> bool {
    on_bus(c, address, len) && c.errata.allows(address, len)
}
