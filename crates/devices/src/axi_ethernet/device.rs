//! The device: what it is made of, and what is due when.

use super::channel::Halted;
use super::config::Config;
use super::filter::Filter;
use super::mac::{Access, Mac};
use super::phy::Phy;
use super::receive::Receiver;
use super::registers::Side;
use super::stats::Stats;
use super::transmit::Transmitter;
use crate::common::SpareFrames;
use crate::common::{RESET, STEP};
use alloc::vec::Vec;
use doorbell_hal::{Device, EventSource, Fact, Port, Reg, RxVerdict, Span, Time};
use doorbell_layout::axienet::{int, line, register_name};

counters! {
    /// Counters of the device. Unlike the statistics registers, no reset clears them.
    struct Counters;
    tx_packets: "Frames sent.",
    tx_bytes in Bytes: "Bytes of those, padding among them, without FCS.",
    tx_descriptors: "Transmit descriptors used.",
    wire_bad_checksums: "Frames that left by an offload with a wrong checksum.",
    tx_completions: "Packets reported in their last descriptor.",
    tx_discarded: "Packets given up: too long, cut off by a stop or an error, a bad FCS.",
    tx_garbled: "Frames sent at a speed that is not the link's.",
    tx_doorbells: "Transmit tails written.",
    rx_doorbells: "Receive tails written.",
    lost_doorbells: "Tails of either, written to a channel that does not run.",
    rx_packets: "Frames put into memory.",
    rx_bytes in Bytes: "Bytes of those.",
    rx_descriptors: "Receive descriptors used.",
    rx_completions: "Frames reported in their last descriptor.",
    rx_missed: "Frames that found no room on the chip.",
    rx_filtered: "Frames for others.",
    /// Frames dropped otherwise: receiver off, no link, bad length, cut off by a stop or an error.
    rx_dropped,
    tx_fetches: "Reads of transmit descriptors.",
    rx_fetches: "Reads of receive descriptors.",
    data_reads: "Reads of data.",
    data_read_bytes in Bytes: "Bytes of those.",
    data_writes: "Writes of data.",
    data_write_bytes in Bytes: "Bytes of those.",
    tx_interrupts: "Times that the transmit channel's line rose.",
    rx_interrupts: "Times that the receive channel's line rose.",
    mac_interrupts: "Times that the MAC's line rose.",
    tx_lost: "Frames that were on the chip, to be sent, when it was reset.",
    rx_lost: "Frames that were on the chip, received, when it was reset.",
    rx_unreported: "Frames put into memory and never reported: an error or a reset came before.",
    dma_errors: "Errors that halted a channel.",
    hangs: "Packets without SOF: each stops transmission.",
    bad_descriptors: "SOF in the middle of a packet.",
    /// Register writes that the hardware ignores: narrow, during a reset, or nothing there.
    ignored_writes,
    resets: "Resets, by a channel or from outside.",
}

/// PG021: a reset input lasts for 16 clocks at the least; so does the soft one.
const RESET_CLOCKS: u64 = 16;

/// The model.
#[derive(Debug)]
pub struct AxiEthernet {
    pub(super) cfg: Config,
    /// Counters since it was made.
    pub counters: Counters,
    pub(super) mac: Mac,
    pub(super) filter: Filter,
    pub(super) stats: Stats,
    phy: Phy,
    pub(super) tx: Transmitter,
    pub(super) rx: Receiver,
    pub(super) sg_ctl: u32,
    /// Time at which the engine can fetch the next descriptor.
    fetch_free: Time,
    /// End of the reset: until then the reset bit reads as one.
    resetting: Time,
    /// End of the PHY's reset; `NEVER`: none is under way.
    phy_reset: Time,
    /// End of the negotiation; `NEVER`: none is under way.
    negotiating: Time,
    /// The cable is in, and the partner alive.
    cable: bool,
    pub(super) link: bool,
    /// The three lines that are high, by their numbers' bits.
    lines: u8,
    /// Up to when everything has been done.
    now: Time,
    due: Time,
    /// The parts of `due` that only one direction moves, and that neither does: see
    /// [`AxiEthernet::update_next_event`].
    tx_due: Time,
    rx_due: Time,
    others_due: Time,
    /// Frames' memory, to be used again.
    pub(super) spare: SpareFrames,
}

impl AxiEthernet {
    /// The cores as after power-on, with a link partner. Values out of range are rounded into it.
    pub fn new(cfg: Config) -> AxiEthernet {
        let cfg = cfg.clamped();
        AxiEthernet {
            cfg,
            counters: Counters::default(),
            mac: Mac::new(),
            filter: Filter::new(),
            stats: Stats::new(),
            phy: Phy::new(true),
            tx: Transmitter::new(&cfg),
            rx: Receiver::new(&cfg),
            sg_ctl: 0,
            fetch_free: Time::ZERO,
            resetting: Time::ZERO,
            phy_reset: Time::NEVER,
            negotiating: Time::NEVER,
            cable: true,
            link: true,
            lines: 0,
            now: Time::ZERO,
            due: Time::NEVER,
            tx_due: Time::NEVER,
            rx_due: Time::NEVER,
            others_due: Time::NEVER,
            spare: SpareFrames::new(),
        }
    }

    /// Returns its configuration.
    pub fn config(&self) -> &Config {
        &self.cfg
    }

    /// Interrupt line `n`, as it is now; see `doorbell_layout::axienet::line`.
    pub fn line(&self, n: u16) -> bool {
        u64::from(self.lines).checked_shr(n.into()).is_some_and(|l| l & 1 != 0)
    }

    /// Returns the moderation of the receive channel in force: packets to an interrupt, and the
    /// delay behind the last of fewer.
    pub fn receive_moderation(&self) -> (u32, Span) {
        self.rx.ch.moderation()
    }

    /// Bytes in the receive memory.
    pub fn rx_memory_used(&self) -> usize {
        self.rx.used()
    }

    // ---- link ----

    /// The cable is pulled, or put in: the link negotiates.
    pub fn set_cable(&mut self, at: Time, plugged: bool) {
        let at = at.max(self.now);
        self.cable = plugged;
        self.negotiate(at);
        self.update_next_event();
    }

    /// The link goes down, and comes up when it has been negotiated.
    fn negotiate(&mut self, at: Time) {
        let takes = self.cfg.phy.is_some() && self.cfg.negotiation > Span::ZERO;
        self.negotiating = if takes { at + self.cfg.negotiation } else { Time::NEVER };
        self.phy.set_link(false);
        self.follow_link();
    }

    fn follow_link(&mut self) {
        let phy =
            self.cfg.phy.is_none() || (self.phy_reset == Time::NEVER && self.phy.is_powered());
        let up = self.cable && phy && self.negotiating == Time::NEVER;
        self.phy.set_link(up);
        if up && !self.link {
            self.mac.is |= int::AUTONEG;
        }
        self.link = up;
    }

    fn link_due(&self) -> Time {
        if self.cable { self.negotiating } else { Time::NEVER }
    }

    /// Returns true if frames pass: the link is up, at the speed that the MAC was told.
    pub(super) fn carries(&self) -> bool {
        self.link && self.mac.speed() == Some(self.cfg.speed)
    }

    /// An access over MDIO begins; what is read is there when it is over.
    pub(super) fn access_phy(&mut self, at: Time, a: Access) {
        let here = self.cfg.phy == Some(a.phy) && self.phy_reset == Time::NEVER;
        match a.write {
            // Nobody pulls the wire down.
            None if !here => self.mac.mdio_mrd = 0xffff,
            None => self.mac.mdio_mrd = self.phy.read(a.reg, self.cfg.speed).into(),
            Some(v) if here && self.phy.write(a.reg, v) => self.negotiate(at),
            Some(_) => {}
        }
    }

    // ---- reset ----

    pub(super) fn in_reset(&self, at: Time) -> bool {
        at < self.resetting
    }

    /// Either channel's reset bit: both channels, the MAC, and the PHY behind it. It is graceful
    /// (PG021): reports that are on their way to memory arrive before it is over.
    pub(super) fn reset_core(&mut self, at: Time) {
        self.counters.resets += 1;
        let reported = self.rx.ch.reported().max(self.tx.ch.reported());
        self.resetting = (at + self.cfg.clocks(RESET_CLOCKS)).max(reported);
        self.mac = Mac::in_reset();
        self.filter = Filter::new();
        self.stats = Stats::new();
        let busy = self.tx.sending.unwrap_or(Time::ZERO).max(self.tx.quiet);
        let on_wire = usize::from(self.tx.sending.is_some());
        self.counters.tx_packets += on_wire as u64;
        self.counters.tx_bytes +=
            self.tx.fifo.iter().take(on_wire).map(|f| f.bytes.len() as u64).sum::<u64>();
        self.counters.tx_lost += (self.tx.fifo.len() - on_wire) as u64;
        let (waiting, pending) = self.rx.unfinished();
        self.counters.rx_lost += waiting;
        self.counters.rx_unreported += pending;
        self.tx = Transmitter::new(&self.cfg);
        self.tx.quiet = busy;
        self.rx = Receiver::new(&self.cfg);
        self.sg_ctl = 0;
        self.fetch_free = self.resetting;
        self.phy_reset = at + self.cfg.phy_reset;
        self.phy = Phy::new(false);
        self.negotiating = Time::NEVER;
        self.follow_link();
    }

    fn phy_reset_over(&mut self, t: Time) {
        self.phy_reset = Time::NEVER;
        self.mac.phy_is_ready();
        self.negotiate(t);
    }

    // ---- what is due ----

    fn fetch_due(&self) -> Time {
        self.tx.ch.fetches.min(self.rx.ch.fetches).max(self.fetch_free)
    }

    /// Fetches a descriptor for the channel that has fewer. Returns true if that receives.
    fn fetch<P: Port>(&mut self, p: &mut P, t: Time) -> bool {
        let (tx, rx) = (self.tx.ch.fetches <= t, self.rx.ch.fetches <= t);
        let receives = rx && (!tx || self.rx.ch.queue.len() <= self.tx.ch.queue.len());
        let c = &mut self.counters;
        let (ch, fetches) = if receives {
            (&mut self.rx.ch, &mut c.rx_fetches)
        } else {
            (&mut self.tx.ch, &mut c.tx_fetches)
        };
        match ch.fetch(p, t) {
            Ok(arrived) => {
                self.fetch_free = arrived;
                *fetches += 1;
            }
            Err(Halted) => {
                self.counters.dma_errors += 1;
                if receives { self.rx_stopped() } else { self.tx_drop_packet() }
            }
        }
        receives
    }

    /// Finds the time of the next event of any kind.
    fn update_next_event(&mut self) {
        self.update_tx_due();
        self.update_rx_due();
        self.others_due = self.link_or_phy_due();
        self.update_after_arrival();
    }

    /// Finds the time of the next event after a frame came, which moves only the begin of its way
    /// to memory and the MAC's line.
    fn update_after_arrival(&mut self) {
        self.rx_due = self.rx_due.min(self.rx_data_due());
        self.update_due();
        if self.mac.interrupts() != (self.lines >> line::MAC & 1 != 0) {
            self.due = self.now;
        }
    }

    fn update_tx_due(&mut self) {
        self.tx_due = (self.tx_arrival_due().min(self.tx.ch.update_due()).min(self.wire_due()))
            .min(self.tx.ch.delay_due().min(self.tx_work_due()));
    }

    #[inline(always)]
    fn update_rx_due(&mut self) {
        self.rx_due = (self.rx_write_due().min(self.rx.ch.update_due()))
            .min(self.rx.ch.delay_due().min(self.rx_data_due()));
    }

    /// Returns the time of the next event of neither direction: the link's, the PHY's.
    fn link_or_phy_due(&self) -> Time {
        self.phy_reset.min(self.link_due()).min(self.mac.mdio_due())
    }

    /// Finds the time of the next event where the lines are as they should be.
    fn update_due(&mut self) {
        self.due =
            (self.tx_due.min(self.rx_due)).min(self.fetch_due()).min(self.others_due).max(self.now);
    }

    /// Does what is due up to `until`, or to the first effect outside memory. Returns its time.
    #[inline(never)]
    fn run<P: Port>(&mut self, p: &mut P, until: Time) -> Option<Time> {
        while self.due <= until && !p.is_spent() {
            self.now = self.now.max(self.due);
            p.charge(STEP);
            if self.step(p, self.now) {
                return Some(self.now);
            }
        }
        None
    }

    /// Does what is due at `t`, each kind once, what has come first, and finds the next event.
    /// Returns true if a line changed or a frame left.
    fn step<P: Port>(&mut self, p: &mut P, t: Time) -> bool {
        let others = self.others_due <= t;
        if others {
            self.link_or_phy(t);
            self.others_due = self.link_or_phy_due();
        }
        // A direction moves the other only by an error.
        let (mut tx, mut rx) = (others || self.tx_due <= t, others || self.rx_due <= t);
        if tx && self.tx.ch.update_due() <= t {
            self.tx_updated(t);
        }
        if rx && self.rx.ch.update_due() <= t {
            self.rx_updated(t);
        }
        if tx && self.tx_arrival_due() <= t {
            self.tx_arrived(p, t);
        }
        if rx && self.rx_write_due() <= t {
            self.rx_written(p, t);
        }
        let on_wire = tx && self.wire_due() <= t;
        if on_wire {
            self.wire(p, t);
        }
        if rx && self.rx_data_due() <= t {
            self.rx_data(p, t);
        }
        if tx && self.tx_work_due() <= t {
            self.tx_work(p, t);
        }
        if self.fetch_due() <= t {
            let receives = self.fetch(p, t);
            (tx, rx) = (tx || !receives, rx || receives);
        }
        if tx && self.tx.ch.delay_due() <= t {
            self.tx.ch.delay_over();
        }
        if rx && self.rx.ch.delay_due() <= t {
            self.rx.ch.delay_over();
        }
        let failed = self.has_failed();
        let changed = self.settle_lines(p, t, (tx || failed, rx || failed));
        if tx || failed {
            self.update_tx_due();
        }
        if rx || failed {
            self.update_rx_due();
        }
        self.update_due();
        changed || on_wire
    }

    fn link_or_phy(&mut self, t: Time) {
        if self.phy_reset <= t {
            self.phy_reset_over(t);
        }
        if self.link_due() <= t {
            self.negotiating = Time::NEVER;
            self.follow_link();
        }
        if self.mac.mdio_due() <= t {
            self.mac.mdio_done();
        }
    }

    /// The lines that should be high.
    #[inline(always)]
    fn lines_wanted(&self) -> u8 {
        u8::from(self.tx.ch.interrupts()) << line::TX
            | u8::from(self.rx.ch.interrupts()) << line::RX
            | u8::from(self.mac.interrupts()) << line::MAC
    }

    pub(super) fn has_failed(&self) -> bool {
        self.tx.ch.has_failed() || self.rx.ch.has_failed()
    }

    /// A channel's RS has gone: what was begun and cannot be finished is lost.
    pub(super) fn stopped(&mut self, side: Side) {
        match side {
            Side::Rx => self.rx_stopped(),
            // The descriptor in work is finished.
            Side::Tx if self.tx.is_working() => {}
            Side::Tx => self.tx_drop_packet(),
        }
    }

    /// An error of one channel takes RS from both (axi_dma_register.vhd: it halts the entire
    /// engine).
    fn halt_both(&mut self, t: Time) {
        if self.tx.ch.runs() {
            let working = self.tx.is_working();
            self.tx.ch.stop(t, working);
            self.stopped(Side::Tx);
        }
        if self.rx.ch.runs() {
            self.rx.ch.stop(t, false);
            self.stopped(Side::Rx);
        }
    }

    /// States and lines follow what has happened, and the next event is found.
    pub(super) fn settle<P: Port>(&mut self, p: &mut P, t: Time) {
        self.settle_lines(p, t, (true, true));
        self.update_next_event();
    }

    /// Settles the directions that moved. Returns true if a line changed.
    #[inline(always)]
    fn settle_lines<P: Port>(&mut self, p: &mut P, t: Time, (tx, rx): (bool, bool)) -> bool {
        if tx && rx && self.has_failed() {
            self.halt_both(t);
        }
        if tx {
            self.tx.ch.settle(self.tx.is_working());
        }
        if rx {
            self.rx.ch.settle(self.rx.is_busy());
        }
        let changed = self.lines ^ self.lines_wanted();
        if changed == 0 {
            return false;
        }
        self.lines ^= changed;
        let c = &mut self.counters;
        let rises = [&mut c.tx_interrupts, &mut c.rx_interrupts, &mut c.mac_interrupts];
        for (n, rises) in [line::TX, line::RX, line::MAC].into_iter().zip(rises) {
            if changed >> n & 1 != 0 {
                let high = self.lines >> n & 1 != 0;
                *rises += u64::from(high);
                p.set_irq_line(t, n, high);
            }
        }
        true
    }
}

impl EventSource for AxiEthernet {
    #[inline]
    fn next_due(&self) -> Option<Time> {
        (self.due < Time::NEVER).then_some(self.due)
    }

    fn diagnose(&self, tell: &mut dyn FnMut(&'static str, Fact)) {
        tell("link up", Fact::State(self.link));
        let tx = ["MM2S_DMACR", "MM2S_DMASR", "MM2S_CURDESC", "MM2S_TAILDESC"];
        let rx = ["S2MM_DMACR", "S2MM_DMASR", "S2MM_CURDESC", "S2MM_TAILDESC"];
        for (ch, names) in [(&self.tx.ch, tx), (&self.rx.ch, rx)] {
            let facts = names.into_iter().zip(ch.facts(self.now));
            facts.for_each(|(name, v)| tell(name, Fact::Bits(v)));
        }
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.counters.entries().for_each(|(name, n)| tell(name, n));
    }

    fn register_name(&self, r: Reg) -> Option<&'static str> {
        register_name(r.region, r.offset)
    }
}

impl<P: Port> Device<P> for AxiEthernet {
    fn mmio_read(&mut self, _p: &mut P, at: Time, r: Reg, size: u8) -> u64 {
        self.read_any(at.max(self.now), r, size)
    }

    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, size: u8, v: u64) {
        self.advance(p, at);
        let resets = self.counters.resets;
        self.write_any(p, self.now, r, size, v);
        p.charge((self.counters.resets - resets) * RESET);
    }

    fn receive(&mut self, p: &mut P, at: Time, frame: &[u8]) -> RxVerdict {
        let mut copy = self.spare.copy(frame);
        let taken = self.receive_buffer(p, at, &mut copy);
        self.spare.push(copy);
        taken
    }

    fn receive_buffer(&mut self, _p: &mut P, at: Time, frame: &mut Vec<u8>) -> RxVerdict {
        let taken = self.arrive(at.max(self.now), frame);
        self.update_after_arrival();
        taken
    }

    #[inline]
    fn advance(&mut self, p: &mut P, until: Time) {
        // Mostly nothing is due.
        while self.due <= until && !p.is_spent() {
            self.run(p, until);
        }
        self.now = self.now.max(until);
    }

    #[inline]
    fn advance_to_effect(&mut self, p: &mut P, until: Time) -> Option<Time> {
        if self.due <= until { self.run(p, until) } else { None }
    }

    fn cable(&mut self, p: &mut P, at: Time, plugged: bool) {
        self.set_cable(at, plugged);
        self.advance(p, at);
    }

    fn reset(&mut self, p: &mut P, at: Time) {
        self.now = self.now.max(at);
        self.reset_core(self.now);
        self.resetting = self.now;
        self.tx.quiet = Time::ZERO;
        self.phy_reset = Time::NEVER;
        self.mac = Mac::new();
        self.follow_link();
        self.settle(p, self.now);
    }
}
