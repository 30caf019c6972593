use super::*;

const ETHTOOL: [&str; 2] =
    [include_str!("samples/ethtool-before.txt"), include_str!("samples/ethtool-after.txt")];

fn of(format: Format, text: &str) -> Readings {
    read(format, "x", text).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(format: Format, text: &str) -> String {
    read(format, "x", text).expect_err("it is refused").to_string()
}

#[track_caller]
fn holds(readings: &Readings, name: &str, value: f64, kind: Kind) {
    let (found, reading) = readings.get(name).unwrap();
    assert_eq!((found, reading.kind), (value, kind), "{name}");
}

#[test]
fn snapshots_of_ethtool_are_subtracted() {
    let [before, after] = ETHTOOL.map(|text| of(Format::Ethtool, text));
    let between = before.until(&after).unwrap();
    holds(&between, "tx_packets", 1e7, Kind::Total);
    holds(&between, "tx_mpwqe_blks", 312_500.0, Kind::Total);
    assert_eq!(
        after.until(&before).unwrap_err(),
        "`ch_events` went back from 1931 to 402: the interface was reset in between, or the two \
         files are exchanged"
    );
    assert_eq!(
        between.get("tx_mpwqe_blk").unwrap_err(),
        "no counter is called `tx_mpwqe_blk`; the nearest is `tx_mpwqe_blks`"
    );
    assert_eq!(
        refused(Format::Ethtool, "NIC statistics:\n     tx_packets: 1.2k\n"),
        "x:2: `tx_packets` is `1.2k`, which is no whole number"
    );
}

#[test]
fn perf_has_counts_and_the_time() {
    let r = of(Format::Perf, include_str!("samples/perf.txt"));
    holds(&r, "cycles", 24_998_112_904.0, Kind::Total);
    holds(&r, "cpu-clock", 10_000.52, Kind::Total);
    holds(&r, "power/energy-pkg/", 412.31, Kind::Total);
    assert_eq!(r.seconds, Some(10.000_613_874));
    let absent = "`stalled-cycles-frontend` was not counted";
    assert_eq!(r.get("stalled-cycles-frontend").unwrap_err(), absent);
    assert!(r.get("uncore_iio_0/event=0x83/").unwrap_err().ends_with("was not counted"));
    let names: Vec<&String> = r.counters.keys().collect();
    assert_eq!(names.len(), 7, "{names:?}");
}

#[test]
fn repeated_runs_of_perf_have_spreads() {
    let table = of(Format::Perf, include_str!("samples/perf-repeated.txt"));
    let lines = of(Format::PerfCsv, include_str!("samples/perf-repeated.csv"));
    for r in [&table, &lines] {
        let spread = r.get("cycles").unwrap().1.spread.unwrap();
        assert!((spread / 2_466_190_442.0 - 0.0021).abs() < 1e-9, "{spread}");
        assert_eq!(r.counters.len(), 2, "{r:?}");
    }
    assert_eq!((table.seconds, lines.seconds), (Some(0.98812), None));
}

#[test]
fn lines_of_perf_have_the_counts_of_its_table() {
    let table = of(Format::Perf, include_str!("samples/perf.txt"));
    let lines = of(Format::PerfCsv, include_str!("samples/perf.csv"));
    for name in ["cycles", "instructions", "cpu-clock"] {
        assert_eq!(lines.get(name), table.get(name));
    }
    assert!(lines.get("stalled-cycles-frontend").is_err());
    assert_eq!(lines.counters.len(), 4, "{lines:?}");
}

#[test]
fn perf_of_another_form_is_refused() {
    assert_eq!(
        refused(Format::Perf, "\n  2.466.190.442      cycles\n"),
        "x:2: `2.466.190.442` is no number of the C locale; run perf with LC_ALL=C"
    );
    let interval = "1.000112,24998112904,,cycles,8333012441,83.33,,\n";
    let why = "is no line of value, unit and event; perf stat -x without -I, -A and --per-* has \
               one for each event";
    let cut = "1.000112,24998112904,,cycles,8333012441,";
    assert_eq!(refused(Format::PerfCsv, interval), format!("x:1: `{cut}` {why}"));
    assert_eq!(
        refused(Format::Perf, "nothing here\n"),
        "x: no counter in it; expected is the table of perf stat"
    );
}

#[test]
fn samples_of_pcm_pcie_are_added_up() {
    let r = of(Format::PcmPcie, include_str!("samples/pcm-pcie.csv"));
    holds(&r, "PCIRdCur", 40_287_400.0, Kind::Total);
    holds(&r, "WiL", 625_008.0, Kind::Total);
    holds(&r, "Skt0/WiL", 624_982.0, Kind::Total);
    holds(&r, "PCIe Rd (B)", 2_578_393_600.0, Kind::Total);
    let r = of(Format::PcmPcie, include_str!("samples/pcm-pcie-misses.csv"));
    holds(&r, "ItoM", 1650.0, Kind::Total);
    holds(&r, "ItoM(Miss)", 650.0, Kind::Total);
    holds(&r, "Skt0/PCIRdCur(Hit)", 2e7, Kind::Total);
    assert_eq!(refused(Format::PcmPcie, "a,b\n1,2\n"), "x: no line begins with `Skt`");
    let what = "`WiL` is `1 K`, which is no number; pcm prints plain numbers without \
                -human-readable";
    assert_eq!(refused(Format::PcmPcie, "Skt,WiL\n0,1 K\n"), format!("x:2: {what}"));
}

#[test]
fn pcm_iio_is_the_mean_rate_of_its_samples() {
    let r = of(Format::PcmIio, include_str!("samples/pcm-iio.csv"));
    holds(&r, "IB read", 2_578_394_000.0, Kind::Rate);
    holds(&r, "Socket0/IIO Stack 2 - PCIe1/Part0/OB write", 2_500_000.0, Kind::Rate);
    holds(&r, "Socket0/IIO Stack 2 - PCIe1/Part1/IB read", 0.0, Kind::Rate);
}

#[test]
fn iperf3_has_its_numbers_by_path() {
    let r = of(Format::Iperf3, include_str!("samples/iperf3.json"));
    holds(&r, "sum_received.bits_per_second", 937_408_286.4, Kind::Rate);
    holds(&r, "sum_sent.bytes", 1_174_405_120.0, Kind::Total);
    holds(&r, "cpu_utilization_percent.host_total", 11.402, Kind::Plain);
    holds(&r, "streams.0.sender.mean_rtt", 1820.0, Kind::Plain);
    assert_eq!(r.seconds, Some(10.000_181));
    let failed = r#"{"start":{},"end":{},"error":"unable to connect to server"}"#;
    assert_eq!(refused(Format::Iperf3, failed), "x: iperf3 failed: unable to connect to server");
    assert!(refused(Format::Iperf3, "{\n").starts_with("x:2: it is not JSON"));
}
