//! A driver of one's own, and what each of its packets costs.
//!
//! `cargo run --release --example own_driver`
//!
//! It sends over an Intel 82545 on PCI Express, with the simplest descriptors that the card has, and reclaims
//! them when it is interrupted. The lab has the card; this file has the driver. Change it (announce
//! each packet, or report only every eighth descriptor), run it again, and see what moved.

use doorbell_bus::{Costs, Guard, Machine, Pcie, Platform, express, pcie};
use doorbell_devices::e1000::{Config, E1000};
use doorbell_drivers::{Driver, Irq, Poll, Sink, Tx};
use doorbell_lab::clock::Interrupt;
use doorbell_lab::{Unwatched, open, own};
use doorbell_layout::e1000::{self as nic, DD, LegacyTx, reg};
use doorbell_packet::Packet;
use doorbell_seam::{Coherent, Direction, Fence, Host, Mapped, Reg, Span, Work};
use std::collections::VecDeque;

const RING: u32 = 256;

pub(crate) struct Mine {
    ring: Coherent,
    tail: u32,
    under_way: VecDeque<(u32, Mapped, u32)>,
}

impl Mine {
    pub(crate) fn open<H: Host>(h: &mut H) -> Mine {
        let ring = h.coherent(RING * nic::DESCRIPTOR, 4096).expect("memory for the ring");
        h.write32(Reg::at(reg::TDBAL), ring.iova().0 as u32);
        h.write32(Reg::at(reg::TDBAH), (ring.iova().0 >> 32) as u32);
        h.write32(Reg::at(reg::TDLEN), RING * nic::DESCRIPTOR);
        h.write32(Reg::at(reg::TCTL), nic::TCTL_EN | nic::TCTL_PSP);
        h.write32(Reg::at(reg::CTRL), nic::CTRL_SLU | nic::CTRL_FD);
        h.delay(Span::from_ms(5000)); // the link comes up
        h.write32(Reg::at(reg::IMS), nic::INT_TXDW);
        Mine { ring, tail: 0, under_way: VecDeque::new() }
    }

    fn close<H: Host>(self, h: &mut H) {
        h.release_coherent(self.ring);
    }
}

impl<H: Host> Driver<H> for Mine {
    fn transmit(&mut self, h: &mut H, p: Packet, more: bool) -> Tx {
        let (piece, cookie, todo, rest) = (p.head, p.cookie, p.todo, p.more);
        let (start, len) = (piece.start, piece.len);
        let mapped = match h.map(piece.buf, start..start + len, Direction::ToDevice) {
            Ok(mapped) => mapped,
            Err(e) => {
                return Tx::Dropped(Packet {
                    head: doorbell_packet::Piece { buf: e.buf, start, len },
                    todo,
                    more: rest,
                    cookie,
                });
            }
        };
        h.spend(Work::TxDescriptor(1));
        let cmd = LegacyTx::EOP | LegacyTx::IFCS | LegacyTx::RS;
        let (address, length) = (mapped.iova().0.into(), (len as u16).into());
        let d = LegacyTx { address, length, cso: 0, cmd, status: 0, css: 0, special: 0.into() };
        h.store(&self.ring, self.tail * nic::DESCRIPTOR, d);
        self.under_way.push_back((self.tail, mapped, cookie));
        self.tail = (self.tail + 1) % RING;
        if !more || Driver::<H>::stopped(self) {
            h.fence(Fence::Write);
            h.write32(Reg::at(reg::TDT), self.tail);
        }
        Tx::Ok
    }

    fn poll<S: Sink>(&mut self, h: &mut H, _: u32, up: &mut S) -> Poll {
        h.spend(Work::Poll);
        while let Some((slot, mapped, cookie)) = self.under_way.pop_front() {
            if h.load::<u8>(&self.ring, slot * nic::DESCRIPTOR + LegacyTx::STATUS) & DD == 0 {
                self.under_way.push_front((slot, mapped, cookie));
                break;
            }
            up.sent(h.unmap(mapped), cookie, true);
            h.spend(Work::TxDone(1));
        }
        h.write32(Reg::at(reg::IMS), nic::INT_TXDW);
        Poll::Idle
    }

    fn interrupt(&mut self, h: &mut H, _: u16) -> Irq {
        h.spend(Work::Interrupt);
        h.write32(Reg::at(reg::IMC), u32::MAX);
        if h.read32(Reg::at(reg::ICR)) == 0 { Irq::None } else { Irq::Poll }
    }

    fn work(&mut self, _: &mut H) {}

    fn stopped(&self) -> bool {
        self.under_way.len() as u32 + 1 == RING
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rules = pcie::Rules::new(pcie::Settings::link(1, 4))?;
    let latencies = express::Latencies { link: Span::from_ns(150), memory: Span::from_ns(250) };
    let bus = Pcie::new(Platform::new(1 << 26, 64 << 20, Guard::Byte), rules, latencies, 0xfeb0_0000);
    let mut machine = Machine::new(bus, E1000::new(Config::I82545EM), Costs::FREE, 1);
    let driver = Mine::open(&mut machine);
    let load = open::Load::Pktgen { size: 60, burst: 8, rate: None, packets: 10_000, checksum: false };
    let on = (Interrupt::Line(0), RING);
    let bill = own::meter(&mut machine, driver, Mine::close, on, &load, 1.0, &mut Unwatched)?;
    println!("{} packets in {}", bill.packets, bill.elapsed);
    for (name, each) in bill.per_packet().into_iter().filter(|(_, each)| *each > 0.0) {
        println!("{name:24}{each:10.3}");
    }
    assert!(bill.is_sound(), "{:#?}", bill.audit);
    Ok(())
}
