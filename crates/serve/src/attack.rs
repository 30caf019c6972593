//! Any clients of the event loop, in time that the input passes: they connect, talk as a VMM or a
//! plug-in does, send anything with any descriptors, stop in the middle of a message, and go.
//!
//! The input is a byte for the device, and actions of eight bytes. No client makes the server panic
//! or wait, a guest that behaves is answered within some turns, and no descriptor that the server
//! got is open when it has ended. The fuzz target `serve_clients` runs this, and so do tests.

use super::context::{Clock, ServeContext, SharedBill};
use super::control::Control;
use super::devices::{e1000_function, mlx5_function};
use super::event_loop::{Server, Transport};
use super::hcall::{Backend, Hcalls};
use super::outlet::{Notices, Outlet};
use super::uplink::Uplink;
use super::vfio::{Card, Vfio};
use super::vio_devices::{KINDS, Setup, lan_device, vnic_device};
use super::{bill::Bill, devices::Platform};
use crate::args::ClientLimits;
use doorbell_bus::Meter;
use doorbell_console::progress::Interrupt;
use doorbell_console::render::Format;
use doorbell_devices::e1000::Config;
use doorbell_hal::{Span, Time};
use doorbell_host_io::shared::{Window, memfd, reaper};
use doorbell_layout::ibmvnic::well_formed;
use doorbell_layout::{ibmveth, ibmvnic::hcall};
use doorbell_papr_io::{Adapter, CALL_AREA_BYTES, Handshake, MEMORY, VNIC, message};
use doorbell_vfio_user::{Listener, connect_now, readable, send_with_fds};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{ErrorKind, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Clients at a time beside the one that behaves.
const CLIENTS: usize = 4;
/// Turns in which a guest that behaves is answered.
const TURNS: u32 = 64;
/// Bytes of a client's memory.
const BYTES: u64 = 1 << 16;
/// The reason why a call of the system succeeds here.
const MADE: &str = "the system has memory and descriptors";

/// Counts of what the clients reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    /// Clients that connected.
    pub(crate) connected: u64,
    /// Clients that the server dropped.
    pub(crate) dropped: u64,
    /// Bytes of the server's messages.
    pub(crate) answers: u64,
    /// Plug-ins that were welcome.
    pub(crate) welcome: u64,
    /// Calls of these that were answered.
    pub(crate) calls: u64,
    /// Answers to the guest that behaves.
    pub(crate) honest: u64,
    /// Frames that arrived at the device.
    pub(crate) arrived: u64,
}

impl std::ops::AddAssign for Reached {
    fn add_assign(&mut self, o: Reached) {
        self.connected += o.connected;
        self.dropped += o.dropped;
        self.answers += o.answers;
        self.welcome += o.welcome;
        self.calls += o.calls;
        self.honest += o.honest;
        self.arrived += o.arrived;
    }
}

/// A client, and what it is if it is a plug-in.
struct Client {
    socket: UnixStream,
    shaking: Option<Handshake>,
    plugin: Option<Plugin>,
}

/// A plug-in that was welcome.
struct Plugin {
    adapter: Adapter,
    area: Window,
    waiting: bool,
}

impl Client {
    /// Carries out the plug-in's part of the handshake.
    fn shake(&mut self) -> bool {
        let Some(handshake) = self.shaking.take() else {
            self.shaking = Handshake::send(&self.socket).ok();
            return false;
        };
        let area = Window::map(&handshake.memory, 0, CALL_AREA_BYTES, true).expect(MADE);
        let finished = handshake.finish(&self.socket, well_formed).ok();
        self.plugin = finished.map(|adapter| Plugin { adapter, area, waiting: false });
        self.plugin.is_some()
    }

    /// Makes a call of a plug-in, or takes its answer. Returns true if there was one.
    fn call(&mut self, kind: u8, v: [u8; 4]) -> bool {
        let Some(p) = &mut self.plugin else { return false };
        if p.waiting {
            p.waiting = p.adapter.take_answer(0).is_none();
            return !p.waiting;
        }
        let calls = [
            hcall::REG_CRQ,
            hcall::FREE_CRQ,
            hcall::SEND_CRQ,
            hcall::REG_SUB_CRQ,
            hcall::SEND_SUB_CRQ_INDIRECT,
            ibmveth::H_REGISTER_LOGICAL_LAN,
            ibmveth::H_ADD_LOGICAL_LAN_BUFFER,
            ibmveth::H_SEND_LOGICAL_LAN,
            u64::from(kind),
        ];
        let (a, b) = (u64::from(v[0]) << 12, u64::from(v[1]) << 8 | u64::from(v[2]));
        let arguments = [p.adapter.unit.into(), a, b, v[3].into(), a, b, 0, 0, 0];
        p.waiting = p.adapter.begin_call(0, calls[usize::from(kind) % calls.len()], &arguments);
        false
    }
}

/// The server with everybody around it.
struct Around<T> {
    server: Server<T>,
    bill: SharedBill,
    path: PathBuf,
    clients: [Option<Client>; CLIENTS],
    control: UnixStream,
    wire: UnixStream,
    /// Clients pass copies of this end of a pipe; the other one tells whether any is open.
    lent: PipeWriter,
    watched: PipeReader,
    /// Clients are plug-ins.
    plugins: bool,
    reached: Reached,
}

/// Returns a message of vfio-user.
fn vfio(command: u16, flags: u32, body: &[u8]) -> Vec<u8> {
    let size = (16 + body.len()) as u32;
    let head = [&7_u16.to_le_bytes()[..], &command.to_le_bytes(), &size.to_le_bytes()].concat();
    [&head[..], &flags.to_le_bytes(), &[0; 4], body].concat()
}

/// Returns the version message of a client.
fn version() -> Vec<u8> {
    vfio(1, 0, b"\0\0\0\0{\"capabilities\":{}}\0")
}

/// Returns a message whose fields the bytes of an action choose.
fn request(kind: u8, v: [u8; 4]) -> Vec<u8> {
    let word = u32::from_le_bytes(v);
    let words = |all: &[u32]| all.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let region = [u32::from(v[0]) & !3 | u32::from(v[1]) << 8, 0, u32::from(v[2] % 10), 4];
    match kind % 12 {
        0 => version(),
        // Read and write, from 0 of the descriptor, at a small address.
        1 => vfio(2, 0, &words(&[32, 3, 0, 0, word & 0xff_f000, 0, BYTES as u32, 0])),
        2 => vfio(3, 0, &words(&[24, u32::from(v[0] & 3), word & 0xff_f000, 0, BYTES as u32, 0])),
        3 => vfio(4, 0, &words(&[16, 0, 0, 0])),
        4 => vfio(5, 0, &words(&[64, 0, u32::from(v[0] % 12), 0, 0, 0, 0, 0])),
        5 => vfio(7, 0, &words(&[16, 0, u32::from(v[0] % 8), 0])),
        6 => vfio(8, 0, &words(&[20, word & 0x3f, u32::from(v[1] % 6), v[2].into(), v[3].into()])),
        7 => vfio(9, 0, &words(&region)),
        8 => vfio(10, 0, &words(&[&region[..], &[word]].concat())),
        9 => vfio(13, 0, &[]),
        10 => vfio(u16::from(v[0]), u32::from(v[1]), &v[2..]),
        // Bus mastering.
        _ => vfio(10, 0, &[&words(&[4, 0, 7, 2])[..], &[0x07, v[0] & 4]].concat()),
    }
}

impl<T: Transport> Around<T> {
    /// Makes a server of a transport, with nobody around it yet.
    fn new(make: impl FnOnce(&SharedBill, &ServeContext) -> T, meter: Meter, dir: &Path) -> Self {
        let path = dir.join("socket");
        let pair = || {
            let (own, other) = UnixStream::pair().expect(MADE);
            own.set_nonblocking(true).expect(MADE);
            (own, other)
        };
        let ((control, commands), (wire, peer)) = (pair(), pair());
        let (watched, lent) = pipe().expect(MADE);
        let limits = ClientLimits {
            hello_timeout: 1,
            // Nobody here answers a DMA by message.
            reply_timeout: 0,
            newcomers: 2,
            metrics_clients: 1,
            metrics_timeout: 1,
        };
        let c = ServeContext {
            stop: Interrupt::ignored(),
            socket: Listener::bind(&path).expect(MADE),
            metrics: None,
            control: Some(Control::of(File::from(OwnedFd::from(commands)))),
            format: Format::Table,
            quiet: true,
            notices: RefCell::new(Notices::new(Outlet::new("notices", 1, Box::new(|_| Ok(()))))),
            reports: None,
            populate: false,
            limits,
            check_wire: false,
            sandbox: None,
        };
        let plugins = matches!(meter, Meter::Hypervisor);
        let bill = Rc::new(RefCell::new(Bill::new(meter, Uplink::of(peer), None, None)));
        let t = make(&bill, &c);
        let clock = Clock::Driven(Cell::new(Time::ZERO));
        let server = Server::new(t, 1_000_000_000, bill.clone(), c, clock);
        let (clients, reached) = ([const { None }; CLIENTS], Reached::default());
        Around { server, bill, path, clients, control, wire, lent, watched, plugins, reached }
    }

    /// Gives everybody a turn. Without a descriptor to read, time passes as the server waits.
    fn turn(&mut self) {
        let wait =
            |clock: &Clock, fds: &[BorrowedFd<'_>], longest: Duration, ready: &mut Vec<bool>| {
                readable(fds, Some(Duration::ZERO), ready)?;
                if !ready.contains(&true) {
                    pass(clock, Span::from_ns(longest.as_nanos() as u64));
                }
                Ok(())
            };
        // The time of other threads is no part of the input.
        while reaper::waiting() > 64 || !reaper::may_accept() {
            std::thread::yield_now();
        }
        assert!(self.server.turn(wait).is_ok(), "a turn ends the server");
    }

    /// Reads what the server has sent to a client. A client that it dropped is gone.
    fn read(&mut self, i: usize) {
        let Some(client) = &mut self.clients[i] else { return };
        let mut bytes = [0; 4096];
        match client.socket.read(&mut bytes) {
            Ok(0) => {
                self.reached.dropped += 1;
                self.clients[i] = None;
            }
            Ok(n) => self.reached.answers += n as u64,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {}
            Err(_) => {
                self.reached.dropped += 1;
                self.clients[i] = None;
            }
        }
    }

    /// Sends bytes, with so many copies of descriptors. What the server does not take is lost.
    fn send(&mut self, i: usize, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        if let Some(client) = &self.clients[i] {
            let _ = send_with_fds(&client.socket, bytes, fds);
        }
    }

    fn connect(&mut self) -> Option<Client> {
        let socket = connect_now(&self.path).ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Client { socket, shaking: None, plugin: None })
    }

    fn act(&mut self, action: [u8; 8]) {
        let [what, who, kind, n, v @ ..] = action;
        let i = usize::from(who) % CLIENTS;
        match what % 16 {
            0 => {
                if self.clients[i].is_none() {
                    self.clients[i] = self.connect();
                    self.reached.connected += u64::from(self.clients[i].is_some());
                }
                // It introduces itself at once.
                match &mut self.clients[i] {
                    Some(client) if kind & 1 != 0 && self.plugins => _ = client.shake(),
                    Some(_) if kind & 1 != 0 => self.send(i, &version(), &[]),
                    _ => {}
                }
            }
            1 => self.clients[i] = None,
            2 => self.send(i, &v[..usize::from(n % 4) + 1], &[]),
            3 | 4 => {
                let mut m = request(kind, v);
                if what % 16 == 4 {
                    // The rest never comes, or is another message.
                    m.truncate(usize::from(n) % m.len());
                }
                // A map has memory.
                let memory = (kind % 12 == 1).then(|| memfd(c"memory", BYTES).expect(MADE));
                let fds: Vec<_> = memory.iter().map(AsFd::as_fd).collect();
                if !m.is_empty() {
                    self.send(i, &m, &fds);
                }
            }
            5 => {
                let lent = self.lent.try_clone().expect(MADE);
                let fds = vec![lent.as_fd(); usize::from(n % 24)];
                self.send(i, &request(kind, v), &fds);
            }
            6 => {
                if let Some(client) = self.clients[i].as_mut().filter(|c| c.plugin.is_none()) {
                    self.reached.welcome += u64::from(client.shake());
                }
            }
            7 => {
                let memory = memfd(c"memory", BYTES).expect(MADE);
                self.send(i, &message(MEMORY, BYTES << (kind % 32)), &[memory.as_fd()]);
            }
            8 | 9 => {
                if let Some(client) = &mut self.clients[i] {
                    self.reached.calls += u64::from(client.call(kind, v));
                }
            }
            10 => {
                // Anything in its call area.
                let at = usize::from(u16::from_le_bytes([kind, n])) * 8 % CALL_AREA_BYTES;
                if let Some(p) = self.clients[i].as_ref().and_then(|c| c.plugin.as_ref()) {
                    p.area.write(at, &v);
                }
            }
            11 => {
                let far = if who & 1 == 0 { 1 } else { 1000 };
                let us = u64::from(u16::from_le_bytes([kind, n]));
                pass(&self.server.clock, Span::from_us(us * far));
            }
            12 => {
                let lines: [&[u8]; 4] =
                    [b"failover\n", b"link down\nlink up\n", b"error 1\nmigrate", &v];
                let _ = self.control.write(lines[usize::from(kind) % 4]);
            }
            13 => {
                // A frame with its length, or some bytes of one.
                let len = u32::from(n) + 14;
                let frame = [&len.to_be_bytes()[..], &v.repeat(80)].concat();
                let all = if kind & 1 == 0 { 4 + len as usize } else { usize::from(n) + 1 };
                let _ = self.wire.write(&frame[..all]);
            }
            14 => self.read(i),
            _ => (0..n % 8).for_each(|_| self.turn()),
        }
        self.turn();
        // The peer takes what is sent.
        let _ = self.wire.read(&mut [0; 4096]);
    }

    /// Ends the server. Checks that it has closed all descriptors that it got.
    fn close(self) -> Reached {
        let Around { mut server, bill, clients, lent, watched, mut reached, .. } = self;
        server.t.close(&server.clock);
        reached.arrived = bill.borrow().arrived.0;
        drop((server, clients, lent));
        // They are closed by threads, which on a busy machine may have to wait long for a core.
        let mut ended = Vec::new();
        readable(&[watched.as_fd()], Some(Duration::from_secs(100)), &mut ended).expect(MADE);
        assert_eq!(ended, [true], "a descriptor is still open");
        reached
    }
}

/// Passes time.
fn pass(clock: &Clock, span: Span) {
    let Clock::Driven(now) = clock else { unreachable!("nobody else drives it") };
    now.set(now.get() + span);
}

/// Runs `clients` of a transport, and checks by `answers` in between that one which behaves is
/// served.
fn run<T: Transport>(
    make: impl FnOnce(&SharedBill, &ServeContext) -> T,
    meter: Meter,
    input: &[u8],
    mut answers: impl FnMut(&mut Around<T>) -> u64,
) -> Reached {
    let dir = tempfile::tempdir().expect(MADE);
    let mut around = Around::new(make, meter, dir.path());
    // The server rests again before the others act.
    let mut answers = |around: &mut Around<T>| {
        let answered = answers(around);
        around.turn();
        answered
    };
    around.reached.honest += answers(&mut around);
    for (n, action) in input.as_chunks().0.iter().enumerate() {
        around.act(*action);
        if n % 16 == 15 {
            around.reached.honest += answers(&mut around);
        }
    }
    around.clients = [const { None }; CLIENTS];
    let honest = answers(&mut around);
    assert!(honest > 0, "the others have gone, and nobody is served");
    around.reached.honest += honest;
    around.close()
}

/// Connects a client that behaves to a device with one client, if it is free, and has it answered.
fn vfio_client<T: Transport>(around: &mut Around<T>) -> u64 {
    if around.clients.iter().any(Option::is_some) {
        return 0;
    }
    let mut client = around.connect().expect("there is room");
    client.socket.write_all(&version()).expect("a new socket has room");
    for _ in 0..TURNS {
        around.turn();
        if client.socket.read(&mut [0; 256]).is_ok_and(|n| n > 16) {
            drop(client);
            (0..4).for_each(|_| around.turn());
            return 1;
        }
    }
    panic!("a client that behaves is not served");
}

fn vfio_device(input: &[u8], mlx5: bool) -> Reached {
    let card = Card {
        name: "card",
        bus: "a bus",
        bits_per_second: 1_000_000_000,
        mac: None,
        trap_doorbells: false,
        fail_every: 0,
    };
    let meter = Platform::find(if mlx5 { "pcie3x16" } else { "pci32" }).expect("it is there");
    let meter = meter.rules();
    if mlx5 {
        let make = |bill: &SharedBill, c: &ServeContext| {
            Vfio::new(card, mlx5_function(card, bill).expect(MADE), bill, c)
        };
        run(make, meter, input, vfio_client)
    } else {
        let make = |bill: &SharedBill, c: &ServeContext| {
            Vfio::new(card, e1000_function(Config::I82545EM, card, bill).expect(MADE), bill, c)
        };
        run(make, meter, input, vfio_client)
    }
}

/// Connects a plug-in, gives turns by `turn`, and expects it to be welcome.
fn welcome<T: Transport>(around: &mut Around<T>, mut turn: impl FnMut(&mut Around<T>)) -> Client {
    let mut client = around.connect().expect("there is room");
    client.shake();
    let mut answered = Vec::new();
    for _ in 0..TURNS {
        turn(around);
        readable(&[client.socket.as_fd()], Some(Duration::ZERO), &mut answered).expect(MADE);
        if answered[0] {
            break;
        }
    }
    assert!(client.shake(), "a guest that behaves is not welcome");
    client
}

/// Returns the check of a guest that behaves: it connects before anybody else, and makes calls,
/// each of which is answered.
fn guest<T: Transport>() -> impl FnMut(&mut Around<T>) -> u64 {
    let mut own: Option<Client> = None;
    move |around| {
        let client = own.get_or_insert_with(|| welcome(around, Around::turn));
        let p = client.plugin.as_mut().expect("it was welcome");
        let call =
            if p.adapter.kind == VNIC { hcall::FREE_CRQ } else { ibmveth::H_FREE_LOGICAL_LAN };
        assert!(p.adapter.begin_call(1, call, &[p.adapter.unit.into(), 0, 0, 0, 0, 0, 0, 0, 0]));
        for _ in 0..TURNS {
            around.turn();
            if p.adapter.take_answer(1).is_some() {
                return 1;
            }
        }
        panic!("a guest that behaves is not answered");
    }
}

/// Runs clients of a device of [`KINDS`].
fn hcall_device<D: Backend>(
    kind: usize,
    device: fn(u32, &Setup) -> D,
    input: &[u8],
    answers: impl FnMut(&mut Around<Hcalls<D>>) -> u64,
) -> Reached {
    // The others have two places.
    let setup = Setup { partitions: 3, ..Setup::default() };
    let adapter = KINDS[kind].adapter;
    let make = |bill: &SharedBill, c: &ServeContext| {
        Hcalls::new(adapter, device(adapter.unit.address, &setup), setup.partitions, bill, c)
    };
    run(make, Meter::Hypervisor, input, answers)
}

/// Runs clients as `bytes` say. Returns what they reached.
///
/// # Panics
/// Panics if the server lets itself or a guest be harmed.
pub(crate) fn attack(bytes: &[u8]) -> Reached {
    let Some((device, input)) = bytes.split_first() else { return Reached::default() };
    match device % 4 {
        0 => vfio_device(input, false),
        1 => vfio_device(input, true),
        2 => hcall_device(0, vnic_device, input, guest()),
        _ => hcall_device(1, lan_device, input, guest()),
    }
}

#[cfg(test)]
mod charge;
#[cfg(test)]
mod pci;
#[cfg(test)]
mod tests;
