use super::*;
use doorbell_host_io::child::ChildGuard;
use std::process::{Command, Stdio};

#[test]
fn a_log_says_once_what_it_leaves_out() {
    let kept = |chunks: &[&str]| {
        let mut log = Log { to: Vec::new(), who: "the console", room: Some(8) };
        chunks.iter().for_each(|chunk| log.keep(chunk.as_bytes()));
        String::from_utf8(log.to).unwrap()
    };
    assert_eq!(kept(&["1234", "5678"]), "12345678");
    let more = "12345678\ndoorbell: the console printed more, which is not kept\n";
    assert_eq!(kept(&["1234", "56789", "0"]), more);
    assert_eq!(kept(&["1234", "5678", "9", "0"]), more);
}

#[test]
fn words_without_end_are_read_and_not_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let file = Kept::create(&path).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "head -c 20000000 /dev/zero >&2; echo last >&2; exit 3"]);
    command.stderr(Stdio::piped());
    let mut child = ChildGuard::spawn("sh", &mut command).unwrap();
    let kept = Kept::follow(child.take_stderr().unwrap(), file, path, "sh");
    assert_eq!(child.wait(Duration::from_secs(60)).unwrap().code(), Some(3), "it does not wait");
    let text = kept.text().unwrap();
    let said = "\ndoorbell: sh printed more, which is not kept\n";
    assert_eq!(text.len(), KEPT + said.len());
    assert!(text.ends_with(said));
    assert_eq!(kept.last_words().len(), SHOWN - 1, "without the end of its line");
}
