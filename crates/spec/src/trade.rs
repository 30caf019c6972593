//! Words of the trade: names that ethtool, modules, lspci and people have for settings and numbers,
//! each with the keys or the numbers here. A name that does not exist is looked up here first.
//!
//! The same word stands for other keys on another system, so a row lists all of them, and a system
//! shows its own. A word whose row has none that the system has is not modelled there.

use crate::hint;

/// Words, and the names that they stand for.
pub type Row = (&'static [&'static str], &'static [&'static str]);

/// Words for settings. Rows without keys are of things that no model has (docs/limits.md).
pub const SETTINGS: &[Row] = &[
    (
        &["rx_usecs", "rx_coalesce_usecs", "rx_int_delay", "rxintdelay"],
        &["driver.rx_usecs", "driver.rx_moderation_period", "driver.throttle", "driver.rx_delay"],
    ),
    (
        &["tx_usecs", "tx_coalesce_usecs", "tx_int_delay", "txintdelay"],
        &["driver.tx_usecs", "driver.moderation_period", "driver.tx_delay"],
    ),
    (&["rx_frames", "rx_max_frames"], &["driver.rx_frames"]),
    (
        &["tx_frames", "tx_max_frames", "tx_max_coalesced_frames"],
        &["driver.tx_frames", "driver.moderation_count"],
    ),
    (
        &["itr", "interruptthrottlerate", "interrupt_throttle_rate", "interrupt_rate"],
        &["driver.throttle"],
    ),
    (
        &["coalesce", "coalescing", "moderation", "interrupt_moderation"],
        &[
            "driver.moderation_period",
            "driver.moderation_count",
            "driver.throttle",
            "driver.rx_usecs",
            "driver.tx_usecs",
        ],
    ),
    (
        &["adaptive_rx", "adaptive_tx", "dim"],
        &["driver.controller", "driver.throttle", "driver.adaptive_rx"],
    ),
    (
        &["rx_ring", "rx_ring_size", "rx_descriptors", "rxd", "rx_pending"],
        &["driver.rx_ring", "driver.rx_entries", "driver.pool_2k", "driver.pool_64k"],
    ),
    (
        &["tx_ring", "tx_ring_size", "tx_descriptors", "txd", "tx_pending"],
        &["driver.tx_ring", "driver.queue", "driver.tx_entries"],
    ),
    (
        &["ring", "rings", "ring_size", "descriptors"],
        &[
            "driver.queue",
            "driver.tx_ring",
            "driver.rx_ring",
            "driver.tx_entries",
            "driver.rx_entries",
            "driver.pool_2k",
        ],
    ),
    (
        &["queues", "num_queues", "channels", "combined", "rss", "rps"],
        &["run.cores", "driver.queues"],
    ),
    (
        &["tso", "lso", "tcp_segmentation_offload", "large_send"],
        &["driver.large_send", "traffic.large_send", "traffic.gso"],
    ),
    (&["gso", "generic_segmentation_offload"], &["traffic.gso", "traffic.large_send"]),
    (&["gro", "generic_receive_offload"], &["traffic.gro"]),
    (
        &["csum", "tx_csum", "tx_checksum", "tx_checksumming", "checksum_offload"],
        &[
            "driver.checksum",
            "nic.tx_checksum",
            "traffic.checksum",
            "traffic.tx_checksum",
            "traffic.offload",
        ],
    ),
    (&["rx_csum", "rx_checksum", "rx_checksumming"], &["nic.rx_checksum"]),
    (&["skb_tx_mpwqe", "mpw", "txq_mpw_en"], &["driver.mpwqe"]),
    (&["max_payload", "maxpayload", "max_payload_size"], &["pcie.mps"]),
    (
        &["max_read_request", "maxreadreq", "max_read_request_size", "max_readreq"],
        &["pcie.mrrs", "pci.mmrbc"],
    ),
    (&["packet_size", "pkt_size", "frame_size", "payload_size"], &["traffic.size"]),
    (&["mss", "gso_size"], &["traffic.mss", "traffic.gso"]),
    (&["byte_queue_limits", "dql"], &["stack.bql"]),
    (&["napi_budget", "netdev_budget"], &["run.budget"]),
    (&["burst_size", "xmit_more", "batch_size"], &["traffic.burst"]),
    (&["cpus", "threads", "num_cpus"], &["run.cores", "cpu.cores"]),
    // What no model has.
    (&["numa", "numa_node", "socket", "node"], &[]),
    (&["ddio", "cache", "l3", "llc", "snoop"], &[]),
    (&["iommu", "iotlb", "hugepages"], &[]),
    (&["turbo", "turbo_boost", "cstate", "c_states", "smt", "hyperthreading", "ht"], &[]),
    (&["cqe_compression", "rx_cqe_compress", "cqe_compress"], &[]),
    (&["striding_rq", "rx_striding_rq", "xdp", "af_xdp", "xsk"], &[]),
    (&["inline", "txq_inline", "txq_inline_max", "txq_inline_mpw", "blueflame"], &[]),
    (&["busy_poll", "busy_read", "napi_defer_hard_irqs", "gro_flush_timeout"], &[]),
    (&["lro", "large_receive_offload", "rx_gro_hw", "ntuple"], &[]),
    (&["pause", "pfc", "flow_control", "ecn", "fec"], &[]),
    (&["sriov", "vf", "num_vfs", "qos", "vhost"], &[]),
    (&["tls", "ktls", "ipsec", "macsec", "rdma", "roce"], &[]),
    (&["cubic", "bbr", "sack", "pacing"], &[]),
];

/// Words for numbers of a result, and for the keys that set what they tell.
pub const NUMBERS: &[Row] = &[
    (
        &["throughput", "bandwidth", "goodput", "bps", "bitrate", "gbps", "mbps"],
        &[
            "payload_bits_per_s",
            "frame_bits_per_s",
            "packets_per_s",
            "traffic.rate",
            "traffic.source_rate",
        ],
    ),
    (
        &["pps", "kpps", "mpps", "packet_rate", "packets_per_second"],
        &["packets_per_s", "traffic.rate"],
    ),
    (&["tps", "transactions_per_s", "transaction_rate"], &["packets_per_s"]),
    (&["cpu", "cpu_usage", "cpu_load", "utilization", "cpu_utilization"], &["cpu_busy_share"]),
    (&["cycles_per_packet", "cpp", "cycles_per_pkt"], &["cycles"]),
    (
        &["irq", "irqs", "interrupts", "irq_rate"],
        &["interrupts_per_s", "messages", "line_interrupts"],
    ),
    (
        &["drops", "dropped", "rx_dropped", "loss", "rx_missed", "rx_missed_errors"],
        &["lost_share", "device_rx_missed"],
    ),
    (&["rtt", "latency", "latency_ns", "delay"], &["latency_ns.p50", "latency_ns.p99"]),
    (&["tail", "tail_latency", "p99"], &["latency_ns.p99"]),
];

/// The most names that a hint has.
const MOST: usize = 3;

/// Returns the names of the first row that has `word`, if one does.
fn row(rows: &[Row], word: &str) -> Option<&'static [&'static str]> {
    rows.iter().find(|(words, _)| words.contains(&word)).map(|(_, names)| *names)
}

/// Returns the word of a name, as the rows write it: `adaptive-rx` and `driver.adaptive_rx` are
/// `adaptive_rx`.
pub fn word(name: &str) -> String {
    after_group(name).trim().to_lowercase().replace(['-', ' '], "_")
}

fn after_group(name: &str) -> &str {
    name.split_once('.').map_or(name, |(_, last)| last)
}

/// Returns the names of a row that are among those of a system, as a hint.
fn said(wanted: &str, names: &[&str], among: &[&str]) -> Option<String> {
    let own: Vec<String> =
        names.iter().filter(|n| among.contains(n)).take(MOST).map(|n| format!("`{n}`")).collect();
    let (last, rest) = own.split_last()?;
    let all = if rest.is_empty() { last.clone() } else { format!("{} or {last}", rest.join(", ")) };
    Some(format!("; `{wanted}` is {all} here"))
}

/// Returns the hint for a key that does not exist, among the keys of a system: the key that a word
/// of the trade stands for; that it is not modelled; or the most similar name.
pub fn hint_of_key<'a>(wanted: &str, among: impl Iterator<Item = &'a str>) -> String {
    let (word, all): (String, Vec<&str>) = (word(wanted), among.collect());
    let found = row(SETTINGS, &word).or_else(|| row(NUMBERS, &word));
    let own = found.and_then(|names| said(&word, names, &all));
    own.unwrap_or_else(|| match row(SETTINGS, &word) {
        Some(_) => not_modelled(&word),
        None => hint(wanted, all.into_iter()),
    })
}

/// Returns the hint for a number that does not exist, among those of a system's results.
pub fn hint_of_number<'a>(wanted: &str, among: impl Iterator<Item = &'a str>) -> String {
    let (word, all): (String, Vec<&str>) = (word(wanted), among.collect());
    let own = row(NUMBERS, &word).and_then(|names| said(&word, names, &all));
    own.unwrap_or_else(|| match row(SETTINGS, &word) {
        Some([]) => not_modelled(&word),
        _ => hint(wanted, all.into_iter()),
    })
}

fn not_modelled(word: &str) -> String {
    format!("; `{word}` is not modelled here, see docs/limits.md")
}
