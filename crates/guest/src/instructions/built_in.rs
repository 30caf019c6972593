//! Functions of modules that may be built into a kernel, by the beginnings of their names from
//! Linux 5.10 to 7.3: no other code of the kernel has such names. Debian's kernels have these
//! modules built in since 6.12.

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
