//! Any register accesses, rings, frames and times, and a driver that knows the rules: the AXI
//! Ethernet and AXI DMA model does not panic, does no more in a time than it has clocks for,
//! touches memory only through its port, in order of time, and the reset bit of a channel brings it
//! back.

use super::{Bytes, Frame, Memory, Seed, input, next, seed};
use arbitrary::Unstructured;
use doorbell_devices::axi_ethernet::{AxiEthernet, Checksum, Config, Counters};
use doorbell_hal::{Device, EventSource, Reg, Span, Time};
use doorbell_layout::axienet::{
    DMA, Descriptor, MAC, MM2S, S2MM, cr, dma, emmc, fmi, mac, rcw1, tc, tx_app,
};
use doorbell_packet::headers::prepare_partial;
use zerocopy::{FromZeros, IntoBytes};

/// Rings of 16 descriptors, data to be sent, receive buffers.
const TX_RING: u32 = 0x1000;
const RX_RING: u32 = 0x2000;
const RING: u32 = 16;
const DATA: u32 = 0x3000;
const BUFFERS: u32 = 0x8000;
/// The station's address.
const STATION: [u8; 6] = [0x02, 0, 0, 0x0a, 0x35, 1];
/// The longest payload.
const MOST: usize = 16 << 10;

input! {
    /// An action of the guest, or of the world.
    pub enum Action {
        /// Links both rings and starts the channels and the MAC.
        Up {
            /// Threshold and delay of both channels' interrupts.
            threshold: u8,
            /// See there.
            delay: u8,
            /// Changes the transmitter's configuration.
            tc: u32,
            /// Changes the receiver's.
            rcw1: u32,
            /// Promiscuous.
            all: bool,
        },
        /// Sends a frame.
        Send {
            /// The frame.
            frame: Frame,
            /// Offload and pieces, 4 bits each.
            how: u8,
            /// Changes the flags of the descriptors.
            flags: u8,
        },
        /// Gives receive buffers.
        Post {
            /// Their number.
            n: u8,
            /// Their size.
            len: u16,
        },
        /// Reads all registers of MAC and engine, from one on.
        Look {
            /// The first of the MAC's.
            first: u16,
            /// Their number.
            n: u8,
        },
        /// Writes a register of the DMA engine.
        Engine {
            /// The register.
            register: u8,
            /// The value.
            value: u32,
        },
        /// Writes a register of the MAC.
        Mac {
            /// The register.
            register: u16,
            /// The value.
            value: u32,
        },
        /// Uses a register of the PHY.
        Mdio {
            /// The register.
            register: u8,
            /// The value.
            value: u16,
            /// Writes.
            write: bool,
        },
        /// A frame arrives.
        Receive {
            /// The frame.
            frame: Frame,
        },
        /// Any bytes arrive.
        ReceiveRaw {
            /// Their length,
            len: u16,
            /// their beginning.
            head: Bytes,
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
        /// Any bytes in memory.
        Poke {
            /// The place.
            at: u16,
            /// The bytes.
            bytes: Bytes,
        },
        /// An access of any width.
        Odd {
            /// The region.
            region: u8,
            /// The offset.
            offset: u16,
            /// The width.
            size: u8,
            /// Writes this.
            value: u32,
        },
    }
}

struct Harness {
    d: AxiEthernet,
    p: Memory,
    now: Time,
    tx: u32,
}

impl Harness {
    fn write(&mut self, region: u8, offset: u32, v: u32) {
        self.d.mmio_write(&mut self.p, self.now, Reg { region, offset }, 4, v.into());
    }

    /// Lets it work for a while: it has so many clocks of 8 ns, and ten a descriptor.
    fn work(&mut self, span: Span) {
        let before = self.p.accesses;
        self.now += span;
        self.d.advance(&mut self.p, self.now);
        assert!(self.d.next_due().is_none_or(|t| t > self.now), "what was due has been done");
        let most = span.ps() / 8000 + 100;
        assert!(self.p.accesses - before <= most, "more than it has time for");
    }

    fn up(&mut self, threshold: u8, delay: u8, tc_bits: u32, rcw1_bits: u32, all: bool) {
        self.tx = 0;
        for ring in [TX_RING, RX_RING] {
            for i in 0..RING {
                let mut d = Descriptor::new_zeroed();
                d.next.set(ring + (i + 1) % RING * 64);
                self.p.put((ring + i * 64) as usize, d.as_bytes());
            }
        }
        let control = u32::from(delay) << cr::DELAY_SHIFT
            | u32::from(threshold.max(1)) << cr::THRESHOLD_SHIFT
            | cr::IRQ_ALL
            | cr::RS;
        for (channel, ring) in [(MM2S, TX_RING), (S2MM, RX_RING)] {
            self.write(DMA, channel + dma::CURDESC, ring);
            self.write(DMA, channel + dma::CR, control);
        }
        let address = STATION.map(u32::from);
        let [a, b, c, d, e, f] = address;
        for (r, v) in [
            (mac::UAW0, a | b << 8 | c << 16 | d << 24),
            (mac::UAW1, e | f << 8),
            (mac::FMI, if all { fmi::PROMISCUOUS } else { 0 }),
            (mac::EMMC, emmc::SPEED_1000),
            (mac::IE, !0),
            (mac::TC, tc::TX ^ tc_bits),
            (mac::RCW1, rcw1::RX ^ rcw1_bits),
        ] {
            self.write(MAC, r, v);
        }
    }

    fn tail(&mut self, channel: u32, at: u32) {
        self.write(DMA, channel + dma::TAILDESC, at);
        if self.d.config().address_bits > 32 {
            self.write(DMA, channel + dma::TAILDESC_MSB, 0);
        }
    }

    fn send(&mut self, frame: &Frame, how: u8, flags: u8) {
        let mut bytes = frame.bytes(STATION, MOST);
        let mut app = [0; 3];
        match how & 3 {
            1 => {
                if let Some(c) = prepare_partial(&mut bytes) {
                    app[0] = tx_app::PARTIAL;
                    app[1] = u32::from(c.start) << tx_app::START_SHIFT | c.field() as u32;
                }
            }
            2 => app[0] = tx_app::FULL,
            _ => {}
        }
        let at = DATA + self.tx % 8 * 0x800;
        self.p.put(at as usize, &bytes);
        let each = bytes.len().div_ceil(usize::from(how >> 4 & 7) + 1).next_multiple_of(4);
        let n = bytes.chunks(each).len();
        let mut last = TX_RING;
        for (i, piece) in bytes.chunks(each).enumerate() {
            let mut d = Descriptor::new_zeroed();
            let bits = |on, bit| if on { bit } else { 0 };
            let control = bits(i == 0, Descriptor::SOF) | bits(i + 1 == n, Descriptor::EOF);
            d.next.set(TX_RING + (self.tx + 1) % RING * 64);
            d.buffer.set(at + (i * each) as u32);
            d.control.set(piece.len() as u32 | control ^ u32::from(flags) << 24);
            d.app.iter_mut().zip(app).for_each(|(to, from)| to.set(from));
            last = TX_RING + self.tx % RING * 64;
            self.p.put(last as usize, d.as_bytes());
            self.tx += 1;
        }
        self.tail(MM2S, last);
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Up { threshold, delay, tc, rcw1, all } => {
                self.up(threshold, delay, tc, rcw1, all);
            }
            Action::Send { frame, how, flags } => self.send(&frame, how, flags),
            Action::Post { n, len } => {
                let n = u32::from(n) % RING;
                for i in 0..n {
                    let mut d = Descriptor::new_zeroed();
                    d.next.set(RX_RING + (i + 1) % RING * 64);
                    d.buffer.set(BUFFERS + i * 0x800);
                    d.control.set(len.into());
                    self.p.put((RX_RING + i * 64) as usize, d.as_bytes());
                }
                self.tail(S2MM, RX_RING + n.saturating_sub(1) * 64);
            }
            Action::Look { first, n } => {
                self.d.advance(&mut self.p, self.now);
                for i in 0..u32::from(n) {
                    for (region, offset) in [(MAC, (u32::from(first) + i) * 4), (DMA, i % 24 * 4)] {
                        self.d.mmio_read(&mut self.p, self.now, Reg { region, offset }, 4);
                    }
                }
            }
            // The engine has 24 registers.
            Action::Engine { register, value } => {
                self.write(DMA, u32::from(register) % 24 * 4, value);
            }
            Action::Mac { register, value } => self.write(MAC, u32::from(register) * 4, value),
            Action::Mdio { register, value, write } => {
                use doorbell_layout::axienet::mdio;
                self.write(MAC, mac::MDIO_MC, mdio::ENABLE | 24);
                self.write(MAC, mac::MDIO_MWD, value.into());
                let op = if write { mdio::WRITE } else { mdio::READ };
                let place = 1 << mdio::PHY_SHIFT | u32::from(register & 31) << mdio::REG_SHIFT;
                self.write(MAC, mac::MDIO_MCR, place | op | mdio::INITIATE);
            }
            Action::Receive { frame } => {
                self.d.advance(&mut self.p, self.now);
                self.d.receive(&mut self.p, self.now, &frame.bytes(STATION, MOST));
            }
            Action::ReceiveRaw { len, head } => {
                self.d.advance(&mut self.p, self.now);
                let mut frame = vec![0; usize::from(len) % 20_000];
                frame.iter_mut().zip(&head.0).for_each(|(to, from)| *to = *from);
                self.d.receive(&mut self.p, self.now, &frame);
            }
            Action::Wait { ns } => self.work(Span::from_ns(u64::from(ns) % 1_000_000)),
            Action::Cable { plugged } => self.d.set_cable(self.now, plugged),
            Action::Poke { at, bytes } => self.p.put(at.into(), &bytes.0),
            Action::Odd { region, offset, size, value } => {
                let (r, size) =
                    (Reg { region: region % 3, offset: offset.into() }, 1 << (size & 3));
                self.d.advance(&mut self.p, self.now);
                self.d.mmio_read(&mut self.p, self.now, r, size);
                self.d.mmio_write(&mut self.p, self.now, r, size, value.into());
            }
        }
    }
}

/// Attacks a device as `input` says. Returns the device's counters.
///
/// # Panics
/// Panics if it lets itself be harmed.
pub fn attack(input: &[u8]) -> Counters {
    let mut u = Unstructured::new(input);
    let mut head = || u.arbitrary::<u8>().unwrap_or(0);
    let (core, how) = (head(), head());
    let sums = [Checksum::None, Checksum::CsumPartial, Checksum::Full][usize::from(core) % 3];
    let cfg = Config {
        tx_checksum: sums,
        rx_checksum: sums,
        address_bits: if how & 4 != 0 { 32 } else { 64 },
        realign: how & 8 == 0,
        phy_reset: Span::from_us(3),
        negotiation: if how & 16 != 0 { Span::from_us(2) } else { Span::ZERO },
        extended_multicast: how & 32 != 0,
        reload_on_any_write: how & 64 != 0,
        ..Config::ZYNQMP
    };
    let mut p = Memory::new(3);
    p.wraps = how & 1 != 0;
    p.price = Span::from_ns(if how & 2 != 0 { 700 } else { 0 });
    p.racing = (how & 128 != 0).then_some(how);
    let mut b = Harness { d: AxiEthernet::new(cfg), p, now: Time::ZERO, tx: 0 };
    while let Some(action) = next(&mut u) {
        b.act(action);
        assert!(b.d.next_due().is_none_or(|t| t >= b.now), "nothing is overdue");
        assert!(b.d.rx_memory_used() <= cfg.rx_memory as usize);
    }
    // A reset under way lasts 16 clocks and takes no other.
    b.work(Span::from_us(100));
    let counters = b.d.counters;
    b.write(DMA, dma::CR, cr::RESET);
    assert!(b.p.lines == [false; 3], "the lines are low after a reset");
    let before = b.p.accesses;
    b.work(Span::from_ms(100));
    assert_eq!(b.p.accesses, before, "no DMA after a reset");
    assert_eq!(b.d.next_due(), None);
    counters
}

/// Returns what the driver does to get somewhere: each part of the core by at least one.
pub fn seeds() -> Vec<Seed> {
    let make = |head: [u8; 2], actions: &[Action]| seed(&head, actions);
    let up = |tc, rcw1| Action::Up { threshold: 1, delay: 0, tc, rcw1, all: true };
    let send =
        |kind, payload, how| Action::Send { frame: Frame::new(kind, payload), how, flags: 0 };
    let receive = |kind, payload| Action::Receive { frame: Frame::new(kind, payload) };
    let wait = Action::Wait { ns: 900_000 };
    let post = Action::Post { n: 12, len: 1536 };
    // Data beyond memory.
    let beyond = |ring: u32, control: u32| {
        let mut d = Descriptor::new_zeroed();
        d.next.set(ring + 64);
        d.buffer.set(Memory::SIZE as u32);
        d.control.set(control);
        Action::Poke { at: ring as u16, bytes: Bytes(d.as_bytes()[..28].to_vec()) }
    };
    let sends = [
        up(tc::JUMBO | tc::VLAN, 0),
        send(0, 300, 1),
        send(Frame::UDP, 100, 2),
        send(Frame::TAGGED, 1400, 0x22),
        send(Frame::BROADCAST | Frame::PLAIN, 10, 0),
        send(Frame::MULTICAST | Frame::V6, 600, 0x11),
        wait.clone(),
        send(0, 8000, 0x40),
        wait.clone(),
    ];
    let receives = [
        up(0, rcw1::JUMBO | rcw1::VLAN),
        post.clone(),
        receive(0, 300),
        receive(Frame::UDP, 100),
        receive(Frame::TAGGED | Frame::V6, 200),
        receive(Frame::BROADCAST | Frame::PLAIN, 5),
        Action::Receive { frame: Frame { kind: Frame::DAMAGED, payload: 90, at: 50, bits: 1 } },
        receive(0, 4000),
        Action::ReceiveRaw { len: 19_000, head: Bytes(STATION.to_vec()) },
        wait.clone(),
    ];
    vec![
        ("transmit_partial", make([1, 0], &sends)),
        ("transmit_full", make([2, 4], &sends)),
        ("transmit_slow", make([0, 2 | 64], &sends)),
        ("receive_partial", make([1, 0], &receives)),
        ("receive_full", make([2, 4 | 2], &receives)),
        (
            "own_fcs",
            make(
                [0, 0],
                &[
                    up(tc::FCS, rcw1::FCS),
                    post.clone(),
                    send(0, 300, 0),
                    receive(0, 300),
                    wait.clone(),
                    Action::Engine { register: 0, value: cr::RESET },
                    wait.clone(),
                    up(0, 0),
                    send(0, 3000, 0),
                    wait.clone(),
                ],
            ),
        ),
        (
            "filters",
            make(
                [1, 32],
                &[
                    Action::Up { threshold: 3, delay: 9, tc: 0, rcw1: 0, all: false },
                    post.clone(),
                    receive(0, 60),
                    receive(Frame::STRANGER, 60),
                    receive(Frame::MULTICAST, 60),
                    receive(Frame::PAUSE, 4),
                    wait.clone(),
                    Action::Look { first: 0, n: 255 },
                ],
            ),
        ),
        (
            "phy",
            make(
                [1, 16],
                &[
                    Action::Mdio { register: 1, value: 0, write: false },
                    wait.clone(),
                    Action::Mdio { register: 0, value: 0x9200, write: true },
                    wait.clone(),
                    Action::Cable { plugged: false },
                    wait.clone(),
                    Action::Cable { plugged: true },
                    wait.clone(),
                    up(0, 0),
                    send(0, 300, 0),
                    wait.clone(),
                ],
            ),
        ),
        (
            "errors",
            make(
                [1, 8],
                &[
                    up(0, 0),
                    // Without SOF.
                    Action::Send { frame: Frame::new(0, 60), how: 0, flags: 8 },
                    wait.clone(),
                    Action::Engine { register: 0, value: cr::RESET },
                    wait.clone(),
                    up(0, 0),
                    send(0, 60, 0x30),
                    wait.clone(),
                    // Behind the four pieces.
                    beyond(TX_RING + 256, Descriptor::SOF | Descriptor::EOF | 60),
                    Action::Engine { register: 4, value: TX_RING + 256 },
                    Action::Engine { register: 5, value: 0 },
                    wait.clone(),
                    Action::Engine { register: 0, value: cr::RESET },
                    wait.clone(),
                    up(0, 0),
                    beyond(RX_RING, 1536),
                    Action::Engine { register: 16, value: RX_RING },
                    Action::Engine { register: 17, value: 0 },
                    receive(0, 60),
                    wait,
                    Action::Odd { region: 2, offset: 3, size: 1, value: 7 },
                ],
            ),
        ),
    ]
}
