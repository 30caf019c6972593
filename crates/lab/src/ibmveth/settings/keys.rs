//! The keys of an ibmveth run.

use crate::key::{Key, Needs};

const PACKETS: &[Needs] = &[Needs::kind(&["packets"])];
const MAP: &[Needs] = &[Needs::word("driver.transmit", &["map"])];

/// What a profile says of its CPU; [`crate::cpu::TCP`] has the rest.
pub(in crate::ibmveth) static CPU: [Key; 18] = [
    Key::number("cpu.frequency", "GHz", 0.01, 10.0, "clock of every core"),
    Key::cycles("cpu.stack", "one packet handed to a driver: qdisc and the way there"),
    Key::number(
        "cpu.copy",
        "cycles/B",
        0.0,
        1e3,
        "one byte copied by a driver, or by what segments and linearises",
    ),
    Key::number("cpu.sum", "cycles/B", 0.0, 1e3, "one byte summed"),
    Key::cycles("cpu.tx_descriptor", "descriptors for one packet, beside each"),
    Key::number("cpu.tx_descriptor_entry", "cycles/entry", 0.0, 1e6, "each descriptor"),
    Key::cycles("cpu.tx_notify", "the physical port told of a packet"),
    Key::cycles("cpu.tx_done", "packets found sent, beside each"),
    Key::number("cpu.tx_done_packet", "cycles/packet", 0.0, 1e6, "each packet of them"),
    Key::cycles("cpu.completion", "an entry of the receive queue looked at"),
    Key::cycles("cpu.rx_post", "a receive buffer allocated and given away, without its call"),
    Key::cycles("cpu.rx_packet", "a received packet prepared and handed up"),
    Key::cycles("cpu.interrupt", "an interrupt handler entered"),
    Key::cycles("cpu.poll", "a poll routine entered"),
    Key::cycles("cpu.map", "a buffer mapped, beside the hypervisor's calls"),
    Key::cycles("cpu.fence", "a fence"),
    Key::cycles("cpu.relax", "a turn of a polling loop"),
    Key::cycles("cpu.bridge", "a packet forwarded by the bridge, large or small"),
];

/// What a profile says of the logical LAN's calls, beside what any call costs.
pub(in crate::ibmveth) static CALLS: [Key; 7] = [
    Key::ns("hcall.send", "H_SEND_LOGICAL_LAN, without the copy"),
    Key::ns("hcall.send_serial", "its part that calls of all partitions do one after another")
        .default("0"),
    Key::ns("hcall.add_buffer", "H_ADD_LOGICAL_LAN_BUFFER"),
    Key::ns("hcall.add_buffers", "H_ADD_LOGICAL_LAN_BUFFERS: up to eight"),
    Key::ns("hcall.signal", "H_VIO_SIGNAL"),
    Key::number(
        "hypervisor.sum",
        "ns/KiB",
        0.0,
        1e5,
        "a checksum made for a receiver that has not agreed to do without",
    ),
    Key::number("hypervisor.slice", "KiB", 1.0, 1e5, "copied by one send before it answers H_BUSY")
        .or(&["unlimited"])
        .default("unlimited"),
];

/// What a profile says of the physical port and its link.
pub(in crate::ibmveth) static PORT: [Key; 8] = [
    Key::choice("port.tso", &["on", "off"], "it cuts large sends"),
    Key::choice("port.checksum", &["on", "off"], "it makes TCP checksums"),
    Key::choice("port.gro", &["on", "off"], "what comes from it is merged"),
    Key::whole("port.ring", "frames", 16.0, 8192.0, "receive ring"),
    Key::ns("port.interrupt_gap", "least time between two interrupts"),
    Key::number("link.rate", "Gbit/s", 0.1, 400.0, "of the port"),
    Key::ns("network.gro", "hosts on the network merge what comes within so much; 0: not at all")
        .default("0"),
    Key::ns("link.delay", "of the cable and what is behind it, one way").default("5000"),
];

/// What is sent or received.
pub(in crate::ibmveth) static TRAFFIC: [Key; 5] = [
    Key::choice(
        "traffic.kind",
        &["send", "receive", "transactions", "packets", "paced"],
        "TCP in bulk from or to the client; TCP transactions that it serves; single large sends from server to client; \
         frames at a pace, the client alone behind the switch",
    ),
    Key::whole("traffic.size", "B", 1.0, 65_481.0, "packets: payload of a large send").default("65160").when(PACKETS),
    Key::whole("traffic.pieces", "pieces", 1.0, 64.0, "packets: pieces of that payload, of equal size").default("17").when(PACKETS),
    Key::choice(
        "traffic.form",
        &["linearise", "scatter", "segment", "copy"],
        "packets: how it leaves: copied to one buffer and mapped; up to five pieces mapped, each for itself; as segments; \
         or copied to a buffer that is mapped for good",
    )
    .default("linearise").when(PACKETS),
    Key::whole("traffic.packets", "packets", 1.0, 1e6, "packets: how many").default("100").when(PACKETS),
];

/// What a scenario says of the drivers and the firmware. Defaults are those of Linux since 4.13.
pub(in crate::ibmveth) static DRIVER: [Key; 10] = [
    Key::choice(
        "driver.trunk_offload",
        &["on", "off"],
        "the switch: the trunk adapter too may leave out checksums and send and receive large",
    ),
    Key::choice(
        "driver.fraglist",
        &["on", "off"],
        "the switch: the trunk takes large sends with a fragment list, linearised; otherwise they are segmented",
    )
    .default("on"),
    Key::choice("driver.checksum", &["on", "off"], "the client leaves TCP checksums out").default("on"),
    Key::choice(
        "driver.large_send",
        &["firmware", "old", "off"],
        "how the client's large sends go: by the firmware, the segment size in the checksum field, or segmented",
    )
    .default("firmware"),
    Key::choice(
        "driver.transmit",
        &["map", "copy"],
        "each piece mapped, up to six; or all copied to a buffer that is mapped for good",
    )
    .default("map"),
    Key::whole("driver.copybreak", "B", 0.0, 65536.0, "map: shorter linear frames are copied").default("128").when(MAP),
    Key::whole("driver.rx_copybreak", "B", 0.0, 2048.0, "received frames below it are copied out").default("128"),
    Key::choice("driver.multi_buffer", &["on", "off"], "receive buffers are lent up to eight in a call").default("off"),
    Key::whole("driver.pool_2k", "buffers", 16.0, 4096.0, "receive buffers of 2 KiB").default("512"),
    Key::whole("driver.pool_64k", "buffers", 16.0, 1024.0, "receive buffers of 64 KiB").default("256"),
];
