#!/usr/bin/env python3
"""Adds a served AXI Ethernet to a device tree of QEMU's `virt` machine.

axi_tree.py ADDRESS [SLOT] < virt.dtb > with-nic.dtb

virt.dtb is what `qemu-system-aarch64 -M virt,gic-version=3,dumpdtb=virt.dtb` with the options of
your guest writes (the tree is theirs, and another with another number of CPUs). ADDRESS is the
station's. SLOT is where the device is on pcie.0: `"addr":"08.0"` is 8, and so it is here if nothing
is said.

The PCI function is one that Linux's rp1_pci binds. It needs a node of its own, whose children it
instantiates: the Ethernet core and its PHY, and the DMA engine. """

import sys

from fdt import Node, cells, read, text, write

# The kernel gives the first BAR of 2 MiB the start of the window; each next one what follows.
WINDOW, BAR = 0x10000000, 2 << 20


def add(root, mac, slot=8, number=0):
    """The node of the `number`th such device."""
    pcie = root.find("pci-host-ecam-generic")
    base = root.phandle() + 1
    rp1, dma, clock, phy = range(base, base + 4)
    bar = WINDOW + number * BAR
    handle = lambda n: {"phandle": cells(n)}
    root.nodes[f"axi-clock-{number}"] = Node(
        # The rate of which a unit of the delay is 1 us.
        {
            "compatible": text("fixed-clock"),
            "#clock-cells": cells(0),
            "clock-frequency": cells(125_000_000),
            **handle(clock),
        }
    )
    ethernet = Node(
        {
            "compatible": text("xlnx,axi-ethernet-1.00.a"),
            "reg": cells(0, 0x40000),
            "axistream-connected": cells(dma),
            # Lines of the bridge, each a level: the MAC's.
            "interrupts": cells(2, 4),
            "clocks": cells(clock),
            "clock-names": text("s_axi_lite_clk"),
            "phy-mode": text("rgmii-id"),
            "phy-handle": cells(phy),
            "local-mac-address": bytes.fromhex(mac.replace(":", "")),
            # As our cores were built: memory for jumbo frames, partial checksums both ways.
            "xlnx,rxmem": cells(0x8000),
            "xlnx,txcsum": cells(1),
            "xlnx,rxcsum": cells(1),
        },
        {
            "mdio": Node(
                {"#address-cells": cells(1), "#size-cells": cells(0)},
                {
                    "ethernet-phy@1": Node(
                        {
                            "compatible": text("ethernet-phy-ieee802.3-c22"),
                            "reg": cells(1),
                            **handle(phy),
                        }
                    )
                },
            )
        },
    )
    engine = Node(
        {
            "compatible": text("xlnx,eth-dma"),
            "reg": cells(0x40000, 0x1000),
            # Transmit, receive.
            "interrupts": cells(0, 4, 1, 4),
            "#dma-cells": cells(1),
            **handle(dma),
        }
    )
    bus = Node(
        {
            "compatible": text("simple-bus"),
            "#address-cells": cells(1),
            "#size-cells": cells(1),
            "interrupt-parent": cells(rp1),
            "ranges": cells(0, 1, 0, 0, BAR),
        },
        {"ethernet@0": ethernet, "dma@40000": engine},
    )
    pcie.nodes[f"nic@{slot:x},0"] = Node(
        {
            "compatible": text("pci1de4,1"),
            "reg": cells(slot << 11, 0, 0, 0, 0),
            "#address-cells": cells(3),
            "#size-cells": cells(2),
            "interrupt-controller": b"",
            "#interrupt-cells": cells(2),
            "ranges": cells(1, 0, 0, 0x02000000, 0, bar, 0, BAR),
            **handle(rp1),
        },
        {"bus@1": bus},
    )


if __name__ == "__main__":
    tree = read(sys.stdin.buffer.read())
    add(tree, sys.argv[1], int(sys.argv[2], 0) if len(sys.argv) > 2 else 8)
    sys.stdout.buffer.write(write(tree))
