//! Firmware: commands from the queue, executed one after another.
//!
//! A wrong entry or mailbox gets a delivery status in the entry's last byte and is not executed. A
//! refused command gets a status in its output and changes nothing; an unknown one is answered
//! `BAD_OP` and remembered. The device is disabled, enabled, or running; objects exist only while
//! it runs. A destroyed object must have no user, else `BAD_RES_STATE`. Bounds: 32 slots, 64 KiB of
//! input and of output each.
//!
//! Sources: linux cmd.c, main.c, mlx5_ifc.h; the behaviour of an unmodified 6.12 driver.

mod caps;
mod delivery;
mod flow;
mod port;
mod queues;
mod resources;
mod system;
mod vport;

pub(super) use vport::CastCounters;

use super::device::{Mlx5, OBJECT};
use super::{Answer, LIMIT, ring::Ring};
use alloc::{collections::VecDeque, vec::Vec};
use delivery::Fetched;
use doorbell_hal::{Port, Time, transfer_units};
use doorbell_layout::mlx5::command::{
    CURRENT, InHeader, Numbered, OutHeader, PAS_LIST, SLOTS, access, delivery as status, op,
};
use doorbell_layout::mlx5::{CmdStatus, event};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

counters! {
    /// Counters of the command interface.
    struct CommandCounters;
    commands: "Commands executed, refused ones included.",
    refused: "Those that were refused.",
    unknown: "Those that do not exist.",
    undelivered: "Entries that could not be delivered.",
    lost: "Slots rung for that hold no command, or could not be answered.",
}

/// A command that this device does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// Its opcode.
    pub opcode: u16,
    /// Its modifier; of `ACCESS_REG`, the register.
    pub modifier: u16,
}

/// Initialization state of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
pub(super) enum Phase {
    #[default]
    Disabled,
    Enabled,
    Running,
}

/// The state of the command interface, and of what has no queue.
#[derive(Debug, Default)]
pub(super) struct Firmware {
    pub(super) cmdq: u64,
    pub(super) cmdq_hi: u32,
    /// Times that the health counter was read.
    pub(super) beats: u32,
    pub(super) phase: Phase,
    issi: u32,
    /// Signatures that are checked.
    checksum: u32,
    /// Pages that the driver gave.
    pages: Vec<u64>,
    /// Pages asked for beyond those for booting, in all.
    asked: u32,
    /// Slots rung for and not yet fetched: when.
    rung: VecDeque<(Time, u8)>,
    /// Slots rung for and not yet answered.
    busy: u32,
    /// The command that is being executed.
    current: Option<Fetched>,
    pub(super) port: port::PortState,
    pub(super) vport: vport::Vport,
    unknown: Vec<Unknown>,
    counters: CommandCounters,
}

/// Units of [`Port::charge`] of a command, with a look at each object of some kinds, which are few.
const COMMAND: u64 = 1024;
/// Parts of flow tables from before a reset that a command lets go.
const LET_GO: usize = 16;

/// Different unknown commands that are remembered at the most.
const REMEMBERED: usize = 64;

impl Firmware {
    pub(super) fn new(cfg: &super::Config) -> Firmware {
        let rung = VecDeque::with_capacity(SLOTS as usize);
        Firmware { rung, vport: vport::Vport::new(cfg), ..Firmware::default() }
    }

    /// Takes over what outlives a reset: counters and unknown commands.
    pub(super) fn inherit(&mut self, before: &mut Firmware) {
        self.counters = before.counters;
        self.unknown = core::mem::take(&mut before.unknown);
        self.port.carrier = before.port.carrier;
    }

    fn remember(&mut self, u: Unknown) {
        self.counters.unknown += 1;
        if self.unknown.len() < REMEMBERED && !self.unknown.contains(&u) {
            self.unknown.push(u);
        }
    }
}

/// The fixed part of an input.
pub(super) fn input<T>(bytes: &[u8]) -> Answer<&T>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    T::ref_from_prefix(bytes).map(|(t, _)| t).map_err(|_| CmdStatus::BadInputLength)
}

/// Returns the input from `at` on, for lists; empty when it ends before.
pub(super) fn tail(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at..).unwrap_or_default()
}

/// Writes an output whole.
pub(super) fn answer<T: IntoBytes + Immutable>(out: &mut [u8], message: &T) -> Answer {
    let bytes = message.as_bytes();
    out.get_mut(..bytes.len()).ok_or(CmdStatus::BadOutputLength)?.copy_from_slice(bytes);
    Ok(())
}

/// Writes an output as far as the driver wants to have it.
fn answer_prefix(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(out) = out.get_mut(at..) {
        let n = out.len().min(bytes.len());
        out[..n].copy_from_slice(&bytes[..n]);
    }
}

/// Answers with the number of a new object. The room for it is looked for first, so
/// that a refusal leaves no object behind.
fn answer_number(out: &mut [u8], make: impl FnOnce() -> Answer<u32>) -> Answer {
    let out = out.get_mut(8..12).ok_or(CmdStatus::BadOutputLength)?;
    out.copy_from_slice(&make()?.to_be_bytes());
    Ok(())
}

fn number(bytes: &[u8]) -> Answer<u32> {
    // The last four bytes of the message are reserved, and not sent by everybody.
    let head = bytes.get(8..12).ok_or(CmdStatus::BadInputLength)?;
    Ok(u32::from_be_bytes(core::array::from_fn(|i| head[i])) & 0xff_ffff)
}
const _: () = assert!(Numbered::NUMBER.at == 8);

pub(super) fn check(ok: bool) -> Answer {
    if ok { Ok(()) } else { Err(CmdStatus::BadParam) }
}

/// A ring that a command names by its page list.
pub(super) fn ring(bytes: &[u8], log_page_size: u32, size: u64) -> Answer<Ring> {
    Ring::new(tail(bytes, PAS_LIST), log_page_size + super::ring::LOG_PAGE, size)
}

impl Mlx5 {
    /// Counters of the command interface.
    pub fn command_counters(&self) -> CommandCounters {
        self.firmware.counters
    }

    /// The commands that were answered `BAD_OP` since power-on, each once, in order.
    pub fn unknown_commands(&self) -> &[Unknown] {
        &self.firmware.unknown
    }

    /// Takes the command doorbell: a bit for each slot. Returns true if all of them were free.
    pub(super) fn ring_commands(&mut self, at: Time, slots: u32) -> bool {
        let f = &mut self.firmware;
        if f.cmdq == 0 {
            return false;
        }
        let new = slots & !f.busy;
        f.busy |= new;
        f.rung.extend((0..SLOTS as u8).filter(|s| new >> s & 1 == 1).map(|s| (at, s)));
        new == slots
    }

    /// Returns the time of a command's next step.
    #[inline]
    pub(super) fn command_due(&self) -> Time {
        match &self.firmware.current {
            Some(c) => c.at,
            None => self.firmware.rung.front().map_or(Time::NEVER, |&(at, _)| at),
        }
    }

    #[cold]
    pub(super) fn command_step<P: Port>(&mut self, p: &mut P, at: Time) {
        if let Some(c) = self.firmware.current.take() {
            self.finish(p, at, c);
        } else if let Some((_, slot)) = self.firmware.rung.pop_front() {
            match self.fetch_entry(p, at, slot) {
                Some(c) => self.firmware.current = Some(c),
                None => {
                    self.firmware.busy &= !(1 << slot);
                    self.firmware.counters.lost += 1;
                }
            }
        }
    }

    fn finish<P: Port>(&mut self, p: &mut P, at: Time, c: Fetched) {
        let mut out = alloc::vec![0; c.output_length()];
        let before = self.eqs_for(event::CMD);
        self.rx.former.let_go(LET_GO);
        p.charge(COMMAND + self.rx.fifo_len() + transfer_units(c.input.len() + out.len()));
        if c.status == status::OK {
            self.firmware.counters.commands += 1;
            let size = self.size();
            self.execute(p, at, &c.input, &mut out);
            p.charge(size.saturating_sub(self.size()) * OBJECT);
        } else {
            self.firmware.counters.undelivered += 1;
        }
        // Not the queue as it was at the doorbell: a command may have moved it.
        self.firmware.busy &= !(1 << c.slot);
        if self.respond(p, at, &c, &out).is_err() {
            self.firmware.counters.lost += 1;
            return;
        }
        // The command that makes the event queue is still polled for.
        if let Some(eqn) = self.eqs_for(event::CMD).filter(|eqn| before == Some(*eqn)) {
            self.write_eqe(p, at, eqn, (event::CMD, 0, &[(0, 1 << c.slot)]));
        }
    }

    /// Executes a command. Its output is zero but for what it says.
    fn execute<P: Port>(&mut self, p: &mut P, at: Time, bytes: &[u8], out: &mut [u8]) {
        let Ok(header) = input::<InHeader>(bytes) else { return };
        let (opcode, op_mod) = (header.get(InHeader::OPCODE) as u16, header.get(InHeader::OP_MOD));
        let done = match self.firmware.phase >= phase_for(opcode) {
            true => self.dispatch(p, at, (opcode, op_mod), bytes, out),
            false => Err(CmdStatus::BadSystemState),
        };
        let Err(why) = done else { return };
        self.firmware.counters.refused += 1;
        out.fill(0);
        let mut header = OutHeader::ZERO;
        // Firmware's syndromes are not documented; this one says which command it was.
        header.set(OutHeader::STATUS, why as u32);
        header.set(OutHeader::SYNDROME, 0xd0_0000 | u32::from(opcode));
        out[..OutHeader::LEN].copy_from_slice(&header.0);
    }
}

/// Makes the command table: opcodes and handlers, by the phase of the device that they need.
macro_rules! commands {
    ($self:ident, $p:ident, $at:ident, $op_mod:ident, $bytes:ident, $out:ident;
        $($phase:ident { $($op:ident $(if $guard:expr)? => $run:expr,)* })*) => {
        /// Returns the phase that the device must have reached for a command.
        fn phase_for(opcode: u16) -> Phase {
            match opcode {
                $($(op::$op)|* => Phase::$phase,)*
                _ => Phase::Running,
            }
        }

        impl Mlx5 {
            fn dispatch<P: Port>(
                &mut $self,
                $p: &mut P,
                $at: Time,
                (opcode, $op_mod): (u16, u32),
                $bytes: &[u8],
                $out: &mut [u8],
            ) -> Answer {
                match opcode {
                    $($(op::$op $(if $guard)? => $run,)*)*
                    _ => {
                        $self.firmware.remember(Unknown { opcode, modifier: $op_mod as u16 });
                        Err(CmdStatus::BadOp)
                    }
                }
            }
        }
    };
}

commands! { self, p, at, op_mod, bytes, out;
    Disabled {
        ENABLE_HCA => self.enable_hca(bytes),
    }
    Enabled {
        DISABLE_HCA => self.disable_hca(),
        QUERY_ISSI => self.query_issi(out),
        SET_ISSI => self.set_issi(bytes),
        QUERY_PAGES => self.query_pages(op_mod, out),
        MANAGE_PAGES => self.manage_pages(op_mod, bytes, out),
        QUERY_HCA_CAP => self.query_hca_cap(op_mod >> 1, op_mod & CURRENT, out),
        SET_HCA_CAP => self.set_hca_cap(op_mod >> 1, bytes),
        INIT_HCA => self.init_hca(),
        TEARDOWN_HCA => self.teardown_hca(),
        QUERY_ADAPTER => self.query_adapter(out),
        ACCESS_REG => match op_mod {
            access::WRITE => self.access_reg(p, at, true, bytes, out),
            access::READ => self.access_reg(p, at, false, bytes, out),
            _ => Err(CmdStatus::BadOp),
        },
    }
    Running {
        ALLOC_UAR => answer_number(out, || self.alloc_uar()),
        DEALLOC_UAR => self.dealloc_uar(number(bytes)?),
        ALLOC_PD => answer_number(out, || self.pds.insert((), LIMIT)),
        DEALLOC_PD => self.dealloc_pd(number(bytes)?),
        ALLOC_TRANSPORT_DOMAIN => answer_number(out, || self.tds.insert((), LIMIT)),
        DEALLOC_TRANSPORT_DOMAIN => self.dealloc_td(number(bytes)?),
        CREATE_MKEY => answer_number(out, || self.on_create_mkey(bytes)),
        QUERY_MKEY => self.query_mkey(number(bytes)?, out),
        DESTROY_MKEY => self.mkeys.destroy(number(bytes)?, false),
        CREATE_TIS => answer_number(out, || self.create_tis(bytes)),
        MODIFY_TIS => self.modify_tis(bytes),
        QUERY_TIS => self.query_tis(number(bytes)?, out),
        DESTROY_TIS => self.destroy_tis(number(bytes)?),
        ALLOC_Q_COUNTER => answer_number(out, || self.alloc_q_counter()),
        DEALLOC_Q_COUNTER => self.dealloc_q_counter(number(bytes)? & 0xff),
        QUERY_Q_COUNTER => self.query_q_counter(bytes, out),
        CREATE_EQ => answer_number(out, || self.on_create_eq(bytes)),
        QUERY_EQ => self.on_query_eq(number(bytes)? & 0xff, out),
        DESTROY_EQ => self.destroy_eq(number(bytes)? & 0xff),
        CREATE_CQ => answer_number(out, || self.on_create_cq(bytes)),
        MODIFY_CQ if op_mod == 0 => self.on_modify_cq(bytes),
        QUERY_CQ => self.on_query_cq(number(bytes)?, out),
        DESTROY_CQ => self.destroy_cq(number(bytes)?),
        CREATE_SQ => answer_number(out, || self.on_create_sq(bytes)),
        MODIFY_SQ => self.on_modify_sq(bytes),
        QUERY_SQ => self.on_query_sq(number(bytes)?, out),
        DESTROY_SQ => self.destroy_sq(number(bytes)?),
        CREATE_RQ => answer_number(out, || self.on_create_rq(bytes)),
        MODIFY_RQ => self.on_modify_rq(at, bytes),
        QUERY_RQ => self.on_query_rq(number(bytes)?, out),
        DESTROY_RQ => self.destroy_rq(number(bytes)?),
        CREATE_RQT => answer_number(out, || self.on_create_rqt(bytes)),
        MODIFY_RQT => self.on_modify_rqt(bytes),
        DESTROY_RQT => self.destroy_rqt(number(bytes)?),
        CREATE_TIR => answer_number(out, || self.on_create_tir(bytes)),
        MODIFY_TIR => self.on_modify_tir(bytes),
        QUERY_TIR => self.on_query_tir(number(bytes)?, out),
        DESTROY_TIR => self.destroy_tir(number(bytes)?),
        CREATE_FLOW_TABLE => answer_number(out, || self.create_flow_table(bytes)),
        MODIFY_FLOW_TABLE => self.modify_flow_table(bytes),
        SET_FLOW_TABLE_ROOT => self.rx.paths.change().steering.set_root(flow::table(bytes)?),
        DESTROY_FLOW_TABLE => self.rx.paths.change().steering.destroy_table(flow::table(bytes)?),
        CREATE_FLOW_GROUP => answer_number(out, || self.create_flow_group(bytes)),
        DESTROY_FLOW_GROUP => self.destroy_flow_group(bytes),
        SET_FLOW_TABLE_ENTRY => self.set_fte(op_mod, bytes),
        DELETE_FLOW_TABLE_ENTRY => self.delete_fte(bytes),
        QUERY_FLOW_TABLE_ENTRY => self.query_fte(bytes, out),
        QUERY_VPORT_STATE => self.query_vport_state(out),
        MODIFY_VPORT_STATE => self.modify_vport_state(p, at, bytes),
        QUERY_NIC_VPORT_CONTEXT => self.query_nic_vport(bytes, out),
        MODIFY_NIC_VPORT_CONTEXT => self.modify_nic_vport(bytes),
        QUERY_VPORT_COUNTER => self.query_vport_counter(out),
    }
}
