//! What requests must have in common to get the same entry.
//!
//! A key is the URL as the client asked for it (scheme, host, port, path in one spelling, query
//! without what was left out), then what answers it in the end (rules may send two clients'
//! requests for one URL to different scripts), then the variant, then the visitor where the entry
//! is his alone. Parts are told apart by bytes that none of them holds.

use crate::{override_fields::is_override, record::VaryRecord};
use saker_cache_rules::{
    device::Device,
    lscache::{query::KeyEdits, vary::VaryRules},
    names,
};
use saker_config::model::{Site, SiteName};
use saker_http::{
    HeadView, KnownField, escape, path,
    target::{self, Target},
};
use saker_pipeline::{CallTo, Client, Exchange};

/// A longer one is not cached (LSCache protocol 4.1).
pub const KEY_BYTES_MAX: usize = 65_535;

pub const BETWEEN: u8 = 0;

pub const HEX: [u8; 16] = *b"0123456789abcdef";

/// What keys of one URL have in common, without its query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBase {
    /// As far as purges of the site reach.
    pub scope: Vec<u8>,
    /// `scheme://host:port/path`
    pub url: Vec<u8>,
    /// What answers in the end.
    answers: Vec<u8>,
    /// Phones, tablets and other browsers get pages of their own.
    pub by_device: bool,
}

impl KeyBase {
    /// `None`: the target is not a path.
    pub fn of(exchange: &Exchange, edits: &KeyEdits) -> Option<KeyBase> {
        let view = exchange.head.view();
        let path = match target::split(view.method(), view.target()).ok()? {
            Target::Origin { path, .. } | Target::Absolute { path, .. } => path,
            Target::Asterisk | Target::Authority(_) => return None,
        };
        let path = edits.edited_path(path);
        let url = url(&exchange.client, &exchange.host, path);
        let answers = [answers(exchange), spelling(exchange, &url, path)].concat();
        let by_device = exchange.settings.cache.varies_by_device;
        Some(KeyBase {
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
        (false, Some(rules)) => variant(view, rules, key_base.by_device),
        (false, None) => variant(view, rewrite_env, key_base.by_device),
    };
    let fields = vary_record
        .vary()?
        .secondary_key_without(view, ignored_cookies);
    let key = with_fields(key_base.key(query, &variant), &fields);
    (key.len() <= KEY_BYTES_MAX).then_some(key)
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
pub fn with_identity(key: &[u8], client_identity: &[u8]) -> Vec<u8> {
    [key, &[BETWEEN], b"visitor ", client_identity].concat()
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
