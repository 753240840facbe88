//! Servers, and the configuration as a whole.
//!
//! Called by: `saker-nginx`, for every request.
//! Out of scope: sites, listeners, and logs, which are in the model of the engine.

use crate::{
    conf::LocationConf,
    location::{Location, LocationTree},
    modules::{
        cache,
        limits::Zone,
        listen::{AddressServers, ServerNames},
        log::Formats,
        maps::{NameTable, Tables},
        upstream::Group,
    },
    stream::Streams,
    values::Regex,
    variables::{NamedVariable, Source, Variable},
};
use saker_config::model::{Address, Origin};
use saker_telemetry::error_log::SiteLog;
use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    path::PathBuf,
    sync::Arc,
};

/// A server with its locations.
#[derive(Debug)]
pub struct Server {
    /// The first name; empty if there is none.
    pub name: Box<str>,
    /// All names, for `valid_referers server_names`.
    pub names: ServerNames,
    pub locations: LocationTree,
    /// Locations `@name`, by their names with the `@`.
    pub named: HashMap<Box<str>, Arc<Location>>,
    /// Settings outside of locations, and the script of the server.
    pub outside: Arc<Location>,
    pub rejects_handshake: bool,
    /// Requests under TLS need a good certificate (true), or must not have a bad one.
    pub demands_certificate: Option<bool>,
    pub origin: Origin,
}

impl Server {
    /// Visits the settings outside of locations, and all locations.
    pub fn each_location(&self, seen: &mut dyn FnMut(&Location)) {
        self.outside.each(seen);
        self.locations.each(seen);
        for location in self.named.values() {
            location.each(seen);
        }
    }
}

impl Server {
    /// Returns the error logs of locations that have others than the server.
    pub fn inner_error_logs(&self) -> Vec<Arc<SiteLog>> {
        let mut logs: Vec<Arc<SiteLog>> = Vec::new();
        self.each_location(&mut |location| {
            let own = location.error_log.iter();
            let own = own.filter(|_| location.has_other_logs(&self.outside));
            let is_new = |log: &&Arc<SiteLog>| !logs.iter().any(|known| Arc::ptr_eq(known, log));
            let found: Vec<_> = own.filter(is_new).cloned().collect();
            logs.extend(found);
        });
        logs
    }
}

/// An nginx configuration for requests.
#[derive(Debug, Default)]
pub struct Nginx {
    /// By the index of their sites.
    pub servers: Vec<Arc<Server>>,
    pub addresses: Vec<(Address, AddressServers)>,
    pub variables: Vec<NamedVariable>,
    pub tables: Tables,
    pub zones: Vec<Arc<Zone>>,
    pub cache_zones: Vec<Arc<cache::Zone>>,
    pub groups: Vec<Group>,
    pub streams: Arc<Streams>,
    pub formats: Formats,
    /// Conditions and notes of access logs, in the order of [`LogRules`](crate::log_rules).
    pub logs: crate::log_rules::LogRules,
    /// Directory that relative names of certificates refer to.
    pub conf_prefix: PathBuf,
    /// The directory for content of requests without a `client_body_temp_path`.
    pub body_folder: PathBuf,
    /// The document root without a `root`.
    pub default_root: PathBuf,
    /// Something refers to `$request_body`.
    pub reads_content: bool,
    /// Something may refer to a variable about the members that were asked.
    pub reads_attempts: bool,
    /// Something refers to `$connections_active` or its kin.
    pub reads_counts: bool,
    /// Something may refer to fields of responses.
    pub reads_responses: bool,
    /// The client's address is settled when the server is known, or the location.
    pub settles_clients: bool,
    /// `Server` of responses, from which locations may differ.
    pub product: &'static str,
    /// Keep-alive limits of all listeners, from which locations may differ.
    pub keep_alive: KeepAlive,
}

/// Limits of persistent connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeepAlive {
    /// 0: none is persistent.
    pub timeout_ms: u64,
    pub requests_max: u64,
    pub age_ms_max: u64,
}

impl KeepAlive {
    /// Returns the limits of a level.
    pub fn of(conf: &LocationConf) -> KeepAlive {
        KeepAlive {
            timeout_ms: conf.core.keepalive_timeout_ms.unwrap_or(75_000),
            requests_max: conf.core.keepalive_requests.unwrap_or(1000),
            age_ms_max: conf.clients.keepalive_age_ms.unwrap_or(3_600_000),
        }
    }
}

/// Matches expressions of names.
pub trait NameMatcher {
    fn matches(&mut self, regex: &Regex, name: &str) -> bool;
}

impl Nginx {
    /// Returns true if requests may write files somewhere.
    pub fn writes_files(&self) -> bool {
        self.servers.iter().any(|server| {
            let mut writes = false;
            server.each_location(&mut |location| writes |= location.writes_files());
            writes
        })
    }

    /// Adds what pages with commands of SSI may refer to: any variable.
    pub fn with_reads_of_pages(mut self) -> Nginx {
        let mut has_ssi = false;
        for server in &self.servers {
            server.each_location(&mut |location| {
                has_ssi |= location.conf.filters.ssi == Some(true);
            });
        }
        self.reads_attempts |= has_ssi;
        self.reads_responses |= has_ssi;
        self
    }

    /// Returns the directories that content of requests is kept in.
    pub fn body_folders(&self) -> Vec<PathBuf> {
        let mut folders = BTreeSet::new();
        for server in &self.servers {
            server.each_location(&mut |location| {
                if location.keeps_bodies() {
                    let own = location.conf.body.folder.as_ref();
                    let folder = own.map_or(&self.body_folder, |folder| &folder.path);
                    folders.insert(folder.clone());
                }
            });
        }
        folders.into_iter().collect()
    }

    /// Returns the variable of a name in lower case, for texts that are made at request time.
    pub fn variable(&self, name: &str) -> Option<Variable> {
        let named = self.variables.iter().position(|known| *known.name == *name);
        match named {
            Some(number) => Some(Variable::Named(number)),
            None => Variable::known(name),
        }
    }

    /// Returns true if a variable has the values that scripts give it.
    pub fn is_set_by_scripts(&self, number: usize) -> bool {
        let named = self.variables.get(number);
        named.is_some_and(|variable| matches!(variable.source, Source::Set))
    }

    /// Chooses the server of a request.
    pub fn server(
        &self,
        listener: &Address,
        local: IpAddr,
        host: &str,
        matcher: &mut dyn NameMatcher,
    ) -> Option<usize> {
        let servers = self.at(listener, local)?;
        if let Some(index) = servers.names.literal(host) {
            return Some(*index);
        }
        let by_regex = servers
            .names
            .regexes
            .iter()
            // A request without a host is the default server's.
            .filter(|_| !host.is_empty())
            .find(|(regex, _)| matcher.matches(regex, host));
        Some(by_regex.map_or(servers.default, |(_, index)| *index))
    }

    /// Returns the default server of an address.
    pub fn default_server(&self, listener: &Address, local: IpAddr) -> Option<usize> {
        self.at(listener, local).map(|servers| servers.default)
    }

    /// Returns true if the local address of a connection decides about its servers.
    pub fn has_local_addresses(&self) -> bool {
        let tcp = self
            .addresses
            .iter()
            .filter_map(|(address, _)| match address {
                Address::Tcp(address) => Some(address),
                Address::Unix(_) => None,
            });
        let wildcards: Vec<u16> = tcp
            .clone()
            .filter(|address| address.ip().is_unspecified())
            .map(|address| address.port())
            .collect();
        let mut specific = tcp.filter(|address| !address.ip().is_unspecified());
        specific.any(|address| wildcards.contains(&address.port()))
    }

    /// Returns the servers of an address: the local one, or the wildcard of its port.
    fn at(&self, listener: &Address, local: IpAddr) -> Option<&AddressServers> {
        let of = |address: &Address| {
            self.addresses
                .iter()
                .find(|(known, _)| known == address)
                .map(|(_, servers)| servers)
        };
        if let Address::Tcp(bound) = listener {
            let exact = Address::Tcp((local.to_canonical(), bound.port()).into());
            if let Some(servers) = of(&exact) {
                return Some(servers);
            }
        }
        of(listener)
    }
}

impl AddressServers {
    /// Creates an entry whose default is the first server.
    pub fn new(default: usize) -> AddressServers {
        AddressServers {
            default,
            names: NameTable::default(),
        }
    }
}
