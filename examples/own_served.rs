//! A device of one's own for a virtual machine, whose driver nobody here wrote: an 82540EM that
//! asks the bus for 64 bytes of a packet at a time.
//!
//! `own_served guest shortnic --driver e1000` boots Linux with it, and `own_served serve shortnic
//! --socket PATH` serves it to any guest of QEMU over vfio-user.

use doorbell::devices::e1000::{Config, E1000};
use doorbell::hal::Port;
use doorbell::serve::{Bar, Capability, Identity, Model, PciDevice};
use doorbell::{DOORBELL, Devices, main_serving};

struct Short;

impl Model for Short {
    const NAME: &'static str = "shortnic";
    const BUS: &'static str = "pci32";
    const BITS_PER_SECOND: u64 = 1_000_000_000;
    type Device<P: Port> = E1000;

    fn identity() -> Identity {
        Identity {
            vendor: 0x8086,
            device: 0x100e,
            subsystem: (0x8086, 0x001e),
            revision: 2,
            class: 0x02_0000,
            bars: [Bar::Memory(128 << 10), Bar::None, Bar::Io(64), Bar::None, Bar::None, Bar::None],
            line: true,
            capabilities: vec![Capability::Power { resets: true }],
            polled: None,
        }
    }

    fn device<P: Port>(mac: Option<[u8; 6]>) -> E1000 {
        let usual = Config::I82540EM;
        E1000::new(Config { mac: mac.unwrap_or(usual.mac), max_read: 64, cache_line: 64, ..usual })
    }
}

static DEVICES: [PciDevice; 1] = [PciDevice::of::<Short>()];

fn main() -> std::process::ExitCode {
    main_serving(&DOORBELL, Devices(&DEVICES))
}
