//! How the driver is set up: what the device tree says of the adapter, and what a user
//! may choose.

use super::pool::POOLS;
use doorbell_hal::OutOfMemory;
use doorbell_layout::ibmveth::OVERHEAD;

/// A pool of receive buffers of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Bytes of a buffer: a multiple of 4, 16 at least.
    pub size: u32,
    /// Buffers.
    pub count: u32,
    /// They are lent. A change of the MTU may activate a pool.
    pub active: bool,
}

/// How a packet gets to the hypervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// Up to six pieces, each mapped for the time of the call; more are linearised. A
    /// linear packet shorter than this many bytes is copied to a mapped buffer
    /// (`tx_copybreak`). Linux until 6.0.
    Map {
        /// 128 in Linux.
        copybreak: u32,
    },
    /// Copied to a buffer that is mapped for good. Linux since 6.1.
    Copy,
}

/// How large sends are to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargeSend {
    /// Not at all: segmented by software.
    Off,
    /// As the firmware knows them, if it does; otherwise the old way.
    Firmware,
    /// The old way (`old_large_send`): the segment size in the checksum fields, TCP over
    /// IPv4 only.
    Old,
}

/// How an adapter is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Unit address (`reg`).
    pub unit: u32,
    /// Its own address (`local-mac-address`).
    pub mac: [u8; 6],
    /// Attributes can be negotiated (`ibm,illan-options`).
    pub illan: bool,
    /// Multicast addresses that the filter holds (`ibm,mac-address-filters`).
    pub filters: u32,
    /// The interrupt's vector.
    pub vector: u16,
    /// Longest IP datagram: 68, and with 22 bytes of header and correlator no more than
    /// the largest pool's buffers.
    pub mtu: u32,
    /// Receive buffers.
    pub pools: [Pool; POOLS],
    /// Received frames shorter than this are copied, and their buffer is lent again.
    pub rx_copybreak: u32,
    /// How packets get to the hypervisor.
    pub transmit: Transmit,
    /// TCP checksums are left out if the firmware agrees.
    pub checksum: bool,
    /// Large sends.
    pub large_send: LargeSend,
    /// A trunk adapter too may leave checksums out; up to Linux 4.12 it did not ask
    /// (66aa0678efc2).
    pub trunk_checksum: bool,
    /// An active trunk takes large sends with a fragment list (`NETIF_F_FRAGLIST`); otherwise they
    /// are segmented.
    pub fraglist: bool,
}

impl Config {
    /// What Linux sets up for an adapter at unit address `unit`.
    pub const fn new(unit: u32, mac: [u8; 6]) -> Config {
        const fn pool(size: u32, count: u32, active: bool) -> Pool {
            Pool { size, count, active }
        }
        Config {
            unit,
            mac,
            illan: true,
            filters: 8,
            vector: 0,
            mtu: 1500,
            pools: [
                pool(512, 256, true),
                pool(2 << 10, 512, true),
                pool(16 << 10, 256, false),
                pool(32 << 10, 256, false),
                pool(64 << 10, 256, true),
            ],
            rx_copybreak: 128,
            transmit: Transmit::Copy,
            checksum: true,
            large_send: LargeSend::Firmware,
            trunk_checksum: true,
            fraglist: true,
        }
    }

    /// With less memory mapped for good, as where the hypervisor overcommits it
    /// (Cooperative Memory Overcommitment).
    pub const fn with_cmo(mut self) -> Config {
        self.pools[4].count = 64;
        self
    }

    /// Entries of the receive queue: one more than there are buffers in all pools, the
    /// inactive too, so that it never fills.
    pub const fn slots(&self) -> u32 {
        let (mut sum, mut i) = (1, 0);
        while i < POOLS {
            sum += self.pools[i].count;
            i += 1;
        }
        sum
    }

    /// What is out of range, if anything.
    pub(super) fn check(&self) -> Result<(), OpenError> {
        let bad = |ok: bool, what| if ok { Ok(()) } else { Err(OpenError::Setting(what)) };
        for p in self.pools {
            let sized = p.size % 4 == 0 && (16..=1 << 20).contains(&p.size);
            bad(sized, "pools: buffers of 16 bytes to 1 MiB, in multiples of 4")?;
            bad((1..=4096).contains(&p.count), "pools: 1 to 4096 buffers")?;
        }
        bad(self.pools.is_sorted_by_key(|p| p.size), "pools: the smallest buffers first")?;
        bad(self.mtu >= 68, "mtu: 68 at least")?;
        bad(
            self.fitting_pool(self.mtu).is_some(),
            "mtu: with 22 bytes within the largest pool's buffers",
        )?;
        bad(
            self.pools.iter().any(|p| p.active && self.mtu + OVERHEAD <= p.size),
            "mtu: an active pool that holds it",
        )
    }

    /// The smallest pool that holds a frame of the longest datagram.
    pub(super) fn fitting_pool(&self, mtu: u32) -> Option<usize> {
        self.pools.iter().position(|p| mtu.saturating_add(OVERHEAD) <= p.size)
    }
}

/// Why an adapter could not be opened, or a setting not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// A setting is out of range: which, and what is allowed.
    Setting(&'static str),
    /// No host memory.
    OutOfMemory,
    /// Memory is where the adapter cannot name it: an ioba has 32 bits.
    Address,
    /// The hypervisor refused: which call, and its return code.
    Refused(&'static str, i64),
}

impl From<OutOfMemory> for OpenError {
    fn from(_: OutOfMemory) -> OpenError {
        OpenError::OutOfMemory
    }
}
