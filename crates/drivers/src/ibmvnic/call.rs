//! The adapter's hypervisor calls, one function each.
//!
//! A fence precedes calls that send a message, a descriptor or an array: the server is another
//! partition, and reads the memory that they name from another processor.

use doorbell_hal::{Fence, Hcall, HcallReturn, Hypervisor, Span};
use doorbell_layout::ibmvnic::{CRQ_BYTES, DESCRIPTOR, MESSAGE, hcall, status, vioctl};

/// Tries of a call that stays busy.
const TRIES: u32 = 1024;

fn call<H: Hypervisor>(h: &mut H, number: u64, a: &[u64]) -> HcallReturn {
    h.hcall(Hcall(number), a)
}

/// Repeats a call while the hypervisor is busy, at once or after the time that it asks for.
fn retry<H: Hypervisor>(h: &mut H, number: u64, a: &[u64]) -> HcallReturn {
    let mut answer = HcallReturn::status(status::BUSY);
    for _ in 0..TRIES {
        answer = call(h, number, a);
        match answer.status {
            status::BUSY | status::IN_PROGRESS => h.relax(),
            s @ status::LONG_BUSY_1_MS..=status::LONG_BUSY_100_S => {
                h.delay(Span::from_ms(10u64.pow((s - status::LONG_BUSY_1_MS) as u32)));
            }
            _ => break,
        }
    }
    answer
}

pub(super) fn register_crq<H: Hypervisor>(h: &mut H, unit: u64, ioba: u64) -> i64 {
    retry(h, hcall::REG_CRQ, &[unit, ioba, CRQ_BYTES]).status
}

pub(super) fn free_crq<H: Hypervisor>(h: &mut H, unit: u64) -> i64 {
    retry(h, hcall::FREE_CRQ, &[unit]).status
}

pub(super) fn enable_crq<H: Hypervisor>(h: &mut H, unit: u64) -> i64 {
    retry(h, hcall::ENABLE_CRQ, &[unit]).status
}

pub(super) fn signal<H: Hypervisor>(h: &mut H, unit: u64, on: bool) -> i64 {
    call(h, hcall::VIO_SIGNAL, &[unit, on.into()]).status
}

pub(super) fn send_crq<H: Hypervisor>(h: &mut H, unit: u64, m: [u8; MESSAGE]) -> i64 {
    h.fence(Fence::DmaWrite);
    let words: &[[u8; 8]; 2] = zerocopy::transmute_ref!(&m);
    call(h, hcall::SEND_CRQ, &[unit, u64::from_be_bytes(words[0]), u64::from_be_bytes(words[1])])
        .status
}

pub(super) fn register_sub_crq<H: Hypervisor>(
    h: &mut H,
    unit: u64,
    ioba: u64,
    bytes: u64,
) -> Result<(u64, u64), i64> {
    let a = retry(h, hcall::REG_SUB_CRQ, &[unit, ioba, bytes]);
    if a.status == status::SUCCESS { Ok((a.ret[0], a.ret[1])) } else { Err(a.status) }
}

pub(super) fn free_sub_crq<H: Hypervisor>(h: &mut H, unit: u64, number: u64) -> i64 {
    retry(h, hcall::FREE_SUB_CRQ, &[unit, number]).status
}

/// Switches a sub-CRQ's interrupt on or off.
pub(super) fn interrupt<H: Hypervisor>(h: &mut H, unit: u64, irq: u64, on: bool) -> i64 {
    let what = if on { vioctl::ENABLE_VIO_INTERRUPT } else { vioctl::DISABLE_VIO_INTERRUPT };
    call(h, hcall::VIOCTL, &[unit, what, irq]).status
}

/// Ends an interrupt that may be pending on XICS after a migration.
pub(super) fn end_interrupt<H: Hypervisor>(h: &mut H, irq: u64) -> i64 {
    call(h, hcall::EOI, &[0xff00_0000 | irq]).status
}

/// Returns the session's token, which changes with a failover.
pub(super) fn token<H: Hypervisor>(h: &mut H, unit: u64) -> Option<u64> {
    let answer = call(h, hcall::VIOCTL, &[unit, vioctl::GET_SESSION_TOKEN]);
    (answer.status == status::SUCCESS).then_some(answer.ret[0])
}

/// Reports the session of `token` in error, so that the server fails over.
pub(super) fn session_error<H: Hypervisor>(h: &mut H, unit: u64, token: u64) -> i64 {
    call(h, hcall::VIOCTL, &[unit, vioctl::SESSION_ERR_DETECTED, token]).status
}

/// Sends one descriptor, in registers.
pub(super) fn send<H: Hypervisor>(h: &mut H, unit: u64, handle: u64, d: [u8; DESCRIPTOR]) -> i64 {
    h.fence(Fence::DmaWrite);
    let w: &[[u8; 8]; 4] = zerocopy::transmute_ref!(&d);
    let [a, b, c, d] = w.map(u64::from_be_bytes);
    call(h, hcall::SEND_SUB_CRQ, &[unit, handle, a, b, c, d]).status
}

/// Sends `n` descriptors, in memory.
pub(super) fn send_indirect<H: Hypervisor>(
    h: &mut H,
    unit: u64,
    to: u64,
    ioba: u64,
    n: u32,
) -> i64 {
    h.fence(Fence::DmaWrite);
    call(h, hcall::SEND_SUB_CRQ_INDIRECT, &[unit, to, ioba, n.into()]).status
}
