use super::*;

#[test]
fn a_level_sends_once_and_again_at_acknowledge_while_high() {
    let mut l = Line::default();
    assert!(!l.set(true), "not enabled");
    assert!(l.write(ENABLE | LEVEL, 0), "what was high is sent when it is");
    assert!(!l.set(false) && !l.set(true), "waiting for IACK");
    assert!(l.write(IACK, 0));
    l.set(false);
    assert!(!l.write(IACK, 0));
    assert!(l.set(true));
    assert_eq!(l.control, ENABLE | LEVEL, "IACK is an action");
}

#[test]
fn an_edge_sends_at_each_rise() {
    let mut l = Line::default();
    l.write(ENABLE, 0);
    for _ in 0..2 {
        assert!(l.set(true) && !l.set(true) && !l.set(false));
    }
}

#[test]
fn a_line_switched_off_forgets_that_it_waits() {
    let mut l = Line::default();
    l.write(ENABLE | LEVEL, 0);
    assert!(l.set(true));
    assert!(!l.write(0, ENABLE));
    assert!(l.write(ENABLE, 0));
}

#[test]
fn each_place_is_one_cores() {
    let at = |offset| Reg { region: BUS, offset };
    assert_eq!(core(at(0x404)), Some(Reg { region: MAC, offset: 0x404 }));
    assert_eq!(core(at(0x4_0030)), Some(Reg { region: DMA, offset: 0x30 }));
    assert_eq!(core(at(0x4_1000)), None);
    assert_eq!(core(Reg::at(0x404)), None, "BAR 0");
    assert_eq!((word(at(0x10_8808), SET), word(at(0x10_8c10), CLEAR)), (Some(0), Some(2)));
    assert_eq!(
        (word(at(0x10_8804), SET), word(at(0x10_880a), SET), word(at(0x10_88fc), SET)),
        (None, None, None)
    );
}
