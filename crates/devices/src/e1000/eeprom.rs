//! The EEPROM: 64 words behind a Microwire (93C46) interface; of the 82574, behind EERD and EEWR.
//!
//! A driver reads it by EERD, or by EECD, where it moves the pins itself: CS selects, DI is taken
//! and DO changes at rising edges of SK. An instruction is a start bit, two bits of opcode and six
//! of address. After programming DO says "ready", here always. The words sum to 0xBABA; words 0 to
//! 2 are the station address, first byte in the low half. Contents survive a reset.
//!
//! Source: SDM 5.3 and 13.4.3; the 93C46's data sheet.

use doorbell_layout::e1000::{
    EECD_CS as CS, EECD_DI as DI, EECD_SK as SK, VENDOR, eeprom, id as ids,
};

const WORDS: usize = eeprom::WORDS as usize;

/// The part and its interface.
#[derive(Clone, Debug)]
pub(super) struct Eeprom {
    words: [u16; WORDS],
    sk: bool,
    cs: bool,
    /// Level that it drives on DO.
    pub(super) data_out: bool,
    writable: bool,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for a start bit.
    Idle,
    /// Opcode and address: bits so far, their number.
    Instruction(u16, u8),
    /// Shifts out a word: address, bits still to come of it.
    Read(u8, u8),
    /// Takes a word: opcode and address, bits so far, their number.
    Write(u8, u16, u8),
    /// Programs when CS falls.
    Program(u8, u16),
    /// Ignores all until CS falls.
    Done,
}

/// Instruction bits after the start bit.
const INSTRUCTION: u8 = 8;

impl Eeprom {
    /// A card of device `id` with station address `mac`.
    pub(super) fn new(id: u16, mac: [u8; 6]) -> Eeprom {
        let mut words = [0xffff; WORDS];
        for (i, pair) in mac.as_chunks::<2>().0.iter().enumerate() {
            words[i] = u16::from_le_bytes(*pair);
        }
        // Compatibility.
        words[3] = 0x0000;
        for (at, v) in [
            (eeprom::INIT_CONTROL1, 0x640b),
            (eeprom::SUBSYSTEM_ID, id),
            (eeprom::SUBSYSTEM_VENDOR, VENDOR),
            (eeprom::DEVICE_ID, id),
            (eeprom::VENDOR_ID, VENDOR),
            // Autonegotiate; no software-defined pins.
            (eeprom::INIT_CONTROL2, 0x3040),
        ] {
            words[usize::from(at)] = v;
        }
        if id == ids::I82574L {
            // No manageability, and no wake-up.
            words[usize::from(eeprom::INIT_CONTROL2)] = 0;
            words[usize::from(eeprom::INIT_CONTROL3)] = 0;
        }
        let sum = words[..WORDS - 1].iter().fold(0u16, |s, w| s.wrapping_add(*w));
        words[WORDS - 1] = eeprom::SUM.wrapping_sub(sum);
        Eeprom { words, sk: false, cs: false, data_out: true, writable: false, state: State::Idle }
    }

    /// The station address in it.
    pub(super) fn mac(&self) -> [u8; 6] {
        let [a, b, c] =
            [self.words[0].to_le_bytes(), self.words[1].to_le_bytes(), self.words[2].to_le_bytes()];
        [a[0], a[1], b[0], b[1], c[0], c[1]]
    }

    /// A word as EERD reads it; beyond the end it reads as ones.
    pub(super) fn word(&self, at: u32) -> u16 {
        self.words.get(at as usize).copied().unwrap_or(0xffff)
    }

    /// Writes a word, as EEWR does.
    pub(super) fn put(&mut self, at: u32, v: u16) {
        if let Some(word) = self.words.get_mut(at as usize) {
            *word = v;
        }
    }

    /// The driver has written `eecd`.
    pub(super) fn pins(&mut self, eecd: u32) {
        let (sk, cs, di) = (eecd & SK != 0, eecd & CS != 0, eecd & DI != 0);
        if cs != self.cs {
            if !cs && let State::Program(code, v) = self.state {
                self.program(code, v);
            }
            self.state = State::Idle;
            self.data_out = true;
        } else if cs && sk && !self.sk {
            self.clock(di);
        }
        (self.sk, self.cs) = (sk, cs);
    }

    /// A rising edge of SK.
    fn clock(&mut self, di: bool) {
        let bit = u16::from(di);
        self.state = match self.state {
            State::Idle if di => State::Instruction(0, 0),
            State::Instruction(bits, n) => {
                let (bits, n) = (bits << 1 | bit, n + 1);
                if n < INSTRUCTION {
                    State::Instruction(bits, n)
                } else {
                    self.instruction(bits as u8)
                }
            }
            State::Read(address, left) => {
                let left = left - 1;
                self.data_out = self.words[usize::from(address)] >> left & 1 == 1;
                if left > 0 {
                    State::Read(address, left)
                } else {
                    State::Read((address + 1) % WORDS as u8, 16)
                }
            }
            State::Write(code, bits, n) => {
                let (bits, n) = (bits << 1 | bit, n + 1);
                if n < 16 { State::Write(code, bits, n) } else { State::Program(code, bits) }
            }
            other => other,
        };
    }

    fn instruction(&mut self, code: u8) -> State {
        match code >> 6 {
            0b10 => {
                self.data_out = false;
                State::Read(code & 0x3f, 16)
            }
            0b01 => State::Write(code, 0, 0),
            0b11 => State::Program(code, 0xffff),
            _ => match code >> 4 {
                0b01 => State::Write(code, 0, 0),
                0b10 => State::Program(code, 0xffff),
                enable => {
                    self.writable = enable == 0b11;
                    State::Done
                }
            },
        }
    }

    fn program(&mut self, code: u8, v: u16) {
        if !self.writable {
            return;
        }
        match code >> 6 {
            0 => self.words.fill(v),
            _ => self.words[usize::from(code & 0x3f)] = v,
        }
    }
}

#[cfg(test)]
mod tests;
