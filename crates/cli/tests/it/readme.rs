//! The README and the documents show what the commands print: each `console` block is run, those of
//! a file one after another in one directory, and its output must be what stands there.
//! `DOORBELL_README=write` writes it anew. `DOORBELL_PROGRAMS` is a directory with another build.
//! `DOORBELL_PUBLISHED` is a directory to keep `published` in, which one of the commands writes:
//! all published figures take minutes, and the test of the report needs them too.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the output of `line`, typed in `dir`.
fn shell(line: &str, dir: &Path) -> String {
    let own = || Path::new(env!("CARGO_BIN_EXE_doorbell")).parent().unwrap().into();
    let programs = std::env::var_os("DOORBELL_PROGRAMS").map_or_else(own, PathBuf::from);
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
    let ran = Command::new("sh")
        .args(["-c", &format!("{line} 2>&1")])
        .current_dir(dir)
        .env("PATH", path)
        .output();
    String::from_utf8(ran.unwrap().stdout).unwrap()
}

/// The file with its blocks made anew, and how many commands are in them.
fn renewed(text: &str) -> (String, u32) {
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
    let published = dir.path().join("published");
    if let Some(keep) = std::env::var_os("DOORBELL_PUBLISHED").filter(|_| published.exists()) {
        std::fs::create_dir_all(&keep).unwrap();
        for file in std::fs::read_dir(published).unwrap().map(Result::unwrap) {
            std::fs::copy(file.path(), Path::new(&keep).join(file.file_name())).unwrap();
        }
    }
    (new, commands)
}

fn holds(file: &Path) -> u32 {
    let text = std::fs::read_to_string(file).unwrap();
    let (new, commands) = renewed(&text);
    if std::env::var("DOORBELL_README").is_ok_and(|v| v == "write") {
        std::fs::write(file, &new).unwrap();
        return commands;
    }
    for (have, want) in text.lines().zip(new.lines()) {
        let file = file.display();
        assert_eq!(
            have, want,
            "{file}: DOORBELL_README=write cargo test -p doorbell-cli --test it readme writes it"
        );
    }
    assert_eq!(text, new);
    commands
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

#[test]
fn the_readme_shows_what_the_commands_print() {
    assert!(holds(&root().join("README.md")) > 2, "the README has examples");
}

#[test]
fn the_documents_show_what_the_commands_print() {
    let files = std::fs::read_dir(root().join("docs")).unwrap().map(|e| e.unwrap().path());
    let files: Vec<_> = files.filter(|f| f.extension().is_some_and(|e| e == "md")).collect();
    // Most commands take one core.
    let commands: u32 = std::thread::scope(|s| {
        let all: Vec<_> = files.iter().map(|f| s.spawn(|| holds(f))).collect();
        all.into_iter().map(|t| t.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).sum()
    });
    assert!(commands > 4, "the documents have examples");
}
