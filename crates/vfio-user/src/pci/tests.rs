use super::*;

fn nic() -> Identity {
    let at = |offset| BarOffset { bar: 0, offset };
    Identity {
        vendor: 0x15b3,
        device: 0x1017,
        subsystem: (0x15b3, 7),
        revision: 0,
        class: 0x02_0000,
        bars: [
            Bar::Memory64(32 << 20),
            Bar::None,
            Bar::Memory(4096),
            Bar::Io(64),
            Bar::None,
            Bar::None,
        ],
        line: true,
        capabilities: vec![
            Capability::Power { resets: true },
            Capability::Express { speed: 3, width: 16 },
            Capability::Msi(4),
            Capability::MsiX { vectors: 64, table: at(0x2000), pending: at(0x3000) },
        ],
        polled: Some(PolledPages { first: at(0x10000), pages: 4, words: &[0x20, 0x800] }),
    }
}

fn get32(c: &ConfigSpace, at: u64) -> u32 {
    let mut b = [0; 4];
    c.read(c.inside(at, 4).unwrap(), false, &mut b);
    u32::from_le_bytes(b)
}

#[test]
fn a_bar_sizes_itself_when_ones_are_written() {
    let mut c = ConfigSpace::new(&nic());
    c.write(0x10, &[0xff; 24]);
    assert_eq!(get32(&c, 0x10), !((32 << 20) - 1) | 0xc);
    assert_eq!(get32(&c, 0x14), !0, "the upper half");
    assert_eq!([get32(&c, 0x18), get32(&c, 0x1c), get32(&c, 0x20)], [!4095, !63 | 1, 0]);
}

#[test]
fn the_capabilities_are_a_list() {
    let c = ConfigSpace::new(&nic());
    let mut ids = vec![];
    let mut at = get32(&c, 0x34) as u64 & 0xff;
    while at != 0 {
        let word = get32(&c, at);
        ids.push((at, word & 0xff));
        at = (word >> 8 & 0xff).into();
    }
    assert_eq!(ids, [(0x40, 1), (0x48, 0x10), (0x84, 5), (0x94, 0x11)]);
    assert_eq!(get32(&c, 4) >> 16 & 0x10, 0x10);
    assert_eq!(get32(&c, 0x94) >> 16, 63, "MSI-X counts from zero");
}

#[test]
fn identity_cannot_be_written() {
    let mut c = ConfigSpace::new(&nic());
    c.write(0, &[0xff; 4]);
    assert_eq!(get32(&c, 0), 0x1017_15b3);
}

#[test]
fn bus_mastering_and_power_decide_whether_memory_is_reached() {
    let mut c = ConfigSpace::new(&nic());
    assert!(!c.bus_master());
    c.write(4, &[0x06, 0]);
    assert!(c.bus_master());
    assert!(!c.write(0x44, &[3]));
    assert!(!c.bus_master(), "D3hot");
    assert!(c.write(0x44, &[0]));
    assert!(c.bus_master());
}

#[test]
fn a_function_level_reset_is_asked_by_device_control() {
    let mut c = ConfigSpace::new(&nic());
    assert!(!c.write(0x48 + 8, &[0x10, 0x28]));
    assert!(c.write(0x48 + 8, &[0x10, 0xa8]));
    assert_eq!(get32(&c, 0x50) & 0xffff, 0x2810, "the bit reads as zero");
}

#[test]
fn the_line_shows_in_status_and_can_be_disabled() {
    let mut c = ConfigSpace::new(&nic());
    let mut b = [0; 2];
    c.read(c.inside(6, 2).unwrap(), true, &mut b);
    assert_eq!(b[0] & 8, 8);
    assert!(c.line_enabled());
    c.write(5, &[4]);
    assert!(!c.line_enabled());
    assert!(c.inside(4095, 2).is_none() && c.inside(u64::MAX, 1).is_none());
}

#[test]
fn what_cannot_be_is_refused() {
    assert_eq!(nic().check(), Ok(()));
    let wrong = |change: fn(&mut Identity)| {
        let mut id = nic();
        change(&mut id);
        id.check().is_err()
    };
    assert!(wrong(|i| i.bars[1] = Bar::Io(64)), "the upper half is taken");
    assert!(wrong(|i| i.bars[2] = Bar::Memory(4095)));
    assert!(wrong(|i| i.bars[5] = Bar::Memory64(4096)));
    assert!(wrong(|i| i.polled =
        Some(PolledPages { first: BarOffset { bar: 0, offset: 64 }, pages: 1, words: &[0] })));
    assert!(wrong(|i| i.capabilities[2] = Capability::Msi(3)));
    let off = BarOffset { bar: 2, offset: 4096 };
    i_am_outside(off);
    fn i_am_outside(off: BarOffset) {
        let mut id = nic();
        id.capabilities[3] = Capability::MsiX { vectors: 1, table: off, pending: off };
        assert!(id.check().is_err());
    }
}

#[test]
fn the_msix_table_is_not_the_devices() {
    let id = nic();
    assert!(id.is_msix(0, 0x2000) && id.is_msix(0, 0x23ff) && id.is_msix(0, 0x3007));
    assert!(!id.is_msix(0, 0x2400) && !id.is_msix(0, 0x3008) && !id.is_msix(2, 0x2000));
}
