//! Any guest of the vNIC and the logical LAN behind the plug-in: any calls from any CPU through the
//! plug-in's own code ([`Adapter`]), a driver that knows commands, descriptors and buffers, any
//! contents of call area, table and memory, frames, failovers, time.
//!
//! Neither side panics, and the server takes a bounded number of calls a pass. The device reaches
//! only mapped memory: the second half, which no entry maps, stays unchanged. Half of the guests
//! have an honest plug-in, which alone writes the call area: each of their calls is counted, and no
//! posted send is refused while the session lives.

use crate::fuzz::{Bytes, Frame, Seed, input, next, seed};
use arbitrary::Unstructured;
use doorbell_devices::veth::{self, Config, Uplink, Veth};
use doorbell_devices::vnic::{self, VnicServer};
use doorbell_hal::{HcallDevice, HcallReturn, Span, Time};
use doorbell_host_io::shared::{Window, memfd};
use doorbell_layout::ibmveth;
use doorbell_layout::ibmvnic::{
    AddressLength, Capability, ChangeMac, ControlIpOffload, DESCRIPTOR, HDR_DATA, HDR_EXT_DATA,
    Hdr, HdrExt, LengthAddress, LogicalLinkState, Login, LoginBuffer, MESSAGE, MulticastCtrl,
    RESPONSE, RequestMap, RequestStatistics, RxAdd, Tx, VersionExchange, cap, cmd, desc, first,
    hcall, headers::lengths, link, multicast, tx, vioctl,
};
use doorbell_packet::headers;
use doorbell_papr_io::{
    self, Adapter, Answer, CALL_AREA_BYTES, CPUS, DeviceCallbacks, Greeted, Guest, Handshake,
    LocalResult, MEMORY, Newcomer, Partition, PollCursor, SENDS, SendQueue, Unit, VETH, VNIC,
    publish_credits, step, sub_crq_interrupts, unit_interrupt,
};
use doorbell_vfio_user::{Crossing, Observer, send_with_fds};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use zerocopy::byteorder::big_endian::{U16, U32, U64};

/// Bytes of the guest's memory that entries may name, and of the rest.
const MAPPED: usize = 1 << 18;
const REST: usize = 1 << 14;
const CANARY: u8 = 0xa5;
const UNIT: u32 = 0x3000_0003;
const H_PUT_TCE: u64 = 0x20;
const H_STUFF_TCE: u64 = 0x138;
const H_PUT_TCE_INDIRECT: u64 = 0x13c;

/// Counts the frames on the wire.
#[derive(Debug, Default)]
struct Wire(u64);

impl Observer for Wire {
    fn crossed(&mut self, _: Time, what: Crossing<'_>) {
        if let Crossing::Frame(frame) = what {
            assert!(!frame.is_empty());
            self.0 += 1;
        }
    }
}

type Port = Partition<Wire>;

/// Calls that the adapters know.
const CALLS: [u64; 20] = [
    hcall::REG_CRQ,
    hcall::FREE_CRQ,
    hcall::ENABLE_CRQ,
    hcall::SEND_CRQ,
    hcall::VIO_SIGNAL,
    hcall::VIOCTL,
    hcall::REG_SUB_CRQ,
    hcall::FREE_SUB_CRQ,
    hcall::SEND_SUB_CRQ,
    hcall::SEND_SUB_CRQ_INDIRECT,
    hcall::EOI,
    ibmveth::H_REGISTER_LOGICAL_LAN,
    ibmveth::H_FREE_LOGICAL_LAN,
    ibmveth::H_ADD_LOGICAL_LAN_BUFFER,
    ibmveth::H_ADD_LOGICAL_LAN_BUFFERS,
    ibmveth::H_FREE_LOGICAL_LAN_BUFFER,
    ibmveth::H_SEND_LOGICAL_LAN,
    ibmveth::H_MULTICAST_CTRL,
    ibmveth::H_CHANGE_LOGICAL_LAN_MAC,
    ibmveth::H_ILLAN_ATTRIBUTES,
];

/// An argument of a call from 5 bytes: small, an address, any, a buffer descriptor, a size.
fn argument(b: [u8; 5]) -> u64 {
    let v = u64::from(u32::from_le_bytes([b[1], b[2], b[3], b[4]]));
    match b[0] % 6 {
        0 => v,
        1 => v << 4,
        2 => v << 12,
        3 => v << 32 | v,
        // Valid, length, address.
        4 => 1 << 63 | (v >> 16) << 32 | (v & 0xff) << 10,
        _ => 1 << 63 | v << 48,
    }
}

input! {
    /// An action of the guest, of its VMM, or of the world.
    pub enum Action {
        /// Makes a call that an adapter knows.
        Call {
            /// The CPU.
            cpu: u8,
            /// The index of the call.
            call: u8,
            /// Its arguments behind the unit's address: 5 bytes each.
            arguments: Bytes,
        },
        /// vNIC: sends a message on the CRQ.
        Message {
            /// The message.
            message: [u8; 16],
        },
        /// vNIC: begins a session and logs in.
        LogIn { },
        /// vNIC: sends a frame.
        Send {
            /// The frame.
            frame: Frame,
            /// The CPU, one call for each descriptor, header descriptors: bits.
            how: u8,
            /// Flags of the descriptor.
            flags: u8,
            /// Payload of a segment.
            mss: u16,
        },
        /// vNIC: posts receive buffers.
        Post {
            /// Their number.
            n: u8,
            /// Their size.
            len: u16,
        },
        /// vNIC: sends entries to a queue that may be there, with a byte changed.
        Entries {
            /// The queue, their number, the kind of call.
            shape: u8,
            /// Flags.
            flags: u16,
            /// Bytes of the frame.
            len: u16,
            /// Its offset.
            offset: u16,
            /// The byte,
            at: u8,
            /// and its change.
            bits: u8,
        },
        /// Logical LAN: registers it.
        Register {
            /// Entries of the receive queue, 16 and more.
            entries: u8,
        },
        /// Logical LAN: lends buffers.
        Lend {
            /// Their number.
            n: u8,
            /// Their size.
            len: u16,
            /// In one call.
            many: bool,
        },
        /// Logical LAN: sends a frame.
        SendLan {
            /// The frame.
            frame: Frame,
            /// Pieces.
            pieces: u8,
            /// Marks, at their place in the descriptor.
            marks: u8,
            /// Payload of a segment.
            mss: u16,
        },
        /// Writes the call area, if the plug-in is hostile; else memory.
        Area {
            /// The place,
            at: u16,
            /// shifted so far.
            shift: u8,
            /// The bytes.
            bytes: [u8; 8],
        },
        /// Writes memory.
        Poke {
            /// The place, in 4 bytes.
            at: u16,
            /// The bytes.
            bytes: [u8; 32],
        },
        /// Changes entries of the table: none names the other half of memory.
        Entry {
            /// The first page.
            at: u16,
            /// The entry; with a list, the first of successive pages.
            entry: u32,
            /// Their number, and in the highest bit whether a list in memory has them.
            count: u8,
        },
        /// A frame arrives.
        Receive {
            /// The frame.
            frame: Frame,
        },
        /// Time passes.
        Wait {
            /// Microseconds.
            us: u16,
        },
        /// Fails over, migrates, pulls the cable, reports an error: vNIC only.
        Outside {
            /// Which.
            what: u8,
        },
        /// The server is not there for the next action.
        Absent { },
    }
}

/// The scripted driver of a logical LAN.
const LIST: u64 = 0x5000;
const FILTER: u64 = 0x6000;
const QUEUE: u64 = 0x7000;
/// Buffers that it lends.
const BUFFERS: u64 = 0x2_0000;
/// The station of both.
const STATION: [u8; 6] = [0x52, 0x54, 0x00, 0xfa, 0x00, 0x03];
/// Bits of [`Action::Send`] above the CPU.
const DIRECT: u8 = 0x10;
const HEADERS: u8 = 0x20;
const TAG: u8 = 0x40;

/// The counters of the device after an attack.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// The vNIC's.
    pub vnic: vnic::Counters,
    /// The first logical LAN adapter's.
    pub veth: veth::Counters,
    /// Frames on the wire.
    pub frames: u64,
    /// vNIC: commands that were answered, each with its code, and their number.
    pub answers: BTreeMap<(u8, u8), u32>,
    /// Sends that the plug-in answered, which were posted to the server.
    pub posted: u64,
    /// Interrupts of the guest.
    pub raised: u64,
}

/// Addresses of the scripted driver of a vNIC.
const CRQ: u64 = 0x1000;
const RINGS: u64 = 0x2000;
const LOGIN: u64 = 0x4000;
const BUFFER: u32 = 0x10000;
/// Entries of the table for one call.
const TABLE_LIST: u64 = 0xf000;

/// Returns the buffer of a login with one queue of each direction, sub-CRQs 0 and 1, 56 bytes. The
/// answer, of so many bytes at most, goes to `answer`.
pub fn login_buffer(answer: u32, len: u32) -> Vec<u8> {
    let w = U32::new;
    let head = LoginBuffer {
        len: w(56),
        version: w(1),
        num_txcomp_subcrqs: w(1),
        off_txcomp_subcrqs: w(40),
        num_rxcomp_subcrqs: w(1),
        off_rxcomp_subcrqs: w(48),
        login_rsp_ioba: w(answer),
        login_rsp_len: w(len),
        client_data_offset: w(56),
        client_data_len: w(0),
    };
    [&head.bytes()[..], &0u64.to_be_bytes(), &1u64.to_be_bytes()].concat()
}

/// A plug-in with its guest.
struct Client {
    call_area: Window,
    adapter: Adapter,
    memory: Window,
    socket: UnixStream,
    raised: Cell<u64>,
    /// Mask changes, and sends, that the plug-in answered.
    switched: u64,
    posted: u64,
    /// A send was posted while another was forwarded: room may have been promised twice.
    crossed: bool,
    waiting: [bool; 8],
    answers: u64,
    /// The last answer.
    last: HcallReturn,
}

impl Client {
    /// Makes a call of a CPU. Returns true if the plug-in answered it.
    fn call(&mut self, cpu: usize, call: u64, a: &[u64; 9]) -> bool {
        let raise = |_| self.raised.set(self.raised.get() + 1);
        match self.adapter.answer_locally(call, a, || Some(&self.memory), raise) {
            LocalResult::NotOurs => false,
            LocalResult::Answered(answer) => {
                let switch = call == hcall::VIO_SIGNAL || call == hcall::VIOCTL;
                let send = call == hcall::SEND_SUB_CRQ || call == hcall::SEND_SUB_CRQ_INDIRECT;
                if switch || send {
                    assert_eq!(answer, Answer::Status(0));
                }
                self.switched += u64::from(switch);
                self.posted += u64::from(send);
                self.crossed |= send && self.waiting.contains(&true);
                true
            }
            LocalResult::Forward => {
                self.waiting[cpu] |= self.adapter.begin_call(cpu, call, a);
                false
            }
        }
    }

    /// Takes all answers.
    fn take_answers(&mut self) {
        for cpu in 0..self.waiting.len() {
            if let Some(answer) = self.adapter.take_answer(cpu) {
                self.last = answer;
                self.waiting[cpu] = false;
                self.answers += 1;
            }
        }
    }
}

/// Connects a guest as the plug-in does.
fn connect(kind: u32) -> (Client, Guest) {
    let made = "there is memory for a test";
    let (socket, ours) = UnixStream::pair().expect(made);
    let handshake = Handshake::send(&socket).expect(made);
    let call_area = Window::map(&handshake.memory, 0, CALL_AREA_BYTES, true).expect(made);
    let newcomer = Newcomer::new(ours, Time::ZERO, Span::from_ms(1000)).expect(made);
    let Greeted::Guest(guest) = newcomer.greet(Time::ZERO, Unit { address: UNIT, kind }, false)
    else {
        panic!("it is one of ours");
    };
    let adapter = handshake.finish(&socket, vnic::well_formed).expect("the server knows it");
    let memory: File = memfd(c"memory", (MAPPED + REST) as u64).expect(made);
    send_with_fds(
        &socket,
        &doorbell_papr_io::message(MEMORY, (MAPPED + REST) as u64),
        &[memory.as_fd()],
    )
    .expect(made);
    let memory = Window::map(&memory, 0, MAPPED + REST, true).expect(made);
    memory.write(MAPPED, &[CANARY; REST]);
    let (raised, waiting) = (Cell::new(0), [false; 8]);
    let client = Client {
        call_area,
        adapter,
        memory,
        socket,
        raised,
        switched: 0,
        posted: 0,
        crossed: false,
        waiting,
        answers: 0,
        last: HcallReturn::status(0),
    };
    (client, *guest)
}

/// Runs a guest whose actions the input gives. Returns what was reached.
///
/// # Panics
/// Panics if it lets itself be harmed.
pub fn attack(input: &[u8]) -> Reached {
    let mut u = Unstructured::new(input);
    let how = u.arbitrary::<u8>().unwrap_or(0);
    let mut reached = Reached::default();
    let honest = how & 2 == 0;
    match how % 2 {
        0 => {
            // Some servers insist on the headers that they ask for.
            let insists = how & 8 != 0;
            let server = vnic::Server { backing_needs_headers: insists, ..vnic::Server::POWERVM };
            let config = vnic::Config {
                servers: [server; 2],
                unit_address: UNIT.into(),
                crq_vector: unit_interrupt(UNIT),
                first_vector: sub_crq_interrupts(UNIT),
                ..vnic::Config::POWERVM
            };
            let callbacks = DeviceCallbacks {
                queues: |d: &VnicServer, client, each| {
                    d.open_queues(client).for_each(|q| {
                        each(SendQueue { handle: q.handle, buffers: q.buffers, room: q.room });
                    });
                },
                has_waiting: VnicServer::has_waiting,
            };
            let mut d = VnicServer::new(config, 2);
            let outside = |d: &mut VnicServer, what: u8, at| match what % 4 {
                0 => d.fail_over(0, at),
                1 => d.migrate(0, at),
                2 => d.set_link(0, at, what & 4 != 0),
                _ => d.report_error(0, at, what.into(), what & 4 != 0),
            };
            let mut bench = Harness::new(VNIC, &mut d, &callbacks, honest);
            if how & 4 == 0 {
                bench.log_in();
                assert_eq!(bench.client.switched, 3, "interrupts are switched without the server");
                let handles: Vec<u64> = bench.d.open_queues(0).map(|q| q.handle).collect();
                assert_eq!(handles.len(), 2, "the script ends with a session that is up");
                let first = u64::from_be_bytes([first::VALID, desc::TX, 1, 1, 0, 0, 0, 0]);
                handles.iter().for_each(|h| bench.must(hcall::SEND_SUB_CRQ, &[*h, first, 0, 0, 0]));
                assert_eq!(bench.client.posted, 2, "whose queues can be posted to");
            }
            let ended = bench.d.counters.sessions_ended;
            let handles = |d: &VnicServer, n: u8| {
                let mut all = d.open_queues(0).map(|q| q.handle);
                all.nth(usize::from(n % 2)).unwrap_or(u64::from(n) << 32 | 0x7_0000)
            };
            let (refused, crossed) = bench.run(&mut u, outside, handles, &mut reached);
            reached.vnic = d.counters;
            if honest && !crossed && d.counters.sessions_ended == ended {
                assert_eq!(refused, 0, "what was posted is refused, and the session lives");
            }
        }
        _ => {
            let adapter = |i: usize| veth::Adapter {
                unit: UNIT.into(),
                vector: unit_interrupt(UNIT),
                tagged: if how & 8 != 0 { vec![5, 7] } else { vec![] },
                ..veth::Adapter::new(i, i as u8)
            };
            let mut config = Config::new(vec![adapter(0), adapter(1)]);
            config.uplink = Some(Uplink { port: 0, pvid: 1 });
            if how & 4 != 0 {
                // Long calls are cut.
                (config.slice, config.release) = (1024, 4);
            }
            let callbacks =
                DeviceCallbacks { queues: |_: &Veth, _, _| (), has_waiting: |_, _| false };
            let mut d = Veth::new(config);
            let bench = Harness::new(VETH, &mut d, &callbacks, honest);
            let (refused, _) = bench.run(&mut u, |_, _, _| (), |_, n| n.into(), &mut reached);
            reached.veth = *d.counters(0);
            assert!(refused == 0 || !honest);
        }
    }
    reached
}

/// Returns the descriptors of all headers of a frame.
fn header_entries(frame: &[u8]) -> Vec<[u8; DESCRIPTOR]> {
    let [l2, l3, l4] = lengths(frame);
    let data = &frame[..(l2 + l3 + l4).min(frame.len())];
    let (head, more) = data.split_at(data.len().min(HDR_DATA));
    let mut h = Hdr {
        first: first::VALID,
        kind: desc::HDR,
        len: head.len() as u8,
        l2_len: l2 as u8,
        l3_len: U16::new(l3 as u16),
        l4_len: l4 as u8,
        flag: 0xf0 << 1,
        ..Hdr::default()
    };
    h.data[..head.len()].copy_from_slice(head);
    let further = more.chunks(HDR_EXT_DATA).map(|part| {
        let (first, kind, len) = (first::VALID, desc::HDR_EXT, part.len() as u8);
        let mut x = HdrExt { first, kind, len, ..HdrExt::default() };
        x.data[..part.len()].copy_from_slice(part);
        x.bytes()
    });
    std::iter::once(h.bytes()).chain(further).collect()
}

/// The guest, its partition and the device.
struct Harness<'a, D> {
    d: &'a mut D,
    callbacks: &'a DeviceCallbacks<D>,
    ports: [Port; 2],
    client: Client,
    now: Time,
    honest: bool,
    /// Calls that the server has taken.
    taken: u64,
}

impl<'a, D: HcallDevice<Port>> Harness<'a, D> {
    fn new(
        kind: u32,
        d: &'a mut D,
        callbacks: &'a DeviceCallbacks<D>,
        honest: bool,
    ) -> Harness<'a, D> {
        let mut ports = [Partition::new(Wire::default()), Partition::new(Wire::default())];
        let (mut client, guest) = connect(kind);
        ports[0].connect(guest);
        // The lower half of memory is mapped one to one, so that a guest gets somewhere.
        client.call(0, H_STUFF_TCE, &[UNIT.into(), 0, 0, 0, 0, 0, 0, 0, 0]);
        for page in (0..MAPPED as u64).step_by(4096) {
            assert!(client.call(0, H_PUT_TCE, &[UNIT.into(), page, page | 3, 0, 0, 0, 0, 0, 0]));
        }
        Harness { d, callbacks, ports, client, now: Time::ZERO, honest, taken: 0 }
    }

    /// Serves one pass: posted sends, and one call of each CPU.
    fn poll(&mut self) {
        self.ports.iter_mut().for_each(|p| p.begin_turn(1));
        self.d.advance(&mut self.ports, self.now);
        let _ = self.ports[0].listen();
        let (mut cursor, mut taken) = (PollCursor::among(1), 0);
        while step(self.d, &mut self.ports, 0, self.now, &mut cursor, self.callbacks).is_some() {
            taken += 1;
        }
        assert!(taken <= (CPUS + SENDS) as u64);
        self.taken += taken;
        publish_credits(self.d, &mut self.ports, 0, self.now, self.callbacks);
        let _ = self.ports[0].flush();
        self.client.take_answers();
    }

    fn must(&mut self, call: u64, a: &[u64]) {
        let mut all = [0; 9];
        all[0] = UNIT.into();
        all[1..=a.len()].copy_from_slice(a);
        self.client.call(0, call, &all);
        self.poll();
    }

    fn command(&mut self, m: [u8; MESSAGE]) {
        let word = |b: &[u8]| b.iter().fold(0, |v, b| v << 8 | u64::from(*b));
        self.must(hcall::SEND_CRQ, &[word(&m[..8]), word(&m[8..])]);
        self.now += Span::from_us(1);
        self.poll();
    }

    /// Brings the link up as a driver does, answers unread: one queue of each direction, sub-CRQs 0
    /// and 1.
    fn log_in(&mut self) {
        self.must(hcall::REG_CRQ, &[CRQ, 4096]);
        self.must(hcall::VIO_SIGNAL, &[1]);
        for n in 0..2u16 {
            self.must(hcall::REG_SUB_CRQ, &[RINGS + u64::from(n) * 4096, 4096]);
            let vector = sub_crq_interrupts(UNIT) + n;
            self.must(hcall::VIOCTL, &[vioctl::ENABLE_VIO_INTERRUPT, vector.into()]);
        }
        let w = |n: u32| U32::new(n);
        let mut m = [0; MESSAGE];
        (m[0], m[1]) = (first::HANDSHAKE, first::INIT);
        self.command(m);
        let v = VersionExchange {
            first: 0x80,
            cmd: cmd::VERSION_EXCHANGE,
            version: U16::new(1),
            ..VersionExchange::default()
        };
        self.command(v.bytes());
        self.client.memory.write(LOGIN as usize, &login_buffer(LOGIN as u32 + 0x800, 256));
        let m = Login {
            first: 0x80,
            cmd: cmd::LOGIN,
            reserved: [0; 6],
            ioba: w(LOGIN as u32),
            len: w(56),
        };
        self.command(m.bytes());
        let (ioba, len) = (w(BUFFER), w(0x10000));
        let m = RequestMap {
            first: 0x80,
            cmd: cmd::REQUEST_MAP,
            map_id: 1,
            ioba,
            len,
            ..RequestMap::default()
        };
        self.command(m.bytes());
        let mut m = [0; MESSAGE];
        (m[0], m[1], m[2]) = (first::VALID, cmd::LOGICAL_LINK_STATE, link::UP);
        self.command(m);
    }

    /// Sends words to a queue, all at once or one by one.
    fn send_entries(&mut self, cpu: usize, handle: u64, entries: &[[u8; DESCRIPTOR]], one: bool) {
        let at = LOGIN as usize + 0x400;
        if one {
            let word = |d: &[u8], i: usize| {
                d[8 * i..8 * i + 8].iter().fold(0, |v, b| v << 8 | u64::from(*b))
            };
            for d in entries {
                let [a, b, c, e] = [0, 1, 2, 3].map(|i| word(d, i));
                let a = [UNIT.into(), handle, a, b, c, e, 0, 0, 0];
                self.client.call(cpu, hcall::SEND_SUB_CRQ, &a);
            }
            return;
        }
        self.client.memory.write(at, entries.as_flattened());
        let a = [UNIT.into(), handle, at as u64, entries.len() as u64, 0, 0, 0, 0, 0];
        if self.client.call(cpu, hcall::SEND_SUB_CRQ_INDIRECT, &a) {
            // Memory is the guest's when the call is back.
            self.client.memory.write(at, &[0; 512]);
        }
    }

    fn act(
        &mut self,
        action: Action,
        outside: impl Fn(&mut D, u8, Time),
        handle: impl Fn(&D, u8) -> u64,
    ) {
        match action {
            Action::Call { cpu, call, arguments } => {
                let mut a = [UNIT.into(), 0, 0, 0, 0, 0, 0, 0, 0];
                let (given, _) = arguments.0.as_chunks();
                a[1..].iter_mut().zip(given).for_each(|(to, from)| *to = argument(*from));
                let call = CALLS[usize::from(call) % CALLS.len()];
                self.client.call(usize::from(cpu % 8), call, &a);
            }
            Action::Message { message } => self.command(message),
            Action::LogIn {} => self.log_in(),
            Action::Send { frame, how, flags, mss } => {
                let mut bytes = frame.bytes(STATION, 9000);
                if flags & (tx::LSO | tx::CHKSUM_OFFLOAD) != 0 {
                    headers::prepare_partial(&mut bytes);
                }
                self.client.memory.write(BUFFER as usize, &bytes);
                let v6 = frame.kind & Frame::V6 != 0;
                let udp = frame.kind & Frame::UDP != 0;
                let layer = if v6 { tx::PROT_IPV6 } else { tx::PROT_IPV4 }
                    | if udp { tx::PROT_UDP } else { tx::PROT_TCP };
                let extra = if how & HEADERS != 0 { header_entries(&bytes) } else { vec![] };
                let d = Tx {
                    first: first::VALID,
                    kind: desc::TX,
                    n_crq_elem: 1 + extra.len() as u8,
                    n_sge: 1,
                    flags1: flags | layer,
                    flags2: if how & TAG != 0 { tx::VLAN_INSERT } else { 0 },
                    mss: U16::new(mss),
                    vlan_id: U16::new(5),
                    dma_reg: U16::new(1),
                    sge_len: U32::new(bytes.len() as u32),
                    ioba: U64::new(BUFFER.into()),
                    ..Tx::default()
                };
                let all = [vec![d.bytes()], extra].concat();
                let handle = handle(self.d, 0);
                self.send_entries(usize::from(how % 8), handle, &all, how & DIRECT != 0);
            }
            Action::Post { n, len } => {
                let one = |i: u8| {
                    RxAdd::new(i.into(), 1, BUFFER + 0x4000 + u32::from(i) * 2048, len.into())
                };
                let all: Vec<_> = (0..n % 17).map(|i| one(i).bytes()).collect();
                let handle = handle(self.d, 1);
                self.send_entries(0, handle, &all, false);
            }
            Action::Entries { shape, flags, len, offset, at, bits } => {
                let handle = handle(self.d, shape);
                let [flags1, flags2] = flags.to_le_bytes();
                // Of a frame in the buffer; of buffers the same bytes are as good.
                let frame = Tx {
                    first: first::VALID,
                    kind: desc::TX,
                    n_crq_elem: 1,
                    n_sge: 1,
                    flags1,
                    flags2,
                    dma_reg: U16::new(1),
                    sge_len: U32::new(len.into()),
                    ioba: U64::new(u64::from(BUFFER) + u64::from(offset)),
                    ..Tx::default()
                };
                let mut d = frame.bytes();
                d[usize::from(at) % DESCRIPTOR] ^= bits;
                let one = shape & 0x40 != 0;
                let n = if one { 1 } else { usize::from(shape >> 1) % 17 };
                self.send_entries(usize::from(shape % 8), handle, &vec![d; n], one);
            }
            Action::Register { entries } => {
                let descriptor = |len: u64, at: u64| 1 << 63 | len << 32 | at;
                let queue = descriptor((16 + u64::from(entries)) * 16, QUEUE);
                let mac = STATION.iter().fold(0, |v, b| v << 8 | u64::from(*b));
                self.must(ibmveth::H_REGISTER_LOGICAL_LAN, &[LIST, queue, FILTER, mac]);
                self.must(hcall::VIO_SIGNAL, &[1]);
            }
            Action::Lend { n, len, many } => {
                let one =
                    |i: u8| 1 << 63 | u64::from(len) << 32 | (BUFFERS + u64::from(i) * 0x1000);
                if many {
                    let mut all = [0; 8];
                    all.iter_mut().zip(0..n % 9).for_each(|(d, i)| *d = one(i));
                    self.must(ibmveth::H_ADD_LOGICAL_LAN_BUFFERS, &all);
                } else {
                    for i in 0..n % 32 {
                        self.must(ibmveth::H_ADD_LOGICAL_LAN_BUFFER, &[one(i)]);
                    }
                }
            }
            Action::SendLan { frame, pieces, marks, mss } => {
                let mut bytes = frame.bytes([2, 0, 0, 0, 0, 0x55], 9000);
                bytes[6..12].copy_from_slice(&STATION);
                self.client.memory.write(BUFFER as usize, &bytes);
                let each = bytes.len().div_ceil(usize::from(pieces % 6) + 1);
                let mut a = [0; 8];
                for (i, piece) in bytes.chunks(each).enumerate() {
                    let at = u64::from(BUFFER) + (i * each) as u64;
                    a[i] = 1 << 63 | (piece.len() as u64) << 32 | at;
                }
                a[0] |= u64::from(marks) << 56;
                a[7] = mss.into();
                // A driver goes on while it is told to.
                for _ in 0..8 {
                    self.client.last = HcallReturn::status(0);
                    self.must(ibmveth::H_SEND_LOGICAL_LAN, &a);
                    if self.client.last.status != ibmveth::status::H_BUSY {
                        break;
                    }
                    a[ibmveth::send::CORRELATOR - 1] = self.client.last.ret[0];
                }
            }
            Action::Area { at, shift, bytes } if !self.honest => {
                let at = ((usize::from(at) << (shift % 5)) % (CALL_AREA_BYTES - 8)) & !7;
                self.client.call_area.write(at, &bytes);
            }
            Action::Area { at, bytes, .. } => {
                self.client.memory.write(usize::from(at) & !7, &bytes);
            }
            Action::Poke { at, bytes } => {
                let at = (usize::from(at) << 2) & (MAPPED - 32) & !7;
                self.client.memory.write(at, &bytes);
            }
            Action::Entry { at, entry, count } => {
                let (at, n) = (u64::from(at) << 12, count & 0x7f);
                let value = |i: u8| (u64::from(entry) + (u64::from(i) << 12)) & (MAPPED as u64 - 1);
                let (call, from) = if count == n {
                    (H_STUFF_TCE, value(0))
                } else {
                    let list: Vec<u8> = (0..n).flat_map(|i| value(i).to_be_bytes()).collect();
                    self.client.memory.write(TABLE_LIST as usize, &list);
                    (H_PUT_TCE_INDIRECT, TABLE_LIST)
                };
                self.client.call(0, call, &[UNIT.into(), at, from, n.into(), 0, 0, 0, 0, 0]);
            }
            Action::Receive { frame } => {
                let bytes = frame.bytes(STATION, 9000);
                self.d.receive(&mut self.ports, self.now, &bytes);
            }
            Action::Wait { us } => self.now += Span::from_us(us.into()),
            Action::Outside { what } => outside(self.d, what, self.now),
            Action::Absent {} => {}
        }
    }

    /// Runs all actions. Returns sends posted and refused after all, and whether room may have been
    /// promised twice.
    fn run(
        mut self,
        u: &mut Unstructured<'_>,
        outside: impl Fn(&mut D, u8, Time),
        handle: impl Fn(&D, u8) -> u64,
        reached: &mut Reached,
    ) -> (u64, bool) {
        let mut absent = false;
        for _ in 0..2000 {
            let Some(action) = next(u) else { break };
            self.now += Span::from_us(1);
            // The server is not always there at once.
            let again = matches!(action, Action::Absent {});
            self.act(action, &outside, &handle);
            if !again && !absent {
                self.poll();
            }
            absent = again;
        }
        self.poll();
        self.poll();
        let inside = self.ports[0].stats();
        if self.honest {
            assert!(
                !self.client.waiting.contains(&true) && !self.ports[0].has_calls(),
                "every call has its answer"
            );
            assert_eq!(inside.posted, self.client.posted);
            assert_eq!(inside.signal_calls + inside.vioctl_calls, self.client.switched);
            assert_eq!(
                self.taken,
                self.client.answers + self.client.posted,
                "every call is counted once"
            );
        }
        reached.posted = inside.posted;
        reached.raised = self.client.raised.get();
        reached.frames = self.ports[0].observer.0;
        let mut crq = [0; 4096];
        self.client.memory.read(CRQ as usize, &mut crq);
        for m in crq.chunks(MESSAGE).filter(|m| m[0] == first::VALID && m[1] & RESPONSE != 0) {
            *reached.answers.entry((m[1] & !RESPONSE, m[12])).or_default() += 1;
        }
        // The guest goes, and nothing is reached any more.
        let Client { memory, socket, crossed, .. } = self.client;
        drop(socket);
        let _ = self.ports[0].listen();
        self.ports[0].disconnect();
        self.d.advance(&mut self.ports, self.now + Span::from_ms(100));
        let mut rest = [0; REST];
        memory.read(MAPPED, &mut rest);
        assert!(rest.iter().all(|b| *b == CANARY), "memory that no entry names was written");
        (inside.posted_refused, crossed)
    }
}

/// Returns drivers that get somewhere: each command, sends with all offloads, receive buffers, the
/// calls of the logical LAN, and a hostile plug-in.
pub fn seeds() -> Vec<Seed> {
    let make = |how: u8, actions: &[Action]| seed(&[how], actions);
    let message = |message| Action::Message { message };
    let plain = |c: u8, rest: [u8; 14]| {
        let mut m = [0; MESSAGE];
        (m[0], m[1]) = (first::VALID, c);
        m[2..].copy_from_slice(&rest);
        message(m)
    };
    // A place for what is asked for, and room for all of it.
    let (ioba, len) = (U32::new(LOGIN as u32), U32::new(0x400));
    let query = |id| {
        let capability = U16::new(id);
        let (first, cmd) = (first::VALID, cmd::QUERY_CAPABILITY);
        message(Capability { first, cmd, capability, ..Capability::default() }.bytes())
    };
    let request = |id, n| {
        let (capability, number) = (U16::new(id), U64::new(n));
        let (first, cmd) = (first::VALID, cmd::REQUEST_CAPABILITY);
        message(Capability { first, cmd, capability, number, ..Capability::default() }.bytes())
    };
    let at = |cmd| {
        message(
            AddressLength { first: first::VALID, cmd, ioba, len, ..AddressLength::default() }
                .bytes(),
        )
    };
    let address = |flags| {
        let (first, cmd, mac_addr) = (first::VALID, cmd::MULTICAST_CTRL, [1, 0, 0x5e, 0, 0, 1]);
        message(MulticastCtrl { first, cmd, mac_addr, flags, ..MulticastCtrl::default() }.bytes())
    };
    let mac = |mac_addr| {
        let (first, cmd) = (first::VALID, cmd::CHANGE_MAC_ADDR);
        message(ChangeMac { first, cmd, mac_addr, ..ChangeMac::default() }.bytes())
    };
    let state = |link_state| {
        let (first, cmd) = (first::VALID, cmd::LOGICAL_LINK_STATE);
        message(LogicalLinkState { first, cmd, link_state, ..LogicalLinkState::default() }.bytes())
    };
    let switch_offloads = |want| {
        let c = ControlIpOffload { want, ..ControlIpOffload::default() };
        // The switches: in memory, at the address that the command names.
        let bytes = c.bytes();
        let pieces = bytes.chunks(32).enumerate().take(4).map(|(i, part)| {
            let mut bytes = [0; 32];
            bytes[..part.len()].copy_from_slice(part);
            Action::Poke { at: ((LOGIN as usize + i * 32) / 4) as u16, bytes }
        });
        pieces.chain([at(cmd::CONTROL_IP_OFFLOAD)]).collect::<Vec<_>>()
    };
    let statistics = {
        let (first, cmd) = (first::VALID, cmd::REQUEST_STATISTICS);
        message(RequestStatistics { first, cmd, ioba, len, ..RequestStatistics::default() }.bytes())
    };
    let offloads = {
        let (first, cmd) = (first::VALID, cmd::QUERY_IP_OFFLOAD);
        message(LengthAddress { first, cmd, ioba, len, ..LengthAddress::default() }.bytes())
    };
    let mut commands: Vec<Action> = (1..=30).map(query).collect();
    commands.extend([
        request(cap::REQ_TX_QUEUES, 1),
        plain(cmd::QUERY_PHYS_PARMS, [0; 14]),
        plain(cmd::QUERY_PHYS_CAPABILITIES, [0; 14]),
        plain(cmd::SET_PHYS_PARMS, [0; 14]),
        state(link::QUERY),
        statistics,
        mac([2, 0, 0, 0, 0, 9]),
        mac([1, 0, 0, 0, 0, 9]),
        address(multicast::ENABLE),
        address(multicast::DISABLE),
        address(multicast::ENABLE_ALL),
        address(multicast::DISABLE_ALL),
        plain(cmd::GET_VPD_SIZE, [0; 14]),
        at(cmd::GET_VPD),
        offloads,
        at(cmd::ACL_QUERY),
        plain(cmd::QUERY_MAP, [0; 14]),
        plain(cmd::REQUEST_UNMAP, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        plain(cmd::VLAN_CTRL, [0; 14]),
        message([first::HANDSHAKE, first::INIT, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        plain(cmd::VERSION_EXCHANGE, [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        request(cap::REQ_TX_QUEUES, 99),
        request(cap::REQ_MTU, 1500),
        request(cap::PROMISC_REQUESTED, 1),
    ]);
    let send = |kind, how, flags| Action::Send {
        frame: Frame::new(kind, if flags & tx::LSO == 0 { 900 } else { 3000 }),
        how,
        flags: flags | tx::COMP_NEEDED,
        mss: 1000,
    };
    let wait = Action::Wait { us: 500 };
    let receive = |kind, payload| Action::Receive { frame: Frame::new(kind, payload) };
    let (sum, cut) = (tx::CHKSUM_OFFLOAD, tx::LSO | tx::CHKSUM_OFFLOAD);
    let mut sends = switch_offloads([1; 8]);
    sends.extend([
        send(0, DIRECT, 0),
        send(Frame::UDP, 0, sum),
        send(Frame::V6, 0, sum),
        send(0, HEADERS, cut),
        send(Frame::V6, HEADERS | TAG, cut),
        send(0, TAG, 0),
        send(Frame::PLAIN, HEADERS, sum),
        wait.clone(),
        state(link::DOWN),
        send(0, 0, 0),
        wait.clone(),
    ]);
    let vnic_receive = [
        Action::LogIn {},
        Action::Post { n: 8, len: 1800 },
        receive(0, 400),
        receive(Frame::TAGGED | Frame::UDP, 60),
        receive(Frame::BROADCAST | Frame::PLAIN, 60),
        receive(Frame::STRANGER, 60),
        receive(Frame::V6, 5000),
        receive(Frame::MULTICAST, 60),
        wait.clone(),
        Action::Outside { what: 2 },
        receive(0, 60),
        Action::Outside { what: 6 },
        Action::Outside { what: 0 },
        Action::Wait { us: 2000 },
        Action::LogIn {},
        Action::Outside { what: 3 },
        Action::Outside { what: 1 },
        wait.clone(),
    ];
    let call = |number: u64, arguments: &[[u8; 5]]| Action::Call {
        cpu: 1,
        call: CALLS.iter().position(|c| *c == number).expect("a call of the table") as u8,
        arguments: Bytes(arguments.concat()),
    };
    let word = |v: u32| {
        let [a, b, c, d] = v.to_le_bytes();
        [0, a, b, c, d]
    };
    let register = Action::Register { entries: 48 };
    // Large sends, and both checksums.
    let attributes = call(ibmveth::H_ILLAN_ATTRIBUTES, &[word(0), word(0x1_0006)]);
    let lan = |kind, pieces, marks, mss| Action::SendLan {
        frame: Frame::new(kind, 4000),
        pieces,
        marks,
        mss,
    };
    let lan_sends = [
        attributes.clone(),
        register.clone(),
        lan(0, 0, 0, 0),
        lan(0, 5, 3, 0),
        lan(Frame::V6, 3, 3, 0),
        lan(0, 0, 7, 1000),
        lan(Frame::V6, 2, 7, 900),
        lan(Frame::PLAIN, 0, 3, 0),
        lan(Frame::TAGGED, 0, 0, 0),
    ];
    let lan_receive = [
        register,
        Action::Lend { n: 8, len: 2048, many: true },
        Action::Lend { n: 9, len: 512, many: false },
        receive(0, 1200),
        receive(Frame::UDP, 100),
        receive(Frame::BROADCAST | Frame::PLAIN, 60),
        call(ibmveth::H_MULTICAST_CTRL, &[word(0x8_0000 | 0x2_0000), word(0)]),
        call(ibmveth::H_MULTICAST_CTRL, &[word(1), word(0x5e00_0001)]),
        receive(Frame::MULTICAST, 60),
        receive(Frame::STRANGER, 60),
        receive(0, 5000),
        receive(Frame::TAGGED, 80),
        call(ibmveth::H_FREE_LOGICAL_LAN_BUFFER, &[word(512)]),
        // Buffers that are not mapped any more.
        Action::Entry { at: 0x20, entry: 0, count: 16 },
        receive(0, 300),
        // They are mapped again.
        Action::Entry { at: 0x20, entry: 0x2_0003, count: 0x80 | 16 },
        receive(0, 300),
        call(ibmveth::H_CHANGE_LOGICAL_LAN_MAC, &[word(0x99)]),
        call(ibmveth::H_FREE_LOGICAL_LAN, &[]),
        call(ibmveth::H_FREE_LOGICAL_LAN, &[]),
        call(ibmveth::H_FREE_LOGICAL_LAN, &[]),
        call(ibmveth::H_FREE_LOGICAL_LAN, &[]),
    ];
    // Bits of the first byte: the device, a hostile plug-in, not logged in (or slices), a strict
    // server (or VLANs).
    vec![
        ("vnic_commands", make(0, &commands)),
        ("vnic_commands_too_early", make(4, &commands)),
        ("vnic_send", make(0, &sends)),
        ("vnic_send_with_headers", make(8, &sends)),
        ("vnic_receive", make(4, &vnic_receive)),
        (
            "vnic_hostile",
            make(
                2,
                &[
                    &sends[..],
                    &vnic_receive,
                    &[
                        Action::Area { at: 0x40, shift: 3, bytes: [0xff; 8] },
                        Action::Absent {},
                        Action::Entries {
                            shape: 3,
                            flags: 0x80,
                            len: 60,
                            offset: 0,
                            at: 0,
                            bits: 0,
                        },
                    ],
                ]
                .concat(),
            ),
        ),
        ("lan_send", make(1, &lan_sends)),
        ("lan_send_in_slices", make(5, &lan_sends)),
        ("lan_receive", make(1, &lan_receive)),
        ("lan_receive_vlan", make(13, &lan_receive)),
        (
            "lan_hostile",
            make(
                3,
                &[
                    &lan_receive[..8],
                    &lan_sends[..],
                    &[Action::Area { at: 0x10, shift: 4, bytes: [0xff; 8] }],
                ]
                .concat(),
            ),
        ),
    ]
}
