//! The virtual port: its state, its context, its counters.
//!
//! Address lists and promiscuous modes are kept and told again; what is received
//! is for flow tables to say, as on the card.

use super::super::{Answer, device::Mlx5};
use super::{CmdStatus, answer, answer_prefix, check, input, tail};
use alloc::vec::Vec;
use doorbell_hal::{Port, Time, fail_if};
use doorbell_layout::mlx5::command::{
    ModifyNicVportIn, NicVport, QueryNicVportIn, QueryNicVportOut, VportCounters, VportState,
    list_type, vport_field,
};
use doorbell_packet::ethernet::{self, Cast, FCS, MIN_FRAME};
use doorbell_packet::vlan::TAG;

/// The context, and the lists that do not fit in it.
#[derive(Debug, Default)]
pub(in super::super) struct Vport {
    pub(super) context: NicVport,
    /// Unicast, multicast, VLANs: 8 bytes each.
    lists: [Vec<u8>; 3],
}

/// Entries of a list at the most, log2, as the capabilities say.
const LOG_LISTS: [u32; 3] = [7, 11, 12];
/// The MTU as firmware counts it: with header, tag and FCS.
const MTU: u32 = (ethernet::MAX_FRAME + TAG + FCS) as u32;

impl Vport {
    pub(super) fn new(cfg: &super::super::Config) -> Vport {
        let mut context = NicVport::ZERO;
        context.set(NicVport::MTU, MTU);
        if cfg.caps.min_inline > 1 {
            context.set(NicVport::MIN_INLINE, u32::from(cfg.caps.min_inline));
        }
        let m = cfg.mac;
        context.0[NicVport::ADDRESS..][..6].copy_from_slice(&m);
        // EUI-64, as the card's.
        let guid = u64::from_be_bytes([m[0], m[1], m[2], 0, 0, m[3], m[4], m[5]]);
        context.set_quad(NicVport::SYSTEM_GUID, guid).set_quad(NicVport::PORT_GUID, guid);
        context.set_quad(NicVport::NODE_GUID, guid);
        Vport { context, lists: Default::default() }
    }

    /// The list of unicast addresses.
    pub(in super::super) fn unicast(&self) -> &[u8] {
        &self.lists[list_type::UNICAST as usize]
    }
}

/// Frames of one direction: of each kind, packets and octets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct CastCounters {
    pub(in super::super) unicast: (u64, u64),
    pub(in super::super) multicast: (u64, u64),
    pub(in super::super) broadcast: (u64, u64),
}

impl CastCounters {
    /// Counts a frame; unicast ones are what is left of all.
    #[inline]
    pub(in super::super) fn count(&mut self, frame: &[u8]) {
        let kind = match Cast::of(frame) {
            Cast::Unicast => &mut self.unicast,
            Cast::Multicast => &mut self.multicast,
            Cast::Broadcast => &mut self.broadcast,
        };
        kind.0 += 1;
        kind.1 += frame.len().max(MIN_FRAME) as u64;
    }
    pub(in super::super) fn packets(&self) -> u64 {
        self.unicast.0 + self.multicast.0 + self.broadcast.0
    }
    /// Unicast, multicast and broadcast packets.
    pub(super) fn frames(&self) -> (u64, u64, u64) {
        (self.unicast.0, self.multicast.0, self.broadcast.0)
    }
    pub(super) fn octets(&self) -> u64 {
        self.unicast.1 + self.multicast.1 + self.broadcast.1
    }
}

/// Traffic of the wire as the counter registers have it.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct WireCounters {
    pub(in super::super) tx: CastCounters,
    pub(in super::super) rx: CastCounters,
    pub(in super::super) tx_discards: u64,
    pub(in super::super) rx_discards: u64,
}

impl Mlx5 {
    /// Of what was sent only multicast and broadcast frames are told apart as they
    /// leave; the others are the rest.
    pub(super) fn wire_counters(&self) -> WireCounters {
        let (c, mut tx) = (&self.counters, self.pipe.casts);
        tx.unicast = (c.packets - tx.packets(), self.pipe.octets - tx.octets());
        let r = &self.rx.counters;
        let (tx_discards, rx_discards) = (c.discarded, r.out_of_buffer + r.fifo_full);
        WireCounters { tx, rx: self.rx_casts, tx_discards, rx_discards }
    }

    pub(super) fn query_vport_state(&self, out: &mut [u8]) -> Answer {
        let port = self.firmware.port;
        let mut m = VportState::ZERO;
        m.set(VportState::ADMIN, u32::from(port.admin_up))
            .set(VportState::STATE, u32::from(port.is_up()));
        m.0[..8].fill(0);
        answer(out, &m)
    }

    pub(super) fn modify_vport_state<P: Port>(&mut self, p: &mut P, at: Time, b: &[u8]) -> Answer {
        let admin = input::<VportState>(b)?.get(VportState::ADMIN);
        // 0 down, 1 up, 2 follow the port.
        check(admin <= 2)?;
        self.change_port(p, at, |port| port.admin_up = admin != 0);
        Ok(())
    }

    pub(super) fn query_nic_vport(&self, bytes: &[u8], out: &mut [u8]) -> Answer {
        let m = input::<QueryNicVportIn>(bytes)?;
        check(m.get(QueryNicVportIn::OTHER) == 0)?;
        let list_type = m.get(QueryNicVportIn::LIST_TYPE);
        let list = self.firmware.vport.lists.get(list_type as usize).ok_or(CmdStatus::BadParam)?;
        let mut m = QueryNicVportOut::ZERO;
        let c = m.part_mut(QueryNicVportOut::CONTEXT);
        *c = self.firmware.vport.context;
        c.set(NicVport::LIST_TYPE, list_type).set(NicVport::LIST_SIZE, list.len() as u32 / 8);
        answer(out, &m)?;
        answer_prefix(out, QueryNicVportOut::LEN, list);
        Ok(())
    }

    pub(super) fn modify_nic_vport(&mut self, bytes: &[u8]) -> Answer {
        let m = input::<ModifyNicVportIn>(bytes)?;
        check(m.get(ModifyNicVportIn::OTHER) == 0)?;
        let (fields, c) = (m.get(ModifyNicVportIn::FIELDS), m.part(ModifyNicVportIn::CONTEXT));
        let max = self.cfg.max_frame + FCS as u32;
        check(fields & vport_field::MTU == 0 || (64..=max).contains(&c.get(NicVport::MTU)))?;
        let vport = &mut self.firmware.vport;
        if fields & vport_field::ADDRESSES != 0 {
            let kind = c.get(NicVport::LIST_TYPE) as usize;
            check(kind <= list_type::VLAN as usize)?;
            let n = c.get(NicVport::LIST_SIZE) as usize;
            fail_if(n > 1 << LOG_LISTS[kind], CmdStatus::ExceedLimit)?;
            let list =
                tail(bytes, ModifyNicVportIn::LEN).get(..n * 8).ok_or(CmdStatus::BadInputLength)?;
            vport.lists[kind] = list.to_vec();
            self.find_own_addresses();
        }
        let mine = &mut self.firmware.vport.context;
        if fields & vport_field::PERMANENT_ADDRESS != 0 {
            mine.0[NicVport::ADDRESS..][..6].copy_from_slice(&c.0[NicVport::ADDRESS..][..6]);
        }
        if fields & vport_field::PROMISC != 0 {
            for f in [NicVport::PROMISC_UC, NicVport::PROMISC_MC, NicVport::PROMISC_ALL] {
                mine.set(f, c.get(f));
            }
        }
        if fields & vport_field::MTU != 0 {
            mine.set(NicVport::MTU, c.get(NicVport::MTU));
        }
        Ok(())
    }

    pub(super) fn query_vport_counter(&self, out: &mut [u8]) -> Answer {
        use VportCounters as V;
        let w = self.wire_counters();
        let mut m = alloc::boxed::Box::new(V::ZERO);
        for (f, (packets, octets)) in [
            (V::TX_UNICAST, w.tx.unicast),
            (V::TX_MULTICAST, w.tx.multicast),
            (V::TX_BROADCAST, w.tx.broadcast),
            (V::RX_UNICAST, w.rx.unicast),
            (V::RX_MULTICAST, w.rx.multicast),
            (V::RX_BROADCAST, w.rx.broadcast),
        ] {
            m.0[f.at..f.at + 8].copy_from_slice(&packets.to_be_bytes());
            m.0[f.at + 8..f.at + 16].copy_from_slice(&octets.to_be_bytes());
        }
        answer_prefix(out, 0, &m.0);
        Ok(())
    }
}
