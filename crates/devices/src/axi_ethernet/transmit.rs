//! MM2S: from a descriptor to the MAC's transmit memory, and its status back.
//!
//! A packet is the buffers from SOF to EOF; its control words are those of the first descriptor.
//! Without SOF the MAC takes no data, and the engine stands still until a reset. Data are read in
//! pieces of up to 4 KiB, one at a time, when the transmit memory has room. Each descriptor gets
//! its status when its data are on the chip.
//!
//! Source: PG021, "Scatter Gather Descriptor", "MM2S_STATUS"; PG138, "Transmit AXI4-Stream
//! Interface".

use super::channel::{Channel, Fetched, Link, Report, TX_FETCH, data_error};
use super::config::Config;
use super::device::AxiEthernet;
use super::offload;
use super::wire::TxFrame;
use crate::common::bad;
use alloc::{collections::VecDeque, vec::Vec};
use doorbell_hal::{Iova, Port, Time};
use doorbell_layout::axienet::{Descriptor, sr, tx_app};

/// The largest piece: bursts end there at the latest anyway.
const PAGE: u64 = 4096;
/// PG021, "Latency": clocks from the data's address to the stream, with no memory between.
const DATA_TO_STREAM: u64 = 6;

/// A packet being put together.
#[derive(Debug, Default)]
struct Packet {
    open: bool,
    /// It can never fit: the rest is read and dropped.
    discard: bool,
    app: [u32; 3],
    bytes: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct Transmitter {
    pub(super) ch: Channel,
    packet: Packet,
    /// Bytes of the descriptor in front that have been read.
    offset: u32,
    /// A piece under way: when it arrives, and how many bytes.
    arriving: Option<(Time, u32)>,
    /// The MAC takes no data: until a reset.
    hung: bool,
    /// Packets in the transmit memory, and bytes of those.
    pub(super) fifo: VecDeque<TxFrame>,
    pub(super) used: usize,
    /// The front of them is being sent, until then.
    pub(super) sending: Option<Time>,
    /// A frame that a reset cannot call back has the wire until then.
    pub(super) quiet: Time,
}

impl Transmitter {
    pub(super) fn new(cfg: &Config) -> Transmitter {
        Transmitter {
            ch: Channel::new(cfg, TX_FETCH),
            packet: Packet::default(),
            offset: 0,
            arriving: None,
            hung: false,
            fifo: VecDeque::new(),
            used: 0,
            sending: None,
            quiet: Time::ZERO,
        }
    }

    /// Returns true if the descriptor in front is in work.
    pub(super) fn is_working(&self) -> bool {
        self.offset > 0 || self.arriving.is_some()
    }

    /// The MAC's transmitter is reset: what waits for the wire is gone, but not what is on it.
    /// Returns the number of frames lost.
    pub(super) fn empty(&mut self) -> u64 {
        let before = self.fifo.len();
        self.fifo.truncate(usize::from(self.sending.is_some()));
        self.used = self.fifo.iter().map(|f| f.bytes.len()).sum();
        (before - self.fifo.len()) as u64
    }
}

impl AxiEthernet {
    // ---- data ----

    /// Returns address and length of the next piece.
    fn tx_piece(&self, f: &Fetched) -> (u64, u32) {
        let at = f.buffer.wrapping_add(self.tx.offset.into());
        let left = self.cfg.length(f.control).saturating_sub(self.tx.offset);
        (at, left.min((PAGE - at % PAGE) as u32))
    }

    /// Returns true if the transmit memory has room for `n` bytes.
    fn tx_has_room(&self, n: u32) -> bool {
        let have = if self.tx.packet.open { self.tx.packet.bytes.len() } else { 0 };
        self.tx.packet.discard || self.tx.used + have + n as usize <= self.cfg.tx_memory as usize
    }

    pub(super) fn tx_work_due(&self) -> Time {
        let t = &self.tx;
        if t.hung || t.arriving.is_some() || !t.ch.has_room() || !(t.ch.runs() || t.is_working()) {
            return Time::NEVER;
        }
        match t.ch.queue.front() {
            // With nothing in the memory but this packet, it does not wait: it is dropped.
            Some(f) if t.fifo.is_empty() || self.tx_has_room(self.tx_piece(f).1) => f.at,
            _ => Time::NEVER,
        }
    }

    /// Begins with the next piece of the descriptor in front.
    pub(super) fn tx_work<P: Port>(&mut self, p: &mut P, t: Time) {
        let Some(&f) = self.tx.ch.queue.front() else { return };
        let control = f.control;
        let (at, n) = self.tx_piece(&f);
        if self.tx.offset == 0 {
            if self.tx.ch.is_stale(&f) {
                return self.tx_fail(t, f.link.place, sr::SG_INT_ERR);
            }
            if n == 0 || !at.is_multiple_of(4) && !self.cfg.realign {
                return self.tx_data_fails(p, t, f.link, (Descriptor::INT_ERR, sr::DMA_INT_ERR));
            }
            if !self.tx.packet.open && control & Descriptor::SOF == 0 {
                self.tx.hung = true;
                self.counters.hangs += 1;
                return;
            }
            if self.tx.packet.open {
                self.counters.bad_descriptors += u64::from(control & Descriptor::SOF != 0);
            } else {
                let bytes = self.spare.take();
                self.tx.packet = Packet { open: true, discard: false, app: f.app, bytes };
                self.tx.ch.coalescer.packet_begins();
            }
        }
        if !self.tx_has_room(n) {
            self.tx.packet.discard = true;
        }
        if self.tx.packet.discard {
            self.tx.packet.bytes.clear();
        }
        let have = self.tx.packet.bytes.len();
        self.tx.packet.bytes.resize(have + n as usize, 0);
        match p.read(t, Iova(at), &mut self.tx.packet.bytes[have..]) {
            Ok(arrived) => {
                self.counters.data_reads += 1;
                self.counters.data_read_bytes += u64::from(n);
                self.tx.arriving = Some((arrived.max(t) + self.cfg.clocks(DATA_TO_STREAM), n));
            }
            Err(fault) => self.tx_data_fails(p, t, f.link, data_error(fault)),
        }
    }

    /// The descriptor's data are in error: it is told so, and the channel halts.
    fn tx_data_fails<P: Port>(&mut self, p: &mut P, t: Time, link: Link, why: (u32, u32)) {
        let (status, errors) = (self.tx.offset | why.0 | Descriptor::CMPLT, why.1);
        // If not even that can be written, there is one error more; it halts anyway.
        let _ = self.tx.ch.update(p, t, link, Report { status, app: None, eof: false });
        self.tx_fail(t, link.place, errors);
    }

    fn tx_fail(&mut self, t: Time, place: u64, errors: u32) {
        self.counters.dma_errors += 1;
        self.tx.ch.fail(t, place, errors);
        self.tx_drop_packet();
    }

    /// Drops the packet that is being put together.
    pub(super) fn tx_drop_packet(&mut self) {
        let t = &mut self.tx;
        t.arriving = None;
        t.offset = 0;
        let packet = core::mem::take(&mut t.packet);
        if packet.open {
            self.counters.tx_discarded += 1;
            self.spare.push(packet.bytes);
        }
    }

    pub(super) fn tx_arrival_due(&self) -> Time {
        self.tx.arriving.map_or(Time::NEVER, |(at, _)| at)
    }

    /// A piece is on the chip.
    pub(super) fn tx_arrived<P: Port>(&mut self, p: &mut P, t: Time) {
        let Some((_, n)) = self.tx.arriving.take() else { return };
        let Some(&f) = self.tx.ch.queue.front() else { return };
        self.tx.offset += n;
        if self.tx_piece(&f).1 > 0 {
            return;
        }
        self.tx.ch.take();
        self.counters.tx_descriptors += 1;
        let ends = f.control & Descriptor::EOF != 0;
        let status = core::mem::take(&mut self.tx.offset) | Descriptor::CMPLT;
        if ends {
            self.tx_finish(t);
        } else if !self.tx.ch.runs() {
            // Stopped in the middle of a packet: the stream ends early.
            self.tx_drop_packet();
        }
        if self.tx.ch.update(p, t, f.link, Report { status, app: None, eof: ends }) != Ok(false) {
            self.counters.dma_errors += 1;
            self.tx_drop_packet();
        }
    }

    /// The packet is whole.
    fn tx_finish(&mut self, t: Time) {
        let mut packet = core::mem::take(&mut self.tx.packet);
        if packet.discard {
            self.counters.tx_discarded += 1;
            self.spare.push(packet.bytes);
            return;
        }
        if packet.app[0] & tx_app::CHECKSUM != 0 {
            offload::transmit(&self.cfg, packet.app, &mut packet.bytes);
            let verdict = offload::audit(packet.app, &packet.bytes);
            self.counters.wire_bad_checksums += bad(verdict);
        }
        self.tx.used += packet.bytes.len();
        self.tx.fifo.push_back(TxFrame { ready: t, bytes: packet.bytes });
    }

    pub(super) fn tx_updated(&mut self, t: Time) {
        if self.tx.ch.updated(t) {
            self.counters.tx_completions += 1;
        }
    }
}
