use doorbell_bus::*;
use doorbell_bus::pcie::{Rules, Settings};
use doorbell_devices::mlx5::{Config as Nic, Mlx5};
use doorbell_drivers::mlx5::{Channel, Config};
use doorbell_lab::{clock::*, mlx5::*, traffic::*};
use doorbell_seam::*;
fn main() {
    for mpwqe in [false, true] {
    for (cores, rate) in [(1, 0), (24, 36_864_000u64), (24, 0)] {
        let platform = Platform::new(1 << 32, 256 << 20, Guard::Page);
        let pcie = Pcie::new(platform, Rules::new(Settings::link(2, 16)).unwrap(), Latencies { link: Span::from_ns(150), memory: Span::from_ns(250) }, 0x3c_0000_0000);
        let mut costs = Costs::FREE;
        costs.work[WorkKind::Stack as usize].each = Span::from_ns(58);
        let mut m = Machine::new(pcie, Mlx5::new(Nic::CONNECTX), costs, cores);
        let mut cs = vec![];
        let per_core = 10_000_000u64 / cores as u64;
        for i in 0..cores {
            let mut c = Config::DEFAULT; c.vector = i as u16; c.mpwqe = mpwqe;
            let ch = Channel::open(&mut m, Direct, &c).unwrap();
            let r = if rate == 0 { Rate::Full } else { Rate::Burst(Span::from_ps(32 * cores as u64 * 1_000_000_000_000 / rate)) };
            let first = if rate == 0 { Time::ZERO } else { Time::from_ps(32 * i as u64 * 1_000_000_000_000 / rate) };
            let t = Pktgen::new(&mut m, 64, 32, per_core, r, first, 4200, i as u16, false).unwrap();
            cs.push(Core::new(ch, t, i as u16));
        }
        let t0 = std::time::Instant::now();
        let mut n = 0u64;
        run(&mut m, &mut cs, |_| n += 1).unwrap();
        let dt = t0.elapsed().as_secs_f64();
        let total = per_core * cores as u64;
        let l = m.ledger();
        let el = m.bus.booked_until().as_secs_f64();
        println!("mpwqe {mpwqe} cores {cores} rate {rate}: {:.2} M simulated pps, virtual {:.2} Mpps, inbound {:.2} B/pkt (tlp {:.2} dllp {:.2}), steps {n}",
            total as f64 / dt / 1e6, total as f64 / el / 1e6, (l.pcie_down_tlp_bytes + l.pcie_down_dllp_bytes) as f64 / total as f64, l.pcie_down_tlp_bytes as f64 / total as f64, l.pcie_down_dllp_bytes as f64 / total as f64);
        println!("  {:?}\n  {:?}", m.device.counters, cs[0].driver.stats());
    }}
}
