//! Reports: one page of HTML that opens offline. It is made from the files of `reproduce --out`
//! (`reproduce.json`) and `run --out` (`result.json`) alone, also of several runs at once.

mod data;
mod page;

pub(crate) use data::of_reproduction;
pub(crate) use page::page;

use crate::output::{Folder, print};
use crate::{DONE, Error, args::Report, input};
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The name of the page in its directory.
pub(crate) const PAGE: &str = "report.html";

pub(crate) fn report(args: &Report) -> Result<u8, Error> {
    let data = collected(&args.dir)?;
    let page = page(&data);
    Folder::open(&args.dir)?.write(&[(PAGE, &page)])?;
    print(&format!("{}\n", args.dir.join(PAGE).display()))?;
    Ok(DONE)
}

/// Collects the results of a directory and of the directories in it.
fn collected(dir: &Path) -> Result<Value, Error> {
    let mut places = vec![(String::new(), dir.to_owned())];
    let inside = std::fs::read_dir(dir).map_err(Error::at(dir.display()))?;
    let mut named: Vec<(String, PathBuf)> = Vec::new();
    for entry in inside {
        let entry = entry.map_err(Error::at(dir.display()))?;
        if entry.path().is_dir() {
            named.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    // In the order of their names, whatever the file system's order.
    named.sort();
    places.extend(named);

    let (mut reproduced, mut runs) = (None, Vec::new());
    for (name, place) in &places {
        if let Some(file) = read(&place.join("reproduce.json"))?
            && reproduced.is_none()
        {
            let found = file.checked::<data::Reproduced>()?;
            if found["shape"] != json!(data::SHAPE) {
                let (path, shape) = (file.path.display(), &found["shape"]);
                let ours = data::SHAPE;
                return Err(input!("{path}: it has shape {shape}, and this doorbell reads {ours}"));
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
        return Err(input!(
            "{}: neither it nor a directory in it has reproduce.json or result.json, the files of \
             `reproduce --out` and `run --out`",
            dir.display()
        ));
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
        Err(e) => Err(Error::at(path.display())(e)),
    }
}

impl Found {
    /// Returns the value of the file, if it has the shape of a `T`.
    fn checked<T: serde::de::DeserializeOwned>(&self) -> Result<Value, Error> {
        let wrong = |e: serde_json::Error| input!("{}: {e}", self.path.display());
        serde_json::from_str::<T>(&self.text).map_err(wrong)?;
        serde_json::from_str(&self.text).map_err(wrong)
    }
}

#[cfg(test)]
mod tests;
