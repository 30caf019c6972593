//! The limits of offload engines: which packets they can do what for.
//!
//! Each NIC's module has a function `can`, which a driver asks before it leaves a checksum or the
//! segmentation of a large send to the device, as Linux asks `netif_skb_features` and
//! `ndo_features_check`. What the device cannot do is done in software. Devices do not ask it: they
//! have knowledge of their own, so that a test can hold one against the other.
//!
//! ```
//! use doorbell_layout::{axienet, axienet::Checksum, offload::{Offload, Request}};
//! use doorbell_packet::{CsumPartial, OffloadRequest};
//!
//! // The core sums from where to where it is told, whatever the packet is.
//! let checksum = Some(CsumPartial { start: 34, offset: 16 });
//! let todo = OffloadRequest { checksum, ..OffloadRequest::NONE };
//! let request = Request { headers: None, todo: &todo, len: 1514 };
//! assert_eq!(axienet::can(&request, Checksum::CsumPartial), Offload::All);
//! assert_eq!(axienet::can(&request, Checksum::Full), Offload::None);
//! ```

use doorbell_packet::headers::{Ip, Layers};
use doorbell_packet::tunnel::Headers;
use doorbell_packet::{Gso, OffloadRequest};

/// The part of a request that a device can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offload {
    /// All of it.
    All,
    /// Checksums, but not the segmentation that is requested.
    ChecksumOnly,
    /// Nothing.
    None,
}

/// A packet with offload requests.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Its headers; `None` if it is not IP, malformed, or behind more than three tags.
    pub headers: Option<Headers>,
    /// The offloads requested.
    pub todo: &'a OffloadRequest,
    /// Bytes of the packet.
    pub len: u32,
}

impl Request<'_> {
    /// Returns the large send with its payload in bytes.
    pub(crate) fn large(&self) -> Option<(Gso, u32)> {
        self.todo.gso.map(|gso| (gso, self.len.saturating_sub(gso.header.into())))
    }

    /// Returns the headers if the request fits them, and the packet has at most one tag, the one to
    /// be inserted included (`vlan_features_check`).
    pub(crate) fn matching(&self) -> Option<&Headers> {
        self.headers.as_ref().filter(|h| h.match_request(self.todo) && self.tags(h) <= 1)
    }

    /// Returns the number of tags, the one to be inserted included.
    fn tags(&self, h: &Headers) -> u8 {
        h.tags + u8::from(self.todo.vlan.is_some())
    }

    /// Returns the headers if an engine for TCP and UDP over plain IPv4 and IPv6 knows them
    /// (`NETIF_F_IP_CSUM`, `NETIF_F_IPV6_CSUM`): the tag, if there is one, is of 802.1Q or 802.1ad
    /// (`vlan_get_protocol`), and IPv6 has no extension headers (`skb_csum_hwoffload_help` and
    /// `gso_features_check`, linux 04c20a9356f2 and 864e3396976e).
    pub(crate) fn plain(&self) -> Option<&Headers> {
        self.matching().filter(|h| is_plain(h))
    }

    /// Returns the headers as [`Request::plain`], also behind two tags if nothing is to be cut and
    /// there is no tunnel: `vlan_features_check` leaves such a packet to a device with
    /// `NETIF_F_HW_CSUM`.
    pub(crate) fn plain_or_double_tagged(&self) -> Option<&Headers> {
        let h = self.headers.as_ref().filter(|h| h.match_request(self.todo) && is_plain(h))?;
        let simple = self.todo.gso.is_none() && h.inner.is_none();
        (self.tags(h) <= if simple { 2 } else { 1 }).then_some(h)
    }
}

/// Returns whether an engine for plain IPv4 and IPv6 knows the headers.
fn is_plain(h: &Headers) -> bool {
    let tags = h.tag_types.iter().all(|t| matches!(t, 0 | 0x8100 | 0x88a8));
    let extended = [&h.outer, h.layers()].into_iter().any(is_extended);
    tags && !extended
}

/// Returns whether an IPv6 header has extension headers behind it.
fn is_extended(l: &Layers) -> bool {
    l.ip == Ip::V6 && l.l4 - l.l3 != 40
}

/// Returns the answer of a device that can do the checksum of a request, and its segmentation if
/// `large` says so.
pub(crate) fn checksum_and(request: &Request<'_>, large: impl FnOnce(Gso, u32) -> bool) -> Offload {
    match request.large() {
        Some((gso, payload)) if !large(gso, payload) => Offload::ChecksumOnly,
        _ => Offload::All,
    }
}

#[cfg(test)]
mod tests;
