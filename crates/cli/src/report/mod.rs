//! Reports: one page of HTML that opens offline, made from the files of `reproduce --out`
//! (`reproduce.json`) and `run --out` (`result.json`), and from the JSON that other commands print,
//! also of several at once.

mod bill;
mod data;
mod figures;
mod html;
mod lines;
mod page;
mod runs;
mod sweeps;
mod systems;

pub(crate) use data::{Reproduced, of_reproduction};

use crate::args::Report;
use crate::guest::GuestResult;
use chrono::DateTime;
use doorbell_console::output::{Folder, print};
use doorbell_console::render::{Program, of_this_schema};
use doorbell_console::{DONE, Error, input};
use doorbell_host_io::files;
use doorbell_study::rank::Ranked;
use doorbell_study::sweep::Swept;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs::DirEntry;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The name of the page in its directory.
pub(crate) const PAGE: &str = "report.html";

pub(crate) fn report(args: &Report) -> Result<u8, Error> {
    let page = page::page(&collected(&args.dir, &args.runs)?);
    Folder::open(&args.dir)?.write(&[(PAGE, &page)])?;
    print(&format!("{}\n", args.dir.join(PAGE).display()))?;
    Ok(DONE)
}

/// Returns the page of a reproduction alone.
pub(crate) fn page_of(reproduced: &Reproduced<Value>) -> String {
    let read = serde_json::to_value(reproduced).and_then(serde_json::from_value);
    let read = read.unwrap_or_else(|e| unreachable!("what is written can be read: {e}"));
    page::page(&Results { reproduced: Some(read), ..Results::default() })
}

/// The results on a page.
#[derive(Default)]
struct Results {
    reproduced: Option<Reproduced>,
    runs: Vec<Labelled<data::Run>>,
    guests: Vec<Labelled<GuestResult>>,
    sweeps: Vec<Labelled<Swept>>,
    ranks: Vec<Labelled<Ranked>>,
    others: Vec<Labelled<data::Other>>,
}

/// A result with its name on the page, the date of its file and the program that made it.
struct Labelled<T> {
    label: String,
    date: Option<String>,
    program: Program,
    of: T,
}

/// Collects the results of a directory and of the directories in it, or of those that `chosen`
/// names.
fn collected(dir: &Path, chosen: &[String]) -> Result<Results, Error> {
    let mut found = Vec::new();
    for (name, place) in [(String::new(), dir.to_owned())].into_iter().chain(inside(dir)?) {
        if place.is_dir() {
            for (file, path) in inside(&place)? {
                if let Some(stem) = file.strip_suffix(".json")
                    && let Some(result) = Found::read(path, &name, stem)?
                {
                    found.push(result);
                }
            }
        }
    }
    if !chosen.is_empty() {
        let called = |name: &String| found.iter().find(|f| f.label == name.trim_end_matches('/'));
        let there = || found.iter().map(|f| f.label.as_str()).collect::<Vec<_>>().join(", ");
        let none = |n| input!("{}: no result there is called {n}: {}", dir.display(), there());
        let find = |name| called(name).cloned().ok_or_else(|| none(name));
        found = chosen.iter().map(find).collect::<Result<_, _>>()?;
    }
    if found.is_empty() {
        return Err(input!(
            "{}: neither it nor a directory in it has a result: reproduce.json or result.json, the \
             files of `reproduce --out` and `run --out`, or what a command prints with --format \
             json, in a file that ends with .json",
            dir.display()
        ));
    }
    let mut all = Results::default();
    for result in found {
        match result.kind {
            Kind::Report if all.reproduced.is_none() => all.reproduced = Some(result.read_as()?.of),
            Kind::Report => {}
            Kind::Run => all.runs.push(result.read_as()?),
            Kind::Sweep => all.sweeps.push(result.read_as()?),
            Kind::Rank => all.ranks.push(result.read_as()?),
            Kind::Guest => all.guests.push(result.read_as()?),
            Kind::Advise | Kind::Fit | Kind::Check | Kind::Compare | Kind::Transfer => {
                all.others.push(result.read_as()?);
            }
        }
    }
    Ok(all)
}

/// Returns the names and paths in a directory, in the order of the names.
fn inside(dir: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let all = std::fs::read_dir(dir).map_err(Error::at(dir.display()))?;
    let named = |entry: std::io::Result<DirEntry>| {
        let entry = entry.map_err(Error::at(dir.display()))?;
        Ok((entry.file_name().to_string_lossy().into_owned(), entry.path()))
    };
    let mut all = all.map(named).collect::<Result<Vec<_>, Error>>()?;
    all.sort();
    Ok(all)
}

/// A result that a page shows.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Report,
    Run,
    Sweep,
    Rank,
    Guest,
    Advise,
    Fit,
    Check,
    Compare,
    Transfer,
}

/// A file of results.
#[derive(Clone)]
struct Found {
    path: PathBuf,
    text: String,
    value: Value,
    kind: Kind,
    /// Its name on the page.
    label: String,
}

impl Found {
    /// Reads a file in the directory `name`, which is empty for the outer one. Other programs'
    /// files and results that a page does not show are none.
    fn read(path: PathBuf, name: &str, stem: &str) -> Result<Option<Found>, Error> {
        let text = files::text(&path).map_err(Error::at(path.display()))?;
        let value: Value = serde_json::from_str(&text).map_err(wrong(&path))?;
        let kind = match stem {
            "result" => Some(Kind::Run),
            "reproduce" => Some(Kind::Report),
            _ => Kind::deserialize(&value["kind"]).ok(),
        };
        let label = match (name, stem) {
            ("", "result") => value["scenario"].as_str().unwrap_or(stem).to_owned(),
            ("", _) => stem.to_owned(),
            (_, "result") => name.to_owned(),
            _ => format!("{name}/{stem}"),
        };
        Ok(kind.map(|kind| Found { path, text, value, kind, label }))
    }

    /// Returns the date of the file, such as `2026-03-01 14:05 UTC`.
    fn date(&self) -> Option<String> {
        let written = self.path.metadata().ok()?.modified().ok()?;
        let seconds = written.duration_since(UNIX_EPOCH).ok()?.as_secs();
        let date = DateTime::from_timestamp(seconds.try_into().ok()?, 0)?;
        Some(date.format("%Y-%m-%d %H:%M UTC").to_string())
    }

    /// Returns the result, if the file has the shape of a `T`.
    fn read_as<T: DeserializeOwned>(self) -> Result<Labelled<T>, Error> {
        of_this_schema(&self.path.display().to_string(), &self.value)?;
        // From the text, so that an error has its line.
        let of = serde_json::from_str(&self.text).map_err(wrong(&self.path))?;
        let date = self.date();
        let program = Program::deserialize(&self.value["doorbell"]).map_err(wrong(&self.path))?;
        Ok(Labelled { label: self.label, date, program, of })
    }
}

fn wrong(path: &Path) -> impl Fn(serde_json::Error) -> Error {
    move |e| input!("{}: {e}", path.display())
}

#[cfg(test)]
mod tests;
