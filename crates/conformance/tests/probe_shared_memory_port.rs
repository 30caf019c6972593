//! A device on memory that somebody else writes too, as under vfio-user.
//!
//! It holds the seam's device side against a port that has no virtual time: a
//! toy NIC, compiled against [`SharedPort`], is driven by a guest that has its own
//! mapping of the same memory and nothing else. What is checked is the order in
//! which that guest sees things, and what becomes of addresses out of reach.

use doorbell_hal::{
    Device, DmaFault, DmaFaultKind, DropReason as Dropped, EventSource, Iova, Port, Reg, RxVerdict,
    Span, Time,
};
use doorbell_host_io::shared::{
    Access, EventFd, EventFds, FrameSink, Interrupts, SharedPort, Window, memfd,
};
use std::cell::RefCell;
use std::fs::File;
use std::rc::Rc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

// ---- the device ----

/// Where the ring is; written as one 64-bit access.
const RING: Reg = Reg::at(0x00);
/// How many descriptors it has.
const SIZE: Reg = Reg::at(0x08);
/// The doorbell: one past the last descriptor to send.
const TAIL: Reg = Reg::at(0x0c);
/// What happened; reading clears it and lowers the line.
const CAUSE: Reg = Reg::at(0x10);

const CAUSE_DONE: u32 = 1;
const CAUSE_FAULT: u32 = 2;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Descriptor {
    address: U64,
    len: U32,
    done: U32,
}
const DESCRIPTOR: u64 = size_of::<Descriptor>() as u64;
const DONE_AT: u64 = 12;
const _: () = assert!(DESCRIPTOR == 16);

/// How long it takes from the doorbell, or the last packet, to a packet's end.
const PACKET: Span = Span::from_ns(100);

/// A NIC that copies frames from a ring of `{address, len, done}` to the wire,
/// one at a time, and raises its line (or vector 0) after each.
#[derive(Default)]
struct Toy {
    ring: u64,
    size: u32,
    head: u32,
    tail: u32,
    cause: u32,
    msi: bool,
    busy: Option<Time>,
    fault: Option<DmaFault>,
}

impl Toy {
    /// Fetch descriptor, fetch data, emit, write back.
    fn send<P: Port>(&mut self, p: &mut P, at: Time) -> Result<Time, DmaFault> {
        let descriptor = Iova(self.ring) + u64::from(self.head) * DESCRIPTOR;
        let mut bytes = [0; DESCRIPTOR as usize];
        let at = p.read(at, descriptor, &mut bytes)?;
        let d = Descriptor::read_from_bytes(&bytes).unwrap();
        let mut frame = vec![0; d.len.get().min(9000) as usize];
        let at = p.read(at, Iova(d.address.get()), &mut frame)?;
        p.emit(at, &frame);
        p.write(at, descriptor + DONE_AT, &1u32.to_le_bytes())
    }

    fn raise<P: Port>(&mut self, p: &mut P, at: Time, cause: u32) {
        self.cause |= cause;
        if self.msi { p.raise_msi(at, 0) } else { p.set_irq_line(at, 0, true) }
    }
}

impl EventSource for Toy {
    fn next_due(&self) -> Option<Time> {
        self.busy
    }
}

impl<P: Port> Device<P> for Toy {
    fn mmio_read(&mut self, p: &mut P, at: Time, r: Reg, _: u8) -> u64 {
        match r {
            CAUSE => {
                if !self.msi {
                    p.set_irq_line(at, 0, false);
                }
                std::mem::take(&mut self.cause).into()
            }
            _ => 0,
        }
    }

    fn mmio_write(&mut self, _: &mut P, at: Time, r: Reg, _: u8, v: u64) {
        match r {
            RING => self.ring = v,
            SIZE => (self.size, self.head, self.tail) = (v as u32, 0, 0),
            TAIL if (v as u32) < self.size => {
                self.tail = v as u32;
                if self.tail != self.head && self.busy.is_none() {
                    self.busy = Some(at + PACKET);
                }
            }
            _ => {}
        }
    }

    fn receive(&mut self, _: &mut P, _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Dropped(Dropped::Off)
    }

    fn advance(&mut self, p: &mut P, until: Time) {
        while let Some(at) = self.busy.filter(|at| *at <= until) {
            match self.send(p, at) {
                Ok(at) => {
                    self.head = (self.head + 1) % self.size;
                    self.busy = (self.head != self.tail).then(|| at + PACKET);
                    self.raise(p, at, CAUSE_DONE);
                }
                Err(fault) => {
                    // It stops, as hardware does after a master abort, until it is reset.
                    self.busy = None;
                    self.fault = Some(fault);
                    self.raise(p, at, CAUSE_FAULT);
                }
            }
        }
    }

    fn reset(&mut self, p: &mut P, at: Time) {
        *self = Toy { msi: self.msi, ..Toy::default() };
        p.set_irq_line(at, 0, false);
    }
}

// ---- the guest ----

/// Guest memory: 64 KiB that the device sees at this address.
const GUEST: u64 = 0x4000_0000;
const BYTES: usize = 0x1_0000;
const RING_AT: usize = 0x1000;
const DATA_AT: usize = 0x8000;

/// The guest's own view of its memory.
struct Guest(Window);

impl Guest {
    fn new(file: &File) -> Guest {
        Guest(Window::map(file, 0, BYTES, true).unwrap())
    }

    fn post(&self, slot: usize, address: u64, len: u32) {
        let d = Descriptor { address: address.into(), len: len.into(), done: 0.into() };
        self.0.write(RING_AT + slot * DESCRIPTOR as usize, d.as_bytes());
    }

    fn done(&self, slot: usize) -> bool {
        let mut word = [0; 4];
        self.0.read(RING_AT + slot * DESCRIPTOR as usize + DONE_AT as usize, &mut word);
        word == 1u32.to_le_bytes()
    }

    /// Puts `frame` at `at` and posts it.
    fn frame(&self, slot: usize, at: usize, frame: &[u8]) {
        self.0.write(at, frame);
        self.post(slot, GUEST + at as u64, frame.len() as u32);
    }
}

fn memory() -> File {
    memfd(c"guest", BYTES as u64).unwrap()
}

/// A port to all of the guest's memory, and a toy with its ring there.
fn attach<I: Interrupts, W: FrameSink>(
    file: &File,
    interrupts: I,
    wire: W,
) -> (Toy, SharedPort<I, W>) {
    let mut port = SharedPort::new(interrupts, wire);
    port.memory
        .map(Iova(GUEST), Window::map(file, 0, BYTES, true).unwrap(), Access::READ_WRITE)
        .unwrap();
    let mut toy = Toy::default();
    write(&mut toy, &mut port, RING, GUEST + RING_AT as u64);
    write(&mut toy, &mut port, SIZE, 16);
    (toy, port)
}

fn write<P: Port>(toy: &mut Toy, port: &mut P, r: Reg, v: u64) {
    toy.mmio_write(port, Time::ZERO, r, if r == RING { 8 } else { 4 }, v);
}

/// What a server does after each access: everything that is due, at once.
fn settle<P: Port>(toy: &mut Toy, port: &mut P) {
    while let Some(at) = toy.next_due() {
        toy.advance(port, at);
    }
}

fn pattern(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 3 + n * 11 + 1) as u8).collect()
}

// ---- what the guest sees ----

#[test]
fn frames_leave_in_ring_order_and_are_done() {
    let file = memory();
    let guest = Guest::new(&file);
    let (mut toy, mut port) = attach(&file, EventFds::new(0), Vec::new());
    let frames: Vec<_> = (0..5).map(|n| pattern(n, 60 + 200 * n)).collect();
    for (n, frame) in frames.iter().enumerate() {
        guest.frame(n, DATA_AT + 1024 * n, frame);
    }
    write(&mut toy, &mut port, TAIL, 5);
    assert!(!guest.done(0) && port.wire.is_empty(), "a doorbell alone has no effect outside");
    settle(&mut toy, &mut port);
    assert_eq!(port.wire, frames);
    assert!((0..5).all(|n| guest.done(n)) && !guest.done(5));
}

#[test]
fn what_is_not_due_yet_has_not_happened() {
    let file = memory();
    let guest = Guest::new(&file);
    let (mut toy, mut port) = attach(&file, EventFds::new(0), Vec::new());
    guest.frame(0, DATA_AT, &pattern(0, 60));
    guest.frame(1, DATA_AT + 1024, &pattern(1, 60));
    write(&mut toy, &mut port, TAIL, 2);
    toy.advance(&mut port, Time::ZERO + Span::from_ns(99));
    assert!(!guest.done(0));
    toy.advance(&mut port, Time::ZERO + Span::from_ns(100));
    assert!(guest.done(0) && !guest.done(1));
    toy.advance(&mut port, Time::ZERO + Span::from_ns(200));
    assert!(guest.done(1));
}

/// What happened, in order, and what the guest found in its memory then.
#[derive(PartialEq, Debug)]
enum Seen {
    Frame { done: bool },
    Line { done: bool },
}

struct Watch {
    guest: Guest,
    seen: Rc<RefCell<Vec<Seen>>>,
}

impl Interrupts for Watch {
    fn set_irq_line(&mut self, _: u16, high: bool) {
        if high {
            self.seen.borrow_mut().push(Seen::Line { done: self.guest.done(0) });
        }
    }
    fn message(&mut self, _: u16) {}
}

impl FrameSink for Watch {
    fn frame(&mut self, _: &[u8]) {
        self.seen.borrow_mut().push(Seen::Frame { done: self.guest.done(0) });
    }
}

#[test]
fn the_done_flag_comes_after_the_frame_and_before_the_interrupt() {
    let file = memory();
    let seen = Rc::new(RefCell::new(Vec::new()));
    let watch = || Watch { guest: Guest::new(&file), seen: Rc::clone(&seen) };
    let (mut toy, mut port) = attach(&file, watch(), watch());
    Guest::new(&file).frame(0, DATA_AT, &pattern(0, 60));
    write(&mut toy, &mut port, TAIL, 1);
    settle(&mut toy, &mut port);
    assert_eq!(*seen.borrow(), [Seen::Frame { done: false }, Seen::Line { done: true }]);
}

#[test]
fn the_line_is_a_level_that_reading_the_cause_lowers() {
    let file = memory();
    let guest = Guest::new(&file);
    let (mut toy, mut port) = attach(&file, EventFds::new(0), Vec::new());
    let line = EventFd::new().unwrap();
    port.interrupts.connect_line(Some(line.try_clone().unwrap()));
    guest.frame(0, DATA_AT, &pattern(0, 60));
    guest.frame(1, DATA_AT + 1024, &pattern(1, 60));
    write(&mut toy, &mut port, TAIL, 2);
    settle(&mut toy, &mut port);
    assert_eq!(line.take(), 1, "two causes, one rise");
    port.interrupts.unmask_line();
    assert_eq!(line.take(), 1, "unmasked while still high");
    assert_eq!(toy.mmio_read(&mut port, Time::ZERO, CAUSE, 4), CAUSE_DONE.into());
    port.interrupts.unmask_line();
    assert_eq!(line.take(), 0);
}

#[test]
fn a_message_is_sent_for_each_packet() {
    let file = memory();
    let guest = Guest::new(&file);
    let (mut toy, mut port) = attach(&file, EventFds::new(1), Vec::new());
    toy.msi = true;
    let vector = EventFd::new().unwrap();
    assert!(port.interrupts.connect(0, Some(vector.try_clone().unwrap())));
    for n in 0..3 {
        guest.frame(n, DATA_AT + 1024 * n, &pattern(n, 60));
    }
    write(&mut toy, &mut port, TAIL, 3);
    settle(&mut toy, &mut port);
    assert_eq!(vector.take(), 3);
}

#[test]
fn a_frame_may_lie_across_two_maps_of_different_files() {
    let file = memory();
    let other = memfd(c"more", 0x1000).unwrap();
    let guest = Guest::new(&file);
    let (mut toy, mut port) = attach(&file, EventFds::new(0), Vec::new());
    let window = Window::map(&other, 0, 0x1000, false).unwrap();
    port.memory.map(Iova(GUEST + BYTES as u64), window, Access::READ).unwrap();
    let frame = pattern(0, 1500);
    guest.0.write(BYTES - 700, &frame[..700]);
    Window::map(&other, 0, 0x1000, true).unwrap().write(0, &frame[700..]);
    guest.post(0, GUEST + BYTES as u64 - 700, 1500);
    write(&mut toy, &mut port, TAIL, 1);
    settle(&mut toy, &mut port);
    assert_eq!(port.wire, [frame]);
}

// ---- what is out of reach ----

/// Sends one frame whose descriptor says this; gives the fault, if any.
fn send_from(
    address: u64,
    len: u32,
    prepare: impl FnOnce(&mut SharedPort<EventFds, Vec<Vec<u8>>>),
) -> Option<DmaFault> {
    let file = memory();
    let guest = Guest::new(&file);
    let (mut toy, mut port) = attach(&file, EventFds::new(0), Vec::new());
    prepare(&mut port);
    guest.post(0, address, len);
    write(&mut toy, &mut port, TAIL, 1);
    settle(&mut toy, &mut port);
    if let Some(fault) = toy.fault {
        assert!(!guest.done(0) && port.wire.is_empty(), "a fault leaves nothing behind: {fault:?}");
        assert_eq!(toy.mmio_read(&mut port, Time::ZERO, CAUSE, 4), CAUSE_FAULT.into());
    }
    toy.fault
}

fn unmapped(at: u64) -> Option<DmaFault> {
    Some(DmaFault { at: Iova(at), kind: DmaFaultKind::Unmapped })
}

const END: u64 = GUEST + BYTES as u64;

#[test]
fn data_out_of_reach_is_a_fault_at_its_first_byte_out_of_reach() {
    assert_eq!(send_from(END - 60, 60, |_| {}), None);
    assert_eq!(send_from(END - 60, 61, |_| {}), unmapped(END));
    assert_eq!(send_from(0, 60, |_| {}), unmapped(0));
    assert_eq!(send_from(u64::MAX - 3, 60, |_| {}), unmapped(u64::MAX - 3));
}

#[test]
fn memory_for_reception_cannot_be_sent() {
    let fault = send_from(END, 60, |port| {
        let window = Window::map(&memory(), 0, 0x1000, true).unwrap();
        port.memory.map(Iova(END), window, Access::WRITE).unwrap();
    });
    assert_eq!(fault, Some(DmaFault { at: Iova(END), kind: DmaFaultKind::Direction }));
}

#[test]
fn a_descriptor_in_read_only_memory_is_sent_but_cannot_be_done() {
    let file = memory();
    let guest = Guest::new(&file);
    let mut port = SharedPort::new(EventFds::new(0), Vec::new());
    let window = Window::map(&file, 0, BYTES, false).unwrap();
    port.memory.map(Iova(GUEST), window, Access::READ).unwrap();
    let mut toy = Toy::default();
    write(&mut toy, &mut port, RING, GUEST + RING_AT as u64);
    write(&mut toy, &mut port, SIZE, 16);
    guest.frame(0, DATA_AT, &pattern(0, 60));
    write(&mut toy, &mut port, TAIL, 1);
    settle(&mut toy, &mut port);
    let at = Iova(GUEST + RING_AT as u64 + DONE_AT);
    assert_eq!(toy.fault, Some(DmaFault { at, kind: DmaFaultKind::Direction }));
    assert!(!guest.done(0));
    assert_eq!(port.wire.len(), 1);
}

#[test]
fn memory_taken_back_between_doorbell_and_fetch_is_a_fault() {
    let file = memory();
    let guest = Guest::new(&file);
    let (mut toy, mut port) = attach(&file, EventFds::new(0), Vec::new());
    guest.frame(0, DATA_AT, &pattern(0, 60));
    write(&mut toy, &mut port, TAIL, 1);
    assert_eq!(port.memory.unmap(Iova(GUEST), BYTES as u64), Ok(1));
    settle(&mut toy, &mut port);
    assert_eq!(toy.fault, unmapped(GUEST + RING_AT as u64));
    assert!(!guest.done(0) && port.wire.is_empty());
}

// ---- a guest that really runs meanwhile ----

/// The guest is another thread that sees nothing but memory and its interrupt.
/// It overwrites a frame the moment it is done, so a flag seen too early, or data
/// fetched too late, changes what leaves.
#[test]
fn a_guest_that_reuses_a_buffer_once_it_is_done_changes_no_frame() {
    const FRAMES: usize = 2000;
    let file = memory();
    let guest = Guest::new(&file);
    let (mut toy, mut port) = attach(&file, EventFds::new(0), Vec::new());
    let (doorbell, doorbells) = mpsc::channel();
    let runs = thread::spawn(move || {
        for n in 0..FRAMES {
            let slot = n % 16;
            guest.frame(slot, DATA_AT, &pattern(n, 64 + n % 1400));
            doorbell.send(((n + 1) % 16) as u64).unwrap();
            let asked = Instant::now();
            while !guest.done(slot) {
                assert!(asked.elapsed() < Duration::from_secs(20), "frame {n} is never done");
                thread::yield_now();
            }
            guest.0.write(DATA_AT, &[0xdd; 1500]);
        }
    });
    for tail in doorbells {
        write(&mut toy, &mut port, TAIL, tail);
        settle(&mut toy, &mut port);
    }
    runs.join().unwrap();
    assert_eq!(port.wire.len(), FRAMES);
    for (n, frame) in port.wire.iter().enumerate() {
        assert_eq!(*frame, pattern(n, 64 + n % 1400), "frame {n}");
    }
}
