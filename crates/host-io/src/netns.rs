//! A network namespace to let traffic loose in, and a capture socket on what it sends.
//!
//! Everything that puts frames on a kernel interface does it in a namespace of its
//! own, so that nothing reaches the machine's own network. [`NetNs`] has a name
//! (other programs can be started in it with `ip netns exec`), which carries the
//! process id and a count, and is removed with all its interfaces when dropped.
//! After a SIGKILL it is left over: `ip netns list` shows it, and [`NetNs::sweep`] removes it.
//!
//! A thread enters a namespace for good (setns(2) is per thread), so [`NetNs::within`]
//! runs its closure on a thread of its own. Sockets, TAP devices and child
//! processes made there belong to the namespace, also after the thread has ended.
//!
//! [`Capture`] is an AF_PACKET socket (packet(7)). The kernel takes a VLAN tag out
//! of a frame before any such socket sees it, and reports it beside; it is put back
//! here, so that what is read is what was on the wire.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A network namespace of our own.
#[derive(Debug)]
pub struct NetNs {
    name: String,
    handle: File,
}

impl NetNs {
    /// Makes one called `<prefix>-<pid>-<n>`, with its loopback down and nothing
    /// else in it. Needs CAP_SYS_ADMIN and iproute2.
    pub fn new(prefix: &str) -> io::Result<NetNs> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{prefix}-{}-{n}", std::process::id());
        succeed(Command::new("ip").args(["netns", "add", &name]))?;
        match File::open(format!("/run/netns/{name}")) {
            Ok(handle) => Ok(NetNs { name, handle }),
            Err(e) => {
                remove(&name);
                Err(e)
            }
        }
    }

    /// Its name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `f` on a thread in the namespace, and waits for it.
    ///
    /// # Panics
    /// When `f` does.
    pub fn within<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|s| {
            let thread = s.spawn(|| {
                // SAFETY: setns takes a descriptor, which `self` holds open, and changes this
                // thread alone.
                match unsafe { libc::setns(self.handle.as_raw_fd(), libc::CLONE_NEWNET) } {
                    0 => Ok(f()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs a command line, split at blanks, in the namespace. Returns what it
    /// printed; an error says what it printed to stderr.
    pub fn run(&self, line: &str) -> io::Result<String> {
        let mut words = line.split_whitespace();
        let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        let output = self.within(|| succeed(Command::new(program).args(words)))??;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl NetNs {
    /// A command line to be: `program`, in the namespace. The process is the program's own (`ip
    /// netns exec` becomes it).
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Removes namespaces called `<prefix>-<pid>-<n>` whose process is no more: those of one that
    /// was killed. Says how many.
    pub fn sweep(prefix: &str) -> usize {
        let Ok(names) = std::fs::read_dir("/run/netns") else { return 0 };
        let abandoned = |name: &String| {
            let pid = name
                .strip_prefix(prefix)
                .and_then(|n| n.strip_prefix('-'))
                .and_then(|n| n.split_once('-'));
            pid.is_some_and(|(pid, n)| {
                let number = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
                number(pid) && number(n) && !std::path::Path::new("/proc").join(pid).exists()
            })
        };
        let names = names.filter_map(|e| e.ok()?.file_name().into_string().ok()).filter(abandoned);
        names.inspect(|n| remove(n)).count()
    }
}

impl Drop for NetNs {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

fn remove(name: &str) {
    // Nobody is left to be told.
    let _ = Command::new("ip").args(["netns", "del", name]).output();
}

/// Runs a command, and makes an error of its failing.
pub(crate) fn succeed(command: &mut Command) -> io::Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|e| io::Error::new(e.kind(), format!("{program}: {e}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command:?}: {}: {}", output.status, said.trim())))
}

/// A raw socket that sees every frame that arrives on one interface.
#[derive(Debug)]
pub struct Capture {
    socket: OwnedFd,
}

/// Not in the libc crate for every target; linux/if_packet.h.
const PACKET_AUXDATA: libc::c_int = 8;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const TP_STATUS_VLAN_VALID: u32 = 1 << 4;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

/// `struct tpacket_auxdata`.
#[repr(C)]
#[derive(Clone, Copy)]
struct AuxData {
    status: u32,
    len: u32,
    snaplen: u32,
    mac: u16,
    net: u16,
    vlan_tci: u16,
    vlan_tpid: u16,
}

impl Capture {
    /// Bytes of frames that the socket holds for us; the kernel drops what is more.
    const QUEUE: libc::c_int = 64 << 20;

    /// Captures what arrives on `interface`, in the calling thread's namespace.
    /// What is sent there is not captured. Needs CAP_NET_RAW and CAP_NET_ADMIN.
    pub fn open(interface: &str) -> io::Result<Capture> {
        let name = std::ffi::CString::new(interface)?;
        // SAFETY: the name is a C string that lives past the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            let e = io::Error::last_os_error();
            return Err(io::Error::new(e.kind(), format!("interface `{interface}`: {e}")));
        }
        // Protocol 0: nothing is received before it is bound to the interface.
        // SAFETY: socket takes plain values; the descriptor it returns is ours alone.
        let socket = unsafe {
            let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
            check(fd)?;
            OwnedFd::from_raw_fd(fd)
        };
        let capture = Capture { socket };
        capture.set(libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)?;
        capture.set(libc::SOL_PACKET, PACKET_AUXDATA, 1)?;
        capture.set(libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, Self::QUEUE)?;
        // SAFETY: all zeros is a valid `sockaddr_ll`.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as libc::c_int;
        // SAFETY: bind reads one `sockaddr_ll` of the length given.
        check(unsafe {
            libc::bind(
                capture.socket.as_raw_fd(),
                (&raw const address).cast(),
                size_of::<libc::sockaddr_ll>() as libc::socklen_t,
            )
        })?;
        Ok(capture)
    }

    fn set(&self, level: libc::c_int, option: libc::c_int, value: libc::c_int) -> io::Result<()> {
        // SAFETY: setsockopt reads one int, which lives past the call.
        check(unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                level,
                option,
                (&raw const value).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        })
    }

    /// Waits at most `wait` for a frame and reads it, its tag put back, into `frame`.
    /// Returns its length, `None` when the time is over. A frame that does not fit,
    /// with four bytes to spare for a tag, is an error (`InvalidData`).
    pub fn receive(&self, frame: &mut [u8], wait: Duration) -> io::Result<Option<usize>> {
        let mut poll =
            libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let ms = wait.as_millis().min(i32::MAX as u128) as libc::c_int;
        // SAFETY: poll reads and writes the one `pollfd` it is told of.
        let ready = unsafe { libc::poll(&raw mut poll, 1, ms) };
        check(ready)?;
        if ready == 0 {
            return Ok(None);
        }
        let mut iov = libc::iovec { iov_base: frame.as_mut_ptr().cast(), iov_len: frame.len() };
        let mut control = [0u64; 16];
        // SAFETY: all zeros is a valid `msghdr`.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut iov;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        // SAFETY: recvmsg writes to `frame` and `control` within the lengths given; both live past
        // the call.
        let n = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &raw mut message, 0) };
        if n < 0 {
            return Err(io::Error::last_os_error());
        }
        let (mut len, tag) = (n as usize, tag_beside(&message));
        if message.msg_flags & libc::MSG_TRUNC != 0 || (tag.is_some() && len + 4 > frame.len()) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "a frame longer than the buffer",
            ));
        }
        if let Some((tpid, tci)) = tag {
            frame.copy_within(12..len, 16);
            frame[12..14].copy_from_slice(&tpid.to_be_bytes());
            frame[14..16].copy_from_slice(&tci.to_be_bytes());
            len += 4;
        }
        Ok(Some(len))
    }
}

/// The tag that the kernel took out: type and TCI.
fn tag_beside(message: &libc::msghdr) -> Option<(u16, u16)> {
    // SAFETY: the kernel filled `msg_control` with well-formed control messages as far as
    // `msg_controllen` says.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !at.is_null() {
        // SAFETY: not null, so it points to a whole header inside the buffer.
        let header = unsafe { *at };
        if (header.cmsg_level, header.cmsg_type) == (libc::SOL_PACKET, PACKET_AUXDATA) {
            // SAFETY: this type's data is one `tpacket_auxdata`; it may be unaligned.
            let aux = unsafe { libc::CMSG_DATA(at).cast::<AuxData>().read_unaligned() };
            if aux.status & TP_STATUS_VLAN_VALID == 0 {
                return None;
            }
            let known = aux.status & TP_STATUS_VLAN_TPID_VALID != 0;
            return Some((if known { aux.vlan_tpid } else { 0x8100 }, aux.vlan_tci));
        }
        // SAFETY: `at` is a header of this message.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    None
}

impl AsFd for Capture {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn check(status: libc::c_int) -> io::Result<()> {
    if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
