//! The client: sends a request, lets the function serve, reads the reply.

use super::Served;
use crate::ConnectionError;
use crate::channel::send_with_fds;
use crate::message::{Access, HEADER, Header, Map, SetIrqs, Unmap, command, flag, irq_set, write};
use doorbell_hal::Time;
use doorbell_host_io::shared::{EventFd, Window, memfd};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use zerocopy::{FromBytes, IntoBytes};

pub(super) struct Client {
    pub(super) socket: UnixStream,
    next: u16,
    pub(super) now: Time,
}

/// An errno, or the body of a reply.
pub(super) type Answer = Result<Vec<u8>, i32>;

impl Client {
    pub(super) fn new(socket: UnixStream) -> Client {
        socket.set_nonblocking(true).unwrap();
        Client { socket, next: 100, now: Time::ZERO }
    }

    /// Sends bytes as they are.
    pub(super) fn raw(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        assert_eq!(send_with_fds(&self.socket, bytes, fds).unwrap(), bytes.len());
    }

    pub(super) fn send(
        &mut self,
        command: u16,
        flags: u32,
        body: &[&[u8]],
        fds: &[BorrowedFd<'_>],
    ) {
        self.next += 1;
        let mut out = vec![];
        write(&mut out, self.next, command, flags, 0, body);
        self.raw(&out, fds);
    }

    /// Returns the next reply, if one has arrived.
    pub(super) fn reply(&mut self) -> Option<(Header, Answer)> {
        let mut head = [0; HEADER];
        match self.socket.read_exact(&mut head) {
            Ok(()) => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => return None,
            Err(e) => panic!("{e}"),
        }
        let header = Header::read_from_bytes(&head).unwrap();
        let mut body = vec![0; header.size.get() as usize - HEADER];
        self.socket.read_exact(&mut body).unwrap();
        let answer = if header.flags.get() & flag::ERROR != 0 {
            Err(header.error.get() as i32)
        } else {
            Ok(body)
        };
        Some((header, answer))
    }

    /// Lets the function handle all sent requests.
    pub(super) fn serve(&self, f: &mut Served) -> Result<usize, ConnectionError> {
        f.serve(|| self.now)
    }

    pub(super) fn ask(
        &mut self,
        f: &mut Served,
        command: u16,
        body: &[&[u8]],
        fds: &[BorrowedFd<'_>],
    ) -> Answer {
        self.send(command, 0, body, fds);
        self.serve(f).unwrap();
        let (header, answer) = self.reply().expect("a reply");
        assert_eq!((header.command.get(), header.id.get()), (command, self.next));
        answer
    }

    pub(super) fn version(&mut self, f: &mut Served) -> (u16, u16) {
        let json = b"{\"capabilities\":{\"max_msg_fds\":8,\"max_data_xfer_size\":4096}}\0";
        let body = self
            .ask(f, command::VERSION, &[&0u16.to_ne_bytes(), &1u16.to_ne_bytes(), json], &[])
            .unwrap();
        assert!(body.ends_with(b"}\0"));
        (u16::from_ne_bytes([body[0], body[1]]), u16::from_ne_bytes([body[2], body[3]]))
    }

    pub(super) fn map(
        &mut self,
        f: &mut Served,
        at: u64,
        size: u64,
        flags: u32,
        file: Option<&File>,
    ) -> Answer {
        let m = Map {
            argsz: 32.into(),
            flags: flags.into(),
            offset: 0.into(),
            address: at.into(),
            size: size.into(),
        };
        self.ask(f, command::DMA_MAP, &[m.as_bytes()], file.map(AsFd::as_fd).as_slice())
    }

    pub(super) fn unmap(&mut self, f: &mut Served, at: u64, size: u64, flags: u32) -> Answer {
        let m =
            Unmap { argsz: 24.into(), flags: flags.into(), address: at.into(), size: size.into() };
        self.ask(f, command::DMA_UNMAP, &[m.as_bytes()], &[])
    }

    pub(super) fn read(&mut self, f: &mut Served, region: u32, offset: u64, count: u32) -> Answer {
        let a = Access { offset: offset.into(), region: region.into(), count: count.into() };
        self.ask(f, command::REGION_READ, &[a.as_bytes()], &[]).map(|b| b[16..].to_vec())
    }

    pub(super) fn write(
        &mut self,
        f: &mut Served,
        region: u32,
        offset: u64,
        data: &[u8],
    ) -> Answer {
        let a = Access {
            offset: offset.into(),
            region: region.into(),
            count: (data.len() as u32).into(),
        };
        self.ask(f, command::REGION_WRITE, &[a.as_bytes(), data], &[])
    }

    /// Reads a register of the toy.
    pub(super) fn get(&mut self, f: &mut Served, register: u64) -> u64 {
        let b = self.read(f, 0, register, 8).unwrap();
        u64::from_le_bytes(b.try_into().unwrap())
    }

    pub(super) fn set(&mut self, f: &mut Served, register: u64, v: u64) {
        self.write(f, 0, register, &v.to_le_bytes()).unwrap();
    }

    /// Enables memory, I/O and bus mastering.
    pub(super) fn enable(&mut self, f: &mut Served) {
        self.write(f, 7, 4, &[7, 0]).unwrap();
    }

    pub(super) fn connect_irq(&mut self, f: &mut Served, index: u32, start: u32) -> EventFd {
        let fd = EventFd::new().unwrap();
        let set = SetIrqs {
            argsz: 20.into(),
            flags: (irq_set::DATA_EVENTFD | irq_set::TRIGGER).into(),
            index: index.into(),
            start: start.into(),
            count: 1.into(),
        };
        self.ask(f, command::DEVICE_SET_IRQS, &[set.as_bytes()], &[fd.as_fd()]).unwrap();
        fd
    }
}

/// Creates shared memory. Returns the file and the test's view of it.
pub(super) fn memory(len: u64) -> (File, Window) {
    let file = memfd(c"guest", len).unwrap();
    let window = Window::map(&file, 0, len as usize, true).unwrap();
    (file, window)
}

/// Returns bytes of the test's view.
pub(super) fn at(w: &Window, offset: usize, len: usize) -> Vec<u8> {
    let mut b = vec![0; len];
    w.read(offset, &mut b);
    b
}
