//! Any register accesses, rings, frames and times: the AXI Ethernet and AXI DMA model does
//! not panic, does no more in a time than it has clocks for, touches memory only through its
//! port, in order of time, and the reset bit of a channel brings it back.
#![no_main]

use doorbell_devices::axi_ethernet::{AxiEthernet, Checksum, Config};
use doorbell_hal::{Device, DmaFault, DmaFaultKind, Iova, Port, Reg, Span, Time, EventSource};
use libfuzzer_sys::fuzz_target;

const MEMORY: usize = 1 << 16;
const MAC: u8 = 0;
const DMA: u8 = 1;
/// The control register of the transmit channel.
const CR: u32 = 0;
const RESET: u32 = 1 << 2;

struct Memory {
    bytes: Vec<u8>,
    /// Addresses wrap instead of failing.
    wraps: bool,
    price: Span,
    latest: Time,
    lines: [bool; 3],
    accesses: u64,
}

impl Memory {
    fn place(&mut self, at: Time, a: Iova, len: usize) -> Result<usize, DmaFault> {
        assert!(at >= self.latest, "time goes back");
        assert!(len > 0 && len <= 16 << 10, "an access of {len} bytes");
        self.latest = at;
        self.accesses += 1;
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
        Ok(at + self.price)
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let start = self.place(at, to, from.len())?;
        self.bytes[start..start + from.len()].copy_from_slice(from);
        Ok(at + self.price)
    }
    fn set_irq_line(&mut self, _: Time, n: u16, high: bool) {
        let line = &mut self.lines[usize::from(n)];
        assert!(high != *line, "line {n} changes");
        *line = high;
    }
    fn raise_msi(&mut self, _: Time, _: u16) {
        panic!("it has no message interrupts");
    }
    fn emit(&mut self, _: Time, frame: &[u8]) {
        assert!(!frame.is_empty());
    }
}

/// Lets it work for a while: it has so many clocks of 8 ns, and ten a descriptor.
fn work(d: &mut AxiEthernet, p: &mut Memory, now: &mut Time, span: Span) {
    let before = p.accesses;
    *now += span;
    d.advance(p, *now);
    assert!(d.next_due().is_none_or(|t| t > *now), "what was due has been done");
    assert!(p.accesses - before <= span.ps() / 8000 + 100, "more than it has time for");
}

fuzz_target!(|input: &[u8]| {
    let Some((&head, mut input)) = input.split_first() else { return };
    let kinds = [Checksum::None, Checksum::CsumPartial, Checksum::Full, Checksum::Full];
    let sums = kinds[usize::from(head & 3)];
    let cfg = Config {
        tx_checksum: sums,
        rx_checksum: sums,
        address_bits: if head & 16 != 0 { 32 } else { 64 },
        realign: head & 32 != 0,
        phy_reset: Span::from_us(3),
        negotiation: Span::from_us(2),
        extended_multicast: head & 64 != 0,
        ..Config::ZYNQMP
    };
    let mut d = AxiEthernet::new(cfg);
    let mut p = Memory {
        bytes: vec![0; MEMORY],
        wraps: head & 4 != 0,
        price: Span::from_ns(if head & 8 != 0 { 700 } else { 0 }),
        latest: Time::ZERO,
        lines: [false; 3],
        accesses: 0,
    };
    let mut now = Time::ZERO;
    while let Some((act, rest)) = input.split_first_chunk::<8>() {
        input = rest;
        let offset = u32::from(u16::from_le_bytes([act[1], act[2]]));
        let v = u32::from_le_bytes([act[3], act[4], act[5], act[6]]);
        // The engine has 24 registers.
        let dma = Reg { region: DMA, offset: offset % 24 * 4 };
        let mac = Reg { region: MAC, offset: (offset * 4) % (256 << 10) };
        match act[0] % 8 {
            0 | 1 => d.mmio_write(&mut p, now, dma, 4, v.into()),
            2 => d.mmio_write(&mut p, now, mac, 4, v.into()),
            3 => {
                d.advance(&mut p, now);
                d.mmio_read(&mut p, now, Reg { region: act[7] % 3, ..mac }, 1 << (act[0] >> 6));
                d.mmio_read(&mut p, now, dma, 4);
            }
            4 => {
                let at = usize::from(u16::from_le_bytes([act[1], act[2]])).min(MEMORY - 5);
                p.bytes[at..at + 5].copy_from_slice(&act[3..8]);
            }
            5 => {
                d.advance(&mut p, now);
                let mut frame = vec![act[7]; v as usize % 10_000];
                for (to, from) in frame.iter_mut().zip(rest) {
                    *to = *from;
                }
                d.receive(&mut p, now, &frame);
            }
            6 => work(&mut d, &mut p, &mut now, Span::from_ns(u64::from(v) % 1_000_000)),
            _ => {
                let r = Reg { region: act[7] % 3, offset: offset + u32::from(act[7] >> 6) };
                d.mmio_write(&mut p, now, r, 1 << (act[7] >> 4 & 3), v.into());
            }
        }
        assert!(d.next_due().is_none_or(|t| t >= now), "nothing is overdue");
        assert!(d.rx_memory_used() <= cfg.rx_memory as usize);
    }
    // A reset under way lasts 16 clocks and takes no other.
    work(&mut d, &mut p, &mut now, Span::from_us(100));
    d.mmio_write(&mut p, now, Reg { region: DMA, offset: CR }, 4, RESET.into());
    assert_eq!(p.lines, [false; 3], "the lines are low after a reset");
    let before = p.accesses;
    work(&mut d, &mut p, &mut now, Span::from_ms(100));
    assert_eq!(p.accesses, before, "no DMA after a reset");
    assert_eq!(d.next_due(), None);
});
