//! Reads the inputs of an ibmvnic run from the values of its keys.

use super::{CALLS, Load, Setup};
use crate::config::host::{HostConfig, MAX_MEMORY, cycles};
use crate::config::key::{Is, Key, Needs, Values, settings, take, words};
use crate::config::{SettingError, refuse};
use crate::experiment::papr::Papr;
use crate::experiment::system::StackKeys;
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

words! {
    Direct {
        "never" => Self::Never, "inspect" => Self::Inspect, "ignore_headers" => Self::IgnoreHeaders,
        "software_checksum" => Self::SoftwareChecksum, "adaptive" => Self::Adaptive,
    }
    Replenish {
        "below_half" => Self::BelowHalf, "each_poll" => Self::EachPoll,
        "whole_arrays" => Self::WholeArrays,
    }
}

/// The keys of a profile's CPU and of its application.
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

/// Prices of the calls in the caller's time, beside that of any call.
pub(super) static CALL_KEYS: [Key; 4] = [
    Key::ns("hcall.send_sub_crq", "a direct send, besides `hypervisor.call`: its caller's time"),
    Key::ns(
        "hcall.send_sub_crq_indirect",
        "an array sent, besides its descriptors: its caller's time",
    ),
    Key::ns("hcall.indirect_descriptor", "each descriptor of an array: its caller's time"),
    Key::ns("hcall.vioctl", "an interrupt switched on or off: its caller's time"),
];

settings! {
    /// Serial work of hypervisor and server, behind the calls.
    pub(super) struct SerialKeys {
        /// behind the calls, one after another: a direct send
        direct: Span = "serial.direct", ns();
        /// an array, of packets or receive buffers
        indirect: Span = "serial.indirect", ns();
        /// each descriptor
        descriptor: Span = "serial.descriptor", number("ns", 0.0, 1e5);
        /// each byte in header descriptors
        header_byte: Span = "serial.header_byte", number("ns", 0.0, 1e4);
        /// each frame received
        receive: Span = "serial.receive", ns();
    }
}

settings! {
    /// The server and the link.
    pub(super) struct NicKeys {
        /// packets whose headers the server asks for: those with a checksum to make and large ones;
        /// none; all
        headers: &'static str = "nic.headers", choice(&["checksum", "never", "always"]);
        /// whether the server's device means it: without them the session ends
        needs_headers: bool = "nic.needs_headers", choice(&["off", "on"]);
        /// for how long a completion waits for others in its message
        completion_wait: Span = "nic.completion_wait", ns();
        /// of the link
        rate: f64 = "link.rate", number("Gbit/s", 1.0, 400.0);
        /// of the network, one way
        delay: Span = "link.delay", ns();
    }
}

settings! {
    /// The traffic.
    #[derive(Copy)]
    pub struct TrafficKeys {
        /// transactions that the machine serves; frames that it sends; frames at a pace
        kind: &'static str = "traffic.kind", choice(&["transactions", "bulk", "paced"]);
        /// transactions: peers that ask, one request each at a time
        peers: u16 = "traffic.peers", whole("peers", 1.0, 4096.0).default("512").when(ASKED);
        /// transactions: a request's frame without FCS
        request: u32 = "traffic.request", whole("B", 60.0, 9014.0).default("9014").when(ASKED);
        /// a response's frame, or one in bulk
        response: u32 = "traffic.response", whole("B", 60.0, 9014.0).default("9014").when(CARRIED);
        /// the same of other peers, or of other frames in bulk
        other: u32 = "traffic.other", whole("B", 60.0, 9014.0).default("9014").when(MIXED);
        /// how many those are
        other_share: f64 = "traffic.other_share", number("%", 0.0, 100.0).default("0").when(SHARED);
        /// sizes spread evenly from the one to the other instead, 16 of them
        spread: bool = "traffic.spread", choice(&["off", "on"]).when(CARRIED);
        /// responses that go out together where they do
        burst: usize = "traffic.burst", whole("packets", 1.0, 64.0).default("4").when(ASKED);
        /// bulk: frames under way for each queue
        window: u32 = "traffic.window", whole("packets", 16.0, 4096.0).default("64").when(BULK);
        /// before anything is counted
        warmup: Span = "traffic.warmup", number("ms", 0.0, 1e5).default("3").when(CARRIED);
        /// how long is counted
        duration: Span = "traffic.duration", number("ms", 0.1, 1e5).default("12").when(CARRIED);
    }
}

settings! {
    /// Settings of the driver.
    pub(super) struct DriverKeys {
        /// the switch: when a lone packet goes by H_SEND_SUB_CRQ
        direct: Direct = "driver.direct",
            choice(&["inspect", "never", "ignore_headers", "software_checksum", "adaptive"]);
        /// queue pairs, each with a core
        queues: u64 = "driver.queues", whole("queues", 1.0, 16.0).default("16");
        /// of a transmit queue
        tx_entries: u64 = "driver.tx_entries", whole("descriptors", 16.0, 1024.0).default("256");
        /// of a receive queue
        rx_entries: u64 = "driver.rx_entries", whole("descriptors", 16.0, 4096.0).default("256");
        /// when buffers are given: below half of the pool, all that are missing (Linux since 6.12);
        /// at each poll that had budget left, too (before); sixteen at a time
        replenish: Replenish = "driver.replenish",
            choice(&["below_half", "each_poll", "whole_arrays"]);
        /// longest IP packet
        mtu: u32 = "driver.mtu", whole("B", 576.0, 9000.0).default("9000");
        /// checksums are left to the server
        checksum: bool = "driver.checksum", choice(&["on", "off"]).default("on");
    }
}

/// Reads the [`Setup`] from `v`.
pub fn setup(v: &Values) -> Setup {
    let (n, d) = (NicKeys::of(v), DriverKeys::of(v));
    let headers = match n.headers {
        "never" => [0; 8],
        "always" => [0xf0, 0, 0xf0, 0, 0xf0, 0, 0, 0],
        _ => [0, 0, 0xf0, 0, 0xf0, 0, 0, 0],
    };
    let server = device::Server {
        desc_req: headers,
        backing_needs_headers: n.needs_headers,
        // As many as Linux has room for: the driver decides how many a queue gets.
        entries: (16, MAX_ENTRIES),
        ..device::Server::POWERVM
    };
    let SerialKeys { direct, indirect, descriptor, header_byte, receive } = SerialKeys::of(v);
    let nic = device::Config {
        servers: [server; 2],
        serial: Serial { direct, indirect, descriptor, header_byte, receive },
        command: Span::from_us(5),
        completion_wait: n.completion_wait,
        wire_byte: Span::from_ps((8e3 / n.rate).round() as u64),
        ..device::Config::POWERVM
    };
    let mut driver = DriverConfig::new(nic.unit_address, nic.mac);
    (driver.crq_vector, driver.tso_buffers, driver.large_send) = (nic.crq_vector, 1, false);
    driver.bql = StackKeys::of(v).bql;
    take!(driver; d: mtu queues tx_entries rx_entries checksum direct replenish);
    Setup {
        host: HostConfig::of(v, Span::from_ms(5_000)),
        application: cycles(v, "cpu.application"),
        papr: Papr::of(v, &CALLS),
        nic,
        driver,
    }
}

/// Reads the [`Load`] from `v`.
///
/// # Errors
/// This machine cannot carry the traffic.
pub fn load(v: &Values, setup: &Setup) -> Result<Load, SettingError> {
    let t = TrafficKeys::of(v);
    let longest = setup.driver.mtu + HEADER as u32;
    // A default is not checked for a load that does not carry it.
    for (key, bytes, used) in [
        ("traffic.request", t.request, t.kind == "transactions"),
        ("traffic.response", t.response, true),
        ("traffic.other", t.other, t.other_share > 0.0 || t.spread),
    ] {
        if used && bytes > longest {
            refuse!("`{key}` is {bytes} B, but `driver.mtu` allows {longest}");
        }
    }
    let (together, seed) = (v.number("host.together") / 100.0, v.number("run.seed") as u64);
    let load = Load { traffic: t, together, seed };
    let advice = "fewer queues (`driver.queues`), peers (`traffic.peers`), entries";
    setup.host.fits(super::memory(setup, &load), MAX_MEMORY, advice)?;
    Ok(load)
}
