use super::super::{Completions, Settings};
use super::*;

fn list(settings: Settings, operation: Operation, addr: u64, len: u32) -> String {
    let rules = Rules::new(settings).unwrap();
    transactions(&rules, operation, addr, len)
        .map(|t| {
            format!(
                "{:#x} {:4} {:4} {:4}+{:2} {:?}\n",
                t.addr, t.command, t.bytes, t.wire_bytes, t.pad, t.toward
            )
        })
        .collect()
}

#[test]
fn a_frame_read_from_an_unaligned_buffer() {
    insta::assert_snapshot!(list(Settings::link(3, 16), Operation::Read, 0x1_0000_1E02, 1514), @r"
        0x100001e02 MRd   510   24+ 8 Upstream
        0x100001e02 CplD  254  276+12 Downstream
        0x100001f00 CplD  256  276+12 Downstream
        0x100002000 MRd   512   24+ 8 Upstream
        0x100002000 CplD  256  276+12 Downstream
        0x100002100 CplD  256  276+12 Downstream
        0x100002200 MRd   492   24+ 8 Upstream
        0x100002200 CplD  256  276+12 Downstream
        0x100002300 CplD  236  256+ 0 Downstream
        ");
}

#[test]
fn a_frame_written_to_an_unaligned_buffer() {
    insta::assert_snapshot!(list(Settings::link(3, 16), Operation::Write, 0x2012, 700), @r"
        0x2012 MWr   238  260+12 Upstream
        0x2100 MWr   256  276+12 Upstream
        0x2200 MWr   206  228+12 Upstream
        ");
}

#[test]
fn an_old_chipset_answers_in_64_byte_completions() {
    let settings = Settings { completions: Completions::Rcb(64), ..Settings::link(2, 8) };
    insta::assert_snapshot!(list(settings, Operation::Read, 0x10020, 128), @r"
        0x10020 MRd   128   20+ 4 Upstream
        0x10020 CplD   32   52+ 4 Downstream
        0x10040 CplD   64   84+ 4 Downstream
        0x10080 CplD   32   52+ 4 Downstream
        ");
}
