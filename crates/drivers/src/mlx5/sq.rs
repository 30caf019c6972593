//! The send queue: builds WQEs, rings doorbells and retires packets.

mod long;
mod pages;
mod retire;
mod software;

use self::pages::PageSessions;
use super::cq::ring_and_record;
use super::session::{EsegKey, Session, Sizing, contiguous, is_plain};
use super::settings::{Config, Stats};
use crate::common::{DoneList, Plan, SegmentQueue, map, plan, unmap, vacant};
use crate::{Bql, Tx};
use alloc::boxed::Box;
use core::{hint::cold_path, mem};
use doorbell_hal::{Buf, Coherent, CpuWork, Fence, Host, Mapped, OutOfMemory, Reg};
use doorbell_layout::mlx5::{
    CQ_UPDATE, Caps, CtrlSeg, DS, DS_PER_WQEBB, DataSeg, EthSeg, MAX_WQEBBS, WQEBB, can, dbr,
    opcode, uar,
};
use doorbell_packet::tunnel::Headers;
use doorbell_packet::{Fragment, MAX_HEADER, OffloadRequest, Packet, ethernet::MIN_FRAME};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{Immutable, IntoBytes};

/// The driver's part of a WQE, at the index of its first block.
#[derive(Clone, Copy, Debug, Default)]
struct WqeInfo {
    /// Basic blocks less one, so that a walk over WQEs always advances.
    more_wqebbs: u8,
    /// DMA entries that it owns.
    pieces: u8,
    /// [`Bql::queued`] including its packets: the bytes that are done when it is.
    queued: u32,
}

impl WqeInfo {
    #[inline(always)]
    fn new(wqebbs: u32, pieces: u32, queued: u32) -> WqeInfo {
        WqeInfo { more_wqebbs: (wqebbs - 1) as u8, pieces: pieces as u8, queued }
    }
}

/// A buffer in flight, with its packet's cookie, and whether it is the packet's last.
#[derive(Debug, Default)]
enum DmaEntry {
    #[default]
    Empty,
    Mapped(Mapped, u32, bool),
    /// All of it was inlined: nothing to unmap.
    Inlined(Buf, u32, bool),
    /// A segment that others of its large send follow.
    Segment(Mapped),
    /// A page of a receive queue, which stays mapped.
    Page(Mapped),
}

/// The fast path for simple packets with more to follow, in the present state of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FastPath {
    /// None: the queue is stopped or recovering, or needs inline headers.
    None,
    Session,
    /// Take a WQE of its own.
    Plain,
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
    /// All counts but those that [`Sq::stats`] adds.
    pub(super) stats: Stats,
    /// Packets that took the fast path to a WQE of their own. Each counts as a packet, a WQE and a
    /// call with more to follow.
    fast_sends: u64,
    recovering: bool,
    stopped: bool,
    /// Follows from the two above and from the configuration.
    fast_path: FastPath,
    mask: u16,
    /// Producer counter in basic blocks, free running.
    pub(super) pc: u16,
    /// Consumer counter.
    pub(super) cc: u16,
    /// Producer counter at the last doorbell.
    announced: u16,
    /// Counter of the last WQE before the last doorbell.
    last_wqe: u16,
    /// Most blocks in use that leave room for any WQE.
    room: u16,
    session: Session,
    pages: PageSessions,
    /// The stack's limit of this queue. A packet with a WQE of its own counts as no shorter than
    /// the shortest frame; a session's packets count as they are (en_tx.c).
    pub(super) bql: Bql,
    /// [`Bql::queued`] of the packets retired.
    done: u32,
    sizing: Sizing,
    /// Longest session in blocks; 0 when the switch is off.
    mpw_wqebbs: u32,
    caps: Caps,
    /// Longest WQE in blocks (en/params.c `mlx5e_get_max_sq_wqebbs`).
    max_wqebbs: u32,
    min_inline: u8,
    segments: SegmentQueue,
    /// Packets of which the rest could not be segmented, until a poll passes them up.
    lost: DoneList,
    info: Box<[WqeInfo]>,
    fifo: Box<[DmaEntry]>,
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

/// Tells the device of WQEs up to `pc`, of which `last` is the last: in the doorbell record, then
/// at the doorbell page.
#[inline(always)]
pub(super) fn ring_doorbell<H: Host>(
    h: &mut H,
    (record, page): (&Coherent, u32),
    pc: u16,
    last: &CtrlSeg,
) {
    h.fence(Fence::DmaWrite);
    h.store(record, dbr::SEND, U32::new(u32::from(pc)));
    h.fence(Fence::Write);
    let mut first8 = [0; 8];
    first8.copy_from_slice(&last.as_bytes()[..8]);
    h.write64(Reg::at(page + uar::SEND), u64::from_le_bytes(first8));
}

impl Sq {
    pub(super) fn allocate<H: Host>(
        h: &mut H,
        c: &Config,
        caps: &Caps,
        mpw_wqebbs: u32,
    ) -> Result<Sq, OutOfMemory> {
        let blocks = 1u32 << c.log_sq;
        let (ring, dbr) = ring_and_record(h, blocks * WQEBB)?;
        // A WQE may need nearly as many blocks of padding (params.c mlx5e_calc_sq_stop_room).
        let max_wqebbs = max_wqebbs(caps);
        let mut stop_room = 2 * max_wqebbs - 1;
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
            fast_sends: 0,
            recovering: false,
            stopped: false,
            fast_path: FastPath::None,
            mask: (blocks - 1) as u16,
            pc: 0,
            cc: 0,
            announced: 0,
            last_wqe: 0,
            room: (blocks - stop_room) as u16,
            session: Session::CLOSED,
            pages: PageSessions::new(),
            bql: Bql::new(c.bql),
            done: 0,
            sizing: c.sizing,
            mpw_wqebbs,
            caps: *caps,
            max_wqebbs,
            min_inline: caps.min_inline,
            segments: SegmentQueue::default(),
            lost: DoneList::default(),
            info: (0..blocks).map(|_| WqeInfo::default()).collect(),
            fifo: (0..blocks * DS_PER_WQEBB).map(|_| DmaEntry::Empty).collect(),
            fifo_mask: blocks * DS_PER_WQEBB - 1,
            fifo_head: 0,
            fifo_tail: 0,
        };
        sq.update_fast_path();
        Ok(sq)
    }

    // ---- state ----

    /// Returns all counts: derives those that the fast path of `transmit` leaves out.
    pub(super) fn stats(&self) -> Stats {
        let mut s = self.stats;
        s.packets += self.fast_sends;
        s.wqes += self.fast_sends;
        s.xmit_more += self.fast_sends;
        count_joined(&self.session, self.offset(self.pc), &mut s);
        s
    }

    /// Counts the packets of the session, and closes it.
    #[inline(always)]
    fn retire_session(&mut self) {
        count_joined(&self.session, self.offset(self.pc), &mut self.stats);
        self.session = Session::CLOSED;
    }

    #[inline(always)]
    pub(super) fn recovering(&self) -> bool {
        self.recovering
    }

    pub(super) fn set_recovering(&mut self, recovering: bool) {
        self.recovering = recovering;
        self.update_fast_path();
    }

    fn set_stopped(&mut self, stopped: bool) {
        self.stopped = stopped;
        self.update_fast_path();
    }

    #[inline(always)]
    pub(super) fn halted(&self) -> bool {
        self.stopped || self.recovering
    }

    fn update_fast_path(&mut self) {
        self.fast_path = match (self.halted(), self.mpw_wqebbs, self.min_inline) {
            (false, 1.., _) => FastPath::Session,
            (false, 0, 0) => FastPath::Plain,
            _ => FastPath::None,
        };
    }

    // ---- transmit ----

    /// Takes the fast path for most packets: linear, not to be segmented or tagged, and joining a
    /// session, or with a WQE of their own, more to follow and room for it. All others are in a
    /// function of its own, so that its stack frame is not paid for here.
    #[inline(always)]
    pub(super) fn transmit<H: Host>(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        if !is_simple(&p) {
            return self.transmit_any(h, p, more);
        }
        let mut key = EsegKey::NONE;
        if has_key(&p) {
            key = quick_key(h, &p);
            if key == EsegKey::OTHER {
                return self.transmit_any(h, p, more);
            }
        }
        let Some(plain) = self.is_fast(more) else { return self.transmit_any(h, p, more) };
        self.transmit_fast(h, p, plain, key, more)
    }

    /// Returns whether the fast path is that of a WQE for each packet; `None` if there is no fast
    /// path now.
    #[inline(always)]
    fn is_fast(&self, more: bool) -> Option<bool> {
        let plain = self.fast_path != FastPath::Session;
        if plain && !(self.fast_path == FastPath::Plain && more && self.has_room_after(1)) {
            cold_path();
            return None;
        }
        Some(plain)
    }

    #[inline(always)]
    fn transmit_fast<H: Host>(
        &mut self,
        h: &mut H,
        p: Packet,
        plain: bool,
        key: EsegKey,
        mut more: bool,
    ) -> Tx {
        let Packet { head, todo, cookie, .. } = p;
        let sent = if plain {
            self.send_alone(h, head, cookie, key)
        } else {
            // A closed session has a key that no packet has.
            if self.session.key != key {
                more = self.change_session(h, key, more);
            }
            self.add_to_session(h, head, cookie, more)
        };
        match sent {
            Ok(()) => Tx::Ok,
            Err(head) => {
                self.unmapped(h, &todo, more);
                Tx::Dropped(Packet { head, todo, more: None, cookie })
            }
        }
    }

    /// Returns the key of `p`, or `None` where its checksum field is not in the head. Completes a
    /// checksum that the device cannot.
    fn key_of<H: Host>(&mut self, h: &mut H, p: &mut Packet) -> Option<EsegKey> {
        if !has_key(p) {
            return Some(EsegKey::NONE);
        }
        let key = quick_key(h, p);
        if key != EsegKey::OTHER {
            return Some(key);
        }
        let caps = self.caps;
        match plan(h, p, |request| can(request, &caps)) {
            Plan::Device(headers) => Some(match headers.filter(|h| h.inner.is_some()) {
                Some(headers) => EsegKey::of_tunnel(&headers, true),
                None => EsegKey::CHECKSUM,
            }),
            Plan::Plain { summed } => {
                self.stats.csum_software += u64::from(summed);
                let end = p.head.start + p.head.len.min(MAX_HEADER as u32);
                // A GENEVE packet is told apart without a checksum too.
                let headers =
                    h.bytes(&p.head.buf, p.head.start..end, |b| Headers::of(b, &p.todo).ok());
                Some(
                    headers
                        .filter(|_| p.todo.encapsulated)
                        .map_or(EsegKey::NONE, |headers| EsegKey::of_tunnel(&headers, false)),
                )
            }
            Plan::Segment | Plan::Invalid => None,
        }
    }

    /// Adds a packet to the session, whose length counts it. Returns the head when it cannot be
    /// mapped.
    #[inline(always)]
    fn add_to_session<H: Host>(
        &mut self,
        h: &mut H,
        head: Fragment,
        cookie: u32,
        more: bool,
    ) -> Result<(), Fragment> {
        let m = map(h, head)?;
        h.charge(CpuWork::Map);
        h.charge(CpuWork::TxShared);
        self.stats.bytes += u64::from(m.len());
        self.bql.queue(m.len());
        h.store(&self.ring, self.session.next, self.data_seg(&m));
        self.session.next += DS;
        self.push(DmaEntry::Mapped(m, cookie, true));
        if !more || self.session.is_full() {
            self.end_session(h, more);
        }
        Ok(())
    }

    /// Closes the open session, if any, and opens one for packets with `key`. Returns whether more
    /// follows.
    #[inline(never)]
    fn change_session<H: Host>(&mut self, h: &mut H, key: EsegKey, mut more: bool) -> bool {
        if self.session.is_open() {
            self.close_session(h, false);
            // This may have stopped the queue. The packet is then the last one for now, and must
            // ring the doorbell.
            if self.stopped && more {
                self.stats.xmit_more += 1;
                more = false;
            }
        }
        self.open_session(h, key);
        more
    }

    /// Closes the session after the packet that ends the batch or fills the session.
    #[inline(never)]
    fn end_session<H: Host>(&mut self, h: &mut H, more: bool) {
        if more {
            // If the queue stops here no later packet rings the doorbell.
            let wqebbs = self.session.ds(self.offset(self.pc)).div_ceil(DS_PER_WQEBB);
            let stop = !self.has_room_after(wqebbs);
            self.close_session(h, stop);
        } else {
            self.close_session(h, true);
            // All packets of a session are counted as having more behind them.
            self.stats.xmit_more -= 1;
        }
    }

    /// Writes a WQE for one packet, after which there is room for any other.
    #[inline(always)]
    fn send_alone<H: Host>(
        &mut self,
        h: &mut H,
        head: Fragment,
        cookie: u32,
        key: EsegKey,
    ) -> Result<(), Fragment> {
        let m = map(h, head)?;
        h.charge(CpuWork::Map);
        h.charge(CpuWork::TxDescriptor(1));
        self.stats.csum_partial += u64::from(key.has_checksum());
        self.stats.bytes += u64::from(m.len());
        self.bql.queue(m.len().max(MIN_FRAME as u32));
        self.fast_sends += 1;
        // Read once: to the compiler a store to the ring may change any field.
        let (pc, index) = (self.pc, self.pc & self.mask);
        let ctrl = CtrlSeg::new(pc, opcode::SEND, self.sqn, 3);
        let wqe = Plain { head: Head { ctrl, eth: key.eseg() }, data: self.data_seg(&m) };
        h.store(&self.ring, u32::from(index) * WQEBB, wqe);
        self.push(DmaEntry::Mapped(m, cookie, true));
        self.info[usize::from(index)] = WqeInfo::new(1, 1, self.bql.queued());
        self.pc = pc.wrapping_add(1);
        Ok(())
    }

    /// Counts a packet on the fast path that could not be mapped.
    #[cold]
    #[inline(never)]
    fn unmapped<H: Host>(&mut self, h: &mut H, todo: &OffloadRequest, more: bool) {
        self.stats.xmit_more += u64::from(more);
        self.stats.csum_partial += u64::from(todo.checksum.is_some());
        self.count_drop(h, more);
    }

    /// Transmits any packet, in any state of the queue.
    #[inline(never)]
    fn transmit_any<H: Host>(&mut self, h: &mut H, mut p: Packet, more: bool) -> Tx {
        if self.halted() {
            return Tx::Busy(p);
        }
        if p.todo.gso.is_some() && !self.takes_large(h, &mut p) {
            return self.segment(h, p, more);
        }
        let Some(key) = self.key_of(h, &mut p) else {
            self.stats.xmit_more += u64::from(more);
            return self.drop_packet(h, p, more);
        };
        if is_simple(&p)
            && let Some(plain) = self.is_fast(more)
        {
            return self.transmit_fast(h, p, plain, key, more);
        }
        self.stats.xmit_more += u64::from(more);
        self.stats.csum_partial += u64::from(p.todo.checksum.is_some());
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

    #[inline(never)]
    fn close_session<H: Host>(&mut self, h: &mut H, notify: bool) {
        let at = self.offset(self.pc);
        let (ds, key) = (self.session.ds(at), self.session.key);
        if ds == Session::HEAD_DS {
            // The packet that it was opened for could not be mapped.
            self.session = Session::CLOSED;
            self.stats.mpwqe_blks -= 1;
            if notify {
                self.flush(h);
            }
            return;
        }
        let (wqebbs, pieces) = (ds.div_ceil(DS_PER_WQEBB), ds - Session::HEAD_DS);
        self.retire_session();
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
        let m = match map(h, head) {
            Ok(m) => m,
            Err(head) => {
                return self.drop_packet(h, Packet { head, todo, more: None, cookie }, more);
            }
        };
        h.charge(CpuWork::Map);
        h.charge(CpuWork::TxDescriptor(1));
        self.stats.packets += 1;
        self.stats.bytes += u64::from(m.len());
        self.bql.queue(m.len().max(MIN_FRAME as u32));
        let notify = !more || !self.has_room_after(1);
        let mut ctrl = CtrlSeg::new(self.pc, opcode::SEND, self.sqn, 3);
        if notify {
            ctrl.fm_ce_se = CQ_UPDATE;
        }
        let wqe = Plain { head: Head { ctrl, eth: key.eseg() }, data: self.data_seg(&m) };
        h.store(&self.ring, self.offset(self.pc), wqe);
        self.push(DmaEntry::Mapped(m, cookie, true));
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
            // Earlier packets of the batch would wait for a doorbell for ever. (The queue may have
            // stopped when the session closed.)
            self.flush(h);
        }
    }

    /// Rings the doorbell for all queued packets that it was not rung for (en_tx.c
    /// `mlx5e_tx_flush`).
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

    /// Stops the queue after a WQE if room runs short, and rings the doorbell if `notify`.
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
        ring_doorbell(h, (&self.dbr, self.page), self.pc, last);
    }

    #[inline(always)]
    fn has_room_after(&self, wqebbs: u32) -> bool {
        self.pc.wrapping_add(wqebbs as u16).wrapping_sub(self.cc) <= self.room
    }

    #[inline(always)]
    fn push(&mut self, entry: DmaEntry) {
        self.fifo[(self.fifo_head & self.fifo_mask) as usize] = entry;
        self.fifo_head = self.fifo_head.wrapping_add(1);
    }

    /// Takes back the last push.
    fn unpush<H: Host>(&mut self, h: &mut H) -> Fragment {
        self.fifo_head = self.fifo_head.wrapping_sub(1);
        match mem::take(&mut self.fifo[(self.fifo_head & self.fifo_mask) as usize]) {
            DmaEntry::Mapped(m, ..) | DmaEntry::Segment(m) | DmaEntry::Page(m) => unmap(h, m),
            DmaEntry::Inlined(buf, ..) => Fragment::whole(buf),
            DmaEntry::Empty => vacant(),
        }
    }
}

/// Returns the blocks of the longest WQE.
pub(super) fn max_wqebbs(caps: &Caps) -> u32 {
    (u32::from(caps.max_wqe_sz_sq) / WQEBB).clamp(1, MAX_WQEBBS)
}

/// Returns the key of a packet that asks for the checksum of a plain packet alone, or
/// [`EsegKey::OTHER`]. Most packets ask for nothing, so this is out of line. It is so simple that
/// the compiler sees that it leaves the packet alone, which is then not stored for it.
#[inline(never)]
fn quick_key<H: Host>(h: &mut H, p: &Packet) -> EsegKey {
    let (start, end) = (p.head.start, p.head.start + p.head.len);
    if let Some(partial) = p.todo.checksum.filter(|_| !p.todo.encapsulated)
        && h.bytes(&p.head.buf, start..end, |b| is_plain(b, partial))
    {
        return EsegKey::CHECKSUM;
    }
    EsegKey::OTHER
}

/// Returns whether a packet may have another key than [`EsegKey::NONE`].
#[inline(always)]
const fn has_key(p: &Packet) -> bool {
    p.todo.encapsulated || p.todo.checksum.is_some()
}

/// Returns whether a packet is linear and needs neither segmentation nor a tag.
#[inline(always)]
fn is_simple(p: &Packet) -> bool {
    // `cold_path` keeps each test a branch; the compiler would combine them.
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

/// Counts the packets that joined `session`, whose WQE begins at ring offset `at`, on the fast
/// path.
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
