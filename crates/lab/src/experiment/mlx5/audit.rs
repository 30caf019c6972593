//! The audit of a whole run: counts of driver, device, ledger and wire agree.
//!
//! With faults, the driver accounts for each packet queued and neither sent nor discarded.

use super::{Board, RunStats};
use crate::experiment::audit::{ANY, CrossCheck};
use doorbell_bus::Bus;

/// Returns the failed checks.
pub(super) fn audit(o: &RunStats, m: &Board) -> Vec<String> {
    let (d, n, l) = (&o.totals.driver, &o.totals.device, &o.counts.ledger);
    let struck = o.faults.map_or(0, |f| f.struck.dma);
    let mut b = CrossCheck::new(o.faults.as_ref());
    let ended = ("device sent or discarded", n.packets + n.discarded);
    b.less("packets", ("driver queued", d.packets), ended, ("driver dropped", d.dropped));
    b.same("frames", ("device sent", n.packets), ("wire saw", l.wire_frames));
    if n.discarded == 0 && o.faults.is_none() {
        // An error may leave a session half sent.
        b.same("bytes", ("driver queued", d.bytes), ("device sent", n.bytes));
        b.same(
            "packets in sessions",
            ("driver added", d.mpwqe_pkts),
            ("device sent", n.mpwqe_packets),
        );
    }
    // Entries of a queue that was restarted or made anew.
    let over = ("of queues started again", if d.recover + d.timeouts > 0 { ANY } else { 0 });
    b.less("WQEs", ("driver posted", d.wqes), ("device executed", n.wqes), over);
    b.less("NOPs", ("driver posted", d.nop), ("device executed", n.nops), over);
    b.less("sessions", ("driver opened", d.mpwqe_blks), ("device executed", n.mpwqes), over);
    b.less("doorbells", ("driver rang", d.doorbells), ("device heard", n.doorbells), over);
    b.less("CQEs", ("device wrote", n.cqes), ("driver took", d.cqes), over);
    b.less("events", ("device wrote", n.eqes), ("driver took", d.eqes), over);
    b.none("nonsense", ("doorbells refused", n.bad_doorbells), over.1);
    b.none("nonsense", ("entries lost", n.lost_entries), if struck > 0 { ANY } else { 0 });
    let capacity = m.bus.capacity(o.counts.elapsed);
    for (way, bytes) in [
        ("toward the device", l.pcie_down_tlp_bytes + l.pcie_down_dllp_bytes),
        ("toward the host", l.pcie_up_tlp_bytes + l.pcie_up_dllp_bytes),
    ] {
        if bytes > capacity {
            b.wrong.push(format!("link {way}: {bytes} bytes in a time that carries {capacity}"));
        }
    }
    b.platform("", m.bus.platform(), struck);
    b.wrong
}
