//! The audit of a whole run: counts of driver, device, ledger and wire agree.
//!
//! With faults, a packet without a known end belongs to a completion that could not be written, and
//! somebody counts the loss of each request without an answer, or of its answer.

use super::{Partition, QueueStats, RequestClients, RunStats, Stats};
use crate::audit::{ANY, CrossCheck};
use crate::papr;
use doorbell_devices::vnic::Counters;
use doorbell_layout::ibmvnic::MAX_COMPLETIONS;
use doorbell_sim::fault::Report;

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
    o: &RunStats,
) -> CrossCheck {
    let mut b = CrossCheck::of(o);
    nic(&mut b, m, (s, q), o.faults.as_ref());
    let d: &Counters = &m.device.device.0.counters;
    let (peers, out, back) = (&m.device.peer, m.device.out.borrow(), &m.device.back);
    let took = peers.frames + peers.bad + peers.again;
    b.same("frames out: wire brought {}, peers took {}", out.landed.0, took);
    b.never("frames out: bad {}", peers.bad);
    let ended = d.tx_errors + d.tx_discarded + d.tx_lost + q.tx_dropped + q.rx_unread;
    let unwritten = d.queue_faults + d.entries_lost;
    let named = out.cut + back.cut + lost_in(d) + unwritten + ended + q.rx_no_memory;
    let named = named + above.dropped + above.waiting + peers.again;
    // With or without faults a request that finds no buffer has no answer.
    let is_over = o.verdict.unfinished.is_empty();
    b.at_most(
        "transactions: without an answer {}",
        peers.waiting + peers.lost,
        [d.rx_no_buffer, if is_over { named } else { ANY }],
    );
    b.none("packets: dropped above the driver {}", above.dropped, ANY);
    b.none("packets: not sent {}", above.waiting, ANY);
    b.never("frames: without the server's word {}", above.unverified);
    b.never("buffers: not to be had {}", above.exhausted);
    b
}

/// Returns the frames from the wire that the server did not put into memory.
fn lost_in(d: &Counters) -> u64 {
    d.rx_no_buffer + d.rx_malformed + d.rx_faults + d.rx_off + d.rx_lost + d.rx_filtered
}

/// Compares the counts of driver, server and wire, whatever is above the driver and on the link.
pub(super) fn nic<Pr>(
    b: &mut CrossCheck,
    m: &Partition<Pr>,
    (s, q): (&Stats, &QueueStats),
    faults: Option<&Report>,
) {
    b.take(papr::audit(&m.bus, faults));
    let d: &Counters = &m.device.device.0.counters;
    let (out, back) = (m.device.out.borrow(), &m.device.back);
    let unwritten = d.queue_faults + d.entries_lost;
    let reports = ("in messages that were not written", unwritten * MAX_COMPLETIONS as u64);
    b.same("packets: driver gave {}, server took {}", q.tx_packets, d.tx_taken);
    let known = q.tx_completed + q.tx_errors + q.tx_lost;
    b.less("packets: driver gave {}, driver knows the end of {}", [q.tx_packets, known], reports);
    let ended = d.tx_sent + d.tx_errors + d.tx_discarded + d.tx_lost;
    b.same("packets: server took {}, server ended {}", d.tx_taken, ended);
    let read = q.tx_completed + q.tx_errors;
    let unread = ("unread at a reset or in messages that were not written", reports.1 + q.tx_lost);
    b.less("reports: server made {}, driver read {}", [d.completions, read], unread);
    b.same("frames out: server sent {}, wire saw {}", d.tx_frames, out.frames);
    b.never("checksums: wrong on the wire {}", d.wire_bad_checksums);
    let in_hand = m.device.device.0.in_hand();
    let (took, brought) = (d.rx_packets + lost_in(d) + in_hand, back.landed.0);
    b.same("frames in: server took or lost {}, wire brought {}", took, brought);
    let handed = q.rx_packets + q.rx_unread + q.rx_no_memory;
    let late = ("not reported", unwritten);
    b.less("frames in: server wrote {}, driver handed up {}", [d.rx_packets, handed], late);
    b.same("buffers to receive: driver gave {}, server took {}", q.rx_added, d.rx_buffers);
    // The driver counts packets in a refused call as given; the device does not take them.
    let refused = d.refused_parameter + d.refused_closed + d.refused_resource;
    let refused = ("of calls refused", if refused > 0 { ANY } else { 0 });
    let given = q.tx_descriptors + q.rx_added;
    b.less("descriptors: driver gave {}, server took {}", [given, d.descriptors], refused);
    let given = q.tx_header_bytes;
    b.less("header bytes: driver gave {}, server took {}", [given, d.header_bytes], refused);
    b.same("direct calls: driver made {}, server saw {}", q.tx_direct, d.direct_calls);
    let made = q.tx_arrays + q.rx_add_arrays;
    b.less("indirect calls: driver made {}, server saw {}", [made, d.indirect_calls], refused);
    let unanswered = ("not answered", unwritten);
    b.less("long-term buffers: server mapped {}, driver mapped {}", [d.maps, s.maps], unanswered);
    b.same("long-term buffers: server mapped {}, server unmapped {}", d.maps, d.unmaps);
    b.none("packets: dropped by the driver {}", q.tx_dropped, ANY);
    let nonsense = q.tx_bad_correlator + q.rx_bad_correlator + q.rx_malformed + d.headers_bad;
    b.never("nonsense: found {}", nonsense);
    b.none("queue entries: not written {}", d.queue_faults, faults.map_or(0, |f| f.struck.dma));
}
