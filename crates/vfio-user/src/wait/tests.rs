use super::*;
use std::io::{Read, Write};

#[test]
fn a_socket_left_behind_is_replaced_and_a_live_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "as a killed server leaves it");
    let live = Listener::bind(&path).unwrap();
    assert_eq!(Listener::bind(&path).err().map(|e| e.kind()), Some(io::ErrorKind::AddrInUse));
    drop(live);
    assert!(!path.exists());
    std::fs::write(&path, "x").unwrap();
    assert_eq!(Listener::bind(&path).err().map(|e| e.kind()), Some(io::ErrorKind::AddrInUse));
    assert!(path.exists(), "somebody's file stays");
}

#[test]
fn a_refused_listener_is_no_client_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut first = Listener::bind(&path).unwrap();
    assert_eq!(Listener::bind(&path).err().map(|e| e.kind()), Some(io::ErrorKind::AddrInUse));
    assert!(first.accept().unwrap().is_none());
    let _client = connect_now(&path).unwrap();
    assert!(first.accept().unwrap().is_some());
}

#[test]
fn a_stream_is_at_its_end_when_all_is_read() {
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    assert!(!at_end(&ours));
    theirs.write_all(b"x").unwrap();
    drop(theirs);
    assert!(!at_end(&ours), "a byte is left");
    (&ours).read_exact(&mut [0]).unwrap();
    assert!(at_end(&ours));
    let (ours, theirs) = UnixStream::pair().unwrap();
    (&ours).write_all(b"x").unwrap();
    drop(theirs);
    assert!(at_end(&ours), "the peer has not read all");
}

#[test]
fn a_path_that_was_replaced_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let first = Listener::bind(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let second = Listener::bind(&path).unwrap();
    drop(first);
    assert!(path.exists(), "it is the second server's");
    drop(second);
    assert!(!path.exists());
}

#[test]
fn a_listener_that_accepts_nobody_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let new = || socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
    let (listener, address) = (new(), SocketAddrUnix::new(&path).unwrap());
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let mut waiting = Vec::new();
    while let (s, Ok(())) = {
        let s = new();
        let done = connect(&s, &address);
        (s, done)
    } {
        waiting.push(s);
    }
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || tell.send(Listener::bind(&path).err().map(|e| e.kind())));
    let kind = told.recv_timeout(Duration::from_secs(60)).expect("it does not wait");
    assert_eq!(kind, Some(io::ErrorKind::AddrInUse));
}
