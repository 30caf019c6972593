//! Any bytes as a guest: registers, its whole memory, also while the device reads it,
//! firmware commands whole and spoilt, frames, time. The device does a bounded amount of work for
//! each, and after a reset of the function it touches nothing.

use super::command_harness::{CommandHarness, Common};
use super::hostile::Input;
use doorbell_devices::mlx5::Config;
use doorbell_hal::{Device, Reg, Span};
use doorbell_layout::mlx5::command::{
    CreateFlowGroupIn, CreateFlowTableIn, CreateMkeyIn, Mkc, Numbered, RqtIn, SetFteIn,
    init_segment, op,
};
use doorbell_layout::mlx5::uar;
use zerocopy::IntoBytes;

/// Accesses of one step at the most: what the longest send queue can ask for.
const BOUND: usize = 1 << 20;

/// Every opcode that there is, and some that there are not.
const OPCODES: [std::ops::RangeInclusive<u16>; 8] = [
    0x100..=0x10d,
    0x200..=0x203,
    0x301..=0x303,
    0x400..=0x403,
    0x750..=0x755,
    0x770..=0x773,
    0x800..=0x817,
    0x900..=0x93c,
];

fn opcode(n: u16) -> u16 {
    let all: usize = OPCODES.iter().map(ExactSizeIterator::len).sum();
    OPCODES.iter().cloned().flatten().nth(usize::from(n) % all).unwrap_or(0)
}

/// The input of a command that makes sense, about objects that there are.
fn sensible(which: u8, o: &Common, n: u32) -> (u16, Vec<u8>) {
    let pages = CommandHarness::pas(&[
        CommandHarness::page(30),
        CommandHarness::page(28),
        CommandHarness::page(29),
        CommandHarness::page(31),
    ]);
    let log = n & 7;
    match which % 10 {
        0 => (
            op::CREATE_SQ,
            [CommandHarness::sq_message(o, log, CommandHarness::DBR).as_bytes(), &pages].concat(),
        ),
        1 => (
            op::CREATE_RQ,
            [CommandHarness::rq_message(o, log, 4, CommandHarness::DBR).as_bytes(), &pages]
                .concat(),
        ),
        2 => (
            op::CREATE_CQ,
            [CommandHarness::cq_message(o, log, CommandHarness::DBR).as_bytes(), &pages].concat(),
        ),
        3 => {
            let mut m = RqtIn::ZERO;
            m.set(RqtIn::MAX_SIZE, 2).set(RqtIn::ACTUAL_SIZE, 2).set(RqtIn::RQTN, 0x3000 + (n & 3));
            let rqns = [0x4000 + (n >> 2 & 3), 0x4000 + (n >> 4 & 3)];
            (
                op::CREATE_RQT + (n >> 6 & 1) as u16,
                [m.as_bytes(), &rqns.map(u32::to_be_bytes).concat()].concat(),
            )
        }
        4 => (op::CREATE_FLOW_TABLE, CreateFlowTableIn::ZERO.as_bytes().to_vec()),
        5 => {
            let mut m = CreateFlowGroupIn::ZERO;
            m.set(CreateFlowGroupIn::TABLE, 0x8000 + (n & 3));
            (op::CREATE_FLOW_GROUP, [m.as_bytes(), &[0; 0x200]].concat())
        }
        6 => {
            let mut m = SetFteIn::ZERO;
            m.set(SetFteIn::TABLE, 0x8000 + (n & 3));
            m.0[0x47] = 1 + (n >> 2 & 3) as u8;
            m.0[0x4f] = 4;
            m.0[0x53] = 1;
            let to = if n >> 4 & 1 == 0 { 2 << 24 | 0x2000 } else { 1 << 24 | 0x8000 };
            (
                op::SET_FLOW_TABLE_ENTRY,
                [m.as_bytes(), &(to | n >> 5 & 3).to_be_bytes(), &[0; 4]].concat(),
            )
        }
        7 => {
            let mut m = CommandHarness::mkey_message(o.pd);
            m.set(CreateMkeyIn::OCTWORDS, 2);
            let c = m.part_mut(CreateMkeyIn::MKC);
            c.set(Mkc::ACCESS_MODE, n & 1)
                .set(Mkc::LENGTH64, 1 - (n & 1))
                .set(Mkc::LOG_PAGE_SIZE, 12);
            c.set_quad(Mkc::LENGTH, u64::from(n & 0x3fff));
            (op::CREATE_MKEY, [m.as_bytes(), &pages].concat())
        }
        _ => {
            let mut m = Numbered::ZERO;
            m.set(Numbered::NUMBER, n & 0xffff);
            (opcode((n >> 16) as u16), m.as_bytes().to_vec())
        }
    }
}

/// Attacks a device as `bytes` say.
///
/// # Panics
/// When it lets itself be harmed.
pub fn attack(bytes: &[u8]) {
    let mut input = Input(bytes);
    // Doorbell pages are registers, or memory that is looked at.
    let shape = input.u8();
    let polled_doorbells = shape & 1 == 1;
    let mut c = CommandHarness::running(Config {
        boot_pages: 1,
        init_pages: 1,
        polled_doorbells,
        ..Config::CONNECTX
    });
    let o = c.common();
    for which in [0, 1] {
        let (opcode, bytes) = sensible(which, &o, 6);
        let n = c.send(&CommandHarness::input(opcode, 0, &bytes[..], &[]), 16).number();
        let ready = if which == 0 { c.modify_sq(n, 0, 1) } else { c.modify_rq(n, 0, 1) };
        assert_eq!(ready, None);
    }
    c.port.log.clear();
    // Another CPU of the guest writes while the device reads.
    c.port.racing = (shape & 2 != 0).then_some(shape);
    while !input.0.is_empty() {
        match input.u8() % 12 {
            0 | 1 => {
                let at = usize::from(input.u16()) * 32 % (c.port.memory.len() - 64);
                let n = usize::from(input.u8() & 63);
                for b in &mut c.port.memory[at..at + n] {
                    *b = input.u8();
                }
            }
            2 => {
                let r = Reg {
                    region: u8::from(input.u8() == 1),
                    offset: u32::from(input.u16()) << (input.u8() & 3),
                };
                let (size, v) = (input.u8() & 15, input.u64());
                c.device.mmio_write(&mut c.port, c.now, r, size, v);
            }
            3 => {
                let (offset, size) = (u32::from(input.u16()), input.u8() & 15);
                c.device.mmio_read(&mut c.port, c.now, Reg::at(offset), size);
            }
            // A doorbell page's words, with numbers that may be right.
            4 => {
                let words = [(uar::SEND, 8), (uar::CQ_ARM, 8), (uar::EQ_ARM, 4)];
                let (offset, size) = words[usize::from(input.u8()) % 3];
                let first: [u8; 4] = input.take();
                let n = u32::from(input.u8() & 7);
                let second = if offset == uar::SEND { (0x100 + n) << 8 | 3 } else { 0x400 + n };
                let mut b = [0; 8];
                b[..4].copy_from_slice(&first);
                b[4..].copy_from_slice(&second.to_be_bytes());
                let r = Reg::at(o.uar * uar::PAGE + offset);
                c.device.mmio_write(&mut c.port, c.now, r, size, u64::from_le_bytes(b));
            }
            5 => {
                let v = u32::from(input.u16()) << 16 | u32::from(input.u16());
                c.register(init_segment::DOORBELL, v);
            }
            6..=8 => {
                let (which, n) =
                    (input.u8(), u32::from(input.u16()) << 16 | u32::from(input.u16()));
                let (mut opcode_, mut bytes) = sensible(which, &o, n);
                // Some of it is spoilt.
                for _ in 0..input.u8() & 3 {
                    let at = usize::from(input.u16()) % bytes.len();
                    bytes[at] = input.u8();
                }
                if input.u8() == 0 {
                    opcode_ = opcode(input.u16());
                }
                let op_mod = u32::from(input.u8() & 3);
                let w = c.compose(
                    &CommandHarness::input(opcode_, op_mod, &bytes[..], &[]),
                    usize::from(input.u8()) * 8,
                );
                c.put(0, &w);
                c.register(init_segment::DOORBELL, 1);
            }
            9 => {
                let t = c.now + Span::from_ns(u64::from(input.u16()) << (input.u8() & 7));
                c.now = t;
                c.device.advance(&mut c.port, t);
            }
            10 => {
                let frame = vec![input.u8(); usize::from(input.u16() & 0xfff)];
                let _ = c.device.receive(&mut c.port, c.now, &frame);
            }
            _ => match input.u8() {
                0 => c.device.reset(&mut c.port, c.now),
                1 => {
                    c.device.set_carrier(&mut c.port, c.now, false);
                    c.device.set_carrier(&mut c.port, c.now, true);
                }
                n => c.device.request_pages(&mut c.port, c.now, i16::from(n.cast_signed())),
            },
        }
        if polled_doorbells {
            let memory = &c.port.memory;
            c.device.look_again(c.now, |at| {
                memory.get(usize::try_from(at.0).ok()?..)?.first_chunk().copied()
            });
        }
        assert!(c.port.log.len() < BOUND, "{} accesses for one step", c.port.log.len());
        c.port.log.clear();
    }
    c.settle();
    assert!(c.port.log.len() < BOUND);
    assert!(c.device.unknown_commands().len() <= 64);
    let now = c.now;
    c.device.reset(&mut c.port, now);
    c.port.forbidden = true;
    c.settle();
}
