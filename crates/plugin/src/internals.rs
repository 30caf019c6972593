//! QEMU's exported but unstable functions: interrupts, machine, device types, device tree.
//!
//! Debian's build exports them by name. Each is looked up once, at load. The signatures are those
//! of QEMU 11.1; QEMU checks the interface's version before this runs.

use doorbell_papr_io::{SUB_CRQS, VNIC, sub_crq_interrupts};
use std::ffi::{CStr, c_char, c_int, c_void};

type Lock = extern "C" fn(*const c_char, c_int);
type Unlock = extern "C" fn();
type Machine = extern "C" fn() -> *mut c_void;
type Claim = extern "C" fn(*mut c_void, c_int, bool, *mut c_void) -> c_int;
type Line = extern "C" fn(*mut c_void, c_int) -> *mut c_void;
type Set = extern "C" fn(*mut c_void, c_int);
/// A handler of calls: CPU, machine, number of the call, registers from R4 on.
pub(crate) type Called = extern "C" fn(*mut c_void, *mut c_void, u64, *mut u64) -> u64;
type RegisterCall = extern "C" fn(u64, Called);
pub(crate) type RegisterType = extern "C" fn(*const TypeInfo) -> *mut c_void;
/// Sets the class of a new type up, without context.
pub(crate) type ClassInit = extern "C" fn(*mut c_void, *const c_void);
/// `fdt_setprop`: tree, node, name, value, length of the value.
pub(crate) type SetProperty =
    extern "C" fn(*mut c_void, c_int, *const c_char, *const c_void, c_int) -> c_int;

/// `TypeInfo` (include/qom/object.h).
#[repr(C)]
pub(crate) struct TypeInfo {
    name: *const c_char,
    parent: *const c_char,
    /// 0: the parent's.
    instance_size: usize,
    instance_align: usize,
    instance_init: Option<extern "C" fn(*mut c_void)>,
    instance_post_init: Option<extern "C" fn(*mut c_void)>,
    instance_finalize: Option<extern "C" fn(*mut c_void)>,
    is_abstract: bool,
    /// 0: the parent's.
    class_size: usize,
    class_init: Option<ClassInit>,
    class_base_init: Option<ClassInit>,
    class_data: *const c_void,
    interfaces: *const *const c_char,
}

impl TypeInfo {
    /// Returns a child that differs from its parent in its class. `interfaces` are names up to a
    /// null, or null.
    pub(crate) const fn child_of(
        parent: &'static CStr,
        name: &'static CStr,
        init: ClassInit,
        interfaces: *const *const c_char,
    ) -> TypeInfo {
        TypeInfo {
            name: name.as_ptr(),
            parent: parent.as_ptr(),
            instance_size: 0,
            instance_align: 0,
            instance_init: None,
            instance_post_init: None,
            instance_finalize: None,
            is_abstract: false,
            class_size: 0,
            class_init: Some(init),
            class_base_init: None,
            class_data: std::ptr::null(),
            interfaces,
        }
    }
}

pub(crate) struct Internals {
    lock: Lock,
    unlock: Unlock,
    machine: Machine,
    claim: Claim,
    line: Line,
    set: Set,
    pub(crate) register_call: RegisterCall,
    pub(crate) register_type: RegisterType,
    pub(crate) set_property: SetProperty,
    /// An address in QEMU's text, near its string constants.
    pub(crate) near: usize,
}

pub(crate) fn address(name: &'static CStr) -> Result<*mut c_void, &'static str> {
    // SAFETY: a C string; nothing is called.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() { Err(name.to_str().unwrap_or("?")) } else { Ok(found) }
}

/// Looks up a function of that type by name.
macro_rules! function {
    ($kind:ty, $name:literal) => {
        // SAFETY: QEMU 11.1's function of that name (or libfdt's, which it links) has this
        // signature.
        unsafe { std::mem::transmute::<*mut c_void, $kind>(address($name)?) }
    };
}

impl Internals {
    /// Looks up all functions. The error is the name of a missing one.
    pub(crate) fn find() -> Result<Internals, &'static str> {
        Ok(Internals {
            lock: function!(Lock, c"bql_lock_impl"),
            unlock: function!(Unlock, c"bql_unlock"),
            machine: function!(Machine, c"qdev_get_machine"),
            claim: function!(Claim, c"spapr_irq_claim"),
            line: function!(Line, c"spapr_qirq"),
            set: function!(Set, c"qemu_set_irq"),
            register_call: function!(RegisterCall, c"spapr_register_hypercall"),
            register_type: function!(RegisterType, c"type_register_static"),
            set_property: function!(SetProperty, c"fdt_setprop"),
            near: address(c"spapr_register_hypercall")?.addr(),
        })
    }

    /// Calls `f` with the machine under QEMU's lock, which device functions need.
    fn locked<R>(&self, f: impl FnOnce(*mut c_void) -> R) -> R {
        (self.lock)(c"doorbell-plugin".as_ptr(), 0);
        let r = f((self.machine)());
        (self.unlock)();
        r
    }

    /// Returns the machine. The caller has QEMU's lock.
    pub(crate) fn machine(&self) -> *mut c_void {
        (self.machine)()
    }

    /// Claims the interrupts of a vNIC's sub-CRQs. QEMU claims the unit's own.
    pub(crate) fn claim(&self, kind: u32, unit: u32) {
        if kind != VNIC {
            return;
        }
        let first = sub_crq_interrupts(unit);
        self.locked(|machine| self.claim_all(machine, first..first + SUB_CRQS));
    }

    /// Claims these interrupts of the machine. The caller has QEMU's lock.
    pub(crate) fn claim_all(&self, machine: *mut c_void, all: impl IntoIterator<Item = u16>) {
        for n in all {
            if (self.claim)(machine, n.into(), false, std::ptr::null_mut()) < 0 {
                crate::say!("interrupt {n:#x} is taken");
            }
        }
    }

    pub(crate) fn pulse(&self, interrupt: c_int) {
        self.locked(|machine| self.pulse_line(machine, interrupt));
    }

    /// Raises an interrupt of the machine. The caller has QEMU's lock.
    pub(crate) fn pulse_line(&self, machine: *mut c_void, interrupt: c_int) {
        let line = (self.line)(machine, interrupt);
        if !line.is_null() {
            (self.set)(line, 1);
            (self.set)(line, 0);
        }
    }
}
