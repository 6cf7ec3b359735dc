//! Downloads as an ordinary user has them: `bottlenet` and `nine` as they are installed, around a
//! program that knows nothing of them, without any capability.
//!
//! ```text
//!  server ═ 10 Mbit/s, 20 ms, 64 kB ═ home: bottlenet 10Mbit/s; nine … bash -c 'cat </dev/tcp/…'
//! ```
//!
//! The low download is counted by what the interface received and the high one did not.

use crate::Error;
use crate::downloads::{Bed, SERVER, carried};
use crate::rounds::Rounds;
use engine::units::{Bandwidth, Bytes, Duration as Span};
use lab::traffic::tcp::{Bulk, Connects};
use lab::{Program, Running};
use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The link, and what of it is payload: 1448 of each 1514 bytes.
pub(super) const LINK: u64 = 10;
const PAYLOAD: f64 = 1_448.0 / 1_514.0;
const BUFFER: Bytes = Bytes::new(64_000);
const ROUND_TRIP: Span = Span::from_millis(20);
const SERVES: u16 = 8_000;
const HIGH: u16 = 7_000;
/// Longer than any round.
const LIMIT: Duration = Duration::from_secs(60);

/// When the high download joins and leaves, and the end, in seconds; and what is left out after
/// each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Schedule {
    pub(super) joins: f64,
    pub(super) leaves: f64,
    pub(super) end: f64,
    pub(super) settles: f64,
}

pub(super) const SCHEDULE: Schedule = Schedule {
    joins: 4.0,
    leaves: 10.0,
    end: 13.0,
    settles: 1.0,
};

/// The results of a round, in the order of the [`Rounds`]: all in per cent of the link's payload.
pub(super) const ALONE: usize = 0;
pub(super) const HIGH_BESIDE: usize = 1;
pub(super) const TOGETHER: usize = 2;
pub(super) const ALONE_AGAIN: usize = 3;

/// Several rounds with the low download under `nine` with these words, or without `nine`.
///
/// # Errors
///
/// Returns an error if the lab or a program fails.
pub(super) fn rounds(nine: Option<&[&str]>, times: usize) -> Result<Rounds, Error> {
    let mut all = Rounds::default();
    for _ in 0..times {
        all.push(round(nine)?);
    }
    Ok(all)
}

fn round(nine: Option<&[&str]>) -> Result<Vec<f64>, Error> {
    let bed = Bed::new(Bandwidth::mbit(LINK), ROUND_TRIP, BUFFER)?;
    let home = Home::new(bed)?;
    home.serve()?;
    home.state_the_rate()?;
    let Schedule {
        joins,
        leaves,
        end,
        settles,
    } = SCHEDULE;
    let begin = Instant::now();
    let at = |seconds: f64| {
        let until = begin + Duration::from_secs_f64(seconds);
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
    };
    let low = home.download(nine)?;
    let mut marks = Vec::new();
    at(settles);
    marks.push(home.mark(0)?);
    at(joins);
    marks.push(home.mark(0)?);
    let length = Duration::from_secs_f64(leaves - joins);
    let high = Bulk {
        who: Connects::Receiver,
        ..Bulk::new(SocketAddr::from((SERVER, HIGH)), length)
    };
    let high = high.start(&home.bed.server, &home.bed.home)?;
    for time in [joins + settles, leaves] {
        at(time);
        marks.push(home.mark(high.received())?);
    }
    high.stop();
    let received = high.finish()?.received;
    for time in [leaves + settles, end] {
        at(time);
        marks.push(home.mark(received)?);
    }
    let _ = low.kill();
    Ok(shares(&marks))
}

/// What had been received, when, and of it by the high download.
#[derive(Clone, Copy, Debug)]
struct Mark {
    time: Instant,
    frames: u64,
    high: u64,
}

/// The results of the three spans between six marks.
fn shares(marks: &[Mark]) -> Vec<f64> {
    let percent = |bytes: f64, from: &Mark, to: &Mark| {
        let link = LINK as f64 * 1e6 / 8.0 * PAYLOAD;
        bytes / link / (to.time - from.time).as_secs_f64() * 100.0
    };
    let whole = |from: &Mark, to: &Mark| percent((to.frames - from.frames) as f64 * PAYLOAD, from, to);
    let high = |from: &Mark, to: &Mark| percent((to.high - from.high) as f64, from, to);
    match marks {
        [a, b, c, d, e, f] => vec![whole(a, b), high(c, d), whole(c, d), whole(e, f)],
        _ => Vec::new(),
    }
}

/// The receiving host, with a folder for what its user's programs leave behind.
struct Home {
    bed: Bed,
    files: PathBuf,
}

impl Home {
    fn new(bed: Bed) -> Result<Self, Error> {
        let unique = format!("suimon-installed-{}-{:?}", std::process::id(), Instant::now());
        let unique = unique.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let files = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&files)?;
        Ok(Self { bed, files })
    }

    /// A program of an ordinary user of this host.
    fn unprivileged(&self, name: &str) -> Program {
        let program = self.bed.home.unprivileged(name);
        program.env("XDG_RUNTIME_DIR", &self.files).limit(LIMIT)
    }

    fn suimon(&self, words: &[&str]) -> Result<Running, Error> {
        let program = std::env::current_exe()?;
        Ok(self
            .unprivileged(&program.display().to_string())
            .args(words)
            .start()?)
    }

    fn state_the_rate(&self) -> Result<(), Error> {
        let rate = format!("{LINK}Mbit/s");
        let output = self
            .suimon(&["bottlenet", &rate, "--interface", "eth0"])?
            .wait()?;
        match output.status.success() {
            true => Ok(()),
            false => Err(Error::new(format!("`bottlenet {rate}`: {}", output.err))),
        }
    }

    /// The low download, by a shell.
    fn download(&self, nine: Option<&[&str]>) -> Result<Running, Error> {
        let script = format!("exec cat </dev/tcp/{SERVER}/{SERVES} >/dev/null");
        match nine {
            Some(words) => self.suimon(&[&["nine"], words, &["bash", "-c", &script]].concat()),
            None => Ok(self.unprivileged("bash").args(["-c", &script]).start()?),
        }
    }

    /// Sends without end to whoever connects, until they close.
    fn serve(&self) -> Result<(), Error> {
        let to = SocketAddr::from((SERVER, SERVES));
        let listener = self.bed.server.call(move || TcpListener::bind(to))??;
        std::thread::spawn(move || {
            if let Ok((mut stream, _)) = listener.accept() {
                while stream.write_all(&[0x5a; 16 << 10]).is_ok() {}
            }
        });
        Ok(())
    }

    fn mark(&self, high: u64) -> Result<Mark, Error> {
        let frames = self.bed.home.call(carried)??.received.get();
        Ok(Mark {
            time: Instant::now(),
            frames,
            high,
        })
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.files);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_high_one_did_not_receive_is_the_low_ones() {
        let begin = Instant::now();
        // A link of 10 Mbit/s carries 1.25 MB of frames in a second.
        let mark = |second: u64, frames: u64, high: u64| Mark {
            time: begin + Duration::from_secs(second),
            frames: frames * 12_500,
            high: (high as f64 * 12_500.0 * PAYLOAD) as u64,
        };
        let marks = [
            (0, 0, 0),
            (1, 100, 0),
            (2, 200, 10),
            (3, 300, 90),
            (4, 390, 95),
            (5, 440, 95),
        ];
        let found = shares(&marks.map(|(second, frames, high)| mark(second, frames, high)));
        let rounded: Vec<f64> = found.iter().map(|value| value.round()).collect();
        assert_eq!(rounded, [100.0, 80.0, 100.0, 50.0]);
    }
}
