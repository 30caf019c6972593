//! Commands on the CRQ, and their answers.
//!
//! An answer is the command with [`RESPONSE`] set and a return code. The order that the server
//! insists on: handshake, version, capabilities, login, buffers and link; what comes out of it is
//! answered INVALIDSTATE. Capabilities cannot be requested once logged in. Answers of the client,
//! to indications, are counted and not answered.

use super::Server;
use super::device::{Client, Event, PortCounters, VnicServer};
use super::session::Map;
use crate::Addresses;
use doorbell_hal::{Iova, Port, Time};
use doorbell_layout::ibmvnic::{
    AclBuffer, AddressLength, Capability, ChangeMac, ControlIpOffload, LengthAddress,
    LogicalLinkState, Login, MAX_MAP_ID, MESSAGE, MulticastCtrl, PhysParms, QueryIpOffload,
    QueryMap, RESPONSE, Rc, RequestMap, RequestStatistics, Statistics, VERSION, VersionExchange,
    VpdSize, cap, cmd, first, link, multicast, phys, rc,
};
use zerocopy::byteorder::big_endian::{U16, U32, U64};

/// Vital product data: a large resource with the firmware's version, keyword RM.
const VPD: &[u8] = b"\x84\x20\x00RM\x08DBVNIC01";
const VPD_LEN: usize = 64;

/// A message as its bytes.
type Raw = [u8; MESSAGE];
/// Answers come as a message whose return code is still to be set.
type Answer = (Raw, u8);

impl VnicServer {
    /// Executes a message of the client.
    pub(super) fn command<P: Port>(&mut self, p: &mut P, client: usize, at: Time, m: Raw) {
        let c = &self.clients[client];
        if c.crq.is_none() || c.migrated || !c.ready {
            self.counters.commands_lost += 1;
            return;
        }
        if m[0] == first::HANDSHAKE {
            return self.handshake(p, client, at, m[1]);
        }
        if m[1] & RESPONSE != 0 {
            self.counters.responses += 1;
            return;
        }
        if let Some(answer) = self.execute(p, client, at, m) {
            self.answer(p, client, at, m, answer);
        }
    }

    /// Answers a message of the client.
    fn answer<P: Port>(
        &mut self,
        p: &mut P,
        client: usize,
        at: Time,
        m: Raw,
        (mut answer, code): Answer,
    ) {
        answer[1] = m[1] | RESPONSE;
        answer[12..].copy_from_slice(&[code, 0, 0, 0]);
        self.counters.commands += 1;
        self.counters.commands_refused += u64::from(code != rc::SUCCESS);
        let free = self.clients[client].command_free;
        if m[1] == cmd::REQUEST_MAP && free > at {
            self.later(client, free, Event::Respond(answer));
        } else {
            self.tell(p, client, at, answer);
        }
        // After the answer that says so.
        if m[1] == cmd::LOGICAL_LINK_STATE && code == rc::SUCCESS && m[2] != link::QUERY {
            self.indicate_link(p, client, at);
            if m[2] == link::DOWN {
                self.return_buffers(p, client, at);
            }
        }
    }

    fn handshake<P: Port>(&mut self, p: &mut P, client: usize, at: Time, what: u8) {
        let s = &self.clients[client].session;
        let fresh = !s.initialised && !s.failed;
        match what {
            first::INIT => {
                // A client that begins again has forgotten what it had.
                if !fresh {
                    self.end_session(client);
                }
                self.clients[client].session.initialised = true;
                self.counters.sessions += 1;
                self.signal(p, client, at, (first::HANDSHAKE, first::INIT_COMPLETE));
            }
            first::INIT_COMPLETE if fresh => {
                self.clients[client].session.initialised = true;
                self.counters.sessions += 1;
            }
            _ => self.counters.responses += 1,
        }
    }

    /// Executes a message that is no handshake. Returns no answer if it is a map that goes on in
    /// the next turn.
    fn execute<P: Port>(&mut self, p: &mut P, client: usize, at: Time, m: Raw) -> Option<Answer> {
        if m[1] == cmd::REQUEST_MAP && self.clients[client].session.queues.is_some() {
            return self.map(p, client, at, m, 0).map(|code| (m, code));
        }
        Some(self.execute_at_once(p, client, at, m))
    }

    fn execute_at_once<P: Port>(&mut self, p: &mut P, client: usize, at: Time, m: Raw) -> Answer {
        let server = self.cfg.servers[self.clients[client].active];
        let fixed = self.cfg.addresses == Addresses::Fixed;
        let c = &mut self.clients[client];
        let s = &mut c.session;
        let logged_in = s.queues.is_some();
        let out_of_order = match m[1] {
            cmd::VERSION_EXCHANGE => !s.initialised,
            cmd::LOGIN | cmd::REQUEST_CAPABILITY => !s.versioned || logged_in,
            cmd::REQUEST_MAP => true,
            cmd::QUERY_MAP | cmd::REQUEST_UNMAP => !logged_in,
            cmd::LOGICAL_LINK_STATE => !s.versioned || !logged_in && m[2] != link::QUERY,
            cmd::QUERY_CAPABILITY..=cmd::SET_PHYS_PARMS
            | cmd::REQUEST_STATISTICS
            | cmd::CHANGE_MAC_ADDR..=cmd::GET_VPD
            | cmd::QUERY_IP_OFFLOAD
            | cmd::CONTROL_IP_OFFLOAD
            | cmd::ACL_QUERY => !s.versioned,
            _ => return (m, rc::UNKNOWN_COMMAND),
        };
        if out_of_order {
            return (m, rc::INVALID_STATE);
        }
        match m[1] {
            cmd::VERSION_EXCHANGE => {
                let mut v = VersionExchange::of(m);
                if v.version.get() == 0 {
                    return (m, rc::PARAMETER);
                }
                s.versioned = true;
                v.version = U16::new(v.version.get().min(VERSION));
                (v.bytes(), rc::SUCCESS)
            }
            cmd::QUERY_CAPABILITY => {
                let mut q = Capability::of(m);
                match value(&server, c, q.capability.get()) {
                    Some(n) => q.number = n,
                    None => return (m, rc::PARAMETER),
                }
                (q.bytes(), rc::SUCCESS)
            }
            cmd::REQUEST_CAPABILITY => request(&server, c, Capability::of(m)),
            cmd::LOGIN => (m, self.login(p, client, at, Login::of(m)).err().unwrap_or(rc::SUCCESS)),
            cmd::QUERY_PHYS_PARMS | cmd::QUERY_PHYS_CAPABILITIES => {
                let mut f = PhysParms::of(m);
                f.flags1 = phys::FULL_DUPLEX | if c.carrier { phys::LINK_ACTIVE } else { 0 };
                f.flags1 |= if s.granted.promisc != 0 { phys::PROMISC } else { 0 };
                f.flags2 = if s.link_up { phys::LOGICAL_LINK_ACTIVE } else { 0 };
                f.speed = U32::new(server.speed);
                f.mtu = U32::new(s.granted.mtu as u32);
                (f.bytes(), rc::SUCCESS)
            }
            // The port belongs to the server (CAN_CHANGE is clear).
            cmd::SET_PHYS_PARMS => (m, rc::PERMISSION),
            cmd::LOGICAL_LINK_STATE => {
                let mut l = LogicalLinkState::of(m);
                match l.link_state {
                    link::DOWN | link::UP => s.link_up = l.link_state == link::UP,
                    link::QUERY => l.link_state = (s.link_up && c.carrier).into(),
                    _ => return (m, rc::PARAMETER),
                }
                (l.bytes(), rc::SUCCESS)
            }
            cmd::REQUEST_STATISTICS => {
                let r = RequestStatistics::of(m);
                let all = statistics(c).bytes();
                (m, self.write(p, client, at, (r.ioba, r.len), &all, all.len()))
            }
            cmd::CHANGE_MAC_ADDR => {
                let mut a = ChangeMac::of(m);
                let sound = a.mac_addr != [0; 6] && a.mac_addr[0] & 1 == 0;
                let code = match sound {
                    false => rc::PARAMETER,
                    true if server.mac_locked && a.mac_addr != c.mac => rc::PERMISSION,
                    true if self.take_mac(client, a.mac_addr) => rc::SUCCESS,
                    true => rc::PERMISSION,
                };
                a.mac_addr = self.clients[client].mac;
                (a.bytes(), code)
            }
            cmd::MULTICAST_CTRL => (m, filter(&server, c, MulticastCtrl::of(m))),
            cmd::GET_VPD_SIZE => {
                let v = VpdSize { len: U64::new(VPD_LEN as u64), ..VpdSize::of(m) };
                (v.bytes(), rc::SUCCESS)
            }
            cmd::GET_VPD => {
                let a = AddressLength::of(m);
                let mut vpd = [0; VPD_LEN];
                vpd[..VPD.len()].copy_from_slice(VPD);
                (m, self.write(p, client, at, (a.ioba, a.len), &vpd, 1))
            }
            cmd::QUERY_IP_OFFLOAD => {
                let a = LengthAddress::of(m);
                let can = query_offload(&server).bytes();
                (m, self.write(p, client, at, (a.ioba, a.len), &can, can.len()))
            }
            cmd::CONTROL_IP_OFFLOAD => {
                (m, self.control_offload(p, client, at, AddressLength::of(m)))
            }
            cmd::ACL_QUERY => {
                let a = AddressLength::of(m);
                let acl = AclBuffer {
                    len: U32::new(size_of::<AclBuffer>() as u32),
                    version: U32::new(1),
                    mac_acls_restrict: (server.mac_locked || fixed).into(),
                    ..AclBuffer::default()
                };
                let acl = acl.bytes();
                (m, self.write(p, client, at, (a.ioba, a.len), &acl, acl.len()))
            }
            cmd::QUERY_MAP => {
                let q = QueryMap {
                    page_size: 12,
                    tot_pages: U32::new(server.map_pages),
                    free_pages: U32::new(server.map_pages.saturating_sub(s.mapped_pages)),
                    ..QueryMap::of(m)
                };
                (q.bytes(), rc::SUCCESS)
            }
            // REQUEST_UNMAP: all else was sorted out above.
            _ => match s.maps.remove(&RequestMap::of(m).map_id) {
                Some(map) => {
                    s.mapped_pages -= map.pages();
                    self.counters.unmaps += 1;
                    (m, rc::SUCCESS)
                }
                None => (m, rc::PARAMETER),
            },
        }
    }

    /// Writes `bytes` to the client's buffer, of which it must offer `min`.
    fn write<P: Port>(
        &mut self,
        p: &mut P,
        client: usize,
        at: Time,
        to: (U32, U32),
        bytes: &[u8],
        min: usize,
    ) -> u8 {
        let n = bytes.len().min(to.1.get() as usize);
        if n < min {
            return rc::INVALID_LENGTH;
        }
        let written = p.write(at, Iova(to.0.get().into()), &bytes[..n]);
        self.clients[client].wrote(written).map_or(rc::INVALID_IOBA, |_| rc::SUCCESS)
    }

    /// Switches offloads. A request for one that is not offered is refused and changes nothing.
    fn control_offload<P: Port>(
        &mut self,
        p: &mut P,
        client: usize,
        at: Time,
        a: AddressLength,
    ) -> u8 {
        let mut bytes = [0; size_of::<ControlIpOffload>()];
        if (a.len.get() as usize) < bytes.len() {
            return rc::INVALID_LENGTH;
        }
        if p.read(at, Iova(a.ioba.get().into()), &mut bytes).is_err() {
            self.counters.dma_faults += 1;
            return rc::INVALID_IOBA;
        }
        let c = &mut self.clients[client];
        let can = self.cfg.servers[c.active].offloads;
        let want = ControlIpOffload::of(bytes);
        let all = want.want.iter().chain(&want.large_rx);
        // Merging of received frames is not modelled, so it is never offered.
        if all.zip(can[..8].iter().chain(&[false; 2])).any(|(w, can)| *w != 0 && !can) {
            return rc::UNSUPPORTED_OPTION;
        }
        c.session.offloads = want.want.map(|w| w != 0);
        rc::SUCCESS
    }

    /// Walks the pages of a long-term buffer through the partition's TCEs. A second buffer of
    /// the same id takes the first one's place.
    ///
    /// Of its pages so many were walked in earlier turns. When the client's share is spent the rest
    /// is walked in the next ones, before all else of the client, and the code comes then.
    fn map<P: Port>(
        &mut self,
        p: &mut P,
        client: usize,
        at: Time,
        m: Raw,
        walked: u32,
    ) -> Option<u8> {
        let r = RequestMap::of(m);
        let c = &mut self.clients[client];
        let map = Map { ioba: r.ioba.get().into(), len: r.len.get() };
        let old = c.session.maps.get(&r.map_id).map_or(0, |m| m.pages());
        let limit = self.cfg.servers[c.active].map_pages;
        if r.map_id == 0 || r.map_id > MAX_MAP_ID {
            return Some(rc::PARAMETER);
        }
        if map.len == 0 || map.ioba + u64::from(map.len) > 1 << 32 {
            return Some(rc::INVALID_LENGTH);
        }
        let pages = map.pages();
        if c.session.mapped_pages - old + pages > limit {
            return Some(rc::NO_MEMORY);
        }
        let first = map.ioba & !4095;
        for i in walked..pages {
            if p.read(at, Iova((first + u64::from(i) * 4096).max(map.ioba)), &mut [0]).is_err() {
                self.counters.dma_faults += 1;
                return Some(rc::INVALID_IOBA);
            }
            if p.is_spent() && i + 1 < pages {
                self.go_on(client, Event::Map(m, i + 1));
                return None;
            }
        }
        c.session.mapped_pages = c.session.mapped_pages - old + pages;
        c.command_free = c.command_free.max(at + self.cfg.map_page * u64::from(pages));
        self.counters.unmaps += u64::from(c.session.maps.insert(r.map_id, map).is_some());
        self.counters.maps += 1;
        Some(rc::SUCCESS)
    }

    /// Goes on with a map, and answers when it is done.
    pub(super) fn map_on<P: Port>(
        &mut self,
        p: &mut P,
        client: usize,
        at: Time,
        m: Raw,
        walked: u32,
    ) {
        if let Some(code) = self.map(p, client, at, m, walked) {
            self.answer(p, client, at, m, (m, code));
        }
    }
}

/// A capability's value, as its bytes are on the wire.
fn value(s: &Server, c: &mut Client, id: u16) -> Option<U64> {
    let queues = s.queues.min(c.queue_limit);
    let n = match id {
        cap::MIN_TX_QUEUES | cap::MIN_RX_QUEUES => 1,
        cap::MIN_RX_ADD_QUEUES | cap::MAX_RX_ADD_QUEUES | cap::OPT_RX_BUFADD_QUEUES => 1,
        cap::MAX_TX_QUEUES | cap::MAX_RX_QUEUES => queues,
        cap::OPT_TX_COMP_QUEUES | cap::OPT_RX_COMP_QUEUES => queues,
        cap::MIN_TX_ENTRIES | cap::MIN_RX_ADD_ENTRIES => s.entries.0,
        cap::MAX_TX_ENTRIES | cap::MAX_RX_ADD_ENTRIES => s.entries.1,
        cap::OPT_TX_ENTRIES | cap::OPT_RXBA_ENTRIES => s.entries.1,
        cap::TCP_IP_OFFLOAD => s.offloads.contains(&true).into(),
        cap::PROMISC_SUPPORTED => s.promisc.into(),
        cap::MIN_MTU => s.mtu.0,
        cap::MAX_MTU => s.mtu.1,
        cap::MAX_MULTICAST_FILTERS => s.multicast_filters,
        cap::VLAN_HEADER_INSERTION => s.vlan_insert.into(),
        cap::RX_VLAN_HEADER_INSERTION => s.vlan_strip.into(),
        cap::MAX_TX_SG_ENTRIES => 1,
        cap::RX_SG_SUPPORTED => 0,
        // Bytes in the order of the wire, and so not a number.
        cap::TX_RX_DESC_REQ => return Some(U64::from_bytes(s.desc_req)),
        _ => *c.session.granted.of(id)?,
    };
    Some(U64::new(n))
}

/// Grants a request, or the nearest that can be had.
fn request(s: &Server, c: &mut Client, mut q: Capability) -> Answer {
    let id = q.capability.get();
    let (least, most) = match id {
        cap::REQ_TX_QUEUES | cap::REQ_RX_QUEUES => (1, s.queues.min(c.queue_limit)),
        cap::REQ_RX_ADD_QUEUES => (1, 1),
        cap::REQ_TX_ENTRIES | cap::REQ_RX_ADD_ENTRIES => s.entries,
        cap::REQ_MTU => s.mtu,
        cap::PROMISC_REQUESTED => (0, s.promisc.into()),
        _ => (0, 0),
    };
    let Some(granted) = c.session.granted.of(id) else { return (q.bytes(), rc::PARAMETER) };
    *granted = q.number.get().clamp(least, most);
    let code = if *granted == q.number.get() { rc::SUCCESS } else { rc::PARTIAL_SUCCESS };
    q.number = U64::new(*granted);
    q.rc = Rc::new(code);
    (q.bytes(), code)
}

fn filter(s: &Server, c: &mut Client, m: MulticastCtrl) -> u8 {
    let list = &mut c.session.multicast;
    let known = list.iter().position(|a| *a == m.mac_addr);
    match m.flags {
        multicast::ENABLE if m.mac_addr[0] & 1 == 0 => return rc::PARAMETER,
        multicast::ENABLE if known.is_none() && list.len() as u64 >= s.multicast_filters => {
            return rc::NO_MEMORY;
        }
        multicast::ENABLE if known.is_none() => list.push(m.mac_addr),
        multicast::ENABLE => {}
        multicast::DISABLE => match known {
            Some(i) => _ = list.swap_remove(i),
            None => return rc::PARAMETER,
        },
        multicast::ENABLE_ALL => c.session.all_multicast = true,
        multicast::DISABLE_ALL => {
            c.session.all_multicast = false;
            list.clear();
        }
        _ => return rc::PARAMETER,
    }
    rc::SUCCESS
}

fn query_offload(s: &Server) -> QueryIpOffload {
    QueryIpOffload {
        len: U32::new(size_of::<QueryIpOffload>() as u32),
        version: U32::new(1),
        can: core::array::from_fn(|i| (i < 8 && s.offloads[i]).into()),
        max_ipv4_header_size: U16::new(60),
        max_ipv6_header_size: U16::new(128),
        max_tcp_header_size: U16::new(60),
        max_udp_header_size: U16::new(8),
        max_large_tx_size: U32::new(s.max_large_tx),
        ..QueryIpOffload::default()
    }
}

fn statistics(c: &Client) -> Statistics {
    let n = |t: &PortCounters| {
        [t.packets, t.bytes, t.casts[0], t.casts[1], t.casts[2], t.errors].map(U64::new)
    };
    let (tx, rx) = (n(&c.sent), n(&c.received));
    Statistics {
        version: U32::new(1),
        promiscuous: U32::new(c.session.granted.promisc as u32),
        rx_packets: rx[0],
        rx_bytes: rx[1],
        tx_packets: tx[0],
        tx_bytes: tx[1],
        ucast_tx_packets: tx[2],
        ucast_rx_packets: rx[2],
        mcast_tx_packets: tx[3],
        mcast_rx_packets: rx[3],
        bcast_tx_packets: tx[4],
        bcast_rx_packets: rx[4],
        internal_mac_tx_errors: tx[5],
        internal_mac_rx_errors: rx[5],
        ..Statistics::default()
    }
}
