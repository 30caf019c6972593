//! An open controller: its interrupt, watchdog and moderation.
//!
//! Source: e1000_main.c `e1000_probe`, `e1000_open`, `e1000_configure`,
//! `e1000_intr`, `e1000_clean`, `e1000_watchdog`, `e1000_reinit_locked`.

use super::config::{Config, Eeprom, Thresholds, Throttle, interval};
use super::hw::{self, flush, get, put};
use super::stats::{self, Hardware, Stats};
use super::{errata::MAX_LENGTH, part::Bus, rx::RxRing, tx::TxRing};
use crate::{Alarm, Driver, Filter, Irq, OpenError, Opened, Poll, Sink, Tx, common::both};
use alloc::vec::Vec;
use doorbell_hal::{CpuWork, Host, Span};
use doorbell_layout::e1000::{self as l, reg};
use doorbell_moderation::{Class, Controller, Flow, ItrClasses, ItrMode, Sample};
use doorbell_packet::ethernet::{self, MAX_FRAME};
use doorbell_packet::{Packet, vlan};

/// Interrupt causes that are enabled.
const CAUSES: u32 = l::INT_TXDW | l::INT_LSC | l::INT_RXSEQ | l::INT_RXDMT0 | l::INT_RXT0;

/// Those of MSI-X: the queues', and others of which the link's is wanted.
const QUEUES: u32 = l::INT_RXQ0 | l::INT_TXQ0;
const OTHERS: u32 = l::INT_OTHER | l::INT_LSC;

/// The speed at which traffic classes apply, in Mbit/s.
const GIGABIT: u32 = 1000;
/// Factor of the time that counts as a hang, at 10 Mbit/s.
const SLOW_LINK: u64 = 16;

/// The state of a link that is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Mbit/s: 10, 100 or 1000.
    pub speed: u32,
    /// Full duplex.
    pub full_duplex: bool,
}

/// An open controller.
///
/// # The switches
///
/// With [`Config::copy_align`], a frame of up to 2 kB is copied to a slot of 2048 bytes, aligned to
/// that and mapped permanently: fewer bus transactions, no mapping per packet, one copy. With
/// [`Config::rx_align`], a receive buffer begins on a line, or two bytes behind it so that the IP
/// header is on a word.
///
/// # Descriptors
///
/// A packet without offload is sent with legacy descriptors, as in Linux. A checksum or a large
/// send takes a context descriptor, then data descriptors. [`super::Errata`] decides how a buffer
/// is split.
#[derive(Debug)]
pub struct E1000 {
    config: Config,
    mac: [u8; 6],
    tx: TxRing,
    rx: RxRing,
    /// All counts but those of the rings.
    stats: Stats,
    hardware: Hardware,
    filter: Filter,
    /// The only VLANs received, if not all.
    vlans: Option<Vec<u16>>,
    /// Throttling by traffic classes.
    itr: Option<ItrClasses>,
    /// EITR of received frames, to be written with their next interrupt.
    next_itr: Option<u32>,
    link: Option<Link>,
    check_link: bool,
    failed: bool,
}

impl E1000 {
    /// Resets the controller, reads its address, and starts it.
    ///
    /// The link comes up, with an interrupt, when the PHY has negotiated.
    ///
    /// # Errors
    /// Fails when a setting is out of range, memory runs out, or the device does not answer as
    /// these parts do. Nothing is left allocated then.
    pub fn open<H: Host>(h: &mut H, c: &Config) -> Opened<E1000> {
        c.check()?;
        hw::reset(h, c)?;
        // Linux asks the card (`e1000_get_bus_info`); a card that was removed reads as ones.
        let status = get(h, reg::STATUS);
        if c.bus == Bus::Pci && status != !0 && status & l::STATUS_PCIX_MODE != 0 {
            return Err(OpenError::Bus);
        }
        let mac = hw::read_mac(h, c)?;
        let tx = TxRing::allocate(h, c)?;
        let rx = RxRing::allocate(h, c);
        let (tx, rx) = both(tx, rx, |tx| tx.release(h))?;
        let mut nic = E1000 {
            config: *c,
            mac,
            tx,
            rx,
            stats: Stats::default(),
            hardware: Hardware::default(),
            filter: Filter::default(),
            vlans: None,
            itr: None,
            next_itr: None,
            link: None,
            check_link: false,
            failed: false,
        };
        let started = nic.start(h);
        Ok(both(nic, started, |nic| _ = nic.close(h))?.0)
    }

    /// Stops the controller and releases all memory, with packets still queued. Returns the final
    /// counts.
    pub fn close<H: Host>(mut self, h: &mut H) -> Stats {
        // A card that was removed has nothing to stop.
        let _ = hw::reset(h, &self.config);
        self.tx.clear(h);
        self.rx.clear(h);
        let stats = self.stats();
        self.tx.release(h);
        self.rx.release(h);
        stats
    }

    /// Starts receiving and sending after a reset.
    fn start<H: Host>(&mut self, h: &mut H) -> Opened {
        let c = self.config;
        let vlans = self.vlans.as_deref().unwrap_or_default();
        hw::init(h, &c, self.mac, &self.filter.multicast, vlans)?;
        stats::clear(h);
        put(h, reg::VET, vlan::TPID.into());
        self.start_tx(h);
        self.start_rx(h);
        self.rx.fill(h);
        let mode = match c.throttle {
            Throttle::Dynamic => Some(ItrMode::Dynamic),
            Throttle::Conservative => Some(ItrMode::Conservative),
            Throttle::Off | Throttle::Fixed(_) => None,
        };
        self.itr = mode.filter(|_| c.part.is_82540_or_later()).map(|mode| {
            ItrClasses::new(mode, GIGABIT, &self.sample()).starting_at(Class::LowLatency)
        });
        self.check_link = true;
        put(h, reg::IMS, self.causes());
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
        // Bit 22 of an 82574 counts descriptors, and is to be set.
        let more = if c.part.is_82574() { 1 << 22 } else { 0 };
        put(h, reg::TXDCTL, dctl(c.tx_thresholds) | more);
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
                Throttle::Dynamic | Throttle::Conservative => Class::LowLatency.rate(),
            };
            put(h, reg::ITR, interval(rate));
            if c.msix {
                hw::set_vectors(h, interval(rate));
            }
        }
        if let Some(t) = c.rx_thresholds {
            put(h, reg::RXDCTL, dctl(t));
        }
        self.rx.start(h);
        if c.part.is_82574() {
            put(h, reg::RFCTL, l::RFCTL_EXTEN | l::RFCTL_ACK_DIS);
        }
        put(h, reg::RXCSUM, if c.rx_checksum { l::RXCSUM_TUOFL } else { 0 });
        // Sizes count down from 2048 without BSEX, from 16384 with it.
        let size = match c.rx_buffer {
            n @ ..=2048 => (2048 / n).trailing_zeros() << l::RCTL_SZ_SHIFT,
            n => l::RCTL_BSEX | (1 + (16384 / n).trailing_zeros()) << l::RCTL_SZ_SHIFT,
        };
        let long = if c.max_frame > MAX_FRAME as u32 { l::RCTL_LPE } else { 0 };
        let low = u32::from(c.rx_low) << l::RCTL_RDMTS_SHIFT;
        let filter = hw::filter_bits(&self.filter, self.vlans.is_some());
        let strip = if c.part.is_82574() { l::RCTL_SECRC } else { 0 };
        put(h, reg::RCTL, l::RCTL_EN | l::RCTL_BAM | long | size | low | filter | strip);
    }

    /// Resets the controller after a hang, drops everything queued, and starts again with the same
    /// filter and VLANs.
    ///
    /// # Errors
    /// Fails when the device does not answer.
    pub fn restart<H: Host>(&mut self, h: &mut H) -> Opened {
        self.hardware.collect(h);
        let reset = hw::reset(h, &self.config);
        self.tx.clear(h);
        self.rx.clear(h);
        reset?;
        self.link = None;
        self.failed = false;
        self.start(h)
    }

    /// Returns the MAC address, from the EEPROM.
    pub const fn mac(&self) -> [u8; 6] {
        self.mac
    }
    /// Returns the driver's counters.
    pub fn stats(&self) -> Stats {
        let mut all = self.stats;
        all.add(&self.tx.stats);
        all.add(&self.rx.stats);
        all
    }
    /// Returns the controller's counts since open. Reads its registers.
    pub fn hardware<H: Host>(&mut self, h: &mut H) -> &Hardware {
        self.hardware.collect(h);
        &self.hardware
    }
    /// Returns whether everything queued has been passed up.
    pub fn is_drained(&self) -> bool {
        self.tx.is_empty()
    }
    /// Sets the receive filter; it outlives a reset.
    pub fn set_filter<H: Host>(&mut self, h: &mut H, f: &Filter) {
        self.filter = f.clone();
        self.update_rctl(h);
        hw::set_groups(h, &f.multicast);
    }
    /// Receives only these VLANs, or all with `None`; it outlives a reset.
    pub fn set_vlans<H: Host>(&mut self, h: &mut H, only: Option<&[u16]>) {
        self.vlans = only.map(<[u16]>::to_vec);
        hw::set_vlan_table(h, only.unwrap_or_default());
        self.update_rctl(h);
    }
    /// Writes the bits of the filter and of the VLANs to RCTL.
    fn update_rctl<H: Host>(&self, h: &mut H) {
        let bits = l::RCTL_UPE | l::RCTL_MPE | l::RCTL_VFE | l::RCTL_CFIEN;
        let rctl = get(h, reg::RCTL) & !bits;
        put(h, reg::RCTL, rctl | hw::filter_bits(&self.filter, self.vlans.is_some()));
    }
    /// Returns the link as last checked ([`Driver::work`]); `None` when it is down.
    pub const fn link(&self) -> Option<Link> {
        self.link
    }
    /// Reads a PHY register.
    ///
    /// # Errors
    /// Fails when the PHY does not answer.
    pub fn phy<H: Host>(&mut self, h: &mut H, r: u8) -> Opened<u16> {
        hw::own_phy_read(h, &self.config, r)
    }
    /// Reads an EEPROM word.
    ///
    /// # Errors
    /// Fails when the device does not answer.
    pub fn eeprom<H: Host>(&mut self, h: &mut H, how: Eeprom, word: u8) -> Opened<u16> {
        hw::eeprom_word(h, &self.config, how, word)
    }

    fn sample(&self) -> Sample {
        let rx = &self.rx.stats;
        let rx = Flow { packets: rx.rx_packets, bytes: rx.rx_bytes };
        Sample { rx, tx: self.tx.reclaimed, ..Sample::default() }
    }

    /// Returns the causes that are enabled while nothing is polled.
    const fn causes(&self) -> u32 {
        if self.config.msix { QUEUES | OTHERS } else { CAUSES }
    }

    /// Handles a message of MSI-X. The queues' have no register to be read, and are not masked
    /// while they are polled (`e1000_intr_msix_rx`).
    fn message<H: Host>(&mut self, h: &mut H, vector: u16) -> Irq {
        self.stats.interrupts += 1;
        if vector == 2 {
            let cause = get(h, reg::ICR);
            if cause != !0 {
                self.check_link |= cause & l::INT_LSC != 0;
                // Reading ICR has cleared the queues' causes, too.
                put(h, reg::ICS, cause & QUEUES);
                put(h, reg::IMS, OTHERS);
            }
        } else if let Some(itr) = self.next_itr.take_if(|_| vector == 0) {
            put(h, reg::EITR, itr);
            self.stats.itr_writes += 1;
        }
        Irq::Poll
    }

    /// Sets ITR by the traffic since the last call. With MSI-X the next interrupt does so.
    fn moderate<H: Host>(&mut self, h: &mut H) {
        let (sample, speed) = (self.sample(), self.link.map_or(GIGABIT, |l| l.speed));
        let Some(itr) = &mut self.itr else { return };
        itr.set_speed(speed);
        let Some(setting) = itr.sample(&sample) else { return };
        if self.config.msix {
            self.next_itr = Some(setting.delay_ns / 256);
            return;
        }
        put(h, reg::ITR, setting.delay_ns / 256);
        self.stats.itr_writes += 1;
    }
}

const fn dctl(t: Thresholds) -> u32 {
    (t.prefetch as u32) << l::DCTL_PTHRESH_SHIFT
        | (t.host as u32) << l::DCTL_HTHRESH_SHIFT
        | (t.write_back as u32) << l::DCTL_WTHRESH_SHIFT
        | l::DCTL_GRAN
}

impl E1000 {
    /// Returns the age of the oldest packet that counts as a hang: longer at 10 Mbit/s, as in Linux
    /// (`tx_timeout_factor`), and never shorter than a full ring takes on the link.
    fn hang_limit(&self) -> Span {
        let mbits = self.link.map_or(1000, |l| l.speed.max(10));
        let factor = if mbits == 10 { SLOW_LINK } else { 1 };
        let frame = u64::from(self.config.max_frame.max(MAX_LENGTH));
        let ring = ethernet::wire_bytes(1, frame) * u64::from(self.config.tx_ring);
        let drained = Span::from_ns(ring * 8_000 / u64::from(mbits));
        (self.config.hang * factor).max(drained)
    }
}

impl<H: Host> Driver<H> for E1000 {
    #[inline]
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        self.tx.transmit(h, p, more)
    }

    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        h.charge(CpuWork::Poll);
        let clean = self.tx.reclaim(h, up);
        let frames = self.rx.poll(h, budget, up);
        if !clean || frames >= budget {
            return Poll::Again;
        }
        self.moderate(h);
        put(h, reg::IMS, if self.config.msix { l::INT_RXQ0 } else { CAUSES });
        flush(h);
        if self.check_link || self.failed { Poll::Work } else { Poll::Idle }
    }

    /// Reads ICR, which clears the causes and lowers the line, and masks all causes until the poll
    /// has emptied the rings. Of an 82574 reading ICR masks them (IAM).
    fn interrupt(&mut self, h: &mut H, vector: u16) -> Irq {
        h.charge(CpuWork::Interrupt);
        if self.config.msix {
            return self.message(h, vector);
        }
        let cause = get(h, reg::ICR);
        if cause == 0 || cause == !0 {
            // From another device on a shared line, or the card was removed.
            self.stats.interrupts_stray += 1;
            return Irq::None;
        }
        self.stats.interrupts += 1;
        if cause & (l::INT_LSC | l::INT_RXSEQ) != 0 {
            self.check_link = true;
        }
        if !self.config.part.is_82574() {
            put(h, reg::IMC, !0);
            flush(h);
        }
        Irq::Poll
    }

    /// The watchdog: checks the link, retries failed receive buffers, and resets a transmitter that
    /// hangs. Call it every second or two as well.
    fn work(&mut self, h: &mut H) {
        let status = get(h, reg::STATUS);
        if status == !0 {
            return;
        }
        if core::mem::take(&mut self.check_link) {
            self.link = (status & l::STATUS_LU != 0).then_some(Link {
                speed: match status & l::STATUS_SPEED {
                    0 => 10,
                    0x40 => 100,
                    _ => 1000,
                },
                full_duplex: status & l::STATUS_FD != 0,
            });
        }
        self.rx.fill(h);
        let late = self.tx.oldest().is_some_and(|t| h.now().since(t) > self.hang_limit());
        if (late && status & l::STATUS_TXOFF == 0) || self.failed {
            self.stats.tx_timeout_count += u64::from(!self.failed);
            // A failed reset is retried.
            self.failed = self.restart(h).is_err();
        }
    }

    /// Ticks raise an interrupt by software, as `e1000_watchdog` does, to make good a lost one. A
    /// hang and failed accesses (`e1000_io_error_detected`) cause a reset.
    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        match why {
            Alarm::Tick => {
                self.check_link = true;
                self.work(h);
                // Masked and unmasked, so that a line that nobody has seen rises again.
                put(h, reg::IMC, !0);
                put(h, reg::ICS, if self.config.msix { l::INT_RXQ0 } else { l::INT_RXDMT0 });
                put(h, reg::IMS, self.causes());
                flush(h);
                return Irq::None;
            }
            // A queue without a link waits, and does not hang.
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

    #[inline]
    fn byte_room(&self) -> i32 {
        self.tx.bql.room()
    }
}
