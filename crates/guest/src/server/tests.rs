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

#[test]
fn a_server_that_prints_for_ever_fills_no_disk() {
    let directory = tempfile::tempdir().unwrap();
    let script = "head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2; echo why >&2; exit 3";
    let doorbell = ["sh", "-c", script].map(OsString::from);
    let device = &crate::DEVICES[0];
    let started = Server::start(&doorbell, device, &[], directory.path());
    let e = started.err().expect("it has ended").to_string();
    assert!(e.contains("has ended"), "{e}");
    assert!(e.len() < 10_000, "{} bytes", e.len());
    for name in ["server.log", "report.json"] {
        let kept = directory.path().join(name).metadata().unwrap().len();
        let most = 16 << 20;
        assert!((most..most + 100).contains(&kept), "{name}: {kept} bytes");
    }
}

#[test]
fn a_page_is_bounded_in_bytes_and_time() {
    let page = |serve: fn(TcpStream), patience: Duration| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        std::thread::spawn(move || serve(server));
        read_all(client, Instant::now() + patience, LONGEST)
    };
    let long = Duration::from_secs(60);
    let whole = page(|mut s| s.write_all(b"all").unwrap(), long);
    assert_eq!(whole.unwrap(), "all");
    let endless = page(|mut s| while s.write_all(&[b'x'; 4096]).is_ok() {}, long);
    assert_eq!(endless.unwrap_err().kind(), ErrorKind::FileTooLarge);
    let drops = page(
        |mut s| {
            while s.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        },
        Duration::from_millis(100),
    );
    assert_eq!(drops.unwrap_err().kind(), ErrorKind::TimedOut);
    let silent = page(
        |s| {
            std::thread::sleep(Duration::from_secs(5));
            drop(s);
        },
        Duration::from_millis(100),
    );
    assert_eq!(silent.unwrap_err().kind(), ErrorKind::TimedOut);
}

#[test]
fn counts_that_never_rest_are_not_awaited_for_ever() {
    let step = (2, Duration::from_millis(1));
    let moves = |most: u64| {
        let mut n = 0;
        move || {
            n = most.min(n + 1);
            Ok(Counts { ledger: BTreeMap::from([("frames".to_owned(), n)]), ..Counts::default() })
        }
    };
    let rest = settled(moves(5), step, Duration::from_secs(60)).unwrap();
    assert_eq!(rest.ledger["frames"], 5);
    let e = settled(moves(u64::MAX), step, Duration::from_millis(50)).unwrap_err();
    assert!(e.to_string().contains("do not come to rest"), "{e}");
}
