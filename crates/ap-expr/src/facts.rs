//! The facts that expressions and rewrite rules can read.
//!
//! Called by: the evaluator; implemented by the pipeline over an exchange, and by tests over
//! tables.
//! Caveat: a fact may be expensive (a file system check, a subrequest), so facts are read one at a
//! time and only when they matter.
//! Out of scope: recording dependencies; the evaluator does that.

use crate::{RequestPart, Variable, Work};
use std::{borrow::Cow, net::IpAddr};

/// Facts about one request. `None` is httpd's NULL and mostly means the empty string.
///
/// Facts that stand on others answer what differs, and name the others with
/// [`beneath`](Facts::beneath).
pub trait Facts {
    /// Facts that are asked for all that these don't answer; `None`: the rest is unknown.
    fn beneath(&self) -> Option<&dyn Facts> {
        None
    }

    /// The value of a variable. Never called for variables that are request fields, for those of
    /// the time, or for `API_VERSION`.
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>> {
        self.beneath()?.variable(variable)
    }

    /// First the field's value, then those of its repetitions joined by `, `.
    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.beneath()?.request_field(name)
    }

    fn response_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.beneath()?.response_field(name)
    }

    /// `hc(…)`: a value of a server's response to a health check (mod_proxy_hcheck).
    fn health_check(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.beneath()?.health_check(name)
    }

    /// Returns a note, the values that modules leave for each other.
    fn note(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.beneath()?.note(name)
    }

    /// The request's own environment (SetEnv, SetEnvIf, `[E=…]`).
    fn environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.beneath()?.environment(name)
    }

    /// The environment that the server was started with.
    fn process_environment(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.beneath()?.process_environment(name)
    }

    /// A variable of mod_ssl, `SSL_…`.
    fn tls_variable(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        self.beneath()?.tls_variable(name)
    }

    /// Values of the client certificate's extensions with this object id.
    fn peer_extensions(&self, object_id: &[u8]) -> Vec<Vec<u8>> {
        self.beneath()
            .map(|facts| facts.peer_extensions(object_id))
            .unwrap_or_default()
    }

    /// Returns the account that evaluations for the request are charged to. `None`: each has its
    /// own limit.
    fn work(&self) -> Option<&Work> {
        self.beneath()?.work()
    }

    fn client_address(&self) -> Option<IpAddr> {
        self.beneath()?.client_address()
    }

    /// Returns whether the part is read as the client sent it. Tests of such a part can be run
    /// again for other requests, which know nothing of what rules have changed in this one; so this
    /// is never left to the facts beneath.
    fn is_as_received(&self, _part: &RequestPart) -> bool {
        false
    }

    fn local_time(&self) -> LocalTime {
        self.beneath()
            .map_or(LocalTime::EPOCH, |facts| facts.local_time())
    }

    fn file_test(&self, path: &[u8], test: FileTest) -> bool {
        self.beneath()
            .is_some_and(|facts| facts.file_test(path, test))
    }

    /// Returns the size of a regular file.
    fn file_bytes(&self, path: &[u8]) -> Option<u64> {
        self.beneath()?.file_bytes(path)
    }

    /// Microseconds since 1970.
    fn file_modified_us(&self, path: &[u8]) -> Option<i64> {
        self.beneath()?.file_modified_us(path)
    }

    /// The content of a file of at most `bytes_max`.
    fn file_content(&self, path: &[u8], bytes_max: usize) -> Result<Vec<u8>, FileFault> {
        let facts = self.beneath().ok_or(FileFault::Open)?;
        facts.file_content(path, bytes_max)
    }

    /// `-U`, `-A`: the status that a subrequest for the path would get before its handler runs.
    /// `None` if that would recurse endlessly.
    fn uri_status(&self, uri: &[u8]) -> Option<u16> {
        self.beneath()?.uri_status(uri)
    }

    /// `-F`: the same for a file; 404 if it does not exist.
    fn file_status(&self, path: &[u8]) -> Option<u16> {
        self.beneath()?.file_status(path)
    }
}

/// A question about a path of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileTest {
    /// `-d`
    Directory,
    /// `-e`
    Exists,
    /// `-f`
    Regular,
    /// `-s`: regular and not empty.
    NotEmpty,
    /// `-L`, `-h`, `-l`: a symbolic link, not followed.
    Link,
    /// `-x`: any execute bit.
    Executable,
}

/// Reason why a file has no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFault {
    Open,
    TooLarge,
    Read,
}

/// A time as the calendar on the wall has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalTime {
    pub year: i32,
    /// Month, from 1.
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    /// Day of the week; Sunday is 0.
    pub weekday: u8,
}

impl LocalTime {
    /// The beginning of 1970, for facts that know no time.
    pub const EPOCH: LocalTime = LocalTime {
        year: 1970,
        month: 1,
        day: 1,
        hour: 0,
        minute: 0,
        second: 0,
        weekday: 4,
    };

    /// The value of one of the `TIME` variables.
    pub fn variable(self, variable: Variable) -> Option<String> {
        let LocalTime {
            year,
            month,
            day,
            hour,
            minute,
            second,
            weekday,
        } = self;
        Some(match variable {
            Variable::TimeYear => format!("{year:04}"),
            Variable::TimeMon => format!("{month:02}"),
            Variable::TimeDay => format!("{day:02}"),
            Variable::TimeHour => format!("{hour:02}"),
            Variable::TimeMin => format!("{minute:02}"),
            Variable::TimeSec => format!("{second:02}"),
            Variable::TimeWday => weekday.to_string(),
            Variable::Time => format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}"),
            _ => return None,
        })
    }
}
