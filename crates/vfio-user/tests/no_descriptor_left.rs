//! A server that may open no more descriptors. The limit is that of the process, so no other test
//! is here.

use doorbell_host_io::shared::memfd;
use doorbell_vfio_user::{receive_with_fds, send_with_fds};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;

#[test]
fn a_message_whose_descriptors_cannot_be_opened_says_so() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let memory = memfd(c"memory", 4096).unwrap();
    send_with_fds(&ours, b"x", &[memory.as_fd(); 2]).unwrap();
    let (mut bytes, mut fds) = ([0; 64], Vec::new());
    let before = getrlimit(Resource::Nofile);
    // The lowest number that is free is behind these: one more may be opened.
    let next = memory.try_clone().unwrap();
    let mut less = before;
    less.current = Some(next.as_raw_fd() as u64 + 1);
    drop(next);
    setrlimit(Resource::Nofile, less).unwrap();
    let e = receive_with_fds(&theirs, &mut bytes, &mut fds).unwrap_err();
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(e.raw_os_error(), Some(libc::EMFILE), "{e}");
}
