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
    assert_eq!(csv(&t.records()), "key,value\na,1.4999\n\"b, c\",-\n");
    let mut t = Table::default();
    t.row(["n", "two words and overlongword"]);
    assert_eq!(t.text(16), " n  two words\n    and overlon\n    gword\n");
}

#[test]
fn a_tone_is_a_colour_in_text_alone() {
    let mut t = Table::new(["name", "change"]).right(1..2);
    t.row([Cell::from("bytes"), Cell::toned("-7", Some(Tone::Better))]);
    t.row([Cell::from("cycles"), Cell::toned("12", Some(Tone::Worse))]);
    let text = t.text(usize::MAX);
    assert!(
        text.contains("\x1b[32m    -7\x1b[0m") && text.contains("\x1b[31m    12\x1b[0m"),
        "{text:?}"
    );
    assert_eq!(csv(&t.records()), "name,change\nbytes,-7\ncycles,12\n");
    assert!(!t.markdown().contains('\x1b'));
}

#[test]
fn fixed_widths_are_given_up_where_they_do_not_fit() {
    let mut t = Table::new(["name", "total", "a packet"]).right(1..3).fixed(vec![26, 15, 15]);
    t.noted(["pcie_read_bytes", "205,056", "85.440"], "Payload bytes that the device read.");
    assert_eq!(t.text(59).lines().next_back().unwrap().chars().count(), 59);
    let narrow = t.text(58);
    assert!(narrow.lines().all(|l| l.chars().count() <= 58), "{narrow}");
    assert!(narrow.contains("pcie_read_bytes") && narrow.contains("85.440"));
    // A note takes the room that is left.
    assert!(t.text(80).lines().all(|l| l.chars().count() <= 80));
    assert!(t.text(80).contains("Payload bytes"));
}

#[test]
fn text_that_a_spreadsheet_would_run_is_quoted() {
    let cell = |text: &str| {
        let record = Record::from_iter([("x".to_owned(), text.into())]);
        csv(&[record]).strip_prefix("x\n").unwrap().trim_end_matches('\n').to_owned()
    };
    for text in ["=1+1", "+1+1", "-1+1", "@SUM(A1)", "\tx", "\rx"] {
        assert_eq!(cell(text), format!("\"'{text}\""));
    }
    assert_eq!(cell("=A(\"b\",c)"), "\"'=A(\"\"b\"\",c)\"");
    for text in ["-3", "+2.5e3", "-", "a=b", "x-y"] {
        assert_eq!(cell(text), text);
    }
    let number = Record::from_iter([("x".to_owned(), (-3).into())]);
    assert_eq!(csv(&[number]), "x\n-3\n");
}
