//! The configuration of `saker serve DIR`: one site, one root, no file.
//!
//! HTTPS works with certificate files, with automatic certificates for given names, or else with a
//! certificate signed by a CA of this machine.

use crate::model::{
    AccessLog, AccessLogTarget, Acme, Address, Automatic, CacheStore, CacheUse, CertificateFiles,
    Hosts, Htaccess, Http3, Limits, Listener, ListenerTls, Model, Origin, Php, PhpPools,
    PhpProgram, PhpUse, Server, ServerGuard, ServerTls, Settings, Site, SiteName, SiteTls, Workers,
};
use saker_telemetry::access_log::Escapes;
use std::{net::Ipv4Addr, path::PathBuf, sync::Arc};

/// Options of the command line.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    pub root: PathBuf,
    /// Listening addresses. Without any: [`ServeOptions::HTTP`] and [`ServeOptions::HTTPS`] of this
    /// machine; with one kind, only that.
    pub http: Vec<Address>,
    pub https: Vec<Address>,
    pub certificate: Option<CertificateFiles>,
    /// Names for automatic certificates, without certificate files.
    pub domains: Vec<String>,
    /// ACME settings: authority and storage.
    pub acme: Acme,
    pub workers: Workers,
    /// `None`: no log. The format is `combined`.
    pub access_log: Option<AccessLogTarget>,
    /// `None`: the default.
    pub state_dir: Option<PathBuf>,
    pub listing: bool,
    pub php: PhpUse,
    /// PHP program, and the user it runs as; the latter requires root.
    pub php_program: PhpProgram,
    pub php_user: Option<String>,
    /// Rules of the page cache.
    pub cache: CacheUse,
    /// Directory of the page cache; `None`: below the state directory.
    pub cache_folder: Option<PathBuf>,
    /// Rules of `.htaccess` files.
    pub htaccess: Htaccess,
}

impl ServeOptions {
    /// Default ports.
    pub const HTTP: u16 = 8080;
    pub const HTTPS: u16 = 8443;
    /// Default ports with a domain: those that certificate authorities and clients connect to.
    pub const HTTP_PUBLIC: u16 = 80;
    pub const HTTPS_PUBLIC: u16 = 443;

    /// Returns the addresses to listen on, with defaults applied.
    pub fn addresses(&self) -> (Vec<Address>, Vec<Address>) {
        let local = |port: u16| vec![Address::Tcp((Ipv4Addr::LOCALHOST, port).into())];
        let public = |port: u16| Address::parse_all(&format!(":{port}")).unwrap_or_default();
        match (
            self.http.is_empty() && self.https.is_empty(),
            self.domains.is_empty(),
        ) {
            (true, true) => (local(ServeOptions::HTTP), local(ServeOptions::HTTPS)),
            (true, false) => (
                public(ServeOptions::HTTP_PUBLIC),
                public(ServeOptions::HTTPS_PUBLIC),
            ),
            (false, _) => (self.http.clone(), self.https.clone()),
        }
    }

    fn site_tls(&self) -> SiteTls {
        let automatic = match (&self.certificate, self.domains.is_empty()) {
            (Some(_), _) => Automatic::Off,
            (None, true) => Automatic::Local,
            (None, false) => Automatic::On,
        };
        SiteTls {
            certificates: self.certificate.iter().cloned().collect(),
            automatic,
            ..SiteTls::default()
        }
    }

    /// Returns the names for certificates, and a catch-all.
    fn names(&self) -> Vec<SiteName> {
        let domain =
            |name: &String| SiteName::Exact(name.trim_end_matches('.').to_ascii_lowercase());
        self.domains
            .iter()
            .map(domain)
            .chain([SiteName::Any])
            .collect()
    }
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            root: PathBuf::from("."),
            http: Vec::new(),
            https: Vec::new(),
            certificate: None,
            domains: Vec::new(),
            acme: Acme::default(),
            workers: Workers::Auto,
            access_log: None,
            state_dir: None,
            listing: true,
            php: PhpUse::Managed,
            php_program: PhpProgram::Auto,
            php_user: None,
            cache: CacheUse::default(),
            cache_folder: None,
            htaccess: Htaccess::Auto,
        }
    }
}

impl Model {
    pub fn for_directory(options: ServeOptions) -> Model {
        let (http, https) = options.addresses();
        let plain = http
            .into_iter()
            .map(|address| Listener::new(address, Origin::command_line()));
        let encrypted = https.into_iter().map(|address| {
            let listener = Listener {
                tls: Some(ListenerTls::default()),
                ..Listener::new(address, Origin::command_line())
            };
            Listener {
                http3: listener.http3_where_possible(Http3::default()),
                ..listener
            }
        });
        let mut server = Server {
            workers: options.workers.clone(),
            ..Server::default()
        };
        server.state_dir = options.state_dir.clone().unwrap_or(server.state_dir);
        Model {
            streams: Arc::default(),
            datagrams: Vec::new(),
            stream_logs: Vec::new(),
            stream_error_logs: Vec::new(),
            server,
            limits: Limits::default(),
            tls: ServerTls {
                acme: options.acme.clone(),
                ..ServerTls::default()
            },
            php: Php {
                program: options.php_program.clone(),
                user: options.php_user.clone(),
                ..Php::default()
            },
            hosts: Hosts::default(),
            cache: CacheStore {
                folder: options.cache_folder.clone(),
                ..CacheStore::default()
            },
            cluster: Default::default(),
            guard: ServerGuard::default(),
            address_lists: Vec::new(),
            geo_databases: Vec::new(),
            metrics: Default::default(),
            console: Default::default(),
            tracing: Arc::default(),
            php_pools: PhpPools::default(),
            php_sets: Vec::new(),
            listeners: plain.chain(encrypted).collect(),
            sites: vec![Arc::new(site(options))],
            upstreams: Vec::new(),
            named_logs: Vec::new(),
            named_sockets: Vec::new(),
            sources: Vec::new(),
        }
    }
}

fn site(options: ServeOptions) -> Site {
    let mut settings = Settings::default();
    settings.files.listing = options.listing;
    settings.php = options.php.clone();
    settings.cache = Arc::new(options.cache.clone());
    settings.htaccess = options.htaccess;
    let log = |target| AccessLog {
        is_immediate: false,
        target,
        format: "combined".into(),
        is_items: false,
        escapes: Escapes::Apache,
        condition: None,
        rotation: None,
        mask: Arc::default(),
        origin: Origin::command_line(),
    };
    Site {
        names: options.names(),
        tls: Arc::new(options.site_tls()),
        root: Some(crate::folder::without_parents(options.root)),
        access_logs: options.access_log.into_iter().map(log).collect(),
        settings: Arc::new(settings),
        ..Site::new(Origin::command_line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(model: &Model) -> Vec<(String, bool)> {
        model
            .listeners
            .iter()
            .map(|listener| (listener.address.to_string(), listener.tls.is_some()))
            .collect()
    }

    #[test]
    fn one_site_for_all() {
        let model = Model::for_directory(ServeOptions {
            access_log: Some(AccessLogTarget::Stdout),
            ..ServeOptions::default()
        });
        assert_eq!(
            shown(&model),
            [
                ("127.0.0.1:8080".into(), false),
                ("127.0.0.1:8443".into(), true)
            ]
        );
        assert_eq!(model.sites[0].names, [SiteName::Any]);
        assert_eq!(model.sites[0].tls.automatic, Automatic::Local);
        assert!(model.sites[0].settings.files.listing);
        assert_eq!(model.sites[0].access_logs.len(), 1);
        assert_eq!(model.sites[0].origin.to_string(), "command line");
    }

    #[test]
    fn only_what_is_asked_for() {
        let address = vec![Address::Tcp((Ipv4Addr::LOCALHOST, 1).into())];
        let plain = Model::for_directory(ServeOptions {
            http: address.clone(),
            ..ServeOptions::default()
        });
        let encrypted = Model::for_directory(ServeOptions {
            https: address,
            ..ServeOptions::default()
        });
        assert_eq!(shown(&plain), [("127.0.0.1:1".into(), false)]);
        assert_eq!(shown(&encrypted), [("127.0.0.1:1".into(), true)]);
    }

    #[test]
    fn a_domain_is_served_to_the_world() {
        let model = Model::for_directory(ServeOptions {
            domains: vec!["Example.org.".into()],
            ..ServeOptions::default()
        });
        let addresses = [
            ("0.0.0.0:80".into(), false),
            ("[::]:80".into(), false),
            ("0.0.0.0:443".into(), true),
            ("[::]:443".into(), true),
        ];
        assert_eq!(shown(&model), addresses);
        assert_eq!(model.sites[0].tls.automatic, Automatic::On);
        assert_eq!(
            model.sites[0].names,
            [SiteName::Exact("example.org".into()), SiteName::Any]
        );
    }

    #[test]
    fn files_come_before_automatic_certificates() {
        let files = CertificateFiles::new("a".into(), "b".into(), Origin::command_line());
        let model = Model::for_directory(ServeOptions {
            certificate: Some(files.clone()),
            domains: vec!["a".into()],
            ..ServeOptions::default()
        });
        assert_eq!(
            (
                model.sites[0].tls.automatic,
                &model.sites[0].tls.certificates[..]
            ),
            (Automatic::Off, &[files][..])
        );
    }
}
