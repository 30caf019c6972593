//! The audit of a whole run: counts of driver, device, ledger and wire agree.
//!
//! With faults, the driver accounts for each packet queued and not sent, and driver or device for
//! each frame lost in a reset.

use super::RunStats;
use crate::audit::{ANY, CrossCheck};
use doorbell_bus::Platform;

/// Compares the counts. `wire`: frames on the link from the card, and to it.
pub(super) fn audit(o: &RunStats, p: &Platform, wire: (u64, u64)) -> CrossCheck {
    let (d, n) = (&o.totals.driver, &o.totals.device);
    let struck = o.faults.map_or(0, |f| f.struck.dma);
    let mut b = CrossCheck::of(o);
    // A receive FIFO that fills while its DMA fails sends PAUSE frames.
    b.same("frames out: device sent {}, wire saw {}", n.tx_packets + n.pauses_sent, wire.0);
    b.never("checksums: wrong on the wire {}", n.wire_bad_checksums);
    let dropped = ("driver dropped", d.tx_dropped);
    if d.tx_tso == 0 {
        let lost = ("driver dropped, or device lost in a reset", d.tx_dropped + n.tx_lost);
        b.less("packets: driver queued {}, device sent {}", [d.tx_queued, n.tx_packets], lost);
    }
    b.less("large sends: driver queued {}, device cut {}", [d.tx_tso, n.large_sends], dropped);
    let any = ("of packets dropped", if d.tx_dropped > 0 { ANY } else { 0 });
    let text = "TX descriptors: driver wrote {}, device used {}";
    b.less(text, [d.tx_descriptors, n.tx_descriptors], any);
    b.less("contexts: driver wrote {}, device loaded {}", [d.tx_contexts, n.contexts], any);
    // The setup of the ring writes each tail once: after each reset but the closing one.
    let starts = n.resets.saturating_sub(1);
    b.same("TX doorbells: driver rang {}, device heard {}", d.tx_tail + starts, n.tx_doorbells);
    b.same("RX doorbells: driver rang {}, device heard {}", d.rx_tail + starts, n.rx_doorbells);
    let gone = n.rx_missed + n.rx_filtered + n.rx_dropped;
    let text = "frames in: device took or lost {}, wire brought {}";
    b.same(text, n.rx_packets + n.rx_lost + gone, wire.1 + gone);
    let ended = d.rx_packets + d.rx_errors + d.rx_malformed + d.rx_lost;
    let unreported = ("not reported before a reset", n.rx_unreported);
    let text = "frames in: device wrote {}, driver handed up, refused or lost {}";
    b.less(text, [n.rx_packets, ended], unreported);
    let unfinished = n.tx_discarded + n.hangs + n.bad_descriptors;
    b.never("transmit: given up by the device {}", unfinished);
    let text = "transmit: dropped or timed out by the driver {}";
    b.none(text, d.tx_dropped + d.tx_timeout_count, ANY);
    b.none("reset: lost by the device {}", n.tx_lost + n.rx_lost + n.rx_unreported, ANY);
    b.same("nonsense: driver wrote {}, device refused {}", 0, n.bad_doorbells + n.ignored_writes);
    b.none("DMA: faults that the device met {}", n.dma_faults, struck);
    b.platform(p, struck);
    b
}
