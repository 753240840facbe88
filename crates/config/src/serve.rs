//! The configuration of `saker serve DIR`: one site, one root, no file.

use crate::model::{AccessLog, AccessLogTarget, Address, Limits, Listener, Model, Origin, Server, Settings, Site, SiteName, Workers};
use std::{net::Ipv4Addr, path::PathBuf, sync::Arc};

/// What the command line may say.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    pub root: PathBuf,
    /// None: 127.0.0.1:8080.
    pub http: Vec<Address>,
    pub workers: Workers,
    /// `None`: no log. The format is `combined`.
    pub access_log: Option<AccessLogTarget>,
    /// `None`: the built-in one.
    pub state_dir: Option<PathBuf>,
    pub listing: bool,
}

impl Default for ServeOptions {
    fn default() -> Self {
        let root = PathBuf::from(".");
        ServeOptions { root, http: Vec::new(), workers: Workers::Auto, access_log: None, state_dir: None, listing: true }
    }
}

impl Model {
    pub fn for_directory(options: ServeOptions) -> Model {
        let ServeOptions { root, mut http, workers, access_log, state_dir, listing } = options;
        if http.is_empty() {
            http.push(Address::Tcp((Ipv4Addr::LOCALHOST, 8080).into()));
        }
        let mut server = Server { workers, ..Server::default() };
        server.state_dir = state_dir.unwrap_or(server.state_dir);
        let mut settings = Settings::default();
        settings.files.listing = listing;
        Model {
            server,
            limits: Limits::default(),
            tls: Default::default(),
            listeners: http.into_iter().map(|address| Listener::new(address, Origin::command_line())).collect(),
            sites: vec![Arc::new(site(root, access_log, settings))],
            sources: Vec::new(),
        }
    }
}

fn site(root: PathBuf, access_log: Option<AccessLogTarget>, settings: Settings) -> Site {
    let log = |target| AccessLog { target, format: "combined".into(), origin: Origin::command_line() };
    Site {
        names: vec![SiteName::Any],
        root: Some(root),
        access_logs: access_log.into_iter().map(log).collect(),
        settings: Arc::new(settings),
        ..Site::new(Origin::command_line())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_site_for_all() {
        let model = Model::for_directory(ServeOptions { access_log: Some(AccessLogTarget::Stdout), ..ServeOptions::default() });
        assert_eq!(model.listeners[0].address.to_string(), "127.0.0.1:8080");
        assert_eq!(model.sites[0].names, [SiteName::Any]);
        assert!(model.sites[0].settings.files.listing);
        assert_eq!(model.sites[0].access_logs.len(), 1);
        assert_eq!(model.sites[0].origin.to_string(), "command line");
    }
}
