//! Any register accesses, ring contents, frames and times: the 8254x model does
//! not panic, comes to rest, touches memory only through its port, in order of
//! time, and CTRL.RST brings it back.
#![no_main]

use doorbell_devices::e1000::{Config, E1000};
use doorbell_hal::{Device, DmaFault, DmaFaultKind, Iova, Port, Reg, Span, Time, EventSource};
use libfuzzer_sys::fuzz_target;

const MEMORY: usize = 1 << 16;
const CTRL: u32 = 0;
const RST: u32 = 1 << 26;

struct Memory {
    bytes: Vec<u8>,
    /// Addresses wrap instead of failing.
    wraps: bool,
    /// Another CPU of the guest writes: what is read twice is not the same twice.
    racing: Option<u8>,
    price: Span,
    latest: Time,
    line: bool,
    frames: u64,
}

impl Memory {
    fn place(&mut self, at: Time, a: Iova, len: usize) -> Result<usize, DmaFault> {
        assert!(at >= self.latest, "time goes back");
        self.latest = at;
        if self.wraps {
            return Ok(a.0 as usize % (MEMORY - len));
        }
        let end = (a.0 as usize).checked_add(len).filter(|&end| end <= MEMORY);
        end.map(|end| end - len).ok_or(DmaFault { at: a, kind: DmaFaultKind::Unmapped })
    }
}

impl Port for Memory {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        let start = self.place(at, from, into.len())?;
        into.copy_from_slice(&self.bytes[start..start + into.len()]);
        if let Some(n) = &mut self.racing {
            *n = n.wrapping_mul(29).wrapping_add(7);
            let place = start + usize::from(*n) % into.len().max(1);
            if let Some(b) = self.bytes.get_mut(place) {
                *b ^= *n;
            }
        }
        Ok(at + self.price)
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let start = self.place(at, to, from.len())?;
        self.bytes[start..start + from.len()].copy_from_slice(from);
        Ok(at + self.price)
    }
    fn set_irq_line(&mut self, _: Time, n: u16, high: bool) {
        assert!(n == 0 && high != self.line, "the line changes");
        self.line = high;
    }
    fn raise_msi(&mut self, _: Time, _: u16) {
        panic!("it has no message interrupts");
    }
    fn emit(&mut self, _: Time, frame: &[u8]) {
        assert!(!frame.is_empty());
        self.frames += 1;
    }
}

/// Lets it do all that it has to do, which must come to an end.
fn drain(d: &mut E1000, p: &mut Memory, now: &mut Time) {
    let mut steps = 0u32;
    while let Some(due) = d.next_due() {
        *now = (*now).max(due);
        d.advance(p, *now);
        assert!(d.next_due().is_none_or(|t| t > *now), "what was due has been done");
        steps += 1;
        assert!(steps < 10_000_000, "it goes on for ever");
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&head, mut input)) = input.split_first() else { return };
    let cfg = [Config::I82540EM, Config::I82544GC, Config::I82545EM][usize::from(head & 3) % 3];
    let mut d = E1000::new(cfg);
    let mut p = Memory {
        bytes: vec![0; MEMORY],
        wraps: head & 4 != 0,
        racing: (head & 16 != 0).then_some(head),
        price: Span::from_ns(if head & 8 != 0 { 700 } else { 0 }),
        latest: Time::ZERO,
        line: false,
        frames: 0,
    };
    let mut now = Time::ZERO;
    while let Some((act, rest)) = input.split_first_chunk::<8>() {
        input = rest;
        let offset = u32::from(u16::from_le_bytes([act[1], act[2]]) & 0x7fff) * 4;
        let v = u32::from_le_bytes([act[3], act[4], act[5], act[6]]);
        match act[0] % 8 {
            0..3 => d.mmio_write(&mut p, now, Reg::at(offset), 4, v.into()),
            3 => {
                d.advance(&mut p, now);
                d.mmio_read(&mut p, now, Reg { region: act[7] % 3, offset }, 1 << (act[0] >> 6));
            }
            4 => {
                let at = usize::from(u16::from_le_bytes([act[1], act[2]])).min(MEMORY - 5);
                p.bytes[at..at + 5].copy_from_slice(&act[3..8]);
            }
            5 => {
                d.advance(&mut p, now);
                let len = (v as usize % 2000).min(MEMORY);
                let mut frame = vec![act[7]; len];
                for (to, from) in frame.iter_mut().zip(rest) {
                    *to = *from;
                }
                d.receive(&mut p, now, &frame);
            }
            6 => {
                now += Span::from_ns(u64::from(v) % 1_000_000);
                d.advance(&mut p, now);
            }
            _ => d.mmio_write(
                &mut p,
                now,
                Reg { region: act[7] % 3, offset: offset + u32::from(act[7] >> 6) },
                1 << (act[7] >> 4 & 3),
                v.into(),
            ),
        }
        assert!(d.next_due().is_none_or(|t| t >= now), "nothing is overdue");
    }
    drain(&mut d, &mut p, &mut now);
    d.mmio_write(&mut p, now, Reg::at(CTRL), 4, RST.into());
    assert!(!p.line && !d.line(), "the line is low after a reset");
    drain(&mut d, &mut p, &mut now);
    let before = p.latest;
    d.advance(&mut p, now + Span::from_ms(100));
    assert_eq!(p.latest, before, "no DMA after a reset");
});
