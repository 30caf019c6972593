use super::super::{Config, pair};
use super::*;
use doorbell_testkit::{DirectHost, NoDevice};

type Machine = DirectHost<NoDevice>;

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Returns a stack with one connection. A segment received costs it a microsecond.
fn stack() -> Stack {
    let ends = |_| ((Config::LINUX, App::drain()), (Config::LINUX, App::source(1)));
    let prices = Prices { receive: Span::from_us(1), ..Prices::default() };
    Stack::new(pair(MAC, 1, true, ends).0, Offloads::ALL, prices, true, Span::from_ms(3))
}

/// Returns the peer's frame with `len` bytes of the stream from byte `at` on, and `change` made to
/// its header.
fn data(s: &Stack, at: u32, len: u32, change: impl Fn(&mut frame::Header)) -> Vec<u8> {
    let mut header = frame::Header {
        seq: at + 1,
        ack: 1,
        flags: frame::ACK,
        window: 100,
        mss: None,
        timestamps: Some((5, 6)),
    };
    change(&mut header);
    let (size, c) = (header.length(), &s.connections[0]);
    let mut bytes = vec![0; size + len as usize];
    header.write(&c.there, &c.here, 0, len, &mut bytes);
    frame::fill(u64::from(at), &mut bytes[size..]);
    let partial = CsumPartial { start: TCP as u16, offset: 16 };
    partial.complete(&mut bytes).expect("inside the frame");
    bytes
}

/// Returns a fragment with these bytes.
fn fragment(m: &mut Machine, bytes: &[u8]) -> Fragment {
    let buf = m.buffer(bytes.len() as u32, Alignment::ANY).expect("memory");
    m.bytes_mut(&buf, 0..bytes.len() as u32, |b| b.copy_from_slice(bytes));
    Fragment::whole(buf)
}

/// Returns the number of segments that TCP gets of these frames, received in one poll.
fn segments(s: &mut Stack, frames: &[Vec<u8>]) -> u64 {
    let mut m = Machine::new(1 << 20, NoDevice);
    for f in frames {
        let head = fragment(&mut m, f);
        s.received(Packet::linear(head), true);
    }
    s.softirq(&mut m);
    assert_eq!(s.connections[0].socket.counters.data_received, frames.len() as u64);
    m.now().since(Time::ZERO).ps() / Span::from_us(1).ps()
}

/// Returns the number of segments made of three frames of 100 bytes, with `change` made to the
/// header of the second.
fn changed(change: impl Fn(&mut frame::Header)) -> u64 {
    let mut s = stack();
    let frames = [data(&s, 0, 100, |_| ()), data(&s, 100, 100, change), data(&s, 200, 100, |_| ())];
    segments(&mut s, &frames)
}

#[test]
fn frames_that_differ_in_their_header_stay_apart() {
    assert_eq!(changed(|_| ()), 1);
    assert_eq!(changed(|h| h.timestamps = Some((5, 7))), 3);
    assert_eq!(changed(|h| h.timestamps = None), 3);
    assert_eq!(changed(|h| h.window = 101), 3);
    assert_eq!(changed(|h| h.ack = 2), 3);
    // The second one joins, and nothing follows it.
    assert_eq!(changed(|h| h.flags |= frame::PSH), 2);
}

#[test]
fn a_short_frame_is_the_last_of_a_run() {
    let mut s = stack();
    let frames =
        [(0, 100), (100, 60), (160, 60), (220, 100)].map(|(at, len)| data(&s, at, len, |_| ()));
    assert_eq!(segments(&mut s, &frames), 3);
}

#[test]
fn an_unverified_frame_in_pieces_is_summed() {
    for (broken, bad) in [(None, 0), (Some(TCP + 4), 1), (Some(70), 1), (Some(119), 1)] {
        let mut s = stack();
        let mut m = Machine::new(1 << 20, NoDevice);
        let mut bytes = data(&s, 0, 101, |_| ());
        if let Some(at) = broken {
            bytes[at] ^= 1;
        }
        // An odd number of bytes in each piece.
        let [head, frag, list] = [0..67, 67..118, 118..167].map(|r| fragment(&mut m, &bytes[r]));
        let more = Some(Box::new(NonLinear { frags: vec![frag], list: vec![list] }));
        s.received(Packet { more, ..Packet::linear(head) }, false);
        s.softirq(&mut m);
        assert_eq!((s.counters.summed, s.counters.bad_checksums), (1, bad), "byte {broken:?}");
    }
}
