//! The device alone, by commands, WQEs and doorbells, against a port that records what it does; and
//! objects without commands and frames for the tests of its modules.

mod afterwards;
mod charge;
mod completions;
mod delivery;
mod direct;
mod doorbells;
mod ends;
mod errors;
mod flow;
pub(super) mod frames;
mod keys;
mod limits;
mod linux;
mod malformed;
mod memory;
mod objects;
mod port;
mod registers;
mod send;
mod sender;
mod system;

use super::{Config, Mlx5, Unknown};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use doorbell_hal::{Device, DropReason, EventSource, Reg, RxVerdict, Span, Time};
use doorbell_layout::mlx5::command::delivery as delivery_status;
use doorbell_layout::mlx5::command::{
    AccessReg, CAP_LEN, CURRENT, Cqc, CreateCqIn, CreateFlowGroupIn, CreateFlowTableIn,
    CreateMkeyIn, CreateRqIn, CreateSqIn, CreateTirIn, Eqc, EthCaps, FlowContext, FlowGroupIn,
    FlowTableCaps, FlowTableContext, FlowTableIn, FteIn, FunctionIn, GeneralCaps, ManagePagesIn,
    ManagePagesOut, Mkc, ModifyCqIn, ModifyNicVportIn, ModifyTirIn, NicVport, Numbered, Paos, Pmlp,
    Pmtu, Ppcnt, Ptys, QueryAdapterOut, QueryCqOut, QueryEqOut, QueryFteOut, QueryIssiOut,
    QueryMkeyOut, QueryNicVportIn, QueryNicVportOut, QueryQCounterIn, QueryQCounterOut, QueryRqOut,
    QuerySqOut, QueryTirOut, QueryTisOut, Rqc, RqtIn, SECOND_PORT, SetFteIn, SetIssiIn, Sqc, Tirc,
    TisIn, Tisc, VportCounters, VportState, Wq, access, access_mode, cap_type, destination,
    flow_action, init_segment, list_type, modify_cq, modify_tir, op, pages, paos, ppcnt, ptys,
    register, vport_field,
};
use doorbell_layout::mlx5::{
    Caps, CmdStatus, CtrlSeg, DataSeg, ETH_WQE_INSERT_VLAN, EthSeg, MKEY_MASK_FREE, MTT_WRITE,
    SqState, UmrCtrlSeg, event, opcode, port_change, syndrome, uar, umr,
};
use doorbell_testkit::mlx5::{Access, Answer, Common, RecordingPort, Written};
use flow::{delete_entry, destroy_group, destroy_table, flow_group, flow_table, fte, set_entry};
use sender::{Sender, busy, quiet, receiver, sending, touched};
use zerocopy::byteorder::big_endian::{U16, U32, U64};
use zerocopy::{Immutable, IntoBytes};

type CommandHarness = doorbell_testkit::mlx5::CommandHarness<Mlx5>;
type DeviceHarness = doorbell_testkit::mlx5::DeviceHarness<Mlx5>;

impl From<Config> for Mlx5 {
    fn from(nic: Config) -> Mlx5 {
        Mlx5::new(nic)
    }
}

const NIC: Config = Config::CONNECTX;
const BAD_RES: Option<CmdStatus> = Some(CmdStatus::BadResource);
const IN_USE: Option<CmdStatus> = Some(CmdStatus::BadResourceState);
const PARAM: Option<CmdStatus> = Some(CmdStatus::BadParam);
const OUTSIDE: Option<CmdStatus> = Some(CmdStatus::BadSystemState);
const SEND: u8 = opcode::SEND;
const MPSW: u8 = opcode::ENHANCED_MPSW;
const LSO: u8 = opcode::LSO;
const QP_OP: u8 = syndrome::LOCAL_QP_OP;
const LENGTH: u8 = syndrome::LOCAL_LENGTH;
const PROT: u8 = syndrome::LOCAL_PROT;
const FLUSH: u8 = syndrome::WR_FLUSH;
const NO_ETH: EthSeg = EthSeg {
    swp_offsets: [0; 4],
    cs_flags: 0,
    swp_flags: 0,
    mss: U16::ZERO,
    flow_table_metadata: U32::ZERO,
    inline_hdr_sz: U16::ZERO,
    inline_hdr_start: [0; 2],
};

fn ps(ps: u64) -> Time {
    Time::from_ps(ps)
}
fn us(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}
/// End in ps of a lone packet of 60 bytes announced at zero: 100 ns of pipeline, and 84 byte times
/// of 80 ps.
const LEFT: u64 = 100_000 + 84 * 80;
/// Time in ps of a packet of 60 bytes at the wire's rate.
const NEXT: u64 = 84 * 80;

/// Syndromes and counters of the CQEs since the last call.
fn cqes(b: &mut DeviceHarness) -> Vec<(u8, u16)> {
    b.cqes()
        .iter()
        .map(|c| (if c.opcode() == 13 { c.syndrome() } else { 0 }, c.wqe_counter.get()))
        .collect()
}

/// An inline segment's first dword.
fn inline(len: u32) -> [u8; 4] {
    (len | 1 << 31).to_be_bytes()
}

const DBR: u64 = CommandHarness::DBR;
const DATA: u64 = CommandHarness::DATA;

fn page(n: u64) -> u64 {
    CommandHarness::page(n)
}

fn pas(list: &[u64]) -> Vec<u8> {
    CommandHarness::pas(list)
}

/// Sends the commands of a table. A row has a name, an input, and the status that it ends with.
fn answers<const N: usize>(c: &mut CommandHarness, rows: [(&str, Vec<u8>, Option<CmdStatus>); N]) {
    for (name, input, status) in rows {
        let a = c.send(&input, 0x1010);
        assert_eq!((a.delivery, a.status), (delivery_status::OK, status), "{name}");
    }
}

fn take(c: &mut CommandHarness, n: u32) -> Vec<u64> {
    let mut m = ManagePagesIn::ZERO;
    m.set(ManagePagesIn::ENTRIES, n);
    let a = c.ok(op::MANAGE_PAGES, pages::TAKE, &m, &[]);
    let n = a.out_as::<ManagePagesOut>().get(ManagePagesOut::ENTRIES) as usize;
    a.out[16..16 + 8 * n].chunks(8).map(|b| u64::from_be_bytes(b.try_into().unwrap())).collect()
}

fn nic_vport(c: &mut CommandHarness) -> NicVport {
    let q: QueryNicVportOut =
        c.ok(op::QUERY_NIC_VPORT_CONTEXT, 0, &QueryNicVportIn::ZERO, &[]).out_as();
    *q.part(QueryNicVportOut::CONTEXT)
}

const _: () = assert!(size_of::<CreateTirIn>() == 0x80 && Mlx5::FIRST_UAR >= 4);
