//! A card as a PCI function of QEMU's own.

use super::exports::{self, Object};
use super::{Host, REGISTERS, class};
use doorbell_devices::rp1;
use doorbell_guest_machine::{Board, Card};

/// MSI-X vectors of the mlx5.
const VECTORS: u16 = 64;

/// The PCI function.
pub(super) struct Function {
    object: Object,
    vectors: u16,
    /// The first byte of its configuration space.
    config: *const u8,
    /// The level of its interrupt line.
    high: bool,
    /// The device may use memory.
    master: bool,
}

impl Function {
    /// Gives a device of QEMU's the registers of a card.
    pub(super) fn of(host: &Host, card: &Card, object: Object) -> Result<Function, String> {
        let identity = class::Identity::of(card);
        let config = class::configuration(object, identity.ids())?;
        let exports = &host.exports;
        let vectors = match card {
            Card::E1000(_) => {
                // SAFETY: the space has at least 256 bytes. Offset 0x3d is the interrupt pin: INTA.
                unsafe { config.add(0x3d).write(1) };
                exports.bar(object, 0, exports::MEMORY_32, 128 << 10, &REGISTERS);
                exports.bar(object, 2, exports::IO, 64, &REGISTERS);
                0
            }
            Card::Mlx5(_) => {
                let bar = exports.bar(object, 0, exports::MEMORY_64, 32 << 20, &REGISTERS);
                exports.express(object, bar, [0x2000, 0x3000], VECTORS)?;
                VECTORS
            }
            Card::Axi(..) => {
                let table = exports.bar(object, 0, exports::MEMORY_32, 16 << 10, &REGISTERS);
                exports.bar(object, rp1::BUS, exports::MEMORY_32, rp1::BUS_LEN.into(), &REGISTERS);
                exports.express(object, table, [0, 0x2000], rp1::VECTORS)?;
                rp1::VECTORS
            }
            Card::Adapter(_) => return Err("an adapter is no PCI function".to_owned()),
        };
        // The bit is looked at with the first access.
        Ok(Function { object, vectors, config, high: false, master: true })
    }

    /// Allows the device memory, or refuses it, as the guest has set its bus master bit.
    pub(super) fn allow(&mut self, board: &mut dyn Board) {
        // SAFETY: the space has at least 256 bytes and lives as long as the object. Offset 4 is the
        // command register, and bit 2 of it the bus master's.
        let master = unsafe { self.config.add(4).read_volatile() } & 4 != 0;
        if master != self.master {
            board.allow_dma(master);
            self.master = master;
        }
    }

    /// Passes messages and the line on.
    pub(super) fn interrupt(&mut self, host: &Host, board: &mut dyn Board) {
        for vector in 0..self.vectors {
            if board.take_message(vector) {
                (host.exports.msix_notify)(self.object.0, vector.into());
            }
        }
        let high = board.line();
        if high != self.high {
            self.high = high;
            (host.exports.pci_set_irq)(self.object.0, high.into());
        }
    }
}
