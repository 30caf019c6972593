//! An adapter: bring-up, resets, changes while it is open, interrupts and polls.
//!
//! Source: ibmvnic.c `ibmvnic_probe`, `ibmvnic_open`, `ibmvnic_login`, `ibmvnic_close`,
//! `ibmvnic_poll`, `ibmvnic_interrupt_tx`, `ibmvnic_change_mtu`, `ibmvnic_set_multi`.

use super::config::{Config, Direct};
use super::control::{Control, Fault, Reset, Step, plain};
use super::ltb::{Ltb, LtbSet, MapIds};
use super::negotiate::{self, Negotiated};
use super::stats::{QueueStats, Stats};
use super::tx::{Context, TxQueue};
use super::{adaptive::AdaptiveDirect, call, control, login, rx::RxQueue};
use crate::{Alarm, Driver, Filter, Irq, OpenError, Opened, Poll, Sink, Tx};
use alloc::vec::Vec;
use doorbell_hal::{CpuWork, Hypervisor, Span, Time};
use doorbell_layout::ibmvnic::{
    AddressLength, ChangeMac, LogicalLinkState, MESSAGE, MulticastCtrl, QueryMap, RequestMap,
    RequestStatistics, Statistics, VpdSize, cmd, link, multicast,
};
use doorbell_packet::Packet;
use zerocopy::byteorder::big_endian::U32;

/// Time after which a stopped queue has hung.
const WATCHDOG: Span = Span::from_ms(5_000);
/// Consecutive sessions that may be lost before the adapter is given up.
const SESSIONS: u32 = 64;

/// A virtual NIC, with all its queues.
///
/// # States of a session
///
/// | state | entered by | sends | left by |
/// |---|---|---|---|
/// | down | open, reset | dropped | handshake, version, capabilities, login, maps |
/// | up, no carrier | the end of these | dropped | LINK_STATE_INDICATION |
/// | running | link up | taken | H_CLOSED, an event, an error |
/// | closed | H_CLOSED, failover event | dropped | INIT of another server, migration event: reset |
///
/// # Transmit
///
/// A packet is copied to a slot of a long-term buffer. Its descriptors go in an array of up to
/// sixteen by H_SEND_SUB_CRQ_INDIRECT, which the hypervisor reads from memory, or, one descriptor
/// alone, in registers by H_SEND_SUB_CRQ. A server may request copies of the headers of some kinds
/// of packets; these are descriptors too, so such a packet needs an array. A packet whose checksum
/// is completed by the driver is a plain one with a single descriptor. [`Direct`] is the rule for
/// when that pays.
///
/// The driver sends nothing twice. Packets given to a session that ended count as lost, although
/// the server may have sent them; packets only batched count as dropped.
///
/// # Differences from Linux
///
/// - A slot is not cleared before the copy; Linux fills all of it with zeros. A short packet is
///   padded with zeros to the server's shortest frame.
/// - The Ethernet header's length is that of the frame in the buffer, without a tag that is still
///   to be inserted.
/// - Completions are polled with received frames, not in a handler of their own.
/// - A tag, checksum or large send that the server cannot do is done here, as the stack would.
/// - The byte limit gets the bytes of refused packets back at once, Linux's with the next session.
/// - Queue pairs share a session, so one value owns all of them.
#[derive(Debug)]
pub struct Ibmvnic {
    pub(super) config: Config,
    pub(super) negotiated: Negotiated,
    pub(super) control: Control,
    pub(super) ids: MapIds,
    /// At least as many as were granted.
    pub(super) tx: Vec<TxQueue>,
    pub(super) rx: Vec<RxQueue>,
    /// Time of the last packet of each queue.
    taken: Vec<Time>,
    adaptive: AdaptiveDirect,
    filter: Option<Filter>,
    pub(super) up: bool,
    /// A send found the server gone; an event will give the reason.
    pub(super) closed: bool,
    pub(super) carrier: bool,
    /// The frame size that was granted before.
    previous: Option<u64>,
    /// Error of the last bring-up that failed.
    failed: Option<OpenError>,
}

impl Ibmvnic {
    /// Brings the adapter up: handshake, capabilities, login, long-term buffers, receive buffers,
    /// link. An interrupt of the CRQ reports that the link is up.
    ///
    /// # Errors
    /// Fails when a setting is out of range, memory runs out, the hypervisor or the server refuse,
    /// or no server stays. Nothing is left allocated then.
    pub fn open<H: Hypervisor>(h: &mut H, c: &Config) -> Opened<Ibmvnic> {
        c.check()?;
        let mut nic = Ibmvnic {
            config: *c,
            negotiated: Negotiated::default(),
            control: Control::allocate(h, c)?,
            ids: MapIds::new(),
            tx: Vec::new(),
            rx: Vec::new(),
            taken: Vec::new(),
            adaptive: AdaptiveDirect::new(c.mtu),
            filter: None,
            up: false,
            closed: false,
            carrier: false,
            previous: None,
            failed: None,
        };
        for _ in 0..SESSIONS {
            let done = match nic.control.register(h) {
                Ok(()) => nic.connect(h, false),
                Err(e) => Err(e),
            };
            match done {
                Ok(()) => return Ok(nic),
                Err(Fault::Again) => nic.end_session(h),
                Err(Fault::Error(e)) => {
                    nic.abandon(h);
                    return Err(e);
                }
            }
        }
        nic.abandon(h);
        Err(OpenError::Unsteady)
    }

    /// Takes the link down, unmaps, and releases all memory, with packets that are not done.
    /// Returns the final counts of the adapter and its queues.
    pub fn close<H: Hypervisor>(mut self, h: &mut H) -> (Stats, QueueStats) {
        if self.up && self.link_state(h, link::DOWN).is_ok() {
            self.unmap_all(h);
        }
        self.abandon(h)
    }

    fn abandon<H: Hypervisor>(mut self, h: &mut H) -> (Stats, QueueStats) {
        self.end_session(h);
        let counted = (self.stats(), self.totals());
        self.control.close(h);
        for t in self.tx {
            t.release(h, &mut self.ids);
        }
        for r in self.rx {
            r.release(h, &mut self.ids);
        }
        self.control.release(h);
        counted
    }

    // ---- bring-up ----

    /// Connects to the server, from the handshake to the link.
    fn connect<H: Hypervisor>(&mut self, h: &mut H, migrated: bool) -> Step {
        self.control.handshake(h)?;
        let version = negotiate::version(h, &mut self.control)?;
        self.log_in(h)?;
        self.negotiated.version = version;
        self.previous = Some(self.negotiated.frame);
        self.vital_product_data(h)?;
        self.map_all(h)?;
        let unit = self.config.unit;
        let tx = self.tx[..self.negotiated.tx_queues as usize].iter().map(|t| t.crq.irq);
        for irq in tx.chain(self.rx[..self.negotiated.rx_queues as usize].iter().map(|r| r.crq.irq))
        {
            if migrated {
                call::end_interrupt(h, irq);
            }
            call::interrupt(h, unit, irq, true);
        }
        for q in 0..self.negotiated.rx_queues as usize {
            self.rx[q].fill(h, unit);
        }
        self.apply_filter(h)?;
        (self.up, self.closed) = (true, false);
        self.link_state(h, link::UP)
    }

    /// Negotiates capabilities, registers queues and logs in. Repeats all while the server has
    /// fewer queues than it granted.
    fn log_in<H: Hypervisor>(&mut self, h: &mut H) -> Step {
        for _ in 0..16 {
            let (k, c) = (&mut self.control, &self.config);
            let mut n = negotiate::capabilities(h, k, c, self.previous)?;
            negotiate::offloads(h, k, c, &mut n)?;
            self.negotiated = n;
            self.register_queues(h)?;
            let tx: Vec<u64> = self.tx.iter().filter_map(|t| t.crq.number).collect();
            let rx: Vec<u64> = self.rx.iter().filter_map(|r| r.crq.number).collect();
            match login::login(h, &mut self.control, &tx, &rx)? {
                Some(handles) => {
                    for (t, handle) in self.tx.iter_mut().zip(handles.tx) {
                        t.handle = handle;
                    }
                    for ((r, handle), size) in self.rx.iter_mut().zip(handles.rx).zip(handles.sizes)
                    {
                        (r.handle, r.size) = (handle, size);
                    }
                    return Ok(());
                }
                None => {
                    self.control.stats.login_retries += 1;
                    self.free_queues(h);
                }
            }
        }
        Err(OpenError::Answer("LOGIN").into())
    }

    fn register_queues<H: Hypervisor>(&mut self, h: &mut H) -> Step {
        let (tx, rx) = (self.negotiated.tx_queues as usize, self.negotiated.rx_queues as usize);
        while self.tx.len() < tx {
            self.tx.push(TxQueue::allocate(h, &self.config)?);
        }
        while self.rx.len() < rx {
            self.rx.push(RxQueue::allocate(h)?);
        }
        let most = self.tx.len().max(self.rx.len());
        self.taken.resize(most, Time::ZERO);
        for t in &mut self.tx[..tx] {
            t.crq.register(h, self.config.unit)?;
        }
        for r in &mut self.rx[..rx] {
            r.crq.register(h, self.config.unit)?;
        }
        Ok(())
    }

    fn free_queues<H: Hypervisor>(&mut self, h: &mut H) {
        self.tx.iter_mut().for_each(|t| t.crq.free(h, self.config.unit));
        self.rx.iter_mut().for_each(|r| r.crq.free(h, self.config.unit));
    }

    /// Reads the vital product data, in which Linux looks for the firmware's version.
    fn vital_product_data<H: Hypervisor>(&mut self, h: &mut H) -> Step {
        let k = &mut self.control;
        let m = k.demand(h, plain(cmd::GET_VPD_SIZE))?;
        let len = (VpdSize::of(m.bytes()).len.get() as u32).min(control::SCRATCH);
        let m = AddressLength {
            ioba: U32::new(k.scratch.iova().0 as u32),
            len: U32::new(len),
            ..AddressLength::of(plain(cmd::GET_VPD))
        };
        k.demand(h, m.bytes())?;
        let m = k.demand(h, plain(cmd::QUERY_MAP))?;
        self.negotiated.free_pages = QueryMap::of(m.bytes()).free_pages.get();
        Ok(())
    }

    /// Allocates the pools, and maps their long-term buffers one after another.
    fn map_all<H: Hypervisor>(&mut self, h: &mut H) -> Step {
        let n = self.negotiated;
        let (tx, rx) = (n.tx_queues as usize, n.rx_queues as usize);
        for t in &mut self.tx[..tx] {
            t.prepare(h, &mut self.ids, &self.config, &n)?;
        }
        for r in &mut self.rx[..rx] {
            r.prepare(h, &mut self.ids, n.rx_entries as u32)?;
        }
        for ltb in sets(&mut self.tx[..tx], &mut self.rx[..rx]) {
            self.control.demand(h, request_map(cmd::REQUEST_MAP, ltb))?;
            ltb.mapped = true;
            self.control.stats.maps += 1;
        }
        Ok(())
    }

    /// Unmaps each long-term buffer, until the server is gone.
    fn unmap_all<H: Hypervisor>(&mut self, h: &mut H) {
        for ltb in sets(&mut self.tx, &mut self.rx).filter(|l| l.mapped) {
            let Ok(_) = self.control.ask(h, request_map(cmd::REQUEST_UNMAP, ltb)) else {
                return;
            };
            ltb.mapped = false;
            self.control.stats.unmaps += 1;
        }
    }

    pub(super) fn link_state<H: Hypervisor>(&mut self, h: &mut H, state: u8) -> Step {
        let m = LogicalLinkState::of(plain(cmd::LOGICAL_LINK_STATE));
        let m = LogicalLinkState { link_state: state, ..m };
        self.control.demand(h, m.bytes()).map(drop)
    }

    /// Ends a session that is over: counts its packets and buffers as lost, and frees its queues.
    pub(super) fn end_session<H: Hypervisor>(&mut self, h: &mut H) {
        (self.up, self.closed, self.carrier) = (false, false, false);
        self.tx.iter_mut().for_each(|t| t.end_session(h));
        self.rx.iter_mut().for_each(|r| r.end_session(h));
        for ltb in sets(&mut self.tx, &mut self.rx) {
            // The server unmaps the buffers of a lost client.
            self.control.stats.unmaps += u64::from(core::mem::take(&mut ltb.mapped));
        }
        self.free_queues(h);
    }

    // ---- resets ----

    fn reset<H: Hypervisor>(&mut self, h: &mut H, why: Reset) -> Step {
        self.control.stats.resets += 1;
        match why {
            // The session stays.
            Reset::NonFatal if self.up => {
                self.link_state(h, link::DOWN)?;
                return self.link_state(h, link::UP);
            }
            Reset::ChangeParam | Reset::Timeout if self.up => {
                self.link_state(h, link::DOWN)?;
                if why == Reset::ChangeParam {
                    self.unmap_all(h);
                }
            }
            _ => {}
        }
        self.end_session(h);
        if why == Reset::Mobility {
            self.control.enable(h)?;
        } else {
            self.control.register(h)?;
        }
        self.connect(h, why == Reset::Mobility)
    }

    /// Resets until no reason for a reset is left.
    fn recover<H: Hypervisor>(&mut self, h: &mut H) {
        let mut failed = 0;
        for _ in 0..SESSIONS {
            let Some(why) = self.control.reset.take() else { return };
            match self.reset(h, why) {
                Ok(()) => self.failed = None,
                Err(Fault::Again) => {
                    self.control.reset.get_or_insert(Reset::Failover);
                }
                Err(Fault::Error(e)) => {
                    self.control.stats.resets_failed += 1;
                    self.failed = Some(e);
                    failed += 1;
                    if failed == 3 {
                        break;
                    }
                    self.control.reset.get_or_insert(Reset::Fatal);
                }
            }
        }
        // Down until a server sends INIT.
        self.end_session(h);
        self.control.reset = None;
    }

    /// Posts buffers to the queues that have none.
    fn feed<H: Hypervisor>(&mut self, h: &mut H) {
        for r in self.rx.iter_mut().filter(|r| r.is_starved()) {
            r.fill(h, self.config.unit);
        }
    }

    /// Handles the messages of the CRQ, and notes changes of the link.
    fn poll_crq<H: Hypervisor>(&mut self, h: &mut H) {
        self.control.drain(h);
        let over = self.control.reset.is_some_and(|r| r != Reset::NonFatal)
            || self.control.failover_pending;
        let on = match self.control.link.take() {
            _ if over => false,
            Some(on) => on,
            None => self.carrier,
        };
        self.control.stats.link_changes += u64::from(self.carrier != on);
        self.carrier = on;
    }

    /// Returns whether packets are taken.
    pub fn is_running(&self) -> bool {
        self.up
            && self.carrier
            && !self.closed
            && self.control.reset.is_none()
            && !self.control.failover_pending
    }

    /// Checks for queues that have been stopped, or over their byte limit, for five seconds, as the
    /// stack's watchdog does. Returns whether [`Driver::work`] must be called.
    pub fn watchdog<H: Hypervisor>(&mut self, h: &mut H) -> bool {
        let now = h.now();
        let hung = |q: usize| self.tx[q].is_held() && now.since(self.taken[q]) >= WATCHDOG;
        let gone = self.closed
            && !self.control.failover_pending
            && self.taken.iter().all(|t| now.since(*t) >= WATCHDOG);
        let hangs = self.is_running() && (0..self.negotiated.tx_queues as usize).any(hung);
        if hangs || self.up && gone {
            self.control.stats.timeouts += 1;
            self.control.reset.get_or_insert(Reset::Timeout);
        }
        self.control.reset.is_some()
    }

    // ---- changes ----

    /// Changes the MTU. The adapter is brought up again with new pools, with the former MTU if the
    /// server refuses the new one.
    ///
    /// # Errors
    /// Returns the errors of [`Ibmvnic::open`]. The adapter is then down until a server sends INIT
    /// or another change succeeds.
    pub fn set_mtu<H: Hypervisor>(&mut self, h: &mut H, mtu: u32) -> Opened {
        Config { mtu, ..self.config }.check()?;
        self.config.mtu = mtu;
        self.adaptive = AdaptiveDirect::new(mtu);
        self.control.reset.get_or_insert(Reset::ChangeParam);
        self.recover(h);
        self.failed.map_or(Ok(()), Err)
    }

    /// Changes the MAC address.
    ///
    /// # Errors
    /// Fails, with the address unchanged, when the server refuses or goes away.
    pub fn set_mac<H: Hypervisor>(&mut self, h: &mut H, mac: [u8; 6]) -> Opened {
        let m = ChangeMac { mac_addr: mac, ..ChangeMac::of(plain(cmd::CHANGE_MAC_ADDR)) };
        self.control.demand(h, m.bytes()).map_err(error)?;
        self.config.mac = mac;
        Ok(())
    }

    /// Sets the receive filter; it outlives a reset.
    ///
    /// # Errors
    /// Fails when the server refuses or goes away.
    pub fn set_filter<H: Hypervisor>(&mut self, h: &mut H, f: &Filter) -> Opened {
        self.filter = Some(f.clone());
        self.apply_filter(h).map_err(error)
    }

    fn apply_filter<H: Hypervisor>(&mut self, h: &mut H) -> Step {
        let Some(f) = &self.filter else { return Ok(()) };
        let say = |flags, mac_addr| MulticastCtrl {
            flags,
            mac_addr,
            ..MulticastCtrl::of(plain(cmd::MULTICAST_CTRL))
        };
        let mut all = alloc::vec![say(multicast::DISABLE_ALL, [0; 6])];
        if f.all_multicast || f.multicast.len() as u64 > self.negotiated.multicast_filters {
            all.push(say(multicast::ENABLE_ALL, [0; 6]));
        } else {
            all.extend(f.multicast.iter().map(|g| say(multicast::ENABLE, *g)));
        }
        for m in all {
            self.control.demand(h, m.bytes())?;
        }
        Ok(())
    }

    /// Returns the server's counters.
    ///
    /// # Errors
    /// Fails when the server refuses or goes away.
    pub fn server_statistics<H: Hypervisor>(&mut self, h: &mut H) -> Opened<Statistics> {
        let m = RequestStatistics {
            ioba: U32::new(self.control.scratch.iova().0 as u32),
            len: U32::new(size_of::<Statistics>() as u32),
            ..RequestStatistics::of(plain(cmd::REQUEST_STATISTICS))
        };
        self.control.demand(h, m.bytes()).map_err(error)?;
        Ok(h.load(&self.control.scratch, 0))
    }

    /// Requests a failover by reporting the session in error.
    ///
    /// # Errors
    /// Fails when the hypervisor refuses.
    pub fn fail_over<H: Hypervisor>(&mut self, h: &mut H) -> Opened {
        let unit = self.config.unit;
        let token = call::token(h, unit).ok_or(OpenError::Call("H_VIOCTL", 0))?;
        match call::session_error(h, unit, token) {
            0 => Ok(()),
            e => Err(OpenError::Call("H_VIOCTL", e)),
        }
    }

    // ---- state ----

    /// Returns the configuration, as changed since opening.
    pub const fn config(&self) -> &Config {
        &self.config
    }
    /// Returns what was negotiated with the server.
    pub const fn negotiated(&self) -> &Negotiated {
        &self.negotiated
    }
    /// Returns the adapter's counters.
    pub fn stats(&self) -> Stats {
        Stats {
            adaptive_moves: self.adaptive.moves,
            adaptive_trials: self.adaptive.trials,
            ..self.control.stats
        }
    }
    /// Returns the counters of each queue pair.
    pub fn queue_stats(&self) -> Vec<QueueStats> {
        let mut pairs = alloc::vec![QueueStats::default(); self.tx.len().max(self.rx.len())];
        pairs.iter_mut().zip(&self.tx).for_each(|(sum, t)| sum.add(&t.stats));
        pairs.iter_mut().zip(&self.rx).for_each(|(sum, r)| sum.add(&r.stats));
        pairs
    }
    /// Returns the counters of all queue pairs together.
    pub fn totals(&self) -> QueueStats {
        self.queue_stats().iter().fold(QueueStats::default(), |mut sum, q| {
            sum.add(q);
            sum
        })
    }
    /// Returns the most bytes that [`Direct::Adaptive`] sums so that a packet can go directly;
    /// `None` if no packet goes directly.
    pub fn break_even(&self) -> Option<u32> {
        self.adaptive.break_even()
    }
    /// Returns the interrupts of queue pair `q`.
    pub fn vectors(&self, q: usize) -> Vec<u16> {
        let tx = self.tx.get(q).and_then(|t| t.crq.number.map(|_| t.crq.irq as u16));
        let rx = self.rx.get(q).and_then(|r| r.crq.number.map(|_| r.crq.irq as u16));
        tx.into_iter().chain(rx).collect()
    }
    /// Returns the number of receive buffers that the server has.
    pub fn lent(&self) -> u32 {
        self.rx.iter().map(RxQueue::lent).sum()
    }
    /// Returns whether everything sent has been passed up.
    pub fn is_drained(&self) -> bool {
        self.tx.iter().all(TxQueue::is_drained)
    }
    /// Returns why the adapter could not be brought up again, if it is down.
    pub const fn failure(&self) -> Option<OpenError> {
        self.failed
    }

    // ---- by queue ----

    /// Transmits on queue pair `q` modulo those granted; see [`Driver::transmit`].
    pub fn transmit_on<H: Hypervisor>(&mut self, h: &mut H, q: usize, p: Packet, more: bool) -> Tx {
        let q = q % (self.negotiated.tx_queues as usize).max(1);
        if !self.is_running() {
            if let Some(t) = self.tx.get_mut(q) {
                t.stats.tx_dropped += 1;
            }
            return Tx::Dropped(p);
        }
        if self.tx[q].stopped {
            return Tx::Busy(p);
        }
        let began = h.now();
        self.taken[q] = began;
        let (config, negotiated) = (&self.config, &self.negotiated);
        let mut x = Context { config, negotiated, adaptive: &mut self.adaptive };
        let t = self.tx[q].transmit(h, &mut x, p, more);
        self.notice_a_lost_server(q);
        if self.config.direct == Direct::Adaptive {
            let under_way = self.tx.iter().map(TxQueue::under_way).sum();
            self.adaptive.packet(began, h.now(), under_way);
        }
        t
    }

    /// Stops all queues if a send of queue pair `q` found the server gone. An event on the CRQ
    /// gives the reason.
    fn notice_a_lost_server(&mut self, q: usize) {
        if core::mem::take(&mut self.tx[q].disconnected) {
            self.control.stats.closed_sends += 1;
            (self.closed, self.carrier) = (true, false);
            self.control.stats.link_changes += 1;
        }
    }

    /// Polls queue pair `q`; see [`Driver::poll`].
    pub fn poll_on<H: Hypervisor, S: Sink>(
        &mut self,
        h: &mut H,
        q: usize,
        budget: u32,
        up: &mut S,
    ) -> Poll {
        h.charge(CpuWork::Poll);
        let unit = self.config.unit;
        let mut frames = 0;
        // Who writes the queues may go on for ever.
        for _ in 0..budget {
            self.poll_crq(h);
            if let Some(t) = self.tx.get_mut(q) {
                t.done.complete_tx(up);
            }
            if self.control.reset.is_some() {
                return Poll::Work;
            }
            if !self.up || self.control.failover_pending {
                return Poll::Idle;
            }
            if let Some(t) = self.tx.get_mut(q).filter(|t| t.crq.number.is_some()) {
                let (config, negotiated) = (&self.config, &self.negotiated);
                let mut x = Context { config, negotiated, adaptive: &mut self.adaptive };
                t.reclaim(h, &mut x, up);
                self.notice_a_lost_server(q);
            }
            let mut again = false;
            if let Some(r) = self.rx.get_mut(q).filter(|r| r.crq.number.is_some()) {
                while frames < budget {
                    let Some(frame) = r.next(h) else { break };
                    // Completions without a packet count too, so that a poll ends.
                    frames += 1;
                    if let Some((p, good)) = frame {
                        up.received(p, good);
                    }
                }
                r.replenish(h, unit, self.config.replenish, frames < budget);
                if frames == budget {
                    return Poll::Again;
                }
                let found = r.crq.rearm(h, unit);
                r.stats.poll_rechecks += u64::from(found);
                again |= found;
            }
            if let Some(t) = self.tx.get_mut(q).filter(|t| t.crq.number.is_some()) {
                let found = t.crq.rearm(h, unit);
                t.stats.poll_rechecks += u64::from(found && !again);
                again |= found;
            }
            if !again {
                let starved = self.rx.get(q).is_some_and(RxQueue::is_starved);
                return if starved { Poll::Work } else { Poll::Idle };
            }
        }
        Poll::Again
    }

    /// Checks queue pair `q`; see [`Driver::alarm`]. A queue that hangs has the adapter reset
    /// (`ibmvnic_tx_timeout`). A bring-up that failed is retried; Linux waits for a server's INIT.
    /// Posting buffers is retried where the server has none.
    pub fn alarm_on<H: Hypervisor>(&mut self, h: &mut H, q: usize, why: Alarm) -> Irq {
        let hangs = why == Alarm::TxTimeout
            && self.is_running()
            && self.tx.get(q).is_some_and(TxQueue::is_held);
        if hangs {
            self.control.stats.timeouts += 1;
            self.control.reset.get_or_insert(Reset::Timeout);
        } else if self.failed.is_some() {
            self.control.reset.get_or_insert(Reset::Fatal);
        }
        if self.control.reset.is_some() {
            self.recover(h);
        }
        self.feed(h);
        // The poll passes up the buffers of lost packets.
        if self.tx.get(q).is_some_and(|t| !t.done.is_empty()) { Irq::Poll } else { Irq::None }
    }

    /// Returns whether queue pair `q` is stopped; see [`Driver::stopped`].
    pub fn stopped_on(&self, q: usize) -> bool {
        let q = q % (self.negotiated.tx_queues as usize).max(1);
        !self.is_running() || self.tx[q].stopped
    }

    /// Returns the bytes that queue pair `q` may still take; see [`Driver::byte_room`].
    pub fn byte_room_on(&self, q: usize) -> i32 {
        let q = q % (self.negotiated.tx_queues as usize).max(1);
        self.tx.get(q).map_or(i32::MAX, |t| t.bql.room())
    }
}

/// Returns all long-term buffers of these queues.
fn sets<'a>(tx: &'a mut [TxQueue], rx: &'a mut [RxQueue]) -> impl Iterator<Item = &'a mut Ltb> {
    let sets = tx.iter_mut().flat_map(TxQueue::sets).chain(rx.iter_mut().flat_map(RxQueue::sets));
    sets.flat_map(|set: &mut LtbSet| &mut set.ltbs)
}

fn error(f: Fault) -> OpenError {
    match f {
        Fault::Again => OpenError::Unsteady,
        Fault::Error(e) => e,
    }
}

fn request_map(c: u8, ltb: &Ltb) -> [u8; MESSAGE] {
    let (ioba, len) = (U32::new(ltb.area.iova().0 as u32), U32::new(ltb.area.len()));
    RequestMap { map_id: ltb.id, ioba, len, ..RequestMap::of(plain(c)) }.bytes()
}

/// Uses queue pair 0.
impl<H: Hypervisor> Driver<H> for Ibmvnic {
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        self.transmit_on(h, 0, p, more)
    }

    fn poll<S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> Poll {
        self.poll_on(h, 0, budget, up)
    }

    /// Handles the interrupts of all queue pairs and of the CRQ.
    fn interrupt(&mut self, h: &mut H, vector: u16) -> Irq {
        h.charge(CpuWork::Interrupt);
        if vector == self.config.crq_vector {
            self.control.stats.crq_irqs += 1;
            return Irq::Poll;
        }
        let unit = self.config.unit;
        if let Some(t) =
            self.tx.iter_mut().find_map(|t| t.crq.take_irq(h, unit, vector).then_some(&mut t.stats))
        {
            t.irqs += 1;
        } else if let Some(r) =
            self.rx.iter_mut().find_map(|r| r.crq.take_irq(h, unit, vector).then_some(&mut r.stats))
        {
            r.irqs += 1;
        } else {
            self.control.stats.stray_irqs += 1;
            return Irq::None;
        }
        Irq::Poll
    }

    /// Does the reset that is due, and retries to post buffers where the server has none.
    fn work(&mut self, h: &mut H) {
        self.recover(h);
        self.feed(h);
    }

    fn alarm(&mut self, h: &mut H, why: Alarm) -> Irq {
        self.alarm_on(h, 0, why)
    }

    fn stopped(&self) -> bool {
        self.stopped_on(0)
    }

    fn byte_room(&self) -> i32 {
        self.byte_room_on(0)
    }
}
