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
pub trait Facts {
    /// The value of a variable. Never called for variables that are request fields, for those of
    /// the time, or for `API_VERSION`.
    fn variable(&self, variable: Variable) -> Option<Cow<'_, [u8]>>;

    /// First the field's value, then those of its repetitions joined by `, `.
    fn request_field(&self, name: &[u8]) -> Option<Cow<'_, [u8]>>;

    fn response_field(&self, _name: &[u8]) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// `hc(…)`: a value of a server's response to a health check (mod_proxy_hcheck).
    fn health_check(&self, _name: &[u8]) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// Returns a note, the values that modules leave for each other.
    fn note(&self, _name: &[u8]) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// The request's own environment (SetEnv, SetEnvIf, `[E=…]`).
    fn environment(&self, _name: &[u8]) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// The environment that the server was started with.
    fn process_environment(&self, _name: &[u8]) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// A variable of mod_ssl, `SSL_…`.
    fn tls_variable(&self, _name: &[u8]) -> Option<Cow<'_, [u8]>> {
        None
    }

    /// Values of the client certificate's extensions with this object id.
    fn peer_extensions(&self, _object_id: &[u8]) -> Vec<Vec<u8>> {
        Vec::new()
    }

    /// Returns the account that evaluations for the request are charged to. `None`: each has its
    /// own limit.
    fn work(&self) -> Option<&Work> {
        None
    }

    fn client_address(&self) -> Option<IpAddr>;

    /// Returns whether the part is read as the client sent it. Tests of such a part can be run
    /// again for other requests, which know nothing of what rules have changed in this one.
    fn is_as_received(&self, _part: &RequestPart) -> bool {
        false
    }

    fn local_time(&self) -> LocalTime;

    fn file_test(&self, path: &[u8], test: FileTest) -> bool;

    /// Returns the size of a regular file.
    fn file_bytes(&self, _path: &[u8]) -> Option<u64> {
        None
    }

    /// Microseconds since 1970.
    fn file_modified_us(&self, _path: &[u8]) -> Option<i64> {
        None
    }

    /// The content of a file of at most `bytes_max`.
    fn file_content(&self, _path: &[u8], _bytes_max: usize) -> Result<Vec<u8>, FileFault> {
        Err(FileFault::Open)
    }

    /// `-U`, `-A`: the status that a subrequest for the path would get before its handler runs.
    /// `None` if that would recurse endlessly.
    fn uri_status(&self, _uri: &[u8]) -> Option<u16> {
        None
    }

    /// `-F`: the same for a file; 404 if it does not exist.
    fn file_status(&self, _path: &[u8]) -> Option<u16> {
        None
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
