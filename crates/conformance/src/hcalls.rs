//! Arbitrary bytes as a guest of the vNIC and the logical LAN behind the plug-in: any calls from
//! any CPU through the plug-in's own code ([`Adapter`]), any contents of call area, table and
//! memory, frames, failovers, time.
//!
//! Neither side panics, and the server takes a bounded number of calls a pass. The device reaches
//! only mapped memory: the second half, which no entry maps, stays unchanged. Half of the guests
//! have an honest plug-in, which alone writes the call area: each of their calls is counted, and no
//! posted send is refused while the session lives.

use doorbell_devices::veth::{self, Config, Uplink, Veth};
use doorbell_devices::vnic::{self, VnicServer};
use doorbell_hal::{HcallDevice, Span, Time};
use doorbell_host_io::shared::{Window, memfd};
use doorbell_layout::ibmveth;
use doorbell_layout::ibmvnic::{
    DESCRIPTOR, Login, LoginBuffer, MESSAGE, RequestMap, Tx, VersionExchange, cmd, desc, first,
    hcall, link, vioctl,
};
use doorbell_papr_io::{
    self, Adapter, Answer, CALL_AREA_BYTES, CPUS, DeviceCallbacks, Greeted, Guest, Handshake,
    LocalResult, MEMORY, Newcomer, Partition, PollCursor, SENDS, SendQueue, Unit, VETH, VNIC,
    publish_credits, step, sub_crq_interrupts, unit_interrupt,
};
use doorbell_vfio_user::{Crossing, Observer, send_with_fds};
use std::cell::Cell;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use zerocopy::byteorder::big_endian::{U16, U32, U64};

/// Bytes of the guest's memory that entries may name, and of the rest.
const MAPPED: usize = 1 << 18;
const REST: usize = 1 << 14;
const CANARY: u8 = 0xa5;
const UNIT: u32 = 0x3000_0003;
const H_PUT_TCE: u64 = 0x20;
const H_STUFF_TCE: u64 = 0x138;

/// Ignores all events.
#[derive(Debug, Default)]
struct Nobody;

impl Observer for Nobody {
    fn crossed(&mut self, _: Time, what: Crossing<'_>) {
        assert!(!matches!(what, Crossing::Frame([])));
    }
}

type Port = Partition<Nobody>;

struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut out = [0; N];
        let n = N.min(self.0.len());
        out[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        out
    }
    fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }
    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }
    /// Takes a number that is often small, an address, or a small index.
    fn number(&mut self) -> u64 {
        match self.u8() % 6 {
            0 => self.u8().into(),
            1 => u64::from(self.u16()) << 4,
            2 => u64::from(self.u8()) << 12,
            3 => u64::from_le_bytes(self.take()),
            // A buffer descriptor: valid, length, address.
            4 => 1 << 63 | u64::from(self.u16()) << 32 | u64::from(self.u8()) << 10,
            _ => 0x8000_0000_0000_0000 | u64::from(self.u16()) << 48,
        }
    }
}

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

/// Addresses of the scripted driver of a vNIC.
const CRQ: u64 = 0x1000;
const RINGS: u64 = 0x2000;
const LOGIN: u64 = 0x4000;
const BUFFER: u32 = 0x10000;

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
            if self.adapter.take_answer(cpu).is_some() {
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
    let newcomer = Newcomer::new(ours, Duration::from_secs(1)).expect(made);
    let Greeted::Guest(guest) = newcomer.greet(Unit { address: UNIT, kind }, false) else {
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
    };
    (client, *guest)
}

/// Runs a guest whose actions the bytes give.
pub fn attack(bytes: &[u8]) {
    let mut input = Input(bytes);
    let how = input.u8();
    let honest = how & 2 == 0;
    match how % 2 {
        0 => {
            let config = vnic::Config {
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
            let (refused, crossed) = bench.run(&mut input, outside, handles);
            if honest && !crossed && d.counters.sessions_ended == ended {
                assert_eq!(refused, 0, "what was posted is refused, and the session lives");
            }
        }
        _ => {
            let adapter = |i: usize| veth::Adapter {
                unit: UNIT.into(),
                vector: unit_interrupt(UNIT),
                ..veth::Adapter::new(i, i as u8)
            };
            let mut config = Config::new(vec![adapter(0), adapter(1)]);
            config.uplink = Some(Uplink { port: 0, pvid: 1 });
            let callbacks =
                DeviceCallbacks { queues: |_: &Veth, _, _| (), has_waiting: |_, _| false };
            let mut d = Veth::new(config);
            let bench = Harness::new(VETH, &mut d, &callbacks, honest);
            let (refused, _) = bench.run(&mut input, |_, _, _| (), |_, n| n.into());
            assert!(refused == 0 || !honest);
        }
    }
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
        let mut ports = [Partition::new(Nobody), Partition::new(Nobody)];
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
        assert_eq!(self.client.switched, 3, "interrupts are switched without the server");
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
        let login = LoginBuffer {
            len: w(56),
            version: w(1),
            num_txcomp_subcrqs: w(1),
            off_txcomp_subcrqs: w(40),
            num_rxcomp_subcrqs: w(1),
            off_rxcomp_subcrqs: w(48),
            login_rsp_ioba: w(LOGIN as u32 + 0x800),
            login_rsp_len: w(256),
            client_data_offset: w(56),
            client_data_len: w(0),
        };
        self.client.memory.write(LOGIN as usize, &login.bytes());
        self.client
            .memory
            .write(LOGIN as usize + 40, [0u64.to_be_bytes(), 1u64.to_be_bytes()].as_flattened());
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

    /// Sends posted and refused after all, and whether room may have been promised twice.
    fn run(
        mut self,
        input: &mut Input<'_>,
        outside: impl Fn(&mut D, u8, Time),
        handle: impl Fn(&D, u8) -> u64,
    ) -> (u64, bool) {
        let mut steps = 0;
        while !input.0.is_empty() && steps < 2000 {
            steps += 1;
            self.now += Span::from_us(1);
            let what = input.u8();
            match what % 10 {
                // A call that somebody might make.
                0..=2 => {
                    let cpu = usize::from(input.u8() % 8);
                    let call = CALLS[usize::from(input.u8()) % CALLS.len()];
                    let mut a = [UNIT.into(), 0, 0, 0, 0, 0, 0, 0, 0];
                    for w in &mut a[1..1 + usize::from(input.u8() % 9)] {
                        *w = input.number();
                    }
                    self.client.call(cpu, call, &a);
                }
                // A send, or buffers, to a queue that is there.
                3..=4 => {
                    let shape = input.u8();
                    let handle = handle(self.d, shape);
                    let n = u64::from(shape >> 1) % 17;
                    // Of a frame in the buffer; of buffers the same bytes are as good.
                    let frame = Tx {
                        first: first::VALID,
                        kind: desc::TX,
                        n_crq_elem: 1,
                        n_sge: 1,
                        flags1: input.u8(),
                        flags2: input.u8(),
                        dma_reg: U16::new(1),
                        sge_len: U32::new(input.u16().into()),
                        ioba: U64::new(u64::from(BUFFER) + u64::from(input.u16())),
                        ..Tx::default()
                    };
                    let mut d = frame.bytes();
                    d[usize::from(input.u8()) % DESCRIPTOR] ^= input.u8();
                    let at = LOGIN as usize + 0x400;
                    for i in 0..n.min(16) as usize {
                        self.client.memory.write(at + i * DESCRIPTOR, &d);
                    }
                    let cpu = usize::from(shape % 8);
                    if shape & 0x40 == 0 {
                        let a = [UNIT.into(), handle, at as u64, n, 0, 0, 0, 0, 0];
                        self.client.call(cpu, hcall::SEND_SUB_CRQ_INDIRECT, &a);
                        // What is there when the call is back is the guest's.
                        self.client.memory.write(at, &[0; 512]);
                    } else {
                        let word = |i: usize| {
                            d[8 * i..8 * i + 8].iter().fold(0, |v, b| v << 8 | u64::from(*b))
                        };
                        let a = [UNIT.into(), handle, word(0), word(1), word(2), word(3), 0, 0, 0];
                        self.client.call(cpu, hcall::SEND_SUB_CRQ, &a);
                    }
                }
                // Anything in the call area.
                5 if !self.honest => {
                    let at = ((usize::from(input.u16()) << (input.u8() % 5))
                        % (CALL_AREA_BYTES - 8))
                        & !7;
                    self.client.call_area.write(at, &input.take::<8>());
                }
                // Memory.
                5 => {
                    let at = (usize::from(input.u16()) << 2) & (MAPPED - 32) & !7;
                    self.client.memory.write(at, &input.take::<32>());
                }
                // Entries: none names the other half.
                6 => {
                    let (at, entry) =
                        (u64::from(input.u16()) << 12, input.number() & (MAPPED as u64 - 1));
                    let count = u64::from(input.u8());
                    self.client.call(
                        0,
                        H_STUFF_TCE,
                        &[UNIT.into(), at, entry, count, 0, 0, 0, 0, 0],
                    );
                }
                7 => {
                    let mut frame = vec![0; usize::from(input.u16() % 2000)];
                    let head = input.take::<14>();
                    let n = frame.len().min(14);
                    frame[..n].copy_from_slice(&head[..n]);
                    self.d.receive(&mut self.ports, self.now, &frame);
                }
                8 => self.now += Span::from_us(u64::from(input.u16())),
                _ => outside(self.d, input.u8(), self.now),
            }
            // The server is not always there at once.
            if what & 0x80 == 0 {
                self.poll();
            }
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
