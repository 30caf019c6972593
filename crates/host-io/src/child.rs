//! Child processes that end with their parent.
//!
//! Each child gets a parent-death signal (prctl(2), `PR_SET_PDEATHSIG`), so that it ends even if
//! its parent is killed. A session of its own keeps a terminal's Ctrl-C from it and gives it its
//! own CPU share (sched(7), "The autogroup feature"), as a daemon has.
//!
//! The kernel sends the signal when the *thread* that started the child ends, so that thread must
//! live as long as the child may.

use rustix::process::{
    Pid, Signal, getppid, kill_process, set_parent_process_death_signal, setsid,
};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};
use std::{io, os::unix::process::CommandExt};

/// Time between two looks at a child that is to end.
const LOOK: Duration = Duration::from_millis(5);

/// A running program; it is killed and reaped when the guard is dropped.
#[derive(Debug)]
pub struct ChildGuard {
    child: Child,
    name: String,
}

impl ChildGuard {
    /// Starts `command`. Errors call it `name`.
    pub fn spawn(name: &str, command: &mut Command) -> io::Result<ChildGuard> {
        let parent = std::process::id();
        // SAFETY: between fork and exec only async-signal-safe functions are called: setsid, prctl
        // and getppid.
        unsafe {
            command.pre_exec(move || {
                setsid()?;
                set_parent_process_death_signal(Some(Signal::KILL))?;
                // A parent that ended before the request sends no signal any more.
                match getppid() {
                    Some(p) if p.as_raw_pid() as u32 == parent => Ok(()),
                    _ => Err(io::ErrorKind::NotFound.into()),
                }
            });
        }
        let child =
            command.spawn().map_err(|e| io::Error::new(e.kind(), format!("{name}: {e}")))?;
        Ok(ChildGuard { child, name: name.to_owned() })
    }

    /// Returns its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns its standard input, once, if it is a pipe.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Returns its standard output, once, if it is a pipe.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Returns its standard error, once, if it is a pipe.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Returns its exit status if it has ended.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&mut self, signal: Signal) -> io::Result<()> {
        if self.ended()?.is_none() {
            // It has not been reaped, so that the process id is its own.
            kill_process(Pid::from_child(&self.child), signal)?;
        }
        Ok(())
    }

    /// Waits until it ends. Returns an error (`TimedOut`) if it does not within `limit`.
    pub fn wait(&mut self, limit: Duration) -> io::Result<ExitStatus> {
        let until = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if Instant::now() > until {
                let why = format!("{} does not end", self.name);
                return Err(io::Error::new(io::ErrorKind::TimedOut, why));
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Returns an error with the exit status if it has ended.
    pub fn alive(&mut self) -> io::Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(io::Error::other(format!("{} has ended: {status}", self.name))),
        }
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Both fail for a child that has been reaped, which is no error here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests;
