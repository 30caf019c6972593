//! CPU work, named by what is done and priced by the platform alone.
//!
//! A driver says `spend(Work::Copy(1514))` beside the code that copies. It
//! never says how long that takes: a profile gives each kind a price per
//! occurrence and a price per unit, and a bare host ignores the call.

/// One piece of CPU work. The number, where there is one, is in the unit that
/// the variant names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// One packet handed to a driver by what is above it: stack and qdisc, or
    /// a packet generator. Spent by the lab, not by drivers.
    Stack,
    /// Bytes copied by the CPU.
    Copy(u32),
    /// Bytes summed by the CPU for an Internet checksum.
    Sum(u32),
    /// A transmit descriptor (WQE, descriptor chain, hypervisor send) built for
    /// one packet; the number is its address entries.
    TxDescriptor(u32),
    /// A packet added to a descriptor that it shares with others.
    TxShared,
    /// A descriptor shared by several packets opened and closed.
    TxSession,
    /// Ring space filled up so that a descriptor stays contiguous; in entries.
    TxPad(u32),
    /// The announcement of new descriptors to the device (barriers, doorbell
    /// record; the register write itself is the bus's).
    TxNotify,
    /// Packets whose transmission was found complete.
    TxDone(u32),
    /// One completion entry examined.
    Completion,
    /// A receive buffer posted to the device.
    RxPost,
    /// A received packet prepared and handed up.
    RxPacket,
    /// One entry into an interrupt handler.
    Interrupt,
    /// One entry into a poll routine.
    Poll,
    /// A stopped queue started again.
    Wake,
    /// A buffer mapped for, or unmapped from, the device.
    Map,
}

/// The kind of a [`Work`], for tables of prices and counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum WorkKind {
    /// [`Work::Stack`]
    Stack,
    /// [`Work::Copy`]
    Copy,
    /// [`Work::Sum`]
    Sum,
    /// [`Work::TxDescriptor`]
    TxDescriptor,
    /// [`Work::TxShared`]
    TxShared,
    /// [`Work::TxSession`]
    TxSession,
    /// [`Work::TxPad`]
    TxPad,
    /// [`Work::TxNotify`]
    TxNotify,
    /// [`Work::TxDone`]
    TxDone,
    /// [`Work::Completion`]
    Completion,
    /// [`Work::RxPost`]
    RxPost,
    /// [`Work::RxPacket`]
    RxPacket,
    /// [`Work::Interrupt`]
    Interrupt,
    /// [`Work::Poll`]
    Poll,
    /// [`Work::Wake`]
    Wake,
    /// [`Work::Map`]
    Map,
}

impl WorkKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [WorkKind; 16] = {
        use WorkKind::*;
        [
            Stack,
            Copy,
            Sum,
            TxDescriptor,
            TxShared,
            TxSession,
            TxPad,
            TxNotify,
            TxDone,
            Completion,
            RxPost,
            RxPacket,
            Interrupt,
            Poll,
            Wake,
            Map,
        ]
    };

    /// The name that profiles and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            WorkKind::Stack => "stack",
            WorkKind::Copy => "copy",
            WorkKind::Sum => "sum",
            WorkKind::TxDescriptor => "tx_descriptor",
            WorkKind::TxShared => "tx_shared",
            WorkKind::TxSession => "tx_session",
            WorkKind::TxPad => "tx_pad",
            WorkKind::TxNotify => "tx_notify",
            WorkKind::TxDone => "tx_done",
            WorkKind::Completion => "completion",
            WorkKind::RxPost => "rx_post",
            WorkKind::RxPacket => "rx_packet",
            WorkKind::Interrupt => "interrupt",
            WorkKind::Poll => "poll",
            WorkKind::Wake => "wake",
            WorkKind::Map => "map",
        }
    }
}

impl Work {
    /// What kind of work this is.
    #[inline(always)]
    pub const fn kind(self) -> WorkKind {
        match self {
            Work::Stack => WorkKind::Stack,
            Work::Copy(_) => WorkKind::Copy,
            Work::Sum(_) => WorkKind::Sum,
            Work::TxDescriptor(_) => WorkKind::TxDescriptor,
            Work::TxShared => WorkKind::TxShared,
            Work::TxSession => WorkKind::TxSession,
            Work::TxPad(_) => WorkKind::TxPad,
            Work::TxNotify => WorkKind::TxNotify,
            Work::TxDone(_) => WorkKind::TxDone,
            Work::Completion => WorkKind::Completion,
            Work::RxPost => WorkKind::RxPost,
            Work::RxPacket => WorkKind::RxPacket,
            Work::Interrupt => WorkKind::Interrupt,
            Work::Poll => WorkKind::Poll,
            Work::Wake => WorkKind::Wake,
            Work::Map => WorkKind::Map,
        }
    }

    /// How much of it, in the unit of the kind; 1 where there is no unit.
    #[inline(always)]
    pub const fn amount(self) -> u32 {
        match self {
            Work::Copy(n)
            | Work::Sum(n)
            | Work::TxDescriptor(n)
            | Work::TxPad(n)
            | Work::TxDone(n) => n,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests;
