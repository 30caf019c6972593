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
    let cpu = "CPU3,24998112904,,cycles,8333012441,83.33,,\n";
    let why = "is no line of value, unit and event; perf stat -x without -A and --per-* has one \
               for each event";
    let cut = "CPU3,24998112904,,cycles,8333012441,83.3";
    assert_eq!(refused(Format::PerfCsv, cpu), format!("x:1: `{cut}` {why}"));
    let part = |part| {
        format!("the counts are of {part}; perf stat without -A and --per-* counts the whole")
    };
    for (line, name) in [
        ("CPU0            24,998      cycles\n", "`CPU0`"),
        ("S0-D0-C1      2     <not counted>      cycles\n", "`S0-D0-C1`"),
        ("     1.000112 CPU3         24,998      cycles\n", "`CPU3`"),
    ] {
        assert_eq!(refused(Format::Perf, line), format!("x:1: {}", part(name)));
    }
    let json = "{\"cpu\" : \"3\", \"counter-value\" : \"1.0\", \"event\" : \"cycles\"}";
    assert_eq!(refused(Format::PerfJson, json), format!("x:1: {}", part("a `cpu`")));
    assert_eq!(
        refused(Format::Perf, "nothing here\n"),
        "x: no counter in it; expected is the table of perf stat"
    );
}

#[test]
fn intervals_of_perf_are_added_up() {
    let table = "\
#           time             counts unit events
     1.001120000     24,998,112,904      cycles                    #    2.500 GHz    (83.33%)
     1.001120000           1,000.12 msec cpu-clock                 #    1.000 CPUs utilized
     1.001120000      <not counted>      uncore_iio_0/event=0x83/
     2.002240000     24,000,000,096      cycles                    #    2.400 GHz
     2.002240000           1,000.38 msec cpu-clock
     2.002240000                  5      uncore_iio_0/event=0x83/
";
    let lines = "\
     1.001120000,24998112904,,cycles,1000,83.33,2.5,GHz
     1.001120000,1000.12,msec,cpu-clock,1000,100.00,,
     1.001120000,<not counted>,,uncore_iio_0/event=0x83/,0,0.00,,
     1.001120000,,,,,,1.2,insn per cycle
     2.002240000,24000000096,,cycles,1000,100.00,2.4,GHz
     2.002240000,1000.38,msec,cpu-clock,1000,100.00,,
     2.002240000,5,,uncore_iio_0/event=0x83/,1,100.00,,
";
    let json: String =
        ["1.001120000 24998112904.000000 1000.120000", "2.00224 24000000096 1000.38"]
            .iter()
            .flat_map(|line| {
                let [at, cycles, clock] = line.split(' ').collect::<Vec<_>>()[..] else { panic!() };
                let event = |value, name| {
                    format!(
                        "{{\"interval\" : {at}, \"counter-value\" : \"{value}\", \"unit\" : \"\", \
                     \"event\" : \"{name}\", \"event-runtime\" : 1, \"pcnt-running\" : 1.0}}\n"
                    )
                };
                [
                    event(cycles, "cycles"),
                    event(clock, "cpu-clock"),
                    event("<not counted>", "uncore_iio_0/event=0x83/"),
                    format!("{{\"interval\" : {at}, \"metric-value\" : \"2.5\"}}\n"),
                ]
            })
            .collect();
    let all = [(Format::Perf, table), (Format::PerfCsv, lines), (Format::PerfJson, &json)];
    for (format, text) in all {
        let r = of(format, text);
        holds(&r, "cycles", 48_998_113_000.0, Kind::Total);
        holds(&r, "cpu-clock", 2000.5, Kind::Total);
        assert_eq!(r.seconds, Some(2.00224), "{format:?}");
        assert!(r.get("uncore_iio_0/event=0x83/").unwrap_err().ends_with("was not counted"));
        assert_eq!(r.counters.len(), 3, "{format:?} {r:?}");
    }
    let twice = "intervals and a summary are in one file, which count the same; keep one";
    let more = format!("{table}\n   48,998,113,000      cycles\n");
    assert_eq!(refused(Format::Perf, &more), format!("x:9: {twice}"));
    let more = format!("{lines}48998113000,,cycles,1000,83.33,,\n");
    assert_eq!(refused(Format::PerfCsv, &more), format!("x:8: {twice}"));
}

#[test]
fn json_of_perf_has_spreads_and_refuses_what_it_is_not() {
    let line = "# started\n{\"counter-value\" : \"2000.0\", \"variance\" : 0.5, \
                \"event\" : \"cycles\"}\n";
    let r = of(Format::PerfJson, line);
    assert_eq!((r.get("cycles").unwrap().1.spread, r.seconds), (Some(10.0), None));
    let wrong = |text: &str| refused(Format::PerfJson, text);
    assert!(wrong("{\n").starts_with("x:1: it is no JSON object, one a line as of perf stat -j"));
    assert!(wrong("[1]\n").starts_with("x:1: it is no JSON object"));
    let event = "{\"event\" : \"cycles\"";
    assert_eq!(wrong(&format!("{event}}}")), "x:1: an event has no `event` or no `counter-value`");
    let value = format!("{event}, \"counter-value\" : \"1 k\"}}");
    assert_eq!(wrong(&value), "x:1: `cycles` is \"1 k\", which is no number");
    let stamp = format!("{event}, \"counter-value\" : \"1\", \"interval\" : \"x\"}}");
    assert_eq!(wrong(&stamp), "x:1: `interval` is no number");
}

#[test]
fn rates_of_ethtool_are_means_of_their_intervals() {
    let text = "\
Show adapter(s) (mlx5p1 mlx5p2) statistics (ONLY that changed!)
Ethtool(mlx5p1  ) stat:     14881000 (     14,881,000) <= tx_packets /sec
Ethtool(mlx5p2  ) stat:          200 (            200) <= tx_packets /sec

Show adapter(s) (mlx5p1 mlx5p2) statistics (ONLY that changed!)
Ethtool(mlx5p1  ) stat:     14879000 (     14,879,000) <= tx_packets /sec
";
    let r = of(Format::EthtoolRates, text);
    holds(&r, "mlx5p1/tx_packets", 14_880_000.0, Kind::Rate);
    holds(&r, "mlx5p2/tx_packets", 100.0, Kind::Rate);
    holds(&r, "tx_packets", 14_880_100.0, Kind::Rate);
    let no_heads: String =
        text.lines().filter(|l| !l.starts_with("Show")).collect::<Vec<_>>().join("\n");
    assert_eq!(of(Format::EthtoolRates, &no_heads), r);
    for line in [
        "tx_packets: 5",
        "Ethtool(eth0) stat: 5 (6) <= tx_packets /sec",
        "Ethtool(eth0) stat: 5 (5) <= tx_packets /min",
        "Ethtool(eth0) stat: x (x) <= tx_packets /sec",
        "Ethtool(eth0) stat: 5 (5) <= /sec",
    ] {
        let what = "is no line `Ethtool(DEV) stat: N (N) <= NAME /sec`";
        let cut: String = line.chars().take(40).collect();
        assert_eq!(refused(Format::EthtoolRates, line), format!("x:1: `{cut}` {what}"));
    }
}

const INTERRUPTS: &str = "\
            CPU0       CPU1
   0:         33          0  IR-IO-APIC   2-edge      timer
 120:       1000       2000  IR-PCI-MSI 524288-edge      mlx5_async0@pci:0000:3b:00.0
 121:     500000          7  IR-PCI-MSI 524289-edge      mlx5_comp0@pci:0000:3b:00.0
 122:          1     400000  IR-PCI-MSI 524290-edge      mlx5_comp1@pci:0000:3b:00.0
  16:          5          6   IO-APIC  16-fasteoi   ehci_hcd:usb1, eth2
 123:          2          3  IR-PCI-MSI 524291-edge
 NMI:          8          9   Non-maskable interrupts
 ERR:          4
";

#[test]
fn interrupts_have_the_names_of_their_handlers() {
    let r = of(Format::Interrupts, INTERRUPTS);
    holds(&r, "mlx5_comp0@pci:0000:3b:00.0", 500_007.0, Kind::Total);
    holds(&r, "mlx5_comp*", 900_008.0, Kind::Total);
    holds(&r, "*@pci:0000:3b:00.0", 903_008.0, Kind::Total);
    holds(&r, "mlx5*1@*", 400_001.0, Kind::Total);
    holds(&r, "ehci_hcd:usb1, eth2", 11.0, Kind::Total);
    holds(&r, "123", 5.0, Kind::Total);
    holds(&r, "NMI", 17.0, Kind::Total);
    holds(&r, "ERR", 4.0, Kind::Total);
    assert!(r.get("mlx4*").unwrap_err().starts_with("no counter is called `mlx4*`"));
    assert!(r.get("mlx5_comp*3").is_err());
    let later = of(Format::Interrupts, &INTERRUPTS.replace("500000", "500100"));
    holds(&r.until(&later).unwrap(), "mlx5_comp*", 100.0, Kind::Total);
    let wrong = |from: &str, to: &str| refused(Format::Interrupts, &INTERRUPTS.replace(from, to));
    let no_head = "the head, `CPU0 CPU1 …`, is not there: the columns are not known";
    assert_eq!(wrong("CPU0       CPU1\n", ""), format!("x:1: {no_head}"));
    assert_eq!(wrong(" 120:", " 120 "), "x:3: is no line of an interrupt, `NAME: COUNT …`");
    assert_eq!(wrong("1000 ", "1k "), "x:3: `120` has a count that is no whole number");
    assert_eq!(wrong("CPU1", "CPU1 CPU2"), "x:2: `0` has a count that is no whole number");
    let few = INTERRUPTS.replace("CPU1", "CPU1 CPU2").lines().take(1).collect::<String>()
        + "\n 7:  1  2\n";
    assert_eq!(refused(Format::Interrupts, &few), "x:2: `7` has 2 counts, and the head 3 CPUs");
}

#[test]
fn mpstat_has_the_mean_of_its_samples() {
    let sample = |soft: f64, intr: f64| {
        format!(
            r#"{{"timestamp": "10:12:44", "cpu-load": [
                {{"cpu": "all", "usr": 1.5, "soft": {soft}, "idle": 90.0}},
                {{"cpu": "3", "usr": 0.0, "soft": {soft}, "idle": 1.0}}],
                "sum-interrupts": [{{"cpu": "all", "intr": {intr}}}],
                "soft-interrupts": [
                    {{"cpu": "3", "intr": [{{"name": "NET_RX", "value": 7.0}}]}}]}}"#
        )
    };
    let file = |samples: &[String]| {
        let all = samples.join(",\n");
        format!(r#"{{"sysstat": {{"hosts": [{{"nodename": "a", "statistics": [{all}]}}]}}}}"#)
    };
    let r = of(Format::Mpstat, &file(&[sample(20.0, 1000.0), sample(40.0, 3000.0)]));
    holds(&r, "3.soft", 30.0, Kind::Plain);
    holds(&r, "all.usr", 1.5, Kind::Plain);
    holds(&r, "all.intr", 2000.0, Kind::Rate);
    holds(&r, "3.intr.NET_RX", 7.0, Kind::Rate);
    assert!(r.get("*.soft").unwrap_err().starts_with("`*.soft` fits counters that have no sum"));
    let wrong = |text: &str| refused(Format::Mpstat, text);
    assert!(wrong("{\n").starts_with("x:2: it is not JSON"));
    assert_eq!(wrong("{}"), "x: `sysstat.hosts` is not there, or has not one host");
    assert_eq!(wrong(&file(&[])), "x: `statistics` of the host has no sample");
    let load = |load: &str| wrong(&file(&[format!(r#"{{"cpu-load": {load}}}"#)]));
    assert_eq!(load("5"), "x: `cpu-load` is no list");
    assert_eq!(load(r#"[{"usr": 1.0}]"#), "x: an entry of `cpu-load` has no `cpu`");
    assert_eq!(load("[]"), "x: no counter in it; expected is mpstat -o JSON");
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
