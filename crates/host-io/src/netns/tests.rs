use super::listens;

#[test]
fn a_port_listens_in_state_0a_alone() {
    let table = "  sl  local_address rem_address   st tx_queue rx_queue\n   \
        0: 0100000A:1451 00000000:0000 0A 00000000:00000000\n   \
        1: 0100000A:1452 0200000A:1451 01 00000000:00000000\n";
    assert!(listens(table, 0x1451));
    assert!(!listens(table, 0x1452), "it is connected");
    assert!(!listens(table, 0x451) && !listens("", 0x1451));
}
