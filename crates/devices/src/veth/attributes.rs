//! H_ILLAN_ATTRIBUTES: what firmware and driver agree on.
//!
//! Some bits say what firmware can do, and stay. Some are switches of the driver's: checksums
//! that may be left out, large packets that it takes whole. They change only while the
//! adapter is closed. Two speak of trunks: the priority stays, and the active one gives way when
//! another becomes active. What cannot be changed is H_CONSTRAINED, and everything else is
//! changed all the same; only nonsense is refused as a whole. PAPR, table "ILLAN Attributes".

use doorbell_layout::ibmveth::attribute::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// All was done.
    Done(u64),
    /// Some was not.
    Constrained(u64),
    /// Nothing changed: the request makes no sense.
    Refused,
}

/// Firmware's bits.
const FIXED: u64 = RX_MULTI_BUFF | LRG_SND_SUPPORT | PADDED_PKT_CSUM;
/// The driver's.
pub(super) const SWITCHES: u64 = LRG_SR_ENABLED | IPV4_TCP_CSUM | IPV6_TCP_CSUM;

/// Returns the attributes before any change.
pub(super) const fn initial(offered: u64, trunk: u8, active: bool) -> u64 {
    (offered & FIXED) | (trunk as u64) << TRUNK_PRI_SHIFT | if active { ACTIVE_TRUNK } else { 0 }
}

/// Changes `now`; `offered` is what firmware can do for this adapter.
pub(super) fn change(now: u64, offered: u64, open: bool, reset: u64, set: u64) -> Change {
    let wanted = now & !reset | set;
    let trunk = now & TRUNK_PRI != 0;
    let gives_up = now & ACTIVE_TRUNK != 0 && wanted & ACTIVE_TRUNK == 0;
    let becomes_trunk = !trunk && set & TRUNK_PRI != 0;
    if gives_up || becomes_trunk {
        return Change::Refused;
    }
    let switches = match open {
        true => 0,
        false => {
            let large = if offered & LRG_SND_SUPPORT != 0 { LRG_SR_ENABLED } else { 0 };
            offered & (IPV4_TCP_CSUM | IPV6_TCP_CSUM) | large
        }
    };
    let may = switches | if trunk { ACTIVE_TRUNK } else { 0 };
    let known = FIXED & offered | SWITCHES | ACTIVE_TRUNK | if trunk { TRUNK_PRI } else { 0 };
    let new = now & !may | wanted & may;
    if (new ^ wanted) & known == 0 { Change::Done(new) } else { Change::Constrained(new) }
}

#[cfg(test)]
mod tests;
