//! The real driver's counts beside ours on the same traffic: frames at a pace, sent, received,
//! answered one by one.
//!
//! The guest's driver gets them from pktgen and from the peer, in virtual time; ours in the lab
//! (`doorbell run ...-paced`). The cost of a frame is a difference of the ledger on one side, and
//! the lab's ledger on the other, under the same names.

use crate::bench::bench;
use crate::host::{OrFail, host};
use crate::numbers::Numbers;
use crate::rig::{Rig, Vm};
use serde_json::Value;

/// Bursts of a case, and seconds from one to the next.
const BURSTS: i64 = 200;
const EVERY: f64 = 0.004;
/// Interrupts that the driver took. The guest's kernel counts the real one's.
pub(crate) const TAKEN: &str = "taken";

/// The way of a case's frames.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Way {
    Send,
    /// With the checksum left to the driver.
    SendSum,
    Receive,
    Answer,
}

/// Traffic at a pace.
pub(crate) struct Case {
    name: &'static str,
    way: Way,
    /// Bytes of a frame without FCS.
    size: usize,
    /// Frames of a burst.
    burst: i64,
}

impl Case {
    pub(crate) const fn of(name: &'static str, way: Way, size: usize, burst: i64) -> Case {
        Case { name, way, size, burst }
    }
}

/// A row of the tables.
pub(crate) struct Row<'a> {
    name: &'static str,
    /// Counters, of which the second is subtracted if `minus`.
    counters: &'a [&'static str],
    minus: bool,
    /// The rule is for cases whose frames are alone.
    alone: bool,
    /// The allowed distance: 0 where both drivers do the same, some where one only begins at
    /// another place (a pool that is filled up at a mark), and none where it depends on the time of
    /// an interrupt.
    slack: Option<i64>,
}

impl<'a> Row<'a> {
    pub(crate) fn same(name: &'static str, counters: &'a [&'static str]) -> Row<'a> {
        Row { name, counters, minus: false, alone: false, slack: Some(0) }
    }

    /// Of a burst it depends on the CPU's speed.
    pub(crate) fn alone(name: &'static str, counters: &'a [&'static str]) -> Row<'a> {
        Row { alone: true, ..Row::same(name, counters) }
    }

    pub(crate) fn shown(name: &'static str, counters: &'a [&'static str]) -> Row<'a> {
        Row { slack: None, ..Row::same(name, counters) }
    }

    pub(crate) fn within(slack: i64, name: &'static str, counters: &'a [&'static str]) -> Row<'a> {
        Row { slack: Some(slack), ..Row::same(name, counters) }
    }

    pub(crate) fn minus(name: &'static str, counters: &'a [&'static str; 2]) -> Row<'a> {
        Row { minus: true, ..Row::same(name, counters) }
    }

    fn of(&self, all: &Numbers) -> i64 {
        match self.counters {
            [a, b] if self.minus => all.get(a) - all.get(b),
            counters => counters.iter().map(|n| all.get(n)).sum(),
        }
    }
}

/// Sends the frames of a case from the guest. Returns how many.
fn send_from_guest(vm: &mut Vm, case: &Case) -> i64 {
    let pg = "/proc/net/pktgen";
    let mut line =
        format!("echo rem_device_all >{pg}/kpktgend_0 && echo add_device eth0 >{pg}/kpktgend_0");
    let sum = if case.way == Way::SendSum { "" } else { "!" };
    for setting in [
        format!("count {}", BURSTS * case.burst),
        format!("burst {}", case.burst),
        format!("pkt_size {}", case.size),
        format!("delay {:.0}", EVERY * 1e9),
        // An address that nobody has, so that nobody says so.
        "dst 10.9.9.9".to_owned(),
        "dst_mac $HOST_MAC".to_owned(),
        format!("flag {sum}UDPCSUM"),
    ] {
        line += &format!(" && echo \"{setting}\" >{pg}/eth0");
    }
    vm.run(line);
    let said = vm.run(format!(
        "echo start >{pg}/pgctrl; grep pkts-sofar {pg}/eth0; echo rem_device_all >{pg}/kpktgend_0"
    ));
    let sent = said.split_once("pkts-sofar:").and_then(|(_, s)| s.split_whitespace().next());
    sent.and_then(|n| n.parse().ok()).expect("pktgen's own count")
}

/// Returns all interrupts that the guest's kernel took under one of these names.
fn interrupts(vm: &mut Vm, names: &[&str]) -> i64 {
    let said = vm.run("cat /proc/interrupts");
    let own = said.lines().filter(|l| names.iter().any(|n| l.contains(n)));
    // Behind the number of the interrupt: a count for each of at most two CPUs.
    let counts = own.flat_map(|l| l.split_whitespace().skip(1).take(2));
    counts.filter_map(|w| w.parse::<i64>().ok()).sum()
}

/// Does a case with the guest. Returns what its frames added to the ledger.
fn real(rig: &mut Rig, names: &[&str], case: &Case) -> Numbers {
    let (before, taken) = (rig.at_rest(), interrupts(&mut rig.guest, names));
    let frames = BURSTS * case.burst;
    match case.way {
        Way::Send | Way::SendSum => {
            assert_eq!(send_from_guest(&mut rig.guest, case), frames, "{}: frames", case.name);
        }
        Way::Receive => {
            let gap = (EVERY * 1e6) as u32;
            rig.run(format!("frames {frames} {} {} {gap}", case.size, case.burst));
        }
        Way::Answer => drop(rig.run(format!("ask icmp {frames} {}", case.size))),
    }
    let added = rig.at_rest().since(&before);
    let taken = interrupts(&mut rig.guest, names) - taken;
    added.iter().chain([(TAKEN, taken)]).collect()
}

/// Runs a scenario of the lab. Returns its result and its ledger.
pub(crate) fn lab(scenario: &str, sets: &[(&str, String)]) -> (Value, Numbers) {
    let sets: Vec<_> = sets.iter().map(|(k, v)| format!(" --set {k}={v}")).collect();
    let doorbell = bench().doorbell.display();
    let line = format!("{doorbell} run {scenario} --quiet --format json{}", sets.concat());
    let result: Value = serde_json::from_str(&host(line)).or_fail();
    let ledger = Numbers::of_json(&result["ledger"]);
    (result, ledger)
}

/// Does a case with our driver.
fn ours(scenario: &str, sets: &[(&str, String)], case: &Case) -> Numbers {
    let way = match case.way {
        Way::Send | Way::SendSum => "send",
        Way::Receive => "receive",
        Way::Answer => "answer",
    };
    let mut own = vec![
        ("paced.way", way.to_owned()),
        ("paced.size", case.size.to_string()),
        ("paced.burst", case.burst.to_string()),
        ("paced.every", (EVERY * 1e6).to_string()),
        ("paced.bursts", BURSTS.to_string()),
    ];
    if case.way != Way::Receive {
        // Of what is sent; the lab refuses what has no effect.
        let sum = if case.way == Way::SendSum { "on" } else { "off" };
        own.push(("paced.checksum", sum.to_owned()));
    }
    own.extend_from_slice(sets);
    let ledger = lab(scenario, &own).1;
    let taken = ["driver_irqs", "driver_tx_irqs", "driver_rx_irqs"].map(|n| ledger.get(n));
    ledger.iter().chain([(TAKEN, taken.iter().sum())]).collect()
}

fn shown(each: f64) -> String {
    let text = format!("{each:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Prints a table of all cases, with the guest's interrupts of these names. Fails if a row is
/// further apart than it may be; all of them are told.
pub(crate) fn beside(
    rig: &mut Rig,
    names: &[&str],
    scenario: &str,
    cases: &[Case],
    rows: &[Row<'_>],
    sets: &[(&str, String)],
) {
    rig.load("pktgen");
    let mut wrong = Vec::new();
    for case in cases {
        let (linux, own) = (real(rig, names, case), ours(scenario, sets, case));
        let frames = BURSTS * case.burst;
        println!("      {:52}   Linux    ours", format!("{}, a frame", case.name));
        for row in rows {
            let (a, b) = (row.of(&linux), row.of(&own));
            if (a, b) == (0, 0) {
                continue;
            }
            let slack = row.slack.filter(|_| case.burst == 1 || !row.alone);
            let apart = slack.is_some_and(|allowed| (a - b).abs() > allowed);
            println!(
                "        {:48}{:>10}{:>8}{}",
                row.name,
                shown(a as f64 / frames as f64),
                shown(b as f64 / frames as f64),
                if apart { " !" } else { "" }
            );
            if apart {
                let (case, row) = (case.name, row.name);
                wrong.push(format!("{case}, {row}: {a} of {frames} frames, ours {b}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("; "));
}
