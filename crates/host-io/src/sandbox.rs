//! Confinement of this process to what it still needs: names of files, TCP and other processes by
//! Landlock, system calls by seccomp.
//!
//! Both hold until the process ends, for threads made later too. [`Sandbox::enter`] therefore comes
//! when everything is open, and before other threads are made. What a kernel does not have is left
//! out, and [`Confined`] tells it.

use landlock::{
    ABI, Access, AccessFs, AccessNet, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use std::path::PathBuf;
use std::{fmt, io};

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod calls;

/// The rules of Landlock that are asked for: files, TCP, signals and abstract sockets (Linux 6.12).
const RULES: ABI = ABI::V6;

/// A confinement: the list of what a process keeps beside its open files.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Sandbox {
    /// Directories in which files and sockets get names and lose them.
    names: Vec<PathBuf>,
    /// UNIX sockets are made.
    sockets: bool,
}

/// The confinement that the kernel enforces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Confined {
    /// The part of Landlock's rules that the kernel enforces.
    pub files: Extent,
    /// The number of system calls that seccomp leaves, if the system has filters.
    pub calls: Option<usize>,
}

/// The part of a rule set that the kernel enforces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// All of it.
    Whole,
    /// The rules that an older kernel knows: at least those of files.
    Part,
    /// None.
    Nothing,
}

impl fmt::Display for Confined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.files {
            Extent::Whole => "Landlock for files, TCP and other processes",
            Extent::Part => "Landlock for files, as far as this kernel has it",
            Extent::Nothing => "no Landlock in this kernel",
        })?;
        match self.calls {
            Some(n) => write!(f, "; seccomp leaves {n} system calls"),
            None => f.write_str("; no seccomp on this system"),
        }
    }
}

impl Sandbox {
    /// Keeps that files and sockets get names in this directory, and lose them.
    pub fn with_names_in(mut self, dir: impl Into<PathBuf>) -> Sandbox {
        self.names.push(dir.into());
        self
    }

    /// Keeps that UNIX sockets are made, connected and listened to.
    pub const fn with_unix_sockets(mut self) -> Sandbox {
        self.sockets = true;
        self
    }

    /// Confines this thread and all that it makes. What is open stays open.
    ///
    /// # Errors
    /// If the kernel refuses a rule or a filter that it knows.
    pub fn enter(&self) -> io::Result<Confined> {
        let files = self.restrict_files().map_err(io::Error::other)?;
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        let calls = calls::filter(self.sockets)?;
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let calls = None;
        Ok(Confined { files, calls })
    }

    fn restrict_files(&self) -> Result<Extent, RulesetError> {
        let names = AccessFs::MakeReg | AccessFs::MakeSock | AccessFs::RemoveFile;
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(RULES))?
            .handle_access(AccessNet::from_all(RULES))?
            .scope(Scope::from_all(RULES))?
            .create()?;
        for dir in &self.names {
            // A directory that has gone has no names.
            let Ok(fd) = PathFd::new(dir) else { continue };
            rules = rules.add_rule(PathBeneath::new(fd, names))?;
        }
        Ok(match rules.restrict_self()?.ruleset {
            RulesetStatus::FullyEnforced => Extent::Whole,
            RulesetStatus::PartiallyEnforced => Extent::Part,
            RulesetStatus::NotEnforced => Extent::Nothing,
        })
    }
}

#[cfg(test)]
mod tests;
