//! The seeds of the fuzz targets reach the parts that they are for. With `DOORBELL_SEEDS=write` the
//! files of `fuzz/seeds` are written anew.

use doorbell_hostile::device::{self, Seen};
use doorbell_hostile::fuzz::{self, Seed, axi_ethernet_mmio, e1000_mmio, files, pcap_read};
use doorbell_hostile::mlx5::{function, queue};
use doorbell_hostile::{hcalls, settings, vfio_user};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Returns the input of this name.
fn find(seeds: &[Seed], name: &str) -> Vec<u8> {
    let (_, bytes) = seeds.iter().find(|(n, _)| *n == name).expect("a seed of this name");
    bytes.clone()
}

#[test]
fn seed_files_are_what_the_code_makes() {
    for target in fuzz::TARGETS {
        files::check_seeds(target.name, &(target.seeds)());
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
    let c = run("two_queues");
    assert_eq!((c.tx_packets, c.rx_packets, c.dma_faults), (1, 3, 0));
    let c = run("split");
    assert_eq!((c.rx_packets, c.rx_descriptors, c.data_writes), (3, 7, 10));
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
    assert!(run("half_a_message_before_answers").dropped >= 1);
    let r = run("line");
    assert!(r.lines > 0 && r.signals > 0, "{r:?}");
    let r = run("messages");
    assert_eq!((r.messages, r.signals), (4, 5));
    assert_eq!(run("registers").polled, 1);
}

#[test]
fn mlx5_seeds_reach_receive_with_rss() {
    let seeds = function::seeds();
    // Without the byte that chooses the harness.
    let run = |name| function::attack(&find(&seeds, name)[1..]);
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
    for name in ["mlx5_send", "mlx5_send_second_port"] {
        let r = run(name);
        assert_eq!((r.sent.packets, r.sent.lso, r.sent.errors), (12, 2, 0), "{name}");
    }
    let r = run("mlx5_loopback");
    assert_eq!((r.received.arrived, r.received.packets, r.sent.packets), (8, 8, 2));
}

#[test]
fn mlx5_seeds_reach_commands_on_objects() {
    let seeds = function::seeds();
    let run = |name| {
        let r = function::attack(&find(&seeds, name)[1..]);
        println!("{name}: {r:?}");
        r
    };
    let done = run("mlx5_objects").done;
    let ended =
        [0x772, 0x902, 0x918, 0x90a, 0x906, 0x401, 0x302, 0x914, 0x202, 0x817, 0x801, 0x803];
    let asked = [0x201, 0x915, 0x303, 0x402, 0x907, 0x90b, 0x903, 0x937, 0x773, 0x750, 0x754];
    let changed = [0x938, 0x93c, 0x403, 0x934, 0x931, 0x751, 0x901, 0x917, 0x103, 0x105, 0x104];
    for opcode in [&ended[..], &asked, &changed].concat() {
        assert!(done.contains(&(opcode, 0)), "{opcode:#x}");
    }
    let r = run("mlx5_registers");
    for register in [0x5002, 0x5003, 0x5004, 0x5006, 0x5007, 0x5008, 0x507f] {
        assert!(r.done.contains(&(0x805, register)), "{register:#x}");
    }
    assert!(r.sent.eqes >= 4, "the port goes down and up, twice");
    assert!(done.contains(&(0x936, 1)), "an entry is changed");
    let r = run("mlx5_tunnels");
    assert_eq!((r.sent.packets, r.tunnelled), (8, 8));
    // Two of them are in no tunnel.
    let r = run("mlx5_told");
    assert_eq!((r.sent.packets, r.tunnelled), (10, 8));
    let r = run("mlx5_keys");
    // The last key does not reach the frame.
    assert_eq!((r.sent.packets, r.sent.errors, r.received.packets), (5, 1, 7));
    let r = run("mlx5_flushes");
    assert!(r.sent.cqes >= 24 && r.sent.packets == 2, "{r:?}");
    let r = run("mlx5_unreadable");
    assert!(r.sent.eqes >= 1 && r.received.packets == 0, "{r:?}");
}

#[test]
fn mlx5_seeds_reach_wqes_of_each_kind() {
    let seeds = queue::seeds();
    for name in ["wqes", "wqes_refetched", "wqes_inline", "wqes_wrong"] {
        let c = queue::attack(&find(&seeds, name)[1..]);
        println!("{name}: {c:?}");
        match name {
            "wqes_inline" => assert!(c.errors > 0 && c.packets > 0, "{name}: {c:?}"),
            "wqes_wrong" => assert!(c.errors >= 5 && c.packets >= 10, "{name}: {c:?}"),
            _ => assert_eq!((c.nops, c.mpwqes, c.lso, c.errors), (1, 1, 1, 0), "{name}: {c:?}"),
        }
    }
}

#[test]
fn hcalls_seeds_reach_every_command_and_pool() {
    let seeds = hcalls::seeds();
    let run = |name| hcalls::attack(&find(&seeds, name));
    // Each command that a client may send has its answer; the one that nobody knows, too.
    let answered: BTreeSet<u8> = ["vnic_commands", "vnic_send"]
        .into_iter()
        .flat_map(|name| run(name).answers.into_keys().map(|(command, _)| command))
        .collect();
    let all = (1..=7).chain([12, 13]).chain(19..=22).chain([24, 25, 27, 29, 30, 31, 32]);
    assert_eq!(answered, all.collect());
    assert!(run("vnic_commands").answers.values().sum::<u32>() >= 57);
    let r = run("vnic_send");
    assert_eq!((r.vnic.tx_sent, r.vnic.large_sends, r.frames, r.posted), (6, 2, 10, 10));
    assert!(r.vnic.tx_checksums > 0 && r.vnic.header_bytes > 0 && r.vnic.tx_discarded > 0, "{r:?}");
    // A server that insists on headers breaks down for want of them.
    assert_eq!(run("vnic_send_with_headers").vnic.errors_reported, 1);
    let r = run("vnic_receive");
    let c = r.vnic;
    assert!(c.rx_packets >= 3 && c.rx_malformed > 0 && c.rx_filtered > 0, "{c:?}");
    assert_eq!((c.failovers, c.migrations, c.errors_reported), (1, 1, 1));
    assert!(run("vnic_hostile").vnic.commands > 0);
    for name in ["lan_send", "lan_send_in_slices"] {
        let r = run(name);
        assert_eq!((r.veth.tx_packets, r.veth.tx_large, r.frames), (5, 2, 12), "{name}");
        assert_eq!(r.veth.tx_busy > 0, name != "lan_send", "{name}: {r:?}");
    }
    let r = run("lan_receive");
    let c = r.veth;
    assert_eq!((c.rx_packets, c.buffers_added, c.buffers_returned, c.rx_no_buffer), (5, 17, 1, 1));
    assert!(c.interrupts > 0 && c.refused > 0 && c.rx_bad_buffer == 1, "{c:?}");
    assert_eq!(run("lan_receive_vlan").veth.rx_packets, 6);
    assert!(run("lan_hostile").veth.rx_packets > 0);
}

#[test]
fn axi_seeds_reach_transmit_and_wire() {
    let seeds = axi_ethernet_mmio::seeds();
    let run = |name| axi_ethernet_mmio::attack(&find(&seeds, name));
    for name in ["transmit_partial", "transmit_full", "transmit_slow"] {
        let c = run(name);
        assert_eq!((c.tx_packets, c.tx_completions, c.tx_discarded), (6, 6, 0), "{name}");
        assert!(c.tx_descriptors > 6 && c.tx_interrupts > 0, "{name}: {c:?}");
    }
    for name in ["receive_partial", "receive_full"] {
        let c = run(name);
        assert_eq!((c.rx_packets, c.rx_completions, c.rx_dropped), (6, 6, 1), "{name}");
    }
    let c = run("own_fcs");
    assert_eq!((c.tx_discarded, c.rx_packets, c.resets), (2, 1, 1));
    let c = run("filters");
    assert_eq!((c.rx_packets, c.rx_filtered), (1, 3));
    assert_eq!(run("phy").tx_packets, 1);
    let c = run("errors");
    assert_eq!((c.hangs, c.resets, c.tx_packets, c.dma_errors), (1, 2, 1, 2));
    assert!(c.ignored_writes > 0);
}

#[test]
fn pcap_seeds_reach_frames_of_all_formats() {
    let seeds = pcap_read::seeds();
    let run = |name| pcap_read::attack(&find(&seeds, name));
    for name in ["pcap_us_le", "pcap_ns_be", "pcap_us_be", "pcap_ns_le"] {
        assert_eq!(run(name), Some(3), "{name}");
    }
    for name in ["pcapng_le", "pcapng_be"] {
        // Two frames of each of five interfaces, and one each of a simple and of an old block.
        assert_eq!(run(name), Some(12), "{name}");
    }
    for name in ["pcap_cooked", "pcap_cooked_v2"] {
        assert_eq!(run(name), Some(4), "{name}");
    }
    assert_eq!(run("pcap_padded"), Some(1));
    assert_eq!(run("pcap_cut"), None);
}

/// Checks that the seeds of a driver reach traffic, lies of the kinds that it can meet, pokes,
/// changes and restarts.
fn driver_seeds_reach(
    seeds: &[Seed],
    attack: impl Fn(&[u8]) -> Seen,
    kinds: [bool; 5],
    receives: bool,
) {
    let run = |name| {
        let s = attack(&find(seeds, name));
        println!("{name}: {s:?}");
        s
    };
    for name in ["traffic", "traffic_other_shape"] {
        let s = run(name);
        // Not every driver cuts large sends, or inserts tags.
        assert!(s.taken >= 5 && s.refused <= 2 && s.returned == s.taken, "{name}: {s:?}");
        assert_eq!((s.received >= 5, s.told, s.pokes), (receives, [0; 5], 0), "{name}: {s:?}");
        assert_eq!((s.honest, s.unopened), (2, 0), "{name}");
    }
    let s = run("lies");
    assert_eq!(s.told.map(|n| n > 0), kinds, "{s:?}");
    let s = run("lies_at_opening");
    assert!(s.told[0] + s.told[3] > 0, "{s:?}");
    let s = run("pokes");
    assert!(s.pokes >= 14, "{s:?}");
    let s = run("changes");
    assert!(s.changed == 16 && s.restarted == 2 && s.taken > 8, "{s:?}");
    let s = run("no_memory");
    assert!(s.unopened == 1 && s.honest == 1, "{s:?}");
}

#[test]
fn driver_seeds_reach_traffic_and_lies() {
    use device::{axienet, e1000, ibmveth, ibmvnic, mlx5};
    let (registers, calls) = ([true, true, true, false, true], [false, false, true, true, true]);
    driver_seeds_reach(&axienet::seeds(), axienet::attack, registers, true);
    driver_seeds_reach(&e1000::seeds(), e1000::attack, registers, true);
    driver_seeds_reach(&ibmveth::seeds(), ibmveth::attack, calls, true);
    driver_seeds_reach(&ibmvnic::seeds(), ibmvnic::attack, calls, true);
    // It reads registers when it is opened, and not later.
    let no_reads = [false, true, true, false, true];
    driver_seeds_reach(&mlx5::seeds(), mlx5::attack, no_reads, true);
}

#[test]
fn settings_seeds_reach_files_and_options() {
    let seeds = settings::seeds();
    let run = |name| settings::attack(&find(&seeds, name));
    assert_eq!((run("scenario").scenarios, run("scenario_all_keys").scenarios), (1, 1));
    assert_eq!((run("scenario_refused").refused, run("profile").profiles), (1, 1));
    let r = run("settings");
    assert_eq!((r.settings, r.refused), (5, 4));
    assert_eq!((run("budget").budgets, run("budget_refused").refused), (1, 1));
    assert_eq!((run("range").values, run("range_of_times").values), (23, 4));
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

    #[test]
    fn no_guest_harms_an_axi_ethernet(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        axi_ethernet_mmio::attack(&bytes);
    }
}
