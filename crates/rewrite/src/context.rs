//! Input and outcome of a run.
//!
//! Called by: front ends, which implement [`RewriteContext`] and carry out the [`Outcome`].
//! Out of scope: the request itself; [`Input`] has `r->uri`, `r->filename`, `r->path_info`, and
//! `r->args` of httpd, everything else is read through [`Facts`].

use crate::SourceLine;
use crate::{MapSource, TextMap};
use saker_ap_expr::{Dependencies, Dependency, Facts, RequestTest};
use std::{fmt, path::Path, sync::Arc};

/// Facts, and what only mod_rewrite asks.
pub trait RewriteContext: Facts {
    /// The content of a `txt:` or `rnd:` map, as it is now. `None` if it can't be read.
    fn text_map(&self, file: &Path) -> Option<Arc<TextMap>>;

    /// A value from a program, a DBM file or a data base. `None`: no such key.
    fn external_map(&self, name: &str, source: &MapSource, key: &[u8]) -> Option<Vec<u8>>;

    /// A number below `count`, by chance.
    fn pick(&self, count: usize) -> usize;

    /// Facts of the subrequest for a path (`LA-U:`) or a file (`LA-F:`); its `REQUEST_FILENAME` and
    /// so on are final. `None` if that would recurse endlessly.
    fn look_ahead<'w>(&'w self, path: &[u8], by_file: bool) -> Option<Box<dyn Facts + 'w>>;

    /// True if the virtual host of this request answers for this name and port.
    fn is_own_host(&self, host: &[u8], port: u16) -> bool;

    /// The home folder of a user, for `/~user`.
    fn home_folder(&self, user: &[u8]) -> Option<Vec<u8>>;

    /// The context as seen by expressions.
    fn as_facts(&self) -> &dyn Facts;
}

/// The request as it is when the rules begin.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Decoded path (`r->uri`).
    pub uri: &'a [u8],
    /// The file found so far; in server context mostly none (`r->filename`).
    pub filename: Option<&'a [u8]>,
    /// Path after the file name (PATH_INFO).
    pub path_info: &'a [u8],
    /// Query, not decoded, without the `?` (`r->args`).
    pub query: Option<&'a [u8]>,
    /// The request target was `*`, or no path.
    pub not_a_path: bool,
    pub is_subrequest: bool,
    pub is_connect: bool,
    /// A rule with `[END]` has matched earlier in this request.
    pub ended: bool,
    /// `Options FollowSymLinks` or `SymLinksIfOwnerMatch` is on; rules in directories want it.
    pub follows_links: bool,
    /// mod_proxy is there.
    pub proxy_available: bool,
    /// Seconds since 1970, for cookies.
    pub request_time_s: i64,
    /// LimitRequestLine.
    pub line_bytes_max: usize,
    /// The finest `LogLevel rewrite:traceN` that is wanted; 0 for none.
    pub trace_level: u8,
}

impl<'a> Input<'a> {
    /// A plain request for a path.
    pub fn new(uri: &'a [u8]) -> Self {
        Input {
            uri,
            filename: None,
            path_info: b"",
            query: None,
            not_a_path: false,
            is_subrequest: false,
            is_connect: false,
            ended: false,
            follows_links: true,
            proxy_available: true,
            request_time_s: 0,
            line_bytes_max: 8190,
            trace_level: 0,
        }
    }
}

/// Action to take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// No rule with a substitution matched: continue as if there were none.
    Pass,
    /// Directory context: the rules led back to where they began. Go on, with the outcome's query.
    Stay,
    /// Server context: this is the file.
    Filename(Vec<u8>),
    /// Server context: this path below the document root, without looking at aliases.
    Translate(Vec<u8>),
    /// Server context: continue mapping this path (aliases and so on), as if it had been requested.
    PassThrough(Vec<u8>),
    /// Directory context: begin again with this path and the outcome's query. httpd decodes and
    /// normalizes the path once more, cuts it at a `?`, forgets a forced type, and prefixes the
    /// names in the environment with `REDIRECT_`. It does none of this if the rules forced a
    /// handler (which then sees a file that does not exist), nor for a folder's path without its
    /// slash (mod_dir comes first).
    InternalRedirect(Vec<u8>),
    /// The location is whole and escaped.
    Redirect {
        status: u16,
        location: Vec<u8>,
    },
    Status(u16),
    /// `no_canonical`: the URL goes out as it is, its query is part of it.
    Proxy {
        url: Vec<u8>,
        no_canonical: bool,
    },
}

/// All that came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub action: Action,
    /// The query from now on.
    pub query: Option<Vec<u8>>,
    /// A rule has written the query, or dropped it; else it is the one of the input.
    pub has_written_query: bool,
    /// `[DPI]`: what followed the file is forgotten.
    pub discard_path_info: bool,
    pub effects: Effects,
    pub dependencies: Dependencies,
    /// Lines for the error log.
    pub log: Vec<LogLine>,
    /// Trace lines; empty unless requested.
    pub trace: Vec<TraceLine>,
    /// The lines that dependencies come from; empty unless a trace is requested.
    pub causes: Vec<Cause>,
}

/// A line, and what the outcome depends on because of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    pub line: SourceLine,
    pub kinds: Vec<Dependency>,
    pub tests: Vec<RequestTest>,
}

/// Side effects of the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Changes in the order of the rules; `None` unsets. A name may occur again.
    pub environment: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Each name once. Those set earlier in the same request win, which the caller has to see to.
    pub cookies: Vec<Cookie>,
    /// Media type in lower case (`[T=…]`).
    pub forced_type: Option<Vec<u8>>,
    /// Handler in lower case (`[H=…]`).
    pub forced_handler: Option<Vec<u8>>,
    /// Field names for Vary.
    pub vary: Vec<String>,
    /// No more rewriting for this request, whatever it is redirected to inside (`[END]`).
    pub end: bool,
    /// The engine ran in server context: SCRIPT_URL and SCRIPT_URI belong into the environment
    /// ([`crate::script_environment`]).
    pub script_environment: bool,
}

/// A `Set-Cookie` field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cookie {
    pub name: Vec<u8>,
    pub field_value: Vec<u8>,
}

/// Something for the error log, in httpd's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// `AH10410` and so on; empty where httpd has none.
    pub id: &'static str,
    pub text: String,
}

/// A line of `LogLevel rewrite:traceN`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceLine {
    pub level: u8,
    /// The directory, in directory context.
    pub directory: Option<String>,
    pub text: String,
}

impl fmt::Display for TraceLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.directory {
            Some(directory) => write!(f, "[perdir {directory}] {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}
