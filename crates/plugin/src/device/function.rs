//! A card as a PCI function of QEMU's own.

use super::exports::{self, Object};
use super::{Host, REGISTERS, class};
use doorbell_devices::rp1;
use doorbell_guest_machine::{Board, Card};

/// MSI-X vectors of the mlx5, and of the 82574 with the BAR of their table.
const VECTORS: u16 = 64;
const E1000_VECTORS: u16 = 5;
const MSIX_BAR: u8 = 3;
/// Place of the capability of MSI, where there is one.
const MSI: u8 = 0xd0;

/// Places of the capability of power management: behind QEMU's header, and for the 8254x where the
/// card has it.
const POWER: u8 = 0x40;
const E1000_POWER: u8 = 0xdc;
/// The control register in it: the power state, and "no soft reset".
const CONTROL: u8 = 4;
const STATE: u8 = 3;
const NO_SOFT_RESET: u8 = 8;
/// The power states of a function here.
const D0: u8 = 0;
const D3_HOT: u8 = 3;

/// The PCI function.
pub(super) struct Function {
    object: Object,
    vectors: u16,
    /// The first byte of its configuration space.
    config: *mut u8,
    /// The capability of power management there.
    power: u8,
    /// It is a function of PCI Express, with function-level reset.
    is_express: bool,
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
            Card::E1000(_) if class::is_express(card) => {
                // SAFETY: as below.
                unsafe { config.add(0x3d).write(1) };
                exports.bar(object, 0, exports::MEMORY_32, 128 << 10, &REGISTERS);
                exports.bar(object, 2, exports::IO, 32, &REGISTERS);
                let table = exports.bar(object, MSIX_BAR, exports::MEMORY_32, 16 << 10, &REGISTERS);
                exports.express(object, (table, MSIX_BAR), [0, 0x2000], E1000_VECTORS)?;
                exports.msi(object, MSI)?;
                E1000_VECTORS
            }
            Card::E1000(_) => {
                // SAFETY: the space has at least 256 bytes. Offset 0x3d is the interrupt pin: INTA.
                unsafe { config.add(0x3d).write(1) };
                exports.bar(object, 0, exports::MEMORY_32, 128 << 10, &REGISTERS);
                exports.bar(object, 2, exports::IO, 64, &REGISTERS);
                0
            }
            Card::Mlx5(_) => {
                let bar = exports.bar(object, 0, exports::MEMORY_64, 32 << 20, &REGISTERS);
                exports.express(object, (bar, 0), [0x2000, 0x3000], VECTORS)?;
                VECTORS
            }
            Card::Axi(..) => {
                let table = exports.bar(object, 0, exports::MEMORY_32, 16 << 10, &REGISTERS);
                exports.bar(object, rp1::BUS, exports::MEMORY_32, rp1::BUS_LEN.into(), &REGISTERS);
                exports.express(object, (table, 0), [0, 0x2000], rp1::VECTORS)?;
                rp1::VECTORS
            }
            Card::Adapter(_) => return Err("an adapter is no PCI function".to_owned()),
        };
        let is_express = class::is_express(card);
        let power = if is_express { POWER } else { E1000_POWER };
        exports.power(object, power)?;
        // Version 2, no D1 and D2. A function of PCI Express keeps its state in D3hot.
        let control = if is_express { NO_SOFT_RESET } else { 0 };
        // SAFETY: the space has at least 256 bytes, eight of which are the capability's.
        unsafe {
            config.add(power.into()).add(2).write(2);
            config.add((power + CONTROL).into()).write(control);
        }
        // The bit is looked at with the first access.
        Ok(Function { object, vectors, config, power, is_express, high: false, master: true })
    }

    /// Returns whether it has a function-level reset.
    pub(super) fn is_express(&self) -> bool {
        self.is_express
    }

    /// Returns the control register of power management.
    fn control(&self) -> u8 {
        // SAFETY: the space has at least 256 bytes and lives as long as the object.
        unsafe { self.config.add((self.power + CONTROL).into()).read_volatile() }
    }

    /// Sets the power state.
    fn put_state(&mut self, state: u8) {
        let control = self.control() & !STATE | state;
        // SAFETY: as in `control`, and QEMU's lock is held.
        unsafe { self.config.add((self.power + CONTROL).into()).write_volatile(control) }
    }

    /// Returns whether its registers, its DMA and its interrupts are off.
    pub(super) fn is_asleep(&self) -> bool {
        self.control() & STATE != D0
    }

    /// Takes a write to the configuration space. Returns true if the function is reset by it: from
    /// D3hot to D0, unless it keeps its state. A state that it does not have is not taken.
    pub(super) fn configured(&mut self, at: u32, value: u32, bytes: u32) -> bool {
        let distance = u32::from(self.power + CONTROL).wrapping_sub(at);
        if distance >= bytes.min(4) {
            return false;
        }
        let (before, state) = (self.control(), (value >> (8 * distance)) as u8 & STATE);
        if matches!(state, D0 | D3_HOT) {
            self.put_state(state);
        }
        before & STATE == D3_HOT && state == D0 && before & NO_SOFT_RESET == 0
    }

    /// Is in D0 from a reset on.
    pub(super) fn reset(&mut self) {
        self.put_state(D0);
    }

    /// Allows the device memory, or refuses it, as the guest has set its bus master bit and its
    /// power state.
    pub(super) fn allow(&mut self, board: &mut dyn Board) {
        // SAFETY: the space has at least 256 bytes and lives as long as the object. Offset 4 is the
        // command register, and bit 2 of it the bus master's.
        let master = unsafe { self.config.add(4).read_volatile() } & 4 != 0 && !self.is_asleep();
        if master != self.master {
            board.allow_dma(master);
            self.master = master;
        }
    }

    /// Passes messages and the line on.
    pub(super) fn interrupt(&mut self, host: &Host, board: &mut dyn Board) {
        if self.is_asleep() {
            return;
        }
        for vector in 0..self.vectors {
            if board.take_message(vector) {
                (host.exports.msix_notify)(self.object.0, vector.into());
            }
        }
        let high = board.line();
        if high != self.high {
            self.high = high;
            // The line is a message where the guest has enabled MSI.
            match (host.exports.msi_enabled)(self.object.0) {
                true if high => (host.exports.msi_notify)(self.object.0, 0),
                true => {}
                false => (host.exports.pci_set_irq)(self.object.0, high.into()),
            }
        }
    }
}
