use super::super::Settings;
use super::*;

fn list(settings: Settings, operation: Operation, addr: u64, len: u32) -> String {
    let rules = Rules::new(settings).unwrap();
    transactions(&rules, operation, addr, len)
        .map(|t| {
            format!(
                "{:#x} {:3} {:4} {}\n",
                t.addr,
                t.command,
                t.bytes,
                t.partial_lines(settings.line)
            )
        })
        .collect()
}

const X: Settings =
    Settings { protocol: Protocol::X { mmrbc: 512, outstanding: 1 }, mhz: 133, ..Settings::POWER4 };

#[test]
fn a_pci_x_read_is_requests_and_split_completions() {
    insta::assert_snapshot!(list(X, Operation::Read, 0x420A8, 1514), @r"
        0x420a8 MRB  512 2
        0x420a8 SC   344 1
        0x42200 SC   168 1
        0x422a8 MRB  512 2
        0x422a8 SC   344 1
        0x42400 SC   168 1
        0x424a8 MRB  490 2
        0x424a8 SC   344 1
        0x42600 SC   146 1
        ");
}

#[test]
fn a_pci_x_write_ends_at_the_bridges_boundary() {
    insta::assert_snapshot!(list(X, Operation::Write, 0x2012, 1514), @r"
        0x2012 MWB  494 1
        0x2200 MWB  512 0
        0x2400 MWB  508 1
        ");
}

#[test]
fn a_read_within_a_double_word_is_a_double_word_read() {
    insta::assert_snapshot!(list(X, Operation::Read, 0x1001, 3), @r"
        0x1001 MRD    3 1
        0x1001 SC     3 1
        ");
    insta::assert_snapshot!(list(X, Operation::Read, 0x1002, 4), @r"
        0x1002 MRB    4 1
        0x1002 SC     4 1
        ");
}

#[test]
fn without_leave_for_mwi_an_aligned_write_is_mw() {
    let settings = Settings { mwi: false, ..Settings::POWER4 };
    insta::assert_snapshot!(list(settings, Operation::Write, 0xEE800, 1514), @r"
        0xee800 MW   512 0
        0xeea00 MW   512 0
        0xeec00 MW   490 1
        ");
}

#[test]
fn the_latency_timer_cuts_a_burst_but_not_a_line_of_mwi() {
    let timed = Settings { latency_timer: Some(32), ..Settings::POWER4 };
    insta::assert_snapshot!(list(timed, Operation::Read, 0x4800, 600), @r"
        0x4800 MRM  240 1
        0x48f0 MRM  240 2
        0x49e0 MRL   32 1
        0x4a00 MR    88 1
        ");
    insta::assert_snapshot!(list(timed, Operation::Write, 0x4800, 600), @r"
        0x4800 MWI  256 0
        0x4900 MWI  256 0
        0x4a00 MW    88 1
        ");
}

#[test]
fn lines_that_are_not_filled_are_counted_once() {
    let partial =
        |addr, bytes| Transaction { addr, command: Command::Mw, bytes }.partial_lines(128);
    assert_eq!([partial(0, 128), partial(0, 256), partial(128, 1)], [0, 0, 1]);
    assert_eq!([partial(8, 8), partial(8, 120), partial(8, 128), partial(8, 248)], [1, 1, 2, 1]);
}
