//! Instructions that a guest executed, by function.
//!
//! QEMU's plug-in (crate `doorbell-plugin`) counts each instruction by its address; its module
//! `count` has the protocol and says how exact the counts are. A [`Counter`] reads them, the
//! difference of two [`Snapshot`]s is what the guest [`Executed`] in between, and the guest's
//! symbols turn it into a [`Profile`] by module and function. Every executed instruction is in
//! exactly one of the profile's parts.
//!
//! ```
//! use doorbell_guest::instructions::{Executed, Symbols};
//!
//! let kallsyms = "ffffffffc0201000 t e1000_xmit_frame\t[e1000]\n";
//! let symbols = Symbols::parse(kallsyms)?;
//! let executed = Executed::from_counts([(0xffff_ffff_c020_1004, 7), (0x40_1000, 2)]);
//! let profile = executed.profile(&symbols);
//! assert_eq!(profile.functions()[0].0.to_string(), "e1000:e1000_xmit_frame");
//! assert_eq!(profile.user().instructions, 2);
//! # Ok::<(), doorbell_guest::instructions::SymbolsError>(())
//! ```

pub(crate) mod built_in;
mod counter;
mod events;
mod profile;
mod steps;
mod symbols;
#[cfg(test)]
mod tests;

pub(crate) use built_in::Text;
pub use counter::{Counter, Executed, Snapshot};
pub use events::Event;
pub use profile::{Profile, Within, Work};
pub use steps::Step;
pub use symbols::{Function, KERNEL, Symbols, SymbolsError};
