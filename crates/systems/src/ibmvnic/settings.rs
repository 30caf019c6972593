//! Reads the inputs of an ibmvnic run from the values of its keys.

use super::{Load, Setup};
use crate::arrivals;
use crate::host::{HostConfig, MAX_MEMORY, cycles, span};
use crate::key::{Is, Key, Needs, Values};
use crate::papr::Papr;
use crate::settings::{settings, take, words};
use crate::system::StackKeys;
use crate::{SettingError, refuse};
use doorbell_bus::Each;
use doorbell_devices::vnic::{self as device, Serial};
use doorbell_drivers::ibmvnic::{Config as DriverConfig, Direct, Replenish};
use doorbell_hal::Span;
use doorbell_layout::ibmvnic::{CALLS, MAX_ENTRIES, MAX_INDIRECT, hcall};
use doorbell_packet::ethernet::HEADER;
use doorbell_sim::traffic::{Frames, flow_headers};
use std::sync::Arc;

const ASKED: &[Needs] = &[Needs::kind(&["transactions"])];
const BULK: &[Needs] = &[Needs::kind(&["bulk"])];
const CARRIED: &[Needs] = &[Needs::kind(&["transactions", "bulk"])];
const TIMED: &[Needs] = &[Needs::kind(&["transactions", "bulk", arrivals::KIND])];
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
        "a transaction or a write in application and TCP, without copying",
    ),
    Key::cycles("cpu.stack", "one packet passed to the driver: qdisc and the path to it"),
    Key::number("cpu.copy", "cycles/B", 0.0, 1e3, "one byte copied by application or driver"),
    Key::number("cpu.sum", "cycles/B", 0.0, 1e3, "one byte summed by the driver"),
    Key::cycles("cpu.tx_descriptor", "descriptors for one packet, without the price of each"),
    Key::number(
        "cpu.tx_descriptor_entry",
        "cycles/entry",
        0.0,
        1e6,
        "each descriptor, header descriptors included",
    ),
    Key::cycles("cpu.tx_notify", "a send, without the call itself"),
    Key::cycles("cpu.tx_done", "completed packets found, without the price of each"),
    Key::number("cpu.tx_done_packet", "cycles/packet", 0.0, 1e6, "each completed packet"),
    Key::cycles("cpu.completion", "a completion entry examined"),
    Key::cycles("cpu.rx_post", "a receive buffer put in an array"),
    Key::cycles("cpu.rx_packet", "a received packet prepared and passed up, without the copy"),
    Key::cycles(
        "cpu.interrupt",
        "an interrupt: handler and path to the poll routine, without calls",
    ),
    Key::cycles("cpu.poll", "a poll routine entered"),
    Key::cycles("cpu.wake", "a stopped queue started again"),
    Key::cycles("cpu.fence", "a fence"),
    Key::number("cpu.relax", "cycles", 1.0, 1e6, "one iteration of a polling loop"),
    Key::number(
        "host.together",
        "%",
        0.0,
        90.0,
        "responses that find their queue's lock taken and are sent `traffic.burst` at a time",
    )
    .when(ASKED),
];

/// Prices of the calls in the caller's time, beside that of any call.
pub(super) static CALL_KEYS: [Key; 4] = [
    Key::ns(
        "hcall.send_sub_crq",
        "caller's time of a direct send, in addition to `hypervisor.call`",
    ),
    Key::ns("hcall.send_sub_crq_indirect", "caller's time of an array, without its descriptors"),
    Key::ns("hcall.indirect_descriptor", "caller's time of each descriptor of an array"),
    Key::ns("hcall.vioctl", "caller's time to enable or disable an interrupt"),
];

settings! {
    /// Serial work of hypervisor and server, behind the calls.
    pub(super) struct SerialKeys {
        /// serial time of a direct send, after the call
        direct: Span = "serial.direct", ns();
        /// serial time of an array of packets or receive buffers
        indirect: Span = "serial.indirect", ns();
        /// serial time of each descriptor
        descriptor: Span = "serial.descriptor", number("ns", 0.0, 1e5);
        /// serial time of each byte in header descriptors
        header_byte: Span = "serial.header_byte", number("ns", 0.0, 1e4);
        /// serial time of each received frame
        receive: Span = "serial.receive", ns();
    }
}

settings! {
    /// The server and the link.
    pub(super) struct NicKeys {
        /// packets whose headers the server requests: large ones and those with a checksum to
        /// compute; none; all
        headers: &'static str = "nic.headers", choice(&["checksum", "never", "always"]);
        /// the server's device requires these headers: without them the session ends
        needs_headers: bool = "nic.needs_headers", choice(&["off", "on"]);
        /// time that a completion waits for others in its message
        completion_wait: Span = "nic.completion_wait", ns();
        /// rate of the link
        rate: f64 = "link.rate", number("Gbit/s", 1.0, 400.0);
        /// delay of the network, one way
        delay: Span = "link.delay", ns();
    }
}

settings! {
    /// The traffic.
    #[derive(Copy, Default)]
    pub struct TrafficKeys {
        /// transactions that the machine serves; frames that it sends; frames at a fixed rate;
        /// frames that arrive in a pattern and are dropped where the driver hands them up
        kind: &'static str = "traffic.kind",
            choice(&["transactions", "bulk", "paced", arrivals::KIND]);
        /// transactions: number of peers, each with one request at a time
        peers: u16 = "traffic.peers", whole("peers", 1.0, 4096.0).default("512").when(ASKED);
        /// transactions: size of a request's frame without FCS
        request: u32 = "traffic.request", whole("B", 60.0, 9014.0).default("9014").when(ASKED);
        /// size of a response's frame, or of a frame in bulk
        response: u32 = "traffic.response", whole("B", 60.0, 9014.0).default("9014").when(CARRIED);
        /// size of the response to other peers, or of other frames in bulk
        other: u32 = "traffic.other", whole("B", 60.0, 9014.0).default("9014").when(MIXED);
        /// share of these other peers or frames
        other_share: f64 = "traffic.other_share", number("%", 0.0, 100.0).default("0").when(SHARED);
        /// use 16 sizes instead, spread evenly from `traffic.response` to `traffic.other`
        spread: bool = "traffic.spread", choice(&["off", "on"]).when(CARRIED);
        /// number of responses that are sent together (`host.together`)
        burst: usize = "traffic.burst", whole("packets", 1.0, 64.0).default("4").when(ASKED);
        /// bulk: frames in flight for each queue
        window: u32 = "traffic.window", whole("packets", 16.0, 4096.0).default("64").when(BULK);
        /// time before the measurement
        warmup: Span = "traffic.warmup", number("ms", 0.0, 1e5).default("3").when(TIMED);
        /// time that is measured
        duration: Span = "traffic.duration", number("ms", 0.1, 1e5).default("12").when(TIMED);
    }
}

settings! {
    pub(super) struct DriverKeys {
        /// the switch: condition under which a single packet is sent by H_SEND_SUB_CRQ
        direct: Direct = "driver.direct",
            choice(&["inspect", "never", "ignore_headers", "software_checksum", "adaptive"]);
        /// number of queue pairs, each with a core
        queues: u64 = "driver.queues", whole("queues", 1.0, 16.0).default("16");
        /// size of a transmit queue
        tx_entries: u64 = "driver.tx_entries", whole("descriptors", 16.0, 1024.0).default("256");
        /// size of a receive queue
        rx_entries: u64 = "driver.rx_entries", whole("descriptors", 16.0, 4096.0).default("256");
        /// when receive buffers are added: all missing ones below half of the pool (Linux since
        /// 6.12); also at each poll with budget left (before); sixteen at a time
        replenish: Replenish = "driver.replenish",
            choice(&["below_half", "each_poll", "whole_arrays"]);
        /// longest IP packet
        mtu: u32 = "driver.mtu", whole("B", 576.0, 9000.0).default("9000");
        /// the server computes checksums
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
    let mut papr = Papr::of(v, &CALLS);
    if let Some(array) = papr.price_mut(hcall::SEND_SUB_CRQ_INDIRECT) {
        let price = span(v, "hcall.indirect_descriptor");
        array.each = Each { argument: INDIRECT_COUNT, most: MAX_INDIRECT, price };
    }
    Setup {
        host: HostConfig::of(v, Span::from_ms(5_000)),
        application: cycles(v, "cpu.application"),
        papr,
        nic,
        driver,
    }
}

/// The argument of an indirect send that counts descriptors.
const INDIRECT_COUNT: usize = 3;

/// Reads frames that arrive from `v`. `frames` are those of the capture that it names.
///
/// # Errors
/// A frame is too long.
pub(crate) fn arriving(
    v: &Values,
    setup: &Setup,
    frames: Option<&Arc<Frames>>,
) -> Result<arrivals::Load, SettingError> {
    let (d, mbit_per_s) = (&setup.driver, setup.host.link_rate as f64 / 1e6);
    let longest = (d.mtu + HEADER as u32, "driver.mtu");
    let mut load = arrivals::Load::of(v, longest, mbit_per_s, frames)?;
    if v.number_or_word("traffic.flows").is_none() {
        let queues = d.queues as usize;
        let comes_to = |flow| device::queue_of(&flow_headers(flow), queues);
        load.flows = arrivals::flow_on_each(queues, comes_to);
    }
    let advice = "fewer queues (`driver.queues`), entries (`driver.rx_entries`)";
    setup.host.fits(super::memory_of_arrivals(setup), MAX_MEMORY, advice)?;
    Ok(load)
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
