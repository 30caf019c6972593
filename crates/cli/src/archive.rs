//! `doorbell archive`: kept results in one file, with all that is needed to run them again.
//!
//! A `.tar.gz` of the results as they are (`results/`), the captures that their runs sent
//! (`captures/`, named by their hash), the scenarios and profiles that they name, as far as there
//! are files of them, and `MANIFEST.json`: program, command of the archive, and the SHA-256 of each
//! member. The same files give the same bytes, and the command prints the members. `doorbell
//! repeat` takes it: [`opened`].

use crate::args::Archive;
use crate::record::{extension, kept};
use doorbell_console::output::{SHARED, apart, begun_file, keep, print, text_of};
use doorbell_console::render::{Program, SCHEMA};
use doorbell_console::{DONE, Error, input};
use doorbell_host_io::files;
use doorbell_systems::Registry;
use flate2::read::GzDecoder;
use flate2::{Compression, GzBuilder};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Component, Path, PathBuf};
use tempfile::TempDir;

/// The key whose value is the path of a capture.
const CAPTURE: &str = "traffic.file";
/// The member that lists the others.
const MANIFEST: &str = "MANIFEST.json";
/// The endings of an archive's name.
const ENDINGS: [&str; 2] = [".tar.gz", ".tgz"];

/// A list of the members of an archive.
#[derive(Serialize, Deserialize)]
struct Manifest {
    schema: u32,
    doorbell: Program,
    kind: String,
    /// The command that runs the results again.
    repeat: String,
    /// SHA-256 of each member, by its name.
    sha256: BTreeMap<String, String>,
    /// The member of each capture, by the path that results have for it.
    captures: BTreeMap<String, String>,
}

/// The content of a member: a file, or a text in this program.
enum Member {
    File(PathBuf),
    Text(&'static str),
}

impl Member {
    fn sha256(&self) -> io::Result<String> {
        match self {
            Member::File(path) => sha256(files::open(path)?),
            Member::Text(text) => sha256(text.as_bytes()),
        }
    }
}

/// Members by their names.
type Members = BTreeMap<String, Member>;

/// Things that results name.
#[derive(Default)]
struct Named {
    /// Captures by their paths, with the hashes that results have of them.
    captures: BTreeMap<String, BTreeSet<String>>,
    scenarios: BTreeSet<String>,
    profiles: BTreeSet<String>,
}

impl Named {
    /// Takes what an object and all that is in it name.
    fn look(&mut self, value: &Value) {
        match value {
            Value::Object(all) => {
                let word = |name: &str| all.get(name).and_then(Value::as_str).map(str::to_owned);
                let set = all.get("settings").and_then(Value::as_object);
                let path = set.and_then(|s| s.get(CAPTURE)).and_then(Value::as_str);
                if let (Some(path), Some(hash)) = (path, word("capture_sha256")) {
                    self.captures.entry(path.to_owned()).or_default().insert(hash);
                }
                if let Some(path) = word(CAPTURE).filter(|path| !path.is_empty()) {
                    self.captures.entry(path).or_default();
                }
                self.scenarios.extend(word("scenario"));
                self.profiles.extend(word("profile"));
                all.values().for_each(|v| self.look(v));
            }
            Value::Array(all) => all.iter().for_each(|v| self.look(v)),
            _ => {}
        }
    }
}

pub(crate) fn archive(registry: &Registry, args: &Archive) -> Result<u8, Error> {
    let shown = args.out.display().to_string();
    if !is_archive(&args.out) {
        return Err(input!("--out {shown}: its name has to end in {}", ENDINGS.join(" or ")));
    }
    let (mut members, mut named, mut read) = (Members::new(), Named::default(), Vec::new());
    for given in &args.file {
        for (name, path) in results(given)? {
            let mut add = |name: String, path: &Path| -> Result<(), Error> {
                let member = Member::File(path.to_owned());
                if members.insert(format!("results/{name}"), member).is_some() {
                    let path = path.display();
                    return Err(input!("{path}: two results would be called {name} in it"));
                }
                Ok(())
            };
            add(name.clone(), &path)?;
            match kept::FORMATS.contains(&extension(&path)) {
                true => {
                    let (about, rows) = kept::parts(&path)?;
                    named.look(&about);
                    rows.into_iter().for_each(|row| named.look(&Value::Object(row)));
                    let beside = crate::record::beside(&path);
                    if extension(&path) != "parquet" {
                        add(format!("{name}.origin.json"), &beside)?;
                        read.push(beside);
                    }
                }
                false => {
                    let text = text_of(&path.display().to_string(), &path)?;
                    named.look(&serde_json::from_str(&text).unwrap_or_default());
                }
            }
            read.push(path);
        }
    }
    let captures = captures(&named, &mut members)?;
    read.extend(captures.keys().map(PathBuf::from));
    sources(registry, &named, &mut members);
    let name = args.out.file_name().unwrap_or_default().to_string_lossy();
    let hash = |(name, member): (&String, &Member)| {
        Ok((name.clone(), member.sha256().map_err(Error::at(name))?))
    };
    let manifest = Manifest {
        schema: SCHEMA,
        doorbell: Program::own(),
        kind: "archive".to_owned(),
        repeat: format!("doorbell repeat {name}"),
        sha256: members.iter().map(hash).collect::<Result<_, Error>>()?,
        captures,
    };
    let read: Vec<&Path> = read.iter().map(PathBuf::as_path).collect();
    apart(&[&args.out], &read)?;
    let (file, path) = begun_file(args.out.clone(), SHARED)?;
    pack(&file, &manifest, &members).map_err(Error::at(&shown))?;
    keep(file, &path)?;
    print(&members.keys().map(|name| format!("{name}\n")).collect::<String>())?;
    Ok(DONE)
}

/// Returns the results that a person names, a file or a directory, each with its name.
fn results(given: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let all = match given.is_dir() {
        true => kept::inside(given)?,
        false => vec![given.to_owned()],
    };
    let named = |path: PathBuf| {
        let is_one = kept::FORMATS.contains(&extension(&path)) || kept::is_result(&path);
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
        match name.filter(|_| is_one) {
            Some(name) => Ok((name, path)),
            None => Err(input!(
                "{}: it is no result that can be repeated\n  those are results of `run`, `sweep`, \
                 `rank` and `advise` (--format json),\n  \
                 and .parquet, .ndjson and .csv files of --out",
                path.display()
            )),
        }
    };
    all.into_iter().map(named).collect()
}

/// Adds the captures that results name. Returns the member of each.
fn captures(named: &Named, members: &mut Members) -> Result<BTreeMap<String, String>, Error> {
    let mut all = BTreeMap::new();
    for (path, hashes) in &named.captures {
        if path == "-" {
            return Err(input!("a capture of the results was stdin, of which there is no file"));
        }
        let file = Member::File(path.into());
        let own = file.sha256().map_err(Error::at(path))?;
        if let Some(other) = hashes.iter().find(|h| **h != own) {
            return Err(input!(
                "{path}: it is another capture than that of the results: SHA-256 {own}, and not \
                 {other}"
            ));
        }
        let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
        let member = format!("captures/{}-{name}", &own[..12]);
        members.insert(member.clone(), file);
        all.insert(path.clone(), member);
    }
    Ok(all)
}

/// Adds the scenarios and profiles that are built in. The settings of all are in the results.
fn sources(registry: &Registry, named: &Named, members: &mut Members) {
    for (kind, names, texts) in [
        ("scenarios", &named.scenarios, registry.scenarios),
        ("profiles", &named.profiles, registry.profiles),
    ] {
        for (name, text) in texts.iter().filter(|(name, _)| names.contains(*name)) {
            members.insert(format!("{kind}/{name}.toml"), Member::Text(text));
        }
    }
}

fn sha256(mut from: impl Read) -> io::Result<String> {
    let mut hash = Sha256::new();
    io::copy(&mut from, &mut hash)?;
    Ok(format!("{:x}", hash.finalize()))
}

/// Returns whether the name of a file is that of an archive.
pub(crate) fn is_archive(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// Writes the members, the manifest first. No time, owner or order of a directory is in it.
fn pack(to: impl Write, manifest: &Manifest, members: &Members) -> io::Result<()> {
    let mut tar = tar::Builder::new(GzBuilder::new().mtime(0).write(to, Compression::best()));
    let mut add = |name: &str, bytes: u64, from: &mut dyn Read| {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, from)
    };
    let text = serde_json::to_string_pretty(manifest)? + "\n";
    add(MANIFEST, text.len() as u64, &mut text.as_bytes())?;
    for (name, member) in members {
        match member {
            Member::Text(text) => add(name, text.len() as u64, &mut text.as_bytes())?,
            Member::File(path) => {
                let mut file = files::open(path)?;
                add(name, file.metadata()?.len(), &mut file)?;
            }
        }
    }
    tar.into_inner()?.finish()?.flush()
}

/// The content of an archive, in a directory that goes with it.
pub(crate) struct Opened {
    dir: TempDir,
    /// The paths of its captures, by those that results have for them.
    captures: BTreeMap<String, String>,
}

impl Opened {
    /// Returns the directory of the results.
    pub(crate) fn results(&self) -> PathBuf {
        self.dir.path().join("results")
    }

    /// Replaces the paths of captures in a result by those of the archive's.
    pub(crate) fn relocate(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                let (before, path) = match text.split_once('=') {
                    Some((key, path)) if key.trim() == CAPTURE => (format!("{CAPTURE}="), path),
                    _ => (String::new(), text.as_str()),
                };
                if let Some(own) = self.captures.get(path) {
                    *text = format!("{before}{own}");
                }
            }
            Value::Array(all) => all.iter_mut().for_each(|v| self.relocate(v)),
            Value::Object(all) => self.relocate_members(all),
            _ => {}
        }
    }

    /// Does the same in the members of an object.
    pub(crate) fn relocate_members(&self, all: &mut Map<String, Value>) {
        all.values_mut().for_each(|v| self.relocate(v));
    }
}

/// Opens an archive, whose members have to be those of its manifest.
pub(crate) fn opened(path: &Path) -> Result<Opened, Error> {
    let name = path.display().to_string();
    let wrong = |what: String| input!("{name}: {what}");
    let dir = tempfile::tempdir().map_err(Error::at("a directory for the archive"))?;
    let file = files::open(path).map_err(Error::at(&name))?;
    unpack(file, dir.path()).map_err(|e| wrong(format!("it is no archive: {e}")))?;
    let text =
        files::text(&dir.path().join(MANIFEST)).map_err(|e| wrong(format!("{MANIFEST}: {e}")))?;
    let manifest: Manifest = serde_json::from_str(&text)
        .map_err(|e| wrong(format!("its {MANIFEST} is not one of an archive: {e}")))?;
    for (member, hash) in &manifest.sha256 {
        match Member::File(dir.path().join(member)).sha256() {
            Ok(own) if own == *hash => {}
            Ok(_) => return Err(wrong(format!("{member} is not what its {MANIFEST} says"))),
            Err(_) => return Err(wrong(format!("{member} is missing"))),
        }
    }
    let captures = manifest.captures.into_iter().map(|(path, member)| {
        let is_there = manifest.sha256.contains_key(&member);
        let own = is_there.then(|| dir.path().join(&member).to_string_lossy().into_owned());
        Ok((path, own.ok_or_else(|| wrong(format!("{member} is missing")))?))
    });
    let captures = captures.collect::<Result<_, Error>>()?;
    Ok(Opened { dir, captures })
}

/// Writes the members of an archive into a directory, in which their names stay.
fn unpack(file: File, dir: &Path) -> io::Result<()> {
    let mut tar = tar::Archive::new(GzDecoder::new(file));
    for entry in tar.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        let is_within = name.components().all(|c| matches!(c, Component::Normal(_)));
        if !is_within || !entry.header().entry_type().is_file() {
            return Err(io::Error::other(format!("{} is no file within it", name.display())));
        }
        let to = dir.join(&name);
        std::fs::create_dir_all(to.parent().unwrap_or(dir))?;
        io::copy(&mut entry, &mut File::create_new(to)?)?;
    }
    Ok(())
}
