use super::*;
use serde_json::json;

#[test]
fn members_that_differ_are_listed_by_name() {
    let then = json!({ "a": 1, "b": { "c": [1, 2], "d": "x" }, "gone": 3 });
    let now = json!({ "a": 1, "b": { "c": [1, 5], "d": "y" }, "new": [1] });
    let mut found = Vec::new();
    differences("", &then, &now, &mut found);
    let all = [
        "b.c.1 was 2, and is 5",
        r#"b.d was "x", and is "y""#,
        "gone was 3, and is null",
        "new was null, and is [1]",
    ];
    assert_eq!(found, all);
    found.clear();
    differences("", &then, &then, &mut found);
    assert!(found.is_empty());
}
