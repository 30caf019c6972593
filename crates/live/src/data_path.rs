//! The data path: the VM's adapter, the hypervisor's LAN, and the trunk's adapter.
//!
//! ```text
//! VM's stack <-> TAP <-> ibmveth | LAN | ibmveth <-> packet socket <-> OVS's TAP port
//!                        partition 0     partition 1
//! ```
//!
//! One thread runs both ends in turns. A frame is read from the kernel into the buffer that the
//! driver sends, and written to the kernel from the buffer that the hypervisor filled, so that all
//! copies are the system's own. Buffers are reused; nothing is allocated for a packet.

use super::counts::{Counts, Frames, sends};
use super::partition::{Lpars, TRUNK, VM, machine};
use doorbell_bus::{Bus, Memory};
use doorbell_devices::veth;
use doorbell_drivers::ibmveth::{Config, Ibmveth};
use doorbell_drivers::{Driver, Irq, OpenError, Poll, Sink, Tx};
use doorbell_hal::{Alignment, Buf, Host, OutOfMemory};
use doorbell_host_io::offload;
use doorbell_host_io::packet_socket::PacketSocket;
use doorbell_host_io::tap::{Tap, VnetHeader};
use doorbell_packet::{Fragment, Packet};
use doorbell_vfio_user::ready;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::{sync::Mutex, time::Duration};

/// Size of a buffer that a frame is read into: the longest send.
const READ: u32 = 64 << 10;
/// Frames, and bytes, that are read on one side before the other's turn.
const FRAMES: usize = 64;
const BYTES: usize = 256 << 10;
/// Of those, frames that need one of the few 64-KiB buffers at the other side; smaller frames have
/// at most `SMALL` bytes, with correlator and mss.
const LARGE: usize = 8;
const SMALL: usize = (2 << 10) - 16;
/// Packets of one poll (the NAPI budget).
const BUDGET: u32 = 64;
/// Time between looks at requests of other threads when nothing arrives.
const IDLE: Duration = Duration::from_millis(20);

/// The kernel's side of an adapter.
enum Kernel {
    Tap(Tap),
    Socket(PacketSocket),
}

impl Kernel {
    fn receive(&self, frame: &mut [u8]) -> io::Result<(VnetHeader, usize)> {
        match self {
            Kernel::Tap(t) => t.receive(frame),
            Kernel::Socket(s) => s.receive(frame),
        }
    }

    /// Passes packets to the kernel. Returns the number that it refused.
    fn send<'a>(&self, frames: impl Iterator<Item = (VnetHeader, &'a [u8])>) -> io::Result<u64> {
        match self {
            Kernel::Socket(s) => s.send(frames),
            Kernel::Tap(t) => {
                let mut refused = 0;
                for (header, frame) in frames {
                    // The interface is down, or the frame is not what its header says.
                    refused += u64::from(t.send(&header, frame).is_err());
                }
                Ok(refused)
            }
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Kernel::Tap(t) => t.as_fd(),
            Kernel::Socket(s) => s.as_fd(),
        }
    }
}

/// One adapter with its driver and the kernel's side.
struct End {
    nic: Ibmveth,
    kernel: Kernel,
    /// A poll is due.
    scheduled: bool,
    /// There may be more to read.
    more: bool,
    /// Buffers to read into.
    spare: Vec<Buf>,
    /// Received packets on the way to the kernel.
    got: Vec<(Packet, bool)>,
    frames: Frames,
}

/// Collects a driver's buffers and packets.
struct RxSink<'a> {
    spare: &'a mut Vec<Buf>,
    got: &'a mut Vec<(Packet, bool)>,
}

impl Sink for RxSink<'_> {
    fn sent(&mut self, b: Buf, _: u32, _: bool) {
        self.spare.push(b);
    }
    fn received(&mut self, p: Packet, verified: bool) {
        self.got.push((p, verified));
    }
}

/// Returns a buffer of [`READ`] bytes. A shorter one is freed: of a large send that the driver has
/// segmented, it returns the last segment's.
fn to_read_into(memory: &mut Memory, spare: &mut Vec<Buf>) -> Result<Buf, OutOfMemory> {
    while let Some(buf) = spare.pop() {
        if buf.len() >= READ {
            return Ok(buf);
        }
        memory.release(buf);
    }
    memory.buffer(READ, Alignment { align: 4096, offset: 0 })
}

/// Requests to a running path, and its answers.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    /// The counts are requested.
    asked: AtomicBool,
    counts: Mutex<Option<Counts>>,
}

impl Shared {
    /// Returns the current counts, or `None` if the path has ended.
    pub(super) fn counts(&self) -> Option<Counts> {
        self.asked.store(true, Ordering::Release);
        for _ in 0..500 {
            std::thread::sleep(IDLE / 4);
            if let Ok(mut counts) = self.counts.lock()
                && let Some(now) = counts.take()
            {
                return Some(now);
            }
        }
        None
    }
}

pub(super) struct DataPath {
    machine: Lpars,
    ends: [End; 2],
}

/// Gives the next calls the view of partition `me`. Both have one clock.
fn enter(machine: &mut Lpars, me: usize) {
    let now = machine.now();
    machine.enter(me);
    machine.idle_until(now);
}

impl DataPath {
    /// Opens both adapters, the VM's with the MAC of its interface.
    pub(super) fn open(
        lan: veth::Config,
        drivers: [Config; 2],
        vm: Tap,
        trunk: PacketSocket,
    ) -> Result<DataPath, OpenError> {
        let mut machine = machine(lan)?;
        let mut end = |me: usize, kernel| -> Result<End, OpenError> {
            enter(&mut machine, me);
            let nic = Ibmveth::open(&mut machine, &drivers[me])?;
            let got = Vec::with_capacity(2 * BUDGET as usize);
            let (spare, frames) = (Vec::with_capacity(FRAMES), Frames::default());
            Ok(End { nic, kernel, scheduled: false, more: false, spare, got, frames })
        };
        let ends = [end(VM, Kernel::Tap(vm))?, end(TRUNK, Kernel::Socket(trunk))?];
        Ok(DataPath { machine, ends })
    }

    /// Returns true if both adapters negotiated large sends.
    pub(super) fn large_send(&self) -> bool {
        self.ends.iter().all(|e| e.nic.negotiated().large_send || e.nic.negotiated().old_large_send)
    }

    /// Runs until it is stopped, then closes both adapters. Fails if an interface is gone, or if
    /// memory is still mapped at the end.
    pub(super) fn run(mut self, shared: &Shared) -> io::Result<()> {
        while !shared.stop.load(Ordering::Relaxed) {
            if shared.asked.swap(false, Ordering::Acquire)
                && let Ok(mut counts) = shared.counts.lock()
            {
                *counts = Some(Counts::of(&self.machine, self.ends.each_ref().map(|e| e.frames)));
            }
            let wait = if self.ends.iter().any(|e| e.more) { Duration::ZERO } else { IDLE };
            let ready =
                ready([self.ends[VM].kernel.fd(), self.ends[TRUNK].kernel.fd()], Some(wait))?;
            for me in [VM, TRUNK] {
                if ready[me] || self.ends[me].more {
                    self.intake(me)?;
                    // Its frames are at the other side by now.
                    self.deliver(me ^ 1)?;
                }
            }
        }
        self.close()
    }

    fn close(self) -> io::Result<()> {
        let DataPath { mut machine, ends } = self;
        for (me, mut end) in ends.into_iter().enumerate() {
            enter(&mut machine, me);
            end.nic.reclaim(&mut machine, &mut RxSink { spare: &mut end.spare, got: &mut end.got });
            end.nic.close(&mut machine);
        }
        let live: u32 = machine.bus.platforms().map(|p| p.live_entries()).sum();
        let why = format!("{live} table entries are still in use though both adapters are closed");
        if live == 0 { Ok(()) } else { Err(io::Error::other(why)) }
    }

    /// Reads frames from the kernel's side of `me`, and sends them.
    fn intake(&mut self, me: usize) -> io::Result<()> {
        let DataPath { machine, ends } = self;
        let (mut bytes, mut large, end) = (0, 0, &mut ends[me]);
        enter(machine, me);
        for _ in 0..FRAMES {
            let memory = &mut machine.bus.platform_mut().memory;
            let buf = to_read_into(memory, &mut end.spare).map_err(|_| {
                io::Error::new(ErrorKind::OutOfMemory, "a partition's memory is used up")
            })?;
            let (header, len) = match end.kernel.receive(memory.cpu(buf.addr(), READ as usize)) {
                Ok(read) => read,
                Err(e) => {
                    end.spare.push(buf);
                    end.more = e.kind() == ErrorKind::InvalidData;
                    match e.kind() {
                        ErrorKind::WouldBlock | ErrorKind::Interrupted => {}
                        ErrorKind::InvalidData => end.frames.dropped += 1,
                        // The interface is down, not gone.
                        _ if e.raw_os_error() == Some(ENETDOWN) => {}
                        _ => return Err(e),
                    }
                    return Ok(());
                }
            };
            let todo = offload::todo(&header, memory.peek(buf.addr(), len));
            let Some(todo) = todo else {
                end.frames.dropped += 1;
                end.spare.push(buf);
                continue;
            };
            end.frames.taken += 1;
            end.frames.bytes += len as u64;
            end.frames.segments += todo.gso.map_or(1, |g| {
                (len - usize::from(g.header).min(len)).div_ceil(usize::from(g.size)) as u64
            });
            let head = Fragment { buf, start: 0, len: len as u32 };
            let p = Packet { head, todo, more: None, cookie: 0 };
            let before = sends(machine);
            match end.nic.transmit(machine, p, true) {
                // A send is over when it returns.
                Tx::Ok => {
                    let mut up = RxSink { spare: &mut end.spare, got: &mut end.got };
                    end.nic.reclaim(machine, &mut up);
                }
                Tx::Busy(p) | Tx::Dropped(p) => {
                    end.frames.dropped += 1;
                    end.spare.push(p.head.buf);
                }
            }
            end.frames.sends += sends(machine) - before;
            bytes += len;
            large += usize::from(len > SMALL);
            if bytes >= BYTES || large == LARGE {
                break;
            }
        }
        end.more = true;
        Ok(())
    }

    /// Takes the interrupt, polls until the queue is empty, and passes the packets to the kernel.
    fn deliver(&mut self, me: usize) -> io::Result<()> {
        let DataPath { machine, ends } = self;
        let end = &mut ends[me];
        enter(machine, me);
        loop {
            machine.catch_up();
            let vector = end.nic.config().vector;
            if machine.bus.platform_mut().take_message(vector).is_some() {
                end.scheduled |= end.nic.interrupt(machine, vector) == Irq::Poll;
            }
            if !end.scheduled {
                return Ok(());
            }
            let mut up = RxSink { spare: &mut end.spare, got: &mut end.got };
            match end.nic.poll(machine, BUDGET, &mut up) {
                Poll::Again => {}
                Poll::Idle => end.scheduled = false,
                Poll::Work => {
                    end.nic.work(machine);
                    end.scheduled = false;
                }
            }
            let memory = &machine.bus.platform().memory;
            let frames = end.got.iter().map(|(p, verified)| {
                let frame =
                    memory.peek(p.head.buf.addr() + u64::from(p.head.start), p.head.len as usize);
                let mut header = offload::header(&p.todo, frame);
                if *verified && p.todo.checksum.is_none() {
                    header.flags = VnetHeader::DATA_VALID;
                }
                (header, frame)
            });
            end.frames.refused += end.kernel.send(frames)?;
            for (p, _) in end.got.drain(..) {
                machine.release(p.head.buf);
            }
        }
    }
}

/// The error of reading from an interface that is down.
const ENETDOWN: i32 = 100;

#[cfg(test)]
mod tests;
