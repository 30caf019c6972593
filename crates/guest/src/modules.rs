//! Kernel modules: files by name, their order, and their text without compression.

use crate::instructions::Text;
use crate::{Error, elf, files, objects};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Files that name what is built into a kernel, or what modules need.
const BUILT_IN: &str = "modules.builtin";
const DEPENDENCIES: &str = "modules.dep";

/// The modules of a kernel.
#[derive(Clone, Default, Debug)]
pub(crate) struct Modules {
    files: BTreeMap<String, PathBuf>,
    /// Modules that are built in: the directory with the list of them, and their place there.
    built_in: BTreeMap<String, (PathBuf, PathBuf)>,
    /// The modules that a module needs, as `modules.dep` says. Those that it does not name say so
    /// themselves.
    needs: BTreeMap<String, Vec<String>>,
}

/// Returns the name of the module in a file: `-` and `_` are the same.
fn name_of(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (stem, suffix) = file.split_once(".ko")?;
    matches!(suffix, "" | ".xz" | ".zst" | ".gz").then(|| stem.replace('-', "_"))
}

impl Modules {
    /// Finds the modules below a directory.
    pub(crate) fn below(directory: &Path) -> Result<Modules, Error> {
        let mut all = Modules::default();
        all.add_below(directory)?;
        if all.files.is_empty() {
            let place = directory.display();
            return Err(Error::Input(format!("--modules {place}: there is no .ko file below it")));
        }
        Ok(all)
    }

    /// Adds what is below a directory, if it exists.
    pub(crate) fn add_below(&mut self, directory: &Path) -> Result<(), Error> {
        if !directory.exists() {
            return Ok(());
        }
        for path in files::below(directory)? {
            let read = || std::fs::read_to_string(&path).map_err(Error::io(path.display()));
            if path.ends_with(BUILT_IN) {
                let root = path.parent().unwrap_or(Path::new(""));
                self.built_in.extend(read()?.lines().filter_map(|l| {
                    let place = l.strip_prefix("kernel/").unwrap_or(l);
                    Some((name_of(Path::new(l))?, (root.to_owned(), place.into())))
                }));
            } else if path.ends_with(DEPENDENCIES) {
                self.needs.extend(read()?.lines().filter_map(|l| {
                    let (module, needs) = l.split_once(':')?;
                    let names = needs.split_whitespace().filter_map(|n| name_of(Path::new(n)));
                    Some((name_of(Path::new(module))?, names.collect()))
                }));
            } else if let Some(name) = name_of(&path) {
                self.files.insert(name, path);
            }
        }
        // A build tree keeps the file of a module that has been built in since.
        self.files.retain(|name, _| !self.built_in.contains_key(name));
        Ok(())
    }

    /// Adds a file, in the place of another of that name.
    pub(crate) fn add(&mut self, file: &Path) -> Result<(), Error> {
        let wrong = |why: &str| Error::Input(format!("--module {}: {why}", file.display()));
        if !file.exists() {
            return Err(wrong("there is no such file"));
        }
        let name = name_of(file).filter(|_| file.is_file());
        let name = name.ok_or_else(|| wrong("it has to be a .ko file"))?;
        // It may need others than the one before it.
        self.needs.remove(&name);
        self.files.insert(name, file.to_owned());
        Ok(())
    }

    /// Returns modules and all that they need, each behind what it needs. The error is the name of
    /// a missing one.
    pub(crate) fn order(&self, wanted: &[&str]) -> Result<Vec<String>, String> {
        let mut order = Vec::new();
        let mut seen = BTreeSet::new();
        for module in wanted {
            self.visit(&module.replace('-', "_"), &mut seen, &mut order)?;
        }
        Ok(order)
    }

    /// Returns true if a module is part of the kernel, and no file.
    pub(crate) fn has_built_in(&self, module: &str) -> bool {
        let module = module.replace('-', "_");
        !self.files.contains_key(&module) && self.built_in.contains_key(&module)
    }

    /// Returns the text of a module that is built in, from the objects of the build tree.
    pub(crate) fn objects(&self, module: &str) -> Result<Vec<Text>, Error> {
        let module = module.replace('-', "_");
        let Some((root, place)) = self.built_in.get(&module) else { return Ok(Vec::new()) };
        objects::text(root, place, &module)
    }

    fn visit(
        &self,
        module: &str,
        seen: &mut BTreeSet<String>,
        order: &mut Vec<String>,
    ) -> Result<(), String> {
        if !seen.insert(module.to_owned()) {
            return Ok(());
        }
        if !self.files.contains_key(module) {
            return if self.built_in.contains_key(module) {
                Ok(())
            } else {
                Err(module.to_owned())
            };
        }
        let needs = match self.needs.get(module) {
            Some(needs) => needs.clone(),
            None => {
                let text = self.text(module).map_err(|_| module.to_owned())?;
                let depends = elf::modinfo(&text, "depends").map_err(|_| module.to_owned())?;
                let names = depends.iter().flat_map(|d| d.split(','));
                names.filter(|n| !n.is_empty()).map(|n| n.replace('-', "_")).collect()
            }
        };
        for needed in needs {
            self.visit(&needed, seen, order)?;
        }
        order.push(module.to_owned());
        Ok(())
    }

    /// Returns the file of a module.
    pub(crate) fn file(&self, module: &str) -> Result<&Path, Error> {
        let file = self.files.get(module).map(PathBuf::as_path);
        file.ok_or_else(|| Error::Input(format!("there is no module `{module}`")))
    }

    /// Returns a module as the kernel takes it.
    pub(crate) fn text(&self, module: &str) -> Result<Vec<u8>, Error> {
        let path = self.file(module)?;
        let packed = std::fs::read(path).map_err(Error::io(path.display()))?;
        let mut text = Vec::new();
        let read = match path.extension().and_then(|e| e.to_str()) {
            Some("xz") => lzma_rust2::XzReader::new(&packed[..], true).read_to_end(&mut text),
            Some("gz") => flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut text),
            Some("zst") => ruzstd::decoding::StreamingDecoder::new(&packed[..])
                .map_err(std::io::Error::other)
                .and_then(|mut d| d.read_to_end(&mut text)),
            _ => return Ok(packed),
        };
        read.map_err(Error::io(path.display()))?;
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
