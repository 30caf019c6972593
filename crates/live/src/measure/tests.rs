use super::*;

#[test]
fn a_result_is_read_and_an_error_is_told() {
    let good =
        r#"{"end":{"sum_sent":{"retransmits":3},"sum_received":{"bytes":1000,"seconds":2.5}}}"#;
    let s = parse(good).unwrap();
    assert_eq!((s.bits, s.seconds, s.retransmits), (8000.0, 2.5, 3));
    let of = |text: &str| parse(text).unwrap_err().to_string();
    assert_eq!(of(r#"{"error":"unable to connect"}"#), "iperf3: unable to connect");
    assert_eq!(of("{}"), "unexpected output of iperf3: no bytes");
}
