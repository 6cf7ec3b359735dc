//! The log of the programs that run on: what happened, a line each, on standard error.
//!
//! In text a line is its level, if that is not `info`, and a sentence. Before it is the time, but
//! not on a terminal; nor in systemd's journal, which has its own, and gets the priority of
//! sd-daemon(3), `<4>`, instead. In JSON a line is an object with the time, the level, the same
//! sentence, and its fields.
//!
//! The packet loop logs nothing: `netio` and `engine` do not know of it.

use clap::{Args, ValueEnum};
use control::diagnostics::{Diagnostics, LocatedDiagnostic};
use plot::colour;
use std::fmt::{self, Debug};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber, subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::registry::LookupSpan;

/// What is logged, and how.
#[derive(Clone, Copy, Debug, Args)]
pub struct LogOptions {
    /// Log this and what is graver
    #[arg(long, value_enum, value_name = "LEVEL", env = "SUIMON_LOG", default_value_t = LogLevel::Info)]
    log_level: LogLevel,
    /// How lines of the log look
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    log_format: LogFormat,
}

/// How grave it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
enum LogLevel {
    /// Something does not work
    Error,
    /// Something is not as it was wanted
    Warn,
    /// What begins, changes and ends
    Info,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LogFormat {
    /// A sentence, human-readable
    Text,
    /// An object, for programs
    Json,
}

impl LogOptions {
    /// The same, for the command line of another program.
    pub fn arguments(self) -> [String; 4] {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map_or_else(String::new, |value| value.get_name().to_owned())
        };
        [
            "--log-level".into(),
            name(self.log_level.to_possible_value()),
            "--log-format".into(),
            name(self.log_format.to_possible_value()),
        ]
    }

    /// From now on the log of this program is written so.
    pub fn begin(self) {
        let journal = is_the_journal(std::env::var("JOURNAL_STREAM").ok().as_deref());
        let timed = !journal && !io::stderr().is_terminal();
        // Once for a process; a test may come again.
        let _ = subscriber::set_global_default(self.subscriber(Before { journal, timed }, io::stderr));
    }

    /// Shows the warnings of a policy: as `check` does on a terminal, a line each elsewhere.
    pub fn diagnostics(self, warnings: &Diagnostics) {
        if self.log_format == LogFormat::Text
            && self.log_level >= LogLevel::Warn
            && io::stderr().is_terminal()
        {
            eprint!("{}", warnings.render(colour::wanted(&io::stderr())));
            return;
        }
        for LocatedDiagnostic {
            file,
            line,
            column,
            message,
            help,
            ..
        } in warnings.places()
        {
            let help = help.map_or_else(String::new, |help| format!("; {help}"));
            tracing::warn!(file, line, column, "{file}:{line}:{column}: {message}{help}");
        }
    }

    /// What writes the log; a log that nobody reads any more is no reason to end.
    fn subscriber<W>(self, before: Before, to: W) -> Box<dyn Subscriber + Send + Sync>
    where
        W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
    {
        let level = match self.log_level {
            LogLevel::Error => LevelFilter::ERROR,
            LogLevel::Warn => LevelFilter::WARN,
            LogLevel::Info => LevelFilter::INFO,
        };
        let log = tracing_subscriber::fmt()
            .with_max_level(level)
            .with_target(false)
            .log_internal_errors(false)
            .with_writer(to);
        match self.log_format {
            LogFormat::Text => Box::new(log.event_format(Text(before)).finish()),
            LogFormat::Json => {
                let log = log.json().flatten_event(true);
                let log = log.with_current_span(false).with_span_list(false);
                Box::new(log.map_event_format(|json| Json(before, json)).finish())
            }
        }
    }
}

/// Whether standard error is systemd's journal: it says `DEVICE:INODE` of what it reads.
fn is_the_journal(stream: Option<&str>) -> bool {
    let own = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    let own = own.and_then(|file| file.metadata());
    own.is_ok_and(|own| stream == Some(format!("{}:{}", own.dev(), own.ino()).as_str()))
}

/// What is before each line.
#[derive(Clone, Copy)]
struct Before {
    journal: bool,
    timed: bool,
}

impl Before {
    /// The priority of a level, as syslog(3) numbers them.
    fn priority(self, level: Level, writer: &mut Writer<'_>) -> fmt::Result {
        let priority = match level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        match self.journal {
            true => write!(writer, "<{priority}>"),
            false => Ok(()),
        }
    }
}

/// The format of text. The lines of a longer message follow its first, indented, so that none of
/// them looks like another message.
struct Text(Before);

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut message = Message::default();
        event.record(&mut message);
        let level = *event.metadata().level();
        let word = match level {
            Level::ERROR => "error: ",
            Level::WARN => "warning: ",
            Level::INFO | Level::DEBUG | Level::TRACE => "",
        };
        for (nth, line) in message.0.trim_end().split('\n').enumerate() {
            self.0.priority(level, &mut writer)?;
            if self.0.timed {
                SystemTime.format_time(&mut writer)?;
                writer.write_char(' ')?;
            }
            writer.write_str(if nth == 0 { word } else { "    " })?;
            for c in line.chars() {
                match c.is_control() {
                    true => write!(writer, "{}", c.escape_default())?,
                    false => writer.write_char(c)?,
                }
            }
            writer.write_char('\n')?;
        }
        Ok(())
    }
}

/// The format of an object, with the priority for the journal.
struct Json<F>(Before, F);

impl<S, N, F> FormatEvent<S, N> for Json<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        self.0.priority(*event.metadata().level(), &mut writer)?;
        self.1.format_event(context, writer, event)
    }
}

/// The message of an event.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    /// Where a test reads the log.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log of three events.
    fn logged(log_level: LogLevel, log_format: LogFormat, journal: bool, timed: bool) -> Vec<String> {
        let kept = Kept::default();
        let to = kept.clone();
        let options = LogOptions {
            log_level,
            log_format,
        };
        let log = options.subscriber(Before { journal, timed }, move || to.clone());
        subscriber::with_default(log, || {
            tracing::error!("two\nlines \u{1b}[31mred");
            tracing::warn!(interface = "wan0", "wan0: not enforced: it is down");
            tracing::info!(
                request = "set",
                author = Some("root"),
                reason = None::<&str>,
                "set by root: done"
            );
        });
        let bytes = kept.0.lock().expect("no panic").clone();
        let text = String::from_utf8(bytes).expect("text");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_line_of_text_has_its_level_and_no_line_of_a_message_looks_like_another() {
        let lines = logged(LogLevel::Info, LogFormat::Text, false, false);
        let expected = [
            "error: two",
            "    lines \\u{1b}[31mred",
            "warning: wan0: not enforced: it is down",
            "set by root: done",
        ];
        assert_eq!(lines, expected);
        let lines = logged(LogLevel::Warn, LogFormat::Text, true, false);
        let expected = [
            "<3>error: two",
            "<3>    lines \\u{1b}[31mred",
            "<4>warning: wan0: not enforced: it is down",
        ];
        assert_eq!(lines, expected);
        let lines = logged(LogLevel::Error, LogFormat::Text, false, true);
        assert_eq!(lines.len(), 2, "{lines:?}");
        let (time, rest) = lines[0].split_once(' ').expect("a time");
        assert_eq!(
            (time.len(), time.ends_with('Z'), rest),
            (27, true, "error: two"),
            "{lines:?}"
        );
    }

    #[test]
    fn a_line_of_json_is_an_object_with_its_fields() {
        for (journal, prefixes) in [(false, ["", "", ""]), (true, ["<3>", "<4>", "<6>"])] {
            let lines = logged(LogLevel::Info, LogFormat::Json, journal, false);
            let object = |(line, prefix): (&String, &str)| -> Value {
                let line = line.strip_prefix(prefix).expect("the priority");
                serde_json::from_str(line).expect("JSON")
            };
            let mut objects: Vec<Value> = lines.iter().zip(prefixes).map(object).collect();
            for object in &mut objects {
                let time = object.as_object_mut().expect("an object").remove("timestamp");
                assert!(time.is_some_and(|time| time.is_string()));
            }
            let expected = [
                json!({ "level": "ERROR", "message": "two\nlines \u{1b}[31mred" }),
                json!({ "level": "WARN", "message": "wan0: not enforced: it is down", "interface": "wan0" }),
                json!({ "level": "INFO", "message": "set by root: done", "request": "set", "author": "root" }),
            ];
            assert_eq!(objects, expected);
        }
    }

    #[test]
    fn only_the_stream_that_the_journal_names_is_the_journal() {
        let own = File::from(io::stderr().as_fd().try_clone_to_owned().expect("open"));
        let own = own.metadata().expect("a file");
        assert!(is_the_journal(Some(&format!("{}:{}", own.dev(), own.ino()))));
        assert!(!is_the_journal(None) && !is_the_journal(Some("1:1")) && !is_the_journal(Some("")));
    }
}
