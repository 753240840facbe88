//! Compression dictionaries (RFC 9842): static files and stored pages that a client has are the
//! dictionary for their next versions.
//!
//! Called by: the pipeline, as the last filter: what it changes is complete.
//! Caveat: only content that is the same for all clients is compressed with a dictionary or becomes
//! one: files and shared pages that no rule about clients was asked for, for requests without
//! credentials, and never for other sites (section 9.3). Requests without `Available-Dictionary` keep their cached route.
//! Out of scope: streams (pages on their way into the cache); the encoder (`saker_content`).

use saker_ap_expr::{Predicate, RequestPart};
use saker_cache_rules::rules::structured::{Item, Member, dictionary as structured};
use saker_content::{
    coded_fields::{describe_as, is_compressible},
    dictionary::{DICTIONARY_BYTES_MAX, DictionaryHash, DictionaryStore, parse_hash},
};
use saker_http::{Fields, HeadView, KnownField, Method, Status, chars::trim_ows};
use saker_net::jobs::{self, JobKind};
use saker_pipeline::{Body, Chunk, Exchange, Filter, LocalFuture, Response, ResponseHead};
use std::{os::unix::fs::FileExt, sync::Arc};

const AVAILABLE: &str = "Available-Dictionary";
const USE_AS: &str = "Use-As-Dictionary";
const DCZ: &str = "dcz";

/// Request fields that browsers send without knowing a secret.
const OPEN_FIELDS: [&str; 5] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "available-dictionary",
    "sec-fetch-site",
];

/// The filter. Does nothing for sites without `dictionaries`.
pub struct Dictionaries(pub Arc<DictionaryStore>);

impl Filter for Dictionaries {
    fn name(&self) -> &'static str {
        "dictionaries"
    }

    fn takes_ready(&self, exchange: &Exchange) -> bool {
        exchange.routing.settings.compression.dictionaries
    }

    fn apply<'a>(
        &'a self,
        exchange: &'a mut Exchange,
        response: &'a mut Response,
    ) -> LocalFuture<'a, ()> {
        if !self.takes_ready(exchange) {
            return saker_pipeline::done();
        }
        let is_for_all = is_for_all(exchange, response);
        let is_available = exchange.head.view().first(AVAILABLE).is_some();
        exchange.depends_on_field_test(AVAILABLE, Predicate::Present, is_available);
        let is_offered = response.fields().has(USE_AS);
        if !is_available && !is_offered {
            return saker_pipeline::done();
        }
        if !is_for_all {
            // For other requests, this route may teach or use a dictionary: they come here, too.
            exchange.cache.cached_route = None;
            return saker_pipeline::done();
        }
        Box::pin(async move {
            if is_offered {
                self.learn(exchange, response).await;
            }
            if is_available {
                self.encode(exchange, response).await;
                // Such requests come here each time.
                exchange.cache.cached_route = None;
            }
        })
    }
}

impl Dictionaries {
    /// Keeps a response that says that clients may use it as a dictionary.
    async fn learn(&self, exchange: &Exchange, response: &Response) {
        if !is_dictionary(response.fields()) {
            return;
        }
        let (store, origin) = (Arc::clone(&self.0), origin(exchange));
        let name = response.fields().first("Content-Encoding");
        let name = name.map(<[u8]>::to_vec);
        if let Some(read) = reader(&response.body, DICTIONARY_BYTES_MAX as u64) {
            let learning = jobs::run(JobKind::Encoding, None, move |_| {
                if let Some(content) = read() {
                    store.learn(&origin, name.as_deref(), &content);
                }
            });
            // A job that did not run leaves the client without a dictionary, nothing else.
            let _ = learning.await;
        }
    }

    /// Compresses the response with the dictionary that the client has.
    async fn encode(&self, exchange: &mut Exchange, response: &mut Response) {
        let compression = &exchange.routing.settings.compression;
        let (level, bytes_max) = (compression.zstd_level, compression.max_bytes);
        let tags = compression.tags;
        let view = exchange.head.view();
        let is_worth = response
            .fields()
            .first("Content-Type")
            .is_some_and(|value| is_compressible(compression, value));
        let wanted = is_worth
            .then(|| wanted(view))
            .flatten()
            .and_then(|hash| Some((hash, self.0.find(&origin(exchange), &hash)?)));
        // Whatever comes of it: other requests may get other bytes (section 6.2).
        for name in ["Accept-Encoding", AVAILABLE] {
            response.fields_mut().add_token("Vary", name);
        }
        let Some((hash, dictionary)) = wanted else {
            return;
        };
        let name = response.fields().first("Content-Encoding");
        let name = name.map(<[u8]>::to_vec);
        let (Some(read), Some(length)) =
            (reader(&response.body, bytes_max), response.body.length())
        else {
            return;
        };
        let store = Arc::clone(&self.0);
        let making = jobs::run(JobKind::Encoding, None, move |_| {
            let content = read()?;
            let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
            let named = (name.as_deref(), content.as_slice());
            store.encoded((&hash, &dictionary), level, named, bytes_max)
        });
        let Some(made) = making.await.ok().flatten() else {
            return;
        };
        let is_changed = matches!(&response.body, Body::File(part)
            if part.check.as_ref().is_some_and(|check| !check.still_valid()));
        if made.len() as u64 >= length || is_changed {
            return;
        }
        exchange.trace("respond", None, || {
            "compressed with a dictionary (dcz)".into()
        });
        let fields = response.fields_mut();
        describe_as(fields, DCZ, tags);
        fields.set("Content-Length", made.len().to_string().into_bytes());
        response.body = Body::Memory(Chunk::from(made.to_vec()));
    }
}

/// True for a complete file or a stored shared page, sent to a client of the same site that the
/// server does not know.
fn is_for_all(exchange: &Exchange, response: &Response) -> bool {
    let view = exchange.head.view();
    let is_own_site = view
        .first("Sec-Fetch-Site")
        .is_none_or(|site| matches!(site, b"same-origin" | b"none"));
    let is_shared = !exchange.upstream.is_answered_by_program || exchange.cache.is_shared_page;
    view.method() == Method::Get
        && response.status == Status::OK
        && matches!(response.head, ResponseHead::Ready(_))
        && is_shared
        && is_own_site
        && !is_selective(exchange)
        && exchange.access.user.is_none()
        && !view.has(KnownField::Authorization)
        && !has_certificate(exchange)
        && may_be_shared(response.fields())
}

/// True unless it is certain that all clients get this outcome. Who may not have a file could guess
/// its content, and learn from what `Available-Dictionary` does that another client has it.
fn is_selective(exchange: &Exchange) -> bool {
    let settings = &exchange.routing.settings;
    let has_access_rules = settings
        .guard
        .as_ref()
        .is_some_and(|guard| !guard.admittance.is_idle());
    exchange.cache.request_dependent
        || has_access_rules
        || settings.auth.is_some()
        || settings.authorize.is_some()
        || exchange.access.auth_state.is_some()
        || exchange
            .cache
            .request_tests
            .iter()
            .any(|test| may_select_clients(&test.part))
}

/// True for parts that may prove who the client is: its address, a signature in the query, or a
/// field with a secret, which can have any name.
fn may_select_clients(part: &RequestPart) -> bool {
    match part {
        RequestPart::Method
        | RequestPart::Version
        | RequestPart::TlsServerName
        | RequestPart::Secure => false,
        RequestPart::Field(name) => !OPEN_FIELDS.contains(&&**name),
        RequestPart::ClientAddress
        | RequestPart::LocalAddress
        | RequestPart::Query
        | RequestPart::RequestLine => true,
    }
}

fn has_certificate(exchange: &Exchange) -> bool {
    let session = exchange.client.session.as_ref();
    session.is_some_and(|session| !session.client_certificates.is_empty())
}

fn may_be_shared(fields: &Fields) -> bool {
    let control = fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("Cache-Control"));
    let is_personal = control
        .flat_map(|(_, value)| value.split(|byte| *byte == b','))
        .map(|part| part.split(|byte| *byte == b'=').next().unwrap_or_default())
        .any(|word| {
            ["private", "no-store", "no-transform"]
                .iter()
                .any(|known| trim_ows(word).eq_ignore_ascii_case(known.as_bytes()))
        });
    let has_digest = ["Content-Digest", "Repr-Digest", "Digest", "Content-MD5"]
        .iter()
        .any(|name| fields.has(name));
    !is_personal && !has_digest && !fields.has("Set-Cookie") && !fields.has("Content-Range")
}

/// True if the field is valid (section 2.1): a pattern, and a type that is known.
fn is_dictionary(fields: &Fields) -> bool {
    let lines = fields
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case(USE_AS))
        .map(|(_, value)| value);
    let Some(members) = structured(lines) else {
        return false;
    };
    let member = |key: &[u8]| {
        members
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, member)| member)
    };
    let has_pattern = matches!(member(b"match"), Some(Member::Item(Item::String(_))));
    let is_raw = match member(b"type") {
        None => true,
        Some(Member::Item(Item::Token(kind))) => kind == b"raw",
        Some(_) => false,
    };
    has_pattern && is_raw
}

/// The hash of the client's dictionary, if the client accepts `dcz` and asks for the whole.
fn wanted(view: HeadView<'_>) -> Option<DictionaryHash> {
    let mut values = view.all(AVAILABLE);
    let (Some(value), None) = (values.next(), values.next()) else {
        return None;
    };
    let accepts = view
        .lines(KnownField::AcceptEncoding)
        .flat_map(|line| line.split(|byte| *byte == b','))
        .any(accepts_dcz);
    let hash = accepts.then(|| parse_hash(value)).flatten();
    hash.filter(|_| !view.has(KnownField::Range))
}

/// True for `dcz` with a weight above zero.
fn accepts_dcz(member: &[u8]) -> bool {
    let mut parts = member.split(|byte| *byte == b';').map(trim_ows);
    let is_named = parts
        .next()
        .is_some_and(|name| name.eq_ignore_ascii_case(DCZ.as_bytes()));
    let is_refused = parts.any(|part| {
        part.get(..2)
            .is_some_and(|name| name.eq_ignore_ascii_case(b"q="))
            && part[2..].iter().all(|byte| matches!(byte, b'0' | b'.'))
    });
    is_named && !is_refused
}

/// `scheme://host:port`
fn origin(exchange: &Exchange) -> Vec<u8> {
    let scheme: &[u8] = match exchange.client.secure {
        true => b"https://",
        false => b"http://",
    };
    let port = exchange.client.local.port().to_string();
    [scheme, &exchange.host, b":", port.as_bytes()].concat()
}

/// A function for a job that reads a body of known length. `None`: it is too long, or a stream.
fn reader(body: &Body, bytes_max: u64) -> Option<Box<dyn FnOnce() -> Option<Vec<u8>> + Send>> {
    match body {
        Body::Memory(chunk) if chunk.len() as u64 <= bytes_max => {
            let bytes = chunk.bytes().to_vec();
            Some(Box::new(move || Some(bytes)))
        }
        Body::File(part) if part.length <= bytes_max => {
            let (file, offset) = (part.file.try_clone().ok()?, part.offset);
            let mut bytes = vec![0; usize::try_from(part.length).ok()?];
            Some(Box::new(move || {
                file.read_exact_at(&mut bytes, offset).ok().map(|()| bytes)
            }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use saker_http::{RequestHead, Version};

    #[test]
    fn fields_that_offer_a_dictionary() {
        let rows = [
            ("match=\"/js/*\"", true),
            (
                "match=\"/*\", match-dest=(\"document\"), id=\"a\", type=raw",
                true,
            ),
            ("id=\"a\"", false),
            ("match=/js", false),
            ("match=\"/\", type=other", false),
            ("match=\"/\", type=\"raw\"", false),
            ("match=\"/", false),
        ];
        for (value, want) in rows {
            let mut fields = Fields::new();
            fields.append(USE_AS, value.as_bytes().to_vec());
            assert_eq!(is_dictionary(&fields), want, "{value}");
        }
    }

    #[test]
    fn clients_that_want_dcz() {
        let hash = ":pZGm1Av0IEBKARczz7exkNYsZb8LzaMrV7J32a2fFG4=:";
        let rows: [(&[(&str, &str)], bool); 8] = [
            (&[("Accept-Encoding", "gzip, dcz")], true),
            (&[("Accept-Encoding", "DCZ;q=0.5")], true),
            (&[("Accept-Encoding", "dcz;q=0.0")], false),
            (&[("Accept-Encoding", "dcz; Q=0")], false),
            (&[("Accept-Encoding", "br, dcb")], false),
            (&[("Accept-Encoding", "dcz"), ("Range", "bytes=0-1")], false),
            (&[("Accept-Encoding", "dcz"), (AVAILABLE, hash)], false),
            (&[], false),
        ];
        for (fields, want) in rows {
            let fields = [fields, &[(AVAILABLE, hash)]].concat();
            let head = RequestHead::build("GET", "/", Version::Http11, &fields);
            assert_eq!(wanted(head.view()).is_some(), want, "{fields:?}");
        }
    }

    #[test]
    fn fields_of_personal_responses() {
        let rows = [
            ("Cache-Control", "max-age=60", true),
            ("Cache-Control", "max-age=60, Private", false),
            ("Cache-Control", "private=\"x\"", false),
            ("Cache-Control", "no-store", false),
            ("Cache-Control", "no-transform", false),
            ("Set-Cookie", "a=1", false),
            ("Repr-Digest", "x", false),
            ("ETag", "\"a\"", true),
        ];
        for (name, value, want) in rows {
            let mut fields = Fields::new();
            fields.append(name, value.as_bytes().to_vec());
            assert_eq!(may_be_shared(&fields), want, "{name}: {value}");
        }
    }
}
