//! Transmit: from a descriptor to the wire, and the completion back.
//!
//! An array that is malformed (types, counts, valid bytes) is refused whole with H_PARAMETER, since
//! there is no status for one entry. An error of a frame is in its completion, which only a
//! descriptor with `COMP_NEEDED` has. A queue takes what was granted and one array more: the driver
//! looks for room only after it has added an array.

use super::Entry;
use super::device::{Completion, Event, VnicServer};
use super::headers::Headers;
use crate::common::{FRAME, bad};
use alloc::vec::Vec;
use doorbell_hal::{Port, Time, fail_if, transfer_units};
use doorbell_layout::ibmvnic::{
    MAX_COMPLETIONS, Tx, TxComp, cause, desc_req, first, offload, rc, status, tx, well_formed,
};
use doorbell_packet::ethernet::{self, HEADER};
use doorbell_packet::headers::{Ip, Layers, Transport, verify};
use doorbell_packet::segment::Segments;
use doorbell_packet::{Gso, vlan};
use zerocopy::byteorder::big_endian::{U16, U32};

/// Bytes of the shortest segment of a large send, so that one is not thousands of frames. Linux has
/// none shorter than 224 (`ibmvnic_features_check`).
const MIN_SEGMENT: u16 = 64;

/// A frame to be sent.
#[derive(Debug)]
pub(super) struct TxRequest {
    /// Time at which the time line behind the call has done with it.
    pub(super) ready: Time,
    queue: usize,
    desc: Tx,
    pub(super) headers: Headers,
}

impl TxRequest {
    pub(super) fn wants_report(&self) -> bool {
        self.desc.flags1 & tx::COMP_NEEDED != 0
    }
    /// Its byte of the header request.
    fn wanted(&self, request: [u8; 8]) -> u8 {
        let f = self.desc.flags1;
        let kind = if f & tx::LSO != 0 {
            desc_req::LSO
        } else if f & tx::CHKSUM_OFFLOAD != 0 {
            desc_req::CHECKSUM
        } else {
            desc_req::PLAIN
        };
        request[kind]
    }
}

impl VnicServer {
    /// Takes an array of transmit descriptors.
    pub(super) fn take(
        &mut self,
        client: usize,
        at: Time,
        queue: usize,
        entries: &[Entry],
        direct: bool,
    ) -> i64 {
        if !well_formed(entries, false) {
            return status::PARAMETER;
        }
        let c = &mut self.clients[client];
        let room = c.session.queues.as_ref().map(|q| c.tx_room(&q.tx[queue]));
        let (Some(room), Some(queues)) = (room, &mut c.session.queues) else {
            return status::PARAMETER;
        };
        if entries.len() as u64 > room {
            return status::RESOURCE;
        }
        queues.tx[queue].outstanding += entries.len() as u64;
        self.book(at, direct);
        let mut rest = entries;
        while let Some(&d) = rest.first() {
            let desc = Tx::of(d);
            let n = usize::from(desc.n_crq_elem);
            let memory = if n > 1 { self.spare.take() } else { Vec::new() };
            let headers = Headers::parse(&rest[1..n], memory).unwrap_or_default();
            let bytes = headers.data.len() as u64;
            self.counters.header_bytes += bytes;
            self.counters.tx_taken += 1;
            let serial = self.cfg.serial;
            self.serial_free += serial.descriptor * n as u64 + serial.header_byte * bytes;
            let ready = self.serial_free;
            self.clients[client].tx.push_back(TxRequest { ready, queue, desc, headers });
            rest = &rest[n..];
        }
        status::SUCCESS
    }

    /// Fetches the client's next frame and puts it on the wire.
    pub(super) fn fetch<P: Port>(&mut self, ports: &mut [P], client: usize, at: Time) {
        let Some(job) = self.clients[client].tx.pop_front() else { return };
        let Some(p) = ports.get_mut(client) else { return };
        // What it held before is written over, so it is not cleared.
        let mut frame = self.spare.reuse();
        let fetched = self.read(p, client, at, &job, &mut frame);
        let outcome =
            fetched.and_then(|t| self.process(client, &job, &mut frame).map(|gso| (t, gso)));
        let c = &mut self.clients[client];
        match outcome {
            Ok((t, gso)) if c.carrier && c.session.link_up && !c.frozen[c.active] => {
                let frame = core::mem::take(&mut frame);
                p.charge(FRAME * transfer_units(frame.len()));
                let end = self.put_on_wire(p, client, t, &job, frame, gso);
                self.finish(client, end, &job, rc::SUCCESS);
            }
            Ok(_) => {
                self.counters.tx_discarded += 1;
                self.finish(client, at, &job, rc::SUCCESS);
            }
            Err(Refusal::Adapter) => {
                // The packet is lost with its session.
                self.counters.tx_lost += 1;
                self.counters.completions_lost += u64::from(job.wants_report());
                self.error(p, client, at, (cause::ADAPTER, true));
            }
            Err(Refusal::Code(code)) => {
                self.counters.tx_errors += 1;
                c.sent.errors += 1;
                self.finish(client, at, &job, code);
            }
        }
        self.spare.push(frame);
        self.spare.push(job.headers.data);
    }

    fn finish(&mut self, client: usize, at: Time, job: &TxRequest, code: u8) {
        let done = Completion {
            queue: job.queue,
            correlator: job.desc.correlator.get(),
            rc: code.into(),
            entries: job.desc.n_crq_elem.into(),
            report: job.wants_report(),
        };
        self.later(client, at, Event::Done(done));
    }

    /// Reads the frame; nothing outside its long-term buffer.
    fn read<P: Port>(
        &mut self,
        p: &mut P,
        client: usize,
        at: Time,
        job: &TxRequest,
        frame: &mut Vec<u8>,
    ) -> Result<Time, Refusal> {
        let c = &self.clients[client];
        let (d, s) = (&job.desc, &c.session);
        let len = u64::from(d.sge_len.get());
        let lso = d.flags1 & tx::LSO != 0;
        let tag = if d.flags1 & tx::VLAN_PRESENT != 0 { vlan::TAG as u64 } else { 0 };
        let longest =
            if lso { u64::from(self.cfg.servers[c.active].max_large_tx) } else { s.granted.mtu }
                + tag;
        fail_if(d.n_sge != 1, Refusal::Code(rc::UNSUPPORTED_OPTION))?;
        fail_if(len < HEADER as u64 || len > longest, Refusal::Code(rc::INVALID_LENGTH))?;
        let map = u8::try_from(d.dma_reg.get()).ok().and_then(|id| s.maps.get(&id));
        let map = map.ok_or(Refusal::Code(rc::PARAMETER))?;
        let from = map.range(d.ioba.get(), len).ok_or(Refusal::Code(rc::INVALID_IOBA))?;
        frame.resize(len as usize, 0);
        p.read(at, from, frame).map_err(|_| {
            self.counters.dma_faults += 1;
            Refusal::Code(rc::INVALID_IOBA)
        })
    }

    /// Looks at the headers and completes the checksum; for a large send, how to cut it.
    fn process(
        &mut self,
        client: usize,
        job: &TxRequest,
        frame: &mut [u8],
    ) -> Result<Option<Gso>, Refusal> {
        let c = &self.clients[client];
        let server = &self.cfg.servers[c.active];
        let wanted = job.wanted(server.desc_req);
        if wanted & desc_req::WANTED == 0 {
            self.counters.headers_unasked += u64::from(job.headers.any());
        } else if !job.headers.any() {
            self.counters.headers_missing += 1;
            fail_if(server.backing_needs_headers, Refusal::Adapter)?;
        } else if !job.headers.are(wanted, frame) {
            self.counters.headers_bad += 1;
            let ends = server.backing_needs_headers;
            return Err(if ends { Refusal::Adapter } else { Refusal::Code(rc::PARAMETER) });
        }
        let d = &job.desc;
        if d.flags2 & tx::VLAN_INSERT != 0 && !server.vlan_insert {
            return Err(Refusal::Code(rc::UNSUPPORTED_OPTION));
        }
        let on = c.session.offloads;
        if d.flags1 & (tx::LSO | tx::CHKSUM_OFFLOAD) == 0 {
            return Ok(None);
        }
        let wrong = Refusal::Code(rc::PARAMETER);
        let layers = Layers::of(frame).map_err(|_| wrong)?;
        let transport = layers.transport.filter(|_| !layers.source_routed).ok_or(wrong)?;
        let v6 = layers.ip == Ip::V6;
        let said =
            [tx::PROT_IPV4, tx::PROT_IPV6, tx::PROT_TCP, tx::PROT_UDP].map(|f| d.flags1 & f != 0);
        if said != [!v6, v6, transport == Transport::Tcp, transport == Transport::Udp] {
            return Err(wrong);
        }
        if d.flags1 & tx::LSO != 0 {
            let kind = layers.gso_kind().filter(|_| transport == Transport::Tcp);
            let allowed = on[if v6 { offload::LARGE_TX6 } else { offload::LARGE_TX4 }];
            let kind = kind.filter(|_| allowed).ok_or(Refusal::Code(rc::UNSUPPORTED_OPTION))?;
            let gso = Gso { kind, size: d.mss.get(), header: layers.end };
            fail_if(gso.size < MIN_SEGMENT, wrong)?;
            // A segment that is too long for the port is the driver's fault.
            let longest = u64::from(layers.end) + u64::from(gso.size);
            if longest > self.clients[client].session.granted.mtu + vlan::TAG as u64 {
                return Err(Refusal::Code(rc::INVALID_LENGTH));
            }
            Segments::new(frame, gso).map_err(|_| wrong)?;
            if gso.size < server.min_lso_mss {
                let c = &mut self.clients[client];
                c.frozen[c.active] = true;
                self.counters.lso_freezes += 1;
            }
            self.counters.large_sends += 1;
            return Ok(Some(gso));
        }
        let which = match (transport, v6) {
            (Transport::Tcp, false) => offload::TCP4,
            (Transport::Tcp, true) => offload::TCP6,
            (Transport::Udp, false) => offload::UDP4,
            (Transport::Udp, true) => offload::UDP6,
        };
        fail_if(!on[which], Refusal::Code(rc::UNSUPPORTED_OPTION))?;
        // The field's content is not asked for (tcp_pseudosum_req is 0); padding is not summed.
        let end = layers.datagram(frame).ok_or(wrong)?.end;
        let partial = layers.partial().ok_or(wrong)?;
        let pseudo = layers.pseudo_header(frame, (end - usize::from(layers.l4)) as u32).value();
        frame[partial.field()..partial.field() + 2].copy_from_slice(&pseudo.to_be_bytes());
        partial.complete(&mut frame[..end]).map_err(|_| wrong)?;
        self.counters.tx_checksums += 1;
        self.counters.wire_bad_checksums += bad(verify(frame));
        Ok(None)
    }

    /// Books the frame, or its segments, on the wire; when the last bit has left.
    fn put_on_wire<P: Port>(
        &mut self,
        p: &mut P,
        client: usize,
        at: Time,
        job: &TxRequest,
        frame: Vec<u8>,
        gso: Option<Gso>,
    ) -> Time {
        let insert = (job.desc.flags2 & tx::VLAN_INSERT != 0).then_some(job.desc.vlan_id.get());
        self.clients[client].leaving += 1;
        let Some(mut segments) = gso.and_then(|g| Segments::new(&frame, g).ok()) else {
            return self.book_wire(client, at, frame, insert, true);
        };
        let (mut left, longest) = (segments.plan().count(), segments.plan().longest());
        let mut end = at;
        loop {
            let mut segment = self.spare.reuse();
            segment.resize(longest, 0);
            let Some(n) = segments.next_into(&mut segment) else {
                self.spare.push(segment);
                break;
            };
            segment.truncate(n);
            p.charge(transfer_units(n));
            self.counters.wire_bad_checksums += bad(verify(&segment));
            left -= 1;
            end = self.book_wire(client, at, segment, insert, left == 0);
        }
        self.spare.push(frame);
        end
    }

    fn book_wire(
        &mut self,
        client: usize,
        at: Time,
        mut bytes: Vec<u8>,
        insert: Option<u16>,
        last: bool,
    ) -> Time {
        if let Some(tci) = insert {
            let mut tagged = self.spare.reuse();
            tagged.resize(bytes.len() + vlan::TAG, 0);
            vlan::insert_into(&mut tagged, &bytes, tci);
            self.spare.push(core::mem::replace(&mut bytes, tagged));
        }
        let c = &mut self.clients[client];
        let start = c.wire_free.max(at);
        let end = start + self.cfg.wire_byte * ethernet::wire_bytes(1, bytes.len() as u64);
        c.wire_free = end;
        self.later(client, start, Event::Frame { bytes, last });
        end
    }

    // ---- completions ----

    /// A frame's descriptors are free again, and its completion is to be reported if it is wanted.
    pub(super) fn done<P: Port>(&mut self, p: &mut P, client: usize, at: Time, c: &Completion) {
        let queue = c.queue;
        let Some(q) = self.clients[client].session.queues.as_mut().map(|q| &mut q.tx[queue]) else {
            return;
        };
        q.outstanding -= c.entries;
        if !c.report {
            return;
        }
        q.done.push((c.correlator, c.rc));
        match q.done.len() {
            MAX_COMPLETIONS => self.report(p, client, at, queue),
            1 => self.later(client, at + self.cfg.completion_wait, Event::Report { queue }),
            _ => {}
        }
    }

    /// Writes a completion message of what is done.
    pub(super) fn report<P: Port>(&mut self, p: &mut P, client: usize, at: Time, queue: usize) {
        let c = &mut self.clients[client];
        let Some(q) = c.session.queues.as_mut().map(|q| &mut q.tx[queue]) else { return };
        if q.done.is_empty() {
            return;
        }
        let n = q.done.len();
        let mut m = TxComp { first: first::VALID, num_comps: n as u8, ..TxComp::default() };
        for (i, (correlator, code)) in q.done.drain(..).enumerate() {
            m.correlators[i] = U32::new(correlator);
            m.rcs[i] = U16::new(code);
        }
        match c.sub.get_mut(q.ring).and_then(Option::as_mut) {
            Some(ring) => {
                if p.begin_completion(at) && m.rcs[0].get() == rc::SUCCESS.into() {
                    m.rcs[0] = U16::new(rc::PARAMETER.into());
                }
                self.counters.queue_faults += ring.put(p, at, m.bytes());
                self.counters.completions += n as u64;
                self.counters.completion_messages += 1;
            }
            None => self.counters.completions_lost += n as u64,
        }
    }
}

/// Reason for not sending a frame.
#[derive(Clone, Copy, Debug)]
enum Refusal {
    /// In its completion.
    Code(u8),
    /// The session is over.
    Adapter,
}
