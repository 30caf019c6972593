use super::*;

#[test]
fn identifiers_are_those_that_the_driver_expects_of_each_chip() {
    for (v, id) in [
        (Variant::I82544Gc, 0x0141_0c30),
        (Variant::I82540Em, 0x0141_0c20),
        (Variant::I82545Em, 0x0141_0c20),
    ] {
        let mut p = Phy::new(v, Speed::M1000, true);
        let read =
            u32::from(p.read(2, Speed::M1000)) << 16 | u32::from(p.read(3, Speed::M1000) & 0xfff0);
        assert_eq!(read, id);
    }
}

#[test]
fn link_status_latches_low() {
    let mut p = Phy::new(Variant::I82540Em, Speed::M1000, true);
    assert_eq!(p.read(1, Speed::M1000) & 0x24, 0x24);
    p.set_link(false);
    p.set_link(true);
    assert_eq!(p.read(1, Speed::M1000) & 4, 0, "it was down in between");
    assert_eq!(p.read(1, Speed::M1000) & 4, 4);
}

#[test]
fn reset_and_restart_clear_themselves() {
    let mut p = Phy::new(Variant::I82540Em, Speed::M1000, true);
    assert!(p.write(0, 0x9140));
    assert_eq!(p.read(0, Speed::M1000), 0x1140);
    assert!(p.write(0, 0x1340));
    assert_eq!(p.read(0, Speed::M1000), 0x1140);
    assert!(!p.write(0, 0x4140));
    assert!(p.loops());
}

#[test]
fn the_link_is_the_best_mode_that_both_have() {
    let agreed = |partner, adv, adv_1000| {
        let mut p = Phy::new(Variant::I82540Em, partner, true);
        p.write(reg::AUTONEG_ADV, adv);
        p.write(reg::CTRL_1000T, adv_1000);
        p.agree(partner);
        p.mode().map(|m| (m.speed, m.full))
    };
    assert_eq!(agreed(Speed::M1000, 0x01e1, 0x0300), Some((Speed::M1000, true)));
    assert_eq!(agreed(Speed::M100, 0x01e1, 0x0300), Some((Speed::M100, true)));
    assert_eq!(agreed(Speed::M1000, 0x0081, 0), Some((Speed::M100, false)));
    assert_eq!(agreed(Speed::M1000, 0x0061, 0), Some((Speed::M10, true)));
    assert_eq!(agreed(Speed::M100, 0x0001, 0x0200), None, "nothing in common");
}

#[test]
fn a_forced_mode_needs_a_partner_of_that_speed_and_tells_nothing_of_it() {
    let mut p = Phy::new(Variant::I82540Em, Speed::M100, true);
    p.write(reg::CTRL, 0xa100);
    p.agree(Speed::M100);
    assert_eq!(p.mode(), Some(Mode { speed: Speed::M100, full: true }));
    assert_eq!(p.read(reg::M88_STATUS, Speed::M100) & 0xe000, 0x6000);
    assert_eq!(
        (p.read(reg::LP_ABILITY, Speed::M100), p.read(reg::STATUS, Speed::M100) & 0x20),
        (0, 0)
    );
    p.write(reg::CTRL, 0x8140);
    p.agree(Speed::M100);
    assert_eq!(p.mode(), None, "gigabit");
    p.write(reg::CTRL, 0x4140);
    assert_eq!(p.mode(), Some(Mode { speed: Speed::M1000, full: true }), "but in loopback");
}
