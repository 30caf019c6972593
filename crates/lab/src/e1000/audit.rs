//! The two-party audit of a whole run: driver, device, ledger and wire say the same.

use super::Outcome;
use doorbell_bus::{Bus, Machine};
use doorbell_seam::Device;

/// What does not add up. `wire`: frames that the link carried from the card, and to it.
pub(super) fn audit<B: Bus, D: Device<B>>(o: &Outcome, m: &Machine<B, D>, wire: (u64, u64)) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut same = |what: &str, a: (&str, u64), b: (&str, u64)| {
        if a.1 != b.1 {
            wrong.push(format!("{what}: {} {}, {} {}", a.0, a.1, b.0, b.1));
        }
    };
    let (d, n, all) = (&o.driver, &o.device, m.ledger());
    same("frames out", ("device sent", n.tx_packets), ("wire saw", wire.0));
    if d.tx_tso == 0 {
        same("packets", ("driver queued", d.tx_queued), ("device sent", n.tx_packets));
    }
    same("large sends", ("driver queued", d.tx_tso), ("device cut", n.large_sends));
    same("TX descriptors", ("driver wrote", d.tx_descriptors), ("device used", n.tx_descriptors));
    same("contexts", ("driver wrote", d.tx_contexts), ("device loaded", n.contexts));
    // Each tail is written once before, when the ring is set up.
    same("TX doorbells", ("driver rang", d.tx_tail + 1), ("device heard", n.tx_doorbells));
    same("RX doorbells", ("driver rang", d.rx_tail + 1), ("device heard", n.rx_doorbells));
    let gone = n.rx_missed + n.rx_filtered + n.rx_dropped;
    same("frames in", ("device took or lost", n.rx_packets + gone), ("wire brought", wire.1 + gone));
    let unread = d.rx_errors + d.rx_malformed;
    same("frames in", ("driver handed up or refused", d.rx_packets + unread), ("device wrote", n.rx_packets));
    same("transmit", ("given up by the device", n.tx_discarded + n.hangs + n.bad_descriptors), ("allowed", 0));
    same("transmit", ("dropped or timed out by the driver", d.tx_dropped + d.tx_timeout_count), ("allowed", 0));
    same("nonsense", ("driver wrote", 0), ("device refused", n.bad_doorbells + n.ignored_writes));
    same("DMA", ("faults allowed", 0), ("faults", all.dma_faults + n.dma_faults));
    same("mappings", ("made", all.maps), ("ended", all.unmaps));
    // Everything has been closed and released by now.
    same("buffers", ("taken", all.buffers_taken), ("released", all.buffers_released));
    let (readable, writable) = m.bus.platform().memory.lent();
    same("pages still lent to the device", ("to read", readable as u64), ("expected", 0));
    same("pages still lent to the device", ("to write", writable as u64), ("expected", 0));
    same("translation entries", ("live", m.bus.platform().live_entries().into()), ("expected", 0));
    wrong
}
