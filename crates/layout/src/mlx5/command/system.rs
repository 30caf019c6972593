//! Messages that bring the device up and down, and the page grants.

use super::InHeader;

layout! {
    /// `op_mod` of `QUERY_PAGES` and `MANAGE_PAGES`.
    mod pages: u32 {
        BOOT = 1, "Query: what is needed to read capabilities.";
        INIT = 2, "Query: what is needed for `INIT_HCA`.";
        REGULAR = 3, "Query: what the device would like now; negative to give back.";
        CANNOT_GIVE = 0, "Manage: the driver has none to give.";
        GIVE = 1, "Manage: here are some.";
        TAKE = 2, "Manage: give some back.";
    }

    const ISSI_1: u32 = 1 << 1, "ISSI 1, as a bit of [`QueryIssiOut::SUPPORTED`].";

    /// `ENABLE_HCA`, `DISABLE_HCA`: which function; 0 is one's own.
    message FunctionIn[0x0c] { HEADER = part(0x00, InHeader), FUNCTION = bits(0x08, 15, 0) }

    /// `QUERY_ISSI` output: bit n of `SUPPORTED` is ISSI n.
    message QueryIssiOut[0x70] { CURRENT = bits(0x08, 15, 0), SUPPORTED = bits(0x6c, 31, 0) }

    /// `SET_ISSI`.
    message SetIssiIn[0x0c] { HEADER = part(0x00, InHeader), CURRENT = bits(0x08, 15, 0) }

    /// `QUERY_PAGES` output; the number is signed.
    message QueryPagesOut[0x10] { FUNCTION = bits(0x08, 15, 0), PAGES = bits(0x0c, 31, 0) }

    /// `MANAGE_PAGES`; addresses of 4 KiB pages follow.
    message ManagePagesIn[0x10] {
        HEADER = part(0x00, InHeader), FUNCTION = bits(0x08, 15, 0), ENTRIES = bits(0x0c, 31, 0),
    }

    /// `MANAGE_PAGES` output; the addresses follow when pages are taken back.
    message ManagePagesOut[0x10] { ENTRIES = bits(0x08, 31, 0) }

    /// `QUERY_ADAPTER` output: the board's PSID is at [`QueryAdapterOut::PSID`].
    message QueryAdapterOut[0x110] { VENDOR = bits(0x28, 23, 0) }

    impl QueryAdapterOut: usize {
        PSID = 0x100, "Offset of the 16 bytes of the PSID.";
    }

    const usize {
        /// `op_mod` of `QUERY_HCA_CAP`: group << 1 | this bit for what is in force, and
        /// not what could be.
        CURRENT: u32 = 1;
        CAP_LEN = 0x1000, "Bytes of a capability group; it begins at [`CAP`] of the message.";
        /// Offset of the capability in `QUERY_HCA_CAP`'s output and `SET_HCA_CAP`'s input.
        CAP = 0x10;
    }
}
