//! Linux cooked packets, as of `tcpdump -i any`: packets without their link header, behind a header
//! of the capture (LINKTYPE_LINUX_SLL and LINKTYPE_LINUX_SLL2 of tcpdump.org/linktypes.html).
//!
//! It holds the sender's address and the EtherType. The receiver's address is not known: it is made
//! up, of the kind that the header tells.

use super::Fault;
use super::error::COOKED;
use doorbell_hal::fail_if;

/// Devices whose packets have an EtherType: ARPHRD_ETHER, ARPHRD_LOOPBACK, ARPHRD_NONE.
const DEVICES: [u16; 3] = [1, 772, 65534];
/// Kinds of packets (`LINUX_SLL_*`).
const BROADCAST: u8 = 1;
const MULTICAST: u8 = 2;
/// Protocols that are no EtherType: 802.3 without, and with an 802.2 header. Ethernet has their
/// length there.
const LENGTHS: [u16; 2] = [1, 4];

/// An Ethernet header, and the captured bytes behind it.
type Split<'a> = ([u8; 14], &'a [u8]);

/// Returns an Ethernet header for a cooked packet of `original` bytes, and the captured bytes
/// behind its own; `None` if that was not captured whole.
pub(super) fn split(link: u32, data: &[u8], original: u32) -> Result<Option<Split<'_>>, Fault> {
    let len = if link == COOKED { 16 } else { 20 };
    let Some((h, payload)) = data.split_at_checked(len) else { return Ok(None) };
    let word = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
    let (protocol, device, kind, address) = if link == COOKED {
        (word(14), word(2), h[1], &h[6..12])
    } else {
        (word(0), word(8), h[10], &h[12..18])
    };
    fail_if(!DEVICES.contains(&device), Fault::Cooked(device))?;
    let receiver = match kind {
        BROADCAST => [0xff; 6],
        MULTICAST => [1, 0, 0x5e, 0, 0, 1],
        _ => [2, 0, 0, 0, 0, 1],
    };
    let ether_type =
        if LENGTHS.contains(&protocol) { (original - len as u32) as u16 } else { protocol };
    let mut head = [0; 14];
    head[..6].copy_from_slice(&receiver);
    head[6..12].copy_from_slice(address);
    head[12..].copy_from_slice(&ether_type.to_be_bytes());
    Ok(Some((head, payload)))
}
