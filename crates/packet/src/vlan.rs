//! Insertion and removal of 802.1Q tags, as in `skb_vlan_push` and `skb_vlan_untag`.
//!
//! The tag follows the addresses, so the twelve bytes before it move and the rest stays: a frame
//! with four bytes of room in front need not be copied.

use crate::ethernet::{ADDRESSES, HEADER};

/// Bytes of a tag.
pub const TAG: usize = 4;
/// The type that announces an 802.1Q tag.
pub const TPID: u16 = 0x8100;

/// The most tags that are looked for in a frame: a provider's, a customer's, and one that a driver
/// inserts.
pub const MAX_TAGS: usize = 3;

/// Returns whether a type announces a tag: 802.1Q, 802.1ad, and the old 0x9100.
pub const fn is_type(ether_type: u16) -> bool {
    matches!(ether_type, TPID | 0x88a8 | 0x9100)
}

/// Returns the length in bytes of the Ethernet header with all its tags. The frame may be shorter.
pub fn header(frame: &[u8]) -> usize {
    let mut end = HEADER;
    while end < HEADER + MAX_TAGS * TAG
        && let Some(&[high, low]) = frame.get(end - 2..end)
        && is_type(u16::from_be_bytes([high, low]))
    {
        end += TAG;
    }
    end
}

/// Tags the frame that begins at `buf[4]`; the tagged frame begins at `buf[0]`.
///
/// # Panics
/// Panics if `buf` cannot hold a tag and two addresses.
pub fn insert(buf: &mut [u8], tci: u16) {
    buf.copy_within(TAG..TAG + ADDRESSES, 0);
    buf[ADDRESSES..ADDRESSES + 2].copy_from_slice(&TPID.to_be_bytes());
    buf[ADDRESSES + 2..ADDRESSES + TAG].copy_from_slice(&tci.to_be_bytes());
}

/// Copies `frame` to the start of `out` with a tag. Returns the new length.
///
/// # Panics
/// Panics if `out` is too short or `frame` has no two addresses.
pub fn insert_into(out: &mut [u8], frame: &[u8], tci: u16) -> usize {
    let len = frame.len() + TAG;
    out[TAG..len].copy_from_slice(frame);
    insert(&mut out[..len], tci);
    len
}

/// Returns the TCI of the outer 802.1Q tag, if the frame has one and a type behind it.
pub fn tag(frame: &[u8]) -> Option<u16> {
    match frame.get(ADDRESSES..ADDRESSES + TAG + 2)? {
        [0x81, 0x00, a, b, ..] => Some(u16::from_be_bytes([*a, *b])),
        _ => None,
    }
}

/// Removes the outer 802.1Q tag; the rest begins at `frame[4]`. Returns `None`, and changes
/// nothing, when there is none.
pub fn strip(frame: &mut [u8]) -> Option<u16> {
    let tci = tag(frame)?;
    frame.copy_within(..ADDRESSES, TAG);
    Some(tci)
}

#[cfg(test)]
mod tests;
