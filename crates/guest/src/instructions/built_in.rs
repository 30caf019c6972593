//! Functions of modules that may be built into a kernel.
//!
//! Those of two are known by the beginnings of their names from Linux 5.10 to 7.3: no other code of
//! the kernel has such names. Debian's kernels have these modules built in since 6.12. Those of any
//! other are told by the module's objects: the functions of a section lie in the kernel in the same
//! distances from each other.

use super::symbols::Line;

/// A section of a module's code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text(pub(super) Vec<Part>);

/// A function of a section, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// From the section's begin.
    pub(super) distance: u64,
    pub(super) function: String,
    pub(super) is_entry: bool,
}

impl Text {
    /// Makes it of all symbols of the section.
    pub(crate) fn of(symbols: Vec<(u64, &str)>) -> Text {
        let line = |(address, name)| Line { address, kind: 't', name, module: "" };
        let mut lines: Vec<Line<'_>> = symbols.into_iter().map(line).collect();
        lines.retain(|line| !line.is_mark() && !line.is_prefix());
        lines.sort_by_key(|line| (line.address, line.preference()));
        lines.dedup_by_key(|line| line.address);
        let part = |line: &Line<'_>| {
            let (distance, function) = (line.address, line.function().to_owned());
            Part { distance, function, is_entry: line.is_entry() }
        };
        Text(lines.iter().map(part).collect())
    }
}

/// Returns the names of a module's functions, or `None` if they cannot be told from the kernel's.
/// One that ends in `*` is the beginning of several names.
pub(crate) fn names(module: &str) -> Option<&'static str> {
    MODULES.iter().find(|(name, _)| *name == module).map(|(_, names)| *names)
}

const MODULES: [(&str, &str); 2] = [
    (
        "virtio_ring",
        "virtqueue_* __virtqueue_* vring_* __vring_* detach_buf_split* detach_buf_packed* \
         more_used_split more_used_packed",
    ),
    // With the parts for modern and legacy devices, which are modules of their own.
    ("virtio_pci", "vp_* virtio_pci_*"),
];
