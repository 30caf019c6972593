//! The driver's writes, word by word, and pitfalls of the core, on a machine of
//! plain memory whose device takes what it is told and does nothing by itself.

mod anything;
mod counters;
mod device;
mod inherited;
mod limits;
mod moderation;
mod rx;
mod tx;

use super::*;
use crate::{Driver, Irq, Poll, Sink, Tx};
use alloc::boxed::Box;
use alloc::vec::Vec;
use doorbell_hal::{Alignment, Buf, Device, EventSource, Host as _, Port, Reg, RxVerdict, Time};
use doorbell_layout::axienet::{
    self as l, Descriptor, MM2S, S2MM, ability, cr, dma, int, line, mac, mdio, sr,
};
use doorbell_packet::{CsumPartial, Fragment, NonLinear, OffloadRequest, Packet};
use doorbell_testkit::DirectHost;

/// Registers that keep what is written, and a PHY that answers.
struct Board {
    mac: Vec<u32>,
    dma: Vec<u32>,
    /// (region, offset, value); a 64-bit write is one.
    writes: Vec<(u8, u32, u64)>,
    /// (region, offset).
    reads: Vec<(u8, u32)>,
    /// MDIO's clock was on when the core was reset.
    mdio_in_reset: bool,
    gone: bool,
    reset_hangs: bool,
    phy_reset_hangs: bool,
    mdio_dead: bool,
    phy: [u16; 32],
}

impl Board {
    fn new() -> Board {
        let mut phy = [0; 32];
        // Link, 100 Mbit/s full duplex on both sides.
        (phy[1], phy[2], phy[3], phy[4], phy[5]) = (1 << 2, 0x0141, 0x0cc2, 0x01e1, 0x01e1);
        let mut b = Board {
            mac: alloc::vec![0; 0x800 / 4],
            dma: alloc::vec![0; 0x60 / 4],
            writes: Vec::new(),
            reads: Vec::new(),
            mdio_in_reset: false,
            gone: false,
            reset_hangs: false,
            phy_reset_hangs: false,
            mdio_dead: false,
            phy,
        };
        b.mac[(mac::ABILITY / 4) as usize] = ability::STATISTICS;
        b.dma[(dma::SR / 4) as usize] = sr::HALTED;
        b.dma[((S2MM + dma::SR) / 4) as usize] = sr::HALTED;
        b
    }
    /// The values written to a register, in order.
    fn written(&self, region: u8, offset: u32) -> Vec<u64> {
        self.writes.iter().filter(|w| (w.0, w.1) == (region, offset)).map(|w| w.2).collect()
    }
    fn mac(&mut self, offset: u32) -> &mut u32 {
        &mut self.mac[(offset / 4) as usize]
    }
    fn dma(&mut self, channel: u32, r: u32) -> &mut u32 {
        &mut self.dma[((channel + r) / 4) as usize]
    }
}

impl EventSource for Board {
    fn next_due(&self) -> Option<Time> {
        None
    }
}

impl<P: Port> Device<P> for Board {
    fn mmio_read(&mut self, _: &mut P, _: Time, r: Reg, _: u8) -> u64 {
        self.reads.push((r.region, r.offset));
        if self.gone {
            return u64::MAX;
        }
        let at = (r.offset / 4) as usize;
        u64::from(match (r.region, r.offset) {
            (l::DMA, _) => {
                let v = self.dma[at];
                if r.offset % S2MM == dma::CR && !self.reset_hangs { v & !cr::RESET } else { v }
            }
            (_, mac::IS) if !self.phy_reset_hangs => self.mac[at] | int::PHY_RESET_COMPLETE,
            (_, mac::IP) => self.mac[(mac::IS / 4) as usize] & self.mac[(mac::IE / 4) as usize],
            (_, mac::MDIO_MCR) if !self.mdio_dead => self.mac[at] | mdio::READY,
            _ => self.mac[at],
        })
    }
    fn mmio_write(&mut self, _: &mut P, _: Time, r: Reg, _: u8, v: u64) {
        self.writes.push((r.region, r.offset, v));
        let (at, word) = ((r.offset / 4) as usize, v as u32);
        match (r.region, r.offset) {
            (l::DMA, o) if o % S2MM == dma::SR => self.dma[at] &= !(word & sr::IRQ_ALL),
            (l::DMA, o) => {
                if o == dma::CR && word & cr::RESET != 0 {
                    self.mdio_in_reset |= *self.mac(mac::MDIO_MC) & mdio::ENABLE != 0;
                    // The MAC is reset with it, its counters too.
                    self.mac[0x200 / 4..0x400 / 4].fill(0);
                }
                self.dma[at] = word;
            }
            (_, mac::IS) => self.mac[at] &= !word,
            (_, mac::MDIO_MCR) if word & mdio::INITIATE != 0 => {
                let n = (word >> mdio::REG_SHIFT & 31) as usize;
                if word & mdio::WRITE != 0 {
                    self.phy[n] = *self.mac(mac::MDIO_MWD) as u16;
                } else {
                    *self.mac(mac::MDIO_MRD) = self.phy[n].into();
                }
                self.mac[at] = word;
            }
            _ => self.mac[at] = word,
        }
    }
    fn receive(&mut self, _: &mut P, _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Yes
    }
    fn advance(&mut self, _: &mut P, _: Time) {}
    fn reset(&mut self, _: &mut P, _: Time) {}
}

type Host = DirectHost<Board>;

#[derive(Default)]
struct Up {
    sent: Vec<(Buf, u32, bool)>,
    received: Vec<(Packet, bool)>,
}
impl Sink for Up {
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        self.sent.push((b, cookie, last));
    }
    fn received(&mut self, p: Packet, verified: bool) {
        self.received.push((p, verified));
    }
}

const MAC: [u8; 6] = [0x02, 0x11, 0x22, 0x33, 0x44, 0x55];

fn config() -> Config {
    Config { rx_ring: 8, ..Config::new(MAC) }
}
fn open_with(change: impl FnOnce(&mut Config)) -> (Host, Axienet) {
    let mut h = DirectHost::new(16 << 20, Board::new());
    let mut c = config();
    change(&mut c);
    let nic = Axienet::open(&mut h, &c, c.net_dim()).unwrap();
    (h, nic)
}
fn open() -> (Host, Axienet) {
    open_with(|_| {})
}

/// Returns the ring address written to a channel.
fn ring(h: &Host, channel: u32) -> u64 {
    *h.device.written(l::DMA, channel + dma::CURDESC).last().unwrap()
}
/// Word `word` of descriptor `i`.
fn word(h: &mut Host, channel: u32, i: u32, word: u32) -> u32 {
    let at = ring(h, channel) + u64::from(i * 64 + word);
    u32::from_le_bytes(h.port.at(at, 4).try_into().unwrap())
}
fn set_word(h: &mut Host, channel: u32, i: u32, word: u32, v: u32) {
    let at = ring(h, channel) + u64::from(i * 64 + word);
    h.port.at(at, 4).copy_from_slice(&v.to_le_bytes());
}
/// Returns the index of the descriptor in TAILDESC.
fn tail(h: &Host, channel: u32) -> Option<u64> {
    let at = *h.device.written(l::DMA, channel + dma::TAILDESC).last()?;
    Some((at - ring(h, channel)) / 64)
}
fn rings(h: &Host, channel: u32) -> usize {
    h.device.written(l::DMA, channel + dma::TAILDESC).len()
}
fn packet(h: &mut Host, bytes: &[u8]) -> Packet {
    let b = h.buffer(bytes.len() as u32, Alignment { align: 64, offset: 2 }).unwrap();
    h.bytes_mut(&b, 0..b.len(), |to| to.copy_from_slice(bytes));
    Packet::linear(Fragment::whole(b))
}
/// A packet of `n` pieces.
fn pieces(h: &mut Host, n: usize) -> Packet {
    let mut p = packet(h, &[1; 60]);
    let frags: Vec<Fragment> = (1..n).map(|i| packet(h, &[i as u8 + 1; 20]).head).collect();
    p.more = (!frags.is_empty()).then(|| Box::new(NonLinear { frags, list: Vec::new() }));
    p
}
/// The device has sent descriptor `i`.
fn sent(h: &mut Host, i: u32) {
    let len = word(h, MM2S, i, Descriptor::CONTROL_AT) & Descriptor::LENGTH;
    set_word(h, MM2S, i, Descriptor::STATUS_AT, Descriptor::CMPLT | len);
}
/// The device puts a frame into descriptor `i`.
fn arrive(h: &mut Host, i: u32, frame: &[u8], app2: u32, sum: u16) {
    let at = u64::from(word(h, S2MM, i, Descriptor::BUFFER_AT));
    h.port.at(at, frame.len()).copy_from_slice(frame);
    put_frame(
        h,
        i,
        frame.len() as u32,
        [0, 0, app2, sum.into()],
        Descriptor::SOF | Descriptor::EOF,
    );
}
fn put_frame(h: &mut Host, i: u32, len: u32, app: [u32; 4], flags: u32) {
    for (n, v) in app.into_iter().chain([len]).enumerate() {
        set_word(h, S2MM, i, Descriptor::APP_AT + 4 * n as u32, v);
    }
    set_word(h, S2MM, i, Descriptor::STATUS_AT, Descriptor::CMPLT | flags | len);
}
/// The channel interrupts.
fn interrupt(h: &mut Host, nic: &mut Axienet, channel: u32, bits: u32) -> Irq {
    *h.device.dma(channel, dma::SR) |= bits;
    nic.interrupt(h, if channel == MM2S { line::TX } else { line::RX })
}
