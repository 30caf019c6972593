//! Where the guest's frames go, and where its come from.
//!
//! * `tap:NAME`: a TAP device. An ordinary user needs one that is theirs (`ip tuntap add dev NAME
//!   mode tap user ME`).
//! * `pcap:FILE`: the frames of a capture arrive, at their own times from when the guest's receiver
//!   is on; what the guest sends is counted and gone.
//! * `reflect`: what the guest sends comes back, its two addresses exchanged.
//! * `socket:PATH`: frames on a stream, each after its length as 4 bytes, big-endian, as QEMU's
//!   `-netdev stream` and passt have it. If somebody listens there, we connect; else we listen, for
//!   one peer at a time. Two servers with the same path are a cable.
//! * `none`: nothing arrives, and what is sent is gone.

mod large;

use crate::Error;
use crate::output::plain;
use doorbell_hal::{Span, Time};
use doorbell_host_io::pcap;
use doorbell_vfio_user::Listener;
use large::Kernel;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The longest frame that is passed on.
pub(super) const MAX_FRAME: usize = 65_550;
/// Frames that are kept for a guest that does not take them: a TAP device's own queue is as long.
const KEPT: usize = 1000;
/// Bytes that a stream's peer may leave unread.
const UNSENT: usize = 1 << 20;

/// The outside of the wire.
#[derive(Debug)]
pub(super) struct Uplink {
    kind: Kind,
    /// Frames that could not be passed on.
    pub(super) dropped: u64,
    /// Why there is no uplink any more.
    pub(super) lost: Option<String>,
}

#[derive(Debug)]
enum Kind {
    None,
    Tap(Box<Kernel>),
    Replay(Box<Replay>),
    Reflect(VecDeque<Vec<u8>>),
    Stream(Box<Stream>),
}

/// A capture on its way to the guest.
#[derive(Debug)]
struct Replay {
    frames: pcap::Capture,
    next: usize,
    /// When the first was taken.
    began: Option<Time>,
}

/// Length-prefixed frames.
#[derive(Debug)]
struct Stream {
    peer: Option<UnixStream>,
    listener: Option<Listener>,
    path: PathBuf,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Uplink {
    /// What `--uplink` says.
    pub(super) fn open(text: &str) -> Result<Uplink, Error> {
        let wrong = |why: String| Error::input(format!("--uplink {text}: {why}"));
        let kind = match text.split_once(':') {
            None if text == "reflect" => Kind::Reflect(VecDeque::new()),
            None if text == "none" => Kind::None,
            Some(("tap", name)) if !name.is_empty() => {
                let tap = Kernel::open(name).map_err(|e| {
                    wrong(match e.raw_os_error() {
                        Some(errno::EACCES) => format!("{e}: /dev/net/tun is not open to you"),
                        Some(errno::EPERM) => {
                            format!("{e}; make one that is yours: ip tuntap add dev {name} mode tap user $USER")
                        }
                        Some(errno::EBUSY) => format!("{e}: somebody else has it open"),
                        _ => plain(&e),
                    })
                })?;
                Kind::Tap(Box::new(tap))
            }
            Some(("pcap", file)) if !file.is_empty() => {
                let frames = pcap::read(file).map_err(|e| Error::input(e.to_string()))?;
                Kind::Replay(Box::new(Replay { frames, next: 0, began: None }))
            }
            Some(("socket", path)) if !path.is_empty() => {
                Kind::Stream(Box::new(Stream::open(Path::new(path)).map_err(|e| wrong(plain(&e)))?))
            }
            _ => {
                return Err(wrong(
                    "allowed are tap:NAME, pcap:FILE, reflect, socket:PATH, none".to_owned(),
                ));
            }
        };
        Ok(Uplink { kind, dropped: 0, lost: None })
    }

    /// A new guest: a capture begins anew, and what came for nobody is gone.
    pub(super) fn restart(&mut self) {
        match &mut self.kind {
            Kind::Tap(tap) => {
                // A TAP device's queue is no longer than that, and more may come meanwhile.
                tap.forget(KEPT);
            }
            Kind::Replay(r) => (r.next, r.began) = (0, None),
            Kind::Reflect(queue) => queue.clear(),
            _ => {}
        }
    }

    /// A frame from the guest.
    pub(super) fn send(&mut self, frame: &[u8]) {
        let sent = match &mut self.kind {
            Kind::None | Kind::Replay(_) => true,
            Kind::Tap(tap) => {
                self.dropped += tap.send(frame);
                true
            }
            Kind::Reflect(queue) if queue.len() < KEPT => {
                let mut back = frame.to_vec();
                if let Some((a, b)) = back.get_mut(..12).map(|f| f.split_at_mut(6)) {
                    a.swap_with_slice(b);
                }
                queue.push_back(back);
                true
            }
            Kind::Reflect(_) => false,
            Kind::Stream(s) => s.send(frame),
        };
        self.dropped += u64::from(!sent);
    }

    /// The turn is over: what was kept so that it might become larger goes now.
    pub(super) fn flush(&mut self) {
        if let Kind::Tap(tap) = &mut self.kind {
            self.dropped += tap.flush();
        }
    }

    /// What to wait for.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Tap(tap) => Some(tap.fd()),
            Kind::Stream(s) => match (&s.peer, &s.listener) {
                (Some(peer), _) => Some(peer.as_fd()),
                (None, listener) => listener.as_ref().map(AsFd::as_fd),
            },
            _ => None,
        }
    }

    /// When there is a frame without waiting for a descriptor.
    pub(super) fn due(&self) -> Option<Time> {
        match &self.kind {
            Kind::Reflect(queue) => (!queue.is_empty()).then_some(Time::ZERO),
            Kind::Tap(tap) => tap.has_more().then_some(Time::ZERO),
            Kind::Replay(r) => r.due(),
            _ => None,
        }
    }

    /// The next frame for the guest, if there is one by `now`: into `frame`, its length.
    pub(super) fn receive(&mut self, now: Time, frame: &mut [u8]) -> Option<usize> {
        let mut put = |bytes: &[u8]| {
            let n = bytes.len().min(frame.len());
            frame[..n].copy_from_slice(&bytes[..n]);
            n
        };
        match &mut self.kind {
            Kind::None => None,
            Kind::Tap(tap) => match tap.receive(frame) {
                Ok(n) => Some(n),
                Err(e) if e.kind() == ErrorKind::InvalidData => {
                    self.dropped += 1;
                    None
                }
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    None
                }
                // Somebody has deleted the interface.
                Err(e) => {
                    self.lost = Some(plain(&e));
                    self.kind = Kind::None;
                    None
                }
            },
            Kind::Reflect(queue) => queue.pop_front().map(|f| put(&f)),
            Kind::Replay(r) => {
                let due = r.due()?;
                if due > now {
                    return None;
                }
                let f = *r.frames.frames.get(r.next)?;
                r.next += 1;
                Some(put(r.frames.frame(&f)))
            }
            Kind::Stream(s) => s.receive(frame),
        }
    }

    /// The guest's receiver was on when the last frame came (`taken`), or off. A capture waits for
    /// it.
    pub(super) fn told(&mut self, now: Time, receiver_on: bool) {
        if let Kind::Replay(r) = &mut self.kind
            && r.began.is_none()
        {
            if receiver_on {
                r.began = Some(now);
            } else {
                // Tried again a little later.
                r.next = 0;
            }
        }
    }

    /// Whether the guest's receiver is being waited for.
    pub(super) fn waits_for_receiver(&self) -> bool {
        matches!(&self.kind, Kind::Replay(r) if r.began.is_none())
    }
}

impl Replay {
    fn due(&self) -> Option<Time> {
        let f = self.frames.frames.get(self.next)?;
        Some(self.began.map_or(Time::ZERO, |t| t + Span::from_ns(f.at_ns)))
    }
}

impl Stream {
    fn open(path: &Path) -> io::Result<Stream> {
        let mut s = Stream {
            peer: None,
            listener: None,
            path: path.to_owned(),
            input: vec![],
            output: vec![],
        };
        match UnixStream::connect(path) {
            Ok(peer) => s.adopt(peer)?,
            Err(_) => s.listener = Some(Listener::bind(path)?),
        }
        Ok(s)
    }

    fn adopt(&mut self, peer: UnixStream) -> io::Result<()> {
        peer.set_nonblocking(true)?;
        self.input.clear();
        self.output.clear();
        self.peer = Some(peer);
        Ok(())
    }

    /// The peer has gone; the next one is listened for.
    fn lost(&mut self) {
        self.peer = None;
        if self.listener.is_none() {
            self.listener = Listener::bind(&self.path).ok();
        }
    }

    fn send(&mut self, frame: &[u8]) -> bool {
        if self.peer.is_none() || self.output.len() > UNSENT {
            return false;
        }
        self.output.extend_from_slice(&(frame.len() as u32).to_be_bytes());
        self.output.extend_from_slice(frame);
        self.flush();
        true
    }

    fn flush(&mut self) {
        let Some(peer) = &mut self.peer else { return };
        while !self.output.is_empty() {
            match peer.write(&self.output) {
                Ok(n) if n > 0 => drop(self.output.drain(..n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                _ => return self.lost(),
            }
        }
    }

    fn receive(&mut self, frame: &mut [u8]) -> Option<usize> {
        self.flush();
        if self.peer.is_none() {
            let peer = self.listener.as_ref()?.accept().ok()??;
            self.adopt(peer).ok()?;
        }
        loop {
            if let Some(&[a, b, c, d]) = self.input.first_chunk() {
                let len = u32::from_be_bytes([a, b, c, d]) as usize;
                if len > MAX_FRAME {
                    self.lost();
                    return None;
                }
                if let Some(bytes) = self.input.get(4..4 + len) {
                    let n = len.min(frame.len());
                    frame[..n].copy_from_slice(&bytes[..n]);
                    self.input.drain(..4 + len);
                    return Some(n);
                }
            }
            let have = self.input.len();
            self.input.resize(have + MAX_FRAME, 0);
            let got = self.peer.as_mut()?.read(&mut self.input[have..]);
            self.input.truncate(have + got.as_ref().copied().unwrap_or(0));
            match got {
                Ok(n) if n > 0 => {}
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return None,
                _ => {
                    self.lost();
                    return None;
                }
            }
        }
    }
}

/// Errno values that get a hint.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const EACCES: i32 = 13;
    pub(super) const EBUSY: i32 = 16;
}

#[cfg(test)]
mod tests;
