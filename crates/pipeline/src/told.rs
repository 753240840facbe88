//! What the error log can tell of a connection and of a request (httpd 2.4, core,
//! `ErrorLogFormat`).

use crate::{Client, Exchange};
use saker_config::model::SiteName;
use saker_telemetry::error_log::{About, Asked, LogId, SiteLog};
use std::{borrow::Cow, net::SocketAddr, rc::Rc, sync::Arc};

fn shown(address: SocketAddr) -> Option<Cow<'static, [u8]>> {
    Some(Cow::Owned(address.to_string().into_bytes()))
}

impl About for Client {
    fn tell(&self, asked: Asked<'_>) -> Option<Cow<'_, [u8]>> {
        match asked {
            Asked::Client => shown(self.address),
            Asked::Peer => shown(self.peer),
            Asked::Local => shown(self.local),
            Asked::KeptAlive => Some(Cow::Owned(
                self.requests
                    .get()
                    .saturating_sub(1)
                    .to_string()
                    .into_bytes(),
            )),
            _ => None,
        }
    }

    fn connection(&self) -> Option<&LogId> {
        Some(&self.log_id)
    }
}

impl About for Exchange {
    fn tell(&self, asked: Asked<'_>) -> Option<Cow<'_, [u8]>> {
        match asked {
            Asked::Field(name) => {
                let mut lines = self
                    .head
                    .view()
                    .fields()
                    .filter(|line| line.0.eq_ignore_ascii_case(name.as_bytes()));
                lines.next().map(|line| Cow::Borrowed(line.1))
            }
            Asked::Variable(name) => self.environment.first(name.as_bytes()).map(Cow::Borrowed),
            Asked::Note(name) => self.notes.first(name.as_bytes()).map(Cow::Borrowed),
            Asked::SiteName => self.site_name().map(|name| Cow::Borrowed(name.as_bytes())),
            Asked::HostName if self.host.is_empty() || self.log_rules.is_canonical => {
                self.tell(Asked::SiteName)
            }
            Asked::HostName => Some(Cow::Borrowed(&self.host)),
            asked => self.client.tell(asked),
        }
    }

    fn connection(&self) -> Option<&LogId> {
        Some(&self.client.log_id)
    }

    fn request(&self) -> Option<&LogId> {
        Some(&self.log_id)
    }

    fn site(&self) -> Option<&SiteLog> {
        self.site.error_log.as_deref()
    }
}

/// Whose request it is, for those who see to it without the exchange.
#[derive(Clone, Debug)]
pub struct Asker {
    client: SocketAddr,
    connection: Rc<LogId>,
    request: Rc<LogId>,
    site: Option<Arc<SiteLog>>,
}

impl Asker {
    /// What is asked by ourselves, without a request.
    pub fn nobody() -> Asker {
        Asker {
            client: SocketAddr::from(([0, 0, 0, 0], 0)),
            connection: Rc::default(),
            request: Rc::default(),
            site: None,
        }
    }
}

impl About for Asker {
    fn tell(&self, asked: Asked<'_>) -> Option<Cow<'_, [u8]>> {
        matches!(asked, Asked::Client)
            .then(|| shown(self.client))
            .flatten()
    }

    fn connection(&self) -> Option<&LogId> {
        Some(&self.connection)
    }

    fn request(&self) -> Option<&LogId> {
        Some(&self.request)
    }

    fn site(&self) -> Option<&SiteLog> {
        self.site.as_deref()
    }
}

impl Exchange {
    pub fn asker(&self) -> Asker {
        let client = &self.client;
        let site = self.site.error_log.clone();
        Asker {
            client: client.address,
            connection: Rc::clone(&client.log_id),
            request: Rc::clone(&self.log_id),
            site,
        }
    }

    fn site_name(&self) -> Option<&str> {
        let exact = || {
            self.site.names.iter().find_map(|name| {
                if let SiteName::Exact(text) = name {
                    Some(text.as_str())
                } else {
                    None
                }
            })
        };
        self.site.canonical_name.as_deref().or_else(exact)
    }
}
