//! Packets for a driver and from it.

use doorbell_drivers::Sink;
use doorbell_hal::{Alignment, Buf, Host};
use doorbell_packet::{Fragment, NonLinear, OffloadRequest, Packet};

/// Collects the buffers and packets of a driver.
#[derive(Debug, Default)]
pub struct TestSink {
    /// Buffers that came back, each with its packet's cookie, and whether it is the packet's last.
    pub sent: Vec<(Buf, u32, bool)>,
    /// Packets received, and whether their checksums were verified.
    pub received: Vec<(Packet, bool)>,
}

impl Sink for TestSink {
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        self.sent.push((b, cookie, last));
    }
    fn received(&mut self, p: Packet, verified: bool) {
        self.received.push((p, verified));
    }
}

impl TestSink {
    /// Returns the cookies of the packets that came back whole, in order.
    pub fn packets(&self) -> Vec<u32> {
        self.sent.iter().filter(|(_, _, last)| *last).map(|(_, cookie, _)| *cookie).collect()
    }

    /// Releases what was sent. Returns the number of pieces and of packets.
    pub fn release_sent<H: Host>(&mut self, h: &mut H) -> (usize, usize) {
        let sent = std::mem::take(&mut self.sent);
        let n = (sent.len(), sent.iter().filter(|s| s.2).count());
        for (b, ..) in sent {
            h.release(b);
        }
        n
    }

    /// Releases what was received. Returns the frames.
    pub fn take_received<H: Host>(&mut self, h: &mut H) -> Vec<Frame> {
        let take = |(p, verified): (Packet, bool)| {
            let mut bytes = Vec::new();
            for q in p.pieces() {
                h.bytes(&q.buf, q.start..q.start + q.len, |b| bytes.extend_from_slice(b));
            }
            let (todo, pieces) = (p.todo, p.pieces().count());
            p.release(h);
            Frame { bytes, verified, todo, pieces }
        };
        std::mem::take(&mut self.received).into_iter().map(take).collect()
    }
}

/// A frame as received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its checksums were verified.
    pub verified: bool,
    /// The driver's request to the stack.
    pub todo: OffloadRequest,
    /// Fragments that it came in.
    pub pieces: usize,
}

/// Makes a packet of `bytes` that is cut at `cuts`. Its pieces begin 6 bytes behind `offset` of a
/// line; the last `listed` of them are in the list of fragments.
pub(crate) fn packet<H: Host>(
    h: &mut H,
    offset: u32,
    bytes: &[u8],
    cuts: &[usize],
    listed: usize,
    todo: OffloadRequest,
) -> Packet {
    let (mut from, mut pieces) = (0, Vec::new());
    for end in cuts.iter().copied().chain([bytes.len()]) {
        let len = (end - from) as u32;
        let buf = h.buffer(len + 10, Alignment { align: 64, offset }).unwrap();
        h.bytes_mut(&buf, 6..6 + len, |b| b.copy_from_slice(&bytes[from..end]));
        pieces.push(Fragment { buf, start: 6, len });
        from = end;
    }
    let list = pieces.split_off(pieces.len() - listed);
    let mut pieces = pieces.into_iter();
    let head = pieces.next().unwrap();
    let frags: Vec<Fragment> = pieces.collect();
    let linear = frags.is_empty() && list.is_empty();
    Packet { head, todo, more: (!linear).then(|| Box::new(NonLinear { frags, list })), cookie: 7 }
}
