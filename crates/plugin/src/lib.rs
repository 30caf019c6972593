//! A plug-in for QEMU 11.1, with three tasks: any, or several.
//!
//! `-plugin file=libdoorbell_plugin.so,count=PATH` counts executed instructions by address, on any
//! architecture, for the reader that listens at the path; `mmio=on` counts loads and stores of
//! device memory too, which is slow. The module `count` has the protocol.
//!
//! `-plugin file=libdoorbell_plugin.so,socket=A,socket=B -device doorbell-vnic,reg=…` passes
//! hypervisor calls of the pseries machine's adapters to `doorbell serve`. QEMU calls the plug-in
//! before each `sc 1`. It answers calls for its units ([`doorbell_papr_io::Adapter`]), and the CPU
//! continues behind them; all others are QEMU's. Without a server the answer is H_CLOSED. Each
//! socket is a server with its own unit.
//!
//! `-plugin file=libdoorbell_plugin.so,machine=PLAN,words=DIR,instructions=on -device doorbell-nic`
//! has an e1000 or an mlx5 run in this process by QEMU's virtual clock, and counts instructions
//! where the guest says so (`device`), with `inside=on` also those inside calls of the functions
//! that it names (`inside`); with `-device doorbell-vnic` or `doorbell-veth` an adapter. With
//! `talk=SOCKET` a host gives the guest line by line what to do (`device::talk`). With
//! `price=N` an instruction costs N picoseconds, which QEMU's own clock may not have
//! (`device::price`).
//!
//! QEMU loads a file once and passes the arguments of all `-plugin` together. Counters, calls and
//! registers are QEMU's plug-in interface, version 7; interrupts and device types are not in it
//! (`internals`, `device`).

mod calls;
mod count;
mod device;
mod inside;
mod internals;
mod node;
mod qemu;

use doorbell_host_io::shared::Window;
use doorbell_layout::ibmvnic::well_formed;
use doorbell_papr_io::{self, Adapter, Handshake, MEMORY, VNIC};
use doorbell_vfio_user::send_with_fds;
use internals::Internals;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::{fs::File, io, os::fd::AsFd, sync::OnceLock};

/// Version of the plug-in interface.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 7;

/// The plug-in's state, set once.
struct Plugin {
    internals: Internals,
    connections: Vec<Connection>,
}

/// An adapter and the socket to its server.
struct Connection {
    adapter: Adapter,
    socket: UnixStream,
    /// The guest's memory, found at the first call, when the machine exists. Its interrupts are
    /// claimed then.
    memory: OnceLock<Option<Window>>,
}

// CPUs call on their own threads. Locked are only the setup and the posting of a send.
static PLUGIN: OnceLock<Plugin> = OnceLock::new();

/// Prints an error to stderr.
macro_rules! say {
    // A closed stderr must not panic, which would end the guest.
    ($($what:tt)*) => {
        _ = std::io::Write::write_fmt(
            &mut std::io::stderr(),
            format_args!("doorbell plug-in: {}\n", format_args!($($what)*)),
        )
    };
}
pub(crate) use say;

impl Connection {
    fn open(path: &str) -> io::Result<Connection> {
        let socket = UnixStream::connect(path)?;
        let adapter = Handshake::send(&socket)?.finish(&socket, well_formed)?;
        Ok(Connection { adapter, socket, memory: OnceLock::new() })
    }

    /// Returns the guest's memory. The first call sends it to the server and claims the interrupts.
    fn memory(&self, internals: &Internals) -> Option<&Window> {
        let set_up = || {
            internals.claim(self.adapter.kind, self.adapter.unit);
            match self.find_memory() {
                Ok(memory) => Some(memory),
                Err(e) => {
                    say!("{e}");
                    self.adapter.disconnect();
                    None
                }
            }
        };
        self.memory.get_or_init(set_up).as_ref()
    }

    /// Finds QEMU's memory backend among its descriptors.
    fn find_memory(&self) -> io::Result<Window> {
        for entry in std::fs::read_dir("/proc/self/fd")? {
            let path = entry?.path();
            let to = std::fs::read_link(&path).unwrap_or_default();
            if to.as_os_str().to_string_lossy().contains("memory-backend-memfd") {
                let file = File::options().read(true).write(true).open(&path)?;
                let len = file.metadata()?.len();
                let memory = Window::map(&file, 0, len as usize, true)?;
                let announced = doorbell_papr_io::message(MEMORY, len);
                send_with_fds(&self.socket, &announced, &[file.as_fd()])?;
                return Ok(memory);
            }
        }
        Err(io::Error::other(
            "the guest's memory is no shared memfd: -object \
             memory-backend-memfd,id=ram,size=...,share=on -machine memory-backend=ram",
        ))
    }

    /// Passes interrupts to the guest until the server closes the socket.
    fn listen(&self, internals: &Internals) {
        self.adapter.listen(&self.socket, |n| internals.pulse(n.into()));
        say!("the server of unit {:#x} is gone; calls are answered H_CLOSED", self.adapter.unit);
    }
}

/// The plug-in's arguments.
#[derive(Default)]
struct Arguments<'a> {
    sockets: Vec<&'a str>,
    count: Option<&'a str>,
    instructions: bool,
    mmio: bool,
    inside: bool,
    /// The plan of a machine in this process, and the directory for the guest's words.
    machine: Option<&'a str>,
    words: Option<&'a str>,
    /// The socket of a host that talks to the guest.
    talk: Option<&'a str>,
    /// Picoseconds of an instruction.
    price: Option<u64>,
}

impl<'a> Arguments<'a> {
    /// Reads the arguments. The error says what is wrong.
    ///
    /// # Safety
    /// `argv` must have `argc` strings.
    unsafe fn read(argc: c_int, argv: *const *const c_char) -> Result<Arguments<'a>, String> {
        let mut arguments = Arguments::default();
        for i in 0..argc as usize {
            // SAFETY: QEMU hands over `argc` strings, which live as long as the plug-in.
            let text = unsafe { CStr::from_ptr(*argv.add(i)) };
            match text.to_str().ok().and_then(|t| t.split_once('=')) {
                Some(("socket", path)) => arguments.sockets.push(path),
                Some(("count", path)) if arguments.count.is_none() => arguments.count = Some(path),
                Some(("count", _)) => return Err("count=PATH is allowed once".into()),
                Some(("instructions", state @ ("on" | "off"))) => {
                    arguments.instructions = state == "on";
                }
                Some(("machine", path)) => arguments.machine = Some(path),
                Some(("words", path)) => arguments.words = Some(path),
                Some(("talk", path)) => arguments.talk = Some(path),
                Some(("price", number)) => arguments.price = Some(price(number)?),
                Some(("mmio", state @ ("on" | "off"))) => arguments.mmio = state == "on",
                Some(("inside", state @ ("on" | "off"))) => arguments.inside = state == "on",
                _ => {
                    let other = text.to_string_lossy();
                    let allowed = "socket=PATH, once for each adapter, count=PATH, mmio=on|off, \
                                   inside=on|off, machine=PLAN, words=DIR, talk=SOCKET, \
                                   price=PICOSECONDS and instructions=on|off";
                    return Err(format!("`{other}` is not known; allowed are {allowed}"));
                }
            }
        }
        if arguments.mmio && arguments.count.is_none() && !arguments.instructions {
            return Err("mmio=on needs count=PATH or instructions=on".into());
        }
        if arguments.inside && arguments.count.is_none() && !arguments.instructions {
            return Err("inside=on needs count=PATH, whose reader names functions, or \
                        instructions=on, whose guest does"
                .into());
        }
        if arguments.price.is_some() && arguments.machine.is_none() {
            return Err("price=PICOSECONDS needs machine=PLAN, which has the guest's clock".into());
        }
        if arguments.machine.is_some() != arguments.words.is_some() {
            return Err("machine=PLAN and words=DIR belong together".into());
        }
        if arguments.instructions && arguments.machine.is_none() {
            return Err("instructions=on needs machine=PLAN, whose guest says when".into());
        }
        let nothing = arguments.sockets.is_empty() && arguments.machine.is_none();
        if nothing && arguments.count.is_none() {
            return Err("it needs socket=PATH, the path of `doorbell serve vnic|veth \
                        --plugin-socket PATH`, count=PATH, the path at which a reader of counts \
                        listens, or machine=PLAN, the numbers of a machine"
                .into());
        }
        Ok(arguments)
    }
}

/// Reads the cost of an instruction in picoseconds.
fn price(text: &str) -> Result<u64, String> {
    let allowed = device::PRICES;
    text.parse().ok().filter(|n| allowed.contains(n)).ok_or_else(|| {
        let (least, most) = (allowed.start(), allowed.end());
        format!("price={text}: allowed are {least} to {most} picoseconds")
    })
}

/// Connects to each server. The error names the failed path, or two units that a guest cannot tell
/// apart.
fn connect(paths: &[&str]) -> Result<Vec<Connection>, String> {
    let mut all: Vec<Connection> = Vec::new();
    for path in paths {
        let new = Connection::open(path).map_err(|e| format!("{path}: {e}"))?;
        let unit = new.adapter.unit;
        // These bits give the number of the unit's interrupt; the lowest gives those of a vNIC's
        // queues.
        let vnic = |c: &Connection| c.adapter.kind == VNIC;
        let bits = |c: &Connection| if vnic(c) && vnic(&new) { 0x1000 } else { 0xf000 };
        if let Some(old) = all.iter().find(|c| (c.adapter.unit ^ unit) & bits(c) == 0) {
            let why = "units of one guest differ in bits 12 to 15, and two vNICs in bit 12: \
                       doorbell serve --unit";
            let beside = old.adapter.unit;
            return Err(format!("{path}: its unit {unit:#x} is beside {beside:#x}; {why}"));
        }
        all.push(new);
    }
    Ok(all)
}

/// Takes over the hypervisor calls of the servers' adapters.
fn adapt(target: &CStr, paths: &[&str]) -> Result<(), String> {
    if target != c"ppc64" {
        let target = target.to_string_lossy();
        return Err(format!("socket=PATH is for qemu-system-ppc64, and this is {target}"));
    }
    let missing =
        |name| format!("this QEMU does not export `{name}`; QEMU 11.1 as Debian builds it does");
    let internals = Internals::find().map_err(missing)?;
    let connections = connect(paths)?;
    node::register(&internals, None);
    let plugin = PLUGIN.get_or_init(|| Plugin { internals, connections });
    for connection in &plugin.connections {
        std::thread::spawn(|| connection.listen(&plugin.internals));
    }
    Ok(())
}

/// Handles a translated block. Instructions are counted first: a call jumps out over what follows.
extern "C" fn translated(block: *mut c_void, _: *mut c_void) {
    if let Some(count) = count::active() {
        // SAFETY: the block is QEMU's for the length of this call.
        unsafe { count.translated(block) };
    }
    if PLUGIN.get().is_some() || device::is_here() {
        // SAFETY: as above.
        unsafe { calls::translated(block) };
    }
}

/// Starts what the arguments ask for. The error says what is wrong.
///
/// # Safety
/// As for [`qemu_plugin_install`].
unsafe fn install(
    id: u64,
    info: *const qemu::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> Result<(), String> {
    // SAFETY: as the caller has it.
    let (arguments, target) =
        unsafe { (Arguments::read(argc, argv)?, CStr::from_ptr((*info).target_name)) };
    if !arguments.sockets.is_empty() {
        adapt(target, &arguments.sockets)?;
    }
    if let (Some(plan), Some(words)) = (arguments.machine, arguments.words) {
        let [plan, words] = [plan, words].map(Path::new);
        let talk = arguments.talk.map(Path::new);
        device::register_type(target, plan, words, talk, arguments.price)?;
    }
    if arguments.count.is_some() || arguments.instructions {
        let wrong = |e| format!("{}: {e}", arguments.count.unwrap_or("counts"));
        let more = count::More { mmio: arguments.mmio, inside: arguments.inside };
        count::start(id, target, arguments.count, more).map_err(wrong)?;
    }
    // SAFETY: the callback is of the type that the interface has, and lives as long as the process.
    unsafe {
        let none = std::ptr::null_mut::<c_void>();
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, translated, none);
    };
    Ok(())
}

/// Installs the plug-in; QEMU calls it after loading. Returns 0, or -1 to end QEMU.
///
/// # Safety
/// `info` and `argv` must be as QEMU's interface says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const qemu::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: as the caller has it.
    match unsafe { install(id, info, argc, argv) } {
        Ok(()) => 0,
        Err(e) => {
            say!("{e}");
            -1
        }
    }
}
