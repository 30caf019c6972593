use super::*;

#[test]
fn numbers_for_people() {
    assert_eq!(
        [count(0), count(999), count(1_000), count(1_234_567)],
        ["0", "999", "1,000", "1,234,567"]
    );
    let shown = [0.0, 0.000_12, 0.031_25, 41.5, 161.0, 1514.0, 123_456.7].map(amount);
    assert_eq!(shown, ["0", "1.2e-4", "0.031", "41.500", "161.00", "1514.0", "123457"]);
}

#[test]
fn a_long_list_stays_within_the_page() {
    let long = wrapped("the same:", &vec!["maps 1.000".to_owned(); 30]);
    assert!(long.lines().all(|l| l.chars().count() < WIDTH) && long.lines().count() > 1);
}

#[test]
fn one_document_has_all_formats() {
    let mut d = Document::titled("A run");
    d.line("  of something");
    let mut t = numbers("bus", &["all"], 5);
    d.table(t.clone());
    t.noted([Cell::from("reads"), Cell::exact("1.2", 1.234)], "By the device.");
    d.table(t);
    d.literal(vec!["a.toml:3: wrong".to_owned()]);
    let data = serde_json::json!({ "a": 2 });
    let rule = "─".repeat(32);
    let name = format!("{:26}", "bus");
    assert_eq!(
        d.show(Format::Table, "x", &data),
        format!(
            "\n A run\n ═════\n   of something\n\n {name}   all\n {rule}\n reads{:21}   1.2  By \
             the device\na.toml:3: wrong\n",
            ""
        )
    );
    assert_eq!(
        d.show(Format::Markdown, "x", &data),
        "### A run\n\nof something\n\n\
         | bus   | all |               |\n\
         | ----- | --: | ------------- |\n\
         | reads | 1.2 | By the device |\n\n\
         ```\na.toml:3: wrong\n```\n"
    );
    assert_eq!(d.show(Format::Csv, "x", &data), "bus,all\nreads,1.234\n");
    let json: serde_json::Value = serde_json::from_str(&d.show(Format::Json, "x", &data)).unwrap();
    assert_eq!((&json["schema"], &json["kind"], &json["a"]), (&1.into(), &"x".into(), &2.into()));
}
