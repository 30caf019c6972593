//! The receive ring.
//!
//! Source: e1000_main.c `e1000_alloc_rx_buffers`, `e1000_clean_rx_irq`, `e1000_rx_checksum`.
//!
//! RDT is the index of the last descriptor that has a buffer. The device owns RDH up to the one
//! before RDT, so the last is held back, and RDH == RDT is an empty ring. A frame longer than a
//! buffer takes several, the last with EOP. Its length includes the FCS, which may begin in the
//! buffer before the last. A frame of one buffer is passed up without an allocation; a longer one
//! needs a list of fragments. The descriptors of an 82574 are extended, and it strips the FCS.

use super::hw::{put, reachable};
use super::{config::Config, stats::Stats};
use crate::common::{coherent, discard, map_rx, next, previous, unused};
use crate::{Opened, Sink};
use alloc::{boxed::Box, vec::Vec};
use doorbell_hal::{Alignment, Coherent, CpuWork, Direction, Fence, Host, Mapped};
use doorbell_layout::e1000::{DESCRIPTOR, Rx, RxExtended, reg};
use doorbell_packet::{Fragment, MAX_FRAGS, NonLinear, OffloadRequest, Packet, ethernet};

/// Buffers posted at a time (`E1000_RX_BUFFER_WRITE`).
const BATCH: u32 = 16;

#[derive(Debug)]
pub(super) struct RxRing {
    config: Config,
    /// Offset of its registers from those of queue 0.
    registers: u32,
    pub(super) stats: Stats,
    ring: Coherent,
    buffers: Box<[Option<Mapped>]>,
    count: u32,
    /// Bytes of the FCS in memory.
    fcs: u32,
    /// Next descriptor to give a buffer.
    next: u32,
    /// Next descriptor to poll.
    clean: u32,
    /// The fragments so far of a frame that is not complete.
    head: Option<Fragment>,
    frags: Vec<Fragment>,
    /// Drop descriptors up to the next EOP.
    discarding: bool,
}

impl RxRing {
    pub(super) fn allocate<H: Host>(h: &mut H, c: &Config, queue: u16) -> Opened<RxRing> {
        let size = (c.rx_ring * DESCRIPTOR, 4096);
        let ring = coherent(h, size, |at, len| reachable(c, at, len))?;
        Ok(RxRing {
            config: *c,
            registers: reg::QUEUE * u32::from(queue),
            stats: Stats::default(),
            ring,
            buffers: (0..c.rx_ring).map(|_| None).collect(),
            count: c.rx_ring,
            fcs: if c.part.is_82574() { 0 } else { ethernet::FCS as u32 },
            next: 0,
            clean: 0,
            head: None,
            frags: Vec::new(),
            discarding: false,
        })
    }

    pub(super) fn start<H: Host>(&mut self, h: &mut H) {
        let iova = self.ring.iova().0;
        put(h, reg::RDLEN + self.registers, self.count * DESCRIPTOR);
        put(h, reg::RDBAH + self.registers, (iova >> 32) as u32);
        put(h, reg::RDBAL + self.registers, iova as u32);
        put(h, reg::RDH + self.registers, 0);
        put(h, reg::RDT + self.registers, 0);
        // The count of the first queue is without this one.
        self.stats.rx_tail += u64::from(self.registers != 0);
    }

    fn unused(&self) -> u32 {
        unused(self.next, self.clean, self.count)
    }

    /// Gives a buffer to each descriptor that has none, and writes RDT.
    pub(super) fn fill<H: Host>(&mut self, h: &mut H) {
        let before = self.next;
        for _ in 0..self.unused() {
            let i = self.next;
            // A buffer that was recycled is still there.
            let recycled = self.buffers[i as usize].take();
            let Some(mapped) = recycled.or_else(|| self.new_buffer(h)) else {
                self.stats.alloc_rx_buff_failed += 1;
                break;
            };
            let d = Rx { address: mapped.iova().0.into(), ..Rx::default() };
            h.store(&self.ring, i * DESCRIPTOR, d);
            h.charge(CpuWork::RxPost);
            self.buffers[i as usize] = Some(mapped);
            self.next = next(i, self.count);
        }
        if self.next != before {
            h.fence(Fence::Write);
            put(h, reg::RDT + self.registers, previous(self.next, self.count));
            self.stats.rx_tail += 1;
        }
    }

    fn new_buffer<H: Host>(&self, h: &mut H) -> Option<Mapped> {
        let c = &self.config;
        let place = Alignment { offset: c.rx_place.offset + c.rx_align, ..c.rx_place };
        let mut map = |place| {
            let buf = h.buffer(c.rx_buffer, place).ok()?;
            let m = map_rx(h, buf, Direction::FromDevice, |_, _| true)?;
            if reachable(c, m.iova().0, c.rx_buffer) {
                return Some(Some(m));
            }
            discard(h, m);
            Some(None)
        };
        if let Some(m) = map(place)? {
            return Some(m);
        }
        // Erratum 23. Linux takes any other buffer while it holds the first; alignment to a power
        // of two that holds the buffer cannot fail.
        let align = (place.offset + c.rx_buffer).next_power_of_two().max(place.align);
        map(Alignment { align, ..place })?
    }

    /// Takes up to `budget` received frames, and passes the sound ones to `up`. Returns how many.
    pub(super) fn poll<H: Host, S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> u32 {
        let (mut frames, mut cleaned) = (0, 0);
        while frames < budget {
            let i = self.clean;
            // The next descriptor to fill has no buffer.
            if i == self.next || self.status(h, i) & Rx::DD == 0 {
                break;
            }
            h.fence(Fence::DmaRead);
            let d = self.done(h, i);
            h.charge(CpuWork::Completion);
            self.clean = next(i, self.count);
            cleaned += 1;
            frames += u32::from(self.receive(h, i, d, up));
            if cleaned >= BATCH {
                self.fill(h);
                cleaned = 0;
            }
        }
        if self.unused() > 0 && (cleaned > 0 || self.unused() >= BATCH) {
            self.fill(h);
        }
        frames
    }

    fn status<H: Host>(&self, h: &mut H, i: u32) -> u8 {
        let extended = self.config.part.is_82574();
        let at = if extended { RxExtended::STATUS } else { Rx::STATUS };
        h.load(&self.ring, i * DESCRIPTOR + at)
    }

    /// Returns descriptor `i`, which is done.
    fn done<H: Host>(&self, h: &mut H, i: u32) -> Rx {
        if self.config.part.is_82574() {
            return h.load::<RxExtended>(&self.ring, i * DESCRIPTOR).legacy();
        }
        h.load(&self.ring, i * DESCRIPTOR)
    }

    /// Takes descriptor `i`, which is done, and passes up the frame that it completes. Returns
    /// false if it has a part of a frame that is not complete: such are few, so that a poll ends.
    fn receive<H: Host, S: Sink>(&mut self, h: &mut H, i: u32, d: Rx, up: &mut S) -> bool {
        let end = d.status & Rx::EOP != 0;
        let len = u32::from(d.length.get()).min(self.config.rx_buffer);
        let Some(mapped) = self.buffers[i as usize].take() else { return false };
        let bad = d.errors & Rx::FRAME_ERRORS != 0;
        // A descriptor that the device passed over, and not a part of a frame.
        let empty = !end && len == 0;
        if self.discarding || empty || (end && bad) || self.frags.len() >= MAX_FRAGS {
            self.stats.rx_errors += u64::from(end && bad);
            self.stats.rx_malformed += u64::from(end && !bad);
            self.discarding = !end;
            self.drop_chain(h);
            // The buffer stays mapped, and is posted again.
            self.buffers[i as usize] = Some(mapped);
            return true;
        }
        let start = mapped.range().start;
        if end && self.head.is_none() {
            if len <= self.fcs {
                self.stats.rx_malformed += 1;
                self.buffers[i as usize] = Some(mapped);
                return true;
            }
            let len = len - self.fcs;
            let head = if len < self.config.copybreak {
                let copy = self.copy_out(h, &mapped, len);
                self.buffers[i as usize] = Some(mapped);
                copy
            } else {
                Some(Fragment { buf: h.unmap(mapped), start, len })
            };
            // Without memory for the copy the frame is lost.
            if let Some(head) = head {
                self.pass_up(h, head, None, d, up);
            }
            return true;
        }
        let fragment = Fragment { buf: h.unmap(mapped), start, len };
        match &self.head {
            None => self.head = Some(fragment),
            Some(_) => self.frags.push(fragment),
        }
        if end {
            self.finish_chain(h, d, up);
        }
        end
    }

    /// Passes up a frame of several buffers, if it has data.
    fn finish_chain<H: Host, S: Sink>(&mut self, h: &mut H, d: Rx, up: &mut S) {
        let Some(mut head) = self.head.take() else { return };
        let mut frags = core::mem::take(&mut self.frags);
        // The FCS is the last four bytes, which may span buffers.
        let mut trim = self.fcs;
        while let Some(last) = frags.pop_if(|f| f.len <= trim) {
            trim -= last.len;
            h.release(last.buf);
        }
        if let Some(last) = frags.last_mut() {
            last.len -= core::mem::take(&mut trim);
        }
        if head.len <= trim {
            self.stats.rx_malformed += 1;
            frags.into_iter().chain([head]).for_each(|f| h.release(f.buf));
            return;
        }
        head.len -= trim;
        let more = (!frags.is_empty()).then(|| Box::new(NonLinear { frags, list: Vec::new() }));
        self.pass_up(h, head, more, d, up);
    }

    /// Copies a small frame into a buffer of its own.
    fn copy_out<H: Host>(&mut self, h: &mut H, m: &Mapped, len: u32) -> Option<Fragment> {
        // The IP header is on a word, whatever `rx_align` says.
        let Ok(buf) = h.buffer(len, Alignment { align: 64, offset: 2 }) else {
            self.stats.alloc_rx_buff_failed += 1;
            return None;
        };
        let mut bytes = [0; 256];
        let bytes = &mut bytes[..len as usize];
        let start = m.range().start;
        h.peek(m, start..start + len, |b| bytes.copy_from_slice(b));
        h.bytes_mut(&buf, 0..len, |b| b.copy_from_slice(bytes));
        h.charge(CpuWork::Copy(len));
        self.stats.rx_copybreak += 1;
        Some(Fragment::whole(buf))
    }

    fn pass_up<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        head: Fragment,
        more: Option<Box<NonLinear>>,
        d: Rx,
        up: &mut S,
    ) {
        let vlan = (self.config.vlan && d.status & Rx::VP != 0).then(|| d.special.get());
        let todo = OffloadRequest { vlan, ..OffloadRequest::NONE };
        let p = Packet { head, todo, more, cookie: 0 };
        let verified = self.config.rx_checksum && is_verified(d.status, d.errors, &mut self.stats);
        self.stats.rx_packets += 1;
        self.stats.rx_bytes += u64::from(p.len());
        h.charge(CpuWork::RxPacket);
        up.received(p, verified);
    }

    fn drop_chain<H: Host>(&mut self, h: &mut H) {
        for f in self.head.take().into_iter().chain(self.frags.drain(..)) {
            h.release(f.buf);
        }
    }

    /// Releases all buffers and empties the ring; the device is off. Frames in the ring are lost.
    pub(super) fn clear<H: Host>(&mut self, h: &mut H) {
        let mut i = self.clean;
        while i != self.next {
            let status = self.status(h, i);
            if status & Rx::DD == 0 {
                break;
            }
            self.stats.rx_lost += u64::from(status & Rx::EOP != 0);
            i = next(i, self.count);
        }
        self.drop_chain(h);
        self.buffers.iter_mut().filter_map(Option::take).for_each(|m| discard(h, m));
        for i in 0..self.count {
            h.store(&self.ring, i * DESCRIPTOR, [0u64; 2]);
        }
        (self.next, self.clean, self.discarding) = (0, 0, false);
    }

    pub(super) fn release<H: Host>(self, h: &mut H) {
        h.release_coherent(self.ring);
    }
}

/// Returns whether the device found the checksum good: it checked (TCPCS), the result is valid
/// (no IXSM), and there was no error (TCPE).
fn is_verified(status: u8, errors: u8, s: &mut Stats) -> bool {
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
