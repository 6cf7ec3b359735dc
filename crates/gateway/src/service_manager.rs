//! Tells the service manager how the program stands, by the socket that systemd names in
//! `NOTIFY_SOCKET` (sd_notify(3)). Without one nothing is told, and nobody minds.
//!
//! It is said to live only when every worker has answered: a watchdog ends a program whose packet
//! loop hangs, as one that hangs itself. Traffic takes the kernel's own path meanwhile.

use sd_notify::NotifyState;

/// Packets are managed.
pub(crate) fn runs(policy: &str) {
    tell(&[
        NotifyState::Ready,
        NotifyState::Status(&format!("manages by {policy}")),
    ]);
}

/// All workers have answered.
pub(crate) fn lives() {
    tell(&[NotifyState::Watchdog]);
}

/// The policy's file is read again.
pub(crate) fn reloads() {
    let now = NotifyState::monotonic_usec_now().ok();
    let state: Vec<_> = std::iter::once(NotifyState::Reloading).chain(now).collect();
    tell(&state);
}

/// That is done, whatever became of it.
pub(crate) fn reloaded() {
    tell(&[NotifyState::Ready]);
}

/// Another process goes on as this service.
pub(crate) fn hands_over(process: i32) {
    if let Ok(process) = u32::try_from(process) {
        tell(&[NotifyState::MainPid(process)]);
    }
}

/// It ends in order.
pub(crate) fn ends() {
    tell(&[NotifyState::Stopping]);
}

fn tell(state: &[NotifyState<'_>]) {
    // A manager that does not listen is its own business.
    let _ = sd_notify::notify(state);
}
