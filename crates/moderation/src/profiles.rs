//! The tables that [`NetDim`](crate::NetDim) climbs.
//!
//! A table has five settings, from the least moderation (index 0) to the most.
//! Sources: Linux 6.17 `lib/dim/net_dim.c` for the defaults; axienet's
//! `axienet_dim_coalesce_count_rx` and the message that introduced it (Sean
//! Anderson, netdev, September 2024) for the table of that device.
//!
//! The two default families answer to two kinds of timer. One that starts at an
//! event bounds how long a packet waits, so Linux raises it with the index and
//! leaves the packet limit out of reach. One that each completion restarts bounds a
//! silence; there Linux's table *lowers* the number of packets as it raises the
//! time, which is why axienet, whose timer is of that kind, has a table of its own.
//! A table from a link's own numbers is in [`Link`](crate::Link).

use crate::controller::{Direction, Period, Setting};

/// Settings in a table (`NET_DIM_PARAMS_NUM_PROFILES`).
pub const COUNT: usize = 5;

/// The index to start from (`NET_DIM_DEF_PROFILE_EQE`, `NET_DIM_DEF_PROFILE_CQE`).
pub const DEFAULT_INDEX: u8 = 1;

/// A table: index 0 moderates least.
pub type Profiles = [Setting; COUNT];

/// Linux's defaults. `Completion` gives the CQE family, `Event` the EQE family, and
/// so does `Interval`, for which drivers with such a timer take it.
pub const fn linux(direction: Direction, period: Period) -> Profiles {
    use Direction::{Rx, Tx};
    match (direction, period) {
        (Rx, Period::Completion) => {
            table([(2, 256), (8, 128), (16, 64), (32, 64), (64, 64)], period)
        }
        (Tx, Period::Completion) => {
            table([(5, 128), (8, 64), (16, 32), (32, 32), (64, 32)], period)
        }
        (Rx, _) => table([(1, 256), (8, 256), (64, 256), (128, 256), (256, 256)], period),
        (Tx, _) => table([(1, 128), (8, 128), (32, 128), (64, 128), (128, 128)], period),
    }
}

/// One of Linux's defaults (`net_dim_get_rx_moderation`, `net_dim_get_tx_moderation`);
/// `None` if the table has no such index.
pub const fn moderation(direction: Direction, period: Period, index: u8) -> Option<Setting> {
    if (index as usize) < COUNT { Some(linux(direction, period)[index as usize]) } else { None }
}

/// The default to set a device to at open (`net_dim_get_def_rx_moderation`,
/// `net_dim_get_def_tx_moderation`).
pub const fn default_moderation(direction: Direction, period: Period) -> Setting {
    linux(direction, period)[DEFAULT_INDEX as usize]
}

/// The silence after which axienet interrupts by default, in microseconds: a little
/// more than the 12.3 us of a full packet at 1 Gbit/s.
pub const AXIENET_USEC: u16 = 16;

/// axienet's reception: 4^i packets, or a silence of `usec` (by default
/// [`AXIENET_USEC`]; the user may set it). The last count is 255, because the register
/// has 8 bits where 256 was meant; a single packet is not waited for at all.
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
