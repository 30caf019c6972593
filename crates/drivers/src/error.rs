//! The errors of opening a device.

use doorbell_hal::OutOfMemory;
use doorbell_layout::mlx5::CmdStatus;
use thiserror::Error;

/// Why a device could not be opened, or a setting not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A setting is out of range: its name and its range.
    #[error("setting out of range: {0}")]
    Setting(&'static str),
    /// No host memory, or on ibmvnic no map ids left.
    #[error("out of memory")]
    OutOfMemory,
    /// Memory lies where the device cannot address it.
    #[error("the device cannot address its memory")]
    Address,
    /// The device did not finish this step in time, or the server did not answer this command.
    #[error("timeout: {0}")]
    Timeout(&'static str),
    /// e1000: the card reports PCI-X, where it has errata, and
    /// [`Config::bus`](crate::e1000::Config::bus) does not.
    #[error("the card is on PCI-X")]
    Bus,
    /// e1000: the EEPROM's words sum to this and not to 0xbaba.
    #[error("the EEPROM's checksum is {0:#06x}")]
    Checksum(u16),
    /// e1000: the MDI has another PHY.
    #[error("unknown PHY {0:#010x}")]
    Phy(u32),
    /// The hypervisor refused this call with this return code.
    #[error("{0} returned {1}")]
    Call(&'static str, i64),
    /// ibmvnic: the server refused this command with this return code.
    #[error("the server refused {0} with {1}")]
    Refused(&'static str, u8),
    /// ibmvnic: the server's response to this command is invalid.
    #[error("invalid response to {0}")]
    Answer(&'static str),
    /// ibmvnic: the servers went away one after another before the adapter was up.
    #[error("no server stays")]
    Unsteady,
    /// mlx5: no device, or one that the driver does not know.
    #[error("{0}")]
    Device(&'static str),
    /// mlx5: the firmware refused.
    #[error("the firmware refused: {0:?}")]
    Firmware(CmdStatus),
    /// mlx5: the device lacks a capability that the driver needs: checksum, VLAN, LSO, WQEs of
    /// 256 bytes.
    #[error("the device lacks {0}")]
    Capability(&'static str),
}

/// The result of opening a device.
pub(crate) type Opened<T = ()> = Result<T, OpenError>;

impl From<OutOfMemory> for OpenError {
    fn from(_: OutOfMemory) -> OpenError {
        OpenError::OutOfMemory
    }
}

impl From<CmdStatus> for OpenError {
    fn from(s: CmdStatus) -> OpenError {
        OpenError::Firmware(s)
    }
}

/// Fails with the name and the range of a setting unless it is in range.
pub(crate) const fn check(in_range: bool, what: &'static str) -> Opened {
    if in_range { Ok(()) } else { Err(OpenError::Setting(what)) }
}
