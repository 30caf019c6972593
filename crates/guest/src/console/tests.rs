use super::*;
use crate::log::KEPT;
use proptest::prelude::*;

fn all(text: &str) -> Vec<Message> {
    let (mut left, mut found) = (text.as_bytes(), Vec::new());
    while let Ok((message, end)) = message(left, 0) {
        found.push(message);
        left = &left[end..];
    }
    found
}

#[test]
fn messages_have_a_word_arguments_and_the_output_before_them() {
    let found = all("one\r\ntwo\r\n<<<end 64>>>\r\n\n<<<done 0>>>\n");
    assert_eq!(found[0].before, "one\ntwo\n");
    assert_eq!((&*found[0].word, &*found[0].arguments), ("end", "64"));
    assert_eq!(found[1].before, "\n");
    assert_eq!((&*found[1].word, &*found[1].arguments), ("done", "0"));
}

#[test]
fn a_message_that_has_come_in_part_is_waited_for() {
    assert_eq!(message(b"out<<<don", 0), Err(3));
    assert_eq!(message(b"out<<", 0), Err(3));
    // Its end of line would be in front of the next output.
    assert_eq!(message(b"out<<<done 0>>>", 0), Err(3));
    assert_eq!(message(b"out<<<done 0>>>\r", 0), Err(3));
}

proptest! {
    #[test]
    fn a_message_is_found_wherever_the_text_is_cut(
        before in "[a-z<> \n]{0,40}", cut in 0usize..80,
    ) {
        let text = format!("{before}<<<done 0>>>\n");
        let text = text.as_bytes();
        let cut = cut.min(text.len());
        let whole = message(text, 0);
        if let Err(searched) = message(&text[..cut], 0) {
            prop_assert!(searched <= cut);
            prop_assert_eq!(message(text, searched), whole);
        }
    }
}

/// Starts a guest that prints for ever. Returns it with its console and its log.
fn endless() -> (ChildGuard, Console, File) {
    let mut command = std::process::Command::new("cat");
    let piped = std::process::Stdio::piped;
    command.arg("/dev/zero").stdin(piped()).stdout(piped());
    let mut guest = ChildGuard::spawn("cat", &mut command).unwrap();
    let (input, output) = (guest.take_stdin().unwrap(), guest.take_stdout().unwrap());
    let log = tempfile::tempfile().unwrap();
    let kept = log.try_clone().unwrap();
    let next = super::kept(output, log);
    let console = Console::new((Box::new(input), ""), next, Duration::from_secs(60));
    (guest, console, kept)
}

#[test]
fn output_without_end_is_not_kept() {
    let (mut guest, mut console, kept) = endless();
    let e = console.message(&mut guest, &|| false).unwrap_err().to_string();
    assert!(e.contains("printed 16 MiB without end"), "{e}");
    assert!(console.pending.len() <= MOST + (64 << 10));
    drop(console);
    let logged = kept.metadata().unwrap().len();
    assert!((KEPT as u64..KEPT as u64 + 100).contains(&logged), "{logged} bytes");
}

#[test]
fn a_console_that_nobody_looks_at_makes_the_guest_wait() {
    let (mut guest, mut console, kept) = endless();
    let read = || kept.metadata().unwrap().len();
    // The queue, and the piece that has no room in it.
    let most = ((WAITING + 1) * CHUNK) as u64;
    let until = Instant::now() + Duration::from_secs(30);
    let (mut before, mut same) = (0, 0);
    while same < 10 {
        assert!(Instant::now() < until, "it reads on: {before} bytes");
        std::thread::sleep(Duration::from_millis(50));
        same = if read() == before && before > 0 { same + 1 } else { 0 };
        before = read();
        assert!(before <= most, "{before} bytes");
    }
    // It goes on when somebody looks.
    assert!(console.message(&mut guest, &|| false).is_err());
    assert!(read() > most);
}
