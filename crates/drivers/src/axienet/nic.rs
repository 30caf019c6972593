//! An open core: its interrupts, coalescing, recovery and link.
//!
//! Source: xilinx_axienet_main.c `axienet_open`, `axienet_dma_start`,
//! `axienet_device_reset`, `axienet_tx_irq`, `axienet_rx_irq`, `axienet_eth_irq`,
//! `axienet_rx_dim_work`, `axienet_update_coalesce_rx`, `axienet_dma_err_handler`.

use super::coalesce::{Adaptive, Coalesce, clamp, control, delay_units, thresholds};
use super::mdio::{self, Answer, Link};
use super::regs::{dma_get, dma_put, get, is_absent, put};
use super::stats::{Hardware, Stats, StatsBaseline};
use super::{config::Config, hw, rx::RxRing, tx::TxRing};
use crate::{Alarm, Driver, Filter, Irq, OpenError, Opened, Poll, Sink, Tx, common::both};
use doorbell_hal::{CpuWork, Fence, Host, Span, Time, fail_if};
use doorbell_layout::axienet::{MM2S, S2MM, ability, cr, dma, int, line, mac, sr};
use doorbell_moderation::{Controller, Flow, NetDim, Sample, Setting};
use doorbell_packet::Packet;

/// A DMA channel as the driver sees it.
#[derive(Debug)]
struct Channel {
    /// Offset of its registers.
    at: u32,
    /// Control, with the interrupts that the end of a poll enables.
    cr: u32,
    /// An interrupt has cleared the enables, and a poll follows.
    scheduled: bool,
}

/// An open core; `C` decides on the coalescing of reception.
///
/// # Interrupts
///
/// A channel interrupts when a number of packets is done (the threshold), or when nothing has
/// happened for a while after the last of them (the delay). Both are in CR, beside the enables.
/// The handler clears the enables of its channel. The end of the poll writes CR again; status bits
/// that were latched meanwhile interrupt at once. Packets below the threshold are announced by the
/// delay, so a threshold above one without a delay is refused. The core keeps its count across
/// that write; QEMU's model restarts it.
///
/// At the end of each poll that an interrupt began and that ran dry, a
/// [`Controller`](doorbell_moderation::Controller) sees the counters. [`Driver::work`] brings its
/// decision to the device: by default the number of packets alone, as Linux does with net_dim's
/// index; the delay is the user's.
///
/// # Differences from Linux
///
/// - A delay that rounds to zero units is one unit; zero would mean no delay.
/// - [`Driver::alarm`](crate::Driver::alarm) finds lost interrupts and queues that hang.
/// - Free descriptors are counted, not read from control words, which at the smallest ring that
///   Linux allows may name a descriptor in use.
///
/// As in Linux 6.17, a core with partial checksums sums every received frame. Earlier versions used
/// the sum for IPv4 over 64 bytes only.
#[derive(Debug)]
pub struct Axienet<C = NetDim> {
    config: Config,
    controller: C,
    tx: TxRing,
    rx: RxRing,
    channels: [Channel; 2],
    /// The controller's decision that the device does not have yet.
    pending: Option<Setting>,
    filter: Filter,
    link: Option<Link>,
    link_checked: Option<Time>,
    /// All counts but those of the rings.
    stats: Stats,
    baseline: Option<StatsBaseline>,
    failed: bool,
}

const TX: usize = 0;
const RX: usize = 1;
/// Interval of link checks (phylink).
const LINK_INTERVAL: Span = Span::from_ms(1000);

impl<C: Controller> Axienet<C> {
    /// Resets the core and starts it. `controller` is used only with adaptive reception;
    /// [`Config::net_dim`] returns Linux's.
    ///
    /// # Errors
    /// Fails when a setting is out of range, memory runs out, or the core does not answer. Nothing
    /// is left allocated then.
    pub fn open<H: Host>(h: &mut H, c: &Config, controller: C) -> Opened<Axienet<C>> {
        c.check()?;
        hw::reset(h)?;
        let tx = TxRing::allocate(h, c)?;
        let rx = RxRing::allocate(h, c);
        let (tx, rx) = both(tx, rx, |tx| tx.release(h))?;
        let has_counters = c.statistics.unwrap_or_else(|| {
            let abilities = get(h, mac::ABILITY);
            !is_absent(abilities) && abilities & ability::STATISTICS != 0
        });
        let channel = |at| Channel { at, cr: 0, scheduled: false };
        let mut nic = Axienet {
            config: *c,
            controller,
            tx,
            rx,
            channels: [channel(MM2S), channel(S2MM)],
            pending: None,
            filter: Filter::default(),
            link: c.phy.is_none().then_some(Link { speed: c.speed, full_duplex: true }),
            link_checked: None,
            stats: Stats::default(),
            baseline: has_counters.then(|| StatsBaseline::new(h)),
            failed: false,
        };
        nic.set_control(&c.coalesce, false);
        nic.start(h);
        Ok(nic)
    }

    /// Stops the core and releases all memory, with packets still queued. Returns the final counts.
    pub fn close<H: Host>(mut self, h: &mut H) -> Stats {
        hw::options(h, &self.config, false);
        // A core that was removed has nothing to stop.
        let _ = hw::stop(h);
        self.tx.clear(h);
        self.rx.count_lost(h);
        let stats = self.stats();
        self.tx.release(h);
        self.rx.release(h);
        stats
    }

    /// Starts both channels and the MAC after a reset.
    fn start<H: Host>(&mut self, h: &mut H) {
        let c = self.config;
        // Rings and descriptors are in memory before a channel reads them.
        h.fence(Fence::Write);
        for (i, first) in [(RX, self.rx.start()), (TX, self.tx.start())] {
            let channel = &mut self.channels[i];
            channel.scheduled = false;
            // The first descriptor latches only while the channel does not run.
            channel.cr &= !cr::RS;
            dma_put(h, channel.at, dma::CR, channel.cr);
            hw::current(h, &c, channel.at, first);
            channel.cr |= cr::RS;
            dma_put(h, channel.at, dma::CR, channel.cr);
            if i == RX {
                // The other channel idles until there is a packet.
                self.rx.write_tail(h);
            }
        }
        hw::init(h, &c, self.link.map_or(c.speed, |l| l.speed), &self.filter);
        hw::options(h, &c, true);
    }

    // ---- interrupt settings ----

    /// Sets the control words for `new`; `adaptive`: a controller decided until now.
    fn set_control(&mut self, new: &Coalesce, adaptive: bool) {
        let c = &self.config;
        let running = |old: u32, new: u32| (old & cr::RS) | new;
        let frames = match (new.adaptive_rx, adaptive) {
            (Adaptive::Off, _) => new.rx_frames,
            (_, false) => u32::from(self.controller.setting().packets),
            // The count stays what the controller believes it to be.
            (_, true) => (self.channels[RX].cr & cr::THRESHOLD) >> cr::THRESHOLD_SHIFT,
        };
        let ns = |usecs: u32| u64::from(usecs) * 1_000;
        let rx = control(frames, ns(new.rx_usecs), c.clock_hz);
        let tx = control(new.tx_frames, ns(new.tx_usecs), c.clock_hz);
        self.channels[RX].cr = running(self.channels[RX].cr, rx);
        self.channels[TX].cr = running(self.channels[TX].cr, tx);
    }

    /// Writes a channel's control word, without the enables if a poll is to restore them.
    fn write_control<H: Host>(&mut self, h: &mut H, i: usize) {
        let Channel { at, cr: word, scheduled } = self.channels[i];
        dma_put(h, at, dma::CR, if scheduled { word & !cr::IRQ_ALL } else { word });
    }

    /// Changes the coalescing (`ethtool -C`). Nothing changes on an error.
    ///
    /// # Errors
    /// Returns [`OpenError::Setting`] when a value is out of range.
    pub fn set_coalesce<H: Host>(&mut self, h: &mut H, new: &Coalesce) -> Opened {
        new.check()?;
        let adaptive = self.config.coalesce.adaptive_rx != Adaptive::Off;
        if adaptive && new.adaptive_rx == Adaptive::Off {
            // The last decision is void, but the controller waits for its answer.
            self.take_pending();
        }
        self.set_control(new, adaptive);
        self.config.coalesce = *new;
        self.write_control(h, RX);
        self.write_control(h, TX);
        Ok(())
    }

    /// Returns the coalescing as the control words have it: delays rounded to the device's units
    /// and capped at 255 of them, none with a count of one (`axienet_ethtools_get_coalesce`).
    pub fn coalesce(&self) -> Coalesce {
        let of = |i: usize| thresholds(self.channels[i].cr, self.config.clock_hz);
        let ((rx_frames, rx_usecs), (tx_frames, tx_usecs)) = (of(RX), of(TX));
        Coalesce { rx_frames, rx_usecs, tx_frames, tx_usecs, ..self.config.coalesce }
    }

    /// Takes the controller's decision, and tells it so.
    fn take_pending(&mut self) -> Option<Setting> {
        let setting = self.pending.take()?;
        self.controller.applied();
        Some(setting)
    }

    /// Writes the controller's decision to the device (`axienet_rx_dim_work`).
    fn moderate<H: Host>(&mut self, h: &mut H) {
        let Some(setting) = self.take_pending() else { return };
        let user = self.config.coalesce;
        let frames = match setting.packets {
            // No such limit.
            0 => u32::MAX,
            n => n.into(),
        };
        let old = self.channels[RX].cr;
        let keep = old & !cr::THRESHOLD;
        let clock = self.config.clock_hz;
        self.channels[RX].cr = match user.adaptive_rx {
            Adaptive::Off => return,
            Adaptive::Count if clamp(frames) > 1 && old & cr::DELAY == 0 => {
                // A threshold of one had no delay. Without one, the last packets of a burst would
                // never be announced.
                let ns = u64::from(user.rx_usecs) * 1_000;
                keep | clamp(frames) << cr::THRESHOLD_SHIFT
                    | delay_units(ns, clock) << cr::DELAY_SHIFT
                    | cr::DLY_IRQ_EN
            }
            Adaptive::Count => keep | clamp(frames) << cr::THRESHOLD_SHIFT,
            Adaptive::CountAndDelay => {
                // Without a delay a higher threshold could wait for ever.
                let frames = if setting.delay_ns == 0 { 1 } else { frames };
                let new = old & cr::RS | control(frames, setting.delay_ns.into(), clock);
                if new & cr::DELAY == 0 {
                    // The running delay announces what is done and below the old count; the end of
                    // the next poll removes it.
                    new | old & (cr::DELAY | cr::DLY_IRQ_EN)
                } else {
                    new
                }
            }
        };
        self.stats.moderations += 1;
        self.write_control(h, RX);
    }

    /// Passes the counters to the controller at the end of a poll that ran dry.
    fn sample<H: Host>(&mut self, h: &mut H) {
        if self.config.coalesce.adaptive_rx == Adaptive::Off {
            return;
        }
        let (tx, rx) = (&self.tx.stats, &self.rx.stats);
        let sample = Sample {
            time_ns: h.now().ps() / 1_000,
            events: self.stats.rx_irqs,
            rx: Flow { packets: rx.rx_packets, bytes: rx.rx_bytes },
            tx: Flow { packets: tx.tx_packets, bytes: tx.tx_bytes },
            completions: rx.rx_packets,
        };
        if let Some(setting) = self.controller.sample(&sample) {
            self.pending = Some(setting);
        }
    }

    /// Enables a channel's interrupts at the end of its poll. Status bits latched meanwhile
    /// interrupt at once.
    fn complete_poll<H: Host>(&mut self, h: &mut H, i: usize) {
        let both = self.config.coalesce.adaptive_rx == Adaptive::CountAndDelay;
        let channel = &mut self.channels[i];
        if core::mem::take(&mut channel.scheduled) {
            if i == RX && both && channel.cr & cr::THRESHOLD == 1 << cr::THRESHOLD_SHIFT {
                // Each packet interrupts, so no delay is needed any more.
                channel.cr &= !(cr::DELAY | cr::DLY_IRQ_EN);
            }
            dma_put(h, channel.at, dma::CR, channel.cr);
        }
    }
    fn channel_irq<H: Host>(&mut self, h: &mut H, i: usize) -> Irq {
        let at = self.channels[i].at;
        let status = dma_get(h, at, dma::SR);
        if is_absent(status) || status & sr::IRQ_ALL == 0 {
            self.stats.stray_irqs += 1;
            return Irq::None;
        }
        // All bits, not only those that are cleared: QEMU's model takes the rest as the new value.
        dma_put(h, at, dma::SR, status);
        if status & sr::ERR_IRQ != 0 {
            self.stats.dma_errors += 1;
            self.failed = true;
            // The poll asks for recovery.
            return Irq::Poll;
        }
        let counter = if i == RX { &mut self.stats.rx_irqs } else { &mut self.stats.tx_irqs };
        *counter += 1;
        let channel = &mut self.channels[i];
        if channel.scheduled {
            return Irq::Handled;
        }
        channel.scheduled = true;
        // The error interrupt stays, and so do threshold and delay.
        dma_put(h, at, dma::CR, channel.cr & !(cr::IOC_IRQ_EN | cr::DLY_IRQ_EN));
        Irq::Poll
    }

    fn mac_irq<H: Host>(&mut self, h: &mut H) -> Irq {
        let pending = get(h, mac::IP);
        if pending == 0 || is_absent(pending) {
            self.stats.stray_irqs += 1;
            return Irq::None;
        }
        self.stats.mac_irqs += 1;
        self.stats.rx_missed_errors += u64::from(pending & int::RX_FIFO_OVERFLOW != 0);
        self.stats.rx_rejected += u64::from(pending & int::RX_REJECT != 0);
        put(h, mac::IS, pending);
        Irq::Handled
    }

    /// Resets the whole core after an error, drops everything queued, and starts again with the
    /// same settings and filter.
    ///
    /// # Errors
    /// Fails when the core does not answer, or has no receive buffers.
    pub fn restart<H: Host>(&mut self, h: &mut H) -> Opened {
        if let Some(baseline) = &mut self.baseline {
            baseline.collect(h);
        }
        hw::options(h, &self.config, false);
        let reset = hw::stop(h);
        self.tx.clear(h);
        let has_buffers = self.rx.rearm(h);
        reset?;
        if let Some(baseline) = &mut self.baseline {
            baseline.restarted();
        }
        fail_if(!has_buffers, OpenError::OutOfMemory)?;
        self.stats.recoveries += 1;
        self.failed = false;
        self.start(h);
        Ok(())
    }

    // ---- the PHY and the link ----

    /// Reads register `reg` of PHY `phy`.
    ///
    /// # Errors
    /// Fails when MDIO does not answer in 20 ms, or the register cannot exist.
    pub fn mdio_read<H: Host>(&mut self, h: &mut H, phy: u8, reg: u8) -> Answer<u16> {
        mdio::access(h, self.config.mdio_clock_hz, phy, reg, None)
    }

    /// Writes register `reg` of PHY `phy`.
    ///
    /// # Errors
    /// As [`Axienet::mdio_read`].
    pub fn mdio_write<H: Host>(&mut self, h: &mut H, phy: u8, reg: u8, v: u16) -> Answer {
        mdio::access(h, self.config.mdio_clock_hz, phy, reg, Some(v)).map(drop)
    }

    /// Reads the link state from the PHY, and sets the MAC's speed if it changed.
    fn check_link<H: Host>(&mut self, h: &mut H, phy: u8) {
        let Ok(link) = mdio::negotiated(h, self.config.mdio_clock_hz, phy) else { return };
        if let Some(l) = link
            && self.link.map(|l| l.speed) != Some(l.speed)
        {
            hw::set_speed(h, l.speed);
        }
        self.link = link;
    }

    // ---- state ----

    /// Returns the link as configured, or as last read from the PHY; `None` when it is down.
    pub const fn link(&self) -> Option<Link> {
        self.link
    }
    /// Returns the MAC address.
    pub const fn mac(&self) -> [u8; 6] {
        self.config.mac
    }
    /// Returns the configuration, with the coalescing as last set.
    pub const fn config(&self) -> &Config {
        &self.config
    }
    /// Returns the controller of reception.
    pub const fn controller(&self) -> &C {
        &self.controller
    }
    /// Returns the driver's counters.
    pub fn stats(&self) -> Stats {
        let mut all = self.stats;
        all.add(&self.tx.stats);
        all.add(&self.rx.stats);
        all
    }
    /// Returns the MAC's counts since open. Reads its registers.
    pub fn hardware<H: Host>(&mut self, h: &mut H) -> Hardware {
        let Some(baseline) = &mut self.baseline else { return Hardware::default() };
        baseline.collect(h);
        baseline.total
    }
    /// Returns whether everything queued has been passed up.
    pub fn is_drained(&self) -> bool {
        self.tx.is_empty()
    }
    /// Sets the receive filter; it outlives a reset.
    pub fn set_filter<H: Host>(&mut self, h: &mut H, f: &Filter) {
        self.filter = f.clone();
        hw::set_filter(h, f);
    }
}

impl<C: Controller, H: Host> Driver<H> for Axienet<C> {
    #[inline]
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        if self.failed {
            self.stats.tx_busy += 1;
            return Tx::Busy(p);
        }
        self.tx.transmit(h, p, more)
    }

    /// Serves the channels that have interrupted, or both if none has, with a budget for each, as
    /// if each had its own NAPI.
    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        self.tx.complete_dropped(up);
        if self.failed {
            h.charge(CpuWork::Poll);
            return Poll::Work;
        }
        let asked = [TX, RX].map(|i| self.channels[i].scheduled);
        let both = asked == [false; 2];
        let mut again = false;
        if asked[TX] || both {
            h.charge(CpuWork::Poll);
            if self.tx.reclaim(h, budget, up) < budget {
                self.complete_poll(h, TX);
            } else {
                again = true;
            }
        }
        if asked[RX] || both {
            h.charge(CpuWork::Poll);
            if self.rx.poll(h, budget, up) < budget {
                if asked[RX] {
                    self.sample(h);
                }
                self.complete_poll(h, RX);
            } else {
                again = true;
            }
        }
        if again {
            Poll::Again
        } else if self.pending.is_some() || self.rx.is_starved() {
            Poll::Work
        } else {
            Poll::Idle
        }
    }

    /// Handles an interrupt on a line of [`mod@line`].
    fn interrupt(&mut self, h: &mut H, vector: u16) -> Irq {
        h.charge(CpuWork::Interrupt);
        match vector {
            line::TX => self.channel_irq(h, TX),
            line::RX => self.channel_irq(h, RX),
            line::MAC => self.mac_irq(h),
            _ => Irq::None,
        }
    }

    /// Recovers, writes the controller's setting, retries a failed receive buffer, and once a
    /// second checks the link. Call it every second or two as well.
    fn work(&mut self, h: &mut H) {
        if self.failed && self.restart(h).is_err() {
            // The next call retries.
            return;
        }
        self.moderate(h);
        if self.rx.is_starved() {
            self.rx.feed(h);
        }
        if let Some(phy) = self.config.phy
            && self.link_checked.is_none_or(|t| h.now().since(t) >= LINK_INTERVAL)
        {
            self.link_checked = Some(h.now());
            self.check_link(h, phy);
        }
    }

    /// Finds a lost interrupt in SR; without one, resets a core whose queue hangs. Linux has no
    /// such timeout.
    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        let mut found = Irq::None;
        for i in [TX, RX] {
            let status = dma_get(h, self.channels[i].at, dma::SR);
            let idle = is_absent(status) || self.channels[i].scheduled || self.failed;
            if !idle
                && status & self.channels[i].cr & sr::IRQ_ALL != 0
                && self.channel_irq(h, i) == Irq::Poll
            {
                self.stats.missed_irqs += 1;
                found = Irq::Poll;
            }
        }
        if why == Alarm::TxTimeout && found == Irq::None {
            self.stats.tx_timeouts += u64::from(!self.failed);
            self.failed = true;
            return Irq::Poll;
        }
        if found == Irq::None {
            self.work(h);
        }
        if self.tx.holds_dropped() { Irq::Poll } else { found }
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
