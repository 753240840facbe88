//! Builds the head of an entry: its key, its tags, and what its URL varies by.
//!
//! Called by: `write`.
//! Caveat: a URL whose responses vary has a vary record that leads to its variants, and the next
//! response must not lose what was known before.
//! Out of scope: writing the files.

use crate::{
    decide::Decision,
    record::{By, Record, VaryRecord},
    refusal::Refusal,
    request::CacheRequest,
    tags::{PRIVATE, mark, private_probe},
};
use saker_cache_rules::{
    lscache::{self, vary::VaryRules, visible},
    names,
    rules::{Vary, fields as rule_fields, groups, tags as rule_tags},
};
use saker_cache_store::EntryHead;
use saker_content::coding;
use saker_http::{Fields, HeadView, date::format_date};
use saker_pipeline::{Exchange, Response};

/// Time that an expired fragment stays usable if it can't be fetched again, in milliseconds.
const LAST_GOOD_MS: i64 = 86_400_000;

/// A vary record to be written, and the key of the single entry that it replaces.
pub struct NewVaryRecord {
    pub first: Vec<u8>,
    pub key: Vec<u8>,
    pub vary_record: VaryRecord,
}

/// The head of the entry, and the vary record where one has to be written.
pub fn prepare(
    request: &CacheRequest,
    exchange: &Exchange,
    response: &Response,
    decision: &Decision,
) -> Result<(EntryHead, Option<NewVaryRecord>), Refusal> {
    let (fields, view) = (response.fields(), exchange.head.view());
    let vary_record = vary_record(request, fields, decision)?;
    let (key, new_vary) = place(request, view, vary_record, decision.is_private)?;
    let tags = tags(request, fields, decision)?;
    let kept = kept_fields(request, fields, decision);
    let head = EntryHead {
        key,
        site: request.key_base.scope.clone(),
        tags,
        keep_until_ms: u64::try_from(decision.life.keep_until_ms.saturating_add(
            if request.include.is_some() {
                LAST_GOOD_MS
            } else {
                0
            },
        ))
        .unwrap_or(0),
        purge_seq: 0,
        began: 0,
        probes: probes(request, decision),
        status: response.status.0,
        rules: Record::Page {
            by: decision.by,
            is_private: decision.is_private,
            is_template: decision.is_template,
            life: decision.life.clone(),
        }
        .encode(),
        fields: kept
            .iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value.to_vec()))
            .collect(),
    };
    Ok((head, new_vary))
}

/// The entry's key, and the vary record that leads to it where that is not known.
fn place(
    request: &CacheRequest,
    view: HeadView<'_>,
    vary_record: VaryRecord,
    is_private: bool,
) -> Result<(Vec<u8>, Option<NewVaryRecord>), Refusal> {
    let first = match is_private {
        true => request.private_key(view),
        false => request.make_first_key(view),
    };
    let first = first.ok_or_else(too_long)?;
    if !vary_record.is_needed() {
        return Ok((first, None));
    }
    let (variant, sign) = match is_private {
        // The record takes the place of the client's single page.
        true => (
            request.private_variant_key(&vary_record, view),
            first.clone(),
        ),
        false => (request.variant_key(&vary_record, view), request.vary_key()),
    };
    let is_new = known(request, is_private) != Some(&vary_record);
    let new_vary = is_new.then_some(NewVaryRecord {
        first,
        key: sign,
        vary_record,
    });
    Ok((variant.ok_or_else(too_long)?, new_vary))
}

/// The known vary record of the URL, or of the client's private pages of it.
fn known(request: &CacheRequest, is_private: bool) -> Option<&VaryRecord> {
    match is_private {
        true => request.private_vary.as_deref(),
        false => request.vary_record.as_deref(),
    }
}

/// The fields of the entry.
fn kept_fields(request: &CacheRequest, fields: &Fields, decision: &Decision) -> Fields {
    let mut kept = rule_fields::stored_fields(fields, &decision.life, &request.settings.http);
    if decision.by == By::Lscache {
        visible::strip_for_store(&mut kept);
    }
    // These are added to each response.
    for name in ["Server", "Accept-Ranges"] {
        kept.remove(name);
    }
    // Codings are made here, except for one that can't be removed.
    if stored_coding(fields).is_none() {
        kept.remove("Content-Encoding");
    }
    if decision.by == By::Http && !kept.has("Date") {
        // RFC 9110 section 6.6.1: the time of receipt stands in for it.
        let received_s = decision.life.stored_ms.div_euclid(1000);
        kept.set("Date", format_date(received_s).to_vec());
    }
    kept
}

/// The content coding that an entry keeps: one that only the client can decode.
pub fn stored_coding(fields: &Fields) -> Option<&[u8]> {
    fields
        .first("Content-Encoding")
        .filter(|name| !coding::is_decodable(name))
}

fn too_long() -> Refusal {
    Refusal::new("key", "its key is too long")
}

/// The vary record for responses of this URL, including what was known before.
fn vary_record(
    request: &CacheRequest,
    fields: &Fields,
    decision: &Decision,
) -> Result<VaryRecord, Refusal> {
    let vary_all = || Refusal::new("vary-all", "Vary is `*` or malformed");
    let vary = Vary::of(fields).ok_or_else(vary_all)?;
    // LSCache protocol 4.3: cookies are named one by one, and Origin selects no variant, unless the
    // settings name them.
    let makes_another =
        |name: &str| decision.by == By::Http || !matches!(name, "cookie" | "origin");
    let named = vary.iter().filter(|name| makes_another(name));
    let vary = Vary::new(named.map(str::to_owned).collect())
        .and_then(|vary| vary.and(&request.settings.http.key_fields))
        .ok_or_else(vary_all)?;
    let own = VaryRecord {
        fields: vary.iter().map(str::to_owned).collect(),
        rules: if decision.by == By::Lscache {
            VaryRules::of_response(fields)
        } else {
            None
        },
        // A client's pages stay apart by its cookies.
        is_one: decision.is_one && !decision.is_private,
        since: 0,
    };
    let known = known(request, decision.is_private);
    Ok(known.map_or(own.clone(), |known| own.joined(known)))
}

/// Tags of the entry, including those that every entry has: site and URL.
fn tags(
    request: &CacheRequest,
    fields: &Fields,
    decision: &Decision,
) -> Result<Vec<Vec<u8>>, Refusal> {
    let too_many = || Refusal::new("tags", "it has too many tags");
    let of_all = rule_tags::tags(fields).map_err(|_| too_many())?;
    let own = match decision.by {
        By::Lscache => lscache::tags::tags(fields, decision.is_private).map_err(|_| too_many())?,
        By::Http => lscache::tags::Tags::default(),
    };
    let url = request.url_tag();
    let mut tags: Vec<Vec<u8>> = Vec::new();
    let private = |tag: &[u8]| [&[PRIVATE], tag].concat();
    match decision.is_private {
        true => tags.extend([private(names::ALL), private(&url)]),
        false => tags.extend([names::ALL.to_vec(), url]),
    }
    if request.search_rule.is_some() {
        let asked = request.asked_query.as_deref();
        tags.push(names::url_tag(&request.key_base.with_query(asked)));
    }
    if decision.by == By::Http && !decision.is_private {
        let origin = request.key_base.origin();
        let groups = groups::of_response(fields).map_err(|_| too_many())?;
        tags.extend(groups.iter().map(|name| names::group(origin, name)));
    }
    let included = tags_of_include(request, decision).map_err(|_| too_many())?;
    tags.extend(
        own.private
            .iter()
            .chain(&included.private)
            .map(|tag| private(&names::tag(tag))),
    );
    tags.extend(
        own.public
            .iter()
            .chain(&included.public)
            .chain(&of_all)
            .map(|tag| names::tag(tag)),
    );
    Ok(tags)
}

/// Tags set by the include element, as if the fragment had set them.
fn tags_of_include(
    request: &CacheRequest,
    decision: &Decision,
) -> Result<lscache::tags::Tags, rule_tags::TooManyTags> {
    let mut named = Fields::new();
    if let Some(list) = request
        .include
        .as_ref()
        .and_then(|include| include.hints.cache_tag.clone())
    {
        named.append(lscache::tags::TAG, list);
    }
    lscache::tags::tags(&named, decision.is_private)
}

/// Probes that an entry made from the response may have.
pub fn expected_probes(request: &CacheRequest) -> [u64; 2] {
    let private = request
        .private_scope()
        .map_or(0, |scope| mark(&scope, names::ALL).0);
    [probe_of_url(request), private]
}

/// The probe of the request's URL.
pub fn probe_of_url(request: &CacheRequest) -> u64 {
    mark(&request.key_base.scope, &request.url_tag()).0
}

fn probes(request: &CacheRequest, decision: &Decision) -> [u64; 2] {
    match request.private_scope().filter(|_| decision.is_private) {
        Some(scope) => [
            mark(&scope, names::ALL).0,
            private_probe(&request.key_base.scope).0,
        ],
        None => [probe_of_url(request), 0],
    }
}
