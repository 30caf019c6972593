//! UMRs, and striding queues whose memory they map.

use super::*;

const STRIDES: Config = Config { caps: Caps { striding: true, ..NIC.caps }, ..NIC };

/// A queue for internal operations, and a key of 128 pages that waits for a UMR.
struct Mapper {
    s: Sender,
    lkey: u32,
}

/// A UMR of Linux: ctrl, UMR control, key, and pages from an octowords' place on.
struct Umr {
    flags: u8,
    mask: u64,
    place: u32,
    pages: Vec<u64>,
    key: u32,
    /// Data segments beside those that it needs.
    ds: i32,
    octowords: Option<u16>,
}

impl Mapper {
    fn new() -> Mapper {
        let mut c = CommandHarness::running(STRIDES);
        let o = c.common();
        let mut m = CommandHarness::sq_message(&o, 6, DBR + 64);
        m.part_mut(CreateSqIn::SQC).set(Sqc::TIS_LIST_SIZE, 0).set(Sqc::REG_UMR, 1);
        let sqn = c.ok(op::CREATE_SQ, 0, &m, &pas(&[page(2)])).number();
        assert_eq!(c.modify_sq(sqn, 0, 1), None);
        let key = c.ok(op::CREATE_MKEY, 0, &key(o.pd, 64), &[]).number();
        let lkey = key << 8 | 0x5a;
        let s = Sender { c, o, sqn, pages: vec![page(2)], pc: 0, lkey };
        Mapper { s, lkey }
    }

    fn umr(&self, place: u32, pages: &[u64]) -> Umr {
        let pages = pages.iter().map(|p| p | MTT_WRITE).collect();
        let flags = umr::INLINE | umr::TRANSLATION_OFFSET;
        Umr { flags, mask: MKEY_MASK_FREE, place, pages, key: self.lkey, ds: 0, octowords: None }
    }

    /// Posts it alone. Opcode and syndrome of its CQE.
    fn map(&mut self, u: &Umr) -> (u8, u8) {
        let octowords = u.pages.len().div_ceil(2);
        let ds = (8 + octowords.next_multiple_of(4)) as i32 + u.ds;
        let mut ctrl = CtrlSeg::new(self.s.pc, opcode::UMR, self.s.sqn, ds as u32);
        ctrl.fm_ce_se = 8;
        ctrl.imm.set(u.key);
        let mut c = UmrCtrlSeg { flags: u.flags, ..UmrCtrlSeg::default() };
        c.octowords.set(u.octowords.unwrap_or(octowords as u16));
        c.offset.set(u.place as u16);
        c.offset_high.set(u.place >> 16);
        c.mkey_mask.set(u.mask);
        let mut wqe = [ctrl.as_bytes(), c.as_bytes(), &[0; 64]].concat();
        u.pages.iter().for_each(|p| wqe.extend(p.to_be_bytes()));
        for (i, byte) in wqe.iter().enumerate() {
            let at = (usize::from(self.s.pc) * 64 + i) % 4096;
            self.s.c.port.memory[page(2) as usize + at] = *byte;
        }
        let at = self.s.c.device.counters.cqes as usize;
        let last = u64::from_le_bytes(ctrl.as_bytes()[..8].try_into().unwrap());
        let bell = Reg::at(self.s.o.uar * uar::PAGE + uar::SEND);
        self.s.c.device.mmio_write(&mut self.s.c.port, self.s.c.now, bell, 8, last);
        self.s.c.settle();
        self.s.pc += (ds as u16).div_ceil(4).max(1);
        self.s.cqe(at)
    }
}

/// The message for a free key with so many octowords of pages.
fn key(pd: u32, octowords: u32) -> CreateMkeyIn {
    let mut m = CommandHarness::mkey_message(pd);
    let c = m.part_mut(CreateMkeyIn::MKC);
    c.set(Mkc::FREE, 1).set(Mkc::UMR, 1).set(Mkc::ACCESS_MODE, access_mode::MTT);
    c.set(Mkc::LENGTH64, 0).set(Mkc::KEY, 0x5a).set(Mkc::LOG_PAGE_SIZE, 12);
    c.set(Mkc::OCTWORDS, octowords).set_quad(Mkc::LENGTH, u64::from(octowords) << 13);
    m
}

#[test]
fn linux_finds_what_makes_it_choose_striding() {
    for (nic, expected) in [(NIC, 0), (STRIDES, 1)] {
        let mut c = CommandHarness::running(nic);
        let general = c.caps(cap_type::GENERAL, CURRENT);
        let ethernet = c.caps(cap_type::ETH, CURRENT);
        let seen = [general[0x40] >> 6, general[0x46] >> 7, general[0x74] >> 7, ethernet[3] >> 7];
        assert_eq!(seen.map(|bits| bits & 1), [expected; 4]);
    }
}

#[test]
fn a_umr_of_64_pages_is_640_bytes() {
    let mut m = Mapper::new();
    let pages: Vec<u64> = (0..64).map(|i| DATA + i * 0x1000).collect();
    let u = m.umr(32, &pages);
    let before = m.s.c.device.counters.fetched_bytes;
    assert_eq!(m.map(&u), (0, 0));
    assert_eq!(m.s.c.device.counters.fetched_bytes - before, 640);
    assert_eq!(m.s.c.device.counters.umrs, 1);
}

#[test]
fn frames_go_where_a_umr_maps() {
    let mut m = Mapper::new();
    // Two pages of the list's second WQE lie the other way round.
    let pages = [DATA + 0x3000, DATA + 0x1000];
    let u = m.umr(1, &pages);
    assert_eq!(m.map(&u), (0, 0));
    let (s, lkey) = (&mut m.s, m.lkey);
    let mut q = CommandHarness::rq_message(&s.o, 1, 5, DBR + 128);
    let wq = q.part_mut(CreateRqIn::RQC).part_mut(Rqc::WQ);
    // Eight strides of 1 KiB, of which 0xa says the count.
    wq.set(Wq::TYPE, 2).set(Wq::LOG_STRIDES, 0xa).set(Wq::LOG_STRIDE_SIZE, 4);
    let rqn = s.c.ok(op::CREATE_RQ, 0, &q, &pas(&[page(6)])).number();
    let tir = s.c.tir(&s.o, rqn, false).number();
    let table = flow_table(&mut s.c, 0, 0).number();
    let group = flow_group(&mut s.c, table, 0, 0, 0).number();
    assert_eq!(set_entry(&mut s.c, table, group, 0, &[(destination::TIR, tir)]), None);
    let d = DataSeg { byte_count: U32::new(8192), lkey: U32::new(lkey), addr: U64::new(0x2000) };
    let at = page(6) as usize;
    s.c.port.memory[at + 3] = 1;
    s.c.port.memory[at + 16..at + 32].copy_from_slice(d.as_bytes());
    s.c.port.memory[at + 48..at + 64].copy_from_slice(d.as_bytes());
    let record = DBR as usize + 128;
    s.c.port.memory[record + 3] = 1;
    assert_eq!(s.c.modify_rq(rqn, 0, 1), None);
    let frames = [[0x11; 700], [0x22; 700], [0x33; 700], [0x44; 700], [0x55; 700]];
    for f in &frames {
        assert_eq!(s.c.receive(f), RxVerdict::Yes);
    }
    s.c.settle();
    assert_eq!(s.data(0x3000 + 0x400, 700), frames[1]);
    assert_eq!(s.data(0x1000, 700), frames[4], "the fifth is in the other page");
}

#[test]
fn a_key_without_a_page_or_its_right_is_a_protection_error() {
    let mut m = Mapper::new();
    // Sends read: a page that may only be written is not theirs.
    let send = m.s.c.ok(
        op::CREATE_SQ,
        0,
        &CommandHarness::sq_message(&m.s.o, 6, DBR + 72),
        &pas(&[page(3)]),
    );
    let sqn = send.number();
    assert_eq!(m.s.c.modify_sq(sqn, 0, 1), None);
    let u = m.umr(0, &[DATA, DATA]);
    assert_eq!(m.map(&u), (0, 0));
    let mut s = Sender { sqn, pages: vec![page(3)], pc: 0, ..m.s };
    assert_eq!(s.send(0, 60), Vec::<Vec<u8>>::new());
    assert_eq!(s.cqe(1), (13, syndrome::LOCAL_PROT));
}

#[test]
fn umrs_that_make_no_sense_fail() {
    const OP: (u8, u8) = (13, syndrome::LOCAL_QP_OP);
    const KEY: (u8, u8) = (13, syndrome::MEMORY_KEY);
    type Spoil = fn(&mut Umr);
    let spoil: [(&str, (u8, u8), Spoil); 13] = [
        ("not inline", OP, |u| u.flags = umr::TRANSLATION_OFFSET),
        ("an unknown flag", OP, |u| u.flags |= 1),
        ("another field of the key", OP, |u| u.mask |= 1),
        ("more pages than the WQE has", OP, |u| u.octowords = Some(33)),
        ("no room for a page", OP, |u| u.ds = -32),
        ("no key's segment", OP, |u| u.ds = -36),
        ("no such key", KEY, |u| u.key = 0xffff_ff5a),
        ("another low byte", KEY, |u| u.key ^= 1),
        ("a key that is no list", KEY, |u| u.key = (u.key & !0xff) - 0x100),
        ("a place outside", KEY, |u| u.place = 64),
        ("a place that ends outside", KEY, |u| u.place = 33),
        ("a place far outside", KEY, |u| u.place = u32::MAX),
        ("it is free", KEY, |u| u.flags |= umr::CHECK_FREE),
    ];
    for (what, expected, spoil) in spoil {
        let mut m = Mapper::new();
        let pages: Vec<u64> = (0..64).map(|i| DATA + i * 0x1000).collect();
        let mut u = m.umr(0, &pages);
        spoil(&mut u);
        assert_eq!(m.map(&u), expected, "{what}");
        assert_eq!(m.s.c.device.counters.umrs, 0, "{what}");
    }
}

#[test]
fn only_queues_for_umrs_execute_them() {
    let mut m = Mapper::new();
    let plain = m.s.c.ok(
        op::CREATE_SQ,
        0,
        &CommandHarness::sq_message(&m.s.o, 6, DBR + 72),
        &pas(&[page(2)]),
    );
    m.s.sqn = plain.number();
    assert_eq!(m.s.c.modify_sq(m.s.sqn, 0, 1), None);
    let u = m.umr(0, &[DATA, DATA]);
    assert_eq!(m.map(&u), (13, syndrome::LOCAL_QP_OP));
}

#[test]
fn pages_of_all_keys_have_an_end() {
    let mut c = CommandHarness::running(STRIDES);
    let o = c.common();
    for _ in 0..8 {
        c.ok(op::CREATE_MKEY, 0, &key(o.pd, 1 << 16), &[]);
    }
    assert_eq!(c.run(op::CREATE_MKEY, 0, &key(o.pd, 1), &[]).status, Some(CmdStatus::NoResources));
    assert_eq!(
        c.run(op::CREATE_MKEY, 0, &key(o.pd, u32::MAX), &[]).status,
        Some(CmdStatus::NoResources)
    );
}
