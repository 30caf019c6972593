//! The CPU before others, for all that is measured, on a machine that others use.
//!
//! Both arms get it alike. Where each session has a share of the CPU (sched(7), "The autogroup
//! feature") a process's nice value counts within its session only, so the session's is set too.
//! Our own session may be a shell's with more in it; what it had before is given back at the end.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What is asked for; nice(2) has it from -20 to 19.
const NICE: &str = "-15";

/// While it exists our own session is ahead.
#[derive(Debug)]
pub(super) struct Urgent {
    before: String,
}

fn file(pid: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/autogroup"))
}

impl Urgent {
    pub(super) fn begin() -> Urgent {
        let text = fs::read_to_string(file("self")).unwrap_or_default();
        let before = text.split_whitespace().last().unwrap_or("0").to_owned();
        hurry(std::process::id());
        Urgent { before }
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        // Where there is no such feature there is nothing to give back.
        let _ = fs::write(file("self"), &self.before);
    }
}

/// Puts a process and its session ahead of others. Without the right to it, it stays where it is.
pub(super) fn hurry(pid: u32) {
    let pid = pid.to_string();
    let _ = fs::write(file(&pid), NICE);
    let mut renice = Command::new("renice");
    renice
        .args(["-n", NICE, "-p", &pid])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let _ = renice.status();
}
