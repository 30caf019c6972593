use super::*;

#[test]
fn link_status_latches_low() {
    let mut p = Phy::new(true);
    assert_eq!(p.read(reg::STATUS, Speed::M1000) & 0x24, 0x24);
    p.set_link(false);
    p.set_link(true);
    assert_eq!(p.read(reg::STATUS, Speed::M1000) & 4, 0, "it was down in between");
    assert_eq!(p.read(reg::STATUS, Speed::M1000) & 4, 4);
}

#[test]
fn reset_and_restart_clear_themselves_and_a_reset_forgets() {
    let mut p = Phy::new(true);
    assert!(!p.write(reg::ADVERTISE, 0x0061));
    assert!(p.write(reg::CONTROL, 0x1340));
    assert_eq!((p.read(0, Speed::M1000), p.read(4, Speed::M1000)), (0x1140, 0x0061));
    assert!(p.write(reg::CONTROL, 0x8000));
    assert_eq!((p.read(0, Speed::M1000), p.read(4, Speed::M1000)), (0x1140, 0x0de1));
}

#[test]
fn power_down_takes_the_link() {
    let mut p = Phy::new(true);
    assert!(p.write(reg::CONTROL, 0x1940));
    assert!(!p.is_powered());
    assert!(p.write(reg::CONTROL, 0x1140));
    assert!(p.is_powered());
}
