//! Counts of the machine and of the frames at its ends. There are counts and bytes, no rates.

use super::partition::{CountedPort, Lpars};
use doorbell_bus::Bus;
use doorbell_hal::{EventSource, Hcall, WorkKind};
use doorbell_layout::Call;
use doorbell_layout::ibmveth::{CALLS, H_SEND_LOGICAL_LAN};

/// Frames at one end, between the kernel and a partition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frames {
    /// Frames from the kernel, their bytes, and their segments on a wire.
    pub(super) taken: u64,
    pub(super) bytes: u64,
    pub(super) segments: u64,
    /// Calls by which they were sent.
    pub(super) sends: u64,
    /// Frames that the kernel did not accept.
    pub(super) refused: u64,
    /// Frames from it that could not be forwarded.
    pub(super) dropped: u64,
}

/// All counts.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// Name, description and value of each, in the order of a table.
    pub(super) all: Vec<(&'static str, &'static str, u64)>,
    /// Calls by which the VM has sent, and the segments of its frames on a wire.
    pub(super) sends: u64,
    pub(super) segments: u64,
}

/// Returns how often a call was made.
pub(super) fn calls(m: &Lpars, number: u64) -> u64 {
    m.bus.calls().iter().find(|c| c.call == Hcall(number)).map_or(0, |c| c.times)
}

/// Returns how often the drivers have sent.
pub(super) fn sends(m: &Lpars) -> u64 {
    calls(m, H_SEND_LOGICAL_LAN)
}

impl Counts {
    /// Reads the counts of both partitions together, and of both ends.
    pub(super) fn of(m: &Lpars, [vm, trunk]: [Frames; 2]) -> Counts {
        let both = |of: fn(&Frames) -> u64| of(&vm) + of(&trunk);
        let (bus, done) = (m.bus.ledger(), |kind| m.done(kind));
        let bytes = |of: fn(&CountedPort) -> u64| m.bus.ports.iter().map(of).sum();
        let mut all = vec![
            ("frames", "From VM and bridge", both(|f| f.taken)),
            ("frame_bytes", "Of those", both(|f| f.bytes)),
            ("segments", "On a wire of this MTU", both(|f| f.segments)),
            ("hcalls", "All, those for TCEs too", bus.hcalls),
        ];
        // Without the call's own name, which the room of a note has not.
        let about = |call: &Call| call.about.split_once(": ").map_or("", |(_, about)| about);
        all.extend(CALLS.iter().map(|call| (call.name, about(call), calls(m, call.number))));
        let mut no_buffer = 0;
        m.device.counters(&mut |name, n| no_buffer += if name == "rx_no_buffer" { n } else { 0 });
        all.extend([
            ("tce_hcalls", "H_PUT_TCE, H_STUFF_TCE", bus.tce_hcalls),
            ("tces", "Written or cleared", bus.tce_puts),
            ("maps", "Buffers mapped", bus.maps),
            ("unmaps", "Mappings ended", bus.unmaps),
            ("copies", "By drivers", done(WorkKind::Copy).times),
            ("copied_bytes", "By drivers", bus.copied_bytes),
            ("summed_bytes", "By drivers, for checksums", bus.summed_bytes),
            ("tx_descriptors", "Given with sends", done(WorkKind::TxDescriptor).units),
            ("rx_posts", "Receive buffers lent", done(WorkKind::RxPost).times),
            ("polls", "", done(WorkKind::Poll).times),
            ("interrupts", "Taken by drivers", done(WorkKind::Interrupt).times),
            ("hypervisor_read_bytes", "From partitions", bytes(|p| p.read_bytes)),
            ("hypervisor_write_bytes", "To partitions", bytes(|p| p.written_bytes)),
            ("dma_faults", "No TCE allowed it", bus.dma_faults),
            ("no_buffer", "No receive buffer fitted", no_buffer),
            ("refused", "By the kernel", both(|f| f.refused)),
            ("dropped", "By a driver", both(|f| f.dropped)),
        ]);
        Counts { all, sends: vm.sends, segments: vm.segments }
    }

    /// Returns a count by its name.
    pub(super) fn get(&self, name: &str) -> u64 {
        self.all.iter().find(|c| c.0 == name).map_or(0, |c| c.2)
    }

    /// Returns what was counted since `before`.
    pub(super) fn since(mut self, before: &Counts) -> Counts {
        self.all.iter_mut().zip(&before.all).for_each(|(now, before)| now.2 -= before.2);
        self.sends -= before.sends;
        self.segments -= before.segments;
        self
    }
}

#[cfg(test)]
mod tests;
