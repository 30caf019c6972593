//! Any register accesses, ring contents, frames and times, and a driver that knows the rules: the
//! e1000 model does not panic, comes to rest, touches memory only through its port, in order of
//! time, and CTRL.RST brings it back.

use super::e1000_guest::{self, Act, CONTEXT, Driver, LEGACY_SUM, Machine, STATION, known};
use super::{Bytes, Frame, Memory, Seed, input, next, seed};
use arbitrary::Unstructured;
use doorbell_devices::e1000::{Config, Counters, E1000};
use doorbell_hal::{Device, EventSource, Reg, Span, Time};
use doorbell_layout::e1000::{
    CTRL_RFCE, CTRL_RST, CTRL_TFCE, CTRL_VME, DCTL_GRAN, DD, MRQC_IPV4, MRQC_IPV6, MRQC_RSS,
    RCTL_DTYP_SPLIT, RCTL_LBM_MAC, RCTL_LPE, RCTL_MPE, RCTL_UPE, RCTL_VFE, RFCTL_EXTEN,
    RXCSUM_IPOFL, RXCSUM_PCSD, RXCSUM_TUOFL, reg, tx_word,
};

input! {
    /// An action of the guest, or of the world.
    pub enum Action {
        /// The driver acts.
        Driver {
            /// The act.
            act: Act,
        },
        /// A frame arrives.
        Receive {
            /// The frame.
            frame: Frame,
        },
        /// Any frame arrives.
        ReceiveRaw {
            /// Its length,
            len: u16,
            /// its beginning,
            head: Bytes,
            /// and the rest.
            fill: u8,
        },
        /// Time passes.
        Wait {
            /// Nanoseconds.
            ns: u32,
        },
        /// The cable is pulled or put in.
        Cable {
            /// Put in.
            plugged: bool,
        },
        /// Any access of 4 bytes to region 0.
        Write {
            /// The register's number.
            register: u16,
            /// The value.
            value: u32,
        },
        /// A read of any width.
        Read {
            /// The region.
            region: u8,
            /// The offset.
            offset: u16,
            /// The width.
            size: u8,
        },
        /// A write of any width.
        Odd {
            /// The region.
            region: u8,
            /// The offset.
            offset: u16,
            /// The width.
            size: u8,
            /// The value.
            value: u64,
        },
        /// Any bytes in guest memory.
        Poke {
            /// The place.
            at: u16,
            /// The bytes.
            bytes: Bytes,
        },
    }
}

struct Harness {
    d: E1000,
    p: Memory,
    now: Time,
}

impl Harness {
    /// Lets the device do all that it has to do, which must come to an end.
    fn drain(&mut self) {
        let mut steps = 0u32;
        while let Some(due) = self.d.next_due() {
            self.now = self.now.max(due);
            self.d.advance(&mut self.p, self.now);
            assert!(self.d.next_due().is_none_or(|t| t > self.now), "what was due has been done");
            steps += 1;
            assert!(steps < 10_000_000, "it goes on for ever");
        }
    }
}

impl Machine for Harness {
    fn write(&mut self, register: u32, v: u32) {
        self.d.mmio_write(&mut self.p, self.now, Reg::at(register), 4, v.into());
    }
    fn read(&mut self, register: u32) {
        self.d.advance(&mut self.p, self.now);
        self.d.mmio_read(&mut self.p, self.now, Reg::at(register), 4);
    }
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.p.put(at, bytes);
    }
}

/// Attacks a device as `input` says. Returns the device's counters.
///
/// # Panics
/// Panics if it lets itself be harmed.
pub fn attack(input: &[u8]) -> Counters {
    let mut u = Unstructured::new(input);
    let mut head = || u.arbitrary::<u8>().unwrap_or(0);
    let (card, how) = (head(), head());
    let cards = [Config::I82540EM, Config::I82544GC, Config::I82545EM, Config::I82574L];
    let cfg = cards[usize::from(card) % cards.len()];
    let negotiation = if how & 8 != 0 { Span::from_us(50) } else { Span::ZERO };
    let cfg = Config { errata: how & 16 == 0, read_across: how & 32 == 0, negotiation, ..cfg };
    let mut p = Memory::new(1);
    p.wraps = how & 1 != 0;
    p.racing = (how & 2 != 0).then_some(how);
    p.price = Span::from_ns(if how & 4 != 0 { 700 } else { 0 });
    let mut b = Harness { d: E1000::new(cfg), p, now: Time::ZERO };
    let mut driver = Driver::new();
    while let Some(action) = next(&mut u) {
        match action {
            Action::Driver { act } => driver.act(&mut b, &act),
            Action::Receive { frame } => {
                b.d.advance(&mut b.p, b.now);
                b.d.receive(&mut b.p, b.now, &frame.bytes(STATION, 16 << 10));
            }
            Action::ReceiveRaw { len, head, fill } => {
                b.d.advance(&mut b.p, b.now);
                let mut frame = vec![fill; usize::from(len)];
                frame.iter_mut().zip(&head.0).for_each(|(to, from)| *to = *from);
                b.d.receive(&mut b.p, b.now, &frame);
            }
            Action::Wait { ns } => {
                b.now += Span::from_ns(u64::from(ns) % 10_000_000);
                b.d.advance(&mut b.p, b.now);
            }
            Action::Cable { plugged } => b.d.set_cable(b.now, plugged),
            Action::Write { register, value } => b.write(u32::from(register & 0x7fff) * 4, value),
            Action::Read { region, offset, size } => {
                b.d.advance(&mut b.p, b.now);
                let r = Reg { region: region % 3, offset: offset.into() };
                b.d.mmio_read(&mut b.p, b.now, r, 1 << (size & 3));
            }
            Action::Odd { region, offset, size, value } => {
                let r = Reg { region: region % 3, offset: offset.into() };
                b.d.mmio_write(&mut b.p, b.now, r, 1 << (size & 3), value);
            }
            Action::Poke { at, bytes } => b.p.put(at.into(), &bytes.0),
        }
        assert!(b.d.next_due().is_none_or(|t| t >= b.now), "nothing is overdue");
    }
    b.drain();
    let counters = b.d.counters;
    assert!(b.p.frames <= counters.tx_packets + counters.pauses_sent, "each frame is counted");
    assert_eq!(b.p.interrupts, counters.interrupts);
    b.write(reg::CTRL, CTRL_RST);
    assert!(!b.p.lines[0] && !b.d.line(), "the line is low after a reset");
    b.drain();
    let before = b.p.accesses;
    b.d.advance(&mut b.p, b.now + Span::from_ms(100));
    assert_eq!(b.p.accesses, before, "no DMA after a reset");
    counters
}

/// Returns what the driver does to get somewhere: each part of the device by at least one.
pub fn seeds() -> Vec<Seed> {
    use e1000_guest::Act::{Descriptor, Eeprom, Look, Mdio, Post, Register, Send, SendLarge, Up};
    let tcp = Frame::new(0, 300);
    let udp6 = Frame::new(Frame::V6 | Frame::UDP, 200);
    let up = |ctrl, rctl| Up { ctrl, rctl, tctl: 0, mask: !0, size: 15 };
    let set = |register, value| Register { index: known(register), more: 0, value };
    let wait = Action::Wait { ns: 1_000_000 };
    let make = |head: [u8; 2], acts: &[Act], more: &[Action]| {
        let acts = acts.iter().map(|act| Action::Driver { act: act.clone() });
        let all: Vec<Action> =
            acts.chain([wait.clone()]).chain(more.iter().cloned()).chain([wait.clone()]).collect();
        seed(&head, &all)
    };
    let send = |frame, how| Send { frame, how, command: 0 };
    let large = |frame, how| SendLarge { frame, how, command: 0, mss: 1000, at: 0, bits: 0 };
    let receive = |frame| Action::Receive { frame };
    vec![
        (
            "transmit",
            make(
                [0, 0],
                &[
                    up(CTRL_VME, 0),
                    send(tcp, 0),
                    send(tcp, LEGACY_SUM),
                    send(udp6, CONTEXT | 3 << 2),
                    Send { frame: tcp, how: 4, command: (tx_word::VLE >> 24) as u8 },
                    // With the driver's own FCS, which is wrong.
                    Send { frame: tcp, how: 0, command: (tx_word::IFCS >> 24) as u8 },
                    send(Frame::new(Frame::PLAIN, 9), 0),
                ],
                &[],
            ),
        ),
        (
            "segments",
            make(
                [0, 4 | 16],
                &[
                    up(0, 0),
                    large(Frame::new(0, 4000), 0),
                    large(Frame::new(Frame::V6, 5000), 2 << 2),
                    large(Frame::new(Frame::UDP, 3000), 1 << 2),
                    // More payload than PAYLEN says, and a header beyond the frame.
                    SendLarge {
                        frame: Frame::new(0, 4000),
                        how: 0,
                        command: 0,
                        mss: 500,
                        at: 8,
                        bits: 0xff,
                    },
                    SendLarge {
                        frame: Frame::new(0, 40),
                        how: 0,
                        command: 0,
                        mss: 500,
                        at: 13,
                        bits: 0x80,
                    },
                    SendLarge { frame: tcp, how: 0, command: 0, mss: 0, at: 0, bits: 0 },
                ],
                &[],
            ),
        ),
        (
            "report_sent",
            make(
                [1, 0],
                &[
                    up(0, 0),
                    Send { frame: tcp, how: 0, command: (tx_word::RPS >> 24) as u8 },
                    Descriptor { low: 0x3000, high: u64::from(tx_word::DEXT | 3 << 20 | 60) },
                    // A packet beyond the FIFO.
                    set(reg::PBA, 60),
                    send(Frame::new(0, 9000), 0),
                ],
                &[],
            ),
        ),
        (
            "held_back",
            make(
                [2, 4],
                &[
                    up(0, 0),
                    set(reg::TXDCTL, 4 << 16 | DCTL_GRAN | 1 << 25),
                    set(reg::RXDCTL, 4 << 16 | DCTL_GRAN),
                    set(reg::TIDV, 20),
                    set(reg::TADV, 30),
                    set(reg::RDTR, 20),
                    set(reg::RADV, 30),
                    set(reg::ITR, 200),
                    Post { n: 20 },
                    Send { frame: tcp, how: 0, command: (tx_word::IDE >> 24) as u8 },
                    send(tcp, 0),
                ],
                &[receive(tcp), receive(udp6), wait.clone(), receive(tcp)],
            ),
        ),
        (
            "receive",
            make(
                [0, 0],
                &[
                    up(CTRL_VME, RCTL_LPE | RCTL_MPE),
                    set(reg::RXCSUM, RXCSUM_IPOFL | RXCSUM_TUOFL | 14),
                    set(reg::RSRPD, 100),
                    Post { n: 12 },
                ],
                &[
                    receive(tcp),
                    receive(Frame { kind: Frame::V6, payload: 40, at: 60, bits: 1 }),
                    receive(Frame { kind: Frame::DAMAGED, payload: 100, at: 50, bits: 4 }),
                    receive(Frame::new(Frame::MULTICAST | Frame::TAGGED, 100)),
                    receive(Frame::new(Frame::BROADCAST | Frame::PLAIN, 9)),
                    receive(Frame::new(0, 5000)),
                    Action::ReceiveRaw { len: 20_000, head: Bytes(STATION.to_vec()), fill: 3 },
                ],
            ),
        ),
        (
            "filters",
            make(
                [0, 0],
                &[
                    up(0, RCTL_VFE | RCTL_UPE),
                    Register { index: known(reg::MTA), more: 0, value: 1 },
                    Register { index: known(reg::VFTA), more: 0, value: 1 << 5 },
                    Post { n: 31 },
                ],
                &[
                    receive(tcp),
                    receive(Frame::new(Frame::TAGGED, 60)),
                    receive(Frame::new(Frame::STRANGER, 60)),
                    receive(Frame::new(Frame::MULTICAST, 60)),
                ],
            ),
        ),
        (
            "pauses",
            make(
                [0, 0],
                &[
                    up(CTRL_RFCE | CTRL_TFCE, RCTL_LPE),
                    set(reg::FCAL, 0x00c2_8001),
                    set(reg::FCAH, 0x0100),
                    set(reg::FCT, 0x8808),
                    set(reg::FCTTV, 100),
                    set(reg::FCRTH, 0x1000),
                    set(reg::FCRTL, 1 << 31 | 0x800),
                ],
                &[
                    receive(Frame::new(Frame::PAUSE, 200)),
                    receive(Frame::new(0, 3000)),
                    receive(Frame::new(0, 3000)),
                    Action::Driver { act: send(tcp, 0) },
                    Action::Driver { act: Post { n: 31 } },
                ],
            ),
        ),
        (
            "loopback",
            make(
                [0, 0],
                &[up(0, RCTL_LBM_MAC), Post { n: 7 }, send(tcp, 0), Look { index: 43, n: 60 }],
                &[],
            ),
        ),
        (
            "parts",
            make(
                [0, 8],
                &[
                    up(0, 0),
                    Mdio { register: 1, value: 0, write: false },
                    Mdio { register: 0, value: 0x9200, write: true },
                    Eeprom { instruction: 0x80, data: 0 },
                    Eeprom { instruction: 0x30, data: 0 },
                    Eeprom { instruction: 0x41, data: 0x1234 },
                    Eeprom { instruction: 0x10, data: 7 },
                    set(reg::EERD, 0x101),
                    Look { index: 0, n: 63 },
                ],
                &[Action::Cable { plugged: false }, wait.clone(), Action::Cable { plugged: true }],
            ),
        ),
        (
            "two_queues",
            make(
                [3, 0],
                &[
                    up(0, 0),
                    set(reg::RFCTL, RFCTL_EXTEN),
                    set(reg::RXCSUM, RXCSUM_PCSD),
                    set(reg::RDBAL1, 0x2000),
                    set(reg::RDLEN1, 512),
                    set(reg::TDBAL1, 0x1000),
                    set(reg::TDLEN1, 512),
                    set(reg::MRQC, MRQC_RSS | MRQC_IPV4 | MRQC_IPV6),
                    set(reg::RSSRK, 0),
                    // The hash of this key is 0, and chooses queue 1.
                    Register { index: known(reg::RETA), more: 0, value: !0 },
                    Register { index: known(reg::RETA), more: 31, value: 0x8080_8080 },
                    Post { n: 12 },
                    set(reg::RDT1, 12),
                    send(tcp, e1000_guest::HOLD),
                    set(reg::TDT1, 1),
                ],
                &[receive(tcp), receive(udp6), receive(Frame::new(Frame::PLAIN, 100))],
            ),
        ),
        (
            "split",
            make(
                [3, 0],
                &[
                    up(0, RCTL_LPE | RCTL_DTYP_SPLIT),
                    set(reg::RFCTL, RFCTL_EXTEN),
                    set(reg::PSRCTL, 1 | 1 << 8 | 1 << 16 | 1 << 24),
                    Post { n: 30 },
                ],
                &[receive(tcp), receive(Frame::new(0, 5000)), receive(udp6)],
            ),
        ),
        (
            "fault",
            make(
                [0, 0],
                &[up(0, 0), Descriptor { low: 1 << 40, high: u64::from(tx_word::EOP | 60) }],
                &[
                    Action::Poke { at: 0x1000, bytes: Bytes(vec![DD; 64]) },
                    Action::Odd { region: 1, offset: 0, size: 2, value: 8 },
                    Action::Read { region: 1, offset: 4, size: 2 },
                ],
            ),
        ),
    ]
}
