//! Messages that bring the device up and down, and the page grants.

use super::InHeader;
use super::bits::messages;

/// `op_mod` of `QUERY_PAGES` and `MANAGE_PAGES`.
pub mod pages {
    /// Query: what is needed to read capabilities.
    pub const BOOT: u32 = 1;
    /// Query: what is needed for `INIT_HCA`.
    pub const INIT: u32 = 2;
    /// Query: what the device would like now; negative to give back.
    pub const REGULAR: u32 = 3;
    /// Manage: the driver has none to give.
    pub const CANNOT_GIVE: u32 = 0;
    /// Manage: here are some.
    pub const GIVE: u32 = 1;
    /// Manage: give some back.
    pub const TAKE: u32 = 2;
}

/// ISSI 1, as a bit of [`QueryIssiOut::SUPPORTED`].
pub const ISSI_1: u32 = 1 << 1;

messages! {
    /// `ENABLE_HCA`, `DISABLE_HCA`: which function; 0 is one's own.
    FunctionIn[0x0c] { HEADER = part(0x00, InHeader), FUNCTION = bits(0x08, 15, 0) }

    /// `QUERY_ISSI` output: bit n of `SUPPORTED` is ISSI n.
    QueryIssiOut[0x70] { CURRENT = bits(0x08, 15, 0), SUPPORTED = bits(0x6c, 31, 0) }

    /// `SET_ISSI`.
    SetIssiIn[0x0c] { HEADER = part(0x00, InHeader), CURRENT = bits(0x08, 15, 0) }

    /// `QUERY_PAGES` output; the number is signed.
    QueryPagesOut[0x10] { FUNCTION = bits(0x08, 15, 0), PAGES = bits(0x0c, 31, 0) }

    /// `MANAGE_PAGES`; addresses of 4 KiB pages follow.
    ManagePagesIn[0x10] { HEADER = part(0x00, InHeader), FUNCTION = bits(0x08, 15, 0), ENTRIES = bits(0x0c, 31, 0) }

    /// `MANAGE_PAGES` output; the addresses follow when pages are taken back.
    ManagePagesOut[0x10] { ENTRIES = bits(0x08, 31, 0) }

    /// `QUERY_ADAPTER` output: the board's PSID is at [`QueryAdapterOut::PSID`].
    QueryAdapterOut[0x110] { VENDOR = bits(0x28, 23, 0) }
}

impl QueryAdapterOut {
    /// Where the 16 bytes of the PSID are.
    pub const PSID: usize = 0x100;
}

/// `op_mod` of `QUERY_HCA_CAP`: group << 1 | this bit for what is in force, and
/// not what could be.
pub const CURRENT: u32 = 1;
/// Bytes of a capability group; it begins at [`CAP`] of the message.
pub const CAP_LEN: usize = 0x1000;
/// Where the capability is in `QUERY_HCA_CAP`'s output and `SET_HCA_CAP`'s input.
pub const CAP: usize = 0x10;
