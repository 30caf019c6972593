//! Loopback of the function to itself (`ethtool -t`).

use super::super::super::tests::frames::{Frame, ME, PEER, udp};
use super::*;
use doorbell_layout::mlx5::command::{ModifyNicVportIn, NicVport, init_segment, op, vport_field};
use doorbell_layout::mlx5::opcode;
use doorbell_layout::mlx5::receive::self_lb_block;

/// Firmware that asks for no pages.
const THRIFTY: Config = Config { boot_pages: 0, init_pages: 0, ..Config::CONNECTX };
/// Address of the command queue, before its mailboxes.
const CMDQ: u64 = 0x1_9000;
const MAILBOX: u64 = 0x1_a000;

/// Runs a firmware command.
fn command(b: &mut Bench, opcode: u16, input: &mut [u8]) {
    input[..2].copy_from_slice(&opcode.to_be_bytes());
    let mut entry = [0u8; 64];
    entry[0] = 7;
    entry[4..8].copy_from_slice(&(input.len() as u32).to_be_bytes());
    if input.len() > 16 {
        entry[8..16].copy_from_slice(&MAILBOX.to_be_bytes());
    }
    entry[16..32].copy_from_slice(&input[..16]);
    entry[56..60].copy_from_slice(&16u32.to_be_bytes());
    entry[60] = 1;
    entry[63] = 1;
    entry[61] = !entry.iter().fold(0, |a, b| a ^ b);
    b.put(CMDQ, &entry);
    for (i, data) in input[16..].chunks(512).enumerate() {
        let last = (i + 1) * 512 >= input.len() - 16;
        let mut mailbox = [0u8; 576];
        mailbox[..data.len()].copy_from_slice(data);
        let next = if last { 0 } else { MAILBOX + (i as u64 + 1) * 1024 };
        mailbox[0x230..0x238].copy_from_slice(&next.to_be_bytes());
        mailbox[0x238..0x23c].copy_from_slice(&(i as u32).to_be_bytes());
        mailbox[0x23d] = 1;
        mailbox[0x23e] = !mailbox[512..].iter().fold(0, |a, b| a ^ b);
        mailbox[0x23f] = !mailbox.iter().fold(0, |a, b| a ^ b);
        b.put(MAILBOX + i as u64 * 1024, &mailbox);
    }
    let segment = [
        (init_segment::CMDQ_HI, (CMDQ >> 32) as u32),
        (init_segment::CMDQ_LO, CMDQ as u32),
        (init_segment::DOORBELL, 1),
    ];
    for (register, v) in segment {
        b.d.mmio_write(&mut b.p, b.now, Reg::at(register), 4, u64::from(v.swap_bytes()));
    }
    b.settle();
    let answer = b.memory(CMDQ, 64);
    assert_eq!((answer[63], answer[32]), (0, 0), "{opcode:#x} delivered, and done");
}

/// Gives the vport unicast addresses, as the driver does.
fn tell_addresses(b: &mut Bench, all: &[[u8; 6]]) {
    command(b, op::ENABLE_HCA, &mut [0; 16]);
    command(b, op::INIT_HCA, &mut [0; 16]);
    let mut m = ModifyNicVportIn::ZERO;
    m.set(ModifyNicVportIn::FIELDS, vport_field::ADDRESSES);
    m.part_mut(ModifyNicVportIn::CONTEXT).set(NicVport::LIST_SIZE, all.len() as u32);
    let list = all.iter().flat_map(|a| [&[0, 0], &a[..]].concat());
    let mut input: Vec<u8> = m.0.into_iter().chain(list).collect();
    command(b, op::MODIFY_NIC_VPORT_CONTEXT, &mut input);
}

fn send(b: &mut Bench, f: &[u8]) {
    b.put(BUFFERS + 0x8000, f);
    let rest = [&[0; 16][..], &b.data(BUFFERS + 0x8000, f.len())].concat();
    b.send(opcode::SEND, &rest);
    b.settle();
}

#[test]
fn a_frame_to_our_own_address_comes_back_when_a_tir_takes_it() {
    let mut b = Bench::new(THRIFTY, PLAIN);
    b.post(8);
    tell_addresses(&mut b, &[ME]);
    let (mine, other) = (Frame::v4(udp(80)).build(), Frame::v4(udp(80)).to(PEER).build());
    send(&mut b, &mine);
    assert_eq!(b.p.frames.len(), 1, "no TIR takes it: it leaves");
    assert_eq!(b.poll().unwrap().op_own >> 4, 0);
    assert_eq!(b.poll(), None);

    let c = TirContext { self_lb_block: self_lb_block::UNICAST, ..TirContext::direct(b.rqn) };
    b.d.modify_tir(0x2000, c).unwrap();
    send(&mut b, &mine);
    assert_eq!(b.p.frames.len(), 1, "it did not leave");
    let kinds: Vec<u8> = core::iter::from_fn(|| b.poll()).map(|c| c.op_own >> 4).collect();
    assert_eq!(kinds, [0, 2], "it was sent, and received");
    assert_eq!(b.d.rx_casts.packets(), 1);
    assert_eq!(b.memory(BUFFERS, mine.len()), mine);
    send(&mut b, &other);
    assert_eq!(b.p.frames.len(), 2, "others leave as ever");

    b.d.modify_tir(0x2000, TirContext::direct(b.rqn)).unwrap();
    send(&mut b, &mine);
    assert_eq!(b.p.frames.len(), 3);
    assert_eq!(b.d.received().packets, 1);
}

#[test]
fn frames_to_each_address_of_a_full_list_come_back() {
    let mut b = Bench::new(THRIFTY, PLAIN);
    let list: Vec<[u8; 6]> = (0..128u8).map(|n| [2, 0, 0, 0, n.wrapping_mul(77), n]).collect();
    tell_addresses(&mut b, &list);
    let c = TirContext { self_lb_block: self_lb_block::UNICAST, ..TirContext::direct(b.rqn) };
    b.d.modify_tir(0x2000, c).unwrap();
    for to in list.iter().chain([&ME, &PEER]) {
        send(&mut b, &Frame::v4(udp(80)).to(*to).build());
        let _ = core::iter::from_fn(|| b.poll()).count();
    }
    assert_eq!((b.d.received().arrived, b.p.frames.len()), (128, 2));
}

#[test]
fn what_comes_from_the_wire_needs_no_such_leave() {
    let mut b = Bench::new(THRIFTY, PLAIN);
    b.post(2);
    tell_addresses(&mut b, &[ME]);
    let c = TirContext { self_lb_block: self_lb_block::UNICAST, ..TirContext::direct(b.rqn) };
    b.d.create_tir(c).unwrap();
    assert_eq!(b.receive(&Frame::v4(udp(80))), RxVerdict::Yes);
    send(&mut b, &Frame::v4(udp(80)).build());
    assert_eq!(
        (b.d.received().arrived, b.d.received().packets),
        (2, 1),
        "our TIR is not the one that takes it"
    );
}

/// Returns a device whose frames to itself come back, with the segments of one of 1,400 bytes.
fn looped(c: Config) -> (Bench, Vec<u8>) {
    let mut b = Bench::new(c, PLAIN);
    b.post(2);
    tell_addresses(&mut b, &[ME]);
    let c = TirContext { self_lb_block: self_lb_block::UNICAST, ..TirContext::direct(b.rqn) };
    b.d.modify_tir(0x2000, c).unwrap();
    let f = Frame::v4(udp(1400)).build();
    b.put(BUFFERS + 0x8000, &f);
    let rest = [&[0; 16][..], &b.data(BUFFERS + 0x8000, f.len())].concat();
    (b, rest)
}

#[test]
fn a_frame_without_room_on_its_way_back_is_counted() {
    let (mut b, rest) = looped(Config { rx_fifo: 2000, ..THRIFTY });
    b.send(opcode::SEND, &rest);
    b.send(opcode::SEND, &rest);
    b.settle();
    let (sent, r) = (b.d.counters.packets, b.d.received());
    assert_eq!((sent, r.arrived, r.packets, r.fifo_full), (2, 2, 1, 1));
}

#[test]
fn a_reset_forgets_what_is_on_its_way_back() {
    let (mut b, rest) = looped(THRIFTY);
    b.send(opcode::SEND, &rest);
    b.at(b.now);
    assert_eq!(b.d.counters.packets, 1, "it is on its way");
    let now = b.now;
    b.d.reset(&mut b.p, now);
    assert_eq!(b.d.next_due(), None);
}

#[test]
fn frames_that_come_back_are_paid_for_by_turns() {
    let (mut b, rest) = looped(THRIFTY);
    b.post(14);
    for _ in 0..8 {
        b.send(opcode::SEND, &rest);
    }
    // They are sent and on their way back, as far as one share lets them.
    while b.d.received().arrived == 0 {
        b.now = b.d.next_due().unwrap();
        b.p.most_work = b.p.work + 1;
        b.d.advance(&mut b.p, b.now);
    }
    assert_eq!(b.d.received().arrived, 1, "one walk spends a share of a unit");
    b.p.most_work = b.p.work;
    let due = b.d.next_due().unwrap();
    b.d.advance(&mut b.p, due + Span::from_ms(1));
    assert_eq!(b.d.received().arrived, 1, "none is left");
    b.p.most_work = u64::MAX;
    b.settle();
    assert_eq!((b.d.received().arrived, b.d.received().packets), (8, 8), "they come later");
}
