//! The README shows what the commands print: each `console` block is run, and its
//! output must be what stands there. `DOORBELL_README=write` writes it anew.
#![allow(missing_docs, reason = "tests")]

use std::path::Path;
use std::process::Command;

/// What a reader would see who types `line` in `dir`.
fn shell(line: &str, dir: &Path) -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_doorbell")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let ran = Command::new("sh").args(["-c", &format!("{line} 2>&1")]).current_dir(dir).env("PATH", path).output();
    String::from_utf8(ran.unwrap().stdout).unwrap()
}

#[test]
fn every_console_block_is_what_the_commands_print() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = std::fs::read_to_string(&file).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (mut new, mut in_block, mut commands) = (String::new(), false, 0);
    for line in text.lines() {
        if in_block && line != "```" {
            if let Some(command) = line.strip_prefix("$ ") {
                commands += 1;
                new += &format!("{line}\n{}", shell(command, dir.path()));
            }
            continue; // what stood there before
        }
        in_block = line == "```console";
        new += line;
        new.push('\n');
    }
    assert!(commands > 4, "the README has examples");
    if std::env::var("DOORBELL_README").is_ok_and(|v| v == "write") {
        std::fs::write(&file, &new).unwrap();
        return;
    }
    for (have, want) in text.lines().zip(new.lines()) {
        assert_eq!(have, want, "DOORBELL_README=write cargo test -p doorbell-cli --test readme writes it anew");
    }
    assert_eq!(text, new);
}
