use super::*;

#[test]
fn the_page_runs_nothing_and_names_nothing_outside() {
    let page = page(&Results::default());
    assert!(page.contains("default-src 'none'"));
    for outside in ["<script", "src=", "href=\"http", "@import", "url(", "javascript:"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(!STYLE.contains("</"));
}
