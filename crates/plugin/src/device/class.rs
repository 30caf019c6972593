//! The device's class: QEMU's layout of it is found by search, and tested by what two of QEMU's own
//! classes hold.

use super::exports::{Configured, Object};
use super::{Host, configured, realize, refuse, reset};
use crate::internals::TypeInfo;
use doorbell_devices::{e1000::Variant, rp1};
use doorbell_guest_machine::Card;
use std::ffi::{CStr, c_char, c_void};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Bytes of a class in which the ids are searched, and of an object.
const CLASS: usize = 640;
const OBJECT: usize = 2048;
/// Bytes from a class's `realize` and `config_write` to its `vendor_id`.
const REALIZE: usize = 32;
const CONFIG_WRITE: usize = 8;

/// Machine types that tell QEMU's version: it has one of the first and not the second beside it.
const VERSIONS: [[&CStr; 2]; 3] = [
    [c"pc-q35-11.1-machine", c"pc-q35-11.2-machine"],
    [c"virt-11.1-machine", c"virt-11.2-machine"],
    [c"pseries-11.1-machine", c"pseries-11.2-machine"],
];
/// Two of QEMU's devices, with the ids of vendor and device in one word.
const KNOWN: [(&CStr, u32); 2] = [(c"e1000", 0x100e_8086), (c"edu", 0x11e8_1234)];

/// The identity of the PCI function.
pub(super) struct Identity {
    vendor: u16,
    device: u16,
    revision: u8,
    subsystem: [u16; 2],
}

impl Identity {
    pub(super) fn of(card: &Card) -> Identity {
        match card {
            Card::E1000(nic) => Identity {
                vendor: 0x8086,
                device: nic.variant.device_id(),
                revision: 2,
                subsystem: [0x8086, if is_express(card) { 0xa01f } else { 0x001e }],
            },
            Card::Mlx5(_) => {
                let (vendor, device) = (0x15b3, 0x1017);
                Identity { vendor, device, revision: 0, subsystem: [0x15b3, 0x0008] }
            }
            Card::Axi(..) => {
                let (vendor, device) = rp1::IDS;
                Identity { vendor, device, revision: 0, subsystem: [vendor, device] }
            }
            // It is no PCI function.
            Card::Adapter(_) => Identity { vendor: 0, device: 0, revision: 0, subsystem: [0; 2] },
        }
    }

    /// Returns the ids as one word.
    pub(super) fn ids(&self) -> u32 {
        u32::from(self.device) << 16 | u32::from(self.vendor)
    }

    /// Returns the bytes of a class from `vendor_id` on: ids, revision, class, subsystem.
    fn bytes(&self) -> [u8; 12] {
        let mut all = [0; 12];
        all[..4].copy_from_slice(&self.ids().to_le_bytes());
        all[4] = self.revision;
        // A network controller, Ethernet.
        all[6..8].copy_from_slice(&0x0200_u16.to_le_bytes());
        all[8..10].copy_from_slice(&self.subsystem[0].to_le_bytes());
        all[10..].copy_from_slice(&self.subsystem[1].to_le_bytes());
        all
    }
}

/// Reads memory of this process through a file: what is not there is an error, not a crash.
pub(super) fn peek(at: usize, into: &mut [u8]) -> Option<()> {
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(into, at as u64).ok()
}

/// Refuses a QEMU of another version than that whose classes are known. Types are there when its
/// program has begun, so that this is asked when a device is made.
pub(super) fn check_version(host: &Host) -> Result<(), String> {
    let there = |name: &CStr| !(host.exports.object_class_by_name)(name.as_ptr()).is_null();
    match VERSIONS.iter().any(|[this, next]| there(this) && !there(next)) {
        true => Ok(()),
        false => Err("this is not QEMU 11.1, whose device classes are known".to_owned()),
    }
}

/// Returns the offset of `vendor_id` in a PCI class: the only one at which both known classes have
/// their ids.
fn ids_of_class(host: &Host) -> Result<usize, String> {
    let find = |name: &CStr| (host.exports.object_class_by_name)(name.as_ptr());
    check_version(host)?;
    let mut offsets: Vec<usize> = (0..CLASS - 4).step_by(2).collect();
    for (name, ids) in KNOWN {
        let mut bytes = [0; CLASS];
        let class = find(name);
        if class.is_null() || peek(class.addr(), &mut bytes).is_none() {
            return Err(format!("this QEMU has no class {}", name.to_string_lossy()));
        }
        offsets.retain(|at| bytes[*at..at + 4] == ids.to_le_bytes());
    }
    match offsets[..] {
        [at] if at >= REALIZE && at % 8 == 0 => Ok(at),
        _ => Err("this QEMU's device classes are not as QEMU 11.1 has them".to_owned()),
    }
}

/// Sets the class up. QEMU calls it when it first needs the type.
extern "C" fn class_init(class: *mut c_void, _: *const c_void) {
    let Some(host) = super::HOST.get() else { return };
    let at = ids_of_class(host).unwrap_or_else(|e| refuse(&e));
    let bytes = Identity::of(&host.plan.card).bytes();
    // SAFETY: the class is of a PCI device, and QEMU's thread has the only use of it. The place of
    // its ids was found and tested, and `realize` and `config_write` are in front of them.
    unsafe {
        let ids = class.cast::<u8>().add(at);
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), ids, bytes.len());
        type Realize = extern "C" fn(*mut c_void, *mut c_void);
        ids.sub(REALIZE).cast::<Realize>().write(realize);
        ids.sub(CONFIG_WRITE).cast::<Configured>().write(configured);
    }
    (host.exports.device_class_set_legacy_reset)(class, reset);
}

/// Returns true if a card is a function of PCI Express.
pub(super) fn is_express(card: &Card) -> bool {
    match card {
        Card::E1000(nic) => nic.variant == Variant::I82574L,
        Card::Mlx5(_) | Card::Axi(..) => true,
        Card::Adapter(_) => false,
    }
}

/// Registers the type. Its name is the same for all devices.
pub(super) fn register(host: &Host) {
    let none = std::ptr::null();
    let interface = match is_express(&host.plan.card) {
        true => c"pci-express-device",
        false => c"conventional-pci-device",
    };
    // QEMU keeps them.
    let interfaces: &[*const c_char; 2] = Box::leak(Box::new([interface.as_ptr(), none]));
    let info = TypeInfo::child_of(c"pci-device", c"doorbell-nic", class_init, interfaces.as_ptr());
    (host.exports.type_register_static)(Box::leak(Box::new(info)));
}

/// Returns the configuration space of a device: what the only pointer in the object leads to that
/// leads to its ids.
pub(super) fn configuration(object: Object, ids: u32) -> Result<*mut u8, String> {
    let mut bytes = [0; OBJECT];
    let wrong = || "this QEMU's PCI devices are not as QEMU 11.1 has them".to_owned();
    peek(object.0.addr(), &mut bytes).ok_or_else(wrong)?;
    let (words, _) = bytes.as_chunks::<8>();
    let mut found = words.iter().map(|w| usize::from_le_bytes(*w)).filter(|at| {
        let mut space = [0; 256];
        *at > 0x1_0000 && peek(*at, &mut space).is_some() && space[..4] == ids.to_le_bytes()
    });
    let first = found.next().ok_or_else(wrong)?;
    // The same again is no other.
    if found.any(|at| at != first) {
        return Err(wrong());
    }
    Ok(std::ptr::with_exposed_provenance_mut(first))
}
