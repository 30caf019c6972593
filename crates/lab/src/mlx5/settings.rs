//! What an mlx5 run is a function of, by name: the keys, and how they become a
//! [`Setup`] and a [`Load`].
//!
//! Prices of CPU work are in cycles, so that a faster core makes all of them
//! shorter; what a bus or a device takes is in nanoseconds.

use super::{Load, Setup};
use crate::key::{Key, Values};
use crate::traffic::{Frames, ReplayOptions};
use doorbell_bus::pcie::{Completions, DllpRule, Settings};
use doorbell_bus::{Costs, Guard, Latencies, Price};
use doorbell_devices::mlx5::Config as Nic;
use doorbell_drivers::mlx5::{Config as DriverConfig, Sizing};
use doorbell_layout::mlx5::Caps;
use doorbell_seam::{Span, WorkKind};
use std::sync::Arc;

const MAX_CYCLES: f64 = 1e6;
const MAX_NS: f64 = 1e6;
/// Each core has an EQ; EQ numbers have 8 bits, and the device keeps the first four.
const MAX_CORES: f64 = 252.0;
/// Simulated time that a run may take: 10^18 ps are well inside a `Time`.
const MAX_SECONDS: f64 = 1e6;
/// Simulated memory that a run may take, with its guard, in bytes.
const MAX_MEMORY: u64 = 16 << 30;

const fn cycles(name: &'static str, about: &'static str) -> Key {
    Key::number(name, "cycles", 0.0, MAX_CYCLES, about)
}
const fn ns(name: &'static str, about: &'static str) -> Key {
    Key::number(name, "ns", 0.0, MAX_NS, about)
}
const fn whole(name: &'static str, unit: &'static str, min: f64, max: f64, about: &'static str) -> Key {
    Key::steps(name, unit, (min, max, 1.0), about)
}

const PCIE_SIZES: &[f64] = &[128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0];

/// What a profile says.
pub(super) static PLATFORM: [Key; 47] = [
    Key::number("cpu.frequency", "GHz", 0.1, 10.0, "clock of every core"),
    whole("cpu.cores", "cores", 1.0, MAX_CORES, "cores there are"),
    Key::choice(
        "cpu.memory",
        &["above_4gib", "below_4gib"],
        "where host memory lies: above, a read request's header is 4 bytes longer",
    ),
    cycles("cpu.stack", "one packet handed to the driver by what is above it"),
    Key::number("cpu.copy", "cycles/B", 0.0, 1e3, "one byte copied"),
    Key::number("cpu.sum", "cycles/B", 0.0, 1e3, "one byte summed").default("0"),
    cycles("cpu.tx_descriptor", "a send WQE for one packet, beside its entries"),
    Key::number("cpu.tx_descriptor_entry", "cycles/entry", 0.0, MAX_CYCLES, "each data segment of it"),
    cycles("cpu.tx_shared", "a packet added to a session"),
    cycles("cpu.tx_session", "a session opened and closed"),
    cycles("cpu.tx_pad", "ring space filled with NOPs, beside its blocks"),
    Key::number("cpu.tx_pad_entry", "cycles/entry", 0.0, MAX_CYCLES, "each block of it"),
    cycles("cpu.tx_notify", "a doorbell, without the register write itself"),
    cycles("cpu.tx_done", "packets found sent, beside each packet"),
    Key::number("cpu.tx_done_packet", "cycles/packet", 0.0, MAX_CYCLES, "each packet of them"),
    cycles("cpu.completion", "a CQE examined"),
    cycles("cpu.interrupt", "an interrupt handler entered"),
    cycles("cpu.poll", "a poll routine entered"),
    cycles("cpu.wake", "a stopped queue started again"),
    cycles("cpu.map", "a buffer mapped for the device"),
    cycles("cpu.mmio_write", "a register write, for the core that makes it"),
    ns("cpu.mmio_write_spacing", "the least time between two register writes of one core"),
    cycles("cpu.fence", "a memory barrier"),
    Key::number("cpu.relax", "cycles", 1.0, MAX_CYCLES, "one turn of a polling loop"),
    Key::among("pcie.generation", "", &[1.0, 2.0, 3.0, 4.0, 5.0], "PCI Express generation"),
    Key::among("pcie.lanes", "lanes", &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0], "width of the link"),
    Key::among("pcie.mps", "B", PCIE_SIZES, "Max_Payload_Size"),
    Key::among("pcie.mrrs", "B", PCIE_SIZES, "Max_Read_Request_Size"),
    Key::choice(
        "pcie.completions",
        &["merged", "rcb64", "rcb128"],
        "how the host cuts the completions of a read: at MPS, or at each 64 or 128 bytes",
    ),
    Key::choice("pcie.dllp", &["none", "per_request", "timer", "flat"], "which Acks and UpdateFCs are booked"),
    Key::choice("pcie.ecrc", &["on", "off"], "whether TLPs carry the optional digest"),
    Key::number("pcie.usable_share", "", 0.01, 1.0, "share of the link's byte rate that traffic can use"),
    ns("pcie.link_latency", "from the last bit sent to the packet being usable, one way"),
    ns("pcie.memory_latency", "from a read request at the root complex to its data"),
    Key::choice(
        "pcie.bar",
        &["above_4gib", "below_4gib"],
        "where the registers lie: above, a doorbell's header is 4 bytes longer",
    ),
    Key::steps("nic.fetch_chunk", "B", (64.0, 4096.0, 64.0), "largest read of WQEs"),
    Key::steps("nic.fetch_ahead", "B", (64.0, 1_048_576.0, 64.0), "WQEs fetched and not yet executed, over all queues"),
    Key::choice("nic.refetch", &["no", "yes"], "whether a WQE cut by the end of a chunk is read again from its start"),
    whole("nic.reads_outstanding", "reads", 1.0, 4096.0, "data reads in flight at the most"),
    ns("nic.packet_time", "least time between two packets' starts of execution"),
    ns("nic.pipeline_delay", "from a packet's last byte on chip to its first bit on the wire"),
    Key::number("nic.port_rate", "Gbit/s", 0.01, 1000.0, "rate of the Ethernet port"),
    Key::steps("nic.max_frame", "B", (60.0, 16384.0, 1.0), "largest frame, without FCS"),
    Key::choice("nic.enhanced_mpw", &["on", "off"], "capability: multi-packet WQEs"),
    Key::choice("nic.min_inline", &["none", "l2", "ip", "tcp_udp"], "headers that a WQE must carry inline"),
    Key::among(
        "nic.max_wqe",
        "B",
        &[64.0, 128.0, 256.0, 512.0, 1024.0],
        "capability max_wqe_sz_sq: the longest send WQE",
    ),
    Key::among(
        "nic.max_lso",
        "KiB",
        &[0.0, 16.0, 32.0, 64.0, 128.0, 256.0],
        "capability max_lso_cap: the largest large send's payload; 0: no LSO",
    ),
];

/// What a scenario says. Defaults are Linux's where it has them.
pub(super) static RUN: [Key; 21] = [
    Key::choice("traffic.kind", &["pktgen", "pcap"], "the packet generator, or a capture"),
    Key::steps("traffic.size", "B", (42.0, 16384.0, 1.0), "pktgen: packet without FCS").default("64"),
    whole("traffic.burst", "packets", 1.0, 4096.0, "packets announced together").default("32"),
    Key::number("traffic.rate", "Mpps", 0.001, 1e4, "pktgen: over all cores").or(&["full"]).default("full"),
    whole("traffic.packets", "packets", 1.0, 1e9, "pktgen: in all; rounded up to a multiple of the cores")
        .default("240000"),
    Key::choice("traffic.checksum", &["off", "on"], "pktgen: whether the UDP checksum is left to the device")
        .default("off"),
    Key::file("traffic.file", "pcap: the capture"),
    Key::choice("traffic.times", &["full", "own"], "pcap: as fast as the queue takes frames, or at their own times")
        .default("full"),
    whole("traffic.rounds", "rounds", 1.0, 1e6, "pcap: how often it is sent").default("1"),
    Key::choice("traffic.offload", &["csum", "none"], "pcap: whether TCP and UDP checksums are left to the device")
        .default("csum"),
    Key::steps(
        "traffic.gso",
        "B",
        (1.0, 65535.0, 1.0),
        "pcap: frames over the MTU are large sends with segments of this payload",
    )
    .or(&["none"])
    .default("none"),
    Key::steps("traffic.mtu", "B", (68.0, 65535.0, 1.0), "pcap: the largest IP packet").default("1500"),
    Key::choice("driver.mpwqe", &["on", "off"], "the switch: ethtool --set-priv-flags skb_tx_mpwqe").default("on"),
    Key::choice(
        "driver.sizing",
        &["padded", "fit"],
        "sessions padded to their longest (linux 5.10), or fit to what is left of a page",
    )
    .default("padded"),
    Key::among("driver.queue", "blocks", &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0], "send queue")
        .default("1024"),
    Key::among(
        "driver.cq",
        "CQEs",
        &[64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0, 65536.0],
        "completion queue",
    )
    .default("1024"),
    Key::steps("driver.moderation_period", "us", (0.0, 4095.0, 1.0), "an event waits for this long").default("16"),
    whole("driver.moderation_count", "CQEs", 0.0, 65535.0, "or for so many completions").default("32"),
    whole("run.cores", "cores", 1.0, MAX_CORES, "cores that send; a capture goes through one")
        .or(&["all"])
        .default("all"),
    Key::choice("run.guard", &["page", "byte"], "how exactly the device's accesses to memory are checked")
        .default("page"),
    whole("run.seed", "", 0.0, 9_007_199_254_740_991.0, "recorded; pktgen and captures draw nothing at random")
        .default("0"),
];

/// The [`Setup`] of these values. It does not depend on the capture.
///
/// # Errors
/// Values that are allowed each, but not together.
pub fn setup(v: &Values) -> Result<Setup, String> {
    let there = v.number("cpu.cores") as u16;
    let cores = match v.number_or_word("run.cores") {
        _ if v.word("traffic.kind") == "pcap" => 1,
        None => there,
        Some(wanted) if wanted as u16 > there => {
            return Err(format!("`run.cores` is {wanted}, but the platform has {there} (`cpu.cores`)"));
        }
        Some(wanted) => wanted as u16,
    };
    let (bar, memory_base) = (
        if v.word("pcie.bar") == "below_4gib" { 0xf000_0000 } else { 0x3800_0000_0000 },
        if v.word("cpu.memory") == "below_4gib" { 64 << 20 } else { 4 << 30 },
    );
    Ok(Setup {
        cores,
        costs: costs(v),
        pcie: pcie(v),
        latencies: Latencies { link: span(v, "pcie.link_latency"), memory: span(v, "pcie.memory_latency") },
        bar,
        memory_base,
        guard: if v.word("run.guard") == "byte" { Guard::Byte } else { Guard::Page },
        nic: nic(v),
        driver: DriverConfig {
            mpwqe: v.is_on("driver.mpwqe"),
            sizing: if v.word("driver.sizing") == "fit" { Sizing::Fit } else { Sizing::Padded },
            log_sq: log2(v.number("driver.queue")),
            log_cq: log2(v.number("driver.cq")),
            cq_period_us: v.number("driver.moderation_period") as u16,
            cq_max_count: v.number("driver.moderation_count") as u16,
            vector: 0,
        },
    })
}

/// The link alone.
pub fn pcie(v: &Values) -> Settings {
    Settings {
        generation: v.number("pcie.generation") as u32,
        lanes: v.number("pcie.lanes") as u32,
        mps: v.number("pcie.mps") as u32,
        mrrs: v.number("pcie.mrrs") as u32,
        completions: match v.word("pcie.completions") {
            "rcb64" => Completions::Rcb(64),
            "rcb128" => Completions::Rcb(128),
            _ => Completions::Merged,
        },
        ecrc: v.is_on("pcie.ecrc"),
        dllp: match v.word("pcie.dllp") {
            "none" => DllpRule::None,
            "timer" => DllpRule::Timer,
            "flat" => DllpRule::Flat,
            _ => DllpRule::PerRequest,
        },
        ack_limit: None,
        fc_limit: None,
        usable_ppm: (v.number("pcie.usable_share") * 1e6).round() as u32,
    }
}

/// The prices of CPU work.
fn costs(v: &Values) -> Costs {
    let ghz = v.number("cpu.frequency");
    let cycles = |key: &str| Span::from_ps((v.number(key) / ghz * 1e3).round() as u64);
    let mut work = Costs::FREE.work;
    let mut price = |kind: WorkKind, each: Option<&str>, per_unit: Option<&str>| {
        let of = |key: Option<&str>| key.map_or(Span::ZERO, &cycles);
        work[kind as usize] = Price { each: of(each), per_unit: of(per_unit) };
    };
    price(WorkKind::Stack, Some("cpu.stack"), None);
    price(WorkKind::Copy, None, Some("cpu.copy"));
    price(WorkKind::Sum, None, Some("cpu.sum"));
    price(WorkKind::TxDescriptor, Some("cpu.tx_descriptor"), Some("cpu.tx_descriptor_entry"));
    price(WorkKind::TxShared, Some("cpu.tx_shared"), None);
    price(WorkKind::TxSession, Some("cpu.tx_session"), None);
    price(WorkKind::TxPad, Some("cpu.tx_pad"), Some("cpu.tx_pad_entry"));
    price(WorkKind::TxNotify, Some("cpu.tx_notify"), None);
    price(WorkKind::TxDone, Some("cpu.tx_done"), Some("cpu.tx_done_packet"));
    price(WorkKind::Completion, Some("cpu.completion"), None);
    price(WorkKind::Interrupt, Some("cpu.interrupt"), None);
    price(WorkKind::Poll, Some("cpu.poll"), None);
    price(WorkKind::Wake, Some("cpu.wake"), None);
    price(WorkKind::Map, Some("cpu.map"), None);
    Costs {
        work,
        mmio_write: cycles("cpu.mmio_write"),
        mmio_write_spacing: span(v, "cpu.mmio_write_spacing"),
        fence: cycles("cpu.fence"),
        relax: cycles("cpu.relax"),
    }
}

fn nic(v: &Values) -> Nic {
    let lso = v.number("nic.max_lso");
    Nic {
        caps: Caps {
            enhanced_mpw: v.is_on("nic.enhanced_mpw"),
            max_wqe_sz_sq: v.number("nic.max_wqe") as u16,
            min_inline: match v.word("nic.min_inline") {
                "l2" => 1,
                "ip" => 2,
                "tcp_udp" => 3,
                _ => 0,
            },
            log_max_lso: if lso > 0.0 { log2(lso * 1024.0) } else { 0 },
            csum: true,
            vlan: true,
        },
        fetch_chunk: v.number("nic.fetch_chunk") as u32,
        fetch_ahead: v.number("nic.fetch_ahead") as u32,
        refetch: v.is_on("nic.refetch"),
        reads_outstanding: v.number("nic.reads_outstanding") as u16,
        packet_time: span(v, "nic.packet_time"),
        pipeline_delay: span(v, "nic.pipeline_delay"),
        // 8 bits take 8000 ps at 1 Gbit/s.
        wire_byte_1024th_ps: (8000.0 * 1024.0 / v.number("nic.port_rate")).round() as u32,
        max_frame: v.number("nic.max_frame") as u32,
    }
}

/// A key in nanoseconds.
fn span(v: &Values, key: &str) -> Span {
    Span::from_ps((v.number(key) * 1e3).round() as u64)
}

fn log2(power: f64) -> u8 {
    (power as u64).max(1).ilog2() as u8
}

/// The [`Load`] of these values; `frames` are those of the capture they name.
///
/// # Errors
/// Traffic that this machine cannot send, with the frame where it is one.
pub fn load(v: &Values, setup: &Setup, frames: Option<&Arc<Frames>>) -> Result<Load, String> {
    let load = if v.word("traffic.kind") == "pcap" { replay(v, setup, frames)? } else { pktgen(v, setup)? };
    let guard = if setup.guard == Guard::Byte { 5 } else { 1 };
    let needs = super::memory_size(setup, &load) as u64 * guard;
    if needs > MAX_MEMORY {
        return Err(format!(
            "{} GiB of simulated memory would be needed, and {} are the most; take fewer cores (`run.cores`), a shorter queue \
             (`driver.queue`), smaller packets (`traffic.size`) or `run.guard=page`",
            needs >> 30,
            MAX_MEMORY >> 30
        ));
    }
    Ok(load)
}

fn pktgen(v: &Values, setup: &Setup) -> Result<Load, String> {
    let size = v.number("traffic.size") as u32;
    if size > setup.nic.max_frame {
        return Err(format!(
            "`traffic.size` is {size} B, but the device sends {} at the most (`nic.max_frame`)",
            setup.nic.max_frame
        ));
    }
    Ok(Load::Pktgen {
        size,
        burst: v.number("traffic.burst") as u32,
        rate: v.number_or_word("traffic.rate").map(|mpps| mpps * 1e6),
        packets: v.number("traffic.packets") as u64,
        checksum: v.is_on("traffic.checksum"),
    })
}

fn replay(v: &Values, setup: &Setup, frames: Option<&Arc<Frames>>) -> Result<Load, String> {
    let Some(frames) = frames.filter(|f| !f.is_empty()) else {
        return Err("the traffic is a capture, but none is given: --pcap FILE, or `traffic.file`".to_owned());
    };
    let file = v.text("traffic.file");
    let options = ReplayOptions {
        own_times: v.word("traffic.times") == "own",
        rounds: v.number("traffic.rounds") as u32,
        burst: v.number("traffic.burst") as u32,
        checksum_offload: v.word("traffic.offload") == "csum",
        gso: v.number_or_word("traffic.gso").map(|mss| mss as u16),
        mtu: v.number("traffic.mtu") as u32,
    };
    if options.own_times {
        let seconds = frames.span().as_secs_f64() * f64::from(options.rounds);
        if seconds > MAX_SECONDS {
            return Err(format!(
                "{file}: at its own times it lasts {seconds:.0} s, and {MAX_SECONDS} are the most; send it with --times full"
            ));
        }
    }
    let mut scratch = Vec::new();
    for (i, (_, frame)) in frames.iter().enumerate() {
        sendable(frame, &options, &setup.nic, &mut scratch)
            .map_err(|why| format!("{file}: frame {} has {} bytes, {why}", i + 1, frame.len()))?;
    }
    Ok(Load::Replay { frames: Arc::clone(frames), options })
}

/// Whether driver and device can send a frame; if not, why, and what to do.
fn sendable(frame: &[u8], options: &ReplayOptions, nic: &Nic, scratch: &mut Vec<u8>) -> Result<(), String> {
    let mtu = options.mtu;
    if !options.is_over(frame) {
        if frame.len() > nic.max_frame as usize {
            return Err(format!("more than the device's {} (`nic.max_frame`)", nic.max_frame));
        }
        return Ok(());
    }
    let Some(size) = options.gso else {
        return Err(format!(
            "more than an MTU of {mtu} allows; --gso MSS sends it as a large send, --set traffic.mtu=N allows longer frames"
        ));
    };
    scratch.clear();
    scratch.extend_from_slice(frame);
    let gso = options.prepare(scratch).and_then(|todo| todo.gso);
    let Some(gso) = gso else {
        return Err(format!(
            "more than an MTU of {mtu} allows, and cannot be cut into segments of {size}; only whole TCP and UDP datagrams with \
             more payload than that can, no fragments"
        ));
    };
    let payload = frame.len() - usize::from(gso.header);
    let most = if nic.caps.log_max_lso == 0 { 0 } else { 1usize << nic.caps.log_max_lso };
    if payload > most {
        return Err(format!("and its payload is over the device's limit of {most} for a large send (`nic.max_lso`)"));
    }
    let segment = usize::from(gso.header) + usize::from(size);
    let header = scratch.get(12..14).map_or(14, |t| if matches!(t, [0x81, 0x00] | [0x88, 0xa8]) { 18 } else { 14 });
    if segment > mtu as usize + header {
        return Err(format!(
            "and segments of {size} (--gso) make frames of {segment}, more than an MTU of {mtu} allows"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlx5::{Unwatched, run};
    use crate::{Plan, Profile, Scenario};
    use doorbell_seam::Span;

    fn plan(sets: &[&str]) -> Plan {
        let mut plan = Scenario::load("mlx5-pktgen-64").unwrap().plan().unwrap();
        for s in sets {
            plan.set(s).unwrap_or_else(|e| panic!("{e}"));
        }
        plan
    }

    fn refused(sets: &[&str], frames: &[&[u8]]) -> String {
        let plan = plan(sets);
        let mut all = Frames::default();
        frames.iter().for_each(|f| all.push(Span::ZERO, f));
        let setup = match setup(&plan.values) {
            Ok(setup) => setup,
            Err(e) => return e,
        };
        load(&plan.values, &setup, Some(&Arc::new(all))).unwrap_err()
    }

    #[test]
    fn the_profile_is_the_machine_of_the_published_figures() {
        let s = setup(&plan(&["pcie.usable_share=1"]).values).unwrap();
        assert_eq!(s.pcie, Settings::link(2, 16), "but for the share of it that is usable");
        assert_eq!(s.nic, Nic::CONNECTX);
        assert_eq!(s.driver, DriverConfig::DEFAULT);
        assert_eq!(s.cores, 24);
        assert_eq!((s.latencies.link, s.latencies.memory), (Span::from_ns(150), Span::from_ns(250)));
        assert_eq!(s.costs.work[WorkKind::Stack as usize].each, Span::from_ns(48), "120 cycles at 2.5 GHz");
        assert_eq!(s.costs.work[WorkKind::TxDone as usize].per_unit, Span::from_ps(800));
        assert_eq!(s.costs.mmio_write_spacing, Span::from_ns(50));
    }

    /// A key that is declared and not read would be a knob that turns nothing.
    #[test]
    fn every_key_but_a_few_changes_the_setup_or_the_load() {
        let mut base = plan(&["cpu.cores=8", "run.cores=4", "pcie.usable_share=0.5"]);
        let frame = [0u8; 60];
        let mut frames = Frames::default();
        frames.push(Span::ZERO, &frame);
        let frames = Arc::new(frames);
        let fingerprint = |plan: &Plan| {
            let s = setup(&plan.values).unwrap();
            let l = load(&plan.values, &s, Some(&frames)).unwrap();
            format!("{s:?} {l:?}")
        };
        for kind in ["pktgen", "pcap"] {
            base.set(&format!("traffic.kind={kind}")).unwrap();
            let before = fingerprint(&base);
            for key in base.values.keys() {
                let about_kind = key.about.split(':').next().unwrap_or("");
                let silent = match key.name {
                    // Bounds of others, and names.
                    "cpu.cores" | "traffic.file" | "run.seed" => true,
                    "run.cores" => kind == "pcap",
                    _ => ["pktgen", "pcap"].contains(&about_kind) && about_kind != kind,
                };
                let mut moved = base.clone();
                match base.values.get(key.name) {
                    crate::key::Value::Number(n) => {
                        // A tenth: a price by the byte is kept in whole picoseconds.
                        let n = match key.nudge(*n) {
                            crate::figures::Nudge::Rel(share) => n * (1.0 + 10.0 * share),
                            by => by.apply(*n),
                        };
                        moved.set(&format!("{}={n}", key.name)).unwrap();
                    }
                    crate::key::Value::Word(w) => match key.words.iter().find(|other| *other != w) {
                        Some(other) => moved.set(&format!("{}={other}", key.name)).unwrap(),
                        None => moved.set(&format!("{}=1000", key.name)).unwrap_or_else(|e| panic!("{e}")),
                    },
                    crate::key::Value::Text(_) => continue,
                }
                assert_eq!(fingerprint(&moved) == before, silent, "{kind}: {}", key.name);
            }
        }
    }

    #[test]
    fn constants_reach_the_setup() {
        let profile = Profile::load("mlx5-gen2").unwrap();
        let mut constants = crate::figures::Constants::new(profile.constants());
        constants.set("pcie.usable_share", 0.25).unwrap();
        let mut plan = plan(&[]);
        plan.values.apply(&constants);
        assert_eq!(setup(&plan.values).unwrap().pcie.usable_ppm, 250_000);
    }

    #[test]
    fn values_that_do_not_go_together_are_refused() {
        insta::assert_snapshot!(refused(&["run.cores=48"], &[]), @"`run.cores` is 48, but the platform has 24 (`cpu.cores`)");
        insta::assert_snapshot!(refused(&["traffic.size=10000"], &[]), @"`traffic.size` is 10000 B, but the device sends 9974 at the most (`nic.max_frame`)");
        insta::assert_snapshot!(refused(&["traffic.size=9000", "driver.queue=8192", "driver.cq=8192", "cpu.cores=252"], &[]), @"126 GiB of simulated memory would be needed, and 16 are the most; take fewer cores (`run.cores`), a shorter queue (`driver.queue`), smaller packets (`traffic.size`) or `run.guard=page`");
        insta::assert_snapshot!(refused(&["traffic.kind=pcap"], &[]), @"the traffic is a capture, but none is given: --pcap FILE, or `traffic.file`");
        let long = ["traffic.kind=pcap", "traffic.file=a.pcap"];
        insta::assert_snapshot!(refused(&long, &[&[0; 60], &[0; 1515]]), @"a.pcap: frame 2 has 1515 bytes, more than an MTU of 1500 allows; --gso MSS sends it as a large send, --set traffic.mtu=N allows longer frames");
        insta::assert_snapshot!(refused(&["traffic.kind=pcap", "traffic.file=a.pcap", "traffic.gso=1448"], &[&[0; 1515]]), @"a.pcap: frame 1 has 1515 bytes, more than an MTU of 1500 allows, and cannot be cut into segments of 1448; only whole TCP and UDP datagrams with more payload than that can, no fragments");
        insta::assert_snapshot!(refused(&["traffic.kind=pcap", "traffic.file=a.pcap", "traffic.mtu=60000"], &[&[0; 9975]]), @"a.pcap: frame 1 has 9975 bytes, more than the device's 9974 (`nic.max_frame`)");
    }

    #[test]
    fn a_run_of_the_published_case_is_sound() {
        let plan = plan(&["traffic.packets=24000"]);
        let s = setup(&plan.values).unwrap();
        let l = load(&plan.values, &s, None).unwrap();
        let o = run(&s, &l, &mut Unwatched).unwrap();
        assert_eq!((o.packets, o.audit.as_slice()), (24_000, [].as_slice()));
        assert!((0.5..0.7).contains(&o.link_share.0), "{:?}", o.link_share);
    }
}
