//! CPU work, named by what is done and priced by the platform alone.
//!
//! A driver says `spend(Work::Copy(1514))` beside the code that copies. It
//! never says how long that takes: a profile gives each kind a price per
//! occurrence and a price per unit, and a bare host ignores the call.

/// One piece of CPU work. The number, where there is one, is in the unit that
/// the variant names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CpuWork {
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

/// The kind of a [`CpuWork`], for tables of prices and counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub enum WorkKind {
    /// [`CpuWork::Stack`]
    Stack,
    /// [`CpuWork::Copy`]
    Copy,
    /// [`CpuWork::Sum`]
    Sum,
    /// [`CpuWork::TxDescriptor`]
    TxDescriptor,
    /// [`CpuWork::TxShared`]
    TxShared,
    /// [`CpuWork::TxSession`]
    TxSession,
    /// [`CpuWork::TxPad`]
    TxPad,
    /// [`CpuWork::TxNotify`]
    TxNotify,
    /// [`CpuWork::TxDone`]
    TxDone,
    /// [`CpuWork::Completion`]
    Completion,
    /// [`CpuWork::RxPost`]
    RxPost,
    /// [`CpuWork::RxPacket`]
    RxPacket,
    /// [`CpuWork::Interrupt`]
    Interrupt,
    /// [`CpuWork::Poll`]
    Poll,
    /// [`CpuWork::Wake`]
    Wake,
    /// [`CpuWork::Map`]
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

impl CpuWork {
    /// What kind of work this is.
    #[inline(always)]
    pub const fn kind(self) -> WorkKind {
        match self {
            CpuWork::Stack => WorkKind::Stack,
            CpuWork::Copy(_) => WorkKind::Copy,
            CpuWork::Sum(_) => WorkKind::Sum,
            CpuWork::TxDescriptor(_) => WorkKind::TxDescriptor,
            CpuWork::TxShared => WorkKind::TxShared,
            CpuWork::TxSession => WorkKind::TxSession,
            CpuWork::TxPad(_) => WorkKind::TxPad,
            CpuWork::TxNotify => WorkKind::TxNotify,
            CpuWork::TxDone(_) => WorkKind::TxDone,
            CpuWork::Completion => WorkKind::Completion,
            CpuWork::RxPost => WorkKind::RxPost,
            CpuWork::RxPacket => WorkKind::RxPacket,
            CpuWork::Interrupt => WorkKind::Interrupt,
            CpuWork::Poll => WorkKind::Poll,
            CpuWork::Wake => WorkKind::Wake,
            CpuWork::Map => WorkKind::Map,
        }
    }

    /// How much of it, in the unit of the kind; 1 where there is no unit.
    #[inline(always)]
    pub const fn amount(self) -> u32 {
        match self {
            CpuWork::Copy(n)
            | CpuWork::Sum(n)
            | CpuWork::TxDescriptor(n)
            | CpuWork::TxPad(n)
            | CpuWork::TxDone(n) => n,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests;
