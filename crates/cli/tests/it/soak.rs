//! Random combinations of faults: each run ends with a passing audit, or is refused before it
//! starts with a reason.
//!
//! A combination is drawn from its system and its seed: a scenario, the length of its traffic, the
//! watchdog, and one to five faults. `tools/soak.sh` runs thousands of them with these variables:
//!
//! * `DOORBELL_SOAK_SEEDS`: how many seeds, or `FIRST..END`
//! * `DOORBELL_SOAK_JOBS`: runs at a time
//! * `DOORBELL_SOAK_LIMIT`: seconds of its CPU after which a run counts as one that does not end
//! * `DOORBELL_SOAK_BINARY`: the program, instead of the one that was built with the tests
//! * `DOORBELL_SOAK_OUT`: a directory for the table and the failures

use doorbell_bus::random::splitmix;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// The systems with their scenarios. Those that need a file, or refuse faults, are left out but for
/// one, which has to be refused.
const SYSTEMS: [(&str, &[&str]); 5] = [
    ("mlx5", &["mlx5-single-stream", "mlx5-pktgen-64", "mlx5-pktgen-64-gen3", "mlx5-full-rate"]),
    (
        "e1000",
        &[
            "e1000-send",
            "e1000-receive",
            "e1000-send-aligned",
            "e1000-transactions",
            "e1000-pktgen",
        ],
    ),
    (
        "axienet",
        &[
            "axienet-receive",
            "axienet-receive-fixed",
            "axienet-steps",
            "axienet-bursts",
            "axienet-on-off",
            "axienet-random",
            "axienet-beside",
            "axienet-jumbo",
            "axienet-sporadic",
            "axienet-saturated",
            "axienet-paced",
        ],
    ),
    (
        "ibmveth",
        &[
            "ibmveth-send",
            "ibmveth-send-trunk",
            "ibmveth-receive",
            "ibmveth-receive-fraglist",
            "ibmveth-transactions",
            "ibmveth-packets",
        ],
    ),
    (
        "ibmvnic",
        &[
            "ibmvnic-transactions",
            "ibmvnic-transactions-never",
            "ibmvnic-transactions-small",
            "ibmvnic-transactions-ignored",
            "ibmvnic-adaptive",
            "ibmvnic-break-even",
            "ibmvnic-bulk",
        ],
    ),
];

/// Random numbers by SplitMix64.
struct Draws(u64);

impl Draws {
    /// Returns a number from 0 to `n` - 1.
    fn below(&mut self, n: u64) -> u64 {
        splitmix(&mut self.0) % n
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// Returns the occasions of a fault: one, each nth, or one in n.
fn occasions(r: &mut Draws) -> String {
    let (few, many) = (r.of(&[1, 2, 3, 7, 20]), 10 + r.below(3000));
    let n = if r.below(2) == 0 { few } else { many };
    match r.below(3) {
        0 => (1 + r.below(3000)).to_string(),
        1 => format!("every={n}"),
        _ => format!("random={n}"),
    }
}

fn fault(r: &mut Draws) -> String {
    let span = r.of(&["1us", "10us", "100us", "1ms", "3ms", "20ms"]);
    match r.below(5) {
        0 => format!("lost-interrupt@{}", occasions(r)),
        1 => format!("late-completion@{}:{span}", occasions(r)),
        2 => format!("poisoned-completion@{}", occasions(r)),
        3 => format!("dma-fault@{}", occasions(r)),
        _ => {
            let at = r.of(&["1us", "10us", "1ms", "5ms", "every=1ms", "every=4ms", "every=50us"]);
            format!("link-flap@{at}:{span}")
        }
    }
}

/// Returns the arguments of `doorbell` for this seed of the `system`th system.
fn combination(system: usize, seed: u64) -> Vec<String> {
    let (name, scenarios) = SYSTEMS[system];
    let mut r = Draws(seed.wrapping_mul(SYSTEMS.len() as u64) + system as u64);
    let scenario = r.of(scenarios);
    let mut set = Vec::new();
    let watchdog = r.of(&["0.01ms", "0.1ms", "1ms", "4ms", "20ms", "linux"]);
    set.push(format!("run.watchdog={watchdog}"));
    match scenario {
        "ibmveth-packets" | "axienet-paced" => {}
        "e1000-pktgen" => set.push(format!("traffic.packets={}", r.of(&[500, 3000]))),
        _ if name == "mlx5" => {
            set.push(format!("traffic.packets={}", r.of(&[500, 3000, 20_000])));
            set.push(format!("run.cores={}", r.of(&[1, 2, 4])));
            set.push(format!("driver.mpwqe={}", r.of(&["on", "off"])));
        }
        _ => {
            set.push(format!("traffic.warmup={}", r.of(&["0ms", "2ms"])));
            set.push(format!("traffic.duration={}", r.of(&["2ms", "5ms", "10ms"])));
        }
    }
    if r.below(4) == 0 {
        set.push("run.guard=byte".to_owned());
    }
    let seed = seed.to_string();
    let mut args: Vec<String> =
        ["run", scenario, "-q", "--no-limits", "--format", "json", "--seed", &seed]
            .map(str::to_owned)
            .into();
    args.extend(set.into_iter().flat_map(|s| ["--set".to_owned(), s]));
    for _ in 0..r.of(&[1, 1, 2, 3, 4, 5]) {
        args.extend(["--fault".to_owned(), fault(&mut r)]);
    }
    args
}

/// The end of a run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Outcome {
    /// The audit passed.
    Passed,
    /// The audit passed, but the load did not come to its end.
    Unfinished,
    /// The combination was refused.
    Refused,
    /// Anything else, with what the program said.
    Failed(String),
    /// The run did not end.
    Endless,
}

/// Runs a combination. The shell limits the time of its CPU, so that a busy machine does not count.
fn run(binary: &Path, limit: Option<u64>, args: &[String]) -> Outcome {
    let mut command = match limit {
        None => Command::new(binary),
        Some(seconds) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", "ulimit -t $0; exec \"$@\"", &seconds.to_string()]).arg(binary);
            shell
        }
    };
    let ran = command.args(args).stdin(Stdio::null()).output().expect("the binary starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err, status) = (text(&ran.stdout), text(&ran.stderr), ran.status);
    let result: Value = serde_json::from_str(&out).unwrap_or_default();
    let said = |what: &str| format!("{what}: {}", err.lines().next().unwrap_or_default());
    match (status.code(), result["audit"].as_array()) {
        (Some(0), Some(audit)) if audit.is_empty() && result["unfinished"].is_array() => {
            Outcome::Unfinished
        }
        (Some(0), Some(audit)) if audit.is_empty() => Outcome::Passed,
        (Some(2), _) if out.is_empty() && !err.is_empty() => Outcome::Refused,
        (Some(_), Some(audit)) => {
            let audit: Vec<_> = audit.iter().filter_map(Value::as_str).collect();
            Outcome::Failed(audit.join("; "))
        }
        (Some(code), None) => Outcome::Failed(said(&format!("exit code {code}"))),
        (None, _) if matches!(status.signal(), Some(9 | 24)) => Outcome::Endless,
        (None, _) => Outcome::Failed(said("killed by a signal")),
    }
}

/// A run that failed: its command, and what was wrong.
type Failure = (usize, u64, Outcome);

/// Settings of the campaign, from the environment.
struct Campaign {
    seeds: std::ops::Range<u64>,
    jobs: usize,
    limit: Option<u64>,
    binary: PathBuf,
}

impl Campaign {
    fn from_environment() -> Campaign {
        let of = |name: &str| env::var(format!("DOORBELL_SOAK_{name}")).ok();
        let number = |text: String| text.trim().parse().expect("a number");
        let seeds = match of("SEEDS") {
            None => 0..4,
            Some(text) => match text.split_once("..") {
                Some((a, b)) => number(a.to_owned())..number(b.to_owned()),
                None => 0..number(text),
            },
        };
        Campaign {
            seeds,
            jobs: of("JOBS").map_or(2, |n| number(n) as usize),
            limit: of("LIMIT").map(number),
            binary: of("BINARY").map_or_else(|| env!("CARGO_BIN_EXE_doorbell").into(), Into::into),
        }
    }

    fn run(&self) -> (BTreeMap<(usize, &'static str), u64>, Vec<Failure>, Duration) {
        let next = AtomicU64::new(0);
        let found = Mutex::new((BTreeMap::new(), Vec::new(), Duration::ZERO));
        let total = (self.seeds.end - self.seeds.start) * SYSTEMS.len() as u64;
        let work = || {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= total {
                    return;
                }
                let system = (n % SYSTEMS.len() as u64) as usize;
                let seed = self.seeds.start + n / SYSTEMS.len() as u64;
                let began = Instant::now();
                let outcome = run(&self.binary, self.limit, &combination(system, seed));
                let name = match &outcome {
                    Outcome::Passed => "passed",
                    Outcome::Unfinished => "unfinished",
                    Outcome::Refused => "refused",
                    Outcome::Failed(_) => "failed",
                    Outcome::Endless => "endless",
                };
                let mut all = found.lock().unwrap_or_else(PoisonError::into_inner);
                *all.0.entry((system, name)).or_default() += 1;
                all.2 = all.2.max(began.elapsed());
                if matches!(outcome, Outcome::Failed(_) | Outcome::Endless) {
                    eprintln!("{}", said(&(system, seed, outcome.clone())));
                    all.1.push((system, seed, outcome));
                }
            }
        };
        thread::scope(|s| {
            (0..self.jobs.max(1)).for_each(|_| drop(s.spawn(work)));
        });
        let (counts, mut failures, longest) = found.into_inner().unwrap();
        failures.sort();
        (counts, failures, longest)
    }
}

/// Returns the command of a failure, and what was wrong.
fn said((system, seed, outcome): &Failure) -> String {
    let what = match outcome {
        Outcome::Failed(what) => what,
        _ => "does not end",
    };
    format!("doorbell {}\n    # {what}", combination(*system, *seed).join(" "))
}

/// Returns the numbers of outcomes by system.
fn table(counts: &BTreeMap<(usize, &'static str), u64>) -> String {
    const OUTCOMES: [&str; 5] = ["passed", "unfinished", "refused", "failed", "endless"];
    let mut text = format!("{:10}", "");
    OUTCOMES.iter().for_each(|o| write!(text, "{o:>11}").unwrap());
    text.push('\n');
    for (i, (name, _)) in SYSTEMS.iter().enumerate() {
        write!(text, "{name:10}").unwrap();
        OUTCOMES.iter().for_each(|o| {
            write!(text, "{:>11}", counts.get(&(i, *o)).copied().unwrap_or(0)).unwrap();
        });
        text.push('\n');
    }
    text
}

#[test]
fn random_faults_end_with_a_passing_audit() {
    let campaign = Campaign::from_environment();
    let (counts, failures, longest) = campaign.run();
    let table = table(&counts);
    println!("{table}the longest run took {:.1} s", longest.as_secs_f64());
    let failures: String = failures.iter().map(|f| said(f) + "\n").collect();
    if let Ok(dir) = env::var("DOORBELL_SOAK_OUT") {
        fs::create_dir_all(&dir).unwrap();
        fs::write(PathBuf::from(&dir).join("table.txt"), &table).unwrap();
        fs::write(PathBuf::from(&dir).join("failures.txt"), &failures).unwrap();
    }
    assert!(failures.is_empty(), "\n{failures}");
}
