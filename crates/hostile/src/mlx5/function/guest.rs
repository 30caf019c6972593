//! The guest's driver.

use super::action::{
    Action, CHECKSUMS, DIRECT, DMAC, ETHERTYPE, FLUSH, GRE, INSERT_TAG, IP_IN_IP, IP_VERSION,
    KEEP_TAG, KEYED, LOOPBACK, PORTS, PROTOCOL, STRIDES, SYMMETRIC, TAG, TOLD, TUNNEL, UNREADABLE,
};
use super::commands::{opcode, sensible, some};
use crate::fuzz::Frame;
use crate::mlx5::CommandHarness;
use doorbell_devices::mlx5::Config;
use doorbell_hal::{Device, Reg, Span};
use doorbell_layout::mlx5::command::{
    CRITERIA_LIST, Cqc, CreateCqIn, CreateFlowGroupIn, CreateFlowTableIn, CreateMkeyIn, CreateRqIn,
    CreateSqIn, CreateTirIn, DESTINATION_LIST, FlowContext, FlowTableContext, FlowTableIn, Mkc,
    ModifyNicVportIn, ModifyRqIn, ModifySqIn, NicVport, Rqc, RqtIn, SECOND_PORT, SetFteIn, Sqc,
    Tirc, Wq, access_mode, destination, flow_action, init_segment, miss_action, op, vport_field,
    wq_type,
};
use doorbell_layout::mlx5::receive::{NextSeg, TERMINATE_LKEY, mini_format, self_lb_block};
use doorbell_layout::mlx5::steering::{CVLAN, IP_VERSION_SHIFT, Layers, criteria};
use doorbell_layout::mlx5::{
    CQ_UPDATE, CompressionLayout, CtrlSeg, DataSeg, ETH_WQE_INSERT_VLAN, EthSeg, MKEY_MASK_FREE,
    MTT_WRITE, UmrCtrlSeg, cs_flags, opcode as wqe, swp_flags, uar, umr,
};
use doorbell_packet::headers::{self, Transport};
use doorbell_testkit::mlx5::Common;
use std::collections::BTreeSet;
use zerocopy::IntoBytes;

/// Station of the port.
const STATION: [u8; 6] = Config::CONNECTX.mac;
/// The driver's frames to be sent, behind receive buffers.
const FRAMES: u64 = CommandHarness::DATA + 0x4_0000;
/// The page of the first receive queue's ring; those of the send queue's.
const RQ_PAGE: u64 = 40;
pub(super) const SQ_PAGES: [u64; 4] = [30, 28, 29, 31];
/// The page of the queue of UMRs.
const UMR_PAGE: u64 = 60;
/// Beside the bytes of a queue's WQE: it is a list of WQEs with strides.
const LINKED: u32 = 1 << 31;

/// A UMR, as [`Action::Umr`] says it.
struct Umr {
    place: u16,
    octowords: u8,
    flags: u8,
    key: u8,
    short: u8,
    page: u16,
}

/// Queues, TIRs, tables at the most.
const MANY: usize = 8;

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
pub(super) struct Guest {
    pub(super) c: CommandHarness,
    pub(super) o: Common,
    pub(super) sqn: u32,
    pub(super) pc: u16,
    /// Numbers of receive queues, and their counters of posted WQEs and strides.
    pub(super) rqs: Vec<(u32, u16, u32)>,
    pub(super) rqts: Vec<u32>,
    pub(super) tirs: Vec<u32>,
    pub(super) tables: Vec<u32>,
    /// Tables and groups, by the rule's index.
    pub(super) rules: Vec<(u32, u32)>,
    pub(super) done: BTreeSet<(u16, u16)>,
    /// The end of the last frame that was sent in a tunnel.
    pub(super) inner: Vec<u8>,
    /// The queue of UMRs, its counter, and the key of the pages that they map.
    umrs: Option<(u32, u16, u32)>,
}

impl Guest {
    /// Makes a driver with a send queue that is ready.
    pub(super) fn new(mut c: CommandHarness) -> Guest {
        let mut o = c.common();
        if c.device.config().caps.second_port {
            o.tis = c.tis_at(o.td, SECOND_PORT).number();
        }
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
            umrs: None,
        };
        g.compress();
        g.map();
        let mut m = CommandHarness::sq_message(&g.o, 6, CommandHarness::DBR);
        m.part_mut(CreateSqIn::SQC).set(Sqc::ALLOW_SWP, 1);
        let pages = CommandHarness::pas(&SQ_PAGES.map(CommandHarness::page));
        g.sqn = g.command(op::CREATE_SQ, &m, &pages).expect("a send queue");
        let mut m = ModifySqIn::ZERO;
        m.set(ModifySqIn::NUMBER, g.sqn).part_mut(ModifySqIn::SQC).set(Sqc::STATE, 1);
        g.command(op::MODIFY_SQ, &m, &[]).expect("a queue that is ready");
        g
    }

    /// Takes a CQ that may compress in the place of the other, if the device has such.
    fn compress(&mut self) {
        let Some(layout) = self.c.device.config().caps.compression else { return };
        let mut m = CommandHarness::cq_message(&self.o, 6, CommandHarness::DBR + 16);
        m.part_mut(CreateCqIn::CQC)
            .set(Cqc::COMPRESSION, 1)
            .set(Cqc::COMPRESSION_LAYOUT, (layout == CompressionLayout::Enhanced).into())
            .set(Cqc::MINI_FORMAT, mini_format::CHECKSUM);
        let list = CommandHarness::pas(&[CommandHarness::page(1)]);
        self.o.cq = self.command(op::CREATE_CQ, &m, &list).expect("a CQ");
    }

    /// Makes a queue for UMRs and a key of 64 pages, if the device has such.
    fn map(&mut self) {
        if !self.c.device.config().caps.striding {
            return;
        }
        let mut m = CommandHarness::sq_message(&self.o, 6, CommandHarness::DBR + 24);
        m.part_mut(CreateSqIn::SQC).set(Sqc::TIS_LIST_SIZE, 0).set(Sqc::REG_UMR, 1);
        let pages = CommandHarness::pas(&[CommandHarness::page(UMR_PAGE)]);
        let sqn = self.command(op::CREATE_SQ, &m, &pages).expect("a queue of UMRs");
        let mut m = ModifySqIn::ZERO;
        m.set(ModifySqIn::NUMBER, sqn).part_mut(ModifySqIn::SQC).set(Sqc::STATE, 1);
        self.command(op::MODIFY_SQ, &m, &[]).expect("a queue that is ready");
        let mut m = CommandHarness::mkey_message(self.o.pd);
        let c = m.part_mut(CreateMkeyIn::MKC);
        c.set(Mkc::FREE, 1).set(Mkc::UMR, 1).set(Mkc::ACCESS_MODE, access_mode::MTT);
        c.set(Mkc::LENGTH64, 0).set(Mkc::LOG_PAGE_SIZE, 12);
        c.set(Mkc::OCTWORDS, 32).set_quad(Mkc::LENGTH, 64 << 12);
        let key = self.command(op::CREATE_MKEY, &m, &[]).expect("a key");
        self.umrs = Some((sqn, 0, key << 8));
    }

    fn umr(&mut self, u: &Umr) {
        let Some((sqn, pc, lkey)) = self.umrs else { return };
        let ds = (8 + u32::from(u.octowords)).min(60).saturating_sub(u.short.into());
        let mut ctrl = CtrlSeg::new(pc, wqe::UMR, sqn, ds);
        ctrl.fm_ce_se = CQ_UPDATE;
        ctrl.imm = (lkey ^ u32::from(u.key)).into();
        let flags = umr::INLINE | umr::TRANSLATION_OFFSET;
        let mut control = UmrCtrlSeg { flags: flags ^ u.flags, ..UmrCtrlSeg::default() };
        control.octowords.set(u.octowords.into());
        control.offset.set(u.place);
        control.mkey_mask.set(MKEY_MASK_FREE);
        let mut all = [ctrl.as_bytes(), control.as_bytes(), &[0; 64]].concat();
        for i in 0..2 * u64::from(u.octowords) {
            let page = CommandHarness::DATA + ((u64::from(u.page) + i) << 12);
            all.extend((page | MTT_WRITE).to_be_bytes());
        }
        let ring = CommandHarness::page(UMR_PAGE);
        for (i, block) in all.chunks(64).take(60).enumerate() {
            let at = u64::from(pc.wrapping_add(i as u16) & 63) * 64;
            self.write_memory(ring + at, block);
        }
        self.umrs = Some((sqn, pc.wrapping_add(ds.div_ceil(4).max(1) as u16), lkey));
        let first = u64::from_le_bytes(all[..8].try_into().expect("8 bytes"));
        self.uar(uar::SEND, 8, first);
    }

    /// Has a command done. Returns the number of what it made.
    pub(super) fn command<T: IntoBytes + zerocopy::Immutable + ?Sized>(
        &mut self,
        opcode: u16,
        message: &T,
        list: &[u8],
    ) -> Option<u32> {
        let out = self.run((opcode, 0), message, list, 16)?;
        Some(u32::from_be_bytes(*out.get(8..)?.first_chunk()?) & 0xff_ffff)
    }

    /// Has a command and its modifier done. Returns so many bytes of output, unless it is refused.
    pub(super) fn run<T: IntoBytes + zerocopy::Immutable + ?Sized>(
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
            let strides = flags & STRIDES != 0;
            let log_stride = 4 + u32::from(stride % 3) + u32::from(strides);
            let mut m = CommandHarness::rq_message(&self.o, 4, log_stride, Guest::record(i));
            m.part_mut(CreateRqIn::RQC)
                .set(Rqc::NO_VLAN_STRIP, u32::from(flags & KEEP_TAG != 0))
                .set(Rqc::FLUSH_IN_ERROR, u32::from(flags & FLUSH != 0));
            if strides {
                // Eight strides of 256 to 1024 bytes.
                let wq = m.part_mut(CreateRqIn::RQC).part_mut(Rqc::WQ);
                wq.set(Wq::TYPE, wq_type::STRIDING).set(Wq::LOG_STRIDES, 0xa);
                wq.set(Wq::LOG_STRIDE_SIZE, 2 + u32::from(stride % 3));
            }
            let page = CommandHarness::page(RQ_PAGE + i as u64);
            let page = if flags & UNREADABLE == 0 { page } else { 1 << 40 };
            let made = self.command(op::CREATE_RQ, &m, &CommandHarness::pas(&[page]));
            let Some(rqn) = made else { return };
            let mut m = ModifyRqIn::ZERO;
            m.set(ModifyRqIn::NUMBER, rqn).part_mut(ModifyRqIn::RQC).set(Rqc::STATE, 1);
            self.command(op::MODIFY_RQ, &m, &[]);
            let linked = if strides { LINKED } else { 0 };
            self.rqs.push((rqn, 0, 1 << log_stride | linked));
        }
    }

    fn post(&mut self, queue: u8, n: u8, len: u16, fault: u8) {
        if self.rqs.is_empty() {
            return;
        }
        let i = usize::from(queue) % self.rqs.len();
        let (_, mut posted, stride) = self.rqs[i];
        let (linked, stride) = (stride & LINKED != 0, stride & !LINKED);
        for _ in 0..n & 31 {
            let slot = u64::from(posted & 15);
            if linked {
                self.link(i, (slot, stride), fault);
                posted = posted.wrapping_add(1);
                continue;
            }
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

    /// Writes the WQE of a list, with a fault in its link, its key or its place.
    fn link(&mut self, queue: usize, (slot, stride): (u64, u32), fault: u8) {
        let at = CommandHarness::page(RQ_PAGE + queue as u64) + slot * u64::from(stride);
        let next = match fault % 8 {
            4 => slot as u16,
            5 => 0xfff0,
            _ => (slot as u16 + 1) & 15,
        };
        let lkey = self.umrs.map_or(0, |u| u.2) ^ if fault % 8 == 2 { 0x100 } else { 0 };
        let place = if fault % 8 == 3 { 63 << 12 } else { slot * 0x2000 };
        let data = DataSeg { byte_count: 0x2000.into(), lkey: lkey.into(), addr: place.into() };
        let next = NextSeg { next: next.into(), ..NextSeg::default() };
        self.write_memory(at, next.as_bytes());
        self.write_memory(at + 16, data.as_bytes());
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

    fn uar(&mut self, offset: u32, size: u8, v: u64) {
        let r = Reg::at(self.o.uar * uar::PAGE + offset);
        self.c.device.mmio_write(&mut self.c.port, self.c.now, r, size, v);
    }

    fn wait(&mut self, span: Span) {
        self.c.now += span;
        self.c.device.advance(&mut self.c.port, self.c.now);
    }

    pub(super) fn act(&mut self, action: Action) {
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
            Action::Umr { place, octowords, flags, key, short, page } => {
                self.umr(&Umr { place, octowords, flags, key, short, page });
            }
            Action::Events {} => {
                let m = CommandHarness::eq_message(self.o.uar, 6, 5, u64::MAX);
                let list = CommandHarness::pas(&[CommandHarness::page(2)]);
                self.command(op::CREATE_EQ, &m, &list);
            }
        }
    }
}
