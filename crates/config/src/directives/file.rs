//! The top level of a file: its tables and includes.
//!
//! Called by: `load`, once per file.
//! Out of scope: `[[listener]]`, `[[upstream]]` and `[[site]]`, which have drafts of their own.

use super::{acme::AcmeDraft, map::MapDraft, matcher::IDENTIFIER};
use crate::{
    context::{
        ACME, DYNAMIC_VHOSTS, FILE, LIMITS, LISTENER, PHP, SERVER, SITE, STREAM, TLS, UPSTREAM,
    },
    kind::Kind,
    model::{
        CacheStore, Cluster, Console, Hosts, Limits, MetricsEndpoint, Php, Server, ServerGuard,
        ServerTls, Tracing,
    },
    row::{self, Draft, Row, Rows},
    source::Location,
    value::{Key, Spanned},
};

/// The tables of one file that may appear once, and its includes.
#[derive(Debug, Default)]
pub struct FileDraft {
    pub server: Server,
    pub limits: Limits,
    pub tls: ServerTls,
    pub acme: AcmeDraft,
    pub php: Php,
    pub cache: CacheStore,
    pub cluster: Cluster,
    pub abuse: ServerGuard,
    pub dynamic_vhosts: Hosts,
    pub metrics: MetricsEndpoint,
    pub tracing: Tracing,
    pub console: Console,
    pub maps: Vec<(String, MapDraft, Location)>,
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
        let given = self.cluster.set(key, given)?;
        let given = self.abuse.set(key, given)?;
        let given = self.metrics.set(key, given)?;
        let given = self.tracing.set(key, given)?;
        let given = self.console.set(key, given)?;
        self.dynamic_vhosts.set(key, given)
    }

    fn note_unread(&mut self, key: Key) {
        if key.context == DYNAMIC_VHOSTS {
            self.dynamic_vhosts.note_unread(key);
        }
    }
}

pub const ROWS: &[Row<FileDraft>] = &[
    Row {
        name: "include",
        contexts: FILE,
        kind: Kind::ListOf(&Kind::Text),
        example: Some("[\"sites/*.toml\"]"),
        summary: "Further configuration files, relative to this one; `*` and `?` match parts of a \
                  file name. Their listeners and sites follow those of this file, in the order of \
                  the list and then by name.",
        apache: Some("Include, IncludeOptional"),
        aliases: &["includes", "include_dir", "conf_dir", "confd"],
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
        summary: "Settings of the server process.",
        ..Row::BASE
    },
    Row {
        name: "limits",
        contexts: FILE,
        kind: Kind::Section(LIMITS),
        summary: "Limits on clients.",
        ..Row::BASE
    },
    Row {
        name: "tls",
        contexts: FILE,
        kind: Kind::Section(TLS),
        summary: "TLS settings of the whole process.",
        ..Row::BASE
    },
    Row {
        name: "acme",
        contexts: FILE,
        kind: Kind::Section(ACME),
        summary: "Automatic certificates (ACME).",
        ..Row::BASE
    },
    Row {
        name: "php",
        contexts: FILE,
        kind: Kind::Section(PHP),
        summary: "PHP processes managed by the server.",
        since: "0.2",
        ..Row::BASE
    },
    Row {
        name: "map",
        contexts: FILE,
        kind: Kind::MapOf(&IDENTIFIER, &super::map::MAP_TABLE),
        example: Some(
            "{ mobile = { source = \"$http_user_agent\", regex = { \"(?i)android\" = \"1\" } } }",
        ),
        summary: "Maps from a text to a value, by name.",
        apache: Some("RewriteMap"),
        since: "0.2",
        aliases: &["maps", "geo"],
        set: |file, given| file.maps.extend(super::map::maps(given)),
        ..Row::BASE
    },
    Row {
        name: "listener",
        contexts: FILE,
        kind: Kind::Sections(LISTENER),
        summary: "Addresses to listen on.",
        apache: Some("Listen"),
        ..Row::BASE
    },
    Row {
        name: "upstream",
        contexts: FILE,
        kind: Kind::Sections(UPSTREAM),
        summary: "Application servers and backends.",
        apache: Some("<Proxy balancer://...>, ProxySet"),
        aliases: &["upstreams", "backend"],
        ..Row::BASE
    },
    Row {
        name: "stream",
        contexts: FILE,
        kind: Kind::Sections(STREAM),
        summary: "TCP connections and UDP datagrams that are passed on as they come.",
        aliases: &["streams", "layer4", "tcp"],
        since: "0.2",
        ..Row::BASE
    },
    Row {
        name: "site",
        contexts: FILE,
        kind: Kind::Sections(SITE),
        summary: "Host names and what they serve.",
        apache: Some("<VirtualHost>, VirtualHost"),
        aliases: &["vhost", "virtual_host", "sites"],
        ..Row::BASE
    },
];
