//! A packet generator of UDP packets, as Linux's pktgen.
//!
//! All packets of a burst but the last have "more" set. At a rate, bursts start at the times of
//! their [`Pace`] after the driver opened, offset for each core so that cores do not run in step.
//! At full speed a burst starts when the previous one is queued. The queue's byte limit (BQL) does
//! not apply: pktgen checks the driver's own stop alone (net/core/pktgen.c, `pktgen_xmit`).
//!
//! Packets are all alike, or differ by size and flow. Sizes are drawn by their weights; flows come
//! in turn.

use super::arrivals::Rng;
use super::{Next, Pace, Traffic};
use doorbell_drivers::Sink;
use doorbell_hal::{Alignment, Buf, Host, OutOfMemory, Time};
use doorbell_packet::{CsumPartial, Fragment, OffloadRequest, Packet, checksum::Sum, ethernet};

/// Sizes of packets in bytes without FCS, each with its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Sizes(Vec<(u32, f64)>);

impl Sizes {
    /// Makes all packets of one size.
    pub fn one(size: u32) -> Sizes {
        Sizes(vec![(size, 1.0)])
    }

    /// Makes packets of these sizes. A weight is a share of all packets, of any unit.
    pub fn mix(sizes: impl IntoIterator<Item = (u32, f64)>) -> Sizes {
        Sizes(sizes.into_iter().collect())
    }

    /// Returns true for a single size.
    pub(crate) fn are_one(&self) -> bool {
        self.0.len() == 1
    }

    /// Returns the largest size.
    pub fn largest(&self) -> u32 {
        self.0.iter().map(|s| s.0).max().unwrap_or(HEADERS)
    }

    /// Returns the mean size.
    pub fn mean(&self) -> f64 {
        let all: f64 = self.0.iter().map(|s| s.1).sum();
        self.0.iter().map(|s| f64::from(s.0) * s.1).sum::<f64>() / all
    }

    /// Draws a size.
    pub(crate) fn draw(&self, draw: &mut Rng) -> u32 {
        let all: f64 = self.0.iter().map(|s| s.1).sum();
        let mut at = draw.unit() * all;
        let found = self.0.iter().find(|s| {
            at -= s.1;
            at < 0.0
        });
        found.or(self.0.last()).map_or(HEADERS, |s| s.0)
    }
}

/// The packets of one core's generator.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Their sizes.
    pub sizes: Sizes,
    /// Packets of a burst.
    pub burst: u32,
    /// Their number.
    pub packets: u64,
    /// The numbers of their flows, which make addresses and ports differ. There is one at least.
    pub flows: Vec<u16>,
    /// The device computes the UDP checksum. Otherwise there is none, as in pktgen by default.
    pub partial: bool,
    /// The place of a packet in memory.
    pub place: Alignment,
    /// The seed of the sizes.
    pub seed: u64,
}

/// The generator of one core.
#[derive(Debug)]
pub struct Pktgen {
    pool: Vec<Buf>,
    outstanding: u32,
    of: Generated,
    size: u32,
    /// Packets differ from each other.
    varies: bool,
    in_burst: u32,
    left: u64,
    pace: Pace,
    cookie: u32,
    todo: OffloadRequest,
    draw: Rng,
    flow: usize,
}

/// Ethernet, IPv4 and UDP headers.
pub(crate) const HEADERS: u32 = ethernet::HEADER as u32 + 20 + 8;

impl Pktgen {
    /// The place of a packet of Linux's pktgen: behind 64 bytes of headroom and 16 of reserve, less
    /// the Ethernet header (net/core/pktgen.c, pktgen_alloc_skb and fill_packet_ipv4).
    pub const PLACE: Alignment = Alignment { align: 64, offset: 2 };

    /// Creates a generator that sends packets from `buffers` buffers, of which it takes no more
    /// than it has packets.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`] if the host's memory does not hold the buffers.
    pub fn new<H: Host>(
        h: &mut H,
        mut of: Generated,
        pace: Pace,
        buffers: u32,
    ) -> Result<Pktgen, OutOfMemory> {
        of.sizes.0.iter_mut().for_each(|s| s.0 = s.0.max(HEADERS));
        let size = of.sizes.largest();
        let varies = of.sizes.0.len() > 1 || of.flows.len() > 1;
        let flow = of.flows.first().copied().unwrap_or(0);
        let mut todo = OffloadRequest::NONE;
        if of.partial {
            todo.checksum = Some(CsumPartial { start: 34, offset: 6 });
        }
        let mut frame = vec![0; size as usize];
        fill(&mut frame, flow, of.partial);
        let buffers = u64::from(buffers).min(of.packets);
        let mut pool = Vec::with_capacity(buffers as usize);
        for _ in 0..buffers {
            let b = h.buffer(size, of.place)?;
            h.bytes_mut(&b, 0..size, |bytes| bytes.copy_from_slice(&frame));
            pool.push(b);
        }
        let (left, draw, burst) = (of.packets, Rng::new(of.seed), of.burst.max(1));
        Ok(Pktgen {
            pool,
            outstanding: 0,
            of: Generated { burst, ..of },
            size,
            varies,
            in_burst: 0,
            left,
            pace,
            cookie: 0,
            todo,
            draw,
            flow: 0,
        })
    }

    /// Starts the traffic at `at`: bursts are due from then on.
    pub fn start(&mut self, at: Time) {
        self.pace.start(at);
    }

    /// Returns whether all packets have been handed over.
    #[inline(always)]
    pub fn is_dry(&self) -> bool {
        self.left == 0
    }

    /// Ends the traffic with the burst under way.
    pub fn finish(&mut self) {
        let rest = if self.in_burst > 0 { self.of.burst - self.in_burst } else { 0 };
        self.left = self.left.min(rest.into());
    }

    /// Releases the buffers.
    pub fn release<H: Host>(self, h: &mut H) {
        self.pool.into_iter().for_each(|b| h.release(b));
    }

    /// Writes the headers of the next packet, of another size and flow. Returns its size.
    #[cold]
    #[inline(never)]
    fn vary<H: Host>(&mut self, h: &mut H, buf: &Buf) -> u32 {
        let size = self.of.sizes.draw(&mut self.draw);
        let flow = self.of.flows.get(self.flow).copied().unwrap_or(0);
        self.flow = (self.flow + 1) % self.of.flows.len().max(1);
        h.bytes_mut(buf, 0..HEADERS, |b| headers(b, size as usize, flow, self.of.partial));
        size
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

/// Returns the headers of a flow's frames of `size` bytes with these addresses.
pub(crate) fn udp_headers(
    to: [u8; 6],
    from: [u8; 6],
    size: usize,
    flow: u16,
) -> [u8; HEADERS as usize] {
    let mut frame = [0; HEADERS as usize];
    headers(&mut frame, size, flow, false);
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame
}

/// Returns the headers of the frames of a flow.
pub fn flow_headers(flow: u16) -> [u8; HEADERS as usize] {
    let mut frame = [0; HEADERS as usize];
    fill(&mut frame, flow, false);
    frame
}

/// Writes the packet.
fn fill(bytes: &mut [u8], flow: u16, partial: bool) {
    let len = bytes.len();
    bytes.fill(0);
    headers(bytes, len, flow, partial);
    // pktgen's magic, then zeroes.
    if len >= 46 {
        bytes[42..46].copy_from_slice(&0xbe9b_e955u32.to_be_bytes());
    }
}

/// Writes the headers of a packet of `len` bytes.
fn headers(bytes: &mut [u8], len: usize, flow: u16, partial: bool) {
    let ip_len = (len - 14) as u16;
    let udp_len = (len - 34) as u16;
    let [hi, lo] = flow.to_be_bytes();
    bytes[..HEADERS as usize].fill(0);
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
        // A burst that is due begins when there is a buffer for it.
        if self.pool.is_empty() {
            return Next::Reclaim;
        }
        if self.in_burst == 0
            && let Err(at) = self.pace.begin(h.now())
        {
            return Next::At(at);
        }
        let Some(buf) = self.pool.pop() else { return Next::Reclaim };
        let len = if self.varies { self.vary(h, &buf) } else { self.size };
        self.outstanding += 1;
        self.left -= 1;
        self.in_burst += 1;
        let more = self.in_burst < self.of.burst && self.left > 0;
        if !more {
            self.in_burst = 0;
        }
        self.cookie = self.cookie.wrapping_add(1);
        let head = Fragment { buf, start: 0, len };
        let packet = Packet { head, todo: self.todo, more: None, cookie: self.cookie };
        Next::Packet(packet, more, self.pace.due(h.now()))
    }

    fn is_generator(&self) -> bool {
        true
    }

    fn dropped(&mut self, _h: &mut H, p: Packet) {
        self.outstanding -= 1;
        self.pool.push(p.head.buf);
    }
}
