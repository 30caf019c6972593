//! Reports: one page of HTML that opens offline. It is made from the files of `reproduce --out`
//! (`reproduce.json`) and `run --out` (`result.json`) alone, also of several runs at once.

mod data;
mod page;

pub(crate) use data::of_reproduction;
pub(crate) use page::page;

use crate::output::{Folder, print};
use crate::render::of_this_schema;
use crate::{DONE, Error, args::Report, input};
use chrono::DateTime;
use serde_json::{Value, json};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The name of a run's result in its directory.
const RESULT: &str = "result.json";
/// The name of the page in its directory.
pub(crate) const PAGE: &str = "report.html";

pub(crate) fn report(args: &Report) -> Result<u8, Error> {
    let data = collected(&args.dir, &args.runs)?;
    let page = page(&data);
    Folder::open(&args.dir)?.write(&[(PAGE, &page)])?;
    print(&format!("{}\n", args.dir.join(PAGE).display()))?;
    Ok(DONE)
}

/// Collects the results of a directory and of the directories in it, or of those that `chosen`
/// names.
fn collected(dir: &Path, chosen: &[String]) -> Result<Value, Error> {
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
    if !chosen.is_empty() {
        places.clear();
        let find = |name: &String| named.iter().find(|(n, _)| n == name.trim_end_matches('/'));
        named = chosen
            .iter()
            .map(|name| match find(name) {
                Some(found) if found.1.join(RESULT).exists() => Ok(found.clone()),
                _ => Err(input!("{}: it has no {name}/{RESULT}", dir.display())),
            })
            .collect::<Result<_, _>>()?;
    }
    places.extend(named);

    let (mut reproduced, mut runs) = (None, Vec::new());
    for (name, place) in &places {
        if let Some(file) = read(&place.join("reproduce.json"))?
            && reproduced.is_none()
        {
            reproduced = Some(file.checked::<data::Reproduced>()?);
        }
        if let Some(file) = read(&place.join(RESULT))? {
            let mut run = file.checked::<data::Run>()?;
            run["date"] = json!(file.date());
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
    /// Returns the date of the file, such as `2026-03-01 14:05 UTC`.
    fn date(&self) -> Option<String> {
        let written = self.path.metadata().ok()?.modified().ok()?;
        let seconds = written.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let date = DateTime::from_timestamp(seconds.try_into().ok()?, 0)?;
        Some(date.format("%Y-%m-%d %H:%M UTC").to_string())
    }

    /// Returns the value of the file, if it has the shape of a `T`.
    fn checked<T: serde::de::DeserializeOwned>(&self) -> Result<Value, Error> {
        let wrong = |e: serde_json::Error| input!("{}: {e}", self.path.display());
        let value: Value = serde_json::from_str(&self.text).map_err(wrong)?;
        of_this_schema(&self.path.display().to_string(), &value)?;
        serde_json::from_str::<T>(&self.text).map_err(wrong)?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests;
