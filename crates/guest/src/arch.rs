//! Architectures of guests.

/// An architecture with a kernel in Debian, and with one of the served devices.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Arch {
    /// x86-64: e1000, mlx5.
    X86_64,
    /// AArch64: axi-ethernet.
    Arm64,
    /// 64-bit POWER, little endian: vnic, veth.
    Ppc64,
}

impl Arch {
    /// All of them.
    pub const ALL: [Arch; 3] = [Arch::X86_64, Arch::Arm64, Arch::Ppc64];

    /// Returns Debian's name.
    pub fn debian(self) -> &'static str {
        match self {
            Arch::X86_64 => "amd64",
            Arch::Arm64 => "arm64",
            Arch::Ppc64 => "ppc64el",
        }
    }

    /// Returns the name of its QEMU.
    pub(crate) fn emulator(self) -> &'static str {
        match self {
            Arch::X86_64 => "qemu-system-x86_64",
            Arch::Arm64 => "qemu-system-aarch64",
            Arch::Ppc64 => "qemu-system-ppc64",
        }
    }

    /// Returns the directory of its libraries.
    pub(crate) fn triple(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64-linux-gnu",
            Arch::Arm64 => "aarch64-linux-gnu",
            Arch::Ppc64 => "powerpc64le-linux-gnu",
        }
    }

    /// Returns the path of its dynamic loader, as programs name it.
    pub(crate) fn loader(self) -> &'static str {
        match self {
            Arch::X86_64 => "lib64/ld-linux-x86-64.so.2",
            Arch::Arm64 => "lib/ld-linux-aarch64.so.1",
            Arch::Ppc64 => "lib64/ld64.so.2",
        }
    }

    /// Returns the kernel's name of its serial console.
    pub(crate) fn console(self) -> &'static str {
        match self {
            Arch::X86_64 => "ttyS0",
            Arch::Arm64 => "ttyAMA0",
            Arch::Ppc64 => "hvc0",
        }
    }
}
