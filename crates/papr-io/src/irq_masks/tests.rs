use super::*;
use std::time::Instant;

#[test]
fn an_interrupt_that_comes_while_it_is_off_is_kept_once_or_not_at_all() {
    let (b, _) = Board::create().unwrap();
    let raised = |what| {
        let mut n = Vec::new();
        b.switch(what, |i| n.push(i)).map(|()| n)
    };
    assert_eq!(raised(Switch::One(3, true)), None, "there is none");
    b.arm(3, true);
    b.arm(0, false);
    assert!(!b.admits(3) && !b.admits(3) && !b.admits(0));
    assert_eq!(raised(Switch::One(3, true)), Some(vec![3]));
    assert_eq!(raised(Switch::One(3, true)), Some(vec![]));
    assert_eq!(raised(Switch::One(0, true)), Some(vec![]), "a logical LAN's is not kept");
    assert!(b.admits(3) && b.admits(0));
    assert!(!b.admits(3), "one is on its way");
    assert!(b.comes(3) && b.admits(3) && b.comes(3) && b.comes(0));
    assert_eq!(raised(Switch::AllOff), Some(vec![]));
    assert!(!b.admits(3) && !b.admits(0));
    b.disarm(3);
    assert_eq!(raised(Switch::One(3, true)), None, "freed, with what was kept");
    b.arm(3, true);
    assert!(!b.comes(3), "switched off while it was on its way");
    assert_eq!(raised(Switch::One(3, true)), Some(vec![3]));
    assert!(b.comes(3));
    assert_eq!(b.switch_counts(), [0, 0, 2, 1]);
}

#[test]
fn calls_of_other_interrupts_and_other_adapters_switch_nothing() {
    let a = |x, y| [0x3000_0003, x, y, 0, 0, 0, 0, 0, 0];
    let vnic = |call, x, y| switch(VNIC, 0x3000_0003, call, &a(x, y));
    let first = u64::from(sub_crq_interrupts(0x3000_0003));
    let vioctl = ibmvnic::hcall::VIOCTL;
    assert_eq!(vnic(vioctl, vioctl::ENABLE_VIO_INTERRUPT, first), Some(Switch::One(1, true)));
    assert_eq!(
        vnic(vioctl, vioctl::DISABLE_VIO_INTERRUPT, first + 63),
        Some(Switch::One(64, false))
    );
    assert_eq!(vnic(vioctl, vioctl::DISABLE_VIO_INTERRUPT, first + 64), None);
    assert_eq!(vnic(vioctl, vioctl::DISABLE_VIO_INTERRUPT, u64::MAX), None);
    assert_eq!(vnic(vioctl, vioctl::GET_SESSION_TOKEN, first), None);
    assert_eq!(vnic(vioctl, vioctl::DISABLE_ALL_VIO_INTERRUPTS, 0), Some(Switch::AllOff));
    assert_eq!(vnic(ibmveth::H_VIO_SIGNAL, 1, 0), Some(Switch::One(0, true)));
    assert_eq!(vnic(ibmveth::H_VIO_SIGNAL, 2, 0), None);
    assert_eq!(
        switch(super::super::VETH, 0x3000_0002, vioctl, &a(vioctl::ENABLE_VIO_INTERRUPT, first)),
        None
    );
}

/// A driver that empties a queue and switches on, against a device that fills it and waits now and
/// then until all is seen: each entry is found by a look or told of by an interrupt. `keeps`: the
/// vNIC's way, here without a second look.
fn race(keeps: bool) {
    const ALL: u64 = 20_000;
    let (b, _) = Board::create().unwrap();
    b.arm(0, keeps);
    let [entries, sent, told, taken] = [const { AtomicU64::new(0) }; 4];
    let since = Instant::now();
    let lost = |at| assert!(since.elapsed().as_secs() < 60, "a wake-up is lost at {at}");
    std::thread::scope(|s| {
        s.spawn(|| {
            for n in 1..=ALL {
                entries.store(n, Ordering::Release);
                if b.admits(0) {
                    sent.fetch_add(1, Ordering::Release);
                }
                while n % 3 == 0 && taken.load(Ordering::Acquire) < n {
                    lost(n);
                    std::thread::yield_now();
                }
            }
        });
        s.spawn(|| {
            let mut come = 0;
            while taken.load(Ordering::Acquire) < ALL {
                if come < sent.load(Ordering::Acquire) {
                    come += 1;
                    told.fetch_add(b.comes(0).into(), Ordering::Release);
                }
                std::thread::yield_now();
            }
        });
        let (mut seen, mut heard) = (0, 0);
        while seen < ALL {
            let raise = |_| _ = told.fetch_add(1, Ordering::Release);
            assert_eq!(b.switch(Switch::One(0, true), raise), Some(()));
            let looked = if keeps { seen } else { entries.load(Ordering::Acquire) };
            while looked == seen && told.load(Ordering::Acquire) == heard {
                lost(seen);
                std::thread::yield_now();
            }
            assert_eq!(b.switch(Switch::One(0, false), |_| ()), Some(()));
            heard = told.load(Ordering::Acquire);
            seen = entries.load(Ordering::Acquire);
            taken.store(seen, Ordering::Release);
        }
    });
}

#[test]
fn no_wake_up_is_lost_between_switching_on_and_an_interrupt() {
    race(true);
    race(false);
}
