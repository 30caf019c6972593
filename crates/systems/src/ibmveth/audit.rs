//! The audit of a whole run: counts of drivers, adapters, port, bridge, ledger and wire agree, in
//! frames of the wire.
//!
//! With faults, the LAN accounts for each frame that was sent and did not arrive, and the driver
//! for each send that failed.

use super::lan::{CLIENT, SERVER};
use super::{Alone, RunStats, Setup, server::Lpars};
use crate::audit::{ANY, CrossCheck};
use crate::{papr, run};
use doorbell_bus::Bus;
use doorbell_devices::veth::Counters;
use doorbell_drivers::ibmveth::{LargeSend, Stats};
use doorbell_layout::ibmveth::CALLS;
use doorbell_sim::fault::Report;
use doorbell_sim::traffic::arrivals::Arrivals as Source;

/// Compares the counts.
pub(super) fn audit(setup: &Setup, o: &RunStats, m: &Lpars) -> CrossCheck {
    let mut b = CrossCheck::of(o);
    for (i, who) in [(CLIENT, "client"), (SERVER, "server")] {
        b.place = format!("{who}, ");
        let counters = (&o.totals.drivers[i], &o.totals.adapters[i]);
        adapter(&mut b, counters, setup.drivers[i].large_send, o.faults.as_ref());
        let port = if i == SERVER { o.totals.port.interrupts } else { 0 };
        let messages = m.bus.ports[i].platform().ledger.messages;
        let sent = counters.1.interrupts + port;
        b.same("interrupts: ledger counted {}, LAN and port sent {}", messages, sent);
    }
    b.place.clear();
    let all = m.bus.ledger();
    let calls = papr::made(&m.bus, &CALLS);
    let made = |name: &str| calls.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
    let by_kind: u64 = calls.iter().map(|c| c.1).sum();
    let by_kind = by_kind + all.tce_hcalls;
    b.same("calls: ledger counted {}, by kind, and for translation {}", all.hcalls, by_kind);
    let sends: u64 =
        o.totals.drivers.iter().map(|d| d.tx_packets + d.tx_busy + d.tx_send_failed).sum();
    b.same("sends: drivers made {}, hypervisor answered {}", sends, made("hcall_send"));
    let strangers = m.device.device.veth.0.strangers();
    b.never("unit addresses: of others {}", strangers);

    // From one partition to the other, with the segments that the LAN cut.
    for (from, to) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
        let (a, r) = (&o.totals.adapters[from], &o.totals.adapters[to]);
        let nobody = a.drop_unowned + a.drop_gone + a.drop_source + a.drop_closed;
        b.none("frames to nobody: lost {}", nobody, ANY);
        if r.rx_segments == 0 {
            let lost = r.rx_no_buffer + r.rx_bad_buffer + r.rx_lost_entry;
            let (sent, arrived) = (a.tx_packets, r.rx_packets);
            if o.faults.is_none() {
                b.same("frames on the LAN: sent {}, arrived or lost {}", sent, arrived + lost);
            } else {
                // A frame whose entry was lost as well counts as lost twice.
                let lost = ("lost", lost + nobody);
                b.less("frames on the LAN: sent {}, arrived {}", [sent, arrived], lost);
            }
        }
    }

    // Through the bridge, in frames of the wire.
    let (bridge, p, d) = (&o.totals.bridge, &o.totals.port, &o.totals.port_driver);
    let handed = o.totals.drivers[SERVER].rx_packets;
    b.same("from the LAN: driver handed up {}, bridge forwarded {}", handed, bridge.to_port);
    let text = "to the wire: bridge gave, in segments {}, port sent {}";
    b.same(text, bridge.to_port_segments, p.tx_frames);
    b.same("to the wire: port sent {}, ledger counted {}", p.tx_frames, all.wire_frames);
    b.same("to the wire: port sent {}, link carried {}", p.tx_frames, m.device.out.borrow().frames);
    let (brought, taken) = (m.device.back.landed.0, p.rx_frames + p.rx_missed);
    b.same("from the wire: link brought {}, port took or missed {}", brought, taken);
    let text = "from the wire: port took {}, driver handed up {}";
    b.same(text, p.rx_frames, d.rx_packets + d.rx_no_memory);
    let text = "from the wire: driver handed up {}, bridge forwarded, in segments {}";
    b.same(text, d.rx_packets, bridge.to_lan_segments);
    b.never("the port: refused {}", p.tx_too_long);
    b.never("the bridge: lost {}", bridge.dropped + d.tx_dropped);
    let dropped = o.totals.drivers.iter().map(|d| d.tx_dropped).sum();
    b.none("transmit: dropped by drivers {}", dropped, ANY);
    b
}

/// Compares the counts of an adapter and its driver.
fn adapter(
    b: &mut CrossCheck,
    (d, a): (&Stats, &Counters),
    large_send: LargeSend,
    faults: Option<&Report>,
) {
    let struck = faults.map_or(0, |f| f.struck.dma);
    b.same("frames sent: driver gave {}, LAN took {}", d.tx_packets, a.tx_packets);
    b.never("checksums: that LAN made wrong {}", a.wire_bad_checksums);
    b.same("bytes sent: driver gave {}, LAN took {}", d.tx_bytes, a.tx_bytes);
    let failed = ("of sends that failed", if d.tx_send_failed > 0 { ANY } else { 0 });
    let text = "descriptors: driver wrote {}, LAN read {}";
    b.less(text, [d.tx_descriptors, a.tx_descriptors], failed);
    b.same("busy sends: driver repeated {}, LAN said {}", d.tx_busy, a.tx_busy);
    if large_send == LargeSend::Firmware {
        let text = "large sends: driver gave {}, LAN took {}";
        b.less(text, [d.tx_large_packets, a.tx_large], failed);
    }
    let refused = d.rx_bad_correlator + d.rx_malformed + d.rx_unread;
    let wrote = a.rx_packets + a.rx_bad_buffer;
    let ended = d.rx_packets + d.rx_invalid_buffer + refused;
    let late = faults.map_or(0, |f| f.struck.late);
    let lost = ("entries lost, or late", a.rx_lost_entry + late);
    let text = "frames received: LAN wrote {}, driver handed up or refused {}";
    b.less(text, [wrote, ended], lost);
    if faults.is_none() {
        b.never("buffers: that LAN could not fill {}", a.rx_bad_buffer);
        // Of frames that the driver did not come to, the bytes are not known.
        if d.rx_unread + a.rx_lost_entry == 0 {
            b.same("bytes received: LAN wrote {}, driver handed up {}", a.rx_bytes, d.rx_bytes);
        }
    }
    let text = "buffers lent: driver counted {}, LAN counted {}";
    b.same(text, d.replenish_add_buff_success, a.buffers_added);
    // A counter that could not be written is not read.
    let unwritten = ("not written", if struck > 0 { ANY } else { 0 });
    let text = "frames without a buffer: LAN counted {}, driver read {}";
    b.less(text, [a.rx_no_buffer, d.rx_no_buffer], unwritten);
    b.none("sends: failed {}", d.tx_send_failed, struck);
    // A refused call may cause others: an adapter that could not be opened is closed.
    b.none("calls: refused {}", a.refused + a.tx_refused, if struck > 0 { ANY } else { 0 });
}

/// Compares the counts of a run of frames that arrive at the client alone: each that came was
/// handed up, or is lost at a place that is counted.
pub(super) fn alone(
    setup: &Setup,
    o: &run::RunStats,
    m: &Alone<Source>,
    driver: &Stats,
) -> CrossCheck {
    let (a, network) = (m.device.device.0.counters(CLIENT), m.device.device.0.uplink());
    let mut b = CrossCheck::of(o);
    adapter(&mut b, (driver, a), setup.drivers[CLIENT].large_send, o.faults.as_ref());
    let messages = m.bus.ports[CLIENT].platform().ledger.messages;
    b.same("interrupts: ledger counted {}, LAN sent {}", messages, a.interrupts);
    let (brought, refused) = (m.device.back.landed.0, m.device.dropped);
    let text = "frames in: wire brought {}, LAN took or refused {}";
    b.same(text, brought, network.tx_packets + refused);
    b.never("frames in: refused {}", refused);
    let text = "frames in: LAN took {}, LAN wrote or lost {}";
    b.same(text, network.tx_packets, a.rx_packets + network.tx_dropped);
    // With faults the adapter is closed at times, and buffers or entries are not reached. Frames of
    // a capture may be of a VLAN that the adapter is not on.
    let lost = [network.tx_dropped, a.rx_no_buffer + network.drop_unowned];
    let text = "frames in: LAN lost {}, for want of a buffer or a receiver {}";
    b.less(text, lost, ("for other reasons", ANY));
    b
}
