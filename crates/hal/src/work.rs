//! CPU work, named by what is done and priced by the platform alone.
//!
//! A driver calls `charge(CpuWork::Copy(1514))` beside the code that copies. A profile gives each
//! kind a price per occurrence and a price per unit; a host without prices ignores the call.

/// Declares every kind of work once, with the name that profiles and reports use.
macro_rules! work {
    ($($(#[doc = $doc:literal])+ $kind:ident $(($unit:ty))? = $name:literal,)*) => {
        /// One piece of CPU work. The number, where there is one, is in the unit that the
        /// variant names.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum CpuWork {
            $($(#[doc = $doc])+ $kind $(($unit))?,)*
        }

        /// The kind of a [`CpuWork`], for tables of prices and counts.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(usize)]
        pub enum WorkKind {
            $(#[doc = concat!("[`CpuWork::", stringify!($kind), "`]")] $kind,)*
        }

        impl WorkKind {
            /// All kinds, in the order of their numbers.
            pub const ALL: [WorkKind; [$($name),*].len()] = [$(WorkKind::$kind),*];

            /// The name that profiles and reports use.
            pub const fn name(self) -> &'static str {
                match self {
                    $(WorkKind::$kind => $name,)*
                }
            }
        }

        impl CpuWork {
            /// Returns the kind of this work.
            #[inline(always)]
            pub const fn kind(self) -> WorkKind {
                match self {
                    $(CpuWork::$kind { .. } => WorkKind::$kind,)*
                }
            }
        }
    };
}

work! {
    /// One packet handed to a driver by the layer above it: stack and qdisc, or a packet
    /// generator. Charged by the lab, not by drivers.
    Stack = "stack",
    /// Bytes copied by the CPU.
    Copy(u32) = "copy",
    /// Bytes summed by the CPU for an Internet checksum.
    Sum(u32) = "sum",
    /// A transmit descriptor (WQE, descriptor chain, hypervisor send) built for one packet; the
    /// number is its address entries.
    TxDescriptor(u32) = "tx_descriptor",
    /// A packet added to a descriptor that it shares with others.
    TxShared = "tx_shared",
    /// A descriptor shared by several packets opened and closed.
    TxSession = "tx_session",
    /// Ring space filled up so that a descriptor stays contiguous; in entries.
    TxPad(u32) = "tx_pad",
    /// The announcement of new descriptors to the device (barriers, doorbell record; the register
    /// write itself is the bus's).
    TxNotify = "tx_notify",
    /// Packets whose transmission was found complete.
    TxDone(u32) = "tx_done",
    /// One completion entry examined.
    Completion = "completion",
    /// A receive buffer posted to the device.
    RxPost = "rx_post",
    /// A received packet prepared and passed up.
    RxPacket = "rx_packet",
    /// One entry into an interrupt handler.
    Interrupt = "interrupt",
    /// One entry into a poll routine.
    Poll = "poll",
    /// A stopped queue started again.
    Wake = "wake",
    /// A buffer mapped for, or unmapped from, the device.
    Map = "map",
    /// The place of a completion that stands in a block, marked as taken.
    Unwritten = "unwritten",
    /// A received frame that a program hands to another port (`xdp_do_redirect`), without what the
    /// driver of that port does.
    Redirect = "redirect",
}

impl CpuWork {
    /// Returns the amount in the unit of the kind; 1 where there is no unit.
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
