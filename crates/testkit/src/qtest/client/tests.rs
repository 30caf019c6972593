use super::*;
use std::io::{BufRead, BufReader};
use std::thread::{self, JoinHandle};

/// A QEMU that expects these commands and gives these answers, then closes.
fn scripted(script: &'static [(&'static str, &'static str)]) -> (Qemu, JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let qemu = thread::spawn(move || {
        let mut commands = BufReader::new(theirs.try_clone().unwrap()).lines();
        for (command, answer) in script {
            assert_eq!(commands.next().unwrap().unwrap(), *command);
            (&theirs).write_all(answer.as_bytes()).unwrap();
        }
    });
    (Qemu::over(ours, None, Duration::from_secs(5)).unwrap(), qemu)
}

#[test]
fn commands_are_written_and_answers_read_as_qemu_has_them() {
    let (mut q, qemu) = scripted(&[
        ("readl 0xfebc0008", "OK 0x0000000080080783\n"),
        ("writel 0xfebc3818 0x1", "OK\n"),
        ("writeq 0x10 0x123456789a", "OK\n"),
        ("outl 0xcf8 0x80002000", "OK\n"),
        ("inl 0xcfc", "OK 0x100e8086\n"),
        ("write 0x1000 0x3 0x00ff7e", "OK\n"),
        ("read 0x1000 0x3", "OK 0x00ff7e\n"),
        ("clock_step 2", "OK 1000\n"),
    ]);
    assert_eq!(q.read32(0xfebc_0008).unwrap(), 0x8008_0783);
    q.write32(0xfebc_3818, 1).unwrap();
    q.write64(0x10, 0x12_3456_789a).unwrap();
    q.out32(0xcf8, 0x8000_2000).unwrap();
    assert_eq!(q.in32(0xcfc).unwrap(), 0x100e_8086);
    q.write(0x1000, &[0, 0xff, 0x7e]).unwrap();
    let mut bytes = [0; 3];
    q.read(0x1000, &mut bytes).unwrap();
    assert_eq!(bytes, [0, 0xff, 0x7e]);
    assert_eq!(q.step(Span::from_ps(1_001)).unwrap(), Time::from_ps(1_000_000));
    qemu.join().unwrap();
}

#[test]
fn interrupt_lines_change_before_the_answer_to_what_changed_them() {
    let (mut q, qemu) = scripted(&[
        ("writel 0x0 0x1", "IRQ raise 11\nIRQ lower 0\nOK\n"),
        ("readl 0x0", "IRQ lower 11\nOK 0x1\n"),
    ]);
    q.write32(0, 1).unwrap();
    assert!(q.level(11) && !q.level(0) && !q.level(3));
    q.read32(0).unwrap();
    assert!(!q.level(11));
    let events: Vec<_> = std::iter::from_fn(|| q.take_event()).map(|e| (e.line, e.high)).collect();
    assert_eq!(events, [(11, true), (0, false), (11, false)]);
    qemu.join().unwrap();
}

#[test]
fn a_refusal_and_an_answer_without_sense_are_errors() {
    let (mut q, qemu) = scripted(&[
        ("irq_intercept_in nobody", "FAIL Unknown device\n"),
        ("readl 0x0", "OK zero\n"),
        ("read 0x0 0x2", "OK 0x0\n"),
    ]);
    assert_eq!(
        q.intercept("nobody").unwrap_err().to_string(),
        "QEMU was asked \"irq_intercept_in nobody\" and answered \"FAIL Unknown device\""
    );
    assert!(matches!(q.read32(0), Err(Error::Answer { .. })));
    assert!(matches!(q.read(0, &mut [0; 2]), Err(Error::Answer { .. })));
    qemu.join().unwrap();
}

#[test]
fn a_qemu_that_ends_is_an_error() {
    let (mut q, qemu) = scripted(&[("readl 0x0", "OK 0x")]);
    assert!(matches!(q.read32(0), Err(Error::Exited { .. })));
    qemu.join().unwrap();
    assert!(matches!(q.read32(0), Err(Error::Exited { .. })));
}

#[test]
fn a_qemu_that_does_not_answer_is_an_error() {
    let (ours, _theirs) = UnixStream::pair().unwrap();
    let mut q = Qemu::over(ours, None, Duration::from_millis(50)).unwrap();
    assert!(matches!(q.read32(0), Err(Error::Silent { .. })));
}
