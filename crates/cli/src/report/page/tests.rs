use super::*;
use serde_json::json;

#[test]
fn what_is_in_the_data_cannot_leave_its_element() {
    let evil = json!({ "scenario": "</script><!--<script>alert(1)</script>\u{2028}" });
    let text = inert(&evil);
    assert!(!text.contains('<') && !text.contains('\u{2028}'));
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), evil, "and is the same data");
}

#[test]
fn no_script_of_the_page_ends_its_own_element() {
    for script in SCRIPTS {
        let script = script.to_lowercase();
        assert!(!script.contains("</script") && !script.contains("<!--"));
    }
    assert!(!STYLE.contains("</"));
}

#[test]
fn the_page_names_its_scripts_and_nothing_outside() {
    let page = page(&json!({}));
    assert_eq!(page.matches("'sha256-").count(), SCRIPTS.len());
    assert!(page.contains("default-src 'none'"));
    for outside in ["src=\"http", "href=\"http", "@import", "url("] {
        assert!(!FRAME.contains(outside) && !STYLE.contains(outside), "{outside}");
    }
}
