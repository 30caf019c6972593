//! The device: what it is made of, and what is due when.

use super::config::{Config, Slot, Speed};
use super::eeprom::Eeprom;
use super::filter::Filter;
use super::interrupt::Interrupts;
use super::phy::{Mode, Phy};
use super::receive::Receiver;
use super::registers::Registers;
use super::stats::Stats;
use super::transmit::Transmitter;
use crate::common::SpareFrames;
use crate::common::{RESET, STEP};
use doorbell_hal::{Device, DmaFault, EventSource, Fact, Port, Reg, Rule, RxVerdict, Span, Time};
use doorbell_layout::e1000::{
    CTRL_FD, CTRL_FRCDPX, CTRL_FRCSPD, CTRL_SLU, INT_LSC, reg::stat, register_name,
};

counters! {
    /// Counters of the device. Unlike the statistics registers, nothing clears them.
    struct Counters;
    tx_packets: "Frames sent, or looped back.",
    tx_bytes in Bytes: "Bytes of those, padding among them, without FCS.",
    tx_descriptors: "Transmit descriptors used.",
    contexts: "Context descriptors among them.",
    large_sends: "Packets cut into segments.",
    wire_bad_checksums: "Frames that left by an offload with a wrong checksum.",
    tx_discarded: "Packets given up: too long, a context that cannot be, a bad FCS.",
    bad_descriptors: "Descriptors of a type that does not exist.",
    tx_doorbells: "Transmit tails written.",
    rx_doorbells: "Receive tails written.",
    bad_doorbells: "Tails outside their ring.",
    rx_packets: "Frames put into memory.",
    rx_bytes in Bytes: "Bytes of those, with FCS unless it is stripped.",
    rx_descriptors: "Receive descriptors used.",
    rx_waited: "Frames that found no descriptor and waited.",
    rx_missed: "Frames that found no room on the chip.",
    rx_filtered: "Frames for others.",
    rx_dropped: "Frames dropped otherwise: receiver off, no link, bad length.",
    pauses_received: "Pause frames obeyed.",
    pauses_sent: "Pause frames sent, XON among them.",
    fetches: "Reads of descriptors.",
    fetched_descriptors: "Descriptors in those.",
    write_backs: "Writes of descriptors.",
    written_descriptors: "Descriptors in those.",
    data_reads: "Reads of data.",
    data_read_bytes in Bytes: "Bytes of those.",
    data_writes: "Writes of data.",
    data_write_bytes in Bytes: "Bytes of those.",
    tx_lost: "Frames that were on the chip, to be sent, when it was reset.",
    rx_lost: "Frames that were on the chip, received, when it was reset.",
    rx_unreported: "Frames put into memory and never reported: the reset came before.",
    interrupts: "Times that the interrupt line rose.",
    dma_faults: "Accesses to memory that failed; each stops DMA.",
    hangs: "Packets that can never fit the FIFO, or meet an erratum; each stops the transmitter.",
    crossed_64k: "Writes that erratum 23 forbids: across a multiple of 64 KiB.",
    ignored_writes: "Register writes that the hardware ignores: narrow, or nothing there.",
    resets: "Resets, by CTRL.RST or from outside.",
}

/// Counts of what the manual forbids and the model takes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Forbidden {
    /// Addresses and lengths of rings with bits that are ignored.
    pub(super) ring_places: u64,
    /// Heads written to a ring that is in use.
    pub(super) heads: u64,
    /// Tails that pass the head.
    pub(super) overruns: u64,
    /// Transmit tails without a link that could come up.
    pub(super) without_link: u64,
}

impl E1000 {
    /// Returns the rules of the manual that drivers break.
    pub fn rules(&self) -> [Rule; 8] {
        let (n, f) = (&self.counters, &self.forbidden);
        let broken = |broken, text| Rule { broken, text, works: false };
        let works = |broken, text| Rule { broken, text, works: true };
        [
            broken(
                n.tx_discarded,
                "frames that the card gave up: without IFCS the FCS is the driver's (SDM 3.3.3)",
            ),
            broken(n.bad_descriptors, "descriptors of a type that does not exist (SDM 3.3)"),
            broken(
                n.bad_doorbells,
                "tails outside of their ring: its length comes first (SDM 13.4.25 to 13.4.46)",
            ),
            broken(n.ignored_writes, "register writes that the card ignores (SDM 13.2)"),
            works(
                f.ring_places,
                "ring addresses that are no multiple of 16, or lengths that are none of 128 \
                 (SDM 13.4.25, 13.4.27, 13.4.36, 13.4.38)",
            ),
            works(f.heads, "heads written to a ring that is enabled (SDM 13.4.28, 13.4.39)"),
            works(
                f.overruns,
                "tails that pass descriptors which are not done (SDM 13.4.29, 13.4.40)",
            ),
            works(
                f.without_link,
                "frames to be sent without CTRL.SLU, so that no link comes up (SDM 8.6.2, 13.4.1)",
            ),
        ]
    }
}

/// The model.
///
/// With [`Config::errata`] it has these faults of the parts, and a driver without
/// the workaround finds out:
///
/// * in PCI-X, the first buffer of a packet of 2016 bytes and more hangs the transmitter (erratum
///   10);
/// * 82544 in PCI-X: so does a buffer that ends in an evenly aligned dword, unless it has four
///   bytes or fewer;
/// * 82545EM: writes across 64 KiB go wrong (erratum 23). Which way is not known, so
///   [`Counters::crossed_64k`] counts them and nothing else happens.
#[derive(Debug)]
pub struct E1000 {
    pub(super) cfg: Config,
    /// Counters since it was made.
    pub counters: Counters,
    pub(super) forbidden: Forbidden,
    pub(super) regs: Registers,
    pub(super) stats: Stats,
    pub(super) filter: Filter,
    pub(super) eeprom: Eeprom,
    pub(super) phy: Phy,
    pub(super) irq: Interrupts,
    pub(super) tx: Transmitter,
    pub(super) rx: Receiver,
    /// Time at which the bus interface can read again.
    pub(super) read_free: Time,
    /// An access to memory failed: no DMA until a reset.
    pub(super) halted: bool,
    /// The cable is in, and the partner alive.
    cable: bool,
    /// End of the negotiation; `NEVER`: none is under way, or the cable is out.
    negotiating: Time,
    /// STATUS.LU.
    pub(super) link: bool,
    /// Up to when everything has been done.
    now: Time,
    due: Time,
    /// Parts of `due`: what only reception and the link's negotiation move, the wire, and reads by
    /// the bus interface, which has to be free too. Each is found anew when it moves.
    pub(super) rare_due: Time,
    next_wire: Time,
    next_read: Time,
    /// Frames' memory, to be used again.
    pub(super) spare: SpareFrames,
}

impl E1000 {
    /// A card as after power-on, with a link partner. Values out of range are rounded into it.
    pub fn new(cfg: Config) -> E1000 {
        let cfg = cfg.clamped();
        let eeprom = Eeprom::new(cfg.variant.device_id(), cfg.mac);
        let mut filter = Filter::new();
        filter.set_address(eeprom.mac());
        E1000 {
            cfg,
            counters: Counters::default(),
            forbidden: Forbidden::default(),
            regs: Registers::new(cfg.variant),
            stats: Stats::new(),
            filter,
            eeprom,
            phy: Phy::new(cfg.variant, cfg.speed, true),
            irq: Interrupts::new(cfg.variant),
            tx: Transmitter::new(&cfg),
            rx: Receiver::new(&cfg),
            read_free: Time::ZERO,
            halted: false,
            cable: true,
            negotiating: Time::NEVER,
            link: false,
            now: Time::ZERO,
            due: Time::NEVER,
            rare_due: Time::NEVER,
            next_wire: Time::NEVER,
            next_read: Time::NEVER,
            spare: SpareFrames::new(),
        }
    }

    /// Returns its configuration.
    pub fn config(&self) -> &Config {
        &self.cfg
    }

    /// The interrupt line, as it is now.
    pub fn line(&self) -> bool {
        self.irq.line.high
    }

    /// Returns the least time between two interrupts in force: that of ITR, or the longest of the
    /// vectors' EITR.
    pub fn throttling(&self) -> Span {
        self.irq.throttling()
    }

    /// The cable is pulled, or put in: the link negotiates, STATUS.LU follows, and LSC is raised.
    pub fn set_cable(&mut self, at: Time, plugged: bool) {
        let at = at.max(self.now);
        self.cable = plugged;
        self.negotiate(at);
    }

    /// The link goes down, and comes up when it has been negotiated.
    pub(super) fn negotiate(&mut self, at: Time) {
        let negotiates = self.cable && self.cfg.negotiation > Span::ZERO;
        self.negotiating = if negotiates { at + self.cfg.negotiation } else { Time::NEVER };
        self.phy.set_link(false);
        self.phy.agree(self.cfg.speed);
        self.follow_link(at);
    }

    /// STATUS.LU follows cable, PHY and CTRL.SLU.
    pub(super) fn follow_link(&mut self, at: Time) {
        let partner = self.cable && self.negotiating == Time::NEVER && self.phy.mode().is_some();
        let phy = partner || self.phy.loops();
        self.phy.set_link(phy);
        let link = phy && self.regs.ctrl & CTRL_SLU != 0;
        if link != self.link {
            self.link = link;
            self.irq.raise(at, INT_LSC);
        }
        self.update_next_event();
    }

    /// Speed and duplex of the MAC: what CTRL forces, or else what the PHY agreed on.
    pub(super) fn mode(&self) -> Mode {
        let phy = self.phy.mode().unwrap_or(Mode { speed: self.cfg.speed, full: true });
        let ctrl = self.regs.ctrl;
        let speed = match ctrl >> CTRL_SPEED_SHIFT & 3 {
            _ if ctrl & CTRL_FRCSPD == 0 => phy.speed,
            0 => Speed::M10,
            1 => Speed::M100,
            _ => Speed::M1000,
        };
        Mode { speed, full: if ctrl & CTRL_FRCDPX == 0 { phy.full } else { ctrl & CTRL_FD != 0 } }
    }

    /// CTRL.RST: everything but the EEPROM and the PHY. No DMA, nothing pending.
    pub(super) fn reset_chip<P: Port>(&mut self, p: &mut P, at: Time) {
        if self.irq.line.high {
            self.put_line(p, at, false);
        }
        p.charge(RESET);
        self.counters.resets += 1;
        let extended = self.regs.is_extended();
        self.regs = Registers::new(self.cfg.variant);
        self.stats = Stats::new();
        self.filter = Filter::new();
        self.filter.set_address(self.eeprom.mac());
        self.irq = Interrupts::new(self.cfg.variant);
        // A frame on the wire has it until its end.
        let quiet = self.tx.sending.unwrap_or(Time::ZERO).max(self.tx.quiet);
        let on_wire = usize::from(self.tx.sending.is_some());
        self.counters.tx_packets += on_wire as u64;
        self.counters.tx_bytes +=
            self.tx.fifo.iter().take(on_wire).map(|f| f.bytes.len() as u64).sum::<u64>();
        self.counters.tx_lost += (self.tx.fifo.len() - on_wire) as u64;
        let (waiting, unreported) = self.rx.unfinished(extended);
        self.counters.rx_lost += waiting;
        self.counters.rx_unreported += unreported;
        self.tx = Transmitter::new(&self.cfg);
        self.tx.quiet = quiet;
        self.rx = Receiver::new(&self.cfg);
        self.read_free = at;
        self.halted = false;
        self.link = false;
        self.update_next_event();
    }

    /// Descriptors were fetched: until when, and how many.
    pub(super) fn fetched(&mut self, read: Result<(Time, u64), DmaFault>) {
        let Ok((arrived, n)) = read else { return self.fault() };
        self.read_free = arrived;
        self.counters.fetches += 1;
        self.counters.fetched_descriptors += n;
    }

    /// Descriptors were written back: in how many writes, and how many.
    pub(super) fn flushed(&mut self, written: Result<(u64, u64), DmaFault>) {
        let Ok((writes, descriptors)) = written else { return self.fault() };
        self.counters.write_backs += writes;
        self.counters.written_descriptors += descriptors;
    }

    /// An access to memory failed.
    #[cold]
    pub(super) fn fault(&mut self) {
        self.counters.dma_faults += 1;
        self.halted = true;
        self.tx.arrives = Time::NEVER;
    }

    /// Finds the time of the next event of any kind.
    pub(super) fn update_next_event(&mut self) {
        self.next_wire = self.wire_due();
        self.reads_moved();
        let rx_due = self.rx_write_due().min(self.rx_data_due());
        self.rare_due = self.negotiating.min(self.rx.delay.due()).min(rx_due);
        self.update_due();
    }

    pub(super) fn reads_moved(&mut self) {
        let (work, fetch) = self.tx_dma_due();
        self.next_read = work.min(fetch).min(self.rx_fetch_due());
    }

    /// Finds the time of the next event where no part of it has moved.
    #[inline]
    pub(super) fn update_due(&mut self) {
        self.due = (self.next_read.max(self.read_free))
            .min(self.next_wire.min(self.tx.arrives))
            .min(self.tx.delay.due().min(self.irq.due()))
            .min(self.rare_due)
            .max(self.now);
    }

    /// Does what is due at `t`, each kind once, what has come first, and finds the next event.
    #[inline(never)]
    fn step<P: Port>(&mut self, p: &mut P, t: Time) {
        p.charge(STEP);
        let rare = self.rare_due <= t;
        if rare && self.negotiating <= t {
            self.negotiating = Time::NEVER;
            self.follow_link(t);
        }
        if self.tx.arrives <= t {
            self.tx_arrived(p, t);
            self.next_wire = self.wire_due();
            self.reads_moved();
        }
        if rare && self.rx_write_due() <= t {
            self.rx_written(p, t);
            self.next_wire = self.wire_due();
        }
        if self.next_wire <= t {
            self.wire(p, t);
            self.next_wire = self.wire_due();
        }
        let mut rare = rare || self.rare_due <= t;
        if rare && self.rx.delay.due() <= t {
            self.rx_delay_over(p, t);
        }
        if self.tx.delay.due() <= t {
            self.tx_delay_over(p, t);
        }
        if rare && self.rx_data_due() <= t {
            self.rx_data(p, t);
        }
        if rare {
            self.reads_moved();
        }
        if self.next_read.max(self.read_free) <= t {
            rare |= self.begin_read(p, t);
            self.reads_moved();
        }
        self.line_rises(p, t);
        // Transmission moves reception only by frames that come back, and by a fault.
        if rare || self.halted {
            return self.update_next_event();
        }
        self.update_due();
    }

    /// Begins the read that is wanted first at `t`. Returns true if reception wants one: what was
    /// fetched may be what a frame waits for.
    #[inline]
    fn begin_read<P: Port>(&mut self, p: &mut P, t: Time) -> bool {
        let (tx_work, tx_fetch) = self.tx_dma_due();
        let rx_fetch = self.rx_fetch_due();
        // A lone queue with work has descriptors.
        let tx_is_dry = self.regs.has_queues() && tx_fetch <= t && self.tx_is_dry(t);
        if rx_fetch <= t && self.rx.is_dry(t) {
            self.rx_fetch(p, t);
        } else if tx_work <= t && !tx_is_dry {
            self.tx_work(p, t);
        } else if tx_fetch <= t {
            self.tx_fetch(p, t);
        } else if rx_fetch <= t {
            self.rx_fetch(p, t);
        }
        rx_fetch <= t
    }

    pub(super) fn line_rises<P: Port>(&mut self, p: &mut P, t: Time) {
        if self.irq.due() <= t {
            self.rises(p, t);
        }
    }

    fn rises<P: Port>(&mut self, p: &mut P, t: Time) {
        if self.irq.is_msix() {
            let eiame = self.regs.auto_masks_messages();
            while let Some(vector) = self.irq.message(t, eiame) {
                self.counters.interrupts += 1;
                self.stats.count(stat::IAC);
                p.raise_msi(t, vector);
            }
            return;
        }
        self.irq.rise(t);
        self.counters.interrupts += 1;
        self.stats.count(stat::IAC);
        self.put_line(p, t, true);
    }

    /// The line has this level; or its rise is a message.
    pub(super) fn put_line<P: Port>(&self, p: &mut P, at: Time, high: bool) {
        match self.cfg.slot {
            Slot::Express { msi: true } if high => p.raise_msi(at, 0),
            Slot::Express { msi: true } => {}
            _ => p.set_irq_line(at, 0, high),
        }
    }

    /// Returns true in loopback: frames come back instead of leaving.
    pub(super) fn loops(&self) -> bool {
        self.regs.loops() || self.phy.loops()
    }
}

/// CTRL: where the forced speed is.
const CTRL_SPEED_SHIFT: u32 = 8;

impl EventSource for E1000 {
    #[inline]
    fn next_due(&self) -> Option<Time> {
        (self.due < Time::NEVER).then_some(self.due)
    }

    fn diagnose(&self, tell: &mut dyn FnMut(&'static str, Fact)) {
        tell("link up", Fact::State(self.link));
        tell("stopped by a DMA fault", Fact::State(self.halted));
        let hung = Fact::State(self.counters.hangs > 0);
        tell("hung by a packet beyond its FIFO or by an erratum", hung);
        for (names, ring) in [
            (["TX descriptors", "TDH", "TDT"], &self.tx.queues[0].ring),
            (["RX descriptors", "RDH", "RDT"], &self.rx.rings[0]),
            (["TX descriptors 1", "TDH1", "TDT1"], &self.tx.queues[1].ring),
            (["RX descriptors 1", "RDH1", "RDT1"], &self.rx.rings[1]),
        ] {
            if ring.size() == 0 && names[0].ends_with('1') {
                continue;
            }
            let values = [ring.size(), ring.head, ring.tail];
            names.into_iter().zip(values).for_each(|(name, v)| tell(name, Fact::Number(v.into())));
            tell("of them outstanding", Fact::Number(ring.left().into()));
        }
        tell("ICR", Fact::Bits(self.irq.causes.into()));
        tell("IMS", Fact::Bits(self.irq.mask.into()));
        tell("interrupt line high", Fact::State(self.irq.line.high));
        let broken = self.rules().into_iter().filter(|rule| rule.broken > 0);
        broken.for_each(|rule| tell(rule.text, Fact::Number(rule.broken)));
    }

    fn counters(&self, tell: &mut dyn FnMut(&'static str, u64)) {
        self.counters.entries().for_each(|(name, n)| tell(name, n));
    }

    fn register_name(&self, r: Reg) -> Option<&'static str> {
        if r.region == 0 { register_name(r.offset) } else { None }
    }
}

impl<P: Port> Device<P> for E1000 {
    fn mmio_read(&mut self, p: &mut P, at: Time, r: Reg, size: u8) -> u64 {
        let at = at.max(self.now);
        self.read_any(p, at, r, size)
    }

    fn mmio_write(&mut self, p: &mut P, at: Time, r: Reg, size: u8, v: u64) {
        self.advance(p, at);
        let at = at.max(self.now);
        self.write_any(p, at, r, size, v);
    }

    fn receive(&mut self, _p: &mut P, at: Time, frame: &[u8]) -> RxVerdict {
        let at = at.max(self.now);
        let taken = self.arrive(at, frame, false);
        self.update_next_event();
        taken
    }

    #[inline]
    fn advance(&mut self, p: &mut P, until: Time) {
        while self.due <= until && !p.is_spent() {
            self.now = self.now.max(self.due);
            self.step(p, self.now);
        }
        self.now = self.now.max(until);
    }

    fn cable(&mut self, p: &mut P, at: Time, plugged: bool) {
        self.set_cable(at, plugged);
        self.advance(p, at);
    }

    fn reset(&mut self, p: &mut P, at: Time) {
        let at = at.max(self.now);
        self.now = at;
        self.phy.reset();
        self.phy.agree(self.cfg.speed);
        self.negotiating = Time::NEVER;
        self.phy.set_link(self.cable);
        (self.tx.sending, self.tx.quiet) = (None, Time::ZERO);
        self.reset_chip(p, at);
    }
}
