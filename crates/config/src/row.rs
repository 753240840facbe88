//! What a directive is: one row, from which reading, checks, the JSON Schema and the reference page
//! all derive.
//!
//! A row carries the setter that puts its value into the model, so that a key without a row can't
//! be read and a row can't be forgotten in a second list. Rows stand in `directives/<feature>.rs`;
//! this file has their type.

use crate::{
    diagnostic::quoted,
    directives::{
        AccessLogDraft, AcmeDraft, CertificateDraft, ChallengeDraft, DirectoryDraft, FieldDraft,
        FileDraft, ListenerDraft, RateDraft, ReferrersDraft, RequestRateDraft, RouteDraft,
        ServerDraft, SignedDraft, SiteDraft, TriggerDraft, UpstreamDraft,
    },
    model::{
        CacheStore, CacheUse, Hosts, Limits, Logins, Php, Robots, Server, ServerGuard, ServerTls,
        Settings,
    },
    reader::{Reader, Table},
    source::At,
    units,
    value::{Given, Value},
};

/// The tables in which a key may stand, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contexts(pub u64);

pub const FILE: Contexts = Contexts(1);
pub const SERVER: Contexts = Contexts(1 << 1);
pub const LIMITS: Contexts = Contexts(1 << 2);
pub const LISTENER: Contexts = Contexts(1 << 3);
pub const SITE: Contexts = Contexts(1 << 4);
pub const ROUTE: Contexts = Contexts(1 << 5);
pub const REDIRECT: Contexts = Contexts(1 << 6);
pub const COMPRESSION: Contexts = Contexts(1 << 7);
pub const THROTTLE: Contexts = Contexts(1 << 8);
pub const ACCESS_LOG: Contexts = Contexts(1 << 9);
pub const RATE: Contexts = Contexts(1 << 10);
pub const REQUEST_RATE: Contexts = Contexts(1 << 11);
pub const FIELD: Contexts = Contexts(1 << 12);
pub const TLS: Contexts = Contexts(1 << 13);
pub const ACME: Contexts = Contexts(1 << 14);
pub const ACME_DIRECTORY: Contexts = Contexts(1 << 15);
pub const SITE_TLS: Contexts = Contexts(1 << 16);
pub const CERTIFICATE: Contexts = Contexts(1 << 17);
pub const UPSTREAM: Contexts = Contexts(1 << 18);
pub const UPSTREAM_SERVER: Contexts = Contexts(1 << 19);
pub const PHP: Contexts = Contexts(1 << 20);
pub const CACHE_STORE: Contexts = Contexts(1 << 21);
pub const CACHE: Contexts = Contexts(1 << 22);
pub const GUARD: Contexts = Contexts(1 << 23);
pub const SITE_GUARD: Contexts = Contexts(1 << 24);
pub const REFERRERS: Contexts = Contexts(1 << 25);
pub const SIGNED: Contexts = Contexts(1 << 26);
pub const CHALLENGE: Contexts = Contexts(1 << 32);
pub const LOGINS: Contexts = Contexts(1 << 33);
pub const ROBOTS: Contexts = Contexts(1 << 34);
pub const TRIGGER: Contexts = Contexts(1 << 27);
pub const HOSTS: Contexts = Contexts(1 << 29);

impl Contexts {
    pub const fn or(self, other: Contexts) -> Contexts {
        Contexts(self.0 | other.0)
    }

    pub fn includes(self, one: Contexts) -> bool {
        self.0 & one.0 != 0
    }

    /// Of a single context: how it is named to the user.
    pub fn described(self) -> &'static ContextRow {
        CONTEXTS
            .iter()
            .find(|row| row.context == self)
            .unwrap_or(&CONTEXTS[0])
    }

    /// Of a single context, in a sentence: where a key stands.
    pub fn place(self) -> String {
        let header = self.described().header;
        if self == FILE {
            format!("at {header}")
        } else {
            format!("in {header}")
        }
    }

    /// The single contexts in it, in the order of [`CONTEXTS`].
    pub fn each(self) -> impl Iterator<Item = &'static ContextRow> {
        CONTEXTS
            .iter()
            .filter(move |row| self.includes(row.context))
    }
}

/// A table of the file format.
#[derive(Debug)]
pub struct ContextRow {
    pub context: Contexts,
    /// Name of its definition in the JSON Schema.
    pub id: &'static str,
    /// As written in a file.
    pub header: &'static str,
    pub summary: &'static str,
}

const fn context(
    context: Contexts,
    id: &'static str,
    header: &'static str,
    summary: &'static str,
) -> ContextRow {
    ContextRow {
        context,
        id,
        header,
        summary,
    }
}

/// Order of the reference page.
pub const CONTEXTS: &[ContextRow] = &[
    context(
        FILE,
        "file",
        "the top of the file",
        "The file as a whole. Keys without a table come first, before any `[table]`.",
    ),
    context(
        SERVER,
        "server",
        "[server]",
        "What the process is and where it writes. At most once in all files together.",
    ),
    context(
        LIMITS,
        "limits",
        "[limits]",
        "What clients may cost. At most once in all files together.",
    ),
    context(
        TLS,
        "tls",
        "[tls]",
        "TLS of the whole process. At most once in all files together.",
    ),
    context(
        ACME,
        "acme",
        "[acme]",
        "Where automatic certificates come from, for sites with `automatic` in [site.tls]. At most once in all files together.",
    ),
    context(
        PHP,
        "php",
        "[php]",
        "PHP that the server runs itself, for sites with `php = \"auto\"`. At most once in all files together.",
    ),
    context(
        CACHE_STORE,
        "cache_store",
        "[cache]",
        "Where the page cache keeps its entries, for all sites. At most once in all files together.",
    ),
    context(
        GUARD,
        "guard",
        "[guard]",
        "Who may connect at all, and what one client address may keep open. At most once in all files together.",
    ),
    context(
        HOSTS,
        "hosts",
        "[hosts]",
        "Hosts that a database knows, for sites with `lookup = true`. At most once in all files together. Columns of a row that are known: `root` (or \
         `docroot`), `user`, `group`, `php`, `bandwidth`, `requests`, `redirect`, `suspended`; docs/dynamic-virtual-hosts.md says what each does.",
    ),
    context(
        LISTENER,
        "listener",
        "[[listener]]",
        "Where connections come in. At least one.",
    ),
    context(
        SITE,
        "site",
        "[[site]]",
        "Hosts and what they serve. At least one; the first with `*` or else the first answers unknown hosts.",
    ),
    context(
        SITE_TLS,
        "site_tls",
        "[site.tls]",
        "Certificates of the site, and what its TLS sessions are like.",
    ),
    context(
        CERTIFICATE,
        "certificate",
        "[[site.tls.certificate]]",
        "One of several certificates of a site, with what belongs to it.",
    ),
    context(
        ROUTE,
        "route",
        "[[site.route]]",
        "Requests of a site by path; the first that matches wins. Settings are laid over the site's.",
    ),
    context(
        UPSTREAM,
        "upstream",
        "[[upstream]]",
        "Programs and servers that answer in our place; routes send requests to them by `proxy`.",
    ),
    context(
        UPSTREAM_SERVER,
        "upstream_server",
        "{ address = \"...\", ... }",
        "A server of an upstream with its details.",
    ),
    context(
        REDIRECT,
        "redirect",
        "[[site.redirect]]",
        "A route that redirects, in fewer words. Takes its place among the routes.",
    ),
    context(
        COMPRESSION,
        "compression",
        "[site.compression]",
        "Compression on the fly. In a route: `[site.route.compression]`.",
    ),
    context(
        CACHE,
        "cache",
        "[site.cache]",
        "The page cache of the site. In a route: `[site.route.cache]`, which is laid over the site's. `cache = true` is a table with nothing in it.",
    ),
    context(
        THROTTLE,
        "throttle",
        "[site.throttle]",
        "Bandwidth and request rates. In a route: `[site.route.throttle]`.",
    ),
    context(
        SITE_GUARD,
        "site_guard",
        "[site.guard]",
        "Who is answered. In a route: `[site.route.guard]`, which is laid over the site's.",
    ),
    context(
        REFERRERS,
        "referrers",
        "[site.referrers]",
        "Hot-link protection. In a route: `[site.route.referrers]`, which takes the place of the site's.",
    ),
    context(
        SIGNED,
        "signed",
        "[site.signed]",
        "Signed URLs (`saker sign-url` makes them). In a route: `[site.route.signed]`.",
    ),
    context(
        CHALLENGE,
        "challenge",
        "[site.challenge]",
        "Proof of work. In a route: `[site.route.challenge]`, which takes the place of the site's.",
    ),
    context(
        LOGINS,
        "logins",
        "[site.logins]",
        "Guard of WordPress' logins. In a route: `[site.route.logins]`.",
    ),
    context(
        ROBOTS,
        "robots",
        "[site.robots]",
        "Verified robots. In a route: `[site.route.robots]`.",
    ),
    context(
        TRIGGER,
        "trigger",
        "[site.trigger]",
        "A page before its downloads. In a route: `[site.route.trigger]`.",
    ),
    context(
        ACCESS_LOG,
        "access_log",
        "{ path = \"...\", ... }",
        "An access log with a format.",
    ),
    context(
        ACME_DIRECTORY,
        "acme_directory",
        "{ url = \"...\", ... }",
        "A directory of `[acme]`, with an account that it knows already.",
    ),
    context(
        RATE,
        "rate",
        "{ rate = \"1MB/s\", ... }",
        "Bandwidth with its details.",
    ),
    context(
        REQUEST_RATE,
        "request_rate",
        "{ rate = \"30/m\", ... }",
        "A request rate with its details.",
    ),
    context(
        FIELD,
        "field",
        "{ set = \"...\", ... }",
        "An edit of a response field. Exactly one of `set`, `append`, `if_absent`, `remove`.",
    ),
];

/// One key of the configuration.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    pub contexts: Contexts,
    pub kind: Kind,
    /// TOML of the value in force when the key is absent. `None`: nothing, or described by the
    /// summary.
    pub default: Option<&'static str>,
    /// TOML of a typical value, where the default is none.
    pub example: Option<&'static str>,
    /// Of a bare number.
    pub unit: Option<&'static str>,
    pub required: bool,
    pub since: &'static str,
    pub summary: &'static str,
    /// The Apache directive that does this.
    pub apache: Option<&'static str>,
    /// What people coming from other servers may write instead.
    pub aliases: &'static [&'static str],
    pub(crate) set: Set,
}

/// What most rows have in common.
pub(crate) const ROW: Row = Row {
    name: "",
    contexts: FILE,
    kind: Kind::Boolean,
    default: None,
    example: None,
    unit: None,
    required: false,
    since: "0.1",
    summary: "",
    apache: None,
    aliases: &[],
    set: Set::Nothing,
};

impl Row {
    /// Whether another server calls it by this name.
    pub fn is_known_elsewhere_as(&self, word: &str) -> bool {
        let apache = self.apache.into_iter().flat_map(|names| names.split(", "));
        apache
            .chain(self.aliases.iter().copied())
            .any(|name| crate::suggest::same_word(name, word))
    }
}

/// Where a value goes.
#[derive(Debug)]
pub(crate) enum Set {
    /// A table: its own rows have the setters.
    Nothing,
    File(fn(&mut FileDraft, Given)),
    Server(fn(&mut Server, Given)),
    Limits(fn(&mut Limits, Given)),
    Tls(fn(&mut ServerTls, Given)),
    Acme(fn(&mut AcmeDraft, Given)),
    Php(fn(&mut Php, Given)),
    CacheStore(fn(&mut CacheStore, Given)),
    Hosts(fn(&mut Hosts, Given)),
    CacheUse(fn(&mut CacheUse, Given)),
    Guard(fn(&mut ServerGuard, Given)),
    AcmeDirectory(fn(&mut DirectoryDraft, Given)),
    Certificate(fn(&mut CertificateDraft, Given)),
    Listener(fn(&mut ListenerDraft, Given)),
    Site(fn(&mut SiteDraft, Given)),
    Settings(fn(&mut Settings, Given)),
    Route(fn(&mut RouteDraft, Given)),
    AccessLog(fn(&mut AccessLogDraft, Given)),
    Rate(fn(&mut RateDraft, Given)),
    RequestRate(fn(&mut RequestRateDraft, Given)),
    Field(fn(&mut FieldDraft, Given)),
    Upstream(fn(&mut UpstreamDraft, Given)),
    UpstreamServer(fn(&mut ServerDraft, Given)),
    Referrers(fn(&mut ReferrersDraft, Given)),
    Signed(fn(&mut SignedDraft, Given)),
    Trigger(fn(&mut TriggerDraft, Given)),
    Challenge(fn(&mut ChallengeDraft, Given)),
    Logins(fn(&mut Logins, Given)),
    Robots(fn(&mut Robots, Given)),
}

/// What a table is read into.
pub(crate) trait Target {
    /// Runs the setter if it is one for this target.
    fn take(&mut self, set: &Set, given: Given);
}

/// What a value may be.
#[derive(Debug)]
pub enum Kind {
    Boolean,
    Integer {
        min: u64,
        max: u64,
    },
    /// `"64KiB"`, `"1MB"` or a number of bytes.
    Bytes {
        min: u64,
        max: u64,
    },
    /// `"30s"`, `"500ms"`, `"2m"`.
    Duration {
        min_ms: u64,
        max_ms: u64,
    },
    /// Any string that is not empty.
    Text,
    /// Relative to the file that it is written in.
    Path,
    /// Behind a `|` stands a command, which is no path.
    PathOrProgram,
    Choice(&'static [&'static str]),
    /// A string with a grammar of its own.
    Word(&'static Word),
    OneOf(&'static [Kind]),
    ListOf(&'static Kind),
    MapOf(&'static KeyKind, &'static Kind),
    /// A table whose keys are set on the same target.
    Section(Contexts),
    /// `[[name]]`, any number of times.
    Sections(Contexts),
    /// A table that is a value.
    Table(&'static TableKind),
}

#[derive(Debug)]
pub struct Word {
    /// With article, as in "must be …".
    pub expects: &'static str,
    /// Regular expression for the JSON Schema; empty for none.
    pub pattern: &'static str,
    pub(crate) read: fn(&str) -> Result<Value, Fault>,
}

/// Why a word was refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Ends a sentence that begins with the quoted text: "…: needs a dot".
    pub message: Option<String>,
    pub help: Option<String>,
}

impl Fault {
    pub fn new(message: impl Into<String>) -> Fault {
        Fault {
            message: Some(message.into()),
            help: None,
        }
    }

    pub fn with_help(message: impl Into<String>, help: impl Into<String>) -> Fault {
        Fault {
            message: Some(message.into()),
            help: Some(help.into()),
        }
    }

    /// "must be …" says it all.
    pub fn plain(help: Option<String>) -> Fault {
        Fault {
            message: None,
            help,
        }
    }
}

#[derive(Debug)]
pub struct KeyKind {
    pub expects: &'static str,
    pub pattern: &'static str,
    /// The key as it is kept; keys that differ only in case are the same.
    pub(crate) read: fn(&str) -> Result<String, Fault>,
}

#[derive(Debug)]
pub struct TableKind {
    pub context: Contexts,
    pub(crate) read: fn(&mut Reader<'_>, &Table<'_>, At) -> Option<Value>,
}

/// What a TOML value is, as far as choosing between alternatives goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Boolean,
    Integer,
    String,
    List,
    Table,
    Other,
}

impl Kind {
    pub(crate) fn accepts(&self, shape: Shape) -> bool {
        match self {
            Kind::Boolean => shape == Shape::Boolean,
            Kind::Integer { .. } => shape == Shape::Integer,
            Kind::Bytes { .. } => matches!(shape, Shape::Integer | Shape::String),
            Kind::Duration { .. }
            | Kind::Text
            | Kind::Path
            | Kind::PathOrProgram
            | Kind::Choice(_)
            | Kind::Word(_) => shape == Shape::String,
            Kind::OneOf(kinds) => kinds.iter().any(|kind| kind.accepts(shape)),
            Kind::ListOf(_) | Kind::Sections(_) => shape == Shape::List,
            Kind::MapOf(..) | Kind::Section(_) | Kind::Table(_) => shape == Shape::Table,
        }
    }

    /// The noun phrase of "must be …".
    pub fn expects(&self) -> String {
        match self {
            Kind::Boolean => "true or false".into(),
            Kind::Integer { min, max } => format!("an integer from {min} to {max}"),
            Kind::Bytes { min, max } => {
                format!(
                    "a size from {} to {}, such as \"64KiB\" or \"1MB\"",
                    units::show_size(*min),
                    units::show_size(*max)
                )
            }
            Kind::Duration { min_ms, max_ms } => {
                let (min, max) = (units::show_duration(*min_ms), units::show_duration(*max_ms));
                format!("a duration from {min} to {max}, such as \"30s\" or \"500ms\"")
            }
            Kind::Text => "a string".into(),
            Kind::Path => "a path".into(),
            Kind::PathOrProgram => "a path or \"|command\"".into(),
            Kind::Choice(words) => alternatives(words.iter().map(|word| quoted(word)).collect()),
            Kind::Word(word) => word.expects.into(),
            Kind::OneOf(kinds) => alternatives(kinds.iter().map(Kind::expects).collect()),
            Kind::ListOf(kind) => format!("a list [...] of which each is {}", kind.expects()),
            Kind::MapOf(key, kind) => format!("a table {{ {} = {} }}", key.expects, kind.expects()),
            Kind::Section(context) | Kind::Table(TableKind { context, .. }) => {
                format!("a table {}", context.described().header)
            }
            Kind::Sections(context) => format!("tables {}", context.described().header),
        }
    }
}

fn alternatives(mut words: Vec<String>) -> String {
    match words.pop() {
        Some(last) if !words.is_empty() => format!("{} or {last}", words.join(", ")),
        Some(last) => last,
        None => String::new(),
    }
}
