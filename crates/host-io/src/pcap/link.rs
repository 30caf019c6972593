//! Link types other than Ethernet, whose packets get a made-up Ethernet header: raw IP, BSD
//! loopback, PPP, Cisco HDLC, and Linux cooked packets (`tcpdump -i any`).
//!
//! Sources: tcpdump.org/linktypes.html, RFC 1661, RFC 1662 and RFC 1547, 4.3.1. A cooked header
//! holds the sender's address and the EtherType. The receiver's address is not known: it is of the
//! kind that the header tells. The others have no addresses at all.

use super::Fault;
use doorbell_hal::fail_if;

/// A link type of a capture.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Link {
    Ethernet,
    /// LINKTYPE_LINUX_SLL.
    Cooked,
    /// LINKTYPE_LINUX_SLL2, the same since libpcap 1.10.
    Cooked2,
    /// IP, of this version if the link type tells it.
    Raw(Option<u8>),
    /// An address family in the order of the capturing host's bytes, or the network's.
    Loopback,
    /// PPP, perhaps in HDLC-like framing; or Cisco HDLC.
    Ppp,
    Hdlc,
}

impl Link {
    /// Returns the link type of a number.
    pub(super) fn of(number: u32) -> Result<Link, Fault> {
        Ok(match number {
            1 => Link::Ethernet,
            113 => Link::Cooked,
            276 => Link::Cooked2,
            // 12 and 14 are raw IP in files of systems whose own number that is.
            12 | 14 | 101 => Link::Raw(None),
            228 => Link::Raw(Some(4)),
            229 => Link::Raw(Some(6)),
            0 | 108 => Link::Loopback,
            9 | 50 => Link::Ppp,
            104 => Link::Hdlc,
            _ => return Err(Fault::LinkType(number)),
        })
    }

    /// Returns whether this is a Linux cooked packet.
    pub(super) fn is_cooked(self) -> bool {
        matches!(self, Link::Cooked | Link::Cooked2)
    }
}

/// An Ethernet header, empty if the packet has one, and the captured bytes behind it.
pub(super) type Split<'a> = (Head, &'a [u8]);

/// A made-up Ethernet header.
pub(super) type Head = Option<[u8; 14]>;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const MPLS: [u16; 2] = [0x8847, 0x8848];
/// The made-up addresses of a receiver and of a sender.
const RECEIVER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const SENDER: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Returns the Ethernet header for a packet of `original` bytes, and the captured bytes behind its
/// own header; `None` if that was not captured whole.
pub(super) fn split(link: Link, data: &[u8], original: u32) -> Result<Option<Split<'_>>, Fault> {
    let found = match link {
        Link::Ethernet => return Ok(Some((None, data))),
        Link::Cooked | Link::Cooked2 => return cooked(link, data, original),
        Link::Raw(version) => raw(version, data),
        Link::Loopback => loopback(data),
        Link::Ppp => ppp(data),
        Link::Hdlc => hdlc(data),
    };
    let Some((ether_type, data)) = found.transpose()? else { return Ok(None) };
    Ok(Some((Some(head(RECEIVER, &SENDER, ether_type)), data)))
}

fn head(receiver: [u8; 6], sender: &[u8], ether_type: u16) -> [u8; 14] {
    let mut head = [0; 14];
    head[..6].copy_from_slice(&receiver);
    head[6..12].copy_from_slice(sender);
    head[12..].copy_from_slice(&ether_type.to_be_bytes());
    head
}

/// Devices whose packets have an EtherType: ARPHRD_ETHER, ARPHRD_LOOPBACK, ARPHRD_NONE.
const DEVICES: [u16; 3] = [1, 772, 65534];
/// Kinds of packets (`LINUX_SLL_*`).
const BROADCAST: u8 = 1;
const MULTICAST: u8 = 2;
/// Protocols that are no EtherType: 802.3 without, and with an 802.2 header. Ethernet has their
/// length there.
const LENGTHS: [u16; 2] = [1, 4];

fn cooked(link: Link, data: &[u8], original: u32) -> Result<Option<Split<'_>>, Fault> {
    let len = if link == Link::Cooked { 16 } else { 20 };
    let Some((h, payload)) = data.split_at_checked(len) else { return Ok(None) };
    let word = |at: usize| u16::from_be_bytes([h[at], h[at + 1]]);
    let (protocol, device, kind, address) = if link == Link::Cooked {
        (word(14), word(2), h[1], &h[6..12])
    } else {
        (word(0), word(8), h[10], &h[12..18])
    };
    // Other devices have protocols of their own, but IP is the EtherType's if the packet agrees.
    let ip = ether_type_of_ip(payload).is_some_and(|ip| ip == protocol);
    fail_if(!DEVICES.contains(&device) && !ip, Fault::Cooked(device))?;
    let receiver = match kind {
        BROADCAST => [0xff; 6],
        MULTICAST => [1, 0, 0x5e, 0, 0, 1],
        _ => RECEIVER,
    };
    let ether_type =
        if LENGTHS.contains(&protocol) { (original - len as u32) as u16 } else { protocol };
    Ok(Some((Some(head(receiver, address, ether_type)), payload)))
}

/// An EtherType and what is behind the link's header; `None` if that is not all there.
type Typed<'a> = Option<Result<(u16, &'a [u8]), Fault>>;

fn raw(version: Option<u8>, data: &[u8]) -> Typed<'_> {
    let found = data.first()? >> 4;
    let right = version.is_none_or(|v| v == found);
    Some(match ether_type_of_ip(data).filter(|_| right) {
        Some(ip) => Ok((ip, data)),
        None => Err(Fault::NotIp("version of IP", found.into())),
    })
}

/// Reads the family, which is of the host that captured: 2 is IPv4, and IPv6 differs.
fn loopback(data: &[u8]) -> Typed<'_> {
    const INET: u32 = 2;
    /// NetBSD's and OpenBSD's, FreeBSD's, Darwin's.
    const INET6: [u32; 3] = [24, 28, 30];
    let (family, data) = data.split_first_chunk()?;
    let families = [u32::from_be_bytes(*family), u32::from_le_bytes(*family)];
    Some(if families.contains(&INET) {
        Ok((IPV4, data))
    } else if INET6.iter().any(|f| families.contains(f)) {
        Ok((IPV6, data))
    } else {
        Err(Fault::NotIp("address family", families[0].min(families[1])))
    })
}

fn ppp(data: &[u8]) -> Typed<'_> {
    let data = match *data {
        // Address and control of HDLC-like framing; or compressed away.
        [0xff, 0x03, ref rest @ ..] => rest,
        [0x0f | 0x8f, 0x00, ..] => return hdlc(data),
        _ => data,
    };
    // The last byte of a protocol is odd; a first one that is says that the other was compressed.
    let (protocol, data) = match *data {
        [low, ref rest @ ..] if low & 1 == 1 => (u16::from(low), rest),
        [high, low, ref rest @ ..] => (u16::from_be_bytes([high, low]), rest),
        _ => return None,
    };
    Some(match protocol {
        0x21 => Ok((IPV4, data)),
        0x57 => Ok((IPV6, data)),
        0x281 => Ok((MPLS[0], data)),
        0x283 => Ok((MPLS[1], data)),
        _ => Err(Fault::NotIp("PPP protocol", protocol.into())),
    })
}

fn hdlc(data: &[u8]) -> Typed<'_> {
    let ([_, _, high, low], data) = data.split_first_chunk()?;
    let protocol = u16::from_be_bytes([*high, *low]);
    let known = [IPV4, IPV6].contains(&protocol) || MPLS.contains(&protocol);
    Some(known.then_some((protocol, data)).ok_or(Fault::NotIp("HDLC protocol", protocol.into())))
}

/// Returns the EtherType of an IP packet by its version.
fn ether_type_of_ip(packet: &[u8]) -> Option<u16> {
    match packet.first()? >> 4 {
        4 => Some(IPV4),
        6 => Some(IPV6),
        _ => None,
    }
}
