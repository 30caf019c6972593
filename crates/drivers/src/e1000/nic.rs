//! An open controller: its interrupt, watchdog and moderation.
//!
//! Source: e1000_main.c `e1000_probe`, `e1000_open`, `e1000_configure`,
//! `e1000_intr`, `e1000_clean`, `e1000_watchdog`, `e1000_reinit_locked`.

use super::config::{Config, Eeprom, Thresholds, Throttle, interval};
use super::hw::{self, flush, get, put};
use super::stats::{self, Hardware, Stats};
use super::{errata::MAX_LENGTH, part::Bus, rx::RxRing, tx::TxRing};
use crate::{Alarm, Driver, Filter, Irq, OpenError, Opened, Poll, Sink, Tx, common::both};
use alloc::{boxed::Box, vec::Vec};
use doorbell_hal::{CpuWork, Host, Span};
use doorbell_layout::e1000::{self as l, reg};
use doorbell_moderation::{Class, Controller, Flow, ItrClasses, ItrMode, Sample};
use doorbell_packet::ethernet::{self, MAX_FRAME};
use doorbell_packet::{Packet, vlan};

/// Interrupt causes that are enabled.
const CAUSES: u32 = l::INT_TXDW | l::INT_LSC | l::INT_RXSEQ | l::INT_RXDMT0 | l::INT_RXT0;

/// Those of MSI-X beside the queues', of which the link's is wanted.
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

/// The rings of a queue, and its moderation.
#[derive(Debug)]
struct Pair {
    tx: TxRing,
    rx: RxRing,
    /// Throttling by traffic classes.
    itr: Option<ItrClasses>,
    /// EITR of received frames, to be written with their next interrupt.
    next_itr: Option<u32>,
}

impl Pair {
    fn allocate<H: Host>(h: &mut H, c: &Config, queue: u16) -> Opened<Pair> {
        let tx = TxRing::allocate(h, c, queue)?;
        let rx = RxRing::allocate(h, c, queue);
        let (tx, rx) = both(tx, rx, |tx| tx.release(h))?;
        Ok(Pair { tx, rx, itr: None, next_itr: None })
    }

    fn clear<H: Host>(&mut self, h: &mut H) {
        self.tx.clear(h);
        self.rx.clear(h);
    }

    fn release<H: Host>(self, h: &mut H) {
        self.tx.release(h);
        self.rx.release(h);
    }

    fn stats(&self) -> Stats {
        let mut all = self.tx.stats;
        all.add(&self.rx.stats);
        all
    }

    fn sample(&self) -> Sample {
        let rx = &self.rx.stats;
        let rx = Flow { packets: rx.rx_packets, bytes: rx.rx_bytes };
        Sample { rx, tx: self.tx.reclaimed, ..Sample::default() }
    }
}

/// An open controller. As a [`Driver`] it is its first queue; [`Queue`](super::Queue) is any.
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
    first: Pair,
    second: Option<Box<Pair>>,
    /// All counts but those of the rings.
    stats: Stats,
    hardware: Hardware,
    filter: Filter,
    /// The only VLANs received, if not all.
    vlans: Option<Vec<u16>>,
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
        let first = Pair::allocate(h, c, 0)?;
        let second = match c.queues {
            2 => Pair::allocate(h, c, 1).map(|pair| Some(Box::new(pair))),
            _ => Ok(None),
        };
        let (first, second) = both(first, second, |first| first.release(h))?;
        let mut nic = E1000 {
            config: *c,
            mac,
            first,
            second,
            stats: Stats::default(),
            hardware: Hardware::default(),
            filter: Filter::default(),
            vlans: None,
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
        self.clear(h);
        let stats = self.stats();
        self.first.release(h);
        if let Some(second) = self.second {
            second.release(h);
        }
        stats
    }

    /// Returns the rings of all queues.
    fn pairs(&mut self) -> impl Iterator<Item = &mut Pair> {
        core::iter::once(&mut self.first).chain(self.second.as_deref_mut())
    }

    /// Returns the rings of a queue.
    #[inline(always)]
    fn pair(&self, queue: u16) -> &Pair {
        match &self.second {
            Some(second) if queue > 0 => second,
            _ => &self.first,
        }
    }

    /// Returns the same, to be changed.
    #[inline(always)]
    fn pair_mut(&mut self, queue: u16) -> &mut Pair {
        match &mut self.second {
            Some(second) if queue > 0 => second,
            _ => &mut self.first,
        }
    }

    /// Takes back all that is in the rings.
    fn clear<H: Host>(&mut self, h: &mut H) {
        self.pairs().for_each(|pair| pair.clear(h));
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
        self.pairs().for_each(|pair| pair.rx.fill(h));
        let mode = match c.throttle {
            Throttle::Dynamic => Some(ItrMode::Dynamic),
            Throttle::Conservative => Some(ItrMode::Conservative),
            Throttle::Off | Throttle::Fixed(_) => None,
        };
        let mode = mode.filter(|_| c.part.is_82540_or_later());
        for pair in self.pairs() {
            let classes = |mode| ItrClasses::new(mode, GIGABIT, &pair.sample());
            pair.itr = mode.map(|mode| classes(mode).starting_at(Class::LowLatency));
        }
        self.check_link = true;
        put(h, reg::IMS, self.causes());
        // Each queue has to learn that it was cleared.
        let queues = if c.queues > 1 { hw::queue_causes(c.queues) } else { 0 };
        put(h, reg::ICS, l::INT_LSC | queues);
        flush(h);
        Ok(())
    }

    fn start_tx<H: Host>(&mut self, h: &mut H) {
        let c = self.config;
        self.pairs().for_each(|pair| pair.tx.start(h));
        // Copper: IPGT 8, IPGR1 8, IPGR2 6.
        put(h, reg::TIPG, 8 | 8 << 10 | 6 << 20);
        put(h, reg::TIDV, c.tx_delay.into());
        if c.part.is_82540_or_later() {
            put(h, reg::TADV, c.tx_absolute.into());
        }
        // Bit 22 of an 82574 counts descriptors, and is to be set.
        let more = if c.part.is_82574() { 1 << 22 } else { 0 };
        for queue in 0..u32::from(c.queues) {
            put(h, reg::TXDCTL + queue * reg::QUEUE, dctl(c.tx_thresholds) | more);
        }
        let collisions = 15 << l::TCTL_CT_SHIFT | 63 << l::TCTL_COLD_SHIFT;
        put(h, reg::TCTL, l::TCTL_EN | l::TCTL_PSP | l::TCTL_RTLC | collisions);
    }

    fn start_rx<H: Host>(&mut self, h: &mut H) {
        let c = self.config;
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
                hw::set_vectors(h, interval(rate), c.queues);
            }
        }
        if let Some(t) = c.rx_thresholds {
            for queue in 0..u32::from(c.queues) {
                put(h, reg::RXDCTL + queue * reg::QUEUE, dctl(t));
            }
        }
        self.pairs().for_each(|pair| pair.rx.start(h));
        if c.part.is_82574() {
            put(h, reg::RFCTL, l::RFCTL_EXTEN | l::RFCTL_ACK_DIS);
        }
        let hash = if c.queues > 1 { l::RXCSUM_PCSD } else { 0 };
        put(h, reg::RXCSUM, hash | if c.rx_checksum { l::RXCSUM_TUOFL } else { 0 });
        if c.queues > 1 {
            hw::spread(h);
        }
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
        self.clear(h);
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
        let mut all = self.stats_of(0);
        if self.second.is_some() {
            all.add(&self.stats_of(1));
        }
        all
    }
    /// Returns the counters of a queue. What is of none is the first's.
    pub(super) fn stats_of(&self, queue: u16) -> Stats {
        let mut all = self.pair(queue).stats();
        if queue == 0 {
            all.add(&self.stats);
        }
        all
    }
    /// Returns the controller's counts since open. Reads its registers.
    pub fn hardware<H: Host>(&mut self, h: &mut H) -> &Hardware {
        self.hardware.collect(h);
        &self.hardware
    }
    /// Returns whether everything queued has been passed up.
    pub fn is_drained(&self) -> bool {
        self.first.tx.is_empty() && self.second.as_ref().is_none_or(|pair| pair.tx.is_empty())
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

    /// Returns the causes that are enabled while nothing is polled.
    const fn causes(&self) -> u32 {
        if self.config.msix { hw::queue_causes(self.config.queues) | OTHERS } else { CAUSES }
    }

    /// Handles a message of MSI-X. The queues' have no register to be read, and are not masked
    /// while they are polled (`e1000_intr_msix_rx`).
    fn message<H: Host>(&mut self, h: &mut H, vector: u16) -> Irq {
        self.stats.interrupts += 1;
        let queues = self.config.queues;
        if vector == 2 * queues {
            let cause = get(h, reg::ICR);
            if cause != !0 {
                self.check_link |= cause & l::INT_LSC != 0;
                // Reading ICR has cleared the queues' causes, too.
                put(h, reg::ICS, cause & hw::queue_causes(queues));
                put(h, reg::IMS, OTHERS);
            }
        } else if vector < queues
            && let Some(itr) = self.pair_mut(vector).next_itr.take()
        {
            put(h, reg::EITR + 4 * u32::from(vector), itr);
            self.stats.itr_writes += 1;
        }
        Irq::Poll
    }

    /// Sets ITR by a queue's traffic since the last call. With MSI-X its next interrupt does so.
    fn moderate<H: Host>(&mut self, h: &mut H, queue: u16) {
        let (speed, msix) = (self.link.map_or(GIGABIT, |l| l.speed), self.config.msix);
        let pair = self.pair_mut(queue);
        let sample = pair.sample();
        let Some(itr) = &mut pair.itr else { return };
        itr.set_speed(speed);
        let Some(setting) = itr.sample(&sample) else { return };
        if msix {
            pair.next_itr = Some(setting.delay_ns / 256);
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

    // ---- a queue ----

    #[inline(always)]
    pub(super) fn transmit_on<H: Host>(
        &mut self,
        h: &mut H,
        queue: u16,
        p: Packet,
        more: bool,
    ) -> Tx {
        self.pair_mut(queue).tx.transmit(h, p, more)
    }

    /// Handles a queue, as [`Driver::poll`] does the first.
    #[inline(always)]
    pub fn poll_on<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        queue: u16,
        budget: u32,
        up: &mut S,
    ) -> Poll {
        h.charge(CpuWork::Poll);
        let pair = self.pair_mut(queue);
        let clean = pair.tx.reclaim(h, up);
        let frames = pair.rx.poll(h, budget, up);
        if !clean || frames >= budget {
            return Poll::Again;
        }
        self.moderate(h, queue);
        put(h, reg::IMS, if self.config.msix { l::INT_RXQ0 << queue } else { CAUSES });
        flush(h);
        if self.check_link || self.failed { Poll::Work } else { Poll::Idle }
    }

    /// Ticks raise an interrupt by software, as `e1000_watchdog` does, to make good a lost one. A
    /// hang and failed accesses (`e1000_io_error_detected`) cause a reset.
    pub(super) fn alarm_on<H: Host>(&mut self, h: &mut H, queue: u16, why: Alarm) -> Irq {
        match why {
            Alarm::Tick if queue > 0 => {
                put(h, reg::ICS, l::INT_RXQ0 << queue);
                flush(h);
                return Irq::None;
            }
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

    /// Returns whether there is a queue of this number.
    pub const fn has(&self, queue: u16) -> bool {
        queue < self.config.queues
    }

    #[inline]
    pub(super) fn stopped_on(&self, queue: u16) -> bool {
        self.pair(queue).tx.stopped || self.failed
    }

    #[inline]
    pub(super) fn byte_room_on(&self, queue: u16) -> i32 {
        self.pair(queue).tx.bql.room()
    }
}

impl<H: Host> Driver<H> for E1000 {
    #[inline]
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        self.transmit_on(h, 0, p, more)
    }

    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        self.poll_on(h, 0, budget, up)
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
        self.pairs().for_each(|pair| pair.rx.fill(h));
        let oldest = self.pairs().filter_map(|pair| pair.tx.oldest()).min();
        let late = oldest.is_some_and(|t| h.now().since(t) > self.hang_limit());
        if (late && status & l::STATUS_TXOFF == 0) || self.failed {
            self.stats.tx_timeout_count += u64::from(!self.failed);
            // A failed reset is retried.
            self.failed = self.restart(h).is_err();
        }
    }

    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        self.alarm_on(h, 0, why)
    }

    #[inline]
    fn stopped(&self) -> bool {
        self.stopped_on(0)
    }

    #[inline]
    fn byte_room(&self) -> i32 {
        self.byte_room_on(0)
    }
}
