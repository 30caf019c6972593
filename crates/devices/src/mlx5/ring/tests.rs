use super::*;
use alloc::vec::Vec;

impl Ring {
    /// In one piece.
    pub(in super::super) fn at_address(first: u64) -> Ring {
        Ring { first, pages: Box::default(), log_page: LOG_PAGE }
    }
}

fn list(pages: &[u64]) -> Vec<u8> {
    pages.iter().flat_map(|a| a.to_be_bytes()).collect()
}

#[test]
fn pages_that_follow_each_other_are_one_piece() {
    let r = Ring::new(&list(&[0x5000, 0x6000, 0x7000]), 12, 0x3000).unwrap();
    assert_eq!((r.at(0x2abc), r.piece(0xfff)), (Iova(0x7abc), u64::MAX));
}

#[test]
fn scattered_pages_are_found_and_end_where_they_end() {
    let r = Ring::new(&list(&[0x5000, 0x9000, 0x7000]), 12, 0x2001).unwrap();
    assert_eq!((r.at(0x1004), r.at(0x2000)), (Iova(0x9004), Iova(0x7000)));
    assert_eq!((r.piece(0x1ff0), r.piece(0x1000)), (16, 4096));
}

#[test]
fn too_few_pages_and_crooked_ones_are_refused() {
    assert_eq!(Ring::new(&list(&[0x5000]), 12, 0x1001).unwrap_err(), CmdStatus::BadInputLength);
    assert_eq!(Ring::new(&list(&[0x5000]), 16, 0x1000).unwrap_err(), CmdStatus::BadParam);
    assert_eq!(Ring::new(&[], 12, 0).unwrap_err(), CmdStatus::BadParam);
}
