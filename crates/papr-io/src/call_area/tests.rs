use super::*;
use std::sync::atomic::AtomicBool;

#[test]
fn each_cpu_gets_its_own_answer() {
    let (board, file) = CallArea::create().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let server = CallArea::open(&file).unwrap();
            let mut n = 0u32;
            while !stop.load(Ordering::Relaxed) {
                for cpu in 0..4 {
                    let Some((call, a)) = server.pending_call(cpu) else { continue };
                    n += 1;
                    // Now and then so late that the CPU sleeps.
                    if n.is_multiple_of(50) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    let mut ret = [0; 9];
                    (ret[0], ret[8]) = (a[0] + a[8], cpu as u64);
                    server.answer(cpu, &HcallReturn { status: call.0 as i64, ret });
                }
            }
        });
        let askers: Vec<_> = (0..4u64)
            .map(|cpu| {
                let board = &board;
                s.spawn(move || {
                    for i in 0..500 {
                        let a = [i, 0, 0, 0, 0, 0, 0, 0, cpu];
                        let r = board.call(cpu as usize, i, &a, || (), || false).unwrap();
                        assert_eq!((r.status, r.ret[0], r.ret[8]), (i as i64, i + cpu, cpu));
                    }
                })
            })
            .collect();
        askers.into_iter().for_each(|a| a.join().unwrap());
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_sleeping_server_is_rung_and_one_that_is_gone_is_not_waited_for() {
    let (board, _) = CallArea::create().unwrap();
    board.set_sleeping(true);
    let rung = AtomicBool::new(false);
    let gone = AtomicBool::new(false);
    let ring = || {
        rung.store(true, Ordering::Relaxed);
        gone.store(true, Ordering::Relaxed);
    };
    assert_eq!(board.call(3, 4, &[0; 9], ring, || gone.load(Ordering::Relaxed)), None);
    assert!(rung.load(Ordering::Relaxed));
    assert_eq!(board.pending_call(3), Some((Hcall(4), [0; 9])), "it stays, and nobody answers it");
    assert_eq!(board.call(3, 4, &[0; 9], || (), || false), None, "nor is another put on it");
}
