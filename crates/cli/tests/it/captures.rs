//! Captures in the forms that people have them: compressed, from stdin, cut short, captured in
//! part, of every link type, with long frames, tunnels and tags.

use crate::common::{Ran, doorbell_from, doorbell_in, pcap, tcp, wrong_in};
use doorbell_host_io::pcap::read;
use doorbell_packet::headers::{Check, Layers, verify};
use doorbell_packet::tunnel::verify_inner;
use flate2::{Compression, write::GzEncoder};
use serde_json::Value;
use std::fs::{File, write};
use std::io::Write;
use std::path::Path;

fn frames() -> Vec<Vec<u8>> {
    (0..200).map(|i| tcp(i * 7 + 6)).collect()
}

/// A replay of a file in a directory, which must succeed.
fn replay(at: &Path, args: &[&str]) -> Ran {
    let r = doorbell_in(at, &[&["run", "mlx5-replay"], args].concat());
    assert_eq!(r.code, 0, "{args:?}: {}", r.err);
    r
}

/// The result without the capture's name and hash.
fn result(r: &Ran) -> Value {
    let mut v: Value = serde_json::from_str(&r.out).expect("a result is JSON");
    for key in ["set", "capture_sha256"] {
        v.as_object_mut().expect("an object").remove(key).expect("a result has it");
    }
    v["settings"].as_object_mut().expect("an object").remove("traffic.file").expect("a file");
    v
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

#[test]
fn a_compressed_file_and_stdin_give_the_same_result() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let plain = pcap(1, &frames());
    write(at.join("in.pcap"), &plain).unwrap();
    write(at.join("in.pcap.gz"), gzip(&plain)).unwrap();
    let json = ["--format", "json", "--pcap"];
    let whole = replay(at, &[&json[..], &["in.pcap"]].concat());
    let packed = replay(at, &[&json[..], &["in.pcap.gz"]].concat());
    assert_eq!((result(&packed), packed.err.as_str()), (result(&whole), ""));
    let stdin = File::open(at.join("in.pcap.gz")).unwrap();
    let args = [&["run", "mlx5-replay"], &json[..], &["-"]].concat();
    let piped = doorbell_from(at, stdin, &args);
    assert_eq!((piped.code, result(&piped)), (0, result(&whole)));
    let hash = |r: &Ran| serde_json::from_str::<Value>(&r.out).unwrap()["capture_sha256"].clone();
    assert_eq!(hash(&piped), hash(&packed), "of the file as it is");
    assert_ne!(hash(&packed), hash(&whole));
    // Two runs read stdin once.
    let stdin = File::open(at.join("in.pcap")).unwrap();
    let with = ["compare", "mlx5-replay", "--pcap", "-", "--with", "driver.mpwqe=off"];
    assert_eq!(doorbell_from(at, stdin, &with).code, 0);
}

#[test]
fn the_format_and_the_frames_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let mut frames = frames();
    frames.push(tcp(8000));
    write(at.join("in.pcap.gz"), gzip(&pcap(1, &frames))).unwrap();
    let r = replay(at, &["--pcap", "in.pcap.gz", "--set", "traffic.mtu=9000"]);
    let told = " capture: gzip, pcap, microseconds: 201 frames of 60 to 8054 bytes, 1 over 1514\n";
    assert!(r.out.contains(told), "{}", r.out);
}

#[test]
fn of_a_file_that_is_cut_short_the_whole_frames_are_sent() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let whole = pcap(1, &[tcp(100), tcp(200)]);
    write(at.join("in.pcap"), &whole[..whole.len() - 7]).unwrap();
    let r = replay(at, &["--pcap", "in.pcap", "--format", "json"]);
    let told = "doorbell: in.pcap: the file is cut short at byte 194; sent are the frames \
                before that, 1\n";
    let cut = result(&r);
    assert_eq!((cut["packets"].as_u64(), r.err.as_str()), (Some(1), told));
    assert_eq!(cut["capture"]["cut_short"], 194);
}

#[test]
fn frames_captured_in_part_cost_what_the_whole_ones_do() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let whole = frames();
    write(at.join("whole.pcap"), pcap(1, &whole)).unwrap();
    let mut file = pcap(1, &[]);
    for (i, f) in whole.iter().enumerate() {
        let captured = f.len().min(96);
        for word in [1, i as u32, captured as u32, f.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(&f[..captured]);
    }
    write(at.join("part.pcap"), file).unwrap();
    let of =
        |file, more: &[&str]| replay(at, &[&["--pcap", file, "--format", "json"], more].concat());
    let part = of("part.pcap", &["--pad"]);
    let told =
        "doorbell: part.pcap: 194 of 200 frames are captured in part, and filled with zeros\n";
    assert_eq!(part.err, told);
    let (mut part, whole) = (result(&part), result(&of("whole.pcap", &[])));
    part["settings"]["traffic.pad"] = "off".into();
    assert_eq!(part["capture"]["padded"].take(), 194);
    part["capture"]["padded"] = 0.into();
    assert_eq!(part, whole);
}

#[test]
fn packets_of_every_interface_get_an_ethernet_header() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let cooked =
        |f: &Vec<u8>| [&[0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 2, 0, 0, 8, 0], &f[14..]].concat();
    write(at.join("any.pcap"), pcap(113, &frames().iter().map(cooked).collect::<Vec<_>>()))
        .unwrap();
    write(at.join("eth.pcap"), pcap(1, &frames())).unwrap();
    let of = |file| replay(at, &["--pcap", file, "--format", "json"]);
    let any = of("any.pcap");
    assert!(
        any.err.starts_with("doorbell: any.pcap: 200 of 200 frames are of -i any"),
        "{}",
        any.err
    );
    let mut any = result(&any);
    assert_eq!(any["capture"]["made_up_headers"].take(), 200);
    any["capture"]["made_up_headers"] = 0.into();
    assert_eq!(any, result(&of("eth.pcap")));
}

/// A hundred thousand frames of 512 flows in many sizes leave once each over 1, 8 and 32 cores,
/// those of a flow in order. One core limits itself; eight have what the link carries.
#[test]
fn a_capture_over_many_cores_is_sent_once_and_flows_stay_in_order() {
    const FRAMES: u32 = 100_000;
    const FLOW: std::ops::Range<usize> = 28..30;
    const NUMBER: std::ops::Range<usize> = 54..58;
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let sizes = [6, 6, 6, 40, 300, 536, 1400, 1460].map(tcp);
    let frame = |n: u32| {
        // A fixed permutation mixes flows and sizes.
        let mixed = n.wrapping_mul(2_654_435_761) >> 8;
        let mut f = sizes[mixed as usize % sizes.len()].clone();
        f[FLOW].copy_from_slice(&(mixed / 8 % 512).to_be_bytes()[2..]);
        f[NUMBER].copy_from_slice(&n.to_be_bytes());
        f
    };
    write(at.join("in.pcap"), pcap(1, &(0..FRAMES).map(frame).collect::<Vec<_>>())).unwrap();
    let rates = ["1", "8", "32"].map(|cores| {
        let of = format!("run.cores={cores}");
        let file = format!("{cores}.pcapng");
        let args = ["--pcap", "in.pcap", "--set", "cpu.cores=32", "--set", &of, "--format", "json"];
        let run = replay(at, &[&args[..], &["--capture", &file]].concat());
        let result: Value = serde_json::from_str(&run.out).unwrap();
        assert_eq!(result["audit"], serde_json::json!([]));
        assert_eq!(result["packets"], FRAMES);
        let sent = read(at.join(&file)).unwrap();
        let mut seen = vec![false; FRAMES as usize];
        let mut last = [None; 512];
        for (_, f) in sent.iter() {
            let n = u32::from_be_bytes(f[NUMBER].try_into().unwrap());
            let flow = usize::from(u16::from_be_bytes(f[FLOW].try_into().unwrap()));
            assert!(!std::mem::replace(&mut seen[n as usize], true), "{n} left twice");
            assert!(last[flow].replace(n).is_none_or(|before| before < n), "{n} of flow {flow}");
        }
        assert!(seen.iter().all(|s| *s));
        (result["limit"]["binds"].clone(), result["rates"]["packets_per_s"].as_f64().unwrap())
    });
    let [(one, rate), (eight, faster), (all, fastest)] = rates;
    assert_eq!([&one, &eight, &all], ["cores", "link", "link"]);
    assert!(faster > 1.2 * rate, "{faster} {rate}");
    assert!((fastest / faster - 1.0).abs() < 0.05, "{fastest} {faster}");
}

/// A pcapng file with interfaces of these link types, and packets of them.
fn pcapng(links: &[u16], packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let block = |kind: u32, mut content: Vec<u8>| {
        content.resize(content.len().next_multiple_of(4), 0);
        let len = (12 + content.len() as u32).to_le_bytes();
        [&kind.to_le_bytes()[..], &len, &content, &len].concat()
    };
    let words = |all: &[u32]| all.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let mut file = block(0x0a0d_0d0a, words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    for link in links {
        file.extend(block(1, words(&[u32::from(*link), 0])));
    }
    for (i, (interface, packet)) in packets.iter().enumerate() {
        let n = packet.len() as u32;
        let head = words(&[*interface, 0, i as u32, n, n]);
        file.extend(block(6, [head, packet.clone()].concat()));
    }
    file
}

/// A frame with these tags, the outermost first.
fn tagged(frame: &[u8], types: &[u16]) -> Vec<u8> {
    let tags = types.iter().flat_map(|t| [t.to_be_bytes(), [0x20, 5]].concat());
    [&frame[..12], &tags.collect::<Vec<u8>>(), &frame[12..]].concat()
}

/// The result of a run of a system on a capture, which must succeed, and the frames that left.
fn sent(at: &Path, scenario: &str, file: &[u8], args: &[&str]) -> (Value, Vec<Vec<u8>>) {
    write(at.join("in.cap"), file).unwrap();
    let of = ["run", scenario, "--no-limits", "--format", "json", "--pcap", "in.cap"];
    let r = doorbell_in(at, &[&of[..], &["--capture", "out.pcapng", "--quiet"], args].concat());
    assert_eq!(r.code, 0, "{scenario} {args:?}: {}{}", r.err, r.out);
    let frames = read(at.join("out.pcapng")).unwrap().iter().map(|(_, f)| f.to_vec()).collect();
    (serde_json::from_str(&r.out).unwrap(), frames)
}

#[test]
fn every_link_with_ip_inside_costs_what_ethernet_does() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let packets: Vec<Vec<u8>> = frames().iter().map(|f| f[14..].to_vec()).collect();
    let of = |link: u32, head: &[u8]| {
        let all: Vec<Vec<u8>> = packets.iter().map(|p| [head, p].concat()).collect();
        sent(at, "mlx5-replay", &pcap(link, &all), &[])
    };
    let (ethernet, on_wire) = sent(at, "mlx5-replay", &pcap(1, &frames()), &[]);
    let ipgre = [&[0, 4, 3, 10, 0, 6, 2, 0, 0, 0, 0, 2, 0, 0, 8, 0][..]].concat();
    let links: [(u32, &[u8]); 9] = [
        (101, &[]),
        (228, &[]),
        (0, &[2, 0, 0, 0]),
        (108, &[0, 0, 0, 2]),
        (9, &[0xff, 3, 0, 0x21]),
        (50, &[0x21]),
        (50, &[0x0f, 0, 8, 0]),
        (104, &[0x0f, 0, 8, 0]),
        (113, &ipgre),
    ];
    for (link, head) in links {
        let (mut result, frames) = of(link, head);
        assert_eq!(result["capture"]["made_up_headers"], 200, "{link}");
        assert_eq!(frames, on_wire, "{link}");
        for key in ["set", "capture_sha256", "capture"] {
            result[key] = ethernet[key].clone();
        }
        assert_eq!(result, ethernet, "{link}");
    }
}

/// Sum of the words of a header, complemented.
fn checksum(header: &[u8]) -> [u8; 2] {
    let words = header.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (!(((folded & 0xffff) + (folded >> 16)) as u16)).to_be_bytes()
}

/// An outer IPv4 header for a protocol and what is behind it.
fn outer(protocol: u8, behind: &[u8]) -> Vec<u8> {
    let mut f = vec![0x02, 0, 0, 0, 0, 3, 0x02, 0, 0, 0, 0, 4, 0x08, 0, 0x45, 0];
    f.extend((20 + behind.len() as u16).to_be_bytes());
    f.extend([0, 1, 0x40, 0, 64, protocol, 0, 0, 192, 168, 0, 1, 192, 168, 0, 2]);
    let sum = checksum(&f[14..34]);
    f[24..26].copy_from_slice(&sum);
    [&f, behind].concat()
}

/// A frame in each kind of tunnel: its name, the packet, and the bytes of tunnel and outer headers.
fn tunnels(inner: &[u8]) -> Vec<(&'static str, Vec<u8>, usize)> {
    let udp = |port: u16, header: &[u8]| {
        let len = (8 + header.len() + inner.len()) as u16;
        let ports = [&[0x30, 0x39], &port.to_be_bytes()[..], &len.to_be_bytes(), &[0, 0]].concat();
        outer(17, &[&ports, header, inner].concat())
    };
    let vxlan = [8, 0, 0, 0, 0, 0, 7, 0];
    let geneve = [1, 0, 0x65, 0x58, 0, 0, 7, 0, 1, 2, 3, 0];
    vec![
        ("vxlan", udp(4789, &vxlan), 34 + 16),
        ("vxlan of old", udp(8472, &vxlan), 34 + 16),
        ("geneve", udp(6081, &geneve), 34 + 20),
        ("gre", outer(47, &[&[0, 0, 8, 0], &inner[14..]].concat()), 34 + 4 - 14),
        ("gre of ethernet", outer(47, &[&[0, 0, 0x65, 0x58], inner].concat()), 34 + 4),
        ("ip", outer(4, &inner[14..]), 34 - 14),
    ]
}

#[test]
fn a_large_send_in_a_tunnel_leaves_with_all_headers() {
    let dir = tempfile::tempdir().unwrap();
    for (name, packet, more) in tunnels(&tcp(7000)) {
        for scenario in ["mlx5-replay", "e1000-pktgen"] {
            let file = pcap(1, std::slice::from_ref(&packet));
            let (result, frames) = sent(dir.path(), scenario, &file, &["--gso", "1400"]);
            assert_eq!(result["capture"]["large_sends"], 1);
            assert_eq!(frames.len(), 5, "{name}");
            let mut payload = Vec::new();
            for f in &frames {
                let (outside, inside) = (verify(f), verify_inner(f));
                assert_eq!(outside.ip, Check::Good, "{name}");
                assert_eq!((inside.ip, inside.transport), (Check::Good, Check::Good), "{name}");
                assert_eq!(Layers::of(f).unwrap().datagram(f), Some(14..f.len()));
                payload.extend_from_slice(&f[more + 54..]);
            }
            assert_eq!(payload, tcp(7000)[54..], "{name}");
        }
    }
}

#[test]
fn the_checksum_inside_a_tunnel_is_left_to_the_device() {
    let dir = tempfile::tempdir().unwrap();
    let packets: Vec<Vec<u8>> = tunnels(&tcp(700)).into_iter().map(|t| t.1).collect();
    let file = pcap(1, &packets);
    let left = |offload: &str| {
        let (result, frames) = sent(dir.path(), "mlx5-replay", &file, &["--offload", offload]);
        assert_eq!(frames, packets, "{offload}");
        result["ledger"]["driver_csum_partial"].as_u64().unwrap()
            + result["ledger"]["driver_csum_software"].as_u64().unwrap()
    };
    assert_eq!((left("csum"), left("none")), (packets.len() as u64, 0));
}

/// A TCP frame of 80,000 bytes of payload, as BIG TCP passes it on.
fn big_tcp(v6: bool) -> Vec<u8> {
    let mut f = tcp(0);
    f.extend((0..80_000).map(|i| (i % 251) as u8));
    if !v6 {
        f[16..18].fill(0);
        let header = [&f[14..24], &[0, 0], &f[26..34]].concat();
        f[24..26].copy_from_slice(&checksum(&header));
        return f;
    }
    let len = (8 + f.len() - 34) as u32;
    let addresses = [[0x20; 16], [0x21; 16]].concat();
    let ip = [&[0x60, 0, 0, 0, 0, 0, 0, 64][..], &addresses].concat();
    let jumbo = [&[6, 0, 0xc2, 4][..], &len.to_be_bytes()].concat();
    [&f[..12], &[0x86, 0xdd], &ip, &jumbo, &f[34..]].concat()
}

#[test]
fn big_tcp_is_one_large_send_or_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let file = pcap(1, &[big_tcp(false), big_tcp(true), tcp(100)]);
    let (result, frames) = sent(dir.path(), "mlx5-replay", &file, &["--gso", "auto"]);
    assert_eq!(result["capture"]["large_sends"], 2);
    // 1460 bytes of payload over IPv4, and 1440 over IPv6.
    assert_eq!(frames.len(), 80_000_usize.div_ceil(1460) + 80_000_usize.div_ceil(1440) + 1);
    for f in &frames {
        assert_eq!(verify(f).transport, Check::Good);
    }
    let (result, frames) = sent(dir.path(), "e1000-pktgen", &file, &["--gso", "auto", "--skip"]);
    assert_eq!(result["capture"]["skipped"], serde_json::json!({ "large_send_limit": 2 }));
    assert_eq!(frames, [tcp(100)]);
}

#[test]
fn two_tags_leave_where_driver_and_device_take_them() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let frames = [tagged(&tcp(1460), &[0x88a8, 0x8100]), tagged(&tcp(1460), &[0x8100, 0x8100])];
    let file = pcap(1, &frames);
    for scenario in ["mlx5-replay", "e1000-pktgen"] {
        assert_eq!(sent(at, scenario, &file, &[]).1, frames, "{scenario}");
    }
    let one = pcap(1, &[tagged(&tcp(1460), &[0x8100])]);
    assert_eq!(sent(at, "axienet-receive", &one, &[]).1.len(), 1);
    write(at.join("two.pcap"), &file).unwrap();
    let refused = wrong_in(at, &["run", "axienet-receive", "--pcap", "two.pcap"]);
    assert_eq!(
        refused,
        "doorbell: axienet-receive: two.pcap: frame 1 has 1522 bytes, more than the device's \
         1514 (`driver.mtu`); --skip leaves it out"
    );
    // The driver's MTU is its own, whatever the traffic's is.
    for mtu in ["576", "577"] {
        let set = format!("driver.mtu={mtu}");
        let run = ["run", "e1000-pktgen", "--pcap", "two.pcap", "--set", &set];
        let most = mtu.parse::<u32>().unwrap() + 14 + 8;
        let why = format!("frame 1 has 1522 bytes, more than the device's {most} (`driver.mtu`)");
        assert!(wrong_in(at, &run).contains(&why));
        let run = ["run", "e1000-pktgen", "--set", &set, "--set", "traffic.size=1514"];
        assert!(wrong_in(at, &run).contains(&format!("the device sends {most} at the most")));
    }
}

#[test]
fn what_cannot_be_sent_is_refused_or_left_out_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let packets = [
        (0, tcp(100)),
        (1, tcp(100)),
        (0, vec![0; 13]),
        (2, [&[0xc0, 0x21], &[0; 40][..]].concat()),
        (0, tcp(5000)),
        (2, [&[0x21], &tcp(300)[14..]].concat()),
    ];
    let file = pcapng(&[1, 127, 9], &packets);
    let (result, frames) = sent(at, "mlx5-replay", &file, &["--skip"]);
    let left_out = serde_json::json!({ "length": 1, "link_type": 1, "not_ip": 1, "over_mtu": 1 });
    assert_eq!(result["capture"]["skipped"], left_out);
    assert_eq!(
        (&result["capture"]["packets"], &result["capture"]["frames"]),
        (&6.into(), &2.into())
    );
    assert_eq!(frames[0], tcp(100));
    assert_eq!(frames.len(), 2);
    let r = replay(at, &["--pcap", "in.cap", "--skip", "--no-limits"]);
    let told = " left out: 4 of 6 packets (1 length, 1 link_type, 1 not_ip, 1 over_mtu)\n";
    assert!(r.out.contains(told), "{}", r.out);
    assert!(
        r.err.contains("doorbell: in.cap: 1 of 6 packets are left out: link_type\n"),
        "{}",
        r.err
    );
    let refused =
        |args: &[&str]| wrong_in(at, &[&["run", "mlx5-replay", "--pcap", "in.cap"], args].concat());
    let all = refused(&[]);
    assert!(all.contains("packet 2: link type 127 (IEEE 802.11 with radiotap)"), "{all}");
    assert!(all.ends_with("; --skip leaves it out"), "{all}");
    let (result, frames) = sent(at, "mlx5-replay", &file, &["--interface", "2", "--skip"]);
    assert_eq!((&result["capture"]["packets"], frames.len()), (&2.into(), 1));
    let none = refused(&["--interface", "3"]);
    assert!(none.contains("no packet is of interface 3; a section describes 3"), "{none}");
    // A frame has the number that Wireshark shows.
    let long = pcapng(&[127, 1], &[(0, tcp(1)), (1, tcp(1)), (1, tcp(5000))]);
    write(at.join("in.cap"), long).unwrap();
    let over = refused(&["--interface", "1"]);
    assert!(over.contains("frame 3 has 5054 bytes, more than an MTU of 1500 allows"), "{over}");
    write(at.join("in.cap"), pcap(1, &[tcp(5000)])).unwrap();
    let nothing = refused(&["--skip"]);
    assert!(nothing.contains("nothing can be sent; left out are 1 over_mtu"), "{nothing}");
}
