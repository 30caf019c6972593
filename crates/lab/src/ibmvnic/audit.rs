//! The two-party audit of a whole run: driver, device, ledger and wire say the same.

use super::{Partition, QueueStats, Stats};
use crate::papr;
use doorbell_devices::vnic::Counters;

/// What was found above the driver.
#[derive(Debug, Default)]
pub(super) struct Above {
    pub(super) waiting: u64,
    pub(super) dropped: u64,
    pub(super) unverified: u64,
    pub(super) exhausted: u64,
}

pub(super) fn audit(m: &Partition, above: &Above, (s, q): (&Stats, &QueueStats)) -> Vec<String> {
    let mut wrong = papr::audit(&m.bus);
    let mut same = |what: &str, a: (&str, u64), b: (&str, u64)| {
        if a.1 != b.1 {
            wrong.push(format!("{what}: {} {}, {} {}", a.0, a.1, b.0, b.1));
        }
    };
    let d: &Counters = &m.device.device.0.counters;
    let peers = &m.device.peer;
    same("packets", ("driver gave", q.tx_packets), ("server took", d.tx_taken));
    let known = q.tx_completed + q.tx_errors + q.tx_lost;
    same("packets", ("driver gave", q.tx_packets), ("driver knows the end of", known));
    let ended = d.tx_sent + d.tx_errors + d.tx_discarded + d.tx_lost;
    same("packets", ("server took", d.tx_taken), ("server ended", ended));
    same("reports", ("driver read", q.tx_completed + q.tx_errors), ("server made", d.completions));
    same("frames out", ("server sent", d.tx_frames), ("wire saw", m.device.out.frames));
    same("frames out", ("wire saw", m.device.out.frames), ("peers took", peers.frames + peers.bad));
    same("frames out", ("bad", peers.bad), ("allowed", 0));
    let lost = d.rx_no_buffer + d.rx_malformed + d.rx_faults + d.rx_off + d.rx_lost + d.rx_filtered;
    same("frames in", ("server took or lost", d.rx_packets + lost), ("wire brought", m.device.back.frames));
    same("frames in", ("driver handed up", q.rx_packets + q.rx_unread), ("server wrote", d.rx_packets));
    same("transactions", ("without an answer", peers.waiting), ("allowed", 0));
    same("buffers to receive", ("driver gave", q.rx_added), ("server took", d.rx_buffers));
    same("descriptors", ("driver gave", q.tx_descriptors + q.rx_added), ("server took", d.descriptors));
    same("header bytes", ("driver gave", q.tx_header_bytes), ("server took", d.header_bytes));
    same("direct calls", ("driver made", q.tx_direct), ("server saw", d.direct_calls));
    same("indirect calls", ("driver made", q.tx_arrays + q.rx_add_arrays), ("server saw", d.indirect_calls));
    same("long-term buffers", ("driver mapped", s.maps), ("server mapped", d.maps));
    same("long-term buffers", ("server mapped", d.maps), ("server unmapped", d.unmaps));
    same("packets", ("dropped by the driver", q.tx_dropped + above.dropped), ("allowed", 0));
    same("packets", ("not sent", above.waiting), ("allowed", 0));
    same("frames", ("without the server's word", above.unverified), ("allowed", 0));
    same("buffers", ("not to be had", above.exhausted), ("allowed", 0));
    let nonsense = q.tx_bad_correlator + q.rx_bad_correlator + q.rx_malformed + d.headers_bad + d.queue_faults;
    same("nonsense", ("found", nonsense), ("allowed", 0));
    wrong
}
