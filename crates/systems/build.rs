//! Lists the profiles and scenarios of the repository, so that a file is registered by its place.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // A checkout that shares its target directory with another one has that one's script.
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..");
    for dir in ["profiles", "scenarios"] {
        let place = root.join(dir).canonicalize()?;
        println!("cargo::rerun-if-changed={}", place.display());
        let mut files = fs::read_dir(&place)?
            .map(|entry| entry.map(|e| e.path()))
            .collect::<io::Result<Vec<_>>>()?;
        files.retain(|f| f.extension().is_some_and(|e| e == "toml"));
        files.sort();
        let mut list = String::from("&[\n");
        for file in &files {
            let name = file.file_stem().unwrap_or_default();
            writeln!(list, "({name:?}, include_str!({file:?})),").expect("a string takes it");
        }
        list.push(']');
        fs::write(Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join(dir), list)?;
    }
    Ok(())
}
