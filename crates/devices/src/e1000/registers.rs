//! Registers: contents and effects.
//!
//! A write keeps only the bits that exist (ethtool's self test expects that); other registers read
//! as zero. The I/O window reaches all registers by IOADDR and IODATA: Linux resets the card
//! through it. It answers in every region but 0, for its number depends on the slot.
//!
//! Source: SDM chapter 13; 13.2 for narrow accesses.

use super::config::{Slot, Variant};
use super::device::{E1000, Forbidden};
use super::ring::{LEN_MASK, QUEUES, Ring};
use super::rss::Rss;
use super::{filter::RAH_MASK, interrupt::TIMER};
use alloc::boxed::Box;
use doorbell_hal::{Port, Reg, Time};
use doorbell_layout::e1000::{
    CTRL_EXT_EE_RST, CTRL_EXT_EIAME, CTRL_EXT_IAME, CTRL_FD, CTRL_GIO_DISABLE, CTRL_PHY_RST,
    CTRL_RST, CTRL_SLU, CTRL_SPD_1000, CTRL_TFCE, EECD_AUTO_RD, EECD_DO, EECD_GNT, EECD_PRES,
    EECD_REQ, EEMNGCTL_CFG_DONE, EERD_ADDR_SHIFT, EERD_ADDR_SHIFT_82574, EERD_DATA_SHIFT,
    EERD_DONE, EERD_DONE_82574, EERD_START, INT_ASSERTED, INT_MDAC, MDIC_DATA, MDIC_ERROR,
    MDIC_INT_EN, MDIC_OP_READ, MDIC_OP_WRITE, MDIC_PHY_SHIFT, MDIC_READY, MDIC_REG_SHIFT,
    PSRCTL_RESET, RCTL_DTYP, RCTL_DTYP_SPLIT, RCTL_EN, RCTL_LBM_MAC, RFCTL_EXTEN, RxSplit,
    STATUS_BUS64, STATUS_FD, STATUS_GIO_ENABLED, STATUS_LU, STATUS_PCI66, STATUS_PCIX_MODE,
    STATUS_TXOFF, SWSM_SMBI, SWSM_SWESMBI, TARC_COUNT, TARC_ENABLE, TARC_RESET, TCTL_EN, TIMER_FPD,
    io, phy, reg, reg::stat,
};
use doorbell_packet::vlan;

/// Registers that only hold what was written to them, and those that steer.
#[derive(Clone, Debug, Default)]
pub(super) struct Registers {
    pub(super) ctrl: u32,
    ctrl_ext: u32,
    eecd: u32,
    eerd: u32,
    mdic: u32,
    fcal: u32,
    fcah: u32,
    fct: u32,
    pub(super) vet: u32,
    pub(super) rctl: u32,
    pub(super) fcttv: u32,
    txcw: u32,
    pub(super) tctl: u32,
    tipg: u32,
    ait: u32,
    ledctl: u32,
    pba: u32,
    pub(super) fcrtl: u32,
    pub(super) fcrth: u32,
    pub(super) rdtr: u32,
    pub(super) radv: u32,
    pub(super) rsrpd: u32,
    pub(super) tidv: u32,
    pub(super) tadv: u32,
    tspmt: u32,
    pub(super) rxcsum: u32,
    wuc: u32,
    manc: u32,
    ioaddr: u32,
    /// KiB of packet memory.
    memory: u32,
    /// Registers that only the 82574 has.
    newest: Option<Box<Newest>>,
}

/// Registers of the 82574 that only hold what was written to them, and those that steer.
#[derive(Clone, Debug, Default)]
struct Newest {
    extcnf: u32,
    phy_ctrl: u32,
    /// Of each queue.
    tarc: [u32; QUEUES],
    rfctl: u32,
    psrctl: u32,
    rss: Rss,
    gcr: u32,
    gcr2: u32,
    swsm: u32,
    eewr: u32,
}

impl Newest {
    fn new() -> Newest {
        Newest { tarc: [TARC_RESET; QUEUES], psrctl: PSRCTL_RESET, ..Newest::default() }
    }
}

impl Registers {
    pub(super) fn new(variant: Variant) -> Registers {
        let (memory, pba) = variant.packet_memory();
        Registers {
            ctrl: CTRL_FD | CTRL_SPD_1000,
            mdic: MDIC_READY,
            vet: vlan::TPID.into(),
            pba,
            memory,
            newest: variant.is_82574().then(|| Box::new(Newest::new())),
            ..Registers::default()
        }
    }

    /// Bytes of receive FIFO.
    pub(super) fn rx_fifo(&self) -> usize {
        self.pba.min(self.memory) as usize * 1024
    }

    /// Bytes of transmit FIFO.
    pub(super) fn tx_fifo(&self) -> usize {
        (self.memory - self.pba.min(self.memory)) as usize * 1024
    }

    /// Returns true if receive descriptors are extended (82574 7.1.5).
    #[inline]
    pub(super) fn is_extended(&self) -> bool {
        self.newest.as_ref().is_some_and(|n| n.rfctl & RFCTL_EXTEN != 0)
    }

    /// Returns the sizes of a descriptor's buffers if descriptors split packets (82574 7.1.6).
    pub(super) fn split_sizes(&self) -> Option<[usize; RxSplit::BUFFERS]> {
        let n = self.newest.as_ref().filter(|n| n.rfctl & RFCTL_EXTEN != 0)?;
        let field = |shift: u32, mask: u32| (n.psrctl >> shift & mask) as usize;
        let kib = |shift| field(shift, 0x3f) << 10;
        (self.rctl & RCTL_DTYP == RCTL_DTYP_SPLIT)
            .then(|| [field(0, 0x7f) << 7, kib(8), kib(16), kib(24)])
    }

    /// Returns RFCTL, and what hashes frames, of an 82574 whose receive descriptors are extended.
    pub(super) fn parsing(&mut self) -> Option<(u32, &mut Rss)> {
        let n = self.newest.as_mut().filter(|n| n.rfctl & RFCTL_EXTEN != 0)?;
        Some((n.rfctl, &mut n.rss))
    }

    /// Returns whether there are two queues of each direction.
    #[inline(always)]
    pub(super) fn has_queues(&self) -> bool {
        self.newest.is_some()
    }

    /// Returns the packets in a row that a transmit queue may send while the other one has some,
    /// or `None` if it is off (82574 10.2.6).
    #[inline]
    pub(super) fn turn(&self, queue: usize) -> Option<u32> {
        let Some(n) = &self.newest else { return (queue == 0).then_some(u32::MAX) };
        let tarc = n.tarc[queue];
        (tarc & TARC_ENABLE != 0).then(|| (tarc & TARC_COUNT).max(1))
    }

    /// CTRL_EXT says that a message disables its causes by IAM.
    pub(super) fn auto_masks_messages(&self) -> bool {
        self.ctrl_ext & CTRL_EXT_EIAME != 0
    }

    /// RCTL says loopback.
    pub(super) fn loops(&self) -> bool {
        self.rctl & RCTL_LBM_MAC != 0
    }

    /// CTRL says that we send pause frames.
    pub(super) fn sends_pauses(&self) -> bool {
        self.ctrl & CTRL_TFCE != 0
    }

    fn flow_address(&self) -> [u8; 6] {
        let (l, h) = (self.fcal.to_le_bytes(), self.fcah.to_le_bytes());
        [l[0], l[1], l[2], l[3], h[0], h[1]]
    }

    /// Returns true if `frame`, of 14 bytes at least, is for the MAC itself.
    pub(super) fn is_flow_control(&self, frame: &[u8]) -> bool {
        self.fct != 0
            && frame[12..14] == (self.fct as u16).to_be_bytes()
            && frame[..6] == self.flow_address()
    }

    /// A pause frame of so many quanta; none is XON.
    pub(super) fn pause_frame(&self, from: [u8; 6], quanta: u16) -> [u8; 60] {
        let mut f = [0; 60];
        f[..6].copy_from_slice(&self.flow_address());
        f[6..12].copy_from_slice(&from);
        f[12..14].copy_from_slice(&(self.fct as u16).to_be_bytes());
        f[15] = 1;
        f[16..18].copy_from_slice(&quanta.to_be_bytes());
        f
    }

    /// Registers that only hold a value, and which of its bits.
    #[inline(always)]
    fn plain(&mut self, offset: u32) -> Option<(&mut u32, u32)> {
        Some(match offset {
            reg::FCAL => (&mut self.fcal, !0),
            reg::FCAH => (&mut self.fcah, 0xffff),
            reg::FCT => (&mut self.fct, 0xffff),
            reg::VET => (&mut self.vet, 0xffff),
            reg::RCTL => {
                (&mut self.rctl, if self.newest.is_some() { 0x7fff_fffe } else { 0x07ff_fffe })
            }
            reg::FCTTV => (&mut self.fcttv, 0xffff),
            reg::TXCW => (&mut self.txcw, 0xc000_ffff),
            reg::TCTL => (&mut self.tctl, !0),
            reg::TIPG => (&mut self.tipg, 0x3fff_ffff),
            reg::AIT => (&mut self.ait, 0xffff),
            reg::LEDCTL => (&mut self.ledctl, !0),
            reg::FCRTL => (&mut self.fcrtl, 0x8000_fff8),
            reg::FCRTH => (&mut self.fcrth, 0xfff8),
            reg::RDTR => (&mut self.rdtr, TIMER),
            reg::TIDV => (&mut self.tidv, TIMER),
            reg::TSPMT => (&mut self.tspmt, !0),
            reg::RXCSUM => (&mut self.rxcsum, 0x3fff),
            reg::WUC => (&mut self.wuc, !0),
            reg::MANC => (&mut self.manc, !0),
            _ => return None,
        })
    }

    /// The same, of those that the 82574 alone has.
    fn newest(&mut self, offset: u32) -> Option<(&mut u32, u32)> {
        let n = self.newest.as_mut()?;
        Some(match offset {
            reg::EXTCNF_CTRL => (&mut n.extcnf, 0x0fff_002f),
            reg::PHY_CTRL => (&mut n.phy_ctrl, 0xffff),
            reg::TARC0 => (&mut n.tarc[0], 0x7fff_ffff),
            reg::TARC1 => (&mut n.tarc[1], 0x7fff_ffff),
            reg::PSRCTL => (&mut n.psrctl, 0x3f3f_3f7f),
            reg::RFCTL => (&mut n.rfctl, 0x0003_ffff),
            reg::GCR => (&mut n.gcr, !0),
            reg::GCR2 => (&mut n.gcr2, !0),
            _ => return n.rss.register(offset),
        })
    }

    /// The same, of those that came with the 82540.
    fn newer(&mut self, offset: u32) -> Option<&mut u32> {
        match offset {
            reg::RADV => Some(&mut self.radv),
            reg::TADV => Some(&mut self.tadv),
            reg::RSRPD => Some(&mut self.rsrpd),
            _ => None,
        }
    }
}

/// Index of a dword in the block of `n` dwords at `base`.
fn within(offset: u32, base: u32, n: u32) -> Option<usize> {
    let i = offset.wrapping_sub(base) / 4;
    (offset >= base && i < n).then_some(i as usize)
}

/// Returns the register of the first queue that is like this one of the second.
const fn of_second(offset: u32) -> u32 {
    offset.wrapping_sub(reg::QUEUE)
}

/// Registers of a ring, from its first.
const LEN: u32 = reg::RDLEN - reg::RDBAL;
const HEAD: u32 = reg::RDH - reg::RDBAL;
const TAIL: u32 = reg::RDT - reg::RDBAL;

impl Forbidden {
    /// Counts a write of `v` to a register of a ring.
    fn ring(&mut self, ring: &Ring, offset: u32, v: u32, enabled: bool) {
        let misplaced = match offset {
            0 => v & 0xf != 0,
            LEN => v & !LEN_MASK != 0,
            _ => false,
        };
        self.ring_places += u64::from(misplaced);
        self.heads += u64::from(offset == HEAD && enabled);
        self.overruns += u64::from(offset == TAIL && enabled && ring.is_passed_by(v));
    }
}

impl E1000 {
    // ---- widths and windows ----

    pub(super) fn read_any<P: Port>(&mut self, p: &mut P, at: Time, r: Reg, size: u8) -> u64 {
        let low = u64::from(self.read_dword(p, at, r.region, r.offset & !3));
        if size >= 8 {
            return low
                | u64::from(self.read_dword(p, at, r.region, (r.offset & !3).wrapping_add(4)))
                    << 32;
        }
        let bits = u32::from(size.clamp(1, 4)) * 8;
        low >> (8 * (r.offset & 3)) & ((1 << bits) - 1)
    }

    pub(super) fn write_any<P: Port>(&mut self, p: &mut P, at: Time, r: Reg, size: u8, v: u64) {
        if size < 4 || r.offset & 3 != 0 {
            self.counters.ignored_writes += 1;
            return;
        }
        self.write_dword(p, at, r.region, r.offset, v as u32);
        if size >= 8 {
            self.write_dword(p, at, r.region, r.offset.wrapping_add(4), (v >> 32) as u32);
        }
        self.line_rises(p, at);
        self.update_next_event();
    }

    fn read_dword<P: Port>(&mut self, p: &mut P, at: Time, region: u8, offset: u32) -> u32 {
        match (region, offset) {
            (0, offset) => self.read_register(p, at, offset),
            (_, io::IOADDR) => self.regs.ioaddr,
            (_, io::IODATA) => self.read_register(p, at, self.regs.ioaddr & !3),
            _ => 0,
        }
    }

    fn write_dword<P: Port>(&mut self, p: &mut P, at: Time, region: u8, offset: u32, v: u32) {
        match (region, offset) {
            (0, offset) => self.write_register(p, at, offset, v),
            (_, io::IOADDR) => self.regs.ioaddr = v,
            (_, io::IODATA) => self.write_register(p, at, self.regs.ioaddr & !3, v),
            _ => self.counters.ignored_writes += 1,
        }
    }

    // ---- reading ----

    fn read_register<P: Port>(&mut self, p: &mut P, at: Time, offset: u32) -> u32 {
        if let Some((v, _)) = self.regs.plain(offset) {
            return *v;
        }
        if let Some(v) = self.regs.newer(offset) {
            return *v;
        }
        if self.regs.has_queues()
            && let Some(v) = self.read_newest(offset)
        {
            return v;
        }
        match offset {
            reg::CTRL | reg::CTRL_DUP => self.regs.ctrl,
            reg::STATUS => self.status(at),
            reg::EECD => {
                let granted = if self.regs.eecd & EECD_REQ != 0 { EECD_GNT } else { 0 };
                let out = if self.eeprom.data_out { EECD_DO } else { 0 };
                let loaded = if self.cfg.variant.is_82574() { EECD_AUTO_RD } else { 0 };
                self.regs.eecd | granted | out | EECD_PRES | loaded
            }
            reg::EERD => self.regs.eerd,
            reg::CTRL_EXT => self.regs.ctrl_ext,
            reg::MDIC => self.regs.mdic,
            reg::ICR => self.read_causes(p, at),
            reg::ITR => self.irq.line.itr,
            reg::IMS => self.irq.mask,
            reg::PBA => self.regs.pba | self.regs.memory.saturating_sub(self.regs.pba) << 16,
            reg::RDBAL | reg::RDBAH | reg::RDLEN | reg::RDH | reg::RDT | reg::RXDCTL => {
                read_ring(&self.rx.rings[0], offset)
            }
            reg::TDBAL | reg::TDBAH | reg::TDLEN | reg::TDH | reg::TDT | reg::TXDCTL => {
                read_ring(&self.tx.queues[0].ring, offset)
            }
            reg::stat::FIRST..=reg::stat::LAST => self.stats.read(offset),
            _ => {
                if let Some(i) = within(offset, reg::MTA, reg::MTA_LEN) {
                    self.filter.mta[i]
                } else if let Some(i) = within(offset, reg::VFTA, reg::VFTA_LEN) {
                    self.filter.vfta[i]
                } else if let Some(i) = within(offset, reg::RAL0, 2 * reg::RAR_LEN) {
                    self.filter.addresses[i / 2][i % 2]
                } else {
                    0
                }
            }
        }
    }

    fn status(&self, at: Time) -> u32 {
        let slot = match self.cfg.slot {
            Slot::Pci { mhz66, wide } => {
                (if mhz66 { STATUS_PCI66 } else { 0 }) | if wide { STATUS_BUS64 } else { 0 }
            }
            Slot::PciX { clock } => STATUS_PCIX_MODE | STATUS_BUS64 | (u32::from(clock) & 3) << 14,
            Slot::Express { .. } if self.regs.ctrl & CTRL_GIO_DISABLE == 0 => STATUS_GIO_ENABLED,
            Slot::Express { .. } => 0,
        };
        let mode = self.mode();
        let link = if self.link { STATUS_LU | (mode.speed as u32) << 6 } else { 0 };
        let duplex = if mode.full { STATUS_FD } else { 0 };
        let paused = if at < self.tx.paused { STATUS_TXOFF } else { 0 };
        duplex | slot | link | paused
    }

    /// ICR: reading clears it, and the line falls. On an 82574 where causes are enabled and none of
    /// them is set, reading does nothing; where one is set, it disables those of IAM, with
    /// CTRL_EXT.IAME (82574 10.2.4.1).
    fn read_causes<P: Port>(&mut self, p: &mut P, at: Time) -> u32 {
        let newest = self.cfg.variant.is_82574();
        let asserts = if newest { self.irq.is_asserted() } else { self.irq.line.high };
        if newest && !asserts && self.irq.mask != 0 {
            return self.irq.causes;
        }
        if newest && asserts && self.regs.ctrl_ext & CTRL_EXT_IAME != 0 {
            self.irq.auto_mask();
        }
        let asserted = if self.cfg.int_asserted && asserts { INT_ASSERTED } else { 0 };
        let causes = core::mem::take(&mut self.irq.causes);
        self.line_follows(p, at);
        self.update_due();
        causes | asserted
    }

    /// Causes or mask have changed.
    fn line_follows<P: Port>(&mut self, p: &mut P, at: Time) {
        if self.irq.consider(at) {
            self.put_line(p, at, false);
        }
    }

    /// Reads a register that only the 82574 has.
    fn read_newest(&mut self, offset: u32) -> Option<u32> {
        if let Some((v, _)) = self.regs.newest(offset) {
            return Some(*v);
        }
        let n = self.regs.newest.as_mut()?;
        match offset {
            // NVM and PHY are ready at once, and there is no firmware.
            reg::EEMNGCTL => Some(EEMNGCTL_CFG_DONE),
            reg::FWSM => Some(0),
            reg::EEWR => Some(n.eewr),
            // Reading takes the semaphore (82574 4.7).
            reg::SWSM => {
                let taken = n.swsm | SWSM_SMBI;
                Some(core::mem::replace(&mut n.swsm, taken))
            }
            stat::IAC..=stat::ICRXOC => Some(self.stats.read(offset)),
            _ => match of_second(offset) {
                r @ RX_FIRST..=RX_LAST if is_of_ring(r) => Some(read_ring(&self.rx.rings[1], r)),
                r @ TX_FIRST..=TX_LAST if is_of_ring(r) => {
                    Some(read_ring(&self.tx.queues[1].ring, r))
                }
                _ => self.irq.read(offset),
            },
        }
    }

    /// Writes a register that only the 82574 has. Returns false if there is none.
    fn write_newest(&mut self, at: Time, offset: u32, v: u32) -> bool {
        if let Some((old, bits)) = self.regs.newest(offset) {
            *old = v & bits;
            if offset == reg::RFCTL {
                self.form_changed();
            }
            return true;
        }
        let Some(n) = &mut self.regs.newest else { return false };
        match offset {
            reg::EEWR => {
                let done = if v & EERD_START != 0 { EERD_DONE_82574 } else { 0 };
                n.eewr = v & !EERD_START | done;
                if done != 0 {
                    self.eeprom.put(v >> EERD_ADDR_SHIFT_82574 & 0x3fff, (v >> 16) as u16);
                }
            }
            reg::SWSM => n.swsm = v & (SWSM_SMBI | SWSM_SWESMBI | 1 << 3),
            reg::EEMNGCTL | reg::FWSM => {}
            _ => match of_second(offset) {
                r @ RX_FIRST..=RX_LAST if is_of_ring(r) => self.write_rx_ring(at, 1, r, v),
                r @ TX_FIRST..=TX_LAST if is_of_ring(r) => self.write_tx_ring(at, 1, r, v),
                _ => return self.irq.write(at, offset, v),
            },
        }
        true
    }

    // ---- writing ----

    fn write_register<P: Port>(&mut self, p: &mut P, at: Time, offset: u32, v: u32) {
        if let Some((old, bits)) = self.regs.plain(offset) {
            *old = v & bits;
            // The timers' registers have one bit more: end the wait now.
            match offset {
                reg::RDTR if v & TIMER_FPD != 0 => {
                    self.rx.delay.expire(at, self.rx.rings.iter().any(Ring::any_waiting));
                }
                reg::TIDV if v & TIMER_FPD != 0 => {
                    let waiting = self.tx.queues.iter().any(|q| q.ring.any_waiting());
                    self.tx.delay.expire(at, waiting);
                }
                reg::RCTL => self.form_changed(),
                _ => {}
            }
            return;
        }
        if let Some(old) = self.regs.newer(offset) {
            *old = if self.cfg.variant.moderates() { v & 0xffff } else { 0 };
            return;
        }
        if self.regs.has_queues() && self.write_newest(at, offset, v) {
            return;
        }
        match offset {
            reg::CTRL | reg::CTRL_DUP => self.write_control(p, at, v),
            reg::EECD => {
                self.regs.eecd = v & 0x47;
                self.eeprom.pins(v);
            }
            reg::EERD => {
                let (shift, most, done) = match self.cfg.variant.is_82574() {
                    true => (EERD_ADDR_SHIFT_82574, 0x3fff, EERD_DONE_82574),
                    false => (EERD_ADDR_SHIFT, 0xff, EERD_DONE),
                };
                let word = u32::from(self.eeprom.word(v >> shift & most)) << EERD_DATA_SHIFT;
                let read = if v & EERD_START != 0 { done | word } else { 0 };
                self.regs.eerd = v & most << shift | read;
            }
            reg::CTRL_EXT => {
                self.regs.ctrl_ext = v & !CTRL_EXT_EE_RST;
                if v & CTRL_EXT_EE_RST != 0 {
                    self.filter.set_address(self.eeprom.mac());
                }
            }
            reg::MDIC => self.write_mdic(at, v),
            reg::ICR => {
                self.irq.causes &= !v;
                self.line_follows(p, at);
            }
            reg::ICS => self.irq.raise(at, v),
            reg::IMS => {
                self.irq.enable(v);
                self.line_follows(p, at);
            }
            reg::IMC => {
                self.irq.mask &= !v;
                self.line_follows(p, at);
            }
            reg::ITR => {
                self.irq.set_itr(if self.cfg.variant.moderates() { v & 0xffff } else { 0 });
            }
            reg::PBA => self.regs.pba = v & 0xffff,
            reg::RDBAL | reg::RDBAH | reg::RDLEN | reg::RDH | reg::RDT | reg::RXDCTL => {
                self.write_rx_ring(at, 0, offset, v);
            }
            reg::TDBAL | reg::TDBAH | reg::TDLEN | reg::TDH | reg::TDT | reg::TXDCTL => {
                self.write_tx_ring(at, 0, offset, v);
            }
            _ => {
                if let Some(i) = within(offset, reg::MTA, reg::MTA_LEN) {
                    self.filter.mta[i] = v;
                } else if let Some(i) = within(offset, reg::VFTA, reg::VFTA_LEN) {
                    self.filter.vfta[i] = v;
                } else if let Some(i) = within(offset, reg::RAL0, 2 * reg::RAR_LEN) {
                    self.filter.addresses[i / 2][i % 2] = if i % 2 == 0 { v } else { v & RAH_MASK };
                } else {
                    self.counters.ignored_writes += 1;
                }
            }
        }
    }

    /// Writes a register of receive ring `i`; `offset` is that of ring 0.
    fn write_rx_ring(&mut self, at: Time, i: usize, offset: u32, v: u32) {
        let (offset, ring) = (offset - reg::RDBAL, &mut self.rx.rings[i]);
        self.counters.rx_doorbells += u64::from(offset == TAIL);
        self.forbidden.ring(ring, offset, v, self.regs.rctl & RCTL_EN != 0);
        let moved = write_ring(ring, at, offset, v);
        let nonsense = ring.tail >= ring.size().max(1);
        self.counters.bad_doorbells += u64::from(offset == TAIL && nonsense);
        if moved {
            self.rx.restart(i);
        }
    }

    /// Writes a register of transmit ring `i`; `offset` is that of ring 0.
    fn write_tx_ring(&mut self, at: Time, i: usize, offset: u32, v: u32) {
        let (offset, ring) = (offset - reg::TDBAL, &mut self.tx.queues[i].ring);
        self.counters.tx_doorbells += u64::from(offset == TAIL);
        self.forbidden.ring(ring, offset, v, self.regs.tctl & TCTL_EN != 0);
        let announces = offset == TAIL && v != ring.tail;
        let no_link = self.regs.ctrl & CTRL_SLU == 0;
        self.forbidden.without_link += u64::from(announces && no_link);
        let moved = write_ring(ring, at, offset, v);
        let nonsense = ring.tail >= ring.size().max(1);
        self.counters.bad_doorbells += u64::from(offset == TAIL && nonsense);
        if moved {
            self.tx.restart(i);
        }
    }

    /// RCTL or RFCTL has been written: receive descriptors may be of another size.
    fn form_changed(&mut self) {
        let pieces = if self.regs.split_sizes().is_some() { 2 } else { 1 };
        for ring in &mut self.rx.rings {
            ring.set_pieces(pieces);
        }
    }

    fn write_control<P: Port>(&mut self, p: &mut P, at: Time, v: u32) {
        if v & CTRL_RST != 0 {
            return self.reset_chip(p, at);
        }
        let let_go = self.regs.ctrl & !v & CTRL_PHY_RST != 0;
        self.regs.ctrl = v;
        if let_go {
            self.phy.reset();
            self.negotiate(at);
        }
        self.follow_link(at);
    }

    fn write_mdic(&mut self, at: Time, v: u32) {
        let r = (v >> MDIC_REG_SHIFT & 31) as u8;
        let ours = v >> MDIC_PHY_SHIFT & 31 == phy::ADDRESS;
        let (read, write) = (v & MDIC_OP_READ != 0, v & MDIC_OP_WRITE != 0);
        self.regs.mdic = v & !(MDIC_READY | MDIC_ERROR) | MDIC_READY;
        if !ours || read == write {
            self.regs.mdic |= MDIC_ERROR;
        } else if read {
            let data = u32::from(self.phy.read(r, self.cfg.speed));
            self.regs.mdic = self.regs.mdic & !MDIC_DATA | data;
        } else {
            if self.phy.write(r, (v & MDIC_DATA) as u16) {
                self.negotiate(at);
            }
            self.follow_link(at);
        }
        if v & MDIC_INT_EN != 0 {
            self.irq.raise(at, INT_MDAC);
        }
    }
}

/// Registers of the first ring of each direction.
const RX_FIRST: u32 = reg::RDBAL;
const RX_LAST: u32 = reg::RXDCTL;
const TX_FIRST: u32 = reg::TDBAL;
const TX_LAST: u32 = reg::TXDCTL;
/// The last register of a ring, from its first.
const CONTROL: u32 = reg::RXDCTL - reg::RDBAL;

/// Returns true if a register between the first and the last of a ring is the ring's.
const fn is_of_ring(offset: u32) -> bool {
    matches!(offset & 0xff, 0 | 4 | LEN | HEAD | TAIL | CONTROL)
}

/// Reads a ring's register. Its offset is that of any queue.
fn read_ring(ring: &Ring, offset: u32) -> u32 {
    match offset & 0xff {
        0 => ring.base as u32,
        4 => (ring.base >> 32) as u32,
        LEN => ring.len,
        HEAD => ring.head,
        TAIL => ring.tail,
        _ => ring.control(),
    }
}

/// Writes a ring's register, `offset` from its base register. Returns true if the ring has moved.
fn write_ring(ring: &mut Ring, at: Time, offset: u32, v: u32) -> bool {
    match offset {
        0 => ring.base = ring.base & !0xffff_ffff | u64::from(v & !0xf),
        4 => ring.base = ring.base & 0xffff_ffff | u64::from(v) << 32,
        LEN => ring.len = v & LEN_MASK,
        HEAD => ring.head = v & 0xffff,
        TAIL => ring.announce(at, v),
        _ => ring.set_control(v),
    }
    ring.update();
    offset <= HEAD
}
