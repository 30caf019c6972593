//! The e1000 driver on a card that lies: all four parts, with and without copies, short buffers,
//! two queues.

use super::{Desk, Seen, Subject};
use crate::fuzz::Seed;
use doorbell_conformance::e1000::model::{self, System};
use doorbell_drivers::e1000::{Config, E1000, Eeprom, Throttle};
use doorbell_drivers::{Filter, OpenError};
use doorbell_hal::Span;
use doorbell_testkit::Hostile;

fn config(shape: u8) -> Config {
    let (_, c) = model::numbered(shape.into(), shape & 8 != 0, MEMORY);
    let microwire = shape & 0x10 != 0 && !c.part.is_82574();
    let eeprom = if microwire { Eeprom::Microwire } else { Eeprom::Eerd };
    let throttle = if shape & 0x20 == 0 { Throttle::Off } else { Throttle::Dynamic };
    let (rx_buffer, max_frame) = if shape & 0x40 == 0 { (2048, 1514) } else { (256, 9014) };
    let queues = if shape & 0x80 != 0 && c.part.is_82574() { 2 } else { 1 };
    Config { tx_ring: 48, rx_ring: 48, eeprom, throttle, rx_buffer, max_frame, queues, ..c }
}

const MEMORY: usize = 2 << 20;

impl Subject<System> for E1000 {
    fn machine(shape: u8) -> System {
        model::numbered(shape.into(), shape & 8 != 0, MEMORY).0
    }
    fn open_on(h: &mut Hostile<System>, shape: u8) -> Result<E1000, OpenError> {
        E1000::open(h, &config(shape))
    }
    fn shut(self, h: &mut Hostile<System>) {
        self.close(h);
    }
    fn reset(&mut self, h: &mut Hostile<System>) -> Result<(), OpenError> {
        self.restart(h)?;
        self.set_filter(h, &Filter::default());
        Ok(())
    }
    fn change(&mut self, h: &mut Hostile<System>, what: u8) {
        match what % 6 {
            0 => self.set_filter(h, &Filter { promiscuous: true, ..Filter::default() }),
            1 => self.set_filter(h, &super::groups(what)),
            2 => self.set_vlans(h, (what & 8 != 0).then_some(&[5, 6])),
            3 => _ = self.hardware(h),
            // What a card answers is not the driver's fault.
            4 => _ = self.phy(h, what >> 3),
            _ => _ = self.eeprom(h, Eeprom::Eerd, what >> 2),
        }
    }
    fn poll_second(&mut self, h: &mut Hostile<System>, budget: u32, up: &mut Desk) {
        if self.has(1) {
            let _ = self.poll_on(h, 1, budget, up);
        }
    }
    fn station(&self) -> Option<[u8; 6]> {
        Some(self.mac())
    }
    fn check(&self, seen: &Seen) {
        let s = self.stats();
        assert_eq!((s.rx_packets, s.rx_bytes), (seen.received, seen.received_bytes));
        // The driver counts the segments that it makes of large sends.
        if s.tx_segmented == 0 {
            assert_eq!(s.tx_queued, seen.taken);
        }
        assert!(s.tx_queued <= seen.taken + s.tx_segments);
        assert!(seen.returned <= seen.taken);
    }
    fn settling() -> Span {
        // Autonegotiation takes some two seconds.
        Span::from_ms(2500)
    }
}

/// Attacks the driver as `bytes` say.
pub fn attack(bytes: &[u8]) -> Seen {
    super::attack::<System, E1000>(bytes)
}

/// Checks that its filter outlives its own resets.
pub fn keeps_its_filter() {
    super::keeps_its_filter::<System, E1000>();
}

/// Returns its seeds.
pub fn seeds() -> Vec<Seed> {
    super::seeds([0, 0xf5])
}
