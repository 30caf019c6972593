//! The audit of a whole run: counts of driver, device, ledger and wire agree.
//!
//! With faults, a packet without a known end belongs to a completion that could not be written, and
//! somebody counts the loss of each request without an answer, or of its answer.

use super::{Partition, QueueStats, RequestClients, Stats};
use crate::experiment::audit::{ANY, CrossCheck};
use crate::experiment::papr;
use crate::sim::fault::Report;
use doorbell_devices::vnic::Counters;
use doorbell_layout::ibmvnic::MAX_COMPLETIONS;

/// The counts above the driver.
#[derive(Debug, Default)]
pub(super) struct UpperLayer {
    pub(super) waiting: u64,
    pub(super) dropped: u64,
    pub(super) unverified: u64,
    pub(super) exhausted: u64,
}

pub(super) fn audit(
    m: &Partition<RequestClients>,
    above: &UpperLayer,
    (s, q): (&Stats, &QueueStats),
    faults: Option<&Report>,
) -> Vec<String> {
    let mut b = CrossCheck::new(faults);
    b.wrong = papr::audit(&m.bus, faults);
    let d: &Counters = &m.device.device.0.counters;
    let (peers, out, back) = (&m.device.peer, m.device.out.borrow(), &m.device.back);
    let unwritten = d.queue_faults + d.entries_lost;
    let reports = ("in messages that were not written", unwritten * MAX_COMPLETIONS as u64);
    b.same("packets", ("driver gave", q.tx_packets), ("server took", d.tx_taken));
    let known = q.tx_completed + q.tx_errors + q.tx_lost;
    b.less("packets", ("driver gave", q.tx_packets), ("driver knows the end of", known), reports);
    let ended = d.tx_sent + d.tx_errors + d.tx_discarded + d.tx_lost;
    b.same("packets", ("server took", d.tx_taken), ("server ended", ended));
    b.less(
        "reports",
        ("server made", d.completions),
        ("driver read", q.tx_completed + q.tx_errors),
        reports,
    );
    b.same("frames out", ("server sent", d.tx_frames), ("wire saw", out.frames));
    b.same(
        "frames out",
        ("wire saw", out.frames),
        ("peers took, or cut", peers.frames + peers.bad + peers.again + out.cut),
    );
    b.same("frames out", ("bad", peers.bad), ("allowed", 0));
    let lost = d.rx_no_buffer + d.rx_malformed + d.rx_faults + d.rx_off + d.rx_lost + d.rx_filtered;
    b.same(
        "frames in",
        ("server took or lost", d.rx_packets + lost),
        ("wire brought", back.frames - back.cut),
    );
    let handed = q.rx_packets + q.rx_unread + q.rx_no_memory;
    b.less(
        "frames in",
        ("server wrote", d.rx_packets),
        ("driver handed up", handed),
        ("not reported", unwritten),
    );
    let named = out.cut
        + back.cut
        + lost
        + unwritten
        + d.tx_errors
        + d.tx_discarded
        + d.tx_lost
        + q.tx_dropped;
    let named = named + q.rx_unread + q.rx_no_memory + above.dropped + above.waiting + peers.again;
    b.none("transactions", ("without an answer", peers.waiting + peers.lost), named);
    b.same("buffers to receive", ("driver gave", q.rx_added), ("server took", d.rx_buffers));
    // The driver counts packets in a refused call as given; the device does not take them.
    let refused = (
        "of calls refused",
        if d.refused_parameter + d.refused_closed + d.refused_resource > 0 { ANY } else { 0 },
    );
    b.less(
        "descriptors",
        ("driver gave", q.tx_descriptors + q.rx_added),
        ("server took", d.descriptors),
        refused,
    );
    b.less(
        "header bytes",
        ("driver gave", q.tx_header_bytes),
        ("server took", d.header_bytes),
        refused,
    );
    b.same("direct calls", ("driver made", q.tx_direct), ("server saw", d.direct_calls));
    b.less(
        "indirect calls",
        ("driver made", q.tx_arrays + q.rx_add_arrays),
        ("server saw", d.indirect_calls),
        refused,
    );
    b.less(
        "long-term buffers",
        ("server mapped", d.maps),
        ("driver mapped", s.maps),
        ("not answered", unwritten),
    );
    b.same("long-term buffers", ("server mapped", d.maps), ("server unmapped", d.unmaps));
    b.none("packets", ("dropped by the driver", q.tx_dropped + above.dropped), ANY);
    b.none("packets", ("not sent", above.waiting), ANY);
    b.same("frames", ("without the server's word", above.unverified), ("allowed", 0));
    b.same("buffers", ("not to be had", above.exhausted), ("allowed", 0));
    let nonsense = q.tx_bad_correlator + q.rx_bad_correlator + q.rx_malformed + d.headers_bad;
    b.same("nonsense", ("found", nonsense), ("allowed", 0));
    b.none("queue entries", ("not written", d.queue_faults), faults.map_or(0, |f| f.struck.dma));
    b.wrong
}
