//! Functions of a module that is built into a kernel, by its objects in the kernel's build tree.
//!
//! The kernel's symbols do not say which module a function is of. The commands that made the
//! objects do (`-DKBUILD_MODNAME`, in `.NAME.o.cmd`), and each section of an object is one piece of
//! the kernel: its functions lie there in the same distances.

use crate::instructions::Text;
use crate::{Error, elf, files};
use std::path::{Path, PathBuf};

/// The module of an object, in the command that makes it.
const MODULE: &str = "-DKBUILD_MODNAME=";

/// Returns the text of a module's objects. They are below the directory of the module, which is
/// `path` in the build tree `root`. Without a build tree there are none.
pub(crate) fn text(root: &Path, path: &Path, module: &str) -> Result<Vec<Text>, Error> {
    let directory = root.join(path.parent().unwrap_or(Path::new("")));
    if !directory.is_dir() {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for file in files::below(&directory)? {
        let Some(object) = object_of(&file) else { continue };
        let command = std::fs::read(&file).map_err(Error::io(file.display()))?;
        if !object.is_file() || module_of(&String::from_utf8_lossy(&command)) != Some(module) {
            continue;
        }
        let bytes = std::fs::read(&object).map_err(Error::io(object.display()))?;
        let wrong = |e| Error::Input(format!("{}: no ELF object: {e}", object.display()));
        all.extend(elf::text(&bytes).map_err(wrong)?);
    }
    Ok(all)
}

/// Returns the object that a file has the command of: `.main.o.cmd` is of `main.o`.
fn object_of(command: &Path) -> Option<PathBuf> {
    let name = command.file_name()?.to_str()?.strip_prefix('.')?.strip_suffix(".cmd")?;
    name.ends_with(".o").then(|| command.with_file_name(name))
}

/// Returns the module that a command compiles for. Links have none.
fn module_of(command: &str) -> Option<&str> {
    let (_, rest) = command.split_once(MODULE)?;
    let rest = rest.trim_start_matches(['\'', '"', '\\']);
    rest.find(['\'', '"', '\\', ' ']).map(|end| &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::{module_of, object_of};
    use std::path::Path;

    #[test]
    fn commands_name_object_and_module() {
        let of = |path: &str| object_of(Path::new(path)).map(|p| p.display().to_string());
        assert_eq!(of("a/.e1000_main.o.cmd").as_deref(), Some("a/e1000_main.o"));
        assert_eq!(of("a/.built-in.a.cmd"), None);
        assert_eq!(of("a/e1000_main.o"), None);
        let compiled = "savedcmd_a/e1000_main.o := gcc -DKBUILD_BASENAME='\"e1000_main\"' \
                        -DKBUILD_MODNAME='\"e1000\"' -D__KBUILD_MODNAME=kmod_e1000 -c";
        assert_eq!(module_of(compiled), Some("e1000"));
        assert_eq!(module_of("savedcmd_a/e1000.o := ld -r -o a/e1000.o"), None);
    }
}
