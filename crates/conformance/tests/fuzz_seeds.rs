//! The seeds of the fuzz targets reach the parts that they are for. With `DOORBELL_SEEDS=write` the
//! files of `fuzz/seeds` are written anew.

use doorbell_conformance::fuzz::{self, Seed, e1000_mmio};
use doorbell_conformance::mlx5::hostile_guest;
use doorbell_conformance::vfio_user;
use proptest::prelude::*;
use std::path::Path;

/// Returns the input of this name.
fn find(seeds: &[Seed], name: &str) -> Vec<u8> {
    let (_, bytes) = seeds.iter().find(|(n, _)| *n == name).expect("a seed of this name");
    bytes.clone()
}

#[test]
fn seed_files_are_what_the_code_makes() {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let write = std::env::var("DOORBELL_SEEDS").is_ok_and(|v| v == "write");
    for (target, seeds) in fuzz::seeds() {
        let dir = all.join(target);
        if write {
            let _ = std::fs::remove_dir_all(&dir);
            std::fs::create_dir_all(&dir).unwrap();
        }
        for (name, bytes) in &seeds {
            if write {
                std::fs::write(dir.join(name), bytes).unwrap();
            }
            let there = std::fs::read(dir.join(name)).unwrap_or_default();
            assert!(there == *bytes, "{target}/{name}: DOORBELL_SEEDS=write makes it anew");
        }
        let files = std::fs::read_dir(&dir).unwrap().count();
        assert_eq!(files, seeds.len(), "{target}: a file that no code makes");
    }
}

#[test]
fn e1000_seeds_reach_transmit_and_receive() {
    let seeds = e1000_mmio::seeds();
    let run = |name| e1000_mmio::attack(&find(&seeds, name));
    let c = run("transmit");
    assert_eq!((c.tx_packets, c.contexts, c.tx_discarded, c.dma_faults), (5, 1, 1, 0));
    let c = run("segments");
    assert!(c.large_sends >= 4 && c.tx_packets > 12 && c.tx_discarded > 0, "{c:?}");
    let c = run("report_sent");
    assert_eq!((c.tx_packets, c.bad_descriptors, c.hangs), (1, 1, 1));
    let c = run("held_back");
    assert_eq!((c.tx_packets, c.rx_packets), (2, 3));
    assert!(c.interrupts > 0 && c.write_backs < c.written_descriptors, "{c:?}");
    let c = run("receive");
    assert_eq!((c.rx_packets, c.rx_dropped), (6, 1));
    assert!(c.rx_descriptors > c.rx_packets, "{c:?}");
    let c = run("filters");
    assert_eq!((c.rx_packets, c.rx_filtered), (3, 1));
    let c = run("pauses");
    assert_eq!((c.pauses_received, c.pauses_sent, c.rx_waited), (1, 2, 2));
    let c = run("loopback");
    assert_eq!((c.tx_packets, c.rx_packets), (1, 1));
    assert!(run("parts").interrupts > 0);
    assert_eq!(run("fault").dma_faults, 1);
}

#[test]
fn vfio_user_seeds_reach_dma_and_interrupts() {
    let seeds = vfio_user::seeds();
    let run = |name| vfio_user::attack(&find(&seeds, name));
    // The same traffic however memory is reached: two plain frames, one large send, one received.
    let mapped = run("mapped");
    assert!(mapped.reads > 5 && mapped.writes > 4, "{mapped:?}");
    assert_eq!((mapped.frames, mapped.faults, mapped.remote), (6, 0, 0));
    for name in ["populated", "remote", "half_remote", "small_messages", "requests_before_answers"]
    {
        let r = run(name);
        let same = (r.reads, r.writes, r.frames) == (mapped.reads, mapped.writes, mapped.frames);
        assert!((same || r.nested > 0) && r.faults == 0, "{name}: {r:?}");
        assert_eq!(r.remote > 0, name != "populated", "{name}: {r:?}");
    }
    assert_eq!(run("requests_before_answers").nested, 6);
    assert_eq!(run("refused_dma").faults, 1);
    for name in ["short_answer", "wrong_answer", "gone_in_dma"] {
        let r = run(name);
        assert!(r.remote >= 2 && r.faults >= 1, "{name}: {r:?}");
    }
    let r = run("line");
    assert!(r.lines > 0 && r.signals > 0, "{r:?}");
    let r = run("messages");
    assert_eq!((r.messages, r.signals), (4, 5));
    assert_eq!(run("registers").polled, 1);
}

#[test]
fn mlx5_seeds_reach_receive_with_rss() {
    let seeds = hostile_guest::seeds();
    // Without the byte that chooses the harness.
    let run = |name| hostile_guest::attack(&find(&seeds, name)[1..]);
    for name in ["mlx5_receive", "mlx5_receive_full_sum"] {
        let r = run(name);
        assert_eq!((r.received.packets, r.received.arrived), (7, 7), "{name}");
        assert!(r.queues >= 2 && r.hashed == 4 && r.checked == 6, "{name}: {r:?}");
        assert!(r.received.fetches > 1 && r.received.record_reads > 1, "{name}: {r:?}");
    }
    for name in ["mlx5_rss", "mlx5_xor"] {
        let r = run(name);
        assert!(r.queues == 4 && r.hashed >= 40, "{name}: {r:?}");
    }
    let r = run("mlx5_rules");
    assert_eq!((r.received.packets, r.received.not_steered), (5, 2));
    let r = run("mlx5_short_buffers");
    assert_eq!((r.received.errors, r.received.discarded), (2, 7));
    // Posted WQEs are flushed, each with a completion.
    assert_eq!(run("mlx5_wrong_key").sent.cqes, 24);
    assert_eq!(run("mlx5_wrong_address").received.errors, 2);
    assert_eq!(run("mlx5_no_buffers").received.out_of_buffer, 7);
    let r = run("mlx5_send");
    assert_eq!((r.sent.packets, r.sent.lso, r.sent.errors), (12, 2, 0));
    let r = run("mlx5_loopback");
    assert_eq!((r.received.arrived, r.received.packets, r.sent.packets), (8, 8, 2));
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn no_guest_harms_an_e1000(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        e1000_mmio::attack(&bytes);
    }
}
