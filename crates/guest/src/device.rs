//! Devices that a guest can have: those that `doorbell serve` has, QEMU's own, and models that
//! others serve over vfio-user.

use crate::Error;
use crate::arch::Arch;
use std::path::Path;

/// A device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Device {
    /// Its name on the command line.
    pub name: &'static str,
    /// The architecture of the guest.
    pub arch: Arch,
    /// The kernel module of its driver.
    pub driver: &'static str,
    /// Modules that do the driver's work with it, or that it needs, and that it may not name.
    pub(crate) beside: &'static [&'static str],
    pub(crate) reached: Reached,
}

/// The way from the guest to a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reached {
    /// A PCI function behind vfio-user, in a PCI Express slot or on the root bus.
    VfioUser { slot: bool },
    /// A device tree node behind a PCI function that vfio-user serves.
    DeviceTree,
    /// Hypervisor calls, at this unit address, with this device of the plug-in.
    Calls { unit: u32, device: &'static str },
    /// A model of QEMU's.
    Qemu { model: &'static str },
    /// A model that somebody serves over vfio-user, at this socket.
    Socket { path: &'static str },
}

/// Models of QEMU's on conventional PCI, which has no place behind a root port.
pub(crate) const CONVENTIONAL: [&str; 10] = [
    "e1000",
    "e1000-82544gc",
    "e1000-82545em",
    "i82550",
    "i82557b",
    "i82559er",
    "ne2k_pci",
    "pcnet",
    "rtl8139",
    "tulip",
];

const E1000: Device = Device {
    name: "e1000",
    arch: Arch::X86_64,
    driver: "e1000",
    beside: &[],
    reached: Reached::VfioUser { slot: false },
};

const fn qemu(
    name: &'static str,
    model: &'static str,
    driver: &'static str,
    beside: &'static [&'static str],
) -> Device {
    Device { name, arch: Arch::X86_64, driver, beside, reached: Reached::Qemu { model } }
}

/// All devices.
pub const DEVICES: [Device; 12] = [
    E1000,
    Device { name: "e1000-82544gc", ..E1000 },
    Device { name: "e1000-82545em", ..E1000 },
    Device {
        name: "e1000-82574l",
        driver: "e1000e",
        reached: Reached::VfioUser { slot: true },
        ..E1000
    },
    Device {
        name: "mlx5",
        driver: "mlx5_core",
        reached: Reached::VfioUser { slot: true },
        ..E1000
    },
    Device {
        name: "axi-ethernet",
        arch: Arch::Arm64,
        driver: "xilinx_emac",
        beside: &["rp1_pci", "xilinx_dma"],
        reached: Reached::DeviceTree,
    },
    Device {
        name: "vnic",
        arch: Arch::Ppc64,
        driver: "ibmvnic",
        beside: &[],
        reached: Reached::Calls { unit: 0x3000_0003, device: "doorbell-vnic" },
    },
    Device {
        name: "veth",
        arch: Arch::Ppc64,
        driver: "ibmveth",
        beside: &[],
        reached: Reached::Calls { unit: 0x3000_0002, device: "doorbell-veth" },
    },
    qemu("qemu:e1000", "e1000", "e1000", &[]),
    qemu("qemu:e1000e", "e1000e", "e1000e", &[]),
    qemu("qemu:igb", "igb", "igb", &[]),
    qemu("qemu:virtio-net-pci", "virtio-net-pci", "virtio_net", &["virtio_ring", "virtio_pci"]),
];

impl Device {
    /// Finds one of [`DEVICES`].
    pub fn find(name: &str) -> Option<Device> {
        DEVICES.into_iter().find(|d| d.name == name)
    }

    /// Finds a device by its name: one of [`DEVICES`], `qemu:MODEL` for any model of QEMU's, or
    /// `vfio-user:PATH` for a model that somebody serves. `own` says that `doorbell serve` of this
    /// program has it, in a slot of PCI Express or not. `driver` is its kernel module, which those
    /// beside [`DEVICES`] need.
    ///
    /// # Errors
    /// There is no such device, or it has no driver.
    pub fn named(name: &str, own: Option<bool>, driver: Option<&str>) -> Result<Device, Error> {
        // A device is copied everywhere, and a command has one.
        let kept = |text: &str| -> &'static str { text.to_owned().leak() };
        if let (Some(device), None) = (Device::find(name), own) {
            let driver = driver.map_or(device.driver, kept);
            return Ok(Device { driver, ..device });
        }
        let reached = if let Some(slot) = own {
            Reached::VfioUser { slot }
        } else if let Some(model) = name.strip_prefix("qemu:") {
            Reached::Qemu { model: kept(model) }
        } else if let Some(path) = name.strip_prefix("vfio-user:") {
            Reached::Socket { path: kept(path) }
        } else {
            let names: Vec<&str> = DEVICES.iter().map(|d| d.name).collect();
            return Err(Error::Input(format!(
                "no device is called `{name}`; there are: {}, qemu:MODEL and vfio-user:PATH",
                names.join(", ")
            )));
        };
        let driver = driver.ok_or_else(|| {
            Error::Input(format!("{name} needs --driver NAME: the kernel module of its driver"))
        })?;
        Ok(Device { name: kept(name), driver: kept(driver), reached, ..E1000 })
    }

    /// Returns true if `doorbell serve` has it, so that there is a ledger.
    pub fn is_served(&self) -> bool {
        !matches!(self.reached, Reached::Qemu { .. } | Reached::Socket { .. })
    }

    /// Returns true if its wire is a TAP of this machine.
    pub(crate) fn has_wire(&self) -> bool {
        matches!(self.reached, Reached::Qemu { .. })
    }

    /// Returns the socket of somebody else's server.
    pub(crate) fn socket(&self) -> Option<&'static Path> {
        match self.reached {
            Reached::Socket { path } => Some(Path::new(path)),
            _ => None,
        }
    }
}
