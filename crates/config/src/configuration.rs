//! A configuration while its files are read and checked.
//!
//! Called by: `load`, which fills it file by file; `resolve` and `check`, which complete and check
//! the whole.
//! Caveat: broken items are left out, so a check for something missing consults [`Mentions`] too.

use crate::{
    diagnostic::{Diagnostic, Severity},
    directives::{map::MapDraft, site::SiteDraft, stream::StreamDraft},
    made_streams::Streams,
    model::{
        Acme, CacheStore, Cluster, Console, Hosts, Limits, Listener, MetricsEndpoint, Model,
        NamedLog, NamedSocket, Php, PhpPools, Server, ServerGuard, ServerTls, Tracing, Upstream,
    },
    peer_site,
    reader::table_in,
    source::{Location, Source},
};
use saker_ipset::{AddressList, GeoDatabase};
use std::{path::PathBuf, sync::Arc};
use toml::de::{DeTable, DeValue};

/// A configuration while its files are read and checked.
#[derive(Default)]
pub(crate) struct Configuration {
    pub diagnostics: Vec<Diagnostic>,
    pub server: Option<(Server, Location)>,
    pub named_logs: Vec<NamedLog>,
    pub named_sockets: Vec<NamedSocket>,
    pub limits: Option<(Limits, Location)>,
    pub tls: Option<(ServerTls, Location)>,
    pub acme: Option<(Acme, Location)>,
    pub php: Option<(Php, Location)>,
    pub cache: Option<(CacheStore, Location)>,
    pub cluster: Option<(Cluster, Location)>,
    pub abuse: Option<(ServerGuard, Location)>,
    /// Files of addresses, each once.
    pub lists: Vec<Arc<AddressList>>,
    pub dynamic_vhosts: Option<(Hosts, Location)>,
    pub metrics: Option<(MetricsEndpoint, Location)>,
    pub tracing: Option<(Tracing, Location)>,
    pub console: Option<(Console, Location)>,
    /// Maps by name.
    pub maps: Vec<(String, MapDraft, Location)>,
    /// The texts of the files.
    pub texts: Vec<Arc<Source>>,
    pub databases: Vec<Arc<GeoDatabase>>,
    pub listeners: Vec<(Listener, Location)>,
    pub sites: Vec<SiteDraft>,
    pub streams: Vec<StreamDraft>,
    /// Parts of the model that they add.
    pub made_streams: Streams,
    /// With their names; `None` for a broken one.
    pub upstreams: Vec<(String, Option<Upstream>, Location)>,
    /// The upstreams, including those that routes name by URL.
    pub resolved: Vec<Arc<Upstream>>,
    /// Set if there are syntax errors, which may hide what seems to be missing.
    pub has_syntax_errors: bool,
    /// Set if there is a listener (a site), broken ones included.
    pub has_listeners: bool,
    pub has_sites: bool,
    pub mentions: Mentions,
    /// Files that were read.
    pub sources: Vec<PathBuf>,
    /// Patterns of included files, with the directories that they are relative to.
    pub includes: Vec<(PathBuf, String)>,
    /// Files that were read for values.
    pub value_files: Vec<PathBuf>,
}

impl Configuration {
    pub fn report(
        &mut self,
        severity: Severity,
        at: &Location,
        message: String,
        help: Option<String>,
    ) {
        self.diagnostics
            .push(Diagnostic::new(severity, at, message, help));
    }

    /// The model that the checked configuration describes.
    pub fn model(self) -> Model {
        let listeners: Vec<Listener> = self
            .listeners
            .into_iter()
            .map(|(listener, _)| listener)
            .collect();
        let acme = self.acme.map_or_else(Acme::default, |(acme, _)| acme);
        let server = self
            .server
            .map_or_else(Server::default, |(server, _)| server);
        let mut model = Model {
            streams: Arc::default(),
            datagrams: Vec::new(),
            stream_logs: Vec::new(),
            stream_error_logs: Vec::new(),
            server: Server {
                includes: self.includes,
                value_files: self.value_files,
                ..server
            },
            limits: self
                .limits
                .map_or_else(Limits::default, |(limits, _)| limits),
            tls: ServerTls {
                acme,
                ..self.tls.map_or_else(ServerTls::default, |(tls, _)| tls)
            },
            php: self.php.map_or_else(Php::default, |(php, _)| php),
            cache: self
                .cache
                .map_or_else(CacheStore::default, |(cache, _)| cache),
            cluster: self
                .cluster
                .map_or_else(Cluster::default, |(cluster, _)| cluster),
            guard: self
                .abuse
                .map_or_else(ServerGuard::default, |(guard, _)| guard),
            address_lists: self.lists,
            hosts: self
                .dynamic_vhosts
                .map_or_else(Hosts::default, |(hosts, _)| hosts),
            geo_databases: self.databases,
            metrics: self
                .metrics
                .map_or_else(MetricsEndpoint::default, |(metrics, _)| metrics),
            console: self
                .console
                .map_or_else(Console::default, |(console, _)| console),
            tracing: Arc::new(
                self.tracing
                    .map_or_else(Tracing::default, |(tracing, _)| tracing),
            ),
            php_pools: PhpPools::default(),
            php_sets: Vec::new(),
            upstreams: self.resolved,
            sites: self
                .sites
                .into_iter()
                .map(|site| Arc::new(site.site(&listeners)))
                .collect(),
            listeners,
            named_logs: self.named_logs,
            named_sockets: self.named_sockets,
            sources: self.sources,
        };
        self.made_streams.add_to(&mut model);
        peer_site::add_to(&mut model);
        model
    }
}

/// Items that the files mention, broken ones included.
#[derive(Debug, Default)]
pub(crate) struct Mentions {
    pub tls_listener: bool,
    pub material: bool,
    pub dns_command: bool,
    pub ask: bool,
}

impl Mentions {
    /// Adds what one file mentions.
    pub fn note(&mut self, file: &DeTable<'_>) {
        let has = |table: &str, key: &str| {
            table_in(file, table).is_some_and(|table| table.contains_key(key))
        };
        self.dns_command |= has("acme", "dns_command");
        self.ask |= has("acme", "ask");
        self.tls_listener |= tables(file, "listener").any(|listener| {
            listener
                .get("tls")
                .is_some_and(|tls| !is_false(tls.get_ref()))
        });
        self.material |= tables(file, "site").any(|site| site.contains_key("tls"));
    }
}

/// Iterates over the tables of `[[key]]`.
fn tables<'n, 't>(file: &'n DeTable<'t>, key: &str) -> impl Iterator<Item = &'n DeTable<'t>> {
    let array = match file.get(key).map(|node| node.get_ref()) {
        Some(DeValue::Array(array)) => Some(array),
        _ => None,
    };
    array
        .into_iter()
        .flat_map(|array| array.iter())
        .filter_map(|element| match element.get_ref() {
            DeValue::Table(table) => Some(table),
            _ => None,
        })
}

fn is_false(value: &DeValue<'_>) -> bool {
    matches!(value, DeValue::Boolean(false))
}
