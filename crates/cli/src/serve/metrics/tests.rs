use super::*;

#[test]
fn the_page_has_a_line_for_each_count() {
    let r = Report {
        device: "e1000",
        bus: "",
        connected: true,
        clients: 2,
        ledger: vec![("mmio_reads", "Register reads by the CPU.", 7)],
        counters: vec![("tx_packets", 3)],
    };
    insta::assert_snapshot!(page(&r), @r#"
        # HELP doorbell_client_connected Whether a client is connected.
        # TYPE doorbell_client_connected gauge
        doorbell_client_connected{device="e1000"} 1
        # HELP doorbell_clients_total Clients so far.
        # TYPE doorbell_clients_total counter
        doorbell_clients_total{device="e1000"} 2
        # HELP doorbell_mmio_reads_total Register reads by the CPU.
        # TYPE doorbell_mmio_reads_total counter
        doorbell_mmio_reads_total{device="e1000"} 7
        # HELP doorbell_device_tx_packets_total Counted by the device itself.
        # TYPE doorbell_device_tx_packets_total counter
        doorbell_device_tx_packets_total{device="e1000"} 3
        "#);
}
