//! System calls that the standard library does not offer. The only place in this crate with
//! `unsafe`.

pub(crate) mod beside;
pub(crate) mod isolate;
pub(crate) mod namespace;
pub(crate) mod process;
pub(crate) mod socket;

/// The result of a system call that returns -1 on failure.
fn check(answer: libc::c_int) -> std::io::Result<libc::c_int> {
    if answer < 0 {
        Err(std::io::Error::last_os_error())
    } else {
        Ok(answer)
    }
}
