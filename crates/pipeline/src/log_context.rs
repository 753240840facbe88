//! Context items of error log lines about connections and requests (httpd 2.4, core,
//! `ErrorLogFormat`).
//!
//! Called by: the error log, when it formats a line.
//! Caveat: [`RequestLogContext`] is a snapshot, for tasks that outlive their access to the
//! exchange.
//! Out of scope: access logs (`logged`).

use crate::{Client, Exchange};
use saker_config::model::{Site, SiteName};
use saker_http::KnownField;
use saker_telemetry::error_log::{ContextItem, LogContext, LogId, SiteLog};
use std::{borrow::Cow, fmt, net::SocketAddr, rc::Rc, sync::Arc};

fn shown(address: SocketAddr) -> Option<Cow<'static, [u8]>> {
    Some(Cow::Owned(address.to_string().into_bytes()))
}

impl LogContext for Client {
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        match asked {
            ContextItem::Client => shown(self.address),
            ContextItem::ConnectionNumber => {
                Some(Cow::Owned(self.log_id.number().to_string().into_bytes()))
            }
            ContextItem::Peer => shown(self.peer),
            ContextItem::Local => shown(self.local),
            ContextItem::KeptAlive => Some(Cow::Owned(
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

impl LogContext for Exchange {
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        match asked {
            ContextItem::Field(name) => {
                let mut lines = self
                    .head
                    .view()
                    .fields()
                    .filter(|line| line.0.eq_ignore_ascii_case(name.as_bytes()));
                lines.next().map(|line| Cow::Borrowed(line.1))
            }
            ContextItem::Variable(name) => {
                self.environment.first(name.as_bytes()).map(Cow::Borrowed)
            }
            ContextItem::Note(name) => self.log.notes.first(name.as_bytes()).map(Cow::Borrowed),
            ContextItem::RequestLine => Some(Cow::Borrowed(self.head.view().start_line())),
            ContextItem::Subrequest => self.log.subrequest.as_deref().map(Cow::Borrowed),
            ContextItem::SiteName => self.site_name().map(|name| Cow::Borrowed(name.as_bytes())),
            ContextItem::HostName if self.host.is_empty() || self.log.rules.is_canonical => {
                self.context_item(ContextItem::SiteName)
            }
            ContextItem::HostName => Some(Cow::Borrowed(&self.host)),
            asked => self.client.context_item(asked),
        }
    }

    fn connection(&self) -> Option<&LogId> {
        Some(&self.client.log_id)
    }

    fn request(&self) -> Option<&LogId> {
        Some(&self.log.id)
    }

    fn site(&self) -> Option<&SiteLog> {
        self.error_log().map(|log| &**log)
    }
}

/// Log context of a request, for code that does not have its exchange.
#[derive(Clone, Debug)]
pub struct RequestLogContext {
    client: SocketAddr,
    connection: Rc<LogId>,
    request: Rc<LogId>,
    site: Option<Arc<SiteLog>>,
    /// Items about the request itself.
    details: Option<Rc<RequestDetails>>,
}

/// Items about a request. Made for each that asks a program, and seldom asked for, so texts are copied
/// into one place, and names are made when they are asked for.
struct RequestDetails {
    /// Start line, Host, and Referer, one behind the other.
    texts: Box<[u8]>,
    line_bytes: usize,
    host_bytes: Option<usize>,
    has_referrer: bool,
    site: Arc<Site>,
    subrequest: Option<Box<[u8]>>,
    upstream: Option<Box<dyn Fn() -> String>>,
}

impl fmt::Debug for RequestDetails {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("RequestDetails").finish_non_exhaustive()
    }
}

impl RequestDetails {
    fn of(exchange: &Exchange) -> RequestDetails {
        let view = exchange.head.view();
        let (line, host) = (view.start_line(), view.known(KnownField::Host));
        let referrer = view.known(KnownField::Referer);
        RequestDetails {
            texts: [line, host.unwrap_or_default(), referrer.unwrap_or_default()]
                .concat()
                .into(),
            line_bytes: line.len(),
            host_bytes: host.map(<[u8]>::len),
            has_referrer: referrer.is_some(),
            site: Arc::clone(&exchange.routing.site),
            subrequest: exchange.log.subrequest.clone(),
            upstream: None,
        }
    }

    fn item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        let text = match asked {
            ContextItem::RequestLine => self.texts.get(..self.line_bytes),
            ContextItem::SiteName => name_of(&self.site).map(str::as_bytes),
            ContextItem::Subrequest => self.subrequest.as_deref(),
            ContextItem::Upstream => {
                let name = self.upstream.as_ref()?;
                return Some(Cow::Owned(name().into_bytes()));
            }
            ContextItem::Field("Host") => {
                let end = self.line_bytes + self.host_bytes?;
                self.texts.get(self.line_bytes..end)
            }
            ContextItem::Field("Referer") if self.has_referrer => {
                let start = self.line_bytes + self.host_bytes.unwrap_or(0);
                self.texts.get(start..)
            }
            _ => None,
        };
        text.map(Cow::Borrowed)
    }
}

impl RequestLogContext {
    /// Returns the context of requests made by the server itself, such as health checks.
    pub fn without_request() -> RequestLogContext {
        RequestLogContext {
            client: SocketAddr::from(([0, 0, 0, 0], 0)),
            connection: Rc::default(),
            request: Rc::default(),
            site: None,
            details: None,
        }
    }
}

impl RequestLogContext {
    /// Adds the name of the upstream that is asked, where the context has the request.
    pub fn asking(mut self, name: impl Fn() -> String + 'static) -> RequestLogContext {
        if let Some(details) = self.details.as_mut().and_then(Rc::get_mut) {
            details.upstream = Some(Box::new(name));
        }
        self
    }
}

impl LogContext for RequestLogContext {
    fn context_item(&self, asked: ContextItem<'_>) -> Option<Cow<'_, [u8]>> {
        match asked {
            ContextItem::Client => shown(self.client),
            ContextItem::ConnectionNumber => Some(Cow::Owned(
                self.connection.number().to_string().into_bytes(),
            )),
            asked => self.details.as_ref()?.item(asked),
        }
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
    pub fn log_context(&self) -> RequestLogContext {
        let client = &self.client;
        let site = self.error_log().cloned();
        RequestLogContext {
            client: client.address,
            connection: Rc::clone(&client.log_id),
            request: Rc::clone(&self.log.id),
            site,
            details: None,
        }
    }

    /// The same with items about the request itself.
    pub fn request_log_context(&self) -> RequestLogContext {
        RequestLogContext {
            details: Some(Rc::new(RequestDetails::of(self))),
            ..self.log_context()
        }
    }

    /// The error log of the request; `None`: the server's.
    pub(crate) fn error_log(&self) -> Option<&Arc<SiteLog>> {
        let of_site = || self.routing.site.error_log.as_ref();
        self.log.error_log.as_ref().or_else(of_site)
    }

    fn site_name(&self) -> Option<&str> {
        name_of(&self.routing.site)
    }
}

/// The name by which logs call a site: its canonical one, or the first that is no pattern.
fn name_of(site: &Site) -> Option<&str> {
    let exact = || {
        site.names.iter().find_map(|name| match name {
            SiteName::Exact(text) => Some(text.as_str()),
            _ => None,
        })
    };
    site.canonical_name.as_deref().or_else(exact)
}
