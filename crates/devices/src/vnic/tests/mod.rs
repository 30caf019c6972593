//! The server against a partition of plain memory, with the driver's part played by hand.

mod answers;
mod counters;
mod failover;
mod fates;
mod hostile;
mod receive;
mod send;
mod session;

use super::{Config, Server, VnicServer};
use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::{
    Direction, DmaFault, DmaFaultKind, EventSource, Hcall, HcallDevice, HcallReturn, Iova, Port,
    RxVerdict, Span, Time,
};
use doorbell_layout::ibmvnic::*;
use zerocopy::byteorder::big_endian::{U16, U32, U64};

pub(super) const CRQ: u64 = 0x1_0000;
pub(super) const RINGS: u64 = 0x2_0000;
pub(super) const SCRATCH: u64 = 0x8_0000;
pub(super) const LTB: u64 = 0x10_0000;
pub(super) const LTB_LEN: u32 = 0x4_0000;
const MEMORY: u64 = 0x20_0000;

/// Memory with holes, interrupts and a wire.
pub(super) struct Partition {
    pub(super) memory: Vec<u8>,
    /// Pages without a TCE.
    pub(super) holes: Vec<u64>,
    /// Everything written, and everything read with more than a byte.
    pub(super) touched: Vec<(u64, usize)>,
    pub(super) messages: Vec<(Time, u16)>,
    pub(super) frames: Vec<(Time, Vec<u8>)>,
    /// The frames after which a turn ends.
    pub(super) most_frames: usize,
    /// Time that a write is under way.
    pub(super) price: Span,
}

impl Partition {
    pub(super) fn new() -> Partition {
        Partition {
            memory: vec![0; MEMORY as usize],
            holes: vec![],
            touched: vec![],
            messages: vec![],
            frames: vec![],
            most_frames: usize::MAX,
            price: Span::ZERO,
        }
    }

    fn find(&self, at: Iova, len: usize) -> Result<usize, DmaFault> {
        let end = at.0.checked_add(len as u64).filter(|e| *e <= MEMORY);
        let hole = self.holes.iter().any(|h| at.0 < h + 4096 && at.0 + len as u64 > *h);
        if end.is_none() || hole {
            return Err(DmaFault { at, kind: DmaFaultKind::Unmapped });
        }
        Ok(at.0 as usize)
    }

    fn check(&mut self, at: Iova, len: usize) -> Result<usize, DmaFault> {
        self.find(at, len).inspect(|_| self.touched.push((at.0, len)))
    }
}

impl Port for Partition {
    fn read(&mut self, at: Time, from: Iova, into: &mut [u8]) -> Result<Time, DmaFault> {
        let start = self.check(from, into.len())?;
        into.copy_from_slice(&self.memory[start..start + into.len()]);
        Ok(at)
    }
    fn write(&mut self, at: Time, to: Iova, from: &[u8]) -> Result<Time, DmaFault> {
        let start = self.check(to, from.len())?;
        self.memory[start..start + from.len()].copy_from_slice(from);
        Ok(at + self.price)
    }
    fn check_access(&mut self, at: Iova, len: u32, _: Direction) -> Result<(), DmaFault> {
        self.find(at, len as usize).map(|_| ())
    }
    fn set_irq_line(&mut self, _: Time, _: u16, _: bool) {
        panic!("it has no lines");
    }
    fn raise_msi(&mut self, at: Time, vector: u16) {
        self.messages.push((at, vector));
    }
    fn emit(&mut self, at: Time, frame: &[u8]) {
        self.frames.push((at, frame.to_vec()));
    }
    fn is_spent(&self) -> bool {
        self.frames.len() >= self.most_frames
    }
}

pub(super) struct Bench {
    pub(super) d: VnicServer,
    pub(super) p: [Partition; 1],
    pub(super) now: Time,
    crq_next: u64,
    ring_next: Vec<u64>,
    pub(super) tx: Vec<u64>,
    pub(super) rx: Vec<u64>,
}

/// An Ethernet, IPv4, TCP frame to the adapter, `payload` bytes, checksums right.
pub(super) fn tcp(payload: usize) -> Vec<u8> {
    let mut f = Config::POWERVM.mac.to_vec();
    f.extend([2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0]);
    f.extend(((40 + payload) as u16).to_be_bytes());
    f.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    f.extend([0x10, 0, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    f.extend((0..payload).map(|i| (i * 7) as u8));
    use doorbell_packet::checksum::Sum;
    let ip = Sum::of(&f[14..34]).checksum();
    f[24..26].copy_from_slice(&ip.to_be_bytes());
    let check = Sum::of(&f[26..]).plus_be16(6).plus_be16((20 + payload) as u16).checksum();
    f[50..52].copy_from_slice(&check.to_be_bytes());
    f
}

/// The same with the checksum left to others.
pub(super) fn partial(payload: usize) -> Vec<u8> {
    let mut f = tcp(payload);
    doorbell_packet::headers::prepare_partial(&mut f).unwrap();
    f
}

impl Bench {
    pub(super) fn new(cfg: Config) -> Bench {
        let p = Partition::new();
        let d = VnicServer::new(cfg, 1);
        Bench { d, p: [p], now: Time::ZERO, crq_next: 0, ring_next: vec![], tx: vec![], rx: vec![] }
    }

    /// Logged in with `n` queues of each direction, offloads on, link up, long-term buffer 1.
    pub(super) fn up(cfg: Config, n: u64) -> Bench {
        let mut b = Bench::new(cfg);
        b.bring_up(n);
        b
    }

    pub(super) fn bring_up(&mut self, n: u64) {
        let registered = self.reg_crq();
        assert!(matches!(registered, status::SUCCESS | status::RESOURCE), "{registered}");
        self.handshake();
        self.negotiate(n);
        assert_eq!(self.login(n), rc::SUCCESS);
        assert_eq!(self.map(1, LTB as u32, LTB_LEN), rc::SUCCESS);
        assert_eq!(
            code(self.ask(self.plain(cmd::LOGICAL_LINK_STATE, |m| m[2] = link::UP))),
            rc::SUCCESS
        );
        assert_eq!(self.message().map(|m| m[1]), Some(cmd::LINK_STATE_INDICATION));
    }

    pub(super) fn call(&mut self, c: u64, a: &[u64]) -> HcallReturn {
        let mut all = [0; 9];
        all[0] = Config::POWERVM.unit_address;
        all[1..=a.len()].copy_from_slice(a);
        let (r, back) = self.d.hcall(&mut self.p, 0, self.now, Hcall(c), &all);
        self.now = self.now.max(back);
        r
    }

    pub(super) fn at(&mut self, t: Time) {
        self.now = self.now.max(t);
        self.d.advance(&mut self.p, self.now);
    }

    pub(super) fn settle(&mut self) {
        for _ in 0..1_000_000 {
            let Some(due) = self.d.next_due() else { return };
            self.at(due);
        }
        panic!("it never settles");
    }

    // ---- the CRQ ----

    pub(super) fn reg_crq(&mut self) -> i64 {
        let r = self.call(hcall::REG_CRQ, &[CRQ, CRQ_BYTES]).status;
        if r != status::RESOURCE {
            self.p[0].memory[CRQ as usize..][..4096].fill(0);
            (self.crq_next, self.ring_next) = (0, vec![]);
        }
        r
    }

    /// The next message, if there is one.
    pub(super) fn message(&mut self) -> Option<[u8; 16]> {
        let at = (CRQ + self.crq_next * 16) as usize;
        let m: [u8; 16] = self.p[0].memory[at..at + 16].try_into().unwrap();
        if m[0] == 0 {
            return None;
        }
        self.p[0].memory[at] = 0;
        self.crq_next = (self.crq_next + 1) % 256;
        Some(m)
    }

    pub(super) fn send(&mut self, m: [u8; 16]) -> i64 {
        let word = |b: &[u8]| u64::from_be_bytes(b.try_into().unwrap());
        self.call(hcall::SEND_CRQ, &[word(&m[..8]), word(&m[8..])]).status
    }

    /// Sends a command and waits for its answer.
    pub(super) fn ask(&mut self, m: [u8; 16]) -> [u8; 16] {
        assert_eq!(self.send(m), status::SUCCESS);
        for _ in 0..1000 {
            self.at(self.now);
            if let Some(answer) = self.message() {
                assert_eq!((answer[0], answer[1]), (first::VALID, m[1] | RESPONSE));
                return answer;
            }
            self.now = self.d.next_due().expect("an answer");
        }
        panic!("no answer");
    }

    pub(super) fn plain(&self, c: u8, f: impl FnOnce(&mut [u8; 16])) -> [u8; 16] {
        let mut m = [0; 16];
        (m[0], m[1]) = (first::VALID, c);
        f(&mut m);
        m
    }

    pub(super) fn init(&mut self) -> i64 {
        let mut m = [0; 16];
        (m[0], m[1]) = (first::HANDSHAKE, first::INIT);
        self.send(m)
    }

    pub(super) fn handshake(&mut self) {
        assert_eq!(self.init(), status::SUCCESS);
        self.at(self.now + Span::from_us(10));
        let m = self.message().unwrap();
        assert_eq!((m[0], m[1]), (first::HANDSHAKE, first::INIT_COMPLETE));
    }

    pub(super) fn version(&mut self) -> u16 {
        let v = VersionExchange {
            first: 0x80,
            cmd: 1,
            version: U16::new(7),
            ..VersionExchange::default()
        };
        VersionExchange::of(self.ask(v.bytes())).version.get()
    }

    pub(super) fn query(&mut self, id: u16) -> [u8; 8] {
        let q =
            Capability { first: 0x80, cmd: 2, capability: U16::new(id), ..Capability::default() };
        Capability::of(self.ask(q.bytes())).number.to_bytes()
    }

    pub(super) fn request(&mut self, id: u16, n: u64) -> (u64, u8) {
        let (capability, number) = (U16::new(id), U64::new(n));
        let q = Capability { first: 0x80, cmd: 3, capability, number, ..Capability::default() };
        let answer = self.ask(q.bytes());
        (Capability::of(answer).number.get(), code(answer))
    }

    pub(super) fn negotiate(&mut self, n: u64) {
        assert_eq!(self.version(), 1);
        for (id, v) in [(7, n), (8, n), (9, 1), (14, 64), (15, 64), (21, 9014), (17, 0)] {
            assert_eq!(self.request(id, v), (v, rc::SUCCESS), "capability {id}");
        }
        assert_eq!(self.control_offload([1; 8]), rc::SUCCESS);
    }

    pub(super) fn control_offload(&mut self, want: [u8; 8]) -> u8 {
        let c = ControlIpOffload {
            len: U32::new(136),
            version: U32::new(1),
            want,
            ..ControlIpOffload::default()
        };
        self.put(SCRATCH, &c.bytes());
        let a = AddressLength {
            first: 0x80,
            cmd: cmd::CONTROL_IP_OFFLOAD,
            ioba: U32::new(SCRATCH as u32),
            len: U32::new(136),
            ..AddressLength::default()
        };
        code(self.ask(a.bytes()))
    }

    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) {
        self.p[0].memory[at as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Registers `n` sub-CRQs a direction with a page each; interrupts on.
    pub(super) fn rings(&mut self, n: u64) -> Vec<u64> {
        (0..2 * n)
            .map(|_| {
                let at = RINGS + self.ring_next.len() as u64 * 4096;
                self.p[0].memory[at as usize..][..4096].fill(0);
                let r = self.call(hcall::REG_SUB_CRQ, &[at, 4096]);
                assert_eq!(r.status, status::SUCCESS);
                assert_eq!(r.ret[0], self.ring_next.len() as u64);
                self.ring_next.push(0);
                let on = self.call(hcall::VIOCTL, &[vioctl::ENABLE_VIO_INTERRUPT, r.ret[1]]);
                assert_eq!(on.status, status::SUCCESS);
                r.ret[0]
            })
            .collect()
    }

    pub(super) fn login(&mut self, n: u64) -> u8 {
        if self.ring_next.len() as u64 != 2 * n {
            self.rings(n);
        }
        let numbers: Vec<u64> = (0..2 * n).collect();
        self.login_with(&numbers[..n as usize], &numbers[n as usize..])
    }

    pub(super) fn login_with(&mut self, tx: &[u64], rx: &[u64]) -> u8 {
        let names = b"\x01\x00\x06Linux\0\x02\x00\x02n\0\x00";
        let off_rx = 40 + 8 * tx.len();
        let off_names = off_rx + 8 * rx.len();
        let total = off_names + names.len();
        let w = |n: usize| U32::new(n as u32);
        let l = LoginBuffer {
            len: w(total),
            version: w(1),
            num_txcomp_subcrqs: w(tx.len()),
            off_txcomp_subcrqs: w(40),
            num_rxcomp_subcrqs: w(rx.len()),
            off_rxcomp_subcrqs: w(off_rx),
            login_rsp_ioba: w(SCRATCH as usize + 4096),
            login_rsp_len: w(40 + 8 * tx.len() + 16 * rx.len() + 3),
            client_data_offset: w(off_names),
            client_data_len: w(names.len()),
        };
        let mut bytes = l.bytes().to_vec();
        bytes.extend(tx.iter().chain(rx).flat_map(|n| n.to_be_bytes()));
        bytes.extend(names);
        self.put(SCRATCH, &bytes);
        let m = Login {
            first: 0x80,
            cmd: cmd::LOGIN,
            reserved: [0; 6],
            ioba: w(SCRATCH as usize),
            len: w(total),
        };
        let answer = code(self.ask(m.bytes()));
        if answer == rc::SUCCESS {
            let at = SCRATCH as usize + 4096;
            let r = LoginResponse::of(self.p[0].memory[at..at + 36].try_into().unwrap());
            let memory = &self.p[0].memory;
            let read = |n: U32, off: U32| -> Vec<u64> {
                let word = |i| {
                    u64::from_be_bytes(
                        memory[at + off.get() as usize + 8 * i..][..8].try_into().unwrap(),
                    )
                };
                (0..n.get() as usize).map(word).collect()
            };
            self.tx = read(r.num_txsubm_subcrqs, r.off_txsubm_subcrqs);
            self.rx = read(r.num_rxadd_subcrqs, r.off_rxadd_subcrqs);
        }
        answer
    }

    pub(super) fn map(&mut self, id: u8, ioba: u32, len: u32) -> u8 {
        let (ioba, len) = (U32::new(ioba), U32::new(len));
        let m = RequestMap {
            first: 0x80,
            cmd: cmd::REQUEST_MAP,
            map_id: id,
            ioba,
            len,
            ..RequestMap::default()
        };
        let answer = self.ask(m.bytes());
        assert_eq!(answer[3], id);
        code(answer)
    }

    // ---- sub-CRQs ----

    /// The next entry of sub-CRQ `n`.
    pub(super) fn entry(&mut self, n: usize) -> Option<[u8; 32]> {
        let at = (RINGS + n as u64 * 4096 + self.ring_next[n] * 32) as usize;
        let e: [u8; 32] = self.p[0].memory[at..at + 32].try_into().unwrap();
        if e[0] == 0 {
            return None;
        }
        self.p[0].memory[at] = 0;
        self.ring_next[n] = (self.ring_next[n] + 1) % 128;
        Some(e)
    }

    /// Correlators and codes that are reported on sub-CRQ `n`.
    pub(super) fn completions(&mut self, n: usize) -> Vec<(u32, u16)> {
        let mut all = vec![];
        while let Some(e) = self.entry(n) {
            let c = TxComp::of(e);
            all.extend(
                (0..usize::from(c.num_comps)).map(|i| (c.correlators[i].get(), c.rcs[i].get())),
            );
        }
        all
    }

    /// Puts `frame` into slot `i` of the long-term buffer; a descriptor for it.
    pub(super) fn desc(&mut self, i: u32, frame: &[u8], flags1: u8) -> Tx {
        let slot = u64::from(i) * 10_000;
        self.put(LTB + slot, frame);
        Tx {
            first: first::VALID,
            kind: desc::TX,
            n_crq_elem: 1,
            n_sge: 1,
            flags1: flags1 | tx::COMP_NEEDED,
            correlator: U32::new(i),
            dma_reg: U16::new(1),
            sge_len: U32::new(frame.len() as u32),
            ioba: U64::new(LTB + slot),
            ..Tx::default()
        }
    }

    pub(super) fn direct(&mut self, handle: u64, d: [u8; 32]) -> i64 {
        let w = |i: usize| u64::from_be_bytes(d[i * 8..i * 8 + 8].try_into().unwrap());
        self.call(hcall::SEND_SUB_CRQ, &[handle, w(0), w(1), w(2), w(3)]).status
    }

    pub(super) fn indirect(&mut self, handle: u64, entries: &[[u8; 32]]) -> i64 {
        self.put(SCRATCH, entries.as_flattened());
        self.call(hcall::SEND_SUB_CRQ_INDIRECT, &[handle, SCRATCH, entries.len() as u64]).status
    }

    /// Posts `n` receive buffers of 2048 bytes from `slot` on.
    pub(super) fn post(&mut self, handle: u64, slot: u32, n: u32) -> i64 {
        let entries: Vec<_> = (slot..slot + n)
            .map(|i| RxAdd::new(i.into(), 1, LTB as u32 + i * 2048, 2048).bytes())
            .collect();
        self.indirect(handle, &entries)
    }

    pub(super) fn receive(&mut self, frame: &[u8]) -> RxVerdict {
        self.d.receive(&mut self.p, self.now, frame)
    }

    /// Of the frames taken, each has one fate.
    pub(super) fn audit(&self) {
        let c = self.d.counters;
        let fates = c.tx_sent + c.tx_errors + c.tx_discarded + c.tx_lost;
        assert_eq!(c.tx_taken, fates + self.d.in_flight(0), "{c:?}");
    }
}

pub(super) fn code(m: [u8; 16]) -> u8 {
    Message::of(m).rc.code
}

/// Header descriptors as Linux makes them.
pub(super) fn headers(frame: &[u8], wanted: u8, lengths: [u8; 3]) -> Vec<[u8; 32]> {
    let bits = [desc_req::L2, desc_req::L3, desc_req::L4];
    let len: usize = bits
        .iter()
        .zip(lengths)
        .filter(|(b, _)| wanted & **b != 0)
        .map(|(_, l)| usize::from(l))
        .sum();
    let data = &frame[..len];
    let (head, more) = data.split_at(len.min(HDR_DATA));
    let mut h = Hdr {
        first: 0x80,
        kind: desc::HDR,
        len: head.len() as u8,
        l2_len: lengths[0],
        l3_len: U16::new(lengths[1].into()),
        l4_len: lengths[2],
        flag: wanted << 1,
        ..Hdr::default()
    };
    h.data[..head.len()].copy_from_slice(head);
    let mut all = vec![h.bytes()];
    for part in more.chunks(HDR_EXT_DATA) {
        let mut x =
            HdrExt { first: 0x80, kind: desc::HDR_EXT, len: part.len() as u8, ..HdrExt::default() };
        x.data[..part.len()].copy_from_slice(part);
        all.push(x.bytes());
    }
    all
}

/// A server that means its header request.
pub(super) fn strict(desc_req: [u8; 8]) -> Config {
    let server = Server { desc_req, backing_needs_headers: true, ..Server::POWERVM };
    Config { servers: [server; 2], ..Config::POWERVM }
}
