use super::*;

fn connected() -> (EventFds, EventFd, EventFd) {
    let (line, vector) = (EventFd::new().unwrap(), EventFd::new().unwrap());
    let mut fds = EventFds::new(2);
    fds.connect_line(Some(line.try_clone().unwrap()));
    assert!(fds.connect(1, Some(vector.try_clone().unwrap())));
    (fds, line, vector)
}

#[test]
fn a_line_is_signalled_when_it_rises_and_not_while_it_stays_high() {
    let (mut fds, line, _) = connected();
    fds.set_irq_line(0, true);
    fds.set_irq_line(0, true);
    assert_eq!(line.take(), 1);
    fds.set_irq_line(0, false);
    assert_eq!(line.take(), 0);
}

#[test]
fn a_line_still_high_at_unmask_is_signalled_again() {
    let (mut fds, line, _) = connected();
    fds.set_irq_line(0, true);
    line.take();
    fds.unmask_line();
    assert_eq!(line.take(), 1);
    fds.set_irq_line(0, false);
    fds.unmask_line();
    assert_eq!(line.take(), 0);
}

#[test]
fn a_message_to_a_masked_vector_waits_for_the_unmask() {
    let (mut fds, _, vector) = connected();
    fds.message(1);
    assert_eq!(vector.take(), 1);
    fds.connect(1, None);
    fds.message(1);
    fds.message(1);
    assert_eq!(vector.take(), 0);
    fds.connect(1, Some(vector.try_clone().unwrap()));
    assert_eq!(vector.take(), 1, "one pending bit, however many messages");
    fds.connect(1, Some(vector.try_clone().unwrap()));
    assert_eq!(vector.take(), 0);
}

#[test]
fn a_reset_forgets_pending_messages() {
    let (mut fds, line, vector) = connected();
    fds.set_irq_line(0, true);
    fds.connect(1, None);
    fds.message(1);
    fds.reset();
    line.take();
    fds.connect_line(Some(line.try_clone().unwrap()));
    fds.connect(1, Some(vector.try_clone().unwrap()));
    assert_eq!((line.take(), vector.take()), (0, 0));
}

#[test]
fn interrupts_that_do_not_exist_are_counted() {
    let (mut fds, ..) = connected();
    fds.message(2);
    fds.set_irq_line(1, true);
    fds.set_irq_line(1, false);
    assert_eq!(fds.lost(), 2);
    assert!(!fds.connect(2, None));
}
