//! Kernels: Debian's by version, those of packages, and those that somebody has built.

use crate::arch::Arch;
use crate::modules::Modules;
use crate::{Error, Progress, fetch};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Begins the name of a kernel of Debian.
const DEBIAN: &str = "debian:";

/// A kernel with its modules.
#[derive(Debug)]
pub struct Kernel {
    /// Its name in results: as a person wrote it.
    pub name: String,
    image: PathBuf,
    /// Its modules.
    pub(crate) modules: Modules,
    /// The unpacked package, which goes with the kernel.
    _unpacked: Option<tempfile::TempDir>,
}

/// Returns the packages of `a.deb+b.deb`.
fn packages(name: &str) -> Vec<&str> {
    let (mut all, mut rest) = (Vec::new(), name);
    while let Some(end) = rest.find(".deb+").map(|at| at + ".deb".len()) {
        all.push(&rest[..end]);
        rest = &rest[end + 1..];
    }
    all.push(rest);
    all
}

/// The advice for a module that is not there.
const ELSEWHERE: &str = "name the directory that has it in --modules, or the file in --module";

impl Kernel {
    /// Returns true for a range of Debian's kernels, such as `debian:6.1..7.3`.
    pub fn is_range(name: &str) -> bool {
        name.strip_prefix(DEBIAN).is_some_and(|version| version.contains(".."))
    }

    /// Returns the names of the kernels of a range: of two series each series between them, of two
    /// releases each release, as Debian's mirrors have them.
    pub fn range(name: &str, arch: Arch, progress: &Progress<'_>) -> Result<Vec<String>, Error> {
        let range = name.strip_prefix(DEBIAN).unwrap_or(name);
        let versions = fetch::debian_kernels(arch, range, progress)?;
        Ok(versions.iter().map(|version| format!("{DEBIAN}{version}")).collect())
    }

    /// Finds a kernel: `debian:6.12`, the path of a `.deb`, or the path of an image whose modules
    /// are below `modules` (a build tree, or a directory of /lib/modules).
    pub fn find(
        name: &str,
        modules: Option<&Path>,
        arch: Arch,
        progress: &Progress<'_>,
    ) -> Result<Kernel, Error> {
        let path = Path::new(name);
        if let Some(version) = name.strip_prefix(DEBIAN) {
            if modules.is_some() {
                return Err(Error::Input(format!(
                    "--modules: {name} has its own; --module replaces one of them"
                )));
            }
            let directory = fetch::debian_kernel(arch, version, progress)?;
            let mut all = Modules::below(&directory.join("kernel"))?;
            all.add_below(&directory.join("drivers"))?;
            return Ok(Kernel {
                name: name.to_owned(),
                image: directory.join("vmlinuz"),
                modules: all,
                _unpacked: None,
            });
        }
        // A file name may have a plus: Debian's versions have.
        let packages = packages(name);
        if name.ends_with(".deb") && packages.iter().all(|deb| Path::new(deb).is_file()) {
            return Kernel::unpack(name, &packages, modules);
        }
        if !path.is_file() {
            return Err(Error::Input(format!(
                "--kernel {name}: allowed are debian:VERSION (5.10, 6.1, 6.12, 6.16 to 6.18, 7.2, \
                 7.3, a release such as 6.12.43, each also with -cloud or -rt, or all \
                 between two, 6.1..7.3), the path of a \
                 kernel's .deb, several such with + between them, and the path of a kernel's image"
            )));
        }
        let Some(below) = modules else {
            return Err(Error::Input(format!(
                "--kernel {name}: an image needs --modules DIR, its build tree or its directory of \
                 /lib/modules"
            )));
        };
        let modules = Modules::below(below)?;
        Ok(Kernel { name: name.to_owned(), image: path.to_owned(), modules, _unpacked: None })
    }

    /// Unpacks packages that have an image and modules: one, as `make bindeb-pkg` makes it, or
    /// those of a distribution.
    fn unpack(name: &str, packages: &[&str], modules: Option<&Path>) -> Result<Kernel, Error> {
        let to = tempfile::tempdir().map_err(Error::io("a temporary directory"))?;
        for package in packages {
            let done = Command::new("dpkg-deb").arg("-x").arg(package).arg(to.path()).output();
            let done = done.map_err(Error::io("dpkg-deb"))?;
            if !done.status.success() {
                let said = String::from_utf8_lossy(&done.stderr);
                return Err(Error::Input(format!("--kernel {name}: {}", said.trim())));
            }
        }
        let image = |p: &&PathBuf| {
            let name = p.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("vmlinuz") || name.starts_with("vmlinux")
        };
        let files = crate::files::below(to.path())?;
        let Some(image) = files.iter().find(image).cloned() else {
            return Err(Error::Input(format!("--kernel {name}: no package has a file vmlinuz")));
        };
        let modules = Modules::below(modules.unwrap_or(to.path()))?;
        Ok(Kernel { name: name.to_owned(), image, modules, _unpacked: Some(to) })
    }

    /// Replaces a module by a file.
    pub fn replace(&mut self, file: &Path) -> Result<(), Error> {
        self.modules.add(file)
    }

    /// Returns the image that QEMU loads.
    pub fn image(&self) -> &Path {
        &self.image
    }

    /// Returns modules with all that they need, in the order in which they are loaded. What is
    /// built in is not among them.
    pub fn load_order(&self, wanted: &[&str]) -> Result<Vec<String>, Error> {
        self.modules.order(wanted).map_err(|module| Error::NoModule {
            kernel: self.name.clone(),
            module,
            advice: ELSEWHERE,
        })
    }
}

#[cfg(test)]
mod tests;
