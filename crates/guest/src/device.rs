//! Devices that a guest can have: those that `doorbell serve` has, and QEMU's own NICs.

use crate::arch::Arch;

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
}

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
pub const DEVICES: [Device; 11] = [
    E1000,
    Device { name: "e1000-82544gc", ..E1000 },
    Device { name: "e1000-82545em", ..E1000 },
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
    /// Finds a device by its name.
    pub fn find(name: &str) -> Option<Device> {
        DEVICES.into_iter().find(|d| d.name == name)
    }

    /// Returns true if `doorbell serve` has it, so that there is a ledger.
    pub fn is_served(&self) -> bool {
        !matches!(self.reached, Reached::Qemu { .. })
    }
}
