//! A server in a process of its own, and a vfio-user client.

use crate::common::program;
pub(crate) use doorbell_testkit::vfio_user::{ask, reply, send, try_send};
use std::io::Read;
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

/// A client that has said nothing.
pub(crate) fn connected(dir: &Path) -> UnixStream {
    // The socket is there a moment before it listens.
    let mut found = None;
    wait_for(|| {
        found = UnixStream::connect(dir.join("s")).ok();
        found.is_some()
    });
    found.unwrap()
}

/// A client that has introduced itself.
pub(crate) fn introduced(dir: &Path) -> UnixStream {
    let mut s = connected(dir);
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
