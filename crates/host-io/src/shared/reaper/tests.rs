use super::*;
use std::io::Read;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{ThreadId, current};

/// Sends the thread that drops it.
struct Dropped(Sender<ThreadId>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(current().id());
    }
}

#[test]
fn memory_is_freed_elsewhere_until_the_queue_is_full() {
    let (send, threads) = channel();
    let (end, waits): (_, Receiver<()>) = channel();
    FREER.put(Box::new(move || _ = waits.recv()));
    for n in 1..FREED {
        // Another test may free some, too.
        assert!(n > FREED_FOR_CLIENTS || may_accept() || FREER.held() > n);
        free(Dropped(send.clone()));
    }
    assert!(!may_accept(), "clients would bring more");
    assert!(threads.try_recv().is_err(), "the queue is not full");
    free(Dropped(send.clone()));
    assert_eq!(threads.recv().unwrap(), current().id());
    drop(end);
    for _ in 1..FREED {
        assert_ne!(threads.recv().unwrap(), current().id());
    }
}

#[test]
fn the_peer_of_a_connection_sees_its_end_at_once() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let copy = theirs.try_clone().unwrap();
    drop(Reaped::connection(theirs));
    assert_eq!(ours.read(&mut [0]).unwrap(), 0, "before the last close");
    drop(copy);
}
