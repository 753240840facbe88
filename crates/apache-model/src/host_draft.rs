//! A host while its directives are read.
//!
//! Called by: the setters of directives, which fill it; `assemble`, which makes hosts of it.
//! Caveat: `None` and empty lists mean "not said"; the server's own draft fills the gaps.

use crate::{
    arguments::texts,
    connections::HostConnections,
    dbd::DbdDraft,
    dir_config::{DirConfig, Section},
    error_logs::ErrorLogDraft,
    limits::LimitsDraft,
    logs::{HostLogs, ScriptLogDraft},
    proxy::draft::ProxyDraft,
    tls::TlsDraft,
    upstream_tls::UpstreamTlsDraft,
};
use saker_apache_syntax::Node;
use saker_config::model::Origin;
use saker_http::path::EncodedSlashes;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// A host while it is read. `None`: not said.
#[derive(Clone, Debug)]
pub struct HostDraft {
    /// Addresses of `<VirtualHost>`, as written; the server has none.
    pub addresses: Vec<String>,
    pub server_name: Option<Box<str>>,
    pub server_port: Option<u16>,
    pub server_admin: Option<Box<str>>,
    pub aliases: Vec<Box<str>>,
    /// ServerPath, without a slash at its end.
    pub server_path: Option<Box<str>>,
    pub document_root: Option<PathBuf>,
    pub access_file_names: Option<Arc<[Box<str>]>>,
    pub trace_enabled: Option<bool>,
    pub known_names_only: Option<bool>,
    pub registered_methods_only: Option<bool>,
    pub redirects_max: Option<u8>,
    /// Requests inside of each other.
    pub nesting_max: Option<u8>,
    pub encoded_slashes: Option<EncodedSlashes>,
    pub merge_slashes: Option<bool>,
    /// MimeMagicFile.
    pub magic_file: Option<PathBuf>,
    /// `None` as long as nothing was said outside of sections: most hosts among thousands are like
    /// that, and share the server's.
    pub local: Option<Box<DirConfig>>,
    pub directories: Vec<Arc<Section>>,
    pub locations: Vec<Arc<Section>>,
    pub logs: HostLogs,
    pub error_log: ErrorLogDraft,
    pub script_log: ScriptLogDraft,
    pub tls: TlsDraft,
    pub upstream_tls: UpstreamTlsDraft,
    pub connections: HostConnections,
    pub limits: LimitsDraft,
    pub proxy: ProxyDraft,
    pub dbd: DbdDraft,
    pub origin: Origin,
}

impl HostDraft {
    /// Clients are those that proxies name (RemoteIPHeader).
    pub fn believes_proxies(&self) -> bool {
        self.local
            .as_ref()
            .is_some_and(|local| local.remoteip.header.is_some())
    }

    pub fn main(server_root: &Path) -> HostDraft {
        let origin = Origin {
            file: "the server".into(),
            line: 0,
            column: 0,
        };
        HostDraft {
            document_root: Some(server_root.join("htdocs")),
            ..HostDraft::new(Vec::new(), origin)
        }
    }

    pub fn virtual_host(node: &Node) -> HostDraft {
        HostDraft::new(texts(node), node.origin.clone())
    }

    /// Returns whether it is a `<VirtualHost>`, not the server's own host.
    pub fn is_virtual(&self) -> bool {
        !self.addresses.is_empty()
    }

    fn new(addresses: Vec<String>, origin: Origin) -> HostDraft {
        HostDraft {
            addresses,
            server_name: None,
            server_port: None,
            server_admin: None,
            aliases: Vec::new(),
            server_path: None,
            document_root: None,
            access_file_names: None,
            trace_enabled: None,
            known_names_only: None,
            registered_methods_only: None,
            redirects_max: None,
            nesting_max: None,
            encoded_slashes: None,
            merge_slashes: None,
            magic_file: None,
            local: None,
            directories: Vec::new(),
            locations: Vec::new(),
            logs: HostLogs::default(),
            error_log: ErrorLogDraft::default(),
            script_log: ScriptLogDraft::default(),
            tls: TlsDraft::default(),
            upstream_tls: UpstreamTlsDraft::default(),
            connections: HostConnections::default(),
            limits: LimitsDraft::default(),
            proxy: ProxyDraft::default(),
            dbd: DbdDraft::default(),
            origin,
        }
    }
}
