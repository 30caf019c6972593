//! Packets as a stack sends them, and the frames expected on the wire.

use doorbell_hal::{Alignment, Host};
use doorbell_packet::checksum::Sum;
use doorbell_packet::headers::prepare_partial;
use doorbell_packet::segment::{Segments, prepare_gso};
use doorbell_packet::{Fragment, NonLinear, OffloadRequest, Packet, vlan};
use proptest::prelude::*;

/// A packet to be made.
#[derive(Clone, Debug)]
pub struct Spec {
    /// IPv6 rather than IPv4.
    pub v6: bool,
    /// TCP rather than UDP.
    pub tcp: bool,
    /// Bytes behind the headers.
    pub payload: u16,
    /// Deferred offload.
    pub offload: Offload,
    /// A tag to be inserted.
    pub vlan: Option<u16>,
    /// Bytes of the head behind the headers; what is further is in fragments.
    pub head: u16,
    /// Longest fragment.
    pub fragment: u16,
    /// Offset of the packet in its first buffer.
    pub start: u8,
    /// Another packet follows at once.
    pub more: bool,
}

/// An offload deferred to the device.
#[derive(Clone, Copy, Debug)]
pub enum Offload {
    /// Nothing.
    None,
    /// The transport checksum.
    Checksum,
    /// The cut into segments of so many bytes.
    Large(u16),
}

/// Any packet that a stack may send at MTU 9000, mostly small linear ones.
pub fn any_spec() -> impl Strategy<Value = Spec> {
    let offload = prop_oneof![
        4 => Just(Offload::None),
        3 => Just(Offload::Checksum),
        1 => (100..1500u16).prop_map(Offload::Large),
    ];
    let payload = prop_oneof![6 => 0..100u16, 2 => 100..1400u16, 1 => 1400..8000u16];
    let vlan = prop_oneof![6 => Just(None), 1 => any::<u16>().prop_map(Some)];
    let head = prop_oneof![5 => Just(u16::MAX), 1 => 0..200u16];
    (
        any::<(bool, bool)>(),
        payload,
        offload,
        vlan,
        head,
        500..3000u16,
        0..70u8,
        prop::bool::weighted(0.9),
    )
        .prop_map(|((v6, tcp), payload, offload, vlan, head, fragment, start, more)| Spec {
            v6,
            tcp,
            payload,
            offload,
            vlan,
            head,
            fragment,
            start,
            more,
        })
}

impl Spec {
    /// Length of all headers.
    pub fn headers(&self) -> usize {
        14 + if self.v6 { 40 } else { 20 } + if self.tcp { 20 } else { 8 }
    }

    /// The frame as the driver gets it, and what is left to do.
    pub fn frame(&self) -> (Vec<u8>, OffloadRequest) {
        let (l4, end) = (if self.v6 { 54 } else { 34 }, self.headers() + usize::from(self.payload));
        let transport = (end - l4) as u16;
        let mut f = vec![0x02; 12];
        if self.v6 {
            f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            f.extend(transport.to_be_bytes());
            f.extend([if self.tcp { 6 } else { 17 }, 64]);
            f.extend([0xfd; 32]);
        } else {
            f.extend([0x08, 0x00, 0x45, 0]);
            f.extend((transport + 20).to_be_bytes());
            f.extend([
                0x12,
                0x34,
                0x40,
                0,
                64,
                if self.tcp { 6 } else { 17 },
                0,
                0,
                198,
                18,
                0,
                1,
                198,
                19,
                0,
                1,
            ]);
            let check = Sum::of(&f[14..34]).checksum();
            f[24..26].copy_from_slice(&check.to_be_bytes());
        }
        f.extend([0x13, 0x88, 0x13, 0x89]);
        if self.tcp {
            f.extend([0xff, 0xff, 0xff, 0x80, 0, 0, 0, 9, 0x50, 0x19, 1, 0, 1, 1, 0, 0]);
        } else {
            f.extend(transport.to_be_bytes());
            f.extend([1, 1]);
        }
        f.extend((0..self.payload).map(|i| (i % 253) as u8));
        let mut todo = match self.offload {
            Offload::Large(size) => prepare_gso(&mut f, size),
            _ => prepare_partial(&mut f)
                .map(|p| OffloadRequest { checksum: Some(p), ..OffloadRequest::NONE }),
        }
        .expect("TCP or UDP");
        if let Offload::None = self.offload {
            todo.checksum.take().expect("prepared").complete(&mut f).expect("it fits");
        }
        todo.vlan = self.vlan;
        (f, todo)
    }

    /// The frames that leave: checksums complete, cut, tagged, padded.
    pub fn expected(&self) -> Vec<Vec<u8>> {
        let (mut f, todo) = self.frame();
        let mut frames = Vec::new();
        if let Some(gso) = todo.gso {
            let mut segments = Segments::new(&f, gso).expect("a large send");
            let mut out = vec![0; segments.plan().longest()];
            while let Some(n) = segments.next_into(&mut out) {
                frames.push(out[..n].to_vec());
            }
        } else {
            if let Some(partial) = todo.checksum {
                partial.complete(&mut f).expect("it fits");
            }
            frames.push(f);
        }
        for f in &mut frames {
            if let Some(tci) = self.vlan {
                let mut tagged = vec![0; f.len() + vlan::TAG];
                vlan::insert_into(&mut tagged, f, tci);
                *f = tagged;
            }
            f.resize(f.len().max(60), 0);
        }
        frames
    }

    /// The packet, in buffers of `h`.
    pub fn packet<H: Host>(&self, h: &mut H, cookie: u32) -> Packet {
        self.try_packet(h, cookie).expect("memory")
    }

    /// The packet, in buffers of `h`; none is taken if `h` lacks memory for it.
    pub fn try_packet<H: Host>(&self, h: &mut H, cookie: u32) -> Option<Packet> {
        let (f, todo) = self.frame();
        let (head, rest) = f.split_at((self.headers() + usize::from(self.head)).min(f.len()));
        let mut made: Vec<Fragment> = Vec::new();
        for bytes in [head].into_iter().chain(rest.chunks(usize::from(self.fragment))) {
            let (start, len) = (u32::from(self.start), bytes.len() as u32);
            let Ok(buf) = h.buffer(start + len + 3, Alignment::ANY) else {
                made.into_iter().for_each(|piece| h.release(piece.buf));
                return None;
            };
            h.bytes_mut(&buf, start..start + len, |b| b.copy_from_slice(bytes));
            made.push(Fragment { buf, start, len });
        }
        let head = made.remove(0);
        let more =
            (!made.is_empty()).then(|| Box::new(NonLinear { frags: made, list: Vec::new() }));
        Some(Packet { head, todo, more, cookie })
    }
}

impl Spec {
    /// A linear packet of `payload` bytes and headers, longer than any frame may be.
    pub fn oversized<H: Host>(&self, h: &mut H, cookie: u32) -> Packet {
        let len = self.headers() as u32 + u32::from(self.payload);
        let buf = h.buffer(len, Alignment::ANY).expect("memory");
        Packet { cookie, ..Packet::linear(Fragment::whole(buf)) }
    }
}
