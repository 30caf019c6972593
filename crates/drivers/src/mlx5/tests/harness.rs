//! The driver alone: fake firmware, recorded register writes, completions written by tests.

use super::super::{Channel, Config, Firmware, Objects, Stats};
use super::UDP;
use crate::{Driver, Irq, OpenError, Poll, Sink, Tx};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;
use doorbell_hal::{Alignment, Buf, Device, DropReason, EventSource, Host, Reg, RxVerdict, Time};
use doorbell_layout::mlx5::receive::{RqContext, RqState};
use doorbell_layout::mlx5::{
    Caps, CmdStatus, CqContext, CtrlSeg, EqContext, SqContext, SqState, WQEBB, cqe_opcode, dbr, uar,
};
use doorbell_packet::{Fragment, Gso, GsoKind, NonLinear, OffloadRequest, Packet};
use doorbell_testkit::LeakCheckHost;
use doorbell_testkit::direct::{DirectHost, DirectPort};
use zerocopy::FromBytes;

/// Firmware that accepts all commands and records them. Clones share the record.
#[derive(Clone, Debug)]
pub(super) struct FakeFirmware(Rc<RefCell<FirmwareLog>>);

#[derive(Debug)]
struct FirmwareLog {
    caps: Caps,
    eq: Option<EqContext>,
    /// The send queue's is the first.
    cqs: Vec<CqContext>,
    sq: Option<SqContext>,
    states: Vec<SqState>,
    /// Objects that were created and not destroyed.
    live: Objects,
    /// The command after so many is refused.
    refuse_after: Option<u32>,
}

impl FakeFirmware {
    /// The SQ's number; the one in the sheets' examples.
    pub(super) const SQN: u32 = 0x133;
    /// The RQ's number.
    pub(super) const RQN: u32 = 0x134;
    /// The send queue's CQ's. Those of the others follow it.
    pub(super) const CQN: u32 = 0x12e;
    /// The EQ's.
    pub(super) const EQN: u32 = 4;
    /// The doorbell page.
    pub(super) const UAR: u32 = 0x11;
    /// The memory key.
    pub(super) const LKEY: u32 = 0x1234 << 8;

    fn new(caps: Caps) -> FakeFirmware {
        let told = FirmwareLog {
            caps,
            eq: None,
            cqs: vec![],
            sq: None,
            states: vec![],
            live: Objects::default(),
            refuse_after: None,
        };
        FakeFirmware(Rc::new(RefCell::new(told)))
    }
    /// Creates object `n`, of which none may be left.
    fn create(
        &self,
        n: u32,
        at: impl FnOnce(&mut Objects) -> &mut Option<u32>,
    ) -> Result<u32, CmdStatus> {
        self.grant()?;
        let before = at(&mut self.0.borrow_mut().live).replace(n);
        assert_eq!(before, None, "the object before it was not destroyed");
        Ok(n)
    }
    fn grant(&self) -> Result<(), CmdStatus> {
        let refuse = &mut self.0.borrow_mut().refuse_after;
        match refuse {
            Some(0) => {
                *refuse = None;
                return Err(CmdStatus::NoResources);
            }
            Some(n) => *n -= 1,
            None => {}
        }
        Ok(())
    }
}

impl<H: Host> Firmware<H> for FakeFirmware {
    fn caps(&mut self, _h: &mut H) -> Caps {
        self.0.borrow().caps
    }
    fn alloc_uar(&mut self, _h: &mut H) -> Result<u32, CmdStatus> {
        self.create(FakeFirmware::UAR, |o| &mut o.uar)
    }
    fn create_mkey(&mut self, _h: &mut H) -> Result<u32, CmdStatus> {
        self.create(FakeFirmware::LKEY, |o| &mut o.lkey)
    }
    fn create_eq(&mut self, _h: &mut H, c: &EqContext) -> Result<u32, CmdStatus> {
        let mut log = self.0.borrow_mut();
        // The first of the objects: those before it were destroyed.
        (log.eq, log.cqs, log.states) = (Some(*c), vec![], vec![]);
        drop(log);
        self.create(FakeFirmware::EQN, |o| &mut o.eqn)
    }
    fn create_cq(&mut self, _h: &mut H, c: &CqContext) -> Result<u32, CmdStatus> {
        self.grant()?;
        let mut log = self.0.borrow_mut();
        let n = FakeFirmware::CQN + log.live.cqns.len() as u32;
        log.cqs.push(*c);
        log.live.cqns.push(n);
        Ok(n)
    }
    fn create_sq(&mut self, _h: &mut H, c: &SqContext) -> Result<u32, CmdStatus> {
        self.grant()?;
        let mut log = self.0.borrow_mut();
        log.sq = Some(*c);
        let n = FakeFirmware::SQN + log.live.sqns.len() as u32;
        log.live.sqns.push(n);
        Ok(n)
    }
    fn modify_sq(
        &mut self,
        _h: &mut H,
        sqn: u32,
        from: SqState,
        to: SqState,
    ) -> Result<(), CmdStatus> {
        assert_eq!(sqn, FakeFirmware::SQN);
        self.grant()?;
        let states = &mut self.0.borrow_mut().states;
        assert_eq!(from, states.last().copied().unwrap_or(SqState::Reset));
        states.push(to);
        Ok(())
    }
    fn query_sq(&mut self, _h: &mut H, sqn: u32) -> Result<SqState, CmdStatus> {
        assert_eq!(sqn, FakeFirmware::SQN);
        Ok(self.0.borrow().states.last().copied().unwrap_or(SqState::Reset))
    }
    fn create_rq(&mut self, _h: &mut H, _c: &RqContext) -> Result<u32, CmdStatus> {
        self.create(FakeFirmware::RQN, |o| &mut o.rqn)
    }
    fn modify_rq(
        &mut self,
        _h: &mut H,
        rqn: u32,
        _from: RqState,
        _to: RqState,
    ) -> Result<(), CmdStatus> {
        assert_eq!(rqn, FakeFirmware::RQN);
        self.grant()
    }
    fn destroy(&mut self, _h: &mut H, o: &Objects) {
        let live = core::mem::take(&mut self.0.borrow_mut().live);
        assert_eq!(*o, live, "all that there are, and no others");
    }
}

/// A device that writes down what is written to its registers.
#[derive(Debug, Default)]
pub(super) struct Registers(pub(super) Vec<(u32, u8, u64)>);

impl EventSource for Registers {
    fn next_due(&self) -> Option<Time> {
        None
    }
}

impl Device<DirectPort> for Registers {
    fn mmio_read(&mut self, _p: &mut DirectPort, _at: Time, _r: Reg, _size: u8) -> u64 {
        panic!("a send path reads no register")
    }
    fn mmio_write(&mut self, _p: &mut DirectPort, _at: Time, r: Reg, size: u8, v: u64) {
        self.0.push((r.offset, size, v));
    }
    fn receive(&mut self, _p: &mut DirectPort, _at: Time, _frame: &[u8]) -> RxVerdict {
        RxVerdict::Dropped(DropReason::Off)
    }
    fn advance(&mut self, _p: &mut DirectPort, _until: Time) {}
    fn reset(&mut self, _p: &mut DirectPort, _at: Time) {}
}

/// A WQE as it stands in the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wqe {
    /// Producer counter of its first block.
    pub(super) pc: u16,
    /// Opcode.
    pub(super) opcode: u8,
    /// Data segments.
    pub(super) ds: u32,
    /// It requests a CQE.
    pub(super) asks: bool,
    /// All of its data segments.
    pub(super) bytes: Vec<u8>,
}

impl Wqe {
    /// Blocks it occupies.
    pub(super) fn blocks(&self) -> u16 {
        self.ds.div_ceil(4) as u16
    }
    /// Data segment `n`.
    pub(super) fn segment(&self, n: usize) -> &[u8] {
        &self.bytes[n * 16..n * 16 + 16]
    }
}

/// A flat host that records register writes, with leak checks.
pub(super) type HarnessHost = LeakCheckHost<DirectHost<Registers>>;

/// The driver on fake firmware.
#[derive(Debug)]
pub(super) struct DriverHarness {
    /// The host.
    pub(super) host: HarnessHost,
    /// The driver.
    pub(super) channel: Channel<FakeFirmware>,
    /// Returned buffers.
    pub(super) returned: Returned,
    paper: FakeFirmware,
    seen: u16,
    cqes: u32,
    eqes: u32,
    cookie: u32,
}

/// The capabilities of a ConnectX-5.
pub(super) const CAPS: Caps = Caps {
    enhanced_mpw: true,
    max_wqe_sz_sq: 1024,
    min_inline: 0,
    log_max_lso: 18,
    csum: true,
    vlan: true,
    swp: true,
    striding: false,
    compression: None,
    second_port: false,
};

impl DriverHarness {
    /// Opens a channel.
    pub(super) fn new(config: Config, caps: Caps) -> DriverHarness {
        DriverHarness::with_failures(config, caps, None, None)
            .unwrap_or_else(|(why, _)| panic!("{why:?}"))
    }

    /// Opens a channel; the coherent area or the command after so many is refused.
    /// On failure: why, and the host as it was left.
    pub(super) fn with_failures(
        config: Config,
        caps: Caps,
        coherent: Option<u64>,
        command: Option<u32>,
    ) -> Result<DriverHarness, (OpenError, Box<HarnessHost>)> {
        let mut host = LeakCheckHost::new(DirectHost::new(16 << 20, Registers::default()));
        host.fail_coherent_after = coherent;
        let paper = FakeFirmware::new(caps);
        paper.0.borrow_mut().refuse_after = command;
        match Channel::open(&mut host, paper.clone(), &config) {
            Ok(channel) => {
                host.host.device.0.clear();
                Ok(DriverHarness {
                    host,
                    channel,
                    returned: Returned::default(),
                    paper,
                    seen: 0,
                    cqes: 0,
                    eqes: 0,
                    cookie: 0,
                })
            }
            Err(why) => Err((why, Box::new(host))),
        }
    }

    /// With Linux's defaults, on a ConnectX-5.
    pub(super) fn default_channel() -> DriverHarness {
        DriverHarness::new(Config::DEFAULT, CAPS)
    }

    /// The same with the switch off.
    pub(super) fn without_mpwqe() -> DriverHarness {
        DriverHarness::new(Config { mpwqe: false, ..Config::DEFAULT }, CAPS)
    }

    /// A buffer filled with bytes that count up from `first`.
    pub(super) fn piece(&mut self, len: u32, first: u8) -> Fragment {
        let buf = self.host.buffer(len, Alignment::ANY).expect("memory");
        self.host.bytes_mut(&buf, 0..len, |b| {
            for (i, b) in b.iter_mut().enumerate() {
                *b = first.wrapping_add(i as u8);
            }
        });
        Fragment::whole(buf)
    }

    /// A linear packet; its mark counts up from 0.
    pub(super) fn packet(&mut self, len: u32) -> Packet {
        let head = self.piece(len, 0);
        self.cookie += 1;
        Packet { head, todo: OffloadRequest::NONE, more: None, cookie: self.cookie - 1 }
    }

    /// A packet with fragments.
    pub(super) fn fragments(&mut self, head: u32, frags: &[u32]) -> Packet {
        let mut p = self.packet(head);
        let frags = frags.iter().map(|&len| self.piece(len, 0x80)).collect();
        p.more = Some(Box::new(NonLinear { frags, list: Vec::new() }));
        p
    }

    /// Writes what makes the head of `p` one of IPv4 and of TCP or UDP, without options.
    pub(super) fn ipv4(&mut self, p: &Packet, protocol: u8) {
        let start = p.head.start;
        let fields = [(12, 0x08), (13, 0), (14, 0x45), (20, 0), (21, 0), (23, protocol)];
        let tcp = if protocol == 6 { Some((46, 0x50)) } else { None };
        for (at, v) in fields.into_iter().chain(tcp) {
            self.host.bytes_mut(&p.head.buf, start + at..start + at + 1, |b| b[0] = v);
        }
    }

    /// A UDP packet whose checksum is left to the device.
    pub(super) fn udp(&mut self, len: u32) -> Packet {
        let mut p = self.packet(len);
        self.ipv4(&p, 17);
        p.todo.checksum = Some(UDP);
        p
    }

    /// A large send of TCP with segments of `size`.
    pub(super) fn large(&mut self, len: u32, size: u16) -> Packet {
        let mut p = self.packet(len);
        self.ipv4(&p, 6);
        p.todo.gso = Some(Gso { kind: GsoKind::Tcp4, size, header: 54 });
        p
    }

    /// Hands `p` to the driver, which has to take it.
    pub(super) fn send(&mut self, p: Packet, more: bool) {
        let result = self.offer(p, more);
        assert_eq!(result, Tx::Ok);
    }

    /// Hands `p` to the driver.
    pub(super) fn offer(&mut self, p: Packet, more: bool) -> Tx {
        self.channel.transmit(&mut self.host, p, more)
    }

    /// Sends `n` linear packets of 60 bytes as one batch.
    pub(super) fn batch(&mut self, n: u32) {
        for i in 0..n {
            let p = self.packet(60);
            self.send(p, i + 1 < n);
        }
    }

    /// Returns bytes of the ring at an offset.
    pub(super) fn ring(&mut self, offset: u32, len: usize) -> Vec<u8> {
        let ring = self.paper.0.borrow().sq.expect("an SQ").ring;
        self.host.host.port.at(ring + u64::from(offset), len).to_vec()
    }

    /// The WQEs that were announced since the last call.
    pub(super) fn announced(&mut self) -> Vec<Wqe> {
        let end = self.record() as u16;
        let log = self.paper.0.borrow().sq.expect("an SQ").log_size;
        let mut all = Vec::new();
        while self.seen != end {
            let offset = (u32::from(self.seen) & ((1 << log) - 1)) * WQEBB;
            let bytes = self.ring(offset, 16);
            let ctrl = CtrlSeg::read_from_bytes(&bytes).expect("16 bytes");
            assert_eq!((ctrl.pc(), ctrl.sqn(), ctrl.opmod()), (self.seen, FakeFirmware::SQN, 0));
            let wqe = Wqe {
                pc: ctrl.pc(),
                opcode: ctrl.opcode(),
                ds: ctrl.ds(),
                asks: ctrl.fm_ce_se == 8,
                bytes: self.ring(offset, ctrl.ds() as usize * 16),
            };
            assert!(matches!(ctrl.fm_ce_se, 0 | 8));
            self.seen = self.seen.wrapping_add(wqe.blocks());
            all.push(wqe);
            assert!(all.len() < 1 << 16, "the record says {end}, which no WQE ends at");
        }
        all
    }

    /// The doorbell record: the counter that was last announced.
    pub(super) fn record(&mut self) -> u32 {
        let at = self.paper.0.borrow().sq.expect("an SQ").dbr + u64::from(dbr::SEND);
        u32::from_be_bytes(self.host.host.port.at(at, 4).try_into().expect("4 bytes"))
    }

    /// The bytes that were written to the send doorbell since the last call.
    pub(super) fn doorbells(&mut self) -> Vec<[u8; 8]> {
        let mut rung = Vec::new();
        self.host.host.device.0.retain(|&(offset, size, v)| {
            let ours = offset == FakeFirmware::UAR * uar::PAGE + uar::SEND;
            if ours {
                assert_eq!(size, 8);
                rung.push(v.to_le_bytes());
            }
            !ours
        });
        rung
    }

    /// All other register writes since the last call: offset in the page, bytes.
    pub(super) fn arms(&mut self) -> Vec<(u32, Vec<u8>)> {
        let page = FakeFirmware::UAR * uar::PAGE;
        let all = self.host.host.device.0.drain(..);
        all.map(|(offset, size, v)| (offset - page, v.to_le_bytes()[..usize::from(size)].to_vec()))
            .collect()
    }

    /// Writes a CQE for the WQE at `wqe_counter`; with a syndrome, an error CQE.
    pub(super) fn complete(&mut self, wqe_counter: u16, syndrome: u8) {
        let cq = self.paper.0.borrow().cqs[0];
        let index = self.cqes & ((1 << cq.log_size) - 1);
        let at = cq.ring + u64::from(index) * 64;
        let cqe = self.host.host.port.at(at, 64);
        cqe.fill(0);
        cqe[0x37] = syndrome;
        cqe[0x38..0x3c].copy_from_slice(&FakeFirmware::SQN.to_be_bytes());
        cqe[0x3c..0x3e].copy_from_slice(&wqe_counter.to_be_bytes());
        let opcode = if syndrome == 0 { cqe_opcode::REQ } else { cqe_opcode::REQ_ERR };
        cqe[0x3f] = opcode << 4 | (self.cqes >> cq.log_size & 1) as u8;
        self.cqes += 1;
    }

    /// Writes the first CQE of CQ `n`, beside the send queue's.
    pub(super) fn stray(&mut self, n: usize) {
        let cq = self.paper.0.borrow().cqs[n];
        self.host.host.port.at(cq.ring, 64).fill(0);
    }

    /// Writes the event that CQ `cqn` has a completion.
    pub(super) fn event(&mut self, cqn: u32) {
        let eq = self.paper.0.borrow().eq.expect("an EQ");
        let at = eq.ring + u64::from(self.eqes & ((1 << eq.log_size) - 1)) * 64;
        let eqe = self.host.host.port.at(at, 64);
        eqe.fill(0);
        eqe[0x38..0x3c].copy_from_slice(&cqn.to_be_bytes());
        eqe[0x3f] = (self.eqes >> eq.log_size & 1) as u8;
        self.eqes += 1;
    }

    /// The channel's interrupt.
    pub(super) fn interrupt(&mut self) -> Irq {
        self.channel.interrupt(&mut self.host, 0)
    }

    /// Returns the context of the EQ.
    pub(super) fn eq(&self) -> EqContext {
        self.paper.0.borrow().eq.expect("an EQ")
    }

    /// Returns the contexts of the CQs in the order of their creation.
    pub(super) fn cqs(&self) -> Vec<CqContext> {
        self.paper.0.borrow().cqs.clone()
    }

    /// Completes everything announced since the last call, as hardware does: one
    /// CQE for each WQE that asks.
    pub(super) fn complete_all(&mut self) {
        for wqe in self.announced().into_iter().filter(|w| w.asks) {
            self.complete(wqe.pc, 0);
        }
        while self.poll() == Poll::Again {}
    }

    /// One poll.
    pub(super) fn poll(&mut self) -> Poll {
        self.channel.poll(&mut self.host, 64, &mut self.returned)
    }

    /// Deferred work.
    pub(super) fn work(&mut self) {
        self.channel.work(&mut self.host);
    }

    /// The command after so many is refused.
    pub(super) fn refuse_after(&mut self, commands: u32) {
        self.paper.0.borrow_mut().refuse_after = Some(commands);
    }

    /// Counts WQEs from zero again, after a recovery.
    pub(super) fn restarted(&mut self) {
        self.seen = 0;
    }

    /// Something outside takes the SQ to a state, as an error does.
    pub(super) fn set_state(&mut self, s: SqState) {
        self.paper.0.borrow_mut().states.push(s);
    }

    /// The states that the SQ was taken through.
    pub(super) fn states(&self) -> Vec<SqState> {
        self.paper.0.borrow().states.clone()
    }

    /// The driver's counters.
    pub(super) fn stats(&self) -> Stats {
        self.channel.stats()
    }

    /// Bytes that the stack may still queue.
    pub(super) fn byte_room(&self) -> i32 {
        Driver::<HarnessHost>::byte_room(&self.channel)
    }

    /// Returns true if the driver's queue is stopped.
    pub(super) fn stopped(&self) -> bool {
        Driver::<HarnessHost>::stopped(&self.channel)
    }

    /// Closes the channel, and checks that nothing was kept.
    pub(super) fn close(self) {
        let DriverHarness { mut host, channel, returned, paper, .. } = self;
        channel.close(&mut host);
        returned.release(&mut host);
        assert_eq!(paper.0.borrow().live, Objects::default());
        assert_eq!((host.mapped.len(), host.buffers, host.coherent), (0, 0, 0));
    }
}

/// Buffers that came back, in order.
#[derive(Debug, Default)]
pub(super) struct Returned(pub(super) Vec<(Buf, u32, bool)>);

impl Returned {
    /// Returns the cookies of the packets that came back whole, in order.
    pub(super) fn packets(&self) -> Vec<u32> {
        self.0.iter().filter(|(_, _, last)| *last).map(|(_, cookie, _)| *cookie).collect()
    }
    /// Releases all of it.
    pub(super) fn release<H: Host>(self, h: &mut H) {
        for (b, ..) in self.0 {
            h.release(b);
        }
    }
}

impl Sink for Returned {
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        self.0.push((b, cookie, last));
    }
    fn received(&mut self, p: Packet, _verified: bool) {
        unreachable!("nothing was sent to us: {p:?}");
    }
}
