//! Proofs for any access to a configuration space: `tools/proofs.sh`.

use super::{Bar, Capability, ConfigSpace, Identity};
use std::mem::forget;

fn nic(capabilities: Vec<Capability>) -> ConfigSpace {
    let mut bars = [Bar::None; 6];
    (bars[0], bars[2], bars[3]) = (Bar::Memory64(1 << 25), Bar::Memory(4096), Bar::Io(64));
    let id = Identity {
        vendor: 0x15b3,
        device: 0x1017,
        subsystem: (0x15b3, 7),
        revision: 0,
        class: 0x02_0000,
        bars,
        line: true,
        capabilities,
        polled: None,
    };
    let space = ConfigSpace::new(&id);
    forget(id);
    space
}

/// Any write at any place: no panic, and it changes writable bits only; read at any place.
fn only_writable_bits_change(mut space: ConfigSpace) {
    let (start, len) = (kani::any(), kani::any_where(|len| *len <= 4));
    let data: [u8; 4] = kani::any();
    if let Some(range) = space.inside(start, len) {
        space.write(range.start, &data[..len]);
    }
    let at: usize = kani::any_where(|at| *at < space.bytes.len());
    let (now, before, mask) = (space.bytes[at], space.initial[at], space.mask[at]);
    assert!(now & !mask == before & !mask, "a bit that cannot be written");
    if let Some(range) = space.inside(at as u64, len) {
        let mut seen = [0; 4];
        space.read(range, false, &mut seen[..len]);
        assert!(len == 0 || seen[0] == now);
    }
    space.reset();
    assert!(space.bytes[at] == before);
    forget(space);
}

#[kani::proof]
#[kani::unwind(8)]
fn only_writable_bits_of_a_pci_function_change() {
    only_writable_bits_change(nic(vec![
        Capability::Power { resets: true },
        Capability::PciX,
        Capability::Msi(4),
    ]));
}
