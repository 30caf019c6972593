//! Files of integration tests that no program has.
//!
//! A package's integration tests are modules of one program, `tests/it/main.rs`, which links all
//! that they need once; those that need QEMU may be in `tests/qemu/main.rs`. Cargo does not miss a
//! file that no `mod` names.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the source files in a package's `tests` that are not in the programs `it` and `qemu`:
/// neither their `main.rs` nor declared by it or by one of its modules. They are forgotten, or a
/// program of their own. The names are sorted and begin behind `tests/`.
///
/// `manifest_dir` is `env!("CARGO_MANIFEST_DIR")`.
///
/// # Panics
/// If a file or a folder is not readable.
pub fn forgotten(manifest_dir: &str) -> Vec<String> {
    let tests = Path::new(manifest_dir).join("tests");
    let mut files = BTreeSet::new();
    sources(&tests, &mut files);
    for program in ["it", "qemu"] {
        remove_modules(&tests.join(program).join("main.rs"), &mut files);
    }
    let names = files.iter().map(|f| f.strip_prefix(&tests).expect("it was found there"));
    names.map(|n| n.to_string_lossy().into_owned()).collect()
}

/// Adds the source files of a folder and of those in it.
fn sources(folder: &Path, files: &mut BTreeSet<PathBuf>) {
    let all = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    for path in all.map(|entry| entry.expect("readable").path()) {
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.insert(path);
        }
    }
}

/// Removes a file that is there, and those of the modules that it declares.
fn remove_modules(file: &Path, files: &mut BTreeSet<PathBuf>) {
    if !files.remove(file) {
        return;
    }
    let text = fs::read_to_string(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let folder = match file.file_stem().and_then(|s| s.to_str()) {
        Some("main" | "mod") => file.with_file_name(""),
        _ => file.with_extension(""),
    };
    for name in text.lines().filter_map(declared) {
        remove_modules(&folder.join(format!("{name}.rs")), files);
        remove_modules(&folder.join(name).join("mod.rs"), files);
    }
}

/// Returns the name in `mod name;`, of any visibility.
fn declared(line: &str) -> Option<&str> {
    let (before, name) = line.trim().strip_suffix(';')?.split_once("mod ")?;
    (before.is_empty() || before.starts_with("pub")).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join("tests").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        dir
    }

    #[test]
    fn what_is_in_no_program_or_its_own_is_forgotten() {
        let dir = package(&[
            ("alone.rs", ""),
            ("other/main.rs", "mod part;"),
            ("other/part.rs", ""),
            ("qemu/main.rs", "mod a;\n"),
            ("qemu/a.rs", ""),
            ("qemu/b.rs", ""),
            ("it/main.rs", "mod a;\n#[cfg(unix)]\npub(crate) mod b;\n// mod c;\nmod d {}\n"),
            ("it/a.rs", "mod inner;\nmod missing;\n"),
            ("it/a/inner.rs", "mod inner;\n"),
            ("it/b/mod.rs", "pub mod part;\n"),
            ("it/b/part.rs", ""),
            ("it/b/more.rs", ""),
            ("it/c.rs", ""),
            ("it/d.rs", ""),
            ("it/snapshots/it__a.snap", ""),
        ]);
        assert_eq!(
            forgotten(dir.path().to_str().unwrap()),
            [
                "alone.rs",
                "it/b/more.rs",
                "it/c.rs",
                "it/d.rs",
                "other/main.rs",
                "other/part.rs",
                "qemu/b.rs"
            ]
        );
    }

    /// The first is used outside of this workspace, so its tests need nothing of it. Each test of
    /// the second needs a process of its own, for the reason in its file.
    #[test]
    fn no_file_is_forgotten_in_crates_that_cannot_ask() {
        let of = |krate: &str| forgotten(&format!("{}/../{krate}", env!("CARGO_MANIFEST_DIR")));
        assert_eq!(of("moderation"), [""; 0]);
        assert_eq!(of("vfio-user"), ["no_descriptor_left.rs", "reaper.rs"]);
    }
}
