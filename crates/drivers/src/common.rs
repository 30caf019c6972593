//! Parts that several drivers share: ring indices, memory within reach of a device, fragments
//! that are mapped and taken back, packets that are done, offloads in software, and counters.

mod offload;

pub(crate) use offload::{Plan, Room, Segment, SegmentQueue, SendSegments, plan, plan_of};

use crate::{OpenError, Opened, Sink};
use alloc::vec::Vec;
use doorbell_hal::{Buf, Coherent, CpuWork, Direction, Host, Mapped, Span};
use doorbell_packet::{Fragment, Packet};

/// Declares a type of counters: each field with its documentation, and all of them by name.
///
/// With `from BLOCK`, a field may name its register in that module.
macro_rules! counters {
    ($(#[$meta:meta])* $name:ident { $($field:ident $(in $unit:ident)?: $doc:literal,)* }) => {
        doorbell_hal::counters! { $(#[$meta])* struct $name; $($field $(in $unit)?: $doc,)* }
    };
    (
        $(#[$meta:meta])* $name:ident from $block:ident {
            $($field:ident $(= $register:ident)? $(in $unit:ident)?: $doc:literal,)*
        }
    ) => {
        $crate::common::counters! { $(#[$meta])* $name { $($field $(in $unit)?: $doc,)* } }

        impl $name {
            /// Adds what `read` returns for each register, in the order of declaration.
            pub(super) fn accumulate(&mut self, mut read: impl FnMut(u32) -> u64) {
                $($(self.$field += read($block::$register);)?)*
            }
        }
    };
}
pub(crate) use counters;

/// Returns the ring index after `i` of `count`.
#[inline(always)]
pub(crate) const fn next(i: u32, count: u32) -> u32 {
    if i + 1 == count { 0 } else { i + 1 }
}

/// Returns the ring index before `i` of `count`.
#[inline(always)]
pub(crate) const fn previous(i: u32, count: u32) -> u32 {
    if i == 0 { count - 1 } else { i - 1 }
}

/// Returns the free descriptors of a ring of `count`: one always stays empty.
pub(crate) const fn unused(next: u32, clean: u32, count: u32) -> u32 {
    (if clean > next { 0 } else { count }) + clean - next - 1
}

/// Allocates memory that both sides use. Fails where `reachable` says that the device cannot
/// address it.
pub(crate) fn coherent<H: Host>(
    h: &mut H,
    (len, align): (u32, u32),
    reachable: impl FnOnce(u64, u32) -> bool,
) -> Opened<Coherent> {
    let area = h.coherent(len, align)?;
    if reachable(area.iova().0, area.len()) {
        return Ok(area);
    }
    h.release_coherent(area);
    Err(OpenError::Address)
}

/// Returns both values, or undoes `a` if `b` is an error.
pub(crate) fn both<A, B, E>(a: A, b: Result<B, E>, undo: impl FnOnce(A)) -> Result<(A, B), E> {
    match b {
        Ok(b) => Ok((a, b)),
        Err(e) => {
            undo(a);
            Err(e)
        }
    }
}

/// Returns whether `len` bytes at `at` end within an address space of `bits` bits.
pub(crate) const fn within(bits: u8, at: u64, len: u32) -> bool {
    match at.checked_add(len as u64) {
        Some(end) => bits >= 64 || (end - 1) >> bits == 0,
        None => false,
    }
}

/// Polls until `done`, with `pause` in between. Returns whether that was within `limit` of the
/// host's time.
pub(crate) fn wait<H: Host>(
    h: &mut H,
    limit: Span,
    pause: impl Fn(&mut H),
    mut done: impl FnMut(&mut H) -> bool,
) -> bool {
    let limit = h.now() + limit;
    while !done(h) {
        if h.now() >= limit {
            return false;
        }
        pause(h);
    }
    true
}

/// Copies a packet to a coherent area, from `at` on.
pub(crate) fn copy_packet<H: Host>(h: &mut H, p: &Packet, area: &Coherent, mut at: u32) {
    for f in p.pieces() {
        h.copy(&f.buf, f.start..f.start + f.len, area, at);
        at += f.len;
    }
    h.charge(CpuWork::Copy(p.len()));
}

/// Maps a fragment for transmission. Returns it when that fails.
#[inline(always)]
pub(crate) fn map<H: Host>(h: &mut H, f: Fragment) -> Result<Mapped, Fragment> {
    let Fragment { buf, start, len } = f;
    let mapped = h.map(buf, start..start + len, Direction::ToDevice);
    mapped.map_err(|e| Fragment { buf: e.buf, start, len })
}
pub(crate) fn unmap<H: Host>(h: &mut H, m: Mapped) -> Fragment {
    let (start, len) = (m.range().start, m.len());
    Fragment { buf: h.unmap(m), start, len }
}

/// Maps a receive buffer; releases it when that fails or the device cannot reach it.
pub(crate) fn map_rx<H: Host>(
    h: &mut H,
    buf: Buf,
    dir: Direction,
    reachable: impl FnOnce(u64, u32) -> bool,
) -> Option<Mapped> {
    let len = buf.len();
    h.charge(CpuWork::Map);
    match h.map(buf, 0..len, dir) {
        Ok(m) if reachable(m.iova().0, len) => return Some(m),
        Ok(m) => discard(h, m),
        Err(e) => h.release(e.buf),
    }
    None
}

/// Unmaps a buffer and releases it.
pub(crate) fn discard<H: Host>(h: &mut H, m: Mapped) {
    let buf = h.unmap(m);
    h.release(buf);
}

/// A fragment without a buffer, in the place of one that is mapped.
pub(crate) const fn vacant() -> Fragment {
    Fragment::whole(Buf::from_parts(0, 0, 0))
}

/// Buffers of packets that are done, each with its packet's cookie and a mark on the last one,
/// until a poll passes them up.
#[derive(Debug, Default)]
pub(crate) struct DoneList(Vec<(Buf, u32, bool)>);

impl DoneList {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn push(&mut self, buf: Buf, cookie: u32, last: bool) {
        self.0.push((buf, cookie, last));
    }

    /// Adds all buffers of a packet.
    pub(crate) fn push_packet(&mut self, p: Packet) {
        complete_packet(p, |buf, cookie, last| self.push(buf, cookie, last));
    }

    /// Passes all buffers up. Returns how many packets they were.
    pub(crate) fn complete_tx<S: Sink>(&mut self, up: &mut S) -> u32 {
        let mut packets = 0;
        for (buf, cookie, last) in self.0.drain(..) {
            packets += u32::from(last);
            up.sent(buf, cookie, last);
        }
        packets
    }

    pub(crate) fn release<H: Host>(self, h: &mut H) {
        self.0.into_iter().for_each(|(buf, ..)| h.release(buf));
    }
}

/// Passes each buffer of a packet to `sent`, in order.
pub(crate) fn complete_packet(p: Packet, mut sent: impl FnMut(Buf, u32, bool)) {
    let cookie = p.cookie;
    let mut fragments = p.into_fragments().peekable();
    while let Some(f) = fragments.next() {
        sent(f.buf, cookie, fragments.peek().is_none());
    }
}

#[cfg(test)]
mod tests;
