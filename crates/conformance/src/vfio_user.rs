//! Any bytes as a vfio-user client of the served 8254x: messages whole and broken, with and
//! without descriptors, registers, guest memory, frames, time. The server does not panic,
//! keeps nothing of a client that has gone, and does no DMA once it has.

use doorbell_devices::e1000::{Config, E1000};
use doorbell_hal::{EventSource, Span, Time};
use doorbell_host_io::shared::{EventFd, Window, memfd};
use doorbell_vfio_user::{
    Bar, BarOffset, Capability, Crossing, Function, Identity, Observer, PolledPages, send_with_fds,
};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Bytes of guest memory.
const MEMORY: usize = 1 << 16;

/// Watches over the end: no DMA when nobody is there.
#[derive(Debug, Default)]
struct Guard {
    alone: bool,
    frames: u64,
}

impl Observer for Guard {
    fn crossed(&mut self, _: Time, what: Crossing<'_>) {
        match what {
            Crossing::DmaRead(..) | Crossing::DmaWrite(..) => {
                assert!(!self.alone, "DMA without a client");
            }
            Crossing::Frame(frame) => {
                assert!(!frame.is_empty());
                self.frames += 1;
            }
            _ => {}
        }
    }
}

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let n = N.min(self.0.len());
        out[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        out
    }
    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }
    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
    fn bytes(&mut self, most: u8) -> Vec<u8> {
        let n = usize::from(self.u8() % most).min(self.0.len());
        let (bytes, rest) = self.0.split_at(n);
        self.0 = rest;
        bytes.to_vec()
    }
}

struct Harness {
    f: Function<E1000, Guard>,
    client: Option<UnixStream>,
    now: Time,
}

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
        polled: Some(PolledPages { first: at(0x8000), pages: 2, words: &[0, 0x800] }),
    }
}

impl Harness {
    /// A client that has introduced itself, unless it `forgets` to.
    fn connect(&mut self, forgets: bool) {
        let (ours, theirs) = UnixStream::pair().expect("a socket pair");
        ours.set_nonblocking(true).expect("a socket");
        self.f.connect(self.now, theirs).expect("a client");
        self.f.observer().alone = false;
        self.client = Some(ours);
        if !forgets {
            self.message(1, 0, &[0, 0, 1, 0], &[]);
        }
    }

    /// Sends a message, lets the server handle it, and discards its replies.
    fn message(&mut self, command: u16, flags: u32, body: &[u8], fds: &[BorrowedFd<'_>]) {
        let mut m = vec![7, 0];
        m.extend_from_slice(&command.to_ne_bytes());
        m.extend_from_slice(&(16 + body.len() as u32).to_ne_bytes());
        m.extend_from_slice(&flags.to_ne_bytes());
        m.extend_from_slice(&[0; 4]);
        m.extend_from_slice(body);
        if let Some(c) = &self.client {
            // A full socket is the client's loss.
            let _ = send_with_fds(c, &m, fds);
        }
        self.serve();
    }

    fn serve(&mut self) {
        let now = self.now;
        if self.f.connected() {
            if self.f.serve(|| now).is_err() {
                assert!(!self.f.connected() && self.f.port().maps() == 0, "nothing is left");
                self.f.observer().alone = true;
                self.client = None;
            }
            self.f.poll_pages(now);
        }
        let mut away = [0; 4096];
        while let Some(c) = &mut self.client
            && c.read(&mut away).is_ok_and(|n| n > 0)
        {}
    }
}

fn body(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Attacks a server as `bytes` say.
///
/// # Panics
/// When it lets itself be harmed.
pub fn attack(bytes: &[u8]) {
    let mut input = Input(bytes);
    let cfg = [Config::I82540EM, Config::I82544GC, Config::I82545EM][usize::from(input.u8() % 3)];
    let f = Function::new(identity(), E1000::new(cfg), Guard { alone: true, frames: 0 })
        .expect("a function");
    let file = memfd(c"guest", MEMORY as u64).expect("memory");
    let memory = Window::map(&file, 0, MEMORY, true).expect("memory");
    let mut b = Harness { f, client: None, now: Time::ZERO };
    b.connect(input.u8() & 15 == 0);
    // Most inputs begin with memory at address 0, and bus mastering.
    if input.u8() & 7 != 0 {
        let size = (MEMORY as u64).to_ne_bytes();
        b.message(
            2,
            0,
            &body(&[&32u32.to_ne_bytes(), &3u32.to_ne_bytes(), &[0; 16], &size]),
            &[file.as_fd()],
        );
        b.message(
            10,
            0,
            &body(&[&4u64.to_ne_bytes(), &7u32.to_ne_bytes(), &2u32.to_ne_bytes(), &[7, 0]]),
            &[],
        );
    }
    while !input.0.is_empty() {
        match input.u8() % 16 {
            0 => {
                // A map; always with memory, since nobody answers a DMA by message here.
                let (address, size) = (u64::from(input.u16()) << 8, u64::from(input.u16()) << 4);
                let (flags, offset) = (u32::from(input.u8() & 7), u64::from(input.u8()) << 12);
                let parts: [&[u8]; 5] = [
                    &32u32.to_ne_bytes(),
                    &flags.to_ne_bytes(),
                    &offset.to_ne_bytes(),
                    &address.to_ne_bytes(),
                    &size.to_ne_bytes(),
                ];
                b.message(2, 0, &body(&parts), &[file.as_fd()]);
            }
            1 => {
                let (flags, address, size) =
                    (input.u8() & 3, u64::from(input.u16()) << 8, u64::from(input.u16()) << 4);
                let flags = u32::from(flags).to_ne_bytes();
                b.message(
                    3,
                    0,
                    &body(&[&[0; 4], &flags, &address.to_ne_bytes(), &size.to_ne_bytes()]),
                    &[],
                );
            }
            2..=6 => {
                // A register, often one of the rings.
                let offset = u64::from(input.u16() & 0x7fff) * 4;
                let v = input.u32().to_ne_bytes();
                let flags = u32::from(input.u8() & 1) << 4;
                b.message(
                    10,
                    flags,
                    &body(&[&offset.to_ne_bytes(), &[0; 4], &4u32.to_ne_bytes(), &v]),
                    &[],
                );
            }
            7 => {
                let (region, count) = (u32::from(input.u8() % 10), u32::from(input.u16() & 0x1fff));
                let offset = u64::from(input.u16()).to_ne_bytes();
                b.message(
                    9,
                    0,
                    &body(&[&offset, &region.to_ne_bytes(), &count.to_ne_bytes()]),
                    &[],
                );
            }
            8 => {
                let (region, offset) = (u32::from(input.u8() % 10), u64::from(input.u16()));
                let data = input.bytes(64);
                let count = (data.len() as u32).to_ne_bytes();
                b.message(
                    10,
                    0,
                    &body(&[&offset.to_ne_bytes(), &region.to_ne_bytes(), &count, &data]),
                    &[],
                );
            }
            9 => {
                let fds: Vec<EventFd> =
                    (0..input.u8() & 7).map(|_| EventFd::new().expect("an eventfd")).collect();
                let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                let (flags, index) = (u32::from(input.u8()), u32::from(input.u8() % 6));
                let (start, count) = (u32::from(input.u8() & 15), u32::from(input.u8() & 15));
                let parts = [20, flags, index, start, count].map(u32::to_ne_bytes);
                let tail = input.bytes(16);
                b.message(8, 0, &body(&[parts.as_flattened(), &tail]), &fds);
            }
            10 => {
                let (command, flags) = (u16::from(input.u8() % 20), u32::from(input.u8()) & 0x30);
                let data = input.bytes(200);
                // Not a map without memory: see above.
                if command != 2 {
                    b.message(command, flags, &data, &[]);
                }
            }
            11 => {
                let at = usize::from(input.u16()) % (MEMORY - 16);
                memory.write(at, &input.take::<16>());
            }
            12 => {
                let len = usize::from(input.u16() % 2000);
                let mut frame = vec![input.u8(); len];
                let head = input.take::<16>();
                let n = len.min(16);
                frame[..n].copy_from_slice(&head[..n]);
                b.f.receive(b.now, &frame);
            }
            13 => {
                b.now += Span::from_ns(u64::from(input.u32() % 1_000_000));
                b.f.advance(b.now);
            }
            14 => {
                let raw = input.bytes(100);
                if let Some(c) = &mut b.client {
                    let _ = c.write_all(&raw);
                }
                b.serve();
            }
            _ => {
                b.client = None;
                b.serve();
                b.connect(input.u8() & 15 == 0);
            }
        }
    }
    b.client = None;
    b.serve();
    b.f.disconnect(b.now);
    b.f.observer().alone = true;
    assert_eq!(b.f.port().maps(), 0);
    for _ in 0..1000 {
        let Some(due) = b.f.next_due() else { return };
        b.now = b.now.max(due);
        b.f.advance(b.now);
    }
    panic!("a device that was reset goes on");
}
