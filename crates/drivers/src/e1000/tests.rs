//! The driver's writes, byte by byte, and pitfalls of the part, on a machine
//! of plain memory whose device takes what it is told and does nothing by itself.

mod counts;
mod limits;
mod setup;
mod traps;

use super::*;
use crate::OpenError;
use crate::{Driver, Irq, Poll, Sink, Tx};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::{Alignment, Buf, Device, EventSource, Port, Reg, RxVerdict, Time};
use doorbell_layout::e1000::{self as l, eeprom, phy, reg};
use doorbell_packet::{CsumPartial, Fragment, Gso, GsoKind, NonLinear, OffloadRequest, Packet};
use doorbell_testkit::DirectHost;

/// Registers that keep what is written, an EEPROM behind EERD, and a PHY.
struct Board {
    regs: Vec<u32>,
    writes: Vec<(u32, u32)>,
    /// Reads made before each of those writes.
    reads_before: Vec<usize>,
    reads: usize,
    /// Writes to the I/O ports.
    ports: Vec<(u32, u32)>,
    /// Writes that were not of 4 bytes.
    odd_sizes: usize,
    gone: bool,
    mdic_dead: bool,
}

impl Board {
    fn new() -> Board {
        Board {
            regs: vec![0; (l::REGION_LEN / 4) as usize],
            writes: Vec::new(),
            reads_before: Vec::new(),
            reads: 0,
            ports: Vec::new(),
            odd_sizes: 0,
            gone: false,
            mdic_dead: false,
        }
    }
    fn last(&self, r: u32) -> Option<u32> {
        self.writes.iter().rev().find(|w| w.0 == r).map(|w| w.1)
    }
    fn count(&self, r: u32) -> usize {
        self.writes.iter().filter(|w| w.0 == r).count()
    }
}

fn word(i: u32) -> u32 {
    match i as u8 {
        0 => 0x1100,
        1 => 0x3322,
        2 => 0x5544,
        eeprom::CHECKSUM => {
            u32::from(eeprom::SUM.wrapping_sub(0x1100).wrapping_sub(0x3322).wrapping_sub(0x5544))
        }
        _ => 0,
    }
}

impl EventSource for Board {
    fn next_due(&self) -> Option<Time> {
        None
    }
}

impl<P: Port> Device<P> for Board {
    fn mmio_read(&mut self, _: &mut P, _: Time, r: Reg, _: u8) -> u64 {
        let v = self.regs[(r.offset / 4) as usize];
        self.reads += 1;
        if self.gone {
            return u64::MAX;
        }
        if r.offset == reg::ICR {
            self.regs[(r.offset / 4) as usize] = 0;
        }
        u64::from(match r.offset {
            reg::CTRL => v & !l::CTRL_RST,
            // A test that says that the link is up says how fast.
            reg::STATUS if v & l::STATUS_LU != 0 => v,
            reg::STATUS => v | l::STATUS_LU | l::STATUS_FD | l::STATUS_SPEED_1000,
            reg::EERD => {
                v | l::EERD_DONE | word(v >> l::EERD_ADDR_SHIFT & 0xff) << l::EERD_DATA_SHIFT
            }
            reg::MDIC if self.mdic_dead => v & !l::MDIC_READY,
            reg::MDIC => {
                let data = match (v >> l::MDIC_REG_SHIFT & 31) as u8 {
                    phy::ID1 => 0x0141,
                    phy::ID2 => 0x0c20,
                    _ => 0,
                };
                l::MDIC_READY | data
            }
            _ => v,
        })
    }
    fn mmio_write(&mut self, _: &mut P, _: Time, r: Reg, size: u8, v: u64) {
        self.odd_sizes += usize::from(size != 4);
        if r.region != 0 {
            self.ports.push((r.offset, v as u32));
            return;
        }
        self.reads_before.push(self.reads);
        self.regs[(r.offset / 4) as usize] = v as u32;
        self.writes.push((r.offset, v as u32));
    }
    fn receive(&mut self, _: &mut P, _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Yes
    }
    fn advance(&mut self, _: &mut P, _: Time) {}
    fn reset(&mut self, _: &mut P, _: Time) {}
}

type Host = DirectHost<Board>;

#[derive(Default)]
struct Up {
    sent: Vec<(Buf, u32, bool)>,
    received: Vec<(Packet, bool)>,
}
impl Sink for Up {
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        self.sent.push((b, cookie, last));
    }
    fn received(&mut self, p: Packet, verified: bool) {
        self.received.push((p, verified));
    }
}

fn open_with(part: Part, bus: Bus, change: impl FnOnce(&mut Config)) -> (Host, E1000) {
    let mut h = DirectHost::new(16 << 20, Board::new());
    let mut c = Config { eeprom: Eeprom::Eerd, ..Config::new(part, bus) };
    change(&mut c);
    let nic = E1000::open(&mut h, &c).unwrap();
    (h, nic)
}
fn open() -> (Host, E1000) {
    open_with(Part::I82540, Bus::Pci, |_| {})
}

/// Returns the address written for a ring.
fn ring(h: &Host, base: u32) -> u64 {
    u64::from(h.device.last(base).unwrap())
}
/// Descriptor `i` of the ring, as its bytes stand in memory.
fn descriptor(h: &mut Host, base: u32, i: u32) -> [u8; 16] {
    let at = ring(h, base) + u64::from(i * 16);
    h.port.at(at, 16).try_into().unwrap()
}
fn packet(h: &mut Host, bytes: &[u8]) -> Packet {
    use doorbell_hal::Host as _;
    let b = h.buffer(bytes.len() as u32, Alignment { align: 4096, offset: 0 }).unwrap();
    h.bytes_mut(&b, 0..b.len(), |to| to.copy_from_slice(bytes));
    Packet::linear(Fragment::whole(b))
}
/// An address's bytes, then the rest.
fn with_address(at: u64, rest: [u8; 8]) -> [u8; 16] {
    let mut d = [0; 16];
    d[..8].copy_from_slice(&at.to_le_bytes());
    d[8..].copy_from_slice(&rest);
    d
}
/// The device has done descriptor `i`.
fn done(h: &mut Host, i: u32) {
    let at = ring(h, reg::TDBAL) + u64::from(i * 16 + l::STATUS_AT);
    h.port.at(at, 1)[0] |= l::DD;
}
fn tcp(payload: usize) -> Vec<u8> {
    let mut f = vec![0u8; 54 + payload];
    f[12..14].copy_from_slice(&[8, 0]);
    f[14..24].copy_from_slice(&[0x45, 0, 0x12, 0x34, 0, 0, 0x40, 0, 64, 6]);
    f[24..26].copy_from_slice(&[0xaa, 0xbb]);
    f[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    f[46] = 0x50;
    f
}

#[test]
fn plain_packet_is_one_legacy_descriptor() {
    let (mut h, mut nic) = open();
    let p = packet(&mut h, &[7; 100]);
    let at = p.head.buf.addr();
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    // Length 100; EOP, IFCS, RS, IDE as TIDV is 8.
    assert_eq!(descriptor(&mut h, reg::TDBAL, 0), with_address(at, [100, 0, 0, 0x8b, 0, 0, 0, 0]));
    assert_eq!(h.device.last(reg::TDT), Some(1), "TDT is one past the last");
}

#[test]
fn no_interrupt_is_delayed_without_tidv() {
    let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| c.tx_delay = 0);
    let p = packet(&mut h, &[7; 100]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(descriptor(&mut h, reg::TDBAL, 0)[11], 0x0b);
}

#[test]
fn checksum_is_a_context_and_a_data_descriptor() {
    let (mut h, mut nic) = open();
    let mut p = packet(&mut h, &[7; 100]);
    p.todo = OffloadRequest {
        checksum: Some(CsumPartial { start: 34, offset: 16 }),
        vlan: Some(0x6005),
        ..OffloadRequest::NONE
    };
    let at = p.head.buf.addr();
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    // Only TUCSS, TUCSO; DEXT and TCP.
    let context = [0, 0, 0, 0, 34, 50, 0, 0, 0, 0, 0, 0x21, 0, 0, 0, 0];
    assert_eq!(descriptor(&mut h, reg::TDBAL, 0), context);
    // DTYP data; EOP, IFCS, RS, DEXT, VLE, IDE; TXSM; the tag.
    assert_eq!(
        descriptor(&mut h, reg::TDBAL, 1),
        with_address(at, [100, 0, 0x10, 0xeb, 0, 2, 0x05, 0x60])
    );
    assert_eq!(h.device.last(reg::TDT), Some(2));
    let mut p = packet(&mut h, &[7; 100]);
    p.todo.checksum = Some(CsumPartial { start: 34, offset: 6 });
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(descriptor(&mut h, reg::TDBAL, 2)[4..12], [34, 40, 0, 0, 0, 0, 0, 0x20], "UDP");
}

#[test]
fn large_send_has_a_context_a_sentinel_and_prepared_headers() {
    let (mut h, mut nic) = open();
    let f = tcp(3000);
    let mut p = packet(&mut h, &f);
    p.todo.checksum = Some(CsumPartial { start: 34, offset: 16 });
    p.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: 1460, header: 54 });
    let at = p.head.buf.addr();
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    // IPCSS 14, IPCSO 24, IPCSE 33; TUCSS 34, TUCSO 50; PAYLEN 3000 is without
    // the header; DEXT, TSE, IP, TCP; HDRLEN 54; MSS 1460.
    let context = [14, 24, 33, 0, 34, 50, 0, 0, 0xb8, 0x0b, 0, 0x27, 0, 54, 0xb4, 0x05];
    assert_eq!(descriptor(&mut h, reg::TDBAL, 0), context);
    let whole = 3054u16 - 4;
    let [low, high] = whole.to_le_bytes();
    assert_eq!(
        descriptor(&mut h, reg::TDBAL, 1),
        with_address(at, [low, high, 0x10, 0x26, 0, 3, 0, 0])
    );
    assert_eq!(
        descriptor(&mut h, reg::TDBAL, 2),
        with_address(at + u64::from(whole), [4, 0, 0x10, 0xaf, 0, 3, 0, 0]),
        "the sentinel ends the packet"
    );
    let b = h.port.at(at, 54).to_vec();
    assert_eq!((&b[16..18], &b[24..26]), (&[0, 0][..], &[0, 0][..]), "IP length and checksum");
    // 10.0.0.1 + 10.0.0.2 + protocol 6, and no length.
    assert_eq!(b[50..52], (0x0a00u16 + 1 + 0x0a00 + 2 + 6).to_be_bytes());
    // A linear packet after it: its first descriptor is 4 bytes shorter.
    let p = packet(&mut h, &[7; 100]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!([3, 4].map(|i| descriptor(&mut h, reg::TDBAL, i)[8]), [96, 4]);
    let p = packet(&mut h, &[7; 100]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(descriptor(&mut h, reg::TDBAL, 5)[8], 100, "only the first");
}

#[test]
fn a_short_frame_is_padded_in_its_buffer_or_in_another() {
    let (mut h, mut nic) = open();
    let mut p = packet(&mut h, &[7; 80]);
    p.head.len = 20;
    let at = p.head.buf.addr();
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(
        descriptor(&mut h, reg::TDBAL, 0)[..9],
        with_address(at, [60, 0, 0, 0, 0, 0, 0, 0])[..9]
    );
    assert_eq!((h.port.at(at, 60)[19..21].to_vec(), h.port.at(at, 80)[60]), (vec![7, 0], 7));
    let p = packet(&mut h, &[7; 20]);
    let old = p.head.buf.addr();
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    let d = descriptor(&mut h, reg::TDBAL, 1);
    let at = u64::from_le_bytes(d[..8].try_into().unwrap());
    assert_ne!(at, old);
    assert_eq!(d[8], 60);
    assert_eq!(h.port.at(at, 60), [[7; 20], [0; 20], [0; 20]].concat());
}

#[test]
fn copy_align_sends_from_a_2048_byte_slot_and_maps_nothing() {
    let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| {
        (c.copy_align, c.bql) = (true, false);
    });
    for i in 0..3u32 {
        let p = packet(&mut h, &[i as u8 + 1; 1514]);
        let old = p.head.buf.addr();
        assert_eq!(nic.transmit(&mut h, p, i < 2), Tx::Ok);
        let at = u64::from_le_bytes(descriptor(&mut h, reg::TDBAL, i)[..8].try_into().unwrap());
        assert_eq!((at % 2048, at == old), (0, false));
        assert_eq!(h.port.at(at, 1514), [i as u8 + 1; 1514]);
    }
    assert_eq!((nic.stats().tx_copied, nic.stats().tx_tail), (3, 1));
    let mut up = Up::default();
    (0..3).for_each(|i| done(&mut h, i));
    assert_eq!(nic.poll(&mut h, 64, &mut up), Poll::Work);
    assert_eq!(up.sent.len(), 3);
}

#[test]
fn copy_align_takes_frames_of_up_to_2048_bytes() {
    let (mut h, mut nic) =
        open_with(Part::I82540, Bus::Pci, |c| (c.copy_align, c.max_frame) = (true, 9014));
    for (len, copied) in [(2047, 1), (2048, 2), (2049, 2)] {
        let p = packet(&mut h, &vec![7; len]);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        assert_eq!(nic.stats().tx_copied, copied, "{len}");
    }
}

/// Each slot is used again with every turn of the ring.
#[test]
fn a_padded_copy_shows_nothing_of_the_frame_before() {
    let (mut h, mut nic) =
        open_with(Part::I82540, Bus::Pci, |c| (c.copy_align, c.tx_ring) = (true, 48));
    let mut up = Up::default();
    for i in 0..96 {
        let frame = if i < 48 { vec![0xaa; 1514] } else { vec![7; 20] };
        let p = packet(&mut h, &frame);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        let at =
            u64::from_le_bytes(descriptor(&mut h, reg::TDBAL, i % 48)[..8].try_into().unwrap());
        if i >= 48 {
            assert_eq!(h.port.at(at, 60), [[7; 20], [0; 20], [0; 20]].concat(), "{i}");
        }
        done(&mut h, i % 48);
        let _ = nic.poll(&mut h, 64, &mut up);
    }
    assert_eq!(nic.stats().tx_padded, 48);
}

#[test]
fn a_packet_is_done_when_its_last_descriptor_is() {
    let (mut h, mut nic) = open();
    let mut p = packet(&mut h, &[1; 100]);
    let frag = packet(&mut h, &[2; 9]).head;
    p.more = Some(Box::new(NonLinear { frags: vec![frag], list: Vec::new() }));
    p.cookie = 5;
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    let mut up = Up::default();
    done(&mut h, 0);
    let _ = nic.poll(&mut h, 64, &mut up);
    assert!(up.sent.is_empty());
    done(&mut h, 1);
    let _ = nic.poll(&mut h, 64, &mut up);
    assert_eq!(up.sent.iter().map(|s| (s.1, s.2)).collect::<Vec<_>>(), [(5, false), (5, true)]);
}

#[test]
fn tdt_is_written_when_the_batch_ends_or_the_queue_stops() {
    let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| (c.tx_ring, c.bql) = (48, false));
    let before = h.device.count(reg::TDT);
    let mut n = 0;
    while !Driver::<Host>::stopped(&nic) {
        let p = packet(&mut h, &[1; 100]);
        assert_eq!(nic.transmit(&mut h, p, true), Tx::Ok);
        n += 1;
    }
    // 47 can be used; it stops when fewer than MAX_SKB_FRAGS + 7 are free.
    assert_eq!(n, 24);
    assert_eq!(h.device.count(reg::TDT) - before, 1);
    assert_eq!(h.device.last(reg::TDT), Some(24));
    let mut up = Up::default();
    (0..8).for_each(|i| done(&mut h, i));
    let _ = nic.poll(&mut h, 64, &mut up);
    assert!(Driver::<Host>::stopped(&nic), "31 are free");
    done(&mut h, 8);
    let _ = nic.poll(&mut h, 64, &mut up);
    assert!(!Driver::<Host>::stopped(&nic), "32 are");
}

fn room(nic: &E1000) -> i32 {
    Driver::<Host>::byte_room(nic)
}

#[test]
fn over_the_byte_limit_each_packet_writes_tdt() {
    // e1000_xmit_frame: `netif_xmit_stopped(txq) || !xmit_more`.
    let (mut h, mut nic) = open();
    for i in 0..3 {
        let p = packet(&mut h, &[1; 100]);
        assert_eq!(nic.transmit(&mut h, p, true), Tx::Ok);
        assert_eq!((room(&nic), nic.stats().tx_tail), (-100 * (i + 1), i as u64 + 1));
    }
    (0..3).for_each(|i| done(&mut h, i));
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    assert_eq!(room(&nic), 300, "it ran dry with 300");
    for _ in 0..3 {
        let p = packet(&mut h, &[1; 100]);
        assert_eq!(nic.transmit(&mut h, p, true), Tx::Ok);
        assert_eq!(nic.stats().tx_tail, 3, "more follows, and there is room");
    }
    let p = packet(&mut h, &[1; 100]);
    assert_eq!(nic.transmit(&mut h, p, true), Tx::Ok);
    assert_eq!((room(&nic), nic.stats().tx_tail), (-100, 4));
}

#[test]
fn only_whole_packets_give_bytes_back() {
    let (mut h, mut nic) = open();
    let mut p = packet(&mut h, &[1; 100]);
    let frag = packet(&mut h, &[2; 9]).head;
    p.more = Some(Box::new(NonLinear { frags: vec![frag], list: Vec::new() }));
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    let p = packet(&mut h, &[1; 200]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(room(&nic), -309);
    done(&mut h, 0);
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    assert_eq!(room(&nic), -309, "the first has another descriptor");
    done(&mut h, 1);
    let _ = nic.poll(&mut h, 64, &mut Up::default());
    assert_eq!(room(&nic), -200, "not dry: the limit stays");
}

#[test]
fn a_packet_counts_as_long_as_it_is_sent() {
    // skb->len behind eth_skb_pad. A tag that the device inserts is not in it, and a large send's
    // headers are in it once.
    let (mut h, mut nic) = open();
    let mut sent = 0;
    for (copy, len, tag, bytes) in
        [(false, 20, false, 60), (false, 100, true, 100), (true, 20, false, 60)]
    {
        if copy {
            (h, nic) = open_with(Part::I82540, Bus::Pci, |c| c.copy_align = true);
            sent = 0;
        }
        let mut p = packet(&mut h, &vec![7; len]);
        p.todo.vlan = tag.then_some(5);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        sent += bytes;
        assert_eq!(room(&nic), -sent, "{copy} {len}");
    }
    let (mut h, mut nic) = open();
    let mut p = packet(&mut h, &tcp(3000));
    p.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size: 1000, header: 54 });
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(room(&nic), -3054);
}

#[test]
fn a_restart_forgets_the_bytes() {
    let (mut h, mut nic) = open();
    let p = packet(&mut h, &[1; 100]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    assert_eq!(nic.alarm(&mut h, crate::Alarm::IoError), Irq::Poll);
    assert_eq!((room(&nic), nic.is_drained()), (0, true));
}

#[test]
fn rdt_is_the_index_of_the_last_filled_descriptor() {
    let (h, _) = open();
    // 256 descriptors, of which one stays empty so that full and empty differ.
    assert_eq!(h.device.last(reg::RDT), Some(254));
    assert_eq!(h.device.last(reg::RDLEN), Some(4096));
    assert!(
        Config { rx_ring: 50, ..Config::new(Part::I82540, Bus::Pci) }.check().is_err(),
        "RDLEN is a multiple of 128"
    );
}

#[test]
fn rx_align_moves_the_buffer_by_two() {
    for rx_align in [0, 2] {
        let (mut h, _) = open_with(Part::I82540, Bus::Pci, |c| c.rx_align = rx_align);
        for i in 0..255 {
            let at = u64::from_le_bytes(descriptor(&mut h, reg::RDBAL, i)[..8].try_into().unwrap());
            assert_eq!(at % 128, u64::from(rx_align));
        }
    }
}

/// The device puts a frame of `len` bytes and FCS at descriptor `i`.
fn arrive(h: &mut Host, i: u32, len: u16, status: u8, errors: u8) {
    let at = ring(h, reg::RDBAL) + u64::from(i * 16);
    let d = h.port.at(at, 16);
    d[8..10].copy_from_slice(&len.to_le_bytes());
    (d[12], d[13]) = (status | 1, errors);
}

#[test]
fn the_fcs_is_cut_off_also_where_it_begins_in_the_buffer_before() {
    let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| c.rx_buffer = 512);
    let mut up = Up::default();
    arrive(&mut h, 0, 512, 0, 0);
    arrive(&mut h, 1, 3, 2, 0);
    arrive(&mut h, 2, 512, 0, 0);
    arrive(&mut h, 3, 4, 2, 0);
    arrive(&mut h, 4, 512, 0, 0);
    arrive(&mut h, 5, 5, 2, 0);
    let _ = nic.poll(&mut h, 64, &mut up);
    let shapes: Vec<_> = up.received.iter().map(|(p, _)| (p.len(), p.pieces().count())).collect();
    assert_eq!(shapes, [(511, 1), (512, 1), (513, 2)]);
}

#[test]
fn a_checksum_is_trusted_if_looked_at_right_and_not_to_be_ignored() {
    for (status, errors, good) in [
        (l::Rx::TCPCS, 0, true),
        (l::Rx::TCPCS | l::Rx::IXSM, 0, false),
        (l::Rx::TCPCS, l::Rx::TCPE, false),
        (l::Rx::IPCS, 0, false),
    ] {
        let (mut h, mut nic) = open();
        let mut up = Up::default();
        arrive(&mut h, 0, 300, status | l::Rx::EOP, errors);
        let _ = nic.poll(&mut h, 64, &mut up);
        assert_eq!(up.received[0].1, good, "{status:#x} {errors:#x}");
    }
}

#[test]
fn a_frame_with_errors_is_dropped_and_its_buffer_posted_again() {
    let (mut h, mut nic) = open();
    let before = descriptor(&mut h, reg::RDBAL, 0);
    let mut up = Up::default();
    arrive(&mut h, 0, 300, l::Rx::EOP, l::Rx::CE);
    assert_eq!(nic.poll(&mut h, 64, &mut up), Poll::Work);
    assert!(up.received.is_empty());
    assert_eq!(nic.stats().rx_errors, 1);
    for i in 1..256 {
        arrive(&mut h, i % 256, 300, l::Rx::EOP, 0);
        let _ = nic.poll(&mut h, 64, &mut up);
    }
    assert_eq!(descriptor(&mut h, reg::RDBAL, 0)[..8], before[..8]);
}

#[test]
fn copybreak_leaves_the_buffer_with_its_descriptor() {
    let (mut h, mut nic) = open();
    let at = u64::from_le_bytes(descriptor(&mut h, reg::RDBAL, 0)[..8].try_into().unwrap());
    h.port.at(at, 255).fill(9);
    let mut up = Up::default();
    arrive(&mut h, 0, 255 + 4, l::Rx::EOP, 0);
    arrive(&mut h, 1, 256 + 4, l::Rx::EOP, 0);
    let _ = nic.poll(&mut h, 64, &mut up);
    let [(small, _), (big, _)] = &up.received[..] else { panic!("two frames") };
    assert_eq!((small.head.buf.len(), big.head.buf.len()), (255, 2048));
    assert_ne!(small.head.buf.addr(), at);
    assert_eq!(h.port.at(small.head.buf.addr(), 255), [9; 255]);
    assert_eq!(nic.stats().rx_copybreak, 1);
}

#[test]
fn a_ring_without_buffers_is_filled_by_the_watchdog() {
    use doorbell_hal::Host as _;
    let (mut h, mut nic) = open();
    // All of memory is somebody's, so the frames cannot be replaced.
    let mut hoard = Vec::new();
    while let Ok(b) = h.buffer(2048, Alignment { align: 128, offset: 2 }) {
        hoard.push(b);
    }
    let mut up = Up::default();
    (0..255).for_each(|i| arrive(&mut h, i, 300, l::Rx::EOP, 0));
    while nic.poll(&mut h, 64, &mut up) == Poll::Again {}
    assert_eq!(up.received.len(), 255);
    assert!(nic.stats().alloc_rx_buff_failed > 0);
    let told = h.device.count(reg::RDT);
    nic.work(&mut h);
    assert_eq!(h.device.count(reg::RDT), told);
    hoard.into_iter().for_each(|b| h.release(b));
    nic.work(&mut h);
    assert_eq!((h.device.count(reg::RDT), h.device.last(reg::RDT)), (told + 1, Some(253)));
}

#[test]
fn the_budget_ends_a_poll_and_leaves_all_masked() {
    let (mut h, mut nic) = open();
    let unmasked = h.device.count(reg::IMS);
    let mut up = Up::default();
    (0..10).for_each(|i| arrive(&mut h, i, 300, l::Rx::EOP, 0));
    assert_eq!(nic.poll(&mut h, 4, &mut up), Poll::Again);
    assert_eq!((up.received.len(), h.device.count(reg::IMS)), (4, unmasked));
    assert_eq!(nic.poll(&mut h, 64, &mut up), Poll::Work);
    assert_eq!((up.received.len(), h.device.last(reg::IMS)), (10, Some(0x9d)));
}

#[test]
fn icr_of_zero_is_another_devices_and_nothing_is_masked() {
    let (mut h, mut nic) = open();
    let masked = h.device.count(reg::IMC);
    assert_eq!(nic.interrupt(&mut h, 0), Irq::None);
    assert_eq!(h.device.count(reg::IMC), masked);
    h.device.regs[(reg::ICR / 4) as usize] = l::INT_RXT0;
    assert_eq!(nic.interrupt(&mut h, 0), Irq::Poll);
    assert_eq!((h.device.count(reg::IMC), h.device.last(reg::IMC)), (masked + 1, Some(!0)));
    assert_eq!(nic.interrupt(&mut h, 0), Irq::None, "the read has cleared it");
}

#[test]
fn a_card_that_is_gone_or_whose_phy_is_dead_is_an_error_and_not_a_hang() {
    let c = Config { eeprom: Eeprom::Eerd, ..Config::new(Part::I82540, Bus::Pci) };
    let mut h = DirectHost::new(16 << 20, Board::new());
    h.device.gone = true;
    assert_eq!(E1000::open(&mut h, &c).err(), Some(OpenError::Timeout("reset")));
    let mut h = DirectHost::new(16 << 20, Board::new());
    h.device.mdic_dead = true;
    assert_eq!(E1000::open(&mut h, &c).err(), Some(OpenError::Timeout("MDIC")));
}

#[test]
fn a_hang_is_found_when_dd_is_late_and_transmission_is_not_paused() {
    use doorbell_hal::{Host as _, Span};
    let (mut h, mut nic) = open();
    let p = packet(&mut h, &[1; 100]);
    assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
    h.delay(Span::from_ms(1999));
    nic.work(&mut h);
    assert_eq!(nic.stats().tx_timeout_count, 0);
    h.delay(Span::from_ms(2));
    h.device.regs[(reg::STATUS / 4) as usize] = l::STATUS_TXOFF;
    nic.work(&mut h);
    assert_eq!(nic.stats().tx_timeout_count, 0, "paused");
    h.device.regs[(reg::STATUS / 4) as usize] = 0;
    nic.work(&mut h);
    assert_eq!((nic.stats().tx_timeout_count, nic.stats().tx_dropped), (1, 1));
    assert!(nic.is_drained());
}

#[test]
fn a_slow_link_and_a_long_ring_have_more_time() {
    use crate::Alarm;
    use doorbell_hal::{Host as _, Span};
    // The last two: 4096 frames of 9 KB take 2.98 s at 100 Mbit/s.
    for (speed, ring, max_frame, ms) in [
        (0, 256, 1514, 32_000),
        (0x40, 256, 1514, 2_000),
        (0x80, 4096, 9014, 2_000),
        (0x40, 4096, 9014, 2_961),
    ] {
        let (mut h, mut nic) = open_with(Part::I82540, Bus::Pci, |c| {
            (c.tx_ring, c.max_frame, c.rx_buffer) = (ring, max_frame, 16384);
        });
        h.device.regs[(reg::STATUS / 4) as usize] = l::STATUS_LU | speed;
        let _ = nic.alarm(&mut h, Alarm::Tick);
        let p = packet(&mut h, &[1; 100]);
        assert_eq!(nic.transmit(&mut h, p, false), Tx::Ok);
        h.delay(Span::from_ms(ms - 1));
        nic.work(&mut h);
        assert_eq!(nic.stats().tx_timeout_count, 0, "{speed} {ring}");
        h.delay(Span::from_ms(2));
        nic.work(&mut h);
        assert_eq!(nic.stats().tx_timeout_count, 1, "{speed} {ring}");
    }
}

#[test]
fn itr_radv_tadv_are_written_on_82540_and_later_only() {
    for (part, times) in [(Part::I82544, 0), (Part::I82540, 1), (Part::I82545, 1)] {
        let (h, _) = open_with(part, Bus::Pci, |_| {});
        assert_eq!(
            [reg::ITR, reg::RADV, reg::TADV].map(|r| h.device.count(r)),
            [times; 3],
            "{part:?}"
        );
        let expected = if times == 1 { 0x0101_0000 } else { 0x0100_0000 };
        assert_eq!(h.device.last(reg::TXDCTL), Some(expected));
    }
}

#[test]
fn jumbo_frames_move_packet_memory_to_the_transmit_side() {
    let c = |part, max_frame| Config { max_frame, ..Config::new(part, Bus::Pci) };
    assert_eq!(hw::packet_memory(&c(Part::I82540, 1514)), 48);
    assert_eq!(hw::packet_memory(&c(Part::I82540, 9014)), 46);
    assert_eq!(hw::packet_memory(&c(Part::I82545, 9014)), 40);
    assert_eq!(hw::packet_memory(&c(Part::I82540, 16110)), 32);
}

proptest::proptest! {
    /// However a packet is cut, its descriptors name its bytes in order, once.
    #[test]
    fn descriptors_name_the_packets_bytes_once(
        lens in proptest::collection::vec(1u32..1500, 1..6),
        part in proptest::sample::select(vec![Part::I82544, Part::I82540, Part::I82545]),
        pcix in proptest::bool::ANY,
        copy_align in proptest::bool::ANY,
    ) {
        use doorbell_hal::Host as _;
        let bus = if pcix { Bus::PciX } else { Bus::Pci };
        let (mut h, mut nic) =
            open_with(part, bus, |c| (c.copy_align, c.max_frame) = (copy_align, 9014));
        let mut expected = Vec::new();
        let mut pieces: Vec<Fragment> = lens
            .iter()
            .enumerate()
            .map(|(i, len)| {
                let b =
                    h.buffer(*len, Alignment { align: 64, offset: (i as u32 * 11) % 64 }).unwrap();
                h.bytes_mut(&b, 0..*len, |to| {
                    to.iter_mut().enumerate().for_each(|(k, t)| *t = (k * 7 + i) as u8);
                });
                h.bytes(&b, 0..*len, |f| expected.extend_from_slice(f));
                Fragment::whole(b)
            })
            .collect();
        let head = pieces.remove(0);
        let more =
            (!pieces.is_empty()).then(|| Box::new(NonLinear { frags: pieces, list: Vec::new() }));
        proptest::prop_assert_eq!(
            nic.transmit(
                &mut h,
                Packet { head, todo: OffloadRequest::NONE, more, cookie: 0 },
                false
            ),
            Tx::Ok
        );
        let mut seen = Vec::new();
        for i in 0..h.device.last(reg::TDT).unwrap() {
            let d = descriptor(&mut h, reg::TDBAL, i);
            let (at, n) = (
                u64::from_le_bytes(d[..8].try_into().unwrap()),
                usize::from(u16::from_le_bytes([d[8], d[9]])),
            );
            seen.extend_from_slice(h.port.at(at, n));
            if part == Part::I82544 && pcix && n > 4 {
                proptest::prop_assert!((at + n as u64 - 1) & 4 != 0);
            }
        }
        expected.resize(expected.len().max(60), 0);
        proptest::prop_assert_eq!(seen, expected);
        nic.close(&mut h);
    }
}

#[test]
fn itr_counts_in_256_ns() {
    assert_eq!([0, 4_000, 20_000, 70_000, 1].map(interval), [0, 976, 195, 55, 0xffff]);
}
