//! `doorbell serve` ended by signals at random moments: its report and its files.
//!
//! DOORBELL_SIGNALS sets the number of rounds, DOORBELL_SEED the first of their seeds.

use crate::common::served::{Server, send, try_send, wait_for};
use crate::common::{names, program};
use doorbell_bus::random::splitmix;
use doorbell_host_io::{pcap, shared::memfd};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// The longest time before a signal. Half of it is for a start on a busy machine.
const LATEST_US: u64 = 300_000;
const SIGTERM: i32 = 15;

/// Returns a number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |n| n.parse().expect("a number"))
}

/// Returns the moments of all rounds, each with its seed.
fn moments() -> impl Iterator<Item = (u64, Duration)> {
    let first = number("DOORBELL_SEED", 1);
    (first..first + number("DOORBELL_SIGNALS", 6))
        .map(|seed| (seed, Duration::from_micros(splitmix(&mut { seed }) % LATEST_US)))
}

fn start(dir: &Path) -> Server {
    let mut command = Command::new(program());
    command.args(["serve", "e1000", "--socket", "s", "--uplink", "socket:wire", "--quiet"]);
    command.args(["--capture", "wire.pcapng", "--trace", "trace.json", "--format", "json"]);
    Server(command.current_dir(dir).stdout(Stdio::piped()).spawn().unwrap())
}

/// Connects as soon as the server listens, and returns `None` if it is gone before.
fn reach(path: &Path) -> Option<UnixStream> {
    (0..1000).find_map(|_| {
        thread::sleep(Duration::from_millis(1));
        UnixStream::connect(path).ok()
    })
}

/// Sends frames from the wire until the server has gone.
fn receive_for_ever(dir: &Path) -> io::Result<()> {
    let Some(mut wire) = reach(&dir.join("wire")) else { return Ok(()) };
    let frame = [&60u32.to_be_bytes()[..], &[0x55; 60]].concat();
    loop {
        wire.write_all(&frame)?;
        thread::sleep(Duration::from_micros(50));
    }
}

/// Sends frames of a guest until the server has gone.
fn send_for_ever(dir: &Path) -> io::Result<()> {
    let Some(s) = reach(&dir.join("s")) else { return Ok(()) };
    let ask = |command, body: &[u8], fds: &[BorrowedFd<'_>]| {
        try_send(&s, command, body, fds)?;
        let mut head = [0; 16];
        (&s).read_exact(&mut head)?;
        let length = u32::from_ne_bytes([head[4], head[5], head[6], head[7]]);
        (&s).read_exact(&mut vec![0; length as usize - 16])
    };
    let write = |region: u32, offset: u64, data: &[u8]| {
        let place = [region, data.len() as u32].map(u32::to_ne_bytes).concat();
        ask(10, &[&offset.to_ne_bytes()[..], &place, data].concat(), &[])
    };
    let memory = memfd(c"memory", 1 << 16)?;
    let mut descriptor = 8192u64.to_le_bytes().to_vec();
    descriptor.extend([60, 0, 0, 0x0b, 0, 0, 0, 0]);
    memory.write_all_at(&descriptor.repeat(256), 0)?;
    ask(1, &[0, 0, 1, 0], &[])?;
    let map = [
        [32u32, 3].map(u32::to_ne_bytes).concat(),
        [0u64, 0, 1 << 16].map(u64::to_ne_bytes).concat(),
    ];
    ask(2, &map.concat(), &[memory.as_fd()])?;
    write(7, 4, &6u16.to_ne_bytes())?;
    for (offset, v) in [(0, 0x41u32), (0x400, 0xa), (0x3808, 4096)] {
        write(0, offset, &v.to_ne_bytes())?;
    }
    for n in 1.. {
        write(0, 0x3818, &(n % 256u32).to_ne_bytes())?;
    }
    Ok(())
}

/// Starts a server with traffic in both directions, and sends it a signal at a moment. Returns it
/// with all that it printed.
fn disturbed(dir: &Path, at: Duration, signal: &str) -> (Server, String) {
    let mut server = start(dir);
    thread::scope(|scope| {
        // They end with the server, whose end is an error of a socket.
        scope.spawn(|| receive_for_ever(dir).is_ok());
        scope.spawn(|| send_for_ever(dir).is_ok());
        thread::sleep(at);
        server.signal(signal);
        let mut out = String::new();
        server.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        (server, out)
    })
}

/// Returns the number of frames in the capture.
fn captured(dir: &Path) -> u64 {
    match pcap::read(dir.join("wire.pcapng")) {
        Ok(capture) => capture.frames.len() as u64,
        Err(e) if matches!(e.why, pcap::Fault::Empty) => 0,
        Err(e) => panic!("{e}"),
    }
}

/// Checks the files of a server that has ended by itself.
fn check_files(dir: &Path, out: &str, seed: u64) {
    let report: Value = serde_json::from_str(out).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    let count = |name: &str| report["ledger"][name].as_u64().unwrap();
    let frames = count("wire_frames") + count("arrived_frames");
    assert_eq!(captured(dir), frames, "seed {seed}");
    let trace = std::fs::read(dir.join("trace.json")).unwrap();
    let trace: Value = serde_json::from_slice(&trace).unwrap_or_else(|e| panic!("{seed}: {e}"));
    let of_frames = |e: &&Value| e["name"].as_str().is_some_and(|n| n.starts_with("frame"));
    assert_eq!(trace.as_array().unwrap().iter().filter(of_frames).count() as u64, frames);
}

#[test]
fn report_and_files_are_whole_after_sigterm() {
    let (mut whole, mut frames) = (0, 0);
    for (seed, at) in moments() {
        let dir = tempfile::tempdir().unwrap();
        let (mut server, out) = disturbed(dir.path(), at, "-TERM");
        let status = server.0.wait().unwrap();
        if status.signal() == Some(SIGTERM) {
            // It came before the program watched for signals.
            assert_eq!(names(dir.path()), [""; 0], "seed {seed}");
            continue;
        }
        assert_eq!(status.code(), Some(0), "seed {seed}");
        assert_eq!(names(dir.path()), ["trace.json", "wire.pcapng"], "seed {seed}");
        check_files(dir.path(), &out, seed);
        whole += 1;
        frames += captured(dir.path());
    }
    println!("{whole} servers ended by themselves, with {frames} frames in all");
}

#[test]
fn the_next_server_starts_after_sigkill() {
    let (mut partial, mut sockets) = (0, 0);
    for (seed, at) in moments() {
        let dir = tempfile::tempdir().unwrap();
        let is_partial = |n: &String| n.starts_with(".capture-") && n.ends_with(".partial");
        drop(disturbed(dir.path(), at, "-KILL"));
        let left = names(dir.path());
        let known =
            |n: &&String| is_partial(n) || ["s", "trace.json", "wire"].contains(&n.as_str());
        assert!(left.iter().all(|n| known(&n)), "seed {seed}: {left:?}");
        let partials: Vec<_> = left.iter().filter(|n| is_partial(n)).cloned().collect();
        assert!(partials.len() <= 1, "seed {seed}: {left:?}");
        partial += partials.len();
        sockets += usize::from(left.contains(&"s".to_owned()));

        let server = start(dir.path());
        let mut client = None;
        wait_for(|| {
            client = UnixStream::connect(dir.path().join("s")).ok();
            client.is_some()
        });
        send(client.as_ref().unwrap(), 1, &[0, 0, 1, 0], &[]);
        client.unwrap().read_exact(&mut [0; 16]).unwrap();
        check_files(dir.path(), &server.stop("-TERM"), seed);
        let expected = partials.into_iter().chain(["trace.json".into(), "wire.pcapng".into()]);
        assert_eq!(names(dir.path()), expected.collect::<Vec<String>>(), "seed {seed}");
    }
    println!("{partial} servers left a partial capture, {sockets} a socket");
}

#[test]
fn a_signal_ends_the_wait_for_a_capture() {
    let dir = tempfile::tempdir().unwrap();
    assert!(Command::new("mkfifo").arg(dir.path().join("pipe")).status().unwrap().success());
    let mut command = Command::new(program());
    command.args(["serve", "e1000", "--socket", "s", "--uplink", "pcap:pipe"]);
    let mut server = Server(command.current_dir(dir.path()).spawn().unwrap());
    thread::sleep(Duration::from_millis(200));
    server.signal("-TERM");
    assert_eq!(server.0.wait().unwrap().signal(), Some(SIGTERM));
    assert_eq!(names(dir.path()), ["pipe"]);
}
