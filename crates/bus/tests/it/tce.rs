//! A machine whose device addresses go through a translation table.

use doorbell_bus::pci::{Rules, Settings};
use doorbell_bus::tce::{Prices, Table, Window};
use doorbell_bus::{Bus, Costs, Machine, Mapping, Pci, Platform, ProtectionGranularity, pci};
use doorbell_hal::{
    Alignment, Direction, DmaFault, DmaFaultKind, Host, Iova, MapError, MapFault, Port, Span, Time,
};
use doorbell_testkit::NoDevice;

const US: Prices = Prices {
    put: Span::from_us(1),
    put_indirect: Span::from_us(2),
    stuff: Span::from_us(3),
    entry: Span::ZERO,
};

fn machine(pages: u32, multi: bool, guard: ProtectionGranularity) -> Machine<Pci, NoDevice> {
    let table = Table::new(Window { base: 0x8000_0000, pages, multi, prices: US });
    let platform =
        Platform::new(1 << 32, 1 << 20, guard).with_mapping(Mapping::Tce(Box::new(table)));
    let none = pci::Latencies { cpu: Span::ZERO, memory: Span::from_ns(100), register: Span::ZERO };
    let bus = Pci::new(platform, Rules::new(Settings::POWER4).unwrap(), none, 0xC000_0000);
    Machine::new(bus, NoDevice, Costs::FREE, 1)
}

/// Across a page, from 0xE00 of the first.
const ACROSS: Alignment = Alignment { align: 8192, offset: 0xE00 };

#[test]
fn a_device_finds_a_buffer_by_its_bus_address_alone() {
    let mut m = machine(64, false, ProtectionGranularity::Byte);
    let b = m.buffer(1514, ACROSS).unwrap();
    let physical = b.addr();
    m.bytes_mut(&b, 0..1514, |bytes| {
        bytes.iter_mut().zip(0..).for_each(|(b, i): (&mut u8, u32)| *b = i as u8);
    });
    let mapped = m.map(b, 0..1514, Direction::ToDevice).unwrap();
    assert_eq!(mapped.iova().0, 0x8000_0E00);
    let mut into = [0; 1514];
    m.bus.read(Time::ZERO, mapped.iova(), &mut into).unwrap();
    assert!(into.iter().zip(0u32..).all(|(b, i)| *b == i as u8));
    let fault = |at, kind| Err(DmaFault { at, kind });
    assert_eq!(
        m.bus.read(Time::ZERO, Iova(physical), &mut [0; 4]),
        fault(Iova(physical), DmaFaultKind::Unmapped)
    );
    // The guard behind the table counts bytes, and speaks of the device's address.
    let past = mapped.iova() + 1514;
    assert_eq!(
        m.bus.read(Time::ZERO, mapped.iova(), &mut [0; 1515]),
        fault(past, DmaFaultKind::Unmapped)
    );
    assert_eq!(
        m.bus.write(Time::ZERO, mapped.iova(), &[0; 4]),
        fault(mapped.iova(), DmaFaultKind::Direction)
    );
    let at = mapped.iova();
    let b = m.unmap(mapped);
    assert_eq!(m.bus.read(Time::ZERO, at, &mut [0; 4]), fault(at, DmaFaultKind::Unmapped));
    m.release(b);
    assert_eq!(m.bus.platform().memory.mapped(), (0, 0));
    assert_eq!(m.bus.platform().live_entries(), 0);
}

#[test]
fn posted_writes_across_a_page_arrive_whole_and_the_device_reads_its_own() {
    let mut m = machine(64, true, ProtectionGranularity::Byte);
    let b = m.buffer(1514, ACROSS).unwrap();
    let mapped = m.map(b, 0..1514, Direction::FromDevice).unwrap();
    let c = m.coherent(8192, 4096).unwrap();
    let arrival = m.bus.write(Time::ZERO, mapped.iova(), &[7; 1514]).unwrap();
    let also = m.bus.write(Time::ZERO, c.iova() + 4090, &[9; 12]).unwrap();
    let mut own = [0; 12];
    m.bus.read(Time::ZERO, c.iova() + 4090, &mut own).unwrap();
    assert_eq!(own, [9; 12]);
    assert!(also >= arrival);
    m.bus.deliver(also);
    assert_eq!(m.load::<[u8; 4]>(&c, 4094), [9; 4]);
    let b = m.unmap(mapped);
    assert!(m.bytes(&b, 0..1514, |bytes| bytes.iter().all(|b| *b == 7)));
    m.release_coherent(c);
    m.release(b);
    assert_eq!(m.bus.platform().live_entries(), 0);
}

/// A device's read of other memory does not bring its writes in flight forward.
#[test]
fn a_write_in_flight_is_not_seen_before_it_arrives() {
    let mut m = machine(64, false, ProtectionGranularity::Page);
    let c = m.coherent(64, 64).unwrap();
    let other = m.coherent(64, 64).unwrap();
    let (to, from) = (c.iova(), other.iova());
    let arrival = m.outside(|_, bus, at| {
        let arrival = bus.write(at + Span::from_us(50), to, &[9; 4]).unwrap();
        bus.read(at, from, &mut [0; 8]).unwrap();
        arrival
    });
    assert_eq!(m.load::<[u8; 4]>(&c, 0), [0; 4]);
    m.delay(arrival.since(m.now()));
    assert_eq!(m.load::<[u8; 4]>(&c, 0), [9; 4]);
}

/// TCE: a frame in one page is two calls a packet, across a page four; a slot that stays
/// mapped none.
#[test]
fn calls_and_entries_are_counted_and_take_the_callers_time() {
    let mut m = machine(64, false, ProtectionGranularity::Page);
    let one = m.buffer(1514, Alignment { align: 2048, offset: 0 }).unwrap();
    let two = m.buffer(1514, ACROSS).unwrap();
    let start = m.now();
    let mapped = m.map(one, 0..1514, Direction::ToDevice).unwrap();
    let _one = m.unmap(mapped);
    assert_eq!(
        (m.ledger().tce_puts, m.ledger().tce_hcalls, m.now().since(start)),
        (2, 2, Span::from_us(2))
    );
    let mapped = m.map(two, 0..1514, Direction::ToDevice).unwrap();
    let _two = m.unmap(mapped);
    assert_eq!(
        (m.ledger().tce_puts, m.ledger().tce_hcalls, m.now().since(start)),
        (6, 6, Span::from_us(6))
    );
    assert_eq!((m.ledger().hcalls, m.stalled()), (6, Span::from_us(6)));
    assert_eq!((m.ledger().maps, m.ledger().unmaps), (2, 2));
}

#[test]
fn an_exhausted_window_gives_the_buffer_back() {
    let mut m = machine(2, true, ProtectionGranularity::Page);
    let across = m.buffer(1514, ACROSS).unwrap();
    let another = m.buffer(64, Alignment::ANY).unwrap();
    let mapped = m.map(across, 0..1514, Direction::ToDevice).unwrap();
    let addr = another.addr();
    let MapError { buf, why } = m.map(another, 0..64, Direction::ToDevice).unwrap_err();
    assert_eq!((buf.addr(), why), (addr, MapFault::NoEntries));
    assert!(m.coherent(64, 64).is_err());
    assert_eq!((m.ledger().maps, m.ledger().tce_refused), (1, 2));
    let _ = m.unmap(mapped);
    let mapped = m.map(buf, 0..64, Direction::ToDevice).unwrap();
    let _ = m.unmap(mapped);
    assert_eq!(m.bus.platform().memory.mapped(), (0, 0));
}
