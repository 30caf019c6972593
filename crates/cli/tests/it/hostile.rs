//! `doorbell serve` against clients that mean harm: the server, its report and all other guests
//! stay as they are.

use crate::common::program;
use crate::common::served::{Server, ask, client, connected, introduced, reply, send, wait_for};
use crate::common::vnic::VnicGuest;
use doorbell_hal::{Device, EventSource, Reg, RxVerdict, Time};
use doorbell_host_io::pcap;
use doorbell_host_io::shared::{EventFd, Window, memfd};
use doorbell_layout::e1000::{ContextTx, DataTx, tx_word};
use doorbell_layout::ibmvnic::rc;
use doorbell_layout::mlx5::uar;
use doorbell_packet::checksum::Sum;
use doorbell_papr_io::{Adapter, CALL_AREA_BYTES, Handshake, MEMORY, message, read_message};
use doorbell_testkit::lingering;
use doorbell_testkit::mlx5::{CommandHarness, Common, RecordingPort};
use doorbell_vfio_user::send_with_fds;
use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, ftruncate, memfd_create};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Commands of vfio-user.
const DMA_MAP: u16 = 2;
const DEVICE_INFO: u16 = 4;
const SET_IRQS: u16 = 8;
const READ: u16 = 9;
const WRITE: u16 = 10;
/// Flags and indices of interrupts.
const NONE: u32 = 1;
const EVENTFD: u32 = 4;
const UNMASK: u32 = 16;
const TRIGGER: u32 = 32;
const INTX: u32 = 0;

/// Memory of a client that can be truncated at any time: it cannot be sealed.
fn open_memory(len: u64) -> File {
    let file = File::from(memfd_create(c"open", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(len).unwrap();
    file
}

/// Memory that can be sealed, and is not.
fn sealable_memory(len: u64) -> File {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = File::from(memfd_create(c"memory", flags).unwrap());
    file.set_len(len).unwrap();
    file
}

/// Makes the description blocking, for the server too.
fn make_blocking(fd: impl AsFd) {
    fcntl_setfl(fd, OFlags::empty()).unwrap();
}

fn set_irqs(flags: u32) -> Vec<u8> {
    [20, flags, INTX, 0, 1].map(u32::to_ne_bytes).concat()
}

fn map(address: u64, len: u64) -> Vec<u8> {
    let words = [32u32.to_ne_bytes(), 3u32.to_ne_bytes()].concat();
    [words, [0, address, len].map(u64::to_ne_bytes).concat()].concat()
}

fn register(offset: u64, v: u32) -> Vec<u8> {
    access(0, offset, &v.to_ne_bytes())
}

fn access(region: u32, offset: u64, data: &[u8]) -> Vec<u8> {
    let place = [region, data.len() as u32].map(u32::to_ne_bytes).concat();
    [&offset.to_ne_bytes()[..], &place, data].concat()
}

/// Waits until the server has closed the connection.
fn closed(s: &mut UnixStream) {
    s.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut rest = Vec::new();
    match s.read_to_end(&mut rest) {
        Ok(_) => {}
        Err(e) => assert_eq!(e.kind(), ErrorKind::ConnectionReset),
    }
}

fn report(server: Server) -> Value {
    serde_json::from_str(&server.stop("-TERM")).unwrap()
}

#[test]
fn a_blocking_unmask_eventfd_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut s = client(dir.path());
    let fd = EventFd::new().unwrap();
    send(&s, SET_IRQS, &set_irqs(EVENTFD | UNMASK), &[fd.as_fd()]);
    reply(&mut s).unwrap();
    make_blocking(&fd);
    for _ in 0..3 {
        ask(&mut s, DEVICE_INFO, &[0; 16]);
    }
    assert_eq!(report(server)["clients"], 1);
}

#[test]
fn a_full_blocking_eventfd_ends_its_client_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--capture", "wire.pcapng"]);
    let mut s = client(dir.path());
    let fd = EventFd::new().unwrap();
    send(&s, SET_IRQS, &set_irqs(EVENTFD | TRIGGER), &[fd.as_fd()]);
    reply(&mut s).unwrap();
    rustix::io::write(&fd, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    make_blocking(&fd);
    send(&s, SET_IRQS, &set_irqs(NONE | TRIGGER), &[]);
    closed(&mut s);
    drop(client(dir.path()));
    assert_eq!(report(server)["clients"], 2);
    assert!(dir.path().join("wire.pcapng").exists());
}

#[test]
fn a_descriptor_that_may_block_ends_its_client() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut s = client(dir.path());
    let (_read, write) = std::io::pipe().unwrap();
    send(&s, SET_IRQS, &set_irqs(EVENTFD | TRIGGER), &[write.as_fd()]);
    closed(&mut s);
    drop(client(dir.path()));
    assert_eq!(report(server)["clients"], 2);
}

#[test]
fn descriptors_of_the_wrong_kind_end_their_client() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let (memory, eventfd) = (memfd(c"memory", 4096).unwrap(), EventFd::new().unwrap());
    let wrong = [
        (SET_IRQS, set_irqs(EVENTFD | TRIGGER), memory.as_fd()),
        (SET_IRQS, set_irqs(EVENTFD | UNMASK), memory.as_fd()),
        (DMA_MAP, map(0, 4096), eventfd.as_fd()),
    ];
    for (command, body, fd) in wrong {
        let mut s = client(dir.path());
        send(&s, command, &body, &[fd]);
        closed(&mut s);
    }
    drop(client(dir.path()));
    assert_eq!(report(server)["clients"], 4);
}

#[test]
fn a_silent_client_makes_room_for_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--hello-timeout", "1"]);
    let mut silent = connected(dir.path());
    // It waits behind the silent one.
    let s = client(dir.path());
    closed(&mut silent);
    drop(s);
    assert_eq!(report(server)["clients"], 2);
}

/// Makes an e1000 send the frames of a ring at the start of its memory, up to a tail.
fn send_frames(s: &mut UnixStream, tail: u32) {
    let bus_master = access(7, 4, &6u16.to_ne_bytes());
    ask(s, WRITE, &bus_master);
    for (offset, v) in
        [(0, 0x41), (0x400, 0xa), (0x3800, 0), (0x3804, 0), (0x3808, 4096), (0x3818, tail)]
    {
        ask(s, WRITE, &register(offset, v));
    }
}

/// Reads GPTC, the good packets sent since the last read.
fn packets_sent(s: &mut UnixStream) -> u32 {
    let ask_for = [&0x4080u64.to_ne_bytes()[..], &[0, 0, 0, 0], &4u32.to_ne_bytes()].concat();
    u32::from_le_bytes(ask(s, READ, &ask_for)[16..].try_into().unwrap())
}

/// Returns a ring of 256 descriptors, each of a frame of 60 bytes behind it.
fn ring() -> Vec<u8> {
    let mut one = 8192u64.to_le_bytes().to_vec();
    one.extend([60, 0, 0, 0x0b, 0, 0, 0, 0]);
    one.repeat(256)
}

fn truncated_ends_alone(mut memory: File) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--capture", "wire.pcapng"]);
    let mut s = client(dir.path());
    memory.write_all(&ring()).unwrap();
    send(&s, DMA_MAP, &map(0, 1 << 20), &[memory.as_fd()]);
    reply(&mut s).unwrap();
    send_frames(&mut s, 4);
    let mut sent = 0;
    wait_for(|| {
        sent += packets_sent(&mut s);
        sent == 4
    });
    ftruncate(&memory, 0).unwrap();
    send(&s, WRITE, &register(0x3818, 8), &[]);
    closed(&mut s);
    drop(client(dir.path()));
    let report = report(server);
    assert_eq!((&report["clients"], &report["ledger"]["wire_frames"]), (&2.into(), &4.into()));
    assert!(report["ledger"]["dma_faults"].as_u64().unwrap() > 0, "the access was a fault");
    assert_eq!(pcap::read(dir.path().join("wire.pcapng")).unwrap().frames.len(), 4);
}

#[test]
fn truncated_memory_ends_its_client_alone() {
    truncated_ends_alone(open_memory(1 << 20));
}

/// The server adds no seal, for which it would wait as long as a client allocates the file's pages.
#[test]
fn truncated_memory_that_can_be_sealed_ends_its_client_alone() {
    truncated_ends_alone(sealable_memory(1 << 20));
}

/// A ring of large sends of a million segments each, which take the wire minutes.
#[test]
fn sigterm_ends_large_sends_with_report_and_capture_whole() {
    const LARGE: u64 = 128;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &["--capture", "wire.pcapng"]);
    let mut s = client(dir.path());
    let mut memory = open_memory(2 << 20);
    let (len, mss) = (0xf_ffff, 1.into());
    let word = (len | tx_word::DEXT | tx_word::TSE | tx_word::TCP | tx_word::IP).into();
    let context = ContextTx { tucss: 34, tucso: 50, word, hdrlen: 54, mss, ..Default::default() };
    let data = tx_word::DTYP_DATA | tx_word::EOP | tx_word::IFCS | tx_word::DEXT | tx_word::TSE;
    let data = DataTx { address: 8192.into(), word: (len | data).into(), ..Default::default() };
    let ring = [context.as_bytes(), data.as_bytes()].concat().repeat(LARGE as usize);
    memory.write_all(&ring).unwrap();
    send(&s, DMA_MAP, &map(0, 2 << 20), &[memory.as_fd()]);
    reply(&mut s).unwrap();
    send_frames(&mut s, 255);
    wait_for(|| packets_sent(&mut s) > 0);
    let report = report(server);
    let sent = report["ledger"]["wire_frames"].as_u64().unwrap();
    assert!((1..LARGE * u64::from(len - 54)).contains(&sent), "{sent} frames were sent");
    assert_eq!(pcap::read(dir.path().join("wire.pcapng")).unwrap().frames.len() as u64, sent);
}

/// An mlx5 in a server. It sees the memory of the commands' harness.
struct Remote {
    socket: UnixStream,
    memory: Window,
}

impl EventSource for Remote {
    fn next_due(&self) -> Option<Time> {
        Some(Time::ZERO)
    }
}

impl Device<RecordingPort> for Remote {
    fn mmio_read(&mut self, _: &mut RecordingPort, _: Time, _: Reg, _: u8) -> u64 {
        unreachable!("answers are found in memory")
    }

    fn mmio_write(&mut self, p: &mut RecordingPort, _: Time, r: Reg, size: u8, v: u64) {
        self.memory.write(0, &p.memory);
        let v = &v.to_le_bytes()[..size.into()];
        ask(&mut self.socket, WRITE, &access(r.region.into(), r.offset.into(), v));
    }

    fn receive(&mut self, _: &mut RecordingPort, _: Time, _: &[u8]) -> RxVerdict {
        unreachable!("no frames come")
    }

    fn advance(&mut self, p: &mut RecordingPort, _: Time) {
        self.memory.read(0, &mut p.memory);
    }

    fn reset(&mut self, _: &mut RecordingPort, _: Time) {}
}

/// Sends frames of a full queue again and again, each with a doorbell, until the server has gone.
/// One in 64 leaves, the last of the queue too: then nothing of the queue is to be read any more.
/// Each queue that left is told.
fn send_to_itself(
    c: &mut CommandHarness<Remote>,
    (o, sqn, own): (&Common, u32, [u8; 6]),
    mut wire: UnixStream,
    left: &Sender<()>,
) -> io::Result<()> {
    const LEAVES: usize = 64;
    const WRITE_MULTI: u16 = 15;
    const NO_REPLY: u32 = 0x10;
    let head = |n: usize| if n % LEAVES == LEAVES - 1 { [2; 6] } else { own };
    let place = [o.uar * uar::PAGE + uar::SEND, 0, 0, 8].map(u32::to_ne_bytes);
    let mut first = 0u16;
    loop {
        let words = c.fill(sqn, o.mkey, first, head);
        c.device.memory.write(0, &c.port.memory);
        let writes = words.iter().flat_map(|v| [place.as_flattened(), &v.to_ne_bytes()].concat());
        let body: Vec<u8> = words.len().to_ne_bytes().into_iter().chain(writes).collect();
        let head = [u32::from(WRITE_MULTI) << 16, 16 + body.len() as u32, NO_REPLY, 0];
        c.device.socket.write_all(head.map(u32::to_ne_bytes).as_flattened())?;
        c.device.socket.write_all(&body)?;
        wire.read_exact(&mut vec![0; words.len() / LEAVES * 64])?;
        first = first.wrapping_add(words.len() as u16);
        let _ = left.send(());
    }
}

/// A signal comes while an mlx5 compares frames to itself with as many masks as there may be.
#[test]
fn sigterm_ends_looped_frames_with_report_and_capture_whole() {
    type Commands = CommandHarness<Remote>;
    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];
    let dir = tempfile::tempdir().unwrap();
    let server =
        Server::of("mlx5", dir.path(), &["--capture", "wire.pcapng", "--uplink", "socket:wire"]);
    let mut socket = introduced(dir.path());
    let file = memfd(c"memory", 2 << 20).unwrap();
    let memory = Window::map(&file, 0, 2 << 20, true).unwrap();
    send(&socket, DMA_MAP, &map(0, 2 << 20), &[file.as_fd()]);
    reply(&mut socket).unwrap();
    ask(&mut socket, WRITE, &access(7, 4, &6u16.to_ne_bytes()));
    let mut c = Commands::new(Remote { socket, memory });
    c.bring_up();
    let o = c.common();
    c.loop_back(&o, OWN, 250);
    let sqn = c.send_queue(&o);
    let wire = UnixStream::connect(dir.path().join("wire")).unwrap();
    let (tell, queues) = channel();
    let report = std::thread::scope(|scope| {
        // It ends with the server, whose end is an error of a socket.
        scope.spawn(move || send_to_itself(&mut c, (&o, sqn, OWN), wire, &tell).is_err());
        queues.iter().nth(1).expect("two queues left");
        report(server)
    });
    // The signal may come just before a queue has left; the next is the one that it ends.
    let late = queues.try_iter().count();
    println!("{late} queues left after the signal");
    assert!(late <= 2, "{late}");
    let count = |name: &str| report["device_counters"][name].as_u64().unwrap();
    let sent = report["ledger"]["wire_frames"].as_u64().unwrap();
    println!("{sent} frames left, and {} came back", count("rx_arrived"));
    assert!(sent > 64 && count("rx_arrived") > 4096, "{report}");
    assert_eq!(pcap::read(dir.path().join("wire.pcapng")).unwrap().frames.len() as u64, sent);
}

#[test]
fn a_wrong_checksum_on_the_wire_fails_a_server_that_checks() {
    let mut tcp = vec![0; 60];
    tcp[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 6]);
    tcp[46] = 0x50;
    let ip = Sum::of(&tcp[14..34]).checksum();
    tcp[24..26].copy_from_slice(&ip.to_be_bytes());
    let pseudo = Sum::pseudo_v4([0; 4], [0; 4], 6, 26).value();
    tcp[50..52].copy_from_slice(&pseudo.to_be_bytes());
    // The checksum goes into TCP's field, or into the urgent pointer.
    let checks = &["--check-wire"][..];
    for (options, field, code) in [(checks, 50, 0), (checks, 52, 1), (&[], 52, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Server::start(dir.path(), options);
        let mut memory = open_memory(1 << 20);
        let mut one = 8192u64.to_le_bytes().to_vec();
        one.extend([60, 0, field, 0x0f, 0, 34, 0, 0]);
        memory.write_all(&one.repeat(512)).unwrap();
        memory.write_all(&tcp).unwrap();
        let mut s = client(dir.path());
        send(&s, DMA_MAP, &map(0, 1 << 20), &[memory.as_fd()]);
        reply(&mut s).unwrap();
        send_frames(&mut s, 1);
        wait_for(|| packets_sent(&mut s) == 1);
        server.signal("-TERM");
        assert_eq!(server.0.wait().unwrap().code(), Some(code), "{options:?}");
    }
}

/// A tmpfs of 64 KiB, removed at the end.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> SmallDisk<'a> {
        std::fs::create_dir(at).unwrap();
        let mount = ["-t", "tmpfs", "-o", "size=64k", "none"];
        assert!(Command::new("mount").args(mount).arg(at).status().unwrap().success());
        SmallDisk(at)
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0).status();
    }
}

#[test]
fn sparse_memory_without_room_ends_its_client_or_is_refused() {
    if std::env::var("DOORBELL_FULL").is_err() {
        println!("skipped: DOORBELL_FULL=1 is not set, and a mount needs root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().join("disk");
    let disk = SmallDisk::mount(&at);
    let memory = File::create_new(disk.0.join("ram")).unwrap();
    memory.set_len(1 << 20).unwrap();
    let read_write = File::options().read(true).write(true).open(disk.0.join("ram")).unwrap();
    std::fs::write(disk.0.join("rest"), [0; 2 << 16]).expect_err("the disk is full");
    let server = Server::start(dir.path(), &[]);
    let mut s = client(dir.path());
    send(&s, DMA_MAP, &map(0, 1 << 20), &[read_write.as_fd()]);
    reply(&mut s).unwrap();
    for body in [access(7, 4, &6u16.to_ne_bytes()), register(0x400, 0xa), register(0x3808, 4096)] {
        ask(&mut s, WRITE, &body);
    }
    send(&s, WRITE, &register(0x3818, 8), &[]);
    closed(&mut s);
    drop(client(dir.path()));
    assert!(report(server)["ledger"]["dma_faults"].as_u64().unwrap() > 0);

    let server = Server::start(dir.path(), &["--populate"]);
    let mut s = client(dir.path());
    send(&s, DMA_MAP, &map(0, 1 << 20), &[read_write.as_fd()]);
    reply(&mut s).expect_err("there is no room for it");
    assert_eq!(report(server)["clients"], 1);

    let server = hypervisor_with(dir.path(), ":", &["--populate"]);
    let (_s, honest) = guest(dir.path()).unwrap();
    let (mut s, _adapter) = guest(dir.path()).unwrap();
    send_with_fds(&s, &message(MEMORY, 1 << 20), &[read_write.as_fd()]).unwrap();
    closed(&mut s);
    assert!(is_answered(&honest));
    assert_eq!(report(server)["ledger"]["dma_faults"], 0);
    drop((memory, read_write, disk));
}

#[test]
fn populate_allocates_the_memory_of_both_kinds_of_clients() {
    const LEN: u64 = 1 << 20;
    // Blocks of 512 bytes, whatever those of the file.
    let allocated = |memory: &File| memory.metadata().unwrap().blocks() * 512;
    for (more, bytes) in [(&[][..], 0), (&["--populate"], LEN)] {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(dir.path(), more);
        let mut s = client(dir.path());
        let memory = memfd(c"sparse", LEN).unwrap();
        send(&s, DMA_MAP, &map(0, LEN), &[memory.as_fd()]);
        reply(&mut s).unwrap();
        assert_eq!(allocated(&memory), bytes);
        drop(report(server));

        let dir = tempfile::tempdir().unwrap();
        let server = hypervisor_with(dir.path(), ":", more);
        let (s, honest) = guest(dir.path()).unwrap();
        let memory = memfd(c"sparse", LEN).unwrap();
        send_with_fds(&s, &message(MEMORY, LEN), &[memory.as_fd()]).unwrap();
        // Calls are answered when the memory is there.
        wait_for(|| is_answered(&honest) && allocated(&memory) == bytes);
        drop(report(server));
    }
}

#[test]
fn maps_leave_room_for_the_server() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut s = client(dir.path());
    let memory = memfd(c"page", 4096).unwrap();
    let allowed = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap();
    let allowed: u64 = allowed.trim().parse().unwrap();
    let refused = (0..allowed).find(|i| {
        send(&s, DMA_MAP, &map(i << 16, 4096), &[memory.as_fd()]);
        reply(&mut s).is_err()
    });
    assert!(refused.is_some_and(|n| n <= allowed / 2), "{refused:?} of {allowed}");
    send(&s, WRITE, &access(0, 0, &[0; 900_000]), &[]);
    reply(&mut s).expect_err("a register has 4 bytes");
    assert_eq!(report(server)["clients"], 1);
}

// ---- guests behind hypervisor calls ----

/// First message of a plug-in, and its version.
const HELLO: (u64, u64) = (0x6c6c_6562_726f_6f44, 3);
const TABLE_BYTES: u64 = 65_536 * 8;
const UNIT: u64 = 0x3000_0003;

fn hypervisor(dir: &Path, limit: &str) -> Server {
    hypervisor_with(dir, limit, &[])
}

fn hypervisor_with(dir: &Path, limit: &str, more: &[&str]) -> Server {
    let mut command = Command::new("sh");
    let line = format!("{limit}; exec \"$0\" \"$@\"");
    command.args(["-c", &line, program(), "serve", "vnic"]);
    command.args(["--plugin-socket", "s", "--partitions", "16", "--format", "json", "--quiet"]);
    command.args(more);
    let server = Server(command.current_dir(dir).stdout(Stdio::piped()).spawn().unwrap());
    wait_for(|| UnixStream::connect(dir.join("s")).is_ok());
    server
}

fn connect(dir: &Path) -> UnixStream {
    let s = UnixStream::connect(dir.join("s")).unwrap();
    s.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    s
}

/// An honest guest.
fn guest(dir: &Path) -> std::io::Result<(UnixStream, Adapter)> {
    let s = connect(dir);
    let adapter = Handshake::send(&s)?.finish(&s, |_, _| true)?;
    Ok((s, adapter))
}

/// A call that the device does not know, and that the server answers.
fn is_answered(adapter: &Adapter) -> bool {
    adapter.forward(0, 0x999, &[UNIT, 0, 0, 0, 0, 0, 0, 0, 0]).is_some()
}

#[test]
fn a_guest_gets_no_address_and_no_frames_of_another() {
    const FIRST: [u8; 6] = [0x52, 0x54, 0, 0xdb, 0, 1];
    const SECOND: [u8; 6] = [0x52, 0x54, 0, 0xdb, 0, 2];
    const THIRD: [u8; 6] = [0x52, 0x54, 0, 0xdb, 0, 3];
    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor_with(dir.path(), ":", &[]);
    let mut honest = VnicGuest::log_in(dir.path()).unwrap();
    let mut hostile = VnicGuest::log_in(dir.path()).unwrap();
    assert_eq!(honest.change_mac(FIRST).unwrap(), rc::SUCCESS);
    assert_eq!(hostile.change_mac(FIRST).unwrap(), rc::PERMISSION, "another's");
    assert_eq!(hostile.change_mac(SECOND).unwrap(), rc::SUCCESS, "its own");
    assert_eq!(hostile.change_mac(THIRD).unwrap(), rc::PERMISSION, "of one that is to come");
    assert!(!hostile.may_be_promiscuous().unwrap());
    // The address goes with its guest.
    drop(honest);
    wait_for(|| VnicGuest::log_in(dir.path()).unwrap().change_mac(FIRST).unwrap() == rc::SUCCESS);
    drop(report(server));

    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor_with(dir.path(), ":", &["--allow-mac-change", "--allow-promiscuous"]);
    let [mut one, mut other] = [(); 2].map(|()| VnicGuest::log_in(dir.path()).unwrap());
    assert_eq!(one.change_mac(FIRST).unwrap(), rc::SUCCESS);
    assert_eq!(one.change_mac(SECOND).unwrap(), rc::SUCCESS);
    assert_eq!(other.change_mac(SECOND).unwrap(), rc::PERMISSION, "not even then");
    assert!(other.may_be_promiscuous().unwrap());
    drop(report(server));
}

#[test]
fn an_address_that_was_given_is_kept_for_its_guest() {
    const FIRST: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const SECOND: [u8; 6] = [2, 0, 0, 0, 0, 2];
    const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 99];
    let dir = tempfile::tempdir().unwrap();
    let all: Vec<_> = (1..=16).map(|n| format!("2:0:0:0:0:{n:x}")).collect();
    let server = hypervisor_with(dir.path(), ":", &["--mac", &all.join(",")]);
    let mut hostile = VnicGuest::log_in(dir.path()).unwrap();
    assert_eq!(hostile.change_mac(SECOND).unwrap(), rc::PERMISSION, "of one that is to come");
    assert_eq!(hostile.change_mac(OTHER).unwrap(), rc::PERMISSION, "of nobody");
    assert_eq!(hostile.change_mac(FIRST).unwrap(), rc::SUCCESS);
    let mut honest = VnicGuest::log_in(dir.path()).unwrap();
    assert_eq!(honest.change_mac(SECOND).unwrap(), rc::SUCCESS);
    drop(report(server));
}

/// A pipe that nobody reads, and that has no room.
fn full_pipe() -> (io::PipeReader, io::PipeWriter) {
    let (reader, mut writer) = io::pipe().unwrap();
    fcntl_setfl(&writer, OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'x'; 4096]).is_ok() {}
    while writer.write(b"x").is_ok() {}
    make_blocking(&writer);
    (reader, writer)
}

#[test]
fn a_full_stderr_stops_neither_guests_nor_the_end() {
    for device in ["vnic", "e1000"] {
        let dir = tempfile::tempdir().unwrap();
        let (_unread, stderr) = full_pipe();
        let socket = if device == "vnic" { "--plugin-socket" } else { "--socket" };
        let child = Command::new(program())
            .args(["serve", device, socket, "s", "--format", "json"])
            .args(if device == "vnic" { &["--partitions", "3"][..] } else { &[] })
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let server = Server(child);
        wait_for(|| UnixStream::connect(dir.path().join("s")).is_ok());
        let honest = (device == "vnic").then(|| guest(dir.path()).unwrap());
        // Each has a notice, or two: far more than the queue and the pipe have room for.
        for _ in 0..1000 {
            let mut s = connect(dir.path());
            s.write_all(&[b'x'; 16]).unwrap();
            drop(s);
        }
        match &honest {
            Some((_, adapter)) => assert!(is_answered(adapter)),
            None => drop(client(dir.path())),
        }
        let report = report(server);
        assert!(report["clients"].as_u64().unwrap() > 0, "{report}");
    }
}

/// A plug-in whose descriptors stay in our hands.
fn hostile(dir: &Path, area: &File) -> (UnixStream, EventFd) {
    let bell = EventFd::new().unwrap();
    (introduce(dir, area, &bell), bell)
}

/// A connection that has sent `HELLO` with these descriptors.
fn introduce(dir: &Path, area: impl AsFd, bell: impl AsFd) -> UnixStream {
    let s = connect(dir);
    let table = memfd(c"table", TABLE_BYTES).unwrap();
    let fds: [BorrowedFd<'_>; 3] = [area.as_fd(), table.as_fd(), bell.as_fd()];
    send_with_fds(&s, &message(HELLO.0, HELLO.1), &fds).unwrap();
    s
}

fn area() -> File {
    memfd(c"area", CALL_AREA_BYTES as u64).unwrap()
}

#[test]
fn a_guest_that_left_makes_room_for_the_next_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor(dir.path(), ":");
    let others: Vec<_> = (0..15).map(|_| guest(dir.path()).unwrap()).collect();
    for _ in 0..100 {
        let (s, _adapter) = guest(dir.path()).unwrap();
        // The child that another test has just started may still hold a copy of this descriptor.
        s.shutdown(Shutdown::Both).unwrap();
    }
    assert!(others.iter().all(|(_, adapter)| is_answered(adapter)));
    assert_eq!(report(server)["clients"], 115);
}

#[test]
fn a_blocking_doorbell_stops_no_other_guest() {
    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor(dir.path(), ":");
    let (_s, honest) = guest(dir.path()).unwrap();
    let (s, bell) = hostile(dir.path(), &area());
    read_message(&s).unwrap();
    assert!(is_answered(&honest), "the server is done with the handshake");
    make_blocking(&bell);
    for _ in 0..5 {
        assert!(is_answered(&honest));
        // The server falls asleep in between, and reads the doorbells as it wakes.
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(report(server));
}

#[test]
fn silent_connections_slow_no_guest_down() {
    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor(dir.path(), ":");
    let (_s, honest) = guest(dir.path()).unwrap();
    let silent: Vec<_> = (0..40).map(|_| connect(dir.path())).collect();
    let since = Instant::now();
    assert!((0..40).all(|_| is_answered(&honest)));
    // One second each, if the server waited for them.
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    let (_t, late) = guest(dir.path()).expect("nor is a new guest kept out");
    assert!(is_answered(&late));
    drop(silent);
    drop(report(server));
}

#[test]
fn hoarded_descriptors_end_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor(dir.path(), ":");
    let (_s, honest) = guest(dir.path()).unwrap();
    let (mut s, bell) = hostile(dir.path(), &area());
    read_message(&s).unwrap();
    let memory = memfd(c"memory", 4096).unwrap();
    send_with_fds(&s, &message(MEMORY, 4096), &[memory.as_fd(); 16]).unwrap();
    closed(&mut s);
    drop(bell);
    assert!(is_answered(&honest));
    drop(report(server));
}

#[test]
fn a_plugin_with_descriptors_of_the_wrong_kind_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor(dir.path(), ":");
    let (memory, eventfd) = (memfd(c"memory", 8).unwrap(), EventFd::new().unwrap());
    closed(&mut introduce(dir.path(), area(), &memory));
    closed(&mut introduce(dir.path(), &eventfd, &eventfd));
    let (mut s, _adapter) = guest(dir.path()).unwrap();
    send_with_fds(&s, &message(MEMORY, 4096), &[eventfd.as_fd()]).unwrap();
    closed(&mut s);
    assert_eq!(report(server)["clients"], 1);
}

/// Sends descriptors with messages that leave one over, until the server has `most`, or has closed
/// the connection.
fn hoard(server: &Server, s: &UnixStream, most: usize) {
    let memory = memfd(c"memory", 4096).unwrap();
    let fds = format!("/proc/{}/fd", server.0.id());
    let held = || std::fs::read_dir(&fds).map_or(0, |d| d.count());
    for (bytes, more) in [(&message(MEMORY, 4096)[..], 2), (b"x", 1)] {
        while held() + more <= most {
            let before = held();
            if send_with_fds(s, bytes, &[memory.as_fd(); 2][..more]).is_err() {
                return;
            }
            let until = Instant::now() + Duration::from_secs(1);
            while held() == before && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

#[test]
fn a_newcomer_without_a_descriptor_is_refused() {
    const LIMIT: usize = 24;
    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor(dir.path(), &format!("ulimit -n {LIMIT}"));
    let (s, _bell) = hostile(dir.path(), &area());
    read_message(&s).unwrap();
    hoard(&server, &s, LIMIT);
    let mut guests = Vec::new();
    // Until one is refused.
    let mut fill = || {
        while let Ok(g) = guest(dir.path()) {
            guests.push(g);
            assert!(guests.len() < 16, "16 guests need more descriptors");
        }
    };
    fill();
    // No descriptor is left, not even for a connection. What the server closes late is taken, too.
    let silent: Vec<_> = (0..12).map(|_| connect(dir.path())).collect();
    fill();
    assert!(!guests.is_empty() && guests.iter().all(|(_, adapter)| is_answered(adapter)));
    drop(silent);
    let before = guests.len();
    guests.truncate(1);
    wait_for(|| guest(dir.path()).is_ok_and(|g| is_answered(&g.1)));
    assert!(report(server)["clients"].as_u64().unwrap() > before as u64);
}

#[test]
fn a_call_area_that_can_shrink_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor(dir.path(), ":");
    for area in [open_memory, sealable_memory] {
        let (mut s, _bell) = hostile(dir.path(), &area(CALL_AREA_BYTES as u64));
        closed(&mut s);
    }
    let (_s, honest) = guest(dir.path()).unwrap();
    assert!(is_answered(&honest));
    drop(report(server));
}

/// H_PUT_TCE, H_REG_CRQ, H_SEND_CRQ, and the message that introduces a driver.
const PUT_TCE: u64 = 0x20;
const REG_CRQ: u64 = 0xfc;
const SEND_CRQ: u64 = 0x108;
const INITIALIZE: u64 = 0xc001_0000_0000_0000;

#[test]
fn truncated_guest_memory_ends_its_guest_alone() {
    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor(dir.path(), ":");
    let (_s, honest) = guest(dir.path()).unwrap();
    let (mut s, adapter) = guest(dir.path()).unwrap();
    let memory = open_memory(1 << 20);
    let window = Window::map(&memory, 0, 1 << 20, true).unwrap();
    send_with_fds(&s, &message(MEMORY, 1 << 20), &[memory.as_fd()]).unwrap();
    let call = |call, a: [u64; 3]| {
        let a = [UNIT, a[0], a[1], a[2], 0, 0, 0, 0, 0];
        let _ = adapter.answer_locally(call, &a, || Some(&window), |_| ());
        (call != PUT_TCE).then(|| adapter.forward(0, call, &a))
    };
    call(PUT_TCE, [0x1000, 3, 0]);
    call(REG_CRQ, [0x1000, 4096, 0]);
    ftruncate(&memory, 0).unwrap();
    call(SEND_CRQ, [INITIALIZE, 0, 0]);
    closed(&mut s);
    assert!(is_answered(&honest));
    assert!(report(server)["ledger"]["dma_faults"].as_u64().unwrap() > 0);
}

// ---- what is slow to close or to free ----

/// Returns a socket in whose queue a connection waits that lingers: its last close is that of the
/// connection. The peer of that comes with it.
fn slow_to_close() -> (UnixStream, TcpStream) {
    let (a, b) = UnixStream::pair().unwrap();
    let (socket, peer) = lingering(Duration::from_secs(20)).unwrap();
    send_with_fds(&a, b"x", &[socket.as_fd()]).unwrap();
    (b, peer)
}

/// Sends bytes with descriptors and a socket that is slow to close, which the server closes last.
fn send_slow(server: &Server, at: &Path, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> TcpStream {
    let (socket, peer) = slow_to_close();
    // A process that sends it would hold the sockets of all tests for a moment.
    let signal = |s| kill_process(Pid::from_child(&server.0), s).unwrap();
    signal(Signal::STOP);
    let s = UnixStream::connect(at).unwrap();
    send_with_fds(&s, bytes, &[fds, &[socket.as_fd()]].concat()).unwrap();
    drop((s, socket));
    signal(Signal::CONT);
    peer
}

/// Makes calls after each of ten attacks. Returns the number of attacks after which one took more
/// than 50 ms.
fn slow_calls(adapter: &Adapter, attack: impl Fn() -> TcpStream) -> usize {
    let mut slow = 0;
    for _ in 0..10 {
        let peer = attack();
        let longest = (0..8).map(|_| {
            std::thread::sleep(Duration::from_millis(2));
            let since = Instant::now();
            assert!(is_answered(adapter));
            since.elapsed()
        });
        slow += usize::from(longest.max() > Some(Duration::from_millis(50)));
        drop(peer);
    }
    slow
}

#[test]
fn unwanted_descriptors_slow_no_guest_down() {
    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor_with(dir.path(), ":", &["--uplink", "socket:wire"]);
    let (_s, honest) = guest(dir.path()).unwrap();
    let memory = memfd(c"memory", 4096).unwrap();
    let attack = |at: &str, fds: &[BorrowedFd<'_>]| {
        let hello = message(HELLO.0, HELLO.1);
        slow_calls(&honest, || send_slow(&server, &dir.path().join(at), &hello, fds))
    };
    let (surplus, wire) = (attack("s", &[memory.as_fd(); 20]), attack("wire", &[]));
    let others: Vec<_> = (0..15).map(|_| guest(dir.path()).unwrap()).collect();
    let unread = attack("s", &[]);
    let slow = [surplus, wire, unread];
    assert!(slow.iter().all(|n| *n < 5), "surplus, at the wire, unread: {slow:?}");
    drop(others);
    drop(report(server));
}

/// Returns a count from the server's status.
fn status(server: &Server, name: &str) -> usize {
    let text = std::fs::read_to_string(format!("/proc/{}/status", server.0.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().parse().unwrap()
}

#[test]
fn unwanted_descriptors_cost_no_thread_each() {
    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor(dir.path(), ":");
    let (_s, honest) = guest(dir.path()).unwrap();
    assert!(is_answered(&honest));
    let open = || std::fs::read_dir(format!("/proc/{}/fd", server.0.id())).unwrap().count();
    let (threads, before) = (status(&server, "Threads:"), open());
    let mut peers = Vec::new();
    for _ in 0..50 {
        let hello = message(HELLO.0, HELLO.1);
        peers.push(send_slow(&server, &dir.path().join("s"), &hello, &[]));
        assert!(is_answered(&honest));
    }
    assert_eq!(status(&server, "Threads:"), threads);
    wait_for(|| open() <= before);
    drop(report(server));
}

/// Returns the time that a thread of the server has run, by the thread's name.
fn ran(server: &Server, name: &str) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.0.id())).unwrap();
    let mut sum = 0;
    for task in tasks.map(|t| t.unwrap().path()) {
        let read = |file| std::fs::read_to_string(task.join(file)).unwrap();
        if read("comm").trim() == name {
            sum += read("schedstat").split(' ').next().unwrap().parse::<u64>().unwrap();
        }
    }
    Duration::from_nanos(sum)
}

#[test]
fn memory_of_a_client_that_ends_is_freed_elsewhere() {
    const LEN: u64 = 256 << 20;
    let memory = || {
        let memory = memfd(c"memory", LEN).unwrap();
        rustix::fs::fallocate(&memory, rustix::fs::FallocateFlags::empty(), 0, LEN).unwrap();
        memory
    };
    let freed = |server: &Server, end: &dyn Fn()| {
        let (main, before) = (ran(server, "doorbell"), ran(server, "memory"));
        end();
        // It takes 20 ms at least.
        wait_for(|| ran(server, "memory") > before + Duration::from_millis(5));
        std::thread::sleep(Duration::from_millis(100));
        (ran(server, "memory") - before, ran(server, "doorbell") - main)
    };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path(), &[]);
    let mut s = client(dir.path());
    send(&s, DMA_MAP, &map(0, LEN), &[memory().as_fd()]);
    reply(&mut s).unwrap();
    let (elsewhere, main) = freed(&server, &|| s.shutdown(Shutdown::Both).unwrap());
    assert!(elsewhere > main, "vfio-user: {elsewhere:?}, and {main:?} on the server's thread");
    drop(report(server));

    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor(dir.path(), ":");
    let (s, adapter) = guest(dir.path()).unwrap();
    send_with_fds(&s, &message(MEMORY, LEN), &[memory().as_fd()]).unwrap();
    assert!(is_answered(&adapter));
    let (elsewhere, main) = freed(&server, &|| s.shutdown(Shutdown::Both).unwrap());
    assert!(elsewhere > main, "plug-in: {elsewhere:?}, and {main:?} on the server's thread");
    drop(report(server));
}

/// Calls of an honest guest in one measurement.
const CALLS: usize = 201;

/// Makes calls, which all must be answered. Returns the median of their times.
fn median_call(adapter: &Adapter) -> Duration {
    let mut times: Vec<_> = (0..CALLS)
        .map(|_| {
            let since = Instant::now();
            assert!(is_answered(adapter));
            since.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[CALLS / 2]
}

/// Repeats `attack` on another thread. Returns the median call beside it, after so many rounds, and
/// the rounds in all.
fn median_beside(honest: &Adapter, first: usize, attack: impl Fn() + Sync) -> (Duration, usize) {
    let (ends, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let beside = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                attack();
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        wait_for(|| rounds.load(Ordering::Relaxed) >= first);
        let beside = median_call(honest);
        ends.store(true, Ordering::Relaxed);
        beside
    });
    (beside, rounds.into_inner())
}

/// An attack, which is repeated until it is told to end. Refused connections are no failure.
type Attack = fn(&Path, &str) -> io::Result<()>;

/// Connects and says nothing.
fn say_nothing(dir: &Path, _: &str) -> io::Result<()> {
    let s = UnixStream::connect(dir.join("s"))?;
    s.set_read_timeout(Some(Duration::from_millis(5)))?;
    let _ = (&s).read(&mut [0]);
    Ok(())
}

/// Makes the doorbell block.
fn block_the_doorbell(dir: &Path, _: &str) -> io::Result<()> {
    let (s, bell) = hostile(dir, &area());
    make_blocking(&bell);
    s.set_read_timeout(Some(Duration::from_millis(5)))?;
    let _ = (&s).read(&mut [0; 64]);
    Ok(())
}

/// Sends more descriptors than a message may have.
fn hoard_descriptors(dir: &Path, _: &str) -> io::Result<()> {
    let (s, _bell) = hostile(dir, &area());
    let memory = memfd(c"memory", 4096)?;
    for _ in 0..20 {
        send_with_fds(&s, &message(MEMORY, 4096), &[memory.as_fd(); 16])?;
    }
    Ok(())
}

/// Truncates memory that a call then reads.
fn truncate_memory(dir: &Path, _: &str) -> io::Result<()> {
    let s = UnixStream::connect(dir.join("s"))?;
    let adapter = Handshake::send(&s)?.finish(&s, |_, _| true)?;
    let memory = open_memory(1 << 20);
    send_with_fds(&s, &message(MEMORY, 1 << 20), &[memory.as_fd()])?;
    let call = |call, a: [u64; 3]| {
        let a = [UNIT, a[0], a[1], a[2], 0, 0, 0, 0, 0];
        let _ = adapter.answer_locally(call, &a, || None, |_| ());
        (call != PUT_TCE)
            .then(|| adapter.begin_call(0, call, &a) && adapter.take_answer(0).is_some())
    };
    call(PUT_TCE, [0x1000, 3, 0]);
    call(REG_CRQ, [0x1000, 4096, 0]);
    ftruncate(&memory, 0)?;
    call(SEND_CRQ, [INITIALIZE, 0, 0]);
    Ok(())
}

/// Calls from all CPUs at once.
fn flood(dir: &Path, _: &str) -> io::Result<()> {
    let s = UnixStream::connect(dir.join("s"))?;
    let adapter = Handshake::send(&s)?.finish(&s, |_, _| true)?;
    for n in 0..20_000 {
        let cpu = n % 64;
        let _ = adapter.take_answer(cpu);
        adapter.begin_call(cpu, 0x999, &[UNIT, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    Ok(())
}

/// Holds idle connections to the metrics page.
fn idle_at_the_page(_: &Path, page: &str) -> io::Result<()> {
    let all = (0..60).map(|_| TcpStream::connect(page)).collect::<io::Result<Vec<_>>>()?;
    std::thread::sleep(Duration::from_millis(20));
    drop(all);
    Ok(())
}

/// Prints the medians, of which each pair is of one server. A second more, as once, is a failure.
#[test]
fn other_guests_are_served_beside_each_attack() {
    let attacks: [(&str, Attack); 6] = [
        ("silent connections", say_nothing),
        ("blocking doorbell", block_the_doorbell),
        ("hoarded descriptors", hoard_descriptors),
        ("truncated memory", truncate_memory),
        ("flood of calls", flood),
        ("idle at the page", idle_at_the_page),
    ];
    for (name, attack) in attacks {
        let dir = tempfile::tempdir().unwrap();
        // A port that is free now, and most likely in a moment.
        let page = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let page = page.to_string();
        let server = hypervisor_with(dir.path(), ":", &["--metrics", &page]);
        let (_s, honest) = guest(dir.path()).unwrap();
        let alone = median_call(&honest);
        let (beside, rounds) = median_beside(&honest, 1, || _ = attack(dir.path(), &page));
        println!("{name}: a call takes {beside:?} beside {rounds} rounds of it, {alone:?} alone");
        assert!(beside < alone + Duration::from_millis(500));
        drop(report(server));
    }
}

/// A turn is bounded by the work of a guest's calls, and not by their number.
#[test]
fn large_sends_slow_no_other_guest_down() {
    let dir = tempfile::tempdir().unwrap();
    let server = hypervisor(dir.path(), ":");
    let (_s, honest) = guest(dir.path()).unwrap();
    let alone = median_call(&honest);
    let greedy = VnicGuest::log_in(dir.path()).unwrap();
    let (beside, _) = median_beside(&honest, 21, || greedy.post_large_sends(64, 64).unwrap());
    println!("a call takes {beside:?} beside large sends, {alone:?} alone");
    assert!(beside < alone + Duration::from_millis(500));
    assert!(report(server)["device_counters"]["tx_frames"].as_u64().unwrap() > 10_000);
}
