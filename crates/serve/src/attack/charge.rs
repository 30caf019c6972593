//! A hostile guest that makes the dearest calls, and the work that another guest waits for.
//!
//! Work is counted in the units of `Port::charge`, some 10 ns each. Every call and command of the
//! adapters is made from many CPUs at once, with its dearest arguments; a call of the other guest
//! waits for a share of a turn of all guests and one indivisible piece of work.

use super::*;
use doorbell_hal::HcallReturn;
use doorbell_host_io::shared::Window;
use doorbell_hostile::hcalls::{header_entries, login_buffer};
use doorbell_layout::ibmveth::{Descriptor, attribute, send as veth_send};
use doorbell_layout::ibmvnic::{
    AddressLength, Capability, ControlIpOffload, LogicalLinkState, Login, LoginResponse,
    MAX_INDIRECT, RequestMap, RxAdd, Tx, VersionExchange, cap, cmd, desc, first, link, status, tx,
};
use doorbell_vfio_user::Share;
use zerocopy::byteorder::big_endian::{U16, U32, U64};

/// The most work that a call of another guest waits for: the shares of a turn of all guests twice,
/// for what is begun in one may end beyond it.
const MOST: u64 = 2 * Share::TOGETHER;
/// Of half of the calls: five times the 70 us that one takes on an idle server.
const MEDIAN: u64 = 35_000;
/// CPUs of the hostile guest, which all call at once.
const CPUS: usize = 64;
/// Calls of the other guest beside one of the hostile guest's.
const CALLS: usize = 12;
/// Bytes of the hostile guest's memory.
const MEMORY_BYTES: u64 = 1 << 20;
const PAGE: u64 = 4096;
const H_STUFF_TCE: u64 = 0x138;
const READ_WRITE: u64 = 3;
/// The hostile guest's address on the logical LAN, the source of its frames.
const MAC: u64 = 0x5254_0000_0001;

/// Places in the hostile guest's memory: its queues, messages, descriptors and frames.
const CRQ: u64 = 0x1_0000;
const CRQ_BYTES: u64 = 0x1_0000;
const RINGS: u64 = 0x2_0000;
const RING: u64 = 0x4000;
const LOGIN: u64 = 0x3_0000;
const ANSWER: u64 = 0x3_1000;
const DESCRIPTORS: u64 = 0x3_8000;
const FRAME: u64 = 0xa_0000;

type Call = (u64, [u64; 9]);

/// A guest with memory, whose CPUs wait for calls.
struct Guest {
    client: Client,
    memory: Window,
    waiting: [bool; CPUS],
}

impl Guest {
    /// Connects it. All bus addresses are mapped, those of the memory each to its own page.
    fn connect<T: Transport>(around: &mut Around<T>) -> Guest {
        let client = welcome(around, Around::turn);
        let file = memfd(c"memory", MEMORY_BYTES).expect(MADE);
        let memory = Window::map(&file, 0, MEMORY_BYTES as usize, true).expect(MADE);
        let bytes = message(MEMORY, MEMORY_BYTES);
        send_with_fds(&client.socket, &bytes, &[file.as_fd()]).expect(MADE);
        let guest = Guest { client, memory, waiting: [false; CPUS] };
        for start in (0..1 << 28).step_by(MEMORY_BYTES as usize) {
            for page in (0..MEMORY_BYTES).step_by(PAGE as usize) {
                let a = guest.call(&[start + page, page | READ_WRITE, 1]);
                let _ = guest.plugin().adapter.answer_locally(
                    H_STUFF_TCE,
                    &a,
                    || Some(&guest.memory),
                    |_| (),
                );
            }
        }
        guest
    }

    fn plugin(&self) -> &Plugin {
        self.client.plugin.as_ref().expect("it was welcome")
    }

    /// Returns the arguments of a call of its unit.
    fn call(&self, a: &[u64]) -> [u64; 9] {
        let mut all = [0; 9];
        all[0] = self.plugin().adapter.unit.into();
        all[1..=a.len()].copy_from_slice(a);
        all
    }

    /// Makes a call and gives turns until it is answered.
    fn ask<T: Transport>(&self, around: &mut Around<T>, call: u64, a: &[u64]) -> HcallReturn {
        let adapter = &self.plugin().adapter;
        assert!(adapter.begin_call(0, call, &self.call(a)));
        for _ in 0..1000 {
            around.turn();
            pass(&around.server.clock, Span::from_us(20));
            if let Some(answer) = adapter.take_answer(0) {
                return answer;
            }
        }
        panic!("call {call:#x} is not answered");
    }

    /// Makes one of the calls from each CPU that waits for none.
    fn flood(&mut self, calls: &[Call]) {
        for cpu in 1..CPUS {
            let (call, a) = calls[cpu % calls.len()];
            let adapter = &self.plugin().adapter;
            let waits = self.waiting[cpu] && adapter.take_answer(cpu).is_none();
            let begun = waits || adapter.begin_call(cpu, call, &a);
            self.waiting[cpu] = begun;
        }
    }

    /// Waits until all CPUs have their answers and nothing is due.
    fn rest<T: Transport>(&mut self, around: &mut Around<T>) {
        for _ in 0..100_000 {
            take_entries(self);
            for cpu in 1..CPUS {
                let adapter = &self.plugin().adapter;
                self.waiting[cpu] &= adapter.take_answer(cpu).is_none();
            }
            if !self.waiting.contains(&true) && around.server.t.next_due().is_none() {
                return;
            }
            around.turn();
            pass(&around.server.clock, Span::from_us(20));
        }
        panic!("a call is never answered");
    }
}

/// Returns the work during each of some calls of `honest` beside a guest that floods, in order.
fn latencies<T: Transport>(
    around: &mut Around<T>,
    honest: &Guest,
    hostile: &mut Guest,
    calls: &[Call],
    mut between: impl FnMut(&Guest),
) -> Vec<u64> {
    let adapter = &honest.plugin().adapter;
    let mut all: Vec<u64> = (0..CALLS)
        .map(|_| {
            for _ in 0..4 {
                between(hostile);
                hostile.flood(calls);
                around.turn();
                pass(&around.server.clock, Span::from_us(20));
            }
            let before = around.server.t.work();
            assert!(adapter.begin_call(1, 0x999, &honest.call(&[])));
            for _ in 0..TURNS {
                hostile.flood(calls);
                around.turn();
                if adapter.take_answer(1).is_some() {
                    return around.server.t.work() - before;
                }
            }
            panic!("a guest that behaves is not answered");
        })
        .collect();
    all.sort_unstable();
    hostile.rest(around);
    all
}

/// Checks the bounds of a call of another guest.
fn check(name: &str, all: &[u64]) {
    let (median, most) = (all[all.len() / 2], all[all.len() - 1]);
    assert!(most <= MOST && median <= MEDIAN, "{name}: median {median}, most {most} units");
}

/// Returns a server of an adapter's kind for three guests, and two of these.
fn served<D: Backend>(
    kind: usize,
    device: fn(u32, &Setup) -> D,
    dir: &Path,
) -> (Around<Hcalls<D>>, Guest, Guest) {
    let setup = Setup { partitions: 3, mac_change: true, promiscuous: true, ..Setup::default() };
    let adapter = KINDS[kind].adapter;
    let make = |bill: &SharedBill, c: &ServeContext| {
        Hcalls::new(adapter, device(adapter.unit.address, &setup), setup.partitions, bill, c)
    };
    let mut around = Around::new(make, Meter::Hypervisor, dir);
    // The one that waits is the last to be served.
    let hostile = Guest::connect(&mut around);
    let honest = Guest::connect(&mut around);
    (around, honest, hostile)
}

/// Returns a frame to all of so many bytes, TCP over IPv4, to be cut into segments.
fn broadcast(len: usize) -> Vec<u8> {
    let [high, low] = ((len - 14) as u16).to_be_bytes();
    let mut f = vec![0xff; 6];
    f.extend([0x52, 0x54, 0, 0, 0, 1, 8, 0, 0x45, 0, high, low, 0, 1, 0, 0, 64, 6, 0, 0]);
    f.extend([10, 0, 0, 1, 10, 0, 0, 2, 0x10, 0, 0x20, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10]);
    f.resize(len, 0);
    f
}

/// Opens an adapter of the logical LAN, with as many receive buffers as it takes. It may send and
/// take large packets, or has them cut into segments.
fn open_veth<T: Transport>(around: &mut Around<T>, guest: &Guest, mac: u64, large: bool) {
    let all = attribute::LRG_SR_ENABLED
        | attribute::LRG_SND_SUPPORT
        | attribute::IPV4_TCP_CSUM
        | attribute::RX_MULTI_BUFF;
    if large {
        guest.ask(around, ibmveth::H_ILLAN_ATTRIBUTES, &[0, all]);
    }
    let queue = Descriptor::new(Descriptor::VALID, 64 << 10, 0x4_0000).0;
    let a = [PAGE, queue, 2 * PAGE, mac];
    let registered = guest.ask(around, ibmveth::H_REGISTER_LOGICAL_LAN, &a);
    assert_eq!(registered.status, 0);
    let buffer = Descriptor::new(Descriptor::VALID, 2048, 0x8_0000).0;
    for _ in 0..1000 {
        let added = guest.ask(around, ibmveth::H_ADD_LOGICAL_LAN_BUFFERS, &[buffer; 8]);
        if added.status != 0 {
            break;
        }
    }
}

#[test]
fn calls_of_a_lan_adapter_hold_up_no_other_guest() {
    let dir = tempfile::tempdir().expect(MADE);
    let (mut around, honest, mut hostile) = served(1, lan_device, dir.path());
    let around = &mut around;
    open_veth(around, &honest, MAC + 1, false);
    let longest = Descriptor::new(Descriptor::VALID, 0xff_fff0, 0x1_0000).0;
    let buffer = Descriptor::new(Descriptor::VALID, 128 << 10, 0x1_0000).0;
    hostile.memory.write(FRAME as usize, &broadcast(65_000));
    // Checksums by the adapter, and cut into segments of the shortest kind.
    let frame = |flags: u64, len: u32, mss: u64| {
        let mut a = hostile.call(&[Descriptor::new(flags, len, FRAME as u32).0]);
        a[veth_send::MSS] = mss;
        (ibmveth::H_SEND_LOGICAL_LAN, a)
    };
    let one = |call, a: &[u64]| (call, hostile.call(a));
    let calls = [
        ("buffers", one(ibmveth::H_ADD_LOGICAL_LAN_BUFFERS, &[buffer; 8])),
        ("long buffers", one(ibmveth::H_ADD_LOGICAL_LAN_BUFFERS, &[longest; 8])),
        ("buffer", one(ibmveth::H_ADD_LOGICAL_LAN_BUFFER, &[buffer])),
        ("register", one(ibmveth::H_REGISTER_LOGICAL_LAN, &[PAGE, longest, 2 * PAGE, MAC])),
        ("bad register", one(ibmveth::H_REGISTER_LOGICAL_LAN, &[PAGE, longest, 1, 2])),
        ("give back", one(ibmveth::H_FREE_LOGICAL_LAN_BUFFER, &[2048])),
        ("multicast", one(ibmveth::H_MULTICAST_CTRL, &[3, 0x0100_5e00_0001])),
        ("address", one(ibmveth::H_CHANGE_LOGICAL_LAN_MAC, &[MAC])),
        ("attributes", one(ibmveth::H_ILLAN_ATTRIBUTES, &[0, u64::MAX])),
        ("signal", one(ibmveth::H_VIO_SIGNAL, &[1])),
        ("broadcast", frame(0, 65_000, 0)),
        ("segments", frame(Descriptor::NO_CSUM | Descriptor::CSUM_GOOD, 65_000, 16)),
        ("free", one(ibmveth::H_FREE_LOGICAL_LAN, &[])),
    ];
    for open in [false, true] {
        if open {
            hostile.ask(around, ibmveth::H_FREE_LOGICAL_LAN, &[]);
            open_veth(around, &hostile, MAC, true);
        }
        for (name, call) in &calls {
            let all = latencies(around, &honest, &mut hostile, &[*call], |_| ());
            check(name, &all);
        }
    }
    let report = around.server.t.report();
    let count = |name| report.counters.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
    assert!(count("rx_segments") > 1000 && count("tx_busy") > 10, "they were made");
    assert!(count("buffers_added") > 4096 && count("tx_packets") > 100);
}

// ---- vnic ----

/// Returns a request for a long-term buffer.
fn map(map_id: u8, ioba: u32, len: u32) -> RequestMap {
    let (first, cmd, ioba, len) = (first::VALID, cmd::REQUEST_MAP, U32::new(ioba), U32::new(len));
    RequestMap { first, cmd, map_id, ioba, len, ..Default::default() }
}

fn link_state(link_state: u8) -> LogicalLinkState {
    let (first, cmd) = (first::VALID, cmd::LOGICAL_LINK_STATE);
    LogicalLinkState { first, cmd, link_state, ..Default::default() }
}

/// Returns the call that sends a message.
fn sends(g: &Guest, m: [u8; 16]) -> Call {
    let word = |b: &[u8]| b.iter().fold(0, |v, b| v << 8 | u64::from(*b));
    (hcall::SEND_CRQ, g.call(&[word(&m[..8]), word(&m[8..])]))
}

/// Takes all entries of the guest's queues.
fn take_entries(g: &Guest) {
    g.memory.write(CRQ as usize, &[0; CRQ_BYTES as usize]);
    g.memory.write(RINGS as usize, &[0; 2 * RING as usize]);
}

/// Sends a message and gives it time.
fn tell<T: Transport>(around: &mut Around<T>, g: &Guest, m: [u8; 16]) {
    let (call, a) = sends(g, m);
    assert_eq!(g.ask(around, call, &a[1..]).status, status::SUCCESS);
    for _ in 0..64 {
        around.turn();
        pass(&around.server.clock, Span::from_us(20));
    }
    take_entries(g);
}

/// Opens an adapter of the vNIC up to a login with one queue of each direction, and its link up.
/// Returns the handles of its queues of frames and of buffers.
fn open_vnic<T: Transport>(around: &mut Around<T>, g: &Guest) -> [u64; 2] {
    let w = U32::new;
    g.ask(around, hcall::REG_CRQ, &[CRQ, CRQ_BYTES]);
    let mut m = [0; 16];
    (m[0], m[1]) = (first::HANDSHAKE, first::INIT);
    tell(around, g, m);
    let (first, version, cmd) = (first::VALID, U16::new(1), cmd::VERSION_EXCHANGE);
    tell(around, g, VersionExchange { first, cmd, version, ..Default::default() }.bytes());
    for id in [cap::REQ_TX_ENTRIES, cap::REQ_RX_ADD_ENTRIES] {
        let (capability, number) = (U16::new(id), U64::new(1024));
        let cmd = cmd::REQUEST_CAPABILITY;
        tell(
            around,
            g,
            Capability { first, cmd, capability, number, ..Default::default() }.bytes(),
        );
    }
    for n in 0..2 {
        let ring = g.ask(around, hcall::REG_SUB_CRQ, &[RINGS + n * RING, RING]);
        assert_eq!(ring.status, status::SUCCESS);
    }
    g.memory.write(LOGIN as usize, &login_buffer(ANSWER as u32, PAGE as u32));
    let (ioba, len, cmd) = (w(LOGIN as u32), w(56), cmd::LOGIN);
    tell(around, g, Login { first, cmd, reserved: [0; 6], ioba, len }.bytes());
    let want = ControlIpOffload { len: w(136), version: w(1), want: [1; 8], ..Default::default() };
    g.memory.write(LOGIN as usize, &want.bytes());
    let (ioba, len, cmd) = (w(LOGIN as u32), w(136), cmd::CONTROL_IP_OFFLOAD);
    tell(around, g, AddressLength { first, cmd, ioba, len, ..Default::default() }.bytes());
    tell(around, g, map(1, 0, MEMORY_BYTES as u32).bytes());
    tell(around, g, link_state(link::UP).bytes());
    let mut answer = [0; size_of::<LoginResponse>()];
    g.memory.read(ANSWER as usize, &mut answer);
    let answer = LoginResponse::of(answer);
    [answer.off_txsubm_subcrqs, answer.off_rxadd_subcrqs].map(|at| {
        let mut handle = [0; 8];
        g.memory.read(ANSWER as usize + at.get() as usize, &mut handle);
        assert_ne!(handle, [0; 8], "it has logged in");
        u64::from_be_bytes(handle)
    })
}

/// Writes arrays of descriptors: large sends in segments of the shortest kind, and receive buffers.
fn write_descriptors(g: &Guest) -> [u64; 2] {
    let frame = broadcast(65_520);
    g.memory.write(FRAME as usize, &frame);
    let headers = header_entries(&frame);
    let send = Tx {
        first: first::VALID,
        kind: desc::TX,
        n_crq_elem: 1 + headers.len() as u8,
        n_sge: 1,
        flags1: tx::LSO | tx::PROT_TCP | tx::PROT_IPV4 | tx::COMP_NEEDED,
        mss: U16::new(64),
        dma_reg: U16::new(1),
        sge_len: U32::new(frame.len() as u32),
        ioba: U64::new(FRAME),
        ..Tx::default()
    };
    let (first, ioba, len) = (first::VALID, U32::new(FRAME as u32), [0, 0x20, 0]);
    let buffer = RxAdd { first, ioba, map_id: 1, len, ..RxAdd::default() };
    let send = [&[send.bytes()], &headers[..]].concat();
    let sends = send.repeat(MAX_INDIRECT as usize / send.len());
    assert_eq!(sends.len(), MAX_INDIRECT as usize);
    g.memory.write(DESCRIPTORS as usize, sends.as_flattened());
    let buffers = [buffer.bytes(); MAX_INDIRECT as usize];
    g.memory.write((DESCRIPTORS + PAGE) as usize, buffers.as_flattened());
    [DESCRIPTORS, DESCRIPTORS + PAGE]
}

#[test]
fn calls_of_a_vnic_hold_up_no_other_guest() {
    let dir = tempfile::tempdir().expect(MADE);
    let (mut around, honest, mut hostile) = served(0, vnic_device, dir.path());
    let around = &mut around;
    let [frames, buffers] = open_vnic(around, &hostile);
    let [sends_at, buffers_at] = write_descriptors(&hostile);
    let one = |call, a: &[u64]| (call, hostile.call(a));
    let many = hcall::SEND_SUB_CRQ_INDIRECT;
    let send = one(many, &[frames, sends_at, MAX_INDIRECT]);
    let add = one(many, &[buffers, buffers_at, MAX_INDIRECT]);
    let message = |m| sends(&hostile, m);
    let (up, down) =
        (message(link_state(link::UP).bytes()), message(link_state(link::DOWN).bytes()));
    let mut calls = vec![
        ("map", vec![message(map(2, 0, 0xfe0_0000).bytes())]),
        ("send", vec![send]),
        ("buffers", vec![add]),
        ("link", vec![add, add, add, up, add, add, add, down]),
        ("all at once", vec![send, add, down, up, message(map(2, 0, 0xfe0_0000).bytes())]),
        ("one descriptor", vec![one(hcall::SEND_SUB_CRQ, &[frames, 0x8080_0101 << 32])]),
        ("queue", vec![one(hcall::REG_SUB_CRQ, &[0, 4 << 16])]),
        ("bad queue", vec![one(hcall::REG_SUB_CRQ, &[4096, (4 << 16) + 1])]),
        ("free queue", vec![one(hcall::FREE_SUB_CRQ, &[63])]),
        ("CRQ", vec![one(hcall::REG_CRQ, &[CRQ, CRQ_BYTES])]),
        ("enable", vec![one(hcall::ENABLE_CRQ, &[])]),
        ("signal", vec![one(hcall::VIO_SIGNAL, &[1])]),
        ("interrupt", vec![one(hcall::EOI, &[])]),
    ];
    calls.extend((0..8).map(|what| ("VIOCTL", vec![one(hcall::VIOCTL, &[what, 0])])));
    // Any other message, with an address and a length that are there.
    calls.extend((0..0x40).map(|n| {
        let [a, b] = [FRAME as u32, 0x4000].map(u32::to_be_bytes);
        let m = [&[first::VALID, n, 1, 0][..], &a, &b, &a].concat();
        ("message", vec![message(m.try_into().expect("16 bytes"))])
    }));
    calls.push(("free", vec![one(hcall::FREE_CRQ, &[])]));
    for (name, call) in &calls {
        let all = latencies(around, &honest, &mut hostile, call, take_entries);
        check(&format!("{name} {:x?}", call[0].1), &all);
    }
    let report = around.server.t.report();
    let count = |name| report.counters.iter().find(|c| c.0 == name).map_or(0, |c| c.1);
    assert!(count("maps") > 2 && count("rx_buffers_returned") > 1000, "they were made");
    assert!(count("tx_frames") > 10_000 && count("commands") > 100);
}
