//! Work that the device does at once for a guest that wants it to do much.

use super::*;
use crate::mlx5::steering::{Criteria, Destination, Entry, Group, Match, Miss, Table};
use doorbell_layout::mlx5::command::SLOTS;
use doorbell_layout::mlx5::steering::{NIC_RX, PARAM, criteria};

/// Units of what cannot be divided at the most: some 1.3 ms, half the share of a turn.
const MOST: u64 = 1 << 17;

/// A device with as many flow entries and objects of the dearest kinds as it takes.
fn full() -> (CommandHarness, u32) {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let rqn = c.rq(&o, 4, CommandHarness::DBR + 64, &[CommandHarness::page(6)]).number();
    while c.rqt(&[rqn; 2048]).status.is_none() {}
    while c.tir(&o, rqn, false).status.is_none() {}
    while c.run(op::ALLOC_PD, 0, &Numbered::ZERO, &[]).status.is_none() {}
    let s = &mut c.device.rx.paths.change().steering;
    let table = Table { kind: NIC_RX, level: 1, log_size: 16, miss: Miss::Default };
    let t = s.create_table(table).unwrap();
    let mut mask = [0; PARAM];
    mask[..6].fill(0xff);
    let criteria = Criteria::new(criteria::OUTER, &mask).unwrap();
    let group = s.create_group(t, Group { start: 0, end: 0xffff, criteria }).unwrap();
    for index in 0..1 << 16 {
        let mut value = [0; PARAM];
        value[..4].copy_from_slice(&u32::to_be_bytes(index));
        let (value, action) = (Match::from_param(&value), flow_action::FORWARD);
        let destinations = vec![Destination::Tir(0x2000)];
        s.set_entry(t, index, Entry { group, flow_tag: 0, action, value, destinations }).unwrap();
    }
    while s.create_table(Table { log_size: 0, ..table }).is_ok() {}
    c.port.log.clear();
    (c, rqn)
}

#[test]
fn no_command_of_a_full_device_is_long() {
    let (mut c, rqn) = full();
    let ends = [op::TEARDOWN_HCA, op::DISABLE_HCA];
    let check = |c: &mut CommandHarness, opcode, m: &Numbered, list: &[u8]| {
        let before = c.port.work;
        let answer = c.run(opcode, 1, m, list);
        let work = c.port.work - before;
        assert!((1..MOST).contains(&work), "command {opcode:#x}: {work} units");
        c.port.log.clear();
        answer.status
    };
    for opcode in (0x100..0xa00).filter(|o| !ends.contains(o)) {
        for fill in [0, 0xff] {
            check(&mut c, opcode, &Numbered::ZERO, &[fill; 60_000]);
        }
    }
    // Each of these has as many users as there can be.
    for (opcode, n) in [(op::DESTROY_RQ, rqn), (op::DESTROY_TIR, 0x2000), (op::DEALLOC_PD, 1)] {
        let mut m = Numbered::ZERO;
        m.set(Numbered::NUMBER, n);
        assert_eq!(check(&mut c, opcode, &m, &[]), IN_USE);
    }
    for opcode in ends {
        assert_eq!(check(&mut c, opcode, &Numbered::ZERO, &[]), None);
    }
}

#[test]
fn a_reset_of_a_full_device_is_not_long() {
    let (mut c, _) = full();
    let before = c.port.work;
    c.device.reset(&mut c.port, Time::ZERO);
    let work = c.port.work - before;
    assert!((1..MOST).contains(&work), "{work} units");
    // What it had goes with the commands that follow, before as much can be made anew.
    assert!(!c.device.rx.former.is_empty());
    c.register(init_segment::CMDQ_HI, 0);
    c.register(init_segment::CMDQ_LO, CommandHarness::CMDQ as u32);
    for _ in 0..1 << 14 {
        c.run(op::QUERY_ISSI, 0, &Numbered::ZERO, &[]);
        c.port.log.clear();
    }
    assert!(c.device.rx.former.is_empty());
}

/// Units of a turn, as a server gives them to a guest of its own device.
const TURN: u64 = 1 << 18;

/// The guest's other CPUs give the entries back as soon as they are answered. Without a price of
/// its own a command would cost 36 units, and a turn have thousands.
#[test]
fn commands_without_input_are_few_in_a_turn() {
    let (mut c, rqn) = full();
    let dearest = [(op::DESTROY_RQ, rqn), (op::DESTROY_TIR, 0x2000), (op::DEALLOC_PD, 1)];
    for (opcode, n) in dearest {
        let mut m = Numbered::ZERO;
        m.set(Numbered::NUMBER, n);
        let w = c.compose(&CommandHarness::input(opcode, 0, &m, &[]), 16);
        let before = c.device.command_counters();
        c.port.share = c.port.work + TURN;
        while c.port.work < c.port.share {
            (0..SLOTS as u8).for_each(|slot| c.put(slot, &w));
            c.register(init_segment::DOORBELL, u32::MAX);
            c.now += Span::from_ms(1);
            c.device.advance(&mut c.port, c.now);
            c.port.log.clear();
        }
        let after = c.device.command_counters();
        assert_eq!(after.refused - before.refused, after.commands - before.commands);
        let turn = after.commands - before.commands;
        assert!((128..=TURN / 1024).contains(&turn), "{opcode:#x}: {turn} commands in a turn");
        c.port.share = u64::MAX;
        c.settle();
    }
}

#[test]
fn commands_wait_for_the_next_turn() {
    let mut c = CommandHarness::running(NIC);
    let before = c.device.command_counters().commands;
    let w = c.compose(&CommandHarness::input(op::QUERY_ISSI, 0, &Numbered::ZERO, &[]), 0x100);
    c.put(0, &w);
    c.put(1, &w);
    c.register(init_segment::DOORBELL, 3);
    // It is spent with the first read of the first.
    c.port.share = c.port.work + 1;
    let later = c.now + Span::from_ms(1);
    c.device.advance(&mut c.port, later);
    assert_eq!(c.device.command_counters().commands, before);
    c.port.share = u64::MAX;
    c.settle();
    assert_eq!(c.device.command_counters().commands, before + 2);
}
