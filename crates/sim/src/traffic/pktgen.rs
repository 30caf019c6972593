//! A packet generator that sends one UDP packet over and over, as Linux's pktgen.
//!
//! All packets of a burst but the last have "more" set. At a rate, bursts start at equal intervals
//! after the driver opened, offset for each core so that cores do not run in step. At full speed a
//! burst starts when the previous one is queued. The queue's byte limit (BQL) does not apply:
//! pktgen checks the driver's own stop alone (net/core/pktgen.c, `pktgen_xmit`).

use super::{Next, Traffic};
use doorbell_drivers::Sink;
use doorbell_hal::{Alignment, Buf, Host, OutOfMemory, Span, Time};
use doorbell_packet::{CsumPartial, Fragment, OffloadRequest, Packet, checksum::Sum, ethernet};

/// The rate of a generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// As fast as the queue takes packets.
    Full,
    /// One burst in each interval.
    Burst(Span),
}

/// The generator of one core.
#[derive(Debug)]
pub struct Pktgen {
    pool: Vec<Buf>,
    outstanding: u32,
    size: u32,
    burst: u32,
    in_burst: u32,
    left: u64,
    rate: Rate,
    /// Time from the start of the traffic to the first burst.
    first_burst: Span,
    next_burst: Time,
    cookie: u32,
    todo: OffloadRequest,
}

/// Ethernet, IPv4 and UDP headers.
const HEADERS: u32 = ethernet::HEADER as u32 + 20 + 8;

impl Pktgen {
    /// Creates a generator that sends `packets` packets of `size` bytes (without FCS) in bursts
    /// from `buffers` buffers. `flow` makes addresses differ between cores. With `partial`, the
    /// device computes the UDP checksum. Without, there is none, as in pktgen by default.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the host's memory does not hold the buffers.
    #[expect(
        clippy::too_many_arguments,
        reason = "one constructor call in one place, all of it plain numbers"
    )]
    pub fn new<H: Host>(
        h: &mut H,
        size: u32,
        burst: u32,
        packets: u64,
        rate: Rate,
        first_burst: Span,
        buffers: u32,
        flow: u16,
        partial: bool,
    ) -> Result<Pktgen, OutOfMemory> {
        let size = size.max(HEADERS);
        let mut todo = OffloadRequest::NONE;
        if partial {
            todo.checksum = Some(CsumPartial { start: 34, offset: 6 });
        }
        let mut pool = Vec::with_capacity(buffers as usize);
        for _ in 0..buffers {
            let b = h.buffer(size, Alignment::ANY)?;
            h.bytes_mut(&b, 0..size, |bytes| fill(bytes, flow, partial));
            pool.push(b);
        }
        Ok(Pktgen {
            pool,
            outstanding: 0,
            size,
            burst: burst.max(1),
            in_burst: 0,
            left: packets,
            rate,
            first_burst,
            next_burst: Time::ZERO + first_burst,
            cookie: 0,
            todo,
        })
    }

    /// Starts the traffic at `at`: bursts are due from then on.
    pub fn start(&mut self, at: Time) {
        self.next_burst = at + self.first_burst;
    }

    /// Returns whether all packets have been handed over.
    #[inline(always)]
    pub fn is_dry(&self) -> bool {
        self.left == 0
    }

    /// Releases the buffers.
    pub fn release<H: Host>(self, h: &mut H) {
        self.pool.into_iter().for_each(|b| h.release(b));
    }
}

/// Returns a generator's frame of `size` bytes with these addresses. With `partial`, the checksum
/// field holds the pseudo-header's sum, else zero.
pub fn udp(to: [u8; 6], from: [u8; 6], size: u32, partial: bool) -> Vec<u8> {
    let mut frame = vec![0; size.max(HEADERS) as usize];
    fill(&mut frame, 0, partial);
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame
}

/// Writes the packet.
fn fill(bytes: &mut [u8], flow: u16, partial: bool) {
    let len = bytes.len();
    let ip_len = (len - 14) as u16;
    let udp_len = (len - 34) as u16;
    let [hi, lo] = flow.to_be_bytes();
    bytes.fill(0);
    bytes[..6].copy_from_slice(&[0x02, 0, 0, 0, hi, lo]);
    bytes[6..12].copy_from_slice(&[0x02, 0, 0, 1, hi, lo]);
    bytes[12..14].copy_from_slice(&[0x08, 0x00]);
    let ip = &mut bytes[14..34];
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&ip_len.to_be_bytes());
    ip[8] = 32;
    ip[9] = 17;
    ip[12..16].copy_from_slice(&[198, 18, hi, lo]);
    ip[16..20].copy_from_slice(&[198, 19, hi, lo]);
    let check = Sum::of(ip).checksum();
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    let udp = &mut bytes[34..42];
    udp[..2].copy_from_slice(&9u16.to_be_bytes());
    udp[2..4].copy_from_slice(&9u16.to_be_bytes());
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    if partial {
        let sum =
            Sum::pseudo_v4([198, 18, hi, lo], [198, 19, hi, lo], 17, u32::from(udp_len)).value();
        bytes[40..42].copy_from_slice(&sum.to_be_bytes());
    }
    // pktgen's magic, then zeroes.
    if len >= 46 {
        bytes[42..46].copy_from_slice(&0xbe9b_e955u32.to_be_bytes());
    }
}

impl Sink for Pktgen {
    #[inline(always)]
    fn sent(&mut self, b: Buf, _cookie: u32, _last: bool) {
        self.outstanding -= 1;
        self.pool.push(b);
    }

    fn received(&mut self, _p: Packet, _verified: bool) {}
}

impl<H: Host> Traffic<H> for Pktgen {
    #[inline]
    fn next(&mut self, h: &mut H) -> Next {
        if self.left == 0 {
            return if self.outstanding == 0 { Next::Done } else { Next::Reclaim };
        }
        if self.in_burst == 0
            && let Rate::Burst(every) = self.rate
        {
            if h.now() < self.next_burst {
                return Next::At(self.next_burst);
            }
            self.next_burst += every;
        }
        let Some(buf) = self.pool.pop() else { return Next::Reclaim };
        self.outstanding += 1;
        self.left -= 1;
        self.in_burst += 1;
        let more = self.in_burst < self.burst && self.left > 0;
        if !more {
            self.in_burst = 0;
        }
        self.cookie = self.cookie.wrapping_add(1);
        let head = Fragment { buf, start: 0, len: self.size };
        Next::Packet(Packet { head, todo: self.todo, more: None, cookie: self.cookie }, more)
    }

    fn is_generator(&self) -> bool {
        true
    }

    fn dropped(&mut self, _h: &mut H, p: Packet) {
        self.outstanding -= 1;
        self.pool.push(p.head.buf);
    }
}
