//! The calls that register, lend buffers and set an adapter up.

use super::adapter::{Adapter, Queue, State};
use super::attributes::{self, Change};
use super::device::{H_CONSTRAINED, Veth};
use super::multicast::{self, Multicast};
use super::pools::{Buffer, Pools};
use doorbell_hal::{Direction, HcallReturn, Iova, Port, Reply, Span, Time};
use doorbell_layout::ibmveth::*;
use zerocopy::{IntoBytes, big_endian::U64};

/// Bits of a command of H_MULTICAST_CTRL.
const COMMAND: u64 = {
    use doorbell_layout::ibmveth::multicast::*;
    RECEIVE_MODIFY | RECEIVE_ENABLE | FILTER_MODIFY | FILTER_ENABLE | TABLE
};

/// The longest receive buffer. No frame fills it, and each of its pages has to be looked up.
pub(super) const BUFFER_MAX: u32 = 128 << 10;

/// Returns true if `len` bytes at `ioba` are in the 32-bit address space, aligned, and mapped to be
/// written. Then they can be read too, because an entry of the table never forbids that.
fn mapped<P: Port>(p: &mut P, ioba: u64, len: u32, align: u32) -> bool {
    ioba.checked_add(len.into()).is_some_and(|end| end <= 1 << 32)
        && ioba.is_multiple_of(u64::from(align))
        && len.is_multiple_of(align)
        && p.check_access(Iova(ioba), len, Direction::FromDevice).is_ok()
}

impl Adapter {
    /// H_REGISTER_LOGICAL_LAN.
    pub(super) fn register<P: Port>(&mut self, p: &mut P, at: Time, a: &[u64; 9]) -> (i64, Time) {
        let [_, list, queue, filter, address, ..] = *a;
        let q = Descriptor(queue);
        if self.state != State::Closed {
            return (status::H_RESOURCE, at);
        }
        let pages = mapped(p, list, PAGE, PAGE) && mapped(p, filter, PAGE, PAGE);
        if !pages || !q.is_valid() || q.is_empty() || !mapped(p, q.ioba().into(), q.len(), ENTRY) {
            return (status::H_PARAMETER, at);
        }
        // Both pages begin empty; then the two descriptors that the architecture names.
        let filter_descriptor = U64::new(Descriptor::new(0, PAGE, filter as u32).0);
        let (list, filter) = (list as u32, filter as u32);
        self.queue = Queue { ioba: q.ioba(), len: q.len(), at: 0, toggle: false };
        let page = [0; PAGE as usize];
        let written = [(filter, &page[..]), (list, &page[..])]
            .into_iter()
            .chain([
                (list + buffer_list::RX_QUEUE, self.queue_descriptor().as_bytes()),
                (list + buffer_list::FILTER, filter_descriptor.as_bytes()),
            ])
            .try_fold(at, |at, (to, bytes)| p.write(at, Iova(to.into()), bytes));
        let Ok(done) = written else { return (status::H_PARAMETER, at) };
        self.state = State::Open;
        self.signal = false;
        (self.list, self.filter, self.no_buffer) = (list, filter, 0);
        self.pools = Pools::default();
        self.multicast = Multicast::default();
        self.mac = mac_bytes(address);
        (status::H_SUCCESS, done)
    }

    /// H_FREE_LOGICAL_LAN: from the first call on nothing comes in and nothing interrupts. It
    /// answers when everything written has arrived, because the memory may then be used for
    /// something else.
    pub(super) fn free(&mut self, at: Time, buffers: u32) -> (i64, Time) {
        if self.state == State::Closed {
            return (status::H_RESOURCE, at);
        }
        let at = at.max(self.written);
        self.state = State::Closing;
        self.signal = false;
        self.notify = None;
        self.late.clear();
        self.suspended = None;
        if !self.pools.release(buffers) {
            return (status::H_BUSY, at);
        }
        self.state = State::Closed;
        self.mac = self.cfg.mac;
        (status::H_SUCCESS, at)
    }

    /// H_ADD_LOGICAL_LAN_BUFFER and _BUFFERS: all of them or none.
    pub(super) fn add<P: Port>(&mut self, p: &mut P, descriptors: &[u64], max: u32) -> i64 {
        let valid = descriptors.iter().map(|d| Descriptor(*d)).take_while(|d| d.is_valid());
        let sound = |d: Descriptor| {
            (BUFFER_MIN..=BUFFER_MAX).contains(&d.len())
                && mapped(p, d.ioba().into(), d.len(), BUFFER_ALIGN)
        };
        let n = valid.clone().count();
        if n == 0 || !valid.clone().all(sound) {
            return status::H_PARAMETER;
        }
        if !self.is_open() {
            return status::H_RESOURCE;
        }
        for (done, d) in valid.clone().enumerate() {
            if !self.pools.add(Buffer { ioba: d.ioba(), size: d.len() }, max) {
                valid.take(done).for_each(|d| self.pools.undo(d.len()));
                return status::H_RESOURCE;
            }
        }
        self.counters.buffers_added += n as u64;
        status::H_SUCCESS
    }

    /// H_FREE_LOGICAL_LAN_BUFFER: a buffer of that size comes back through the receive queue.
    pub(super) fn give_back<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        size: u64,
        interrupt: Span,
    ) -> (i64, Time) {
        let Some(b) = self.pools.take_of(size).filter(|_| self.is_open()) else {
            return (status::H_NOT_FOUND, at);
        };
        self.counters.buffers_returned += 1;
        let (_, done) = self.enqueue(p, at, b, 0, 0);
        self.signal(p, done, interrupt);
        (status::H_SUCCESS, done)
    }

    /// H_MULTICAST_CTRL.
    pub(super) fn control<P: Port>(
        &mut self,
        p: &mut P,
        at: Time,
        command: u64,
        address: u64,
    ) -> Reply {
        if command & !COMMAND != 0 || address >> 48 != 0 {
            return (HcallReturn::status(status::H_PARAMETER), at);
        }
        let code = match self.multicast.control(command, mac_bytes(address), self.cfg.filters) {
            multicast::Change::Done => status::H_SUCCESS,
            multicast::Change::Full => H_CONSTRAINED,
            multicast::Change::Missing => status::H_NOT_FOUND,
        };
        let mut answer = HcallReturn::status(code);
        answer.ret[0] = self.multicast.state();
        let changed =
            code == status::H_SUCCESS && command & doorbell_layout::ibmveth::multicast::TABLE != 0;
        (answer, if changed && self.is_open() { self.show_filter(p, at) } else { at })
    }

    /// Writes the filter list: the addresses, each as an argument is, and an end.
    fn show_filter<P: Port>(&self, p: &mut P, at: Time) -> Time {
        let mut words = [U64::ZERO; 256];
        for (w, m) in words.iter_mut().zip(self.multicast.table()) {
            *w = U64::new(mac(*m));
        }
        p.write(at, Iova(self.filter.into()), words.as_bytes()).unwrap_or(at)
    }

    /// H_VIO_SIGNAL.
    pub(super) fn set_signal(&mut self, at: Time, mode: u64, after: Span) -> i64 {
        match mode {
            SIGNAL_OFF => {
                self.signal = false;
                // An interrupt of an entry that is there is called off. Of one that is not there
                // yet nobody can say.
                if let Some(due) = self.notify.take().filter(|due| *due > at + after) {
                    self.late.push_front(Time::from_ps(due.ps() - after.ps()));
                }
            }
            SIGNAL_ON => self.signal = true,
            _ => return status::H_PARAMETER,
        }
        status::H_SUCCESS
    }

    /// An entry will be there at `at`: an interrupt, if the driver wants any then. The copy takes
    /// its time on another CPU, in which the driver may turn interrupts on, or off and on, or
    /// be done with one that is on its way: so an entry is judged when it is there.
    pub(super) fn signal<P: Port>(&mut self, p: &mut P, at: Time, after: Span) {
        // Not later than the entry that the interrupt on its way is of.
        let covered = self.notify.is_some_and(|due| at + after <= due);
        if self.signal && after == Span::ZERO {
            self.counters.interrupts += 1;
            p.raise_msi(at, self.cfg.vector);
        } else if self.signal && self.notify.is_none() && self.late.is_empty() {
            self.notify = Some(at + after);
        } else if !(self.signal && covered) && self.late.back().is_none_or(|last| *last < at) {
            self.late.push_back(at);
        }
    }

    /// An entry is there now. While interrupts are off the driver finds it by itself; while one is
    /// on its way, with the other.
    pub(super) fn arrived<P: Port>(&mut self, p: &mut P, now: Time, after: Span) {
        if !self.signal || self.notify.is_some() {
            return;
        }
        if after == Span::ZERO {
            self.counters.interrupts += 1;
            p.raise_msi(now, self.cfg.vector);
        } else {
            self.notify = Some(now + after);
        }
    }
}

impl Veth {
    /// H_ILLAN_ATTRIBUTES of adapter `i`.
    pub(super) fn change_attributes(&mut self, i: usize, reset: u64, set: u64) -> HcallReturn {
        let adapters = &mut self.parts.adapters;
        let a = &adapters[i];
        let Some(offered) = a.cfg.options else { return HcallReturn::status(status::H_FUNCTION) };
        let was_active = a.is_active_trunk();
        let open = a.state != State::Closed;
        let (code, new) = match attributes::change(a.attributes, offered, open, reset, set) {
            Change::Done(new) => (status::H_SUCCESS, new),
            Change::Constrained(new) => (H_CONSTRAINED, new),
            Change::Refused => return HcallReturn::status(status::H_PARAMETER),
        };
        adapters[i].attributes = new;
        if !was_active && adapters[i].is_active_trunk() {
            for other in 0..adapters.len() {
                if other != i && adapters[other].meets(&adapters[i]) {
                    adapters[other].attributes &= !attribute::ACTIVE_TRUNK;
                }
            }
        }
        let mut answer = HcallReturn::status(code);
        answer.ret[0] = new;
        answer
    }
}
