//! Any bytes as a guest: WQE memory, doorbells, arms, commands, time. The device
//! does a bounded amount of work, writes nowhere but to its rings, and works again
//! after a reset of its queue.

use super::DeviceHarness;
use crate::fuzz::Seed;
use doorbell_conformance::frames;
use doorbell_devices::mlx5::{Config, Counters, Mlx5};
use doorbell_hal::{Device, EventSource, Reg, Span};
use doorbell_layout::mlx5::{CQ_UPDATE, Caps, CtrlSeg, EthSeg, SqState, opcode, uar};
use doorbell_testkit::mlx5::Access;
use zerocopy::IntoBytes;

pub(crate) struct Input<'a>(pub(crate) &'a [u8]);

impl Input<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let n = N.min(self.0.len());
        out[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        out
    }
    pub(crate) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }
    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }
    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

/// Accesses of one step at the most: a ring of 64 blocks holds 256 segments, each
/// at the most a packet, and 64 large sends of 256 bytes, each byte a segment.
const BOUND: usize = 64 * 256 * 4;

fn check(b: &mut DeviceHarness) {
    assert!(b.c.port.log.len() < BOUND, "{} accesses for one step", b.c.port.log.len());
    for a in b.c.port.log.drain(..) {
        if let Access::Write(_, at, n) = a {
            let end = at + n as u64;
            let cq = DeviceHarness::CQ..=DeviceHarness::CQ + 16 * 64;
            let eq = DeviceHarness::EQ..=DeviceHarness::EQ + 128 * 64;
            assert!(
                (cq.contains(&at) && cq.contains(&end)) || (eq.contains(&at) && eq.contains(&end)),
                "{n} B at {at:#x}"
            );
        }
    }
}

/// Attacks a device as `bytes` say. Returns the counters of the device.
///
/// # Panics
/// Panics if it lets itself be harmed.
pub fn attack(bytes: &[u8]) -> Counters {
    let mut input = Input(bytes);
    let shape = input.u8();
    let nic = Config {
        fetch_chunk: 64 << (shape & 3),
        fetch_ahead: 1024,
        refetch: shape & 4 != 0,
        caps: Caps { log_max_lso: 8, ..Config::CONNECTX.caps },
        ..Config::CONNECTX
    };
    let min_inline = u8::from(shape & 8 != 0);
    let mut b = DeviceHarness::sized(
        Mlx5::new(nic),
        6,
        4,
        u16::from(shape >> 4),
        u16::from(shape >> 5),
        min_inline,
    );
    b.c.port.holes.push(DeviceHarness::DATA + 0x8000..DeviceHarness::DATA + 0x1_0000);
    while !input.0.is_empty() {
        match input.u8() % 12 {
            0 => {
                let at = usize::from(input.u16()) % (64 * 64 - 16);
                let bytes: [u8; 16] = input.take();
                b.c.port.memory[DeviceHarness::SQ as usize + at..][..16].copy_from_slice(&bytes);
            }
            // A WQE whose head makes sense.
            1..=3 => {
                let ops = [opcode::NOP, opcode::SEND, opcode::ENHANCED_MPSW, opcode::LSO];
                let mut ctrl = CtrlSeg::new(
                    b.pc,
                    ops[usize::from(input.u8() & 3)],
                    b.sqn,
                    u32::from(input.u8() & 63),
                );
                ctrl.fm_ce_se = input.u8();
                let mut rest = Vec::new();
                for _ in 0..input.u8() & 63 {
                    match input.u8() & 3 {
                        0 => rest.extend(input.take::<16>()),
                        1 => rest.extend_from_slice(
                            b.data(u64::from(input.u16()), u32::from(input.u8())).as_bytes(),
                        ),
                        2 => {
                            rest.extend((u32::from(input.u16() & 0x3ff) | 1 << 31).to_be_bytes());
                            rest.extend([0x45; 12]);
                        }
                        _ => rest.extend([0; 16]),
                    }
                }
                b.put(&ctrl, &rest);
            }
            4 | 5 => b.ring(),
            6 => {
                let ctrl = CtrlSeg::new(input.u16(), input.u8(), b.sqn, u32::from(input.u8() & 63));
                let first8 = ctrl.as_bytes()[..8].try_into().expect("8 bytes");
                b.write(uar::SEND, 8, u64::from_le_bytes(first8));
            }
            7 => {
                let r = Reg {
                    region: input.u8() & 1,
                    offset: Mlx5::FIRST_UAR * uar::PAGE + u32::from(input.u16()),
                };
                let (size, v) = (input.u8() & 15, input.u64());
                b.c.device.mmio_write(&mut b.c.port, b.c.now, r, size, v);
            }
            8 => b.arm_cq(u32::from(input.u16())),
            9 => b.arm_eq(u32::from(input.u16())),
            10 => {
                let t = b.c.now + Span::from_ns(u64::from(input.u16()));
                b.until(t);
            }
            _ => {
                let states = [SqState::Reset, SqState::Ready, SqState::Error];
                let from = b.query_sq().expect("an SQ");
                let to = states[usize::from(input.u8()) % 3];
                if b.modify_sq(from, to).is_ok() && to == SqState::Reset {
                    b.pc = 0;
                }
                // The consumer reads, or says that it did.
                let ci = u32::from(input.u16());
                b.c.port.memory[DeviceHarness::DBR as usize + 64..][..4]
                    .copy_from_slice(&ci.to_be_bytes());
            }
        }
        check(&mut b);
    }
    b.settle();
    check(&mut b);
    assert_eq!(b.c.device.next_due(), None);
    let reached = b.c.device.counters;

    let from = b.query_sq().expect("an SQ");
    b.modify_sq(from, SqState::Reset).expect("any state may be reset");
    b.modify_sq(SqState::Reset, SqState::Ready).expect("a reset queue may be made ready");
    b.pc = 0;
    let sent = b.c.device.counters.packets;
    if min_inline == 0 {
        b.put_send(0, 60, true);
        b.go();
        assert_eq!(b.c.device.counters.packets, sent + 1, "it works again");
    }
    b.c.device.reset(&mut b.c.port, b.c.now);
    b.c.port.forbidden = true;
    b.settle();
    reached
}

/// Returns WQEs of each kind, and those that fail.
pub fn seeds() -> Vec<Seed> {
    // The place of the opcode in the list of `attack`.
    const NOP: u8 = 0;
    const SEND: u8 = 1;
    const SESSION: u8 = 2;
    const LARGE: u8 = 3;
    let raw = |segment: [u8; 16]| [&[0], &segment[..]].concat();
    let data = |at: u16, len: u8| {
        let [low, high] = at.to_le_bytes();
        vec![1, low, high, len]
    };
    let inline = |len: u8| vec![2, len, 0];
    let zeros = || vec![3];
    // A head with this length in segments that asks for a completion, and segments.
    let of_length = |which: u8, ds: u8, segments: &[Vec<u8>]| {
        [vec![1, which, ds, CQ_UPDATE, segments.len() as u8], segments.concat()].concat()
    };
    let wqe =
        |which: u8, segments: &[Vec<u8>]| of_length(which, 1 + segments.len() as u8, segments);
    let ring = || vec![4];
    let wait = || vec![10, 0xff, 0xff];
    // Error to reset to ready.
    let recover = || vec![11, 0, 0, 0, 11, 1, 0, 0];
    // A large send of 200 bytes behind inline headers of TCP over IPv4.
    let large = |mss: u16| {
        let frame = frames::ip([2; 6], true, false, 0);
        let eth = EthSeg {
            mss: mss.into(),
            inline_hdr_sz: (frame.len() as u16).into(),
            inline_hdr_start: [frame[0], frame[1]],
            ..EthSeg::default()
        };
        let mut bytes = [eth.as_bytes(), &frame[2..]].concat();
        bytes.resize(bytes.len().next_multiple_of(16), 0);
        let mut segments: Vec<_> = bytes.as_chunks().0.iter().map(|s| raw(*s)).collect();
        segments.push(data(0, 200));
        wqe(LARGE, &segments)
    };
    // The first 18 bytes of the frame are inline.
    let headed = EthSeg { inline_hdr_sz: 18.into(), ..EthSeg::default() };
    let headed = raw(headed.as_bytes().try_into().expect("16 bytes"));
    let good = [
        wqe(NOP, &[]),
        wqe(SEND, &[headed, zeros(), data(64, 100)]),
        wqe(SEND, &[zeros(), data(0, 60)]),
        wqe(SEND, &[zeros(), data(64, 100), data(256, 200)]),
        wqe(SEND, &[zeros(), inline(12), data(64, 100)]),
        ring(),
        wait(),
        wqe(SESSION, &[zeros(), data(0, 60), data(128, 90), inline(12)]),
        ring(),
        large(50),
        ring(),
        wait(),
        vec![8, 2, 0],
        vec![9, 1, 0],
        wait(),
    ]
    .concat();
    let bad = |wqe: Vec<u8>| [wqe, ring(), wait(), recover()].concat();
    let bad = [
        // No data, no Ethernet segment, a hole in memory, a length beyond the ring, no payload.
        bad(wqe(SEND, &[zeros()])),
        bad(wqe(SESSION, &[])),
        bad(wqe(SEND, &[zeros(), data(0x8000, 60)])),
        bad(of_length(SEND, 63, &[zeros(), data(0, 60)])),
        bad(large(0)),
        good.clone(),
    ]
    .concat();
    // An even byte comes first: see `mlx5::attack`.
    let make = |shape: u8, steps: &[u8]| [&[0, shape], steps].concat();
    vec![
        ("wqes", make(0, &good)),
        ("wqes_refetched", make(0x87, &good)),
        ("wqes_inline", make(8, &good)),
        ("wqes_wrong", make(0, &bad)),
    ]
}
