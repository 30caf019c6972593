use super::*;

fn ask(index: u32, flags: u32, start: u32, count: u32) -> SetIrqs {
    SetIrqs {
        argsz: 20.into(),
        flags: flags.into(),
        index: index.into(),
        start: start.into(),
        count: count.into(),
    }
}

fn connect(i: &mut Irqs, index: u32, start: u32) -> EventFd {
    let fd = EventFd::new().unwrap();
    let theirs = fd.try_clone().unwrap();
    i.set(&ask(index, irq_set::DATA_EVENTFD | irq_set::TRIGGER, start, 1), &[], vec![theirs])
        .unwrap();
    fd
}

#[test]
fn the_line_masks_itself_and_is_signalled_again_while_high() {
    let mut i = Irqs::new(true, (0, 0));
    let fd = connect(&mut i, INTX, 0);
    i.set_irq_line(true);
    i.set_irq_line(false);
    i.set_irq_line(true);
    assert_eq!(fd.take(), 1, "masked after the first");
    let unmask = ask(INTX, irq_set::DATA_NONE | irq_set::UNMASK, 0, 1);
    i.set(&unmask, &[], vec![]).unwrap();
    assert_eq!(fd.take(), 1);
    i.set_irq_line(false);
    i.set(&unmask, &[], vec![]).unwrap();
    assert_eq!(fd.take(), 0);
    i.set_irq_line(true);
    assert_eq!(fd.take(), 1);
}

#[test]
fn a_ringing_descriptor_unmasks_the_line() {
    let mut i = Irqs::new(true, (0, 0));
    let fd = connect(&mut i, INTX, 0);
    let bell = EventFd::new().unwrap();
    let theirs = bell.try_clone().unwrap();
    i.set(&ask(INTX, irq_set::DATA_EVENTFD | irq_set::UNMASK, 0, 1), &[], vec![theirs]).unwrap();
    i.set_irq_line(true);
    fd.take();
    i.check_unmask();
    assert_eq!(fd.take(), 0, "it has not rung");
    bell.signal();
    i.check_unmask();
    assert_eq!(fd.take(), 1);
}

#[test]
fn the_disable_bit_holds_the_line_back() {
    let mut i = Irqs::new(true, (0, 0));
    let fd = connect(&mut i, INTX, 0);
    i.disable_line(true);
    i.set_irq_line(true);
    assert_eq!(fd.take(), 0);
    i.disable_line(false);
    assert_eq!(fd.take(), 1);
}

#[test]
fn a_message_to_a_masked_vector_is_pending() {
    let mut i = Irqs::new(false, (0, 4));
    let fd = connect(&mut i, MSIX, 2);
    i.set(&ask(MSIX, irq_set::DATA_BOOL | irq_set::MASK, 1, 2), &[0, 1], vec![]).unwrap();
    assert!(!i.raise_msi(2) && !i.raise_msi(2));
    assert_eq!(fd.take(), 0);
    i.set(&ask(MSIX, irq_set::DATA_NONE | irq_set::UNMASK, 0, 4), &[], vec![]).unwrap();
    assert_eq!(fd.take(), 1, "one pending bit");
    i.raise_msi(1);
    assert_eq!(i.lost, 1, "not connected");
}

#[test]
fn no_fd_disconnects_and_count_zero_disconnects_all() {
    let mut i = Irqs::new(false, (0, 2));
    let (a, b) = (connect(&mut i, MSIX, 0), connect(&mut i, MSIX, 1));
    i.set(&ask(MSIX, irq_set::DATA_EVENTFD | irq_set::TRIGGER, 0, 1), &[], vec![]).unwrap();
    i.raise_msi(0);
    i.raise_msi(1);
    assert_eq!((a.take(), b.take(), i.lost), (0, 1, 1));
    i.set(&ask(MSIX, irq_set::DATA_NONE | irq_set::TRIGGER, 0, 0), &[], vec![]).unwrap();
    i.raise_msi(1);
    assert_eq!((b.take(), i.lost), (0, 2));
}

#[test]
fn what_does_not_exist_is_refused() {
    let mut i = Irqs::new(true, (0, 2));
    for wrong in [
        ask(MSIX, irq_set::DATA_NONE | irq_set::MASK, 1, 2),
        ask(MSIX, irq_set::DATA_NONE | irq_set::MASK, u32::MAX, 2),
        ask(MSI, irq_set::DATA_NONE | irq_set::TRIGGER, 0, 1),
        ask(5, irq_set::DATA_NONE | irq_set::TRIGGER, 0, 0),
        ask(MSIX, irq_set::DATA_NONE | irq_set::MASK | irq_set::UNMASK, 0, 1),
        ask(MSIX, irq_set::MASK, 0, 1),
    ] {
        assert_eq!(i.set(&wrong, &[0; 2], vec![]), Err(libc::EINVAL), "{wrong:?}");
    }
}

#[test]
fn a_reset_forgets_the_level() {
    let mut i = Irqs::new(true, (0, 0));
    i.set_irq_line(true);
    i.clear_pending();
    let fd = connect(&mut i, INTX, 0);
    assert_eq!(fd.take(), 0);
}

#[test]
fn after_a_descriptor_that_blocks_no_other_is_signalled() {
    let mut i = Irqs::new(true, (0, 3));
    let fds = [0, 1, 2].map(|n| connect(&mut i, MSIX, n));
    let line = connect(&mut i, INTX, 0);
    i.raise_msi(0);
    i.stuck = true;
    i.raise_msi(1);
    i.set_irq_line(true);
    i.set(&ask(MSIX, irq_set::DATA_NONE | irq_set::TRIGGER, 0, 3), &[], vec![]).unwrap();
    assert_eq!(fds.map(|fd| fd.take()), [1, 0, 0]);
    assert_eq!(line.take(), 0);
    i.disconnect();
    assert!(!i.stuck, "the next client's are");
}
