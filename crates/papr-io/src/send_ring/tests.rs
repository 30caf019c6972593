use super::*;

const DIRECT: u64 = hcall::SEND_SUB_CRQ;
const ARRAYS: u64 = hcall::SEND_SUB_CRQ_INDIRECT;

fn args(handle: u64, count: u64, n: u64) -> [u64; 9] {
    [0x3000_0003, handle, 0x1000, count, n, 0, 0, 0, 0]
}

#[test]
fn what_is_posted_comes_out_in_order_and_whole() {
    let (b, file) = CallArea::create().unwrap();
    let server = CallArea::open(&file).unwrap();
    let q = |handle, buffers, room| SendQueue { handle, buffers, room };
    server.publish_row(0, Some((q(0x17000, false, 0), 1000)));
    server.publish_row(1, Some((q(0x18000, true, 0), 1000)));
    assert_eq!((b.row_of(0x17000), b.row_of(0x18000)), (Some((0, false)), Some((1, true))));
    assert_eq!((b.row_of(0), b.row_of(0x17001)), (None, None));
    let mut posted = [(0, 0); SEND_QUEUES];
    let mut array = [[0; DESCRIPTOR]; 16];
    for lap in 0..3u64 {
        for n in 0..SENDS as u64 {
            server.publish_row(1, Some((q(0x18000, true, 0), 1 << 40)));
            let all: Array = std::array::from_fn(|i| [(n + lap) as u8 ^ i as u8; DESCRIPTOR]);
            assert!(b.post(
                &mut posted,
                1,
                ARRAYS,
                &args(0x18000, 1 + n % 16, n),
                &all[..1 + n as usize % 16]
            ));
        }
        assert!(!b.post(&mut posted, 1, DIRECT, &args(0x18000, 0, 0), &[]), "the ring is full");
        for n in 0..SENDS as u64 {
            let count = 1 + n as usize % 16;
            assert_eq!(
                server.next_send(&mut array),
                Some((Hcall(ARRAYS), args(0x18000, count as u64, n)))
            );
            assert!((0..count).all(|i| array[i] == [(n + lap) as u8 ^ i as u8; DESCRIPTOR]));
        }
        assert_eq!(server.next_send(&mut array), None);
    }
}

#[test]
fn a_queue_is_given_what_it_has_room_for_and_a_new_handle_begins_anew() {
    let (b, _) = CallArea::create().unwrap();
    let mut posted = [(0, 0); SEND_QUEUES];
    let queue = |handle| SendQueue { handle, buffers: false, room: 0 };
    b.publish_row(2, Some((queue(0x17000), 20)));
    assert!(b.post(&mut posted, 2, ARRAYS, &args(0x17000, 16, 0), &[]));
    assert!(!b.post(&mut posted, 2, ARRAYS, &args(0x17000, 5, 0), &[]));
    assert!(b.post(&mut posted, 2, ARRAYS, &args(0x17000, 4, 0), &[]));
    assert!(!b.post(&mut posted, 2, DIRECT, &args(0x17000, 0, 0), &[]));
    b.publish_row(2, Some((queue(0x27000), 1)));
    assert_eq!(b.row_of(0x17000), None);
    assert!(b.post(&mut posted, 2, DIRECT, &args(0x27000, 0, 0), &[]));
    b.publish_row(2, None);
    assert_eq!(b.row_of(0x27000), None);
}

#[test]
fn a_tail_that_nobody_can_have_written_is_no_send() {
    let (b, _) = CallArea::create().unwrap();
    for tail in [SENDS as u64 + 1, u64::MAX, 1 << 40] {
        b.word(TAIL).store(tail, Ordering::Relaxed);
        assert_eq!(b.next_send(&mut [[0; DESCRIPTOR]; 16]), None);
    }
}
