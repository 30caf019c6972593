//! The delivery of commands, and its failures.

use super::*;
use doorbell_layout::mlx5::command::{
    InHeader, Mailbox, checksum, delivery, init_segment as seg, own, xor,
};
use proptest::prelude::*;

/// A command with four mailboxes each way, spoilt by `spoil`: its delivery status. What
/// it would have done has not happened.
fn delivered(signed: u32, spoil: impl FnOnce(&mut Written)) -> u8 {
    let mut c = CommandHarness::new(NIC);
    c.ok(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    if signed != checksum::DISABLED {
        c.set_checksum(signed);
    }
    let pages: Vec<u64> = (0..200).map(|i| CommandHarness::PAGES + i * 4096).collect();
    let list = pas(&pages);
    let mut m = ManagePagesIn::ZERO;
    m.set(ManagePagesIn::ENTRIES, 200);
    let mut w = c.compose(&CommandHarness::input(op::MANAGE_PAGES, pages::GIVE, &m, &list), 2000);
    assert_eq!((w.inputs.len(), w.outputs.len()), (4, 4));
    spoil(&mut w);
    c.put(0, &w);
    let a = c.ring(0).expect("an answer");
    assert_eq!(c.device.pages_held(), if a.delivery == delivery::OK { 200 } else { 0 });
    let undelivered = u64::from(a.delivery != delivery::OK);
    assert_eq!(c.device.command_counters().undelivered, undelivered);
    a.delivery
}

#[test]
fn a_command_is_delivered_as_its_form_says() {
    use checksum::{DISABLED as OFF, ENABLED as ALL, ENTRY};
    use delivery::*;
    const IN: u64 = CommandHarness::INPUTS;
    const OUT: u64 = CommandHarness::OUTPUTS;
    type Spoil = fn(&mut Written);
    let entry: Spoil = |w| w.entry.signature ^= 1;
    let data: Spoil = |w| w.inputs[3].data[0] ^= 1;
    let control: Spoil = |w| w.inputs[1].control_signature ^= 1;
    let output: Spoil = |w| w.outputs[2].control_signature ^= 4;
    let rows: [(&str, u32, Spoil, u8); 38] = [
        ("sound", OFF, |_| (), OK),
        ("sound, entries checked", ENTRY, |_| (), OK),
        ("sound, all checked", ALL, |_| (), OK),
        ("entry's signature, unchecked", OFF, entry, OK),
        ("entry's signature, entries checked", ENTRY, entry, SIGNATURE),
        ("entry's signature, all checked", ALL, entry, SIGNATURE),
        ("a mailbox's signature", ALL, data, SIGNATURE),
        ("a control signature", ALL, control, SIGNATURE),
        ("an output's signature", ALL, output, SIGNATURE),
        ("a control signature, entries checked", ENTRY, control, OK),
        ("an input's token", OFF, |w| w.inputs[2].token ^= 1, TOKEN),
        ("an output's token", OFF, |w| w.outputs[0].token ^= 1, TOKEN),
        ("an input's number", OFF, |w| w.inputs[2].block_number = 3.into(), BLOCK_NUMBER),
        ("an output's number", OFF, |w| w.outputs[3].block_number = 0.into(), BLOCK_NUMBER),
        ("crooked input", OFF, |w| w.entry.input_mailbox = (IN + 512).into(), INPUT_POINTER),
        ("crooked next input", OFF, |w| w.inputs[0].next = 1.into(), INPUT_POINTER),
        ("crooked output", OFF, |w| w.entry.output_mailbox = (OUT + 64).into(), OUTPUT_POINTER),
        ("crooked next output", OFF, |w| w.outputs[1].next = (OUT | 8).into(), OUTPUT_POINTER),
        ("input outside of memory", OFF, |w| w.entry.input_mailbox = (1 << 40).into(), FIRMWARE),
        ("output outside of memory", OFF, |w| w.outputs[2].next = (1 << 40).into(), FIRMWARE),
        ("no input", OFF, |w| w.entry.input_length = 0.into(), INPUT_LENGTH),
        ("7 bytes in", OFF, |w| w.entry.input_length = 7.into(), INPUT_LENGTH),
        ("64 KiB + 1 in", OFF, |w| w.entry.input_length = 0x1_0001.into(), INPUT_LENGTH),
        ("4 GiB in", OFF, |w| w.entry.input_length = u32::MAX.into(), INPUT_LENGTH),
        ("no output", OFF, |w| w.entry.output_length = 0.into(), OUTPUT_LENGTH),
        ("7 bytes out", OFF, |w| w.entry.output_length = 7.into(), OUTPUT_LENGTH),
        ("64 KiB + 1 out", OFF, |w| w.entry.output_length = 0x1_0001.into(), OUTPUT_LENGTH),
        ("4 GiB out", OFF, |w| w.entry.output_length = u32::MAX.into(), OUTPUT_LENGTH),
        ("a short chain in", OFF, |w| w.inputs[2].next = 0.into(), INPUT_LENGTH),
        ("no chain in", OFF, |w| w.entry.input_mailbox = 0.into(), INPUT_LENGTH),
        ("a short chain out", OFF, |w| w.outputs[0].next = 0.into(), OUTPUT_LENGTH),
        // Linux takes mailboxes from a cache, and never cuts the chain.
        ("a longer chain in", OFF, |w| w.inputs[3].next = (1 << 40).into(), OK),
        ("a longer chain out", OFF, |w| w.outputs[3].next = 3.into(), OK),
        ("a chain that loops", OFF, |w| w.inputs[2].next = IN.into(), BLOCK_NUMBER),
        ("a loop behind the end", OFF, |w| w.outputs[3].next = OUT.into(), OK),
        ("reserved in the entry", OFF, |w| w.entry.rsvd1[2] = 1, RESERVED),
        ("reserved at its end", OFF, |w| w.entry.rsvd62 = 1, RESERVED),
        ("reserved in a mailbox", OFF, |w| w.inputs[1].rsvd[47] = 1, RESERVED),
    ];
    for (name, signed, spoil, status) in rows {
        assert_eq!(delivered(signed, spoil), status, "{name}");
    }
    assert_eq!(delivered(OFF, |w| w.entry.kind = 6), DESCRIPTOR, "an entry of no known kind");
}

#[test]
fn an_entry_that_is_not_the_devices_is_left_alone() {
    let mut c = CommandHarness::new(NIC);
    let mut w = c.compose(&CommandHarness::input(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]), 16);
    w.entry.status_own = 0;
    c.put(4, &w);
    c.ring(4);
    c.settle();
    assert_eq!(c.entry(4), w.entry);
    let counted = c.device.command_counters();
    assert_eq!((counted.commands, counted.lost), (0, 1));
    // The slot can be used afterwards.
    w.entry.status_own = own::HARDWARE;
    c.put(4, &w);
    assert_eq!(c.ring(4).map(|a| a.status), Some(None));
}

#[test]
fn a_doorbell_without_a_queue_makes_no_sense() {
    let mut d = Mlx5::new(NIC);
    let mut p = RecordingPort::new(0x1000);
    p.forbidden = true;
    d.mmio_write(&mut p, Time::ZERO, Reg::at(seg::DOORBELL), 4, 1 << 24);
    assert_eq!((d.next_due(), d.counters.bad_doorbells), (None, 1));
}

#[test]
fn a_slot_rung_twice_is_executed_once() {
    let mut c = CommandHarness::new(NIC);
    let w = c.compose(&CommandHarness::input(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]), 16);
    c.put(7, &w);
    c.register(seg::DOORBELL, 1 << 7);
    assert!(c.ring(7).is_some());
    assert_eq!(c.device.command_counters().commands, 1);
}

#[test]
fn all_slots_of_one_doorbell_are_executed_in_order() {
    let mut c = CommandHarness::new(NIC);
    let w = c.compose(&CommandHarness::input(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]), 12);
    let w2 = c.compose(&CommandHarness::input(op::DISABLE_HCA, 0, &FunctionIn::ZERO, &[]), 12);
    for slot in 0..32 {
        c.put(slot, if slot % 2 == 0 { &w } else { &w2 });
    }
    c.register(seg::DOORBELL, u32::MAX);
    c.settle();
    for slot in 0..32 {
        let e = c.entry(slot);
        assert_eq!((e.status_own, e.output[0]), (0, 0), "slot {slot}");
    }
}

#[test]
fn an_output_of_twelve_bytes_is_enough_where_nothing_is_said() {
    let mut c = CommandHarness::new(NIC);
    let a = c.send(&CommandHarness::input(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]), 12);
    assert_eq!((a.delivery, a.status), (delivery::OK, None));
}

#[test]
fn an_output_too_short_for_the_answer_makes_no_object() {
    let mut c = CommandHarness::running(NIC);
    let a = c.send(&CommandHarness::input(op::ALLOC_PD, 0, &Numbered::ZERO, &[]), 8);
    assert_eq!(a.status, Some(CmdStatus::BadOutputLength));
    let first = c.alloc(op::ALLOC_PD);
    assert_eq!(c.about(op::DEALLOC_PD, first), None);
    assert_eq!(c.about(op::DEALLOC_PD, first), Some(CmdStatus::BadResource));
    assert_eq!(c.alloc(op::ALLOC_PD), first, "the refused one took no number");
}

#[test]
fn answers_are_signed() {
    let mut c = CommandHarness::new(NIC);
    c.ok(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    c.set_checksum(checksum::ENABLED);
    let a = c.ok(op::QUERY_ISSI, 0, &Numbered::ZERO, &[]);
    assert_eq!(a.out_as::<QueryIssiOut>().get(QueryIssiOut::SUPPORTED), 2);
    // The signature is made while the entry is still the device's.
    assert_eq!(xor(c.entry(0).as_bytes()) ^ own::HARDWARE, 0xff);
    for i in 0..8 {
        let at = CommandHarness::OUTPUTS as usize + i * 1024;
        let bytes = &c.port.memory[at..at + size_of::<Mailbox>()];
        assert_eq!((xor(bytes), xor(&bytes[512..575])), (0xff, 0xff), "mailbox {i}");
    }
}

#[test]
fn the_checking_of_signatures_is_the_drivers_to_choose() {
    let mut c = CommandHarness::new(NIC);
    c.ok(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    let mut caps = GeneralCaps::ZERO;
    caps.0.copy_from_slice(&c.caps(cap_type::GENERAL, 0));
    assert_eq!(caps.get(GeneralCaps::CMDIF_CHECKSUM), checksum::ENABLED);
    caps.0.copy_from_slice(&c.caps(cap_type::GENERAL, CURRENT));
    assert_eq!(caps.get(GeneralCaps::CMDIF_CHECKSUM), checksum::DISABLED);
}

#[test]
fn a_command_takes_the_time_that_the_model_gives_it() {
    let mut c = CommandHarness::new(Config { command_time: Span::from_us(7), ..NIC });
    c.ok(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]);
    assert_eq!(c.now, Time::ZERO + Span::from_us(7));
}

#[test]
fn an_answer_that_cannot_be_written_is_counted() {
    let mut c = CommandHarness::new(NIC);
    let w = c.compose(&CommandHarness::input(op::ENABLE_HCA, 0, &FunctionIn::ZERO, &[]), 16);
    c.put(0, &w);
    c.register(seg::DOORBELL, 1);
    let now = c.now;
    // Between the fetch and the answer memory goes away.
    c.port.holes.push(0x1020..0x1040);
    c.device.advance(&mut c.port, now);
    c.settle();
    assert_eq!(c.device.command_counters().lost, 1);
}

#[test]
fn an_unknown_command_is_answered_and_remembered_once() {
    let mut c = CommandHarness::running(NIC);
    for _ in 0..3 {
        assert_eq!(c.run(0x829, 0, &Numbered::ZERO, &[]).status, Some(CmdStatus::BadOp));
    }
    assert_eq!(c.run(op::MODIFY_CQ, 1, &Numbered::ZERO, &[]).status, Some(CmdStatus::BadOp));
    let seen =
        [Unknown { opcode: 0x829, modifier: 0 }, Unknown { opcode: op::MODIFY_CQ, modifier: 1 }];
    assert_eq!(c.device.unknown_commands(), seen);
    let counted = c.device.command_counters();
    assert_eq!((counted.unknown, counted.refused), (4, 4));
}

#[test]
fn a_refusal_says_which_command_in_its_syndrome() {
    let mut c = CommandHarness::running(NIC);
    let a = c.run(op::DESTROY_CQ, 0, &Numbered::ZERO, &[]);
    assert_eq!(a.out[..8], [0x05, 0, 0, 0, 0x00, 0xd0, 0x04, 0x01]);
}

#[test]
fn the_event_of_a_command_comes_from_the_next_one_on() {
    let mut c = CommandHarness::running(NIC);
    let uar = c.alloc(op::ALLOC_UAR);
    let ring = page(9);
    let eqn = c.eq(uar, 4, 2, 1 << event::CMD, &[ring]).number();
    assert_eq!(c.eqe(ring, 0).owner, 1, "CREATE_EQ itself is polled for");
    c.port.log.clear();
    let w = c.compose(&CommandHarness::input(op::ALLOC_PD, 0, &Numbered::ZERO, &[]), 16);
    c.put(31, &w);
    assert_eq!(c.ring(31).unwrap().status, None);
    let e = c.eqe(ring, 0);
    assert_eq!((e.event_type, e.owner, e.data[0].get()), (event::CMD, 0, 1 << 31));
    let writes: Vec<u64> = c
        .port
        .log
        .iter()
        .filter_map(|a| if let Access::Write(_, at, _) = a { Some(*at) } else { None })
        .collect();
    assert_eq!(writes.last(), Some(&ring), "the event comes behind the answer");
    assert!(matches!(c.port.log.last(), Some(Access::Message(_, 2))));
    // One message an arm.
    c.port.log.clear();
    c.alloc(op::ALLOC_PD);
    assert!(!c.port.log.iter().any(|a| matches!(a, Access::Message(..))));
    let arm = u64::from((eqn << 24 | 1).swap_bytes());
    c.device.mmio_write(&mut c.port, c.now, Reg::at(uar * uar::PAGE + uar::EQ_ARM), 4, arm);
    assert!(matches!(c.port.log.last(), Some(Access::Message(_, 2))), "one is already waiting");
}

/// Returns true for an access that is allowed without objects: to the queue, or mailboxes of the
/// chains.
fn is_inside(a: &Access, w: &[(u64, u64)]) -> bool {
    match a {
        Access::Read(_, at, n) | Access::Write(_, at, n) => {
            w.iter().any(|(from, to)| *from <= *at && at + *n as u64 <= *to)
        }
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_commands_do_no_harm(
        commands in prop::collection::vec(
            (0u16..0x1000, 0u32..6, prop::collection::vec(any::<u8>(), 8..900), 0usize..5000),
            1..12,
        ),
        running: bool,
    ) {
        let mut c = if running { CommandHarness::running(NIC) } else { CommandHarness::new(NIC) };
        c.port.log.clear();
        for (opcode, op_mod, mut bytes, out) in commands {
            let mut h = InHeader::ZERO;
            h.set(InHeader::OPCODE, u32::from(opcode)).set(InHeader::OP_MOD, op_mod);
            bytes[..8].copy_from_slice(&h.0);
            let w = c.compose(&bytes, out);
            c.put(0, &w);
            c.register(seg::DOORBELL, 1);
            c.settle();
            prop_assert!(c.port.log.len() < 64);
            let mine = [
                (CommandHarness::CMDQ, CommandHarness::CMDQ + 0x800),
                (CommandHarness::INPUTS, CommandHarness::PAGES),
            ];
            prop_assert!(c.port.log.iter().all(|a| is_inside(a, &mine)), "{:?}", c.port.log);
            c.port.log.clear();
        }
    }

    #[test]
    fn random_mailbox_chains_end(
        words in prop::collection::vec((0u64..0x140, 0u32..4, any::<bool>()), 64),
        entry in any::<[u8; 64]>(),
        known: bool,
        lengths in (0u32..70_000, 0u32..70_000),
    ) {
        let mut c = CommandHarness::new(NIC);
        // A field of mailboxes that point anywhere among themselves, and outside.
        for (i, (next, number, token)) in words.iter().enumerate() {
            let mut m = c.compose(&[0; 600], 16).inputs[0];
            m.next = U64::new(next * 1024);
            m.block_number = U32::new(*number);
            m.token = u8::from(*token);
            let at = CommandHarness::INPUTS as usize + i * 1024;
            c.port.memory[at..at + 576].copy_from_slice(m.as_bytes());
        }
        let mut w = c.compose(&[0; 8], 8);
        if known {
            w.entry.token = 1;
            w.entry.input_length = U32::new(lengths.0);
            w.entry.output_length = U32::new(lengths.1);
            w.entry.input_mailbox = U64::new(CommandHarness::INPUTS);
            w.entry.output_mailbox = U64::new(CommandHarness::INPUTS + 0x8000);
        } else {
            w.entry.as_mut_bytes().copy_from_slice(&entry);
        }
        c.put(3, &w);
        c.register(seg::DOORBELL, 1 << 3);
        c.settle();
        prop_assert!(c.port.log.len() <= 2 * 128 + 140, "{}", c.port.log.len());
    }
}
