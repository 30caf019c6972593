//! Checks and their results.

use crate::host::cpu;
use crate::rig::Rig;
use doorbell_guest::Device;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, Once};
use std::time::Instant;

const NOT_RUN: &str = "not run: the guest has ended";
/// The message of the last panic, with its place.
static SAID: Mutex<String> = Mutex::new(String::new());

/// A check, which panics if it does not hold.
#[derive(Clone, Copy)]
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: Run,
}

/// Builds a check: its function and its description.
macro_rules! check {
    ($run:ident, $name:ident, $about:literal) => {
        $crate::harness::Check {
            name: stringify!($name),
            about: $about,
            run: $crate::harness::Run::$run($name),
        }
    };
}

/// Declares checks that lists share.
macro_rules! shared {
    ($($shared:ident: $name:ident, $about:literal;)*) => {
        $(pub(crate) const $shared: $crate::harness::Check = check!(Shared, $name, $about);)*
    };
}

/// Declares a list of checks.
macro_rules! checks {
    (@ [$($done:expr,)*]) => {
        &[$($done),*]
    };
    (@ [$($done:expr,)*] = $check:expr; $($rest:tt)*) => {
        checks!(@ [$($done,)* $check,] $($rest)*)
    };
    (@ [$($done:expr,)*] $name:ident: $about:literal; $($rest:tt)*) => {
        checks!(@ [$($done,)* check!(Shared, $name, $about),] $($rest)*)
    };
    (@ [$($done:expr,)*] alone $name:ident: $about:literal; $($rest:tt)*) => {
        checks!(@ [$($done,)* check!(Alone, $name, $about),] $($rest)*)
    };
    ($vis:vis $list:ident: $($rest:tt)*) => {
        $vis const $list: &[$crate::harness::Check] = checks!(@ [] $($rest)*);
    };
}

#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// In a guest that it shares with other checks.
    Shared(fn(&mut Rig)),
    /// With guests of its own.
    Alone(fn(&Device)),
}

impl Check {
    /// Does in a guest what the check does.
    pub(crate) fn run_on(&self, rig: &mut Rig) {
        if let Run::Shared(f) = self.run {
            f(rig);
        }
    }
}

/// Checks that belong together.
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) device: Device,
    /// CPUs of a guest on a served device; none in virtual time.
    pub(crate) cpus: Option<u32>,
    pub(crate) checks: Vec<&'static Check>,
}

/// The reasons why checks do not hold, by name.
type Failures = BTreeMap<&'static str, String>;

/// Calls `f`. Returns its result, or the words of its panic.
fn caught<T>(f: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|info| {
            let place = info.location().map(|l| format!(" ({l})")).unwrap_or_default();
            let said = info.payload_as_str().unwrap_or("a panic");
            *SAID.lock().expect("never poisoned") = format!("{said}{place}");
        }));
    });
    catch_unwind(AssertUnwindSafe(f)).map_err(|_| SAID.lock().expect("never poisoned").clone())
}

/// Runs a check and prints its result. Returns the reason if it does not hold.
fn failure(check: &Check, run: impl FnOnce()) -> Option<String> {
    let since = Instant::now();
    let why = caught(run).err();
    match &why {
        None => println!("  ok  {} ({:.1} s)", check.about, since.elapsed().as_secs_f64()),
        Some(why) => println!("  FAILED  {}: {why}", check.name),
    }
    why
}

/// Runs checks of a part. When a guest that they share ends, those that come after are not run.
fn run(part: &Part) -> Failures {
    let checks = &part.checks;
    let (began, used, mut failures) = (Instant::now(), cpu(), Failures::new());
    let mut rig = None;
    println!("{}", part.name);
    for (n, check) in checks.iter().enumerate() {
        let why = match check.run {
            Run::Alone(f) => failure(check, || f(&part.device)),
            Run::Shared(f) => {
                if rig.is_none() {
                    match caught(|| Rig::new(part.device, part.cpus)) {
                        Ok(made) => rig = Some(made),
                        Err(why) => {
                            println!("  FAILED to start: {why}");
                            let why = format!("the guest did not start: {why}");
                            return checks.iter().map(|c| (c.name, why.clone())).collect();
                        }
                    }
                }
                rig.as_mut().and_then(|rig| failure(check, || f(rig)))
            }
        };
        let Some(why) = why else { continue };
        failures.insert(check.name, why);
        if rig.as_mut().is_some_and(|r| r.guest.ended()) {
            failures.extend(checks[n + 1..].iter().map(|c| (c.name, NOT_RUN.to_owned())));
            break;
        }
    }
    drop(rig);
    println!("  {:.0} s, {:.0} s of CPU", began.elapsed().as_secs_f64(), cpu() - used);
    failures
}

/// Runs the checks of a part. Returns the names of those that do not hold.
pub(crate) fn judged(part: &Part) -> Vec<String> {
    let failures = run(part);
    let failed = part.checks.iter().filter_map(|c| failures.get_key_value(c.name));
    let not_run = |why: &str| if why == NOT_RUN { format!(" ({NOT_RUN})") } else { String::new() };
    failed.map(|(c, why)| format!("{}: {c}{}", part.name, not_run(why))).collect()
}
