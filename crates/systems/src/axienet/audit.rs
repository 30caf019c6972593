//! The audit of a whole run: counts of driver, device, ledger and wire agree.
//!
//! With faults, the driver accounts for each packet queued and not sent, and driver or device for
//! each frame lost in a reset.

use super::RunStats;
use crate::audit::{ANY, CrossCheck};
use doorbell_bus::Platform;

/// Compares the counts. `wire`: frames on the link from the device, and to it.
pub(super) fn audit(o: &RunStats, p: &Platform, wire: (u64, u64)) -> CrossCheck {
    let (d, n) = (&o.totals.driver, &o.totals.device);
    let struck = o.faults.map_or(0, |f| f.struck.dma);
    let mut b = CrossCheck::of(o);
    b.same("frames out: device sent {}, wire saw {}", n.tx_packets, wire.0);
    b.never("checksums: wrong on the wire {}", n.wire_bad_checksums);
    let dropped = d.tx_dropped + d.tx_errors;
    // The driver has the status of a packet as soon as it is on the chip.
    let lost = ("driver dropped, or device lost in a reset", dropped + n.tx_lost);
    b.less("packets: driver queued {}, device sent {}", [d.tx_queued, n.tx_packets], lost);
    let any = ("of packets dropped", if dropped > 0 { ANY } else { 0 });
    let text = "TX descriptors: driver wrote {}, device used {}";
    b.less(text, [d.tx_descriptors, n.tx_descriptors], any);
    // A halted channel ignores doorbells.
    let deaf = ("not heard", n.lost_doorbells);
    b.less("TX doorbells: driver rang {}, device heard {}", [d.tx_tail, n.tx_doorbells], deaf);
    b.less("RX doorbells: driver rang {}, device heard {}", [d.rx_tail, n.rx_doorbells], deaf);
    let gone = n.rx_missed + n.rx_filtered + n.rx_dropped;
    let text = "frames in: device took or lost {}, wire brought {}";
    b.same(text, n.rx_packets + n.rx_lost + gone, wire.1);
    // A descriptor whose buffer could not be written has an error, and no frame; one with a
    // corrupted report has both.
    let ended = d.rx_packets + d.rx_malformed + d.rx_lost;
    let unknown = ("in error, or not reported before a reset", d.rx_errors + n.rx_unreported);
    let text = "frames in: device wrote {}, driver handed up or lost {}";
    b.less(text, [n.rx_packets, ended], unknown);
    let unfinished = n.tx_garbled + n.hangs;
    b.never("transmit: given up by the device {}", unfinished);
    b.none("transmit: cut off in the device {}", n.tx_discarded, dropped);
    b.none("transmit: dropped or timed out by the driver {}", d.tx_dropped + d.tx_timeouts, ANY);
    b.none("reset: lost by the device {}", n.tx_lost + n.rx_lost + n.rx_unreported, ANY);
    b.none("errors: of DMA {}", n.dma_errors, ANY);
    b.none("nonsense: doorbells not heard {}", n.lost_doorbells, ANY);
    b.same("nonsense: driver wrote {}, device refused {}", 0, n.bad_descriptors + n.ignored_writes);
    // An interrupt raised during a poll may find its cause gone, so some are not taken.
    let (raised, took) = (n.rx_interrupts, d.rx_irqs);
    if took > raised {
        b.wrong.push(format!("RX interrupts: device raised {raised}, driver took {took}"));
    }
    b.platform(p, struck);
    b
}
