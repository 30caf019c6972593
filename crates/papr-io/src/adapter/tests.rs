//! Servers that lie, stop within a message, or write what they like.

use super::super::{CALL_AREA_BYTES, CPUS, call_area::QUEUES};
use super::*;
use doorbell_host_io::shared::memfd;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::io::Write;
use std::net::Shutdown;

const UNIT: u32 = 0x3000_0003;
const HANDLE: u64 = 0x17000;

/// Returns the sockets of plug-in and server, and the result of a handshake that the server answers
/// with `welcome`.
fn greeted(welcome: &[u8]) -> (UnixStream, UnixStream, io::Result<Adapter>) {
    let (socket, mut server) = UnixStream::pair().unwrap();
    let offer = Handshake::send(&socket).unwrap();
    server.write_all(welcome).unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    let adapter = offer.finish(&socket, |_, _| true);
    (socket, server, adapter)
}

fn welcome(kind: u32, unit: u32) -> [u8; 16] {
    message(WELCOME, u64::from(kind) << 32 | u64::from(unit))
}

/// Returns the interrupts that pass, all of which are registered and open, if the server sends all
/// numbers of 17 bits and some longer ones.
fn passed(kind: u32) -> Vec<u16> {
    let adapter = greeted(&welcome(kind, UNIT)).2.unwrap();
    for n in 0..irq_masks::INTERRUPTS {
        adapter.area.register(n, true);
        let _ = adapter.area.change_masks(irq_masks::MaskChange::One(n, true), |_| ());
    }
    let (socket, mut server) = UnixStream::pair().unwrap();
    let sends = std::thread::spawn(move || {
        let own = u64::from(unit_interrupt(UNIT));
        let long = [own | 1 << 32, own | 1 << 63, u64::MAX, i32::MAX as u64];
        for n in (0..1 << 17).chain(long) {
            server.write_all(&message(INTERRUPT, n)).unwrap();
        }
    });
    let mut raised = Vec::new();
    adapter.listen(&socket, |n| raised.push(n));
    sends.join().unwrap();
    raised
}

#[test]
fn interrupts_of_other_devices_are_dropped() {
    let own = unit_interrupt(UNIT);
    assert_eq!(passed(VETH), [own]);
    let first = sub_crq_interrupts(UNIT);
    assert_eq!(passed(VNIC), (first..first + SUB_CRQS).chain([own]).collect::<Vec<_>>());
}

#[test]
fn a_nonsensical_welcome_is_refused() {
    let refused = |bytes: &[u8]| greeted(bytes).2.unwrap_err().to_string();
    assert!(refused(&[]).contains("no partition left"));
    assert!(refused(&welcome(VNIC, UNIT)[..15]).contains("no partition left"));
    assert!(refused(&message(WELCOME + 1, 1 << 32 | 5)).contains("unknown kind"));
    for kind in [0, 3, u32::MAX] {
        assert!(refused(&welcome(kind, UNIT)).contains("unknown kind"), "{kind}");
    }
    for unit in [0, UNITS.end, 0x8000_0000, u32::MAX] {
        assert!(refused(&welcome(VETH, unit)).contains("sent the unit"), "{unit:#x}");
    }
}

#[test]
fn a_server_is_not_awaited_for_ever() {
    let (socket, _server, refused) = greeted(&[]);
    assert!(refused.is_err());
    assert_eq!(socket.read_timeout().unwrap(), Some(PATIENCE));
}

#[test]
fn a_message_whose_bytes_drip_is_not_awaited_longer() {
    let (socket, mut server) = UnixStream::pair().unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let drips = std::thread::spawn(move || {
        // Each comes before a read of its own would end.
        while server.write_all(&[0]).is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    assert_eq!(read_message(&socket).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(socket);
    drips.join().unwrap();
}

#[test]
fn a_socket_that_does_not_block_is_not_waited_on() {
    let (socket, _server) = UnixStream::pair().unwrap();
    socket.set_nonblocking(true).unwrap();
    // Without a limit: a wait would never end.
    socket.set_read_timeout(None).unwrap();
    assert_eq!(read_message(&socket).unwrap_err().kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn half_a_message_ends_the_connection() {
    let adapter = greeted(&welcome(VETH, UNIT)).2.unwrap();
    let (socket, mut server) = UnixStream::pair().unwrap();
    server.write_all(&message(INTERRUPT, 1)[..9]).unwrap();
    adapter.listen(&socket, |_| panic!("none has arrived"));
    assert_eq!(adapter.forward(0, 0x999, &[UNIT.into(), 0, 0, 0, 0, 0, 0, 0, 0]), None);
    drop(server);
}

#[test]
fn a_full_doorbell_is_emptied() {
    let (socket, mut server) = UnixStream::pair().unwrap();
    let adapter = greeted(&welcome(VETH, UNIT)).2.unwrap();
    // As the server's: one description, whose flags and counter both can change.
    let theirs: std::os::fd::OwnedFd = adapter.bell.try_clone().unwrap().into();
    fcntl_setfl(&theirs, fcntl_getfl(&theirs).unwrap() - OFlags::NONBLOCK).unwrap();
    let fill = || rustix::io::write(&theirs, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    adapter.area.register(0, false);
    let _ = adapter.area.change_masks(irq_masks::MaskChange::One(0, true), |_| ());
    for _ in 0..2 {
        server.write_all(&message(INTERRUPT, unit_interrupt(UNIT).into())).unwrap();
    }
    drop(server);
    let mut counts = Vec::new();
    adapter.listen(&socket, |_| {
        counts.push(adapter.bell.take());
        fill();
    });
    counts.push(adapter.bell.take());
    // The second and third time it was full.
    assert_eq!(counts, [0; 3]);
    adapter.bell.signal();
    adapter.bell.empty_if_full();
    assert_eq!(adapter.bell.take(), 1, "a call's ring is not lost");
}

#[test]
fn calls_stand_a_server_that_writes_anything() {
    let adapter = greeted(&welcome(VNIC, UNIT)).2.unwrap();
    let memory = Window::map(&memfd(c"m", 8192).unwrap(), 0, 8192, true).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    // Xorshift64.
    let mut random = move || {
        for shift in [13, -7, 17] {
            state ^= if shift > 0 { state << shift } else { state >> -shift };
        }
        state
    };
    let calls = [H_PUT_TCE, H_STUFF_TCE, H_PUT_TCE_INDIRECT, H_GET_TCE, hcall::VIO_SIGNAL]
        .into_iter()
        .chain([hcall::VIOCTL, hcall::SEND_SUB_CRQ, hcall::SEND_SUB_CRQ_INDIRECT, hcall::REG_CRQ]);
    let calls: Vec<u64> = calls.collect();
    let mut answered = [0; 2];
    for round in 0..20_000u64 {
        for _ in 0..8 {
            let at = random() as usize % (CALL_AREA_BYTES / 8) * 8;
            adapter.area.store(at, random() >> (random() % 64));
        }
        // A row for the handle that is sent to, with a limit that is nearly or wholly endless.
        adapter.area.store(QUEUES, HANDLE);
        adapter.area.store(QUEUES + 16, u64::MAX - random() % 2);
        let word = |r: u64| r >> (r % 64);
        let mut a = std::array::from_fn(|_| word(random()));
        a[0] = UNIT.into();
        if round % 2 == 0 {
            (a[1], a[3]) = (HANDLE, 1 + a[3] % 16);
        }
        let call = calls[random() as usize % calls.len()];
        let own = |v: u16| assert!(v == unit_interrupt(UNIT) || v >= sub_crq_interrupts(UNIT));
        let result = adapter.answer_locally(call, &a, || Some(&memory), own);
        answered[usize::from(result == LocalResult::Forward)] += 1;
        let cpu = random() as usize % (2 * CPUS);
        let _ = adapter.begin_call(cpu, call, &a);
        let _ = adapter.take_answer(cpu);
    }
    assert!(answered.iter().all(|n| *n > 1000), "{answered:?}");
}
