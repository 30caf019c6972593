//! The DMA engine of `examples/dma`, without a guest.

use crate::own_dma::{DESTINATION, DOORBELL_REGISTER, Engine, INTERRUPT, LENGTH, SOURCE, STATUS};
use doorbell::custom;
use doorbell::hal::{Alignment, Direction, Host, Reg, Span};
use doorbell_testkit::DirectHost;

fn pattern() -> Vec<u8> {
    (0..2048).map(|n: u32| (n * 7 + n / 256) as u8).collect()
}

/// Copies `len` bytes. Returns the status, and the copy.
fn copied(h: &mut impl Host, len: u32) -> (u32, Vec<u8>) {
    let [from, to] = [(); 2].map(|()| h.buffer(2048, Alignment::ANY).unwrap());
    h.bytes_mut(&from, 0..2048, |b| b.copy_from_slice(&pattern()));
    h.bytes_mut(&to, 0..2048, |b| b.fill(0xee));
    let from = h.map(from, 0..2048, Direction::ToDevice).unwrap();
    let to = h.map(to, 0..2048, Direction::FromDevice).unwrap();
    for (register, v) in [
        (INTERRUPT, 1),
        (SOURCE, from.iova().0 as u32),
        (SOURCE + 4, (from.iova().0 >> 32) as u32),
        (DESTINATION, to.iova().0 as u32),
        (DESTINATION + 4, (to.iova().0 >> 32) as u32),
        (LENGTH, len),
        (DOORBELL_REGISTER, 1),
    ] {
        h.write32(Reg::at(register), v);
    }
    h.delay(Span::from_us(100));
    let status = h.read32(Reg::at(STATUS));
    h.write32(Reg::at(STATUS), status);
    assert_eq!(h.read32(Reg::at(STATUS)), 0, "cleared");
    let from = h.unmap(from);
    h.release(from);
    let to = h.unmap(to);
    let bytes = h.bytes(&to, 0..2048, <[u8]>::to_vec);
    h.release(to);
    (status, bytes)
}

#[test]
fn it_copies_what_it_was_told() {
    let mut h = DirectHost::new(1 << 20, Engine::default());
    let (status, bytes) = copied(&mut h, 1000);
    assert_eq!(status, 2);
    assert_eq!(bytes[..1000], pattern()[..1000]);
    assert!(bytes[1000..].iter().all(|b| *b == 0xee));
    assert_eq!(h.port.messages, [0]);
    // Of no byte, and of too many.
    for len in [0, (1 << 20) + 1] {
        let (status, bytes) = copied(&mut h, len);
        assert!(status == 4 && bytes.iter().all(|b| *b == 0xee));
    }
}

/// Three pieces of 256 bytes and one of 232, each a TLP.
#[test]
fn a_thousand_bytes_are_four_reads_and_writes() {
    let mut m = custom::on_pcie(2, 16, Engine::default()).unwrap();
    assert_eq!(copied(&mut m, 1000).0, 2);
    let l = m.ledger();
    assert_eq!((l.pcie_mrd_up, l.pcie_read_bytes, l.messages), (4, 1000, 1));
    assert_eq!((l.pcie_mwr_up, l.pcie_write_bytes), (4 + 1, 1000 + 4), "and the message");
    // Past the end of what is mapped.
    assert_eq!((copied(&mut m, 2049).0, m.ledger().dma_faults), (4, 1));
}
