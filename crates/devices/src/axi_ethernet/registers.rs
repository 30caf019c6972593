//! Register accesses.
//!
//! A register that does not exist reads as zero and ignores writes. Either reset bit of RCW1 and TC
//! clears itself at once: it empties that side's memory of frames that are not on their way yet.

use super::device::AxiEthernet;
use super::stats::{Stats, is_statistic};
use doorbell_hal::{Port, Reg, Time};
use doorbell_layout::axienet::{
    DMA, DMA_LEN, MAC, MAC_LEN, MM2S, S2MM, ability, cr, dma, int, mac, mdio, raf, rcw1, tc,
};

/// Version 10: DMA addresses of up to 64 bits are known from 9 on.
const ID: u32 = 0x0a00_0000;
/// IS: what a write of one clears.
const IS_CLEAR: u32 = int::HARD_ACCESS
    | int::AUTONEG
    | int::RX_COMPLETE
    | int::RX_REJECT
    | int::RX_FIFO_OVERFLOW
    | int::TX_COMPLETE
    | int::RX_DCM_LOCK
    | int::MGT_READY
    | int::PHY_RESET_COMPLETE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Tx,
    Rx,
}

fn split(offset: u32) -> Option<(Side, u32)> {
    match offset {
        MM2S..S2MM => Some((Side::Tx, offset - MM2S)),
        _ => offset.checked_sub(S2MM).filter(|o| *o < S2MM - MM2S).map(|o| (Side::Rx, o)),
    }
}

const fn low(v: u64, half: u32) -> u64 {
    v & 0xffff_ffff_0000_0000 | half as u64
}

const fn high(v: u64, half: u32) -> u64 {
    v & 0xffff_ffff | (half as u64) << 32
}

impl AxiEthernet {
    pub(super) fn read_any(&mut self, at: Time, r: Reg, size: u8) -> u64 {
        let word = r.offset & !3;
        let bits = u32::from(size) * 8;
        let v = match size {
            8 => {
                let half = u64::from(self.read_word(at, r.region, word));
                half | u64::from(self.read_word(at, r.region, word.wrapping_add(4))) << 32
            }
            _ => u64::from(self.read_word(at, r.region, word) >> ((r.offset & 3) * 8)),
        };
        if bits >= 64 { v } else { v & ((1 << bits) - 1) }
    }

    pub(super) fn write_any<P: Port>(&mut self, p: &mut P, at: Time, r: Reg, size: u8, v: u64) {
        match size {
            4 if r.offset & 3 == 0 => self.write_word(at, r.region, r.offset, v as u32),
            8 if r.offset & 3 == 0 => {
                self.write_word(at, r.region, r.offset, v as u32);
                self.write_word(at, r.region, r.offset.wrapping_add(4), (v >> 32) as u32);
            }
            _ => self.counters.ignored_writes += 1,
        }
        self.settle(p, at);
    }

    fn read_word(&mut self, at: Time, region: u8, offset: u32) -> u32 {
        match region {
            MAC if offset < MAC_LEN => self.read_mac(offset),
            DMA if offset < DMA_LEN => self.read_dma(at, offset),
            _ => 0,
        }
    }

    fn write_word(&mut self, at: Time, region: u8, offset: u32, v: u32) {
        let known = match region {
            MAC if offset < MAC_LEN => self.write_mac(at, offset, v),
            DMA if offset < DMA_LEN => self.write_dma(at, offset, v),
            _ => false,
        };
        self.counters.ignored_writes += u64::from(!known);
    }

    // ---- DMA ----

    fn read_dma(&self, at: Time, offset: u32) -> u32 {
        let Some((side, r)) = split(offset) else { return 0 };
        let ch = if side == Side::Tx { &self.tx.ch } else { &self.rx.ch };
        match r {
            dma::CR => ch.read_control() | if self.in_reset(at) { cr::RESET } else { 0 },
            dma::SR => ch.read_status(at),
            dma::CURDESC => ch.current() as u32,
            dma::CURDESC_MSB => (ch.current() >> 32) as u32,
            dma::TAILDESC => ch.tail() as u32,
            dma::TAILDESC_MSB => (ch.tail() >> 32) as u32,
            dma::SG_CTL if side == Side::Tx => self.sg_ctl,
            _ => 0,
        }
    }

    fn write_dma(&mut self, at: Time, offset: u32, v: u32) -> bool {
        let Some((side, r)) = split(offset) else { return false };
        if self.in_reset(at) {
            return false;
        }
        if r == dma::CR && v & cr::RESET != 0 {
            self.reset_core(at);
            return true;
        }
        let cfg = self.cfg;
        let failed = self.has_failed();
        let working = side == Side::Tx && self.tx.is_working();
        let ch = if side == Side::Tx { &mut self.tx.ch } else { &mut self.rx.ch };
        let tail = match r {
            dma::TAILDESC => Some((low(ch.tail(), v), !cfg.wide())),
            dma::TAILDESC_MSB if cfg.wide() => Some((high(ch.tail(), v), true)),
            _ => None,
        };
        if let Some((to, starts)) = tail {
            ch.write_tail(to & cfg.address(!0, !0));
            if starts {
                let started = ch.start(at);
                self.counters.lost_doorbells += u64::from(!started);
                match side {
                    Side::Tx => self.counters.tx_doorbells += 1,
                    Side::Rx => self.counters.rx_doorbells += 1,
                }
            }
            return true;
        }
        match r {
            dma::CR => {
                let ran = ch.runs();
                ch.write_control(at, v, working, failed);
                if ran && !ch.runs() {
                    self.stopped(side);
                }
            }
            dma::SR => ch.write_status(v),
            dma::CURDESC => ch.write_current(low(ch.current(), v) & cfg.address(!0, !0)),
            dma::CURDESC_MSB if cfg.wide() => {
                ch.write_current(high(ch.current(), v) & cfg.address(!0, !0));
            }
            dma::SG_CTL if side == Side::Tx => self.sg_ctl = v,
            _ => return false,
        }
        true
    }

    // ---- MAC ----

    fn read_mac(&mut self, offset: u32) -> u32 {
        let m = &self.mac;
        match offset {
            mac::RAF => m.raf,
            mac::TPF => m.tpf,
            mac::IFGP => m.ifgp,
            mac::IS => m.is,
            mac::IP => m.is & m.ie,
            mac::IE => m.ie,
            mac::RCW0 => m.rcw0,
            mac::RCW1 => m.rcw1,
            mac::TC => m.tc,
            mac::FCC => m.fcc,
            mac::EMMC => m.emmc,
            mac::ID => ID,
            mac::ABILITY => {
                let statistics = if self.cfg.statistics { ability::STATISTICS } else { 0 };
                ability::M10 | ability::M100 | ability::M1000 | ability::FRAME_FILTER | statistics
            }
            mac::MDIO_MC => m.mdio_mc,
            mac::MDIO_MCR => m.read_command(),
            mac::MDIO_MWD => m.mdio_mwd,
            mac::MDIO_MRD => m.mdio_mrd,
            _ if is_statistic(offset) && self.cfg.statistics => self.stats.read(offset),
            mac::MULTICAST.. if self.cfg.extended_multicast => {
                self.filter.read_table(offset - mac::MULTICAST)
            }
            _ => self.filter.read(offset).unwrap_or(0),
        }
    }

    fn write_mac(&mut self, at: Time, offset: u32, v: u32) -> bool {
        let m = &mut self.mac;
        match offset {
            mac::RAF => {
                m.raf = v & !raf::STATS_RESET;
                if v & raf::STATS_RESET != 0 {
                    self.stats = Stats::new();
                }
            }
            mac::TPF => m.tpf = v & 0xffff,
            mac::IFGP => m.ifgp = v & 0x7f,
            mac::IS => m.is &= !(v & IS_CLEAR),
            mac::IE => m.ie = v & IS_CLEAR,
            mac::RCW0 => m.rcw0 = v,
            mac::RCW1 => {
                m.rcw1 = v & !rcw1::RESET;
                if v & rcw1::RESET != 0 {
                    self.counters.rx_lost += self.rx.empty();
                }
            }
            mac::TC => {
                m.tc = v & !tc::RESET;
                if v & tc::RESET != 0 {
                    self.counters.tx_lost += self.tx.empty();
                }
            }
            mac::FCC => m.fcc = v,
            mac::EMMC => m.emmc = v,
            mac::MDIO_MC => m.mdio_mc = v & (mdio::ENABLE | mdio::DIVISOR),
            mac::MDIO_MCR => {
                if let Some(access) = m.command(at, v, &self.cfg) {
                    self.access_phy(at, access);
                }
            }
            mac::MDIO_MWD => m.mdio_mwd = v & 0xffff,
            mac::MULTICAST.. if self.cfg.extended_multicast => {
                self.filter.write_table(offset - mac::MULTICAST, v);
            }
            _ => return self.filter.write(offset, v),
        }
        true
    }
}
