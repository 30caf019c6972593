//! Hypervisor calls by a small guest that reads them from a mailbox.
//!
//! A call is an instruction (`sc 1`), so a guest must run: 27 instructions that wait for a word in
//! memory, load the registers from the words behind it, call, store the results, clear the word.
//!
//! Source: Power ISA 2.07, book I (instruction forms), book III (`sc` with LEV = 1); PAPR (call
//! number in R3, arguments from R4 on, status in R3, results from R4 on). QEMU starts a `pseries`
//! CPU at 0x100, in 64-bit big-endian mode.

use super::{Error, Qemu, Ram};
use std::sync::atomic::{Ordering, fence};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// Address of the mailbox: a flag, call number and nine arguments, and from [`RESULTS`] on status
/// and six results.
const MAILBOX: u64 = 0x1_0000;
/// Words of the call.
const WORDS: usize = 10;
/// Offset of the status in the mailbox.
const RESULTS: u64 = 0x80;
/// Number of return registers.
const RETURNS: usize = 6;
/// The first free byte of memory.
pub(super) const FREE_FROM: u64 = 0x10_0000;

/// Address of the first instruction.
const ENTRY: usize = 0x100;

/// Returns the firmware image, to be loaded at 0.
pub(super) fn firmware() -> Vec<u8> {
    // D-form and DS-form: opcode, register, base, displacement.
    let d = |op: u32, reg: u32, base: u32, at: u32| op << 26 | reg << 21 | base << 16 | at & 0xffff;
    let lis = |reg, v| d(15, reg, 0, v);
    let li = |reg, v| d(14, reg, 0, v);
    let ld = |reg, at| d(58, reg, BASE, at);
    let std = |reg, at| d(62, reg, BASE, at);
    const BASE: u32 = 31;
    const LWSYNC: u32 = 0x7c20_04ac;
    const CMPDI_R0_0: u32 = 0x2c20_0000;
    const SC_1: u32 = 0x4400_0022;
    let words = |from: usize, to: usize| ((to as i64 - from as i64) * 4) as u32;

    let mut code = vec![lis(BASE, (MAILBOX >> 16) as u32)];
    let wait = code.len();
    code.extend([ld(0, 0), CMPDI_R0_0]);
    // beq wait
    code.push(16 << 26 | 12 << 21 | 2 << 16 | words(code.len(), wait) & 0xfffc);
    code.push(LWSYNC);
    code.extend((0..WORDS as u32).map(|i| ld(3 + i, 8 + 8 * i)));
    code.push(SC_1);
    code.extend((0..1 + RETURNS as u32).map(|i| std(3 + i, RESULTS as u32 + 8 * i)));
    code.extend([LWSYNC, li(0, 0), std(0, 0)]);
    // b wait
    code.push(18 << 26 | words(code.len(), wait) & 0x03ff_fffc);

    let mut image = vec![0; ENTRY];
    image.extend(code.into_iter().flat_map(u32::to_be_bytes));
    image
}

/// Makes call `number` with arguments `a`. Returns status and results.
///
/// # Errors
/// If the guest does not answer within `patience` of real time.
pub(super) fn call(
    qemu: &mut Qemu,
    ram: &Ram,
    number: u64,
    a: &[u64],
    patience: Duration,
) -> Result<(i64, [u64; RETURNS]), Error> {
    let mut bytes = [0; 8 * WORDS];
    for (to, v) in bytes.chunks_exact_mut(8).zip([number].iter().chain(a)) {
        to.copy_from_slice(&v.to_be_bytes());
    }
    ram.write(qemu, MAILBOX + 8, &bytes)?;
    // The guest polls the flag; only one byte of it changes, so it is never half written.
    fence(Ordering::SeqCst);
    ram.write(qemu, MAILBOX + 7, &[1])?;
    let asked_at = Instant::now();
    let mut flag = [1; 8];
    for turn in 0u32.. {
        ram.read(qemu, MAILBOX, &mut flag)?;
        if flag == [0; 8] {
            break;
        }
        // Yields, since the guest may share this core.
        if turn % 64 == 63 {
            yield_now();
            if asked_at.elapsed() > patience {
                return Err(Error::Silent {
                    asked: format!("hypervisor call {number:#x}"),
                    waited: patience,
                });
            }
        }
    }
    fence(Ordering::SeqCst);
    let mut results = [0; 8 * (1 + RETURNS)];
    ram.read(qemu, MAILBOX + RESULTS, &mut results)?;
    let mut words =
        results.chunks_exact(8).map(|w| u64::from_be_bytes(w.try_into().unwrap_or_default()));
    let status = words.next().unwrap_or_default() as i64;
    let mut ret = [0; RETURNS];
    ret.iter_mut().zip(words).for_each(|(to, v)| *to = v);
    Ok((status, ret))
}

#[cfg(test)]
mod tests;
