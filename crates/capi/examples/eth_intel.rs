//! `eth-intel`, as it is, as the command:
//! `cargo run -p doorbell-capi --example eth_intel -- run eth-intel-send --order program`
//!
//! The crate reaches its card through pointers: registers through `mmio_api`, memory through
//! `dma_api`. Both are given the machine's own here, as a driver in C with `DB_POINTERS` is.
#![allow(unsafe_code, reason = "the interfaces of this driver, and of C, are pointers")]

use ax_sync::interface::{AcquireResult, ContextState, LockMetadata, SpinOps};
use dma_api::{
    ContiguousBufferPool, DeviceDma, DmaAddr, DmaAllocHandle, DmaCoherency, DmaConstraints,
    DmaDeviceInfo, DmaDirection, DmaDomainId, DmaError, DmaMapHandle, DmaOp,
};
use doorbell_c_driver::{
    Db, DbDriver, DbFrame, VERSION, db_buffer, db_coherent, db_current, db_delay_ns, db_get,
    db_now_ns, db_pointer, db_put, db_received, db_release, db_sent, db_window, take,
};
use mmio_api::{MapError, MmioAddr, MmioOp, MmioRaw};
use rdif_eth::{
    DmaBuffer, IRxQueue, ITxQueue, NetDevice, NetHardIrqEndpoint, NetHardIrqResult,
    NetPollIrqControl, NetRearmResult,
};
use std::alloc::Layout;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::num::NonZeroUsize;
use std::panic::Location;
use std::process::ExitCode;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const REGISTERS: usize = 128 << 10;
const BUFFER: usize = 2048;
/// Buffers of each way.
const BUFFERS: usize = 255;

/// Memory of the machine that this thread runs, with the handles of its areas.
struct Machine(Mutex<BTreeMap<usize, u32>>);

static MACHINE: Machine = Machine(Mutex::new(BTreeMap::new()));

impl Machine {
    fn handle(&self, at: NonNull<u8>) -> u32 {
        self.0.lock().unwrap().get(&at.as_ptr().addr()).copied().unwrap_or(0)
    }

    fn area(&self, layout: Layout) -> Option<DmaAllocHandle> {
        let len = layout.size().next_multiple_of(4096) as u32;
        // SAFETY: This thread is in a call of the driver, whose machine it is.
        let (mem, at) = unsafe {
            let mem = db_coherent(db_current(), len, 4096);
            (mem, db_pointer(db_current(), mem))
        };
        let at = NonNull::new(at.cast::<u8>())?;
        self.0.lock().unwrap().insert(at.as_ptr().addr(), mem);
        // SAFETY: The area is as long, and lies at the same address for both.
        Some(unsafe {
            DmaAllocHandle::new(at, at, DmaAddr::from(at.as_ptr().addr() as u64), layout)
        })
    }

    fn release(&self, area: &DmaAllocHandle) {
        let mem = self.0.lock().unwrap().remove(&area.as_ptr().as_ptr().addr());
        // SAFETY: As in `area`.
        mem.into_iter().for_each(|mem| _ = unsafe { db_release(db_current(), mem) });
    }
}

impl DmaOp for Machine {
    fn page_size(&self) -> usize {
        4096
    }
    unsafe fn alloc_contiguous(&self, _: DmaConstraints, l: Layout) -> Option<DmaAllocHandle> {
        self.area(l)
    }
    unsafe fn dealloc_contiguous(&self, area: DmaAllocHandle) {
        self.release(&area);
    }
    unsafe fn alloc_coherent(&self, _: DmaConstraints, l: Layout) -> Option<DmaAllocHandle> {
        self.area(l)
    }
    unsafe fn dealloc_coherent(&self, area: DmaAllocHandle) -> Result<(), DmaError> {
        self.release(&area);
        Ok(())
    }
    unsafe fn map_streaming(
        &self,
        _: DmaConstraints,
        _: NonNull<u8>,
        _: NonZeroUsize,
        _: DmaDirection,
    ) -> Result<DmaMapHandle, DmaError> {
        Err(DmaError::NoMemory)
    }
    unsafe fn unmap_streaming(&self, _: DmaMapHandle) {}
}

impl MmioOp for Machine {
    fn ioremap(&self, at: MmioAddr, size: usize) -> Result<MmioRaw, MapError> {
        // SAFETY: As in `area`; the window has the length that the driver asks for.
        let window =
            NonNull::new(unsafe { db_window(db_current()) }.cast()).ok_or(MapError::Invalid)?;
        // SAFETY: As above.
        Ok(unsafe { MmioRaw::new(at, window, size) })
    }
    fn iounmap(&self, _: &MmioRaw) {}
}

/// The locks of the crate that has pools of buffers, which an operating system provides.
struct Locks;

#[ax_crate_interface::impl_interface]
impl SpinOps for Locks {
    fn acquire(
        locked: &AtomicBool,
        _metadata: &LockMetadata,
        _address: usize,
        _context: u8,
        _subclass: u32,
        _caller: &'static Location<'static>,
    ) -> ContextState {
        while locked.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        ContextState::new(0, 0)
    }
    fn try_acquire(
        locked: &AtomicBool,
        _metadata: &LockMetadata,
        _address: usize,
        _context: u8,
        _subclass: u32,
        _caller: &'static Location<'static>,
    ) -> AcquireResult {
        AcquireResult::new(!locked.swap(true, Ordering::Acquire), ContextState::new(0, 0))
    }
    fn release(locked: &AtomicBool, _address: usize, _context: u8, _state: ContextState) {
        locked.store(false, Ordering::Release);
    }
    fn force_release(locked: &AtomicBool, _address: usize, _context: u8) {
        locked.store(false, Ordering::Release);
    }
    fn is_locked(locked: &AtomicBool) -> bool {
        locked.load(Ordering::Relaxed)
    }
}

/// The driver with its queues.
struct Open {
    tx: Box<dyn ITxQueue>,
    rx: Box<dyn IRxQueue>,
    control: Box<dyn NetPollIrqControl>,
    interrupts: Vec<NetHardIrqEndpoint>,
    free: Vec<DmaBuffer>,
    /// Takes buffers back while it lives.
    _pool: ContiguousBufferPool,
}

fn opened(dma: &DeviceDma) -> Option<Open> {
    let card = eth_intel::E1000::new(0_u64, REGISTERS, dma.clone(), &MACHINE).ok()?;
    let mut parts = Box::new(card).into_parts().ok()?;
    let group = parts.poll_groups.pop()?;
    let layout = Layout::from_size_align(BUFFER, 4096).ok()?;
    let pool = dma.contiguous_buffer_pool(layout, DmaDirection::Bidirectional, 2 * BUFFERS);
    let mut buffers = (0..2 * BUFFERS).map(|_| DmaBuffer::new(pool.alloc().ok()?, BUFFER).ok());
    let mut rx = group.queues.rx;
    for _ in 0..BUFFERS - 1 {
        rx.submit(buffers.next()??).ok()?;
    }
    let free = buffers.by_ref().take(BUFFERS).collect::<Option<_>>()?;
    let (tx, mut control) = (group.queues.tx, group.irq_control);
    control.rearm_and_check(0).ok()?;
    Some(Open { tx, rx, control, interrupts: group.irq_endpoints, free, _pool: pool })
}

unsafe extern "C" fn open(db: *mut Db) -> *mut c_void {
    let limits = DmaConstraints::new(u32::MAX.into());
    let info = DmaDeviceInfo::new(DmaDomainId::Direct, DmaCoherency::Coherent, limits);
    match opened(&DeviceDma::new(info, &MACHINE)) {
        Some(own) => {
            // The crate does not wait for the link.
            // SAFETY: The machine is this call's.
            unsafe { db_delay_ns(db, 5_000_000_000) };
            Box::into_raw(Box::new(own)).cast()
        }
        None => std::ptr::null_mut(),
    }
}

unsafe extern "C" fn close(own: *mut c_void, _: *mut Db) {
    // SAFETY: It is the box of `open`.
    let mut own = unsafe { Box::from_raw(own.cast::<Open>()) };
    let _ = own.control.shutdown();
}

unsafe extern "C" fn send(own: *mut c_void, db: *mut Db, f: *const DbFrame, _: c_int) -> c_int {
    // SAFETY: It is the box of `open`, and a frame.
    let (own, f) = unsafe { (&mut *own.cast::<Open>(), &*f) };
    let mut bytes = [0; BUFFER];
    let len = f.len as usize;
    let Some(mut buffer) = own.free.pop().filter(|_| len <= BUFFER) else { return 1 };
    let place = MACHINE.handle(buffer.as_ptr());
    // SAFETY: The pointers are to `bytes`, which has room for the frame.
    unsafe {
        db_get(db, f.mem, f.start, bytes.as_mut_ptr().cast(), f.len);
        db_put(db, place, 0, bytes.as_ptr().cast(), f.len);
    }
    let sized = buffer.set_len(len).is_ok();
    match own.tx.submit(buffer) {
        Ok(()) if sized => {
            // SAFETY: The frame is copied.
            unsafe { db_sent(db, f.mem) };
            0
        }
        Ok(()) => 2,
        Err(e) => {
            own.free.push(e.into_buffer());
            1
        }
    }
}

unsafe extern "C" fn poll(own: *mut c_void, db: *mut Db, budget: u32) -> c_int {
    // SAFETY: It is the box of `open`.
    let own = unsafe { &mut *own.cast::<Open>() };
    while let Some(buffer) = own.tx.reclaim() {
        own.free.push(buffer);
    }
    for _ in 0..budget {
        let Some(done) = own.rx.reclaim() else { break };
        let (mut bytes, len) = ([0; BUFFER], done.packet_len.min(BUFFER) as u32);
        let from = MACHINE.handle(done.buffer.as_ptr());
        // SAFETY: The pointers are to `bytes`, which is long enough.
        unsafe {
            let to = db_buffer(db, len, 64);
            db_get(db, from, 0, bytes.as_mut_ptr().cast(), len);
            db_put(db, to, 0, bytes.as_ptr().cast(), len);
            db_received(db, to, 0, len, 0);
        }
        if let Err(e) = own.rx.submit(done.buffer) {
            own.free.push(e.into_buffer());
        }
    }
    // SAFETY: The machine is this call's.
    let now = unsafe { db_now_ns(db) };
    match own.control.rearm_and_check(now) {
        Ok(NetRearmResult::WorkPending(_)) => 1,
        _ => 0,
    }
}

unsafe extern "C" fn irq(own: *mut c_void, _: *mut Db, _: u32) -> c_int {
    // SAFETY: It is the box of `open`.
    let own = unsafe { &mut *own.cast::<Open>() };
    let handled = own.interrupts.iter_mut().map(|end| end.handle_irq());
    let scheduled = |r| matches!(r, NetHardIrqResult::Schedule(_));
    if handled.fold(false, |any, r| any | scheduled(r)) { 2 } else { 0 }
}

unsafe extern "C" fn stopped(own: *const c_void) -> c_int {
    // SAFETY: It is the box of `open`.
    let own = unsafe { &*own.cast::<Open>() };
    own.free.is_empty().into()
}

fn main() -> ExitCode {
    let driver = DbDriver {
        size: size_of::<DbDriver>(),
        version: VERSION,
        name: c"eth-intel".as_ptr(),
        card: c"82540em".as_ptr(),
        in_flight: BUFFERS as u32,
        // DB_POINTERS.
        flags: 1,
        open: Some(open),
        close: Some(close),
        send: Some(send),
        poll: Some(poll),
        irq: Some(irq),
        stopped: Some(stopped),
        alarm: None,
    };
    // SAFETY: The driver and its strings live as long as the call.
    match unsafe { take(&raw const driver, None) } {
        Ok(registry) => doorbell::main_with(registry),
        Err(why) => {
            eprintln!("eth_intel: {why}");
            ExitCode::from(2)
        }
    }
}
