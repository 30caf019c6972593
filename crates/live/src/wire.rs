//! Inspection of the frames on the wire behind the NIC, in a transfer of its own. GRO of the far
//! side is off meanwhile, or it would merge frames first. The stand-in for the NIC completes all
//! checksums, so that a missing checksum is a wrong one here.

use super::testbed::{LONGEST, Testbed};
use super::{Recording, State, Watcher, setup::VM_MAC, transfer};
use doorbell_hal::Time;
use doorbell_host_io::netns;
use doorbell_packet::headers::{Check, verify};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes sent each way for inspection: some thousands of full frames, after TCP's slow start.
pub(super) const AMOUNT: u64 = 4 << 20;
/// Larger than any frame.
const ROOM: usize = 70_000;

/// Counts of the inspected frames.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    pub(super) frames: u64,
    /// Bytes of the longest.
    pub(super) longest: u32,
    /// Longer than the MTU allows.
    pub(super) over: u64,
    /// With a wrong checksum, of IP or of what it carries.
    pub(super) wrong: u64,
    /// With right checksums, and TCP among them.
    pub(super) right: u64,
    /// From the VM.
    pub(super) arrived: u64,
    /// Calls by which the VM sent meanwhile, and the segments that they become on a wire.
    pub(super) sends: u64,
    pub(super) segments: u64,
    /// Intact bytes at the network and at the VM.
    pub(super) whole: [u64; 2],
}

impl Sample {
    fn look(&mut self, frame: &[u8]) {
        self.frames += 1;
        self.longest = self.longest.max(frame.len() as u32);
        self.over += u64::from(frame.len() as u32 > LONGEST);
        let v = verify(frame);
        let bad = v.ip == Check::Bad || v.transport == Check::Bad;
        self.wrong += u64::from(bad);
        self.right += u64::from(!bad && v.transport == Check::Good);
        self.arrived += u64::from(frame.get(6..12) == Some(&VM_MAC));
    }
}

/// Sends a few megabytes from the VM to the network and back, and inspects every frame that
/// reaches the network.
pub(super) fn sample(
    bed: &mut Testbed,
    state: State,
    watch: &Watcher<'_>,
    began: Instant,
    mut recording: Option<&mut Recording>,
) -> io::Result<Sample> {
    bed.net.run("ethtool -K eth0 gro off")?;
    // Earlier frames under way may have been merged, and are not of this transfer.
    bed.settle()?;
    let socket = bed.net.within(|| netns::Capture::open("eth0"))??;
    let before = bed.counts()?;
    let done = AtomicBool::new(false);
    let (sent, sample) = std::thread::scope(|s| {
        let looking = s.spawn(|| -> io::Result<Sample> {
            let mut sample = Sample::default();
            let mut frame = vec![0; ROOM];
            loop {
                // Frames that are queued at the end of the transfer are inspected, too.
                let last = done.load(Ordering::Acquire);
                while let Some(n) = socket.receive(&mut frame, Duration::from_millis(20))? {
                    sample.look(&frame[..n]);
                    if let Some(r) = &mut recording {
                        let at = Time::from_ps(began.elapsed().as_nanos() as u64 * 1000);
                        r.writer.frame(r.wires[state as usize], at, &frame[..n])?;
                    }
                }
                if last {
                    return Ok(sample);
                }
            }
        });
        let sent = transfer::exchange(bed, AMOUNT, watch).and_then(|whole| {
            bed.settle()?;
            Ok((whole, bed.counts()?.since(&before)))
        });
        done.store(true, Ordering::Release);
        let sample = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (sent, sample)
    });
    let (whole, counts) = sent?;
    bed.net.run("ethtool -K eth0 gro on")?;
    Ok(Sample { whole, sends: counts.sends, segments: counts.segments, ..sample? })
}
