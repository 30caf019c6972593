//! Inputs that reach each part of the device.

use super::action::*;
use super::commands::NUMBERED;
use crate::fuzz::{Frame, Seed, seed};
use doorbell_layout::mlx5::command::op;

/// Returns a driver that receives by rules and hashes, sends all that there is, and meets faults.
pub fn seeds() -> Vec<Seed> {
    // An odd byte comes first: see `mlx5::attack`.
    let make = |shape: u8, actions: &[Action]| seed(&[1, shape], actions);
    let wait = Action::Wait { ns: 50_000, shift: 0 };
    // Addresses and ports: all fields that there are.
    let hash = |how| Action::Tir { how, fields: 0xf, key: 0x6d };
    let queues = |stride, flags| Action::Queues { n: 3, stride, flags };
    let post = |fault| {
        let one = |queue| Action::Post { queue, n: 12, len: 700, fault };
        [one(0), one(1), one(2), one(3)]
    };
    let rule = |table, fields, kind, to| Action::Rule {
        table,
        fields,
        frame: Frame::new(kind, 60),
        to,
        action: 0,
    };
    let kinds = [
        0,
        Frame::UDP,
        Frame::V6,
        Frame::V6 | Frame::UDP,
        Frame::TAGGED,
        Frame::PLAIN,
        Frame::MULTICAST,
    ];
    let frames = |payload: u16| {
        kinds.map(|kind| Action::Receive { frame: Frame::new(kind, payload) }).to_vec()
    };
    // Other addresses and ports hash to other queues.
    let flows: Vec<Action> = (1..40)
        .map(|bits| Frame { kind: Frame::DAMAGED, payload: 20, at: 34, bits })
        .map(|frame| Action::Receive { frame })
        .collect();
    let receive = |how: u8, stride: u8, fields: u8, fault: u8, payload: u16| {
        let mut all = vec![queues(stride, how >> 6)];
        all.extend(post(fault));
        all.extend([hash(how), Action::Table { level: 0 }, rule(0, fields, 0, 0)]);
        all.extend(frames(payload));
        all.push(wait.clone());
        all
    };
    let umr = |octowords, flags, short| Action::Umr {
        place: 0,
        octowords,
        flags,
        key: 0,
        short,
        page: 0,
    };
    // Pages, and UMRs without sense; then frames alike, which share a block.
    let strided = |stride: u8, fault: u8| {
        let mut all = vec![umr(32, 0, 0), queues(stride, STRIDES | FLUSH)];
        all.extend(post(fault));
        all.extend([hash(DIRECT), Action::Table { level: 0 }, rule(0, 0, 0, 0)]);
        (0..3).for_each(|_| all.extend(frames(40)));
        all.extend((0..20).map(|_| Action::Receive { frame: Frame::new(Frame::UDP, 700) }));
        all.extend([wait.clone(), umr(32, 0x80, 0), wait.clone(), umr(40, 0, 9), umr(4, 0x60, 0)]);
        all.push(wait.clone());
        all
    };
    let about = |opcode: u16, n: u8| {
        let which = NUMBERED.iter().position(|(o, _)| *o == opcode);
        let which = which.unwrap_or_else(|| panic!("{opcode:#x} needs more than a number"));
        Action::Object { which: which as u8, n }
    };
    let special = |n: u8, object: u8| Action::Object { which: NUMBERED.len() as u8 + n, n: object };
    let tunnels = [IP_IN_IP, GRE, GRE | KEYED, VXLAN];
    let send = |kind, how, mss| Action::Send { frame: Frame::new(kind, 900), how, mss };
    let all_kinds = [
        send(0, CHECKSUMS, 0),
        send(Frame::V6 | Frame::UDP, CHECKSUMS | 2 << 4, 0),
        send(0, INSERT_TAG, 0),
        send(0, CHECKSUMS, 300),
        send(Frame::V6, CHECKSUMS | 1 << 4, 200),
        send(Frame::PLAIN, 0, 0),
        wait.clone(),
    ];
    vec![
        ("mlx5_receive", make(0, &receive(2, 0, 0, 0, 300))),
        ("mlx5_receive_full_sum", make(4, &receive(2 | SYMMETRIC | 0x40, 2, 0, 0, 1500))),
        (
            "mlx5_rss",
            make(0, &[receive(2, 1, 0, 0, 40), flows.clone(), vec![wait.clone()]].concat()),
        ),
        ("mlx5_xor", make(0, &[receive(1, 1, 0, 0, 40), flows].concat())),
        (
            "mlx5_rules",
            make(
                0,
                &[
                    vec![
                        queues(1, 0),
                        hash(2),
                        hash(DIRECT),
                        Action::Table { level: 2 },
                        Action::Table { level: 0x11 },
                        rule(0, ETHERTYPE | IP_VERSION, 0, 1),
                        rule(0, DMAC | PROTOCOL, Frame::UDP | Frame::V6, 0),
                        rule(1, PORTS | TAG, Frame::TAGGED, 0x80),
                        rule(1, PROTOCOL | PORTS, Frame::V6, 0),
                    ],
                    post(0).to_vec(),
                    frames(200),
                    vec![wait.clone()],
                ]
                .concat(),
            ),
        ),
        ("mlx5_strides", make(0x08, &strided(0, 0))),
        ("mlx5_strides_basic", make(0x18, &strided(1, 0))),
        ("mlx5_strides_enhanced", make(0x38, &strided(2, 0))),
        ("mlx5_strides_faults", make(0x18, &[2, 3, 4, 5].map(|f| strided(0, f)).concat())),
        ("mlx5_compressed", make(0x10, &[receive(2, 1, 0, 0, 40), frames(40)].concat())),
        ("mlx5_short_buffers", make(0, &receive(2, 1, 0, 1, 2000))),
        ("mlx5_wrong_key", make(0, &receive(2 | 0x80, 1, 0, 2, 100))),
        ("mlx5_wrong_address", make(0, &receive(2, 1, 0, 3, 100))),
        (
            "mlx5_no_buffers",
            make(
                0,
                &[
                    vec![queues(0, 0), hash(DIRECT), Action::Table { level: 0 }, rule(0, 0, 0, 0)],
                    frames(100),
                ]
                .concat(),
            ),
        ),
        ("mlx5_send", make(0, &all_kinds)),
        ("mlx5_send_second_port", make(0x40, &all_kinds)),
        (
            "mlx5_loopback",
            make(
                1,
                &[
                    receive(2 | LOOPBACK, 1, 0, 0, 60),
                    vec![
                        Action::Address {},
                        send(0, CHECKSUMS, 0),
                        send(Frame::BROADCAST, CHECKSUMS, 0),
                        wait.clone(),
                    ],
                ]
                .concat(),
            ),
        ),
        (
            "mlx5_objects",
            make(
                0,
                &[
                    vec![Action::Events {}, about(op::ALLOC_Q_COUNTER, 0)],
                    receive(2, 1, 0, 0, 200),
                    NUMBERED[..13].iter().map(|(opcode, _)| about(*opcode, 1)).collect(),
                    vec![special(8, 0x80), special(8, 0), special(9, 0xf0), special(10, 0x34)],
                    (0..8).map(|n| special(n, 0)).collect(),
                    vec![special(5, 1), special(2, 0), about(op::MODIFY_RQT, 0)],
                    // From the users to what they use.
                    vec![about(op::DEALLOC_Q_COUNTER, 1), about(op::DESTROY_TIR, 0)],
                    vec![about(op::DESTROY_RQT, 0)],
                    vec![about(op::DESTROY_RQ, 0); 4],
                    vec![about(op::DESTROY_EQ, 1)],
                    NUMBERED[17..28].iter().map(|(opcode, _)| about(*opcode, 0)).collect(),
                    NUMBERED[28..32].iter().map(|(opcode, _)| about(*opcode, 0)).collect(),
                ]
                .concat(),
            ),
        ),
        (
            "mlx5_registers",
            make(
                0,
                &[
                    vec![Action::Events {}, send(0, CHECKSUMS, 0), wait.clone()],
                    (0..8)
                        .map(|which| Action::Register { which, write: false, at: 0, value: 0 })
                        .collect(),
                    // Each group of counters, a short MTU, and the port down and up again.
                    [(4, 1), (4, 2), (4, 9)]
                        .map(|(which, value)| Action::Register {
                            which,
                            write: false,
                            at: 0,
                            value,
                        })
                        .to_vec(),
                    vec![
                        Action::Register { which: 1, write: true, at: 2, value: 700 << 16 },
                        Action::Register { which: 1, write: true, at: 2, value: 1 << 16 },
                        Action::Register { which: 2, write: true, at: 0, value: 0 },
                        Action::Register { which: 3, write: true, at: 0, value: 2 << 8 },
                        Action::Register { which: 3, write: true, at: 0, value: 1 << 8 },
                        special(4, 0),
                        special(4, 1),
                        wait.clone(),
                    ],
                ]
                .concat(),
            ),
        ),
        (
            "mlx5_tunnels",
            make(
                0,
                &tunnels
                    .into_iter()
                    .flat_map(|t| [(0, t), (Frame::V6 | Frame::UDP, t | 1 << 4)])
                    .flat_map(|(kind, how)| [send(kind, CHECKSUMS | how, 0), wait.clone()])
                    .collect::<Vec<_>>(),
            ),
        ),
        (
            "mlx5_told",
            make(
                0,
                &tunnels
                    .into_iter()
                    .chain([0])
                    .flat_map(|t| [(0, t), (Frame::V6 | Frame::UDP, t | 1 << 4)])
                    .flat_map(|(kind, how)| [send(kind, CHECKSUMS | TOLD | how, 0), wait.clone()])
                    .collect::<Vec<_>>(),
            ),
        ),
        (
            "mlx5_keys",
            make(
                0,
                &[
                    vec![Action::Key { how: PAGES, order: 0 }, send(0, CHECKSUMS, 0), wait.clone()],
                    vec![Action::Key { how: PAGES, order: 1 }, send(0, 3 << 4, 0), wait.clone()],
                    vec![Action::Key { how: 0, order: 0 }, send(0, CHECKSUMS, 300), wait.clone()],
                    receive(2, 1, 0, 0, 200),
                    vec![Action::Key { how: PAGES | SHORT, order: 0 }, send(0, 0, 0), wait.clone()],
                ]
                .concat(),
            ),
        ),
        (
            "mlx5_flushes",
            make(
                0,
                &[
                    vec![Action::Events {}, queues(1, FLUSH)],
                    post(0).to_vec(),
                    vec![
                        // A direct way to the first queue. Its frames wait when it fails.
                        hash(DIRECT),
                        Action::Table { level: 0 },
                        rule(0, 0, 0, 0),
                        Action::Receive { frame: Frame::new(0, 100) },
                        Action::State { queue: 1, from: 1, to: 2 },
                        wait.clone(),
                        Action::State { queue: 1, from: 2, to: 0 },
                        Action::State { queue: 2, from: 1, to: 2 },
                        wait.clone(),
                        send(0, CHECKSUMS, 0),
                        Action::State { queue: 0, from: 1, to: 0 },
                        Action::State { queue: 0, from: 0, to: 1 },
                        send(0, CHECKSUMS, 0),
                        wait.clone(),
                    ],
                ]
                .concat(),
            ),
        ),
        (
            "mlx5_unreadable",
            make(
                0,
                &[
                    vec![Action::Events {}, queues(1, UNREADABLE), hash(DIRECT)],
                    vec![Action::Table { level: 0 }, rule(0, 0, 0, 0)],
                    post(0).to_vec(),
                    frames(200),
                    vec![wait.clone()],
                ]
                .concat(),
            ),
        ),
        (
            "mlx5_commands",
            make(
                0,
                &(0..60u32)
                    .map(|n| Action::Command {
                        which: 9,
                        n: (n * 3) << 16 | 0x4000 | n,
                        at: 0,
                        bits: 0,
                        opcode: 0,
                        op_mod: 0,
                        room: 255,
                    })
                    .flat_map(|c| [c, Action::Wait { ns: 1000, shift: 0 }])
                    .collect::<Vec<_>>(),
            ),
        ),
    ]
}
