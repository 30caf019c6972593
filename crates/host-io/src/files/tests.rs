use super::*;
use std::os::unix::net::UnixListener;

fn why<T: std::fmt::Debug>(read: io::Result<T>) -> String {
    read.unwrap_err().to_string()
}

#[test]
fn a_file_of_the_most_bytes_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x");
    let file = File::create(&path).unwrap();
    file.set_len(MOST).unwrap();
    assert_eq!(text(&path).unwrap().len() as u64, MOST);
    file.set_len(MOST + 1).unwrap();
    assert_eq!(why(text(&path)), "it is longer than 16 MiB, the most that is read");
}

#[test]
fn a_stream_without_end_is_refused() {
    assert!(why(text_from(io::repeat(b'x'))).contains("longer than 16 MiB"));
}

#[test]
fn pipes_devices_and_sockets_are_refused_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let [pipe, link, socket] = ["pipe", "link", "socket"].map(|n| dir.path().join(n));
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &link).unwrap();
    let _bound = UnixListener::bind(&socket).unwrap();
    for path in [pipe, link] {
        assert_eq!(why(text(&path)), "it is no regular file, which alone is read");
    }
    text(&socket).unwrap_err();
    assert_eq!(text(dir.path()).unwrap_err().kind(), ErrorKind::IsADirectory);
}

#[test]
fn bytes_that_are_no_text_are_named() {
    assert_eq!(why(text_from(&b"ab\xff"[..])), "it is not UTF-8 text, from byte 2 on");
}

#[test]
fn lines_come_one_by_one_up_to_one_that_is_too_long() {
    let long = "x".repeat(LONGEST as usize);
    let text = format!("a\n\n{long}y\nz\n");
    let all: Vec<_> = lines(text.as_bytes()).collect();
    assert_eq!(all.len(), 3);
    assert_eq!([all[0].as_deref().unwrap(), all[1].as_deref().unwrap()], ["a\n", "\n"]);
    assert_eq!(all[2].as_ref().unwrap_err().to_string(), "a line is longer than 1024 KiB");
    assert!(lines(long.as_bytes()).all(|l| l.is_ok_and(|l| l == long)));
}
