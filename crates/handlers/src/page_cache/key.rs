//! What requests must have in common to get the same entry.
//!
//! A key is the URL as the client asked for it (scheme, host, port, path in one spelling, query
//! without what was left out), then what answers it in the end (rules may send two clients'
//! requests for one URL to different scripts), then the variant, then the visitor where the entry
//! is his alone. Parts are told apart by bytes that none of them holds.

use saker_cache_rules::{
    device::Device,
    lscache::{query::KeyEdits, settings::LscacheSettings, vary::VaryRules, visitor},
    names,
};
use saker_config::model::{Site, SiteName};
use saker_http::{
    HeadView, KnownField, escape,
    field_name::{is_alike, is_alike_any},
    path, target,
    target::Target,
};
use saker_pipeline::{CallTo, Client, Exchange};

/// A longer one is not cached (LSCache protocol 4.1).
pub const KEY_BYTES_MAX: usize = 65_535;
const BETWEEN: u8 = 0;
const HEX: [u8; 16] = *b"0123456789abcdef";

/// What keys of one URL have in common, without its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// As far as purges of the site reach.
    pub scope: Vec<u8>,
    /// `scheme://host:port/path`
    url: Vec<u8>,
    /// What answers in the end.
    answers: Vec<u8>,
    /// Phones, tablets and other browsers get pages of their own.
    pub by_device: bool,
}

impl Place {
    /// `None`: the target is not a path.
    pub fn of(exchange: &Exchange, edits: &KeyEdits) -> Option<Place> {
        let view = exchange.head.view();
        let path = match target::split(view.method(), view.target()).ok()? {
            Target::Origin { path, .. } | Target::Absolute { path, .. } => path,
            Target::Asterisk | Target::Authority(_) => return None,
        };
        let path = edits.edited_path(path);
        let url = url(&exchange.client, &exchange.host, path);
        let answers = [answers(exchange), spelling(exchange, &url, path)].concat();
        let by_device = exchange.settings.cache.varies_by_device;
        Some(Place {
            scope: scope(&exchange.site, exchange.site_index),
            url,
            answers,
            by_device,
        })
    }

    /// The URL with its query: what it is purged by.
    pub fn with_query(&self, query: Option<&[u8]>) -> Vec<u8> {
        let mut key = self.url.clone();
        if let Some(query) = query {
            key.push(b'?');
            key.extend_from_slice(query);
        }
        key
    }

    /// Another URL of the same host, as keys of its pages have it.
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

    /// The key of everything that answers this URL and query with this vary string.
    pub fn key(&self, query: Option<&[u8]>, vary: &[u8]) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.url.len() + self.answers.len() + vary.len() + 64);
        self.key_into(query, &mut key, |out| out.extend_from_slice(vary));
        key
    }

    /// The same in the place of what is in `out`.
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

/// Of a site: as far as its purges reach.
pub fn scope(site: &Site, index: usize) -> Vec<u8> {
    let first_name = match site.names.first() {
        Some(SiteName::Exact(name)) => Some(name.clone()),
        // Beside a site of the name itself.
        Some(SiteName::Wildcard(name)) => Some(format!("*.{name}")),
        Some(SiteName::Any) | None => None,
    };
    names::scope(first_name.as_deref(), index)
}

/// The same for entries that vary by further fields.
pub fn with_fields(mut key: Vec<u8>, fields: &[u8]) -> Vec<u8> {
    key.push(BETWEEN);
    key.extend_from_slice(b"fields ");
    fields.iter().for_each(|byte| {
        key.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]])
    });
    key
}

/// The same for one visitor's entry.
pub fn with_visitor(key: &[u8], visitor: &[u8]) -> Vec<u8> {
    [key, &[BETWEEN], b"visitor ", visitor].concat()
}

/// The identity of a client, where something identifies it: session cookies, credentials, or what
/// the server itself knows of it.
pub fn visitor(exchange: &Exchange, settings: &LscacheSettings) -> Option<Vec<u8>> {
    let view = exchange.head.view();
    if !view.has(KnownField::Cookie)
        && !view.has(KnownField::Authorization)
        && !is_authenticated(exchange)
    {
        return None;
    }
    let user = exchange.user.as_deref();
    // Keys lie on the disk: of passwords they have a digest.
    let credentials = credentials(view, user).map(|credentials| digest(&credentials));
    let certificate = certificate(exchange).map(digest);
    let granted = granted(exchange).map(digest);
    let known = visitor::Known {
        credentials: credentials.as_deref(),
        user: user.map(str::as_bytes),
        certificate: certificate.as_deref(),
        granted: granted.as_deref(),
    };
    let identity = visitor::identity(view, known, settings)?;
    let address = settings.identity_by_address.then(|| exchange.client.ip());
    Some(saker_cache_rules::lscache::key::visitor_key(
        &identity, address,
    ))
}

/// Whether the server knows the client by something that no field of the request need show: a user,
/// a certificate, an authorization server's word.
pub fn is_authenticated(exchange: &Exchange) -> bool {
    exchange.user.is_some() || certificate(exchange).is_some() || granted(exchange).is_some()
}

fn certificate(exchange: &Exchange) -> Option<&[u8]> {
    exchange
        .client
        .session
        .as_ref()?
        .client_certificates
        .first()
        .map(AsRef::as_ref)
}

fn granted(exchange: &Exchange) -> Option<&[u8]> {
    exchange
        .auth_state
        .as_ref()
        .map(|state| state.identity())
        .filter(|identity| !identity.is_empty())
}

/// All lines of Authorization. Digest's differ from request to request (RFC 7616 section 3.4):
/// there the user that was found by them has to do.
fn credentials(view: HeadView<'_>, user: Option<&str>) -> Option<Vec<u8>> {
    let is_changing = |line: &[u8]| {
        user.is_some()
            && line
                .get(..7)
                .is_some_and(|scheme| scheme.eq_ignore_ascii_case(b"digest "))
    };
    let lines: Vec<&[u8]> = view
        .lines(KnownField::Authorization)
        .filter(|line| !is_changing(line))
        .collect();
    (!lines.is_empty()).then(|| lines.join(&BETWEEN))
}

fn digest(secret: &[u8]) -> Vec<u8> {
    use sha2::{Digest, Sha256};
    Sha256::digest(secret)
        .iter()
        .flat_map(|byte| [HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]])
        .collect()
}

/// The variant that a visitor gets by his vary cookie and what rules and responses have named.
pub fn variant(view: HeadView<'_>, rules: &VaryRules, by_device: bool) -> Vec<u8> {
    let mut out = Vec::new();
    variant_into(view, rules, by_device, &mut out);
    out
}

/// The same behind what is in `out`. Who has no cookies, where nothing was named, has the bare name
/// of the vary cookie.
pub fn variant_into(view: HeadView<'_>, rules: &VaryRules, by_device: bool, out: &mut Vec<u8>) {
    match view.has(KnownField::Cookie) || !rules.cookies.is_empty() || rules.value.is_some() {
        true => out.extend_from_slice(&rules.string(view)),
        false => out.extend_from_slice(b"_lscache_vary;"),
    }
    others_into(view, by_device, out);
}

/// What is left of it where cookies and rules make no difference.
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
    }
    overrides_into(view, out);
}

pub fn device(view: HeadView<'_>) -> Device {
    Device::of(view.first("User-Agent"))
}

/// The URL as it was written, where that is not how it stands in the key: the application is told
/// it as it came, and may answer with it (links with a port, the listener's own or another; a
/// redirect to the usual spelling). Purges reach all spellings.
fn spelling(exchange: &Exchange, url: &[u8], raw_path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
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
    out.retain(|byte| *byte != BETWEEN);
    out
}

/// Families of fields by which proxies tell applications what was asked of them: all names that
/// begin so, but for those about the client's address, which are different for each client and
/// steer no page.
const FAMILIES: [&str; 8] = [
    "x-forwarded-",
    "x-original-",
    "x-rewrite-",
    "x-http-",
    "x-override-",
    "x-auth-",
    "x-ssl-",
    "cloudfront-forwarded-",
];
const ADDRESSES: [&str; 8] = [
    "for",
    "forwarded-for",
    "for-original",
    "ip",
    "client-ip",
    "clientip",
    "remote-addr",
    "remote-ip",
];

/// Others of that kind, by their first letter.
const OTHERS: [&str; 37] = [
    "base-url",
    "cf-visitor",
    "fastly-ssl",
    "forwarded",
    "front-end-https",
    "http-url",
    "https",
    "proxy-host",
    "proxy-url",
    "remote-user",
    "request-uri",
    "ssl-https",
    "uri",
    "url",
    "x-arr-ssl",
    "x-backend-host",
    "x-client-proto",
    "x-client-scheme",
    "x-forwarded",
    "x-host",
    "x-https",
    "x-method-override",
    "x-path",
    "x-proto",
    "x-real-host",
    "x-remote-user",
    "x-request-uri",
    "x-request-url",
    "x-scheme",
    "x-script-name",
    "x-server-name",
    "x-ssl",
    "x-uri",
    "x-url",
    "x-url-scheme",
    "x-user",
    "x-webauth-user",
];

/// True for fields by which proxies tell applications what was asked of them (scheme, host, port,
/// path, method) and by whom. A client that sends one may get another page, and must not leave it
/// to others: name and value are part of the key. Names that programs can't tell apart are one.
pub fn is_override(name: &[u8]) -> bool {
    let may_be =
        matches!(name.first(), Some(first) if b"bcfhprsux".contains(&first.to_ascii_lowercase()));
    may_be && (is_alike_any(name, &OTHERS) || is_in_family(name))
}

fn is_in_family(name: &[u8]) -> bool {
    let rest = FAMILIES.iter().find_map(|family| {
        let (start, rest) = name.split_at_checked(family.len())?;
        is_alike(start, family.as_bytes()).then_some(rest)
    });
    rest.is_some_and(|rest| !is_alike_any(rest, &ADDRESSES))
}

/// Behind what is in `out`; nothing for almost everybody.
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
    url.extend_from_slice(format!(":{}", client.local.port()).as_bytes());
    let mut decoded = Vec::with_capacity(raw_path.len());
    match path::normalise(raw_path, &mut decoded) {
        Ok(()) => escape::uri_path(&decoded, &mut url),
        // One that rules let pass as it is (encoded slashes).
        Err(_) => url.extend_from_slice(raw_path),
    }
    url
}

fn answers(exchange: &Exchange) -> Vec<u8> {
    let Some(call) = &exchange.call else {
        return Vec::new();
    };
    let mut answers = match &call.to {
        CallTo::Upstream(upstream) => upstream.name.as_bytes().to_vec(),
        CallTo::Process(_) => Vec::new(),
    };
    answers.push(b' ');
    match &call.script {
        Some(script) => {
            answers.extend_from_slice(&script.filename);
            answers.push(b' ');
            answers.extend_from_slice(&script.path_info);
            let asked = saker_http::target::split(
                exchange.head.view().method(),
                exchange.head.view().target(),
            );
            if let Ok(Target::Origin { query, .. } | Target::Absolute { query, .. }) = asked
                && query != exchange.query.as_deref()
            {
                answers.push(b'?');
                answers.extend_from_slice(exchange.query.as_deref().unwrap_or_default());
            }
        }
        None => {
            let end = call
                .target
                .iter()
                .position(|byte| *byte == b'?')
                .unwrap_or(call.target.len());
            answers.extend_from_slice(&call.target[..end]);
        }
    }
    // What is said of an error is said of no other.
    if let Some(error) = exchange.stands_in_for {
        answers.extend_from_slice(format!(" for {}", error.0).as_bytes());
    }
    // The parts of a key are told apart by it.
    answers.retain(|byte| *byte != BETWEEN);
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_steer_pages() {
        for name in [
            "X-Forwarded-Host",
            "x_forwarded_host",
            "X-Forwarded-Uri",
            "X-Forwarded-Path",
            "X-Forwarded-Scheme",
            "X-Forwarded-User",
            "Forwarded",
            "CF-Visitor",
            "CloudFront-Forwarded-Proto",
            "X-Scheme",
            "X-Original-URI",
            "X-Original-URL",
            "X-Rewrite-URL",
            "X-HTTP-Host-Override",
            "X-HTTP-Method",
            "X.HTTP.Method.Override",
            "X-Method-Override",
            "Front-End-Https",
            "HTTPS",
        ] {
            assert!(is_override(name.as_bytes()), "{name}");
        }
        for name in [
            "X-Forwarded-For",
            "X_Forwarded_For",
            "X-Original-Forwarded-For",
            "X-Forwarded-Client-Ip",
            "X-Requested-With",
            "Host",
            "Cookie",
            "User-Agent",
            "Upgrade-Insecure-Requests",
            "Referer",
            "Priority",
            "Sec-Fetch-Mode",
            "X-Forwarde",
            "",
        ] {
            assert!(!is_override(name.as_bytes()), "{name}");
        }
    }
}
