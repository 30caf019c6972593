//! CPU priority of all measured processes, for machines with other load. Both arms get the same.
//!
//! With autogroups (sched(7)) a nice value counts within a session only, so the session's own is
//! set as well, and restored at the end.

use std::process::{Command, Stdio};
use std::{fs, path::PathBuf};

/// The nice value; nice(2) has -20 to 19.
const NICE: &str = "-15";

/// Raises the priority of our own session while it exists.
pub(super) struct Priority {
    before: String,
}

fn file(pid: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/autogroup"))
}

impl Priority {
    pub(super) fn raise() -> Priority {
        let text = fs::read_to_string(file("self")).unwrap_or_default();
        let before = text.split_whitespace().last().unwrap_or("0").to_owned();
        raise(std::process::id());
        Priority { before }
    }
}

impl Drop for Priority {
    fn drop(&mut self) {
        // Without autogroups there is nothing to restore.
        let _ = fs::write(file("self"), &self.before);
    }
}

/// Raises the priority of a process and its session, if permitted.
pub(super) fn raise(pid: u32) {
    let pid = pid.to_string();
    let _ = fs::write(file(&pid), NICE);
    let mut renice = Command::new("renice");
    renice.args(["-n", NICE, "-p", &pid]);
    let _ = renice.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
}
