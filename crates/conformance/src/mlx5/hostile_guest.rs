//! Any guest: registers, its whole memory, also while the device reads it, firmware commands whole
//! and spoilt, a driver that makes queues, hashes and rules, posts, sends, and frames, time. The
//! device does a bounded amount of work for each, and after a reset of the function it touches
//! nothing.

use super::command_harness::{CommandHarness, Common};
use crate::fuzz::{Bytes, Frame, Seed, input, next, seed};
use arbitrary::Unstructured;
use doorbell_devices::mlx5::receive::Counters as RxCounters;
use doorbell_devices::mlx5::{Config, Counters};
use doorbell_hal::{Device, Reg, Span};
use doorbell_layout::mlx5::command::{
    CRITERIA_LIST, CreateFlowGroupIn, CreateFlowTableIn, CreateMkeyIn, CreateRqIn, CreateTirIn,
    DESTINATION_LIST, FlowContext, FlowTableContext, FlowTableIn, Mkc, ModifyNicVportIn,
    ModifyRqIn, ModifySqIn, NicVport, Numbered, Rqc, RqtIn, SetFteIn, Sqc, Tirc, destination,
    flow_action, init_segment, miss_action, op, vport_field,
};
use doorbell_layout::mlx5::receive::{L4_OK, RxCqe, TERMINATE_LKEY, self_lb_block};
use doorbell_layout::mlx5::steering::{CVLAN, IP_VERSION_SHIFT, Layers, criteria};
use doorbell_layout::mlx5::{
    CQ_UPDATE, CtrlSeg, DataSeg, ETH_WQE_INSERT_VLAN, EthSeg, cs_flags, opcode as wqe, uar,
};
use doorbell_packet::headers;
use zerocopy::{FromBytes, IntoBytes};

/// Accesses of one step at the most: what the longest send queue can ask for.
const BOUND: usize = 1 << 20;

/// Every opcode that there is, and some that there are not.
const OPCODES: [std::ops::RangeInclusive<u16>; 8] = [
    0x100..=0x10d,
    0x200..=0x203,
    0x301..=0x303,
    0x400..=0x403,
    0x750..=0x755,
    0x770..=0x773,
    0x800..=0x817,
    0x900..=0x93c,
];

fn opcode(n: u16) -> u16 {
    let all: usize = OPCODES.iter().map(ExactSizeIterator::len).sum();
    OPCODES.iter().cloned().flatten().nth(usize::from(n) % all).unwrap_or(0)
}

/// The input of a command that makes sense, about objects that there are.
fn sensible(which: u8, o: &Common, n: u32) -> (u16, Vec<u8>) {
    let pages = CommandHarness::pas(&[
        CommandHarness::page(30),
        CommandHarness::page(28),
        CommandHarness::page(29),
        CommandHarness::page(31),
    ]);
    let log = n & 7;
    match which % 10 {
        0 => (
            op::CREATE_SQ,
            [CommandHarness::sq_message(o, log, CommandHarness::DBR).as_bytes(), &pages].concat(),
        ),
        1 => (
            op::CREATE_RQ,
            [CommandHarness::rq_message(o, log, 4, CommandHarness::DBR).as_bytes(), &pages]
                .concat(),
        ),
        2 => (
            op::CREATE_CQ,
            [CommandHarness::cq_message(o, log, CommandHarness::DBR).as_bytes(), &pages].concat(),
        ),
        3 => {
            let mut m = RqtIn::ZERO;
            m.set(RqtIn::MAX_SIZE, 2).set(RqtIn::ACTUAL_SIZE, 2).set(RqtIn::RQTN, 0x3000 + (n & 3));
            let rqns = [0x4000 + (n >> 2 & 3), 0x4000 + (n >> 4 & 3)];
            (
                op::CREATE_RQT + (n >> 6 & 1) as u16,
                [m.as_bytes(), &rqns.map(u32::to_be_bytes).concat()].concat(),
            )
        }
        4 => (op::CREATE_FLOW_TABLE, CreateFlowTableIn::ZERO.as_bytes().to_vec()),
        5 => {
            let mut m = CreateFlowGroupIn::ZERO;
            m.set(CreateFlowGroupIn::TABLE, 0x8000 + (n & 3));
            (op::CREATE_FLOW_GROUP, [m.as_bytes(), &[0; 0x200]].concat())
        }
        6 => {
            let mut m = SetFteIn::ZERO;
            m.set(SetFteIn::TABLE, 0x8000 + (n & 3));
            m.0[0x47] = 1 + (n >> 2 & 3) as u8;
            m.0[0x4f] = 4;
            m.0[0x53] = 1;
            let to = if n >> 4 & 1 == 0 { 2 << 24 | 0x2000 } else { 1 << 24 | 0x8000 };
            (
                op::SET_FLOW_TABLE_ENTRY,
                [m.as_bytes(), &(to | n >> 5 & 3).to_be_bytes(), &[0; 4]].concat(),
            )
        }
        7 => {
            let mut m = CommandHarness::mkey_message(o.pd);
            m.set(CreateMkeyIn::OCTWORDS, 2);
            let c = m.part_mut(CreateMkeyIn::MKC);
            c.set(Mkc::ACCESS_MODE, n & 1)
                .set(Mkc::LENGTH64, 1 - (n & 1))
                .set(Mkc::LOG_PAGE_SIZE, 12);
            c.set_quad(Mkc::LENGTH, u64::from(n & 0x3fff));
            (op::CREATE_MKEY, [m.as_bytes(), &pages].concat())
        }
        _ => {
            let mut m = Numbered::ZERO;
            m.set(Numbered::NUMBER, n & 0xffff);
            (opcode((n >> 16) as u16), m.as_bytes().to_vec())
        }
    }
}

/// Station of the port.
const STATION: [u8; 6] = Config::CONNECTX.mac;
/// The driver's frames to be sent, behind receive buffers.
const FRAMES: u64 = CommandHarness::DATA + 0x4_0000;
/// The page of the first receive queue's ring; of the send queue's.
const RQ_PAGE: u64 = 40;
const SQ_PAGE: u64 = 30;
/// Queues, TIRs, tables at the most.
const MANY: usize = 8;

input! {
    /// An action of the guest, or of the world.
    pub enum Action {
        /// Writes memory, in units of 32 bytes.
        Poke {
            /// Place.
            at: u16,
            /// Bytes.
            bytes: Bytes,
        },
        /// Writes any register.
        Write {
            /// Region 1.
            other: bool,
            /// Offset,
            offset: u16,
            /// to be shifted so far.
            shift: u8,
            /// Width.
            size: u8,
            /// Value.
            value: u64,
        },
        /// Reads any register.
        Read {
            /// Offset.
            offset: u16,
            /// Width.
            size: u8,
        },
        /// Writes a doorbell with numbers that may be right.
        Doorbell {
            /// The word.
            which: u8,
            /// Its first half.
            first: u32,
            /// The queue.
            n: u8,
        },
        /// Rings for commands.
        Slots {
            /// Their bits.
            slots: u32,
        },
        /// Gives a command that makes sense, or is changed.
        Command {
            /// The kind.
            which: u8,
            /// Its numbers.
            n: u32,
            /// A byte that is changed,
            at: u16,
            /// by these bits.
            bits: u8,
            /// Another opcode, if not 0.
            opcode: u16,
            /// Modifier.
            op_mod: u8,
            /// Room for the output, in 8 bytes.
            room: u8,
        },
        /// Makes receive queues and lets them run.
        Queues {
            /// Their number.
            n: u8,
            /// log2 of the data segments in a WQE.
            stride: u8,
            /// Flags of the context.
            flags: u8,
        },
        /// Posts receive WQEs.
        Post {
            /// The queue.
            queue: u8,
            /// WQEs.
            n: u8,
            /// Bytes of a segment.
            len: u16,
            /// A fault in the WQEs.
            fault: u8,
        },
        /// Makes a TIR: to a queue, or by a hash to all of them.
        Tir {
            /// The hash, symmetric, loopback, direct: bits.
            how: u8,
            /// Hashed fields.
            fields: u32,
            /// Seed of the key.
            key: u8,
        },
        /// Makes a flow table.
        Table {
            /// Its level, and that of the table for what it misses: 4 bits each.
            level: u8,
        },
        /// Makes a rule: frames like this one, compared in these fields, go there.
        Rule {
            /// The table.
            table: u8,
            /// Fields.
            fields: u8,
            /// The frame.
            frame: Frame,
            /// Destination: a TIR, or with the highest bit a table.
            to: u8,
            /// Action beside the usual.
            action: u8,
        },
        /// Sends a frame.
        Send {
            /// The frame.
            frame: Frame,
            /// Checksums, tag, pieces: bits.
            how: u8,
            /// Payload of a segment, if it is to be cut.
            mss: u16,
        },
        /// A frame arrives.
        Receive {
            /// The frame.
            frame: Frame,
        },
        /// Any bytes arrive.
        ReceiveRaw {
            /// Their length,
            len: u16,
            /// their beginning.
            head: Bytes,
        },
        /// Time passes.
        Wait {
            /// Nanoseconds,
            ns: u16,
            /// shifted so far.
            shift: u8,
        },
        /// The cable is pulled and put in.
        Carrier { },
        /// Firmware asks for pages.
        Pages {
            /// Pages, or back if negative.
            n: u8,
        },
        /// The function is reset.
        Reset { },
        /// The station's address is put into the vport's list.
        Address { },
    }
}

/// Bits of [`Action::Tir`] beside the hash function.
const SYMMETRIC: u8 = 4;
const LOOPBACK: u8 = 8;
const DIRECT: u8 = 16;
/// Bits of [`Action::Rule`]: fields to compare.
const ETHERTYPE: u8 = 1;
const DMAC: u8 = 2;
const IP_VERSION: u8 = 4;
const PROTOCOL: u8 = 8;
const PORTS: u8 = 16;
const TAG: u8 = 32;
/// Bits of [`Action::Send`].
const CHECKSUMS: u8 = 1;
const INSERT_TAG: u8 = 2;

/// Counters of the device after an attack.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// Of the transmit side.
    pub sent: Counters,
    /// Of the receive side.
    pub received: RxCounters,
    /// Receive queues of the driver with a completion,
    pub queues: usize,
    /// completions with a hash,
    pub hashed: u64,
    /// and those whose transport checksum was checked.
    pub checked: u64,
}

/// The guest's driver.
struct Guest {
    c: CommandHarness,
    o: Common,
    sqn: u32,
    pc: u16,
    /// Numbers of receive queues, and their counters of posted WQEs and strides.
    rqs: Vec<(u32, u16, u32)>,
    tirs: Vec<u32>,
    tables: Vec<u32>,
    rules: u32,
}

impl Guest {
    /// Has a command done. Returns the number of what it made.
    fn command<T: IntoBytes + zerocopy::Immutable + ?Sized>(
        &mut self,
        opcode: u16,
        message: &T,
        list: &[u8],
    ) -> Option<u32> {
        let w = self.c.compose(&CommandHarness::input(opcode, 0, message, list), 16);
        self.c.put(0, &w);
        let answer = self.c.ring(0)?;
        let made = answer.delivery == 0 && answer.status.is_none() && answer.out.len() >= 12;
        made.then(|| u32::from_be_bytes(answer.out[8..12].try_into().expect("4 bytes")) & 0xff_ffff)
    }

    fn record(i: usize) -> u64 {
        CommandHarness::DBR + 0x200 + i as u64 * 64
    }

    fn write_memory(&mut self, at: u64, bytes: &[u8]) {
        self.c.port.memory[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
    }

    fn queues(&mut self, n: u8, stride: u8, flags: u8) {
        for _ in 0..=n % 4 {
            let i = self.rqs.len();
            if i == MANY {
                return;
            }
            let log_stride = 4 + u32::from(stride % 3);
            let mut m = CommandHarness::rq_message(&self.o, 4, log_stride, Guest::record(i));
            m.part_mut(CreateRqIn::RQC)
                .set(Rqc::NO_VLAN_STRIP, u32::from(flags & 1))
                .set(Rqc::FLUSH_IN_ERROR, u32::from(flags >> 1 & 1));
            let page = CommandHarness::page(RQ_PAGE + i as u64);
            let made = self.command(op::CREATE_RQ, &m, &CommandHarness::pas(&[page]));
            let Some(rqn) = made else { return };
            let mut m = ModifyRqIn::ZERO;
            m.set(ModifyRqIn::NUMBER, rqn).part_mut(ModifyRqIn::RQC).set(Rqc::STATE, 1);
            self.command(op::MODIFY_RQ, &m, &[]);
            self.rqs.push((rqn, 0, 1 << log_stride));
        }
    }

    fn post(&mut self, queue: u8, n: u8, len: u16, fault: u8) {
        if self.rqs.is_empty() {
            return;
        }
        let i = usize::from(queue) % self.rqs.len();
        let (_, mut posted, stride) = self.rqs[i];
        for _ in 0..n & 31 {
            let slot = u64::from(posted & 15);
            for s in 0..stride / 16 {
                let at = CommandHarness::page(RQ_PAGE + i as u64);
                let at = at + slot * u64::from(stride) + u64::from(s) * 16;
                let lkey = match fault % 4 {
                    1 if s > 0 => TERMINATE_LKEY,
                    2 => self.o.mkey << 8 ^ 0x100,
                    _ => self.o.mkey << 8,
                };
                let buffer = CommandHarness::DATA + slot * 0x4000 + u64::from(s) * u64::from(len);
                let segment = DataSeg {
                    byte_count: u32::from(len).into(),
                    lkey: lkey.into(),
                    addr: if fault % 4 == 3 { 1 << 40 } else { buffer }.into(),
                };
                self.write_memory(at, segment.as_bytes());
            }
            posted = posted.wrapping_add(1);
        }
        self.rqs[i].1 = posted;
        self.write_memory(Guest::record(i), &u32::from(posted).to_be_bytes());
    }

    fn tir(&mut self, how: u8, fields: u32, key: u8) {
        let (Some(&(rqn, ..)), true) = (self.rqs.first(), self.tirs.len() < MANY) else { return };
        let mut m = CreateTirIn::ZERO;
        let c = m.part_mut(CreateTirIn::TIRC);
        if how & DIRECT == 0 {
            let rqns: Vec<u32> = self.rqs.iter().map(|q| q.0).collect();
            let n = 1 << rqns.len().ilog2();
            let mut t = RqtIn::ZERO;
            t.set(RqtIn::MAX_SIZE, n).set(RqtIn::ACTUAL_SIZE, n);
            let list: Vec<u8> = rqns.iter().flat_map(|n| n.to_be_bytes()).collect();
            let Some(rqtn) = self.command(op::CREATE_RQT, &t, &list) else { return };
            c.set(Tirc::DISPATCH, 1).set(Tirc::RQTN, rqtn);
        } else {
            c.set(Tirc::INLINE_RQN, rqn);
        }
        let lets_in = if how & LOOPBACK != 0 { u32::from(self_lb_block::UNICAST) } else { 0 };
        c.set(Tirc::TRANSPORT_DOMAIN, self.o.td)
            .set(Tirc::HASH_FN, u32::from(how & 3))
            .set(Tirc::SYMMETRIC, u32::from(how & SYMMETRIC != 0))
            .set(Tirc::SELF_LB_BLOCK, lets_in)
            .set(Tirc::FIELDS, fields);
        let key_bytes = c.0[Tirc::KEY..].iter_mut().take(40);
        key_bytes.enumerate().for_each(|(i, b)| *b = key.wrapping_mul(i as u8 + 1));
        let made = self.command(op::CREATE_TIR, &m, &[]);
        self.tirs.extend(made);
    }

    fn table(&mut self, level: u8) {
        if self.tables.len() == MANY {
            return;
        }
        let mut m = CreateFlowTableIn::ZERO;
        let c = m.part_mut(CreateFlowTableIn::CONTEXT);
        c.set(FlowTableContext::LEVEL, u32::from(level & 15)).set(FlowTableContext::LOG_SIZE, 6);
        if let Some(n) = self.tables.get(usize::from(level >> 4).wrapping_sub(1)) {
            c.set(FlowTableContext::MISS_ACTION, miss_action::TABLE);
            c.set(FlowTableContext::MISS_TABLE, *n);
        }
        let made = self.command(op::CREATE_FLOW_TABLE, &m, &[]);
        self.tables.extend(made);
        let mut m = FlowTableIn::ZERO;
        m.set(FlowTableIn::TABLE, self.tables.first().copied().unwrap_or(0));
        self.command(op::SET_FLOW_TABLE_ROOT, &m, &[]);
    }

    fn rule(&mut self, table: u8, fields: u8, frame: &Frame, to: u8, action: u8) {
        let some = |of: &[u32], n: u8| of.get(usize::from(n) % of.len().max(1)).copied();
        let Some(table) = some(&self.tables, table) else { return };
        let (mut mask, mut value) = (Layers::default(), Layers::default());
        let bytes = frame.bytes(STATION, 2000);
        let has = |bit| fields & bit != 0;
        if has(ETHERTYPE) {
            mask.ethertype.set(0xffff);
            let v6 = frame.kind & Frame::V6 != 0;
            value.ethertype.set(if v6 { 0x86dd } else { 0x0800 });
        }
        if has(DMAC) {
            mask.dmac = [0xff; 6];
            value.dmac.copy_from_slice(&bytes[..6]);
        }
        if let (Ok(h), true) = (headers::Layers::of(&bytes), has(IP_VERSION | PROTOCOL)) {
            if has(IP_VERSION) {
                mask.tags_version_flags |= 0xf << IP_VERSION_SHIFT;
                let version = u16::from(bytes[usize::from(h.l3)] >> 4);
                value.tags_version_flags |= version << IP_VERSION_SHIFT;
            }
            if has(PROTOCOL) {
                (mask.ip_protocol, value.ip_protocol) = (0xff, h.protocol);
            }
        }
        if has(PORTS) {
            mask.tcp_dport.set(0xffff);
            value.tcp_dport.set(0x162e);
        }
        if has(TAG) {
            mask.tags_version_flags |= CVLAN;
            value.tags_version_flags |= if frame.kind & Frame::TAGGED != 0 { CVLAN } else { 0 };
        }
        let index = self.rules;
        self.rules += 1;
        let mut m = CreateFlowGroupIn::ZERO;
        m.set(CreateFlowGroupIn::TABLE, table)
            .set(CreateFlowGroupIn::START, index)
            .set(CreateFlowGroupIn::END, index)
            .set(CreateFlowGroupIn::CRITERIA, u32::from(criteria::OUTER));
        let mut list = vec![0; 0x200];
        list[..64].copy_from_slice(mask.as_bytes());
        debug_assert_eq!(size_of_val(&m.0), CRITERIA_LIST);
        let Some(group) = self.command(op::CREATE_FLOW_GROUP, &m, &list) else { return };
        let (kind, of) = if to & 0x80 == 0 {
            (destination::TIR, &self.tirs)
        } else {
            (destination::TABLE, &self.tables)
        };
        let Some(to) = some(of, to & 0x7f) else { return };
        let mut m = SetFteIn::ZERO;
        m.set(SetFteIn::TABLE, table).set(SetFteIn::INDEX, index);
        let c = m.part_mut(SetFteIn::CONTEXT);
        c.set(FlowContext::GROUP, group)
            .set(FlowContext::TAG, 0x1234)
            .set(FlowContext::ACTION, flow_action::FORWARD ^ u32::from(action))
            .set(FlowContext::DESTINATIONS, 1);
        c.0[FlowContext::MATCH..FlowContext::MATCH + 64].copy_from_slice(value.as_bytes());
        debug_assert_eq!(size_of_val(&m.0), DESTINATION_LIST);
        let list = (u64::from(kind << 24 | to) << 32).to_be_bytes();
        self.command(op::SET_FLOW_TABLE_ENTRY, &m, &list);
    }

    fn send(&mut self, frame: &Frame, how: u8, mss: u16) {
        let bytes = frame.bytes(STATION, 9000);
        let mut eth = EthSeg::default();
        if how & CHECKSUMS != 0 {
            eth.cs_flags = cs_flags::L3 | cs_flags::L4;
        }
        let header = headers::Layers::of(&bytes).map_or(0, |h| usize::from(h.end));
        let large = mss > 0 && header > 2;
        let mut rest = Vec::new();
        let inlined = if large { header } else { 0 };
        if large {
            eth.mss = mss.into();
            eth.inline_hdr_sz = (header as u16).into();
            eth.inline_hdr_start.copy_from_slice(&bytes[..2]);
            rest.extend_from_slice(eth.as_bytes());
            rest.extend_from_slice(&bytes[2..header]);
            rest.resize(rest.len().next_multiple_of(16), 0);
        } else {
            if how & INSERT_TAG != 0 {
                eth.inline_hdr_sz = ETH_WQE_INSERT_VLAN.into();
                eth.inline_hdr_start = [0x20, 5];
            }
            rest.extend_from_slice(eth.as_bytes());
        }
        let pieces = usize::from(how >> 4 & 3) + 1;
        let at = FRAMES + u64::from(self.pc % 16) * 0x4000;
        self.write_memory(at, &bytes);
        let data = &bytes[inlined..];
        let each = data.len().div_ceil(pieces).max(1);
        for (i, piece) in data.chunks(each).enumerate() {
            let segment = DataSeg {
                byte_count: (piece.len() as u32).into(),
                lkey: (self.o.mkey << 8).into(),
                addr: (at + (inlined + i * each) as u64).into(),
            };
            rest.extend_from_slice(segment.as_bytes());
        }
        let ds = 1 + rest.len() as u32 / 16;
        let opcode = if large { wqe::LSO } else { wqe::SEND };
        let mut ctrl = CtrlSeg::new(self.pc, opcode, self.sqn, ds);
        ctrl.fm_ce_se = CQ_UPDATE;
        let all = [ctrl.as_bytes(), &rest].concat();
        let ring = CommandHarness::page(SQ_PAGE);
        for (i, block) in all.chunks(64).enumerate() {
            let at = u64::from(self.pc.wrapping_add(i as u16) & 63) * 64;
            self.write_memory(ring + at, block);
        }
        self.pc = self.pc.wrapping_add(ds.div_ceil(4) as u16);
        self.write_memory(CommandHarness::DBR + 4, &u32::from(self.pc).to_be_bytes());
        let first = u64::from_le_bytes(all[..8].try_into().expect("8 bytes"));
        self.uar(uar::SEND, 8, first);
    }

    fn uar(&mut self, offset: u32, size: u8, v: u64) {
        let r = Reg::at(self.o.uar * uar::PAGE + offset);
        self.c.device.mmio_write(&mut self.c.port, self.c.now, r, size, v);
    }

    fn wait(&mut self, span: Span) {
        self.c.now += span;
        self.c.device.advance(&mut self.c.port, self.c.now);
    }

    fn act(&mut self, action: Action) {
        let c = &mut self.c;
        match action {
            Action::Poke { at, bytes } => {
                let at = usize::from(at) * 32 % (c.port.memory.len() - 256);
                self.write_memory(at as u64, &bytes.0);
            }
            Action::Write { other, offset, shift, size, value } => {
                let offset = u32::from(offset) << (shift & 3);
                let r = Reg { region: other.into(), offset };
                c.device.mmio_write(&mut c.port, c.now, r, size & 15, value);
            }
            Action::Read { offset, size } => {
                c.device.mmio_read(&mut c.port, c.now, Reg::at(offset.into()), size & 15);
            }
            Action::Doorbell { which, first, n } => {
                let words = [(uar::SEND, 8), (uar::CQ_ARM, 8), (uar::EQ_ARM, 4)];
                let (offset, size) = words[usize::from(which) % 3];
                let n = u32::from(n & 7);
                let second = if offset == uar::SEND { (0x100 + n) << 8 | 3 } else { 0x400 + n };
                let b = [first.to_le_bytes(), second.to_be_bytes()];
                let v = b.as_flattened().try_into().expect("8 bytes");
                self.uar(offset, size, u64::from_le_bytes(v));
            }
            Action::Slots { slots } => c.register(init_segment::DOORBELL, slots),
            Action::Command { which, n, at, bits, opcode: other, op_mod, room } => {
                let (mut code, mut bytes) = sensible(which, &self.o, n);
                let at = usize::from(at) % bytes.len();
                bytes[at] ^= bits;
                if other != 0 {
                    code = opcode(other);
                }
                let input = CommandHarness::input(code, (op_mod & 3).into(), &bytes[..], &[]);
                let w = c.compose(&input, usize::from(room) * 8);
                c.put(0, &w);
                c.register(init_segment::DOORBELL, 1);
            }
            Action::Queues { n, stride, flags } => self.queues(n, stride, flags),
            Action::Post { queue, n, len, fault } => self.post(queue, n, len, fault),
            Action::Tir { how, fields, key } => self.tir(how, fields, key),
            Action::Table { level } => self.table(level),
            Action::Rule { table, fields, frame, to, action } => {
                self.rule(table, fields, &frame, to, action);
            }
            Action::Send { frame, how, mss } => self.send(&frame, how, mss),
            Action::Receive { frame } => {
                let bytes = frame.bytes(STATION, 11_000);
                let _ = c.device.receive(&mut c.port, c.now, &bytes);
            }
            Action::ReceiveRaw { len, head } => {
                let mut frame = vec![0; usize::from(len & 0xfff)];
                frame.iter_mut().zip(&head.0).for_each(|(to, from)| *to = *from);
                let _ = c.device.receive(&mut c.port, c.now, &frame);
            }
            Action::Wait { ns, shift } => self.wait(Span::from_ns(u64::from(ns) << (shift & 7))),
            Action::Carrier {} => {
                c.device.set_carrier(&mut c.port, c.now, false);
                c.device.set_carrier(&mut c.port, c.now, true);
            }
            Action::Pages { n } => {
                c.device.request_pages(&mut c.port, c.now, i16::from(n.cast_signed()));
            }
            Action::Reset {} => c.device.reset(&mut c.port, c.now),
            Action::Address {} => {
                let mut m = ModifyNicVportIn::ZERO;
                m.set(ModifyNicVportIn::FIELDS, vport_field::ADDRESSES)
                    .part_mut(ModifyNicVportIn::CONTEXT)
                    .set(NicVport::LIST_SIZE, 1);
                let list = [&[0; 2], &STATION[..]].concat();
                self.command(op::MODIFY_NIC_VPORT_CONTEXT, &m, &list);
            }
        }
    }
}

/// Attacks a device as `input` says. Returns the counters of the device.
///
/// # Panics
/// When it lets itself be harmed.
pub fn attack(input: &[u8]) -> Reached {
    let mut u = Unstructured::new(input);
    // Doorbell pages are registers, or memory that is looked at.
    let shape = u.arbitrary::<u8>().unwrap_or(0);
    let polled_doorbells = shape & 1 == 1;
    let mut c = CommandHarness::running(Config {
        boot_pages: 1,
        init_pages: 1,
        polled_doorbells,
        checksum_full: shape & 4 != 0,
        ..Config::CONNECTX
    });
    let o = c.common();
    let mut g = Guest {
        c,
        o,
        sqn: 0,
        pc: 0,
        rqs: Vec::new(),
        tirs: Vec::new(),
        tables: Vec::new(),
        rules: 0,
    };
    let (opcode, bytes) = sensible(0, &o, 6);
    g.sqn = g.command(opcode, &bytes[..], &[]).expect("a send queue");
    let mut m = ModifySqIn::ZERO;
    m.set(ModifySqIn::NUMBER, g.sqn).part_mut(ModifySqIn::SQC).set(Sqc::STATE, 1);
    g.command(op::MODIFY_SQ, &m, &[]).expect("a queue that is ready");
    g.c.port.log.clear();
    // Another CPU of the guest writes while the device reads.
    g.c.port.racing = (shape & 2 != 0).then_some(shape);
    while let Some(action) = next(&mut u) {
        g.act(action);
        if polled_doorbells {
            let memory = &g.c.port.memory;
            g.c.device.look_again(g.c.now, |at| {
                memory.get(usize::try_from(at.0).ok()?..)?.first_chunk().copied()
            });
        }
        assert!(g.c.port.log.len() < BOUND, "{} accesses for one step", g.c.port.log.len());
        g.c.port.log.clear();
    }
    let mut c = g.c;
    c.settle();
    assert!(c.port.log.len() < BOUND);
    assert!(c.device.unknown_commands().len() <= 64);
    let mut reached = Reached {
        sent: c.device.counters,
        received: *c.device.received(),
        queues: 0,
        hashed: 0,
        checked: 0,
    };
    let at = CommandHarness::page(1) as usize;
    let cqes =
        c.port.memory[at..at + 4096].chunks(64).filter_map(|b| RxCqe::read_from_bytes(b).ok());
    let mut queues: Vec<u32> = Vec::new();
    for cqe in cqes.filter(|c| g.rqs.iter().any(|q| q.0 == c.flags_rqpn.get() & 0xff_ffff)) {
        queues.push(cqe.flags_rqpn.get() & 0xff_ffff);
        reached.hashed += u64::from(cqe.rss_hash_type != 0);
        reached.checked += u64::from(cqe.hds_ip_ext & L4_OK != 0);
    }
    queues.sort_unstable();
    queues.dedup();
    reached.queues = queues.len();
    let now = c.now;
    c.device.reset(&mut c.port, now);
    c.port.forbidden = true;
    c.settle();
    reached
}

/// Returns a driver that receives by rules and hashes, sends all that there is, and meets faults.
pub fn seeds() -> Vec<Seed> {
    // In the fuzz target an odd byte comes first: see `fuzz_targets/mlx5_device.rs`.
    let make = |shape: u8, actions: &[Action]| seed(&[1, shape], actions);
    let wait = Action::Wait { ns: 50_000, shift: 0 };
    // Addresses and ports: all fields that there are.
    let hash = |how| Action::Tir { how, fields: 0xf, key: 0x6d };
    let queues = |stride, flags| Action::Queues { n: 3, stride, flags };
    let post = |fault| {
        let one = |queue| Action::Post { queue, n: 12, len: 700, fault };
        [one(0), one(1), one(2), one(3)]
    };
    let rule = |table, fields, kind, to| Action::Rule {
        table,
        fields,
        frame: Frame::new(kind, 60),
        to,
        action: 0,
    };
    let kinds = [
        0,
        Frame::UDP,
        Frame::V6,
        Frame::V6 | Frame::UDP,
        Frame::TAGGED,
        Frame::PLAIN,
        Frame::MULTICAST,
    ];
    let frames = |payload: u16| {
        kinds.map(|kind| Action::Receive { frame: Frame::new(kind, payload) }).to_vec()
    };
    // Other addresses and ports hash to other queues.
    let flows: Vec<Action> = (1..40)
        .map(|bits| Frame { kind: Frame::DAMAGED, payload: 20, at: 34, bits })
        .map(|frame| Action::Receive { frame })
        .collect();
    let receive = |how: u8, stride: u8, fields: u8, fault: u8, payload: u16| {
        let mut all = vec![queues(stride, how >> 6)];
        all.extend(post(fault));
        all.extend([hash(how), Action::Table { level: 0 }, rule(0, fields, 0, 0)]);
        all.extend(frames(payload));
        all.push(wait.clone());
        all
    };
    let send = |kind, how, mss| Action::Send { frame: Frame::new(kind, 900), how, mss };
    vec![
        ("mlx5_receive", make(0, &receive(2, 0, 0, 0, 300))),
        ("mlx5_receive_full_sum", make(4, &receive(2 | SYMMETRIC | 0x40, 2, 0, 0, 1500))),
        (
            "mlx5_rss",
            make(0, &[receive(2, 1, 0, 0, 40), flows.clone(), vec![wait.clone()]].concat()),
        ),
        ("mlx5_xor", make(0, &[receive(1, 1, 0, 0, 40), flows].concat())),
        (
            "mlx5_rules",
            make(
                0,
                &[
                    vec![
                        queues(1, 0),
                        hash(2),
                        hash(DIRECT),
                        Action::Table { level: 2 },
                        Action::Table { level: 0x11 },
                        rule(0, ETHERTYPE | IP_VERSION, 0, 1),
                        rule(0, DMAC | PROTOCOL, Frame::UDP | Frame::V6, 0),
                        rule(1, PORTS | TAG, Frame::TAGGED, 0x80),
                        rule(1, PROTOCOL | PORTS, Frame::V6, 0),
                    ],
                    post(0).to_vec(),
                    frames(200),
                    vec![wait.clone()],
                ]
                .concat(),
            ),
        ),
        ("mlx5_short_buffers", make(0, &receive(2, 1, 0, 1, 2000))),
        ("mlx5_wrong_key", make(0, &receive(2 | 0x80, 1, 0, 2, 100))),
        ("mlx5_wrong_address", make(0, &receive(2, 1, 0, 3, 100))),
        (
            "mlx5_no_buffers",
            make(
                0,
                &[
                    vec![queues(0, 0), hash(DIRECT), Action::Table { level: 0 }, rule(0, 0, 0, 0)],
                    frames(100),
                ]
                .concat(),
            ),
        ),
        (
            "mlx5_send",
            make(
                0,
                &[
                    send(0, CHECKSUMS, 0),
                    send(Frame::V6 | Frame::UDP, CHECKSUMS | 2 << 4, 0),
                    send(0, INSERT_TAG, 0),
                    send(0, CHECKSUMS, 300),
                    send(Frame::V6, CHECKSUMS | 1 << 4, 200),
                    send(Frame::PLAIN, 0, 0),
                    wait.clone(),
                ],
            ),
        ),
        (
            "mlx5_loopback",
            make(
                1,
                &[
                    receive(2 | LOOPBACK, 1, 0, 0, 60),
                    vec![
                        Action::Address {},
                        send(0, CHECKSUMS, 0),
                        send(Frame::BROADCAST, CHECKSUMS, 0),
                        wait,
                    ],
                ]
                .concat(),
            ),
        ),
        (
            "mlx5_commands",
            make(
                0,
                &(0..60u32)
                    .map(|n| Action::Command {
                        which: 9,
                        n: (n * 3) << 16 | 0x4000 | n,
                        at: 0,
                        bits: 0,
                        opcode: 0,
                        op_mod: 0,
                        room: 255,
                    })
                    .flat_map(|c| [c, Action::Wait { ns: 1000, shift: 0 }])
                    .collect::<Vec<_>>(),
            ),
        ),
    ]
}
