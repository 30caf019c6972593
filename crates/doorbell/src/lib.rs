//! All that a driver or a device of one's own needs, in one dependency.
//!
//! ```
//! use doorbell::devices::e1000::{Config, E1000};
//! use doorbell::{custom, prelude::*};
//!
//! /// A driver that drops what it gets.
//! struct Careless;
//!
//! impl<H: Host> Driver<H> for Careless {
//!     fn transmit(&mut self, _: &mut H, p: Packet, _: bool) -> Tx {
//!         Tx::Dropped(p)
//!     }
//!     fn poll<S: Sink>(&mut self, _: &mut H, _: u32, _: &mut S) -> Poll {
//!         Poll::Idle
//!     }
//!     fn interrupt(&mut self, _: &mut H, _: u16) -> Irq {
//!         Irq::None
//!     }
//!     fn stopped(&self) -> bool {
//!         false
//!     }
//! }
//!
//! let mut machine = custom::on_pcie(1, 4, E1000::new(Config::I82545EM)).expect("PCIe 1.0 x4");
//! let (line, load) = ((Interrupt::Line(0), 1), Load::pktgen(60, 1, 10));
//! let metered = custom::meter(&mut machine, |_| Careless, |_, _| (), line, &load);
//! let why = metered.expect("the run ends").verdict.audit.join("\n");
//! assert_eq!(why, "packets handed over and frames on the wire: 10 and 0");
//! ```
#![forbid(unsafe_code)]

pub mod trial;

pub use doorbell_bus as bus;
pub use doorbell_devices as devices;
pub use doorbell_drivers as drivers;
pub use doorbell_hal as hal;
pub use doorbell_layout as layout;
pub use doorbell_packet as packet;
pub use doorbell_serve as serve;
pub use doorbell_spec::{SettingError, key};
pub use doorbell_systems::{card, custom, result, system::System};
pub use zerocopy;

pub use doorbell_cli::{
    Caller, DOORBELL, Devices, Failure, Registry, call, main_of, main_serving, main_with,
};

/// The names that the file of a driver or of a device needs.
pub mod prelude {
    pub use crate::System;
    pub use crate::card::Card;
    pub use crate::custom::prelude::*;
    pub use crate::drivers::OpenError;
    pub use crate::hal::{
        Device, DropReason, EventSource, Fact, Iova, Port, Rule, RxVerdict, Time,
    };
}
