//! QEMU's exported functions that make a PCI device, and the layouts that they take.

use crate::internals::{RegisterType, address};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// A device or a class of QEMU's.
#[derive(Clone, Copy)]
pub(super) struct Object(pub(super) *mut c_void);

pub(super) type Read = extern "C" fn(*mut c_void, u64, c_uint) -> u64;
pub(super) type Write = extern "C" fn(*mut c_void, u64, u64, c_uint);

/// The sizes of accesses (`MemoryRegionOps`, both of its inner structures).
#[repr(C, align(8))]
struct Sizes {
    least: c_uint,
    most: c_uint,
    unaligned: bool,
    accepts: *const c_void,
}

/// The sizes that are implemented.
#[repr(C, align(8))]
struct Implemented {
    least: c_uint,
    most: c_uint,
    unaligned: bool,
}

/// `MemoryRegionOps`.
#[repr(C)]
pub(super) struct Ops {
    read: Read,
    write: Write,
    read_with_attributes: *const c_void,
    write_with_attributes: *const c_void,
    endianness: c_int,
    valid: Sizes,
    implemented: Implemented,
}
// SAFETY: its pointers are null.
unsafe impl Sync for Ops {}

/// `DEVICE_LITTLE_ENDIAN`.
const LITTLE_ENDIAN: c_int = 2;

impl Ops {
    /// Operations of registers of `least` to 8 bytes. QEMU cuts and joins others.
    pub(super) const fn new(read: Read, write: Write, least: c_uint) -> Ops {
        let none = std::ptr::null();
        let most = if least == 1 { 1 } else { 8 };
        Ops {
            read,
            write,
            read_with_attributes: none,
            write_with_attributes: none,
            endianness: LITTLE_ENDIAN,
            valid: Sizes { least: 1, most: 8, unaligned: false, accepts: none },
            implemented: Implemented { least, most, unaligned: false },
        }
    }
}

/// Types of a BAR: `PCI_BASE_ADDRESS_SPACE_IO`, 32 bits, 64 bits and prefetchable.
pub(super) const IO: u8 = 1;
pub(super) const MEMORY_32: u8 = 0;
pub(super) const MEMORY_64: u8 = 4 | 8;

/// A place of registers that are the machine's.
#[derive(Clone, Copy)]
pub(super) enum Place {
    Port(u64),
    Memory(u64),
}

/// Bytes for a `MemoryRegion`, which has 0x110, and for a `QEMUTimer`.
const OPAQUE: usize = 4096;

const fn named(text: &'static str) -> &'static CStr {
    match CStr::from_bytes_with_nul(text.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("a name has no null in it"),
    }
}

/// Declares functions that are looked up by their own names.
macro_rules! exports {
    ($($name:ident: $type:ty;)*) => {
        /// QEMU's functions and variables.
        pub(super) struct Exports { $(pub(super) $name: $type,)* }

        impl Exports {
            /// Looks up all of them. The error is the name of a missing one.
            pub(super) fn find() -> Result<Exports, &'static str> {
                Ok(Exports { $($name: {
                    const NAME: &CStr = named(concat!(stringify!($name), "\0"));
                    let found = address(NAME)?;
                    // SAFETY: QEMU 11.1's function of that name has this signature, and its
                    // variable is there. Of another version, only those that register the
                    // type are used, before it is refused.
                    unsafe { std::mem::transmute::<*mut c_void, $type>(found) }
                },)* })
            }
        }
    };
}

type Fired = extern "C" fn(*mut c_void);
/// A write of the CPU to a function's configuration space: address, value, bytes.
pub(super) type Configured = extern "C" fn(*mut c_void, u32, u32, c_int);

exports! {
    type_register_static: RegisterType;
    object_class_by_name: extern "C" fn(*const c_char) -> *mut c_void;
    device_class_set_legacy_reset: extern "C" fn(*mut c_void, Fired);
    memory_region_init_io:
        extern "C" fn(*mut c_void, *mut c_void, *const Ops, *mut c_void, *const c_char, u64);
    memory_region_add_subregion: extern "C" fn(*mut c_void, u64, *mut c_void);
    get_system_io: extern "C" fn() -> *mut c_void;
    get_system_memory: extern "C" fn() -> *mut c_void;
    pci_register_bar: extern "C" fn(*mut c_void, c_int, u8, *mut c_void);
    pci_set_irq: extern "C" fn(*mut c_void, c_int);
    pci_add_capability: extern "C" fn(*mut c_void, u8, u8, u8, *mut c_void) -> c_int;
    pci_default_write_config: Configured;
    pci_device_reset: extern "C" fn(*mut c_void);
    pcie_cap_flr_init: extern "C" fn(*mut c_void);
    pcie_cap_flr_write_config: Configured;
    pcie_endpoint_cap_init: extern "C" fn(*mut c_void, u8) -> c_int;
    msix_init: extern "C" fn(
        *mut c_void, u16, *mut c_void, u8, c_uint, *mut c_void, u8, c_uint, u8, *mut c_void,
    ) -> c_int;
    msi_init: extern "C" fn(*mut c_void, u8, c_uint, bool, bool, *mut c_void) -> c_int;
    msi_enabled: extern "C" fn(*const c_void) -> bool;
    msi_notify: extern "C" fn(*mut c_void, c_uint);
    msix_vector_use: extern "C" fn(*mut c_void, c_uint);
    msix_notify: extern "C" fn(*mut c_void, c_uint);
    timer_init_full:
        extern "C" fn(*mut c_void, *mut c_void, c_int, c_int, c_int, Fired, *mut c_void);
    timer_mod_ns: extern "C" fn(*mut c_void, i64);
    timer_del: extern "C" fn(*mut c_void);
    qemu_clock_get_ns: extern "C" fn(c_int) -> i64;
    icount_get: extern "C" fn() -> i64;
    icount_get_raw: extern "C" fn() -> i64;
    icount_to_ns: extern "C" fn(i64) -> i64;
    use_icount: *const c_int;
    timers_state: *mut i64;
    qemu_cpu_kick: extern "C" fn(*mut c_void);
    qemu_get_cpu: extern "C" fn(c_int) -> *mut c_void;
    qemu_in_vcpu_thread: extern "C" fn() -> bool;
    queue_tb_flush: extern "C" fn(*mut c_void);
    bql_locked: extern "C" fn() -> bool;
}
// SAFETY: functions, and variables that are used under QEMU's lock.
unsafe impl Sync for Exports {}
// SAFETY: as above.
unsafe impl Send for Exports {}

/// Returns zeroed memory for a structure of QEMU's, which is never freed.
pub(super) fn opaque() -> *mut c_void {
    Box::leak(Box::new([0_u128; OPAQUE / 16])).as_mut_ptr().cast()
}

impl Exports {
    /// Makes a region with these operations. They get `data`.
    fn region(&self, of: Object, data: usize, ops: &'static Ops, bytes: u64) -> *mut c_void {
        let region = opaque();
        let data = std::ptr::without_provenance_mut(data);
        let name: &CStr = c"doorbell";
        (self.memory_region_init_io)(region, of.0, ops, data, name.as_ptr(), bytes);
        region
    }

    /// Adds a BAR.
    pub(super) fn bar(
        &self,
        of: Object,
        n: u8,
        kind: u8,
        bytes: u64,
        ops: &'static Ops,
    ) -> *mut c_void {
        let region = self.region(of, n.into(), ops, bytes);
        (self.pci_register_bar)(of.0, n.into(), kind, region);
        region
    }

    /// Adds registers of the machine: ports of a PC, and of others memory.
    pub(super) fn words(&self, of: Object, at: Place, bytes: u64, ops: &'static Ops) {
        let region = self.region(of, 0, ops, bytes);
        let (space, at) = match at {
            Place::Port(at) => ((self.get_system_io)(), at),
            Place::Memory(at) => ((self.get_system_memory)(), at),
        };
        (self.memory_region_add_subregion)(space, at, region);
    }

    /// Adds the capability of power management at an offset of the configuration space.
    pub(super) fn power(&self, of: Object, at: u8) -> Result<(), String> {
        const POWER: u8 = 1;
        match (self.pci_add_capability)(of.0, POWER, at, 8, std::ptr::null_mut()) {
            0.. => Ok(()),
            _ => Err("QEMU refuses the capability of power management".to_owned()),
        }
    }

    /// Adds the capabilities of PCI Express, with function-level reset, and of MSI-X, with its
    /// tables at two places of this BAR with its number.
    pub(super) fn express(
        &self,
        of: Object,
        (bar, number): (*mut c_void, u8),
        [table, pending]: [c_uint; 2],
        n: u16,
    ) -> Result<(), String> {
        if (self.pcie_endpoint_cap_init)(of.0, 0x60) < 0 {
            return Err("QEMU refuses the capability of PCI Express".to_owned());
        }
        (self.pcie_cap_flr_init)(of.0);
        let none = std::ptr::null_mut();
        if (self.msix_init)(of.0, n, bar, number, table, bar, number, pending, 0xa0, none) < 0 {
            return Err("QEMU refuses MSI-X".to_owned());
        }
        (0..n).for_each(|vector| (self.msix_vector_use)(of.0, vector.into()));
        Ok(())
    }

    /// Adds the capability of MSI, with one message, at an offset of the configuration space.
    pub(super) fn msi(&self, of: Object, at: u8) -> Result<(), String> {
        match (self.msi_init)(of.0, at, 1, true, false, std::ptr::null_mut()) {
            0.. => Ok(()),
            _ => Err("QEMU refuses MSI".to_owned()),
        }
    }
}
