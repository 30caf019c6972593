//! Network namespaces, and a capture socket in one.
//!
//! All frames of an experiment cross interfaces in a namespace of its own, so that none reaches
//! the machine's network. [`NetNs`] is removed with its interfaces when dropped; [`NetNs::sweep`]
//! removes those of killed processes.
//!
//! setns(2) is per thread and for good, so [`NetNs::within`] runs its closure on a new thread.
//! Sockets, TAP devices and child processes made there stay in the namespace after it has ended.
//!
//! [`Capture`] is an AF_PACKET socket (packet(7)) that restores VLAN tags.

use crate::packet_socket::{bind, enable, raw_socket, truncated};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{getegid, geteuid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs::File, io, time::Duration};

/// Returns true if a table of TCP sockets, `/proc/net/tcp` or `tcp6`, has one that listens on a
/// port (Linux, Documentation/networking/proc_net_tcp.rst).
pub fn listens(table: &str, port: u16) -> bool {
    let own = format!(":{port:04X}");
    table.lines().any(|line| {
        let mut words = line.split_whitespace().skip(1);
        words.next().is_some_and(|local| local.ends_with(&own)) && words.nth(1) == Some("0A")
    })
}

/// Moves the calling process, which must have one thread, to a network namespace without a name.
/// It ends with the last process in it. Without root the process gets a user namespace too, in
/// which it is root.
pub fn isolate() -> io::Result<()> {
    let (user, group) = (geteuid(), getegid());
    let mut apart = UnshareFlags::NEWNET;
    if !user.is_root() {
        apart |= UnshareFlags::NEWUSER;
    }
    // SAFETY: it leaves the table of descriptors alone, which is what makes the call unsafe.
    unsafe { unshare_unsafe(apart) }?;
    if !user.is_root() {
        // In this order (user_namespaces(7)).
        std::fs::write("/proc/self/setgroups", "deny")?;
        std::fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
        std::fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))?;
    }
    Ok(())
}

/// A network namespace that lives as long as the value.
#[derive(Debug)]
pub struct NetNs {
    name: String,
    handle: File,
}

impl NetNs {
    /// Creates `<prefix>-<pid>-<n>`, which has a loopback interface that is down and nothing else.
    /// Needs CAP_SYS_ADMIN and iproute2.
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

    /// Returns its name, for `ip netns exec`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `f` on a thread in the namespace and returns its result.
    ///
    /// # Panics
    /// Panics if `f` does.
    pub fn within<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|s| {
            let thread = s.spawn(|| {
                let network = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(self.handle.as_fd(), network)?;
                Ok(f())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Runs a command line, split at blanks, in the namespace. Returns its stdout; an error
    /// contains its stderr.
    pub fn run(&self, line: &str) -> io::Result<String> {
        let mut words = line.split_whitespace();
        let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        let output = self.within(|| succeed(Command::new(program).args(words)))??;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns a command that runs `program` in the namespace. `ip netns exec` replaces itself, so
    /// the child process is the program's.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Removes the namespaces `<prefix>-<pid>-<n>` of processes that no longer exist. Returns how
    /// many.
    pub fn sweep(prefix: &str) -> usize {
        let Ok(names) = std::fs::read_dir("/run/netns") else { return 0 };
        let abandoned = |name: &String| {
            let own = name.strip_prefix(prefix).and_then(|n| n.strip_prefix('-'));
            let pid = own.and_then(|n| n.split_once('-'));
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
    // A drop cannot report an error.
    let _ = Command::new("ip").args(["netns", "del", name]).output();
}

/// Runs a command. Returns an error with its status and stderr if it fails.
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

/// A raw socket that captures the frames arriving on one interface.
#[derive(Debug)]
pub struct Capture {
    socket: OwnedFd,
}

impl Capture {
    /// Bytes of frames that the socket queues; the kernel drops the rest.
    const QUEUE: usize = 64 << 20;

    /// Captures frames that arrive on `interface` in the calling thread's namespace, but not those
    /// sent there. Needs CAP_NET_RAW and CAP_NET_ADMIN.
    pub fn open(interface: &str) -> io::Result<Capture> {
        let socket = raw_socket(Self::QUEUE)?;
        enable(&socket, libc::PACKET_IGNORE_OUTGOING)?;
        enable(&socket, libc::PACKET_AUXDATA)?;
        bind(&socket, interface)?;
        Ok(Capture { socket })
    }

    /// Reads a frame into `frame` and restores its VLAN tag. Returns its length, or `None` if none
    /// came within `wait`. A frame that does not fit, with four bytes to spare for a tag, is an
    /// error (`InvalidData`).
    pub fn receive(&self, frame: &mut [u8], wait: Duration) -> io::Result<Option<usize>> {
        let limit = Timespec::try_from(wait).map_err(|_| io::ErrorKind::InvalidInput)?;
        if poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&limit))? == 0 {
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
        let (mut len, tag) = (n as usize, vlan_tag(&message));
        if message.msg_flags & libc::MSG_TRUNC != 0 || (tag.is_some() && len + 4 > frame.len()) {
            return Err(truncated());
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

/// Returns type and TCI of the tag that the kernel took out of the frame.
fn vlan_tag(message: &libc::msghdr) -> Option<(u16, u16)> {
    // SAFETY: the kernel filled `msg_control` with well-formed control messages as far as
    // `msg_controllen` says.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !at.is_null() {
        // SAFETY: not null, so it points to a whole header inside the buffer.
        let header = unsafe { *at };
        if (header.cmsg_level, header.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
            // SAFETY: this type's data is one `tpacket_auxdata`; it may be unaligned.
            let aux: libc::tpacket_auxdata =
                unsafe { libc::CMSG_DATA(at).cast::<libc::tpacket_auxdata>().read_unaligned() };
            if aux.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
                return None;
            }
            let known = aux.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            return Some((if known { aux.tp_vlan_tpid } else { 0x8100 }, aux.tp_vlan_tci));
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

#[cfg(test)]
mod tests;
