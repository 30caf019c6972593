//! Completion and event queue entries, the doorbell page, doorbell records
//! (linux/mlx5/{device,cq}.h, eq.c).

use zerocopy::byteorder::big_endian::{U16, U32};

layout! {
    /// Completion queue entry (device.h `mlx5_cqe64`).
    struct Cqe[64] {
        receive: [u8; 44], "Tunnel headers, LRO, RSS hash, SLID and the like (receive).";
        byte_cnt: U32, "Bytes received.";
        /// Timestamp, nanoseconds or device cycles. In an error CQE the last two
        /// bytes are the vendor syndrome (low) and [`syndrome`].
        timestamp: [u8; 8];
        /// \[31:24\] opcode of the completed send WQE, \[23:0\] SQ or RQ number.
        sop_drop_qpn: U32;
        wqe_counter: U16, "Producer counter of the WQE that asked for this CQE.";
        signature: u8, "Signature.";
        /// \[7:4\] [`cqe_opcode`], \[3:2\] format, bit 1 solicited, bit 0 owner.
        op_own: u8;
    }

    /// `op_own` of a CQE that the device never wrote: invalid, owner 1.
    const CQE_INITIAL: u8 = 0xf1;

    /// CQE opcodes, the upper half of `op_own` (device.h).
    mod cqe_opcode: u8 {
        REQ = 0, "A send WQE is done.";
        REQ_ERR = 13, "A send WQE failed.";
        INVALID = 15, "Never written by hardware.";
    }

    /// Syndromes of an error CQE (cq.h).
    mod syndrome: u8 {
        /// The WQE says more bytes than a message may have, or segments and length disagree.
        LOCAL_LENGTH = 0x01;
        LOCAL_QP_OP = 0x02, "The WQE is not one this queue can execute.";
        LOCAL_PROT = 0x04, "A memory key or address is not valid.";
        WR_FLUSH = 0x05, "The queue was in error; the WQE was not executed.";
        MEMORY_KEY = 0x06, "A UMR could not be carried out (`MLX5_CQE_SYNDROME_MW_BIND_ERR`).";
    }
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

layout! {
    /// The last dword of a CQE, all that a poller needs to see whether it is his.
    struct CqeTail[8] {
        sop_drop_qpn: U32, "[`Cqe::sop_drop_qpn`].";
        wqe_counter: U16, "[`Cqe::wqe_counter`].";
        signature: u8, "[`Cqe::signature`].";
        op_own: u8, "[`Cqe::op_own`].";
    }
    const CQE_TAIL: u32 = 56, "Offset of [`CqeTail`] in a [`Cqe`].";
}

const _: () = assert!(CQE_TAIL as usize + size_of::<CqeTail>() == size_of::<Cqe>());

layout! {
    /// Event queue entry (eq.h `mlx5_eqe`).
    struct Eqe[64] {
        rsvd0: u8, "Reserved.";
        event_type: u8, "[`event`].";
        rsvd2: u8, "Reserved.";
        sub_type: u8, "Sub type.";
        rsvd4: [u8; 28], "Reserved.";
        data: [U32; 7], "Subject of the event. A completion's CQ number is in the last dword.";
        rsvd60: [u8; 2], "Reserved.";
        signature: u8, "Signature.";
        owner: u8, "Bit 0: owner.";
    }

    /// Event types (device.h `mlx5_event`).
    mod event: u8 {
        COMPLETION = 0x00, "A CQ that was armed has a new entry.";
        CQ_ERROR = 0x04, "A CQ overran or could not be written.";
        WQ_CATAS = 0x05, "A work queue failed beyond what a CQE can say.";
        PORT_CHANGE = 0x09, "The port came up or went down: [`port_change`](super::port_change).";
        CMD = 0x0a, "Commands are done: a bit for each slot.";
        PAGE_REQUEST = 0x0b, "Firmware wants pages, or gives some back.";
    }

    const usize {
        EQE_CQN = 6, "Index of the CQ number in [`Eqe::data`].";
        /// Index of the CQ number in a [`event::CQ_ERROR`]'s data; the low byte of the double
        /// word after the next says why: 1 overrun, 2 not writable.
        EQE_ERROR_CQN = 0;
        /// Index of the kind of queue in a [`event::WQ_CATAS`]'s data; its number is at
        /// [`EQE_CQN`].
        EQE_QUEUE_KIND = 5;
        KIND_RQ: u32 = 1 << 24, "A receive queue.";
        KIND_SQ: u32 = 2 << 24, "A send queue.";
    }

    /// Sub types of [`event::PORT_CHANGE`]; the port is the high nibble of
    /// [`Eqe::data`]'s third double word.
    mod port_change: u8 {
        DOWN = 1, "It went down.";
        ACTIVE = 4, "It came up.";
    }

    /// Doorbell page (UAR) offsets.
    registers uar: u32 {
        PAGE = 4096, "Bytes a page.";
        CQ_ARM = 0x20, "CQ arm: 64 bits {sn, command, consumer counter; CQ number}.";
        EQ_ARM = 0x40, "EQ consumer update and arm: eqn << 24 | consumer counter.";
        EQ_UPDATE = 0x48, "EQ consumer update only.";
        SEND = 0x800, "Send doorbell: the first 8 bytes of the last announced WQE.";
    }

    /// Doorbell record dwords.
    mod dbr: u32 {
        SIZE = 8, "Bytes of a queue's doorbell record.";
        SEND = 4, "Send queue: producer counter, offset in bytes.";
        CQ_CI = 0, "CQ: consumer counter, offset in bytes.";
        CQ_ARM = 4, "CQ: the last arm request, offset in bytes.";
    }
}
