//! Settings that maintainers chose by measurement on real hardware, and what `doorbell advise`
//! chooses on the nearest system here. docs/decision.md has the table.

use doorbell_spec::key;
use doorbell_study::advise::{BUDGET, Goal, Question, Variable, advise};
use doorbell_systems::DOORBELL;

struct Choice {
    /// The commit or measurement.
    source: &'static str,
    scenario: &'static str,
    sets: &'static [&'static str],
    goal: &'static str,
    key: &'static str,
    /// The value before, then the others.
    values: &'static [&'static str],
    /// The value that they chose.
    theirs: &'static str,
    /// The advice is the same.
    agrees: bool,
}

const SHORT: &str = "traffic.packets=24000";

const CHOICES: [Choice; 10] = [
    Choice {
        source: "linux 9da10c2d69c3 (v6.15): sessions fit to the page, no NOPs",
        scenario: "mlx5-full-rate",
        sets: &[SHORT, "run.cores=8", "traffic.size=350", "pcie.generation=3"],
        goal: "packets_per_s",
        key: "driver.sizing",
        values: &["padded", "fit"],
        theirs: "fit",
        agrees: true,
    },
    Choice {
        source: "linux 5e0d2eef771e: MPWQE for XDP_TX",
        scenario: "mlx5-full-rate",
        sets: &[SHORT, "run.cores=8"],
        goal: "packets_per_s",
        key: "driver.mpwqe",
        values: &["off", "on"],
        theirs: "on",
        agrees: true,
    },
    Choice {
        source: "linux 36ea7964982f: a doorbell a poll of 64 instead of every 8 packets",
        scenario: "mlx5-full-rate",
        sets: &[SHORT, "run.cores=1"],
        goal: "packets_per_s",
        key: "traffic.burst",
        values: &["8", "64"],
        theirs: "64",
        agrees: true,
    },
    Choice {
        source: "linux 38b2cf2982dc: pktgen in bursts of 2 instead of 1",
        scenario: "mlx5-full-rate",
        sets: &[SHORT, "run.cores=1"],
        goal: "packets_per_s",
        key: "traffic.burst",
        values: &["1", "2"],
        theirs: "2",
        agrees: true,
    },
    Choice {
        source: "linux dda10fc801a9 (v6.12): buffers given when the pool is low",
        scenario: "ibmvnic-transactions",
        sets: &["driver.direct=inspect", "traffic.duration=4ms"],
        goal: "cycles",
        key: "driver.replenish",
        values: &["each_poll", "below_half"],
        theirs: "below_half",
        agrees: true,
    },
    Choice {
        source: "linux 74839f7a8268 (v6.12): single packets by direct calls",
        scenario: "ibmvnic-transactions-small",
        sets: &["driver.checksum=off", "traffic.duration=4ms"],
        goal: "packets_per_s",
        key: "driver.direct",
        values: &["never", "inspect"],
        theirs: "inspect",
        agrees: true,
    },
    Choice {
        source: "linux 2094200b5f77 (v6.17): eight receive buffers a call",
        scenario: "ibmveth-receive",
        sets: &["traffic.duration=20ms"],
        goal: "client_ns_a_packet",
        key: "driver.multi_buffer",
        values: &["off", "on"],
        theirs: "on",
        agrees: true,
    },
    Choice {
        source: "linux d6832ca48d8a (v6.1): frames copied to a mapped buffer instead of mapped",
        scenario: "ibmveth-send",
        sets: &["link.rate=100", "traffic.duration=20ms"],
        goal: "packets_per_s",
        key: "driver.transmit",
        values: &["map", "copy"],
        theirs: "copy",
        // The server's core limits the rate here, whatever the client does.
        agrees: false,
    },
    Choice {
        source: "linux ae0e6a5d1627: DIM instead of an interrupt a frame",
        scenario: "axienet-saturated",
        sets: &["driver.controller=fixed", "driver.rx_frames=1", "traffic.duration=20ms"],
        goal: "cpu_busy_share",
        key: "driver.controller",
        values: &["fixed", "dim"],
        theirs: "dim",
        agrees: true,
    },
    Choice {
        source: "linux d3dfe8d6c040: 64 us of delay instead of next to none",
        scenario: "axienet-saturated",
        sets: &["driver.controller=fixed", "driver.rx_frames=255", "traffic.duration=20ms"],
        goal: "cpu_busy_share",
        key: "driver.rx_usecs",
        values: &["1", "64"],
        theirs: "64",
        agrees: true,
    },
];

/// Returns the value that is advised.
fn advised(c: &Choice) -> String {
    let mut plan = DOORBELL.plan(c.scenario).unwrap();
    c.sets.iter().for_each(|set| plan.set(set).unwrap());
    plan.set(&format!("{}={}", c.key, c.values[0])).unwrap();
    let key = key::find(&plan.values.keys(), c.key).unwrap();
    let values = c.values.iter().map(|v| key.parse(v).unwrap()).collect();
    let question = Question {
        system: plan.system,
        values: &plan.values,
        frames: None,
        goal: Goal::parse(plan.system, c.goal).unwrap(),
        keep: Vec::new(),
        variables: vec![Variable { key, values, command: None }],
        budget: BUDGET,
    };
    let profile = DOORBELL.profile(&plan.profile).unwrap();
    // Only the choice is asked for, not what it hangs on.
    let advice =
        advise(&question, &profile, 1, &mut |what, _, _| !what.starts_with("moves")).unwrap();
    println!("{}: {} of {:?}, {:?}", c.source, advice.worth[0].value, c.values, advice.reached);
    advice.worth[0].value.split(' ').next().unwrap().to_owned()
}

#[test]
fn published_choices_are_advised_but_for_those_that_are_listed() {
    let mut wrong = Vec::new();
    for c in &CHOICES {
        let ours = advised(c);
        if (ours == c.theirs) != c.agrees {
            wrong.push(format!("{}: {ours}", c.source));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(CHOICES.iter().filter(|c| c.agrees).count() >= 8);
}
