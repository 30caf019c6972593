//! The `doorbell` command: reads arguments, assembles a run out of the other
//! crates, prints what came of it.
//!
//! Results go to stdout, progress and diagnostics to stderr. The exit code is 0
//! when everything was done and holds, 1 when a figure was missed (but for a miss
//! that is listed with its explanation), a budget is broken, an audit failed or a run could not go
//! on, 2 when the input was wrong, 130 when a run that writes files was interrupted:
//! then none are left.
#![forbid(unsafe_code)]

mod args;
mod chart;
mod check;
mod chrome;
mod compare;
mod headline;
mod judge;
mod list;
mod live;
mod new;
mod output;
mod plan;
mod progress;
mod report;
mod reproduce;
mod run;
mod serve;
mod sweep;
mod text;
mod trace;
mod transfer;
mod vnet;

use args::{Args, Command};
use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

/// Everything was done, and what was claimed holds.
const DONE: u8 = 0;
/// A figure was missed without explanation, a budget is broken, an audit failed, or a run could not
/// go on.
const MISSED: u8 = 1;
/// The input was wrong.
const WRONG_INPUT: u8 = 2;
/// A signal came first; what a shell reports of Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Why there is no result, or none that can be shown.
#[derive(Debug)]
struct Error {
    code: u8,
    what: String,
}

impl Error {
    fn input(what: impl Into<String>) -> Error {
        Error { code: WRONG_INPUT, what: what.into() }
    }
}

impl From<doorbell_lab::InputError> for Error {
    fn from(e: doorbell_lab::InputError) -> Error {
        Error::input(e.to_string())
    }
}

fn main() -> ExitCode {
    let done = match Args::parse().command {
        Command::Reproduce(a) => reproduce::reproduce(&a),
        Command::Run(a) => run::run(&a),
        Command::Report(a) => report::report(&a),
        Command::Compare(a) => compare::compare(&a),
        Command::Sweep(a) => sweep::sweep(&a),
        Command::Judge(a) => judge::judge(&a),
        Command::Check(a) => check::check(&a),
        Command::Transfer(a) => transfer::transfer(&a),
        Command::Serve(a) => serve::serve(&a),
        Command::Live(a) => live::live(&a),
        Command::List(a) => list::list(&a),
        Command::New(a) => new::new(&a),
        Command::Schema { what } => new::schema(what),
    };
    let code = done.unwrap_or_else(|e| {
        // Where even stderr is gone, the exit code has to do.
        let _ = writeln!(std::io::stderr(), "doorbell: {}", e.what);
        e.code
    });
    ExitCode::from(code)
}
