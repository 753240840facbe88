//! The top of a file: its tables, and the files that it includes.

use crate::{
    directives::AcmeDraft,
    model::{CacheStore, Hosts, Limits, Php, Server, ServerGuard, ServerTls},
    row::{
        ACME, FILE, Kind, LIMITS, LISTENER, PHP, ROW, Row, SERVER, SITE, Set, TLS, Target, UPSTREAM,
    },
    source::At,
    value::Given,
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
    pub guard: ServerGuard,
    pub hosts: Hosts,
    /// Patterns as written.
    pub include: Vec<(String, At)>,
}

impl Target for FileDraft {
    fn take(&mut self, set: &Set, given: Given) {
        match set {
            Set::File(set) => set(self, given),
            Set::Server(set) => set(&mut self.server, given),
            Set::Limits(set) => set(&mut self.limits, given),
            Set::Tls(set) => set(&mut self.tls, given),
            Set::Acme(set) => set(&mut self.acme, given),
            Set::Php(set) => set(&mut self.php, given),
            Set::CacheStore(set) => set(&mut self.cache, given),
            Set::Guard(set) => set(&mut self.guard, given),
            Set::Hosts(set) => set(&mut self.hosts, given),
            _ => debug_assert!(false, "not a setter for a file: {set:?}"),
        }
    }
}

pub static ROWS: &[Row] = &[
    Row {
        name: "include",
        contexts: FILE,
        kind: Kind::ListOf(&Kind::Text),
        example: Some("[\"sites/*.toml\"]"),
        summary: "More files, relative to this one; `*` and `?` stand for parts of names. Their listeners and sites come after this file's, \
                  in the order of the list, then of the names.",
        apache: Some("Include, IncludeOptional"),
        set: Set::File(|file, given| {
            file.include = given
                .list()
                .into_iter()
                .map(|one| (one.clone().text(), one.at))
                .collect()
        }),
        ..ROW
    },
    Row {
        name: "server",
        contexts: FILE,
        kind: Kind::Section(SERVER),
        summary: "The process.",
        ..ROW
    },
    Row {
        name: "limits",
        contexts: FILE,
        kind: Kind::Section(LIMITS),
        summary: "Bounds on what clients may cost.",
        ..ROW
    },
    Row {
        name: "tls",
        contexts: FILE,
        kind: Kind::Section(TLS),
        summary: "TLS of the whole process.",
        ..ROW
    },
    Row {
        name: "acme",
        contexts: FILE,
        kind: Kind::Section(ACME),
        summary: "Automatic certificates.",
        ..ROW
    },
    Row {
        name: "php",
        contexts: FILE,
        kind: Kind::Section(PHP),
        summary: "PHP that the server runs itself.",
        since: "0.4",
        ..ROW
    },
    Row {
        name: "listener",
        contexts: FILE,
        kind: Kind::Sections(LISTENER),
        summary: "Where connections come in.",
        apache: Some("Listen"),
        ..ROW
    },
    Row {
        name: "upstream",
        contexts: FILE,
        kind: Kind::Sections(UPSTREAM),
        summary: "Programs and servers that answer in our place.",
        apache: Some("<Proxy balancer://...>, ProxySet"),
        aliases: &["upstreams", "backend"],
        ..ROW
    },
    Row {
        name: "site",
        contexts: FILE,
        kind: Kind::Sections(SITE),
        summary: "Hosts and what they serve.",
        apache: Some("<VirtualHost>, VirtualHost"),
        aliases: &["vhost", "virtual_host", "sites"],
        ..ROW
    },
];
