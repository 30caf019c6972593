//! Negotiation with the server: version, capabilities, offloads.
//!
//! Source: ibmvnic.c `send_version_xchg`, `send_query_cap`, `send_request_cap`,
//! `handle_request_cap_rsp`, `send_query_ip_offload`, `send_control_ip_offload`.
//!
//! After a request that is granted in part, **all** requests are repeated with the granted value,
//! because earlier grants may depend on it.

use super::config::Config;
use super::control::{Control, Step, plain};
use crate::OpenError;
use doorbell_hal::Hypervisor;
use doorbell_layout::ibmvnic::{
    AddressLength, Capability, ControlIpOffload, LengthAddress, MESSAGE, QueryIpOffload, VERSION,
    VersionExchange, cap, cmd, offload, rc,
};
use doorbell_packet::ethernet::HEADER;
use zerocopy::byteorder::big_endian::{U16, U32, U64};

/// Most rounds of requests.
const ROUNDS: u32 = 16;

/// The result of the negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Negotiated {
    /// Version of the protocol.
    pub version: u16,
    /// Transmit queues.
    pub tx_queues: u64,
    /// Receive queues.
    pub rx_queues: u64,
    /// Entries of a transmit queue.
    pub tx_entries: u64,
    /// Entries of a receive queue.
    pub rx_entries: u64,
    /// Longest frame, Ethernet header included.
    pub frame: u64,
    /// Shortest.
    pub min_mtu: u64,
    /// All frames are received.
    pub promisc: bool,
    /// The server inserts tags.
    pub vlan_insert: bool,
    /// Multicast addresses that it filters.
    pub multicast_filters: u64,
    /// Headers that the server requests, in wire order: [`doorbell_layout::ibmvnic::desc_req`].
    pub desc_req: [u8; 8],
    /// Checksums and large sends that are on: [`doorbell_layout::ibmvnic::offload`].
    pub offloads: [bool; 8],
    /// Longest large send; 0: none.
    pub max_large_tx: u32,
    /// Pages left for long-term buffers at login.
    pub free_pages: u32,
}

impl Negotiated {
    /// Returns the longest IP datagram.
    pub const fn mtu(&self) -> u32 {
        (self.frame as u32).saturating_sub(HEADER as u32)
    }
}

/// Responses to queries by capability, in wire order.
type Answers = [[u8; 8]; 34];

fn number(a: &Answers, id: u16) -> u64 {
    u64::from_be_bytes(a[usize::from(id)])
}

pub(super) fn version<H: Hypervisor>(h: &mut H, k: &mut Control) -> Step<u16> {
    let m = VersionExchange::of(plain(cmd::VERSION_EXCHANGE));
    let m = VersionExchange { version: U16::new(VERSION), ..m };
    let answer = k.demand(h, m.bytes())?;
    Ok(VersionExchange::of(answer.bytes()).version.get())
}

/// Negotiates capabilities. `previous` is the frame size granted before, to fall back to.
pub(super) fn capabilities<H: Hypervisor>(
    h: &mut H,
    k: &mut Control,
    c: &Config,
    previous: Option<u64>,
) -> Step<Negotiated> {
    for id in cap::QUERIES {
        k.send(h, capability(cmd::QUERY_CAPABILITY, id, 0))?;
    }
    let mut a: Answers = [[0; 8]; 34];
    for _ in cap::QUERIES {
        let q = Capability::of(k.wait(h, cmd::QUERY_CAPABILITY)?.bytes());
        // An unknown capability counts as absent.
        if let Some(to) =
            a.get_mut(usize::from(q.capability.get())).filter(|_| q.rc.code == rc::SUCCESS)
        {
            *to = q.number.to_bytes();
        }
    }
    let most = |wanted: u64, min: u16, max: u16| wanted.min(number(&a, max)).max(number(&a, min));
    let mut wanted = [
        (cap::REQ_TX_QUEUES, most(c.queues, cap::MIN_TX_QUEUES, cap::MAX_TX_QUEUES)),
        (cap::REQ_RX_QUEUES, most(c.queues, cap::MIN_RX_QUEUES, cap::MAX_RX_QUEUES)),
        (cap::REQ_RX_ADD_QUEUES, most(1, cap::MIN_RX_ADD_QUEUES, cap::MAX_RX_ADD_QUEUES)),
        (cap::REQ_TX_ENTRIES, most(c.tx_entries, cap::MIN_TX_ENTRIES, cap::MAX_TX_ENTRIES)),
        (
            cap::REQ_RX_ADD_ENTRIES,
            most(c.rx_entries, cap::MIN_RX_ADD_ENTRIES, cap::MAX_RX_ADD_ENTRIES),
        ),
        (cap::REQ_MTU, u64::from(c.mtu) + HEADER as u64),
        (cap::PROMISC_REQUESTED, c.promisc.into()),
    ];
    // Not requested where it would be refused.
    let asked = if c.promisc && number(&a, cap::PROMISC_SUPPORTED) == 0 { 6 } else { 7 };
    if asked == 6 {
        wanted[6].1 = 0;
    }
    let mut fallback = previous;
    let mut agreed = false;
    for _ in 0..ROUNDS {
        agreed = true;
        for &(id, n) in &wanted[..asked] {
            k.send(h, capability(cmd::REQUEST_CAPABILITY, id, n))?;
        }
        for _ in 0..asked {
            let q = Capability::of(k.wait(h, cmd::REQUEST_CAPABILITY)?.bytes());
            let (id, n) = (q.capability.get(), q.number.get());
            match q.rc.code {
                rc::SUCCESS => {}
                rc::PARTIAL_SUCCESS => {
                    k.stats.partial_requests += 1;
                    agreed = false;
                    if let Some(w) = wanted.iter_mut().find(|w| w.0 == id) {
                        // For the MTU first the former one, then the one that is offered.
                        let old = if id == cap::REQ_MTU { fallback.take() } else { None };
                        w.1 = old.filter(|old| *old != w.1).unwrap_or(n);
                    }
                }
                code => return Err(OpenError::Refused("REQUEST_CAPABILITY", code).into()),
            }
        }
        if agreed {
            break;
        }
    }
    let granted = |i: usize| wanted[i].1;
    let entries = |i: usize| (1..=4096).contains(&granted(i));
    let queues = |i: usize| (1..=16).contains(&granted(i));
    let sound = queues(0) && queues(1) && granted(2) == 1 && entries(3) && entries(4);
    if !agreed || !sound || !(60..=65_000).contains(&granted(5)) {
        return Err(OpenError::Answer("REQUEST_CAPABILITY").into());
    }
    Ok(Negotiated {
        tx_queues: granted(0),
        rx_queues: granted(1),
        tx_entries: granted(3),
        rx_entries: granted(4),
        frame: granted(5),
        min_mtu: number(&a, cap::MIN_MTU),
        promisc: granted(6) != 0,
        vlan_insert: number(&a, cap::VLAN_HEADER_INSERTION) != 0,
        multicast_filters: number(&a, cap::MAX_MULTICAST_FILTERS),
        // Bytes, not a number: a byte swap would select the wrong one.
        desc_req: a[usize::from(cap::TX_RX_DESC_REQ)],
        ..Negotiated::default()
    })
}

/// Negotiates offloads. QUERY has length before address, CONTROL address before length.
pub(super) fn offloads<H: Hypervisor>(
    h: &mut H,
    k: &mut Control,
    c: &Config,
    n: &mut Negotiated,
) -> Step {
    let ioba = U32::new(k.scratch.iova().0 as u32);
    h.store(&k.scratch, 0, QueryIpOffload::default());
    let len = U32::new(size_of::<QueryIpOffload>() as u32);
    let m = LengthAddress { len, ioba, ..LengthAddress::of(plain(cmd::QUERY_IP_OFFLOAD)) };
    k.demand(h, m.bytes())?;
    let can: QueryIpOffload = h.load(&k.scratch, 0);
    n.max_large_tx = can.max_large_tx_size.get();
    let mut want = [0; 8];
    for (i, w) in want.iter_mut().enumerate() {
        let large = i == offload::LARGE_TX4 || i == offload::LARGE_TX6;
        let on = if large { c.large_send && c.checksum && n.max_large_tx > 0 } else { c.checksum };
        *w = (on && can.can[i] != 0).into();
    }
    let control = ControlIpOffload {
        len: U32::new(size_of::<ControlIpOffload>() as u32),
        version: U32::new(1),
        want,
        ..ControlIpOffload::default()
    };
    h.store(&k.scratch, 0, control);
    let len = U32::new(size_of::<ControlIpOffload>() as u32);
    let m = AddressLength { ioba, len, ..AddressLength::of(plain(cmd::CONTROL_IP_OFFLOAD)) };
    k.demand(h, m.bytes())?;
    n.offloads = want.map(|w| w != 0);
    Ok(())
}

fn capability(command: u8, id: u16, n: u64) -> [u8; MESSAGE] {
    let (capability, number) = (U16::new(id), U64::new(n));
    Capability { capability, number, ..Capability::of(plain(command)) }.bytes()
}
