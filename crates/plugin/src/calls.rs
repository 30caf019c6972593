//! Hypervisor calls: finds those of the adapters and answers them, or passes them on to the adapter
//! of this process.

use crate::device::{CARRIER, is_called};
use crate::qemu::{self, ByteArray};
use crate::{PLUGIN, Plugin};
use doorbell_layout::ibmvnic::status;
use doorbell_papr_io::{self, Answer, LocalResult};
use std::ffi::{CStr, c_void};
use std::{cell::Cell, ptr::null_mut};

/// `sc 1` in either byte order.
const SC1: [[u8; 4]; 2] = [[0x22, 0, 0, 0x44], [0x44, 0, 0, 0x22]];
/// Bits of the MSR: little-endian, problem state.
const MSR_LE: u64 = 1;
const MSR_PR: u64 = 1 << 14;

/// Handles a translated block: QEMU will call [`called`] before each `sc 1` in it.
///
/// # Safety
/// The block must be QEMU's, in its translation callback.
pub(crate) unsafe fn translated(block: *mut c_void) {
    // SAFETY: the block is as the caller has it, and `n` one of its instructions.
    unsafe {
        for n in 0..qemu::qemu_plugin_tb_n_insns(block) {
            let insn = qemu::qemu_plugin_tb_get_insn(block, n);
            let mut bytes = [0u8; 4];
            let got = qemu::qemu_plugin_insn_data(insn, bytes.as_mut_ptr().cast(), 4);
            if got == 4 && SC1.contains(&bytes) {
                let at = qemu::qemu_plugin_insn_vaddr(insn) as usize;
                let at = std::ptr::without_provenance_mut(at);
                qemu::qemu_plugin_register_vcpu_insn_exec_cb(insn, called, qemu::CB_RW_REGS_PC, at);
            }
        }
    }
}

/// Handles a CPU that is at `sc 1`.
extern "C" fn called(cpu: u32, at: *mut c_void) {
    let Some(plugin) = PLUGIN.get() else { return REGISTERS.with(pass) };
    let done = REGISTERS.with(|r| call(plugin, r, cpu as usize));
    if done {
        // SAFETY: the callback is registered with that right. It jumps out over this frame, which
        // has nothing to drop.
        unsafe { qemu::qemu_plugin_set_pc(at.addr() as u64 + 4) };
    }
}

/// Passes a call for the adapter of this process on, under another number.
fn pass(r: &Registers) {
    let Some((little, number, first)) = r.call() else { return };
    if is_called(number, first) {
        r.set(3, little, CARRIER);
    }
}

/// Answers a call for one of the adapters. Returns false for any other.
fn call(p: &Plugin, r: &Registers, cpu: usize) -> bool {
    let Some((little, number, first)) = r.call() else { return false };
    let Some(c) = p.connections.iter().find(|c| u64::from(c.adapter.unit) == first) else {
        return false;
    };
    let known = doorbell_papr_io::arguments(number);
    let arguments = std::array::from_fn(|i| if i < known { r.get(4 + i, little) } else { 0 });
    // The server needs the guest's memory before its first call.
    let memory = || c.memory(&p.internals);
    let raise = |vector: u16| p.internals.pulse(vector.into());
    let answer = match c.adapter.answer_locally(number, &arguments, memory, raise) {
        LocalResult::NotOurs => return false,
        LocalResult::Answered(answer) => answer,
        LocalResult::Forward => {
            let answer = c.adapter.forward(cpu, number, &arguments);
            answer.map_or(Answer::Status(status::CLOSED), Answer::All)
        }
    };
    let code = match answer {
        Answer::Status(code) => code,
        Answer::Value(v) => {
            r.set(4, little, v);
            status::SUCCESS
        }
        Answer::All(answer) => {
            for (i, v) in answer.ret.iter().enumerate() {
                r.set(4 + i, little, *v);
            }
            answer.status
        }
    };
    r.set(3, little, code.cast_unsigned());
    true
}

/// A CPU thread's access to registers: their handles, and GLib's array that carries values.
struct Registers {
    buffer: Cell<*mut ByteArray>,
    general: [Cell<*mut c_void>; 32],
    msr: Cell<*mut c_void>,
}

thread_local! {
    static REGISTERS: Registers = const {
        Registers {
            buffer: Cell::new(null_mut()),
            general: [const { Cell::new(null_mut()) }; 32],
            msr: Cell::new(null_mut()),
        }
    };
}

impl Registers {
    /// Returns whether the kernel is little-endian, its call's number and the first argument;
    /// `None` for a call of a program, or if registers cannot be read.
    fn call(&self) -> Option<(bool, u64, u64)> {
        let msr = self.msr().filter(|msr| msr & MSR_PR == 0)?;
        let little = msr & MSR_LE != 0;
        Some((little, self.get(3, little), self.get(4, little)))
    }

    /// Returns the MSR, or `None` if registers cannot be read.
    fn msr(&self) -> Option<u64> {
        if self.buffer.get().is_null() {
            self.find();
        }
        // QEMU returns registers in the guest's byte order, which bit 0 of this one (LE) tells. The
        // first byte of a big-endian MSR has a 0 there.
        let b = self.bytes(self.msr.get())?;
        Some(if b[0] & 1 != 0 { u64::from_le_bytes(b) } else { u64::from_be_bytes(b) })
    }

    fn find(&self) {
        // SAFETY: this runs in a CPU's callback, where QEMU allows it; the array is ours and is
        // freed.
        unsafe {
            let all = qemu::qemu_plugin_get_registers();
            for i in 0..(*all).len as usize {
                let r = &*(*all).data.add(i);
                let name = CStr::from_ptr(r.name).to_bytes();
                if name == b"msr" {
                    self.msr.set(r.handle);
                }
                let number = name.strip_prefix(b"r").and_then(|n| std::str::from_utf8(n).ok());
                let number = number.and_then(|n| n.parse::<usize>().ok());
                if let Some(cell) = number.and_then(|n| self.general.get(n)) {
                    cell.set(r.handle);
                }
            }
            qemu::g_array_free(all, 1);
            self.buffer.set(qemu::g_byte_array_new());
        }
    }

    fn bytes(&self, register: *mut c_void) -> Option<[u8; 8]> {
        let buffer = self.buffer.get();
        // SAFETY: the buffer is this thread's; QEMU appends the register's bytes to it.
        unsafe {
            qemu::g_byte_array_set_size(buffer, 0);
            let read = qemu::qemu_plugin_read_register(register, buffer);
            (read && (*buffer).len >= 8).then(|| (*buffer).data.cast::<[u8; 8]>().read_unaligned())
        }
    }

    fn get(&self, n: usize, little: bool) -> u64 {
        let b = self.bytes(self.general[n].get()).unwrap_or_default();
        if little { u64::from_le_bytes(b) } else { u64::from_be_bytes(b) }
    }

    fn set(&self, n: usize, little: bool, v: u64) {
        let b = if little { v.to_le_bytes() } else { v.to_be_bytes() };
        let buffer = self.buffer.get();
        // SAFETY: as in `bytes`; the array has eight bytes when they are written.
        unsafe {
            qemu::g_byte_array_set_size(buffer, 8);
            (*buffer).data.cast::<[u8; 8]>().write_unaligned(b);
            qemu::qemu_plugin_write_register(self.general[n].get(), buffer);
        }
    }
}
