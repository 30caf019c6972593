//! Each test confines a thread of its own, which ends with it.

use super::*;
use crate::shared::{EventFd, Guard, Window, memfd};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::{ptr, thread};

/// Runs this in a sandbox with names in a directory.
fn confined<T: Send + 'static>(dir: &Path, f: impl FnOnce() -> T + Send + 'static) -> T {
    inside(Sandbox::default().with_names_in(dir), f)
}

fn inside<T: Send + 'static>(sandbox: Sandbox, f: impl FnOnce() -> T + Send + 'static) -> T {
    let run = move || {
        let confined = sandbox.enter().unwrap();
        // What the kernel has is in force, with all that this program knows of it.
        assert!(confined.calls.is_some_and(|n| n > 50), "{confined}");
        f()
    };
    thread::spawn(run).join().unwrap()
}

fn kind<T: std::fmt::Debug>(r: io::Result<T>) -> ErrorKind {
    r.unwrap_err().kind()
}

/// Makes a call with three arguments. Returns 0 or its errno.
fn call(n: libc::c_long, a: [libc::c_long; 3]) -> i32 {
    // SAFETY: the callers pass calls without memory, or with none.
    let done = unsafe { libc::syscall(n, a[0], a[1], a[2]) };
    if done < 0 { io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
}

#[test]
fn files_cannot_be_opened_and_open_ones_stay() {
    let dir = tempfile::tempdir().unwrap();
    let (own, other) = (dir.path().join("own"), dir.path().join("other"));
    fs::write(&own, "before").unwrap();
    fs::write(&other, "secret").unwrap();
    let mut open = File::options().append(true).open(&own).unwrap();
    let (at, new) = (own.clone(), dir.path().join("new"));
    File::open("/etc/passwd").expect("outside it can be opened");
    let refused = confined(dir.path(), move || {
        open.write_all(b", after").unwrap();
        [
            kind(File::open(&other)),
            kind(File::open("/etc/passwd")),
            kind(File::create(new)),
            kind(fs::read_dir("/")),
        ]
    });
    assert_eq!(refused, [ErrorKind::PermissionDenied; 4]);
    assert_eq!(fs::read_to_string(at).unwrap(), "before, after");
}

/// Landlock alone, without the filter, whose answer comes first.
#[test]
fn landlock_refuses_what_the_filter_would() {
    let dir = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::default().with_names_in(dir.path());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let run = move || {
        let files = sandbox.restrict_files().unwrap();
        let tcp = TcpStream::connect(at).is_ok();
        (files, File::open("/etc/passwd").is_ok(), tcp)
    };
    let (files, opened, connected) = thread::spawn(run).join().unwrap();
    if files == Extent::Nothing {
        println!("skipped: this kernel has no Landlock");
        return;
    }
    assert!(!opened);
    assert!(!connected || files == Extent::Part, "TCP came with Linux 6.7");
}

#[test]
fn names_appear_and_go_in_their_directory_alone() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [partial, whole] = ["x.partial", "x"].map(|n| dir.path().join(n));
    let out = elsewhere.path().join("x");
    fs::write(&partial, "all").unwrap();
    fs::write(&whole, "older").unwrap();
    let (file, socket) = (whole.clone(), dir.path().join("socket"));
    let sandbox = Sandbox::default().with_names_in(dir.path()).with_unix_sockets();
    let landlock = inside(sandbox.clone(), move || {
        let moved = fs::rename(&partial, &out);
        fs::rename(if moved.is_ok() { &out } else { &partial }, &file).unwrap();
        drop(UnixListener::bind(&socket).unwrap());
        fs::remove_file(&socket).unwrap();
        [moved.is_err(), UnixListener::bind(&out).is_err()]
    });
    assert_eq!(fs::read_to_string(whole).unwrap(), "all");
    let has = thread::spawn(move || sandbox.restrict_files().unwrap()).join().unwrap();
    assert_eq!(landlock, [has != Extent::Nothing; 2]);
}

#[test]
fn other_calls_fail_with_eperm() {
    let dir = tempfile::tempdir().unwrap();
    let own = i64::from(std::process::id());
    // Calls that harm nobody, with arguments for which they succeed outside.
    let page = rustix::param::page_size() as i64;
    let (anonymous, executable) = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, libc::PROT_EXEC);
    let map = move || {
        // SAFETY: it maps a new page, which stays.
        let at =
            unsafe { libc::mmap(ptr::null_mut(), page as usize, executable, anonymous, -1, 0) };
        if at == libc::MAP_FAILED { io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
    };
    let calls = move || {
        [
            call(libc::SYS_getppid, [0; 3]),
            call(libc::SYS_socket, [libc::AF_UNIX.into(), libc::SOCK_STREAM.into(), 0]),
            call(libc::SYS_kill, [own, 0, 0]),
            call(libc::SYS_prctl, [libc::PR_GET_DUMPABLE.into(), 0, 0]),
            map(),
        ]
    };
    assert_eq!(calls(), [0; 5]);
    assert_eq!(confined(dir.path(), calls), [libc::EPERM; 5]);
}

#[test]
fn programs_networks_and_other_processes_are_out_of_reach() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let sandbox = Sandbox::default().with_names_in(dir.path()).with_unix_sockets();
    let parent = i64::from(std::os::unix::process::parent_id());
    let refused = inside(sandbox, move || {
        let signal = call(libc::SYS_tgkill, [parent, parent, 0]);
        assert_eq!([signal, call(libc::SYS_ptrace, [0; 3])], [libc::EPERM; 2]);
        [kind(Command::new("/bin/true").status()), kind(TcpStream::connect(at))]
    });
    assert_eq!(refused, [ErrorKind::PermissionDenied; 2]);
}

#[test]
fn threads_clients_and_memory_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("peer");
    let listener = UnixListener::bind(&path).unwrap();
    let mut client = UnixStream::connect(path).unwrap();
    client.write_all(b"x").unwrap();
    let sum = confined(dir.path(), move || {
        let _guard = Guard::new().unwrap();
        listener.accept().unwrap();
        let bell = EventFd::new().unwrap();
        assert!(bell.signal());
        let memory = memfd(c"memory", 4096).unwrap();
        assert!(Window::map(&memory, 0, 4096, true).unwrap().write(0, b"x"));
        let thread = thread::Builder::new().name("second".into()).spawn(move || {
            // A thread is as confined as the one that made it.
            assert_eq!(kind(File::open("/etc/passwd")), ErrorKind::PermissionDenied);
            vec![1_u8; 1 << 22].into_iter().map(u64::from).sum::<u64>()
        });
        thread.unwrap().join().unwrap()
    });
    assert_eq!(sum, 1 << 22);
}

/// Raises SIGBUS at a page whose file is truncated.
#[test]
fn a_page_without_memory_is_still_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let file = tempfile::tempfile_in("/dev/shm").unwrap();
    file.set_len(4096).unwrap();
    let lost = confined(dir.path(), move || {
        let _guard = Guard::new().unwrap();
        let window = Window::map(&file, 0, 4096, true).unwrap();
        file.set_len(0).unwrap();
        !window.write(0, b"x")
    });
    assert!(lost);
}

#[test]
fn a_panic_in_a_sandbox_unwinds() {
    let dir = tempfile::tempdir().unwrap();
    let message = confined(dir.path(), || {
        let trace = std::backtrace::Backtrace::force_capture().to_string();
        assert!(!trace.is_empty());
        std::panic::catch_unwind(|| panic!("on purpose")).unwrap_err()
    });
    assert_eq!(message.downcast_ref(), Some(&"on purpose"));
}

#[test]
fn the_line_tells_what_the_kernel_lacks() {
    let line = |files, calls| Confined { files, calls }.to_string();
    assert_eq!(
        line(Extent::Whole, Some(70)),
        "Landlock for files, TCP and other processes; seccomp leaves 70 system calls"
    );
    assert_eq!(
        line(Extent::Nothing, None),
        "no Landlock in this kernel; no seccomp on this system"
    );
    assert!(line(Extent::Part, None).starts_with("Landlock for files, as far as"));
}

/// Makes a call with six arguments. Returns 0 or its errno.
fn call6(n: libc::c_long, a: [i64; 6]) -> i32 {
    // SAFETY: the callers pass paths that live, or arguments for which the call fails.
    let done = unsafe { libc::syscall(n, a[0], a[1], a[2], a[3], a[4], a[5]) };
    if done < 0 { io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
}

/// Calls of the list that reach nothing but what is open, own memory, own threads and the time.
const WITHIN: &[libc::c_long] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_accept4,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_shutdown,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_ftruncate,
    libc::SYS_ppoll,
    libc::SYS_eventfd2,
    libc::SYS_memfd_create,
    libc::SYS_getcwd,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_gettimeofday,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_getrandom,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_listen,
    // They tell of names, and change nothing.
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// Arguments with which a call of the list would do harm to others: the call's number with them.
/// `fd` is a socket, `page` own memory, `path` a file elsewhere.
fn harm(fd: i64, page: i64, path: i64, other: i64) -> Vec<(libc::c_long, [i64; 6])> {
    let own = i64::from(std::process::id());
    let at = i64::from(libc::AT_FDCWD);
    let exec = i64::from(libc::PROT_READ | libc::PROT_EXEC);
    let anonymous = i64::from(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let thread = i64::from(libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::CLONE_VM);
    let mut all = vec![
        // To signal a process, at once or when the descriptor is readable.
        (libc::SYS_tgkill, [other, other, 0, 0, 0, 0]),
        (libc::SYS_fcntl, [fd, libc::F_SETOWN.into(), own, 0, 0, 0]),
        (libc::SYS_fcntl, [fd, 10, 9, 0, 0, 0]), // F_SETSIG
        (libc::SYS_fcntl, [fd, 15, page, 0, 0, 0]), // F_SETOWN_EX
        (libc::SYS_fcntl, [fd, libc::F_SETFL.into(), libc::O_ASYNC.into(), 0, 0, 0]),
        // To hold up who opens a file, to take the kernel's memory, to lock.
        (libc::SYS_fcntl, [fd, libc::F_SETLEASE.into(), libc::F_RDLCK.into(), 0, 0, 0]),
        (libc::SYS_fcntl, [fd, libc::F_NOTIFY.into(), 1, 0, 0, 0]),
        (libc::SYS_fcntl, [fd, libc::F_SETPIPE_SZ.into(), 1 << 20, 0, 0, 0]),
        (libc::SYS_fcntl, [fd, libc::F_SETLKW.into(), page, 0, 0, 0]),
        (libc::SYS_fcntl, [fd, libc::F_OFD_SETLKW.into(), page, 0, 0, 0]),
        // A process, a namespace.
        (libc::SYS_clone, [libc::SIGCHLD.into(), 0, 0, 0, 0, 0]),
        (libc::SYS_clone, [thread | i64::from(libc::CLONE_NEWNET), 0, 0, 0, 0, 0]),
        // Code.
        (libc::SYS_mmap, [0, 4096, exec, anonymous, -1, 0]),
        (libc::SYS_mprotect, [page, 4096, exec, 0, 0, 0]),
        // To type into a terminal, to change a network.
        (libc::SYS_ioctl, [fd, libc::TIOCSTI as i64, page, 0, 0, 0]),
        (libc::SYS_ioctl, [fd, libc::FIOASYNC as i64, page, 0, 0, 0]),
        (libc::SYS_ioctl, [fd, 0x8901, page, 0, 0, 0]), // FIOSETOWN
        (libc::SYS_ioctl, [fd, libc::SIOCSIFFLAGS as i64, page, 0, 0, 0]),
        // To be traced, to lose the filter, to signal a child.
        (libc::SYS_prctl, [libc::PR_SET_PTRACER.into(), other, 0, 0, 0, 0]),
        (libc::SYS_prctl, [libc::PR_SET_DUMPABLE.into(), 1, 0, 0, 0, 0]),
        (libc::SYS_prctl, [libc::PR_SET_SECCOMP.into(), 0, 0, 0, 0, 0]),
        (libc::SYS_prctl, [libc::PR_SET_PDEATHSIG.into(), 9, 0, 0, 0, 0]),
        // Names elsewhere.
        (libc::SYS_unlinkat, [at, path, 0, 0, 0, 0]),
        (libc::SYS_renameat, [at, path, at, path + 1, 0, 0]),
        (libc::SYS_renameat2, [at, path, at, path + 1, 0, 0]),
    ];
    for family in [libc::AF_INET, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_VSOCK] {
        all.push((libc::SYS_socket, [family.into(), libc::SOCK_DGRAM.into(), 0, 0, 0, 0]));
    }
    #[cfg(target_arch = "x86_64")]
    all.extend([
        (libc::SYS_unlink, [path, 0, 0, 0, 0, 0]),
        (libc::SYS_rename, [path, path + 1, 0, 0, 0, 0]),
    ]);
    all
}

#[test]
fn no_call_of_the_list_does_harm() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // `path + 1` is the same path without its first slash twice: another name of the same file.
    let file = elsewhere.path().join("kept");
    fs::write(&file, "kept").unwrap();
    let path = std::ffi::CString::new(format!("/{}", file.display())).unwrap();
    let sandbox = Sandbox::default().with_names_in(dir.path()).with_unix_sockets();
    let landlock = {
        let sandbox = sandbox.clone();
        thread::spawn(move || sandbox.restrict_files().unwrap()).join().unwrap() != Extent::Nothing
    };
    let other = i64::from(std::os::unix::process::parent_id());
    let (socket, _peer) = UnixStream::pair().unwrap();
    let name = |n| matches!(n, libc::SYS_unlinkat | libc::SYS_renameat | libc::SYS_renameat2);
    #[cfg(target_arch = "x86_64")]
    let name = move |n| name(n) || matches!(n, libc::SYS_unlink | libc::SYS_rename);
    let made: Vec<_> = inside(sandbox, move || {
        let mut page = vec![0_u8; 8192];
        let page = page.as_mut_ptr().align_offset(4096) as i64 + page.as_ptr() as i64;
        let fd = i64::from(std::os::fd::AsRawFd::as_raw_fd(&socket));
        let all = harm(fd, page, path.as_ptr() as i64, other);
        all.into_iter().map(|(n, a)| (n, a, call6(n, a))).collect()
    });
    for (n, a, errno) in &made {
        match name(*n) {
            true => assert!(*errno != 0 || !landlock, "call {n} {a:?}"),
            false => assert_eq!(*errno, libc::EPERM, "call {n} {a:?}"),
        }
    }
    assert!(!landlock || fs::read_to_string(file).unwrap() == "kept");
    // Both lists together are the filter's: a call that is added to it has to be judged.
    let sockets = [libc::SYS_connect, libc::SYS_bind];
    let judged = WITHIN.iter().copied().chain(made.iter().map(|m| m.0)).chain(sockets);
    let judged: std::collections::BTreeSet<_> = judged.collect();
    let left: std::collections::BTreeSet<_> = calls::numbers(true).into_iter().collect();
    assert_eq!(judged, left);
}

#[test]
fn own_descriptors_keep_their_flags_and_seals() {
    let dir = tempfile::tempdir().unwrap();
    let (socket, _peer) = UnixStream::pair().unwrap();
    let memory = memfd(c"memory", 4096).unwrap();
    confined(dir.path(), move || {
        let flags = rustix::fs::fcntl_getfl(&socket).unwrap();
        rustix::fs::fcntl_setfl(&socket, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
        rustix::io::fcntl_setfd(&socket, rustix::io::fcntl_getfd(&socket).unwrap()).unwrap();
        drop(socket.try_clone().unwrap());
        rustix::fs::fcntl_get_seals(&memory).unwrap();
    });
}
