//! Descriptors whose close waits. They fill the reaper of this process, so no other test is here.

use doorbell_host_io::shared::{memfd, reaper};
use doorbell_testkit::lingering;
use doorbell_vfio_user::{receive_with_fds, send_with_fds};
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[test]
fn messages_with_descriptors_wait_for_the_reaper() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (mut bytes, mut fds) = ([0; 64], Vec::new());
    let memory = memfd(c"memory", 4096).unwrap();
    let since = Instant::now();
    let mut peers = Vec::new();
    while reaper::has_room() {
        // More than a message may have, and more than the closers.
        let all: Vec<_> = (0..100).map(|_| lingering(Duration::from_secs(3600)).unwrap()).collect();
        let lent: Vec<_> = all.iter().map(|(socket, _)| socket.as_fd()).collect();
        send_with_fds(&ours, b"x", &lent).unwrap();
        drop(lent);
        peers.extend(all.into_iter().map(|(_, peer)| peer));
        receive_with_fds(&theirs, &mut bytes, &mut fds).unwrap_err();
    }
    send_with_fds(&ours, b"y", &[]).unwrap();
    assert_eq!(receive_with_fds(&theirs, &mut bytes, &mut fds).unwrap(), 1);
    send_with_fds(&ours, b"z", &[memory.as_fd()]).unwrap();
    let e = receive_with_fds(&theirs, &mut bytes, &mut fds).unwrap_err();
    assert_eq!((e.kind(), fds.len()), (ErrorKind::ResourceBusy, 0));
    assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
    // The end of its peer ends a close.
    drop(peers);
    while !reaper::has_room() {
        assert!(since.elapsed() < Duration::from_secs(120), "{} wait", reaper::waiting());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(receive_with_fds(&theirs, &mut bytes, &mut fds).unwrap(), 1);
    assert_eq!((bytes[0], fds.len()), (b'z', 1));
}
