//! Conformance cases of an e1000 and its driver.
//!
//! A case is generic over the machine and over a [`Backend`]: the other end of the cable, the
//! passing of time, and missing capabilities. Cases run on QEMU's 82540EM, 82544GC, 82545EM and
//! 82574L and on our own [`model`]; `e1000_cases!` lists them for both. A case that needs an
//! unsupported capability prints so.

mod list;
pub mod model;
mod queues;

pub use queues::two_queues;

use crate::frames::{PEER, ip, plain};
use crate::packets::{self, Frame, TestSink};
use crate::{Unsupported, supports};
use doorbell_drivers::e1000::{Bus, Config, E1000, Eeprom, Errata, Stats, Throttle};
use doorbell_drivers::{Driver, Filter, Irq, Poll, Tx};
use doorbell_hal::{Host, Reg, Span, Time};
use doorbell_layout::e1000::{self as l, phy, reg};
use doorbell_packet::headers::{Check, verify};
use doorbell_packet::segment::{Segments, prepare_gso};
use doorbell_packet::{OffloadRequest, Packet, headers};

/// A capability that a device may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capability {
    /// It reports whether a received checksum is good.
    RxChecksum,
    /// ITR spaces interrupts exactly, also below 128 us.
    ItrExact,
    /// TIDV, RDTR, RADV delay interrupts.
    DelayTimers,
    /// Reset takes registers to their power-on values.
    Reset,
    /// It cuts large sends.
    Tso,
    /// A large send of whole segments has no empty segment after it.
    TsoExact,
    /// Reading ICR masks the causes in IAM (82574).
    AutoMask,
    /// It counts the FCS among the octets sent.
    OctetsWithFcs,
}

/// The environment of a device under test.
pub trait Backend<H: Host> {
    /// Delivers a frame without FCS from the wire.
    fn inject(&mut self, h: &mut H, frame: &[u8]);
    /// Returns the next frame on the wire without FCS, if there is one.
    fn collect(&mut self, h: &mut H) -> Option<Vec<u8>>;
    /// Advances time; the device does its due work.
    fn wait(&mut self, h: &mut H, span: Span);
    /// Returns the time at which the interrupt line rose, if it is high after all frames have
    /// arrived.
    fn rose(&mut self, h: &mut H) -> Option<Time>;
    /// Returns the most by which an event is observed late: zero if the line has the time of its
    /// rise, else the interval at which a case polls it.
    fn slack(&self) -> Span;
    /// Returns the level of the device's interrupt line.
    fn interrupt(&mut self, h: &mut H) -> bool {
        self.rose(h).is_some()
    }
    /// Returns the time after opening, and after each change of the receiver, in which frames are
    /// refused.
    fn settling(&self) -> Span;
    /// Returns the missing capabilities.
    fn unsupported(&self) -> Unsupported<Capability>;

    /// Returns true if it has a capability. Prints the reason otherwise.
    fn has(&self, case: &str, c: Capability) -> bool {
        supports(self.unsupported(), case, c)
    }
}

/// A driver with its machine and backend.
struct Harness<'a, H: Host, A: Backend<H>> {
    h: &'a mut H,
    a: &'a mut A,
    nic: E1000,
    up: TestSink,
}

/// The address in the EEPROM of all cards.
pub const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];

impl<'a, H: Host, A: Backend<H>> Harness<'a, H, A> {
    fn open(h: &'a mut H, a: &'a mut A, c: &Config) -> Self {
        let nic = E1000::open(h, c).unwrap();
        let settling = a.settling();
        a.wait(h, settling);
        let mut b = Harness { h, a, nic, up: TestSink::default() };
        b.run();
        Driver::<H>::work(&mut b.nic, b.h);
        b
    }

    fn close(self) -> Stats {
        let Harness { h, nic, up, .. } = self;
        assert!(up.received.is_empty() && up.sent.is_empty());
        let s = nic.stats();
        nic.close(h);
        s
    }

    /// Interrupts and polls until both are quiet.
    fn run(&mut self) {
        while self.a.interrupt(self.h) {
            if self.nic.interrupt(self.h, 0) == Irq::Poll {
                self.poll();
            }
        }
    }
    fn poll(&mut self) {
        while self.nic.poll(self.h, 64, &mut self.up) == Poll::Again {}
    }

    fn packet(&mut self, bytes: &[u8], cuts: &[usize], todo: OffloadRequest) -> Packet {
        packets::packet(self.h, 42, bytes, cuts, 0, todo)
    }

    fn send(&mut self, bytes: &[u8], cuts: &[usize], todo: OffloadRequest) {
        let p = self.packet(bytes, cuts, todo);
        assert_eq!(self.nic.transmit(self.h, p, false), Tx::Ok);
    }

    /// Frames on the wire until no more come.
    fn wire(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        for _ in 0..20 {
            while let Some(f) = self.a.collect(self.h) {
                frames.push(f);
            }
            if self.nic.is_drained() {
                break;
            }
            self.a.wait(self.h, Span::from_us(200));
            self.run();
            self.poll();
        }
        while let Some(f) = self.a.collect(self.h) {
            frames.push(f);
        }
        assert!(self.nic.is_drained(), "sent, and not done");
        frames
    }

    /// Releases what was sent: how many pieces of how many packets.
    fn sent(&mut self) -> (usize, usize) {
        self.up.release_sent(self.h)
    }

    fn came(&mut self) -> Vec<Frame> {
        self.up.take_received(self.h)
    }

    fn receive(&mut self, frame: &[u8]) -> Vec<Frame> {
        self.a.inject(self.h, frame);
        self.a.wait(self.h, Span::from_us(500));
        self.run();
        self.came()
    }
}

/// EEPROM in both ways, also on opening, and the PHY.
pub fn eeprom_and_phy<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let nic = E1000::open(h, &Config { eeprom: Eeprom::Eerd, ..*c }).unwrap();
    assert_eq!(nic.mac(), MAC);
    nic.close(h);
    // The 82574 has another bus to its EEPROM.
    let how = if c.part.is_82574() { Eeprom::Eerd } else { Eeprom::Microwire };
    let mut b = Harness::open(h, a, &Config { eeprom: how, ..*c });
    assert_eq!(b.nic.mac(), MAC);
    let mut sum = 0u16;
    for word in 0..l::eeprom::WORDS {
        let bits = b.nic.eeprom(b.h, how, word).unwrap();
        assert_eq!(b.nic.eeprom(b.h, Eeprom::Eerd, word).unwrap(), bits, "word {word}");
        sum = sum.wrapping_add(bits);
    }
    assert_eq!(sum, l::eeprom::SUM);
    let id = [phy::ID1, phy::ID2].map(|r| b.nic.phy(b.h, r).unwrap());
    assert_eq!(id[0], 0x0141);
    // The bit latches low: the first look may tell of the time before the link came up.
    b.nic.phy(b.h, phy::STATUS).unwrap();
    assert_ne!(b.nic.phy(b.h, phy::STATUS).unwrap() & phy::STATUS_LINK, 0);
    let link = b.nic.link().expect("the link is up");
    assert_eq!((link.speed, link.full_duplex), (1000, true));
    b.close();
}

/// Frames of all lengths, linear, batched, the ring several times round.
pub fn transmit<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    // A queue over its byte limit announces each packet.
    let mut b = Harness::open(h, a, &Config { bql: false, ..*c });
    let before = b.nic.stats().tx_tail;
    let mut batches = 0;
    let lengths: Vec<usize> = (14..200).chain([511, 512, 513, 1000, 1513, 1514]).collect();
    for batch in lengths.chunks(5) {
        let frames: Vec<_> = batch.iter().map(|n| plain(PEER, *n)).collect();
        for (i, f) in frames.iter().enumerate() {
            let p = Packet { cookie: i as u32, ..b.packet(f, &[], OffloadRequest::NONE) };
            assert_eq!(b.nic.transmit(b.h, p, i + 1 < frames.len()), Tx::Ok);
        }
        batches += 1;
        let wire = b.wire();
        assert_eq!(wire.len(), frames.len());
        for (f, w) in frames.iter().zip(&wire) {
            let mut f = f.clone();
            f.resize(f.len().max(60), 0);
            assert_eq!(&f, w, "padded to 60 with zeros");
        }
        let cookies: Vec<u32> = b.up.sent.iter().map(|s| s.1).collect();
        assert_eq!(cookies, (0..frames.len() as u32).collect::<Vec<_>>());
        assert_eq!(b.sent(), (frames.len(), frames.len()));
    }
    assert_eq!(b.nic.stats().tx_tail - before, batches, "TDT once a batch");
    let copied = b.nic.stats().tx_copied;
    assert_eq!(copied, if c.copy_align { lengths.len() as u64 } else { 0 });
    b.close();
}

/// Packets in pieces.
pub fn scatter<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, c);
    let cases: [(usize, &[usize]); 6] = [
        (1514, &[14]),
        (1514, &[54, 700]),
        (60, &[14, 20]),
        (20, &[14]),
        (1514, &[1, 2, 3, 4, 5]),
        (1000, &[999]),
    ];
    for (len, cuts) in cases {
        let f = plain(PEER, len);
        b.send(&f, cuts, OffloadRequest::NONE);
        let mut expected = f;
        expected.resize(len.max(60), 0);
        assert_eq!(b.wire(), [expected], "{len} {cuts:?}");
        let pieces = if len < 60 && !c.copy_align { 1 } else { cuts.len() + 1 };
        assert_eq!(b.sent(), (pieces, 1));
    }
    b.close();
}

/// Checksums of TCP and UDP left to the device.
pub fn checksum_offload<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, c);
    for udp in [false, true] {
        for payload in [20, 33, 700, 1453] {
            let whole = ip(PEER, true, udp, payload);
            assert_eq!(verify(&whole).transport, Check::Good);
            let mut f = whole.clone();
            let checksum = headers::prepare_partial(&mut f);
            assert_ne!(f, whole);
            for cuts in [&[][..], &[14 + 40]] {
                b.send(&f, cuts, OffloadRequest { checksum, ..OffloadRequest::NONE });
                let mut whole = whole.clone();
                whole.resize(whole.len().max(60), 0);
                assert_eq!(b.wire(), [whole], "udp {udp}, {payload}");
                b.sent();
            }
        }
    }
    let s = b.close();
    assert_eq!((s.tx_csum, s.tx_contexts), (16, 16));
}

/// Large sends, of 14 kB and others, and the packet after each.
pub fn large_send<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    if !a.has("large_send", Capability::Tso) {
        return;
    }
    let mut b = Harness::open(h, a, c);
    for (payload, mss) in
        [(14_600, 1460u16), (14_000, 1448), (2_921, 1460), (30_000, 536), (1461, 1460)]
    {
        for cuts in [&[][..], &[54], &[54, 1000], &[100]] {
            let whole = ip(PEER, true, false, payload);
            let mut f = whole.clone();
            let todo = prepare_gso(&mut f, mss).unwrap();
            let mut expected = Vec::new();
            let mut segments = Segments::new(&f, todo.gso.unwrap()).unwrap();
            let mut out = vec![0; segments.plan().longest()];
            while let Some(n) = segments.next_into(&mut out) {
                expected.push(out[..n].to_vec());
            }
            b.send(&f, cuts, todo);
            let mut wire = b.wire();
            if payload % usize::from(mss) == 0 && !b.a.has("large_send", Capability::TsoExact) {
                let empty = wire.pop().unwrap();
                assert_eq!(headers::Layers::of(&empty).unwrap().end, 54);
                assert!(empty.len() <= 60);
            }
            assert_eq!(wire.len(), expected.len(), "{payload} by {mss}");
            for (i, (w, e)) in wire.iter().zip(&expected).enumerate() {
                // A short last segment is padded by the device, or by a model not at all.
                assert_eq!(&w[..e.len()], &e[..], "segment {i} of {payload} by {mss}, {cuts:?}");
                assert!(w[e.len()..].iter().all(|b| *b == 0));
                let v = verify(w);
                assert_eq!((v.ip, v.transport), (Check::Good, Check::Good));
            }
            assert_eq!(b.sent(), (cuts.len() + 1, 1));
            let next = plain(PEER, 200);
            b.send(&next, &[], OffloadRequest::NONE);
            assert_eq!(b.wire(), [next], "the packet after a large send");
            b.sent();
        }
    }
    b.close();
}

/// All workarounds at once, whatever the part needs, and where it may live without, none.
pub fn large_send_with_the_workarounds_of_pcix_and_of_all_parts<H: Host, A: Backend<H>>(
    h: &mut H,
    a: &mut A,
    c: &Config,
) {
    let all = Errata {
        even_dword: true,
        short_first: true,
        tso_sentinel: true,
        after_tso: true,
        bound_64k: true,
    };
    let none = (c.bus != Bus::PciX).then_some(Errata::NONE);
    for errata in [Some(all), none].into_iter().flatten() {
        large_send(h, a, &Config { errata, ..*c });
        transmit(h, a, &Config { errata, ..*c });
    }
}

/// Tags that the driver inserts, and those that it hands up as they came.
pub fn vlan_in_software<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    vlan(h, a, &Config { vlan: false, ..*c });
}

/// Tags inserted and stripped.
pub fn vlan<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, c);
    let tci = 0x6005;
    let f = plain(PEER, 300);
    b.send(&f, &[], OffloadRequest { vlan: Some(tci), ..OffloadRequest::NONE });
    let mut tagged = vec![0; f.len() + 4];
    doorbell_packet::vlan::insert_into(&mut tagged, &f, tci);
    assert_eq!(b.wire(), [tagged]);
    b.sent();
    let f = plain(b.nic.mac(), 700);
    let mut tagged = vec![0; f.len() + 4];
    doorbell_packet::vlan::insert_into(&mut tagged, &f, tci);
    let came = b.receive(&tagged);
    assert_eq!(came.len(), 1);
    let expected = if c.vlan { (f, Some(tci)) } else { (tagged.clone(), None) };
    assert_eq!((came[0].bytes.clone(), came[0].todo.vlan), expected);
    // Only VLAN 6, then 5 as well.
    for (only, passes) in [(&[6u16][..], false), (&[5, 6], true)] {
        b.nic.set_vlans(b.h, Some(only));
        let settling = b.a.settling();
        b.a.wait(b.h, settling);
        assert_eq!(!b.receive(&tagged).is_empty(), passes, "{only:?}");
    }
    b.close();
}

/// Frames of all lengths, three times round the ring; small ones copied out. With `NET_IP_ALIGN`
/// and without.
pub fn receive<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    for rx_align in [0, 2] {
        receive_at(h, a, &Config { rx_align, ..*c });
    }
}

fn receive_at<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, c);
    let mac = b.nic.mac();
    let lengths: Vec<usize> =
        (60..160).chain([254, 255, 256, 257, 512, 1000, 1513, 1514]).collect();
    let mut small = 0;
    for _ in 0..3 {
        for len in &lengths {
            let f = plain(mac, *len);
            let came = b.receive(&f);
            assert_eq!(came.len(), 1, "{len}");
            assert_eq!((&came[0].bytes, came[0].verified, came[0].pieces), (&f, false, 1), "{len}");
            small += u64::from(*len < c.copybreak as usize);
        }
    }
    assert_eq!(b.nic.stats().rx_copybreak, small);
    assert_eq!(b.nic.stats().rx_packets, 3 * lengths.len() as u64);
    // Several before a poll.
    let frames: Vec<_> = (0..40).map(|i| plain(mac, 100 + i * 30)).collect();
    let mut came = Vec::new();
    for few in frames.chunks(8) {
        for f in few {
            b.a.inject(b.h, f);
        }
        b.a.wait(b.h, Span::from_us(500));
        b.run();
        came.extend(b.came().into_iter().map(|f| f.bytes));
    }
    assert_eq!(came, frames);
    if b.a.has("receive", Capability::RxChecksum) {
        let mut f = ip(mac, true, false, 300);
        assert!(b.receive(&f)[0].verified);
        f[60] ^= 1;
        assert!(!b.receive(&f)[0].verified);
    }
    b.close();
}

/// Frames that land while the driver polls: two at a time, looked for at each moment of their
/// landing.
pub fn receive_during_a_poll<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, c);
    let mac = b.nic.mac();
    for i in 1..80 {
        let frames = [60, 61].map(|len| plain(mac, len + 2 * i as usize));
        for f in &frames {
            b.a.inject(b.h, f);
        }
        b.a.wait(b.h, Span::from_ns(25 * i));
        b.poll();
        b.a.wait(b.h, Span::from_us(500));
        b.run();
        let came: Vec<_> = b.came().into_iter().map(|f| f.bytes).collect();
        assert_eq!(came, frames, "landed during a poll");
    }
    b.close();
}

/// Frames of several buffers, with the FCS at each place around a buffer's end.
pub fn receive_several_buffers<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let c = Config { rx_buffer: 512, max_frame: 9014, ..*c };
    let mut b = Harness::open(h, a, &c);
    let mac = b.nic.mac();
    for len in
        [505, 506, 507, 508, 509, 510, 511, 512, 513, 1020, 1021, 1024, 1025, 1514, 4000, 8000]
    {
        let f = plain(mac, len);
        let came = b.receive(&f);
        assert_eq!(came.len(), 1, "{len}");
        assert_eq!(came[0].bytes, f, "{len}");
        assert_eq!(came[0].pieces, len.div_ceil(512), "{len}");
    }
    b.close();
}

/// Unicast, broadcast, multicast (exact and hashed), promiscuous.
pub fn filter<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, c);
    let mac = b.nic.mac();
    let group = |n: u8| [0x01, 0, 0x5e, 0, n.wrapping_mul(37), n];
    let groups: Vec<[u8; 6]> = (1..=20).map(group).collect();
    let other = [0x02, 0, 0, 0, 0, 0x55];
    let stranger = [0x01, 0, 0x5e, 0x7f, 0x11, 0xfb];
    assert!(
        groups[15..]
            .iter()
            .all(|g| doorbell_drivers::e1000::hash(*g) != doorbell_drivers::e1000::hash(stranger))
    );
    let passes = |b: &mut Harness<'_, H, A>, to: [u8; 6]| !b.receive(&plain(to, 100)).is_empty();
    let cases = [
        (Filter::default(), [true, true, false, false, false, false]),
        (
            Filter { multicast: groups.clone(), ..Filter::default() },
            [true, true, false, true, true, false],
        ),
        (
            Filter { all_multicast: true, ..Filter::default() },
            [true, true, false, true, true, true],
        ),
        (Filter { promiscuous: true, ..Filter::default() }, [true; 6]),
        (Filter::default(), [true, true, false, false, false, false]),
    ];
    for (f, expected) in &cases {
        b.nic.set_filter(b.h, f);
        let settling = b.a.settling();
        b.a.wait(b.h, settling);
        let to = [mac, [0xff; 6], other, groups[0], groups[19], stranger];
        assert_eq!(to.map(|to| passes(&mut b, to)), *expected, "{f:?}");
    }
    b.close();
}

/// A small transmit ring, filled until the queue stops, ten times round; a poll wakes it.
pub fn ring_wrap_and_stop<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let c = Config { tx_ring: 48, rx_ring: 48, ..*c };
    let mut b = Harness::open(h, a, &c);
    let (mut sent, mut stopped) = (0u32, 0);
    let f = plain(PEER, 1514);
    while sent < 500 {
        if Driver::<H>::stopped(&b.nic) {
            stopped += 1;
            let n = b.wire().len();
            assert!(n > 0 && !Driver::<H>::stopped(&b.nic), "a poll wakes it");
            b.sent();
        }
        let p = Packet { cookie: sent, ..b.packet(&f, &[], OffloadRequest::NONE) };
        match b.nic.transmit(b.h, p, true) {
            Tx::Ok => sent += 1,
            Tx::Busy(p) | Tx::Dropped(p) => p.release(b.h),
        }
    }
    let p = Packet { cookie: sent, ..b.packet(&f, &[], OffloadRequest::NONE) };
    if let Tx::Busy(p) | Tx::Dropped(p) = b.nic.transmit(b.h, p, false) {
        p.release(b.h);
    }
    b.wire();
    b.sent();
    assert!(stopped > 5);
    let s = b.close();
    assert_eq!(s.tx_stopped, s.tx_restart_queue);
}

/// Cause, mask and line; and the distance that ITR keeps.
pub fn interrupts<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    interrupts_at(h, a, c, 2_000);
    if a.has("interrupts", Capability::ItrExact) {
        interrupts_at(h, a, c, 20_000);
    }
}

fn interrupts_at<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config, rate: u32) {
    let c = Config { throttle: Throttle::Fixed(rate), tx_delay: 0, ..*c };
    let mut b = Harness::open(h, a, &c);
    b.a.wait(b.h, Span::from_ms(2));
    assert!(!b.a.interrupt(b.h));
    assert_eq!(b.nic.interrupt(b.h, 0), Irq::None, "ICR is 0: another device's");
    let f = plain(b.nic.mac(), 100);
    b.a.inject(b.h, &f);
    b.a.wait(b.h, Span::from_us(50));
    assert!(b.a.interrupt(b.h));
    assert_eq!(b.nic.interrupt(b.h, 0), Irq::Poll);
    assert!(!b.a.interrupt(b.h), "reading ICR lowers the line");
    b.a.inject(b.h, &f);
    b.a.wait(b.h, Span::from_ms(3));
    if !c.part.is_82574() || b.a.has("interrupts", Capability::AutoMask) {
        assert!(!b.a.interrupt(b.h), "masked until the poll is done");
    }
    b.poll();
    assert_eq!(b.came().len(), 2);
    b.a.wait(b.h, Span::from_ms(3));
    b.run();
    b.came();
    if !c.part.is_82540_or_later() {
        println!("interrupts: {:?} has no ITR", c.part);
        b.close();
        return;
    }
    // Frames as fast as they go: interrupts at ITR's distance.
    let distance = Span::from_ns(u64::from(doorbell_drivers::e1000::interval(rate)) * 256);
    let (start, mut times) = (b.h.now(), Vec::new());
    while times.len() < 6 {
        assert!(b.h.now().since(start) < Span::from_ms(20), "interrupts come");
        b.a.inject(b.h, &f);
        b.a.wait(b.h, Span::from_us(4));
        if let Some(rose) = b.a.rose(b.h) {
            times.push(rose);
            b.nic.interrupt(b.h, 0);
            b.poll();
            b.came();
        }
    }
    // There is always a frame that waits for an interrupt: they come as early as ITR lets them, and
    // no earlier.
    let slack = b.a.slack();
    for w in times.windows(2).skip(1) {
        let d = w[1].since(w[0]);
        assert!(d + slack >= distance && d <= distance + slack, "{d}, not {distance}");
    }
    b.close();
}

/// RDTR starts again with each packet; RADV does not, and caps it.
pub fn delay_timers<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    if !a.has("delay_timers", Capability::DelayTimers) {
        return;
    }
    for (rx_absolute, caps) in [(0, false), (150, true)] {
        if caps && !c.part.is_82540_or_later() {
            println!("delay_timers: {:?} has no RADV", c.part);
            continue;
        }
        let c = Config { throttle: Throttle::Off, rx_delay: 100, rx_absolute, ..*c };
        let mut b = Harness::open(h, a, &c);
        let f = plain(b.nic.mac(), 100);
        // A packet each 70 us never lets 102.4 us pass, but 153.6 us do.
        let mut came = Vec::new();
        for i in 0..5 {
            b.a.inject(b.h, &f);
            came.push(b.h.now());
            b.a.wait(b.h, Span::from_us(70));
            assert_eq!(b.a.interrupt(b.h), caps && i >= 2, "packet {i}, RADV {rx_absolute}");
        }
        b.a.wait(b.h, Span::from_us(50));
        let rose = b.a.rose(b.h).expect("an interrupt");
        let (from, units) = if caps { (came[0], 150) } else { (came[4], 100) };
        let due = from + Span::from_ns(1024) * units;
        // The timer starts when the packet is in memory: a packet of 100 bytes and its descriptor
        // are in 5 us.
        let late = Span::from_us(5) + b.a.slack();
        assert!(rose > due && rose < due + late, "{rose}, due {due}, RADV {rx_absolute}");
        b.run();
        assert_eq!(b.came().len(), 5);
        b.close();
    }
}

/// The controller counts sent and received frames.
pub fn statistics<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    let mut b = Harness::open(h, a, c);
    let mac = b.nic.mac();
    let start = *b.nic.hardware(b.h);
    for len in [60, 100, 1514] {
        b.send(&plain(PEER, len), &[], OffloadRequest::NONE);
    }
    assert_eq!(b.wire().len(), 3);
    b.sent();
    for to in [mac, mac, [0xff; 6]] {
        assert_eq!(b.receive(&plain(to, 200)).len(), 1);
    }
    let s = *b.nic.hardware(b.h);
    assert_eq!((s.tx_packets - start.tx_packets, s.rx_packets - start.rx_packets), (3, 3));
    assert_eq!(s.rx_broadcast - start.rx_broadcast, 1);
    let fcs = if b.a.has("statistics", Capability::OctetsWithFcs) { 3 * 4 } else { 0 };
    assert_eq!(s.tx_bytes - start.tx_bytes, 60 + 100 + 1514 + fcs, "the FCS counts");
    assert_eq!(s.rx_bytes - start.rx_bytes, 3 * 204);
    assert_eq!(*b.nic.hardware(b.h), s, "reading clears");
    b.close();
}

/// A reset in the middle, close, and open again.
pub fn reset_and_reopen<H: Host, A: Backend<H>>(h: &mut H, a: &mut A, c: &Config) {
    for _ in 0..2 {
        let mut b = Harness::open(h, a, &Config { bql: false, ..*c });
        let f = plain(PEER, 400);
        // Queued, and never announced.
        let p = Packet { cookie: 0, ..b.packet(&f, &[], OffloadRequest::NONE) };
        assert_eq!(b.nic.transmit(b.h, p, true), Tx::Ok);
        b.nic.restart(b.h).unwrap();
        assert!(b.nic.is_drained());
        assert_eq!(b.nic.stats().tx_dropped, 1);
        let settling = b.a.settling();
        b.a.wait(b.h, settling);
        b.run();
        b.send(&f, &[], OffloadRequest::NONE);
        assert_eq!(b.wire(), [f], "only what was sent after it");
        b.sent();
        let mac = b.nic.mac();
        assert_eq!(b.receive(&plain(mac, 90)).len(), 1);
        if b.a.has("reset_and_reopen", Capability::Reset) {
            b.h.write32(Reg::at(reg::RDTR), 77);
            b.nic.restart(b.h).unwrap();
            assert_eq!(b.h.read32(Reg::at(reg::RDTR)), u32::from(c.rx_delay));
        }
        b.close();
    }
}
