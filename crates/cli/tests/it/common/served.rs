//! A server in a process of its own, and a vfio-user client.

use crate::common::program;
use doorbell_vfio_user::send_with_fds;
use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server, which is killed if the test fails.
pub(crate) struct Server(pub(crate) Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Server {
    pub(crate) fn start(dir: &Path, more: &[&str]) -> Server {
        Server::of("e1000", dir, more)
    }

    /// Serves a device of this name.
    pub(crate) fn of(device: &str, dir: &Path, more: &[&str]) -> Server {
        let child = Command::new(program())
            .args(["serve", device, "--socket", "s", "--format", "json", "--quiet"])
            .args(more)
            .current_dir(dir)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let server = Server(child);
        wait_for(|| dir.join("s").exists());
        server
    }

    pub(crate) fn signal(&self, name: &str) {
        let done = Command::new("kill").args([name, &self.0.id().to_string()]).status().unwrap();
        assert!(done.success());
    }

    /// Ends it; all that it printed.
    pub(crate) fn stop(mut self, signal: &str) -> String {
        self.signal(signal);
        let mut out = String::new();
        self.0.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert_eq!(self.0.wait().unwrap().code(), Some(0));
        out
    }
}

pub(crate) fn wait_for(mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "it takes too long");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A message and its reply's body.
pub(crate) fn ask(s: &mut UnixStream, command: u16, body: &[u8]) -> Vec<u8> {
    send(s, command, body, &[]);
    reply(s).expect("no error")
}

/// Sends a message.
pub(crate) fn send(s: &UnixStream, command: u16, body: &[u8], fds: &[BorrowedFd<'_>]) {
    try_send(s, command, body, fds).unwrap();
}

/// Sends a message to a server that may have gone.
pub(crate) fn try_send(
    mut s: &UnixStream,
    command: u16,
    body: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut m = [1, 0].to_vec();
    m.extend(command.to_ne_bytes());
    m.extend((16 + body.len() as u32).to_ne_bytes());
    m.extend([0; 8]);
    m.extend(body);
    let first = send_with_fds(s, &m, fds)?;
    s.write_all(&m[first..])
}

/// The body of a reply, or its errno.
pub(crate) fn reply(s: &mut UnixStream) -> Result<Vec<u8>, u32> {
    let mut head = [0; 16];
    s.read_exact(&mut head).unwrap();
    let word = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap());
    let mut reply = vec![0; word(4) as usize - 16];
    s.read_exact(&mut reply).unwrap();
    match word(8) {
        1 => Ok(reply),
        0x21 => Err(word(12)),
        flags => panic!("a reply with flags {flags:#x}"),
    }
}

/// A client that has introduced itself.
pub(crate) fn introduced(dir: &Path) -> UnixStream {
    // The socket is there a moment before it listens.
    let mut found = None;
    wait_for(|| {
        found = UnixStream::connect(dir.join("s")).ok();
        found.is_some()
    });
    let mut s = found.unwrap();
    // Far more than any answer takes.
    s.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    ask(&mut s, 1, &[0, 0, 1, 0]);
    s
}

/// A client that has read the device's id and its STATUS register.
pub(crate) fn client(dir: &Path) -> UnixStream {
    let mut s = introduced(dir);
    let read = |region: u8, offset: u8| [offset, 0, 0, 0, 0, 0, 0, 0, region, 0, 0, 0, 4, 0, 0, 0];
    assert_eq!(ask(&mut s, 9, &read(7, 0))[16..], [0x86, 0x80, 0x0e, 0x10]);
    ask(&mut s, 9, &read(0, 8));
    s
}
