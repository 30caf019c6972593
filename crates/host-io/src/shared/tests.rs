//! The table of regions against a model that keeps one entry a page.

use super::*;
use proptest::prelude::*;

const PAGE: u64 = 4096;

fn window(pages: u64, writable: bool) -> Window {
    let file = memfd(c"region", pages * PAGE).unwrap();
    Window::map(&file, 0, (pages * PAGE) as usize, writable).unwrap()
}

impl Regions {
    fn read(&self, from: Iova, into: &mut [u8]) -> Result<(), DmaFault> {
        self.access(from, into.len(), false, |_, memory, part| {
            memory.map(|(window, offset)| window.read(offset, &mut into[part])).is_some()
        })
    }

    fn write(&self, to: Iova, from: &[u8]) -> Result<(), DmaFault> {
        self.access(to, from.len(), true, |_, memory, part| {
            memory.map(|(window, offset)| window.write(offset, &from[part])).is_some()
        })
    }
}

fn fault(at: u64, kind: DmaFaultKind) -> Result<(), DmaFault> {
    Err(DmaFault { at: Iova(at), kind })
}

#[test]
fn an_access_may_span_regions_that_touch() {
    let mut r = Regions::new();
    r.map(Iova(PAGE), window(1, true), Access::READ_WRITE).unwrap();
    r.map(Iova(2 * PAGE), window(2, true), Access::READ_WRITE).unwrap();
    let sent: Vec<u8> = (0..2 * PAGE).map(|i| (i % 251) as u8).collect();
    assert_eq!(r.write(Iova(PAGE + 9), &sent), Ok(()));
    let mut seen = vec![0; sent.len()];
    assert_eq!(r.read(Iova(PAGE + 9), &mut seen), Ok(()));
    assert_eq!(seen, sent);
}

#[test]
fn a_fault_names_the_first_address_out_of_reach_and_transfers_nothing() {
    let mut r = Regions::new();
    r.map(Iova(PAGE), window(1, true), Access::READ_WRITE).unwrap();
    r.map(Iova(2 * PAGE), window(1, false), Access::READ).unwrap();
    let over = [0xee; 16];
    assert_eq!(r.write(Iova(2 * PAGE - 8), &over), fault(2 * PAGE, DmaFaultKind::Direction));
    assert_eq!(r.write(Iova(0), &over), fault(0, DmaFaultKind::Unmapped));
    let mut seen = [1; 16];
    assert_eq!(r.read(Iova(3 * PAGE - 8), &mut seen), fault(3 * PAGE, DmaFaultKind::Unmapped));
    assert_eq!(seen, [1; 16]);
    assert!(r.read(Iova(2 * PAGE - 8), &mut seen).is_ok());
    assert_eq!(seen, [0; 16], "the refused write left no byte behind");
}

#[test]
fn a_remote_region_has_a_place_among_the_others() {
    let mut r = Regions::new();
    r.map(Iova(PAGE), window(1, true), Access::READ_WRITE).unwrap();
    r.map_remote(Iova(2 * PAGE), 8, Access::READ).unwrap();
    assert_eq!(r.map_remote(Iova(0), 2 * PAGE, Access::READ), Err(RegionError::Overlaps));
    let mut parts = Vec::new();
    let done = r.access(Iova(2 * PAGE - 4), 12, false, |at, memory, range| {
        parts.push((at, memory.map(|m| m.1), range));
        true
    });
    assert_eq!(done, Ok(()));
    let offset = PAGE as usize - 4;
    assert_eq!(parts, [(Iova(2 * PAGE - 4), Some(offset), 0..4), (Iova(2 * PAGE), None, 4..12)]);
    assert_eq!(r.write(Iova(2 * PAGE), &[0]), fault(2 * PAGE, DmaFaultKind::Direction));
    assert_eq!(r.read(Iova(2 * PAGE), &mut [0]), fault(2 * PAGE, DmaFaultKind::Unmapped));
    assert_eq!(r.unmap(Iova(PAGE), 2 * PAGE), Ok(2));
}

#[test]
fn memory_mapped_for_reception_cannot_be_read() {
    let mut r = Regions::new();
    r.map(Iova(PAGE), window(1, true), Access::WRITE).unwrap();
    assert!(r.write(Iova(PAGE), &[1]).is_ok());
    assert_eq!(r.read(Iova(PAGE), &mut [0]), fault(PAGE, DmaFaultKind::Direction));
}

#[test]
fn an_access_does_not_wrap_around_the_address_space() {
    let mut r = Regions::new();
    r.map(Iova(0), window(1, true), Access::READ_WRITE).unwrap();
    r.map(Iova(u64::MAX - PAGE + 1), window(1, true), Access::READ_WRITE).unwrap();
    assert!(r.write(Iova(u64::MAX - 7), &[5; 8]).is_ok());
    assert_eq!(r.write(Iova(u64::MAX - 7), &[5; 9]), fault(0, DmaFaultKind::Unmapped));
}

#[test]
fn an_unmapped_region_is_out_of_reach_and_a_cut_is_refused() {
    let mut r = Regions::new();
    r.map(Iova(PAGE), window(2, true), Access::READ_WRITE).unwrap();
    r.map(Iova(3 * PAGE), window(1, true), Access::READ_WRITE).unwrap();
    assert_eq!(r.unmap(Iova(2 * PAGE), 2 * PAGE), Err(RegionError::Cuts));
    assert_eq!(r.unmap(Iova(PAGE), PAGE), Err(RegionError::Cuts));
    assert_eq!(r.unmap(Iova(4 * PAGE), PAGE), Err(RegionError::NotMapped));
    assert_eq!(r.unmap(Iova(PAGE), 0), Err(RegionError::Empty));
    assert_eq!(r.unmap(Iova(0), 4 * PAGE), Ok(2));
    assert_eq!(r.read(Iova(PAGE), &mut [0]), fault(PAGE, DmaFaultKind::Unmapped));
}

#[test]
fn regions_that_could_not_work_are_refused() {
    let mut r = Regions::new();
    r.map(Iova(PAGE), window(2, true), Access::READ_WRITE).unwrap();
    assert_eq!(r.map(Iova(0), window(2, true), Access::READ), Err(RegionError::Overlaps));
    assert_eq!(r.map(Iova(2 * PAGE), window(1, true), Access::READ), Err(RegionError::Overlaps));
    assert_eq!(r.map(Iova(u64::MAX), window(1, true), Access::READ), Err(RegionError::PastTheEnd));
    assert_eq!(
        r.map(Iova(8 * PAGE), window(1, false), Access::READ_WRITE),
        Err(RegionError::ReadOnlyWindow)
    );
    assert_eq!(r.len(), 1);
}

/// The access that each page of a small address space allows.
type Pages = [Option<Access>; 16];

fn expect(pages: &Pages, at: u64, len: u64, write: bool) -> Result<(), DmaFault> {
    for a in at..at + len {
        match pages.get((a / PAGE) as usize).copied().flatten() {
            None => return Err(DmaFault { at: Iova(a), kind: DmaFaultKind::Unmapped }),
            Some(access) if !(if write { access.write } else { access.read }) => {
                return Err(DmaFault { at: Iova(a), kind: DmaFaultKind::Direction });
            }
            Some(_) => {}
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Map { page: u64, pages: u64, access: Access },
    Unmap { page: u64, pages: u64 },
    Write { at: u64, len: u64, fill: u8 },
    Read { at: u64, len: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let access = prop_oneof![
        3 => Just(Access::READ_WRITE),
        1 => Just(Access::READ),
        1 => Just(Access::WRITE),
    ];
    prop_oneof![
        3 => (0..16u64, 1..4u64, access)
            .prop_map(|(page, pages, access)| Step::Map { page, pages, access }),
        1 => (0..16u64, 1..8u64).prop_map(|(page, pages)| Step::Unmap { page, pages }),
        4 => (0..17 * PAGE, 0..3 * PAGE, any::<u8>())
            .prop_map(|(at, len, fill)| Step::Write { at, len, fill }),
        4 => (0..17 * PAGE, 0..3 * PAGE).prop_map(|(at, len)| Step::Read { at, len }),
    ]
}

proptest! {
    #[test]
    fn regions_agree_with_a_table_of_bytes(steps in proptest::collection::vec(step(), 1..60)) {
        let mut r = Regions::new();
        let mut pages: Pages = [None; 16];
        let mut bytes = vec![0u8; 20 * PAGE as usize];
        for step in steps {
            match step {
                Step::Map { page, pages: n, access } => {
                    let range = page as usize..(page + n) as usize;
                    let free = range.end <= 16 && pages[range.clone()].iter().all(Option::is_none);
                    if range.end <= 16 {
                        let mapped = r.map(Iova(page * PAGE), window(n, true), access);
                        prop_assert_eq!(mapped.is_ok(), free);
                    }
                    if free {
                        pages[range].fill(Some(access));
                        bytes[(page * PAGE) as usize..((page + n) * PAGE) as usize].fill(0);
                    }
                }
                Step::Unmap { page, pages: n } => {
                    if r.unmap(Iova(page * PAGE), n * PAGE).is_ok() {
                        let end = ((page + n) as usize).min(16);
                        pages[page as usize..end].fill(None);
                    }
                }
                Step::Write { at, len, fill } => {
                    let sent = vec![fill; len as usize];
                    let got = r.write(Iova(at), &sent);
                    prop_assert_eq!(got, expect(&pages, at, len, true));
                    if got.is_ok() {
                        bytes[at as usize..(at + len) as usize].copy_from_slice(&sent);
                    }
                }
                Step::Read { at, len } => {
                    let mut seen = vec![0x5a; len as usize];
                    let got = r.read(Iova(at), &mut seen);
                    prop_assert_eq!(got, expect(&pages, at, len, false));
                    if got.is_ok() {
                        prop_assert_eq!(&seen[..], &bytes[at as usize..(at + len) as usize]);
                    }
                }
            }
        }
    }
}
