//! The audit of a whole run: drivers, adapters, port, bridge, ledger and wire say the same, in frames of the wire.

use super::lan::{CLIENT, SERVER};
use super::server::Lpars;
use super::{CALLS, Outcome, Setup};
use crate::papr;
use doorbell_bus::Bus;
use doorbell_drivers::ibmveth::LargeSend;

/// What does not add up.
pub(super) fn audit(setup: &Setup, o: &Outcome, m: &Lpars) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut same = |what: &str, a: (&str, u64), b: (&str, u64)| {
        if a.1 != b.1 {
            wrong.push(format!("{what}: {} {}, {} {}", a.0, a.1, b.0, b.1));
        }
    };
    for (i, who) in [(CLIENT, "client"), (SERVER, "server")] {
        let (d, a) = (&o.drivers[i], &o.adapters[i]);
        let of = |what: &str| format!("{who}, {what}");
        same(&of("frames sent"), ("driver gave", d.tx_packets), ("LAN took", a.tx_packets));
        same(&of("bytes sent"), ("driver gave", d.tx_bytes), ("LAN took", a.tx_bytes));
        same(&of("descriptors"), ("driver wrote", d.tx_descriptors), ("LAN read", a.tx_descriptors));
        same(&of("busy sends"), ("driver repeated", d.tx_busy), ("LAN said", a.tx_busy));
        if setup.drivers[i].large_send == LargeSend::Firmware {
            same(&of("large sends"), ("driver gave", d.tx_large_packets), ("LAN took", a.tx_large));
        }
        let unread = d.rx_invalid_buffer + d.rx_bad_correlator + d.rx_malformed;
        same(
            &of("frames received"),
            ("LAN wrote", a.rx_packets),
            ("driver handed up or refused", d.rx_packets + unread),
        );
        same(&of("bytes received"), ("LAN wrote", a.rx_bytes), ("driver handed up", d.rx_bytes));
        same(&of("buffers lent"), ("driver counted", d.replenish_add_buff_success), ("LAN counted", a.buffers_added));
        same(&of("frames without a buffer"), ("driver read", d.rx_no_buffer), ("LAN counted", a.rx_no_buffer));
        same(&of("sends"), ("failed", d.tx_send_failed), ("allowed", 0));
        same(&of("calls"), ("refused", a.refused + a.tx_refused), ("allowed", 0));
        let port = if i == SERVER { o.port.interrupts } else { 0 };
        let messages = m.bus.ports[i].platform().ledger.messages;
        same(&of("interrupts"), ("ledger counted", messages), ("LAN and port sent", a.interrupts + port));
    }
    let all = m.bus.ledger();
    let calls = papr::made(&m.bus, &CALLS);
    let made = |name: &str| calls.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
    let by_kind: u64 = calls.iter().map(|c| c.1).sum();
    same("calls", ("ledger counted", all.hcalls), ("by kind, and for translation", by_kind + all.tce_hcalls));
    let sends: u64 = o.drivers.iter().map(|d| d.tx_packets + d.tx_busy).sum();
    same("sends", ("drivers made", sends), ("hypervisor answered", made("hcall_send")));
    let strangers = m.device.device.veth.0.strangers();
    same("unit addresses", ("of others", strangers), ("allowed", 0));

    // From one partition to the other, segments that the LAN cut among them.
    for (from, to) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
        let (a, b) = (&o.adapters[from], &o.adapters[to]);
        same(
            "frames to nobody",
            ("lost", a.drop_unowned + a.drop_gone + a.drop_source + a.drop_closed),
            ("allowed", 0),
        );
        if b.rx_segments == 0 {
            let lost = b.rx_no_buffer + b.rx_bad_buffer + b.rx_lost_entry;
            same("frames on the LAN", ("sent", a.tx_packets), ("arrived or lost", b.rx_packets + lost));
        }
    }

    // Through the bridge, by the wire.
    let (b, p, d) = (&o.bridge, &o.port, &o.port_driver);
    same("from the LAN", ("driver handed up", o.drivers[SERVER].rx_packets), ("bridge forwarded", b.to_port));
    same("to the wire", ("bridge gave, in segments", b.to_port_segments), ("port sent", p.tx_frames));
    same("to the wire", ("port sent", p.tx_frames), ("ledger counted", all.wire_frames));
    same("to the wire", ("port sent", p.tx_frames), ("link carried", m.device.out.frames));
    same("from the wire", ("link carried", m.device.back.frames), ("port took or missed", p.rx_frames + p.rx_missed));
    same("from the wire", ("port took", p.rx_frames), ("driver handed up", d.rx_packets + d.rx_no_memory));
    same("from the wire", ("driver handed up", d.rx_packets), ("bridge forwarded, in segments", b.to_lan_segments));
    same("the port", ("refused", p.tx_too_long), ("allowed", 0));
    same("the bridge", ("lost", b.dropped + d.tx_dropped), ("allowed", 0));
    same("transmit", ("dropped by drivers", o.drivers.iter().map(|d| d.tx_dropped).sum()), ("allowed", 0));
    wrong
}
