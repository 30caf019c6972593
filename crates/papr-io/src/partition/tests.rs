use super::super::{Adapter, Answer, Handshake, LocalResult, VETH};
use super::*;
use doorbell_hal::{DropReason, EventSource, Reply, RxVerdict};
use std::cell::RefCell;

const UNIT: u32 = 0x3000_0003;
const HANDLE: u64 = 0x17000;

struct Nobody;

impl Observer for Nobody {
    fn crossed(&mut self, _: Time, _: Crossing<'_>) {}
}

/// A device that records its calls, with the first byte of an indirect send's array.
#[derive(Default)]
struct Pen {
    calls: Vec<(u64, u64, u8)>,
    answer: i64,
    waits: bool,
    /// Room in its queue.
    room: Option<u64>,
}

impl EventSource for Pen {
    fn next_due(&self) -> Option<Time> {
        None
    }
}

impl<P: Port> HcallDevice<P> for Pen {
    fn hcall(&mut self, ports: &mut [P], from: usize, at: Time, c: Hcall, a: &[u64; 9]) -> Reply {
        let mut array = [0; DESCRIPTOR];
        if c.0 == hcall::SEND_SUB_CRQ_INDIRECT {
            let _ = ports[from].read(at, Iova(a[2]), &mut array);
        }
        self.calls.push((c.0, a[1], array[0]));
        (HcallReturn::status(self.answer), at)
    }
    fn receive(&mut self, _: &mut [P], _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Dropped(DropReason::Off)
    }
    fn advance(&mut self, _: &mut [P], _: Time) {}
    fn reset(&mut self, _: &mut [P], _: Time) {}
}

const CALLBACKS: DeviceCallbacks<Pen> = DeviceCallbacks {
    queues: |d, _, each| {
        d.room.iter().for_each(|r| each(SendQueue { handle: HANDLE, buffers: false, room: *r }));
    },
    has_waiting: |d, _| d.waits,
};

struct Bench {
    d: Pen,
    ports: [Partition<Nobody>; 1],
    adapter: Adapter,
    memory: Window,
    _socket: UnixStream,
    raised: RefCell<Vec<u16>>,
}

impl Bench {
    fn new(kind: u32) -> Bench {
        let (socket, ours) = UnixStream::pair().unwrap();
        let offer = Handshake::send(&socket).unwrap();
        let newcomer = Newcomer::new(ours, Time::ZERO, Span::from_ms(1000)).unwrap();
        let Greeted::Guest(guest) = newcomer.greet(Time::ZERO, Unit { address: UNIT, kind }, false)
        else {
            panic!("it is a plug-in");
        };
        let adapter =
            offer.finish(&socket, |entries, _| entries.iter().all(|e| e[0] != 0)).unwrap();
        let memory =
            Window::map(&doorbell_host_io::shared::memfd(c"m", 8192).unwrap(), 0, 8192, true)
                .unwrap();
        let mut ports = [Partition::new(Nobody)];
        ports[0].connect(*guest);
        Bench {
            d: Pen::default(),
            ports,
            adapter,
            memory,
            _socket: socket,
            raised: RefCell::default(),
        }
    }

    fn answer(&self, call: u64, a: &[u64]) -> LocalResult {
        let mut all = [0; 9];
        all[0] = UNIT.into();
        all[1..=a.len()].copy_from_slice(a);
        let result = self.adapter.answer_locally(
            call,
            &all,
            || Some(&self.memory),
            |v| self.raised.borrow_mut().push(v),
        );
        if result == LocalResult::Forward {
            assert!(
                self.adapter.begin_call(a.len(), call, &all),
                "each number of arguments is a CPU here"
            );
        }
        result
    }

    /// Lets the server poll once. Returns the calls that the device saw.
    fn poll(&mut self) -> Vec<(u64, u64, u8)> {
        self.pass_among(1)
    }

    /// Lets the server poll once, as one of so many guests.
    fn pass_among(&mut self, guests: usize) -> Vec<(u64, u64, u8)> {
        let mut cursor = PollCursor::among(guests);
        while step(&mut self.d, &mut self.ports, 0, Time::ZERO, &mut cursor, &CALLBACKS).is_some() {
        }
        publish_credits(&mut self.d, &mut self.ports, 0, Time::ZERO, &CALLBACKS);
        std::mem::take(&mut self.d.calls)
    }
}

const DONE: LocalResult = LocalResult::Answered(Answer::Status(0));
/// Arguments of H_SEND_SUB_CRQ.
const SEND: [u64; 5] = [HANDLE, u64::MAX, 0, 0, 0];

#[test]
fn what_was_posted_comes_before_what_is_asked_with_its_array_as_it_was() {
    let mut b = Bench::new(VNIC);
    b.d.room = Some(3);
    b.poll();
    assert_eq!(b.answer(0x20, &[0x1000, 3]), DONE, "a translation entry");
    let (direct, indirect) = (hcall::SEND_SUB_CRQ, hcall::SEND_SUB_CRQ_INDIRECT);
    b.memory.write(64, &[7; 64]);
    assert_eq!(b.answer(indirect, &[HANDLE, 0x1040, 2]), DONE);
    b.memory.write(64, &[9; 64]);
    assert_eq!(b.answer(hcall::FREE_CRQ, &[]), LocalResult::Forward);
    assert_eq!(b.answer(direct, &SEND), DONE);
    assert_eq!(b.answer(direct, &SEND), LocalResult::Forward, "no room");
    let seen = b.poll();
    assert_eq!(
        seen,
        [(indirect, HANDLE, 7), (direct, HANDLE, 0), (hcall::FREE_CRQ, 0, 0), (direct, HANDLE, 0)]
    );
    assert_eq!((b.ports[0].stats().posted, b.ports[0].stats().posted_refused), (2, 0));
    assert!(b.adapter.take_answer(0).is_some() && b.adapter.take_answer(5).is_some());
    // What is refused, or not known to be taken, is asked.
    for wrong in [
        [HANDLE + 1, 0x1040, 1],
        [HANDLE, 0x2040, 1],
        [HANDLE, 0x1040, 0],
        [HANDLE, 0x1040, 17],
        [HANDLE, 0x1080, 1],
    ] {
        assert_eq!(b.answer(indirect, &wrong), LocalResult::Forward, "{wrong:x?}");
        b.poll();
        assert!(b.adapter.take_answer(3).is_some());
    }
    // And what is refused after all is counted.
    assert_eq!(b.answer(indirect, &[HANDLE, 0x1040, 1]), DONE);
    (b.d.answer, b.d.room) = (status::CLOSED, None);
    assert_eq!(b.poll(), [(indirect, HANDLE, 9)]);
    assert_eq!(b.ports[0].stats().posted_refused, 1);
    assert_eq!(
        b.answer(indirect, &[HANDLE, 0x1040, 1]),
        LocalResult::Forward,
        "its session has ended"
    );
}

#[test]
fn interrupts_are_switched_without_the_server_unless_entries_wait() {
    let mut b = Bench::new(VNIC);
    assert_eq!(b.answer(hcall::VIO_SIGNAL, &[1]), LocalResult::Forward, "nothing is registered");
    b.d.answer = status::PARAMETER;
    b.poll();
    assert_eq!(b.adapter.take_answer(1).map(|r| r.status), Some(status::PARAMETER));
    b.d.answer = status::SUCCESS;
    assert_eq!(b.answer(hcall::REG_CRQ, &[0x1000, 4096]), LocalResult::Forward);
    assert_eq!(
        b.poll(),
        [(hcall::REG_CRQ, 0x1000, 0), (hcall::VIO_SIGNAL, 1, 0)],
        "the device's own mask is open"
    );
    assert!(b.adapter.take_answer(2).is_some());
    let vector = super::super::unit_interrupt(UNIT);
    b.ports[0].raise_msi(Time::ZERO, vector);
    assert_eq!(b.answer(hcall::VIO_SIGNAL, &[1]), DONE);
    assert_eq!(*b.raised.borrow(), [vector], "kept, and raised");
    assert_eq!(b.answer(hcall::VIO_SIGNAL, &[0]), DONE);
    assert!(b.poll().is_empty());
    // Entries wait: said once, tried once more, and from then on the device hears of each call.
    b.d.waits = true;
    assert_eq!(b.poll(), [(hcall::VIOCTL, vioctl::GET_SESSION_TOKEN, 0)]);
    b.ports[0].raise_msi(Time::ZERO, vector);
    assert_eq!(b.answer(hcall::VIO_SIGNAL, &[0]), LocalResult::Forward);
    assert_eq!(b.poll(), [(hcall::VIO_SIGNAL, 1, 0)], "off is the mask's affair");
    assert!(b.adapter.take_answer(1).is_some());
    assert_eq!(b.answer(hcall::VIO_SIGNAL, &[1]), LocalResult::Forward);
    assert_eq!(*b.raised.borrow(), [vector; 2]);
    b.d.waits = false;
    b.poll();
    assert!(b.adapter.take_answer(1).is_some());
    assert_eq!(b.answer(hcall::VIO_SIGNAL, &[0]), DONE);
    let stats = b.ports[0].stats();
    assert_eq!((stats.signal_calls, stats.raised), (3, 2));
}

#[test]
fn when_the_server_is_gone_only_entries_are_answered() {
    let b = Bench::new(VETH);
    assert_eq!(b.answer(ibmveth::H_VIO_SIGNAL, &[1]), DONE);
    b.adapter.disconnect();
    assert_eq!(b.answer(ibmveth::H_VIO_SIGNAL, &[0]), LocalResult::Forward);
    assert_eq!(
        b.adapter.forward(9, ibmveth::H_VIO_SIGNAL, &[UNIT.into(), 0, 0, 0, 0, 0, 0, 0, 0]),
        None
    );
    assert_eq!(b.answer(0x20, &[0x1000, 3]), DONE);
    assert_eq!(b.answer(0x1c, &[0x1000]), LocalResult::Answered(Answer::Value(3)));
    assert_eq!(
        b.answer(0x1c, &[u64::MAX]),
        LocalResult::Answered(Answer::Status(status::PARAMETER))
    );
    assert_eq!(b.adapter.answer_locally(0x20, &[1; 9], || None, |_| ()), LocalResult::NotOurs);
    assert_eq!(b.answer(hcall::REG_CRQ, &[]), LocalResult::NotOurs, "a vNIC's");
}

#[test]
fn guests_share_the_sends_of_a_pass() {
    let mut b = Bench::new(VNIC);
    b.d.room = Some(400);
    b.poll();
    for _ in 0..400 {
        assert_eq!(b.answer(hcall::SEND_SUB_CRQ, &SEND), DONE);
    }
    let mut passes = Vec::new();
    while b.ports[0].has_calls() {
        passes.push(b.pass_among(4).len());
    }
    assert_eq!(passes, [128, 128, 128, 16], "a quarter of the ring each");
}

#[test]
fn a_call_is_answered_however_many_sends_are_posted_behind_it() {
    let mut b = Bench::new(VNIC);
    b.d.room = Some(u64::MAX);
    b.poll();
    let fill = |b: &Bench| while b.answer(hcall::SEND_SUB_CRQ, &SEND) == DONE {};
    fill(&b);
    assert!(b.adapter.take_answer(5).is_none(), "the last send found the ring full, and waits");
    let sends = |seen: Vec<(u64, u64, u8)>| seen.iter().filter(|c| c.1 == HANDLE).count();
    for pass in 1..4 {
        assert_eq!(sends(b.pass_among(4)), 128, "pass {pass}");
        for _ in 0..128 {
            assert_eq!(b.answer(hcall::SEND_SUB_CRQ, &SEND), DONE);
        }
        assert!(b.adapter.take_answer(5).is_none(), "a send posted before it is left");
    }
    assert_eq!(sends(b.pass_among(4)), 129);
    assert!(b.adapter.take_answer(5).is_some());
    assert!(b.ports[0].has_calls(), "the later ones are left");
}

#[test]
fn memory_is_announced_once_with_one_descriptor() {
    let memory = doorbell_host_io::shared::memfd(c"m", 8192).unwrap();
    let (once, twice) = (message(MEMORY, 8192), [message(MEMORY, 8192); 2].concat());
    let ends = |bytes: &[u8], fds: usize| {
        let mut b = Bench::new(VNIC);
        let fds = vec![memory.as_fd(); fds];
        doorbell_vfio_user::send_with_fds(&b._socket, bytes, &fds).unwrap();
        b.ports[0].listen().err().map(|e| e.to_string())
    };
    assert_eq!(ends(&once, 1), None);
    assert!(ends(&once, 2).unwrap().contains("more than one descriptor"));
    assert!(ends(&twice, 1).unwrap().contains("is not known"), "the second is without");
    assert!(ends(&message(MEMORY, (1 << 38) + 1), 1).unwrap().contains("more than 256 GiB"));
    let mut b = Bench::new(VNIC);
    for _ in 0..2 {
        doorbell_vfio_user::send_with_fds(&b._socket, &once, &[memory.as_fd()]).unwrap();
    }
    assert!(b.ports[0].listen().is_ok());
    assert!(b.ports[0].listen().is_err(), "for the second time");
}
