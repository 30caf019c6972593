//! What QEMU exports and does not promise: interrupts, the machine, types of devices, the device
//! tree.
//!
//! Debian builds QEMU so that its functions can be found by name. Each is looked up once, at load.
//! Their signatures are those of QEMU 11.1; another version may have the name with another meaning,
//! which is why the interface's version is checked by QEMU before this runs, and why nothing here
//! is used that 11.1 does not have.

use doorbell_papr_io::{SUB_CRQS, VNIC, sub_crq_interrupts};
use std::ffi::{CStr, c_char, c_int, c_void};

type Lock = extern "C" fn(*const c_char, c_int);
type Unlock = extern "C" fn();
type Machine = extern "C" fn() -> *mut c_void;
type Claim = extern "C" fn(*mut c_void, c_int, bool, *mut c_void) -> c_int;
type Line = extern "C" fn(*mut c_void, c_int) -> *mut c_void;
type Set = extern "C" fn(*mut c_void, c_int);
type RegisterType = extern "C" fn(*const c_void) -> *mut c_void;
/// `fdt_setprop`: tree, node, name, value and its length.
pub(crate) type SetProperty =
    extern "C" fn(*mut c_void, c_int, *const c_char, *const c_void, c_int) -> c_int;

/// The functions.
#[derive(Debug)]
pub(crate) struct Internals {
    lock: Lock,
    unlock: Unlock,
    machine: Machine,
    claim: Claim,
    line: Line,
    set: Set,
    pub(crate) register_type: RegisterType,
    pub(crate) set_property: SetProperty,
    /// Anything in QEMU's own text: strings of its are near.
    pub(crate) near: usize,
}

/// The address of a name.
fn address(name: &'static CStr) -> Result<*mut c_void, &'static str> {
    // SAFETY: a C string; nothing is called.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() { Err(name.to_str().unwrap_or("?")) } else { Ok(found) }
}

/// A function of that type, by name.
macro_rules! function {
    ($kind:ty, $name:literal) => {
        // SAFETY: QEMU 11.1's function of that name (or libfdt's, which it links) has this
        // signature.
        unsafe { std::mem::transmute::<*mut c_void, $kind>(address($name)?) }
    };
}

impl Internals {
    /// All of them, or the name of one that is not there.
    pub(crate) fn find() -> Result<Internals, &'static str> {
        Ok(Internals {
            lock: function!(Lock, c"bql_lock_impl"),
            unlock: function!(Unlock, c"bql_unlock"),
            machine: function!(Machine, c"qdev_get_machine"),
            claim: function!(Claim, c"spapr_irq_claim"),
            line: function!(Line, c"spapr_qirq"),
            set: function!(Set, c"qemu_set_irq"),
            register_type: function!(RegisterType, c"type_register_static"),
            set_property: function!(SetProperty, c"fdt_setprop"),
            near: address(c"spapr_register_hypercall")?.addr(),
        })
    }

    /// With QEMU's lock held, as everything about devices wants it.
    fn locked<R>(&self, f: impl FnOnce(*mut c_void) -> R) -> R {
        (self.lock)(c"doorbell-plugin".as_ptr(), 0);
        let r = f((self.machine)());
        (self.unlock)();
        r
    }

    /// Claims the interrupts of a vNIC's sub-CRQs. A unit's own is QEMU's doing.
    pub(crate) fn claim(&self, kind: u32, unit: u32) {
        if kind != VNIC {
            return;
        }
        self.locked(|machine| {
            let first = sub_crq_interrupts(unit);
            for n in first..first + SUB_CRQS {
                if (self.claim)(machine, n.into(), false, std::ptr::null_mut()) < 0 {
                    crate::say!("interrupt {n:#x} is taken");
                }
            }
        });
    }

    /// An interrupt: up and down.
    pub(crate) fn pulse(&self, interrupt: c_int) {
        self.locked(|machine| {
            let line = (self.line)(machine, interrupt);
            if !line.is_null() {
                (self.set)(line, 1);
                (self.set)(line, 0);
            }
        });
    }
}
