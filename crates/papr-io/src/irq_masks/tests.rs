use super::*;
use crate::PluginStats;
use std::time::Instant;

#[test]
fn an_interrupt_that_comes_while_it_is_off_is_kept_once_or_not_at_all() {
    let (b, _) = CallArea::create().unwrap();
    let raised = |what| {
        let mut n = Vec::new();
        b.change_masks(what, |i| n.push(i)).map(|()| n)
    };
    assert_eq!(raised(MaskChange::One(3, true)), None, "there is none");
    b.register(3, true);
    b.register(0, false);
    assert!(!b.admit(3) && !b.admit(3) && !b.admit(0));
    assert_eq!(raised(MaskChange::One(3, true)), Some(vec![3]));
    assert_eq!(raised(MaskChange::One(3, true)), Some(vec![]));
    assert_eq!(raised(MaskChange::One(0, true)), Some(vec![]), "a logical LAN's is not kept");
    assert!(b.admit(3) && b.admit(0));
    assert!(!b.admit(3), "one is on its way");
    assert!(b.admit_arrived(3) && b.admit(3) && b.admit_arrived(3) && b.admit_arrived(0));
    assert_eq!(raised(MaskChange::AllOff), Some(vec![]));
    assert!(!b.admit(3) && !b.admit(0));
    b.unregister(3);
    assert_eq!(raised(MaskChange::One(3, true)), None, "freed, with what was kept");
    b.register(3, true);
    assert!(!b.admit_arrived(3), "switched off while it was on its way");
    assert_eq!(raised(MaskChange::One(3, true)), Some(vec![3]));
    assert!(b.admit_arrived(3));
    let counted = PluginStats { raised: 2, held: 1, ..PluginStats::default() };
    assert_eq!(b.counts(), counted);
}

#[test]
fn calls_of_other_interrupts_and_other_adapters_switch_nothing() {
    let a = |x, y| [0x3000_0003, x, y, 0, 0, 0, 0, 0, 0];
    let vnic = |call, x, y| mask_change(VNIC, 0x3000_0003, call, &a(x, y));
    let first = u64::from(sub_crq_interrupts(0x3000_0003));
    let vioctl = hcall::VIOCTL;
    assert_eq!(vnic(vioctl, vioctl::ENABLE_VIO_INTERRUPT, first), Some(MaskChange::One(1, true)));
    assert_eq!(
        vnic(vioctl, vioctl::DISABLE_VIO_INTERRUPT, first + 63),
        Some(MaskChange::One(64, false))
    );
    assert_eq!(vnic(vioctl, vioctl::DISABLE_VIO_INTERRUPT, first + 64), None);
    assert_eq!(vnic(vioctl, vioctl::DISABLE_VIO_INTERRUPT, u64::MAX), None);
    assert_eq!(vnic(vioctl, vioctl::GET_SESSION_TOKEN, first), None);
    assert_eq!(vnic(vioctl, vioctl::DISABLE_ALL_VIO_INTERRUPTS, 0), Some(MaskChange::AllOff));
    assert_eq!(vnic(ibmveth::H_VIO_SIGNAL, 1, 0), Some(MaskChange::One(0, true)));
    assert_eq!(vnic(ibmveth::H_VIO_SIGNAL, 2, 0), None);
    assert_eq!(
        mask_change(
            super::super::VETH,
            0x3000_0002,
            vioctl,
            &a(vioctl::ENABLE_VIO_INTERRUPT, first)
        ),
        None
    );
}

/// Runs a driver that empties a queue and unmasks against a device that fills it. Each entry must
/// be found by a poll or announced by an interrupt. With `latches` the driver does not poll after
/// unmasking.
fn race(latches: bool) {
    const ALL: u64 = if cfg!(miri) { 30 } else { 20_000 };
    let (b, _) = CallArea::create().unwrap();
    b.register(0, latches);
    let [entries, sent, told, taken] = [const { AtomicU64::new(0) }; 4];
    let since = Instant::now();
    let lost = |at| assert!(since.elapsed().as_secs() < 60, "a wake-up is lost at {at}");
    std::thread::scope(|s| {
        s.spawn(|| {
            for n in 1..=ALL {
                entries.store(n, Ordering::Release);
                if b.admit(0) {
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
                    told.fetch_add(b.admit_arrived(0).into(), Ordering::Release);
                }
                std::thread::yield_now();
            }
        });
        let (mut seen, mut heard) = (0, 0);
        while seen < ALL {
            let raise = |_| _ = told.fetch_add(1, Ordering::Release);
            assert_eq!(b.change_masks(MaskChange::One(0, true), raise), Some(()));
            let looked = if latches { seen } else { entries.load(Ordering::Acquire) };
            while looked == seen && told.load(Ordering::Acquire) == heard {
                lost(seen);
                std::thread::yield_now();
            }
            assert_eq!(b.change_masks(MaskChange::One(0, false), |_| ()), Some(()));
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
