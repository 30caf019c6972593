use super::*;
use doorbell_vfio_user::readable;
use std::time::Duration;

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

#[test]
fn idle_connections_are_not_polled_for() {
    const MOST: usize = 3;
    const NOW: Time = Time::ZERO;
    let limits = ClientLimits {
        hello_timeout: 1,
        reply_timeout: 1,
        newcomers: 1,
        metrics_clients: MOST as u8,
        metrics_timeout: 1,
    };
    let mut m = Metrics::listen("127.0.0.1:0", &limits).unwrap();
    let _idle: Vec<_> = (0..MOST + 4).map(|_| TcpStream::connect(m.address).unwrap()).collect();
    let mut ready = Vec::new();
    let report = || unreachable!("nobody asks");
    while m.waiting.len() < MOST {
        readable(&m.fds(NOW).collect::<Vec<_>>(), Some(Duration::from_secs(1)), &mut ready)
            .unwrap();
        m.serve(NOW, &ready, report);
    }
    readable(&m.fds(NOW).collect::<Vec<_>>(), Some(Duration::ZERO), &mut ready).unwrap();
    assert_eq!(ready, [false; MOST], "nor for those that wait to be accepted");
    m.serve(NOW, &ready, report);
    assert_eq!(m.waiting.len(), MOST);
}

#[test]
fn requests_in_parts_are_those_of_the_whole() {
    let get = b"GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";
    for cut in 0..10 {
        // Parts of one byte to forty, and the end cut at each of its bytes.
        assert!(request_in_parts(&[&[cut; 8][..], get].concat()), "{cut}");
        assert!(!request_in_parts(&[&[cut; 8][..], &get[..get.len() - 1]].concat()), "{cut}");
    }
    let long = |n: usize| [&[255; 8][..], &vec![b'x'; n - 4], b"\r\n\r\n"].concat();
    assert!(request_in_parts(&long(LONGEST)));
    assert!(!request_in_parts(&long(LONGEST + 1)), "its end lies beyond the limit");
}

#[test]
fn a_request_for_another_host_is_not_answered() {
    let own = |named: &str, listens: &str, host: &str| {
        let head = format!("GET / HTTP/1.1\r\nAccept: */*\r\n{host}\r\n\r\n");
        Metrics::is_own(named, listens.parse().unwrap(), head.as_bytes())
    };
    for host in ["Host: 127.0.0.1:9100", "host:127.0.0.1", "HOST: localhost:9100", "X: y"] {
        assert!(own("127.0.0.1", "127.0.0.1", host), "{host}");
    }
    for host in ["Host: evil.example:9100", "Host: 10.0.0.1", "Host:", "Host: [::1]:9100"] {
        assert!(!own("127.0.0.1", "127.0.0.1", host), "{host}");
    }
    assert!(own("::1", "::1", "Host: [::1]:9100"));
    assert!(own("metrics.lan", "10.0.0.1", "Host: metrics.lan:9100"));
    assert!(own("0.0.0.0", "0.0.0.0", "Host: 192.0.2.7:9100"), "any address of this machine");
    assert!(!own("0.0.0.0", "0.0.0.0", "Host: evil.example"));
    assert_eq!(without_port("[::]:9100"), "::");
}
