//! Any client of the served 8254x: messages whole and broken, with and without descriptors, a
//! driver that knows the rules, memory with a descriptor and memory by message, guest memory,
//! frames, time. The server does not panic, keeps nothing of a client that has gone, and does no
//! DMA once it has.

use crate::fuzz::e1000_guest::{Act, Driver, HOLD, Machine, STATION, known};
use crate::fuzz::{Bytes, Frame, Seed, input, next, seed};
use arbitrary::{Arbitrary, Unstructured};
use doorbell_devices::e1000::{Config, E1000};
use doorbell_hal::{EventSource, Port, Span, Time};
use doorbell_host_io::shared::{EventFd, Window, memfd};
use doorbell_layout::e1000::reg;
use doorbell_vfio_user::{
    Bar, BarOffset, Capability, Crossing, Function, Identity, Limits, Observer, PolledPages,
    receive_with_fds, send_with_fds,
};
use std::fs::File;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of guest memory.
const MEMORY: usize = 1 << 16;

/// Commands of the protocol.
const VERSION: u16 = 1;
const DMA_MAP: u16 = 2;
const DMA_UNMAP: u16 = 3;
const REGION_INFO: u16 = 5;
const SET_IRQS: u16 = 8;
const REGION_READ: u16 = 9;
const REGION_WRITE: u16 = 10;
const DMA_READ: u16 = 11;
const DMA_WRITE: u16 = 12;
const WRITE_MULTI: u16 = 15;
/// Flags of a message: a reply, none wanted, an error.
const REPLY: u32 = 1;
const NO_REPLY: u32 = 0x10;
const ERROR: u32 = 0x20;
/// The region of the configuration space.
const CONFIG: u32 = 7;

/// Crossings that were seen in an attack, and the client's answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reached {
    /// DMA reads that succeeded.
    pub reads: u64,
    /// DMA writes that succeeded.
    pub writes: u64,
    /// Accesses that failed.
    pub faults: u64,
    /// Frames that the device sent.
    pub frames: u64,
    /// Times that the line rose.
    pub lines: u64,
    /// Message-signalled interrupts.
    pub messages: u64,
    /// Signals that the client got.
    pub signals: u64,
    /// Register writes in polled pages.
    pub polled: u64,
    /// DMA requests by message that the client saw,
    pub remote: u64,
    /// and requests that it made before it answered one.
    pub nested: u64,
    /// Clients that the server gave up.
    pub dropped: u64,
}

/// Watches over the end: no DMA when nobody is there.
#[derive(Debug, Default)]
struct Guard {
    alone: bool,
    seen: Reached,
}

impl Observer for Guard {
    fn crossed(&mut self, _: Time, what: Crossing<'_>) {
        let seen = &mut self.seen;
        match what {
            Crossing::DmaRead(..) | Crossing::DmaWrite(..) => {
                assert!(!self.alone, "DMA without a client");
                let read = matches!(what, Crossing::DmaRead(..));
                *(if read { &mut seen.reads } else { &mut seen.writes }) += 1;
            }
            Crossing::Frame(frame) => {
                assert!(!frame.is_empty());
                seen.frames += 1;
            }
            Crossing::Fault(_) => seen.faults += 1,
            Crossing::Line(high) => seen.lines += u64::from(high),
            Crossing::Message(_) => seen.messages += 1,
            Crossing::RegisterWrite(.., false) => seen.polled += 1,
            _ => {}
        }
    }
}

input! {
    /// An action of the client, its guest or the world.
    pub enum Action {
        /// Maps memory: in 256 bytes, 16 bytes, pages.
        Map {
            /// Address.
            address: u16,
            /// Size.
            size: u16,
            /// Access.
            flags: u8,
            /// Offset in the file.
            offset: u8,
            /// Without a descriptor, if the client answers.
            remote: bool,
        },
        /// Unmaps memory.
        Unmap {
            /// Flags.
            flags: u8,
            /// Address.
            address: u16,
            /// Size.
            size: u16,
        },
        /// The guest's driver acts.
        Driver {
            /// The act.
            act: Act,
        },
        /// Writes a register of the device.
        Register {
            /// The register's number.
            register: u16,
            /// Its value.
            value: u32,
            /// Without a reply.
            quiet: bool,
        },
        /// Reads a region.
        Read {
            /// The region.
            region: u8,
            /// The offset.
            offset: u16,
            /// Bytes.
            count: u16,
        },
        /// Writes a region.
        Write {
            /// The region.
            region: u8,
            /// The offset.
            offset: u16,
            /// The bytes.
            data: Bytes,
        },
        /// Writes several registers, one behind the other.
        Multi {
            /// Writes, and those that the message counts besides: 4 bits each.
            n: u8,
            /// The region.
            region: u8,
            /// The offset.
            offset: u16,
            /// Bytes of each.
            width: u8,
            /// The value.
            value: u64,
        },
        /// Connects interrupts, masks, unmasks, triggers.
        Irqs {
            /// The kind of data and the action.
            flags: u8,
            /// The kind of interrupt.
            index: u8,
            /// The first.
            start: u8,
            /// Their number.
            count: u8,
            /// Eventfds with it.
            fds: u8,
            /// Data.
            data: Bytes,
        },
        /// Sends any message.
        Message {
            /// The command.
            command: u8,
            /// Flags.
            flags: u8,
            /// The body.
            body: Bytes,
        },
        /// Sends any bytes.
        Raw {
            /// The bytes.
            bytes: Bytes,
        },
        /// Writes guest memory.
        Poke {
            /// The place.
            at: u16,
            /// The bytes.
            bytes: Bytes,
        },
        /// A frame arrives.
        Receive {
            /// The frame.
            frame: Frame,
        },
        /// Time passes.
        Wait {
            /// Nanoseconds.
            ns: u32,
        },
        /// Writes a word of the polled pages.
        Page {
            /// The word.
            word: u16,
            /// The value.
            value: u64,
        },
        /// The device sends a message-signalled interrupt.
        Msi {
            /// The vector.
            vector: u8,
        },
        /// Signals all eventfds: unmasks the line, if one of them does that.
        Signal { },
        /// Goes, and comes back.
        Connect {
            /// Does not introduce itself.
            forgets: bool,
            /// Bytes of data in a message, if not 0.
            limit: u32,
        },
    }
}

/// Bits of the second byte: the client does not introduce itself at first; nothing is set up.
const FORGETS: u8 = 1;
const BARE: u8 = 2;
/// It answers DMA by message; all memory is so at first, or the upper half.
const ANSWERS: u8 = 4;
const ALL_REMOTE: u8 = 8;
const HALF_REMOTE: u8 = 16;
/// Memory is allocated when it is mapped.
const POPULATED: u8 = 32;
/// The server waits for an answer for 10 ms, and the client may send the beginning of a message,
/// behind which its answers are no answers.
const IMPATIENT: u8 = 64;

struct Harness {
    f: Function<E1000, Guard>,
    client: Option<UnixStream>,
    /// The client's other thread, and the answers that it has left.
    answering: Option<JoinHandle<Answering>>,
    answers: Option<Vec<u8>>,
    file: File,
    memory: Window,
    /// Polled pages that the server has passed.
    pages: Option<Window>,
    eventfds: Vec<EventFd>,
    now: Time,
    impatient: bool,
    seen: Reached,
}

/// Replies to the server's requests for memory.
#[derive(Debug)]
struct Answering {
    socket: UnixStream,
    memory: Window,
    /// The kinds of answers in reverse order. After the last all are right.
    answers: Vec<u8>,
    remote: u64,
    nested: u64,
}

impl Answering {
    /// Answers until the connection ends.
    fn run(mut self) -> Answering {
        let mut head = [0; 16];
        while self.socket.read_exact(&mut head).is_ok() {
            let u16_at = |i: usize| u16::from_ne_bytes([head[i], head[i + 1]]);
            let u32_at = |i: usize| u32::from_ne_bytes(head[i..i + 4].try_into().expect("4 bytes"));
            let mut body = vec![0; u32_at(4) as usize - 16];
            if self.socket.read_exact(&mut body).is_err() {
                break;
            }
            if u32_at(8) & 15 == 0 {
                self.answer(u16_at(0), u16_at(2), &body);
            }
        }
        self
    }

    fn answer(&mut self, id: u16, command: u16, body: &[u8]) {
        self.remote += 1;
        let word = |i: usize| u64::from_ne_bytes(body[i..i + 8].try_into().expect("8 bytes"));
        let (at, count) = (word(0) as usize, word(8) as usize);
        let inside = at.checked_add(count).is_some_and(|end| end <= MEMORY);
        let mut reply = body[..16].to_vec();
        match command {
            DMA_READ if inside => {
                reply.resize(16 + count, 0);
                self.memory.read(at, &mut reply[16..]);
            }
            DMA_WRITE if inside => {
                self.memory.write(at, &body[16..]);
            }
            _ => {}
        }
        let flags = if inside { REPLY } else { REPLY | ERROR };
        let answer = self.answers.pop().unwrap_or(0);
        match answer % 16 {
            9 => reply.truncate(usize::from(answer >> 4)),
            10 => return self.send(id, command, REPLY | ERROR, &reply),
            11 => return self.send(id.wrapping_add(1), command, flags, &reply),
            12 => return self.send(id, command ^ 1, flags, &reply),
            // Requests of its own come before the answer: among them doorbells.
            13 | 14 => {
                for i in 0..=answer >> 4 {
                    self.nested += 1;
                    let offset = u64::from(if i & 1 == 0 { reg::TDT } else { reg::ICR });
                    let count = 4u32.to_ne_bytes();
                    let parts = [&offset.to_ne_bytes()[..], &[0; 4], &count, &[i, 0, 0, 0]];
                    let command = if answer % 16 == 13 { REGION_WRITE } else { REGION_READ };
                    self.send(100, command, 0, &parts.concat());
                }
            }
            15 => {
                let _ = self.socket.shutdown(Shutdown::Both);
                return;
            }
            _ => {}
        }
        self.send(id, command, flags, &reply);
    }

    /// A server that has gone hears nothing.
    fn send(&mut self, id: u16, command: u16, flags: u32, body: &[u8]) {
        let _ = self.socket.write_all(&message(id, command, flags, body));
    }
}

/// Returns the bytes of a message.
fn message(id: u16, command: u16, flags: u32, body: &[u8]) -> Vec<u8> {
    let (ids, size) = ([id, command].map(u16::to_ne_bytes), 16 + body.len() as u32);
    let words = [size, flags, 0].map(u32::to_ne_bytes);
    [ids.as_flattened(), words.as_flattened(), body].concat()
}

/// The offset of the polled pages in their region.
const PAGES: u32 = 0x8000;

/// A function with everything that a server knows how to do.
fn identity() -> Identity {
    let at = |offset| BarOffset { bar: 4, offset };
    Identity {
        vendor: 0x8086,
        device: 0x100e,
        subsystem: (0x8086, 0),
        revision: 0,
        class: 0x02_0000,
        bars: [
            Bar::Memory(128 << 10),
            Bar::None,
            Bar::Io(64),
            Bar::None,
            Bar::Memory64(1 << 16),
            Bar::None,
        ],
        line: true,
        capabilities: vec![
            Capability::Power { resets: true },
            Capability::Express { speed: 1, width: 1 },
            Capability::Msi(2),
            Capability::MsiX { vectors: 8, table: at(0), pending: at(0x1000) },
        ],
        polled: Some(PolledPages { first: at(PAGES), pages: 2, words: &[0, 0x800] }),
    }
}

impl Harness {
    /// Connects a client that introduces itself, unless it `forgets` to.
    fn connect(&mut self, forgets: bool, limit: u32) {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        self.f.connect(self.now, theirs).expect("a client");
        self.f.observer().alone = false;
        if let Some(answers) = self.answers.take() {
            let answering = Answering {
                socket: ours.try_clone().expect("a socket"),
                memory: Window::map(&self.file, 0, MEMORY, true).expect("memory"),
                answers,
                remote: 0,
                nested: 0,
            };
            self.answering = Some(std::thread::spawn(|| answering.run()));
        } else {
            ours.set_nonblocking(true).expect("a socket");
        }
        self.client = Some(ours);
        if !forgets {
            let json = format!("{{\"capabilities\":{{\"max_data_xfer_size\":{limit}}}}}\0");
            let json = if limit > 0 { json.as_bytes() } else { &[] };
            self.message(VERSION, 0, &[&[0, 0, 1, 0], json], &[]);
        }
    }

    /// Ends the connection from the client's side.
    fn leave(&mut self) {
        if let Some(c) = self.client.take() {
            let _ = c.shutdown(Shutdown::Both);
        }
        self.serve();
        self.gone();
    }

    /// Takes what the client's other thread has seen.
    fn gone(&mut self) {
        self.pages = None;
        if let Some(thread) = self.answering.take() {
            let a = thread.join().expect("a client");
            self.seen.remote += a.remote;
            self.seen.nested += a.nested;
            self.answers = Some(a.answers);
        }
    }

    /// Sends a message, lets the server handle it, and takes its replies.
    fn message(&mut self, command: u16, flags: u32, body: &[&[u8]], fds: &[BorrowedFd<'_>]) {
        if let Some(c) = &self.client {
            // A full socket is the client's loss.
            let _ = send_with_fds(c, &message(7, command, flags, &body.concat()), fds);
        }
        self.serve();
    }

    fn map(&mut self, flags: u32, [offset, address, size]: [u64; 3], remote: bool) {
        let words = [32, flags].map(u32::to_ne_bytes);
        let long = [offset, address, size].map(u64::to_ne_bytes);
        let file = self.file.try_clone().expect("a descriptor");
        // Nobody answers a DMA by message without the other thread.
        let fds = [file.as_fd()];
        let fds = if remote && self.answering.is_some() { &[] } else { &fds[..] };
        self.message(DMA_MAP, 0, &[words.as_flattened(), long.as_flattened()], fds);
    }

    fn region(&mut self, command: u16, flags: u32, region: u32, offset: u64, data: &[u8], n: u32) {
        let words = [region, n].map(u32::to_ne_bytes);
        self.message(command, flags, &[&offset.to_ne_bytes(), words.as_flattened(), data], &[]);
    }

    fn region_write(&mut self, flags: u32, region: u32, offset: u64, data: &[u8]) {
        self.region(REGION_WRITE, flags, region, offset, data, data.len() as u32);
    }

    fn serve(&mut self) {
        let now = self.now;
        if self.f.connected() {
            if self.f.serve(|| now).is_err() {
                assert!(!self.f.connected() && self.f.port().maps() == 0, "nothing is left");
                self.f.observer().alone = true;
                self.seen.dropped += 1;
                self.client = None;
                self.gone();
            }
            self.f.poll_pages(now);
        }
        if self.answering.is_some() {
            return;
        }
        let mut away = [0; 4096];
        let mut fds = Vec::new();
        while let Some(c) = &self.client
            && receive_with_fds(c, &mut away, &mut fds).is_ok_and(|n| n > 0)
        {}
        if let Some(file) = fds.pop().and_then(|fd| fd.memory().ok()) {
            self.pages = Window::map(&file, PAGES.into(), 2 * 4096, true).ok();
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Map { address, size, flags, offset, remote } => {
                let place =
                    [u64::from(offset) << 12, u64::from(address) << 8, u64::from(size) << 4];
                self.map((flags & 7).into(), place, remote);
            }
            Action::Unmap { flags, address, size } => {
                let long = [u64::from(address) << 8, u64::from(size) << 4].map(u64::to_ne_bytes);
                let words = [24, u32::from(flags & 3)].map(u32::to_ne_bytes);
                self.message(DMA_UNMAP, 0, &[words.as_flattened(), long.as_flattened()], &[]);
            }
            Action::Driver { .. } => {}
            Action::Register { register, value, quiet } => {
                let flags = if quiet { NO_REPLY } else { 0 };
                let offset = u64::from(register & 0x7fff) * 4;
                self.region_write(flags, 0, offset, &value.to_ne_bytes());
            }
            Action::Read { region, offset, count } => {
                let (region, n) = (u32::from(region % 10), u32::from(count & 0x1fff));
                self.region(REGION_READ, 0, region, offset.into(), &[], n);
            }
            Action::Write { region, offset, data } => {
                self.region_write(0, (region % 10).into(), offset.into(), &data.0);
            }
            Action::Multi { n, region, offset, width, value } => {
                let writes = u64::from(n & 15);
                let one = |i: u64| {
                    let words = [u32::from(region % 10), u32::from(width)].map(u32::to_ne_bytes);
                    let offset = u64::from(offset) + i * u64::from(width);
                    [&offset.to_ne_bytes(), words.as_flattened(), &value.to_ne_bytes()].concat()
                };
                let all: Vec<u8> = (0..writes).flat_map(one).collect();
                let count = (writes + u64::from(n >> 4)).to_ne_bytes();
                self.message(WRITE_MULTI, 0, &[&count, &all], &[]);
            }
            Action::Irqs { flags, index, start, count, fds, data } => {
                let new = |_| EventFd::new().expect("an eventfd");
                let fds: Vec<EventFd> = (0..fds % 18).map(new).collect();
                let all = [20, flags.into(), (index % 6).into(), start.into(), count.into()];
                let all = all.map(u32::to_ne_bytes);
                let borrowed: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                self.message(SET_IRQS, 0, &[all.as_flattened(), &data.0], &borrowed);
                self.eventfds.extend(fds);
                // Old ones are closed.
                let old = self.eventfds.len().saturating_sub(64);
                let signals = self.eventfds.drain(..old).map(|fd| fd.take()).sum::<u64>();
                self.seen.signals += signals;
            }
            Action::Message { command, flags, body } => {
                let command = u16::from(command % 20);
                // A map without memory needs somebody who answers.
                if command != DMA_MAP || self.answering.is_some() {
                    self.message(command, u32::from(flags) & 0x30, &[&body.0], &[]);
                }
            }
            Action::Raw { bytes } => {
                let whole = self.answering.is_none() || self.impatient;
                if let Some(c) = self.client.as_mut().filter(|_| whole) {
                    let _ = c.write_all(&bytes.0);
                }
                self.serve();
            }
            Action::Poke { at, bytes } => {
                let at = usize::from(at).min(MEMORY - bytes.0.len());
                self.memory.write(at, &bytes.0);
            }
            Action::Receive { frame } => {
                self.f.receive(self.now, &frame.bytes(STATION, 16 << 10));
            }
            Action::Wait { ns } => {
                self.now += Span::from_ns(u64::from(ns) % 10_000_000);
                self.f.advance(self.now);
            }
            Action::Page { word, value } => {
                if let Some(pages) = &self.pages {
                    pages.write(usize::from(word) % 1024 * 8, &value.to_ne_bytes());
                }
                self.serve();
            }
            Action::Msi { vector } => {
                let at = self.now;
                self.f.with_device(|_, port| port.raise_msi(at, u16::from(vector) % 16));
            }
            Action::Signal {} => {
                for fd in &self.eventfds {
                    self.seen.signals += fd.take();
                    fd.signal();
                }
                self.serve();
                self.eventfds.iter().for_each(|fd| {
                    fd.take();
                });
            }
            Action::Connect { forgets, limit } => {
                self.leave();
                self.connect(forgets, limit);
            }
        }
    }
}

impl Machine for Harness {
    fn write(&mut self, register: u32, v: u32) {
        self.region_write(0, 0, register.into(), &v.to_ne_bytes());
    }
    fn read(&mut self, register: u32) {
        self.region(REGION_READ, 0, 0, register.into(), &[], 4);
    }
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let at = at.min(MEMORY);
        self.memory.write(at, &bytes[..bytes.len().min(MEMORY - at)]);
    }
}

/// Attacks a server as `input` says. Returns what was reached.
///
/// # Panics
/// Panics if it lets itself be harmed.
pub fn attack(input: &[u8]) -> Reached {
    let mut u = Unstructured::new(input);
    let mut head = || u.arbitrary::<u8>().unwrap_or(0);
    let (card, how) = (head(), head());
    let answers = Bytes::arbitrary(&mut u).unwrap_or_default().0;
    let cfg = [Config::I82540EM, Config::I82544GC, Config::I82545EM][usize::from(card % 3)];
    let guard = Guard { alone: true, ..Guard::default() };
    let impatient = how & IMPATIENT != 0;
    let reply = if impatient { Duration::from_millis(10) } else { Duration::from_secs(60) };
    let limits = Limits { hello: Duration::from_secs(60), reply };
    let mut f =
        Function::new(identity(), E1000::new(cfg), guard).expect("a function").with_limits(limits);
    if how & POPULATED != 0 {
        f = f.with_populated_memory();
    }
    let file = memfd(c"guest", MEMORY as u64).expect("memory");
    let memory = Window::map(&file, 0, MEMORY, true).expect("memory");
    let mut b = Harness {
        f,
        client: None,
        answering: None,
        answers: (how & ANSWERS != 0).then(|| answers.into_iter().rev().collect()),
        file,
        memory,
        pages: None,
        eventfds: Vec::new(),
        now: Time::ZERO,
        impatient,
        seen: Reached::default(),
    };
    b.connect(how & FORGETS != 0, 0);
    if how & BARE == 0 {
        let half = MEMORY as u64 / 2;
        b.map(3, [0, 0, half], how & ALL_REMOTE != 0);
        b.map(3, [half, half, half], how & (ALL_REMOTE | HALF_REMOTE) != 0);
        // Memory, I/O and bus mastering.
        b.region_write(0, CONFIG, 4, &[7, 0]);
    }
    let mut driver = Driver::new();
    while let Some(action) = next(&mut u) {
        match action {
            Action::Driver { act } => driver.act(&mut b, &act),
            action => b.act(action),
        }
    }
    b.leave();
    b.f.disconnect(b.now);
    b.f.observer().alone = true;
    assert_eq!(b.f.port().maps(), 0);
    let signals = b.seen.signals + b.eventfds.iter().map(EventFd::take).sum::<u64>();
    let Reached { remote, nested, dropped, .. } = b.seen;
    for _ in 0..1000 {
        let Some(due) = b.f.next_due() else {
            let seen = b.f.observer().seen;
            return Reached { signals, remote, nested, dropped, ..seen };
        };
        b.now = b.now.max(due);
        b.f.advance(b.now);
    }
    panic!("a device that was reset goes on");
}

/// Returns a client whose guest gets somewhere, and its ways to memory and interrupts.
pub fn seeds() -> Vec<Seed> {
    let make = |how: u8, answers: &[u8], actions: &[Action]| {
        seed(&[&[0, how, answers.len() as u8], answers].concat(), actions)
    };
    let act = |act| Action::Driver { act };
    let up = act(Act::Up { ctrl: 0, rctl: 0, tctl: 0, mask: !0, size: 15 });
    let post = act(Act::Post { n: 8 });
    let send = |how| act(Act::Send { frame: Frame::new(0, 300), how, command: 0 });
    let large = act(Act::SendLarge {
        frame: Frame::new(0, 4000),
        how: 4,
        command: 0,
        mss: 1000,
        at: 0,
        bits: 0,
    });
    let receive = Action::Receive { frame: Frame::new(0, 900) };
    let wait = Action::Wait { ns: 1_000_000 };
    let look = act(Act::Look { index: known(reg::ICR), n: 1 });
    let traffic = [up, post, send(0), large, receive, wait.clone(), look, send(4), wait.clone()];
    let irqs = |flags, index, start, count, fds| Action::Irqs {
        flags,
        index,
        start,
        count,
        fds,
        data: Bytes(vec![1; 4]),
    };
    // Data: none, bools, eventfds; then the actions.
    let (none, bools, fds, mask, unmask, trigger) = (1, 2, 4, 8, 16, 32);
    let with = |before: &[Action], after: &[Action]| [before, &traffic, after].concat();
    vec![
        ("mapped", make(0, &[], &traffic)),
        ("populated", make(POPULATED, &[], &traffic)),
        ("remote", make(ANSWERS | ALL_REMOTE, &[], &traffic)),
        ("half_remote", make(ANSWERS | HALF_REMOTE, &[], &traffic)),
        ("small_messages", {
            let again = [
                Action::Connect { forgets: false, limit: 4096 },
                Action::Map { address: 0, size: 0x1000, flags: 3, offset: 0, remote: true },
                Action::Write { region: 7, offset: 4, data: Bytes(vec![7, 0]) },
            ];
            make(ANSWERS | BARE, &[], &with(&again, &[]))
        }),
        (
            "requests_before_answers",
            make(ANSWERS | ALL_REMOTE, &[0, 0x2d, 0, 0x1e, 0x0d], &traffic),
        ),
        ("refused_dma", make(ANSWERS | ALL_REMOTE, &[0, 10], &traffic)),
        ("short_answer", make(ANSWERS | ALL_REMOTE, &[0, 0x59], &traffic)),
        ("wrong_answer", make(ANSWERS | ALL_REMOTE, &[0, 11], &traffic)),
        (
            "half_a_message_before_answers",
            make(
                ANSWERS | ALL_REMOTE | IMPATIENT,
                &[],
                &[&[Action::Raw { bytes: Bytes([7, 0, 9, 0, 0, 1, 0, 0].to_vec()) }], &traffic[..]]
                    .concat(),
            ),
        ),
        ("gone_in_dma", make(ANSWERS | ALL_REMOTE, &[0, 0, 15], &traffic)),
        (
            "line",
            make(
                0,
                &[],
                &with(
                    &[irqs(fds | trigger, 0, 0, 1, 1), irqs(fds | unmask, 0, 0, 1, 1)],
                    &[
                        Action::Signal {},
                        irqs(none | mask, 0, 0, 1, 0),
                        irqs(none | unmask, 0, 0, 1, 0),
                        irqs(none | trigger, 0, 0, 0, 0),
                    ],
                ),
            ),
        ),
        (
            "messages",
            make(
                0,
                &[],
                &[
                    irqs(fds | trigger, 2, 0, 4, 4),
                    Action::Msi { vector: 0 },
                    irqs(bools | mask, 2, 1, 2, 0),
                    Action::Msi { vector: 1 },
                    Action::Msi { vector: 9 },
                    irqs(bools | unmask, 2, 1, 2, 0),
                    irqs(none | trigger, 2, 0, 2, 0),
                    irqs(none | trigger, 2, 0, 0, 0),
                    irqs(fds | trigger, 1, 0, 2, 2),
                    Action::Msi { vector: 1 },
                ],
            ),
        ),
        (
            "registers",
            make(
                0,
                &[],
                &[
                    // The region of the polled pages, with room for its capability.
                    Action::Message {
                        command: REGION_INFO as u8,
                        flags: 0,
                        body: Bytes(
                            [[64, 0, 0, 0], [0; 4], [4, 0, 0, 0]]
                                .concat()
                                .into_iter()
                                .chain([0; 20])
                                .collect(),
                        ),
                    },
                    Action::Page { word: 0x100, value: 77 },
                    Action::Multi { n: 3, region: 0, offset: 0x5200, width: 4, value: 5 },
                    Action::Read { region: 7, offset: 0, count: 256 },
                    Action::Read { region: 0, offset: 0, count: 64 },
                    // To D3hot and back, a function-level reset, the end of a map.
                    Action::Write { region: 7, offset: 0x44, data: Bytes(vec![3]) },
                    Action::Write { region: 7, offset: 0x44, data: Bytes(vec![0]) },
                    Action::Write { region: 7, offset: 0x51, data: Bytes(vec![0x80]) },
                    Action::Message { command: 13, flags: 0, body: Bytes::default() },
                    Action::Unmap { flags: 0, address: 0, size: 0x800 },
                    Action::Unmap { flags: 2, address: 0, size: 0 },
                    act(Act::Send { frame: Frame::new(0, 9), how: HOLD, command: 0 }),
                    Action::Raw { bytes: Bytes(vec![0; 40]) },
                ],
            ),
        ),
    ]
}
