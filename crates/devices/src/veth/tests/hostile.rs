//! Partitions stay apart: whatever several of them call, with whatever arguments, no byte is read
//! or written but what the caller offered or a receiver has lent; the codes are those of the rules;
//! the work is bounded, and closing and opening brings an adapter back.

use super::super::{Adapter, Config, H_CONSTRAINED, Uplink};
use super::*;
use doorbell_layout::ibmveth::status::*;
use proptest::prelude::*;
use proptest::sample::select;

/// Its caller, the adapter it names (or none that exists), its action.
#[derive(Clone, Debug)]
enum Act {
    Call {
        from: usize,
        unit: usize,
        call: u64,
        args: [u64; 8],
    },
    /// A page of a partition is mapped, or not, or may only be read.
    Remap {
        part: usize,
        page: usize,
        mapped: bool,
        writable: bool,
    },
    Memory {
        part: usize,
        at: usize,
        bytes: [u8; 16],
    },
    Wire(Vec<u8>),
    Time(u64),
}

/// Memory granted to the hypervisor, as the test sees it.
#[derive(Default, Clone)]
struct Shadow {
    open: bool,
    closing: bool,
    /// Ranges that it may write.
    grants: Vec<Range<usize>>,
    /// Starts of buffers: the correlators that it may read.
    correlators: Vec<usize>,
    buffers: u32,
}

const PARTS: usize = 3;
const MAX_BUFFERS: u32 = 40;

/// Four adapters of three partitions: tags, a trunk, and two that share a partition.
fn adapters() -> Vec<Adapter> {
    vec![
        Adapter { tagged: vec![5], ..Adapter::new(0, 0) },
        Adapter { tagged: vec![5, 6], trunk: 1, ..Adapter::new(1, 1) },
        Adapter { filters: 2, ..Adapter::new(2, 2) },
        Adapter { pvid: 5, options: Some(0), trunk: 2, ..Adapter::new(0, 3) },
    ]
}

fn address() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => select(vec![
            LIST, FILTER, QUEUE, SEND, BUFFERS, BUFFERS + 2048, 0x8000, 0x9000, 0xa000,
        ])
        .prop_map(u64::from),
        2 => (0..MEMORY as u64 / 4).prop_map(|a| a * 4),
        1 => 0..MEMORY as u64 + 8192,
        1 => any::<u64>(),
        1 => (0u64..8192).prop_map(|a| (1 << 32) - a),
    ]
}

fn descriptor() -> impl Strategy<Value = u64> {
    let len = prop_oneof![
        4 => select(vec![14u64, 16, 60, 64, 128, 512, 1514, 2048, 9000, 65536]),
        1 => 0u64..70_000,
        1 => 0u64..1 << 24,
    ];
    let flags = prop_oneof![
        4 => Just(0u64),
        2 => (0u64..8).prop_map(|f| f << 56),
        1 => (0u64..128).prop_map(|f| f << 56),
    ];
    let valid = prop_oneof![9 => Just(1u64 << 63), 1 => Just(0)];
    (address(), len, flags, valid).prop_map(|(a, l, f, v)| v | f | l << 32 | a & 0xffff_ffff)
}

fn call() -> impl Strategy<Value = (u64, [u64; 8])> {
    let any_call = select(vec![
        H_VIO_SIGNAL,
        H_REGISTER_LOGICAL_LAN,
        H_FREE_LOGICAL_LAN,
        H_ADD_LOGICAL_LAN_BUFFER,
        H_ADD_LOGICAL_LAN_BUFFERS,
        H_FREE_LOGICAL_LAN_BUFFER,
        H_SEND_LOGICAL_LAN,
        H_MULTICAST_CTRL,
        H_CHANGE_LOGICAL_LAN_MAC,
        H_ILLAN_ATTRIBUTES,
        0x7f8,
        0x20,
    ]);
    let mss = prop_oneof![3 => Just(0u64), 3 => 16u64..3000, 1 => any::<u64>()];
    prop_oneof![
        // A registration that mostly makes sense, and one that does not.
        4 => (0u64..4, select(vec![128u64, 16, 256])).prop_map(|(i, len)| {
            let (queue, mac) = (1 << 63 | len << 32 | u64::from(QUEUE), 0x5254_0000_0000 | i);
            (H_REGISTER_LOGICAL_LAN, [LIST.into(), queue, FILTER.into(), mac, 0, 0, 0, 0])
        }),
        2 => (address(), descriptor(), address(), any::<u64>())
            .prop_map(|(l, q, f, m)| (H_REGISTER_LOGICAL_LAN, [l, q, f, m, 0, 0, 0, 0])),
        1 => Just((H_FREE_LOGICAL_LAN, [0; 8])),
        6 => descriptor().prop_map(|d| (H_ADD_LOGICAL_LAN_BUFFER, [d, 0, 0, 0, 0, 0, 0, 0])),
        3 => prop::array::uniform8(descriptor()).prop_map(|d| (H_ADD_LOGICAL_LAN_BUFFERS, d)),
        8 => (descriptor(), prop_oneof![3 => Just(0u64), 1 => descriptor()], 0u64..4, mss)
            .prop_map(|(a, b, token, mss)| {
                (H_SEND_LOGICAL_LAN, [a, b, 0, 0, 0, 0, token.saturating_sub(2), mss])
            }),
        2 => (prop::array::uniform6(descriptor()), any::<u64>())
            .prop_map(|(d, m)| (H_SEND_LOGICAL_LAN, [d[0], d[1], d[2], d[3], d[4], d[5], 0, m])),
        2 => (prop_oneof![0u64..0x10_0000, any::<u64>()], prop_oneof![0u64..4, any::<u64>()])
            .prop_map(|(c, m)| (H_MULTICAST_CTRL, [c, m, 0, 0, 0, 0, 0, 0])),
        2 => (0u64..0x8_0000, 0u64..0x8_0000)
            .prop_map(|(r, s)| (H_ILLAN_ATTRIBUTES, [r, s, 0, 0, 0, 0, 0, 0])),
        1 => (0u64..3).prop_map(|m| (H_VIO_SIGNAL, [m, 0, 0, 0, 0, 0, 0, 0])),
        2 => (any_call, prop::array::uniform8(any::<u64>())),
    ]
}

/// A frame to somebody known, more often than not; sometimes TCP.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let to = prop_oneof![
        6 => (0u8..4).prop_map(|n| [0x52, 0x54, 0, 0, 0, n]),
        1 => Just([0xff; 6]),
        1 => any::<[u8; 6]>(),
    ];
    (to, 0u8..4, any::<(bool, bool, bool)>(), 0usize..4000).prop_map(
        |(to, from, (is_tcp, v6, tag), n)| {
            let from = [0x52, 0x54, 0, 0, 0, from];
            let mut f = if is_tcp { tcp(to, from, v6, n) } else { plain(to, from, 14 + n) };
            if tag {
                f.splice(12..12, [0x81, 0, 0x20, 5]);
            }
            f
        },
    )
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        24 => (0..PARTS, 0usize..5, call(), any::<bool>())
            .prop_map(|(from, unit, (call, args), own)| {
                // Its own, mostly.
                let unit = if own { [0, 1, 2][from] } else { unit };
                Act::Call { from, unit, call, args }
            }),
        3 => (0..PARTS, 0..MEMORY / PAGE, any::<bool>(), any::<bool>())
            .prop_map(|(part, page, mapped, w)| {
                Act::Remap { part, page, mapped, writable: mapped && w }
            }),
        2 => (0..PARTS, 1..6usize, 0..300usize, any::<[u8; 16]>())
            .prop_map(|(part, p, o, bytes)| Act::Memory { part, at: p * PAGE + o * 8, bytes }),
        3 => (0..PARTS, frame()).prop_map(|(part, f)| {
            let mut bytes = [0; 16];
            let n = f.len().min(16);
            bytes[..n].copy_from_slice(&f[..n]);
            Act::Memory { part, at: SEND as usize, bytes }
        }),
        2 => frame().prop_map(Act::Wire),
        1 => (0u64..10_000).prop_map(Act::Time),
    ]
}

/// Codes that a call may answer.
fn allowed(call: u64) -> &'static [i64] {
    match call {
        H_VIO_SIGNAL | H_CHANGE_LOGICAL_LAN_MAC => &[H_SUCCESS, H_PARAMETER],
        H_REGISTER_LOGICAL_LAN | H_ADD_LOGICAL_LAN_BUFFER => &[H_SUCCESS, H_PARAMETER, H_RESOURCE],
        H_ADD_LOGICAL_LAN_BUFFERS => &[H_SUCCESS, H_PARAMETER, H_RESOURCE, H_FUNCTION],
        H_FREE_LOGICAL_LAN => &[H_SUCCESS, H_BUSY, H_PARAMETER, H_RESOURCE],
        H_FREE_LOGICAL_LAN_BUFFER => &[H_SUCCESS, H_PARAMETER, H_NOT_FOUND],
        H_SEND_LOGICAL_LAN => &[H_SUCCESS, H_BUSY, H_PARAMETER, H_DROPPED, H_RESOURCE],
        H_MULTICAST_CTRL => &[H_SUCCESS, H_PARAMETER, H_NOT_FOUND, H_CONSTRAINED],
        H_ILLAN_ATTRIBUTES => &[H_SUCCESS, H_PARAMETER, H_CONSTRAINED, H_FUNCTION],
        _ => &[H_FUNCTION],
    }
}

struct Game {
    b: Bench,
    shadow: Vec<Shadow>,
    adapters: Vec<Adapter>,
}

impl Game {
    fn mapped(&self, part: usize, at: u64, len: u32, align: u32) -> bool {
        let sound = at.is_multiple_of(u64::from(align))
            && len.is_multiple_of(align)
            && at.saturating_add(len.into()) <= 1 << 32;
        let p = &self.b.p[part];
        sound
            && [Direction::ToDevice, Direction::FromDevice]
                .iter()
                .all(|d| p.reaches(Iova(at), len, *d).is_ok())
    }

    fn sound(&self, part: usize, d: Descriptor) -> bool {
        d.is_valid()
            && (16..=128 << 10).contains(&d.len())
            && self.mapped(part, d.ioba().into(), d.len(), 4)
    }

    /// The code that the rules give, where they depend on nothing but what was granted.
    fn expected(&self, from: usize, unit: usize, call: u64, a: &[u64; 8]) -> Option<i64> {
        if allowed(call) == [H_FUNCTION] {
            return Some(H_FUNCTION);
        }
        let Some(cfg) = self.adapters.get(unit).filter(|c| c.partition == from) else {
            return Some(H_PARAMETER);
        };
        let s = &self.shadow[unit];
        match call {
            H_REGISTER_LOGICAL_LAN => {
                let q = Descriptor(a[1]);
                let good = [a[0], a[2]].iter().all(|p| self.mapped(from, *p, 4096, 4096))
                    && q.is_valid()
                    && !q.is_empty()
                    && self.mapped(from, q.ioba().into(), q.len(), 16);
                Some(if s.open || s.closing {
                    H_RESOURCE
                } else if good {
                    H_SUCCESS
                } else {
                    H_PARAMETER
                })
            }
            H_ADD_LOGICAL_LAN_BUFFER if !self.sound(from, Descriptor(a[0])) => Some(H_PARAMETER),
            H_ADD_LOGICAL_LAN_BUFFER if !s.open || s.buffers == MAX_BUFFERS => Some(H_RESOURCE),
            H_ADD_LOGICAL_LAN_BUFFER => Some(H_SUCCESS),
            H_ADD_LOGICAL_LAN_BUFFERS if cfg.options == Some(0) => Some(H_FUNCTION),
            H_FREE_LOGICAL_LAN if !s.open && !s.closing => Some(H_RESOURCE),
            H_FREE_LOGICAL_LAN_BUFFER if !s.open => Some(H_NOT_FOUND),
            H_SEND_LOGICAL_LAN if !s.open => Some(H_DROPPED),
            H_CHANGE_LOGICAL_LAN_MAC => Some(H_SUCCESS),
            H_VIO_SIGNAL => Some(if a[0] < 2 { H_SUCCESS } else { H_PARAMETER }),
            _ => None,
        }
    }

    /// Keeps the books of what was granted.
    fn note(&mut self, unit: usize, call: u64, a: &[u64; 8], code: i64) {
        let Some(s) = self.shadow.get_mut(unit) else { return };
        match (call, code) {
            (H_REGISTER_LOGICAL_LAN, H_SUCCESS) => {
                let q = Descriptor(a[1]);
                let range = |at: usize, len: usize| at..at + len;
                s.open = true;
                s.grants = vec![
                    range(a[0] as usize, PAGE),
                    range(a[2] as usize, PAGE),
                    range(q.ioba() as usize, q.len() as usize),
                ];
            }
            (H_FREE_LOGICAL_LAN, H_BUSY) => *s = Shadow { closing: true, ..Shadow::default() },
            (H_FREE_LOGICAL_LAN, H_SUCCESS) => *s = Shadow::default(),
            (H_ADD_LOGICAL_LAN_BUFFER | H_ADD_LOGICAL_LAN_BUFFERS, H_SUCCESS) => {
                let n = if call == H_ADD_LOGICAL_LAN_BUFFER { 1 } else { 8 };
                for d in a[..n].iter().map(|d| Descriptor(*d)).take_while(|d| d.is_valid()) {
                    let at = d.ioba() as usize;
                    s.grants.push(at + 8..at + d.len() as usize);
                    s.correlators.push(at);
                }
            }
            _ => {}
        }
    }

    /// Checks that all memory touched since the last look was offered or lent.
    fn look(&mut self, sender: Option<(usize, &[u64; 8])>) -> Result<usize, TestCaseError> {
        let mut touched = 0;
        for part in 0..PARTS {
            let of = |i: &usize| self.adapters[*i].partition == part;
            let own: Vec<&Shadow> = (0..4).filter(of).map(|i| &self.shadow[i]).collect();
            for w in &self.b.p[part].writes {
                let lent = own
                    .iter()
                    .flat_map(|s| &s.grants)
                    .any(|g| g.start <= w.start && w.end <= g.end);
                prop_assert!(
                    lent || w.is_empty(),
                    "{w:x?} of partition {part} was written and not lent"
                );
            }
            for r in &self.b.p[part].reads {
                let handle =
                    r.len() == 8 && own.iter().flat_map(|s| &s.correlators).any(|c| *c == r.start);
                let offered = sender.is_some_and(|(from, a)| {
                    let d = a[..6].iter().map(|d| Descriptor(*d)).take_while(|d| d.is_valid());
                    from == part
                        && d.clone()
                            .any(|d| *r == (d.ioba() as usize..(d.ioba() + d.len()) as usize))
                });
                prop_assert!(
                    handle || offered,
                    "{r:x?} of partition {part} was read and not offered"
                );
            }
            touched += self.b.p[part].writes.len() + self.b.p[part].reads.len();
            self.b.p[part].writes.clear();
            self.b.p[part].reads.clear();
        }
        Ok(touched)
    }

    fn step(&mut self, act: &Act) -> Result<(), TestCaseError> {
        match act {
            Act::Call { from, unit, call, args } => {
                let expected = self.expected(*from, *unit, *call, args);
                let number = self.adapters.get(*unit).map_or(0xdead, |a| a.unit);
                let a: Vec<u64> = core::iter::once(number).chain(*args).collect();
                // What was due before the call is not the call's.
                self.b.d.advance(&mut self.b.p, self.b.now);
                self.look(None)?;
                let code = self.b.call(*from, *call, &a).status;
                prop_assert!(allowed(*call).contains(&code), "{call:#x} answered {code}");
                if let Some(e) = expected {
                    prop_assert_eq!(code, e, "{:#x} of {} for {}", call, from, unit);
                }
                let own = self.adapters.get(*unit).is_some_and(|c| c.partition == *from);
                if own {
                    self.note(*unit, *call, args, code);
                }
                let sender = (*call == H_SEND_LOGICAL_LAN && own).then_some((*from, args));
                let touched = self.look(sender)?;
                if code < 0 && code != H_DROPPED && *call != H_SEND_LOGICAL_LAN {
                    prop_assert_eq!(touched, 0, "{:#x} was refused and touched memory", call);
                }
                // A large send of 64 KiB in segments of 16 bytes, for three receivers, eight
                // accesses each.
                prop_assert!(touched < 6 + 4096 * 3 * 8);
                for (s, a) in self.shadow.iter_mut().zip(&self.b.d.parts.adapters) {
                    s.buffers = a.pools.len();
                    prop_assert!(s.buffers <= MAX_BUFFERS);
                }
            }
            Act::Remap { part, page, mapped, writable } => {
                self.b.p[*part].mapped[*page] = *mapped;
                self.b.p[*part].writable[*page] = *writable;
            }
            Act::Memory { part, at, bytes } => {
                self.b.p[*part].memory[*at..*at + 16].copy_from_slice(bytes);
            }
            Act::Wire(f) => {
                self.b.d.receive(&mut self.b.p, self.b.now, f);
            }
            Act::Time(ns) => {
                self.b.now += Span::from_ns(*ns);
                self.b.d.advance(&mut self.b.p, self.b.now);
                self.look(None)?;
            }
        }
        Ok(())
    }

    /// Free and register bring an adapter back, whatever was done to it.
    fn recovers(&mut self) -> Result<(), TestCaseError> {
        self.b.settle();
        for p in &mut self.b.p {
            p.mapped.fill(true);
            p.writable.fill(true);
        }
        for i in [0, 1, 2, 3] {
            let mut calls = 0;
            while self.b.own(i, H_FREE_LOGICAL_LAN, &[]) == H_BUSY {
                calls += 1;
                prop_assert!(calls <= MAX_BUFFERS);
            }
        }
        for i in [0, 2] {
            self.b.register(i);
            prop_assert_eq!(self.b.post(i, 2048, BUFFERS), H_SUCCESS);
        }
        let f = plain(self.b.mac(2), self.b.mac(0), 200);
        self.b.put(0, &f);
        let d = Descriptor::new(0, 200, SEND).0;
        let mut r = self.b.full(0, H_SEND_LOGICAL_LAN, &[d]);
        while r.status == H_BUSY {
            r = self.b.full(0, H_SEND_LOGICAL_LAN, &[d, 0, 0, 0, 0, 0, r.ret[0]]);
        }
        prop_assert_eq!(r.status, H_SUCCESS);
        prop_assert_eq!(self.b.bytes(2), Some(f));
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn partitions_stay_apart(
        acts in prop::collection::vec(act(), 1..80),
        opened: bool, uplink: bool,
        slice in select(vec![1024u32, 5000, u32::MAX]),
        release in select(vec![1u32, u32::MAX]),
        late in select(vec![0u64, 3]),
    ) {
        let adapters = adapters();
        let cfg = Config {
            uplink: uplink.then_some(Uplink { port: 1, pvid: 9 }),
            max_buffers: MAX_BUFFERS, slice, release,
            interrupt: Span::from_us(late),
            ..Config::new(adapters.clone())
        };
        let mut g = Game { b: Bench::new(cfg), shadow: vec![Shadow::default(); 4], adapters };
        // Something worth sending, that anybody may get.
        for part in 0..PARTS {
            let mac = |part: usize| [0x52, 0x54, 0, 0, 0, part as u8];
            let f = tcp(mac((part + 1) % 3), mac(part), part == 1, 30_000);
            g.b.p[part].memory[SEND as usize..SEND as usize + f.len()].copy_from_slice(&f);
        }
        if opened {
            let queue = 1 << 63 | 128 << 32 | u64::from(QUEUE);
            for (i, from) in [(0, 0), (1, 1), (2, 2)] {
                let args = [0, [0x10006, 6, 0][i], 0, 0, 0, 0, 0, 0];
                g.step(&Act::Call { from, unit: i, call: H_ILLAN_ATTRIBUTES, args })?;
                let args = [LIST.into(), queue, FILTER.into(), mac(g.b.mac(i)), 0, 0, 0, 0];
                g.step(&Act::Call { from, unit: i, call: H_REGISTER_LOGICAL_LAN, args })?;
                for k in 0..8 {
                    let d = Descriptor::new(0, 2048, BUFFERS + k * 2048).0;
                    let args = [d, 0, 0, 0, 0, 0, 0, 0];
                    g.step(&Act::Call { from, unit: i, call: H_ADD_LOGICAL_LAN_BUFFER, args })?;
                }
            }
        }
        for a in &acts {
            g.step(a)?;
        }
        g.recovers()?;
    }
}
