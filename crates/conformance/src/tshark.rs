//! Wireshark as a judge of captures, and a capture of real traffic.
//!
//! `tshark` reads the pcapng of a simulated wire, recomputes every checksum, reassembles fragments
//! and reports wrong frames. `tools/make-capture.sh` records two Linux stacks as real traffic.
//! Needs root and installed tools, so it is for tests under `DOORBELL_FULL=1` only.

use std::path::Path;
use std::process::Command;
use tempfile::TempPath;

/// IPv4, TCP, UDP, ICMP or ICMPv6 checksums that Wireshark finds wrong (0 is
/// "bad"; a checksum that cannot be judged, as of a fragment, is 2).
///
/// Linux writes a TCP checksum that comes out as 0 as 0xffff where it computes it in software. Both
/// verify; Wireshark calls the second bad ("should be 0x0000, see RFC 1624").
const BAD_CHECKSUM: &str = "ip.checksum.status==0 || \
                            (tcp.checksum.status==0 && tcp.checksum!=0xffff) || \
                            udp.checksum.status==0 || icmp.checksum.status==0 || \
                            icmpv6.checksum.status==0";

/// A frame as Wireshark sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Seen {
    /// Its number in the file, from 1.
    pub number: u64,
    /// Its length on the wire, in bytes, without FCS.
    pub len: u32,
    /// Nanoseconds since 1970.
    pub epoch_ns: u64,
}

/// Records real traffic (about 2,000 frames in 2 s) into a pcapng file, which is
/// removed when the path is dropped.
///
/// # Errors
/// When the script fails: what it said.
pub fn make_capture() -> Result<TempPath, String> {
    let file = tempfile::Builder::new().prefix("doorbell-real-").suffix(".pcapng").tempfile();
    let path = file.map_err(|e| e.to_string())?.into_temp_path();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tools/make-capture.sh");
    let mut command = Command::new(script);
    run(command.arg(&path)).map(|_| path)
}

/// The frames of a capture with a bad checksum, by number.
///
/// # Errors
/// When `tshark` is missing, fails, or complains of the file.
pub fn bad_checksums(path: impl AsRef<Path>) -> Result<Vec<u64>, String> {
    matching(path, BAD_CHECKSUM)
}

/// The frames that a display filter selects, by number.
///
/// # Errors
/// As [`bad_checksums`], and when the filter is wrong.
pub fn matching(path: impl AsRef<Path>, filter: &str) -> Result<Vec<u64>, String> {
    rows(path.as_ref(), filter, &["frame.number"], |[number]| number.parse().ok())
}

/// All frames of a capture.
///
/// # Errors
/// As [`bad_checksums`].
pub fn frames(path: impl AsRef<Path>) -> Result<Vec<Seen>, String> {
    rows(
        path.as_ref(),
        "",
        &["frame.number", "frame.len", "frame.time_epoch"],
        |[number, len, time]| {
            // Always nine digits: 1700000000.123456789.
            let (seconds, ns) = time.split_once('.').filter(|(_, ns)| ns.len() == 9)?;
            let epoch_ns = seconds.parse::<u64>().ok()? * 1_000_000_000 + ns.parse::<u64>().ok()?;
            Some(Seen { number: number.parse().ok()?, len: len.parse().ok()?, epoch_ns })
        },
    )
}

/// One value per frame that `filter` selects, from `N` of its fields.
fn rows<T, const N: usize>(
    path: &Path,
    filter: &str,
    fields: &[&str; N],
    parse: impl Fn([&str; N]) -> Option<T>,
) -> Result<Vec<T>, String> {
    let mut command = Command::new("tshark");
    command.args(["-n", "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]);
    command.args(["-o", "udp.check_checksum:TRUE", "-T", "fields", "-Y", filter, "-r"]).arg(path);
    for field in fields {
        command.args(["-e", field]);
    }
    let out = run(&mut command)?;
    let row = |line: &str| {
        let values: Vec<&str> = line.split('\t').collect();
        let value = <[&str; N]>::try_from(values).ok().and_then(&parse);
        value.ok_or_else(|| format!("{}: not what was asked of tshark: {line:?}", path.display()))
    };
    out.lines().map(row).collect()
}

/// Runs a command to its end; its standard output if it succeeded and had
/// nothing to complain of.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("{name}: {e}"))?;
    let said = String::from_utf8_lossy(&out.stderr);
    // tshark's remark on its user is not about the file.
    let complaint: Vec<&str> =
        said.lines().filter(|l| !l.starts_with("Running as user ") && !l.is_empty()).collect();
    if !out.status.success() || !complaint.is_empty() {
        return Err(format!("{name}: {}: {}", out.status, complaint.join("; ")));
    }
    String::from_utf8(out.stdout).map_err(|e| format!("{name}: {e}"))
}
