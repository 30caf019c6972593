//! The device tree of an arm64 guest with a served AXI Ethernet. Source: the Devicetree
//! Specification 0.4, chapter 5.
//!
//! The PCI function is one that Linux's rp1_pci binds. Its node has the children that the kernel
//! instantiates: the Ethernet core with its PHY, and the DMA engine.

use crate::{Error, Machine};
use std::collections::BTreeMap;
use std::path::Path;

/// The kernel gives the first BAR of this size the start of the window.
const WINDOW: u32 = 0x1000_0000;
const BAR: u32 = 2 << 20;

/// A node: properties and nodes below it, in their order.
#[derive(Default, Debug)]
pub(crate) struct Node {
    properties: Vec<(String, Vec<u8>)>,
    nodes: Vec<(String, Node)>,
}

impl Node {
    fn with(mut self, name: &str, value: Vec<u8>) -> Node {
        self.properties.push((name.to_owned(), value));
        self
    }

    fn below(mut self, name: &str, node: Node) -> Node {
        self.nodes.push((name.to_owned(), node));
        self
    }

    fn property(&self, name: &str) -> Option<&[u8]> {
        self.properties.iter().find(|(n, _)| n == name).map(|(_, v)| &v[..])
    }

    /// Finds the first node that is compatible with `what`.
    fn find(&mut self, what: &str) -> Option<&mut Node> {
        let says = |v: &[u8]| v.split(|b| *b == 0).any(|s| s == what.as_bytes());
        if self.property("compatible").is_some_and(says) {
            return Some(self);
        }
        self.nodes.iter_mut().find_map(|(_, n)| n.find(what))
    }

    /// Returns the highest handle in use.
    fn last_handle(&self) -> u32 {
        let own = self.property("phandle").and_then(|v| v.try_into().ok()).map(u32::from_be_bytes);
        let below = self.nodes.iter().map(|(_, n)| n.last_handle()).max();
        own.max(below).unwrap_or(0)
    }
}

fn cells(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|w| w.to_be_bytes()).collect()
}

fn string(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// Tokens of the structure block.
const BEGIN: u32 = 1;
const END: u32 = 2;
const PROPERTY: u32 = 3;
const LAST: u32 = 9;
const MAGIC: u32 = 0xd00d_feed;
const HEADER: usize = 40;

/// Reads a blob. `None` if it is not well formed.
fn read(blob: &[u8]) -> Option<Node> {
    let word = |at: usize| Some(u32::from_be_bytes(blob.get(at..at + 4)?.try_into().ok()?));
    let name_at = |at: usize| {
        let rest = blob.get(at..)?;
        Some(String::from_utf8_lossy(rest.split(|b| *b == 0).next()?).into_owned())
    };
    let (mut at, strings) = (word(8)? as usize, word(12)? as usize);
    let mut path = vec![(String::new(), Node::default())];
    loop {
        let token = word(at)?;
        at += 4;
        match token {
            BEGIN => {
                let name = name_at(at)?;
                at += (name.len() + 1).next_multiple_of(4);
                path.push((name, Node::default()));
            }
            END => {
                let (name, node) = path.pop()?;
                path.last_mut()?.1.nodes.push((name, node));
            }
            PROPERTY => {
                let (length, name) =
                    (word(at)? as usize, name_at(strings + word(at + 4)? as usize)?);
                let value = blob.get(at + 8..at + 8 + length)?.to_vec();
                path.last_mut()?.1.properties.push((name, value));
                at += 8 + length.next_multiple_of(4);
            }
            LAST => return path.pop()?.1.nodes.pop().map(|(_, root)| root),
            // No operation.
            4 => {}
            _ => return None,
        }
    }
}

/// Writes a blob, without reserved memory.
fn write(root: &Node) -> Vec<u8> {
    let (mut structure, mut strings) = (Vec::new(), Strings::default());
    put(&mut structure, &mut strings, "", root);
    structure.extend(cells(&[LAST]));
    let reserved = [0; 16];
    let at = HEADER + reserved.len();
    let strings_at = at + structure.len();
    let sizes = [strings.text.len(), structure.len()].map(|n| n as u32);
    let header = [
        MAGIC,
        strings_at as u32 + sizes[0],
        at as u32,
        strings_at as u32,
        HEADER as u32,
        // Version, and the oldest that it is compatible with.
        17,
        16,
        // The CPU that boots.
        0,
        sizes[0],
        sizes[1],
    ];
    [&cells(&header)[..], &reserved, &structure, &strings.text].concat()
}

#[derive(Default)]
struct Strings {
    text: Vec<u8>,
    at: BTreeMap<String, u32>,
}

fn put(out: &mut Vec<u8>, strings: &mut Strings, name: &str, node: &Node) {
    let padded = |mut bytes: Vec<u8>| {
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    };
    out.extend(cells(&[BEGIN]));
    out.extend(padded(string(name)));
    for (key, value) in &node.properties {
        let next = strings.text.len() as u32;
        let at = *strings.at.entry(key.clone()).or_insert_with(|| {
            strings.text.extend(string(key));
            next
        });
        out.extend(cells(&[PROPERTY, value.len() as u32, at]));
        out.extend(padded(value.clone()));
    }
    for (name, node) in &node.nodes {
        put(out, strings, name, node);
    }
    out.extend(cells(&[END]));
}

/// Returns the device tree that QEMU gives a guest with so many CPUs.
pub(crate) fn of_machine(machine: &Machine, cpus: u32, directory: &Path) -> Result<Vec<u8>, Error> {
    let file = directory.join("machine.dtb");
    let to = file.to_string_lossy().replace(',', ",,");
    let mut command = machine.emulator();
    command.args(["-machine", &format!("virt,gic-version=3,dumpdtb={to}")]);
    command.args(["-cpu", "cortex-a57", "-smp", &cpus.to_string(), "-m", "512M"]);
    // It gives the kernel random numbers, which are a seed's too.
    command.args(["-seed", "1"]);
    let done = command.args(["-display", "none"]).output().map_err(Error::io("QEMU"))?;
    std::fs::read(&file).map_err(|source| {
        let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        Error::Io { place: format!("QEMU's device tree ({said})"), source }
    })
}

/// Adds a served AXI Ethernet to a device tree of QEMU's `virt` machine, at a slot of its PCI bus.
pub fn with_axi_ethernet(blob: &[u8], mac: [u8; 6], slot: u8) -> Result<Vec<u8>, Error> {
    let wrong = || Error::Input("the device tree is not one of QEMU's virt machine".to_owned());
    let mut root = read(blob).ok_or_else(wrong)?;
    let first = root.last_handle() + 1;
    let [function, dma, clock, phy] = [first, first + 1, first + 2, first + 3];
    let node = Node::default;
    let ethernet = node()
        .with("compatible", string("xlnx,axi-ethernet-1.00.a"))
        .with("reg", cells(&[0, 0x40000]))
        .with("axistream-connected", cells(&[dma]))
        // A line of the bridge, a level.
        .with("interrupts", cells(&[2, 4]))
        .with("clocks", cells(&[clock]))
        .with("clock-names", string("s_axi_lite_clk"))
        .with("phy-mode", string("rgmii-id"))
        .with("phy-handle", cells(&[phy]))
        .with("local-mac-address", mac.to_vec())
        // As our cores are built: memory for jumbo frames, partial checksums in both directions.
        .with("xlnx,rxmem", cells(&[0x8000]))
        .with("xlnx,txcsum", cells(&[1]))
        .with("xlnx,rxcsum", cells(&[1]))
        .below(
            "mdio",
            node().with("#address-cells", cells(&[1])).with("#size-cells", cells(&[0])).below(
                "ethernet-phy@1",
                node()
                    .with("compatible", string("ethernet-phy-ieee802.3-c22"))
                    .with("reg", cells(&[1]))
                    .with("phandle", cells(&[phy])),
            ),
        );
    let engine = node()
        .with("compatible", string("xlnx,eth-dma"))
        .with("reg", cells(&[0x40000, 0x1000]))
        // Transmit, receive.
        .with("interrupts", cells(&[0, 4, 1, 4]))
        .with("#dma-cells", cells(&[1]))
        .with("phandle", cells(&[dma]));
    let bus = node()
        .with("compatible", string("simple-bus"))
        .with("#address-cells", cells(&[1]))
        .with("#size-cells", cells(&[1]))
        .with("interrupt-parent", cells(&[function]))
        .with("ranges", cells(&[0, 1, 0, 0, BAR]))
        .below("ethernet@0", ethernet)
        .below("dma@40000", engine);
    let nic = node()
        .with("compatible", string("pci1de4,1"))
        .with("reg", cells(&[u32::from(slot) << 11, 0, 0, 0, 0]))
        .with("#address-cells", cells(&[3]))
        .with("#size-cells", cells(&[2]))
        .with("interrupt-controller", Vec::new())
        .with("#interrupt-cells", cells(&[2]))
        .with("ranges", cells(&[1, 0, 0, 0x0200_0000, 0, WINDOW, 0, BAR]))
        .with("phandle", cells(&[function]))
        .below("bus@1", bus);
    let pcie = root.find("pci-host-ecam-generic").ok_or_else(wrong)?;
    pcie.nodes.push((format!("nic@{slot:x},0"), nic));
    let rate = node()
        // A unit of the delay is 1 us with this rate.
        .with("compatible", string("fixed-clock"))
        .with("#clock-cells", cells(&[0]))
        .with("clock-frequency", cells(&[125_000_000]))
        .with("phandle", cells(&[clock]));
    root.nodes.push(("axi-clock-0".to_owned(), rate));
    Ok(write(&root))
}

#[cfg(test)]
mod tests;
