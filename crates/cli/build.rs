//! Tells the program the commit that it is built from.

use std::path::Path;
use std::process::Command;

fn git(args: &[&str]) -> Option<String> {
    let out = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8(out.stdout).ok()?.trim().to_owned())
}

fn main() {
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
}
