use super::*;

#[test]
fn control_characters_become_escapes() {
    let seen = |text| visible(text, &[]).into_owned();
    assert_eq!(seen("a\u{1b}[31mb\r\u{7}\u{9b}2J"), r"a\u{1b}[31mb\u{d}\u{7}\u{9b}2J");
    assert_eq!(seen("a\u{202e}b\u{0}"), r"a\u{202e}b\u{0}");
    assert_eq!(seen("größe\n\tx"), "größe\n\tx");
}

#[test]
fn own_styles_stay_and_others_do_not() {
    let text = "\x1b[32mgood\x1b[0m \x1b[8mhidden \x1b]0;title\x07";
    assert_eq!(
        visible(text, &STYLES),
        "\x1b[32mgood\x1b[0m \\u{1b}[8mhidden \\u{1b}]0;title\\u{7}"
    );
}
