//! Parts that the fuzz targets share: inputs of actions, frames, guest memory, seeds.
//!
//! An input is a byte for each choice of a target's configuration, and then actions. An action is a
//! byte for its kind and its fields in order, little-endian, so that a mutation of a byte is one of
//! a field. [`Encode`] writes what [`Arbitrary`] reads; seeds are made so. An input that ends early
//! goes on as zeros.

pub mod axi_ethernet_mmio;
pub(crate) mod e1000_guest;
pub mod e1000_mmio;
pub mod files;
pub mod pcap_read;

use crate::{device, hcalls, mlx5, settings, vfio_user};
use arbitrary::{Arbitrary, Unstructured};
use doorbell_conformance::frames;
use doorbell_hal::{DmaFault, DmaFaultKind, Iova, Port, Span, Time};

/// A seed: the name of its file, and its bytes.
pub type Seed = (&'static str, Vec<u8>);

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, in `fuzz/Cargo.toml` too.
    pub name: &'static str,
    /// The body.
    pub attack: fn(&[u8]),
    /// The seeds: `fuzz/seeds/NAME` holds the same.
    pub seeds: fn() -> Vec<Seed>,
}

macro_rules! targets {
    ($($name:literal: $($at:ident)::+,)*) => {
        &[$(Target {
            name: $name,
            attack: |bytes| _ = $($at)::+::attack(bytes),
            seeds: $($at)::+::seeds,
        }),*]
    };
}

/// The targets of this crate.
pub const TARGETS: &[Target] = targets! {
    "axi_ethernet_mmio": axi_ethernet_mmio,
    "driver_axienet": device::axienet,
    "driver_e1000": device::e1000,
    "driver_ibmveth": device::ibmveth,
    "driver_ibmvnic": device::ibmvnic,
    "driver_mlx5": device::mlx5,
    "e1000_mmio": e1000_mmio,
    "hcalls": hcalls,
    "mlx5_device": mlx5,
    "pcap_read": pcap_read,
    "settings": settings,
    "vfio_user": vfio_user,
};

/// Writes what [`Arbitrary`] reads.
pub trait Encode {
    /// Appends the bytes from which this value is read.
    fn encode(&self, out: &mut Vec<u8>);
}

macro_rules! encode_numbers {
    ($($t:ty),*) => {$(
        impl Encode for $t {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
        }
    )*};
}
encode_numbers!(u8, u16, u32, u64);

impl Encode for bool {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push((*self).into());
    }
}

impl<const N: usize> Encode for [u8; N] {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self);
    }
}

/// Up to 255 bytes, behind their number.
#[derive(Clone, Debug, Default)]
pub struct Bytes(pub Vec<u8>);

impl<'a> Arbitrary<'a> for Bytes {
    fn arbitrary(u: &mut Unstructured<'a>) -> arbitrary::Result<Bytes> {
        let n = usize::from(u.arbitrary::<u8>()?).min(u.len());
        u.bytes(n).map(|b| Bytes(b.to_vec()))
    }
}

impl Encode for Bytes {
    fn encode(&self, out: &mut Vec<u8>) {
        let n = self.0.len().min(255);
        out.push(n as u8);
        out.extend(&self.0[..n]);
    }
}

/// Declares the actions of a target, or a record of fields, with the two ways between them and
/// bytes.
macro_rules! input {
    ($(#[$m:meta])* pub enum $name:ident {
        $($(#[$vm:meta])* $v:ident { $($(#[$fm:meta])* $f:ident: $t:ty),* $(,)? },)*
    }) => {
        $(#[$m])*
        #[derive(Clone, Debug)]
        pub enum $name { $($(#[$vm])* $v { $($(#[$fm])* $f: $t),* },)* }

        impl<'a> arbitrary::Arbitrary<'a> for $name {
            fn arbitrary(u: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<$name> {
                const KINDS: &[fn(&mut arbitrary::Unstructured<'_>) -> arbitrary::Result<$name>] =
                    &[$(|_u| Ok($name::$v { $($f: _u.arbitrary()?),* }),)*];
                KINDS[usize::from(u.arbitrary::<u8>()?) % KINDS.len()](u)
            }
        }

        impl $crate::fuzz::Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                #[allow(clippy::enum_variant_names, reason = "the names are the actions'")]
                enum Kind { $($v,)* }
                match self {
                    $($name::$v { $($f),* } => {
                        out.push(Kind::$v as u8);
                        $($crate::fuzz::Encode::encode($f, out);)*
                    })*
                }
            }
        }
    };
    ($(#[$m:meta])* pub struct $name:ident { $($(#[$fm:meta])* $f:ident: $t:ty,)* }) => {
        $(#[$m])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name { $($(#[$fm])* pub $f: $t,)* }

        impl<'a> arbitrary::Arbitrary<'a> for $name {
            fn arbitrary(u: &mut arbitrary::Unstructured<'a>) -> arbitrary::Result<$name> {
                Ok($name { $($f: u.arbitrary()?),* })
            }
        }

        impl $crate::fuzz::Encode for $name {
            fn encode(&self, out: &mut Vec<u8>) {
                $($crate::fuzz::Encode::encode(&self.$f, out);)*
            }
        }
    };
}
pub(crate) use input;

/// Encodes a seed: the configuration's bytes and the actions.
pub(crate) fn seed<A: Encode>(head: &[u8], actions: &[A]) -> Vec<u8> {
    let mut out = head.to_vec();
    actions.iter().for_each(|a| a.encode(&mut out));
    out
}

/// Reads the next action, until the input is at its end.
pub(crate) fn next<'a, A: Arbitrary<'a>>(u: &mut Unstructured<'a>) -> Option<A> {
    if u.is_empty() { None } else { u.arbitrary().ok() }
}

input! {
    /// A frame in few bytes.
    pub struct Frame {
        /// Bits, see the constants.
        kind: u8,
        /// Bytes of payload.
        payload: u16,
        /// With [`Frame::DAMAGED`]: this byte is changed,
        at: u8,
        /// by these bits.
        bits: u8,
    }
}

impl Frame {
    /// Bits of `kind`: IPv6, not IPv4.
    pub const V6: u8 = 1;
    /// UDP, not TCP.
    pub const UDP: u8 = 2;
    /// A VLAN tag.
    pub const TAGGED: u8 = 4;
    /// To a multicast group, to everybody (both bits), or to a stranger; else to the station.
    pub const MULTICAST: u8 = 8;
    /// See [`Frame::MULTICAST`].
    pub const STRANGER: u8 = 16;
    /// Both bits.
    pub const BROADCAST: u8 = 24;
    /// No IP.
    pub const PLAIN: u8 = 32;
    /// A byte is changed: a wrong checksum, another header.
    pub const DAMAGED: u8 = 64;
    /// A MAC control frame: a pause.
    pub const PAUSE: u8 = 128;

    /// A frame of this kind with so much payload.
    pub const fn new(kind: u8, payload: u16) -> Frame {
        Frame { kind, payload, at: 0, bits: 0 }
    }

    /// Returns its bytes, toward `station`, with `most` bytes of payload at the most.
    pub(crate) fn bytes(&self, station: [u8; 6], most: usize) -> Vec<u8> {
        let has = |bit| self.kind & bit != 0;
        let to = match (has(Frame::MULTICAST), has(Frame::STRANGER)) {
            (false, false) => station,
            (true, false) => [0x01, 0, 0x5e, 0, 0, self.at],
            (false, true) => [0x02, 0, 0, 0, 0x77, self.at],
            (true, true) => [0xff; 6],
        };
        let payload = usize::from(self.payload) % (most + 1);
        let mut f = match () {
            () if has(Frame::PAUSE) => {
                let quanta = self.payload.to_be_bytes();
                let to = [0x01, 0x80, 0xc2, 0, 0, 1];
                [&to[..], &frames::PEER, &[0x88, 0x08, 0, 1], &quanta, &[0; 42]].concat()
            }
            () if has(Frame::PLAIN) => frames::plain(to, 14 + payload),
            () => frames::ip(to, !has(Frame::V6), has(Frame::UDP), payload),
        };
        if has(Frame::TAGGED) {
            f = frames::tagged(&f, u16::from(self.at) << 8 | 5);
        }
        if has(Frame::DAMAGED) {
            let at = usize::from(self.at) % f.len();
            f[at] ^= self.bits;
        }
        f
    }
}

/// A guest's memory and interrupt lines behind a device, with what holds for any device: time does
/// not go back, accesses are of 1 byte to 32 KiB, lines change when they are said to.
#[derive(Debug)]
pub(crate) struct Memory {
    pub(crate) bytes: Vec<u8>,
    /// Addresses wrap instead of failing.
    pub(crate) wraps: bool,
    /// Another CPU of the guest writes: two reads of one place may differ.
    pub(crate) racing: Option<u8>,
    /// Duration of an access.
    pub(crate) price: Span,
    /// The time of the last access.
    pub(crate) latest: Time,
    pub(crate) lines: Vec<bool>,
    /// Accesses that succeeded or failed.
    pub(crate) accesses: u64,
    /// Frames sent, and the longest.
    pub(crate) frames: u64,
    pub(crate) longest: usize,
    /// Times that a line rose.
    pub(crate) interrupts: u64,
}

impl Memory {
    /// Bytes of it.
    pub(crate) const SIZE: usize = 1 << 16;

    pub(crate) fn new(lines: usize) -> Memory {
        Memory {
            bytes: vec![0; Memory::SIZE],
            wraps: false,
            racing: None,
            price: Span::ZERO,
            latest: Time::ZERO,
            lines: vec![false; lines],
            accesses: 0,
            frames: 0,
            longest: 0,
            interrupts: 0,
        }
    }

    /// Writes as the guest does, as far as there is memory.
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        let at = at.min(Memory::SIZE);
        let n = bytes.len().min(Memory::SIZE - at);
        self.bytes[at..at + n].copy_from_slice(&bytes[..n]);
    }

    fn place(&mut self, at: Time, a: Iova, len: usize) -> Result<usize, DmaFault> {
        assert!(at >= self.latest, "time goes back");
        // A frame of all of the AXI core's receive memory at the most.
        assert!(len > 0 && len <= 32 << 10, "an access of {len} bytes");
        self.latest = at;
        self.accesses += 1;
        if self.wraps {
            return Ok(a.0 as usize % (Memory::SIZE - len));
        }
        let end = (a.0 as usize).checked_add(len).filter(|&end| end <= Memory::SIZE);
        end.map(|end| end - len).ok_or(DmaFault { at: a, kind: DmaFaultKind::Unmapped })
    }
}

impl Port for Memory {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        let start = self.place(at, from, into.len())?;
        into.copy_from_slice(&self.bytes[start..start + into.len()]);
        if let Some(n) = &mut self.racing {
            *n = n.wrapping_mul(29).wrapping_add(7);
            self.bytes[start + usize::from(*n) % into.len()] ^= *n;
        }
        Ok(at + self.price)
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let start = self.place(at, to, from.len())?;
        self.bytes[start..start + from.len()].copy_from_slice(from);
        Ok(at + self.price)
    }
    fn set_irq_line(&mut self, _: Time, n: u16, high: bool) {
        let line = &mut self.lines[usize::from(n)];
        assert!(high != *line, "line {n} changes");
        *line = high;
        self.interrupts += u64::from(high);
    }
    fn raise_msi(&mut self, _: Time, _: u16) {
        self.interrupts += 1;
    }
    fn emit(&mut self, _: Time, frame: &[u8]) {
        assert!(!frame.is_empty());
        self.frames += 1;
        self.longest = self.longest.max(frame.len());
    }
}
