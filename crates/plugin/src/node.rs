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
    realized: Option<Realize>,
}

/// Makes a device, and tells an error by its second argument.
pub(crate) type Realize = extern "C" fn(*mut c_void, *mut c_void);

type Node = extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int;

static CONTEXT: OnceLock<ClassContext> = OnceLock::new();
/// The function by which `spapr-vlan` fills its node.
static NODE: OnceLock<Node> = OnceLock::new();
/// The function by which `spapr-vlan` makes its devices.
static REALIZE: OnceLock<Realize> = OnceLock::new();

/// Registers the types with QEMU. `realized` is called for each device that is made, behind what
/// `spapr-vlan` does.
pub(crate) fn register(internals: &Internals, realized: Option<Realize>) {
    let Internals { near, set_property, .. } = *internals;
    CONTEXT.get_or_init(|| ClassContext { near, set_property, realized });
    for t in &TYPES.0 {
        (internals.register_type)(t);
    }
}

/// Bytes that QEMU's program is shorter than; pointers further from its text are not its strings.
const FAR: usize = 64 << 20;
/// Words of the class to search; a device class alone has more.
const WORDS: usize = 64;
/// Words from the compatible string to the functions that make the device and fill the node: signal
/// mask, window, realize, reset, devnode.
const TO_REALIZE: usize = 3;
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
    take_realize(compatible);
}

/// Returns true for an address of QEMU's program.
fn is_near(to: usize) -> bool {
    CONTEXT.get().is_some_and(|k| to.abs_diff(k.near) < FAR)
}

/// Has devices of a class be told when they are made, if that is wanted.
fn take_realize(compatible: *mut *const c_char) {
    if CONTEXT.get().is_none_or(|k| k.realized.is_none()) {
        return;
    }
    let slot = compatible.wrapping_add(TO_REALIZE).cast::<Option<Realize>>();
    // SAFETY: the word is of the class, which is the new type's own, and it is `realize`.
    let Some(inherited) = (unsafe { slot.replace(Some(realize)) }) else { missing() };
    if !is_near(inherited as usize) {
        missing();
    }
    REALIZE.get_or_init(|| inherited);
}

extern "C" fn realize(device: *mut c_void, error: *mut c_void) {
    if let Some(inherited) = REALIZE.get() {
        inherited(device, error);
    }
    if let Some(realized) = CONTEXT.get().and_then(|k| k.realized) {
        realized(device, error);
    }
}

extern "C" fn veth_class(class: *mut c_void, _: *const c_void) {
    let Some(compatible) = find(class, c"IBM,l-lan") else { missing() };
    let slot = compatible.wrapping_add(TO_NODE).cast::<Option<Node>>();
    // SAFETY: as above, and that word is `devnode`.
    let Some(inherited) = (unsafe { slot.replace(Some(veth_node)) }) else { missing() };
    if !is_near(inherited as usize) {
        missing();
    }
    NODE.get_or_init(|| inherited);
    take_realize(compatible);
}

extern "C" fn veth_node(device: *mut c_void, tree: *mut c_void, node: c_int) -> c_int {
    let (Some(inherited), Some(context)) = (NODE.get(), CONTEXT.get()) else { return -1 };
    let done = inherited(device, tree, node);
    if done < 0 {
        return done;
    }
    (context.set_property)(tree, node, c"ibm,illan-options".as_ptr(), std::ptr::null(), 0)
}
