//! Rings in scattered pages and memory keys, as they were created.

use super::*;

#[test]
fn a_send_queue_in_scattered_pages_is_read_where_it_is() {
    let pages = [page(9), page(5), page(7), page(20)];
    let mut s = Sender::new(8, &pages);
    for round in 0..3 {
        s.c.port.log.clear();
        for i in 0..256 {
            s.put(DATA + i * 8, 60);
        }
        s.ring();
        // The CQ overruns on the way; what is sent is not its business.
        s.c.settle();
        let expected: Vec<Vec<u8>> = (0..256).map(|i| s.data(i * 8, 60)).collect();
        assert!(s.frames() == expected, "round {round}: {} frames", s.frames().len());
    }
}

#[test]
fn completions_and_events_go_to_scattered_pages() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let (cq_pages, eq_pages) = ([page(12), page(10)], [page(16), page(14)]);
    let eqn = c.eq(o.uar, 7, 5, 1 << event::PAGE_REQUEST, &eq_pages).number();
    let o = Common { eq: eqn, ..o };
    let cqn = c.cq(&o, 7, DBR, &cq_pages).number();
    let sqn = c.sq(&Common { cq: cqn, ..o }, 6, DBR + 64, &[page(2)]).number();
    assert_eq!(c.modify_sq(sqn, 0, 1), None);
    let mut s = Sender { c, o, sqn, pages: vec![page(2)], pc: 0, lkey: o.mkey << 8 };
    for i in 0..128 {
        s.c.port.log.clear();
        s.put(DATA, 60);
        s.ring();
        s.c.settle();
        let at = cq_pages[i / 64] + (i % 64) as u64 * 64;
        assert!(
            s.c.port.log.iter().any(|a| matches!(a, Access::Write(_, w, 64) if *w == at)),
            "CQE {i}"
        );
        s.c.port.log.clear();
        let now = s.c.now;
        s.c.device.request_pages(&mut s.c.port, now, 0);
        let at = eq_pages[i / 64] + (i % 64) as u64 * 64;
        assert!(
            s.c.port.log.iter().any(|a| matches!(a, Access::Write(_, w, 64) if *w == at)),
            "EQE {i}"
        );
    }
}

#[test]
fn a_queue_without_tis_executes_nops_and_sends_nothing() {
    let mut s = Sender::new(6, &[page(2)]);
    let mut m = CommandHarness::sq_message(&s.o, 6, DBR + 64);
    m.part_mut(CreateSqIn::SQC).set(Sqc::TIS_LIST_SIZE, 0).set(Sqc::TIS, 0);
    s.sqn = s.c.ok(op::CREATE_SQ, 0, &m, &pas(&[page(2)])).number();
    assert_eq!(s.c.modify_sq(s.sqn, 0, 1), None);
    assert_eq!(s.send(DATA, 60), Vec::<Vec<u8>>::new());
    assert_eq!(s.cqe(0), (13, 2));
}

fn mtt_key(
    c: &mut CommandHarness,
    o: &Common,
    start: u64,
    length: u64,
    pages: &[u64],
) -> CreateMkeyIn {
    let mut m = CommandHarness::mkey_message(o.pd);
    m.set(CreateMkeyIn::OCTWORDS, pages.len().div_ceil(2) as u32);
    let mkc = m.part_mut(CreateMkeyIn::MKC);
    mkc.set(Mkc::ACCESS_MODE, access_mode::MTT)
        .set(Mkc::LENGTH64, 0)
        .set(Mkc::KEY, 0x5a)
        .set(Mkc::LOG_PAGE_SIZE, 12);
    mkc.set_quad(Mkc::START, start).set_quad(Mkc::LENGTH, length);
    assert!(c.device.next_due().is_none());
    m
}

#[test]
fn a_key_with_pages_translates_and_ends() {
    let mut s = Sender::new(6, &[page(2)]);
    // Bus pages in another order, and an address space of the key's own.
    let pages = [DATA + 0x2000, DATA];
    let start = 0x7000_0000_0800;
    let m = mtt_key(&mut s.c, &s.o, start, 0x1000, &pages);
    let n = s.c.ok(op::CREATE_MKEY, 0, &m, &pas(&pages)).number();
    s.lkey = n << 8 | 0x5a;
    assert_eq!(s.send(start, 100), [s.data(0x2800, 100)]);
    let across = [s.data(0x2fc0, 64), s.data(0, 36)].concat();
    assert_eq!(s.send(start + 0x7c0, 100), [across], "over the end of a page");
    assert_eq!(s.send(start + 0x1000 - 60, 60), [s.data(0x7c4, 60)], "up to its end");
    assert_eq!(s.send(start + 0x1000 - 59, 60), Vec::<Vec<u8>>::new(), "and not beyond");
    assert_eq!(s.cqe(3), (13, 4), "LOCAL_PROT");
    let mut s = Sender::new(6, &[page(2)]);
    let m = mtt_key(&mut s.c, &s.o, start, 0x900, &pages);
    s.lkey = s.c.ok(op::CREATE_MKEY, 0, &m, &pas(&pages)).number() << 8 | 0x5a;
    let across = [s.data(0x2fc0, 64), s.data(0, 256)].concat();
    assert_eq!(s.send(start + 0x7c0, 320), [across], "over the end of a page, up to its end");
}

#[test]
fn a_key_with_too_few_pages_is_refused() {
    let mut c = CommandHarness::running(NIC);
    let o = c.common();
    let pages = [DATA, DATA + 0x1000];
    let short = Some(CmdStatus::BadInputLength);
    for (length, octwords, status) in [(0x2000, 1, None), (0x2001, 1, short), (0x2000, 0, short)] {
        let mut m = mtt_key(&mut c, &o, 0, length, &pages);
        m.set(CreateMkeyIn::OCTWORDS, octwords);
        let a = c.run(op::CREATE_MKEY, 0, &m, &pas(&pages));
        assert_eq!(a.status, status);
    }
    let mut free = CommandHarness::mkey_message(o.pd);
    free.part_mut(CreateMkeyIn::MKC).set(Mkc::FREE, 1);
    assert_eq!(c.run(op::CREATE_MKEY, 0, &free, &[]).status, PARAM, "no UMR to fill it in");
}

#[test]
fn a_key_of_another_domain_or_low_byte_or_without_reading_is_a_protection_error() {
    type Spoil = fn(&mut Sender);
    let spoil: [(&str, Spoil); 4] = [
        ("domain", |s| {
            let pd = s.c.alloc(op::ALLOC_PD);
            s.lkey =
                s.c.ok(op::CREATE_MKEY, 0, &CommandHarness::mkey_message(pd), &[]).number() << 8;
        }),
        ("low byte", |s| s.lkey |= 1),
        ("reading", |s| {
            let mut m = CommandHarness::mkey_message(s.o.pd);
            m.part_mut(CreateMkeyIn::MKC).set(Mkc::LOCAL_READ, 0);
            s.lkey = s.c.ok(op::CREATE_MKEY, 0, &m, &[]).number() << 8;
        }),
        ("destroyed", |s| assert_eq!(s.c.about(op::DESTROY_MKEY, s.lkey >> 8), None)),
    ];
    for (what, spoil) in spoil {
        let mut s = Sender::new(6, &[page(2)]);
        spoil(&mut s);
        assert_eq!(s.send(DATA, 60), Vec::<Vec<u8>>::new(), "{what}");
        assert_eq!(s.cqe(0), (13, 4), "{what}");
    }
}
