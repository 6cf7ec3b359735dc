//! Seccomp user notifications of a program's `connect` calls: the filter and its listener.
//!
//! The program's children inherit the filter. Each call waits until the listener responds, which
//! it always does with "continue". Once the last descriptor of the listener is closed, every
//! `connect` fails with `ENOSYS` for good. That is why there is a guard (see `supervise`).
#![expect(unsafe_code, reason = "seccomp, prctl and its ioctls are system calls")]

use super::check;
use super::vitals::Vitals;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `SECCOMP_RET_ALLOW` and `SECCOMP_RET_USER_NOTIF`.
const ALLOW: u32 = 0x7fff_0000;
const NOTIFY: u32 = 0x7fc0_0000;

/// The native audit architecture; that of 32-bit programs with their number of `connect`.
#[cfg(target_arch = "x86_64")]
const ABI: (u32, Option<(u32, u32)>) = (0xc000_003e, Some((0x4000_0003, 362)));
#[cfg(target_arch = "aarch64")]
const ABI: (u32, Option<(u32, u32)>) = (0xc000_00b7, Some((0x4000_0028, 283)));
#[cfg(target_arch = "riscv64")]
const ABI: (u32, Option<(u32, u32)>) = (0xc000_00f3, None);

/// `SECCOMP_IOCTL_NOTIF_RECV`, `_SEND`, `_SET_FLAGS`.
const RECEIVE: libc::c_long = 0xc050_2100;
const SEND: libc::c_long = 0xc018_2101;
const SET_FLAGS: libc::c_long = 0x4008_2104;
/// `SECCOMP_IOCTL_NOTIF_ID_VALID`, by its first number, which all kernels know.
const IS_VALID: libc::c_long = 0x8008_2102;

/// `SECCOMP_USER_NOTIF_FLAG_CONTINUE`: the kernel executes the call (Linux 5.5).
const CONTINUE: u32 = 1;

#[repr(C)]
#[derive(Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    abi: u32,
    instruction: u64,
    arguments: [u64; 6],
}

#[repr(C)]
#[derive(Default)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// One instruction of a classic BPF program.
fn op(code: u32, yes: u8, no: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt: yes,
        jf: no,
        k,
    }
}

/// Notifies of `connect`, also by 32-bit programs; allows everything else.
fn program() -> Vec<libc::sock_filter> {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
    let connect = libc::SYS_connect as u32;
    let (native, other) = ABI;
    // x32 programs use the 64-bit numbers with one more bit.
    let x32 = if cfg!(target_arch = "x86_64") { 1 << 30 } else { 0 };
    let mut program = vec![
        op(LOAD, 0, 0, 4),
        op(EQUAL, 0, 4, native),
        op(LOAD, 0, 0, 0),
        op(EQUAL, 1, 0, connect),
        op(EQUAL, 0, 1, connect | x32),
        op(RETURN, 0, 0, NOTIFY),
    ];
    if let Some((abi, connect)) = other {
        // A call that is not native jumps to the second instruction here, with its architecture
        // still loaded.
        program[1] = op(EQUAL, 0, 5, native);
        program.extend([
            op(RETURN, 0, 0, ALLOW),
            op(EQUAL, 0, 3, abi),
            op(LOAD, 0, 0, 0),
            op(EQUAL, 0, 1, connect),
            op(RETURN, 0, 0, NOTIFY),
        ]);
    }
    program.push(op(RETURN, 0, 0, ALLOW));
    program
}

/// Installs the filter in this process, for itself and its children. Returns the listener.
///
/// An ordinary user needs `no_new_privs` for this: set-uid programs then run without privilege.
pub(crate) fn install() -> io::Result<OwnedFd> {
    // With CAP_SYS_ADMIN, set-uid programs keep working.
    install_now().or_else(|e| {
        if e.raw_os_error() != Some(libc::EACCES) {
            return Err(e);
        }
        // SAFETY: a plain call without pointers.
        check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
        install_now()
    })
}

fn install_now() -> io::Result<OwnedFd> {
    let mut filter = program();
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program during the call; the descriptor is new and ours.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_NEW_LISTENER,
            &raw const program,
        );
        Ok(OwnedFd::from_raw_fd(check(fd as libc::c_int)?))
    }
}

/// The listener's side.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

/// A thread that waits in `connect` for a response.
#[derive(Debug)]
pub(crate) struct ConnectRequest {
    id: u64,
    /// The thread's number.
    pub(crate) thread: i32,
    /// Its descriptor of the socket.
    pub(crate) fd: i32,
}

impl Listener {
    /// From the descriptor.
    pub(crate) fn new(fd: OwnedFd) -> Self {
        // Caller and listener alternate, so a wake-up on the same processor is faster
        // (SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP). Kernels before 6.6 refuse, and work all the same.
        // SAFETY: the argument is a number.
        unsafe { libc::syscall(libc::SYS_ioctl, fd.as_raw_fd(), SET_FLAGS, 1_u64) };
        Self(fd)
    }

    /// The next request; none if its thread has ended meanwhile. Its number stays in `vitals`, for
    /// whoever must answer it if this process cannot.
    pub(crate) fn receive_in(&self, vitals: Vitals) -> Option<ConnectRequest> {
        self.receive_at(vitals.empty_notification().cast())
    }

    /// The next request; none if its thread has ended meanwhile.
    pub(crate) fn receive(&self) -> Option<ConnectRequest> {
        let mut notification = Notification::default();
        self.receive_at(&raw mut notification)
    }

    fn receive_at(&self, notification: *mut Notification) -> Option<ConnectRequest> {
        // SAFETY: the kernel fills the structure, which has its layout. It is read once the kernel
        // is done.
        unsafe {
            let received = libc::syscall(libc::SYS_ioctl, self.0.as_raw_fd(), RECEIVE, notification);
            check(received as libc::c_int).ok()?;
            let notification = notification.read_volatile();
            Some(ConnectRequest {
                id: notification.id,
                thread: notification.pid.cast_signed(),
                fd: notification.arguments[0] as i32,
            })
        }
    }

    /// Whether the thread still waits, so that its number has not become another's.
    pub(crate) fn is_waiting(&self, request: &ConnectRequest) -> bool {
        // SAFETY: the kernel reads the number.
        let valid = unsafe {
            libc::syscall(
                libc::SYS_ioctl,
                self.0.as_raw_fd(),
                IS_VALID,
                &raw const request.id,
            )
        };
        valid == 0
    }

    /// Lets the call proceed. That its thread has ended meanwhile is no error.
    pub(crate) fn allow(&self, request: &ConnectRequest) {
        self.allow_by_number(request.id);
    }

    /// Lets the call proceed that a process received which cannot answer it any more.
    pub(crate) fn allow_last(&self, vitals: Vitals) {
        vitals
            .last_request()
            .into_iter()
            .for_each(|id| self.allow_by_number(id));
    }

    fn allow_by_number(&self, id: u64) {
        let response = Response {
            id,
            flags: CONTINUE,
            ..Response::default()
        };
        // SAFETY: the kernel reads the structure, which has its layout.
        unsafe { libc::syscall(libc::SYS_ioctl, self.0.as_raw_fd(), SEND, &raw const response) };
    }

    /// Its descriptor's number, for a process that borrows it.
    pub(crate) fn number(&self) -> i32 {
        self.0.as_raw_fd()
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
