//! The `doorbell` command: reads arguments, assembles a run from the other crates, prints the
//! result. Results go to stdout, progress and diagnostics to stderr.
//!
//! [`main`] is the program, and [`main_of`] is it in another one's process. [`call`] runs a command
//! within another program, whose it is to handle signals and to show the result.
#![forbid(unsafe_code)]

mod advise;
mod archive;
mod args;
mod cache;
mod chart;
mod check;
mod compare;
mod fit;
mod guest;
mod list;
mod manual;
mod new;
mod observer;
mod plan;
mod point;
mod rank;
mod record;
mod repeat;
mod report;
mod reproduce;
mod run;
mod schema;
mod summary;
mod sweep;
mod trace;
mod transfer;

pub use doorbell_console::progress::Caller;
pub use doorbell_console::{Failure, VERSION};
pub use doorbell_serve::Devices;
pub use doorbell_systems::{DOORBELL, Registry};

use args::{Args, Command};
use clap::Parser;
use doorbell_console::{Error, input, output, progress, render};
use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

/// Runs the command that the arguments of this process name, on the built-in systems.
pub fn main() -> ExitCode {
    main_with(&DOORBELL)
}

/// Runs the command that the arguments of this process name, on these systems.
pub fn main_with(registry: &'static Registry) -> ExitCode {
    main_serving(registry, Devices::default())
}

/// Runs the command that the arguments of this process name, on these systems and with these
/// devices for `serve` and `guest`.
pub fn main_serving(registry: &'static Registry, devices: Devices) -> ExitCode {
    ExitCode::from(main_of(registry, devices, &[], std::env::args_os()))
}

/// Runs the command that `args` name, with the name of the program first, as the whole of this
/// process. Returns its exit code. `program` and what comes first among its arguments start such a
/// process again; if it is empty, the program of this process does without any.
pub fn main_of(
    registry: &'static Registry,
    devices: Devices,
    program: &[OsString],
    args: impl IntoIterator<Item = OsString>,
) -> u8 {
    let done = match Args::try_parse_from(args) {
        Ok(args) => run(registry, devices, args, program),
        Err(e) => output::of_arguments(&e),
    };
    done.unwrap_or_else(|e| {
        output::tell(&e);
        e.code()
    })
}

/// Runs a command, without the name of the program, in this thread. Returns its exit code, 0 or 1,
/// and what it prints. It ends early once the caller stops it.
///
/// # Errors
/// Returns the reason if the command has no result.
pub fn call(
    registry: &'static Registry,
    args: &[String],
    caller: &Arc<Caller>,
) -> Result<(u8, String), Failure> {
    let named = ["doorbell"].into_iter().chain(args.iter().map(String::as_str));
    let args = Args::try_parse_from(named).map_err(|e| Failure {
        code: 2,
        place: String::new(),
        what: e.to_string().trim_start_matches("error: ").trim_end().to_owned(),
    })?;
    let _taken = progress::take(caller);
    let (done, out) = output::collected(|| run(registry, Devices::default(), args, &[]));
    done.map(|code| (code, out)).map_err(Failure::from)
}

fn run(
    registry: &'static Registry,
    devices: Devices,
    mut args: Args,
    program: &[OsString],
) -> Result<u8, Error> {
    let own = args.command.own();
    let driver = own.and_then(|own| own.driver.as_deref());
    let r = match driver {
        None => registry,
        Some(file) => {
            let card = own.and_then(|own| own.card).map(args::Chip::name);
            let loaded = doorbell_c_driver::load(file, card);
            loaded.map_err(|e| input!("--driver {}: {e}", file.display()))?.registry
        }
    };
    if !std::ptr::eq(r, &DOORBELL) {
        render::has_own_models(driver)?;
    }
    if let Command::Run(args::Run { scenario, .. }) | Command::Sweep(args::Sweep { scenario, .. }) =
        &mut args.command
        && scenario.is_empty()
    {
        *scenario = r.scenarios.first().map_or("", |(name, _)| name).to_owned();
    }
    match args.command {
        Command::Reproduce(a) => reproduce::reproduce(r, &a),
        Command::Run(a) => run::run(r, &a),
        Command::Report(a) => report::report(&a),
        Command::Compare(a) => compare::compare(r, &a),
        Command::Sweep(a) => sweep::sweep(r, &a),
        Command::Point(a) => point::point(r, &a),
        Command::Repeat(a) => repeat::repeat(r, &a),
        Command::Archive(a) => archive::archive(r, &a),
        Command::Rank(a) => rank::rank(r, &a),
        Command::Advise(a) => advise::advise(r, &a),
        Command::Fit(a) => fit::solve(r, &a),
        Command::Check(a) => check::check(r, devices, &a),
        Command::Transfer(a) => transfer::transfer(r, &a),
        Command::Serve(a) => doorbell_serve::serve(devices, &a),
        Command::Guest(a) => guest::guest(r, devices, &a, program),
        Command::Live(a) => doorbell_live::live(&a),
        Command::List(a) => list::list(r, &a),
        Command::New(a) => new::new(r, &a),
        Command::Schema { of } => schema::schema(r, devices, of),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { out } => manual::pages(out.as_deref()),
    }
}

#[cfg(test)]
mod tests;
