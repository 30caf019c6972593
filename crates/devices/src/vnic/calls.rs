//! The hypervisor calls: queues, interrupts, and sends.

use super::device::{Event, VnicServer};
use super::{Entry, queue::Ring};
use doorbell_hal::{Direction, Hcall, HcallReturn, Iova, Port, Reply, Time};
use doorbell_layout::ibmvnic::{
    DESCRIPTOR, MAX_CRQ_BYTES, MAX_INDIRECT, MAX_SUB_CRQ_BYTES, MESSAGE, first, hcall, status,
    vioctl,
};

/// Sub-CRQs of an adapter at the most.
const MAX_SUB_CRQS: usize = 64;
/// Messages that the server keeps: commands on their way, and answers without room.
const MAX_MESSAGES: usize = 256;
/// Units of [`Port::charge`] of a descriptor that is taken, and let go again.
const DESCRIPTOR_UNITS: u64 = 16;

impl VnicServer {
    pub(super) fn call<P: Port>(
        &mut self,
        ports: &mut [P],
        from: usize,
        at: Time,
        c: Hcall,
        a: &[u64; 9],
    ) -> Reply {
        let plain = |s| (HcallReturn::status(s), at);
        if c.0 == hcall::EOI {
            return plain(status::SUCCESS);
        }
        if from >= self.clients.len() || from >= ports.len() {
            return plain(status::PARAMETER);
        }
        let p = &mut ports[from];
        self.flush(p, from, at);
        let known = (hcall::REG_CRQ..=hcall::SEND_CRQ).contains(&c.0) && c.0.is_multiple_of(4)
            || [hcall::VIOCTL, hcall::ENABLE_CRQ].contains(&c.0)
            || (hcall::REG_SUB_CRQ..=hcall::SEND_SUB_CRQ_INDIRECT).contains(&c.0)
                && c.0.is_multiple_of(4);
        if !known {
            return plain(status::FUNCTION);
        }
        if a[0] != self.cfg.unit_address {
            return plain(status::PARAMETER);
        }
        match c.0 {
            hcall::REG_CRQ => plain(self.reg_crq(p, from, a[1], a[2])),
            hcall::FREE_CRQ => match self.busy(from) {
                Some(busy) => plain(busy),
                None => (HcallReturn::status(status::SUCCESS), at.max(self.free_crq(from))),
            },
            hcall::ENABLE_CRQ if self.clients[from].crq.is_none() => plain(status::PARAMETER),
            hcall::ENABLE_CRQ => plain(self.busy(from).unwrap_or_else(|| {
                self.clients[from].migrated = false;
                status::SUCCESS
            })),
            hcall::VIO_SIGNAL => plain(match &mut self.clients[from].crq {
                Some(ring) if a[1] <= 1 => {
                    ring.enable(p, at, a[1] == 1);
                    status::SUCCESS
                }
                _ => status::PARAMETER,
            }),
            hcall::SEND_CRQ => plain(self.send_crq(from, at, a[1], a[2])),
            hcall::VIOCTL => self.vioctl(p, from, at, a),
            hcall::REG_SUB_CRQ => (self.reg_sub_crq(p, from, a[1], a[2]), at),
            hcall::FREE_SUB_CRQ => self.free_sub_crq(from, at, a[1]),
            hcall::SEND_SUB_CRQ => {
                let mut d = [0; DESCRIPTOR];
                for (bytes, word) in d.as_chunks_mut().0.iter_mut().zip(&a[2..6]) {
                    *bytes = word.to_be_bytes();
                }
                p.charge(DESCRIPTOR_UNITS);
                plain(self.send(from, at, a[1], &[d], true))
            }
            _ => self.send_indirect(p, from, at, a),
        }
    }

    /// Writes what had no room in the client's queues.
    fn flush<P: Port>(&mut self, p: &mut P, from: usize, at: Time) {
        let c = &mut self.clients[from];
        if let Some(ring) = c.crq.as_mut().filter(|r| r.waiting() > 0) {
            self.counters.queue_faults += ring.flush(p, at);
        }
        for ring in c.sub.iter_mut().flatten().filter(|r| r.waiting() > 0) {
            self.counters.queue_faults += ring.flush(p, at);
        }
    }

    /// H_BUSY, as often as the configuration says.
    fn busy(&mut self, from: usize) -> Option<i64> {
        let c = &mut self.clients[from];
        let again = c.busy < self.cfg.busy_calls;
        c.busy = if again { c.busy + 1 } else { 0 };
        again.then_some(status::BUSY)
    }

    /// Returns true if a queue can have so many bytes: whole pages of 4 KiB. A kernel makes queues
    /// of its own pages, which may have 64 KiB.
    fn is_size(bytes: u64, most: u64) -> bool {
        bytes > 0 && bytes <= most && bytes.is_multiple_of(4096)
    }

    /// Returns true if a queue can be at `ioba`: on a page, and all of its pages can be reached.
    fn reachable<P: Port>(p: &mut P, ioba: u64, bytes: u64) -> bool {
        let len = u32::try_from(bytes).ok().filter(|_| ioba.checked_add(bytes).is_some());
        ioba.is_multiple_of(4096)
            && len.is_some_and(|n| p.check_access(Iova(ioba), n, Direction::ToDevice).is_ok())
    }

    fn reg_crq<P: Port>(&mut self, p: &mut P, from: usize, ioba: u64, bytes: u64) -> i64 {
        if self.clients[from].crq.is_some() {
            return status::RESOURCE;
        }
        if !VnicServer::is_size(bytes, MAX_CRQ_BYTES) || !VnicServer::reachable(p, ioba, bytes) {
            return status::PARAMETER;
        }
        let c = &mut self.clients[from];
        c.crq = Some(Ring::new(Iova(ioba), bytes, self.cfg.crq_vector));
        // Registered, in either case.
        if c.ready { status::SUCCESS } else { status::CLOSED }
    }

    /// Frees all queues. Returns the time at which everything written has arrived: the memory may
    /// then be used for something else.
    fn free_crq(&mut self, from: usize) -> Time {
        self.end_session(from);
        let c = &mut self.clients[from];
        c.migrated = false;
        let subs = c.sub.drain(..).flatten().map(|ring| ring.written());
        subs.chain(c.crq.take().map(|ring| ring.written())).fold(c.written, Time::max)
    }

    fn send_crq(&mut self, from: usize, at: Time, high: u64, low: u64) -> i64 {
        let mut m = [0; MESSAGE];
        m[..8].copy_from_slice(&high.to_be_bytes());
        m[8..].copy_from_slice(&low.to_be_bytes());
        if m[0] != first::VALID && m[0] != first::HANDSHAKE {
            return status::PARAMETER;
        }
        let c = &mut self.clients[from];
        let Some(ring) = c.crq.as_ref().filter(|_| c.ready && !c.migrated) else {
            return status::CLOSED;
        };
        if c.commands as usize + ring.waiting() >= MAX_MESSAGES {
            return status::DROPPED;
        }
        c.commands += 1;
        c.command_free = c.command_free.max(at) + self.cfg.command;
        let due = c.command_free;
        self.later(from, due, Event::Command(m));
        status::SUCCESS
    }

    fn vioctl<P: Port>(&mut self, p: &mut P, from: usize, at: Time, a: &[u64; 9]) -> Reply {
        let c = &mut self.clients[from];
        let status = match a[1] {
            vioctl::DISABLE_ALL_VIO_INTERRUPTS => {
                c.sub.iter_mut().flatten().for_each(|r| r.enable(p, at, false));
                if let Some(crq) = &mut c.crq {
                    crq.enable(p, at, false);
                }
                status::SUCCESS
            }
            what @ (vioctl::DISABLE_VIO_INTERRUPT | vioctl::ENABLE_VIO_INTERRUPT) => {
                let ring = c.sub.iter_mut().flatten().find(|r| u64::from(r.vector) == a[2]);
                let found = ring.map(|r| r.enable(p, at, what == vioctl::ENABLE_VIO_INTERRUPT));
                found.map_or(status::PARAMETER, |()| status::SUCCESS)
            }
            vioctl::GET_SESSION_TOKEN => {
                let mut ret = [0; 9];
                ret[0] = c.switches + 1;
                return (HcallReturn { status: status::SUCCESS, ret }, at);
            }
            vioctl::SESSION_ERR_DETECTED if c.crq.is_none() || a[2] != c.switches + 1 => {
                status::PARAMETER
            }
            vioctl::SESSION_ERR_DETECTED => {
                self.counters.client_failovers += 1;
                self.fail_over_now(p, from, at);
                status::SUCCESS
            }
            _ => status::FUNCTION,
        };
        (HcallReturn::status(status), at)
    }

    fn reg_sub_crq<P: Port>(
        &mut self,
        p: &mut P,
        from: usize,
        ioba: u64,
        bytes: u64,
    ) -> HcallReturn {
        let sized = VnicServer::is_size(bytes, MAX_SUB_CRQ_BYTES);
        if self.clients[from].crq.is_none() || !sized || !VnicServer::reachable(p, ioba, bytes) {
            return HcallReturn::status(status::PARAMETER);
        }
        let sub = &mut self.clients[from].sub;
        let n = sub.iter().position(Option::is_none).unwrap_or(sub.len());
        if n == MAX_SUB_CRQS {
            return HcallReturn::status(status::RESOURCE);
        }
        if n == sub.len() {
            sub.push(None);
        }
        let vector = self.cfg.first_vector + n as u16;
        sub[n] = Some(Ring::new(Iova(ioba), bytes, vector));
        let mut ret = [0; 9];
        (ret[0], ret[1]) = (n as u64, vector.into());
        HcallReturn { status: status::SUCCESS, ret }
    }

    /// Answers when everything written has arrived.
    fn free_sub_crq(&mut self, from: usize, at: Time, number: u64) -> Reply {
        let written = self.clients[from].written;
        let slot = usize::try_from(number).ok().and_then(|n| self.clients[from].sub.get_mut(n));
        match slot.and_then(Option::take) {
            Some(mut ring) => {
                self.counters.entries_lost += ring.purge() as u64;
                (HcallReturn::status(status::SUCCESS), at.max(ring.written()).max(written))
            }
            None => (HcallReturn::status(status::PARAMETER), at),
        }
    }

    fn send_indirect<P: Port>(&mut self, p: &mut P, from: usize, at: Time, a: &[u64; 9]) -> Reply {
        let [_, handle, ioba, count, ..] = *a;
        let refused = |d: &mut VnicServer| {
            d.counters.refused_parameter += 1;
            (HcallReturn::status(status::PARAMETER), at)
        };
        if count == 0 || count > MAX_INDIRECT {
            return refused(self);
        }
        let mut array = [[0; DESCRIPTOR]; MAX_INDIRECT as usize];
        let entries = &mut array[..count as usize];
        let Ok(read) = p.read(at, Iova(ioba), entries.as_flattened_mut()) else {
            self.counters.dma_faults += 1;
            return refused(self);
        };
        p.charge(count * DESCRIPTOR_UNITS);
        (HcallReturn::status(self.send(from, read, handle, entries, false)), read)
    }

    /// Descriptors for one of the server's queues.
    fn send(&mut self, from: usize, at: Time, handle: u64, entries: &[Entry], direct: bool) -> i64 {
        let c = &self.clients[from];
        let status = if c.crq.is_none() || c.migrated || !c.ready || c.session.failed {
            status::CLOSED
        } else {
            match c.session.handle(handle) {
                Some(Ok(queue)) => self.take(from, at, queue, entries, direct),
                Some(Err(queue)) => self.add_buffers(from, at, queue, entries, direct),
                None => status::PARAMETER,
            }
        };
        match status {
            status::CLOSED => self.counters.refused_closed += 1,
            status::PARAMETER => self.counters.refused_parameter += 1,
            status::RESOURCE => self.counters.refused_resource += 1,
            _ if direct => self.counters.direct_calls += 1,
            _ => self.counters.indirect_calls += 1,
        }
        if status == status::SUCCESS {
            self.counters.descriptors += entries.len() as u64;
        }
        status
    }

    /// Books a call and its first descriptors on the time line behind it; when they are done.
    pub(super) fn book(&mut self, at: Time, direct: bool) -> Time {
        let call = if direct { self.cfg.serial.direct } else { self.cfg.serial.indirect };
        self.serial_free = self.serial_free.max(at) + call;
        self.serial_free
    }
}
