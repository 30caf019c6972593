//! Reports: one page of HTML that opens offline.
//!
//! `reproduce --out DIR` leaves `reproduce.json`, `run --out DIR` leaves `result.json`; a page is
//! made of such files alone, so that it can be made again, and of several runs at once. [`data`]
//! says what is in them, [`page`] puts it into HTML.

mod data;
mod page;

pub(crate) use data::of_reproduction;
pub(crate) use page::page;

use crate::args::Report;
use crate::output::{Folder, print};
use crate::{DONE, Error};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The page's name in its directory.
pub(crate) const PAGE: &str = "report.html";

/// A file of results as text.
pub(crate) fn pretty(data: &Value) -> String {
    serde_json::to_string_pretty(data)
        .unwrap_or_else(|e| unreachable!("a plain value serialises: {e}"))
        + "\n"
}

/// `doorbell report`.
pub(crate) fn report(args: &Report) -> Result<u8, Error> {
    let data = collected(&args.dir)?;
    let page = page(&data);
    Folder::open(&args.dir)?.write(&[(PAGE, &page)])?;
    print(&format!("{}\n", args.dir.join(PAGE).display()))?;
    Ok(DONE)
}

/// What a directory and the directories in it have.
fn collected(dir: &Path) -> Result<Value, Error> {
    let told = |path: &Path, e: &std::io::Error| Error::input(format!("{}: {e}", path.display()));
    let mut places = vec![(String::new(), dir.to_owned())];
    let inside = std::fs::read_dir(dir).map_err(|e| told(dir, &e))?;
    let mut named: Vec<(String, PathBuf)> = Vec::new();
    for entry in inside {
        let entry = entry.map_err(|e| told(dir, &e))?;
        if entry.path().is_dir() {
            named.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    // In the order of their names, wherever the file system has them.
    named.sort();
    places.extend(named);

    let (mut reproduced, mut runs) = (None, Vec::new());
    for (name, place) in &places {
        if let Some(file) = read(&place.join("reproduce.json"))?
            && reproduced.is_none()
        {
            let found = file.checked::<data::Reproduced>()?;
            if found["shape"] != json!(data::SHAPE) {
                let what = format!(
                    "it has shape {}, and this doorbell reads {}",
                    found["shape"],
                    data::SHAPE
                );
                return Err(Error::input(format!("{}: {what}", file.path.display())));
            }
            reproduced = Some(found);
        }
        if let Some(file) = read(&place.join("result.json"))? {
            let mut run = file.checked::<data::Run>()?;
            run["label"] =
                json!(if name.is_empty() { run["scenario"].as_str().unwrap_or("") } else { name });
            runs.push(run);
        }
    }
    if reproduced.is_none() && runs.is_empty() {
        let what = "neither it nor a directory in it has reproduce.json or result.json; `reproduce --out` and `run --out` leave them";
        return Err(Error::input(format!("{}: {what}", dir.display())));
    }
    let mut all = reproduced.unwrap_or_else(data::empty);
    all["runs"] = Value::Array(runs);
    Ok(all)
}

/// A file of results.
struct Found {
    path: PathBuf,
    text: String,
}

fn read(path: &Path) -> Result<Option<Found>, Error> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(Found { path: path.to_owned(), text })),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::input(format!("{}: {e}", path.display()))),
    }
}

impl Found {
    /// The file's value, if it has the shape of a `T`.
    fn checked<T: serde::de::DeserializeOwned>(&self) -> Result<Value, Error> {
        let wrong = |e: serde_json::Error| Error::input(format!("{}: {e}", self.path.display()));
        serde_json::from_str::<T>(&self.text).map_err(wrong)?;
        serde_json::from_str(&self.text).map_err(wrong)
    }
}

#[cfg(test)]
mod tests;
