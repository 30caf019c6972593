//! Completion and event queue entries, the doorbell page, doorbell records
//! (linux/mlx5/{device,cq}.h, eq.c).

use zerocopy::byteorder::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Completion queue entry (device.h `mlx5_cqe64`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Cqe {
    /// Tunnel headers, LRO, RSS hash, SLID and the like (receive).
    pub receive: [u8; 44],
    /// Bytes received.
    pub byte_cnt: U32,
    /// Timestamp, nanoseconds or device cycles. In an error CQE the last two
    /// bytes are the vendor syndrome (low) and [`syndrome`].
    pub timestamp: [u8; 8],
    /// \[31:24\] opcode of the completed send WQE, \[23:0\] SQ or RQ number.
    pub sop_drop_qpn: U32,
    /// Producer counter of the WQE that asked for this CQE.
    pub wqe_counter: U16,
    /// Signature.
    pub signature: u8,
    /// \[7:4\] [`cqe_opcode`], \[3:2\] format, bit 1 solicited, bit 0 owner.
    pub op_own: u8,
}
const _: () = assert!(size_of::<Cqe>() == 64);

/// What `op_own` of a CQE is before the device ever wrote it: invalid, owner 1.
pub const CQE_INITIAL: u8 = 0xf1;

/// CQE opcodes, the upper half of `op_own` (device.h).
pub mod cqe_opcode {
    /// A send WQE is done.
    pub const REQ: u8 = 0;
    /// A send WQE failed.
    pub const REQ_ERR: u8 = 13;
    /// Never written by hardware.
    pub const INVALID: u8 = 15;
}

/// Syndromes of an error CQE (cq.h).
pub mod syndrome {
    /// The WQE says more bytes than a message may have, or segments and length disagree.
    pub const LOCAL_LENGTH: u8 = 0x01;
    /// The WQE is not one this queue can execute.
    pub const LOCAL_QP_OP: u8 = 0x02;
    /// A memory key or address is not valid.
    pub const LOCAL_PROT: u8 = 0x04;
    /// The queue was in error; the WQE was not executed.
    pub const WR_FLUSH: u8 = 0x05;
}

impl Cqe {
    /// An error CQE's syndrome.
    pub fn syndrome(&self) -> u8 {
        self.timestamp[7]
    }
    /// CQE opcode.
    pub fn opcode(&self) -> u8 {
        self.op_own >> 4
    }
    /// SQ or RQ number.
    pub fn qpn(&self) -> u32 {
        self.sop_drop_qpn.get() & 0xff_ffff
    }
}

/// The last dword of a CQE, all that a poller needs to see whether it is his.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CqeTail {
    /// [`Cqe::sop_drop_qpn`].
    pub sop_drop_qpn: U32,
    /// [`Cqe::wqe_counter`].
    pub wqe_counter: U16,
    /// [`Cqe::signature`].
    pub signature: u8,
    /// [`Cqe::op_own`].
    pub op_own: u8,
}
/// Where [`CqeTail`] starts in a [`Cqe`].
pub const CQE_TAIL: u32 = 56;
const _: () = assert!(CQE_TAIL as usize + size_of::<CqeTail>() == size_of::<Cqe>());

/// Event queue entry (eq.h `mlx5_eqe`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Eqe {
    /// Reserved.
    pub rsvd0: u8,
    /// [`event`].
    pub event_type: u8,
    /// Reserved.
    pub rsvd2: u8,
    /// Sub type.
    pub sub_type: u8,
    /// Reserved.
    pub rsvd4: [u8; 28],
    /// What the event is about; a completion's CQ number is in the last dword but one.
    pub data: [U32; 7],
    /// Reserved.
    pub rsvd60: [u8; 2],
    /// Signature.
    pub signature: u8,
    /// Bit 0: owner.
    pub owner: u8,
}
const _: () = assert!(size_of::<Eqe>() == 64);

/// Event types (device.h `mlx5_event`).
pub mod event {
    /// A CQ that was armed has a new entry.
    pub const COMPLETION: u8 = 0x00;
    /// A CQ overran or could not be written.
    pub const CQ_ERROR: u8 = 0x04;
    /// A work queue failed beyond what a CQE can say.
    pub const WQ_CATAS: u8 = 0x05;
    /// The port came up or went down: [`port_change`](super::port_change).
    pub const PORT_CHANGE: u8 = 0x09;
    /// Commands are done: a bit for each slot.
    pub const CMD: u8 = 0x0a;
    /// Firmware wants pages, or gives some back.
    pub const PAGE_REQUEST: u8 = 0x0b;
}

/// Index of the CQ number in [`Eqe::data`].
pub const EQE_CQN: usize = 6;
/// Index of the CQ number in a [`event::CQ_ERROR`]'s data; the low byte of the double
/// word after the next says why: 1 overrun, 2 not writable.
pub const EQE_ERROR_CQN: usize = 0;
/// Index of the kind of queue in a [`event::WQ_CATAS`]'s data; its number is at [`EQE_CQN`].
pub const EQE_QUEUE_KIND: usize = 5;
/// A receive queue.
pub const KIND_RQ: u32 = 1 << 24;
/// A send queue.
pub const KIND_SQ: u32 = 2 << 24;

/// Sub types of [`event::PORT_CHANGE`]; the port is the high nibble of
/// [`Eqe::data`]'s third double word.
pub mod port_change {
    /// It went down.
    pub const DOWN: u8 = 1;
    /// It came up.
    pub const ACTIVE: u8 = 4;
}

/// Doorbell page (UAR) offsets.
pub mod uar {
    /// Bytes a page.
    pub const PAGE: u32 = 4096;
    /// CQ arm: 64 bits {sn, command, consumer counter; CQ number}.
    pub const CQ_ARM: u32 = 0x20;
    /// EQ consumer update and arm: eqn << 24 | consumer counter.
    pub const EQ_ARM: u32 = 0x40;
    /// EQ consumer update only.
    pub const EQ_UPDATE: u32 = 0x48;
    /// Send doorbell: the first 8 bytes of the last announced WQE.
    pub const SEND: u32 = 0x800;
}

/// Doorbell record dwords.
pub mod dbr {
    /// Bytes of a queue's doorbell record.
    pub const SIZE: u32 = 8;
    /// Send queue: producer counter, offset in bytes.
    pub const SEND: u32 = 4;
    /// CQ: consumer counter, offset in bytes.
    pub const CQ_CI: u32 = 0;
    /// CQ: the last arm request, offset in bytes.
    pub const CQ_ARM: u32 = 4;
}
