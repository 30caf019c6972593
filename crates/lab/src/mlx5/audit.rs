//! The two-party audit: what the driver says it did, what the device says it did,
//! what crossed between them, and what was on the wire must be the same.

use super::{Outcome, System};
use doorbell_bus::Bus;

/// What does not add up.
pub(super) fn audit(o: &Outcome, m: &System, skipped: u64) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut same = |what: &str, a: (&str, u64), b: (&str, u64)| {
        if a.1 != b.1 {
            wrong.push(format!("{what}: {} {}, {} {}", a.0, a.1, b.0, b.1));
        }
    };
    let (d, n, l) = (&o.driver, &o.device, &o.ledger);
    same("packets", ("driver queued", d.packets), ("device sent or discarded", n.packets + n.discarded));
    same("frames", ("device sent", n.packets), ("wire saw", l.wire_frames));
    if n.discarded == 0 {
        // An error may leave a session half sent.
        same("bytes", ("driver queued", d.bytes), ("device sent", n.bytes));
        same("packets in sessions", ("driver added", d.mpwqe_pkts), ("device sent", n.mpwqe_packets));
    }
    same("WQEs", ("driver posted", d.wqes), ("device executed", n.wqes));
    same("NOPs", ("driver posted", d.nop), ("device executed", n.nops));
    same("sessions", ("driver opened", d.mpwqe_blks), ("device executed", n.mpwqes));
    same("doorbells", ("driver rang", d.doorbells), ("device heard", n.doorbells));
    same("CQEs", ("driver took", d.cqes), ("device wrote", n.cqes));
    same("events", ("driver took", d.eqes), ("device wrote", n.eqes));
    same("mappings", ("made", l.maps), ("ended", l.unmaps));
    same("nonsense", ("driver wrote", 0), ("device refused", n.bad_doorbells + n.lost_entries));
    same("DMA", ("faults allowed", 0), ("faults", l.dma_faults));
    same("frames offered", ("skipped for want of memory or form", skipped), ("allowed", 0));
    // Everything has been closed and released by now.
    let all = m.ledger();
    same("buffers", ("taken", all.buffers_taken), ("released", all.buffers_released));
    let (readable, writable) = m.bus.platform().memory.lent();
    same("pages still lent to the device", ("to read", readable as u64), ("expected", 0));
    same("pages still lent to the device", ("to write", writable as u64), ("expected", 0));
    let capacity = m.bus.capacity(o.elapsed);
    for (way, bytes) in [
        ("toward the device", l.pcie_down_tlp_bytes + l.pcie_down_dllp_bytes),
        ("toward the host", l.pcie_up_tlp_bytes + l.pcie_up_dllp_bytes),
    ] {
        if bytes > capacity {
            wrong.push(format!("link {way}: {bytes} bytes in a time that carries {capacity}"));
        }
    }
    wrong
}
