//! The request that a page is assembled for, and how URLs in the page are resolved against it.
//!
//! Called by: `assembly` and `fragment`.
//! Caveat: cookies and credentials never go to another host.
//! Out of scope: fetching.

use saker_config::{
    host_table::Choice,
    model::{Address, CacheUse},
};
use saker_esi::Facts;
use saker_http::{
    HeadView, KnownField, RequestHead,
    host::{canonical_host, parse_authority},
};
use saker_pipeline::{Client, Exchange, Generation, RequestBudget};
use std::{
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
};

pub struct IncludeSource {
    pub client: Rc<Client>,
    pub head: RequestHead,
    pub site: Arc<saker_config::model::Site>,
    /// The page's settings, which say from where it may include.
    pub config: Arc<CacheUse>,
    pub now: i64,
    pub log_id: Rc<saker_telemetry::error_log::LogId>,
    /// Shared with all fragments.
    pub budget: Rc<RequestBudget>,
}

impl IncludeSource {
    pub fn of(exchange: &Exchange) -> IncludeSource {
        IncludeSource {
            client: Rc::clone(&exchange.client),
            head: exchange.head.with_host_before_edits(),
            site: Arc::clone(&exchange.routing.site),
            config: Arc::clone(&exchange.routing.settings.cache),
            now: exchange.now,
            log_id: Rc::clone(&exchange.log.id),
            budget: Rc::clone(exchange.budget()),
        }
    }

    pub fn facts(&self) -> Facts {
        let view = self.head.view();
        let first = |name: &str| view.first(name).map(<[u8]>::to_vec).unwrap_or_default();
        let cookies: Vec<&[u8]> = view.lines(KnownField::Cookie).collect();
        let (_, query) = split(path_and_query(view));
        Facts {
            host: host(view).to_vec(),
            cookie: cookies.join(&b"; "[..]),
            accept_language: first("accept-language"),
            referer: first("referer"),
            user_agent: first("user-agent"),
            query: query.unwrap_or_default().to_vec(),
        }
    }

    /// Resolves a URL of the page to a target on this host; `None`: it is on another host.
    pub fn target(&self, address: &[u8]) -> Option<Vec<u8>> {
        let view = self.head.view();
        let address = address
            .split(|byte| *byte == b'#')
            .next()
            .unwrap_or_default();
        let (path, _) = split(path_and_query(view));
        let whole = match address {
            [b'/', b'/', rest @ ..] => self.on_this_host(rest)?,
            [b'/', ..] => address.to_vec(),
            [b'?', ..] => [path, address].concat(),
            _ => match scheme(address) {
                Some((scheme, rest))
                    if scheme.eq_ignore_ascii_case(b"http")
                        || scheme.eq_ignore_ascii_case(b"https") =>
                {
                    self.on_this_host(rest.strip_prefix(b"//")?)?
                }
                Some(_) => return None,
                None => {
                    let folder = memchr::memrchr(b'/', path).map_or(&b"/"[..], |at| &path[..=at]);
                    [folder, address].concat()
                }
            },
        };
        Some(encoded(&whole))
    }

    /// Resolves a URL of another host that this server has a site for. `None`: it has none, or not
    /// through a listener that this client could use. Cookies, credentials and the TLS session are
    /// not passed on.
    pub fn elsewhere(
        &self,
        generation: &Generation,
        address: &[u8],
    ) -> Option<(IncludeSource, Vec<u8>)> {
        let address = address
            .split(|byte| *byte == b'#')
            .next()
            .unwrap_or_default();
        let (secure, rest) = match scheme(address) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"https") => (true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case(b"http") => (false, rest),
            Some(_) => return None,
            None => (self.client.secure, address),
        };
        let (authority, rest) = authority_and_rest(rest.strip_prefix(b"//")?);
        let named = parse_authority(authority)?;
        let (listener, local) =
            self.endpoint(generation, secure, named.port.unwrap_or(usual_port(secure)))?;
        let host = canonical_host(named.host);
        let index = by_name(generation, &listener, local.ip(), &host)?;
        // Another listener may be for a network that the client is not in; a page must not get
        // around that.
        let is_own = by_name(
            generation,
            &self.client.listener,
            self.client.local.ip(),
            &host,
        ) == Some(index);
        if !is_own
            && !self
                .config
                .include_hosts
                .iter()
                .any(|known| known.as_bytes().eq_ignore_ascii_case(&host))
        {
            return None;
        }
        let mut client = Client::new(self.client.address, local, listener, secure);
        (client.peer, client.log_id) = (self.client.peer, Rc::clone(&self.client.log_id));
        client.account.clone_from(&self.client.account);
        let is_for_all = |name: &[u8]| {
            !OF_ONE_HOST
                .iter()
                .any(|own| name.eq_ignore_ascii_case(own.as_bytes()))
        };
        let field = (&b"Host"[..], authority);
        let head = self.head.with_fields(
            self.head
                .view()
                .fields()
                .filter(|(name, _)| is_for_all(name))
                .chain([field]),
        );
        let (site, log_id) = (Arc::clone(&generation.no_site), Rc::clone(&self.log_id));
        let config = Arc::clone(&self.config);
        let budget = Rc::clone(&self.budget);
        let source = IncludeSource {
            client: Rc::new(client),
            head,
            site,
            config,
            now: self.now,
            log_id,
            budget,
        };
        Some((source, encoded(&absolute(rest))))
    }

    /// The listener for a scheme and port: the client's own, or one that the client could have
    /// reached.
    fn endpoint(
        &self,
        generation: &Generation,
        secure: bool,
        port: u16,
    ) -> Option<(Arc<Address>, SocketAddr)> {
        let client = &self.client;
        let own_port = parse_authority(host(self.head.view()))
            .and_then(|own| own.port)
            .unwrap_or(usual_port(client.secure));
        if (secure, port) == (client.secure, own_port) {
            return Some((Arc::clone(&client.listener), client.local));
        }
        let is_open = |address: SocketAddr| {
            address.ip().is_unspecified()
                || address.ip().to_canonical() == client.local.ip().to_canonical()
        };
        let fits = |address: &Address| matches!(address, Address::Tcp(address) if address.port() == port && is_open(*address));
        let listener = generation
            .model
            .listeners
            .iter()
            .find(|known| known.tls.is_some() == secure && fits(&known.address))?;
        Some((
            Arc::new(listener.address.clone()),
            SocketAddr::new(client.local.ip(), port),
        ))
    }

    fn on_this_host(&self, rest: &[u8]) -> Option<Vec<u8>> {
        let (authority, rest) = authority_and_rest(rest);
        let default_port = Some(usual_port(self.client.secure));
        let own = parse_authority(host(self.head.view()))?;
        let is_same = own.is_same(parse_authority(authority)?, default_port);
        is_same.then(|| absolute(rest))
    }
}

/// The site that a listener has for exactly that name.
fn by_name(
    generation: &Generation,
    listener: &Address,
    local: IpAddr,
    host: &[u8],
) -> Option<usize> {
    let (index, choice) = generation.hosts.select(listener, local, host)?;
    matches!(choice, Choice::Exact | Choice::Wildcard).then_some(index)
}

/// Fields that a client sends to one host and would not send to another.
const OF_ONE_HOST: [&str; 6] = [
    "host",
    "cookie",
    "authorization",
    "proxy-authorization",
    "origin",
    "referer",
];

fn authority_and_rest(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(
        text.iter()
            .position(|byte| matches!(byte, b'/' | b'?'))
            .unwrap_or(text.len()),
    )
}

fn absolute(rest: &[u8]) -> Vec<u8> {
    if rest.starts_with(b"/") {
        rest.to_vec()
    } else {
        [b"/", rest].concat()
    }
}

fn usual_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

fn host(view: HeadView<'_>) -> &[u8] {
    view.known(KnownField::Host).unwrap_or_default()
}

/// Path and query of a target in either form (RFC 9112 section 3.2).
fn path_and_query(view: HeadView<'_>) -> &[u8] {
    let target = view.target();
    match memchr::memmem::find(target, b"://").filter(|_| !target.starts_with(b"/")) {
        Some(at) => {
            memchr::memchr(b'/', &target[at + 3..]).map_or(b"/", |path| &target[at + 3 + path..])
        }
        None => target,
    }
}

fn split(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    }
}

/// RFC 3986 section 3.1; a colon after a slash belongs to the path.
fn scheme(address: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = address
        .iter()
        .position(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'+' | b'-' | b'.'))?;
    (end > 0 && address[end] == b':').then(|| (&address[..end], &address[end + 1..]))
}

/// Percent-encodes what may not appear in a request line.
fn encoded(target: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(target.len());
    for byte in target {
        match byte {
            0..=b' ' | 0x7f.. | b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}' => {
                out.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
            _ => out.push(*byte),
        }
    }
    out
}
