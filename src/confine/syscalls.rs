//! The filter of system calls of a trial child (seccomp).
//!
//! There are two filters; the kernel applies the stricter one. Calls that only an attack makes end
//! the process, so that the attack is noticed. Any other call that reading files does not need
//! fails with `ENOSYS`, as on an older kernel: C libraries then do without it, and a harmless
//! process is not ended because of a call that only a later version of its C library makes.

use std::collections::BTreeMap;

use libc::{c_int, c_long};
use seccompiler::{
    BackendError, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

/// The calls that a filter matches, by number. A call matches if one of its rules holds, or if it
/// has no rules.
type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

/// Filters the calls of this thread and of the threads that it starts, from now on.
pub(super) fn filter() -> Result<(), seccompiler::Error> {
    let killing = compile(
        forbidden()?,
        SeccompAction::Allow,
        SeccompAction::KillProcess,
    )?;
    let refusing = compile(
        allowed()?,
        SeccompAction::Errno(libc::ENOSYS.unsigned_abs()),
        SeccompAction::Allow,
    )?;
    apply_filter(&killing)?;
    apply_filter(&refusing)
}

/// A filter that does `matching` to calls that match the rules, and `otherwise` to all others.
fn compile(
    rules: Rules,
    otherwise: SeccompAction,
    matching: SeccompAction,
) -> Result<seccompiler::BpfProgram, BackendError> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, otherwise, matching, machine)?.try_into()
}

/// The calls that reading files takes: for memory, threads, time, and files opened for reading.
fn allowed() -> Result<Rules, BackendError> {
    let mut rules = always(ALLOWED);
    rules.extend(always(ALLOWED_HERE));
    // openat(folder, path, flags) and open(path, flags), only for reading.
    rules.insert(libc::SYS_openat, vec![bits_equal(2, NOT_READING, 0)?]);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, vec![bits_equal(1, NOT_READING, 0)?]);
    // clone(flags, …), only for a thread.
    let is_thread = bits_equal(0, libc::CLONE_THREAD, libc::CLONE_THREAD)?;
    rules.insert(libc::SYS_clone, vec![is_thread]);
    // mmap(address, length, protection, …) and mprotect(address, length, protection): no code.
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![bits_equal(2, libc::PROT_EXEC, 0)?]);
    }
    // prctl(operation, …), only to name this thread and to read the auxiliary vector.
    let sets_name = equals(0, libc::PR_SET_NAME)?;
    rules.insert(libc::SYS_prctl, vec![sets_name, equals(0, PR_GET_AUXV)?]);
    // tgkill(process, …) for `abort`, and prlimit64(process, …), only for this process, which is
    // called 0 in `prlimit64`.
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    rules.insert(libc::SYS_tgkill, vec![equals(0, own)?]);
    rules.insert(libc::SYS_prlimit64, vec![equals(0, 0)?]);
    Ok(rules)
}

/// The calls that reading files never takes.
fn forbidden() -> Result<Rules, BackendError> {
    let mut rules = always(FORBIDDEN);
    rules.extend(always(FORBIDDEN_HERE));
    let is_process = bits_equal(0, libc::CLONE_THREAD, 0)?;
    rules.insert(libc::SYS_clone, vec![is_process]);
    rules.insert(libc::SYS_openat, opens_for_writing(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_open, opens_for_writing(1)?);
    Ok(rules)
}

fn always(calls: &[c_long]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

/// The operation of `prctl` that reads the auxiliary vector, in which rustix looks for the clocks.
/// The `libc` crate does not have this constant.
const PR_GET_AUXV: c_int = 0x4155_5856;

/// The flags of which none is set when a file is opened only for reading: `O_RDONLY` is 0.
const NOT_READING: c_int = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC;

/// Rules that match a call which opens a file for writing or creates it. `flags` is the number of
/// the argument with the flags, counted from 0.
fn opens_for_writing(flags: u8) -> Result<Vec<SeccompRule>, BackendError> {
    [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC]
        .iter()
        .map(|flag| bits_equal(flags, *flag, *flag))
        .collect()
}

/// Matches if the bits under `mask` of a 32-bit argument, counted from 0, equal `value`.
fn bits_equal(argument: u8, mask: c_int, value: c_int) -> Result<SeccompRule, BackendError> {
    let operator = SeccompCmpOp::MaskedEq(u64::from(mask.cast_unsigned()));
    compare(argument, operator, value)
}

/// Matches if a 32-bit argument, counted from 0, equals `value`.
fn equals(argument: u8, value: c_int) -> Result<SeccompRule, BackendError> {
    compare(argument, SeccompCmpOp::Eq, value)
}

fn compare(
    argument: u8,
    operator: SeccompCmpOp,
    value: c_int,
) -> Result<SeccompRule, BackendError> {
    let value = u64::from(value.cast_unsigned());
    let length = SeccompCmpArgLen::Dword;
    let condition = SeccompCondition::new(argument, length, operator, value)?;
    SeccompRule::new(vec![condition])
}

/// Calls that are allowed with any arguments.
const ALLOWED: &[c_long] = &[
    // Open files, and the properties of other files.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_fcntl,
    libc::SYS_flock,
    libc::SYS_fadvise64,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fstatfs,
    libc::SYS_statfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    // Memory.
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mincore,
    // Threads.
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals that this process receives.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    // Time, randomness, and this process.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_uname,
    libc::SYS_sysinfo,
];

/// Calls that are allowed with any arguments, and that only older architectures have.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[c_long] = &[];

/// Calls that end the process, whatever their arguments.
const FORBIDDEN: &[c_long] = &[
    // Other programs and processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_kill,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    // Connections.
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_io_uring_setup,
    // Changing files.
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_renameat2,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_fsetxattr,
    libc::SYS_memfd_create,
    // The system.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_setuid,
    libc::SYS_setresuid,
    libc::SYS_capset,
];

#[cfg(target_arch = "x86_64")]
const FORBIDDEN_HERE: &[c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_creat,
    libc::SYS_unlink,
    libc::SYS_rmdir,
    libc::SYS_mkdir,
    libc::SYS_mknod,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
];
#[cfg(target_arch = "aarch64")]
const FORBIDDEN_HERE: &[c_long] = &[libc::SYS_renameat];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const FORBIDDEN_HERE: &[c_long] = &[];
