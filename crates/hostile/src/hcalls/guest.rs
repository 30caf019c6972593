//! The guest: a driver of both adapters, its partition and the device.

use super::action::{Action, CALLS, DIRECT, HEADERS, TAG, argument};
use super::client::{
    CANARY, Client, H_PUT_TCE, H_PUT_TCE_INDIRECT, H_STUFF_TCE, MAPPED, REST, UNIT, connect,
};
use super::{Port, Reached, Wire};
use crate::fuzz::{Frame, next};
use arbitrary::Unstructured;
use doorbell_hal::{HcallDevice, HcallReturn, Span, Time};
use doorbell_layout::ibmveth;
use doorbell_layout::ibmvnic::{
    DESCRIPTOR, HDR_DATA, HDR_EXT_DATA, Hdr, HdrExt, Login, LoginBuffer, MESSAGE, RESPONSE,
    RequestMap, RxAdd, Tx, VersionExchange, cmd, desc, first, hcall, headers::lengths, link, tx,
    vioctl,
};
use doorbell_packet::headers;
use doorbell_papr_io::{
    CALL_AREA_BYTES, CPUS, DeviceCallbacks, Partition, PollCursor, SENDS, publish_credits, step,
    sub_crq_interrupts,
};
use zerocopy::byteorder::big_endian::{U16, U32, U64};

/// Addresses of the driver of a logical LAN.
const LIST: u64 = 0x5000;
const FILTER: u64 = 0x6000;
const QUEUE: u64 = 0x7000;
/// Buffers that it lends.
const BUFFERS: u64 = 0x2_0000;
/// Addresses of the driver of a vNIC.
const CRQ: u64 = 0x1000;
const RINGS: u64 = 0x2000;
pub(super) const LOGIN: u64 = 0x4000;
const BUFFER: u32 = 0x10000;
/// Entries of the table for one call.
const TABLE_LIST: u64 = 0xf000;
/// The station of both.
const STATION: [u8; 6] = [0x52, 0x54, 0x00, 0xfa, 0x00, 0x03];

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

/// Returns the descriptors of all headers of a frame.
pub fn header_entries(frame: &[u8]) -> Vec<[u8; DESCRIPTOR]> {
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
pub(super) struct Harness<'a, D> {
    pub(super) d: &'a mut D,
    callbacks: &'a DeviceCallbacks<D>,
    ports: [Port; 2],
    pub(super) client: Client,
    now: Time,
    honest: bool,
    /// Calls that the server has taken.
    taken: u64,
}

impl<'a, D: HcallDevice<Port>> Harness<'a, D> {
    pub(super) fn new(
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

    pub(super) fn must(&mut self, call: u64, a: &[u64]) {
        let mut all = [0; 9];
        all[0] = UNIT.into();
        all[1..=a.len()].copy_from_slice(a);
        self.client.call(0, call, &all);
        self.poll();
    }

    fn command(&mut self, m: [u8; MESSAGE]) {
        let words = u128::from_be_bytes(m);
        self.must(hcall::SEND_CRQ, &[(words >> 64) as u64, words as u64]);
        self.now += Span::from_us(1);
        self.poll();
    }

    /// Brings the link up as a driver does, answers unread: one queue of each direction, sub-CRQs 0
    /// and 1.
    pub(super) fn log_in(&mut self) {
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
            for d in entries {
                let mut a = [UNIT.into(), handle, 0, 0, 0, 0, 0, 0, 0];
                let (words, _) = d.as_chunks();
                a[2..].iter_mut().zip(words).for_each(|(to, w)| *to = u64::from_be_bytes(*w));
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
    pub(super) fn run(
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
