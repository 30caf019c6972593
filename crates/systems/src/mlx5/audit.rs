//! The audit of a whole run: counts of driver, device, ledger and wire agree.
//!
//! With faults, the driver accounts for each packet queued and neither sent nor discarded.

use super::{Board, Linked, RunStats};
use crate::audit::{ANY, CrossCheck};
use doorbell_bus::Bus;

/// Compares the counts.
pub(super) fn audit(o: &RunStats, m: &Board) -> CrossCheck {
    let (d, n, l) = (&o.totals.driver, &o.totals.device, &o.counts.ledger);
    let struck = o.faults.map_or(0, |f| f.struck.dma);
    let mut b = CrossCheck::of(o);
    let ended = n.packets + n.discarded;
    let dropped = ("driver dropped", d.dropped);
    b.less("packets: driver queued {}, device sent or discarded {}", [d.packets, ended], dropped);
    b.same("frames: device sent {}, wire saw {}", n.packets, l.wire_frames);
    b.never("checksums: wrong on the wire {}", n.wire_bad_checksums);
    if n.discarded == 0 && o.faults.is_none() {
        // An error may leave a session half sent.
        b.same("bytes: driver queued {}, device sent {}", d.bytes, n.bytes);
        let text = "packets in sessions: driver added {}, device sent {}";
        b.same(text, d.mpwqe_pkts, n.mpwqe_packets);
    }
    // Entries of a queue that was restarted, made anew, or closed with packets in it.
    let again = d.recover + d.timeouts > 0 || !o.verdict.unfinished.is_empty();
    let over = ("of queues started again or closed early", if again { ANY } else { 0 });
    b.less("WQEs: driver posted {}, device executed {}", [d.wqes, n.wqes], over);
    b.less("NOPs: driver posted {}, device executed {}", [d.nop, n.nops], over);
    b.less("sessions: driver opened {}, device executed {}", [d.mpwqe_blks, n.mpwqes], over);
    b.less("doorbells: driver rang {}, device heard {}", [d.doorbells, n.doorbells], over);
    b.less("CQEs: device wrote {}, driver took {}", [n.cqes, d.cqes], over);
    b.less("events: device wrote {}, driver took {}", [n.eqes, d.eqes], over);
    b.none("nonsense: doorbells refused {}", n.bad_doorbells, over.1);
    b.none("nonsense: entries lost {}", n.lost_entries, if struck > 0 { ANY } else { 0 });
    b.platform(m.bus.platform(), struck);
    b
}

/// Compares the counts of a run of frames that arrive: each that came was handed up, or is lost at
/// a place that is counted.
pub(super) fn received(o: &RunStats, m: &Linked) -> CrossCheck {
    let (d, n) = (&o.totals.driver, m.device.device.received());
    let struck = o.faults.map_or(0, |f| f.struck.dma);
    let mut b = CrossCheck::of(o);
    b.same("frames in: wire brought {}, device saw {}", m.device.back.landed.0, n.arrived);
    let refused = n.port_down + n.bad_length + n.not_steered + n.not_ready;
    let lost = n.fifo_full + n.out_of_buffer;
    let ended = n.packets + n.discarded + lost + refused;
    // A queue that cannot be read loses the frame that found it so.
    let failed = ("of queues that failed", n.errors);
    b.less("frames in: device saw {}, device wrote or lost {}", [n.arrived, ended], failed);
    let by_program = d.rx_xdp_drop + d.rx_xdp_tx_xmit + d.rx_xdp_tx_full;
    let handed = d.rx_packets + d.rx_malformed + d.rx_left + by_program;
    b.same("frames in: device wrote {}, driver handed up or dropped {}", n.packets, handed);
    let (sent, dropped) = (&m.device.device.counters, ("driver dropped", d.dropped));
    let ended = sent.packets + sent.discarded;
    b.less(
        "frames out: driver queued {}, device sent or discarded {}",
        [d.packets, ended],
        dropped,
    );
    let left = m.bus.platform().ledger.wire_frames;
    b.same("frames out: device sent {}, wire saw {}", sent.packets, left);
    b.none("receive: left in a queue {}", d.rx_left, ANY);
    b.none("receive: frames refused {}", refused, ANY);
    b.none("receive: queues failed {}", n.errors, ANY);
    b.none("nonsense: CQEs without a buffer {}", d.rx_cqe_stray, ANY);
    b.platform(m.bus.platform(), struck);
    b
}
