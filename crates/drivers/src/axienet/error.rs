//! Errors of a core.

use doorbell_hal::OutOfMemory;
use thiserror::Error;

/// Why a core could not be opened, or a setting not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// A setting is out of range: its name and its range.
    #[error("setting out of range: {0}")]
    Setting(&'static str),
    /// No host memory.
    #[error("out of memory")]
    OutOfMemory,
    /// A ring is where the core cannot reach it.
    #[error("the core cannot address its ring")]
    Address,
    /// The device did not finish this step in time.
    #[error("timeout: {0}")]
    Timeout(&'static str),
}

impl From<OutOfMemory> for OpenError {
    fn from(_: OutOfMemory) -> OpenError {
        OpenError::OutOfMemory
    }
}

/// Why an access to a PHY register failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum MdioError {
    /// MCR was not ready within 20 ms.
    #[error("MDIO is not ready")]
    Timeout,
    /// There is no such PHY or register, or no clock that is slow enough.
    #[error("no such PHY or register, or no MDIO clock")]
    Address,
}
