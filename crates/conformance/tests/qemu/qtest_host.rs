//! The qtest host: one frame each way through QEMU's e1000, by a driver of a hundred lines.
//!
//! The frame leaves and arrives byte for byte, the interrupt line rises and falls, all memory is
//! released, and the death of QEMU is an error. Needs QEMU and its qtest accelerator
//! (DOORBELL_FULL=1).

use doorbell_conformance::full;
use doorbell_hal::{Alignment, Buf, Coherent, Direction, Fence, Host, Reg, Span};
use doorbell_layout::e1000::{self as hw, LegacyTx, Rx, reg};
use doorbell_testkit::qtest::{Backing, Error, Pc, QtestHost, Wire};
use std::time::Duration;
use zerocopy::IntoBytes;

const NEEDS: &str = "QEMU and its qtest accelerator";

const MAC: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
const NICS: [&str; 3] = ["e1000", "e1000-82544gc", "e1000-82545em"];

/// The least that can be called a driver: rings of eight descriptors, one packet
/// at a time, polled. It knows `Host` and nothing behind it.
struct Mini {
    tx: Coherent,
    rx: Coherent,
    tx_next: u32,
    rx_next: u32,
}

/// The device did not do in time what was waited for.
#[derive(PartialEq, Debug)]
struct Stuck(&'static str);

const RING: u32 = 8;
const SLOT: u32 = 16;
const RX_BYTES: u32 = 2048;

impl Mini {
    fn open<H: Host>(h: &mut H) -> Result<Mini, Stuck> {
        let (tx, rx) =
            (h.coherent(RING * SLOT, 128).unwrap(), h.coherent(RING * SLOT, 128).unwrap());
        let mini = Mini { tx, rx, tx_next: 0, rx_next: 0 };
        match mini.start(h) {
            Ok(()) => Ok(mini),
            Err(stuck) => {
                mini.close(h);
                Err(stuck)
            }
        }
    }

    fn start<H: Host>(&self, h: &mut H) -> Result<(), Stuck> {
        h.write32(Reg::at(reg::IMC), !0);
        h.write32(Reg::at(reg::CTRL), hw::CTRL_RST);
        wait(h, "reset", |h| h.read32(Reg::at(reg::CTRL)) & hw::CTRL_RST == 0)?;
        h.write32(Reg::at(reg::IMC), !0);
        h.read32(Reg::at(reg::ICR));
        let ctrl = h.read32(Reg::at(reg::CTRL));
        h.write32(Reg::at(reg::CTRL), ctrl | hw::CTRL_SLU);
        wait(h, "link", |h| h.read32(Reg::at(reg::STATUS)) & hw::STATUS_LU != 0)?;

        for (base, ring) in [(reg::TDBAL, &self.tx), (reg::RDBAL, &self.rx)] {
            let iova = ring.iova().0;
            // Address low and high, length, head, tail.
            for (n, v) in
                [(0, iova as u32), (1, (iova >> 32) as u32), (2, ring.len()), (4, 0), (6, 0)]
            {
                h.write32(Reg::at(base + 4 * n), v);
            }
        }
        h.write32(Reg::at(reg::TCTL), hw::TCTL_EN | hw::TCTL_PSP);
        let [low, high] =
            [&MAC[..4], &[MAC[4], MAC[5], 0, 0]].map(|b| u32::from_le_bytes(b.try_into().unwrap()));
        h.write32(Reg::at(reg::RAL0), low);
        h.write32(Reg::at(reg::RAH0), high | hw::RAH_AV);
        h.write32(Reg::at(reg::RCTL), hw::RCTL_EN | hw::RCTL_BAM | hw::RCTL_SECRC);
        Ok(())
    }

    fn interrupts_on<H: Host>(&self, h: &mut H) {
        h.write32(Reg::at(reg::IMS), hw::INT_TXDW | hw::INT_RXT0);
    }

    /// Sends `frame` and waits until the device has done with it.
    fn transmit<H: Host>(&mut self, h: &mut H, frame: &[u8]) -> Result<(), Stuck> {
        let buf = h.buffer(frame.len() as u32, Alignment::ANY).unwrap();
        h.bytes_mut(&buf, 0..buf.len(), |b| b.copy_from_slice(frame));
        let len = buf.len();
        let mapped = h.map(buf, 0..len, Direction::ToDevice).unwrap();
        let slot = self.tx_next * SLOT;
        let descriptor = LegacyTx {
            address: mapped.iova().0.into(),
            length: (len as u16).into(),
            cso: 0,
            cmd: LegacyTx::EOP | LegacyTx::IFCS | LegacyTx::RS,
            status: 0,
            css: 0,
            special: 0.into(),
        };
        h.store(&self.tx, slot, descriptor);
        h.fence(Fence::Write);
        self.tx_next = (self.tx_next + 1) % RING;
        h.write32(Reg::at(reg::TDT), self.tx_next);
        let done = wait(h, "transmission", |h| {
            h.load::<u8>(&self.tx, slot + LegacyTx::STATUS) & LegacyTx::DD != 0
        });
        let buf = h.unmap(mapped);
        h.release(buf);
        done
    }

    /// Posts one buffer, lets `arrive` bring a frame, and gives what came.
    fn receive<H: Host>(
        &mut self,
        h: &mut H,
        arrive: impl FnOnce(&mut H),
    ) -> Result<Vec<u8>, Stuck> {
        let buf: Buf = h.buffer(RX_BYTES, Alignment::ANY).unwrap();
        let mapped = h.map(buf, 0..RX_BYTES, Direction::FromDevice).unwrap();
        let slot = self.rx_next * SLOT;
        let posted = Rx {
            address: mapped.iova().0.into(),
            length: 0.into(),
            checksum: 0.into(),
            status: 0,
            errors: 0,
            special: 0.into(),
        };
        h.store(&self.rx, slot, posted);
        h.fence(Fence::Write);
        self.rx_next = (self.rx_next + 1) % RING;
        h.write32(Reg::at(reg::RDT), self.rx_next);
        arrive(h);
        let done =
            wait(h, "reception", |h| h.load::<u8>(&self.rx, slot + Rx::STATUS) & Rx::DD != 0);
        h.fence(Fence::DmaRead);
        let written: Rx = h.load(&self.rx, slot);
        let buf = h.unmap(mapped);
        let frame = done.map(|()| {
            assert_eq!((written.status & Rx::EOP, written.errors), (Rx::EOP, 0));
            h.bytes(&buf, 0..written.length.get().into(), |b| b.to_vec())
        });
        h.release(buf);
        frame
    }

    fn close<H: Host>(self, h: &mut H) {
        h.write32(Reg::at(reg::RCTL), 0);
        h.write32(Reg::at(reg::TCTL), 0);
        h.release_coherent(self.tx);
        h.release_coherent(self.rx);
    }
}

/// Polls until `done`, for 10 ms of the host's time at most.
fn wait<H: Host>(
    h: &mut H,
    what: &'static str,
    mut done: impl FnMut(&mut H) -> bool,
) -> Result<(), Stuck> {
    let limit = h.now() + Span::from_ms(10);
    while !done(h) {
        if h.now() >= limit {
            return Err(Stuck(what));
        }
        h.relax();
    }
    Ok(())
}

fn frame(to: [u8; 6], from: [u8; 6], len: usize) -> Vec<u8> {
    let mut frame = [&to[..], &from, &[0x88, 0xb5]].concat();
    frame.extend((0..len - frame.len()).map(|i| (i * 7 + 3) as u8));
    frame
}

fn start(nic: &str, wire: &Wire, backing: Backing) -> QtestHost {
    Pc { nic: &format!("{nic},mac=52:54:00:12:34:56"), wire, backing }.start().unwrap()
}

fn one_frame_each_way(nic: &str, backing: Backing) {
    println!("{nic}, {backing:?}");
    let wire = Wire::new().unwrap();
    let mut h = start(nic, &wire, backing);
    let mut driver = Mini::open(&mut h).unwrap();
    assert!(!h.interrupt_pending(), "all causes are masked");
    while h.take_interrupt().is_some() {}
    driver.interrupts_on(&mut h);

    let sent = frame([0xff; 6], MAC, 1514);
    driver.transmit(&mut h, &sent).unwrap();
    assert_eq!(wire.receive(Duration::from_secs(30)).unwrap().as_ref(), Some(&sent));
    assert!(h.interrupt_pending());
    assert_eq!(h.take_interrupt(), Some(true));
    assert_eq!(h.read32(Reg::at(reg::ICR)) & hw::INT_TXDW, hw::INT_TXDW);
    assert!(!h.interrupt_pending(), "reading the causes lowers the line");
    assert_eq!((h.take_interrupt(), h.take_interrupt()), (Some(false), None));

    // QEMU holds reception for a second of virtual time after RCTL is written,
    // and interrupts for 128 us after the last one.
    h.delay(Span::from_ms(1100));
    let comes = frame(MAC, [2, 0, 0, 0, 0, 1], 777);
    let came = driver
        .receive(&mut h, |h| {
            wire.send(&comes).unwrap();
            h.settle();
        })
        .unwrap();
    assert_eq!(came, comes);
    assert!(h.interrupt_pending());
    assert_eq!(h.read32(Reg::at(reg::ICR)) & hw::INT_RXT0, hw::INT_RXT0);
    assert!(!h.interrupt_pending());

    driver.close(&mut h);
    assert_eq!(wire.receive(Duration::ZERO).unwrap(), None, "no frame that nobody sent");
    let balance = h.finish().unwrap();
    assert!(balance.is_even(), "{balance:?}");
    assert_eq!((balance.maps, balance.buffers, balance.coherent), (2, 2, 2));
}

#[test]
fn one_frame_each_way_through_mapped_memory() {
    if full(NEEDS) {
        for nic in NICS {
            one_frame_each_way(nic, Backing::Mapped);
        }
    }
}

#[test]
fn one_frame_each_way_through_the_socket_alone() {
    if full(NEEDS) {
        one_frame_each_way(NICS[0], Backing::Socket);
    }
}

#[test]
fn a_frame_is_in_memory_once_the_host_has_settled() {
    if !full(NEEDS) {
        return;
    }
    let wire = Wire::new().unwrap();
    let mut h = start("e1000", &wire, Backing::Mapped);
    let mut driver = Mini::open(&mut h).unwrap();
    h.delay(Span::from_ms(1100));
    let start = h.now();
    for len in 60..160 {
        let comes = frame(MAC, [2, 0, 0, 0, 0, 1], len);
        let came = driver.receive(&mut h, |h| {
            wire.send(&comes).unwrap();
            h.settle();
        });
        assert_eq!(came, Ok(comes));
    }
    assert_eq!(h.now(), start, "nobody had to wait");
    driver.close(&mut h);
    assert!(h.finish().unwrap().is_even());
}

#[test]
fn frames_wait_on_the_wire_until_somebody_takes_them() {
    if !full(NEEDS) {
        return;
    }
    let wire = Wire::new().unwrap();
    let mut h = start("e1000", &wire, Backing::Mapped);
    let mut driver = Mini::open(&mut h).unwrap();
    // More than the socket holds.
    let frames: Vec<_> = (0..50).map(|n| frame([0xff; 6], MAC, 60 + n)).collect();
    for frame in &frames {
        driver.transmit(&mut h, frame).unwrap();
    }
    for frame in &frames {
        assert_eq!(wire.receive(Duration::from_secs(30)).unwrap().as_ref(), Some(frame));
    }
    driver.close(&mut h);
    assert!(h.finish().unwrap().is_even());
}

#[test]
fn virtual_time_moves_only_when_told() {
    if !full(NEEDS) {
        return;
    }
    let wire = Wire::new().unwrap();
    let mut h = start("e1000", &wire, Backing::Mapped);
    let start = h.now();
    for _ in 0..100 {
        h.read32(Reg::at(reg::STATUS));
    }
    assert_eq!(h.now(), start);
    h.delay(Span::from_ns(1_234));
    assert_eq!(h.now().since(start), Span::from_ns(1_234));
    h.set_turn(Span::from_us(5));
    h.relax();
    assert_eq!(h.now().since(start), Span::from_ns(6_234));
    h.finish().unwrap();
}

#[test]
fn registers_that_are_not_there_read_as_ones() {
    if !full(NEEDS) {
        return;
    }
    let wire = Wire::new().unwrap();
    let mut h = start("e1000", &wire, Backing::Mapped);
    assert_eq!(h.read32(Reg { region: 5, offset: 0 }), !0);
    h.write32(Reg { region: 5, offset: 0 }, 1);
    h.write64(Reg { region: 9, offset: 0 }, 1);
    h.finish().unwrap();
}

#[test]
fn a_buffer_starts_where_it_was_asked_to() {
    if !full(NEEDS) {
        return;
    }
    let wire = Wire::new().unwrap();
    let mut h = start("e1000", &wire, Backing::Mapped);
    let b = h.buffer(1514, Alignment { align: 2048, offset: 18 }).unwrap();
    assert_eq!(b.addr() % 2048, 18);
    h.bytes_mut(&b, 10..14, |b| b.copy_from_slice(&[1, 2, 3, 4]));
    assert_eq!(h.bytes(&b, 9..15, |b| b[1..5].to_vec()), [1, 2, 3, 4]);
    let refused = h.map(b, 1500..1515, Direction::ToDevice).unwrap_err();
    h.release(refused.buf);
    assert!(h.buffer(128 << 20, Alignment::ANY).is_err());
    let c = h.coherent(64, 64).unwrap();
    h.store(&c, 8, 0x0102_0304u32);
    assert_eq!(h.load::<[u8; 4]>(&c, 8), 0x0102_0304u32.as_bytes());
    assert_eq!(h.load::<u64>(&c, 0), 0, "coherent memory starts zeroed");
    h.release_coherent(c);
    assert!(h.finish().unwrap().is_even());
}

#[test]
fn a_qemu_that_dies_is_an_error_and_not_a_hang() {
    if !full(NEEDS) {
        return;
    }
    let wire = Wire::new().unwrap();
    let mut h = start("e1000", &wire, Backing::Mapped);
    let mut driver = Mini::open(&mut h).unwrap();
    h.qemu().kill();
    assert_eq!(driver.transmit(&mut h, &frame([0xff; 6], MAC, 100)), Err(Stuck("transmission")));
    assert_eq!(h.read32(Reg::at(reg::STATUS)), !0, "as a card that was pulled out");
    assert_eq!(Mini::open(&mut h).err(), Some(Stuck("reset")));
    driver.close(&mut h);
    assert!(h.balance().is_even());
    assert!(matches!(h.finish(), Err(Error::Exited { .. })));
}

#[test]
fn a_device_that_qemu_does_not_know_is_an_error_in_qemus_words() {
    if !full(NEEDS) {
        return;
    }
    let wire = Wire::new().unwrap();
    let refused =
        Pc { nic: "e1001", wire: &wire, backing: Backing::Mapped }.start().unwrap_err().to_string();
    assert!(refused.contains("'e1001' is not a valid device model name"), "{refused}");
}
