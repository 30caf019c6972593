use super::*;
use crate::figures::Tolerance;
use doorbell_systems::DOORBELL;

const HEAD: &str = "name = \"rack\"\nabout = \"a machine\"\nprofile = \"mlx5-gen3\"\n";
const CONSTANT: &str = "[[constant]]\nkey = \"cpu.stack\"\n";
const ROW: &str = "[[row]]\nscenario = \"mlx5-single-stream\"\nset = [\"traffic.burst=8\"]\n\
    metric = \"packets_per_s\"\nvalue = 12.5\nunit = \"Mpps\"\nspread = \"2 %\"\n\
    source = \"pktgen\"\n";

fn parsed(text: &str) -> Measurements {
    Measurements::parse(&DOORBELL, "m.toml", text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn refused(text: &str) -> String {
    Measurements::parse(&DOORBELL, "m.toml", text).expect_err("it is refused").to_string()
}

/// The message about a file in which `from` is replaced.
fn changed(from: &str, to: &str) -> String {
    let text = format!("{HEAD}{CONSTANT}{ROW}");
    assert!(text.contains(from), "{from}");
    refused(&text.replace(from, to))
}

#[test]
fn values_and_spreads_are_in_the_unit_of_the_metric() {
    let two = ROW.replace("spread = \"2 %\"", "spread = 0.25").replace("=8", "=16");
    let check = ROW.replace("source", "role = \"check\"\nsource").replace("burst=8", "burst=1");
    let m = parsed(&format!("{HEAD}{CONSTANT}{ROW}{two}{check}"));
    assert_eq!((m.rows[0].value, m.rows[0].spread), (12.5e6, Some(0.25e6)));
    assert_eq!(m.rows[1].spread, Some(0.25e6));
    assert_eq!(
        m.rows.iter().map(|r| r.role).collect::<Vec<_>>(),
        [Role::Fit, Role::Fit, Role::Predicted]
    );
    assert_eq!(m.rows[2].place, "m.toml:22");
    assert_eq!((m.solved_for(0).value, m.unknowns[0].range), (86.9, (0.0, 1e6)));
}

fn runs(m: &Measurements) -> Vec<usize> {
    m.rows.iter().map(|r| r.number.as_ref().unwrap().run).collect()
}

#[test]
fn rows_of_the_same_settings_share_a_run() {
    let cycles = ROW.replace("packets_per_s", "cycles").replace("Mpps", "cycles");
    let other = cycles.replace("burst=8", "burst=4");
    let m = parsed(&format!("{HEAD}{CONSTANT}{ROW}{cycles}{other}"));
    assert_eq!(runs(&m), [0, 0, 1]);
}

#[test]
fn a_row_that_sets_a_constant_does_not_follow_it() {
    let set = ROW.replace("burst=8", "burst=8\", \"cpu.stack=50");
    let m = parsed(&format!("{HEAD}{CONSTANT}{ROW}{set}"));
    let mut c = m.constants.clone();
    c.set("cpu.stack", &70.0.into()).unwrap();
    let stack = |r: &Run| r.values(&c).number("cpu.stack");
    assert_eq!(m.runs.iter().map(stack).collect::<Vec<_>>(), [70.0, 50.0]);
}

#[test]
fn ranges_are_in_a_unit_of_the_key() {
    let range = "range = [10, 90]\nunit = \"cycles\"\n";
    assert_eq!(parsed(&format!("{HEAD}{CONSTANT}{range}{ROW}")).unknowns[0].range, (10.0, 90.0));
    // The profile's value stays what it is.
    let beside = range.replace("90", "50");
    let m = parsed(&format!("{HEAD}{CONSTANT}{beside}{ROW}"));
    assert_eq!((m.solved_for(0).value, m.unknowns[0].range), (86.9, (10.0, 50.0)));
    // That of a fitted constant in the profile.
    let latency = CONSTANT.replace("cpu.stack", "pcie.memory_latency");
    let text = format!("{HEAD}{latency}{ROW}").replace("gen3", "gen2");
    assert_eq!(parsed(&text).unknowns[0].range, (50.0, 1000.0));
}

#[test]
fn wrong_files_are_refused_with_their_line() {
    let all = [
        changed("profile = \"mlx5-gen3\"", "profile = \"mlx5\""),
        changed("about = \"a machine\"", "about = \" \""),
        changed("cpu.stack", "cpu.stak"),
        changed("cpu.stack", "pcie.mps"),
        changed("cpu.stack\"", "cpu.stack\"\nrange = [10, 90]"),
        changed("cpu.stack\"", "cpu.stack\"\nrange = [90, 10]\nunit = \"cycles\""),
        changed("cpu.stack\"", "cpu.stack\"\nrange = [-1, 10]\nunit = \"cycles\""),
        changed(CONSTANT, &CONSTANT.repeat(2)),
        changed("mlx5-single-stream", "mlx5-single"),
        changed("mlx5-single-stream", "e1000-pktgen"),
        changed("traffic.burst=8", "traffic.brust=8"),
        changed("traffic.burst=8", "traffic.burst=0.5"),
        changed("traffic.burst=8", "traffic.rounds=2"),
        changed("packets_per_s", "packet_per_s"),
        changed("packets_per_s", "packets_per_s+cycles"),
        changed("unit = \"Mpps\"\n", ""),
        changed("Mpps", "Mbit/s"),
        changed("packets_per_s", "maps"),
        changed("spread = \"2 %\"", "spread = \"2\""),
        changed("spread = \"2 %\"", "spread = 0"),
        changed("source = \"pktgen\"", "source = \"\""),
        changed("source = \"pktgen\"", "source = \"pktgen\"\nrole = \"shown\""),
        changed("value = 12.5\n", ""),
        changed("value", "valu"),
        changed(CONSTANT, ""),
        changed(ROW, ""),
        changed("source", "role = \"check\"\nsource"),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn spreads_are_of_all_rows_or_of_none() {
    let without = ROW.replace("spread = \"2 %\"\n", "").replace("=8", "=4");
    assert_eq!(
        refused(&format!("{HEAD}{CONSTANT}{ROW}{without}")),
        "m.toml:14: it has no spread, but that at m.toml:6 has one; give all, or none"
    );
    assert_eq!(parsed(&format!("{HEAD}{CONSTANT}{without}")).rows[0].spread, None);
}

#[test]
fn rows_of_one_run_that_differ_are_a_contradiction() {
    let again = ROW.replace("12.5", "15");
    assert_eq!(
        refused(&format!("{HEAD}{CONSTANT}{ROW}{again}")),
        "m.toml:14: `packets_per_s` is 15000000 here and 12500000 at m.toml:6, of the same run: 6 \
         times the spread of their difference"
    );
    // Within their spreads they may differ.
    parsed(&format!("{HEAD}{CONSTANT}{ROW}{}", ROW.replace("12.5", "12.9")));
}

const RUNS: &str = "set = [\"traffic.packets=256\"]\n\
    [run.on]\nscenario = \"mlx5-single-stream\"\n\
    [run.off]\nscenario = \"mlx5-single-stream\"\nset = [\"driver.mpwqe=off\"]\n";
const ON: &str = "[[row]]\nfigure = \"on\"\nrun = \"on\"\nmetric = \"packets_per_s\"\n\
    value = 12.5\nunit = \"Mpps\"\ntolerance = { abs = 0.5 }\nrole = \"predicted\"\n\
    source = \"pktgen\"\n";
const DOORBELLS: &str = "[[row]]\nfigure = \"doorbells\"\nrun = \"off\"\n\
    metric = \"mmio_writes\"\nper = \"driver_packets\"\nfactor = 32\nvalue = 1\n\
    unit = \"a burst\"\nrole = \"at_or_below\"\nsource = \"seen\"\n";
const SUM: &str = "[[row]]\nderived = { rule = \"sum\", from = [\"on\", \"doorbells\"] }\n\
    value = 2\nrole = \"shown\"\nsource = \"both\"\n";

#[test]
fn rows_are_written_as_published_ones_are() {
    let m = parsed(&format!("{HEAD}{RUNS}{CONSTANT}{ROW}{ON}{DOORBELLS}{SUM}"));
    // The runs are off, on, and the row's own.
    assert_eq!(
        m.rows[..3].iter().map(|r| r.number.as_ref().unwrap().run).collect::<Vec<_>>(),
        [2, 1, 0]
    );
    let set = |run: usize| m.runs[run].plan.set.join(" ");
    assert_eq!(set(0), "traffic.packets=256 driver.mpwqe=off");
    assert_eq!(set(2), "traffic.packets=256 traffic.burst=8");
    // A tolerance is in the unit of the metric, too.
    assert_eq!(m.rows[1].tolerance, Some(Tolerance::Abs(0.5e6)));
    assert_eq!((m.rows[2].value, &*m.rows[2].unit), (1.0, "a burst"));
    assert_eq!(m.rows[2].computed_from(), "mmio_writes per driver_packets");
    assert_eq!(
        (m.rows[3].computed_from().as_str(), m.run_of(&m.rows[3])),
        ("on + doorbells", None)
    );
}

#[test]
fn rows_that_do_not_go_together_are_refused() {
    let text = format!("{HEAD}{RUNS}{CONSTANT}{ROW}{ON}{DOORBELLS}{SUM}");
    let changed = |from: &str, to: &str| {
        assert!(text.contains(from), "{from}");
        refused(&text.replace(from, to))
    };
    let all = [
        changed("run = \"on\"", "run = \"onn\""),
        changed("run = \"on\"", "run = \"on\"\nscenario = \"mlx5-single-stream\""),
        changed("run = \"on\"\n", ""),
        changed("metric = \"mmio_writes\"\n", ""),
        changed("factor = 32", "factor = 0"),
        changed("per = \"driver_packets\"", "per = \"driver_pakets\""),
        changed("role = \"at_or_below\"", "role = \"at_or_below\"\ntolerance = { rel = 1 }"),
        changed("role = \"at_or_below\"", "role = \"at_or_below\"\nswap = \"on\""),
        changed("figure = \"doorbells\"", "figure = \"on\""),
        changed("[\"on\", \"doorbells\"]", "[\"on\", \"doorbels\"]"),
        changed("[\"on\", \"doorbells\"] }", "[\"s\", \"on\"] }\nfigure = \"s\""),
        changed("role = \"shown\"", "metric = \"cycles\"\nrun = \"on\""),
        changed("set = [\"driver.mpwqe=off\"]", "constants = [\"cpu.stak\"]"),
    ];
    insta::assert_snapshot!(all.join("\n"));
}

/// A directory with the samples of the readers.
fn samples() -> String {
    let samples = "src/fit/readers/samples/m.toml";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(samples).to_string_lossy().into_owned()
}

fn counters(text: &str) -> Result<Measurements, InputError> {
    let head = "[[counters]]\nscenario = \"mlx5-single-stream\"\n";
    Measurements::parse(&DOORBELL, &samples(), &format!("{HEAD}{CONSTANT}{head}{text}"))
}

#[track_caller]
fn counted(text: &str, rows: &[(&str, f64)]) -> Measurements {
    let m = counters(text).unwrap_or_else(|e| panic!("{e}"));
    let found: Vec<(&str, f64)> =
        m.rows.iter().map(|r| (&*r.metric().unwrap().name, r.value)).collect();
    assert_eq!(found.len(), rows.len());
    for (a, b) in found.iter().zip(rows) {
        assert!(a.0 == b.0 && (a.1 / b.1 - 1.0).abs() < 1e-6, "{a:?} {b:?}");
    }
    m
}

#[test]
fn counters_become_rows() {
    let m = counted(
        "format = \"ethtool\"\nbefore = \"ethtool-before.txt\"\nafter = \"ethtool-after.txt\"\n\
         packets = \"tx_packets\"\nspread = \"1 %\"\n[counters.metrics]\n\
         tx_mpwqe_blks = \"driver_mpwqe_blks\"\ntx_bytes = \"wire_bytes\"\n",
        &[("driver_mpwqe_blks", 0.03125), ("wire_bytes", 60.0)],
    );
    assert_eq!(m.rows[0].source, "ethtool-before.txt to ethtool-after.txt tx_mpwqe_blks");
    assert!((m.rows[1].spread.unwrap() - 0.6).abs() < 1e-9);
    assert!(m.rows[1].place.ends_with("m.toml:15"), "{}", m.rows[1].place);
    // One snapshot counts from the start of the interface.
    let m = counted(
        "format = \"ethtool\"\nfile = \"ethtool-after.txt\"\npackets = \"tx_packets\"\n\
         seconds = 2.5\n[counters.metrics]\ntx_bytes = \"wire_bytes\"\n\
         tx_packets = \"packets_per_s\"\n",
        &[("wire_bytes", 60.0), ("packets_per_s", 4_733_601.6)],
    );
    assert_eq!(m.rows[0].source, "ethtool-after.txt tx_bytes");
    counted(
        "format = \"perf\"\nfile = \"perf.txt\"\npackets = 1e8\n[counters.metrics]\n\
         cycles = \"cycles\"\n",
        &[("cycles", 249.98112904)],
    );
    // The spread of repeated runs is the tool's own.
    let m = counted(
        "format = \"perf-csv\"\nfile = \"perf-repeated.csv\"\npackets = 1e7\n[counters.metrics]\n\
         cycles = \"cycles\"\n",
        &[("cycles", 246.6190442)],
    );
    assert!((m.rows[0].spread.unwrap() - 246.6190442 * 0.0021).abs() < 1e-6);
    counted(
        "format = \"pcm-iio\"\nfile = \"pcm-iio.csv\"\npackets = 2e7\nseconds = 1\n\
         [counters.metrics]\n\"IB read\" = \"pcie_read_bytes\"\n",
        &[("pcie_read_bytes", 128.9197)],
    );
    counted(
        "format = \"pcm-pcie\"\nfile = \"pcm-pcie.csv\"\npackets = 1e7\n[counters.metrics]\n\
         PCIRdCur = { metric = \"pcie_read_bytes\", factor = 64 }\n",
        &[("pcie_read_bytes", 257.83936)],
    );
    counted(
        "format = \"iperf3\"\nfile = \"iperf3.json\"\n[counters.metrics]\n\
         \"sum_sent.bytes\" = { metric = \"frame_bits_per_s\", factor = 8 }\n\
         \"cpu_utilization_percent.host_total\" = { metric = \"cpu_busy_share\", factor = 0.01 }\n",
        &[("frame_bits_per_s", 939_507_091.0), ("cpu_busy_share", 0.11402)],
    );
}

#[test]
fn wrong_counters_are_refused() {
    let ethtool = "format = \"ethtool\"\nbefore = \"ethtool-before.txt\"\n\
        after = \"ethtool-after.txt\"\n";
    let perf = "format = \"perf\"\nfile = \"perf.txt\"\n";
    let metrics = "[counters.metrics]\n";
    let all = [
        format!("{ethtool}packets = 1\n{metrics}tx_pakets = \"wire_bytes\"\n"),
        format!("{ethtool}packets = \"tx_pkts\"\n{metrics}tx_bytes = \"wire_bytes\"\n"),
        format!("{ethtool}packets = \"tx_tso_packets\"\n{metrics}tx_bytes = \"wire_bytes\"\n"),
        format!("{ethtool}{metrics}tx_bytes = \"wire_bytes\"\n"),
        format!("{ethtool}{metrics}tx_packets = \"packets_per_s\"\n"),
        format!("{ethtool}packets = 1\n{metrics}tx_bytes = \"wire_byte\"\n"),
        format!("{ethtool}packets = 1\n{metrics}tx_bytes = \"cpu_busy_share\"\n"),
        format!("{ethtool}file = \"perf.txt\"\n{metrics}tx_bytes = \"wire_bytes\"\n"),
        format!("{perf}packets = 1\n{metrics}stalled-cycles-frontend = \"cycles\"\n"),
        format!("{perf}before = \"perf.txt\"\n{metrics}cycles = \"cycles\"\n"),
        format!("{perf}packets = 1\n{metrics}"),
        format!("format = \"pcm\"\nfile = \"perf.txt\"\n{metrics}cycles = \"cycles\"\n"),
        format!("format = \"perf\"\nfile = \"none.txt\"\n{metrics}cycles = \"cycles\"\n"),
        format!("format = \"pcm-iio\"\nfile = \"perf.txt\"\n{metrics}cycles = \"cycles\"\n"),
        format!("{perf}packets = inf\n{metrics}cycles = \"cycles\"\n"),
        format!("{perf}seconds = inf\n{metrics}cycles = \"cycles\"\n"),
        format!("{perf}packets = 1\n{metrics}cycles = {{ metric = \"cycles\", factor = nan }}\n"),
        format!("{perf}packets = 1\n{metrics}cycles = {{ metric = \"cycles\", factor = 0.0 }}\n"),
    ];
    let dir = samples().replace("m.toml", "");
    let refused = |text: &String| counters(text).expect_err(text).to_string().replace(&dir, "");
    insta::assert_snapshot!(all.iter().map(refused).collect::<Vec<_>>().join("\n"));
}
