//! Steering: frames to the function's address, and broadcasts, are spread over the receive queues
//! that are ready.
//!
//! Source: linux en_fs.c and en_rx_res.c, without VLANs and multicast. A table compares the
//! address; the one behind it sends each kind of traffic to a TIR that hashes addresses and, of
//! TCP and UDP, ports (`rss_default_config`). All TIRs name one table of queues, filled with them
//! in turn.

use super::super::Answer;
use super::hca::Hca;
use alloc::vec::Vec;
use doorbell_hal::Host;
use doorbell_layout::mlx5::command::{
    CreateFlowGroupIn, CreateFlowTableIn, CreateTirIn, FlowContext, FlowGroupIn, FlowTableContext,
    FlowTableIn, FteIn, OutHeader, RqtIn, SetFteIn, Tirc, destination, dispatch, flow_action,
    modify_rqt, op,
};
use doorbell_layout::mlx5::receive::hash_field::{DST_IP, IPV6, L4_DPORT, L4_SPORT, SRC_IP, UDP};
use doorbell_layout::mlx5::steering::{self, IP_VERSION_SHIFT, Layers, NIC_RX, PARAM};
use doorbell_packet::toeplitz::MICROSOFT;
use zerocopy::IntoBytes;
use zerocopy::byteorder::big_endian::U16;

/// Entries of the table of queues (en/rqt.h `MLX5E_INDIR_RQT_SIZE`), and of one for more queues
/// than half of those.
const SPREAD: usize = 128;
const WIDE_SPREAD: usize = 512;
/// Levels of the two tables (en/fs.h: `MLX5E_L2_FT_LEVEL` before `MLX5E_TTC_FT_LEVEL`).
const L2_LEVEL: u32 = 56;
const TTC_LEVEL: u32 = 57;
const TOEPLITZ: u32 = 2;
const ADDRESSES: u32 = SRC_IP | DST_IP;
const PORTS: u32 = ADDRESSES | L4_SPORT | L4_DPORT;
/// Kinds of traffic: IP version, protocol (0 is any), and the fields that are hashed.
const KINDS: [(u16, u8, u32); 7] = [
    (4, 6, PORTS),
    (4, 17, PORTS | UDP),
    (6, 6, PORTS | IPV6),
    (6, 17, PORTS | UDP | IPV6),
    (4, 0, ADDRESSES),
    (6, 0, ADDRESSES | IPV6),
    // What is not IP has nothing to hash, and comes to the first queue.
    (0, 0, 0),
];
/// The first of [`KINDS`] of any protocol, and that of any version.
const ANY_PROTOCOL: usize = 4;
const ANY: usize = 6;

/// The receive queues that are ready, and what leads to them.
#[derive(Debug, Default)]
pub(super) struct Steering {
    rqns: Vec<u32>,
    rqt: Option<(u32, usize)>,
    tirs: Vec<u32>,
    /// Tables, then groups with their tables, then entries.
    tables: Vec<u32>,
    groups: Vec<(u32, u32)>,
    entries: Vec<(u32, u32)>,
}

/// Returns the entries of a table that has so many queues in turn.
fn table_size(queues: usize) -> usize {
    if queues <= SPREAD / 2 { SPREAD } else { WIDE_SPREAD }
}

/// Returns which of so many queues, in the order of their opening, frames with this hash come to.
pub fn queue_of(hash: u32, queues: usize) -> usize {
    hash as usize % table_size(queues) % queues.max(1)
}

impl Hca {
    /// Adds a queue that is ready, and sends it its part of the frames.
    pub(super) fn include<H: Host>(&mut self, h: &mut H, rqn: u32) -> Answer {
        self.steering.rqns.push(rqn);
        self.spread(h)
    }

    /// Takes out a queue, if it is in.
    pub(super) fn exclude<H: Host>(&mut self, h: &mut H, rqn: u32) -> Answer {
        let before = self.steering.rqns.len();
        self.steering.rqns.retain(|n| *n != rqn);
        if before == self.steering.rqns.len() { Ok(()) } else { self.spread(h) }
    }

    /// Fills the table with the queues; makes all that leads there before the first one, and takes
    /// it down after the last one.
    fn spread<H: Host>(&mut self, h: &mut H) -> Answer {
        let queues = self.steering.rqns.len();
        let size = table_size(queues);
        if queues == 0 || self.steering.rqt.is_some_and(|(_, now)| now != size) {
            self.take_down(h);
        }
        if queues == 0 {
            return Ok(());
        }
        let in_turn = self.steering.rqns.iter().cycle().take(size);
        let list: Vec<u8> = in_turn.flat_map(|n| n.to_be_bytes()).collect();
        let mut m = RqtIn::ZERO;
        m.set(RqtIn::MAX_SIZE, size as u32).set(RqtIn::ACTUAL_SIZE, size as u32);
        if let Some((rqtn, _)) = self.steering.rqt {
            m.set(RqtIn::RQTN, rqtn).set_quad(RqtIn::FIELDS, modify_rqt::LIST);
            return self.with_list::<H, _, OutHeader>(h, op::MODIFY_RQT, &m, &list).map(|_| ());
        }
        let rqtn = self.create(h, op::CREATE_RQT, &m, &list)?;
        self.steering.rqt = Some((rqtn, size));
        let made = self.lead_to(h, rqtn);
        if made.is_err() {
            self.take_down(h);
        }
        made
    }

    /// Makes TIRs of a table of queues, and the flow tables before them.
    fn lead_to<H: Host>(&mut self, h: &mut H, rqtn: u32) -> Answer {
        for (_, _, fields) in KINDS {
            let mut m = CreateTirIn::ZERO;
            let c = m.part_mut(CreateTirIn::TIRC);
            c.set(Tirc::TRANSPORT_DOMAIN, self.transport_domain)
                .set(Tirc::DISPATCH, dispatch::INDIRECT)
                .set(Tirc::RQTN, rqtn)
                .set(Tirc::HASH_FN, TOEPLITZ)
                .set(Tirc::FIELDS, fields);
            c.0[Tirc::KEY..][..MICROSOFT.len()].copy_from_slice(&MICROSOFT);
            let tirn = self.create(h, op::CREATE_TIR, &m, &[])?;
            self.steering.tirs.push(tirn);
        }
        let version = |v: u16, protocol| Layers {
            ip_protocol: protocol,
            tags_version_flags: U16::new(v << IP_VERSION_SHIFT),
            ..Layers::default()
        };
        let ttc = self.table(h, TTC_LEVEL)?;
        let (any_protocol, any) = (ANY_PROTOCOL as u32, ANY as u32);
        let by_protocol = self.group(h, ttc, (0, any_protocol - 1), &version(0xf, 0xff))?;
        let by_version = self.group(h, ttc, (any_protocol, any - 1), &version(0xf, 0))?;
        let by_nothing = self.group(h, ttc, (any, any), &version(0, 0))?;
        for (i, (v, protocol, _)) in KINDS.into_iter().enumerate() {
            let group = match i {
                0..ANY_PROTOCOL => by_protocol,
                ANY_PROTOCOL..ANY => by_version,
                _ => by_nothing,
            };
            let to = (destination::TIR, self.steering.tirs[i]);
            self.entry(h, (ttc, group, i as u32), &version(v, protocol), to)?;
        }
        let dmac = |dmac| Layers { dmac, ..Layers::default() };
        let l2 = self.table(h, L2_LEVEL)?;
        let by_address = self.group(h, l2, (0, 1), &dmac([0xff; 6]))?;
        for (i, address) in [self.mac, [0xff; 6]].into_iter().enumerate() {
            let to = (destination::TABLE, ttc);
            self.entry(h, (l2, by_address, i as u32), &dmac(address), to)?;
        }
        let mut m = FlowTableIn::ZERO;
        m.set(FlowTableIn::TYPE, u32::from(NIC_RX)).set(FlowTableIn::TABLE, l2);
        self.execute_plain(h, (op::SET_FLOW_TABLE_ROOT, 0), &m)
    }

    /// Takes down all that leads to the queues. What is refused goes with the function.
    fn take_down<H: Host>(&mut self, h: &mut H) {
        let kept = core::mem::take(&mut self.steering.rqns);
        let s = core::mem::take(&mut self.steering);
        self.steering.rqns = kept;
        for (table, index) in s.entries.into_iter().rev() {
            let mut m = FteIn::ZERO;
            m.set(FteIn::TABLE, table).set(FteIn::INDEX, index);
            let _ = self.execute_plain(h, (op::DELETE_FLOW_TABLE_ENTRY, 0), &m);
        }
        for (table, group) in s.groups {
            let mut m = FlowGroupIn::ZERO;
            m.set(FlowGroupIn::TABLE, table).set(FlowGroupIn::GROUP, group);
            let _ = self.execute_plain(h, (op::DESTROY_FLOW_GROUP, 0), &m);
        }
        for table in s.tables.into_iter().rev() {
            let mut m = FlowTableIn::ZERO;
            m.set(FlowTableIn::TABLE, table);
            let _ = self.execute_plain(h, (op::DESTROY_FLOW_TABLE, 0), &m);
        }
        let tirs = s.tirs.into_iter().map(|n| (op::DESTROY_TIR, n));
        for (opcode, n) in tirs.chain(s.rqt.map(|(n, _)| (op::DESTROY_RQT, n))) {
            let _ = self.execute_on(h, opcode, n);
        }
    }

    fn table<H: Host>(&mut self, h: &mut H, level: u32) -> Answer<u32> {
        let mut m = CreateFlowTableIn::ZERO;
        m.set(CreateFlowTableIn::TYPE, u32::from(NIC_RX));
        m.part_mut(CreateFlowTableIn::CONTEXT)
            .set(FlowTableContext::LEVEL, level)
            .set(FlowTableContext::LOG_SIZE, KINDS.len().next_power_of_two().ilog2());
        let n = self.create(h, op::CREATE_FLOW_TABLE, &m, &[])?;
        self.steering.tables.push(n);
        Ok(n)
    }

    /// Makes a group of these indexes, which compares the bits that are set in `mask`.
    fn group<H: Host>(
        &mut self,
        h: &mut H,
        table: u32,
        (start, end): (u32, u32),
        mask: &Layers,
    ) -> Answer<u32> {
        let mut m = CreateFlowGroupIn::ZERO;
        m.set(CreateFlowGroupIn::TYPE, u32::from(NIC_RX))
            .set(CreateFlowGroupIn::TABLE, table)
            .set(CreateFlowGroupIn::START, start)
            .set(CreateFlowGroupIn::END, end)
            .set(CreateFlowGroupIn::CRITERIA, u32::from(steering::criteria::OUTER));
        let n = self.create(h, op::CREATE_FLOW_GROUP, &m, &param(mask))?;
        self.steering.groups.push((table, n));
        Ok(n)
    }

    fn entry<H: Host>(
        &mut self,
        h: &mut H,
        (table, group, index): (u32, u32, u32),
        value: &Layers,
        (kind, to): (u32, u32),
    ) -> Answer {
        let mut m = SetFteIn::ZERO;
        m.set(SetFteIn::TYPE, u32::from(NIC_RX))
            .set(SetFteIn::TABLE, table)
            .set(SetFteIn::INDEX, index);
        let c = m.part_mut(SetFteIn::CONTEXT);
        c.set(FlowContext::GROUP, group)
            .set(FlowContext::ACTION, flow_action::FORWARD)
            .set(FlowContext::DESTINATIONS, 1);
        c.0[FlowContext::MATCH..][..PARAM].copy_from_slice(&param(value));
        let list = [(kind << 24 | to).to_be_bytes(), [0; 4]].concat();
        self.with_list::<H, _, OutHeader>(h, op::SET_FLOW_TABLE_ENTRY, &m, &list)?;
        self.steering.entries.push((table, index));
        Ok(())
    }
}

/// Returns a match parameter of these outer headers.
fn param(outer: &Layers) -> [u8; PARAM] {
    let mut p = [0; PARAM];
    p[..size_of::<Layers>()].copy_from_slice(outer.as_bytes());
    p
}
