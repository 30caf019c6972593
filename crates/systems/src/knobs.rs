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

/// Max_Payload_Size.
pub(crate) const MPS: Knob = Knob {
    key: "pcie.mps",
    values: &["128", "256", "512"],
    command: "kernel parameter pci=pcie_bus_perf, where all on the path take {} B",
};
/// Max_Read_Request_Size.
pub(crate) const MRRS: Knob = Knob {
    key: "pcie.mrrs",
    values: &["128", "256", "512", "1024", "2048", "4096"],
    command: "setpci -s $BDF CAP_EXP+8.w, bits 14:12, to {} B",
};

/// Checksums of sent packets left to the adapter.
pub(crate) const CHECKSUM: Knob =
    Knob { key: "driver.checksum", values: &["on", "off"], command: "ethtool -K $NIC tx {}" };

/// A key of the traffic over which gains are shown.
#[derive(Debug)]
pub struct Condition {
    /// The key.
    pub key: &'static str,
    /// Its values.
    pub values: &'static [&'static str],
}
