use super::*;

#[test]
fn the_number_after_a_key() {
    let json = br#"{"capabilities":{"max_data_xfer_size" : 4096,"x":{"y":1}}}"#;
    assert_eq!(number(json, "max_data_xfer_size"), Some(4096));
    assert_eq!(number(json, "y"), Some(1));
    assert_eq!(number(json, "z"), None);
    for broken in
        [&b"\"y\""[..], b"\"y\":", b"\"y\":x", b"\xff\"y\":1", b"\"y\":99999999999999999999"]
    {
        assert_eq!(number(broken, "y"), None);
    }
}
