//! The device: what it is made of, and what is due when.

use super::config::{Config, Speed};
use super::eeprom::Eeprom;
use super::filter::Filter;
use super::interrupt::Interrupts;
use super::phy::{Mode, Phy};
use super::receive::Receiver;
use super::registers::Registers;
use super::stats::Stats;
use super::transmit::Transmitter;
use alloc::vec::Vec;
use doorbell_hal::{Device, EventSource, Fact, Port, Reg, RxVerdict, Span, Time};
use doorbell_layout::e1000::{CTRL_FD, CTRL_FRCDPX, CTRL_FRCSPD, CTRL_SLU, INT_LSC, TIMER_FPD};

crate::counters::counters! {
    /// What the device counted. Unlike its statistics registers, nothing clears it.
    struct;
    /// Frames sent, or looped back.
    tx_packets,
    /// Bytes of those, padding among them, without FCS.
    tx_bytes,
    /// Transmit descriptors used.
    tx_descriptors,
    /// Context descriptors among them.
    contexts,
    /// Packets cut into segments.
    large_sends,
    /// Packets given up: too long, a context that cannot be, a bad FCS.
    tx_discarded,
    /// Descriptors of a type that does not exist.
    bad_descriptors,
    /// Transmit tails written.
    tx_doorbells,
    /// Receive tails written.
    rx_doorbells,
    /// Tails outside their ring.
    bad_doorbells,
    /// Frames put into memory.
    rx_packets,
    /// Bytes of those, with FCS unless it is stripped.
    rx_bytes,
    /// Receive descriptors used.
    rx_descriptors,
    /// Frames that found no descriptor and waited.
    rx_waited,
    /// Frames that found no room on the chip.
    rx_missed,
    /// Frames for others.
    rx_filtered,
    /// Frames dropped otherwise: receiver off, no link, bad length.
    rx_dropped,
    /// Pause frames obeyed.
    pauses_received,
    /// Pause frames sent, XON among them.
    pauses_sent,
    /// Reads of descriptors.
    fetches,
    /// Descriptors in those.
    fetched_descriptors,
    /// Writes of descriptors.
    write_backs,
    /// Descriptors in those.
    written_descriptors,
    /// Reads of data.
    data_reads,
    /// Bytes of those.
    data_read_bytes,
    /// Writes of data.
    data_writes,
    /// Bytes of those.
    data_write_bytes,
    /// Frames that were on the chip, to be sent, when it was reset.
    tx_lost,
    /// Frames that were on the chip, received, when it was reset.
    rx_lost,
    /// Frames put into memory and never reported: the reset came before.
    rx_unreported,
    /// Times that the interrupt line rose.
    interrupts,
    /// Accesses to memory that failed; each stops DMA.
    dma_faults,
    /// Packets that can never fit the FIFO, or meet an erratum; each stops the transmitter.
    hangs,
    /// Writes that erratum 23 forbids: across a multiple of 64 KiB.
    crossed_64k,
    /// Register writes that the hardware ignores: narrow, or nothing there.
    ignored_writes,
    /// Resets, by CTRL.RST or from outside.
    resets,
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
    /// What it counted since it was made.
    pub counters: Counters,
    pub(super) regs: Registers,
    pub(super) stats: Stats,
    pub(super) filter: Filter,
    pub(super) eeprom: Eeprom,
    pub(super) phy: Phy,
    pub(super) irq: Interrupts,
    pub(super) tx: Transmitter,
    pub(super) rx: Receiver,
    /// When the bus interface can read again.
    pub(super) read_free: Time,
    /// An access to memory failed: no DMA until a reset.
    pub(super) halted: bool,
    /// The cable is in, and the partner alive.
    cable: bool,
    /// When the link will have been negotiated; `NEVER`: it has.
    negotiating: Time,
    /// STATUS.LU.
    pub(super) link: bool,
    /// Up to when everything has been done.
    now: Time,
    due: Time,
    /// Frames' memory, to be used again.
    pub(super) spare: Vec<Vec<u8>>,
}

impl E1000 {
    /// A card as after power-on, with a link partner. Values out of range are rounded into it.
    pub fn new(cfg: Config) -> E1000 {
        let cfg = cfg.sane();
        let eeprom = Eeprom::new(cfg.variant.device_id(), cfg.mac);
        let mut filter = Filter::new();
        filter.set_address(eeprom.mac());
        E1000 {
            cfg,
            counters: Counters::default(),
            regs: Registers::new(),
            stats: Stats::new(),
            filter,
            eeprom,
            phy: Phy::new(cfg.variant, cfg.speed, true),
            irq: Interrupts::new(),
            tx: Transmitter::new(&cfg),
            rx: Receiver::new(&cfg),
            read_free: Time::ZERO,
            halted: false,
            cable: true,
            negotiating: Time::NEVER,
            link: false,
            now: Time::ZERO,
            due: Time::NEVER,
            spare: Vec::new(),
        }
    }

    /// What it is.
    pub fn config(&self) -> &Config {
        &self.cfg
    }

    /// The interrupt line, as it is now.
    pub fn line(&self) -> bool {
        self.irq.high
    }

    /// The cable is pulled, or put in: the link negotiates, STATUS.LU follows, and LSC is raised.
    pub fn set_cable(&mut self, at: Time, plugged: bool) {
        let at = at.max(self.now);
        self.cable = plugged;
        self.negotiate(at);
    }

    /// The link goes down, and comes up when it has been negotiated.
    pub(super) fn negotiate(&mut self, at: Time) {
        self.negotiating =
            if self.cfg.negotiation > Span::ZERO { at + self.cfg.negotiation } else { Time::NEVER };
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
        self.look_ahead();
    }

    /// Speed and duplex of the MAC: what CTRL forces, or else what the PHY agreed on.
    pub(super) fn mode(&self) -> Mode {
        let phy = self.phy.mode().unwrap_or(Mode { speed: self.cfg.speed, full: true });
        let ctrl = self.regs.ctrl;
        let speed = match ctrl >> CTRL_SPEED_SHIFT & 3 {
            _ if ctrl & CTRL_FRCSPD == 0 => phy.speed,
            0 => Speed::M10,
            1 => Speed::M100,
            _ => Speed::G1,
        };
        Mode { speed, full: if ctrl & CTRL_FRCDPX == 0 { phy.full } else { ctrl & CTRL_FD != 0 } }
    }

    fn link_due(&self) -> Time {
        if self.cable { self.negotiating } else { Time::NEVER }
    }

    /// CTRL.RST: everything but the EEPROM and the PHY. No DMA, nothing pending.
    pub(super) fn reset_chip<P: Port>(&mut self, p: &mut P, at: Time) {
        if self.irq.high {
            p.set_irq_line(at, 0, false);
        }
        self.counters.resets += 1;
        self.regs = Registers::new();
        self.stats = Stats::new();
        self.filter = Filter::new();
        self.filter.set_address(self.eeprom.mac());
        self.irq = Interrupts::new();
        let until = self.tx.sending_until();
        let on_wire = usize::from(self.tx.sending.is_some());
        self.counters.tx_packets += on_wire as u64;
        self.counters.tx_bytes +=
            self.tx.fifo.iter().take(on_wire).map(|f| f.bytes.len() as u64).sum::<u64>();
        self.counters.tx_lost += (self.tx.fifo.len() - on_wire) as u64;
        let (waiting, unreported) = self.rx.unfinished();
        self.counters.rx_lost += waiting;
        self.counters.rx_unreported += unreported;
        self.tx = Transmitter::new(&self.cfg);
        self.tx.quiet_until(until);
        self.rx = Receiver::new(&self.cfg);
        self.read_free = at;
        self.halted = false;
        self.link = false;
        self.look_ahead();
    }

    /// A frame's worth of empty memory.
    pub(super) fn spare(&mut self) -> Vec<u8> {
        let mut v = self.spare.pop().unwrap_or_default();
        v.clear();
        v
    }

    /// An access to memory failed.
    #[cold]
    pub(super) fn fault(&mut self) {
        self.counters.dma_faults += 1;
        self.halted = true;
    }

    /// When the next thing happens, of whatever kind.
    pub(super) fn look_ahead(&mut self) {
        self.due = (self.irq.due().min(self.link_due()))
            .min(self.tx_arrival_due().min(self.wire_due()))
            .min(self.tx.delay.due().min(self.rx.delay.due()))
            .min(self.rx_landing_due().min(self.rx_data_due()))
            .min(self.tx_work_due().min(self.tx_fetch_due()))
            .min(self.rx_fetch_due())
            .max(self.now);
    }

    /// Does what is due at `t`, each kind once, what has come first.
    fn step<P: Port>(&mut self, p: &mut P, t: Time) {
        if self.link_due() <= t {
            self.negotiating = Time::NEVER;
            self.follow_link(t);
        }
        if self.tx_arrival_due() <= t {
            self.tx_arrived(p, t);
        }
        if self.rx_landing_due() <= t {
            self.rx_landed(p, t);
        }
        if self.wire_due() <= t {
            self.wire(p, t);
        }
        if self.rx.delay.due() <= t {
            self.rx_delay_over(p, t);
        }
        if self.tx.delay.due() <= t {
            self.tx_delay_over(p, t);
        }
        if self.rx_data_due() <= t {
            self.rx_data(p, t);
        }
        let fetch = self.rx_fetch_due();
        if fetch <= t && self.rx.ring.is_dry() {
            self.rx_fetch(p, t);
        } else if self.tx_work_due() <= t {
            self.tx_work(p, t);
        } else if self.tx_fetch_due() <= t {
            self.tx_fetch(p, t);
        } else if fetch <= t {
            self.rx_fetch(p, t);
        }
        self.line_rises(p, t);
    }

    /// The line rises, if it is time.
    pub(super) fn line_rises<P: Port>(&mut self, p: &mut P, t: Time) {
        if self.irq.due() <= t {
            self.irq.rise(t);
            self.counters.interrupts += 1;
            p.set_irq_line(t, 0, true);
        }
    }

    /// Whether frames come back instead of leaving.
    pub(super) fn loops(&self) -> bool {
        self.regs.loops() || self.phy.loops()
    }
}

/// CTRL: where the forced speed is.
const CTRL_SPEED_SHIFT: u32 = 8;

/// Bits of a timer register that are the time.
pub(super) const TIMER: u32 = !TIMER_FPD & 0xffff;

impl EventSource for E1000 {
    #[inline]
    fn next_due(&self) -> Option<Time> {
        (self.due < Time::NEVER).then_some(self.due)
    }

    fn diagnose(&self, tell: &mut dyn FnMut(&'static str, Fact)) {
        tell("link up", Fact::State(self.link));
        tell("stopped by a DMA fault", Fact::State(self.halted));
        tell(
            "hung by a packet beyond its FIFO or by an erratum",
            Fact::State(self.counters.hangs > 0),
        );
        for (names, ring) in [
            (["TX descriptors", "TDH", "TDT"], &self.tx.ring),
            (["RX descriptors", "RDH", "RDT"], &self.rx.ring),
        ] {
            let values = [ring.size(), ring.head, ring.tail];
            names.into_iter().zip(values).for_each(|(name, v)| tell(name, Fact::Number(v.into())));
        }
        tell("ICR", Fact::Bits(self.irq.causes.into()));
        tell("IMS", Fact::Bits(self.irq.mask.into()));
        tell("interrupt line high", Fact::State(self.irq.high));
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
        self.look_ahead();
        taken
    }

    fn advance(&mut self, p: &mut P, until: Time) {
        while self.due <= until {
            self.now = self.now.max(self.due);
            self.step(p, self.now);
            self.look_ahead();
        }
        self.now = self.now.max(until);
    }

    fn reset(&mut self, p: &mut P, at: Time) {
        let at = at.max(self.now);
        self.now = at;
        self.phy.reset();
        self.phy.agree(self.cfg.speed);
        self.negotiating = Time::NEVER;
        self.phy.set_link(self.cable);
        self.tx.forget_wire();
        self.reset_chip(p, at);
    }
}
