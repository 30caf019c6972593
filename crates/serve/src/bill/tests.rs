use super::super::devices::Platform;
use super::*;

fn counted(name: &str) -> Vec<(&'static str, u64)> {
    let bus = Platform::find(name).expect("a bus").rules();
    let mut b = Bill::new(bus, Uplink::open("none").expect("no uplink"), None, None);
    b.crossed(Time::ZERO, Crossing::RegisterWrite(Reg::at(0), 4, 1, true));
    b.crossed(Time::ZERO, Crossing::DmaRead(Iova(0x10002), 1514));
    b.crossed(Time::ZERO, Crossing::DmaWrite(Iova(0x2000), 64));
    b.ledger.entries().filter(|(_, v)| *v != 0).collect()
}

/// The same accesses by each bus's rules, which the lab's own tests hold to the documents.
#[test]
fn a_frame_read_and_a_line_written() {
    insta::assert_debug_snapshot!(counted("pci32"));
    insta::assert_debug_snapshot!(counted("pcix"));
    insta::assert_debug_snapshot!(counted("pcie3x16"));
}

fn cross(b: &mut Bill, times: u64) {
    for n in 0..times {
        b.crossed(Time::from_ps(n), Crossing::RegisterWrite(Reg::at(0), 4, 1, true));
    }
}

fn traced(path: &Path, limit: u64) -> Bill {
    let bus = Platform::find("pci32").expect("a bus").rules();
    let trace = Some(Trace::create(path, limit).unwrap());
    let mut b = Bill::new(bus, Uplink::open("none").expect("no uplink"), None, trace);
    b.start().unwrap();
    b
}

#[test]
fn a_trace_of_an_own_file_has_every_event() {
    const EVENTS: u64 = 100_000;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let mut b = traced(&path, u64::MAX);
    cross(&mut b, EVENTS);
    assert!(b.finish().unwrap(), "{:?}", b.failures);
    let all: Vec<serde_json::Value> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(all.len() as u64, EVENTS + 2 * LANES.len() as u64);
}

#[test]
fn a_trace_ends_whole_at_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t");
    let mut b = traced(&path, 1 << 20);
    cross(&mut b, 20_000);
    assert!(b.finish().unwrap(), "a limit is no failure");
    let why = format!("{}: the trace ends here: it has 1 MiB", path.display());
    assert_eq!(b.failures, [why]);
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str::<serde_json::Value>(&text).unwrap();
    assert!((1 << 20) - 2048 < text.len() && text.len() <= 1 << 20, "{}", text.len());
}

#[test]
fn a_trace_that_nobody_reads_stops_nothing_and_says_what_it_lacks() {
    let (reader, writer) = std::io::pipe().unwrap();
    let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
    let mut b = traced(Path::new(&path), u64::MAX);
    cross(&mut b, 200_000);
    assert!(!b.finish().unwrap());
    let said = b.failures.concat();
    assert!(said.contains("the trace lacks") && said.contains("too slow"), "{said}");
    drop(reader);
}

#[test]
fn a_capture_ends_whole_at_its_limit() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c");
    let bus = Platform::find("pci32").expect("a bus").rules();
    let capture = Some(Capture::create(&path, 1).unwrap());
    let mut b = Bill::new(bus, Uplink::open("none").expect("no uplink"), capture, None);
    b.capture_limit = 1 << 20;
    for _ in 0..1000 {
        b.arrives(Time::ZERO, &[0; 1501]);
    }
    assert!(b.finish().unwrap(), "a limit is no failure");
    assert_eq!(b.failures, ["the capture ends here: it has 1 MiB"]);
    let len = std::fs::metadata(&path).unwrap().len();
    assert!((1 << 20) - 1600 < len && len <= 1 << 20, "{len}");
    assert_eq!(doorbell_host_io::pcap::read(path).unwrap().frames.len() as u64, len / 1536);
}
