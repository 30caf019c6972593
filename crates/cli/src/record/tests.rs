use super::*;
use doorbell_study::record::is_text;
use doorbell_systems::DOORBELL;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::json;

fn record(value: Value) -> Record {
    value.as_object().unwrap().clone()
}

#[test]
fn columns_are_typed_and_what_is_missing_is_null() {
    let records = [
        record(json!({ "n": 3, "x": 1, "word": "off", "ok": true, "mixed": 1 })),
        record(json!({ "n": 4, "x": 0.5, "word": null, "mixed": "two", "late": 7.25 })),
    ];
    let mut file = Vec::new();
    write(&mut file, &records, "{\"seed\":3}", &|_| false).unwrap();
    let read = SerializedFileReader::new(bytes::Bytes::from(file.clone())).unwrap();
    let rows: Vec<Vec<(String, Field)>> = read
        .get_row_iter(None)
        .unwrap()
        .map(|r| r.unwrap().get_column_iter().map(|(n, f)| (n.clone(), f.clone())).collect())
        .collect();
    let text = |s: &str| Field::Str(s.to_owned());
    let named = |fields: [Field; 6]| -> Vec<(String, Field)> {
        let names = ["n", "x", "word", "ok", "mixed", "late"];
        names.into_iter().map(str::to_owned).zip(fields).collect()
    };
    let first = [
        Field::Long(3),
        Field::Double(1.0),
        text("off"),
        Field::Bool(true),
        text("1"),
        Field::Null,
    ];
    let second = [
        Field::Long(4),
        Field::Double(0.5),
        Field::Null,
        Field::Null,
        text("two"),
        Field::Double(7.25),
    ];
    assert_eq!(rows, [named(first), named(second)]);
    let metadata = read.metadata().file_metadata().key_value_metadata().unwrap();
    assert_eq!(metadata[0].value.as_deref(), Some("{\"seed\":3}"));
    // The same records give the same bytes.
    let mut again = Vec::new();
    write(&mut again, &records, "{\"seed\":3}", &|_| false).unwrap();
    assert_eq!(file, again);
}

#[test]
fn a_column_without_values_has_the_declared_type() {
    let plan = DOORBELL.plan("mlx5-pktgen-64").unwrap();
    let none = [Value::Null];
    let of = |name: &str| column(is_text(&plan, name), none.iter());
    assert_eq!(["limit", "run.fault"].map(of), [Physical::BYTE_ARRAY; 2]);
    let numbers = ["packets_per_s_error", "latency_ns.p99", "limit_share"];
    assert_eq!(numbers.map(of), [Physical::DOUBLE; 3]);
}
