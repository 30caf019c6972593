//! Checks of panics, and of handles of released memory: no program in C shows those.

use super::on;
use crate::db::{Db, Memory};
use doorbell_hal::Buf;

#[test]
fn a_panic_is_kept_and_not_passed_on() {
    let mut db = Db::default();
    // SAFETY: It is alive, and has no other reference.
    let read: u32 = unsafe { on(&raw mut db, "test", |_| panic!("of the machine")) };
    assert_eq!((read, db.refused.calls), (0, 0));
    let panicked = db.panicked.take().expect("the panic is kept");
    assert_eq!(panicked.downcast_ref(), Some(&"of the machine"));
}

#[test]
fn a_handle_is_of_one_use_of_its_slot() {
    let mut db = Db::default();
    let mut keep = || match db.keep(Memory::Buffer(Buf::from_parts(0, 64, 0), None)) {
        Ok(handle) => (handle, db.take(handle).is_some(), db.take(handle).is_some()),
        Err(memory) => panic!("{memory:?}"),
    };
    let handles: Vec<u32> = (0..5000)
        .map(|_| {
            let (handle, first, second) = keep();
            assert!(handle != 0 && first && !second);
            handle
        })
        .collect();
    // As many uses as are told apart.
    let mut once = handles[..4096].to_vec();
    once.sort_unstable();
    once.dedup();
    assert_eq!((once.len(), handles[4096]), (4096, handles[0]));
}
