//! Tells the program the commit that it is built from, and the hash of the sources that decide the
//! numbers of a run: points of another model are not its own, also where nothing was committed.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The crates that a run's numbers come from.
const MODEL: [&str; 11] = [
    "bus",
    "devices",
    "drivers",
    "hal",
    "host-io",
    "layout",
    "moderation",
    "packet",
    "sim",
    "spec",
    "systems",
];

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_owned())
}

/// Lists the sources in a directory, but for tests.
fn sources(dir: &Path, all: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.file_stem().is_some_and(|name| name == "tests") {
            continue;
        }
        if path.is_dir() {
            sources(&path, all)?;
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push(path);
        }
    }
    Ok(())
}

/// Returns the hash of the sources of the model.
fn model() -> io::Result<String> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut hash = Sha256::new();
    for name in MODEL {
        let dir = crates.join(name).join("src");
        println!("cargo::rerun-if-changed={}", dir.display());
        let mut files = Vec::new();
        sources(&dir, &mut files)?;
        files.sort();
        for file in files {
            let own = file.strip_prefix(&crates).unwrap_or(&file);
            let text = fs::read(&file)?;
            hash.update(format!("{} {}\n", own.display(), text.len()));
            hash.update(text);
        }
    }
    Ok(format!("{:x}", hash.finalize())[..12].to_owned())
}

fn main() -> io::Result<()> {
    // HEAD changes when another branch is checked out, its log with each commit.
    for name in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    println!("cargo::rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    let commit = git(&["rev-parse", "--short=12", "HEAD"]).unwrap_or_default();
    let built =
        if commit.is_empty() { version.to_owned() } else { format!("{version} ({commit})") };
    println!("cargo::rustc-env=DOORBELL_VERSION={built}");
    println!("cargo::rustc-env=DOORBELL_COMMIT={commit}");
    println!("cargo::rustc-env=DOORBELL_MODEL={}", model()?);
    Ok(())
}
