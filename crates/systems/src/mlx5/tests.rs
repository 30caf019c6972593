use super::*;
use crate::DOORBELL;
use doorbell_bus::{Platform, ProtectionGranularity};
use doorbell_drivers::Driver;
use doorbell_hal::{Alignment, Host, Time};
use doorbell_packet::{Fragment, Packet};
use doorbell_sim::traffic::tcp::{App, frame, pair};

/// A channel closed with a completion in flight leaves nothing in flight.
#[test]
fn nothing_arrives_after_destroy() {
    let setup = settings::setup(&DOORBELL.profile("mlx5-gen2").unwrap().all_values()).unwrap();
    let platform = Platform::new(setup.memory_base, 4 << 20, ProtectionGranularity::Byte);
    let pcie = Pcie::new(platform, Rules::new(setup.pcie).unwrap(), setup.latencies, setup.bar);
    let mut m = Machine::new(pcie, Mlx5::new(setup.nic), setup.host.costs, 1);
    let hca = Rc::new(RefCell::new(Hca::open(&mut m).unwrap()));
    let mut channel = Channel::open(&mut m, Rc::clone(&hca), &setup.driver).unwrap();
    let before = m.ledger().pcie_mwr_up;
    let p = m.buffer(64, Alignment::ANY).unwrap();
    assert!(matches!(
        channel.transmit(&mut m, Packet::linear(Fragment::whole(p)), false),
        doorbell_drivers::Tx::Ok
    ));
    // The device has written the CQE; it has not arrived.
    while m.ledger().pcie_mwr_up == before {
        m.relax();
    }
    assert!(m.bus.platform().next_arrival() < Time::NEVER);
    channel.close(&mut m);
    assert_eq!(m.bus.platform().next_arrival(), Time::NEVER);
    Rc::into_inner(hca).unwrap().into_inner().close(&mut m);
    assert_eq!(m.bus.platform().memory.mapped(), (0, 0));
}

/// Counts the frames with payload that the peer sent or received, and their bytes.
struct Payload {
    /// The port at the other end of those.
    to: u16,
    frames: u64,
    bytes: u64,
}

impl Watch for Payload {
    fn wants_frames(&self) -> bool {
        true
    }
    fn frame(&mut self, _: Time, frame: &[u8]) -> std::result::Result<(), String> {
        let read = frame::read(frame).filter(|r| !r.payload.is_empty());
        if let Some(read) = read.filter(|r| r.destination_port == self.to) {
            self.frames += 1;
            self.bytes += read.payload.len() as u64;
        }
        Ok(())
    }
}

#[test]
fn a_transfer_is_its_bytes_in_full_segments() {
    // All of it fits a send buffer, and each write but the last fills segments.
    const BYTES: u64 = 700_001;
    for sends in [true, false] {
        for (large, scatter) in [("off", "on"), ("auto", "on"), ("off", "off")] {
            let mut plan = DOORBELL.plan("mlx5-send").unwrap();
            let sets =
                [&format!("traffic.large_send={large}"), &format!("traffic.scatter={scatter}")];
            let times = ["traffic.warmup=0", "traffic.duration=20", "run.guard=byte"];
            for s in sets.iter().map(|s| s.as_str()).chain(times) {
                plan.set(s).unwrap();
            }
            let setup = settings::setup(&plan.values).unwrap();
            let load = settings::connected(&plan.values, &setup).unwrap();
            let (connections, hosts) = pair(setup.nic.mac, 1, !sends, |_| {
                let source =
                    App::Source { left: BYTES, write: 64 * 1448, rate: None, next: Time::ZERO };
                let [source, drain] = [source, App::drain()].map(|app| (load.socket, app));
                if sends { (source, drain) } else { (drain, source) }
            });
            let to = if sends { connections[0].there.port } else { connections[0].here.port };
            let mut seen = Payload { to, frames: 0, bytes: 0 };
            let memory = memory_of_tcp(&setup, &load);
            let peer = (hosts, Span::from_us(5));
            let (mut m, hca, mut channels) = linked(&setup, memory, peer, &[[0, 0]]).unwrap();
            let (of, channel) = ((&load, connections), channels.remove(0));
            let (o, channel) =
                closed_loop::over(&mut m, channel, of, &setup.host, (UNTOLD, look), &mut seen)
                    .unwrap();
            let (arrived, sent) = {
                let end = &m.device.peer.ends[0].socket;
                (end.received(), end.delivered())
            };
            assert_eq!(if sends { arrived } else { sent }, BYTES, "{sends} {large} {scatter}");
            assert_eq!(seen.bytes, BYTES, "{sends} {large} {scatter}: none twice");
            assert_eq!(seen.frames, BYTES.div_ceil(1448), "{sends} {large} {scatter}");
            let o = finish((o, vec![channel]), m, hca, &setup);
            assert_eq!(o.verdict.audit, [""; 0], "{sends} {large} {scatter}");
            let cut = sends && large == "auto";
            assert_eq!(o.totals.driver.tso_packets > 0, cut, "{sends} {large} {scatter}");
            assert_eq!(o.totals.driver.tso_software, 0, "{sends} {large} {scatter}");
        }
    }
}
