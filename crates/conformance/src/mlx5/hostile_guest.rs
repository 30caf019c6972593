//! Any guest: registers, its whole memory, also while the device reads it, firmware commands whole
//! and spoilt, a driver that makes queues, hashes and rules, posts, sends, and frames, time. The
//! device does a bounded amount of work for each, and after a reset of the function it touches
//! nothing.

mod seeds;

pub use seeds::seeds;

use super::command_harness::{CommandHarness, Common};
use super::device_harness::Access;
use crate::fuzz::{Bytes, Frame, input, next};
use arbitrary::Unstructured;
use doorbell_devices::mlx5::receive::Counters as RxCounters;
use doorbell_devices::mlx5::{Config, Counters};
use doorbell_hal::{Device, Reg, Span};
use doorbell_layout::mlx5::command::{
    AccessReg, CRITERIA_LIST, Cqc, CreateFlowGroupIn, CreateFlowTableIn, CreateMkeyIn, CreateRqIn,
    CreateSqIn, CreateTirIn, DESTINATION_LIST, FlowContext, FlowGroupIn, FlowTableContext,
    FlowTableIn, FteIn, Mkc, ModifyCqIn, ModifyFlowTableIn, ModifyNicVportIn, ModifyRqIn,
    ModifySqIn, ModifyTirIn, NicVport, Numbered, QueryQCounterIn, Rqc, RqtIn, SetFteIn, Sqc, Tirc,
    VportState, access, access_mode, destination, flow_action, init_segment, miss_action,
    modify_cq, modify_flow_table, modify_rqt, modify_tir, op, register, vport_field,
};
use doorbell_layout::mlx5::receive::{L4_OK, RxCqe, TERMINATE_LKEY, self_lb_block};
use doorbell_layout::mlx5::steering::{CVLAN, IP_VERSION_SHIFT, Layers, criteria};
use doorbell_layout::mlx5::{
    CQ_UPDATE, CtrlSeg, DataSeg, ETH_WQE_INSERT_VLAN, EthSeg, cs_flags, opcode as wqe, swp_flags,
    uar,
};
use doorbell_packet::headers::{self, Transport};
use std::collections::BTreeSet;
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
    let pages = CommandHarness::pas(&SQ_PAGES.map(CommandHarness::page));
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
/// The page of the first receive queue's ring; those of the send queue's.
const RQ_PAGE: u64 = 40;
const SQ_PAGES: [u64; 4] = [30, 28, 29, 31];
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
        /// Asks about an object that there is, changes or destroys it.
        Object {
            /// The command.
            which: u8,
            /// The object.
            n: u8,
        },
        /// Changes the state of a queue.
        State {
            /// The send queue, or a receive queue.
            queue: u8,
            /// Its state, as the guest takes it to be,
            from: u8,
            /// and the new one.
            to: u8,
        },
        /// Reads or writes a register of the port.
        Register {
            /// The register.
            which: u8,
            /// Writes it.
            write: bool,
            /// The double word of its contents
            at: u8,
            /// that is this, and not 0.
            value: u32,
        },
        /// Makes a memory key that queues name from now on: with an end, or with pages.
        Key {
            /// Pages, a short one, not readable, not writable: bits.
            how: u8,
            /// The order of its pages.
            order: u8,
        },
        /// Makes an event queue for all events.
        Events { },
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
/// Bits of [`Action::Send`]: the tunnel that the frame is in.
const CHECKSUMS: u8 = 1;
const INSERT_TAG: u8 = 2;
const TUNNEL: u8 = 12;
const IP_IN_IP: u8 = 4;
const GRE: u8 = 8;
const VXLAN: u8 = 12;
/// Ethernet in GRE, behind a key.
const KEYED: u8 = 64;
/// The WQE says where the headers are. What would be VXLAN is Geneve, for which the device does not
/// look.
const TOLD: u8 = 128;
/// Bits of [`Action::Queues`]: tags stay, flushed in an error, a ring that cannot be read.
const KEEP_TAG: u8 = 1;
const FLUSH: u8 = 2;
const UNREADABLE: u8 = 4;
/// Bits of [`Action::Key`].
const PAGES: u8 = 1;
const SHORT: u8 = 2;

/// Objects of the guest.
#[derive(Clone, Copy)]
enum Kind {
    Device,
    Uar,
    Pd,
    Td,
    Key,
    Tis,
    Eq,
    Cq,
    Sq,
    Rq,
    Rqt,
    Tir,
    Set,
}

/// Commands of [`Action::Object`] that need no more than a number. Those behind them are in
/// [`Guest::about`].
const NUMBERED: [(u16, Kind); 33] = [
    (op::QUERY_MKEY, Kind::Key),
    (op::QUERY_TIS, Kind::Tis),
    (op::QUERY_EQ, Kind::Eq),
    (op::QUERY_CQ, Kind::Cq),
    (op::QUERY_SQ, Kind::Sq),
    (op::QUERY_RQ, Kind::Rq),
    (op::QUERY_TIR, Kind::Tir),
    (op::ALLOC_Q_COUNTER, Kind::Device),
    (op::QUERY_ADAPTER, Kind::Device),
    (op::QUERY_ISSI, Kind::Device),
    (op::QUERY_VPORT_STATE, Kind::Device),
    (op::QUERY_VPORT_COUNTER, Kind::Device),
    (op::QUERY_NIC_VPORT_CONTEXT, Kind::Device),
    (op::DEALLOC_Q_COUNTER, Kind::Set),
    (op::DESTROY_TIR, Kind::Tir),
    (op::DESTROY_RQT, Kind::Rqt),
    (op::DESTROY_RQ, Kind::Rq),
    (op::DESTROY_SQ, Kind::Sq),
    (op::DESTROY_CQ, Kind::Cq),
    (op::DESTROY_EQ, Kind::Eq),
    (op::DESTROY_TIS, Kind::Tis),
    (op::DESTROY_MKEY, Kind::Key),
    (op::DEALLOC_TRANSPORT_DOMAIN, Kind::Td),
    (op::DEALLOC_PD, Kind::Pd),
    (op::DEALLOC_UAR, Kind::Uar),
    (op::ALLOC_UAR, Kind::Device),
    (op::ALLOC_PD, Kind::Device),
    (op::ALLOC_TRANSPORT_DOMAIN, Kind::Device),
    (op::TEARDOWN_HCA, Kind::Device),
    (op::DISABLE_HCA, Kind::Device),
    (op::ENABLE_HCA, Kind::Device),
    (op::INIT_HCA, Kind::Device),
    (op::MODIFY_RQT, Kind::Rqt),
];
/// All of them.
const ABOUT: u8 = NUMBERED.len() as u8 + 11;

/// Registers of the port, and one that there is not.
const REGISTERS: [u16; 8] = [
    register::PMLP,
    register::PMTU,
    register::PTYS,
    register::PAOS,
    register::PPCNT,
    register::PFCC,
    register::PCAM,
    0x1234,
];

/// Counters of the device after an attack.
#[derive(Clone, Debug)]
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
    /// Frames in a tunnel that left with a new checksum of the inner transport.
    pub tunnelled: u64,
    /// Commands that were done; of `ACCESS_REG` the registers too, of `SET_FLOW_TABLE_ENTRY` the
    /// modifier.
    pub done: BTreeSet<(u16, u16)>,
}

/// Wraps a frame in a tunnel over IPv4.
fn in_tunnel(kind: u8, frame: &[u8]) -> Vec<u8> {
    let (ethernet, datagram) = frame.split_at(14);
    let (protocol, head, inner) = match kind & TUNNEL {
        IP_IN_IP if ethernet[12..] == [0x86, 0xdd] => (41, vec![], datagram),
        IP_IN_IP => (4, vec![], datagram),
        GRE if kind & KEYED == 0 => (47, [&[0; 2], &ethernet[12..]].concat(), datagram),
        GRE => (47, vec![0x20, 0, 0x65, 0x58, 0, 0, 0, 7], frame),
        // Network 9.
        _ => {
            let [len0, len1] = (16 + frame.len() as u16).to_be_bytes();
            let (port, head) = if kind & TOLD == 0 {
                ([0x12, 0xb5], [8, 0, 0, 0, 0, 0, 9, 0])
            } else {
                ([0x17, 0xc1], [0, 0, 0x65, 0x58, 0, 0, 9, 0])
            };
            (17, [[0xc0, 0, port[0], port[1], len0, len1, 0, 0], head].concat(), frame)
        }
    };
    let len = ((20 + head.len() + inner.len()) as u16).to_be_bytes();
    let ip = [0x45, 0, len[0], len[1], 0, 0, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 3, 10, 0, 0, 4];
    [&ethernet[..12], &[8, 0], &ip, &head, inner].concat()
}

/// Says where the headers of a frame are, and those of the frame at its end.
fn tell(eth: &mut EthSeg, frame: &[u8], inner: &[u8]) {
    let layers = |of: &[u8], ipv6: u8, udp: u8| {
        let h = headers::Layers::of(of).ok()?;
        let half = |at: u16| ((frame.len() - of.len() + usize::from(at)) / 2) as u8;
        let v6 = if h.ip == headers::Ip::V6 { ipv6 } else { 0 };
        let udp = if h.transport == Some(Transport::Udp) { udp } else { 0 };
        // A tunnel may have none.
        let l4 = h.transport.map_or(0, |_| half(h.l4));
        Some((l4, half(h.l3), v6 | udp))
    };
    let (l4, l3, flags) =
        layers(frame, swp_flags::OUTER_L3_IPV6, swp_flags::OUTER_L4_UDP).unwrap_or_default();
    let (inner_l4, inner_l3, more) =
        layers(inner, swp_flags::INNER_L3_IPV6, swp_flags::INNER_L4_UDP).unwrap_or_default();
    (eth.swp_offsets, eth.swp_flags) = ([l4, l3, inner_l4, inner_l3], flags | more);
}

/// The guest's driver.
struct Guest {
    c: CommandHarness,
    o: Common,
    sqn: u32,
    pc: u16,
    /// Numbers of receive queues, and their counters of posted WQEs and strides.
    rqs: Vec<(u32, u16, u32)>,
    rqts: Vec<u32>,
    tirs: Vec<u32>,
    tables: Vec<u32>,
    /// Tables and groups, by the rule's index.
    rules: Vec<(u32, u32)>,
    done: BTreeSet<(u16, u16)>,
    /// The end of the last frame that was sent in a tunnel.
    inner: Vec<u8>,
}

/// Returns a number of those that there are.
fn some(of: &[u32], n: u8) -> Option<u32> {
    of.get(usize::from(n) % of.len().max(1)).copied()
}

/// Removes the number that [`some`] returns.
fn forget(of: &mut Vec<u32>, n: u8) {
    let gone = some(of, n);
    of.retain(|o| Some(*o) != gone);
}

impl Guest {
    /// Has a command done. Returns the number of what it made.
    fn command<T: IntoBytes + zerocopy::Immutable + ?Sized>(
        &mut self,
        opcode: u16,
        message: &T,
        list: &[u8],
    ) -> Option<u32> {
        let out = self.run((opcode, 0), message, list, 16)?;
        Some(u32::from_be_bytes(*out.get(8..)?.first_chunk()?) & 0xff_ffff)
    }

    /// Has a command and its modifier done. Returns so many bytes of output, unless it is refused.
    fn run<T: IntoBytes + zerocopy::Immutable + ?Sized>(
        &mut self,
        (opcode, op_mod): (u16, u32),
        message: &T,
        list: &[u8],
        room: usize,
    ) -> Option<Vec<u8>> {
        let w = self.c.compose(&CommandHarness::input(opcode, op_mod, message, list), room);
        self.c.put(0, &w);
        let answer = self.c.ring(0)?;
        if answer.delivery != 0 || answer.status.is_some() {
            return None;
        }
        let detail = if opcode == op::SET_FLOW_TABLE_ENTRY { op_mod as u16 } else { 0 };
        self.done.insert((opcode, detail));
        Some(answer.out)
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
                .set(Rqc::NO_VLAN_STRIP, u32::from(flags & KEEP_TAG != 0))
                .set(Rqc::FLUSH_IN_ERROR, u32::from(flags & FLUSH != 0));
            let page = CommandHarness::page(RQ_PAGE + i as u64);
            let page = if flags & UNREADABLE == 0 { page } else { 1 << 40 };
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
            self.rqts.push(rqtn);
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
        let index = self.rules.len() as u32;
        let mut m = CreateFlowGroupIn::ZERO;
        m.set(CreateFlowGroupIn::TABLE, table)
            .set(CreateFlowGroupIn::START, index)
            .set(CreateFlowGroupIn::END, index)
            .set(CreateFlowGroupIn::CRITERIA, u32::from(criteria::OUTER));
        let mut list = vec![0; 0x200];
        list[..64].copy_from_slice(mask.as_bytes());
        debug_assert_eq!(size_of_val(&m.0), CRITERIA_LIST);
        let group = self.command(op::CREATE_FLOW_GROUP, &m, &list);
        self.rules.push((table, group.unwrap_or(0)));
        let Some(group) = group else { return };
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
        let mut bytes = frame.bytes(STATION, 9000);
        let mut eth = EthSeg::default();
        if how & CHECKSUMS != 0 {
            eth.cs_flags = cs_flags::L3 | cs_flags::L4;
        }
        let mut inner = Vec::new();
        if how & TUNNEL != 0 {
            eth.cs_flags |= cs_flags::L3_INNER | cs_flags::L4_INNER;
            self.inner = bytes[14..].to_vec();
            // Its transport's checksum is wrong until the device has made it.
            if let Ok(h) = headers::Layers::of(&bytes)
                && let Some(transport) = h.transport
            {
                let field = if transport == Transport::Tcp { 16 } else { 6 };
                bytes[usize::from(h.l4) + field] ^= 0xff;
            }
            inner = core::mem::take(&mut bytes);
            bytes = in_tunnel(how, &inner);
        } else {
            self.inner.clear();
        }
        if how & TOLD != 0 {
            tell(&mut eth, &bytes, &inner);
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
        let ring = CommandHarness::page(SQ_PAGES[0]);
        for (i, block) in all.chunks(64).enumerate() {
            let at = u64::from(self.pc.wrapping_add(i as u16) & 63) * 64;
            self.write_memory(ring + at, block);
        }
        self.pc = self.pc.wrapping_add(ds.div_ceil(4) as u16);
        self.write_memory(CommandHarness::DBR + 4, &u32::from(self.pc).to_be_bytes());
        let first = u64::from_le_bytes(all[..8].try_into().expect("8 bytes"));
        self.uar(uar::SEND, 8, first);
    }

    fn number(&self, kind: Kind, n: u8) -> Option<u32> {
        let rqns: Vec<u32> = self.rqs.iter().map(|q| q.0).collect();
        match kind {
            Kind::Device => Some(0),
            Kind::Uar => Some(self.o.uar),
            Kind::Pd => Some(self.o.pd),
            Kind::Td => Some(self.o.td),
            Kind::Key => Some(self.o.mkey),
            Kind::Tis => Some(self.o.tis),
            Kind::Eq => Some(self.o.eq + u32::from(n & 1)),
            Kind::Cq => Some(self.o.cq),
            Kind::Sq => Some(self.sqn),
            Kind::Rq => some(&rqns, n),
            Kind::Rqt => some(&self.rqts, n),
            Kind::Tir => some(&self.tirs, n),
            Kind::Set => Some(u32::from(n & 3)),
        }
    }

    /// Returns a command about object `n`: opcode, modifier and input.
    fn about(&self, which: u8, n: u8) -> Option<(u16, u32, Vec<u8>)> {
        let which = which % ABOUT;
        if let Some(&(opcode, kind)) = NUMBERED.get(usize::from(which)) {
            let mut m = Numbered::ZERO;
            m.set(Numbered::NUMBER, self.number(kind, n)?);
            return Some((opcode, 0, m.as_bytes().to_vec()));
        }
        let index = usize::from(n) % self.rules.len().max(1);
        let (table, group) = self.rules.get(index).copied().unwrap_or_default();
        let mut entry = FteIn::ZERO;
        entry.set(FteIn::TABLE, table).set(FteIn::INDEX, index as u32);
        let entry = entry.as_bytes().to_vec();
        Some(match which - NUMBERED.len() as u8 {
            0 => (op::QUERY_FLOW_TABLE_ENTRY, 0, entry),
            1 => (op::DELETE_FLOW_TABLE_ENTRY, 0, entry),
            2 => {
                let mut m = FlowGroupIn::ZERO;
                m.set(FlowGroupIn::TABLE, table).set(FlowGroupIn::GROUP, group);
                (op::DESTROY_FLOW_GROUP, 0, m.as_bytes().to_vec())
            }
            3 => {
                let mut m = FlowTableIn::ZERO;
                m.set(FlowTableIn::TABLE, some(&self.tables, n)?);
                (op::DESTROY_FLOW_TABLE, 0, m.as_bytes().to_vec())
            }
            4 => {
                let mut m = VportState::ZERO;
                m.set(VportState::ADMIN, u32::from(n & 3));
                (op::MODIFY_VPORT_STATE, 0, m.as_bytes().to_vec())
            }
            5 => {
                let mut m = QueryQCounterIn::ZERO;
                m.set(QueryQCounterIn::SET, u32::from(n & 3))
                    .set(QueryQCounterIn::CLEAR, u32::from(n >> 2 & 1));
                (op::QUERY_Q_COUNTER, 0, m.as_bytes().to_vec())
            }
            6 => {
                let mut m = ModifyTirIn::ZERO;
                m.set(ModifyTirIn::TIRN, some(&self.tirs, n)?)
                    .set_quad(ModifyTirIn::FIELDS, modify_tir::HASH | modify_tir::SELF_LB);
                let c = m.part_mut(ModifyTirIn::TIRC);
                c.set(Tirc::HASH_FN, u32::from(n >> 4 & 3)).set(Tirc::FIELDS, n.into());
                (op::MODIFY_TIR, 0, m.as_bytes().to_vec())
            }
            8 => {
                let mut m = ModifyFlowTableIn::ZERO;
                m.set(ModifyFlowTableIn::TABLE, some(&self.tables, n)?)
                    .set(ModifyFlowTableIn::FIELDS, modify_flow_table::MISS);
                if n & 0x80 != 0 {
                    m.part_mut(ModifyFlowTableIn::CONTEXT)
                        .set(FlowTableContext::MISS_ACTION, miss_action::TABLE)
                        .set(FlowTableContext::MISS_TABLE, *self.tables.last()?);
                }
                (op::MODIFY_FLOW_TABLE, 0, m.as_bytes().to_vec())
            }
            // To the last TIR, and with another action and tag.
            9 => {
                let mut m = SetFteIn::ZERO;
                m.set(SetFteIn::TABLE, table)
                    .set(SetFteIn::INDEX, index as u32)
                    .set(SetFteIn::MODIFY, u32::from(n >> 4));
                m.part_mut(SetFteIn::CONTEXT)
                    .set(FlowContext::GROUP, group)
                    .set(FlowContext::TAG, n.into())
                    .set(FlowContext::ACTION, flow_action::FORWARD)
                    .set(FlowContext::DESTINATIONS, 1);
                let to = destination::TIR << 24 | self.tirs.last()?;
                let m = [m.as_bytes(), &(u64::from(to) << 32).to_be_bytes()].concat();
                (op::SET_FLOW_TABLE_ENTRY, 1, m)
            }
            10 => {
                let fields = modify_cq::PERIOD | modify_cq::MAX_COUNT;
                let mut m = ModifyCqIn::ZERO;
                m.set(ModifyCqIn::CQN, self.o.cq).set(ModifyCqIn::FIELDS, fields);
                m.part_mut(ModifyCqIn::CQC)
                    .set(Cqc::PERIOD, u32::from(n & 15))
                    .set(Cqc::MAX_COUNT, u32::from(n >> 4));
                (op::MODIFY_CQ, 0, m.as_bytes().to_vec())
            }
            // Capabilities, of each group.
            _ => (op::QUERY_HCA_CAP, u32::from(n & 0x3f), Numbered::ZERO.as_bytes().to_vec()),
        })
    }

    /// Gives a command about object `n`. What was destroyed is not named again.
    fn object(&mut self, which: u8, n: u8) {
        let Some((opcode, op_mod, mut m)) = self.about(which, n) else { return };
        if opcode == op::MODIFY_RQT {
            // The first queue alone.
            let (Some(rqtn), Some(rqn)) = (some(&self.rqts, n), self.number(Kind::Rq, n)) else {
                return;
            };
            let mut t = RqtIn::ZERO;
            t.set(RqtIn::RQTN, rqtn).set(RqtIn::ACTUAL_SIZE, 1);
            t.set_quad(RqtIn::FIELDS, modify_rqt::LIST);
            m = [t.as_bytes(), &rqn.to_be_bytes()].concat();
        }
        if self.run((opcode, op_mod), &m[..], &[], 0x1010).is_none() {
            return;
        }
        match opcode {
            op::DESTROY_RQ => {
                let gone = self.number(Kind::Rq, n);
                self.rqs.retain(|q| Some(q.0) != gone);
            }
            op::DESTROY_RQT => forget(&mut self.rqts, n),
            op::DESTROY_TIR => forget(&mut self.tirs, n),
            op::DESTROY_FLOW_TABLE => forget(&mut self.tables, n),
            _ => {}
        }
    }

    fn state(&mut self, queue: u8, from: u8, to: u8) {
        // Reset, ready, error.
        let [from, to] = [from, to].map(|n| [0, 1, 3][usize::from(n) % 3]);
        let Some(i) = (usize::from(queue) % (self.rqs.len() + 1)).checked_sub(1) else {
            let mut m = ModifySqIn::ZERO;
            m.set(ModifySqIn::NUMBER, self.sqn).set(ModifySqIn::FROM, from);
            m.part_mut(ModifySqIn::SQC).set(Sqc::STATE, to);
            if self.command(op::MODIFY_SQ, &m, &[]).is_some() && to == 0 {
                self.pc = 0;
            }
            return;
        };
        let mut m = ModifyRqIn::ZERO;
        m.set(ModifyRqIn::NUMBER, self.rqs[i].0).set(ModifyRqIn::FROM, from);
        m.part_mut(ModifyRqIn::RQC).set(Rqc::STATE, to);
        if self.command(op::MODIFY_RQ, &m, &[]).is_some() && to == 0 {
            self.rqs[i].1 = 0;
        }
    }

    fn register(&mut self, which: u8, write: bool, at: u8, value: u32) {
        let register = REGISTERS[usize::from(which) % REGISTERS.len()];
        let mut m = AccessReg::ZERO;
        m.set(AccessReg::REGISTER, u32::from(register));
        let mut contents = [0; 0x100];
        contents[usize::from(at & 63) * 4..][..4].copy_from_slice(&value.to_be_bytes());
        let op_mod = if write { access::WRITE } else { access::READ };
        if self.run((op::ACCESS_REG, op_mod), &m, &contents, 0x110).is_some() {
            self.done.insert((op::ACCESS_REG, register));
        }
    }

    /// Makes a key over memory as it is, or over half of it, whose pages are in any order.
    fn key(&mut self, how: u8, order: u8) {
        const LOG_PAGE: u32 = 16;
        let bytes = self.c.port.memory.len() as u64;
        let pages = bytes >> LOG_PAGE;
        let mut m = CommandHarness::mkey_message(self.o.pd);
        m.set(CreateMkeyIn::OCTWORDS, pages as u32 / 2);
        let c = m.part_mut(CreateMkeyIn::MKC);
        let mode = if how & PAGES != 0 { access_mode::MTT } else { access_mode::PA };
        c.set(Mkc::LENGTH64, 0).set(Mkc::ACCESS_MODE, mode).set(Mkc::LOG_PAGE_SIZE, LOG_PAGE);
        c.set_quad(Mkc::LENGTH, if how & SHORT != 0 { bytes / 2 } else { bytes });
        c.set(Mkc::LOCAL_READ, u32::from(how & 4 == 0));
        c.set(Mkc::LOCAL_WRITE, u32::from(how & 8 == 0));
        let list: Vec<u64> =
            (0..pages).map(|n| (n ^ (u64::from(order) % pages)) << LOG_PAGE).collect();
        if let Some(made) = self.command(op::CREATE_MKEY, &m, &CommandHarness::pas(&list)) {
            self.o.mkey = made;
        }
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
            Action::Object { which, n } => self.object(which, n),
            Action::State { queue, from, to } => self.state(queue, from, to),
            Action::Register { which, write, at, value } => self.register(which, write, at, value),
            Action::Key { how, order } => self.key(how, order),
            Action::Events {} => {
                let m = CommandHarness::eq_message(self.o.uar, 6, 5, u64::MAX);
                let list = CommandHarness::pas(&[CommandHarness::page(2)]);
                self.command(op::CREATE_EQ, &m, &list);
            }
        }
    }
}

/// Attacks a device as `input` says. Returns the counters of the device.
///
/// # Panics
/// Panics if it lets itself be harmed.
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
        rqts: Vec::new(),
        tirs: Vec::new(),
        tables: Vec::new(),
        rules: Vec::new(),
        done: BTreeSet::new(),
        inner: Vec::new(),
    };
    let mut tunnelled = 0;
    let mut m = CommandHarness::sq_message(&o, 6, CommandHarness::DBR);
    m.part_mut(CreateSqIn::SQC).set(Sqc::ALLOW_SWP, 1);
    let pages = CommandHarness::pas(&SQ_PAGES.map(CommandHarness::page));
    g.sqn = g.command(op::CREATE_SQ, &m, &pages).expect("a send queue");
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
        let inner = |a: &Access| matches!(a, Access::Frame(_, f) if f.ends_with(&g.inner));
        if !g.inner.is_empty() {
            tunnelled += g.c.port.log.iter().filter(|a| inner(a)).count() as u64;
        }
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
        tunnelled,
        done: g.done,
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
