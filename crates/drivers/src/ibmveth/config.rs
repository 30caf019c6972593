//! Configuration: the adapter's properties from the device tree, and the user's choices.

use crate::{Opened, check, common::within};
use doorbell_layout::ibmveth::OVERHEAD;

/// Number of receive buffer pools.
pub(super) const POOLS: usize = 5;

/// A pool of receive buffers of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Bytes of a buffer: a multiple of 4, 16 at least.
    pub size: u32,
    /// Number of buffers.
    pub count: u32,
    /// The pool's buffers are lent. A change of the MTU may activate a pool.
    pub active: bool,
}

/// Method of passing a packet to the hypervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// Up to six fragments, each mapped for the time of the call; more are linearised. A short
    /// linear packet is copied to a mapped buffer. Linux until 6.0.
    Map {
        /// Packets shorter than this are copied (`tx_copybreak`, 128 in Linux).
        copybreak: u32,
    },
    /// Copied to a buffer that stays mapped. Linux since 6.1.
    Copy,
}

/// Method of large sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LargeSend {
    /// Segmented by software.
    Off,
    /// By the firmware's large send, if negotiated; otherwise the old way.
    Firmware,
    /// The old way (`old_large_send`): the segment size in the checksum fields, TCP over IPv4 only.
    Old,
}

/// The configuration of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Unit address (`reg`).
    pub unit: u32,
    /// MAC address (`local-mac-address`).
    pub mac: [u8; 6],
    /// Attributes can be negotiated (`ibm,illan-options`).
    pub illan: bool,
    /// Multicast addresses that the filter holds (`ibm,mac-address-filters`).
    pub filters: u32,
    /// The interrupt's vector.
    pub vector: u16,
    /// Longest IP datagram: at least 68, and with 22 bytes of header and correlator at most the
    /// largest pool's buffers.
    pub mtu: u32,
    /// Receive buffers.
    pub pools: [Pool; POOLS],
    /// Received frames shorter than this are copied, and their buffers lent again.
    pub rx_copybreak: u32,
    /// Method of passing packets to the hypervisor.
    pub transmit: Transmit,
    /// Omit TCP checksums if the firmware agrees.
    pub checksum: bool,
    /// Method of large sends.
    pub large_send: LargeSend,
    /// A trunk adapter may omit checksums too; Linux up to 4.12 did not ask (66aa0678efc2).
    pub trunk_checksum: bool,
    /// An active trunk takes large sends with a fragment list (`NETIF_F_FRAGLIST`); otherwise they
    /// are segmented.
    pub fraglist: bool,
}

impl Config {
    /// Linux's defaults for an adapter at unit address `unit`.
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

    /// Returns the entries of the receive queue: one more than the buffers of all pools, inactive
    /// ones included, so that it never fills.
    pub const fn slots(&self) -> u32 {
        let (mut sum, mut i) = (1, 0);
        while i < POOLS {
            sum += self.pools[i].count;
            i += 1;
        }
        sum
    }
    pub(super) fn check(&self) -> Opened {
        for p in self.pools {
            let sized = p.size % 4 == 0 && (16..=1 << 20).contains(&p.size);
            check(sized, "pools: buffers of 16 bytes to 1 MiB, in multiples of 4")?;
            check((1..=4096).contains(&p.count), "pools: 1 to 4096 buffers")?;
        }
        check(self.pools.is_sorted_by_key(|p| p.size), "pools: the smallest buffers first")?;
        check(self.mtu >= 68, "mtu: 68 at least")?;
        check(
            self.fitting_pool(self.mtu).is_some(),
            "mtu: with 22 bytes within the largest pool's buffers",
        )?;
        check(
            self.pools.iter().any(|p| p.active && self.mtu + OVERHEAD <= p.size),
            "mtu: an active pool that holds it",
        )
    }

    /// Returns the smallest pool that holds a frame of the longest datagram.
    pub(super) fn fitting_pool(&self, mtu: u32) -> Option<usize> {
        self.pools.iter().position(|p| mtu.saturating_add(OVERHEAD) <= p.size)
    }
}

/// Returns whether an I/O bus address of 32 bits can name `len` bytes at `at`.
pub(super) const fn reachable(at: u64, len: u32) -> bool {
    within(32, at, len)
}
