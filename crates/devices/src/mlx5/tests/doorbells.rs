//! Doorbells, and the reads of WQEs that they begin.

use super::*;

#[test]
fn doorbells_in_rst_are_ignored() {
    let mut b = DeviceHarness::new(NIC);
    b.modify_sq(SqState::Ready, SqState::Reset).unwrap();
    b.put_send(0, 60, true);
    b.c.port.forbidden = true;
    b.go();
    assert_eq!(b.c.device.counters.bad_doorbells, 1);
    b.modify_sq(SqState::Reset, SqState::Ready).unwrap();
    b.settle();
    b.c.port.forbidden = false;
    b.go();
    assert_eq!(b.frames().len(), 1, "the next one counts");
}

#[test]
fn the_doorbell_record_is_not_read() {
    let mut b = DeviceHarness::new(NIC);
    b.c.port.holes.push(DeviceHarness::DBR..DeviceHarness::DBR + 8);
    b.c.port.memory[DeviceHarness::DBR as usize + 4..][..4].copy_from_slice(&9u32.to_be_bytes());
    b.put_send(0, 60, true);
    b.put_send(0, 60, true);
    b.pc = 1;
    let bell = b.ctrl(SEND, 3).as_bytes()[..8].try_into().unwrap();
    b.write(uar::SEND, 8, u64::from_le_bytes(bell));
    b.settle();
    assert_eq!(b.frames().len(), 2);
    let record = DeviceHarness::DBR..DeviceHarness::DBR + 64;
    let mut log = b.c.port.log.iter();
    assert!(!log.any(|a| matches!(a, Access::Read(_, at, _) if record.contains(at))));
}

#[test]
fn doorbells_that_make_no_sense_are_counted_and_do_nothing() {
    let mut b = DeviceHarness::new(NIC);
    b.put_send(0, 60, true);
    b.go();
    b.c.port.forbidden = true;
    let bell = |pc: u16, sqn: u32, ds: u32| {
        u64::from_le_bytes(CtrlSeg::new(pc, SEND, sqn, ds).as_bytes()[..8].try_into().unwrap())
    };
    let (sqn, page) = (b.sqn, Mlx5::FIRST_UAR * uar::PAGE);
    let before = b.c.device.counters;
    // No such queue; nothing new; further than the ring is long; backwards.
    let senseless = [
        bell(1, sqn + 1, 3),
        bell(1, 0xff_ffff, 3),
        bell(0, sqn, 3),
        bell(65, sqn, 3),
        bell(65535, sqn, 3),
    ];
    for v in senseless {
        b.write(uar::SEND, 8, v);
    }
    let good = bell(1, sqn, 3);
    for (r, size) in [
        (Reg::at(page + uar::SEND), 4),
        (Reg::at(page + uar::SEND + 8), 8),
        (Reg::at(page + uar::SEND + uar::PAGE), 8),
        (Reg::at(uar::SEND), 8),
        (Reg { region: 2, offset: page + uar::SEND }, 8),
        (Reg::at(u32::MAX), 1),
    ] {
        b.c.device.mmio_write(&mut b.c.port, b.c.now, r, size, good);
    }
    b.write(uar::CQ_ARM, 8, 0);
    b.write(uar::EQ_ARM, 4, 0xff);
    b.settle();
    let after = b.c.device.counters;
    assert_eq!(after.doorbells, before.doorbells);
    assert_eq!(after.bad_doorbells, before.bad_doorbells + 5 + 6 + 2);
}

#[test]
fn a_doorbell_page_register_reads_as_zero() {
    let mut b = DeviceHarness::new(NIC);
    assert_eq!(
        b.c.device.mmio_read(
            &mut b.c.port,
            Time::ZERO,
            Reg::at(Mlx5::FIRST_UAR * uar::PAGE + uar::SEND),
            4
        ),
        0
    );
}

#[test]
fn many_doorbells_before_the_first_fetch_are_one() {
    let mut b = DeviceHarness::new(NIC);
    for _ in 0..8 {
        b.put_send(0, 60, true);
        b.ring();
    }
    b.settle();
    assert_eq!(b.fetches(), [512]);
    assert_eq!(b.c.device.counters.doorbells, 8);
    assert_eq!(cqes(&mut b).len(), 8);
}

#[test]
fn wqes_are_fetched_in_chunks_that_end_at_the_rings_end() {
    let fetched = |chunk: u32, refetch: bool| {
        let mut b = DeviceHarness::new(Config { fetch_chunk: chunk, refetch, ..NIC });
        for _ in 0..4 {
            b.put_session(58, false);
        }
        b.go();
        b.c.port.log.clear();
        // 15 blocks from block 60 on: the ring ends after 4.
        b.put_session(58, true);
        b.go();
        b.fetches()
    };
    assert_eq!(fetched(1024, false), [256, 704]);
    assert_eq!(fetched(256, false), [256, 256, 256, 192]);
    assert_eq!(fetched(64, false), vec![64; 15]);
}

#[test]
fn a_wqe_cut_by_a_chunks_end_is_fetched_again_from_its_start() {
    let run = |refetch: bool, chunk: u32| {
        let mut b = DeviceHarness::new(Config { fetch_chunk: chunk, refetch, ..NIC });
        // 9, 9 and 9 blocks.
        for i in 0..3 {
            b.put_session(32, i == 2);
        }
        b.go();
        assert_eq!(b.frames().len(), 96);
        let c = b.c.device.counters;
        assert_eq!(c.fetched_bytes, b.fetches().iter().sum::<usize>() as u64);
        assert_eq!(c.fetches, b.fetches().len() as u64);
        b.fetches()
    };
    assert_eq!(run(false, 1024), [1024, 704]);
    // 16 blocks: the first session whole, 7 of the second's 9 in vain.
    assert_eq!(run(true, 1024), [1024, 1024, 576]);
    // A chunk shorter than a WQE: read, found too short, read whole.
    assert_eq!(run(true, 256), [256, 576, 256, 576, 256, 576]);
}

#[test]
fn no_more_is_fetched_ahead_than_fits_on_chip() {
    let mut b = DeviceHarness::new(Config { fetch_chunk: 256, fetch_ahead: 512, ..NIC });
    for i in 0..40 {
        b.put_send(0, 60, i == 39);
    }
    b.ring();
    b.until(Time::ZERO);
    assert_eq!(b.fetches(), [256, 256], "the third waits until four packets have been executed");
    b.settle();
    assert_eq!(b.frames().len(), 40);
    assert_eq!(b.fetches().iter().sum::<usize>(), 40 * 64);
}
