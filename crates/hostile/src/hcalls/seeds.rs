//! Inputs that get somewhere.

use super::action::{Action, CALLS, DIRECT, HEADERS, TAG};
use super::guest::LOGIN;
use crate::fuzz::{Bytes, Frame, Seed, seed};
use doorbell_layout::ibmveth;
use doorbell_layout::ibmvnic::{
    AddressLength, Capability, ChangeMac, ControlIpOffload, LengthAddress, LogicalLinkState,
    MESSAGE, MulticastCtrl, RequestStatistics, cap, cmd, first, link, multicast, tx,
};
use zerocopy::byteorder::big_endian::{U16, U32, U64};

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
