//! The send queue: WQEs in, doorbells out, packets retired.

use super::session::{EsegKey, Session, Sizing, contiguous};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::cold_path;
use core::mem;
use doorbell_layout::mlx5::{
    CQ_UPDATE, CmdStatus, CtrlSeg, DS, DS_PER_WQEBB, DataSeg, ETH_WQE_INSERT_VLAN, EthSeg, MAX_WQEBBS, WQEBB, dbr,
    opcode, uar,
};
use doorbell_packet::{MAX_FRAGS, More, Packet, Piece, Todo};
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
    /// Basic blocks less one: a walk over WQEs cannot stand still.
    more_wqebbs: u8,
    /// Entries of the FIFO that it owns.
    pieces: u8,
}

impl WqeInfo {
    #[inline(always)]
    fn new(wqebbs: u32, pieces: u32) -> WqeInfo {
        WqeInfo { more_wqebbs: (wqebbs - 1) as u8, pieces: pieces as u8 }
    }
}

/// A place of the FIFO: a buffer in flight, with its packet's cookie and whether
/// it is the packet's final piece.
#[derive(Debug, Default)]
enum Slot {
    #[default]
    Empty,
    Mapped(Mapped, u32, bool),
    /// All of it was inlined: nothing to unmap.
    Inlined(Buf, u32, bool),
}

/// What a packet that needs nothing special, with more to follow, may do without
/// a look at anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quick {
    /// Nothing: the queue is stopped or recovering, or each packet needs a look.
    No,
    /// Join an open session.
    Join,
    /// Have a WQE of its own.
    Own,
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
    /// All but what [`Sq::stats`] adds.
    pub(super) stats: Stats,
    /// Packets that took the short way to a WQE of their own. Each counts as a
    /// packet, a WQE and a call with more to follow.
    quick_sends: u64,
    recovering: bool,
    stopped: bool,
    /// Follows from the two above and from how the channel was opened.
    quick: Quick,
    mask: u16,
    /// Producer counter in basic blocks, free running.
    pub(super) pc: u16,
    /// Consumer counter.
    pub(super) cc: u16,
    /// Producer counter at the last doorbell.
    announced: u16,
    /// Counter of the WQE that the last doorbell announced.
    last_wqe: u16,
    /// Blocks that may be in use while there is room for any WQE.
    room: u16,
    session: Session,
    sizing: Sizing,
    /// Longest session in blocks; 0 when the switch is off.
    mpw_wqebbs: u32,
    min_inline: u8,
    info: Box<[WqeInfo]>,
    fifo: Box<[Slot]>,
    fifo_mask: u32,
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
        let mut sq = Sq {
            ring,
            dbr,
            sqn: 0,
            lkey: U32::ZERO,
            page: 0,
            stats: Stats::default(),
            quick_sends: 0,
            recovering: false,
            stopped: false,
            quick: Quick::No,
            mask: (blocks - 1) as u16,
            pc: 0,
            cc: 0,
            announced: 0,
            last_wqe: 0,
            room: (blocks - stop_room) as u16,
            session: Session::CLOSED,
            sizing: c.sizing,
            mpw_wqebbs,
            min_inline,
            info: (0..blocks).map(|_| WqeInfo::default()).collect(),
            fifo: (0..blocks * DS_PER_WQEBB).map(|_| Slot::Empty).collect(),
            fifo_mask: blocks * DS_PER_WQEBB - 1,
            fifo_head: 0,
            fifo_tail: 0,
        };
        sq.choose_quick();
        Ok(sq)
    }

    // ---- state ----

    /// Everything counted: what the short way through `transmit` leaves out is
    /// found from what it cannot leave out.
    pub(super) fn stats(&self) -> Stats {
        let mut s = self.stats;
        s.packets += self.quick_sends;
        s.wqes += self.quick_sends;
        s.xmit_more += self.quick_sends;
        count_joined(&self.session, self.offset(self.pc), &mut s);
        s
    }

    /// Closes the books on the session.
    #[inline(always)]
    fn forget_session(&mut self) {
        count_joined(&self.session, self.offset(self.pc), &mut self.stats);
        self.session = Session::CLOSED;
    }

    #[inline(always)]
    pub(super) fn recovering(&self) -> bool {
        self.recovering
    }

    pub(super) fn set_recovering(&mut self, recovering: bool) {
        self.recovering = recovering;
        self.choose_quick();
    }

    fn set_stopped(&mut self, stopped: bool) {
        self.stopped = stopped;
        self.choose_quick();
    }

    #[inline(always)]
    pub(super) fn halted(&self) -> bool {
        self.stopped || self.recovering
    }

    fn choose_quick(&mut self) {
        self.quick = match (self.halted(), self.mpw_wqebbs, self.min_inline) {
            (false, 1.., _) => Quick::Join,
            (false, 0, 0) => Quick::Own,
            _ => Quick::No,
        };
    }

    // ---- transmit, in the order a packet meets it ----

    /// The short way for what most packets are: linear, nothing to cut or to tag;
    /// they share a session, or have a WQE of their own, with more to follow and
    /// room for it. All else goes the long way, which is a function of its own so
    /// that its stack frame is not paid for here. It gets the packet by reference:
    /// so the packet stays where it is in memory, and is not spread over all
    /// registers and the stack.
    #[inline(always)]
    pub(super) fn transmit<H: Host>(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        let mut p = Some(p);
        if let Some(q) = &p
            && is_simple(q)
        {
            let key = EsegKey::of(&q.todo);
            if self.quick == Quick::Join {
                let mut more = more;
                // A closed session has nobody's key.
                if self.session.key != key {
                    more = self.change_session(h, key, more);
                }
                let Some(Packet { head, todo, cookie, .. }) = p else { unreachable!() };
                return match self.add_to_session(h, head, cookie, more) {
                    Ok(()) => Tx::Ok,
                    Err(head) => {
                        self.unmapped(h, &todo, more);
                        Tx::Dropped(Packet { head, todo, more: None, cookie })
                    }
                };
            }
            if self.quick == Quick::Own && more && self.has_room_after(1) {
                let Some(Packet { head, todo, cookie, .. }) = p else { unreachable!() };
                return match self.send_own(h, head, cookie, key) {
                    Ok(()) => Tx::Ok,
                    Err(head) => {
                        self.unmapped(h, &todo, more);
                        Tx::Dropped(Packet { head, todo, more: None, cookie })
                    }
                };
            }
        }
        // Not returned as it is, so that `Ok` on the short way is no store to memory.
        match self.transmit_any(h, &mut p, more) {
            Tx::Ok => Tx::Ok,
            Tx::Busy(p) => Tx::Busy(p),
            Tx::Dropped(p) => Tx::Dropped(p),
        }
    }

    /// The session's length says how many came this way: only bytes are counted.
    /// The piece comes back when it cannot be mapped.
    #[inline(always)]
    fn add_to_session<H: Host>(&mut self, h: &mut H, head: Piece, cookie: u32, more: bool) -> Result<(), Piece> {
        let m = match h.map(head.buf, head.start..head.start + head.len, Direction::ToDevice) {
            Ok(m) => m,
            Err(e) => return Err(Piece { buf: e.buf, start: head.start, len: head.len }),
        };
        h.spend(Work::Map);
        h.spend(Work::TxShared);
        self.stats.bytes += u64::from(head.len);
        h.store(&self.ring, self.session.next, self.data_seg(&m));
        self.session.next += DS;
        self.push(Slot::Mapped(m, cookie, true));
        if !more || self.session.is_full() {
            self.end_session(h, more);
        }
        Ok(())
    }

    /// Opens a session for packets with `key`, after closing the one that may be
    /// open; whether more is to follow.
    #[inline(never)]
    fn change_session<H: Host>(&mut self, h: &mut H, key: EsegKey, mut more: bool) -> bool {
        if self.session.is_open() {
            self.close_session(h, false);
            // This may have stopped the queue: then this packet is the last
            // for now, and nobody else would ring for it.
            if self.stopped && more {
                self.stats.xmit_more += 1;
                more = false;
            }
        }
        self.open_session(h, key);
        more
    }

    /// After the packet that ends the batch or fills the session.
    #[inline(never)]
    fn end_session<H: Host>(&mut self, h: &mut H, more: bool) {
        if more {
            // The queue may have to stop here, and then nobody else would ring.
            let stop = !self.has_room_after(self.session_wqebbs());
            self.close_session(h, stop);
        } else {
            self.close_session(h, true);
            // All its packets were counted as having more behind them.
            self.stats.xmit_more -= 1;
        }
    }

    /// A WQE for one packet, after which there is room for any other.
    #[inline(always)]
    fn send_own<H: Host>(&mut self, h: &mut H, head: Piece, cookie: u32, key: EsegKey) -> Result<(), Piece> {
        let m = match h.map(head.buf, head.start..head.start + head.len, Direction::ToDevice) {
            Ok(m) => m,
            Err(e) => return Err(Piece { buf: e.buf, start: head.start, len: head.len }),
        };
        h.spend(Work::Map);
        h.spend(Work::TxDescriptor(1));
        if key != EsegKey::NONE {
            self.stats.csum_partial += 1;
        }
        self.stats.bytes += u64::from(head.len);
        self.quick_sends += 1;
        // Looked up once: the compiler must take a store to the ring for a store
        // to anything.
        let (pc, index) = (self.pc, self.pc & self.mask);
        let ctrl = CtrlSeg::new(pc, opcode::SEND, self.sqn, 3);
        let data = self.data_seg(&m);
        h.store(&self.ring, u32::from(index) * WQEBB, Plain { head: Head { ctrl, eth: key.eseg() }, data });
        self.push(Slot::Mapped(m, cookie, true));
        self.info[usize::from(index)] = WqeInfo::new(1, 1);
        self.pc = pc.wrapping_add(1);
        Ok(())
    }

    /// A packet on the short way could not be mapped.
    #[cold]
    #[inline(never)]
    fn unmapped<H: Host>(&mut self, h: &mut H, todo: &Todo, more: bool) {
        self.stats.xmit_more += u64::from(more);
        self.stats.csum_partial += u64::from(todo.checksum.is_some());
        self.count_drop(h, more);
    }

    /// The long way: any packet, in any state.
    #[inline(never)]
    fn transmit_any<H: Host>(&mut self, h: &mut H, p: &mut Option<Packet>, more: bool) -> Tx {
        let Some(p) = p.take() else { unreachable!("the caller put it there") };
        if self.halted() {
            return Tx::Busy(p);
        }
        self.stats.xmit_more += u64::from(more);
        self.stats.csum_partial += u64::from(p.todo.checksum.is_some());
        let key = EsegKey::of(&p.todo);
        if self.session.is_open() {
            self.close_session(h, false);
        }
        if is_simple(&p) && self.min_inline == 0 {
            self.send_plain(h, p, key, more)
        } else {
            self.send_any(h, p, key, more)
        }
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
        self.forget_session();
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
        self.push(Slot::Mapped(m, cookie, true));
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
                    self.push(Slot::Mapped(m, cookie, count == 0));
                }
                Err(e) => {
                    let head = Piece { buf: e.buf, start, len };
                    let more = (count > 0).then(|| Box::new(More { frags, list: Vec::new() }));
                    return Err(Packet { head, todo, more, cookie });
                }
            }
        } else {
            self.push(Slot::Inlined(head.buf, cookie, count == 0));
        }
        let mut rest = frags.into_iter();
        while let Some(f) = rest.next() {
            done += 1;
            match h.map(f.buf, f.start..f.start + f.len, Direction::ToDevice) {
                Ok(m) => {
                    h.spend(Work::Map);
                    h.store(&self.ring, at, self.data_seg(&m));
                    at += DS;
                    self.push(Slot::Mapped(m, cookie, done == count));
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
        self.count_drop(h, more);
        Tx::Dropped(p)
    }

    fn count_drop<H: Host>(&mut self, h: &mut H, more: bool) {
        self.stats.dropped += 1;
        if !more || self.stopped {
            // Those before it in the batch would wait for a doorbell for ever. (The
            // queue may have stopped when the session before it closed.)
            self.flush(h);
        }
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
        self.info[usize::from(self.pc & self.mask)] = WqeInfo::new(wqebbs, pieces);
        self.pc = self.pc.wrapping_add(wqebbs as u16);
        self.stats.wqes += 1;
    }

    /// After each WQE: stop the queue when it runs short, ring when the batch ends.
    #[inline(always)]
    fn finish<H: Host>(&mut self, h: &mut H, last: &CtrlSeg, notify: bool) {
        if !self.has_room_after(0) && !self.stopped {
            self.set_stopped(true);
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
        self.last_wqe = last.pc();
        h.fence(Fence::DmaWrite);
        h.store(&self.dbr, dbr::SEND, U32::new(u32::from(self.pc)));
        h.fence(Fence::Write);
        let mut first8 = [0; 8];
        first8.copy_from_slice(&last.as_bytes()[..8]);
        h.write64(Reg::at(self.page + uar::SEND), u64::from_le_bytes(first8));
    }

    #[inline(always)]
    fn has_room_after(&self, wqebbs: u32) -> bool {
        self.pc.wrapping_add(wqebbs as u16).wrapping_sub(self.cc) <= self.room
    }

    #[inline(always)]
    fn push(&mut self, slot: Slot) {
        self.fifo[(self.fifo_head & self.fifo_mask) as usize] = slot;
        self.fifo_head = self.fifo_head.wrapping_add(1);
    }

    /// Takes back the last push.
    fn unpush<H: Host>(&mut self, h: &mut H) -> Option<Piece> {
        self.fifo_head = self.fifo_head.wrapping_sub(1);
        match mem::take(&mut self.fifo[(self.fifo_head & self.fifo_mask) as usize]) {
            Slot::Mapped(m, ..) => {
                let r = m.range();
                Some(Piece { buf: h.unmap(m), start: r.start, len: r.end - r.start })
            }
            Slot::Inlined(buf, ..) => Some(Piece::whole(buf)),
            Slot::Empty => None,
        }
    }

    // ---- retire ----

    /// Retires all WQEs up to and including the one at `wqe_counter`; how many
    /// packets that were. A counter that names no outstanding WQE is ignored.
    #[inline(always)]
    pub(super) fn retire<H: Host, S: Sink>(&mut self, h: &mut H, wqe_counter: u16, up: &mut S) -> u32 {
        let from = self.cc;
        let target = wqe_counter.wrapping_sub(from);
        if target >= self.announced.wrapping_sub(from) {
            self.stats.cqe_stray += 1;
            return 0;
        }
        let (mut passed, mut pieces) = (0u16, 0u32);
        // `target` may lie inside a WQE only if the device is wrong; passing it
        // ends the walk all the same.
        while passed <= target {
            let wi = self.info[usize::from(from.wrapping_add(passed) & self.mask)];
            passed += 1 + u16::from(wi.more_wqebbs);
            pieces += u32::from(wi.pieces);
        }
        self.cc = from.wrapping_add(passed);
        self.give_back(h, pieces, |_, buf, cookie, last| up.sent(buf, cookie, last))
    }

    /// Unmaps the next `pieces` buffers and hands them to `f`; how many packets
    /// they were. All of a CQE's WQEs at once, and slice by slice where the FIFO
    /// wraps: so the loop tests nothing but the slots.
    #[inline(always)]
    fn give_back<H: Host>(&mut self, h: &mut H, mut pieces: u32, mut f: impl FnMut(&mut H, Buf, u32, bool)) -> u32 {
        let mut packets = 0;
        while pieces > 0 {
            let start = (self.fifo_tail & self.fifo_mask) as usize;
            let rest = &mut self.fifo[start..];
            let n = rest.len().min(pieces as usize);
            for slot in &mut rest[..n] {
                match mem::take(slot) {
                    Slot::Mapped(m, cookie, last) => {
                        packets += u32::from(last);
                        let buf = h.unmap(m);
                        f(h, buf, cookie, last);
                    }
                    Slot::Inlined(buf, cookie, last) => {
                        packets += u32::from(last);
                        f(h, buf, cookie, last);
                    }
                    Slot::Empty => {}
                }
            }
            self.fifo_tail = self.fifo_tail.wrapping_add(n as u32);
            pieces -= n as u32;
        }
        packets
    }

    #[inline(always)]
    pub(super) fn wake_if_room<H: Host>(&mut self, h: &mut H) {
        if self.stopped && !self.recovering && self.has_room_after(0) {
            self.set_stopped(false);
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
        let left = self.fifo_head.wrapping_sub(self.fifo_tail);
        let packets = self.give_back(h, left, |_, buf, cookie, last| up.sent(buf, cookie, last));
        self.stats.dropped += u64::from(packets);
        self.forget_session();
    }

    /// For recovery: all counters start again at zero. Nothing is queued.
    pub(super) fn restart(&mut self) {
        debug_assert!(self.is_empty());
        self.pc = 0;
        self.cc = 0;
        self.announced = 0;
    }

    pub(super) fn release<H: Host>(mut self, h: &mut H) {
        let left = self.fifo_head.wrapping_sub(self.fifo_tail);
        self.give_back(h, left, |h, buf, _, _| h.release(buf));
        h.release_coherent(self.ring);
        h.release_coherent(self.dbr);
    }
}

/// A packet that is one piece and needs neither a cut nor a tag.
#[inline(always)]
fn is_simple(p: &Packet) -> bool {
    // `cold_path` keeps each test a branch; the compiler would rather combine them.
    if p.head.len == 0 {
        cold_path();
        return false;
    }
    if !p.is_linear() || p.todo.gso.is_some() || p.todo.vlan.is_some() {
        cold_path();
        return false;
    }
    true
}

/// Counts the packets that joined `session`, whose WQE begins at ring offset `at`,
/// on the short way.
#[inline(always)]
fn count_joined(session: &Session, at: u32, s: &mut Stats) {
    if session.is_open() {
        let joined = u64::from(session.ds(at) - Session::HEAD_DS);
        s.mpwqe_pkts += joined;
        s.packets += joined;
        s.xmit_more += joined;
        if session.key != EsegKey::NONE {
            s.csum_partial += joined;
        }
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
