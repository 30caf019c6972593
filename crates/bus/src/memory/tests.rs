use super::*;

fn memory(guard: ProtectionGranularity) -> Memory {
    Memory::new(1 << 32, 1 << 20, guard).unwrap()
}

#[test]
fn a_buffer_starts_where_it_was_asked_to() {
    let mut m = memory(ProtectionGranularity::Page);
    for (align, offset) in [(64, 0), (64, 2), (512, 168), (4096, 18)] {
        let b = m.buffer(1514, Alignment { align, offset }).unwrap();
        assert_eq!(b.addr() % u64::from(align), u64::from(offset));
        assert_eq!(b.len(), 1514);
    }
}

#[test]
fn released_blocks_are_used_again() {
    let mut m = memory(ProtectionGranularity::Page);
    let a = m.buffer(1000, Alignment::ANY).unwrap();
    let addr = a.addr();
    m.release(a);
    assert_eq!(m.buffer(900, Alignment::ANY).unwrap().addr(), addr);
}

#[test]
fn objects_of_a_pool_lie_next_to_each_other() {
    let mut m = Memory::new(1 << 32, 8 << 20, ProtectionGranularity::Page).unwrap();
    let place = Alignment { align: 2368, offset: 320 };
    let first = m.buffer(2048, place).unwrap();
    assert_eq!((first.addr() - (1 << 32)) % 2368, 320);
    // 885 of them in 2 MiB.
    let mut all: Vec<Buf> = (1..885).map(|_| m.buffer(2048, place).unwrap()).collect();
    let places = all.iter().map(|b| b.addr());
    assert!(places.zip(1..).all(|(at, n)| at == first.addr() + 2368 * n));
    let other = m.buffer(64, Alignment::ANY).unwrap();
    assert!(!(first.addr()..first.addr() + (2 << 20) - 320).contains(&other.addr()));
    let (kept, last) = (all.pop().unwrap(), all.pop().unwrap());
    let addr = last.addr();
    m.release(last);
    assert_eq!(m.buffer(100, place).unwrap().addr(), addr);
    m.release(kept);
    assert_eq!(m.buffer(2049, place), Err(OutOfMemory), "larger than an object");
}

#[test]
fn alignment_gaps_are_not_lost() {
    let mut m = memory(ProtectionGranularity::Page);
    let small = m.buffer(64, Alignment::ANY).unwrap();
    let large = m.buffer(4096, Alignment { align: 4096, offset: 0 }).unwrap();
    assert_eq!(large.addr() - small.addr(), 4096);
    for _ in 0..63 {
        assert!(m.buffer(64, Alignment::ANY).unwrap().addr() < large.addr());
    }
}

#[test]
fn memory_ends() {
    let mut m = memory(ProtectionGranularity::Page);
    assert_eq!(m.buffer(2 << 20, Alignment::ANY), Err(OutOfMemory));
    assert_eq!(m.buffer(u32::MAX, Alignment::ANY), Err(OutOfMemory));
}

#[test]
fn a_device_reads_only_what_is_lent_to_be_read() {
    let mut m = memory(ProtectionGranularity::Page);
    let b = m.buffer(100, Alignment::ANY).unwrap();
    let at = Iova(b.addr());
    let unmapped = Err(DmaFault { at, kind: DmaFaultKind::Unmapped });
    let mut into = [0; 100];
    assert_eq!(m.device_read(at, &mut into, usize::MAX), unmapped);
    m.map(at, 100, Direction::ToDevice);
    assert_eq!(m.device_read(at, &mut into, usize::MAX), Ok(()));
    assert_eq!(m.device_may_write(at, 1), Err(DmaFault { at, kind: DmaFaultKind::Direction }));
    m.unmap(at, 100, Direction::ToDevice);
    assert_eq!(m.device_read(at, &mut into, usize::MAX), unmapped);
}

#[test]
fn the_byte_guard_sees_one_byte_too_many() {
    let mut m = memory(ProtectionGranularity::Byte);
    let b = m.buffer(100, Alignment::ANY).unwrap();
    let at = Iova(b.addr());
    m.map(at, 100, Direction::ToDevice);
    assert_eq!(m.device_read(at, &mut [0; 100], usize::MAX), Ok(()));
    let fault = DmaFault { at: at + 100, kind: DmaFaultKind::Unmapped };
    assert_eq!(m.device_read(at, &mut [0; 101], usize::MAX), Err(fault));
}

#[test]
fn addresses_outside_memory_fault() {
    let m = memory(ProtectionGranularity::Page);
    for at in [0, (1 << 32) - 1, (1 << 32) + (1 << 20), u64::MAX] {
        assert_eq!(
            m.device_read(Iova(at), &mut [0; 4], usize::MAX),
            Err(DmaFault { at: Iova(at), kind: DmaFaultKind::Unmapped })
        );
    }
}

#[test]
fn more_than_the_address_space_is_refused() {
    let all = 1 << 62;
    assert_eq!(Memory::new(1 << 32, all, ProtectionGranularity::Page).err(), Some(OutOfMemory));
}
