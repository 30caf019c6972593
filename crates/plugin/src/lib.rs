//! A plug-in for QEMU 11.1's pseries machine: hypervisor calls of our adapters go to `doorbell serve`.
//!
//! ```text
//! qemu-system-ppc64 -M pseries,... -plugin file=libdoorbell_plugin.so,socket=S -device doorbell-vnic,reg=0x30000003
//! ```
//!
//! At translation it finds `sc 1`, and has itself called before each. If the call is for our unit, it is answered, and
//! the CPU goes on behind it; any other is QEMU's. Calls that write translation entries are answered here, all
//! others by the server, for which the CPU waits ([`doorbell_attach::hcalls`]). If the server is gone, the answer is
//! H_CLOSED.
//!
//! **What is public and what is not.** Calls, registers and the program counter are QEMU's plug-in interface, version 7. It
//! has no interrupts and no devices, so these are QEMU's own functions, which it exports and promises nobody: they
//! are looked up by name at load, and what is missing is said and ends the start ([`internals`]).
//!
//! **Several CPUs** call at once, each on its own thread: a CPU has its own place on the board, its own register
//! buffer, and nothing here is locked but the setting-up.
//!
//! `qemu_plugin_set_pc` does not return: it jumps out over our frames. Those have nothing to be dropped by then.

mod calls;
mod internals;
mod node;
mod qemu;

use doorbell_attach::hcalls::{self, Board, HELLO, INTERRUPT, MEMORY, Table, VERSION, VETH, VNIC, WELCOME};
use doorbell_attach::shared::{EventFd, Window};
use doorbell_attach::vfio_user::send_with;
use internals::Internals;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The interface that this is written for.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 7;

/// All that there is, set once.
#[derive(Debug)]
struct Plugin {
    unit: u32,
    kind: u32,
    board: Board,
    table: Table,
    bell: EventFd,
    socket: UnixStream,
    /// The server has gone.
    gone: AtomicBool,
    internals: Internals,
    /// The guest's memory, and that the interrupts are claimed: at the first call, when the machine is there.
    memory: OnceLock<Option<Window>>,
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// Says what is wrong, as QEMU does.
macro_rules! say {
    ($($what:tt)*) => { eprintln!("doorbell plug-in: {}", format_args!($($what)*)) };
}
pub(crate) use say;

impl Plugin {
    /// Connects to the server.
    fn connect(path: &str, internals: Internals) -> io::Result<Plugin> {
        let socket = UnixStream::connect(path)?;
        let (board, board_file) = Board::create()?;
        let (table, table_file) = Table::create()?;
        let bell = EventFd::new()?;
        let hello = hcalls::message(HELLO, VERSION);
        send_with(&socket, &hello, &[board_file.as_fd(), table_file.as_fd(), bell.as_fd()])?;
        let (what, unit) = hcalls::read_message(&socket)
            .map_err(|_| io::Error::other("the server has no partition left, or is of another version"))?;
        let (unit, kind) = (unit as u32, (unit >> 32) as u32);
        if what != WELCOME || !matches!(kind, VNIC | VETH) {
            return Err(io::Error::other("the server says what this plug-in does not know"));
        }
        let gone = AtomicBool::new(false);
        Ok(Plugin { unit, kind, board, table, bell, socket, gone, internals, memory: OnceLock::new() })
    }

    /// The guest's memory. The first to ask sends it to the server, and has the interrupts made ready.
    fn memory(&self) -> Option<&Window> {
        let set_up = || {
            self.internals.claim(self.kind);
            match self.find_memory() {
                Ok(memory) => Some(memory),
                Err(e) => {
                    say!("{e}");
                    self.gone.store(true, Ordering::Relaxed);
                    None
                }
            }
        };
        self.memory.get_or_init(set_up).as_ref()
    }

    /// QEMU's memory backend, among its descriptors.
    fn find_memory(&self) -> io::Result<Window> {
        for entry in std::fs::read_dir("/proc/self/fd")? {
            let path = entry?.path();
            let named = |p: &std::path::Path| p.as_os_str().to_string_lossy().contains("memory-backend-memfd");
            if std::fs::read_link(&path).is_ok_and(|to| named(&to)) {
                let file = File::options().read(true).write(true).open(&path)?;
                let len = file.metadata()?.len();
                let memory = Window::map(&file, 0, len as usize, true)?;
                send_with(&self.socket, &hcalls::message(MEMORY, len), &[file.as_fd()])?;
                return Ok(memory);
            }
        }
        Err(io::Error::other(
            "the guest's memory is no shared memfd: -object memory-backend-memfd,id=ram,size=...,share=on -machine memory-backend=ram",
        ))
    }

    /// Waits for interrupts, as long as the server is there.
    fn listen(&self) {
        while let Ok((what, argument)) = hcalls::read_message(&self.socket) {
            if what == INTERRUPT {
                self.internals.pulse(argument as c_int);
            }
        }
        self.gone.store(true, Ordering::Relaxed);
        say!("the server is gone; calls are answered H_CLOSED");
    }
}

/// The value of `key=value` among the plug-in's arguments.
///
/// # Safety
/// `argv` has `argc` strings.
unsafe fn argument<'a>(argc: c_int, argv: *const *const c_char, key: &str) -> Option<&'a str> {
    (0..argc as usize).find_map(|i| {
        // SAFETY: QEMU hands over `argc` strings, which live as long as the call.
        let text = unsafe { CStr::from_ptr(*argv.add(i)) }.to_str().ok()?;
        text.strip_prefix(key)?.strip_prefix('=')
    })
}

/// What QEMU calls when it has loaded the plug-in.
///
/// # Safety
/// `info` and `argv` are as QEMU's interface says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const qemu::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU's, for the length of the call.
    let target = unsafe { CStr::from_ptr((*info).target_name) };
    if target != c"ppc64" {
        say!("it is for qemu-system-ppc64, and this is {}", target.to_string_lossy());
        return -1;
    }
    // SAFETY: as above.
    let Some(path) = (unsafe { argument(argc, argv, "socket") }) else {
        say!("it wants socket=PATH, where `doorbell serve vnic|veth --plugin-socket PATH` listens");
        return -1;
    };
    let internals = match Internals::find() {
        Ok(found) => found,
        Err(missing) => {
            say!("this QEMU does not export `{missing}`; QEMU 11.1 as Debian builds it does");
            return -1;
        }
    };
    let plugin = match Plugin::connect(path, internals) {
        Ok(p) => p,
        Err(e) => {
            say!("{path}: {e}");
            return -1;
        }
    };
    node::register(&plugin.internals);
    let plugin = PLUGIN.get_or_init(|| plugin);
    std::thread::spawn(|| plugin.listen());
    // SAFETY: the callback is of the type that the interface has, and lives as long as the process.
    unsafe { qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, calls::translated, std::ptr::null_mut::<c_void>()) };
    0
}
