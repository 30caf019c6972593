//! The guest's first file system: static busybox as its shell, Debian's own tools, modules,
//! workloads. Format: cpio "newc" (Linux, Documentation/driver-api/early-userspace).

use crate::arch::Arch;
use crate::{Error, Kernel, Machine, elf, xdp};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const DIRECTORY: u32 = 0o40755;
const EXECUTABLE: u32 = 0o100755;
const PLAIN: u32 = 0o100644;

/// Programs of the guest, where their packages have them.
const PROGRAMS: [&str; 4] = ["usr/bin/iperf3", "usr/bin/ping", "usr/sbin/ethtool", "usr/bin/ip"];

/// Packs the first file system of a guest, with modules of the kernel in `/m`. In virtual time its
/// shell asks for its lines.
pub fn initramfs(
    machine: &Machine,
    kernel: &Kernel,
    modules: &[String],
    is_virtual: bool,
) -> Result<Vec<u8>, Error> {
    let mut archive = Archive::of(machine, kernel, modules)?;
    if is_virtual {
        let script = concat!(include_str!("virtual.sh"), "while hear; do work \"$line\"; done\n");
        archive.plain("script", script.as_bytes());
    }
    Ok(archive.finish())
}

/// An archive under construction.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    names: BTreeSet<String>,
}

impl Archive {
    /// Begins an archive with the programs that every guest of this machine has, and modules of the
    /// kernel in `/m`.
    pub(crate) fn of(
        machine: &Machine,
        kernel: &Kernel,
        modules: &[String],
    ) -> Result<Archive, Error> {
        let mut archive = Archive::default();
        archive.programs(&machine.programs(), machine.arch)?;
        for (root, files) in &machine.packages {
            archive.package(root, files, machine.arch)?;
        }
        for module in modules {
            archive.plain(&format!("m/{module}.ko"), &kernel.modules.text(module)?);
        }
        Ok(archive)
    }

    /// Adds a file and the directories above it. A name that is there already stays as it is.
    pub(crate) fn put(&mut self, name: &str, data: &[u8], mode: u32) {
        if let Some((parent, _)) = name.rsplit_once('/') {
            self.put(parent, &[], DIRECTORY);
        }
        if self.names.insert(name.to_owned()) {
            self.entry(name, data, mode);
        }
    }

    fn entry(&mut self, name: &str, data: &[u8], mode: u32) {
        let size = |n: usize| u32::try_from(n).expect("a file of less than 4 GiB");
        // Inode, mode, owner, group, links, time, size, two devices of two numbers, name, sum.
        let (length, name_length) = (size(data.len()), size(name.len() + 1));
        let fields =
            [self.entries, mode, 0, 0, 1, 0, length, 0, 0, 0, 0, name_length, 0].map(hexadecimal);
        self.bytes.extend_from_slice(b"070701");
        self.bytes.extend(fields.as_flattened());
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
        self.entries += 1;
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Returns the archive.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", &[], 0);
        self.bytes
    }

    /// Adds a program's text.
    pub(crate) fn executable(&mut self, name: &str, data: &[u8]) {
        self.put(name, data, EXECUTABLE);
    }

    /// Adds a file that is only read.
    pub(crate) fn plain(&mut self, name: &str, data: &[u8]) {
        self.put(name, data, PLAIN);
    }

    /// Adds the programs that every guest has: init, shell, network tools with their libraries,
    /// XDP programs.
    fn programs(&mut self, root: &Path, arch: Arch) -> Result<(), Error> {
        self.executable("init", include_bytes!("init.sh"));
        self.executable("bin/busybox", &read(&root.join("usr/bin/busybox"))?);
        let libraries = root.join("usr/lib").join(arch.triple());
        for program in PROGRAMS {
            let name = program.rsplit('/').next().unwrap_or(program);
            self.program(&format!("bin/{name}"), &root.join(program), root, &libraries)?;
        }
        // iperf3 cancels threads, for which the C library loads this one.
        self.library("libgcc_s.so.1", root, &libraries)?;
        for (name, program) in xdp::PROGRAMS {
            self.plain(&format!("xdp/{name}.o"), &xdp::object(program)?);
        }
        let loader = arch.loader();
        let file = loader.rsplit('/').next().unwrap_or(loader);
        self.executable(loader, &read(&libraries.join(file))?);
        Ok(())
    }

    /// Adds programs and libraries of an unpacked package.
    fn package(&mut self, root: &Path, files: &[String], arch: Arch) -> Result<(), Error> {
        let libraries = root.join("usr/lib").join(arch.triple());
        for name in files {
            match root.join("usr/bin").join(name) {
                path if path.exists() => {
                    self.program(&format!("bin/{name}"), &path, root, &libraries)?;
                }
                _ => self.library(name, root, &libraries)?,
            }
        }
        Ok(())
    }

    fn program(
        &mut self,
        name: &str,
        path: &Path,
        root: &Path,
        libraries: &Path,
    ) -> Result<(), Error> {
        let text = read(path)?;
        self.executable(name, &text);
        for library in needed(&text, path)? {
            self.library(&library, root, libraries)?;
        }
        Ok(())
    }

    /// Adds a library and those that it needs.
    fn library(&mut self, name: &str, root: &Path, libraries: &Path) -> Result<(), Error> {
        let inside = format!("lib/{name}");
        if self.names.contains(&inside) {
            return Ok(());
        }
        let places = [libraries.join(name), root.join("usr/lib64").join(name)];
        let path: &PathBuf = places.iter().find(|p| p.exists()).unwrap_or(&places[0]);
        self.program(&inside, path, root, libraries)
    }
}

/// Returns the eight hexadecimal digits of a number.
fn hexadecimal(value: u32) -> [u8; 8] {
    std::array::from_fn(|n| b"0123456789abcdef"[(value >> (28 - 4 * n) & 15) as usize])
}

fn read(path: &Path) -> Result<Vec<u8>, Error> {
    std::fs::read(path).map_err(Error::io(path.display()))
}

fn needed(text: &[u8], path: &Path) -> Result<Vec<String>, Error> {
    elf::libraries(text).map_err(|e| Error::Io {
        place: path.display().to_string(),
        source: std::io::Error::other(e),
    })
}

#[cfg(test)]
mod tests;
