//! Adds a served AXI Ethernet to a device tree of QEMU's `virt` machine.
//!
//! `axi_tree ADDRESS [SLOT] < virt.dtb > nic.dtb`: ADDRESS is the station's, SLOT the place of the
//! device on `pcie.0`, 8 if nothing is said (`"addr":"08.0"`).

use std::error::Error;
use std::io::{Read, Write, stdin, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().ok_or("usage: axi_tree ADDRESS [SLOT] < virt.dtb > nic.dtb")?;
    let bytes: Result<Vec<u8>, _> = address.split(':').map(|b| u8::from_str_radix(b, 16)).collect();
    let mac = bytes?.try_into().map_err(|_| format!("{address}: an address has six bytes"))?;
    let slot = words.next().map_or(Ok(8), |s| s.parse())?;
    let mut tree = Vec::new();
    stdin().read_to_end(&mut tree)?;
    stdout().write_all(&doorbell_guest::with_axi_ethernet(&tree, mac, slot)?)?;
    Ok(())
}
