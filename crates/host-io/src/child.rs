//! Programs that end when we do.
//!
//! A daemon that outlives whoever started it has to be found and ended by hand. So each
//! child gets a parent-death signal (prctl(2), `PR_SET_PDEATHSIG`): it is killed also where we are,
//! by a signal that nobody can catch. A session of its own keeps a terminal's Ctrl-C from it, so
//! that we end it when its time has come, and gives it a share of the CPU that is not ours
//! (sched(7), "The autogroup feature"), as a daemon has.
//!
//! The signal comes when the *thread* that started the child ends, so that has to be one that lives
//! as long as the child may.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};

/// A running program; dropped, it is killed and waited for.
#[derive(Debug)]
pub struct Kept {
    child: Child,
    name: String,
}

impl Kept {
    /// Starts `command`, which people know as `name`.
    pub fn spawn(name: &str, command: &mut Command) -> io::Result<Kept> {
        let parent = std::process::id();
        // SAFETY: between fork and exec only async-signal-safe functions are called: setsid, prctl
        // and getppid.
        unsafe {
            command.pre_exec(move || {
                if libc::setsid() < 0 || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                    return Err(io::Error::last_os_error());
                }
                // The parent may have ended before it was asked for; then nobody will send it.
                if libc::getppid() as u32 != parent {
                    Err(io::ErrorKind::NotFound.into())
                } else {
                    Ok(())
                }
            });
        }
        let child =
            command.spawn().map_err(|e| io::Error::new(e.kind(), format!("{name}: {e}")))?;
        Ok(Kept { child, name: name.to_owned() })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// An error if it has ended, which says how.
    pub fn alive(&mut self) -> io::Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => Err(io::Error::other(format!("{} has ended: {status}", self.name))),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // It may have ended by itself; nobody is left to be told.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests;
