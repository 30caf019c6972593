//! Pitfalls that the manual and the specification updates name, beyond those of the other tests.

use super::*;
use crate::{Filter, OpenError};
use doorbell_bus::pci::Latencies;
use doorbell_bus::pci::{Protocol, Rules, Settings};
use doorbell_bus::{Costs, Machine, Pci, Platform, ProtectionGranularity};
use doorbell_hal::{Host as _, Span};

fn address(d: [u8; 16]) -> u64 {
    u64::from_le_bytes(d[..8].try_into().unwrap())
}

#[test]
fn tdt_is_one_past_the_last_prepared_descriptor() {
    let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| c.tx_ring = 48);
    let mut up = Up::default();
    for i in 0..100 {
        let p = packet(&mut h, &[1; 100]);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        assert_eq!(h.device.last(reg::TDT), Some((i + 1) % 48));
        done(&mut h, i % 48);
        let _ = nic.poll(&mut h, 64, &mut up);
    }
    assert_eq!(up.sent.len(), 100);
}

#[test]
fn icr_is_read_first_then_all_is_masked_and_the_mask_has_arrived() {
    let (mut h, mut nic) = open();
    h.device.regs[(reg::ICR / 4) as usize] = l::INT_TXDW;
    let (reads, writes) = (h.device.reads, h.device.writes.len());
    assert_eq!(nic.interrupt(&mut h, 0), Irq::Poll);
    assert_eq!(h.device.writes[writes..], [(reg::IMC, !0)]);
    assert_eq!(h.device.reads_before[writes], reads + 1, "ICR before the mask");
    assert_eq!(h.device.reads, reads + 2, "and a read that pushes the mask");
}

#[test]
fn a_ring_that_is_no_multiple_of_128_bytes_is_refused() {
    for (tx_ring, rx_ring) in [(52, 48), (48, 52), (47, 48), (48, 40), (4104, 48)] {
        let c = Config { tx_ring, rx_ring, ..Config::new(Part::I82540, Bus::Pci) };
        let e = E1000::open(&mut DirectHost::new(16 << 20, Board::new()), &c).err();
        assert!(matches!(e, Some(OpenError::Setting(_))), "{tx_ring}, {rx_ring}: {e:?}");
    }
    for n in [48, 56, 4096] {
        let (h, _) = open_with(Part::I82540, Bus::Pci, |c| (c.tx_ring, c.rx_ring) = (n, n));
        assert_eq!([reg::TDLEN, reg::RDLEN].map(|r| h.device.last(r).unwrap()), [n * 16; 2]);
        assert_eq!(n * 16 % 128, 0);
    }
}

/// 82546GB specification update, 1: the write-back before it is premature.
#[test]
fn a_large_sends_buffer_is_kept_until_the_sentinel_is_done() {
    let (mut h, mut nic) = open();
    let mut p = packet(&mut h, &tcp(3000));
    p.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: 1460, header: 54 });
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    let mut up = Up::default();
    // The context, and all of the buffer but its last four bytes.
    for i in [0, 1] {
        done(&mut h, i);
        let _ = nic.poll(&mut h, 64, &mut up);
        assert!(up.sent.is_empty(), "descriptor {i}");
    }
    done(&mut h, 2);
    let _ = nic.poll(&mut h, 64, &mut up);
    assert_eq!(up.sent.len(), 1);
}

#[test]
fn a_large_sends_piece_is_at_most_four_segments_and_4096_bytes() {
    for (mss, most) in [(1460, 4096), (1024, 4096), (536, 2144), (100, 400)] {
        let (mut h, mut nic) = open();
        let mut p = packet(&mut h, &tcp(10_000));
        p.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: mss, header: 54 });
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        let last = h.device.last(reg::TDT).unwrap();
        let lens: Vec<u16> = (1..last)
            .map(|i| descriptor(&mut h, reg::TDBAL, i))
            .map(|d| u16::from_le_bytes([d[8], d[9]]))
            .collect();
        assert_eq!(lens.iter().max(), Some(&most), "MSS {mss}");
        assert_eq!(lens.iter().map(|n| u32::from(*n)).sum::<u32>(), 10_054);
    }
}

/// Erratum 23 of the 82545 and 82546 of revision 0.
#[test]
fn rings_and_receive_buffers_of_the_82545_stay_within_64_kib() {
    let crossing = |part| {
        let (mut h, _) = open_with(part, Bus::Pci, |_| {});
        let buffers = (0..255)
            .map(|i| (address(descriptor(&mut h, reg::RDBAL, i)), 2048))
            .collect::<Vec<_>>();
        let rings = [reg::TDBAL, reg::RDBAL].map(|r| (ring(&h, r), 4096));
        buffers
            .into_iter()
            .chain(rings)
            .filter(|(at, len)| at >> 16 != (at + len - 1) >> 16)
            .count()
    };
    assert_eq!(crossing(Part::I82545), 0);
    assert!(crossing(Part::I82540) > 0, "by itself some would");
    // A ring of 64 KiB fits if it begins on such a boundary, and this one cannot.
    let c = Config {
        eeprom: Eeprom::Eerd,
        rx_ring: 4096,
        tx_ring: 4096,
        ..Config::new(Part::I82545, Bus::Pci)
    };
    assert_eq!(
        E1000::open(&mut DirectHost::new(16 << 20, Board::new()), &c).err(),
        Some(OpenError::Address)
    );
}

/// Its first large packet would hang it.
#[test]
fn a_card_in_pcix_is_not_driven_as_if_it_were_on_conventional_pci() {
    for (bus, expected) in [(Bus::Pci, Some(OpenError::Bus)), (Bus::PciX, None)] {
        let mut h = DirectHost::new(16 << 20, Board::new());
        h.device.regs[(reg::STATUS / 4) as usize] = l::STATUS_PCIX_MODE;
        let c = Config { eeprom: Eeprom::Eerd, ..Config::new(Part::I82545, bus) };
        assert_eq!(E1000::open(&mut h, &c).err(), expected);
    }
}

/// Dual address cycles hang these parts, except in PCI-X.
#[test]
fn conventional_pci_is_given_no_address_above_4_gib() {
    const GIB4: u64 = 1 << 32;
    let machine = |from: u64, protocol, mhz| {
        let settings = Settings { protocol, mhz, ..Settings::POWER4 };
        let latencies = Latencies { cpu: Span::ZERO, memory: Span::ZERO, register: Span::ZERO };
        let platform = Platform::new(from, 128 << 20, ProtectionGranularity::Byte);
        Machine::new(
            Pci::new(platform, Rules::new(settings).unwrap(), latencies, 0),
            Board::new(),
            Costs::FREE,
            1,
        )
    };
    let conventional = Protocol::Conventional { delayed: true };
    let c = Config { eeprom: Eeprom::Eerd, ..Config::new(Part::I82540, Bus::Pci) };
    // All memory is there: no ring.
    assert_eq!(
        E1000::open(&mut machine(GIB4, conventional, 66), &c).err(),
        Some(OpenError::Address)
    );
    let x = Protocol::X { mmrbc: 2048, outstanding: 1 };
    let c_x = Config { eeprom: Eeprom::Eerd, ..Config::new(Part::I82545, Bus::PciX) };
    assert!(E1000::open(&mut machine(GIB4, x, 133), &c_x).is_ok());
    // The upper half is: a packet there cannot be sent, and is given back whole.
    let mut h = machine(GIB4 - (64 << 20), conventional, 66);
    let mut nic = E1000::open(&mut h, &c).unwrap();
    let told = h.device.last(reg::TDT);
    let mut hoard = Vec::new();
    let (low, high) = loop {
        let b = h.buffer(1 << 20, Alignment::ANY).unwrap();
        if b.addr() >= GIB4 {
            break (hoard.pop().unwrap(), b);
        }
        hoard.push(b);
    };
    let piece = |buf| Fragment { buf, start: 0, len: 700 };
    let more = Some(Box::new(NonLinear { frags: alloc::vec![piece(high)], list: Vec::new() }));
    let p = Packet { more, ..Packet::linear(piece(low)) };
    let Tx::Dropped(p) = nic.transmit(&mut h, p, false) else { panic!("sent") };
    assert_eq!((p.len(), h.device.last(reg::TDT)), (1400, told));
    p.release(&mut h);
    let p = Packet::linear(piece(hoard.pop().unwrap()));
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok, "below it can");
    hoard.into_iter().for_each(|b| h.release(b));
    nic.close(&mut h);
    assert_eq!(h.ledger().maps, h.ledger().unmaps);
}

/// These parts cannot acknowledge the 64-bit write that a bridge may make of the one that resets
/// them.
#[test]
fn reset_goes_through_the_io_ports_where_there_are_any() {
    let (h, _) = open_with(Part::I82540, Bus::Pci, |c| c.io = Some(2));
    let resets = |h: &Host| {
        h.device.writes.iter().filter(|(r, v)| *r == reg::CTRL && v & l::CTRL_RST != 0).count()
    };
    let [(l::io::IOADDR, reg::CTRL), (l::io::IODATA, ctrl)] = h.device.ports[..] else {
        panic!("{:?}", h.device.ports)
    };
    assert_eq!((ctrl & l::CTRL_RST, resets(&h)), (l::CTRL_RST, 0));
    let (h, _) = open();
    assert_eq!((h.device.ports.len(), resets(&h)), (0, 1));
}

/// A bridge that merges them makes bursts, which the parts lose.
#[test]
fn writes_of_tables_and_addresses_are_pushed_one_by_one() {
    let (h, _) = open();
    let tables = [
        (reg::MTA, reg::MTA_LEN, 4),
        (reg::VFTA, reg::VFTA_LEN, 4),
        (reg::RAL0, reg::RAR_LEN, 8),
        (reg::RAH0, reg::RAR_LEN, 8),
    ];
    for (first, count, step) in tables {
        for r in (0..count).map(|i| first + i * step) {
            let i = h
                .device
                .writes
                .iter()
                .position(|w| w.0 == r)
                .unwrap_or_else(|| panic!("{r:#x} is written"));
            assert!(h.device.reads_before[i + 1] > h.device.reads_before[i], "{r:#x}");
        }
    }
}

/// 82546 specification update, 15: longer ones to offsets that end in 4 or C are lost in PCI-X.
#[test]
fn every_register_write_is_of_32_bits() {
    let (mut h, mut nic) = open_with(Part::I82545, Bus::PciX, |c| c.io = Some(2));
    let mut up = Up::default();
    nic.set_filter(
        &mut h,
        &Filter { multicast: alloc::vec![[1, 0, 0x5e, 0, 0, 1]], ..Filter::default() },
    );
    nic.set_vlans(&mut h, Some(&[5]));
    let p = packet(&mut h, &[1; 100]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    done(&mut h, 0);
    arrive(&mut h, 0, 300, l::Rx::EOP, 0);
    let _ = nic.poll(&mut h, 64, &mut up);
    nic.restart(&mut h).unwrap();
    nic.close(&mut h);
    assert_eq!(h.device.odd_sizes, 0);
    assert!(h.device.writes.len() > 500);
}
