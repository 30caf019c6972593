//! A device that sends and receives, on objects made by commands.

use super::*;

/// A ready SQ in the given pages, and where its next WQE goes.
pub(super) struct Sender {
    pub(super) c: CommandHarness,
    pub(super) o: Common,
    pub(super) sqn: u32,
    pub(super) pages: Vec<u64>,
    pub(super) pc: u16,
    pub(super) lkey: u32,
}

impl Sender {
    pub(super) fn new(log: u32, pages: &[u64]) -> Sender {
        let mut c = CommandHarness::running(NIC);
        let o = c.common();
        let sqn = c.sq(&o, log, DBR + 64, pages).number();
        assert_eq!(c.modify_sq(sqn, 0, 1), None);
        for i in 0..0x4000 {
            c.port.memory[DATA as usize + i] = (i % 251) as u8;
        }
        Sender { c, o, sqn, pages: pages.to_vec(), pc: 0, lkey: o.mkey << 8 }
    }
    pub(super) fn put(&mut self, addr: u64, len: u32) {
        let mut ctrl = CtrlSeg::new(self.pc, 0x0a, self.sqn, 3);
        ctrl.fm_ce_se = 8;
        let data =
            DataSeg { byte_count: U32::new(len), lkey: U32::new(self.lkey), addr: U64::new(addr) };
        let wqe = [ctrl.as_bytes(), EthSeg::default().as_bytes(), data.as_bytes()].concat();
        let at = usize::from(self.pc) * 64 % (self.pages.len() * 4096);
        let at = self.pages[at / 4096] as usize + at % 4096;
        self.c.port.memory[at..at + 48].copy_from_slice(&wqe);
        self.pc += 1;
    }
    pub(super) fn ring(&mut self) {
        let ctrl = CtrlSeg::new(self.pc - 1, 0x0a, self.sqn, 3);
        let v = u64::from_le_bytes(ctrl.as_bytes()[..8].try_into().unwrap());
        self.c.device.mmio_write(
            &mut self.c.port,
            self.c.now,
            Reg::at(self.o.uar * uar::PAGE + uar::SEND),
            8,
            v,
        );
    }
    /// 40 packets, announced and not yet sent.
    pub(super) fn announce(&mut self) {
        for _ in 0..40 {
            self.put(DATA, 60);
        }
        self.c.port.log.clear();
        self.ring();
    }
    pub(super) fn frames(&self) -> Vec<Vec<u8>> {
        self.c
            .port
            .log
            .iter()
            .filter_map(|a| if let Access::Frame(_, f) = a { Some(f.clone()) } else { None })
            .collect()
    }
    pub(super) fn send(&mut self, addr: u64, len: u32) -> Vec<Vec<u8>> {
        self.c.port.log.clear();
        self.put(addr, len);
        self.ring();
        self.c.settle();
        self.frames()
    }
    /// Opcode and syndrome of CQE `i`.
    pub(super) fn cqe(&self, i: usize) -> (u8, u8) {
        let at = page(1) as usize + i * 64;
        (self.c.port.memory[at + 63] >> 4, self.c.port.memory[at + 0x37])
    }
    pub(super) fn data(&self, offset: usize, n: usize) -> Vec<u8> {
        self.c.port.memory[DATA as usize + offset..][..n].to_vec()
    }
}

/// A sender with work announced.
pub(super) fn sending() -> Sender {
    let mut s = Sender::new(6, &[page(2)]);
    s.announce();
    s
}

/// The same, and a frame on its way in.
pub(super) fn busy() -> (Sender, u32) {
    let mut s = Sender::new(6, &[page(2)]);
    let (rqn, _) = receiver(&mut s, false);
    s.announce();
    assert_eq!(s.c.receive(&[0xff; 100]), RxVerdict::Yes);
    (s, rqn)
}

/// A ready RQ in page 6, 16 buffers posted, everything steered to it; with `table`
/// through an RQT. Their numbers.
pub(super) fn receiver(s: &mut Sender, table: bool) -> (u32, u32) {
    let rqn = s.c.rq(&s.o, 4, DBR + 128, &[page(6)]).number();
    let rqt = if table { s.c.rqt(&[rqn]).number() } else { 0 };
    let tir = s.c.tir(&s.o, if table { rqt } else { rqn }, table).number();
    let table = flow_table(&mut s.c, 0, 0).number();
    let group = flow_group(&mut s.c, table, 0, 0, 0).number();
    assert_eq!(set_entry(&mut s.c, table, group, 0, &[(destination::TIR, tir)]), None);
    for i in 0..16u64 {
        let d = DataSeg {
            byte_count: U32::new(256),
            lkey: U32::new(s.o.mkey << 8),
            addr: U64::new(DATA + 0x8000 + i * 256),
        };
        let at = (page(6) + i * 16) as usize;
        s.c.port.memory[at..at + 16].copy_from_slice(d.as_bytes());
    }
    let record = DBR as usize + 128;
    s.c.port.memory[record..record + 4].copy_from_slice(&16u32.to_be_bytes());
    assert_eq!(s.c.modify_rq(rqn, 0, 1), None);
    (rqn, rqt)
}

/// Accesses beyond those of delivering commands.
pub(super) fn touched(c: &mut CommandHarness) -> Vec<Access> {
    let commands = |a: &Access| match a {
        Access::Read(_, at, _) | Access::Write(_, at, _) => {
            (CommandHarness::CMDQ..CommandHarness::CMDQ + 0x800).contains(at)
                || (CommandHarness::INPUTS..CommandHarness::PAGES).contains(at)
        }
        _ => false,
    };
    c.port.log.drain(..).filter(|a| !commands(a)).collect()
}

/// Settles; nothing but commands touches anything.
pub(super) fn quiet(c: &mut CommandHarness) {
    let queue = CommandHarness::CMDQ..CommandHarness::CMDQ + 0x800;
    let log = c.port.log.iter();
    let last = { log }.rposition(|a| matches!(a, Access::Write(_, at, 4) if queue.contains(at)));
    // Accesses before the answer belong to the command.
    c.port.log.drain(..=last.expect("an answer"));
    c.settle();
    assert_eq!(touched(c), []);
}
