//! The top of a file: its tables, and the files that it includes.

use super::acme::AcmeDraft;
use crate::{
    context::{ACME, FILE, LIMITS, LISTENER, PHP, SERVER, SITE, TLS, UPSTREAM},
    kind::Kind,
    model::{CacheStore, Hosts, Limits, Php, Server, ServerGuard, ServerTls},
    row::{self, Draft, Row, Rows},
    source::Location,
    value::{Key, Spanned},
};

/// What `[server]`, `[limits]`, `[tls]`, `[acme]`, `[php]`, `[cache]`, `[hosts]`, `[guard]` and
/// `include` of one file say.
#[derive(Debug, Default)]
pub struct FileDraft {
    pub server: Server,
    pub limits: Limits,
    pub tls: ServerTls,
    pub acme: AcmeDraft,
    pub php: Php,
    pub cache: CacheStore,
    pub abuse: ServerGuard,
    pub dynamic_vhosts: Hosts,
    /// Patterns as written.
    pub include: Vec<(String, Location)>,
}

impl Draft for FileDraft {
    fn rows() -> Rows<Self> {
        &[ROWS]
    }

    fn set(&mut self, key: Key, given: Spanned) -> Option<Spanned> {
        let given = row::set_own(self, key, given)?;
        let given = self.server.set(key, given)?;
        let given = self.limits.set(key, given)?;
        let given = self.tls.set(key, given)?;
        let given = self.acme.set(key, given)?;
        let given = self.php.set(key, given)?;
        let given = self.cache.set(key, given)?;
        let given = self.abuse.set(key, given)?;
        self.dynamic_vhosts.set(key, given)
    }
}

pub const ROWS: &[Row<FileDraft>] = &[
    Row {
        name: "include",
        contexts: FILE,
        kind: Kind::ListOf(&Kind::Text),
        example: Some("[\"sites/*.toml\"]"),
        summary: "More files, relative to this one; `*` and `?` stand for parts of names. Their listeners and sites come after this file's, \
                  in the order of the list, then of the names.",
        apache: Some("Include, IncludeOptional"),
        set: |file, given| {
            file.include = given
                .list()
                .into_iter()
                .map(|one| (one.clone().text(), one.at))
                .collect()
        },
        ..Row::BASE
    },
    Row {
        name: "server",
        contexts: FILE,
        kind: Kind::Section(SERVER),
        summary: "The process.",
        ..Row::BASE
    },
    Row {
        name: "limits",
        contexts: FILE,
        kind: Kind::Section(LIMITS),
        summary: "Bounds on what clients may cost.",
        ..Row::BASE
    },
    Row {
        name: "tls",
        contexts: FILE,
        kind: Kind::Section(TLS),
        summary: "TLS of the whole process.",
        ..Row::BASE
    },
    Row {
        name: "acme",
        contexts: FILE,
        kind: Kind::Section(ACME),
        summary: "Automatic certificates.",
        ..Row::BASE
    },
    Row {
        name: "php",
        contexts: FILE,
        kind: Kind::Section(PHP),
        summary: "PHP that the server runs itself.",
        since: "0.4",
        ..Row::BASE
    },
    Row {
        name: "listener",
        contexts: FILE,
        kind: Kind::Sections(LISTENER),
        summary: "Where connections come in.",
        apache: Some("Listen"),
        ..Row::BASE
    },
    Row {
        name: "upstream",
        contexts: FILE,
        kind: Kind::Sections(UPSTREAM),
        summary: "Programs and servers that answer in our place.",
        apache: Some("<Proxy balancer://...>, ProxySet"),
        aliases: &["upstreams", "backend"],
        ..Row::BASE
    },
    Row {
        name: "site",
        contexts: FILE,
        kind: Kind::Sections(SITE),
        summary: "Hosts and what they serve.",
        apache: Some("<VirtualHost>, VirtualHost"),
        aliases: &["vhost", "virtual_host", "sites"],
        ..Row::BASE
    },
];
