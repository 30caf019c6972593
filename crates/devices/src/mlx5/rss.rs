//! Receive-side scaling: TIRs, the hash, and the table that turns it into a queue.
//!
//! A TIR names a receive queue, or hashes the selected fields that the frame has and takes the
//! queue from an RQT. Toeplitz is Microsoft's; symmetric, OR and XOR replace each pair of which
//! both are selected (ethtool's `symmetric-or-xor`). Inverted XOR8 is the XOR of all bytes; its
//! index has the bits reversed (`mlx5e_bits_invert`). Inner headers and IPsec SPI are not modelled.

use super::steering::Fields;
use alloc::vec::Vec;
use doorbell_layout::mlx5::receive::{hash_field, rss_type};
use doorbell_packet::headers::{Ip, Transport};
use doorbell_packet::toeplitz::{INPUT, KEY, Toeplitz};
use zerocopy::byteorder::big_endian::U16;

/// log2 of the longest RQT (ETH `rss_ind_tbl_cap`).
pub(crate) const LOG_MAX_RQT: u8 = 11;

/// The hash functions of a TIR (`rx_hash_fn`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum HashFn {
    /// None: the first entry of the RQT.
    None = 0,
    /// All bytes XORed.
    InvertedXor8 = 1,
    Toeplitz = 2,
}

/// Destination of a TIR's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dispatch {
    /// To this RQ (`inline_rqn`).
    Direct(u32),
    /// To one of the RQs in this RQT.
    Indirect(u32),
}

/// Context of a TIR (the fields used of `tirc`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TirContext {
    /// Destination of frames.
    pub(crate) dispatch: Dispatch,
    pub(crate) function: HashFn,
    /// Fields to hash: `rx_hash_field_selector_outer`, see [`hash_field`].
    pub(crate) fields: u32,
    /// Both directions alike.
    pub(crate) symmetric: bool,
    pub(crate) key: [u8; KEY],
    /// Frames of the function itself that are let in:
    /// [`self_lb_block`](doorbell_layout::mlx5::receive::self_lb_block).
    pub(crate) self_lb_block: u8,
    pub(crate) transport_domain: u32,
}

impl TirContext {
    /// A TIR that names an RQ.
    pub(crate) const fn direct(rqn: u32) -> TirContext {
        TirContext {
            dispatch: Dispatch::Direct(rqn),
            function: HashFn::None,
            fields: 0,
            symmetric: false,
            key: [0; KEY],
            self_lb_block: 0,
            transport_domain: 0,
        }
    }
}

/// A TIR with its key made ready.
#[derive(Debug)]
pub(crate) struct Tir {
    pub(super) ctx: TirContext,
    toeplitz: Option<Toeplitz>,
}

impl Tir {
    pub(crate) fn new(ctx: TirContext) -> Tir {
        Tir { ctx, toeplitz: (ctx.function == HashFn::Toeplitz).then(|| Toeplitz::new(&ctx.key)) }
    }
}

/// An indirection table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rqt {
    /// RQ numbers; as many as its actual size, not none.
    pub(crate) rqns: Vec<u32>,
}

/// Hash of a frame: fields and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hash {
    pub(crate) value: u32,
    /// [`rss_type`] bits; 0: nothing was hashed.
    pub(crate) kind: u8,
}

/// The bytes that a TIR hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Input {
    bytes: [u8; INPUT],
    len: usize,
    kind: u8,
}

impl Input {
    /// A source and a destination, those of them that are selected.
    fn pair(&mut self, t: &TirContext, src: (u32, &[u8]), dst: (u32, &[u8])) -> bool {
        let (with_src, with_dst) = (t.fields & src.0 != 0, t.fields & dst.0 != 0);
        if t.symmetric && with_src && with_dst {
            let n = src.1.len();
            let [or, xor] = self.room([n, n]);
            for (i, (s, d)) in src.1.iter().zip(dst.1).enumerate() {
                (or[i], xor[i]) = (s | d, s ^ d);
            }
        } else {
            let bytes =
                [(with_src, src.1), (with_dst, dst.1)].map(|(is, of)| if is { of } else { &[] });
            let [of_src, of_dst] = self.room(bytes.map(<[u8]>::len));
            of_src.copy_from_slice(bytes[0]);
            of_dst.copy_from_slice(bytes[1]);
        }
        with_src || with_dst
    }

    /// Takes room for two more pieces.
    fn room(&mut self, [a, b]: [usize; 2]) -> [&mut [u8]; 2] {
        let (a, b) = self.bytes[self.len..][..a + b].split_at_mut(a);
        self.len += a.len() + b.len();
        [a, b]
    }

    fn of(t: &TirContext, f: &Fields) -> Input {
        let mut input = Input { bytes: [0; INPUT], len: 0, kind: 0 };
        let Some(h) = f.headers else { return input };
        let o = &f.outer;
        let v4 = h.ip == Ip::V4;
        let (start, ip) = if v4 { (12, rss_type::IPV4) } else { (0, rss_type::IPV6) };
        if v4 == (t.fields & hash_field::IPV6 != 0) {
            return input;
        }
        if input.pair(
            t,
            (hash_field::SRC_IP, &o.src_ip[start..]),
            (hash_field::DST_IP, &o.dst_ip[start..]),
        ) {
            input.kind |= ip;
        }
        let wants_udp = t.fields & hash_field::UDP != 0;
        let (sport, dport, l4) = match h.transport {
            Some(Transport::Tcp) if !wants_udp => (&o.tcp_sport, &o.tcp_dport, rss_type::TCP),
            Some(Transport::Udp) if wants_udp => (&o.udp_sport, &o.udp_dport, rss_type::UDP),
            _ => return input,
        };
        let (sport, dport) = (sport.to_bytes(), dport.to_bytes());
        if input.pair(t, (hash_field::L4_SPORT, &sport), (hash_field::L4_DPORT, &dport)) {
            input.kind |= l4;
        }
        input
    }
}

/// Returns ones in all fields that a hash may depend on, beside the kinds of a frame's headers.
pub(crate) fn hashed() -> Fields {
    let mut f = Fields::of(&[]);
    let (port, ip) = (U16::MAX_VALUE, [u8::MAX; 16]);
    let o = &mut f.outer;
    (o.tcp_sport, o.tcp_dport, o.udp_sport, o.udp_dport) = (port, port, port, port);
    (o.src_ip, o.dst_ip) = (ip, ip);
    f
}

/// Hashes a frame as `t` says.
pub(crate) fn select(t: &Tir, f: &Fields) -> Hash {
    if t.ctx.function == HashFn::None {
        return Hash::default();
    }
    let input = Input::of(&t.ctx, f);
    let bytes = &input.bytes[..input.len];
    if bytes.is_empty() {
        return Hash::default();
    }
    let value = match &t.toeplitz {
        Some(key) => key.hash(bytes),
        None => u32::from(bytes.iter().fold(0, |a, b| a ^ b)),
    };
    Hash { value, kind: input.kind }
}

impl Rqt {
    #[inline]
    pub(crate) fn queue(&self, function: HashFn, hash: Hash) -> Option<u32> {
        let len = self.rqns.len() as u32;
        let at = hash.value.checked_rem(len)?;
        let at = match function {
            // Of a table that is no power of two, what lies behind it is its end.
            HashFn::InvertedXor8 if len > 1 => {
                (at.reverse_bits() >> (len - 1).leading_zeros()).min(len - 1)
            }
            _ => at,
        };
        self.rqns.get(at as usize).copied()
    }
}

#[cfg(test)]
mod tests;
