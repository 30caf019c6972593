//! Pools that stand exactly on a limit, and the sets that can be kept.

use super::*;
use doorbell_testkit::{DirectHost, NoDevice};

fn allocate(count: u32, slot: u32) -> Result<Vec<u32>, OpenError> {
    let mut h = DirectHost::new(48 << 20, NoDevice);
    let mut ids = MapIds::new();
    let set = LtbSet::allocate(&mut h, &mut ids, count, slot)?;
    assert!(set.fits(count, slot));
    let lens = set.ltbs.iter().map(|l| l.area.len()).collect();
    set.release(&mut h, &mut ids);
    assert_eq!(ids.take(), Some(1), "all ids come back");
    Ok(lens)
}

#[test]
fn a_pool_has_exactly_38_mib_and_a_slot_8() {
    const MIB: u32 = 1 << 20;
    assert_eq!(allocate(38, MIB), Ok(alloc::vec![8 * MIB, 8 * MIB, 8 * MIB, 8 * MIB, 6 * MIB]));
    assert_eq!(allocate(39, MIB), Err(OpenError::OutOfMemory));
    assert_eq!(allocate(38, MIB + 1), Err(OpenError::OutOfMemory), "in lines of 128 bytes");
    assert_eq!(allocate(2, 8 * MIB), Ok(alloc::vec![8 * MIB; 2]));
    assert_eq!(allocate(2, 8 * MIB + 1), Err(OpenError::OutOfMemory));
}

#[test]
fn a_set_fits_the_same_slots_in_whole_lines() {
    let mut h = DirectHost::new(1 << 20, NoDevice);
    let set = LtbSet::allocate(&mut h, &mut MapIds::new(), 16, 1500).unwrap();
    for (count, slot, fits) in [
        (16, 1500, true),
        (16, 1409, true),
        (16, 1536, true),
        (16, 1408, false),
        (16, 1537, false),
        (15, 1500, false),
        (17, 1500, false),
    ] {
        assert_eq!(set.fits(count, slot), fits, "{count} slots of {slot}");
    }
}
