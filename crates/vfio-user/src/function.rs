//! A PCI function: a device, its configuration space, and one client at a time.
//!
//! [`Function`] owns device, memory maps, eventfds and polled pages, and is called from one thread.
//! The order of effects is therefore the order of the calls: no DMA is in flight after an unmap, a
//! reset or the end of a connection.
//!
//! States: no client, client before its version message, client. A lost client leaves the function
//! as after power-on: device reset, initial configuration space, no maps, no eventfds. (The
//! specification keeps the device's state for a reconnecting client; here it is a new machine.)

use super::channel::{Channel, ConnectionError, Limits, Message};
use super::irq::{ERRORS, Irqs, KINDS};
use super::message::{
    DeviceInfo, Errno, IrqInfo, MAX_BAR_ACCESS, MAX_DATA, MAX_FDS, Map, RegionInfo, Request,
    Sparse, Unmap, VERSION, Version, flag, parse,
};
use super::pci::{CONFIG_REGION, ConfigSpace, Identity, REGIONS};
use super::polled::Pages;
use super::port::{Crossing, GuestPort, Observer, Share};
use doorbell_hal::{Device, EventSource, Port as _, Reg, RxVerdict, Time, fail_if};
use doorbell_host_io::shared::{Access, EventFd, Received, reaper::Reaped, width};
use std::sync::{Arc, atomic::AtomicBool};
use std::{fs::File, io, os::fd::BorrowedFd, os::unix::net::UnixStream, time::Duration};
use zerocopy::{IntoBytes, native_endian::U64};

/// Flags of `struct vfio_device_info`.
const DEVICE_RESETS: u32 = 1;
const DEVICE_PCI: u32 = 2;
/// Flags of `struct vfio_region_info`.
const REGION_READ: u32 = 1;
const REGION_WRITE: u32 = 2;
const REGION_MMAP: u32 = 4;
const REGION_CAPS: u32 = 8;
/// Id and version of a sparse mmap capability.
const CAP_SPARSE: (u16, u16) = (1, 1);
/// Flags of an unmap request.
const UNMAP_DIRTY: u32 = 1;
const UNMAP_ALL: u32 = 2;
/// The most messages handled in one call of [`Function::serve`].
const BURST: usize = 64;
/// Units of [`Port::charge`] of a message or a descriptor in it, and of a reset, beside what the
/// device does.
const MESSAGE: u64 = 64;
const RESET: u64 = 512;

/// A device behind a vfio-user socket.
#[derive(Debug)]
pub struct Function<D, W> {
    identity: Identity,
    config: ConfigSpace,
    device: D,
    port: GuestPort<W>,
    pub(super) pages: Option<Pages>,
    doorbell: DoorbellHandler<D, W>,
    /// The client has sent its version.
    negotiated: bool,
    /// The time at which the client connected.
    since: Time,
    limits: Limits,
    scratch: Vec<u8>,
    /// A message that goes on in the next turn: a write that was begun, or whatever comes after
    /// doorbells that wait.
    begun: Option<(Message, Progress)>,
}

/// Progress of a write: how many of its parts are done, and the bytes done of the next.
type Progress = (usize, usize);

/// Handles a word of a polled page that the guest has written.
pub type DoorbellHandler<D, W> = fn(&mut D, &mut GuestPort<W>, Time, Reg, u64);

/// The kind of a reply.
enum Answer {
    Body,
    /// With the descriptor of this region's polled pages.
    Region(u32),
    /// None yet, because the share of the turn is spent.
    Later(Progress),
}

impl<D: Device<GuestPort<W>>, W: Observer> Function<D, W> {
    /// Creates a function without a client.
    ///
    /// # Errors
    /// `InvalidInput` if the identity contradicts itself; also if there is no memory for polled
    /// pages.
    pub fn new(identity: Identity, device: D, observer: W) -> io::Result<Function<D, W>> {
        identity.check().map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let pages = identity.polled.map(Pages::new).transpose()?;
        Ok(Function {
            config: ConfigSpace::new(&identity),
            port: GuestPort::new(Irqs::new(identity.line, identity.vectors()), observer),
            identity,
            device,
            pages,
            doorbell: |device, port, at, r, v| {
                port.observer.crossed(at, Crossing::RegisterWrite(r, 8, v, false));
                device.mmio_write(port, at, r, 8, v);
            },
            negotiated: false,
            since: Time::ZERO,
            limits: Limits::default(),
            scratch: Vec::new(),
            begun: None,
        })
    }

    /// Replaces the limits of clients' times.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Function<D, W> {
        self.limits = limits;
        self
    }

    /// Replaces the handler of doorbells, which are register writes otherwise.
    #[must_use]
    pub fn with_doorbell_handler(mut self, handler: DoorbellHandler<D, W>) -> Function<D, W> {
        self.doorbell = handler;
        self
    }

    /// Makes `stop` end every turn of the device at once.
    #[must_use]
    pub fn with_stop(mut self, stop: Arc<AtomicBool>) -> Function<D, W> {
        self.port.share = Share::new(stop);
        self
    }

    /// Makes the function allocate a client's memory when it is mapped, so that memory that has run
    /// out refuses the mapping instead of ending the client at a later access.
    #[must_use]
    pub fn with_populated_memory(mut self) -> Function<D, W> {
        self.port.populate = true;
        self
    }

    /// Returns the device.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// Passes the device and its port to `f`, for events that do not come from the guest.
    pub fn with_device<R>(&mut self, f: impl FnOnce(&mut D, &mut GuestPort<W>) -> R) -> R {
        f(&mut self.device, &mut self.port)
    }

    /// Returns the observer.
    pub fn observer(&mut self) -> &mut W {
        &mut self.port.observer
    }

    /// Returns its port.
    pub fn port(&self) -> &GuestPort<W> {
        &self.port
    }

    /// Returns the number of interrupts that no eventfd was connected for.
    pub fn lost_interrupts(&self) -> u64 {
        self.port.irqs.lost
    }

    /// Returns the number of accesses that the device tried without bus mastering.
    pub fn accesses_without_master(&self) -> u64 {
        self.port.without_master
    }

    /// Connects a new client and drops the present one.
    ///
    /// # Errors
    /// If the socket cannot be made non-blocking, or there is no memory for polled pages.
    pub fn connect(&mut self, at: Time, client: UnixStream) -> io::Result<()> {
        self.disconnect(at);
        // A client that has gone may still have its pages mapped.
        self.pages = self.identity.polled.map(Pages::new).transpose()?;
        self.port.channel = Some(Channel::new(client, self.limits.reply)?);
        self.since = at;
        Ok(())
    }

    /// Returns true with a client.
    pub fn connected(&self) -> bool {
        self.port.channel.is_some()
    }

    /// Drops the client and returns to the state after power-on.
    pub fn disconnect(&mut self, at: Time) {
        // The port first, so that nothing that the device does during its reset reaches the guest.
        self.port.disconnect();
        self.reset(at);
        (self.negotiated, self.begun) = (false, None);
    }

    fn reset(&mut self, at: Time) {
        self.port.charge(RESET);
        self.config.reset();
        self.apply_config();
        self.device.reset(&mut self.port, at);
        self.port.irqs.clear_pending();
        if let Some(pages) = &mut self.pages {
            pages.clear();
        }
    }

    fn apply_config(&mut self) {
        self.port.bus_master = self.config.bus_master() && self.port.channel.is_some();
        self.port.irqs.disable_line(!self.config.line_enabled());
    }

    /// Returns the descriptors to wait for: the client's socket, and the eventfd that unmasks the
    /// interrupt line, if there is one.
    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.port.channel.as_ref().map(Channel::as_fd).into_iter().chain(self.port.irqs.unmask_fd())
    }

    /// Handles the client's pending messages, at most 64 and for the share of a turn, so that
    /// device and wire have their turns. Returns how many, with one that goes on in the next turn.
    ///
    /// # Errors
    /// If the client has closed or violated the protocol; it is disconnected then.
    pub fn serve(&mut self, now: impl Fn() -> Time) -> Result<usize, ConnectionError> {
        self.port.begin_turn();
        self.port.irqs.check_unmask();
        if let Some(channel) = &mut self.port.channel {
            channel.begin_turn();
        }
        let hello = self.limits.hello;
        let late = |since: Time| Duration::from_nanos(now().since(since).ps() / 1000) >= hello;
        for n in 0..BURST {
            let stuck = self.port.irqs.stuck;
            let Some(channel) = &mut self.port.channel else { return Ok(n) };
            if self.port.share.is_spent() {
                return Ok(n.max(1));
            }
            let mut done = (0, 0);
            let next = if stuck {
                Err(ConnectionError::protocol("an eventfd that is full and blocks"))
            } else if self.begun.is_some() {
                Ok(self.begun.take().map(|(m, begun)| {
                    done = begun;
                    m
                }))
            } else {
                match channel.request() {
                    Ok(None) if !self.negotiated && late(self.since) => {
                        Err(ConnectionError::Silent)
                    }
                    next => next,
                }
            };
            let handled = match next {
                Ok(Some(m)) => {
                    // Doorbells come before a later access, as posted writes do.
                    let at = now();
                    if self.poll_pages(at) && self.port.share.is_spent() {
                        self.begun = Some((m, done));
                        return Ok(n.max(1));
                    }
                    self.handle(at, m, done)
                }
                Ok(None) => return Ok(n),
                Err(gone) => Err(gone),
            };
            if let Err(gone) = handled {
                self.disconnect(now());
                return Err(gone);
            }
        }
        Ok(BURST)
    }

    /// Handles the doorbells in polled pages, for the share of a turn. Returns true if there was
    /// one.
    pub fn poll_pages(&mut self, at: Time) -> bool {
        let Some(pages) = &mut self.pages else { return false };
        if self.port.channel.is_none() || self.port.share.is_spent() {
            return false;
        }
        let (device, port) = (&mut self.device, &mut self.port);
        let handler = self.doorbell;
        let rung = pages.take(|r, v| {
            port.charge(Share::ACCESS);
            handler(device, port, at, r, v);
            !port.share.is_spent()
        });
        if rung {
            self.device.advance(&mut self.port, at);
        }
        rung
    }

    /// Returns true with polled pages and a client that can write them.
    pub fn polls(&self) -> bool {
        self.pages.is_some() && self.port.channel.is_some()
    }

    /// Advances the device to `at`.
    pub fn advance(&mut self, at: Time) {
        self.device.advance(&mut self.port, at);
    }

    /// Passes a frame from the wire to the device.
    pub fn receive(&mut self, at: Time, frame: &[u8]) -> RxVerdict {
        self.device.advance(&mut self.port, at);
        let taken = self.device.receive(&mut self.port, at, frame);
        self.device.advance(&mut self.port, at);
        taken
    }

    // ---- messages ----

    /// Handles a message of which so much was done in earlier turns.
    fn handle(&mut self, at: Time, mut m: Message, done: Progress) -> Result<(), ConnectionError> {
        self.port.charge(MESSAGE * (1 + m.fds.len() as u64));
        let fds = std::mem::take(&mut m.fds);
        let request = parse(m.header.command.get(), &m.body);
        let is_version = matches!(request, Ok(Request::Version(..)));
        if is_version == self.negotiated {
            return Err(ConnectionError::protocol("the version comes first, and once"));
        }
        let (files, eventfds) = match request {
            Ok(Request::Map(_)) => (all(fds, Received::memory)?, Vec::new()),
            Ok(Request::SetIrqs(..)) => (Vec::new(), all(fds, Received::eventfd)?),
            _ => Default::default(),
        };
        let mut body = std::mem::take(&mut self.scratch);
        body.clear();
        let answer = match request {
            Ok(Request::Version(v, json)) => {
                self.version(v, json, &mut body)?;
                Ok(Answer::Body)
            }
            Ok(request) => self.request(at, request, done, files, eventfds, &mut body),
            Err(errno) => Err(errno),
        };
        if let Ok(Answer::Later(done)) = answer {
            (self.scratch, self.begun) = (body, Some((m, done)));
            return Ok(());
        }
        if m.header.flags.get() & flag::NO_REPLY == 0
            && let Some(channel) = &mut self.port.channel
        {
            let fd = match answer {
                Ok(Answer::Region(index)) => {
                    self.pages.as_ref().filter(|p| p.is_in(index)).map(Pages::fd)
                }
                _ => None,
            };
            channel.reply(&m.header, answer.map(|_| &body[..]), fd)?;
        }
        self.scratch = body;
        if let Some(channel) = &mut self.port.channel {
            channel.recycle(m);
        }
        Ok(())
    }

    fn version(
        &mut self,
        v: Version,
        json: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), ConnectionError> {
        if v.major.get() != VERSION.0 {
            let why = format!("version {}.{}; allowed is {}.x", v.major, v.minor, VERSION.0);
            return Err(ConnectionError::Protocol(why));
        }
        let max = number(json, "max_data_xfer_size");
        if let (Some(max), Some(channel)) = (max, &mut self.port.channel) {
            channel.max_data = u32::try_from(max).unwrap_or(MAX_DATA).clamp(4096, MAX_DATA);
        }
        self.negotiated = true;
        let minor = v.minor.get().min(VERSION.1);
        out.extend_from_slice(Version { major: VERSION.0.into(), minor: minor.into() }.as_bytes());
        let maps = self.port.max_maps;
        let limits = format!(
            r#""max_msg_fds":{MAX_FDS},"max_data_xfer_size":{MAX_DATA},"max_dma_maps":{maps}"#
        );
        let pages = r#""pgsizes":4096,"write_multiple":true"#;
        out.extend_from_slice(format!(r#"{{"capabilities":{{{limits},{pages}}}}}"#).as_bytes());
        out.push(0);
        Ok(())
    }

    fn request(
        &mut self,
        at: Time,
        request: Request<'_>,
        done: Progress,
        mut files: Vec<Reaped<File>>,
        eventfds: Vec<EventFd>,
        out: &mut Vec<u8>,
    ) -> Result<Answer, Errno> {
        match request {
            Request::Version(..) => return Err(libc::EINVAL),
            Request::Map(m) => self.map(&m, &mut files)?,
            Request::Unmap(m) => {
                self.unmap(&m)?;
                out.extend_from_slice(m.as_bytes());
            }
            Request::DeviceInfo => {
                let flags = (DEVICE_RESETS | DEVICE_PCI).into();
                let (argsz, regions, irqs) = (16.into(), REGIONS.into(), KINDS.into());
                out.extend_from_slice(DeviceInfo { argsz, flags, regions, irqs }.as_bytes());
            }
            Request::RegionInfo(argsz, index) => return self.region_info(argsz, index, out),
            Request::RegionIoFds(index) => {
                fail_if(index >= REGIONS, libc::EINVAL)?;
                // No ioeventfds: they lose the written value, and pages can be polled.
                out.extend_from_slice(IrqInfo::new(index, 0, 0).as_bytes());
            }
            Request::IrqInfo(index) => {
                fail_if(index >= KINDS || index == ERRORS, libc::EINVAL)?;
                let (flags, count) = self.port.irqs.info(index);
                out.extend_from_slice(IrqInfo::new(index, flags, count).as_bytes());
            }
            Request::SetIrqs(set, data) => self.port.irqs.set(&set, data, eventfds)?,
            Request::Read(place) => {
                out.extend_from_slice(place.as_bytes());
                let start = out.len();
                out.resize(start + place.count.get() as usize, 0);
                self.read(at, place.region.get(), place.offset.get(), &mut out[start..])?;
            }
            Request::Write(place, data) => {
                let done = self.write(at, place.region.get(), place.offset.get(), data, done.1)?;
                if done < data.len() {
                    return Ok(Answer::Later((0, done)));
                }
                out.extend_from_slice(place.as_bytes());
            }
            Request::WriteMulti(writes) => {
                let all = writes
                    .iter()
                    .map(|w| (w.region.get(), w.offset.get(), &w.data[..w.count.get() as usize]));
                if let Some(done) = self.write_all(at, all, done)? {
                    return Ok(Answer::Later(done));
                }
                out.extend_from_slice(U64::new(writes.len() as u64).as_bytes());
            }
            Request::Reset => self.reset(at),
        }
        Ok(Answer::Body)
    }

    fn map(&mut self, m: &Map, files: &mut Vec<Reaped<File>>) -> Result<(), Errno> {
        let flags = m.flags.get();
        fail_if(flags & !3 != 0 || files.len() > 1, libc::EINVAL)?;
        let access = Access { read: flags & 1 != 0, write: flags & 2 != 0 };
        self.port.map(m.address.get(), m.size.get(), access, files.pop(), m.offset.get())
    }

    fn unmap(&mut self, m: &Unmap) -> Result<(), Errno> {
        match m.flags.get() {
            UNMAP_ALL if m.address.get() == 0 && m.size.get() == 0 => {
                self.port.unmap_all();
                Ok(())
            }
            0 => self.port.unmap(m.address.get(), m.size.get()),
            UNMAP_DIRTY => Err(libc::ENOTSUP),
            _ => Err(libc::EINVAL),
        }
    }

    fn region_info(&self, argsz: u32, index: u32, out: &mut Vec<u8>) -> Result<Answer, Errno> {
        fail_if(index >= REGIONS, libc::EINVAL)?;
        let size = self.identity.region_size(index);
        let mut info = RegionInfo {
            argsz: (size_of::<RegionInfo>() as u32).into(),
            flags: if size > 0 { REGION_READ | REGION_WRITE } else { 0 }.into(),
            index: index.into(),
            size: size.into(),
            ..RegionInfo::default()
        };
        let Some(pages) = self.pages.as_ref().filter(|p| p.is_in(index)) else {
            out.extend_from_slice(info.as_bytes());
            return Ok(Answer::Body);
        };
        let (offset, len) = pages.area();
        info.argsz = ((size_of::<RegionInfo>() + size_of::<Sparse>()) as u32).into();
        info.flags = (REGION_READ | REGION_WRITE | REGION_MMAP | REGION_CAPS).into();
        let sparse = Sparse {
            id: CAP_SPARSE.0.into(),
            version: CAP_SPARSE.1.into(),
            areas: 1.into(),
            offset: offset.into(),
            size: len.into(),
            ..Sparse::default()
        };
        // A client without room for the capability asks again with room. QEMU expects the offset
        // even then.
        info.cap_offset = (size_of::<RegionInfo>() as u32).into();
        out.extend_from_slice(info.as_bytes());
        if argsz >= info.argsz.get() {
            out.extend_from_slice(sparse.as_bytes());
        }
        Ok(Answer::Region(index))
    }

    // ---- regions ----

    /// Checks an access to a BAR.
    fn bar(&self, region: u32, offset: u64, len: usize) -> Result<(), Errno> {
        let size = if region < 6 { self.identity.region_size(region) } else { 0 };
        fail_if(offset.checked_add(len as u64).is_none_or(|end| end > size), libc::EINVAL)?;
        if len > MAX_BAR_ACCESS as usize { Err(libc::E2BIG) } else { Ok(()) }
    }

    fn read(&mut self, at: Time, region: u32, offset: u64, out: &mut [u8]) -> Result<(), Errno> {
        if region == CONFIG_REGION {
            let range = self.config.inside(offset, out.len()).ok_or(libc::EINVAL)?;
            self.config.read(range, self.port.irqs.high, out);
            return Ok(());
        }
        self.bar(region, offset, out.len())?;
        self.device.advance(&mut self.port, at);
        let mut done = 0;
        while done < out.len() {
            self.port.charge(Share::ACCESS);
            let here = offset + done as u64;
            let width = width(here as usize, out.len() - done);
            if !self.identity.is_msix(region, here) {
                let r = Reg { region: region as u8, offset: here as u32 };
                let v = self.device.mmio_read(&mut self.port, at, r, width as u8);
                self.port.observer.crossed(at, Crossing::RegisterRead(r, width as u8, v));
                out[done..done + width].copy_from_slice(&v.to_le_bytes()[..width]);
            }
            done += width;
        }
        self.device.advance(&mut self.port, at);
        Ok(())
    }

    /// Makes writes, from where an earlier turn has left them, one at the least. Returns where the
    /// share of this turn was spent, if they are not done.
    fn write_all<'a>(
        &mut self,
        at: Time,
        writes: impl Iterator<Item = (u32, u64, &'a [u8])>,
        (first, mut start): Progress,
    ) -> Result<Option<Progress>, Errno> {
        for (n, (region, offset, data)) in writes.enumerate().skip(first) {
            if n > first && self.port.share.is_spent() {
                return Ok(Some((n, start)));
            }
            let done = self.write(at, region, offset, data, start)?;
            if done < data.len() {
                return Ok(Some((n, done)));
            }
            start = 0;
        }
        Ok(None)
    }

    /// Makes a write from byte `done` of it on, one access at the least. Returns how many bytes are
    /// done when the share of the turn is spent, if not all.
    fn write(
        &mut self,
        at: Time,
        region: u32,
        offset: u64,
        data: &[u8],
        mut done: usize,
    ) -> Result<usize, Errno> {
        self.port.charge(Share::ACCESS);
        if region == CONFIG_REGION {
            let range = self.config.inside(offset, data.len()).ok_or(libc::EINVAL)?;
            if self.config.write(range.start, data) {
                self.reset(at);
            }
            self.apply_config();
            return Ok(data.len());
        }
        self.bar(region, offset, data.len())?;
        while done < data.len() {
            self.port.charge(Share::ACCESS);
            let here = offset + done as u64;
            let width = width(here as usize, data.len() - done);
            if !self.identity.is_msix(region, here) {
                let r = Reg { region: region as u8, offset: here as u32 };
                let mut v = [0; 8];
                v[..width].copy_from_slice(&data[done..done + width]);
                let v = u64::from_le_bytes(v);
                let written = Crossing::RegisterWrite(r, width as u8, v, true);
                self.port.observer.crossed(at, written);
                self.device.mmio_write(&mut self.port, at, r, width as u8, v);
            }
            done += width;
            if done < data.len() && self.port.share.is_spent() {
                break;
            }
        }
        self.device.advance(&mut self.port, at);
        Ok(done)
    }
}

impl<D: EventSource, W> EventSource for Function<D, W> {
    fn next_due(&self) -> Option<Time> {
        self.device.next_due()
    }
}

/// Returns descriptors as those of one kind, which each is.
fn all<T>(fds: Vec<Received>, kind: fn(Received) -> io::Result<T>) -> io::Result<Vec<T>> {
    fds.into_iter().map(kind).collect()
}

/// Returns the number after `"key":` in JSON text. The server needs no other part of a client's
/// capabilities.
fn number(json: &[u8], key: &str) -> Option<u64> {
    let text = std::str::from_utf8(json).ok()?;
    let (_, after) = text.split_once(&format!("\"{key}\""))?;
    let digits = after.trim_start().strip_prefix(':')?.trim_start();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok()
}

#[cfg(test)]
mod tests;
