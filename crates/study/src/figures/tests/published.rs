//! The published rows of mlx5, and how a bad file is refused.

use crate::figures::published::{self, Sheet};
use crate::figures::*;
use doorbell_spec::InputError;
use doorbell_systems::DOORBELL;

fn parse(name: &str, text: &str) -> Result<Sheet, InputError> {
    published::parse(&DOORBELL, name, text, &DOORBELL.profile("mlx5-gen2").unwrap())
}

/// Returns the mlx5 rows.
fn mlx5() -> Sheet {
    parse("published/mlx5.toml", doorbell_systems::mlx5::SYSTEM.figures[0].rows).unwrap()
}

#[test]
fn the_mlx5_rows_are_consistent() {
    let fitted =
        Constant::fitted("pcie.memory_latency", 90.0, "ns", "mlx5.rates_gen3", (50.0, 200.0));
    let mut rows = mlx5().rows;
    rows.iter_mut().for_each(|row| row.inputs = None);
    let unknown = |_: &Constants, figure: &str| Err(MeasureError::unknown_figure(figure));
    let set = FigureSet::new("mlx5", vec![fitted], rows, unknown);
    assert_eq!(set.check(), Ok(()));
    assert!(set.rows.iter().all(|r| !r.source.is_empty() && !r.passage.is_empty()));
}

#[test]
fn the_mlx5_rows_are_those_published() {
    let list: Vec<String> = mlx5()
        .rows
        .iter()
        .map(|r| {
            let spread = r.spread.map_or(String::new(), |s| format!(" ±{s}"));
            let tolerance = r.tolerance.map_or(String::new(), |t| format!(" {t}"));
            format!("{} {}{spread} {} {}{tolerance}", r.figure, r.value, r.unit, r.role.name())
        })
        .collect();
    insta::assert_snapshot!(list.join("\n"), @r"
    mlx5.pcie_inbound_gen2_off 80.3 % predicted ±1.5 %
    mlx5.pcie_inbound_gen2_on 59 % predicted ±1.5 %
    mlx5.pcie_inbound_gen3_off 65.4 % predicted ±5 %
    mlx5.pcie_inbound_gen3_on 49.3 % predicted ±5 %
    mlx5.inbound_bytes_gen2_off 174.3 B/packet shown
    mlx5.inbound_bytes_gen2_on 128 B/packet shown
    mlx5.inbound_bytes_gen3_off 183.8 B/packet shown
    mlx5.inbound_bytes_gen3_on 138.5 B/packet shown
    mlx5.saved_bytes_gen2 46.2 B/packet predicted ±2.5 %
    mlx5.saved_bytes_gen3 45.2 B/packet predicted ±2.5 %
    mlx5.rate_gen2_off 37.5 Mpps predicted ±3 %
    mlx5.rate_gen2_on 49 Mpps predicted ±3 %
    mlx5.rate_gen3_off 57 Mpps predicted ±4 %
    mlx5.rate_gen3_on 66.8 Mpps shown
    mlx5.rates_gen3 123.8 Mpps fit
    mlx5.single_stream_off 17.01 ±0.2 Mpps shown
    mlx5.single_stream_on 20.94 ±0.33 Mpps shown
    mlx5.instructions_off 429 instr/packet shown
    mlx5.instructions_on 329 instr/packet shown
    mlx5.instructions_saved 100 instr/packet shown
    mlx5.cycles_off 161 cycles/packet shown
    mlx5.cycles_on 123 cycles/packet shown
    mlx5.ipc_off 2.67 instr/cycle shown
    mlx5.ipc_on 2.67 instr/cycle shown
    mlx5.tso_sessions 0 sessions definition ±0
    mlx5.nonlinear_sessions 0 sessions definition ±0
    mlx5.small_linear_tcp_sessions 1 sessions definition ±0
    ");
}

#[test]
fn saved_bytes_are_what_the_published_utilizations_say() {
    let rows = mlx5().rows;
    let published =
        |name: &str| rows.iter().find(|r| r.figure == format!("mlx5.{name}")).unwrap().value;
    for (generation, bytes_a_second, rate) in
        [("gen2", 8e9, 36.864e6), ("gen3", 128.0 / 130.0 * 16e9, 56.064e6)]
    {
        let bytes = |state: &str| {
            published(&format!("pcie_inbound_{generation}_{state}")) / 100.0 * bytes_a_second / rate
        };
        for state in ["off", "on"] {
            let row = published(&format!("inbound_bytes_{generation}_{state}"));
            assert!(
                (bytes(state) - row).abs() < 0.06,
                "{generation} {state}: {} {row}",
                bytes(state)
            );
        }
        let saved = published(&format!("saved_bytes_{generation}"));
        assert!((bytes("off") - bytes("on") - saved).abs() < 0.06, "{generation}: {saved}");
    }
}

#[test]
fn a_bad_file_is_refused_with_its_line() {
    let file = |row: &str| format!("about = \"x\"\n[documents]\nd = \"somewhere\"\n[[row]]\n{row}");
    let refusal = |row: &str| parse("rows.toml", &file(row)).unwrap_err().to_string();
    let good = "figure = \"x.a\"\nunit = \"\"\nvalue = 1.0\nrole = \"exact\"\nsource = \
        \"d\"\npassage = \"p\"\n";
    assert_eq!(parse("rows.toml", &file(good)).unwrap().rows.len(), 1);
    insta::assert_snapshot!(
        refusal(&good.replace("exact", "sure")),
        @"rows.toml:8: unknown variant `sure`, expected one of `exact`, `check`, `predicted`, \
          `at_or_below`, `at_or_above`, `definition`, `fit`, `shown`"
    );
    insta::assert_snapshot!(
        refusal(&good.replace("\"d\"", "\"e\"")),
        @"rows.toml:9: no document is called `e`; there are: d"
    );
    insta::assert_snapshot!(
        refusal(&good.replace("unit", "units")),
        @"rows.toml:6: unknown field `units`, expected one of `figure`, `run`, `scenario`, \
          `set`, `metric`, `per`, `factor`, `derived`, `value`, `unit`, `spread`, `role`, \
          `tolerance`, `source`, `passage`, `note`, `swap`, `inputs`, `alone`"
    );
    insta::assert_snapshot!(
        refusal(&good.replace("value = 1.0\n", "")),
        @"rows.toml:4: missing field `value`"
    );
    insta::assert_snapshot!(
        refusal(&format!("{good}tolerance = {{ percent = 5.0 }}\n")),
        @"rows.toml:11: unknown variant `percent`, expected `rel` or `abs`"
    );
}

#[test]
fn a_run_and_its_numbers_are_checked_when_the_file_is_read() {
    const ROW: &str = "figure = \"x.a\"\nunit = \"Mpps\"\nvalue = 1.0\nrole = \"exact\"\n\
        source = \"d\"\npassage = \"p\"\n\
        run = \"r\"\nmetric = \"packets_per_s\"\n";
    let file = |set: &str, row: &str| {
        parse(
            "rows.toml",
            &format!(
                "about = \"x\"\n[documents]\nd = \"somewhere\"\n[run.r]\n\
                 scenario = \"mlx5-single-stream\"\nset = [{set}]\n[[row]]\n{row}"
            ),
        )
    };
    let rows = file("", ROW).unwrap().rows;
    assert_eq!(rows[0].number.as_ref().unwrap().factor, 1e-6);
    let refusal = |set: &str, row: &str| file(set, row).unwrap_err().to_string();
    insta::assert_snapshot!(
        refusal("\"run.core=2\"", ROW),
        @"rows.toml:6: no key is called `run.core`; the nearest is `run.cores`"
    );
    insta::assert_snapshot!(
        refusal("\"driver.mpwqe=off\", \"driver.sizing=fit\"", ROW),
        @"rows.toml:6: `driver.sizing` has no effect on this run: it has an effect where \
          `driver.mpwqe` is on, and here `driver.mpwqe` is off"
    );
    insta::assert_snapshot!(
        refusal("", &ROW.replace("\"r\"", "\"q\"")),
        @"rows.toml:14: no run is called `q`; there are: r"
    );
    insta::assert_snapshot!(
        refusal("", &ROW.replace("Mpps", "Mbit/s")),
        @"rows.toml:9: `packets_per_s` cannot be in `Mbit/s`; allowed units: 1/s, pps, kpps, Mpps"
    );
    insta::assert_snapshot!(
        refusal("", &ROW.replace("packets_per_s", "packet_per_s")),
        @"rows.toml:15: no metric is called `packet_per_s`; the nearest is `packets_per_s`; \
          `doorbell list --metrics mlx5` has all"
    );
}

#[test]
fn the_rows_of_ibmveth_are_there() {
    let rows = open(&DOORBELL, doorbell_systems::ibmveth::SYSTEM.figures[0]).unwrap().rows;
    let names: Vec<&str> = rows.iter().map(|r| r.figure.trim_start_matches("ibmveth.")).collect();
    insta::assert_snapshot!(
        names.join(" "),
        @"vm_to_network_before vm_to_network_after line_rate frames_a_packet_before segments_after \
          linearised_after network_to_vm_before network_to_vm_after network_to_vm_ratio"
    );
}
