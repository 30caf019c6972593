//! Commands written by tests: an entry and its mailboxes in recorded memory, each byte of which a
//! test may corrupt, and the device's answers.

use super::port::RecordingPort;
use doorbell_hal::{Device, Reg, RxVerdict, Time};
use doorbell_layout::mlx5::command::{
    CURRENT, Cqc, CreateCqIn, CreateEqIn, CreateMkeyIn, CreateRqIn, CreateSqIn, CreateTirIn, Entry,
    Eqc, FunctionIn, GeneralCaps, InHeader, Mailbox, ManagePagesIn, Mkc, ModifyRqIn, ModifySqIn,
    Numbered, OutHeader, QueryPagesOut, Rqc, RqtIn, SetIssiIn, Sqc, Tirc, TisIn, Tisc, Wq,
    access_mode, cap_type, delivery, entry_type, init_segment, mailbox, op, own, pages,
};
use doorbell_layout::mlx5::{CQE_INITIAL, CmdStatus, Eqe};
use zerocopy::byteorder::big_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Delivery status.
    pub delivery: u8,
    /// Its status; `None` is success.
    pub status: Option<CmdStatus>,
    /// Its output.
    pub out: Vec<u8>,
}

impl Answer {
    /// The number of the object that was made.
    ///
    /// # Panics
    /// Panics if none was.
    pub fn number(&self) -> u32 {
        assert_eq!((self.delivery, self.status), (delivery::OK, None));
        self.out_as::<Numbered>().get(Numbered::NUMBER)
    }
    /// The output.
    ///
    /// # Panics
    /// Panics if it was refused or is shorter.
    pub fn out_as<T: FromBytes>(&self) -> T {
        assert_eq!((self.delivery, self.status), (delivery::OK, None));
        T::read_from_bytes(&self.out[..size_of::<T>()]).expect("an output")
    }
}

/// A command as it is put into memory.
#[derive(Clone, Debug)]
pub struct Written {
    /// The entry.
    pub entry: Entry,
    /// Input mailboxes.
    pub inputs: Vec<Mailbox>,
    /// Output mailboxes.
    pub outputs: Vec<Mailbox>,
}

/// A device and a command queue.
#[derive(Debug)]
pub struct CommandHarness<D> {
    /// The device.
    pub device: D,
    /// Its way out.
    pub port: RecordingPort,
    /// Time.
    pub now: Time,
    /// Mailboxes carry signatures.
    pub signed: bool,
    token: u8,
}

/// The objects that queues refer to.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "each is the number of what it is called")]
pub struct Common {
    pub uar: u32,
    pub pd: u32,
    pub td: u32,
    pub mkey: u32,
    pub tis: u32,
    pub eq: u32,
    pub cq: u32,
}

impl<D: Device<RecordingPort>> CommandHarness<D> {
    /// The command queue.
    pub const CMDQ: u64 = 0x1000;
    /// Input mailboxes; output mailboxes.
    pub const INPUTS: u64 = 0x1_0000;
    /// Output mailboxes.
    pub const OUTPUTS: u64 = 0x4_0000;
    /// Pages for firmware.
    pub const PAGES: u64 = 0x8_0000;
    /// Rings: page lists point in here.
    pub const RINGS: u64 = 0x10_0000;
    /// Doorbell records.
    pub const DBR: u64 = 0x7000;
    /// Packets.
    pub const DATA: u64 = 0x18_0000;

    /// Takes a device, or what makes one, after power-on, and tells it where the queue is.
    pub fn new(device: impl Into<D>) -> Self {
        Self::in_memory(device, 0x20_0000)
    }

    /// Does so with so many bytes of memory.
    pub(super) fn in_memory(device: impl Into<D>, size: usize) -> Self {
        let (device, port) = (device.into(), RecordingPort::new(size));
        let mut c = CommandHarness { device, port, now: Time::ZERO, signed: false, token: 0 };
        c.register(init_segment::CMDQ_HI, 0);
        c.register(init_segment::CMDQ_LO, Self::CMDQ as u32);
        c
    }

    /// Returns true for an address of the command interface.
    pub(super) fn is_command(at: u64) -> bool {
        (Self::CMDQ..Self::CMDQ + 0x800).contains(&at)
            || (Self::INPUTS..Self::INPUTS + 0x5_0000).contains(&at)
    }

    /// A device that runs.
    pub fn running(device: impl Into<D>) -> Self {
        let mut c = Self::new(device);
        c.bring_up();
        c
    }

    /// From power-on to `INIT_HCA`.
    pub fn bring_up(&mut self) {
        self.ok(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]);
        let mut m = SetIssiIn::ZERO;
        m.set(SetIssiIn::CURRENT, 1);
        self.ok(op::SET_ISSI, 0, &m, &[]);
        let all = self.wanted(pages::INIT);
        self.give(0, all.try_into().expect("few pages"));
        self.ok(op::INIT_HCA, 0, &Numbered::ZERO, &[]);
    }

    /// Returns the number of pages that the device asks for.
    pub fn wanted(&mut self, which: u32) -> i32 {
        let out: QueryPagesOut = self.ok(op::QUERY_PAGES, which, &Numbered::ZERO, &[]).out_as();
        out.get(QueryPagesOut::PAGES) as i32
    }

    /// Gives pages, from the `first` on.
    pub fn give(&mut self, first: u16, n: u16) {
        let list: Vec<u8> = (first..first + n)
            .flat_map(|i| (Self::PAGES + u64::from(i) * 4096).to_be_bytes())
            .collect();
        let mut m = ManagePagesIn::ZERO;
        m.set(ManagePagesIn::ENTRIES, u32::from(n));
        self.ok(op::MANAGE_PAGES, pages::GIVE, &m, &list);
    }

    /// Writes a register of four bytes.
    pub fn register(&mut self, offset: u32, v: u32) {
        self.device.mmio_write(
            &mut self.port,
            self.now,
            Reg::at(offset),
            4,
            u64::from(v.swap_bytes()),
        );
    }

    /// Reads one.
    pub fn read_register(&mut self, offset: u32) -> u32 {
        (self.device.mmio_read(&mut self.port, self.now, Reg::at(offset), 4) as u32).swap_bytes()
    }

    /// A frame from the wire.
    pub fn receive(&mut self, frame: &[u8]) -> RxVerdict {
        self.device.receive(&mut self.port, self.now, frame)
    }

    /// Lets everything come to its end.
    pub fn settle(&mut self) {
        while let Some(due) = self.device.next_due() {
            self.now = self.now.max(due);
            self.device.advance(&mut self.port, self.now);
        }
    }

    /// A command, ready to be put into memory.
    pub fn compose(&mut self, input: &[u8], output_length: usize) -> Written {
        self.token = self.token.wrapping_add(1).max(1);
        let token = self.token;
        let chain = |first: u64, data: &[u8], length: usize| -> Vec<Mailbox> {
            let n = length.saturating_sub(16).div_ceil(mailbox::DATA);
            let one = |i: usize| {
                let mut m = Mailbox::new_zeroed();
                let from = (16 + i * mailbox::DATA).min(data.len());
                let part = &data[from..data.len().min(from + mailbox::DATA)];
                m.data[..part.len()].copy_from_slice(part);
                m.next = U64::new(if i + 1 == n { 0 } else { first + (i as u64 + 1) * 1024 });
                m.block_number = U32::new(i as u32);
                m.token = token;
                m
            };
            (0..n).map(one).collect()
        };
        let inputs = chain(Self::INPUTS, input, input.len());
        let outputs = chain(Self::OUTPUTS, &[], output_length);
        let mut entry = Entry::new_zeroed();
        entry.kind = entry_type::PCIE;
        entry.input_length = U32::new(input.len() as u32);
        let n = input.len().min(16);
        entry.input[..n].copy_from_slice(&input[..n]);
        entry.input_mailbox = U64::new(if inputs.is_empty() { 0 } else { Self::INPUTS });
        entry.output_mailbox = U64::new(if outputs.is_empty() { 0 } else { Self::OUTPUTS });
        entry.output_length = U32::new(output_length as u32);
        entry.token = token;
        entry.status_own = own::HARDWARE;
        let mut w = Written { entry, inputs, outputs };
        if self.signed {
            w.inputs.iter_mut().chain(&mut w.outputs).for_each(Mailbox::sign);
            w.entry.sign();
        }
        w
    }

    /// Puts a command into `slot`.
    pub fn put(&mut self, slot: u8, w: &Written) {
        let mut copy = |at: u64, bytes: &[u8]| {
            self.port.memory[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
        };
        for (first, boxes) in [(Self::INPUTS, &w.inputs), (Self::OUTPUTS, &w.outputs)] {
            for (i, m) in boxes.iter().enumerate() {
                copy(first + i as u64 * 1024, m.as_bytes());
            }
        }
        copy(Self::CMDQ + u64::from(slot) * 64, w.entry.as_bytes());
    }

    /// The entry in `slot` as it stands in memory.
    pub fn entry(&self, slot: u8) -> Entry {
        let at = Self::CMDQ as usize + usize::from(slot) * 64;
        Entry::read_from_bytes(&self.port.memory[at..at + 64]).expect("64 bytes")
    }

    /// Rings for `slot`, lets time pass until it is answered and no longer, and reads
    /// the answer; `None` when there is none.
    pub fn ring(&mut self, slot: u8) -> Option<Answer> {
        self.register(init_segment::DOORBELL, 1 << slot);
        while self.entry(slot).status_own & own::HARDWARE != 0 {
            let due = self.device.next_due()?;
            self.now = self.now.max(due);
            self.device.advance(&mut self.port, self.now);
        }
        let entry = self.entry(slot);
        let length = entry.output_length.get() as usize;
        let mut out = entry.output.to_vec();
        for i in 0..length.saturating_sub(16).div_ceil(mailbox::DATA).min(64) {
            let at = Self::OUTPUTS as usize + i * 1024;
            out.extend_from_slice(&self.port.memory[at..at + mailbox::DATA]);
        }
        out.truncate(length);
        let status = out.first().copied().and_then(CmdStatus::from_byte);
        Some(Answer { delivery: entry.status_own >> 1, status, out })
    }

    /// Sends bytes as a command in slot 0.
    pub fn send(&mut self, input: &[u8], output_length: usize) -> Answer {
        let w = self.compose(input, output_length);
        self.put(0, &w);
        self.ring(0).expect("an answer")
    }

    /// The input bytes of a command.
    pub fn input<T: IntoBytes + Immutable + ?Sized>(
        opcode: u16,
        op_mod: u32,
        message: &T,
        list: &[u8],
    ) -> Vec<u8> {
        let mut bytes = [message.as_bytes(), list].concat();
        let mut h = InHeader::ZERO;
        h.set(InHeader::OPCODE, u32::from(opcode)).set(InHeader::OP_MOD, op_mod);
        bytes[..8].copy_from_slice(&h.0);
        bytes
    }

    /// A command, with room for any answer.
    pub fn run<T: IntoBytes + Immutable>(
        &mut self,
        opcode: u16,
        op_mod: u32,
        message: &T,
        list: &[u8],
    ) -> Answer {
        let a = self.send(&Self::input(opcode, op_mod, message, list), 0x1010);
        assert_eq!(a.delivery, delivery::OK, "command {opcode:#x}");
        a
    }

    /// A command that has to succeed.
    pub fn ok<T: IntoBytes + Immutable>(
        &mut self,
        opcode: u16,
        op_mod: u32,
        message: &T,
        list: &[u8],
    ) -> Answer {
        let a = self.run(opcode, op_mod, message, list);
        assert_eq!(a.status, None, "command {opcode:#x}");
        a
    }

    /// A command about object `n`: its status.
    pub fn about(&mut self, opcode: u16, n: u32) -> Option<CmdStatus> {
        let mut m = Numbered::ZERO;
        m.set(Numbered::NUMBER, n);
        self.run(opcode, 0, &m, &[]).status
    }

    /// The answer of a query about object `n`.
    pub fn query<T: FromBytes>(&mut self, opcode: u16, n: u32) -> T {
        let mut m = Numbered::ZERO;
        m.set(Numbered::NUMBER, n);
        self.ok(opcode, 0, &m, &[]).out_as()
    }

    /// A new object that needs no input.
    pub fn alloc(&mut self, opcode: u16) -> u32 {
        self.ok(opcode, 0, &Numbered::ZERO, &[]).number()
    }

    /// A capability group.
    pub fn caps(&mut self, group: u32, which: u32) -> Vec<u8> {
        self.ok(op::QUERY_HCA_CAP, group << 1 | which, &Numbered::ZERO, &[]).out[16..].to_vec()
    }

    /// Has signatures checked; before `INIT_HCA`.
    pub fn set_checksum(&mut self, checksum: u32) {
        let mut caps = GeneralCaps::ZERO;
        caps.0.copy_from_slice(&self.caps(cap_type::GENERAL, CURRENT));
        caps.set(GeneralCaps::CMDIF_CHECKSUM, checksum);
        self.ok(op::SET_HCA_CAP, cap_type::GENERAL << 1, &Numbered::ZERO, &caps.0);
        self.signed = true;
    }

    /// A page list.
    pub fn pas(list: &[u64]) -> Vec<u8> {
        list.iter().flat_map(|a| a.to_be_bytes()).collect()
    }

    /// Page `n` of the rings' memory.
    pub fn page(n: u64) -> u64 {
        Self::RINGS + n * 4096
    }

    // ---- objects ----

    /// An EQ of `1 << log` entries that takes `events`.
    pub fn eq(&mut self, uar: u32, log: u32, vector: u32, events: u64, list: &[u64]) -> Answer {
        let entries = 1usize << log;
        for (i, page) in list.iter().enumerate() {
            for e in 0..64.min(entries - (i * 64).min(entries)) {
                self.port.memory[*page as usize + e * 64 + 63] = 1;
            }
        }
        let m = Self::eq_message(uar, log, vector, events);
        self.run(op::CREATE_EQ, 0, &m, &Self::pas(list))
    }

    /// Returns the input of CREATE_EQ.
    pub fn eq_message(uar: u32, log: u32, vector: u32, events: u64) -> CreateEqIn {
        let mut m = CreateEqIn::ZERO;
        m.set_quad(CreateEqIn::EVENTS, events);
        m.part_mut(CreateEqIn::EQC)
            .set(Eqc::LOG_SIZE, log)
            .set(Eqc::UAR, uar)
            .set(Eqc::INTR, vector);
        m
    }

    /// The event at place `i` of a ring in one page.
    pub fn eqe(&self, page: u64, i: usize) -> Eqe {
        Eqe::read_from_bytes(&self.port.memory[page as usize + i * 64..][..64]).expect("64 bytes")
    }

    /// Returns the input of CREATE_CQ.
    pub fn cq_message(c: &Common, log: u32, dbr: u64) -> CreateCqIn {
        let mut m = CreateCqIn::ZERO;
        let cqc = m.part_mut(CreateCqIn::CQC);
        cqc.set(Cqc::LOG_SIZE, log)
            .set(Cqc::UAR, c.uar)
            .set(Cqc::EQN, c.eq)
            .set_quad(Cqc::DBR, dbr);
        m
    }

    /// A CQ.
    pub fn cq(&mut self, c: &Common, log: u32, dbr: u64, list: &[u64]) -> Answer {
        for page in list {
            for e in 0..64 {
                self.port.memory[*page as usize + e * 64 + 63] = CQE_INITIAL;
            }
        }
        self.run(op::CREATE_CQ, 0, &Self::cq_message(c, log, dbr), &Self::pas(list))
    }

    /// Returns the input of CREATE_SQ.
    pub fn sq_message(c: &Common, log: u32, dbr: u64) -> CreateSqIn {
        let mut m = CreateSqIn::ZERO;
        let sqc = m.part_mut(CreateSqIn::SQC);
        sqc.set(Sqc::CQN, c.cq).set(Sqc::TIS_LIST_SIZE, 1).set(Sqc::TIS, c.tis);
        let wq = sqc.part_mut(Sqc::WQ);
        wq.set(Wq::TYPE, 1).set(Wq::PD, c.pd).set(Wq::UAR, c.uar).set_quad(Wq::DBR, dbr);
        wq.set(Wq::LOG_STRIDE, 6).set(Wq::LOG_SIZE, log);
        m
    }

    /// An SQ.
    pub fn sq(&mut self, c: &Common, log: u32, dbr: u64, list: &[u64]) -> Answer {
        self.run(op::CREATE_SQ, 0, &Self::sq_message(c, log, dbr), &Self::pas(list))
    }

    /// `MODIFY_SQ`.
    pub fn modify_sq(&mut self, sqn: u32, from: u32, to: u32) -> Option<CmdStatus> {
        let mut m = ModifySqIn::ZERO;
        m.set(ModifySqIn::FROM, from)
            .set(ModifySqIn::NUMBER, sqn)
            .part_mut(ModifySqIn::SQC)
            .set(Sqc::STATE, to);
        self.run(op::MODIFY_SQ, 0, &m, &[]).status
    }

    /// Returns the input of CREATE_RQ.
    pub fn rq_message(c: &Common, log: u32, log_stride: u32, dbr: u64) -> CreateRqIn {
        let mut m = CreateRqIn::ZERO;
        let rqc = m.part_mut(CreateRqIn::RQC);
        rqc.set(Rqc::CQN, c.cq);
        let wq = rqc.part_mut(Rqc::WQ);
        wq.set(Wq::TYPE, 1).set(Wq::PD, c.pd).set(Wq::UAR, c.uar).set_quad(Wq::DBR, dbr);
        wq.set(Wq::LOG_STRIDE, log_stride).set(Wq::LOG_SIZE, log);
        m
    }

    /// An RQ of entries of 16 bytes.
    pub fn rq(&mut self, c: &Common, log: u32, dbr: u64, list: &[u64]) -> Answer {
        self.run(op::CREATE_RQ, 0, &Self::rq_message(c, log, 4, dbr), &Self::pas(list))
    }

    /// `MODIFY_RQ`.
    pub fn modify_rq(&mut self, rqn: u32, from: u32, to: u32) -> Option<CmdStatus> {
        let mut m = ModifyRqIn::ZERO;
        m.set(ModifyRqIn::FROM, from)
            .set(ModifyRqIn::NUMBER, rqn)
            .part_mut(ModifyRqIn::RQC)
            .set(Rqc::STATE, to);
        self.run(op::MODIFY_RQ, 0, &m, &[]).status
    }

    /// An RQT of these queues.
    pub fn rqt(&mut self, rqns: &[u32]) -> Answer {
        let mut m = RqtIn::ZERO;
        m.set(RqtIn::MAX_SIZE, rqns.len() as u32).set(RqtIn::ACTUAL_SIZE, rqns.len() as u32);
        let list: Vec<u8> = rqns.iter().flat_map(|n| n.to_be_bytes()).collect();
        self.run(op::CREATE_RQT, 0, &m, &list)
    }

    /// A TIR that leads to an RQ, or with `indirect` to an RQT.
    pub fn tir(&mut self, c: &Common, n: u32, indirect: bool) -> Answer {
        let mut m = CreateTirIn::ZERO;
        let tirc = m.part_mut(CreateTirIn::TIRC);
        tirc.set(Tirc::TRANSPORT_DOMAIN, c.td).set(Tirc::DISPATCH, u32::from(indirect));
        tirc.set(if indirect { Tirc::RQTN } else { Tirc::INLINE_RQN }, n);
        self.run(op::CREATE_TIR, 0, &m, &[])
    }

    /// Returns the input of CREATE_MKEY for a key over all of memory.
    pub fn mkey_message(pd: u32) -> CreateMkeyIn {
        let mut m = CreateMkeyIn::ZERO;
        let mkc = m.part_mut(CreateMkeyIn::MKC);
        mkc.set(Mkc::ACCESS_MODE, access_mode::PA).set(Mkc::LOCAL_READ, 1).set(Mkc::LOCAL_WRITE, 1);
        mkc.set(Mkc::LENGTH64, 1).set(Mkc::PD, pd);
        m
    }

    /// A TIS in a transport domain.
    pub fn tis(&mut self, td: u32) -> Answer {
        self.tis_at(td, 0)
    }

    /// The same, which names a port.
    pub fn tis_at(&mut self, td: u32, port: u32) -> Answer {
        let mut m = TisIn::ZERO;
        let tisc = m.part_mut(TisIn::TISC);
        tisc.set(Tisc::TRANSPORT_DOMAIN, td).set(Tisc::LAG_TX_PORT_AFFINITY, port);
        self.run(op::CREATE_TIS, 0, &m, &[])
    }

    /// Creates the objects that queues refer to, with an EQ in page 0 and a CQ in page 1 of the
    /// rings.
    pub fn common(&mut self) -> Common {
        let uar = self.alloc(op::ALLOC_UAR);
        let pd = self.alloc(op::ALLOC_PD);
        let td = self.alloc(op::ALLOC_TRANSPORT_DOMAIN);
        let mkey = self.ok(op::CREATE_MKEY, 0, &Self::mkey_message(pd), &[]).number();
        let tis = self.tis(td).number();
        let eq = self.eq(uar, 6, 3, 0, &[Self::page(0)]).number();
        let mut c = Common { uar, pd, td, mkey, tis, eq, cq: 0 };
        c.cq = self.cq(&c, 6, Self::DBR, &[Self::page(1)]).number();
        c
    }
}

const _: () = assert!(OutHeader::LEN == 8);
