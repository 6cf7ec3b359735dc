//! The kernel's side of a port: a handful of BPF programs, most of 12 to 29 instructions, as
//! constant arrays.
//!
//! No compiler, no object file, no library. [`instruction`] assembles at build time. [`programs`]
//! has the programs of ports, [`windows`] those that clamp TCP windows, [`police`] those that
//! police datagrams. [`syscall`] loads and attaches them by bpf(2); [`attach`] chooses between
//! links and filters.
//!
//! Only the descriptor of its link refers to a program, and nothing is pinned, so the kernel
//! detaches the program when the process ends. Before Linux 6.6 a filter refers to it ([`clsact`]),
//! which the next start replaces. Each program first reads a [`Heartbeat`] cell. Once the cell has
//! expired, frames take the kernel's own path: a process that hangs is as harmless as one that
//! died.

pub mod attach;
pub mod clsact;
pub mod heartbeat;
pub mod instruction;
pub mod police;
pub mod programs;
pub mod syscall;
mod transport;
pub mod windows;

pub use attach::{Attached, Means};
pub use heartbeat::Heartbeat;

#[cfg(test)]
mod tests {
    use super::programs::{DETOUR, ECHO, HAND_BACK, TAKE, TO_SOCKET, TO_TAP};
    use super::syscall::{Hook, load, new_socket_map};
    use super::*;
    use engine::units::{Duration, Instant};
    use std::os::fd::AsFd;

    /// A cell; none where bpf(2) is not permitted, which is reported as a skipped test.
    fn cell(limit: Duration) -> Option<Heartbeat> {
        Heartbeat::new(limit).inspect_err(|e| skips::skipped(e)).ok()
    }

    #[test]
    fn the_verifier_accepts_every_program_for_the_stack() {
        let Some(heart) = cell(Duration::from_millis(20)) else {
            return;
        };
        for (name, hook, program) in [
            ("take", Hook::Ingress, &TAKE[..]),
            ("echo", Hook::Egress, &ECHO[..]),
            ("to_tap", Hook::Egress, &TO_TAP[..]),
            ("received", Hook::Ingress, &DETOUR[..]),
            ("sent", Hook::Egress, &DETOUR[..]),
            ("hand_back", Hook::Ingress, &HAND_BACK[..]),
        ] {
            load(name, hook, false, program, heart.map(), None).unwrap();
        }
    }

    #[test]
    fn the_verifier_accepts_the_program_for_sockets() {
        let Some(heart) = cell(Duration::from_millis(20)) else {
            return;
        };
        let sockets = match new_socket_map(4) {
            Err(e) if e.to_string().contains("has no AF_XDP") => return skips::skipped(e),
            sockets => sockets.unwrap(),
        };
        let map = Some(sockets.as_fd());
        for (hook, fragments) in [(Hook::XdpNative, false), (Hook::XdpGeneric, true)] {
            load("to_socket", hook, fragments, &TO_SOCKET, heart.map(), map).unwrap();
        }
    }

    #[test]
    fn the_verifier_refuses_a_program_without_its_end_and_the_error_has_its_reason() {
        let Some(heart) = cell(Duration::from_millis(20)) else {
            return;
        };
        let cut = &TAKE[..TAKE.len() - 1];
        let error = load("cut", Hook::Ingress, false, cut, heart.map(), None).unwrap_err();
        assert!(error.to_string().contains("verifier: "), "{error}");
    }

    #[test]
    fn a_cell_has_lapsed_before_its_first_beat_after_its_limit_and_when_silenced() {
        let Some(heart) = cell(Duration::from_millis(20)) else {
            return;
        };
        let at = |ms| Instant::START + Duration::from_millis(ms);
        assert!(heart.lapsed(at(0)));
        heart.beat(at(100));
        assert!(!heart.lapsed(at(119)));
        assert!(heart.lapsed(at(120)));
        heart.silence();
        assert!(heart.lapsed(at(101)));
    }

    #[test]
    fn what_arrives_before_the_first_beat_or_after_the_silence_is_the_kernels() {
        let Some(heart) = cell(Duration::from_millis(20)) else {
            return;
        };
        let (now, arrived) = (crate::clock::now(), crate::sys::realtime());
        assert!(
            heart.taken(now).is_empty(),
            "nothing is taken before the first beat"
        );
        heart.beat(now);
        let taken = heart.taken(now);
        assert!(arrived < taken.start && taken.contains(&(arrived + 10_000_000)));
        heart.silence();
        let taken = heart.taken(now);
        assert!(!taken.contains(&(arrived + 10_000_000)), "{taken:?}");
        // What another program takes from a moment on stays that one's, also over a lapse.
        heart.leave_at(crate::clock::Moment {
            at: now,
            realtime: arrived,
        });
        heart.beat(now + Duration::from_secs(2));
        assert!(heart.taken(now).end <= arrived);
        heart.leave_at(crate::clock::Moment {
            at: Instant::NEVER,
            realtime: u64::MAX,
        });
        // Half a second after a lapse the clock may be set without any effect.
        let later = now + Duration::from_secs(3);
        heart.beat(later);
        heart.beat(later + Duration::from_millis(19));
        assert_ne!(heart.taken(later).start, 0);
        for beat in 1..60 {
            heart.beat(later + Duration::from_millis(19 * beat));
        }
        assert_eq!(heart.taken(later).start, 0);
    }
}
