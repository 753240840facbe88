//! Settings of ProxyRemote, ProxyRemoteMatch and mod_proxy_express.
//!
//! Called by: setters of hosts; `assemble`.
//! Out of scope: choosing the proxy of a request (`saker_apache`).

use crate::{arguments::texts, worker_url};
use saker_ap_expr::{Pattern, PatternOptions, base64_encode};
use saker_apache_syntax::Node;
use saker_config::model::{BackendAddress, Protocol, Through};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// One ProxyRemote.
#[derive(Clone, Debug)]
pub struct Remote {
    of: Of,
    pub through: Arc<Through>,
}

#[derive(Clone, Debug)]
enum Of {
    All,
    Scheme(Box<str>),
    Prefix(Box<str>),
    Pattern(Arc<Pattern>),
}

impl Remote {
    /// `match proxy [user:password]`
    pub fn parse(node: &Node, by_pattern: bool) -> Result<Remote, String> {
        let words = texts(node);
        let (of, proxy) = match words.as_slice() {
            [of, proxy, ..] => (of.as_str(), proxy.as_str()),
            _ => return Err("ProxyRemote takes a URL and the proxy for it".into()),
        };
        let wrong = || "ProxyRemote: Bad proxy URL syntax for a remote proxy server".to_owned();
        let url = worker_url::parse(proxy).map_err(|_| wrong())?;
        let BackendAddress::Tcp { host, port } = url.backend.address else {
            return Err(wrong());
        };
        if url.backend.protocol != Protocol::Http1 || url.backend.tls.is_some() {
            return Err(format!(
                "ProxyRemote {proxy}: other proxies are spoken to by http:// only"
            ));
        }
        let authorization = words.get(2).map(|credentials| basic(credentials).into());
        let of = match of {
            "*" if !by_pattern => Of::All,
            of if by_pattern => {
                let compiled = Pattern::compile(of, PatternOptions::default());
                Of::Pattern(Arc::new(compiled.map_err(|error| {
                    format!(
                        "Regular expression for ProxyRemoteMatch could not be compiled: {error}"
                    )
                })?))
            }
            of if of.contains(':') => Of::Prefix(of.to_ascii_lowercase().into()),
            of => Of::Scheme(of.to_ascii_lowercase().into()),
        };
        Ok(Remote {
            of,
            through: Arc::new(Through {
                host,
                port,
                authorization,
            }),
        })
    }

    pub fn is_for(&self, url: &str) -> bool {
        let lower = url.to_ascii_lowercase();
        match &self.of {
            Of::All => true,
            Of::Scheme(scheme) => lower
                .strip_prefix(&**scheme)
                .is_some_and(|rest| rest.starts_with("://")),
            Of::Prefix(prefix) => lower.starts_with(&**prefix),
            Of::Pattern(pattern) => pattern.is_match(url.as_bytes()).unwrap_or(false),
        }
    }
}

/// RFC 7617 section 2.
fn basic(credentials: &str) -> String {
    format!(
        "Basic {}",
        String::from_utf8_lossy(&base64_encode(credentials.as_bytes()))
    )
}

/// mod_proxy_express's directives.
#[derive(Clone, Debug, Default)]
pub struct ExpressDraft {
    pub is_on: Option<bool>,
    pub file: Option<PathBuf>,
    pub kind: Option<Box<str>>,
}

/// A database of hosts and the servers behind them.
#[derive(Clone, Debug)]
pub struct Express {
    pub file: PathBuf,
    pub kind: Box<str>,
}

impl ExpressDraft {
    pub fn is_empty(&self) -> bool {
        self.is_on.is_none() && self.file.is_none() && self.kind.is_none()
    }

    /// Each of the three by itself.
    pub fn over(&self, main: &ExpressDraft) -> Option<Express> {
        let is_on = self.is_on.or(main.is_on) == Some(true);
        let file = self
            .file
            .as_ref()
            .or(main.file.as_ref())
            .filter(|_| is_on)?
            .clone();
        Some(Express {
            file,
            kind: self
                .kind
                .as_ref()
                .or(main.kind.as_ref())
                .cloned()
                .unwrap_or_else(|| "default".into()),
        })
    }

    pub fn set_file(&mut self, node: &Node, root: &Path) {
        self.file = texts(node).first().map(|path| root.join(path));
    }
}
