//! The other end of the wire of a served device: `tap:NAME`, a TAP device; `pcap:FILE`, the frames
//! of a capture at their own times, starting when the guest's receiver is on; `reflect`, the
//! guest's own frames with exchanged addresses; `socket:PATH`, frames on a stream, each after its
//! length as 4 big-endian bytes, as with QEMU's `-netdev stream` and passt (two servers with the
//! same path are a cable); `none`.

mod large;

use doorbell_console::{Error, input, plain};
use doorbell_hal::{Span, Time};
use doorbell_host_io::pcap;
use doorbell_host_io::shared::reaper::{Reaped, has_room};
use doorbell_vfio_user::{Listener, at_end, connect_now, is_later, receive_with_fds};
use large::Kernel;
#[cfg(any(test, fuzzing))]
pub(crate) use large::there_and_back;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::{collections::VecDeque, os::unix::net::UnixStream};

pub(super) const MAX_FRAME: usize = 65_550;
/// Frames kept for a guest that does not take them, as many as in the queue of a TAP device.
const KEPT: usize = 1000;
/// Bytes that the peer of a stream may leave unread.
const UNSENT: usize = 1 << 20;
/// Time between two attempts to find a peer again, and between two looks at both ends of a cable.
const RETRY: Span = Span::from_ms(100);
/// The most connections that are refused in one look.
const REFUSED: usize = 16;

/// The other end of the wire.
#[derive(Debug)]
pub(super) struct Uplink {
    kind: Kind,
    /// Frames that could not be passed on.
    pub(super) dropped: u64,
    /// The reason why the uplink is gone.
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

/// A capture being replayed to the guest.
#[derive(Debug)]
struct Replay {
    frames: pcap::Capture,
    next: usize,
    /// Time at which the guest took the first frame.
    began: Option<Time>,
}

/// Length-prefixed frames.
#[derive(Debug)]
struct Stream {
    peer: Option<Reaped<UnixStream>>,
    listener: Option<Listener>,
    path: PathBuf,
    /// Time of the next attempt to find a peer.
    tries: Time,
    /// Time of the next look at both ends.
    looks: Time,
    /// The end of a peer has been told, and no later one has sent anything.
    told: bool,
    notice: Option<String>,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Uplink {
    pub(super) fn open(text: &str) -> Result<Uplink, Error> {
        let wrong = |why: String| input!("--uplink {text}: {why}");
        let kind = match text.split_once(':') {
            None if text == "reflect" => Kind::Reflect(VecDeque::new()),
            None if text == "none" => Kind::None,
            Some(("tap", name)) if !name.is_empty() => {
                let tap = Kernel::open(name).map_err(|e| {
                    wrong(match e.raw_os_error() {
                        Some(errno::EACCES) => format!("{e}: /dev/net/tun is not open to you"),
                        Some(errno::EPERM) => format!(
                            "{e}; make one of your own: ip tuntap add dev {name} mode tap user \
                             $USER"
                        ),
                        Some(errno::EBUSY) => format!("{e}: another process has it open"),
                        Some(errno::EINVAL) if is_another_interface(name) => {
                            format!("the interface {name} is not a TAP device")
                        }
                        _ => plain(&e),
                    })
                })?;
                Kind::Tap(Box::new(tap))
            }
            Some(("pcap", file)) if !file.is_empty() => {
                let frames = pcap::read(file).map_err(|e| input!("{e}"))?;
                Kind::Replay(Box::new(Replay { frames, next: 0, began: None }))
            }
            Some(("socket", path)) if !path.is_empty() => {
                Kind::Stream(Box::new(Stream::open(Path::new(path)).map_err(|e| wrong(plain(&e)))?))
            }
            _ => {
                let all = "allowed are tap:NAME, pcap:FILE, reflect, socket:PATH, none";
                return Err(wrong(all.to_owned()));
            }
        };
        Ok(Uplink { kind, dropped: 0, lost: None })
    }

    /// Returns a stream with this peer, after which there is no other.
    #[cfg(any(test, fuzzing))]
    pub(super) fn of(peer: UnixStream) -> Uplink {
        let mut s = Stream::new(PathBuf::new());
        s.adopt(peer).expect("a socket");
        Uplink { kind: Kind::Stream(Box::new(s)), dropped: 0, lost: None }
    }

    /// Starts over for a new guest: a capture begins again, and queued frames are dropped.
    pub(super) fn restart(&mut self) {
        match &mut self.kind {
            Kind::Tap(tap) => {
                // The queue of a TAP device is at most as long; more may come meanwhile.
                tap.forget(KEPT);
            }
            Kind::Replay(r) => (r.next, r.began) = (0, None),
            Kind::Reflect(queue) => queue.clear(),
            _ => {}
        }
    }

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

    /// Sends the frames that were kept to be merged.
    pub(super) fn flush(&mut self) {
        if let Kind::Tap(tap) = &mut self.kind {
            self.dropped += tap.flush();
        }
    }

    /// Looks at both ends of a cable now and then, also while there is no guest.
    pub(super) fn look(&mut self, now: Time) {
        if let Kind::Stream(s) = &mut self.kind {
            s.look(now);
        }
    }

    /// Returns what a person should know of the other end, once.
    pub(super) fn notice(&mut self) -> Option<String> {
        if let Kind::Stream(s) = &mut self.kind { s.notice.take() } else { None }
    }

    /// Returns the descriptor to wait for.
    pub(super) fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.kind {
            Kind::Tap(tap) => Some(tap.fd()),
            Kind::Stream(s) => match (&s.peer, &s.listener) {
                (Some(peer), _) => Some(peer.as_fd()),
                (None, listener) => listener.as_ref().filter(|_| has_room()).map(AsFd::as_fd),
            },
            _ => None,
        }
    }

    /// Returns the time of a frame that no descriptor announces.
    pub(super) fn due(&self) -> Option<Time> {
        match &self.kind {
            Kind::Reflect(queue) => (!queue.is_empty()).then_some(Time::ZERO),
            Kind::Tap(tap) => tap.has_more().then_some(Time::ZERO),
            Kind::Replay(r) => r.due(),
            _ => None,
        }
    }

    /// Copies the next frame for the guest into `frame`, if there is one by `now`. Returns its
    /// length.
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
                // The interface was deleted.
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
            Kind::Stream(s) => s.receive(now, frame),
        }
    }

    /// Reports the state of the guest's receiver when the last frame came. A capture waits for it.
    pub(super) fn told(&mut self, now: Time, receiver_on: bool) {
        if let Kind::Replay(r) = &mut self.kind
            && r.began.is_none()
        {
            if receiver_on {
                r.began = Some(now);
            } else {
                // The first frame is offered again later.
                r.next = 0;
            }
        }
    }

    /// Returns true if a capture waits for the guest's receiver.
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
    fn new(path: PathBuf) -> Stream {
        Stream {
            peer: None,
            listener: None,
            path,
            tries: Time::ZERO,
            looks: Time::ZERO,
            told: false,
            notice: None,
            input: Vec::new(),
            output: Vec::new(),
        }
    }

    fn open(path: &Path) -> io::Result<Stream> {
        let mut s = Stream::new(path.to_owned());
        s.find()?;
        Ok(s)
    }

    /// Connects to a peer that listens, or listens for one.
    fn find(&mut self) -> io::Result<()> {
        match connect_now(&self.path) {
            Ok(peer) => self.adopt(peer)?,
            Err(_) => self.listener = Some(Listener::bind(&self.path)?),
        }
        Ok(())
    }

    fn adopt(&mut self, peer: UnixStream) -> io::Result<()> {
        peer.set_nonblocking(true)?;
        self.input.clear();
        self.output.clear();
        self.peer = Some(Reaped::connection(peer));
        Ok(())
    }

    /// Takes a peer that has come, and refuses any other: a server that waited in the listener's
    /// queue would believe that it is on the cable. Notices the end of a peer.
    fn look(&mut self, now: Time) {
        if now < self.looks {
            return;
        }
        self.looks = now + RETRY;
        if self.peer.as_deref().is_some_and(at_end) {
            self.hang_up();
        }
        for _ in 0..REFUSED {
            let listener = self.listener.as_mut().filter(|_| has_room());
            let Some(other) = listener.and_then(|l| l.accept().ok()?) else { return };
            if self.peer.is_none() {
                // A peer whose socket cannot be used is as good as none.
                let _ = self.adopt(other);
            } else {
                drop(Reaped::connection(other));
            }
        }
    }

    /// Drops the peer. Its end is told once, until another has sent something.
    fn hang_up(&mut self) {
        self.peer = None;
        if !self.told {
            self.told = true;
            self.notice = Some(format!(
                "the other end of socket:{} has hung up (a cable has two ends); waiting for \
                 another",
                self.path.display()
            ));
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
        let Some(mut peer) = self.peer.as_deref() else { return };
        while !self.output.is_empty() {
            match peer.write(&self.output) {
                Ok(n) if n > 0 => drop(self.output.drain(..n)),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                _ => {
                    self.hang_up();
                    return;
                }
            }
        }
    }

    fn receive(&mut self, now: Time, frame: &mut [u8]) -> Option<usize> {
        self.flush();
        if self.peer.is_none() {
            if !has_room() {
                return None;
            }
            if let Some(listener) = &mut self.listener {
                let peer = listener.accept().ok()??;
                self.adopt(peer).ok()?;
            } else if now >= self.tries {
                self.tries = now + RETRY;
                self.find().ok()?;
            }
        }
        loop {
            if let Some(&[a, b, c, d]) = self.input.first_chunk() {
                let len = u32::from_be_bytes([a, b, c, d]) as usize;
                if len > MAX_FRAME {
                    self.hang_up();
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
            let mut fds = Vec::new();
            let got = receive_with_fds(&**self.peer.as_ref()?, &mut self.input[have..], &mut fds);
            self.input.truncate(have + got.as_ref().copied().unwrap_or(0));
            match got {
                // Descriptors are not for a wire.
                Ok(n) if n > 0 && fds.is_empty() => self.told = false,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if is_later(&e) => return None,
                _ => {
                    self.hang_up();
                    return None;
                }
            }
        }
    }
}

/// Reads frames from a stream whose bytes come in parts, of lengths that the first bytes give.
/// Returns how many.
///
/// # Panics
/// Panics if they are not the frames of the bytes as a whole.
#[cfg(any(test, fuzzing))]
pub(crate) fn frames_in_parts(bytes: &[u8]) -> usize {
    let (cuts, mut all) = bytes.split_at(bytes.len().min(8));
    let (mut ours, peer) = UnixStream::pair().expect("a socket");
    let (mut uplink, mut frame) = (Uplink::of(peer), vec![0; MAX_FRAME]);
    let mut found = Vec::new();
    for cut in cuts.iter().map(|c| usize::from(*c)).chain([usize::MAX]) {
        let part;
        (part, all) = all.split_at(cut.min(all.len()));
        // After a wrong length the peer is gone.
        let _ = ours.write_all(part);
        while let Some(n) = uplink.receive(Time::ZERO, &mut frame) {
            found.push(frame[..n].to_vec());
        }
    }
    let mut rest = &bytes[cuts.len()..];
    let mut whole = Vec::new();
    while let Some((len, more)) = rest.split_first_chunk() {
        let len = u32::from_be_bytes(*len) as usize;
        if len > MAX_FRAME || len > more.len() {
            break;
        }
        whole.push(more[..len].to_vec());
        rest = &more[len..];
    }
    assert!(found == whole, "{} frames, not {}", found.len(), whole.len());
    found.len()
}

/// Returns true for an interface that exists and is neither TUN nor TAP.
fn is_another_interface(name: &str) -> bool {
    let interface = Path::new("/sys/class/net").join(name);
    interface.exists() && !interface.join("tun_flags").exists()
}

/// Errno values with a hint.
mod errno {
    pub(super) const EPERM: i32 = 1;
    pub(super) const EACCES: i32 = 13;
    pub(super) const EBUSY: i32 = 16;
    pub(super) const EINVAL: i32 = 22;
}

#[cfg(test)]
mod tests;
