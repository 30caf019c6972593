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
    assert_eq!(
        change(now, OFFERED, false, 0, IPV4_TCP_CSUM | IPV6_TCP_CSUM),
        Change::Constrained(v4)
    );
    assert_eq!(change(0, 0, false, 0, LRG_SR_ENABLED), Change::Constrained(0));
    assert_eq!(change(now, OFFERED, false, LRG_SND_SUPPORT, 0), Change::Constrained(now));
    assert_eq!(
        change(now, OFFERED, false, 1 << 40, 1 << 41),
        Change::Done(now),
        "bits nobody knows are ignored"
    );
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
