//! The ibmvnic driver under a server that lies: one queue pair or two, each rule of direct sends
//! and of posting buffers.

use super::{Desk, Seen, Subject};
use crate::fuzz::Seed;
use doorbell_conformance::ibmvnic::{System, sized};
use doorbell_devices::vnic;
use doorbell_drivers::ibmvnic::{Config, Direct, Ibmvnic, Replenish};
use doorbell_drivers::{Alarm, Filter, OpenError};
use doorbell_hal::Span;
use doorbell_testkit::Hostile;

/// Large sends among the offloads of a server.
const LARGE: std::ops::Range<usize> = 6..8;

fn config(shape: u8) -> Config {
    use Direct::*;
    let d = vnic::Config::POWERVM;
    let direct = [Inspect, Adaptive, Never, IgnoreHeaders, SoftwareChecksum];
    let replenish = [Replenish::BelowHalf, Replenish::EachPoll, Replenish::WholeArrays];
    Config {
        tx_entries: 16,
        rx_entries: 32,
        tso_buffers: 1,
        queues: if shape & 0x40 == 0 { 1 } else { 2 },
        direct: direct[usize::from(shape & 7) % 5],
        replenish: replenish[usize::from(shape >> 3 & 3) % 3],
        crq_vector: d.crq_vector,
        ..Config::new(d.unit_address, d.mac)
    }
}

impl Subject<System> for Ibmvnic {
    fn machine(shape: u8) -> System {
        let mut d = vnic::Config::POWERVM;
        if shape & 0x80 != 0 {
            // It takes no large sends.
            d.servers.iter_mut().for_each(|s| s.offloads[LARGE].fill(false));
        }
        sized(d, 2 << 20)
    }
    fn open_on(h: &mut Hostile<System>, shape: u8) -> Result<Ibmvnic, OpenError> {
        Ibmvnic::open(h, &config(shape))
    }
    fn shut(self, h: &mut Hostile<System>) {
        self.close(h);
    }
    fn reset(&mut self, h: &mut Hostile<System>) -> Result<(), OpenError> {
        self.set_mtu(h, self.config().mtu)?;
        self.set_filter(h, &Filter::default())
    }
    fn change(&mut self, h: &mut Hostile<System>, what: u8) {
        // A server may refuse any of it.
        _ = match what % 8 {
            0 => self.set_filter(h, &Filter { all_multicast: true, ..Filter::default() }),
            1 => self.set_filter(h, &super::groups(what)),
            2 => self.set_mtu(h, if what & 8 == 0 { 1500 } else { 3000 }),
            3 => self.set_mac(h, [2, 0, 0, 0, 0, what]),
            4 => self.server_statistics(h).map(drop),
            5 => self.fail_over(h),
            6 => {
                self.watchdog(h);
                self.alarm_on(h, 1, Alarm::TxTimeout);
                Ok(())
            }
            _ => {
                h.inner.outside(|d, _, at| match what >> 3 & 3 {
                    0 => d.0.server.fail_over(0, at),
                    1 => d.0.server.migrate(0, at),
                    2 => d.0.server.set_link(0, at, what & 0x20 != 0),
                    _ => d.0.server.report_error(0, at, what.into(), what & 0x20 != 0),
                });
                Ok(())
            }
        };
    }
    fn poll_second(&mut self, h: &mut Hostile<System>, budget: u32, up: &mut Desk) {
        if self.config().queues > 1 {
            self.poll_on(h, 1, budget, up);
        }
    }
    fn station(&self) -> Option<[u8; 6]> {
        Some(self.config().mac)
    }
    fn check(&self, seen: &Seen) {
        let q = self.totals();
        assert_eq!((q.rx_packets, q.rx_bytes), (seen.received, seen.received_bytes));
        let ended = q.tx_completed + q.tx_errors + q.tx_lost + q.tx_refused + q.tx_batch_lost;
        assert!(ended <= seen.taken + q.tx_segments, "{ended} of {seen:?}");
        assert!(seen.returned <= ended, "{ended} of {seen:?}");
    }
    fn settling() -> Span {
        Span::from_us(300)
    }
}

/// Attacks the driver as `bytes` say.
pub fn attack(bytes: &[u8]) -> Seen {
    super::attack::<System, Ibmvnic>(bytes)
}

/// Returns its seeds.
pub fn seeds() -> Vec<Seed> {
    super::seeds([0, 0xc9])
}
