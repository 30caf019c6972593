//! `iperf3 --json`: the numbers of its member `end`, by their path: `sum_sent.bytes`,
//! `cpu_utilization_percent.host_total`, `streams.0.sender.mean_rtt`.

use super::{Kind, Misfit, Reading, Readings};
use serde_json::Value;

pub(super) fn read(text: &str) -> Result<Readings, Misfit> {
    let whole: Value = serde_json::from_str(text)
        .map_err(|e| Misfit::at(e.line(), format!("it is not JSON: {e}")))?;
    if let Some(why) = whole["error"].as_str() {
        return Err(Misfit { line: None, what: format!("iperf3 failed: {why}") });
    }
    let end = &whole["end"];
    let mut all = Readings::default();
    flatten("", end, &mut all);
    all.seconds = ["sum_sent", "sum"].iter().find_map(|s| end[s]["seconds"].as_f64());
    Ok(all)
}

fn flatten(path: &str, value: &Value, to: &mut Readings) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        _ => format!("{path}.{name}"),
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(n, v)| flatten(&below(n), v, to)),
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(n, v)| flatten(&below(&n.to_string()), v, to));
        }
        Value::Number(n) => {
            let reading = Reading { value: n.as_f64(), kind: kind(path), spread: None };
            to.counters.insert(path.to_owned(), reading);
        }
        _ => {}
    }
}

fn kind(path: &str) -> Kind {
    let name = path.rsplit('.').next().unwrap_or(path);
    match name {
        "bits_per_second" => Kind::Rate,
        "bytes" | "packets" | "lost_packets" | "retransmits" | "out_of_order" => Kind::Total,
        _ => Kind::Plain,
    }
}
