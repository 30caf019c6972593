//! The tables that [`NetDim`](crate::NetDim) climbs: five settings, from the least moderation on.
//!
//! Sources: Linux 6.17 `lib/dim/net_dim.c` for the defaults; axienet's
//! `axienet_dim_coalesce_count_rx` and the message that introduced it (Sean Anderson, netdev,
//! September 2024) for that device.
//!
//! For a timer that starts at an event, Linux raises the time with the index and leaves the packet
//! limit out of reach. For one that each completion restarts, Linux's table *lowers* the packets as
//! it raises the time, so axienet, with such a timer, has a table of its own. [`Link`](crate::Link)
//! computes a table from the link.

use crate::controller::{Direction, Period, Setting};

/// Settings in a table (`NET_DIM_PARAMS_NUM_PROFILES`).
pub const COUNT: usize = 5;

/// The index to start from (`NET_DIM_DEF_PROFILE_EQE`, `NET_DIM_DEF_PROFILE_CQE`).
pub const DEFAULT_INDEX: u8 = 1;

/// A table; index 0 moderates least.
pub type Profiles = [Setting; COUNT];

/// Returns Linux's defaults: the CQE family for `Completion`, the EQE family for `Event` and
/// `Interval`.
pub const fn linux(direction: Direction, period: Period) -> Profiles {
    use Direction::{Rx, Tx};
    use Period::Completion;
    match (direction, period) {
        (Rx, Completion) => table([(2, 256), (8, 128), (16, 64), (32, 64), (64, 64)], period),
        (Tx, Completion) => table([(5, 128), (8, 64), (16, 32), (32, 32), (64, 32)], period),
        (Rx, _) => table([(1, 256), (8, 256), (64, 256), (128, 256), (256, 256)], period),
        (Tx, _) => table([(1, 128), (8, 128), (32, 128), (64, 128), (128, 128)], period),
    }
}

/// Returns one of Linux's defaults (`net_dim_get_rx_moderation`, `net_dim_get_tx_moderation`), or
/// `None` if the table has no such index.
pub const fn moderation(direction: Direction, period: Period, index: u8) -> Option<Setting> {
    if (index as usize) < COUNT { Some(linux(direction, period)[index as usize]) } else { None }
}

/// Returns the default setting at open (`net_dim_get_def_rx_moderation`,
/// `net_dim_get_def_tx_moderation`).
pub const fn default_moderation(direction: Direction, period: Period) -> Setting {
    linux(direction, period)[DEFAULT_INDEX as usize]
}

/// axienet's default silence before an interrupt, in microseconds: a little more than the 12.3 us
/// of a full packet at 1 Gbit/s.
pub const AXIENET_USEC: u16 = 16;

/// Returns axienet's table for reception: 4^i packets, or a silence of `usec`. The last count is
/// 255, because the register has 8 bits. A single packet is not waited for.
pub const fn axienet(usec: u16) -> Profiles {
    table([(0, 1), (usec, 4), (usec, 16), (usec, 64), (usec, 255)], Period::Completion)
}

const fn table(rows: [(u16, u16); COUNT], period: Period) -> Profiles {
    let mut out = [Setting::IMMEDIATE; COUNT];
    let mut i = 0;
    while i < COUNT {
        out[i] = Setting::usecs(rows[i].0, rows[i].1, period);
        i += 1;
    }
    out
}

#[cfg(test)]
mod tests;
