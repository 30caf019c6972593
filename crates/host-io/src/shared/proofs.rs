//! Proofs for any regions and any access: `tools/proofs.sh`.

use super::window::run;
use super::{Access, Region, Regions, width};
use doorbell_hal::Iova;

/// The parts of an access are aligned, at most 8 bytes, and inside what is left.
#[kani::proof]
fn a_width_is_aligned_and_fits() {
    let (address, left): (usize, usize) = (kani::any(), kani::any_where(|left| *left > 0));
    let width = width(address, left);
    assert!(matches!(width, 1 | 2 | 4 | 8));
    assert!(address % width == 0 && width <= left);
}

/// A run is of one width: it fits, and each of its accesses is aligned.
#[kani::proof]
fn a_run_is_of_aligned_accesses_and_fits() {
    let (address, left): (usize, usize) = (kani::any(), kani::any_where(|left| *left > 0));
    let (run, width) = (run(address, left), width(address, left));
    assert!(run > 0 && run <= left && run.is_multiple_of(width));
    assert!(run == width || (width == 8 && left - run < 8));
}

fn any_region() -> Region {
    let (first, last) = (kani::any(), kani::any());
    kani::assume(first <= last);
    let access = Access { read: kani::any(), write: kani::any() };
    Region { first, last, access, window: None }
}

/// Whatever two regions there are: the parts of an access follow each other, cover it exactly, and
/// each lies in one region of that direction. A fault comes before the first part.
#[kani::proof]
#[kani::unwind(4)]
fn parts_cover_an_access_and_cross_no_region() {
    let (a, b) = (any_region(), any_region());
    kani::assume(a.last < b.first);
    let (at, len, write): (u64, usize, bool) = (kani::any(), kani::any(), kani::any());
    let allowed = |here: u64, last: u64| {
        let inside = |first: u64, end: u64, access: Access| {
            first <= here && last <= end && if write { access.write } else { access.read }
        };
        inside(a.first, a.last, a.access) || inside(b.first, b.last, b.access)
    };
    let copy = |r: &Region| Region { window: None, ..*r };
    let regions = Regions { by_address: Vec::from([copy(&a), copy(&b)]), ..Regions::default() };
    let mut done = 0;
    let result = regions.access(Iova(at), len, write, |here, _, part| {
        assert!(part.start == done && part.end > done && part.end <= len);
        assert!(here.0 == at + done as u64 && allowed(here.0, here.0 + (part.len() as u64 - 1)));
        done = part.end;
        true
    });
    assert!(done == if result.is_ok() { len } else { 0 });
    std::mem::forget((regions, a, b));
}
