use super::*;

#[test]
fn what_a_process_lacks_is_read_from_its_status() {
    assert_eq!(lacking("Name:\tx\nCapEff:\t000001ffffffffff\n"), [""; 0]);
    assert_eq!(lacking("CapEff:\t0000000000003000\n"), ["CAP_SYS_ADMIN"]);
    assert_eq!(lacking(""), ["CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SYS_ADMIN"]);
}
