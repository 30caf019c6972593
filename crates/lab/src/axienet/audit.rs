//! The two-party audit of a whole run: driver, device, ledger and wire say the same.

use super::Outcome;
use doorbell_bus::{Axi, Bus, Machine};
use doorbell_seam::Device;

/// What does not add up. `wire`: frames that the link carried from the device, and to it.
pub(super) fn audit<D: Device<Axi>>(o: &Outcome, m: &Machine<Axi, D>, wire: (u64, u64)) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut same = |what: &str, a: (&str, u64), b: (&str, u64)| {
        if a.1 != b.1 {
            wrong.push(format!("{what}: {} {}, {} {}", a.0, a.1, b.0, b.1));
        }
    };
    let (d, n, all) = (&o.driver, &o.device, m.ledger());
    same("frames out", ("device sent", n.tx_packets), ("wire saw", wire.0));
    same("packets", ("driver queued", d.tx_queued), ("device sent", n.tx_packets));
    same("TX descriptors", ("driver wrote", d.tx_descriptors), ("device used", n.tx_descriptors));
    same("TX doorbells", ("driver rang", d.tx_tail), ("device heard", n.tx_doorbells));
    let gone = n.rx_missed + n.rx_filtered + n.rx_dropped;
    same("frames in", ("device took or lost", n.rx_packets + gone), ("wire brought", wire.1));
    let unread = d.rx_errors + d.rx_malformed;
    same("frames in", ("driver handed up or refused", d.rx_packets + unread), ("device wrote", n.rx_packets));
    same("transmit", ("given up by the device", n.tx_discarded + n.tx_garbled + n.hangs), ("allowed", 0));
    same("transmit", ("dropped by the driver", d.tx_dropped), ("allowed", 0));
    same("errors", ("of DMA", n.dma_errors), ("allowed", 0));
    same("nonsense", ("driver wrote", 0), ("device refused", n.lost_doorbells + n.bad_descriptors + n.ignored_writes));
    same("DMA", ("faults allowed", 0), ("faults", all.dma_faults));
    same("mappings", ("made", all.maps), ("ended", all.unmaps));
    // Everything has been closed and released by now.
    same("buffers", ("taken", all.buffers_taken), ("released", all.buffers_released));
    let (readable, writable) = m.bus.platform().memory.lent();
    same("pages still lent to the device", ("to read", readable as u64), ("expected", 0));
    same("pages still lent to the device", ("to write", writable as u64), ("expected", 0));
    // One that rises while a poll is under way may find its cause gone, so some are not taken.
    if d.rx_irqs > n.rx_interrupts {
        wrong.push(format!("RX interrupts: device raised {}, driver took {}", n.rx_interrupts, d.rx_irqs));
    }
    wrong
}
