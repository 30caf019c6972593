use super::*;

#[test]
fn a_note_never_leaves_the_page() {
    let mut t = Table::new(["x", "a"]).right([1]).fixed(vec![26, 15]);
    t.noted(["name", "1"], &"long ".repeat(40));
    assert!(t.text(0).lines().all(|l| l.chars().count() <= WIDTH));
    assert!(!t.is_empty());
}

#[test]
fn a_note_ends_at_a_comma_or_a_word() {
    assert_eq!(fit("bytes of TLPs, framing included", 31), "bytes of TLPs, framing included");
    assert_eq!(fit("bytes of TLPs, framing included", 30), "bytes of TLPs");
    assert_eq!(fit("bytes of TLPs", 12), "bytes of");
    assert_eq!(fit("bytes of TLPs", 8), "bytes of");
    assert_eq!(fit("größe der TLPs", 6), "größe");
    assert_eq!(fit("bytes", 3), "");
}

#[test]
fn columns_align_and_long_cells_break() {
    let mut t = Table::new(["key", "value"]).right([1]);
    t.row([Cell::from("a"), Cell::exact("1.5", 1.4999)]);
    t.row(["b, c", "-"]);
    assert_eq!(t.text(80), " key   value\n ───────────\n a       1.5\n b, c      -\n");
    assert_eq!(
        t.markdown(),
        "| key  | value |\n| ---- | ----: |\n| a    |   1.5 |\n| b, c |     - |\n"
    );
    assert_eq!(t.csv(), "key,value\na,1.4999\n\"b, c\",-\n");
    let mut t = Table::default();
    t.row(["n", "two words and overlongword"]);
    assert_eq!(t.text(16), " n  two words\n    and overlon\n    gword\n");
}
