use super::*;

#[test]
fn a_run_without_packets_divides_by_nothing() {
    let m = Measured {
        packets: 0,
        elapsed: Span::ZERO,
        window: Window::whole(Span::ZERO, 0),
        counts_of: CountsOf::Run,
        rates: vec![PACKETS.is(0.0)],
        counts: vec![Count { group: Group::Bus, name: "maps".into(), about: "", value: 1 }],
        costs: vec![],
        registers: vec![],
        series: vec![Series { name: "setting", points: vec![(0.0, 1.0)] }],
        latency: Histogram::default(),
        latency_of: SENT,
        errors: Errors::none(CountsOf::Run),
        sent: None,
        verdict: Verdict { audit: vec!["one".into()], ..Verdict::default() },
    };
    let of = Provenance {
        scenario: "x".into(),
        about: "a".into(),
        system: "s".into(),
        profile: "p".into(),
        profile_sha256: "ab".into(),
        set: vec![],
        settings: Map::from_iter([("pcie.mps".into(), "128 B".into())]),
        capture_sha256: None,
        seed: 3,
    };
    let r =
        RunResult { of, limits: vec![("cpu_busy_share".into(), 0.5)], limit: None, measured: m };
    insta::assert_snapshot!(serde_json::to_string_pretty(&r).unwrap(), @r#"
        {
          "scenario": "x",
          "about": "a",
          "system": "s",
          "profile": "p",
          "profile_sha256": "ab",
          "set": [],
          "settings": {
            "pcie.mps": "128 B"
          },
          "capture_sha256": null,
          "seed": 3,
          "limits": {
            "cpu_busy_share": 0.5
          },
          "packets": 0,
          "seconds": 0.0,
          "rates": {
            "packets_per_s": 0.0
          },
          "rates_error": {},
          "window": {
            "start_ns": 0.0,
            "end_ns": 0.0,
            "packets": 0,
            "batches": 0,
            "steady": false,
            "note": "no packets"
          },
          "counts_of": "run",
          "ledger": {
            "maps": 1
          },
          "per_packet": {},
          "latency_ns": {},
          "latency_ns_error": {},
          "latency_of": "from a packet's due time to its buffer's return",
          "latency_histogram_ns": [],
          "series": {
            "setting": [
              [
                0.0,
                1.0
              ]
            ]
          },
          "outcome": "failed",
          "lost": [],
          "audit": [
            "one"
          ]
        }
        "#);
}
