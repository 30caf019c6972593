use super::*;

#[test]
fn a_directory_without_results_says_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let e = collected(dir.path()).unwrap_err();
    assert!(e.code() == 2 && e.to_string().contains("reproduce.json or result.json"), "{}", e);
}

#[test]
fn a_reproduction_of_another_shape_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut all = data::empty();
    let path = dir.path().join("reproduce.json");
    std::fs::write(&path, all.to_string()).unwrap();
    assert!(collected(dir.path()).is_ok());
    all["shape"] = json!(data::SHAPE + 1);
    std::fs::write(&path, all.to_string()).unwrap();
    let e = collected(dir.path()).unwrap_err();
    assert!(
        e.to_string().contains("reproduce.json: it has shape 2, and this doorbell reads 1"),
        "{}",
        e
    );
}

#[test]
fn a_damaged_result_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("result.json"), "{\n  \"scenario\": 3\n}").unwrap();
    let e = collected(dir.path()).unwrap_err();
    assert!(e.to_string().contains("result.json: ") && e.to_string().contains("line 2"), "{}", e);
}
