//! Proofs of the rings' arithmetic, for any size: `tools/proofs.sh`.

use crate::common::{next, previous, unused, within};

/// Free and used descriptors are all but one; posting takes one and cleaning returns one; indices
/// stay in the ring.
#[kani::proof]
fn free_and_used_descriptors_are_the_ring() {
    let count: u32 = kani::any_where(|n| (2..=1 << 31).contains(n));
    let (to_use, clean): (u32, u32) = (kani::any(), kani::any());
    kani::assume(to_use < count && clean < count);
    let used = if to_use >= clean { to_use - clean } else { count - (clean - to_use) };
    let free = unused(to_use, clean, count);
    assert!(free <= count && free + used == count - 1);
    let (posted, cleaned) = (next(to_use, count), next(clean, count));
    assert!(posted < count && cleaned < count);
    assert!(free == 0 || unused(posted, clean, count) == free - 1);
    assert!(used == 0 || unused(to_use, cleaned, count) == free + 1);
    assert!(previous(posted, count) == to_use && next(previous(clean, count), count) == clean);
}

/// Bytes within an address space have no bit above it.
#[kani::proof]
fn bytes_within_have_no_higher_bit() {
    let (bits, at, len) = (kani::any_where(|b| (1..=64).contains(b)), kani::any(), kani::any());
    kani::assume(len > 0);
    let last = u128::from(at) + u128::from(len) - 1;
    let inside: bool = within(bits, at, len);
    let fits = last >> bits == 0;
    // The last byte of all 64 bits' space is not used.
    assert!(if last == u128::from(u64::MAX) { !inside } else { inside == fits });
}
