//! The receive ring.
//!
//! Source: e1000_main.c `e1000_alloc_rx_buffers`, `e1000_clean_rx_irq`,
//! `e1000_rx_checksum`.
//!
//! RDT is the index of the last descriptor that has a buffer; the device owns RDH
//! up to the one before RDT, so the last is held back, and RDH == RDT is none. A
//! frame longer than a buffer takes several, of which the last has EOP. The
//! length has the FCS in it, which may begin in the buffer before the last.
//!
//! A frame of one buffer is handed up without an allocation. For a longer one the
//! packet's list of fragments is made, as an skb's is.

use super::config::{Config, OpenError};
use super::hw::{put, reachable};
use super::stats::Stats;
use crate::Sink;
use alloc::boxed::Box;
use alloc::vec::Vec;
use doorbell_hal::{Alignment, Coherent, CpuWork, Direction, Fence, Host, Mapped};
use doorbell_layout::e1000::{DESCRIPTOR, Rx, reg};
use doorbell_packet::{Fragment, MAX_FRAGS, NonLinear, OffloadRequest, Packet, ethernet};

/// Buffers are posted so many at a time (`E1000_RX_BUFFER_WRITE`).
const BATCH: u32 = 16;
const FCS: u32 = ethernet::FCS as u32;

#[derive(Debug)]
pub(super) struct RxRing {
    ring: Coherent,
    info: Box<[Option<Mapped>]>,
    count: u32,
    /// Next descriptor to give a buffer.
    next: u32,
    /// Next descriptor to look at.
    clean: u32,
    /// A frame of which some buffers have come.
    head: Option<Fragment>,
    frags: Vec<Fragment>,
    /// The rest of a frame is thrown away up to its EOP.
    discarding: bool,
    /// Packets and bytes since the last look.
    pub(super) taken: (u32, u32),
}

impl RxRing {
    pub(super) fn allocate<H: Host>(h: &mut H, c: &Config) -> Result<RxRing, OpenError> {
        let ring = h.coherent(c.rx_ring * DESCRIPTOR, 4096)?;
        if !reachable(c, ring.iova().0, ring.len()) {
            h.release_coherent(ring);
            return Err(OpenError::Address);
        }
        Ok(RxRing {
            ring,
            info: (0..c.rx_ring).map(|_| None).collect(),
            count: c.rx_ring,
            next: 0,
            clean: 0,
            head: None,
            frags: Vec::new(),
            discarding: false,
            taken: (0, 0),
        })
    }

    pub(super) fn start<H: Host>(&self, h: &mut H) {
        let iova = self.ring.iova().0;
        put(h, reg::RDLEN, self.count * DESCRIPTOR);
        put(h, reg::RDBAH, (iova >> 32) as u32);
        put(h, reg::RDBAL, iova as u32);
        put(h, reg::RDH, 0);
        put(h, reg::RDT, 0);
    }

    fn unused(&self) -> u32 {
        (if self.clean > self.next { 0 } else { self.count }) + self.clean - self.next - 1
    }

    /// Gives a buffer to each descriptor that has none, and tells the device.
    pub(super) fn fill<H: Host>(&mut self, h: &mut H, c: &Config, s: &mut Stats) {
        let before = self.next;
        for _ in 0..self.unused() {
            let i = self.next;
            // A buffer that was recycled is still there.
            let mapped = match self.info[i as usize].take() {
                Some(m) => m,
                None => match new_buffer(h, c) {
                    Some(m) => m,
                    None => {
                        s.alloc_rx_buff_failed += 1;
                        break;
                    }
                },
            };
            let d = Rx {
                address: mapped.iova().0.into(),
                length: 0.into(),
                checksum: 0.into(),
                status: 0,
                errors: 0,
                special: 0.into(),
            };
            h.store(&self.ring, i * DESCRIPTOR, d);
            h.charge(CpuWork::RxPost);
            self.info[i as usize] = Some(mapped);
            self.next = if i + 1 == self.count { 0 } else { i + 1 };
        }
        if self.next != before {
            let last = if self.next == 0 { self.count - 1 } else { self.next - 1 };
            h.fence(Fence::Write);
            put(h, reg::RDT, last);
            s.rx_tail += 1;
        }
    }

    /// Hands up to `budget` frames up; how many it were.
    pub(super) fn poll<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        c: &Config,
        s: &mut Stats,
        budget: u32,
        up: &mut S,
    ) -> u32 {
        let (mut frames, mut cleaned) = (0, 0);
        while frames < budget {
            let i = self.clean;
            // The descriptor that the driver has not filled has no buffer.
            if i == self.next || h.load::<u8>(&self.ring, i * DESCRIPTOR + Rx::STATUS) & Rx::DD == 0
            {
                break;
            }
            h.fence(Fence::DmaRead);
            let d: Rx = h.load(&self.ring, i * DESCRIPTOR);
            h.charge(CpuWork::Completion);
            self.clean = if i + 1 == self.count { 0 } else { i + 1 };
            cleaned += 1;
            if self.take(h, c, s, i, d, up) {
                frames += 1;
            }
            if cleaned >= BATCH {
                self.fill(h, c, s);
                cleaned = 0;
            }
        }
        if self.unused() > 0 && (cleaned > 0 || self.unused() >= BATCH) {
            self.fill(h, c, s);
        }
        frames
    }

    /// One descriptor; whether a frame is complete and was handed up.
    fn take<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        c: &Config,
        s: &mut Stats,
        i: u32,
        d: Rx,
        up: &mut S,
    ) -> bool {
        let end = d.status & Rx::EOP != 0;
        let len = u32::from(d.length.get()).min(c.rx_buffer);
        let Some(mapped) = self.info[i as usize].take() else { return false };
        let bad = d.errors & Rx::FRAME_ERRORS != 0;
        if self.discarding || (end && bad) || self.frags.len() >= MAX_FRAGS {
            s.rx_errors += u64::from(end && bad);
            s.rx_malformed += u64::from(end && !bad);
            self.discarding = !end;
            self.drop_chain(h);
            // The buffer stays mapped, for the next turn.
            self.info[i as usize] = Some(mapped);
            return false;
        }
        let start = mapped.range().start;
        if end && self.head.is_none() {
            if len <= FCS {
                s.rx_malformed += 1;
                self.info[i as usize] = Some(mapped);
                return false;
            }
            let len = len - FCS;
            let piece = if len < c.copybreak {
                self.copy_out(h, s, i, mapped, len)
            } else {
                Ok(take_whole(h, mapped, start, len))
            };
            match piece {
                Ok(head) => self.hand_up(h, c, s, head, None, d, up),
                // Nothing for the copy: the frame is lost, the buffer stays.
                Err(()) => return false,
            }
            return true;
        }
        let piece = take_whole(h, mapped, start, len);
        match &self.head {
            None => self.head = Some(piece),
            Some(_) => self.frags.push(piece),
        }
        if !end {
            return false;
        }
        self.finish_chain(h, c, s, d, up)
    }

    fn finish_chain<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        c: &Config,
        s: &mut Stats,
        d: Rx,
        up: &mut S,
    ) -> bool {
        let Some(head) = self.head.take() else { return false };
        let mut frags = core::mem::take(&mut self.frags);
        // The FCS is the last four bytes, wherever they are.
        let mut trim = FCS;
        while trim > 0 {
            match frags.pop() {
                Some(q) if q.len <= trim => {
                    trim -= q.len;
                    h.release(q.buf);
                }
                Some(mut q) => {
                    q.len -= trim;
                    trim = 0;
                    frags.push(q);
                }
                None => break,
            }
        }
        let mut head = head;
        if head.len <= trim {
            s.rx_malformed += 1;
            h.release(head.buf);
            return false;
        }
        head.len -= trim;
        let more = (!frags.is_empty()).then(|| Box::new(NonLinear { frags, list: Vec::new() }));
        self.hand_up(h, c, s, head, more, d, up);
        true
    }

    /// A small frame into a buffer of its own; the big one stays with its descriptor.
    fn copy_out<H: Host>(
        &mut self,
        h: &mut H,
        s: &mut Stats,
        i: u32,
        m: Mapped,
        len: u32,
    ) -> Result<Fragment, ()> {
        // So that the IP header is on a word, whatever `rx_align` says.
        let made = h.buffer(len, Alignment { align: 64, offset: 2 });
        let Ok(buf) = made else {
            s.alloc_rx_buff_failed += 1;
            self.info[i as usize] = Some(m);
            return Err(());
        };
        let mut bytes = [0; 256];
        let bytes = &mut bytes[..len as usize];
        let start = m.range().start;
        h.peek(&m, start..start + len, |b| bytes.copy_from_slice(b));
        h.bytes_mut(&buf, 0..len, |b| b.copy_from_slice(bytes));
        h.charge(CpuWork::Copy(len));
        s.rx_copybreak += 1;
        self.info[i as usize] = Some(m);
        Ok(Fragment::whole(buf))
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "the last stage of receive, with what the others have found"
    )]
    fn hand_up<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        c: &Config,
        s: &mut Stats,
        head: Fragment,
        more: Option<Box<NonLinear>>,
        d: Rx,
        up: &mut S,
    ) {
        let vlan = (c.vlan && d.status & Rx::VP != 0).then(|| d.special.get());
        let p =
            Packet { head, todo: OffloadRequest { vlan, ..OffloadRequest::NONE }, more, cookie: 0 };
        let verified = c.rx_checksum && checksum(d.status, d.errors, s);
        let len = p.len();
        s.rx_packets += 1;
        s.rx_bytes += u64::from(len);
        self.taken.0 += 1;
        self.taken.1 = self.taken.1.saturating_add(len);
        h.charge(CpuWork::RxPacket);
        up.received(p, verified);
    }

    fn drop_chain<H: Host>(&mut self, h: &mut H) {
        for q in self.head.take().into_iter().chain(self.frags.drain(..)) {
            h.release(q.buf);
        }
    }

    /// Gives all buffers back; the device is off. Frames that are in the ring are lost.
    pub(super) fn clear<H: Host>(&mut self, h: &mut H, s: &mut Stats) {
        let mut i = self.clean;
        while i != self.next {
            let status = h.load::<u8>(&self.ring, i * DESCRIPTOR + Rx::STATUS);
            if status & Rx::DD == 0 {
                break;
            }
            s.rx_lost += u64::from(status & Rx::EOP != 0);
            i = if i + 1 == self.count { 0 } else { i + 1 };
        }
        self.drop_chain(h);
        for m in self.info.iter_mut().filter_map(Option::take) {
            let b = h.unmap(m);
            h.release(b);
        }
        for i in 0..self.count {
            h.store(&self.ring, i * DESCRIPTOR, [0u64; 2]);
        }
        (self.next, self.clean, self.discarding) = (0, 0, false);
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        h.release_coherent(self.ring);
    }
}

fn take_whole<H: Host>(h: &mut H, m: Mapped, start: u32, len: u32) -> Fragment {
    Fragment { buf: h.unmap(m), start, len }
}

fn new_buffer<H: Host>(h: &mut H, c: &Config) -> Option<Mapped> {
    let place = Alignment { offset: c.rx_place.offset + c.rx_align, ..c.rx_place };
    let first = mapped(h, c, place)?;
    if reachable(c, first.iova().0, c.rx_buffer) {
        return Some(first);
    }
    // Erratum 23. Linux takes any other one while it holds the first; a boundary of
    // a power of two that it fits into cannot fail.
    let first = h.unmap(first);
    h.release(first);
    let align = (place.offset + c.rx_buffer).next_power_of_two().max(place.align);
    let second = mapped(h, c, Alignment { align, ..place })?;
    if reachable(c, second.iova().0, c.rx_buffer) {
        return Some(second);
    }
    let second = h.unmap(second);
    h.release(second);
    None
}

fn mapped<H: Host>(h: &mut H, c: &Config, place: Alignment) -> Option<Mapped> {
    let buf = h.buffer(c.rx_buffer, place).ok()?;
    h.charge(CpuWork::Map);
    match h.map(buf, 0..c.rx_buffer, Direction::FromDevice) {
        Ok(m) => Some(m),
        Err(e) => {
            h.release(e.buf);
            None
        }
    }
}

/// Whether the device found the checksum good: it looked (TCPCS), nothing is to be
/// ignored (IXSM), and there was no error (TCPE).
pub(super) fn checksum(status: u8, errors: u8, s: &mut Stats) -> bool {
    if status & Rx::IXSM != 0 {
        return false;
    }
    if errors & Rx::TCPE != 0 {
        s.rx_csum_offload_errors += 1;
        return false;
    }
    let good = status & Rx::TCPCS != 0;
    s.rx_csum_offload_good += u64::from(good);
    good
}
