//! Any bytes as a capture file: an error or a sound capture, never a panic, and of a file
//! that is not compressed, no more memory than it is large.

use super::{Frame, Seed};
use doorbell_host_io::pcap::{MAX_FRAME, MIN_FRAME, Reading, read_from};

/// Reads a capture: the first byte says whether frames that were captured in part are padded, and
/// whether what is no frame is left out. Returns the number of frames, if it is one.
///
/// # Panics
/// Panics if the capture is not sound.
pub fn attack(input: &[u8]) -> Option<usize> {
    let (&how, file) = input.split_first()?;
    let how = Reading { pad: how & 1 == 1, skip: how & 2 == 2, interface: None };
    match read_from("fuzz", file, how) {
        Ok(c) => {
            let mut at = 0;
            for f in &c.frames {
                assert_eq!(f.start, at, "frames lie one after the other");
                assert!((MIN_FRAME..=MAX_FRAME).contains(&f.len));
                at += f.len as usize;
            }
            assert_eq!(at, c.bytes.len());
            let plain = c.format.packing.is_none() && c.padded == 0;
            assert!(at < file.len() || !plain, "frames come from the file");
            assert!(c.frames.iter().any(|f| f.at_ns == 0), "times count from the earliest");
            Some(c.frames.len())
        }
        Err(e) => {
            let packed = file.starts_with(&[0x1f, 0x8b]) || file.starts_with(&[0x28, 0xb5]);
            assert!(packed || e.offset <= file.len() as u64);
            assert!(!e.to_string().is_empty());
            None
        }
    }
}

/// Writes words in one order of bytes.
struct Words {
    big: bool,
    out: Vec<u8>,
}

impl Words {
    fn u16(&mut self, v: u16) {
        self.out.extend(if self.big { v.to_be_bytes() } else { v.to_le_bytes() });
    }
    fn u32(&mut self, v: u32) {
        self.out.extend(if self.big { v.to_be_bytes() } else { v.to_le_bytes() });
    }

    /// Writes a block of pcapng.
    fn block(&mut self, kind: u32, content: impl FnOnce(&mut Words)) {
        let mut inner = Words { big: self.big, out: Vec::new() };
        content(&mut inner);
        inner.pad();
        let len = inner.out.len() as u32 + 12;
        self.u32(kind);
        self.u32(len);
        self.out.extend(inner.out);
        self.u32(len);
    }

    fn pad(&mut self) {
        self.out.resize(self.out.len().next_multiple_of(4), 0);
    }
}

fn frames() -> [Vec<u8>; 3] {
    let station = [2, 0, 0, 0, 0, 1];
    [Frame::new(0, 40), Frame::new(Frame::V6 | Frame::UDP, 20), Frame::new(Frame::PLAIN, 60)]
        .map(|f| f.bytes(station, 2000))
}

/// Returns a file of pcap.
fn pcap(big: bool, magic: u32, missing: usize) -> Vec<u8> {
    records(big, magic, 1, &frames(), missing)
}

/// Returns a file of packets behind a header of the capture: to this station, to all, to a group,
/// and one whose protocol is none.
fn cooked(link: u32) -> Vec<u8> {
    let packets = [(0u8, 0x800u16), (1, 0x86dd), (2, 0x800), (4, 1)].map(|(kind, protocol)| {
        let ([p0, p1], sender) = (protocol.to_be_bytes(), [2, 0, 0, 0, 0, 7, 0, 0]);
        let head = if link == 113 {
            [&[0, kind, 0, 1, 0, 6][..], &sender, &[p0, p1]].concat()
        } else {
            [&[p0, p1, 0, 0, 0, 0, 0, 7, 0, 1, kind, 6][..], &sender].concat()
        };
        [head, vec![0x45; 60]].concat()
    });
    records(false, 0xa1b2_c3d4, link, &packets, 0)
}

/// Returns a file of pcap with these packets; with bytes `missing`, of the first alone.
fn records(big: bool, magic: u32, link: u32, packets: &[Vec<u8>], missing: usize) -> Vec<u8> {
    let mut w = Words { big, out: Vec::new() };
    w.u32(magic);
    w.u16(2);
    w.u16(4);
    for v in [0, 0, 65535, link] {
        w.u32(v);
    }
    for (i, f) in packets.iter().enumerate().take(if missing > 0 { 1 } else { packets.len() }) {
        w.u32(10 + i as u32);
        w.u32(500);
        w.u32((f.len() - missing) as u32);
        w.u32(f.len() as u32);
        w.out.extend(&f[..f.len() - missing]);
    }
    w.out
}

/// Returns a file of pcapng with five interfaces of different clocks.
fn pcapng(big: bool) -> Vec<u8> {
    let mut w = Words { big, out: Vec::new() };
    w.block(0x0a0d_0d0a, |w| {
        w.u32(0x1a2b_3c4d);
        w.u16(1);
        w.u16(0);
        w.u32(!0);
        w.u32(!0);
    });
    // Micro- and nanoseconds, powers of two, an offset.
    for i in 0..5u16 {
        w.block(1, |w| {
            w.u16(1);
            w.u16(0);
            w.u32(if i == 0 { 0 } else { 65535 });
            let offset = if big { 7u64.to_be_bytes() } else { 7u64.to_le_bytes() };
            let (code, bytes): (u16, &[u8]) = match i {
                1 => (9, &[9]),
                2 => (9, &[0x8a]),
                3 => (14, &offset),
                _ => (2, b"eth0"),
            };
            w.u16(code);
            w.u16(bytes.len() as u16);
            w.out.extend(bytes);
            w.pad();
            w.u32(0);
        });
    }
    let frames = frames();
    for i in 0..10u32 {
        let f = &frames[i as usize % 3];
        w.block(6, |w| {
            for v in [i % 5, 0, 1000 * i, f.len() as u32, f.len() as u32] {
                w.u32(v);
            }
            w.out.extend(f);
            w.pad();
        });
    }
    w.block(3, |w| {
        w.u32(frames[0].len() as u32);
        w.out.extend(&frames[0]);
    });
    // A packet of the old kind, whose flags say that it has an FCS.
    w.block(2, |w| {
        w.u16(1);
        w.u16(0);
        for v in [0, 20_000, frames[0].len() as u32, frames[0].len() as u32] {
            w.u32(v);
        }
        w.out.extend(&frames[0]);
        w.pad();
        w.u16(2);
        w.u16(4);
        w.u32(4 << 5);
        w.u32(0);
    });
    // A block that nobody knows is passed over.
    w.block(0x0bad, |w| w.u32(7));
    w.out
}

/// Returns captures of both formats in both orders of bytes.
pub fn seeds() -> Vec<Seed> {
    let make = |pad: u8, file: Vec<u8>| [vec![pad], file].concat();
    let (us, ns) = (0xa1b2_c3d4, 0xa1b2_3c4d);
    vec![
        ("pcap_us_le", make(0, pcap(false, us, 0))),
        ("pcap_us_be", make(0, pcap(true, us, 0))),
        ("pcap_ns_le", make(0, pcap(false, ns, 0))),
        ("pcap_ns_be", make(0, pcap(true, ns, 0))),
        ("pcap_padded", make(1, pcap(false, us, 9))),
        ("pcap_cut", make(0, pcap(false, us, 9))),
        ("pcap_cooked", make(0, cooked(113))),
        ("pcap_cooked_v2", make(0, cooked(276))),
        ("pcapng_le", make(0, pcapng(false))),
        ("pcapng_be", make(0, pcapng(true))),
    ]
}
