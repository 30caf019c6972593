//! Capture files made by hand, byte by byte, so that the reader is held
//! against the format and not against the writer beside it.

mod link;
mod ng;
mod packed;
mod pcap;
mod write;

use super::{Capture, CaptureError, Fault, Reading};

const PAD: Reading = Reading { pad: true, skip: false, interface: None };
const SKIP: Reading = Reading { pad: false, skip: true, interface: None };

/// Reads a capture whose frames must be whole.
fn read_from(name: &str, from: impl std::io::Read) -> Result<Capture, CaptureError> {
    super::read_from(name, from, Reading::default())
}

/// Bytes in either order.
#[derive(Clone, Copy, Debug)]
struct Order {
    big: bool,
}

const LITTLE: Order = Order { big: false };
const BIG: Order = Order { big: true };

impl Order {
    fn u16(self, v: u16) -> [u8; 2] {
        if self.big { v.to_be_bytes() } else { v.to_le_bytes() }
    }
    fn u32(self, v: u32) -> [u8; 4] {
        if self.big { v.to_be_bytes() } else { v.to_le_bytes() }
    }
    fn i64(self, v: i64) -> [u8; 8] {
        if self.big { v.to_be_bytes() } else { v.to_le_bytes() }
    }
    fn words(self, v: &[u32]) -> Vec<u8> {
        v.iter().flat_map(|&w| self.u32(w)).collect()
    }

    /// A pcap file header; the last two words are snap length and link type.
    fn pcap(self, magic: u32, link: u32) -> Vec<u8> {
        [&self.u32(magic)[..], &self.u16(2), &self.u16(4), &self.words(&[0, 0, 262_144, link])]
            .concat()
    }
    fn record(self, seconds: u32, fraction: u32, data: &[u8]) -> Vec<u8> {
        let n = data.len() as u32;
        [&self.words(&[seconds, fraction, n, n]), data].concat()
    }

    fn block(self, kind: u32, content: &[u8]) -> Vec<u8> {
        let content = padded(content);
        let len = self.u32(12 + content.len() as u32);
        [&self.u32(kind)[..], &len, &content, &len].concat()
    }
    fn section(self) -> Vec<u8> {
        let content =
            [&self.u32(0x1a2b_3c4d)[..], &self.u16(1), &self.u16(0), &self.i64(-1)].concat();
        self.block(0x0a0d_0d0a, &content)
    }
    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        [&self.u16(code)[..], &self.u16(value.len() as u16), &padded(value)].concat()
    }
    fn interface(self, link: u16, snap: u32, options: &[Vec<u8>]) -> Vec<u8> {
        let content = [&self.u16(link)[..], &[0, 0], &self.u32(snap), &options.concat()].concat();
        self.block(1, &content)
    }
    fn enhanced(self, interface: u32, ticks: u64, data: &[u8], options: &[Vec<u8>]) -> Vec<u8> {
        let n = data.len() as u32;
        let head = self.words(&[interface, (ticks >> 32) as u32, ticks as u32, n, n]);
        self.block(6, &[head, padded(data), options.concat()].concat())
    }
    fn simple(self, data: &[u8], original: u32) -> Vec<u8> {
        self.block(3, &[&self.u32(original)[..], data].concat())
    }
    fn old(self, interface: u16, ticks: u64, data: &[u8], options: &[Vec<u8>]) -> Vec<u8> {
        let n = data.len() as u32;
        let head = self.words(&[(ticks >> 32) as u32, ticks as u32, n, n]);
        let first = [self.u16(interface), self.u16(0xffff)].concat();
        self.block(2, &[first, head, padded(data), options.concat()].concat())
    }
}

fn padded(bytes: &[u8]) -> Vec<u8> {
    let mut v = bytes.to_vec();
    v.resize(v.len().next_multiple_of(4), 0);
    v
}

/// A frame of `n` bytes that differs from frames of another `n`.
fn frame(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i + n) as u8).collect()
}

fn good(file: &[Vec<u8>]) -> Capture {
    read_from("x.cap", &file.concat()[..]).unwrap_or_else(|e| panic!("{e}"))
}

/// Returns the error's text.
fn bad(file: &[Vec<u8>]) -> String {
    read_from("x.cap", &file.concat()[..]).expect_err("this file is at fault").to_string()
}

/// Returns the frames as (nanoseconds, bytes).
fn content(c: &Capture) -> Vec<(u64, Vec<u8>)> {
    c.iter().map(|(at, b)| (at, b.to_vec())).collect()
}

/// Checks each prefix of a file. With a frame it is a shorter capture, which says where the file is
/// cut unless that is between two records; without one it is an error at the truncated record.
fn cut_anywhere(records: &[Vec<u8>]) {
    let file = records.concat();
    let starts: Vec<usize> = records
        .iter()
        .scan(0, |at, r| Some(std::mem::replace(at, *at + r.len())))
        .chain([file.len()])
        .collect();
    let whole = good(records);
    for n in 1..file.len() {
        let start = *starts.iter().rfind(|&&s| s < n).expect("0 is a start");
        let between = starts.contains(&n);
        match read_from("x.cap", &file[..n]) {
            Ok(c) => {
                assert_eq!(c.cut_short, Some(start as u64).filter(|_| !between), "cut at {n}");
                assert_eq!(c.frames, whole.frames[..c.frames.len()], "cut at {n}");
            }
            Err(e) => match e.why {
                Fault::Truncated { need, have } => {
                    assert_eq!(
                        (e.offset as usize, start + have as usize),
                        (start, n),
                        "cut at {n}"
                    );
                    assert!(have < need && e.packet == 1);
                }
                Fault::Empty => assert!(between, "cut at {n} is called empty"),
                why => panic!("cut at {n}: {why}"),
            },
        }
    }
}
