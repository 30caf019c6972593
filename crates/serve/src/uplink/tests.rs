use super::*;

#[test]
fn two_servers_with_one_path_are_a_cable() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("socket:{}", dir.path().join("wire").display());
    let (mut a, mut b) = (Uplink::open(&text).unwrap(), Uplink::open(&text).unwrap());
    let mut frame = [0; MAX_FRAME];
    b.send(&[7; 60]);
    b.send(&[8; 1514]);
    assert_eq!(a.receive(Time::ZERO, &mut frame), Some(60));
    a.send(&[9; 64]);
    assert_eq!(a.receive(Time::ZERO, &mut frame), Some(1514));
    assert_eq!(frame[1513], 8);
    assert_eq!(b.receive(Time::ZERO, &mut frame), Some(64));
    assert_eq!(b.receive(Time::ZERO, &mut frame), None);
    drop(b);
    assert_eq!(a.receive(Time::ZERO, &mut frame), None, "the peer has gone");
    let mut c = Uplink::open(&text).unwrap();
    c.send(&[1; 60]);
    assert_eq!(a.receive(Time::ZERO, &mut frame), Some(60), "and another has come");
}

#[test]
fn a_third_end_of_a_cable_is_refused_and_told() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("socket:{}", dir.path().join("wire").display());
    let [mut a, b, mut c] = [(); 3].map(|()| Uplink::open(&text).unwrap());
    let mut now = Time::ZERO;
    let mut until_told = |u: &mut Uplink| {
        // Who closes a connection may take a moment.
        for _ in 0..10_000 {
            now += RETRY;
            u.look(now);
            if let Some(said) = u.notice() {
                return said;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("it is not told");
    };
    a.look(Time::ZERO);
    assert_eq!(a.notice(), None, "it has a peer");
    let said = until_told(&mut c);
    assert_eq!(
        said,
        format!("the other end of {text} has hung up (a cable has two ends); waiting for another")
    );
    drop(b);
    until_told(&mut a);
    let mut d = Uplink::open(&text).unwrap();
    d.send(&[1; 60]);
    assert_eq!(a.receive(Time::ZERO, &mut [0; MAX_FRAME]), Some(60), "a later one takes its place");
}

#[test]
fn a_peer_that_goes_on_listening_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("wire");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut u = Uplink::open(&format!("socket:{}", path.display())).unwrap();
    let (mut frame, ms) = ([0; MAX_FRAME], |n| Time::ZERO + Span::from_ms(n));
    for n in 1..3 {
        drop(listener.accept().unwrap());
        assert_eq!(u.receive(ms(1000 * n), &mut frame), None, "the peer has hung up");
        assert_eq!(u.receive(ms(1000 * n + 500), &mut frame), None, "and is there again");
    }
    let (mut peer, _) = listener.accept().unwrap();
    peer.write_all(&[&[0, 0, 0, 60][..], &[7; 60]].concat()).unwrap();
    assert_eq!(u.receive(ms(5000), &mut frame), Some(60));
}

#[test]
fn what_is_reflected_has_its_addresses_exchanged() {
    let mut u = Uplink::open("reflect").unwrap();
    let mut sent = [0; 60];
    (sent[0], sent[6]) = (1, 2);
    u.send(&sent);
    let mut frame = [0; MAX_FRAME];
    assert!(u.due().is_some());
    assert_eq!(u.receive(Time::ZERO, &mut frame), Some(60));
    assert_eq!((frame[0], frame[6]), (2, 1));
    assert_eq!(u.receive(Time::ZERO, &mut frame), None);
}

#[test]
fn a_capture_waits_for_the_receiver_and_then_has_its_own_pace() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.pcapng");
    let mut w = pcap::Writer::create(&path).unwrap();
    let wire = w.interface("wire", 1_000_000_000).unwrap();
    let ms = |n| Time::ZERO + Span::from_ms(n);
    w.frame(wire, ms(100), &[1; 60]).unwrap();
    w.frame(wire, ms(101), &[2; 60]).unwrap();
    w.finish().unwrap();
    let mut u = Uplink::open(&format!("pcap:{}", path.display())).unwrap();
    let mut frame = [0; MAX_FRAME];
    for guest in 0..2 {
        u.restart();
        assert!(u.waits_for_receiver(), "guest {guest}");
        for _ in 0..3 {
            assert_eq!((u.receive(ms(5), &mut frame), frame[0]), (Some(60), 1));
            u.told(ms(5), false);
        }
        assert_eq!((u.receive(ms(7), &mut frame), frame[0]), (Some(60), 1));
        u.told(ms(7), true);
        assert!(!u.waits_for_receiver());
        assert_eq!((u.due(), u.receive(ms(7), &mut frame)), (Some(ms(8)), None));
        assert_eq!((u.receive(ms(8), &mut frame), frame[0]), (Some(60), 2));
        assert_eq!((u.due(), u.receive(ms(9), &mut frame)), (None, None));
    }
}

#[test]
fn an_uplink_that_does_not_exist_is_told_with_those_that_do() {
    for wrong in ["", "tap", "tap:", "pcap:", "socket:", "wifi:x", "reflect:1"] {
        let e = Uplink::open(wrong).unwrap_err();
        assert!(
            e.to_string().contains("tap:NAME, pcap:FILE, reflect, socket:PATH, none"),
            "{wrong}: {}",
            e
        );
    }
    assert!(
        Uplink::open("pcap:/nowhere/x.pcap").unwrap_err().to_string().contains("/nowhere/x.pcap")
    );
}
