use crate::{Adapter, Card, Hypervisor, Partition, Plan, Slot};
use doorbell_bus::tce::{Prices, Window};
use doorbell_bus::{CallPrice, memory::anonymous};
use doorbell_devices::vnic;
use doorbell_hal::{Hcall, Span, Time};
use doorbell_layout::ibmvnic::{CALLS, hcall, status};
use std::net::Ipv4Addr;

/// A call costs 300 ns and one of translation 1, 2 or 3 us and 10 ns an entry.
pub(crate) fn plan() -> Plan {
    let [put, put_indirect, stuff] = [1, 2, 3].map(Span::from_us);
    let prices = Prices { put, put_indirect, stuff, entry: Span::from_ns(10) };
    let call = Span::from_ns(300);
    let mut hypervisor = Hypervisor {
        call,
        copy: Span::from_ns(50),
        window: Window { base: 0, pages: 1024, multi: true, prices },
        ..Hypervisor::free(&CALLS)
    };
    hypervisor.calls.iter_mut().for_each(|(_, price)| price.fixed = call);
    let nic = vnic::Config { crq_vector: 0x11f0, first_vector: 0x1140, ..vnic::Config::POWERVM };
    Plan {
        card: Card::Adapter(Adapter::Vnic(nic)),
        slot: Slot::Hypervisor(hypervisor),
        rate: 1_000_000_000,
        delay: Span::from_us(5),
        addresses: [[10, 0, 0, 1], [10, 0, 0, 2]].map(Ipv4Addr::from),
        captured: Default::default(),
    }
}

const UNIT: u64 = 0x3000_0003;

fn called(board: &mut dyn Partition, call: u64, a: &[u64]) -> (i64, u64, u64) {
    let mut all = [0; 9];
    all[..a.len()].copy_from_slice(a);
    let began = board.now();
    let answer = board.call(call, &all);
    (answer.status, answer.ret[0], board.now().since(began).ps() / 1000)
}

#[test]
fn calls_take_the_time_of_their_prices() {
    let mut memory = anonymous(1 << 20).unwrap();
    memory[0x8000..0x8010].copy_from_slice(&[[0, 0, 0, 0, 0, 1, 0, 3]; 2].concat());
    let mut board = plan().partition(memory).unwrap();
    let board = board.as_mut();
    board.run(Time::from_ps(1_000_000));
    assert_eq!(called(board, 0x20, &[UNIT, 0x1000, 0x5003]), (0, 0, 1000));
    assert_eq!(called(board, 0x1c, &[UNIT, 0x1000]), (0, 0x5003, 0));
    assert_eq!(called(board, 0x13c, &[UNIT, 0x2000, 0x8000, 2]), (0, 0, 2020));
    assert_eq!(called(board, 0x1c, &[UNIT, 0x3000]), (0, 0x1_0003, 0));
    assert_eq!(called(board, 0x138, &[UNIT, 0x1000, 0, 3]), (0, 0, 3030));
    let parameter = (status::PARAMETER, 0, 0);
    for refused in [
        [0x20, 1024 << 12, 3, 0],
        [0x13c, 0x1000, 0x8008, 1],
        [0x13c, 0x1000, 1 << 20, 1],
        [0x13c, 0x1000, 0x8000, 513],
        [0x138, 0x1000, 0, 1 << 40],
    ] {
        assert_eq!(called(board, refused[0], &[&[UNIT], &refused[1..]].concat()), parameter);
    }
    let counts = board.counts().ledger;
    assert_eq!((counts.tce_puts, counts.tce_hcalls, counts.hcalls), (6, 3, 3));
}

#[test]
fn message_of_a_queue_comes_under_its_own_number() {
    let mut board = plan().partition(anonymous(1 << 20).unwrap()).unwrap();
    let board = board.as_mut();
    board.run(Time::from_ps(1_000_000));
    // A CRQ of one page, which begins with INIT; it answers with INIT COMPLETE.
    called(board, 0x20, &[UNIT, 0x1000, 0x5003]);
    let registered = called(board, hcall::REG_CRQ, &[UNIT, 0x1000, 4096]);
    assert_eq!(registered, (status::SUCCESS, 0, 300));
    assert_eq!(called(board, hcall::VIO_SIGNAL, &[UNIT, 1]).0, status::SUCCESS);
    let init = 0xc001 << 48;
    assert_eq!(called(board, hcall::SEND_CRQ, &[UNIT, init, 0]).0, status::SUCCESS);
    board.run(board.now() + Span::from_ms(1));
    assert!(board.take_message(0x11f0), "the answer is announced");
    let made = board.counts().calls;
    assert_eq!(
        made.iter().find(|(name, _)| *name == "hcall_send_crq"),
        Some(&("hcall_send_crq", 1))
    );
    // A sub-CRQ of one page has the first number of those.
    called(board, 0x20, &[UNIT, 0x2000, 0x6003]);
    let mut all = [0; 9];
    all[..3].copy_from_slice(&[UNIT, 0x2000, 4096]);
    assert_eq!(board.call(hcall::REG_SUB_CRQ, &all).ret[1], 0x1140);
}

#[test]
fn adapter_answers_its_calls_and_no_end_of_an_interrupt() {
    let Card::Adapter(adapter) = plan().card else { unreachable!("it is one") };
    assert!([0x20, hcall::REG_CRQ, hcall::VIOCTL].into_iter().all(|call| adapter.answers(call)));
    // H_EOI, H_CEDE, H_SEND_LOGICAL_LAN.
    assert!([hcall::EOI, 0xe0, 0x120].into_iter().all(|call| !adapter.answers(call)));
    assert_eq!(adapter.interrupts().len(), 65);
}

#[test]
fn plan_of_a_partition_has_no_slot() {
    assert!(plan().board(anonymous(4096).unwrap()).is_err());
    let price = CallPrice { fixed: Span::from_ns(300), ..CallPrice::default() };
    let Slot::Hypervisor(hypervisor) = plan().slot else { unreachable!("it has one") };
    assert!(hypervisor.calls.contains(&(Hcall(hcall::VIOCTL), price)));
}
