//! Captures of real traffic: what is read and written here, held against
//! Wireshark.

use doorbell_conformance::{full, tshark};
use doorbell_hal::Time;
use doorbell_host_io::pcap::{self, Capture, Writer};
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const NEEDS: &str = "root, for network namespaces, and tshark";

/// Writes the capture's frames to `path`, each as `change` leaves it.
fn copy(c: &Capture, path: &Path, mut change: impl FnMut(u64, &mut Vec<u8>)) {
    let mut w = Writer::create(path).unwrap();
    let wire = w.interface("wire", 10_000_000_000).unwrap();
    for ((at_ns, frame), number) in c.iter().zip(1..) {
        let mut frame = frame.to_vec();
        change(number, &mut frame);
        w.frame(wire, Time::from_ps(at_ns * 1_000), &frame).unwrap();
    }
    w.finish().unwrap();
}

#[test]
fn the_script_captures_whole_frames_of_every_kind() {
    if !full(NEEDS) {
        return;
    }
    let path = tshark::make_capture().unwrap();
    assert_eq!(tshark::bad_checksums(&path).unwrap(), [0_u64; 0], "Linux sends good checksums");
    let count = |filter| tshark::matching(&path, filter).unwrap().len();
    assert_eq!(count("frame.len > 1518"), 0, "no frame is larger than the wire takes");
    assert!(count("frame") < 5_000);
    for (filter, least) in [
        ("arp", 2),
        ("icmp.type == 8", 8),
        ("icmpv6.type == 128", 7),
        ("icmpv6.type == 135", 1),
        ("ip && tcp.len > 1400", 250),
        ("ipv6 && tcp.len > 1400", 250),
        ("ip && udp && !vlan", 200),
        ("ipv6 && udp && !vlan", 200),
        ("ip.frag_offset > 0", 8),
        ("ipv6.fraghdr.offset > 0", 8),
        ("vlan && !ieee8021ad && tcp.flags.syn == 1", 2),
        ("vlan && !ieee8021ad && udp", 3),
        ("ieee8021ad && vlan && udp", 1),
        ("ieee8021ad && vlan && tcp.flags.syn == 1", 1),
    ] {
        assert!(count(filter) >= least, "{} frames of {filter}, not {least}", count(filter));
    }
}

#[test]
fn we_and_wireshark_read_the_same_and_the_copy_is_the_same() {
    if !full(NEEDS) {
        return;
    }
    let path = tshark::make_capture().unwrap();
    let dir = TempDir::new().unwrap();
    let (copied, again) = (dir.path().join("copy.pcapng"), dir.path().join("again.pcapng"));

    let ours = pcap::read(&path).unwrap();
    let agrees = |c: &Capture, path: &Path| {
        let theirs = tshark::frames(path).unwrap();
        let earliest = theirs.iter().map(|f| f.epoch_ns).min().unwrap();
        let theirs: Vec<_> = theirs.iter().map(|f| (f.epoch_ns - earliest, f.len)).collect();
        assert_eq!(c.frames.iter().map(|f| (f.at_ns, f.len)).collect::<Vec<_>>(), theirs);
    };
    agrees(&ours, &path);

    copy(&ours, &copied, |_, _| ());
    assert_eq!(pcap::read(&copied).unwrap(), ours);
    agrees(&ours, &copied);
    assert_eq!(tshark::bad_checksums(&copied).unwrap(), [0_u64; 0]);
    let named = tshark::matching(&copied, "frame.interface_name == \"wire\"").unwrap();
    assert_eq!(named.len(), ours.frames.len());

    copy(&ours, &again, |_, _| ());
    assert_eq!(
        std::fs::read(copied).unwrap(),
        std::fs::read(again).unwrap(),
        "same frames, same bytes"
    );
}

#[test]
fn a_flipped_bit_is_a_bad_checksum() {
    if !full(NEEDS) {
        return;
    }
    let path = tshark::make_capture().unwrap();
    let dir = TempDir::new().unwrap();
    let damaged = dir.path().join("damaged.pcapng");
    let first = |filter| {
        *tshark::matching(&path, filter).unwrap().first().unwrap_or_else(|| panic!("no {filter}"))
    };
    let mut victims = [
        "ip && tcp.len > 1400",
        "ipv6 && tcp.len > 1400",
        "ip && udp.length == 1408 && !vlan",
        "ipv6 && udp.length == 1408 && !vlan",
        "ieee8021ad && vlan && udp",
        "icmp.type == 8 && frame.len < 200",
        "icmpv6.type == 128 && frame.len < 200",
    ]
    .map(first);
    victims.sort_unstable();
    copy(&pcap::read(&path).unwrap(), &damaged, |number, frame| {
        if victims.contains(&number) {
            *frame.last_mut().unwrap() ^= 1;
        }
    });
    assert_eq!(tshark::bad_checksums(&damaged).unwrap(), victims);
}

#[test]
fn a_capture_that_does_not_fit_on_the_disk_leaves_nothing() {
    if !full(NEEDS) {
        return;
    }
    /// A file system of 64 KiB, for as long as it lives.
    struct Small(TempDir);
    impl Drop for Small {
        fn drop(&mut self) {
            let done = Command::new("umount").arg(self.0.path()).status();
            assert!(done.is_ok_and(|s| s.success()), "umount {}", self.0.path().display());
        }
    }
    let dir = TempDir::new().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "doorbell"])
        .arg(dir.path())
        .status();
    assert!(mounted.unwrap().success());
    let dir = Small(dir);

    let mut w = Writer::create(dir.0.path().join("x.pcapng")).unwrap();
    let wire = w.interface("wire", 10_000_000_000).unwrap();
    let failed = (0..200)
        .find_map(|_| w.frame(wire, Time::ZERO, &[0; 1514]).err())
        .expect("64 KiB are full");
    assert_eq!(failed.kind(), std::io::ErrorKind::StorageFull);
    let e = w.finish().unwrap_err();
    assert!(e.to_string().ends_with("an earlier write to this capture failed"), "{e}");
    assert_eq!(std::fs::read_dir(dir.0.path()).unwrap().count(), 0);
}
