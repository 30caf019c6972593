//! The system calls that a server still makes. Any other fails with EPERM, so that a library that
//! tries one goes on without it.
//!
//! The list has what other versions of the C library and of the kernel take for the same work. No
//! call opens a file, runs a program or makes memory executable.

use libc::c_long;
use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, apply_filter,
};
use std::collections::BTreeMap;
use std::io;

/// Calls with any arguments.
const ALL: &[c_long] = &[
    // Open descriptors, and those that clients pass.
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
    libc::SYS_statx,
    libc::SYS_newfstatat,
    libc::SYS_fstatfs,
    libc::SYS_ftruncate,
    libc::SYS_ppoll,
    libc::SYS_eventfd2,
    libc::SYS_memfd_create,
    // Names, in the directories that Landlock leaves.
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    // The kind of a passed descriptor, and a panic's message.
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    // Memory.
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads, time and signals of this process.
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
    // The same by older numbers.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
];

/// Calls for a peer that comes back to a UNIX socket.
const SOCKETS: [c_long; 3] = [libc::SYS_connect, libc::SYS_bind, libc::SYS_listen];

/// Requests of ioctl(2): bytes that wait, blocking or not, a terminal's kind and size.
const REQUESTS: [u64; 5] =
    [libc::FIONREAD, libc::FIONBIO, libc::TCGETS, libc::TCGETS2, libc::TIOCGWINSZ];

/// Commands of fcntl(2): flags, another descriptor of the same file, seals. No lease, no size of a
/// pipe, and no owner, to whom signals would go.
const COMMANDS: [u64; 6] = [
    libc::F_GETFL as u64,
    libc::F_GETFD as u64,
    libc::F_SETFD as u64,
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_ADD_SEALS as u64,
    libc::F_GET_SEALS as u64,
];

/// Namespaces, which a thread could have of its own.
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// Options of prctl(2): the names of a thread and of memory.
const OPTIONS: [u64; 2] = [libc::PR_SET_NAME as u64, libc::PR_SET_VMA as u64];

/// Installs the filter. Returns the number of calls that are left, or `None` if the kernel has no
/// filters.
pub(super) fn filter(sockets: bool) -> io::Result<Option<usize>> {
    let no_filters = |e: &io::Error| matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL));
    match install_both(sockets) {
        Ok(n) => Ok(Some(n)),
        Err(Error::Seccomp(e)) if no_filters(&e) => Ok(None),
        Err(Error::Seccomp(e) | Error::Prctl(e)) => Err(e),
        Err(e) => Err(io::Error::other(e)),
    }
}

fn install_both(sockets: bool) -> Result<usize, Error> {
    // The flags of clone3 are in memory, where a filter does not see them. Without it the C library
    // takes clone.
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let calls = left(sockets)?;
    let n = calls.len();
    install(clone3.clone(), SeccompAction::Allow, missing)?;
    // The stricter answer of two filters holds, so this one lets clone3 pass.
    let calls = calls.into_iter().chain(clone3).collect();
    install(calls, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)?;
    Ok(n)
}

/// Returns the calls that are left, with the conditions of which one must hold.
fn left(sockets: bool) -> Result<BTreeMap<c_long, Vec<SeccompRule>>, Error> {
    use SeccompCmpOp::{Eq, MaskedEq};
    let (thread, unix, exec) =
        (libc::CLONE_THREAD as u64, libc::AF_UNIX as u64, libc::PROT_EXEC as u64);
    let mut calls: BTreeMap<_, _> = ALL.iter().map(|n| (*n, Vec::new())).collect();
    calls.insert(libc::SYS_clone, vec![is(0, MaskedEq(thread | NAMESPACES), thread)?]);
    calls.insert(libc::SYS_mmap, vec![is(2, MaskedEq(exec), 0)?]);
    calls.insert(libc::SYS_mprotect, vec![is(2, MaskedEq(exec), 0)?]);
    calls.insert(libc::SYS_tgkill, vec![is(0, Eq, std::process::id().into())?]);
    calls.insert(libc::SYS_ioctl, one_of(1, &REQUESTS)?);
    let mut commands = one_of(1, &COMMANDS)?;
    let flags = [(1, Eq, libc::F_SETFL as u64), (2, MaskedEq(libc::O_ASYNC as u64), 0)];
    commands.push(all_of(&flags)?);
    calls.insert(libc::SYS_fcntl, commands);
    calls.insert(libc::SYS_prctl, one_of(0, &OPTIONS)?);
    if sockets {
        calls.extend(SOCKETS.map(|n| (n, Vec::new())));
        calls.insert(libc::SYS_socket, vec![is(0, Eq, unix)?]);
    }
    Ok(calls)
}

fn one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, Error> {
    values.iter().map(|v| is(argument, SeccompCmpOp::Eq, *v)).collect()
}

/// Holds where an argument, of 32 bits, is this value.
fn is(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompRule, Error> {
    all_of(&[(argument, how, value)])
}

/// Holds where each of these arguments is its value.
fn all_of(all: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, Error> {
    let condition = |(argument, how, value): &(u8, SeccompCmpOp, u64)| {
        SeccompCondition::new(*argument, SeccompCmpArgLen::Dword, how.clone(), *value)
    };
    Ok(SeccompRule::new(all.iter().map(condition).collect::<Result<_, _>>()?)?)
}

/// Returns the numbers of the calls that are left.
#[cfg(test)]
pub(super) fn numbers(sockets: bool) -> Vec<c_long> {
    left(sockets).expect("conditions that are written here").into_keys().collect()
}

fn install(
    calls: BTreeMap<c_long, Vec<SeccompRule>>,
    others: SeccompAction,
    those: SeccompAction,
) -> Result<(), Error> {
    let arch = std::env::consts::ARCH.try_into()?;
    let program: BpfProgram = SeccompFilter::new(calls, others, those, arch)?.try_into()?;
    apply_filter(&program)
}
