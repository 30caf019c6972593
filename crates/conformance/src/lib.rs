//! Conformance tests: the same cases for each driver on every backend, and judges that others wrote
//! (QEMU, Wireshark, Linux).

pub mod axienet;
pub mod e1000;
pub mod frames;
pub mod ibmveth;
pub mod ibmvnic;
pub mod mlx5;
pub mod packets;
pub mod tshark;

use doorbell_bus::tce::{Prices, Table, Window};
use doorbell_bus::{HypervisorPort, Mapping, Platform, ProtectionGranularity};
use doorbell_hal::Span;

/// A partition with `memory` bytes, guarded by the byte behind a translation table, so that a
/// hypervisor that reads or writes what was not mapped is found.
pub fn partition(memory: usize) -> HypervisorPort {
    let prices = Prices { put: Span::from_ns(300), ..Prices::default() };
    let window = Window { base: 0x8000_0000, pages: 1 << 15, multi: true, prices };
    let platform = Platform::new(1 << 32, memory, ProtectionGranularity::Byte);
    let mapping = Mapping::Tce(Box::new(Table::new(window)));
    HypervisorPort::new(platform.with_mapping(mapping), Span::from_ns(50))
}

/// Capabilities that a backend lacks, each with the reason.
pub type Unsupported<C> = &'static [(C, &'static str)];

/// Returns true if a backend supports a capability. Prints the reason otherwise.
fn supports<C: PartialEq + std::fmt::Debug>(lacks: Unsupported<C>, case: &str, c: C) -> bool {
    let lack = lacks.iter().find(|(lack, _)| *lack == c);
    if let Some((_, why)) = lack {
        println!("{case}: not judged here: {c:?}: {why}");
    }
    lack.is_none()
}

/// Returns true if tests that need more than Rust must run: `make test` sets `DOORBELL_FULL=1`, and
/// a missing tool is then a failure. Prints `needs` (such as "root and tshark") otherwise.
pub fn full(needs: &str) -> bool {
    let full = std::env::var_os("DOORBELL_FULL").is_some_and(|v| v == "1");
    if !full {
        println!("skipped: needs {needs}; `make test` sets all of it up");
    }
    full
}
