use super::*;
use doorbell_testkit::{DirectHost, NoDevice};

#[test]
fn a_cleared_queue_has_no_byte_of_its_last_session() {
    let mut h = DirectHost::new(1 << 20, NoDevice);
    let mut ring = Ring::<[u8; 16]>::allocate(&mut h, 4096).unwrap();
    let at = ring.ioba();
    h.port.at(at, 4096).fill(0x80);
    assert_eq!(ring.next(&mut h), Some([0x80; 16]));
    ring.clear(&mut h);
    assert_eq!((h.port.at(at, 4096).to_vec(), ring.next(&mut h)), (alloc::vec![0; 4096], None));
    // It begins with the first entry again.
    h.port.at(at, 1)[0] = 0x80;
    assert!(ring.pending(&mut h));
}
