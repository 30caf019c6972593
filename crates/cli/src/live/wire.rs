//! What is on the wire behind the NIC: looked at frame by frame, in a transfer of its own.
//!
//! The far side's GRO is off while it is looked at, or frames would be merged before anybody
//! sees them. The NIC's stand-in leaves nothing undone, so a checksum that nobody made is a wrong
//! one here.

use super::setup::VM_MAC;
use super::site::{LONGEST, Site};
use super::{Recording, State, Watcher, transfer};
use doorbell_hal::Time;
use doorbell_host_io::netns;
use doorbell_packet::headers::{Check, verify};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are sent each way to be looked at: some thousands of full frames, after TCP's slow
/// start.
pub(super) const AMOUNT: u64 = 4 << 20;
/// More than any frame.
const ROOM: usize = 70_000;

/// What was seen.
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
    /// What the VM sent meanwhile: calls, and the segments that those are on a wire.
    pub(super) sends: u64,
    pub(super) segments: u64,
    /// Bytes that came as they were sent: at the network, and at the VM.
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

/// Sends a few megabytes from the VM to the network and back, and looks at every frame that comes
/// to the network.
pub(super) fn sample(
    site: &mut Site,
    state: State,
    watch: &Watcher<'_>,
    began: Instant,
    mut recording: Option<&mut Recording>,
) -> io::Result<Sample> {
    site.net.run("ethtool -K eth0 gro off")?;
    // What is on its way from before may have been merged already, and is not of this transfer.
    site.settle()?;
    let socket = site.net.within(|| netns::Capture::open("eth0"))??;
    let [before, _] = site.both_counts()?;
    let done = AtomicBool::new(false);
    let (sent, sample) = std::thread::scope(|s| {
        let looking = s.spawn(|| -> io::Result<Sample> {
            let mut sample = Sample::default();
            let mut frame = vec![0; ROOM];
            loop {
                // What is there when the transfer is over is looked at too.
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
        let sent = transfer::exchange(site, AMOUNT, watch).and_then(|whole| {
            site.settle()?;
            let [after, _] = site.both_counts()?;
            Ok((whole, after - &before))
        });
        done.store(true, Ordering::Release);
        let sample = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (sent, sample)
    });
    let (whole, ledger) = sent?;
    site.net.run("ethtool -K eth0 gro on")?;
    Ok(Sample { whole, sends: ledger.sends(), segments: ledger.segments, ..sample? })
}
