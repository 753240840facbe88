//! Cache keys: what requests must have in common to get the same entry.
//!
//! Called by: `request`, `cached_route`, purges and the server's cache commands.
//! Caveat: a key is the URL as requested (scheme, host, port, normalized path, query without
//! ignored parameters), then what answers it (rules may send two requests for one URL to different
//! scripts), then the variant, then the client's identity for private entries. The parts are
//! separated by a byte that occurs in none of them.
//! Out of scope: hashing, which the store does.

use crate::{override_fields::is_override, record::VaryRecord};
use saker_cache_rules::{
    device::Device,
    lscache::{query::KeyEdits, vary::VaryRules},
    names,
};
use saker_config::model::{Address, Site, SiteName};
use saker_http::{
    HeadView, KnownField, escape, path,
    target::{self, Target},
};
use saker_pipeline::{Client, Exchange, UpstreamTarget, texts};
use std::{
    borrow::Cow,
    net::{IpAddr, SocketAddr},
};

/// Longer keys are not cached (LSCache protocol 4.1).
pub const KEY_BYTES_MAX: usize = 65_535;

pub const BETWEEN: u8 = 0;

/// Room for the usual name of what answers.
const ANSWERS_BYTES: usize = 96;

pub const HEX: [u8; 16] = *b"0123456789abcdef";

/// The part that all keys of one URL share, without the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBase {
    /// The scope of purges: the site.
    pub scope: Vec<u8>,
    /// `scheme://host:port/path`
    pub url: Vec<u8>,
    /// The upstream, script, or target that answers the request.
    answers: Vec<u8>,
    /// Phones, tablets and other browsers get different pages.
    pub by_device: bool,
    /// Values of this client that the upstream or program gets are part of the key.
    pub is_of_client: bool,
}

impl KeyBase {
    /// `None`: the target is not a path, or a value that what answers gets can't be known.
    pub fn of(exchange: &Exchange, edits: &KeyEdits) -> Option<KeyBase> {
        let view = exchange.head.view();
        let path = match target::split(view.method(), view.target()).ok()? {
            Target::Origin { path, .. } | Target::Absolute { path, .. } => path,
            Target::Asterisk | Target::Authority(_) => return None,
        };
        let path = edits.edited_path(path);
        let url = url(&exchange.client, &exchange.host, path);
        let mut answers = answers(exchange, edits);
        let is_of_client = add_told(exchange, &mut answers)?;
        add_spelling(exchange, &url, path, &mut answers);
        add_addresses(exchange, &mut answers);
        let by_device = exchange.routing.settings.cache.varies_by_device;
        Some(KeyBase {
            scope: scope(&exchange.routing.site, exchange.routing.site_index),
            url,
            answers,
            by_device,
            is_of_client,
        })
    }

    /// True if a page with that scope and key is of the same site and URL.
    pub fn is_of_page(&self, scope: &[u8], key: &[u8]) -> bool {
        let rest = key.strip_prefix(self.url.as_slice());
        let is_url = rest.is_some_and(|rest| matches!(rest.first(), Some(&(BETWEEN | b'?'))));
        self.scope == scope && is_url
    }

    /// Makes the content of a request part of all keys; `digest` stands for it.
    pub fn add_content(&mut self, digest: &[u8]) {
        self.answers.extend_from_slice(b" content ");
        self.answers.extend_from_slice(digest);
    }

    /// `scheme://host:port`
    pub fn origin(&self) -> &[u8] {
        let after_scheme = memchr::memmem::find(&self.url, b"://").map_or(0, |at| at + 3);
        let rest = self.url.get(after_scheme..).unwrap_or_default();
        let end = memchr::memchr(b'/', rest).map_or(self.url.len(), |at| after_scheme + at);
        self.url.get(..end).unwrap_or_default()
    }

    /// The URL with its query, by which it is purged.
    pub fn with_query(&self, query: Option<&[u8]>) -> Vec<u8> {
        let mut key = self.url.clone();
        if let Some(query) = query {
            key.push(b'?');
            key.extend_from_slice(query);
        }
        key
    }

    /// Another URL of the same host, spelled as in keys.
    pub fn url_of(&self, exchange: &Exchange, target: &[u8], edits: &KeyEdits) -> Vec<u8> {
        let end = target
            .iter()
            .position(|byte| *byte == b'?')
            .unwrap_or(target.len());
        let mut key = url(
            &exchange.client,
            &exchange.host,
            edits.edited_path(&target[..end]),
        );
        if let Some(query) = edits.edited(target.get(end + 1..)) {
            key.push(b'?');
            key.extend_from_slice(&query);
        }
        key
    }

    /// The key for this URL and query with a vary string.
    pub fn key(&self, query: Option<&[u8]>, vary: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.usual_bytes() + vary.len());
        self.key_into(query, &mut key, |out| out.extend_from_slice(vary));
        key
    }

    /// Room for most keys of this URL.
    pub fn usual_bytes(&self) -> usize {
        self.url.len() + self.answers.len() + 64
    }

    /// Writes the key into `out`, replacing its content.
    pub fn key_into(
        &self,
        query: Option<&[u8]>,
        out: &mut Vec<u8>,
        vary: impl FnOnce(&mut Vec<u8>),
    ) {
        out.clear();
        out.extend_from_slice(&self.url);
        if let Some(query) = query {
            out.push(b'?');
            out.extend_from_slice(query);
        }
        out.push(BETWEEN);
        out.extend_from_slice(&self.answers);
        out.push(BETWEEN);
        vary(out);
    }
}

/// The scope of a site's purges.
pub fn scope(site: &Site, index: usize) -> Vec<u8> {
    let first_name = match site.names.first() {
        Some(SiteName::Exact(name)) => Some(Cow::Borrowed(&**name)),
        // Distinct from a site of the bare name.
        Some(SiteName::Wildcard(name)) => Some(Cow::Owned(format!("*.{name}"))),
        Some(SiteName::Any) | None => None,
    };
    names::scope(first_name.as_deref(), index)
}

pub fn vary_key(key_base: &KeyBase, query: Option<&[u8]>) -> Vec<u8> {
    key_base.key(query, b"sign")
}

pub fn variant_key(
    key_base: &KeyBase,
    query: Option<&[u8]>,
    rewrite_env: &VaryRules,
    ignored_cookies: &[String],
    vary_record: &VaryRecord,
    view: HeadView<'_>,
) -> Option<Vec<u8>> {
    let variant = match (vary_record.is_one, &vary_record.rules) {
        (true, _) => one_variant(view, key_base.by_device),
        (false, Some(rules)) => variant(view, &rules.over(rewrite_env), key_base.by_device),
        (false, None) => variant(view, rewrite_env, key_base.by_device),
    };
    let fields = vary_record
        .vary()?
        .secondary_key_without(view, ignored_cookies);
    let key = with_fields(key_base.key(query, &variant), &fields);
    (key.len() <= KEY_BYTES_MAX).then_some(key)
}

/// Adds the values of further request fields that the response varies by.
pub fn with_fields(mut key: Vec<u8>, fields: &[u8]) -> Vec<u8> {
    key.push(BETWEEN);
    key.extend_from_slice(b"fields ");
    fields.iter().for_each(|byte| {
        key.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]])
    });
    key
}

/// Adds the client's identity, for a private entry.
pub fn with_identity(key: &[u8], client_identity: &[u8]) -> Vec<u8> {
    [key, &[BETWEEN], b"visitor ", client_identity].concat()
}

/// The variant for a client, by its vary cookie and what rules and responses have named.
pub fn variant(view: HeadView<'_>, rules: &VaryRules, by_device: bool) -> Vec<u8> {
    let mut out = Vec::new();
    variant_into(view, rules, by_device, &mut out);
    out
}

/// Appends the variant to `out`. Without cookies and named rules, it is the bare name of the vary
/// cookie.
pub fn variant_into(view: HeadView<'_>, rules: &VaryRules, by_device: bool, out: &mut Vec<u8>) {
    match view.has(KnownField::Cookie) || !rules.cookies.is_empty() || rules.value.is_some() {
        true => rules.string_into(view, out),
        false => out.extend_from_slice(b"_lscache_vary;"),
    }
    others_into(view, by_device, out);
}

/// The variant where cookies and rules make no difference.
pub fn one_variant(view: HeadView<'_>, by_device: bool) -> Vec<u8> {
    let mut out = Vec::new();
    others_into(view, by_device, &mut out);
    out
}

fn others_into(view: HeadView<'_>, by_device: bool, out: &mut Vec<u8>) {
    if by_device {
        out.push(BETWEEN);
        out.extend_from_slice(b"device ");
        out.extend_from_slice(device(view).name().as_bytes());
        // An application may go by any of several lines, so it shares no page with one line's.
        for further in view.all("User-Agent").skip(1) {
            out.push(b',');
            out.extend_from_slice(Device::of(Some(further)).name().as_bytes());
        }
    }
    overrides_into(view, out);
}

pub fn device(view: HeadView<'_>) -> Device {
    Device::of(view.first("User-Agent"))
}

/// The URL as sent, where the key has another spelling: the application sees it as it was sent and
/// may use it in the response (links with a port, a redirect to the canonical spelling). Purges
/// cover all spellings.
fn add_spelling(exchange: &Exchange, url: &[u8], raw_path: &[u8], out: &mut Vec<u8>) {
    let field = exchange
        .head
        .view()
        .known(KnownField::Host)
        .unwrap_or_default();
    if field != exchange.host {
        out.extend_from_slice(b" host ");
        out.extend_from_slice(field);
    }
    if !url.ends_with(raw_path) {
        out.extend_from_slice(b" path ");
        out.extend_from_slice(raw_path);
    }
    // The byte separates the parts of the key.
    out.retain(|byte| *byte != BETWEEN);
}

/// Adds the site if other addresses with its port lead to other sites: the URL has the port but no
/// address, and such sites may share names, or get requests for another one's. The separator occurs in
/// no part. Servers of a cluster share the pages of other sites whatever their addresses.
fn add_addresses(exchange: &Exchange, out: &mut Vec<u8>) {
    let routing = &exchange.routing;
    let site = &routing.site;
    if !site.is_by_address.get() {
        return;
    }
    let of_listeners = site.listeners.iter().filter_map(|listener| match listener {
        Address::Tcp(address) => Some(address),
        Address::Unix(_) => None,
    });
    let addresses = || of_listeners.clone().chain(&site.local_addresses);
    let has_v4 = addresses().any(SocketAddr::is_ipv4);
    let before = out.len();
    for address in addresses() {
        match address.ip() {
            // The port is part of the URL; sites for all addresses are apart by name.
            ip if ip.is_unspecified() && (ip.is_ipv4() || has_v4) => continue,
            IpAddr::V4(ip) => push_hex(&ip.octets(), out),
            IpAddr::V6(ip) => push_hex(&ip.octets(), out),
        }
        push_hex(&address.port().to_be_bytes(), out);
    }
    for listener in &site.listeners {
        if let Address::Unix(path) = listener {
            push_hex(path.as_os_str().as_encoded_bytes(), out);
        }
    }
    if out.len() > before {
        push_hex(&scope(site, routing.site_index), out);
    }
}

fn push_hex(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b' ');
    for byte in bytes {
        out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

/// Appends override fields to `out`; for most requests, nothing.
fn overrides_into(view: HeadView<'_>, out: &mut Vec<u8>) {
    for (name, value) in view.fields() {
        if is_override(name) {
            out.push(BETWEEN);
            out.extend(name.iter().map(u8::to_ascii_lowercase));
            out.push(b':');
            out.extend(value.iter().filter(|byte| **byte != BETWEEN));
        }
    }
}

fn url(client: &Client, host: &[u8], raw_path: &[u8]) -> Vec<u8> {
    let mut url = Vec::with_capacity(host.len() + raw_path.len() + 16);
    url.extend_from_slice(if client.secure {
        b"https://"
    } else {
        b"http://"
    });
    url.extend_from_slice(host);
    push_port(client.local.port(), &mut url);
    if is_plain_path(raw_path) {
        url.extend_from_slice(raw_path);
        return url;
    }
    let mut decoded = Vec::with_capacity(raw_path.len());
    match path::normalize(raw_path, &mut decoded) {
        Ok(()) => escape::uri_path(&decoded, &mut url),
        // Rules let it pass unchanged (encoded slashes).
        Err(_) => url.extend_from_slice(raw_path),
    }
    url
}

fn push_port(port: u16, url: &mut Vec<u8>) {
    url.push(b':');
    let at = url.len();
    let mut left = port;
    loop {
        url.push(b'0' + (left % 10) as u8);
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if let Some(digits) = url.get_mut(at..) {
        digits.reverse();
    }
}

/// True for paths that normalizing and escaping leave as they are: segments of letters, digits,
/// `-`, `_` and dots inside.
fn is_plain_path(path: &[u8]) -> bool {
    path.first() == Some(&b'/')
        && path
            .iter()
            .fold((true, b'a'), |(is_plain, before), byte| {
                let is_plain = is_plain
                    && match byte {
                        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => true,
                        b'/' | b'.' => before != b'/',
                        _ => false,
                    };
                (is_plain, *byte)
            })
            .0
}

/// Adds the values that the configuration tells upstreams and programs about this client
/// (`upstream_headers`, `environment`): an application answers by them, and no `Vary` can name
/// them, since the client has not sent them. Behind conditions of a route, all values are about the
/// client, and so are those that rules have made for the request. Returns true if some depend on
/// the client by themselves; `None`: one can't be evaluated.
fn add_told(exchange: &Exchange, answers: &mut Vec<u8>) -> Option<bool> {
    let (settings, site) = (&exchange.routing.settings, &exchange.routing.site);
    let route = exchange.routing.route.and_then(|at| site.routes.get(at));
    let is_chosen = route.is_some_and(|route| route.matcher.is_some());
    let fields = settings.upstream_fields.iter();
    let fields = fields.filter_map(|edit| Some((&edit.name, edit.action.text()?)));
    let variables = settings.variables.iter();
    let told = fields.chain(variables.map(|variable| (&variable.name, &variable.value)));
    let mut is_of_client = false;
    for (name, text) in told {
        let differs = text.differs_by_client();
        is_of_client |= differs;
        if !differs && (!is_chosen || text.constant().is_none()) {
            continue;
        }
        let value = texts::value(text, exchange).ok()?;
        add_one_told(name.as_bytes(), &value, answers);
    }
    for (name, value) in exchange.upstream.own_fields.iter() {
        is_of_client = true;
        add_one_told(name, value, answers);
    }
    Some(is_of_client)
}

/// With its length, so that no value is read as a name and a value.
fn add_one_told(name: &[u8], value: &[u8], answers: &mut Vec<u8>) {
    answers.extend_from_slice(b" told ");
    answers.extend_from_slice(name);
    answers.extend_from_slice(format!(" {} ", value.len()).as_bytes());
    answers.extend_from_slice(value);
}

/// Adds the query if rules have changed it: the URL of the key has the one that was sent.
fn add_changed_query(exchange: &Exchange, answers: &mut Vec<u8>) {
    let view = exchange.head.view();
    let asked = saker_http::target::split(view.method(), view.target());
    if let Ok(Target::Origin { query, .. } | Target::Absolute { query, .. }) = asked
        && query != exchange.query.as_deref()
    {
        answers.push(b'?');
        answers.extend_from_slice(exchange.query.as_deref().unwrap_or_default());
    }
}

fn answers(exchange: &Exchange, edits: &KeyEdits) -> Vec<u8> {
    let Some(call) = &exchange.upstream.call else {
        return Vec::new();
    };
    let mut answers = Vec::with_capacity(ANSWERS_BYTES);
    if let UpstreamTarget::Upstream(upstream) = &call.to {
        answers.extend_from_slice(upstream.name.as_bytes());
    }
    answers.push(b' ');
    match &call.script {
        Some(script) => {
            answers.extend_from_slice(&script.filename);
            answers.push(b' ');
            answers.extend_from_slice(&script.path_info);
            add_changed_query(exchange, &mut answers);
        }
        None => {
            let end = call
                .target
                .iter()
                .position(|byte| *byte == b'?')
                .unwrap_or(call.target.len());
            answers.extend_from_slice(edits.edited_path(&call.target[..end]));
            add_changed_query(exchange, &mut answers);
        }
    }
    // A response for one error status is not reused for another.
    if let Some(error) = exchange.log.stands_in_for {
        answers.extend_from_slice(format!(" for {}", error.0).as_bytes());
    }
    answers
}
