//! The keys of an ibmveth run.

use crate::arrivals;
use crate::ibmveth::Form;
use crate::key::{Key, Needs};
use crate::settings::settings;
use doorbell_drivers::ibmveth::LargeSend;
use doorbell_hal::Span;

const PACKETS: &[Needs] = &[Needs::kind(&["packets"])];
const MAP: &[Needs] = &[Needs::word("driver.transmit", &["map"])];

/// The CPU keys of a profile that [`crate::host::TCP`] does not have.
pub(in crate::ibmveth) static CPU: [Key; 18] = [
    Key::number("cpu.frequency", "GHz", 0.01, 10.0, "clock of every core"),
    Key::cycles("cpu.stack", "one packet passed to a driver: qdisc and the path to it"),
    Key::number(
        "cpu.copy",
        "cycles/B",
        0.0,
        1e3,
        "one byte copied by a driver, or to segment or linearise a packet",
    ),
    Key::number("cpu.sum", "cycles/B", 0.0, 1e3, "one byte summed"),
    Key::cycles("cpu.tx_descriptor", "descriptors for one packet, without the price of each"),
    Key::number("cpu.tx_descriptor_entry", "cycles/entry", 0.0, 1e6, "each descriptor"),
    Key::cycles("cpu.tx_notify", "the physical port notified of a packet"),
    Key::cycles("cpu.tx_done", "completed packets found, without the price of each"),
    Key::number("cpu.tx_done_packet", "cycles/packet", 0.0, 1e6, "each completed packet"),
    Key::cycles("cpu.completion", "an entry of the receive queue examined"),
    Key::cycles("cpu.rx_post", "a receive buffer allocated and added, without its call"),
    Key::cycles("cpu.rx_packet", "a received packet prepared and passed up"),
    Key::cycles("cpu.interrupt", "an interrupt handler entered"),
    Key::cycles("cpu.poll", "a poll routine entered"),
    Key::cycles("cpu.map", "a buffer mapped, without the hypervisor's calls"),
    Key::cycles("cpu.fence", "a fence"),
    Key::number("cpu.relax", "cycles", 1.0, 1e6, "one iteration of a polling loop"),
    Key::cycles("cpu.bridge", "a packet forwarded by the bridge, large or small"),
];

/// Prices of the calls of a logical LAN, beside that of any call.
pub(in crate::ibmveth) static PRICES: [Key; 5] = [
    Key::ns("hcall.send", "H_SEND_LOGICAL_LAN, without the copy"),
    Key::ns("hcall.send_serial", "the part of it that is serial over the calls of all partitions")
        .default("0"),
    Key::ns("hcall.add_buffer", "H_ADD_LOGICAL_LAN_BUFFER"),
    Key::ns("hcall.add_buffers", "H_ADD_LOGICAL_LAN_BUFFERS: up to eight"),
    Key::ns("hcall.vio_signal", "H_VIO_SIGNAL"),
];

settings! {
    pub(in crate::ibmveth) struct HypervisorKeys {
        /// time of a checksum made for a receiver that requires one
        sum: Span = "hypervisor.sum", number("ns/KiB", 0.0, 1e5);
        /// data that one send copies before it returns H_BUSY
        slice: Option<f64> = "hypervisor.slice",
            number("KiB", 1.0, 1e5).or(&["unlimited"]).default("unlimited");
    }
}

settings! {
    /// The physical port and its link.
    pub(in crate::ibmveth) struct PortKeys {
        /// the port segments large sends
        tso: bool = "port.tso", choice(&["on", "off"]);
        /// the port computes TCP checksums
        checksum: bool = "port.checksum", choice(&["on", "off"]);
        /// the server merges frames that arrive at the port (GRO)
        gro: bool = "port.gro", choice(&["on", "off"]);
        /// size of the receive ring
        ring: usize = "port.ring", whole("frames", 16.0, 8192.0);
        /// minimum time between two interrupts
        interrupt_gap: Span = "port.interrupt_gap", ns();
        /// rate of the port
        rate: f64 = "link.rate", number("Gbit/s", 0.1, 400.0);
        /// hosts on the network merge frames that arrive within this time; 0: they do not merge
        network_gro: Span = "network.gro", ns().default("0");
        /// delay of the cable and what is behind it, one way
        delay: Span = "link.delay", ns().default("5000");
    }
}

settings! {
    pub(in crate::ibmveth) struct TrafficKeys {
        /// TCP in bulk from or to the client; TCP transactions that it serves; single large sends
        /// from server to client; frames at a fixed rate, or frames that arrive in a pattern, with
        /// the client alone behind the switch
        kind: &'static str = "traffic.kind",
            choice(&["send", "receive", "transactions", "packets", "paced", arrivals::KIND]);
        /// packets: payload of a large send
        size: u32 = "traffic.size", whole("B", 1.0, 65_481.0).default("65160").when(PACKETS);
        /// packets: number of pieces of that payload, of equal size
        pieces: u32 = "traffic.pieces", whole("pieces", 1.0, 64.0).default("17").when(PACKETS);
        /// packets: form of a send: copied to one buffer that is mapped; up to five pieces, each
        /// mapped; as segments; or copied to a permanently mapped buffer
        form: Form = "traffic.form",
            choice(&["linearise", "scatter", "segment", "copy"]).default("linearise").when(PACKETS);
        /// packets: number of large sends
        packets: u64 = "traffic.packets", whole("packets", 1.0, 1e6).default("100").when(PACKETS);
    }
}

settings! {
    /// Settings of the drivers and the firmware. Defaults are those of Linux since 4.13.
    pub(in crate::ibmveth) struct DriverKeys {
        /// the switch: the trunk adapter, too, leaves out checksums and sends and receives large
        /// packets
        trunk_offload: bool = "driver.trunk_offload", choice(&["on", "off"]);
        /// the switch: the trunk linearises large sends with a fragment list; otherwise they are
        /// segmented
        fraglist: bool = "driver.fraglist", choice(&["on", "off"]).default("on");
        /// the client leaves TCP checksums out
        checksum: bool = "driver.checksum", choice(&["on", "off"]).default("on");
        /// large sends of the client: by the firmware, with the segment size in the checksum field,
        /// or segmented
        large_send: LargeSend = "driver.large_send",
            choice(&["firmware", "old", "off"]).default("firmware");
        /// transmit: map each piece, up to six, or copy all to a permanently mapped buffer
        transmit: &'static str = "driver.transmit", choice(&["map", "copy"]).default("map");
        /// map: shorter linear frames are copied
        copybreak: u32 = "driver.copybreak", whole("B", 0.0, 65536.0).default("128").when(MAP);
        /// received frames shorter than this are copied out of their buffers
        rx_copybreak: u32 = "driver.rx_copybreak", whole("B", 0.0, 2048.0).default("128");
        /// one call adds up to eight receive buffers
        multi_buffer: bool = "driver.multi_buffer", choice(&["on", "off"]).default("off");
        /// number of receive buffers of 2 KiB
        pool_2k: u32 = "driver.pool_2k", whole("buffers", 16.0, 4096.0).default("512");
        /// number of receive buffers of 64 KiB
        pool_64k: u32 = "driver.pool_64k", whole("buffers", 16.0, 1024.0).default("256");
    }
}
