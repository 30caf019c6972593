//! The `doorbell` command: reads arguments, assembles a run from the other crates, prints the
//! result. Results go to stdout, progress and diagnostics to stderr.
//!
//! [`main`] is the program, and [`main_of`] is it in another one's process. [`call`] runs a command
//! within another program, whose it is to handle signals and to show the result.
#![forbid(unsafe_code)]

mod advise;
mod args;
mod cache;
mod chart;
mod check;
mod chrome;
mod compare;
mod error;
mod fit;
mod guest;
mod list;
mod live;
mod manual;
mod new;
mod output;
mod plan;
mod point;
mod progress;
mod range;
mod rank;
mod record;
mod render;
mod repeat;
mod report;
mod reproduce;
mod run;
mod serve;
mod summary;
mod sweep;
mod trace;
mod transfer;
mod vnet;

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

use args::{Args, Command};
use clap::Parser;
use error::{Error, failed, input};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit code: everything was done, and every claim holds.
const DONE: u8 = 0;
/// Exit code: a figure was missed without a listed explanation, a budget is broken, an audit
/// failed, or a server's capture or trace is not complete. [`Error::code`] has the codes of
/// commands without a result.
const MISSED: u8 = 1;

/// Runs the command that the arguments of this process name.
pub fn main() -> ExitCode {
    ExitCode::from(main_of(&[], std::env::args_os()))
}

/// Runs the command that `args` name, with the name of the program first, as the whole of this
/// process. Returns its exit code; after wrong arguments it ends the process. `program` and what
/// comes first among its arguments start such a process again; if it is empty, the program of this
/// process does without any.
pub fn main_of(program: &[OsString], args: impl IntoIterator<Item = OsString>) -> u8 {
    run(Args::parse_from(args), program).unwrap_or_else(|e| {
        // If stderr is gone as well, the exit code has to do.
        let _ = writeln!(std::io::stderr(), "doorbell: {e}");
        e.code()
    })
}

/// The end of a command without a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The exit code that the program has then: 1 cannot go on, 2 wrong input, 130 interrupted.
    pub code: u8,
    /// The file and line, or the option, that a person has to change; empty if it is none.
    pub place: String,
    /// The reason, and what is allowed.
    pub what: String,
}

/// Runs a command, without the name of the program, in this thread. Returns its exit code, 0 or 1,
/// and what it prints. It ends early once `interrupt` is set.
///
/// # Errors
/// Returns the reason if the command has no result.
pub fn call(args: &[String], interrupt: &Arc<AtomicBool>) -> Result<(u8, String), Failure> {
    let named = ["doorbell"].into_iter().chain(args.iter().map(String::as_str));
    let args = Args::try_parse_from(named).map_err(|e| Failure {
        code: 2,
        place: String::new(),
        what: e.to_string().trim_start_matches("error: ").trim_end().to_owned(),
    })?;
    let _taken = progress::take(interrupt);
    let (done, out) = output::collected(|| run(args, &[]));
    done.map(|code| (code, out)).map_err(Failure::from)
}

fn run(args: Args, program: &[OsString]) -> Result<u8, Error> {
    match args.command {
        Command::Reproduce(a) => reproduce::reproduce(&a),
        Command::Run(a) => run::run(&a),
        Command::Report(a) => report::report(&a),
        Command::Compare(a) => compare::compare(&a),
        Command::Sweep(a) => sweep::sweep(&a),
        Command::Point(a) => point::point(&a),
        Command::Rank(a) => rank::rank(&a),
        Command::Advise(a) => advise::advise(&a),
        Command::Fit(a) => fit::solve(&a),
        Command::Check(a) => check::check(&a),
        Command::Transfer(a) => transfer::transfer(&a),
        Command::Serve(a) => serve::serve(&a),
        Command::Guest(a) => guest::guest(&a, program),
        Command::Live(a) => live::live(&a),
        Command::List(a) => list::list(&a),
        Command::New(a) => new::new(&a),
        Command::Schema { of } => new::schema(of),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { out } => manual::pages(out.as_deref()),
    }
}

#[cfg(test)]
mod tests;
