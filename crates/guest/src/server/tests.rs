use super::*;

const PAGE: &str = "\
HTTP/1.1 200 OK\r\n\r\n# HELP doorbell_client_connected Whether a client is connected.\n\
doorbell_client_connected{device=\"mlx5\"} 1\n\
# HELP doorbell_clients_total Clients so far.\ndoorbell_clients_total{device=\"mlx5\"} 1\n\
# HELP doorbell_wire_frames_total Frames that left on the wire\n\
doorbell_wire_frames_total{device=\"mlx5\"} 64\n\
# HELP doorbell_device_rx_packets_total Counted by the device itself.\n\
doorbell_device_rx_packets_total{device=\"mlx5\"} 7\n";

#[test]
fn the_page_has_the_ledger_and_the_devices_own_counters() {
    let counts = Counts::parse(PAGE);
    assert_eq!(counts.ledger, BTreeMap::from([("wire_frames".to_owned(), 64)]));
    assert_eq!(counts.device, BTreeMap::from([("rx_packets".to_owned(), 7)]));
}

#[test]
fn what_was_added_is_a_difference_by_name() {
    let (mut now, then) = (Counts::parse(PAGE), Counts::parse(PAGE));
    now.ledger.insert("wire_frames".to_owned(), 100);
    now.ledger.insert("new".to_owned(), 3);
    let added = now.since(&then);
    assert_eq!(added.ledger["wire_frames"], 36);
    assert_eq!(added.ledger["new"], 3);
    assert_eq!(added.device["rx_packets"], 0);
}
