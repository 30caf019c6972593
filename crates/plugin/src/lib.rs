//! A plug-in for QEMU 11.1's pseries machine: hypervisor calls of our adapters go to `doorbell
//! serve`.
//!
//! ```text
//! qemu-system-ppc64 -M pseries,... -plugin file=libdoorbell_plugin.so,socket=S -device doorbell-vnic,reg=0x30000003
//! ```
//!
//! At translation it finds `sc 1`, and has itself called before each. If the call is for a unit of
//! ours, it is answered, and the CPU goes on behind it; any other is QEMU's. Which calls are
//! answered here, and for which the CPU waits until the server
//! has, is [`doorbell_papr_io::Adapter`]'s to say. If the server is gone, the answer is
//! H_CLOSED.
//!
//! **Several adapters**: `socket=A,socket=B`, each a server with a unit of its own (`doorbell serve
//! --unit`). QEMU loads a file once, also when `-plugin` names it twice, and then hands over all
//! arguments together.
//!
//! **What is public and what is not.** Calls, registers and the program counter are QEMU's plug-in
//! interface, version 7. It has no interrupts and no devices, so these are QEMU's own functions,
//! which it exports and promises nobody: they are looked up by name at load, and what is missing is
//! said and ends the start ([`internals`]).
//!
//! **Several CPUs** call at once, each on its own thread: a CPU has its own place on the board and
//! its own register buffer. Locked are the setting-up and the writing of a posted send, a few
//! hundred bytes.
//!
//! `qemu_plugin_set_pc` does not return: it jumps out over our frames. Those have nothing to be
//! dropped by then.

mod calls;
mod internals;
mod node;
mod qemu;

use doorbell_devices::vnic;
use doorbell_host_io::shared::Window;
use doorbell_papr_io::{self, Adapter, INTERRUPT, MEMORY, Offer, VNIC};
use doorbell_vfio_user::send_with;
use internals::Internals;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::OnceLock;

/// The interface that this is written for.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 7;

/// All that there is, set once.
#[derive(Debug)]
struct Plugin {
    internals: Internals,
    connections: Vec<Connection>,
}

/// An adapter and its server.
#[derive(Debug)]
struct Connection {
    adapter: Adapter,
    socket: UnixStream,
    /// The guest's memory, and that the interrupts are claimed: at the first call, when the
    /// machine is there.
    memory: OnceLock<Option<Window>>,
}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// Says what is wrong, as QEMU does.
macro_rules! say {
    // A stderr that nobody reads is no reason for a panic, which would end the guest.
    ($($what:tt)*) => {
        _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("doorbell plug-in: {}\n", format_args!($($what)*)))
    };
}
pub(crate) use say;

impl Connection {
    /// Connects to the server.
    fn open(path: &str) -> io::Result<Connection> {
        let socket = UnixStream::connect(path)?;
        let adapter = Offer::send(&socket)?.accepted(&socket, vnic::well_formed)?;
        Ok(Connection { adapter, socket, memory: OnceLock::new() })
    }

    /// The guest's memory. The first to ask sends it to the server, and has the interrupts made
    /// ready.
    fn memory(&self, internals: &Internals) -> Option<&Window> {
        let set_up = || {
            internals.claim(self.adapter.kind, self.adapter.unit);
            match self.find_memory() {
                Ok(memory) => Some(memory),
                Err(e) => {
                    say!("{e}");
                    self.adapter.lost();
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
            let named = |p: &std::path::Path| {
                p.as_os_str().to_string_lossy().contains("memory-backend-memfd")
            };
            if std::fs::read_link(&path).is_ok_and(|to| named(&to)) {
                let file = File::options().read(true).write(true).open(&path)?;
                let len = file.metadata()?.len();
                let memory = Window::map(&file, 0, len as usize, true)?;
                send_with(&self.socket, &doorbell_papr_io::message(MEMORY, len), &[file.as_fd()])?;
                return Ok(memory);
            }
        }
        Err(io::Error::other(
            "the guest's memory is no shared memfd: -object memory-backend-memfd,id=ram,size=...,share=on -machine memory-backend=ram",
        ))
    }

    /// Waits for interrupts, as long as the server is there.
    fn listen(&self, internals: &Internals) {
        while let Ok((what, argument)) = doorbell_papr_io::read_message(&self.socket) {
            if what == INTERRUPT && self.adapter.comes(argument as u16) {
                internals.pulse(argument as c_int);
            }
        }
        self.adapter.lost();
        say!("the server of unit {:#x} is gone; calls are answered H_CLOSED", self.adapter.unit);
    }
}

/// The paths of `socket=PATH,socket=PATH`; an argument that is none is the error.
///
/// # Safety
/// `argv` has `argc` strings.
unsafe fn sockets<'a>(argc: c_int, argv: *const *const c_char) -> Result<Vec<&'a str>, String> {
    let argument = |i: usize| {
        // SAFETY: QEMU hands over `argc` strings, which live as long as the call.
        let text = unsafe { CStr::from_ptr(*argv.add(i)) };
        let path = text.to_str().ok().and_then(|t| t.strip_prefix("socket="));
        path.ok_or_else(|| text.to_string_lossy().into_owned())
    };
    (0..argc as usize).map(argument).collect()
}

/// Connects to each server.
fn connect(paths: &[&str]) -> Result<Vec<Connection>, String> {
    let mut all: Vec<Connection> = Vec::new();
    for path in paths {
        let new = Connection::open(path).map_err(|e| format!("{path}: {e}"))?;
        let unit = new.adapter.unit;
        // The interrupt's number is in these bits; the interrupts of a vNIC's queues are found by
        // the lowest of them.
        let vnic = |c: &Connection| c.adapter.kind == VNIC;
        let bits = |c: &Connection| if vnic(c) && vnic(&new) { 0x1000 } else { 0xf000 };
        if let Some(old) = all.iter().find(|c| (c.adapter.unit ^ unit) & bits(c) == 0) {
            let why = "units of one guest differ in bits 12 to 15, and two vNICs in bit 12: doorbell serve --unit";
            return Err(format!(
                "{path}: its unit {unit:#x} is beside {:#x}; {why}",
                old.adapter.unit
            ));
        }
        all.push(new);
    }
    Ok(all)
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
    let paths = match unsafe { sockets(argc, argv) } {
        Ok(paths) if !paths.is_empty() => paths,
        Ok(_) => {
            say!(
                "it wants socket=PATH, where `doorbell serve vnic|veth --plugin-socket PATH` listens"
            );
            return -1;
        }
        Err(other) => {
            say!("`{other}` is not known; allowed is socket=PATH, once for each adapter");
            return -1;
        }
    };
    let internals = match Internals::find() {
        Ok(found) => found,
        Err(missing) => {
            say!("this QEMU does not export `{missing}`; QEMU 11.1 as Debian builds it does");
            return -1;
        }
    };
    let connections = match connect(&paths) {
        Ok(all) => all,
        Err(e) => {
            say!("{e}");
            return -1;
        }
    };
    node::register(&internals);
    let plugin = PLUGIN.get_or_init(|| Plugin { internals, connections });
    for connection in &plugin.connections {
        std::thread::spawn(|| connection.listen(&plugin.internals));
    }
    // SAFETY: the callback is of the type that the interface has, and lives as long as the process.
    unsafe {
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(
            id,
            calls::translated,
            std::ptr::null_mut::<c_void>(),
        );
    };
    0
}
