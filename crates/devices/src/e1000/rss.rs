//! Receive-side scaling of the 82574: the hash of a frame, its type, and the queue.
//!
//! MRQC says which kinds of frame are hashed: TCP by addresses and ports, any IP by addresses. The
//! hash is Toeplitz's with the key in RSSRK; its lower 7 bits choose a byte of RETA, whose bit 7 is
//! the queue. It needs extended descriptors that have it (RFCTL.EXTEN, RXCSUM.PCSD). Without
//! MRQC.RSS all frames go to queue 0, but those that a bit of MRQC selects have their hash: Linux's
//! e1000e sets the fields alone. Addresses in IPv6 extension headers are not hashed.
//!
//! Source: 82574 7.1.8, 10.2.5.

use doorbell_layout::e1000::{
    MRQC_ENABLE, MRQC_IPV4, MRQC_IPV6, MRQC_IPV6_EX, MRQC_RSS, MRQC_TCP_IPV4, MRQC_TCP_IPV6,
    RETA_QUEUE, RFCTL_IPV6_EX_DIS, RxExtended, reg,
};
use doorbell_packet::headers::{Ip, Layers, Transport};
use doorbell_packet::toeplitz::{KEY, Toeplitz};

/// Bits of MRQC that exist.
const MRQC: u32 = 0x003f_0003;
/// Bytes of an IPv6 header.
const IPV6: u16 = 40;

/// The registers.
#[derive(Clone, Debug, Default)]
pub(super) struct Rss {
    mrqc: u32,
    reta: [u32; reg::RETA_LEN as usize],
    key: [u32; reg::RSSRK_LEN as usize],
    /// Made of the key when a frame is hashed.
    toeplitz: Option<Toeplitz>,
}

/// A frame's hash, the type of what was hashed, and the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Hashed {
    pub(super) value: u32,
    pub(super) kind: u32,
    pub(super) queue: usize,
}

impl Rss {
    /// Returns a register, to be read or written, and the bits of it that exist.
    pub(super) fn register(&mut self, offset: u32) -> Option<(&mut u32, u32)> {
        if offset == reg::MRQC {
            return Some((&mut self.mrqc, MRQC));
        }
        let word = |base: u32| (offset.wrapping_sub(base) / 4) as usize;
        if let Some(word) = self.reta.get_mut(word(reg::RETA)) {
            return Some((word, !0));
        }
        let word = self.key.get_mut(word(reg::RSSRK))?;
        self.toeplitz = None;
        Some((word, !0))
    }

    /// Hashes a frame.
    pub(super) fn hash(&mut self, frame: &[u8], layers: &Layers, rfctl: u32) -> Hashed {
        let kind = self.kind(layers, rfctl);
        if kind == 0 {
            return Hashed::default();
        }
        let key = self.key;
        let toeplitz = self.toeplitz.get_or_insert_with(|| Toeplitz::new(&bytes(&key)));
        let ports = matches!(kind, RxExtended::RSS_TCP_IPV4 | RxExtended::RSS_TCP_IPV6);
        let value = toeplitz.of(frame, layers, ports);
        let entry = self.reta[(value >> 2 & 31) as usize] >> (8 * (value & 3));
        let spreads = self.mrqc & MRQC_ENABLE == MRQC_RSS;
        Hashed { value, kind, queue: usize::from(spreads && entry & RETA_QUEUE != 0) }
    }

    /// Returns the type of what is hashed of such a frame; 0 is nothing.
    fn kind(&self, l: &Layers, rfctl: u32) -> u32 {
        let has = |bit| self.mrqc & bit != 0;
        let tcp = l.transport == Some(Transport::Tcp);
        let extended = l.l4 > l.l3 + IPV6;
        match l.ip {
            Ip::V4 if tcp && has(MRQC_TCP_IPV4) => RxExtended::RSS_TCP_IPV4,
            Ip::V4 if has(MRQC_IPV4) => RxExtended::RSS_IPV4,
            Ip::V4 => 0,
            Ip::V6 if extended && rfctl & RFCTL_IPV6_EX_DIS != 0 => {
                if has(MRQC_IPV6) {
                    RxExtended::RSS_IPV6
                } else {
                    0
                }
            }
            Ip::V6 if tcp && has(MRQC_TCP_IPV6) => RxExtended::RSS_TCP_IPV6,
            Ip::V6 if has(MRQC_IPV6_EX) => RxExtended::RSS_IPV6_EX,
            Ip::V6 if has(MRQC_IPV6) => RxExtended::RSS_IPV6,
            Ip::V6 => 0,
        }
    }
}

/// Returns the bytes of a key in registers.
fn bytes(words: &[u32; reg::RSSRK_LEN as usize]) -> [u8; KEY] {
    core::array::from_fn(|i| words[i / 4].to_le_bytes()[i % 4])
}
