use super::*;

#[test]
fn pieces_are_placed_used_again_and_end() {
    let mut h = DirectHost::new(16 << 10, NoDevice);
    let b = h.buffer(100, Alignment { align: 64, offset: 2 }).unwrap();
    assert_eq!(b.addr() % 64, 2);
    let at = b.addr();
    h.release(b);
    assert_eq!(h.buffer(100, Alignment { align: 64, offset: 2 }).unwrap().addr(), at);
    assert_eq!(h.buffer(1 << 20, Alignment::ANY), Err(OutOfMemory));
}

#[test]
fn cpu_and_device_see_the_same_bytes() {
    let mut h = DirectHost::new(16 << 10, NoDevice);
    let c = h.coherent(64, 64).unwrap();
    h.store(&c, 8, 0x1122_3344u32);
    let mut seen = [0; 4];
    assert_eq!(h.port.read(Time::ZERO, c.iova() + 8, &mut seen), Ok(Time::ZERO));
    assert_eq!(u32::from_ne_bytes(seen), 0x1122_3344);
    h.port.write(Time::ZERO, c.iova() + 8, &[7; 4]).unwrap();
    assert_eq!(h.load::<[u8; 4]>(&c, 8), [7; 4]);
}

#[test]
fn a_device_reaches_neither_address_zero_nor_past_the_end() {
    let mut h = DirectHost::new(16 << 10, NoDevice);
    for at in [0, 4095, (16 << 10) - 3, u64::MAX - 1] {
        assert!(h.port.read(Time::ZERO, Iova(at), &mut [0; 4]).is_err());
        assert!(h.port.write(Time::ZERO, Iova(at), &[0; 4]).is_err());
    }
}
