//! The wire of a guest on the host's side: a network namespace with a TAP device, and frames and
//! requests toward the guest.

use crate::Error;
use doorbell_packet::checksum::Sum;
use doorbell_packet::ethernet::LOCAL_TYPE;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto, sockopt};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::process::Command;
use std::time::Duration;

/// The guest's Ethernet address.
pub const MAC: [u8; 6] = [0x52, 0x54, 0, 0xdb, 0, 1];
/// The host's.
pub const HOST_MAC: [u8; 6] = [0x52, 0x54, 0, 0xdb, 0, 2];
/// The guest's IP address.
pub const GUEST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The host's.
pub const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The host's end of the wire.
pub const TAP: &str = "tap0";
/// Bytes in front of the data of an echo request: Ethernet, IP, ICMP.
const ECHO_HEADERS: usize = 14 + 20 + 8;
/// Time in which an answer comes.
const ANSWER: Duration = Duration::from_secs(60);
/// Pause behind an answer, in which the guest ends its interrupt.
const PAUSE: Duration = Duration::from_millis(2);

/// Returns an Ethernet address as people write it.
pub fn text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

/// Moves this process, which must have one thread, to a network of its own, with a TAP device.
pub(crate) fn isolate() -> Result<(), Error> {
    doorbell_host_io::netns::isolate().map_err(|e| {
        Error::Input(format!(
            "a network namespace cannot be made: {e}; allow users to make them \
             (sysctl kernel.unprivileged_userns_clone=1), or run as root"
        ))
    })?;
    for conf in ["all", "default"] {
        let file = format!("/proc/sys/net/ipv6/conf/{conf}/disable_ipv6");
        // A kernel without IPv6 has none.
        let _ = std::fs::write(file, "1");
    }
    ip("link set lo up")?;
    ip(&format!("tuntap add dev {TAP} mode tap")).map_err(|e| {
        let advice = "every user must be able to open /dev/net/tun, as udev sets it up (mode 0666)";
        Error::Input(format!("{e}; {advice}"))
    })?;
    ip(&format!("link set {TAP} address {} mtu 9000 up", text(HOST_MAC)))?;
    ip(&format!("addr add {HOST}/24 dev {TAP}"))?;
    ip(&format!("neigh replace {GUEST} lladdr {} nud permanent dev {TAP}", text(MAC)))
}

fn ip(line: &str) -> Result<(), Error> {
    let paths = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let done = Command::new("ip").env("PATH", paths).args(line.split_whitespace()).output();
    let done = done.map_err(Error::io("ip (the package iproute2 has it)"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let source = io::Error::other(said.trim().to_owned());
    Err(Error::Io { place: format!("ip {line}"), source })
}

/// Returns the packets that the host's end has sent and received. A large send is one.
pub(crate) fn packets() -> io::Result<u64> {
    let table = std::fs::read_to_string("/proc/net/dev")?;
    let line = table.lines().find_map(|l| l.trim_start().strip_prefix(TAP)?.strip_prefix(':'));
    let line = line.ok_or_else(|| io::Error::other(format!("there is no {TAP}")))?;
    // Of eight numbers received and eight sent, the second.
    let numbers: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    Ok([1, 9].iter().filter_map(|n| numbers.get(*n)).sum())
}

/// A socket that sends frames to the guest.
pub(crate) struct Sender(doorbell_host_io::packet_socket::PacketSocket);

impl Sender {
    pub(crate) fn open() -> Result<Sender, Error> {
        let socket = doorbell_host_io::packet_socket::PacketSocket::open(TAP);
        Ok(Sender(socket.map_err(Error::io(TAP))?))
    }

    /// Sends `count` frames of `size` bytes.
    pub(crate) fn send(&self, count: usize, size: usize) -> Result<(), Error> {
        let mut frame = [&MAC[..], &HOST_MAC, &LOCAL_TYPE].concat();
        frame.resize(size.max(60), 0);
        let frames = std::iter::repeat_n((Default::default(), &frame[..]), count);
        match self.0.send(frames).map_err(Error::io(TAP))? {
            0 => Ok(()),
            lost => Err(Error::Io {
                place: TAP.to_owned(),
                source: io::Error::other(format!("{lost} of {count} frames were refused")),
            }),
        }
    }
}

/// Sends `count` requests of `kind`, each after the answer to the last.
pub fn ask(kind: &str, count: usize, size: usize) -> io::Result<()> {
    match kind {
        "icmp" => ask_icmp(count, size),
        "tcp" => ask_tcp(count, size),
        _ => Err(io::Error::other(format!("ask {kind}: allowed are icmp and tcp"))),
    }
}

fn ask_icmp(count: usize, size: usize) -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWER))?;
    let to = SocketAddrV4::new(GUEST, 0);
    for n in 0..count {
        let mut request = vec![8, 0, 0, 0, 0xdb, 0x0b, (n >> 8) as u8, n as u8];
        request.resize(8 + size.saturating_sub(ECHO_HEADERS), 0);
        let sum = Sum::of(&request).checksum();
        request[2..4].copy_from_slice(&sum.to_be_bytes());
        rustix::net::sendto(&socket, &request, SendFlags::empty(), &to)?;
        let mut answer = [0; 65536];
        loop {
            let (length, _) = rustix::net::recv(&socket, &mut answer, RecvFlags::empty())?;
            // Behind its IP header.
            let got = answer.get(20..length).unwrap_or(&[]);
            if got.first() == Some(&0) && got.get(4..) == Some(&request[4..]) {
                break;
            }
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn ask_tcp(count: usize, size: usize) -> io::Result<()> {
    let mut stream = TcpStream::connect((GUEST, 7))?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ANSWER))?;
    let (request, mut answer) = (vec![0x5a; size], vec![0; size]);
    for _ in 0..count {
        stream.write_all(&request)?;
        stream.read_exact(&mut answer)?;
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
