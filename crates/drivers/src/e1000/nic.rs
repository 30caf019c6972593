//! A controller from open to close, and its interrupt.
//!
//! Source: e1000_main.c `e1000_probe`, `e1000_open`, `e1000_configure`,
//! `e1000_intr`, `e1000_clean`, `e1000_watchdog`, `e1000_reinit_locked`.

use super::config::{Bus, Config, OpenError, Thresholds, Throttle};
use super::hw::{self, Filter, flush, get, put};
use super::itr::{self, Dynamic};
use super::rx::RxRing;
use super::stats::{self, Hardware, Stats};
use super::tx::TxRing;
use crate::{Alarm, Driver, Irq, Poll, Sink, Tx};
use doorbell_hal::{CpuWork, Host};
use doorbell_layout::e1000::{self as l, reg};
use doorbell_packet::ethernet::MAX_FRAME;
use doorbell_packet::{Packet, vlan};

/// Causes that are enabled.
pub const CAUSES: u32 = l::INT_TXDW | l::INT_LSC | l::INT_RXSEQ | l::INT_RXDMT0 | l::INT_RXT0;

/// The link as the controller sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Mbit/s: 10, 100 or 1000.
    pub speed: u32,
    /// Both ways at once.
    pub full_duplex: bool,
}

/// A controller that is open.
#[derive(Debug)]
pub struct E1000 {
    config: Config,
    mac: [u8; 6],
    tx: TxRing,
    rx: RxRing,
    stats: Stats,
    hardware: Hardware,
    dynamic: Option<Dynamic>,
    link: Option<Link>,
    look_at_link: bool,
    failed: bool,
}

impl E1000 {
    /// Resets the controller, reads its address, and starts it.
    ///
    /// The link comes up when the PHY has negotiated; that raises an interrupt.
    ///
    /// # Errors
    /// When a setting is out of range, memory runs out, or the device does not
    /// answer as these parts do. Nothing is left behind then.
    pub fn open<H: Host>(h: &mut H, c: &Config) -> Result<E1000, OpenError> {
        c.check()?;
        hw::reset(h, c)?;
        // Linux asks the card (`e1000_get_bus_info`); a card that is gone says everything.
        let status = get(h, reg::STATUS);
        if c.bus == Bus::Pci && status != !0 && status & l::STATUS_PCIX_MODE != 0 {
            return Err(OpenError::Bus);
        }
        let mac = hw::read_mac(h, c)?;
        let tx = TxRing::allocate(h, c)?;
        let rx = match RxRing::allocate(h, c) {
            Ok(rx) => rx,
            Err(e) => {
                tx.release(h);
                return Err(e);
            }
        };
        let mut nic = E1000 {
            config: *c,
            mac,
            tx,
            rx,
            stats: Stats::default(),
            hardware: Hardware::default(),
            dynamic: None,
            link: None,
            look_at_link: false,
            failed: false,
        };
        match nic.up(h) {
            Ok(()) => Ok(nic),
            Err(e) => {
                nic.close(h);
                Err(e)
            }
        }
    }

    /// Stops the controller and gives all memory back; packets still queued are released. What the
    /// driver has counted, with what was lost at the end.
    pub fn close<H: Host>(mut self, h: &mut H) -> Stats {
        // A card that is gone has nothing to stop.
        let _ = hw::reset(h, &self.config);
        self.tx.clear(h, &mut self.stats);
        self.rx.clear(h, &mut self.stats);
        self.tx.release(h);
        self.rx.release(h);
        self.stats
    }

    /// Takes a controller that is reset to receiving and sending.
    fn up<H: Host>(&mut self, h: &mut H) -> Result<(), OpenError> {
        let c = self.config;
        hw::init(h, &c, self.mac)?;
        stats::clear(h);
        put(h, reg::VET, vlan::TPID.into());
        self.start_tx(h);
        self.start_rx(h);
        self.rx.fill(h, &c, &mut self.stats);
        self.dynamic = match c.throttle {
            Throttle::Dynamic => Some(Dynamic::new(false)),
            Throttle::Conservative => Some(Dynamic::new(true)),
            Throttle::Off | Throttle::Fixed(_) => None,
        };
        self.look_at_link = true;
        put(h, reg::IMS, CAUSES);
        put(h, reg::ICS, l::INT_LSC);
        flush(h);
        Ok(())
    }

    fn start_tx<H: Host>(&mut self, h: &mut H) {
        let c = &self.config;
        self.tx.start(h);
        // Copper: IPGT 8, IPGR1 8, IPGR2 6.
        put(h, reg::TIPG, 8 | 8 << 10 | 6 << 20);
        put(h, reg::TIDV, c.tx_delay.into());
        if c.part.is_82540_or_later() {
            put(h, reg::TADV, c.tx_absolute.into());
        }
        put(h, reg::TXDCTL, dctl(c.tx_thresholds));
        let collisions = 15 << l::TCTL_CT_SHIFT | 63 << l::TCTL_COLD_SHIFT;
        put(h, reg::TCTL, l::TCTL_EN | l::TCTL_PSP | l::TCTL_RTLC | collisions);
    }

    fn start_rx<H: Host>(&mut self, h: &mut H) {
        let c = &self.config;
        put(h, reg::RCTL, 0);
        put(h, reg::RDTR, c.rx_delay.into());
        if c.part.is_82540_or_later() {
            put(h, reg::RADV, c.rx_absolute.into());
            let rate = match c.throttle {
                Throttle::Off => 0,
                Throttle::Fixed(rate) => rate,
                Throttle::Dynamic | Throttle::Conservative => Dynamic::START,
            };
            put(h, reg::ITR, itr::interval(rate));
        }
        if let Some(t) = c.rx_thresholds {
            put(h, reg::RXDCTL, dctl(t));
        }
        self.rx.start(h);
        put(h, reg::RXCSUM, if c.rx_checksum { l::RXCSUM_TUOFL } else { 0 });
        // From 2048 down without BSEX, from 16384 with.
        let size = match c.rx_buffer {
            n @ ..=2048 => (2048 / n).trailing_zeros() << l::RCTL_SZ_SHIFT,
            n => l::RCTL_BSEX | (1 + (16384 / n).trailing_zeros()) << l::RCTL_SZ_SHIFT,
        };
        let long = if c.max_frame > MAX_FRAME as u32 { l::RCTL_LPE } else { 0 };
        put(
            h,
            reg::RCTL,
            l::RCTL_EN | l::RCTL_BAM | long | size | u32::from(c.rx_low) << l::RCTL_RDMTS_SHIFT,
        );
    }

    /// After a hang: everything queued is dropped, and all starts again. The filter
    /// is to be set again.
    ///
    /// # Errors
    /// When the device does not come back.
    pub fn restart<H: Host>(&mut self, h: &mut H) -> Result<(), OpenError> {
        self.hardware.collect(h);
        let reset = hw::reset(h, &self.config);
        self.tx.clear(h, &mut self.stats);
        self.rx.clear(h, &mut self.stats);
        reset?;
        self.link = None;
        self.failed = false;
        self.up(h)
    }

    /// Its own address, from the EEPROM.
    pub const fn mac(&self) -> [u8; 6] {
        self.mac
    }
    /// What the driver has counted.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }
    /// What the controller has counted since it was opened. Reads its registers.
    pub fn hardware<H: Host>(&mut self, h: &mut H) -> &Hardware {
        self.hardware.collect(h);
        &self.hardware
    }
    /// Everything queued has been given back.
    pub fn is_drained(&self) -> bool {
        self.tx.is_empty()
    }
    /// What else to receive.
    pub fn set_filter<H: Host>(&mut self, h: &mut H, f: &Filter<'_>) {
        hw::set_filter(h, f);
    }
    /// Receives only these VLANs, or all with `None`.
    pub fn set_vlans<H: Host>(&mut self, h: &mut H, only: Option<&[u16]>) {
        for i in 0..reg::VFTA_LEN {
            let bits = only
                .unwrap_or(&[])
                .iter()
                .filter(|v| u32::from(**v & 0xfff) >> 5 == i)
                .fold(0, |b, v| b | 1 << (v & 31));
            put(h, reg::VFTA + 4 * i, bits);
            flush(h);
        }
        let rctl = get(h, reg::RCTL) & !(l::RCTL_VFE | l::RCTL_CFIEN);
        put(h, reg::RCTL, if only.is_some() { rctl | l::RCTL_VFE } else { rctl });
    }
    /// The link as last looked at ([`Driver::work`]); `None` is down.
    pub const fn link(&self) -> Option<Link> {
        self.link
    }
    /// Reads a PHY register.
    ///
    /// # Errors
    /// When the PHY does not answer.
    pub fn phy<H: Host>(&mut self, h: &mut H, r: u8) -> Result<u16, OpenError> {
        hw::phy_read(h, r)
    }
    /// Reads an EEPROM word, in either way.
    ///
    /// # Errors
    /// When the device does not answer.
    pub fn eeprom<H: Host>(
        &mut self,
        h: &mut H,
        how: super::Eeprom,
        word: u8,
    ) -> Result<u16, OpenError> {
        hw::eeprom_word(h, how, word)
    }

    /// Sets ITR by what has passed since the last time.
    fn moderate<H: Host>(&mut self, h: &mut H) {
        let (rx, tx) = (core::mem::take(&mut self.rx.taken), core::mem::take(&mut self.tx.reaped));
        let gigabit = self.link.is_none_or(|l| l.speed == 1000);
        let Some(d) = self.dynamic.as_mut().filter(|_| self.config.part.is_82540_or_later()) else {
            return;
        };
        if let Some(rate) = d.update(gigabit, rx, tx) {
            put(h, reg::ITR, itr::interval(rate));
            self.stats.itr_writes += 1;
        }
    }
}

const fn dctl(t: Thresholds) -> u32 {
    (t.prefetch as u32) << l::DCTL_PTHRESH_SHIFT
        | (t.host as u32) << l::DCTL_HTHRESH_SHIFT
        | (t.write_back as u32) << l::DCTL_WTHRESH_SHIFT
        | l::DCTL_GRAN
}

impl<H: Host> Driver<H> for E1000 {
    #[inline]
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        self.tx.transmit(h, &self.config, &mut self.stats, p, more)
    }

    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        h.charge(CpuWork::Poll);
        let clean = self.tx.reap(h, &mut self.stats, up);
        let frames = self.rx.poll(h, &self.config, &mut self.stats, budget, up);
        if !clean || frames >= budget {
            return Poll::Again;
        }
        self.moderate(h);
        put(h, reg::IMS, CAUSES);
        flush(h);
        if self.look_at_link || self.failed { Poll::CpuWork } else { Poll::Idle }
    }

    /// The read of ICR clears the causes and lowers the line. Then all is masked,
    /// until the poll has emptied the rings.
    fn interrupt(&mut self, h: &mut H, _vector: u16) -> Irq {
        h.charge(CpuWork::Interrupt);
        let cause = get(h, reg::ICR);
        if cause == 0 || cause == !0 {
            // Another device's on a shared line, or no device at all.
            self.stats.interrupts_stray += 1;
            return Irq::None;
        }
        self.stats.interrupts += 1;
        if cause & (l::INT_LSC | l::INT_RXSEQ) != 0 {
            self.look_at_link = true;
        }
        put(h, reg::IMC, !0);
        flush(h);
        Irq::Poll
    }

    /// The watchdog: looks at the link, for receive buffers that could not be had
    /// before, and for a transmission that hangs. Also to be called every second or two.
    fn work(&mut self, h: &mut H) {
        let status = get(h, reg::STATUS);
        if status == !0 {
            return;
        }
        if core::mem::take(&mut self.look_at_link) {
            self.link = (status & l::STATUS_LU != 0).then_some(Link {
                speed: match status & l::STATUS_SPEED {
                    0 => 10,
                    0x40 => 100,
                    _ => 1000,
                },
                full_duplex: status & l::STATUS_FD != 0,
            });
        }
        self.rx.fill(h, &self.config, &mut self.stats);
        let late = self.tx.oldest().is_some_and(|t| h.now().since(t) > self.config.hang);
        if (late && status & l::STATUS_TXOFF == 0) || self.failed {
            self.stats.tx_timeout_count += u64::from(!self.failed);
            // If it does not come back, it is tried again.
            self.failed = self.restart(h).is_err();
        }
    }

    /// `e1000_watchdog` also causes an interrupt by software, so that a lost one is made good. A
    /// hang, and accesses that failed (`e1000_io_error_detected`), end with a reset.
    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        match why {
            Alarm::Tick => {
                self.look_at_link = true;
                self.work(h);
                // Masked and unmasked, so that the line rises anew if nobody has seen it.
                put(h, reg::IMC, !0);
                put(h, reg::ICS, l::INT_RXDMT0);
                put(h, reg::IMS, CAUSES);
                flush(h);
                return Irq::None;
            }
            // A queue that waits for its link does not hang.
            Alarm::TxTimeout if self.link.is_none() => return Irq::None,
            Alarm::TxTimeout => self.stats.tx_timeout_count += 1,
            Alarm::IoError => self.stats.io_errors += 1,
        }
        self.failed = self.restart(h).is_err();
        Irq::Poll
    }

    #[inline]
    fn stopped(&self) -> bool {
        self.tx.stopped || self.failed
    }
}
