//! The order in which threads get a core.

use super::*;

#[test]
fn the_lowest_rank_gets_the_next_core() {
    let cores = Cores::new(1);
    let got = Mutex::new(Vec::new());
    let ranks = [[1, 1, 0], [0, 1, 0], [1, 0, 2], [1, 0, 1]];
    std::thread::scope(|scope| {
        let first = cores.take([9; 3]);
        for rank in ranks {
            let (cores, got) = (&cores, &got);
            scope.spawn(move || {
                let _core = cores.take(rank);
                got.lock().unwrap().push(rank);
            });
        }
        while cores.lock().waiting.len() < ranks.len() {
            std::thread::yield_now();
        }
        drop(first);
    });
    let mut sorted = ranks;
    sorted.sort_unstable();
    assert_eq!(got.into_inner().unwrap(), sorted);
}

#[test]
fn no_more_is_taken_than_there_is() {
    static ROOMS: Rooms = Rooms::new(10);
    let most = Mutex::new(0);
    std::thread::scope(|scope| {
        for amount in [3, 9, 4, 3, 25, 6] {
            let most = &most;
            scope.spawn(move || {
                let _room = ROOMS.take(amount);
                let now = *ROOMS.lock();
                let mut most = most.lock().unwrap();
                *most = now.max(*most);
                // More than there is runs alone.
                assert!(now <= 10 || now == 25, "{now}");
            });
        }
    });
    assert_eq!((*ROOMS.lock(), *most.lock().unwrap()), (0, 25));
}
