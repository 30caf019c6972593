//! Running the binary, and captures to feed it.

pub(crate) mod served;
pub(crate) mod vnic;

use jsonschema::Validator;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

/// The commands whose help has examples.
pub(crate) const COMMANDS: [&str; 16] = [
    "archive",
    "reproduce",
    "run",
    "compare",
    "sweep",
    "point",
    "repeat",
    "rank",
    "advise",
    "fit",
    "check",
    "transfer",
    "serve",
    "guest",
    "live",
    "list",
];
/// The other commands.
pub(crate) const OTHERS: [&str; 5] = ["new", "schema", "report", "completions", "man"];

/// The result of running the binary.
#[derive(Debug, PartialEq)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for Ran {
    fn from(o: Output) -> Ran {
        Ran {
            code: o.status.code().expect("ended by itself"),
            out: String::from_utf8(o.stdout).expect("stdout is UTF-8"),
            err: String::from_utf8(o.stderr).expect("stderr is UTF-8"),
        }
    }
}

/// The path of `doorbell`: in the directory DOORBELL_PROGRAMS, or of this build. Most of these
/// tests wait for runs, which are three times as fast in a release build, the one that people have.
pub(crate) fn program() -> &'static str {
    static PATH: LazyLock<String> = LazyLock::new(|| {
        std::env::var("DOORBELL_PROGRAMS")
            .map_or_else(|_| env!("CARGO_BIN_EXE_doorbell").into(), |at| format!("{at}/doorbell"))
    });
    &PATH
}

/// Runs the words of a line in a directory. Returns what it prints; it succeeds without a word on
/// stderr.
pub(crate) fn done_in(dir: &Path, line: &str) -> String {
    let r = doorbell_in(dir, &line.split(' ').collect::<Vec<_>>());
    assert_eq!((r.code, r.err.as_str()), (0, ""), "{line}");
    r.out
}

/// `doorbell` with these arguments, in a directory.
pub(crate) fn doorbell_in(dir: &Path, args: &[&str]) -> Ran {
    doorbell_from(dir, Stdio::null(), args)
}

/// The same, with a stdin.
pub(crate) fn doorbell_from(dir: &Path, stdin: impl Into<Stdio>, args: &[&str]) -> Ran {
    let command = Command::new(program()).args(args).current_dir(dir).stdin(stdin).output();
    let ran = Ran::from(command.expect("the binary starts"));
    if args.windows(2).any(|a| a == ["--format", "json"]) && !ran.out.is_empty() {
        result(&ran.out);
    }
    ran
}

/// A result for programs, which must fit `doorbell schema result`.
pub(crate) fn result(text: &str) -> Value {
    static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
        let schema = Command::new(program()).args(["schema", "result"]).output().unwrap();
        jsonschema::validator_for(&serde_json::from_slice(&schema.stdout).unwrap()).unwrap()
    });
    let value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let wrong: Vec<String> =
        SCHEMA.iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    value
}

/// `doorbell` with these arguments.
pub(crate) fn doorbell(args: &[&str]) -> Ran {
    doorbell_in(Path::new("."), args)
}

/// The stdout of a command that must succeed.
pub(crate) fn good(args: &[&str]) -> String {
    let r = doorbell(args);
    assert_eq!((r.code, r.err.as_str()), (0, ""), "{args:?}");
    r.out
}

/// The message of a command whose input is wrong; nothing is on stdout.
pub(crate) fn wrong(args: &[&str]) -> String {
    wrong_in(Path::new("."), args)
}

/// The same, in a directory.
pub(crate) fn wrong_in(dir: &Path, args: &[&str]) -> String {
    let r = doorbell_in(dir, args);
    assert_eq!((r.code, r.out.as_str()), (2, ""), "{args:?}: {}", r.err);
    r.err.trim_end().to_owned()
}

/// A pcap file with frames a microsecond apart.
pub(crate) fn pcap(link: u32, frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 262_144, link] {
        file.extend(word.to_le_bytes());
    }
    for (i, f) in frames.iter().enumerate() {
        for word in [1, i as u32, f.len() as u32, f.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(f);
    }
    file
}

/// An Ethernet frame of IPv4 and TCP with `payload` bytes, right checksums included.
pub(crate) fn tcp(payload: usize) -> Vec<u8> {
    let mut f = vec![0x02, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 2, 0x08, 0];
    let ip = (40 + payload) as u16;
    f.extend([0x45, 0]);
    f.extend(ip.to_be_bytes());
    f.extend([0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let sum = fold(words(&f[14..34]));
    f[24..26].copy_from_slice(&sum.to_be_bytes());
    f.extend([0x12, 0x34, 0, 80, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    f.extend((0..payload).map(|i| i as u8));
    let pseudo = words(&f[26..34]) + 6 + u64::from(ip - 20);
    let sum = fold(pseudo + words(&f[34..]));
    f[50..52].copy_from_slice(&sum.to_be_bytes());
    f
}

fn words(bytes: &[u8]) -> u64 {
    bytes.chunks(2).map(|w| u64::from(w[0]) << 8 | u64::from(*w.get(1).unwrap_or(&0))).sum()
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Copies the program to `to`, in a process of its own: a child that another test starts while
/// this one writes would hold the file, and a file that is open for writing cannot be run.
pub(crate) fn copy_program(to: &Path) {
    let copied = Command::new("cp").arg(program()).arg(to).status();
    assert!(copied.expect("cp starts").success());
}

/// The names in a directory, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("readable");
    let mut names: Vec<String> =
        entries.map(|e| e.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
