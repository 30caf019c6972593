//! The axienet driver on cores that lie: 32 and 64 address bits, each kind of checksum, with and
//! without a PHY.

use super::{Seen, Subject};
use crate::fuzz::Seed;
use doorbell_conformance::axienet::model::{self, System};
use doorbell_devices::axi_ethernet as device;
use doorbell_drivers::axienet::{Adaptive, Axienet, Checksum, Coalesce, Config};
use doorbell_drivers::{Filter, OpenError};
use doorbell_hal::{Alignment, Span};
use doorbell_testkit::Hostile;

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
const PHY: u8 = 5;

fn bits(shape: u8) -> u8 {
    if shape & 4 == 0 { 32 } else { 64 }
}

fn config(shape: u8) -> Config {
    let sums = [Checksum::CsumPartial, Checksum::Full, Checksum::None][usize::from(shape & 3) % 3];
    let adaptive_rx = if shape & 8 == 0 { Adaptive::Off } else { Coalesce::LINUX.adaptive_rx };
    Config {
        tx_ring: 32,
        rx_ring: 32,
        tx_checksum: sums,
        rx_checksum: sums,
        address_bits: bits(shape),
        phy: (shape & 0x10 == 0).then_some(PHY),
        rx_place: Alignment { align: 64, offset: 2 },
        statistics: Some(true),
        batch: shape & 0x20 != 0,
        coalesce: Coalesce { rx_frames: 1, tx_frames: 1, adaptive_rx, ..Coalesce::LINUX },
        ..Config::new(MAC)
    }
}

impl Subject<System> for Axienet {
    fn machine(shape: u8) -> System {
        let c = config(shape);
        let core = device::Config {
            phy: Some(PHY),
            tx_checksum: c.tx_checksum,
            rx_checksum: c.rx_checksum,
            ..device::Config::ZYNQMP
        };
        model::system(bits(shape).into(), core, 4 << 20)
    }
    fn open_on(h: &mut Hostile<System>, shape: u8) -> Result<Axienet, OpenError> {
        let c = config(shape);
        Axienet::open(h, &c, c.net_dim())
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
            2 => _ = self.hardware(h),
            // What a core answers is not the driver's fault.
            3 => _ = self.mdio_read(h, PHY, what >> 3),
            4 => _ = self.mdio_write(h, PHY, 4, 0x0101),
            _ => {
                let rx_frames = u32::from(what >> 3) + 1;
                _ = self.set_coalesce(h, &Coalesce { rx_frames, ..self.coalesce() });
            }
        }
    }
    fn station(&self) -> Option<[u8; 6]> {
        Some(self.mac())
    }
    fn check(&self, seen: &Seen) {
        let s = self.stats();
        assert_eq!((s.rx_packets, s.rx_bytes), (seen.received, seen.received_bytes));
        if s.tx_segmented == 0 {
            assert_eq!(s.tx_queued, seen.taken);
        }
        // The driver segments large sends, and counts their segments.
        assert!(s.tx_packets <= s.tx_queued && seen.returned <= seen.taken);
    }
    fn settling() -> Span {
        Span::from_ms(2500)
    }
}

/// Attacks the driver as `bytes` say.
pub fn attack(bytes: &[u8]) -> Seen {
    super::attack::<System, Axienet>(bytes)
}

/// Checks that its filter outlives its own resets.
pub fn keeps_its_filter() {
    super::keeps_its_filter::<System, Axienet>();
}

/// Returns its seeds.
pub fn seeds() -> Vec<Seed> {
    super::seeds([0x28, 0x05])
}
