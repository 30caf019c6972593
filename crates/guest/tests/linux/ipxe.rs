//! iPXE's driver of the e1000: a boot over the network, which has no Linux in it.

use crate::bench::bench;
use crate::host::{OrFail, PATIENCE, fresh, host};
use crate::rig::start;
use doorbell_guest::Device;
use doorbell_guest::net::{GUEST, HOST, TAP};
use doorbell_host_io::child::ChildGuard;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, Once};

checks! { pub(crate) CHECKS:
    alone ipxe: "iPXE gets an address, fetches a megabyte, and runs a script.";
}

/// The paths that were asked for.
static ASKED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Message types of DHCP.
const DISCOVER: u8 = 1;
const OFFER: u8 = 2;
const REQUEST: u8 = 3;
const ACK: u8 = 5;

/// Answers DHCP: the guest's address, to everybody. Ends with the process.
fn lease(socket: &UdpSocket) -> std::io::Result<()> {
    let mut asked = [0; 2048];
    loop {
        let (length, _) = socket.recv_from(&mut asked)?;
        // Behind the fixed part and the cookie. iPXE puts the message's type first.
        let kind = match asked[240..243] {
            [53, 1, DISCOVER] if length > 242 => OFFER,
            [53, 1, REQUEST] if length > 242 => ACK,
            _ => continue,
        };
        let mut answer = vec![2];
        answer.extend(&asked[1..16]);
        answer.extend([GUEST.octets(), HOST.octets()].as_flattened());
        answer.extend(&asked[24..240]);
        // Message type, server, mask, lease of an hour.
        answer.extend([53, 1, kind, 54, 4]);
        answer.extend(HOST.octets());
        answer.extend([1, 4, 255, 255, 255, 0, 51, 4, 0, 0, 14, 16, 255]);
        answer.resize(answer.len().max(300), 0);
        socket.send_to(&answer, (Ipv4Addr::BROADCAST, 68))?;
    }
}

/// Answers a request of HTTP, and writes down its path.
fn file(stream: TcpStream) -> std::io::Result<()> {
    let mut lines = BufReader::new(&stream).lines();
    let request = lines.next().unwrap_or(Ok(String::new()))?;
    let path = request.split_whitespace().nth(1).unwrap_or_default().to_owned();
    // The rest of the head.
    while lines.next().is_some_and(|l| l.is_ok_and(|l| !l.is_empty())) {}
    let body = match &*path {
        // More than the receive FIFO holds, so that the driver's ring of few descriptors runs dry.
        "/blob" => (0..=250).cycle().take(251 * 4000).collect(),
        _ => format!("#!ipxe\nimgstat\nimgfetch http://{HOST}/done\npoweroff\n").into_bytes(),
    };
    ASKED.lock().expect("never poisoned").push(path);
    write!(&stream, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())?;
    (&stream).write_all(&body)
}

/// Starts the servers of addresses and files.
fn serve_network() {
    // There is no other route for answers to those that have no address.
    host(format!("ip route add {} dev {TAP}", Ipv4Addr::BROADCAST));
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 67)).or_fail();
    socket.set_broadcast(true).or_fail();
    std::thread::spawn(move || lease(&socket));
    let web = TcpListener::bind((HOST, 80)).or_fail();
    std::thread::spawn(move || {
        for stream in web.incoming().flatten() {
            // iPXE asks for one file after another.
            let _ = file(stream);
        }
    });
}

fn ipxe(device: &Device) {
    let directory = PathBuf::from(format!("ipxe-{}", device.name));
    fresh(&directory);
    static ONCE: Once = Once::new();
    ONCE.call_once(serve_network);
    ASKED.lock().expect("never poisoned").clear();
    let uplink = format!("--uplink tap:{TAP}");
    let server = start(&bench().doorbell, device, &directory, &uplink);
    let line = format!("dhcp && imgfetch http://{HOST}/blob && chain http://{HOST}/script");
    let user = format!(
        "{{\"driver\":\"vfio-user-pci\",\"socket\":{{\"type\":\"unix\",\"path\":\"{}\"}}}}",
        server.socket().display()
    );
    let kernel = bench().ipxe.as_ref().expect("fetched").join("usr/lib/ipxe/ipxe.lkrn");
    let mut command = bench().platform(device.arch).machine.emulator();
    command.args(["-machine", "q35,memory-backend=ram,graphics=off", "-accel", "tcg"]);
    command.args(["-m", "256M", "-object", "memory-backend-memfd,id=ram,size=256M,share=on"]);
    command.args(["-nodefaults", "-no-reboot", "-display", "none", "-device", &user]);
    command.arg("-serial").arg(format!("file:{}", directory.join("console.log").display()));
    command.arg("-kernel").arg(kernel).args(["-append", &line]).stdin(Stdio::null());
    let mut qemu = ChildGuard::spawn("QEMU", &mut command).or_fail();
    qemu.wait(PATIENCE).or_fail();
    let asked = ASKED.lock().expect("never poisoned").clone();
    assert_eq!(asked, ["/blob", "/script", "/done"], "{}: iPXE asked for", device.name);
}
