//! A core from open to close, its interrupts, and its recovery.
//!
//! Source: xilinx_axienet_main.c `axienet_open`, `axienet_dma_start`,
//! `axienet_device_reset`, `axienet_tx_irq`, `axienet_rx_irq`, `axienet_eth_irq`,
//! `axienet_rx_dim_work`, `axienet_update_coalesce_rx`, `axienet_dma_err_handler`.

use super::coalesce::{Adaptive, Coalesce, clamp, control, delay_units, waits};
use super::config::{Config, OpenError};
use super::hw::{self, Filter, dma_get, dma_put, get, put};
use super::mdio::{self, Link, MdioError};
use super::rx::RxRing;
use super::stats::{Counted, Hardware, Stats};
use super::tx::TxRing;
use crate::{Alarm, Driver, Irq, Poll, Sink, Tx};
use alloc::vec::Vec;
use doorbell_hal::{CpuWork, Fence, Host, Span, Time};
use doorbell_layout::axienet::{MM2S, S2MM, ability, cr, dma, int, line, mac, sr};
use doorbell_moderation::{Controller, Flow, NetDim, Sample, Setting};
use doorbell_packet::Packet;

/// A DMA channel as the driver sees it.
#[derive(Debug)]
struct Channel {
    /// Its register's offset.
    at: u32,
    /// Control, with the interrupts that a poll's end enables.
    cr: u32,
    /// An interrupt has cleared the enables, and a poll is to follow.
    scheduled: bool,
}

/// A core that is open; `C` decides on the coalescing of reception.
#[derive(Debug)]
pub struct Axienet<C = NetDim> {
    config: Config,
    controller: C,
    tx: TxRing,
    rx: RxRing,
    channels: [Channel; 2],
    /// What the controller has decided and the device does not know yet.
    pending: Option<Setting>,
    filter: OwnFilter,
    link: Option<Link>,
    looked_at_link: Option<Time>,
    stats: Stats,
    counted: Option<Counted>,
    failed: bool,
}

#[derive(Debug, Default)]
struct OwnFilter {
    promiscuous: bool,
    all_multicast: bool,
    multicast: Vec<[u8; 6]>,
}

const TX: usize = 0;
const RX: usize = 1;
/// How often the PHY is asked (phylink).
const LINK_EVERY: Span = Span::from_ms(1000);

impl<C: Controller> Axienet<C> {
    /// Resets the core and starts it. `controller` is asked only if the settings have
    /// reception adaptive; [`Config::net_dim`] makes Linux's.
    ///
    /// # Errors
    /// When a setting is out of range, memory runs out, or the core does not answer.
    /// Nothing is left behind then.
    pub fn open<H: Host>(h: &mut H, c: &Config, controller: C) -> Result<Axienet<C>, OpenError> {
        c.check()?;
        hw::reset(h)?;
        let tx = TxRing::allocate(h, c)?;
        let rx = match RxRing::allocate(h, c) {
            Ok(rx) => rx,
            Err(e) => {
                tx.release(h);
                return Err(e);
            }
        };
        let counts = c.statistics.unwrap_or_else(|| {
            let can = get(h, mac::ABILITY);
            !hw::gone(can) && can & ability::STATISTICS != 0
        });
        let channel = |at| Channel { at, cr: 0, scheduled: false };
        let mut nic = Axienet {
            config: *c,
            controller,
            tx,
            rx,
            channels: [channel(MM2S), channel(S2MM)],
            pending: None,
            filter: OwnFilter::default(),
            link: c.phy.is_none().then_some(Link { speed: c.speed, full_duplex: true }),
            looked_at_link: None,
            stats: Stats::default(),
            counted: counts.then(Counted::default),
            failed: false,
        };
        if let Some(counted) = &mut nic.counted {
            counted.begin(h);
        }
        nic.set_words(&c.coalesce, false);
        nic.up(h);
        Ok(nic)
    }

    /// Stops the core and gives all memory back; packets still queued are released. What the driver
    /// has counted, with what was lost at the end.
    pub fn close<H: Host>(mut self, h: &mut H) -> Stats {
        hw::options(h, &self.config, false);
        // A core that is gone has nothing to stop.
        let _ = hw::stop(h);
        self.tx.clear(h, &mut self.stats);
        self.rx.count_lost(h, &mut self.stats);
        self.tx.release(h);
        self.rx.release(h);
        self.stats
    }

    /// Takes a core that is reset to receiving and sending.
    fn up<H: Host>(&mut self, h: &mut H) {
        let c = self.config;
        // Rings and descriptors are in memory before a channel may look.
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
                // All are the device's, up to the last. The other channel idles until there is a
                // packet.
                self.rx.announce(h, &c, &mut self.stats);
            }
        }
        let filter = Filter {
            promiscuous: self.filter.promiscuous,
            all_multicast: self.filter.all_multicast,
            multicast: &self.filter.multicast,
        };
        hw::init(h, &c, self.link.map_or(c.speed, |l| l.speed), &filter);
        hw::options(h, &c, true);
    }

    // ---- interrupt settings ----

    /// The control words for `new`; `adaptive` says that a controller decided until now.
    fn set_words(&mut self, new: &Coalesce, adaptive: bool) {
        let c = &self.config;
        let running = |old: u32, new: u32| (old & cr::RS) | new;
        let frames = match (new.adaptive_rx, adaptive) {
            (Adaptive::Off, _) => new.rx_frames,
            (_, false) => u32::from(self.controller.setting().packets),
            // The count stays, so that the controller knows what it is.
            (_, true) => (self.channels[RX].cr & cr::THRESHOLD) >> cr::THRESHOLD_SHIFT,
        };
        let ns = |usecs: u32| u64::from(usecs) * 1_000;
        let rx = control(frames, ns(new.rx_usecs), c.clock_hz);
        let tx = control(new.tx_frames, ns(new.tx_usecs), c.clock_hz);
        self.channels[RX].cr = running(self.channels[RX].cr, rx);
        self.channels[TX].cr = running(self.channels[TX].cr, tx);
    }

    /// Brings a channel's control word to the device, the enables only if a poll has
    /// not got them.
    fn write_word<H: Host>(&mut self, h: &mut H, i: usize) {
        let Channel { at, cr: word, scheduled } = self.channels[i];
        dma_put(h, at, dma::CR, if scheduled { word & !cr::IRQ_ALL } else { word });
    }

    /// Changes what the channels wait for (`ethtool -C`). Nothing changes on an error.
    ///
    /// # Errors
    /// [`OpenError::Setting`], when something is out of range.
    pub fn set_coalesce<H: Host>(&mut self, h: &mut H, new: &Coalesce) -> Result<(), OpenError> {
        new.check()?;
        let adaptive = self.config.coalesce.adaptive_rx != Adaptive::Off;
        if adaptive && new.adaptive_rx == Adaptive::Off {
            // What was decided last is of no use any more, but was waited for.
            self.settle();
        }
        self.set_words(new, adaptive);
        self.config.coalesce = *new;
        self.write_word(h, RX);
        self.write_word(h, TX);
        Ok(())
    }

    /// Returns what the channels wait for, read back from their control words: delays are rounded
    /// to the device's units and cut to 255 of them, and a count of one has none
    /// (`axienet_ethtools_get_coalesce`).
    pub fn coalesce(&self) -> Coalesce {
        let of = |i: usize| waits(self.channels[i].cr, self.config.clock_hz);
        let ((rx_frames, rx_usecs), (tx_frames, tx_usecs)) = (of(RX), of(TX));
        Coalesce { rx_frames, rx_usecs, tx_frames, tx_usecs, ..self.config.coalesce }
    }

    /// Ends what the controller waits for.
    fn settle(&mut self) -> Option<Setting> {
        let setting = self.pending.take()?;
        self.controller.applied();
        Some(setting)
    }

    /// Brings what the controller has decided to the device (`axienet_rx_dim_work`).
    fn moderate<H: Host>(&mut self, h: &mut H) {
        let Some(setting) = self.settle() else { return };
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
                // A threshold of one had none; without it, the last packets of a burst would stay.
                let ns = u64::from(user.rx_usecs) * 1_000;
                keep | clamp(frames) << cr::THRESHOLD_SHIFT
                    | delay_units(ns, clock) << cr::DELAY_SHIFT
                    | cr::DLY_IRQ_EN
            }
            Adaptive::Count => keep | clamp(frames) << cr::THRESHOLD_SHIFT,
            Adaptive::CountAndDelay => {
                // With no time to wait there is nothing to wait for.
                let frames = if setting.delay_ns == 0 { 1 } else { frames };
                let new = old & cr::RS | control(frames, setting.delay_ns.into(), clock);
                if new & cr::DELAY == 0 {
                    // What is done and below the old count is for the delay that runs to announce;
                    // the end of the next poll takes it away.
                    new | old & (cr::DELAY | cr::DLY_IRQ_EN)
                } else {
                    new
                }
            }
        };
        self.stats.moderations += 1;
        self.write_word(h, RX);
    }

    /// Shows the controller the counters, at the end of a poll that ran dry.
    fn sample<H: Host>(&mut self, h: &mut H) {
        if self.config.coalesce.adaptive_rx == Adaptive::Off {
            return;
        }
        let s = &self.stats;
        let sample = Sample {
            time_ns: h.now().ps() / 1_000,
            events: s.rx_irqs,
            rx: Flow { packets: s.rx_packets, bytes: s.rx_bytes },
            tx: Flow { packets: s.tx_packets, bytes: s.tx_bytes },
            completions: s.rx_packets,
        };
        if let Some(setting) = self.controller.sample(&sample) {
            self.pending = Some(setting);
        }
    }

    /// The end of a channel's poll: interrupts are enabled again. What is latched in SR meanwhile
    /// interrupts at once.
    fn complete<H: Host>(&mut self, h: &mut H, i: usize) {
        let both = self.config.coalesce.adaptive_rx == Adaptive::CountAndDelay;
        let channel = &mut self.channels[i];
        if core::mem::take(&mut channel.scheduled) {
            if i == RX && both && channel.cr & cr::THRESHOLD == 1 << cr::THRESHOLD_SHIFT {
                // Each packet interrupts by now: there is nothing left for a delay.
                channel.cr &= !(cr::DELAY | cr::DLY_IRQ_EN);
            }
            dma_put(h, channel.at, dma::CR, channel.cr);
        }
    }

    /// A channel's interrupt.
    fn channel_irq<H: Host>(&mut self, h: &mut H, i: usize) -> Irq {
        let at = self.channels[i].at;
        let status = dma_get(h, at, dma::SR);
        if hw::gone(status) || status & sr::IRQ_ALL == 0 {
            self.stats.stray_irqs += 1;
            return Irq::None;
        }
        // All of it, not only the bits that clear: a model is known that takes the rest for its
        // value.
        dma_put(h, at, dma::SR, status);
        if status & sr::ERR_IRQ != 0 {
            self.stats.dma_errors += 1;
            self.failed = true;
            // The poll asks for the work.
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
        if pending == 0 || hw::gone(pending) {
            self.stats.stray_irqs += 1;
            return Irq::None;
        }
        self.stats.mac_irqs += 1;
        self.stats.rx_missed_errors += u64::from(pending & int::RX_FIFO_OVERFLOW != 0);
        self.stats.rx_rejected += u64::from(pending & int::RX_REJECT != 0);
        put(h, mac::IS, pending);
        Irq::Handled
    }

    /// After an error: the whole core is reset, everything queued is dropped, and all
    /// starts again with the settings and the filter it had.
    ///
    /// # Errors
    /// When the core does not come back, or has no receive buffers.
    pub fn restart<H: Host>(&mut self, h: &mut H) -> Result<(), OpenError> {
        if let Some(counted) = &mut self.counted {
            counted.collect(h);
        }
        hw::options(h, &self.config, false);
        let reset = hw::stop(h);
        self.tx.clear(h, &mut self.stats);
        let fed = self.rx.rearm(h, &self.config, &mut self.stats);
        reset?;
        if let Some(counted) = &mut self.counted {
            counted.restarted();
        }
        if !fed {
            return Err(OpenError::OutOfMemory);
        }
        self.stats.recoveries += 1;
        self.failed = false;
        self.up(h);
        Ok(())
    }

    // ---- the PHY and the link ----

    /// Reads register `reg` of PHY `phy`.
    ///
    /// # Errors
    /// When MDIO does not answer in 20 ms, or there can be no such register.
    pub fn mdio_read<H: Host>(&mut self, h: &mut H, phy: u8, reg: u8) -> Result<u16, MdioError> {
        mdio::access(h, self.config.mdio_clock_hz, phy, reg, None)
    }

    /// Writes it.
    ///
    /// # Errors
    /// As [`Axienet::mdio_read`].
    pub fn mdio_write<H: Host>(
        &mut self,
        h: &mut H,
        phy: u8,
        reg: u8,
        v: u16,
    ) -> Result<(), MdioError> {
        mdio::access(h, self.config.mdio_clock_hz, phy, reg, Some(v)).map(drop)
    }

    /// Asks the PHY, and tells the MAC if the speed is another.
    fn look_at_link<H: Host>(&mut self, h: &mut H, phy: u8) {
        let Ok(link) = mdio::negotiated(h, self.config.mdio_clock_hz, phy) else { return };
        if let Some(l) = link
            && self.link.map(|l| l.speed) != Some(l.speed)
        {
            hw::set_speed(h, l.speed);
        }
        self.link = link;
    }

    // ---- what else there is to ask ----

    /// The link: as set up, or as the PHY last said ([`Driver::work`]); `None` is down.
    pub const fn link(&self) -> Option<Link> {
        self.link
    }
    /// Its own address.
    pub const fn mac(&self) -> [u8; 6] {
        self.config.mac
    }
    /// What it was set up with; the interrupt settings are those asked for last.
    pub const fn config(&self) -> &Config {
        &self.config
    }
    /// Who decides on reception.
    pub const fn controller(&self) -> &C {
        &self.controller
    }
    /// What the driver has counted.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }
    /// What the MAC has counted since it was opened. Reads its registers.
    pub fn hardware<H: Host>(&mut self, h: &mut H) -> Hardware {
        let Some(counted) = &mut self.counted else { return Hardware::default() };
        counted.collect(h);
        counted.total
    }
    /// Everything queued has been given back.
    pub fn is_drained(&self) -> bool {
        self.tx.is_empty()
    }
    /// What else to receive.
    pub fn set_filter<H: Host>(&mut self, h: &mut H, f: &Filter<'_>) {
        self.filter = OwnFilter {
            promiscuous: f.promiscuous,
            all_multicast: f.all_multicast,
            multicast: f.multicast.to_vec(),
        };
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
        self.tx.transmit(h, &self.config, &mut self.stats, p, more)
    }

    /// Serves the channels whose interrupts wait for it, with a budget for each, as if
    /// each had its own NAPI; when none does, both.
    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        self.tx.hand_back(up);
        if self.failed {
            h.charge(CpuWork::Poll);
            return Poll::CpuWork;
        }
        let asked = [TX, RX].map(|i| self.channels[i].scheduled);
        let both = asked == [false; 2];
        let mut again = false;
        if asked[TX] || both {
            h.charge(CpuWork::Poll);
            if self.tx.reap(h, &mut self.stats, budget, up) < budget {
                self.complete(h, TX);
            } else {
                again = true;
            }
        }
        if asked[RX] || both {
            h.charge(CpuWork::Poll);
            if self.rx.poll(h, &self.config, &mut self.stats, budget, up) < budget {
                if asked[RX] {
                    self.sample(h);
                }
                self.complete(h, RX);
            } else {
                again = true;
            }
        }
        if again {
            Poll::Again
        } else if self.pending.is_some() || self.rx.is_starved() {
            Poll::CpuWork
        } else {
            Poll::Idle
        }
    }

    /// The handler of a line of [`mod@line`]; the lines of other numbers are not ours.
    fn interrupt(&mut self, h: &mut H, vector: u16) -> Irq {
        h.charge(CpuWork::Interrupt);
        match vector {
            line::TX => self.channel_irq(h, TX),
            line::RX => self.channel_irq(h, RX),
            line::MAC => self.mac_irq(h),
            _ => Irq::None,
        }
    }

    /// Recovery, the controller's setting, a receive buffer that could not be had before,
    /// and once a second the link. Also to be called every second or two.
    fn work(&mut self, h: &mut H) {
        if self.failed && self.restart(h).is_err() {
            // It is tried again at the next call.
            return;
        }
        self.moderate(h);
        if self.rx.is_starved() {
            self.rx.feed(h, &self.config, &mut self.stats);
        }
        if let Some(phy) = self.config.phy
            && self.looked_at_link.is_none_or(|t| h.now().since(t) >= LINK_EVERY)
        {
            self.looked_at_link = Some(h.now());
            self.look_at_link(h, phy);
        }
    }

    /// Not Linux's, which has no timeout: an interrupt that nobody heard is found in SR, and a
    /// queue that hangs all the same has its core reset.
    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        let mut found = Irq::None;
        for i in [TX, RX] {
            let status = dma_get(h, self.channels[i].at, dma::SR);
            let idle = hw::gone(status) || self.channels[i].scheduled || self.failed;
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
}
