//! The audit of a whole run: counts of drivers, adapters, port, bridge, ledger and wire agree, in
//! frames of the wire.
//!
//! With faults, the LAN accounts for each frame that was sent and did not arrive, and the driver
//! for each send that failed.

use super::lan::{CLIENT, SERVER};
use super::server::Lpars;
use super::{CALLS, RunStats, Setup};
use crate::experiment::audit::{ANY, CrossCheck};
use crate::experiment::papr;
use doorbell_bus::Bus;
use doorbell_drivers::ibmveth::LargeSend;

/// Returns the failed checks.
pub(super) fn audit(setup: &Setup, o: &RunStats, m: &Lpars) -> Vec<String> {
    let struck = o.faults.map_or(0, |f| f.struck.dma);
    let mut b = CrossCheck::new(o.faults.as_ref());
    for (i, who) in [(CLIENT, "client"), (SERVER, "server")] {
        let (d, a) = (&o.totals.drivers[i], &o.totals.adapters[i]);
        let of = |what: &str| format!("{who}, {what}");
        b.same(&of("frames sent"), ("driver gave", d.tx_packets), ("LAN took", a.tx_packets));
        b.same(&of("bytes sent"), ("driver gave", d.tx_bytes), ("LAN took", a.tx_bytes));
        let failed = ("of sends that failed", if d.tx_send_failed > 0 { ANY } else { 0 });
        b.less(
            &of("descriptors"),
            ("driver wrote", d.tx_descriptors),
            ("LAN read", a.tx_descriptors),
            failed,
        );
        b.same(&of("busy sends"), ("driver repeated", d.tx_busy), ("LAN said", a.tx_busy));
        if setup.drivers[i].large_send == LargeSend::Firmware {
            b.less(
                &of("large sends"),
                ("driver gave", d.tx_large_packets),
                ("LAN took", a.tx_large),
                failed,
            );
        }
        let refused = d.rx_bad_correlator + d.rx_malformed + d.rx_unread;
        let (wrote, ended) =
            (a.rx_packets + a.rx_bad_buffer, d.rx_packets + d.rx_invalid_buffer + refused);
        let late = o.faults.map_or(0, |f| f.struck.late);
        let lost = ("entries lost, or late", a.rx_lost_entry + late);
        b.less(
            &of("frames received"),
            ("LAN wrote", wrote),
            ("driver handed up or refused", ended),
            lost,
        );
        if o.faults.is_none() {
            b.same(&of("buffers"), ("that LAN could not fill", a.rx_bad_buffer), ("allowed", 0));
            b.same(
                &of("bytes received"),
                ("LAN wrote", a.rx_bytes),
                ("driver handed up", d.rx_bytes),
            );
        }
        b.same(
            &of("buffers lent"),
            ("driver counted", d.replenish_add_buff_success),
            ("LAN counted", a.buffers_added),
        );
        // A counter that could not be written is not read.
        let unwritten = ("not written", if struck > 0 { ANY } else { 0 });
        let (counted, read) = (("LAN counted", a.rx_no_buffer), ("driver read", d.rx_no_buffer));
        b.less(&of("frames without a buffer"), counted, read, unwritten);
        b.none(&of("sends"), ("failed", d.tx_send_failed), struck);
        // A refused call may cause others: an adapter that could not be opened is closed.
        b.none(
            &of("calls"),
            ("refused", a.refused + a.tx_refused),
            if struck > 0 { ANY } else { 0 },
        );
        let port = if i == SERVER { o.totals.port.interrupts } else { 0 };
        let messages = m.bus.ports[i].platform().ledger.messages;
        b.same(
            &of("interrupts"),
            ("ledger counted", messages),
            ("LAN and port sent", a.interrupts + port),
        );
    }
    let all = m.bus.ledger();
    let calls = papr::made(&m.bus, &CALLS);
    let made = |name: &str| calls.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
    let by_kind: u64 = calls.iter().map(|c| c.1).sum();
    b.same(
        "calls",
        ("ledger counted", all.hcalls),
        ("by kind, and for translation", by_kind + all.tce_hcalls),
    );
    let sends: u64 =
        o.totals.drivers.iter().map(|d| d.tx_packets + d.tx_busy + d.tx_send_failed).sum();
    b.same("sends", ("drivers made", sends), ("hypervisor answered", made("hcall_send")));
    let strangers = m.device.device.veth.0.strangers();
    b.same("unit addresses", ("of others", strangers), ("allowed", 0));

    // From one partition to the other, with the segments that the LAN cut.
    for (from, to) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
        let (a, r) = (&o.totals.adapters[from], &o.totals.adapters[to]);
        let nobody = a.drop_unowned + a.drop_gone + a.drop_source + a.drop_closed;
        b.none("frames to nobody", ("lost", nobody), ANY);
        if r.rx_segments == 0 {
            let lost = r.rx_no_buffer + r.rx_bad_buffer + r.rx_lost_entry;
            let sent = ("sent", a.tx_packets);
            if o.faults.is_none() {
                b.same("frames on the LAN", sent, ("arrived or lost", r.rx_packets + lost));
            } else {
                // A frame whose entry was lost as well counts as lost twice.
                b.less(
                    "frames on the LAN",
                    sent,
                    ("arrived", r.rx_packets),
                    ("lost", lost + nobody),
                );
            }
        }
    }

    // Through the bridge, in frames of the wire.
    let (bridge, p, d) = (&o.totals.bridge, &o.totals.port, &o.totals.port_driver);
    b.same(
        "from the LAN",
        ("driver handed up", o.totals.drivers[SERVER].rx_packets),
        ("bridge forwarded", bridge.to_port),
    );
    b.same(
        "to the wire",
        ("bridge gave, in segments", bridge.to_port_segments),
        ("port sent", p.tx_frames),
    );
    b.same("to the wire", ("port sent", p.tx_frames), ("ledger counted", all.wire_frames));
    b.same(
        "to the wire",
        ("port sent", p.tx_frames),
        ("link carried", m.device.out.borrow().frames),
    );
    b.same(
        "from the wire",
        ("link brought", m.device.back.frames - m.device.back.cut),
        ("port took or missed", p.rx_frames + p.rx_missed),
    );
    b.same(
        "from the wire",
        ("port took", p.rx_frames),
        ("driver handed up", d.rx_packets + d.rx_no_memory),
    );
    b.same(
        "from the wire",
        ("driver handed up", d.rx_packets),
        ("bridge forwarded, in segments", bridge.to_lan_segments),
    );
    b.same("the port", ("refused", p.tx_too_long), ("allowed", 0));
    b.same("the bridge", ("lost", bridge.dropped + d.tx_dropped), ("allowed", 0));
    b.none(
        "transmit",
        ("dropped by drivers", o.totals.drivers.iter().map(|d| d.tx_dropped).sum()),
        ANY,
    );
    b.wrong
}
