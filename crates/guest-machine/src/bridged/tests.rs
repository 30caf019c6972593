use crate::{Board, Card, Plan, Slot};
use doorbell_bus::{axi, memory::anonymous};
use doorbell_devices::axi_ethernet::Config;
use doorbell_devices::rp1::{BRIDGE, BUS};
use doorbell_hal::{Reg, Span, Time};
use std::net::Ipv4Addr;

fn board() -> Box<dyn Board> {
    let plan = Plan {
        card: Card::Axi(Config::ZYNQMP, [2, 0, 0, 0, 0, 9]),
        slot: Slot::Axi(axi::Settings::ZYNQMP, axi::Latencies::ZYNQMP),
        rate: 1_000_000_000,
        delay: Span::ZERO,
        addresses: [[10, 0, 0, 1], [10, 0, 0, 2]].map(Ipv4Addr::from),
        captured: Default::default(),
    };
    plan.board(anonymous(1 << 20).unwrap()).unwrap()
}

fn at(offset: u32) -> Reg {
    Reg { region: BUS, offset }
}

#[test]
fn registers_of_the_cores_take_time_and_those_of_the_bridge_none() {
    let mut board = board();
    let began = Time::from_ps(1_000_000);
    board.run(began);
    // ENABLE and LEVEL of line 1.
    board.write(at(BRIDGE + 0x800 + 12), 4, 9);
    assert_eq!(board.read(at(BRIDGE + 12), 4), 9);
    assert_eq!(board.now(), began);
    // The identity of the MAC, at 125 MHz: 42 ns one way, and 4 clocks of 8 ns.
    board.read(at(0x4f8), 4);
    assert_eq!(board.now().since(began), Span::from_ns(42 + 32 + 42));
    let counts = board.counts().ledger;
    assert_eq!((counts.axi_lite_reads, counts.axi_lite_writes), (1, 0));
}

#[test]
fn line_becomes_one_message_until_it_is_acknowledged() {
    let mut board = board();
    board.run(Time::from_ps(1_000_000));
    board.write(at(BRIDGE + 0x800 + 8), 4, 9);
    // MM2S runs with interrupts on errors, and has no descriptor: the fetch from 0 fails.
    board.write(at(0x4_0000), 4, 1 | 1 << 14);
    board.write(at(0x4_0000 + 0x10), 8, 0x40);
    board.run(board.now() + Span::from_ms(1));
    assert!(board.take_message(0) && !board.take_message(0), "once");
    assert!(!board.take_message(1) && !board.take_message(9));
    // It is still high: IACK sends it again.
    board.write(at(BRIDGE + 0x800 + 8), 4, 4);
    assert!(board.take_message(0));
    assert_eq!(board.counts().device.last(), Some(&("acknowledged_messages", 1)));
    // Acknowledged in the engine and in the bridge.
    board.reset();
    board.write(at(BRIDGE + 0x800 + 8), 4, 4);
    assert!(!board.take_message(0));
}
