//! Renders error log lines with an `ErrorLogFormat`.
//!
//! Called by: `error_log`, for each line of a log with a format of its own.
//! Caveat: an empty item removes its whole field, from the space before it to the one after it,
//! unless it has a hyphen for that case, or drops the line.

use super::{
    format::{Format, Kind, TimeForm, WhenEmpty},
    log_context::{ContextItem, LogContext},
    text::{append_civil, append_errno},
};
use crate::{
    escape::append_escaped,
    local_time::{Civil, TimeZone, append_offset, append_padded},
};
use std::{cell::OnceCell, io::Write as _, panic::Location, time::Duration};

/// One message, as seen by formats.
#[derive(Clone, Copy)]
pub(super) struct Occasion<'a> {
    pub module: &'a str,
    pub level: &'a str,
    /// Level as in Apache: 3 is an error, 7 debugging, 8 and more traces.
    pub level_number: u8,
    pub context: &'a dyn LogContext,
    pub now: Duration,
    /// Source line that logs the message.
    pub place: &'a Location<'a>,
    pub message: &'a dyn Fn(&mut Vec<u8>),
    /// The system's error, where it is known by its number.
    pub errno: Option<i32>,
    /// The default line ends with the client's Referer, as Apache's does.
    pub adds_referer: bool,
}

impl Format {
    /// Appends the line, without a line end; returns false if there is none.
    pub(super) fn write(&self, occasion: &Occasion<'_>, out: &mut Vec<u8>) -> bool {
        let (start, mut field, mut is_skipping) = (out.len(), out.len(), false);
        for item in &self.0 {
            if item.starts_field {
                if !is_skipping {
                    field = out.len();
                }
                is_skipping = false;
            }
            if item.kind == Kind::Message {
                (occasion.message)(out);
            } else if is_skipping {
                continue;
            } else if item.level_min > occasion.level_number {
                out.truncate(field);
                is_skipping = true;
            } else if !item.kind.write(occasion, out) {
                match item.when_empty {
                    WhenEmpty::Hyphen => out.push(b'-'),
                    WhenEmpty::DropField => {
                        out.truncate(field);
                        is_skipping = true;
                    }
                    WhenEmpty::DropLine => {
                        out.truncate(start);
                        return false;
                    }
                }
            }
        }
        out.len() > start
    }
}

impl Kind {
    /// Appends the item; returns false if it is empty.
    fn write(&self, occasion: &Occasion<'_>, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        let context = occasion.context;
        let mut told = |asked: ContextItem<'_>| {
            context
                .context_item(asked)
                .iter()
                .for_each(|text| append_escaped(text, out))
        };
        match self {
            Kind::Client => told(ContextItem::Client),
            Kind::Peer => told(ContextItem::Peer),
            Kind::Local => told(ContextItem::Local),
            Kind::Field(name) => told(ContextItem::Field(name)),
            Kind::Variable(name) => told(ContextItem::Variable(name)),
            Kind::Note(name) => told(ContextItem::Note(name)),
            Kind::SiteName => told(ContextItem::SiteName),
            Kind::HostName => told(ContextItem::HostName),
            Kind::KeptAlive => told(ContextItem::KeptAlive),
            Kind::Place => append_place(occasion.place, out),
            Kind::Text(text) => out.extend_from_slice(text),
            Kind::Level => out.extend_from_slice(occasion.level.as_bytes()),
            Kind::Module => out.extend_from_slice(occasion.module.as_bytes()),
            Kind::RequestId => out.extend(
                context
                    .request()
                    .and_then(|id| id.text())
                    .unwrap_or_default()
                    .bytes(),
            ),
            Kind::ConnectionId { alone: true } if context.request().is_some() => {}
            Kind::ConnectionId { .. } => out.extend(
                context
                    .connection()
                    .and_then(|id| id.text())
                    .unwrap_or_default()
                    .bytes(),
            ),
            // Writing to memory cannot fail.
            Kind::ProcessId => drop(write!(out, "{}", std::process::id())),
            Kind::ThreadId => drop(write!(out, "{}", thread_id())),
            Kind::Time(form) => append_time(*form, occasion.now, out),
            Kind::Errno => occasion
                .errno
                .iter()
                .for_each(|errno| append_errno(*errno, out)),
            Kind::Message | Kind::Nothing => {}
        }
        out.len() > before
    }
}

/// `file.rs(12)`
fn append_place(place: &Location<'_>, out: &mut Vec<u8>) {
    let file = place.file().rsplit('/').next().unwrap_or_default();
    // Writing to memory cannot fail.
    let _ = write!(out, "{file}({})", place.line());
}

/// The kernel's, asked once per thread.
pub(super) fn thread_id() -> u64 {
    thread_local! {
        static ID: OnceCell<u64> = const { OnceCell::new() };
    }
    ID.with(|id| {
        *id.get_or_init(|| {
            let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
            link.file_name()
                .and_then(|name| name.to_str()?.parse().ok())
                .unwrap_or(0)
        })
    })
}

fn append_time(form: TimeForm, now: Duration, out: &mut Vec<u8>) {
    let unix_s = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let offset_s = TimeZone::local().offset_s(unix_s);
    let civil = Civil::at(unix_s, offset_s);
    let fraction = |out: &mut Vec<u8>| match form {
        TimeForm {
            microseconds: true, ..
        } => {
            out.push(b'.');
            append_padded(now.subsec_micros(), 6, out);
        }
        TimeForm {
            milliseconds: true, ..
        } => {
            out.push(b'.');
            append_padded(now.subsec_millis(), 3, out);
        }
        _ => {}
    };
    match form.compact {
        true => {
            let (month, day) = (civil.month, civil.day);
            let _ = write!(
                out,
                "{}-{month:02}-{day:02} {:02}:{:02}:{:02}",
                civil.year, civil.hour, civil.minute, civil.second
            );
            fraction(out);
        }
        false => append_civil(&civil, fraction, out),
    }
    if form.zone {
        out.push(b' ');
        append_offset(offset_s, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    struct Request;

    impl LogContext for Request {
        fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
            match asked {
                ContextItem::Client => Some(Cow::Borrowed(b"192.0.2.7:4711")),
                ContextItem::Field("Referer") => Some(Cow::Borrowed(b"http://a/\n")),
                ContextItem::SiteName => Some(Cow::Borrowed(b"site")),
                ContextItem::KeptAlive => Some(Cow::Borrowed(b"2")),
                _ => None,
            }
        }
    }

    fn written(format: &str, level_number: u8) -> Option<String> {
        let format = Format::parse(format, true).unwrap();
        let mut out = Vec::new();
        let now = Duration::from_micros(1_795_252_332_123_456);
        let message = |out: &mut Vec<u8>| out.extend_from_slice(b"what happened");
        let occasion = Occasion {
            module: "core",
            level: "error",
            level_number,
            context: &Request,
            now,
            place: Location::caller(),
            message: &message,
            errno: None,
            adds_referer: false,
        };
        format
            .write(&occasion, &mut out)
            .then(|| String::from_utf8(out).unwrap())
    }

    #[test]
    fn fields_without_content_go_as_a_whole() {
        for (format, expected) in [
            ("[%m:%l] %M", "[core:error] what happened"),
            ("[%{X}i %M", " what happened"),
            ("[a %{X}i] %M", "[a what happened"),
            ("[a\\ %{X}i] %M", " what happened"),
            ("a [%-{X}i] %M", "a [-] what happened"),
            ("a %7F: %M", "a what happened"),
            (
                "a %M% ,\\ referer\\ %{Referer}i",
                "a what happened, referer http://a/\\n",
            ),
            ("a %M% ,\\ x\\ %{X}i", "a what happened"),
            ("%v%%%a x%M", "site%192.0.2.7:4711 xwhat happened"),
            ("%{X}e%M", "what happened"),
            ("%4v %M", " what happened"),
            ("%k %M", "2 what happened"),
            ("%E%M", "what happened"),
        ] {
            assert_eq!(written(format, 3).as_deref(), Some(expected), "{format}");
        }
        let placed = written("%F %M", 3).unwrap();
        assert!(
            placed.starts_with("render.rs(") && placed.ends_with(") what happened"),
            "{placed}"
        );
        assert_eq!(written("%4v %M", 4).as_deref(), Some("site what happened"));
    }

    #[test]
    fn times() {
        let line = |format: &str| written(format, 3).unwrap();
        assert!(
            line("%{cu}t %M").contains(":12.123456 what"),
            "{}",
            line("%{cu}t %M")
        );
        assert!(
            line("%{m}t %M").contains(":12.123 20"),
            "{}",
            line("%{m}t %M")
        );
        assert!(
            line("%t|%M").ends_with(" 2026|what happened"),
            "{}",
            line("%t|%M")
        );
        assert_eq!(line("%{z}t %M").len(), line("%t %M").len() + 6);
    }

    #[test]
    fn refused() {
        for (format, of_messages) in [
            ("x", true),
            ("%+a %M", true),
            ("%4a", false),
            ("%M", false),
            ("%", true),
            ("%{a", true),
            ("%Q%M", true),
            ("%M%-", true),
        ] {
            assert!(Format::parse(format, of_messages).is_err(), "{format}");
        }
        assert!(Format::parse("%L \u{e9}\\", false).is_ok() && Format::parse("%M% ", true).is_ok());
    }
}
