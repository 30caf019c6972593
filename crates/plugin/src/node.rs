//! Device types of the adapters, and their nodes in the device tree.
//!
//! `doorbell-vnic` and `doorbell-veth` are children of QEMU's `spapr-vlan`, which provides node,
//! unit address, station address, DMA window and interrupt. A vNIC's node differs in name and
//! compatible string, a veth's has `ibm,illan-options` too, without which ibmveth offers no
//! checksums. The class is searched for pointers to the strings `l-lan` and `IBM,l-lan`, since
//! QEMU's headers are not available; QEMU ends if they are not found.

use crate::internals::{ClassInit, Internals, SetProperty, TypeInfo};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

/// The two types, whose pointers are to constants.
struct Types([TypeInfo; 2]);
// SAFETY: it is never changed.
unsafe impl Sync for Types {}

const fn child(name: &'static CStr, init: ClassInit) -> TypeInfo {
    TypeInfo::child_of(c"spapr-vlan", name, init, std::ptr::null())
}

static TYPES: Types =
    Types([child(c"doorbell-vnic", vnic_class), child(c"doorbell-veth", veth_class)]);

/// Context of the class functions, which QEMU calls without a user argument.
struct ClassContext {
    near: usize,
    set_property: SetProperty,
}

type Node = extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int;

static CONTEXT: OnceLock<ClassContext> = OnceLock::new();
/// The function by which `spapr-vlan` fills its node.
static NODE: OnceLock<Node> = OnceLock::new();

/// Registers the types with QEMU.
pub(crate) fn register(internals: &Internals) {
    let Internals { near, set_property, .. } = *internals;
    CONTEXT.get_or_init(|| ClassContext { near, set_property });
    for t in &TYPES.0 {
        (internals.register_type)(t);
    }
}

/// Bytes that QEMU's program is shorter than; pointers further from its text are not its strings.
const FAR: usize = 64 << 20;
/// Words of the class to search; a device class alone has more.
const WORDS: usize = 64;
/// Words from the compatible string to the function that fills the node: signal mask, window,
/// realize, reset, devnode.
const TO_NODE: usize = 5;

/// Returns the first word of a class that points to this string.
fn find(class: *mut c_void, text: &CStr) -> Option<*mut *const c_char> {
    let near = CONTEXT.get()?.near;
    let words = class.cast::<*const c_char>();
    (0..WORDS).map(|i| words.wrapping_add(i)).find(|w| {
        // SAFETY: the search ends at the string, which the class of QEMU 11.1's `spapr-vlan` has in
        // itself; in another build it may look a little past the class, into QEMU's heap,
        // before it says so and ends.
        let to = unsafe { **w };
        // SAFETY: it points into QEMU's own program, which is mapped there: text, constants, or
        // data.
        to.addr().abs_diff(near) < FAR && unsafe { CStr::from_ptr(to) } == text
    })
}

fn missing() -> ! {
    crate::say!("the class of `spapr-vlan` is not as in QEMU 11.1");
    std::process::exit(1);
}

extern "C" fn vnic_class(class: *mut c_void, _: *const c_void) {
    let (Some(name), Some(compatible)) = (find(class, c"l-lan"), find(class, c"IBM,l-lan")) else {
        missing()
    };
    // SAFETY: both are words of the class, which is the new type's own.
    unsafe {
        *name = c"vnic".as_ptr();
        *compatible = c"IBM,vnic".as_ptr();
    }
}

extern "C" fn veth_class(class: *mut c_void, _: *const c_void) {
    let Some(compatible) = find(class, c"IBM,l-lan") else { missing() };
    let slot = compatible.wrapping_add(TO_NODE).cast::<Option<Node>>();
    // SAFETY: as above, and that word is `devnode`.
    let Some(inherited) = (unsafe { slot.replace(Some(veth_node)) }) else { missing() };
    let (to, near) = (inherited as usize, CONTEXT.get().map_or(0, |k| k.near));
    if to != 0 && to.abs_diff(near) >= FAR {
        missing();
    }
    NODE.get_or_init(|| inherited);
}

extern "C" fn veth_node(device: *mut c_void, tree: *mut c_void, node: c_int) -> c_int {
    let (Some(inherited), Some(context)) = (NODE.get(), CONTEXT.get()) else { return -1 };
    let done = inherited(device, tree, node);
    if done < 0 {
        return done;
    }
    (context.set_property)(tree, node, c"ibm,illan-options".as_ptr(), std::ptr::null(), 0)
}
