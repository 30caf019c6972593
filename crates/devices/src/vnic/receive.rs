//! Receive: buffers from the client, frames from the wire.
//!
//! A frame takes the next buffer of its queue, behind the server's offset. A buffer outside its
//! long-term buffer, or out of reach, comes back with a return code. So do all buffers when the
//! client takes its link down: no document says it, but Linux's driver posts no others afterwards.
//! Checksum flags tell only of protocols that the client switched on. IPv6's header flag goes with
//! the switch, for a driver trusts both flags or none.

use super::Entry;
use super::device::{Event, VnicServer};
use crate::common::spread;
use alloc::vec::Vec;
use doorbell_hal::{DropReason, Port, RxVerdict, Time};
use doorbell_layout::ibmvnic::{RxAdd, RxComp, first, offload, rc, rx, status, well_formed};
use doorbell_packet::ethernet::{ADDRESSES, Cast, HEADER};
use doorbell_packet::headers::{Check, Ip, Layers, Transport, verify};
use doorbell_packet::vlan;
use zerocopy::byteorder::big_endian::{U16, U32};

impl VnicServer {
    /// Takes an array of receive buffers.
    pub(super) fn add_buffers(
        &mut self,
        client: usize,
        at: Time,
        queue: usize,
        entries: &[Entry],
        direct: bool,
    ) -> i64 {
        let c = &mut self.clients[client];
        let room = c.session.queues.as_ref().map(|q| c.rx_room(&q.rx[queue]));
        let (Some(room), Some(queues)) = (room, &mut c.session.queues) else {
            return status::PARAMETER;
        };
        if !well_formed(entries, true) {
            return status::PARAMETER;
        }
        if entries.len() as u64 > room {
            return status::RESOURCE;
        }
        let q = &mut queues.rx[queue];
        q.posted.extend(entries.iter().map(|e| RxAdd::of(*e)));
        self.counters.rx_buffers += entries.len() as u64;
        self.counters.rx_add_calls += 1;
        self.book(at, direct);
        self.serial_free += self.cfg.serial.descriptor * entries.len() as u64;
        status::SUCCESS
    }

    /// A frame from the wire, for every client that wants it.
    pub(super) fn arrive(&mut self, at: Time, frame: &mut Vec<u8>) -> RxVerdict {
        if frame.len() < HEADER {
            return RxVerdict::Dropped(DropReason::Malformed);
        }
        let mut outcome = RxVerdict::Dropped(DropReason::Filter);
        let clients = self.clients.len();
        let mut next = (0..clients).find(|c| self.wants(*c, frame));
        while let Some(client) = next {
            next = (client + 1..clients).find(|c| self.wants(*c, frame));
            self.counters.rx_offered += 1;
            let taken = self.arrive_at(client, at, frame, next.is_none());
            if outcome != RxVerdict::Yes {
                outcome = taken;
            }
        }
        self.counters.rx_filtered += u64::from(outcome == RxVerdict::Dropped(DropReason::Filter));
        outcome
    }

    fn wants(&self, client: usize, frame: &[u8]) -> bool {
        let c = &self.clients[client];
        let to = &frame[..6];
        if c.session.granted.promisc != 0 || to == c.mac {
            return true;
        }
        match Cast::of(to) {
            Cast::Unicast => false,
            Cast::Multicast => {
                c.session.all_multicast || c.session.multicast.iter().any(|a| a == to)
            }
            Cast::Broadcast => true,
        }
    }

    /// A frame for a client. After the `last` one its buffer is not needed.
    fn arrive_at(&mut self, client: usize, at: Time, frame: &mut Vec<u8>, last: bool) -> RxVerdict {
        let c = &mut self.clients[client];
        let s = &mut c.session;
        let up = c.carrier && s.link_up;
        let Some(queues) = s.queues.as_mut().filter(|_| up) else {
            self.counters.rx_off += 1;
            return RxVerdict::Dropped(DropReason::Off);
        };
        let tag = if vlan::tag(frame).is_some() { vlan::TAG } else { 0 };
        if frame.len() > s.granted.mtu as usize + tag {
            self.counters.rx_malformed += 1;
            c.received.errors += 1;
            return RxVerdict::Dropped(DropReason::Malformed);
        }
        let queue = queue_of(frame, queues.rx.len());
        let server = &self.cfg.servers[c.active];
        let needed = frame.len() + usize::from(server.rx_offset);
        let posted = &mut queues.rx[queue].posted;
        let Some(buffer) = posted.front().copied().filter(|b| b.len() as usize >= needed) else {
            self.counters.rx_no_buffer += 1;
            c.received.errors += 1;
            return RxVerdict::Dropped(DropReason::NoBuffer);
        };
        posted.pop_front();
        self.serial_free = self.serial_free.max(at) + self.cfg.serial.receive;
        let due = self.serial_free;
        let frame = if last { self.spare.exchange(frame) } else { self.spare.copy(frame) };
        self.later(client, due, Event::Deliver { queue, buffer, frame });
        RxVerdict::Yes
    }

    /// Writes a frame and its completion.
    pub(super) fn deliver<P: Port>(
        &mut self,
        p: &mut P,
        client: usize,
        at: Time,
        queue: usize,
        buffer: RxAdd,
        frame: &mut Vec<u8>,
    ) {
        let c = &mut self.clients[client];
        let server = self.cfg.servers[c.active];
        let tci = vlan::tag(frame).filter(|_| server.vlan_strip);
        if tci.is_some() {
            frame.drain(ADDRESSES..ADDRESSES + vlan::TAG);
        }
        let s = &c.session;
        let offset = u64::from(server.rx_offset);
        let (len, cast) = (frame.len(), Cast::of(frame));
        let exact = s.multicast.iter().any(|a| a == &frame[..6]);
        let flags = checked(frame, &s.offloads) | if exact { rx::EXACT_MC } else { 0 };
        // Inside its buffer, which is inside the long-term buffer.
        let place = s.maps.get(&buffer.map_id).and_then(|m| {
            m.range(buffer.ioba.get().into(), buffer.len().into())?;
            m.range(u64::from(buffer.ioba.get()) + offset, len as u64)
        });
        let written = place.and_then(|to| c.wrote(p.write_buffer(at, to, frame)));
        let poisoned = p.begin_completion(at);
        let mut m =
            RxComp { first: first::VALID, correlator: buffer.correlator, ..RxComp::default() };
        if written.is_some() && !poisoned {
            m.flags = rx::END_FRAME | flags;
            m.off_frame_data = U16::new(server.rx_offset);
            m.len = U32::new(len as u32);
            if let Some(tci) = tci {
                m.flags |= rx::VLAN_STRIPPED;
                m.vlan_tci = U16::new(tci);
            }
            self.counters.rx_packets += 1;
            self.counters.rx_bytes += len as u64;
            c.received.count(len, cast);
        } else {
            m.rc = U16::new(rc::INVALID_IOBA.into());
            self.counters.rx_faults += 1;
            c.received.errors += 1;
        }
        let ring = c.session.queues.as_ref().map(|q| q.rx[queue].ring);
        match ring.and_then(|n| c.sub.get_mut(n)).and_then(Option::as_mut) {
            Some(ring) => {
                self.counters.queue_faults += ring.put(p, written.unwrap_or(at), m.bytes());
            }
            None => self.counters.entries_lost += 1,
        }
    }
}

impl VnicServer {
    /// The client has taken its link down: its buffers go back to it, each with a code and without
    /// a frame.
    pub(super) fn return_buffers<P: Port>(&mut self, p: &mut P, client: usize, at: Time) {
        let c = &mut self.clients[client];
        let Some(queues) = c.session.queues.as_mut() else { return };
        for q in &mut queues.rx {
            while let Some(buffer) = q.posted.pop_front() {
                let rc = U16::new(rc::ABORTED.into());
                let (first, correlator) = (first::VALID, buffer.correlator);
                let m = RxComp { first, correlator, rc, ..RxComp::default() };
                self.counters.rx_buffers_returned += 1;
                match c.sub.get_mut(q.ring).and_then(Option::as_mut) {
                    Some(ring) => self.counters.queue_faults += ring.put(p, at, m.bytes()),
                    None => self.counters.entries_lost += 1,
                }
                if p.is_spent() {
                    return self.go_on(client, Event::ReturnBuffers);
                }
            }
        }
    }
}

fn checked(frame: &[u8], on: &[bool; 8]) -> u8 {
    let Ok(layers) = Layers::of(frame) else { return 0 };
    let verdict = verify(frame);
    let v6 = layers.ip == Ip::V6;
    let ip = if v6 { on[offload::IPV6] } else { on[offload::IPV4] && verdict.ip == Check::Good };
    let switch = match (layers.transport, v6) {
        (Some(Transport::Tcp), false) => on[offload::TCP4],
        (Some(Transport::Tcp), true) => on[offload::TCP6],
        (Some(Transport::Udp), false) => on[offload::UDP4],
        (Some(Transport::Udp), true) => on[offload::UDP6],
        (None, _) => false,
    };
    let transport = switch && verdict.transport == Check::Good;
    (if ip { rx::IP_CHKSUM_GOOD } else { 0 }) | if transport { rx::TCP_UDP_CHKSUM_GOOD } else { 0 }
}

/// Returns which of `n` queues a frame goes to: one flow, one queue.
pub fn queue_of(frame: &[u8], n: usize) -> usize {
    if n <= 1 {
        return 0;
    }
    let Ok(layers) = Layers::of(frame) else { return 0 };
    let (l3, l4) = (usize::from(layers.l3), usize::from(layers.l4));
    let addresses = if layers.ip == Ip::V6 { l3 + 8..l3 + 40 } else { l3 + 12..l3 + 20 };
    let ports = if layers.transport.is_some() { l4..l4 + 4 } else { l4..l4 };
    // The servers' hash is not public.
    spread(frame[addresses].iter().chain(&frame[ports]).copied(), n)
}
