//! The kernel as judge of our segmentation and checksums.
//!
//! A large send goes into a TAP device with its virtio-net header. The kernel bridges it to a veth
//! whose segmentation and checksum offloads are off, so that its software (`tcp_gso_segment`,
//! `__udp_gso_segment`, `skb_checksum_help`) does the work. The result at the other end must equal
//! that of [`Segments`], byte for byte. The namespace has no addresses and no IPv6, so there are no
//! other frames. Needs root, /dev/net/tun, iproute2, ethtool and, for UDP, Linux 6.2.
//!
//! frame + virtio_net_hdr -> tap -> bridge -> v0 (tso, gso, tx, txvlan off) -> v1 -> AF_PACKET

use doorbell_bus::random::splitmix;
use doorbell_conformance::full;
use doorbell_host_io::netns::{Capture, NetNs};
use doorbell_host_io::tap::{Tap, VnetHeader};
use doorbell_packet::checksum::Sum;
use doorbell_packet::headers::{Check, Layers, prepare_partial, verify};
use doorbell_packet::segment::{Segments, prepare_gso};
use doorbell_packet::{GsoKind, OffloadRequest};
use std::time::{Duration, Instant};

const MTU: usize = 60_000;
/// Sent from here, so that our frames are told from any others.
const SOURCE: [u8; 6] = [0x02, 0xdb, 0, 0, 0, 1];

struct Judge {
    // In this order: the device before the namespace it is in.
    tap: Tap,
    capture: Capture,
    _ns: NetNs,
}

/// `None`, with a word, when the full tests were not asked for.
fn judge() -> Option<Judge> {
    if !full("root, for a network namespace") {
        return None;
    }
    let ns = NetNs::new("doorbell-gso").expect("a network namespace");
    ns.within(|| {
        for which in ["all", "default"] {
            std::fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1")
                .expect("IPv6 off");
        }
        // Absent without br_netfilter; with it, no rule is to see bridged packets.
        for family in ["ip", "ip6"] {
            let _ =
                std::fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{family}tables"), "0");
        }
    })
    .expect("into the namespace");
    let tap =
        ns.within(|| Tap::open("tap0", 0)).expect("into the namespace").expect("a TAP device");
    for line in [
        "ip link add br0 type bridge stp_state 0 mcast_snooping 0",
        "ip link add v0 type veth peer name v1",
        "ethtool -K v0 tso off gso off tx off tx-udp-segmentation off txvlan off \
         tx-vlan-stag-hw-insert off",
        "ethtool -K v1 gro off",
        "ip link set tap0 master br0",
        "ip link set v0 master br0",
    ] {
        ns.run(line).expect(line);
    }
    for interface in ["tap0", "v0", "v1", "br0"] {
        ns.run(&format!("ip link set {interface} mtu {MTU} up")).expect(interface);
    }
    let capture =
        ns.within(|| Capture::open("v1")).expect("into the namespace").expect("a capture socket");
    let judge = Judge { tap, capture, _ns: ns };
    judge.wait_for_the_bridge();
    Some(judge)
}

impl Judge {
    /// Carrier comes up some time after the links; until then frames are lost.
    fn wait_for_the_bridge(&self) {
        let probe = [&[0xff; 6][..], &SOURCE, &[0x88, 0xb5], &[0; 46]].concat();
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            self.tap.send(&VnetHeader::default(), &probe).expect("the probe is taken");
            if self.next(Duration::from_millis(50)).is_some() {
                break;
            }
            assert!(Instant::now() < until, "the bridge forwards nothing");
        }
        while self.next(Duration::from_millis(50)).is_some() {}
    }

    fn next(&self, wait: Duration) -> Option<Vec<u8>> {
        let mut frame = vec![0; MTU + 100];
        while let Some(n) = self.capture.receive(&mut frame, wait).expect("a captured frame") {
            if frame[6..12] == SOURCE {
                frame.truncate(n);
                return Some(frame);
            }
        }
        None
    }

    /// Returns up to `count` frames that the kernel makes of a large one.
    fn makes(&self, frame: &[u8], todo: &OffloadRequest, count: usize) -> Vec<Vec<u8>> {
        self.tap.send(&vnet_header(frame, todo), frame).expect("the kernel takes the frame");
        (0..count).map_while(|_| self.next(Duration::from_secs(10))).collect()
    }

    /// Compares the kernel's frames with ours.
    fn agrees(&self, frame: &[u8], todo: &OffloadRequest, what: &dyn std::fmt::Debug) {
        let ours = ours(frame, todo);
        let kernels = self.makes(frame, todo, ours.len());
        assert_eq!(kernels.len(), ours.len(), "frames, of {what:?}");
        for (i, (kernel, our)) in kernels.iter().zip(&ours).enumerate() {
            assert!(
                kernel == our,
                "segment {i} of {what:?}:\nkernel {kernel:02x?}\nours   {our:02x?}"
            );
        }
    }

    /// No frame came that nobody waited for.
    fn is_silent(&self) {
        assert_eq!(self.next(Duration::from_millis(200)), None, "one frame too many");
    }
}

/// Returns the frames that our segmentation makes of a large one.
fn ours(frame: &[u8], todo: &OffloadRequest) -> Vec<Vec<u8>> {
    let Some(gso) = todo.gso else {
        let mut frame = frame.to_vec();
        todo.checksum.expect("a checksum to do").complete(&mut frame).expect("inside the frame");
        return vec![frame];
    };
    let mut segments = Segments::new(frame, gso).expect("a large send");
    let mut out = vec![0; segments.plan().longest()];
    let mut all = Vec::new();
    while let Some(n) = segments.next_into(&mut out) {
        all.push(out[..n].to_vec());
    }
    all
}

fn vnet_header(frame: &[u8], todo: &OffloadRequest) -> VnetHeader {
    let mut h = VnetHeader::default();
    if let Some(c) = todo.checksum {
        h.flags = VnetHeader::NEEDS_CSUM;
        (h.csum_start, h.csum_offset) = (c.start.into(), c.offset.into());
    }
    if let Some(g) = todo.gso {
        let start = todo.checksum.expect("a large send leaves its checksum, too").start as usize;
        let cwr = || if frame[start + 13] & 0x80 != 0 { VnetHeader::GSO_ECN } else { 0 };
        h.gso_type = match g.kind {
            GsoKind::Tcp4 => VnetHeader::GSO_TCPV4 | cwr(),
            GsoKind::Tcp6 => VnetHeader::GSO_TCPV6 | cwr(),
            GsoKind::Udp4 | GsoKind::Udp6 => VnetHeader::GSO_UDP_L4,
        };
        (h.hdr_len, h.gso_size) = (g.header.into(), g.size.into());
    }
    h
}

/// The description of a frame.
#[derive(Clone, Debug)]
struct Case {
    kind: GsoKind,
    /// TCI of each VLAN tag; of two, the outer is a service tag.
    tags: Vec<u16>,
    ip_options: Vec<u8>,
    /// IPv6 extension headers: the first hop-by-hop, then destination options.
    extensions: usize,
    tcp_options: Vec<u8>,
    tcp_flags: u8,
    /// TOS or traffic class, TTL, DF, and so on.
    seed: u64,
    payload: Vec<u8>,
    size: u16,
}

impl Case {
    fn draw(r: &mut Random, kind: GsoKind) -> Case {
        let udp = matches!(kind, GsoKind::Udp4 | GsoKind::Udp6);
        let size = match r.below(8) {
            0 => 1 + r.below(16),
            1 => 1400 + r.below(100),
            2 => 8000 + r.below(1000),
            _ => 17 + r.below(700),
        };
        // UDP_MAX_SEGMENTS is 128; the whole must fit IP's length field.
        let segments = 1 + r.below(if size > 1000 { 6 } else { 30 });
        let short = r.below(size + 1);
        let len = size * segments + short.max(u64::from(segments == 1));
        let options = |r: &mut Random| vec![1u8; 4 * r.below(11) as usize];
        Case {
            kind,
            tags: (0..[0, 0, 1, 2][r.below(4) as usize]).map(|_| r.below(0x10000) as u16).collect(),
            ip_options: if r.below(2) == 0 { options(r) } else { Vec::new() },
            extensions: r.below(4).saturating_sub(1) as usize,
            tcp_options: if udp || r.below(3) == 0 { Vec::new() } else { options(r) },
            // Without SYN and RST; each of the others, NS too, comes about.
            tcp_flags: 0x10 | r.below(256) as u8 & !0x06,
            seed: r.next(),
            payload: (0..len).map(|_| r.next() as u8).collect(),
            size: size as u16,
        }
    }

    /// The complete frame.
    fn frame(&self) -> Vec<u8> {
        let r = &mut Random(self.seed);
        let v6 = matches!(self.kind, GsoKind::Tcp6 | GsoKind::Udp6);
        let udp = matches!(self.kind, GsoKind::Udp4 | GsoKind::Udp6);
        let mut f = [&[0x02, 0xdb, 0, 0, 0, 2][..], &SOURCE].concat();
        for (i, tci) in self.tags.iter().enumerate() {
            f.extend(if i + 1 < self.tags.len() { [0x88, 0xa8] } else { [0x81, 0x00] });
            f.extend(tci.to_be_bytes());
        }
        let l4_len = if udp { 8 } else { 20 + self.tcp_options.len() } + self.payload.len();
        let protocol = if udp { 17 } else { 6 };
        let l3 = f.len() + 2;
        if v6 {
            f.extend([0x86, 0xdd]);
            f.extend((0x6000_0000 | r.below(1 << 28) as u32).to_be_bytes());
            f.extend(((l4_len + 8 * self.extensions) as u16).to_be_bytes());
            let next = |i: usize| {
                if i == self.extensions { protocol } else { [0, 60][usize::from(i > 0)] }
            };
            f.extend([next(0), 1 + r.below(255) as u8]);
            f.extend([[0x20, 0x01, 0x0d, 0xb8], [0; 4], [0; 4], r.word()].concat());
            f.extend([[0x20, 0x01, 0x0d, 0xb8], [0; 4], [0; 4], r.word()].concat());
            for i in 0..self.extensions {
                f.extend([next(i + 1), 0, 1, 4, 0, 0, 0, 0]);
            }
        } else {
            f.extend([0x08, 0x00]);
            f.extend([0x45 + self.ip_options.len() as u8 / 4, r.next() as u8]);
            f.extend(((20 + self.ip_options.len() + l4_len) as u16).to_be_bytes());
            f.extend(&r.word()[..2]);
            f.extend([
                [0x00, 0x40][r.below(2) as usize],
                0,
                1 + r.below(255) as u8,
                protocol,
                0,
                0,
            ]);
            f.extend([[10, 0, 0, r.next() as u8], [10, 1, r.next() as u8, 9]].concat());
            f.extend(&self.ip_options);
            let check = Sum::of(&f[l3..]).checksum();
            f[l3 + 10..l3 + 12].copy_from_slice(&check.to_be_bytes());
        }
        f.extend(r.word());
        if udp {
            f.extend((l4_len as u16).to_be_bytes());
            f.extend([0xff, 0xff]);
        } else {
            f.extend(r.word());
            f.extend(r.word());
            f.extend([
                (5 + self.tcp_options.len() as u8 / 4) << 4 | r.below(2) as u8,
                self.tcp_flags,
            ]);
            f.extend(r.word());
            f.extend(&r.word()[..2]);
            f.extend(&self.tcp_options);
        }
        f.extend(&self.payload);
        let partial = prepare_partial(&mut f).expect("TCP or UDP");
        partial.complete(&mut f).expect("inside the frame");
        assert_eq!(verify(&f).transport, Check::Good);
        f
    }
}

/// Random numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        splitmix(&mut self.0)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn word(&mut self) -> [u8; 4] {
        (self.next() as u32).to_ne_bytes()
    }
}

fn random_cases(kind: GsoKind, cases: u32) {
    let Some(judge) = judge() else { return };
    let mut r = Random(0x5eed_0000 + kind as u64);
    let mut segments = 0;
    for _ in 0..cases {
        let case = Case::draw(&mut r, kind);
        let mut frame = case.frame();
        let todo = prepare_gso(&mut frame, case.size).expect("TCP or UDP");
        assert!(todo.gso.is_some(), "{case:?}");
        judge.agrees(&frame, &todo, &case);
        segments += case.payload.len().div_ceil(case.size as usize);
    }
    judge.is_silent();
    println!("{kind:?}: {cases} large sends, {segments} segments, as the kernel's");
}

#[test]
fn tcp_over_ipv4_is_cut_as_the_kernel_cuts_it() {
    random_cases(GsoKind::Tcp4, 400);
}

#[test]
fn tcp_over_ipv6_is_cut_as_the_kernel_cuts_it() {
    random_cases(GsoKind::Tcp6, 400);
}

#[test]
fn udp_over_ipv4_is_cut_as_the_kernel_cuts_it() {
    random_cases(GsoKind::Udp4, 400);
}

#[test]
fn udp_over_ipv6_is_cut_as_the_kernel_cuts_it() {
    random_cases(GsoKind::Udp6, 400);
}

#[test]
fn flags_go_to_the_segments_that_the_kernel_gives_them() {
    let Some(judge) = judge() else { return };
    let mut r = Random(7);
    for flags in 0..=0xff {
        let tcp_flags: u8 = flags;
        let case = Case {
            tcp_flags,
            payload: vec![3; 250],
            size: 100,
            ..Case::draw(&mut r, GsoKind::Tcp4)
        };
        let mut frame = case.frame();
        let todo = prepare_gso(&mut frame, case.size).expect("TCP");
        judge.agrees(&frame, &todo, &case);
    }
    judge.is_silent();
}

#[test]
fn a_sum_of_zero_is_written_as_the_kernel_writes_it() {
    let Some(judge) = judge() else { return };
    let mut r = Random(11);
    for kind in [GsoKind::Tcp4, GsoKind::Tcp6, GsoKind::Udp4, GsoKind::Udp6] {
        let mut case = Case { payload: vec![0; 350], size: 100, ..Case::draw(&mut r, kind) };
        // What makes each segment sum to zero is the checksum it has with zeros there.
        let field =
            |frame: &[u8]| Layers::of(frame).expect("IP").partial().expect("TCP or UDP").field();
        let prepared = |case: &Case| {
            let mut frame = case.frame();
            let todo = prepare_gso(&mut frame, case.size).expect("TCP or UDP");
            (frame, todo)
        };
        let (frame, todo) = prepared(&case);
        for (i, s) in ours(&frame, &todo).iter().enumerate() {
            case.payload[i * 100..i * 100 + 2].copy_from_slice(&s[field(s)..field(s) + 2]);
        }
        let (frame, todo) = prepared(&case);
        let expected =
            if matches!(kind, GsoKind::Udp4 | GsoKind::Udp6) { [0xff; 2] } else { [0; 2] };
        for s in ours(&frame, &todo) {
            assert_eq!(s[field(&s)..field(&s) + 2], expected, "{kind:?}");
        }
        judge.agrees(&frame, &todo, &case);
    }
    judge.is_silent();
}

#[test]
fn a_checksum_left_undone_is_completed_as_the_kernel_does() {
    let Some(judge) = judge() else { return };
    let mut r = Random(13);
    for i in 0..400 {
        let kind = [GsoKind::Tcp4, GsoKind::Tcp6, GsoKind::Udp4, GsoKind::Udp6][i % 4];
        let mut case = Case::draw(&mut r, kind);
        case.payload.truncate(r.below(1500) as usize);
        let whole = case.frame();
        let mut frame = whole.clone();
        let todo = OffloadRequest { checksum: prepare_partial(&mut frame), ..OffloadRequest::NONE };
        judge.agrees(&frame, &todo, &case);
        assert_eq!(ours(&frame, &todo), [whole]);
    }
    judge.is_silent();
}

/// The one place where we differ, and mean to: outside of segmentation the kernel
/// writes both of one's complement's zeros as 0xffff, for TCP too.
#[test]
fn a_lone_tcp_frame_that_sums_to_zero_is_all_ones_from_the_kernel_and_zero_from_us() {
    let Some(judge) = judge() else { return };
    let mut case =
        Case { payload: vec![0; 40], tags: vec![], ..Case::draw(&mut Random(17), GsoKind::Tcp4) };
    let field = |frame: &[u8]| Layers::of(frame).expect("IP").partial().expect("TCP").field();
    let whole = case.frame();
    case.payload[..2].copy_from_slice(&whole[field(&whole)..field(&whole) + 2]);
    let mut frame = case.frame();
    let at = field(&frame);
    let todo = OffloadRequest { checksum: prepare_partial(&mut frame), ..OffloadRequest::NONE };
    let ours = ours(&frame, &todo).remove(0);
    let mut kernels = judge.makes(&frame, &todo, 1).pop().expect("forwarded");
    assert_eq!((&ours[at..at + 2], &kernels[at..at + 2]), (&[0, 0][..], &[0xff, 0xff][..]));
    assert_eq!((verify(&ours).transport, verify(&kernels).transport), (Check::Good, Check::Good));
    kernels[at..at + 2].fill(0);
    assert_eq!(kernels, ours);
}
