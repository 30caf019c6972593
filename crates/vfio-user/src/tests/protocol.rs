//! Messages: introduction, regions, interrupts, resets, and what breaks a connection.

use super::client::Client;
use super::*;
use crate::message::{
    Access, HEADER, IrqInfo, MAX_MESSAGE, RegionInfo, ShortWrite, command, flag, write,
};
use crate::{ConnectionError, Limits};
use std::io::Write;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

#[test]
fn a_silent_client_is_dropped_unless_it_was_introduced() {
    let limits = Limits { hello: Duration::ZERO, ..Limits::default() };
    let (f, c) = connected();
    let mut f = f.with_limits(limits);
    assert_eq!(c.serve(&mut f).unwrap(), 0, "it has been introduced");
    let (_silent, ours) = UnixStream::pair().unwrap();
    f.connect(c.now, ours).unwrap();
    assert!(matches!(c.serve(&mut f), Err(ConnectionError::Silent)));
    assert!(!f.connected());
}

#[test]
fn the_device_describes_itself() {
    let (mut f, mut c) = connected();
    let info = c.ask(&mut f, command::DEVICE_GET_INFO, &[&[0; 16]], &[]).unwrap();
    let words: Vec<u32> = info.as_chunks().0.iter().map(|b| u32::from_ne_bytes(*b)).collect();
    assert_eq!(words, [16, 3, 9, 5], "resets, PCI, regions, interrupts");
    assert_eq!(c.read(&mut f, 7, 0, 4).unwrap(), [0x34, 0x12, 0x78, 0x56]);
    assert_eq!(c.read(&mut f, 7, 4095, 2), Err(libc::EINVAL));
}

fn region(c: &mut Client, f: &mut Served, index: u32, argsz: u32) -> Vec<u8> {
    let ask = RegionInfo {
        argsz: argsz.into(),
        flags: 0.into(),
        index: index.into(),
        cap_offset: 0.into(),
        size: 0.into(),
        offset: 0.into(),
    };
    c.ask(f, command::DEVICE_GET_REGION_INFO, &[ask.as_bytes()], &[]).unwrap_or_default()
}

#[test]
fn regions_have_sizes_and_one_can_be_mapped() {
    let (mut f, mut c) = connected();
    let sizes: Vec<u64> = (0..9)
        .map(|i| RegionInfo::read_from_prefix(&region(&mut c, &mut f, i, 32)).unwrap().0.size.get())
        .collect();
    assert_eq!(sizes, [1 << 16, 0, 64, 0, 0, 0, 0, 4096, 0]);
    assert!(region(&mut c, &mut f, 9, 32).is_empty(), "there is no tenth");
    let short = region(&mut c, &mut f, 0, 32);
    assert_eq!(
        (short.len(), short[0], short[12]),
        (32, 64, 32),
        "no room: how much it takes, and where"
    );
    let whole = region(&mut c, &mut f, 0, 64);
    assert_eq!(whole.len(), 64);
    let area: Vec<u64> = whole[48..].as_chunks().0.iter().map(|b| u64::from_ne_bytes(*b)).collect();
    assert_eq!((whole[4], whole[12], whole[32], area), (0xf, 32, 1, vec![0x8000, 0x2000]));
}

#[test]
fn interrupts_are_counted_by_kind() {
    let (mut f, mut c) = connected();
    let mut counts = vec![];
    for index in 0..6u32 {
        let ask =
            IrqInfo { argsz: 16.into(), flags: 0.into(), index: index.into(), count: 0.into() };
        let info = c.ask(&mut f, command::DEVICE_GET_IRQ_INFO, &[ask.as_bytes()], &[]);
        counts.push(info.map(|b| IrqInfo::read_from_prefix(&b).unwrap().0.count.get()));
    }
    assert_eq!(counts, [Ok(1), Ok(0), Ok(20), Err(libc::EINVAL), Ok(0), Err(libc::EINVAL)]);
    let line = c.connect_irq(&mut f, 0, 0);
    let vector = c.connect_irq(&mut f, 2, 19);
    c.enable(&mut f);
    c.set(&mut f, toy::RAISE, 1);
    c.set(&mut f, toy::RAISE, 2 + 19);
    assert_eq!((line.take(), vector.take()), (1, 1));
    assert_eq!(c.read(&mut f, 7, 6, 1).unwrap()[0] & 8, 8, "the line shows in the status register");
    c.set(&mut f, toy::RAISE, 2 + 20);
    assert_eq!(f.lost_interrupts(), 1);
}

#[test]
fn registers_are_accessed_in_pieces_as_wide_as_they_are_aligned() {
    let (mut f, mut c) = connected();
    c.set(&mut f, toy::SCRATCH, 0x0807_0605_0403_0201);
    assert_eq!(c.read(&mut f, 0, 0, 8).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(c.read(&mut f, 0, 1, 7).unwrap(), [2, 3, 4, 5, 6, 7, 8]);
    let before = f.observer().registers;
    c.read(&mut f, 0, 1, 7).unwrap();
    assert_eq!(f.observer().registers - before, 3, "1, 2 and 4 bytes");
    assert_eq!(c.read(&mut f, 0, (1 << 16) - 4, 8), Err(libc::EINVAL));
    assert_eq!(c.read(&mut f, 0, u64::MAX, 8), Err(libc::EINVAL));
    assert_eq!(c.read(&mut f, 1, 0, 4), Err(libc::EINVAL), "the upper half of BAR 0");
    assert_eq!(c.read(&mut f, 0, 0, 8192), Err(libc::E2BIG));
    assert_eq!(c.write(&mut f, 99, 0, &[0]), Err(libc::EINVAL));
}

#[test]
fn the_msix_table_is_kept_from_the_device() {
    let (mut f, mut c) = connected();
    c.write(&mut f, 0, 0x2000, &[0xff; 16]).unwrap();
    assert_eq!(c.read(&mut f, 0, 0x2000, 16).unwrap(), [0; 16]);
    assert_eq!(f.observer().registers, 0);
}

#[test]
fn a_write_that_wants_no_reply_gets_none() {
    let (mut f, mut c) = connected();
    let a = Access { offset: 0.into(), region: 0.into(), count: 8.into() };
    c.send(command::REGION_WRITE, flag::NO_REPLY, &[a.as_bytes(), &7u64.to_le_bytes()], &[]);
    assert_eq!(
        c.get(&mut f, toy::SCRATCH),
        7,
        "served in order, and the only reply is to the read"
    );
}

#[test]
fn coalesced_writes_are_made_in_order() {
    let (mut f, mut c) = connected();
    let one = |v: u64| ShortWrite {
        offset: 0.into(),
        region: 0.into(),
        count: 8.into(),
        data: v.to_le_bytes(),
    };
    let body = c
        .ask(
            &mut f,
            command::REGION_WRITE_MULTI,
            &[&2u64.to_ne_bytes(), one(1).as_bytes(), one(2).as_bytes()],
            &[],
        )
        .unwrap();
    assert_eq!(body, 2u64.to_ne_bytes());
    assert_eq!(c.get(&mut f, toy::SCRATCH), 2);
}

#[test]
fn what_is_rung_in_a_polled_page_reaches_the_device_once() {
    use doorbell_host_io::shared::Window;
    let (mut f, mut c) = connected();
    // The file that a client would map; here, the function's own.
    let file = std::fs::File::from(f.pages.as_ref().unwrap().fd().try_clone_to_owned().unwrap());
    let guest = Window::map(&file, PAGES.into(), 8192, true).unwrap();
    assert!(f.polls() && !f.poll_pages(Time::ZERO));
    guest.write(4096 + 0x800, &0xabcd_u64.to_le_bytes());
    assert!(f.poll_pages(Time::ZERO) && !f.poll_pages(Time::ZERO));
    assert_eq!((c.get(&mut f, toy::BELL), f.observer().untrapped), (0xabcd, 1));
    guest.write(0x20, &[1; 8]);
    c.ask(&mut f, command::DEVICE_RESET, &[], &[]).unwrap();
    assert!(!f.poll_pages(Time::ZERO), "a reset empties the pages");
    guest.write(0x20, &[1; 8]);
    drop(c);
    assert!(f.serve(|| Time::ZERO).is_err());
    assert!(!f.polls() && !f.poll_pages(Time::ZERO));
    connect(&mut f);
    assert!(!f.poll_pages(Time::ZERO), "and so does a new client");
}

#[test]
fn a_client_that_has_gone_does_not_ring_for_the_next() {
    use doorbell_host_io::shared::Window;
    let (mut f, c) = connected();
    let file = std::fs::File::from(f.pages.as_ref().unwrap().fd().try_clone_to_owned().unwrap());
    let kept = Window::map(&file, PAGES.into(), 8192, true).unwrap();
    drop(c);
    assert!(f.serve(|| Time::ZERO).is_err());
    let _next = connect(&mut f);
    kept.write(0x20, &[1; 8]);
    assert!(f.polls() && !f.poll_pages(Time::ZERO));
}

#[test]
fn messages_may_come_in_pieces_and_in_bunches() {
    let (mut f, mut c) = connected();
    let a = Access { offset: 0.into(), region: 0.into(), count: 8.into() };
    let mut bytes = vec![];
    for v in 1..=3u64 {
        let mut one = vec![];
        write(&mut one, v as u16, command::REGION_WRITE, 0, 0, &[a.as_bytes(), &v.to_le_bytes()]);
        bytes.extend(one);
    }
    let (first, rest) = bytes.split_at(30);
    c.socket.write_all(first).unwrap();
    assert_eq!(c.serve(&mut f).unwrap(), 0, "half a message is none");
    c.socket.write_all(rest).unwrap();
    assert_eq!(c.serve(&mut f).unwrap(), 3);
    let ids: Vec<u16> = (0..3).map(|_| c.reply().unwrap().0.id.get()).collect();
    assert_eq!(ids, [1, 2, 3]);
}

/// Why the connection ends when these bytes come.
fn ends(f: &mut Served, c: &Client, bytes: &[u8]) -> String {
    c.raw(bytes, &[]);
    let gone = c.serve(f).unwrap_err();
    assert!(!f.connected() && matches!(gone, ConnectionError::Protocol(_)), "{gone}");
    gone.to_string()
}

#[test]
fn broken_messages_end_the_connection() {
    let (mut f, c) = connected();
    let mut m = vec![];
    write(&mut m, 1, command::DEVICE_RESET, 0, 0, &[]);
    m[4..8].copy_from_slice(&((MAX_MESSAGE + 1) as u32).to_ne_bytes());
    assert!(ends(&mut f, &c, &m).contains("allowed are 16 to"));
    let c = connect(&mut f);
    m[4..8].copy_from_slice(&(HEADER as u32 - 1).to_ne_bytes());
    ends(&mut f, &c, &m);
    let c = connect(&mut f);
    write(&mut m, 1, command::DMA_READ, flag::REPLY, 0, &[]);
    ends(&mut f, &c, &m);
    let c = connect(&mut f);
    write(&mut m, 1, command::VERSION, 0, 0, &[&[0; 4]]);
    ends(&mut f, &c, &m);
}

#[test]
fn the_version_comes_first() {
    for (command, body) in [(command::DEVICE_RESET, &[][..]), (command::VERSION, &[9, 0, 0, 0])] {
        let mut f = Function::new(identity(), Toy::default(), Seen::default()).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        f.connect(Time::ZERO, theirs).unwrap();
        let mut m = vec![];
        write(&mut m, 1, command, 0, 0, &[body]);
        ends(&mut f, &Client::new(ours), &m);
    }
}

#[test]
fn a_client_that_goes_in_the_middle_of_a_message_leaves_nothing() {
    let (mut f, mut c) = connected();
    c.enable(&mut f);
    let irq = c.connect_irq(&mut f, 2, 0);
    c.socket.write_all(&[1, 2, 3]).unwrap();
    drop(c);
    let gone = f.serve(|| Time::ZERO).unwrap_err();
    assert!(matches!(gone, ConnectionError::Closed), "{gone}");
    let mut c = connect(&mut f);
    c.enable(&mut f);
    c.set(&mut f, toy::RAISE, 2);
    assert_eq!((irq.take(), f.lost_interrupts()), (0, 1), "the old client's eventfd is closed");
    assert!(f.device().resets >= 2);
}

#[test]
fn a_descriptor_of_another_kind_is_closed_with_the_connection() {
    let (mut f, mut c) = connected();
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let fds = [std::os::fd::AsFd::as_fd(&theirs)];
    c.send(command::DEVICE_GET_INFO, 0, &[&[0; 16]], &fds);
    let gone = c.serve(&mut f).unwrap_err();
    assert!(gone.to_string().contains("neither an eventfd nor memory"), "{gone}");
    drop(theirs);
    assert_eq!(std::io::Read::read(&mut ours, &mut [0]).unwrap(), 0, "its last holder has let go");
}

#[test]
fn descriptors_belong_to_the_message_that_they_came_with() {
    use crate::message::{SetIrqs, irq_set};
    use doorbell_host_io::shared::EventFd;
    use std::os::fd::AsFd;
    let (mut f, mut c) = connected();
    c.enable(&mut f);
    let connect = |vector: u32| {
        let flags = irq_set::DATA_EVENTFD | irq_set::TRIGGER;
        let set = SetIrqs {
            argsz: 20.into(),
            flags: flags.into(),
            index: 2.into(),
            start: vector.into(),
            count: 1.into(),
        };
        let mut m = vec![];
        write(&mut m, vector as u16, command::DEVICE_SET_IRQS, 0, 0, &[set.as_bytes()]);
        m
    };
    let (a, b) = (EventFd::new().unwrap(), EventFd::new().unwrap());
    // Of the first message a part comes with its descriptor, and the rest together with a whole
    // message without one (it disconnects); then one with a descriptor behind one without, in a
    // single read.
    let (first, rest) = (&connect(0)[..20], &connect(0)[20..]);
    c.raw(first, &[a.as_fd()]);
    c.serve(&mut f).unwrap();
    c.raw(&[rest, &connect(1)].concat(), &[]);
    c.serve(&mut f).unwrap();
    c.raw(&connect(2), &[]);
    c.raw(&connect(3), &[b.as_fd()]);
    c.serve(&mut f).unwrap();
    let answers: Vec<bool> = (0..4).map(|_| c.reply().unwrap().1.is_ok()).collect();
    assert_eq!(answers, [true; 4]);
    for vector in 0..4 {
        c.set(&mut f, toy::RAISE, 2 + vector);
    }
    assert_eq!((a.take(), b.take(), f.lost_interrupts()), (1, 1, 2));
}
