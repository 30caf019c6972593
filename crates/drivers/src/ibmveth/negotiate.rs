//! Negotiation of offloads with the firmware.
//!
//! Source: ibmveth.c `ibmveth_set_csum_offload`, `ibmveth_set_tso`, `ibmveth_probe`; for trunks,
//! the same before "ibmveth: Support to enable LSO/CSO for Trunk VEA". Each attribute is set by its
//! own call, and a refusal is rolled back by the opposite call, so that firmware without IPv6
//! offload keeps IPv4's.

use super::call;
use super::config::{Config, LargeSend};
use doorbell_hal::Hypervisor;
use doorbell_layout::ibmveth::{Caps, attribute as a};

/// The offloads that were negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Negotiated {
    /// TCP checksums over IPv4 may be omitted.
    pub ipv4_checksum: bool,
    /// TCP checksums over IPv6 may be omitted.
    pub ipv6_checksum: bool,
    /// The firmware takes large sends: the segment size is an argument of each send.
    pub large_send: bool,
    /// Large sends go the old way.
    pub old_large_send: bool,
    /// Buffers may be lent eight at a time.
    pub multi_buffer: bool,
    /// The adapter is the active trunk.
    pub active_trunk: bool,
}

impl Negotiated {
    /// Returns whether TCP checksums may be omitted.
    pub const fn checksum(&self, v4: bool) -> bool {
        if v4 { self.ipv4_checksum } else { self.ipv6_checksum }
    }
    /// Returns whether large TCP sends are allowed; they need omitted checksums.
    pub const fn tso(&self, v4: bool) -> bool {
        self.checksum(v4) && (self.large_send || v4 && self.old_large_send)
    }
    /// Returns what was negotiated for packets over IPv4 and IPv6.
    pub(super) const fn caps(&self) -> Caps {
        Caps {
            checksum: [self.checksum(true), self.checksum(false)],
            large: [self.tso(true), self.tso(false)],
        }
    }
    /// Returns whether large sends with a fragment list are allowed.
    pub(super) const fn fraglist(&self, c: &Config) -> bool {
        c.fraglist && self.active_trunk
    }
}

/// Requests the configured offloads. The adapter is closed.
pub(super) fn negotiate<H: Hypervisor>(h: &mut H, c: &Config) -> Negotiated {
    let mut n = Negotiated::default();
    if !c.illan {
        return n;
    }
    let Ok(now) = call::attributes(h, c.unit, 0, 0) else { return n };
    n.multi_buffer = now & a::RX_MULTI_BUFF != 0;
    n.active_trunk = now & a::ACTIVE_TRUNK != 0;

    let trunk = now & (a::ACTIVE_TRUNK | a::TRUNK_PRI) != 0;
    if now & a::PADDED_PKT_CSUM != 0 {
        let want = c.checksum && (c.trunk_checksum || !trunk);
        n.ipv4_checksum = change(h, c, now, a::IPV4_TCP_CSUM, want);
        n.ipv6_checksum = change(h, c, now, a::IPV6_TCP_CSUM, want);
    }
    if now & a::LRG_SND_SUPPORT != 0 {
        n.large_send = change(h, c, now, a::LRG_SR_ENABLED, c.large_send == LargeSend::Firmware);
    }
    n.old_large_send = c.large_send != LargeSend::Off && !n.large_send;
    n
}

/// Sets or resets one attribute. Returns whether it is on afterwards.
fn change<H: Hypervisor>(h: &mut H, c: &Config, now: u64, bit: u64, on: bool) -> bool {
    if !on && now & bit == 0 {
        return false;
    }
    let (reset, set) = if on { (0, bit) } else { (bit, 0) };
    match call::attributes(h, c.unit, reset, set) {
        Ok(then) => then & bit != 0,
        Err(_) => {
            // If the rollback is refused too, the attribute is unchanged.
            let _ = call::attributes(h, c.unit, set, reset);
            now & bit != 0
        }
    }
}
