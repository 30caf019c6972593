//! Delivery into a partition's memory: a buffer, an entry of the receive queue, an interrupt.
//!
//! The buffer's first 8 bytes, the driver's correlator, are copied into the entry. The frame lies
//! at 8, or of a large packet at 16 behind its mss. Toggle and flags are written last, for polling
//! drivers. A buffer that is no longer mapped goes back without a frame, if the queue can be
//! reached. A queue that cannot be reached or is overwritten keeps its place (PAPR, "Receive
//! Queue").

use super::{adapter::Adapter, pools::Buffer};
use crate::common::bad;
use doorbell_hal::{DmaFault, Iova, Port, Time};
use doorbell_layout::ibmveth::{CORRELATOR, Descriptor, ENTRY, Entry, MSS_LEN, buffer_list};
use doorbell_packet::checksum::Sum;
use doorbell_packet::ethernet::ADDRESSES;
use doorbell_packet::headers::{Layers, verify};
use doorbell_packet::vlan::{TAG, TPID};
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U32, U64};

/// A frame for one receiver, in two pieces, the first with both addresses at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    pub(super) head: &'a [u8],
    pub(super) payload: &'a [u8],
    /// A tag to be inserted (TCI).
    pub(super) tag: Option<u16>,
    /// [`Entry::NO_CSUM`], [`Entry::CSUM_GOOD`].
    pub(super) flags: u32,
    /// A large packet, and its mss.
    pub(super) large: Option<u16>,
}

impl Frame<'_> {
    /// Bytes with the tag.
    pub(super) fn len(&self) -> usize {
        self.head.len() + self.payload.len() + if self.tag.is_some() { TAG } else { 0 }
    }

    /// Returns 1 if one of its checksums is wrong, else 0.
    pub(super) fn bad(&self) -> u64 {
        if self.payload.is_empty() {
            return bad(verify(self.head));
        }
        let Ok(l) = Layers::of(self.head) else { return 0 };
        let l4 = usize::from(l.l4);
        let len = self.head.len() - l4 + self.payload.len();
        let sum = l
            .pseudo_header(self.head, len as u32)
            .plus(Sum::of(&self.head[l4..]))
            .plus(Sum::of(self.payload));
        u64::from(!sum.is_intact())
    }

    /// Returns its offset in a buffer.
    fn offset(&self) -> u32 {
        CORRELATOR + if self.large.is_some() { MSS_LEN } else { 0 }
    }

    /// Its pieces, the tag among them.
    pub(super) fn pieces<'a>(&'a self, tag: &'a mut [u8; TAG]) -> [&'a [u8]; 4] {
        let Some(tci) = self.tag else { return [self.head, &[], &[], self.payload] };
        let [a, b] = TPID.to_be_bytes();
        let [c, d] = tci.to_be_bytes();
        *tag = [a, b, c, d];
        let (addresses, rest) = self.head.split_at(ADDRESSES.min(self.head.len()));
        [addresses, tag, rest, self.payload]
    }
}

/// Success of a delivery, and the time at which all is done.
pub(super) type RxVerdict = (bool, Time);

impl Adapter {
    /// Puts a frame into the partition's memory.
    pub(super) fn take<P: Port>(&mut self, p: &mut P, at: Time, f: &Frame<'_>) -> RxVerdict {
        let need = u64::from(f.offset()) + f.len() as u64;
        let Some(b) = self.pools.take(need) else {
            self.counters.rx_no_buffer += 1;
            self.no_buffer += 1;
            let counter = Iova(u64::from(self.list) + u64::from(buffer_list::RX_NO_BUFFER));
            // A buffer list that is gone has nobody to tell.
            self.wrote(p.write(at, counter, U64::new(self.no_buffer).as_bytes()));
            return (false, at);
        };
        let Ok(done) = fill(p, at, b, f) else {
            self.counters.rx_bad_buffer += 1;
            return (false, self.enqueue(p, at, b, 0, 0).1);
        };
        self.wrote(Ok(done));
        if p.begin_completion(done) {
            self.counters.rx_bad_buffer += 1;
            return (false, self.enqueue(p, done, b, 0, 0).1);
        }
        let large = if f.large.is_some() { Entry::LRG_PKT } else { 0 };
        let flags = Entry::VALID | f.flags | large | f.offset();
        let lost = self.counters.rx_lost_entry;
        let (entered, done) = self.enqueue(p, done, b, flags, f.len() as u32);
        self.counters.rx_bad_buffer += u64::from(!entered && lost == self.counters.rx_lost_entry);
        if entered {
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += f.len() as u64;
            self.counters.rx_large += u64::from(f.large.is_some());
        }
        (entered, done)
    }

    /// Adds an entry to the receive queue, with the toggle's state and the buffer's correlator.
    pub(super) fn enqueue<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        b: Buffer,
        flags: u32,
        length: u32,
    ) -> RxVerdict {
        let mut correlator = [0; CORRELATOR as usize];
        // A buffer that cannot be read has no correlator to tell it by: none that a driver can have
        // given.
        let known = p.read(at, Iova(b.ioba.into()), &mut correlator);
        let (read, flags, length) = match known {
            Ok(read) => (read, flags, length),
            Err(_) => {
                correlator = [0xff; CORRELATOR as usize];
                (at, 0, 0)
            }
        };
        let toggle = if self.queue.toggle { 0 } else { Entry::TOGGLE };
        let entry = Entry {
            flags: U32::new(flags | toggle),
            length: U32::new(length),
            correlator: U64::new(u64::from_be_bytes(correlator)),
        };
        let place = Iova(u64::from(self.queue.ioba) + u64::from(self.queue.at));
        let (control, rest) = entry.as_bytes().split_at(1);
        let written = p.write_parts(read, place, &[(1, rest), (0, control)]);
        self.wrote(written);
        let done = *written.as_ref().unwrap_or(&read);
        self.queue.at += ENTRY;
        if self.queue.at >= self.queue.len {
            (self.queue.at, self.queue.toggle) = (0, !self.queue.toggle);
            let list = Iova(self.list.into());
            self.wrote(p.write(done, list, self.queue_descriptor().as_bytes()));
        }
        self.counters.rx_lost_entry += u64::from(written.is_err());
        (written.is_ok() && known.is_ok(), done)
    }

    /// Notes the arrival of a write, if it was made.
    fn wrote(&mut self, arrival: Result<Time, DmaFault>) {
        self.written = arrival.map_or(self.written, |at| self.written.max(at));
    }

    /// The receive queue's descriptor, as the buffer list has it.
    pub(super) fn queue_descriptor(&self) -> U64 {
        let toggle = if self.queue.toggle { Descriptor::TOGGLE } else { 0 };
        U64::new(Descriptor::new(toggle, self.queue.len, self.queue.ioba).0)
    }
}

/// Writes a frame, and the mss of a large one, behind the correlator.
fn fill<P: Port>(p: &mut P, at: Time, b: Buffer, f: &Frame<'_>) -> Result<Time, DmaFault> {
    let mut tag = [0; TAG];
    let mss = f.large.map(|mss| U64::new(mss.into()));
    let mss = mss.as_ref().map_or(&[][..], IntoBytes::as_bytes);
    let [first, second, third, last] = f.pieces(&mut tag);
    let mut end = 0;
    let parts = [mss, first, second, third, last].map(|part| {
        let offset = end;
        end += part.len() as u64;
        (offset, part)
    });
    p.write_parts(at, Iova(u64::from(b.ioba) + u64::from(CORRELATOR)), &parts)
}
