//! The receive ring.
//!
//! Source: xilinx_axienet_main.c `axienet_rx_poll`, `axienet_dma_bd_init`.
//!
//! Every descriptor has a buffer for the longest frame, and all belong to the device.
//! A frame that has come is handed up, its descriptor gets a new buffer at once, and
//! at the end of the poll TAILDESC names the last one so renewed. Behind TAILDESC the device
//! idles, and the MAC holds what comes in its memory.
//!
//! Where no new buffer can be had the poll ends. Only the descriptor that is to be
//! looked at next can be without one, so a look at a done descriptor without a buffer is
//! not a frame: it is only renewed.

use super::config::{Checksum, Config, OpenError};
use super::hw;
use super::stats::Stats;
use super::tx::{halves, ring};
use crate::Sink;
use alloc::boxed::Box;
use doorbell_hal::{Coherent, CpuWork, Direction, Fence, Host, Mapped};
use doorbell_layout::axienet::{DESCRIPTOR, Descriptor, S2MM, rx_app};
use doorbell_packet::checksum::Sum;
use doorbell_packet::ethernet::HEADER;
use doorbell_packet::headers::{Ip, Layers, Transport};
use doorbell_packet::{Fragment, Packet};
use zerocopy::little_endian::U32;

#[derive(Debug)]
pub(super) struct RxRing {
    ring: Coherent,
    info: Box<[Option<Mapped>]>,
    count: u32,
    /// Next descriptor to look at.
    clean: u32,
    /// The last descriptor of the frame before this one has not been seen: it was longer
    /// than a buffer.
    discarding: bool,
}

impl RxRing {
    /// A ring with all its buffers.
    pub(super) fn allocate<H: Host>(h: &mut H, c: &Config) -> Result<RxRing, OpenError> {
        let mut rx = RxRing {
            ring: ring(h, c, c.rx_ring)?,
            info: (0..c.rx_ring).map(|_| None).collect(),
            count: c.rx_ring,
            clean: 0,
            discarding: false,
        };
        for i in 0..rx.count {
            if !rx.renew(h, c, i) {
                rx.release(h);
                return Err(OpenError::OutOfMemory);
            }
        }
        Ok(rx)
    }

    /// Where the first descriptor is.
    pub(super) fn start(&self) -> u64 {
        self.ring.iova().0
    }

    /// Gives descriptor `i` a buffer, unless it has one, and takes its status back.
    fn renew<H: Host>(&mut self, h: &mut H, c: &Config, i: u32) -> bool {
        if self.info[i as usize].is_none() {
            let Some(m) = buffer(h, c) else { return false };
            h.store(&self.ring, i * DESCRIPTOR + Descriptor::BUFFER_AT, halves(m.iova().0));
            self.info[i as usize] = Some(m);
        }
        h.store(
            &self.ring,
            i * DESCRIPTOR + Descriptor::CONTROL_AT,
            [U32::new(c.rx_buffer()), U32::ZERO],
        );
        h.charge(CpuWork::RxPost);
        true
    }

    /// Tells the device of descriptors up to and with the one before `clean`.
    pub(super) fn announce<H: Host>(&self, h: &mut H, c: &Config, s: &mut Stats) {
        let last = if self.clean == 0 { self.count - 1 } else { self.clean - 1 };
        h.fence(Fence::Write);
        hw::tail(h, c, S2MM, self.start() + u64::from(last * DESCRIPTOR));
        s.rx_tail += 1;
    }

    /// Whether the next descriptor has no buffer.
    pub(super) fn is_starved(&self) -> bool {
        self.info[self.clean as usize].is_none()
    }

    /// Tries again to give the next descriptor a buffer.
    pub(super) fn feed<H: Host>(&mut self, h: &mut H, c: &Config, s: &mut Stats) {
        if self.advance(h, c, s) {
            self.announce(h, c, s);
        }
    }

    /// Renews the descriptor just looked at, and goes on to the next.
    fn advance<H: Host>(&mut self, h: &mut H, c: &Config, s: &mut Stats) -> bool {
        let i = self.clean;
        if !self.renew(h, c, i) {
            s.alloc_rx_buff_failed += 1;
            return false;
        }
        self.clean = if i + 1 == self.count { 0 } else { i + 1 };
        true
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
        let (mut frames, mut renewed) = (0, false);
        while frames < budget {
            let at = self.clean * DESCRIPTOR;
            let status = h.load::<U32>(&self.ring, at + Descriptor::STATUS_AT).get();
            if status & Descriptor::CMPLT == 0 {
                break;
            }
            h.fence(Fence::DmaRead);
            h.charge(CpuWork::Completion);
            frames += u32::from(self.take(h, c, s, status, up));
            if !self.advance(h, c, s) {
                break;
            }
            renewed = true;
        }
        if renewed {
            self.announce(h, c, s);
        }
        frames
    }

    /// The descriptor at `clean`, which is done; whether a frame was handed up.
    fn take<H: Host, S: Sink>(
        &mut self,
        h: &mut H,
        c: &Config,
        s: &mut Stats,
        status: u32,
        up: &mut S,
    ) -> bool {
        let end = status & Descriptor::EOF != 0;
        if status & Descriptor::ERRORS != 0 {
            s.rx_errors += 1;
            self.discarding = !end;
            return false;
        }
        if self.discarding || !end {
            // The buffer holds the longest frame, so this one is none. It stays where it is.
            s.rx_malformed += u64::from(end);
            self.discarding = !end;
            return false;
        }
        let app: [U32; 5] = h.load(&self.ring, self.clean * DESCRIPTOR + Descriptor::APP_AT);
        let len = app[4].get() & rx_app::LENGTH;
        if !(HEADER as u32..=c.rx_buffer()).contains(&len) {
            s.rx_malformed += 1;
            return false;
        }
        let Some(mapped) = self.info[self.clean as usize].take() else { return false };
        let start = mapped.range().start;
        let head = Fragment { buf: h.unmap(mapped), start, len };
        let verified = match c.rx_checksum {
            Checksum::None => None,
            Checksum::Full => full(app[2].get()),
            Checksum::CsumPartial => {
                let sum = (app[3].get() & rx_app::SUM) as u16;
                let (found, summed) = h.bytes(&head.buf, start..start + len, |b| partial(sum, b));
                if summed > 0 {
                    h.charge(CpuWork::Sum(summed));
                }
                found
            }
        };
        match verified {
            Some(true) => s.rx_csum_good += 1,
            Some(false) => s.rx_csum_bad += 1,
            None => {}
        }
        s.rx_packets += 1;
        s.rx_bytes += u64::from(len);
        h.charge(CpuWork::RxPacket);
        up.received(Packet::linear(head), verified == Some(true));
        true
    }

    /// The device is off: frames that are in the ring are lost. One whose report failed may lie
    /// between others.
    pub(super) fn count_lost<H: Host>(&mut self, h: &mut H, s: &mut Stats) {
        for i in 0..self.count {
            let status = h.load::<U32>(&self.ring, i * DESCRIPTOR + Descriptor::STATUS_AT).get();
            s.rx_lost +=
                u64::from(status & Descriptor::CMPLT != 0 && status & Descriptor::EOF != 0);
        }
    }

    /// After a reset: all descriptors are the device's again, as far as they have buffers.
    pub(super) fn rearm<H: Host>(&mut self, h: &mut H, c: &Config, s: &mut Stats) -> bool {
        self.count_lost(h, s);
        (self.clean, self.discarding) = (0, false);
        for i in 0..self.count {
            h.store(&self.ring, i * DESCRIPTOR + Descriptor::APP_AT, [U32::ZERO; 5]);
            if !self.renew(h, c, i) {
                return false;
            }
        }
        true
    }

    /// Gives all back; the device is off.
    pub(super) fn release<H: Host>(mut self, h: &mut H) {
        for m in self.info.iter_mut().filter_map(Option::take) {
            let b = h.unmap(m);
            h.release(b);
        }
        h.release_coherent(self.ring);
    }
}

fn buffer<H: Host>(h: &mut H, c: &Config) -> Option<Mapped> {
    let len = c.rx_buffer();
    let buf = h.buffer(len, c.rx_place).ok()?;
    h.charge(CpuWork::Map);
    match h.map(buf, 0..len, Direction::FromDevice) {
        Ok(m) if c.reachable(m.iova().0, len) => Some(m),
        Ok(m) => {
            let b = h.unmap(m);
            h.release(b);
            None
        }
        Err(e) => {
            h.release(e.buf);
            None
        }
    }
}

/// What a core that knows transports found; `None` if it did not look, or found IP
/// wrong.
pub(super) const fn full(app2: u32) -> Option<bool> {
    match (app2 & rx_app::STATUS) >> rx_app::STATUS_SHIFT {
        rx_app::TCP_GOOD | rx_app::UDP_GOOD => Some(true),
        rx_app::TRANSPORT_BAD => Some(false),
        _ => None,
    }
}

/// What the device's sum over a frame from byte 14 says of its transport's checksum
/// (a stack's part, with `CHECKSUM_COMPLETE`); and how many bytes the CPU had to sum for
/// that: what is before the transport and, in a padded frame, behind the datagram.
///
/// The device gives the sum in network order, as a number in a little-endian word.
pub(super) fn partial(sum: u16, frame: &[u8]) -> (Option<bool>, u32) {
    let Some((l, end)) = Layers::of(frame).ok().and_then(|l| Some((l, transport_end(&l, frame)?)))
    else {
        return (None, 0);
    };
    let l4 = usize::from(l.l4);
    let (before, behind) = (&frame[rx_app::SUM_FROM..l4], &frame[end..]);
    let padding = Sum::ZERO.plus_at(end - rx_app::SUM_FROM, Sum::of(behind));
    // RxVerdict away in one's complement: by adding the complement.
    let rest =
        Sum::ZERO.plus_be16(sum).plus_be16(!Sum::of(before).value()).plus_be16(!padding.value());
    let good = rest.plus(l.pseudo_header(frame, (end - l4) as u32)).is_intact();
    (Some(good), (before.len() + behind.len()) as u32)
}

/// Where the transport's data end; `None` if its checksum says nothing.
fn transport_end(l: &Layers, frame: &[u8]) -> Option<usize> {
    let end = l.datagram(frame)?.end;
    let l4 = usize::from(l.l4);
    let field = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    match l.transport.filter(|_| !l.source_routed)? {
        Transport::Tcp => Some(end),
        // Zero is no checksum; IPv6 does not allow it.
        Transport::Udp if l.ip == Ip::V4 && field(l4 + 6) == 0 => None,
        Transport::Udp => {
            let len = field(l4 + 4);
            (len >= 8 && l4 + len <= end).then_some(l4 + len)
        }
    }
}
