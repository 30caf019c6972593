//! The path: a VM's adapter, the hypervisor's LAN, the trunk's adapter, each with the frames of
//! the kernel outside.
//!
//! ```text
//! VM's stack <-> TAP <-> ibmveth | LAN | ibmveth <-> packet socket <-> OVS's TAP port
//!                        partition 0     partition 1
//! ```
//!
//! One thread runs all of it in turns: what came from outside goes through a driver into the LAN,
//! which copies it to the other partition and interrupts that; its driver's poll hands it up,
//! and it leaves on the other side, as many frames in a system call as there are. A frame is read
//! from the kernel into the buffer that the driver sends, and written to it from the buffer that
//! the hypervisor filled, so that the copies between are the system's own. Nothing is allocated for
//! a packet: buffers come back to where they were taken from.

use super::ledger::Ledger;
use super::partition::{Cpu, Partition};
use crate::vnet;
use doorbell_devices::veth::{self, Veth};
use doorbell_drivers::ibmveth::{Config, Ibmveth, OpenError};
use doorbell_drivers::{Driver, Irq, Poll, Sink, Tx};
use doorbell_hal::Buf;
use doorbell_host_io::packet_socket::PacketSocket;
use doorbell_host_io::tap::{Tap, VnetHeader};
use doorbell_packet::{Fragment, Packet};
use doorbell_vfio_user::ready;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The VM's partition, and the trunk's.
const VM: usize = 0;
const TRUNK: usize = 1;

/// Bytes of a buffer that a frame is read into: the longest send.
const READ: u32 = 64 << 10;
/// Frames, and bytes, that are read on one side before the other has its turn.
const FRAMES: usize = 64;
const BYTES: usize = 256 << 10;
/// Of those, frames that need a 64-KiB buffer at the other side, which has few; and what that
/// begins at, with correlator and mss.
const LARGE: usize = 8;
const SMALL: usize = (2 << 10) - 16;
/// Packets that a poll takes (NAPI's budget).
const BUDGET: u32 = 64;
/// How long it may take until the thread sees that it is asked for something, when nothing comes.
const IDLE: Duration = Duration::from_millis(20);

/// Outside of one adapter.
#[derive(Debug)]
enum Outside {
    Tap(Tap),
    Socket(PacketSocket),
}

impl Outside {
    fn receive(&self, frame: &mut [u8]) -> io::Result<(VnetHeader, usize)> {
        match self {
            Outside::Tap(t) => t.receive(frame),
            Outside::Socket(s) => s.receive(frame),
        }
    }

    /// Hands packets to the kernel; how many it did not take.
    fn send<'a>(&self, frames: impl Iterator<Item = (VnetHeader, &'a [u8])>) -> io::Result<u64> {
        match self {
            Outside::Socket(s) => s.send(frames),
            Outside::Tap(t) => {
                let mut refused = 0;
                for (header, frame) in frames {
                    match t.send(&header, frame) {
                        Ok(()) => {}
                        // The interface is down, or the frame is not what its header says.
                        Err(_) => refused += 1,
                    }
                }
                Ok(refused)
            }
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Outside::Tap(t) => t.as_fd(),
            Outside::Socket(s) => s.as_fd(),
        }
    }
}

/// One adapter with its driver and its outside.
#[derive(Debug)]
struct End {
    nic: Ibmveth,
    outside: Outside,
    /// A poll is to follow.
    scheduled: bool,
    /// There may be more to read without asking.
    more: bool,
    /// Buffers to read into.
    spare: Vec<Buf>,
    /// Received, on the way out.
    got: Vec<(Packet, bool)>,
}

/// Where a driver hands things up.
struct Up<'a> {
    spare: &'a mut Vec<Buf>,
    got: &'a mut Vec<(Packet, bool)>,
}

impl Sink for Up<'_> {
    fn sent(&mut self, b: Buf, _: u32, _: bool) {
        self.spare.push(b);
    }
    fn received(&mut self, p: Packet, verified: bool) {
        self.got.push((p, verified));
    }
}

/// What a running path tells others, and is told.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) stop: AtomicBool,
    /// Somebody waits for the counts.
    asked: AtomicBool,
    counts: Mutex<Option<[Ledger; 2]>>,
}

impl Shared {
    /// The counts of the VM's partition and the trunk's as they are; `None` when the path has
    /// ended.
    pub(super) fn counts(&self) -> Option<[Ledger; 2]> {
        self.asked.store(true, Ordering::Release);
        for _ in 0..500 {
            std::thread::sleep(IDLE / 4);
            if let Ok(mut counts) = self.counts.lock()
                && let Some(l) = counts.take()
            {
                return Some(l);
            }
        }
        None
    }
}

/// The path.
#[derive(Debug)]
pub(super) struct Path {
    lan: Veth,
    partitions: [Partition; 2],
    ends: [End; 2],
}

/// A driver's view of its machine, from a path's parts.
macro_rules! cpu {
    ($path:ident, $me:expr) => {
        Cpu { lan: &mut $path.lan, partitions: &mut $path.partitions, me: $me }
    };
}

impl Path {
    /// Opens both adapters, the VM's with the MAC of its interface.
    pub(super) fn open(
        lan: veth::Config,
        drivers: [Config; 2],
        vm: Tap,
        trunk: PacketSocket,
    ) -> Result<Path, OpenError> {
        let mut lan = Veth::new(lan);
        let mut partitions = [Partition::new(), Partition::new()];
        let mut end = |me: usize, outside| -> Result<End, OpenError> {
            let mut cpu = Cpu { lan: &mut lan, partitions: &mut partitions, me };
            let nic = Ibmveth::open(&mut cpu, &drivers[me])?;
            let got = Vec::with_capacity(2 * BUDGET as usize);
            Ok(End {
                nic,
                outside,
                scheduled: false,
                more: false,
                spare: Vec::with_capacity(FRAMES),
                got,
            })
        };
        let ends = [end(VM, Outside::Tap(vm))?, end(TRUNK, Outside::Socket(trunk))?];
        Ok(Path { lan, partitions, ends })
    }

    /// The trunk's adapter has agreed to large sends.
    pub(super) fn large_send(&self) -> bool {
        self.ends.iter().all(|e| e.nic.negotiated().large_send || e.nic.negotiated().old_large_send)
    }

    /// Runs until it is told to stop; then closes both adapters. An error when an interface is
    /// gone, or memory is still lent at the end.
    pub(super) fn run(mut self, shared: &Shared) -> io::Result<()> {
        while !shared.stop.load(Ordering::Relaxed) {
            if shared.asked.swap(false, Ordering::Acquire)
                && let Ok(mut counts) = shared.counts.lock()
            {
                *counts = Some(self.ledgers());
            }
            let wait = if self.ends.iter().any(|e| e.more) { Duration::ZERO } else { IDLE };
            let ready =
                ready([self.ends[VM].outside.fd(), self.ends[TRUNK].outside.fd()], Some(wait))?;
            for me in [VM, TRUNK] {
                if ready[me] || self.ends[me].more {
                    self.intake(me)?;
                    // What it sent is at the other side by now.
                    self.deliver(me ^ 1)?;
                }
            }
        }
        self.close()
    }

    fn ledgers(&self) -> [Ledger; 2] {
        let mut both = [VM, TRUNK].map(|i| self.partitions[i].ledger.clone());
        both.iter_mut()
            .zip([VM, TRUNK])
            .for_each(|(l, i)| l.no_buffer = self.lan.counters(i).rx_no_buffer);
        both
    }

    fn close(self) -> io::Result<()> {
        let Path { mut lan, mut partitions, ends } = self;
        for (me, mut end) in ends.into_iter().enumerate() {
            let mut cpu = Cpu { lan: &mut lan, partitions: &mut partitions, me };
            end.nic.reclaim(&mut cpu, &mut Up { spare: &mut end.spare, got: &mut end.got });
            end.nic.close(&mut cpu);
        }
        match partitions.iter().map(Partition::live_entries).sum() {
            0 => Ok(()),
            n => Err(io::Error::other(format!(
                "{n} table entries are still in use though both adapters are closed"
            ))),
        }
    }

    /// Reads what has come from outside of `me`, and sends it.
    fn intake(&mut self, me: usize) -> io::Result<()> {
        let (mut bytes, mut large) = (0, 0);
        for _ in 0..FRAMES {
            let end = &mut self.ends[me];
            let memory = &mut self.partitions[me].memory;
            let buf = match end.spare.pop() {
                Some(b) => b,
                None => memory
                    .buffer(READ, doorbell_hal::Alignment { align: 4096, offset: 0 })
                    .map_err(|_| {
                        io::Error::new(ErrorKind::OutOfMemory, "a partition's memory is used up")
                    })?,
            };
            let (header, len) = match end.outside.receive(memory.cpu(buf.addr(), READ as usize)) {
                Ok(read) => read,
                Err(e) => {
                    end.spare.push(buf);
                    end.more = e.kind() == ErrorKind::InvalidData;
                    match e.kind() {
                        ErrorKind::WouldBlock | ErrorKind::Interrupted => {}
                        ErrorKind::InvalidData => self.partitions[me].ledger.dropped += 1,
                        // Down, not gone.
                        _ if e.raw_os_error() == Some(ENETDOWN) => {}
                        _ => return Err(e),
                    }
                    return Ok(());
                }
            };
            let todo = vnet::todo(&header, memory.peek(buf.addr(), len));
            let ledger = &mut self.partitions[me].ledger;
            let Some(todo) = todo else {
                ledger.dropped += 1;
                end.spare.push(buf);
                continue;
            };
            ledger.frames += 1;
            ledger.bytes += len as u64;
            ledger.segments += todo.gso.map_or(1, |g| {
                (len - usize::from(g.header).min(len)).div_ceil(usize::from(g.size)) as u64
            });
            let head = Fragment { buf, start: 0, len: len as u32 };
            let p = Packet { head, todo, more: None, cookie: 0 };
            let mut cpu = cpu!(self, me);
            match end.nic.transmit(&mut cpu, p, true) {
                // A send is over when it returns.
                Tx::Ok => {
                    end.nic.reclaim(&mut cpu, &mut Up { spare: &mut end.spare, got: &mut end.got });
                }
                Tx::Busy(p) | Tx::Dropped(p) => {
                    self.partitions[me].ledger.dropped += 1;
                    end.spare.push(p.head.buf);
                }
            }
            bytes += len;
            large += usize::from(len > SMALL);
            if bytes >= BYTES || large == LARGE {
                break;
            }
        }
        self.ends[me].more = true;
        Ok(())
    }

    /// Takes the interrupt, polls until all is done, and hands to the kernel what was received.
    fn deliver(&mut self, me: usize) -> io::Result<()> {
        let end = &mut self.ends[me];
        loop {
            let partition = &mut self.partitions[me];
            if std::mem::take(&mut partition.interrupt) {
                let vector = end.nic.config().vector;
                end.scheduled |= end.nic.interrupt(&mut cpu!(self, me), vector) == Irq::Poll;
            }
            if !end.scheduled {
                return Ok(());
            }
            let mut up = Up { spare: &mut end.spare, got: &mut end.got };
            match end.nic.poll(&mut cpu!(self, me), BUDGET, &mut up) {
                Poll::Again => {}
                Poll::Idle => end.scheduled = false,
                Poll::CpuWork => {
                    end.nic.work(&mut cpu!(self, me));
                    end.scheduled = false;
                }
            }
            let partition = &mut self.partitions[me];
            let memory = &partition.memory;
            let frames = end.got.iter().map(|(p, verified)| {
                let frame =
                    memory.peek(p.head.buf.addr() + u64::from(p.head.start), p.head.len as usize);
                let mut header = vnet::header(&p.todo, frame);
                if *verified && p.todo.checksum.is_none() {
                    header.flags = VnetHeader::DATA_VALID;
                }
                (header, frame)
            });
            partition.ledger.refused += end.outside.send(frames)?;
            for (p, _) in end.got.drain(..) {
                partition.memory.release(p.head.buf);
            }
        }
    }
}

/// What reading from an interface that is down says.
const ENETDOWN: i32 = 100;
