//! Proofs of the call area's places, for any number that either side may have written:
//! `tools/proofs.sh`.

use crate::call_area::{
    CALL_AREA_BYTES, CPUS, CallArea, HEAD_OF_RING, MASKS, QUEUES, RETURNED, RING,
};
use crate::irq_masks::{INTERRUPTS, MaskChange, index, mask_change, vector};
use crate::send_ring::{ARRAY, ROW, SEND, SENDS, descriptors};
use crate::table::{ENTRIES, Table};
use doorbell_layout::ibmvnic::{DESCRIPTOR, MAX_INDIRECT};

/// Any CPU has a slot, behind the head, before the masks, and shared only with every 64th.
#[kani::proof]
fn a_cpus_slot_is_its_own() {
    let (cpu, other): (usize, usize) = (kani::any(), kani::any());
    let (at, next) = (CallArea::slot_of(cpu), CallArea::slot_of(other));
    let len = RETURNED + 9 * 8;
    assert!(at % 8 == 0 && at >= HEAD_OF_RING + 8 && at + len <= MASKS);
    assert!(cpu % CPUS == other % CPUS || at + len <= next || next + len <= at);
}

/// Any index of the send ring has a slot; those in the ring at one time do not overlap, also where
/// the index wraps.
#[kani::proof]
fn sends_in_the_ring_do_not_overlap() {
    let (n, behind): (u64, u64) = (kani::any(), kani::any_where(|b| (1..SENDS as u64).contains(b)));
    let (at, other) = (CallArea::slot(n), CallArea::slot(n.wrapping_add(behind)));
    let len = ARRAY + MAX_INDIRECT as usize * DESCRIPTOR;
    assert!(len <= SEND && at % 8 == 0 && at >= RING && at + len <= CALL_AREA_BYTES);
    assert!(at + len <= other || other + len <= at);
}

/// Any row lies between masks and ring.
#[kani::proof]
fn a_row_is_before_the_ring() {
    let row = CallArea::row(kani::any());
    assert!(row % 8 == 0 && row >= QUEUES && row + ROW <= RING);
    assert!(MASKS + INTERRUPTS * 8 <= QUEUES);
}

/// A send never has more descriptors than the ring has room for.
#[kani::proof]
fn a_send_fits_its_slot() {
    let n = descriptors(kani::any(), &kani::any());
    assert!(n.is_none_or(|n| (1..=MAX_INDIRECT as usize).contains(&n)));
}

/// Whatever a guest asks, a mask exists.
#[kani::proof]
fn a_mask_change_names_an_interrupt() {
    match mask_change(kani::any(), kani::any(), kani::any(), &kani::any()) {
        Some(MaskChange::One(n, _)) => assert!(n < INTERRUPTS),
        Some(MaskChange::AllOff) | None => {}
    }
}

/// The guest's number of a sub-CRQ's interrupt leads back to it, for any adapter.
#[kani::proof]
fn an_interrupts_number_leads_back() {
    let (unit, n): (u32, usize) = (kani::any(), kani::any());
    assert!(index(unit, kani::any()) < INTERRUPTS);
    assert!(n >= INTERRUPTS || index(unit, vector(unit, n)) == n);
}

/// Entries that are admitted exist.
#[kani::proof]
fn entries_are_inside_the_table() {
    let (address, count): (u64, u64) = (kani::any(), kani::any());
    if let Some(first) = Table::inside(address, count) {
        assert!(count <= ENTRIES && first <= ENTRIES - count);
        assert!(first == address >> 12);
    }
}
