//! The Toeplitz hash of receive-side scaling, as Microsoft defines it ("RSS hashing functions").

use crate::headers::{Ip, Layers};
use alloc::boxed::Box;

/// Bytes of a key.
pub const KEY: usize = 40;
/// Bytes of the longest input: two IPv6 addresses and two ports.
pub const INPUT: usize = 36;
/// The key of Microsoft's examples.
pub const MICROSOFT: [u8; KEY] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key as 72 tables: the sum that each value of each half byte of the input adds.
#[derive(Clone, Debug)]
pub struct Toeplitz(Box<[[u32; 16]; 2 * INPUT]>);

impl Toeplitz {
    /// Makes the tables of a key.
    pub fn new(key: &[u8; KEY]) -> Toeplitz {
        let mut tables = Box::new([[0; 16]; 2 * INPUT]);
        for (place, table) in tables.iter_mut().enumerate() {
            for (value, sum) in table.iter_mut().enumerate() {
                *sum = (0..4)
                    .filter(|bit| value >> (3 - bit) & 1 != 0)
                    .map(|bit| window(key, 4 * place + bit))
                    .fold(0, |a, b| a ^ b);
            }
        }
        Toeplitz(tables)
    }

    /// Returns the hash of `input`. Bytes beyond [`INPUT`] have no effect.
    #[inline]
    pub fn hash(&self, input: &[u8]) -> u32 {
        let mut sum = 0;
        for (byte, tables) in input.iter().zip(self.0.as_chunks::<2>().0) {
            sum ^= tables[0][usize::from(byte >> 4)] ^ tables[1][usize::from(byte & 0xf)];
        }
        sum
    }

    /// Returns the hash of a frame's flow: of its IP addresses and of its TCP or UDP ports. A frame
    /// without IP has 0; a fragment has no ports.
    pub fn flow(&self, frame: &[u8]) -> u32 {
        Layers::of(frame).map_or(0, |layers| self.of(frame, &layers, true))
    }

    /// Returns the hash of a frame's IP addresses, and with `ports` of its TCP or UDP ports.
    pub fn of(&self, frame: &[u8], layers: &Layers, ports: bool) -> u32 {
        let (addresses, bytes) = match layers.ip {
            Ip::V4 => (usize::from(layers.l3) + 12, 8),
            Ip::V6 => (usize::from(layers.l3) + 8, 32),
        };
        let ports = if ports && layers.transport.is_some() { 4 } else { 0 };
        let l4 = usize::from(layers.l4);
        let parts = [frame.get(addresses..addresses + bytes), frame.get(l4..l4 + ports)];
        let (mut input, mut len) = ([0; INPUT], 0);
        for part in parts.into_iter().flatten() {
            input[len..len + part.len()].copy_from_slice(part);
            len += part.len();
        }
        self.hash(&input[..len])
    }
}

/// Returns the 32 bits of a key from bit `at`.
fn window(key: &[u8; KEY], at: usize) -> u32 {
    let byte = |i: usize| u64::from(key.get(i).copied().unwrap_or(0));
    let five = (0..5).fold(0, |bits, i| bits << 8 | byte(at / 8 + i));
    (five >> (8 - at % 8)) as u32
}

#[cfg(test)]
mod tests;
