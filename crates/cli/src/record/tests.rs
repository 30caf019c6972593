use super::*;
use doorbell_study::origin;
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
    let written = || {
        let (mut file, mut known) = (Vec::new(), Columns::default());
        records.iter().for_each(|r| know(&mut known, r));
        let columns: Vec<(&str, Physical)> =
            known.iter().map(|(n, t)| (&**n, t.unwrap())).collect();
        let mut rows = Rows::begin(&mut file, &columns, "{\"seed\":3}").unwrap();
        // Two groups.
        records.chunks(1).for_each(|group| rows.group(group).unwrap());
        rows.end().unwrap();
        file
    };
    let file = written();
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
    assert_eq!(file, written());
}

#[test]
fn a_column_without_values_has_the_declared_type() {
    let dir = tempfile::tempdir().unwrap();
    let (path, plan) = (dir.path().join("a.parquet"), DOORBELL.plan("mlx5-pktgen-64").unwrap());
    let mut file = RecordFile::begin(&path, &[]).unwrap();
    file.systems.insert("mlx5", plan);
    let names = ["limit", "run.fault", "packets_per_s_error", "latency_ns.p99", "limit_share"];
    file.columns = names.map(|n| (n.to_owned(), None)).into();
    file.end().unwrap();
    let read = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let columns = read.metadata().file_metadata().schema_descr().columns().to_vec();
    let types: Vec<Physical> = columns.iter().map(|c| c.physical_type()).collect();
    let (text, number) = (Physical::BYTE_ARRAY, Physical::DOUBLE);
    assert_eq!(types, [text, text, number, number, number]);
}

#[test]
fn records_put_aside_come_back_in_their_order_with_their_origins() {
    let dir = tempfile::tempdir().unwrap();
    let plan = DOORBELL.plan("mlx5-pktgen-64").unwrap();
    for name in ["a.ndjson", "a.csv", "a.parquet"] {
        let path = dir.path().join(name);
        let mut file = RecordFile::begin(&path, &[]).unwrap();
        let all = 2 * GROUP + 3;
        for n in 0..all {
            let mut of = origin::of(&plan, None);
            of.seed = (n % 2) as u64;
            file.origins.push(of);
            file.add(record(json!({ "n": n, "x": n as f64 / 7.0, "word": format!("w{n}") })))
                .unwrap();
        }
        file.end().unwrap();
        let (about, records) = kept::parts(&path).unwrap();
        assert_eq!((about["of"].as_array().unwrap().len(), records.len()), (2, all));
        for (n, r) in records.iter().enumerate() {
            let text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
            let x = text(&r["x"]).parse::<f64>().unwrap();
            assert_eq!((text(&r["n"]), text(&r["word"])), (n.to_string(), format!("w{n}")));
            assert_eq!((x, &r[ORIGIN]), (n as f64 / 7.0, &Value::from(n % 2)));
        }
    }
    assert_eq!(names(dir.path()).len(), 5, "nothing else is left");
}

fn names(dir: &Path) -> Vec<String> {
    std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}
