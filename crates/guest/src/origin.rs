//! The origin of a boot's numbers: the kernel, its compiler, and the files of its modules.

use crate::kernel::Kernel;
use crate::{Error, elf};
use sha2::{Digest, Sha256};
use std::path::Path;

/// The origin of a boot's numbers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// The kernel's own words on itself, `/proc/version`: release, compiler, linker, build.
    pub version: String,
    /// SHA-256 of its image, in hexadecimal.
    pub image_sha256: String,
    /// The loaded modules, in their order.
    pub modules: Vec<ModuleFile>,
}

/// The file of a module.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModuleFile {
    /// The name of the module.
    pub name: String,
    /// SHA-256 of the file, in hexadecimal.
    pub sha256: String,
    /// The hash of its sources that the kernel's build has put into it, if it has.
    pub srcversion: Option<String>,
}

impl Origin {
    /// Returns the origin of a kernel with these modules, which says `version` of itself.
    pub(crate) fn of(kernel: &Kernel, modules: &[String], version: &str) -> Result<Origin, Error> {
        let file = |name: &String| {
            let unpacked = kernel.modules.text(name)?;
            let srcversion = elf::modinfo(&unpacked, "srcversion").ok();
            Ok(ModuleFile {
                name: name.clone(),
                sha256: sha256(kernel.modules.file(name)?)?,
                srcversion: srcversion.and_then(|all| all.into_iter().next()),
            })
        };
        Ok(Origin {
            version: version.trim().to_owned(),
            image_sha256: sha256(kernel.image())?,
            modules: modules.iter().map(file).collect::<Result<_, Error>>()?,
        })
    }

    /// Returns the release that the kernel calls itself.
    pub fn release(&self) -> &str {
        self.version.split_whitespace().nth(2).unwrap_or_default()
    }

    /// Returns the compiler that built it.
    pub fn compiler(&self) -> Option<&str> {
        // The first in parentheses is who built it, the second the compiler and the linker.
        let (_, rest) = self.version.split_once(") (")?;
        let mut depth = 0_i32;
        let end = rest.find(|c: char| {
            depth += i32::from(c == '(') - i32::from(c == ')');
            depth < 0 || (depth == 0 && c == ',')
        });
        Some(&rest[..end?])
    }
}

fn sha256(file: &Path) -> Result<String, Error> {
    let bytes = std::fs::read(file).map_err(Error::io(file.display()))?;
    Ok(format!("{:x}", Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use super::Origin;

    fn of(version: &str) -> Origin {
        let (image_sha256, modules) = (String::new(), Vec::new());
        Origin { version: version.to_owned(), image_sha256, modules }
    }

    #[test]
    fn the_compiler_stands_between_builder_and_linker() {
        let distribution = of("Linux version 6.12.90+deb13-amd64 (kernel@example.org) \
             (x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0, GNU ld (GNU Binutils for Debian) \
             2.44) #1 SMP PREEMPT_DYNAMIC Debian 6.12.90-1 (2026-05-01)");
        assert_eq!(distribution.release(), "6.12.90+deb13-amd64");
        let gcc = "x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0";
        assert_eq!(distribution.compiler(), Some(gcc));
        let own = of("Linux version 6.1.0 (me@here) (clang version 19.1.7, LLD 19.1.7) #2 SMP");
        assert_eq!(own.compiler(), Some("clang version 19.1.7"));
        let old = of("Linux version 4.4.0 (me@here) (gcc version 5.4.0 (Ubuntu) ) #1 SMP");
        assert_eq!(old.compiler(), Some("gcc version 5.4.0 (Ubuntu) "));
        assert_eq!(of("").compiler(), None);
    }
}
