//! The files of fuzz targets in the tree: seeds, and packed corpora.

use super::Seed;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the directory of the fuzz targets.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Checks that the files of a target's seeds are what the code makes. With `DOORBELL_SEEDS=write`
/// they are written anew.
///
/// # Panics
/// Panics if a file differs, is missing, or is of no seed.
pub fn check_seeds(target: &str, seeds: &[Seed]) {
    let dir = root().join("seeds").join(target);
    if std::env::var_os("DOORBELL_SEEDS").is_some_and(|v| v == "write") {
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).expect("the tree is writable");
        for (name, bytes) in seeds {
            std::fs::write(dir.join(name), bytes).expect("the tree is writable");
        }
    }
    for (name, bytes) in seeds {
        let there = std::fs::read(dir.join(name)).unwrap_or_default();
        assert!(there == *bytes, "{target}/{name}: DOORBELL_SEEDS=write makes it anew");
    }
    let files = std::fs::read_dir(&dir).map_or(0, Iterator::count);
    assert_eq!(files, seeds.len(), "{target}: a file that no code makes");
}

/// Returns the names of the targets that have a corpus.
///
/// # Panics
/// Panics if their directory cannot be read.
pub fn corpora() -> Vec<String> {
    let all = std::fs::read_dir(root().join("corpora")).expect("the tree has corpora");
    let names = all.filter_map(|f| f.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter_map(|n| n.strip_suffix(".tar.xz").map(str::to_owned)).collect();
    names.sort_unstable();
    names
}

/// Runs all inputs of a target's corpus. Returns how many there are.
///
/// # Panics
/// Panics if `tar` does not unpack them, or as `attack` does. The input's name is printed then.
pub fn replay(target: &str, attack: impl Fn(&[u8])) -> usize {
    let to = tempfile::tempdir().expect("room for files");
    let corpus = root().join("corpora").join(format!("{target}.tar.xz"));
    let unpacked = Command::new("tar").arg("-xJf").arg(&corpus).arg("-C").arg(to.path()).status();
    assert!(unpacked.is_ok_and(|s| s.success()), "tar -xJf {}", corpus.display());
    let files = std::fs::read_dir(to.path()).expect("unpacked files");
    let files: Vec<PathBuf> = files.map(|f| f.expect("an entry").path()).collect();
    for file in &files {
        let bytes = std::fs::read(file).expect("an unpacked file");
        let name = Naming(target, file.file_name().and_then(|n| n.to_str()).unwrap_or_default());
        attack(&bytes);
        drop(name);
    }
    files.len()
}

/// Prints the names of a target and of an input if it is dropped in a panic.
struct Naming<'a>(&'a str, &'a str);

impl Drop for Naming<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}: input {} of the corpus", self.0, self.1);
        }
    }
}
