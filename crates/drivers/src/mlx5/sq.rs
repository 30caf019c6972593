//! The send queue: WQEs in, doorbells out, packets retired.

use super::session::{EsegKey, Session, Sizing, contiguous};
use alloc::boxed::Box;
use alloc::vec::Vec;
use doorbell_layout::mlx5::{
    CQ_UPDATE, CmdStatus, CtrlSeg, DS, DS_PER_WQEBB, DataSeg, ETH_WQE_INSERT_VLAN, EthSeg, MAX_WQEBBS, WQEBB, cs_flags,
    dbr, opcode, uar,
};
use doorbell_packet::{MAX_FRAGS, More, Packet, Piece};
use doorbell_seam::{Buf, Coherent, Direction, Exhausted, Fence, Host, Mapped, Reg, Work};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};

use crate::{Sink, Tx};

/// How a channel is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The switch: `ethtool --set-priv-flags skb_tx_mpwqe`. It takes effect only
    /// where the device has the capability and needs nothing inlined.
    pub mpwqe: bool,
    /// How sessions are sized.
    pub sizing: Sizing,
    /// log2 of the send queue in basic blocks: 6 to 13, 10 in Linux.
    pub log_sq: u8,
    /// log2 of the completion queue.
    pub log_cq: u8,
    /// CQ moderation: microseconds (16 in Linux).
    pub cq_period_us: u16,
    /// CQ moderation: completions (32 in Linux).
    pub cq_max_count: u16,
    /// MSI-X vector of the channel.
    pub vector: u16,
}

impl Config {
    /// What mlx5e sets up by default, on vector 0.
    pub const DEFAULT: Config = Config {
        mpwqe: true,
        sizing: Sizing::Padded,
        log_sq: 10,
        log_cq: 10,
        cq_period_us: 16,
        cq_max_count: 32,
        vector: 0,
    };
}

/// Why a channel could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// No host memory.
    Exhausted,
    /// The firmware refused.
    Firmware(CmdStatus),
    /// The device lacks what the driver cannot do without: checksum, VLAN and
    /// LSO capability, and send WQEs of 1 KiB.
    Capability(&'static str),
    /// `log_sq` or `log_cq` out of range.
    Size,
}

impl From<Exhausted> for OpenError {
    fn from(_: Exhausted) -> OpenError {
        OpenError::Exhausted
    }
}
impl From<CmdStatus> for OpenError {
    fn from(s: CmdStatus) -> OpenError {
        OpenError::Firmware(s)
    }
}

macro_rules! stats {
    ($($(#[doc = $doc:literal])+ $field:ident,)*) => {
        /// Counters of a channel, named as in `ethtool -S` where it has them.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Stats {
            $($(#[doc = $doc])+ pub $field: u64,)*
        }

        impl Stats {
            /// Every counter with its name.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),*].into_iter()
            }
            /// Adds another channel's.
            pub fn add(&mut self, other: &Stats) {
                $(self.$field += other.$field;)*
            }
        }
    };
}

stats! {
    /// Packets queued, in segments on the wire.
    packets,
    /// Bytes of those, headers of every segment included, padding not.
    bytes,
    /// Large sends.
    tso_packets,
    /// Packets whose checksum was left to the device.
    csum_partial,
    /// Packets whose tag was left to the device.
    added_vlan_packets,
    /// Calls that said that more would follow.
    xmit_more,
    /// NOPs posted.
    nop,
    /// WQEs posted, NOPs and sessions included.
    wqes,
    /// Sessions opened.
    mpwqe_blks,
    /// Packets in sessions.
    mpwqe_pkts,
    /// Doorbells rung.
    doorbells,
    /// CQEs taken.
    cqes,
    /// Error CQEs taken.
    cqe_err,
    /// CQEs that named no outstanding WQE.
    cqe_stray,
    /// Times the queue stopped.
    stopped,
    /// Times it woke.
    wake,
    /// Packets dropped.
    dropped,
    /// Recoveries completed.
    recover,
    /// Interrupts that were ours.
    interrupts,
    /// Events taken from the EQ.
    eqes,
}

/// What stands in the ring at a WQE's first block.
#[derive(Clone, Copy, Debug, Default)]
struct WqeInfo {
    wqebbs: u8,
    /// Entries of the FIFO that it owns.
    pieces: u8,
}

/// A buffer in flight.
#[derive(Debug)]
struct InFlight {
    held: Held,
    cookie: u32,
    /// The packet's final piece.
    last: bool,
}

#[derive(Debug)]
enum Held {
    Mapped(Mapped),
    /// All of it was inlined: nothing to unmap.
    Inlined(Buf),
}

/// The send queue.
#[derive(Debug)]
pub(super) struct Sq {
    pub(super) ring: Coherent,
    pub(super) dbr: Coherent,
    pub(super) sqn: u32,
    /// As it stands in a data segment.
    pub(super) lkey: U32,
    pub(super) page: u32,
    pub(super) stats: Stats,
    pub(super) recovering: bool,
    pub(super) stopped: bool,
    mask: u16,
    /// Producer counter in basic blocks, free running.
    pub(super) pc: u16,
    /// Consumer counter.
    pub(super) cc: u16,
    /// Producer counter at the last doorbell.
    announced: u16,
    /// Counter of the WQE that was posted last.
    last_wqe: u16,
    stop_room: u16,
    session: Session,
    sizing: Sizing,
    /// Longest session in blocks; 0 when the switch is off.
    mpw_wqebbs: u32,
    min_inline: u8,
    info: Box<[WqeInfo]>,
    fifo: Box<[Option<InFlight>]>,
    fifo_head: u32,
    fifo_tail: u32,
}

/// The head of every WQE.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Head {
    ctrl: CtrlSeg,
    eth: EthSeg,
}
const HEAD: u32 = size_of::<Head>() as u32;

/// The WQE of a linear packet with nothing inlined.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Plain {
    head: Head,
    data: DataSeg,
}

impl Sq {
    pub(super) fn allocate<H: Host>(h: &mut H, c: &Config, min_inline: u8, mpw_wqebbs: u32) -> Result<Sq, Exhausted> {
        let blocks = 1u32 << c.log_sq;
        let ring = h.coherent(blocks * WQEBB, 4096)?;
        let dbr = match h.coherent(dbr::SIZE, 64) {
            Ok(dbr) => dbr,
            Err(e) => {
                h.release_coherent(ring);
                return Err(e);
            }
        };
        // A WQE may need as many blocks of padding before it, so room for one is
        // room for two less one (params.c mlx5e_calc_sq_stop_room).
        let mut stop_room = 2 * MAX_WQEBBS - 1;
        if mpw_wqebbs > 0 {
            stop_room += 2 * mpw_wqebbs - 1;
        }
        Ok(Sq {
            ring,
            dbr,
            sqn: 0,
            lkey: U32::ZERO,
            page: 0,
            stats: Stats::default(),
            recovering: false,
            stopped: false,
            mask: (blocks - 1) as u16,
            pc: 0,
            cc: 0,
            announced: 0,
            last_wqe: 0,
            stop_room: stop_room as u16,
            session: Session::CLOSED,
            sizing: c.sizing,
            mpw_wqebbs,
            min_inline,
            info: (0..blocks).map(|_| WqeInfo::default()).collect(),
            fifo: (0..blocks * DS_PER_WQEBB).map(|_| None).collect(),
            fifo_head: 0,
            fifo_tail: 0,
        })
    }

    // ---- transmit, in the order a packet meets it ----

    #[inline]
    pub(super) fn transmit<H: Host>(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        if self.stopped || self.recovering {
            return Tx::Busy(p);
        }
        self.stats.xmit_more += u64::from(more);
        let key = EsegKey::new(self.cs_flags(&p));
        let eligible = p.is_linear() && p.todo.gso.is_none() && p.todo.vlan.is_none() && p.head.len > 0;
        if eligible && self.mpw_wqebbs > 0 {
            self.add_to_session(h, p, key, more)
        } else {
            if self.session.is_open() {
                self.close_session(h, false);
            }
            if eligible && self.min_inline == 0 {
                self.send_plain(h, p, key, more)
            } else {
                self.send_any(h, p, key, more)
            }
        }
    }

    #[inline(always)]
    fn cs_flags(&mut self, p: &Packet) -> u8 {
        if p.todo.checksum.is_none() {
            return 0;
        }
        self.stats.csum_partial += 1;
        let outer = cs_flags::L3 | cs_flags::L4;
        if p.todo.encapsulated { cs_flags::L3 | cs_flags::L3_INNER | cs_flags::L4_INNER } else { outer }
    }

    #[inline(always)]
    fn add_to_session<H: Host>(&mut self, h: &mut H, p: Packet, key: EsegKey, mut more: bool) -> Tx {
        if self.session.is_open() {
            if self.session.key != key {
                self.close_session(h, false);
                // This may have stopped the queue: then this packet is the last
                // for now, and nobody else would ring for it.
                more &= !self.stopped;
                self.open_session(h, key);
            }
        } else {
            self.open_session(h, key);
        }
        let Packet { head, todo, cookie, .. } = p;
        let m = match h.map(head.buf, head.start..head.start + head.len, Direction::ToDevice) {
            Ok(m) => m,
            Err(e) => {
                let head = Piece { buf: e.buf, start: head.start, len: head.len };
                return self.drop_packet(h, Packet { head, todo, more: None, cookie }, more);
            }
        };
        h.spend(Work::Map);
        h.spend(Work::TxShared);
        self.stats.mpwqe_pkts += 1;
        self.stats.packets += 1;
        self.stats.bytes += u64::from(head.len);
        h.store(&self.ring, self.session.next, self.data_seg(&m));
        self.session.next += DS;
        self.push(InFlight { held: Held::Mapped(m), cookie, last: true });
        if !more {
            self.close_session(h, true);
        } else if self.session.is_full() {
            // The queue may have to stop here, and then nobody else would ring.
            let stop = !self.has_room_after(self.session_wqebbs());
            self.close_session(h, stop);
        }
        Tx::Ok
    }

    #[inline(never)]
    fn open_session<H: Host>(&mut self, h: &mut H, key: EsegKey) {
        let mut room = contiguous(self.pc, self.mask);
        if room < self.mpw_wqebbs && self.sizing == Sizing::Padded {
            self.pad(h, room);
            room = contiguous(self.pc, self.mask);
        }
        h.spend(Work::TxSession);
        self.stats.mpwqe_blks += 1;
        self.session = Session::open(key, self.offset(self.pc), room.min(self.mpw_wqebbs));
    }

    #[inline(always)]
    fn session_wqebbs(&self) -> u32 {
        self.session.ds(self.offset(self.pc)).div_ceil(DS_PER_WQEBB)
    }

    #[inline(never)]
    fn close_session<H: Host>(&mut self, h: &mut H, notify: bool) {
        let at = self.offset(self.pc);
        let (ds, key) = (self.session.ds(at), self.session.key);
        if ds == Session::HEAD_DS {
            // Opened for a packet that could then not be mapped.
            self.session = Session::CLOSED;
            self.stats.mpwqe_blks -= 1;
            if notify {
                self.flush(h);
            }
            return;
        }
        let (wqebbs, pieces) = (ds.div_ceil(DS_PER_WQEBB), ds - Session::HEAD_DS);
        self.session = Session::CLOSED;
        let mut ctrl = CtrlSeg::new(self.pc, opcode::ENHANCED_MPSW, self.sqn, ds);
        if notify {
            ctrl.fm_ce_se = CQ_UPDATE;
        }
        h.store(&self.ring, at, Head { ctrl, eth: key.eseg() });
        self.post(wqebbs, pieces);
        self.finish(h, &ctrl, notify);
    }

    #[inline(always)]
    fn send_plain<H: Host>(&mut self, h: &mut H, p: Packet, key: EsegKey, more: bool) -> Tx {
        let Packet { head, todo, cookie, .. } = p;
        let m = match h.map(head.buf, head.start..head.start + head.len, Direction::ToDevice) {
            Ok(m) => m,
            Err(e) => {
                let head = Piece { buf: e.buf, start: head.start, len: head.len };
                return self.drop_packet(h, Packet { head, todo, more: None, cookie }, more);
            }
        };
        h.spend(Work::Map);
        h.spend(Work::TxDescriptor(1));
        self.stats.packets += 1;
        self.stats.bytes += u64::from(head.len);
        let notify = !more || !self.has_room_after(1);
        let mut ctrl = CtrlSeg::new(self.pc, opcode::SEND, self.sqn, 3);
        if notify {
            ctrl.fm_ce_se = CQ_UPDATE;
        }
        let data = self.data_seg(&m);
        h.store(&self.ring, self.offset(self.pc), Plain { head: Head { ctrl, eth: key.eseg() }, data });
        self.push(InFlight { held: Held::Mapped(m), cookie, last: true });
        self.post(1, 1);
        self.finish(h, &ctrl, notify);
        Tx::Ok
    }

    /// SEND or LSO with everything a WQE can have: inline header, VLAN, fragments.
    #[inline(never)]
    fn send_any<H: Host>(&mut self, h: &mut H, p: Packet, key: EsegKey, more: bool) -> Tx {
        let frags = p.more.as_ref().map_or(0, |m| m.frags.len());
        let listed = p.more.as_ref().is_some_and(|m| !m.list.is_empty());
        // No fragment lists (the stack linearises for us), no more fragments than
        // a stack makes, none without bytes: the device would take the WQE for
        // malformed and stop the queue.
        let empty = p.is_empty() || p.more.as_ref().is_some_and(|m| m.frags.iter().any(|f| f.len == 0));
        // Headers in the head, as far as they are needed there.
        let headless = match p.todo.gso {
            Some(g) => {
                u32::from(g.header) > p.head.len || g.header < 14 || g.size == 0 || p.len() == u32::from(g.header)
            }
            None => p.head.len < 14 && (self.min_inline > 0 || p.todo.vlan.is_some()),
        };
        if listed || frags > MAX_FRAGS || empty || headless {
            return self.drop_packet(h, p, more);
        }

        let mut eth = key.eseg();
        let mut inline = match (p.todo.gso, self.min_inline) {
            (Some(g), _) => {
                eth.mss = U16::new(g.size);
                u32::from(g.header)
            }
            (None, 0) => 0,
            (None, mode) => min_inline(h, &p.head, mode),
        };
        // A tag goes into the inlined header where there is one (en_tx.c
        // mlx5e_insert_vlan); else the device inserts it.
        let mut tag = None;
        if let Some(tci) = p.todo.vlan {
            self.stats.added_vlan_packets += 1;
            if inline >= 12 {
                tag = Some(tci);
                inline += 4;
            } else {
                eth.inline_hdr_sz = U16::new(ETH_WQE_INSERT_VLAN);
                eth.inline_hdr_start = tci.to_be_bytes();
            }
        }
        let taken = if tag.is_some() { inline - 4 } else { inline };
        let inline_ds = inline.saturating_sub(2).div_ceil(DS);
        let head_left = p.head.len - taken;
        let ds = 2 + inline_ds + u32::from(head_left > 0) + frags as u32;
        let wqebbs = ds.div_ceil(DS_PER_WQEBB);
        if wqebbs > MAX_WQEBBS || ds > 0x3f {
            return self.drop_packet(h, p, more);
        }
        let room = contiguous(self.pc, self.mask);
        if room < wqebbs {
            self.pad(h, room);
        }

        let (segments, bytes) = on_the_wire(&p);
        let at = self.offset(self.pc);
        if inline > 0 {
            let mut bytes = [0u8; 1024];
            let span = p.head.start..p.head.start + taken;
            h.bytes(&p.head.buf, span, |b| match tag {
                None => bytes[..b.len()].copy_from_slice(b),
                Some(tci) => {
                    bytes[..12].copy_from_slice(&b[..12]);
                    bytes[12..14].copy_from_slice(&[0x81, 0x00]);
                    bytes[14..16].copy_from_slice(&tci.to_be_bytes());
                    bytes[16..b.len() + 4].copy_from_slice(&b[12..]);
                }
            });
            h.spend(Work::Copy(taken));
            eth.inline_hdr_sz = U16::new(inline as u16);
            eth.inline_hdr_start = [bytes[0], bytes[1]];
            for (i, ds) in bytes[2..].chunks_exact(DS as usize).take(inline_ds as usize).enumerate() {
                let ds: [u8; DS as usize] = ds.try_into().unwrap_or([0; DS as usize]);
                h.store(&self.ring, at + HEAD + i as u32 * DS, ds);
            }
        }
        let gso = p.todo.gso.is_some();
        let pieces = match self.map_pieces(h, p, taken, at + HEAD + inline_ds * DS) {
            Ok(pieces) => pieces,
            Err(p) => return self.drop_packet(h, p, more),
        };
        h.spend(Work::TxDescriptor(pieces));
        self.stats.tso_packets += u64::from(gso);
        self.stats.packets += segments;
        self.stats.bytes += bytes;
        let notify = !more || !self.has_room_after(wqebbs);
        let op = if gso { opcode::LSO } else { opcode::SEND };
        let mut ctrl = CtrlSeg::new(self.pc, op, self.sqn, ds);
        if notify {
            ctrl.fm_ce_se = CQ_UPDATE;
        }
        h.store(&self.ring, at, Head { ctrl, eth });
        self.post(wqebbs, pieces);
        self.finish(h, &ctrl, notify);
        Tx::Ok
    }

    /// Maps the head, less its first `taken` bytes, and all fragments; writes a
    /// data segment for each at `at` onward. The number of buffers now in the
    /// FIFO, or, if one could not be mapped, the packet as it was.
    fn map_pieces<H: Host>(&mut self, h: &mut H, p: Packet, taken: u32, mut at: u32) -> Result<u32, Packet> {
        let Packet { head, todo, more, cookie } = p;
        let frags = more.map_or_else(Vec::new, |m| m.frags);
        let count = frags.len() as u32;
        let (start, len) = (head.start, head.len);
        let mut done = 0;
        if len > taken {
            match h.map(head.buf, start + taken..start + len, Direction::ToDevice) {
                Ok(m) => {
                    h.spend(Work::Map);
                    h.store(&self.ring, at, self.data_seg(&m));
                    at += DS;
                    self.push(InFlight { held: Held::Mapped(m), cookie, last: count == 0 });
                }
                Err(e) => {
                    let head = Piece { buf: e.buf, start, len };
                    let more = (count > 0).then(|| Box::new(More { frags, list: Vec::new() }));
                    return Err(Packet { head, todo, more, cookie });
                }
            }
        } else {
            self.push(InFlight { held: Held::Inlined(head.buf), cookie, last: count == 0 });
        }
        let mut rest = frags.into_iter();
        while let Some(f) = rest.next() {
            done += 1;
            match h.map(f.buf, f.start..f.start + f.len, Direction::ToDevice) {
                Ok(m) => {
                    h.spend(Work::Map);
                    h.store(&self.ring, at, self.data_seg(&m));
                    at += DS;
                    self.push(InFlight { held: Held::Mapped(m), cookie, last: done == count });
                }
                Err(e) => {
                    // Take back what was done, last first.
                    let mut frags: Vec<Piece> = Vec::new();
                    for _ in 1..done {
                        frags.extend(self.unpush(h));
                    }
                    frags.reverse();
                    frags.push(Piece { buf: e.buf, start: f.start, len: f.len });
                    frags.extend(rest);
                    let Some(h0) = self.unpush(h) else { unreachable!("the head was pushed above") };
                    let head = Piece { buf: h0.buf, start, len };
                    return Err(Packet { head, todo, more: Some(Box::new(More { frags, list: Vec::new() })), cookie });
                }
            }
        }
        Ok(1 + count)
    }

    #[cold]
    #[inline(never)]
    fn drop_packet<H: Host>(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        self.stats.dropped += 1;
        if !more || self.stopped {
            // Those before it in the batch would wait for a doorbell for ever. (The
            // queue may have stopped when the session before it closed.)
            self.flush(h);
        }
        Tx::Dropped(p)
    }

    /// Announces whatever is queued and not yet announced (en_tx.c `mlx5e_tx_flush`).
    fn flush<H: Host>(&mut self, h: &mut H) {
        if self.session.is_open() {
            self.close_session(h, true);
        } else if self.pc != self.announced {
            let ctrl = self.nop(h, CQ_UPDATE);
            self.finish(h, &ctrl, true);
        }
    }

    /// Fills the next `wqebbs` blocks with NOPs.
    fn pad<H: Host>(&mut self, h: &mut H, wqebbs: u32) {
        h.spend(Work::TxPad(wqebbs));
        for _ in 0..wqebbs {
            self.nop(h, 0);
        }
    }

    fn nop<H: Host>(&mut self, h: &mut H, fm_ce_se: u8) -> CtrlSeg {
        let mut ctrl = CtrlSeg::new(self.pc, opcode::NOP, self.sqn, 1);
        ctrl.fm_ce_se = fm_ce_se;
        h.store(&self.ring, self.offset(self.pc), ctrl);
        self.stats.nop += 1;
        self.post(1, 0);
        ctrl
    }

    #[inline(always)]
    fn data_seg(&self, m: &Mapped) -> DataSeg {
        DataSeg { byte_count: U32::new(m.len()), lkey: self.lkey, addr: U64::new(m.iova().0) }
    }

    #[inline(always)]
    fn offset(&self, pc: u16) -> u32 {
        u32::from(pc & self.mask) * WQEBB
    }

    #[inline(always)]
    fn post(&mut self, wqebbs: u32, pieces: u32) {
        self.info[usize::from(self.pc & self.mask)] = WqeInfo { wqebbs: wqebbs as u8, pieces: pieces as u8 };
        self.last_wqe = self.pc;
        self.pc = self.pc.wrapping_add(wqebbs as u16);
        self.stats.wqes += 1;
    }

    /// After each WQE: stop the queue when it runs short, ring when the batch ends.
    #[inline(always)]
    fn finish<H: Host>(&mut self, h: &mut H, last: &CtrlSeg, notify: bool) {
        if !self.has_room_after(0) && !self.stopped {
            self.stopped = true;
            self.stats.stopped += 1;
        }
        if notify {
            self.ring_doorbell(h, last);
        }
    }

    #[inline(never)]
    fn ring_doorbell<H: Host>(&mut self, h: &mut H, last: &CtrlSeg) {
        h.spend(Work::TxNotify);
        self.stats.doorbells += 1;
        self.announced = self.pc;
        h.fence(Fence::DmaWrite);
        h.store(&self.dbr, dbr::SEND, U32::new(u32::from(self.pc)));
        h.fence(Fence::Write);
        let mut first8 = [0; 8];
        first8.copy_from_slice(&last.as_bytes()[..8]);
        h.write64(Reg::at(self.page + uar::SEND), u64::from_le_bytes(first8));
    }

    #[inline(always)]
    fn has_room_after(&self, wqebbs: u32) -> bool {
        let pc = self.pc.wrapping_add(wqebbs as u16);
        self.cc.wrapping_sub(pc) & self.mask >= self.stop_room || self.cc == pc
    }

    #[inline(always)]
    fn push(&mut self, e: InFlight) {
        let mask = self.fifo.len() - 1;
        self.fifo[self.fifo_head as usize & mask] = Some(e);
        self.fifo_head = self.fifo_head.wrapping_add(1);
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<InFlight> {
        let mask = self.fifo.len() - 1;
        let e = self.fifo[self.fifo_tail as usize & mask].take();
        self.fifo_tail = self.fifo_tail.wrapping_add(1);
        e
    }

    /// Takes back the last push.
    fn unpush<H: Host>(&mut self, h: &mut H) -> Option<Piece> {
        self.fifo_head = self.fifo_head.wrapping_sub(1);
        let mask = self.fifo.len() - 1;
        match self.fifo[self.fifo_head as usize & mask].take()?.held {
            Held::Mapped(m) => {
                let r = m.range();
                Some(Piece { buf: h.unmap(m), start: r.start, len: r.end - r.start })
            }
            Held::Inlined(buf) => Some(Piece::whole(buf)),
        }
    }

    // ---- retire ----

    /// Retires all WQEs up to and including the one at `wqe_counter`; how many
    /// packets that were. A counter that names no outstanding WQE is ignored.
    #[inline(always)]
    pub(super) fn retire<H: Host, S: Sink>(&mut self, h: &mut H, wqe_counter: u16, up: &mut S) -> u32 {
        if wqe_counter.wrapping_sub(self.cc) >= self.announced.wrapping_sub(self.cc) {
            self.stats.cqe_stray += 1;
            return 0;
        }
        let mut packets = 0;
        loop {
            let at = self.cc;
            let wi = self.info[usize::from(at & self.mask)];
            self.cc = at.wrapping_add(u16::from(wi.wqebbs));
            for _ in 0..wi.pieces {
                let Some(InFlight { held, cookie, last }) = self.pop() else { break };
                let buf = match held {
                    Held::Mapped(m) => h.unmap(m),
                    Held::Inlined(b) => b,
                };
                packets += u32::from(last);
                up.sent(buf, cookie, last);
            }
            // `wqe_counter` may lie inside a WQE only if the device is wrong;
            // passing it ends the walk all the same.
            if wqe_counter.wrapping_sub(at) < u16::from(wi.wqebbs.max(1)) || self.cc == self.announced {
                break;
            }
        }
        packets
    }

    #[inline(always)]
    pub(super) fn wake_if_room<H: Host>(&mut self, h: &mut H) {
        if self.stopped && !self.recovering && self.has_room_after(0) {
            self.stopped = false;
            self.stats.wake += 1;
            h.spend(Work::Wake);
        }
    }

    /// Everything announced has been retired, and nothing waits unannounced.
    pub(super) fn is_drained(&self) -> bool {
        self.is_flushed() && !self.session.is_open() && self.pc == self.announced
    }

    pub(super) fn last_announced(&self) -> u16 {
        self.last_wqe
    }

    /// All that was announced has been retired.
    pub(super) fn is_flushed(&self) -> bool {
        self.cc == self.announced
    }

    /// The same, and no buffer is left here.
    pub(super) fn is_empty(&self) -> bool {
        self.is_flushed() && self.fifo_tail == self.fifo_head
    }

    /// For recovery: what was queued and never announced will not be. Its buffers
    /// come back, in order, as those of sent packets do.
    pub(super) fn abandon<H: Host, S: Sink>(&mut self, h: &mut H, up: &mut S) {
        while self.fifo_tail != self.fifo_head {
            let Some(InFlight { held, cookie, last }) = self.pop() else { continue };
            let buf = match held {
                Held::Mapped(m) => h.unmap(m),
                Held::Inlined(b) => b,
            };
            self.stats.dropped += u64::from(last);
            up.sent(buf, cookie, last);
        }
        self.session = Session::CLOSED;
    }

    /// For recovery: all counters start again at zero. Nothing is queued.
    pub(super) fn restart(&mut self) {
        debug_assert!(self.is_empty());
        self.pc = 0;
        self.cc = 0;
        self.announced = 0;
    }

    pub(super) fn release<H: Host>(mut self, h: &mut H) {
        while self.fifo_tail != self.fifo_head {
            match self.pop().map(|e| e.held) {
                Some(Held::Mapped(m)) => {
                    let buf = h.unmap(m);
                    h.release(buf);
                }
                Some(Held::Inlined(buf)) => h.release(buf),
                None => {}
            }
        }
        h.release_coherent(self.ring);
        h.release_coherent(self.dbr);
    }
}

/// Bytes to inline where the device wants some: through L2 (at least 18), L3 or
/// L4 of what is in the head (en_tx.c `mlx5e_calc_min_inline`).
fn min_inline<H: Host>(h: &mut H, head: &Piece, mode: u8) -> u32 {
    let want = h.bytes(&head.buf, head.start..head.start + head.len, |b| {
        let mut l3 = 14;
        while b.len() >= l3 + 4 && matches!((b[l3 - 2], b[l3 - 1]), (0x81, 0x00) | (0x88, 0xa8)) {
            l3 += 4;
        }
        let l2 = l3.max(18);
        if mode == 1 || b.len() < l3 + 20 {
            return l2;
        }
        let (l4, proto) = match (b[l3 - 2], b[l3 - 1]) {
            (0x08, 0x00) => (l3 + usize::from(b[l3] & 0xf) * 4, b[l3 + 9]),
            (0x86, 0xdd) => (l3 + 40, b[l3 + 6]),
            _ => return l2,
        };
        match proto {
            _ if mode == 2 => l4,
            6 if b.len() > l4 + 12 => l4 + usize::from(b[l4 + 12] >> 4) * 4,
            17 => l4 + 8,
            _ => l4,
        }
    });
    (want as u32).min(head.len)
}

/// Packets and bytes that the wire will see of `p`.
fn on_the_wire(p: &Packet) -> (u64, u64) {
    let len = u64::from(p.len());
    let (segments, header) = match p.todo.gso {
        Some(g) => {
            let header = u64::from(g.header);
            ((len - header).div_ceil(u64::from(g.size.max(1))).max(1), header)
        }
        None => (1, 0),
    };
    let tag = if p.todo.vlan.is_some() { 4 } else { 0 };
    (segments, len + (segments - 1) * header + segments * tag)
}
