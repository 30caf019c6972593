//! The audit of a whole run: counts of driver, device, ledger and wire agree.
//!
//! With faults, the driver accounts for each packet queued and neither sent nor discarded.

use super::{Board, Linked, RunStats};
use crate::audit::{ANY, CrossCheck};
use doorbell_bus::Bus;

/// Compares the counts of a run that sends from a generator or a capture.
pub(super) fn audit(o: &RunStats, m: &Board) -> CrossCheck {
    let mut b = CrossCheck::of(o);
    sent(&mut b, o, o.counts.ledger.wire_frames);
    let (d, n) = (&o.totals.driver, &o.totals.device);
    let over = ("of queues started again or closed early", closed_early(o));
    b.less("CQEs: device wrote {}, driver took {}", [n.cqes, d.cqes], over);
    b.less("events: device wrote {}, driver took {}", [n.eqes, d.eqes], over);
    b.platform(m.bus.platform(), o.faults.map_or(0, |f| f.struck.dma));
    b
}

/// Returns the limit for entries of a queue that was restarted, made anew, or closed with packets
/// in it.
fn closed_early(o: &RunStats) -> u64 {
    let again = o.totals.driver.recover + o.totals.driver.timeouts > 0;
    if again || !o.verdict.unfinished.is_empty() { ANY } else { 0 }
}

/// Compares what the driver queued with what the device sent, and with the frames on the wire.
fn sent(b: &mut CrossCheck, o: &RunStats, wire: u64) {
    let (d, n) = (&o.totals.driver, &o.totals.device);
    let struck = o.faults.map_or(0, |f| f.struck.dma);
    let ended = n.packets + n.discarded;
    let dropped = ("driver dropped", d.dropped);
    b.less("packets: driver queued {}, device sent or discarded {}", [d.packets, ended], dropped);
    b.same("frames: device sent {}, wire saw {}", n.packets, wire);
    b.never("checksums: wrong on the wire {}", n.wire_bad_checksums);
    if n.discarded == 0 && o.faults.is_none() {
        // An error may leave a session half sent.
        b.same("bytes: driver queued {}, device sent {}", d.bytes, n.bytes);
        let text = "packets in sessions: driver added {}, device sent {}";
        b.same(text, d.mpwqe_pkts, n.mpwqe_packets);
    }
    let over = ("of queues started again or closed early", closed_early(o));
    b.less("WQEs: driver posted {}, device executed {}", [d.wqes, n.wqes], over);
    b.less("UMRs: driver posted {}, device executed {}", [d.rx_umrs, n.umrs], over);
    b.less("NOPs: driver posted {}, device executed {}", [d.nop, n.nops], over);
    b.less("sessions: driver opened {}, device executed {}", [d.mpwqe_blks, n.mpwqes], over);
    b.less("doorbells: driver rang {}, device heard {}", [d.doorbells, n.doorbells], over);
    b.none("nonsense: doorbells refused {}", n.bad_doorbells, over.1);
    b.none("nonsense: entries lost {}", n.lost_entries, if struck > 0 { ANY } else { 0 });
}

/// Compares the counts of a run on a link, whose device takes the port's frames too: each that came
/// was handed up, or is lost at a place that is counted. `ring` is the size of a receive queue.
pub(super) fn linked<Pr>(o: &RunStats, m: &Linked<Pr>, ring: u64) -> CrossCheck {
    let (d, n) = (&o.totals.driver, m.device.device.received());
    let mut b = CrossCheck::of(o);
    sent(&mut b, o, m.device.out.borrow().frames);
    b.same("frames in: wire brought {}, device saw {}", m.device.back.landed.0, n.arrived);
    let refused = n.port_down + n.bad_length + n.not_steered + n.not_ready;
    let lost = n.fifo_full + n.out_of_buffer;
    let ended = n.packets + n.discarded + lost + refused;
    // A queue that cannot be read loses the frame that found it so.
    let failed = ("of queues that failed", n.errors);
    b.less("frames in: device saw {}, device wrote or lost {}", [n.arrived, ended], failed);
    let by_program = d.rx_xdp_drop + d.rx_xdp_tx_xmit + d.rx_xdp_tx_full + d.rx_xdp_redirect;
    let handed = d.rx_packets + d.rx_malformed + d.rx_left + by_program;
    // The driver does not get past a CQE that could not be written until the queue is made anew.
    let hidden = ("behind CQEs that were lost", o.totals.device.lost_entries * (ring + 1));
    let text = "frames in: device wrote {}, driver handed up or dropped {}";
    b.less(text, [n.packets, handed], hidden);
    let redirected = [d.rx_xdp_redirect, d.tx_xdp_xmit + d.xdp_devmap_drops];
    b.same(
        "redirected: program handed on {}, second port took or dropped {}",
        redirected[0],
        redirected[1],
    );
    b.none("receive: left in a queue {}", d.rx_left, ANY);
    b.none("receive: frames refused {}", refused, ANY);
    b.none("receive: queues failed {}", n.errors, ANY);
    b.none("nonsense: CQEs without a buffer {}", d.rx_cqe_stray, ANY);
    b.platform(m.bus.platform(), o.faults.map_or(0, |f| f.struck.dma));
    b
}
