//! The used part of QEMU's plug-in interface, version 7, and GLib's two array types. Source: QEMU
//! 11.1, include/plugins/qemu-plugin.h.

use std::ffi::{c_char, c_int, c_void};

/// `qemu_info_t`, its first part.
#[repr(C)]
pub struct Info {
    /// The emulated architecture.
    pub(crate) target_name: *const c_char,
}

/// `GByteArray` of GLib.
#[repr(C)]
pub(crate) struct ByteArray {
    pub(crate) data: *mut u8,
    pub(crate) len: u32,
}

/// `GArray` of [`Register`].
#[repr(C)]
pub(crate) struct Array {
    pub(crate) data: *const Register,
    pub(crate) len: u32,
}

/// `qemu_plugin_reg_descriptor`.
#[repr(C)]
pub(crate) struct Register {
    pub(crate) handle: *mut c_void,
    pub(crate) name: *const c_char,
    pub(crate) feature: *const c_char,
    pub(crate) read_only: bool,
}

/// `QEMU_PLUGIN_CB_RW_REGS_PC`: the callback reads and writes registers, and may set the program
/// counter.
pub(crate) const CB_RW_REGS_PC: c_int = 3;

/// `QEMU_PLUGIN_CB_NO_REGS` and `QEMU_PLUGIN_CB_R_REGS`: the callback uses no registers, or reads
/// some.
pub(crate) const CB_NO_REGS: c_int = 0;
pub(crate) const CB_R_REGS: c_int = 1;

/// `QEMU_PLUGIN_COND_NE`: the number is another than the value.
pub(crate) const NOT_EQUAL: c_int = 3;

/// `QEMU_PLUGIN_MEM_RW`: loads and stores.
pub(crate) const MEM_RW: c_int = 3;

/// `QEMU_PLUGIN_INLINE_ADD_U64` and `QEMU_PLUGIN_INLINE_STORE_U64`: the operation adds its value,
/// or stores it.
pub(crate) const INLINE_ADD: c_int = 0;
pub(crate) const INLINE_STORE: c_int = 1;

/// `QEMU_PLUGIN_DISCON_INTERRUPT` and `QEMU_PLUGIN_DISCON_EXCEPTION`: interrupts, and exceptions
/// that an instruction causes.
pub(crate) const INTERRUPTS: c_int = 1;
pub(crate) const EXCEPTIONS: c_int = 2;

/// `qemu_plugin_u64`: a number of each CPU, at an offset of the CPU's part of a scoreboard.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PerCpu {
    pub(crate) board: *mut c_void,
    pub(crate) offset: usize,
}

pub(crate) type Translated = extern "C" fn(block: *mut c_void, data: *mut c_void);
pub(crate) type Executed = extern "C" fn(cpu: u32, data: *mut c_void);
pub(crate) type Discontinued =
    extern "C" fn(cpu: u32, kind: c_int, from: u64, to: u64, data: *mut c_void);
pub(crate) type Accessed = extern "C" fn(cpu: u32, info: u32, address: u64, data: *mut c_void);

unsafe extern "C" {
    pub(crate) fn g_byte_array_new() -> *mut ByteArray;
    pub(crate) fn g_byte_array_set_size(array: *mut ByteArray, length: u32) -> *mut ByteArray;
    pub(crate) fn g_array_free(array: *mut Array, free_segment: c_int) -> *mut c_char;
    pub(crate) fn qemu_plugin_get_registers() -> *mut Array;
    pub(crate) fn qemu_plugin_read_register(handle: *mut c_void, into: *mut ByteArray) -> bool;
    pub(crate) fn qemu_plugin_write_register(handle: *mut c_void, from: *mut ByteArray) -> bool;
    pub(crate) fn qemu_plugin_read_memory_vaddr(
        address: u64,
        into: *mut ByteArray,
        len: usize,
    ) -> bool;
    pub(crate) fn qemu_plugin_set_pc(to: u64) -> !;
    pub(crate) fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, f: Translated, data: *mut c_void);
    pub(crate) fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut c_void,
        f: Executed,
        flags: c_int,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        block: *mut c_void,
        f: Executed,
        flags: c_int,
        condition: c_int,
        number: PerCpu,
        value: u64,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_tb_n_insns(block: *mut c_void) -> usize;
    pub(crate) fn qemu_plugin_tb_get_insn(block: *mut c_void, n: usize) -> *mut c_void;
    pub(crate) fn qemu_plugin_insn_data(insn: *mut c_void, into: *mut c_void, len: usize) -> usize;
    pub(crate) fn qemu_plugin_insn_vaddr(insn: *mut c_void) -> u64;
    pub(crate) fn qemu_plugin_scoreboard_new(size: usize) -> *mut c_void;
    pub(crate) fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        insn: *mut c_void,
        operation: c_int,
        number: PerCpu,
        value: u64,
    );
    pub(crate) fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        block: *mut c_void,
        operation: c_int,
        number: PerCpu,
        value: u64,
    );
    pub(crate) fn qemu_plugin_register_vcpu_discon_cb(
        id: u64,
        kinds: c_int,
        f: Discontinued,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_u64_add(number: PerCpu, cpu: u32, value: u64);
    pub(crate) fn qemu_plugin_u64_set(number: PerCpu, cpu: u32, value: u64);
    pub(crate) fn qemu_plugin_u64_get(number: PerCpu, cpu: u32) -> u64;
    pub(crate) fn qemu_plugin_u64_sum(number: PerCpu) -> u64;
    pub(crate) fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut c_void,
        f: Accessed,
        flags: c_int,
        accesses: c_int,
        data: *mut c_void,
    );
    pub(crate) fn qemu_plugin_mem_is_store(info: u32) -> bool;
    pub(crate) fn qemu_plugin_get_hwaddr(info: u32, address: u64) -> *mut c_void;
    pub(crate) fn qemu_plugin_hwaddr_is_io(address: *const c_void) -> bool;
}
