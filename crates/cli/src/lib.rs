//! The `doorbell` command: reads arguments, assembles a run from the other crates, prints the
//! result. Results go to stdout, progress and diagnostics to stderr.
//!
//! [`main`] is the program, and [`main_of`] is it in another one's process. [`call`] runs a command
//! within another program, whose it is to handle signals and to show the result.
#![forbid(unsafe_code)]
#![cfg_attr(fuzzing, allow(dead_code, unused_imports, reason = "commands are not built"))]

mod args;
mod check;
mod chrome;
mod error;
mod output;
mod plan;
mod progress;
mod render;
mod serve;
mod vnet;

// No fuzz target calls these. They, and the crates that only they need, are not built for one.
#[cfg(not(fuzzing))]
mod advise;
#[cfg(not(fuzzing))]
mod cache;
#[cfg(not(fuzzing))]
mod chart;
#[cfg(not(fuzzing))]
mod compare;
#[cfg(not(fuzzing))]
mod fit;
#[cfg(not(fuzzing))]
mod guest;
#[cfg(not(fuzzing))]
mod list;
#[cfg(not(fuzzing))]
mod live;
#[cfg(not(fuzzing))]
mod manual;
#[cfg(not(fuzzing))]
mod new;
#[cfg(not(fuzzing))]
mod point;
#[cfg(not(fuzzing))]
mod rank;
#[cfg(not(fuzzing))]
mod record;
#[cfg(not(fuzzing))]
mod repeat;
#[cfg(not(fuzzing))]
mod report;
#[cfg(not(fuzzing))]
mod reproduce;
#[cfg(not(fuzzing))]
mod run;
#[cfg(not(fuzzing))]
mod summary;
#[cfg(not(fuzzing))]
mod sweep;
#[cfg(not(fuzzing))]
mod trace;
#[cfg(not(fuzzing))]
mod transfer;

#[cfg(any(test, fuzzing))]
pub mod fuzzing;

pub use doorbell_systems::{DOORBELL, Registry};

use error::{Error, failed, input};
#[cfg(not(fuzzing))]
use {
    args::{Args, Command},
    clap::Parser,
    std::ffi::OsString,
    std::process::ExitCode,
    std::sync::Arc,
    std::sync::atomic::AtomicBool,
};

/// Exit code: everything was done, and every claim holds.
const DONE: u8 = 0;
/// Exit code: a figure was missed without a listed explanation, a budget is broken, an audit
/// failed, or a server's capture or trace is not complete. [`Error::code`] has the codes of
/// commands without a result.
const MISSED: u8 = 1;

/// Runs the command that the arguments of this process name, on the built-in systems.
#[cfg(not(fuzzing))]
pub fn main() -> ExitCode {
    main_with(&DOORBELL)
}

/// Runs the command that the arguments of this process name, on these systems.
#[cfg(not(fuzzing))]
pub fn main_with(registry: &'static Registry) -> ExitCode {
    ExitCode::from(main_of(registry, &[], std::env::args_os()))
}

/// Runs the command that `args` name, with the name of the program first, as the whole of this
/// process. Returns its exit code. `program` and what comes first among its arguments start such a
/// process again; if it is empty, the program of this process does without any.
#[cfg(not(fuzzing))]
pub fn main_of(
    registry: &'static Registry,
    program: &[OsString],
    args: impl IntoIterator<Item = OsString>,
) -> u8 {
    let done = match Args::try_parse_from(args) {
        Ok(args) => run(registry, args, program),
        Err(e) => output::of_arguments(&e),
    };
    done.unwrap_or_else(|e| {
        output::tell(&e);
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
#[cfg(not(fuzzing))]
pub fn call(
    registry: &'static Registry,
    args: &[String],
    interrupt: &Arc<AtomicBool>,
) -> Result<(u8, String), Failure> {
    let named = ["doorbell"].into_iter().chain(args.iter().map(String::as_str));
    let args = Args::try_parse_from(named).map_err(|e| Failure {
        code: 2,
        place: String::new(),
        what: e.to_string().trim_start_matches("error: ").trim_end().to_owned(),
    })?;
    let _taken = progress::take(interrupt);
    let (done, out) = output::collected(|| run(registry, args, &[]));
    done.map(|code| (code, out)).map_err(Failure::from)
}

#[cfg(not(fuzzing))]
fn run(registry: &'static Registry, args: Args, program: &[OsString]) -> Result<u8, Error> {
    if !std::ptr::eq(registry, &DOORBELL) {
        render::has_own_models()?;
    }
    let r = registry;
    match args.command {
        Command::Reproduce(a) => reproduce::reproduce(r, &a),
        Command::Run(a) => run::run(r, &a),
        Command::Report(a) => report::report(&a),
        Command::Compare(a) => compare::compare(r, &a),
        Command::Sweep(a) => sweep::sweep(r, &a),
        Command::Point(a) => point::point(r, &a),
        Command::Repeat(a) => repeat::repeat(r, &a),
        Command::Rank(a) => rank::rank(r, &a),
        Command::Advise(a) => advise::advise(r, &a),
        Command::Fit(a) => fit::solve(r, &a),
        Command::Check(a) => check::check(r, &a),
        Command::Transfer(a) => transfer::transfer(r, &a),
        Command::Serve(a) => serve::serve(&a),
        Command::Guest(a) => guest::guest(r, &a, program),
        Command::Live(a) => live::live(&a),
        Command::List(a) => list::list(r, &a),
        Command::New(a) => new::new(r, &a),
        Command::Schema { of } => new::schema(r, of),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { out } => manual::pages(out.as_deref()),
    }
}

#[cfg(test)]
mod tests;
