//! The plug-in's side of one adapter: answers its calls or forwards them. Knows nothing of QEMU.
//!
//! | call | answered |
//! |---|---|
//! | H_PUT_TCE, H_STUFF_TCE, H_PUT_TCE_INDIRECT, H_GET_TCE | here, from the [`Table`] |
//! | H_VIO_SIGNAL, H_VIOCTL that masks interrupts | here, in the masks |
//! | H_SEND_SUB_CRQ, H_SEND_SUB_CRQ_INDIRECT | here if H_SUCCESS is certain, in the send ring |
//! | all others | by the server, for which the CPU waits |
//!
//! H_SEND_LOGICAL_LAN is not posted: its status depends on the switching of the frame.

use super::send_ring::{self, PostedCounts, SEND_QUEUES};
use super::{HELLO, INTERRUPT, SUB_CRQS, UNITS, VERSION, VETH, VNIC, WELCOME};
use super::{call_area::CallArea, irq_masks, table::Table};
use super::{message, read_message, sub_crq_interrupts, unit_interrupt};
use doorbell_hal::{HcallReturn, Iova};
use doorbell_host_io::shared::{EventFd, Window};
use doorbell_layout::ibmvnic::{DESCRIPTOR, MAX_INDIRECT, hcall};
use doorbell_layout::{ibmveth, ibmvnic};
use doorbell_vfio_user::{ready, send_with_fds};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs::File, io, os::fd::AsFd};

const H_GET_TCE: u64 = 0x1c;
const H_PUT_TCE: u64 = 0x20;
const H_STUFF_TCE: u64 = 0x138;
const H_PUT_TCE_INDIRECT: u64 = 0x13c;

/// The longest wait for the server's first message.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two looks at the doorbell, and the longest wait for the rest of a message.
const LOOK: Duration = Duration::from_secs(1);

/// Checks an array of descriptors for a vNIC's queue of buffers (true) or of frames.
pub type WellFormed = fn(&[[u8; DESCRIPTOR]], bool) -> bool;

/// The new values of the guest's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Value of R3.
    Status(i64),
    /// Value of R4; R3 is H_SUCCESS.
    Value(u64),
    /// Values of R3 to R12.
    All(HcallReturn),
}

/// The result of a call without the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalResult {
    /// The call is for another unit or QEMU.
    NotOurs,
    /// The answer of a call that is done, or posted.
    Answered(Answer),
    /// The server must answer: [`Adapter::forward`].
    Forward,
}

/// A connection whose `WELCOME` has not arrived.
#[derive(Debug)]
pub struct Handshake {
    area: CallArea,
    /// The memory of the call area, [`CALL_AREA_BYTES`](super::CALL_AREA_BYTES) bytes.
    pub memory: File,
    table: Table,
    bell: EventFd,
}

impl Handshake {
    /// Creates call area, table and doorbell, and sends them.
    ///
    /// # Errors
    /// If the system has no memory or descriptors left, or the server has closed the socket.
    pub fn send(socket: &UnixStream) -> io::Result<Handshake> {
        let (area, memory) = CallArea::create()?;
        let (table, table_file) = Table::create()?;
        let bell = EventFd::new()?;
        let files = [memory.as_fd(), table_file.as_fd(), bell.as_fd()];
        send_with_fds(socket, &message(HELLO, VERSION), &files)?;
        Ok(Handshake { area, memory, table, bell })
    }

    /// Waits for the server's answer, and sets the socket's timeout for that.
    ///
    /// # Errors
    /// If the server has no partition left, speaks another version, sends nonsense, or nothing.
    pub fn finish(self, socket: &UnixStream, well_formed: WellFormed) -> io::Result<Adapter> {
        let refused = "the server has no partition left, or is of another version";
        socket.set_read_timeout(Some(PATIENCE))?;
        let (what, unit) = read_message(socket).map_err(|e| match e.kind() {
            io::ErrorKind::WouldBlock => io::Error::other("the server does not answer"),
            _ => io::Error::other(refused),
        })?;
        let (unit, kind) = (unit as u32, (unit >> 32) as u32);
        if what != WELCOME || !matches!(kind, VNIC | VETH) {
            return Err(io::Error::other("the server sent an unknown kind of adapter"));
        }
        if !UNITS.contains(&unit) {
            return Err(io::Error::other(format!(
                "the server sent the unit {unit:#x}, which is QEMU's"
            )));
        }
        let Handshake { area, table, bell, .. } = self;
        let (disconnected, posted) = (AtomicBool::new(false), Mutex::new([(0, 0); SEND_QUEUES]));
        Ok(Adapter { unit, kind, area, table, bell, disconnected, posted, well_formed })
    }
}

/// A connected adapter.
#[derive(Debug)]
pub struct Adapter {
    /// Unit address.
    pub unit: u32,
    /// [`VNIC`] or [`VETH`].
    pub kind: u32,
    area: CallArea,
    table: Table,
    bell: EventFd,
    disconnected: AtomicBool,
    posted: Mutex<PostedCounts>,
    well_formed: WellFormed,
}

impl Adapter {
    /// Ends the connection: forwarded calls have no answer from now on.
    pub fn disconnect(&self) {
        self.disconnected.store(true, Ordering::Relaxed);
    }

    /// Passes interrupts from the server to `raise`, until the connection ends or the server stops
    /// within a message.
    ///
    /// The server can fill the doorbell's counter and make its description blocking. A CPU that
    /// rings then waits. This empties the counter.
    pub fn listen(&self, socket: &UnixStream, mut raise: impl FnMut(u16)) {
        // A timeout that is not set leaves that for the handshake.
        let _ = socket.set_read_timeout(Some(LOOK));
        loop {
            let message = match ready([socket.as_fd()], Some(LOOK)) {
                Ok([true]) => read_message(socket),
                Ok([false]) => Ok((0, 0)),
                Err(e) => Err(e),
            };
            self.bell.empty_if_full();
            match message {
                Ok((INTERRUPT, n)) => self.admit_interrupt(n).into_iter().for_each(&mut raise),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        self.disconnect();
        self.bell.empty_if_full();
    }

    /// Checks an interrupt from the server. Returns its number if the guest gets it: QEMU ends at a
    /// number that no device has, and those of other devices are not the server's.
    fn admit_interrupt(&self, n: u64) -> Option<u16> {
        let vector = u16::try_from(n).ok()?;
        let sub_crqs = if self.kind == VNIC { SUB_CRQS } else { 0 };
        let first = sub_crq_interrupts(self.unit);
        let own =
            vector == unit_interrupt(self.unit) || (first..first + sub_crqs).contains(&vector);
        (own && self.area.admit_arrived(irq_masks::index(self.unit, vector))).then_some(vector)
    }

    /// Answers a call without the server, if possible. `memory` is the guest's, once the server has
    /// it too; `raise` sends the guest an interrupt.
    pub fn answer_locally<'m>(
        &self,
        call: u64,
        a: &[u64; 9],
        memory: impl Fn() -> Option<&'m Window>,
        raise: impl Fn(u16),
    ) -> LocalResult {
        // A translation window has the number of its unit.
        if a[0] != u64::from(self.unit) {
            return LocalResult::NotOurs;
        }
        if matches!(call, H_GET_TCE | H_PUT_TCE | H_STUFF_TCE | H_PUT_TCE_INDIRECT) {
            return LocalResult::Answered(self.change_table(call, a, memory));
        }
        if !has_call(self.kind, call) {
            return LocalResult::NotOurs;
        }
        let memory = memory();
        let answered = !self.disconnected.load(Ordering::Relaxed)
            && (self.change_masks(call, a, raise) || memory.is_some_and(|m| self.post(call, a, m)));
        if answered {
            LocalResult::Answered(Answer::Status(ibmvnic::status::SUCCESS))
        } else {
            LocalResult::Forward
        }
    }

    fn ring(&self) {
        // If the server has filled the counter, it does not need to be woken.
        let _ = self.bell.signal();
    }

    /// Forwards a call of CPU `cpu` to the server and waits for the answer. Returns `None` if the
    /// server is gone or does not answer within 10 s.
    pub fn forward(&self, cpu: usize, call: u64, a: &[u64; 9]) -> Option<HcallReturn> {
        let disconnected = || self.disconnected.load(Ordering::Relaxed);
        self.area.call(cpu, call, a, || self.ring(), disconnected)
    }

    /// Makes a call of CPU `cpu` without waiting: the first half of [`Adapter::forward`]. Returns
    /// false if an earlier answer has not been taken.
    pub fn begin_call(&self, cpu: usize, call: u64, a: &[u64; 9]) -> bool {
        self.area.begin_call(cpu, call, a)
    }

    /// Takes the answer, if there is one: the second half of [`Adapter::forward`].
    pub fn take_answer(&self, cpu: usize) -> Option<HcallReturn> {
        self.area.take_answer(cpu)
    }

    /// Reads or writes translation entries.
    fn change_table<'m, M>(&self, call: u64, a: &[u64; 9], memory: M) -> Answer
    where
        M: Fn() -> Option<&'m Window>,
    {
        let (ioba, value) = (a[1], a[2]);
        let count = if call >= H_STUFF_TCE { a[3] } else { 1 };
        let refused = ibmvnic::status::PARAMETER;
        let answer = match call {
            H_GET_TCE => self.table.entry(ioba).map_or(Answer::Status(refused), Answer::Value),
            H_PUT_TCE_INDIRECT => {
                let done = memory().map(|m| self.table.put_list(m, ioba, value, count));
                Answer::Status(done.unwrap_or(refused))
            }
            _ => Answer::Status(self.table.put(ioba, value, count)),
        };
        self.area.count_table(if answer == Answer::Status(0) { count } else { 0 });
        answer
    }

    /// Changes masks if the call requests it. Returns true if the server need not see the call.
    fn change_masks(&self, call: u64, a: &[u64; 9], raise: impl Fn(u16)) -> bool {
        let change = irq_masks::mask_change(self.kind, self.unit, call, a);
        let Some(change) = change else { return false };
        let raise = |n| raise(irq_masks::vector(self.unit, n));
        let done = self.area.change_masks(change, raise).is_some() && !self.area.entries_pending();
        if done {
            self.area.count_change(call);
        }
        done
    }

    /// Posts a send whose success is certain. Returns true if it did.
    fn post(&self, call: u64, a: &[u64; 9], memory: &Window) -> bool {
        let n = send_ring::descriptors(call, a).filter(|_| self.kind == VNIC);
        let Some(n) = n else { return false };
        let Some((row, buffers)) = self.area.row_of(a[1]) else { return false };
        let mut array = [[0; DESCRIPTOR]; MAX_INDIRECT as usize];
        let array = &mut array[..n];
        if call == hcall::SEND_SUB_CRQ {
            for (bytes, word) in array[0].as_chunks_mut().0.iter_mut().zip(&a[2..6]) {
                *bytes = word.to_be_bytes();
            }
        } else if self.table.read(memory, Iova(a[2]), array.as_flattened_mut()).is_err() {
            return false;
        }
        if !(self.well_formed)(array, buffers) {
            return false;
        }
        let array = if call == hcall::SEND_SUB_CRQ { &[][..] } else { array };
        let done = {
            // A thread that panicked in here left nothing: the tail is written last.
            let mut posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
            self.area.post(&mut posted, row, call, a, array)
        };
        if done {
            self.area.ring_if_asleep(|| self.ring());
        }
        done
    }
}

/// Returns the most arguments of a call. Reading a register through QEMU is slow.
pub const fn arguments(call: u64) -> usize {
    match call {
        H_GET_TCE | H_PUT_TCE | H_STUFF_TCE | H_PUT_TCE_INDIRECT | hcall::SEND_SUB_CRQ_INDIRECT => {
            4
        }
        hcall::VIO_SIGNAL => 2,
        hcall::VIOCTL => 3,
        hcall::SEND_SUB_CRQ => 6,
        _ => 9,
    }
}

fn has_call(kind: u32, call: u64) -> bool {
    if kind == VNIC {
        return [hcall::VIOCTL, hcall::ENABLE_CRQ].contains(&call)
            || (hcall::REG_CRQ..=hcall::SEND_CRQ).contains(&call)
            || (hcall::REG_SUB_CRQ..=hcall::SEND_SUB_CRQ_INDIRECT).contains(&call);
    }
    ibmveth::is_call(call)
}

#[cfg(all(test, not(loom)))]
mod tests;
