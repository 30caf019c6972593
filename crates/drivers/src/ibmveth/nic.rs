//! An adapter: opening, changes while it is open, its interrupt and poll.
//!
//! Source: ibmveth.c `ibmveth_open`, `ibmveth_close`, `ibmveth_poll`, `ibmveth_interrupt`,
//! `ibmveth_change_mtu`, `ibmveth_set_multicast_list`, `ibmveth_set_features`.

use super::call::{self, Registration};
use super::config::{Config, LargeSend, POOLS, reachable};
use super::negotiate::{self, Negotiated};
use super::rx::{self, RxQueue};
use super::{pool::Pools, stats::Stats, tx::TxQueue};
use crate::common::{both, coherent};
use crate::{Alarm, Driver, Filter, Irq, OpenError, Opened, Poll, Sink, Tx, check};
use doorbell_hal::{Coherent, CpuWork, Hypervisor, Span};
use doorbell_layout::ibmveth::{PAGE, buffer_list, status};
use doorbell_packet::Packet;
use zerocopy::big_endian::U64;

/// Time after H_FREE_LOGICAL_LAN until all outstanding writes have arrived.
const SETTLE: Span = Span::from_ms(1);

#[derive(Debug)]
struct OpenState {
    buffer_list: Coherent,
    filter_list: Coherent,
    queue: RxQueue,
    pools: Pools,
}

/// A logical LAN adapter.
///
/// # Receive
///
/// Buffers of up to five sizes are lent to the hypervisor, which takes the smallest that fits. The
/// driver writes a correlator (pool and index) into each buffer and finds it again in the entry of
/// the receive queue. A toggle tells new entries from old; it begins as 1 and flips at each wrap.
/// Buffers are lent with H_ADD_LOGICAL_LAN_BUFFER(S); H_VIO_SIGNAL switches the interrupt, and each
/// poll ends with a second look at the queue.
///
/// # Transmit
///
/// A send is over when H_SEND_LOGICAL_LAN returns, because the hypervisor copies meanwhile.
/// [`super::Transmit`] chooses between mapping each fragment, up to six, and copying the packet to
/// a buffer that stays mapped. Nothing interrupts for a send; each poll, or [`Ibmveth::reclaim`],
/// passes the buffers up.
///
/// # Offloads
///
/// Offloads are negotiated with H_ILLAN_ATTRIBUTES before the adapter is opened; each change
/// closes and reopens it. An omitted TCP checksum leaves zero in its field, so a receiver that
/// forwards the packet must complete it: the driver writes the pseudo-header's sum and passes the
/// packet up as CHECKSUM_PARTIAL. A large send reaches another partition whole; its receiver learns
/// the segment size beside the data, or, in the old way, in the checksum fields.
///
/// A packet that the firmware cannot send is converted as the stack above Linux's driver would:
/// segmented, linearised, tagged, or its checksum completed. A large send with a fragment list is
/// segmented without [`Config::fraglist`], and linearised and sent whole with it.
///
/// # Differences from Linux
///
/// - Copied packets keep their fragment list; 6.17 drops such packets.
/// - The bounce buffer of the mapped way holds a large send; 4.4's did not.
/// - A received large packet always gets a pseudo-header sum, so that it can be forwarded.
/// - The pseudo-header of a padded frame has the datagram's length.
/// - Counters survive a reopening.
/// - There is one transmit queue, of the CPU that owns the driver.
#[derive(Debug)]
pub struct Ibmveth {
    pub(super) config: Config,
    pub(super) negotiated: Negotiated,
    /// `None` after a reopening that failed.
    open: Option<OpenState>,
    pub(super) tx: TxQueue,
    pub(super) stats: Stats,
    /// Frames that the hypervisor could not place, before the last opening.
    no_buffer_before: u64,
    filter: Filter,
    /// Interrupts are off, and a poll follows.
    scheduled: bool,
}

impl Ibmveth {
    /// Negotiates, registers the adapter, lends it buffers, and enables its interrupt.
    ///
    /// # Errors
    /// Fails when a setting is out of range, memory runs out or lies beyond 32 bits, or the
    /// hypervisor refuses. Nothing is left allocated then.
    pub fn open<H: Hypervisor>(h: &mut H, c: &Config) -> Opened<Ibmveth> {
        c.check()?;
        let mut nic = Ibmveth {
            config: *c,
            negotiated: Negotiated::default(),
            open: None,
            tx: TxQueue::allocate(h)?,
            stats: Stats::default(),
            no_buffer_before: 0,
            filter: Filter::default(),
            scheduled: false,
        };
        nic.negotiated = negotiate::negotiate(h, c);
        let up = nic.up(h);
        Ok(both(nic, up, |nic| nic.tx.release(h))?.0)
    }

    /// Closes the adapter and releases all memory, with sent buffers not yet passed up. Returns the
    /// final counts.
    pub fn close<H: Hypervisor>(mut self, h: &mut H) -> Stats {
        self.down(h);
        let stats = self.stats();
        self.tx.release(h);
        stats
    }

    fn up<H: Hypervisor>(&mut self, h: &mut H) -> Opened {
        let unit = self.config.unit;
        let buffer_list = page(h)?;
        let filter_list = page(h);
        let pages = both(buffer_list, filter_list, |p| h.release_coherent(p))?;
        let queue = RxQueue::allocate(h, self.config.slots());
        let ((buffer_list, filter_list), queue) = both(pages, queue, |(buffers, filters)| {
            h.release_coherent(filters);
            h.release_coherent(buffers);
        })?;
        let registration = Registration {
            buffer_list: buffer_list.iova().0 as u32,
            queue: queue.descriptor(),
            filter_list: filter_list.iova().0 as u32,
            mac: self.config.mac,
        };
        let pools = Pools::new(&self.config.pools, self.negotiated.multi_buffer);
        self.open = Some(OpenState { buffer_list, filter_list, queue, pools });
        // A previous owner may have left the adapter open, with its interrupt on.
        call::signal(h, unit, false);
        let answer = call::register(h, unit, &registration);
        if answer != status::H_SUCCESS {
            self.release(h);
            return Err(OpenError::Call("H_REGISTER_LOGICAL_LAN", answer));
        }
        self.scheduled = false;
        let answer = self.apply_filter(h);
        // Firmware without the call receives all multicast, which is acceptable.
        if answer != status::H_SUCCESS && answer != status::H_FUNCTION {
            self.down(h);
            return Err(OpenError::Call("H_MULTICAST_CTRL", answer));
        }
        // Before buffers are lent, so that no frame arrives without an interrupt.
        let answer = call::signal(h, unit, true);
        if answer != status::H_SUCCESS {
            self.down(h);
            return Err(OpenError::Call("H_VIO_SIGNAL", answer));
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
        // Nothing can be done about a refusal.
        let _ = call::free(h, self.config.unit);
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

    /// Closes the adapter, negotiates, and opens it again.
    fn reopen<H: Hypervisor>(&mut self, h: &mut H) -> Opened {
        self.down(h);
        self.stats.reopened += 1;
        self.negotiated = negotiate::negotiate(h, &self.config);
        self.up(h)
    }

    // ---- changes ----

    /// Changes the MTU (`ibmveth_change_mtu`): activates the pools up to the first that holds it,
    /// and reopens the adapter. Packets received and not yet polled are lost.
    ///
    /// # Errors
    /// Returns [`OpenError::Setting`], with nothing changed, when no pool holds it. Other errors
    /// are those of [`Ibmveth::open`] and leave the adapter closed; a further change may open it.
    pub fn set_mtu<H: Hypervisor>(&mut self, h: &mut H, mtu: u32) -> Opened {
        check(mtu >= 68, "mtu: 68 at least")?;
        let Some(last) = self.config.fitting_pool(mtu) else {
            return Err(OpenError::Setting("mtu: with 22 bytes within the largest pool's buffers"));
        };
        for p in &mut self.config.pools[..=last] {
            p.active = true;
        }
        self.config.mtu = mtu;
        self.reopen(h)
    }

    /// Changes the offloads (`ethtool -K`) and reopens the adapter.
    ///
    /// # Errors
    /// Returns the errors of [`Ibmveth::set_mtu`].
    pub fn set_offloads<H: Hypervisor>(
        &mut self,
        h: &mut H,
        checksum: bool,
        large_send: LargeSend,
    ) -> Opened<Negotiated> {
        (self.config.checksum, self.config.large_send) = (checksum, large_send);
        self.reopen(h)?;
        Ok(self.negotiated)
    }

    /// Changes the MAC address.
    ///
    /// # Errors
    /// Fails, with the address unchanged, when the hypervisor refuses.
    pub fn set_mac<H: Hypervisor>(&mut self, h: &mut H, mac: [u8; 6]) -> Opened {
        match call::change_mac(h, self.config.unit, mac) {
            status::H_SUCCESS => self.config.mac = mac,
            e => return Err(OpenError::Call("H_CHANGE_LOGICAL_LAN_MAC", e)),
        }
        Ok(())
    }

    /// Sets the receive filter; it outlives a reopening.
    ///
    /// # Errors
    /// Fails when the hypervisor refuses; the filter is then undefined.
    pub fn set_filter<H: Hypervisor>(&mut self, h: &mut H, f: &Filter) -> Opened {
        self.filter = f.clone();
        match self.apply_filter(h) {
            status::H_SUCCESS => Ok(()),
            e => Err(OpenError::Call("H_MULTICAST_CTRL", e)),
        }
    }

    fn apply_filter<H: Hypervisor>(&self, h: &mut H) -> i64 {
        let (unit, f) = (self.config.unit, &self.filter);
        if f.all_multicast || f.multicast.len() > self.config.filters as usize {
            call::all_multicast(h, unit)
        } else {
            call::some_multicast(h, unit, &f.multicast)
        }
    }

    // ---- state ----

    /// Returns the configuration, as changed since opening.
    pub const fn config(&self) -> &Config {
        &self.config
    }
    /// Returns the negotiated offloads.
    pub const fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }
    /// Returns the driver's counters.
    pub const fn stats(&self) -> Stats {
        self.stats
    }
    /// Returns the buffers lent by each pool; none if the adapter is closed.
    pub fn lent(&self) -> [u32; POOLS] {
        self.open.as_ref().map_or([0; POOLS], |o| o.pools.lent())
    }
    /// Returns whether everything sent has been passed up.
    pub fn is_drained(&self) -> bool {
        self.tx.is_drained()
    }
    /// Passes the buffers of sent packets up, as a poll does too. No interrupt follows a send, so a
    /// sender that receives nothing calls this.
    pub fn reclaim<H: Hypervisor, S: Sink>(&mut self, h: &mut H, up: &mut S) {
        self.tx.reclaim(h, up);
    }

    /// Ends a poll: enables interrupts, and checks the queue again, because entries that came
    /// before the call do not interrupt. Returns whether there is more to do.
    fn complete_poll<H: Hypervisor>(&mut self, h: &mut H) -> bool {
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

fn page<H: Hypervisor>(h: &mut H) -> Opened<Coherent> {
    coherent(h, (PAGE, PAGE), reachable)
}

impl<H: Hypervisor> Driver<H> for Ibmveth {
    /// Sends at once, whether or not more follows.
    #[inline]
    fn transmit(&mut self, h: &mut H, p: Packet, _more: bool) -> Tx {
        if self.tx.stopped() {
            return Tx::Busy(p);
        }
        if self.open.is_none() {
            self.stats.tx_dropped += 1;
            return Tx::Dropped(p);
        }
        self.send_packet(h, p)
    }

    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        h.charge(CpuWork::Poll);
        self.tx.reclaim(h, up);
        let mut frames = 0;
        loop {
            let Some(o) = &mut self.open else { return Poll::Idle };
            while frames < budget {
                let Some(entry) = o.queue.next(h) else { break };
                // Entries without a packet count too, so that a poll ends.
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
            if !self.complete_poll(h) {
                return if starved { Poll::Work } else { Poll::Idle };
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

    /// Retries to lend buffers: without any, no frame and so no poll would come.
    fn work(&mut self, h: &mut H) {
        if let Some(o) = &mut self.open {
            o.pools.replenish(h, self.config.unit, &mut self.stats);
        }
    }

    /// Polls after a timeout, which Linux does not have because its sends do not wait; here a
    /// sender may wait for its buffers. After failed accesses an entry of the receive queue may be
    /// missing, which blocks it for ever, so the adapter is reopened (`ibmveth_reset`) until that
    /// succeeds.
    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        match why {
            Alarm::TxTimeout => {}
            Alarm::Tick if self.open.is_some() => self.work(h),
            // The next alarm retries.
            Alarm::Tick | Alarm::IoError => _ = self.reopen(h),
        }
        Irq::Poll
    }

    /// Returns true after a thousand buffers that were not reclaimed ([`Ibmveth::reclaim`]).
    #[inline]
    fn stopped(&self) -> bool {
        self.tx.stopped()
    }
}
