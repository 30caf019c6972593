//! A guest's driver of an 8254x in few bytes: rings, frames with their descriptors, the PHY and the
//! EEPROM. It knows the rules and breaks them where the input says so.

use super::{Frame, input};
use doorbell_layout::e1000::tx_word::{DEXT, DTYP_DATA, EOP, IFCS, IP, RS, TCP, TSE};
use doorbell_layout::e1000::{
    CTRL_SLU, ContextTx, DataTx, EECD_CS, EECD_DI, EECD_REQ, EECD_SK, MDIC_OP_READ, MDIC_OP_WRITE,
    MDIC_PHY_SHIFT, MDIC_REG_SHIFT, RCTL_BAM, RCTL_EN, RCTL_SECRC, RCTL_UPE, TCTL_EN, TCTL_PSP,
    phy, reg,
};
use doorbell_packet::headers::{Ip, Layers, prepare_partial};
use zerocopy::IntoBytes;

/// Places in memory: rings of up to 64 descriptors, data to be sent, receive buffers.
const TX_RING: u32 = 0x1000;
const RX_RING: u32 = 0x2000;
const DATA: u32 = 0x3000;
const BUFFERS: u32 = 0x8000;
/// The longest payload.
const MOST: usize = 16 << 10;
/// The station's address in the EEPROM.
pub(crate) const STATION: [u8; 6] = [0x00, 0x0e, 0x0c, 0x82, 0x54, 0x01];

/// The machine under the driver.
pub(crate) trait Machine {
    /// Writes a register of 4 bytes.
    fn write(&mut self, register: u32, v: u32);
    /// Reads a register of 4 bytes.
    fn read(&mut self, register: u32);
    /// Writes guest memory.
    fn put(&mut self, at: usize, bytes: &[u8]);
}

/// Registers by index: those that do something, and the first of each table.
const KNOWN: [u32; 70] = [
    reg::CTRL,
    reg::STATUS,
    reg::EECD,
    reg::EERD,
    reg::CTRL_EXT,
    reg::MDIC,
    reg::FCAL,
    reg::FCAH,
    reg::FCT,
    reg::VET,
    reg::ICR,
    reg::ITR,
    reg::ICS,
    reg::IMS,
    reg::IMC,
    reg::RCTL,
    reg::FCTTV,
    reg::TCTL,
    reg::PBA,
    reg::FCRTL,
    reg::FCRTH,
    reg::RDBAL,
    reg::RDBAH,
    reg::RDLEN,
    reg::RDH,
    reg::RDT,
    reg::RDTR,
    reg::RXDCTL,
    reg::RADV,
    reg::RSRPD,
    reg::TDBAL,
    reg::TDBAH,
    reg::TDLEN,
    reg::TDH,
    reg::TDT,
    reg::TIDV,
    reg::TXDCTL,
    reg::TADV,
    reg::RXCSUM,
    reg::RAL0,
    reg::RAH0,
    reg::MTA,
    reg::VFTA,
    reg::stat::GORCH,
    // Of the 82574 alone.
    reg::EIAC,
    reg::IAM,
    reg::IVAR,
    reg::EITR,
    reg::RFCTL,
    reg::EEWR,
    reg::SWSM,
    reg::EXTCNF_CTRL,
    reg::stat::IAC,
    reg::RDBAL1,
    reg::RDLEN1,
    reg::RDH1,
    reg::RDT1,
    reg::RXDCTL1,
    reg::TDBAL1,
    reg::TDLEN1,
    reg::TDH1,
    reg::TDT1,
    reg::TXDCTL1,
    reg::TARC0,
    reg::TARC1,
    reg::MRQC,
    reg::RETA,
    reg::RSSRK,
    reg::PSRCTL,
    reg::CTRL_DUP,
];

/// Returns the index of a register in [`KNOWN`].
pub(crate) fn known(register: u32) -> u8 {
    KNOWN.iter().position(|r| *r == register).expect("a register of the table") as u8
}

input! {
    /// An action of the driver.
    pub enum Act {
        /// Switches all on; the values are changes of the usual ones.
        Up {
            /// Changes CTRL.
            ctrl: u32,
            /// Changes RCTL.
            rctl: u32,
            /// Changes TCTL.
            tctl: u32,
            /// Interrupts.
            mask: u32,
            /// Sizes of the rings: two bits each.
            size: u8,
        },
        /// Writes a register of the table.
        Register {
            /// Index.
            index: u8,
            /// Added to its offset, in registers.
            more: u8,
            /// Value.
            value: u32,
        },
        /// Reads registers, from one of the table on.
        Look {
            /// Index.
            index: u8,
            /// Their number.
            n: u8,
        },
        /// Gives receive buffers to the device.
        Post {
            /// Their number.
            n: u8,
        },
        /// Sends a frame.
        Send {
            /// The frame.
            frame: Frame,
            /// Offloads, pieces, doorbell: bits.
            how: u8,
            /// Changes the command.
            command: u8,
        },
        /// Sends one that the device cuts.
        SendLarge {
            /// The frame.
            frame: Frame,
            /// Pieces, doorbell: bits.
            how: u8,
            /// Changes the command.
            command: u8,
            /// Payload of a segment.
            mss: u16,
            /// A byte of the context,
            at: u8,
            /// and its change.
            bits: u8,
        },
        /// Sends any descriptor.
        Descriptor {
            /// The first half.
            low: u64,
            /// The second.
            high: u64,
        },
        /// Reads or writes a register of the PHY.
        Mdio {
            /// Register.
            register: u8,
            /// Value.
            value: u16,
            /// Writes.
            write: bool,
        },
        /// Clocks an instruction of 9 bits and 16 more into the EEPROM.
        Eeprom {
            /// The instruction, behind its start bit.
            instruction: u8,
            /// The other bits.
            data: u16,
        },
    }
}

/// [`Act::Send`]: without checksum, by the legacy descriptor, by a context, without FCS.
pub(crate) const LEGACY_SUM: u8 = 1;
pub(crate) const CONTEXT: u8 = 2;
/// No doorbell.
pub(crate) const HOLD: u8 = 0x80;

/// The driver's own state.
#[derive(Debug)]
pub(crate) struct Driver {
    tail: u32,
    tx: u32,
    rx: u32,
}

impl Driver {
    pub(crate) fn new() -> Driver {
        Driver { tail: 0, tx: 8, rx: 8 }
    }

    pub(crate) fn act(&mut self, m: &mut impl Machine, a: &Act) {
        match a {
            Act::Up { ctrl, rctl, tctl, mask, size } => {
                (self.tail, self.tx, self.rx) = (0, 8 << (size & 3), 8 << (size >> 2 & 3));
                for (r, v) in [
                    (reg::CTRL, CTRL_SLU ^ ctrl),
                    (reg::TDBAL, TX_RING),
                    (reg::TDLEN, self.tx * 16),
                    (reg::TDH, 0),
                    (reg::TDT, 0),
                    (reg::RDBAL, RX_RING),
                    (reg::RDLEN, self.rx * 16),
                    (reg::IMS, *mask),
                    (reg::TCTL, (TCTL_EN | TCTL_PSP) ^ tctl),
                    (reg::RCTL, (RCTL_EN | RCTL_BAM | RCTL_UPE | RCTL_SECRC) ^ rctl),
                ] {
                    m.write(r, v);
                }
            }
            Act::Register { index, more, value } => {
                let r = KNOWN[usize::from(*index) % KNOWN.len()] + u32::from(*more) * 4;
                m.write(r, *value);
            }
            Act::Look { index, n } => {
                let first = KNOWN[usize::from(*index) % KNOWN.len()];
                (0..u32::from(n & 63)).for_each(|i| m.read(first + i * 4));
            }
            Act::Post { n } => {
                for i in 0..self.rx {
                    let buffer = u64::from(BUFFERS + i % 16 * 2048);
                    m.put((RX_RING + i * 16) as usize, &buffer.to_le_bytes());
                }
                m.write(reg::RDT, u32::from(*n) % self.rx);
            }
            Act::Send { frame, how, command } => {
                let mut bytes = frame.bytes(STATION, MOST);
                let mut high = u64::from((EOP | IFCS | RS) ^ u32::from(*command) << 24);
                let offload = if how & 3 != 0 { prepare_partial(&mut bytes) } else { None };
                let mut options = 0;
                if let Some(partial) = offload {
                    let (start, field) = (partial.start as u8, partial.field() as u8);
                    if how & CONTEXT != 0 {
                        let word = (DEXT | TCP).into();
                        let (tucss, tucso) = (start, field);
                        let c = ContextTx { tucss, tucso, word, ..ContextTx::default() };
                        self.put(m, c.as_bytes());
                        high |= u64::from(DEXT | DTYP_DATA);
                        options = DataTx::TXSM;
                    } else {
                        high |= u64::from(TSE | u32::from(field) << 16);
                        options = start;
                    }
                }
                self.describe(m, &bytes, high | u64::from(options) << 40, *how);
            }
            Act::SendLarge { frame, how, command, mss, at, bits } => {
                let mut bytes = frame.bytes(STATION, MOST);
                let Some(c) = large_send(&mut bytes, *mss) else { return };
                let mut context: [u8; 16] = c.as_bytes().try_into().expect("16 bytes");
                context[usize::from(at & 15)] ^= bits;
                self.put(m, &context);
                let v4 = c.word.get() & IP != 0;
                let options = DataTx::TXSM | if v4 { DataTx::IXSM } else { 0 };
                let word = (EOP | IFCS | RS | TSE | DEXT | DTYP_DATA) ^ u32::from(*command) << 24;
                self.describe(m, &bytes, u64::from(word) | u64::from(options) << 40, *how);
            }
            Act::Descriptor { low, high } => {
                self.put(m, &(u128::from(*high) << 64 | u128::from(*low)).to_le_bytes());
                m.write(reg::TDT, self.tail);
            }
            Act::Mdio { register, value, write } => {
                let op = if *write { MDIC_OP_WRITE } else { MDIC_OP_READ };
                let register = u32::from(register & 31) << MDIC_REG_SHIFT;
                let v = op | phy::ADDRESS << MDIC_PHY_SHIFT | register | u32::from(*value);
                m.write(reg::MDIC, v);
            }
            Act::Eeprom { instruction, data } => {
                m.write(reg::EECD, EECD_REQ);
                let bits = 1 << 24 | u32::from(*instruction) << 16 | u32::from(*data);
                for i in (0..25).rev() {
                    let pins = EECD_REQ | EECD_CS | if bits >> i & 1 == 1 { EECD_DI } else { 0 };
                    m.write(reg::EECD, pins);
                    m.write(reg::EECD, pins | EECD_SK);
                    m.read(reg::EECD);
                }
                m.write(reg::EECD, EECD_REQ);
            }
        }
    }

    /// Writes the next transmit descriptor.
    fn put(&mut self, m: &mut impl Machine, descriptor: &[u8]) {
        m.put((TX_RING + self.tail * 16) as usize, descriptor);
        self.tail = (self.tail + 1) % self.tx;
    }

    /// Writes a frame and its descriptors, and rings.
    fn describe(&mut self, m: &mut impl Machine, bytes: &[u8], high: u64, how: u8) {
        let at = DATA + self.tail % 8 * 0x800;
        m.put(at as usize, bytes);
        let pieces = usize::from(how >> 2 & 7) + 1;
        let each = bytes.len().div_ceil(pieces).max(1);
        for (i, piece) in bytes.chunks(each).enumerate() {
            let last = (i + 1) * each >= bytes.len();
            let high = if last { high } else { high & !u64::from(EOP | RS) };
            let address = u64::from(at) + (i * each) as u64;
            let d = u128::from(high | piece.len() as u64) << 64 | u128::from(address);
            self.put(m, &d.to_le_bytes());
        }
        if how & HOLD == 0 {
            m.write(reg::TDT, self.tail);
        }
    }
}

/// Prepares the headers of a large send as the part wants them: no lengths, and the sum of a
/// pseudo-header without length. Returns the context.
fn large_send(f: &mut [u8], mss: u16) -> Option<ContextTx> {
    let l = Layers::of(f).ok()?;
    let tcp = prepare_partial(f)?.offset == 16;
    let (l3, l4) = (usize::from(l.l3), usize::from(l.l4));
    let v4 = l.ip == Ip::V4;
    let lengths = if v4 { [l3 + 2..l3 + 4, l3 + 10..l3 + 12] } else { [l3 + 4..l3 + 6, 0..0] };
    lengths.into_iter().for_each(|field| f[field].fill(0));
    let field = l4 + if tcp { 16 } else { 6 };
    let sum = l.pseudo_header(f, 0).value();
    f[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    let payload = (f.len() - usize::from(l.end)) as u32;
    let word = payload | DEXT | TSE | if tcp { TCP } else { 0 } | if v4 { IP } else { 0 };
    Some(ContextTx {
        ipcss: l.l3 as u8,
        ipcso: l.l3 as u8 + 10,
        ipcse: if v4 { l.l4 - 1 } else { 0 }.into(),
        tucss: l.l4 as u8,
        tucso: field as u8,
        tucse: 0.into(),
        word: word.into(),
        status: 0,
        hdrlen: l.end as u8,
        mss: mss.into(),
    })
}
