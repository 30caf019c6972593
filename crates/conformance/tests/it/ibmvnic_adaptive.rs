//! `direct = adaptive` against every fixed state that the server's request allows, on a set of
//! machines and traffic drawn by seed: checksum speed, what calls cost their callers and what they
//! cost behind, and what the server asks for.
//!
//! Servers here are honest: those that ask for headers need them. So a state that sends without
//! them ends the session, and is no competitor there; where no headers are asked for all four
//! states are. What is left is within 2 % of the best.

use doorbell_sim::Unwatched;
use doorbell_sim::traffic::arrivals::Rng;
use doorbell_systems::DOORBELL;
use doorbell_systems::ibmvnic::{RunStats, run, settings};

/// A machine and its traffic.
fn drawn(seed: u64) -> (Vec<String>, &'static [&'static str]) {
    let mut d = Rng::new(0x1b_0000 + seed);
    let mut sets = Vec::new();
    let mut set = |key: &str, value: f64| sets.push(format!("{key}={value:.3}"));
    set("cpu.sum", d.between(0.05, 8.0));
    set("cpu.application", d.between(2_000.0, 30_000.0).round());
    set("hcall.send_sub_crq", d.between(200.0, 6_000.0).round());
    set("hcall.send_sub_crq_indirect", d.between(200.0, 6_000.0).round());
    set("serial.direct", d.between(50.0, 2_000.0).round());
    set("serial.indirect", d.between(50.0, 2_000.0).round());
    set("serial.descriptor", d.between(1.0, 100.0));
    set("serial.header_byte", d.between(0.1, 3.0));
    set("serial.receive", d.between(50.0, 1_000.0).round());
    set("host.together", 20.0 * d.unit());
    let queues = [1, 2, 4][d.one_of(3) as usize];
    let sizes = [66, 590, 1514, 4000, 9014];
    let mut whole = |key: &str, value: u64| sets.push(format!("{key}={value}"));
    whole("driver.queues", queues);
    whole("traffic.peers", queues * [16, 32, 64][d.one_of(3) as usize]);
    whole("traffic.request", 66);
    whole("traffic.response", sizes[d.one_of(5) as usize]);
    whole("traffic.other", sizes[d.one_of(5) as usize]);
    whole("traffic.other_share", [0, 30, 50, 70][d.one_of(4) as usize]);
    let bulk = d.one_of(6) == 0;
    sets.push(format!("traffic.kind={}", if bulk { "bulk" } else { "transactions" }));
    let (headers, states): (_, &[&str]) = match seed % 4 {
        0 => ("never", &["never", "ignore_headers", "software_checksum", "inspect"]),
        1 => ("always", &["never", "inspect"]),
        _ => ("checksum", &["never", "software_checksum", "inspect"]),
    };
    sets.push(format!("nic.headers={headers}"));
    sets.push("nic.needs_headers=on".to_owned());
    (sets, states)
}

fn outcome(sets: &[String], direct: &str, warmup: f64, duration: f64) -> RunStats {
    let mut plan = DOORBELL.plan("ibmvnic-transactions").unwrap();
    let own = [
        format!("driver.direct={direct}"),
        format!("traffic.warmup={warmup:.3}"),
        format!("traffic.duration={duration:.3}"),
    ];
    for s in sets.iter().chain(&own) {
        plan.set(s).unwrap_or_else(|e| panic!("{e}"));
    }
    let setup = settings::setup(&plan.values);
    let load = settings::load(&plan.values, &setup).unwrap();
    let o = run(&setup, &load, &mut Unwatched).unwrap_or_else(|e| panic!("{sets:?} {direct}: {e}"));
    assert!(o.verdict.audit.is_empty(), "{sets:?} {direct}: {:?}", o.verdict.audit);
    o
}

#[test]
fn adaptive_is_within_two_per_cent_of_the_best_fixed_state() {
    let mut misses = Vec::new();
    let (mut worst, mut won) = (f64::MAX, [0; 2]);
    for seed in 0..24 {
        let (sets, states) = drawn(seed);
        // So many packets take about so long, in ms.
        let pace = outcome(&sets, "never", 3.0, 10.0).counts.rate() * 1e-3;
        let time = |packets: f64| packets / pace;
        let rates: Vec<f64> = states
            .iter()
            .map(|s| outcome(&sets, s, time(1_000.0), time(8_000.0)).counts.rate())
            .collect();
        let best = rates.iter().copied().fold(0.0, f64::max);
        // With a trial in the measured time: they are part of what it costs.
        let a = outcome(&sets, "adaptive", time(20_000.0), time(32_000.0));
        let share = a.counts.rate() / best;
        won[usize::from(rates[0] < best)] += 1;
        worst = worst.min(share);
        println!(
            "{seed:2} {share:.4} adaptive {:.0} break-even {:?} {states:?} {rates:.0?} {sets:?}",
            a.counts.rate(),
            a.totals.break_even
        );
        if share < 0.98 {
            misses.push(seed);
        }
    }
    println!("worst {worst:.4}; `never` best {}, another {}", won[0], won[1]);
    assert!(misses.is_empty(), "{misses:?}");
    assert!(won[0] >= 3 && won[1] >= 3, "the set has both");
}
