//! Downloads: QEMU, the programs of a guest, and Debian's kernels, into a cache, once.
//!
//! The work is done by the scripts of `tools/guest`, with an apt of their own: it resolves
//! dependencies, verifies, and goes on where it was interrupted. Nothing is installed; root is not
//! needed.

use crate::arch::Arch;
use crate::{Error, Progress, Workload};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SCRIPTS: [(&str, &str); 5] = [
    ("lib.sh", include_str!("../../../tools/lib.sh")),
    ("guest/apt.sh", include_str!("../../../tools/guest/apt.sh")),
    ("guest/machine.sh", include_str!("../../../tools/guest/machine.sh")),
    ("guest/package.sh", include_str!("../../../tools/guest/package.sh")),
    ("guest/kernel.sh", include_str!("../../../tools/guest/kernel.sh")),
];

/// QEMU and the programs of a guest of one architecture.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The architecture.
    pub arch: Arch,
    directory: PathBuf,
    /// Roots of packages, and their files that the guest gets.
    pub(crate) packages: Vec<(PathBuf, Vec<String>)>,
}

impl Machine {
    /// Brings it into the cache unless it is there.
    pub fn fetch(arch: Arch, progress: &Progress<'_>) -> Result<Machine, Error> {
        let directory = script("machine.sh", &[arch.debian()], progress)?;
        Ok(Machine { arch, directory, packages: Vec::new() })
    }

    /// Adds the packages that the workloads need, and brings them into the cache.
    pub fn fetch_packages(
        &mut self,
        workloads: &[Workload],
        progress: &Progress<'_>,
    ) -> Result<(), Error> {
        for (name, files) in workloads.iter().flat_map(|w| &w.packages) {
            let root = self.fetch_package(name, progress)?;
            self.packages.push((root, files.clone()));
        }
        Ok(())
    }

    /// Brings a package of Debian into the cache with all that it needs. Returns the root of their
    /// files.
    pub fn fetch_package(&self, name: &str, progress: &Progress<'_>) -> Result<PathBuf, Error> {
        script("package.sh", &[self.arch.debian(), name], progress)
    }

    #[cfg(test)]
    pub(crate) fn at(arch: Arch, directory: PathBuf) -> Machine {
        Machine { arch, directory, packages: Vec::new() }
    }

    /// Returns the root of the guest's programs.
    pub(crate) fn programs(&self) -> PathBuf {
        self.directory.join("guest")
    }

    /// Returns the command that runs a program of QEMU's packages by its own loader and libraries.
    pub(crate) fn program(&self, name: &str) -> Command {
        let usr = self.directory.join("qemu/usr");
        let libraries = usr.join("lib/x86_64-linux-gnu");
        let mut command = Command::new(usr.join("lib64/ld-linux-x86-64.so.2"));
        command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
        command.arg("--library-path").arg(&libraries).arg(usr.join("bin").join(name));
        command
    }

    /// Returns the words with which QEMU tells its version.
    pub fn version(&self) -> Result<String, Error> {
        let said = self.emulator().arg("--version").output().map_err(Error::io("QEMU"))?;
        let said = String::from_utf8_lossy(&said.stdout);
        Ok(said.lines().next().unwrap_or_default().to_owned())
    }

    /// Returns the command that runs QEMU.
    pub fn emulator(&self) -> Command {
        let share = self.directory.join("qemu/usr/share");
        let mut command = self.program(self.arch.emulator());
        for firmware in ["qemu", "seabios"] {
            command.arg("-L").arg(share.join(firmware));
        }
        command
    }
}

/// A kernel of Debian in the cache.
pub(crate) fn debian_kernel(
    arch: Arch,
    version: &str,
    progress: &Progress<'_>,
) -> Result<PathBuf, Error> {
    script("kernel.sh", &[arch.debian(), version], progress)
}

/// Versions of Debian's kernels in a range, which its mirrors have.
pub(crate) fn debian_kernels(
    arch: Arch,
    range: &str,
    progress: &Progress<'_>,
) -> Result<Vec<String>, Error> {
    let printed = script("kernel.sh", &[arch.debian(), range], progress)?;
    Ok(printed.to_string_lossy().lines().map(str::to_owned).collect())
}

/// Begins the last line of a script that refuses its arguments or this machine.
const ERROR: &str = "error: ";

/// Runs a script, and returns the directory that it prints. Its lines on stderr are progress, but
/// for an error.
fn script(name: &str, arguments: &[&str], progress: &Progress<'_>) -> Result<PathBuf, Error> {
    let place = tempfile::tempdir().map_err(Error::io("a temporary directory"))?;
    std::fs::create_dir(place.path().join("guest")).map_err(Error::io(place.path().display()))?;
    for (file, text) in SCRIPTS {
        let path = place.path().join(file);
        std::fs::write(&path, text).map_err(Error::io(path.display()))?;
    }
    let mut child = Command::new("sh")
        .arg(place.path().join("guest").join(name))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(Error::io("sh"))?;
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            let told = line.trim_start_matches("guest: ");
            // The caller tells the error.
            if !told.starts_with(ERROR) {
                progress(told);
            }
            said.push(told.trim_start_matches(ERROR).to_owned());
        }
    }
    let done = child.wait_with_output().map_err(Error::io("sh"))?;
    if let (Some(2 | 3), Some(why)) = (done.status.code(), said.last()) {
        return Err(Error::Input(why.clone()));
    }
    if !done.status.success() {
        let from = said.len().saturating_sub(20);
        return Err(Error::Fetch { what: arguments.join(" "), said: said[from..].join("\n") });
    }
    let printed = String::from_utf8_lossy(&done.stdout);
    Ok(Path::new(printed.trim_end_matches('\n')).to_owned())
}

#[cfg(test)]
mod tests;
