//! System calls (seccomp, seccomp(2)): which each role keeps.
//!
//! A list of what is allowed; everything else fails with EPERM. Threads are started by `clone`,
//! whose flags a filter can see; `clone3` takes them by a pointer, so it is answered with ENOSYS,
//! at which the C library falls back to `clone`. Nobody can start a process, trace another,
//! load a module, mount, or change its user.

use crate::Role;
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;

/// What every thread does: memory, time, locks, waiting, open descriptors, reading files; and a
/// narrower role is entered.
const COMMON: &[c_long] = &[
    libc::SYS_brk,
    libc::SYS_capget,
    libc::SYS_capset,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_close,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_getuid,
    libc::SYS_ioctl,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_prlimit64,
    libc::SYS_pselect6,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_seccomp,
    libc::SYS_set_robust_list,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_sysinfo,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];

/// The same by their older names, which other architectures never had.
#[cfg(target_arch = "x86_64")]
const OLDER: &[c_long] = &[
    libc::SYS_access,
    libc::SYS_dup2,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_select,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// Sockets that are open already.
const TALKING: &[c_long] = &[
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
];

/// Datagrams by sockets that are open already.
const ASKING: &[c_long] = &[libc::SYS_recvmsg, libc::SYS_sendmsg];

/// Messages of the kernel by sockets that are open already.
const TELLING: &[c_long] = &[libc::SYS_recvfrom, libc::SYS_sendto];

/// Ports: BPF programs, shared memory, and punctuality.
const PORTS: &[c_long] = &[
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_ftruncate,
    libc::SYS_memfd_create,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
];

/// Sockets that others connect to.
const SERVING: &[c_long] = &[
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
];

/// Files that are made, written, exchanged and removed.
const WRITING: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_mkdirat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
];

#[cfg(target_arch = "x86_64")]
const OLDER_WRITING: &[c_long] = &[
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_mkdir,
    libc::SYS_rename,
    libc::SYS_rmdir,
    libc::SYS_unlink,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_WRITING: &[c_long] = &[];

/// What a role may do.
struct Allowed {
    calls: Vec<&'static [c_long]>,
    /// The families of which it may make sockets; none: of all.
    sockets: Option<&'static [i32]>,
    threads: bool,
}

fn allowed(role: Role) -> Allowed {
    const LOCAL: &[i32] = &[libc::AF_UNIX];
    const INTERNET: &[i32] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    const PACKETS: &[i32] = &[
        libc::AF_UNIX,
        libc::AF_INET,
        libc::AF_INET6,
        libc::AF_NETLINK,
        libc::AF_PACKET,
        libc::AF_XDP,
    ];
    let (calls, sockets, threads): (Vec<&'static [c_long]>, _, _) = match role {
        Role::Program => (
            vec![TALKING, PORTS, SERVING, WRITING, OLDER_WRITING],
            PACKETS,
            true,
        ),
        Role::DataPlane => (vec![TALKING, PORTS], PACKETS, false),
        Role::Control => (vec![TALKING, SERVING, WRITING, OLDER_WRITING], INTERNET, true),
        Role::Rsvp => (
            vec![TALKING, &[libc::SYS_bind, libc::SYS_connect]],
            INTERNET,
            true,
        ),
        Role::Law => (Vec::new(), &[][..], true),
        Role::Probe => (vec![ASKING], &[][..], true),
        Role::Connections => (vec![TELLING], &[][..], true),
        Role::Web => (
            vec![TALKING, &[libc::SYS_accept4, libc::SYS_connect]],
            LOCAL,
            true,
        ),
        Role::Viewer => (vec![TALKING, &[libc::SYS_connect]], LOCAL, true),
    };
    Allowed {
        calls: [vec![COMMON, OLDER], calls].concat(),
        sockets: Some(sockets),
        threads,
    }
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;
type Made<T> = Result<T, seccompiler::BackendError>;

/// Allowed if this argument, where the mask is set, is this value.
fn if_argument(number: u8, mask: u64, value: u64) -> Made<SeccompRule> {
    let operation = SeccompCmpOp::MaskedEq(mask);
    SeccompRule::new(vec![SeccompCondition::new(
        number,
        SeccompCmpArgLen::Dword,
        operation,
        value,
    )?])
}

fn rules(role: Role) -> Made<Rules> {
    const ALL_BITS: u64 = 0xffff_ffff;
    let allowed = allowed(role);
    let plain = allowed.calls.concat().into_iter();
    let mut rules: Rules = plain.map(|call| (call, Vec::new())).collect();
    if let Some(families) = allowed.sockets.filter(|families| !families.is_empty()) {
        let family = |family: &i32| if_argument(0, ALL_BITS, *family as u64);
        rules.insert(
            libc::SYS_socket,
            families.iter().map(family).collect::<Made<_>>()?,
        );
    }
    if allowed.threads {
        let flag = libc::CLONE_THREAD as u64;
        rules.insert(libc::SYS_clone, vec![if_argument(0, flag, flag)?]);
    }
    // A signal that ends the program is sent by the handler to itself, in whichever thread.
    let us = u64::from(std::process::id());
    for call in [libc::SYS_kill, libc::SYS_tgkill] {
        rules.insert(call, vec![if_argument(0, ALL_BITS, us)?]);
    }
    // The other filter answers it.
    rules.insert(libc::SYS_clone3, Vec::new());
    Ok(rules)
}

/// The filters of a role: what is allowed, and the answer to `clone3`.
fn programs(role: Role) -> Made<[BpfProgram; 2]> {
    let here = std::env::consts::ARCH.try_into()?;
    let refused = SeccompAction::Errno(libc::EPERM as u32);
    let list = SeccompFilter::new(rules(role)?, refused, SeccompAction::Allow, here)?;
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    let one = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let clone3 = SeccompFilter::new(one, SeccompAction::Allow, absent, here)?;
    Ok([list.try_into()?, clone3.try_into()?])
}

/// Takes away everything else.
pub(crate) fn keep(role: Role) -> Result<(), String> {
    let programs = programs(role).map_err(|why| format!("no filter of system calls here: {why}"))?;
    // The second goes first: the list then covers what installs it.
    for program in programs.iter().rev() {
        seccompiler::apply_filter(program).map_err(|why| format!("system calls are not ruled out: {why}"))?;
    }
    Ok(())
}

/// What this kernel lacks.
pub(crate) fn lacking() -> Option<String> {
    let actions = std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let has = actions.split_whitespace().any(|action| action == "errno");
    (!has).then(|| "system calls are not ruled out: this kernel has no seccomp filters".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a filter says to a system call with a first argument: the classic BPF of seccomp(2), as
    /// far as filters here use it.
    fn verdict(program: &BpfProgram, call: c_long, argument: u64) -> u32 {
        const ARCH: u32 = if cfg!(target_arch = "x86_64") {
            0xc000_003e
        } else {
            0xc000_00b7
        };
        let word = |at: u32| match at {
            0 => call as u32,
            4 => ARCH,
            16 => argument as u32,
            20 => (argument >> 32) as u32,
            _ => 0,
        };
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let instruction = &program[at];
            let (k, jt, jf) = (instruction.k, instruction.jt, instruction.jf);
            at += 1;
            let mut jump = |taken: bool| at += usize::from(if taken { jt } else { jf });
            match instruction.code {
                0x20 => accumulator = word(k),
                0x54 => accumulator &= k,
                0x05 => at += k as usize,
                0x15 => jump(accumulator == k),
                0x25 => jump(accumulator > k),
                0x35 => jump(accumulator >= k),
                0x06 => return k,
                other => panic!("an instruction that the reader does not know: {other:#x}"),
            }
        }
    }

    const ALLOW: u32 = 0x7fff_0000;
    const EPERM: u32 = 0x0005_0000 | libc::EPERM as u32;
    const ENOSYS: u32 = 0x0005_0000 | libc::ENOSYS as u32;

    /// The more severe answer of both filters.
    fn judged(programs: &[BpfProgram; 2], call: c_long, argument: u64) -> u32 {
        let answers = programs.iter().map(|program| verdict(program, call, argument));
        answers.rev().find(|answer| *answer != ALLOW).unwrap_or(ALLOW)
    }

    fn answer(role: Role, call: c_long, argument: u64) -> u32 {
        judged(&programs(role).expect("filters"), call, argument)
    }

    const ROLES: [Role; 8] = [
        Role::Program,
        Role::DataPlane,
        Role::Control,
        Role::Rsvp,
        Role::Law,
        Role::Probe,
        Role::Web,
        Role::Viewer,
    ];

    #[test]
    fn clone3_is_unknown_and_clone_starts_threads_alone() {
        for role in ROLES {
            assert_eq!(answer(role, libc::SYS_clone3, 0), ENOSYS, "{role:?}");
            assert_eq!(
                answer(role, libc::SYS_clone, libc::SIGCHLD as u64),
                EPERM,
                "{role:?}"
            );
        }
        let thread = (libc::CLONE_THREAD | libc::CLONE_VM) as u64;
        assert_eq!(answer(Role::Control, libc::SYS_clone, thread), ALLOW);
        assert_eq!(answer(Role::DataPlane, libc::SYS_clone, thread), EPERM);
    }

    #[test]
    fn nobody_may_do_what_no_role_needs() {
        let never = [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_process_vm_writev,
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_setuid,
            libc::SYS_init_module,
            libc::SYS_finit_module,
            libc::SYS_kexec_load,
            libc::SYS_reboot,
            libc::SYS_pidfd_getfd,
            libc::SYS_perf_event_open,
            libc::SYS_io_uring_setup,
            libc::SYS_userfaultfd,
            libc::SYS_keyctl,
            libc::SYS_clock_settime,
        ];
        for role in ROLES {
            for call in never {
                assert_eq!(answer(role, call, 0), EPERM, "{role:?}, call {call}");
            }
        }
    }

    #[test]
    fn every_role_is_within_that_of_the_program() {
        let frame = programs(Role::Program).expect("filters");
        for role in ROLES {
            let own = programs(role).expect("filters");
            for call in 0..600 {
                for argument in [0, 1, 2, 10, 16, 17, 44, libc::CLONE_THREAD as u64] {
                    let may = |programs| judged(programs, call, argument) == ALLOW;
                    assert!(
                        !may(&own) || may(&frame),
                        "{role:?} may do call {call} with {argument}, the program not"
                    );
                }
            }
        }
    }

    #[test]
    fn a_prober_sends_and_receives_and_the_law_of_windows_does_not() {
        let may = |role, call| answer(role, call, 0) == ALLOW;
        for call in ASKING {
            assert!(may(Role::Probe, *call) && !may(Role::Law, *call), "call {call}");
        }
        for call in [
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_setsockopt,
            libc::SYS_bpf,
        ] {
            assert!(!may(Role::Probe, call), "call {call}");
        }
    }

    #[test]
    fn sockets_are_of_the_families_of_a_role() {
        let may = |role, family| answer(role, libc::SYS_socket, family as u64) == ALLOW;
        assert!(may(Role::DataPlane, libc::AF_PACKET) && may(Role::DataPlane, libc::AF_XDP));
        assert!(!may(Role::Control, libc::AF_PACKET) && may(Role::Control, libc::AF_UNIX));
        assert!(!may(Role::Rsvp, libc::AF_PACKET) && may(Role::Rsvp, libc::AF_INET));
        assert!(may(Role::Web, libc::AF_UNIX) && !may(Role::Web, libc::AF_INET));
        for role in [Role::Law, Role::Probe] {
            assert!(!may(role, libc::AF_UNIX) && !may(role, libc::AF_INET), "{role:?}");
        }
        assert!(
            ROLES
                .iter()
                .all(|role| !may(*role, libc::AF_ALG) && !may(*role, libc::AF_VSOCK))
        );
    }
}
