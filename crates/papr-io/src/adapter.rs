//! The plug-in's side of one adapter: which calls are the adapter's, and what becomes of each.
//!
//! | call | answered |
//! |---|---|
//! | H_PUT_TCE, H_STUFF_TCE, H_PUT_TCE_INDIRECT, H_GET_TCE | here, from the [`Table`] |
//! | H_VIO_SIGNAL, H_VIOCTL that switches interrupts | here, in the [masks](super::masks) |
//! | H_SEND_SUB_CRQ, H_SEND_SUB_CRQ_INDIRECT | here, when the answer is known to be H_SUCCESS: [posted](super::posts) |
//! | all others | by the server, for which the CPU waits |
//!
//! **H_SEND_LOGICAL_LAN is not posted.** It answers H_DROPPED when a receiver has no buffer, H_BUSY
//! when the frame has many receivers, H_PARAMETER and H_RESOURCE by what the frame's headers and
//! its VLAN are: only who has switched the frame knows. And the guest may use its buffers again
//! when the call returns, so all of the frame would have to be copied twice.
//!
//! There is nothing of QEMU's here: numbers in, an answer out, and interrupts to be raised.

use super::board::Board;
use super::masks;
use super::posts::{self, POST_QUEUES, Posted};
use super::{HELLO, Table, VERSION, VETH, VNIC, WELCOME, message, read_message};
use doorbell_hal::{HcallReturn, Iova};
use doorbell_host_io::shared::{EventFd, Window};
use doorbell_layout::ibmvnic::{DESCRIPTOR, MAX_INDIRECT, hcall};
use doorbell_layout::{ibmveth, ibmvnic};
use doorbell_vfio_user::send_with;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

const H_GET_TCE: u64 = 0x1c;
const H_PUT_TCE: u64 = 0x20;
const H_STUFF_TCE: u64 = 0x138;
const H_PUT_TCE_INDIRECT: u64 = 0x13c;

/// Whether an array of descriptors is one that a vNIC's queue takes: of buffers, or else of frames.
pub type WellFormed = fn(&[[u8; DESCRIPTOR]], bool) -> bool;

/// What the guest's registers get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// R3.
    Status(i64),
    /// R3 is H_SUCCESS, and R4.
    Value(u64),
    /// R3 to R12.
    All(HcallReturn),
}

/// What is known of a call without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// It is not this adapter's.
    NotOurs,
    /// Its answer; it is done, or will be.
    Answer(Answer),
    /// Nothing: [`Adapter::ask`].
    Nothing,
}

/// What a plug-in offers to a server, before it is answered.
#[derive(Debug)]
pub struct Offer {
    board: Board,
    /// The board's memory, [`BOARD`](super::BOARD) bytes.
    pub memory: File,
    table: Table,
    bell: EventFd,
}

impl Offer {
    /// Makes board, table and bell, and sends them.
    ///
    /// # Errors
    /// When the system has no more memory or descriptors, or the server is gone.
    pub fn send(socket: &UnixStream) -> io::Result<Offer> {
        let (board, board_file) = Board::create()?;
        let (table, table_file) = Table::create()?;
        let bell = EventFd::new()?;
        let files = [board_file.as_fd(), table_file.as_fd(), bell.as_fd()];
        send_with(socket, &message(HELLO, VERSION), &files)?;
        Ok(Offer { board, memory: board_file, table, bell })
    }

    /// Waits for the server's word.
    ///
    /// # Errors
    /// When it has no partition left, or is of another version.
    pub fn accepted(self, socket: &UnixStream, well_formed: WellFormed) -> io::Result<Adapter> {
        let (what, unit) = read_message(socket).map_err(|_| {
            io::Error::other("the server has no partition left, or is of another version")
        })?;
        let (unit, kind) = (unit as u32, (unit >> 32) as u32);
        if what != WELCOME || !matches!(kind, VNIC | VETH) {
            return Err(io::Error::other("the server says what this plug-in does not know"));
        }
        let Offer { board, table, bell, .. } = self;
        let (gone, posted) = (AtomicBool::new(false), Mutex::new([(0, 0); POST_QUEUES]));
        Ok(Adapter { unit, kind, board, table, bell, gone, posted, well_formed })
    }
}

/// The adapter.
#[derive(Debug)]
pub struct Adapter {
    /// Unit address.
    pub unit: u32,
    /// [`VNIC`] or [`VETH`].
    pub kind: u32,
    board: Board,
    table: Table,
    bell: EventFd,
    /// The server has gone.
    gone: AtomicBool,
    posted: Mutex<Posted>,
    well_formed: WellFormed,
}

impl Adapter {
    /// The server has gone: calls that are asked have no answer from now on.
    pub fn lost(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// An interrupt has come from the server: whether the guest is to have it.
    pub fn comes(&self, vector: u16) -> bool {
        self.board.comes(masks::index(self.unit, vector))
    }

    /// What is known of a call. `memory` is the guest's, once the server has it too; `raise` sends
    /// the guest an interrupt.
    pub fn know<'m>(
        &self,
        call: u64,
        a: &[u64; 9],
        memory: impl Fn() -> Option<&'m Window>,
        raise: impl Fn(u16),
    ) -> Known {
        // Of a translation window the number is the unit's.
        if a[0] != u64::from(self.unit) {
            return Known::NotOurs;
        }
        if matches!(call, H_GET_TCE | H_PUT_TCE | H_STUFF_TCE | H_PUT_TCE_INDIRECT) {
            return Known::Answer(self.entries(call, a, memory));
        }
        if !is_adapters(self.kind, call) {
            return Known::NotOurs;
        }
        let memory = memory();
        let answered = !self.gone.load(Ordering::Relaxed)
            && (self.switched(call, a, raise) || memory.is_some_and(|m| self.posted(call, a, m)));
        if answered {
            Known::Answer(Answer::Status(ibmvnic::status::SUCCESS))
        } else {
            Known::Nothing
        }
    }

    /// CPU `cpu` asks the server, and waits; `None` when there is none any more, or it does not
    /// answer.
    pub fn ask(&self, cpu: usize, call: u64, a: &[u64; 9]) -> Option<HcallReturn> {
        self.board.ask(cpu, call, a, || self.bell.signal(), || self.gone.load(Ordering::Relaxed))
    }

    /// The first half of [`Adapter::ask`]: CPU `cpu` makes the call, and does not wait. Whether it
    /// could: it has an answer to take first.
    pub fn put(&self, cpu: usize, call: u64, a: &[u64; 9]) -> bool {
        self.board.put(cpu, call, a)
    }

    /// The other half: the answer, if it is there.
    pub fn take_answer(&self, cpu: usize) -> Option<HcallReturn> {
        self.board.take_answer(cpu)
    }

    fn entries<'m>(
        &self,
        call: u64,
        a: &[u64; 9],
        memory: impl Fn() -> Option<&'m Window>,
    ) -> Answer {
        let (ioba, value) = (a[1], a[2]);
        let count = if call >= H_STUFF_TCE { a[3] } else { 1 };
        let refused = ibmvnic::status::PARAMETER;
        let answer = match call {
            H_GET_TCE => self.table.entry(ioba).map_or(Answer::Status(refused), Answer::Value),
            H_PUT_TCE_INDIRECT => Answer::Status(
                memory().map_or(refused, |m| self.table.put_list(m, ioba, value, count)),
            ),
            _ => Answer::Status(self.table.put(ioba, value, count)),
        };
        self.board.count_table(if answer == Answer::Status(0) { count } else { 0 });
        answer
    }

    /// Switches interrupts, if that is the call, and nobody else need know of it.
    fn switched(&self, call: u64, a: &[u64; 9], raise: impl Fn(u16)) -> bool {
        let Some(what) = masks::switch(self.kind, self.unit, call, a) else { return false };
        let there = self.board.switch(what, |n| raise(masks::vector(self.unit, n))).is_some();
        let alone = there && !self.board.waits();
        if alone {
            self.board.count_switch(call);
        }
        alone
    }

    /// Posts the send that the call is, if it is one whose answer is known.
    fn posted(&self, call: u64, a: &[u64; 9], memory: &Window) -> bool {
        let Some(n) = posts::descriptors(call, a).filter(|_| self.kind == VNIC) else {
            return false;
        };
        let Some((row, buffers)) = self.board.row_of(a[1]) else { return false };
        let mut array = [[0; DESCRIPTOR]; MAX_INDIRECT as usize];
        let array = &mut array[..n];
        if call == hcall::SEND_SUB_CRQ {
            for (bytes, word) in array[0].chunks_exact_mut(8).zip(&a[2..6]) {
                bytes.copy_from_slice(&word.to_be_bytes());
            }
        } else if self.table.read(memory, Iova(a[2]), array.as_flattened_mut()).is_err() {
            return false;
        }
        if !(self.well_formed)(array, buffers) {
            return false;
        }
        let array = if call == hcall::SEND_SUB_CRQ { &[][..] } else { array };
        let done = {
            // Of a CPU that ended in here nothing is left that matters: the tail is written last.
            let mut posted = self.posted.lock().unwrap_or_else(PoisonError::into_inner);
            self.board.post(&mut posted, row, call, a, array)
        };
        if done {
            self.board.ring_if_asleep(|| self.bell.signal());
        }
        done
    }
}

/// How many arguments a call has at the most; a register that is read through QEMU takes its time.
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

/// Whether such an adapter has that call.
fn is_adapters(kind: u32, call: u64) -> bool {
    if kind == VNIC {
        return [hcall::VIOCTL, hcall::ENABLE_CRQ].contains(&call)
            || (hcall::REG_CRQ..=hcall::SEND_CRQ).contains(&call)
            || (hcall::REG_SUB_CRQ..=hcall::SEND_SUB_CRQ_INDIRECT).contains(&call);
    }
    matches!(
        call,
        ibmveth::H_VIO_SIGNAL
            | ibmveth::H_REGISTER_LOGICAL_LAN
            | ibmveth::H_FREE_LOGICAL_LAN
            | ibmveth::H_ADD_LOGICAL_LAN_BUFFER
            | ibmveth::H_ADD_LOGICAL_LAN_BUFFERS
            | ibmveth::H_FREE_LOGICAL_LAN_BUFFER
            | ibmveth::H_SEND_LOGICAL_LAN
            | ibmveth::H_MULTICAST_CTRL
            | ibmveth::H_CHANGE_LOGICAL_LAN_MAC
            | ibmveth::H_ILLAN_ATTRIBUTES
    )
}
