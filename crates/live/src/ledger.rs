//! Counts at the boundary between a partition and its hypervisor. Without virtual time there are
//! counts and bytes, no rates.

use doorbell_hal::{CpuWork, Hcall, WorkKind};
use doorbell_layout::Call;
use doorbell_layout::ibmveth::CALLS;
use std::ops::{AddAssign, Sub};

/// The counts of a partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Ledger {
    /// Calls, mappings, translation entries and faults.
    pub(super) bus: doorbell_bus::Ledger,
    hcalls: [u64; CALLS.len()],
    /// Occurrences and amount of each kind of work.
    work: [[u64; 2]; WorkKind::ALL.len()],
    /// Frames from outside, their bytes, and their segments on a wire.
    pub(super) frames: u64,
    pub(super) bytes: u64,
    pub(super) segments: u64,
    pub(super) hypervisor_read_bytes: u64,
    pub(super) hypervisor_write_bytes: u64,
    /// Frames that the kernel did not accept, and frames from it that could not be forwarded.
    pub(super) refused: u64,
    /// Frames without a buffer in the receiving partition.
    pub(super) no_buffer: u64,
    pub(super) dropped: u64,
}

impl Ledger {
    #[inline]
    pub(super) fn call(&mut self, c: Hcall) {
        if let Some(i) = CALLS.iter().position(|known| known.number == c.0) {
            self.hcalls[i] += 1;
            self.bus.hcalls += 1;
        }
    }

    /// Returns the number of H_SEND_LOGICAL_LAN calls.
    pub(super) fn sends(&self) -> u64 {
        self.hcalls[0]
    }

    #[inline]
    pub(super) fn work(&mut self, w: CpuWork) {
        let [times, amount] = &mut self.work[w.kind() as usize];
        *times += 1;
        *amount += u64::from(w.amount());
    }

    /// Returns the name, description and value of each count.
    pub(super) fn entries(&self) -> Vec<(&'static str, &'static str, u64)> {
        let work = |kind: WorkKind| self.work[kind as usize];
        let mut all = vec![
            ("frames", "From VM and bridge", self.frames),
            ("frame_bytes", "Of those", self.bytes),
            ("segments", "On a wire of this MTU", self.segments),
            ("hcalls", "All, those for TCEs too", self.bus.hcalls),
        ];
        // Without the call's own name, which the room of a note has not.
        let about = |call: &Call| call.about.split_once(": ").map_or("", |(_, about)| about);
        all.extend(CALLS.iter().zip(self.hcalls).map(|(call, n)| (call.name, about(call), n)));
        all.extend([
            ("tce_hcalls", "H_PUT_TCE, H_STUFF_TCE", self.bus.tce_hcalls),
            ("tces", "Written or cleared", self.bus.tce_puts),
            ("maps", "Buffers mapped", self.bus.maps),
            ("unmaps", "Mappings ended", self.bus.unmaps),
            ("copies", "By drivers", work(WorkKind::Copy)[0]),
            ("copied_bytes", "By drivers", work(WorkKind::Copy)[1]),
            ("summed_bytes", "By drivers, for checksums", work(WorkKind::Sum)[1]),
            ("tx_descriptors", "Given with sends", work(WorkKind::TxDescriptor)[1]),
            ("rx_posts", "Receive buffers lent", work(WorkKind::RxPost)[0]),
            ("polls", "", work(WorkKind::Poll)[0]),
            ("interrupts", "Taken by drivers", work(WorkKind::Interrupt)[0]),
            ("hypervisor_read_bytes", "From partitions", self.hypervisor_read_bytes),
            ("hypervisor_write_bytes", "To partitions", self.hypervisor_write_bytes),
            ("dma_faults", "No TCE allowed it", self.bus.dma_faults),
            ("no_buffer", "No receive buffer fitted", self.no_buffer),
            ("refused", "By the kernel", self.refused),
            ("dropped", "By a driver", self.dropped),
        ]);
        all
    }
}

/// Applies `f` to each pair of counts.
fn each(a: &mut Ledger, b: &Ledger, f: impl Fn(&mut u64, u64)) {
    let pairs = a.hcalls.iter_mut().zip(b.hcalls);
    let pairs = pairs
        .chain(a.work.as_flattened_mut().iter_mut().zip(b.work.as_flattened().iter().copied()));
    let pairs = pairs.chain([
        (&mut a.frames, b.frames),
        (&mut a.bytes, b.bytes),
        (&mut a.segments, b.segments),
        (&mut a.hypervisor_read_bytes, b.hypervisor_read_bytes),
        (&mut a.hypervisor_write_bytes, b.hypervisor_write_bytes),
        (&mut a.no_buffer, b.no_buffer),
        (&mut a.refused, b.refused),
        (&mut a.dropped, b.dropped),
    ]);
    pairs.for_each(|(a, b)| f(a, b));
}

impl AddAssign<&Ledger> for Ledger {
    fn add_assign(&mut self, other: &Ledger) {
        self.bus = self.bus.plus(&other.bus);
        each(self, other, |a, b| *a += b);
    }
}

/// Subtracts the counts of `before`.
impl Sub<&Ledger> for Ledger {
    type Output = Ledger;
    fn sub(mut self, before: &Ledger) -> Ledger {
        self.bus = self.bus.since(&before.bus);
        each(&mut self, before, |a, b| *a -= b);
        self
    }
}

#[cfg(test)]
mod tests;
