//! The host's side: commands, TAP devices, raw frames, waiting.

use doorbell_guest::net::HOST_MAC;
use doorbell_host_io::child::ChildGuard;
use doorbell_host_io::netns::Capture;
use doorbell_host_io::packet_socket::PacketSocket;
use doorbell_host_io::tap::VnetHeader;
use std::fmt::Display;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time after which something hangs. Nothing is measured by it: a guest that shares its CPU with
/// twenty others boots in minutes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);
/// An address that nobody has.
pub(crate) const OTHER: [u8; 6] = [0x52, 0x54, 0, 0xdb, 0, 0x99];

/// Results whose errors end a check.
pub(crate) trait OrFail<T> {
    fn or_fail(self) -> T;
}

impl<T, E: Display> OrFail<T> for Result<T, E> {
    #[track_caller]
    fn or_fail(self) -> T {
        match self {
            Ok(value) => value,
            Err(e) => panic!("{e}"),
        }
    }
}

/// Runs a command, split at blanks, and returns its output.
#[track_caller]
pub(crate) fn host(line: impl AsRef<str>) -> String {
    let (line, mut words) = (line.as_ref(), line.as_ref().split_whitespace());
    let mut command = Command::new(words.next().unwrap_or_default());
    let done = command.args(words).stdin(Stdio::null()).output().or_fail();
    let [out, err] = [done.stdout, done.stderr].map(|b| String::from_utf8_lossy(&b).into_owned());
    assert!(done.status.success(), "`{line}` ended with {}: {out}{err}", done.status);
    out
}

/// Starts a command, split at blanks. It is killed when it is dropped.
#[track_caller]
pub(crate) fn background(line: impl AsRef<str>) -> ChildGuard {
    let mut words = line.as_ref().split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    ChildGuard::spawn(line.as_ref(), &mut command).or_fail()
}

/// Starts an iperf3 server on the host for one client.
pub(crate) fn iperf_server(address: &str) -> ChildGuard {
    let server = background(format!("iperf3 -s -1 -B {address}"));
    // Port 5201 in state LISTEN.
    let listens = |file: &&str| {
        let table = std::fs::read_to_string(file).unwrap_or_default();
        table.lines().any(|l| l.contains(":1451 ") && l.contains(" 0A "))
    };
    let files = ["/proc/net/tcp", "/proc/net/tcp6"];
    assert!(until(|| files.iter().any(listens)), "iperf3 does not listen");
    server
}

/// Returns the rate at the receiver that iperf3 tells, in Mbit/s.
#[track_caller]
pub(crate) fn received(said: &str) -> f64 {
    let line = said.lines().rfind(|l| l.contains("receiver"));
    let rate = line.and_then(|l| l.split("Mbits/sec").next()?.split_whitespace().last());
    match rate.and_then(|r| r.parse().ok()) {
        Some(rate) => rate,
        None => panic!("iperf3 did not come to its end: {said}"),
    }
}

/// Waits until it holds. Returns true if it does.
pub(crate) fn until(mut holds: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + PATIENCE;
    loop {
        if holds() {
            return true;
        }
        if Instant::now() > end {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn sleep(seconds: f64) {
    std::thread::sleep(Duration::from_secs_f64(seconds));
}

/// Returns the seconds of CPU of this process and of those of its children that have ended.
pub(crate) fn cpu() -> f64 {
    let said = std::fs::read_to_string("/proc/self/stat").or_fail();
    // utime, stime, cutime and cstime of proc_pid_stat(5), behind the name, in the kernel's
    // USER_HZ, which is 100.
    let fields = said.rsplit(')').next().unwrap_or_default().split_whitespace();
    fields.skip(11).take(4).filter_map(|f| f.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// Makes a directory anew.
pub(crate) fn fresh(directory: &Path) {
    // There may be none.
    let _ = std::fs::remove_dir_all(directory);
    std::fs::create_dir_all(directory).or_fail();
}

/// One more TAP device; it goes with the value.
pub(crate) struct Wire(&'static str);

impl Wire {
    pub(crate) fn new(name: &'static str, address: &str, more: &str) -> Wire {
        host(format!("ip tuntap add dev {name} mode tap {more}"));
        let wire = Wire(name);
        host(format!("ip link set {name} up"));
        host(format!("ip addr add {address} dev {name}"));
        wire
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["link", "del", self.0]).status();
    }
}

/// Builds a frame of a type that nobody answers.
pub(crate) fn frame(to: [u8; 6], vlan: Option<u16>, size: usize) -> Vec<u8> {
    let mut frame = [to, HOST_MAC].concat();
    if let Some(vlan) = vlan {
        frame.extend([[0x81, 0x00], vlan.to_be_bytes()].as_flattened());
    }
    frame.extend([0x88, 0xb5]);
    frame.resize(size, 0);
    frame
}

/// Sends frames from the host's end of a wire.
pub(crate) fn send_on(socket: &PacketSocket, frames: &[Vec<u8>]) {
    let all = frames.iter().map(|f| (VnetHeader::default(), &f[..]));
    assert_eq!(socket.send(all).or_fail(), 0, "of {} frames, refused", frames.len());
}

/// Returns the frames that an interface of the host has received and sent, its kernel's own among
/// them.
pub(crate) fn packets(interface: &str) -> [i64; 2] {
    // /sys shows the network in which it was mounted.
    let table = std::fs::read_to_string("/proc/net/dev").or_fail();
    let own =
        |l: &'_ str| Some(l.trim_start().strip_prefix(interface)?.strip_prefix(':')?.to_owned());
    let line = table.lines().find_map(own).expect("the interface");
    let number = |n| line.split_whitespace().nth(n).and_then(|w| w.parse().ok());
    [1, 9].map(|n| number(n).expect("a counter"))
}

/// Sets a flag when it is dropped.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Answers pings that come with this VLAN tag until no more come after the end. Returns how many.
/// (The host's kernel may lack VLANs.)
pub(crate) fn answer_tagged(from: &Capture, to: &PacketSocket, vlan: u16, end: &AtomicBool) -> i64 {
    let (mut buffer, mut ours) = (vec![0; 1 << 16], 0);
    loop {
        let Some(length) = from.receive(&mut buffer, Duration::from_millis(500)).or_fail() else {
            if end.load(Ordering::Relaxed) {
                return ours;
            }
            continue;
        };
        let mut f = buffer[..length].to_vec();
        let word = |at: usize| u16::from_be_bytes([f[at], f[at + 1]]);
        // Behind the addresses: tag, IPv4 with the protocol, and an echo request.
        let tagged = length >= 46 && word(12) == 0x8100 && word(14) & 0xfff == vlan;
        if !tagged || word(16) != 0x0800 || f[27] != 1 || f[38] != 8 {
            continue;
        }
        ours += 1;
        // Type 8 becomes 0, and the checksum follows.
        let sum = u32::from(word(40)) + 0x0800;
        f[38] = 0;
        f[40..42].copy_from_slice(&((sum + (sum >> 16)) as u16).to_be_bytes());
        f[..12].rotate_left(6);
        f[30..38].rotate_left(4);
        send_on(to, &[f]);
    }
}

/// Gets a file by HTTP.
pub(crate) fn get(address: (&str, u16), path: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let head = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("the end of the head");
    Ok(answer.split_off(head + 4))
}

/// Returns the SHA-256 of data, by the host's own program.
pub(crate) fn sha256(data: &[u8], directory: &Path) -> String {
    let file = directory.join("data");
    std::fs::write(&file, data).or_fail();
    let said = host(format!("sha256sum {}", file.display()));
    std::fs::remove_file(&file).or_fail();
    said.split_whitespace().next().unwrap_or_default().to_owned()
}
