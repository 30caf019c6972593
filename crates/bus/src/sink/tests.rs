use super::*;

#[test]
fn a_capture_keeps_order_once_started() {
    let at = |ns: u64| Time::from_ps(ns * 1000);
    let shared = Rc::new(RefCell::new(Capture::default()));
    let (mut one, mut other) = (Rc::clone(&shared), Rc::clone(&shared));
    one.emit(at(0), b"early");
    shared.borrow_mut().start();
    one.emit(at(1), b"one");
    other.emit(at(2), b"three");
    let mut got = vec![];
    let kept = shared.borrow_mut().drain(|at, f| {
        got.push((at, f.to_vec()));
        Ok::<(), ()>(())
    });
    assert_eq!(kept, Ok(()));
    assert_eq!(got, [(at(1), b"one".to_vec()), (at(2), b"three".to_vec())]);
}
