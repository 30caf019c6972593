//! DMA: memory that the device reaches, and that it reaches nothing when it must not.

use super::client::{Client, at, memory};
use super::*;
use crate::message::{Dma, HEADER, Header, command};
use doorbell_host_io::shared::{Window, memfd};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

const RW: u32 = 3;
const BASE: u64 = 0x10_0000;

/// Returns a toy that copies 16 bytes each microsecond from the start of the memory to its middle.
fn copying() -> (Served, Client, File, Window) {
    let (mut f, mut c) = connected();
    let (file, ours) = memory(8192);
    c.enable(&mut f);
    c.map(&mut f, BASE, 8192, RW, Some(&file)).unwrap();
    start(&mut f, &mut c);
    assert!(copies(&mut f, &ours), "it copies");
    (f, c, file, ours)
}

fn start(f: &mut Served, c: &mut Client) {
    for (r, v) in [(toy::FROM, BASE), (toy::TO, BASE + 4096), (toy::LEN, 16), (toy::GO, 1_000_000)]
    {
        c.set(f, r, v);
    }
}

/// Advances the device by 1 ms. Returns true if bytes in the middle change.
fn copies(f: &mut Served, ours: &Window) -> bool {
    ours.write(0, &[0x5a; 16]);
    ours.write(4096, &[0; 16]);
    let now = Time::from_ps(f.next_due().map_or(0, Time::ps) + 1_000_000_000);
    f.advance(now);
    at(ours, 4096, 16) != [0; 16]
}

#[test]
fn no_dma_after_unmap() {
    let (mut f, mut c, _file, ours) = copying();
    assert_eq!(c.unmap(&mut f, BASE, 8192, 0).unwrap().len(), 24, "the request comes back");
    assert!(!copies(&mut f, &ours));
    assert!(f.observer().faults > 0, "it tried");
    assert_eq!(f.port().maps(), 0);
}

#[test]
fn no_dma_after_all_is_unmapped() {
    let (mut f, mut c, _file, ours) = copying();
    c.unmap(&mut f, 0, 0, 2).unwrap();
    assert!(!copies(&mut f, &ours));
}

#[test]
fn no_dma_after_reset() {
    let (mut f, mut c, _file, ours) = copying();
    c.ask(&mut f, command::DEVICE_RESET, &[], &[]).unwrap();
    assert!(!copies(&mut f, &ours));
    // Not even when it is started without bus mastering, which a reset has cleared.
    start(&mut f, &mut c);
    assert!(!copies(&mut f, &ours));
    c.enable(&mut f);
    start(&mut f, &mut c);
    assert!(copies(&mut f, &ours), "the maps are the client's, and stay");
}

#[test]
fn no_dma_after_a_function_level_reset() {
    let (mut f, mut c, _file, ours) = copying();
    // The Express capability is the second; device control is at 8 in it.
    c.write(&mut f, 7, 0x48 + 8, &[0x10, 0xa8]).unwrap();
    assert!(!copies(&mut f, &ours));
}

#[test]
fn no_dma_after_close() {
    let (mut f, c, _file, ours) = copying();
    drop(c);
    assert!(f.serve(|| Time::ZERO).is_err());
    assert!(!copies(&mut f, &ours));
    assert_eq!((f.port().maps(), f.connected()), (0, false));
    // The next client finds a fresh function and none of the memory of the one before.
    let mut c = connect(&mut f);
    c.enable(&mut f);
    start(&mut f, &mut c);
    assert!(!copies(&mut f, &ours));
    assert_eq!(c.get(&mut f, toy::SCRATCH), 0);
}

#[test]
fn no_dma_without_bus_mastering_nor_asleep() {
    let (mut f, mut c, _file, ours) = copying();
    c.write(&mut f, 7, 4, &[3, 0]).unwrap();
    assert!(!copies(&mut f, &ours));
    c.write(&mut f, 7, 4, &[7, 0]).unwrap();
    assert!(copies(&mut f, &ours));
    c.write(&mut f, 7, 0x44, &[3]).unwrap();
    assert!(!copies(&mut f, &ours), "D3hot");
}

#[test]
fn an_access_spans_maps_that_touch_and_stops_at_a_hole() {
    let (mut f, mut c) = connected();
    c.enable(&mut f);
    let (a, ours_a) = memory(4096);
    let (b, ours_b) = memory(4096);
    c.map(&mut f, BASE, 4096, RW, Some(&a)).unwrap();
    c.map(&mut f, BASE + 4096, 4096, RW, Some(&b)).unwrap();
    ours_a.write(0, &[7; 16]);
    for (r, v) in [(toy::FROM, BASE), (toy::TO, BASE + 4090), (toy::LEN, 16), (toy::GO, 1)] {
        c.set(&mut f, r, v);
    }
    assert_eq!((at(&ours_a, 4090, 6), at(&ours_b, 0, 10)), (vec![7; 6], vec![7; 10]));
    c.unmap(&mut f, BASE + 4096, 4096, 0).unwrap();
    ours_a.write(4090, &[0; 6]);
    c.set(&mut f, toy::GO, 1);
    assert_eq!(c.get(&mut f, toy::FAILED), 1);
    assert_eq!(at(&ours_a, 4090, 6), [0; 6], "nothing of it was done");
}

#[test]
fn what_is_mapped_for_reading_is_not_written() {
    let (mut f, mut c) = connected();
    c.enable(&mut f);
    let (file, ours) = memory(8192);
    c.map(&mut f, BASE, 8192, 1, Some(&file)).unwrap();
    start(&mut f, &mut c);
    assert!(!copies(&mut f, &ours));
}

#[test]
fn maps_that_cannot_be_are_refused() {
    let (mut f, mut c) = connected();
    let (file, _) = memory(8192);
    c.map(&mut f, BASE, 8192, RW, Some(&file)).unwrap();
    assert_eq!(c.map(&mut f, BASE + 4096, 8192, RW, Some(&file)), Err(libc::EEXIST));
    assert_eq!(c.map(&mut f, BASE + 4096, 8192, RW, None), Err(libc::EEXIST));
    assert_eq!(c.map(&mut f, 0, 0, RW, Some(&file)), Err(libc::EINVAL));
    assert_eq!(c.map(&mut f, u64::MAX, 4096, RW, Some(&file)), Err(libc::EINVAL));
    assert!(c.map(&mut f, 0, 1 << 40, RW, Some(&file)).is_err(), "longer than its file");
    assert_eq!(c.map(&mut f, 0, 4096, 0xff, Some(&file)), Err(libc::EINVAL));
    assert_eq!(c.unmap(&mut f, BASE, 4096, 0), Err(libc::EINVAL), "a part of it");
    assert_eq!(c.unmap(&mut f, 0, 4096, 0), Err(libc::ENOENT));
    assert_eq!(c.unmap(&mut f, BASE, 8192, 1), Err(libc::ENOTSUP), "dirty pages");
    assert_eq!(f.port().maps(), 1);
    c.unmap(&mut f, BASE, 8192, 0).unwrap();
}

#[test]
fn sparse_memory_does_not_fill_the_address_space() {
    const HALF: u64 = 1 << 41;
    let (mut f, mut c) = connected();
    let file = memfd(c"sparse", HALF).unwrap();
    c.map(&mut f, 0, HALF, RW, Some(&file)).unwrap();
    c.map(&mut f, HALF, HALF, RW, Some(&file)).unwrap();
    assert_eq!(c.map(&mut f, 2 * HALF, 4096, RW, Some(&file)), Err(libc::ENOSPC));
    c.map(&mut f, 2 * HALF, HALF, RW, None).unwrap();
    c.unmap(&mut f, 0, HALF, 0).unwrap();
    c.map(&mut f, 3 * HALF, 4096, RW, Some(&file)).unwrap();
}

/// Answers DMA messages from `memory` until the reply to a register write comes. Returns the
/// numbers of reads and writes.
fn serve_dma(
    c: &mut Client,
    f: &mut Served,
    memory: &mut [u8],
    base: u64,
    refuse: bool,
) -> (u64, u64) {
    let socket = c.socket.try_clone().unwrap();
    let mut asked = (0, 0);
    std::thread::scope(|s| {
        let peer = s.spawn(|| {
            let mut c = Client::new(socket);
            loop {
                let Some((header, body)) = c.reply() else {
                    std::thread::yield_now();
                    continue;
                };
                if header.flags.get() & 1 == 1 {
                    return asked;
                }
                let body = body.unwrap();
                let (dma, data) = Dma::read_from_prefix(&body).unwrap();
                let (start, count) =
                    ((dma.address.get() - base) as usize, dma.count.get() as usize);
                assert!(count <= 4096, "no more than the client said");
                let mut answer = dma.as_bytes().to_vec();
                if header.command.get() == command::DMA_READ {
                    asked.0 += 1;
                    answer.extend_from_slice(&memory[start..start + count]);
                } else {
                    asked.1 += 1;
                    memory[start..start + count].copy_from_slice(data);
                }
                let mut out = vec![];
                let (flags, parts) = if refuse { (0x21, &[][..]) } else { (1, &[&answer[..]][..]) };
                crate::message::write(
                    &mut out,
                    header.id.get(),
                    header.command.get(),
                    flags,
                    14,
                    parts,
                );
                c.raw(&out, &[]);
            }
        });
        c.send(command::REGION_WRITE, 0, &[&go(), &1u64.to_le_bytes()], &[]);
        while !peer.is_finished() {
            c.serve(f).unwrap();
        }
        peer.join().unwrap()
    })
}

fn go() -> [u8; 16] {
    crate::message::Access { offset: toy::GO.into(), region: 0.into(), count: 8.into() }
        .as_bytes()
        .try_into()
        .unwrap()
}

#[test]
fn memory_without_a_descriptor_is_reached_by_messages() {
    let (mut f, mut c) = connected();
    c.enable(&mut f);
    c.map(&mut f, BASE, 0x10000, RW, None).unwrap();
    let mut theirs = vec![0; 0x10000];
    theirs[..10000].fill(9);
    for (r, v) in [(toy::FROM, BASE), (toy::TO, BASE + 0x8000), (toy::LEN, 10000)] {
        c.set(&mut f, r, v);
    }
    assert_eq!(serve_dma(&mut c, &mut f, &mut theirs, BASE, false), (3, 3), "4096 bytes at a time");
    assert_eq!(theirs[0x8000..0x8000 + 10000], [9; 10000]);
    assert_eq!(theirs[0x8000 + 10000], 0);
    assert_eq!(c.get(&mut f, toy::DONE), 1);
    serve_dma(&mut c, &mut f, &mut theirs, BASE, true);
    assert_eq!(c.get(&mut f, toy::FAILED), 1, "a refusal is a fault");
    c.unmap(&mut f, BASE, 0x10000, 0).unwrap();
    c.set(&mut f, toy::GO, 1);
    assert_eq!(c.get(&mut f, toy::FAILED), 2, "no message is sent after unmap");
}

#[test]
fn an_access_may_be_mapped_in_part_and_remote_in_part() {
    let (mut f, mut c) = connected();
    c.enable(&mut f);
    let (file, ours) = memory(4096);
    c.map(&mut f, BASE, 4096, RW, Some(&file)).unwrap();
    c.map(&mut f, BASE + 4096, 4096, RW, None).unwrap();
    ours.write(0, &[3; 64]);
    for (r, v) in [(toy::FROM, BASE), (toy::TO, BASE + 4096 - 32), (toy::LEN, 64)] {
        c.set(&mut f, r, v);
    }
    let mut theirs = vec![0; 4096];
    assert_eq!(serve_dma(&mut c, &mut f, &mut theirs, BASE + 4096, false), (0, 1));
    assert_eq!(
        (at(&ours, 4096 - 32, 32), &theirs[..33]),
        (vec![3; 32], &[&[3; 32][..], &[0]].concat()[..])
    );
}

/// Answers DMA messages, each after a while, until the reply to a register write comes or the
/// connection ends. Returns how many.
fn answer_slowly(mut socket: &UnixStream) -> u64 {
    let (mut answered, mut head) = (0, [0; HEADER]);
    while socket.read_exact(&mut head).is_ok() {
        let header = Header::read_from_bytes(&head).unwrap();
        let mut body = vec![0; header.size.get() as usize - HEADER];
        socket.read_exact(&mut body).unwrap();
        if header.flags.get() & 1 == 1 {
            break;
        }
        std::thread::sleep(PATIENCE * 3 / 5);
        let (id, command) = (header.id.get(), header.command.get());
        let mut out = vec![];
        crate::message::write(&mut out, id, command, 1, 0, &[&body, &[0; 4096]]);
        answered += u64::from(socket.write_all(&out).is_ok());
    }
    answered
}

const PATIENCE: Duration = Duration::from_millis(100);

#[test]
fn slow_replies_share_the_patience_of_a_turn() {
    let (mut f, mut c) = connected();
    c.enable(&mut f);
    c.map(&mut f, BASE, 0x10000, RW, None).unwrap();
    for (r, v) in [(toy::FROM, BASE), (toy::TO, BASE), (toy::LEN, 8 * 4096)] {
        c.set(&mut f, r, v);
    }
    f.with_device(|_, port| port.channel.as_mut().unwrap().patience = PATIENCE);
    let socket = c.socket.try_clone().unwrap();
    socket.set_nonblocking(false).unwrap();
    let peer = std::thread::spawn(move || answer_slowly(&socket));
    c.send(command::REGION_WRITE, 0, &[&go(), &1u64.to_le_bytes()], &[]);
    let mut gone = None;
    while gone.is_none() && !peer.is_finished() {
        gone = c.serve(&mut f).err();
    }
    assert!(peer.join().unwrap() <= 2, "not each of them has its own");
    assert!(gone.is_some_and(|gone| gone.to_string().contains("timed out")));
}

#[test]
fn requests_that_wait_hold_few_descriptors() {
    let ends = |requests: usize| {
        let (mut f, mut c) = connected();
        c.enable(&mut f);
        c.map(&mut f, BASE, 0x10000, RW, None).unwrap();
        for (r, v) in [(toy::FROM, BASE), (toy::TO, BASE), (toy::LEN, 64)] {
            c.set(&mut f, r, v);
        }
        f.with_device(|_, port| port.channel.as_mut().unwrap().patience = PATIENCE);
        c.send(command::REGION_WRITE, 0, &[&go(), &1u64.to_le_bytes()], &[]);
        let (file, _) = memory(4096);
        let fds = [file.as_fd(); 16];
        (0..requests).for_each(|_| c.send(command::DEVICE_RESET, 0, &[], &fds));
        loop {
            if let Err(gone) = c.serve(&mut f) {
                break gone.to_string();
            }
        }
    };
    assert!(ends(3).contains("timed out"), "the DMA is not answered");
    assert!(ends(4).contains("too many requests"));
}
