use super::*;
use std::io::Write;
use std::process::Command;

#[test]
fn lines_come_whole_and_a_writer_may_go() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut c = Control::open(&path).unwrap();
    let mut now = Time::ZERO;
    for said in ["failover\nlink do", "wn 3 \n", "\n"] {
        OpenOptions::new().write(true).open(&path).unwrap().write_all(said.as_bytes()).unwrap();
    }
    assert_eq!(c.line(now), None, "it is not time to look");
    now += EVERY;
    assert_eq!(c.line(now).as_deref(), Some("failover"));
    assert_eq!(c.line(now).as_deref(), Some("link down 3"));
    assert_eq!(c.line(now).as_deref(), Some(""));
    assert_eq!(c.line(now + EVERY), None);
}

#[test]
fn another_kind_of_file_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let said = Control::open(file.path()).unwrap_err().to_string();
    let place = file.path().display();
    assert_eq!(said, format!("--control {place}: it is not a named pipe"));
}

#[test]
fn no_part_of_an_overlong_line_is_a_command() {
    let mut lines = Lines::default();
    let mut said = Vec::new();
    let all =
        [&[b'x'; 2 * LONGEST][..], b"failover 1\nlink up\n", &[b'y'; LONGEST + 1], b"\nerror\n"];
    for part in all.concat().chunks(100) {
        lines.rest.extend_from_slice(part);
        said.extend(std::iter::from_fn(|| lines.next()));
    }
    assert_eq!(said, ["link up", "error"]);
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let mut lines = Lines::default();
    lines.rest.extend_from_slice(b"\x1b[31mfail\x07over\t1\xc2\x9b\n");
    assert_eq!(lines.next().as_deref(), Some("[31mfail over 1"));
}
