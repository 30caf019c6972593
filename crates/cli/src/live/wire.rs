//! What is on the wire behind the NIC: looked at frame by frame, in a transfer of its own.
//!
//! The far side's GRO is off while it is looked at, or frames would be merged before anybody
//! sees them. The NIC's stand-in leaves nothing undone, so a checksum that nobody made is a wrong one here.

use super::measure::{self, Amount};
use super::site::{Arm, LONGEST, Site};
use super::{Recording, State, Watcher};
use doorbell_attach::netns;
use doorbell_packet::headers::{Check, verify};
use doorbell_seam::Time;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes that are sent to be looked at: a few hundred full frames, after TCP's slow start.
const SAMPLE: u64 = 4 << 20;
/// No frames for so long is silence, for which is waited so often.
const QUIET: Duration = Duration::from_millis(60);
const QUIET_TRIES: u32 = 50;
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
    }
}

/// Sends a few megabytes from the VM to the network, and looks at every frame there.
pub(super) fn sample(
    site: &mut Site,
    state: State,
    watch: &Watcher<'_>,
    began: Instant,
    mut recording: Option<&mut Recording>,
) -> io::Result<Sample> {
    site.net.run("ethtool -K eth0 gro off")?;
    // What is on its way from before may have been merged already.
    let mut seen = site.bytes()?;
    for _ in 0..QUIET_TRIES {
        std::thread::sleep(QUIET);
        let before = std::mem::replace(&mut seen, site.bytes()?);
        if before == seen {
            break;
        }
    }
    let socket = site.net.within(|| netns::Capture::open("eth0"))??;
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
        let sent = measure::slice(site, Arm::Ibmveth, Amount::Bytes(SAMPLE), watch, state);
        done.store(true, Ordering::Release);
        let sample = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (sent, sample)
    });
    sent?;
    site.net.run("ethtool -K eth0 gro on")?;
    sample
}
