//! An adapter from open to close, its interrupt and poll, and what may be changed in
//! between.
//!
//! Source: ibmveth.c `ibmveth_open`, `ibmveth_close`, `ibmveth_poll`,
//! `ibmveth_interrupt`, `ibmveth_change_mtu`, `ibmveth_set_multicast_list`,
//! `ibmveth_set_features`.

use super::call::{self, Registration};
use super::config::{Config, LargeSend, OpenError};
use super::negotiate::{self, Negotiated};
use super::pool::{POOLS, Pools, reachable};
use super::rx::{self, Queue};
use super::stats::Stats;
use super::tx::Sender;
use crate::{Alarm, Driver, Irq, Poll, Sink, Tx};
use alloc::vec::Vec;
use doorbell_hal::{Coherent, CpuWork, Hypervisor, Span};
use doorbell_layout::ibmveth::{PAGE, buffer_list, status};
use doorbell_packet::Packet;
use zerocopy::big_endian::U64;

/// From the end of H_FREE_LOGICAL_LAN to when nothing of it is on its way any more.
const SETTLE: Span = Span::from_ms(1);

/// What an open adapter has.
#[derive(Debug)]
struct Open {
    buffer_list: Coherent,
    filter_list: Coherent,
    queue: Queue,
    pools: Pools,
}

/// What is received besides unicast to the own address and broadcast.
#[derive(Clone, Copy, Debug, Default)]
pub struct Filter<'a> {
    /// All multicast; also when there are more groups than the filter holds. An adapter
    /// has no promiscuous mode, and Linux does this for it.
    pub all_multicast: bool,
    /// These groups.
    pub multicast: &'a [[u8; 6]],
}

/// A logical LAN adapter.
#[derive(Debug)]
pub struct Ibmveth {
    config: Config,
    negotiated: Negotiated,
    /// `None` after a reopening that failed.
    open: Option<Open>,
    tx: Sender,
    stats: Stats,
    /// Frames that the hypervisor could not place, in openings before this one.
    no_buffer_before: u64,
    all_multicast: bool,
    multicast: Vec<[u8; 6]>,
    /// Interrupts are off, and a poll is to follow.
    scheduled: bool,
}

impl Ibmveth {
    /// Negotiates, registers the adapter, lends it buffers, and enables its interrupt.
    ///
    /// # Errors
    /// When a setting is out of range, memory runs out or lies beyond 32 bits, or the
    /// hypervisor refuses. Nothing is left behind then.
    pub fn open<H: Hypervisor>(h: &mut H, c: &Config) -> Result<Ibmveth, OpenError> {
        c.check()?;
        let mut nic = Ibmveth {
            config: *c,
            negotiated: Negotiated::default(),
            open: None,
            tx: Sender::allocate(h)?,
            stats: Stats::default(),
            no_buffer_before: 0,
            all_multicast: false,
            multicast: Vec::new(),
            scheduled: false,
        };
        nic.negotiated = negotiate::negotiate(h, c);
        match nic.up(h) {
            Ok(()) => Ok(nic),
            Err(e) => {
                nic.tx.release(h);
                Err(e)
            }
        }
    }

    /// Closes the adapter and gives all memory back; what was sent and not yet handed
    /// back is released. What the driver has counted, with what was lost at the end.
    pub fn close<H: Hypervisor>(mut self, h: &mut H) -> Stats {
        self.down(h);
        self.tx.release(h);
        self.stats
    }

    fn up<H: Hypervisor>(&mut self, h: &mut H) -> Result<(), OpenError> {
        let unit = self.config.unit;
        let buffer_list = page(h)?;
        let filter_list = match page(h) {
            Ok(p) => p,
            Err(e) => {
                h.release_coherent(buffer_list);
                return Err(e);
            }
        };
        let queue = match Queue::allocate(h, self.config.slots()) {
            Ok(q) => q,
            Err(e) => {
                h.release_coherent(filter_list);
                h.release_coherent(buffer_list);
                return Err(e);
            }
        };
        let registration = Registration {
            buffer_list: buffer_list.iova().0 as u32,
            queue: queue.descriptor(),
            filter_list: filter_list.iova().0 as u32,
            mac: self.config.mac,
        };
        let pools = Pools::new(&self.config.pools, self.negotiated.multi_buffer);
        self.open = Some(Open { buffer_list, filter_list, queue, pools });
        // None may come from an adapter that was left open.
        call::signal(h, unit, false);
        let answer = call::register(h, unit, &registration);
        if answer != status::H_SUCCESS {
            self.release(h);
            return Err(OpenError::Refused("H_REGISTER_LOGICAL_LAN", answer));
        }
        self.scheduled = false;
        let answer = self.set_filter_again(h);
        // Firmware without the call receives all multicast, and is no worse for it.
        if answer != status::H_SUCCESS && answer != status::H_FUNCTION {
            self.down(h);
            return Err(OpenError::Refused("H_MULTICAST_CTRL", answer));
        }
        // On before there is a buffer, so that no frame comes unannounced.
        let answer = call::signal(h, unit, true);
        if answer != status::H_SUCCESS {
            self.down(h);
            return Err(OpenError::Refused("H_VIO_SIGNAL", answer));
        }
        if let Some(o) = &mut self.open {
            o.pools.replenish(h, unit, &mut self.stats);
        }
        Ok(())
    }

    /// Closes the adapter; the transmit buffer stays.
    fn down<H: Hypervisor>(&mut self, h: &mut H) {
        if self.open.is_none() {
            return;
        }
        call::signal(h, self.config.unit, false);
        // Of a hypervisor that does not let go no more can be asked.
        let _ = call::free(h, self.config.unit);
        // What is on its way arrives.
        h.delay(SETTLE);
        if let Some(o) = &self.open {
            self.stats.rx_unread += o.queue.unread(h);
        }
        self.count_no_buffer(h);
        self.no_buffer_before = self.stats.rx_no_buffer;
        self.release(h);
    }

    fn release<H: Hypervisor>(&mut self, h: &mut H) {
        let Some(o) = self.open.take() else { return };
        o.pools.release(h);
        o.queue.release(h);
        h.release_coherent(o.filter_list);
        h.release_coherent(o.buffer_list);
    }

    fn count_no_buffer<H: Hypervisor>(&mut self, h: &mut H) {
        if let Some(o) = &self.open {
            let now = h.load::<U64>(&o.buffer_list, buffer_list::RX_NO_BUFFER).get();
            self.stats.rx_no_buffer = self.no_buffer_before.wrapping_add(now);
        }
    }

    /// Closes the adapter, negotiates, opens it.
    fn reopen<H: Hypervisor>(&mut self, h: &mut H) -> Result<(), OpenError> {
        self.down(h);
        self.stats.reopened += 1;
        self.negotiated = negotiate::negotiate(h, &self.config);
        self.up(h)
    }

    // ---- changes ----

    /// Another MTU (`ibmveth_change_mtu`): pools are activated up to the first that holds
    /// it. Packets received and not yet polled are lost. The adapter reopens.
    ///
    /// # Errors
    /// [`OpenError::Setting`] when no pool holds it; nothing changes then. Else as
    /// [`Ibmveth::open`]; the adapter is closed then, and a further change may open it.
    pub fn set_mtu<H: Hypervisor>(&mut self, h: &mut H, mtu: u32) -> Result<(), OpenError> {
        if mtu < 68 {
            return Err(OpenError::Setting("mtu: 68 at least"));
        }
        let Some(last) = self.config.fitting_pool(mtu) else {
            return Err(OpenError::Setting("mtu: with 22 bytes within the largest pool's buffers"));
        };
        for p in &mut self.config.pools[..=last] {
            p.active = true;
        }
        self.config.mtu = mtu;
        self.reopen(h)
    }

    /// Other offloads (`ethtool -K`). The adapter reopens.
    ///
    /// # Errors
    /// As [`Ibmveth::set_mtu`].
    pub fn set_offloads<H: Hypervisor>(
        &mut self,
        h: &mut H,
        checksum: bool,
        large_send: LargeSend,
    ) -> Result<Negotiated, OpenError> {
        (self.config.checksum, self.config.large_send) = (checksum, large_send);
        self.reopen(h)?;
        Ok(self.negotiated)
    }

    /// Whether an active trunk takes large sends with a fragment list; see
    /// [`Config::fraglist`].
    pub fn set_fraglist(&mut self, on: bool) {
        self.config.fraglist = on;
    }

    /// Another own address.
    ///
    /// # Errors
    /// When the hypervisor refuses; the address stays then.
    pub fn set_mac<H: Hypervisor>(&mut self, h: &mut H, mac: [u8; 6]) -> Result<(), OpenError> {
        match call::change_mac(h, self.config.unit, mac) {
            status::H_SUCCESS => self.config.mac = mac,
            e => return Err(OpenError::Refused("H_CHANGE_LOGICAL_LAN_MAC", e)),
        }
        Ok(())
    }

    /// What else to receive; it outlives a reopening.
    ///
    /// # Errors
    /// When the hypervisor refuses; how much of it was done then is not known.
    pub fn set_filter<H: Hypervisor>(
        &mut self,
        h: &mut H,
        f: &Filter<'_>,
    ) -> Result<(), OpenError> {
        self.all_multicast = f.all_multicast;
        self.multicast = f.multicast.to_vec();
        match self.set_filter_again(h) {
            status::H_SUCCESS => Ok(()),
            e => Err(OpenError::Refused("H_MULTICAST_CTRL", e)),
        }
    }

    fn set_filter_again<H: Hypervisor>(&self, h: &mut H) -> i64 {
        let unit = self.config.unit;
        if self.all_multicast || self.multicast.len() > self.config.filters as usize {
            call::all_multicast(h, unit)
        } else {
            call::some_multicast(h, unit, &self.multicast)
        }
    }

    // ---- what else there is to ask ----

    /// What it was set up with, as changed since.
    pub const fn config(&self) -> &Config {
        &self.config
    }
    /// What the firmware agreed to.
    pub const fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }
    /// What the driver has counted.
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }
    /// Buffers lent by each pool; none of an adapter that is closed.
    pub fn lent(&self) -> [u32; POOLS] {
        self.open.as_ref().map_or([0; POOLS], |o| o.pools.lent())
    }
    /// Everything sent has been handed back.
    pub fn is_drained(&self) -> bool {
        self.tx.is_drained()
    }
    /// Hands back what was sent. A poll does so too, but no interrupt asks for a poll after a
    /// send; so whoever sends and does not receive calls this.
    pub fn reclaim<H: Hypervisor, S: Sink>(&mut self, h: &mut H, up: &mut S) {
        self.tx.reclaim(h, up);
    }

    /// The end of a poll: interrupts on, and a second look, for what came between the last look
    /// and the call interrupts nobody. Whether there is more to do.
    fn complete<H: Hypervisor>(&mut self, h: &mut H) -> bool {
        if !self.scheduled {
            return false;
        }
        call::signal(h, self.config.unit, true);
        self.scheduled = false;
        if !self.open.as_ref().is_some_and(|o| o.queue.pending(h)) {
            return false;
        }
        call::signal(h, self.config.unit, false);
        self.scheduled = true;
        self.stats.poll_rechecks += 1;
        true
    }
}

/// A page that the adapter can name.
fn page<H: Hypervisor>(h: &mut H) -> Result<Coherent, OpenError> {
    let c = h.coherent(PAGE, PAGE)?;
    if !reachable(c.iova().0, PAGE) {
        h.release_coherent(c);
        return Err(OpenError::Address);
    }
    Ok(c)
}

impl<H: Hypervisor> Driver<H> for Ibmveth {
    /// The hypervisor is told at once, whether or not more is to follow.
    #[inline]
    fn transmit(&mut self, h: &mut H, p: Packet, _more: bool) -> Tx {
        if self.tx.stopped() {
            return Tx::Busy(p);
        }
        if self.open.is_none() {
            self.stats.tx_dropped += 1;
            return Tx::Dropped(p);
        }
        self.tx.transmit(h, &self.config, &self.negotiated, &mut self.stats, p)
    }

    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        h.charge(CpuWork::Poll);
        self.tx.reclaim(h, up);
        let mut frames = 0;
        loop {
            let Some(o) = &mut self.open else { return Poll::Idle };
            while frames < budget {
                let Some(entry) = o.queue.next(h) else { break };
                // What is no packet counts too, so that a poll has an end.
                frames += 1;
                if let Some((p, good)) =
                    rx::receive(h, &self.config, &mut self.stats, &mut o.pools, entry)
                {
                    up.received(p, good);
                }
            }
            o.pools.replenish(h, self.config.unit, &mut self.stats);
            let starved = o.pools.starved;
            self.count_no_buffer(h);
            if frames == budget {
                return Poll::Again;
            }
            if !self.complete(h) {
                return if starved { Poll::CpuWork } else { Poll::Idle };
            }
        }
    }

    fn interrupt(&mut self, h: &mut H, vector: u16) -> Irq {
        h.charge(CpuWork::Interrupt);
        if vector != self.config.vector || self.open.is_none() {
            self.stats.stray_irqs += 1;
            return Irq::None;
        }
        self.stats.irqs += 1;
        if self.scheduled {
            return Irq::Handled;
        }
        call::signal(h, self.config.unit, false);
        self.scheduled = true;
        Irq::Poll
    }

    /// Lends buffers that could not be had before; without any nothing comes, and so no
    /// poll either.
    fn work(&mut self, h: &mut H) {
        if let Some(o) = &mut self.open {
            o.pools.replenish(h, self.config.unit, &mut self.stats);
        }
    }

    /// Linux has no timeout, for nothing that is sent is waited for; here a poll takes the buffers
    /// back, and a sender may wait for them. Where accesses have failed an entry of the receive
    /// queue may be missing, which stops it for good: the adapter is closed and opened
    /// (`ibmveth_reset`), and again while that fails.
    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        match why {
            Alarm::TxTimeout => {}
            Alarm::Tick if self.open.is_some() => self.work(h),
            // The next alarm tries again.
            Alarm::Tick | Alarm::IoError => _ = self.reopen(h),
        }
        Irq::Poll
    }

    /// After a thousand buffers that nobody took back ([`Ibmveth::reclaim`]).
    #[inline]
    fn stopped(&self) -> bool {
        self.tx.stopped()
    }
}
