//! Each fault on each system: the run comes to its end, nothing leaks, every loss has a name,
//! traffic goes on, and the same seed gives the same bytes. `DOORBELL_FULL=1` takes more of the
//! random ones.

use crate::common::{doorbell, good, wrong};
use insta::assert_snapshot;
use serde_json::Value;

/// A system's run, cut short: a scenario, what is set, and times at which its link may go down.
struct Case {
    scenario: &'static str,
    sets: &'static [&'static str],
    flaps: [&'static str; 2],
}

const SHORT: &[&str] = &["traffic.warmup=5ms", "traffic.duration=20ms"];
const FLAPS: [&str; 2] = ["link-flap@6ms:1ms", "link-flap@every=4ms:100us"];

const MLX5: Case = Case {
    scenario: "mlx5-pktgen-64",
    sets: &["traffic.packets=24000", "run.cores=4"],
    flaps: ["link-flap@50us:100us", "link-flap@every=60us:20us"],
};
const MLX5_PLAIN: Case = Case {
    scenario: "mlx5-full-rate",
    sets: &["traffic.packets=24000", "run.cores=3", "driver.mpwqe=off"],
    ..MLX5
};
const E1000_SEND: Case = Case { scenario: "e1000-send", sets: SHORT, flaps: FLAPS };
const E1000_RECEIVE: Case = Case { scenario: "e1000-receive", ..E1000_SEND };
const E1000_PACKETS: Case =
    Case { scenario: "e1000-pktgen", sets: &["traffic.packets=4000"], flaps: FLAPS };
const AXIENET: Case = Case { scenario: "axienet-receive", ..E1000_SEND };
const AXIENET_BURSTS: Case = Case { scenario: "axienet-bursts", ..E1000_SEND };
const IBMVETH_SEND: Case = Case { scenario: "ibmveth-send", ..E1000_SEND };
const IBMVETH_RECEIVE: Case = Case { scenario: "ibmveth-receive", ..E1000_SEND };
const IBMVNIC: Case = Case {
    scenario: "ibmvnic-transactions",
    sets: &["traffic.warmup=2ms", "traffic.duration=10ms"],
    flaps: FLAPS,
};
const IBMVNIC_BULK: Case = Case { scenario: "ibmvnic-bulk", ..IBMVNIC };

/// Returns the result of a run with `faults`; its exit code is 0, and its audit is sound.
fn run(case: &Case, faults: &str, seed: u64) -> Value {
    let seed = seed.to_string();
    let mut args =
        vec!["run", case.scenario, "-q", "--format", "json", "--seed", &seed, "--fault", faults];
    let sets = case.sets.iter().chain(&["run.watchdog=4ms"]);
    args.extend(sets.flat_map(|set| ["--set", set]));
    let ran = doorbell(&args);
    let result: Value =
        serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{faults}: {}", ran.err));
    assert_eq!(
        (&result["audit"], ran.code, ran.err.as_str()),
        (&serde_json::json!([]), 0, ""),
        "{}: {faults}",
        case.scenario
    );
    assert_eq!(result["unfinished"], Value::Null, "{}: {faults}", case.scenario);
    result
}

fn count(result: &Value, name: &str) -> u64 {
    result["ledger"][name].as_u64().unwrap_or_else(|| panic!("there is no {name}"))
}

/// A fault once and again and again; that it struck each time. A connection that could not go on
/// would be `unfinished`; an open-loop run says how much it has sent.
fn strikes(cases: &[Case], kinds: [&str; 2], name: &str) {
    for case in cases {
        for (faults, least) in kinds.into_iter().zip([1, 2]) {
            let result = run(case, faults, 0);
            assert!(
                count(&result, name) >= least,
                "{}: {faults}: {}",
                case.scenario,
                count(&result, name)
            );
            if case.sets.iter().any(|s| s.starts_with("traffic.packets")) {
                let (sent, of) = (
                    count(&result, "wire_frames"),
                    if case.scenario.starts_with("e1000") { 4000 } else { 24000 },
                );
                assert!(sent > of / 2, "{}: {faults}: {sent} packets of {of}", case.scenario);
            }
        }
    }
}

macro_rules! each_system {
    ($($test:ident: $kinds:expr, $name:literal;)*) => {
        $(mod $test {
            use super::*;
            #[test]
            fn on_mlx5() {
                strikes(&[MLX5, MLX5_PLAIN], $kinds, $name);
            }
            #[test]
            fn on_e1000() {
                strikes(&[E1000_SEND, E1000_RECEIVE, E1000_PACKETS], $kinds, $name);
            }
            #[test]
            fn on_axienet() {
                strikes(&[AXIENET, AXIENET_BURSTS], $kinds, $name);
            }
            #[test]
            fn on_ibmveth() {
                strikes(&[IBMVETH_SEND, IBMVETH_RECEIVE], $kinds, $name);
            }
            #[test]
            fn on_ibmvnic() {
                strikes(&[IBMVNIC, IBMVNIC_BULK], $kinds, $name);
            }
        })*
    };
}

each_system! {
    a_lost_interrupt: ["lost-interrupt@5", "lost-interrupt@every=7"], "fault_lost_interrupts";
    a_late_completion: ["late-completion@20:200us", "late-completion@every=40:100us"],
        "fault_late_completions";
    // The first loss of a connection costs it a second, more than some runs have.
    a_poisoned_completion:
        ["poisoned-completion@20", "poisoned-completion@20,poisoned-completion@21"],
        "fault_poisoned_completions";
    a_failed_access: ["dma-fault@300", "dma-fault@200,dma-fault@201"], "fault_dma_faults";
}

#[test]
fn a_link_that_goes_down_on_every_system() {
    for case in [
        MLX5,
        MLX5_PLAIN,
        E1000_SEND,
        E1000_PACKETS,
        AXIENET,
        AXIENET_BURSTS,
        IBMVETH_SEND,
        IBMVETH_RECEIVE,
        IBMVNIC,
        IBMVNIC_BULK,
    ] {
        for (flap, least) in case.flaps.into_iter().zip([1, 2]) {
            let result = run(&case, flap, 0);
            assert!(count(&result, "fault_link_flaps") >= least, "{}: {flap}", case.scenario);
        }
    }
}

/// The recovery that each driver has for it, by its counter.
#[test]
fn drivers_recover_as_theirs_do() {
    let of = |case: &Case, faults: &str, name: &str| count(&run(case, faults, 0), name);
    assert_eq!(of(&MLX5, "lost-interrupt@5", "driver_eq_rearm"), 1);
    assert_eq!(of(&MLX5, "poisoned-completion@20", "driver_recover"), 1);
    assert_eq!(of(&E1000_PACKETS, "dma-fault@300", "driver_io_errors"), 1);
    assert_eq!(of(&IBMVNIC, "link-flap@6ms:1ms", "driver_link_changes"), 2);
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_draws_others() {
    let faults = "dma-fault@random=900,lost-interrupt@random=20,late-completion@random=50:30us";
    for case in [MLX5, E1000_PACKETS, IBMVNIC] {
        assert_eq!(run(&case, faults, 7), run(&case, faults, 7), "{}", case.scenario);
        assert_ne!(
            run(&case, faults, 7)["ledger"],
            run(&case, faults, 8)["ledger"],
            "{}",
            case.scenario
        );
    }
}

#[test]
fn wrong_faults_say_what_is_allowed() {
    let fault = |f| wrong(&["run", "mlx5-pktgen-64", "--fault", f]);
    assert_snapshot!(fault("lost-irq@3"), @"doorbell: --fault lost-irq@3: `lost-irq@3`: no fault \
        is called `lost-irq`; the nearest is `lost-interrupt`; allowed: KIND@WHEN, several with \
        commas: lost-interrupt@N, late-completion@N:SPAN, poisoned-completion@N, dma-fault@N, \
        link-flap@TIME:SPAN; N may be every=N or random=N (one in N), TIME every=TIME");
    assert!(fault("link-flap@1ms").contains("link-flap takes a time behind a colon"));
    let packets = wrong(&["run", "ibmveth-packets", "--fault", "dma-fault@3"]);
    assert!(packets.contains("`run.fault` is for connections"), "{packets}");
}

#[test]
fn a_run_says_what_went_wrong_and_one_without_faults_does_not() {
    let faulty = good(&[
        "run",
        "mlx5-pktgen-64",
        "-q",
        "--set",
        "traffic.packets=2400",
        "--fault",
        "lost-interrupt@1",
    ]);
    assert!(faulty.contains("\n faults ") && faulty.contains("lost_interrupts"), "{faulty}");
    let sound = good(&["run", "mlx5-pktgen-64", "-q", "--set", "traffic.packets=2400"]);
    assert!(!sound.contains("fault_"), "{sound}");
}

/// The receive FIFO fills while its DMA fails, and sends PAUSE frames.
#[test]
fn pause_frames_are_in_the_audit() {
    for n in [100, 640] {
        run(&E1000_RECEIVE, &format!("dma-fault@{n}"), 0);
    }
}

/// Frames on the chip, and completions with an error that nobody read.
#[test]
fn losses_in_a_reset_have_names() {
    let late = "late-completion@every=5:3ms,poisoned-completion@every=7";
    for (scenario, sets, faults) in [
        ("ibmvnic-transactions", &[][..], late),
        ("e1000-pktgen", &["--set", "run.watchdog=1ms"], "lost-interrupt@2699"),
    ] {
        let args = [&["run", scenario, "-q", "--fault", faults], sets].concat();
        let ran = doorbell(&args);
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{scenario}: {}", ran.out);
    }
}

/// Returns the exit code of a run that took more than a hundred seconds, and takes few.
fn ends(scenario: &str, args: &[&str]) -> Option<i32> {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.args(["run", scenario, "-q"]).args(args);
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    let until = std::time::Instant::now() + std::time::Duration::from_secs(90);
    while std::time::Instant::now() < until {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn lost_answers_and_endless_flaps_come_to_an_end() {
    let args = ["--set", "run.watchdog=1ms", "--fault", "dma-fault@random=50"];
    assert_eq!(ends("ibmvnic-bulk", &args), Some(0));
    let sets = ["--set", "traffic.packets=500", "--set", "run.cores=1"];
    let faults = ["--fault", "dma-fault@every=2", "--fault", "link-flap@every=1ms:10us"];
    assert_eq!(ends("mlx5-full-rate", &[sets, faults].concat()), Some(0));
}

/// The `unfinished` of a run that was ended at its limit; the audit passes.
fn unfinished(args: &[&str]) -> Value {
    let args = [&["run", "-q", "--no-limits", "--format", "json"], args].concat();
    let ran = doorbell(&args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{args:?}");
    let result: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(result["audit"], serde_json::json!([]), "{args:?}");
    result["unfinished"].clone()
}

#[test]
fn connections_that_cannot_close_are_an_outcome() {
    let short = ["--set", "traffic.warmup=0ms", "--set", "traffic.duration=2ms"];
    for scenario in ["e1000-send", "e1000-receive", "ibmveth-send"] {
        let faults = ["--fault", "dma-fault@every=1"];
        let waiting = unfinished(&[&[scenario], &short[..], &faults].concat());
        let first = waiting[0].as_str().unwrap_or_else(|| panic!("{scenario} came to its end"));
        assert!(first.starts_with("connections are open: "), "{scenario}: {first}");
    }
}

#[test]
fn packets_that_wait_for_too_long_are_an_outcome() {
    let sets = ["traffic.packets=60000", "run.cores=1", "driver.mpwqe=off"];
    let sets = sets.map(|set| ["--set", set]);
    let args = [&["mlx5-full-rate", "--fault", "lost-interrupt@every=1"], sets.as_flattened()];
    let waiting = unfinished(&args.concat());
    let first = waiting[0].as_str().expect("it did not come to its end");
    assert!(first.starts_with("core 0 waits for an interrupt, at "), "{first}");
}

#[test]
fn a_run_for_people_says_what_waited() {
    let sets = ["traffic.warmup=0ms", "traffic.duration=2ms"].map(|set| ["--set", set]);
    let args = ["run", "e1000-send", "-q", "--no-limits", "--fault", "dma-fault@every=1"];
    let shown = good(&[&args, sets.as_flattened()].concat());
    assert!(shown.contains("e1000-send: ended at its limit of virtual time: connections"));
    assert!(shown.contains("e1000-send: audit ok"), "{shown}");
}

/// Checks that the audit of a run passes, whether or not its load came to its end.
fn passes(scenario: &str, seed: &str, sets: &[&str], faults: &str) {
    let mut args = vec!["run", scenario, "-q", "--no-limits", "--seed", seed, "--fault", faults];
    args.extend(sets.iter().flat_map(|set| ["--set", set]));
    let ran = doorbell(&args);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
}

/// A command of a core that is a minute behind the device runs out of time.
#[test]
fn a_core_that_ended_early_closes_its_queues() {
    let sets = ["traffic.packets=20000", "run.cores=4", "driver.mpwqe=on"];
    let faults = "dma-fault@random=20,lost-interrupt@every=20";
    passes("mlx5-pktgen-64-gen3", "8", &sets, faults);
}

#[test]
fn entries_that_are_late_at_the_end_are_read() {
    let sets = ["traffic.warmup=2ms", "traffic.duration=10ms", "run.watchdog=20ms"];
    let faults = "late-completion@every=1922:1us,poisoned-completion@random=2310,\
        poisoned-completion@every=719,late-completion@every=2:20ms";
    passes("ibmvnic-transactions", "78", &sets, faults);
}

/// The watchdog acts although the link changes more often than it looks.
#[test]
fn flaps_do_not_keep_the_watchdog_from_a_hung_queue() {
    let case = Case { sets: &["traffic.packets=20000", "run.cores=1"], ..MLX5_PLAIN };
    let faults = "lost-interrupt@every=20,link-flap@every=4ms:100us";
    let result = run(&case, faults, 0);
    assert!(count(&result, "fault_tx_timeouts") > 0);
    assert_eq!(count(&result, "wire_frames") + count(&result, "device_discarded"), 20_000);
}

/// The driver has their status, but the link is down and the watchdog resets the device.
#[test]
fn packets_on_the_chip_in_a_reset_are_named() {
    let sets = ["run.watchdog=0.01ms", "traffic.warmup=2ms", "traffic.duration=5ms"];
    let faults = "link-flap@every=1ms:100us,link-flap@1ms:20ms,dma-fault@random=532";
    passes("axienet-beside", "419", &sets, faults);
}

/// The last step of the measured time waits for 20 ms, in which the card works on.
#[test]
fn clocks_of_a_long_step_have_their_time() {
    let sets = ["run.watchdog=4ms", "traffic.warmup=2ms", "traffic.duration=5ms"];
    passes("e1000-send", "705", &sets, "late-completion@673:20ms");
}

/// The driver opens its adapter again in one step, in which frames arrive at their peer.
#[test]
fn frames_of_a_long_step_have_their_time() {
    let sets = ["run.watchdog=0.1ms", "traffic.warmup=2ms", "traffic.duration=2ms"];
    passes("ibmveth-send-trunk", "925", &sets, "poisoned-completion@1559,dma-fault@884");
}

/// A late entry does not land in the queue that has its memory after a reopening.
#[test]
fn late_entries_land_before_the_adapter_is_closed() {
    let sets = ["run.watchdog=20ms", "traffic.warmup=2ms", "traffic.duration=2ms"];
    let faults = "link-flap@5ms:10us,dma-fault@random=2230,late-completion@random=7:20ms";
    passes("ibmveth-send-trunk", "852", &[&sets[..], &["run.guard=byte"]].concat(), faults);
}
