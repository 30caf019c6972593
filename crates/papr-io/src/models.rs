//! Models of what plug-in and server share, in all orders that the memory model allows:
//! `tools/models.sh`.

use crate::call_area::{ARGUMENTS, CALL, CallArea, RETURNED, SLEEPS, STATE, STATUS};
use crate::call_area::{ENTRIES_PENDING, HEAD_OF_RING, HELD, MASKS, QUEUES, RAISED, RING, TAIL};
use crate::irq_masks::MaskChange;
use crate::send_ring::{ROW, SEND, SEND_QUEUES, SENDS, SendQueue};
use crate::words::{AtomicU64, Words, fence};
use doorbell_hal::{Hcall, HcallReturn};
use doorbell_layout::ibmvnic::hcall;
use loom::sync::Arc;
use loom::{model::Builder, thread};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

/// Returns words at equal distances.
fn row(at: usize, words: usize) -> impl Iterator<Item = usize> {
    (0..words).map(move |n| at + 8 * n)
}

/// Creates a call area with the slot of CPU 0, one mask, and the rows and sends of a model.
fn area() -> Arc<CallArea> {
    let slot = CallArea::slot_of(0);
    let mut words = vec![TAIL, HEAD_OF_RING, ENTRIES_PENDING, HELD, RAISED, MASKS];
    words.extend(row(slot + ARGUMENTS, 9).chain(row(slot + RETURNED, 9)));
    words.extend([slot + CALL, slot + STATUS]);
    words.extend((0..SEND_QUEUES).flat_map(|n| row(QUEUES + n * ROW, 3)));
    words.extend((0..SENDS).flat_map(|n| row(RING + n * SEND, 10)));
    Arc::new(CallArea::of(Words::of(&words, &[SLEEPS, slot + STATE])))
}

/// Tries all orders with at most this many preemptions.
fn model(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(f);
}

const A: [u64; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];

#[test]
fn a_call_is_seen_by_a_server_that_goes_to_sleep_or_rings() {
    model(3, || {
        let (area, bell) = (area(), Arc::new(AtomicU64::new(0)));
        let guest = thread::spawn({
            let (area, bell) = (area.clone(), bell.clone());
            move || {
                assert!(area.begin_call(0, 7, &A));
                area.ring_if_asleep(|| {
                    bell.fetch_add(1, AcqRel);
                });
            }
        });
        area.set_sleeping(true);
        let seen = area.pending_call(0);
        guest.join().unwrap();
        match seen {
            Some(call) => assert_eq!(call, (Hcall(7), A)),
            None => assert_eq!(bell.load(Acquire), 1, "it sleeps for ever"),
        }
    });
}

#[test]
fn an_answer_is_whole_and_frees_the_slot() {
    model(3, || {
        let area = area();
        let guest = thread::spawn({
            let area = area.clone();
            move || {
                assert!(area.begin_call(0, 7, &A));
                assert!(!area.begin_call(0, 8, &A), "it is occupied");
                area.take_answer(0)
            }
        });
        let (status, ret) = (-4, A);
        if let Some((_, a)) = area.pending_call(0) {
            assert_eq!(a, A);
            area.answer(0, &HcallReturn { status, ret });
        }
        let early = guest.join().unwrap();
        let late = area.take_answer(0);
        for answer in [&early, &late].into_iter().flatten() {
            assert_eq!(*answer, HcallReturn { status, ret });
        }
        assert!(early.is_none() || late.is_none(), "once");
    });
}

/// Runs a device that writes two entries against a driver that unmasks, polls when told, masks and
/// unmasks again. At the end all entries were found, or the driver is told. With `latches` it does
/// not poll after unmasking.
fn no_wake_up_is_lost(latches: bool) {
    model(3, move || {
        let area = area();
        let (entries, sent) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        area.register(0, latches);
        let device = thread::spawn({
            let (area, entries, sent) = (area.clone(), entries.clone(), sent.clone());
            move || {
                for n in 1..=2 {
                    entries.store(n, Relaxed);
                    if area.admit(0) {
                        sent.fetch_add(1, Release);
                    }
                }
            }
        });
        let (mut arrived, mut told, mut taken) = (0, false, 0);
        let switch = |on, told: &mut bool| {
            assert!(area.change_masks(MaskChange::One(0, on), |_| *told = true).is_some());
        };
        let mut arrive = |told: &mut bool| {
            if sent.load(Acquire) > arrived {
                arrived += 1;
                *told |= area.admit_arrived(0);
            }
        };
        switch(true, &mut told);
        for _ in 0..2 {
            arrive(&mut told);
            if told || !latches {
                switch(false, &mut told);
                (told, taken) = (false, entries.load(Relaxed));
                switch(true, &mut told);
                if !latches {
                    fence(SeqCst);
                    taken = entries.load(Relaxed);
                }
            }
        }
        device.join().unwrap();
        arrive(&mut told);
        arrive(&mut told);
        assert!(taken == 2 || told, "{taken} of 2 entries were found, and nobody tells");
    });
}

#[test]
fn no_wake_up_of_a_vnic_is_lost() {
    no_wake_up_is_lost(true);
}

#[test]
fn no_wake_up_of_a_logical_lan_is_lost() {
    no_wake_up_is_lost(false);
}

#[test]
fn posted_sends_come_whole_and_in_order_while_there_is_room() {
    model(3, || {
        const HANDLE: u64 = 5;
        let area = area();
        let queue = SendQueue { handle: HANDLE, buffers: false, room: 0 };
        let send = |n| [n, HANDLE, n, 0, 0, 0, 0, 0, n];
        area.publish_row(0, Some((queue, 3)));
        // The server takes up to `most` sends; each makes room for another.
        let take = move |area: &CallArea, from: u64, most| {
            let (mut array, mut taken) = (Default::default(), from);
            for _ in 0..most {
                if let Some((call, a)) = area.next_send(&mut array) {
                    taken += 1;
                    assert_eq!((call, a), (Hcall(hcall::SEND_SUB_CRQ), send(taken)));
                    area.publish_row(0, Some((queue, 3 + taken)));
                }
            }
            taken
        };
        // It is the thread that starts later, since loom sees of a thread that writes what it has
        // read only the write.
        let server = thread::spawn({
            let area = area.clone();
            move || take(&area, 0, 2)
        });
        let mut counts = [(0, 0); SEND_QUEUES];
        let (at, buffers) = area.row_of(HANDLE).unwrap();
        assert!(!buffers);
        let mut posted = 0;
        for _ in 0..3 {
            let next = send(posted + 1);
            posted += u64::from(area.post(&mut counts, at, hcall::SEND_SUB_CRQ, &next, &[]));
        }
        let taken = server.join().unwrap();
        assert!((2..=2 + taken).contains(&posted), "{posted} posted, {taken} taken");
        assert_eq!(take(&area, taken, 3), posted, "each once");
        assert!(!area.has_sends());
    });
}

#[test]
fn sends_posted_before_a_call_are_before_the_end_that_is_noted_after_it() {
    model(3, || {
        let area = area();
        let queue = SendQueue { handle: 5, buffers: false, room: 0 };
        area.publish_row(0, Some((queue, 1)));
        let guest = thread::spawn({
            let area = area.clone();
            move || {
                let a = [0, 5, 0, 0, 0, 0, 0, 0, 0];
                let mut counts = [(0, 0); SEND_QUEUES];
                assert!(area.post(&mut counts, 0, hcall::SEND_SUB_CRQ, &a, &[]));
                assert!(area.begin_call(0, hcall::FREE_CRQ, &a));
            }
        });
        if area.pending_call(0).is_some() {
            assert!(area.has_sends_before(area.end_of_sends()));
        }
        guest.join().unwrap();
    });
}

#[test]
fn the_credit_of_a_queue_is_never_taken_for_another() {
    model(3, || {
        let area = area();
        let queue = |handle| SendQueue { handle, buffers: handle == 6, room: 0 };
        area.publish_row(0, Some((queue(5), 3)));
        let guest = thread::spawn({
            let area = area.clone();
            move || {
                let (row, buffers) = area.row_of(6)?;
                let mut posted = [(0, 0); SEND_QUEUES];
                let a = [0, 6, 0, 0, 0, 0, 0, 0, 0];
                let mut post = || area.post(&mut posted, row, hcall::SEND_SUB_CRQ, &a, &[]);
                Some((buffers, post(), post()))
            }
        });
        area.publish_row(0, Some((queue(6), 1)));
        if let Some(found) = guest.join().unwrap() {
            assert_eq!(found, (true, true, false), "flag, and room for one");
        }
    });
}
