use super::*;

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
