//! The receive ring.
//!
//! Source: xilinx_axienet_main.c `axienet_rx_poll`, `axienet_dma_bd_init`.
//!
//! Every descriptor has a buffer for the longest frame, and all belong to the device up to
//! TAILDESC, behind which it idles. A received frame's descriptor gets a new buffer at once; the
//! end of the poll writes TAILDESC. A poll ends where no new buffer can be had. So only the next
//! descriptor can lack one; it is not done, and the next poll refills it first.

use super::config::{Checksum, Config};
use super::tx::{halves, ring};
use super::{hw, stats::Stats};
use crate::common::{discard, map_rx, next, previous};
use crate::{OpenError, Opened, Sink};
use alloc::boxed::Box;
use doorbell_hal::{Coherent, CpuWork, Direction, Fence, Host, Mapped};
use doorbell_layout::axienet::{DESCRIPTOR, Descriptor, S2MM, rx_app};
use doorbell_packet::headers::{Ip, Layers, Transport};
use doorbell_packet::{Fragment, Packet, checksum::Sum, ethernet::HEADER};
use zerocopy::little_endian::U32;

#[derive(Debug)]
pub(super) struct RxRing {
    config: Config,
    pub(super) stats: Stats,
    ring: Coherent,
    buffers: Box<[Option<Mapped>]>,
    count: u32,
    /// Next descriptor to poll.
    clean: u32,
    /// Drop descriptors up to the end of a frame that was longer than a buffer.
    discarding: bool,
}

impl RxRing {
    pub(super) fn allocate<H: Host>(h: &mut H, c: &Config) -> Opened<RxRing> {
        let mut rx = RxRing {
            config: *c,
            stats: Stats::default(),
            ring: ring(h, c, c.rx_ring)?,
            buffers: (0..c.rx_ring).map(|_| None).collect(),
            count: c.rx_ring,
            clean: 0,
            discarding: false,
        };
        if (0..rx.count).all(|i| rx.refill(h, i)) {
            return Ok(rx);
        }
        rx.release(h);
        Err(OpenError::OutOfMemory)
    }

    /// Returns the address of the first descriptor.
    pub(super) fn start(&self) -> u64 {
        self.ring.iova().0
    }

    fn status<H: Host>(&self, h: &mut H, i: u32) -> u32 {
        h.load::<U32>(&self.ring, i * DESCRIPTOR + Descriptor::STATUS_AT).get()
    }

    fn clear_status<H: Host>(&self, h: &mut H, i: u32) {
        h.store(&self.ring, i * DESCRIPTOR + Descriptor::STATUS_AT, U32::ZERO);
    }

    /// Gives descriptor `i` a buffer, unless it has one, and clears its status.
    fn refill<H: Host>(&mut self, h: &mut H, i: u32) -> bool {
        let at = i * DESCRIPTOR;
        if self.buffers[i as usize].is_none() {
            let Some(m) = self.new_buffer(h) else { return false };
            h.store(&self.ring, at + Descriptor::BUFFER_AT, halves(m.iova().0));
            self.buffers[i as usize] = Some(m);
        }
        let control = [U32::new(self.config.rx_buffer()), U32::ZERO];
        h.store(&self.ring, at + Descriptor::CONTROL_AT, control);
        h.charge(CpuWork::RxPost);
        true
    }

    fn new_buffer<H: Host>(&self, h: &mut H) -> Option<Mapped> {
        let buf = h.buffer(self.config.rx_buffer(), self.config.rx_place).ok()?;
        map_rx(h, buf, Direction::FromDevice, |at, len| self.config.reachable(at, len))
    }

    /// Gives the device all descriptors up to the one before `clean`.
    pub(super) fn write_tail<H: Host>(&mut self, h: &mut H) {
        let last = previous(self.clean, self.count);
        h.fence(Fence::Write);
        hw::write_tail(h, &self.config, S2MM, self.start() + u64::from(last * DESCRIPTOR));
        self.stats.rx_tail += 1;
    }

    /// Returns whether the next descriptor has no buffer.
    pub(super) fn is_starved(&self) -> bool {
        self.buffers[self.clean as usize].is_none()
    }

    /// Retries to give the next descriptor a buffer.
    pub(super) fn feed<H: Host>(&mut self, h: &mut H) {
        if self.advance(h) {
            self.write_tail(h);
        }
    }

    /// Refills the descriptor just polled, and goes on to the next.
    fn advance<H: Host>(&mut self, h: &mut H) -> bool {
        if !self.refill(h, self.clean) {
            // Its frame has been taken, and is not lost.
            self.clear_status(h, self.clean);
            self.stats.alloc_rx_buff_failed += 1;
            return false;
        }
        self.clean = next(self.clean, self.count);
        true
    }

    /// Takes up to `budget` descriptors that are done, and passes their frames to `up`. Returns how
    /// many.
    pub(super) fn poll<H: Host, S: Sink>(&mut self, h: &mut H, budget: u32, up: &mut S) -> u32 {
        let mut refilled = self.is_starved() && self.advance(h);
        let mut done = 0;
        while done < budget {
            let status = self.status(h, self.clean);
            if status & Descriptor::CMPLT == 0 {
                break;
            }
            h.fence(Fence::DmaRead);
            h.charge(CpuWork::Completion);
            // A descriptor without a frame counts too, so that a poll ends.
            done += 1;
            self.receive(h, status, up);
            if !self.advance(h) {
                break;
            }
            refilled = true;
        }
        if refilled {
            self.write_tail(h);
        }
        done
    }

    /// Passes up the frame of the descriptor at `clean`, which is done, if it has one.
    fn receive<H: Host, S: Sink>(&mut self, h: &mut H, status: u32, up: &mut S) {
        let end = status & Descriptor::EOF != 0;
        if status & Descriptor::ERRORS != 0 {
            self.stats.rx_errors += 1;
            self.discarding = !end;
            return;
        }
        if self.discarding || !end {
            // A buffer holds the longest frame, so a longer one is malformed.
            self.stats.rx_malformed += u64::from(end);
            self.discarding = !end;
            return;
        }
        let app: [U32; 5] = h.load(&self.ring, self.clean * DESCRIPTOR + Descriptor::APP_AT);
        let len = app[4].get() & rx_app::LENGTH;
        if !(HEADER as u32..=self.config.rx_buffer()).contains(&len) {
            self.stats.rx_malformed += 1;
            return;
        }
        let Some(mapped) = self.buffers[self.clean as usize].take() else { return };
        let start = mapped.range().start;
        let head = Fragment { buf: h.unmap(mapped), start, len };
        let verified = match self.config.rx_checksum {
            Checksum::None => None,
            Checksum::Full => full_checksum(app[2].get()),
            Checksum::CsumPartial => {
                let sum = (app[3].get() & rx_app::SUM) as u16;
                let (found, summed) =
                    h.bytes(&head.buf, start..start + len, |b| partial_checksum(sum, b));
                if summed > 0 {
                    h.charge(CpuWork::Sum(summed));
                }
                found
            }
        };
        match verified {
            Some(true) => self.stats.rx_csum_good += 1,
            Some(false) => self.stats.rx_csum_bad += 1,
            None => {}
        }
        self.stats.rx_packets += 1;
        self.stats.rx_bytes += u64::from(len);
        h.charge(CpuWork::RxPacket);
        up.received(Packet::linear(head), verified == Some(true));
    }

    /// Counts the frames in the ring as lost, each once; the device is off. All descriptors are
    /// looked at, because one whose report failed may lie between others.
    pub(super) fn count_lost<H: Host>(&mut self, h: &mut H) {
        for i in 0..self.count {
            let status = self.status(h, i);
            if status & Descriptor::CMPLT != 0 && status & Descriptor::EOF != 0 {
                self.stats.rx_lost += 1;
                self.clear_status(h, i);
            }
        }
    }

    /// Gives all descriptors to the device after a reset. Returns false if one has no buffer.
    pub(super) fn rearm<H: Host>(&mut self, h: &mut H) -> bool {
        self.count_lost(h);
        (self.clean, self.discarding) = (0, false);
        (0..self.count).all(|i| {
            h.store(&self.ring, i * DESCRIPTOR + Descriptor::APP_AT, [U32::ZERO; 5]);
            self.refill(h, i)
        })
    }

    /// Releases all memory; the device is off.
    pub(super) fn release<H: Host>(self, h: &mut H) {
        self.buffers.into_iter().flatten().for_each(|m| discard(h, m));
        h.release_coherent(self.ring);
    }
}

/// Returns the verdict of a core that knows transports; `None` if it did not check, or the IP
/// header is wrong.
pub(super) const fn full_checksum(app2: u32) -> Option<bool> {
    match (app2 & rx_app::STATUS) >> rx_app::STATUS_SHIFT {
        rx_app::TCP_GOOD | rx_app::UDP_GOOD => Some(true),
        rx_app::TRANSPORT_BAD => Some(false),
        _ => None,
    }
}

/// Checks a transport's checksum by the device's sum over the frame from byte 14 on, as a stack
/// does with `CHECKSUM_COMPLETE`. Returns the verdict, and the bytes that the CPU had to sum: those
/// before the transport and, in a padded frame, behind the datagram.
///
/// The device gives the sum in network order, as a number in a little-endian word.
#[inline(always)]
pub(super) fn partial_checksum(sum: u16, frame: &[u8]) -> (Option<bool>, u32) {
    let Some((l, end)) = Layers::of(frame).ok().and_then(|l| Some((l, transport_end(&l, frame)?)))
    else {
        return (None, 0);
    };
    let l4 = usize::from(l.l4);
    let (before, behind) = (&frame[rx_app::SUM_FROM..l4], &frame[end..]);
    let padding = Sum::ZERO.plus_at(end - rx_app::SUM_FROM, Sum::of(behind));
    // One's complement subtracts by adding the complement.
    let rest =
        Sum::ZERO.plus_be16(sum).plus_be16(!Sum::of(before).value()).plus_be16(!padding.value());
    let good = rest.plus(l.pseudo_header(frame, (end - l4) as u32)).is_intact();
    (Some(good), (before.len() + behind.len()) as u32)
}

/// Returns the end of the transport's data; `None` if it has no usable checksum.
fn transport_end(l: &Layers, frame: &[u8]) -> Option<usize> {
    let segment = l.segment(frame).filter(|_| !l.source_routed)?;
    // Zero is no checksum; IPv6 does not allow it.
    let may_lack = l.transport == Some(Transport::Udp) && l.ip == Ip::V4;
    let absent = may_lack && frame[segment.start + 6..segment.start + 8] == [0; 2];
    (!absent).then_some(segment.end)
}
