//! `eth-intel`, as it is, on the 82540EM: examples/eth_intel.rs.

use crate::libraries;
use std::process::Command;

/// Runs the command on it. Returns its exit code, and what it says.
fn ran(line: &str) -> (Option<i32>, String) {
    let program = libraries().parent().unwrap().join("examples/eth_intel");
    let out = Command::new(program).args(line.split(' ')).arg("--no-limits").output().unwrap();
    (out.status.code(), [out.stdout, out.stderr].map(|b| String::from_utf8(b).unwrap()).concat())
}

#[test]
fn it_sends_and_receives_as_it_is() {
    let receive = "--set traffic.warmup=200us --set traffic.duration=3ms";
    for line in [
        "run eth-intel-send --order program --set traffic.packets=400",
        &format!("run eth-intel-receive --order program {receive}"),
    ] {
        let (code, said) = ran(line);
        assert_eq!(code, Some(0), "{line}: {said}");
    }
}

/// It does not look whether a packet is under way, so a status of the last round moves it past the
/// packet that it submits next. In the second round of its ring it waits for ever.
#[test]
fn its_mistake_is_seen() {
    let (code, said) =
        ran("run eth-intel-send --order program --set traffic.rate=100kpps --set traffic.burst=1");
    assert_eq!(code, Some(1), "{said}");
    for told in ["511 handed to the driver", "TDH 255, TDT 255", "register: write TDT 0xff at"] {
        assert!(said.contains(told), "{told}: {said}");
    }
}
