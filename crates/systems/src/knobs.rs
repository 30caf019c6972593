//! Settings that people can change on a real system, and the traffic over which each is shown.

/// A setting that people can change on a real system.
#[derive(Debug)]
pub struct Knob {
    /// Its key.
    pub key: &'static str,
    /// Values to try.
    pub values: &'static [&'static str],
    /// The command or parameter that sets it there; `{}` stands for the value.
    pub command: &'static str,
}

impl Knob {
    /// Declares a setting with values to try and the command that sets it.
    pub(crate) const fn new(
        key: &'static str,
        values: &'static [&'static str],
        command: &'static str,
    ) -> Knob {
        Knob { key, values, command }
    }
}

/// Max_Payload_Size.
pub(crate) const MPS: Knob = Knob::new(
    "pcie.mps",
    &["128", "256", "512"],
    "kernel parameter pci=pcie_bus_perf, where all on the path take {} B",
);
/// Max_Read_Request_Size.
pub(crate) const MRRS: Knob = Knob::new(
    "pcie.mrrs",
    &["128", "256", "512", "1024", "2048", "4096"],
    "setpci -s $BDF CAP_EXP+8.w, bits 14:12, to {} B",
);

/// Checksums of sent packets left to the adapter.
pub(crate) const CHECKSUM: Knob =
    Knob::new("driver.checksum", &["on", "off"], "ethtool -K $NIC tx {}");

/// A key of the traffic over which gains are shown.
#[derive(Debug)]
pub struct Condition {
    /// The key.
    pub key: &'static str,
    /// Its values.
    pub values: &'static [&'static str],
}
