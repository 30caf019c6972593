//! H_ILLAN_ATTRIBUTES: what firmware and driver agree on.
//!
//! Some bits say what firmware can do, and stay. Some are switches of the driver's: checksums
//! that may be left out, large packets that it takes whole. They change only while the
//! adapter is closed. Two speak of trunks: the priority stays, and the active one gives way when
//! another becomes active. What cannot be changed is H_CONSTRAINED, and everything else is
//! changed all the same; only nonsense is refused as a whole. PAPR, table "ILLAN Attributes".

use doorbell_layout::ibmveth::attribute::*;

/// What came of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// All was done.
    Done(u64),
    /// Some was not.
    Constrained(u64),
    /// Nothing was, for it makes no sense.
    Refused,
}

/// Firmware's bits.
const FIXED: u64 = RX_MULTI_BUFF | LRG_SND_SUPPORT | PADDED_PKT_CSUM;
/// The driver's.
pub(super) const SWITCHES: u64 = LRG_SR_ENABLED | IPV4_TCP_CSUM | IPV6_TCP_CSUM;

/// What they are before anybody has changed them.
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
mod tests {
    use super::*;

    const OFFERED: u64 = FIXED | IPV4_TCP_CSUM;

    #[test]
    fn switches_change_only_while_the_adapter_is_closed() {
        let now = initial(OFFERED, 0, false);
        assert_eq!(now, FIXED);
        let on = now | IPV4_TCP_CSUM | LRG_SR_ENABLED;
        assert_eq!(change(now, OFFERED, false, 0, IPV4_TCP_CSUM | LRG_SR_ENABLED), Change::Done(on));
        assert_eq!(change(now, OFFERED, true, 0, IPV4_TCP_CSUM), Change::Constrained(now));
        assert_eq!(change(on, OFFERED, true, IPV4_TCP_CSUM, 0), Change::Constrained(on));
        assert_eq!(change(on, OFFERED, true, 0, IPV4_TCP_CSUM), Change::Done(on), "it is so already");
        assert_eq!(change(on, OFFERED, false, SWITCHES, 0), Change::Done(now));
    }

    #[test]
    fn what_is_not_offered_is_constrained_and_the_rest_is_done() {
        let now = initial(OFFERED, 0, false);
        let v4 = now | IPV4_TCP_CSUM;
        assert_eq!(change(now, OFFERED, false, 0, IPV4_TCP_CSUM | IPV6_TCP_CSUM), Change::Constrained(v4));
        assert_eq!(change(0, 0, false, 0, LRG_SR_ENABLED), Change::Constrained(0));
        assert_eq!(change(now, OFFERED, false, LRG_SND_SUPPORT, 0), Change::Constrained(now));
        assert_eq!(change(now, OFFERED, false, 1 << 40, 1 << 41), Change::Done(now), "bits nobody knows are ignored");
    }

    #[test]
    fn a_trunk_becomes_active_and_never_stops_by_itself() {
        let backup = initial(OFFERED, 2, false);
        assert_eq!(backup & TRUNK_PRI, 0x200);
        assert_eq!(change(backup, OFFERED, true, 0, ACTIVE_TRUNK), Change::Done(backup | ACTIVE_TRUNK));
        let active = initial(OFFERED, 1, true);
        assert_eq!(change(active, OFFERED, true, ACTIVE_TRUNK, 0), Change::Refused);
        assert_eq!(change(active, OFFERED, false, 0x100, 0x300), Change::Constrained(active));
        let plain = initial(OFFERED, 0, false);
        assert_eq!(change(plain, OFFERED, false, 0, ACTIVE_TRUNK), Change::Constrained(plain));
        assert_eq!(change(plain, OFFERED, false, 0, 0x100), Change::Refused);
    }
}
