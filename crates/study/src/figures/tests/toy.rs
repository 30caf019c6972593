//! Systems that are closures.

use crate::figures::*;
use std::sync::{Arc, Mutex};

type Measure = Box<dyn Fn(&Constants) -> Result<f64, MeasureError> + Send + Sync>;

/// Calls of a system: figure, and the constants' values.
pub(super) type Asked = Arc<Mutex<Vec<(String, Vec<u64>)>>>;

pub(super) struct Toy {
    pub(super) constants: Vec<Constant>,
    pub(super) choices: Vec<Choice>,
    rows: Vec<(Row, Measure)>,
    pub(super) misses: Vec<KnownMiss>,
    pub(super) asked: Asked,
    pub(super) precision: f64,
    pub(super) jitter: f64,
    name: &'static str,
}

impl Toy {
    pub(super) fn new(name: &'static str, constants: Vec<Constant>) -> Toy {
        Toy {
            constants,
            choices: Vec::new(),
            rows: Vec::new(),
            misses: Vec::new(),
            asked: Asked::default(),
            precision: fit::RESIDUAL,
            jitter: MIN_EFFECT,
            name,
        }
    }

    pub(super) fn add(
        &mut self,
        row: Row,
        measure: impl Fn(&Constants) -> Result<f64, MeasureError> + Send + Sync + 'static,
    ) {
        self.rows.push((row, Box::new(measure)));
    }

    pub(super) fn drop_row(&mut self, figure: &str) {
        self.rows.retain(|(row, _)| row.figure != figure);
    }

    pub(super) fn row(&mut self, figure: &str) -> &mut Row {
        &mut self.rows.iter_mut().find(|(r, _)| r.figure == figure).unwrap().0
    }
}

impl Toy {
    pub(super) fn set(self) -> FigureSet {
        let (measures, asked) = (self.rows, self.asked);
        let rows = measures.iter().map(|(row, _)| row.clone()).collect();
        let set = FigureSet::new(self.name, self.constants, rows, move |constants, figure| {
            asked.lock().unwrap().push((figure.into(), constants.fingerprint()));
            let of = measures.iter().find(|(r, _)| r.figure == figure);
            of.ok_or_else(|| MeasureError::unknown_figure(figure))?.1(constants)
        });
        FigureSet {
            about: "a server that is called once a packet, or once a batch".into(),
            constants: set.constants.choosing(self.choices),
            known_misses: self.misses.clone(),
            swapped_misses: self.misses,
            precision: self.precision,
            jitter: self.jitter,
            ..set
        }
    }
}

/// Time of one packet in us, when a call serves `batch` of them.
fn service(c: &Constants, batch: f64) -> Result<f64, MeasureError> {
    Ok(c.get("call.time")? / batch + c.get("packet.time")?)
}

/// A server that takes `packet.time` for a packet and `call.time` for a call; `on` means a call for
/// each batch of `batch.size`. It is fitted on 2 Mpps: the call is 0.3 us, and 8 packets a call
/// make 1 / 0.2375 = 4.2105 Mpps.
pub(super) fn queue() -> Toy {
    let mut toy = Toy::new(
        "queue",
        vec![
            Constant::cited(
                "packet.time",
                0.2,
                "us/packet",
                "data sheet of the server, table 3: 200 ns a packet",
            ),
            Constant::fitted("call.time", 1.0, "us/call", "queue.rate_off", (0.01, 10.0)),
            Constant::cited("batch.size", 8.0, "packets", "the paper, section 4")
                .nudged(Perturbation::Abs(1.0)),
            Constant::cited("line.rate", 5.0, "Mpps", "IEEE 802.3"),
        ],
    );
    let paper = "A. Author, \"Batches\", Journal of Queues 1 (2001)";
    toy.add(
        Row::new("queue.rate_off", 2.0, "Mpps", Role::Fit)
            .source(paper, "2.0 Mpps without batches")
            .depends_on(&["packet.time", "call.time"])
            .swaps_with("queue.rate_on"),
        |c| Ok(1.0 / service(c, 1.0)?),
    );
    // The paper's server was a little slower than its data sheet.
    toy.add(
        Row::new("queue.rate_on", 4.1, "Mpps", Role::Predicted)
            .within(Tolerance::Rel(0.1))
            .source(paper, "4.1 Mpps with batches of eight")
            .depends_on(&["packet.time", "call.time", "batch.size"]),
        |c| Ok(1.0 / service(c, c.get("batch.size")?)?),
    );
    toy.add(
        Row::new("queue.busy_on", 24.5, "%", Role::Predicted)
            .within(Tolerance::Abs(1.0))
            .source(paper, "24.5 % at 1 Mpps")
            .depends_on(&["packet.time", "call.time", "batch.size"]),
        |c| Ok(100.0 * service(c, c.get("batch.size")?)?),
    );
    toy.add(
        Row::new("queue.gain", 2.05, "", Role::Predicted)
            .within(Tolerance::Rel(0.1))
            .source(paper, "batches double the rate")
            .derived(Rule::Ratio, "queue.rate_on", "queue.rate_off"),
        |_| Err(MeasureError::new("a derived row is not measured")),
    );
    toy.add(
        Row::new("queue.line", 4.9, "Mpps", Role::AtOrBelow)
            .source("B. Author, \"Lines\"", "4.9 Mpps were seen")
            .depends_on(&["line.rate"]),
        |c| Ok(c.get("line.rate")?),
    );
    toy.add(
        Row::new("queue.calls_on", 0.125, "calls/packet", Role::Exact)
            .source(paper, "a call for eight packets")
            .depends_on(&["batch.size"]),
        |c| Ok(1.0 / c.get("batch.size")?),
    );
    let mut latency = Row::new("queue.latency", 1.25, "us", Role::Shown)
        .source(paper, "figure 7")
        .note("the paper does not say how a packet's wait was measured")
        .depends_on(&["packet.time", "call.time", "batch.size"]);
    latency.spread = Some(0.5);
    toy.add(latency, |c| Ok(c.get("batch.size")? * service(c, c.get("batch.size")?)?));
    toy
}

pub(super) fn run(system: Toy) -> Report {
    run_with(system, &Options::default())
}

pub(super) fn run_with(system: Toy, options: &Options) -> Report {
    refuse(system, options).unwrap()
}

pub(super) fn refuse(system: Toy, options: &Options) -> Result<Report, Refused> {
    reproduce(&[system.set()], options, &mut |_| true, &mut |_| ())
}

impl Row {
    /// Returns it with this document and passage as its source.
    pub(crate) fn source(mut self, document: &str, passage: &str) -> Row {
        (self.source, self.passage) = (document.into(), passage.into());
        self
    }

    /// Returns it with a note.
    pub(crate) fn note(mut self, note: &str) -> Row {
        self.note = note.into();
        self
    }

    /// Returns it depending directly on these constants and on no other.
    pub(crate) fn depends_on(mut self, keys: &[&str]) -> Row {
        self.inputs = Some(keys.iter().map(|k| (*k).to_owned()).collect());
        self
    }

    /// Returns it computed from two other rows.
    pub(crate) fn derived(mut self, rule: Rule, first: &str, second: &str) -> Row {
        self.derived = Some(Derived { rule, from: [first.into(), second.into()] });
        self
    }

    /// Exchanges roles with `partner` under `--swap`.
    pub(crate) fn swaps_with(mut self, partner: &str) -> Row {
        self.swap = Some(partner.into());
        self
    }
}

impl Constant {
    /// Returns the constant with `nudge` as its step in the sensitivity run.
    pub(crate) fn nudged(mut self, nudge: Perturbation) -> Constant {
        self.nudge = nudge;
        self
    }
}
