//! Test support: a frame built field by field, and a host of memory and a count of declared work.

use crate::checksum::Sum;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use doorbell_hal::{
    Alignment, Buf, Coherent, CpuWork, Direction, Fence, Host, MapError, Mapped, OutOfMemory, Reg,
    Span, Time, WorkKind,
};
use proptest::prelude::*;

/// The fields of a test frame; `build` makes it, with right checksums.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    pub(crate) v6: bool,
    pub(crate) udp: bool,
    pub(crate) tags: usize,
    /// Bytes of IPv4 options (times of 4) and extension headers of 8 bytes.
    pub(crate) ip_options: usize,
    pub(crate) extensions: usize,
    pub(crate) tcp_options: usize,
    pub(crate) flags: u8,
    pub(crate) id: u16,
    pub(crate) seq: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn tcp4(len: usize) -> Frame {
        Frame {
            v6: false,
            udp: false,
            tags: 0,
            ip_options: 0,
            extensions: 0,
            tcp_options: 0,
            flags: 0x10,
            id: 0xfffe,
            seq: 0xffff_ff00,
            payload: (0..len).map(|i| (i * 7 + i / 251) as u8).collect(),
        }
    }
    pub(crate) fn tcp6(len: usize) -> Frame {
        Frame { v6: true, ..Frame::tcp4(len) }
    }
    pub(crate) fn udp4(len: usize) -> Frame {
        Frame { udp: true, ..Frame::tcp4(len) }
    }
    pub(crate) fn udp6(len: usize) -> Frame {
        Frame { v6: true, ..Frame::udp4(len) }
    }

    /// Header fields are written by offset, as a check on the code under test.
    pub(crate) fn build(&self) -> Vec<u8> {
        let mut f = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2];
        for i in 0..self.tags {
            f.extend([[0x81, 0x00], [0x88, 0xa8]][usize::from(i + 1 < self.tags)]);
            f.extend([0x20, i as u8 + 1]);
        }
        f.extend(if self.v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
        let l4_len = if self.udp { 8 } else { 20 + self.tcp_options } + self.payload.len();
        let proto = if self.udp { 17 } else { 6 };
        let pseudo = if self.v6 {
            let (src, dst) = ([0x21; 16], [0x37; 16]);
            f.extend([0x60, 0x01, 0x23, 0x45]);
            f.extend(((l4_len + 8 * self.extensions) as u16).to_be_bytes());
            f.extend([if self.extensions > 0 { 60 } else { proto }, 64]);
            f.extend(src);
            f.extend(dst);
            for i in 0..self.extensions {
                // Destination options: one PadN.
                f.extend([if i + 1 < self.extensions { 60 } else { proto }, 0, 1, 4, 0, 0, 0, 0]);
            }
            Sum::pseudo_v6(src, dst, proto, l4_len as u32)
        } else {
            let (src, dst) = ([10, 1, 2, 3], [10, 4, 5, 6]);
            let l3 = f.len();
            f.extend([0x45 + (self.ip_options / 4) as u8, 0]);
            f.extend(((20 + self.ip_options + l4_len) as u16).to_be_bytes());
            f.extend(self.id.to_be_bytes());
            f.extend([0x40, 0, 64, proto, 0, 0]);
            f.extend(src);
            f.extend(dst);
            f.extend(vec![1; self.ip_options]);
            let check = Sum::of(&f[l3..]).checksum();
            f[l3 + 10..l3 + 12].copy_from_slice(&check.to_be_bytes());
            Sum::pseudo_v4(src, dst, proto, l4_len as u32)
        };
        let l4 = f.len();
        f.extend([0x12, 0x34, 0x56, 0x78]);
        if self.udp {
            f.extend((l4_len as u16).to_be_bytes());
            f.extend([0, 0]);
        } else {
            f.extend(self.seq.to_be_bytes());
            f.extend(0x0102_0304u32.to_be_bytes());
            f.extend([(5 + self.tcp_options / 4) as u8 * 16, self.flags, 0x11, 0x22, 0, 0, 0, 0]);
            f.extend(vec![1; self.tcp_options]);
        }
        f.extend(&self.payload);
        let sum = pseudo.plus(Sum::of(&f[l4..]));
        let (at, check) =
            if self.udp { (l4 + 6, sum.udp_checksum()) } else { (l4 + 16, sum.checksum()) };
        f[at..at + 2].copy_from_slice(&check.to_be_bytes());
        f
    }
}

/// Frames of every kind, with a payload whose length is in `len`.
pub(crate) fn any_frame(len: Range<usize>) -> impl Strategy<Value = Frame> {
    (
        any::<(bool, bool)>(),
        0..3usize,
        (0..11usize, 0..3usize, 0..11usize),
        (
            prop::sample::select(vec![0x10u8, 0x18, 0x11, 0x19, 0x90, 0xd9, 0x50]),
            any::<u16>(),
            any::<u32>(),
        ),
        prop::collection::vec(any::<u8>(), len),
    )
        .prop_map(|((v6, udp), tags, (ip, extensions, tcp), (flags, id, seq), payload)| {
            Frame {
                v6,
                udp,
                tags,
                ip_options: ip * 4,
                extensions,
                tcp_options: tcp * 4,
                flags,
                id,
                seq,
                payload,
            }
        })
}

/// A machine with buffers and nothing else.
#[derive(Default)]
pub(crate) struct Bare {
    bufs: Vec<Option<Vec<u8>>>,
    /// Declared work, by kind, in its unit.
    pub(crate) work: [u64; WorkKind::ALL.len()],
    /// Buffers that may yet be had; `None` for no end.
    pub(crate) left: Option<u32>,
}

impl Bare {
    pub(crate) fn buf(&mut self, bytes: &[u8]) -> Buf {
        let b = self.buffer(bytes.len() as u32, Alignment::ANY).unwrap();
        self.bytes_mut(&b, 0..b.len(), |to| to.copy_from_slice(bytes));
        b
    }
    pub(crate) fn live(&self) -> usize {
        self.bufs.iter().flatten().count()
    }
    pub(crate) fn worked(&self, k: WorkKind) -> u64 {
        self.work[k as usize]
    }
}

impl Host for Bare {
    fn buffer(&mut self, len: u32, _: Alignment) -> Result<Buf, OutOfMemory> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1).ok_or(OutOfMemory)?;
        }
        self.bufs.push(Some(vec![0xee; len as usize]));
        let token = self.bufs.len() as u32 - 1;
        Ok(Buf::from_parts(0x10_0000 * u64::from(token), len, token))
    }
    fn release(&mut self, b: Buf) {
        assert!(self.bufs[b.token() as usize].take().is_some());
    }
    fn bytes<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&[u8]) -> R) -> R {
        self.bytes_mut(b, range, |bytes| f(bytes))
    }
    fn copy(&mut self, _: &Buf, _: Range<u32>, _: &Coherent, _: u32) {
        unreachable!("no device here")
    }
    fn bytes_mut<R>(&mut self, b: &Buf, range: Range<u32>, f: impl FnOnce(&mut [u8]) -> R) -> R {
        let buf = self.bufs[b.token() as usize].as_mut().unwrap();
        f(&mut buf[range.start as usize..range.end as usize])
    }
    fn charge(&mut self, w: CpuWork) {
        self.work[w.kind() as usize] += u64::from(w.amount());
    }
    fn read32(&mut self, _: Reg) -> u32 {
        unreachable!("no device here")
    }
    fn write32(&mut self, _: Reg, _: u32) {
        unreachable!("no device here")
    }
    fn write64(&mut self, _: Reg, _: u64) {
        unreachable!("no device here")
    }
    fn map(&mut self, _: Buf, _: Range<u32>, _: Direction) -> Result<Mapped, MapError> {
        unreachable!("no device here")
    }
    fn unmap(&mut self, _: Mapped) -> Buf {
        unreachable!("no device here")
    }
    fn coherent(&mut self, _: u32, _: u32) -> Result<Coherent, OutOfMemory> {
        unreachable!("no device here")
    }
    fn release_coherent(&mut self, _: Coherent) {
        unreachable!("no device here")
    }
    fn load<T: zerocopy::FromBytes>(&mut self, _: &Coherent, _: u32) -> T {
        unreachable!("no device here")
    }
    fn store<T: zerocopy::IntoBytes + zerocopy::Immutable>(&mut self, _: &Coherent, _: u32, _: T) {
        unreachable!("no device here")
    }
    fn fence(&mut self, _: Fence) {}
    fn relax(&mut self) {}
    fn delay(&mut self, _: Span) {}
    fn now(&self) -> Time {
        Time::ZERO
    }
}
