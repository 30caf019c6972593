//! Packets with offload requests, of every kind that a stack sends, and what the software path
//! makes of them.

use doorbell_packet::checksum::Sum;
use doorbell_packet::segment::SegmentPlan;
use doorbell_packet::{CsumPartial, Gso, GsoKind, OffloadRequest, vlan};

/// A generator of numbers (SplitMix64).
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    /// A number below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// True once in `n`.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A packet as a stack hands it to a driver.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) frame: Vec<u8>,
    pub(super) todo: OffloadRequest,
    /// Its kind, for messages.
    pub(super) what: String,
}

/// Longest datagram of a segment: with three tags it fits a frame with one.
const MTU: usize = 1492;
const BIG: usize = 300_000;

/// A transport header with payload behind IP, and what is left to be done with it.
struct Inner {
    bytes: Vec<u8>,
    /// Offset of the transport header, of the checksum in it, and of the payload.
    offsets: Option<(usize, usize, usize)>,
    kind: GsoKind,
    what: String,
}

/// One IP packet. `room` is the longest for one frame; a large send is longer.
fn ip_packet(r: &mut Random, room: usize, large: bool) -> Inner {
    let (v6, udp) = (r.once_in(2), r.once_in(3));
    let (mut header, l4_protocol, fragment) =
        if v6 { ipv6_header(r, udp) } else { ipv4_header(r, udp) };
    let mut transport = if udp {
        vec![0x30, 0x39, 0x16, 0x2e, 0, 0, 0, 0]
    } else {
        let words = if r.once_in(3) { 5 + r.below(11) } else { 5 };
        let flags = r.pick(&[0x10u8, 0x18, 0x19, 0x90, 0xd9]);
        let mut t = vec![0x30, 0x39, 0x16, 0x2e, 0xff, 0xff, 0xfe, 0, 0, 0, 0, 1];
        t.extend([(words as u8) << 4, flags, 0x20, 0, 0, 0, 0, 0]);
        t.resize(words * 4, 1);
        t
    };
    let left = room - header.len() - transport.len();
    let payload = match large {
        true if r.once_in(60) => left + r.below(BIG),
        true => left + r.below(9000),
        false => r.below(left),
    };
    let l4 = header.len();
    let len = transport.len() + payload;
    if udp {
        transport[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    }
    // BIG TCP has a length of 0.
    let field = |n: usize| u16::try_from(n).unwrap_or(0).to_be_bytes();
    if v6 {
        header[4..6].copy_from_slice(&field(l4 - 40 + len));
    } else {
        header[2..4].copy_from_slice(&field(l4 + len));
        header[10..12].fill(0);
        let check = Sum::of(&header).checksum();
        header[10..12].copy_from_slice(&check.to_be_bytes());
    }
    let end_of_headers = l4 + transport.len();
    let mut bytes = [header, transport].concat();
    let seed = r.next();
    bytes.extend((0..payload).map(|i| (i as u64 * 31 + (seed >> (i % 8))) as u8));
    let offset = if udp { 6 } else { 16 };
    let at = l4 + offset;
    if !fragment {
        // The pseudo-header's sum; of a large send it is made anew.
        let addresses = if v6 { 8..40 } else { 12..20 };
        let pseudo = Sum::of(&bytes[addresses]).plus_be32(len as u32).plus_be16(l4_protocol.into());
        bytes[at..at + 2].copy_from_slice(&pseudo.value().to_be_bytes());
        if r.once_in(8) && payload > 1 {
            // The checksum comes out as zero.
            bytes[end_of_headers..end_of_headers + 2].fill(0);
            let check = Sum::of(&bytes[l4..]).checksum();
            bytes[end_of_headers..end_of_headers + 2].copy_from_slice(&check.to_be_bytes());
        }
    }
    let kind = match (udp, v6) {
        (false, false) => GsoKind::Tcp4,
        (false, true) => GsoKind::Tcp6,
        (true, false) => GsoKind::Udp4,
        (true, true) => GsoKind::Udp6,
    };
    let what = format!("{kind:?} header {l4} payload {payload} fragment {fragment}");
    Inner { bytes, offsets: (!fragment).then_some((l4, offset, end_of_headers)), kind, what }
}

fn ipv4_header(r: &mut Random, udp: bool) -> (Vec<u8>, u8, bool) {
    let words = if r.once_in(4) { 5 + r.below(11) } else { 5 };
    let protocol = if udp { 17 } else { 6 };
    let fragment = r.once_in(20);
    let offset = if fragment { r.pick(&[0x20, 0x21, 0x01]) } else { r.pick(&[0, 0x40]) };
    let mut h = vec![0x40 | words as u8, 0, 0, 0, 0xff, 0xfe, offset, 0, 64, protocol, 0, 0];
    h.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    h.resize(words * 4, 1);
    (h, protocol, fragment)
}

fn ipv6_header(r: &mut Random, udp: bool) -> (Vec<u8>, u8, bool) {
    let protocol = if udp { 17 } else { 6 };
    let (mut kinds, mut fragment) = (Vec::new(), false);
    if r.once_in(3) {
        // Hop-by-hop, routing, destination options, AH, an atomic fragment, a fragment.
        for kind in [0u8, 43, 60, 51, 44] {
            if r.once_in(3) {
                kinds.push(kind);
            }
        }
        fragment = kinds.last() == Some(&44) && r.once_in(4);
    }
    let mut h = vec![0x60, 1, 2, 3, 0, 0, *kinds.first().unwrap_or(&protocol), 64];
    h.extend([[0xfd; 16], [0xfc; 16]].concat());
    for (i, kind) in kinds.iter().enumerate() {
        let next = *kinds.get(i + 1).unwrap_or(&protocol);
        h.extend(match kind {
            // AH's length is in words of four bytes, less two.
            51 => [&[next, 4, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1][..], &[7; 12]].concat(),
            44 => vec![next, 0, 0, u8::from(fragment), 0, 0, 0, 5],
            43 => [&[next, 2, 0, r.below(2) as u8, 0, 0, 0, 0][..], &[0xfb; 16]].concat(),
            _ => vec![next, 0, 1, 4, 0, 0, 0, 0],
        });
    }
    (h, protocol, fragment)
}

/// A packet for a station with the address `mac`. Tags have the VLAN `vid`.
pub(super) fn any(r: &mut Random, mac: [u8; 6], vid: u16) -> Case {
    let large = r.once_in(2);
    let tags = r.pick(&[0, 0, 0, 1, 1, 2]);
    let tunnel = r.once_in(4);
    let inserted = r.once_in(5);
    let mut f = vec![0x02, 0, 0, 0, 0, 0x99];
    f.extend(mac);
    for i in 0..tags {
        let kind: u16 = if i == 0 && tags == 2 {
            r.pick(&[0x88a8, 0x8100, 0x9100])
        } else {
            r.pick(&[0x8100, 0x8100, 0x88a8, 0x9100])
        };
        f.extend(kind.to_be_bytes());
        f.extend((0x2000 | vid).to_be_bytes());
    }
    let room = MTU - if tunnel { 140 } else { 0 };
    let inner = ip_packet(r, room, large);
    let mut what = format!("tags {tags} inserted {inserted} {}", inner.what);
    let v6 = matches!(inner.kind, GsoKind::Tcp6 | GsoKind::Udp6);
    let mut todo = OffloadRequest::NONE;
    let l3 = if tunnel {
        let (at, kind) = wrap(r, &mut f, &inner, v6);
        what = format!("{kind} {what}");
        todo.encapsulated = true;
        if r.once_in(2) {
            todo.inner_network = at as u16;
        }
        at
    } else {
        f.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        f.extend(&inner.bytes);
        f.len() - inner.bytes.len()
    };
    if let Some((l4, offset, end)) = inner.offsets {
        let start = (l3 + l4) as u16;
        todo.checksum = Some(CsumPartial { start, offset: offset as u16 });
        let (payload, header) = (inner.bytes.len() - end, l3 + end);
        if large && payload > 0 {
            // A segment fits the MTU, as a stack has it, with tunnel and all.
            let most = MTU + 14 - header + 4 * tags;
            let least = 1 + payload / 1500;
            let size = match r.below(4) {
                0 => least + r.below(60),
                1 => 200 + r.below(48),
                2 if payload <= most => most + r.below(65_536 - most),
                _ => least + r.below(most),
            };
            let size = if size > most && payload > most { most } else { size } as u16;
            todo.gso = Some(Gso { kind: inner.kind, size, header: header as u16 });
            what = format!("{what} mss {size}");
        }
    }
    if todo.gso.is_none() && f.len() > 14 + 4 * tags + MTU {
        // A fragment that was to be a large send.
        return any(r, mac, vid);
    }
    todo.vlan = inserted.then_some(0x4000 | vid);
    Case { frame: f, todo, what }
}

/// Appends the outer headers and the inner packet. Returns the offset of the inner IP header.
fn wrap(r: &mut Random, f: &mut Vec<u8>, inner: &Inner, inner_v6: bool) -> (usize, String) {
    let v6 = r.once_in(3);
    let ether_type = if inner_v6 { [0x86, 0xdd] } else { [0x08, 0x00] };
    let mut ethernet = vec![2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 8];
    if r.once_in(6) {
        ethernet.extend(r.pick(&[[0x81, 0x00], [0x88, 0xa8], [0x91, 0x00]]));
        ethernet.extend([0, 9]);
    }
    ethernet.extend(ether_type);
    let checksum = r.once_in(2);
    let (protocol, mut header, name) = match r.below(4) {
        0 => (if inner_v6 { 41 } else { 4 }, vec![], "ip in ip".to_owned()),
        1 => {
            let (key, bridged) = (r.once_in(2), r.once_in(2));
            let mut h = vec![if checksum { 0x80 } else { 0 } | if key { 0x20 } else { 0 }, 0];
            h.extend(if bridged { [0x65, 0x58] } else { ether_type });
            h.extend(vec![0; if checksum { 4 } else { 0 }]);
            h.extend(vec![3; if key { 4 } else { 0 }]);
            if bridged {
                h.extend(&ethernet);
            }
            (47, h, format!("gre checksum {checksum}"))
        }
        2 => {
            let options = 4 * r.below(8);
            let mut h =
                vec![0x30, 0x39, 0x17, 0xc1, 0, 0, 0, 0, (options / 4) as u8, 0, 0x65, 0x58];
            h.extend([0, 0, 7, 0]);
            h.extend(vec![9; options]);
            h.extend(&ethernet);
            (17, h, format!("geneve checksum {checksum}"))
        }
        _ => {
            let port: u16 = r.pick(&[4789, 4789, 8472, 6080, 5555, 443]);
            let [a, b] = port.to_be_bytes();
            let mut h = vec![0x30, 0x39, a, b, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 7, 0];
            h.extend(&ethernet);
            (17, h, format!("vxlan {port} checksum {checksum}"))
        }
    };
    let len = header.len() + inner.bytes.len();
    let field = |n: usize| u16::try_from(n).unwrap_or(0).to_be_bytes();
    f.extend(if v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
    let l3 = f.len();
    if v6 {
        let [a, b] = field(len);
        f.extend([0x60, 0, 0, 0, a, b, protocol, 64]);
        f.extend([[0xfa; 16], [0xf9; 16]].concat());
    } else {
        let [a, b] = field(20 + len);
        f.extend([0x45, 0, a, b, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2]);
        let check = Sum::of(&f[l3..]).checksum();
        f[l3 + 10..l3 + 12].copy_from_slice(&check.to_be_bytes());
    }
    let l4 = f.len();
    if protocol == 17 {
        header[4..6].copy_from_slice(&field(len));
    }
    f.extend(&header);
    let at = f.len();
    f.extend(&inner.bytes);
    // The outer checksum is of the packet with its inner one complete (local checksum offload).
    let mut whole = f.clone();
    if let Some((start, offset, _)) = inner.offsets {
        let partial = CsumPartial { start: (at + start) as u16, offset: offset as u16 };
        partial.complete(&mut whole).unwrap();
    }
    if checksum && protocol == 17 {
        let addresses = if v6 { l3 + 8..l3 + 40 } else { l3 + 12..l3 + 20 };
        let pseudo = Sum::of(&whole[addresses]).plus_be32(len as u32).plus_be16(17);
        let check = pseudo.plus(Sum::of(&whole[l4..])).udp_checksum();
        f[l4 + 6..l4 + 8].copy_from_slice(&check.to_be_bytes());
    }
    if checksum && protocol == 47 {
        let check = Sum::of(&whole[l4..]).checksum();
        f[l4 + 4..l4 + 6].copy_from_slice(&check.to_be_bytes());
    }
    (at, format!("{name} outer v6 {v6}"))
}

/// Returns what the software path makes of a packet: complete frames with their tags.
pub(super) fn software(case: &Case) -> Vec<Vec<u8>> {
    let (frame, todo) = (&case.frame, &case.todo);
    let mut frames = Vec::new();
    if let Some(gso) = todo.gso {
        let (header, payload) = frame.split_at(gso.header.into());
        let mut plan = SegmentPlan::of(header, payload.len() as u32, todo).ok();
        let mut head = vec![0; header.len()];
        while let Some(s) = plan.as_mut().and_then(|p| p.next_header(&mut head)) {
            let bytes = &payload[s.payload.start as usize..s.payload.end as usize];
            s.finish(&mut head, Sum::of(bytes));
            frames.push([&head, bytes].concat());
        }
    } else {
        let mut f = frame.clone();
        if let Some(partial) = todo.checksum {
            partial.complete(&mut f).unwrap();
        }
        frames.push(f);
    }
    if let Some(tci) = todo.vlan {
        for f in &mut frames {
            let mut tagged = vec![0; f.len() + vlan::TAG];
            vlan::insert_into(&mut tagged, f, tci);
            *f = tagged;
        }
    }
    frames
}
