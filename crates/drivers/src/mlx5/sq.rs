//! The send queue: WQEs in, doorbells out, packets retired.

mod long;
mod retire;

use super::session::{EsegKey, Session, Sizing, contiguous};
use super::settings::{Config, Stats};
use alloc::boxed::Box;
use core::hint::cold_path;
use core::mem;
use doorbell_hal::{Buf, Coherent, CpuWork, Direction, Fence, Host, Mapped, OutOfMemory, Reg};
use doorbell_layout::mlx5::{
    CQ_UPDATE, CtrlSeg, DS, DS_PER_WQEBB, DataSeg, EthSeg, MAX_WQEBBS, WQEBB, dbr, opcode, uar,
};
use doorbell_packet::ethernet::MIN_FRAME;
use doorbell_packet::{Fragment, OffloadRequest, Packet};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{Immutable, IntoBytes};

use crate::{Bql, Tx};

/// What stands in the ring at a WQE's first block.
#[derive(Clone, Copy, Debug, Default)]
struct WqeInfo {
    /// Basic blocks less one: a walk over WQEs cannot stand still.
    more_wqebbs: u8,
    /// Entries of the FIFO that it owns.
    pieces: u8,
    /// [`Bql::queued`] with its packets: when it is done, so many bytes are.
    queued: u32,
}

impl WqeInfo {
    #[inline(always)]
    fn new(wqebbs: u32, pieces: u32, queued: u32) -> WqeInfo {
        WqeInfo { more_wqebbs: (wqebbs - 1) as u8, pieces: pieces as u8, queued }
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
    /// The stack's limit of this queue. A session's packets count as they are; one with a WQE of
    /// its own counts as no shorter than the wire makes it (en_tx.c).
    pub(super) bql: Bql,
    /// [`Bql::queued`] of what was retired.
    done: u32,
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
    pub(super) fn allocate<H: Host>(
        h: &mut H,
        c: &Config,
        min_inline: u8,
        mpw_wqebbs: u32,
    ) -> Result<Sq, OutOfMemory> {
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
            bql: Bql::new(c.bql),
            done: 0,
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
            let key = EsegKey::of(h, q);
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
    fn add_to_session<H: Host>(
        &mut self,
        h: &mut H,
        head: Fragment,
        cookie: u32,
        more: bool,
    ) -> Result<(), Fragment> {
        let m = match h.map(head.buf, head.start..head.start + head.len, Direction::ToDevice) {
            Ok(m) => m,
            Err(e) => return Err(Fragment { buf: e.buf, start: head.start, len: head.len }),
        };
        h.charge(CpuWork::Map);
        h.charge(CpuWork::TxShared);
        self.stats.bytes += u64::from(head.len);
        self.bql.queue(head.len);
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
    fn send_own<H: Host>(
        &mut self,
        h: &mut H,
        head: Fragment,
        cookie: u32,
        key: EsegKey,
    ) -> Result<(), Fragment> {
        let m = match h.map(head.buf, head.start..head.start + head.len, Direction::ToDevice) {
            Ok(m) => m,
            Err(e) => return Err(Fragment { buf: e.buf, start: head.start, len: head.len }),
        };
        h.charge(CpuWork::Map);
        h.charge(CpuWork::TxDescriptor(1));
        self.stats.csum_partial += u64::from(key.has_checksum());
        self.stats.bytes += u64::from(head.len);
        self.bql.queue(head.len.max(MIN_FRAME as u32));
        self.quick_sends += 1;
        // Looked up once: the compiler must take a store to the ring for a store
        // to anything.
        let (pc, index) = (self.pc, self.pc & self.mask);
        let ctrl = CtrlSeg::new(pc, opcode::SEND, self.sqn, 3);
        let data = self.data_seg(&m);
        h.store(
            &self.ring,
            u32::from(index) * WQEBB,
            Plain { head: Head { ctrl, eth: key.eseg() }, data },
        );
        self.push(Slot::Mapped(m, cookie, true));
        self.info[usize::from(index)] = WqeInfo::new(1, 1, self.bql.queued());
        self.pc = pc.wrapping_add(1);
        Ok(())
    }

    /// A packet on the short way could not be mapped.
    #[cold]
    #[inline(never)]
    fn unmapped<H: Host>(&mut self, h: &mut H, todo: &OffloadRequest, more: bool) {
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
        let key = EsegKey::of(h, &p);
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
        h.charge(CpuWork::TxSession);
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
                let head = Fragment { buf: e.buf, start: head.start, len: head.len };
                return self.drop_packet(h, Packet { head, todo, more: None, cookie }, more);
            }
        };
        h.charge(CpuWork::Map);
        h.charge(CpuWork::TxDescriptor(1));
        self.stats.packets += 1;
        self.stats.bytes += u64::from(head.len);
        self.bql.queue(head.len.max(MIN_FRAME as u32));
        let notify = !more || !self.has_room_after(1);
        let mut ctrl = CtrlSeg::new(self.pc, opcode::SEND, self.sqn, 3);
        if notify {
            ctrl.fm_ce_se = CQ_UPDATE;
        }
        let data = self.data_seg(&m);
        h.store(
            &self.ring,
            self.offset(self.pc),
            Plain { head: Head { ctrl, eth: key.eseg() }, data },
        );
        self.push(Slot::Mapped(m, cookie, true));
        self.post(1, 1);
        self.finish(h, &ctrl, notify);
        Tx::Ok
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
        h.charge(CpuWork::TxPad(wqebbs));
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
        self.info[usize::from(self.pc & self.mask)] =
            WqeInfo::new(wqebbs, pieces, self.bql.queued());
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
        h.charge(CpuWork::TxNotify);
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
    fn unpush<H: Host>(&mut self, h: &mut H) -> Option<Fragment> {
        self.fifo_head = self.fifo_head.wrapping_sub(1);
        match mem::take(&mut self.fifo[(self.fifo_head & self.fifo_mask) as usize]) {
            Slot::Mapped(m, ..) => {
                let r = m.range();
                Some(Fragment { buf: h.unmap(m), start: r.start, len: r.end - r.start })
            }
            Slot::Inlined(buf, ..) => Some(Fragment::whole(buf)),
            Slot::Empty => None,
        }
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
        if session.key.has_checksum() {
            s.csum_partial += joined;
        }
    }
}
