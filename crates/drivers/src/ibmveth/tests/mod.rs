//! The traps of the sheet, each by name: on firmware that does what it is told, keeps every
//! call, and refuses what the test says.

mod lifecycle;
mod limits;
mod rx;
mod tx;

use super::*;
use crate::{Driver, Irq, Poll, Sink, Tx};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_bus::{
    Bus, Costs, HypervisorDevice, HypervisorPort, Machine, Partitions, Platform,
    ProtectionGranularity,
};
use doorbell_hal::{
    Alignment, Buf, DropReason, EventSource, Hcall, HcallDevice, HcallReturn, Host as _, Reply,
    RxVerdict, Span, Time,
};
use doorbell_layout::ibmveth::{self as l, Descriptor, Entry, attribute, status};
use doorbell_packet::checksum::Sum;
use doorbell_packet::{Fragment, NonLinear, OffloadRequest, Packet, headers};

/// A send.
#[derive(Debug)]
struct Sent {
    bytes: Vec<u8>,
    descriptors: Vec<Descriptor>,
    correlator: u64,
    mss: u64,
}

/// A hypervisor with one adapter.
#[derive(Debug, Default)]
struct Firmware {
    calls: Vec<(u64, [u64; 9])>,
    /// A call, its answer, and how often it is given.
    refuse: Vec<(u64, i64, u32)>,
    attributes: Option<u64>,
    /// Attributes that cannot be changed.
    frozen: u64,
    lent: Vec<Descriptor>,
    list: u64,
    queue: Descriptor,
    index: u32,
    toggle: bool,
    open: bool,
    sent: Vec<Sent>,
    /// A frame arrives just when interrupts are being switched on: too late for the poll,
    /// too early for an interrupt.
    late: bool,
}

const MAC: [u8; 6] = [0x02, 0x11, 0x22, 0x33, 0x44, 0x55];
const PEER: [u8; 6] = [0x02, 0, 0, 0, 0, 0x99];
const UNIT: u32 = 0x3000_0002;
/// The attributes of recent firmware.
const ALL: u64 = attribute::RX_MULTI_BUFF | attribute::LRG_SND_SUPPORT | attribute::PADDED_PKT_CSUM;

impl EventSource for Firmware {
    fn next_due(&self) -> Option<Time> {
        None
    }
}

impl HcallDevice<HypervisorPort> for Firmware {
    fn hcall(
        &mut self,
        ports: &mut [HypervisorPort],
        _: usize,
        at: Time,
        c: Hcall,
        a: &[u64; 9],
    ) -> Reply {
        self.calls.push((c.0, *a));
        assert_eq!(a[0], u64::from(UNIT));
        let mut answer = HcallReturn::status(status::H_SUCCESS);
        if let Some(r) = self.refuse.iter_mut().find(|r| r.0 == c.0 && r.2 > 0) {
            r.2 -= 1;
            answer.status = r.1;
            // What a busy one wants back.
            answer.ret[0] = 0xc0de_0000 + u64::from(r.2);
            return (answer, at);
        }
        match c.0 {
            l::H_REGISTER_LOGICAL_LAN => {
                if self.open {
                    return (HcallReturn::status(status::H_RESOURCE), at);
                }
                (self.open, self.list, self.queue, self.index, self.toggle) =
                    (true, a[1], Descriptor(a[2]), 0, true);
            }
            l::H_FREE_LOGICAL_LAN => {
                self.open = false;
                self.lent.clear();
            }
            l::H_VIO_SIGNAL if a[1] == l::SIGNAL_ON && core::mem::take(&mut self.late) => {
                let memory = &mut ports[0].platform_mut().memory;
                let correlator: Vec<u8> = memory.cpu(self.lent.remove(0).ioba().into(), 8).to_vec();
                let flags = Entry::TOGGLE | Entry::VALID | 8;
                let entry = [&flags.to_be_bytes()[..], &300u32.to_be_bytes(), &correlator].concat();
                memory.cpu(self.queue.ioba().into(), 16).copy_from_slice(&entry);
            }
            l::H_ADD_LOGICAL_LAN_BUFFER => self.lent.push(Descriptor(a[1])),
            l::H_ADD_LOGICAL_LAN_BUFFERS => {
                self.lent
                    .extend(a[1..].iter().map(|d| Descriptor(*d)).take_while(|d| d.is_valid()));
            }
            l::H_ILLAN_ATTRIBUTES => match &mut self.attributes {
                None => answer.status = status::H_FUNCTION,
                Some(_) if (a[1] | a[2]) & self.frozen != 0 => answer.status = status::H_PARAMETER,
                Some(now) => {
                    *now = *now & !a[1] | a[2];
                    answer.ret[0] = *now;
                }
            },
            l::H_SEND_LOGICAL_LAN => {
                let descriptors: Vec<Descriptor> =
                    a[1..7].iter().map(|d| Descriptor(*d)).take_while(|d| d.is_valid()).collect();
                let memory = &mut ports[0].platform_mut().memory;
                let gather =
                    |d: &Descriptor| memory.cpu(d.ioba().into(), d.len() as usize).to_vec();
                let bytes = descriptors.iter().flat_map(gather).collect();
                self.sent.push(Sent { bytes, descriptors, correlator: a[7], mss: a[8] });
            }
            _ => {}
        }
        (answer, at)
    }
    fn receive(&mut self, _: &mut [HypervisorPort], _: Time, _: &[u8]) -> RxVerdict {
        RxVerdict::Dropped(DropReason::Off)
    }
    fn advance(&mut self, _: &mut [HypervisorPort], _: Time) {}
    fn reset(&mut self, _: &mut [HypervisorPort], _: Time) {}
}

impl Firmware {
    fn called(&self, number: u64) -> Vec<[u64; 9]> {
        self.calls.iter().filter(|c| c.0 == number).map(|c| c.1).collect()
    }
}

type Host = Machine<Partitions<HypervisorPort>, HypervisorDevice<Firmware>>;

fn firmware(h: &mut Host) -> &mut Firmware {
    &mut h.device.0
}

fn memory(h: &mut Host, at: u64, len: usize) -> &mut [u8] {
    h.bus.ports[0].platform_mut().memory.cpu(at, len)
}

fn host(attributes: Option<u64>) -> Host {
    let vio = HypervisorPort::new(
        Platform::new(0x1000_0000, 16 << 20, ProtectionGranularity::Byte),
        Span::ZERO,
    );
    let firmware = Firmware { attributes, ..Firmware::default() };
    Machine::new(
        Partitions::new(vec![vio], vec![0], Span::from_ns(300)),
        HypervisorDevice(firmware),
        Costs::FREE,
        1,
    )
}

fn config() -> Config {
    let mut c = Config::new(UNIT, MAC);
    for p in &mut c.pools {
        p.count = 8;
    }
    c
}

fn open_with(attributes: Option<u64>, change: impl FnOnce(&mut Config)) -> (Host, Ibmveth) {
    let mut h = host(attributes);
    let mut c = config();
    change(&mut c);
    let nic = Ibmveth::open(&mut h, &c).unwrap();
    (h, nic)
}

fn open() -> (Host, Ibmveth) {
    open_with(Some(ALL), |_| {})
}

#[derive(Default)]
struct Up {
    sent: Vec<(Buf, u32, bool)>,
    received: Vec<(Packet, bool)>,
}
impl Sink for Up {
    fn sent(&mut self, b: Buf, cookie: u32, last: bool) {
        self.sent.push((b, cookie, last));
    }
    fn received(&mut self, p: Packet, verified: bool) {
        self.received.push((p, verified));
    }
}

fn piece(h: &mut Host, bytes: &[u8]) -> Fragment {
    let b = h.buffer(bytes.len() as u32, Alignment::ANY).unwrap();
    h.bytes_mut(&b, 0..b.len(), |to| to.copy_from_slice(bytes));
    Fragment::whole(b)
}

/// The frame in pieces that end at `cuts`, the last `listed` of them in the list.
fn packet(
    h: &mut Host,
    frame: &[u8],
    cuts: &[usize],
    listed: usize,
    todo: OffloadRequest,
) -> Packet {
    let mut from = 0;
    let mut pieces: Vec<Fragment> = Vec::new();
    for end in cuts.iter().copied().chain([frame.len()]) {
        pieces.push(piece(h, &frame[from..end]));
        from = end;
    }
    let list = pieces.split_off(pieces.len() - listed);
    let mut pieces = pieces.into_iter();
    let head = pieces.next().unwrap();
    let frags: Vec<Fragment> = pieces.collect();
    let more = (!frags.is_empty() || !list.is_empty()).then(|| Box::new(NonLinear { frags, list }));
    Packet { head, todo, more, cookie: 7 }
}

/// A lent buffer gets `frame`, and the queue an entry with `flags`.
fn arrive(h: &mut Host, frame: &[u8], flags: u32, mss: Option<u16>) {
    let offset = if mss.is_some() { 16 } else { 8 };
    let fits = |d: &Descriptor| d.len() as usize >= frame.len() + offset;
    let smallest =
        firmware(h).lent.iter().enumerate().filter(|(_, d)| fits(d)).min_by_key(|(_, d)| d.len());
    let i = smallest.expect("a buffer that holds it").0;
    let d = firmware(h).lent.remove(i);
    let at = u64::from(d.ioba());
    let correlator: [u8; 8] = memory(h, at, 8).try_into().unwrap();
    if let Some(mss) = mss {
        memory(h, at + 8, 8).copy_from_slice(&u64::from(mss).to_be_bytes());
    }
    memory(h, at + offset as u64, frame.len()).copy_from_slice(frame);
    let large = if mss.is_some() { Entry::LRG_PKT } else { 0 };
    enter(h, Entry::VALID | large | flags | offset as u32, frame.len() as u32, correlator);
}

fn enter(h: &mut Host, flags: u32, len: u32, correlator: [u8; 8]) {
    let f = firmware(h);
    let at = u64::from(f.queue.ioba() + f.index * l::ENTRY);
    let flags = flags | if f.toggle { Entry::TOGGLE } else { 0 };
    f.index += 1;
    if f.index * l::ENTRY == f.queue.len() {
        (f.index, f.toggle) = (0, !f.toggle);
    }
    let entry = [&flags.to_be_bytes()[..], &len.to_be_bytes(), &correlator].concat();
    memory(h, at, 16).copy_from_slice(&entry);
}

fn poll(h: &mut Host, nic: &mut Ibmveth) -> Up {
    let mut up = Up::default();
    // More than the queue holds are no news.
    for _ in 0..10 {
        if nic.poll(h, 16, &mut up) != Poll::Again {
            return up;
        }
    }
    panic!("the poll has no end");
}

fn contents(h: &mut Host, p: &Packet) -> Vec<u8> {
    let mut all = Vec::new();
    for q in p.pieces() {
        h.bytes(&q.buf, q.start..q.start + q.len, |b| all.extend_from_slice(b));
    }
    all
}

/// A frame of TCP or UDP with right checksums.
fn ip(v4: bool, udp: bool, payload: usize) -> Vec<u8> {
    let l4 = if udp { 8 } else { 20 } + payload;
    let protocol = if udp { 17 } else { 6 };
    let mut f = [&PEER[..], &MAC].concat();
    if v4 {
        f.extend([8, 0, 0x45, 0]);
        f.extend(((20 + l4) as u16).to_be_bytes());
        f.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        let check = Sum::of(&f[14..34]).checksum();
        f[24..26].copy_from_slice(&check.to_be_bytes());
    } else {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend((l4 as u16).to_be_bytes());
        f.extend([protocol, 64]);
        f.extend([[0xfd; 16], [0xfc; 16]].concat());
    }
    f.extend([0x30, 0x39, 0x16, 0x2e]);
    if udp {
        f.extend((l4 as u16).to_be_bytes());
        f.extend([1, 0]);
    } else {
        f.extend([0x01, 0x02, 0x03, 0x04, 0, 0, 0, 1, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0]);
    }
    f.extend((0..payload).map(|i| (i * 13 + i / 256) as u8));
    headers::prepare_partial(&mut f).unwrap().complete(&mut f).unwrap();
    f
}
