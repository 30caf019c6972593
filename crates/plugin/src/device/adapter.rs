//! An adapter of the pseries machine whose hypervisor calls this process answers.
//!
//! QEMU asks [`is_called`] before each `sc 1`, at which its clock cannot be read. A call of the
//! adapter's gets another number there, [`CARRIER`], which QEMU passes to [`answer`]: under its
//! lock, when the instruction has ended and the clock is exact. Source: QEMU 11.1,
//! hw/ppc/spapr_hcall.c, include/hw/ppc/spapr.h.

use super::{HOST, Host, Machine, missing, realize, refuse, with};
use crate::internals::Internals;
use crate::node;
use doorbell_guest_machine::{Adapter as Numbers, Board, Card};
use doorbell_hal::HcallReturn;
use doorbell_layout::ibmvnic::{hcall, status};
use std::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number under which QEMU passes all calls on: one of those that it has no use for itself.
pub(crate) const CARRIER: u64 = hcall::SEND_SUB_CRQ_INDIRECT;

/// The number of the call that is under way; none has this one.
static UNDER_WAY: AtomicU64 = AtomicU64::new(NONE);
const NONE: u64 = u64::MAX;

/// QEMU's functions of the pseries machine.
static INTERNALS: OnceLock<Internals> = OnceLock::new();

/// The adapter's way to the guest.
pub(super) struct Adapter {
    interrupts: Vec<u16>,
    internals: &'static Internals,
}

impl Adapter {
    /// Claims the interrupts of an adapter. The first is claimed by QEMU.
    pub(super) fn of(numbers: &Numbers) -> Result<Adapter, String> {
        let Some(internals) = INTERNALS.get() else {
            return Err("QEMU makes the device before its type".to_owned());
        };
        let interrupts = numbers.interrupts();
        internals.claim_all(internals.machine(), interrupts.iter().skip(1).copied());
        Ok(Adapter { interrupts, internals })
    }

    /// Passes interrupts on.
    pub(super) fn interrupt(&self, board: &mut dyn Board) {
        for interrupt in &self.interrupts {
            if board.take_message(*interrupt) {
                self.internals.pulse_line(self.internals.machine(), (*interrupt).into());
            }
        }
    }
}

/// Registers the types of adapters, and the way of calls.
pub(super) fn register() {
    let found = || Internals::find().unwrap_or_else(|name| refuse(&missing(name)));
    let internals = INTERNALS.get_or_init(found);
    node::register(internals, Some(realize));
    (internals.register_call)(CARRIER, answer);
}

/// Returns true if this process has an adapter.
pub(crate) fn is_here() -> bool {
    HOST.get().is_some_and(|host| matches!(host.plan.card, Card::Adapter(_)))
}

/// Returns true if a call is the adapter's, with the arguments from its unit on. Its number is
/// noted.
pub(crate) fn is_called(number: u64, unit: u64) -> bool {
    let Some(Host { plan, .. }) = HOST.get() else { return false };
    let Card::Adapter(adapter) = &plan.card else { return false };
    let ours = adapter.unit() == unit && adapter.answers(number);
    if ours {
        UNDER_WAY.store(number, Ordering::Relaxed);
    }
    ours
}

/// Answers a call. QEMU has the CPU's registers from R4 on at `registers`, of which each is a
/// number of this machine.
extern "C" fn answer(_: *mut c_void, _: *mut c_void, _: u64, registers: *mut u64) -> u64 {
    let call = UNDER_WAY.swap(NONE, Ordering::Relaxed);
    let Some(host) = HOST.get().filter(|_| call != NONE) else {
        // It was called by this number, for another unit.
        return status::FUNCTION.cast_unsigned();
    };
    // SAFETY: they are those of R4 to R12, of which QEMU hands over a pointer into all 32.
    let registers = unsafe { &mut *registers.cast::<[u64; 9]>() };
    let arguments = *registers;
    let answered = with(host, |nic, host| {
        nic.at_now(host, |nic| match &mut nic.machine {
            Machine::Partition(board, _) => board.call(call, &arguments),
            Machine::Card(..) => HcallReturn::status(status::FUNCTION),
        })
    });
    let Some(HcallReturn { status, ret }) = answered else { return status::CLOSED.cast_unsigned() };
    *registers = ret;
    status.cast_unsigned()
}
