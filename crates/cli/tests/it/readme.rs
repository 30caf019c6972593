//! The README and the documents show what the commands print: each `console` block is run, those of
//! a file one after another in one directory, and its output must be what stands there.
//! `DOORBELL_README=write` writes it anew.
//!
//! All published figures take minutes, so they are computed once. Commands that print those of one
//! system get its part. `DOORBELL_PUBLISHED` is a directory to keep what `--out` writes, for the
//! test of the report.

use crate::common::program;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// The command that computes all published figures.
const ALL: &str = "doorbell reproduce --out published";

/// Returns the output of `line`, typed in `dir`.
fn typed(line: &str, dir: &Path) -> String {
    let (first, rest) = line.split_once(" | ").unwrap_or((line, "cat"));
    let text = match first.strip_prefix("doorbell reproduce ") {
        _ if first == ALL => published().to_owned(),
        Some(system) if !system.contains(' ') => alone(published(), system),
        _ => return shell(line, dir),
    };
    let file = tempfile::NamedTempFile::new_in(dir).unwrap();
    std::fs::write(&file, text).unwrap();
    shell(&format!("cat {} | {rest}", file.path().display()), dir)
}

/// Returns the output of [`ALL`].
fn published() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let text = shell(ALL, dir.path());
        if let Some(keep) = std::env::var_os("DOORBELL_PUBLISHED") {
            std::fs::create_dir_all(&keep).unwrap();
            let written = dir.path().join("published");
            for file in std::fs::read_dir(written).unwrap().map(Result::unwrap) {
                std::fs::copy(file.path(), Path::new(&keep).join(file.file_name())).unwrap();
            }
        }
        text
    })
}

/// Returns what `reproduce` prints for one system, out of what it prints for several: its section,
/// its figures in the closing lines, and its bill.
fn alone(all: &str, system: &str) -> String {
    let lines: Vec<&str> = all.lines().collect();
    // An empty line, a title and a rule begin each section and each bill.
    let begins = |at: usize| lines.get(at + 2).is_some_and(|l| l.starts_with(" ═"));
    let (mut text, mut of) = (String::new(), "");
    for (at, line) in lines.iter().enumerate() {
        if begins(at) {
            of = lines[at + 1].split_whitespace().next().unwrap().trim_end_matches(':');
        }
        if line.is_empty() || line.starts_with(' ') {
            if of == system {
                text += &format!("{line}\n");
            }
        } else if let Some((what, figures)) = line.split_once(": ") {
            let own = |f: &&str| f.split('.').next() == Some(system);
            let own: Vec<_> = figures.trim_end_matches('.').split(", ").filter(own).collect();
            if !own.is_empty() {
                text += &format!("{what}: {}.\n", own.join(", "));
            }
        }
    }
    text
}

fn shell(line: &str, dir: &Path) -> String {
    let programs = Path::new(program()).parent().unwrap();
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
                new += &format!("{line}\n{}", typed(command, dir.path()));
            }
            continue; // what stood there before
        }
        in_block = line == "```console";
        new += line;
        new.push('\n');
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
fn a_system_alone_prints_its_part() {
    let dir = tempfile::tempdir().unwrap();
    // Both systems miss a row then.
    let both = "doorbell reproduce e1000 ibmveth --set nic.read_across=no";
    let both = shell(both, dir.path());
    assert_eq!(both.matches("\nMissed").count(), 2, "{both}");
    assert_eq!(alone(&both, "ibmveth"), shell("doorbell reproduce ibmveth", dir.path()));
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
