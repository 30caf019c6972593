//! Room for the memory of runs.

use super::*;

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
