//! The `doorbell` command: reads arguments, assembles a run from the other crates, prints the
//! result. Results go to stdout, progress and diagnostics to stderr.
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

use args::{Args, Command};
use clap::Parser;
use error::{Error, failed, input};
use std::{io::Write, process::ExitCode};

/// Exit code: everything was done, and every claim holds.
const DONE: u8 = 0;
/// Exit code: a figure was missed without a listed explanation, a budget is broken, an audit
/// failed, or a server's capture or trace is not complete. [`Error::code`] has the codes of
/// commands without a result.
const MISSED: u8 = 1;

fn main() -> ExitCode {
    let done = match Args::parse().command {
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
        Command::Guest(a) => guest::guest(&a),
        Command::Live(a) => live::live(&a),
        Command::List(a) => list::list(&a),
        Command::New(a) => new::new(&a),
        Command::Schema { of } => new::schema(of),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { out } => manual::pages(out.as_deref()),
    };
    let code = done.unwrap_or_else(|e| {
        // If stderr is gone as well, the exit code has to do.
        let _ = writeln!(std::io::stderr(), "doorbell: {e}");
        e.code()
    });
    ExitCode::from(code)
}
