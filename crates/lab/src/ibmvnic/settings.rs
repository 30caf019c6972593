//! What an ibmvnic run is a function of, by name.

use super::{CALLS, Kind, Load, Setup};
use crate::clock::napi::Rules as Softirq;
use crate::cpu::{costs, span};
use crate::fault;
use crate::key::{Is, Key, Needs, Values};
use crate::papr::Papr;
use doorbell_bus::ProtectionGranularity;
use doorbell_devices::vnic::{self as device, Serial};
use doorbell_drivers::ibmvnic::{Config as DriverConfig, Direct, Replenish};
use doorbell_hal::Span;
use doorbell_layout::ibmvnic::MAX_ENTRIES;
use doorbell_packet::ethernet::HEADER;

const ASKED: &[Needs] = &[Needs::kind(&["transactions"])];
const BULK: &[Needs] = &[Needs::kind(&["bulk"])];
const CARRIED: &[Needs] = &[Needs::kind(&["transactions", "bulk"])];
const SHARED: &[Needs] =
    &[Needs::kind(&["transactions", "bulk"]), Needs::word("traffic.spread", &["off"])];
const MIXED: &[Needs] =
    &[Needs::new("traffic.other_share", Is::Positive).or("traffic.spread", Is::Word(&["on"]))];

/// What a profile says of its CPU and of what runs on it.
pub(super) static CPU: [Key; 19] = [
    Key::number("cpu.frequency", "GHz", 0.01, 10.0, "clock of every core"),
    Key::cycles(
        "cpu.application",
        "an application's part of a transaction or a write, and TCP's, without copying",
    ),
    Key::cycles("cpu.stack", "one packet handed to the driver: qdisc and the way there"),
    Key::number("cpu.copy", "cycles/B", 0.0, 1e3, "one byte copied by application or driver"),
    Key::number("cpu.sum", "cycles/B", 0.0, 1e3, "one byte summed by the driver"),
    Key::cycles("cpu.tx_descriptor", "descriptors for one packet, beside each"),
    Key::number(
        "cpu.tx_descriptor_entry",
        "cycles/entry",
        0.0,
        1e6,
        "each descriptor, those of headers too",
    ),
    Key::cycles("cpu.tx_notify", "a send, without the call itself"),
    Key::cycles("cpu.tx_done", "packets found sent, beside each"),
    Key::number("cpu.tx_done_packet", "cycles/packet", 0.0, 1e6, "each packet of them"),
    Key::cycles("cpu.completion", "a completion entry looked at"),
    Key::cycles("cpu.rx_post", "a receive buffer put in an array"),
    Key::cycles("cpu.rx_packet", "a received packet prepared and handed up, without the copy"),
    Key::cycles(
        "cpu.interrupt",
        "an interrupt taken, its handler and the way to the poll, without calls",
    ),
    Key::cycles("cpu.poll", "a poll routine entered"),
    Key::cycles("cpu.wake", "a stopped queue started again"),
    Key::cycles("cpu.fence", "a fence"),
    Key::cycles("cpu.relax", "a turn of a polling loop"),
    Key::number(
        "host.together",
        "%",
        0.0,
        90.0,
        "responses that find their queue's lock taken and go out `traffic.burst` at a time",
    )
    .when(ASKED),
];

/// What a profile says of calls and of what is behind them.
pub(super) static HYPERVISOR: [Key; 9] = [
    Key::ns("hcall.send_sub_crq", "a direct send, besides `hypervisor.call`: its caller's time"),
    Key::ns(
        "hcall.send_sub_crq_indirect",
        "an array sent, besides its descriptors: its caller's time",
    ),
    Key::ns("hcall.indirect_descriptor", "each descriptor of an array: its caller's time"),
    Key::ns("hcall.vioctl", "an interrupt switched on or off: its caller's time"),
    Key::ns("serial.direct", "behind the calls, one after another: a direct send"),
    Key::ns("serial.indirect", "an array, of packets or receive buffers"),
    Key::number("serial.descriptor", "ns", 0.0, 1e5, "each descriptor"),
    Key::number("serial.header_byte", "ns", 0.0, 1e4, "each byte in header descriptors"),
    Key::ns("serial.receive", "each frame received"),
];

/// What a profile says of the server and the link.
pub(super) static NIC: [Key; 5] = [
    Key::choice(
        "nic.headers",
        &["checksum", "never", "always"],
        "packets whose headers the server asks for: those with a checksum to make and large ones; none; all",
    ),
    Key::choice(
        "nic.needs_headers",
        &["off", "on"],
        "whether the server's device means it: without them the session ends",
    ),
    Key::ns("nic.completion_wait", "for how long a completion waits for others in its message"),
    Key::number("link.rate", "Gbit/s", 1.0, 400.0, "of the link"),
    Key::ns("link.delay", "of the network, one way"),
];

/// What a scenario says of traffic.
pub(super) static TRAFFIC: [Key; 11] = [
    Key::choice(
        "traffic.kind",
        &["transactions", "bulk", "paced"],
        "transactions that the machine serves; frames that it sends; frames at a pace",
    ),
    Key::whole(
        "traffic.peers",
        "peers",
        1.0,
        4096.0,
        "transactions: peers that ask, one request each at a time",
    )
    .default("512")
    .when(ASKED),
    Key::whole("traffic.request", "B", 60.0, 9014.0, "transactions: a request's frame without FCS")
        .default("9014")
        .when(ASKED),
    Key::whole("traffic.response", "B", 60.0, 9014.0, "a response's frame, or one in bulk")
        .default("9014")
        .when(CARRIED),
    Key::whole(
        "traffic.other",
        "B",
        60.0,
        9014.0,
        "the same of other peers, or of other frames in bulk",
    )
    .default("9014")
    .when(MIXED),
    Key::number("traffic.other_share", "%", 0.0, 100.0, "how many those are")
        .default("0")
        .when(SHARED),
    Key::choice(
        "traffic.spread",
        &["off", "on"],
        "sizes spread evenly from the one to the other instead, 16 of them",
    )
    .when(CARRIED),
    Key::whole(
        "traffic.burst",
        "packets",
        1.0,
        64.0,
        "responses that go out together where they do",
    )
    .default("4")
    .when(ASKED),
    Key::whole("traffic.window", "packets", 16.0, 4096.0, "bulk: frames under way for each queue")
        .default("64")
        .when(BULK),
    Key::number("traffic.warmup", "ms", 0.0, 1e5, "before anything is counted")
        .default("3")
        .when(CARRIED),
    Key::number("traffic.duration", "ms", 0.1, 1e5, "how long is counted")
        .default("12")
        .when(CARRIED),
];

/// What a scenario says of the driver.
pub(super) static DRIVER: [Key; 7] = [
    Key::choice(
        "driver.direct",
        &["inspect", "never", "ignore_headers", "software_checksum", "adaptive"],
        "the switch: when a lone packet goes by H_SEND_SUB_CRQ",
    ),
    Key::whole("driver.queues", "queues", 1.0, 16.0, "queue pairs, each with a core").default("16"),
    Key::whole("driver.tx_entries", "descriptors", 16.0, 1024.0, "of a transmit queue")
        .default("256"),
    Key::whole("driver.rx_entries", "descriptors", 16.0, 4096.0, "of a receive queue")
        .default("256"),
    Key::choice(
        "driver.replenish",
        &["below_half", "each_poll", "whole_arrays"],
        "when buffers are given: below half of the pool, all that are missing (Linux since 6.12); at each poll that had \
         budget left, too (before); sixteen at a time",
    ),
    Key::whole("driver.mtu", "B", 576.0, 9000.0, "longest IP packet").default("9000"),
    Key::choice("driver.checksum", &["on", "off"], "checksums are left to the server")
        .default("on"),
];

/// Simulated memory that a run may take, with its guard, in bytes.
const MAX_MEMORY: u64 = 3 << 30;

/// The [`Setup`] of these values.
pub fn setup(v: &Values) -> Setup {
    let whole = |key: &str| v.number(key) as u64;
    let headers = match v.word("nic.headers") {
        "never" => [0; 8],
        "always" => [0xf0, 0, 0xf0, 0, 0xf0, 0, 0, 0],
        _ => [0, 0, 0xf0, 0, 0xf0, 0, 0, 0],
    };
    let server = device::Server {
        desc_req: headers,
        backing_needs_headers: v.is_on("nic.needs_headers"),
        // As many as Linux has room for: what a queue gets is the driver's wish.
        entries: (16, MAX_ENTRIES),
        ..device::Server::POWERVM
    };
    let rate = v.number("link.rate");
    let costs = costs(v);
    let cycles =
        |key: &str| Span::from_ps((v.number(key) / v.number("cpu.frequency") * 1e3).round() as u64);
    let nic = device::Config {
        servers: [server; 2],
        serial: Serial {
            direct: span(v, "serial.direct"),
            indirect: span(v, "serial.indirect"),
            descriptor: span(v, "serial.descriptor"),
            header_byte: span(v, "serial.header_byte"),
            receive: span(v, "serial.receive"),
        },
        command: Span::from_us(5),
        completion_wait: span(v, "nic.completion_wait"),
        wire_byte: Span::from_ps((8e3 / rate).round() as u64),
        ..device::Config::POWERVM
    };
    let faults = fault::Plan::of(v, Span::from_ms(5_000));
    Setup {
        costs,
        application: cycles("cpu.application"),
        softirq: Softirq { watchdog: faults.watchdog(), ..Softirq::LINUX },
        papr: Papr::of(v, &CALLS),
        guard: if v.word("run.guard") == "byte" {
            ProtectionGranularity::Byte
        } else {
            ProtectionGranularity::Page
        },
        nic,
        driver: DriverConfig {
            crq_vector: nic.crq_vector,
            mtu: whole("driver.mtu") as u32,
            queues: whole("driver.queues"),
            tx_entries: whole("driver.tx_entries"),
            rx_entries: whole("driver.rx_entries"),
            tso_buffers: 1,
            checksum: v.is_on("driver.checksum"),
            large_send: false,
            direct: Direct::ALL
                .into_iter()
                .find(|d| d.name() == v.word("driver.direct"))
                .unwrap_or(Direct::Inspect),
            replenish: Replenish::ALL
                .into_iter()
                .find(|r| r.name() == v.word("driver.replenish"))
                .unwrap_or(Replenish::BelowHalf),
            ..DriverConfig::new(nic.unit_address, nic.mac)
        },
        link_rate: (rate * 1e9) as u64,
        link_delay: span(v, "link.delay"),
        faults,
    }
}

/// The [`Load`] of these values.
///
/// # Errors
/// Traffic that this machine cannot carry.
pub fn load(v: &Values, setup: &Setup) -> Result<Load, String> {
    let whole = |key: &str| v.number(key) as u32;
    let ms = |key: &str| Span::from_ps((v.number(key) * 1e9).round() as u64);
    let longest = setup.driver.mtu + HEADER as u32;
    for key in ["traffic.request", "traffic.response", "traffic.other"] {
        // What is the default is left alone where nothing of the kind is carried.
        let used = match key {
            "traffic.request" => v.word("traffic.kind") == "transactions",
            "traffic.other" => v.number("traffic.other_share") > 0.0 || v.is_on("traffic.spread"),
            _ => true,
        };
        if used && whole(key) > longest {
            return Err(format!("`{key}` is {} B, but `driver.mtu` allows {longest}", whole(key)));
        }
    }
    let load = Load {
        kind: if v.word("traffic.kind") == "bulk" { Kind::Bulk } else { Kind::Transactions },
        peers: whole("traffic.peers") as u16,
        request: whole("traffic.request"),
        response: whole("traffic.response"),
        other: whole("traffic.other"),
        other_share: v.number("traffic.other_share") / 100.0,
        spread: v.is_on("traffic.spread"),
        together: v.number("host.together") / 100.0,
        burst: whole("traffic.burst") as usize,
        window: whole("traffic.window"),
        warmup: ms("traffic.warmup"),
        duration: ms("traffic.duration"),
        seed: v.number("run.seed") as u64,
    };
    let guard = if setup.guard == ProtectionGranularity::Byte { 5 } else { 1 };
    let needs = super::memory(setup, &load) as u64 * guard;
    if needs > MAX_MEMORY {
        return Err(format!(
            "{} MiB of simulated memory would be needed, and {} are the most; take fewer queues (`driver.queues`), \
             peers (`traffic.peers`), entries or `run.guard=page`",
            needs >> 20,
            MAX_MEMORY >> 20
        ));
    }
    Ok(load)
}
